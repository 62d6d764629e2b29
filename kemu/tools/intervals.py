"""How sure a median over seeds is: exact intervals of order statistics, with SciPy's binomial distribution.

Of n independent values the median lies between the r-th smallest and the r-th largest with a probability that depends
on n and r alone, whatever the values' distribution: n values are n throws of a coin. Below six no two values enclose it
with 95 %, so none are named. A 95th percentile is named from 59 values on: with fewer, their largest may well be below
it (0.95 ** 59 < 5 %).

SciPy is in the extras ``stats``, ``spark`` and ``dev``, not in the core; it is imported when an interval is asked for.
"""

import statistics
from collections.abc import Sequence

from attrs import evolve, frozen

CONFIDENCE = 0.95
FEWEST = 6
"""Below so many values no interval is claimed."""
FEWEST_FOR_P95 = 59
"""Below so many no 95th percentile is."""


class ScipyMissing(Exception):
    """An interval was asked for and SciPy is not installed; the message says how to get it."""

    def __init__(self) -> None:
        super().__init__("intervals of medians need scipy: pip install 'kemu[stats]'")


@frozen
class Spread:
    """Some values over seeds: ``low`` to ``high`` holds their distribution's median with at least 95 %.

    None where there are too few values to say.
    """

    values: int
    median: float
    low: float | None
    high: float | None
    p95: float | None
    largest: float

    @classmethod
    def without_interval(cls, values: Sequence[float]) -> "Spread":
        """What needs no SciPy."""
        ordered, rank = sorted(values), p95_rank(len(values))
        p95 = None if rank is None else ordered[rank - 1]
        return cls(len(ordered), statistics.median(ordered), None, None, p95, ordered[-1])


def median_ranks(count: int) -> tuple[int, int] | None:
    """The ranks (1 = smallest) of the two of so many values between which the median lies; None: too few values.

    Raises:
        ScipyMissing: see there.
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
    """The rank of the 95th percentile by nearest rank; None: too few values."""
    return -(-95 * count // 100) if count >= FEWEST_FOR_P95 else None


def spread(values: Sequence[float]) -> Spread:
    """What values over seeds say.

    Raises:
        ScipyMissing: see there.
    """
    told, ranks = Spread.without_interval(values), median_ranks(len(values))
    if ranks is None:
        return told
    ordered = sorted(values)
    return evolve(told, low=ordered[ranks[0] - 1], high=ordered[ranks[1] - 1])


def differs(differences: Sequence[float]) -> bool | None:
    """Whether paired differences have a median other than 0, wrongly for at most one in twenty; None: too few.

    Raises:
        ScipyMissing: see there.
    """
    told = spread(differences)
    return None if told.low is None or told.high is None else told.low > 0 or told.high < 0
