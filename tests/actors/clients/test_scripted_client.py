"""The machine of a scripted client, step by step: what it sends when, and what it does after other answers."""

from typing import Any

import pytest

from kemu.actors.clients.real_client import ClientMemory
from kemu.actors.clients.script import ScriptAsks, ScriptCloses, ScriptOpens
from kemu.actors.clients.scripted_client import (
    AGAIN_US,
    ANSWERED_WITHIN_US,
    CONTINUES,
    FOLLOWED_FOR_US,
    LOOKS_UP,
    ON_TIME_US,
    REPEATS,
    SAME,
    STOPS,
    ScriptedClient,
    ScriptState,
    compared,
)
from kemu.actors.machine import Hangup, LinkDown, Note, Received, Send, StartTimer, StopTimer, TimerFired, Told
from kemu.protocol.commands import Start
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import (
    BrokerMetadata,
    Fetch,
    FetchedPartition,
    FetchPartition,
    FetchReply,
    InitProducerId,
    InitProducerIdReply,
    Metadata,
    MetadataReply,
    PartitionMetadata,
    Produce,
    ProduceBatch,
    ProducedBatch,
    ProduceReply,
    RecordBatch,
    TopicMetadata,
)
from kemu.protocol.messages.group import (
    FetchedOffset,
    FindCoordinator,
    FindCoordinatorReply,
    Heartbeat,
    HeartbeatReply,
    JoinedMember,
    JoinGroup,
    JoinGroupReply,
    MemberAssignment,
    OffsetCommit,
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetOutcome,
    OffsetToCommit,
    SyncGroup,
    SyncGroupReply,
)
from kemu.protocol.notes.groups import ScriptDeparted, ScriptEnded

G, NONE = "g", ErrorCode.NONE
B0, B1, C0, C1 = "b0", "b1", "b0/coordinator", "b1/coordinator"
MS = 1_000


class _Stage:
    """A client with its script: ``now`` moves on; timers fire; the test answers the requests."""

    def __init__(self, *steps: Any) -> None:
        self.talk = ScriptState(tuple(steps), (B0, B1))
        self.memory = ClientMemory()
        self.client = ScriptedClient("x-app", self.memory, self.talk)
        self.now_us = 0
        self.timers: dict[tuple[str, ...], int] = {}
        self.sent: list[tuple[int, Send]] = []
        self.hung_up: list[str] = []
        self.noted: list[Any] = []
        self.give(Told(Start()))

    def give(self, event: Any) -> None:
        for effect in self.client.step(self.now_us, event):
            match effect:
                case Send():
                    self.sent.append((self.now_us, effect))
                case StartTimer(key=key, after_us=after_us):
                    self.timers[key] = self.now_us + after_us
                case StopTimer(key=key):
                    self.timers.pop(key, None)
                case Hangup(peer=peer):
                    self.hung_up.append(peer)
                case Note(fact=fact):
                    self.noted.append(fact)
                case _:
                    raise AssertionError(effect)

    def until(self, us: int) -> None:
        """Let time pass, and fire the timers that are due."""
        while self.timers and min(self.timers.values()) <= us:
            key = min(self.timers, key=lambda each: self.timers[each])
            self.now_us = max(self.now_us, self.timers.pop(key))
            self.give(TimerFired(key))
        self.now_us = us

    def answer(self, message: Any) -> None:
        """Answer the last request."""
        _, send = self.sent[-1]
        self.give(Received(send.to.partition(">")[2], 1, send.request_id, send.version, message))

    @property
    def asked(self) -> list[tuple[int, str, Any]]:
        """(Time, connection and receiver, request) of all requests."""
        return [(at_us, send.to, send.message) for at_us, send in self.sent]

    @property
    def last(self) -> Any:
        return self.sent[-1][1].message

    def departures(self) -> list[tuple[str, str, str]]:
        """(Request, error now, consequence)."""
        return [(each.request, each.now, each.then) for each in self.noted if isinstance(each, ScriptDeparted)]


def _opens(at_ms: int = 0, connection: str = "1") -> ScriptOpens:
    return ScriptOpens(at_ms * MS, connection, "app")


def _asks(
    at_ms: int, request: Any, answered_ms: int = -1, answer: Any = None, to: str = C0, connection: str = "1", v: int = 4
) -> ScriptAsks:
    return ScriptAsks(at_ms * MS, connection, to, v, request, answered_ms * MS if answer else -1, answer)


def _beat(at_ms: int, error: ErrorCode = NONE, generation: int = 1, connection: str = "1") -> ScriptAsks:
    request = Heartbeat(group=G, generation=generation, member_id="old")
    return _asks(at_ms, request, at_ms + 5, HeartbeatReply(error=error), connection=connection)


def _join(at_ms: int, answered_ms: int, members: tuple[str, ...] = (), leader: str = "old") -> ScriptAsks:
    request = JoinGroup(group=G, session_timeout_ms=10_000, member_id="old", protocol_type="consumer", protocols=())
    return _asks(at_ms, request, answered_ms, _joined("old", 1, members, leader))


def _joined(member_id: str, generation: int, members: tuple[str, ...] = (), leader: str = "old") -> JoinGroupReply:
    rows = tuple([JoinedMember(member_id=each, metadata=b"") for each in members])
    return JoinGroupReply(
        error=NONE, generation=generation, protocol_name="range", leader=leader, member_id=member_id, members=rows
    )


def _found(node: int) -> FindCoordinatorReply:
    return FindCoordinatorReply(error=NONE, node_id=node, host=f"b{node}")


def _metadata(leader: int, epoch: int = 0) -> MetadataReply:
    row = PartitionMetadata(error=NONE, partition=0, leader=leader, leader_epoch=epoch, replicas=(0, 1), isr=(0, 1))
    brokers = tuple([BrokerMetadata(node_id=node, host=f"b{node}") for node in (0, 1)])
    return MetadataReply(brokers=brokers, topics=(TopicMetadata(error=NONE, topic="t", partitions=(row,)),))


def test_requests_are_sent_at_their_recorded_times() -> None:
    stage = _Stage(_opens(10), _beat(10), _beat(40), ScriptCloses(60 * MS, "1"))
    stage.until(12 * MS)
    stage.answer(HeartbeatReply(error=NONE))
    stage.until(45 * MS)
    stage.answer(HeartbeatReply(error=NONE))
    stage.until(100 * MS)
    assert [at_us for at_us, _, _ in stage.asked] == [10 * MS, 40 * MS]
    assert stage.noted[-1] == ScriptEnded(departures=0)


def test_a_request_waits_for_the_answer_that_preceded_it_and_keeps_its_think_time() -> None:
    """Recorded: answer at 15 ms, next request at 40 ms. Now the answer comes 500 ms late."""
    stage = _Stage(_opens(10), _beat(10), _beat(40))
    stage.until(515 * MS)
    assert len(stage.sent) == 1
    stage.answer(HeartbeatReply(error=NONE))
    stage.until(2_000 * MS)
    assert [at_us for at_us, _, _ in stage.asked] == [10 * MS, 540 * MS]


def test_a_small_delay_is_made_up() -> None:
    stage = _Stage(_opens(10), _beat(10), _beat(90))
    stage.until(15 * MS + ON_TIME_US)
    stage.answer(HeartbeatReply(error=NONE))
    stage.until(2_000 * MS)
    assert [at_us for at_us, _, _ in stage.asked] == [10 * MS, 90 * MS]


def test_other_connections_wait_for_a_join_and_not_for_a_heartbeat() -> None:
    other = (_opens(20, "2"), _beat(30, connection="2"))
    stage = _Stage(_opens(10), _beat(10), *other)
    stage.until(1_000 * MS)
    assert [to for _, to, _ in stage.asked] == [f"1>{C0}", f"2>{C0}"]
    stage = _Stage(_opens(10), _join(10, 15), *other)
    stage.until(1_000 * MS)
    assert [to for _, to, _ in stage.asked] == [f"1>{C0}"]


def test_pipelined_requests_do_not_wait_for_each_other() -> None:
    first = _asks(10, Metadata(topics=()), 30, _metadata(0), B0, v=5)
    stage = _Stage(_opens(10), first, _asks(12, Metadata(topics=()), 31, _metadata(0), B0, v=5))
    stage.until(20 * MS)
    assert [at_us for at_us, _, _ in stage.asked] == [10 * MS, 12 * MS]


def test_member_ids_generations_and_protocols_are_those_of_this_run() -> None:
    sync = SyncGroup(
        group=G,
        generation=1,
        member_id="old",
        protocol_name="range",
        assignments=(
            MemberAssignment(member_id="old", assignment=b"1"),
            MemberAssignment(member_id="peer", assignment=b"2"),
        ),
    )
    stage = _Stage(
        _opens(10),
        _join(10, 15, ("old", "peer")),
        _asks(20, sync, 25, SyncGroupReply(error=NONE), v=5),
        _beat(30),
    )
    stage.until(15 * MS)
    stage.answer(_joined("new", 7, ("other", "new"), "new"))
    stage.until(25 * MS)
    assert stage.last.generation == 7
    assert stage.last.member_id == "new"
    assert {row.member_id: row.assignment for row in stage.last.assignments} == {"new": b"1", "other": b"2"}
    stage.answer(SyncGroupReply(error=NONE))
    stage.until(35 * MS)
    assert stage.last == Heartbeat(group=G, generation=7, member_id="new")
    assert not stage.departures()


@pytest.mark.parametrize(
    ("recorded", "now", "why"),
    [
        ((), ("new",), "this member leads the group now"),
        (("old",), ("new", "stranger"), "the leader assigned partitions to 1 members, now 2"),
        (("old", "peer"), ("new",), "the leader assigned partitions to 2 members, now 1"),
    ],
)
def test_a_leader_of_another_group_stops(recorded: tuple[str, ...], now: tuple[str, ...], why: str) -> None:
    sync = SyncGroup(group=G, generation=1, member_id="old")
    stage = _Stage(_opens(10), _join(10, 15, recorded), _asks(20, sync, 25, SyncGroupReply(error=NONE)))
    stage.until(15 * MS)
    stage.answer(_joined("new", 2, now))
    stage.until(1_000 * MS)
    assert stage.departures()[0][0] == "SyncGroup"
    assert stage.departures()[0][1].startswith(why)
    assert stage.departures()[0][2] == STOPS
    assert len(stage.sent) == 1


def test_offsets_follow_what_this_run_has_returned() -> None:
    """The recorded fetch returned 10 records, now 4: the next fetch and the commit continue at 4."""

    def fetch(at_ms: int, offset: int) -> ScriptAsks:
        row = FetchPartition(topic="t", partition=0, fetch_offset=offset)
        return _asks(at_ms, Fetch(max_wait_ms=1, min_bytes=1, partitions=(row,)), at_ms + 5, records(10), B0, v=4)

    def records(count: int) -> FetchReply:
        batch = RecordBatch(base_offset=0, count=count, append_time_ms=0)
        return FetchReply(partitions=(FetchedPartition(topic="t", partition=0, error=NONE, batches=(batch,)),))

    commit = OffsetCommit(group=G, offsets=(OffsetToCommit(topic="t", partition=0, offset=10),))
    outcome = OffsetCommitReply(outcomes=(OffsetOutcome(topic="t", partition=0, error=NONE),))
    stage = _Stage(_opens(10), fetch(10, 0), fetch(20, 10), _asks(30, commit, 35, outcome))
    stage.until(15 * MS)
    stage.answer(records(4))
    stage.until(22 * MS)
    assert stage.last.partitions[0].fetch_offset == 4
    stage.answer(FetchReply(partitions=()))
    stage.until(32 * MS)
    assert stage.last.offsets[0].offset == 4


def test_a_fetch_session_outlives_its_connection() -> None:
    """KIP-227: a session is of a consumer and a broker. After a reconnection, the consumer continues its session."""

    def fetch(at_ms: int, then: int, given: int, epoch: int, connection: str) -> ScriptAsks:
        rows = (FetchPartition(topic="t", partition=0, fetch_offset=0),) if epoch == 0 else ()
        request = Fetch(max_wait_ms=1, min_bytes=1, partitions=rows, session_id=given, session_epoch=epoch)
        answer = FetchReply(session_id=then, partitions=())
        return _asks(at_ms, request, at_ms + 1, answer, B0, connection, v=11)

    stage = _Stage(
        *(_opens(10, "1"), fetch(10, 70, 0, 0, "1"), ScriptCloses(15 * MS, "1")),
        *(_opens(20, "2"), fetch(20, 70, 70, 1, "2"), fetch(30, 71, 70, 0, "2"), fetch(40, 71, 71, 1, "2")),
    )
    sent = []
    for now_ms, session in ((10, 7), (20, 7), (30, 8), (40, 8)):
        stage.until(now_ms * MS)
        sent.append((stage.last.session_id, stage.last.session_epoch, len(stage.last.partitions)))
        stage.answer(FetchReply(session_id=session, partitions=()))
    assert sent == [(0, 0, 1), (7, 1, 0), (7, 0, 1), (8, 1, 0)]


def test_a_committed_offset_and_a_producer_id_are_those_of_this_run() -> None:
    row = FetchedOffset(topic="t", partition=0, offset=10, error=NONE)
    produce = Produce(
        acks=1,
        timeout_ms=1,
        batches=(ProduceBatch(topic="t", partition=0, count=1, producer_id=5, producer_epoch=2, sequence=0),),
    )
    fetch = Fetch(max_wait_ms=1, min_bytes=1, partitions=(FetchPartition(topic="t", partition=0, fetch_offset=10),))
    stage = _Stage(
        _opens(10),
        _asks(10, OffsetFetch(group=G, topics=None), 15, OffsetFetchReply(offsets=(row,))),
        _asks(
            20,
            InitProducerId(transaction_timeout_ms=1),
            25,
            InitProducerIdReply(error=NONE, producer_id=5, producer_epoch=2),
            B0,
            v=0,
        ),
        _asks(30, produce, 35, ProduceReply(batches=(ProducedBatch(topic="t", partition=0, error=NONE),)), B0),
        _asks(40, fetch, 45, FetchReply(partitions=()), B0),
    )
    stage.until(15 * MS)
    stage.answer(OffsetFetchReply(offsets=(FetchedOffset(topic="t", partition=0, offset=7, error=NONE),)))
    stage.until(25 * MS)
    stage.answer(InitProducerIdReply(error=NONE, producer_id=9, producer_epoch=0))
    stage.until(35 * MS)
    assert (stage.last.batches[0].producer_id, stage.last.batches[0].producer_epoch) == (9, 0)
    stage.answer(ProduceReply(batches=(ProducedBatch(topic="t", partition=0, error=NONE),)))
    stage.until(45 * MS)
    assert stage.last.partitions[0].fetch_offset == 7


def test_a_moved_coordinator_is_looked_up_and_gets_the_request_and_all_later_ones() -> None:
    find = _asks(10, FindCoordinator(key=G), 12, _found(0), B0, v=2)
    stage = _Stage(_opens(10), find, _beat(20), _beat(60))
    stage.until(12 * MS)
    stage.answer(_found(0))
    stage.until(25 * MS)
    stage.answer(HeartbeatReply(error=ErrorCode.NOT_COORDINATOR))
    stage.until(25 * MS + AGAIN_US)
    assert stage.last == FindCoordinator(key=G)
    stage.answer(_found(1))
    assert stage.asked[-1][1:] == (f"1>{C1}", Heartbeat(group=G, generation=1, member_id="old"))
    stage.answer(HeartbeatReply(error=NONE))
    stage.until(1_000 * MS)
    assert stage.asked[-1][1] == f"1>{C1}"
    assert stage.departures() == [("Heartbeat", "NOT_COORDINATOR", LOOKS_UP)]


def test_a_broken_connection_and_a_silent_broker_are_looked_up_too() -> None:
    stage = _Stage(_opens(10), _beat(20), _beat(60))
    stage.until(21 * MS)
    stage.give(LinkDown(f"1>{C0}"))
    stage.until(21 * MS + AGAIN_US)
    assert stage.last == FindCoordinator(key=G)
    stage.until(21 * MS + 2 * AGAIN_US + ANSWERED_WITHIN_US)
    assert stage.hung_up == [stage.asked[-2][1]]
    assert stage.last == FindCoordinator(key=G)
    assert stage.asked[-1][1] != stage.asked[-2][1], "it asks another broker"
    assert stage.departures() == [("Heartbeat", "no answer", LOOKS_UP)]


def test_moved_leaders_split_a_request() -> None:
    """Kafka 3.4 has one leader for each partition; the partitions of a request may have several now."""
    rows = tuple([FetchPartition(topic="t", partition=number, fetch_offset=0) for number in (0, 1)])
    fetch = Fetch(max_wait_ms=1, min_bytes=1, partitions=rows)
    answer = FetchReply(partitions=())
    stage = _Stage(
        _opens(10),
        _asks(10, Metadata(topics=("t",)), 12, _leaders(0, 0), B0, v=7),
        _asks(20, fetch, 25, answer, B0, v=11),
    )
    stage.until(12 * MS)
    stage.answer(_leaders(0, 1))
    stage.until(25 * MS)
    assert [(to, [row.partition for row in each.partitions]) for _, to, each in stage.asked[-2:]] == [
        ("1>b0", [0]),
        ("1>b1", [1]),
    ]


def _leaders(*nodes: int) -> MetadataReply:
    rows = [
        PartitionMetadata(error=NONE, partition=number, leader=node, leader_epoch=0, replicas=(0, 1), isr=(0, 1))
        for number, node in enumerate(nodes)
    ]
    brokers = tuple([BrokerMetadata(node_id=node, host=f"b{node}") for node in (0, 1)])
    return MetadataReply(brokers=brokers, topics=(TopicMetadata(error=NONE, topic="t", partitions=tuple(rows)),))


def test_a_heartbeat_is_repeated_until_it_reports_the_recorded_rebalance() -> None:
    stage = _Stage(_opens(10), _beat(20, ErrorCode.REBALANCE_IN_PROGRESS))
    stage.until(25 * MS)
    stage.answer(HeartbeatReply(error=NONE))
    stage.until(25 * MS + AGAIN_US)
    assert len(stage.sent) == 2
    stage.answer(HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
    assert stage.departures() == [("Heartbeat", "NONE", REPEATS)]
    assert stage.noted[-1] == ScriptEnded(departures=1)


def test_a_script_stops_after_a_minute_of_attempts_and_closes_its_connections() -> None:
    stage = _Stage(_opens(10), _beat(20, ErrorCode.REBALANCE_IN_PROGRESS))
    for _ in range(2 * FOLLOWED_FOR_US // AGAIN_US):
        if stage.talk.left:
            stage.until(stage.now_us + AGAIN_US)
            stage.answer(HeartbeatReply(error=NONE))
    assert stage.departures()[-1] == ("Heartbeat", "NONE for 60 s", STOPS)
    assert stage.hung_up == [f"1>{C0}"]
    assert not stage.timers
    assert FOLLOWED_FOR_US < stage.now_us < FOLLOWED_FOR_US + 1_000 * MS


def test_a_member_that_the_coordinator_does_not_know_joins_again() -> None:
    stage = _Stage(_opens(10), _join(10, 15), _beat(20))
    stage.until(15 * MS)
    stage.answer(JoinGroupReply(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id="old"))
    stage.until(15 * MS + AGAIN_US)
    assert stage.last.member_id == ""
    stage.answer(JoinGroupReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="new"))
    stage.until(15 * MS + 2 * AGAIN_US)
    assert stage.last.member_id == "new"
    stage.answer(_joined("new", 3))
    stage.until(1_000 * MS)
    assert stage.last == Heartbeat(group=G, generation=3, member_id="new")


def test_an_unknown_error_stops_the_script() -> None:
    stage = _Stage(_opens(10), _beat(20), _beat(60))
    stage.until(25 * MS)
    stage.answer(HeartbeatReply(error=ErrorCode.UNKNOWN_MEMBER_ID))
    stage.until(1_000 * MS)
    assert stage.departures() == [("Heartbeat", "UNKNOWN_MEMBER_ID", STOPS)]
    assert len(stage.sent) == 1
    assert not stage.talk.left


def test_the_next_life_opens_the_connections_again_and_repeats_what_was_not_answered() -> None:
    stage = _Stage(_opens(10), _beat(20), _beat(60))
    stage.until(21 * MS)
    stage.client, stage.timers = ScriptedClient("x-app", stage.memory, stage.talk), {}
    stage.now_us = 500 * MS
    stage.give(Told(Start()))
    stage.until(700 * MS)
    assert stage.last == FindCoordinator(key=G)
    stage.answer(_found(0))
    stage.answer(HeartbeatReply(error=NONE))
    stage.until(2_000 * MS)
    assert isinstance(stage.last, Heartbeat)
    assert len(stage.sent) == 4


def test_a_request_without_a_recorded_answer_waits_for_none() -> None:
    lost = _asks(10, Heartbeat(group=G, generation=1, member_id="old"))
    stage = _Stage(_opens(10), lost, _beat(20, connection="1"), ScriptCloses(50 * MS, "1"))
    stage.until(21 * MS)
    assert len(stage.sent) == 2
    stage.answer(HeartbeatReply(error=NONE))
    stage.until(100 * MS)
    assert stage.noted[-1] == ScriptEnded(departures=0)


BEAT = Heartbeat(group=G, generation=1, member_id="m")


@pytest.mark.parametrize(
    ("request_", "then", "now", "verdict"),
    [
        (BEAT, NONE, NONE, SAME),
        (BEAT, NONE, ErrorCode.REBALANCE_IN_PROGRESS, CONTINUES),
        (BEAT, ErrorCode.NOT_COORDINATOR, NONE, CONTINUES),
        (BEAT, ErrorCode.REBALANCE_IN_PROGRESS, NONE, REPEATS),
        (BEAT, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, LOOKS_UP),
        (BEAT, NONE, ErrorCode.ILLEGAL_GENERATION, STOPS),
    ],
)
def test_the_errors_decide_what_a_client_does(request_: Any, then: ErrorCode, now: ErrorCode, verdict: str) -> None:
    assert compared(request_, HeartbeatReply(error=then), HeartbeatReply(error=now))[0] == verdict


def test_the_gravest_row_decides() -> None:
    def reply(*errors: ErrorCode) -> ProduceReply:
        rows = [ProducedBatch(topic="t", partition=number, error=error) for number, error in enumerate(errors)]
        return ProduceReply(batches=tuple(rows))

    request = Produce(acks=1, timeout_ms=1, batches=())
    moved, large = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE
    assert compared(request, reply(NONE, NONE), reply(moved, NONE)) == (LOOKS_UP, "NONE", moved.name)
    assert compared(request, reply(NONE, NONE), reply(moved, large)) == (STOPS, "NONE", large.name)
    assert compared(request, reply(moved, NONE), reply(moved, NONE))[0] == SAME
