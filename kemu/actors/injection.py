"""Injected errors in a server's answers: "answer the 2nd SyncGroup of c3 with REBALANCE_IN_PROGRESS".

A part of every server machine. The server does not execute such a request. The note ``AnswerInjected`` reports the
fault.
"""

from kemu.actors.machine import Machine
from kemu.protocol.commands import AnswerNext
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, means
from kemu.protocol.notes.groups import AnswerInjected


class Injections:
    """Pending error answers. Without any, a request costs one test of an empty dict."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._waiting: dict[str, list[_Waiting]] = {}

    def arm(self, command: AnswerNext) -> None:
        """Take a command; only later requests count."""
        self._waiting.setdefault(command.api, []).append(_Waiting(command.sender, max(1, command.nth), command.error))

    def take(self, api: str, sender: ActorName) -> ErrorCode | None:
        """The error to answer this request with, or None to execute it. Call it once per request.

        Each matching command counts the request. If several are due at once, the oldest one answers, and the others
        wait for the next request.
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
