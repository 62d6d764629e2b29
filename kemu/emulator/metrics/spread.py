"""A distribution of weighted values in bounded memory, for quantiles of record delays."""

from collections.abc import Iterable

_BITS = 11
"""Number of leading binary digits kept of a value. A quantile is at most 1/1024 below the exact quantile."""


class WeightedSpread:
    """A distribution of whole numbers from 0, each with its number of occurrences.

    Values below 2048 are exact; larger values keep their first eleven binary digits, as in HdrHistogram. So at most
    about ten thousand different values are stored. The largest value is exact.
    """

    __slots__ = ("_counts", "largest", "total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.total = 0
        """Number of values."""
        self.largest = 0

    def add(self, value: int, times: int) -> None:
        """Add ``times`` occurrences of a value."""
        assert value >= 0 and times > 0, (value, times)
        shift = value.bit_length() - _BITS
        kept = value >> shift << shift if shift > 0 else value
        counts = self._counts
        counts[kept] = counts.get(kept, 0) + times
        self.total += times
        if value > self.largest:
            self.largest = value

    def merge(self, others: "Iterable[WeightedSpread]") -> "WeightedSpread":
        """Add all values of another distribution."""
        for other in others:
            for value, times in other._counts.items():
                self._counts[value] = self._counts.get(value, 0) + times
            self.total += other.total
            self.largest = max(self.largest, other.largest)
        return self

    def percentile(self, percent: int) -> int | None:
        """The percentile by nearest rank; None without values."""
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
