"""Plans as scenarios: the rows that a live run executes, and the same plans in the emulator."""

from pathlib import Path

import attrs
import pytest

from kemu.emulator.plan.entries import At
from kemu.emulator.scenario.files import scenario_from_toml, with_actions
from lab.conformance import plans
from lab.conformance.course import Course, totals_by_member
from lab.conformance.emulated import emulate
from lab.conformance.live import too_busy, why_not_live
from lab.conformance.recordings import release_in
from lab.conformance.timeline import NotLive, timeline_of
from lab.conformance.timing import timed

PLANS = plans.scenarios_in(plans.NEW)
TWO_GROUPS = """
duration = "60s"

[topics.orders]
partitions = 6

[topics.orders-b]
partitions = 2

[groups.g]
topics = ["orders", "orders-b"]
members = 2
start_spread = "1s"
assignors = ["range"]
static = true
config.emulated.on.revoked.ms = 500

[groups.h]
topics = ["orders"]
members = 1
"""
START = "group=g topics=orders,orders-b emulated__on__revoked__ms=500"
RANGE = "partition__assignment__strategy=org.apache.kafka.clients.consumer.RangeAssignor"


def test_members_start_with_their_group_their_topics_and_their_settings() -> None:
    rows = timeline_of(scenario_from_toml(TWO_GROUPS))

    assert rows == (
        (0, f"start c1 {START} group__instance__id=c1 {RANGE}"),
        (0, "start c3 group=h topics=orders"),
        (1_000, f"start c2 {START} group__instance__id=c2 {RANGE}"),
        (60_000, "end: everybody closes"),
    )


@pytest.mark.parametrize(
    ("action", "rows"),
    [
        ("close-host host=c3 at=20s", [(20_000, "close c3")]),
        ("crash host=c3 mode=process for=5s at=20s", [(20_000, "kill -9 of the process of c3"), (25_000, "start c3")]),
        ("pause host=c3 for=5s at=20s", [(20_000, "c3 stands still (SIGSTOP)"), (25_000, "c3 goes on (SIGCONT)")]),
        ("stop-polling host=c3 for=5s at=20s", [(20_000, "c3 does not poll for 5000 ms")]),
        ("subscribe host=c3 topics=orders-b at=20s", [(20_000, "c3 subscribes to orders-b")]),
        ("set-rate topic=orders rate=500/s at=20s", [(20_000, "orders gets 500 records/s")]),
        ("grow-topic topic=orders partitions=9 at=20s", [(20_000, "topic grows from 6 to 9 partitions")]),
        ("delete-group group=h at=20s", [(20_000, "delete group h")]),
        ("delete-offsets group=h topic=orders at=20s", [(20_000, "delete offsets of group h in orders")]),
        (
            "rolling-restart group=h every=5s down=2s at=20s",
            [(20_000, "close c3"), (22_000, "start c3")],
        ),
        ("close-host host=b0 at=20s", [(20_000, "SIGTERM to broker 0 (clean shutdown)")]),
        ("start-host host=b0 at=20s", [(20_000, "broker 0 is started again")]),
        ("add-members group=h count=2 at=20s", [(20_000, "start c4"), (20_000, "start c5")]),
    ],
)
def test_an_action_becomes_rows_that_a_live_run_knows(action: str, rows: list[tuple[int, str]]) -> None:
    scenario = with_actions(scenario_from_toml(TWO_GROUPS), [action])

    done = [row for row in timeline_of(scenario) if 1_000 < row[0] < 60_000]

    assert [at_ms for at_ms, _ in done] == [at_ms for at_ms, _ in rows]
    assert all(what.startswith(text) for (_, what), (_, text) in zip(done, rows, strict=True))
    course = attrs.evolve(plans.planned_course(plans.NEW, PLANS[0]), timeline=tuple(done))
    assert why_not_live(course, "3.9.1") is None


def test_an_action_that_no_live_run_can_do_is_named(tmp_path: Path) -> None:
    scenario = with_actions(scenario_from_toml(TWO_GROUPS), ["isolate host=c1 for=5s at=20s"])

    with pytest.raises(NotLive, match=r"c1.*not done live"):
        timeline_of(scenario)


def test_there_are_twelve_plans_and_each_can_run_live() -> None:
    courses = [plans.planned_course(plans.NEW, name) for name in PLANS]

    assert len(PLANS) >= 12
    assert {why_not_live(course, "3.9.1") for course in courses} == {None}


@pytest.mark.parametrize("name", PLANS)
def test_each_plan_holds_in_the_emulator(name: str) -> None:
    """As the scenario says, and at the times of its timeline."""
    scenario = plans.read_plan_scenario(plans.NEW, name)

    course = emulate(scenario, seed=1, profile="kafka-3.9", until_ms=scenario.duration_us // 1000)

    assert course.verdict == "holds"
    assert course.rebalances
    assert all(set(seen.members) == set(seen.owners) for seen in course.rebalances[-1:])


def subscribes_at_us(course: Course, seed: int) -> int:
    """The time of c3's subscription in the plan of this seed."""
    plan = timed(plans.read_plan_scenario(plans.NEW, course.plan), course, seed).plan
    (at_us,) = (
        entry.at_us for entry in plan if isinstance(entry, At) and entry.action.words() == "c3 subscribes to orders"
    )
    return at_us


def test_a_subscription_at_the_start_of_a_member_races_with_its_first_poll() -> None:
    """The command came 5 ms after the start, and JoinGroup 10 ms later: late in one of three runs."""
    course = plans.read_course(plans.NEW, "2-static-other-subscription.13")
    joined_us = 1000 * max(at_ms for at_ms, what in course.took_effect if what == "joins c3")
    times = [subscribes_at_us(course, seed) for seed in range(300)]

    assert set(times) == {joined_us - 3_000, joined_us - 2_999}
    assert 80 <= times.count(joined_us - 2_999) <= 120


def test_a_subscription_before_the_start_is_never_late_and_one_after_the_join_always() -> None:
    """The bound of the race: the member looks for the command between start and JoinGroup."""
    course = plans.read_course(plans.NEW, "2-static-other-subscription.13")
    start_ms = max(at_ms for at_ms, row in course.timeline if row.startswith("start c3"))
    joined_ms = max(at_ms for at_ms, what in course.took_effect if what == "joins c3")

    def commanded(at_ms: int) -> set[int]:
        rows = tuple((at_ms, row) if row == "c3 subscribes to orders" else (at, row) for at, row in course.timeline)
        return {subscribes_at_us(attrs.evolve(course, timeline=rows), seed) for seed in range(30)}

    assert commanded(start_ms) == {(joined_ms - 3) * 1000}
    assert commanded(joined_ms + 4) == {(joined_ms + 4) * 1000}


def test_both_outcomes_of_a_subscription_at_the_start_of_a_member_are_emulated() -> None:
    """Late, it is the reason of the rebalance; early, the member's first JoinGroup has it."""
    course = plans.read_course(plans.NEW, "2-static-other-subscription.13")
    joined_us = 1000 * max(at_ms for at_ms, what in course.took_effect if what == "joins c3")
    seeds = {subscribes_at_us(course, seed) - joined_us: seed for seed in range(20)}

    found = {}
    for late, seed in ((False, seeds[-3_000]), (True, seeds[-2_999])):
        scenario = timed(plans.read_plan_scenario(plans.NEW, course.plan), course, seed)
        run = emulate(scenario, seed=seed, profile="kafka-3.9", until_ms=course.until_ms)
        found[late] = run.rebalances[1].reason, totals_by_member(run)["c3", "Metadata"]
    assert found[True] == (course.rebalances[1].reason, totals_by_member(course)["c3", "Metadata"])
    assert "current subscription" in found[False][0] and found[False][1] == 2


@pytest.mark.parametrize(
    ("joined_ms", "answers", "why"),
    [(5_700, 2, ""), (5_701, 2, "c1 joined 5.0 s after its start"), (700, 0, "c1 never joined")],
)
def test_a_run_on_a_machine_without_time_for_its_members_is_no_evidence(joined_ms: int, answers: int, why: str) -> None:
    exchanges = {"c1 coordinator": (("JoinGroup", answers),)} if answers else {}
    course = attrs.evolve(
        plans.read_course(plans.NEW, PLANS[0]),
        timeline=((700, "start c1 group=g topics=orders"),),
        took_effect=((joined_ms, "joins c1"),),
        exchanges=exchanges,
    )

    assert too_busy(course) == why


def test_every_kept_run_of_the_new_plans_is_valid() -> None:
    courses = [plans.read_course(plans.NEW, name) for name in plans.plans_in(plans.NEW)]

    assert len(courses) >= 34
    assert [too_busy(course) for course in courses] == [""] * len(courses)
    assert {release_in(course) for course in courses} == {"3.4.1", "3.9.1", "4.1.1"}
