"""Messages between members and the group coordinator, and requests of tools about groups.

Field names follow Kafka's schemas (3.9) with ``group`` for GroupId, ``generation`` for GenerationId and ``instance_id``
for GroupInstanceId. Subscriptions and assignments are opaque bytes here, as they are for the broker. Throttle times are
omitted, as kemu does not emulate client quotas.
"""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER
from kemu.protocol.wire.schema import REPLY, REQUEST, message, since, struct

OFFSET_TOPIC_IDS_SINCE = 10
"""The first version of OffsetCommit and OffsetFetch with topic ids instead of names (since 4.1, KIP-848)."""
GROUP_NOT_FOUND_SINCE = 6
"""The first version of DescribeGroups with an error for a missing group (KIP-1043)."""


@message(api_key=10, kind=REQUEST, versions=range(0, 4))
class FindCoordinator:
    """Client -> any broker: find the coordinator of this group (key type 0) or transaction (key type 1)."""

    key: str
    key_type: int = since(1, default=0)


@message(api_key=10, kind=REPLY, versions=range(0, 4))
class FindCoordinatorReply:
    """The coordinator's node id and address (an actor name); -1 and "" with an error."""

    error: ErrorCode
    error_message: str | None = since(1, default=None, ignorable=True)
    node_id: int
    host: str


@struct
class JoinProtocol:
    """One assignor that a member supports, and the bytes of the member's subscription for this assignor."""

    name: str
    metadata: bytes


@struct
class JoinedMember:
    """A row of the member list that only the leader gets; the metadata is for the selected protocol."""

    member_id: str
    instance_id: str | None = since(5, default=None, ignorable=True)
    metadata: bytes


@message(api_key=11, kind=REQUEST, versions=range(0, 10))
class JoinGroup:
    """Member -> coordinator: enter the group, or rejoin for the next generation.

    Version 1 adds the rebalance timeout. Since version 4 a new dynamic member first receives its id (error 79,
    KIP-394). Version 5 adds static members (KIP-345), v7 the protocol type in the answer, v8 the reason (KIP-800), v9
    skip assignment (KIP-814).
    """

    group: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = since(1, default=-1, ignorable=True)
    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = since(5, default=None)
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    """The member's protocols, the preferred protocol first."""
    reason: str | None = since(8, default=None, ignorable=True)


@message(api_key=11, kind=REPLY, versions=range(0, 10))
class JoinGroupReply:
    """Coordinator -> member: the reply at the end of the join phase, or at once with an error."""

    error: ErrorCode
    generation: int = NO_GENERATION
    protocol_type: str | None = since(7, default=None, ignorable=True)
    protocol_name: str | None = None
    leader: str = UNKNOWN_MEMBER
    skip_assignment: bool = since(9, default=False)
    member_id: str = UNKNOWN_MEMBER
    members: tuple[JoinedMember, ...] = ()


@struct
class MemberAssignment:
    """The leader's assignment of one member, as ConsumerProtocolAssignment bytes."""

    member_id: str
    assignment: bytes


@message(api_key=14, kind=REQUEST, versions=range(0, 6))
class SyncGroup:
    """Member -> coordinator: request the member's assignment; the leader sends the assignments of all members."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None = since(3, default=None)
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignments: tuple[MemberAssignment, ...] = ()


@message(api_key=14, kind=REPLY, versions=range(0, 6))
class SyncGroupReply:
    """Coordinator -> member: the member's assignment (empty bytes with an error, or if the leader omitted
    the member).
    """

    error: ErrorCode
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignment: bytes = b""


@message(api_key=12, kind=REQUEST, versions=range(0, 5))
class Heartbeat:
    """Member -> coordinator: confirm the membership in this generation."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None = since(3, default=None)


@message(api_key=12, kind=REPLY, versions=range(0, 5))
class HeartbeatReply:
    """The reply to Heartbeat. Error 27 (REBALANCE_IN_PROGRESS) makes the member rejoin."""

    error: ErrorCode


@struct
class LeavingMember:
    """A member to remove: by its id, or a static member by its instance id with an empty member id."""

    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    reason: str | None = since(5, default=None, ignorable=True)


@message(api_key=13, kind=REQUEST, versions=range(0, 6))
class LeaveGroup:
    """Member or tool -> coordinator: remove members. v0 to v2 name one member, v3 and later a batch."""

    group: str
    member_id: str = since(0, until=2, default=UNKNOWN_MEMBER)
    members: tuple[LeavingMember, ...] = since(3, default=())


@struct
class LeftMember:
    """The outcome for one member of a LeaveGroup."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


@message(api_key=13, kind=REPLY, versions=range(0, 6))
class LeaveGroupReply:
    """The reply to LeaveGroup. Up to v2 the member's error is the top-level error; since v3 each member has
    an error.
    """

    error: ErrorCode
    members: tuple[LeftMember, ...] = since(3, default=(), ignorable=True)


@struct
class OffsetToCommit:
    """The next offset to consume of one partition, with its metadata and leader epoch. Since v10 ``topic_id``
    replaces ``topic``.
    """

    topic: str = since(0, until=OFFSET_TOPIC_IDS_SINCE - 1, default="", ignorable=True)
    topic_id: str = since(OFFSET_TOPIC_IDS_SINCE, default="", ignorable=True)
    partition: int
    offset: int
    leader_epoch: int = since(6, default=-1, ignorable=True)
    metadata: str | None = None


@struct
class OffsetOutcome:
    """An error (or none) for one partition."""

    topic: str = since(0, until=OFFSET_TOPIC_IDS_SINCE - 1, default="", ignorable=True)
    topic_id: str = since(OFFSET_TOPIC_IDS_SINCE, default="", ignorable=True)
    partition: int
    error: ErrorCode


@message(api_key=8, kind=REQUEST, versions=range(1, 11))
class OffsetCommit:
    """Member -> coordinator: store these offsets. Generation -1 and no member id: outside group management."""

    group: str
    generation: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = since(7, default=None)
    retention_time_ms: int = since(2, until=4, default=-1, ignorable=True)
    offsets: tuple[OffsetToCommit, ...]


@message(api_key=8, kind=REPLY, versions=range(1, 11))
class OffsetCommitReply:
    """The reply to OffsetCommit: one outcome per partition, in the order of the request."""

    outcomes: tuple[OffsetOutcome, ...]


@struct
class TopicPartitions:
    """A topic and some of its partitions."""

    topic: str = since(0, until=OFFSET_TOPIC_IDS_SINCE - 1, default="", ignorable=True)
    topic_id: str = since(OFFSET_TOPIC_IDS_SINCE, default="", ignorable=True)
    partitions: tuple[int, ...]


@struct
class FetchedOffset:
    """The committed offset of one partition; -1 without a committed offset."""

    topic: str = since(0, until=OFFSET_TOPIC_IDS_SINCE - 1, default="", ignorable=True)
    topic_id: str = since(OFFSET_TOPIC_IDS_SINCE, default="", ignorable=True)
    partition: int
    offset: int = -1
    leader_epoch: int = since(5, default=-1, ignorable=True)
    metadata: str | None = None
    error: ErrorCode


@message(api_key=9, kind=REQUEST, versions=range(1, 11))
class OffsetFetch:
    """Member -> coordinator: read the group's committed offsets. ``topics`` None (v2+) requests all offsets.

    Since v8 Kafka's request is about several groups. Here it is about one group. Members of the consumer protocol send
    their id and epoch (v9).
    """

    group: str
    member_id: str | None = since(9, default=None)
    member_epoch: int = since(9, default=NO_GENERATION)
    topics: tuple[TopicPartitions, ...] | None
    require_stable: bool = since(7, default=False)


@message(api_key=9, kind=REPLY, versions=range(1, 11))
class OffsetFetchReply:
    """The reply to OffsetFetch: one row per partition. An error of the whole request is at the top since v2, and in
    every row before v2.
    """

    offsets: tuple[FetchedOffset, ...]
    error: ErrorCode = since(2, default=ErrorCode.NONE, ignorable=True)


@message(api_key=47, kind=REQUEST, versions=range(0, 1))
class OffsetDelete:
    """Tool -> coordinator: delete these offsets (KIP-496)."""

    group: str
    topics: tuple[TopicPartitions, ...]


@message(api_key=47, kind=REPLY, versions=range(0, 1))
class OffsetDeleteReply:
    """The reply to OffsetDelete: a top-level error, or one outcome per partition."""

    error: ErrorCode
    outcomes: tuple[OffsetOutcome, ...] = ()


@message(api_key=15, kind=REQUEST, versions=range(0, 7))
class DescribeGroups:
    """Tool -> coordinator: describe the state and the members of these groups."""

    groups: tuple[str, ...]
    include_authorized_operations: bool = since(3, default=False, ignorable=True)


@struct
class DescribedMember:
    """A member as its coordinator knows it; metadata and assignment are present only while the group is Stable."""

    member_id: str
    instance_id: str | None = since(4, default=None, ignorable=True)
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@struct
class DescribedGroup:
    """The description of a group; a missing group has the state "Dead", and an error since v6."""

    error: ErrorCode
    error_message: str | None = since(GROUP_NOT_FOUND_SINCE, default=None, ignorable=True)
    group: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


@message(api_key=15, kind=REPLY, versions=range(0, 7))
class DescribeGroupsReply:
    """The reply to DescribeGroups: one row per requested group."""

    groups: tuple[DescribedGroup, ...]


@message(api_key=16, kind=REQUEST, versions=range(0, 5))
class ListGroups:
    """Tool -> every broker: list the groups that the broker coordinates. An empty filter lists all groups.

    ``types_filter``: KIP-848.
    """

    states_filter: tuple[str, ...] = since(4, default=())
    types_filter: tuple[str, ...] = since(5, default=())


@struct
class ListedGroup:
    """A group's id, protocol type, state (v4+) and type (v5+): "classic" or "consumer"."""

    group: str
    protocol_type: str
    state: str = since(4, default="", ignorable=True)
    group_type: str = since(5, default="", ignorable=True)


@message(api_key=16, kind=REPLY, versions=range(0, 5))
class ListGroupsReply:
    """The reply to ListGroups: the groups of the answering coordinator."""

    error: ErrorCode
    groups: tuple[ListedGroup, ...] = ()


@message(api_key=42, kind=REQUEST, versions=range(0, 3))
class DeleteGroups:
    """Tool -> coordinator: delete these empty groups and their offsets."""

    groups: tuple[str, ...]


@struct
class GroupOutcome:
    """An error (or none) for one group."""

    group: str
    error: ErrorCode


@message(api_key=42, kind=REPLY, versions=range(0, 3))
class DeleteGroupsReply:
    """The reply to DeleteGroups: one outcome per group."""

    outcomes: tuple[GroupOutcome, ...]
