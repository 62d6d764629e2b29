"""Plans with members of the consumer protocol (KIP-848), recorded on Kafka 4.2.1, beside the emulator."""

from fnmatch import fnmatchcase
from functools import cache

import pytest

from lab.conformance import plans
from lab.conformance.comparing import compare, differing
from lab.conformance.course import HEARTBEAT, Course
from lab.conformance.emulated import emulate
from lab.conformance.live import too_busy, why_not_live
from lab.conformance.recordings import release_in
from lab.conformance.timing import timed

PLANS = plans.plans_in(plans.CONSUMER)
EPOCHS = {
    "1-scale-out": [1, 2, 3, 4, 5],
    "2-scale-in": [1, 2, 3, 4, 5, 6],
    "3-rolling-restart": [1, 2, 3, 4, 5, 6, 7, 9],
    "4-kill": [1, 2, 3, 4, 5],
    "5-pause": [1, 2, 3, 4, 5],
    "6-migration-up": [1, 2, 3, 4, 5, 7],
    "7-migration-down": [1, 2, 3, 4, 5, 6, 7, 8, 9],
    "8-topic-grows": [1, 2, 3, 4],
}
"""The epochs (and generations) with a target. After a leave, the next heartbeat or join computes the target; the join
raises the epoch first."""
SEEDS = (1, 2)
DRAWN = ("owners *", "leader *", "c? *Heartbeat", "c? coordinator, order")
"""Rows that depend on the seed: who is given which partition, and on which side of the end a periodic request is."""
KNOWN = ("c? OffsetCommit", "OffsetCommit STALE_MEMBER_EPOCH", "c1 Metadata")
"""Rows that differ, with their causes in docs/explanation/conformance.md."""


def course_of(plan: str) -> Course:
    return plans.read_course(plans.CONSUMER, plan)


@cache
def run_of(plan: str, seed: int) -> Course:
    """One run of a plan at the times of its recording."""
    kafka = course_of(plan)
    scenario = timed(plans.read_plan_scenario(plans.CONSUMER, plan), kafka)
    return emulate(scenario, seed=seed, profile=plans.profile_of_course(kafka), until_ms=kafka.until_ms)


def test_every_plan_is_recorded_and_can_run_live() -> None:
    courses = [course_of(plan) for plan in PLANS]

    assert plans.scenarios_in(plans.CONSUMER) == PLANS == list(EPOCHS)
    assert {release_in(course) for course in courses} == {"4.2.1"}
    assert [too_busy(course) for course in courses] == [""] * len(PLANS)
    assert {why_not_live(course, "4.2.1") for course in courses} == {None}
    assert {why_not_live(course, "3.9.1") for course in courses} == {
        "it is about the consumer protocol, which Kafka has since 4.0"
    }


@pytest.mark.parametrize("plan", PLANS)
def test_a_recording_has_its_epochs_their_members_and_what_they_own(plan: str) -> None:
    """Targets in the order of time; the last one is reached, and shares all partitions."""
    course = course_of(plan)

    assert [seen.generation for seen in course.rebalances] == EPOCHS[plan]
    assert course.requests[HEARTBEAT] > 0
    for seen in course.rebalances:
        assert (seen.began_ms or 0) <= seen.joined_ms <= (seen.stable_ms or seen.joined_ms)
        assert set(seen.owners) <= set(seen.members)
    last = course.rebalances[-1]
    assert last.stable_ms is not None
    assert sorted(number for owner in last.owners.values() for each in owner.values() for number in each) == [
        *range(12)
    ]


@pytest.mark.parametrize("plan", PLANS)
def test_the_emulator_has_kafkas_epochs_members_and_numbers_of_partitions(plan: str) -> None:
    """With every seed; the comparison has no other row that differs."""
    kafka, runs = course_of(plan), [run_of(plan, seed) for seed in SEEDS]

    for run in runs:
        assert run.verdict == "holds"
        assert [shape_of(run, place) for place in range(len(run.rebalances))] == [
            shape_of(kafka, place) for place in range(len(kafka.rebalances))
        ]
    differ = [row.name for row in differing([compare(kafka, runs)])]
    assert [name for name in differ if not any(fnmatchcase(name, drawn) for drawn in (*DRAWN, *KNOWN))] == []


def shape_of(course: Course, place: int) -> tuple[object, ...]:
    """Epoch, members, and how many partitions each member of a reached target has, sorted."""
    seen = course.rebalances[place]
    sizes = sorted(sum(map(len, owner.values())) for owner in seen.owners.values())
    return seen.generation, seen.members, sizes


def test_another_order_of_members_differs() -> None:
    """The comparison can fail: Kafka's scale-out against a run of the scale-in."""
    differ = {row.name for row in differing([compare(course_of("1-scale-out"), [run_of("2-scale-in", 1)])])}

    assert {"generations", "members of all generations", f"c4 {HEARTBEAT}", "c2 coordinator, order"} <= differ
