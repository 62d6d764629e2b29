"""Encode and decode messages with kafka-python's schemas, which are Kafka's own, instead of kemu's codec."""

import datetime
import io
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.errors import WireError
from kemu.protocol.messages import consumer_group as consumers
from kemu.protocol.messages import control, data
from kemu.protocol.messages import group as ours
from kemu.protocol.wire.codec import seal, unseal

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's reading of schemas warns in Python 3.11
    from kafka.protocol.admin.groups import (
        DescribeGroupsRequest,
        DescribeGroupsResponse,
        ListGroupsRequest,
        ListGroupsResponse,
    )
    from kafka.protocol.admin.topics import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreateTopicsRequest,
        CreateTopicsResponse,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
    )
    from kafka.protocol.consumer.group import (
        HeartbeatRequest,
        HeartbeatResponse,
        JoinGroupRequest,
        JoinGroupResponse,
        LeaveGroupRequest,
        LeaveGroupResponse,
        OffsetCommitRequest,
        OffsetCommitResponse,
        OffsetFetchRequest,
        OffsetFetchResponse,
        SyncGroupRequest,
        SyncGroupResponse,
    )
    from kafka.protocol.metadata import (
        FindCoordinatorRequest,
        FindCoordinatorResponse,
        MetadataRequest,
        MetadataResponse,
    )

_GROUPS_SINCE = 8
"""The first version of OffsetFetch that is about several groups."""
_NO_ID = uuid.UUID(int=0)
HEADER_BYTES = 4
"""Size of the length before each message on a connection, in bytes."""


@frozen
class _Api:
    request: Callable[[Any, int], Any]
    """Function of (kemu's request, version) that returns kafka-python's request."""
    response: Any
    """kafka-python's class of the response."""
    reply: Callable[[Any, int], Any]
    """Function of (kafka-python's response, version) that returns kemu's reply."""


def request_bytes(request: Any, version: int, correlation_id: int, client: str) -> bytes:
    """A request with its header and length."""
    if type(request) in _KIO:
        return _framed_by_kio(request, version, correlation_id, client)
    made = _APIS[type(request)].request(request, version)
    made.with_header(correlation_id=correlation_id, client_id=client)
    return bytes(made.encode(version=version, header=True, framed=True))


def reply_of(request: type, version: int, correlation_id: int, data: bytes) -> Any:
    """kemu's reply from a response without its length; fields that the version lacks have their defaults.

    Raises:
        WireError: the response belongs to another request, or reports throttling.
    """
    if request in _KIO:
        return _read_by_kio(request, version, correlation_id, data)
    api = _APIS[request]
    found = api.response.decode(data, version=version, header=True)
    if found.header.correlation_id != correlation_id:
        raise WireError(f"answer {found.header.correlation_id} came to request {correlation_id}")
    if getattr(found, "throttle_time_ms", 0):
        raise WireError(f"{request.__name__} was throttled: no quota is set")
    return unseal(seal(api.reply(found, version), version))[0]


# --- requests ------------------------------------------------------------------------------------------------------


def _join(asked: ours.JoinGroup, version: int) -> Any:
    return JoinGroupRequest(
        group_id=asked.group,
        session_timeout_ms=asked.session_timeout_ms,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        member_id=asked.member_id,
        group_instance_id=asked.instance_id,
        protocol_type=asked.protocol_type,
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(name=each.name, metadata=each.metadata, version=version)
            for each in asked.protocols
        ],
        reason=asked.reason,
        version=version,
    )


def _sync(asked: ours.SyncGroup, version: int) -> Any:
    return SyncGroupRequest(
        group_id=asked.group,
        generation_id=asked.generation,
        member_id=asked.member_id,
        group_instance_id=asked.instance_id,
        protocol_type=asked.protocol_type,
        protocol_name=asked.protocol_name,
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=each.member_id, assignment=each.assignment, version=version
            )
            for each in asked.assignments
        ],
        version=version,
    )


def _heartbeat(asked: ours.Heartbeat, version: int) -> Any:
    return HeartbeatRequest(
        group_id=asked.group,
        generation_id=asked.generation,
        member_id=asked.member_id,
        group_instance_id=asked.instance_id,
        version=version,
    )


def _leave(asked: ours.LeaveGroup, version: int) -> Any:
    return LeaveGroupRequest(
        group_id=asked.group,
        member_id=asked.member_id,
        members=[
            LeaveGroupRequest.MemberIdentity(
                member_id=each.member_id, group_instance_id=each.instance_id, reason=each.reason, version=version
            )
            for each in asked.members
        ],
        version=version,
    )


def _commit(asked: ours.OffsetCommit, version: int) -> Any:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    row = topic.OffsetCommitRequestPartition
    names = list(dict.fromkeys((each.topic, each.topic_id) for each in asked.offsets))
    return OffsetCommitRequest(
        group_id=asked.group,
        generation_id_or_member_epoch=asked.generation,
        member_id=asked.member_id,
        group_instance_id=asked.instance_id,
        retention_time_ms=asked.retention_time_ms,
        topics=[
            topic(
                name=name,
                topic_id=_uuid(topic_id),
                partitions=[
                    row(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        committed_metadata=each.metadata,
                        version=version,
                    )
                    for each in asked.offsets
                    if (each.topic, each.topic_id) == (name, topic_id)
                ],
                version=version,
            )
            for name, topic_id in names
        ],
        version=version,
    )


def _fetch(asked: ours.OffsetFetch, version: int) -> Any:
    if version >= _GROUPS_SINCE:
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        rows = None
        if asked.topics is not None:
            rows = [
                group.OffsetFetchRequestTopics(
                    name=each.topic,
                    topic_id=_uuid(each.topic_id),
                    partition_indexes=list(each.partitions),
                    version=version,
                )
                for each in asked.topics
            ]
        one = group(
            group_id=asked.group,
            member_id=asked.member_id,
            member_epoch=asked.member_epoch,
            topics=rows,
            version=version,
        )
        return OffsetFetchRequest(groups=[one], require_stable=asked.require_stable, version=version)
    topics = None
    if asked.topics is not None:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(
                name=each.topic, partition_indexes=list(each.partitions), version=version
            )
            for each in asked.topics
        ]
    return OffsetFetchRequest(group_id=asked.group, topics=topics, require_stable=asked.require_stable, version=version)


def _describe(asked: ours.DescribeGroups, version: int) -> Any:
    return DescribeGroupsRequest(
        groups=list(asked.groups),
        include_authorized_operations=asked.include_authorized_operations,
        version=version,
    )


def _list(asked: ours.ListGroups, version: int) -> Any:
    return ListGroupsRequest(
        states_filter=list(asked.states_filter), types_filter=list(asked.types_filter), version=version
    )


def _uuid(text: str) -> uuid.UUID:
    return uuid.UUID(text) if text else _NO_ID


def _uuid_text(found: Any) -> str:
    """The text of a topic id; "" without an id, or for 16 zero bytes."""
    return "" if found in (None, _NO_ID) else str(found)


def _create(asked: control.CreateTopics, version: int) -> Any:
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=each.name,
            num_partitions=each.num_partitions,
            replication_factor=each.replication_factor,
            assignments=[],
            configs=[],
        )
        for each in asked.topics
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=asked.timeout_ms, validate_only=False, version=version)


def _grow(asked: control.CreatePartitions, version: int) -> Any:
    topic = CreatePartitionsRequest.CreatePartitionsTopic
    topics = [topic(name=each.name, count=each.count, assignments=None, version=version) for each in asked.topics]
    return CreatePartitionsRequest(topics=topics, timeout_ms=asked.timeout_ms, validate_only=False, version=version)


def _delete(asked: control.DeleteTopics, version: int) -> Any:
    return DeleteTopicsRequest(topic_names=list(asked.topic_names), timeout_ms=asked.timeout_ms, version=version)


def _metadata(asked: data.Metadata, version: int) -> Any:
    topic = MetadataRequest.MetadataRequestTopic
    topics = [topic(topic_id=_NO_ID, name=name, version=version) for name in asked.topics or ()]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False, version=version)


# --- replies -------------------------------------------------------------------------------------------------------


def _joined(found: Any, version: int) -> ours.JoinGroupReply:
    return ours.JoinGroupReply(
        error=ErrorCode(found.error_code),
        generation=found.generation_id,
        protocol_type=found.protocol_type,
        protocol_name=found.protocol_name,
        leader=found.leader,
        skip_assignment=bool(found.skip_assignment),
        member_id=found.member_id,
        members=tuple(
            ours.JoinedMember(
                member_id=each.member_id, instance_id=each.group_instance_id, metadata=bytes(each.metadata)
            )
            for each in found.members
        ),
    )


def _synced(found: Any, version: int) -> ours.SyncGroupReply:
    return ours.SyncGroupReply(
        error=ErrorCode(found.error_code),
        protocol_type=found.protocol_type,
        protocol_name=found.protocol_name,
        assignment=bytes(found.assignment),
    )


def _left(found: Any, version: int) -> ours.LeaveGroupReply:
    return ours.LeaveGroupReply(
        error=ErrorCode(found.error_code),
        members=tuple(
            ours.LeftMember(
                member_id=each.member_id, instance_id=each.group_instance_id, error=ErrorCode(each.error_code)
            )
            for each in found.members or ()
        ),
    )


def _committed(found: Any, version: int) -> ours.OffsetCommitReply:
    return ours.OffsetCommitReply(
        outcomes=tuple(
            ours.OffsetOutcome(
                topic=topic.name or "",
                topic_id=_uuid_text(getattr(topic, "topic_id", None)),
                partition=row.partition_index,
                error=ErrorCode(row.error_code),
            )
            for topic in found.topics
            for row in topic.partitions
        )
    )


def _fetched(found: Any, version: int) -> ours.OffsetFetchReply:
    if version >= _GROUPS_SINCE:
        (found,) = found.groups
    return ours.OffsetFetchReply(
        offsets=tuple(
            ours.FetchedOffset(
                topic=topic.name or "",
                topic_id=_uuid_text(getattr(topic, "topic_id", None)),
                partition=row.partition_index,
                offset=row.committed_offset,
                leader_epoch=row.committed_leader_epoch,
                metadata=row.metadata,
                error=ErrorCode(row.error_code),
            )
            for topic in found.topics
            for row in topic.partitions
        ),
        error=ErrorCode(found.error_code),
    )


def _described(found: Any, version: int) -> ours.DescribeGroupsReply:
    return ours.DescribeGroupsReply(
        groups=tuple(
            ours.DescribedGroup(
                error=ErrorCode(each.error_code),
                error_message=getattr(each, "error_message", None),
                group=each.group_id,
                state=each.group_state,
                protocol_type=each.protocol_type,
                protocol=each.protocol_data,
                members=tuple(
                    ours.DescribedMember(
                        member_id=member.member_id,
                        instance_id=member.group_instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        metadata=bytes(member.member_metadata),
                        assignment=bytes(member.member_assignment),
                    )
                    for member in each.members
                ),
            )
            for each in found.groups
        )
    )


def _listed(found: Any, version: int) -> ours.ListGroupsReply:
    return ours.ListGroupsReply(
        error=ErrorCode(found.error_code),
        groups=tuple(
            ours.ListedGroup(
                group=each.group_id,
                protocol_type=each.protocol_type,
                state=each.group_state or "",
                group_type=each.group_type or "",
            )
            for each in found.groups
        ),
    )


_ROWS_OF_CHANGES: Mapping[type, str] = {
    control.CreateTopicsReply: "topics",
    control.CreatePartitionsReply: "results",
    control.DeleteTopicsReply: "responses",
}


def _changed(reply: type) -> Callable[[Any, int], Any]:
    """Reader of the outcome of a change of topics."""

    def read(found: Any, version: int) -> Any:
        rows: Any = getattr(found, _ROWS_OF_CHANGES[reply])
        row = control.TopicOutcome
        return reply(topics=tuple([row(name=each.name, error_code=ErrorCode(each.error_code)) for each in rows]))

    return read


def _topics_known(found: Any, version: int) -> data.MetadataReply:
    rows = []
    for topic in found.topics:
        partitions = tuple(
            data.PartitionMetadata(
                error=ErrorCode(each.error_code),
                partition=each.partition_index,
                leader=each.leader_id,
                replicas=tuple(each.replica_nodes),
                isr=tuple(each.isr_nodes),
            )
            for each in topic.partitions
        )
        error, topic_id = ErrorCode(topic.error_code), _uuid_text(topic.topic_id)
        rows.append(data.TopicMetadata(error=error, topic=topic.name or "", topic_id=topic_id, partitions=partitions))
    return data.MetadataReply(brokers=(), topics=tuple(rows))


_APIS: Mapping[type, _Api] = {
    control.CreateTopics: _Api(_create, CreateTopicsResponse, _changed(control.CreateTopicsReply)),
    control.CreatePartitions: _Api(_grow, CreatePartitionsResponse, _changed(control.CreatePartitionsReply)),
    control.DeleteTopics: _Api(_delete, DeleteTopicsResponse, _changed(control.DeleteTopicsReply)),
    data.Metadata: _Api(_metadata, MetadataResponse, _topics_known),
    ours.FindCoordinator: _Api(
        lambda asked, version: FindCoordinatorRequest(key=asked.key, key_type=0, version=version),
        FindCoordinatorResponse,
        lambda found, version: ours.FindCoordinatorReply(
            error=ErrorCode(found.error_code), node_id=found.node_id, host=""
        ),
    ),
    ours.JoinGroup: _Api(_join, JoinGroupResponse, _joined),
    ours.SyncGroup: _Api(_sync, SyncGroupResponse, _synced),
    ours.Heartbeat: _Api(
        _heartbeat, HeartbeatResponse, lambda found, version: ours.HeartbeatReply(error=ErrorCode(found.error_code))
    ),
    ours.LeaveGroup: _Api(_leave, LeaveGroupResponse, _left),
    ours.OffsetCommit: _Api(_commit, OffsetCommitResponse, _committed),
    ours.OffsetFetch: _Api(_fetch, OffsetFetchResponse, _fetched),
    ours.DescribeGroups: _Api(_describe, DescribeGroupsResponse, _described),
    ours.ListGroups: _Api(_list, ListGroupsResponse, _listed),
}


# --- the consumer protocol, by kio, since kafka-python does not know it ----------------------------------------------


def _framed_by_kio(request: Any, version: int, correlation_id: int, client: str) -> bytes:
    entity = _entity(type(request), version, EntityType.request)
    header = entity.__header_schema__
    out = io.BytesIO()
    entity_writer(header)(
        out,
        header(
            request_api_key=entity.__api_key__,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=client,
        ),
    )
    entity_writer(entity)(out, _KIO[type(request)](request, version, entity))
    data = out.getvalue()
    return len(data).to_bytes(HEADER_BYTES, "big") + data


def _read_by_kio(request: type, version: int, correlation_id: int, data: bytes) -> Any:
    entity = _entity(request, version, EntityType.response)
    header, size = entity_reader(entity.__header_schema__)(data, 0)
    if header.correlation_id != correlation_id:
        raise WireError(f"answer {header.correlation_id} came to request {correlation_id}")
    found, _ = entity_reader(entity)(data, size)
    reply = _beat_answered(found) if request is consumers.ConsumerGroupHeartbeat else _consumers_described(found)
    return unseal(seal(reply, version))[0]


def _entity(request: type, version: int, kind: Any) -> Any:
    """kio's class of a request or response."""
    module = load_payload_module(_KEYS[request], version, kind)
    (entity,) = [each for each in vars(module).values() if getattr(each, "__type__", None) is kind]
    return entity


def _beat(asked: consumers.ConsumerGroupHeartbeat, version: int, entity: Any) -> Any:
    rows = vars(load_payload_module(_KEYS[type(asked)], version, EntityType.request))["TopicPartitions"]
    owned = None
    if asked.owned is not None:
        owned = tuple([rows(topic_id=uuid.UUID(each.topic_id), partitions=each.partitions) for each in asked.owned])
    regex = {"subscribed_topic_regex": asked.regex} if version else {}
    return entity(
        group_id=asked.group,
        member_id=asked.member_id,
        member_epoch=asked.member_epoch,
        instance_id=asked.instance_id,
        rack_id=asked.rack,
        rebalance_timeout=datetime.timedelta(milliseconds=asked.rebalance_timeout_ms),
        subscribed_topic_names=asked.topics,
        server_assignor=asked.assignor,
        topic_partitions=owned,
        **regex,
    )


def _describe_consumers(asked: consumers.ConsumerGroupDescribe, version: int, entity: Any) -> Any:
    return entity(group_ids=asked.groups, include_authorized_operations=asked.include_authorized_operations)


def _beat_answered(found: Any) -> consumers.ConsumerGroupHeartbeatReply:
    assignment = None if found.assignment is None else _numbers(found.assignment)
    return consumers.ConsumerGroupHeartbeatReply(
        error=ErrorCode(int(found.error_code)),
        error_message=found.error_message,
        member_id=found.member_id,
        member_epoch=found.member_epoch,
        heartbeat_interval_ms=found.heartbeat_interval // datetime.timedelta(milliseconds=1),
        assignment=assignment,
    )


def _numbers(assignment: Any) -> tuple[consumers.TopicNumbers, ...]:
    rows = assignment.topic_partitions
    return tuple([consumers.TopicNumbers(topic_id=str(row.topic_id), partitions=row.partitions) for row in rows])


def _named(assignment: Any) -> tuple[consumers.NamedTopicNumbers, ...]:
    return tuple(
        [
            consumers.NamedTopicNumbers(topic_id=str(row.topic_id), topic=row.topic_name, partitions=row.partitions)
            for row in assignment.topic_partitions
        ]
    )


def _consumers_described(found: Any) -> consumers.ConsumerGroupDescribeReply:
    groups = [
        consumers.DescribedConsumerGroup(
            error=ErrorCode(int(each.error_code)),
            error_message=each.error_message,
            group=each.group_id,
            state=each.group_state,
            epoch=each.group_epoch,
            target_epoch=each.assignment_epoch,
            assignor=each.assignor_name,
            members=tuple(map(_member, each.members)),
        )
        for each in found.groups
    ]
    return consumers.ConsumerGroupDescribeReply(groups=tuple(groups))


def _member(found: Any) -> consumers.DescribedConsumer:
    return consumers.DescribedConsumer(
        member_id=found.member_id,
        instance_id=found.instance_id,
        rack=found.rack_id,
        member_epoch=found.member_epoch,
        client_id=found.client_id,
        client_host=found.client_host,
        topics=tuple(sorted(found.subscribed_topic_names)),
        regex=found.subscribed_topic_regex,
        assigned=_named(found.assignment),
        target=_named(found.target_assignment),
        member_type=getattr(found, "member_type", -1),
    )


_KEYS: Mapping[type, int] = {consumers.ConsumerGroupHeartbeat: 68, consumers.ConsumerGroupDescribe: 69}
_KIO: Mapping[type, Callable[[Any, int, Any], Any]] = {
    consumers.ConsumerGroupHeartbeat: _beat,
    consumers.ConsumerGroupDescribe: _describe_consumers,
}
