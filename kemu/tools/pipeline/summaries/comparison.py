"""Summaries that compare cells: medians and 95th percentiles of figures, and paired differences between cells.

Intervals use exact ranks (``tools.intervals``), which assume no distribution of the values. Fewer than six seeds give
no interval, and ``differs`` is null. Fewer than 59 seeds give no 95th percentile.

A cell with a run that did not work has no figures. A run did not work if a member failed permanently, or if no appended
record was processed.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kemu.emulator.findings import MEMBER_FAILED
from kemu.emulator.metrics.figure import Figure, Overall
from kemu.emulator.metrics.metrics import FIGURES
from kemu.tools.intervals import median_ranks, p95_rank

COLUMNS = (*(each.column for each in FIGURES.values() if each.column), "messages", "virtual_us")
"""The columns of ``runs`` that the summaries compare."""
CELL = ("campaign", "cell", "scenario", "profile", "settings")
HAS_GROUPS = "coalesce(get_json_object(scenario_json, '$.groups'), '?') != '{}'"


def did_not_work(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Runs that did not work, so that their figures have no meaning.

    In:  runs, violations
    Out: (run_id, why)
    """
    failed = (
        tables["violations"].where(F.col("kind") == MEMBER_FAILED).groupBy("run_id").agg(F.min("text").alias("why"))
    )
    idle = (
        tables["runs"]
        .where(f"processed = 0 and appended > 0 and {HAS_GROUPS}")
        .select("run_id", F.lit("nothing processed").alias("why"))
    )
    return failed.unionByName(idle).groupBy("run_id").agg(F.min("why").alias("why"))


def _working_cells(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The runs of cells in which every run worked."""
    runs = tables["runs"]
    idle = (
        runs.join(did_not_work(tables).select("run_id"), "run_id", how="left_semi")
        .select("campaign", "cell")
        .distinct()
    )
    return runs.join(idle, ["campaign", "cell"], how="left_anti")


def _long(runs: DataFrame) -> DataFrame:
    """A table with one row per run and figure: (campaign, cell, scenario, profile, settings, seed, figure, value)."""
    pairs = ", ".join(f"('{name}', cast({name} as double))" for name in COLUMNS)
    return runs.selectExpr(*CELL, "seed", f"inline(array({pairs})) as (figure, value)").where("value is not null")


def _at(values: Column, rank: Column) -> Column:
    """The value at a rank (1 = smallest) of a sorted array; null for a null rank."""
    return F.when(rank.isNotNull(), F.element_at(values, rank.cast("int")))


def _summary(told: DataFrame) -> list[Column]:
    """The columns median, low, high, p95 and max of a sorted array ``v``. Ranks depend only on the size of the array,
    so Python computes the ranks once for each size.
    """
    v = F.col("v")
    n = F.size(v)
    sizes = sorted(row[0] for row in told.select(F.size("v")).distinct().collect())
    ranks = {size: (*(median_ranks(size) or (None, None)), p95_rank(size)) for size in sizes}

    def rank(which: int) -> Column:
        known = [F.lit(value) for size in sizes for value in (size, ranks[size][which])]
        return F.create_map(*known)[n].cast("int") if known else F.lit(None).cast("int")

    median = (_at(v, F.floor((n + 1) / 2)) + _at(v, F.ceil((n + 1) / 2))) / 2
    return [
        median.alias("median"),
        _at(v, rank(0)).alias("low"),
        _at(v, rank(1)).alias("high"),
        _at(v, rank(2)).alias("p95"),
        F.element_at(v, -1).alias("max"),
    ]


def quantiles(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The distribution of each figure over the seeds of each cell, without cells that did not work.

    In:  runs, violations
    Out: (campaign, cell, scenario, profile, settings, figure, runs, median, low, high, p95, max, mean)
    """
    grouped = _long(_working_cells(tables)).groupBy(*CELL, "figure")
    told = grouped.agg(F.array_sort(F.collect_list("value")).alias("v"), F.avg("value").alias("mean"))
    return told.select(*CELL, "figure", F.size("v").alias("runs"), *_summary(told), "mean").orderBy(*CELL, "figure")


def differences(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Paired differences between the cells of one scenario; in both cells, a seed has the same plan and load.

    In:  runs, violations
    Out: (campaign, scenario, figure, cell_a, cell_b, seeds, median_a, median_b, median, low, high, p95, max, b_is_more,
        differs): ``median`` to ``max`` describe the values of cell b minus the values of cell a.

    ``b_is_more``: share of seeds with a larger value in cell b. ``differs``: whether the interval of the median
    excludes 0; null for too few seeds. Equal cells give ``differs`` in at most one of twenty comparisons.
    """
    values = _long(_working_cells(tables))
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
    summed = told.select(*key, F.size("v").alias("seeds"), "median_a", "median_b", *_summary(told), "b_is_more")
    return summed.withColumn("differs", (F.col("low") > 0) | (F.col("high") < 0)).orderBy(*key)


_OVERALL = {Overall.MEDIAN: F.median, Overall.MAX: F.max, Overall.SUM: F.sum}


def _overall(each: Figure, combine: Overall) -> Column:
    value = _OVERALL[combine](each.column)
    return (value / F.lit(1e6) if each.unit.is_time else value).alias(each.headline)


def headline(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per cell: numbers of runs that failed or did not work, and each figure over the runs; times in seconds.

    In:  runs, violations
    Out: (campaign, cell, runs, failed, unjudged, did_not_work, why, torn), and each figure that ``runs`` has.

    A figure is the median, the largest value or the sum over the runs of the cell (``Figure.overall``). The figure is
    null if runs did not work or do not have the figure. The summary ``quantiles`` has the intervals.
    """
    ok = F.col("verdict").isin("holds", "unjudged")
    told = (
        tables["runs"]
        .join(did_not_work(tables), "run_id", how="left")
        .groupBy("campaign", "cell")
        .agg(
            F.count("*").alias("runs"),
            F.count(F.when(~ok, 1)).alias("failed"),
            F.count(F.when(F.col("verdict") == "unjudged", 1)).alias("unjudged"),
            F.count("why").alias("did_not_work"),
            F.min("why").alias("why"),
            F.count(F.when(F.col("verdict").isNull(), 1)).alias("torn"),
            *(_overall(each, each.overall) for each in FIGURES.values() if each.column and each.overall),
        )
    )
    counts = ("campaign", "cell", "runs", "failed", "unjudged", "did_not_work", "why", "torn")
    costs = [F.when(F.col("why").isNull(), F.col(name)).alias(name) for name in told.columns if name not in counts]
    return told.select(*counts, *costs).orderBy("campaign", "cell")
