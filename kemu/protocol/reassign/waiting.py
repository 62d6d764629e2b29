"""The reasons why a partition's reassignment waits, each with one name.

Sources are two texts of KIP-435: "Wait until this step is not identical to the current assignment and there is at least
one replica in ISR", and "target brokers might be offline". A partition without a leader cannot be reassigned.
"""

from enum import StrEnum
from typing import NamedTuple

from kemu.protocol.reassign.moves import (
    Limits,
    Move,
    ReassignmentStep,
    Standing,
    blocked_by,
    late_replicas,
    limits_by_key,
    not_in_sync,
    not_up,
    waits_for,
)

_, PARTITION_MOVEMENTS, LEADER_MOVEMENTS = limits_by_key(Limits())


class WaitReason(StrEnum):
    """A reason why a partition's reassignment waits."""

    NOT_IN_SYNC = "not-in-sync"
    """The partition's step runs: added replicas are not in the ISR yet."""
    NOT_UP = "not-up"
    """Brokers that the step needs are not up."""
    NO_LEADER = "no-leader"
    """The partition has no leader to copy from."""
    MIN_ISR = "min-isr"
    """Too few replicas would be left in sync."""
    PARTITION_LIMIT = "partition-limit"
    """The limit of partition movements is reached."""
    LEADER_LIMIT = "leader-limit"
    """The limit of leader movements is reached."""


class Wait(NamedTuple):
    """A reason, the awaited brokers (perhaps none), and the text."""

    reason: WaitReason
    brokers: tuple[int, ...]
    why: str


def of_step(move: Move, step: ReassignmentStep, standing: Standing, isr: tuple[int, ...], min_isr: int) -> Wait | None:
    """The reason why a running step cannot be committed; None if it can be committed. ``isr``: the ISR as last read."""
    why = waits_for(move, step, isr, min_isr)
    if not why:
        return None
    late = late_replicas(move, step, isr)
    if not late:
        return Wait(WaitReason.MIN_ISR, (), why)
    down = tuple(broker for broker in late if broker not in standing.online)
    copying = tuple(broker for broker in late if broker in standing.online)
    if copying and standing.leader not in standing.online:
        return Wait(WaitReason.NO_LEADER, late, f"nobody leads it, {not_in_sync(late)}")
    if down:
        more = f"; {not_in_sync(copying)}" if copying else ""
        return Wait(WaitReason.NOT_UP, down, f"{not_up(down)}{more}")
    return Wait(WaitReason.NOT_IN_SYNC, late, why)


def of_blocked(move: Move, standing: Standing, min_isr: int) -> Wait:
    """The reason why a blocked partition has no next step."""
    down = tuple(broker for broker in move.missing if broker not in standing.online)
    reason = WaitReason.NOT_UP if down and len(down) == len(move.missing) else WaitReason.MIN_ISR
    return Wait(reason, down, blocked_by(move, standing, min_isr))


def of_limit(limits: Limits, *, of_leaders: bool) -> Wait:
    """The reason of a partition that waits because of a limit."""
    if of_leaders:
        return Wait(WaitReason.LEADER_LIMIT, (), f"{LEADER_MOVEMENTS} is {limits.leader_movements}")
    return Wait(WaitReason.PARTITION_LIMIT, (), f"{PARTITION_MOVEMENTS} is {limits.partition_movements}")
