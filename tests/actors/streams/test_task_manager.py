"""A thread's tasks: checkpoints of open state under exactly once, and directories that another thread has locked."""

import pytest
from attrs import define, field

from kemu.actors.streams.task_manager import TaskManager
from kemu.actors.streams.tasks import StateDirectory, TaskState
from kemu.protocol.streams.metadata import StreamsGiven
from kemu.protocol.streams.releases import TaskRules
from kemu.protocol.streams.tasks import TaskId, task_id
from kemu.protocol.streams.topology import Subtopology, Topology

ONE, TWO = task_id("0_0"), task_id("0_1")


@define
class Thread:
    """A thread that keeps what is said to it."""

    name: str = "t1"
    application: str = "app"
    instance: str = "c1"
    member_id: str = "m"
    written: list[tuple[TaskId, int | None]] = field(factory=list)

    def note(self, fact: object) -> None:
        pass

    def checkpoint(self, task: TaskId, offset: int | None) -> None:
        self.written.append((task, offset))


def manager(
    directory: StateDirectory | None = None, name: str = "t1", *, exactly_once: bool = False, rules: TaskRules
) -> tuple[TaskManager, Thread]:
    """Of one thread; its state is kept in a changelog."""
    thread = Thread(name=name)
    topology = Topology((Subtopology(("in",), "log"),))
    found = TaskManager(
        thread, topology, directory or StateDirectory(), ready_lag=0, exactly_once=exactly_once, rules=rules
    )
    return found, thread


def restored(tasks: TaskManager, end: int) -> None:
    """All changelogs end there and are read."""
    tasks.ends_known(lambda at: end)
    for changelog in (("log", 0), ("log", 1)):
        tasks.restored(changelog, 0, end, end)


@pytest.mark.parametrize(("forgets", "left"), [(True, {}), (False, {ONE: 8})])
def test_state_that_is_opened_again_has_no_checkpoint_under_exactly_once(
    forgets: bool, left: dict[TaskId, int]
) -> None:
    """KAFKA-10362: an eager rebalance suspends a task, which is a clean end, and gives it back."""
    directory = StateDirectory()
    tasks, _ = manager(directory, exactly_once=True, rules=TaskRules(forgets_when_resumed=forgets))
    tasks.take(StreamsGiven(active=(ONE,)), 1)
    restored(tasks, 8)
    tasks.suspend([("in", 0)])
    assert directory.checkpoints == {ONE: 8}

    tasks.take(StreamsGiven(active=(ONE,)), 1)

    assert tasks.copies[ONE].state is TaskState.RUNNING
    assert directory.checkpoints == left


@pytest.mark.parametrize(("exactly_once", "left"), [(True, {}), (False, {ONE: 8})])
def test_what_goes_on_as_a_standby_stays_open(exactly_once: bool, left: dict[TaskId, int]) -> None:
    """KAFKA-10166: at least once it leaves a checkpoint; ``initializeIfNeeded`` deletes it under exactly once."""
    directory = StateDirectory()
    tasks, _ = manager(directory, exactly_once=exactly_once, rules=TaskRules())
    tasks.take(StreamsGiven(active=(ONE,)), 1)
    restored(tasks, 8)

    tasks.take(StreamsGiven(standby={ONE: (("in", 0),)}), 1)

    assert directory.checkpoints == left


@pytest.mark.parametrize(("again", "state"), [(True, TaskState.RUNNING), (False, TaskState.CREATED)])
def test_a_standby_whose_directory_is_another_threads_is_tried_again(again: bool, state: TaskState) -> None:
    """KAFKA-8187: also when all active tasks run already."""
    directory = StateDirectory()
    other, _ = manager(directory, "t2", rules=TaskRules())
    other.take(StreamsGiven(standby={TWO: (("in", 1),)}), 1)
    tasks, _ = manager(directory, rules=TaskRules(retries_copies=again))
    tasks.take(StreamsGiven(active=(ONE,), standby={TWO: (("in", 1),)}), 1)
    restored(tasks, 0)
    assert [tasks.copies[task].state for task in (ONE, TWO)] == [TaskState.RUNNING, TaskState.CREATED]

    other.take(StreamsGiven(), 1)
    tasks.advance()

    assert tasks.copies[TWO].state is state
    tasks.take(StreamsGiven(active=(ONE,), standby={TWO: (("in", 1),)}), 1)
    assert tasks.copies[TWO].state is TaskState.RUNNING, "the next assignment is another chance"


def test_a_restore_that_was_suspended_goes_on() -> None:
    """``StoreChangelogReader`` keeps the end of a changelog whose task is suspended and resumed."""
    tasks, _ = manager(rules=TaskRules())
    tasks.take(StreamsGiven(active=(ONE,)), 1)
    tasks.ends_known(lambda at: 8)
    tasks.restored(("log", 0), 0, 3, 8)
    tasks.suspend([("in", 0)])

    tasks.take(StreamsGiven(active=(ONE,)), 2)

    assert tasks.copies[ONE].state is TaskState.RESTORING
    tasks.restored(("log", 0), 3, 8, 8)
    assert tasks.copies[ONE].state is TaskState.RUNNING


@pytest.mark.parametrize(
    ("generation", "asks", "state"),
    [(2, True, TaskState.RUNNING), (3, True, TaskState.RESTORING), (3, False, TaskState.RUNNING)],
)
def test_a_task_that_comes_back_after_a_missed_generation_is_restored_again(
    generation: int, asks: bool, state: TaskState
) -> None:
    """Another owner may have written to its changelog; Kafka's eager releases resume it as it is."""
    tasks, _ = manager(rules=TaskRules(restores_after_missed_generations=asks))
    tasks.take(StreamsGiven(active=(ONE,)), 1)
    restored(tasks, 8)
    tasks.suspend([("in", 0)])

    tasks.take(StreamsGiven(active=(ONE,)), generation)

    assert tasks.copies[ONE].state is state
