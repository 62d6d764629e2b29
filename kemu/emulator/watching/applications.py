"""Streams applications as their instances and leaders report them (part of the panel).

- A *copy* is a task on a thread of an instance, from its creation until the copy is closed or its host is down.
- A *warm-up* is a standby beyond ``num.standby.replicas``: the newest standbys of a task are its warm-ups.
- *Applied*: the records of the changelog that a copy read from its checkpoint on without a gap, and the records that
  the copy wrote.
- *Due*: the records that an active copy must have applied before it runs. Due are all records that readers could see at
  the start of the restore, without records that later leaders of the changelog lack.
- A *disk* keeps a task's state between two copies.
"""

from collections.abc import Callable, Iterator, ValuesView
from typing import Any

from kemu.emulator.facts import (
    BrokerHostAdded,
    DiskTailLost,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    RunStarted,
    Seen,
    UnflushedLost,
    only_news,
)
from kemu.emulator.watching.logs import WatchedLogs
from kemu.emulator.watching.progress import WatchedProgress
from kemu.emulator.watching.readable import ReadableEnds
from kemu.protocol.names import ActorName, GroupId, TopicPartition, host_of, part_of, part_on
from kemu.protocol.notes.groups import (
    JoinPhaseCompleted,
    MemberAdded,
    MemberFailed,
    PartitionsLost,
    ProduceFailed,
    RecordsAcknowledged,
)
from kemu.protocol.notes.replication import BecameLeader
from kemu.protocol.notes.streams import (
    InstanceLeaving,
    InstanceReleased,
    InstanceStarted,
    StreamsJoined,
    TaskBecame,
    TaskRestored,
    TasksDecided,
    ThreadReplaced,
)

ACTIVE, STANDBY, LEARNER, WARM_UP = "active", "standby", "learner", "warm-up"
CREATED, RUNNING, RESTORING, SUSPENDED, CLOSED = "CREATED", "RUNNING", "RESTORING", "SUSPENDED", "CLOSED"
_KILLED = "process"
"""The kind of ``HostDown`` after which a disk keeps the files as the process left them."""


class WatchedCopy:
    """A copy of a task: a task on a thread."""

    def __init__(self, fact: TaskBecame, number: int, since_us: int, changelog: TopicPartition | None) -> None:
        self.application = fact.application
        self.task = fact.task
        self.instance = fact.instance
        self.thread = fact.thread
        self.changelog = changelog
        """The changelog partition; None for a task without state."""
        self.number = number
        """Number of this copy; the copies of a run are numbered in order of creation."""
        self.since_us = since_us
        self.applied = 0
        """The offset up to which the copy has applied its changelog without a gap."""
        self.due = 0
        """The offset that the copy must have applied before it runs as an active copy."""
        self.suspended_at = -1
        """The end of the changelog when the running copy was suspended; -1 if never suspended. If the end is unchanged,
        the copy resumes without a restore. The copy does not read records that a deposed owner wrote while the copy
        ran."""
        self.was_paused = False
        """Whether the copy's host was paused since the copy's last report. The member may have been evicted without
        knowing."""
        self.becomes(fact)

    def becomes(self, fact: TaskBecame) -> None:
        """Update role and state from the copy's own report."""
        self.member_id = fact.member_id
        self.role = fact.role
        """The role that the instance reports: "active", "standby" or "learner"."""
        self.state = fact.state
        self.position = fact.position
        self.was_paused = False

    @property
    def actor(self) -> ActorName:
        """The thread of this copy."""
        return part_on(self.instance, self.thread)

    @property
    def is_unsettled(self) -> bool:
        """Whether the copy is changing its role or state."""
        return self.role == LEARNER or (self.role == ACTIVE and self.state != RUNNING)

    @property
    def works(self) -> bool:
        """Whether the copy processes records, unless its host is paused."""
        return self.role == ACTIVE and self.state == RUNNING


class TaskDisk:
    """The state of a task on an instance's disk."""

    __slots__ = ("furthest", "left_at", "was_open", "written_by")

    def __init__(self) -> None:
        self.furthest = 0
        """The highest position of any copy on this disk."""
        self.left_at = 0
        """The position of the last copy when it was closed."""
        self.written_by = ""
        """The thread that wrote the checkpoint when it closed a running copy; "" without a checkpoint."""
        self.was_open = False
        """Whether a copy was open on the disk when the process was killed."""


class WatchedInstance:
    """A Streams instance, from its first life on."""

    __slots__ = ("joined", "known", "leaving", "members", "released", "started")

    def __init__(self, started: InstanceStarted) -> None:
        self.started = started
        self.leaving = False
        """Whether the instance was asked to transfer its tasks and leave."""
        self.released = False
        """Whether the instance learned that all its tasks have moved."""
        self.members: dict[str, str] = {}
        """Thread -> its newest member id, in the group or not."""
        self.joined: dict[str, dict[str, tuple[int, int, int]]] = {}
        """Thread -> task -> the positions that the disk had when the thread last joined: least, most, and most if open
        state is lost. The least position is -1 if a thread that is not in the group has the task open: the thread that
        joins cannot lock the directory (``TaskManager.getTaskOffsetSums`` 3.4)."""
        self.known: dict[str, dict[str, tuple[int, int, int]]] = {}
        """``joined`` of the group's threads when the last join phase completed. A thread may join before the leader
        decides."""

    def had(self, task: str) -> tuple[int, int, int]:
        """The position of a task when the threads joined the last completed join phase: least, most, and most if open
        state is lost.
        """
        known = [tasks.get(task, (0, 0, 0)) for tasks in self.known.values()] or [(0, 0, 0)]
        least = min((each[0] for each in known if each[0] >= 0), default=0)
        return least, max(each[1] for each in known), max(each[2] for each in known)


class WatchedApplication:
    """A Streams application."""

    def __init__(self) -> None:
        self.instances: dict[str, WatchedInstance] = {}
        self.processes: dict[str, str] = {}
        """Process id -> instance."""
        self.changelogs: tuple[str, ...] = ()
        """Changelog topic of each subtopology; "" without state."""
        self.subtopologies: dict[str, int] = {}
        """Source topic -> number of the subtopology that reads it."""
        self.copies: dict[tuple[str, str, str], WatchedCopy] = {}
        """(task, instance, thread) -> the copy."""
        self.by_task: dict[str, dict[int, WatchedCopy]] = {}
        """Task -> number of the copy -> the copy."""
        self.disks: dict[str, dict[str, TaskDisk]] = {}
        """Instance -> task -> the state on its disk."""
        self.unsettled = 0
        """Number of copies that are learners, or active and not RUNNING."""
        self.decided: TasksDecided | None = None
        """The last decision of a group leader."""
        self.warmups: frozenset[tuple[str, str]] = frozenset()
        """(task, instance) of the warm-ups in the last decision."""

    def of(self, task: str) -> ValuesView[WatchedCopy]:
        """The copies of a task."""
        return self.by_task.get(task, {}).values()

    def disk(self, instance: str, task: str) -> TaskDisk:
        """The state of a task on an instance's disk."""
        return self.disks.setdefault(instance, {}).setdefault(task, TaskDisk())

    def changelog_of(self, task: str) -> TopicPartition | None:
        """The changelog of a task; None for a task without state."""
        subtopology, _, partition = task.partition("_")
        number = int(subtopology)
        topic = self.changelogs[number] if number < len(self.changelogs) else ""
        return (topic, int(partition)) if topic else None

    def role_of(self, copy: WatchedCopy) -> str:
        """The role of a copy: the reported role, or "warm-up" for some standbys."""
        if copy.role == STANDBY and (copy.task, copy.instance) in self.warmups:
            return WARM_UP
        return copy.role

    def remove(self, key: tuple[str, str, str]) -> WatchedCopy:
        """Remove a copy that ended."""
        copy = self.copies.pop(key)
        del self.by_task[copy.task][copy.number]
        self.unsettled -= copy.is_unsettled
        return copy


class WatchedApplications:
    """All applications. The handlers of this class run before those of its readers."""

    def __init__(self, logs: WatchedLogs, readable: ReadableEnds, progress: WatchedProgress) -> None:
        self._progress = progress
        self.all: dict[GroupId, WatchedApplication] = {}
        self.brokers: dict[str, None] = {}
        """Hosts of the brokers."""
        self.changed: WatchedCopy | None = None
        """The copy of the last ``TaskBecame``."""
        self.role_before = ""
        """The earlier role of ``changed``; "" for a new copy."""
        self.state_before = ""
        self.disk_found: tuple[int, int, bool] | None = None
        """The disk on which ``changed`` begins: (least position, highest position, whether its state was open); None if
        ``changed`` does not begin."""
        self.ended: list[WatchedCopy] = []
        """Copies that the last ``HostDown`` or ``HostStarted`` ended."""
        self._failed: dict[tuple[ActorName, int], None] = {}
        """(thread, life of its host) of failed threads that are not replaced. Such a thread closes its tasks without a
        checkpoint."""
        self._number = 0
        self._logs = logs
        self._readable = readable
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            RunStarted: self._run_started,
            BrokerHostAdded: self._broker_added,
            InstanceStarted: self._started,
            InstanceLeaving: self._leaving,
            InstanceReleased: self._released,
            StreamsJoined: self._joined,
            JoinPhaseCompleted: self._completed,
            MemberAdded: self._added,
            TaskBecame: self._became,
            TaskRestored: self._restored,
            RecordsAcknowledged: self._acknowledged,
            ProduceFailed: self._produce_failed,
            BecameLeader: self._changelog_led,
            TasksDecided: self._decided,
            PartitionsLost: self._lost,
            MemberFailed: self._thread_failed,
            ThreadReplaced: self._replaced,
            HostDown: self._host_changed,
            HostStarted: self._host_changed,
            HostPaused: self._pause_changed,
            HostResumed: self._pause_changed,
            DiskTailLost: self._disk_lost,
            UnflushedLost: self._disk_lost,
        }

    def of(self, name: GroupId) -> WatchedApplication:
        """The application of this name."""
        found = self.all.get(name)
        if found is None:
            found = self.all[name] = WatchedApplication()
        return found

    def awaits_state(self, group: GroupId, thread: ActorName, at: TopicPartition) -> bool:
        """Whether a thread owns this source partition and does not yet run its task. False for other members."""
        application = self.all.get(group)
        number = None if application is None else application.subtopologies.get(at[0])
        if application is None or number is None:
            return False
        return not any(copy.actor == thread and copy.works for copy in application.of(f"{number}_{at[1]}"))

    def missing_of(self, copy: WatchedCopy) -> int:
        """Number of changelog records that a copy lacks and can read."""
        if copy.changelog is None:
            return 0
        start = self._logs.of(copy.changelog).records.start
        return max(self._readable.end(copy.changelog) - max(copy.applied, start), 0)

    def lacks_state(self, copy: WatchedCopy) -> bool:
        """Whether a copy lacks records that it must have applied before it runs."""
        at = copy.changelog
        if at is None:
            return False
        return max(copy.applied, self._logs.of(at).records.start) < min(copy.due, self._readable.end(at))

    # --- instances ---------------------------------------------------------------------------------------------

    def _run_started(self, seen: Seen, fact: RunStarted) -> None:
        self.brokers = dict.fromkeys(fact.brokers)

    def _broker_added(self, seen: Seen, fact: BrokerHostAdded) -> None:
        self.brokers[fact.host] = None

    def _started(self, seen: Seen, fact: InstanceStarted) -> None:
        application = self.of(fact.application)
        application.instances[fact.instance] = WatchedInstance(fact)
        application.processes[fact.process] = fact.instance
        application.changelogs = fact.changelogs
        for number, topics in enumerate(fact.sources):
            application.subtopologies.update(dict.fromkeys(topics, number))

    def _leaving(self, seen: Seen, fact: InstanceLeaving) -> None:
        instance = self.of(fact.application).instances.get(fact.instance)
        if instance is not None:
            instance.leaving = fact.leaving

    def _released(self, seen: Seen, fact: InstanceReleased) -> None:
        instance = self.of(fact.application).instances.get(fact.instance)
        if instance is not None:
            instance.released = True

    def _joined(self, seen: Seen, fact: StreamsJoined) -> None:
        application = self.of(fact.application)
        instance = application.instances.get(fact.instance)
        if instance is None:
            return
        tasks = instance.joined[fact.thread] = {
            task: (disk.left_at, disk.furthest, 0 if disk.was_open else disk.furthest)
            for task, disk in application.disks.get(fact.instance, {}).items()
        }
        for copy in application.copies.values():
            if copy.instance == fact.instance and copy.state != CREATED:
                least, most, _ = tasks.get(copy.task, (0, 0, 0))
                has = max(copy.position, copy.applied)
                reports = copy.thread == fact.thread  # the thread of the copy has locked the task's folder
                tasks[copy.task] = max(least, has) if reports else -1, max(most, has), max(most, has)

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        application = self.all.get(fact.group)
        instance = None if application is None else application.instances.get(host_of(fact.client_id))
        if instance is not None:
            instance.members[part_of(fact.client_id)] = fact.member_id

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        application, present = self.all.get(fact.group), set(fact.members)
        for instance in () if application is None else application.instances.values():
            members = instance.members
            instance.known = {
                thread: tasks for thread, tasks in instance.joined.items() if members.get(thread) in present
            }

    # --- copies ------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        application = self.of(fact.application)
        key = (fact.task, fact.instance, fact.thread)
        if not fact.before and key in application.copies:  # the end of the former copy was not reported
            application.remove(key)
        copy = application.copies.get(key)
        if copy is None:
            self._number += 1
            changelog = application.changelog_of(fact.task)
            copy = application.copies[key] = WatchedCopy(fact, self._number, seen.at_us, changelog)
            application.by_task.setdefault(fact.task, {})[copy.number] = copy
            self.role_before, self.state_before = "", ""
        else:
            application.unsettled -= copy.is_unsettled
            self.role_before, self.state_before = copy.role, copy.state
            copy.becomes(fact)
        application.unsettled += copy.is_unsettled
        self.changed, self.disk_found = copy, None
        disk = application.disk(fact.instance, fact.task)
        if fact.before == CREATED and fact.state == RESTORING:
            self._begins_on(disk, copy)
        elif fact.before == RUNNING and fact.state == SUSPENDED:
            copy.suspended_at = 0 if copy.changelog is None else self._readable.end(copy.changelog)
            disk.written_by = "" if (copy.actor, seen.life) in self._failed else copy.actor
        if fact.state == CLOSED:
            disk.left_at = fact.position
            application.remove(key)
        elif fact.role == ACTIVE and fact.state == RESTORING and copy.changelog is not None:
            end = self._readable.end(copy.changelog)
            if end != copy.suspended_at:
                copy.due = end

    def _begins_on(self, disk: TaskDisk, copy: WatchedCopy) -> None:
        self.disk_found = (disk.left_at if disk.written_by else 0), disk.furthest, disk.was_open
        copy.applied = min(copy.position, disk.furthest)
        disk.was_open, disk.written_by = False, ""

    def _apply(self, copy: WatchedCopy, end: int) -> None:
        copy.applied = max(copy.applied, end)
        disk = self.of(copy.application).disk(copy.instance, copy.task)
        disk.furthest = max(disk.furthest, copy.applied)

    def _restored(self, seen: Seen, fact: TaskRestored) -> None:
        copy = self.of(fact.application).copies.get((fact.task, fact.instance, fact.thread))
        if copy is None:
            return
        copy.position = max(copy.position, fact.last)
        start = 0 if copy.changelog is None else self._logs.of(copy.changelog).records.start
        if fact.first <= max(copy.applied, start):
            self._apply(copy, fact.last)

    def _copies_of(self, at: TopicPartition) -> Iterator[WatchedCopy]:
        """The copies with this changelog."""
        for application in self.all.values():
            for number, topic in enumerate(application.changelogs):
                if topic == at[0]:
                    yield from application.of(f"{number}_{at[1]}")

    def _changelog_led(self, seen: Seen, fact: BecameLeader) -> None:
        at = fact.topic, fact.partition
        for copy in self._copies_of(at):  # readers may see fewer records under the new leader
            copy.due = min(copy.due, self._readable.end(at))

    @only_news
    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        if self.all:
            self._progress.acknowledging.line.pop((fact.topic, fact.partition), None)
            self._wrote(seen, (fact.topic, fact.partition), fact.base_offset + fact.count)

    def _produce_failed(self, seen: Seen, fact: ProduceFailed) -> None:
        """Note that the task's state has records that the changelog may lack."""
        at = fact.topic, fact.partition
        self._wrote(seen, at, self._logs.of(at).records.end)

    def _wrote(self, seen: Seen, at: TopicPartition, end: int) -> None:
        for copy in self._copies_of(at):
            if copy.works and copy.instance == host_of(seen.actor):
                self._apply(copy, end)

    # --- what ends them ----------------------------------------------------------------------------------------

    def _thread_failed(self, seen: Seen, fact: MemberFailed) -> None:
        if fact.group in self.all:
            self._failed[seen.actor, seen.life] = None

    def _replaced(self, seen: Seen, fact: ThreadReplaced) -> None:
        self._failed.pop((part_on(fact.instance, fact.thread), seen.life), None)

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        """Note that a thread lost its partitions, and so writes no checkpoint for closed tasks."""
        application = self.all.get(fact.group)
        if application is not None:
            for disk in application.disks.get(host_of(seen.actor), {}).values():
                if disk.written_by == seen.actor:
                    disk.written_by = ""

    def _host_changed(self, seen: Seen, fact: HostDown | HostStarted) -> None:
        self.ended = []
        for application in self.all.values():
            keys = [key for key, copy in application.copies.items() if copy.instance == fact.host]
            ended = [application.remove(key) for key in keys]
            if isinstance(fact, HostStarted) and not fact.kept_disk:
                application.disks.pop(fact.host, None)
            elif isinstance(fact, HostDown):
                for copy in ended:
                    disk = application.disk(copy.instance, copy.task)
                    disk.was_open = fact.how == _KILLED and copy.state in (RUNNING, RESTORING)
                    if copy.state != SUSPENDED:
                        disk.left_at, disk.written_by = 0, ""
            self.ended += ended

    def _pause_changed(self, seen: Seen, fact: HostPaused | HostResumed) -> None:
        for application in self.all.values():
            for copy in application.copies.values():
                copy.was_paused = copy.was_paused or copy.instance == fact.host

    def _disk_lost(self, seen: Seen, fact: DiskTailLost | UnflushedLost) -> None:
        for application in self.all.values():
            for disk in application.disks.get(fact.host, {}).values():
                disk.written_by = ""

    def _decided(self, seen: Seen, fact: TasksDecided) -> None:
        application = self.of(fact.application)
        application.decided = fact
        standbys: dict[str, list[str]] = {}
        for row in fact.given:
            for task in row.standby:
                standbys.setdefault(task, []).append(application.processes.get(row.process, ""))
        found: set[tuple[str, str]] = set()
        for task, hosts in standbys.items():
            since = {copy.instance: copy.number for copy in application.of(task) if copy.role != ACTIVE}
            hosts.sort(key=lambda host: (since.get(host, self._number + 1), host))
            leader = application.instances.get(fact.instance)
            kept = leader.started.standbys if leader is not None else 0
            found.update((task, host) for host in hosts[kept:])
        application.warmups = frozenset(found)
