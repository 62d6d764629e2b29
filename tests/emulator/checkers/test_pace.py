"""How often requests cross the wire."""

from collections.abc import Sequence

import pytest
from attrs import evolve

from kemu.actors.consumer.modern_state import ModernState
from kemu.actors.consumer.reasons import CLOSED, UNSUBSCRIBED
from kemu.emulator.checkers.pace import Pace
from kemu.emulator.facts import FaultApplied, FaultEnded, HostDown, HostPaused, HostResumed
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import AlterIsr, AlterIsrReply, ControlledShutdown, NewIsr, UpdateMetadata
from kemu.protocol.messages.data import Fetch, FetchReply, Metadata, MetadataReply
from kemu.protocol.messages.group import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetCommitReply,
    OffsetOutcome,
    SyncGroup,
    SyncGroupReply,
)
from kemu.protocol.messages.ranges import RangeCommit, RangeCommitReply
from kemu.protocol.messages.store import (
    OpenSession,
    OpenSessionReply,
    Ping,
    PingReply,
    StoreCode,
    StoreOp,
    StoreOpKind,
    StoreOps,
    Transaction,
)
from kemu.protocol.notes.groups import CallbackReturned, MemberBecame
from tests.emulator.checkers.wired import S, Wired

B = "b0/coordinator"
BEAT = Heartbeat(group="g", generation=1, member_id="m")
SYNC = SyncGroup(group="g", generation=1, member_id="m")
COMMIT = OffsetCommit(group="g", generation=1, member_id="m", offsets=())
ASK, TOLD = Metadata(topics=None), MetadataReply(brokers=(), topics=())
RANGE_COMMIT = RangeCommit(group="g", generation=1, member_id="m", offsets=())
JOIN = JoinGroup(group="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=())
PING, PINGED = Ping(session_id=1), PingReply(code=StoreCode.OK)


@pytest.fixture
def told() -> Wired:
    story = Wired(Pace)
    story.asks("c1", B, SYNC)
    story.answers(B, "c1", SyncGroupReply(error=ErrorCode.NONE))
    return story


def beats(told: Wired, waits: Sequence[float], error: ErrorCode = ErrorCode.NONE) -> None:
    for number, seconds in enumerate(waits, start=10):
        told.wait(seconds)
        told.asks("c1", B, BEAT, number)
        told.answers(B, "c1", HeartbeatReply(error=error), number)


def test_heartbeats_come_at_their_interval(told: Wired) -> None:
    beats(told, [3.02] * 20)

    assert told.said() == []


def test_heartbeats_that_come_much_sooner_are_told(told: Wired) -> None:
    beats(told, [1.5] * 5)

    assert told.said() == ["too-soon"]


def test_a_rhythm_that_is_moved_once_is_not(told: Wired) -> None:
    beats(told, [3, 3, 0.4, 1.1, 3, 3])

    assert told.said() == []


@pytest.mark.parametrize("sent", [0, 1])
def test_heartbeats_that_do_not_come_are_told(told: Wired, sent: int) -> None:
    beats(told, [3] * sent)
    told.wait(6)

    assert told.said() == ["overdue"]


def test_a_member_that_joins_leaves_or_lost_its_coordinator_beats_no_more(told: Wired) -> None:
    beats(told, [3])
    told.asks("c1", B, JOIN, 30)
    told.wait(60)
    assert told.said() == []
    for message in (LeaveGroup(group="g"), None):
        told.asks("c1", B, SYNC, 40)
        told.answers(B, "c1", SyncGroupReply(error=ErrorCode.NONE), 40)
        if message is None:
            told.hangs_up("c1", B)
        else:
            told.asks("c1", B, message, 41)
        told.wait(60)

    assert told.said() == []


@pytest.mark.parametrize("ends", ["leaves", "is unjoined", "joins again", "stays", "syncs again"])
def test_a_late_answer_to_sync_group_begins_no_heartbeats_of_a_member_that_left(ends: str) -> None:
    """``AbstractCoordinator.SyncGroupResponseHandler`` 4.1 (swarm, kafka-4.1, seed 6404)."""
    told = Wired(Pace)
    told.asks("c1", B, SYNC, 1)
    if ends == "is unjoined":
        unjoined = MemberBecame(group="g", member_id="m", old="x", new="UNJOINED", generation=1, why=UNSUBSCRIBED)
        told.note("c1", unjoined)
    elif ends != "stays":
        told.asks("c1", B, LeaveGroup(group="g") if ends == "leaves" else JOIN, 2)
    told.answers(B, "c1", SyncGroupReply(error=ErrorCode.REBALANCE_IN_PROGRESS), 1)
    if ends == "syncs again":
        told.asks("c1", B, SYNC, 3)
        told.answers(B, "c1", SyncGroupReply(error=ErrorCode.NONE), 3)
    told.wait(60)

    assert told.said() == (["overdue"] if ends in ("stays", "syncs again") else [])


@pytest.mark.parametrize(
    ("beaten", "callback", "why", "said"),
    [
        (4, "onPartitionsRevoked", CLOSED, []),
        (2, "onPartitionsRevoked", CLOSED, ["overdue"]),
        (4, "onPartitionsRevoked", UNSUBSCRIBED, ["overdue"]),
        (4, "onPartitionsAssigned", CLOSED, ["overdue"]),
    ],
    ids=["close", "overdue before the callback", "unsubscribe", "another callback"],
)
def test_heartbeats_end_before_the_callback_of_close_and_are_due_until_then(
    told: Wired, beaten: int, callback: str, why: str, said: list[str]
) -> None:
    """``AbstractCoordinator.close`` (2.4 to 4.3): the heartbeat thread ends, then ``onLeavePrepare``."""
    told.asks("c2", B, SYNC)
    told.answers(B, "c2", SyncGroupReply(error=ErrorCode.NONE))
    for number in range(2, 8):
        told.wait(3)
        for member in ("c1", "c2") if number <= beaten else ("c2",):
            told.asks(member, B, BEAT, number)
            told.answers(B, member, HeartbeatReply(error=ErrorCode.NONE), number)

    returned = CallbackReturned(group="g", member_id="m", callback=callback, took_us=8 * S)
    became = MemberBecame(group="g", member_id="m", old="STABLE", new="UNJOINED", generation=1, why=why)
    told.note("c1", returned, became)

    assert told.said() == said


def test_a_commit_that_fails_may_end_the_membership(told: Wired) -> None:
    outcome = OffsetOutcome(topic="orders", partition=0, error=ErrorCode.UNKNOWN_MEMBER_ID)
    told.asks("c1", B, COMMIT, 5)
    told.answers(B, "c1", OffsetCommitReply(outcomes=(outcome,)), 5)
    told.wait(60)

    assert told.said() == []


def test_a_host_that_stood_still_has_all_the_time_again(told: Wired) -> None:
    beats(told, [3])
    told.world(HostPaused(host="c1"))
    told.wait(60)
    told.world(HostResumed(host="c1"))
    told.wait(2)
    assert told.said() == []
    told.wait(5)

    assert told.said() == ["overdue"]


def test_a_heartbeat_that_failed_is_repeated_after_the_backoff(told: Wired) -> None:
    beats(told, [3, 0.11, 0.12], ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert told.said() == []
    beats(told, [0.03], ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    assert told.said() == ["too-soon"]


def test_interval_commits_come_no_sooner_than_the_interval() -> None:
    told = Wired(Pace)
    good = OffsetCommitReply(outcomes=())
    for number in range(10):
        told.asks("c1", B, COMMIT, number)
        told.answers(B, "c1", good, number)
        told.wait(5)
    assert told.said() == []
    for number in range(10, 15):
        told.asks("c1", B, COMMIT, number)
        told.answers(B, "c1", good, number)
        told.wait(1)

    assert told.said() == ["too-soon"]


def test_commits_before_revocations_may_come_sooner_and_others_are_judged() -> None:
    """The consumer protocol: ``AbstractMembershipManager.maybeReconcile`` commits before a revocation."""
    told = Wired(Pace)
    states = {"old": ModernState.STABLE.value, "new": ModernState.RECONCILING.value}
    reconciling = MemberBecame(group="g", member_id="m", generation=1, why="", **states)

    def commits(numbers: range, reconciles: bool) -> None:
        for number in numbers:
            if reconciles:
                told.note("c1", reconciling)
            told.asks("c1", B, COMMIT, number)
            told.answers(B, "c1", OffsetCommitReply(outcomes=()), number)
            told.wait(1)

    commits(range(10), reconciles=True)
    assert told.said() == []
    commits(range(10, 15), reconciles=False)

    assert told.said() == ["too-soon"]


@pytest.mark.parametrize(("joins", "said"), [("c1", []), ("c2", ["too-soon"]), ("", ["too-soon"])])
def test_the_interval_of_a_second_consumers_commits_begins_again_with_a_rebalance_of_its_member(
    joins: str, said: list[str]
) -> None:
    """KIP-333: both consumers commit before the member joins, whenever that is."""
    told = Wired(Pace)
    for number in range(0, 10, 2):
        told.asks("c1/catch-up", B, RANGE_COMMIT, number)
        told.answers(B, "c1/catch-up", RangeCommitReply(outcomes=()), number)
        if joins:
            told.asks(joins, B, JOIN, number + 1)
        told.wait(1)

    assert [kind for kind in told.said() if kind == "too-soon"] == said


def test_a_client_asks_for_metadata_once_at_a_time(told: Wired) -> None:
    told.asks("c1", "b0", ASK, 5)
    told.answers("b0", "c1", TOLD, 5)
    told.asks("c1", "b0", ASK, 6)
    told.breaks("c1", "b0")
    told.asks("c1", "b0", ASK, 7)
    assert told.said() == []
    told.asks("c1", "b1", ASK, 8)

    assert told.said() == ["too-many"]


def test_a_host_that_ends_changes_nothing_for_the_others() -> None:
    told = Wired(Pace)
    told.asks("c1", "b0", ASK, 5)
    told.world(HostDown(host="c2", life=1, how="process"))
    told.answers("b0", "c1", TOLD, 5)
    told.asks("c1", "b0", ASK, 6)

    assert told.said() == []


def test_a_follower_fetches_again_at_once_but_not_after_an_order() -> None:
    told = Wired(Pace)
    fetch, fetched = Fetch(replica_id=0, max_wait_ms=500, min_bytes=1, partitions=()), FetchReply(partitions=())
    for number in range(4):
        told.asks("b0", "b1", fetch, number)
        told.wait(0.5)
        told.answers("b1", "b0", fetched, number)
    told.wait(10)

    assert told.said() == ["overdue"]


@pytest.mark.parametrize(("ends", "said"), [(False, []), (True, ["overdue"])])
def test_a_follower_whose_disk_is_slow_may_take_longer_to_fetch_again(ends: bool, said: list[str]) -> None:
    """The next one leaves when what came is written (``AbstractFetcherThread.processFetchRequest``)."""
    told = Wired(Pace)
    told.world(FaultApplied(index=0, kind="slow-disk", text="", links=(("b0", ""),), lasts=True))
    told.asks("b0", "b1", Fetch(replica_id=0, max_wait_ms=500, min_bytes=1, partitions=()), 1)
    told.answers("b1", "b0", FetchReply(partitions=()), 1)
    told.wait(30)
    assert told.said() == []
    if ends:
        told.world(FaultEnded(index=0, kind="slow-disk"))
    told.wait(10)

    assert told.said() == said


def test_a_follower_repeats_a_lost_fetch_after_its_backoff() -> None:
    told = Wired(Pace)
    fetch = Fetch(replica_id=0, max_wait_ms=500, min_bytes=1, partitions=())
    told.asks("b0", "b1", fetch, 1)
    told.breaks("b0", "b1")
    told.wait(1)
    told.asks("b0", "b1", fetch, 2)
    assert told.said() == []
    told.breaks("b0", "b1")
    told.wait(0.4)
    told.asks("b0", "b1", fetch, 3)

    assert told.said() == ["too-soon"]


def test_an_alter_isr_that_found_no_controller_is_repeated_after_100_ms() -> None:
    told = Wired(Pace)
    alter = AlterIsr(broker_id=0, partitions=())
    told.sends("b0", "b1/controller", alter, 1)
    told.hangs_up("b0", "b1/controller")
    told.wait(0.1)
    told.sends("b0", "b1/controller", alter, 2)
    told.gets("b0", "b1/controller", AlterIsrReply(error_code=ErrorCode.STALE_BROKER_EPOCH), 2)
    told.wait(0.05)
    told.sends("b0", "b1/controller", alter, 3)
    assert told.said() == []
    told.hangs_up("b0", "b1/controller")
    told.wait(0.05)
    told.sends("b0", "b1/controller", alter, 4)

    assert told.said() == ["too-soon"]


@pytest.mark.parametrize(("waits", "said"), [([6] * 5, []), ([4] * 5, ["too-soon"]), ([6, 12], ["overdue"])])
def test_a_client_pings_the_store_each_third_of_its_session_timeout(waits: list[int], said: list[str]) -> None:
    told = Wired(Pace)
    told.asks("b0", "zk", OpenSession(timeout_ms=18_000))
    told.answers("zk", "b0", OpenSessionReply(code=StoreCode.OK, session_id=1, timeout_ms=18_000))
    for number, seconds in enumerate(waits, start=2):
        told.wait(seconds)
        told.sends("b1", "zk", PING, 100 + number)
        told.gets("b1", "zk", PINGED, 100 + number)
        if seconds != 12:
            told.asks("b0", "zk", PING, number)
            told.answers("zk", "b0", PINGED, number)

    assert told.said()[:1] == said


ALTER = AlterIsr(broker_id=0, partitions=())
ORDER = UpdateMetadata(controller_id=0, controller_epoch=1, partition_states=(), live_brokers=())
FETCH = Fetch(replica_id=0, max_wait_ms=500, min_bytes=1, partitions=())
SHUT = ControlledShutdown(broker_id=0)


@pytest.mark.parametrize(
    ("client", "server", "request_", "wait", "said"),
    [
        ("b0", "b1/controller", ALTER, 0.1, []),
        ("b0", "b1/controller", ALTER, 0.2, ["too-late"]),
        ("b0/controller", "b1", ORDER, 0.1, []),
        ("b0/controller", "b1", ORDER, 0.2, ["too-late"]),
        ("b0/controller", "b1", ORDER, 0.05, ["too-soon"]),
        ("b0", "b1", FETCH, 1, []),
        ("b0", "b1", FETCH, 2, ["too-late"]),
        ("b0", "b1/controller", SHUT, 5, []),
        ("b0", "b1/controller", SHUT, 10, ["too-late"]),
        ("b0", "b1/controller", SHUT, 2.5, ["too-soon"]),
    ],
)
def test_what_was_lost_is_sent_again_when_it_is_due(
    client: str, server: str, request_: object, wait: float, said: list[str]
) -> None:
    told = Wired(Pace)
    told.wait(1)
    told.asks(client, server, request_, 1)
    told.breaks(client, server)
    told.wait(wait)
    told.asks(client, server, request_, 2)

    assert told.said() == said


@pytest.mark.parametrize(("profile", "said"), [("kafka-2.4", []), ("kafka-3.4", ["too-late"])])
def test_to_3_0_a_follower_waits_twice_after_a_lost_fetch(profile: str, said: list[str]) -> None:
    """KAFKA-8529."""
    told = Wired(Pace, profile)
    told.wait(1)
    told.asks("b0", "b1", FETCH, 1)
    told.breaks("b0", "b1")
    told.wait(2)
    told.asks("b0", "b1", FETCH, 2)

    assert told.said() == said


@pytest.mark.parametrize(
    ("error", "wait", "said"),
    [
        (ErrorCode.STALE_BROKER_EPOCH, 0.05, []),
        (ErrorCode.STALE_BROKER_EPOCH, 0.1, ["too-late"]),
        (ErrorCode.NOT_CONTROLLER, 0.1, []),
        (ErrorCode.NOT_CONTROLLER, 0.05, ["too-soon"]),
        (ErrorCode.NOT_CONTROLLER, 0.2, ["too-late"]),
    ],
)
def test_an_alter_isr_that_was_refused_is_sent_again_when_it_is_due(
    error: ErrorCode, wait: float, said: list[str]
) -> None:
    told = Wired(Pace)
    told.wait(1)
    told.asks("b0", "b1/controller", ALTER, 1)
    told.answers("b1/controller", "b0", AlterIsrReply(error_code=error), 1)
    told.wait(wait)
    told.asks("b0", "b1/controller", ALTER, 2)

    assert told.said() == said


def test_a_host_that_stood_still_may_repeat_late_and_who_failed_twice_too() -> None:
    told = Wired(Pace)
    told.wait(1)
    told.asks("b0", "b1/controller", ALTER, 1)
    told.breaks("b0", "b1/controller")
    told.world(HostPaused(host="b0"))
    told.wait(3)
    told.world(HostResumed(host="b0"))
    told.asks("b0", "b1/controller", ALTER, 2)
    told.breaks("b0", "b1/controller")
    told.wait(1)
    told.asks("b0", "b1/controller", ALTER, 3)

    assert told.said() == []


@pytest.mark.parametrize(("times", "said"), [(29, []), (30, ["too-many"]), (40, ["too-many"])])
def test_nobody_asks_the_store_the_same_again_and_again(times: int, said: list[str]) -> None:
    told = Wired(Pace)
    read = StoreOp(kind=StoreOpKind.GET_DATA, path="/controller")
    for number in range(times):
        told.sends("b0/controller", "zk", StoreOps(session_id=1, transactions=(Transaction(ops=(read,)),)), number)
        told.wait(0.01)

    assert told.said() == said


def test_who_writes_between_may_read_the_same_again(told: Wired) -> None:
    """A controller that moves partitions reads their state before each of its steps."""
    read, write = (StoreOp(kind=kind, path="/p") for kind in (StoreOpKind.GET_DATA, StoreOpKind.SET_DATA))
    for number in range(50):
        for op in (read, read, write):
            told.sends("b0/controller", "zk", StoreOps(session_id=1, transactions=(Transaction(ops=(op,)),)), number)

    assert told.said() == []


@pytest.mark.parametrize(("isr", "said"), [((0,), ["too-soon"]), ((0, 1), [])])
def test_another_alter_isr_may_follow_a_refused_one_at_once(isr: tuple[int, ...], said: list[str]) -> None:
    """DefaultAlterPartitionManager.submit: what comes meanwhile is sent with what waits."""
    told, change = (
        Wired(Pace),
        NewIsr(topic_name="t", partition_index=0, leader_epoch=1, new_isr=(0,), current_isr_version=1),
    )
    told.asks("b0", "b1/controller", AlterIsr(broker_id=0, partitions=(change,)), 1)
    told.answers("b1/controller", "b0", AlterIsrReply(error_code=ErrorCode.STALE_BROKER_EPOCH), 1)
    told.wait(0.02)
    told.asks("b0", "b1/controller", AlterIsr(broker_id=0, partitions=(evolve(change, new_isr=isr),)), 2)

    assert told.said() == said
