"""Brokers' reports of changed ISRs, failed log directories and deleted replicas: by nodes in the store, or by answers.

A broker whose log directory failed does not list the affected replicas: the broker creates a node. The controller then
sends LeaderAndIsr for all replicas of the broker, and the broker refuses the offline replicas with KAFKA_STORAGE_ERROR
(KIP-112).

Source: Kafka 2.8 ``KafkaController``.
"""

from kemu.actors.controller.context import PartitionReplica
from kemu.actors.controller.dispatch import Dispatch, Job, Moment
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.phases import ReplicaPhase
from kemu.actors.controller.transactions import Work, ask, ask_one, children, create, delete, get
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import LeaderAndIsr, LeaderAndIsrReply, StopReplica, StopReplicaReply
from kemu.protocol.messages.store import CreateMode, StoreCode
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import (
    ISR_CHANGES,
    LOG_DIR_EVENT_PREFIX,
    LOG_DIR_EVENTS,
    log_dir_event_data,
    read_log_dir_event,
    read_partitions,
)


class BrokerReports:
    """The controller's part for reports of brokers."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine

    def subscribe(self, to: Dispatch) -> None:
        """Subscribe to announcements in the store, and to brokers' answers."""
        to.on_watch(ISR_CHANGES, Job("isr-changes", self.isr_changes))
        to.on_watch(LOG_DIR_EVENTS, Job("log-dir-events", self.log_dir_events))
        to.on_answer(LeaderAndIsr, Job("directories", self.directories))
        to.on_answer(StopReplica, Job("deleted", self.deleted))
        to.on_moment(Moment.ISRS_CHANGED, self._send_isrs)

    def isr_changes(self) -> Work[None]:
        """Read the states of partitions whose leaders announced a new ISR, and send metadata to all brokers."""
        listed = yield from ask_one(children(ISR_CHANGES, watch=True))
        paths = [f"{ISR_CHANGES}/{name}" for name in listed.children]
        results = yield from ask([get(path) for path in paths])
        announced: dict[TopicPartition, None] = {}
        for result in results:
            if result.code is StoreCode.OK:
                announced.update(dict.fromkeys(read_partitions(result.data)))
        known = [at for at in announced if self._machine.context.assignment(at) is not None]
        self._machine.context.leadership.update((yield from self._machine.store.read_states(known)))
        yield from self._machine.dispatch.reach(Moment.ISRS_CHANGED, known)
        yield from self._machine.store.write([delete(path) for path in paths])

    def _send_isrs(self, partitions: list[TopicPartition]) -> Work[None]:
        """Send the new ISRs to all brokers."""
        self._machine.batch.send_metadata(self._machine.context.live, partitions)
        yield from ()

    def log_dir_failed(self) -> Work[None]:
        """Tell the controller that this broker has lost a log directory. Source: ``propagateLogDirEvent``."""
        event = log_dir_event_data(self._machine.broker_id)
        yield from ask([create(LOG_DIR_EVENTS), create(LOG_DIR_EVENT_PREFIX, event, CreateMode.PERSISTENT_SEQUENTIAL)])

    def log_dir_events(self) -> Work[None]:
        """Send LeaderAndIsr for all replicas to each broker with a failed log directory.

        Source: ``KafkaController.onBrokerLogDirFailure``.
        """
        machine, context = self._machine, self._machine.context
        listed = yield from ask_one(children(LOG_DIR_EVENTS, watch=True))
        paths = [f"{LOG_DIR_EVENTS}/{name}" for name in listed.children]
        results = yield from ask([get(path) for path in paths])
        failing = dict.fromkeys(read_log_dir_event(each.data) for each in results if each.code is StoreCode.OK)
        yield from machine.replicas.move(context.replicas_on(failing), ReplicaPhase.ONLINE)
        yield from machine.store.write([delete(path) for path in paths])

    def directories(self, broker: int, request: LeaderAndIsr, reply: LeaderAndIsrReply) -> Work[None]:
        """Record the logs that a broker could not open: such replicas are offline until an answer without an error."""
        if reply.error_code is not ErrorCode.NONE:
            return
        failed = self._machine.context.offline_dirs.setdefault(broker, {})
        new: list[PartitionReplica] = []
        for row in reply.partition_errors:
            at = (row.topic_name, row.partition_index)
            if row.error_code is ErrorCode.NONE:
                failed.pop(at, None)
            elif row.error_code is ErrorCode.KAFKA_STORAGE_ERROR and at not in failed:
                failed[at] = None
                new.append((*at, broker))
        if new:
            yield from self._machine.brokers.replicas_went_offline(new)

    def deleted(self, broker: int, request: StopReplica, reply: StopReplicaReply) -> Work[None]:
        """Record the replicas that a broker has deleted, according to its answer to StopReplica."""
        to_delete = {
            (row.topic_name, row.partition_index): None
            for row in request.partition_states
            if row.delete_partition or request.delete_partitions
        }
        done: list[PartitionReplica] = []
        failed: list[PartitionReplica] = []
        for row in reply.partition_errors:  # none for a stale request: the controller notices the broker's restart
            at = (row.topic_name, row.partition_index)
            if at in to_delete:
                (done if row.error_code is ErrorCode.NONE else failed).append((*at, broker))
        yield from self._machine.deletion.failed(failed)
        yield from self._machine.deletion.done(done)
