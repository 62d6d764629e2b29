"""Races with a condition: a run tells whether one came out, and only then is anything of it explained."""

from collections.abc import Mapping

import attrs
import pytest

from lab.conformance import plans
from lab.conformance.comparing import (
    ComparedExchange,
    ComparedFigure,
    ComparedKind,
    Explanations,
    FigureStanding,
    compare_plan,
)
from lab.conformance.course import Course, Exchange, RebalanceSeen
from lab.conformance.races import CONDITIONS, affected, overtaken

RACE = "rejoined-first"
REJOINED = "Leader c1-1 re-joining group during Stable; client reason: need to revoke partitions and re-join"
LEFT = "Removing member c3-1 on LeaveGroup; client reason: the consumer is being closed"
FIGURES = plans.read_explanations(plans.KEPT).races["j-assignor-upgrade"][RACE]
NAMED = Explanations({RACE: "a race"}, {}, {}, {}, {"p": {RACE: FIGURES}})
NOTHING = Explanations({}, {}, {}, {})


def course(
    generations: int, *, refused: int = 0, reasons: Mapping[int, str] | None = None, took_ms: int = 10, start: str = ""
) -> Course:
    """c1 leads c2, which is refused in one generation; ``reasons``: why others than the first began."""
    told: list[Exchange] = [(start, 1)] if start else []
    for number in range(1, generations + 1):
        told += [
            (f"JoinGroup {number}", 1),
            ("SyncGroup REBALANCE_IN_PROGRESS" if number == refused else "SyncGroup", 1),
        ]
    return Course(
        plan="p",
        until_ms=60_000,
        rebalances=tuple(
            RebalanceSeen(number, ("c1", "c2"), "c1", (reasons or {}).get(number, ""), 0, 1, took_ms, {})
            for number in range(1, generations + 1)
        ),
        downtime_ms={},
        errors={"SyncGroup REBALANCE_IN_PROGRESS": 1} if refused else {},
        requests={},
        verdict="holds",
        exchanges={"c2 coordinator": tuple(told)},
    )


USUAL = course(3, reasons={3: REJOINED})
RACED = course(4, refused=2, reasons={3: REJOINED, 4: REJOINED})


def generations(kafka: Course, emulated: list[Course], explanations: Explanations = NAMED) -> ComparedFigure:
    (row,) = (
        each for each in compare_plan(kafka, emulated, explanations).figures if each.kind is ComparedKind.GENERATIONS
    )
    return row


def standings(kafka: Course, emulated: list[Course]) -> dict[str, FigureStanding]:
    rows: tuple[ComparedFigure | ComparedExchange, ...] = compare_plan(kafka, emulated, NAMED).rows
    return {row.name: row.standing for row in rows}


def test_the_race_came_out_where_a_late_sync_was_refused_because_another_had_revoked() -> None:
    """Both must be true, and of the same generation."""
    assert overtaken(RACED) == (2,)
    assert overtaken(USUAL) == ()
    assert overtaken(course(4, refused=2, reasons={3: LEFT, 4: REJOINED})) == (), "another cause"
    assert overtaken(course(4, refused=3, reasons={3: REJOINED})) == (), "another generation"
    assert list(affected(RACE, RACED)) == [2, 3, 4]
    assert not affected(RACE, USUAL)


def test_generations_are_counted_where_the_race_came_out_as_in_kafkas_run() -> None:
    """One run in five has it here: without the race's name that is another number."""
    emulated = [USUAL] * 8 + [RACED] * 2

    assert generations(USUAL, emulated).standing is FigureStanding.AGREES
    assert generations(RACED, emulated).standing is FigureStanding.AGREES
    assert generations(USUAL, emulated, NOTHING).standing is FigureStanding.DIFFERS
    assert generations(RACED, emulated, NOTHING).standing is FigureStanding.DIFFERS


def test_where_not_all_runs_with_the_race_have_kafkas_number_it_explains_it() -> None:
    """One that has nothing to revoke may be refused as well: no generation more."""
    harmless = course(3, refused=2, reasons={3: REJOINED})
    row = generations(RACED, [USUAL] * 30 + [harmless] * 5 + [RACED] * 5)

    assert (row.standing, row.why) == (FigureStanding.EXPLAINED, RACE)


def test_a_race_that_one_run_in_twenty_does_not_have_explains_no_number() -> None:
    """It must be one that comes out here, too."""
    assert generations(RACED, [USUAL] * 40 + [RACED]).standing is FigureStanding.DIFFERS
    assert generations(RACED, [USUAL] * 40).standing is FigureStanding.DIFFERS


@pytest.mark.parametrize(
    "kafka",
    [
        course(4, reasons={3: REJOINED, 4: REJOINED}),
        course(4, refused=2, reasons={3: LEFT, 4: REJOINED}),
    ],
)
def test_one_generation_more_by_another_cause_differs(kafka: Course) -> None:
    """Nobody was refused; or somebody was, for another reason."""
    standing = standings(kafka, [USUAL] * 30 + [RACED] * 10)

    assert standing["generations"] is FigureStanding.DIFFERS


def test_only_what_the_race_touches_is_explained() -> None:
    """Durations from the next generation on; an order of answers that is as here until then."""
    slow = course(4, refused=2, reasons={3: REJOINED, 4: REJOINED}, took_ms=5_000)
    standing = standings(slow, [USUAL] * 40)

    assert standing["rebalance 1"] is standing["rebalance 2"] is FigureStanding.DIFFERS
    assert standing["rebalance 3"] is standing["rebalance 4"] is FigureStanding.EXPLAINED
    assert standing["c2 coordinator"] is FigureStanding.EXPLAINED
    assert standing["SyncGroup REBALANCE_IN_PROGRESS"] is FigureStanding.EXPLAINED

    other = attrs.evolve(RACED, exchanges=course(4, refused=2, start="LeaveGroup").exchanges)
    assert standings(other, [USUAL] * 40)["c2 coordinator"] is FigureStanding.DIFFERS


def test_members_must_be_as_here_but_for_the_generation_more() -> None:
    """Somebody else in it is no race."""
    stranger = attrs.evolve(RACED.rebalances[3], members=("c1", "c2", "c3"))
    other = attrs.evolve(RACED, rebalances=(*RACED.rebalances[:3], stranger))

    assert standings(RACED, [USUAL] * 40)["members of all generations"] is FigureStanding.EXPLAINED
    assert standings(other, [USUAL] * 40)["members of all generations"] is FigureStanding.DIFFERS


def test_every_race_with_a_condition_is_named_for_some_plan_and_no_recorded_run_shows_it() -> None:
    """The recordings are the usual outcome."""
    explanations = plans.read_explanations(plans.KEPT)
    named = {race for races in explanations.races.values() for race in races}

    assert set(CONDITIONS) <= named
    for plan in plans.plans_in(plans.KEPT):
        assert overtaken(plans.read_course(plans.KEPT, plan)) == ()
