"""When a figure of Kafka's agrees with the emulator's runs, is explained, or differs."""

from collections.abc import Mapping

import pytest

from kemu.tools.conformance.comparing import (
    ComparedFigure,
    Explanations,
    FigureStanding,
    compare_plan,
    differing,
    durations_inside,
    interval_of,
)
from kemu.tools.conformance.course import Course, RebalanceSeen

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
