"""Injected errors in a server's answers: "answer the 2nd SyncGroup of c3 with REBALANCE_IN_PROGRESS".

The module is a part of every server machine. The server does not execute a request with an injected error. The note
``AnswerInjected`` reports the fault.
"""

from kemu.actors.machine import Machine
from kemu.protocol.commands import AnswerNext
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, means
from kemu.protocol.notes.groups import AnswerInjected


class Injections:
    """Pending error answers. Without pending errors, a request costs one test of an empty dict."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._waiting: dict[str, list[_Waiting]] = {}

    def arm(self, command: AnswerNext) -> None:
        """Add a command; the command counts only later requests."""
        self._waiting.setdefault(command.api, []).append(_Waiting(command.sender, max(1, command.nth), command.error))

    def take(self, api: str, sender: ActorName) -> ErrorCode | None:
        """The injected error for this request, or None to execute the request. Call this method once per request.

        Each matching command counts the request. If several commands are due at once, the oldest one determines the
        error, and the others wait for the next request.
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
