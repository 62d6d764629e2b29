"""The interface of assignors: pure functions from subscriptions to an assignment.

An assignor keeps no state between calls. The fields of Kafka's classes (the sticky assignor's last assignment, the
cooperative one's last generation) are a value, ``Memory``, which the member stores and passes in.

A ``StatefulAssignor`` may keep more (Streams': tasks, their states, the leader's user data). Each start of a member has
its own ``MemberAssignor``, as each consumer of Kafka has its own assignor instance.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol, TypeAlias, runtime_checkable

from attrs import Factory

from kemu.protocol.frozen import frozen
from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition


class RebalanceProtocol(IntEnum):
    """How members treat their partitions during a rebalance (KIP-429). The higher common protocol is used."""

    EAGER = 0
    """Revoke all partitions before joining."""
    COOPERATIVE = 1
    """Keep all partitions while joining; revoke only those that the new assignment lacks."""


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
    """One member as the leader sees it: its decoded subscription plus its instance id from the JoinGroup answer.

    ``generation`` is the subscription's own field (v2+, KIP-792), -1 when absent. Each assignor decodes the
    ``user_data`` in which older members send it.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None
    user_data: bytes | None = None


@frozen
class Memory:
    """A member's memory of its last assignment (Kafka: ``onAssignment``). A lost membership does not clear it."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


Assignment: TypeAlias = dict[MemberId, list[TopicPartition]]
"""Every member id is a key, even with no partitions."""


class Assignor(Protocol):
    """One row of ``ASSIGNORS``."""

    @property
    def name(self) -> str:
        """The name members vote for; unique in a group."""
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
        """Compute the assignment. The result does not depend on the order of the input.

        A cooperative assignor withholds partitions that another member must revoke first.
        """
        ...


# --- assignors with state ------------------------------------------------------------------------------------------


@frozen
class GroupAssignment:
    """The partitions of each member, and the user data for some of them (Kafka: ``Assignment.userData``)."""

    partitions: Assignment
    user_data: Mapping[MemberId, bytes] = Factory(dict)


class MemberAssignor(Protocol):
    """One member's assignor instance, for one start of the member. The instance's answers may depend on earlier calls
    only.

    Source: Kafka's ``ConsumerPartitionAssignor``.
    """

    @property
    def name(self) -> str:
        """The name members vote for."""
        ...

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """``subscriptionUserData``: the bytes that this member adds to its subscription to these topics."""
        ...

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> GroupAssignment | None:
        """Compute the assignment as leader; other members' bytes are in ``Subscriber.user_data``.

        None: it waits for an answer first. The consumer calls it again after the command ``AssignNow``.

        Raises:
            InvalidAssignment, NotAnAssignor: the assignor failed, and the member fails with it
                (``protocol.assign.checked``).
        """
        ...

    def on_assignment(self, partitions: tuple[TopicPartition, ...], user_data: bytes | None, generation: int) -> None:
        """``onAssignment``: this member's assignment. Called again with the same one if a callback of the listener
        raised.
        """
        ...


@runtime_checkable
class StatefulAssignor(Assignor, Protocol):
    """A row of ``ASSIGNORS`` whose members have state. The row's own methods serve tools: they act as a member without
    state.
    """

    def for_member(self) -> MemberAssignor:
        """A new instance for the start of a member."""
        ...


class Remembering:
    """A ``MemberAssignor`` for a stateless assignor: it keeps the ``Memory``."""

    def __init__(self, assignor: Assignor) -> None:
        self.name = assignor.name
        self._assignor = assignor
        self._memory: Memory | None = None

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """The user data for the last assignment."""
        return self._assignor.user_data(self._memory)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> GroupAssignment:
        """The partitions, without user data."""
        return GroupAssignment(self._assignor.assign(topics, members))

    def on_assignment(self, partitions: tuple[TopicPartition, ...], user_data: bytes | None, generation: int) -> None:
        """Store the assignment; user data is ignored."""
        self._memory = Memory(partitions, generation)


def for_member(assignor: Assignor) -> MemberAssignor:
    """A new instance of an assignor for one member."""
    return assignor.for_member() if isinstance(assignor, StatefulAssignor) else Remembering(assignor)
