"""Tests of ranks: whether Kafka's values are draws from the emulator's values.

If both sides are alike, the rank of Kafka's value among the values of the emulator's runs is uniform between 0 and 1.
Rows of one run depend on each other (a rebalance is a part of the downtime), so p-values over rows of one run are
approximate. The ranks of one row over several runs of Kafka are independent.
"""

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


def uniformity(ranks: Sequence[float]) -> float:
    """The p-value of the Kolmogorov-Smirnov test of uniform ranks; 1.0 without ranks."""
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
