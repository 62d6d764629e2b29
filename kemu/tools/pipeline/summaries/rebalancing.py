"""Summaries of rebalances: reasons, downtime by cause, moved partitions, time until balance."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kemu.emulator.watching.interruptions import Cause
from kemu.protocol.names import MEMBER_ID_END
from kemu.tools.pipeline.summaries.common import CELL, time_by_cause, with_cell

WAITS = ("unrevoked", "unreleased")
_MEMBER_ID = rf"[\w.-]+-{MEMBER_ID_END}"
_INSTANCE_ID = r"instance id (?!None|null)[^\s;]+"


def plain_reason(reason: Column) -> Column:
    """A reason without ids of members and instances, so that equal reasons have equal texts."""
    return F.regexp_replace(F.regexp_replace(reason, _MEMBER_ID, "a member"), _INSTANCE_ID, "instance id of its own")


def rebalance_reasons(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Numbers and durations of rebalances, by reason.

    In:  runs, rebalances
    Out: (campaign, cell, reason, rebalances, runs, unfinished, median_s, p95_s, moved, stopped_s): ``runs``: runs with
        this reason; ``moved`` and ``stopped_s`` are averages per rebalance
    """
    took = (F.col("ended_us") - F.col("started_us")) / F.lit(1e6)
    return (
        with_cell(tables["rebalances"], tables["runs"])
        .groupBy(*CELL, plain_reason(F.col("reason")).alias("reason"))
        .agg(
            F.count("*").alias("rebalances"),
            F.countDistinct("run_id").alias("runs"),
            F.count(F.when(F.col("ended_us").isNull(), 1)).alias("unfinished"),
            F.median(took).alias("median_s"),
            F.percentile(took, F.lit(0.95)).alias("p95_s"),
            F.avg("moved").alias("moved"),
            (F.avg("stop_the_world_us") / F.lit(1e6)).alias("stopped_s"),
        )
        .orderBy(*CELL, F.desc("rebalances"), "reason")
    )


def downtime_by_cause(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Downtime of partitions, by cause.

    In:  runs, downtime
    Out: (campaign, cell, cause, intervals, runs, partition_s, median_s, p95_s, max_s, ...): ``partition_s`` is a total;
        the last columns are shares of each ``Cause`` of ``watching.interruptions``
    """
    parts = tuple(cause.name.lower() for cause in Cause)
    return time_by_cause(tables, "downtime", parts, total="partition_s")


def at_ends(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The assignment at the end of each rebalance, one row per member.

    In:  rebalances, layouts
    Out: (run_id, group, generation, number, started_us, members, actor, at_us, now): ``now``: the member's partitions
    """
    ended = tables["rebalances"].where("ended_us is not null and members > 0 and moved is not null")
    keyed = ended.select("run_id", "group", "generation", "number", "started_us", "members")
    last = tables["layouts"].select("run_id", "group", "generation", "actor", "at_us", F.col("assigned").alias("now"))
    return keyed.join(last, ["run_id", "group", "generation"], how="inner")


def settled(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of ``at_ends`` with each member's partitions after the previous rebalance, without first rebalances.

    In:  rebalances, layouts
    Out: (run_id, group, number, started_us, members, actor, at_us, now, before): arrays of partitions
    """
    ends = at_ends(tables)
    in_order = Window.partitionBy("run_id", "group").orderBy("number")
    numbers = ends.select("run_id", "group", "number").distinct()
    # The last assignment of a returned member may be older than the previous rebalance.
    previous = numbers.withColumn("earlier", F.lag("number").over(in_order))
    then = ends.select("run_id", "group", "actor", F.col("number").alias("earlier"), F.col("now").alias("before"))
    return (
        ends.join(previous, ["run_id", "group", "number"], how="inner")
        .where(F.col("earlier").isNotNull())
        .join(then, ["run_id", "group", "actor", "earlier"], how="left")
        .withColumn("before", F.coalesce("before", F.array().cast("array<string>")))
        .select("run_id", "group", "number", "started_us", "members", "actor", "at_us", "now", "before")
    )


def moves(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Number of partitions that moved between living members, and the smallest number of moves that balances the group.

    For the smallest number, every member loses only the partitions beyond its share, and the members with the most
    partitions have the larger shares. The number is exact if all members subscribe to the same topics. Partitions
    without a living owner are in neither number. Both numbers are sums over a run, because a cooperative group revokes
    a partition in one rebalance and assigns the partition in the next.

    In:  runs, rebalances, layouts
    Out: (campaign, cell, runs, rebalances, moved, fewest, excess, with_excess): sums over all runs; ``with_excess``:
        number of runs with more moves than the smallest number
    """
    key = ("run_id", "group", "number")
    rows = settled(tables).withColumn("load", F.size("before"))
    everybody = Window.partitionBy(*key)
    ranked = everybody.orderBy(F.desc("load"), "actor")
    present = rows.withColumn("living", F.count("*").over(everybody)).withColumn("rank", F.row_number().over(ranked))
    all_now = F.sum(F.size("now")).over(everybody)
    share = F.floor(all_now / F.col("living")) + (F.col("rank") <= all_now % F.col("living")).cast("int")
    given_up = (
        present.withColumn("share", share)
        .groupBy("run_id", "group")
        .agg(
            F.countDistinct("number").alias("rebalances"),
            F.sum(F.greatest(F.lit(0), F.col("load") - F.col("share"))).alias("fewest"),
        )
    )
    # The last owner of a partition at any earlier time; the partition moved only if the last owner still lives.
    held = at_ends(tables).select(*key, "actor", F.explode("now").alias("partition"))
    earlier = Window.partitionBy("run_id", "group", "partition").orderBy("number")
    passed = held.withColumn("had", F.lag("actor").over(earlier)).where("had <> actor")
    living = at_ends(tables).select(*key, F.col("actor").alias("had"))
    moved = passed.join(living, [*key, "had"], how="inner").groupBy("run_id", "group").agg(F.count("*").alias("moved"))
    told = given_up.join(moved, ["run_id", "group"], how="left").withColumn("moved", F.coalesce("moved", F.lit(0)))
    return (
        with_cell(told, tables["runs"])
        .groupBy(*CELL)
        .agg(
            F.countDistinct("run_id").alias("runs"),
            F.sum("rebalances").alias("rebalances"),
            F.sum("moved").alias("moved"),
            F.sum("fewest").alias("fewest"),
            F.sum(F.greatest(F.lit(0), F.col("moved") - F.col("fewest"))).alias("excess"),
            F.count(F.when(F.col("moved") > F.col("fewest"), 1)).alias("with_excess"),
        )
        .orderBy(*CELL)
    )


def balance(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Time from the start of a rebalance until every member has its partitions, and the share of balanced results.

    In:  runs, rebalances, layouts
    Out: (campaign, cell, rebalances, balanced, median_s, p95_s): ``balanced``: share of rebalances after which no
        member has two partitions more than another member
    """
    sizes = settled(tables).withColumn("load", F.size("now"))
    per = sizes.groupBy("run_id", "group", "number", "started_us").agg(
        (F.max("load") - F.min("load") <= 1).alias("even"), F.max("at_us").alias("at_us")
    )
    took = (F.col("at_us") - F.col("started_us")) / F.lit(1e6)
    return (
        with_cell(per, tables["runs"])
        .groupBy(*CELL)
        .agg(
            F.count("*").alias("rebalances"),
            F.avg(F.col("even").cast("double")).alias("balanced"),
            F.median(took).alias("median_s"),
            F.percentile(took, F.lit(0.95)).alias("p95_s"),
        )
        .orderBy(*CELL)
    )


def reconciling(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Epochs of groups of the consumer protocol, and the times that they need.

    In:  runs, epochs, member_epochs
    Out: (campaign, cell, epochs, runs, not_computed, not_stable, computed_s, stable_s, stable_p95_s, unrevoked_s,
        unreleased_s): ``computed_s`` and ``stable_s`` are medians of the time since the epoch was raised. The last two
        are sums over all runs: the time in which members had to give up partitions, or waited for partitions
    """
    waits = (
        tables["member_epochs"]
        .withColumn("us", F.col("until_us") - F.col("from_us"))
        .groupBy("run_id")
        .agg(
            *[F.sum(F.when(F.col("state") == f"{name.upper()}_PARTITIONS", F.col("us"))).alias(name) for name in WAITS]
        )
    )
    per_run = with_cell(waits, tables["runs"]).groupBy(*CELL)
    waited = per_run.agg(*[(F.coalesce(F.sum(name), F.lit(0)) / F.lit(1e6)).alias(f"{name}_s") for name in WAITS])
    computed, stable = ((F.col(column) - F.col("raised_us")) / F.lit(1e6) for column in ("computed_us", "stable_us"))
    return (
        with_cell(tables["epochs"], tables["runs"])
        .groupBy(*CELL)
        .agg(
            F.count("*").alias("epochs"),
            F.countDistinct("run_id").alias("runs"),
            F.count(F.when(F.col("computed_us").isNull(), 1)).alias("not_computed"),
            F.count(F.when(F.col("stable_us").isNull(), 1)).alias("not_stable"),
            F.median(computed).alias("computed_s"),
            F.median(stable).alias("stable_s"),
            F.percentile(stable, F.lit(0.95)).alias("stable_p95_s"),
        )
        .join(waited, list(CELL), how="left")
        .orderBy(*CELL)
    )
