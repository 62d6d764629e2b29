"""Tests of ranks and ranges: whether Kafka's values are draws from the emulator's values.

If both sides are alike, the rank of Kafka's value among the values of the emulator's runs is uniform between 0 and 1.

The durations of one run depend on each other: a late first heartbeat delays each later rebalance, and a rebalance is a
part of the downtime. A test for independent ranks (Kolmogorov-Smirnov) would reject two of three equal systems at 5 %.
So ``exchangeability`` tests whole runs, and only the ranks of one row over several runs of Kafka are tested one by one.
"""

import math
import statistics
from collections.abc import Iterable, Sequence

from attrs import frozen

from lab.conformance.comparing import Comparison, Place, RowMark

LEAST_RUNS = 3
"""Least number of runs of Kafka for a test of one row."""


@frozen
class RowTest:
    """The test of one row over several runs of Kafka. ``p_ranks``: uniformity of the ranks (Kolmogorov-Smirnov)."""

    plan: str
    name: str
    runs: int
    p_ranks: float


@frozen
class RangeCoverage:
    """Kafka's durations in the 5-95 % ranges of the emulator's runs.

    ``expected``, ``deviation``: mean and standard deviation of the number ``inside`` for an equal system.
    """

    inside: int
    durations: int
    expected: float
    deviation: float


def coverage(compared: Iterable[Comparison]) -> RangeCoverage:
    """Count the durations in the 5-95 % ranges, and what an equal system would have.

    The durations of one run depend on each other, so their number varies more than a binomial number. The emulator's
    runs take the place of Kafka's run one by one: mean and variance of their shares are those of an equal system.
    """
    inside = durations = 0
    expected = variance = 0.0
    for plan in compared:
        if plan.places and (kafka := plan.places[0]):
            shares = [statistics.fmean(each.is_inside for each in run) for run in plan.places[1:] if run]
            inside += sum(each.is_inside for each in kafka)
            durations += len(kafka)
            expected += len(kafka) * statistics.fmean(shares)
            variance += len(kafka) ** 2 * statistics.pvariance(shares)
    return RangeCoverage(inside, durations, expected, math.sqrt(variance))


def exchangeability(compared: Iterable[Comparison]) -> float:
    """The p-value of a test that Kafka's runs are exchangeable with the emulator's; 1.0 without ranks that vary.

    Each run has two scores: how far its ranks are from 1/2, and how far their squared distances are from 1/12
    (Neyman's smooth test). The first shows a slow or fast emulator, the second one whose durations vary too much or too
    little. If Kafka's run is like the others, its scores are a draw from the scores of all runs in its place. So mean
    and covariance of the sum over the plans are known, whatever depends on what in a run. The sum is nearly normal.
    """
    off_centre = off_width = centre = width = both = 0.0
    for plan in compared:
        if len(plan.places) > 1:
            centres, widths = zip(*map(_scores, plan.places), strict=True)
            off_centre += centres[0] - statistics.fmean(centres)
            off_width += widths[0] - statistics.fmean(widths)
            centre += statistics.pvariance(centres)
            width += statistics.pvariance(widths)
            both += statistics.covariance(centres, widths) * (1 - 1 / len(centres))
    determinant = centre * width - both**2
    if determinant <= 0:
        return 1.0
    squared = (off_centre**2 * width - 2 * off_centre * off_width * both + off_width**2 * centre) / determinant
    return math.exp(-squared / 2)  # chi square with two degrees of freedom


def _scores(places: Sequence[Place]) -> tuple[float, float]:
    """Sums of centred ranks and of their centred squares; a run with many durations weighs no more than independent
    durations would.
    """
    off = [place.rank - 0.5 for place in places]
    weight = math.sqrt(len(off) or 1)
    return sum(off) / weight, sum(each**2 - 1 / 12 for each in off) / weight


def uniformity(ranks: Sequence[float]) -> float:
    """The p-value of the Kolmogorov-Smirnov test of uniform, independent ranks; 1.0 without ranks."""
    from scipy.stats import kstest  # takes 2 s

    return float(kstest(ranks, "uniform").pvalue) if ranks else 1.0


def over_several_runs(compared: Sequence[Comparison]) -> list[RowTest]:
    """A test for each varying number of a plan that Kafka ran several times, smallest p first."""
    ranks: dict[tuple[str, str], list[float]] = {}
    for plan in compared:
        for row in plan.rows:
            if row.rank is not None and row.values > 1 and row.standing is not RowMark.NOT_COMPARED:
                ranks.setdefault((plan.plan, row.name), []).append(row.rank)
    tests = [
        RowTest(plan, name, len(found), uniformity(found))
        for (plan, name), found in ranks.items()
        if len(found) >= LEAST_RUNS
    ]
    return sorted(tests, key=lambda test: (test.p_ranks, test.plan, test.name))
