"""What requests and answers say."""

from typing import Any

import pytest
from attrs import evolve

from kemu.emulator.checkers.fields import Fields
from kemu.emulator.facts import HostDown, HostStarted, MemberReconfigured
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    AlterIsr,
    AlterPartitionReassignmentsReply,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    NewIsr,
    ReassignmentOutcome,
)
from kemu.protocol.messages.data import (
    Fetch,
    FetchPartition,
    MetadataReply,
    PartitionMetadata,
    Produce,
    TopicMetadata,
)
from kemu.protocol.messages.group import (
    DescribedGroup,
    DescribedMember,
    DescribeGroupsReply,
    FetchedOffset,
    FindCoordinator,
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    OffsetCommit,
    OffsetCommitReply,
    OffsetDelete,
    OffsetFetch,
    OffsetFetchReply,
    OffsetOutcome,
    OffsetToCommit,
    SyncGroup,
    TopicPartitions,
)
from kemu.protocol.messages.store import OpenSession, OpenSessionReply, Ping, StoreCode
from kemu.protocol.nodes import CONTROLLER_EPOCH, PartitionState, state_data, state_path
from kemu.protocol.notes.groups import GroupBecame, GroupLoaded, GroupUnloaded, OffsetCommitted
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    ControllerReady,
    ControllerResigned,
    MetadataCached,
    NodeWritten,
)
from tests.emulator.checkers.wired import Wired

B, B1 = "b0/coordinator", "b1/coordinator"
AGAIN = "b0 again"
"""The coordinator ``B`` after it loaded the group again."""
JOIN = JoinGroup(
    group="g", session_timeout_ms=10_000, rebalance_timeout_ms=300_000, protocol_type="consumer", protocols=()
)
JOINED = JoinGroupReply(error=ErrorCode.NONE, generation=3, member_id="m", protocol_name="range")
BEAT = Heartbeat(group="g", generation=3, member_id="m")
FETCH = Fetch(max_wait_ms=500, min_bytes=1, partitions=())
FOLLOWS = Fetch(replica_id=0, max_wait_ms=500, min_bytes=1, max_bytes=10_485_760, partitions=())


@pytest.fixture
def told() -> Wired:
    return Wired(Fields)


def joined(told: Wired) -> None:
    told.asks("c1", B, JOIN)
    told.answers(B, "c1", JOINED)


def test_a_member_has_its_former_settings_until_its_next_life(told: Wired) -> None:
    """A process that closes may still send a JoinGroup; the next process has the new settings."""
    changed = MemberReconfigured(host="c1", profile="", assignors=(), settings=("session.timeout.ms=30000",))
    later = evolve(JOIN, session_timeout_ms=30_000)
    told.world(changed)
    told.sends("c1", B, JOIN)
    assert told.said() == []

    told.sends("c1", B, later)
    assert told.said() == ["wrong"]

    told.world(HostDown(host="c1", life=1, how="closed"))
    told.world(HostStarted(host="c1", life=2, kept_disk=True))
    told.sends("c1", B, later)
    assert told.said() == ["wrong"]

    told.sends("c1", B, JOIN)
    assert told.said() == ["wrong", "wrong"]


@pytest.mark.parametrize("wrong", [{"session_timeout_ms": 45_000}, {"rebalance_timeout_ms": 1}, {"instance_id": "x"}])
def test_a_join_says_what_is_set(told: Wired, wrong: dict[str, Any]) -> None:
    told.sends("c1", B, JOIN)
    assert told.said() == []
    told.sends("c1", B, evolve(JOIN, member_id="m", **wrong))

    assert told.said() == ["wrong"]


@pytest.mark.parametrize(("member_id", "said"), [("m", []), ("", ["wrong"])])
def test_a_member_joins_with_the_id_that_it_was_told(told: Wired, member_id: str, said: list[str]) -> None:
    told.asks("c1", B, JOIN)
    told.answers(B, "c1", JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="m"))
    told.sends("c1", B, evolve(JOIN, member_id=member_id))

    assert told.said() == said


@pytest.mark.parametrize(("profile", "said"), [("kafka-2.4", ["wrong"]), ("kafka-2.6", []), ("kafka-2.8", ["wrong"])])
def test_only_in_2_6_a_join_that_got_no_answer_makes_a_member_forget_its_id(profile: str, said: list[str]) -> None:
    told = Wired(Fields, profile)
    told.asks("c1", B, JOIN)
    told.answers(B, "c1", JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="m"))
    told.asks("c1", B, evolve(JOIN, member_id="m"))
    told.breaks("c1", B)
    told.sends("c1", B, JOIN)

    assert told.said() == said


@pytest.mark.parametrize(
    "request_of",
    [
        lambda **said: Heartbeat(group="g", **said),
        lambda **said: SyncGroup(group="g", protocol_name="range", **said),
        lambda **said: OffsetCommit(group="g", offsets=(), **said),
    ],
)
def test_a_member_says_who_it_is_by_its_last_join(told: Wired, request_of: Any) -> None:
    joined(told)
    told.sends("c1", B, request_of(generation=3, member_id="m"))
    assert told.said() == []
    told.sends("c1", B, request_of(generation=2, member_id="m"))
    told.sends("c1", B, request_of(generation=3, member_id="n"))

    assert told.said() == ["wrong", "wrong"]


def test_a_commit_outside_of_a_generation_is_not_a_member_s(told: Wired) -> None:
    joined(told)
    told.sends("c1", B, OffsetCommit(group="g", offsets=()))

    assert told.said() == []


@pytest.mark.parametrize("wrong", [{"max_wait_ms": 1_000}, {"min_bytes": 0}, {"max_bytes": 1}, {"replica_id": 0}])
def test_a_fetch_of_a_consumer_says_what_is_set(told: Wired, wrong: dict[str, Any]) -> None:
    told.sends("c1", "b0", FETCH)
    assert told.said() == []
    told.sends("c1", "b0", evolve(FETCH, **wrong))

    assert told.said() == ["wrong"]


@pytest.mark.parametrize("wrong", [{"max_wait_ms": 1_000}, {"min_bytes": 0}, {"replica_id": 1}])
def test_a_fetch_of_a_follower_does_too(told: Wired, wrong: dict[str, Any]) -> None:
    told.sends("b0", "b1", FOLLOWS)
    assert told.said() == []
    told.sends("b0", "b1", evolve(FOLLOWS, **wrong))

    assert told.said() == ["wrong"]


@pytest.mark.parametrize(("epoch", "offset", "said"), [(2, 0, []), (1, 0, ["wrong"]), (2, 5, ["wrong"])])
def test_a_follower_fetches_from_its_log_s_end_in_its_epoch(
    told: Wired, epoch: int, offset: int, said: list[str]
) -> None:
    told.note(
        "b0", BecameFollower(topic="orders", partition=0, leader=1, leader_epoch=2, end_offset=0, high_watermark=0)
    )
    row = FetchPartition(topic="orders", partition=0, current_leader_epoch=epoch, fetch_offset=offset)
    told.sends("b0", "b1", evolve(FOLLOWS, partitions=(row,)))

    assert told.said() == said


@pytest.mark.parametrize(("acks", "timeout_ms", "said"), [(-1, 30_000, []), (1, 30_000, ["wrong"]), (-1, 5, ["wrong"])])
def test_a_producer_asks_for_the_acks_that_are_set(told: Wired, acks: int, timeout_ms: int, said: list[str]) -> None:
    told.sends("p1", "b0", Produce(acks=acks, timeout_ms=timeout_ms, batches=()))

    assert told.said() == said


def test_a_member_looks_for_its_own_group_s_coordinator(told: Wired) -> None:
    told.sends("c1", "b0", FindCoordinator(key="g"))
    assert told.said() == []
    told.sends("c1", "b0", FindCoordinator(key="h"))

    assert told.said() == ["wrong"]


@pytest.mark.parametrize(("epoch", "said"), [(2, []), (1, []), (3, ["wrong"])])
def test_a_leader_asks_for_an_isr_in_its_epoch_or_an_earlier_one(told: Wired, epoch: int, said: list[str]) -> None:
    leads = BecameLeader(topic="orders", partition=0, leader_epoch=2, isr=(0, 1), end_offset=0, high_watermark=0)
    told.note("b0", leads)
    row = NewIsr(topic_name="orders", partition_index=0, leader_epoch=epoch, new_isr=(0,), current_isr_version=1)
    told.sends("b0", "b1/controller", AlterIsr(broker_id=0, partitions=(row,)))

    assert told.said() == said


def orders(**more: Any) -> LeaderAndIsr:
    row = LeaderAndIsrPartition(
        topic_name="orders",
        partition_index=0,
        controller_epoch=1,
        leader=more.get("leader", 1),
        leader_epoch=2,
        isr=more.get("isr", (1, 0)),
        zk_version=4,
        replicas=(0, 1),
    )
    return LeaderAndIsr(
        controller_id=more.get("controller", 1),
        controller_epoch=more.get("epoch", 7),
        partition_states=(row,),
        live_leaders=(),
    )


@pytest.mark.parametrize("wrong", [{"controller": 0}, {"epoch": 6}, {"leader": 0}, {"isr": (1,)}])
def test_a_controller_says_who_it_is_and_what_the_store_has(told: Wired, wrong: dict[str, Any]) -> None:
    def writes(path: str, data: bytes, version: int) -> None:
        told.note("zk", NodeWritten(what="set", path=path, data=data, version=version, zxid=9, client="b1/controller"))

    state = PartitionState(leader=1, leader_epoch=2, isr=(1, 0), controller_epoch=1)
    writes(CONTROLLER_EPOCH, b"7", 1)
    writes(state_path("orders", 0), state_data(state), 4)
    told.asks("b1/controller", "b0", orders())
    assert told.said() == []
    told.asks("b1/controller", "b0", orders(**wrong))

    assert told.said() == ["wrong"]


def test_a_client_of_the_store_names_its_session(told: Wired) -> None:
    told.asks("b0", "zk", OpenSession(timeout_ms=18_000))
    told.answers("zk", "b0", OpenSessionReply(code=StoreCode.OK, session_id=5, timeout_ms=18_000))
    told.sends("b0", "zk", Ping(session_id=5))
    assert told.said() == []
    told.sends("b0", "zk", Ping(session_id=4))

    assert told.said() == ["wrong"]


def topic(leader: int, epoch: int) -> TopicMetadata:
    row = PartitionMetadata(
        error=ErrorCode.NONE, partition=0, leader=leader, leader_epoch=epoch, replicas=(0, 1), isr=(0, 1)
    )
    return TopicMetadata(error=ErrorCode.NONE, topic="orders", partitions=(row,))


def test_a_broker_tells_the_leaders_that_it_was_told(told: Wired) -> None:
    told.note("b0", MetadataCached(live_brokers=(0, 1), topics=(topic(1, 2),), gone=()))
    told.replies("b0", "c1", MetadataReply(brokers=(), topics=(topic(1, 2),)))
    assert told.said() == []
    told.replies("b0", "c1", MetadataReply(brokers=(), topics=(topic(0, 2),)))

    assert told.said() == ["wrong"]


def test_a_coordinator_tells_the_offset_that_is_committed(told: Wired) -> None:
    told.note(B, GroupBecame(group="g", old="Empty", new="PreparingRebalance", generation=0, why=""))
    told.note(B, OffsetCommitted(group="g", topic="orders", partition=0, offset=7, member_id="", generation=-1))
    for number, offset in ((1, 7), (2, 6)):
        told.gets(B, "c1", OffsetFetch(group="g", topics=None), number)
        row = FetchedOffset(topic="orders", partition=0, offset=offset, error=ErrorCode.NONE)
        told.replies(B, "c1", OffsetFetchReply(offsets=(row,)), number)

    assert told.said() == ["wrong"]


@pytest.mark.parametrize(
    ("partition", "later", "offset", "said"),
    [(0, False, -1, []), (0, False, 6, ["wrong"]), (1, False, -1, ["wrong"]), (0, True, -1, ["wrong"])],
)
def test_an_offset_delete_without_a_report_may_be_in_the_log(
    told: Wired, partition: int, later: bool, offset: int, said: list[str]
) -> None:
    """A coordinator that is isolated has written it (kafka-4.0 operated, seed 5050). It removes the named offset
    entirely, and no later one.
    """
    told.note(B, GroupBecame(group="g", old="Empty", new="PreparingRebalance", generation=0, why=""))
    committed = OffsetCommitted(group="g", topic="orders", partition=0, offset=7, member_id="", generation=-1)
    told.note(B, committed)
    deleted = OffsetDelete(group="g", topics=(TopicPartitions(topic="orders", partitions=(partition,)),))
    told.gets(B, "admin", deleted, 1)
    if later:
        told.note(B, committed)
    told.gets(B, "c1", OffsetFetch(group="g", topics=None), 2)
    row = FetchedOffset(topic="orders", partition=0, offset=offset, error=ErrorCode.NONE)
    told.replies(B, "c1", OffsetFetchReply(offsets=(row,)), 2)

    assert told.said() == said


@pytest.mark.parametrize(
    ("error", "later", "by", "offset", "said"),
    [
        (None, "", B1, 5, []),
        (ErrorCode.REQUEST_TIMED_OUT, "", B1, 5, []),
        (ErrorCode.UNKNOWN_MEMBER_ID, "", B1, 5, ["wrong"]),
        (None, "", B1, 6, ["wrong"]),
        (None, "", B, 5, ["wrong"]),  # it knows only what it reported
        (ErrorCode.REQUEST_TIMED_OUT, "", B, 5, ["wrong"]),
        (None, "", AGAIN, 5, []),
        (None, B, B1, 5, []),  # it was perhaps written before the operator's
        (ErrorCode.REQUEST_TIMED_OUT, B, B1, 5, ["wrong"]),
        (None, B1, B1, 5, ["wrong"]),
    ],
)
def test_a_commit_of_an_operator_without_a_report_may_be_in_the_log(
    told: Wired, error: ErrorCode | None, later: str, by: str, offset: int, said: list[str]
) -> None:
    """The next coordinator reads it if it was replicated (kafka-3.4 operated, seed 9237). Later commits replace it."""
    told.note(B, GroupBecame(group="g", old="Empty", new="PreparingRebalance", generation=0, why=""))
    committed = OffsetCommitted(group="g", topic="orders", partition=0, offset=7, member_id="m", generation=1)
    told.note(B, committed)
    asked = OffsetCommit(group="g", offsets=(OffsetToCommit(topic="orders", partition=0, offset=5),))
    told.gets(B, "admin", asked, 1)
    if error is not None:
        outcome = OffsetOutcome(topic="orders", partition=0, error=error)
        told.replies(B, "admin", OffsetCommitReply(outcomes=(outcome,)), 1)
    if later == B:
        told.note(B, committed)
    if by == B1:
        told.note(B, GroupUnloaded(group="g"))
        told.note(B1, GroupLoaded(group="g", state="Empty", generation=0, members=()))
    if later == B1:
        told.note(B1, committed)
    if by == AGAIN:
        told.note(B, GroupLoaded(group="g", state="Empty", generation=0, members=()))
        by = B
    told.gets(by, "c1", OffsetFetch(group="g", topics=None), 2)
    row = FetchedOffset(topic="orders", partition=0, offset=offset, error=ErrorCode.NONE)
    told.replies(by, "c1", OffsetFetchReply(offsets=(row,)), 2)

    assert told.said() == said


@pytest.mark.parametrize(("protocol_type", "said"), [("consumer", []), ("", ["wrong"])])
def test_a_described_group_has_the_protocol_type_that_members_joined_with(
    told: Wired, protocol_type: str, said: list[str]
) -> None:
    joined(told)
    member = DescribedMember(member_id="m", client_id="c1", client_host="c1", metadata=b"", assignment=b"")
    group = DescribedGroup(
        error=ErrorCode.NONE,
        group="g",
        state="Stable",
        protocol_type=protocol_type,
        protocol="range",
        members=(member,),
    )
    told.replies(B, "admin", DescribeGroupsReply(groups=(group,)))

    assert told.said() == said


def test_a_partition_that_the_store_has_is_not_unknown(told: Wired) -> None:
    row = ReassignmentOutcome(topic_name="orders", partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    told.replies("b0/controller", "admin", AlterPartitionReassignmentsReply(responses=(row,)))
    assert told.said() == []
    data = state_data(PartitionState(leader=1, leader_epoch=2, isr=(1, 0), controller_epoch=1))
    path = state_path("orders", 0)
    told.note("zk", NodeWritten(what="created", path=path, data=data, version=0, zxid=9, client="b1/controller"))
    told.replies("b0/controller", "admin", AlterPartitionReassignmentsReply(responses=(row,)))

    assert told.said() == ["wrong"]


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_controller_that_resigned_knows_no_partition_until_it_is_ready_again(told: Wired, is_ready: bool) -> None:
    """``KafkaController.elect`` (3.9): its own node of a former session makes it active, without a context."""
    row = ReassignmentOutcome(topic_name="orders", partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    data = state_data(PartitionState(leader=1, leader_epoch=2, isr=(1, 0), controller_epoch=1))
    path = state_path("orders", 0)
    told.note("zk", NodeWritten(what="created", path=path, data=data, version=0, zxid=9, client="b1/controller"))
    told.note("b0/controller", ControllerResigned(broker_id=0, controller_epoch=1, why="the session expired"))
    if is_ready:
        told.note(
            "b0/controller", ControllerReady(broker_id=0, controller_epoch=2, brokers=(0, 1), topics=1, partitions=1)
        )
    told.replies("b0/controller", "admin", AlterPartitionReassignmentsReply(responses=(row,)))
    told.replies("b1/controller", "admin", AlterPartitionReassignmentsReply(responses=(row,)))

    assert told.said() == ["wrong"] * (1 + is_ready)
