"""Tests of ranks: whether Kafka's values are draws from the emulator's values.

If both sides are alike, the rank of Kafka's value among the values of the emulator's runs is uniform between 0 and 1.

The durations of one run depend on each other: a late first heartbeat delays each later rebalance, and a rebalance is a
part of the downtime. A test for independent ranks (Kolmogorov-Smirnov) would reject two of three equal systems at 5 %.
So ``exchangeability`` tests whole runs, and only the ranks of one row over several runs of Kafka are tested one by one.
"""

import math
import statistics
from collections.abc import Iterable, Sequence

from attrs import frozen

from lab.conformance.comparing import DURATIONS, ComparedRow, Comparison, RowMark, evidence

LEAST_RUNS = 3
"""Least number of runs of Kafka for a test of one row."""


@frozen
class RowTest:
    """The test of one row over several runs of Kafka. ``p_ranks``: uniformity of the ranks (Kolmogorov-Smirnov)."""

    plan: str
    name: str
    runs: int
    p_ranks: float


def exchangeability(compared: Iterable[Comparison]) -> float:
    """The p-value of a test that Kafka's runs are exchangeable with the emulator's; 1.0 without ranks that vary.

    Each run has two scores: how far its ranks are from 1/2, and how far their squared distances are from 1/12
    (Neyman's smooth test). The first shows a slow or fast emulator, the second one whose durations vary too much or too
    little. If Kafka's run is like the others, its scores are a draw from the scores of all runs in its place. So mean
    and covariance of the sum over the plans are known, whatever depends on what in a run. The sum is nearly normal.
    """
    off_centre = off_width = centre = width = both = 0.0
    for plan in compared:
        if len(plan.ranks) > 1:
            centres, widths = zip(*map(_scores, plan.ranks), strict=True)
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


def _scores(ranks: Sequence[float]) -> tuple[float, float]:
    """Sums of centred ranks and of their centred squares; a run with many durations weighs no more than independent
    durations would.
    """
    off = [rank - 0.5 for rank in ranks]
    weight = math.sqrt(len(off) or 1)
    return sum(off) / weight, sum(each**2 - 1 / 12 for each in off) / weight


def uniformity(ranks: Sequence[float]) -> float:
    """The p-value of the Kolmogorov-Smirnov test of uniform, independent ranks; 1.0 without ranks."""
    from scipy.stats import kstest  # takes 2 s

    return float(kstest(ranks, "uniform").pvalue) if ranks else 1.0


def measured(compared: Iterable[Comparison]) -> list[ComparedRow]:
    """The durations that are evidence and have a rank."""
    rows = evidence(row for plan in compared for row in plan.rows)
    return [row for row in rows if row.kind in DURATIONS and row.rank is not None]


def inside(rows: Sequence[ComparedRow]) -> int:
    """Number of rows whose value lies in the 5-95 % range."""
    return sum(row.is_inside for row in rows)


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
