"""Encode and decode messages with kafka-python's schemas, which are Kafka's own, instead of kemu's codec."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.errors import WireError
from kemu.protocol.messages import group as ours
from kemu.protocol.wire.codec import seal, unseal

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's reading of schemas warns in Python 3.11
    from kafka.protocol.admin.groups import DescribeGroupsRequest, DescribeGroupsResponse
    from kafka.protocol.admin.topics import CreateTopicsRequest, CreateTopicsResponse
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
    from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

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
    made = _APIS[type(request)].request(request, version)
    made.with_header(correlation_id=correlation_id, client_id=client)
    return bytes(made.encode(version=version, header=True, framed=True))


def reply_of(request: type, version: int, correlation_id: int, data: bytes) -> Any:
    """kemu's reply from a response without its length; fields that the version lacks have their defaults.

    Raises:
        WireError: the response belongs to another request, or reports throttling.
    """
    api = _APIS[request]
    found = api.response.decode(data, version=version, header=True)
    if found.header.correlation_id != correlation_id:
        raise WireError(f"answer {found.header.correlation_id} came to request {correlation_id}")
    if getattr(found, "throttle_time_ms", 0):
        raise WireError(f"{request.__name__} was throttled: no quota is set")
    return unseal(seal(api.reply(found, version), version))[0]


# --- what makes a broker ready -------------------------------------------------------------------------------------

_CREATE_VERSION, _FIND_VERSION = 4, 2


def topic_request(name: str, partitions: int) -> bytes:
    """A CreateTopics request for one topic."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    made = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False, version=_CREATE_VERSION)
    return _framed(made, _CREATE_VERSION)


def topic_error(data: bytes) -> ErrorCode:
    """The error in the response to ``topic_request``."""
    (row,) = CreateTopicsResponse.decode(data, version=_CREATE_VERSION, header=True).topics
    return ErrorCode(row.error_code)


def coordinator_request(group: str) -> bytes:
    """A FindCoordinator request for a group."""
    return _framed(FindCoordinatorRequest(key=group, key_type=0, version=_FIND_VERSION), _FIND_VERSION)


def coordinator_error(data: bytes) -> ErrorCode:
    """The error in the response to ``coordinator_request``."""
    found = FindCoordinatorResponse.decode(data, version=_FIND_VERSION, header=True)
    return ErrorCode(found.error_code)


def _framed(request: Any, version: int) -> bytes:
    request.with_header(correlation_id=1, client_id="kemu")
    return bytes(request.encode(version=version, header=True, framed=True))


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
    names = list(dict.fromkeys(each.topic for each in asked.offsets))
    return OffsetCommitRequest(
        group_id=asked.group,
        generation_id_or_member_epoch=asked.generation,
        member_id=asked.member_id,
        group_instance_id=asked.instance_id,
        retention_time_ms=asked.retention_time_ms,
        topics=[
            topic(
                name=name,
                partitions=[
                    row(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        committed_metadata=each.metadata,
                        version=version,
                    )
                    for each in asked.offsets
                    if each.topic == name
                ],
                version=version,
            )
            for name in names
        ],
        version=version,
    )


def _fetch(asked: ours.OffsetFetch, version: int) -> Any:
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
            ours.OffsetOutcome(topic=topic.name, partition=row.partition_index, error=ErrorCode(row.error_code))
            for topic in found.topics
            for row in topic.partitions
        )
    )


def _fetched(found: Any, version: int) -> ours.OffsetFetchReply:
    return ours.OffsetFetchReply(
        offsets=tuple(
            ours.FetchedOffset(
                topic=topic.name,
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


_APIS: Mapping[type, _Api] = {
    ours.JoinGroup: _Api(_join, JoinGroupResponse, _joined),
    ours.SyncGroup: _Api(_sync, SyncGroupResponse, _synced),
    ours.Heartbeat: _Api(
        _heartbeat, HeartbeatResponse, lambda found, version: ours.HeartbeatReply(error=ErrorCode(found.error_code))
    ),
    ours.LeaveGroup: _Api(_leave, LeaveGroupResponse, _left),
    ours.OffsetCommit: _Api(_commit, OffsetCommitResponse, _committed),
    ours.OffsetFetch: _Api(_fetch, OffsetFetchResponse, _fetched),
    ours.DescribeGroups: _Api(_describe, DescribeGroupsResponse, _described),
}
