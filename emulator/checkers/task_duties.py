"""What a Streams application must get done in time, also during faults: a part of the checker of tasks.

A clock runs while the instance and the brokers that are up work undisturbed. It starts anew with each step of progress,
so the bytes to restore, their bandwidth and the work of the thread need no estimate.

==============  ====================================================================  ================================
kind            obligation                                                            bound
==============  ====================================================================  ================================
not-restored    a thread with active tasks that are not restored applies records of   ``PROGRESS_US``, and the longest
                their changelogs, or ends a restore                                   work of the thread so far
standby-behind  a standby or learner that lacks records applies some, while its       the same, without the time that
                thread restores nothing for active tasks                              it applies others' records
no-follow-up    a leader that gave out warm-ups has its group rebalance again         ``probing.rebalance.interval.ms``
                (KIP-441)                                                             and ``FOLLOW_UP_US``
==============  ====================================================================  ================================

Exempt: a task whose directory another thread of the instance holds, and changelogs without a leader. Source: Kafka 3.4
``StreamThread.runOnce``, ``StoreChangelogReader.restore``, ``StreamThread.maybeSendShutdown`` and
``StreamsPartitionAssignor.onAssignment``.
"""

from typing import Any

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.task_state import CopyState, Disk, TaskStates, undisturbed_since_us
from kemu.emulator.facts import Handler, HostDown, HostStarted, Seen
from kemu.emulator.watching.applications import ACTIVE, RESTORING, RUNNING, WatchedCopy
from kemu.protocol.names import ActorName, GroupId, part_on
from kemu.protocol.notes.groups import GroupBecame, Processed
from kemu.protocol.notes.replication import BecameLeader
from kemu.protocol.notes.streams import TaskBecame, TaskRestored, TasksDecided

PROGRESS_US = 60_000_000
"""How long a thread may take to find a leader, ask where a changelog ends, and fetch: two times request.timeout.ms."""
FOLLOW_UP_US = 60_000_000
"""How long a thread may take from the time of its next rebalance until the coordinator has its JoinGroup."""
LOOKS_US = 5_000_000
SLICE_US = 200_000
"""A thread that applies records without a pause tells of some at least so often: it applies for 100 ms at a time."""
_NOT_RUNNING = ("CREATED", RESTORING)


class TaskDuties:
    """See the module."""

    def __init__(self, checker: Checker, states: TaskStates) -> None:
        self._checker = checker
        self._states = states
        self._brokers_changed_us = 0
        """When a broker started or went down last, or a partition got another leader."""
        self._advanced_us: dict[ActorName, int] = {}
        """Thread -> when it applied something for an active task last, or a task of its changed."""
        self._applied_us: dict[tuple[Disk, str], int] = {}
        """(instance and task, thread) -> when a standby or learner applied something last, or lacked nothing."""
        self._busy_us: dict[ActorName, tuple[int, int]] = {}
        """Thread -> when it applied records last, and for how long it has applied records without a pause, summed."""
        self._busy_before_us: dict[tuple[Disk, str], int] = {}
        """As ``_applied_us``: that sum when the standby or learner applied something last."""
        self._work_us: dict[ActorName, int] = {}
        """Thread -> the longest time between two polls of its consumer for work."""
        self._decided_us: dict[GroupId, int] = {}
        """Application whose leader gave out warm-ups -> when; until the group prepares for a rebalance."""
        self._looks_us = LOOKS_US
        self._told: dict[tuple[str, str], None] = {}
        """What was said of whom."""
        self.on: dict[type, Handler] = {
            HostStarted: self._host_changed,
            HostDown: self._host_changed,
            BecameLeader: self._leads,
            TaskBecame: self._became,
            TaskRestored: self._restored,
            Processed: self._processed,
            TasksDecided: self._decided,
            GroupBecame: self._group_became,
        }

    # --- facts -------------------------------------------------------------------------------------------------

    def _host_changed(self, seen: Seen, fact: HostStarted | HostDown) -> None:
        if fact.host in self._checker.panel.applications.brokers:
            self._brokers_changed_us = seen.at_us

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        self._brokers_changed_us = seen.at_us

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        thread, key = part_on(fact.instance, fact.thread), ((fact.application, fact.instance, fact.task), fact.thread)
        self._advanced_us[thread] = self._applied_us[key] = seen.at_us
        self._busy_before_us[key] = self._busy_us.get(thread, (0, 0))[1]

    def _restored(self, seen: Seen, fact: TaskRestored) -> None:
        thread = part_on(fact.instance, fact.thread)
        last_us, busy_us = self._busy_us.get(thread, (seen.at_us, 0))
        pause_us = seen.at_us - last_us
        self._busy_us[thread] = seen.at_us, busy_us + (pause_us if pause_us <= SLICE_US else 0)
        key = (fact.application, fact.instance, fact.task), fact.thread
        self._applied_us[key], self._busy_before_us[key] = seen.at_us, self._busy_us[thread][1]
        if fact.role == ACTIVE:
            self._advanced_us[part_on(fact.instance, fact.thread)] = seen.at_us

    def _processed(self, seen: Seen, fact: Processed) -> None:
        if fact.group in self._checker.panel.applications.all:
            took_us = seen.at_us - fact.started_us
            self._work_us[seen.actor] = max(self._work_us.get(seen.actor, 0), took_us)

    def _decided(self, seen: Seen, fact: TasksDecided) -> None:
        application = self._checker.panel.applications.of(fact.application)
        leader = application.instances.get(fact.instance)
        self._decided_us.pop(fact.application, None)
        if application.warmups and leader is not None and leader.started.probing_us:
            self._decided_us[fact.application] = seen.at_us

    def _group_became(self, seen: Seen, fact: GroupBecame) -> None:
        if fact.new == "PreparingRebalance" and self._checker.panel.is_current(seen):
            self._decided_us.pop(fact.group, None)

    # --- judging -----------------------------------------------------------------------------------------------

    def time_passes(self, seen: Seen, fact: Any) -> None:
        """Judge every few seconds."""
        if seen.at_us >= self._looks_us:
            self._looks_us = seen.at_us + LOOKS_US
            self.judge(seen)

    def judge(self, seen: Seen) -> None:
        """Say which obligations are overdue."""
        for name, application in self._checker.panel.applications.all.items():
            waiting = {
                (copy.instance, copy.thread)
                for copy in application.copies.values()
                if copy.role == ACTIVE and copy.state in _NOT_RUNNING
            }
            for copy in application.copies.values():
                since_us = self._undisturbed_us(copy.instance)
                if since_us is None:
                    continue
                if copy.role == ACTIVE and copy.state in _NOT_RUNNING:
                    self._active(seen, copy, since_us)
                elif copy.role != ACTIVE and copy.state == RUNNING:
                    self._standby(seen, copy, since_us, waits=(copy.instance, copy.thread) in waiting)
            self._follow_up(seen, name)

    def _undisturbed_us(self, *instances: str) -> int | None:
        """Since when these instances work with the brokers that are up; None: a fault hits them."""
        since_us = undisturbed_since_us(self._checker.panel, *instances)
        return None if since_us is None else max(since_us, self._brokers_changed_us)

    def _bound_us(self, thread: ActorName) -> int:
        return PROGRESS_US + self._work_us.get(thread, 0)

    def _active(self, seen: Seen, copy: WatchedCopy, since_us: int) -> None:
        panel, thread = self._checker.panel, part_on(copy.instance, copy.thread)
        one = self._copy_of(copy)
        if one is not None and not self._is_led(one):
            self._advanced_us[thread] = seen.at_us
        elif copy.state != RESTORING and any(
            each.instance == copy.instance and each is not copy
            for each in panel.applications.of(copy.application).of(copy.task)
        ):
            return
        idle_us = seen.at_us - max(since_us, self._advanced_us.get(thread, 0))
        if idle_us > self._bound_us(thread):
            end = 0 if one is None else self._states.known_end(one.changelog)
            text = (
                f"{copy.task} of {copy.application} is {copy.state} on {thread} at {copy.position} of {end} records of "
                f"its changelog, and for {idle_us / 1e6:.0f} s the thread restored nothing"
            )
            self._say(seen, "not-restored", copy, text)

    def _standby(self, seen: Seen, copy: WatchedCopy, since_us: int, *, waits: bool) -> None:
        one = self._copy_of(copy)
        if one is None:
            return
        key = (copy.application, copy.instance, copy.task), copy.thread
        thread = part_on(copy.instance, copy.thread)
        busy_us = self._busy_us.get(thread, (0, 0))[1]
        missing = self._states.missing_of(one)
        if waits or not missing or not self._is_led(one):
            self._applied_us[key], self._busy_before_us[key] = seen.at_us, busy_us
            return
        idle_us = seen.at_us - max(since_us, self._applied_us.get(key, 0), self._advanced_us.get(thread, 0))
        idle_us -= busy_us - self._busy_before_us.get(key, 0)
        if idle_us > self._bound_us(thread):
            text = (
                f"the {copy.role} of {copy.task} of {copy.application} on {thread} lacks {missing} records of its "
                f"changelog, and applied nothing for {idle_us / 1e6:.0f} s"
            )
            self._say(seen, "standby-behind", copy, text)

    def _follow_up(self, seen: Seen, name: GroupId) -> None:
        decided_us = self._decided_us.get(name)
        panel = self._checker.panel
        application = panel.applications.of(name)
        if decided_us is None or application.decided is None:
            return
        staying = [host for host in application.instances if panel.runs(host)]
        since_us = self._undisturbed_us(*staying)
        leader = application.instances[application.decided.instance]
        bound_us = leader.started.probing_us + FOLLOW_UP_US
        if since_us is not None and seen.at_us > max(since_us, decided_us) + bound_us:
            del self._decided_us[name]
            text = (
                f"the leader of {name} gave out warm-ups at {decided_us / 1e6:g} s, "
                f"and the group did not rebalance within {bound_us / 1e6:g} s"
            )
            self._checker.violation(seen, "no-follow-up", (name,), text, liveness=True)

    def _copy_of(self, copy: WatchedCopy) -> CopyState | None:
        return self._states.copies.get((copy.application, copy.instance, copy.task), {}).get(copy.thread)

    def _is_led(self, one: CopyState) -> bool:
        """Whether a broker leads the changelog; where leaders cannot change it is led."""
        panel = self._checker.panel
        return not panel.logs.of(one.changelog).leader or one.changelog in panel.leaders

    def _say(self, seen: Seen, kind: str, copy: WatchedCopy, text: str) -> None:
        key = kind, f"{copy.application}/{copy.number}"
        if key not in self._told:
            self._told[key] = None
            self._checker.violation(seen, kind, (copy.application, copy.task), text, liveness=True)
