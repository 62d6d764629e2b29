"""Checkers and metrics over recorded runs that violate: the same verdicts, violations and figures as live."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve, frozen

from kemu.actors.consumer.consumer import Consumer
from kemu.emulator.chance import Seeded
from kemu.emulator.findings import Violation
from kemu.emulator.metrics.figures import plain
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import Scenario
from kemu.tools.pipeline.folds import judged, violations_of
from kemu.tools.pipeline.ingest import Tables
from kemu.tools.pipeline.quality import check
from kemu.tools.pipeline.run import make_derived
from kemu.tools.pipeline.tables import DERIVED
from kemu.tools.pipeline.tables.schemas import FAULTS, NOTES, RECORDED, RUNS, VIOLATIONS
from tests.emulator.test_past_replica_bugs import CASES as PAST_REPLICA_BUGS
from tests.emulator.test_past_replica_bugs import scenario as with_replica_bug

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEEDS = range(1, 101)
BUGS = ("KAFKA-1211", "KAFKA-6361", "KAFKA-1382", "KAFKA-4443")
"""Of replicas and controllers; both verdicts and three checkers among them."""


@frozen
class Made:
    """A run: how it ended live, and its trace."""

    live: RunResult
    trace: Path

    @property
    def run_id(self) -> str:
        """As tables name it."""
        return f"{self.trace.resolve()}@16"


def first_violating(folder: Path, name: str, of_seed: Callable[[int], Scenario], profile: str | None = None) -> Made:
    """The first seed that breaks a rule, with its trace."""
    path = folder / f"{name}.kemu"
    for seed in SEEDS:
        live = run(of_seed(seed), seed=seed, profile=profile, drive="bare", trace=path)
        if live.violations:
            return Made(live, path)
    raise AssertionError(f"{name}: no seed of {SEEDS} breaks a rule")


def runs_of_groups(folder: Path) -> Iterator[Made]:
    """Expected violations, the same not expected, and KAFKA-12983 switched on by the profile."""
    preset = load_scenario("custom-assignor-without-generation")
    yield first_violating(folder, "expected", lambda seed: preset)
    fixed = load_scenario("custom-assignor-with-generation")
    yield first_violating(folder, "unfixed", lambda seed: fixed, "kafka-2.4-unfixed")
    left = evolve(load_scenario("one-eager-member-left-behind"), expect=())
    yield first_violating(folder, "liveness", lambda seed: left)


def runs_of_replicas(folder: Path) -> Iterator[Made]:
    """Past bugs of replication and control switched on."""
    for number, (issue, _, plan, how) in enumerate(PAST_REPLICA_BUGS):
        if issue in BUGS:

            def of_seed(seed: int, issue: str = issue, plan: Any = plan, how: Any = how) -> Scenario:
                return with_replica_bug(plan(Seeded(seed).stream("plan")), (issue,), **how)

            yield first_violating(folder, f"{issue}-case-{number}", of_seed)


def broken_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A machine that fails an assertion of its own in the midst of a run."""
    step = Consumer.step

    def fail_later(self: Consumer, now_us: int, event: Any) -> Any:
        assert now_us < 20_000_000, "made to fail"
        return step(self, now_us, event)

    with monkeypatch.context() as patched:
        patched.setattr(Consumer, "step", fail_later)
        live = run(load_scenario("steady-group"), seed=1, drive="bare", trace=folder / "broken.kemu")
    return Made(live, folder / "broken.kemu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    folder = tmp_path_factory.mktemp("violating")
    with pytest.MonkeyPatch.context() as monkeypatch:
        return [*runs_of_groups(folder), *runs_of_replicas(folder), broken_run(folder, monkeypatch)]


@pytest.fixture(scope="module")
def tables(spark: "SparkSession", made: list[Made]) -> Tables:
    """All of them, recorded and derived."""
    root = made[0].trace.parent
    tables = Tables(spark, (root / "tables").resolve())
    new = tables.find_new(root)
    part = tables.ingest(new)
    make_derived(tables, part)
    tables.commit(part, new)
    return tables


@pytest.fixture(scope="module")
def verdicts(tables: Tables) -> "Iterator[DataFrame]":
    found = judged(tables.read(NOTES).drop("campaign"), tables.read(RUNS).drop("campaign")).cache()
    yield found
    found.unpersist()


def by_run(violations: "DataFrame") -> dict[str, list[Violation]]:
    """The violations of each run, in their order."""
    found: dict[str, list[Violation]] = {}
    for row in violations.select("run_id", *VIOLATIONS.names[1:]).collect():
        checker, at_us, seq, entities, text, liveness, kind = row[1:]
        found.setdefault(row[0], []).append(Violation(checker, at_us, seq, tuple(entities), text, liveness, kind))
    for each in found.values():
        each.sort(key=lambda violation: (violation.at_us, violation.seq, violation.checker, violation.text))
    return found


def test_the_runs_are_of_every_verdict_and_of_many_checkers(made: list[Made]) -> None:
    """Or the tests below compare nothing."""
    assert {each.live.verdict for each in made} == {"holds", "violated", "liveness", "broken"}
    assert {violation.checker for each in made for violation in each.live.violations} >= {
        "one-owner", "cooperative", "liveness", "replicas", "recovery"
    }  # fmt: skip


def test_offline_checkers_say_what_the_online_ones_said(
    made: list[Made], tables: Tables, verdicts: "DataFrame"
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


def test_offline_metrics_are_the_online_ones(made: list[Made], verdicts: "DataFrame") -> None:
    """Every figure of runs that went wrong."""
    told = {row["run_id"]: json.loads(row["metrics"]) for row in verdicts.collect()}

    for each in made:
        assert told[each.run_id] == plain(each.live.figures), each.trace.name


def test_tables_tell_of_faults_what_the_runs_did(made: list[Made], tables: Tables) -> None:
    """How often each took effect."""
    rows = tables.read(FAULTS).orderBy("run_id", "fault_index").collect()
    for each in made:
        fired = [row["fired"] for row in rows if row["run_id"] == each.run_id]
        assert fired == [fault.fired for fault in each.live.faults]


def test_wrong_runs_break_no_constraint_of_the_tables(spark: "SparkSession", tables: Tables) -> None:
    """A violated rule of the protocol is data; only tables that are wrong break constraints."""
    views = {schema.name: tables.read(schema) for schema in (*RECORDED.values(), *DERIVED.values())}
    for name, view in views.items():
        view.createOrReplaceTempView(name)

    assert check(views)[1] == []
