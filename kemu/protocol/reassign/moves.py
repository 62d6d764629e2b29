"""One partition's reassignment: its current replicas, and its next step.

KIP-435 leaves much open and contradicts its own example in places. This module's reading reproduces the KIP's worked
example list by list, (0,1,2,3,4) -> (5,6,7,8,9). Each step is a small KIP-455 reassignment: grow, wait until the added
replicas are in sync, then shrink. The first step adds only the new preferred leader. Lists begin with the replicas of
the target. ``protocol.reassign.readings`` has other readings.
"""

from collections.abc import Collection, Iterable
from enum import Enum

from kemu.protocol.frozen import evolve, frozen

UNLIMITED = 2**31 - 1
"""Int.MAX, the default of the three limits: the whole move in one step, as in all shipped releases."""


@frozen
class Limits:
    """Limits on concurrent moves (counts, each at least 1; cluster-wide and dynamic).

    The page defines the limits in two places, and describes ``leader.movements`` with the words of
    ``replica.movements``.
    """

    replica_movements: int = UNLIMITED
    """R: the number of replicas of one partition that one step adds."""
    partition_movements: int = UNLIMITED
    """P: the number of partitions with a started reassignment."""
    leader_movements: int = UNLIMITED
    """L: the number of running steps that move a leader."""

    def __attrs_post_init__(self) -> None:
        for key, value in limits_by_key(self).items():
            if value < 1:
                raise ValueError(f"{key} is {value}, it must be at least 1")


def limits_by_key(limits: Limits) -> dict[str, int]:
    """The limits by their names in KIP-435's table."""
    return {
        "reassignment.max.concurrent.replica.movements": limits.replica_movements,
        "reassignment.max.concurrent.partition.movements": limits.partition_movements,
        "reassignment.max.concurrent.leader.movements": limits.leader_movements,
    }


class StepKind(Enum):
    """The purpose of a step."""

    LEADER = "leader"
    """The step adds the new preferred leader, and elects it when it is in sync."""
    BATCH = "batch"
    """The step adds some replicas and removes others."""
    LAST = "last"
    """The step reaches the target, in the target's order."""
    REORDER = "reorder"
    """The step only corrects the order of the replicas, and so the preferred leader."""


@frozen
class ReassignmentStep:
    """One small reassignment. ``replicas``: the assignment after the commit of the step."""

    kind: StepKind
    replicas: tuple[int, ...]
    add: tuple[int, ...] = ()
    drop: tuple[int, ...] = ()
    moves_leader: bool = False

    @property
    def during(self) -> tuple[int, ...]:
        """The assignment while the new replicas catch up."""
        return (*self.replicas, *self.drop)


@frozen
class Standing:
    """The state of a partition: its leader (-1: none), its ISR, and the brokers that are up."""

    leader: int
    isr: tuple[int, ...]
    online: frozenset[int]


@frozen
class Move:
    """A partition between its original and its target replicas, without a running step.

    ``replicas``: the present replicas (the page's CR). ``original``: the list when the reassignment was requested; the
    rules for first steps refer to this list. ``target``: the final list (FTR). ``wanted_first``: replicas that were
    already being copied when a newer target replaced the old target; they are added first. ``rolls_back``: ``target``
    is the original list of a cancelled reassignment.
    """

    replicas: tuple[int, ...]
    original: tuple[int, ...]
    target: tuple[int, ...]
    wanted_first: tuple[int, ...] = ()
    rolls_back: bool = False

    @classmethod
    def begin(cls, replicas: tuple[int, ...], target: tuple[int, ...]) -> "Move":
        """A new reassignment."""
        return cls(replicas, replicas, target)

    @property
    def done(self) -> bool:
        """Whether the replicas are the target, in the target's order."""
        return self.replicas == self.target

    @property
    def missing(self) -> tuple[int, ...]:
        """The replicas still to add, in the order of the target."""
        return without(self.target, self.replicas)

    @property
    def excess(self) -> tuple[int, ...]:
        """The replicas still to remove, in the order of the assignment."""
        return without(self.replicas, self.target)

    def committed(self, step: ReassignmentStep) -> "Move":
        """The state after the commit of a step."""
        return evolve(self, replicas=step.replicas, wanted_first=())

    def cancelled(self) -> "Move":
        """The move back to the original list, under the same limits: removed replicas must be copied again.

        The replicas that a running step was adding are dropped at once. If no step was committed yet, the result is
        ``done``, in the original order. The caller must refuse to cancel a roll-back (NO_REASSIGNMENT_IN_PROGRESS).
        """
        return Move(self.replicas, original=self.replicas, target=self.original, rolls_back=True)

    def overridden(self, target: tuple[int, ...], running: ReassignmentStep | None = None) -> "Move":
        """The move to a newer target; replicas of both targets that are being copied are kept."""
        wanted = tuple(broker for broker in running.add if broker in target) if running else ()
        return Move(self.replicas, self.original, target, wanted)


def without(brokers: Iterable[int], others: Collection[int]) -> tuple[int, ...]:
    """The brokers that are not in ``others``, in order."""
    return tuple(broker for broker in brokers if broker not in others)


def next_step(move: Move, standing: Standing, min_isr: int, most_replicas: int) -> ReassignmentStep | None:
    """The next step of a partition.

    Args:
        move: the move, which is not ``done``.
        standing: the partition's state in the controller's view.
        min_isr: the topic's ``min.insync.replicas``.
        most_replicas: the limit R.

    Returns:
        None for a blocked partition: no broker that could be added is up.
    """
    missing, excess = move.missing, move.excess
    if not missing and not excess:
        return _step(move, standing, StepKind.REORDER)
    if most_replicas >= UNLIMITED:
        return _step(move, standing, StepKind.LAST, missing, excess)
    size, wanted_size = len(move.replicas), len(move.target)
    in_sync = sum(1 for broker in move.replicas if broker in standing.isr and broker in standing.online)
    new = [broker for broker in missing if broker in standing.online]
    new.sort(key=lambda broker: broker not in move.wanted_first)
    first_step = set(move.replicas) == set(move.original)
    deficit = max(0, min_isr - in_sync) if first_step else 0
    syncing = [
        broker
        for broker in move.target
        if broker in move.replicas and broker not in move.original and broker not in standing.isr
    ]
    budget = max(most_replicas, deficit)
    slots = max(0, budget - len(syncing))
    most_drops = max(budget, size - wanted_size)
    fits = len(new) == len(missing) <= slots and len(excess) <= most_drops
    leader = move.target[0]
    if leader in new and slots and not fits:
        others = [broker for broker in new if broker != leader]
        return _step(move, standing, StepKind.LEADER, (leader, *others[: max(0, min(deficit, slots) - 1)]))

    able = min(slots, len(new))

    def adds(drops: int) -> int:
        """The number of replicas to add; the set exceeds the target's size only because of ``min.insync.replicas``."""
        return max(min(able, max(0, wanted_size - (size - drops))), min(deficit, able))

    drops = min(most_drops, len(excess), max(0, size + able - wanted_size))
    out_of_sync = sum(1 for broker in excess if broker not in standing.isr or broker not in standing.online)
    spare = max(0, in_sync + adds(drops) - min(min_isr, wanted_size))
    drops = min(drops, out_of_sync + spare)
    if not drops and not adds(drops):
        return None
    dropped = sorted(excess, key=lambda broker: (broker in standing.online, broker in standing.isr))[:drops]
    return _step(move, standing, StepKind.BATCH, new[: adds(drops)], dropped)


def _step(
    move: Move, standing: Standing, kind: StepKind, add: Collection[int] = (), drop: Collection[int] = ()
) -> ReassignmentStep:
    members = {*move.replicas, *add} - {*drop}
    replicas = (
        *(broker for broker in move.target if broker in members),
        *(broker for broker in move.replicas if broker in members and broker not in move.target),
    )
    if kind is StepKind.BATCH and replicas == move.target:
        kind = StepKind.LAST
    goes = standing.leader in drop or standing.leader not in standing.online
    return ReassignmentStep(
        kind,
        replicas,
        tuple(broker for broker in (*move.target, *add) if broker in add and broker not in move.replicas)[: len(add)],
        tuple(broker for broker in move.replicas if broker in drop),
        kind is StepKind.LEADER or goes,
    )


# --- the end of a step ---------------------------------------------------------------------------------------------


def waits_for(move: Move, step: ReassignmentStep, isr: Collection[int], min_isr: int) -> str:
    """The reason why a running step cannot be committed yet, "" if it can be committed.

    ``isr``: the ISR during the step, which may contain the added replicas.
    """
    if step.kind is StepKind.REORDER:
        return ""
    late = late_replicas(move, step, isr)
    if late:
        return not_in_sync(late)
    left = without(isr, step.drop)
    if not left:
        return "no replica would be left in sync"
    loses = any(broker in isr for broker in step.drop)
    least = min(min_isr, len(move.target))
    if step.kind is not StepKind.LAST and loses and len(left) < least:
        return f"{len(left)} in sync would be left, min.insync.replicas asks for {least}"
    return ""


def late_replicas(move: Move, step: ReassignmentStep, isr: Collection[int]) -> tuple[int, ...]:
    """The replicas that must be in sync before a running step can be committed, and are not in sync."""
    return without(move.target if step.kind is StepKind.LAST else step.add, isr)


def blocked_by(move: Move, standing: Standing, min_isr: int) -> str:
    """The reason why ``next_step`` returned None."""
    down = [broker for broker in move.missing if broker not in standing.online]
    if move.missing and len(down) == len(move.missing):
        return not_up(down)
    in_sync = [broker for broker in move.replicas if broker in standing.isr and broker in standing.online]
    least = min(min_isr, len(move.target))
    return f"{len(in_sync)} in sync, and {least} must be left; {', '.join(map(str, down)) or 'none'} not up"


def not_in_sync(replicas: Iterable[int]) -> str:
    """The reason of a step that waits for these replicas."""
    return f"{', '.join(map(str, replicas))} not in sync"


def not_up(brokers: Iterable[int]) -> str:
    """The reason of a move that waits for these brokers."""
    return f"{', '.join(map(str, brokers))} not up"


def leader_after(move: Move, step: ReassignmentStep, standing: Standing, isr: Collection[int]) -> int:
    """The leader after a step is committed (-1: no possible leader). ``isr``: the ISR during the step."""
    stays = step.replicas
    if step.kind is StepKind.LEADER and move.target[0] in isr and move.target[0] in standing.online:
        return move.target[0]
    if standing.leader in stays and standing.leader in standing.online:
        return standing.leader
    return next((broker for broker in stays if broker in isr and broker in standing.online), -1)


def leader_epochs(step: ReassignmentStep, isr: Collection[int]) -> int:
    """The number of leader epoch increases in a step without failures.

    The step increases the epoch when it grows, when it is committed, and at each removal from the ISR.
    """
    return bool(step.add) + 1 + sum(1 for broker in step.drop if broker in isr)
