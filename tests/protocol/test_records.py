"""Records of the offsets log, byte for byte. Source: the value schemas and spec'd load rules of Kafka 3.9."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.messages.records import (
    HIGHEST_VERSION,
    GroupMetadata,
    GroupRecord,
    OffsetRecord,
    StoredMember,
    StoredOffset,
    decode_record,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from kemu.protocol.wire.codec import CodecError, Malformed, UnsupportedVersion
from tests.protocol.vectors import examples
from tests.strategies import GROUPS, INT32, STORED_OFFSETS, TEXT

VERSIONS = range(HIGHEST_VERSION + 1)
MEMBER = StoredMember("m1", "i1", "c", "/h", 60_000, 10_000, b"\x01\x02", b"\x03")
GROUP = GroupMetadata("grp", "consumer", 3, "range", "m1", 1_000, (MEMBER, attrs.evolve(MEMBER, member_id="m2")))
OFFSET = StoredOffset(100, 7, "m", 1_000)


def group_as_written(group: GroupMetadata, version: int) -> GroupMetadata:
    """The content that a reader of that version sees."""
    members = [
        attrs.evolve(
            member,
            instance_id=member.instance_id if version >= 3 else None,
            rebalance_timeout_ms=member.rebalance_timeout_ms if version >= 1 else -1,
        )
        for member in group.members
    ]
    stamp = group.state_timestamp_ms if version >= 2 else -1
    return attrs.evolve(group, members=tuple(members), state_timestamp_ms=stamp)


def offset_as_written(offset: StoredOffset, version: int) -> StoredOffset:
    """The content that a reader of that version sees."""
    return attrs.evolve(
        offset,
        leader_epoch=offset.leader_epoch if version >= 3 else -1,
        expire_timestamp_ms=offset.expire_timestamp_ms if version == 1 else None,
        topic_id=offset.topic_id if version >= 4 else "",
    )


def cut_anywhere(key: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    return [(key[:size], value) for size in range(1, len(key))] + [(key, value[:size]) for size in range(len(value))]


@pytest.mark.parametrize("row", examples("GroupMetadataKey"))
def test_group_key_examples_are_written_and_read(row: dict[str, Any]):
    """The version of a key is the kind of the record: 2 is a group."""
    group = row["input"]["group"]
    assert group_tombstone(group) == (bytes.fromhex(row["hex"]), None)
    assert decode_record(bytes.fromhex(row["hex"]), None) == GroupRecord(group, None)


@pytest.mark.parametrize(
    "row",
    [
        {"input": {"group": "grp", "topic": "foo", "partition": 1}, "hex": "000100036772700003666f6f00000001"},
        *examples("OffsetCommitKey"),
    ],
)
def test_offset_key_examples_are_written_and_read(row: dict[str, Any]):
    """Versions 0 and 1 have the same body; 1 is written."""
    where = (row["input"]["group"], row["input"]["topic"], row["input"]["partition"])
    data = bytes.fromhex(row["hex"])
    assert offset_tombstone(*where) == (b"\x00\x01" + data[2:], None)
    for version in (b"\x00\x00", b"\x00\x01"):
        assert decode_record(version + data[2:], None) == OffsetRecord(*where, None)


@pytest.mark.parametrize("row", examples("OffsetCommitValue"))
def test_offset_value_examples_are_written_and_read(row: dict[str, Any]):
    """Bytes of Kafka's own classes, v0 to v4."""
    said = row["input"]
    epoch = -1 if said["leader_epoch"] is None else said["leader_epoch"]
    offset = StoredOffset(said["offset"], epoch, said["metadata"], said["commit_timestamp"], said["expire_timestamp"])
    key, value = offset_record("g", "t", 1, offset, version=row["version"])

    assert value == bytes.fromhex(row["hex"])
    assert decode_record(key, value) == OffsetRecord("g", "t", 1, offset)


@pytest.mark.parametrize("row", examples("GroupMetadataValue"))
def test_group_value_examples_are_written_and_read(row: dict[str, Any]):
    """Bytes of Kafka's own classes, v0 to v4, with and without members."""
    said = row["input"]
    members = [
        StoredMember(
            member["member_id"],
            member["group_instance_id"].removesuffix(" (v3+)"),
            member["client_id"],
            member["client_host"],
            member["rebalance_timeout"],
            member["session_timeout"],
            bytes.fromhex(member["subscription"]),
            bytes.fromhex(member["assignment"]),
        )
        for member in said["members"]
    ]
    stamp = said["current_state_timestamp"]
    group = GroupMetadata(
        "g", said["protocol_type"], said["generation"], said["protocol"], said["leader"], stamp, tuple(members)
    )
    key, value = group_record(group, row["version"])

    assert value == bytes.fromhex(row["hex"])
    assert decode_record(key, value) == GroupRecord("g", group_as_written(group, row["version"]))


@given(GROUPS, st.sampled_from(VERSIONS))
def test_a_group_survives_the_round_trip_as_far_as_its_version_goes(group: GroupMetadata, version: int):
    """Fields that a version lacks are omitted, as in Kafka (ignorable)."""
    assert decode_record(*group_record(group, version)) == GroupRecord(group.group, group_as_written(group, version))


@given(TEXT, TEXT, INT32, STORED_OFFSETS, st.sampled_from(VERSIONS))
def test_an_offset_survives_the_round_trip(group: str, topic: str, partition: int, offset: StoredOffset, version: int):
    """v3 brought the leader epoch, v4 the topic id; only v1 knows an expiry."""
    expected = OffsetRecord(group, topic, partition, offset_as_written(offset, version))
    assert decode_record(*offset_record(group, topic, partition, offset, version=version)) == expected


def test_an_offset_is_written_as_v3_with_a_topic_id_as_v4_and_with_an_expiry_as_v1():
    """Source: GroupMetadataManager.offsetCommitValue: v1 when there is an expire timestamp."""
    _, value = offset_record("g", "t", 0, OFFSET)
    _, expiring = offset_record("g", "t", 0, attrs.evolve(OFFSET, expire_timestamp_ms=2_000))
    _, of_topic = offset_record("g", "t", 0, attrs.evolve(OFFSET, topic_id="id"))
    assert (value[:2], of_topic[:2], expiring[:2]) == (b"\x00\x03", b"\x00\x04", b"\x00\x01")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[pytest.param(*group_record(GROUP, version), id=f"group-v{version}") for version in VERSIONS],
        *[
            pytest.param(*offset_record("g", "t", 1, OFFSET, version=version), id=f"offset-v{version}")
            for version in VERSIONS
        ],
    ],
)
def test_a_record_cut_anywhere_is_malformed(key: bytes, value: bytes):
    """Never a part of a record."""
    assert decode_record(key, value) is not None
    for cut_key, cut_value in cut_anywhere(key, value):
        with pytest.raises(Malformed, match="bytes needed"):
            decode_record(cut_key, cut_value)


def test_bytes_after_the_known_fields_are_ignored():
    """Kafka's readers do not look at what is left."""
    key, value = group_record(GROUP)
    assert decode_record(key + b"tail", value + b"tail") == GroupRecord("grp", GROUP)


def test_tagged_fields_of_the_future_are_skipped():
    """KIP-482: a flexible version may grow fields without a new number (Kafka 4.1 tags OffsetCommitValue so)."""
    key, value = offset_record("g", "t", 1, OFFSET, version=4)
    tagged = value[:-1] + bytes([2, 1, 3]) + b"abc" + bytes([200, 1, 0])
    assert decode_record(key, tagged) == OffsetRecord("g", "t", 1, OFFSET)


@pytest.mark.parametrize("version", [-1, 3, 4, 32767])
def test_a_key_of_an_unknown_version_is_skipped(version: int):
    """A loading coordinator ignores records of newer brokers."""
    key = version.to_bytes(2, "big", signed=True) + b"\x00\x01g"
    assert decode_record(key, b"whatever") is None
    assert decode_record(key, None) is None


@pytest.mark.parametrize("version", [-1, 5])
@pytest.mark.parametrize("key", [group_tombstone("g")[0], offset_tombstone("g", "t", 0)[0]])
def test_a_value_of_an_unknown_version_is_refused(key: bytes, version: int):
    """Its key promised something we must understand."""
    with pytest.raises(UnsupportedVersion, match=r"Value v-?\d: supported are v0 to v4"):
        decode_record(key, version.to_bytes(2, "big", signed=True) + bytes(60))
    with pytest.raises(UnsupportedVersion):
        group_record(GROUP, version)
    with pytest.raises(UnsupportedVersion):
        offset_record("g", "t", 0, OFFSET, version=version)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=120))
def test_any_bytes_give_a_whole_record_or_a_codec_error(key: bytes, value: bytes | None):
    """Nothing else escapes, whatever a disk holds."""
    try:
        record = decode_record(key, value)
    except CodecError:
        return
    assert record is None or isinstance(record, GroupRecord | OffsetRecord)
