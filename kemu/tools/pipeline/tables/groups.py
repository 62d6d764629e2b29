"""The tables of consumer groups: generations, assignments, commits, owners, and time without an owner."""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - as every text on Spark names it

from kemu.emulator.metrics.rebalances import BEGINS, CALM, CONSUMER, PROTOCOL_OF_STATE
from kemu.tools.pipeline.tables.common import gaps, host_ends, of, run_ends
from kemu.tools.pipeline.tables.schemas import (
    COMMITS,
    EPOCHS,
    GENERATIONS,
    LAYOUTS,
    MEMBER_EPOCHS,
    OWNERSHIP,
    UNOWNED,
)


def generations(notes: DataFrame) -> DataFrame:
    """Generations of groups: start, members, and the time and reason of the state in which the rebalance began.

    In:  notes
    Out: GENERATIONS; ``prepared_us`` and ``reason`` are null if the trace begins after this state
    """
    prepares = (F.col("fact") == "GroupBecame") & F.col("new").isin(*BEGINS)
    begins = F.col("fact") == "JoinPhaseCompleted"
    return (
        notes.where(_tells_protocol() | begins)
        .withColumn("prepared_us", F.last(F.when(prepares, F.col("at_us")), ignorenulls=True).over(_until_here()))
        .withColumn("reason", F.last(F.when(prepares, F.col("why")), ignorenulls=True).over(_until_here()))
        .withColumn("protocol", _protocol())
        .where(begins)
        .withColumn("members", F.size("members"))
        .select(*of(GENERATIONS))
    )


def _until_here() -> WindowSpec:
    """The facts of a group up to each of them."""
    in_order = Window.partitionBy("run_id", "group").orderBy("n")
    return in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _tells_protocol() -> Column:
    """Whether a fact tells the protocol of its group: a state that only one protocol has, or a conversion."""
    of_state = (F.col("fact") == "GroupBecame") & F.col("new").isin(*PROTOCOL_OF_STATE)
    return of_state | (F.col("fact") == "GroupConverted")


def _protocol() -> Column:
    """The protocol of a fact's group, by this fact and earlier facts; null if none tells the protocol."""
    told = F.when(F.col("fact") == "GroupConverted", F.col("protocol"))
    for state, protocol in PROTOCOL_OF_STATE.items():
        told = told.when((F.col("fact") == "GroupBecame") & (F.col("new") == state), F.lit(protocol))
    return F.last(told, ignorenulls=True).over(_until_here())


def epochs(notes: DataFrame) -> DataFrame:
    """Epochs of groups of the consumer protocol: raised, target computed, reached by all members.

    In:  notes
    Out: EPOCHS
    """
    changed = notes.where(F.col("fact") == "GroupEpochsChanged").withColumn(
        "epochs", F.from_json("rest", "epoch long, target_epoch long")
    )
    raised = changed.groupBy("run_id", "group", F.col("epochs.epoch").alias("epoch")).agg(
        F.min("at_us").alias("raised_us")
    )
    calm = notes.where((F.col("fact") == "GroupBecame") & F.col("new").isin(*CALM))

    def reached(of_what: DataFrame, epoch: str, column: str) -> DataFrame:
        """The epochs with the first time, since the epoch was raised, at which this or a later epoch was reached."""
        times = of_what.select("run_id", "group", F.col(epoch).alias("reached"), "at_us")
        later = (F.col("reached") >= F.col("epoch")) & (F.col("at_us") >= F.col("raised_us"))
        of_epoch = raised.join(times, ["run_id", "group"], how="inner").where(later)
        return of_epoch.groupBy("run_id", "group", "epoch").agg(F.min("at_us").alias(column))

    key = ["run_id", "group", "epoch"]
    return (
        raised.where("epoch > 0")
        .join(reached(changed, "epochs.target_epoch", "computed_us"), key, how="left")
        .join(reached(calm, "generation", "stable_us"), key, how="left")
        .select(*of(EPOCHS))
    )


def member_epochs(notes: DataFrame) -> DataFrame:
    """The epochs and states of members of the consumer protocol at their coordinators.

    In:  notes
    Out: MEMBER_EPOCHS
    """
    member = ("run_id", "group", "member_id")
    actors = notes.where(F.col("fact") == "AssignmentReceived").select(*member, "actor").distinct()
    in_order = Window.partitionBy(*member).orderBy("n")
    shape = "epoch long, assigned array<array<string>>, revoking array<array<string>>"
    return (
        notes.where(F.col("fact").isin("MemberReconciled", "MemberRemoved"))
        .drop("actor")
        .withColumn("then_us", F.lead("at_us").over(in_order))
        .where(F.col("fact") == "MemberReconciled")
        .withColumn("of_rest", F.from_json("rest", shape))
        .withColumn("epoch", F.col("of_rest.epoch"))
        .withColumn("assigned", _names("of_rest.assigned"))
        .withColumn("revoking", _names("of_rest.revoking"))
        .join(actors, list(member), how="left")
        .join(run_ends(notes), "run_id", how="inner")
        .withColumn("from_us", F.col("at_us"))
        .withColumn("until_us", F.coalesce("then_us", "ends_us"))
        .select(*of(MEMBER_EPOCHS))
    )


def _names(column: str) -> Column:
    """Partitions ("orders", "0") as "orders-0"."""
    return F.transform(column, lambda partition: F.concat_ws("-", partition))


def layouts(notes: DataFrame, reached: DataFrame) -> DataFrame:
    """Every assignment of a member, compared with the member's previous assignment.

    A member of the consumer protocol receives no assignment in an epoch that changes nothing for the member, and
    revokes partitions before it reaches an epoch. So the coordinator's states decide.

    In:  notes; reached: MEMBER_EPOCHS
    Out: LAYOUTS
    """
    key = ("run_id", "group", "actor", "generation")
    known = reached.where("actor is not null").withColumn("generation", F.col("epoch"))
    last = Window.partitionBy(*key).orderBy(F.desc("n"))
    of_epochs = (
        known.where("state <> 'UNREVOKED_PARTITIONS'")
        .withColumn("place", F.row_number().over(last))
        .where("place = 1")
        .select(*key, "n", F.col("from_us").alias("at_us"), "assigned", F.lit(CONSUMER).alias("protocol"))
    )
    received = (
        notes.where(_tells_protocol() | (F.col("fact") == "AssignmentReceived"))
        .withColumn("protocol", _protocol())
        .where(F.col("fact") == "AssignmentReceived")
        .join(known.select(*key).distinct(), list(key), how="left_anti")
        .select(*key, "n", "at_us", F.col("partitions").alias("assigned"), "protocol")
    )
    in_order = Window.partitionBy("run_id", "group", "actor").orderBy("n")
    before = F.coalesce(F.lag("assigned").over(in_order), F.array().cast("array<string>"))
    return (
        received.unionByName(of_epochs)
        .withColumn("before", before)
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
