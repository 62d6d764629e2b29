"""Applications other than the usual loop, around the same client."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kemu.actors.consumer.application import Answers, Calls, IllegalState
from kemu.actors.consumer.partition import Returned
from kemu.protocol.commands import (
    Close,
    EnforceRebalance,
    PausePartitions,
    RaiseInListener,
    ResumePartitions,
    Seek,
    Start,
)
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Fetch, ListOffsets
from kemu.protocol.messages.group import (
    FetchedOffset,
    FindCoordinator,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchReply,
    SyncGroup,
)
from kemu.protocol.notes.groups import SEEK, ListenerFailed, MemberFailed, PositionSet, Processed
from kemu.protocol.rebalancing.client_rules import CLIENT_3_2
from tests.actors.consumer.consumer_harness import COORDINATOR, Harness

FIRST, SECOND, OTHER = ("t", 0), ("t", 1), ("u", 1)


class Recorder:
    """Polls for ever, or does what a test wants done with what a poll returned."""

    def __init__(self, *, topics: tuple[str, ...] = (), by_hand: tuple[tuple[str, int], ...] = ()) -> None:
        self.calls: Calls
        self.returned: list[tuple[int, Returned]] = []
        self.polls = 0
        self.then: Callable[[Sequence[Returned]], None] = lambda records: self.calls.poll()
        self.after_work: Callable[[], None] = lambda: self.calls.poll()
        self._topics = topics
        self._by_hand = by_hand

    def started(self, calls: Calls) -> None:
        self.calls = calls
        if self._topics:
            calls.subscribe(self._topics)
        if self._by_hand:
            calls.assign(self._by_hand)
        calls.poll()

    def polled(self, records: Sequence[Returned]) -> None:
        self.polls += 1
        self.returned.extend((self.calls.now_us, part) for part in records)
        self.then(records)

    def worked(self) -> None:
        self.after_work()

    def committed(self) -> None:
        self.calls.poll()

    def poll_raised(self, why: str) -> None:
        self.calls.work(1_000_000)

    def ranges(self, at: tuple[str, int]) -> list[tuple[int, int]]:
        return [(part.first, part.last) for _, part in self.returned if part.at == at]


class Retrying(Recorder):
    """A program with a retry topic's logic: a part that fails is paused, sought back to, and resumed a second later."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[tuple[str, int]] = set()

    def polled(self, records: Sequence[Returned]) -> None:
        self.returned.extend((self.calls.now_us, part) for part in records)
        for part in records:
            if part.at == FIRST and part.at not in self.failed:
                self.failed.add(part.at)
                self.calls.pause((part.at,))
                self.calls.seek(part.at, part.first)
            else:
                self.calls.processed(part, self.calls.now_us)
        if self.calls.paused():
            self.calls.poll(timeout_us=1_000_000)
            if not records:
                self.calls.resume(self.calls.paused())
        else:
            self.calls.poll()


def test_an_application_pauses_a_partition_seeks_back_and_resumes() -> None:
    """KafkaConsumer.pause: "does not affect partition subscription"; what was sought back to comes again."""
    application = Retrying()
    harness = Harness(application=application).stable()
    harness.run(100_000)
    harness.append(FIRST, 3)
    harness.run(100_000)
    harness.append(SECOND, 5)
    harness.run(100_000)
    assert (application.ranges(FIRST), application.ranges(SECOND)) == ([(0, 3)], [(0, 5)])
    assert application.calls.paused() == (FIRST,)

    harness.run(3_000_000)

    assert (application.ranges(FIRST), application.ranges(SECOND)) == ([(0, 3), (0, 3)], [(0, 5)])
    again = application.returned[-1][0] - application.returned[0][0]
    assert again >= 1_000_000
    done = [(note.partition, note.first, note.last) for note in harness.notes if isinstance(note, Processed)]
    assert done == [(1, 0, 5), (0, 0, 3)]
    (sought,) = (note for note in harness.notes if isinstance(note, PositionSet) and note.why == SEEK)
    assert (sought.partition, sought.offset) == (0, 0)


def test_a_paused_partition_is_not_fetched_and_what_was_fetched_of_it_waits() -> None:
    """KAFKA-7548: data of a paused partition is kept and not returned; a Fetch names only those not paused."""
    application = Recorder()
    harness = Harness(application=application).stable()
    harness.run(100_000)
    harness.append(FIRST, 4)  # the answer is on its way
    application.calls.pause((FIRST,))
    harness.run(10_000)
    harness.forget()
    harness.run(2_000_000)
    assert application.ranges(FIRST) == []
    asked = {(row.topic, row.partition) for _, _, message in harness.sent if isinstance(message, Fetch)
             for row in message.partitions}  # fmt: skip
    assert FIRST not in asked and SECOND in asked

    application.calls.resume((FIRST,))
    harness.append(SECOND, 1)
    harness.run(2_000_000)
    assert application.ranges(FIRST) == [(0, 4)]


def test_a_poll_with_a_timeout_returns_nothing_when_it_is_over() -> None:
    """KafkaConsumer.poll(timeout): an empty result; a program of its own works between such polls."""
    application = Recorder()
    application.then = lambda records: application.calls.work(300_000)
    application.after_work = lambda: application.calls.poll(timeout_us=200_000)
    harness = Harness(application=application).stable()
    harness.append(FIRST, 1)
    harness.run(3_000_000)
    assert application.ranges(FIRST) == [(0, 1)]
    assert 5 <= application.polls <= 7  # one each half a second


def test_partitions_assigned_by_hand_are_read_without_a_membership() -> None:
    """KafkaConsumer.assign: no group management; commits carry no generation."""
    application = Recorder(by_hand=(SECOND,))
    application.then = lambda records: application.calls.commit_sync()
    harness = Harness(subscribe=(), application=application, start=False)
    harness.cluster.committed[SECOND] = 2
    harness.cluster.ends[SECOND] = 5
    harness.tell(Start())
    harness.run(5_000_000)

    assert application.ranges(SECOND) == [(2, 5)]
    assert application.calls.position(SECOND) == 5
    assert not [message for _, _, message in harness.sent if isinstance(message, JoinGroup)]
    commits = [message for _, _, message in harness.sent if isinstance(message, OffsetCommit)]
    assert commits and {(one.generation, one.member_id) for one in commits} == {(-1, "")}
    with pytest.raises(IllegalState, match="exclude each other"):
        application.calls.subscribe(("t",))
    harness.tell(Close())
    harness.run(1_000_000)
    assert harness.consumer.finished


def test_what_is_not_assigned_can_be_neither_paused_nor_sought() -> None:
    """SubscriptionState.assignedState: IllegalStateException."""
    application = Recorder(topics=("t",))
    harness = Harness(subscribe=(), application=application).stable()
    for call in (
        lambda: application.calls.pause((("u", 0),)),
        lambda: application.calls.seek(("u", 0), 3),
        lambda: application.calls.position(("u", 0)),
    ):
        with pytest.raises(IllegalState, match="u-0 is not assigned to c1"):
            call()
    with pytest.raises(IllegalState, match="exclude each other"):
        application.calls.assign((FIRST,))
    assert application.calls.assignment() == harness.consumer.positions.owned()


def test_commands_pause_seek_and_resume() -> None:
    """A plan may tell an application of the usual kind to make these calls; it makes them between two polls."""
    harness = Harness().stable()
    harness.run(100_000)
    harness.append(FIRST, 4)
    harness.run(100_000)
    harness.tell(PausePartitions(partitions=(FIRST, ("u", 7))))
    harness.tell(Seek(topic="t", partition=0, offset=1))
    harness.run(2_000_000)
    done = [(note.first, note.last) for note in harness.notes if isinstance(note, Processed)]
    assert done == [(0, 4)] and harness.consumer.thread.paused() == (FIRST,)

    harness.tell(ResumePartitions(partitions=(FIRST,)))
    harness.run(2_000_000)
    done = [(note.first, note.last) for note in harness.notes if isinstance(note, Processed)]
    assert done == [(0, 4), (1, 4)]


def test_an_enforced_rebalance_is_a_join_with_that_reason() -> None:
    """KafkaConsumer.enforceRebalance, KIP-568."""
    harness = Harness().stable()
    harness.forget()
    harness.tell(EnforceRebalance())
    harness.stable()
    (join,) = (message for _, _, message in harness.sent if isinstance(message, JoinGroup))
    assert join.reason == "rebalance enforced by user"


def test_a_listener_is_told_to_raise_once() -> None:
    """A callback that raises: poll() raises, the application polls again, and the assignment is taken then."""
    harness = Harness().stable()
    harness.forget()
    harness.tell(RaiseInListener(callback="onPartitionsAssigned", why="boom"))
    harness.tell(EnforceRebalance())
    harness.stable()
    harness.run(2_000_000)
    (failed,) = (note for note in harness.notes if isinstance(note, ListenerFailed))
    assert (failed.callback, failed.why) == ("onPartitionsAssigned", "boom")
    assert harness.state == "STABLE" and len(harness.consumer.positions.owned()) == 4


def test_an_application_that_says_nothing_is_found_out() -> None:
    """Each call of an application ends with its next call."""
    application = Recorder()
    application.then = lambda records: None
    harness = Harness(application=application).stable()
    harness.append(FIRST, 1)
    with pytest.raises(AssertionError, match="made no next call"):
        harness.run(2_000_000)


def test_an_application_that_unsubscribes_leaves_the_group_with_its_next_poll() -> None:
    """KafkaConsumer.unsubscribe: LeaveGroup, and what it owned is given up; the consumer itself lives on."""
    application = Recorder()
    harness = Harness(application=application).stable()
    harness.append(FIRST, 1)
    application.then = lambda records: (application.calls.unsubscribe(), application.calls.poll())[1]

    harness.run(3_000_000)

    assert application.calls.assignment() == ()
    assert any(isinstance(message, LeaveGroup) for _, _, message in harness.sent)


# --- commitAsync ---------------------------------------------------------------------------------------------------


class Committing(Recorder):
    """Commits asynchronously whatever a poll returns, and polls on; then does what a test wants done once."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[tuple[str, bool]] = []
        self.once: Callable[[], None] | None = None

    def polled(self, records: Sequence[Returned]) -> None:
        name = ", ".join(f"{part.at[1]}:{part.last}" for part in records)
        self.calls.commit_async(then=lambda committed: self.answers.append((name, committed)))
        self.go_on()

    def go_on(self) -> None:
        once, self.once = self.once, None
        (once or self.calls.poll)()

    def committed(self) -> None:
        self.answers.append(("commitSync returns", self.calls.last_commit_went_through))
        self.calls.poll()


def _committing(**config: Any) -> tuple[Committing, Harness]:
    application = Committing()
    harness = Harness(application=application, enable_auto_commit=False, **config).stable().run(100_000)
    return application, harness


def _commits(harness: Harness) -> list[dict[int, int]]:
    """Offsets of each OffsetCommit, without partitions at their beginning."""
    return [
        {row.partition: row.offset for row in each.offsets if row.offset} for each in harness.requests(OffsetCommit)
    ]


def test_an_asynchronous_commit_is_told_by_a_later_poll_and_several_may_be_under_way() -> None:
    """KafkaConsumer.commitAsync(OffsetCommitCallback): "callbacks are invoked in the same order" as the commits."""
    application, harness = _committing()
    harness.hold("OffsetCommit")
    harness.append(FIRST, 3)
    harness.run(10_000)
    harness.append(SECOND, 2)
    harness.run(10_000)
    assert _commits(harness) == [{0: 3}, {0: 3, 1: 2}]
    assert application.answers == []

    harness.release("OffsetCommit")
    harness.run(10_000)

    assert application.answers == [("0:3", True), ("1:2", True)]
    assert harness.cluster.committed[FIRST] == 3 and harness.cluster.committed[SECOND] == 2


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ],
)
def test_an_asynchronous_commit_that_is_refused_is_told_and_not_tried_again(error: ErrorCode) -> None:
    """ConsumerCoordinator.doCommitOffsetsAsync: RetriableCommitFailedException, or the error; never a retry."""
    application, harness = _committing()
    harness.answer_next("OffsetCommit", error)

    harness.append(FIRST, 3)
    harness.run(2_000_000)

    rejoins = error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
    assert application.answers == [("0:3", False), *([("0:3", True)] if rejoins else [])], (
        "it begins at the commit again"
    )
    assert len(_commits(harness)) == len(application.answers)
    assert harness.stable().state == "STABLE", "nothing is raised"


def test_an_asynchronous_commit_without_a_coordinator_waits_for_the_lookup_and_commits_what_it_was_asked_to() -> None:
    """ConsumerCoordinator.commitOffsetsAsync: the commit is chained to the lookup, with the offsets of that moment."""
    application, harness = _committing()
    harness.hold("FindCoordinator")
    harness.disconnect(COORDINATOR)
    harness.append(FIRST, 3)
    harness.run(110_000)  # poll() waits for the lookup until its timeout of 100 ms, and then returns the records
    harness.append(FIRST, 4)
    harness.run(100_000)
    assert _commits(harness) == [] and application.answers == []

    harness.release("FindCoordinator")
    harness.run(100_000)

    assert _commits(harness) == [{0: 3}, {0: 7}]
    assert application.answers == [("0:3", True), ("0:7", True)]


def test_an_asynchronous_commit_fails_if_the_coordinator_that_is_found_may_not_be_connected_to_yet() -> None:
    """``sendOffsetCommitRequest``: ``checkAndGetCoordinator`` knows none within the back-off of a broken connection."""
    application, harness = _committing(reconnect_backoff_ms=1_000)
    harness.hold("FindCoordinator")
    harness.disconnect(COORDINATOR)
    harness.append(FIRST, 3)
    harness.run(110_000)

    harness.release("FindCoordinator")
    harness.run(2_000_000)

    assert application.answers == [("0:3", False)]
    assert _commits(harness) == []
    assert harness.stable().state == "STABLE", "it was looked up again"


def _told_to_close_without_a_coordinator() -> Harness:
    _, harness = _committing()
    harness.hold("FindCoordinator")
    harness.disconnect(COORDINATOR)
    harness.append(FIRST, 3)
    harness.run(100_000)
    harness.tell(Close())
    harness.run(1_000_000)
    assert harness.state != "CLOSED"
    return harness


def test_close_waits_for_asynchronous_commits_that_wait_for_a_coordinator() -> None:
    """ConsumerCoordinator.close: ``while (pendingAsyncCommits.get() > 0 && timer.notExpired())``."""
    harness = _told_to_close_without_a_coordinator()

    harness.release("FindCoordinator")
    harness.run(100_000)

    assert harness.state == "CLOSED"
    assert harness.cluster.committed[FIRST] == 3
    assert len(harness.requests(LeaveGroup)) == 1


def test_close_waits_no_longer_than_it_may_for_a_coordinator() -> None:
    """The timeout of close(): 30 s or ``request.timeout.ms``; afterwards only the lookup is abandoned."""
    harness = _told_to_close_without_a_coordinator()
    began_us = harness.now_us - 1_000_000

    harness.run_until(lambda: harness.state == "CLOSED", within_us=40_000_000)

    assert harness.now_us - began_us <= 30_000_000
    assert _commits(harness) == []


def test_a_static_member_closes_when_what_it_committed_is_answered() -> None:
    """AbstractCoordinator.close: ``awaitPendingRequests``, though no LeaveGroup is among them."""
    application, harness = _committing(group_instance_id="i1")
    harness.hold("OffsetCommit")
    harness.append(FIRST, 3)
    harness.run(10_000)
    harness.tell(Close())
    harness.run(1_000_000)
    assert harness.state == "UNJOINED"

    harness.release("OffsetCommit")
    harness.run(10_000)

    assert harness.state == "CLOSED"
    assert harness.cluster.committed[FIRST] == 3
    assert application.answers == [], "nobody polls any more, so nobody calls back"


def test_who_closes_while_it_joins_waits_for_the_answer_and_takes_no_part_in_it() -> None:
    """``awaitPendingRequests``: JoinGroup is pending, too; its answer finds a member that has left."""
    _, harness = _committing()
    harness.hold("JoinGroup", "LeaveGroup")
    harness.rejoin_now()
    harness.run_until(lambda: bool(harness.held["JoinGroup"]))
    harness.forget()
    harness.tell(Close())
    harness.run(1_000_000)
    assert harness.state == "UNJOINED"

    harness.release("JoinGroup")
    harness.run(10_000)
    assert (harness.state, harness.requests(SyncGroup)) == ("UNJOINED", [])
    harness.release("LeaveGroup")
    harness.run(10_000)

    assert harness.state == "CLOSED"


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, None])
def test_an_asynchronous_commit_fails_with_the_lookup_that_it_waited_for(error: ErrorCode | None) -> None:
    """``onFailure``: RetriableCommitFailedException; the member itself looks the coordinator up again."""
    application, harness = _committing()
    harness.hold("FindCoordinator")
    harness.disconnect(COORDINATOR)
    harness.append(FIRST, 3)
    harness.run(110_000)
    asked = len(harness.requests(FindCoordinator))

    if error is None:
        harness.unhold("FindCoordinator")
        for pending in harness.held["FindCoordinator"]:
            harness.disconnect(pending.to)
    else:
        harness.release("FindCoordinator", error)
    harness.run(2_000_000)

    assert application.answers == [("0:3", False)]
    assert _commits(harness) == []
    assert len(harness.requests(FindCoordinator)) > asked
    assert harness.stable().state == "STABLE"


def test_callbacks_of_asynchronous_commits_come_before_a_commit_sync_returns() -> None:
    """ConsumerCoordinator.commitOffsetsSync: callbacks are called in the order in which commits were applied."""
    application, harness = _committing()
    application.once = lambda: application.calls.commit_sync()

    harness.append(FIRST, 3)
    harness.run(100_000)

    assert application.answers == [("0:3", True), ("commitSync returns", True)]


# --- committed(), beginningOffsets(), endOffsets() -------------------------------------------------------------------


class Asking(Recorder):
    """Asks something once, when a poll returns records; keeps the answer, and polls on."""

    def __init__(self, ask: Callable[[Calls, Answers], None]) -> None:
        super().__init__()
        self.answer: tuple[int, dict[tuple[str, int], int | None]] | None = None
        self._ask = ask

    def polled(self, records: Sequence[Returned]) -> None:
        if self.answer is None:
            self._ask(self.calls, self.told)
        else:
            self.calls.poll()

    def told(self, answers: Mapping[tuple[str, int], int | None]) -> None:
        self.answer = self.calls.now_us, dict(answers)
        self.calls.poll()


def _asks_committed(calls: Calls, told: Answers) -> None:
    calls.committed((FIRST, SECOND, ("t", 2)), told)


def _at_work(application: Asking, **config: Any) -> Harness:
    """It knows its positions, and reads."""
    return Harness(application=application, enable_auto_commit=False, **config).stable().run(100_000)


def _asked(application: Asking, harness: Harness, us: int = 3_000_000) -> dict[tuple[str, int], int | None]:
    harness.append(FIRST, 1)
    harness.run(us)
    assert application.answer is not None, "it is not answered"
    return application.answer[1]


def test_committed_answers_what_the_group_committed_and_none_where_it_did_not() -> None:
    """KafkaConsumer.committed(Set): null for a partition without a commit; stable offsets alone (KIP-447)."""
    application = Asking(_asks_committed)
    harness = _at_work(application)
    harness.cluster.committed.update({FIRST: 5, SECOND: 0})
    harness.forget()

    assert _asked(application, harness) == {FIRST: 5, SECOND: 0, ("t", 2): None}
    (request,) = harness.requests(OffsetFetch)
    assert request.require_stable
    assert [(row.topic, row.partitions) for row in request.topics or ()] == [("t", (0, 1, 2))]


def _unstable(request: OffsetFetch) -> OffsetFetchReply:
    rows = [(FIRST, 5, ErrorCode.NONE), (SECOND, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT), (("t", 2), -1, ErrorCode.NONE)]
    return OffsetFetchReply(
        offsets=tuple(FetchedOffset(topic=at[0], partition=at[1], offset=o, error=error) for at, o, error in rows)
    )


@pytest.mark.parametrize(
    "refused",
    [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, _unstable],
)
def test_committed_asks_again_while_that_may_help(refused: Any) -> None:
    """ConsumerCoordinator.fetchCommittedOffsets: retriable errors are asked again after retry.backoff.ms."""
    application = Asking(_asks_committed)
    harness = _at_work(application)
    harness.cluster.committed.update({FIRST: 5, SECOND: 6})
    harness.answer_next("OffsetFetch", refused)
    harness.forget()

    assert _asked(application, harness) == {FIRST: 5, SECOND: 6, ("t", 2): None}
    assert len(harness.requests(OffsetFetch)) == 2
    lost = refused in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bool(harness.requests(FindCoordinator)) == lost


def test_committed_survives_the_coordinator_it_asked() -> None:
    """The connection breaks with the question on it: the coordinator is looked up, and asked."""
    application = Asking(_asks_committed)
    harness = _at_work(application)
    harness.cluster.committed[FIRST] = 5
    harness.hold("OffsetFetch")
    harness.append(FIRST, 1)
    harness.run(10_000)
    harness.unhold("OffsetFetch")
    harness.disconnect(COORDINATOR)
    harness.run(3_000_000)

    assert application.answer is not None
    assert application.answer[1] == {FIRST: 5, SECOND: None, ("t", 2): None}


def test_committed_gives_up_after_the_api_timeout() -> None:
    """default.api.timeout.ms: a TimeoutException there, None for what is not known here."""
    application = Asking(_asks_committed)
    harness = _at_work(application, default_api_timeout_ms=5_000)
    harness.hold("OffsetFetch")
    harness.append(FIRST, 1)
    harness.run(10_000)
    began = harness.now_us
    harness.hold("FindCoordinator")
    harness.disconnect(COORDINATOR)
    harness.run(10_000_000)

    assert application.answer is not None
    at_us, answers = application.answer
    assert set(answers.values()) == {None}
    assert 4_900_000 <= at_us - began <= 5_000_000


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "OffsetFetch"),
        (
            lambda request: OffsetFetchReply(
                offsets=(FetchedOffset(topic="t", partition=1, offset=-1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED),)
            ),
            "OffsetFetch: t-1",
        ),
    ],
)
def test_committed_raises_what_no_retry_helps(refused: Any, why: str) -> None:
    """OffsetFetchResponseHandler: GroupAuthorizationException, TopicAuthorizationException."""
    application = Asking(_asks_committed)
    harness = _at_work(application)
    harness.answer_next("OffsetFetch", refused)

    assert set(_asked(application, harness, 100_000).values()) == {None}
    (failed,) = harness.facts(MemberFailed)
    assert failed.why == why and "AUTHORIZATION" in failed.error.name


def test_before_3_9_committed_raises_that_there_is_no_coordinator() -> None:
    """OffsetFetchResponseHandler (3.8.0): COORDINATOR_NOT_AVAILABLE is an unexpected error."""
    application = Asking(_asks_committed)
    harness = _at_work(application, client=CLIENT_3_2)
    harness.answer_next("OffsetFetch", ErrorCode.COORDINATOR_NOT_AVAILABLE)

    assert set(_asked(application, harness, 100_000).values()) == {None}
    assert [failed.error for failed in harness.facts(MemberFailed)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


@pytest.mark.parametrize("refused", [None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_beginning_and_end_offsets_are_asked_of_the_leaders_again_if_they_are_none(refused: ErrorCode | None) -> None:
    """KafkaConsumer.beginningOffsets, endOffsets, also of topics that nobody subscribes to; OffsetFetcher: metadata is
    refreshed before the next try.
    """
    found: dict[str, dict[tuple[str, int], int | None]] = {}

    def ask(calls: Calls, told: Answers) -> None:
        def ends(answers: Mapping[tuple[str, int], int | None]) -> None:
            found["beginning"] = dict(answers)
            calls.end_offsets((FIRST, OTHER), told)

        calls.beginning_offsets((FIRST, OTHER), ends)

    application = Asking(ask)
    harness = _at_work(application, topics={"t": 4, "u": 2})
    harness.cluster.starts[OTHER], harness.cluster.ends[OTHER] = 3, 7
    if refused is not None:
        harness.answer_next("ListOffsets", refused)
    harness.forget()

    assert _asked(application, harness) == {FIRST: 1, OTHER: 7}
    assert found == {"beginning": {FIRST: 0, OTHER: 3}}
    timestamps = [question.timestamp_ms for each in harness.requests(ListOffsets) for question in each.questions]
    assert timestamps == [-2, -2, *([-2] if refused else []), -1, -1]


def test_offsets_of_a_topic_that_may_not_be_read_raise() -> None:
    """OffsetFetcher.fetchOffsetsByTimes: TopicAuthorizationException."""
    application = Asking(lambda calls, told: calls.beginning_offsets((FIRST,), told))
    harness = _at_work(application)
    harness.answer_next("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    assert _asked(application, harness, 100_000) == {FIRST: None}
    assert [failed.error for failed in harness.facts(MemberFailed)] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
