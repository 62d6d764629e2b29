"""Plans with members of the consumer protocol (KIP-848), recorded on four releases of Kafka, beside the emulator."""

import re
from functools import cache

import pytest

from lab.conformance import plans
from lab.conformance.comparing import compare, differing
from lab.conformance.course import HEARTBEAT, Course, totals_by_member
from lab.conformance.emulated import emulate
from lab.conformance.live import too_busy, why_not_live
from lab.conformance.recordings import release_in
from lab.conformance.timing import timed

PLANS = plans.scenarios_in(plans.CONSUMER)
RUNS = plans.plans_in(plans.CONSUMER)
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
EPOCHS_4_3 = {
    "1-scale-out": [2, 4, 5, 6],
    "2-scale-in": [2, 5, 6, 7],
    "3-rolling-restart": [2, 4, 5, 6, 7, 8, 10],
    "4-kill": [2, 4, 5, 6],
    "5-pause": [2, 3, 4, 5, 6],
    "6-migration-up": [1, 2, 3, 5, 7],
    "7-migration-down": [2, 4, 5, 6, 7, 8, 9, 10],
    "8-topic-grows": [2, 4, 5],
}
"""In 4.3 the first epoch is 2, and a target follows the last one after a second at the earliest: members that join
within this second share one."""
OTHER_EPOCHS = {
    **{run: [2, 3, 4, 5, 6] for run in ("4-kill.9", "4-kill.15", "4-kill.19")},
    "6-migration-up.19": [1, 2, 3, 5, 6, 7],
}
"""Runs on 4.3.0 in which a member joined 1.0 s or more after the last target."""
SEEDS = (1, 2, 3, 4, 5, 6)


def course_of(plan: str) -> Course:
    return plans.read_course(plans.CONSUMER, plan)


@cache
def run_of(plan: str, seed: int, profile: str = "") -> Course:
    """One run of a plan at the times of its recording."""
    kafka = course_of(plan)
    scenario = timed(plans.read_plan_scenario(plans.CONSUMER, kafka.plan), kafka, seed)
    return emulate(scenario, seed=seed, profile=profile or plans.profile_of_course(kafka), until_ms=kafka.until_ms)


def test_every_plan_is_recorded_and_can_run_live() -> None:
    courses = [course_of(run) for run in RUNS]

    assert PLANS == sorted({course.plan for course in courses}) == list(EPOCHS)
    assert {release_in(course) for course in courses} == {"4.0.2", "4.1.1", "4.2.1", "4.3.0"}
    assert [too_busy(course) for course in courses] == [""] * len(RUNS)
    assert {why_not_live(course, "4.2.1") for course in courses} == {None}
    assert {why_not_live(course, "3.9.1") for course in courses} == {
        "it is about the consumer protocol, which Kafka has since 4.0"
    }


@pytest.mark.parametrize("plan", RUNS)
def test_a_recording_has_its_epochs_their_members_and_what_they_own(plan: str) -> None:
    """Targets in the order of time; the last one is reached, and shares all partitions."""
    course = course_of(plan)

    epochs = EPOCHS_4_3 if release_in(course) == "4.3.0" else EPOCHS
    assert [seen.generation for seen in course.rebalances] == OTHER_EPOCHS.get(plan, epochs[course.plan])
    assert course.requests[HEARTBEAT] > 0
    for seen in course.rebalances:
        assert (seen.began_ms or 0) <= seen.joined_ms <= (seen.stable_ms or seen.joined_ms)
        assert {who for who, owned in seen.owners.items() if owned} <= set(seen.members)
    last = course.rebalances[-1]
    assert last.stable_ms is not None
    assert sorted(number for owner in last.owners.values() for each in owner.values() for number in each) == [
        *range(12)
    ]


@pytest.mark.parametrize("plan", [*PLANS, *(run for run in RUNS if release_in(course_of(run)) == "4.3.0")])
def test_the_emulator_has_kafkas_epochs_members_and_numbers_of_partitions(plan: str) -> None:
    """In one of the first seeds: runs of Kafka differ in them, too."""
    kafka = shapes_of(course_of(plan))
    runs = []
    for seed in SEEDS:
        runs.append(run_of(plan, seed))
        if shapes_of(runs[-1]) == kafka:
            break

    assert [run.verdict for run in runs] == ["holds"] * len(runs)
    assert shapes_of(runs[-1]) == kafka


def shapes_of(course: Course) -> list[tuple[object, ...]]:
    return [shape_of(course, place) for place in range(len(course.rebalances))]


def shape_of(course: Course, place: int) -> tuple[object, ...]:
    """Epoch, members, and how many partitions each member of a reached target has, sorted."""
    seen = course.rebalances[place]
    sizes = sorted(sum(map(len, owner.values())) for owner in seen.owners.values())
    return seen.generation, seen.members, sizes


def test_another_order_of_members_differs() -> None:
    """The comparison can fail: Kafka's scale-out against a run of the scale-in."""
    differ = {row.name for row in differing([compare(course_of("1-scale-out"), [run_of("2-scale-in", 1)])])}

    assert {"generations", "members of all generations", f"c4 {HEARTBEAT}", "c2 coordinator, order"} <= differ


def test_since_4_2_members_fetch_offsets_before_they_acknowledge_their_first_partitions() -> None:
    """As in all recordings: the event of poll() requests the positions, and the callback follows."""
    recorded = [course_of(run) for run in RUNS if release_in(course_of(run)) == "4.2.1"]

    assert {what for course in recorded for what in answers_to_first_partitions(course)} == {"OffsetFetch"}
    assert set(answers_to_first_partitions(run_of("1-scale-out", 1))) == {"OffsetFetch"}


def test_since_4_3_members_fetch_offsets_after_they_acknowledge_their_first_partitions() -> None:
    """The application's thread assigns the partitions with the callback (``ApplyAssignmentEvent`` 4.3.0)."""
    recorded = [course_of(run) for run in RUNS if release_in(course_of(run)) == "4.3.0"]

    assert {what for course in recorded for what in answers_to_first_partitions(course)} == {HEARTBEAT, "OffsetFetch"}
    emulated = [what for seed in SEEDS for what in answers_to_first_partitions(run_of("1-scale-out.8", seed))]
    assert set(emulated) == {HEARTBEAT, "OffsetFetch"} and emulated.count(HEARTBEAT) > len(emulated) / 2


def test_before_4_2_members_fetch_offsets_or_acknowledge_first() -> None:
    """The callback ends before the event that finds positions; the network thread may take both at once."""
    assert set(answers_to_first_partitions(run_of("1-scale-out", 1, "kafka-4.1"))) == {"OffsetFetch", HEARTBEAT}


def test_since_4_2_an_interval_commit_waits_for_a_pass_with_an_event() -> None:
    """c1's first interval ends just before its heartbeat. The pass after the wait has no event, so the commit often
    follows the heartbeat that takes partitions away.
    """
    recorded = [course_of(run) for run in RUNS if run.startswith("2-") and release_in(course_of(run)) == "4.2.1"]
    emulated = [run_of("2-scale-in", seed) for seed in SEEDS]

    assert all(map(commits_after_revocation, recorded))
    assert sum(map(commits_after_revocation, emulated)) >= len(emulated) / 2


def test_classic_members_of_a_group_of_the_consumer_protocol_are_in_any_order() -> None:
    """Their ids do not begin with the client's name, so that range gives the first partitions to c1 or to c2."""
    courses = [course_of(run) for run in RUNS if run.startswith("7-")]
    recorded = {owner_of_first_partition(course, 8) for course in courses if release_in(course) != "4.3.0"}
    emulated = {owner_of_first_partition(run_of("7-migration-down", seed), 8) for seed in SEEDS}

    assert recorded == emulated == {"c1", "c2"}


def test_the_first_consumer_of_its_protocol_in_a_process_may_request_metadata_before_it_subscribes() -> None:
    """Its network thread begins in the constructor, and classic consumers have loaded the classes of the network."""
    recorded = {metadata_of_c1(course_of(run)) for run in RUNS if run.startswith("7-")}
    emulated = {metadata_of_c1(run_of("7-migration-down", seed)) for seed in SEEDS}

    assert recorded == emulated == {2, 3}
    assert {metadata_of_c1(run_of(plan, 1)) for plan in ("4-kill", "6-migration-up")} == {1, 2}


def metadata_of_c1(course: Course) -> int:
    return totals_by_member(course)["c1", "Metadata"]


def owner_of_first_partition(course: Course, generation: int) -> str:
    owners = next(seen.owners for seen in course.rebalances if seen.generation == generation)
    return next(member for member, owned in owners.items() if 0 in owned["orders"])


def commits_after_revocation(course: Course) -> bool:
    """Whether c1's first commit follows the heartbeat that takes its first partitions away."""
    answers = [what for what, _ in course.exchanges["c1 coordinator"]]
    return answers.index(f"{HEARTBEAT} 1 of 3 partitions") < answers.index("OffsetCommit")


def answers_to_first_partitions(course: Course) -> list[str]:
    """The answer after the first assignment of c2 and later members."""
    found = []
    for place, exchanges in sorted(course.exchanges.items()):
        names = [what for what, _ in exchanges]
        if (
            place.endswith(" coordinator")
            and not place.startswith("c1 ")
            and any(what.endswith(" of 0 partitions") for what in names)
        ):
            at = next(at for at, what in enumerate(names) if re.search(r" of [1-9]\d* partitions$", what))
            found.append(names[at + 1])
    return found
