"""A broker as leader: appends, who waits for them, and the high watermark (a part of the replicated broker's machine).

Source: Kafka 2.8's ``ReplicaManager.appendRecords``, ``DelayedProduce``, ``Partition.checkEnoughReplicasReachOffset``.
"""

from kemu.actors.broker.answers import ClusterAnswers
from kemu.actors.broker.desk import US_PER_MS, GroupCall, ReplicaDesk
from kemu.actors.broker.fetches import Fetches
from kemu.actors.broker.follower_fetches import FollowerFetches
from kemu.actors.broker.group_log import OffsetsHost
from kemu.actors.broker.isr_store import IsrStore
from kemu.actors.broker.partition import ProduceCall, fault_of, produced
from kemu.actors.broker.replica import Ack, Replica, Role
from kemu.actors.injection import Injections
from kemu.actors.machine import Received, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Produce, ProduceBatch, ProducedBatch
from kemu.protocol.notes.groups import RecordsAppended
from kemu.protocol.notes.replication import HighWatermarkAdvanced

_NONE = ErrorCode.NONE
ALL, LEADER, NOBODY = -1, 1, 0
"""Whose having it a producer waits for (acks)."""


class LeadingBroker(ReplicaDesk):
    """See the module; ``ReplicatedBroker`` is the whole."""

    def _assemble(self) -> None:
        super()._assemble()
        self.injections = Injections(self)
        self.answers = ClusterAnswers(self, self.injections)
        self._isr_store = IsrStore(self)
        self._fetches = Fetches(self)
        self._follower_fetches = FollowerFetches(self, self._isr_store)
        self._offsets = OffsetsHost(self)
        self._calls: dict[int, ProduceCall] = {}
        """Number -> an append that waits for other replicas, or for the disk."""

    def absent(self, topic: str, partition: int) -> ErrorCode:
        """Why a partition is not led here."""
        replica = self.replicas.get((topic, partition))
        if replica is None:
            return self.answers.absent(topic, partition)
        return ErrorCode.KAFKA_STORAGE_ERROR if replica.role is Role.OFFLINE else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def advance(self, replica: Replica) -> None:
        """Raise a leader's high watermark as far as it goes; whoever waited for that is answered."""
        if replica.role is not Role.LEADER:
            return
        if not replica.raise_watermark(self.own_end(replica), self.now_us, self.lag_us, self.rules):
            return
        self.note(
            HighWatermarkAdvanced(
                topic=replica.topic,
                partition=replica.number,
                leader_epoch=replica.leader_epoch,
                high_watermark=replica.log.high_watermark,
            )
        )
        if replica.acks:
            enough = replica.min_in_sync <= len(replica.in_sync.maximal)
            error = _NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            for ack in replica.acks_reached():
                self._acknowledge(ack, error)
        if replica.waiters:
            self._fetches.grown(replica)

    # --- produce -----------------------------------------------------------------------------------------------

    def _produce(self, event: Received) -> None:
        request: Produce = event.message
        refused = self.injections.take("Produce", event.peer)
        if refused is None and request.acks not in (ALL, NOBODY, LEADER):
            refused = ErrorCode.INVALID_REQUIRED_ACKS
        call = ProduceCall(caller_of(event) if request.acks != NOBODY else None, len(request.batches))
        if not request.batches:
            self._answer(call)
        grown: dict[Replica, None] = {}
        for index, batch in enumerate(request.batches):
            replica = self.partitions.get((batch.topic, batch.partition))
            error = self._fault(batch, replica, request.acks) if refused is None else refused
            if replica is None or error is not _NONE:
                self._decide(call, index, produced(batch, error))
            elif self._append(replica, batch, call, index, request.acks):
                grown[replica] = None
        if call.left:
            self._wait(call, request.timeout_ms)
        for replica in grown:
            self._grown(replica)

    def _fault(self, batch: ProduceBatch, replica: Replica | None, acks: int) -> ErrorCode:
        if replica is None:
            return self.absent(batch.topic, batch.partition)
        error = fault_of(batch)
        if error is _NONE and acks == ALL and not replica.enough_in_sync():
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return error

    def _append(self, replica: Replica, batch: ProduceBatch, call: ProduceCall, index: int, acks: int) -> bool:
        """Append a batch, or find it in the log; whether the log grew. The row is decided when its acks say so."""
        known = -1
        time_ms = self.now_ms
        if batch.producer_id >= 0:
            error, known, known_ms = replica.log.check(
                batch.producer_id, batch.producer_epoch, batch.sequence, batch.count
            )
            if error is not _NONE:
                self._decide(call, index, produced(batch, error))
                return False
            time_ms = known_ms if known >= 0 else time_ms
        base = known
        if known < 0:
            written = replica.append(batch.count, time_ms, batch)
            base = written.base_offset
            self.note(
                RecordsAppended(topic=batch.topic, partition=batch.partition, base_offset=base, count=batch.count)
            )
            self.write_batches(replica, (written,))
        end = base + batch.count
        ack = Ack(end, self.next_order(), call, index, batch, base, time_ms)
        if acks == ALL and end > replica.log.high_watermark:
            replica.wait_for_all(ack)
        elif acks == LEADER and end > self.own_end(replica):
            replica.durable_acks.append(ack)
        else:
            self._acknowledge(ack, _NONE)
        return known < 0

    def _grown(self, replica: Replica) -> None:
        if replica.follower_waiters:
            self._follower_fetches.grown(replica)
        self.advance(replica)

    def _append_groups(self, event: Received) -> None:
        appended = self._offsets.append(event)
        if appended is not None:
            replica, call = appended
            self._wait(call, self.replication.offsets_commit_timeout_ms)
            self._grown(replica)

    def _wait(self, call: ProduceCall, timeout_ms: int) -> None:
        call.number = number = self.next_order()
        self._calls[number] = call
        self.start_timer(("produce", str(number)), timeout_ms * US_PER_MS)

    def _time_out(self, call: ProduceCall) -> None:
        """Not enough replicas had it in time. It is in the log and may still count."""
        for replica in self.partitions.values():
            for waiting in (replica.acks, replica.durable_acks):
                late = [ack for ack in waiting if ack.call is call]
                for ack in late:
                    waiting.remove(ack)
                    self._decide(call, ack.row, produced(ack.batch, ErrorCode.REQUEST_TIMED_OUT))

    def _acknowledge(self, ack: Ack, error: ErrorCode) -> None:
        if error is _NONE:
            self._decide(ack.call, ack.row, produced(ack.batch, error, ack.base_offset, ack.append_time_ms))
        else:
            self._decide(ack.call, ack.row, produced(ack.batch, error))

    def _decide(self, call: ProduceCall, index: int, row: ProducedBatch) -> None:
        if call.answer(index, row):
            self._answer(call)

    def _answer(self, call: ProduceCall) -> None:
        if self._calls.pop(call.number, None) is not None:
            self.stop_timer(("produce", str(call.number)))
        if call.caller is not None:
            self.reply(call.caller, call.group_reply() if isinstance(call, GroupCall) else call.reply())
