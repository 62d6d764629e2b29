"""Values in a group's log, by position. An election may truncate the log, or restore its end."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Generic, TypeVar

from kemu.emulator.watching.epoch_log import NO_TERM, EpochLog, Term

T = TypeVar("T")


class GroupRecords(Generic[T]):
    """Values of a group's log, oldest first; empty if positions are not reported."""

    __slots__ = ("_last", "_written")

    def __init__(self) -> None:
        self._written: list[tuple[int, Term, T]] = []
        """(position in the group's log, term of the record, value), ascending."""
        self._last: tuple[int, Term, T] | None = None
        """The last entry of ``_written`` whose record is in the log; None without such an entry."""

    def write(self, position: int, value: T, log: EpochLog) -> None:
        """Add a value with the position of its record in this log, unless the position is unknown (-1)."""
        if position >= 0:
            self._last = position, log.term_at(position), value
            self._written.append(self._last)
            if len(self._written) > 1 and self._written[-2][:2] >= self._last[:2]:
                self._written.sort(key=lambda record: record[:2])

    def forget(self, end: int, logs: Iterable[EpochLog]) -> None:
        """Forget the values before the newest value that all of these logs have below an offset."""
        written, copies = self._written, list(logs)
        index = bisect_left(written, end, key=lambda record: record[0]) - 1
        while index > 0:
            position, term, _ = written[index]
            if all(log.term_at(position) == term != NO_TERM for log in copies):
                del written[:index]
                return
            index -= 1

    def last(self, nothing: T) -> T:
        """The value of the last record; ``nothing`` without a record."""
        return self._last[2] if self._last is not None else nothing

    def follow(self, log: EpochLog) -> bool:
        """Use another log; return whether the last record changes."""
        before = self._last
        in_log = (record for record in reversed(self._written) if log.term_at(record[0]) == record[1] != NO_TERM)
        self._last = next(in_log, None)
        return self._last is not before
