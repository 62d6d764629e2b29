"""Checkers and metrics over recorded runs that violate: the same verdicts, violations and figures as live."""

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from kemu.emulator.findings import Violation
from kemu.emulator.metrics.figures import plain
from kemu.tools.pipeline.ingest import Tables
from kemu.tools.pipeline.rows import downtime_rows, figure_columns, rebalance_rows
from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.schemas import DOWNTIME, FAULTS, NOTES, REBALANCES, RUNS, VIOLATIONS
from tests.tools.pipeline.folds import judged, violations_of
from tests.tools.pipeline.lone import Analyzed, LoneRuns, Made

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def made(lone_runs: LoneRuns) -> tuple[Made, ...]:
    return lone_runs.wrong


@pytest.fixture(scope="module")
def tables(spark: "SparkSession", lone: Analyzed) -> Tables:
    return Tables(spark.sparkContext, (lone.out / "tables").resolve())


@pytest.fixture(scope="module")
def verdicts(tables: Tables, made: tuple[Made, ...]) -> "DataFrame":
    """Of every run that went wrong, its facts read from the table again."""
    names = [each.run_id for each in made]
    notes, runs = (tables.read(schema).where(F.col("run_id").isin(names)) for schema in (NOTES, RUNS))
    found = judged(notes.drop("campaign"), runs.drop("campaign"))
    return tables.spark.createDataFrame(found.toArrow())


def by_run(violations: "DataFrame") -> dict[str, list[Violation]]:
    """The violations of each run, in their order."""
    found: dict[str, list[Violation]] = {}
    for row in violations.select("run_id", *VIOLATIONS.names[1:]).collect():
        checker, at_us, seq, entities, text, liveness, kind = row[1:]
        found.setdefault(row[0], []).append(Violation(checker, at_us, seq, tuple(entities), text, liveness, kind))
    for each in found.values():
        each.sort(key=lambda violation: (violation.at_us, violation.seq, violation.checker, violation.text))
    return found


def test_the_runs_are_of_every_verdict_and_of_many_checkers(made: tuple[Made, ...]) -> None:
    """Or the tests below compare nothing."""
    assert {each.live.verdict for each in made} == {"holds", "violated", "liveness", "broken"}
    assert {violation.checker for each in made for violation in each.live.violations} >= {
        "cooperative", "liveness", "replicas", "duties"
    }  # fmt: skip


def test_offline_checkers_say_what_the_online_ones_said(
    made: tuple[Made, ...], tables: Tables, verdicts: "DataFrame"
) -> None:
    """Verdict, and each violation's checker, time, step, entities and text: live, in the trace, and from its facts."""
    offline = by_run(violations_of(verdicts))
    recorded = by_run(tables.read(VIOLATIONS))
    said = {row["run_id"]: row["verdict"] for row in verdicts.collect()}

    assert len(said) == len(made)
    for each in made:
        assert said[each.run_id] == each.live.verdict, each.trace.name
        assert offline.get(each.run_id, []) == list(each.live.violations), each.trace.name
        assert recorded.get(each.run_id, []) == list(each.live.violations), each.trace.name


def test_offline_metrics_are_the_online_ones(made: tuple[Made, ...], verdicts: "DataFrame") -> None:
    """Every figure of runs that went wrong."""
    told = {row["run_id"]: json.loads(row["metrics"]) for row in verdicts.collect()}

    for each in made:
        assert told[each.run_id] == plain(each.live.figures), each.trace.name


def test_tables_tell_of_faults_what_the_runs_did(made: tuple[Made, ...], tables: Tables) -> None:
    """How often each took effect."""
    rows = tables.read(FAULTS).orderBy("run_id", "fault_index").collect()
    for each in made:
        fired = [row["fired"] for row in rows if row["run_id"] == each.run_id]
        assert fired == [fault.fired for fault in each.live.faults]


def test_figures_of_lone_traces_are_those_of_the_runs(lone_runs: LoneRuns, tables: Tables) -> None:
    """No record of a trace says them: they are counted while it is decoded, and stand in the tables as a campaign's."""
    runs = {row["run_id"]: row.asDict() for row in tables.read(RUNS).collect()}

    def rows_of(schema: Schema, order: int) -> dict[str, list[tuple[object, ...]]]:
        found: dict[str, list[tuple[object, ...]]] = {}
        for row in sorted(map(tuple, tables.read(schema).collect()), key=lambda row: (row[0], row[order])):
            found.setdefault(row[0], []).append(row[:-1])
        return found

    rebalances, downtime = rows_of(REBALANCES, 1), rows_of(DOWNTIME, 1)
    assert set(runs) == {each.run_id for each in lone_runs.all}
    for each in lone_runs.all:
        figures = each.live.figures
        wanted = figure_columns(figures)
        assert {name: runs[each.run_id][name] for name in wanted} == wanted, each.trace.name
        assert rebalances.get(each.run_id, []) == rebalance_rows(each.run_id, figures), each.trace.name
        assert sorted(downtime.get(each.run_id, [])) == sorted(downtime_rows(each.run_id, figures)), each.trace.name


def test_wrong_runs_break_no_constraint_of_the_tables(lone: Analyzed) -> None:
    """A violated rule of the protocol is data; only tables that are wrong break constraints."""
    assert lone.analysis.broken == []
