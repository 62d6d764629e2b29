"""The log of one partition as ranges of offsets, and the last batches of its producers.

Records have no payload, so a log is a list of ranges ``(base offset, count, append time, leader epoch, life)``.
Neighbours of equal time, epoch and life are one range. So the cost of a log depends on its distinct append times, not
on its records. Every lookup is a bisection.

The log also keeps, per idempotent producer, its epoch and its last five batches, and so recognizes duplicate batches.
The disk has one record per appended batch (never merged), from which the log is rebuilt. Source: KIP-98 ("Idempotent
Producer Guarantees"), KIP-360 (an unknown producer may start at any sequence).
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from kemu.actors.machine import Record
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import RecordBatch
from kemu.protocol.wire.compile import maker

KEPT_BATCHES = 5
"""The number of batches kept per producer: the most that a client may have in flight with idempotence (KIP-98)."""

_LAYOUT = struct.Struct(">qiqiqhii")
_OFFSET = struct.Struct(">q")
START_KEY = b"s"
"""The key of a disk record with the log's new start; the value is the offset."""
JOURNALS = "replica/"
"""The prefix of the disk's names of replicas' journals."""
_LAST_SEQUENCE = (1 << 31) - 1
_record_batch = maker(RecordBatch)


def log_name(topic: str, partition: int) -> str:
    """Kafka's name of a partition's log directory."""
    return f"{topic}-{partition}"


class LoggedBatch(NamedTuple):
    """One append as it is on disk. Producer id -1: the producer is not idempotent, and epoch and sequence are -1, too.

    ``life``: the number of the start of the leader's process that appended the batch. Checkers read this number; it
    changes no decision.
    """

    base_offset: int
    records: int
    append_time_ms: int
    leader_epoch: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    life: int = 0


def to_record(batch: LoggedBatch) -> Record:
    """A batch as a record of the disk's log: empty key, 42 bytes of value."""
    return b"", _LAYOUT.pack(*batch)


def from_record(record: Record) -> LoggedBatch:
    """The batch in a record of ``to_record``."""
    key, value = record
    assert key == b"" and value is not None, f"not a batch: key {key!r}"
    return LoggedBatch(*_LAYOUT.unpack(value))


def start_entry(start_offset: int) -> Record:
    """A record of the log's new start; all records below the start are deleted."""
    return START_KEY, _OFFSET.pack(start_offset)


def start_of(value: bytes) -> int:
    """The offset in the value of a ``start_entry``."""
    return int(_OFFSET.unpack(value)[0])


def sequence_after(sequence: int, count: int) -> int:
    """The sequence number ``count`` records later; after 2^31 - 1 it continues with 0, as in Kafka."""
    return (sequence + count) & _LAST_SEQUENCE


class SequenceCheck(NamedTuple):
    """The result of a check. NONE and offset -1: the batch may be appended. NONE and an offset: the batch is a
    duplicate.
    """

    error: ErrorCode
    base_offset: int = -1
    append_time_ms: int = -1


APPEND = SequenceCheck(ErrorCode.NONE)


class _ProducerState:
    """A producer's last epoch, and its last batches in that epoch, oldest first."""

    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[LoggedBatch] = []


class PartitionLog:
    """A log with the records ``start_offset .. end_offset - 1``.

    Without followers the high watermark is the end. With followers (``replica_log``) the high watermark is the offset
    that all in-sync replicas have reached. ``read`` and ``offset_at`` use the high watermark, not the end.
    """

    __slots__ = ("_bases", "_batches", "_latest_ms", "_producers", "end_offset", "start_offset")

    def __init__(self, start_offset: int = 0) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._bases: list[int] = []
        self._batches: list[RecordBatch] = []
        self._latest_ms: list[int] = []
        """Per range: the latest append time up to the end of the range. Times may decrease if the host's clock steps
        back.
        """
        self._producers: dict[int, _ProducerState] = {}

    @classmethod
    def rebuilt(cls, records: Iterable[Record]) -> "PartitionLog":
        """Rebuild the log from the disk records of its appends, oldest first; the log starts at the first record."""
        log: PartitionLog | None = None
        for record in records:
            key, value = record
            if key == START_KEY:
                assert log is not None and value is not None, "a log start entry needs an earlier batch"
                log.advance_start(start_of(value))
                continue
            batch = from_record(record)
            if log is None:
                log = cls(batch.base_offset)
            log.append(batch)
        return log if log is not None else cls()

    @property
    def high_watermark(self) -> int:
        """The first offset that consumers cannot see yet."""
        return self.end_offset

    # --- records -----------------------------------------------------------------------------------------------

    def append(self, batch: LoggedBatch) -> None:
        """Add a durable batch. The batch's base offset must be the log's end, and ``check`` must have allowed it."""
        base, count, time_ms, epoch, producer_id, _, _, life = batch
        assert base == self.end_offset and count > 0, f"{batch} does not follow {self.end_offset}"
        self.end_offset = base + count
        batches, latest_ms = self._batches, self._latest_ms
        last = batches[-1] if batches else None
        if last is not None and last.append_time_ms == time_ms and last.leader_epoch == epoch and last.life == life:
            batches[-1] = _range(last.base_offset, last.count + count, last)
        else:
            self._bases.append(base)
            batches.append(
                _record_batch(base_offset=base, count=count, append_time_ms=time_ms, leader_epoch=epoch, life=life)
            )
            latest_ms.append(time_ms if not latest_ms or time_ms > latest_ms[-1] else latest_ms[-1])
        if producer_id >= 0:
            self._remember(batch)

    def read(self, from_offset: int, max_bytes: int, record_bytes: int) -> tuple[RecordBatch, ...]:
        """The records from ``from_offset`` on, below the high watermark, at most ``max_bytes`` but at least one record.

        The first and last range are shortened to fit, so the result starts exactly at ``from_offset``. (Kafka sends
        whole batches and its clients skip the head; the records for an application are the same.) At the high watermark
        the result is empty. The offset must be between start and high watermark.

        Source of "at least one": KIP-74.
        """
        assert self.start_offset <= from_offset <= self.end_offset, f"{from_offset} is out of range"
        left, most = self.high_watermark - from_offset, max_bytes // record_bytes
        if left <= 0:
            return ()
        if left > most:
            left = most if most > 0 else 1
        index = bisect_right(self._bases, from_offset) - 1
        found = []
        while left > 0:
            batch = self._batches[index]
            count = batch.base_offset + batch.count - from_offset
            if count > left:
                count = left
            if count != batch.count:
                batch = _range(from_offset, count, batch)
            found.append(batch)
            from_offset += count
            left -= count
            index += 1
        return tuple(found)

    def offset_at(self, timestamp_ms: int) -> tuple[int, int] | None:
        """``(append time, offset)`` of the first record appended at or after a time; None without such a record."""
        index = bisect_left(self._latest_ms, timestamp_ms)
        if index == len(self._batches) or self._bases[index] >= self.high_watermark:
            return None
        return self._batches[index].append_time_ms, self._bases[index]

    def truncate(self, end_offset: int) -> None:
        """Remove the records from ``end_offset`` on, and producer batches that end above ``end_offset``.

        A producer without a remaining batch is unknown afterwards.
        """
        assert end_offset >= self.start_offset, f"{end_offset} is below the log's start {self.start_offset}"
        if end_offset >= self.end_offset:
            return
        self.end_offset = end_offset
        keep = bisect_left(self._bases, end_offset)
        del self._bases[keep:], self._batches[keep:], self._latest_ms[keep:]
        if keep:
            last = self._batches[-1]
            if last.base_offset + last.count > end_offset:
                kept = end_offset - last.base_offset
                self._batches[-1] = _range(last.base_offset, kept, last)
        for producer_id, state in list(self._producers.items()):
            state.batches = [batch for batch in state.batches if batch.base_offset + batch.records <= end_offset]
            if not state.batches:
                del self._producers[producer_id]

    def advance_start(self, start_offset: int) -> bool:
        """Remove the records below ``start_offset``; returns whether any were removed. The state of producers is
        unchanged.

        Source: Kafka's ``Log.maybeIncrementLogStartOffset``; KIP-360 (a producer's state outlives its records).
        """
        assert start_offset <= self.end_offset, f"{start_offset} is above the log's end {self.end_offset}"
        if start_offset <= self.start_offset:
            return False
        self.start_offset = start_offset
        keep = bisect_right(self._bases, start_offset) - 1
        if keep >= 0 and self._bases[keep] + self._batches[keep].count <= start_offset:
            keep += 1
        if keep > 0:
            del self._bases[:keep], self._batches[:keep], self._latest_ms[:keep]
        if self._batches and self._bases[0] < start_offset:
            first = self._batches[0]
            left = first.base_offset + first.count - start_offset
            self._batches[0] = _range(start_offset, left, first)
            self._bases[0] = start_offset
        return True

    def _replace_ranges(self, batches: Iterable[LoggedBatch]) -> None:
        """Set the content to these batches of the same offsets, without idempotent producers."""
        end, self.end_offset = self.end_offset, self.start_offset
        self._bases, self._batches, self._latest_ms = [], [], []
        for batch in batches:
            self.append(batch)
        assert self.end_offset == end, f"the log ended at {end}, and ends at {self.end_offset}"

    def ranges(self) -> Iterable[RecordBatch]:
        """The content, oldest first, as ranges of equal append time, leader epoch and life."""
        return iter(self._batches)

    # --- idempotent producers ----------------------------------------------------------------------------------

    def check(self, producer_id: int, producer_epoch: int, sequence: int, count: int) -> SequenceCheck:
        """Whether this batch of an idempotent producer is next, a duplicate, or out of order.

        A duplicate has the epoch, the first and the last sequence of one of the last five batches. An older epoch is
        fenced. A new epoch must start at 0; otherwise the batch must follow the last batch. An unknown producer may
        start at any sequence.
        Source: Kafka's ``ProducerStateEntry`` and ``ProducerAppendInfo``.
        """
        state = self._producers.get(producer_id)
        if state is None:
            return APPEND
        if producer_epoch != state.epoch:
            if producer_epoch < state.epoch:
                return SequenceCheck(ErrorCode.INVALID_PRODUCER_EPOCH)
            return APPEND if sequence == 0 else SequenceCheck(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        last = state.batches[-1]
        if sequence == last.sequence + last.records & _LAST_SEQUENCE:
            return APPEND
        for batch in state.batches:
            if batch.sequence == sequence and batch.records == count:
                return SequenceCheck(ErrorCode.NONE, batch.base_offset, batch.append_time_ms)
        return SequenceCheck(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def _remember(self, batch: LoggedBatch) -> None:
        state = self._producers.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            state = self._producers[batch.producer_id] = _ProducerState(batch.producer_epoch)
        batches = state.batches
        batches.append(batch)
        if len(batches) > KEPT_BATCHES:
            del batches[0]


def _range(base_offset: int, count: int, like: RecordBatch) -> RecordBatch:
    """A range of these offsets; all other fields equal the fields of ``like``."""
    return _record_batch(
        base_offset=base_offset,
        count=count,
        append_time_ms=like.append_time_ms,
        leader_epoch=like.leader_epoch,
        life=like.life,
    )
