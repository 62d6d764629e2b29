"""What clients owe after an answer, and after none."""

from collections.abc import Callable

import pytest
from attrs import evolve

from kemu.emulator.checkers.clients import Clients
from kemu.emulator.facts import FaultApplied, FaultEnded, HostDown, HostStarted
from kemu.emulator.watching.group_times import GroupTimes
from kemu.emulator.watching.settings import Settings
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import (
    BrokerMetadata,
    Metadata,
    MetadataReply,
    NewLeader,
    PartitionMetadata,
    Produce,
    ProduceBatch,
    ProducedBatch,
    ProduceReply,
    TopicMetadata,
)
from kemu.protocol.messages.group import (
    DescribeGroups,
    DescribeGroupsReply,
    FindCoordinator,
    FindCoordinatorReply,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    OffsetCommit,
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetOutcome,
)
from kemu.protocol.messages.ranges import RangeCommit, RangeCommitReply
from kemu.protocol.names import ADMIN
from kemu.protocol.notes.groups import AdminAnswered, MemberBecame, ProduceFailed
from tests.emulator.checkers.wired import Wired

B = "b0/coordinator"
NONE = ErrorCode.NONE
FULL, MEAGRE, GONE = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_REQUIRED_ACKS
BEAT = Heartbeat(group="g", generation=1, member_id="m")
OFFSETS = OffsetFetch(group="g", topics=())
JOIN = JoinGroup(group="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=())


JOINED = MemberBecame(group="g", member_id="m", old="COMPLETING_REBALANCE", new="STABLE", generation=1, why="")


def made(settings: Settings) -> Clients:
    return Clients(settings, {"g": GroupTimes(poll_us=100_000)})


def wired(profile: str = "kafka-3.4") -> Wired:
    story = Wired(made, profile)  # type: ignore[arg-type]
    for host in ("p1", ADMIN):
        story.world(HostStarted(host=host, life=1, kept_disk=True))
    return story


@pytest.fixture
def told() -> Wired:
    return wired()


def _always(rate: int) -> Callable[[Settings, str], int]:
    return lambda settings, topic: rate


def batch(count: int = 5) -> Produce:
    return Produce(acks=-1, timeout_ms=30_000, batches=(ProduceBatch(topic="orders", partition=0, count=count),))


def said(error: ErrorCode) -> ProduceReply:
    return ProduceReply(batches=(ProducedBatch(topic="orders", partition=0, error=error),))


def produces(told: Wired, error: ErrorCode, number: int, count: int = 5) -> None:
    told.asks("p1", "b0", batch(count), number)
    told.answers("b0", "p1", said(error), number)


def gives_up(told: Wired, count: int = 5) -> None:
    failed = ProduceFailed(topic="orders", partition=0, count=count, error=GONE, definite=True)
    told.note("p1", failed)


# --- producers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wait", "error", "kinds"),
    [
        (0.1, FULL, []),
        (0.11, MEAGRE, []),
        (0.04, FULL, ["too-soon"]),
        (0.04, MEAGRE, ["too-soon"]),
        (0.2, FULL, ["too-late"]),
        (0.9, MEAGRE, []),  # its next leader may take as long
    ],
)
def test_a_batch_that_failed_is_sent_again_after_the_backoff(
    told: Wired, wait: float, error: ErrorCode, kinds: list[str]
) -> None:
    produces(told, error, 1)
    told.wait(wait)
    produces(told, NONE, 2)

    assert told.said() == kinds


@pytest.mark.parametrize(
    ("profile", "first", "named", "kinds"),
    [
        ("kafka-3.9", 5, 6, []),
        ("kafka-3.9", 5, 5, ["too-soon"]),
        ("kafka-3.9", 5, None, ["too-soon"]),
        ("kafka-3.4", 5, 6, ["too-soon"]),
    ],
)
def test_since_3_7_a_batch_does_not_wait_for_its_backoff_once_its_producer_knows_a_newer_leader(
    profile: str, first: int, named: int | None, kinds: list[str]
) -> None:
    """KIP-951, KAFKA-15415."""
    told = wired(profile)
    told.asks("p1", "b0", batch(), 1)
    told.answers("b0", "p1", _names_leader(NONE, first), 1)
    told.wait(1)
    told.asks("p1", "b0", batch(), 2)
    told.answers("b0", "p1", said(MEAGRE) if named is None else _names_leader(MEAGRE, named), 2)
    told.wait(0.01)
    produces(told, NONE, 3)

    assert told.said() == kinds


def _names_leader(error: ErrorCode, epoch: int) -> ProduceReply:
    leader = NewLeader(topic="orders", partition=0, leader_id=1, leader_epoch=epoch, broker=None)
    return ProduceReply(batches=said(error).batches, new_leaders=(leader,))


@pytest.mark.parametrize(("breaks_first", "kinds"), [(False, []), (True, ["too-late"])])
def test_a_batch_waits_also_for_a_connection_that_broke_since_its_failure(
    told: Wired, breaks_first: bool, kinds: list[str]
) -> None:
    """Its connection waits for the back-off of connections (kafka-3.4 operated, seed 9403)."""
    if breaks_first:
        told.breaks("p1", "b0")
        told.wait(0.1)
    produces(told, FULL, 1)
    told.wait(0.09)
    if not breaks_first:
        told.breaks("p1", "b0")
    told.wait(0.11)
    produces(told, NONE, 2)

    assert told.said() == kinds


def test_since_kip_580_each_wait_is_twice_the_one_before() -> None:
    for last, kinds in ((0.4, []), (0.1, ["too-soon"])):
        told = wired("kafka-4.0")
        for number, wait in enumerate((0.1, 0.2, last)):
            produces(told, FULL, number)
            told.wait(wait)
        produces(told, NONE, 9)
        assert told.said() == kinds


def test_a_refused_batch_is_told_to_the_application(told: Wired) -> None:
    produces(told, GONE, 1)
    gives_up(told)
    told.wait(0.1)
    produces(told, NONE, 2, 7)
    assert told.said() == []
    produces(told, GONE, 3)
    told.wait(0.1)
    produces(told, NONE, 4, 7)

    assert told.said() == ["vanished"]


def test_a_batch_that_may_succeed_is_sent_again_as_it_was(told: Wired) -> None:
    produces(told, FULL, 1)
    told.wait(0.1)
    produces(told, NONE, 2, 7)

    assert told.said() == ["vanished"]


def test_a_batch_is_decided_within_its_timeout(told: Wired) -> None:
    produces(told, FULL, 1)
    told.wait(119)
    assert told.said() == []
    told.wait(3)

    assert told.said() == ["undecided"]


def test_one_that_was_given_up_while_it_was_sent_is_decided(told: Wired) -> None:
    told.asks("p1", "b0", batch(), 1)
    gives_up(told)
    told.answers("b0", "p1", said(FULL), 1)
    produces(told, NONE, 2, 7)

    assert told.said() == []


def test_a_producer_stays_away_from_a_broker_whose_connection_broke(told: Wired) -> None:
    produces(told, NONE, 1)
    told.breaks("p1", "b0")
    told.wait(0.06)
    produces(told, NONE, 2)
    assert told.said() == []
    told.breaks("p1", "b0")
    told.wait(0.01)
    produces(told, NONE, 3)

    assert told.said() == ["too-soon"]


@pytest.mark.parametrize(("wait", "kinds"), [(0.1, []), (0.05, ["too-soon"]), (0.2, ["too-late"])])
def test_records_are_sent_at_their_interval(told: Wired, wait: float, kinds: list[str]) -> None:
    for number in range(8):
        produces(told, NONE, number, 50)
        told.wait(wait)

    assert told.said() == kinds


def test_a_producer_that_is_given_less_than_a_record_an_interval_sends_less_often(told: Wired) -> None:
    for number in range(8):
        produces(told, NONE, number, 1)
        told.wait(0.5)

    assert told.said() == []


def test_a_producer_that_knows_who_leads_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = PartitionMetadata(error=NONE, partition=0, leader=0, replicas=(0,), isr=(0,))
    topic = TopicMetadata(error=NONE, topic="orders", partitions=(partition,))
    known = MetadataReply(brokers=(BrokerMetadata(node_id=0, host="b0"),), topics=(topic,))
    unknown = evolve(known, topics=(evolve(topic, partitions=(evolve(partition, leader=-1),)),))
    for reply, first_us, kinds in ((known, 10_000, ["too-late"]), (unknown, 10_000, []), (known, 0, [])):
        told = wired()
        monkeypatch.setattr(Settings, "first_record_us", _always(first_us))
        told.answers("b0", "p1", reply, 1)
        told.wait(10)
        assert told.said() == kinds


# --- the admin -----------------------------------------------------------------------------------------------------

ASK = DescribeGroups(groups=("g",))
LOADING = FindCoordinatorReply(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, host="")
FIND = FindCoordinator(key="g")


def looks_up(told: Wired, number: int) -> None:
    told.asks(ADMIN, "b0", FIND, number)
    told.answers("b0", ADMIN, LOADING, number)


@pytest.mark.parametrize(
    ("waits", "kinds"),
    [((0.1, 0.2, 0.4), []), ((0.05, 0.2), ["too-soon"]), ((0.1, 0.1), ["too-soon"]), ((0.1, 0.4), ["too-late"])],
)
def test_an_admin_asks_again_after_the_backoff(told: Wired, waits: tuple[float, ...], kinds: list[str]) -> None:
    for number, wait in enumerate(waits):
        looks_up(told, number)
        told.wait(wait)
    looks_up(told, 9)

    assert told.said() == kinds


def test_of_two_commands_nobody_knows_which_one_waits(told: Wired) -> None:
    looks_up(told, 1)
    told.world(FaultApplied(index=1, kind="describe-group", text="describe g", links=(), lasts=False))
    told.asks(ADMIN, "b0", FIND, 2)

    assert told.said() == []


@pytest.mark.parametrize(("idle", "kinds"), [(0, []), (59, ["too-late"])])
def test_a_command_is_not_forgotten(told: Wired, idle: float, kinds: list[str]) -> None:
    told.asks(ADMIN, B, ASK, 1)
    told.answers(B, ADMIN, DescribeGroupsReply(groups=()), 1)
    told.wait(idle)
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    told.note(ADMIN, AdminAnswered(group="g", api="DescribeGroups", error=timed_out, text=""))

    assert told.said() == kinds


# --- members -------------------------------------------------------------------------------------------------------


def test_who_is_told_of_no_coordinator_looks_it_up(told: Wired) -> None:
    for looks in (True, False):
        told.asks("c1", B, OFFSETS, 1)
        told.answers(B, "c1", OffsetFetchReply(offsets=(), error=ErrorCode.NOT_COORDINATOR), 1)
        if looks:
            told.asks("c1", "b1", FIND, 2)
            told.answers("b1", "c1", FindCoordinatorReply(error=NONE, node_id=0, host=B), 2)
        told.asks("c1", B, OFFSETS, 3)
        assert told.said() == ([] if looks else ["not-looked-up"])


@pytest.mark.parametrize(("wait", "kinds"), [(1, []), (2, ["not-rejoined"])])
def test_a_member_that_is_told_of_a_rebalance_joins(told: Wired, wait: float, kinds: list[str]) -> None:
    told.note("c1", JOINED)
    told.asks("c1", B, BEAT, 1)
    told.answers(B, "c1", HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS), 1)
    told.wait(wait)
    assert told.said() == kinds
    told.asks("c1", B, JOIN, 2)
    told.wait(60)

    assert told.said() == kinds


@pytest.mark.parametrize(("restarts", "kinds"), [(False, []), (True, ["not-rejoined"])])
def test_a_process_that_was_told_not_to_poll_need_not_rejoin(told: Wired, restarts: bool, kinds: list[str]) -> None:
    """The fault ends with the plan, and the stop goes on (operated swarm of kafka-3.9, seed 130)."""
    told.world(FaultApplied(index=3, kind="stop-polling", text="", links=(("c1", ""),), lasts=True))
    told.world(FaultEnded(index=3, kind="stop-polling"))
    if restarts:
        told.world(HostDown(host="c1", life=1, how="process"))
        told.world(HostStarted(host="c1", life=1, kept_disk=True))  # a story has one life
        told.wait(60)
    told.note("c1", JOINED)
    told.asks("c1", B, BEAT, 1)
    told.answers(B, "c1", HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS), 1)
    told.wait(2)

    assert told.said() == kinds


def test_a_member_joins_once_its_second_consumers_commit_is_given_up(told: Wired) -> None:
    """KIP-333: offsets of both are committed before a join."""
    told.note("c1", JOINED)
    told.sends("c1/catch-up", B, RangeCommit(group="g", generation=1, member_id="m"), 1)
    told.asks("c1", B, BEAT, 2)
    told.answers(B, "c1", HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS), 2)
    told.wait(20)
    assert told.said() == []
    told.hangs_up("c1/catch-up", B)
    told.wait(1)
    assert told.said() == []
    told.wait(2)

    assert told.said() == ["not-rejoined"]


@pytest.mark.parametrize(("wait", "kinds"), [(1, []), (2, ["not-rejoined"])])
def test_a_member_joins_once_its_commit_is_answered(told: Wired, wait: float, kinds: list[str]) -> None:
    """``ConsumerCoordinator.onJoinPrepare``: offsets are committed first."""
    told.note("c1", JOINED)
    told.asks("c1", B, OffsetCommit(group="g", generation=1, member_id="m", offsets=()), 1)
    told.asks("c1", B, BEAT, 2)
    told.answers(B, "c1", HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS), 2)
    told.wait(10)
    told.answers(B, "c1", OffsetCommitReply(outcomes=()), 1)
    told.wait(wait)

    assert told.said() == kinds


@pytest.mark.parametrize(
    ("error", "wait", "kinds"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 60, []),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 400, ["not-rejoined"]),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, 2, ["not-rejoined"]),
    ],
)
def test_a_member_repeats_the_commit_before_a_join_for_its_rebalance_timeout(
    told: Wired, error: ErrorCode, wait: float, kinds: list[str]
) -> None:
    """``ConsumerCoordinator.onJoinPrepare``, for a retriable error of a deleted topic (kafka-4.2 seed 308)."""
    told.note("c1", JOINED)
    told.asks("c1", B, OffsetCommit(group="g", generation=1, member_id="m", offsets=()), 1)
    told.asks("c1", B, BEAT, 2)
    told.answers(B, "c1", HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS), 2)
    told.answers(B, "c1", OffsetCommitReply(outcomes=(OffsetOutcome(topic="t", partition=0, error=error),)), 1)
    told.wait(wait)

    assert told.said() == kinds


@pytest.mark.parametrize(("asks", "kinds"), [(True, []), (False, ["not-rejoined"])])
def test_a_member_that_awaits_metadata_of_a_paused_broker_may_join_late(
    told: Wired, asks: bool, kinds: list[str]
) -> None:
    """``ConsumerCoordinator.poll``: a pattern is matched with fresh metadata first (kafka-4.3 seed 368)."""
    told.note("c1", JOINED)
    told.world(FaultApplied(index=1, kind="pause", text="pause b1", links=(("b1", ""),), lasts=True))
    told.asks("c1", B, BEAT, 2)
    told.answers(B, "c1", HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS), 2)
    if asks:
        told.asks("c1", "b1", Metadata(topics=None), 3)
    told.wait(10)

    assert told.said() == kinds


def test_nobody_asks_the_same_again_and_again(told: Wired) -> None:
    for count, kinds in ((99, []), (100, ["storm"])):
        for number in range(count):
            told.asks("c1", "b0", Metadata(topics=None), number)
        assert told.said() == kinds
        told.wait(1)


@pytest.mark.parametrize(("wait", "kinds"), [(0.1, []), (0.05, ["too-soon"]), (0.2, ["too-late"])])
def test_a_second_consumer_repeats_a_commit_after_the_backoff(told: Wired, wait: float, kinds: list[str]) -> None:
    commit = RangeCommit(group="g", generation=1, member_id="m")
    told.note("c1", JOINED)
    told.asks("c1/catch-up", B, commit, 1)
    outcome = OffsetOutcome(topic="orders", partition=0, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    told.answers(B, "c1/catch-up", RangeCommitReply(outcomes=(outcome,)), 1)
    told.wait(wait)
    told.asks("c1/catch-up", B, commit, 2)

    assert told.said() == kinds
