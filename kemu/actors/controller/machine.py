"""The interfaces between the parts of a controller, and the machine as its parts see it.

The parts depend on these protocols and on values, never on ``actors.controller.controller`` itself. The implementing
classes have the docstrings of methods.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from kemu.actors.controller.batch import ControlBatch
from kemu.actors.controller.channels import ControllerChannels
from kemu.actors.controller.context import (
    ControllerContext,
    LiveBroker,
    PartitionPhase,
    PartitionReplica,
    ReplicaPhase,
)
from kemu.actors.controller.dispatch import Dispatch, Job
from kemu.actors.controller.elections import Strategy
from kemu.actors.controller.rules import ControllerRules
from kemu.actors.controller.transactions import ControllerStore, Work
from kemu.actors.machine import Caller, Draws, Received, Timers
from kemu.protocol.config import ControllerConfig
from kemu.protocol.messages.store import OpResult
from kemu.protocol.names import ActorName, TopicPartition


class PartitionMoves(Protocol):
    """``PartitionStates``."""

    def startup(self) -> Work[None]: ...

    def trigger_online(self, topics: Collection[str] | None = None) -> Work[None]: ...

    def move(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionPhase,
        strategy: Strategy | None = None,
        *,
        allow_unclean: bool = False,
    ) -> Work[dict[TopicPartition, str]]: ...

    def topic_settings(self, topics: Iterable[str]) -> Work[dict[str, dict[str, str]]]: ...


class ReplicaMoves(Protocol):
    """``ReplicaStates``."""

    def startup(self) -> Work[None]: ...

    def move(self, replicas: Sequence[PartitionReplica], target: ReplicaPhase) -> Work[None]: ...


class Deletions(Protocol):
    """``TopicDeletion``."""

    def begin(self, queued: Iterable[str], offline: Iterable[PartitionReplica]) -> Work[None]: ...

    def enqueue(self, topics: Iterable[str]) -> Work[None]: ...

    def resume_for(self, topics: Iterable[str]) -> Work[None]: ...

    def wait_for_reassignment(self, topics: Iterable[str]) -> None: ...

    def failed(self, replicas: Iterable[PartitionReplica]) -> Work[None]: ...

    def done(self, replicas: Iterable[PartitionReplica]) -> Work[None]: ...


class SettingsView(Protocol):
    """``DynamicConfigs``."""

    @property
    def of_brokers(self) -> Mapping[str, str]: ...

    @property
    def allows_unclean(self) -> bool: ...

    def write(self, path: str, settings: dict[str, str]) -> Work[None]: ...


class BrokersView(Protocol):
    """``BrokerChanges``."""

    def registered(self) -> Work[dict[int, LiveBroker]]: ...

    def replicas_went_offline(self, replicas: list[PartitionReplica]) -> Work[None]: ...


class TopicsView(Protocol):
    """``TopicChanges``."""

    def read_topics(self, topics: Iterable[str]) -> Work[dict[str, OpResult]]: ...


class ControllerMachine(Timers, Protocol):
    """The machine as its parts see it: its methods, its settings, its state, and the other parts."""

    @property
    def now_us(self) -> int:
        """The time of this step."""
        ...

    @property
    def broker(self) -> ActorName:
        """The actor of its broker."""
        ...

    @property
    def broker_id(self) -> int:
        """Kafka's id of that broker."""
        ...

    @property
    def config(self) -> ControllerConfig:
        """The configuration."""
        ...

    @property
    def min_insync_replicas(self) -> int:
        """Default for topics without their own setting, from the broker's start configuration."""
        ...

    @property
    def rules(self) -> ControllerRules:
        """The decisions that past bugs change."""
        ...

    @property
    def draws(self) -> Draws:
        """Random variation of durations."""
        ...

    @property
    def is_active(self) -> bool: ...

    @property
    def request_version(self) -> int: ...

    @property
    def context(self) -> ControllerContext:
        """The controller's state; a new object after every resignation."""
        ...

    @property
    def store(self) -> ControllerStore:
        """Fenced writes to the store; a new object after every resignation."""
        ...

    @property
    def batch(self) -> ControlBatch:
        """The requests of the current state change; a new object after every resignation."""
        ...

    @property
    def channels(self) -> ControllerChannels:
        """The channels to the brokers."""
        ...

    @property
    def dispatch(self) -> Dispatch:
        """The subscriptions."""
        ...

    @property
    def partitions(self) -> PartitionMoves:
        """The partition state machine."""
        ...

    @property
    def replicas(self) -> ReplicaMoves:
        """The replica state machine."""
        ...

    @property
    def deletion(self) -> Deletions:
        """The deletion of topics."""
        ...

    @property
    def configs(self) -> SettingsView:
        """The dynamic settings."""
        ...

    @property
    def brokers(self) -> BrokersView:
        """The part for brokers."""
        ...

    @property
    def topics(self) -> TopicsView:
        """The part for topics."""
        ...

    def right_after(self, job: Job, *about: object) -> None: ...

    def note(self, fact: object) -> None:
        """Report a note."""
        ...

    def request(self, to: ActorName, message: object, version: int) -> int:
        """Send a request; returns its id, which the reply will carry."""
        ...

    def reply(self, caller: Caller | Received, message: object) -> None:
        """Answer a request, in the version of the request."""
        ...
