"""Cells against each other: a figure's median and 95th percentile per cell, and paired differences between cells.

Intervals are order statistics: for n values in order, the median lies with 95 % confidence between those of rank
n/2 - 0.98 sqrt(n) and 1 + n/2 + 0.98 sqrt(n) (normal approximation of the binomial; fine from some 20 values on). They
assume nothing about the shape of a figure's distribution, and downtime's is never normal.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

FIGURES = (
    "downtime_us", "downtime_max_us", "stop_the_world_us", "rebalances", "moved", "duplicates", "lost", "max_lag",
    "first_stable_us", "leader_changes", "leaderless_us", "under_replicated_us", "under_min_isr_us", "messages",
    "virtual_us",
)  # fmt: skip
"""The columns of ``runs`` that are compared."""
CELL = ("campaign", "cell", "scenario", "profile", "settings")
_Z = 0.98
"""Half of 1.96: the binomial's standard deviation is sqrt(n)/2."""


def _long(runs: DataFrame) -> DataFrame:
    """One row per run and figure: (campaign, cell, scenario, profile, settings, seed, figure, value)."""
    pairs = F.explode(
        F.array(*[F.struct(F.lit(name).alias("figure"), F.col(name).cast("double").alias("value")) for name in FIGURES])
    )
    return runs.select(*CELL, "seed", pairs.alias("f")).select(*CELL, "seed", "f.*").where(F.col("value").isNotNull())


def _at(values: Column, rank: Column) -> Column:
    """The value of a rank (1 = smallest) of a sorted array, ranks outside clipped."""
    return F.element_at(values, F.greatest(F.lit(1), F.least(F.size(values), rank.cast("int"))))


def _summary() -> list[Column]:
    """median, low, high and p95 of a sorted array ``v``."""
    v = F.col("v")
    n = F.size(v)
    half = F.lit(_Z) * F.sqrt(n)
    median = (_at(v, F.floor((n + 1) / 2)) + _at(v, F.ceil((n + 1) / 2))) / 2
    return [
        median.alias("median"),
        _at(v, F.floor(n / 2 - half)).alias("low"),
        _at(v, F.ceil(1 + n / 2 + half)).alias("high"),
        _at(v, F.ceil(n * F.lit(0.95))).alias("p95"),
        F.element_at(v, -1).alias("max"),
    ]


def quantiles(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Each figure of each cell over its seeds.

    In:  runs
    Out: (campaign, cell, scenario, profile, settings, figure, runs, median, low, high, p95, max, mean)
    """
    grouped = _long(tables["runs"]).groupBy(*CELL, "figure")
    told = grouped.agg(F.array_sort(F.collect_list("value")).alias("v"), F.avg("value").alias("mean"))
    return told.select(*CELL, "figure", F.size("v").alias("runs"), *_summary(), "mean").orderBy(*CELL, "figure")


def differences(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Cells of one scenario against each other, seed by seed: the same seed has the same plan and the same load.

    In:  runs
    Out: (campaign, scenario, figure, cell_a, cell_b, seeds, median_a, median_b, median, low, high, p95, max, b_is_more,
        differs): of b minus a; ``b_is_more``: share of the seeds; ``differs``: the interval does not hold 0
    """
    values = _long(tables["runs"])
    sides = [
        values.select(
            "campaign", "scenario", "figure", "seed", F.col("cell").alias(f"cell_{side}"), F.col("value").alias(side)
        )
        for side in "ab"
    ]
    paired = sides[0].join(sides[1], ["campaign", "scenario", "figure", "seed"], how="inner").where("cell_a < cell_b")
    told = paired.groupBy("campaign", "scenario", "figure", "cell_a", "cell_b").agg(
        F.array_sort(F.collect_list(F.col("b") - F.col("a"))).alias("v"),
        F.avg((F.col("b") > F.col("a")).cast("double")).alias("b_is_more"),
        F.median("a").alias("median_a"),
        F.median("b").alias("median_b"),
    )
    key = ("campaign", "scenario", "figure", "cell_a", "cell_b")
    summed = told.select(*key, F.size("v").alias("seeds"), "median_a", "median_b", *_summary(), "b_is_more")
    return summed.withColumn("differs", (F.col("low") > 0) | (F.col("high") < 0)).orderBy(*key)


def headline(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per cell: how many runs fail, and what a usual and a bad run costs, in seconds.

    In:  runs
    Out: (campaign, cell, runs, failed, torn, rebalances, moved, downtime_s, downtime_p95_s, stopped_s, stopped_p95_s,
        duplicates, lost): medians where nothing else is said; downtime is summed over partitions
    """
    ok = F.col("verdict") == "holds"
    seconds = F.lit(1e6)
    return (
        tables["runs"]
        .groupBy("campaign", "cell")
        .agg(
            F.count("*").alias("runs"),
            F.count(F.when(~ok, 1)).alias("failed"),
            F.count(F.when(F.col("verdict").isNull(), 1)).alias("torn"),
            F.median("rebalances").alias("rebalances"),
            F.median("moved").alias("moved"),
            (F.median("downtime_us") / seconds).alias("downtime_s"),
            (F.percentile("downtime_us", F.lit(0.95)) / seconds).alias("downtime_p95_s"),
            (F.median("stop_the_world_us") / seconds).alias("stopped_s"),
            (F.percentile("stop_the_world_us", F.lit(0.95)) / seconds).alias("stopped_p95_s"),
            F.median("duplicates").alias("duplicates"),
            F.sum("lost").alias("lost"),
        )
        .orderBy("campaign", "cell")
    )
