"""The log cleaner of ``__consumer_offsets``: a coordinator that loads a cleaned log has the same groups.

Source: ``LogCleanerManager``, ``Cleaner``, Kafka 3.4.
"""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.broker.log_cleaner import Segments, cleaned, newest
from kemu.actors.broker.replica_log import ReplicaLog, batch_entry, cleaned_entry, restored, truncation_entry
from kemu.actors.coordinator.replay import replay
from kemu.actors.machine import Record
from kemu.protocol.messages.data import ReplicaBatch
from kemu.protocol.messages.records import (
    GroupMetadata,
    StoredOffset,
    StoredRange,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
    range_record,
    range_tombstone,
    removed_count,
    removed_records,
)

NEVER_MS = 1 << 40
GROUPS, PARTITIONS = st.sampled_from("gh"), st.integers(0, 2)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        lambda group, number: group_record(GroupMetadata(group, "consumer", number, None, None, number, ())),
        GROUPS,
        st.integers(0, 99),
    ),
    st.builds(group_tombstone, GROUPS),
    st.builds(
        lambda group, partition, offset: offset_record(group, "t", partition, StoredOffset(offset, -1, "", offset)),
        GROUPS,
        PARTITIONS,
        st.integers(0, 99),
    ),
    st.builds(offset_tombstone, GROUPS, st.just("t"), PARTITIONS),
    st.builds(
        lambda group, start, end: range_record(group, "t", 0, start, StoredRange(end, end)),
        GROUPS,
        st.integers(0, 3),
        st.integers(4, 9),
    ),
    st.builds(range_tombstone, GROUPS, st.just("t"), st.just(0), st.integers(0, 3)),
)
BATCHES = st.lists(st.tuples(st.lists(RECORDS, min_size=1, max_size=3), st.booleans()), max_size=30)


def state(records: Sequence[Record]) -> tuple[object, ...]:
    """The groups of a coordinator that loads these records; offsets have their positions in the log."""
    found = replay(records)
    offsets = {group: found.offsets_of(group).committed for group in found.offsets}
    ranges = {
        (group, at): dict(sorted(log.tokens.items()))
        for group, logs in found.second.items()
        for at, log in logs.by_partition.items()
    }
    return dict(found.metadata), {group: rows for group, rows in offsets.items() if rows}, ranges


def batch(log: ReplicaLog, records: Sequence[Record], epoch: int) -> ReplicaBatch:
    """The next batch of a log."""
    return ReplicaBatch(
        base_offset=log.end_offset,
        count=len(records),
        append_time_ms=log.end_offset,
        leader_epoch=epoch,
        records=tuple(records),
    )


class Written:
    """Two logs with the same appends, of which one is cleaned, and the journal of the cleaned log."""

    def __init__(self) -> None:
        self.log, self.whole = ReplicaLog(), ReplicaLog()
        self.journal: list[Record] = []

    def append(self, records: Sequence[Record], epoch: int) -> None:
        """Append a batch to both logs."""
        one = batch(self.log, records, epoch)
        self.log.take(one)
        self.whole.take(one)
        self.journal += batch_entry(one)

    def clean(self, end_offset: int, since_ms: int) -> None:
        """Clean one log below an offset, and remove tombstones before a time."""
        self.log.clean(end_offset, since_ms)
        self.journal.append(cleaned_entry(end_offset, since_ms))


def seen(log: ReplicaLog) -> tuple[object, ...]:
    """All state of a log that a restart keeps."""
    return log.end_offset, log.epochs.entries, log.copy_from(0, 1 << 30, 1), log.contents(), tuple(log.ranges())


def of_batches(batches: Sequence[tuple[Sequence[Record], bool]], data: st.DataObject) -> Written:
    """Logs with these batches; the log is cleaned before a batch where the test draws so."""
    written, epoch = Written(), 0
    for records, cleans in batches:
        if cleans:
            end = data.draw(st.integers(0, written.log.end_offset), "cleaned below")
            written.clean(end, data.draw(st.sampled_from([0, end, NEVER_MS]), "tombstones since"))
            epoch += end % 2
        written.append(records, epoch)
    return written


@given(BATCHES, st.data())
def test_a_cleaned_log_loads_to_the_same_groups(
    batches: Sequence[tuple[list[Record], bool]], data: st.DataObject
) -> None:
    """Offsets also keep their positions: of two offsets, the one at the higher position is valid."""
    written = of_batches(batches, data)

    assert state(written.log.contents()) == state(written.whole.contents())
    assert written.log.end_offset == written.whole.end_offset
    assert written.log.epochs.entries == written.whole.epochs.entries


@given(BATCHES, st.data())
def test_a_restart_a_short_journal_and_a_follower_find_the_cleaned_log(
    batches: Sequence[tuple[list[Record], bool]], data: st.DataObject
) -> None:
    written = of_batches(batches, data)
    follower = ReplicaLog()
    while follower.end_offset < written.log.end_offset:
        for copied in written.log.copy_from(follower.end_offset, data.draw(st.integers(1, 900), "bytes"), 100):
            follower.take(copied)

    assert seen(restored(written.journal) or ReplicaLog()) == seen(written.log)
    assert seen(restored(written.log.journal()) or ReplicaLog()) == seen(written.log)
    assert state(follower.contents()) == state(written.log.contents())


@given(BATCHES, st.data())
def test_a_truncation_above_the_cleaned_part_loses_the_same_records(
    batches: Sequence[tuple[list[Record], bool]], data: st.DataObject
) -> None:
    written = of_batches(batches, data)
    end = written.log.end_offset
    clean_to = data.draw(st.integers(0, end), "cleaned below")
    written.clean(clean_to, NEVER_MS)
    cut = data.draw(st.integers(clean_to, end), "truncated at")
    for log in (written.log, written.whole):
        log.truncate_to(cut)
    written.journal.append(truncation_entry(cut))

    if not any(cleans for _, cleans in batches):
        assert state(written.log.contents()) == state(written.whole.contents())
    assert seen(restored(written.journal) or ReplicaLog()) == seen(written.log)


@given(st.lists(RECORDS, max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_the_log_of_a_single_disk_loads_to_the_same_groups(records: list[Record], first: int, second: int) -> None:
    """A cluster that does not replicate cleans the disk's records, and keeps no tombstone of the cleaned part."""
    log = list(records)
    for end in (first, second):
        last: dict[bytes, int] = {}
        newest(log[:end], 0, last)
        log[:end] = cleaned(
            log[:end],
            lambda record, at, last=last: last[record[0]] == at and record[1] is not None,  # type: ignore[misc]
        )

    assert state(log) == state(records)
    assert sum(removed_count(record) or 1 for record in log) == len(records)


def test_a_log_of_one_key_has_one_record_and_one_gap() -> None:
    written = Written()
    for offset in range(100):
        written.append([offset_record("g", "t", 0, StoredOffset(offset, -1, "", 0))], 0)
    written.clean(100, 0)

    assert written.log.contents() == (removed_records(99), written.whole.contents()[99])
    assert len(list(written.log.ranges())) == 2


def test_a_tombstone_remains_for_a_day() -> None:
    """``log.cleaner.delete.retention.ms``: a follower that was away must copy the tombstone."""
    written = Written()
    written.append([offset_record("g", "t", 0, StoredOffset(5, -1, "", 0))], 0)
    written.append([offset_tombstone("g", "t", 0)], 0)
    written.clean(2, 0)
    assert written.log.contents() == (removed_records(1), offset_tombstone("g", "t", 0))

    written.clean(2, 2)
    assert written.log.contents() == (removed_records(2),)


def test_segments_are_cleaned_when_half_of_their_bytes_are_dirty() -> None:
    """``log.cleaner.min.cleanable.ratio`` 0.5; the active segment is never cleaned."""
    segments = Segments()
    appends = [segments.append(40, 0, segment_bytes=100, segment_ms=1_000) for _ in range(5)]
    assert appends == [False, False, True, False, True]

    segments.cleaned(100)
    appends = [segments.append(40, 0, segment_bytes=100, segment_ms=1_000) for _ in range(5)]
    assert appends == [False, False, False, True, False], "only 80 of 180 bytes are dirty at the first closed segment"


def test_a_segment_closes_after_its_time() -> None:
    """``log.roll.ms``."""
    segments = Segments()
    appends = [segments.append(1, now_ms, segment_bytes=100, segment_ms=1_000) for now_ms in (0, 1_000, 1_001)]

    assert appends == [False, False, True]
