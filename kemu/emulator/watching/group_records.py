"""What a group's log says of one thing, by position: an election may take its end away, or bring it back."""

from typing import Generic, TypeVar

from kemu.emulator.watching.epoch_log import NO_TERM, EpochLog, Term

T = TypeVar("T")


class GroupRecords(Generic[T]):
    """Values as records of a group's log say them, oldest first; none where positions are not told."""

    __slots__ = ("_last", "_written")

    def __init__(self) -> None:
        self._written: list[tuple[int, Term, T]] = []
        """(position in the group's log, term of the record, value), ascending."""
        self._last: tuple[int, Term, T] | None = None
        """The last of them that the log has."""

    def write(self, position: int, value: T, log: EpochLog) -> None:
        """The next record of this log, unless its position is not told (-1)."""
        if position >= 0:
            self._last = position, log.term_at(position), value
            self._written.append(self._last)
            if len(self._written) > 1 and self._written[-2][:2] >= self._last[:2]:
                self._written.sort(key=lambda record: record[:2])

    def last(self, nothing: T) -> T:
        """What the last record says; ``nothing`` without one."""
        return self._last[2] if self._last is not None else nothing

    def follow(self, log: EpochLog) -> bool:
        """The log is another's now; whether that changes the last record."""
        before = self._last
        there = (record for record in reversed(self._written) if log.term_at(record[0]) == record[1] != NO_TERM)
        self._last = next(there, None)
        return self._last is not before
