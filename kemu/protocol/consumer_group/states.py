"""The states of groups of the consumer protocol and of their members, and the topics of the cluster (KIP-848)."""

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import TypeAlias

from kemu.protocol.frozen import frozen

TopicId: TypeAlias = str
Partition: TypeAlias = tuple[TopicId, int]


class ConsumerGroupState(Enum):
    """The state of a group, as described to admins."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target is older than the group's epoch."""
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ReconcilingState(IntEnum):
    """The state of a member in the coordinator, with the number in its records.

    Source: Kafka 4.1 ``MemberState``.
    """

    STABLE = 0
    """The member has its target."""
    UNREVOKED_PARTITIONS = 1
    """The member must give up partitions."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members hold."""
    UNKNOWN = 127
    """A later release wrote another state."""


@frozen
class Topic:
    """A topic of the cluster: its id, its number of partitions, and the racks of each partition's replicas (4.1+)."""

    name: str
    topic_id: TopicId
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


Topics: TypeAlias = Mapping[str, Topic]
