"""The cost of balancing a Streams application besides downtime, and its imbalance (a part of the metrics).

*Learning*: the time in which learners and warm-ups exist, summed; one learner for one second is one task-second. A
warm-up exists from the decision that creates the warm-up to the next decision. *Idle*: the part of learning in which a
learner is ready and not yet the owner.

*Imbalance*: the largest difference between an instance's load and its share, in tasks with state, integrated over time.
Imbalance is counted from the first moment at which all tasks with state have owners. Shares are by weight, over the
instances that stay. *Waiting to join*: by thread, the time from a JoinGroup until the answer to the same or a later
JoinGroup.

Source: KIP-429's page, "double task processing"; ``stream.imbalance.percentage``.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from kemu.actors.consumer.state import MemberState
from kemu.emulator.facts import HostDown, HostStarted, Seen
from kemu.emulator.watching.applications import ACTIVE, CLOSED, LEARNER, WatchedApplication, WatchedCopy
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import ActorName, GroupId, host_of, part_on
from kemu.protocol.notes.groups import MemberBecame
from kemu.protocol.notes.streams import (
    InstanceLeaving,
    InstanceReleased,
    InstanceStarted,
    LearnerReady,
    StreamsJoined,
    TaskBecame,
    TasksDecided,
)

_JOINED, _JOINING = MemberState.COMPLETING.value, MemberState.PREPARING.value


class _Held:
    """The sums of one application, and the present rates of their growth."""

    def __init__(self) -> None:
        self.since_us = 0
        self.learners = 0
        self.warmups = 0
        self.ready_since_us: dict[tuple[str, str], int] = {}
        """(task, instance) -> time at which the learner was ready."""
        self.loads: dict[str, int] = {}
        """Instance -> number of its tasks with state."""
        self.formed = False
        self.distance: Fraction = Fraction(0)
        """The largest difference between an instance's load and its share."""
        self.learner_us = self.idle_us = 0
        self.imbalance_us: Fraction = Fraction(0)
        self.waits_us: dict[ActorName, int] = {}


class TaskWork:
    """Counts learning, imbalance and waits of all applications."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._all: dict[GroupId, _Held] = {}
        self._joining: dict[ActorName, tuple[GroupId, int]] = {}
        """Thread -> (application, start of the thread's wait)."""
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {
            InstanceStarted: self._instances_changed,
            InstanceLeaving: self._instances_changed,
            InstanceReleased: self._instances_changed,
            TaskBecame: self._became,
            TasksDecided: self._decided,
            LearnerReady: self._ready,
            StreamsJoined: self._joins,
            MemberBecame: self._member_became,
            HostDown: self._host_changed,
            HostStarted: self._host_changed,
        }

    def finish(self, at_us: int) -> None:
        """Add up all sums until the end of the run."""
        for held in self._all.values():
            self._add_up(held, at_us)
            held.idle_us += sum(at_us - since_us for since_us in held.ready_since_us.values())
            held.ready_since_us.clear()

    def learner_us(self, name: GroupId) -> int:
        """Time in which learners and warm-ups existed, summed."""
        return self._of(name).learner_us

    def idle_us(self, name: GroupId) -> int:
        """Time in which learners were ready and not yet owners, summed."""
        return self._of(name).idle_us

    def imbalance_us(self, name: GroupId) -> int:
        """Imbalance of the application, in tasks, integrated over time."""
        return round(self._of(name).imbalance_us)

    def waits_us(self, name: GroupId) -> dict[ActorName, int]:
        """Thread -> time in which the thread waited for other members to join."""
        return dict(sorted(self._of(name).waits_us.items()))

    # --- sums ------------------------------------------------------------------------------------------------------

    def _of(self, name: GroupId) -> _Held:
        found = self._all.get(name)
        if found is None:
            found = self._all[name] = _Held()
        return found

    @staticmethod
    def _add_up(held: _Held, at_us: int) -> None:
        passed_us = at_us - held.since_us
        held.since_us = at_us
        held.learner_us += (held.learners + held.warmups) * passed_us
        if held.distance:
            held.imbalance_us += held.distance * passed_us

    def _look(self, held: _Held, application: WatchedApplication) -> None:
        """Update the largest difference between an instance's load and its share."""
        decided = application.decided
        total = 0 if decided is None else len(decided.stateful)
        weights = {
            host: instance.started.weight
            for host, instance in application.instances.items()
            if not (instance.leaving or instance.released or self._panel.is_out(host))
        }
        held.formed = held.formed or 0 < total <= sum(held.loads.values())
        if not held.formed or not weights:
            held.distance = Fraction(0)
            return
        all_weights = sum(weights.values())
        furthest = max(abs(held.loads.get(host, 0) * all_weights - total * weight) for host, weight in weights.items())
        held.distance = Fraction(furthest, all_weights)

    # --- what happens ----------------------------------------------------------------------------------------------

    def _instances_changed(self, seen: Seen, fact: InstanceStarted | InstanceLeaving | InstanceReleased) -> None:
        held = self._of(fact.application)
        self._add_up(held, seen.at_us)
        self._look(held, self._panel.applications.of(fact.application))

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        applications = self._panel.applications
        copy, before = applications.changed, applications.role_before
        assert copy is not None, "the panel takes each fact first"
        held, now = self._of(fact.application), "" if copy.state == CLOSED else copy.role
        if now == before:
            return
        self._add_up(held, seen.at_us)
        self._count(held, copy, before, -1, seen.at_us)
        self._count(held, copy, now, 1, seen.at_us)
        if ACTIVE in (now, before):
            self._look(held, applications.of(fact.application))

    def _count(self, held: _Held, copy: WatchedCopy, role: str, by: int, at_us: int) -> None:
        if role == LEARNER:
            held.learners += by
            since_us = held.ready_since_us.pop((copy.task, copy.instance), None)
            held.idle_us += 0 if since_us is None else at_us - since_us
        elif role == ACTIVE and self._has_state(copy):
            held.loads[copy.instance] = held.loads.get(copy.instance, 0) + by

    def _has_state(self, copy: WatchedCopy) -> bool:
        instance = self._panel.applications.of(copy.application).instances.get(copy.instance)
        number = int(copy.task.partition("_")[0])
        changelogs = () if instance is None else instance.started.changelogs
        return number < len(changelogs) and bool(changelogs[number])

    def _decided(self, seen: Seen, fact: TasksDecided) -> None:
        held, application = self._of(fact.application), self._panel.applications.of(fact.application)
        self._add_up(held, seen.at_us)
        held.warmups = len(application.warmups)
        self._look(held, application)

    def _ready(self, seen: Seen, fact: LearnerReady) -> None:
        self._of(fact.application).ready_since_us.setdefault((fact.task, fact.instance), seen.at_us)

    def _host_changed(self, seen: Seen, fact: HostDown | HostStarted) -> None:
        for actor in [actor for actor in self._joining if host_of(actor) == fact.host]:
            del self._joining[actor]
        applications = self._panel.applications
        for name, application in applications.all.items():
            held = self._of(name)
            self._add_up(held, seen.at_us)
            for copy in applications.ended:
                if copy.application == name:
                    self._count(held, copy, copy.role, -1, seen.at_us)
            self._look(held, application)

    def _joins(self, seen: Seen, fact: StreamsJoined) -> None:
        self._joining.setdefault(part_on(fact.instance, fact.thread), (fact.application, seen.at_us))

    def _member_became(self, seen: Seen, fact: MemberBecame) -> None:
        if fact.new == _JOINING or seen.actor not in self._joining:
            return
        name, since_us = self._joining.pop(seen.actor)
        if fact.new == _JOINED:
            waits_us = self._of(name).waits_us
            waits_us[seen.actor] = waits_us.get(seen.actor, 0) + seen.at_us - since_us
