"""What brokers report without being asked, and in their answers: changed ISRs, logs that do not open, deletions done.

A broker whose log directory failed does not say what lay there: it leaves a node, and the controller tells it about all
of its replicas again (LeaderAndIsr); those that it cannot open are refused with KAFKA_STORAGE_ERROR (KIP-112).

Source: Kafka 2.8 ``KafkaController``; spec sections 1.7, 1.9 and 1.12.
"""

from kemu.actors.controller.context import PartitionReplica, ReplicaPhase
from kemu.actors.controller.dispatch import Dispatch, Job, Moment
from kemu.actors.controller.machine import ControllerMachine
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
    """A part of the controller."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine

    def subscribe(self, to: Dispatch) -> None:
        """Announcements in the store, and answers of brokers."""
        to.on_watch(ISR_CHANGES, Job("isr-changes", self.isr_changes))
        to.on_watch(LOG_DIR_EVENTS, Job("log-dir-events", self.log_dir_events))
        to.on_answer(LeaderAndIsr, Job("directories", self.directories))
        to.on_answer(StopReplica, Job("deleted", self.deleted))
        to.on_moment(Moment.ISRS_CHANGED, self._tell_isrs)

    def isr_changes(self) -> Work[None]:
        """Leaders changed their ISRs: read the states, tell everybody."""
        listed = yield from ask_one(children(ISR_CHANGES, watch=True))
        paths = [f"{ISR_CHANGES}/{name}" for name in listed.children]
        results = yield from ask([get(path) for path in paths])
        told: dict[TopicPartition, None] = {}
        for result in results:
            if result.code is StoreCode.OK:
                told.update(dict.fromkeys(read_partitions(result.data)))
        known = [at for at in told if self._machine.context.assignment(at) is not None]
        self._machine.context.leadership.update((yield from self._machine.store.read_states(known)))
        yield from self._machine.dispatch.reach(Moment.ISRS_CHANGED, known)
        yield from self._machine.store.write([delete(path) for path in paths])

    def _tell_isrs(self, partitions: list[TopicPartition]) -> Work[None]:
        """All brokers learn the new ISRs."""
        self._machine.batch.send_metadata(self._machine.context.live, partitions)
        yield from ()

    def log_dir_failed(self) -> Work[None]:
        """Our own broker has lost a log directory: whoever controls is to know. Source: ``propagateLogDirEvent``."""
        event = log_dir_event_data(self._machine.broker_id)
        yield from ask([create(LOG_DIR_EVENTS), create(LOG_DIR_EVENT_PREFIX, event, CreateMode.PERSISTENT_SEQUENTIAL)])

    def log_dir_events(self) -> Work[None]:
        """Log directories of brokers failed: ask these about all of their replicas.

        Source: ``KafkaController.onBrokerLogDirFailure``.
        """
        machine, context = self._machine, self._machine.context
        listed = yield from ask_one(children(LOG_DIR_EVENTS, watch=True))
        paths = [f"{LOG_DIR_EVENTS}/{name}" for name in listed.children]
        results = yield from ask([get(path) for path in paths])
        told = dict.fromkeys(read_log_dir_event(each.data) for each in results if each.code is StoreCode.OK)
        yield from machine.replicas.move(context.replicas_on(told), ReplicaPhase.ONLINE)
        yield from machine.store.write([delete(path) for path in paths])

    def directories(self, broker: int, request: LeaderAndIsr, reply: LeaderAndIsrReply) -> Work[None]:
        """Which logs a broker could not open: those replicas are offline until it says otherwise."""
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
        """A broker answered a StopReplica: whether it has deleted what was to be deleted."""
        to_delete = {
            (row.topic_name, row.partition_index): None
            for row in request.partition_states
            if row.delete_partition or request.delete_partitions
        }
        done: list[PartitionReplica] = []
        failed: list[PartitionReplica] = []
        for row in reply.partition_errors:  # none, if the whole request was stale: then the broker's bounce is noticed
            at = (row.topic_name, row.partition_index)
            if at in to_delete:
                (done if row.error_code is ErrorCode.NONE else failed).append((*at, broker))
        yield from self._machine.deletion.failed(failed)
        yield from self._machine.deletion.done(done)
