"""DeleteRecords: an admin deletes records from the start of a log (a part of the replicated broker).

The leader moves its log's start at once. Followers learn the new start with their next fetch; consumers below the new
start are out of range. The admin gets the answer when every live follower has also moved its start (the *low
watermark*, known from followers' fetches), or REQUEST_TIMED_OUT. The leader deletes the records even after a timeout.

Kafka checkpoints a start within a segment only every 60 s (``log.flush.start.offset.checkpoint.interval.ms``), so
deleted records may return after a crash. Here the start is in the log's journal; a power cut removes the unflushed part
of the journal.

Source: Kafka 2.8 ``ReplicaManager.deleteRecords``, ``Partition.deleteRecordsOnLeader``, ``DelayedDeleteRecords``.
"""

from collections.abc import Callable

from kemu.actors.broker.replica import Replica
from kemu.actors.broker.replica_manager import ReplicaManager
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.connections import Connections
from kemu.actors.machine import Caller, Machine, Received, caller_of
from kemu.actors.parking import Parking
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import DeletedRecords, DeleteRecords, DeleteRecordsReply, RecordsToDelete
from kemu.protocol.names import OFFSETS_TOPIC, TopicPartition

_NONE = ErrorCode.NONE
HIGH_WATERMARK = -1
"""The offset in a request that means the high watermark."""
US_PER_MS = 1_000


class _Call:
    """A DeleteRecords request. ``open``: rows that wait for followers, by partition -> (index in the
    answer, offset).
    """

    def __init__(self, number: int, caller: Caller, rows: int) -> None:
        self.number = number
        self.caller = caller
        self.rows: list[DeletedRecords | None] = [None] * rows
        self.open: dict[TopicPartition, tuple[int, int]] = {}


class RecordDeletions:
    """The DeleteRecords requests of a leader.

    ``absent``: the error for a partition that this broker does not lead; ``connections``: muted while a request waits.
    """

    def __init__(
        self,
        machine: Machine,
        manager: ReplicaManager,
        absent: Callable[[str, int], ErrorCode],
        connections: Connections,
    ) -> None:
        self._machine = machine
        self._connections = connections
        self._manager = manager
        self._absent = absent
        self._waiting: Parking[int, _Call] = Parking(machine, BrokerTimer.DELETE_RECORDS)
        self._starts: dict[TopicPartition, dict[int, int]] = {}
        """Partitions with waiting requests -> per follower the log start in its fetches after the request."""

    def __bool__(self) -> bool:
        """Whether any request waits for followers."""
        return bool(self._starts)

    def asked(self, event: Received) -> None:
        """Delete the records; answer, or wait for the followers."""
        request: DeleteRecords = event.message
        call = _Call(self._manager.next_order(), caller_of(event), len(request.partitions))
        for index, row in enumerate(request.partitions):
            replica = self._manager.served.get((row.topic, row.partition))
            error, offset = self._delete(replica, row)
            if replica is None or error is not _NONE:
                call.rows[index] = _outcome(row.topic, row.partition, error)
            else:
                call.open[replica.at] = index, offset
                self._starts.setdefault(replica.at, {})
        self._waiting.hold(call.number, call, request.timeout_ms * US_PER_MS)
        self._connections.mute(event)
        for at in list(call.open):
            self._look(call, at)
        self._answer_if_decided(call)

    def _delete(self, replica: Replica | None, row: RecordsToDelete) -> tuple[ErrorCode, int]:
        if row.topic == OFFSETS_TOPIC:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, -1
        if replica is None:
            return self._absent(row.topic, row.partition), -1
        upto = replica.log.high_watermark
        offset = upto if row.offset == HIGH_WATERMARK else row.offset
        if not 0 <= offset <= upto:
            return ErrorCode.OFFSET_OUT_OF_RANGE, -1
        self._manager.advance_start(replica, offset, "delete-records")
        return _NONE, offset

    def fetched(self, replica: Replica, broker: int, start_offset: int) -> None:
        """Record the log start in a follower's fetch, and answer the requests that waited for it."""
        starts = self._starts.get(replica.at)
        if starts is not None:
            starts[broker] = start_offset
            self._look_at(replica.at)

    def ended(self, replica: Replica, error: ErrorCode) -> None:
        """Answer the waiting requests with the error, after the leadership of the partition has ended."""
        for call in self._calls_for(replica.at):
            self._decide(call, replica.at, _outcome(*replica.at, error))
            self._answer_if_decided(call)

    def time_is_over(self, number: int) -> None:
        """Answer a request that timed out before all followers had moved their starts."""
        call = self._waiting.time_is_over(number)
        for at in list(call.open):
            self._decide(call, at, _outcome(*at, ErrorCode.REQUEST_TIMED_OUT))
        self._answer(call)

    # --- parts -------------------------------------------------------------------------------------------------

    def _calls_for(self, at: TopicPartition) -> list[_Call]:
        calls = [self._waiting[number] for number in self._waiting]
        return [call for call in calls if at in call.open]

    def _look_at(self, at: TopicPartition) -> None:
        for call in self._calls_for(at):
            self._look(call, at)
            self._answer_if_decided(call)

    def _look(self, call: _Call, at: TopicPartition) -> None:
        low = self._low_watermark(self._manager.led[at])
        if low >= call.open[at][1]:
            self._decide(call, at, _outcome(*at, _NONE, low))

    def _low_watermark(self, replica: Replica) -> int:
        """The lowest log start of all live replicas. Source: ``lowWatermarkIfLeader``."""
        starts, live = self._starts[replica.at], self._manager.live_brokers
        return min([replica.log.start_offset, *(starts.get(one, -1) for one in replica.followers if one in live)])

    def _decide(self, call: _Call, at: TopicPartition, row: DeletedRecords) -> None:
        index, _ = call.open.pop(at)
        call.rows[index] = row
        if not self._calls_for(at):
            self._starts.pop(at, None)

    def _answer_if_decided(self, call: _Call) -> None:
        if not call.open and self._waiting.release(call.number) is not None:
            self._answer(call)

    def _answer(self, call: _Call) -> None:
        rows = tuple(row for row in call.rows if row is not None)
        self._machine.reply(call.caller, DeleteRecordsReply(partitions=rows))
        self._connections.answered(call.caller)


def _outcome(topic: str, partition: int, error: ErrorCode, low_watermark: int = -1) -> DeletedRecords:
    return DeletedRecords(topic=topic, partition=partition, low_watermark=low_watermark, error=error)
