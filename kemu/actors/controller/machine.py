"""What the parts of a controller speak through: the machine as they see it, and what they see of each other.

The parts know these protocols and the values they were handed, never ``actors.controller.controller`` itself.
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
    """The partition state machine, as other parts see it."""

    def startup(self) -> Work[None]:
        """Give every partition its state after a failover."""
        ...

    def trigger_online(self, topics: Collection[str] | None = None) -> Work[None]:
        """Try to elect leaders for all partitions that have none (of these topics)."""
        ...

    def move(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionPhase,
        strategy: Strategy | None = None,
        *,
        allow_unclean: bool = False,
    ) -> Work[dict[TopicPartition, str]]:
        """Move partitions; what failed, with the reason."""
        ...

    def topic_settings(self, topics: Iterable[str]) -> Work[dict[str, dict[str, str]]]:
        """The topics' own settings, as the store has them now."""
        ...


class ReplicaMoves(Protocol):
    """The replica state machine, as other parts see it."""

    def startup(self) -> Work[None]:
        """Give every replica its state after a failover."""
        ...

    def move(self, replicas: Sequence[PartitionReplica], target: ReplicaPhase) -> Work[None]:
        """Move replicas, broker by broker."""
        ...


class Deletions(Protocol):
    """The deletion of topics, as other parts see it."""

    def begin(self, queued: Iterable[str], offline: Iterable[PartitionReplica]) -> Work[None]:
        """After a failover: these topics are queued; some have a replica that is offline, some are being reassigned."""
        ...

    def enqueue(self, topics: Iterable[str]) -> Work[None]:
        """These are to be deleted."""
        ...

    def resume_for(self, topics: Iterable[str]) -> Work[None]:
        """What stood against the deletion of these is over."""
        ...

    def wait_for_reassignment(self, topics: Iterable[str]) -> None:
        """Partitions of these are on their way: do not delete them now."""
        ...

    def failed(self, replicas: Iterable[PartitionReplica]) -> Work[None]:
        """The deletion of these replicas failed, or their brokers went down."""
        ...

    def done(self, replicas: Iterable[PartitionReplica]) -> Work[None]:
        """Brokers have deleted these replicas."""
        ...


class SettingsView(Protocol):
    """What admins have set, as other parts see it."""

    @property
    def of_brokers(self) -> Mapping[str, str]:
        """The settings of all brokers, by Kafka's keys: those that have a value in the store."""
        ...

    @property
    def allows_unclean(self) -> bool:
        """Whether topics that do not say so themselves may have leaders that were not in sync."""
        ...

    def write(self, path: str, settings: dict[str, str]) -> Work[None]:
        """Have these settings there, and all brokers notified."""
        ...


class BrokersView(Protocol):
    """The brokers that come and go, as other parts see them."""

    def registered(self) -> Work[dict[int, LiveBroker]]:
        """The brokers that are registered now, ascending; sets the watch on them."""
        ...

    def replicas_went_offline(self, replicas: list[PartitionReplica]) -> Work[None]:
        """Elect new leaders where they led, then take them out of the ISRs."""
        ...


class TopicsView(Protocol):
    """The topics that come and grow, as other parts see them."""

    def read_topics(self, topics: Iterable[str]) -> Work[dict[str, OpResult]]:
        """The nodes of these topics, with a watch on each; those that are gone are left out."""
        ...


class ControllerMachine(Timers, Protocol):
    """The machine, as its parts see it: its verbs, its settings, its books, and the other parts."""

    @property
    def now_us(self) -> int:
        """The time of this step."""
        ...

    @property
    def broker(self) -> ActorName:
        """The broker it is a part of."""
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
        """Of topics that do not say so themselves, as the broker was started with."""
        ...

    @property
    def rules(self) -> ControllerRules:
        """The decisions that past bugs change."""
        ...

    @property
    def draws(self) -> Draws:
        """What differs from broker to broker and from time to time."""
        ...

    @property
    def is_active(self) -> bool:
        """Whether we control, as far as we know."""
        ...

    @property
    def asked_in_version(self) -> int:
        """The version of the request that the running task answers; -1 if it answers none."""
        ...

    @property
    def context(self) -> ControllerContext:
        """What the controller knows of the cluster: another one after every resignation."""
        ...

    @property
    def store(self) -> ControllerStore:
        """Writes behind the fence; another one after every resignation."""
        ...

    @property
    def batch(self) -> ControlBatch:
        """The requests of the move under way; another one after every resignation."""
        ...

    @property
    def channels(self) -> ControllerChannels:
        """To the brokers."""
        ...

    @property
    def dispatch(self) -> Dispatch:
        """Who takes what."""
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
        """What admins have set."""
        ...

    @property
    def brokers(self) -> BrokersView:
        """The brokers that come and go."""
        ...

    @property
    def topics(self) -> TopicsView:
        """The topics that come and grow."""
        ...

    def right_after(self, job: Job, *about: object) -> None:
        """Do this next, when the running task has ended and its caller has the answer."""
        ...

    def note(self, fact: object) -> None:
        """Report a fact."""
        ...

    def request(self, to: ActorName, message: object, version: int) -> int:
        """Send a request; its id, which the reply will carry."""
        ...

    def reply(self, caller: Caller | Received, message: object) -> None:
        """Answer a request, in the version it came in."""
        ...
