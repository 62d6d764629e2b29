"""Expiry: whole segments from the log's start, too old or too large, never above the high watermark.

Mirrors Kafka's LogTest about retention and LogSegment.shouldRoll.
"""

import pytest

from kemu.actors.broker.partition_log import LoggedBatch, PartitionLog, start_entry, to_record
from kemu.actors.broker.replica_log import ReplicaLog, batch_entry, emptied_entry, epoch_entry, restored
from kemu.actors.broker.retention import RetentionPolicy
from kemu.protocol.messages.data import ReplicaBatch
from kemu.protocol.notes.replication import LogStartMoved
from tests.actors.broker.replica_world import Bench

S = 1_000_000
BYTES = 10
FOREVER = RetentionPolicy(retention_ms=-1, retention_bytes=-1, segment_bytes=10 * BYTES, segment_ms=1 << 40)


def log_of(*appends: tuple[int, int]) -> PartitionLog:
    """A log of batches (records, append time)."""
    log = PartitionLog()
    for count, time_ms in appends:
        log.append(LoggedBatch(log.end_offset, count, time_ms, 0))
    return log


def test_a_segment_goes_when_its_last_record_is_too_old():
    """Log.deleteRetentionMsBreachedSegments: the largest timestamp counts, older than (not as old as) the limit."""
    log = log_of((5, 100), (5, 200), (5, 300))
    policy = FOREVER._replace(retention_ms=50)

    assert policy.start_of(log, BYTES, now_ms=250) == 0
    assert policy.start_of(log, BYTES, now_ms=251) == 10
    assert policy.start_of(log, BYTES, now_ms=351) == 15, "the active segment is rolled and goes, too"
    assert FOREVER.start_of(log, BYTES, now_ms=1 << 40) == 0


def test_segments_go_while_what_is_left_is_as_much_as_may_be_kept():
    """Log.deleteRetentionSizeBreachedSegments: the active segment stays however large it is."""
    log = log_of((10, 1), (10, 2), (10, 3), (5, 4))
    policy = FOREVER._replace(retention_bytes=15 * BYTES)

    assert policy.start_of(log, BYTES, now_ms=10) == 20
    assert FOREVER._replace(retention_bytes=0).start_of(log, BYTES, now_ms=10) == 30
    assert FOREVER._replace(retention_bytes=26 * BYTES).start_of(log, BYTES, now_ms=10) == 0


def test_a_segment_ends_by_its_size_or_by_the_age_of_its_first_record():
    """LogSegment.shouldRoll."""
    log = log_of((6, 0), (6, 1), (1, 90), (1, 200))
    policy = RetentionPolicy(retention_ms=100, retention_bytes=-1, segment_bytes=10 * BYTES, segment_ms=88)

    assert policy.start_of(log, BYTES, now_ms=102) == 12
    assert policy.start_of(log, BYTES, now_ms=191) == 13


def test_nothing_above_the_high_watermark_goes():
    """Log.deletableSegments: a segment must end at or below the high watermark."""
    log = ReplicaLog()
    for count in (10, 10):
        log.take(ReplicaBatch(base_offset=log.end_offset, count=count, append_time_ms=log.end_offset, leader_epoch=0))
    log.high_watermark = 15

    assert FOREVER._replace(retention_ms=1).start_of(log, BYTES, now_ms=1_000) == 10


def test_a_log_whose_start_moved_reads_looks_up_and_remembers_producers_as_before():
    """Log.maybeIncrementLogStartOffset; KIP-360: a producer's state outlives its records."""
    log = PartitionLog()
    for sequence, time_ms in ((0, 5), (4, 9)):
        log.append(LoggedBatch(log.end_offset, 4, time_ms, 0, 7, 0, sequence))

    assert log.advance_start(5) and not log.advance_start(3)

    assert [(batch.base_offset, batch.count) for batch in log.read(5, 1_000, 1)] == [(5, 3)]
    assert log.offset_at(1) == (9, 5)
    assert log.check(7, 0, 0, 4).base_offset == 0, "a batch that comes again is known though its records are gone"
    log.advance_start(8)
    assert log.read(8, 1_000, 1) == () and (log.start_offset, log.end_offset) == (8, 8)
    log.append(LoggedBatch(8, 1, 12, 0))
    assert [batch.base_offset for batch in log.read(8, 1_000, 1)] == [8]


def test_a_restart_finds_the_start_again():
    """The disk is only appended to: the log start is an entry like any other."""
    arranged = [to_record(LoggedBatch(0, 4, 1, 0)), start_entry(4), to_record(LoggedBatch(4, 2, 3, 0))]
    found = PartitionLog.rebuilt(arranged)
    assert (found.start_offset, found.end_offset) == (4, 6)

    batches = [ReplicaBatch(base_offset=base, count=4, append_time_ms=1, leader_epoch=base // 4) for base in (0, 4)]
    journal = [*batch_entry(batches[0]), epoch_entry(1, 4), *batch_entry(batches[1]), start_entry(6)]
    log = restored(journal)
    assert log is not None
    assert (log.start_offset, log.end_offset, log.epochs.entries) == (6, 8, ((1, 6),))
    assert [(one.base_offset, one.count) for one in log.copy_from(6, 1_000, 1)] == [(6, 2)]

    emptied = restored([*journal, emptied_entry(20)])
    assert emptied is not None
    assert (emptied.start_offset, emptied.end_offset, emptied.epochs.entries) == (20, 20, ())


def starts(bench: Bench, name: str) -> list[tuple[int, int, str]]:
    """All changes of a broker's log start: (start, end, why)."""
    found = [fact for who, fact in bench.notes if who == name and isinstance(fact, LogStartMoved)]
    return [(fact.start_offset, fact.end_offset, fact.why) for fact in found]


def led_with_records() -> Bench:
    """b0 leads ten records, which b1 has copied."""
    bench = Bench(2)
    bench.elect(0, (0, 1))
    bench.settle(S)
    bench.produce("b0", 10)
    bench.settle(S)
    return bench


def test_a_follower_begins_its_log_where_its_leader_does():
    """AbstractFetcherThread: processPartitionData adopts the leader's log start, up to its own high watermark."""
    bench = led_with_records()
    bench.brokers["b0"].manager.advance_start(bench.replica("b0"), 6, "retention")
    bench.settle(2 * S)

    assert starts(bench, "b1") == [(6, 10, "leader")]
    assert bench.replica("b1").log.epochs.entries == ((0, 6),)


def test_a_follower_that_needs_what_its_leader_has_deleted_begins_anew():
    """AbstractFetcherThreadTest.testFollowerFetchOutOfRangeLow: truncateFullyAndStartAt the leader's start."""
    bench = Bench(2)
    bench.elect(0, (0, 1), to=(0,))
    bench.settle(S)
    bench.produce("b0", 10)
    bench.settle(S)
    leader = bench.replica("b0")
    leader.log.high_watermark = 10
    bench.brokers["b0"].manager.advance_start(leader, 8, "retention")

    bench.tell_state("b1")
    bench.settle(5 * S)

    assert starts(bench, "b1") == [(8, 8, "leader")]
    assert (bench.replica("b1").log.start_offset, bench.replica("b1").log.end_offset) == (8, 10)
    assert leader.log.high_watermark == 10


@pytest.mark.parametrize("end_offset", [3, 0])
def test_a_log_that_is_cut_below_its_start_begins_there(end_offset: int):
    """Log.truncateTo: a target before the first segment empties the log, which continues at the target."""
    bench = led_with_records()
    manager, replica = bench.brokers["b1"].manager, bench.replica("b1")
    manager.advance_start(replica, 5, "retention")
    manager.truncate(replica, end_offset, "leader-epoch")

    assert (replica.log.start_offset, replica.log.end_offset) == (end_offset, end_offset)
