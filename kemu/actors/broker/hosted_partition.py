"""A partition on a broker without replication: its log, the batches that wait for the disk, and the waiting fetches.

One append per partition is in progress at a time; batches that arrive during an append queue for the next append. So
offsets are assigned in the order of arrival, a failed append leaves no gap, and a producer's batch is always checked
against durable data.
"""

from typing import NamedTuple

from kemu.actors.broker.delayed_fetches import Waiters
from kemu.actors.broker.leader_epochs import LeaderEpochs, leader_epoch_error
from kemu.actors.broker.partition_log import APPEND, LoggedBatch, PartitionLog, log_name, to_record
from kemu.actors.broker.produce_calls import ProduceCall, produced
from kemu.actors.machine import Record
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import FetchPartition, ProduceBatch, ProducedBatch

_new = tuple.__new__


class QueuedBatch(NamedTuple):
    """A batch, and its row in the request."""

    batch: ProduceBatch
    call: ProduceCall
    row: int


class HostedPartition:
    """One partition on its leader."""

    __slots__ = (
        "appending",
        "epochs",
        "leader_epoch",
        "life",
        "log",
        "log_name",
        "number",
        "queue",
        "record_bytes",
        "topic",
        "waiters",
    )

    def __init__(
        self, topic: str, number: int, leader_epoch: int, record_bytes: int, log: PartitionLog, life: int = 0
    ) -> None:
        self.topic = topic
        self.number = number
        self.record_bytes = record_bytes
        self.log = log
        self.log_name = log_name(topic, number)
        self.life = life
        """The number of the start of this process; added to each append, without effect on decisions."""
        self.epochs = LeaderEpochs()
        """The leader epochs of the log."""
        for batch in log.ranges():
            self.epochs.assign(batch.leader_epoch, batch.base_offset)
        self.lead(leader_epoch)
        self.queue: list[QueuedBatch] = []
        self.appending: list[tuple[LoggedBatch, QueuedBatch]] = []
        """The content of the append in progress; empty without an append."""
        self.waiters: Waiters = {}

    @property
    def may_be_behind(self) -> bool:
        """False: without replication all records in the log are committed."""
        return False

    def lead(self, leader_epoch: int) -> None:
        """Lead the partition in another epoch from now on."""
        self.leader_epoch = leader_epoch
        self.epochs.assign(leader_epoch, self.log.end_offset)

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """The error for a client's leader epoch (-1 = unknown to the client). Source: KIP-320."""
        return leader_epoch_error(current_leader_epoch, self.leader_epoch)

    def available_bytes(self, row: FetchPartition) -> int:
        """The number of bytes available for a fetch of this partition."""
        there = (self.log.end_offset - row.fetch_offset) * self.record_bytes
        return there if there < row.max_bytes else row.max_bytes

    def next_append(self, now_ms: int) -> list[tuple[QueuedBatch, ProducedBatch]]:
        """Move queued batches to ``appending``; returns the batches decided without the disk, with their rows.

        An append contains at most one batch per producer: a producer's next batch is checked when the first batch is
        durable.
        """
        assert not self.appending, f"{self.log_name}: one append at a time"
        decided: list[tuple[QueuedBatch, ProducedBatch]] = []
        queue, self.queue = self.queue, []
        under_way: dict[int, None] = {}
        log = self.log
        end = log.end_offset
        for queued in queue:
            batch = queued[0]
            producer, epoch, sequence, count = batch.producer_id, batch.producer_epoch, batch.sequence, batch.count
            if producer >= 0:
                if producer in under_way:
                    self.queue.append(queued)
                    continue
                check = log.check(producer, epoch, sequence, count)
                if check is not APPEND:
                    decided.append((queued, produced(batch, *check)))
                    continue
                under_way[producer] = None
            logged = (end, count, now_ms, self.leader_epoch, producer, epoch, sequence, self.life)
            self.appending.append((_new(LoggedBatch, logged), queued))
            end += count
        return decided

    def records(self) -> tuple[Record, ...]:
        """The disk records of the current append."""
        return tuple([to_record(logged) for logged, _ in self.appending])
