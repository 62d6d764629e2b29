"""What an assignor is: a pure function from who subscribes to what, to who gets what.

An assignor never remembers anything between calls. What Kafka's classes keep in fields (the sticky assignor's last
assignment, the cooperative one's last generation) is a value, ``Memory``, which the member keeps and hands in.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol, TypeAlias

from attrs import frozen

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
        """Who gets what. Same input, whatever its order, same output.

        A cooperative assignor withholds what must first be given up by another member.
        """
        ...
