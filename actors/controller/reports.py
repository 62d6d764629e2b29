"""What brokers report without being asked, and in their answers: changed ISRs, logs that do not open, deletions done.

Source: Kafka 2.8 ``KafkaController``; spec sections 1.7, 1.9 and 1.12.
"""

from kemu.actors.controller.brokers import BrokerChanges
from kemu.actors.controller.context import PartitionReplica
from kemu.actors.controller.desk import ControllerBase
from kemu.actors.controller.topic_deletion import TopicDeletion
from kemu.actors.controller.transactions import Work, ask, ask_one, children, delete, get
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import PartitionOutcome, StopReplica, StopReplicaReply
from kemu.protocol.messages.store import StoreCode
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import ISR_CHANGES, read_partitions


class BrokerReports:
    """A part of the controller."""

    def __init__(self, controller: ControllerBase, deletion: TopicDeletion, brokers: BrokerChanges) -> None:
        self._controller = controller
        self._deletion = deletion
        self._brokers = brokers

    def isr_changes(self) -> Work[None]:
        """Leaders changed their ISRs: read the states, tell everybody."""
        listed = yield from ask_one(children(ISR_CHANGES, watch=True))
        paths = [f"{ISR_CHANGES}/{name}" for name in listed.children]
        results = yield from ask([get(path) for path in paths])
        told: dict[TopicPartition, None] = {}
        for result in results:
            if result.code is StoreCode.OK:
                told.update(dict.fromkeys(read_partitions(result.data)))
        known = [at for at in told if self._controller.context.assignment(at) is not None]
        self._controller.context.leadership.update((yield from self._controller.store.read_states(known)))
        self._controller.send_update_metadata(self._controller.context.live, known)
        yield from self._controller.store.write([delete(path) for path in paths])

    def directories(self, broker: int, rows: tuple[PartitionOutcome, ...]) -> Work[None]:
        """A broker could not open logs: those replicas are offline until it says otherwise."""
        failed = self._controller.context.offline_dirs.setdefault(broker, {})
        new: list[PartitionReplica] = []
        for row in rows:
            at = (row.topic_name, row.partition_index)
            if row.error_code is ErrorCode.NONE:
                failed.pop(at, None)
            elif row.error_code is ErrorCode.KAFKA_STORAGE_ERROR and at not in failed:
                failed[at] = None
                new.append((*at, broker))
        if new:
            yield from self._brokers.replicas_went_offline(new)

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
        yield from self._deletion.failed(failed)
        yield from self._deletion.done(done)
