"""Streams applications as their instances and leaders tell (a part of the panel): who has which copy of which task.

A *copy* is a task on a thread of an instance, from its creation until it is closed or its host is down. A standby that
a task has beyond ``num.standby.replicas`` is a *warm-up*: those that came last are. What is on a disk and belongs to
no copy is not watched.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kemu.emulator.facts import BrokerHostAdded, HostDown, HostStarted, RunStarted, Seen
from kemu.protocol.names import ActorName, GroupId, TopicPartition, host_of, part_on
from kemu.protocol.notes.streams import (
    InstanceLeaving,
    InstanceReleased,
    InstanceStarted,
    TaskBecame,
    TaskRestored,
    TasksDecided,
)

ACTIVE, STANDBY, LEARNER, WARM_UP = "active", "standby", "learner", "warm-up"
CREATED, RUNNING, RESTORING, SUSPENDED, CLOSED = "CREATED", "RUNNING", "RESTORING", "SUSPENDED", "CLOSED"


class WatchedCopy:
    """A task on a thread."""

    __slots__ = ("application", "instance", "number", "position", "role", "since_us", "state", "task", "thread")

    def __init__(self, fact: TaskBecame, number: int, since_us: int) -> None:
        self.application = fact.application
        self.task = fact.task
        self.instance = fact.instance
        self.thread = fact.thread
        self.number = number
        """Copies of a run are numbered in the order they came."""
        self.since_us = since_us
        self.role = fact.role
        """What the instance calls it: "active", "standby" or "learner"."""
        self.state = fact.state
        self.position = fact.position

    @property
    def is_unsettled(self) -> bool:
        """Whether it is on its way to something else."""
        return self.role == LEARNER or (self.role == ACTIVE and self.state != RUNNING)

    @property
    def works(self) -> bool:
        """Whether it processes, if its host does not stand still."""
        return self.role == ACTIVE and self.state == RUNNING


class WatchedInstance:
    """An instance, from its first life on."""

    __slots__ = ("leaving", "released", "started")

    def __init__(self, started: InstanceStarted) -> None:
        self.started = started
        self.leaving = False
        """It was told to hand over its tasks and go."""
        self.released = False
        """It was told that nothing is left."""


class WatchedApplication:
    """A Streams application."""

    __slots__ = ("copies", "decided", "instances", "processes", "subtopologies", "unsettled", "warmups")

    def __init__(self) -> None:
        self.instances: dict[str, WatchedInstance] = {}
        self.processes: dict[str, str] = {}
        """Process id -> instance."""
        self.subtopologies: dict[str, int] = {}
        """Source topic -> the number of the subtopology that reads it."""
        self.copies: dict[tuple[str, str, str], WatchedCopy] = {}
        """(task, instance, thread) -> its copy."""
        self.unsettled = 0
        """How many copies are learners, or active and not RUNNING."""
        self.decided: TasksDecided | None = None
        """What a leader decided last."""
        self.warmups: frozenset[tuple[str, str]] = frozenset()
        """(task, instance) of those in that decision."""

    def of(self, task: str) -> Iterator[WatchedCopy]:
        """Copies of a task."""
        return (copy for copy in self.copies.values() if copy.task == task)

    def role_of(self, copy: WatchedCopy) -> str:
        """Its role; a standby may be a warm-up."""
        if copy.role == STANDBY and (copy.task, copy.instance) in self.warmups:
            return WARM_UP
        return copy.role


class WatchedApplications:
    """See the module. Its handlers run before those who read it take a fact."""

    def __init__(self) -> None:
        self.all: dict[GroupId, WatchedApplication] = {}
        self.brokers: dict[str, None] = {}
        """Hosts of the brokers that applications work with."""
        self.changed: WatchedCopy | None = None
        """The copy that the last ``TaskBecame`` is about."""
        self.role_before = ""
        """What role that had; "" before it was there."""
        self.state_before = ""
        self.ended: list[WatchedCopy] = []
        """Copies that the last ``HostDown`` (or a start without one) ended."""
        self._number = 0
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            RunStarted: self._run_started,
            BrokerHostAdded: self._broker_added,
            InstanceStarted: self._started,
            InstanceLeaving: self._leaving,
            InstanceReleased: self._released,
            TaskBecame: self._became,
            TaskRestored: self._restored,
            TasksDecided: self._decided,
            HostDown: self._gone,
            HostStarted: self._gone,
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
        host = host_of(thread)
        instance = application.instances.get(host)
        threads = range(1, (0 if instance is None else instance.started.threads) + 1)
        keys = [(f"{number}_{at[1]}", host, f"t{each}") for each in threads if part_on(host, f"t{each}") == thread]
        return not any(key in application.copies and application.copies[key].works for key in keys)

    def _run_started(self, seen: Seen, fact: RunStarted) -> None:
        self.brokers = dict.fromkeys(fact.brokers)

    def _broker_added(self, seen: Seen, fact: BrokerHostAdded) -> None:
        self.brokers[fact.host] = None

    def _started(self, seen: Seen, fact: InstanceStarted) -> None:
        application = self.of(fact.application)
        application.instances[fact.instance] = WatchedInstance(fact)
        application.processes[fact.process] = fact.instance
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

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        application = self.of(fact.application)
        copies = application.copies
        key = (fact.task, fact.instance, fact.thread)
        copy = copies.get(key)
        if copy is not None and not fact.before:  # nothing told its end
            application.unsettled -= copy.is_unsettled
            copy = None
        if copy is None:
            self._number += 1
            copy = copies[key] = WatchedCopy(fact, self._number, seen.at_us)
            self.changed, self.role_before, self.state_before = copy, "", ""
        else:
            application.unsettled -= copy.is_unsettled
            self.changed, self.role_before, self.state_before = copy, copy.role, copy.state
            copy.role, copy.state, copy.position = fact.role, fact.state, fact.position
        if copy.state == CLOSED:
            del copies[key]
        else:
            application.unsettled += copy.is_unsettled

    def _restored(self, seen: Seen, fact: TaskRestored) -> None:
        copy = self.of(fact.application).copies.get((fact.task, fact.instance, fact.thread))
        if copy is not None:
            copy.position = max(copy.position, fact.last)

    def _gone(self, seen: Seen, fact: HostDown | HostStarted) -> None:
        self.ended = []
        for application in self.all.values():
            keys = [key for key, copy in application.copies.items() if copy.instance == fact.host]
            gone = [application.copies.pop(key) for key in keys]
            application.unsettled -= sum(copy.is_unsettled for copy in gone)
            self.ended += gone

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
