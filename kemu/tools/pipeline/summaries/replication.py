"""Summaries of replication: under-replicated time, leader changes, time without a leader, reassignments."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kemu.tools.pipeline.summaries.common import CELL, time_by_cause, with_cell


def _plain(why: Column) -> Column:
    """A reason without the number of the broker, so that equal reasons have equal texts."""
    return F.coalesce(F.regexp_replace(why, r"^replica \d+ is", "a replica is"), F.lit("nobody said"))


def isr_health(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Time in which a partition had fewer in-sync replicas than assigned replicas, and numbers of ISR changes.

    In:  runs, isr_changes
    Out: (campaign, cell, partition, runs, shrinks, expands, under_replicated_s, under_replicated_max_s,
        under_min_isr_s, under_min_isr_max_s, smallest_isr): averages per run; ``max``: value of the worst run;
        ``under_min_isr``: time with fewer than ``min.insync.replicas`` in-sync replicas
    """
    lasted = F.col("until_us") - F.col("at_us")
    seconds = F.lit(1e6)

    def spent(condition: str) -> Column:
        return F.sum(F.col(condition).cast("long") * lasted) / seconds

    per_run = (
        with_cell(tables["isr_changes"], tables["runs"])
        .groupBy("run_id", *CELL, "partition")
        .agg(
            F.count(F.when(F.size("gone") > 0, 1)).alias("shrinks"),
            F.count(F.when(F.size("joined") > 0, 1)).alias("expands"),
            spent("under_replicated").alias("under_replicated_s"),
            spent("under_min_isr").alias("under_min_isr_s"),
            F.min(F.size("isr")).alias("smallest_isr"),
        )
    )
    return (
        per_run.groupBy(*CELL, "partition")
        .agg(
            F.count("*").alias("runs"),
            F.avg("shrinks").alias("shrinks"),
            F.avg("expands").alias("expands"),
            F.avg("under_replicated_s").alias("under_replicated_s"),
            F.max("under_replicated_s").alias("under_replicated_max_s"),
            F.avg("under_min_isr_s").alias("under_min_isr_s"),
            F.max("under_min_isr_s").alias("under_min_isr_max_s"),
            F.min("smallest_isr").alias("smallest_isr"),
        )
        .orderBy(*CELL, "partition")
    )


def leader_changes(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Numbers of changes of a partition's leader in the store, by reason, without the first leader.

    In:  runs, isr_changes
    Out: (campaign, cell, partition, why, runs, changes, to_none, unclean)

    ``why``: the writer's reason, which is an election's strategy (offline, preferred, controlled-shutdown, reassign) or
    the loss of the leader. ``runs``: runs with this reason. ``to_none``: changes to no leader. ``unclean``: changes to
    a leader outside the ISR.
    """
    return (
        with_cell(tables["isr_changes"], tables["runs"])
        .where(F.col("leader") != F.col("old_leader"))
        .groupBy(*CELL, "partition", _plain(F.col("why")).alias("why"))
        .agg(
            F.countDistinct("run_id").alias("runs"),
            F.count("*").alias("changes"),
            F.count(F.when(F.col("leader") < 0, 1)).alias("to_none"),
            F.count(F.when(F.col("unclean"), 1)).alias("unclean"),
        )
        .orderBy(*CELL, "partition", "why")
    )


def leaderless_by_cause(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Time without a leader, by the end of the last leadership.

    In:  runs, leaderless
    Out: (campaign, cell, partition, cause, intervals, runs, total_s, median_s, p95_s, max_s, elect, take_over):
        ``elect`` and ``take_over`` are shares of the total
    """
    return time_by_cause(tables, "leaderless", ("elect", "take_over"), of=("partition",))


def reassignments(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Durations and traffic of reassignments, over all runs with a reassignment.

    In:  runs, reassignment_steps
    Out: (campaign, cell, runs, unfinished, steps, given_up, step_median_s, step_max_s, moved_mb, took_median_s,
        took_max_s, peak_extra_mb_per_s)

    ``unfinished``: number of runs with an unfinished reassignment. ``steps``, ``given_up`` (steps without a commit) and
    ``moved_mb`` are averages per run. ``took``: time from the start of the first reassignment to the end of the last
    one. ``peak_extra``: extra load of the busiest broker in its worst second, over all runs.
    """
    seconds, million = F.lit(1e6), F.lit(1e6)
    lasted = (F.col("committed_us") - F.col("started_us")) / seconds
    steps = (
        with_cell(tables["reassignment_steps"], tables["runs"])
        .groupBy(*CELL)
        .agg(
            F.count("*").alias("steps"),
            F.count(F.when(F.col("committed_us").isNull(), 1)).alias("given_up"),
            F.median(lasted).alias("step_median_s"),
            F.max(lasted).alias("step_max_s"),
            F.sum("moved_bytes").alias("moved"),
        )
    )
    took = F.col("reassigning_us") / seconds
    runs = (
        tables["runs"]
        .where(F.col("reassignment_steps").isNotNull())
        .groupBy(*CELL)
        .agg(
            F.count("*").alias("runs"),
            F.count(F.when(F.col("reassigning_us").isNull(), 1)).alias("unfinished"),
            F.median(took).alias("took_median_s"),
            F.max(took).alias("took_max_s"),
            (F.max("peak_extra_bytes_per_s") / million).alias("peak_extra_mb_per_s"),
        )
    )
    per_run = [(F.col(name) / F.col("runs")).alias(name) for name in ("steps", "given_up")]
    return (
        runs.join(steps, list(CELL), how="inner")
        .select(
            *(*CELL, "runs", "unfinished"),
            *per_run,
            *("step_median_s", "step_max_s"),
            (F.col("moved") / F.col("runs") / million).alias("moved_mb"),
            *("took_median_s", "took_max_s", "peak_extra_mb_per_s"),
        )
        .orderBy(*CELL)
    )
