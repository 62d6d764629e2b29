"""Summaries of coverage: transitions of states, refused requests, and first violations."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kemu.actors.consumer.state import MAY_FOLLOW as MEMBER_EDGES
from kemu.actors.coordinator.state import MAY_FOLLOW as GROUP_EDGES
from kemu.tools.pipeline.summaries.common import CELL, with_cell


def edges() -> list[tuple[str, str, str]]:
    """(fact, old, new) of every transition that the machines allow."""
    group = [("GroupBecame", old.value, new.value) for new, olds in GROUP_EDGES.items() for old in olds]
    member = [("MemberBecame", old.value, new.value) for new, olds in MEMBER_EDGES.items() for old in olds]
    return sorted(set(group + member))


def transitions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Every allowed transition, and the number of each scenario's runs with the transition.

    In:  runs, notes
    Out: (fact, old, new, scenario, runs, times, allowed): ``scenario`` is null for a transition that no run took
    """
    spark = tables["runs"].sparkSession
    allowed = spark.createDataFrame(edges(), "fact string, old string, new string").withColumn("allowed", F.lit(True))
    taken = (
        tables["notes"]
        .where(F.col("fact").isin("GroupBecame", "MemberBecame") & (F.col("old") != F.col("new")))
        .join(tables["runs"].select("run_id", "scenario"), "run_id", how="inner")
        .groupBy("fact", "old", "new", "scenario")
        .agg(F.countDistinct("run_id").alias("runs"), F.count("*").alias("times"))
    )
    return (
        allowed.join(taken, ["fact", "old", "new"], how="full")
        .select(
            "fact", "old", "new", "scenario",
            F.coalesce("runs", F.lit(0)).alias("runs"),
            F.coalesce("times", F.lit(0)).alias("times"),
            F.coalesce("allowed", F.lit(False)).alias("allowed"),
        )
        .orderBy("fact", "old", "new", "scenario")
    )  # fmt: skip


def refusals(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Numbers of requests that coordinators refused, by API and error.

    In:  runs, notes
    Out: (campaign, cell, api, error, runs, times)
    """
    return (
        with_cell(tables["notes"].where(F.col("fact") == "RequestRefused"), tables["runs"])
        .groupBy(*CELL, "api", "error")
        .agg(F.countDistinct("run_id").alias("runs"), F.count("*").alias("times"))
        .orderBy(*CELL, "api", "error")
    )


def first_violations(tables: Mapping[str, DataFrame]) -> DataFrame:
    """For each cell and checker, the number of seeds in order until the first run with a violation.

    In:  runs, violations
    Out: (campaign, cell, checker, runs, violated, violations, first_seed, seeds_to_first, first_run_id, command):
        ``seeds_to_first`` includes the seed of the violation; ``runs``: number of runs of the cell
    """
    runs = tables["runs"].select("run_id", *CELL, "seed", "command")
    per_cell = runs.groupBy(*CELL).agg(F.count("*").alias("runs"), F.min("seed").alias("from_seed"))
    found = tables["violations"].drop("campaign").join(runs, "run_id", how="inner")
    first = F.min(F.struct("seed", "run_id", "command"))
    told = found.groupBy(*CELL, "checker").agg(
        F.countDistinct("run_id").alias("violated"), F.count("*").alias("violations"), first.alias("first")
    )
    seeds = runs.select(*CELL, F.col("seed").alias("tried")).distinct()
    counted = (
        told.join(seeds, list(CELL), how="inner")
        .where(F.col("tried") <= F.col("first.seed"))
        .groupBy(*CELL, "checker")
        .agg(F.count("*").alias("seeds_to_first"))
    )
    return (
        told.join(counted, [*CELL, "checker"], how="inner")
        .join(per_cell, list(CELL), how="inner")
        .select(
            *CELL, "checker", "runs", "violated", "violations", F.col("first.seed").alias("first_seed"),
            "seeds_to_first", F.col("first.run_id").alias("first_run_id"), F.col("first.command").alias("command"),
        )
        .orderBy(*CELL, "checker")
    )  # fmt: skip
