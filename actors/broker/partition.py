"""A partition a broker leads: its log, the batches that wait for the disk, and who waits for records.

One append per partition is on its way to the disk at a time; batches that arrive meanwhile queue and go together with
the next one. So offsets are given in the order of arrival, a failed append leaves no gap, and a producer's batch is
always checked against what is durable.
"""

from typing import NamedTuple

from kemu.actors.broker.log import LoggedBatch, PartitionLog, to_record
from kemu.actors.machine import Caller
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import FetchPartition, ProduceBatch, ProducedBatch, ProduceReply


class ProduceCall:
    """A Produce request whose batches are being appended; answered when the last of them is decided."""

    __slots__ = ("caller", "left", "number", "rows")

    def __init__(self, caller: Caller | None, batches: int) -> None:
        self.number = 0
        """Of a call that may time out (with replication)."""
        self.caller = caller
        """None with acks 0: nobody waits."""
        self.rows: list[ProducedBatch | None] = [None] * batches
        self.left = batches

    def answer(self, index: int, row: ProducedBatch) -> bool:
        """Decide one batch; whether the request can be answered now."""
        assert self.rows[index] is None, f"batch {index} is decided twice"
        self.rows[index] = row
        self.left -= 1
        return self.left == 0

    def reply(self) -> ProduceReply:
        """The rows in the order of the request."""
        assert self.left == 0
        return ProduceReply(batches=tuple(row for row in self.rows if row is not None))


class QueuedBatch(NamedTuple):
    """A batch, and the row of the request it is."""

    batch: ProduceBatch
    call: ProduceCall
    row: int


class ParkedFetch:
    """A Fetch that waits for ``missing`` more bytes, or for its time to be over."""

    __slots__ = ("available", "caller", "max_bytes", "missing", "number", "rows")

    def __init__(self, number: int, caller: Caller, max_bytes: int, rows: tuple[FetchPartition, ...]) -> None:
        self.number = number
        self.caller = caller
        self.max_bytes = max_bytes
        self.rows = rows
        self.missing = 0
        self.available: dict[int, int] = {}
        """Index into ``rows`` -> bytes this partition has for the answer; only those that have some."""


class Waiter(NamedTuple):
    """A parked fetch and which of its rows is about this partition."""

    fetch: ParkedFetch
    row: int


class HostedPartition:
    """One partition on its leader."""

    __slots__ = ("appending", "leader_epoch", "log", "log_name", "number", "queue", "record_bytes", "topic", "waiters")

    def __init__(self, topic: str, number: int, leader_epoch: int, record_bytes: int, log: PartitionLog) -> None:
        self.topic = topic
        self.number = number
        self.leader_epoch = leader_epoch
        self.record_bytes = record_bytes
        self.log = log
        self.log_name = log_name(topic, number)
        self.queue: list[QueuedBatch] = []
        self.appending: list[tuple[LoggedBatch, QueuedBatch]] = []
        """What the append on its way holds; empty when there is none."""
        self.waiters: dict[int, Waiter] = {}
        """Number of a parked fetch -> the fetch."""

    @property
    def may_be_behind(self) -> bool:
        """No: without replication what is in the log is committed."""
        return False

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """What is wrong with the leader epoch a client believes in (-1 = it does not say). Source: KIP-320."""
        if current_leader_epoch in (-1, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

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
                if error is not ErrorCode.NONE or base_offset >= 0:
                    decided.append((queued, produced(batch, error, base_offset, time_ms)))
                    continue
                under_way[batch.producer_id] = None
            logged = LoggedBatch(
                end, batch.count, now_ms, self.leader_epoch, batch.producer_id, batch.producer_epoch, batch.sequence
            )
            self.appending.append((logged, queued))
            end += batch.count
        self.queue = later
        return decided

    def records(self) -> tuple[tuple[bytes, bytes | None], ...]:
        """The disk records of what is being appended."""
        return tuple(to_record(logged) for logged, _ in self.appending)


def produced(batch: ProduceBatch, error: ErrorCode, base_offset: int = -1, append_time_ms: int = -1) -> ProducedBatch:
    """The answer's row about a batch."""
    return ProducedBatch(
        topic=batch.topic,
        partition=batch.partition,
        error=error,
        base_offset=base_offset,
        append_time_ms=append_time_ms,
    )


def fault_of(batch: ProduceBatch) -> ErrorCode:
    """What makes a batch unacceptable whoever leads the partition; NONE for a good one."""
    if not 0 < batch.count < 1 << 31:
        return ErrorCode.INVALID_REQUEST
    if batch.producer_id >= 0 and not (0 <= batch.sequence < 1 << 31 and 0 <= batch.producer_epoch < 1 << 15):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def log_name(topic: str, partition: int) -> str:
    """Kafka's name of a partition's log directory."""
    return f"{topic}-{partition}"
