"""What the controller tells a broker, and what becomes of it (a part of the replicated broker).

LeaderAndIsr, StopReplica, UpdateMetadata: each is fenced by the controller's epoch and by our broker epoch, then
LeaderAndIsr and StopReplica by the leader epoch of each partition. Until we know our own broker epoch (we are
registered a moment after the start) requests wait: nobody could tell those of an earlier life from ours.

Source: Kafka 2.8's ``KafkaApis``, ``ReplicaManager``; KIP-380 (broker epoch), KIP-570 (leader epoch in StopReplica).
"""

from typing import Protocol

from kemu.actors.broker.desk import ReplicaDesk
from kemu.actors.broker.follower import Fetchers
from kemu.actors.broker.replica import Replica, Role
from kemu.actors.broker.replica_log import DELETED_ENTRY, ReplicaLog, epoch_entry
from kemu.actors.broker.rules import StopEpoch
from kemu.actors.machine import Caller, Received, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrReply,
    PartitionOutcome,
    StopReplica,
    StopReplicaPartition,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    ControlRequestRefused,
    ControlRequestTaken,
    ReplicaStopped,
)

_NONE = ErrorCode.NONE


class Leadership(Protocol):
    """The broker, as told about what it leads."""

    def leads(self, replica: Replica) -> None:
        """We lead this partition from now on, or go on under a new epoch."""
        ...

    def leads_no_more(self, replica: Replica, error: ErrorCode) -> None:
        """Whoever waits at this partition is to be told so; called before the role changes."""
        ...

    def follows(self, replica: Replica) -> None:
        """We follow from now on."""
        ...

    def gone(self, replica: Replica) -> None:
        """The replica was stopped."""
        ...

    def cluster_changed(self, request: UpdateMetadata) -> None:
        """What we know of the cluster changed."""
        ...


class StopCall:
    """A StopReplica that is answered when the logs it deletes are gone from the disk."""

    __slots__ = ("caller", "left", "rows")

    def __init__(self, caller: Caller, rows: tuple[PartitionOutcome, ...], left: int) -> None:
        self.caller = caller
        self.rows = rows
        self.left = left


class ReplicaControl:
    """See the module."""

    def __init__(self, desk: ReplicaDesk, fetchers: Fetchers, leadership: Leadership) -> None:
        self._desk = desk
        self._fetchers = fetchers
        self._leadership = leadership
        self._held: list[Received] = []
        """Control requests that came before we knew our broker epoch."""
        self._deleting: dict[int, StopCall] = {}
        """Token of a deletion's journal entry -> whose answer waits for it."""
        self._taken = (-1, -1)
        """Controller and broker epoch of the last request that was obeyed."""

    def registered(self, broker_epoch: int) -> None:
        """We know our epoch: what waited for it is decided now."""
        self._desk.broker_epoch = max(self._desk.broker_epoch, broker_epoch)
        held, self._held = self._held, []
        for event in held:
            self.asked(event)

    def asked(self, event: Received) -> None:
        """Decide a control request."""
        if self._desk.broker_epoch < 0:
            self._held.append(event)
            return
        match event.message:
            case LeaderAndIsr():
                self._leader_and_isr(event, event.message)
            case StopReplica():
                self._stop(event, event.message)
            case UpdateMetadata():
                self._update(event, event.message)
            case _:
                raise AssertionError(f"{self._desk.name}: not from a controller: {event}")

    # --- fences ------------------------------------------------------------------------------------------------

    def _refusal(self, request: LeaderAndIsr | StopReplica | UpdateMetadata) -> ErrorCode:
        """Why a whole request is refused; NONE adopts its controller epoch."""
        desk = self._desk
        error = _NONE
        if desk.rules.checks_broker_epoch and 0 <= request.broker_epoch < desk.broker_epoch:
            error = ErrorCode.STALE_BROKER_EPOCH
        elif desk.rules.checks_controller_epoch and request.controller_epoch < desk.controller_epoch:
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        if error is not _NONE:
            desk.note(
                ControlRequestRefused(
                    api=type(request).__name__,
                    error=error,
                    controller_epoch=request.controller_epoch,
                    broker_epoch=request.broker_epoch,
                )
            )
        else:
            desk.controller_epoch = max(desk.controller_epoch, request.controller_epoch)
            desk.controller_id = request.controller_id
            epochs = (request.controller_epoch, request.broker_epoch)
            if epochs != self._taken:
                self._taken = epochs
                desk.note(
                    ControlRequestTaken(
                        api=type(request).__name__,
                        controller_epoch=request.controller_epoch,
                        broker_epoch=request.broker_epoch,
                    )
                )
        return error

    # --- leaders and followers ---------------------------------------------------------------------------------

    def _leader_and_isr(self, event: Received, request: LeaderAndIsr) -> None:
        error = self._refusal(request)
        if error is not _NONE:
            self._desk.reply(event, LeaderAndIsrReply(error_code=error, partition_errors=()))
            return
        rows = tuple(
            _outcome(state.topic_name, state.partition_index, self._take_part(state))
            for state in request.partition_states
        )
        self._fetchers.run()
        self._desk.reply(event, LeaderAndIsrReply(error_code=_NONE, partition_errors=rows))

    def _take_part(self, state: LeaderAndIsrPartition) -> ErrorCode:
        """Lead or follow one partition; why not. An epoch that is not higher is old news, or ours already."""
        desk = self._desk
        at = (state.topic_name, state.partition_index)
        replica = desk.replicas.get(at)
        if replica is not None and replica.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = replica.leader_epoch if replica is not None else -1
        if state.leader_epoch <= known and (desk.rules.checks_leader_epoch or state.leader_epoch == known):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if desk.node_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if replica is None:
            replica = self._create(at)
        if state.leader == desk.node_id:
            self._lead(replica, state)
        elif state.leader in desk.live_brokers:
            self._follow(replica, state)
        # Else we keep our role: a follower of nobody is of no use, and the controller will tell when there is a leader.
        return _NONE

    def _create(self, at: TopicPartition) -> Replica:
        settings = self._desk.topic_settings.get(at[0])
        min_in_sync = settings.min_in_sync if settings is not None else None
        replica = self._desk.replicas[at] = Replica(
            *at,
            ReplicaLog(),
            record_bytes=settings.record_bytes if settings is not None else 100,
            min_in_sync=self._desk.replication.min_insync_replicas if min_in_sync is None else min_in_sync,
        )
        return replica

    def adopt(self, at: TopicPartition, log: ReplicaLog) -> Replica:
        """A log that was found on the disk; it has no role until the controller says so."""
        replica = self._create(at)
        replica.log = log
        return replica

    def _lead(self, replica: Replica, state: LeaderAndIsrPartition) -> None:
        desk = self._desk
        self._fetchers.forget(replica.at)
        if replica.lead(state, desk.node_id, desk.now_us, desk.rules):
            desk.write_journal(replica, (epoch_entry(state.leader_epoch, replica.log.end_offset),))
        desk.partitions[replica.at] = replica
        desk.note(
            BecameLeader(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                isr=replica.in_sync.members,
                end_offset=replica.log.end_offset,
                high_watermark=replica.log.high_watermark,
            )
        )
        self._leadership.leads(replica)
        desk.advance(replica)

    def _follow(self, replica: Replica, state: LeaderAndIsrPartition) -> None:
        desk = self._desk
        self._leave(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        same = replica.follow(state)
        desk.note(
            BecameFollower(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                leader=replica.leader,
                end_offset=replica.log.end_offset,
                high_watermark=replica.log.high_watermark,
            )
        )
        truncates = not same or desk.rules.follows_same_leader_again
        self._fetchers.follow(replica, desk.live_brokers[state.leader], truncates=truncates)
        self._leadership.follows(replica)

    def _leave(self, replica: Replica, error: ErrorCode) -> None:
        if replica.role is Role.LEADER:
            self._leadership.leads_no_more(replica, error)

    def fail(self, replica: Replica) -> None:
        """Its disk failed: it is offline from now on."""
        self._leave(replica, ErrorCode.KAFKA_STORAGE_ERROR)
        self._fetchers.forget(replica.at)
        replica.stop(Role.OFFLINE)
        self._leadership.gone(replica)

    # --- stopping ----------------------------------------------------------------------------------------------

    def _stop(self, event: Received, request: StopReplica) -> None:
        error = self._refusal(request)
        if error is not _NONE:
            self._desk.reply(event, StopReplicaReply(error_code=error, partition_errors=()))
            return
        rows: list[PartitionOutcome] = []
        deletions: list[int] = []
        for state in request.partition_states:
            delete = state.delete_partition or request.delete_partitions
            outcome, token = self._stop_one(state, delete)
            rows.append(_outcome(state.topic_name, state.partition_index, outcome))
            if token:
                deletions.append(token)
        call = StopCall(caller_of(event), tuple(rows), len(deletions))
        for token in deletions:
            self._deleting[token] = call
        if not deletions:
            self._answer(call)

    def _stop_one(self, state: StopReplicaPartition, delete: bool) -> tuple[ErrorCode, int]:
        """Stop one replica; the error, and the token of the journal entry that deletes it (0: none)."""
        at = (state.topic_name, state.partition_index)
        replica = self._desk.replicas.get(at)
        if replica is None:
            return _NONE, 0
        if replica.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR, 0
        if not self._may_stop(replica, state.leader_epoch):
            return ErrorCode.FENCED_LEADER_EPOCH, 0
        self._fetchers.forget(at)  # first: a log must not be written to while it is deleted (KAFKA-10371)
        self._leave(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica.stop()
        token = 0
        if delete:
            del self._desk.replicas[at]
            token = self._desk.write_journal(replica, (DELETED_ENTRY,))
        self._desk.note(
            ReplicaStopped(
                topic=replica.topic, partition=replica.number, leader_epoch=state.leader_epoch, deleted=delete
            )
        )
        self._leadership.gone(replica)
        return _NONE, token

    def _may_stop(self, replica: Replica, leader_epoch: int) -> bool:
        rule = self._desk.rules.stop_epoch
        if rule is StopEpoch.UNCHECKED or leader_epoch in (NO_EPOCH, EPOCH_DURING_DELETE):
            return True
        if rule is StopEpoch.NOT_LOWER and leader_epoch == replica.leader_epoch:
            return True
        return leader_epoch > replica.leader_epoch

    def deleted(self, token: int) -> None:
        """A journal entry is durable: if a StopReplica waited for it, that may be answered now."""
        call = self._deleting.pop(token, None)
        if call is not None:
            call.left -= 1
            if call.left == 0:
                self._answer(call)

    def _answer(self, call: StopCall) -> None:
        self._desk.reply(call.caller, StopReplicaReply(error_code=_NONE, partition_errors=call.rows))

    # --- the cluster -------------------------------------------------------------------------------------------

    def _update(self, event: Received, request: UpdateMetadata) -> None:
        error = self._refusal(request)
        if error is _NONE:
            self._desk.live_brokers = {broker.id: broker.host for broker in request.live_brokers}
            self._leadership.cluster_changed(request)
        self._desk.reply(event, UpdateMetadataReply(error_code=error))


def _outcome(topic: str, partition: int, error: ErrorCode) -> PartitionOutcome:
    return PartitionOutcome(topic_name=topic, partition_index=partition, error_code=error)
