"""The error reply to each request, in the request's version, for requests that are not executed.

The table has one row per request that a group coordinator or a controller may refuse as a whole. Some replies have one
error for the whole request, others have one error per row.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages import consumer_group, control, group, ranges
from kemu.protocol.names import MemberId

_PROTOCOL_NULLABLE_SINCE = 7
_TOP_LEVEL_FETCH_ERROR_SINCE = 2

Refusal = Callable[[Any, ErrorCode, int], object]
"""(request, error, version) -> the reply."""


def refusal(request: object, error: ErrorCode, version: int) -> object:
    """The reply to a request with only this error."""
    refuse = REFUSALS.get(type(request))
    assert refuse is not None, f"not a request that is refused: {request!r}"
    return refuse(request, error, version)


def join_error(version: int, error: ErrorCode, member_id: MemberId) -> group.JoinGroupReply:
    """The reply to a refused join: no generation, no leader, no protocol (an empty name before v7)."""
    name = None if version >= _PROTOCOL_NULLABLE_SINCE else ""
    return group.JoinGroupReply(error=error, protocol_name=name, member_id=member_id)


def no_offset(topic: str, partition: int, error: ErrorCode = ErrorCode.NONE, topic_id: str = "") -> group.FetchedOffset:
    """A row without a committed offset, or with an error instead of an offset."""
    return group.FetchedOffset(topic=topic, topic_id=topic_id, partition=partition, metadata="", error=error)


def described_error(name: str, error: ErrorCode) -> group.DescribedGroup:
    """The row of a group that could not be described."""
    return group.DescribedGroup(error=error, group=name, state="", protocol_type="", protocol="", members=())


def described_dead(name: str, version: int, why: str) -> group.DescribedGroup:
    """The row of a group that DescribeGroups does not find. ``why``: the end of the message, as in "not found"."""
    is_error = version >= group.GROUP_NOT_FOUND_SINCE
    return group.DescribedGroup(
        error=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
        error_message=f"Group {name} {why}." if is_error else None,
        group=name,
        state="Dead",
        protocol_type="",
        protocol="",
        members=(),
    )


# --- requests to a group coordinator -------------------------------------------------------------------------------


def _commit(request: group.OffsetCommit, error: ErrorCode, _version: int) -> group.OffsetCommitReply:
    rows = [
        group.OffsetOutcome(topic=row.topic, topic_id=row.topic_id, partition=row.partition, error=error)
        for row in request.offsets
    ]
    return group.OffsetCommitReply(outcomes=tuple(rows))


def _fetch(request: group.OffsetFetch, error: ErrorCode, version: int) -> group.OffsetFetchReply:
    """A reply with one error since v2; before v2, with one error per partition."""
    if version >= _TOP_LEVEL_FETCH_ERROR_SINCE:
        return group.OffsetFetchReply(offsets=(), error=error)
    rows = [no_offset(row.topic, partition, error) for row in request.topics or () for partition in row.partitions]
    return group.OffsetFetchReply(offsets=tuple(rows))


def _range_commit(request: ranges.RangeCommit, error: ErrorCode, _version: int) -> ranges.RangeCommitReply:
    return ranges.outcome_of_all(request, error)


def _describe(request: group.DescribeGroups, error: ErrorCode, _version: int) -> group.DescribeGroupsReply:
    return group.DescribeGroupsReply(groups=tuple([described_error(name, error) for name in request.groups]))


def _delete_groups(request: group.DeleteGroups, error: ErrorCode, _version: int) -> group.DeleteGroupsReply:
    return group.DeleteGroupsReply(outcomes=tuple([group.GroupOutcome(group=g, error=error) for g in request.groups]))


def _describe_consumers(
    request: consumer_group.ConsumerGroupDescribe, error: ErrorCode, _version: int
) -> consumer_group.ConsumerGroupDescribeReply:
    rows = [consumer_group.DescribedConsumerGroup(error=error, group=name) for name in request.groups]
    return consumer_group.ConsumerGroupDescribeReply(groups=tuple(rows))


# --- requests to a controller --------------------------------------------------------------------------------------


def _topics(names: list[str], error: ErrorCode) -> tuple[control.TopicOutcome, ...]:
    return tuple([control.TopicOutcome(name=name, error_code=error) for name in dict.fromkeys(names)])


def _create(request: control.CreateTopics, error: ErrorCode, _version: int) -> control.CreateTopicsReply:
    return control.CreateTopicsReply(topics=_topics([each.name for each in request.topics], error))


def _grow(request: control.CreatePartitions, error: ErrorCode, _version: int) -> control.CreatePartitionsReply:
    return control.CreatePartitionsReply(topics=_topics([each.name for each in request.topics], error))


def _delete_topics(request: control.DeleteTopics, error: ErrorCode, _version: int) -> control.DeleteTopicsReply:
    return control.DeleteTopicsReply(topics=_topics(list(request.topic_names), error))


def _alter(
    request: control.IncrementalAlterConfigs, error: ErrorCode, _version: int
) -> control.IncrementalAlterConfigsReply:
    resources = dict.fromkeys((change.resource_type, change.resource_name) for change in request.changes)
    row = control.ConfigOutcome
    return control.IncrementalAlterConfigsReply(
        responses=tuple([row(resource_type=kind, resource_name=name, error_code=error) for kind, name in resources])
    )


def _elect(request: control.ElectLeaders, error: ErrorCode, _version: int) -> control.ElectLeadersReply:
    outcomes = [
        control.PartitionOutcome(topic_name=topic, partition_index=number, error_code=error)
        for topic, number in request.topic_partitions or ()
    ]
    return control.ElectLeadersReply(error_code=error, replica_election_results=tuple(outcomes))


def _reassign(
    _request: control.AlterPartitionReassignments, error: ErrorCode, _version: int
) -> control.AlterPartitionReassignmentsReply:
    return control.AlterPartitionReassignmentsReply(error_code=error, responses=())


def _list_reassignments(
    _request: control.ListPartitionReassignments, error: ErrorCode, _version: int
) -> control.ListPartitionReassignmentsReply:
    return control.ListPartitionReassignmentsReply(error_code=error, topics=())


REFUSALS: Mapping[type, Refusal] = {
    group.JoinGroup: lambda request, error, version: join_error(version, error, request.member_id),
    group.SyncGroup: lambda _, error, __: group.SyncGroupReply(error=error),
    group.Heartbeat: lambda _, error, __: group.HeartbeatReply(error=error),
    group.LeaveGroup: lambda _, error, __: group.LeaveGroupReply(error=error),
    group.OffsetCommit: _commit,
    group.OffsetFetch: _fetch,
    ranges.RangeCommit: _range_commit,
    ranges.RangeFetch: lambda _, error, __: ranges.RangeFetchReply(error=error),
    group.OffsetDelete: lambda _, error, __: group.OffsetDeleteReply(error=error),
    group.DescribeGroups: _describe,
    group.ListGroups: lambda _, error, __: group.ListGroupsReply(error=error),
    group.DeleteGroups: _delete_groups,
    consumer_group.ConsumerGroupHeartbeat: lambda _, error, __: consumer_group.ConsumerGroupHeartbeatReply(error=error),
    consumer_group.ConsumerGroupDescribe: _describe_consumers,
    control.ControlledShutdown: lambda _, error, __: control.ControlledShutdownReply(
        error_code=error, remaining_partitions=()
    ),
    control.AlterIsr: lambda _, error, __: control.AlterIsrReply(error_code=error),
    control.CreateTopics: _create,
    control.CreatePartitions: _grow,
    control.DeleteTopics: _delete_topics,
    control.IncrementalAlterConfigs: _alter,
    control.ElectLeaders: _elect,
    control.AlterPartitionReassignments: _reassign,
    control.ListPartitionReassignments: _list_reassignments,
}
"""Request -> the function that builds its error reply."""
