"""Actions that both reassignment algorithms share: reading ISRs, writing assignments, raising epochs, stopping
replicas.

Both algorithms read the node of the old tool (``/admin/reassign_partitions``), as all releases with ZooKeeper do.
Source: Kafka 2.8 ``KafkaController``.
"""

from collections.abc import Callable, Iterable

from kemu.actors.controller.context import Leadership
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.phases import ReplicaPhase
from kemu.actors.controller.transactions import StoreRefused, Work, ask_one, delete, exists, expect, get, set_data
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.store import StoreCode
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import (
    REASSIGN_PARTITIONS,
    BadNode,
    read_reassignments,
    read_state,
    reassignments_data,
    state_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes.replication import REASSIGNED, LeaderEpochBumped, StateChangeRefused


class ReassignmentWork:
    """The controller's shared actions of reassignment."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine

    def read_isr(self, at: TopicPartition) -> Work[tuple[int, ...]]:
        """The partition's current ISR, with a watch on its state. The controller's own state is not updated.

        Source: ``KafkaController.isReassignmentComplete``.
        """
        found = yield from ask_one(get(state_path(*at), watch=True))
        expect(found, StoreCode.NO_NODE)
        return read_state(found.data).isr if found.code is StoreCode.OK else ()

    def write(self, topics: Iterable[str]) -> Work[None]:
        """Write the assignments in memory to the store."""
        context = self._machine.context
        ops = [
            set_data(topic_path(topic), topic_data(context.topics[topic], context.topic_ids[topic])) for topic in topics
        ]
        for result in (yield from self._machine.store.write(ops)):
            expect(result)

    def start_new(self, at: TopicPartition, brokers: Iterable[int]) -> Work[None]:
        """Start new replicas; each replica's request is in a separate batch."""
        context = self._machine.context
        fresh = [(*at, b) for b in brokers if context.replica_phase((*at, b)) is ReplicaPhase.NON_EXISTENT]
        for replica in fresh:
            yield from self._machine.replicas.move([replica], ReplicaPhase.NEW)

    def stop(self, at: TopicPartition, brokers: Iterable[int]) -> Work[None]:
        """Remove these replicas from the ISR, stop and delete them, without waiting for their answers."""
        replicas = [(*at, broker) for broker in sorted(brokers)]
        known = [
            each for each in replicas if self._machine.context.replica_phase(each) is not ReplicaPhase.NON_EXISTENT
        ]
        for phase in (
            ReplicaPhase.OFFLINE,
            ReplicaPhase.DELETION_STARTED,
            ReplicaPhase.DELETION_SUCCESSFUL,
            ReplicaPhase.NON_EXISTENT,
        ):
            yield from self._machine.replicas.move(known, phase)

    def known_leader(self, at: TopicPartition) -> int:
        """The leader that the controller knows. Source: ``moveReassignedPartitionLeaderIfRequired``.

        Raises:
            StoreRefused: the controller does not know the state of the partition (``watching.unknown_states``).
        """
        known = self._machine.context.leadership.get(at)
        if known is None:
            raise StoreRefused("the controller does not know its leader")
        return known.state.leader

    def note_failed(self, what: str, why: str) -> None:
        """Note that a request, or a step of a partition, failed. Source: ``maybeTriggerPartitionReassignment``."""
        self._machine.note(StateChangeRefused(what=what, old="", new=REASSIGNED, why=why))

    def raise_epoch(self, at: TopicPartition, why: str, also_to: Iterable[int] = ()) -> Work[None]:
        """Raise the leader epoch, and send the epoch to all replicas. Source: ``updateLeaderEpochAndSendRequest``.

        Args:
            at: the partition.
            why: the reason for the note.
            also_to: further recipients, which are not replicas any more.

        Raises:
            StoreRefused: the partition has no state, another controller wrote its state, or the write failed.
        """
        machine, context = self._machine, self._machine.context
        while True:
            stored = yield from machine.store.read_states((at,))
            if at not in stored:
                raise StoreRefused("it has no state node")
            state = stored[at].state
            if state.controller_epoch > context.epoch:
                raise StoreRefused(f"a controller of epoch {state.controller_epoch} has written its state")
            raised = evolve(state, leader_epoch=state.leader_epoch + 1, controller_epoch=context.epoch)
            update = {at: Leadership(raised, stored[at].zk_version)}
            written, conflicts, refused = yield from machine.store.update_states(update)
            if refused:
                raise StoreRefused(f"the state of {at[0]}-{at[1]} could not be written: {refused[at].name}")
            if not conflicts:
                break
        context.leadership.update(written)
        machine.note(LeaderEpochBumped(topic=at[0], partition=at[1], leader_epoch=state.leader_epoch + 1, why=why))
        assignment = context.assignment(at)
        assert assignment is not None
        machine.batch.begin()
        machine.batch.add_leader_and_isr((*assignment.origin, *also_to), at, written[at], is_new=False)
        machine.batch.add_leader_and_isr(assignment.adding, at, written[at], is_new=True)
        machine.batch.send()

    # --- the node of the old tool ----------------------------------------------------------------------------------

    def asked_in_store(self) -> Work[dict[TopicPartition, tuple[int, ...]]]:
        """The requests in the node, with a watch on the node: partition -> target. {} without a node."""
        found = yield from ask_one(exists(REASSIGN_PARTITIONS, watch=True))
        if found.code is not StoreCode.OK:
            return {}
        return (yield from self._read_node())

    def _read_node(self) -> Work[dict[TopicPartition, tuple[int, ...]]]:
        found = yield from ask_one(get(REASSIGN_PARTITIONS))
        if found.code is not StoreCode.OK:
            return {}
        try:
            return read_reassignments(found.data)
        except BadNode as error:
            self.note_failed(REASSIGN_PARTITIONS, str(error))
            return {}

    def remove_requests(self, over: Callable[[TopicPartition, tuple[int, ...]], bool]) -> Work[bool]:
        """Remove finished partitions from the node, and delete an empty node; returns whether the node was deleted.

        Source: ``KafkaController.removePartitionsFromZkReassignment``.
        """
        rows = yield from self._read_node()
        left = {at: target for at, target in rows.items() if not over(at, target)}
        if len(left) == len(rows):
            return False
        op = set_data(REASSIGN_PARTITIONS, reassignments_data(left)) if left else delete(REASSIGN_PARTITIONS)
        yield from self._machine.store.write([op])
        return not left
