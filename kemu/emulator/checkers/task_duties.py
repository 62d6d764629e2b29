"""Streams applications restore, commit and come to rest in time (part of
``tasks``).

A clock runs while the instance and the running brokers are undisturbed.
Progress restarts the clock.

- not-restored: a thread applies changelog records for its active copies;
  standbys and learners get records while the thread has no other copy to
  restore.
- uncommitted: a running thread of a Stable group commits within
  ``commit.interval.ms`` plus the duration of its work.
- no-follow-up, early-follow-up: a leader that assigned warm-ups starts a rebalance after
  ``probing.rebalance.interval.ms`` (KIP-441), not earlier.
- not-at-rest: after the faults all tasks run, no copy learns or warms up,
  and loads are balanced.

Exempt: a task whose directory another thread holds, and changelogs without
a leader.

Source: Kafka 3.4 ``StreamThread.runOnce``, ``StreamThread.maybeCommit``,
``StoreChangelogReader.restore``, ``TaskManager``.
"""

from collections.abc import Mapping, Sequence

from kemu.actors.machine import US_PER_MS
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
    each_of,
)
from kemu.emulator.watching.applications import ACTIVE, CREATED, RESTORING, RUNNING, WatchedApplication, WatchedCopy
from kemu.emulator.watching.balance import at_work, is_balanced
from kemu.emulator.watching.panel import Panel
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, GroupId, TopicPartition, broker_host, host_of
from kemu.protocol.notes.groups import (
    CommitAnswered,
    GroupBecame,
    GroupLoaded,
    OffsetCommitted,
    PositionSet,
    Processed,
    Rejoin,
)
from kemu.protocol.notes.replication import BecameLeader
from kemu.protocol.notes.streams import TaskBecame, TaskRestored, TasksDecided

PROGRESS_US = 60_000_000
"""Longest time for a thread to find a leader, the end of a changelog and its first records, or to rejoin: twice
request.timeout.ms, in us."""
COMMIT_US = 10_000_000
"""Longest time for a thread to flush its changelogs and to commit, besides its other work, in us."""
FLUSH_US = 1_000_000
"""Longest delay of a commit that was made, in addition to a quarter of the interval, without a disturbance for
``PROGRESS_US``, in us."""
LOOKS_US = 5_000_000
SLICE_US = 200_000
"""Longest interval between reports of a thread that applies records without a pause (in slices of 100 ms), in us."""


def undisturbed_since_us(panel: Panel, *instances: str) -> int | None:
    """Time since which these instances and the running brokers are undisturbed, in us; None during a fault."""
    brokers = [broker for broker in panel.applications.brokers if panel.runs(broker)]
    return panel.disturbances.undisturbed_since_us([*instances, *brokers]) if brokers else None


class _Thread:
    """A thread's last progress, and the duration of its work."""

    def __init__(self) -> None:
        self.advanced_us = 0
        """Time at which the thread last applied records for an active task, or one of its tasks changed, in us."""
        self.applied_us = 0
        self.busy_us = 0
        """Total time of applying records without a pause, in us."""
        self.work_us = 0
        """Longest time between two polls with work, in us."""


class _Uncommitted:
    """Records that a thread processed and did not commit."""

    def __init__(self, thread: ActorName, fact: Processed, at_us: int) -> None:
        self.thread = thread
        self.since_us = at_us
        """Time of the processing of the first uncommitted record, or of the last commit, in us."""
        self.first = fact.last
        """The least offset that the next commit must have."""
        self.end = fact.last
        self.at_us = at_us
        """Time of the processing of the last uncommitted record, in us."""


class TaskDuties:
    """Judges deadlines of tasks. ``Tasks`` documents the arguments."""

    def __init__(self, checker: Checker, bound_us: int, commit_us: Mapping[GroupId, int]) -> None:
        self._checker = checker
        self._bound_us = bound_us
        self.commit_us = commit_us
        self.first_us: dict[int, None] = {}
        """Times at which hosts started for the first time, in us."""
        self.broker_changed_us = 0
        """Time at which a broker last started or stopped, or a partition got another leader, in us."""
        self.uncommitted: dict[tuple[GroupId, TopicPartition], _Uncommitted] = {}
        self.refused_us: dict[ActorName, int] = {}
        """Thread -> time of the last failed commit, in us."""
        self._threads: dict[ActorName, _Thread] = {}
        self._progress_us: dict[int, tuple[int, int]] = {}
        """Number of a copy -> (time of the last progress or of a position without missing records, ``busy_us`` of the
        thread at this time), in us."""
        self._decided_us: dict[GroupId, int] = {}
        """Application whose leader assigned warm-ups -> time of the assignment in us, until the group prepares for a
        rebalance."""
        self._stable_us: dict[GroupId, int] = {}
        """Group -> time of the last change of state, in us."""
        self._reported: dict[tuple[str, object], None] = {}
        """(kind, entity) of the violations that were reported."""
        self._healed_us: int | None = None
        """Time of the end of the faults, or of the last later disturbance, in us; None before the end."""
        self._why_not_at_rest: dict[GroupId, str] = {}
        """Application -> reason why the application was not at rest at the last look; "" after rest."""
        self._late: dict[GroupId, str] = {}
        """Application -> reason why the application was not at rest at the end of the bound."""
        self._seq = 0
        self.on: dict[type, Handler] = {
            HostStarted: self._host_changed,
            HostDown: self._host_changed,
            BecameLeader: self._leads,
            TaskBecame: self._became,
            TaskRestored: self._restored,
            Processed: self._processed,
            PositionSet: self._positioned,
            OffsetCommitted: each_of(self._committed),
            CommitAnswered: self._answered,
            TasksDecided: self._decided,
            GroupBecame: self._group_became,
            GroupLoaded: self._group_loaded,
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
        for key in [key for key, pending in self.uncommitted.items() if host_of(pending.thread) == fact.host]:
            del self.uncommitted[key]
        instances = (application.instances.get(fact.host) for application in self._all.values())
        released = any(instance is not None and instance.released for instance in instances)
        if not (isinstance(fact, HostDown) and released):  # a released instance closes by itself
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
        pending = self.uncommitted.get(key)
        if pending is None or pending.thread != seen.actor:
            self.uncommitted[key] = _Uncommitted(seen.actor, fact, seen.at_us)
        else:
            pending.end, pending.at_us = fact.last, seen.at_us

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        self.uncommitted.pop((fact.group, (fact.topic, fact.partition)), None)

    def _committed(self, seen: Seen, facts: Sequence[OffsetCommitted]) -> None:
        for fact in facts if self.uncommitted else ():
            self._offset_committed(seen, fact)

    def _offset_committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        key = fact.group, (fact.topic, fact.partition)
        pending = self.uncommitted.get(key)
        if pending is not None and fact.offset >= pending.first:
            self._judge_commit(seen, *key, pending, done=True)
        if pending is not None and fact.offset >= pending.end:
            del self.uncommitted[key]
        elif pending is not None and fact.offset >= pending.first:
            pending.since_us, pending.first = seen.at_us, pending.end

    def _answered(self, seen: Seen, fact: CommitAnswered) -> None:
        if fact.error is not ErrorCode.NONE:
            self.refused_us[seen.actor] = seen.at_us

    def _decided(self, seen: Seen, fact: TasksDecided) -> None:
        application = self._all[fact.application]
        leader = application.instances.get(fact.instance)
        self._decided_us.pop(fact.application, None)
        if application.warmups and leader is not None and leader.started.probing_us:
            self._decided_us[fact.application] = seen.at_us

    def _group_loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        if fact.group in self._all:
            self._look(seen, fact.group)

    def _group_became(self, seen: Seen, fact: GroupBecame) -> None:
        if fact.group not in self._all:
            return
        self._look(seen, fact.group)
        self._stable_us[fact.group] = seen.at_us
        if fact.new != "PreparingRebalance" or not self._checker.panel.is_current(seen):
            return
        decided_us, probing_us = self._decided_us.pop(fact.group, None), self._probing_us(fact.group)
        if decided_us is None or Rejoin.PROBING not in fact.why:
            return
        # the leader's clock counts whole milliseconds (``StreamsPartitionAssignor``: ``time.milliseconds()``, 3.4)
        if seen.at_us < decided_us // US_PER_MS * US_PER_MS + probing_us:
            text = f"{fact.group} probes for a rebalance {(seen.at_us - decided_us) / 1e6:g} s after its leader decided"
            self._checker.violation(seen, "early-follow-up", (fact.group,), f"{text}, not {probing_us / 1e6:g} s")

    def _probing_us(self, name: GroupId) -> int:
        """The probing interval of the last leader, in us."""
        application = self._all[name]
        return (
            0 if application.decided is None else application.instances[application.decided.instance].started.probing_us
        )

    # --- overdue -----------------------------------------------------------------------------------------------

    def judge(self, seen: Seen) -> None:
        """Judge the open duties."""
        for name, application in self._all.items():
            waiting = {
                copy.actor
                for copy in application.copies.values()
                if copy.role == ACTIVE and copy.state in (CREATED, RESTORING)
            }
            for copy in application.copies.values():
                since_us = self._undisturbed_us(copy.instance)
                if since_us is not None and (copy.state == RUNNING) != (copy.role == ACTIVE):
                    self._judge_restore(seen, copy, since_us, waits=copy.role != ACTIVE and copy.actor in waiting)
            self._judge_follow_up(seen, name, application)
        for (name, at), pending in self.uncommitted.items():
            self._judge_commit(seen, name, at, pending)

    def _undisturbed_us(self, *instances: str) -> int | None:
        """Time since which these instances and the running brokers work undisturbed, in us; None during a fault."""
        since_us = undisturbed_since_us(self._checker.panel, *instances)
        return None if since_us is None else max(since_us, self.broker_changed_us)

    def _judge_restore(self, seen: Seen, copy: WatchedCopy, since_us: int, *, waits: bool) -> None:
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
                f"{copy.position}, lacks {missing} records, and got none for {idle_us / 1e6:.0f} s"
            )
            self._say(seen, "not-restored", copy.number, (copy.application, copy.task), text)

    def _is_led(self, copy: WatchedCopy) -> bool:
        """Whether the changelog has a leader; True where leaders cannot change."""
        panel = self._checker.panel
        at = copy.changelog
        return at is None or not panel.logs.of(at).leader or at in panel.leaders

    def _judge_follow_up(self, seen: Seen, name: GroupId, application: WatchedApplication) -> None:
        decided_us = self._decided_us.get(name)
        if decided_us is None:
            return
        since_us = self._undisturbed_us(*[host for host in application.instances if self._checker.panel.runs(host)])
        bound_us = self._probing_us(name) + PROGRESS_US
        if since_us is not None and seen.at_us > max(since_us, decided_us) + bound_us:
            text = f"the leader of {name} assigned warm-ups at {decided_us / 1e6:g} s, and the group did not rebalance"
            self._say(seen, "no-follow-up", decided_us, (name,), f"{text} within {bound_us / 1e6:g} s")

    def _judge_commit(
        self, seen: Seen, name: GroupId, at: TopicPartition, pending: _Uncommitted, *, done: bool = False
    ) -> None:
        panel, thread = self._checker.panel, self._thread(pending.thread)
        group, since_us = panel.groups.get(name), self._undisturbed_us(host_of(pending.thread))
        if name not in self.commit_us or group is None or group.state != "Stable":
            return
        writes = [copy.changelog for copy in self._all[name].copies.values() if copy.actor == pending.thread]
        if since_us is None or not group.coordinator or not all(map(self._is_written, [panel.log_of(name), *writes])):
            pending.since_us = seen.at_us
            return
        begun_us = max(pending.since_us, self._stable_us.get(name, 0), self.refused_us.get(pending.thread, 0))
        interval_us = self.commit_us[name]
        if since_us not in self.first_us and begun_us < since_us + PROGRESS_US:
            begun_us, bound_us = max(begun_us, since_us), interval_us + COMMIT_US + PROGRESS_US
        else:
            bound_us = interval_us + (interval_us // 4 + FLUSH_US if done else COMMIT_US)
        bound_us += 2 * thread.work_us
        if seen.at_us > begun_us + bound_us and seen.at_us > thread.applied_us + COMMIT_US:
            end = f"{pending.first} by {pending.since_us / 1e6:g} s"
            text = f"{pending.thread} processed {at[0]}-{at[1]} of {name} to {end}"
            who = (name, f"{at[0]}-{at[1]}")
            self._say(seen, "uncommitted", who, who, f"{text}, and did not commit within {bound_us / 1e6:g} s")

    def _is_written(self, at: TopicPartition | None) -> bool:
        """Whether records of a partition can be committed: the partition has a leader and enough running in-sync
        replicas.
        """
        panel = self._checker.panel
        state = None if at is None else panel.states.get(at)
        if at is None or state is None:
            return True
        enough = at in panel.leaders and len(state.isr) >= panel.min_insync.of(at)
        return enough and all(panel.runs(broker_host(broker)) for broker in state.isr)

    def _say(self, seen: Seen, kind: str, key: object, who: tuple[str, ...], text: str) -> None:
        if (kind, key) not in self._reported:
            self._reported[kind, key] = None
            self._checker.violation(seen, kind, who, text, liveness=True)

    # --- rest --------------------------------------------------------------------------------------------------

    def _healed(self, seen: Seen, fact: Healed) -> None:
        self._healed_us = seen.at_us
        self._disturbed(seen, fact)

    def _disturbed(self, seen: Seen, fact: object) -> None:
        """Restart the bound at a disturbance."""
        if self._healed_us is None:
            return
        self._healed_us = seen.at_us
        self._late.clear()
        for name in self._all:
            self._why_not_at_rest[name] = "it"
            self._look(seen, name)

    def _look(self, seen: Seen, name: GroupId) -> None:
        """Note whether an application is at rest now."""
        if self._healed_us is None or not self._why_not_at_rest.get(name, "it"):
            return
        self._seq = seen.seq
        application = self._all[name]
        if seen.at_us > self._healed_us + self._rest_us(application):
            self._late.setdefault(name, self._why_not_at_rest.get(name, "it"))
        self._why_not_at_rest[name] = self._reason_not_at_rest(name, application)

    def _reason_not_at_rest(self, name: GroupId, application: WatchedApplication) -> str:
        """Explanation why the application is not at rest; "" at rest, or without a running instance."""
        panel = self._checker.panel
        group = panel.groups.get(name)
        staying = [host for host in application.instances if not panel.is_out(host)]
        if not staying or application.decided is None:
            return ""
        if group is None or group.state != "Stable":
            return f"the group is {'unknown' if group is None else group.state}"
        if application.unsettled or application.warmups:
            return at_work(application) or "a warm-up is missing"
        why = at_work(application)
        takers = [each for host in staying if not (each := application.instances[host]).leaving]
        if not why and any(each.started.imbalance for each in takers) and not is_balanced(panel, application):
            return "loads are outside the band of stream.imbalance.percentage"
        return why

    def _rest_us(self, application: WatchedApplication) -> int:
        """Longest time until rest, in us. Warm-ups wait for the leader's probing rebalance, and their number is
        limited.
        """
        started = [each.started for each in application.instances.values()]
        looks_us = max((each.probing_us for each in started), default=0)
        tasks = 0 if application.decided is None else len(application.decided.stateful)
        at_a_time = max([1, *(each.warmups for each in started)])
        return self._bound_us + looks_us * (1 + -(-tasks // at_a_time))

    @property
    def satisfied(self) -> bool:
        """See ``Tasks``."""
        return not self._all or (self._healed_us is not None and not any(self._why_not_at_rest.values()))

    @property
    def judges_at_us(self) -> int | None:
        """See ``Tasks``."""
        if self._healed_us is None or self.satisfied:
            return None
        return self._healed_us + max(
            self._rest_us(each) for name, each in self._all.items() if self._why_not_at_rest.get(name)
        )

    def finish(self, at_us: int) -> None:
        """See ``Tasks``."""
        end = Seen(self._seq, at_us, "", 0, None)
        self.judge(end)
        for name, application in self._all.items() if self._healed_us is not None else ():
            bound_us, why = self._rest_us(application), self._late.get(name)
            if not why and at_us >= (self._healed_us or 0) + bound_us:
                why = self._why_not_at_rest.get(name)
            if why:
                text = f"application {name} did not come to rest within {bound_us / 1e6:g} s: {why}"
                self._checker.violation(end, "not-at-rest", (name,), text, liveness=True)
