"""Messages between members of the consumer protocol (KIP-848) and the group coordinator.

Field names follow Kafka's schemas (4.1) with ``group`` for GroupId, ``topics`` for SubscribedTopicNames, ``regex`` for
SubscribedTopicRegex and ``owned`` for TopicPartitions.
"""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.schema import REPLY, REQUEST, message, since, struct

HEARTBEAT_VERSION = 1
"""The version of ``ConsumerGroupHeartbeat`` that emulated members speak."""
JOINS = 0
"""The member epoch of a heartbeat that joins the group."""
LEAVES = -1
"""The member epoch of a heartbeat that leaves the group."""
LEAVES_FOR_A_WHILE = -2
"""The member epoch of a static member that leaves and keeps its partitions."""


@struct
class TopicNumbers:
    """Partitions of a topic, by topic id."""

    topic_id: str
    partitions: tuple[int, ...]


@message(api_key=68, kind=REQUEST, versions=range(0, 2))
class ConsumerGroupHeartbeat:
    """Member -> coordinator: join, stay in, or leave the group. A field that is None or -1 did not change."""

    group: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = since(1, default=None)
    assignor: str | None = None
    owned: tuple[TopicNumbers, ...] | None = None


@message(api_key=68, kind=REPLY, versions=range(0, 2))
class ConsumerGroupHeartbeatReply:
    """The member's epoch and, if it may have changed, what the member may own; None: as before."""

    error: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicNumbers, ...] | None = None


@message(api_key=69, kind=REQUEST, versions=range(0, 2))
class ConsumerGroupDescribe:
    """Tool -> coordinator: describe these groups of the consumer protocol."""

    groups: tuple[str, ...]
    include_authorized_operations: bool = False


@struct
class NamedTopicNumbers:
    """Partitions of a topic, by topic id and name."""

    topic_id: str
    topic: str
    partitions: tuple[int, ...]


@struct
class DescribedConsumer:
    """A member: ``assigned`` is what the member may own now, ``target`` what it is to own. ``member_type``: 1."""

    member_id: str
    instance_id: str | None = None
    rack: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    assigned: tuple[NamedTopicNumbers, ...] = ()
    target: tuple[NamedTopicNumbers, ...] = ()
    member_type: int = since(1, default=-1, ignorable=True)


@struct
class DescribedConsumerGroup:
    """A group of the consumer protocol; a missing group, or a group of another protocol, is GROUP_ID_NOT_FOUND."""

    error: ErrorCode
    error_message: str | None = None
    group: str
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


@message(api_key=69, kind=REPLY, versions=range(0, 2))
class ConsumerGroupDescribeReply:
    """The reply to ConsumerGroupDescribe: one row per requested group."""

    groups: tuple[DescribedConsumerGroup, ...]
