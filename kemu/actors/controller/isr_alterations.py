"""AlterIsr (KIP-497): the controller checks, writes and answers leaders' ISR changes, and sends metadata to all
brokers.

Brokers receive metadata of every requested partition in the controller's view, even of unchanged partitions. After a
version conflict in the store the controller does not read the state again. If the answer to a write was lost with its
connection, the retried write conflicts with the version that the first write created. From then on the controller's
state is older than the store's state, until another event (for example an election) makes the controller read it.

Source: Kafka 3.4 ``KafkaController.processAlterPartition``; unchanged from 2.7 to 3.9.
"""

from kemu.actors.controller.context import Leadership
from kemu.actors.controller.dispatch import Dispatch, Job, Moment
from kemu.actors.controller.machine import ControllerMachine
from kemu.actors.controller.transactions import Work
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.control import AlteredIsr, AlterIsr, AlterIsrReply, NewIsr
from kemu.protocol.names import TopicPartition
from kemu.protocol.nodes import PartitionState
from kemu.protocol.notes.replication import IsrWriteRefused

INELIGIBLE_SINCE = 2
"""The first version of AlterIsr with INELIGIBLE_REPLICA in its answers."""


class IsrAlterations:
    """The controller's part for AlterIsr requests."""

    def __init__(self, machine: ControllerMachine) -> None:
        self._machine = machine

    def subscribe(self, to: Dispatch) -> None:
        """Subscribe to leaders' AlterIsr requests."""
        to.on_request(AlterIsr, Job("alter-isr", self.alter))

    def alter(self, request: AlterIsr) -> Work[AlterIsrReply]:
        """Check and write each partition's ISR; reassignments react right after the answer."""
        context = self._machine.context
        known = context.live.get(request.broker_id)
        if known is None or known.epoch != request.broker_epoch:
            return AlterIsrReply(error_code=ErrorCode.STALE_BROKER_EPOCH)
        errors: dict[TopicPartition, ErrorCode] = {}
        updates: dict[TopicPartition, Leadership] = {}
        for row in request.partitions:
            at = (row.topic_name, row.partition_index)
            error, is_done = self._refusal(row)
            if error is ErrorCode.NOT_CONTROLLER:
                return AlterIsrReply(error_code=error)
            errors[at] = error
            if error is ErrorCode.NONE and not is_done:
                current = context.leadership[at]
                changed = evolve(current.state, isr=row.new_isr, controller_epoch=context.epoch)
                updates[at] = Leadership(changed, current.zk_version)
        written, conflicts, refused = yield from self._machine.store.update_states(updates)
        context.leadership.update(written)
        for at in conflicts:
            errors[at] = ErrorCode.INVALID_UPDATE_VERSION
            self._note_refused(at, updates[at].state)
        errors.update(dict.fromkeys(refused, ErrorCode.UNKNOWN_SERVER_ERROR))
        self._machine.batch.send_metadata(context.live, list(errors))
        if written:
            self._machine.right_after(Job("isrs-altered", self._altered), list(written))
        rows = tuple(self._row(at, error) for at, error in errors.items())
        return AlterIsrReply(error_code=ErrorCode.NONE, partitions=rows)

    def _altered(self, partitions: list[TopicPartition]) -> Work[None]:
        yield from self._machine.dispatch.reach(Moment.ISRS_ALTERED, partitions)

    def _refusal(self, row: NewIsr) -> tuple[ErrorCode, bool]:
        """(error, whether the ISR is already the requested ISR).

        A leader whose state is newer than the controller's state has requests of a newer controller.
        """
        context = self._machine.context
        known = context.leadership.get((row.topic_name, row.partition_index))
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False
        epoch, version = known.state.leader_epoch, known.zk_version
        if row.current_isr_version > version or row.leader_epoch > epoch:
            return ErrorCode.NOT_CONTROLLER, False
        if row.leader_epoch < epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, False
        if row.new_isr == known.state.isr:
            return ErrorCode.NONE, True  # an earlier answer was lost
        if row.current_isr_version != version:
            return ErrorCode.INVALID_UPDATE_VERSION, False
        eligible = all(context.is_serving(broker) for broker in row.new_isr)
        if not eligible and self._machine.rules.isrs_of_serving_only:
            knows_ineligible = self._machine.request_version >= INELIGIBLE_SINCE
            return ErrorCode.INELIGIBLE_REPLICA if knows_ineligible else ErrorCode.OPERATION_NOT_ATTEMPTED, False
        return ErrorCode.NONE, False

    def _note_refused(self, at: TopicPartition, asked: PartitionState) -> None:
        known = self._machine.context.leadership[at]
        self._machine.note(
            IsrWriteRefused(
                topic=at[0],
                partition=at[1],
                leader=asked.leader,
                leader_epoch=asked.leader_epoch,
                isr=asked.isr,
                controller_epoch=asked.controller_epoch,
                known_isr=known.state.isr,
                zk_version=known.zk_version,
            )
        )

    def _row(self, at: TopicPartition, error: ErrorCode) -> AlteredIsr:
        known = self._machine.context.leadership.get(at)
        if error is not ErrorCode.NONE or known is None:
            return AlteredIsr(topic_name=at[0], partition_index=at[1], error_code=error)
        return AlteredIsr(
            topic_name=at[0],
            partition_index=at[1],
            error_code=error,
            leader_id=known.state.leader,
            leader_epoch=known.state.leader_epoch,
            isr=known.state.isr,
            current_isr_version=known.zk_version,
        )
