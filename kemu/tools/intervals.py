"""Exact confidence intervals of medians over seeds, by order statistics.

Of n independent values, the number below the median is binomial (n, 1/2), for any distribution. So the probability
that the median lies between the r-th smallest and the r-th largest depends on n and r alone. Below six values no two
of them enclose the median with 95 %, so there is no interval. A 95th percentile needs 59 values: with
fewer, the largest may well be below it (0.95 ** 59 < 5 %).
"""

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from kemu.protocol.frozen import frozen

CONFIDENCE = 0.95
FEWEST = 6
"""Fewest values for an interval of the median."""
FEWEST_FOR_P95 = 59
"""Fewest values for a 95th percentile."""


@frozen
class Spread:
    """Values over seeds; ``low`` to ``high`` holds the median of their distribution with at least 95 %.

    ``low``, ``high`` and ``p95`` are None where there are too few values.
    """

    values: int
    median: float
    low: float | None
    high: float | None
    p95: float | None
    largest: float


@lru_cache(maxsize=256)
def median_ranks(count: int) -> tuple[int, int] | None:
    """The ranks (1 = smallest) of the two values that enclose the median with 95 %; None: too few values."""
    if count < FEWEST:
        return None
    rank = _binomial_quantile((1 - CONFIDENCE) / 2, count)
    assert 1 <= rank <= count // 2, f"ranks of {count} values"
    return rank, count + 1 - rank


def _binomial_quantile(share: float, count: int) -> int:
    """The smallest k with P(X <= k) >= ``share``, for X binomial (``count``, 1/2)."""
    log_all, below = count * math.log(2), 0.0
    for k in range(count + 1):
        log_ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        below += math.exp(log_ways - log_all)
        if below >= share:
            return k
    raise AssertionError(f"no quantile of {count} at {share}")


def p95_rank(count: int) -> int | None:
    """The rank of the 95th percentile by nearest rank; None: too few values."""
    return -(-95 * count // 100) if count >= FEWEST_FOR_P95 else None


def spread(values: Sequence[float]) -> Spread:
    """The median of values over seeds with its interval, the 95th percentile, and the largest value."""
    ordered, ranks, rank = sorted(values), median_ranks(len(values)), p95_rank(len(values))
    low, high = (None, None) if ranks is None else (ordered[ranks[0] - 1], ordered[ranks[1] - 1])
    p95 = None if rank is None else ordered[rank - 1]
    return Spread(len(ordered), statistics.median(ordered), low, high, p95, ordered[-1])


def differs(differences: Sequence[float]) -> bool | None:
    """Whether paired differences have a median other than 0, wrongly for at most one in twenty; None: too few."""
    told = spread(differences)
    return None if told.low is None or told.high is None else told.low > 0 or told.high < 0
