"""Verdicts that cannot be fooled: dead members, idle groups, settings that brokers refuse, expectations."""

from typing import Any

import attrs
import pytest

from kemu.emulator.findings import Violation, kinds_by_checker
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions import ErrorReply, ListenerFailure
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.expectations import Expectation, split
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_values
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.errors import ErrorCode

S = 1_000_000


def group_of_three(
    *plan: Action, config: dict[str, Any] | None = None, release: str | None = None, **more: Any
) -> RunResult:
    """Three members, 40 s, these actions at 20 s; ``config``: the brokers'."""
    scenario = Scenario(
        name="three",
        duration_us=40 * S,
        brokers=BrokersSpec(config=config or {}),
        topics={"orders": TopicSpec(partitions=6, records_per_s=60)},
        groups={"billing": GroupSpec(topics=("orders",), members=3, start_spread_us=S)},
        plan=tuple(At(20 * S, each) for each in plan),
        **more,
    )
    return run(scenario, seed=1, profile=release, loop="bare")


# --- dead members --------------------------------------------------------------------------------------------------


def test_a_member_that_fails_for_good_is_named_with_the_setting_that_refused_it() -> None:
    """KIP-389: the third member is refused; the other two work on and everything is owned."""
    result = group_of_three(config={"group.max.size": 2})

    assert result.verdict == "liveness"
    (violation,) = result.violations
    assert (violation.checker, violation.kind) == ("liveness", "member-failed")
    assert violation.entities[0] == "billing"
    assert "failed for good: GROUP_MAX_SIZE_REACHED" in violation.text and "group.max.size" in violation.text
    assert result.reason == f"liveness: {violation.text}"
    assert result.did_not_work == violation.text


def test_a_group_of_dead_members_does_not_hold() -> None:
    """All are refused as soon as they come: session.timeout.ms of kafka-2.4 is 10000."""
    dead = group_of_three(config={"group.min.session.timeout.ms": 11_000}, release="kafka-2.4")

    assert dead.verdict == "liveness"
    assert {violation.entities[1] for violation in dead.violations} == {"c1", "c2", "c3"}
    assert dead.figures.records.processed == 0 < dead.figures.records.appended
    assert "INVALID_SESSION_TIMEOUT" in dead.reason and "group.min.session.timeout.ms" in dead.reason
    assert dead.did_not_work.endswith("; 2 more members failed")


@pytest.mark.parametrize(
    "action",
    [
        ErrorReply(api="Heartbeat", sender="c2", error=ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ListenerFailure(host="c2", callback="onPartitionsRevoked"),
    ],
)
def test_a_member_that_the_plan_killed_is_no_violation(action: Action) -> None:
    """The plan had its heartbeat refused for good, or its listener raise."""
    assert group_of_three(action).verdict == "holds"


# --- settings ------------------------------------------------------------------------------------------------------

SMALL = """
[topics.orders]
partitions = 6
[groups.g]
topics = ["orders"]
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "config.session.timeout.ms = 5000\nconfig.heartbeat.interval.ms = 1000",
            "groups.g.config.session.timeout.ms: 5000 is below group.min.session.timeout.ms 6000 of the brokers",
        ),
        (
            "[brokers.config]\ngroup.max.session.timeout.ms = 30000",
            "brokers.config.group.max.session.timeout.ms: session.timeout.ms 45000 of group g (the default) is above",
        ),
        (
            "[groups.g.overrides.c2.config]\nsession.timeout.ms = 2000000",
            "groups.g.overrides.c2.config.session.timeout.ms: 2000000 is above group.max.session.timeout.ms 1800000",
        ),
    ],
)
def test_a_session_timeout_that_brokers_refuse_is_an_error_of_the_scenario(text: str, said: str) -> None:
    """GroupCoordinator.joinGroup: INVALID_SESSION_TIMEOUT outside of the bounds."""
    with pytest.raises(ScenarioError) as caught:
        scenario_from_toml(SMALL + text, source="small.toml")

    assert said in str(caught.value)


# --- expectations --------------------------------------------------------------------------------------------------

REST = Violation("liveness", 9, 1, ("billing",), "not at rest", True, "not-at-rest")
IDLE = Violation("liveness", 10, 2, ("billing", "orders-1"), "nothing done", True, "unheard-isr")
OTHER = Violation("liveness", 11, 2, ("reports",), "not at rest", True, "not-at-rest")
OWNERS = Violation("one-owner", 12, 3, ("billing", "orders-0", "c1"), "two owners", False, "two-owners")


@pytest.mark.parametrize(
    ("expect", "left"),
    [
        (Expectation(checker="liveness", kind="not-at-rest", subject="group billing"), [IDLE, OTHER, OWNERS]),
        (Expectation(checker="liveness", kind="not-at-rest"), [IDLE, OWNERS]),
        (Expectation(checker="liveness"), [IDLE, OWNERS]),  # the first kind alone
        (Expectation(checker="one-owner", subject="c1"), [REST, IDLE, OTHER]),
        (Expectation(checker="liveness", kind="unheard-isr", subject="orders-1"), [REST, OTHER, OWNERS]),
    ],
)
def test_an_expectation_names_violations_by_kind_and_subject_and_all_others_count(
    expect: Expectation, left: list[Violation]
) -> None:
    """Another kind, another subject or another checker is no excuse."""
    assert split([REST, IDLE, OTHER, OWNERS], (expect,)) == (tuple(left), ())


def test_an_expectation_that_does_not_come_true_is_a_failure() -> None:
    """One that only may come true is none."""
    expected = Expectation(checker="commits", kind="went-back", subject="group billing")

    result = group_of_three(expect=(expected,))
    assert result.verdict == "liveness"
    assert [violation.kind for violation in result.violations] == ["unmet"]
    assert result.reason == "expectations: expected commits went-back of group billing, which did not happen"
    assert group_of_three(expect=(attrs.evolve(expected, may=True),)).verdict == "holds"


def test_an_expectation_of_another_group_excuses_nothing() -> None:
    """The group stays out of rest, as expected of somebody else."""
    scenario = load_scenario("one-eager-member-left-behind")
    other = attrs.evolve(scenario, expect=(Expectation(checker="liveness", kind="not-at-rest", subject="group h"),))

    assert run(scenario, seed=1, loop="bare").verdict == "holds"
    result = run(other, seed=1, loop="bare")
    assert result.verdict == "liveness"
    assert [violation.kind for violation in result.violations] == ["not-at-rest", "unmet"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('expect = ["livenes"]', 'expect[0].checker: "livenes" is no checker; did you mean "liveness"?'),
        ('expect = [{checker = "liveness", kind = "not-at-rst"}]', 'did you mean "not-at-rest"?'),
        ('expect = [{checker = "liveness", sort = "x"}]', "expect[0].sort: is no key here"),
        ("expect = [1]", "expect[0]"),
    ],
)
def test_mistakes_in_expectations_are_named(text: str, said: str) -> None:
    """File, line, key and what would do."""
    with pytest.raises(ScenarioError) as caught:
        scenario_from_toml(text + "\n" + SMALL, source="small.toml")

    assert said in str(caught.value) or said in str(caught.value).replace("expect: must be a list", "expect[0]")


def test_expectations_survive_the_plain_form_and_may_be_set_on_the_command_line() -> None:
    """Traces record the plain form."""
    scenario = load_scenario("slow-consumer")

    assert scenario_from_toml('expect = "commits, liveness"\n' + SMALL, source="x").expect == (
        Expectation(checker="commits"),
        Expectation(checker="liveness"),
    )
    assert scenario.to_dict()["expect"] == [
        {"checker": "liveness", "kind": "not-at-rest", "subject": "group g", "may": True}
    ]
    assert with_values(scenario, ['expect=["commits"]']).expect == (Expectation(checker="commits"),)


def test_every_kind_of_every_checker_has_one_name() -> None:
    """Scenario files name them."""
    for name, kinds in kinds_by_checker().items():
        assert kinds and len(set(kinds)) == len(kinds), name


# --- groups that do nothing ----------------------------------------------------------------------------------------


def test_a_group_that_does_nothing_of_what_there_is_did_not_work() -> None:
    """Its only member dies for good before it owned anything: nobody's fault but the plan's; nothing to compare."""
    scenario = scenario_from_toml(
        SMALL + 'members = 1\n[[plan]]\nat = "2500ms"\ndo = "crash"\nhost = "c1"\n', source="idle.toml"
    )

    result = run(scenario, seed=1, loop="bare")
    assert result.figures.records.processed == 0
    assert result.did_not_work == f"group g processed none of {result.figures.records.appended:,} records"
    assert not run(load_scenario("steady-group"), seed=1, loop="bare").did_not_work
