"""KIP-333's second consumer when brokers answer with errors, or not at all: it retries without loss, or ends.

The page does not mention errors; the second consumer reacts like the first (``OffsetFetcher``, ``Fetcher``).
"""

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve

from kemu.actors.consumer.application import Calls
from kemu.actors.consumer.catch_up import CatchUp
from kemu.actors.consumer.partition import Partition
from kemu.actors.machine import LinkDown, Machine, Received
from kemu.protocol.commands import EnforceRebalance, Unsubscribe
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Fetch, ListOffsets, Metadata
from kemu.protocol.messages.ranges import FetchedLogs, RangeCommit
from kemu.protocol.names import part_on, through
from kemu.protocol.notes.groups import CommitAnswered, MemberBecame, MemberFailed
from kemu.protocol.notes.ranges import RangeTrimmed
from tests.actors.consumer.catch_up_stage import BROKER, COORDINATOR, HOP_US, SECOND, Member, Stage

CHILD = part_on("c1", "catch-up")
Changed = Callable[[Any], Any]


def _with_error(error: ErrorCode) -> Changed:
    """Every row of an answer, with this error in its place."""

    def change(reply: Any) -> Any:
        name = "answers" if hasattr(reply, "answers") else "partitions" if hasattr(reply, "partitions") else "topics"
        return evolve(reply, **{name: tuple(evolve(row, error=error) for row in getattr(reply, name))})

    return change


class Broker(Stage):
    """A stage whose broker holds requests of the second consumer, and answers its next ones with errors."""

    def __init__(self, log_end: int, p_commit: int | None) -> None:
        self.asked: list[Any] = []
        self.held: list[tuple[str, Machine, str, Received]] = []
        self.hold: type | None = None
        self.changes: dict[type, deque[Changed]] = {}
        super().__init__(log_end, p_commit)

    def _request_arrives(self, name: str, machine: Machine, to: str, event: Received) -> None:
        if to in (through("catch-up", BROKER), through("catch-up", COORDINATOR)):
            self.asked.append(event.message)
            if type(event.message) is self.hold:
                self.held.append((name, machine, to, event))
                return
        super()._request_arrives(name, machine, to, event)

    def _reply(self, sender: str, event: Received, reply: Any) -> None:
        changes = self.changes.get(type(event.message))
        if sender == CHILD and changes:
            reply = changes.popleft()(reply)
        super()._reply(sender, event, reply)

    def release(self) -> None:
        """Answer the held requests now."""
        self.hold = None
        held, self.held = self.held, []
        for each in held:
            self._request_arrives(*each)
        self.run(SECOND)

    def release_alone(self) -> None:
        """Deliver the one held request now, and its answer some hops later."""
        (held,), self.held, self.hold = self.held, [], None
        self._request_arrives(*held)
        self.run(10 * HOP_US)

    def break_connection(self) -> None:
        """Break the second consumer's connection to the broker, with the messages on it."""
        self.hold, self.held = None, []
        self._step("c1", LinkDown(through("catch-up", BROKER)))
        self.run(SECOND)

    def of(self, kind: type) -> list[Any]:
        """The second consumer's requests of this kind."""
        return [message for message in self.asked if type(message) is kind]

    def looks(self) -> list[int]:
        """The timestamps of its ListOffsets requests."""
        return [question.timestamp_ms for request in self.of(ListOffsets) for question in request.questions]

    @property
    def owner(self) -> Member:
        """The member."""
        assert self.member is not None
        return self.member


def _trimmed_range() -> Broker:
    """20 to 100 was open at the power failure, and retention deleted the records below 60; the member is down."""
    stage = Broker(100, 20)
    stage.start()
    stage.crash("both")
    stage.trim(60)
    stage.asked.clear()
    return stage


def _works_off_what_is_left(stage: Broker) -> None:
    stage.poll("secondary", 10_000)
    stage.commit("both")
    assert [[who, first, last] for who, first, last in stage.delivered if who == "S"] == [["S", 60, 100]]
    assert [(fact.first, fact.last) for fact in stage.facts(RangeTrimmed)] == [(20, 60)]
    assert stage.state()["pending"] == []
    assert stage.state()["committed"] == 100


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_where_a_log_begins_is_asked_again_after_the_backoff_and_with_new_metadata(error: ErrorCode) -> None:
    """OffsetFetcher.resetPositionsAsync: a partition whose answer has an error is retried after retry.backoff.ms."""
    stage = _trimmed_range()
    stage.changes[ListOffsets] = deque([_with_error(error)])

    stage.start()
    stage.run(50_000)
    assert stage.looks() == [EARLIEST_TIMESTAMP]
    told = len(stage.of(Metadata))
    stage.run(SECOND)

    assert stage.looks() == [EARLIEST_TIMESTAMP, EARLIEST_TIMESTAMP]
    assert len(stage.of(Metadata)) > told
    _works_off_what_is_left(stage)


def test_where_a_log_begins_is_asked_again_when_the_connection_broke() -> None:
    """A lost connection counts as a failed answer."""
    stage = _trimmed_range()
    stage.hold = ListOffsets

    stage.start()
    stage.run(50_000)
    assert stage.looks() == [EARLIEST_TIMESTAMP]
    stage.break_connection()

    assert stage.looks() == [EARLIEST_TIMESTAMP, EARLIEST_TIMESTAMP]
    _works_off_what_is_left(stage)


def test_what_was_given_up_while_its_log_was_asked_about_is_not_read() -> None:
    """A consumer reads only assigned partitions; the late answer concerns a partition of another member."""
    stage = _trimmed_range()
    stage.hold = ListOffsets
    stage.start()
    stage.run(50_000)
    assert stage.looks() == [EARLIEST_TIMESTAMP]

    stage.tell(Unsubscribe())
    assert stage.owner.machine.thread.assignment() == ()
    stage.release()
    stage.poll("secondary", 10_000)

    assert stage.delivered == []
    assert [row.fetch_offset for fetch in stage.of(Fetch) for row in fetch.partitions] == [20], "before it was told"


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_fetch_that_is_refused_is_sent_again_with_new_metadata(error: ErrorCode) -> None:
    """Fetcher.initializeCompletedFetch: these errors ask for metadata, and the position stays."""
    stage = Broker(100, 20)
    stage.changes[Fetch] = deque([_with_error(error)])

    stage.start()
    stage.run(SECOND)

    assert len(stage.of(Metadata)) == 2
    assert [row.fetch_offset for fetch in stage.of(Fetch) for row in fetch.partitions] == [20, 20]
    stage.poll("secondary", 10_000)
    assert stage.delivered == [["S", 20, 100]]


def test_a_topic_that_may_not_be_read_any_more_fails_the_member() -> None:
    """Metadata.maybeThrowAnyException: TopicAuthorizationException from poll(), whichever consumer was told."""
    stage = Broker(100, 20)
    stage.changes[Metadata] = deque([_with_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)])

    stage.start()
    stage.run(SECOND)

    (failed,) = stage.facts(MemberFailed)
    assert failed.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert failed.why == "Metadata of t"
    assert stage.of(Fetch) == []


def test_a_log_that_was_cut_below_an_open_range_leaves_nothing_to_work_off() -> None:
    """An unclean election: records beyond the log's end are lost, and later records there are the first consumer's."""
    stage = Broker(100, 20)
    stage.start()
    stage.crash("both")
    stage.log_end = 10
    stage.asked.clear()

    stage.start()
    stage.run(SECOND)
    stage.append(30)
    stage.poll("primary", 10_000)
    stage.poll("secondary", 10_000)

    assert stage.looks() == [EARLIEST_TIMESTAMP, LATEST_TIMESTAMP]
    assert [row.fetch_offset for fetch in stage.of(Fetch) for row in fetch.partitions] == [20]
    assert stage.delivered == [["P", 10, 30]]


def test_the_next_leader_is_asked_for_the_committed_records_that_the_last_leader_still_had() -> None:
    """Later records at the lost offsets were not processed (swarm, kip-333, cut-again-before-its-jump)."""
    asked: list[tuple[int, int]] = []
    positions = SimpleNamespace(check_before_jump=lambda one, offset, epoch: asked.append((offset, epoch)))
    catch_up = CatchUp(cast("Any", SimpleNamespace(config=ConsumerConfig(group_id="g"))), cast("Any", positions))
    one = Partition(("t", 0))

    catch_up.logs_known(one, FetchedLogs(topic="t", partition=0, offset=20, leader_epoch=1))
    catch_up.leader_changed(one)
    catch_up.commit_truncated(one.at, 15, 0)
    catch_up.leader_changed(one)
    catch_up.logs_known(one, FetchedLogs(topic="t", partition=0, offset=30, leader_epoch=2))
    catch_up.leader_changed(one)

    assert asked == [(20, 1), (20, 1), (15, 0), (30, 2), (30, 2)]


def _one_long_poll(calls: Calls) -> bool:
    calls.poll(60 * SECOND)
    return True


def test_a_member_joins_as_soon_as_the_second_of_its_commits_is_answered() -> None:
    """ConsumerCoordinator.onJoinPrepare: a rebalance waits for the commits before it, and no longer."""
    stage = Broker(100, 20)
    stage.start()
    stage.owner.machine.config = evolve(stage.owner.machine.config, enable_auto_commit=True)
    stage.append(110)
    stage.poll("secondary", 30)
    stage.poll("primary", 10)
    stage.owner.script.acts.append(_one_long_poll)
    stage.run(SECOND // 10)
    stage.hold = RangeCommit
    answered, joins = len(stage.facts(CommitAnswered)), len(stage.facts(MemberBecame))
    stage.tell(EnforceRebalance())
    stage.run(SECOND // 10)
    assert len(stage.facts(CommitAnswered)) == answered + 1, "the first consumer's"
    assert len(stage.facts(MemberBecame)) == joins

    stage.release_alone()

    assert [fact.new for fact in stage.facts(MemberBecame)[joins:]][:1] == ["PREPARING_REBALANCE"]
