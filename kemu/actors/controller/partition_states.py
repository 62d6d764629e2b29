"""The partition state machine: its transitions and their actions.

=========================  ============  ==========================================================================
from                       to            action
=========================  ============  ==========================================================================
NonExistent                New           mark (the assignment is known)
New                        Online        leader = first live replica, ISR = all live; create the state node with
                                         epoch 0; LeaderAndIsr (new) to the ISR; none live: stays New
Online, Offline            Online        elect by a strategy; write the state (epoch + 1) if its version is still
                                         the one read, else read and elect again; LeaderAndIsr to the recipients
New, Online, Offline       Offline       mark
Offline                    NonExistent   mark
=========================  ============  ==========================================================================

Every other transition is refused. A partition whose stored state has a later controller epoch than this controller
is left unchanged. Source: Kafka 2.8 ``ZkPartitionStateMachine``.
"""

from collections.abc import Collection, Iterable, Sequence

from kemu.actors.controller.context import Leadership
from kemu.actors.controller.elections import ELECTIONS, Candidates, Outcome, Strategy
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.phases import PartitionPhase
from kemu.actors.controller.transactions import Work, ask, create, expect, get
from kemu.actors.controller.transitions import BATCH_IS_OPEN, NO_SUCH_MOVE, Transitions
from kemu.protocol.dynamic_configs import UNCLEAN_ELECTION_ENABLE
from kemu.protocol.messages.store import StoreCode
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import (
    PartitionState,
    partition_path,
    partitions_path,
    read_config,
    state_data,
    state_path,
    topic_config_path,
)
from kemu.protocol.notes.replication import LeaderElectedForPartition, PartitionStateBecame

NON_EXISTENT, NEW, ONLINE, OFFLINE = PartitionPhase

MAY_FOLLOW: dict[PartitionPhase, tuple[PartitionPhase, ...]] = {
    NEW: (NON_EXISTENT,),
    ONLINE: (NEW, ONLINE, OFFLINE),
    OFFLINE: (NEW, ONLINE, OFFLINE),
    NON_EXISTENT: (OFFLINE,),
}
"""New state -> the states that may precede it."""


class PartitionStates:
    """The controller's part for partition states."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine
        self._moves: Transitions[TopicPartition, PartitionPhase] = Transitions(
            machine,
            MAY_FOLLOW,
            phase=lambda at: machine.context.phase(at),
            set_phase=lambda at, phase: machine.context.set_phase(at, phase),
            name=lambda at: f"{at[0]}-{at[1]}",
            became=lambda at, old, new: PartitionStateBecame(topic=at[0], partition=at[1], old=old, new=new),
        )

    def startup(self) -> Work[None]:
        """Set every partition's state after a failover, then try to elect missing leaders."""
        context = self._machine.context
        for at in context.partitions():
            known = context.leadership.get(at)
            if known is None:
                context.set_phase(at, NEW)
            elif context.is_replica_online(known.state.leader, at):
                context.set_phase(at, ONLINE)
            else:
                context.set_phase(at, OFFLINE)
        yield from self.trigger_online()

    def trigger_online(self, topics: Collection[str] | None = None) -> Work[None]:
        """Try to elect leaders for all partitions without a leader; ``topics`` limits the partitions."""
        context = self._machine.context
        waiting = [
            at
            for at, phase in context.partition_phases.items()
            if phase in (OFFLINE, NEW) and not context.is_being_deleted(at[0]) and (topics is None or at[0] in topics)
        ]
        yield from self.move(waiting, ONLINE, Strategy.OFFLINE)

    def move(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionPhase,
        strategy: Strategy | None = None,
        *,
        allow_unclean: bool = False,
    ) -> Work[dict[TopicPartition, str]]:
        """Move partitions to a state; returns the partitions that could not move to Online, with the reasons.

        Args:
            strategy: the election for partitions that had a leader; needed for a move to Online.
            allow_unclean: elect out-of-sync replicas regardless of the configuration (requested by an admin).

        Raises:
            ControllerMoved: another controller was elected; the collected requests remain in the batch.
        """
        if not partitions:
            return {}
        moves = self._moves
        if not moves.begin(partitions, target):
            return dict.fromkeys(partitions, BATCH_IS_OPEN)
        failed: dict[TopicPartition, str] = {}
        valid: list[TopicPartition] = []
        for at in partitions:
            if moves.allows(at, target):
                valid.append(at)
            else:
                failed[at] = NO_SUCH_MOVE
        if target is ONLINE:
            phase = self._machine.context.phase
            new = [at for at in valid if phase(at) is NEW]
            to_elect = [at for at in valid if phase(at) is not NEW]
            if new:
                failed.update((yield from self._initialize(new)))
            if to_elect:
                assert strategy is not None, "an election needs a strategy"
                failed.update((yield from self._elect(to_elect, strategy, allow_unclean)))
        else:
            for at in valid:
                moves.become(at, target)
        self._machine.batch.send()
        return failed

    # --- new partitions ----------------------------------------------------------------------------------------

    def _initialize(self, partitions: list[TopicPartition]) -> Work[dict[TopicPartition, str]]:
        """Write the first state of partitions; returns the failed partitions with the reasons."""
        machine, context = self._machine, self._machine.context
        failed: dict[TopicPartition, str] = {}
        first: dict[TopicPartition, PartitionState] = {}
        for at in partitions:
            live = tuple(broker for broker in context.replicas(at) if context.is_replica_online(broker, at))
            if live:
                first[at] = PartitionState(live[0], 0, live, context.epoch)
            else:
                failed[at] = "no replica lives"
                self._moves.refuse(at, ONLINE, failed[at])
        yield from machine.store.write([create(partitions_path(topic)) for topic in dict.fromkeys(t for t, _ in first)])
        yield from machine.store.write([create(partition_path(*at)) for at in first])
        ops = [create(state_path(*at), state_data(state)) for at, state in first.items()]
        results = yield from machine.store.write(ops)
        for (at, state), result in zip(first.items(), results, strict=True):
            if result.code is not StoreCode.OK:
                failed[at] = f"its state could not be created: {result.code.name}"
                self._moves.refuse(at, ONLINE, failed[at])
                continue
            known = context.leadership[at] = Leadership(state, result.version)
            machine.batch.add_leader_and_isr(state.isr, at, known, is_new=True)
            self._note_elected(at, state, Strategy.NEW, unclean=False)
            self._moves.become(at, ONLINE)
        return failed

    # --- elections ---------------------------------------------------------------------------------------------

    def _elect(
        self, partitions: list[TopicPartition], strategy: Strategy, allow_unclean: bool
    ) -> Work[dict[TopicPartition, str]]:
        failed: dict[TopicPartition, str] = {}
        remaining = partitions
        while remaining:
            remaining = yield from self._elect_once(remaining, strategy, allow_unclean, failed)
        for at, why in failed.items():
            self._moves.refuse(at, ONLINE, why)
        return failed

    def _elect_once(
        self,
        partitions: list[TopicPartition],
        strategy: Strategy,
        allow_unclean: bool,
        failed: dict[TopicPartition, str],
    ) -> Work[list[TopicPartition]]:
        """Read, elect, write; returns the partitions to retry, whose state changed between the read and the write."""
        machine, context = self._machine, self._machine.context
        stored = yield from machine.store.read_states(partitions)
        candidates: dict[TopicPartition, Candidates] = {}
        for at in partitions:
            known = stored.get(at)
            if known is None:
                failed[at] = "it has no state node"
            elif known.state.controller_epoch > context.epoch:
                failed[at] = f"a controller of epoch {known.state.controller_epoch} has written its state"
            else:
                candidates[at] = self._candidates(at, known.state)
        unclean = yield from self._unclean_allowed(candidates, strategy, allow_unclean)
        outcomes: dict[TopicPartition, Outcome] = {}
        updates: dict[TopicPartition, Leadership] = {}
        for at, each in candidates.items():
            outcome = ELECTIONS[strategy](each, at in unclean)
            if outcome.leader is None:
                failed[at] = f"{strategy.value} election found nobody"
                continue
            outcomes[at] = outcome
            state = PartitionState(outcome.leader, each.state.leader_epoch + 1, outcome.isr, context.epoch)
            updates[at] = Leadership(state, stored[at].zk_version)
        written, conflicts, refused = yield from machine.store.update_states(updates)
        failed.update((at, f"its state could not be written: {code.name}") for at, code in refused.items())
        for at, known in written.items():
            context.leadership[at] = known
            context.unclean_elections += outcomes[at].unclean
            machine.batch.add_leader_and_isr(outcomes[at].recipients, at, known, is_new=False)
            self._note_elected(at, known.state, strategy, unclean=outcomes[at].unclean)
            self._moves.become(at, ONLINE)
        return conflicts

    def _candidates(self, at: TopicPartition, state: PartitionState) -> Candidates:
        context = self._machine.context
        assignment = context.assignment(at)
        assert assignment is not None, f"{at} has a phase but no assignment"
        replicas = assignment.replicas
        return Candidates(
            replicas,
            assignment.target,
            state,
            tuple(broker for broker in replicas if context.is_replica_online(broker, at)),
            tuple(broker for broker in replicas if context.is_replica_online(broker, at, or_shutting_down=True)),
            context.shutting_down,
        )

    def _unclean_allowed(
        self, candidates: dict[TopicPartition, Candidates], strategy: Strategy, allow_unclean: bool
    ) -> Work[dict[TopicPartition, None]]:
        """Partitions without a live ISR member for which an out-of-sync leader may be elected."""
        if strategy is not Strategy.OFFLINE:
            return {}
        context = self._machine.context
        without = [
            at
            for at, each in candidates.items()
            if not any(context.is_replica_online(broker, at) for broker in each.state.isr)
        ]
        if allow_unclean:
            return dict.fromkeys(without)
        topics = list(dict.fromkeys(topic for topic, _ in without))
        settings = yield from self.topic_settings(topics)
        default = str(self._machine.configs.allows_unclean).lower()
        return dict.fromkeys(at for at in without if settings[at[0]].get(UNCLEAN_ELECTION_ENABLE, default) == "true")

    def topic_settings(self, topics: Iterable[str]) -> Work[dict[str, dict[str, str]]]:
        """The topics' own settings in the store."""
        names = list(topics)
        results = yield from ask([get(topic_config_path(topic)) for topic in names])
        found = {}
        for topic, result in zip(names, results, strict=True):
            expect(result, StoreCode.NO_NODE)
            found[topic] = read_config(result.data) if result.code is StoreCode.OK else {}
        return found

    # --- notes ---------------------------------------------------------------------------------------------------

    def _note_elected(self, at: TopicPartition, state: PartitionState, strategy: Strategy, *, unclean: bool) -> None:
        self._machine.note(
            LeaderElectedForPartition(
                topic=at[0],
                partition=at[1],
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=state.isr,
                controller_epoch=state.controller_epoch,
                strategy=strategy.value,
                unclean=unclean,
            )
        )
