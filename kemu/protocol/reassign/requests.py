"""Errors of AlterPartitionReassignments. Source: KIP-455, ``KafkaController.alterPartitionReassignments`` (2.8)."""

from collections import Counter
from collections.abc import Collection

from kemu.protocol.errors import ErrorCode


def list_error(replicas: tuple[int, ...]) -> str:
    """The error of a list of replicas, "" if the list is valid. Brokers and partitions are not checked."""
    if not replicas:
        return "the list of replicas is empty"
    if len(set(replicas)) < len(replicas):
        twice = Counter(replicas).most_common(1)[0][0]
        return f"broker {twice} is in the list of replicas more than once"
    if min(replicas) < 0:
        return f"{min(replicas)} is not a broker id"
    return ""


def refusal(
    target: tuple[int, ...] | None,
    *,
    current: tuple[int, ...] | None,
    live: Collection[int],
    moves: bool = False,
    deleted: bool = False,
) -> tuple[ErrorCode, str]:
    """The error of one partition of a request, (NONE, "") if the request is accepted.

    Args:
        target: the new list, None to cancel.
        current: the present replicas, None if the partition does not exist.
        live: the brokers that are up. Only added replicas must be on these brokers.
        moves: whether a reassignment that can be cancelled is in progress.
        deleted: whether the topic is being deleted.
    """
    if target is None:
        if not moves:
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment is in progress"
    else:
        dead = [broker for broker in target if broker not in (current or ()) and broker not in live]
        wrong = list_error(target) or (f"broker {dead[0]} is not alive" if dead else "")
        if wrong:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong
    if current is None or deleted:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition"
    return ErrorCode.NONE, ""
