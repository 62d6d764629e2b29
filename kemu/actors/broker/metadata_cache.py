"""Topics' metadata after an UpdateMetadata: Kafka's metadata cache, as rows of Metadata responses."""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    NO_TOPIC_ID,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from kemu.protocol.messages.data import PartitionMetadata, TopicMetadata
from kemu.protocol.names import TopicPartition

Topics = dict[str, TopicMetadata]


def topics_after(topics: Topics, request: UpdateMetadata) -> Topics:
    """The topics after the request's changes; partitions of topics being deleted are removed.

    A partition whose leader is not alive has LEADER_NOT_AVAILABLE. A change of live brokers alone can set or clear this
    error.
    """
    alive = {broker.id for broker in request.live_brokers}
    requested: dict[str, dict[int, UpdateMetadataPartition]] = {}
    for state in request.partition_states:
        requested.setdefault(state.topic_name, {})[state.partition_index] = state
    after = {}
    for topic in dict.fromkeys((*topics, *requested)):
        known = topics[topic].partitions if topic in topics else ()
        rows = {row.partition: _refreshed(row, alive) for row in known}
        for number, state in requested.get(topic, {}).items():
            if state.leader == LEADER_DURING_DELETE:
                rows.pop(number, None)
            else:
                rows[number] = _row(state, alive)
        if rows:
            ordered = tuple(rows[number] for number in sorted(rows))
            state_of_request = next(iter(requested.get(topic, {}).values()), None)
            topic_id = _id_after(topics.get(topic), state_of_request)
            same = topic in topics and ordered == known and topics[topic].topic_id == topic_id
            after[topic] = topics[topic] if same else _topic(topic, topic_id, ordered)
    return after


def cached(topics: Topics, request: UpdateMetadata) -> tuple[tuple[TopicMetadata, ...], tuple[TopicPartition, ...]]:
    """The request's partitions in the cache, and its partitions that are not in the cache."""
    requested: dict[str, list[int]] = {}
    for state in request.partition_states:
        requested.setdefault(state.topic_name, []).append(state.partition_index)
    found: list[TopicMetadata] = []
    absent: list[TopicPartition] = []
    for topic, numbers in requested.items():
        there = {row.partition: row for row in topics[topic].partitions} if topic in topics else {}
        absent += [(topic, number) for number in numbers if number not in there]
        rows = tuple([there[number] for number in numbers if number in there])
        if rows:
            found.append(_topic(topic, topics[topic].topic_id, rows))
    return tuple(found), tuple(absent)


def _topic(topic: str, topic_id: str, rows: tuple[PartitionMetadata, ...]) -> TopicMetadata:
    return TopicMetadata(error=ErrorCode.NONE, topic=topic, topic_id=topic_id, partitions=rows)


def _id_after(known: TopicMetadata | None, state_of_request: UpdateMetadataPartition | None) -> str:
    """The topic id after a request: the request's id, even if absent (2.8 and 3.0 keep the known id then).

    Source: ``ZkMetadataCache.updateMetadata``, 3.1.2.
    """
    if state_of_request is not None:
        return state_of_request.topic_id
    return NO_TOPIC_ID if known is None else known.topic_id


def _error(leader: int, alive: set[int]) -> ErrorCode:
    return ErrorCode.NONE if leader in alive else ErrorCode.LEADER_NOT_AVAILABLE


def _refreshed(row: PartitionMetadata, alive: set[int]) -> PartitionMetadata:
    error = _error(row.leader, alive)
    if error is row.error:
        return row
    return PartitionMetadata(
        error=error,
        partition=row.partition,
        leader=row.leader,
        leader_epoch=row.leader_epoch,
        replicas=row.replicas,
        isr=row.isr,
    )


def _row(state: UpdateMetadataPartition, alive: set[int]) -> PartitionMetadata:
    return PartitionMetadata(
        error=_error(state.leader, alive),
        partition=state.partition_index,
        leader=state.leader if state.leader >= 0 else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replicas=state.replicas,
        isr=state.isr,
    )
