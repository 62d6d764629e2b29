"""What an assignor is: a pure function from who subscribes to what, to who gets what.

An assignor never remembers anything between calls. What Kafka's classes keep in fields (the sticky assignor's last
assignment, the cooperative one's last generation) is a value, ``Memory``, which the member keeps and hands in.

One that needs more (Streams': tasks, their states, what the leader told its member in bytes) is a ``StatefulAssignor``:
each life of a member has a ``MemberAssignor`` of its own, as each consumer of Kafka has an instance of its assignor.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol, TypeAlias, runtime_checkable

from attrs import Factory, frozen

from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition


class RebalanceProtocol(IntEnum):
    """How members treat what they own while a rebalance runs (KIP-429). The higher common one is used."""

    EAGER = 0
    """Give up everything before joining."""
    COOPERATIVE = 1
    """Keep everything while joining; give up only what the new assignment takes away."""


@frozen
class Topics:
    """The part of the cluster's metadata an assignor sees.

    ``partitions``: topic -> number of partitions; topics without metadata are absent.
    ``replica_racks``: topic -> per partition the racks of its replicas; ``None`` when brokers have no racks.
    """

    partitions: Mapping[str, int]
    replica_racks: Mapping[str, tuple[tuple[str, ...], ...]] | None = None


@frozen
class Subscriber:
    """One member as the leader sees it: its decoded subscription plus its instance id from the JoinGroup answer.

    ``generation`` is the subscription's own field (v2+, KIP-792), -1 when absent; what older members put into
    ``user_data`` is each assignor's to decode.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None
    user_data: bytes | None = None


@frozen
class Memory:
    """What a member remembers of the last assignment it was given (Kafka: ``onAssignment``); not cleared by loss."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


Assignment: TypeAlias = dict[MemberId, list[TopicPartition]]
"""Every member id is a key, also those that get nothing."""


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
        """The rebalance protocols it may be used with."""
        ...

    def user_data(self, memory: Memory | None) -> bytes | None:
        """The bytes a member adds to its subscription; ``memory`` is None before its first assignment."""
        ...

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """Who gets what. Same input, in whatever order its members come, same output.

        A cooperative assignor withholds what must first be given up by another member.
        """
        ...


# --- assignors that remember ---------------------------------------------------------------------------------------


@frozen
class GroupAssignment:
    """Who gets which partitions, and the bytes some members are told next to them (Kafka: ``Assignment.userData``)."""

    partitions: Assignment
    user_data: Mapping[MemberId, bytes] = Factory(dict)


class MemberAssignor(Protocol):
    """An assignor as one member has it, for one life. It may remember; same calls in the same order, same answers.

    Source: Kafka's ``ConsumerPartitionAssignor``.
    """

    @property
    def name(self) -> str:
        """The name members vote for."""
        ...

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """``subscriptionUserData``: the bytes this member adds to its subscription to these topics."""
        ...

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> GroupAssignment | None:
        """Who gets what, when this member leads; other members' bytes are in ``Subscriber.user_data``.

        None: not yet, it waits for an answer. It is asked again when the consumer is told ``AssignNow``.

        Raises:
            InvalidAssignment, NotAnAssignor: it could not; the member fails (``protocol.assign.checked``).
        """
        ...

    def on_assignment(self, partitions: tuple[TopicPartition, ...], user_data: bytes | None, generation: int) -> None:
        """``onAssignment``: what this member was given; again with the same if a callback of the listener raised."""
        ...


@runtime_checkable
class StatefulAssignor(Assignor, Protocol):
    """A row of ``ASSIGNORS`` whose members remember. Its own methods answer for a member without memory (tools ask)."""

    def for_member(self) -> MemberAssignor:
        """A member's own, at the start of its life."""
        ...


class Remembering:
    """A ``MemberAssignor`` of an assignor that is a function: it remembers a ``Memory`` for it."""

    def __init__(self, assignor: Assignor) -> None:
        self.name = assignor.name
        self._assignor = assignor
        self._memory: Memory | None = None

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """By what it was last assigned."""
        return self._assignor.user_data(self._memory)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> GroupAssignment:
        """Partitions alone."""
        return GroupAssignment(self._assignor.assign(topics, members))

    def on_assignment(self, partitions: tuple[TopicPartition, ...], user_data: bytes | None, generation: int) -> None:
        """Remember it; bytes mean nothing to a function."""
        self._memory = Memory(partitions, generation)


def for_member(assignor: Assignor) -> MemberAssignor:
    """A member's own instance of an assignor."""
    return assignor.for_member() if isinstance(assignor, StatefulAssignor) else Remembering(assignor)
