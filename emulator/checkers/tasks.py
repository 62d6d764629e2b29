"""Tasks of Streams applications: one owner each, moved only when paused or learned, nothing lost, nothing doubled.

A task has an owner, or a leader took it from its owner for the rebalance that follows. A task with state moves only
after its owner paused it, to an instance that has its state, if one does. Source: Kafka 3.4
``StreamsPartitionAssignor``, KIP-441, KIP-429 (page version 99, learners). ``task_state``, ``task_offsets`` and
``task_duties`` are parts of this checker, with rules of their own.

====================  ==============================================================================================
kind                  rule
====================  ==============================================================================================
runs-twice            two instances that the coordinator has as members do not both run an active task
runs-unowned          a thread that was told that its partitions are lost runs no active task
moved-while-running   a task with state that runs and is not paused stays with its owner for one rebalance
ready-passed-over     a paused task goes to a learner that is ready, if one stays
learner-misplaced     one learner a task; nobody learns what it owns or while it leaves; one role an instance
marks-differ          owners are told of exactly the tasks that others learn
owned-twice           a leader gives a task to one instance
task-lost             a task that had an owner has one, or is taken from it
shut-down-early       only an instance that leaves and has nothing is told to shut down
state-passed-over     HA: state of more than ``acceptable.recovery.lag`` records beats an instance that has nothing
not-at-rest           after the healing all tasks run, nobody learns or warms up, and loads are within their band
====================  ==============================================================================================
"""

from collections import Counter
from collections.abc import Collection

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.liveness import DEFAULT_BOUND_US
from kemu.emulator.checkers.task_duties import TaskDuties
from kemu.emulator.checkers.task_offsets import TaskOffsets
from kemu.emulator.checkers.task_state import TaskStates
from kemu.emulator.facts import (
    FaultApplied,
    FaultEnded,
    Healed,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    Seen,
    TopicGrown,
)
from kemu.emulator.watching.applications import WatchedApplication
from kemu.emulator.watching.balance import at_work, is_balanced
from kemu.protocol.names import GroupId, part_on
from kemu.protocol.notes.groups import (
    GroupBecame,
    JoinPhaseCompleted,
    MemberRemoved,
    PartitionsLost,
)
from kemu.protocol.notes.streams import StreamsJoined, TaskBecame, TasksDecided, TasksGiven, TasksSaid

At = tuple[str, str]
"""(application, task)"""

_KNOWS_ENDS_WITHIN_US = 5_000_000
"""A leader that decides later than this after the join phase was not told where changelogs end."""


class Tasks(Checker):
    """See the module. ``bound_us``: how long after the faults end applications may take to come to rest.

    ``exactly_once``: the applications whose state is of no use unless it was closed.
    """

    name = "tasks"

    def __init__(self, bound_us: int = DEFAULT_BOUND_US, exactly_once: Collection[GroupId] = ()) -> None:
        super().__init__()
        self._states = TaskStates(self, exactly_once)
        self._duties = TaskDuties(self, self._states)
        self._said: dict[tuple[GroupId, str], dict[str, int]] = {}
        """(application, host) -> task -> how far its copy was when the instance joined last."""
        self._completed_us: dict[GroupId, int] = {}
        """When its last join phase was over."""
        self._bound_us = bound_us
        self._running: dict[At, dict[str, str]] = {}
        """Active and running: host -> member id."""
        self._removed: dict[tuple[GroupId, str], None] = {}
        """(application, member id) that a coordinator removed from the group: its process may not know it yet."""
        self._healed_us: int | None = None
        """When everything was healed, or disturbed last since; None before."""
        self._wrong: dict[GroupId, str] = {}
        """By application what kept it from resting when it was looked at last; "" once it rested."""
        self._late: dict[GroupId, str] = {}
        """The same at the end of the bound."""
        self._seq = 0
        self.on = {
            TaskBecame: self._became,
            TasksDecided: self._decided,
            GroupBecame: self._group_became,
            MemberRemoved: self._member_removed,
            PartitionsLost: self._lost,
            HostDown: self._down,
            HostStarted: self._started,
            StreamsJoined: self._joined,
            JoinPhaseCompleted: self._completed,
            HostPaused: self._gone,
            HostResumed: self._gone,
            FaultApplied: self._disturbed,
            FaultEnded: self._disturbed,
            TopicGrown: self._disturbed,
            Healed: self._healed,
        }
        self.shown_to(TaskOffsets(self).on)
        self.shown_to(self._duties.on)
        self.shown_to(self._states.on)
        self.every = self._duties.time_passes

    # --- owners ----------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        at = fact.application, fact.task
        holders = self._running.setdefault(at, {})
        self._look(seen, fact.application)
        if fact.role != "active" or fact.state != "RUNNING":
            holders.pop(fact.instance, None)
            return
        for host, member_id in holders.items():
            is_member = (fact.application, member_id) not in self._removed
            if host != fact.instance and is_member and not self.panel.hosts[host].paused:
                text = f"{fact.task} of {fact.application} runs on {fact.instance} and on {host}"
                self.violation(seen, "runs-twice", (fact.application, fact.task), text)
        holders[fact.instance] = fact.member_id

    def _member_removed(self, seen: Seen, fact: MemberRemoved) -> None:
        if self.panel.is_current(seen):
            self._removed[fact.group, fact.member_id] = None

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        """Its callback is over: what the thread ran is somebody else's."""
        if fact.group not in self.panel.applications.all:
            return
        for copy in self.panel.applications.of(fact.group).copies.values():
            if copy.works and part_on(copy.instance, copy.thread) == seen.actor:
                text = f"{seen.actor} lost its partitions, and runs {copy.task} of {fact.group} on"
                self.violation(seen, "runs-unowned", (fact.group, copy.task), text)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._gone(seen, fact)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        if not fact.kept_disk:
            for at in [at for at in self._said if at[1] == fact.host]:
                del self._said[at]
        self._gone(seen, fact)

    def _gone(self, seen: Seen, fact: HostDown | HostStarted | HostPaused | HostResumed) -> None:
        """A host that stands still or stood still may be thrown out without knowing it yet."""
        for holders in self._running.values():
            holders.pop(fact.host, None)
        if not (isinstance(fact, HostDown) and self._was_released(fact.host)):  # then it closes by itself
            self._disturbed(seen, fact)

    def _was_released(self, host: str) -> bool:
        found = (application.instances.get(host) for application in self.panel.applications.all.values())
        return any(instance is not None and instance.released for instance in found)

    # --- rest ------------------------------------------------------------------------------------------------------

    def _healed(self, seen: Seen, fact: Healed) -> None:
        self._healed_us = seen.at_us
        self._disturbed(seen, fact)

    def _disturbed(self, seen: Seen, fact: object) -> None:
        """Whatever it is, an application has to come to rest anew."""
        if self._healed_us is None:
            return
        self._healed_us = seen.at_us
        self._late.clear()
        for name in self.panel.applications.all:
            self._wrong[name] = "it"
            self._look(seen, name)

    def _group_became(self, seen: Seen, fact: GroupBecame) -> None:
        if fact.group in self.panel.applications.all:
            self._look(seen, fact.group)

    def _look(self, seen: Seen, name: GroupId) -> None:
        """Does it rest now?"""
        if self._healed_us is None or not self._wrong.get(name, "it"):
            return
        self._seq = seen.seq
        application = self.panel.applications.of(name)
        if seen.at_us > self._healed_us + self._bound_of(application):
            self._late.setdefault(name, self._wrong.get(name, "it"))
        self._wrong[name] = self._restless(name, application)

    def _restless(self, name: GroupId, application: WatchedApplication) -> str:
        """What keeps it from resting; "" if nothing does, or nobody is there."""
        group = self.panel.groups.get(name)
        staying = [host for host in application.instances if not self.panel.is_out(host)]
        if not staying or application.decided is None:
            return ""
        if group is None or group.state != "Stable":
            return f"the group is {'unknown' if group is None else group.state}"
        if application.unsettled or application.warmups:
            return at_work(application) or "a warm-up is missing"
        wrong = at_work(application)
        takers = [each for host in staying if not (each := application.instances[host]).leaving]
        tolerant = any(each.started.imbalance for each in takers)  # if all leave nothing moves
        if not wrong and tolerant and not is_balanced(self.panel, application):
            return "loads are outside the band of stream.imbalance.percentage"
        return wrong

    def _bound_of(self, application: WatchedApplication) -> int:
        """Warm-ups wait for the leader's next look, and as many at a time as there may be."""
        started = [each.started for each in application.instances.values()]
        looks_us = max((each.probing_us for each in started), default=0)
        tasks = 0 if application.decided is None else len(application.decided.stateful)
        at_a_time = max([1, *(each.warmups for each in started)])
        return self._bound_us + looks_us * (1 + -(-tasks // at_a_time))

    @property
    def satisfied(self) -> bool:
        """Whether all applications rested since they were disturbed last; never before ``Healed``, if there are any."""
        applications = self.panel.applications.all
        return not applications or (self._healed_us is not None and not any(self._wrong.values()))

    @property
    def judges_at_us(self) -> int | None:
        """The longest bound of those that still have to come to rest."""
        if self._healed_us is None or self.satisfied:
            return None
        return self._healed_us + max(
            self._bound_of(each) for name, each in self.panel.applications.all.items() if self._wrong.get(name)
        )

    def finish(self, at_us: int) -> None:
        """Judge what is overdue at the end; applications that did not come to rest within their bound."""
        self._duties.judge(Seen(self._seq, at_us, "", 0, None))
        if self._healed_us is None:
            return
        for name, application in self.panel.applications.all.items():
            bound_us = self._bound_of(application)
            wrong = self._late.get(name) or (self._wrong.get(name) if at_us >= self._healed_us + bound_us else "")
            if wrong:
                text = f"application {name} did not come to rest within {bound_us / 1e6:g} s: {wrong}"
                self.violation(Seen(self._seq, at_us, "", 0, None), "not-at-rest", (name,), text, liveness=True)

    # --- a leader's decision ---------------------------------------------------------------------------------------

    def _decided(self, seen: Seen, fact: TasksDecided) -> None:
        said = {row.process: row for row in fact.said}
        owners: dict[str, list[str]] = {}
        for row in fact.given:
            for task in row.assigned:
                owners.setdefault(task, []).append(row.process)
        self._owners(seen, fact, owners)
        self._moves(seen, fact, said, owners)
        self._furthest(seen, fact, said, owners)
        self._copies(seen, fact, said, owners)
        for row in fact.given:
            if row.shutdown and (not said[row.process].leaving or row.assigned or row.learning):
                self._broken(seen, fact, "shut-down-early", "", f"{row.process} is told to shut down and has {row}")

    def _owners(self, seen: Seen, fact: TasksDecided, owners: dict[str, list[str]]) -> None:
        """Each task has one owner, or is taken from its owner."""
        taken = {task for row in fact.given for task in row.revoked}
        for task in fact.tasks:
            count = len(owners.get(task, ()))
            if count > 1:
                self._broken(seen, fact, "owned-twice", task, f"{task} is given to {owners[task]}")
            elif not count and task not in taken and any(task in (*row.assigned, *row.revoked) for row in fact.said):
                self._broken(seen, fact, "task-lost", task, f"{task} is given to nobody and taken from nobody")

    def _moves(self, seen: Seen, fact: TasksDecided, said: dict[str, TasksSaid], owners: dict[str, list[str]]) -> None:
        """Who a task moves to."""
        for task in fact.stateful:
            keepers = [process for process, row in said.items() if task in row.assigned]
            new = owners.get(task, ())
            if len(keepers) == 1 and new and list(new) != keepers:
                text = f"{task} runs on {keepers[0]} and goes to {new[0]} without being paused"
                self._broken(seen, fact, "moved-while-running", task, text)
            ready = [process for process, row in said.items() if task in row.ready and not row.leaving]
            paused = any(task in row.revoked for row in said.values())
            if fact.learners and paused and not keepers and ready and not set(new) & set(ready):
                text = f"{task} is paused and ready on {ready}, and goes to {list(new) or 'nobody'}"
                self._broken(seen, fact, "ready-passed-over", task, text)

    # --- lags ------------------------------------------------------------------------------------------------------

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        self._completed_us[fact.group] = seen.at_us

    def _joined(self, seen: Seen, fact: StreamsJoined) -> None:
        key = fact.application, fact.instance
        said = dict(self._states.closed.get(key, ()))
        for copy in self.panel.applications.of(fact.application).copies.values():
            if copy.instance == fact.instance:
                said[copy.task] = max(said.get(copy.task, 0), copy.position)
        self._said[key] = said

    def _furthest(
        self, seen: Seen, fact: TasksDecided, said: dict[str, TasksSaid], owners: dict[str, list[str]]
    ) -> None:
        application = self.panel.applications.of(fact.application)
        leader = application.instances.get(fact.instance)
        late = seen.at_us - self._completed_us.get(fact.application, seen.at_us) > _KNOWS_ENDS_WITHIN_US
        if leader is None or not leader.started.probing_us or late:
            return

        def had(process: str, task: str) -> int:
            return self._said.get((fact.application, application.processes.get(process, "")), {}).get(task, 0)

        for task in fact.stateful:
            for new in owners.get(task, ()):
                host = application.processes.get(new, "")
                has = had(new, task) or self._states.may_have((fact.application, host, task))
                if has or task in (*said[new].assigned, *said[new].revoked):
                    continue
                best = max(said, key=lambda process: had(process, task))
                if had(best, task) > leader.started.ready_lag:
                    hosts = [application.processes.get(process, process) for process in (new, best)]
                    text = (
                        f"{task} goes to {hosts[0]}, which has nothing of it; "
                        f"{hosts[1]} had {had(best, task)} of its changelog's records"
                    )
                    self._broken(seen, fact, "state-passed-over", task, text)

    def _copies(self, seen: Seen, fact: TasksDecided, said: dict[str, TasksSaid], owners: dict[str, list[str]]) -> None:
        """Learners, standbys and roles."""
        learners = Counter(task for row in fact.given for task in row.learning)
        marked = {task for row in fact.given for task in row.being_learned}
        for row in fact.given:
            self._roles(seen, fact, row)
            if row.learning and said[row.process].leaving:
                text = f"{row.process} is leaving and is to learn {', '.join(row.learning)}"
                self._broken(seen, fact, "learner-misplaced", row.learning[0], text)
        for task, count in learners.items():
            if count > 1:
                self._broken(seen, fact, "learner-misplaced", task, f"{task} is learned by {count} instances")
            if task in owners and task not in marked:
                text = f"{task} is learned, and its owner is not told"
                self._broken(seen, fact, "marks-differ", task, text)
        for task in sorted(marked - set(learners)):
            self._broken(seen, fact, "marks-differ", task, f"the owner of {task} is told of a learner; there is none")

    def _roles(self, seen: Seen, fact: TasksDecided, row: TasksGiven) -> None:
        counts = Counter((*row.assigned, *row.learning, *row.standby))
        for task, count in counts.items():
            if count > 1:
                text = f"{row.process} has {task} in {count} roles"
                self._broken(seen, fact, "learner-misplaced", task, text)

    def _broken(self, seen: Seen, fact: TasksDecided, kind: str, task: str, text: str) -> None:
        self.violation(seen, kind, (fact.application, task) if task else (fact.application,), text)
