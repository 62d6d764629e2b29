"""Appends on the leader, and the requests that wait for them (a part of the replicated broker).

Source: Kafka 2.8's ``ReplicaManager.appendRecords``, ``DelayedProduce``.
"""

from collections.abc import Callable

from kemu.actors.broker.consumer_fetches import ConsumerFetches
from kemu.actors.broker.follower_fetches import FollowerFetches
from kemu.actors.broker.high_watermarks import HighWatermarks
from kemu.actors.broker.produce_calls import Acks, ProduceCall, ProduceCalls, fault_of, produced
from kemu.actors.broker.produce_requests import ProduceRequests
from kemu.actors.broker.record_deletions import RecordDeletions
from kemu.actors.broker.replica import Ack, Replica
from kemu.actors.broker.replica_manager import ReplicaManager
from kemu.actors.injection import Injections
from kemu.actors.machine import Machine, Received
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import ProduceBatch
from kemu.protocol.notes.groups import RecordsAppended
from kemu.protocol.wire.compile import maker

_NONE, _ALL = ErrorCode.NONE, Acks.ALL
_new = tuple.__new__

_records_appended = maker(RecordsAppended)


class LedPartitions:
    """Appends on the leader. ``absent``: the error for a partition that this broker does not serve."""

    def __init__(
        self,
        machine: Machine,
        manager: ReplicaManager,
        calls: ProduceCalls,
        watermarks: HighWatermarks,
        consumer_fetches: ConsumerFetches,
        follower_fetches: FollowerFetches,
        deletions: RecordDeletions,
        injections: Injections,
        absent: Callable[[str, int], ErrorCode],
    ) -> None:
        self._machine = machine
        self._manager = manager
        self._calls = calls
        self._watermarks = watermarks
        self._consumer_fetches = consumer_fetches
        self._follower_fetches = follower_fetches
        self._deletions = deletions
        self._absent = absent
        self._requests = ProduceRequests(calls, injections, manager.served, fault=self._fault, append=self._append)

    # --- appends -----------------------------------------------------------------------------------------------

    def asked(self, event: Received) -> None:
        """Append a producer's batches."""
        call, grown = self._requests.asked(event)
        if call.left:
            self.wait(call, event.message.timeout_ms)
        for replica in grown:
            self.grown(replica)

    def wait(self, call: ProduceCall, timeout_ms: int) -> None:
        """Answer a call when all its batches are decided, or with REQUEST_TIMED_OUT after ``timeout_ms``."""
        self._calls.wait(call, self._manager.next_order(), timeout_ms)

    def grown(self, replica: Replica) -> None:
        """Answer the fetches and raise the high watermark after a log of this leader has grown."""
        if replica.follower_waiters:
            self._follower_fetches.grown(replica)
        self._watermarks.advance(replica)

    def durable(self, replica: Replica) -> None:
        """Raise the high watermark and answer acks=1 calls after more records of this leader's log are durable."""
        for ack in replica.acks_durable():
            self._calls.decide(ack.call, ack.row, ack.outcome(_NONE))
        self._watermarks.advance(replica)

    def time_is_over(self, number: int) -> None:
        """Answer REQUEST_TIMED_OUT to a call that timed out before enough replicas had its records.

        The records are in the log and may still be committed.
        """
        call = self._calls.timed_out(number)
        for replica in self._manager.led.values():
            for waiting in (replica.acks, replica.durable_acks):
                for ack in [ack for ack in waiting if ack.call is call]:
                    waiting.remove(ack)
                    self._calls.decide(call, ack.row, ack.outcome(ErrorCode.REQUEST_TIMED_OUT))

    def _fault(self, batch: ProduceBatch, replica: Replica | None, acks: int) -> ErrorCode:
        if replica is None:
            return self._absent(batch.topic, batch.partition)
        error = fault_of(batch)
        if error is _NONE and acks == _ALL and not self._manager.enough_in_sync(replica):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return error

    def _append(self, replica: Replica, batch: ProduceBatch, call: ProduceCall, index: int, acks: int) -> bool:
        """Append a batch, or find it in the log; returns whether the log grew.

        The batch's acks determine when its row is decided.
        """
        known = -1
        time_ms = self._manager.now_ms
        if batch.producer_id >= 0:
            error, known, known_ms = replica.log.check(
                batch.producer_id, batch.producer_epoch, batch.sequence, batch.count
            )
            if error is not _NONE:
                self._calls.decide(call, index, produced(batch, error))
                return False
            time_ms = known_ms if known >= 0 else time_ms
        base = known
        if known < 0:
            written = replica.append(batch.count, time_ms, batch)
            base = written.base_offset
            self._machine.note(
                _records_appended(
                    topic=batch.topic,
                    partition=batch.partition,
                    base_offset=base,
                    count=batch.count,
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    sequence=batch.sequence,
                )
            )
            self._manager.write_batches(replica, (written,))
        end = base + batch.count
        ack = _new(Ack, (end, self._manager.next_order(), call, index, batch, base, time_ms))
        if acks == _ALL and end > replica.log.high_watermark:
            replica.wait_for_all(ack)
        elif acks == Acks.LEADER and end > replica.log.stored_end:
            replica.durable_acks.append(ack)
        else:
            self._calls.decide(call, index, ack.outcome(_NONE))
        return known < 0

    # --- end of a leadership -------------------------------------------------------------------------------------

    def end(self, replica: Replica, error: ErrorCode) -> None:
        """End the leadership of a partition: all requests that wait for the partition get the error."""
        fetches = self._consumer_fetches.give_up(replica)
        follower_fetches = self._follower_fetches.give_up(replica)
        del self._manager.led[replica.at]
        self._manager.served.pop(replica.at, None)
        for ack in replica.acks_given_up():
            self._calls.decide(ack.call, ack.row, ack.outcome(error))
        self._deletions.ended(replica, error)
        for fetch in fetches:
            self._consumer_fetches.answer_all(fetch)
        for follower_fetch in follower_fetches:
            self._follower_fetches.answer_all(follower_fetch)
