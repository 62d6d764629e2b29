"""A copy of a task on an instance (role, state, position in the changelog), and the instance's state directory.

An active copy processes records. A standby replicates the changelog without end. A learner is a standby that will
become active. The thread with the lock on a task's directory works on the task. Other threads of the instance wait for
the lock.

Source: Kafka's ``Task.State`` and its transitions, ``StateDirectory``; roles: KIP-429 (page version 99).
"""

from collections.abc import Mapping
from enum import Enum

from kemu.protocol.names import TopicPartition
from kemu.protocol.streams.tasks import TaskId


class TaskRole(Enum):
    """The role of a copy of a task."""

    ACTIVE = "active"
    STANDBY = "standby"
    LEARNER = "learner"


class TaskState(Enum):
    """The state of a copy. A replicating standby is RUNNING, whatever its lag."""

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
"""State -> the states that may follow it. A copy with a new role keeps its state (it is recycled).

Source: Kafka 2.6 and later, ``Task.State``.
"""


class TaskCopy:
    """A copy of a task on a thread."""

    __slots__ = ("changelog", "end", "position", "ready", "role", "sources", "state", "suspended_in", "task")

    def __init__(
        self, task: TaskId, role: TaskRole, sources: tuple[TopicPartition, ...], changelog: TopicPartition | None
    ) -> None:
        self.task = task
        self.role = role
        self.sources = sources
        self.changelog = changelog
        """The changelog of the task; None for a task without state."""
        self.state = TaskState.CREATED
        self.position = 0
        """The offset up to which the copy's state contains the changelog."""
        self.end: int | None = None
        """The offset at which an active task is restored; None: not known yet."""
        self.suspended_in = -1
        """The generation of the copy's last suspension."""
        self.ready = False
        """Whether a learner has caught up; valid until the next assignment."""

    def become(self, state: TaskState) -> TaskState:
        """Change the state, and return the former state. An invalid transition is an internal error."""
        before = self.state
        assert state in MAY_BECOME[before], f"task {self.task}: {before.value} -> {state.value}"
        self.state = state
        return before


class StateDirectory:
    """The disk of an instance, shared by its threads: checkpoints, and a lock for each task.

    A checkpoint is the changelog offset up to which the state on disk is complete. State without a checkpoint is
    discarded.
    """

    def __init__(self) -> None:
        self.checkpoints: dict[TaskId, int] = {}
        self.freed = False
        """Whether a directory was unlocked while another thread waited for it."""
        self._holders: dict[TaskId, str] = {}
        self._refused: set[TaskId] = set()

    def lock(self, task: TaskId, thread: str) -> bool:
        """Whether this thread has the lock on the task's directory now."""
        mine = self._holders.setdefault(task, thread) == thread
        if not mine:
            self._refused.add(task)
        return mine

    def unlock(self, task: TaskId, thread: str) -> None:
        """Release the lock, if this thread has it."""
        if self._holders.get(task) == thread:
            del self._holders[task]
            if task in self._refused:
                self._refused.remove(task)
                self.freed = True

    def holder(self, task: TaskId) -> str | None:
        """The thread with the lock; None without a lock."""
        return self._holders.get(task)
