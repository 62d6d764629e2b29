"""Record batches of format v2, as bytes: their headers, checksums and base offsets; batches for emulated records.

A batch travels between real clients without a change, compressed or not. Only its base offset and its leader epoch are
set, which its checksum does not cover.

Source: ``DefaultRecordBatch``, Kafka 3.9.
"""

from collections.abc import Iterator, Sequence
from struct import Struct

import google_crc32c

from kemu.protocol.frozen import frozen
from kemu.protocol.kafka_wire.errors import WireError

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
"""The names of the codecs, by their number in a batch's attributes."""

_HEAD = Struct(">qiibIhiqqqhii")
HEAD_BYTES = _HEAD.size
"""The size of a batch without records."""
_MAGIC = 2
_BEFORE_LENGTH_BYTES = 12
"""A batch's length counts the bytes behind the base offset and the length itself; there the leader epoch begins."""
_CRC_FROM = 21
_CODEC, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_PLACE = Struct(">qi")
_OFFSET = Struct(">q")
_CRC = Struct(">I")
_EPOCH = Struct(">i")


@frozen
class BatchSummary:
    """The header of a batch. ``record_count`` records have the offsets from ``base_offset`` on."""

    base_offset: int
    last_offset_delta: int
    record_count: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int
    """The first record's sequence number; -1: the producer is not idempotent."""
    max_timestamp_ms: int
    compression: str
    is_transactional: bool
    is_control: bool
    size_bytes: int


def split_batches(records: bytes, *, may_be_cut: bool = False) -> tuple[bytes, ...]:
    """The batches that follow each other in these bytes.

    Args:
        records: the records of one partition in Produce or Fetch.
        may_be_cut: ignore an incomplete batch at the end, as clients do. A broker may cut the last batch of a fetch.

    Raises:
        WireError: a batch of another format, or an incomplete batch at the end.
    """
    found, at, end = [], 0, len(records)
    while at < end:
        size = _size_at(records, at)
        if size > end - at:
            if may_be_cut:
                break
            raise WireError(f"records: the batch at byte {at} has {size} bytes, {end - at} are left")
        found.append(records[at : at + size])
        at += size
    return tuple(found)


def _size_at(records: bytes, at: int) -> int:
    """The size of the batch at this byte; above the number of bytes that are left if these are too few to tell."""
    left = len(records) - at
    if left < _BEFORE_LENGTH_BYTES:
        return left + 1
    size = _PLACE.unpack_from(records, at)[1] + _BEFORE_LENGTH_BYTES
    if left > 16 and records[at + 16] != _MAGIC:
        raise WireError(f"records: message format v{records[at + 16]}, only v2 is spoken (Kafka 0.11 and newer)")
    if size < HEAD_BYTES:
        raise WireError(f"records: a batch of {size} bytes, the header alone has {HEAD_BYTES}")
    return int(size)


def batch_summary(batch: bytes, *, check: bool = True) -> BatchSummary:
    """The header of one batch.

    Args:
        batch: exactly one batch.
        check: compare the checksum (CRC32C of the bytes behind the checksum).

    Raises:
        WireError: not exactly one batch of format v2, a wrong checksum, an unknown codec, or a negative number of
            records.
    """
    if len(batch) < HEAD_BYTES:
        raise WireError(f"records: a batch of {len(batch)} bytes, the header alone has {HEAD_BYTES}")
    if _size_at(batch, 0) != len(batch):
        raise WireError(f"records: a batch of {_size_at(batch, 0)} bytes in {len(batch)} bytes")
    head = _HEAD.unpack_from(batch)
    base, _, leader_epoch, _, crc, attributes, last, _, max_timestamp, producer, epoch, sequence, count = head
    if check and google_crc32c.value(batch[_CRC_FROM:]) != crc:
        raise WireError(f"records: the batch has another checksum than {crc:#010x}")
    if attributes & _CODEC >= len(COMPRESSIONS):
        raise WireError(f"records: compression {attributes & _CODEC} is unknown")
    if count < 0 or last < 0:
        raise WireError(f"records: a batch of {count} records, the last at {last}")
    return BatchSummary(
        base_offset=base,
        last_offset_delta=last,
        record_count=count,
        leader_epoch=leader_epoch,
        producer_id=producer,
        producer_epoch=epoch,
        sequence=sequence,
        max_timestamp_ms=max_timestamp,
        compression=COMPRESSIONS[attributes & _CODEC],
        is_transactional=bool(attributes & _TRANSACTIONAL),
        is_control=bool(attributes & _CONTROL),
        size_bytes=len(batch),
    )


def produced_batch(records: bytes | None) -> BatchSummary:
    """The header of the batch that a producer sends to one partition.

    Raises:
        WireError: null, not exactly one batch (as in Kafka since Produce v3), or records without consecutive offsets.

    Source: ``ProduceRequest.validateRecords``, ``LogValidator``.
    """
    if not records:
        raise WireError("records: Produce needs one batch for each partition")
    found = batch_summary(records)
    if found.record_count == 0 or found.last_offset_delta != found.record_count - 1:
        raise WireError(f"records: {found.record_count} records, the last at {found.last_offset_delta}")
    if found.is_control:
        raise WireError("records: a client may not produce control batches")
    return found


def patch_base_offset(batch: bytes, offset: int, leader_epoch: int | None = None) -> bytes:
    """The same batch at another offset, and under another leader epoch; the checksum stays right."""
    patched = bytearray(batch)
    _OFFSET.pack_into(patched, 0, offset)
    if leader_epoch is not None:
        _EPOCH.pack_into(patched, _BEFORE_LENGTH_BYTES, leader_epoch)
    return bytes(patched)


def make_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    base_offset: int,
    timestamp_ms: int,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
) -> bytes:
    """An uncompressed batch of records (key, value) with one timestamp and without headers."""
    assert records, "a batch has at least one record"
    body = bytearray()
    for delta, (key, value) in enumerate(records):
        record = bytearray(b"\0\0")  # no attributes, timestamp delta 0
        _add_varint(record, delta)
        for part in (key, value):
            _add_varint(record, -1 if part is None else len(part))
            record += part or b""
        record.append(0)  # no headers
        _add_varint(body, len(record))
        body += record
    last, count = len(records) - 1, len(records)
    tail = (0, last, timestamp_ms, timestamp_ms, producer_id, producer_epoch, sequence, count)
    unsigned = _HEAD.pack(base_offset, HEAD_BYTES - _BEFORE_LENGTH_BYTES + len(body), leader_epoch, _MAGIC, 0, *tail)
    signed_part = unsigned[_CRC_FROM:] + body
    return bytes(unsigned[: _CRC_FROM - 4] + _CRC.pack(google_crc32c.value(signed_part)) + signed_part)


def emulated_batch(topic: str, partition: int, base_offset: int, count: int, timestamp_ms: int, epoch: int) -> bytes:
    """A batch for records without a payload; the value of a record is its place (``orders-3@1207``)."""
    values = [(None, f"{topic}-{partition}@{base_offset + index}".encode()) for index in range(count)]
    return make_batch(values, base_offset=base_offset, timestamp_ms=timestamp_ms, leader_epoch=epoch)


def records_of(batch: bytes) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The records (key, value) of an uncompressed batch.

    Raises:
        WireError: a compressed batch, or records that do not fill the batch.
    """
    found = batch_summary(batch)
    if found.compression != "none":
        raise WireError(f"records: compressed ({found.compression})")
    at = HEAD_BYTES
    for _ in range(found.record_count):
        size, at = _varint(batch, at)
        end, at = at + size, at + 1
        for _ in range(2):  # deltas of the timestamp and of the offset
            _, at = _varint(batch, at)
        key, at = _part(batch, at)
        value, at = _part(batch, at)
        if not at <= end <= len(batch):
            raise WireError("records: a record does not fit into its batch")
        at = end
        yield key, value


def _part(batch: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(batch, at)
    if size < 0:
        return None, at
    return batch[at : at + size], at + size


def _add_varint(out: bytearray, value: int) -> None:
    """Add a zigzag varint."""
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise WireError("records: a record ends early")
