"""The log of a replica: a partition's log that followers copy and truncate, with its leader epochs.

Records are in the log when they are appended. Records below ``stored_end`` are stored on this broker: written, or
flushed if the configuration requires a flush. The disk has a journal to which entries are only appended; a truncation
is also an entry. The device keeps the order of a log's writes, so a restart always finds a former state of the log.

========  ==========================================================================================================
key       value
========  ==========================================================================================================
``b``     a batch, as ``partition_log`` has it (42 bytes), and the number of its records with content that follow
``r...``  a record with content: its key after the ``r``
``t``     the log was truncated: it ends at this offset
``s``     the log starts at this offset since: everything before is deleted
``w``     the log was emptied, and continues at this offset
``e``     a leader epoch began at an offset, with or without a record (KAFKA-7415)
``i``     the topic's id, as in Kafka's file ``partition.metadata`` (KIP-516)
``c``     the log cleaner cleaned the log below an offset (``log_cleaner``), and removed tombstones older than a time
``d``     the log was deleted, with all earlier entries
========  ==========================================================================================================
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import takewhile

from kemu.actors.broker.leader_epochs import LeaderEpochs
from kemu.actors.broker.log_cleaner import cleaned, newest
from kemu.actors.broker.partition_log import (
    JOURNALS,
    START_KEY,
    LoggedBatch,
    PartitionLog,
    from_record,
    start_of,
    to_record,
)
from kemu.actors.machine import Record
from kemu.protocol.messages.control import NO_TOPIC_ID
from kemu.protocol.messages.data import ReplicaBatch
from kemu.protocol.messages.records import batch_bytes, removed_count, removed_records
from kemu.protocol.wire.compile import maker

_COUNT = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">iq")
_CLEANED = struct.Struct(">qq")
_BATCH_KEY, _TRUNCATION_KEY, _EPOCH_KEY, _DELETED_KEY, _RECORD_KEY, _EMPTIED_KEY = b"b", b"t", b"e", b"d", b"r", b"w"
_TOPIC_ID_KEY, _CLEANED_KEY = b"i", b"c"

_new = tuple.__new__
_replica_batch = maker(ReplicaBatch)


class ReplicaLog(PartitionLog):
    """A log with the records ``start_offset .. end_offset - 1``; consumers see the records below ``high_watermark``."""

    __slots__ = ("_bases_of_entries", "_entries", "_visible_end", "epochs", "flushed_end", "stored_end", "topic_id")

    def __init__(self, start_offset: int = 0) -> None:
        super().__init__(start_offset)
        self.epochs = LeaderEpochs()
        self.topic_id = NO_TOPIC_ID
        """The id of the log's topic."""
        self.stored_end = start_offset
        """All records below this offset are stored on this broker."""
        self.flushed_end = start_offset
        """This broker has flushed all records below this offset (Kafka's recovery point)."""
        self._visible_end = start_offset
        self._entries: list[ReplicaBatch] = []
        self._bases_of_entries: list[int] = []

    @property
    def high_watermark(self) -> int:
        """The first offset that consumers cannot see yet."""
        return self._visible_end

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        assert self.start_offset <= offset <= self.end_offset, f"high watermark {offset} of {self.end_offset}"
        self._visible_end = offset

    # --- writing -----------------------------------------------------------------------------------------------

    def take(self, batch: ReplicaBatch) -> None:
        """Append a batch; it must begin at the log's end."""
        assert not batch.records or len(batch.records) == batch.count, "either all records have content or none"
        self.epochs.assign(batch.leader_epoch, batch.base_offset)
        self.append(_logged(batch))
        self._entries.append(batch)
        self._bases_of_entries.append(batch.base_offset)

    def truncate_to(self, end_offset: int) -> bool:
        """Remove all records from ``end_offset`` on; returns whether records were removed.

        An epoch that began at ``end_offset`` without a record is removed in any case: the epoch may contradict the
        leader's.
        """
        self.epochs.truncate_end(end_offset)
        if end_offset >= self.end_offset:
            return False
        self.truncate(end_offset)
        keep = bisect_left(self._bases_of_entries, end_offset)
        del self._entries[keep:], self._bases_of_entries[keep:]
        if keep:
            last = self._entries[-1]
            if last.base_offset + last.count > end_offset:
                self._entries[-1] = _part(last, last.base_offset, end_offset)
        self._visible_end = min(self._visible_end, end_offset)
        self.stored_end = min(self.stored_end, end_offset)
        self.flushed_end = min(self.flushed_end, end_offset)
        return True

    def advance_start(self, start_offset: int) -> bool:
        """Remove the records below ``start_offset``; returns whether records were removed.

        ``start_offset`` must not exceed the log's end.
        """
        if not super().advance_start(start_offset):
            return False
        self.epochs.truncate_start(start_offset)
        keep = bisect_right(self._bases_of_entries, start_offset) - 1
        if keep >= 0 and self._bases_of_entries[keep] + self._entries[keep].count <= start_offset:
            keep += 1
        if keep > 0:
            del self._entries[:keep], self._bases_of_entries[:keep]
        self._visible_end = max(self._visible_end, start_offset)
        self.stored_end, self.flushed_end = max(self.stored_end, start_offset), max(self.flushed_end, start_offset)
        return True

    def begin_at(self, start_offset: int) -> None:
        """Remove all records; the next record gets this offset. Source: ``Log.truncateFullyAndStartAt``."""
        self.truncate(self.start_offset)
        self.epochs.clear()
        self._entries.clear()
        self._bases_of_entries.clear()
        self.start_offset = self.end_offset = self._visible_end = start_offset
        self.stored_end = self.flushed_end = start_offset

    # --- compaction --------------------------------------------------------------------------------------------

    def clean(self, end_offset: int, tombstones_since_ms: int) -> int:
        """Remove superseded records from the batches below this offset, and older tombstones than this time.

        Returns the number of removed records.
        """
        assert self.start_offset == 0, f"a compacted log that starts at {self.start_offset}"
        count = bisect_right(self._bases_of_entries, end_offset)
        if count and self._entries[count - 1].base_offset + self._entries[count - 1].count > end_offset:
            count -= 1
        last: dict[bytes, int] = {}
        for batch in self._entries[:count]:
            newest(batch.records, batch.base_offset, last)
        before = sum([len(batch.records) for batch in self._entries[:count]])
        left: list[ReplicaBatch] = []
        for batch in self._entries[:count]:
            for piece in _cleaned(batch, last, keeps_tombstones=batch.append_time_ms >= tombstones_since_ms):
                if left and not (left[-1].records or piece.records) and _same_term(left[-1], piece):
                    left[-1] = _gap(piece, left[-1].base_offset, left[-1].count + piece.count)
                else:
                    left.append(piece)
        self._entries[:count] = left
        self._bases_of_entries = [batch.base_offset for batch in self._entries]
        self._replace_ranges(map(_logged, self._entries))
        return before - sum([len(batch.records) for batch in left])

    def cleaned_bytes(self, end_offset: int) -> int:
        """The size of the batches below this offset."""
        count = bisect_left(self._bases_of_entries, end_offset)
        return sum([batch_bytes(batch.records) for batch in self._entries[:count] if batch.records])

    # --- reading -----------------------------------------------------------------------------------------------

    def copy_from(self, offset: int, max_bytes: int, record_bytes: int) -> tuple[ReplicaBatch, ...]:
        """Whole batches from this offset to the log's end, for a follower: at most ``max_bytes``, at least
        one batch.
        """
        assert self.start_offset <= offset <= self.end_offset, f"{offset} is out of range"
        if offset == self.end_offset:
            return ()
        index = bisect_right(self._bases_of_entries, offset) - 1
        first = self._entries[index]
        last = first.base_offset + first.count
        if first.producer_id < 0 and not first.records:  # without a producer, a batch may be split
            last = min(last, offset + max(1, max_bytes // record_bytes))
        found = [_part(first, offset, last)]
        if last < first.base_offset + first.count:
            return tuple(found)
        left = max_bytes - found[0].count * record_bytes
        for batch in self._entries[index + 1 :]:
            left -= batch.count * record_bytes
            if left < 0:
                break
            found.append(batch)
        return tuple(found)

    def contents(self) -> tuple[Record, ...]:
        """All records with content, oldest first, and the places of removed records (``removed_records``)."""
        found: list[Record] = []
        for batch in self._entries:
            found += batch.records or (removed_records(batch.count),)
        return tuple(found)

    def journal(self) -> list[Record]:
        """A journal of this log without its former states and its idempotent producers."""
        entries = [emptied_entry(self.start_offset)] if self.start_offset else []
        if self.topic_id != NO_TOPIC_ID:
            entries.append(topic_id_entry(self.topic_id))
        epochs = list(self.epochs.entries)
        for batch in self._entries:
            while epochs and epochs[0][1] <= batch.base_offset:
                entries.append(epoch_entry(*epochs.pop(0)))
            entries += batch_entry(batch)
        return [*entries, *[epoch_entry(*each) for each in epochs]]


def _same_term(one: ReplicaBatch, other: ReplicaBatch) -> bool:
    return (one.leader_epoch, one.life) == (other.leader_epoch, other.life)


def _cleaned(batch: ReplicaBatch, last: dict[bytes, int], *, keeps_tombstones: bool) -> Iterator[ReplicaBatch]:
    """The remaining records of a batch, and its gaps. ``last``: the offset of each key's newest record."""
    base, records = batch.base_offset, batch.records

    def keeps(record: Record, position: int) -> bool:
        return last[record[0]] == base + position and (record[1] is not None or keeps_tombstones)

    left = cleaned(records, keeps)
    if len(left) == len(records) and not any(map(removed_count, left)):
        yield batch  # also a gap
        return
    offset = base
    for record in left:
        count = removed_count(record)
        yield _gap(batch, offset, count) if count else _part(batch, offset, offset + 1)
        offset += count or 1


def _gap(batch: ReplicaBatch, first: int, count: int) -> ReplicaBatch:
    """Removed records: a batch without content, with the time and the term of this batch."""
    return _replica_batch(
        base_offset=first,
        count=count,
        append_time_ms=batch.append_time_ms,
        leader_epoch=batch.leader_epoch,
        life=batch.life,
    )


def _logged(batch: ReplicaBatch) -> LoggedBatch:
    return _new(
        LoggedBatch,
        (
            batch.base_offset,
            batch.count,
            batch.append_time_ms,
            batch.leader_epoch,
            batch.producer_id,
            batch.producer_epoch,
            batch.sequence,
            batch.life,
        ),
    )


def _part(batch: ReplicaBatch, first: int, last: int) -> ReplicaBatch:
    """Records ``first .. last - 1`` of a batch. The part has no producer: it would not match the producer's batch."""
    if first == batch.base_offset and last == first + batch.count:
        return batch
    return _replica_batch(
        base_offset=first,
        count=last - first,
        append_time_ms=batch.append_time_ms,
        leader_epoch=batch.leader_epoch,
        records=batch.records[first - batch.base_offset : last - batch.base_offset],
        life=batch.life,
    )


# --- the journal ---------------------------------------------------------------------------------------------------


def batch_entry(batch: ReplicaBatch) -> tuple[Record, ...]:
    """The disk's records of one append, which are one write."""
    head = (to_record(_logged(batch))[1] or b"") + _COUNT.pack(len(batch.records))
    return ((_BATCH_KEY, head), *[(_RECORD_KEY + key, value) for key, value in batch.records])


def batch_of(record: Record) -> LoggedBatch | None:
    """The batch whose head is this entry; None for other entries."""
    key, value = record
    return from_record((b"", value[: -_COUNT.size])) if key == _BATCH_KEY and value is not None else None


def is_content(record: Record) -> bool:
    """Whether an entry is a record of the preceding batch."""
    return record[0].startswith(_RECORD_KEY)


def truncation_entry(end_offset: int) -> Record:
    """The journal's entry for a truncation."""
    return _TRUNCATION_KEY, _OFFSET.pack(end_offset)


def emptied_entry(start_offset: int) -> Record:
    """The journal's entry for an emptied log, which continues at this offset."""
    return _EMPTIED_KEY, _OFFSET.pack(start_offset)


def epoch_entry(epoch: int, start_offset: int) -> Record:
    """The journal's entry for the start of a leader epoch."""
    return _EPOCH_KEY, _EPOCH.pack(epoch, start_offset)


def topic_id_entry(topic_id: str) -> Record:
    """The journal's entry with the topic's id."""
    return _TOPIC_ID_KEY, topic_id.encode()


def cleaned_entry(end_offset: int, tombstones_since_ms: int) -> Record:
    """The journal's entry for a cleaning of the log."""
    return _CLEANED_KEY, _CLEANED.pack(end_offset, tombstones_since_ms)


def is_cleaning(record: Record) -> bool:
    """Whether an entry is for a cleaning of the log."""
    return record[0] == _CLEANED_KEY


DELETED_ENTRY: Record = (_DELETED_KEY, b"")
"""The journal's entry for the log's deletion."""


def restored(records: Iterable[Record]) -> ReplicaLog | None:
    """The log at the end of a journal; None for a deleted log.

    A torn append, of which a power cut left only the first entries, is ignored. Later appends may follow it.
    """
    log: ReplicaLog | None = None
    waiting = list(records)
    index = 0
    while index < len(waiting):
        key, value = waiting[index]
        index += 1
        if key == _DELETED_KEY:
            log = None
            continue
        assert value is not None, f"journal entry {key!r} without a value"
        log = log if log is not None else ReplicaLog()
        if key == _TRUNCATION_KEY:
            log.truncate_to(*_OFFSET.unpack(value))
        elif key == START_KEY:
            log.advance_start(start_of(value))
        elif key == _EMPTIED_KEY:
            log.begin_at(*_OFFSET.unpack(value))
        elif key == _CLEANED_KEY:
            log.clean(*_CLEANED.unpack(value))
        elif key == _TOPIC_ID_KEY:
            log.topic_id = value.decode()
        elif key == _EPOCH_KEY:
            log.epochs.assign(*_EPOCH.unpack(value))
        else:
            assert key == _BATCH_KEY, f"not a journal entry: {key!r}"
            (contents,) = _COUNT.unpack(value[-_COUNT.size :])
            rows = list(takewhile(is_content, waiting[index : index + contents]))
            index += len(rows)
            if len(rows) == contents:
                log.take(_batch(value[: -_COUNT.size], rows))
    if log is not None:
        log.stored_end = log.flushed_end = log.end_offset
    return log


def end_offset_of(journal: str, records: Iterable[Record]) -> int:
    """The log end in this journal; -1 if the journal is not a replica's."""
    if not journal.startswith(JOURNALS):
        return -1
    log = restored(records)
    return log.end_offset if log is not None else 0


def _batch(head: bytes, rows: list[Record]) -> ReplicaBatch:
    logged = from_record((b"", head))
    return _replica_batch(
        base_offset=logged.base_offset,
        count=logged.records,
        append_time_ms=logged.append_time_ms,
        leader_epoch=logged.leader_epoch,
        producer_id=logged.producer_id,
        producer_epoch=logged.producer_epoch,
        sequence=logged.sequence,
        records=tuple((key[1:], value) for key, value in rows),
        life=logged.life,
    )
