"""Tasks of Streams applications as tables and summaries: a run's own figures, whichever door they come by."""

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from kemu.tools.pipeline.ingest import Tables
from kemu.tools.pipeline.rows import figure_columns, restore_rows, task_downtime_rows
from kemu.tools.pipeline.tables.common import gaps
from kemu.tools.pipeline.tables.schemas import NOTES, RESTORES, TASK_DOWNTIME, TASK_INTERVALS
from tests.tools.pipeline.lone import STREAMS, Analyzed, LoneRuns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_downtime_and_restores_of_a_trace_are_those_of_the_run(
    spark: "SparkSession", lone_runs: LoneRuns, lone: Analyzed
) -> None:
    """What is counted while a trace is decoded and the live run give the same rows."""
    tables, made = Tables(spark.sparkContext, (lone.out / "tables").resolve()), lone_runs.streams
    for schema, rows in ((TASK_DOWNTIME, task_downtime_rows), (RESTORES, restore_rows)):
        found = tables.read(schema).where(F.col("run_id") == made.run_id)
        assert found.schema == schema.spark().add("campaign", "string")
        assert sorted(tuple(row)[1:-1] for row in found.collect()) == sorted(
            row[1:] for row in rows("r", made.live.figures)
        )
    columns = figure_columns(made.live.figures)
    assert (columns["tasks_moved"], columns["rebalances_ready"], columns["rebalances_leaving"]) == (2, 2, 1)


def test_what_no_running_copy_covers_is_the_downtime_of_tasks(
    spark: "SparkSession", lone_runs: LoneRuns, lone: Analyzed
) -> None:
    """Intervals made by column functions of recorded facts, against what the run's metrics counted."""
    tables, made = Tables(spark.sparkContext, (lone.out / "tables").resolve()), lone_runs.streams
    notes = tables.read(NOTES).where(F.col("run_id") == made.run_id).drop("campaign")
    running = tables.read(TASK_INTERVALS).where("role = 'active' and state = 'RUNNING'").drop("campaign")
    held = running.withColumn("actor", F.col("instance")).withColumn("cause", F.col("ended_by"))
    found = gaps(held, notes, ("application", "task")).select("task", "from_us", "until_us").collect()

    assert sorted(tuple(row) for row in found) == sorted(
        (row.task, row.from_us, row.until_us) for row in made.live.figures.streams["app"].task_downtime
    )


def test_the_summaries_say_what_the_run_said(spark: "SparkSession", lone_runs: LoneRuns, lone: Analyzed) -> None:
    """One run is its own total and worst."""
    figures = lone_runs.streams.live.figures.streams["app"]
    summaries = (
        spark.read.parquet(str(lone.out / "summaries" / f"{name}.parquet"))
        for name in ("task_downtime_by_cause", "restores_by_role")
    )
    down, read = (summary.where(F.col("cell").startswith(STREAMS)).collect() for summary in summaries)

    assert {row["cause"]: row["intervals"] for row in down} == {"paused": 1, "given up": 2}
    assert sum(row["total_s"] for row in down) == pytest.approx(sum(figures.downtime_us.values()) / 1e6)
    assert all(row["detect"] + row["barrier"] + row["restore"] + row["pause"] == pytest.approx(1) for row in down)
    (head,) = (
        spark.read.parquet(str(lone.out / "summaries" / "headline.parquet"))
        .where(F.col("cell").startswith(STREAMS))
        .collect()
    )
    assert (head["tasks_moved"], head["task_learning_s"]) == (2, pytest.approx(figures.learner_us / 1e6))
    assert head["join_wait_s"] == pytest.approx(sum(figures.join_waits_us.values()) / 1e6) and head["join_wait_s"] > 1
    others = (
        spark.read.parquet(str(lone.out / "summaries" / "headline.parquet"))
        .where(~F.col("cell").startswith(STREAMS))
        .collect()
    )
    assert others and {row["task_learning_s"] for row in others} == {None}
    (learned,) = [row for row in read if row["role"] == "learner"]
    assert (learned["copies"], learned["outcome"], learned["wasted_mb"]) == (2, "used", 0)
    assert learned["read_mb"] == pytest.approx(figures.read_bytes["learner"] / 1e6)
