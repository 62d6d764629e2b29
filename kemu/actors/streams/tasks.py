"""A task's copy on an instance: its role, its state, how far its state reaches; and the instance's state directory.

A copy is active (it processes), a standby (it replicates the changelog for ever), or a learner (a standby that is to
become active). Whoever has the directory of a task locked works on it; another thread of the instance waits for that.

Source: Kafka's ``Task.State`` and its transitions, ``StateDirectory``; roles: KIP-429 (page version 99).
"""

from collections.abc import Mapping
from enum import Enum

from kemu.protocol.names import TopicPartition
from kemu.protocol.streams.tasks import TaskId


class TaskRole(Enum):
    """What a copy is for."""

    ACTIVE = "active"
    STANDBY = "standby"
    LEARNER = "learner"


class TaskState(Enum):
    """Where a copy is. A standby that replicates is RUNNING; whether it has caught up is its lag, not a state."""

    CREATED = "CREATED"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    CLOSED = "CLOSED"


MAY_BECOME: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.CREATED: frozenset({TaskState.RESTORING, TaskState.SUSPENDED}),
    TaskState.RESTORING: frozenset({TaskState.RUNNING, TaskState.SUSPENDED}),
    TaskState.RUNNING: frozenset({TaskState.SUSPENDED}),
    TaskState.SUSPENDED: frozenset({TaskState.RESTORING, TaskState.CLOSED}),
    TaskState.CLOSED: frozenset({TaskState.CREATED}),
}
"""Source: Kafka 2.6 and later, ``Task.State``. What changes its role keeps its state's place (it is recycled)."""


class TaskCopy:
    """A task on a thread."""

    __slots__ = ("changelog", "end", "position", "ready", "role", "sources", "state", "suspended_in", "task")

    def __init__(
        self, task: TaskId, role: TaskRole, sources: tuple[TopicPartition, ...], changelog: TopicPartition | None
    ) -> None:
        self.task = task
        self.role = role
        self.sources = sources
        self.changelog = changelog
        """None without state."""
        self.state = TaskState.CREATED
        self.position = 0
        """Everything of its changelog before this offset is in its state."""
        self.end: int | None = None
        """Where an active task that is being restored must get to; None while it is asked for."""
        self.suspended_in = -1
        """The generation in which it was suspended last."""
        self.ready = False
        """A learner that has caught up; it stays so until the next assignment."""

    def become(self, state: TaskState) -> TaskState:
        """Change the state; the one before. A transition that there is not is a mistake of ours."""
        before = self.state
        assert state in MAY_BECOME[before], f"task {self.task}: {before.value} -> {state.value}"
        self.state = state
        return before


class StateDirectory:
    """What lies on an instance's disk and is shared by its threads: checkpoints, and a lock for each task.

    A checkpoint says up to where the state on the disk holds the changelog. Without one the state is of no use.
    """

    def __init__(self) -> None:
        self.checkpoints: dict[TaskId, int] = {}
        self.freed = False
        """A directory is free that somebody was refused: who waits can try again."""
        self._holders: dict[TaskId, str] = {}
        self._refused: set[TaskId] = set()

    def lock(self, task: TaskId, thread: str) -> bool:
        """Whether this thread has the directory of the task now."""
        mine = self._holders.setdefault(task, thread) == thread
        if not mine:
            self._refused.add(task)
        return mine

    def unlock(self, task: TaskId, thread: str) -> None:
        """Let it go, if it is this thread's."""
        if self._holders.get(task) == thread:
            del self._holders[task]
            if task in self._refused:
                self._refused.remove(task)
                self.freed = True

    def holder(self, task: TaskId) -> str | None:
        """The thread that has it."""
        return self._holders.get(task)
