"""Functions that several tables use: lives and pauses of hosts, gaps between intervals, columns by schema."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as every text on Spark names it

from kemu.protocol.names import SEPARATOR
from kemu.tools.pipeline.tables.columns import Schema


def of(schema: Schema) -> list[Column]:
    """The columns of a table, cast to the types of the schema, for the last ``select`` of a job."""
    return [F.col(name).cast(schema.spark()[name].dataType).alias(name) for name in schema.names]


def host_of(actor: str) -> Column:
    """The host of the actor in a column: "b1" for "b1/controller"."""
    return F.substring_index(actor, SEPARATOR, 1)


def run_ends(notes: DataFrame) -> DataFrame:
    """The end of each run: the time of the last recorded fact.

    In:  notes
    Out: (run_id, ends_us)
    """
    return notes.groupBy("run_id").agg(F.max("at_us").alias("ends_us"))


def host_ends(holders: DataFrame, notes: DataFrame) -> DataFrame:
    """The time at which the host of each holder went down.

    In:  holders(run_id, actor, life, ...); notes
    Out: the holders' columns, n, at_us, ended_by ("down")
    """
    down = notes.where(F.col("fact") == "HostDown").select(
        "run_id", "host", F.col("host_life").alias("life"), "n", "at_us", F.lit("down").alias("ended_by")
    )
    return holders.withColumn("host", host_of("actor")).join(down, ["run_id", "host", "life"], how="inner").drop("host")


def pauses(notes: DataFrame) -> DataFrame:
    """Intervals in which hosts were paused.

    In:  notes
    Out: (run_id, host, paused_us, resumed_us); ``resumed_us`` is the end of the run if the host never resumed
    """
    in_order = Window.partitionBy("run_id", "host").orderBy("n")
    paused = F.col("fact") == "HostPaused"
    return (
        notes.where(F.col("fact").isin("HostPaused", "HostResumed", "HostDown"))
        .withColumn("then_us", F.lead("at_us").over(in_order))
        .where(paused)
        .join(run_ends(notes), "run_id", how="inner")
        .select(
            "run_id", "host", F.col("at_us").alias("paused_us"), F.coalesce("then_us", "ends_us").alias("resumed_us")
        )
    )


def gaps(held: DataFrame, notes: DataFrame, key: Sequence[str]) -> DataFrame:
    """Intervals without a holder, from the first holder to the end of the run.

    A holder with a paused host is no holder. If the last holder ends during a pause of its host, a second interval
    begins, with the cause of the holder's end.

    In:  held(run_id, key..., actor, from_us, until_us, cause); notes
    Out: (run_id, key..., from_us, until_us, cause): ``cause`` of the last holder's end, or "paused"
    """
    thing = ("run_id", *key)
    on_hosts = held.withColumn("host", host_of("actor"))
    still = (
        on_hosts.join(pauses(notes), ["run_id", "host"], how="inner")
        .withColumn("since", F.greatest("from_us", "paused_us"))
        .withColumn("until", F.least("until_us", "resumed_us"))
        .where("since < until")
    )

    def change(of_what: DataFrame, at: str, by: int, cause: Column) -> DataFrame:
        return of_what.select(*thing, F.col(at).alias("at_us"), F.lit(by).alias("change"), cause.alias("cause"))

    nothing = F.lit(None).cast("string")
    changes = (
        change(on_hosts, "from_us", 1, nothing)
        .unionByName(change(on_hosts, "until_us", -1, F.col("cause")))
        .unionByName(change(still, "since", -1, F.lit("paused")))
        .unionByName(change(still, "until", 1, nothing))
    )
    in_order = Window.partitionBy(*thing).orderBy("at_us")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        changes.groupBy(*thing, "at_us")
        .agg(F.sum("change").alias("change"), F.max("cause").alias("cause"))
        .withColumn("holders", F.sum("change").over(so_far))
        .withColumn("cause", F.last("cause", ignorenulls=True).over(so_far))
        .withColumn("until_us", F.lead("at_us").over(in_order))
        .where((F.col("holders") == 0) & ((F.col("change") < 0) | F.col("cause").isNotNull()))
        .join(run_ends(notes), "run_id", how="inner")
        .withColumn("until_us", F.coalesce("until_us", "ends_us"))
        .withColumnRenamed("at_us", "from_us")
        .where("from_us < until_us")
        .select(*thing, "from_us", "until_us", "cause")
    )
