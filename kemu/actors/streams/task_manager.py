"""The tasks of one thread through assignments, revocations and losses, and the restoration of these tasks.

The tasks alone determine the changelogs to read (``to_read``). The position and the checkpoint of an active task follow
its producer's acknowledgements. The position and the checkpoint of any other copy follow the applied records.

Source: Kafka's ``TaskManager``, ``StoreChangelogReader``; KIP-429 (page version 99) for learners.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from kemu.actors.streams.tasks import StateDirectory, TaskCopy, TaskRole, TaskState
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.streams import LearnerReady, TaskBecame, TaskRestored
from kemu.protocol.streams.metadata import Learning, StreamsGiven
from kemu.protocol.streams.releases import TASK_RULES, TaskRules
from kemu.protocol.streams.tasks import TaskId, in_order
from kemu.protocol.streams.topology import Topology


class TaskHost(Protocol):
    """The interface of the thread for its tasks."""

    @property
    def name(self) -> str:
        """The thread's name within its instance."""
        ...

    @property
    def application(self) -> str:
        """The ``application.id``, which is the group."""
        ...

    @property
    def instance(self) -> str:
        """The instance's name."""
        ...

    @property
    def member_id(self) -> str:
        """The thread's member id."""
        ...

    def note(self, fact: object) -> None:
        """Report a fact."""
        ...

    def checkpoint(self, task: TaskId, offset: int | None) -> None:
        """Write a checkpoint to disk; None removes it."""
        ...


class TaskManager:
    """The tasks of one thread.

    Args:
        host: the thread.
        topology: the application's topology.
        directory: the instance's state directory.
        ready_lag: the largest lag of a ready learner, in records.
        exactly_once: whether state that was not closed cleanly is discarded.
        rules: the decisions of a release.
    """

    def __init__(
        self,
        host: TaskHost,
        topology: Topology,
        directory: StateDirectory,
        *,
        ready_lag: int,
        exactly_once: bool,
        rules: TaskRules = TASK_RULES,
    ) -> None:
        self._host = host
        self._topology = topology
        self._directory = directory
        self._ready_lag = ready_lag
        self._exactly_once = exactly_once
        self._rules = rules
        self.copies: dict[TaskId, TaskCopy] = {}
        """Task -> its copy on this thread, in the order of creation."""
        self._generation = -1
        """The generation of the last assignment."""
        self.being_learned: frozenset[TaskId] = frozenset()
        """Active tasks for which other instances have learners."""

    # --- queries ---------------------------------------------------------------------------------------------------

    def of_role(self, role: TaskRole) -> list[TaskCopy]:
        """The copies of this role, in order."""
        return [self.copies[task] for task in sorted(self.copies) if self.copies[task].role is role]

    def active(self) -> tuple[TaskId, ...]:
        """The active tasks that the thread still owns: tasks not suspended for the join."""
        return tuple(one.task for one in self.of_role(TaskRole.ACTIVE) if one.state is not TaskState.SUSPENDED)

    def given_up(self) -> tuple[TaskId, ...]:
        """The active tasks that are suspended for the join in progress."""
        return tuple(one.task for one in self.of_role(TaskRole.ACTIVE) if one.state is TaskState.SUSPENDED)

    def learning(self) -> dict[TaskId, Learning]:
        """The learners with their lags."""
        return {one.task: Learning(self._lag(one), one.ready) for one in self.of_role(TaskRole.LEARNER)}

    def standbys(self) -> dict[TaskId, int]:
        """The standbys with their lags."""
        return {one.task: self._lag(one) for one in self.of_role(TaskRole.STANDBY)}

    def partitions_to_pause(self) -> tuple[TopicPartition, ...]:
        """The source partitions of active tasks that are not restored yet."""
        return tuple(
            at for one in self.of_role(TaskRole.ACTIVE) if one.state is not TaskState.RUNNING for at in one.sources
        )

    def to_read(self) -> tuple[tuple[str, int, int], ...]:
        """(changelog, partition, offset to read from) of every copy that reads a changelog, active copies first."""
        reading = [one for one in self.of_role(TaskRole.ACTIVE) if one.state is TaskState.RESTORING]
        reading += [one for role in (TaskRole.LEARNER, TaskRole.STANDBY) for one in self.of_role(role)]
        return tuple(
            (*one.changelog, one.position)
            for one in reading
            if one.changelog is not None and one.state in (TaskState.RESTORING, TaskState.RUNNING)
        )

    def restoring(self) -> frozenset[TopicPartition]:
        """The changelogs that active tasks wait for."""
        return frozenset(
            one.changelog
            for one in self.of_role(TaskRole.ACTIVE)
            if one.state is TaskState.RESTORING and one.changelog is not None
        )

    def ends_to_ask(self) -> tuple[TopicPartition, ...]:
        """The changelogs whose end is needed: of active tasks in restoration, and of learners that are not ready."""
        asked = [one for one in self.of_role(TaskRole.ACTIVE) if one.state is TaskState.RESTORING and one.end is None]
        asked += [one for one in self.of_role(TaskRole.LEARNER) if not one.ready and one.end is None]
        return tuple(one.changelog for one in asked if one.changelog is not None)

    @staticmethod
    def _lag(one: TaskCopy) -> int:
        return max((one.end or 0) - one.position, 0)

    # --- assignments -----------------------------------------------------------------------------------------------

    def suspend(self, partitions: Iterable[TopicPartition]) -> None:
        """Suspend the tasks of revoked partitions, whose offsets are committed, and write their checkpoints."""
        revoked = frozenset(partitions)
        for one in self.of_role(TaskRole.ACTIVE):
            if revoked.intersection(one.sources) and one.state is not TaskState.SUSPENDED:
                if one.state is TaskState.RUNNING:
                    self._checkpoint(one)
                    one.end = one.position  # the task has nothing to restore
                one.suspended_in = self._generation
                self._become(one, TaskState.SUSPENDED)

    def lose(self) -> None:
        """Close all active tasks without a checkpoint, because the thread lost its membership."""
        for one in self.of_role(TaskRole.ACTIVE):
            self._close(one, clean=False)
        self.being_learned = frozenset()

    def take(self, given: StreamsGiven, generation: int) -> None:
        """Adopt an assignment: close dropped tasks, recycle tasks with a new role, create new tasks."""
        self._generation = generation
        wanted = dict.fromkeys(in_order(given.active), TaskRole.ACTIVE)
        wanted.update(dict.fromkeys(in_order(given.learning), TaskRole.LEARNER))
        wanted.update({task: TaskRole.STANDBY for task in in_order(given.standby) if self._topology.is_stateful(task)})
        self.being_learned = frozenset(given.being_learned)
        for task in [task for task in self.copies if task not in wanted]:
            self._close(self.copies[task], clean=True)
        for task, role in wanted.items():
            one = self.copies.get(task)
            if one is None:
                topics = self._topology.subtopologies[task.subtopology].topics
                sources = tuple((topic, task.partition) for topic in topics)
                self.copies[task] = TaskCopy(task, role, sources, self._topology.changelog_of(task))
                self._note_state(self.copies[task], "")
            elif one.role is not role:
                self._recycle(one, role)
            elif one.state is TaskState.SUSPENDED:
                if self._exactly_once and self._rules.forgets_when_resumed:
                    self._forget_checkpoint(one)
                self._become(one, TaskState.RESTORING)  # ``StoreChangelogReader`` continues an unfinished restoration
                if self._rules.restores_after_missed_generations and generation != one.suspended_in + 1:
                    one.end = None
            one = self.copies[task]
            if role is TaskRole.LEARNER and not one.ready:
                one.end = None
        self.advance(taken=True)

    def _recycle(self, one: TaskCopy, role: TaskRole) -> None:
        """Change the role of a copy; its state remains."""
        was_active = one.role is TaskRole.ACTIVE
        if self._exactly_once:
            self._forget_checkpoint(one)  # the state remains open in the new role
        elif was_active and one.state is TaskState.RUNNING:
            self._checkpoint(one)  # KAFKA-10166
        before = one.state
        if one.state is TaskState.RUNNING:
            one.become(TaskState.SUSPENDED)
        if one.state is TaskState.SUSPENDED:
            one.become(TaskState.RESTORING)
        one.role = role
        one.ready = False
        one.end = None
        self._note_state(one, before.value)

    def advance(self, *, taken: bool = False) -> None:
        """Advance each copy that can continue: after an unlocked directory, without state, or after its restoration.

        ``taken``: an assignment was just adopted.
        """
        tries = taken or self._rules.retries_copies or self._waits_for_active()
        for one in [self.copies[task] for task in sorted(self.copies)]:
            if not tries and one.role is not TaskRole.ACTIVE and one.state is TaskState.CREATED:
                continue
            if one.state is TaskState.CREATED and self._directory.lock(one.task, self._host.name):
                one.position = self._directory.checkpoints.get(one.task, 0)
                if self._exactly_once:
                    self._forget_checkpoint(one)  # a clean close writes the checkpoint again: ``ProcessorStateManager``
                self._become(one, TaskState.RESTORING)
            if one.state is not TaskState.RESTORING:
                continue
            if (
                one.role is not TaskRole.ACTIVE
                or one.changelog is None
                or (one.end is not None and one.position >= one.end)
            ):
                self._become(one, TaskState.RUNNING)

    def _waits_for_active(self) -> bool:
        return any(one.state is not TaskState.RUNNING for one in self.of_role(TaskRole.ACTIVE))

    # --- restoring -------------------------------------------------------------------------------------------------

    def ends_known(self, end_of: Callable[[TopicPartition], int | None]) -> None:
        """Store the ends of changelogs, which leaders have answered."""
        for one in self.copies.values():
            end = end_of(one.changelog) if one.changelog is not None else None
            if end is not None and one.end is None:
                one.end = end
        self._check_learners()
        self.advance()

    def restored(self, changelog: TopicPartition, first: int, last: int, end: int | None) -> None:
        """Advance the copies of a changelog after its records were applied.

        ``end``: the high watermark in the answer with the records.
        """
        for one in self.copies.values():
            if one.changelog != changelog or last <= one.position:
                continue
            host = self._host
            note = TaskRestored(
                application=host.application,
                instance=host.instance,
                task=str(one.task),
                role=one.role.value,
                first=max(first, one.position),
                last=last,
                thread=host.name,
            )
            host.note(note)
            one.position = last
            if one.role is not TaskRole.ACTIVE and end is not None:
                one.end = max(end, last)
        self._check_learners()
        self.advance()

    def _check_learners(self) -> None:
        for one in self.of_role(TaskRole.LEARNER):
            if not one.ready and one.end is not None and self._lag(one) <= self._ready_lag:
                one.ready = True
                host = self._host
                host.note(
                    LearnerReady(
                        application=host.application, instance=host.instance, task=str(one.task), lag=self._lag(one)
                    )
                )

    def acknowledged(self, changelog: TopicPartition, end: int) -> None:
        """Advance an active task after the records of its changelog up to this offset were acknowledged."""
        for one in self.of_role(TaskRole.ACTIVE):
            if one.changelog == changelog and one.state is TaskState.RUNNING:
                one.position = max(one.position, end)

    def commit(self) -> None:
        """Write checkpoints of all running copies. Open exactly-once state has no checkpoint."""
        if not self._exactly_once:
            for one in self.copies.values():
                if one.state is TaskState.RUNNING:
                    self._checkpoint(one)

    # --- closing ---------------------------------------------------------------------------------------------------

    def close_all(self, *, clean: bool = True) -> None:
        """Close all copies, cleanly or not."""
        for task in list(self.copies):
            self._close(self.copies[task], clean=clean)

    def _close(self, one: TaskCopy, *, clean: bool) -> None:
        if one.state is not TaskState.CREATED:
            if clean and one.state is TaskState.RUNNING:
                self._checkpoint(one)
            elif not clean and self._exactly_once:
                self._forget_checkpoint(one)
        if one.state is not TaskState.SUSPENDED:
            self._become(one, TaskState.SUSPENDED)
        self._become(one, TaskState.CLOSED)
        self._directory.unlock(one.task, self._host.name)
        del self.copies[one.task]

    def _checkpoint(self, one: TaskCopy) -> None:
        if one.changelog is not None and self._directory.checkpoints.get(one.task) != one.position:
            self._directory.checkpoints[one.task] = one.position
            self._host.checkpoint(one.task, one.position)

    def _forget_checkpoint(self, one: TaskCopy) -> None:
        if self._directory.checkpoints.pop(one.task, None) is not None:
            self._host.checkpoint(one.task, None)

    def _become(self, one: TaskCopy, state: TaskState) -> None:
        self._note_state(one, one.become(state).value)

    def _note_state(self, one: TaskCopy, before: str) -> None:
        host = self._host
        host.note(
            TaskBecame(
                application=host.application,
                instance=host.instance,
                member_id=host.member_id,
                task=str(one.task),
                role=one.role.value,
                before=before,
                state=one.state.value,
                position=one.position,
                thread=host.name,
            )
        )
