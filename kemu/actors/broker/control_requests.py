"""The controller's requests to a broker (a part of the replicated broker).

The requests are LeaderAndIsr, StopReplica and UpdateMetadata. The controller's epoch and the broker's own epoch fence
each request. The leader epoch of each partition also fences LeaderAndIsr and StopReplica. The broker learns its broker
epoch shortly after the start, when it is registered. Requests wait for the registration: the broker could not
distinguish them from requests for an earlier registration.

Source: Kafka 2.8's ``KafkaApis``, ``ReplicaManager``; KIP-380 (broker epoch), KIP-570 (leader epoch in StopReplica).
"""

from kemu.actors.broker.answers import ClusterAnswers
from kemu.actors.broker.group_log import OffsetsHost
from kemu.actors.broker.high_watermarks import HighWatermarks
from kemu.actors.broker.led_partitions import LedPartitions
from kemu.actors.broker.partition_log import log_name
from kemu.actors.broker.replica import Replica, Role
from kemu.actors.broker.replica_fetchers import ReplicaFetchers
from kemu.actors.broker.replica_log import DELETED_ENTRY, epoch_entry, topic_id_entry
from kemu.actors.broker.replica_manager import ReplicaManager
from kemu.actors.broker.rules import StopEpoch
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.machine import Caller, Draws, Machine, Received, caller_of
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    NO_TOPIC_ID,
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
    LogDirFailed,
    LogOfAnotherTopic,
    ReplicaStopped,
)

_NONE = ErrorCode.NONE


class StopCall:
    """A StopReplica that is answered when its logs are deleted from the disk."""

    __slots__ = ("caller", "errors", "left")

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.left = 0


class ControlRequests:
    """The broker's reaction to the controller's requests."""

    def __init__(
        self,
        machine: Machine,
        manager: ReplicaManager,
        fetchers: ReplicaFetchers,
        led: LedPartitions,
        watermarks: HighWatermarks,
        offsets: OffsetsHost,
        answers: ClusterAnswers,
        draws: Draws = CALM,
    ) -> None:
        self._draws = draws
        self._machine = machine
        self._manager = manager
        self._fetchers = fetchers
        self._led = led
        self._watermarks = watermarks
        self._offsets = offsets
        self._answers = answers
        self.controller_id = -1
        self.controller_epoch = 0
        self.broker_epoch = -1
        """The epoch of the broker's registration; -1 while unknown."""
        self._held: list[Received] = []
        """Control requests that arrived before the broker epoch was known."""
        self._waiting_for_logs: list[Received] = []
        """A LeaderAndIsr whose replicas are being made leaders, or whose logs are being created, and all later
        requests."""
        self._last_epochs = (-1, -1)
        """The controller epoch and the broker epoch of the last executed request."""

    def registered(self, broker_epoch: int) -> None:
        """Set the broker epoch, and execute the waiting requests."""
        self.broker_epoch = max(self.broker_epoch, broker_epoch)
        held, self._held = self._held, []
        for event in held:
            self.asked(event)

    def asked(self, event: Received) -> None:
        """Execute a control request, now or later."""
        if self.broker_epoch < 0:
            self._held.append(event)
            return
        if self._waiting_for_logs:
            self._waiting_for_logs.append(event)
            return
        if isinstance(event.message, LeaderAndIsr) and (us := self._making_us(event.message)):
            self._waiting_for_logs.append(event)
            self._machine.start_timer((BrokerTimer.MAKING_LOGS,), us)
            return
        self._decide(event)

    def logs_made(self) -> None:
        """Execute all waiting requests in order, when the timer MAKING_LOGS fired (``replicaStateChangeLock``)."""
        (made, *rest), self._waiting_for_logs = self._waiting_for_logs, []
        self._decide(made)
        for event in rest:
            self.asked(event)

    def _making_us(self, request: LeaderAndIsr) -> int:
        """The time to create the missing logs of this broker's replicas, and to make its replicas leaders."""
        manager, draws = self._manager, self._draws
        one_us = manager.replication.emulated_log_create_us
        us = 0
        for row in request.partition_states:
            replica = manager.replicas.get((row.topic_name, row.partition_index))
            if replica is None and manager.node_id in row.replicas:
                us += one_us
            if row.leader == manager.node_id and (replica is None or row.leader_epoch > replica.leader_epoch):
                us += draws.us(DrawName.LEADER_CHANGE, 0)
        return us

    def _decide(self, event: Received) -> None:
        match event.message:
            case LeaderAndIsr():
                self._leader_and_isr(event, event.message)
            case StopReplica():
                self._stop(event, event.message)
            case UpdateMetadata():
                self._update(event, event.message)
            case _:
                raise AssertionError(f"{self._machine.name}: not from a controller: {event}")

    # --- fences ------------------------------------------------------------------------------------------------

    def _refusal(self, request: LeaderAndIsr | StopReplica | UpdateMetadata) -> ErrorCode:
        """The error that refuses a whole request; NONE after its controller epoch is adopted."""
        manager = self._manager
        error = _NONE
        if 0 <= request.broker_epoch < self.broker_epoch and manager.rules.checks_broker_epoch:
            error = ErrorCode.STALE_BROKER_EPOCH
        elif request.controller_epoch < self.controller_epoch and manager.rules.checks_controller_epoch:
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        if error is not _NONE:
            self._machine.note(
                ControlRequestRefused(
                    api=type(request).__name__,
                    error=error,
                    controller_epoch=request.controller_epoch,
                    broker_epoch=request.broker_epoch,
                )
            )
        else:
            self.controller_epoch = max(self.controller_epoch, request.controller_epoch)
            self.controller_id = request.controller_id
            epochs = (request.controller_epoch, request.broker_epoch)
            if epochs != self._last_epochs:
                self._last_epochs = epochs
                self._machine.note(
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
            self._machine.reply(event, LeaderAndIsrReply(error_code=error, partition_errors=()))
            return
        rows = tuple(
            _outcome(state.topic_name, state.partition_index, self._take_part(state))
            for state in request.partition_states
        )
        self._fetchers.run()
        self._machine.reply(event, LeaderAndIsrReply(error_code=_NONE, partition_errors=rows))

    def _take_part(self, state: LeaderAndIsrPartition) -> ErrorCode:
        """Lead or follow one partition; returns the error.

        A leader epoch that is not higher than the replica's is stale or already adopted.
        """
        manager = self._manager
        at = (state.topic_name, state.partition_index)
        replica = manager.replicas.get(at)
        if replica is not None and replica.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if replica is not None and self._is_of_another_topic(replica, state):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        known = replica.leader_epoch if replica is not None else -1
        if state.leader_epoch <= known and (state.leader_epoch == known or manager.rules.checks_leader_epoch):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if manager.node_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if replica is None and not state.is_new and manager.dirs.may_be_in_failed_dir(log_name(*at)):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if replica is None:
            replica = manager.create(at)
        if replica.log.topic_id == NO_TOPIC_ID != state.topic_id:
            replica.log.topic_id = state.topic_id
            manager.write_journal(replica, (topic_id_entry(state.topic_id),))
        if state.leader == manager.node_id:
            self._lead(replica, state)
        elif state.leader in manager.live_brokers:
            self._follow(replica, state)
        # Otherwise the role does not change: the leader is not live, and the controller will send another leader.
        return _NONE

    def _is_of_another_topic(self, replica: Replica, state: LeaderAndIsrPartition) -> bool:
        """Whether the log belongs to a deleted topic that had the name of the new topic.

        No request makes this broker delete the log. The new topic has no replica here until the new topic is deleted or
        an operator removes the log. Source: ``ReplicaManager.hasConsistentTopicId``, KIP-516.
        """
        ours = replica.log.topic_id
        if NO_TOPIC_ID in (ours, state.topic_id) or ours == state.topic_id:
            return False
        self._machine.note(
            LogOfAnotherTopic(
                topic=replica.topic, partition=replica.number, topic_id=state.topic_id, topic_id_of_log=ours
            )
        )
        return True

    def _lead(self, replica: Replica, state: LeaderAndIsrPartition) -> None:
        manager = self._manager
        self._fetchers.forget(replica.at)
        if replica.lead(state, manager.node_id, self._machine.now_us, manager.rules):
            manager.write_journal(replica, (epoch_entry(state.leader_epoch, replica.log.end_offset),))
        manager.led[replica.at] = replica
        if self._answers.knows(*replica.at):
            manager.served[replica.at] = replica
        self._machine.note(
            BecameLeader(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                isr=replica.in_sync.members,
                end_offset=replica.log.end_offset,
                high_watermark=replica.log.high_watermark,
                epochs=replica.log.epochs.entries,
            )
        )
        self._offsets.leads(replica)
        self._watermarks.advance(replica)

    def _follow(self, replica: Replica, state: LeaderAndIsrPartition) -> None:
        manager = self._manager
        self._leave(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER, state)
        same = replica.follow(state)
        self._machine.note(
            BecameFollower(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                leader=replica.leader,
                end_offset=replica.log.end_offset,
                high_watermark=replica.log.high_watermark,
            )
        )
        if manager.is_shutting_down:  # otherwise the broker would rejoin ISRs from which the shutdown removed it
            self._fetchers.forget(replica.at)
            return
        truncates = not same or manager.rules.follows_same_leader_again
        self._fetchers.follow(replica, manager.live_brokers[state.leader], truncates=truncates)

    def _leave(self, replica: Replica, error: ErrorCode, state: LeaderAndIsrPartition | None = None) -> None:
        """End a leadership. ``state``: names the next leader, whom errors then name to waiting clients.

        Source: ``ReplicaManager.makeFollowers`` answers waiting requests after ``Partition.makeFollower``.
        """
        if replica.role is Role.LEADER:
            led_epoch = replica.leader_epoch
            if state is not None:
                replica.take_epoch(state)
            self._led.end(replica, error)
            self._offsets.stops_leading(replica, led_epoch)

    def fail(self, replica: Replica) -> None:
        """Mark a replica as offline after its disk failed."""
        self._leave(replica, ErrorCode.KAFKA_STORAGE_ERROR)
        self._fetchers.forget(replica.at)
        replica.stop(Role.OFFLINE)

    def fail_dir(self, number: int) -> None:
        """Mark all replicas in a failed log directory as offline. Source: ``ReplicaManager.handleLogDirFailure``."""
        failed = self._manager.fail_dir(number)
        for replica in failed:
            self.fail(replica)
        self._machine.note(LogDirFailed(log_dir=number, partitions=tuple(replica.at for replica in failed)))

    # --- stopping ----------------------------------------------------------------------------------------------

    def _stop(self, event: Received, request: StopReplica) -> None:
        error = self._refusal(request)
        if error is not _NONE:
            self._machine.reply(event, StopReplicaReply(error_code=error, partition_errors=()))
            return
        call = StopCall(caller_of(event))
        for state in request.partition_states:
            self._stop_one(state, request.delete_partitions, call)
        if not call.left:
            self._answer(call)

    def _stop_one(self, state: StopReplicaPartition, delete_all: bool, call: StopCall) -> None:
        """Stop one replica. If the replica's log is deleted, ``call`` waits for the deletion."""
        at = (state.topic_name, state.partition_index)
        error = self._may_stop(at, state.leader_epoch)
        replica = self._manager.replicas.get(at)
        if replica is not None and error is _NONE:
            self._fetchers.forget(at)  # first: no write may reach a log while it is deleted (KAFKA-10371)
            self._leave(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            replica.stop()
            delete = state.delete_partition or delete_all
            if delete:
                self._delete(replica, call)
            self._machine.note(
                ReplicaStopped(
                    topic=replica.topic, partition=replica.number, leader_epoch=state.leader_epoch, deleted=delete
                )
            )
            if delete:
                self._manager.forget_watermark(replica)
        call.errors[at] = error

    def _may_stop(self, at: TopicPartition, leader_epoch: int) -> ErrorCode:
        """The error if a replica may not be stopped; otherwise NONE."""
        replica = self._manager.replicas.get(at)
        if replica is None:
            return _NONE
        if replica.role is Role.OFFLINE:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if leader_epoch > replica.leader_epoch or leader_epoch in (NO_EPOCH, EPOCH_DURING_DELETE):
            return _NONE
        rule = self._manager.rules.stop_epoch
        if rule is StopEpoch.UNCHECKED or (rule is StopEpoch.NOT_LOWER and leader_epoch == replica.leader_epoch):
            return _NONE
        return ErrorCode.FENCED_LEADER_EPOCH

    def _delete(self, replica: Replica, call: StopCall) -> None:
        """Delete a log; ``call`` is answered when the disk has deleted all of its logs."""
        self._manager.remove(replica)
        call.left += 1

        def deleted(error: ErrorCode) -> None:
            call.left -= 1
            call.errors[replica.at] = error
            if not call.left:
                self._answer(call)

        self._manager.write_journal(replica, (DELETED_ENTRY,), deleted)

    def _answer(self, call: StopCall) -> None:
        rows = tuple(_outcome(*at, error) for at, error in call.errors.items())
        self._machine.reply(call.caller, StopReplicaReply(error_code=_NONE, partition_errors=rows))

    # --- the cluster -------------------------------------------------------------------------------------------

    def _update(self, event: Received, request: UpdateMetadata) -> None:
        error = self._refusal(request)
        if error is _NONE:
            self._manager.live_brokers = {broker.id: broker.host for broker in request.live_brokers}
            self._answers.update(request)
            self._offsets.knows(self._answers.topics)
            self._serve(request)
        self._machine.reply(event, UpdateMetadataReply(error_code=error))

    def _serve(self, request: UpdateMetadata) -> None:
        """Serve clients and followers only for led partitions that are in the metadata cache.

        Source: ``metadataCache.contains`` in ``KafkaApis.handleProduceRequest``, ``handleFetchRequest`` and
        ``handleDeleteRecordsRequest``.
        """
        manager = self._manager
        for state in request.partition_states:
            at = (state.topic_name, state.partition_index)
            replica = manager.led.get(at)
            if replica is None:
                continue
            if self._answers.knows(*at):
                manager.served[at] = replica
            else:
                manager.served.pop(at, None)


def _outcome(topic: str, partition: int, error: ErrorCode) -> PartitionOutcome:
    return PartitionOutcome(topic_name=topic, partition_index=partition, error_code=error)
