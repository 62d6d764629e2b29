"""A distribution of weighted values in bounded memory, for quantiles of record delays."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import add

_BITS = 11
"""Number of leading binary digits kept of a value. A quantile is at most 1/1024 below the exact quantile."""


class WeightedSpread:
    """A distribution of whole numbers from 0, each with its number of occurrences.

    Values below 2048 are exact; larger values keep their first eleven binary digits, as in HdrHistogram. So a value of
    an hour in microseconds needs about twenty thousand counts. The largest value is exact.
    """

    __slots__ = ("_counts", "largest", "total")

    def __init__(self) -> None:
        self._counts: list[int] = []
        """Occurrences by kept value, ascending (``_value``)."""
        self.total = 0
        """Number of values."""
        self.largest = 0

    def add(self, value: int, times: int) -> None:
        """Add ``times`` occurrences of a value."""
        assert value >= 0 and times > 0, (value, times)
        shift = value.bit_length() - _BITS
        index = value if shift <= 0 else (shift << _BITS - 1) + (value >> shift)
        counts = self._counts
        if index >= len(counts):
            counts.extend([0] * (index + 1 - len(counts)))
        counts[index] += times
        self.total += times
        if value > self.largest:
            self.largest = value

    def add_each(self, values: Sequence[int], times: Sequence[int]) -> None:
        """Call ``add`` for each value and its number of occurrences, with less work."""
        if not 0 <= min(values) <= max(values) <= self.largest:
            for value, number in zip(values, times, strict=True):
                self.add(value, number)
            return
        counts = self._counts  # has room for all values up to the largest
        for value, number in zip(values, times, strict=True):
            shift = value.bit_length() - _BITS
            counts[value if shift <= 0 else (shift << _BITS - 1) + (value >> shift)] += number
        self.total += sum(times)

    def merge(self, others: "Iterable[WeightedSpread]") -> "WeightedSpread":
        """Add all values of another distribution."""
        for other in others:
            self._counts.extend([0] * (len(other._counts) - len(self._counts)))
            self._counts[: len(other._counts)] = map(add, self._counts, other._counts)
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
        return _value(bisect_left(list(accumulate(self._counts)), wanted))


def _value(index: int) -> int:
    """The kept value of a count."""
    shift = (index >> _BITS - 1) - 1
    return index if shift <= 0 else index - (shift << _BITS - 1) << shift
