"""The interfaces between the parts of a controller, and the interface of the controller for its parts.

The parts depend on these protocols and on values, never on ``actors.controller.controller`` itself. The docstrings of
the methods are in the implementing classes.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from kemu.actors.controller.batch import ControlBatch
from kemu.actors.controller.channels import ControllerChannels
from kemu.actors.controller.context import ControllerContext, LiveBroker, PartitionReplica
from kemu.actors.controller.dispatch import Dispatch, Job
from kemu.actors.controller.elections import Strategy
from kemu.actors.controller.phases import PartitionPhase, ReplicaPhase
from kemu.actors.controller.rules import ControllerRules
from kemu.actors.controller.transactions import ControllerStore, Work
from kemu.actors.machine import Caller, Draws, Received, Timers
from kemu.protocol.config import ControllerConfig
from kemu.protocol.messages.store import OpResult
from kemu.protocol.names import ActorName, TopicPartition


class PartitionMoves(Protocol):
    """The interface of ``PartitionStates``."""

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
    """The interface of ``ReplicaStates``."""

    def startup(self) -> Work[None]: ...

    def move(self, replicas: Sequence[PartitionReplica], target: ReplicaPhase) -> Work[None]: ...


class Deletions(Protocol):
    """The interface of ``TopicDeletion``."""

    def begin(self, queued: Iterable[str], offline: Iterable[PartitionReplica]) -> Work[None]: ...

    def enqueue(self, topics: Iterable[str]) -> Work[None]: ...

    def resume_for(self, topics: Iterable[str]) -> Work[None]: ...

    def wait_for_reassignment(self, topics: Iterable[str]) -> None: ...

    def failed(self, replicas: Iterable[PartitionReplica]) -> Work[None]: ...

    def done(self, replicas: Iterable[PartitionReplica]) -> Work[None]: ...


class SettingsView(Protocol):
    """The interface of ``DynamicConfigs``."""

    @property
    def of_brokers(self) -> Mapping[str, str]: ...

    @property
    def allows_unclean(self) -> bool: ...

    def write(self, path: str, settings: dict[str, str]) -> Work[None]: ...


class BrokersView(Protocol):
    """The interface of ``BrokerChanges``."""

    def registered(self) -> Work[dict[int, LiveBroker]]: ...

    def replicas_went_offline(self, replicas: list[PartitionReplica]) -> Work[None]: ...


class TopicsView(Protocol):
    """The interface of ``TopicChanges``."""

    def read_topics(self, topics: Iterable[str]) -> Work[dict[str, OpResult]]: ...


class ControllerMachine(Timers, Protocol):
    """The interface of the controller for its parts: methods, settings, state, and the other parts."""

    @property
    def now_us(self) -> int:
        """The time of this step."""
        ...

    @property
    def broker(self) -> ActorName:
        """The name of the broker's actor."""
        ...

    @property
    def broker_id(self) -> int:
        """Kafka's id of the broker."""
        ...

    @property
    def config(self) -> ControllerConfig:
        """The controller's configuration."""
        ...

    @property
    def min_insync_replicas(self) -> int:
        """The default for topics without their own setting, from the broker's start configuration."""
        ...

    @property
    def bad_group_settings(self) -> Callable[[Mapping[str, str]], str] | None:
        """Settings of a group -> the reason why they are invalid, or ""; None: groups have no settings (before 4.0)."""
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
        """The subscriptions of the parts."""
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
        """The part for registered, failed and stopping brokers."""
        ...

    @property
    def topics(self) -> TopicsView:
        """The part for created, growing and deleted topics."""
        ...

    def right_after(self, job: Job, *about: object) -> None: ...

    def has_told(self, topic: str) -> bool: ...

    def note(self, fact: object) -> None:
        """Report a note."""
        ...

    def request(self, to: ActorName, message: object, version: int) -> int:
        """Send a request; returns its id, which is also the reply's id."""
        ...

    def reply(self, caller: Caller | Received, message: object) -> None:
        """Answer a request, in the version of that request."""
        ...
