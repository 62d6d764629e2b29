"""Steps of an admin client that start, cancel and list reassignments.

Source: KIP-455, Kafka's ``ReassignPartitionsCommand``.
"""

from collections.abc import Generator
from typing import Any

from kemu.actors.clients.admin_asks import Ask, Steps, Target, TaskRefused, counted, expect, partitions_of
from kemu.protocol.commands import ReassignPartitions
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsReply,
    ListPartitionReassignments,
    ListPartitionReassignmentsReply,
    NewReplicas,
)
from kemu.protocol.messages.data import Metadata, MetadataReply

REQUEST_TIMEOUT_MS = 30_000
"""The ``request.timeout.ms`` of AdminClientConfig."""


def reassign(command: ReassignPartitions) -> Steps:
    """Start or cancel reassignments. For a whole topic the admin first requests its partitions or reassignments.

    A reassignment that ends before its cancellation is no error.
    """
    topic, targets, brokers = command.topic, command.targets, command.brokers
    cancels = not targets and not brokers
    if brokers:
        metadata: MetadataReply = yield Ask(Target.ANY, Metadata(topics=(topic,)))
        turns = [(number, number % len(brokers)) for number in sorted(partitions_of(metadata, topic))]
        targets = tuple((number, brokers[turn:] + brokers[:turn]) for number, turn in turns)
    elif cancels:
        listed = yield from _ongoing()
        targets = tuple((row.partition_index, ()) for row in listed.topics if row.topic_name == topic)
        if not targets:
            raise TaskRefused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"nothing of {topic} is being reassigned")
    rows = tuple(
        NewReplicas(topic_name=topic, partition_index=number, replicas=replicas or None) for number, replicas in targets
    )
    request = AlterPartitionReassignments(partitions=rows, timeout_ms=REQUEST_TIMEOUT_MS)
    reply: AlterPartitionReassignmentsReply = yield Ask(Target.CONTROLLER, request)
    expect(reply.error_code, reply.error_message or "")
    for row in reply.responses:
        if not cancels or row.error_code is not ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
            expect(row.error_code, f"{topic}-{row.partition_index}: {row.error_message or ''}")
    return f"{topic}: {counted(len(rows))} {'cancelled' if cancels else 'in progress'}"


def _ongoing() -> Generator[Ask, Any, ListPartitionReassignmentsReply]:
    request = ListPartitionReassignments(topic_partitions=None, timeout_ms=REQUEST_TIMEOUT_MS)
    reply: ListPartitionReassignmentsReply = yield Ask(Target.CONTROLLER, request)
    expect(reply.error_code, reply.error_message or "")
    return reply


def list_reassignments() -> Steps:
    """The reassignments in progress, the running step of each, and the reason of its wait."""
    reply = yield from _ongoing()
    waits = {(row.topic_name, row.partition_index): row.why for row in reply.waiting}
    steps = {(row.topic_name, row.partition_index): row for row in reply.current_batch}
    lines = []
    for row in reply.topics:
        at = (row.topic_name, row.partition_index)
        step, why = steps.get(at), waits.get(at)
        now = f"now {step.current_brokers} -> {step.target_brokers}" if step is not None else "waiting"
        if why is not None:
            now = f"{now}: {why}" if step is None else f"{now}, waits: {why}"
        coming, going = row.adding_replicas, row.removing_replicas
        lines.append(f"{row.topic_name}-{row.partition_index} {row.replicas} +{coming} -{going}, {now}")
    return "; ".join(lines) or "none"
