"""When a row of Kafka's run agrees with the emulator's runs, is excused, or differs."""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from random import Random
from statistics import fmean, median, pstdev

import attrs
import pytest

from lab.conformance import plans
from lab.conformance.comparing import (
    ComparedRow,
    Comparison,
    Place,
    RowKind,
    RowMark,
    allow_for_chance,
    compare,
    differing,
    evidence,
    most_by_chance,
    places_of_each,
    range_of,
    rank_of,
    uses,
)
from lab.conformance.course import RECORDED, Course, Exchange, RebalanceSeen
from lab.conformance.excuses import EXCUSES, Direction, Excuse
from lab.conformance.ranks import coverage, exchangeability, over_several_runs, uniformity


def course(
    *took_ms: int,
    leader: str = "c1",
    owner: str = "c1",
    down_ms: int = 0,
    errors: Mapping[str, int] | None = None,
    told: Sequence[Exchange] = (("SyncGroup", 1),),
    verdict: str = "holds",
) -> Course:
    """A course whose rebalances took these times; c1 alone receives responses."""
    rebalances = tuple(
        RebalanceSeen(number, ("c1", "c2"), leader, "", 0, took - 1, took, {owner: {"orders": (0,)}})
        for number, took in enumerate(took_ms, 1)
    )
    return Course(
        plan="p",
        until_ms=60_000,
        rebalances=rebalances,
        downtime_ms={"orders-0": ((1_000, 1_000 + down_ms),) if down_ms else ()},
        errors=errors or {},
        requests={},
        verdict=verdict,
        exchanges={"c1 coordinator": tuple(told)},
    )


def row(kafka: Course, emulated: Sequence[Course], name: str, *excuses: Excuse) -> ComparedRow:
    """One row of the comparison."""
    return next(each for each in compare(kafka, emulated, excuses=excuses).rows if each.name == name)


def excuse(direction: Direction, bound: float, *rows: str, fault: bool = False, condition: bool = True) -> Excuse:
    return Excuse("why", "because", "Class (3.4.1)", rows, lambda _: condition, direction, lambda _: bound, fault)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("generations", course(1_000)),
        ("members of all generations", course(1_000)),
        ("leader 2", course(1_000, 1_000, leader="c2")),
        ("owners 2", course(1_000, 1_000, owner="c2")),
        ("c1 coordinator, order", course(1_000, 1_000, told=[("SyncGroup REBALANCE_IN_PROGRESS", 1)])),
    ],
)
def test_an_outcome_agrees_if_more_than_one_run_in_fifty_has_it(name: str, other: Course) -> None:
    """2 of 50 runs do, and 1 of 50 does not."""
    kafka = course(1_000, 1_000)

    agrees, seldom = (row(kafka, [kafka] * times + [other] * (50 - times), name) for times in (2, 1))

    assert (agrees.standing, agrees.runs_like_it, agrees.runs) == (RowMark.AGREES, 2, 50)
    assert agrees.probability == 0.04
    assert (seldom.standing, seldom.runs_like_it) == (RowMark.DIFFERS, 1)


def test_a_run_that_does_not_hold_is_a_difference() -> None:
    """Even if all rows agree."""
    kafka = course(1_000)

    (differs,) = differing([compare(kafka, [kafka, attrs.evolve(kafka, verdict="violated")], excuses=())])

    assert (differs.name, differs.why) == ("runs that hold", "1 violated")


@pytest.mark.parametrize("commits", [7, 9, 0])
def test_totals_of_each_member_and_api_are_exact(commits: int) -> None:
    """One commit less in all is a difference, whatever the number of others."""
    ours = course(1_000, told=[("Heartbeat", 300), ("OffsetCommit", 8)])
    theirs = course(1_000, told=[("Heartbeat", 300), ("OffsetCommit", commits)])

    differs = row(theirs, [ours] * 40, "c1 OffsetCommit")

    assert (differs.standing, differs.kafka, differs.runs_like_it) == (RowMark.DIFFERS, commits, 0)
    assert row(ours, [ours] * 40, "c1 OffsetCommit").standing is RowMark.AGREES


def test_a_count_that_no_run_has_is_chance_if_as_many_runs_have_a_value_alone() -> None:
    """Good and Turing: the share of values that one run has is the probability of a new value."""
    name = "Heartbeat UNKNOWN_MEMBER_ID"
    between = course(1_000, errors={name: 3})

    def compared(*counts: int) -> tuple[float, RowMark]:
        runs = [course(1_000, errors={name: count}) for count in counts]
        (comparison,) = allow_for_chance([compare(between, runs)])
        return next((row.chance, row.standing) for row in comparison.rows if row.name == name)

    assert compared(*[1, 2, 4, 5] * 5) == (0, RowMark.DIFFERS), "no value is rare"
    assert compared(*[1, 2, 4] * 6, 5, 6) == (0.1, RowMark.CHANCE), "2 of 20 values are"
    assert compared(*[1] * 20) == (0, RowMark.DIFFERS)
    assert compared(*[7, 8] * 9, 9, 10) == (0.1, RowMark.DIFFERS), "farther away than the range is wide"


@pytest.mark.parametrize(("times", "standing"), [(1, RowMark.CHANCE), (5, RowMark.DIFFERS)])
def test_hand_overs_must_be_as_long_as_those_of_the_fitted_machine(times: int, standing: RowMark) -> None:
    """The machine's load is fitted to them, so a slower emulator shows."""
    kafka = attrs.evolve(course(1_000), hand_overs_ms=(3, 4, 5))
    runs = [
        attrs.evolve(course(1_000), hand_overs_ms=(times * (5 + 3 * step), times * (5 + step))) for step in range(12)
    ]
    (comparison,) = allow_for_chance([compare(kafka, runs)])

    assert [row.standing for row in comparison.rows if row.kind is RowKind.HAND_OVERS] == [standing]


def test_errors_of_an_api_are_exact_whichever_side_has_them() -> None:
    quiet, loud = course(1_000), course(1_000, errors={"Heartbeat UNKNOWN_MEMBER_ID": 1})

    assert row(quiet, [loud] * 3, "Heartbeat UNKNOWN_MEMBER_ID").standing is RowMark.DIFFERS
    assert row(loud, [quiet] * 3, "Heartbeat UNKNOWN_MEMBER_ID").standing is RowMark.DIFFERS
    assert row(loud, [loud] * 3, "Heartbeat UNKNOWN_MEMBER_ID").standing is RowMark.AGREES


def test_a_value_between_two_values_that_alone_occur_differs() -> None:
    """A count with few values has no range."""
    runs = [course(1_000, told=[("Heartbeat", beats)]) for beats in (8, 16)] * 20

    assert row(course(1_000, told=[("Heartbeat", 12)]), runs, "c1 Heartbeat").standing is RowMark.DIFFERS
    assert row(course(1_000, told=[("Heartbeat", 16)]), runs, "c1 Heartbeat").standing is RowMark.AGREES


def test_a_new_value_of_a_count_with_many_values_is_chance_near_them() -> None:
    runs = [course(1_000, told=[("Metadata", 100 + 2 * step)]) for step in range(20)]

    def standing(count: int) -> RowMark:
        (comparison,) = allow_for_chance([compare(course(1_000, told=[("Metadata", count)]), runs)])
        return next(row.standing for row in comparison.rows if row.name == "c1 Metadata")

    assert [standing(count) for count in (61, 101, 102, 177)] == [
        RowMark.DIFFERS,
        RowMark.CHANCE,
        RowMark.AGREES,
        RowMark.DIFFERS,
    ]


@pytest.mark.parametrize(("took_ms", "agrees"), [(999, False), (1_000, True), (3_000, True), (3_001, False)])
def test_a_duration_must_lie_between_the_least_and_the_most_without_tolerance(took_ms: int, agrees: bool) -> None:
    runs = [course(1_000 + 100 * step) for step in range(21)]

    assert (row(course(took_ms), runs, "rebalance 1").standing is RowMark.AGREES) is agrees


def test_a_generation_is_compared_with_runs_of_the_same_members_until_then() -> None:
    """Too few of such runs compare nothing."""
    kafka, other = course(1_000, 2_000), course(9_000)

    assert row(kafka, [kafka] * 10 + [other] * 10, "rebalance 2").runs == 10
    assert row(kafka, [kafka] * 9 + [other] * 11, "rebalance 2").standing is RowMark.NOT_COMPARED


def test_each_response_of_an_order_is_compared_with_runs_of_the_same_order_before() -> None:
    """Twelve of a hundred runs answer A; none of them goes on as Kafka does."""
    kafka = course(1_000, told=[("A", 1), ("B", 1)])
    like, other = course(1_000, told=[("A", 1), ("C", 1)]), course(1_000, told=[("D", 1)])

    differs = row(kafka, [like] * 12 + [other] * 88, "c1 coordinator, order")
    too_few = row(kafka, [like] * 9 + [other] * 91, "c1 coordinator, order")

    assert (differs.standing, differs.why) == (RowMark.DIFFERS, "after 1 responses: B, emulated C")
    assert (too_few.standing, too_few.why) == (RowMark.NOT_COMPARED, "compared until response 1 of 2")
    longer = row(kafka, [course(1_000, told=[("A", 1), ("B", 1), ("C", 1)])] * 20, "c1 coordinator, order")
    assert longer.why == "after 2 responses: nothing more, emulated C"


def test_a_member_that_only_one_side_answers_differs() -> None:
    kafka = course(1_000)
    silent = attrs.evolve(kafka, exchanges={})
    others = attrs.evolve(kafka, exchanges={**kafka.exchanges, "c2 coordinator": (("SyncGroup", 1),)})

    assert row(others, [kafka] * 20, "c2 coordinator, order").standing is RowMark.DIFFERS
    assert row(kafka, [others] * 20, "c2 coordinator, order").standing is RowMark.DIFFERS
    assert row(attrs.evolve(kafka), [silent] * 20, "c1 SyncGroup").standing is RowMark.DIFFERS


def test_periodic_responses_at_other_places_differ_although_the_totals_agree() -> None:
    """Nine heartbeats before the SyncGroup in place of nine after."""
    runs = [course(1_000, told=[("Heartbeat", n), ("SyncGroup", 1), ("Heartbeat", 10 - n)]) for n in (1, 2)] * 10
    moved = course(1_000, told=[("Heartbeat", 9), ("SyncGroup", 1), ("Heartbeat", 1)])

    assert row(moved, runs, "c1 Heartbeat").standing is RowMark.AGREES
    assert row(moved, runs, "c1 coordinator, between").standing is RowMark.DIFFERS
    assert row(runs[0], runs, "c1 coordinator, between").standing is RowMark.AGREES


def test_constants_that_agree_are_no_evidence_and_constants_that_differ_are() -> None:
    """A timer of 6 s with a spread of 10 ms is a constant, too."""
    runs = [course(6_000 + step, down_ms=100 * step) for step in range(10)]

    compared = compare(runs[5], runs, excuses=())

    assert row(runs[5], runs, "rebalance 1").is_constant
    assert [each.name for each in evidence(compared.rows)] == ["downtime, sum", "downtime, longest"]
    late = compare(course(7_000, down_ms=500), runs, excuses=())
    assert [each.name for each in evidence(late.rows)] == ["rebalance 1", "downtime, sum", "downtime, longest"]


@pytest.mark.parametrize(
    ("direction", "bound", "excused"),
    [(Direction.FEWER, 3, True), (Direction.FEWER, 2, False), (Direction.MORE, 3, False), (Direction.OTHER, 9, False)],
)
def test_an_excuse_has_a_direction_and_a_bound(direction: Direction, bound: float, excused: bool) -> None:
    """Kafka has three commits less."""
    kafka, ours = (course(1_000, told=[("OffsetCommit", n)]) for n in (5, 8))
    named = excuse(direction, bound, "c? OffsetCommit")

    found = row(kafka, [ours] * 20, "c1 OffsetCommit", named)

    assert (found.standing, found.why) == ((RowMark.RACE, "why") if excused else (RowMark.DIFFERS, ""))


def test_an_excuse_has_a_condition_and_rows_and_is_counted() -> None:
    kafka, ours = (course(1_000, told=[("OffsetCommit", n)]) for n in (5, 8))
    useless = [excuse(Direction.FEWER, 9, "c1 *", condition=False), excuse(Direction.FEWER, 9, "c2 *")]
    fault = attrs.evolve(excuse(Direction.FEWER, 9, "c1 OffsetCommit", fault=True), name="fault")

    compared = compare(kafka, [ours] * 20, excuses=(*useless, fault))

    assert {each.name: each.standing for each in compared.rows if each.why} == {"c1 OffsetCommit": RowMark.KNOWN}
    assert uses([compared], excuses=(*useless[:1], fault)) == {"why": 0, "fault": 1}


def test_the_excuses_of_stalled_machines_concern_two_kept_runs() -> None:
    """A condition is about what the run shows, and no other kept run shows it."""
    stalled = [each for each in EXCUSES if each.name.startswith("stalled-")]
    courses = {
        name: plans.read_course(folder, name) for folder in (plans.KEPT, plans.NEW) for name in plans.plans_in(folder)
    }
    held = {each.name: [name for name, course in courses.items() if each.condition(course)] for each in stalled}

    assert held == {
        "stalled-first-join": ["8-group-max-size.2"],
        "stalled-first-join-between": ["8-group-max-size.2"],
        "stalled-restart": ["9-deletes-in-flight.2"],
        "stalled-restart-downtime": ["9-deletes-in-flight.2"],
    }
    assert all(each.bound(courses[held[each.name][0]]) <= 2 for each in stalled if "downtime, sum" not in each.rows)


def test_every_excuse_names_its_source_and_rows_that_there_are() -> None:
    for each in EXCUSES:
        assert any(release in each.source for release in ("3.4.1", "3.9.1", "4.")), each.name
        assert each.rows


def test_an_outlier_is_chance_within_a_bound_and_if_there_are_few() -> None:
    """Three rows outside of 400 runs are too many for equal systems; one far outside is no chance at all."""
    runs = [course(1_000 + 5 * step, down_ms=5 * step + 500) for step in range(400)]

    def standing(kafka: Course) -> dict[str, RowMark]:
        (compared,) = allow_for_chance([compare(kafka, runs, excuses=())])
        return {each.name: each.standing for each in compared.rows if each.rank is not None and each.values > 1}

    one, far, three = course(3_100, down_ms=600), course(6_000, down_ms=600), course(3_100, down_ms=2_600)
    assert standing(one)["rebalance 1"] is RowMark.CHANCE
    assert standing(far)["rebalance 1"] is RowMark.DIFFERS
    assert set(standing(three).values()) == {RowMark.DIFFERS}


def test_an_outlier_of_ten_runs_is_chance_and_a_count_that_every_run_has_is_none() -> None:
    """Ten runs have at most ten values of a duration, and 2 of 11 values lie outside ten runs."""
    runs = [course(1_000 + 5 * step, down_ms=5 * step + 500, told=[("OffsetCommit", 8)]) for step in range(10)]

    (late,) = allow_for_chance([compare(course(1_060, down_ms=520, told=[("OffsetCommit", 8)]), runs, excuses=())])
    (fewer,) = allow_for_chance([compare(course(1_020, down_ms=520, told=[("OffsetCommit", 7)]), runs, excuses=())])

    assert {each.name: each.standing for each in late.rows}["rebalance 1"] is RowMark.CHANCE
    assert [each.name for each in differing([fewer])] == ["c1 OffsetCommit", "c1 coordinator, between"]


@pytest.mark.parametrize(("rows", "expected", "most"), [(0, 0.0, 0), (3, 0.015, 1), (100, 1.0, 4), (70, 7.0, 13)])
def test_how_many_rows_may_lie_outside(rows: int, expected: float, most: int) -> None:
    """Binomial, not more with 99 %."""
    assert most_by_chance(rows, expected) == most


def test_the_range_is_what_nine_runs_in_ten_lie_between_and_a_rank_counts_equal_values_half() -> None:
    """A further value has each of 20 places among 19 others with the same probability: 18 of them are inside."""
    wide, single, few = range_of(list(range(1, 100))), range_of([7]), range_of(list(range(19)))

    assert (wide.least, wide.low, wide.median, wide.high, wide.most) == (1, 5, 50, 95, 99)
    assert (few.low, few.high) == (0, 18)
    assert (single.low, single.median, single.high) == (7, 7, 7)
    assert rank_of(2, [1, 2, 2, 3]) == 0.5
    assert rank_of(0, [1, 2]) == 0


def test_ranks_of_a_slower_emulator_are_not_uniform() -> None:
    """Kolmogorov-Smirnov."""
    assert uniformity([(2 * step + 1) / 40 for step in range(20)]) > 0.9
    assert uniformity([0.01 * step for step in range(20)]) < 0.001
    assert uniformity([]) == 1


def dependent_runs(plans: int) -> list[list[list[float]]]:
    """Plan -> run -> four durations, most of whose variation is common to the run."""
    drawn = Random(1).random
    plan = []
    for _ in range(plans):
        common = [drawn() for _ in range(21)]
        plan.append([[each + drawn() / 4 for _ in range(4)] for each in common])
    return plan


def place_of(value: float, others: Sequence[float]) -> Place:
    return Place(rank_of(value, others), range_of(others).low <= value <= range_of(others).high)


def false_alarms(plans: list[list[list[float]]], spread: float, times: int = 50) -> tuple[float, float]:
    """Shares of comparisons that reject a Kafka whose durations spread as many times as the emulator's, at 5 %: by
    ``exchangeability``, and by the test for independent ranks. In each, other runs take Kafka's place.
    """
    places = [
        [
            tuple(place_of(value, [other[at] for other in runs if other is not run]) for at, value in enumerate(run))
            for run in runs
        ]
        for runs in plans
    ]
    rejected = [0, 0]
    for time in range(times):
        compared = []
        for number, runs in enumerate(plans):
            chosen = (7 * time + 5 * number + time * number) % len(runs)
            kafka = []
            for at, value in enumerate(runs[chosen]):
                others = [run[at] for run in runs if run is not runs[chosen]]
                middle = median(others)
                kafka.append(place_of(middle + spread * (value - middle), others))
            others_in_place = places[number][:chosen] + places[number][chosen + 1 :]
            compared.append(Comparison("p", "", False, 20, 20, (), (tuple(kafka), *others_in_place)))
        rejected[0] += exchangeability(compared) < 0.05
        rejected[1] += uniformity([place.rank for plan in compared for place in plan.places[0]]) < 0.05
    return rejected[0] / times, rejected[1] / times


def test_dependent_durations_of_equal_systems_are_rejected_as_often_as_the_level_says() -> None:
    """The test for independent ranks rejects more than every third equal system."""
    by_runs, by_rows = false_alarms(dependent_runs(17), 1.0)

    assert by_runs < 0.1
    assert by_rows > 0.3


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_an_emulator_that_varies_twice_or_half_as_much_as_kafka_is_rejected(spread: float) -> None:
    by_runs, _ = false_alarms(dependent_runs(17), spread)

    assert by_runs > 0.9


def test_the_ranks_of_each_run_in_kafkas_place_are_kept() -> None:
    """Kafka's run is slower than all, so each other run has a rank among the rest and Kafka's."""
    slow, *others = places_of_each(course(9_000), [course(1_000 + 25 * step) for step in range(20)])

    assert slow == (Place(1.0, is_inside=False),)
    assert others == [(Place(step / 20, is_inside=step > 0),) for step in range(20)]
    assert exchangeability([]) == 1


@pytest.mark.parametrize(("seeds", "share"), [(12, 0.87), (19, 0.9), (20, 0.9)])
def test_nine_of_ten_durations_of_equal_systems_lie_in_the_range_from_19_seeds_on(seeds: int, share: float) -> None:
    """Emulated runs take Kafka's place in 200 comparisons of two plans. The durations of a run depend on each other.

    With fewer seeds the range goes beyond the least and the most, but not far enough for skewed durations. The mean and
    the deviation are right with any number of seeds.
    """
    drawn = Random(seeds).lognormvariate
    found = []
    for _ in range(200):
        compared = []
        for _ in range(2):
            common = [drawn(0, 0.5) for _ in range(seeds + 1)]
            values = [[round(1_000 * each * drawn(0, 0.3)) for _ in range(3)] for each in common]
            kafka, *runs = [course(*each) for each in values]
            compared.append(Comparison("p", "", False, seeds, seeds, (), places_of_each(kafka, runs)))
        found.append(coverage(compared))
    deviation = sqrt(fmean(each.deviation**2 for each in found))
    off = [(each.inside - each.expected) / deviation for each in found]

    assert sum(each.inside for each in found) / sum(each.durations for each in found) == pytest.approx(share, abs=0.02)
    assert abs(fmean(off)) < 3 / sqrt(len(off))
    assert 0.8 < pstdev(off) < 1.2


def test_a_fixed_duration_is_no_evidence_for_the_range_wherever_kafkas_lies() -> None:
    """Counted only if outside, fixed durations would lower the share of an equal system."""
    runs = [course(1_000 + step % 10, 2_000 + 100 * step) for step in range(20)]
    for kafka in (course(1_005, 3_000), course(1_020, 3_000)):
        found = coverage([Comparison("p", "", False, 20, 20, (), places_of_each(kafka, runs))])
        assert (found.inside, found.durations) == (1, 1)


def several(shift: Callable[[int], int]) -> list[Comparison]:
    """Eight runs of Kafka, each beside forty runs of the emulator."""
    runs = [course(1_000 + 25 * step) for step in range(40)]
    return [compare(course(shift(number)), runs, excuses=()) for number in range(8)]


def test_several_runs_of_a_plan_are_tested_row_by_row() -> None:
    """A Kafka that is always a little slower is inside in each run, and the test over eight runs notices."""
    (alike,) = (test for test in over_several_runs(several(lambda number: 1_060 + 120 * number)))
    (slower,) = (test for test in over_several_runs(several(lambda number: 1_850 + 10 * number)))

    assert (alike.name, alike.runs) == ("rebalance 1", 8)
    assert alike.p_ranks > 0.5
    assert slower.p_ranks < 0.001
    assert over_several_runs(several(lambda number: 1_500)[:2]) == []


def test_the_recordings_in_which_times_were_measured_are_in_sample() -> None:
    """Their durations are told apart."""
    kafka = course(1_500, down_ms=100)
    runs = [course(1_000 + 100 * step, down_ms=100) for step in range(10)]
    recorded, live = (attrs.evolve(kafka, source=f"{source}: p") for source in (RECORDED, "Kafka 3.9.1, run live"))

    assert [compare(each, runs, excuses=()).fitted for each in (recorded, live)] == [True, False]
    assert len(places_of_each(live, runs)[0]) == 1, "the downtime is the same in all runs"
