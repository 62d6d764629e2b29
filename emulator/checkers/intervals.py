"""Sets of offsets as ranges: small while work goes forward, whatever the number of records."""

from bisect import bisect_left, bisect_right


class Intervals:
    """A set of whole numbers kept as sorted, disjoint, non-touching ranges ``[first, last)``."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> None:
        """Put ``first .. last - 1`` in; an empty range changes nothing."""
        if first >= last:
            return
        firsts, lasts = self._firsts, self._lasts
        if firsts and firsts[-1] <= first <= lasts[-1]:  # the common case: work goes on where it stopped
            lasts[-1] = max(lasts[-1], last)
            return
        low = bisect_left(lasts, first)
        high = bisect_right(firsts, last)
        if low < high:
            first = min(first, firsts[low])
            last = max(last, lasts[high - 1])
        firsts[low:high] = [first]
        lasts[low:high] = [last]

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of ``[first, last)`` that are not in the set."""
        missing = []
        for index in range(bisect_right(self._lasts, first), len(self._firsts)):
            if self._firsts[index] >= last:
                break
            if self._firsts[index] > first:
                missing.append((first, self._firsts[index]))
            first = self._lasts[index]
        if first < last:
            missing.append((first, last))
        return missing
