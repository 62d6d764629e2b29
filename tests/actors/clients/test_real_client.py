"""The machine of a real client: requests go out on the client's connections, and facts follow from the answers."""

from typing import Any

from kemu.actors.clients.real_client import ClientMemory, RealClient
from kemu.actors.machine import Hangup, LinkDown, Note, Received, Send, Told
from kemu.protocol.commands import AskOn, CloseConnection, OpenConnection
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, TopicNumbers
from kemu.protocol.messages.data import Fetch, FetchPartition, Metadata, MetadataReply, Produce, TopicMetadata
from kemu.protocol.messages.group import (
    FetchedOffset,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinProtocol,
    OffsetCommit,
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetOutcome,
    OffsetToCommit,
    SyncGroup,
    SyncGroupReply,
    TopicPartitions,
)
from kemu.protocol.messages.member import Assignment, Subscription, encode_assignment, encode_subscription
from kemu.protocol.notes.groups import (
    SEEK,
    AssignmentReceived,
    CommitAnswered,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
)
from kemu.protocol.wire.codec import seal

COORDINATOR, MEMBER, GROUP = "b0/coordinator", "app-1", "g"
T0, T1 = ("t", 0), ("t", 1)


class _Driver:
    """A client with one connection; each request is answered at once."""

    def __init__(self, memory: ClientMemory | None = None) -> None:
        self.memory = ClientMemory() if memory is None else memory
        self.client = RealClient("x-app", self.memory)
        self.effects = [*self.client.step(0, Told(OpenConnection(connection="1", client_id="app")))]

    def ask(self, message: Any, version: int, answer: Any = None, to: str = COORDINATOR) -> list[Any]:
        """Send a request and deliver its answer; return the reported facts."""
        request = seal(message, version)
        sent = [*self.client.step(0, Told(AskOn(connection="1", to=to, request=request)))]
        (send,) = [each for each in sent if isinstance(each, Send)]
        assert send.to == f"1>{to}"
        assert send.message == message
        if answer is not None:
            sent += self.client.step(0, Received(to, 7, send.request_id, version, answer))
        assert {each.part for each in sent if isinstance(each, Note)} <= {"1"}
        return [each.fact for each in sent if isinstance(each, Note)]

    def sync(self, generation: int, *partitions: tuple[str, int]) -> list[Any]:
        """Receive an assignment."""
        request = SyncGroup(group=GROUP, generation=generation, member_id=MEMBER)
        return self.ask(
            request, 3, SyncGroupReply(error=ErrorCode.NONE, assignment=encode_assignment(Assignment(partitions)))
        )

    def join(self, *owned: tuple[str, int], member_id: str = MEMBER) -> list[Any]:
        """Send a JoinGroup whose subscription has these owned partitions."""
        metadata = encode_subscription(Subscription(("t",), owned=owned))
        protocols = (JoinProtocol(name="cooperative-sticky", metadata=metadata),)
        request = JoinGroup(
            group=GROUP, session_timeout_ms=10_000, member_id=member_id, protocol_type="consumer", protocols=protocols
        )
        return self.ask(request, 5)

    def beat(
        self,
        epoch: int,
        answered: int,
        assigned: tuple[int, ...] | None = None,
        *,
        error: ErrorCode = ErrorCode.NONE,
        **more: Any,
    ) -> list[Any]:
        """Send a heartbeat of the consumer protocol; its answer has an epoch, an assignment or an error."""
        request = ConsumerGroupHeartbeat(group=GROUP, member_id=MEMBER, member_epoch=epoch, **more)
        rows = None if assigned is None else _numbers(*assigned)
        answer = ConsumerGroupHeartbeatReply(error=error, member_id=MEMBER, member_epoch=answered, assignment=rows)
        return self.ask(request, 1, answer)

    def knows_topic(self) -> list[Any]:
        """Receive the metadata of the topic."""
        topic = TopicMetadata(error=ErrorCode.NONE, topic="t", topic_id="t-id", partitions=())
        return self.ask(Metadata(topics=("t",)), 12, MetadataReply(brokers=(), topics=(topic,)), "b0")

    def commit(self, offset: int, error: ErrorCode = ErrorCode.NONE) -> list[Any]:
        """Commit an offset of the first partition."""
        offsets = (OffsetToCommit(topic="t", partition=0, offset=offset),)
        outcomes = (OffsetOutcome(topic="t", partition=0, error=error),)
        request = OffsetCommit(group=GROUP, generation=1, member_id=MEMBER, offsets=offsets)
        return self.ask(request, 2, OffsetCommitReply(outcomes=outcomes))


def _numbers(*partitions: int) -> tuple[TopicNumbers, ...]:
    return (TopicNumbers(topic_id="t-id", partitions=partitions),)


def _about(**more: Any) -> dict[str, Any]:
    return {"group": GROUP, "member_id": MEMBER, **more}


def test_a_member_owns_its_assignment_and_gives_up_what_its_next_join_omits() -> None:
    """KIP-429: a cooperative member joins with the partitions that it keeps."""
    driver = _Driver()
    assert driver.sync(1, T0, T1) == [
        AssignmentReceived(**_about(generation=1, partitions=(T0, T1))),
        PartitionsAssigned(**_about(generation=1, added=(T0, T1), owned=(T0, T1))),
    ]
    assert driver.join(T0, T1) == []
    assert driver.sync(2, T1) == [
        AssignmentReceived(**_about(generation=2, partitions=(T1,))),
        PartitionsRevoked(**_about(generation=2, revoked=(T0,), owned=(T1,))),
        PartitionsAssigned(**_about(generation=2, added=(), owned=(T1,))),
    ]
    assert driver.join() == [PartitionsRevoked(**_about(generation=2, revoked=(T1,), owned=()))]


def test_a_member_that_is_unknown_or_joins_anew_loses_its_partitions() -> None:
    """UNKNOWN_MEMBER_ID ends a membership; so does a JoinGroup without a member id."""
    driver = _Driver()
    driver.sync(1, T0)
    heartbeat = Heartbeat(group=GROUP, generation=1, member_id=MEMBER)
    assert driver.ask(heartbeat, 1, HeartbeatReply(error=ErrorCode.REBALANCE_IN_PROGRESS)) == []
    lost = [PartitionsLost(**_about(lost=(T0,)))]
    assert driver.ask(heartbeat, 1, HeartbeatReply(error=ErrorCode.UNKNOWN_MEMBER_ID)) == lost
    driver.sync(1, T0)
    assert driver.join(member_id="") == lost


def test_a_member_of_the_consumer_protocol_owns_what_its_coordinator_and_its_heartbeats_agree_on() -> None:
    """KIP-848: topics have ids, whose names the client learns from metadata; a heartbeat acknowledges an assignment."""
    driver = _Driver()
    joins = {"rebalance_timeout_ms": 5_000, "topics": ("t",), "owned": ()}
    assert driver.beat(0, 1, (0, 1), **joins) == []
    assert driver.knows_topic() == [
        AssignmentReceived(**_about(generation=1, partitions=(T0, T1))),
        PartitionsAssigned(**_about(generation=1, added=(T0, T1), owned=(T0, T1))),
    ]
    assert driver.beat(1, 1, owned=_numbers(0, 1)) == []
    assert driver.beat(1, 1, (1,)) == [AssignmentReceived(**_about(generation=1, partitions=(T1,)))]
    assert driver.beat(1, 2, owned=_numbers(1)) == [
        PartitionsRevoked(**_about(generation=1, revoked=(T0,), owned=(T1,))),
        PartitionsAssigned(**_about(generation=1, added=(), owned=(T1,))),
    ]
    assert driver.beat(-1, -1) == [PartitionsRevoked(**_about(generation=2, revoked=(T1,), owned=()))]


def test_a_fenced_member_of_the_consumer_protocol_loses_its_partitions() -> None:
    """So does a member that joins again, with the epoch 0."""
    driver = _Driver()
    driver.knows_topic()
    lost = [PartitionsLost(**_about(lost=(T0,)))]
    for error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        driver.beat(0, 1, (0,))
        assert driver.beat(1, 0, error=error) == lost
    driver.beat(0, 1, (0,))
    assert driver.beat(1, 0, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == []
    assert driver.beat(0, 0, error=ErrorCode.UNRELEASED_INSTANCE_ID) == lost


def test_committed_records_are_reported_as_processed_from_the_clients_position_on() -> None:
    """The position is the committed offset that the client read; a lower commit is a new position."""
    driver = _Driver()
    driver.sync(1, T0)
    request = OffsetFetch(group=GROUP, topics=(TopicPartitions(topic="t", partitions=(0,)),))
    row = FetchedOffset(topic="t", partition=0, offset=5, error=ErrorCode.NONE)
    driver.ask(request, 1, OffsetFetchReply(offsets=(row,)))
    at = _about(topic="t", partition=0)
    done = CommitAnswered(**_about(generation=1, error=ErrorCode.NONE))
    work: dict[str, Any] = {"generation": 1, "started_us": 0}
    assert driver.commit(8) == [PositionSet(**at, offset=5, why=SEEK), Processed(**at, **work, first=5, last=8), done]
    assert driver.commit(8) == [done]
    assert driver.commit(6) == [PositionSet(**at, offset=6, why=SEEK), done]
    assert driver.commit(7, ErrorCode.ILLEGAL_GENERATION) == [
        Processed(**at, **work, first=6, last=7),
        CommitAnswered(**_about(generation=1, error=ErrorCode.ILLEGAL_GENERATION)),
    ]


def test_a_commit_by_topic_id_is_about_the_topic_that_the_clients_metadata_names() -> None:
    """OffsetCommit and OffsetFetch v10 of Java's clients since 4.2."""
    driver = _Driver()
    driver.knows_topic()
    driver.sync(1, T0)
    fetch = OffsetFetch(group=GROUP, topics=(TopicPartitions(topic_id="t-id", partitions=(0,)),))
    fetched = FetchedOffset(topic_id="t-id", partition=0, offset=5, error=ErrorCode.NONE)
    driver.ask(fetch, 10, OffsetFetchReply(offsets=(fetched,)))
    offsets = (OffsetToCommit(topic_id="t-id", partition=0, offset=8),)
    reply = OffsetCommitReply(outcomes=(OffsetOutcome(topic_id="t-id", partition=0, error=ErrorCode.NONE),))
    facts = driver.ask(OffsetCommit(group=GROUP, generation=1, member_id=MEMBER, offsets=offsets), 10, reply)

    work = [(each.topic, each.first, each.last) for each in facts if isinstance(each, Processed)]
    assert work == [("t", 5, 8)]


def test_without_a_committed_offset_work_begins_at_the_lowest_fetched_offset() -> None:
    """A client that resets its position fetches from there."""
    driver = _Driver()
    driver.sync(1, T0)
    for offset in (3, 9):
        rows = (FetchPartition(topic="t", partition=0, fetch_offset=offset),)
        driver.ask(Fetch(max_wait_ms=0, min_bytes=1, partitions=rows), 4, to="b0")
    work = driver.commit(10)
    assert [(each.first, each.last) for each in work if isinstance(each, Processed)] == [(3, 10)]


def test_commits_outside_of_a_membership_say_nothing_about_a_member() -> None:
    """A tool commits with any generation; nothing was assigned to it."""
    assert _Driver().commit(8) == []


def test_a_closed_connection_is_forgotten_and_its_late_events_change_nothing() -> None:
    """The broker learns of the end; an answer that is on its way reaches nobody."""
    driver = _Driver()
    driver.sync(1, T0)
    request = seal(Heartbeat(group=GROUP, generation=1, member_id=MEMBER), 1)
    driver.client.step(0, Told(AskOn(connection="1", to=COORDINATOR, request=request)))
    effects = driver.client.step(0, Told(CloseConnection(connection="1")))
    assert Hangup(f"1>{COORDINATOR}") in effects
    assert driver.client.step(0, Received(COORDINATOR, 7, 2, 1, HeartbeatReply(error=ErrorCode.NONE))) == []
    assert driver.client.step(0, LinkDown(f"1>{COORDINATOR}")) == []
    assert driver.client.step(0, Told(AskOn(connection="1", to=COORDINATOR, request=request))) == []
    assert driver.client.step(0, Told(CloseConnection(connection="1"))) == []


def test_a_produce_without_acknowledgement_leaves_no_open_request() -> None:
    """acks=0: the broker sends no answer."""
    driver = _Driver()
    driver.ask(Produce(acks=0, timeout_ms=1, batches=()), 3, to="b0")
    connection: Any = driver.client.part("1")
    assert not connection._asked


def test_a_member_outlives_a_crash_of_its_host() -> None:
    """Only the connections end. The member owns its partitions again before its commit is reported as work."""
    first = _Driver()
    first.sync(1, T0, T1)
    first.commit(5)
    second = _Driver(first.memory)
    assert second.commit(8)[:4] == [
        AssignmentReceived(**_about(generation=1, partitions=(T0, T1))),
        PartitionsAssigned(**_about(generation=1, added=(T0, T1), owned=(T0, T1))),
        PositionSet(**_about(topic="t", partition=0, offset=5, why=SEEK)),
        Processed(**_about(generation=1, topic="t", partition=0, first=5, last=8, started_us=0)),
    ]
    third = _Driver(first.memory)
    heartbeat = Heartbeat(group=GROUP, generation=1, member_id=MEMBER)
    assert len(third.ask(heartbeat, 1, HeartbeatReply(error=ErrorCode.NONE))) == 2
    assert third.ask(heartbeat, 1, HeartbeatReply(error=ErrorCode.NONE)) == []
    fourth = _Driver(first.memory)
    assert fourth.ask(heartbeat, 1, HeartbeatReply(error=ErrorCode.UNKNOWN_MEMBER_ID)) == []
