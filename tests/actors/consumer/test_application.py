"""The application behind its own protocol: other programs than the usual loop, around the same client."""

from collections.abc import Callable, Sequence

import pytest

from kemu.actors.consumer.application import Calls, IllegalState
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
from kemu.protocol.messages.data import Fetch
from kemu.protocol.messages.group import JoinGroup, LeaveGroup, OffsetCommit
from kemu.protocol.notes.groups import SEEK, ListenerFailed, PositionSet, Processed
from tests.actors.consumer.consumer_harness import Harness

FIRST, SECOND = ("t", 0), ("t", 1)


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
    assert done == [(0, 4)] and harness.consumer.paused() == (FIRST,)

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
    with pytest.raises(AssertionError, match="does not say what it does next"):
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
