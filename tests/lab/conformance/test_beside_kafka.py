"""The facts kept of recorded runs of Apache Kafka 3.4.1, and the command that holds the emulator against them.

The whole comparison is ``python -m lab.conformance``.
"""

import json
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from kemu.emulator.scenario.scenario import Scenario
from lab.conformance import plans
from lab.conformance.__main__ import main
from lab.conformance.comparing import COUNTS, RowKind, compare, differing
from lab.conformance.course import Course
from lab.conformance.emulated import emulate
from lab.conformance.timing import timed

PLANS = plans.plans_in(plans.KEPT)


def conformance(*arguments: str) -> Result:
    """The command, as in a shell where no recordings are named."""
    return CliRunner(env={"KEMU_RECORDINGS": None}).invoke(main, arguments)


def test_every_recorded_plan_is_a_scenario() -> None:
    """None is left out without a word."""
    assert len(PLANS) == 12
    assert {path.stem for path in plans.KEPT.glob("*.toml")} == set(PLANS)


@pytest.mark.parametrize("plan", PLANS)
def test_the_facts_kept_of_a_plan_are_whole(plan: str) -> None:
    """Generations in their order, each with members, a leader among them, owners, and a duration."""
    course = plans.read_course(plans.KEPT, plan)

    assert course.plan == plan
    assert [seen.generation for seen in course.rebalances] == list(range(1, len(course.rebalances) + 1))
    for seen in course.rebalances:
        assert seen.leader in seen.members
        assert set(seen.members) <= set(seen.owners)  # one that takes over a static member later has an assignment, too
        assert seen.took_ms is not None
        assert 0 < seen.took_ms < course.until_ms
    assert course.requests["JoinGroup"] >= sum(len(seen.members) for seen in course.rebalances)


@pytest.mark.parametrize("name", plans.plans_in(plans.NEW))
def test_the_times_of_a_further_plan_are_in_order(name: str) -> None:
    """A group that is deleted has generation 1 again, with times of its own."""
    course = plans.read_course(plans.NEW, name)

    for seen in course.rebalances:
        assert seen.stable_ms is None or seen.stable_ms >= seen.joined_ms >= (seen.began_ms or 0)


@cache
def run_of(plan: str, seed: int) -> Course:
    """One run of a plan at the times of its recording."""
    kafka = plans.read_course(plans.KEPT, plan)
    scenario = timed(plans.read_plan_scenario(plans.KEPT, plan), kafka, seed)
    return emulate(scenario, seed=seed, profile="kafka-3.4", until_ms=kafka.until_ms)


EXACT = {
    "a-range-rolling": ["leader *", "reason 1"],
    "b-static-rolling": [],
    "d-sticky-kill": ["c[13] OffsetCommit", "c2 Heartbeat"],
    "i-static-duplicate": ["leader 1"],
    "q-paused-in-rebalance": ["c[13] Heartbeat", "c[23] OffsetCommit"],
}
"""Plans whose responses hardly depend on the seed, and the rows that do."""


@pytest.mark.parametrize("plan", EXACT)
def test_members_are_answered_as_kafka_answered_them(plan: str) -> None:
    """Each member's responses by request, the errors, the order on each connection, and who leads."""
    kafka = plans.read_course(plans.KEPT, plan)

    compared = compare(kafka, [run_of(plan, seed) for seed in (1, 2)])

    differ = [row.name for row in differing([compared])]
    assert [name for name in differ if not any(fnmatchcase(name, drawn) for drawn in EXACT[plan])] == []
    assert sum(row.kind in COUNTS and row.is_constant for row in compared.rows) > 15


@pytest.mark.parametrize("plan", PLANS)
def test_the_emulator_has_kafkas_members(plan: str) -> None:
    """But for further generations of the same members."""
    kafka = plans.read_course(plans.KEPT, plan)

    emulated = run_of(plan, 1)

    ours, theirs = (dict.fromkeys(seen.members for seen in course.rebalances) for course in (emulated, kafka))
    assert list(ours) == list(theirs)
    assert emulated.verdict == "holds"


def test_two_plans_are_compared_and_the_exit_code_says_whether_anything_differs() -> None:
    """Three seeds each, in one process and in two: the table in JSON is complete and the same."""
    arguments = ("--plans", "b-static,i-", "--seeds", "3", "--most-times", "1", "--format", "json")
    result = conformance(*arguments, "--jobs", "2")
    told = json.loads(result.stdout)

    assert [plan["plan"] for plan in told["plans"]] == ["b-static-rolling", "i-static-duplicate"]
    assert all(plan["runs"] == plan["held"] == 3 and plan["fitted"] for plan in told["plans"])
    rows = {(row["plan"], row["name"]): row for plan in told["plans"] for row in plan["rows"]}
    assert rows["b-static-rolling", "generations"]["constant"]
    assert rows["b-static-rolling", "owners 1"]["runs_like_it"] == 3
    assert rows["i-static-duplicate", "OffsetCommit FENCED_INSTANCE_ID"]["standing"] == "agrees"
    assert rows["i-static-duplicate", "c4 JoinGroup"]["kafka"] == 1
    assert result.exit_code == (1 if told["differ"] else 0)
    assert conformance(*arguments, "--jobs", "1").stdout == result.stdout


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_table_names_every_row_that_is_evidence(form: str) -> None:
    """For people: Kafka's figure beside the range."""
    said = conformance("--plans", "b", "--seeds", "2", "--most-times", "1", "--format", form).stdout

    assert "generations" not in said
    assert "constants agree" in said
    assert "rebalance 1" in said
    assert "in-sample" in said


def test_the_table_of_runs_has_a_row_for_each_run_of_kafka_and_then_the_totals() -> None:
    """Of each run: its release, its rarest outcome, durations inside, and the numbers of rows by their result."""
    table, _, totals = conformance(
        "--plans", "b", "--seeds", "2", "--most-times", "1", "--format", "runs"
    ).stdout.partition("\n\n")
    cells = [cell.strip() for cell in table.splitlines()[-1].strip("|").split("|")]

    assert len(table.splitlines()) == 3
    assert cells[:2] == ["b-static-rolling", "3.4.1"]
    assert all(re.fullmatch(r"\d+", cells[place]) for place in (4, 6, 7))
    assert f"of {cells[4]} rows agree, {cells[6]} are chance" in totals


def test_facts_know_whether_their_processes_had_priority() -> None:
    """--priority is for recordings and live runs."""
    result = conformance("--priority", "--seeds", "1")

    assert result.exit_code == 2
    assert "--priority is about recordings" in result.stderr


def test_a_plan_of_another_length_differs() -> None:
    """The comparison can fail: Kafka's course of one plan against the runs of another."""
    kafka = plans.read_course(plans.KEPT, "a-range-rolling")
    other = emulate(
        plans.read_plan_scenario(plans.KEPT, "i-static-duplicate"), seed=1, profile="kafka-3.4", until_ms=45_000
    )

    differ = {row.name for row in differing([compare(kafka, [other])])}

    assert {"generations", "members of all generations", "c1 Heartbeat", "c1 coordinator, order"} <= differ


@pytest.mark.parametrize(("slower_ms", "runs", "standing"), [(5_000, 80, "differs"), (0, 16, "agrees")])
def test_more_runs_are_made_before_a_row_is_said_to_differ(
    monkeypatch: pytest.MonkeyPatch, slower_ms: int, runs: int, standing: str
) -> None:
    """Here every run takes five seconds longer than Kafka, so that more of them show no other."""
    kafka = plans.read_course(plans.KEPT, "h-twenty-at-once")
    made: list[int] = []

    def slow(scenario: Scenario, *, seed: int, profile: str, until_ms: int) -> Course:
        made.append(seed)
        assert profile == "kafka-3.4"
        rebalances = (attrs.evolve(each, stable_ms=(each.stable_ms or 0) + slower_ms) for each in kafka.rebalances)
        return attrs.evolve(kafka, rebalances=tuple(rebalances), verdict="holds")

    monkeypatch.setattr(plans, "emulate", slow)
    (compared,) = plans.compare([kafka], plans.KEPT, seeds=16, jobs=1)

    assert made == list(range(plans.first_seed(kafka), plans.first_seed(kafka) + runs))
    assert compared.runs == runs
    assert {row.standing for row in compared.rows if row.kind is RowKind.REBALANCE} == {standing}


def test_changes_of_the_emulator_in_this_process_are_in_force_in_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """``differences`` is how the table of breaks asks."""
    kafka = plans.read_course(plans.KEPT, "b-static-rolling")

    def broken(scenario: Scenario, *, seed: int, profile: str, until_ms: int) -> Course:
        return attrs.evolve(kafka, verdict="violated" if seed == plans.first_seed(kafka) + 1 else "holds")

    monkeypatch.setattr(plans, "emulate", broken)

    assert plans.differences(["b-static-rolling"], seeds=3, jobs=2) == ["b-static-rolling: runs that hold"]


def test_a_second_run_of_a_plan_is_compared_with_the_same_scenario(tmp_path: Path) -> None:
    """PLAN.2.json lies beside PLAN.json."""
    for name in ("b-static-rolling.json", "b-static-rolling.toml"):
        (tmp_path / name).write_text((plans.KEPT / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "b-static-rolling.2.json").write_text((tmp_path / "b-static-rolling.json").read_text(encoding="utf-8"))

    result = conformance("--facts", str(tmp_path), "--seeds", "1", "--most-times", "1", "--format", "json")

    assert [plan["plan"] for plan in json.loads(result.stdout)["plans"]] == ["b-static-rolling"] * 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--plans", "zzz"], '"zzz" begins no plan'),
        (["--seeds", "0"], "--seeds"),
        (["--profile", "kafka-0.8"], "--profile"),
        (["--write-facts"], "needs --recordings"),
        (["--facts", "{here}"], "no PLAN.json there"),
        (["--recordings", "{here}"], "no recordings there"),
        (["--recordings", "{here}/none"], "does not exist"),
    ],
)
def test_bad_input_is_one_error_and_exit_code_2(tmp_path: Path, arguments: list[str], says: str) -> None:
    """It names what was given, and the fix."""
    result = conformance(*(argument.format(here=tmp_path) for argument in arguments))

    assert result.exit_code == 2
    assert says in result.stderr


def test_a_damaged_file_of_facts_is_named(tmp_path: Path) -> None:
    """Not a traceback."""
    (tmp_path / "p.json").write_text("{}")

    result = conformance("--facts", str(tmp_path))

    assert result.exit_code == 2
    assert "p.json" in result.stderr
