"""A partition on a broker without replication: its log, the batches that wait for the disk, and who waits for records.

One append per partition is on its way to the disk at a time; batches that arrive meanwhile queue and go together with
the next one. So offsets are given in the order of arrival, a failed append leaves no gap, and a producer's batch is
always checked against what is durable.
"""

from typing import NamedTuple

from kemu.actors.broker.delayed_fetches import Waiters
from kemu.actors.broker.leader_epochs import LeaderEpochs, leader_epoch_error
from kemu.actors.broker.partition_log import LoggedBatch, PartitionLog, log_name, to_record
from kemu.actors.broker.produce_calls import ProduceCall, produced
from kemu.actors.machine import Record
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import FetchPartition, ProduceBatch, ProducedBatch

_NONE = ErrorCode.NONE
_new = tuple.__new__


class QueuedBatch(NamedTuple):
    """A batch, and the row of the request it is."""

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
        """Which start of this process it is: told with each append, and decides nothing."""
        self.epochs = LeaderEpochs()
        """Which epoch wrote which part of the log."""
        for batch in log.ranges():
            self.epochs.assign(batch.leader_epoch, batch.base_offset)
        self.lead(leader_epoch)
        self.queue: list[QueuedBatch] = []
        self.appending: list[tuple[LoggedBatch, QueuedBatch]] = []
        """What the append on its way holds; empty when there is none."""
        self.waiters: Waiters = {}

    @property
    def may_be_behind(self) -> bool:
        """No: without replication what is in the log is committed."""
        return False

    def lead(self, leader_epoch: int) -> None:
        """Lead in another epoch from now on."""
        self.leader_epoch = leader_epoch
        self.epochs.assign(leader_epoch, self.log.end_offset)

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """What is wrong with the leader epoch a client believes in (-1 = it does not say). Source: KIP-320."""
        return leader_epoch_error(current_leader_epoch, self.leader_epoch)

    def available_bytes(self, row: FetchPartition) -> int:
        """How many bytes there are for a fetch of this partition."""
        return min((self.log.high_watermark - row.fetch_offset) * self.record_bytes, row.max_bytes)

    def next_append(self, now_ms: int) -> list[tuple[QueuedBatch, ProducedBatch]]:
        """Move queued batches to ``appending``; returns those that are decided without the disk, with their row.

        At most one batch of a producer goes with one append: the next is checked when the first is durable.
        """
        assert not self.appending, f"{self.log_name}: one append at a time"
        decided: list[tuple[QueuedBatch, ProducedBatch]] = []
        later: list[QueuedBatch] = []
        under_way: dict[int, None] = {}
        end = self.log.end_offset
        for queued in self.queue:
            batch = queued.batch
            if batch.producer_id >= 0:
                if batch.producer_id in under_way:
                    later.append(queued)
                    continue
                error, base_offset, time_ms = self.log.check(
                    batch.producer_id, batch.producer_epoch, batch.sequence, batch.count
                )
                if error is not _NONE or base_offset >= 0:
                    decided.append((queued, produced(batch, error, base_offset, time_ms)))
                    continue
                under_way[batch.producer_id] = None
            producer = (batch.producer_id, batch.producer_epoch, batch.sequence)
            logged = _new(LoggedBatch, (end, batch.count, now_ms, self.leader_epoch, *producer, self.life))
            self.appending.append((logged, queued))
            end += batch.count
        self.queue = later
        return decided

    def records(self) -> tuple[Record, ...]:
        """The disk records of what is being appended."""
        return tuple([to_record(logged) for logged, _ in self.appending])
