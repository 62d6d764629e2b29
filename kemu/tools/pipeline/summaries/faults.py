"""The summary of effects of faults, which attributes each cost to the last fault before the cost."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

NOTHING = "nothing yet"


def fault_effects(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Rebalances, downtime and violations, by the kind of the last fault before their start.

    Costs before the first fault have the kind "nothing yet". The summary cannot separate the effects of faults at
    nearly the same time, so scenarios with one fault give the clearest results.

    In:  runs, notes, rebalances, downtime, leaderless, violations
    Out: (campaign, cell, kind, applied, rebalances, stopped_s, moved, downtime_partition_s, leaderless_partition_s,
        violations): sums over all runs
    """
    when = "run_id", F.col("at_us")
    faults = tables["notes"].where(F.col("fact") == "FaultApplied").select(*when, "kind", F.lit(1).alias("applied"))
    began = F.col("started_us").alias("at_us")
    rebalances = tables["rebalances"].select(
        "run_id", began, F.lit(1).alias("rebalances"), F.col("stop_the_world_us").alias("stopped_us"), "moved"
    )
    down, leaderless = (
        tables[name].select(
            "run_id", F.col("from_us").alias("at_us"), (F.col("until_us") - F.col("from_us")).alias(cost)
        )
        for name, cost in (("downtime", "down_us"), ("leaderless", "leaderless_us"))
    )
    violations = tables["violations"].select(*when, F.lit(1).alias("violations"))
    everything = faults
    for costs in (rebalances, down, leaderless, violations):
        everything = everything.unionByName(costs, allowMissingColumns=True)
    # A fault and its immediate effects have the same time, so the order puts the fault before the effects.
    so_far = (
        Window.partitionBy("run_id")
        .orderBy("at_us", F.col("applied").asc_nulls_last())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    charged = everything.withColumn("kind", F.last("kind", ignorenulls=True).over(so_far))
    return (
        charged.join(tables["runs"].select("run_id", "campaign", "cell"), "run_id", how="inner")
        .groupBy("campaign", "cell", F.coalesce("kind", F.lit(NOTHING)).alias("kind"))
        .agg(
            F.coalesce(F.sum("applied"), F.lit(0)).alias("applied"),
            F.coalesce(F.sum("rebalances"), F.lit(0)).alias("rebalances"),
            (F.coalesce(F.sum("stopped_us"), F.lit(0)) / F.lit(1e6)).alias("stopped_s"),
            F.coalesce(F.sum("moved"), F.lit(0)).alias("moved"),
            (F.coalesce(F.sum("down_us"), F.lit(0)) / F.lit(1e6)).alias("downtime_partition_s"),
            (F.coalesce(F.sum("leaderless_us"), F.lit(0)) / F.lit(1e6)).alias("leaderless_partition_s"),
            F.coalesce(F.sum("violations"), F.lit(0)).alias("violations"),
        )
        .orderBy("campaign", "cell", "kind")
    )
