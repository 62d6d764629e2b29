"""The facts kept of recorded runs of Apache Kafka 3.4.1, and the command that holds the emulator against them.

The whole comparison is ``python -m lab.conformance``.
"""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from kemu.emulator.scenario.scenario import Scenario
from lab.conformance import plans
from lab.conformance.__main__ import main
from lab.conformance.comparing import ComparedKind, FigureStanding, compare_plan
from lab.conformance.course import Course
from lab.conformance.emulated import COUNTED as COUNTED_APIS
from lab.conformance.emulated import emulate
from lab.conformance.races import DURATIONS, OWNERS
from lab.conformance.timing import timed

PLANS = plans.plans_in(plans.KEPT)
EXPLANATIONS = plans.read_explanations(plans.KEPT)
SAID = [plan for plan in PLANS if plan not in EXPLANATIONS.unsaid]


def named_in(table: Mapping[str, Mapping[str, tuple[str, ...]]], plan: str, figure: str) -> bool:
    """Whether a table of explanations names a plan's figure."""
    return any(figure in figures for figures in table.get(plan, {}).values())


COUNTED = [plan for plan in SAID if not named_in(EXPLANATIONS.causes, plan, "generations")]
"""Plans whose generations are not known to be other than Kafka's."""


def conformance(*arguments: str) -> Result:
    """The command, as in a shell where no recordings are named."""
    return CliRunner(env={"KEMU_RECORDINGS": None}).invoke(main, arguments)


def test_every_recorded_plan_is_a_scenario_or_says_what_is_missing() -> None:
    """None is left out without a word."""
    scenarios = {path.stem for path in plans.KEPT.glob("*.toml")} - {"explanations"}

    assert len(PLANS) == 12
    assert scenarios | set(EXPLANATIONS.unsaid) == set(PLANS)
    assert scenarios & set(EXPLANATIONS.unsaid) == set()


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


SEEDS = {"f-topic-grows": (1, 2, 3), "g-broker-restart": (1, 2, 3, 4), "n-three-brokers": (1, 2)}
"""Where it is chance who leads, or what clients hear first: seeds of which one has Kafka's order."""


@cache
def run_of(plan: str, seed: int) -> Course:
    """One run of a plan at the times of its recording."""
    kafka = plans.read_course(plans.KEPT, plan)
    scenario = timed(plans.read_plan_scenario(plans.KEPT, plan), kafka)
    return emulate(scenario, seed=seed, profile=plans.PROFILE, until_ms=kafka.until_ms)


def run_beside(kafka: Course) -> Course:
    """The run with the first seed."""
    return run_of(kafka.plan, 1)


@pytest.mark.parametrize("plan", COUNTED)
def test_members_are_answered_as_kafka_answered_them(plan: str) -> None:
    """Request by request on each connection of each member, in order, with error codes and generations."""
    kafka = plans.read_course(plans.KEPT, plan)
    runs = [run_of(plan, seed) for seed in SEEDS.get(plan, (1,))]

    compared = compare_plan(kafka, runs, EXPLANATIONS)

    assert [row.name for row in compared.exchanges] == sorted(
        kafka.exchanges, key=lambda name: (int(name.split()[0][1:]), name)
    )
    differ = [row for row in compared.exchanges if row.standing is FigureStanding.DIFFERS]
    assert {row.name: row.differences for row in differ if not row.why} == {}


@pytest.mark.parametrize("plan", COUNTED)
def test_the_emulator_has_kafkas_generations(plan: str) -> None:
    """Their number, and who is in each."""
    kafka = plans.read_course(plans.KEPT, plan)

    emulated = run_beside(kafka)

    assert [seen.members for seen in emulated.rebalances] == [seen.members for seen in kafka.rebalances]
    assert emulated.verdict == "holds"


def test_two_plans_are_compared_and_the_exit_code_says_whether_anything_differs() -> None:
    """Three seeds each; the table in JSON is complete, and the same again with the same seeds."""
    result = conformance("--plans", "b-static,h-", "--seeds", "3", "--format", "json")
    told = json.loads(result.stdout)

    assert [plan["plan"] for plan in told["plans"]] == ["b-static-rolling", "h-twenty-at-once"]
    assert all(plan["runs"] == plan["held"] == 3 for plan in told["plans"])
    rows = {(row["plan"], row["name"]): row for plan in told["plans"] for row in plan["figures"]}
    assert rows["b-static-rolling", "generations"]["kafka"] == 1
    assert rows["h-twenty-at-once", "JoinGroup MEMBER_ID_REQUIRED"]["standing"] == "agrees"
    assert rows["b-static-rolling", "owners 1"]["runs_like_it"] == 3
    assert result.exit_code == (1 if told["differ"] else 0)
    assert conformance("--plans", "b-static,h-", "--seeds", "3", "--format", "json").stdout == result.stdout


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_table_names_every_figure(form: str) -> None:
    """For people: Kafka's figure beside median and range."""
    said = conformance("--plans", "h", "--seeds", "1", "--format", form).stdout

    assert "rebalance 1" in said
    assert "6.080 s" in said
    assert "JoinGroup MEMBER_ID_REQUIRED" in said
    assert "the number of generations is equal in 1 of 1 plans" in said


def test_a_plan_of_another_length_differs_and_is_found() -> None:
    """The comparison can fail: Kafka's course of one plan against the runs of another."""
    kafka = plans.read_course(plans.KEPT, "a-range-rolling")
    other = emulate(
        plans.read_plan_scenario(plans.KEPT, "h-twenty-at-once"),
        seed=1,
        profile=plans.PROFILE,
        until_ms=22_000,
    )

    compared = compare_plan(kafka, [other], EXPLANATIONS)

    standing = {row.kind: row.standing for row in compared.figures if row.name.startswith(("generations", "members"))}
    assert standing == {
        ComparedKind.GENERATIONS: FigureStanding.DIFFERS,
        ComparedKind.MEMBERS: FigureStanding.DIFFERS,
    }


@pytest.mark.parametrize(("slower_ms", "runs", "standing"), [(5_000, 20, "differs"), (0, 4, "agrees")])
def test_five_times_the_runs_are_made_before_a_duration_is_said_to_lie_outside(
    monkeypatch: pytest.MonkeyPatch, slower_ms: int, runs: int, standing: str
) -> None:
    """Here every run takes five seconds longer than Kafka, so that more of them show no other."""
    kafka = plans.read_course(plans.KEPT, "h-twenty-at-once")
    made: list[int] = []

    def slow(scenario: Scenario, *, seed: int, profile: str, until_ms: int) -> Course:
        made.append(seed)
        rebalances = (
            attrs.evolve(each, stable_ms=(each.stable_ms or 0) + slower_ms, began_ms=each.began_ms)
            for each in kafka.rebalances
        )
        return attrs.evolve(kafka, rebalances=tuple(rebalances), verdict="holds")

    monkeypatch.setattr(plans, "emulate", slow)
    (compared,) = plans.compare([kafka], plans.KEPT, seeds=range(1, 5))

    assert made == list(range(1, runs + 1))
    assert compared.runs == runs
    assert {row.standing for row in compared.figures if row.kind is ComparedKind.REBALANCE} == {standing}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--plans", "zzz"], '"zzz" begins no plan'),
        (["--seeds", "0"], "--seeds"),
        (["--profile", "kafka-0.8"], "--profile"),
        (["--write-facts"], "needs --recordings"),
        (["--write-docs", "--plans", "h"], "about all plans"),
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
    (tmp_path / "explanations.toml").write_text("[reasons]\n[unsaid]\n[explained]\n[causes]\n")

    result = conformance("--facts", str(tmp_path))

    assert result.exit_code == 2
    assert "p.json" in result.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[reasons]\n[unsaid]\n[explained.p]\nx = ["rebalance 1"]\n[causes]\n', "no text among reasons for x"),
        ('[reasons]\nx = "y"\n[unsaid]\n[explained.p]\nx = "rebalance 1"\n[causes]\n', "expected tuple @ "),
        ("[reasons]\n[unsaid]\n[explained]\n", "causes"),
        ('[reasons]\n[unsaid]\n[explained]\n[causes]\n[races.p]\ny = ["generations"]\n', "no text among reasons for y"),
        ("[reasons", "is not TOML"),
    ],
)
def test_damaged_explanations_are_refused(tmp_path: Path, text: str, says: str) -> None:
    """One error that names the file; a reason without a text would be printed as a bare name."""
    (tmp_path / "explanations.toml").write_text(text)

    with pytest.raises(plans.FactsError, match=says) as refused:
        plans.read_explanations(tmp_path)
    assert "explanations.toml" in str(refused.value)


def test_explanations_are_about_figures_that_there_are() -> None:
    """One about a figure that no plan has would never be needed, and never be missed."""
    for table in (EXPLANATIONS.explained, EXPLANATIONS.races, EXPLANATIONS.causes):
        for plan, reasons in table.items():
            course = plans.read_course(plans.KEPT, plan)
            numbers = [seen.generation for seen in course.rebalances]
            known = {f"{figure} {number}" for figure in ("rebalance", "owners") for number in numbers}
            known |= {"generations", "members of all generations", "downtime, sum", "downtime, longest"}
            known |= {OWNERS, DURATIONS}
            named = {figure for figures in reasons.values() for figure in figures}
            assert {figure for figure in named - known if figure.split()[0] not in COUNTED_APIS} == {
                figure
                for figure in named
                if any(fnmatchcase(f"{place}, ", figure.split(", ")[0] + ", ") for place in course.exchanges)
            }
