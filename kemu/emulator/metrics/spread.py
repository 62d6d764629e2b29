"""A distribution of weighted values in bounded space: quantiles of record delays, the same for the same values."""

from collections.abc import Iterable

_BITS = 11
"""Of a value's digits in base 2, so many are kept: a quantile is at most 1/1024 below the true one."""


class WeightedSpread:
    """Values (whole numbers, 0 or more) with how often each came.

    Values below 2048 are kept as they are, others to their first eleven binary digits (as HdrHistogram does), so there
    are at most some ten thousand different ones however many are added. The largest is exact.
    """

    __slots__ = ("_counts", "largest", "total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.total = 0
        """How many values."""
        self.largest = 0

    def add(self, value: int, times: int) -> None:
        """So many more of a value."""
        assert value >= 0 and times > 0, (value, times)
        shift = value.bit_length() - _BITS
        kept = value >> shift << shift if shift > 0 else value
        self._counts[kept] = self._counts.get(kept, 0) + times
        self.total += times
        if value > self.largest:
            self.largest = value

    def merge(self, others: "Iterable[WeightedSpread]") -> "WeightedSpread":
        """All values of some others come in, too."""
        for other in others:
            for value, times in other._counts.items():
                self._counts[value] = self._counts.get(value, 0) + times
            self.total += other.total
            self.largest = max(self.largest, other.largest)
        return self

    def percentile(self, percent: int) -> int | None:
        """By nearest rank: the smallest value that at least so many per cent are not above; None of no values."""
        wanted = -(-percent * self.total // 100)
        if not wanted:
            return None
        if wanted == self.total:
            return self.largest
        so_far = 0
        for value in sorted(self._counts):
            so_far += self._counts[value]
            if so_far >= wanted:
                return value
        raise AssertionError("the counts make up the total")
