"""The log against a plain list of records, and its memory of idempotent producers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.broker.partition_log import (
    APPEND,
    KEPT_BATCHES,
    LoggedBatch,
    PartitionLog,
    SequenceCheck,
    from_record,
    sequence_after,
    to_record,
)
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import RecordBatch

RECORD_BYTES = 100


def _log(*batches: tuple[int, int, int], start: int = 0) -> PartitionLog:
    """A log of (records, append time, leader epoch) rows."""
    log = PartitionLog(start)
    for records, time_ms, epoch in batches:
        log.append(LoggedBatch(log.end_offset, records, time_ms, epoch))
    return log


def _records(batches: tuple[RecordBatch, ...]) -> list[tuple[int, int, int]]:
    """(offset, time, epoch) of every record in the result."""
    return [
        (batch.base_offset + index, batch.append_time_ms, batch.leader_epoch)
        for batch in batches
        for index in range(batch.count)
    ]


# --- records -------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 6), st.integers(0, 4), st.integers(0, 1)),
        st.tuples(st.just("truncate"), st.integers(0, 12), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@given(steps=STEPS, start=st.sampled_from([0, 7]), offset=st.integers(0, 40), max_records=st.integers(0, 12))
def test_reads_and_time_lookups_equal_those_of_a_list_of_records(steps, start, offset, max_records):
    """The model: a list with one (offset, time, epoch) per record. Append times may decrease."""
    log = PartitionLog(start)
    model: list[tuple[int, int, int]] = []
    for kind, number, time_ms, epoch in steps:
        if kind == "append":
            base = log.end_offset
            log.append(LoggedBatch(base, number, time_ms, epoch))
            model.extend((base + index, time_ms, epoch) for index in range(number))
        else:
            end = max(start, log.end_offset - number)
            log.truncate(end)
            model = [record for record in model if record[0] < end]

    assert log.end_offset == log.high_watermark == start + len(model)
    if start <= offset <= log.end_offset:
        expected = [record for record in model if record[0] >= offset][: max(1, max_records)]
        assert _records(log.read(offset, max_records * RECORD_BYTES, RECORD_BYTES)) == expected
    for timestamp_ms in range(6):
        found = next(((time_ms, at) for at, time_ms, _ in model if time_ms >= timestamp_ms), None)
        assert log.offset_at(timestamp_ms) == found


def test_appends_of_equal_time_and_epoch_are_one_range():
    """Millions of records must cost what their distinct append times cost."""
    log = _log((10, 5, 0), (20, 5, 0), (1, 6, 0), (1, 6, 1))

    ranges = [(batch.base_offset, batch.count) for batch in log.read(0, 10_000, 1)]

    assert ranges == [(0, 30), (30, 1), (31, 1)]


def test_a_read_brings_a_record_even_when_it_is_larger_than_asked_for():
    """KIP-74: progress must be possible whatever the limits."""
    assert _records(_log((3, 1, 0)).read(1, 0, RECORD_BYTES)) == [(1, 1, 0)]


@given(
    batch=st.builds(
        LoggedBatch,
        st.integers(0, 2**63 - 1),
        st.integers(1, 2**31 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**31 - 1),
        st.integers(-1, 2**63 - 1),
        st.integers(-1, 2**15 - 1),
        st.integers(-1, 2**31 - 1),
        st.integers(0, 2**31 - 1),
    )
)
def test_a_batch_comes_back_from_its_disk_record(batch):
    """``from_record`` reads the output of ``to_record``."""
    record = to_record(batch)

    assert record[0] == b""
    assert from_record(record) == batch


def test_a_log_rebuilt_from_its_records_answers_as_before():
    """A restart keeps records and producers; a log without its head starts at its first record."""
    batches = [
        LoggedBatch(40, 3, 10, 1, 9, 0, 0),
        LoggedBatch(43, 2, 10, 1),
        LoggedBatch(45, 4, 12, 2, 9, 0, 3),
    ]

    log = PartitionLog.rebuilt([to_record(batch) for batch in batches])

    assert (log.start_offset, log.end_offset) == (40, 49)
    assert log.offset_at(11) == (12, 45)
    assert log.check(9, 0, 3, 4) == SequenceCheck(ErrorCode.NONE, 45, 12)
    assert log.check(9, 0, 7, 1) == APPEND
    assert PartitionLog.rebuilt([]).end_offset == 0


# --- idempotent producers ------------------------------------------------------------------------------------------


def _write(log: PartitionLog, sequence: int, records: int, *, producer_id: int = 7, epoch: int = 0) -> LoggedBatch:
    assert log.check(producer_id, epoch, sequence, records) == APPEND
    batch = LoggedBatch(log.end_offset, records, 100, 0, producer_id, epoch, sequence)
    log.append(batch)
    return batch


def test_one_of_the_last_five_batches_is_recognised_with_its_offset():
    """ProducerStateEntry: "the batchMetadata is ordered such that the ... last is the latest", five of them."""
    log = PartitionLog()
    batches = [_write(log, index * 10, 10) for index in range(KEPT_BATCHES + 1)]

    assert log.check(7, 0, batches[0].sequence, 10).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for batch in batches[1:]:
        assert log.check(7, 0, batch.sequence, 10) == SequenceCheck(ErrorCode.NONE, batch.base_offset, 100)


@pytest.mark.parametrize(("sequence", "records"), [(11, 5), (0, 9), (3, 7), (4, 6)])
def test_a_gap_or_a_batch_cut_differently_is_out_of_order(sequence, records):
    """ProducerAppendInfo.checkSequence: the next sequence is the last one + 1; a duplicate has equal bounds."""
    log = PartitionLog()
    _write(log, 0, 10)

    assert log.check(7, 0, sequence, records).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one():
    """ProducerAppendInfo: checkProducerEpoch, and "invalid sequence number for new epoch"."""
    log = PartitionLog()
    _write(log, 0, 10)

    assert log.check(7, 1, 10, 5).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    _write(log, 0, 5, epoch=1)

    assert log.check(7, 0, 10, 5).error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.check(7, 1, 5, 1) == APPEND


def test_sequence_numbers_wrap_to_zero():
    """DefaultRecordBatch.incrementSequence: 2^31 - 1 is followed by 0."""
    log = PartitionLog()
    _write(log, 2**31 - 3, 5)

    assert sequence_after(2**31 - 3, 5) == 2
    assert log.check(7, 0, 2, 1) == APPEND


def test_truncation_forgets_what_the_log_lost_and_keeps_the_rest():
    """A truncated batch may be written again; one that stayed is still a duplicate."""
    log = PartitionLog()
    first = _write(log, 0, 10)
    _write(log, 10, 10)
    _write(log, 0, 5, producer_id=8)

    log.truncate(15)

    assert log.check(7, 0, 0, 10) == SequenceCheck(ErrorCode.NONE, first.base_offset, 100)
    assert log.check(7, 0, 10, 10) == APPEND
    assert log.check(8, 0, 3, 1) == APPEND  # KIP-360: an unknown producer may start anywhere
