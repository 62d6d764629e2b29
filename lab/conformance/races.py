"""Races that can be recognized in a course: an exact condition gives the generations in which one occurred.

The table of explanations names them like other races (``races``). A race with a condition explains nothing in a run in
which it did not occur. Such a race explains figures of a generation only if it affects that generation, and differences
of an order only after its occurrence.
"""

from collections.abc import Callable, Iterator, Mapping

from lab.conformance.course import COORDINATOR, Course

REVOKED = "need to revoke partitions and re-join"
"""Reason in the JoinGroup of a member that rejoins after a cooperative revocation
(``ConsumerCoordinator.onJoinComplete``)."""
REFUSED = "SyncGroup REBALANCE_IN_PROGRESS"
OWNERS, DURATIONS = "owners *", "rebalance *"
AFTERWARDS = 2
"""Number of affected generations after the race: a refused member learns its revocations in the next one, and the
rejoin adds another."""


def overtaken(course: Course) -> tuple[int, ...]:
    """Generations with a late SyncGroup: a member had revoked partitions and rejoined before it arrived.

    Two conditions hold: a SyncGroup of the generation was answered REBALANCE_IN_PROGRESS, and the next rebalance was
    begun by a member that rejoined after a revocation.
    """
    begun = {seen.generation - 1 for seen in course.rebalances if seen.reason.endswith(REVOKED)}
    return tuple(sorted(begun & set(_refused(course))))


def _refused(course: Course) -> Iterator[int]:
    for place, exchanges in course.exchanges.items():
        joined = 0
        for what, _ in exchanges if place.endswith(COORDINATOR) else ():
            api, _, detail = what.partition(" ")
            if api == "JoinGroup" and detail.isdecimal():
                joined = int(detail)
            elif what == REFUSED:
                yield joined


CONDITIONS: Mapping[str, Callable[[Course], tuple[int, ...]]] = {"rejoined-first": overtaken}
"""Race -> function that finds the generations in which it occurred."""


def affected(race: str, course: Course) -> range:
    """The generations that a race with a condition affects, from its first occurrence on; empty without one."""
    shown = CONDITIONS[race](course)
    return range(shown[0], shown[-1] + AFTERWARDS + 1) if shown else range(0)


def explained_by(race: str, figures: tuple[str, ...], course: Course) -> tuple[str, ...]:
    """The figures of this course that a race can explain.

    ``OWNERS`` and ``DURATIONS`` stand for those of each affected generation. Durations begin with the second one: the
    leader's SyncGroup ends the first one before the race.
    """
    if race not in CONDITIONS:
        return figures
    numbers = affected(race, course)
    several = {OWNERS: numbers, DURATIONS: numbers[1:]}
    found: list[str] = []
    for figure in figures if numbers else ():
        found += [f"{figure[:-1]}{number}" for number in several[figure]] if figure in several else [figure]
    return tuple(found)
