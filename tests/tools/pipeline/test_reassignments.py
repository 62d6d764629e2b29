"""Steps of reassignments as a table and a summary: a run's own figures, whichever door they come by."""

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from kemu.tools.pipeline.ingest import Tables, Views, register
from kemu.tools.pipeline.quality import check
from kemu.tools.pipeline.rows import figure_columns, reassignment_step_rows
from kemu.tools.pipeline.tables.schemas import REASSIGNMENT_STEPS
from tests.tools.pipeline.lone import MOVED, Analyzed, LoneRuns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_steps_of_a_trace_are_those_of_the_run(spark: "SparkSession", lone_runs: LoneRuns, lone: Analyzed) -> None:
    """What is counted while a trace is decoded and the live run give the same rows, moved bytes included."""
    out, moved = lone.out, lone_runs.moved
    found = (
        Tables(spark.sparkContext, (out / "tables").resolve())
        .read(REASSIGNMENT_STEPS)
        .where(F.col("run_id") == moved.run_id)
    )
    assert found.schema == REASSIGNMENT_STEPS.spark().add("campaign", "string")

    rows = sorted(tuple(row)[1:-1] for row in found.collect())
    mine = sorted(row[1:] for row in reassignment_step_rows("r", moved.live.figures))
    assert rows == mine and len(rows) > 4
    assert sum(row[-1] for row in rows) == figure_columns(moved.live.figures)["moved_bytes"] > 100_000_000


def test_the_summary_says_what_the_run_said(spark: "SparkSession", lone_runs: LoneRuns, lone: Analyzed) -> None:
    """One run is its own average, median and worst."""
    out, moved = lone.out, lone_runs.moved
    moves = moved.live.figures.reassignment
    assert moves is not None and moves.took_us is not None
    summary = spark.read.parquet(str(out / "summaries" / "reassignments.parquet"))
    (row,) = summary.where(F.col("cell").startswith(MOVED)).collect()

    assert (row["runs"], row["unfinished"], row["steps"], row["given_up"]) == (1, 0, len(moves.steps), 0)
    assert row["moved_mb"] == pytest.approx(moves.moved_bytes / 1e6)
    assert row["took_median_s"] == row["took_max_s"] == moves.took_us / 1e6
    assert row["peak_extra_mb_per_s"] == max(moves.peak_extra_bytes_per_s.values()) / 1e6


def test_steps_that_do_not_fit_the_run_are_found(spark: "SparkSession", lone_runs: LoneRuns, lone: Analyzed) -> None:
    """Other bytes than the run moved, a step the controller never committed, one too few."""
    tables = Tables(spark.sparkContext, (lone.out / "tables").resolve())
    views = Views(tables)
    register(views, " ".join(views))
    wrong = {
        "reassignment_steps": views["reassignment_steps"]
        .where("number > 1")
        .withColumn("committed_us", F.col("committed_us") + 1)
        .withColumn("moved_bytes", F.col("moved_bytes") + 1)
    }
    found = {broken.constraint.name for broken in check(wrong, dict.fromkeys(wrong, 1))}

    assert found >= {
        "the controller said so", "adds up to runs.moved_bytes", "adds up to runs.reassignment_steps",
    }  # fmt: skip
