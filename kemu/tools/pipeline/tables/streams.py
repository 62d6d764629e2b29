"""The table of Streams applications: copies of tasks, with roles and states over time."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as every text on Spark names it

from kemu.tools.pipeline.tables.common import of, run_ends
from kemu.tools.pipeline.tables.schemas import TASK_INTERVALS

CLOSED, DOWN = "CLOSED", "down"


def task_intervals(notes: DataFrame) -> DataFrame:
    """Intervals in which a copy of a task had one role and state, from the instances' notes.

    The last interval of a copy ends when the instance closes the copy, the host goes down, or the run ends.

    In:  notes
    Out: TASK_INTERVALS
    """
    key = ("run_id", "application", "task", "instance", "thread")
    told = notes.where(F.col("fact") == "TaskBecame").select(
        "run_id",
        *[F.get_json_object("rest", f"$.{name}").alias(name) for name in (*key[1:], "role")],
        "state",
        "n",
        "at_us",
    )
    down = notes.where(F.col("fact") == "HostDown").select("run_id", F.col("host").alias("instance"), "n", "at_us")
    gone = (
        told.select(*key)
        .distinct()
        .join(down, ["run_id", "instance"], how="inner")
        .select(*key, F.lit("").alias("role"), F.lit(DOWN).alias("state"), "n", "at_us")
    )
    in_order = Window.partitionBy(*key).orderBy("n")
    return (
        told.unionByName(gone)
        .withColumn("then_us", F.lead("at_us").over(in_order))
        .withColumn("then", F.lead("state").over(in_order))
        .where(~F.col("state").isin(CLOSED, DOWN))
        .join(run_ends(notes), "run_id", how="inner")
        .withColumn("from_us", F.col("at_us"))
        .withColumn("until_us", F.coalesce("then_us", "ends_us"))
        .withColumn("ended_by", F.coalesce("then", F.lit("end")))
        .where("from_us < until_us")
        .select(*of(TASK_INTERVALS))
    )
