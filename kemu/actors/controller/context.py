"""The active controller's state: brokers, assignments, leadership, and the states of its two state machines.

The state is volatile: a new controller reads the state from the store (``failover``). The states of replicas, shutdowns
and failed directories are not stored; a new controller derives them again or loses them. Only the two state machines,
the failover and the topic deletions write to the context. Iteration is over dicts in a defined order, or over sorted
values.

Source: Kafka 2.8 ``ControllerContext``.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kemu.actors.controller.phases import PartitionPhase, ReplicaPhase
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import PartitionState, ReplicaAssignment

PartitionReplica = tuple[str, int, int]
"""(topic, partition, broker)."""


class LiveBroker(NamedTuple):
    """A registered broker: its epoch (czxid of its registration), address and rack."""

    epoch: int
    host: str
    rack: str | None


class Leadership(NamedTuple):
    """The content of a partition's state node and the node's version, as far as the controller knows."""

    state: PartitionState
    zk_version: int


class ControllerContext:
    """One active controller's state."""

    def __init__(self) -> None:
        self.epoch = 0
        self.epoch_zk_version = 0
        self.live: dict[int, LiveBroker] = {}
        """Registered brokers as last read, including brokers in controlled shutdown; ascending ids."""
        self.shutting_down: dict[int, None] = {}
        self.topics: dict[str, dict[int, ReplicaAssignment]] = {}
        self.topic_ids: dict[str, str] = {}
        """Topic -> the id in the topic's node, which distinguishes topics that had the same name."""
        self.leadership: dict[TopicPartition, Leadership] = {}
        self.partition_phases: dict[TopicPartition, PartitionPhase] = {}
        self.replica_phases: dict[PartitionReplica, ReplicaPhase] = {}
        self.offline_dirs: dict[int, dict[TopicPartition, None]] = {}
        """Broker -> replicas on its failed log directories."""
        self.reassigning: dict[TopicPartition, None] = {}
        self.to_be_deleted: dict[str, None] = {}
        self.ineligible: dict[str, str] = {}
        """Topics queued for deletion that cannot be deleted now -> the obstacle."""
        self.deletion_started: dict[str, None] = {}
        self.offline_partitions = 0
        self.unclean_elections = 0
        self._hosted: dict[int, dict[TopicPartition, None]] = {}
        """Broker -> partitions assigned to it."""

    # --- brokers -----------------------------------------------------------------------------------------------

    @property
    def serving(self) -> list[int]:
        """Live brokers that are not shutting down, ascending."""
        return [broker for broker in self.live if broker not in self.shutting_down]

    def is_serving(self, broker: int) -> bool:
        """Whether the broker is live and not shutting down."""
        return broker in self.live and broker not in self.shutting_down

    def is_replica_online(self, broker: int, at: TopicPartition, *, or_shutting_down: bool = False) -> bool:
        """Whether a replica's broker is up and its log directory has not failed."""
        alive = broker in self.live if or_shutting_down else self.is_serving(broker)
        return alive and at not in self.offline_dirs.get(broker, {})

    def add_brokers(self, brokers: dict[int, LiveBroker]) -> None:
        """Add brokers that have registered."""
        self.live = dict(sorted({**self.live, **brokers}.items()))

    def remove_brokers(self, brokers: Iterable[int]) -> None:
        """Remove brokers that have failed."""
        for broker in brokers:
            self.live.pop(broker, None)

    # --- partitions --------------------------------------------------------------------------------------------

    def assignment(self, at: TopicPartition) -> ReplicaAssignment | None:
        """A partition's assignment; None for an unknown partition."""
        return self.topics.get(at[0], {}).get(at[1])

    def replicas(self, at: TopicPartition) -> tuple[int, ...]:
        """The partition's assigned replicas; () for an unknown partition."""
        found = self.assignment(at)
        return found.replicas if found is not None else ()

    def assign(self, at: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Store an assignment."""
        for broker in self.replicas(at):
            self._hosted[broker].pop(at, None)
        self.topics.setdefault(at[0], {})[at[1]] = assignment
        for broker in assignment.replicas:
            self._hosted.setdefault(broker, {})[at] = None

    def partitions(self) -> list[TopicPartition]:
        """All partitions, by topic in the order of their discovery."""
        return [(topic, number) for topic, numbers in self.topics.items() for number in numbers]

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions."""
        return [(topic, number) for number in self.topics.get(topic, {})]

    def replicas_of_topic(self, topic: str) -> list[PartitionReplica]:
        """All replicas of a topic."""
        assignments = self.topics.get(topic, {})
        return [(topic, number, broker) for number, each in assignments.items() for broker in each.replicas]

    def replicas_on(self, brokers: Iterable[int]) -> list[PartitionReplica]:
        """All replicas assigned to these brokers."""
        return [(*at, broker) for broker in brokers for at in self._hosted.get(broker, {})]

    def leads(self, broker: int) -> list[TopicPartition]:
        """The partitions this broker leads, as far as the controller knows."""
        hosted = self._hosted.get(broker, {})
        return [at for at in hosted if at in self.leadership and self.leadership[at].state.leader == broker]

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """Partitions whose leader cannot serve, without those being deleted."""
        return [
            at
            for at, known in self.leadership.items()
            if not self.is_replica_online(known.state.leader, at) and not self.is_being_deleted(at[0])
        ]

    def online_and_offline_replicas(self) -> tuple[list[PartitionReplica], list[PartitionReplica]]:
        """All replicas in two lists: the online replicas and the offline replicas."""
        online: list[PartitionReplica] = []
        offline: list[PartitionReplica] = []
        for at in self.partitions():
            for broker in self.replicas(at):
                (online if self.is_replica_online(broker, at) else offline).append((*at, broker))
        return online, offline

    def drop_topic(self, topic: str) -> None:
        """Remove a topic and all its state."""
        for at in self.partitions_of(topic):
            for broker in self.replicas(at):
                self._hosted[broker].pop(at, None)
                self.replica_phases.pop((*at, broker), None)
            self.leadership.pop(at, None)
            self.reassigning.pop(at, None)
            self.partition_phases.pop(at, None)
        self.topics.pop(topic, None)
        self.topic_ids.pop(topic, None)
        for table in (self.to_be_deleted, self.deletion_started):
            table.pop(topic, None)
        self.ineligible.pop(topic, None)

    # --- phases ------------------------------------------------------------------------------------------------

    def phase(self, at: TopicPartition) -> PartitionPhase:
        """A partition's state."""
        return self.partition_phases.get(at, PartitionPhase.NON_EXISTENT)

    def set_phase(self, at: TopicPartition, phase: PartitionPhase) -> None:
        """Set a partition's state, and update the number of offline partitions, without topics being deleted."""
        before = self.phase(at)
        if phase is PartitionPhase.NON_EXISTENT:
            self.partition_phases.pop(at, None)
        else:
            self.partition_phases[at] = phase
        if not self.is_queued_for_deletion(at[0]):
            self.offline_partitions += _is_down(phase) - _is_down(before)

    def queue_for_deletion(self, topic: str) -> None:
        """Mark the topic for deletion, and subtract its partitions from the number of offline partitions."""
        if topic not in self.to_be_deleted:
            self.offline_partitions -= sum(_is_down(self.phase(at)) for at in self.partitions_of(topic))
            self.to_be_deleted[topic] = None

    def replica_phase(self, replica: PartitionReplica) -> ReplicaPhase:
        """A replica's state."""
        return self.replica_phases.get(replica, ReplicaPhase.NON_EXISTENT)

    def set_replica_phase(self, replica: PartitionReplica, phase: ReplicaPhase) -> None:
        """Set a replica's state."""
        if phase is ReplicaPhase.NON_EXISTENT:
            self.replica_phases.pop(replica, None)
        else:
            self.replica_phases[replica] = phase

    def replicas_in(self, topic: str, *phases: ReplicaPhase) -> list[PartitionReplica]:
        """A topic's replicas in one of these states."""
        return [each for each in self.replicas_of_topic(topic) if self.replica_phase(each) in phases]

    # --- deletion ----------------------------------------------------------------------------------------------

    def is_queued_for_deletion(self, topic: str) -> bool:
        """Whether the topic is to be deleted."""
        return topic in self.to_be_deleted

    def is_being_deleted(self, topic: str) -> bool:
        """Whether the topic's deletion has begun, so that the controller does nothing else for the topic.

        A queued deletion waits for a running reassignment. The reassignment needs leaders for the topic's partitions.
        """
        return topic in self.to_be_deleted and not any(moving == topic for moving, _ in self.reassigning)

    def reassigning_partitions(self) -> Iterator[TopicPartition]:
        """Partitions being reassigned, oldest first."""
        return iter(list(self.reassigning))


def _is_down(phase: PartitionPhase) -> int:
    return 1 if phase is PartitionPhase.OFFLINE else 0
