"""Streams applications as their instances and leaders tell (a part of the panel): one account of each copy of a task.

A *copy* is a task on a thread of an instance, from its creation until it is closed or its host is down. A standby that
a task has beyond ``num.standby.replicas`` is a *warm-up*: those that came last are.

A copy *applied* what it read of its changelog from its checkpoint on without a gap, and what it wrote itself. *Due* is
what an active copy must have applied before it runs: all that readers could be told of when its restore began, less
what later leaders of the changelog do not have. A *disk* remembers a task's state between two copies.
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
)
from kemu.emulator.watching.logs import WatchedLogs
from kemu.emulator.watching.readable import ReadableEnds
from kemu.protocol.names import ActorName, GroupId, TopicPartition, host_of, part_on
from kemu.protocol.notes.groups import MemberFailed, PartitionsLost, ProduceFailed, RecordsAcknowledged
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
"""How a host goes down whose disk is as its process left it."""


class WatchedCopy:
    """A task on a thread."""

    def __init__(self, fact: TaskBecame, number: int, since_us: int, changelog: TopicPartition | None) -> None:
        self.application = fact.application
        self.task = fact.task
        self.instance = fact.instance
        self.thread = fact.thread
        self.changelog = changelog
        """None: the task has no state."""
        self.number = number
        """Copies of a run are numbered in the order they came."""
        self.since_us = since_us
        self.applied = 0
        """The offset up to which it has its changelog without a gap."""
        self.due = 0
        """The offset that it must have applied before it runs as an active copy."""
        self.suspended_at = -1
        """Where its changelog ended as it was suspended after it ran; -1: never. If it still ends there, the copy goes
        on as it is: what a former owner that knew no better wrote while it ran, it does not read."""
        self.stood_still = False
        """Its host was paused since it told of itself: it may have been thrown out without knowing it."""
        self.becomes(fact)

    def becomes(self, fact: TaskBecame) -> None:
        """Take what it tells of itself."""
        self.member_id = fact.member_id
        self.role = fact.role
        """What the instance calls it: "active", "standby" or "learner"."""
        self.state = fact.state
        self.position = fact.position
        self.stood_still = False

    @property
    def actor(self) -> ActorName:
        """Its thread."""
        return part_on(self.instance, self.thread)

    @property
    def is_unsettled(self) -> bool:
        """Whether it is on its way to something else."""
        return self.role == LEARNER or (self.role == ACTIVE and self.state != RUNNING)

    @property
    def works(self) -> bool:
        """Whether it processes, if its host does not stand still."""
        return self.role == ACTIVE and self.state == RUNNING


class TaskDisk:
    """What an instance's disk has of a task."""

    __slots__ = ("furthest", "left_at", "was_open", "written_by")

    def __init__(self) -> None:
        self.furthest = 0
        """The furthest that a copy on it ever was."""
        self.left_at = 0
        """Where the last copy was when it was closed."""
        self.written_by = ""
        """The thread that wrote its checkpoint there, as one does that gives up a running copy; "": none did."""
        self.was_open = False
        """A copy was open on it when its process was killed."""


class WatchedInstance:
    """An instance, from its first life on."""

    __slots__ = ("joined", "leaving", "released", "started")

    def __init__(self, started: InstanceStarted) -> None:
        self.started = started
        self.leaving = False
        """It was told to hand over its tasks and go."""
        self.released = False
        """It was told that nothing is left."""
        self.joined: dict[str, dict[str, tuple[int, int, int]]] = {}
        """Thread -> task -> what the instance had of its state when the thread joined last."""

    def had(self, task: str) -> tuple[int, int, int]:
        """How much of a task it had for sure when its threads joined last; at most; at most if open state is lost."""
        known = [tasks.get(task, (0, 0, 0)) for tasks in self.joined.values()] or [(0, 0, 0)]
        return min(each[0] for each in known), max(each[1] for each in known), max(each[2] for each in known)


class WatchedApplication:
    """A Streams application."""

    def __init__(self) -> None:
        self.instances: dict[str, WatchedInstance] = {}
        self.processes: dict[str, str] = {}
        """Process id -> instance."""
        self.changelogs: tuple[str, ...] = ()
        """Of each subtopology; "" without state."""
        self.subtopologies: dict[str, int] = {}
        """Source topic -> the number of the subtopology that reads it."""
        self.copies: dict[tuple[str, str, str], WatchedCopy] = {}
        """(task, instance, thread) -> its copy."""
        self.by_task: dict[str, dict[int, WatchedCopy]] = {}
        """Task -> number of the copy -> the copy."""
        self.disks: dict[str, dict[str, TaskDisk]] = {}
        """Instance -> task -> what its disk has."""
        self.unsettled = 0
        """How many copies are learners, or active and not RUNNING."""
        self.decided: TasksDecided | None = None
        """What a leader decided last."""
        self.warmups: frozenset[tuple[str, str]] = frozenset()
        """(task, instance) of those in that decision."""

    def of(self, task: str) -> ValuesView[WatchedCopy]:
        """Copies of a task."""
        return self.by_task.get(task, {}).values()

    def disk(self, instance: str, task: str) -> TaskDisk:
        """What an instance's disk has of a task."""
        return self.disks.setdefault(instance, {}).setdefault(task, TaskDisk())

    def changelog_of(self, task: str) -> TopicPartition | None:
        """The changelog of a task with state."""
        subtopology, _, partition = task.partition("_")
        number = int(subtopology)
        topic = self.changelogs[number] if number < len(self.changelogs) else ""
        return (topic, int(partition)) if topic else None

    def role_of(self, copy: WatchedCopy) -> str:
        """Its role; a standby may be a warm-up."""
        if copy.role == STANDBY and (copy.task, copy.instance) in self.warmups:
            return WARM_UP
        return copy.role

    def remove(self, key: tuple[str, str, str]) -> WatchedCopy:
        """This copy ended."""
        copy = self.copies.pop(key)
        del self.by_task[copy.task][copy.number]
        self.unsettled -= copy.is_unsettled
        return copy


class WatchedApplications:
    """See the module. Its handlers run before those who read it take a fact."""

    def __init__(self, logs: WatchedLogs, readable: ReadableEnds) -> None:
        self.all: dict[GroupId, WatchedApplication] = {}
        self.brokers: dict[str, None] = {}
        """Hosts of the brokers that applications work with."""
        self.changed: WatchedCopy | None = None
        """The copy that the last ``TaskBecame`` is about."""
        self.role_before = ""
        """What role that had; "" before it was there."""
        self.state_before = ""
        self.finds: tuple[int, int, bool] | None = None
        """If it begins on a disk: the least and the furthest that it can find there, and whether that was open."""
        self.ended: list[WatchedCopy] = []
        """Copies that the last ``HostDown`` (or a start without one) ended."""
        self._failed: dict[tuple[ActorName, int], None] = {}
        """(thread, life of its host) that failed and is not replaced: it closes its tasks as they are."""
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
            TaskBecame: self._became,
            TaskRestored: self._restored,
            RecordsAcknowledged: self._acknowledged,
            ProduceFailed: self._produce_failed,
            BecameLeader: self._changelog_led,
            TasksDecided: self._decided,
            PartitionsLost: self._lost,
            MemberFailed: self._thread_failed,
            ThreadReplaced: self._replaced,
            HostDown: self._gone,
            HostStarted: self._gone,
            HostPaused: self._stands_still,
            HostResumed: self._stands_still,
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
        """Whether a thread that owns a source partition does not run its task yet; never of other members."""
        application = self.all.get(group)
        number = None if application is None else application.subtopologies.get(at[0])
        if application is None or number is None:
            return False
        return not any(copy.actor == thread and copy.works for copy in application.of(f"{number}_{at[1]}"))

    def missing_of(self, copy: WatchedCopy) -> int:
        """How many records of its changelog a copy lacks that it could have read."""
        if copy.changelog is None:
            return 0
        start = self._logs.of(copy.changelog).records.start
        return max(self._readable.end(copy.changelog) - max(copy.applied, start), 0)

    def lacks_state(self, copy: WatchedCopy) -> bool:
        """Whether a copy has less of its changelog than it must have to run."""
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
            if copy.instance == fact.instance:
                least, most, _ = tasks.get(copy.task, (0, 0, 0))
                has = max(copy.position, copy.applied)
                tasks[copy.task] = max(least, has), max(most, has), max(most, has)

    # --- copies ------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        application = self.of(fact.application)
        key = (fact.task, fact.instance, fact.thread)
        if not fact.before and key in application.copies:  # nothing told its end
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
        self.changed, self.finds = copy, None
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
        self.finds = (disk.left_at if disk.written_by else 0), disk.furthest, disk.was_open
        copy.applied = min(copy.position, disk.furthest)
        disk.was_open, disk.written_by = False, ""

    def _reached(self, copy: WatchedCopy, end: int) -> None:
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
            self._reached(copy, fact.last)

    def _copies_of(self, at: TopicPartition) -> Iterator[WatchedCopy]:
        """Copies that have this changelog."""
        for application in self.all.values():
            for number, topic in enumerate(application.changelogs):
                if topic == at[0]:
                    yield from application.of(f"{number}_{at[1]}")

    def _changelog_led(self, seen: Seen, fact: BecameLeader) -> None:
        at = fact.topic, fact.partition
        for copy in self._copies_of(at):  # it may be told of less now
            copy.due = min(copy.due, self._readable.end(at))

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        if self.all:
            self._wrote(seen, (fact.topic, fact.partition), fact.base_offset + fact.count)

    def _produce_failed(self, seen: Seen, fact: ProduceFailed) -> None:
        """Its state has the records all the same, wherever they are in the changelog."""
        at = fact.topic, fact.partition
        self._wrote(seen, at, self._logs.of(at).records.end)

    def _wrote(self, seen: Seen, at: TopicPartition, end: int) -> None:
        for copy in self._copies_of(at):
            if copy.works and copy.instance == host_of(seen.actor):
                self._reached(copy, end)

    # --- what ends them ----------------------------------------------------------------------------------------

    def _thread_failed(self, seen: Seen, fact: MemberFailed) -> None:
        if fact.group in self.all:
            self._failed[seen.actor, seen.life] = None

    def _replaced(self, seen: Seen, fact: ThreadReplaced) -> None:
        self._failed.pop((part_on(fact.instance, fact.thread), seen.life), None)

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        """A thread that lost its partitions writes no checkpoint of what it closed."""
        application = self.all.get(fact.group)
        if application is not None:
            for disk in application.disks.get(host_of(seen.actor), {}).values():
                if disk.written_by == seen.actor:
                    disk.written_by = ""

    def _gone(self, seen: Seen, fact: HostDown | HostStarted) -> None:
        self.ended = []
        for application in self.all.values():
            keys = [key for key, copy in application.copies.items() if copy.instance == fact.host]
            gone = [application.remove(key) for key in keys]
            if isinstance(fact, HostStarted) and not fact.kept_disk:
                application.disks.pop(fact.host, None)
            elif isinstance(fact, HostDown):
                for copy in gone:
                    disk = application.disk(copy.instance, copy.task)
                    disk.was_open = fact.how == _KILLED and copy.state in (RUNNING, RESTORING)
                    if copy.state != SUSPENDED:
                        disk.left_at, disk.written_by = 0, ""
            self.ended += gone

    def _stands_still(self, seen: Seen, fact: HostPaused | HostResumed) -> None:
        for application in self.all.values():
            for copy in application.copies.values():
                copy.stood_still = copy.stood_still or copy.instance == fact.host

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
