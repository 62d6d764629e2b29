"""The topics of a consumer's requests about offsets: by id or by name. A part of the consumer.

Consumers of the consumer protocol name topics by id since 4.2 (version 10), if they know the ids of all topics of the
request. A broker that supports only an older version gets the names. Source: ``CommitRequestManager`` 4.1.1, 4.2.1;
``OffsetCommitRequest.Builder.forTopicIdsOrNames``.
"""

from collections.abc import Iterable, Mapping

from kemu.actors.consumer.machine import ConsumerMachine
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.group import OFFSET_TOPIC_IDS_SINCE, OffsetFetch, OffsetToCommit, TopicPartitions
from kemu.protocol.names import TopicPartition

STABLE_SINCE = 7
"""The first version of OffsetFetch that can ask for stable offsets alone (KIP-447, clients since 2.5)."""
MEMBER_EPOCH_SINCE = 9
"""The version of OffsetFetch with the member's id and epoch (KIP-848)."""
_FETCH_OF_ONE_GROUP = 7
"""The last version of OffsetFetch without batches, which kemu's consumers send without a member epoch."""


def to_send(machine: ConsumerMachine, offsets: tuple[OffsetToCommit, ...]) -> tuple[tuple[OffsetToCommit, ...], int]:
    """The offsets of an OffsetCommit, with topic ids if the request names topics by id, and the request's version."""
    version = machine.versions["OffsetCommit"]
    ids = _topic_ids(machine, version, [row.topic for row in offsets])
    if not ids:
        return offsets, min(version, OFFSET_TOPIC_IDS_SINCE - 1)
    named = [evolve(row, topic_id=ids[row.topic]) for row in offsets]  # type: ignore[misc]
    return tuple(named), version


def offset_fetch(
    machine: ConsumerMachine, partitions: Iterable[TopicPartition]
) -> tuple[OffsetFetch, int, Mapping[TopicPartition, TopicPartition]]:
    """An OffsetFetch of these partitions, its version, and (topic id or topic, number) in its answer -> partition."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    member_id, epoch = machine.membership.fetches_offsets_as
    version = machine.versions["OffsetFetch"]
    ids = _topic_ids(machine, version, numbers)
    if not ids:
        version = min(version, _FETCH_OF_ONE_GROUP) if member_id is None else MEMBER_EPOCH_SINCE
    request = OffsetFetch(
        group=machine.config.group_id,
        member_id=member_id,
        member_epoch=epoch,
        topics=tuple(
            [
                TopicPartitions(topic=topic, topic_id=ids.get(topic, ""), partitions=tuple(which))
                for topic, which in numbers.items()
            ]
        ),
        require_stable=version >= STABLE_SINCE,
    )
    asked = [(topic, number) for topic, which in numbers.items() for number in which]
    answered = {at: at for at in asked} | {(ids[topic], number): (topic, number) for topic, number in asked if ids}
    return request, version, answered


def is_retried(machine: ConsumerMachine, error: ErrorCode) -> bool:
    """Whether OffsetFetch is retried after this error of a partition; otherwise the application gets the error."""
    if error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
        return machine.config.uses_consumer_protocol and machine.client_rules.refetches_unknown_topics
    return error is ErrorCode.UNSTABLE_OFFSET_COMMIT


def is_retried_by_group(machine: ConsumerMachine, error: ErrorCode) -> bool:
    """Whether OffsetFetch is retried after this error of the group; otherwise the application gets the error.

    A member that is still in the group retries with its new epoch. Source: ``CommitRequestManager.
    isStaleEpochErrorAndValidEpochAvailable`` 4.0 to 4.3.
    """
    if error is ErrorCode.STALE_MEMBER_EPOCH:
        return machine.membership.fetches_offsets_as[0] is not None
    return machine.client_rules.retries_offset_fetch(error)


def _topic_ids(machine: ConsumerMachine, version: int, topics: Iterable[str]) -> Mapping[str, str]:
    """Topic -> id; empty if a request of this version at most names its topics."""
    if version < OFFSET_TOPIC_IDS_SINCE or not machine.config.uses_consumer_protocol:
        return {}
    layouts = machine.metadata.cluster.topics
    ids = {topic: layouts[topic].topic_id if topic in layouts else "" for topic in topics}
    return ids if all(ids.values()) else {}
