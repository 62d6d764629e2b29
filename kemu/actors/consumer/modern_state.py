"""The states of a member of the consumer protocol (KIP-848), and its view of its assignment.

Source: Kafka 4.0 ``MemberState``, ``AbstractMembershipManager.LocalAssignment``.
"""

from enum import Enum
from typing import NamedTuple

from kemu.protocol.consumer_group.states import Partition
from kemu.protocol.names import TopicPartition

TURNS = 3
"""The two threads race, and in one of three passes the application's thread is faster. Since 4.2, it then misses a
callback that its own event requests: 9 of 27 such events of 4.2.1. Or it begins its last pass without a wait before an
answer arrives: 8 of 27 first assignments waited until the next poll().
"""


class ModernState(Enum):
    """The state of a member; ``CLOSED`` and ``FAILED`` of ``MemberState`` follow the last one."""

    UNSUBSCRIBED = "UNSUBSCRIBED"
    """The consumer is no member. A poll() with a subscription joins."""
    JOINING = "JOINING"
    """The member sends heartbeats with epoch 0 until an answer has its first assignment."""
    RECONCILING = "RECONCILING"
    """The member has a new target: it commits, revokes and assigns inside poll()."""
    ACKNOWLEDGING = "ACKNOWLEDGING"
    """The member has adopted its target. The next heartbeat, which is due at once, says so."""
    STABLE = "STABLE"
    """The member has adopted and acknowledged its target."""
    FENCED = "FENCED"
    """The coordinator does not know the member's epoch: the member gives up its partitions as lost, and rejoins."""
    PREPARE_LEAVING = "PREPARE_LEAVING"
    """The member gives up its partitions before it leaves. Heartbeats continue."""
    LEAVING = "LEAVING"
    """The heartbeat that leaves the group is due at once."""
    STALE = "STALE"
    """The member left, because the application does not poll. The next poll() gives up its partitions as lost."""
    FATAL = "FATAL"
    """A heartbeat got an error that no retry can resolve; the next poll() raises the error."""


SILENT = (ModernState.UNSUBSCRIBED, ModernState.FATAL, ModernState.STALE, ModernState.FENCED)
"""The states without heartbeats, in which the member is not in the group as far as it knows."""
AT_ONCE = (ModernState.JOINING, ModernState.ACKNOWLEDGING, ModernState.LEAVING)
"""The states whose heartbeat does not wait for the interval or a backoff."""
TAKES_ASSIGNMENTS = (ModernState.STABLE, ModernState.JOINING, ModernState.ACKNOWLEDGING, ModernState.RECONCILING)
LEAVING_STATES = (ModernState.PREPARE_LEAVING, ModernState.LEAVING)


class LocalAssignment(NamedTuple):
    """An assignment from the coordinator, numbered in order of arrival; equal partitions may have two numbers."""

    number: int
    partitions: frozenset[Partition]


class Resolved(NamedTuple):
    """The partitions of a target whose topics' names are known: by id, and by name in order."""

    target: LocalAssignment
    named: tuple[TopicPartition, ...]
