"""The replica state machine: its transitions and their actions.

==================  ===================================  ==============================================================
to                  from                                 action
==================  ===================================  ==============================================================
New                 NonExistent                          LeaderAndIsr (new) to it, if a leadership is known; the leader
                                                         itself cannot be new
Online              New, Online, Offline, Ineligible     from New: add it to the assignment if it is missing there;
                                                         else LeaderAndIsr with the known leadership to it
Offline             New, Online, Offline, Ineligible     StopReplica to it; remove it from the ISR (epoch + 1, no
                                                         leader if it led; the last member stays); LeaderAndIsr to all
                                                         other replicas, unless the topic is being deleted; without
                                                         known leadership only metadata
DeletionStarted     Offline                              StopReplica (delete) to it
DeletionSuccessful  DeletionStarted                      mark
DeletionIneligible  Offline, DeletionStarted             mark
NonExistent         DeletionSuccessful                   drop it from the assignment (in memory)
==================  ===================================  ==============================================================

Every other transition is refused. A replica outside the ISR becomes offline without a write, yet the other replicas get
a LeaderAndIsr. The replicas ignore this request, because its epoch is not new. Source: Kafka 2.8
``ZkReplicaStateMachine``.
"""

from collections.abc import Sequence

from kemu.actors.controller.context import Leadership, PartitionReplica
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.phases import ReplicaPhase
from kemu.actors.controller.transactions import Work
from kemu.actors.controller.transitions import Transitions
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.control import NO_LEADER
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.replication import IsrChanged, ReplicaStateBecame

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
"""New state -> the states that may precede it."""


class ReplicaStates:
    """The controller's part for replica states."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine
        self._moves: Transitions[PartitionReplica, ReplicaPhase] = Transitions(
            machine,
            MAY_FOLLOW,
            phase=lambda replica: machine.context.replica_phase(replica),
            set_phase=lambda replica, phase: machine.context.set_replica_phase(replica, phase),
            name=lambda replica: f"{replica[0]}-{replica[1]} on {replica[2]}",
            became=lambda replica, old, new: ReplicaStateBecame(
                topic=replica[0], partition=replica[1], replica=replica[2], old=old, new=new
            ),
        )

    def startup(self) -> Work[None]:
        """Set every replica's state after a failover: online with a LeaderAndIsr, or removed from the ISRs."""
        machine, context = self._machine, self._machine.context
        online, offline = context.online_and_offline_replicas()
        for replica in online:
            context.set_replica_phase(replica, ONLINE)
        for replica in offline:
            # Ineligible, not Offline: a deletion must not wait for a StopReplica of a broker that is down.
            context.set_replica_phase(replica, DELETION_INELIGIBLE)
        yield from self.move(online, ONLINE)
        if machine.rules.failover_takes_offline_replicas_out:
            yield from self.move(offline, OFFLINE)

    def move(self, replicas: Sequence[PartitionReplica], target: ReplicaPhase) -> Work[None]:
        """Move replicas to a state, broker by broker.

        Raises:
            ControllerMoved: another controller was elected; the collected requests remain in the batch.
        """
        if not replicas:
            return
        if not self._moves.begin(replicas, target):
            return
        by_broker: dict[int, list[PartitionReplica]] = {}
        for replica in replicas:
            by_broker.setdefault(replica[2], []).append(replica)
        for broker, theirs in by_broker.items():
            valid = [replica for replica in theirs if self._moves.allows(replica, target)]
            if target is OFFLINE:
                yield from self._take_offline(broker, valid)
            else:
                for replica in valid:
                    self._move_one(replica, target)
        self._machine.batch.send()

    # --- transitions without the store ---------------------------------------------------------------------------

    def _move_one(self, replica: PartitionReplica, target: ReplicaPhase) -> None:
        topic, partition, broker = replica
        at = (topic, partition)
        context, batch = self._machine.context, self._machine.batch
        match target:
            case ReplicaPhase.NEW:
                known = context.leadership.get(at)
                if known is not None:
                    if known.state.leader == broker:
                        self._moves.refuse(replica, target, "it is the leader")
                        return
                    batch.add_leader_and_isr((broker,), at, known, is_new=True)
            case ReplicaPhase.ONLINE:
                self._bring_online(replica, at)
            case ReplicaPhase.DELETION_STARTED:
                batch.add_stop_replica((broker,), at, delete=True)
            case ReplicaPhase.NON_EXISTENT:
                assignment = context.assignment(at)
                if assignment is not None:
                    context.assign(at, assignment.without(broker))
        self._moves.become(replica, target)

    def _bring_online(self, replica: PartitionReplica, at: TopicPartition) -> None:
        context, broker = self._machine.context, replica[2]
        if context.replica_phase(replica) is NEW:
            assignment = context.assignment(at)
            assert assignment is not None, f"{replica} is new but its partition has no assignment"
            if broker not in assignment.replicas:
                context.assign(at, evolve(assignment, replicas=(*assignment.replicas, broker)))
            return
        known = context.leadership.get(at)
        if known is not None:
            self._machine.batch.add_leader_and_isr((broker,), at, known, is_new=False)

    # --- offline -----------------------------------------------------------------------------------------------

    def _take_offline(self, broker: int, replicas: list[PartitionReplica]) -> Work[None]:
        context, batch = self._machine.context, self._machine.batch
        partitions = [(topic, number) for topic, number, _ in replicas]
        for at in partitions:
            batch.add_stop_replica((broker,), at, delete=False)
        led = [at for at in partitions if at in context.leadership]
        updated = yield from self._remove_from_isr(broker, led)
        for at, known in updated.items():
            if not context.is_being_deleted(at[0]):
                others = tuple(other for other in context.replicas(at) if other != broker)
                batch.add_leader_and_isr(others, at, known, is_new=False)
        for replica, at in zip(replicas, partitions, strict=True):
            self._moves.become(replica, OFFLINE)
            if at not in context.leadership:
                batch.add_update_metadata(context.live, (at,))

    def _remove_from_isr(self, broker: int, partitions: list[TopicPartition]) -> Work[dict[TopicPartition, Leadership]]:
        """Remove a broker from ISRs; returns the resulting leadership of each of these partitions."""
        machine, context = self._machine, self._machine.context
        known_now: dict[TopicPartition, Leadership] = {}
        remaining = partitions
        while remaining:
            stored = yield from machine.store.read_states(remaining)
            updates: dict[TopicPartition, Leadership] = {}
            for at, known in stored.items():
                state = known.state
                if state.controller_epoch > context.epoch:
                    self._moves.refuse((*at, broker), OFFLINE, f"epoch {state.controller_epoch} has written its state")
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
            written, remaining, refused = yield from machine.store.update_states(updates)
            for at, code in refused.items():
                self._moves.refuse((*at, broker), OFFLINE, f"its state could not be written: {code.name}")
            known_now.update(written)
            for at, known in written.items():
                self._note_isr(at, known, broker)
        context.leadership.update(known_now)
        return known_now

    def _note_isr(self, at: TopicPartition, known: Leadership, broker: int) -> None:
        self._machine.note(
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
