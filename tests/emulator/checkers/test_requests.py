"""Requests and their answers as they cross the wire."""

import pytest

from kemu.emulator.checkers.requests import Requests
from kemu.emulator.facts import HostDown, HostPaused
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import ListOffsets, Metadata, MetadataReply, Produce, ProducedBatch, ProduceReply
from kemu.protocol.messages.group import Heartbeat, HeartbeatReply, JoinGroup, JoinGroupReply, SyncGroup
from kemu.protocol.messages.store import OpenSession, OpenSessionReply, Ping, PingReply, StoreCode, StoreEvents
from kemu.protocol.notes.groups import AnswerInjected, MemberRemoved
from tests.emulator.checkers.wired import Wired

COORDINATOR = "b0/coordinator"
BEAT, BEATEN = Heartbeat(group="g", generation=1, member_id="m"), HeartbeatReply(error=ErrorCode.NONE)
ASK, TOLD = Metadata(topics=None), MetadataReply(brokers=(), topics=())
LIST = ListOffsets(questions=())
JOIN = JoinGroup(group="g", session_timeout_ms=10_000, rebalance_timeout_ms=60_000, protocol_type="c", protocols=())
JOINED = JoinGroupReply(error=ErrorCode.NONE)
OPEN = OpenSession(timeout_ms=18_000)
OPENED = OpenSessionReply(code=StoreCode.OK, session_id=1, timeout_ms=18_000)


@pytest.fixture
def told() -> Wired:
    return Wired(Requests)


def test_a_request_that_is_answered_is_right(told: Wired) -> None:
    told.asks("c1", COORDINATOR, BEAT)
    told.answers(COORDINATOR, "c1", BEATEN)
    told.wait(100)
    told.asks("c1", "b1", ASK, 2)
    told.answers("b1", "c1", TOLD, 2)

    assert told.said() == []


def test_a_second_answer_is_not(told: Wired) -> None:
    told.asks("c1", COORDINATOR, BEAT)
    told.answers(COORDINATOR, "c1", BEATEN)
    told.replies(COORDINATOR, "c1", BEATEN)

    assert told.said() == ["answered-unasked"]


def test_an_answer_over_another_connection_is_not(told: Wired) -> None:
    told.asks("c1", COORDINATOR, BEAT, connection=1)
    told.replies(COORDINATOR, "c1", BEATEN, connection=2)

    assert "answered-unasked" in told.said()


def test_a_broker_answers_the_requests_of_a_connection_in_their_order(told: Wired) -> None:
    told.asks("c1", "b0", LIST, 1)
    told.asks("c1", "b0", ASK, 2)
    told.answers("b0", "c1", TOLD, 2)

    assert told.said() == ["out-of-order"]


def test_requests_of_two_connections_have_no_order(told: Wired) -> None:
    told.asks("c1", "b0", LIST, 1, connection=1)
    told.asks("c1", "b0", ASK, 2, connection=2)
    told.answers("b0", "c1", TOLD, 2, connection=2)

    assert told.said() == []


def test_events_of_the_store_are_said_unasked(told: Wired) -> None:
    told.asks("b0", "zk", OPEN)
    told.answers("zk", "b0", OPENED)
    told.answers("zk", "b0", StoreEvents(zxid=1, events=()))

    assert told.said() == []


def test_a_server_that_does_not_answer_is_told(told: Wired) -> None:
    told.asks("c1", "b1", ASK)
    told.wait(15)

    assert told.said() == ["unanswered"]


def test_a_server_that_stands_still_or_is_down_need_not_answer(told: Wired) -> None:
    told.asks("c1", "b1", ASK)
    told.asks("c2", "b0", ASK)
    told.world(HostPaused(host="b1"))
    told.world(HostDown(host="b0", life=1, how="process"))
    told.wait(15)

    assert told.said() == []


def test_a_server_whose_client_is_gone_need_not_answer(told: Wired) -> None:
    told.asks("c1", "b1", ASK)
    told.breaks("b1", "c1")
    told.breaks("c1", "b1")
    told.wait(15)

    assert told.said() == []


@pytest.mark.parametrize(("answered", "said"), [(2, []), (1, ["unanswered"])])
def test_a_client_waits_for_answers_over_its_newest_connection_alone(
    told: Wired, answered: int, said: list[str]
) -> None:
    """Packets that were held come over a connection that its client has closed."""
    told.asks("c1", "b1", ASK, number=1, connection=1)
    told.asks("c1", "b1", ASK, number=2, connection=2)
    told.answers("b1", "c1", TOLD, number=answered, connection=answered)
    told.wait(15)

    assert told.said() == said


@pytest.mark.parametrize(("connection", "found"), [(1, []), (2, ["unanswered"])])
def test_what_comes_over_a_connection_that_its_client_left_need_not_be_answered(
    told: Wired, connection: int, found: list[str]
) -> None:
    """A request that was held on its way comes when its client has crashed and connected anew."""
    told.asks("c1", "b1", ASK, connection=2)
    told.answers("b1", "c1", TOLD, connection=2)
    told.gets("b1", "c1", ASK, 7, connection)
    told.wait(15)

    assert told.said() == found


def test_a_join_waits_for_the_rebalance_timeout_and_no_longer(told: Wired) -> None:
    told.asks("c1", COORDINATOR, JOIN)
    told.wait(65)
    assert told.said() == []
    told.wait(10)

    assert told.said()[:1] == ["unanswered"]


@pytest.mark.parametrize(("gone", "found"), [("m1", []), ("m2", ["unanswered"])])
def test_a_sync_waits_for_the_assignment_while_its_member_is_one(told: Wired, gone: str, found: list[str]) -> None:
    """``GroupCoordinator.removeMemberAndUpdateGroup``: an admin removed c1, or another one, while its sync waited."""
    told.asks("c1", COORDINATOR, JOIN)
    told.answers(COORDINATOR, "c1", JoinGroupReply(error=ErrorCode.NONE, member_id="m1", generation=1))
    told.asks("c1", COORDINATOR, SyncGroup(group="g", generation=1, member_id="m1"), 2)
    told.note(COORDINATOR, MemberRemoved(group="g", member_id=gone, client_id="c1", why="left"))
    told.wait(80)

    assert [kind for kind in told.said() if kind == "unanswered"] == found


def test_what_waits_behind_a_join_of_its_connection_waits_as_long(told: Wired) -> None:
    told.asks("c1", COORDINATOR, JOIN, 1)
    told.gets(COORDINATOR, "c1", BEAT, 2)
    told.wait(50)
    told.answers(COORDINATOR, "c1", JOINED, 1)
    told.replies(COORDINATOR, "c1", BEATEN, 2)

    assert told.said() == []


def test_a_client_waits_no_longer_than_its_request_timeout(told: Wired) -> None:
    told.sends("c1", "b1", ASK)
    told.wait(40)

    assert told.said() == ["waits-for-ever"]


def test_a_client_that_hangs_up_or_is_told_of_the_end_waits_no_more(told: Wired) -> None:
    told.sends("c1", "b1", ASK)
    told.sends("c2", "b1", ASK)
    told.hangs_up("c1", "b1")
    told.breaks("c2", "b1")
    told.wait(40)

    assert told.said() == []


def test_nobody_waits_for_an_answer_to_acks_0(told: Wired) -> None:
    told.asks("p1", "b1", Produce(acks=0, timeout_ms=1_000, batches=()))
    told.wait(100)

    assert told.said() == []


def test_a_store_s_client_gives_a_silent_connection_up_after_two_thirds_of_its_timeout_and_not_before(
    told: Wired,
) -> None:
    told.asks("b0/controller", "zk", OPEN)
    told.answers("zk", "b0/controller", OPENED)
    told.wait(6)
    told.sends("b0/controller", "zk", Ping(session_id=1), 2)
    told.wait(6)
    told.hangs_up("b0/controller", "zk")
    assert told.said() == []
    told.asks("b0/controller", "zk", OPEN, 3, connection=2)
    told.answers("zk", "b0/controller", OPENED, 3, connection=2)
    told.wait(6)
    told.sends("b0/controller", "zk", Ping(session_id=1), 4)
    told.wait(3)
    told.hangs_up("b0/controller", "zk")

    assert told.said() == ["gave-up-early"]


def test_each_session_has_a_connection_of_its_own(told: Wired) -> None:
    for number in (1, 2):
        told.asks("b0", "zk", OPEN, number, connection=1)
        told.answers("zk", "b0", OPENED, number, connection=1)
    assert told.said() == ["two-sessions"]
    told.asks("b1", "zk", OPEN, 1, connection=2)
    told.answers("zk", "b1", OPENED, 1, connection=2)
    told.asks("b1", "zk", Ping(session_id=1), 2, connection=2)
    told.answers("zk", "b1", PingReply(code=StoreCode.OK), 2, connection=2)

    assert told.said() == ["two-sessions"]


@pytest.mark.parametrize(("waits", "said"), [(1, ["timed-out-early"]), (29, [])])
def test_nobody_is_told_too_early_that_its_request_took_too_long(told: Wired, waits: float, said: list[str]) -> None:
    """``DelayedProduce``."""
    told.asks("p1", "b0", Produce(acks=-1, timeout_ms=30_000, batches=()))
    told.wait(waits)
    row = ProducedBatch(topic="t", partition=0, error=ErrorCode.REQUEST_TIMED_OUT)
    told.answers("b0", "p1", ProduceReply(batches=(row,)))

    assert told.said() == said


def test_who_was_told_to_say_so_may_say_so_early(told: Wired) -> None:
    told.asks("p1", "b0", Produce(acks=-1, timeout_ms=30_000, batches=()))
    seq = told._seq
    told.note("b0", AnswerInjected(api="Produce", sender="p1", error=ErrorCode.REQUEST_TIMED_OUT))
    told._seq = seq
    row = ProducedBatch(topic="t", partition=0, error=ErrorCode.REQUEST_TIMED_OUT)
    told.answers("b0", "p1", ProduceReply(batches=(row,)))

    assert told.said() == []
