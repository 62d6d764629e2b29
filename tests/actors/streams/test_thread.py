"""A stream thread as the leader: it asks for the ends of changelogs before it assigns; a join makes them void."""

from typing import Any

from kemu.actors.consumer.application import Returned
from kemu.actors.streams.tasks import StateDirectory
from kemu.actors.streams.thread import StreamThread
from kemu.protocol.assign.base import Subscriber, Topics
from kemu.protocol.commands import AssignNow, ReadPartitions
from kemu.protocol.config import StreamsConfig
from kemu.protocol.streams.metadata import StreamsGiven, decode_streams_subscription
from kemu.protocol.streams.modes import Layout
from kemu.protocol.streams.registry import TASK_ASSIGNORS
from kemu.protocol.streams.tasks import task_id
from kemu.protocol.streams.topology import Subtopology, Topology

TOPICS = Topics({"in": 2})
ENDS = {("changelog", 0): 5, ("changelog", 1): 5}


class Host:
    """An instance that keeps what it is told."""

    name = "s1"
    now_us = 0
    leaving_since_us = None

    def __init__(self) -> None:
        self.sent: list[tuple[str, object]] = []
        self.noted: list[object] = []

    def note(self, fact: object) -> None:
        self.noted.append(fact)

    def send(self, part: str, command: object) -> None:
        self.sent.append((part, command))

    def checkpoint(self, task: object, offset: int | None) -> None:
        raise AssertionError("nothing runs")

    def rebalance_in(self, thread: str, after_us: int | None) -> None:
        raise AssertionError("nothing was assigned")

    def released(self) -> None:
        raise AssertionError("nobody leaves")


def _thread(layout: Layout = Layout.HIGH_AVAILABILITY) -> tuple[StreamThread, Host]:
    host = Host()
    thread = StreamThread(
        host,
        1,
        application="app",
        topology=Topology((Subtopology(("in",), "changelog"),)),
        config=StreamsConfig(emulated_task_assignor="ha"),
        layout=layout,
        process_id=bytes(16),
        directory=StateDirectory(),
        process_us_per_record=0,
        custom=TASK_ASSIGNORS["ha"],
    )
    return thread, host


def _members(thread: StreamThread) -> dict[str, Subscriber]:
    return {"m": Subscriber(("in",), (), user_data=thread.user_data(("in",)))}


def _asked(thread: StreamThread) -> Any:
    asked = thread.ends_for_leading()
    assert asked is not None
    return asked


def test_a_leader_asks_its_reader_for_the_ends_and_assigns_when_they_are_told() -> None:
    """Kafka's leader calls listOffsets before it assigns; asked twice meanwhile (metadata came) it asks once."""
    thread, host = _thread()
    members = _members(thread)

    assert thread.assign(TOPICS, members) is None
    assert thread.assign(TOPICS, members) is None
    assert host.sent == [("t1-restore", ReadPartitions(partitions=()))]

    asked = _asked(thread)
    assert asked.partitions == tuple(ENDS)
    thread.leader_ends_known(asked, ENDS)
    assert host.sent[-1] == ("t1", AssignNow())
    assert thread.ends_for_leading() is None
    decided = thread.assign(TOPICS, members)
    assert decided is not None and decided.partitions == {"m": [("in", 0), ("in", 1)]}


def test_who_joins_again_forgets_what_it_asked_as_leader() -> None:
    """A reset while it waits: the answer that comes after all belongs to no assignment."""
    thread, host = _thread()
    assert thread.assign(TOPICS, _members(thread)) is None
    before = _asked(thread)

    members = _members(thread)
    thread.leader_ends_known(before, ENDS)
    assert ("t1", AssignNow()) not in host.sent
    assert thread.ends_for_leading() is None
    assert thread.assign(TOPICS, members) is None
    assert _asked(thread) is not before


def test_ends_are_asked_for_anew_for_every_assignment() -> None:
    """Ends of the assignment before are outdated."""
    thread, _ = _thread()
    members = _members(thread)
    thread.assign(TOPICS, members)
    thread.leader_ends_known(_asked(thread), ENDS)
    assert thread.assign(TOPICS, members) is not None

    assert thread.assign(TOPICS, _members(thread)) is None


def test_state_that_only_lies_on_the_disk_counts_as_a_standby_before_2_6() -> None:
    """``TaskManager.cachedTasksIds`` (2.3.1): each directory with a checkpoint, those of other threads, too."""
    thread, _ = _thread(Layout.STICKY)
    thread.directory.checkpoints.update({task_id("0_0"): 5, task_id("0_1"): 3})
    assert thread.directory.lock(task_id("0_1"), "t2")

    assert decode_streams_subscription(thread.user_data(("in",)) or b"").standby == {
        task_id("0_0"): 0,
        task_id("0_1"): 0,
    }


def test_offsets_of_state_that_only_lies_on_the_disk_are_told_from_2_6_on_by_one_thread() -> None:
    """``TaskManager.getTaskOffsetSums`` (2.6.3): of what nobody has open; who has it open tells of it."""
    thread, _ = _thread()
    thread.directory.checkpoints.update({task_id("0_0"): 5, task_id("0_1"): 3})
    assert thread.directory.lock(task_id("0_1"), "t2")

    assert decode_streams_subscription(thread.user_data(("in",)) or b"").offset_sums == {task_id("0_0"): 5}


def test_a_copy_that_waits_for_its_directory_tells_of_the_checkpoint_there() -> None:
    """``TaskManager.getTaskOffsetSums`` (2.6 to 4.1): a task in CREATED has no position; its checkpoint is read."""
    thread, _ = _thread()
    thread.directory.checkpoints[task_id("0_0")] = 5
    assert all(thread.directory.lock(task_id(name), "t2") for name in ("0_0", "0_1"))
    thread.tasks.take(StreamsGiven(standby={task_id(name): (("in", int(name[-1])),) for name in ("0_0", "0_1")}), 1)

    assert decode_streams_subscription(thread.user_data(("in",)) or b"").offset_sums == {task_id("0_0"): 5}


class _Calls:
    """Records a thread's next call."""

    def __init__(self) -> None:
        self.made: list[object] = []

    def poll(self, timeout_us: int = 0) -> None:
        self.made.append("poll")

    def work(self, us: int) -> None:
        self.made.append("work")

    def processed(self, part: Returned, started_us: int) -> None:
        pass

    def commit_sync(self, offsets: Any) -> None:
        self.made.append(dict(offsets))


def test_records_that_are_worked_on_when_a_commit_is_due_are_committed_after_the_work() -> None:
    """``StreamThread.runOnce``: it processes, then ``maybeCommit`` looks whether commit.interval.ms is over."""
    thread, host = _thread()
    calls = _Calls()
    host.commit_in = lambda part, after_us: None  # type: ignore[attr-defined]
    host.flush_changelogs = lambda part: True  # type: ignore[attr-defined]
    thread.started(calls)  # type: ignore[arg-type]
    thread.polled((Returned(("in", 0), 0, 2),))
    thread.commit_due()
    thread.worked()

    assert calls.made == ["poll", "work", {("in", 0): 2}]
