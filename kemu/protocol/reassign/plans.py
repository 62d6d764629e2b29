"""The plan of a reassignment: its batches if every added replica catches up.

The controller uses the same ``Batches`` and ``next_step``; a plan commits each round's steps at once.
"""

from collections.abc import Mapping

from kemu.protocol.frozen import frozen
from kemu.protocol.names import TopicPartition
from kemu.protocol.reassign.batches import Batches
from kemu.protocol.reassign.moves import Limits, Move, ReassignmentStep, Standing, leader_after, waits_for, without
from kemu.protocol.reassign.readings import DEFAULT_POLICY, POLICIES


@frozen
class PlannedStep:
    """One partition's part of a batch. ``leader``: the leader after the commit (-1: no possible leader)."""

    at: TopicPartition
    step: ReassignmentStep
    leader: int


@frozen
class WaitingPartition:
    """A partition that does not reach its target, with the reason."""

    at: TopicPartition
    replicas: tuple[int, ...]
    why: str


@frozen
class Plan:
    """The plan. ``batches``: in order; each batch begins when the previous batch is committed. ``waiting``: partitions
    that remain unfinished.
    """

    batches: tuple[tuple[PlannedStep, ...], ...]
    waiting: tuple[WaitingPartition, ...]


class _Partition:
    """The state of a partition while the plan is computed."""

    def __init__(self, move: Move, standing: Standing) -> None:
        self.move = move
        self.standing = standing


def plan_reassignment(
    current: Mapping[TopicPartition, tuple[int, ...]],
    target: Mapping[TopicPartition, tuple[int, ...]],
    *,
    limits: Limits,
    min_isr: int = 1,
    online: frozenset[int] | None = None,
    leaders: Mapping[TopicPartition, int] | None = None,
    policy: str = DEFAULT_POLICY,
) -> Plan:
    """The batches from ``current`` to ``target``, in the order of ``target``.

    Args:
        current: the replicas of every partition that ``target`` names.
        target: the final lists.
        limits: the limits R, P and L.
        min_isr: the ``min.insync.replicas`` of all partitions.
        online: the brokers that are up; None = all brokers. Assigned replicas on brokers that are up are in sync.
        leaders: the current leaders; by default the first assigned replica that is up.
        policy: one of ``POLICIES``.

    Raises:
        KeyError: a partition is not in ``current``, or the policy is unknown.
    """
    choose = POLICIES[policy].next_step
    everybody = (broker for lists in (current, target) for replicas in lists.values() for broker in replicas)
    up = frozenset(everybody) if online is None else online
    partitions: dict[TopicPartition, _Partition] = {}
    for at, wanted in target.items():
        move = Move.begin(current[at], wanted)
        if move.done:
            continue
        isr = tuple(broker for broker in move.replicas if broker in up)
        leader = (leaders or {}).get(at, isr[0] if isr else -1)
        partitions[at] = _Partition(move, Standing(leader, isr, up))

    def step_of(at: TopicPartition) -> ReassignmentStep | None:
        each = partitions[at]
        return choose(each.move, each.standing, min_isr, limits.replica_movements) if each.standing.isr else None

    batches = Batches(step_of, limits)
    for at in partitions:
        batches.submit(at)
    planned: list[tuple[PlannedStep, ...]] = []
    stuck: dict[TopicPartition, str] = {}
    while begun := batches.start():
        batch: list[PlannedStep] = []
        for at, step in begun:
            each = partitions[at]
            isr = tuple(b for b in step.during if b in each.standing.isr or (b in step.add and b in up))
            why = waits_for(each.move, step, isr, min_isr)
            if why:
                stuck[at] = why  # the partition keeps its place, as in the running cluster
                continue
            leader = leader_after(each.move, step, each.standing, isr)
            each.move = each.move.committed(step)
            each.standing = Standing(leader, without(isr, step.drop), up)
            batch.append(PlannedStep(at, step, leader))
            if each.move.done:
                batches.remove(at)
            else:
                batches.committed(at)
        if batch:
            planned.append(tuple(batch))
    waiting = tuple(
        WaitingPartition(at, each.move.replicas, stuck.get(at) or _why_blocked(at, each, batches))
        for at, each in partitions.items()
        if not each.move.done
    )
    return Plan(tuple(planned), waiting)


def _why_blocked(at: TopicPartition, partition: _Partition, batches: Batches[TopicPartition]) -> str:
    if not partition.standing.isr:
        return "no replica is online"
    if at not in batches.blocked:
        return "the limit of partition movements is reached"
    offline = without(partition.move.missing, partition.standing.online)
    return f"offline: {', '.join(map(str, offline))}" if offline else "a drop would leave too few in sync"
