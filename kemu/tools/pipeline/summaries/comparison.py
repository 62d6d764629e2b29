"""Cells against each other: a figure's median and 95th percentile per cell, and paired differences between cells.

Intervals are order statistics of exact ranks (``tools.intervals``): they assume nothing about the shape of a figure's
distribution, and downtime's is never normal. Below six seeds there is none, and ``differs`` is null; below 59 there is
no 95th percentile.

A cell of which a run did not work has no figures: what does not work costs nothing. A run did not work if a member
failed for good, or if nothing was processed of what was appended.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kemu.emulator.findings import MEMBER_FAILED
from kemu.tools.intervals import median_ranks, p95_rank

FIGURES = (
    "downtime_us", "downtime_max_us", "service_lost_us", "service_lost_max_percent", "stop_the_world_us",
    "delay_p50_us", "delay_p99_us", "delay_max_us", "lag_max_us",
    "newest_age_mean_us", "newest_age_max_us", "fresh_after_max_us", "gap_max_us", "reordered", "reorder_max",
    "rebalances", "moved", "reprocessed", "lost",
    "expected_losses", "max_lag",
    "task_downtime_us", "task_downtime_max_us", "task_detect_us", "task_barrier_us", "task_restore_us",
    "task_pause_us", "task_learning_us", "task_idle_ready_us", "task_imbalance_us", "join_wait_us",
    "join_wait_max_us", "tasks_moved", "tasks_least", "read_bytes", "read_in_vain_bytes",
    "first_stable_us", "leader_changes", "leaderless_us", "under_replicated_us", "under_min_isr_us", "messages",
    "virtual_us",
)  # fmt: skip
"""The columns of ``runs`` that are compared."""
CELL = ("campaign", "cell", "scenario", "profile", "settings")
HAS_GROUPS = "coalesce(get_json_object(scenario_json, '$.groups'), '?') != '{}'"


def did_not_work(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Runs whose figures mean nothing.

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
    """Runs of the cells of which every run worked."""
    runs = tables["runs"]
    idle = (
        runs.join(did_not_work(tables).select("run_id"), "run_id", how="left_semi")
        .select("campaign", "cell")
        .distinct()
    )
    return runs.join(idle, ["campaign", "cell"], how="left_anti")


def _long(runs: DataFrame) -> DataFrame:
    """One row per run and figure: (campaign, cell, scenario, profile, settings, seed, figure, value)."""
    pairs = F.explode(
        F.array(*[F.struct(F.lit(name).alias("figure"), F.col(name).cast("double").alias("value")) for name in FIGURES])
    )
    return runs.select(*CELL, "seed", pairs.alias("f")).select(*CELL, "seed", "f.*").where(F.col("value").isNotNull())


def _at(values: Column, rank: Column) -> Column:
    """The value of a rank (1 = smallest) of a sorted array; null of a rank that is null."""
    return F.when(rank.isNotNull(), F.element_at(values, rank.cast("int")))


def _summary(told: DataFrame) -> list[Column]:
    """median, low, high, p95 and max of a sorted array ``v``. The ranks depend on the size alone, so they are
    computed here once for each size.
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
    """Each figure of each cell over its seeds; none of a cell that did not work.

    In:  runs, violations
    Out: (campaign, cell, scenario, profile, settings, figure, runs, median, low, high, p95, max, mean)
    """
    grouped = _long(_working_cells(tables)).groupBy(*CELL, "figure")
    told = grouped.agg(F.array_sort(F.collect_list("value")).alias("v"), F.avg("value").alias("mean"))
    return told.select(*CELL, "figure", F.size("v").alias("runs"), *_summary(told), "mean").orderBy(*CELL, "figure")


def differences(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Cells of one scenario against each other, seed by seed: the same seed has the same plan and the same load.

    In:  runs, violations
    Out: (campaign, scenario, figure, cell_a, cell_b, seeds, median_a, median_b, median, low, high, p95, max, b_is_more,
        differs): of b minus a; ``b_is_more``: share of the seeds; ``differs``: the interval of the median does not
        hold 0, which happens in at most one of twenty comparisons of what is the same; null: too few seeds to say
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


_OF_TASKS = ("task_downtime", "task_restore", "task_barrier", "task_learning", "task_imbalance", "join_wait")
"""Times of Streams applications in ``headline``."""


def headline(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per cell: how many runs fail or did not work, and what a usual and a bad run costs, in seconds.

    In:  runs, violations
    Out: (campaign, cell, runs, failed, did_not_work, why, torn, rebalances, moved, downtime_partition_s,
        service_lost_s, service_lost_max_percent, stopped_s, delay_p50_s, delay_p99_s, delay_max_s, lag_max_s,
        newest_age_s, fresh_after_s, gap_s, reorder_max, reprocessed, lost, expected_losses,
        leaderless_partition_s, task_downtime_s, task_restore_s, task_barrier_s, task_learning_s, task_imbalance_s,
        join_wait_s, tasks_moved, tasks_least, read_bytes, read_in_vain_bytes): medians over the runs, those of tasks
        null where no Streams application ran; ``delay_max_s`` and ``lag_max_s`` the worst of all, records
        lost and expected losses summed. Null where runs did not work. Intervals are in ``quantiles``
    """
    ok = F.col("verdict") == "holds"
    seconds = F.lit(1e6)
    told = (
        tables["runs"]
        .join(did_not_work(tables), "run_id", how="left")
        .groupBy("campaign", "cell")
        .agg(
            F.count("*").alias("runs"),
            F.count(F.when(~ok, 1)).alias("failed"),
            F.count("why").alias("did_not_work"),
            F.min("why").alias("why"),
            F.count(F.when(F.col("verdict").isNull(), 1)).alias("torn"),
            F.median("rebalances").alias("rebalances"),
            F.median("moved").alias("moved"),
            (F.median("downtime_us") / seconds).alias("downtime_partition_s"),
            (F.median("service_lost_us") / seconds).alias("service_lost_s"),
            F.median("service_lost_max_percent").alias("service_lost_max_percent"),
            (F.median("stop_the_world_us") / seconds).alias("stopped_s"),
            (F.median("delay_p50_us") / seconds).alias("delay_p50_s"),
            (F.median("delay_p99_us") / seconds).alias("delay_p99_s"),
            (F.max("delay_max_us") / seconds).alias("delay_max_s"),
            (F.max("lag_max_us") / seconds).alias("lag_max_s"),
            (F.median("newest_age_mean_us") / seconds).alias("newest_age_s"),
            (F.median("fresh_after_max_us") / seconds).alias("fresh_after_s"),
            (F.median("gap_max_us") / seconds).alias("gap_s"),
            F.median("reorder_max").alias("reorder_max"),
            F.median("reprocessed").alias("reprocessed"),
            F.sum("lost").alias("lost"),
            F.sum("expected_losses").alias("expected_losses"),
            (F.median("leaderless_us") / seconds).alias("leaderless_partition_s"),
            *((F.median(f"{name}_us") / seconds).alias(f"{name}_s") for name in _OF_TASKS),
            *(
                F.median(name).alias(name)
                for name in ("tasks_moved", "tasks_least", "read_bytes", "read_in_vain_bytes")
            ),
        )
    )
    counts = ("campaign", "cell", "runs", "failed", "did_not_work", "why", "torn")
    costs = [F.when(F.col("why").isNull(), F.col(name)).alias(name) for name in told.columns if name not in counts]
    return told.select(*counts, *costs).orderBy("campaign", "cell")
