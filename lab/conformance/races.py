"""Races that a run tells by itself: whether one came out, and in which generations, by an exact condition.

The table of explanations names them like all others (``races``). One with a condition here explains nothing of a run
in which it did not come out, of figures with a generation's number only those that it touches, and of an order of
answers only what comes after it.
"""

from collections.abc import Callable, Iterator, Mapping

from lab.conformance.course import COORDINATOR, Course

REVOKED = "need to revoke partitions and re-join"
"""What a member says that joins again after a cooperative revocation (``ConsumerCoordinator.onJoinComplete``)."""
REFUSED = "SyncGroup REBALANCE_IN_PROGRESS"
OWNERS, DURATIONS = "owners *", "rebalance *"
AFTERWARDS = 2
"""Who was refused hears in the generation after the race what it is to revoke; the one after that is the one more."""


def overtaken(course: Course) -> tuple[int, ...]:
    """Generations with a SyncGroup that came too late: a member that had revoked had joined again before.

    Both must be true of such a generation: a SyncGroup in it was answered REBALANCE_IN_PROGRESS, and the rebalance that
    ended it was begun by a member that joined again because it had revoked.
    """
    begun = {seen.generation - 1 for seen in course.rebalances if seen.reason.endswith(REVOKED)}
    return tuple(sorted(begun & set(_refused(course))))


def _refused(course: Course) -> Iterator[int]:
    for place, exchanges in course.exchanges.items():
        joined = 0
        for what, _ in exchanges if place.endswith(COORDINATOR) else ():
            api, _, told = what.partition(" ")
            if api == "JoinGroup" and told.isdecimal():
                joined = int(told)
            elif what == REFUSED:
                yield joined


CONDITIONS: Mapping[str, Callable[[Course], tuple[int, ...]]] = {"rejoined-first": overtaken}
"""Race -> the generations of a course in which it came out."""


def touched(race: str, course: Course) -> range:
    """The generations that a race with a condition touches: from the first in which it came out; empty if in none."""
    shown = CONDITIONS[race](course)
    return range(shown[0], shown[-1] + AFTERWARDS + 1) if shown else range(0)


def explained_by(race: str, figures: tuple[str, ...], course: Course) -> tuple[str, ...]:
    """What of these figures a race may explain of this course.

    ``OWNERS`` and ``DURATIONS`` stand for those of each generation that it touches, durations from the second on: the
    leader's SyncGroup ends the first one's, before the race.
    """
    if race not in CONDITIONS:
        return figures
    numbers = touched(race, course)
    several = {OWNERS: numbers, DURATIONS: numbers[1:]}
    found: list[str] = []
    for figure in figures if numbers else ():
        found += [f"{figure[:-1]}{number}" for number in several[figure]] if figure in several else [figure]
    return tuple(found)
