"""Tasks of Streams applications: one owner each, moved only when paused or learned, nothing lost and nothing doubled.

Theory (KIP-429, page version 99, and what any task assignor must keep):

* I1: a task is not active and running on two instances at once while the coordinator has both as members. A member
  that the coordinator removed may work on until it hears so; metrics count the records that it processes again.
* I2: a task with state that runs, and that its owner has not paused, does not go to another owner in one rebalance.
* I3: if a learner of a paused task is ready and stays, a ready learner of it becomes its owner.
* I4: nobody learns what it owns, nobody is leaving that learns, a task has one learner at most, an instance one role.
* I5: every task has an owner, or is taken from the one that had it for the rebalance that follows.
* I6: an application that is left alone comes to rest: nobody learns, warms up, restores or is paused, every task runs;
  and where its leader keeps loads in a band (stage 4), they are in it, unless all leave. Judged like liveness: there
  must be such a moment within the bound after everything is healed (or after the last disturbance since), and where a
  leader looks at warm-ups by the clock, within as many of its intervals as all tasks would take.
* I7: who is told to shut down is leaving and has nothing left.
* I8: what owners are told is being learned is what others learn.
* I9: the committed offset of a source partition does not go back, and nobody begins behind it: what lies between would
  be read by nobody (an application resets to the earliest offset, never to the latest). Where an operator, a lost log
  or its retention moved one of the two, what was known of it does not count. A commit that was read from a connection
  which its client had left (``LateCommit``) may be an older one.
* I10: under exactly once, state that was open when its process died is of no use: it may hold what was never committed,
  so that the next life begins anew. (A power cut may bring back what a disk had before: that is not judged.)
* I11: a task with state does not go to an instance that said it has nothing of it while another one that said it has
  more than ``acceptable.recovery.lag`` of it stays without it. What instances said is where their copies were when they
  joined. Asked of assignors that look at lags (KIP-441), and of leaders that could read where changelogs end.
"""

from collections import Counter
from collections.abc import Collection

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.liveness import DEFAULT_BOUND_US
from kemu.emulator.facts import (
    DiskTailLost,
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
from kemu.emulator.watching.applications import CLOSED, CREATED, RESTORING, RUNNING, WatchedApplication
from kemu.emulator.watching.balance import at_work, is_balanced
from kemu.protocol.names import NO_GENERATION, OFFSETS_TOPIC, GroupId, TopicPartition
from kemu.protocol.notes.groups import (
    COMMITTED,
    SEEK,
    GroupBecame,
    JoinPhaseCompleted,
    MemberRemoved,
    OffsetCommitted,
    OffsetRemoved,
    PositionSet,
)
from kemu.protocol.notes.replication import BecameLeader
from kemu.protocol.notes.streams import StreamsJoined, TaskBecame, TasksDecided, TasksGiven, TasksSaid

At = tuple[str, str]
"""(application, task)"""


_UNKNOWN = -1
_KILLED = "process"
"""How a host goes down whose disk is as its process left it."""
_KNOWS_ENDS_WITHIN_US = 5_000_000
"""A leader that decides later than this after the join phase was not told where changelogs end."""


class Tasks(Checker):
    """See the module. ``bound_us``: how long after the faults end applications may take to come to rest.

    ``exactly_once``: the applications whose state is of no use unless it was closed.
    """

    name = "tasks"

    def __init__(self, bound_us: int = DEFAULT_BOUND_US, exactly_once: Collection[GroupId] = ()) -> None:
        super().__init__()
        self._exactly_once = frozenset(exactly_once)
        self._open: dict[tuple[GroupId, str, str], None] = {}
        """(application, task, host) whose state was open when the host's process died."""
        self._on_disk: dict[tuple[GroupId, str], dict[str, int]] = {}
        """(application, host) -> task -> how far a copy was that was closed."""
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
        self._committed: dict[tuple[GroupId, TopicPartition], int] = {}
        """What is committed for a partition; ``_UNKNOWN`` where that is not certain."""
        self.on = {
            TaskBecame: self._became,
            TasksDecided: self._decided,
            GroupBecame: self._group_became,
            MemberRemoved: self._member_removed,
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
            OffsetCommitted: self._offset_committed,
            OffsetRemoved: self._offset_removed,
            PositionSet: self._positioned,
            DiskTailLost: self._lost_tail,
            BecameLeader: self._leads,
        }

    # --- I1 --------------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        at = fact.application, fact.task
        self._looks_at_state(seen, fact)
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

    # --- I10 -------------------------------------------------------------------------------------------------------

    def _looks_at_state(self, seen: Seen, fact: TaskBecame) -> None:
        """What a copy begins with; and what is left of one that is closed."""
        key = fact.application, fact.task, fact.instance
        if fact.state == CLOSED:
            self._on_disk.setdefault((fact.application, fact.instance), {})[fact.task] = fact.position
        if fact.before == CREATED and key in self._open:
            del self._open[key]
            if fact.position > 0:
                text = (
                    f"{fact.task} of {fact.application} begins on {fact.instance} at {fact.position} of its changelog, "
                    "with state that was open when the process died"
                )
                self.violation(seen, "open-state-kept", (fact.application, fact.task), text)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for copy in self.panel.applications.ended:
            key = copy.application, copy.task, copy.instance
            self._open.pop(key, None)
            if fact.how == _KILLED and copy.application in self._exactly_once and copy.state in (RUNNING, RESTORING):
                self._open[key] = None
        self._gone(seen, fact)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        if not fact.kept_disk:
            for key in [key for key in self._open if key[2] == fact.host]:
                del self._open[key]
            for known in (self._on_disk, self._said):
                for at in [at for at in known if at[1] == fact.host]:
                    del known[at]
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

    # --- I6 --------------------------------------------------------------------------------------------------------

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
        """Who did not come to rest in time did not; a run that ended before says nothing."""
        if self._healed_us is None:
            return
        for name, application in self.panel.applications.all.items():
            bound_us = self._bound_of(application)
            wrong = self._late.get(name) or (self._wrong.get(name) if at_us >= self._healed_us + bound_us else "")
            if wrong:
                text = f"application {name} did not come to rest within {bound_us / 1e6:g} s: {wrong}"
                self.violation(Seen(self._seq, at_us, "", 0, None), "not-at-rest", (name,), text, liveness=True)

    # --- I9 --------------------------------------------------------------------------------------------------------

    def _offset_committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        if fact.group not in self.panel.applications.all or not self.panel.is_current(seen):
            return
        key = fact.group, (fact.topic, fact.partition)
        before = self._committed.get(key, _UNKNOWN)
        if fact.generation != NO_GENERATION and fact.offset < before and not self.panel.commits.late:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{fact.member_id} committed {fact.offset} of {name} of {fact.group}, where {before} was committed"
            self.violation(seen, "committed-back", (fact.group, name), text)
        self._committed[key] = fact.offset

    def _offset_removed(self, seen: Seen, fact: OffsetRemoved) -> None:
        self._forget(fact.group, (fact.topic, fact.partition))

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        if fact.group not in self.panel.applications.all:
            return
        at = fact.topic, fact.partition
        key = fact.group, at
        start, committed = self.panel.logs.of(at).records.start, self._committed.get(key)
        if fact.why == SEEK or (fact.why != COMMITTED and committed is not None):
            self._forget(*key)
        elif committed != _UNKNOWN and fact.offset > max(committed or 0, start):
            name = f"{fact.topic}-{fact.partition}"
            known = "nothing was committed" if committed is None else f"{committed} was committed"
            text = f"{seen.actor} begins {name} of {fact.group} at {fact.offset} ({fact.why}); {known}"
            self.violation(seen, "records-skipped", (fact.group, name), text)

    def _forget(self, group: GroupId, at: TopicPartition) -> None:
        if (group, at) in self._committed:
            self._committed[group, at] = _UNKNOWN

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        if fact.log.startswith(OFFSETS_TOPIC):
            self._committed = dict.fromkeys(self._committed, _UNKNOWN)

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        """A partition of the groups' log may have lost its end, and commits with it."""
        if fact.topic == OFFSETS_TOPIC and self.panel.logs.changed:
            self._committed = dict.fromkeys(self._committed, _UNKNOWN)

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
        """I5, and no task with two owners."""
        taken = {task for row in fact.given for task in row.revoked}
        for task in fact.tasks:
            count = len(owners.get(task, ()))
            if count > 1:
                self._broken(seen, fact, "owned-twice", task, f"{task} is given to {owners[task]}")
            elif not count and task not in taken and any(task in (*row.assigned, *row.revoked) for row in fact.said):
                self._broken(seen, fact, "task-lost", task, f"{task} is given to nobody and taken from nobody")

    def _moves(self, seen: Seen, fact: TasksDecided, said: dict[str, TasksSaid], owners: dict[str, list[str]]) -> None:
        """I2 and I3."""
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

    # --- I11 -------------------------------------------------------------------------------------------------------

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        self._completed_us[fact.group] = seen.at_us

    def _joined(self, seen: Seen, fact: StreamsJoined) -> None:
        key = fact.application, fact.instance
        said = dict(self._on_disk.get(key, ()))
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
                if task in (*said[new].assigned, *said[new].revoked) or had(new, task):
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
        """I4 and I8."""
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
