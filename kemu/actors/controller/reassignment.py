"""Partition reassignment: KIP-455 as shipped, and in batches as KIP-435 proposes.

``protocol.reassign`` decides the next steps (``Batches``: the partitions, ``Move``: the replicas); this module executes
the steps. Every step is a small KIP-455 reassignment; without limits a reassignment is a single step.

=====  =============================================================================================================
U1 U2  write the new assignment to the store, then to memory
U3     stop and delete replicas that are no longer wanted (cancelled, overridden), without waiting for answers
A1 A2  while required replicas are not in sync: raise the leader epoch, send it to all, start the added replicas
B1     afterwards: the added replicas are online
B2     in memory only the remaining replicas are assigned
B3     elect a leader among them if the old one leaves (or the step is for electing the new preferred one); otherwise
       raise the leader epoch; in both cases the leader does not readmit leaving replicas
B4 B5  leaving replicas leave the ISR and are stopped, then deleted
B6     the store has the remaining replicas
B8     send metadata to all brokers; deletions of the topic may continue
=====  =============================================================================================================

All state is in the store. The topic's node has the added and removed replicas and, under limits, the target and the
original replicas. A new controller starts from the node, and repeats step A or step B. The order of requests for queued
partitions is not in the store: after a failover such partitions are queued by topic and number.

Source: Kafka 2.8 ``KafkaController.onPartitionReassignment``, KIP-455; KIP-435.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kemu.actors.controller.dispatch import Dispatch, Job, Moment
from kemu.actors.controller.elections import Strategy
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.phases import PartitionPhase, ReplicaPhase
from kemu.actors.controller.reassignment_work import ReassignmentWork
from kemu.actors.controller.transactions import StoreRefused, Work
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.control import (
    NO_LEADER,
    AlterPartitionReassignments,
    AlterPartitionReassignmentsReply,
    CurrentBatch,
    ListPartitionReassignments,
    ListPartitionReassignmentsReply,
    NewReplicas,
    OngoingReassignment,
    ReassignmentOutcome,
    WaitingReassignment,
)
from kemu.protocol.messages.store import WatchEventKind
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import REASSIGN_PARTITIONS, ReplicaAssignment
from kemu.protocol.notes.replication import (
    ReassignmentBlocked,
    ReassignmentFinished,
    ReassignmentStarted,
    ReassignmentStepCommitted,
    ReassignmentStepStarted,
    ReassignmentWaits,
)
from kemu.protocol.reassign.batches import Batches
from kemu.protocol.reassign.moves import (
    Limits,
    Move,
    ReassignmentStep,
    Standing,
    StepKind,
    blocked_by,
    limits_by_key,
    next_step,
    waits_for,
    without,
)
from kemu.protocol.reassign.requests import refusal
from kemu.protocol.reassign.waiting import Wait, of_blocked, of_limit, of_step
from kemu.protocol.replication import ReassignmentAlgorithm

MIN_INSYNC_REPLICAS = "min.insync.replicas"
STATE_OF_ANY = "/brokers/topics/*/partitions/*/state"


class _Moving(NamedTuple):
    """A partition being reassigned. ``plain``: no limit applies, as in KIP-455; the node has no further fields."""

    move: Move
    plain: bool


class Reassignment:
    """The controller's part for reassignment since Kafka 2.4."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine
        self._work = ReassignmentWork(machine)
        self._reset()

    def _reset(self) -> None:
        self._moving: dict[TopicPartition, _Moving] = {}
        self._batches: Batches[TopicPartition] = Batches(self._step_of, Limits())
        self._least: dict[str, int] = {}
        """Topic -> ``min.insync.replicas``, for topics with a reassignment."""
        self._chosen_under: object = None
        """The inputs, besides the partitions, from which the next steps were chosen."""
        self._blocked: dict[TopicPartition, None] = {}
        self._isrs: dict[TopicPartition, tuple[int, ...]] = {}
        """ISRs of partitions with a running step, as the controller last read them."""
        self._waits: dict[TopicPartition, Wait] = {}
        """The last noted wait of each partition."""

    def subscribe(self, to: Dispatch) -> None:
        """Subscribe to admins' requests, to changes of ISRs, brokers and limits, and to failovers."""
        to.on_request(AlterPartitionReassignments, Job("admin", self.alter))
        to.on_request(ListPartitionReassignments, Job("admin", self.list_ongoing))
        to.on_watch(REASSIGN_PARTITIONS, Job("reassign-partitions", self._asked_in_store), WatchEventKind.NODE_CREATED)
        to.on_watch(STATE_OF_ANY, Job("reassignment-isr", self._state_changed), WatchEventKind.NODE_DATA_CHANGED)
        to.on_moment(Moment.TOOK_OVER, self._take_over)
        to.on_moment(Moment.BROKERS_STARTED, self._brokers_started)
        to.on_moment(Moment.BROKERS_FAILED, self._brokers_failed)
        to.on_moment(Moment.ISRS_CHANGED, self._isrs_changed)
        to.on_moment(Moment.ISRS_ALTERED, self._isrs_changed)
        to.on_moment(Moment.BROKER_CONFIGS_CHANGED, self._reschedule)

    # --- admins ------------------------------------------------------------------------------------------------

    def alter(self, request: AlterPartitionReassignments) -> Work[AlterPartitionReassignmentsReply]:
        """Start, change or cancel reassignments. The answer is sent when the first steps have begun."""
        refusals: list[tuple[TopicPartition, ErrorCode, str]] = []
        wanted: dict[TopicPartition, tuple[int, ...] | None] = {}
        for row in request.partitions:
            at = (row.topic_name, row.partition_index)
            error, why = self._refusal(row)
            refusals.append((at, error, why))
            if error is ErrorCode.NONE:
                wanted[at] = row.replicas
        failed = yield from self._retarget_all(wanted)
        if wanted:  # the newest request is valid, by node or by API (KAFKA-9089)
            yield from self._remove_requests(lambda at, _: at in wanted)
        outcomes = (
            ReassignmentOutcome(
                topic_name=at[0],
                partition_index=at[1],
                error_code=ErrorCode.UNKNOWN_SERVER_ERROR if at in failed else error,
                error_message=why or None,
            )
            for at, error, why in refusals
        )
        return AlterPartitionReassignmentsReply(responses=tuple(outcomes))

    def _retarget_all(
        self, wanted: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> Work[dict[TopicPartition, None]]:
        """Set new targets for partitions, or cancel (None) their reassignments. Returns the failed partitions."""
        machine, context = self._machine, self._machine.context
        changed: dict[TopicPartition, None] = {}
        limits = self._limits()
        for at, target in wanted.items():
            if self._retarget(at, target, limits):
                changed[at] = None
                move = self._moving[at].move
                machine.note(
                    ReassignmentStarted(
                        topic=at[0],
                        partition=at[1],
                        replicas=move.replicas,
                        target=move.target,
                        resumed=False,
                        called_back=target is None,
                    )
                )
        context.reassigning.update(changed)
        machine.deletion.wait_for_reassignment(topic for topic, _ in changed)
        yield from self._read_inputs()
        for at in changed:
            if at in self._batches:
                self._batches.restart(at)
            else:
                self._batches.submit(at)
        begun = self._batches.start()
        yield from self._store_waiting([at for at in changed if at not in dict(begun)])
        return (yield from self._begin_all(begun))

    def _asked_in_store(self) -> Work[None]:
        """Accept the old tool's requests in its node. Impossible requests are removed at once, other requests at the
        end.

        Source: ``KafkaController.processZkPartitionReassignment``, which does not check the brokers of a list.
        """
        rows = yield from self._work.asked_in_store()
        context = self._machine.context
        failed = {at: None for at in rows if context.assignment(at) is None or context.is_queued_for_deletion(at[0])}
        failed.update((yield from self._retarget_all({at: to for at, to in rows.items() if at not in failed})))
        if failed:
            yield from self._remove_requests(lambda at, _: at in failed)

    def _remove_requests(self, over: Callable[[TopicPartition, tuple[int, ...]], bool]) -> Work[None]:
        is_emptied = yield from self._work.remove_requests(over)
        if is_emptied:
            self._machine.right_after(Job("reassign-partitions", self._asked_in_store))

    def _refusal(self, row: NewReplicas) -> tuple[ErrorCode, str]:
        context = self._machine.context
        at = (row.topic_name, row.partition_index)
        assignment, moving = context.assignment(at), self._moving.get(at)
        if moving is None or moving.plain:
            can_cancel = assignment is not None and assignment.is_being_reassigned
        else:
            can_cancel = not moving.move.rolls_back
        return refusal(
            row.replicas,
            current=assignment.origin if assignment is not None else None,
            live=context.live,
            moves=can_cancel,
            deleted=context.is_queued_for_deletion(row.topic_name),
        )

    def _retarget(self, at: TopicPartition, target: tuple[int, ...] | None, limits: Limits) -> bool:
        """Set a partition's target; False if the target is unchanged."""
        assignment, before = self._machine.context.assignment(at), self._moving.get(at)
        assert assignment is not None
        if limits == Limits() and (before is None or before.plain):
            wanted = assignment.origin if target is None else target
            self._moving[at] = _Moving(Move.begin(assignment.origin, wanted), plain=True)
            return True
        if before is None:
            assert target is not None
            move = Move.begin(assignment.replicas, target)
        elif target is None:
            move = before.move.cancelled()
        elif target == before.move.target:
            return False
        else:
            move = before.move.overridden(target, self._batches.running.get(at))
        self._moving[at] = _Moving(move, plain=False)
        return True

    def list_ongoing(self, request: ListPartitionReassignments) -> Work[ListPartitionReassignmentsReply]:
        """The ongoing reassignments, their running steps, and the reasons of their waits."""
        asked = request.topic_partitions
        rows: list[OngoingReassignment] = []
        steps: list[CurrentBatch] = []
        waiting: list[WaitingReassignment] = []
        for at, moving in self._moving.items():
            assignment = self._machine.context.assignment(at)
            if assignment is None or not assignment.is_being_reassigned or (asked is not None and at not in asked):
                continue
            move, step = moving.move, self._batches.running.get(at)
            rows.append(
                OngoingReassignment(
                    topic_name=at[0],
                    partition_index=at[1],
                    replicas=assignment.replicas,
                    adding_replicas=move.missing,
                    removing_replicas=move.excess,
                )
            )
            if step is not None:
                steps.append(
                    CurrentBatch(
                        topic_name=at[0],
                        partition_index=at[1],
                        current_brokers=move.replicas,
                        target_brokers=step.replicas,
                    )
                )
            wait = self._waits.get(at)
            if wait is not None:
                waiting.append(
                    WaitingReassignment(topic_name=at[0], partition_index=at[1], reason=wait.reason.value, why=wait.why)
                )
        yield from ()
        return ListPartitionReassignmentsReply(topics=tuple(rows), current_batch=tuple(steps), waiting=tuple(waiting))

    # --- triggers ------------------------------------------------------------------------------------------------

    def _take_over(self) -> Work[None]:
        """Resume the reassignments in the store after a failover."""
        machine, context = self._machine, self._machine.context
        self._reset()
        running: list[tuple[TopicPartition, ReassignmentStep]] = []
        for at in context.reassigning_partitions():
            assignment = context.assignment(at)
            assert assignment is not None
            move = _move_in_store(assignment)
            self._moving[at] = _Moving(move, plain=not assignment.target_replicas)
            machine.note(
                ReassignmentStarted(
                    topic=at[0], partition=at[1], replicas=move.replicas, target=move.target, resumed=True
                )
            )
            if assignment.adding or assignment.removing:
                running.append((at, _step_in_store(assignment, move, self._standing(at))))
        yield from self._read_inputs()
        for at, step in running:
            self._batches.resume(at, step)
        for at in self._moving:
            if at not in self._batches:
                self._batches.submit(at)
        yield from self._asked_in_store()  # first, as a list in the tool's node overrides earlier requests
        for at, step in running:
            if self._batches.running.get(at) is step:
                yield from self._try_step(at, step)
        yield from self._schedule()

    def _brokers_started(self, brokers: list[int]) -> Work[None]:
        """Send the requests of steps with a replica on one of these brokers again."""
        for at, step in list(self._batches.running.items()):
            if any(broker in step.replicas for broker in brokers):
                yield from self._try_step(at, step)
        self._chosen_under = None  # the live brokers may be the same as before, but steps may be blocked
        yield from self._reschedule()

    def _brokers_failed(self, brokers: list[int]) -> Work[None]:
        """Update the waits after brokers failed: running steps continue, but some wait for other brokers now."""
        self._note_waits(self._moving)
        yield from ()

    def _isrs_changed(self, partitions: list[TopicPartition]) -> Work[None]:
        """Commit complete steps after leaders announced ISRs, and check blocked partitions again."""
        for at in partitions:
            yield from self._commit_if_due(at)
        blocked = [at for at in partitions if at in self._batches.blocked]
        for at in blocked:
            self._batches.restart(at)
        if blocked:
            yield from self._schedule()

    def _state_changed(self, topic: str, partition: str) -> Work[None]:
        """React to the watch on a partition's state."""
        yield from self._commit_if_due((topic, int(partition)))

    def _commit_if_due(self, at: TopicPartition) -> Work[None]:
        if at not in self._batches.running:
            return
        isr = self._isrs[at] = yield from self._work.read_isr(at)
        step = self._batches.running[at]
        if not self._waits_for(at, step, isr):
            yield from self._commit(at, step)
            yield from self._reschedule()
        self._note_waits([at])

    def _reschedule(self) -> Work[None]:
        """Choose again the steps that have not begun, after limits or brokers have changed."""
        if self._moving:
            yield from self._read_inputs()
            yield from self._schedule()

    # --- choosing ----------------------------------------------------------------------------------------------

    def _limits(self) -> Limits:
        if self._machine.rules.reassignment is ReassignmentAlgorithm.KIP_455:
            return Limits()
        dynamic, config = self._machine.configs.of_brokers, self._machine.config
        started_with = Limits(
            config.reassignment_max_concurrent_replica_movements,
            config.reassignment_max_concurrent_partition_movements,
            config.reassignment_max_concurrent_leader_movements,
        )
        return Limits(*(int(dynamic.get(key, default)) for key, default in limits_by_key(started_with).items()))

    def _read_inputs(self) -> Work[None]:
        """Read the other inputs of the next steps; if they have changed, choose the steps again."""
        machine = self._machine
        settings = yield from machine.partitions.topic_settings(dict.fromkeys(topic for topic, _ in self._moving))
        default = machine.configs.of_brokers.get(MIN_INSYNC_REPLICAS, str(machine.min_insync_replicas))
        self._least = {topic: int(own.get(MIN_INSYNC_REPLICAS, default)) for topic, own in settings.items()}
        limits = self._limits()
        now = (limits, tuple(machine.context.serving), self._least)
        if now != self._chosen_under:
            self._chosen_under = now
            self._batches.reconsider(limits)

    def _step_of(self, at: TopicPartition) -> ReassignmentStep | None:
        move = self._moving[at].move
        if move.done:  # no replica changes, so no broker is awaited (KafkaController.isReassignmentComplete)
            return ReassignmentStep(StepKind.REORDER, move.replicas)
        return next_step(move, self._standing(at), self._least[at[0]], self._batches.limits.replica_movements)

    def _standing(self, at: TopicPartition) -> Standing:
        context = self._machine.context
        known = context.leadership.get(at)
        online = frozenset(broker for broker in context.live if context.is_replica_online(broker, at))
        if known is None:
            return Standing(NO_LEADER, (), online)
        return Standing(known.state.leader, known.state.isr, online)

    def _waits_for(self, at: TopicPartition, step: ReassignmentStep, isr: tuple[int, ...]) -> str:
        return waits_for(self._moving[at].move, step, isr, self._least[at[0]])

    def _schedule(self) -> Work[None]:
        yield from self._begin_all(self._batches.start())

    def _begin_all(self, begun: list[tuple[TopicPartition, ReassignmentStep]]) -> Work[dict[TopicPartition, None]]:
        """Begin steps; a step that ends at once frees its limits for other steps. Returns the failed partitions.

        A failed partition stays in reassignment if the store has its step. An event of the step's brokers or ISR
        begins the step again. Source: ``KafkaController.maybeTriggerPartitionReassignment`` 3.9.
        """
        failed: dict[TopicPartition, None] = {}
        while begun:
            self._note_blocked()  # the blocked partitions left their places to the partitions that begin
            for at, step in begun:
                try:
                    yield from self._begin(at, step)
                except StoreRefused as error:
                    failed[at] = None
                    self._work.note_failed(f"{at[0]}-{at[1]}", str(error))
            begun = self._batches.start()
        self._note_blocked()
        self._note_waits(self._moving)
        return failed

    def _note_blocked(self) -> None:
        for at in self._batches.blocked:
            if at not in self._blocked:
                move = self._moving[at].move
                why = blocked_by(move, self._standing(at), self._least[at[0]])
                self._machine.note(
                    ReassignmentBlocked(
                        topic=at[0], partition=at[1], replicas=move.replicas, target=move.target, why=why
                    )
                )
        self._blocked = dict(self._batches.blocked)

    def _note_waits(self, partitions: Iterable[TopicPartition]) -> None:
        """Note each changed wait of these partitions."""
        for at in partitions:
            wait = self._wait_of(at)
            if wait is not None and wait != self._waits.get(at):
                self._waits[at] = wait
                self._machine.note(
                    ReassignmentWaits(
                        topic=at[0], partition=at[1], reason=wait.reason.value, brokers=wait.brokers, why=wait.why
                    )
                )

    def _wait_of(self, at: TopicPartition) -> Wait | None:
        """The current wait; None if the partition proceeds at once or is finished."""
        batches, moving = self._batches, self._moving.get(at)
        if moving is None or at not in batches:
            return None
        step, least = batches.running.get(at), self._least[at[0]]
        if step is not None:
            standing = self._standing(at)
            return of_step(moving.move, step, standing, self._isrs.get(at, standing.isr), least)
        if at in batches.blocked:
            return of_blocked(moving.move, self._standing(at), least)
        return of_limit(batches.limits, of_leaders=batches.waits_for_leaders(at))

    def _drop(self, at: TopicPartition) -> None:
        self._batches.remove(at)
        self._moving.pop(at, None)
        self._isrs.pop(at, None)
        self._waits.pop(at, None)
        self._machine.context.reassigning.pop(at, None)

    # --- a step ------------------------------------------------------------------------------------------------

    def _node(self, at: TopicPartition, move: Move, step: ReassignmentStep | None) -> ReplicaAssignment:
        """The content of the topic's node while this step runs (None: no step runs)."""
        moves = (
            ReplicaAssignment(move.replicas) if step is None else ReplicaAssignment(step.during, step.add, step.drop)
        )
        if self._moving[at].plain or (step is None and move.done):
            return moves
        return evolve(moves, target_replicas=move.target, original_replicas=move.original, rolls_back=move.rolls_back)

    def _store_waiting(self, partitions: list[TopicPartition]) -> Work[None]:
        """Store the targets of partitions that must wait, and stop the replicas that their steps were adding."""
        context = self._machine.context
        before: dict[TopicPartition, tuple[int, ...]] = {}
        for at in partitions:
            before[at] = context.replicas(at)
            context.assign(at, self._node(at, self._moving[at].move, None))
        yield from self._work.write(dict.fromkeys(topic for topic, _ in partitions))
        for at in partitions:
            yield from self._work.stop(at, without(before[at], context.replicas(at)))
            yield from self._elect_if_leaderless(at)

    def _begin(self, at: TopicPartition, step: ReassignmentStep) -> Work[None]:
        """Begin a step: U1 to U3, then A or B. A cancelled partition that is already at its target loses its target."""
        context = self._machine.context
        moving, current = self._moving[at], context.assignment(at)
        assert current is not None
        wanted = self._node(at, moving.move, None if moving.move.done else step)
        if current != wanted:
            context.assign(at, wanted)
            try:
                yield from self._work.write((at[0],))
            except StoreRefused:
                context.assign(at, current)
                self._drop(at)
                raise
            yield from self._work.stop(at, without(current.replicas, wanted.replicas))
        yield from self._try_step(at, step)

    def _try_step(self, at: TopicPartition, step: ReassignmentStep) -> Work[None]:
        """Commit the step if all its replicas are in sync; otherwise send its requests. The call may be repeated at any
        time.
        """
        machine = self._machine
        isr = self._isrs[at] = yield from self._work.read_isr(at)
        why = self._waits_for(at, step, isr)
        machine.note(
            ReassignmentStepStarted(
                topic=at[0],
                partition=at[1],
                kind=step.kind.value,
                replicas=step.replicas,
                adding=step.add,
                removing=step.drop,
                waits_for=why,
            )
        )
        if not why:
            yield from self._commit(at, step)
            return
        yield from self._elect_if_leaderless(at)
        yield from self._work.raise_epoch(at, "replicas are added" if step.add else "replicas must be in sync")
        yield from self._work.start_new(at, step.add)

    def _commit(self, at: TopicPartition, step: ReassignmentStep) -> Work[None]:
        """Commit the step, by the actions of group B in the module's table."""
        machine, context = self._machine, self._machine.context
        moving = self._moving[at]
        move = moving.move.committed(step)
        yield from machine.replicas.move([(*at, broker) for broker in step.add], ReplicaPhase.ONLINE)
        context.assign(at, self._node(at, move, None))
        yield from self._settle_leader(at, step, move)
        self._moving[at] = moving._replace(move=move)
        yield from self._work.stop(at, step.drop)
        yield from self._work.write((at[0],))
        known = context.leadership[at].state
        machine.note(
            ReassignmentStepCommitted(
                topic=at[0],
                partition=at[1],
                replicas=step.replicas,
                leader=known.leader,
                leader_epoch=known.leader_epoch,
                isr=known.isr,
            )
        )
        if move.done:
            self._drop(at)
            yield from self._remove_requests(lambda one, target: one == at and target == move.replicas)
            machine.note(ReassignmentFinished(topic=at[0], partition=at[1], replicas=move.replicas))
        else:
            self._batches.committed(at)
            self._waits.pop(at, None)
        machine.batch.send_metadata(context.live, (at,))
        yield from machine.deletion.resume_for((at[0],))

    def _settle_leader(self, at: TopicPartition, step: ReassignmentStep, move: Move) -> Work[None]:
        """Elect a leader, or raise the leader epoch (group B in the module's table).

        The assignment begins with the target's members, so that the election finds the preferred leader.
        """
        context = self._machine.context
        leader = self._work.known_leader(at)
        stays = leader in step.replicas and context.is_replica_online(leader, at)
        if stays and (step.kind is not StepKind.LEADER or leader == move.target[0]):
            yield from self._work.raise_epoch(at, "a step is committed")
        else:
            yield from self._machine.partitions.move((at,), PartitionPhase.ONLINE, Strategy.REASSIGN)

    def _elect_if_leaderless(self, at: TopicPartition) -> Work[None]:
        """Elect a leader now if a removed replica was the leader; clients must not wait for the end of the step."""
        known = self._machine.context.leadership.get(at)
        if known is not None and known.state.leader == NO_LEADER:
            yield from self._machine.partitions.move((at,), PartitionPhase.ONLINE, Strategy.REASSIGN)


def _move_in_store(assignment: ReplicaAssignment) -> Move:
    """The move to which an assignment in the store belongs."""
    if not assignment.target_replicas:
        return Move.begin(assignment.origin, assignment.target)
    replicas = assignment.origin
    if (assignment.adding or assignment.removing) and set(replicas) == set(assignment.original_replicas):
        replicas = assignment.original_replicas  # nothing is committed yet: keep the original order
    return Move(replicas, assignment.original_replicas, assignment.target_replicas, rolls_back=assignment.rolls_back)


def _step_in_store(assignment: ReplicaAssignment, move: Move, standing: Standing) -> ReassignmentStep:
    """The step that ran when the last controller wrote this assignment."""
    kind = StepKind.BATCH
    if set(assignment.target) == set(move.target):
        kind = StepKind.LAST
    elif move.target[0] in assignment.adding and not assignment.removing:
        kind = StepKind.LEADER
    goes = standing.leader in assignment.removing or standing.leader not in standing.online
    return ReassignmentStep(
        kind, assignment.target, assignment.adding, assignment.removing, moves_leader=kind is StepKind.LEADER or goes
    )
