"""The interface of assignors: pure functions from subscriptions to an assignment.

An assignor keeps no state between calls. Some of Kafka's classes have fields: the sticky assignor's last assignment,
the cooperative assignor's last generation. Here these fields are a value, ``Memory``, which the member stores and
passes to the assignor.

A ``StatefulAssignor`` may keep more state (Kafka Streams: tasks, their states, the leader's user data). Each start of a
member has its own ``MemberAssignor``, as each consumer of Kafka has its own assignor instance.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol, TypeAlias, runtime_checkable

from attrs import Factory

from kemu.protocol.frozen import frozen
from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition


class RebalanceProtocol(IntEnum):
    """The treatment of a member's partitions during a rebalance (KIP-429). A group uses its highest common protocol."""

    EAGER = 0
    """Revoke all partitions before joining."""
    COOPERATIVE = 1
    """Keep all partitions while joining; revoke only partitions that are not in the new assignment."""


@frozen
class Topics:
    """The cluster metadata that an assignor sees.

    ``partitions``: topic -> number of partitions; topics without metadata are absent.
    ``replica_racks``: topic -> per partition the racks of its replicas; ``None`` when brokers have no racks.
    """

    partitions: Mapping[str, int]
    replica_racks: Mapping[str, tuple[tuple[str, ...], ...]] | None = None


@frozen
class Subscriber:
    """One member in the leader's view: the decoded subscription, and the instance id from the JoinGroup response.

    ``generation`` is the field of the subscription (v2 and later, KIP-792), -1 when absent. Older members send the
    generation in ``user_data``, which each assignor decodes.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None
    user_data: bytes | None = None


@frozen
class Memory:
    """A member's memory of its last assignment (Kafka: ``onAssignment``). A lost membership does not clear
    the memory.
    """

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


Assignment: TypeAlias = dict[MemberId, list[TopicPartition]]
"""Every member id is a key, even for a member without partitions."""


class Assignor(Protocol):
    """A stateless assignor, as listed in ``ASSIGNORS``."""

    @property
    def name(self) -> str:
        """The name that members vote for; unique in a group."""
        ...

    @property
    def version(self) -> int:
        """The version of the assignor's user data."""
        ...

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """The rebalance protocols that the assignor supports."""
        ...

    def user_data(self, memory: Memory | None) -> bytes | None:
        """The bytes that a member adds to its subscription; ``memory`` is None before its first assignment."""
        ...

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """Compute the assignment. The order of the arguments' entries does not change the result.

        A cooperative assignor withholds partitions that another member must revoke first.
        """
        ...


# --- assignors with state ------------------------------------------------------------------------------------------


@frozen
class GroupAssignment:
    """The partitions of each member, and for some members their user data (Kafka: ``Assignment.userData``)."""

    partitions: Assignment
    user_data: Mapping[MemberId, bytes] = Factory(dict)


class MemberAssignor(Protocol):
    """One member's assignor instance, for one start of the member. The results may depend only on earlier calls of the
    instance.

    Source: Kafka's ``ConsumerPartitionAssignor``.
    """

    @property
    def name(self) -> str:
        """The name that members vote for."""
        ...

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """Source: ``subscriptionUserData``. The bytes that a member with these topics adds to its subscription."""
        ...

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> GroupAssignment | None:
        """Compute the assignment as the group leader; other members' bytes are in ``Subscriber.user_data``.

        None: the assignor waits for an answer first. The consumer calls ``assign`` again after the command
        ``AssignNow``.

        Raises:
            InvalidAssignment, NotAnAssignor: the assignor failed, and the member fails with it
                (``protocol.assign.checked``).
        """
        ...

    def on_assignment(self, partitions: tuple[TopicPartition, ...], user_data: bytes | None, generation: int) -> None:
        """Receive this member's assignment (Kafka's ``onAssignment``).

        The consumer repeats the call with the same assignment if a callback of its rebalance listener raised an error.
        """
        ...


@runtime_checkable
class StatefulAssignor(Assignor, Protocol):
    """An assignor with a state per member. Tools call the methods of the assignor itself, as a member without state."""

    def for_member(self) -> MemberAssignor:
        """A new instance for the start of a member."""
        ...


class Remembering:
    """A ``MemberAssignor`` that stores the ``Memory`` for a stateless assignor."""

    def __init__(self, assignor: Assignor) -> None:
        self.name = assignor.name
        self._assignor = assignor
        self._memory: Memory | None = None

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """The user data that the assignor makes of the stored ``Memory``."""
        return self._assignor.user_data(self._memory)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> GroupAssignment:
        """The assigned partitions, without user data."""
        return GroupAssignment(self._assignor.assign(topics, members))

    def on_assignment(self, partitions: tuple[TopicPartition, ...], user_data: bytes | None, generation: int) -> None:
        """Store the assignment without its user data."""
        self._memory = Memory(partitions, generation)


def for_member(assignor: Assignor) -> MemberAssignor:
    """A new instance of an assignor for one member."""
    made = getattr(assignor, "for_member", None)  # ``isinstance`` with a protocol takes 0.1 ms
    member: MemberAssignor = Remembering(assignor) if made is None else made()
    return member
