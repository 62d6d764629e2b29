"""Reassignment up to Kafka 2.3: all new replicas join all old replicas; at the end the old replicas are removed.

Kafka's old tool lists the unfinished partitions in a node of the store (``/admin/reassign_partitions``). Until the node
is deleted, no other reassignment can be requested, and no reassignment can be cancelled. The table calls the
current replicas of a partition OAR and the requested replicas RAR.

=====  =============================================================================================================
1      not all of RAR in sync: OAR + RAR into the store and into memory (in undefined order; RAR first here)
2 3    raise the leader epoch and send OAR + RAR; start the new replicas, and wait for the ISR
5      all of RAR in sync: they are online
6 7    in memory only RAR is assigned; elect a leader among RAR if the old one leaves, else raise the leader epoch
8 9    replicas only in OAR leave the ISR, are stopped, and deleted
10     the store has RAR
11     remove the partition from the node, and delete the node with the last one
12     send metadata to all brokers; deletions of the topic may continue
=====  =============================================================================================================

OAR has no node of its own: a new controller finds OAR within the list of step 1. Source: Kafka 2.3
``KafkaController.onPartitionReassignment``; KIP-435, "Existing algorithm".
"""

from collections.abc import Mapping

from kemu.actors.controller.dispatch import Dispatch, Job, Moment
from kemu.actors.controller.elections import Strategy
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.phases import PartitionPhase, ReplicaPhase
from kemu.actors.controller.reassignment_work import ReassignmentWork
from kemu.actors.controller.transactions import StoreRefused, Work
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsReply,
    ListPartitionReassignments,
    ListPartitionReassignmentsReply,
)
from kemu.protocol.messages.store import WatchEventKind
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import REASSIGN_PARTITIONS, ReplicaAssignment
from kemu.protocol.notes.replication import (
    ReassignmentFinished,
    ReassignmentStarted,
    ReassignmentStepCommitted,
    ReassignmentStepStarted,
)
from kemu.protocol.reassign.moves import StepKind, not_in_sync, without

STATE_OF_ANY = "/brokers/topics/*/partitions/*/state"


class AllAtOnceReassignment:
    """The controller's part for reassignment up to Kafka 2.3."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine
        self._work = ReassignmentWork(machine)
        self._targets: dict[TopicPartition, tuple[int, ...]] = {}
        """Partitions being reassigned, with their targets."""

    def subscribe(self, to: Dispatch) -> None:
        """Subscribe to the tool's node, to changes of ISRs and brokers, and to failovers.

        Requests of the later reassignment APIs are refused.
        """
        to.on_request(AlterPartitionReassignments, Job("admin", self._no_such_api))
        to.on_request(ListPartitionReassignments, Job("admin", self._no_such_list))
        to.on_watch(REASSIGN_PARTITIONS, Job("reassign-partitions", self._asked), WatchEventKind.NODE_CREATED)
        to.on_watch(STATE_OF_ANY, Job("reassignment-isr", self._state_changed), WatchEventKind.NODE_DATA_CHANGED)
        to.on_moment(Moment.TOOK_OVER, self._take_over)
        to.on_moment(Moment.BROKERS_STARTED, self._brokers_started)
        to.on_moment(Moment.ISRS_CHANGED, self._isrs_changed)
        to.on_moment(Moment.ISRS_ALTERED, self._isrs_changed)

    def _no_such_api(self, _: AlterPartitionReassignments) -> Work[AlterPartitionReassignmentsReply]:
        yield from ()
        return AlterPartitionReassignmentsReply(error_code=ErrorCode.UNSUPPORTED_VERSION, responses=())

    def _no_such_list(self, _: ListPartitionReassignments) -> Work[ListPartitionReassignmentsReply]:
        yield from ()
        return ListPartitionReassignmentsReply(error_code=ErrorCode.UNSUPPORTED_VERSION, topics=())

    # --- triggers ------------------------------------------------------------------------------------------------

    def _asked(self, *, resumed: bool = False) -> Work[None]:
        """Start the reassignment of new partitions in the node, and remove impossible partitions from the node."""
        rows = yield from self._work.asked_in_store()
        failed: dict[TopicPartition, None] = {}
        for at, target in rows.items():
            why = self._refusal(at, target)
            if why:
                self._work.note_failed(f"{at[0]}-{at[1]}", why)
                failed[at] = None
        begun = {at: to for at, to in rows.items() if at not in failed and at not in self._targets}
        yield from self._begin(begun, resumed=resumed)
        if failed:
            yield from self._remove_requests(failed)

    def _refusal(self, at: TopicPartition, target: tuple[int, ...]) -> str:
        context = self._machine.context
        assignment = context.assignment(at)
        if assignment is None:
            return "there is no such partition"
        if context.is_queued_for_deletion(at[0]):
            return "its topic is being deleted"
        return "it is there already" if assignment.replicas == target and at not in self._targets else ""

    def _begin(self, targets: Mapping[TopicPartition, tuple[int, ...]], *, resumed: bool) -> Work[None]:
        machine, context = self._machine, self._machine.context
        for at, target in targets.items():
            self._targets[at] = target
            context.reassigning[at] = None
            machine.note(
                ReassignmentStarted(
                    topic=at[0], partition=at[1], replicas=context.replicas(at), target=target, resumed=resumed
                )
            )
        machine.deletion.wait_for_reassignment(topic for topic, _ in targets)
        for at in targets:
            try:
                yield from self._try_step(at)
            except StoreRefused as error:
                self._work.note_failed(f"{at[0]}-{at[1]}", str(error))
                self._targets.pop(at, None)
                context.reassigning.pop(at, None)
                yield from self._remove_requests({at: None})

    def _take_over(self) -> Work[None]:
        """Resume the partitions in the node after a failover."""
        self._targets = {}
        yield from self._asked(resumed=True)

    def _brokers_started(self, brokers: list[int]) -> Work[None]:
        """Send the requests of partitions with a replica on one of these brokers again."""
        for at, target in list(self._targets.items()):
            if any(broker in target for broker in brokers):
                yield from self._try_step(at)

    def _isrs_changed(self, partitions: list[TopicPartition]) -> Work[None]:
        for at in partitions:
            yield from self._commit_if_due(at)

    def _state_changed(self, topic: str, partition: str) -> Work[None]:
        yield from self._commit_if_due((topic, int(partition)))

    def _commit_if_due(self, at: TopicPartition) -> Work[None]:
        if at in self._targets:
            isr = yield from self._work.read_isr(at)
            if not without(self._targets[at], isr):
                yield from self._commit(at)

    # --- one partition -----------------------------------------------------------------------------------------

    def _try_step(self, at: TopicPartition) -> Work[None]:
        """Execute the steps 1 to 3 of the module's table, or the steps 5 to 12. A repeated call is harmless."""
        machine, context, target = self._machine, self._machine.context, self._targets[at]
        isr = yield from self._work.read_isr(at)
        missing = without(target, isr)
        current = context.replicas(at)
        new, old = without(target, current), without(current, target)
        machine.note(
            ReassignmentStepStarted(
                topic=at[0],
                partition=at[1],
                kind=StepKind.LAST.value,
                replicas=target,
                adding=new,
                removing=old,
                waits_for=not_in_sync(missing) if missing else "",
            )
        )
        if not missing:
            yield from self._commit(at)
            return
        context.assign(at, ReplicaAssignment((*target, *old)))
        yield from self._work.write((at[0],))
        yield from self._work.raise_epoch(at, "replicas are added" if new else "replicas must be in sync")
        yield from self._work.start_new(at, new)

    def _commit(self, at: TopicPartition) -> Work[None]:
        """Do the steps 5 to 12 of the table in the module docstring."""
        machine, context, target = self._machine, self._machine.context, self._targets[at]
        yield from machine.replicas.move([(*at, broker) for broker in target], ReplicaPhase.ONLINE)
        old = without(context.replicas(at), target)
        context.assign(at, ReplicaAssignment(target))
        leader = self._work.known_leader(at)
        if leader in target and context.is_replica_online(leader, at):
            yield from self._work.raise_epoch(at, "a step is committed", also_to=old)
        else:
            yield from machine.partitions.move((at,), PartitionPhase.ONLINE, Strategy.REASSIGN)
        yield from self._work.stop(at, old)
        yield from self._work.write((at[0],))
        known = context.leadership[at].state
        machine.note(
            ReassignmentStepCommitted(
                topic=at[0],
                partition=at[1],
                replicas=target,
                leader=known.leader,
                leader_epoch=known.leader_epoch,
                isr=known.isr,
            )
        )
        del self._targets[at]
        context.reassigning.pop(at, None)
        machine.note(ReassignmentFinished(topic=at[0], partition=at[1], replicas=target))
        yield from self._remove_requests({at: None})
        machine.batch.send_metadata(context.live, (at,))
        yield from machine.deletion.resume_for((at[0],))

    def _remove_requests(self, partitions: Mapping[TopicPartition, None]) -> Work[None]:
        is_emptied = yield from self._work.remove_requests(lambda at, _: at in partitions)
        if is_emptied:
            self._machine.right_after(Job("reassign-partitions", self._asked))
