"""Each Streams task has one owner, runs with its state, and commits.

- not-one-owner: a leader assigns each task to one instance, or revokes it.
- moved-while-running: a stateful task does not move to another instance while its owner still runs it.
- state-passed-over: a caught-up learner or instance gets the task (``acceptable.recovery.lag``, KIP-441).
- copies-misplaced: one role per instance; standbys and warm-ups as
  configured.
- shut-down-early: only a leaving instance without tasks is shut down.
- runs-twice, runs-unowned: no task runs on two members, or on a member that lost the task.
- runs-without-state: a task runs only with its changelog.
- checkpoint-without-state, checkpoint-lost: a copy begins at its disk's
  last checkpoint.
- open-state-kept: exactly-once discards state open at a kill.
- given-up-uncommitted: a thread commits before it revokes.
- not-restored, uncommitted, no-follow-up, early-follow-up, not-at-rest: see
  ``task_duties``.

``commits`` judges the group's log.

Source: Kafka 3.4 ``StreamsPartitionAssignor``,
``HighAvailabilityTaskAssignor``, ``ProcessorStateManager``,
``TaskManager.handleRevocation``; KIP-429, page version 99.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Self

from kemu.emulator.checkers.base import NEVER_US, Checker
from kemu.emulator.checkers.liveness import DEFAULT_BOUND_US
from kemu.emulator.checkers.task_duties import FLUSH_US, LOOKS_US, TaskDuties, undisturbed_since_us
from kemu.emulator.facts import DiskTailLost, HostDown, HostStarted, Seen, UnflushedLost
from kemu.emulator.watching.applications import ACTIVE, RUNNING, WatchedCopy
from kemu.emulator.watching.settings import Settings
from kemu.protocol.names import GroupId, host_of
from kemu.protocol.notes.groups import (
    JoinPhaseCompleted,
    PartitionsLost,
    PartitionsRevoked,
    ProduceFailed,
)
from kemu.protocol.notes.streams import TaskBecame, TasksDecided

_KNOWS_ENDS_WITHIN_US = 5_000_000
"""Longest time in us from the join phase to the decision of a leader that learned the ends of the changelogs."""
_TRIES_US = 60_000_000
"""Time after a fault within which a commit may still fail: ``default.api.timeout.ms``, in us."""
CLOSED_HOST = "closed"
Broken = Iterator[tuple[str, str, str]]
"""A broken rule of a task assignment: (kind, task, text)."""


class _Decision:
    """The lags and tasks that members reported to the group's leader, and the leader's assignment."""

    def __init__(self, fact: TasksDecided) -> None:
        self.fact = fact
        self.said = {row.process: row for row in fact.said}
        self.owners: dict[str, list[str]] = {}
        """Task -> processes that get the task."""
        for row in fact.given:
            for task in row.assigned:
                self.owners.setdefault(task, []).append(row.process)


class Tasks(Checker):
    """Judges assignments, states and commits of Streams tasks.

    Args:
        bound_us: longest time between the end of the faults and the rest of applications.
        exactly_once: applications that discard open state.
        commit_us: application -> ``commit.interval.ms`` in us; other applications are not judged.
    """

    name = "tasks"
    kinds = (
        "checkpoint-lost",
        "checkpoint-without-state",
        "copies-misplaced",
        "early-follow-up",
        "given-up-uncommitted",
        "moved-while-running",
        "no-follow-up",
        "not-at-rest",
        "not-one-owner",
        "not-restored",
        "open-state-kept",
        "runs-twice",
        "runs-unowned",
        "runs-without-state",
        "shut-down-early",
        "state-passed-over",
        "uncommitted",
    )

    def __init__(
        self,
        bound_us: int = DEFAULT_BOUND_US,
        exactly_once: Collection[GroupId] = (),
        commit_us: Mapping[GroupId, int] | None = None,
    ) -> None:
        super().__init__()
        self._exactly_once = frozenset(exactly_once)
        self._duties = TaskDuties(self, bound_us, commit_us or {})
        self._completed_us: dict[GroupId, int] = {}
        """Group -> time of the end of the last join phase, in us."""
        self._held: dict[GroupId, set[str]] = {}
        """Group -> tasks with an active copy at that time. The leader decides by what members said before."""
        self._had: dict[int, list[tuple[int, int]]] = {}
        """Number of a running copy -> (time, applied offset) at each look since the last certain checkpoint."""
        self._checkpointed: dict[tuple[GroupId, str, str], int] = {}
        """(application, instance, task) -> checkpoint of the last killed copy."""
        self._unwritten: dict[str, None] = {}
        """Instances with a failed write to a changelog, so that the changelog may lack records."""
        self.on = {
            HostDown: self._down,
            HostStarted: self._started,
            ProduceFailed: self._write_failed,
            DiskTailLost: self._disk_lost,
            UnflushedLost: self._disk_lost,
            TasksDecided: self._decided,
            JoinPhaseCompleted: self._completed,
            TaskBecame: self._became,
            PartitionsLost: self._lost,
            PartitionsRevoked: self._revoked,
        }
        self.shown_to(self._duties.on)
        self.looks_us = LOOKS_US

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        streams = settings.streams
        made = cls(
            settings.scenario.stable_within_us,
            [name for name, each in streams.items() if each.exactly_once],
            {name: each.commit_interval_ms * 1_000 for name, each in streams.items()},
        )
        return made if streams else made.at_rest()

    def look(self, seen: Seen) -> None:
        """Judge every few seconds."""
        self.looks_us = seen.at_us + LOOKS_US
        self._duties.judge(seen)
        for name, application in self.panel.applications.all.items():
            written_us = self._written_us(seen, name)
            for copy in application.copies.values() if name not in self._exactly_once else ():
                if copy.state == RUNNING:
                    had = self._had.get(copy.number, [])
                    newest = [each for each in had if each[0] < written_us][-1:]
                    later = [each for each in had if each[0] >= written_us]
                    self._had[copy.number] = [*newest, *later, (seen.at_us, copy.applied)]

    @property
    def satisfied(self) -> bool:
        """Whether all applications were at rest since the last disturbance; False before ``Healed``."""
        return self._duties.satisfied

    @property
    def judges_at_us(self) -> int | None:
        """End of the longest bound of applications that are not at rest, in us."""
        return self._duties.judges_at_us

    def finish(self, at_us: int) -> None:
        """Judge overdue duties, and applications that are not at rest at the end of the run."""
        self._duties.finish(at_us)

    # --- a leader's decision ---------------------------------------------------------------------------------------

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        self._completed_us[fact.group] = seen.at_us
        if (application := self.panel.applications.all.get(fact.group)) is not None:
            self._held[fact.group] = {copy.task for copy in application.copies.values() if copy.role == ACTIVE}

    def _decided(self, seen: Seen, fact: TasksDecided) -> None:
        made = _Decision(fact)
        rules = (
            *(self._owners(made), _moves(made), _copies(made), _shutdowns(made)),
            *((self._passed_over(made), self._standbys(made)) if self._may_know_ends(seen, made) else ()),
        )
        for rule in rules:
            for kind, task, text in rule:
                entities = (fact.application, task) if task else (fact.application,)
                self.violation(seen, kind, entities, text)

    def _owners(self, made: _Decision) -> Broken:
        """Judge owners. A restoring copy keeps its partitions until its instance reports, and no other instance gets
        the task earlier.
        """
        taken = {task for row in made.fact.given for task in row.revoked}
        had = {task for row in made.fact.said for task in (*row.assigned, *row.revoked)}
        copies = self.panel.applications.of(made.fact.application)
        before = self._held.get(made.fact.application, set())
        for task in made.fact.tasks:
            owners = made.owners.get(task, [])
            held = made.fact.learners or task in before or any(copy.role == ACTIVE for copy in copies.of(task))
            if len(owners) > 1:
                yield "not-one-owner", task, f"{task} is assigned to {owners}"
            elif not owners and task not in taken and (task in had or not held):
                yield "not-one-owner", task, f"{task} is neither assigned nor revoked"

    def _may_know_ends(self, seen: Seen, made: _Decision) -> bool:
        """Whether the leader may know the ends of the changelogs. Without the ends, it uses
        ``FallbackPriorTaskAssignor``: previous owners keep their tasks, whatever the load.
        """
        asked_us = self._completed_us.get(made.fact.application, seen.at_us)
        return seen.at_us - asked_us <= _KNOWS_ENDS_WITHIN_US

    def _passed_over(self, made: _Decision) -> Broken:
        """Judge state. With lags (KIP-441) a caught-up instance gets a task; otherwise an instance with some of the
        state gets the task.
        """
        fact, name = made.fact, made.fact.application
        application = self.panel.applications.of(name)
        leader = application.instances.get(fact.instance)
        if leader is None or not leader.started.probing_us:
            return
        lag = leader.started.ready_lag

        def had(process: str, task: str) -> tuple[int, int]:
            """Fewest and most records of the task that the process may have.

            State beyond the end of a truncated changelog is corrupt (``ClientState.computeTaskLags``).
            """
            instance = application.instances.get(application.processes.get(process, ""))
            least, most, unless_open = (0, 0, 0) if instance is None else instance.had(task)
            changelog = application.changelog_of(task)
            end = 0 if changelog is None else self.panel.readable.end(changelog)
            return min(least, end), unless_open if name in self._exactly_once else most

        for task in fact.stateful:
            for new in made.owners.get(task, ()):
                runs = [process for process, row in made.said.items() if task in (*row.assigned, *row.revoked)]
                if new in runs:
                    continue
                best = max(made.said, key=lambda process: (process in runs, had(process, task)[0]))
                least, most = had(best, task)[0], had(new, task)[1]
                if least > lag and (not most or least - most > lag):
                    hosts = [application.processes.get(process, process) for process in (new, best)]
                    text = (
                        f"{task} goes to {hosts[0]}, which has {most or 'nothing'} of it; "
                        f"{hosts[1]} had {least} of its changelog's records"
                    )
                    yield "state-passed-over", task, text
        for row in fact.given:
            others = [process for process in made.said if process != row.process]
            instance = application.instances.get(application.processes.get(row.process, ""))
            several = instance is not None and instance.started.weight > 1
            stays = row.standby if several else ()  # another thread of the instance may run these tasks next
            taken = [task for task in row.revoked if task in made.said[row.process].assigned and task not in stays]
            for task in taken:
                least, most = had(row.process, task)[0], max([had(process, task)[1] for process in others], default=-1)
                if task not in made.owners and least > lag and 0 <= most < least - lag:
                    owner = application.processes.get(row.process, row.process)
                    text = f"{task} is taken from {owner}, which had {least} of its changelog's records"
                    yield "state-passed-over", task, f"{text}; no other instance had more than {most}"

    def _standbys(self, made: _Decision) -> Broken:
        """Judge standbys and warm-ups by ``HighAvailabilityTaskAssignor``."""
        application = self.panel.applications.of(made.fact.application)
        instances = {process: application.instances.get(host) for process, host in application.processes.items()}
        leader = application.instances.get(made.fact.instance)
        threads = {  # the assignor counts the threads in the group (``ClientState.incrementCapacity``)
            row.process: len(each.known) or each.started.weight
            for row in made.fact.given
            if (each := instances.get(row.process))
        }
        if leader is None or leader.started.assignor != "ha" or len(threads) < len(made.fact.given):
            return
        given = {row.process: (row.assigned, row.standby) for row in made.fact.given}
        yield from misplaced(given, made.fact.stateful, threads, leader.started.standbys, leader.started.warmups)

    # --- owners ----------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        applications = self.panel.applications
        copy = applications.changed
        assert copy is not None, "the panel takes it first"
        if applications.disk_found is not None:
            self._judge_begin(seen, copy, *applications.disk_found)
        if not copy.works or (applications.role_before, applications.state_before) == (ACTIVE, RUNNING):
            return
        for other in applications.of(copy.application).of(copy.task):
            is_paused = other.was_paused or self.panel.hosts[other.instance].paused
            if other.instance == copy.instance or not other.works or is_paused:
                continue
            # a removed member may not know of its removal yet, and its restore may end then
            members = self.panel.memberships
            is_late = copy.since_us < other.since_us and not members.has(copy.application, copy.actor)
            if not is_late and members.has(copy.application, other.actor):
                self._say(seen, "runs-twice", copy, f"runs on {copy.instance} and on {other.instance}")
        if applications.lacks_state(copy):
            text = f"runs on {copy.instance} with {copy.applied} of the {copy.due} records that its changelog had"
            self._say(seen, "runs-without-state", copy, f"{text} when its restore began")

    def _judge_begin(self, seen: Seen, copy: WatchedCopy, least: int, furthest: int, was_open: bool) -> None:
        begins = f"begins on {copy.instance} at {copy.position} of its changelog"
        checkpointed = self._checkpointed.pop((copy.application, copy.instance, copy.task), 0)
        if was_open and copy.position and copy.application in self._exactly_once:
            self._say(seen, "open-state-kept", copy, f"{begins}, with state that was open when the process died")
        if copy.changelog is not None and copy.position > furthest:
            text = f"{begins}, but no copy on that disk was past {furthest}"
            self._say(seen, "checkpoint-without-state", copy, text)
        if copy.changelog is not None and copy.position < least:
            self._say(seen, "checkpoint-lost", copy, f"{begins}; the last copy there was closed at {least}")
        elif copy.changelog is not None and copy.position < checkpointed:
            text = f"{begins}; the killed copy had {checkpointed} an interval before"
            self._say(seen, "checkpoint-lost", copy, text)

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def _down(self, seen: Seen, fact: HostDown) -> None:
        """Note the checkpoints of killed copies; a running copy writes a checkpoint at each ``commit.interval.ms``."""
        for copy in self.panel.applications.ended:
            written_us = self._written_us(seen, copy.application)
            had = [applied for at_us, applied in self._had.pop(copy.number, []) if at_us < written_us]
            if had and fact.how != CLOSED_HOST and not copy.was_paused and fact.host not in self._unwritten:
                self._checkpointed[copy.application, copy.instance, copy.task] = had[-1]

    def _written_us(self, seen: Seen, application: GroupId) -> int:
        """Latest time whose state is certainly in a checkpoint, in us."""
        return seen.at_us - self._duties.commit_us.get(application, NEVER_US) * 11 // 10 - FLUSH_US

    def _write_failed(self, seen: Seen, fact: ProduceFailed) -> None:
        self._unwritten[host_of(seen.actor)] = None

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        self._unwritten.pop(fact.host, None)
        if not fact.kept_disk:
            self._disk_lost(seen, fact)

    def _disk_lost(self, seen: Seen, fact: HostStarted | DiskTailLost | UnflushedLost) -> None:
        for key in [key for key in self._checkpointed if key[1] == fact.host]:
            del self._checkpointed[key]

    def _say(self, seen: Seen, kind: str, copy: WatchedCopy, text: str) -> None:
        self.violation(seen, kind, (copy.application, copy.task), f"{copy.task} of {copy.application} {text}")

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        """Judge the copies of a thread that lost its partitions; other threads may own the tasks now."""
        application = self.panel.applications.all.get(fact.group)
        for copy in () if application is None else application.copies.values():
            if copy.works and copy.actor == seen.actor:
                self._say(seen, "runs-unowned", copy, f"runs on {seen.actor}, which lost its partitions")

    # --- revocations -----------------------------------------------------------------------------------------------

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        for at in fact.revoked:
            pending = self._duties.uncommitted.pop((fact.group, at), None)
            if pending is not None and pending.thread == seen.actor and not self._may_have_failed(seen, pending.at_us):
                name, committed = f"{at[0]}-{at[1]}", self.panel.commits.of(fact.group, at)
                text = (
                    f"{seen.actor} revokes {name} of {fact.group}, processed to {pending.end}, committed to {committed}"
                )
                self.violation(seen, "given-up-uncommitted", (fact.group, name), text)

    def _may_have_failed(self, seen: Seen, since_us: int) -> bool:
        """Whether a fault or an error may have prevented the commit of records processed since this time."""
        if self._duties.refused_us.get(seen.actor, -1) >= since_us:
            return True
        undisturbed_us = undisturbed_since_us(self.panel, host_of(seen.actor))
        if undisturbed_us is None or undisturbed_us > since_us:
            return True
        begun_us = max(undisturbed_us, self._duties.broker_changed_us)
        return begun_us not in self._duties.first_us and begun_us + _TRIES_US > seen.at_us


def misplaced(
    given: Mapping[str, tuple[Collection[str], Collection[str]]],
    stateful: Collection[str],
    threads: Mapping[str, int],
    standbys: int,
    warmups: int,
) -> Broken:
    """Yield the faults of a layout by KIP-441. ``given``: process -> (active tasks, standbys and warm-ups)."""
    copies = Counter(task for _, others in given.values() for task in others)
    least, extra, owned = min(standbys, len(given) - 1), 0, {task for active, _ in given.values() for task in active}
    for task in stateful:
        # Until its owner has revoked a moving task, the next owner has a standby of the task.
        extra += max(0, copies[task] - least - (task not in owned))
        if copies[task] < least:
            yield "copies-misplaced", task, f"{task} has {copies[task]} standbys, instead of {least}"
    if extra > warmups:
        yield "copies-misplaced", "", f"there are {extra} warm-ups; at most {warmups} may be"
    if standbys or extra >= warmups or not owned.issuperset(stateful):
        return  # the next owner of each task is not known
    wanted = {
        process: len([task for task in active if task in stateful and not copies[task]]) + len(others)
        for process, (active, others) in given.items()
    }
    for full, most in wanted.items():
        for free, count in wanted.items():
            if (most - 1) * threads[free] >= (count + 1) * threads[full]:
                text = f"{full} gets {most} tasks for {threads[full]} threads, {free} {count} for {threads[free]}"
                yield "copies-misplaced", "", text


def _moves(made: _Decision) -> Broken:
    for task in made.fact.stateful:
        keepers = [process for process, row in made.said.items() if task in row.assigned]
        new = made.owners.get(task, [])
        if len(keepers) == 1 and new and new != keepers:
            yield "moved-while-running", task, f"{task} runs on {keepers[0]} and goes to {new[0]} without a pause"
        ready = [process for process, row in made.said.items() if task in row.ready and not row.leaving]
        paused = any(task in row.revoked for row in made.said.values())
        if made.fact.learners and paused and not keepers and ready and not set(new) & set(ready):
            text = f"{task} is paused and ready on {ready}, but goes to {new or 'no instance'}"
            yield "state-passed-over", task, text


def _copies(made: _Decision) -> Broken:
    learners = Counter(task for row in made.fact.given for task in row.learning)
    marked = {task for row in made.fact.given for task in row.being_learned}
    for row in made.fact.given:
        for task, count in Counter((*row.assigned, *row.learning, *row.standby)).items():
            if count > 1:
                yield "copies-misplaced", task, f"{row.process} has {task} in {count} roles"
        if row.learning and made.said[row.process].leaving:
            text = f"{row.process} is leaving, but gets learner tasks {', '.join(row.learning)}"
            yield "copies-misplaced", row.learning[0], text
    for task, count in learners.items():
        if count > 1:
            yield "copies-misplaced", task, f"{task} has {count} learners"
        if task in made.owners and task not in marked:
            yield "copies-misplaced", task, f"{task} has a learner that its owner does not know"
    for task in sorted(marked - set(learners)):
        yield "copies-misplaced", task, f"the owner of {task} expects a learner, but there is none"


def _shutdowns(made: _Decision) -> Broken:
    for row in made.fact.given:
        if row.shutdown and (not made.said[row.process].leaving or row.assigned or row.learning):
            yield "shut-down-early", "", f"{row.process} is shut down although it has {row}"
