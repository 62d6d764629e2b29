"""The time in which no instance can process a task of a Streams application (a part of the metrics).

A task is *up* while one of its active copies is RUNNING on an instance that is not paused. The task is *down* from the
end of the last such copy to the start of the next. The ``cause`` of the end:
* "paused": the owner gave the task up for a join, and the same copy resumes afterwards (KIP-429's tasks with learners;
  every task under the eager protocol);
* "given up": the owner gave the task up, and another copy takes over;
* "down": the instance's host went down; downtime begins with the crash, not with its detection;
* "closed": the instance closed itself;
* "stands still": the host is paused.

The parts of an interval add up to its length. If the same copy resumes, all of the interval is *pause*. Otherwise:
* *detect*: until the group prepared for a rebalance;
* *barrier*: from that preparation until the new owner had its answer to SyncGroup;
* *restore*: from that answer until the task runs.

The first generation that began in the interval ends detection. The first assignment of the task to its final copy ends
the barrier. An interval without a generation is detection only. An interval that does not end has a barrier and no
restore.

The downtime of a task is counted from its first start. The last downtime of a task may end with the run.
Times are microseconds. A zombie is an owner, too; other figures count the records that the zombie reprocesses.

Source: the downtime of KIP-429's page, task by task; Kafka's ``StreamTask`` processes in state RUNNING only.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any

from kemu.actors.consumer.state import MemberState
from kemu.actors.coordinator.state import GroupState
from kemu.actors.streams.tasks import TaskState
from kemu.emulator.facts import HostDown, HostPaused, HostResumed, Seen
from kemu.emulator.metrics.figures import TaskDowntimeFigures
from kemu.emulator.metrics.generations import Generations
from kemu.emulator.watching.applications import ACTIVE, CLOSED, WatchedCopy
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import ActorName, GroupId, part_on
from kemu.protocol.notes.groups import GroupBecame, JoinPhaseCompleted, MemberBecame
from kemu.protocol.notes.streams import TaskBecame

PREPARING, SYNCED = GroupState.PREPARING.value, MemberState.STABLE.value
PAUSED, GIVEN_UP, DOWN, SHUT, STILL = "paused", "given up", "down", "closed", "stands still"


class _Task:
    """The downtime of one task of an application."""

    __slots__ = ("cause", "down_us", "running", "since_us", "started", "stopped", "takers")

    def __init__(self) -> None:
        self.running: dict[int, WatchedCopy] = {}
        """Number of a copy -> the copy, while the copy processes records."""
        self.started = False
        self.since_us = -1
        """Start of the current downtime; -1 while the task is up, and before its first start."""
        self.cause = ""
        self.stopped: WatchedCopy | None = None
        """The last copy that processed records, while the copy may resume."""
        self.takers: dict[int, int] = {}
        """Number of a copy -> time at which the copy became active."""
        self.down_us = 0


class TaskDowntime:
    """Counts the intervals of downtime of all applications."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.intervals: dict[GroupId, list[TaskDowntimeFigures]] = {}
        """Intervals by application, in the order in which tasks ran again."""
        self._tasks: dict[tuple[GroupId, str], _Task] = {}
        self._last: dict[tuple[GroupId, str], str] = {}
        """The instance that last processed each task."""
        self._generations: dict[GroupId, Generations] = {}
        self._synced_us: dict[ActorName, list[int]] = {}
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {
            TaskBecame: self._became,
            HostDown: self._down,
            HostPaused: self._stands_still,
            HostResumed: self._goes_on,
            GroupBecame: self._prepares,
            JoinPhaseCompleted: self._completed,
            MemberBecame: self._member_became,
        }

    def finish(self, at_us: int) -> None:
        """End the run: unfinished downtime lasts until now."""
        for key, task in self._tasks.items():
            if task.since_us >= 0:
                self._ends(key, task, at_us, None)
        for rows in self.intervals.values():
            rows.sort(key=lambda row: (row.from_us, row.task))

    def downtime_us(self, application: GroupId) -> dict[str, int]:
        """Task -> downtime in us, for each task that ever ran."""
        return {
            name: task.down_us
            for (group, name), task in sorted(self._tasks.items(), key=lambda item: _in_order(item[0]))
            if group == application and task.started
        }

    # --- copies ------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        watched = self._panel.applications
        copy = watched.changed
        assert copy is not None, "the panel sees a fact before its readers do"
        key = (fact.application, fact.task)
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = _Task()
        if copy.works:
            self._runs(key, task, copy, seen.at_us)
            return
        task.running.pop(copy.number, None)
        if watched.role_before == ACTIVE and watched.state_before == TaskState.RUNNING.value:
            self._stops(key, task, copy, seen.at_us, GIVEN_UP)
        if copy.role != ACTIVE or copy.state == CLOSED:
            task.takers.pop(copy.number, None)
            if task.stopped is copy:
                task.stopped = None
        elif task.since_us >= 0 and copy is not task.stopped:
            task.takers.setdefault(copy.number, seen.at_us)

    def _runs(self, key: tuple[GroupId, str], task: _Task, copy: WatchedCopy, at_us: int) -> None:
        if task.since_us >= 0:
            task.takers.setdefault(copy.number, at_us)
            self._ends(key, task, at_us, copy)
        task.running[copy.number] = copy
        task.started, task.since_us, task.stopped = True, -1, None
        task.takers.clear()
        self._last[key] = copy.instance

    def _stops(self, key: tuple[GroupId, str], task: _Task, copy: WatchedCopy, at_us: int, cause: str) -> None:
        if task.running or task.since_us >= 0:
            return
        task.since_us, task.cause, task.stopped = at_us, cause, copy
        self._last[key] = copy.instance
        # Active copies that existed before the owner stopped.
        for other in self._panel.applications.of(key[0]).of(key[1]):
            if other is not copy and other.role == ACTIVE and other.state != TaskState.SUSPENDED.value:
                task.takers.setdefault(other.number, at_us)

    def _ends(self, key: tuple[GroupId, str], task: _Task, at_us: int, copy: WatchedCopy | None) -> None:
        """End an interval: the task is up again, or the run is over."""
        since_us = task.since_us
        if at_us <= since_us:
            return
        task.down_us += at_us - since_us
        resumed = copy is not None and copy is task.stopped
        cause = PAUSED if resumed and task.cause == GIVEN_UP else task.cause
        detect, barrier, restore = (0, 0, 0) if resumed else self._parts(key[0], task, since_us, at_us, copy)
        row = TaskDowntimeFigures(
            task=key[1],
            instance=self._last[key],
            taken_by="" if copy is None else copy.instance,
            cause=cause,
            from_us=since_us,
            until_us=at_us,
            detect_us=detect,
            barrier_us=barrier,
            restore_us=restore,
            pause_us=at_us - since_us if resumed else 0,
        )
        self.intervals.setdefault(key[0], []).append(row)

    def _parts(
        self, group: GroupId, task: _Task, from_us: int, until_us: int, copy: WatchedCopy | None
    ) -> tuple[int, int, int]:
        """(detect, barrier, restore) in us; the sum is the length of the interval."""
        generations = self._generations.get(group)
        joins = [] if generations is None else generations.within(from_us, until_us)
        if not joins:
            return until_us - from_us, 0, 0
        prepared_us = joins[0][0]
        taken_us = until_us if copy is None else max(prepared_us, self._synced(copy, task.takers[copy.number], from_us))
        return prepared_us - from_us, taken_us - prepared_us, until_us - taken_us

    def _synced(self, copy: WatchedCopy, taken_us: int, from_us: int) -> int:
        """Time at which the thread received the assignment with this copy. Callbacks may follow before the copy becomes
        active.
        """
        times = self._synced_us.get(part_on(copy.instance, copy.thread), [])
        index = bisect_right(times, taken_us)
        generations = self._generations[copy.application]
        begun = bisect_right(generations.begun_us, taken_us)
        last_us = max(from_us, generations.begun_us[begun - 1] if begun else 0)
        return times[index - 1] if index and times[index - 1] >= last_us else taken_us

    # --- hosts -------------------------------------------------------------------------------------------------

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for copy in self._panel.applications.ended:
            key = (copy.application, copy.task)
            task = self._tasks[key]
            task.takers.pop(copy.number, None)
            if task.running.pop(copy.number, None) is not None:
                self._stops(key, task, copy, seen.at_us, DOWN)
            if task.stopped is copy:
                task.stopped = None
        if fact.how == SHUT:  # the instance closed its tasks just before this fact
            for key, task in self._tasks.items():
                if task.since_us == seen.at_us and self._last[key] == fact.host:
                    task.cause = SHUT

    def _stands_still(self, seen: Seen, fact: HostPaused) -> None:
        for key, copy in self._working_on(fact.host):
            task = self._tasks[key]
            if task.running.pop(copy.number, None) is not None:
                self._stops(key, task, copy, seen.at_us, STILL)

    def _goes_on(self, seen: Seen, fact: HostResumed) -> None:
        for key, copy in self._working_on(fact.host):
            self._runs(key, self._tasks[key], copy, seen.at_us)

    def _working_on(self, host: str) -> list[tuple[tuple[GroupId, str], WatchedCopy]]:
        return [
            ((name, copy.task), copy)
            for name, application in self._panel.applications.all.items()
            for copy in application.copies.values()
            if copy.instance == host and copy.works
        ]

    # --- groups ------------------------------------------------------------------------------------------------

    def _group(self, name: GroupId) -> Generations:
        group = self._generations.get(name)
        if group is None:
            group = self._generations[name] = Generations()
        return group

    def _prepares(self, seen: Seen, fact: GroupBecame) -> None:
        if fact.new == PREPARING and fact.group in self._panel.applications.all and self._panel.is_current(seen):
            self._group(fact.group).preparing_us = seen.at_us

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        if fact.group in self._panel.applications.all and self._panel.is_current(seen):
            self._group(fact.group).begin(seen.at_us)

    def _member_became(self, seen: Seen, fact: MemberBecame) -> None:
        if fact.new == SYNCED and fact.group in self._panel.applications.all:
            self._synced_us.setdefault(seen.actor, []).append(seen.at_us)


def _in_order(key: tuple[GroupId, str]) -> tuple[GroupId, int, int]:
    """Sort key by group and task number: "0_9" before "0_10"."""
    subtopology, _, partition = key[1].partition("_")
    return key[0], int(subtopology), int(partition)
