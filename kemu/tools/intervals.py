"""Confidence intervals of medians over seeds: exact intervals of order statistics, from SciPy's binomial distribution.

The median lies between the r-th smallest and the r-th largest of n independent values with a known probability. It
depends on n and r alone: each value is above the median or below, as in a throw of a coin. Fewer than six values give
no interval with 95 %. Fewer than 59 values give no 95th percentile: their largest may lie below it (0.95 ** 59 < 5 %).

SciPy is part of the extras ``stats``, ``spark`` and ``dev``; only an interval imports it.
"""

import statistics
from collections.abc import Sequence

from attrs import evolve, frozen

CONFIDENCE = 0.95
FEWEST = 6
"""The smallest number of values that give an interval."""
FEWEST_FOR_P95 = 59
"""The smallest number of values that give a 95th percentile."""


class ScipyMissing(Exception):
    """SciPy is not installed, and an interval needs it; the message has the command that installs it."""

    def __init__(self) -> None:
        super().__init__("intervals of medians need scipy: pip install 'kemu[stats]'")


@frozen
class Spread:
    """Values over seeds. ``low`` to ``high`` contains the median of their distribution with at least 95 %.

    A field is None if there are too few values for it.
    """

    values: int
    median: float
    low: float | None
    high: float | None
    p95: float | None
    largest: float

    @classmethod
    def without_interval(cls, values: Sequence[float]) -> "Spread":
        """Return the values' spread without ``low`` and ``high``, which need SciPy."""
        ordered, rank = sorted(values), p95_rank(len(values))
        p95 = None if rank is None else ordered[rank - 1]
        return cls(len(ordered), statistics.median(ordered), None, None, p95, ordered[-1])


def median_ranks(count: int) -> tuple[int, int] | None:
    """Return the ranks (1: smallest) of the two values that enclose the median; None: too few values.

    Raises:
        ScipyMissing: SciPy is not installed.
    """
    if count < FEWEST:
        return None
    try:
        from scipy.stats import binom
    except ImportError:
        raise ScipyMissing from None
    rank = int(binom.ppf((1 - CONFIDENCE) / 2, count, 0.5))
    assert 1 <= rank <= count // 2, f"ranks of {count} values"
    return rank, count + 1 - rank


def p95_rank(count: int) -> int | None:
    """Return the rank of the 95th percentile (nearest rank); None: too few values."""
    return -(-95 * count // 100) if count >= FEWEST_FOR_P95 else None


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of values over seeds.

    Raises:
        ScipyMissing: SciPy is not installed.
    """
    plain, ranks = Spread.without_interval(values), median_ranks(len(values))
    if ranks is None:
        return plain
    ordered = sorted(values)
    return evolve(plain, low=ordered[ranks[0] - 1], high=ordered[ranks[1] - 1])


def differs(differences: Sequence[float]) -> bool | None:
    """Return whether the median of paired differences is not 0, with at most 5 % errors; None: too few values.

    Raises:
        ScipyMissing: SciPy is not installed.
    """
    found = spread(differences)
    return None if found.low is None or found.high is None else found.low > 0 or found.high < 0
