"""When a figure of Kafka's agrees with the emulator's runs, is explained, or differs."""

from collections.abc import Mapping

import attrs
import pytest

from lab.conformance.comparing import (
    ComparedExchange,
    ComparedFigure,
    Explanations,
    FigureStanding,
    allow_for_chance,
    compare_plan,
    differing,
    durations_inside,
    interval_of,
    most_outside,
)
from lab.conformance.course import Course, Exchange, RebalanceSeen

NOTHING = Explanations({}, {}, {}, {})


def course(
    *took_ms: int, owner: str = "c1", down_ms: int = 0, errors: Mapping[str, int] | None = None, verdict: str = "holds"
) -> Course:
    """One whose rebalances took these times; c1 alone is in its group."""
    rebalances = tuple(
        RebalanceSeen(number, ("c1",), "c1", "", 0, took - 1, took, {owner: {"orders": (0,)}})
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
    )


def told(*exchanges: Exchange) -> Course:
    """One in which c1's coordinator answered this."""
    return attrs.evolve(course(1_000), exchanges={"c1 coordinator": exchanges})


def answers(kafka: Course, emulated: list[Course], explanations: Explanations = NOTHING) -> ComparedExchange:
    """The one row of answers."""
    (only,) = compare_plan(kafka, emulated, explanations).exchanges
    return only


def row(kafka: Course, emulated: list[Course], name: str, explanations: Explanations = NOTHING) -> ComparedFigure:
    """One row of the comparison."""
    return next(each for each in compare_plan(kafka, emulated, explanations).figures if each.name == name)


def test_generation_counts_must_be_equal_in_nearly_all_runs() -> None:
    """One run in fifty may have another; one in ten may not."""
    usual, odd = course(1_000, 1_000), course(1_000)

    assert row(usual, [usual] * 49 + [odd], "generations").standing is FigureStanding.AGREES
    assert row(usual, [usual] * 9 + [odd], "generations").standing is FigureStanding.DIFFERS
    assert row(usual, [odd] * 50, "generations").standing is FigureStanding.DIFFERS


@pytest.mark.parametrize(
    ("kafka_ms", "standing"),
    [
        (1_500, FigureStanding.AGREES),
        (2_950, FigureStanding.EXPLAINED),
        (3_200, FigureStanding.DIFFERS),
        (800, FigureStanding.DIFFERS),
    ],
)
def test_a_duration_agrees_inside_the_range_and_is_explained_just_outside(
    kafka_ms: int, standing: FigureStanding
) -> None:
    """From 1 s to 3 s the 5-95 % range is 1.1-2.9 s; the recordings' machine accounts for 0.1 s more."""
    emulated = [course(1_000 + 100 * step) for step in range(21)]

    assert row(course(kafka_ms), emulated, "rebalance 1").standing is standing


def test_a_sum_of_downtime_has_the_machines_share_of_each_span() -> None:
    """Two spans: 0.2 s."""
    ours = course(1_000, down_ms=2_000)
    spans = {"orders-0": ((0, 1_000), (2_000, 3_190))}
    theirs = Course("p", 60_000, ours.rebalances, spans, {}, {})

    assert row(theirs, [ours] * 3, "downtime, sum").standing is FigureStanding.EXPLAINED


def test_a_sum_is_never_explained_by_the_machine_beyond_a_tenth() -> None:
    """Ten short spans would account for 1 s otherwise."""
    ours = course(1_000, down_ms=1_000)
    spans = {f"orders-{number}": ((0, 150),) for number in range(10)}
    theirs = Course("p", 60_000, ours.rebalances, spans, {}, {})

    assert row(theirs, [ours] * 3, "downtime, sum").standing is FigureStanding.DIFFERS


def test_a_rebalance_that_no_run_has_differs() -> None:
    """A generation that is missing here has no duration to hold against Kafka's."""
    missing = row(course(1_000, 1_000), [course(1_000)] * 3, "rebalance 2")

    assert (missing.standing, missing.emulated) == (FigureStanding.DIFFERS, None)


def test_owners_agree_when_one_run_in_twenty_gives_kafkas() -> None:
    """Who leads is chance, and so is what follows from it."""
    theirs, other = course(1_000), course(1_000, owner="c2")

    assert row(theirs, [theirs] + [other] * 19, "owners 1").standing is FigureStanding.AGREES
    assert row(theirs, [theirs] + [other] * 39, "owners 1").standing is FigureStanding.DIFFERS


def test_errors_are_compared_whichever_side_saw_them() -> None:
    """One that only the emulator gives is a difference, too."""
    quiet, loud = course(1_000), course(1_000, errors={"Heartbeat UNKNOWN_MEMBER_ID": 1})

    assert row(quiet, [loud] * 3, "Heartbeat UNKNOWN_MEMBER_ID").standing is FigureStanding.DIFFERS
    assert row(loud, [quiet] * 3, "Heartbeat UNKNOWN_MEMBER_ID").standing is FigureStanding.DIFFERS
    assert row(loud, [loud] * 3, "Heartbeat UNKNOWN_MEMBER_ID").standing is FigureStanding.AGREES


def test_an_explained_figure_does_not_count_as_different_and_a_cause_does() -> None:
    """A cause is printed beside a difference that ought not to be."""
    theirs, ours = course(5_000), [course(1_000)] * 3
    explained = Explanations({"why": "because"}, {"p": {"why": ("rebalance 1",)}}, {}, {})
    caused = Explanations({"now": "as long as"}, {}, {"p": {"now": ("rebalance 1",)}}, {})

    assert [each.name for each in differing([compare_plan(theirs, ours, explained)])] == []
    (different,) = differing([compare_plan(theirs, ours, caused)])
    assert (different.name, different.why) == ("rebalance 1", "now")
    assert caused.text_of("now") == "as long as"


def test_an_explanation_that_nothing_needs_is_named() -> None:
    """It would hide the next difference."""
    same = course(1_000)
    explanations = Explanations(
        {"why": "because"}, {"p": {"why": ("rebalance 1",)}, "other": {"why": ("x",)}}, {"p": {"why": ("gone",)}}, {}
    )

    needless = explanations.needless([compare_plan(same, [same] * 3, explanations)])

    assert needless == ["p: rebalance 1", "p: gone"]


def test_only_what_lies_in_the_range_counts_as_inside() -> None:
    """Rebalance and two figures of downtime: one is explained, and is not inside."""
    compared = compare_plan(course(1_050), [course(1_000)] * 3, NOTHING)

    assert differing([compared]) == []
    assert durations_inside([compared]) == (2, 3)


def test_runs_that_do_not_hold_are_counted() -> None:
    """A table of runs that broke would say nothing."""
    compared = compare_plan(course(1), [course(1), course(1, verdict="violated")], NOTHING)

    assert (compared.held, compared.runs) == (1, 2)


def test_the_range_is_what_nine_runs_in_ten_lie_between() -> None:
    """Of 0 to 100: 5 to 95; of one run: that run."""
    wide, single = interval_of(list(range(101))), interval_of([7])

    assert (wide.low, wide.median, wide.high) == (5, 50, 95)
    assert (single.low, single.median, single.high) == (7, 7, 7)


def test_answers_agree_in_the_order_that_one_run_in_twenty_has() -> None:
    """Errors and generations belong to it; else the first difference is named."""
    theirs = told(("JoinGroup 1", 1), ("SyncGroup", 1), ("Heartbeat", 5))
    other = told(("JoinGroup 1", 1), ("SyncGroup REBALANCE_IN_PROGRESS", 1), ("Heartbeat", 5))

    assert answers(theirs, [theirs] + [other] * 19).standing is FigureStanding.AGREES
    seldom = answers(theirs, [theirs] + [other] * 39)
    assert (seldom.standing, seldom.runs_like_it) == (FigureStanding.DIFFERS, 1)
    never = answers(theirs, [other] * 3)
    assert never.differences == {
        "c1 coordinator, order": "after 1 equal responses: SyncGroup, emulated SyncGroup REBALANCE_IN_PROGRESS"
    }
    longer = answers(theirs, [told(("JoinGroup 1", 1), ("SyncGroup", 2))] * 3)
    assert list(longer.differences.values()) == ["after 2 equal responses: nothing more, emulated SyncGroup"]


@pytest.mark.parametrize(("beats", "agrees"), [(3, False), (4, True), (7, True), (8, False)])
def test_what_is_periodic_is_counted_between_the_others_and_may_be_one_off(beats: int, agrees: bool) -> None:
    """Five or six in the runs; what comes in another gap does not count."""
    ours = [told(("SyncGroup", 1), ("Heartbeat", 5 + more), ("LeaveGroup", 1)) for more in (0, 1)]
    theirs = told(("Heartbeat", 1), ("SyncGroup", 1), ("Heartbeat", beats), ("LeaveGroup", 1))

    compared = answers(theirs, ours)

    assert (compared.standing is FigureStanding.AGREES) is agrees
    assert list(compared.differences.values()) == [] if agrees else [f"Heartbeat: {beats} times, emulated 5 to 6"]


def test_order_and_counts_are_explained_each_by_its_name() -> None:
    """Who explains a count excuses neither another order nor another count."""
    theirs, fewer, other = (told((what, 1), ("Heartbeat", beats)) for what, beats in (("A", 9), ("A", 2), ("B", 9)))
    explanations = Explanations({"why": "because"}, {"p": {"why": ("* coordinator, Heartbeat",)}}, {}, {})

    assert answers(theirs, [fewer] * 3, explanations).standing is FigureStanding.EXPLAINED
    assert answers(theirs, [other] * 3, explanations).standing is FigureStanding.DIFFERS
    both = told(("A", 1), ("Heartbeat", 2), ("OffsetCommit", 9))
    assert answers(theirs, [both] * 3, explanations).standing is FigureStanding.DIFFERS
    assert explanations.needless([compare_plan(theirs, [fewer] * 3, explanations)]) == []
    assert explanations.needless([compare_plan(theirs, [theirs] * 3, explanations)]) == ["p: * coordinator, Heartbeat"]


def test_a_member_that_only_one_side_answers_differs() -> None:
    """A connection that is missing is not left out."""
    theirs = told(("SyncGroup", 1))
    assert answers(theirs, [attrs.evolve(theirs, exchanges={})] * 3).standing is FigureStanding.DIFFERS
    both = attrs.evolve(theirs, exchanges={**theirs.exchanges, "c2 coordinator": (("SyncGroup", 1),)})
    assert [each.name for each in differing([compare_plan(theirs, [both] * 3, NOTHING)])] == ["c2 coordinator"]


def test_what_lies_outside_of_the_range_and_inside_of_all_runs_is_chance_unless_it_is_too_much() -> None:
    """Of three durations two may lie outside (probability of more: 0.1 %), of one run's three not all."""
    runs = [course(1_000 + 200 * step, 2_000) for step in range(21)]
    inside, beyond = course(4_950, 2_000), course(5_200, 2_000)

    def standing(kafka: Course) -> str:
        rows = allow_for_chance([compare_plan(kafka, runs, NOTHING)])[0].figures
        return next(f"{each.standing} {each.why}".strip() for each in rows if each.name == "rebalance 1")

    assert standing(inside) == "explained chance"
    assert standing(beyond) == "differs"
    far = attrs.evolve(
        inside, downtime_ms={"orders-0": ((0, 20_000),)}, rebalances=(*inside.rebalances[:1], *far_off())
    )
    assert standing(far) == "differs"


def far_off() -> tuple[RebalanceSeen, ...]:
    """A second rebalance that took far longer than any."""
    return course(1_000, 9_000).rebalances[1:]


@pytest.mark.parametrize(("durations", "most"), [(0, 0), (1, 1), (3, 2), (10, 4), (70, 13)])
def test_how_many_durations_may_lie_outside(durations: int, most: int) -> None:
    """Binomial, one in ten each, not more with 99 %."""
    assert most_outside(durations) == most


def test_durations_are_compared_with_runs_of_the_same_course() -> None:
    """Runs without Kafka's second generation have other members then; their times say nothing."""
    theirs, other = course(1_000, 1_000), course(9_000)
    compared = row(theirs, [theirs] * 5 + [other] * 5, "rebalance 2")

    assert (compared.standing, compared.runs_like_it) == (FigureStanding.AGREES, 5)


def test_a_race_explains_a_count_of_generations_that_runs_have_and_no_other() -> None:
    """One run in twenty at least."""
    race = Explanations({"race": "either way"}, {"p": {"race": ("generations",)}}, {}, {})
    theirs, other = course(1_000, 1_000), course(1_000)

    assert row(theirs, [theirs] + [other] * 9, "generations", race).standing is FigureStanding.EXPLAINED
    assert row(theirs, [other] * 10, "generations", race).standing is FigureStanding.DIFFERS


def test_more_runs_are_made_where_a_duration_lies_outside_of_all_and_not_for_other_generations() -> None:
    """What one of forty runs may bring, two hundred show; another course none brings."""
    runs = [course(1_000 + 200 * step, 2_000) for step in range(21)]

    assert compare_plan(course(5_200, 2_000), runs, NOTHING).is_by_measure
    assert not compare_plan(course(4_950, 2_000), runs, NOTHING).is_by_measure
    assert not compare_plan(course(3_000), runs, NOTHING).is_by_measure


def test_more_runs_are_made_where_what_is_periodic_came_more_often_than_in_all() -> None:
    """Not for an order that no run has."""
    beats, more, other = (told((what, 1), ("Heartbeat", often)) for what, often in (("A", 9), ("A", 20), ("B", 9)))

    assert compare_plan(more, [beats] * 3, NOTHING).is_by_measure
    assert not compare_plan(beats, [beats] * 3, NOTHING).is_by_measure
    assert not compare_plan(other, [beats] * 3, NOTHING).is_by_measure
