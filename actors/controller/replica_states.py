"""The replica state machine: which moves there are, and what each does.

==================  ===================================  ==============================================================
to                  from                                 action
==================  ===================================  ==============================================================
New                 NonExistent                          LeaderAndIsr (new) to it, if a leadership is known; the leader
                                                         itself cannot be new
Online              New, Online, Offline, Ineligible     from New: put it into the assignment if it is missing there;
                                                         else LeaderAndIsr with the known leadership to it
Offline             New, Online, Offline, Ineligible     StopReplica to it; take it out of the ISR (epoch + 1, no leader
                                                         if it led; the last member stays); LeaderAndIsr to all other
                                                         replicas, unless the topic is being deleted; without known
                                                         leadership only metadata
DeletionStarted     Offline                              StopReplica (delete) to it
DeletionSuccessful  DeletionStarted                      mark
DeletionIneligible  Offline, DeletionStarted             mark
NonExistent         DeletionSuccessful                   drop it from the assignment (in memory)
==================  ===================================  ==============================================================

Every other move is refused. A replica outside the ISR goes offline without a write, yet its peers get a LeaderAndIsr
(which they ignore: its epoch is not new). Source: Kafka 2.8 ``ZkReplicaStateMachine``.
"""

from collections.abc import Sequence

from attrs import evolve

from kemu.actors.controller.batch import BatchNotEmpty
from kemu.actors.controller.context import Leadership, PartitionReplica, ReplicaPhase
from kemu.actors.controller.desk import ControllerBase
from kemu.actors.controller.transactions import Work
from kemu.protocol.messages.control import NO_LEADER
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import Assignment
from kemu.protocol.notes.replication import IsrChanged, ReplicaStateBecame, StateChangeRefused

NON_EXISTENT, NEW, ONLINE, OFFLINE, DELETION_STARTED, DELETION_SUCCESSFUL, DELETION_INELIGIBLE = ReplicaPhase

MAY_FOLLOW: dict[ReplicaPhase, tuple[ReplicaPhase, ...]] = {
    NEW: (NON_EXISTENT,),
    ONLINE: (NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE),
    OFFLINE: (NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE),
    DELETION_STARTED: (OFFLINE,),
    DELETION_SUCCESSFUL: (DELETION_STARTED,),
    DELETION_INELIGIBLE: (OFFLINE, DELETION_STARTED),
    NON_EXISTENT: (DELETION_SUCCESSFUL,),
}
"""New state: the states it may follow."""


class ReplicaStates:
    """Moves replicas. A part of the controller."""

    def __init__(self, controller: ControllerBase) -> None:
        self._controller = controller

    def startup(self) -> Work[None]:
        """Give every replica its state after a failover: told to be online, or taken out of the ISRs."""
        controller, context = self._controller, self._controller.context
        online, offline = context.online_and_offline_replicas()
        for replica in online:
            context.set_replica_phase(replica, ONLINE)
        for replica in offline:
            # Ineligible, and not Offline: a deletion must not wait for a StopReplica of a broker that is down.
            context.set_replica_phase(replica, DELETION_INELIGIBLE)
        yield from self.move(online, ONLINE)
        if controller.rules.failover_takes_offline_replicas_out:
            yield from self.move(offline, OFFLINE)

    def move(self, replicas: Sequence[PartitionReplica], target: ReplicaPhase) -> Work[None]:
        """Move replicas, broker by broker.

        Raises:
            ControllerMoved: another controller was elected; what was gathered stays in the batch.
        """
        if not replicas:
            return
        batch = self._controller.batch
        try:
            batch.begin()
        except BatchNotEmpty:
            self._refused(replicas[0], target, "a batch is open")
            return
        by_broker: dict[int, list[PartitionReplica]] = {}
        for replica in replicas:
            by_broker.setdefault(replica[2], []).append(replica)
        for broker, theirs in by_broker.items():
            valid = [replica for replica in theirs if self._is_valid(replica, target)]
            if target is OFFLINE:
                yield from self._take_offline(broker, valid)
            else:
                for replica in valid:
                    self._move_one(replica, target)
        batch.send()

    def _is_valid(self, replica: PartitionReplica, target: ReplicaPhase) -> bool:
        if self._controller.context.replica_phase(replica) in MAY_FOLLOW[target]:
            return True
        self._refused(replica, target, "no such move")
        return False

    def _become(self, replica: PartitionReplica, phase: ReplicaPhase) -> None:
        context = self._controller.context
        old = context.replica_phase(replica)
        context.set_replica_phase(replica, phase)
        if old is not phase:
            topic, partition, broker = replica
            self._controller.note(
                ReplicaStateBecame(topic=topic, partition=partition, replica=broker, old=old.value, new=phase.value)
            )

    def _refused(self, replica: PartitionReplica, target: ReplicaPhase, why: str) -> None:
        topic, partition, broker = replica
        old = self._controller.context.replica_phase(replica).value
        what = f"{topic}-{partition} on {broker}"
        self._controller.note(StateChangeRefused(what=what, old=old, new=target.value, why=why))

    # --- moves without the store -------------------------------------------------------------------------------

    def _move_one(self, replica: PartitionReplica, target: ReplicaPhase) -> None:
        topic, partition, broker = replica
        at = (topic, partition)
        context, batch = self._controller.context, self._controller.batch
        match target:
            case ReplicaPhase.NEW:
                known = context.leadership.get(at)
                if known is not None:
                    if known.state.leader == broker:
                        self._refused(replica, target, "it is the leader")
                        return
                    self._tell((broker,), at, known, is_new=True)
            case ReplicaPhase.ONLINE:
                self._bring_online(replica, at)
            case ReplicaPhase.DELETION_STARTED:
                batch.add_stop_replica((broker,), at, delete=True)
            case ReplicaPhase.NON_EXISTENT:
                assignment = context.assignment(at)
                if assignment is not None:
                    context.assign(at, _without(assignment, broker))
        self._become(replica, target)

    def _bring_online(self, replica: PartitionReplica, at: TopicPartition) -> None:
        context, broker = self._controller.context, replica[2]
        if context.replica_phase(replica) is NEW:
            assignment = context.assignment(at)
            assert assignment is not None, f"{replica} is new but its partition has no assignment"
            if broker not in assignment.replicas:
                context.assign(at, evolve(assignment, replicas=(*assignment.replicas, broker)))
            return
        known = context.leadership.get(at)
        if known is not None:
            self._tell((broker,), at, known, is_new=False)

    def _tell(self, brokers: tuple[int, ...], at: TopicPartition, known: Leadership, *, is_new: bool) -> None:
        assignment = self._controller.context.assignment(at)
        assert assignment is not None
        self._controller.batch.add_leader_and_isr(brokers, at, known, assignment, is_new=is_new)

    # --- offline -----------------------------------------------------------------------------------------------

    def _take_offline(self, broker: int, replicas: list[PartitionReplica]) -> Work[None]:
        context, batch = self._controller.context, self._controller.batch
        partitions = [(topic, number) for topic, number, _ in replicas]
        for at in partitions:
            batch.add_stop_replica((broker,), at, delete=False)
        led = [at for at in partitions if at in context.leadership]
        updated = yield from self._remove_from_isr(broker, led)
        for at, known in updated.items():
            if not context.is_queued_for_deletion(at[0]):
                others = tuple(other for other in context.replicas(at) if other != broker)
                self._tell(others, at, known, is_new=False)
        for replica, at in zip(replicas, partitions, strict=True):
            self._become(replica, OFFLINE)
            if at not in context.leadership:
                batch.add_update_metadata(context.live, (at,))

    def _remove_from_isr(self, broker: int, partitions: list[TopicPartition]) -> Work[dict[TopicPartition, Leadership]]:
        """Take a broker out of ISRs; the leadership of each of these partitions afterwards."""
        controller, context = self._controller, self._controller.context
        known_now: dict[TopicPartition, Leadership] = {}
        remaining = partitions
        while remaining:
            stored = yield from controller.store.read_states(remaining)
            updates: dict[TopicPartition, Leadership] = {}
            for at, known in stored.items():
                state = known.state
                if state.controller_epoch > context.epoch:
                    self._refused((*at, broker), OFFLINE, f"epoch {state.controller_epoch} has written its state")
                elif broker in state.isr:
                    leader = NO_LEADER if state.leader == broker else state.leader
                    isr = state.isr if len(state.isr) == 1 else tuple(each for each in state.isr if each != broker)
                    changed = evolve(
                        state,
                        leader=leader,
                        isr=isr,
                        leader_epoch=state.leader_epoch + 1,
                        controller_epoch=context.epoch,
                    )
                    updates[at] = Leadership(changed, known.zk_version)
                else:
                    state = evolve(state, controller_epoch=context.epoch)
                    known_now[at] = Leadership(state, known.zk_version)
            written, remaining, refused = yield from controller.store.update_states(updates)
            for at, code in refused.items():
                self._refused((*at, broker), OFFLINE, f"its state could not be written: {code.name}")
            known_now.update(written)
            for at, known in written.items():
                self._note_isr(at, known, broker)
        context.leadership.update(known_now)
        return known_now

    def _note_isr(self, at: TopicPartition, known: Leadership, broker: int) -> None:
        self._controller.note(
            IsrChanged(
                topic=at[0],
                partition=at[1],
                leader=known.state.leader,
                leader_epoch=known.state.leader_epoch,
                isr=known.state.isr,
                zk_version=known.zk_version,
                why=f"replica {broker} is offline",
            )
        )


def _without(assignment: Assignment, broker: int) -> Assignment:
    return Assignment(
        tuple(each for each in assignment.replicas if each != broker),
        tuple(each for each in assignment.adding if each != broker),
        tuple(each for each in assignment.removing if each != broker),
    )
