"""What Streams applications must get done in time, also during faults: a part of the checker of tasks.

A clock runs while the instance and the brokers that are up work undisturbed. Each step of progress starts it anew.

===============  ===================================================================  ================================
kind             obligation                                                           bound
===============  ===================================================================  ================================
not-restored     a copy that lacks records of its changelog applies some: an active   ``PROGRESS_US``, and the longest
                 one, or another one of its thread; a standby or learner, while its   work of the thread so far
                 thread applies none for others
uncommitted      a running thread of a Stable group commits what it processed         ``commit.interval.ms``, twice the
                                                                                      work, and ``COMMIT_US``; soon
                                                                                      after a fault ``PROGRESS_US``
                                                                                      more
no-follow-up     a leader that gave out warm-ups has its group rebalance again        ``probing.rebalance.interval.ms``
                 (KIP-441)                                                            and ``PROGRESS_US``
early-follow-up  ... and not for that reason before                                   the same, alone
not-at-rest      after the healing all tasks run, nobody learns or warms up, and      the scenario's, and a probing
                 loads are within their band                                          rebalance for each round of
                                                                                      warm-ups
===============  ===================================================================  ================================

Exempt: a task whose directory another thread of the instance holds, and changelogs without a leader. Source: Kafka 3.4
``StreamThread.runOnce``, ``StreamThread.maybeCommit``, ``StoreChangelogReader.restore``, ``TaskManager``.
"""

from collections.abc import Mapping

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import (
    FaultApplied,
    FaultEnded,
    Handler,
    Healed,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    Seen,
    TopicGrown,
)
from kemu.emulator.watching.applications import ACTIVE, CREATED, RESTORING, RUNNING, WatchedApplication, WatchedCopy
from kemu.emulator.watching.balance import at_work, is_balanced
from kemu.emulator.watching.panel import Panel
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, GroupId, TopicPartition, broker_host, host_of
from kemu.protocol.notes.groups import CommitAnswered, GroupBecame, OffsetCommitted, PositionSet, Processed, Rejoin
from kemu.protocol.notes.replication import BecameLeader
from kemu.protocol.notes.streams import TaskBecame, TaskRestored, TasksDecided

PROGRESS_US = 60_000_000
"""How long a thread may take to find a leader, ask where a changelog ends, and fetch, or for its next join: two times
request.timeout.ms."""
COMMIT_US = 10_000_000
"""How long a thread may take to flush its changelogs and to commit, beside its other work."""
FLUSH_US = 1_000_000
"""The same, and a quarter of the interval, once it is done, where nothing was disturbed for ``PROGRESS_US``."""
LOOKS_US = 5_000_000
SLICE_US = 200_000
"""A thread that applies records without a pause tells of some at least so often: it applies for 100 ms at a time."""


def undisturbed_since_us(panel: Panel, *instances: str) -> int | None:
    """Since when these instances work undisturbed with the brokers that are up; None: a fault hits one of them now."""
    brokers = [broker for broker in panel.applications.brokers if panel.runs(broker)]
    return panel.disturbances.undisturbed_since_us([*instances, *brokers]) if brokers else None


class _Thread:
    """The last work of a thread, and how long its work takes."""

    def __init__(self) -> None:
        self.advanced_us = 0
        """When it applied something for an active task, or a task of its changed."""
        self.applied_us = 0
        self.busy_us = 0
        """For how long it has applied records without a pause, summed."""
        self.work_us = 0
        """The longest time between two polls of its consumer for work."""


class _Owed:
    """Records that a thread processed and nobody committed."""

    def __init__(self, thread: ActorName, fact: Processed, at_us: int) -> None:
        self.thread = thread
        self.since_us = at_us
        """When the first of them were processed, or the last commit was made."""
        self.first = fact.last
        """The end of those that a commit must have at least."""
        self.end = fact.last
        self.at_us = at_us
        """When the last of them were processed."""


class TaskDuties:
    """See the module. ``bound_us``, ``commit_us``: see ``Tasks``."""

    def __init__(self, checker: Checker, bound_us: int, commit_us: Mapping[GroupId, int]) -> None:
        self._checker = checker
        self._bound_us = bound_us
        self.commit_us = commit_us
        self.first_us: dict[int, None] = {}
        """When hosts started for the first time."""
        self.broker_changed_us = 0
        """When a broker started or went down last, or a partition got another leader."""
        self.owed: dict[tuple[GroupId, TopicPartition], _Owed] = {}
        self.refused_us: dict[ActorName, int] = {}
        """Thread -> when a commit of it was answered with an error last."""
        self._threads: dict[ActorName, _Thread] = {}
        self._progress_us: dict[int, tuple[int, int]] = {}
        """Number of a copy -> when it applied something last, or lacked nothing, and ``busy_us`` of its thread then."""
        self._decided_us: dict[GroupId, int] = {}
        """Application whose leader gave out warm-ups -> when; until the group prepares for a rebalance."""
        self._stable_us: dict[GroupId, int] = {}
        """When the group became what it is."""
        self._told: dict[tuple[str, object], None] = {}
        """What was said of whom."""
        self._healed_us: int | None = None
        """When everything was healed, or disturbed last since; None before."""
        self._wrong: dict[GroupId, str] = {}
        """By application what kept it from resting when it was looked at last; "" once it rested."""
        self._late: dict[GroupId, str] = {}
        """The same at the end of the bound."""
        self._seq = 0
        self.on: dict[type, Handler] = {
            HostStarted: self._host_changed,
            HostDown: self._host_changed,
            BecameLeader: self._leads,
            TaskBecame: self._became,
            TaskRestored: self._restored,
            Processed: self._processed,
            PositionSet: self._positioned,
            OffsetCommitted: self._committed,
            CommitAnswered: self._answered,
            TasksDecided: self._decided,
            GroupBecame: self._group_became,
            HostPaused: self._disturbed,
            HostResumed: self._disturbed,
            FaultApplied: self._disturbed,
            FaultEnded: self._disturbed,
            TopicGrown: self._disturbed,
            Healed: self._healed,
        }

    @property
    def _all(self) -> Mapping[GroupId, WatchedApplication]:
        return self._checker.panel.applications.all

    def _thread(self, actor: ActorName) -> _Thread:
        return self._threads.setdefault(actor, _Thread())

    # --- facts -------------------------------------------------------------------------------------------------

    def _host_changed(self, seen: Seen, fact: HostStarted | HostDown) -> None:
        panel = self._checker.panel
        if isinstance(fact, HostStarted) and fact.life == 1:
            self.first_us[seen.at_us] = None
        if fact.host in panel.applications.brokers:
            self.broker_changed_us = seen.at_us
        for key in [key for key, owed in self.owed.items() if host_of(owed.thread) == fact.host]:
            del self.owed[key]
        instances = (application.instances.get(fact.host) for application in self._all.values())
        released = any(instance is not None and instance.released for instance in instances)
        if not (isinstance(fact, HostDown) and released):  # then it closes by itself
            self._disturbed(seen, fact)

    def _leads(self, seen: Seen, fact: BecameLeader) -> None:
        self.broker_changed_us = seen.at_us

    def _became(self, seen: Seen, fact: TaskBecame) -> None:
        copy = self._checker.panel.applications.changed
        assert copy is not None, "the panel takes it first"
        thread = self._thread(copy.actor)
        thread.advanced_us = seen.at_us
        self._progress_us[copy.number] = seen.at_us, thread.busy_us
        self._look(seen, fact.application)

    def _restored(self, seen: Seen, fact: TaskRestored) -> None:
        copy = self._all[fact.application].copies.get((fact.task, fact.instance, fact.thread))
        if copy is None:
            return
        thread = self._thread(copy.actor)
        pause_us, thread.applied_us = seen.at_us - thread.applied_us, seen.at_us
        thread.busy_us += pause_us if pause_us <= SLICE_US else 0
        self._progress_us[copy.number] = seen.at_us, thread.busy_us
        if fact.role == ACTIVE:
            thread.advanced_us = seen.at_us

    def _processed(self, seen: Seen, fact: Processed) -> None:
        if fact.group not in self._all:
            return
        thread, key = self._thread(seen.actor), (fact.group, (fact.topic, fact.partition))
        thread.work_us = max(thread.work_us, seen.at_us - fact.started_us)
        owed = self.owed.get(key)
        if owed is None or owed.thread != seen.actor:
            self.owed[key] = _Owed(seen.actor, fact, seen.at_us)
        else:
            owed.end, owed.at_us = fact.last, seen.at_us

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        self.owed.pop((fact.group, (fact.topic, fact.partition)), None)

    def _committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        key = fact.group, (fact.topic, fact.partition)
        owed = self.owed.get(key)
        if owed is not None and fact.offset >= owed.first:
            self._commits(seen, *key, owed, done=True)
        if owed is not None and fact.offset >= owed.end:
            del self.owed[key]
        elif owed is not None and fact.offset >= owed.first:
            owed.since_us, owed.first = seen.at_us, owed.end

    def _answered(self, seen: Seen, fact: CommitAnswered) -> None:
        if fact.error is not ErrorCode.NONE:
            self.refused_us[seen.actor] = seen.at_us

    def _decided(self, seen: Seen, fact: TasksDecided) -> None:
        application = self._all[fact.application]
        leader = application.instances.get(fact.instance)
        self._decided_us.pop(fact.application, None)
        if application.warmups and leader is not None and leader.started.probing_us:
            self._decided_us[fact.application] = seen.at_us

    def _group_became(self, seen: Seen, fact: GroupBecame) -> None:
        if fact.group not in self._all:
            return
        self._look(seen, fact.group)
        self._stable_us[fact.group] = seen.at_us
        if fact.new != "PreparingRebalance" or not self._checker.panel.is_current(seen):
            return
        decided_us, probing_us = self._decided_us.pop(fact.group, None), self._probing_us(fact.group)
        if decided_us is not None and Rejoin.PROBING in fact.why and seen.at_us < decided_us + probing_us:
            text = (
                f"{fact.group} rebalances to look again {(seen.at_us - decided_us) / 1e6:g} s after its leader decided"
            )
            self._checker.violation(seen, "early-follow-up", (fact.group,), f"{text}, not {probing_us / 1e6:g} s")

    def _probing_us(self, name: GroupId) -> int:
        """The interval of the leader that decided last."""
        application = self._all[name]
        return (
            0 if application.decided is None else application.instances[application.decided.instance].started.probing_us
        )

    # --- overdue -----------------------------------------------------------------------------------------------

    def judge(self, seen: Seen) -> None:
        """Look at what is owed."""
        for name, application in self._all.items():
            waiting = {
                copy.actor
                for copy in application.copies.values()
                if copy.role == ACTIVE and copy.state in (CREATED, RESTORING)
            }
            for copy in application.copies.values():
                since_us = self._undisturbed_us(copy.instance)
                if since_us is not None and (copy.state == RUNNING) != (copy.role == ACTIVE):
                    self._restores(seen, copy, since_us, waits=copy.role != ACTIVE and copy.actor in waiting)
            self._follows_up(seen, name, application)
        for (name, at), owed in self.owed.items():
            self._commits(seen, name, at, owed)

    def _undisturbed_us(self, *instances: str) -> int | None:
        """Since when these instances work with the brokers that are up; None: a fault hits them."""
        since_us = undisturbed_since_us(self._checker.panel, *instances)
        return None if since_us is None else max(since_us, self.broker_changed_us)

    def _restores(self, seen: Seen, copy: WatchedCopy, since_us: int, *, waits: bool) -> None:
        thread, is_active = self._thread(copy.actor), copy.role == ACTIVE
        missing = self._checker.panel.applications.missing_of(copy)
        if is_active:
            others = [each for each in self._all[copy.application].of(copy.task) if each is not copy]
            if copy.state not in (CREATED, RESTORING):
                return
            if copy.state == CREATED and any(each.instance == copy.instance for each in others):
                return
        if not self._is_led(copy) or (not is_active and (waits or not missing)):
            self._progress_us[copy.number] = seen.at_us, thread.busy_us
            thread.advanced_us = seen.at_us if is_active else thread.advanced_us
        applied_us, busy_us = self._progress_us.get(copy.number, (0, 0))
        idle_us = seen.at_us - max(since_us, thread.advanced_us)
        if not is_active:
            idle_us = min(idle_us, seen.at_us - max(since_us, applied_us)) - (thread.busy_us - busy_us)
        if idle_us > PROGRESS_US + thread.work_us:
            text = (
                f"the {copy.role} copy of {copy.task} of {copy.application} on {copy.actor} is {copy.state} at "
                f"{copy.position}, lacks {missing} records, and for {idle_us / 1e6:.0f} s nothing was restored for it"
            )
            self._say(seen, "not-restored", copy.number, (copy.application, copy.task), text)

    def _is_led(self, copy: WatchedCopy) -> bool:
        """Whether a broker leads the changelog; where leaders cannot change it is led."""
        panel = self._checker.panel
        at = copy.changelog
        return at is None or not panel.logs.of(at).leader or at in panel.leaders

    def _follows_up(self, seen: Seen, name: GroupId, application: WatchedApplication) -> None:
        decided_us = self._decided_us.get(name)
        if decided_us is None:
            return
        since_us = self._undisturbed_us(*[host for host in application.instances if self._checker.panel.runs(host)])
        bound_us = self._probing_us(name) + PROGRESS_US
        if since_us is not None and seen.at_us > max(since_us, decided_us) + bound_us:
            text = f"the leader of {name} gave out warm-ups at {decided_us / 1e6:g} s, and the group did not rebalance"
            self._say(seen, "no-follow-up", decided_us, (name,), f"{text} within {bound_us / 1e6:g} s")

    def _commits(self, seen: Seen, name: GroupId, at: TopicPartition, owed: _Owed, *, done: bool = False) -> None:
        panel, thread = self._checker.panel, self._thread(owed.thread)
        group, since_us = panel.groups.get(name), self._undisturbed_us(host_of(owed.thread))
        if name not in self.commit_us or group is None or group.state != "Stable":
            return
        writes = [copy.changelog for copy in self._all[name].copies.values() if copy.actor == owed.thread]
        if since_us is None or not group.coordinator or not all(map(self._is_written, [panel.log_of(name), *writes])):
            owed.since_us = seen.at_us
            return
        begun_us = max(owed.since_us, self._stable_us.get(name, 0), self.refused_us.get(owed.thread, 0))
        interval_us = self.commit_us[name]
        if since_us not in self.first_us and begun_us < since_us + PROGRESS_US:
            begun_us, bound_us = max(begun_us, since_us), interval_us + COMMIT_US + PROGRESS_US
        else:
            bound_us = interval_us + (interval_us // 4 + FLUSH_US if done else COMMIT_US)
        bound_us += 2 * thread.work_us
        if seen.at_us > begun_us + bound_us and seen.at_us > thread.applied_us + COMMIT_US:
            text = f"{owed.thread} processed {at[0]}-{at[1]} of {name} to {owed.first} by {owed.since_us / 1e6:g} s"
            who = (name, f"{at[0]}-{at[1]}")
            self._say(seen, "uncommitted", who, who, f"{text}, and did not commit that within {bound_us / 1e6:g} s")

    def _is_written(self, at: TopicPartition | None) -> bool:
        """Whether records of a partition are committed: it is led, has enough in sync, and all of those run."""
        panel = self._checker.panel
        state = None if at is None else panel.states.get(at)
        if at is None or state is None:
            return True
        enough = at in panel.leaders and len(state.isr) >= panel.min_insync.of(at)
        return enough and all(panel.runs(broker_host(broker)) for broker in state.isr)

    def _say(self, seen: Seen, kind: str, key: object, who: tuple[str, ...], text: str) -> None:
        if (kind, key) not in self._told:
            self._told[kind, key] = None
            self._checker.violation(seen, kind, who, text, liveness=True)

    # --- rest --------------------------------------------------------------------------------------------------

    def _healed(self, seen: Seen, fact: Healed) -> None:
        self._healed_us = seen.at_us
        self._disturbed(seen, fact)

    def _disturbed(self, seen: Seen, fact: object) -> None:
        """Whatever it is, an application has to come to rest anew."""
        if self._healed_us is None:
            return
        self._healed_us = seen.at_us
        self._late.clear()
        for name in self._all:
            self._wrong[name] = "it"
            self._look(seen, name)

    def _look(self, seen: Seen, name: GroupId) -> None:
        """Does it rest now?"""
        if self._healed_us is None or not self._wrong.get(name, "it"):
            return
        self._seq = seen.seq
        application = self._all[name]
        if seen.at_us > self._healed_us + self._rest_us(application):
            self._late.setdefault(name, self._wrong.get(name, "it"))
        self._wrong[name] = self._restless(name, application)

    def _restless(self, name: GroupId, application: WatchedApplication) -> str:
        """The reason why the application is not at rest; "" if it is at rest or has no instance that runs."""
        panel = self._checker.panel
        group = panel.groups.get(name)
        staying = [host for host in application.instances if not panel.is_out(host)]
        if not staying or application.decided is None:
            return ""
        if group is None or group.state != "Stable":
            return f"the group is {'unknown' if group is None else group.state}"
        if application.unsettled or application.warmups:
            return at_work(application) or "a warm-up is missing"
        wrong = at_work(application)
        takers = [each for host in staying if not (each := application.instances[host]).leaving]
        if not wrong and any(each.started.imbalance for each in takers) and not is_balanced(panel, application):
            return "loads are outside the band of stream.imbalance.percentage"
        return wrong

    def _rest_us(self, application: WatchedApplication) -> int:
        """Warm-ups wait for the leader's next look, and as many at a time as there may be."""
        started = [each.started for each in application.instances.values()]
        looks_us = max((each.probing_us for each in started), default=0)
        tasks = 0 if application.decided is None else len(application.decided.stateful)
        at_a_time = max([1, *(each.warmups for each in started)])
        return self._bound_us + looks_us * (1 + -(-tasks // at_a_time))

    @property
    def satisfied(self) -> bool:
        """See ``Tasks``."""
        return not self._all or (self._healed_us is not None and not any(self._wrong.values()))

    @property
    def judges_at_us(self) -> int | None:
        """See ``Tasks``."""
        if self._healed_us is None or self.satisfied:
            return None
        return self._healed_us + max(self._rest_us(each) for name, each in self._all.items() if self._wrong.get(name))

    def finish(self, at_us: int) -> None:
        """See ``Tasks``."""
        end = Seen(self._seq, at_us, "", 0, None)
        self.judge(end)
        for name, application in self._all.items() if self._healed_us is not None else ():
            bound_us, wrong = self._rest_us(application), self._late.get(name)
            if not wrong and at_us >= (self._healed_us or 0) + bound_us:
                wrong = self._wrong.get(name)
            if wrong:
                text = f"application {name} did not come to rest within {bound_us / 1e6:g} s: {wrong}"
                self._checker.violation(end, "not-at-rest", (name,), text, liveness=True)
