"""Record batches: kafka-python reads batches that kemu makes, and kemu reads batches that kafka-python makes."""

import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kemu.protocol.kafka_wire.batches import (
    HEAD_BYTES,
    batch_summary,
    emulated_batch,
    make_batch,
    patch_base_offset,
    produced_batch,
    records_of,
    split_batches,
)
from kemu.protocol.kafka_wire.errors import WireError

RECORDS = st.lists(st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=300)), min_size=1)
BATCH = make_batch([(b"k", b"one"), (None, b"two")], base_offset=5, timestamp_ms=77, producer_id=9, sequence=3)


def kafka_python() -> Any:
    """kafka-python's readers and writers of batches."""
    pytest.importorskip("kafka", reason="kafka-python is not installed (extra dev)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.record import default_records, memory_records

    return default_records, memory_records


@settings(max_examples=40, deadline=None)
@given(records=RECORDS, base=st.integers(0, 1 << 50), at=st.integers(0, 1 << 50), epoch=st.integers(-1, 1 << 31 - 1))
def test_kafka_python_reads_a_made_batch(records: list[Any], base: int, at: int, epoch: int) -> None:
    """Keys, values, offsets, timestamps and the checksum."""
    _, memory = kafka_python()
    made = make_batch(records, base_offset=base, timestamp_ms=at, leader_epoch=epoch)

    batch = memory.MemoryRecords(made).next_batch()
    assert batch.validate_crc()
    found = [(each.key, each.value, each.offset, each.timestamp) for each in batch]

    assert found == [(key, value, base + index, at) for index, (key, value) in enumerate(records)]
    assert list(records_of(made)) == records
    assert batch_summary(made).leader_epoch == epoch


@pytest.mark.parametrize("codec", [0, 1])
def test_a_batch_of_kafka_python_has_the_summary_that_it_was_made_with(codec: int) -> None:
    """Uncompressed and gzip; the compressed records stay untouched."""
    default, _ = kafka_python()
    builder = default.DefaultRecordBatchBuilder(2, codec, True, 42, 3, 17, 1 << 20)
    for index in range(5):
        builder.append(index, 1000 + index, b"key", b"value" * 20, [])
    made = bytes(builder.build())

    found = batch_summary(made)

    assert (found.record_count, found.last_offset_delta, found.max_timestamp_ms) == (5, 4, 1004)
    assert (found.producer_id, found.producer_epoch, found.sequence) == (42, 3, 17)
    assert (found.compression, found.is_transactional, found.is_control) == (("none", "gzip")[codec], True, False)
    assert found.size_bytes == len(made)


def test_a_patched_batch_keeps_its_checksum() -> None:
    """Base offset and leader epoch stand before the checksum."""
    patched = patch_base_offset(BATCH, 1 << 40, leader_epoch=8)

    found = batch_summary(patched)
    assert (found.base_offset, found.leader_epoch) == (1 << 40, 8)
    assert list(records_of(patched)) == [(b"k", b"one"), (None, b"two")]
    assert batch_summary(patch_base_offset(BATCH, 6)).leader_epoch == -1


def test_batches_that_follow_each_other_are_split() -> None:
    """A broker may cut the last batch of a fetch; a producer may not."""
    second = emulated_batch("orders", 3, 7, 2, 99, 4)
    both = BATCH + second

    assert split_batches(both) == (BATCH, second)
    assert split_batches(b"") == ()
    assert list(records_of(second)) == [(None, b"orders-3@7"), (None, b"orders-3@8")]
    for cut in (1, len(second) - 5, len(second) - 12, len(second) - 17):
        assert split_batches(both[:-cut], may_be_cut=True) == (BATCH,)
        with pytest.raises(WireError, match="are left"):
            split_batches(both[:-cut])


def changed(at: int, value: bytes, batch: bytes = BATCH) -> bytes:
    """The batch with other bytes at a place."""
    return batch[:at] + value + batch[at + len(value) :]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (None, "needs one batch"),
        (b"", "needs one batch"),
        (BATCH[:-1], f"a batch of {len(BATCH)} bytes in {len(BATCH) - 1} bytes"),
        (BATCH + BATCH, f"a batch of {len(BATCH)} bytes in {2 * len(BATCH)} bytes"),
        (BATCH[:40], "a batch of 40 bytes, the header alone has 61"),
        (changed(len(BATCH) - 1, b"x"), "another checksum"),
        (changed(16, b"\1"), "message format v1, only v2 is spoken"),
        (changed(8, b"\xff\xff\xff\xff"), "a batch of 11 bytes, the header alone has 61"),
        (changed(8, b"\x7f\xff\xff\xff"), "a batch of 2147483659 bytes in"),
    ],
)
def test_records_that_no_producer_may_send_are_refused(records: bytes | None, said: str) -> None:
    """ProduceRequest.validateRecords, Kafka 3.9: exactly one batch of format v2."""
    with pytest.raises(WireError, match=said):
        produced_batch(records)


@pytest.mark.parametrize(
    ("attributes", "last", "count", "said"),
    [
        (5, 0, 1, "compression 5 is unknown"),
        (0x20, 0, 1, "control batches"),
        (0, 1, 1, "1 records, the last at 1"),
        (0, 0, 0, "0 records"),
        (0, 0, -1, "a batch of -1 records"),
        (0, -1, 1, "the last at -1"),
    ],
)
def test_a_header_that_no_producer_may_send_is_refused(attributes: int, last: int, count: int, said: str) -> None:
    """With a right checksum. Source: LogValidator, Kafka 3.9."""
    import google_crc32c

    body = attributes.to_bytes(2, "big") + last.to_bytes(4, "big", signed=True) + bytes(16) + b"\xff" * 14
    body += count.to_bytes(4, "big", signed=True)
    head = bytes(8) + (len(body) + 9).to_bytes(4, "big") + bytes(4) + b"\2"
    batch = head + google_crc32c.value(body).to_bytes(4, "big") + body
    assert len(batch) == HEAD_BYTES

    with pytest.raises(WireError, match=said):
        produced_batch(batch)
