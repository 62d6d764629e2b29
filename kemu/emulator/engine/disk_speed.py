"""Limited write speed of a disk: writes are sequential, and the duration of a write is its size divided by the speed.

All arithmetic is in integers: the rest of a write is counted in millionths of a byte. A change of speed applies at
once, also to the rest of the present write. A disk without a limit has no ``DiskSpeed``, and each write takes
``append_us``.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from kemu.emulator.chance import Entry
from kemu.emulator.engine.agenda import Agenda

MILLION = 1_000_000

W = TypeVar("W")


class DiskSpeed(Generic[W]):
    """The writes that wait for a disk, in order. ``written`` is called with each finished write."""

    def __init__(self, agenda: Agenda, written: Callable[[W], None]) -> None:
        self._agenda = agenda
        self._written = written
        self.bytes_per_s = 0
        """Write speed in bytes per second; 0 means no limit."""
        self._waiting: deque[tuple[int, W]] = deque()
        """The waiting writes as (size in bytes, write)."""
        self._left = 0
        """The unwritten part of the first write, in millionths of a byte."""
        self._since_us = 0
        """Time up to which ``_left`` is up to date."""
        self._due = 0
        """Number of the agenda's entry for the end of the first write; earlier entries are stale."""

    def limit(self, bytes_per_s: int, now_us: int) -> None:
        """Set the speed in bytes per second; 0 removes the limit and finishes all waiting writes now."""
        self._progress(now_us)
        self.bytes_per_s = bytes_per_s
        if not bytes_per_s:
            waiting, self._waiting = self._waiting, deque()
            for _, write in waiting:
                self._written(write)
        self._plan(now_us)

    def take(self, size: int, write: W, now_us: int) -> None:
        """Queue a write of ``size`` bytes."""
        self._waiting.append((size, write))
        if len(self._waiting) == 1:
            self._left, self._since_us = size * MILLION, now_us
            self._plan(now_us)

    def forget(self) -> None:
        """Drop all waiting writes, after a power cut or the loss of the disk."""
        self._waiting.clear()
        self._due = 0

    def _progress(self, now_us: int) -> None:
        self._left -= (now_us - self._since_us) * self.bytes_per_s
        self._since_us = now_us

    def _plan(self, now_us: int) -> None:
        """Add an entry to the agenda for the end of the first write."""
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
