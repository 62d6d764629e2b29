"""Errors a server is told to answer with: "answer the 2nd SyncGroup of c3 with REBALANCE_IN_PROGRESS".

A part of every server machine. The request that is answered so is not executed. Whoever told it learns from the note
``AnswerInjected`` that the fault fired.
"""

from kemu.actors.machine import Machine
from kemu.protocol.commands import AnswerNext
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, means
from kemu.protocol.notes.groups import AnswerInjected


class Injections:
    """What is still to be answered with an error. Costs one test of an empty dict per request when there is nothing."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._waiting: dict[str, list[_Waiting]] = {}

    def arm(self, command: AnswerNext) -> None:
        """Remember a command; only requests from now on count."""
        self._waiting.setdefault(command.api, []).append(_Waiting(command.sender, max(1, command.nth), command.error))

    def take(self, api: str, sender: ActorName) -> ErrorCode | None:
        """The error to answer this request with, or None to execute it. Call it once per request.

        Every waiting command that the request matches counts it. When several are due at once, the oldest answers and
        the others wait for the next request.
        """
        if not self._waiting or api not in self._waiting:
            return None
        waiting = self._waiting[api]
        due: _Waiting | None = None
        for entry in waiting:
            if means(entry.sender, sender):
                entry.left -= 1
                if entry.left <= 0 and due is None:
                    due = entry
        if due is None:
            return None
        waiting.remove(due)
        if not waiting:
            del self._waiting[api]
        self._machine.note(AnswerInjected(api=api, sender=sender, error=due.error))
        return due.error


class _Waiting:
    def __init__(self, sender: str, left: int, error: ErrorCode) -> None:
        self.sender = sender
        self.left = left
        self.error = error
