"""The shapes of refusals: each request answered with an error, as its version has it, without being executed."""

from typing import Any

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import (
    DeleteGroups,
    DeleteGroupsReply,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
    FetchedOffset,
    GroupOutcome,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
    ListGroups,
    ListGroupsReply,
    OffsetCommit,
    OffsetCommitReply,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetFetch,
    OffsetFetchReply,
    PartitionOutcome,
    SyncGroup,
    SyncGroupReply,
    TopicPartitions,
)
from kemu.protocol.names import MemberId

_PROTOCOL_NULLABLE_SINCE = 7
_BATCH_LEAVE_SINCE = 3
_TOP_LEVEL_FETCH_ERROR_SINCE = 2


def refusal(request: Any, error: ErrorCode, version: int) -> Any:
    """The reply to any request of the coordinator that says only this error."""
    match request:
        case JoinGroup():
            return join_error(version, error, request.member_id)
        case SyncGroup():
            return SyncGroupReply(error=error)
        case Heartbeat():
            return HeartbeatReply(error=error)
        case LeaveGroup():
            return LeaveGroupReply(error=error)
        case OffsetCommit():
            return OffsetCommitReply(outcomes=_every(request, error))
        case OffsetFetch():
            return fetch_error(version, error, request.topics or ())
        case OffsetDelete():
            return OffsetDeleteReply(error=error)
        case DescribeGroups():
            return DescribeGroupsReply(groups=tuple([described_error(name, error) for name in request.groups]))
        case ListGroups():
            return ListGroupsReply(error=error)
        case DeleteGroups():
            return DeleteGroupsReply(outcomes=tuple([GroupOutcome(group=g, error=error) for g in request.groups]))
        case _:
            raise AssertionError(f"not a request of the coordinator: {request!r}")


def join_error(version: int, error: ErrorCode, member_id: MemberId) -> JoinGroupReply:
    """A refused join: no generation, no leader, no protocol (an empty name before v7)."""
    name = None if version >= _PROTOCOL_NULLABLE_SINCE else ""
    return JoinGroupReply(error=error, protocol_name=name, member_id=member_id)


def leaving(version: int, request: LeaveGroup) -> tuple[LeavingMember, ...]:
    """Who is to leave: one member before v3, a batch since."""
    if version >= _BATCH_LEAVE_SINCE:
        return request.members
    return (LeavingMember(member_id=request.member_id),)


def leave_reply(version: int, outcomes: tuple[LeftMember, ...]) -> LeaveGroupReply:
    """Before v3 the one member's error is the whole request's."""
    if version >= _BATCH_LEAVE_SINCE:
        return LeaveGroupReply(error=ErrorCode.NONE, members=outcomes)
    return LeaveGroupReply(error=outcomes[0].error)


def fetch_error(version: int, error: ErrorCode, topics: tuple[TopicPartitions, ...]) -> OffsetFetchReply:
    """A refused OffsetFetch: one error since v2, one per partition before."""
    if version >= _TOP_LEVEL_FETCH_ERROR_SINCE:
        return OffsetFetchReply(offsets=(), error=error)
    rows = [no_offset(row.topic, partition, error) for row in topics for partition in row.partitions]
    return OffsetFetchReply(offsets=tuple(rows))


def no_offset(topic: str, partition: int, error: ErrorCode = ErrorCode.NONE) -> FetchedOffset:
    """Nothing committed, or an error in its place."""
    return FetchedOffset(topic=topic, partition=partition, metadata="", error=error)


def described_error(group: str, error: ErrorCode, state: str = "") -> DescribedGroup:
    """A group that could not be described, or is not there (state "Dead", no error)."""
    return DescribedGroup(error=error, group=group, state=state, protocol_type="", protocol="", members=())


def _every(request: OffsetCommit, error: ErrorCode) -> tuple[PartitionOutcome, ...]:
    rows = [PartitionOutcome(topic=row.topic, partition=row.partition, error=error) for row in request.offsets]
    return tuple(rows)
