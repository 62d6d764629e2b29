"""Races that can be recognized in a course: an exact condition finds the generations in which a race occurred.

The table of explanations names these races like other races (``races``). A race with a condition explains nothing in a
run without the race. Such a race explains only figures of affected generations, and only differences of an order after
its occurrence.
"""

from collections.abc import Callable, Iterator, Mapping

from lab.conformance.course import COORDINATOR, Course

REVOKED = "need to revoke partitions and re-join"
"""Reason in the JoinGroup of a member that rejoins after a cooperative revocation
(``ConsumerCoordinator.onJoinComplete``)."""
REFUSED = "SyncGroup REBALANCE_IN_PROGRESS"
OWNERS, DURATIONS = "owners *", "rebalance *"
AFTERWARDS = 2
"""Number of affected generations after the race. A refused member learns of its revocations in the first; the member's
rejoin adds the second."""


def overtaken(course: Course) -> tuple[int, ...]:
    """Generations with a late SyncGroup: another member had revoked partitions and rejoined before the SyncGroup
    arrived.

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
"""Race -> function that finds the generations in which the race occurred."""


def affected(race: str, course: Course) -> range:
    """The generations that a race with a condition affects, from its first occurrence on; else empty."""
    shown = CONDITIONS[race](course)
    return range(shown[0], shown[-1] + AFTERWARDS + 1) if shown else range(0)


def explained_by(race: str, figures: tuple[str, ...], course: Course) -> tuple[str, ...]:
    """The figures of this course that a race can explain.

    ``OWNERS`` and ``DURATIONS`` stand for the owners and durations of each affected generation. Durations begin with
    the second generation, because the leader's SyncGroup ends the first generation before the race.
    """
    if race not in CONDITIONS:
        return figures
    numbers = affected(race, course)
    several = {OWNERS: numbers, DURATIONS: numbers[1:]}
    found: list[str] = []
    for figure in figures if numbers else ():
        found += [f"{figure[:-1]}{number}" for number in several[figure]] if figure in several else [figure]
    return tuple(found)
