"""Other readings of KIP-435, and alternatives to KIP-435: policies by name."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from kemu.protocol.frozen import frozen
from kemu.protocol.reassign.moves import UNLIMITED, Move, ReassignmentStep, Standing, StepKind, next_step, without

NextStep: TypeAlias = Callable[[Move, Standing, int, int], ReassignmentStep | None]
"""(move, standing, min.insync.replicas, R) -> the next step, None for a blocked partition.

The function is called only while the move is not done.
"""


def everything_at_once(move: Move, standing: Standing, min_isr: int, most_replicas: int) -> ReassignmentStep | None:
    """The step of KIP-455 as shipped: all new replicas join, then all old replicas are removed, regardless of R."""
    return next_step(move, standing, min_isr, UNLIMITED)


def literal(move: Move, standing: Standing, min_isr: int, most_replicas: int) -> ReassignmentStep | None:
    """The step by KIP-435's text, read literally: CR + NR - DR in this order; every step drops replicas, also the
    first.

    This reading does not reproduce the page's own example, which begins with R = 2 as (2,3,4,5,6).
    """
    missing, excess = move.missing, move.excess
    if not missing and not excess:
        return next_step(move, standing, min_isr, most_replicas)
    most = max(most_replicas, len(move.target) - len(move.replicas))
    new = [broker for broker in missing if broker in standing.online]
    if missing and not new:
        return None
    leader = move.target[0]
    add = [leader] if leader in new else []
    others = [broker for broker in new if broker != leader]
    if len(add) < min_isr:
        add += others[: max(0, min(min_isr, most_replicas) - len(add))]
    add += [broker for broker in others if broker not in add][: max(0, most_replicas - len(add))]
    drop = excess[:most]
    return _plain(move, standing, tuple(add), drop, (*without(move.replicas, drop), *add))


def one_at_a_time(move: Move, standing: Standing, min_isr: int, most_replicas: int) -> ReassignmentStep | None:
    """The step by the code of KIP-435's author (apache/kafka pull request 6011): R is one.

    One extra replica remains until the end.
    """
    missing, excess = move.missing, move.excess
    if not missing and not excess:
        return next_step(move, standing, min_isr, most_replicas)
    new = [broker for broker in missing if broker in standing.online]
    if missing and not new:
        return None
    in_sync = sum(1 for broker in move.replicas if broker in standing.isr and broker in standing.online)
    leader = move.target[0]
    add = (leader,) if leader in new else tuple(new[: max(1, min_isr - in_sync)])
    extra = len(move.replicas) - len(move.target)
    drop = excess[: max(0, extra)]
    members = (*without(move.replicas, drop), *add)
    front = (leader,) if leader in members else ()
    return _plain(move, standing, add, drop, (*front, *without(members, front)))


def _plain(
    move: Move, standing: Standing, add: tuple[int, ...], drop: tuple[int, ...], replicas: tuple[int, ...]
) -> ReassignmentStep:
    kind = StepKind.LEADER if move.target[0] in add else StepKind.BATCH
    if set(replicas) == set(move.target):
        kind, replicas = StepKind.LAST, move.target
    goes = standing.leader in drop or standing.leader not in standing.online
    return ReassignmentStep(kind, replicas, add, drop, kind is StepKind.LEADER or goes)


@frozen
class Policy:
    """A rule for the next step, with a description."""

    next_step: NextStep
    summary: str


POLICIES: Mapping[str, Policy] = {
    "kip-435": Policy(next_step, "KIP-435 by its example: leader first and alone, grow, sync, shrink"),
    "kip-435-letter": Policy(literal, "KIP-435's text read literally: every step adds R and drops R"),
    "kip-435-author": Policy(one_at_a_time, "KIP-435 by its author's code: one replica per step, regardless of R"),
    "kip-455": Policy(everything_at_once, "KIP-455 as shipped: all replicas of a partition in one step"),
}
DEFAULT_POLICY = "kip-435"
