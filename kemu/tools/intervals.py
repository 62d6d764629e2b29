"""Exact confidence intervals of medians over seeds, by order statistics.

Of n independent values, the number of values below the median has the binomial distribution (n, 1/2). So n and r alone
decide the probability that the median lies between the r-th smallest and the r-th largest value. Fewer than six values
give no interval with 95 % confidence. A 95th percentile needs 59 values: the largest of 58 values is below the
percentile with a probability above 5 % (0.95 ** 58).
"""

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from kemu.protocol.frozen import frozen

CONFIDENCE = 0.95
FEWEST = 6
"""Smallest number of values that gives an interval of the median."""
FEWEST_FOR_P95 = 59
"""Smallest number of values that gives a 95th percentile."""


@frozen
class Spread:
    """A summary of values, one for each seed: ``low`` and ``high`` are the 95 % confidence interval of the median.

    ``low``, ``high`` and ``p95`` are None if the number of values is too small.
    """

    values: int
    median: float
    low: float | None
    high: float | None
    p95: float | None
    largest: float


@lru_cache(maxsize=256)
def median_ranks(count: int, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """The ranks (1 = smallest) of the two values that enclose the median with a confidence; None: too few values."""
    if count < fewest(confidence):
        return None
    rank = _binomial_quantile((1 - confidence) / 2, count)
    assert 1 <= rank <= count // 2, f"ranks of {count} values"
    return rank, count + 1 - rank


def fewest(confidence: float = CONFIDENCE) -> int:
    """The smallest number of values that gives an interval of the median with a confidence."""
    return math.ceil(1 - math.log2(1 - confidence))


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
    """The rank (1 = smallest) of the 95th percentile by the nearest-rank method; None: too few values."""
    return -(-95 * count // 100) if count >= FEWEST_FOR_P95 else None


def spread(values: Sequence[float], confidence: float = CONFIDENCE) -> Spread:
    """The median of values over seeds with its interval, the 95th percentile, and the largest value.

    ``confidence``: of the interval, in place of 95 %.
    """
    ordered, ranks, rank = sorted(values), median_ranks(len(values), confidence), p95_rank(len(values))
    low, high = (None, None) if ranks is None else (ordered[ranks[0] - 1], ordered[ranks[1] - 1])
    p95 = None if rank is None else ordered[rank - 1]
    return Spread(len(ordered), statistics.median(ordered), low, high, p95, ordered[-1])


def differs(differences: Sequence[float]) -> bool | None:
    """Whether the 95 % interval of the median of paired differences excludes 0; None: too few differences."""
    told = spread(differences)
    return None if told.low is None or told.high is None else told.low > 0 or told.high < 0
