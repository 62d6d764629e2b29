"""Sets of offsets as ranges. A set stays small while processing advances in order."""

from bisect import bisect_left, bisect_right


class Ranges:
    """A set of whole numbers, kept as sorted, disjoint, non-touching ranges ``[first, last)``.

    An addition at the end of the last range costs one comparison; another addition costs a bisection and a list
    insertion.
    """

    __slots__ = ("_firsts", "lasts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self.lasts: list[int] = []
        """The end of each range."""

    def __iter__(self) -> "zip[tuple[int, int]]":
        """The ranges, lowest first."""
        return zip(self._firsts, self.lasts, strict=True)

    @property
    def total(self) -> int:
        """Number of offsets in the set."""
        return sum(self.lasts) - sum(self._firsts)

    def add(self, first: int, last: int) -> int:
        """Add ``first .. last - 1``; return the number of offsets that were in the set already."""
        if first >= last:
            return 0
        firsts, lasts = self._firsts, self.lasts
        if not firsts or first > lasts[-1]:
            firsts.append(first)
            lasts.append(last)
            return 0
        if first == lasts[-1]:  # the common case: processing continues at the last end
            lasts[-1] = last
            return 0
        low = bisect_left(lasts, first)
        high = bisect_right(firsts, last)
        known = self._covered(low, high, first, last)
        if low < high:
            first = min(first, firsts[low])
            last = max(last, lasts[high - 1])
        firsts[low:high] = [first]
        lasts[low:high] = [last]
        return known

    def truncate(self, end: int) -> int:
        """Remove all offsets from ``end`` on; return the number of removed offsets."""
        keep = bisect_left(self._firsts, end)
        taken = sum(self.lasts[keep:]) - sum(self._firsts[keep:])
        del self._firsts[keep:], self.lasts[keep:]
        if keep and self.lasts[-1] > end:
            taken += self.lasts[-1] - end
            self.lasts[-1] = end
        return taken

    def remove(self, first: int, last: int) -> list[tuple[int, int]]:
        """Remove ``first .. last - 1``; return the ranges that were in the set."""
        taken, kept = [], []
        for start, end in self:
            low, high = max(start, first), min(end, last)
            if low >= high:
                kept.append((start, end))
                continue
            taken.append((low, high))
            kept += [piece for piece in ((start, low), (high, end)) if piece[0] < piece[1]]
        self._firsts = [start for start, _ in kept]
        self.lasts = [end for _, end in kept]
        return taken

    def end_below(self, offset: int) -> int:
        """The end of the numbers below an offset: the last such number + 1; 0 without such a number."""
        index = bisect_left(self._firsts, offset) - 1
        return 0 if index < 0 else min(self.lasts[index], offset)

    def within(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of ``[first, last)`` that are in the set."""
        parts = []
        for index in range(bisect_right(self.lasts, first), len(self._firsts)):
            start, end = max(self._firsts[index], first), min(self.lasts[index], last)
            if start >= end:
                break
            parts.append((start, end))
        return parts

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of ``[first, last)`` that are not in the set."""
        missing = []
        for index in range(bisect_right(self.lasts, first), len(self._firsts)):
            if self._firsts[index] >= last:
                break
            if self._firsts[index] > first:
                missing.append((first, self._firsts[index]))
            first = self.lasts[index]
        if first < last:
            missing.append((first, last))
        return missing

    def _covered(self, low: int, high: int, first: int, last: int) -> int:
        return sum(max(0, min(self.lasts[index], last) - max(self._firsts[index], first)) for index in range(low, high))
