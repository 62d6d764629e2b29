"""Story lines about Streams tasks: learners, moves of tasks, long restores, leaving instances."""

from collections.abc import Callable, Iterable
from typing import Any

from kemu.emulator.facts import Seen
from kemu.protocol.notes.streams import (
    InstanceLeaving,
    InstanceReleased,
    InstanceStarted,
    LearnerReady,
    TaskBecame,
    TasksDecided,
    TasksGiven,
)

Add = Callable[..., None]
"""The method ``Story.add(at_us, kind, sentence, who)``."""
LONG_US = 1_000_000
"""Duration from which a restore of an active task has a story line, in us."""
_NAMED = 6


class StreamsStory:
    """Adds lines about Streams applications to a story."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self._instances: dict[str, str] = {}
        """Process id -> name of the instance."""
        self._given: dict[str, dict[str, TasksGiven]] = {}
        """Application -> process id -> the last tasks assigned to the process."""
        self._owners: dict[tuple[str, str], str] = {}
        """(application, task) -> process id of the last owner."""
        self._restoring: dict[tuple[str, str, str], int] = {}
        """(application, task, instance) -> start of the restore of an active task."""

    def instance_started(self, seen: Seen, fact: InstanceStarted) -> None:
        """Store the instance's process id, because leaders identify instances by process ids."""
        self._instances[fact.process] = fact.instance

    def tasks_decided(self, seen: Seen, fact: TasksDecided) -> None:
        """Tell new learners, new standbys, and tasks that move from one instance to another."""
        before = self._given.get(fact.application, {})
        first = not before
        self._given[fact.application] = {row.process: row for row in fact.given}
        moves: dict[tuple[str, str], list[str]] = {}
        for row in fact.given:
            for task in row.assigned:
                last = self._owners.get((fact.application, task), row.process)
                if last != row.process:
                    moves.setdefault((last, row.process), []).append(task)
                self._owners[fact.application, task] = row.process
        for row in fact.given:
            had = before.get(row.process)
            for verb, now, then in (
                ("restore as a learner", row.learning, had.learning if had else ()),
                ("keep a standby of", row.standby, had.standby if had else ()),
            ):
                added = [task for task in now if task not in then]
                if added and not first:
                    self._member(seen, f"{self._name(row.process)} is to {verb} {_listed(added)} of {fact.application}")
        for (last, new), tasks in moves.items():
            what = f"{_listed(tasks)} of {fact.application}"
            self._member(seen, f"{what}: from {self._name(last)} to {self._name(new)}")

    def task_became(self, seen: Seen, fact: TaskBecame) -> None:
        """Tell that an owner ran a task after a long restore."""
        if fact.role != "active":
            return
        at = fact.application, fact.task, fact.instance
        if fact.state == "RESTORING":
            self._restoring.setdefault(at, seen.at_us)
        since_us = self._restoring.pop(at, seen.at_us) if fact.state != "RESTORING" else seen.at_us
        if fact.state == "RUNNING" and seen.at_us - since_us >= LONG_US:
            spent = f"{(seen.at_us - since_us) / 1e6:.1f} s"
            self._member(seen, f"{fact.instance} runs task {fact.task} of {fact.application}, restored in {spent}")

    def learner_ready(self, seen: Seen, fact: LearnerReady) -> None:
        """Tell that a learner caught up, so that the task can move to the learner's instance."""
        self._member(seen, f"the learner of task {fact.task} of {fact.application} on {fact.instance} is ready")

    def instance_leaving(self, seen: Seen, fact: InstanceLeaving) -> None:
        """Tell that the scaling tool asked an instance to leave or to stay."""
        what = "asked to transfer all tasks and leave" if fact.leaving else "asked to stay"
        self._add(seen.at_us, "member", f"{{}} {what}", fact.instance)

    def instance_released(self, seen: Seen, fact: InstanceReleased) -> None:
        """Tell that an instance without tasks closes."""
        self._add(seen.at_us, "member", "{} transferred all tasks, closing", fact.instance)

    def _member(self, seen: Seen, text: str) -> None:
        self._add(seen.at_us, "member", text)

    def _name(self, process: str) -> str:
        return self._instances.get(process, process)


def _listed(tasks: Iterable[str]) -> str:
    named = list(tasks)
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"task{'s' if len(named) > 1 else ''} {', '.join(named[:_NAMED])}{more}"


TELLERS: dict[type, Callable[[StreamsStory, Seen, Any], None]] = {
    InstanceStarted: StreamsStory.instance_started,
    TasksDecided: StreamsStory.tasks_decided,
    TaskBecame: StreamsStory.task_became,
    LearnerReady: StreamsStory.learner_ready,
    InstanceLeaving: StreamsStory.instance_leaving,
    InstanceReleased: StreamsStory.instance_released,
}
"""Type of fact -> the method that adds a line about the fact."""
