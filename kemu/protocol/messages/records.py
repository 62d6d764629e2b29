"""Records of a group coordinator in its partition of ``__consumer_offsets``, as the coordinator writes and loads them.

Keys and values each begin with an int16 version. The key's version is the kind of the record: 0 and 1 a committed
offset, 2 the metadata of a group. A null value (tombstone) removes the key.

The layouts of the values are::

    OffsetCommitValue   offset int64, v3+ leader_epoch int32, metadata string, commit_timestamp int64,
                        v1 only: expire_timestamp int64, v4+ tag 0: topic_id
    GroupMetadataValue  protocol_type string, generation int32, protocol and leader nullable string,
                        v2+ state_timestamp int64, members array<(member_id, v3+ instance_id nullable, client_id,
                        client_host, v1+ rebalance_timeout int32, session_timeout int32, subscription bytes,
                        assignment bytes)>

The records of KIP-333's second commit log have key versions that Kafka's coordinators skip as unknown::

    RangeKey            group string, topic string, partition int32, start int64
    RangeValue          end int64, commit_timestamp int64
    RangeProgressKey    group string, topic string, partition int32
    RangeProgressValue  offset int64, commit_timestamp int64

Version 4 of Kafka's two values is flexible (compact lengths, tagged fields). Kemu writes version 3, as Kafka does since
2.3, and version 4 for an offset with a topic id (Kafka since 4.1). Here the topic id is text; Kafka writes 16 bytes.

Source: OffsetCommitKey/Value and GroupMetadataKey/Value, Kafka 3.9; OffsetCommitValue, Kafka 4.1.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from kemu.protocol.frozen import frozen
from kemu.protocol.wire.binary import Reader, Writer
from kemu.protocol.wire.codec import UnsupportedVersion

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
RANGE_KEY_VERSION = 3330
RANGE_PROGRESS_KEY_VERSION = 3331
WRITTEN_VERSION = 3
"""The written version of both values. An offset with an explicit expiry is written as version 1, the only version with
an expiry; an offset with a topic id as version 4.
"""
HIGHEST_VERSION = 4
BATCH_BYTES = 61
"""Source: ``DefaultRecordBatch.RECORD_BATCH_OVERHEAD``."""

_EXPIRY_VERSION = 1
_EPOCH_SINCE = 3
_STATE_TIMESTAMP_SINCE = 2
_INSTANCE_SINCE = 3
_REBALANCE_TIMEOUT_SINCE = 1
_FLEXIBLE_SINCE = 4
_TOPIC_ID_SINCE = 4
_TOPIC_ID_TAG = 0
_RECORD_BYTES = 12
"""The upper bound of a record's bytes without key and value (``DefaultRecord``).

The bytes are the record's length, attributes, deltas, the two lengths, and the number of headers.
"""
_REMOVED_KEY = b""
_COUNT = struct.Struct(">q")
_PLAIN_OFFSET = struct.Struct(">hqihq")
"""OffsetCommitValue of ``WRITTEN_VERSION`` with metadata of length 0."""


@frozen
class StoredMember:
    """A member in a group's record, with the metadata of the selected protocol only.

    ``rebalance_timeout_ms`` is -1 if the record has no such field (v0); the session timeout is used instead.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@frozen
class GroupMetadata:
    """A group in the log; protocol and leader are None without members.

    ``state_timestamp_ms``: the time of the last change of state, -1 in older records (v0, v1).
    """

    group: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]


@frozen
class StoredOffset:
    """A committed offset. ``leader_epoch`` -1: unknown. ``expire_timestamp_ms``: only the oldest clients set it.

    ``topic_id``: the id of the topic at the commit; empty if unknown.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: str = ""


@frozen
class GroupRecord:
    """A record with a group's metadata; None: the record removes the group."""

    group: str
    metadata: GroupMetadata | None


@frozen
class OffsetRecord:
    """A record with a partition's committed offset; None: the record removes the offset."""

    group: str
    topic: str
    partition: int
    value: StoredOffset | None


@frozen
class StoredRange:
    """A range token: offsets from its key's start up to, not including, ``end``."""

    end: int
    commit_timestamp_ms: int


@frozen
class RangeRecord:
    """A record with a token of the second commit log (KIP-333); None: the record closes the range from this start."""

    group: str
    topic: str
    partition: int
    start: int
    value: StoredRange | None


@frozen
class RangeProgressRecord:
    """A record with the second consumer's commit; None: the record removes the commit."""

    group: str
    topic: str
    partition: int
    value: StoredOffset | None


StoredRecord: TypeAlias = GroupRecord | OffsetRecord | RangeRecord | RangeProgressRecord


def group_record(metadata: GroupMetadata, version: int = WRITTEN_VERSION) -> tuple[bytes, bytes]:
    """The key and value of a group's metadata; fields that the version lacks are omitted (ignorable in Kafka's schema).

    Raises:
        UnsupportedVersion: the version is outside v0 to v4.
        CodecError: a string or number that cannot be encoded.
    """
    out = _begin("GroupMetadataValue", version)
    out.string(metadata.protocol_type)
    out.int32(metadata.generation)
    out.string(metadata.protocol)
    out.string(metadata.leader)
    if version >= _STATE_TIMESTAMP_SINCE:
        out.int64(metadata.state_timestamp_ms)
    out.count(len(metadata.members))
    for member in metadata.members:
        _write_member(out, member, version)
    out.end_struct()
    return _group_key(metadata.group), out.data()


def group_tombstone(group: str) -> tuple[bytes, None]:
    """The record that removes a group."""
    return _group_key(group), None


def offset_record(
    group: str,
    topic: str,
    partition: int,
    value: StoredOffset,
    *,
    version: int | None = None,
) -> tuple[bytes, bytes]:
    """The key and value of a committed offset.

    ``version`` None: version 3, or version 4 if the value has a topic id, as in Kafka. A value with an expiry has
    version 1, without a leader epoch and a topic id.

    Raises:
        UnsupportedVersion: the version is outside v0 to v4.
        CodecError: a string or number that cannot be encoded.
    """
    if version is None and value.expire_timestamp_ms is None and not (value.topic_id or value.metadata):
        try:  # most offsets of a run: one call instead of a writer
            packed = _PLAIN_OFFSET.pack(WRITTEN_VERSION, value.offset, value.leader_epoch, 0, value.commit_timestamp_ms)
        except struct.error:
            packed = b""  # the writer names the number that does not fit
        if packed:
            return _offset_key(group, topic, partition), packed
    if version is None and value.expire_timestamp_ms is not None:
        version = _EXPIRY_VERSION
    elif version is None:
        version = _TOPIC_ID_SINCE if value.topic_id else WRITTEN_VERSION
    out = _begin("OffsetCommitValue", version)
    out.int64(value.offset)
    if version >= _EPOCH_SINCE:
        out.int32(value.leader_epoch)
    out.string(value.metadata)
    out.int64(value.commit_timestamp_ms)
    if version == _EXPIRY_VERSION:
        out.int64(-1 if value.expire_timestamp_ms is None else value.expire_timestamp_ms)
    tagged = {}
    if version >= _TOPIC_ID_SINCE and value.topic_id:
        tagged[_TOPIC_ID_TAG] = topic_id = Writer("topic id")
        topic_id.flexible = True
        topic_id.string(value.topic_id)
    out.end_struct(tagged)
    return _offset_key(group, topic, partition), out.data()


def offset_tombstone(group: str, topic: str, partition: int) -> tuple[bytes, None]:
    """The record that removes a committed offset."""
    return _offset_key(group, topic, partition), None


def range_record(group: str, topic: str, partition: int, start: int, value: StoredRange) -> tuple[bytes, bytes]:
    """The key and value of a range token."""
    out = Writer("RangeValue")
    out.int16(0)
    out.int64(value.end)
    out.int64(value.commit_timestamp_ms)
    return _range_key(group, topic, partition, start), out.data()


def range_tombstone(group: str, topic: str, partition: int, start: int) -> tuple[bytes, None]:
    """The record that closes a range."""
    return _range_key(group, topic, partition, start), None


def range_progress_record(group: str, topic: str, partition: int, value: StoredOffset) -> tuple[bytes, bytes]:
    """The key and value of the second consumer's commit, which has no leader epoch and no metadata."""
    out = Writer("RangeProgressValue")
    out.int16(0)
    out.int64(value.offset)
    out.int64(value.commit_timestamp_ms)
    return _range_progress_key(group, topic, partition), out.data()


def range_progress_tombstone(group: str, topic: str, partition: int) -> tuple[bytes, None]:
    """The record that removes the second consumer's commit."""
    return _range_progress_key(group, topic, partition), None


def removed_records(count: int) -> tuple[bytes, bytes]:
    """The place of consecutive records that the log cleaner removed; the next record keeps its position."""
    return _REMOVED_KEY, _COUNT.pack(count)


def removed_count(record: tuple[bytes, bytes | None]) -> int:
    """The number of removed records in this place; 0 for a record."""
    key, value = record
    return int(_COUNT.unpack(value)[0]) if key == _REMOVED_KEY and value is not None else 0


def batch_bytes(records: Iterable[tuple[bytes, bytes | None]]) -> int:
    """The size of the records as a separate uncompressed batch; a few bytes too high."""
    return BATCH_BYTES + sum(_RECORD_BYTES + len(key) + len(value or b"") for key, value in records)


def decode_record(key: bytes, value: bytes | None) -> StoredRecord | None:
    """Decode a record; None for a key of an unknown version, which a loading coordinator skips.

    Bytes after the known fields are ignored, as in Kafka.

    Raises:
        Malformed: bytes that end inside a field (the error names it), or a null where none is allowed.
        UnsupportedVersion: a known kind of record with an unknown version of its value.
    """
    source = Reader(key, "record key")
    version = source.int16("version")
    if version == GROUP_KEY_VERSION:
        source.what = f"GroupMetadataKey v{version}"
        group = source.string("group")
        return GroupRecord(group, None if value is None else _read_group(group, value))
    if version in OFFSET_KEY_VERSIONS:
        source.what = f"OffsetCommitKey v{version}"
        group, topic, partition = source.string("group"), source.string("topic"), source.int32("partition")
        return OffsetRecord(group, topic, partition, None if value is None else _read_offset(value))
    if version == RANGE_KEY_VERSION:
        source.what = "RangeKey"
        group, topic, partition = source.string("group"), source.string("topic"), source.int32("partition")
        start = source.int64("start")
        return RangeRecord(group, topic, partition, start, None if value is None else _read_range(value))
    if version == RANGE_PROGRESS_KEY_VERSION:
        source.what = "RangeProgressKey"
        group, topic, partition = source.string("group"), source.string("topic"), source.int32("partition")
        return RangeProgressRecord(group, topic, partition, None if value is None else _read_progress(value))
    return None


def _group_key(group: str) -> bytes:
    out = Writer("GroupMetadataKey")
    out.int16(GROUP_KEY_VERSION)
    out.string(group)
    return out.data()


@lru_cache(maxsize=65_536)
def _offset_key(group: str, topic: str, partition: int) -> bytes:
    out = Writer("OffsetCommitKey")
    out.int16(OFFSET_KEY_VERSIONS[-1])
    out.string(group)
    out.string(topic)
    out.int32(partition)
    return out.data()


def _range_key(group: str, topic: str, partition: int, start: int) -> bytes:
    out = Writer("RangeKey")
    out.int16(RANGE_KEY_VERSION)
    out.string(group)
    out.string(topic)
    out.int32(partition)
    out.int64(start)
    return out.data()


def _range_progress_key(group: str, topic: str, partition: int) -> bytes:
    out = Writer("RangeProgressKey")
    out.int16(RANGE_PROGRESS_KEY_VERSION)
    out.string(group)
    out.string(topic)
    out.int32(partition)
    return out.data()


def _begin(schema: str, version: int) -> Writer:
    if not 0 <= version <= HIGHEST_VERSION:
        raise UnsupportedVersion(f"{schema} v{version}: supported are v0 to v{HIGHEST_VERSION}")
    out = Writer(f"{schema} v{version}")
    out.int16(version)
    out.flexible = version >= _FLEXIBLE_SINCE
    return out


def _open(schema: str, data: bytes) -> tuple[Reader, int]:
    source = Reader(data, schema)
    version = source.int16("version")
    if not 0 <= version <= HIGHEST_VERSION:
        raise UnsupportedVersion(f"{schema} v{version}: supported are v0 to v{HIGHEST_VERSION}")
    source.what = f"{schema} v{version}"
    source.flexible = version >= _FLEXIBLE_SINCE
    return source, version


def _write_member(out: Writer, member: StoredMember, version: int) -> None:
    out.string(member.member_id)
    if version >= _INSTANCE_SINCE:
        out.string(member.instance_id)
    out.string(member.client_id)
    out.string(member.client_host)
    if version >= _REBALANCE_TIMEOUT_SINCE:
        out.int32(member.rebalance_timeout_ms)
    out.int32(member.session_timeout_ms)
    out.blob(member.subscription)
    out.blob(member.assignment)
    out.end_struct()


def _read_member(source: Reader, version: int) -> StoredMember:
    member = StoredMember(
        member_id=source.string("member_id"),
        instance_id=source.nullable_string("instance_id") if version >= _INSTANCE_SINCE else None,
        client_id=source.string("client_id"),
        client_host=source.string("client_host"),
        rebalance_timeout_ms=source.int32("rebalance_timeout") if version >= _REBALANCE_TIMEOUT_SINCE else -1,
        session_timeout_ms=source.int32("session_timeout"),
        subscription=source.blob("subscription"),
        assignment=source.blob("assignment"),
    )
    source.end_struct("member")
    return member


def _read_group(group: str, data: bytes) -> GroupMetadata:
    source, version = _open("GroupMetadataValue", data)
    metadata = GroupMetadata(
        group=group,
        protocol_type=source.string("protocol_type"),
        generation=source.int32("generation"),
        protocol=source.nullable_string("protocol"),
        leader=source.nullable_string("leader"),
        state_timestamp_ms=source.int64("state_timestamp") if version >= _STATE_TIMESTAMP_SINCE else -1,
        members=tuple([_read_member(source, version) for _ in range(source.count("members"))]),
    )
    source.end_struct("group")
    return metadata


def _read_offset(data: bytes) -> StoredOffset:
    source, version = _open("OffsetCommitValue", data)
    offset = source.int64("offset")
    leader_epoch = source.int32("leader_epoch") if version >= _EPOCH_SINCE else -1
    metadata = source.string("metadata")
    commit_timestamp_ms = source.int64("commit_timestamp")
    expiry = source.int64("expire_timestamp") if version == _EXPIRY_VERSION else -1
    tagged = source.end_struct("offset")
    topic_id = tagged[_TOPIC_ID_TAG].string("topic id") if _TOPIC_ID_TAG in tagged else ""
    expires_at_ms = None if expiry == -1 else expiry
    return StoredOffset(offset, leader_epoch, metadata, commit_timestamp_ms, expires_at_ms, topic_id)


def _read_range(data: bytes) -> StoredRange:
    source, _ = _open("RangeValue", data)
    return StoredRange(source.int64("end"), source.int64("commit_timestamp"))


def _read_progress(data: bytes) -> StoredOffset:
    source, _ = _open("RangeProgressValue", data)
    return StoredOffset(source.int64("offset"), -1, "", source.int64("commit_timestamp"))
