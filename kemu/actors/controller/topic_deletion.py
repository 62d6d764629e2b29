"""Topic deletion: stop and delete the replicas on every broker, then remove the topic's nodes.

A queued topic waits until it is eligible: no deletion of its replicas is in progress, and no obstacle exists (an
offline replica, a running reassignment). When the deletion begins, the topic's partitions become Offline, then
NonExistent, and brokers get metadata with leader -2. If a replica is offline, the replica and its topic become
ineligible. Live replicas become Offline, then DeletionStarted. The brokers' answers make each replica Successful or
Ineligible. When all replicas are Successful, the topic's nodes and state are removed. A returning broker makes its
topics eligible again, as does the end of a reassignment.

A new controller finds the deletion requests only by their nodes. The new controller starts over, and brokers confirm
the deletion of already deleted replicas at once. While the topic's node exists, no other topic can have the same name
(TOPIC_ALREADY_EXISTS). An admin may get an answer earlier: metadata always marks a queued topic as deleted.
DeleteTopics is answered when the metadata of the controller's broker has no partition of the topic.

Kafka 1.0 to 3.4 intend that the deletion of a topic waits for its reassignment
(``KafkaController.processTopicDeletion``). But these releases mark the topic before it is queued, and
``markTopicIneligibleForDeletion`` ignores topics that are not queued. So the deletion begins at once, concurrently with
the reassignment. The deletion waits only if the reassignment takes another step before all answers have arrived.

This module implements the intention: the deletion waits for the end of the reassignment, and cancels nothing. The
partitions of a waiting topic have leaders like any other partition. Kafka elects no leaders for topics that are queued
for deletion (``PartitionStateMachine.triggerOnlineStateChangeForPartitions``). Without leaders, the deletion and the
reassignment would wait for each other. All releases agree in the opposite case: a topic queued for deletion is not
reassigned. Kafka 2.3 removes the topic from the list in the store. Since 2.4 a request to reassign the topic is also
answered UNKNOWN_TOPIC_OR_PARTITION.

Source: Kafka 2.8 ``TopicDeletionManager``.
"""

from collections.abc import Iterable

from kemu.actors.controller.context import PartitionReplica
from kemu.actors.controller.dispatch import Dispatch, Moment
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.phases import PartitionPhase, ReplicaPhase
from kemu.actors.controller.transactions import Work, ask, children, delete, expect
from kemu.protocol.messages.store import StoreCode
from kemu.protocol.names import broker_host
from kemu.protocol.nodes import delete_path, topic_config_path, topic_path
from kemu.protocol.notes.replication import TopicDeleted, TopicDeletionHalted, TopicDeletionQueued

STARTED, SUCCESSFUL, INELIGIBLE = (
    ReplicaPhase.DELETION_STARTED,
    ReplicaPhase.DELETION_SUCCESSFUL,
    ReplicaPhase.DELETION_INELIGIBLE,
)


class TopicDeletion:
    """The controller's part for topic deletion."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine

    def subscribe(self, to: Dispatch) -> None:
        """Subscribe to moments that may remove an obstacle to a deletion."""
        to.on_moment(Moment.TOOK_OVER, self.resume)
        to.on_moment(Moment.BROKERS_STARTED, self._started)

    def _started(self, brokers: list[int]) -> Work[None]:
        yield from self.resume_for(topic for topic, _, _ in self._machine.context.replicas_on(brokers))

    def begin(self, queued: Iterable[str], offline: Iterable[PartitionReplica]) -> Work[None]:
        """Queue these topics after a failover; some have an offline replica, some are being reassigned."""
        if self._machine.config.delete_topic_enable:
            self._queue(queued)
            self._wait_for_brokers(offline)
            self.wait_for_reassignment(topic for topic, _ in self._machine.context.reassigning_partitions())
        else:
            yield from self._machine.store.write([delete(delete_path(topic)) for topic in queued])

    def enqueue(self, topics: Iterable[str]) -> Work[None]:
        """Queue topics for deletion; a reassigned topic waits for the end of its reassignment."""
        self._queue(topics)
        self.wait_for_reassignment(topic for topic, _ in self._machine.context.reassigning_partitions())
        yield from self.resume()

    def _queue(self, topics: Iterable[str]) -> None:
        context = self._machine.context
        for topic in topics:
            if not context.is_queued_for_deletion(topic):
                context.queue_for_deletion(topic)
                self._machine.note(TopicDeletionQueued(topic=topic))

    def resume_for(self, topics: Iterable[str]) -> Work[None]:
        """Resume the deletion of these topics after an obstacle has ended: a broker's failure or a reassignment."""
        context = self._machine.context
        moving = dict.fromkeys(topic for topic, _ in context.reassigning_partitions())
        queued = [
            topic for topic in dict.fromkeys(topics) if context.is_queued_for_deletion(topic) and topic not in moving
        ]
        if queued:
            for topic in queued:
                context.ineligible.pop(topic, None)
            yield from self.resume()

    def wait_for_reassignment(self, topics: Iterable[str]) -> None:
        """Delay the deletion of these topics while their partitions are being reassigned."""
        for topic in topics:
            self._halt(topic, "it is being reassigned")

    def _wait_for_brokers(self, replicas: Iterable[PartitionReplica]) -> None:
        """Delay the deletion of the topics of these replicas, which cannot be deleted now."""
        brokers: dict[str, dict[int, None]] = {}
        for topic, _, broker in replicas:
            brokers.setdefault(topic, {})[broker] = None
        for topic, theirs in brokers.items():
            self._halt(topic, f"replicas on {', '.join(map(broker_host, sorted(theirs)))} cannot be deleted")

    def _halt(self, topic: str, why: str) -> None:
        context = self._machine.context
        if context.is_queued_for_deletion(topic) and context.ineligible.get(topic) != why:
            context.ineligible[topic] = why
            self._machine.note(TopicDeletionHalted(topic=topic, why=why))

    def failed(self, replicas: Iterable[PartitionReplica]) -> Work[None]:
        """Mark these replicas after their deletion failed or their brokers failed."""
        queued = [each for each in replicas if self._machine.context.is_queued_for_deletion(each[0])]
        if queued:
            yield from self._machine.replicas.move(queued, INELIGIBLE)
            self._wait_for_brokers(queued)
            yield from self.resume()

    def done(self, replicas: Iterable[PartitionReplica]) -> Work[None]:
        """Mark these replicas, which brokers have deleted."""
        context = self._machine.context
        theirs = [each for each in replicas if context.is_queued_for_deletion(each[0])]
        if theirs:
            yield from self._machine.replicas.move(theirs, SUCCESSFUL)
            yield from self.resume()

    def resume(self) -> Work[None]:
        """Process every queued topic: finish it, retry its failed replicas, or start it."""
        context = self._machine.context
        to_retry: list[str] = []
        eligible: list[str] = []
        for topic in list(context.to_be_deleted):
            replicas = context.replicas_of_topic(topic)
            if len(context.replicas_in(topic, SUCCESSFUL)) == len(replicas):  # none if the nodes are already removed
                yield from self._finish(topic)
                continue
            if not context.replicas_in(topic, STARTED):
                if context.replicas_in(topic, INELIGIBLE):
                    to_retry.append(topic)
                if topic not in context.ineligible:
                    eligible.append(topic)
        for topic in to_retry:
            yield from self._machine.replicas.move(context.replicas_in(topic, INELIGIBLE), ReplicaPhase.OFFLINE)
        if eligible:
            yield from self._start(eligible)

    def _start(self, topics: list[str]) -> Work[None]:
        context = self._machine.context
        unseen = [
            at for topic in topics if topic not in context.deletion_started for at in context.partitions_of(topic)
        ]
        if unseen:
            yield from self._machine.partitions.move(unseen, PartitionPhase.OFFLINE)
            yield from self._machine.partitions.move(unseen, PartitionPhase.NON_EXISTENT)
            context.deletion_started.update(dict.fromkeys(topic for topic, _ in unseen))
        partitions = [at for topic in topics for at in context.partitions_of(topic)]
        self._machine.batch.send_metadata(context.live, partitions)
        dead: list[PartitionReplica] = []
        to_delete: list[PartitionReplica] = []
        for topic in topics:
            for replica in context.replicas_of_topic(topic):
                name, number, broker = replica
                if not context.is_replica_online(broker, (name, number)):
                    dead.append(replica)
                elif context.replica_phase(replica) is not SUCCESSFUL:
                    to_delete.append(replica)
        self._wait_for_brokers(dead)
        yield from self._machine.replicas.move(dead, INELIGIBLE)
        yield from self._machine.replicas.move(to_delete, ReplicaPhase.OFFLINE)
        yield from self._machine.replicas.move(to_delete, STARTED)

    def _finish(self, topic: str) -> Work[None]:
        """Remove a topic's nodes and state after all its replicas are deleted."""
        machine, context = self._machine, self._machine.context
        yield from self._machine.replicas.move(context.replicas_in(topic, SUCCESSFUL), ReplicaPhase.NON_EXISTENT)
        yield from self._delete_below(topic_path(topic))
        results = yield from machine.store.write([delete(topic_config_path(topic)), delete(delete_path(topic))])
        for result in results:
            expect(result, StoreCode.NO_NODE)
        context.drop_topic(topic)
        machine.note(TopicDeleted(topic=topic))

    def _delete_below(self, path: str) -> Work[None]:
        """Delete a node and all nodes below it, the deepest first."""
        (found,) = yield from ask([children(path)])
        for name in found.children:
            yield from self._delete_below(f"{path}/{name}")
        (result,) = yield from self._machine.store.write([delete(path)])
        expect(result, StoreCode.NO_NODE)
