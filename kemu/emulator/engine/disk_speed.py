"""How fast a disk writes, where that is limited: one write after the other, each as long as its size takes.

Whole numbers only: what is left of a write is counted in millionths of a byte. Another speed counts from now on, also
for what is left of the write that is under way. Where no disk is limited this is not there, and writes take the time
of an append alone.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from kemu.emulator.chance import Entry
from kemu.emulator.engine.agenda import Agenda

MILLION = 1_000_000

W = TypeVar("W")


class DiskSpeed(Generic[W]):
    """The writes that wait for a disk, in order. ``written`` is told of each that the disk has taken."""

    def __init__(self, agenda: Agenda, written: Callable[[W], None]) -> None:
        self._agenda = agenda
        self._written = written
        self.bytes_per_s = 0
        """0: as fast as it is asked to."""
        self._waiting: deque[tuple[int, W]] = deque()
        """Bytes, and what is written."""
        self._left = 0
        """Of the first, in millionths of a byte."""
        self._since_us = 0
        """Up to when its progress is counted."""
        self._due = 0
        """The number of the agenda's entry that matters; older ones are stale."""

    def limit(self, bytes_per_s: int, now_us: int) -> None:
        """From now on it writes so many bytes a second; 0: what waits is written now, and nothing waits any more."""
        self._progress(now_us)
        self.bytes_per_s = bytes_per_s
        if not bytes_per_s:
            waiting, self._waiting = self._waiting, deque()
            for _, write in waiting:
                self._written(write)
        self._plan(now_us)

    def take(self, size: int, write: W, now_us: int) -> None:
        """Write so many bytes, after all that waits."""
        self._waiting.append((size, write))
        if len(self._waiting) == 1:
            self._left, self._since_us = size * MILLION, now_us
            self._plan(now_us)

    def forget(self) -> None:
        """What waits is gone: the power went, or the disk."""
        self._waiting.clear()
        self._due = 0

    def _progress(self, now_us: int) -> None:
        self._left -= (now_us - self._since_us) * self.bytes_per_s
        self._since_us = now_us

    def _plan(self, now_us: int) -> None:
        """Look again when the first is written."""
        self._due = 0
        if self._waiting:
            wait_us = -(-max(self._left, 0) // self.bytes_per_s)
            self._due = self._agenda.push_in_order(now_us + wait_us, self._first_written, None)

    def _first_written(self, entry: Entry) -> None:
        if entry[2] != self._due:
            return
        _, write = self._waiting.popleft()
        if self._waiting:
            self._left, self._since_us = self._waiting[0][0] * MILLION, entry[0]
        self._plan(entry[0])
        self._written(write)
