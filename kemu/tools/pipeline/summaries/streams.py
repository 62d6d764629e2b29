"""Summaries of Streams tasks: downtime by cause, and data read from changelogs by role."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kemu.tools.pipeline.summaries.common import CELL, time_by_cause, with_cell

PARTS = ("detect", "barrier", "restore", "pause")


def task_downtime_by_cause(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Time in which no instance could process a task, by cause.

    In:  runs, task_downtime
    Out: (campaign, cell, application, cause, intervals, runs, total_s, median_s, p95_s, max_s, detect, barrier,
        restore, pause): ``detect``, ``barrier``, ``restore`` and ``pause`` are shares of the total
    """
    return time_by_cause(tables, "task_downtime", PARTS, of=("application",))


def restores_by_role(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Changelog data read by copies of tasks, by role and outcome.

    In:  runs, restores
    Out: (campaign, cell, application, role, outcome, copies, runs, read_mb, wasted_mb, avoidable_mb, took_median_s,
        took_max_s, ready_median_s): sums over all runs; ``took``: time from the first record of a copy to the last
        record; ``ready``: time until a learner had caught up
    """
    seconds, million = F.lit(1e6), F.lit(1e6)
    took = (F.col("until_us") - F.col("from_us")) / seconds
    ready = (F.col("ready_us") - F.col("from_us")) / seconds
    return (
        with_cell(tables["restores"], tables["runs"])
        .groupBy(*CELL, "application", "role", "outcome")
        .agg(
            F.count("*").alias("copies"),
            F.countDistinct("run_id").alias("runs"),
            *[(F.sum(f"{kind}_bytes") / million).alias(f"{kind}_mb") for kind in ("read", "wasted", "avoidable")],
            F.median(took).alias("took_median_s"),
            F.max(took).alias("took_max_s"),
            F.median(ready).alias("ready_median_s"),
        )
        .orderBy(*CELL, "application", "role", "outcome")
    )
