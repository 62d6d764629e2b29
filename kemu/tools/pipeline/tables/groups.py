"""The tables of consumer groups: generations, assignments, commits, owners, and time without an owner."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as every text on Spark names it

from kemu.tools.pipeline.tables.common import gaps, host_ends, of, run_ends
from kemu.tools.pipeline.tables.schemas import COMMITS, GENERATIONS, LAYOUTS, OWNERSHIP, UNOWNED

PREPARING = "PreparingRebalance"


def generations(notes: DataFrame) -> DataFrame:
    """Generations of groups: start, members, and the time and reason of the state PreparingRebalance.

    In:  notes
    Out: GENERATIONS; ``prepared_us`` and ``reason`` are null if the trace begins after the state PreparingRebalance
    """
    until_here = (
        Window.partitionBy("run_id", "group").orderBy("n").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    prepares = (F.col("fact") == "GroupBecame") & (F.col("new") == PREPARING)
    begins = F.col("fact") == "JoinPhaseCompleted"
    return (
        notes.where(prepares | begins)
        .withColumn("prepared_us", F.last(F.when(prepares, F.col("at_us")), ignorenulls=True).over(until_here))
        .withColumn("reason", F.last(F.when(prepares, F.col("why")), ignorenulls=True).over(until_here))
        .where(begins)
        .withColumn("members", F.size("members"))
        .select(*of(GENERATIONS))
    )


def layouts(notes: DataFrame) -> DataFrame:
    """Every assignment that a member received, compared with the member's previous assignment.

    In:  notes
    Out: LAYOUTS
    """
    in_order = Window.partitionBy("run_id", "group", "actor").orderBy("n")
    before = F.coalesce(F.lag("partitions").over(in_order), F.array().cast("array<string>"))
    return (
        notes.where(F.col("fact") == "AssignmentReceived")
        .withColumn("before", before)
        .withColumn("assigned", F.col("partitions"))
        .withColumn("gained", F.size(F.array_except("assigned", "before")))
        .withColumn("kept", F.size(F.array_intersect("assigned", "before")))
        .withColumn("partitions", F.size("assigned"))
        .select(*of(LAYOUTS))
    )


def commits(notes: DataFrame) -> DataFrame:
    """Durable committed offsets, and the answers to members' commits.

    In:  notes
    Out: COMMITS
    """
    durable = F.col("fact") == "OffsetCommitted"
    return (
        notes.where(durable | (F.col("fact") == "CommitAnswered"))
        .withColumn("what", F.when(durable, "durable").otherwise("answered"))
        .withColumn("error", F.coalesce("error", F.lit("NONE")))
        .withColumn("partition", F.when(durable, F.concat_ws("-", "topic", F.col("partition").cast("string"))))
        .select(*of(COMMITS))
    )


def ownership(notes: DataFrame) -> DataFrame:
    """Intervals in which members owned partitions, as the members report ownership.

    A member owns a partition from ``PartitionsAssigned`` on. Ownership ends when the partition is revoked or lost, the
    member fails, the member's host goes down, or the run ends. A zombie's interval overlaps the next owner's interval.

    In:  notes
    Out: OWNERSHIP
    """
    key = ("run_id", "actor", "life", "group", "partition")
    named = {"PartitionsAssigned": "", "PartitionsRevoked": "revoked", "PartitionsLost": "lost"}
    changes = (
        notes.where(F.col("fact").isin(*named))
        .withColumn("partition", F.explode("partitions"))
        .withColumn("ended_by", F.create_map(*[F.lit(word) for pair in named.items() for word in pair])[F.col("fact")])
        .select(*key, "n", "at_us", "ended_by")
    )
    holders = changes.select(*key).distinct()
    failed = notes.where(F.col("fact") == "MemberFailed").select(
        "run_id", "actor", "life", "n", "at_us", F.lit("failed").alias("ended_by")
    )
    ends = (
        holders.join(failed, ["run_id", "actor", "life"], how="inner")
        .select(*key, "n", "at_us", "ended_by")
        .unionByName(host_ends(holders, notes).select(*key, "n", "at_us", "ended_by"))
    )
    in_order = Window.partitionBy(*key).orderBy("n")
    starts = F.col("ended_by") == ""
    # Of several assignments in sequence, the first one begins the interval of ownership.
    fresh = starts & (F.coalesce(F.lag("ended_by").over(in_order), F.lit("none")) != "")
    behind = in_order.rowsBetween(1, Window.unboundedFollowing)
    ending = F.when(~starts, F.struct("at_us", "ended_by"))
    return (
        changes.unionByName(ends)
        .withColumn("fresh", fresh)
        .withColumn("end", F.first(ending, ignorenulls=True).over(behind))
        .where("fresh")
        .join(run_ends(notes), "run_id", how="inner")
        .withColumn("from_us", F.col("at_us"))
        .withColumn("until_us", F.coalesce("end.at_us", "ends_us"))
        .withColumn("ended_by", F.coalesce("end.ended_by", F.lit("end")))
        .select(*of(OWNERSHIP))
    )


def unowned(notes: DataFrame, owned: DataFrame, runs: DataFrame) -> DataFrame:
    """Intervals in which a partition had no owner, after its first owner.

    A member whose host is paused owns no partition. Logs without the log of a member state no such intervals.

    In:  notes; owned: OWNERSHIP; runs: RUNS
    Out: UNOWNED
    """
    known = runs.where("source = 'run' or moved is not null").select("run_id")
    held = owned.join(known, "run_id", how="left_semi").withColumn("cause", F.col("ended_by"))
    return gaps(held, notes, ("group", "partition")).select(*of(UNOWNED))
