"""What a group's log holds of one thing, by position: an election may take its end away, or bring it back."""

from typing import Generic, TypeVar

from kemu.emulator.watching.logs import WatchedLogs

T = TypeVar("T")


class GroupRecords(Generic[T]):
    """Values as records of a group's log say them, oldest first; none where positions are not told."""

    __slots__ = ("_gone", "_held")

    def __init__(self) -> None:
        self._held: list[tuple[int, T]] = []
        """(position in the group's log, value)."""
        self._gone: list[tuple[int, T, int]] = []
        """(position, value, leader epoch) of those that the log has lost."""

    def write(self, position: int, value: T) -> None:
        """The next record, unless its position is not told (-1)."""
        if position >= 0:
            self._held.append((position, value))

    def last(self, nothing: T) -> T:
        """What the last record says; ``nothing`` without one."""
        return self._held[-1][1] if self._held else nothing

    def follow(self, logs: WatchedLogs) -> bool:
        """Lose and regain what the log has just lost and regained; whether that changes the last record.

        What may be there or not does not count.
        """
        before = self._held[-1:]
        cut = logs.cut
        while cut is not None and self._held and self._held[-1][0] >= cut:
            position, value = self._held.pop()
            self._gone += [(position, value, epoch) for first, end, epoch in logs.lost if first <= position < end]
        back = [
            one
            for one in self._gone
            if any(first <= one[0] < end and one[2] == epoch for first, end, epoch in logs.back)
        ]
        if back:
            self._gone = [one for one in self._gone if one not in back]
            self._held = sorted([*self._held, *[(position, value) for position, value, _ in back]], key=_position)
        if logs.unsure is not None:
            first, end = logs.unsure
            self._held = [one for one in self._held if not first <= one[0] < end]
        return self._held[-1:] != before


def _position(record: tuple[int, T]) -> int:
    return record[0]
