"""The records of groups with the consumer protocol keep their content in ``__consumer_offsets``."""

import pytest
from attrs import evolve

from kemu.actors.coordinator.consumer_group.state import (
    ClassicMetadata,
    ConsumerMember,
    CurrentRecord,
    GroupEpochRecord,
    GroupRecord,
    MemberRecord,
    RegexRecord,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
)
from kemu.actors.coordinator.consumer_group.stored import decoded, encoded
from kemu.actors.coordinator.replay import replay
from kemu.protocol.consumer_group.reconciling import CurrentAssignment
from kemu.protocol.consumer_group.states import ReconcilingState, Topic
from kemu.protocol.messages.group import JoinProtocol
from kemu.protocol.messages.records import StoredOffset, offset_record

MEMBER = ConsumerMember(
    "m1",
    "i1",
    "r1",
    client_id="c1",
    client_host="/c1",
    rebalance_timeout_ms=300_000,
    topics=("t", "u"),
    assignor="range",
)
CLASSIC = evolve(
    MEMBER,
    member_id="m2",
    instance_id="i2",
    classic=ClassicMetadata(9_000, (JoinProtocol(name="range", metadata=b"s"),)),
)
CURRENT = CurrentAssignment(ReconcilingState.UNREVOKED_PARTITIONS, 4, 3, {("T", 0): 4, ("T", 2): 4}, {("U", 1): 4})
RECORDS: tuple[GroupRecord, ...] = (
    GroupEpochRecord(5),
    TopicsRecord((Topic("t", "T", 3), Topic("u", "U", 2))),
    MemberRecord("m1", MEMBER),
    TargetEpochRecord(5),
    TargetRecord("m1", {"T": (0, 2)}),
    CurrentRecord("m1", CURRENT),
    RegexRecord("t.*", ("t",), 7_000, 3),
)
TOMBSTONES: tuple[GroupRecord, ...] = (
    CurrentRecord("m1", None),
    TargetRecord("m1", None),
    TargetEpochRecord(0),
    MemberRecord("m1", None),
    RegexRecord("t.*", None),
    TopicsRecord(()),
    GroupEpochRecord(0),
)


@pytest.mark.parametrize(
    "record", [*RECORDS, GroupEpochRecord(5, -(1 << 60)), MemberRecord("m2", CLASSIC), *TOMBSTONES], ids=repr
)
def test_a_record_keeps_its_content(record: GroupRecord) -> None:
    assert decoded(*encoded("g", record)) == ("g", record)


def test_since_4_3_the_log_keeps_the_epochs_of_partitions_and_the_time_of_the_target() -> None:
    """AssignmentEpochs and AssignmentTimestamp are tagged fields; without them the epoch is the member's (KIP-1251)."""
    current = CurrentAssignment(ReconcilingState.UNREVOKED_PARTITIONS, 4, 3, {("T", 0): 2, ("T", 2): 4}, {("U", 1): 3})
    record = CurrentRecord("m1", current)

    assert decoded(*encoded("g", record, epochs=True)) == ("g", record)
    assert decoded(*encoded("g", record)) == ("g", CurrentRecord("m1", CURRENT))
    at = TargetEpochRecord(5, 1_234_567)
    assert decoded(*encoded("g", at)) == ("g", at)


def test_a_tombstone_has_the_key_of_its_record() -> None:
    keys = {encoded("g", record)[0] for record in RECORDS}

    assert {encoded("g", record)[0] for record in TOMBSTONES} == keys
    assert all(encoded("g", record)[1] is None for record in TOMBSTONES)


def test_the_kinds_are_those_of_kafka() -> None:
    """Source: ``CoordinatorRecordType`` of Kafka 4.0."""
    assert [int.from_bytes(encoded("g", record)[0][:2]) for record in RECORDS] == [3, 4, 5, 6, 7, 8, 16]


@pytest.mark.parametrize(
    ("member", "ends"),
    [
        (MEMBER, "01 00 01 00"),
        (CLASSIC, "01 00 10 01 00002328 02 06 72616e6765 02 73 00 00"),
    ],
)
def test_a_member_tells_its_classic_part_in_a_tagged_field(member: ConsumerMember, ends: str) -> None:
    """Kafka 4.0 writes the field of a member of the consumer protocol as null.

    Source: the generated class ``ConsumerGroupMemberMetadataValue`` 4.0.1.
    """
    _, value = encoded("g", MemberRecord(member.member_id, member))

    assert value is not None
    assert value.endswith(bytes.fromhex(ends))


def test_a_replay_rebuilds_the_group_with_its_offsets() -> None:
    offset = offset_record("g", "t", 0, StoredOffset(7, 1, "", 100))
    found = replay((*[encoded("g", record) for record in RECORDS], offset))

    states = found.consumer_group("g")
    assert found.groups() == ("g",)
    assert states is not None
    for state in states:
        assert (state.epoch, state.target_epoch, state.members) == (5, 5, {"m1": MEMBER})
        assert state.current_of("m1") == CURRENT
        assert not state.is_free(("U", 1))
        assert state.is_free(("T", 1))
    assert found.offsets_of("g").committed["t", 0].value.offset == 7


def test_a_deleted_group_is_not_rebuilt() -> None:
    found = replay([encoded("g", record) for record in (*RECORDS, *TOMBSTONES)])

    assert found.consumer_group("g") is None
    assert found.groups() == ()
