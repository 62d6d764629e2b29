"""The declarations of a run's figures, and the episodes that some figures count.

All times are microseconds of the world's clock. A figure is a sum over the groups unless its meaning says otherwise. A
figure of a ``FactCounter`` is declared in the module of its class (``emulator.metrics.figure.FactCounter``).

*Episode*: the time from an external event to lasting balance. External events are faults, operators' actions, growing
topics, and hosts of members that start, go down, pause or resume. Balance lasts if no rebalance follows before the next
event. Events before lasting balance belong to the same episode. The first formation of a group is no episode.

*Balance*: a group is Stable, every partition of its topics is owned, and no running member owns two more partitions
than another. A group without running members is balanced too. A member that closes revokes its partitions before its
host goes down. The event begins with the revocation, and balance at the revocation ends the previous episode. Streams
applications have episodes of their own (``emulator.metrics.task_moves``).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kemu.actors.coordinator.state import GroupState
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.facts import (
    FaultApplied,
    FaultEnded,
    Healed,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    MemberHostAdded,
    RunStarted,
    Seen,
    TopicGrown,
)
from kemu.emulator.metrics.figure import Better, Overall, Unit, Value, figure, values_of
from kemu.emulator.metrics.figures import (
    Applications,
    DelayFigures,
    Figures,
    FreshnessFigures,
    ReassignmentFigures,
    RecordFigures,
    ReplicationFigures,
)
from kemu.emulator.watching.panel import Panel
from kemu.protocol.frozen import frozen
from kemu.protocol.names import ActorName, host_of
from kemu.protocol.notes.groups import (
    GroupBecame,
    GroupLoaded,
    JoinPhaseCompleted,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from kemu.protocol.topic_pattern import TopicPattern


@frozen
class Episodes:
    """Sums over the episodes of all groups."""

    generations: int
    """Number of join phases that completed after the first formation of the group."""
    longest_us: int
    """The longest time from an event to balance; the rest of the run without later balance."""
    unfinished: int


class _Group:
    def __init__(self, topics: Sequence[str] | TopicPattern) -> None:
        self.topics = topics
        self.formed = False
        self.rounds = 0
        """Number of join phases that completed after the group was first balanced."""
        self.began_us = -1
        """Start of the current episode; -1 between two episodes."""
        self.balanced_us = -1
        """Start of the current balance; -1 without balance."""
        self.last_revocation: tuple[ActorName, int, int] | None = None
        """The last revocation that ended a balance: (the revoking member, start of the balance, end of the balance)."""
        self.longest_us = 0
        self.unfinished = 0
        self.served = False


class Costs:
    """Computes the figures of a run, and the episodes of groups. Call ``see`` with every fact in order, after the panel
    has taken the fact. Call ``finish`` and ``bill`` at the end of the run.

    ``topics``: the subscribed topics of each group, or their pattern.
    """

    def __init__(self, panel: Panel, topics: Mapping[str, Sequence[str] | TopicPattern]) -> None:
        self._panel = panel
        self._groups = {name: _Group(subscribed) for name, subscribed in topics.items()}
        self._finished = False
        self._on: dict[type, Callable[[Seen, Any], None]] = {
            RunStarted: self._look,
            MemberHostAdded: self._look,
            HostStarted: self._event,
            HostDown: self._down,
            HostPaused: self._event,
            HostResumed: self._event,
            TopicGrown: self._event,
            FaultApplied: self._event,
            FaultEnded: self._event,
            Healed: self._event,
            MemberFailed: self._look,
            GroupBecame: self._look,
            JoinPhaseCompleted: self._completed,
            GroupLoaded: self._look,
            PartitionsAssigned: self._look,
            PartitionsRevoked: self._revoked,
            PartitionsLost: self._look,
        }

    def wants(self, kind: type) -> bool:
        """Whether the episodes depend on facts of this type."""
        return kind in self._on

    def see(self, seen: Seen) -> None:
        """Count this fact; the panel has already taken it."""
        handler = self._on.get(type(seen.fact))
        if handler is not None:
            handler(seen, seen.fact)

    def finish(self, at_us: int) -> None:
        """Count unfinished episodes until the end of the run."""
        assert not self._finished, "a run ends once"
        self._finished = True
        for group in self._groups.values():
            self._end_episode(group)
            if group.began_us >= 0:
                group.unfinished += 1
                group.longest_us = max(group.longest_us, at_us - group.began_us)

    def bill(self, figures: Figures) -> dict[str, Value]:
        """Every declared figure by name, computed from the run's metrics and from the episodes."""
        streams = figures.streams
        groups = [group for name, group in self._groups.items() if name not in streams]
        longest_us = [group.longest_us for group in groups] + [each.to_balance_us for each in streams.values()]
        unfinished = [group.unfinished for group in groups] + [each.unfinished for each in streams.values()]
        episodes = Episodes(
            generations=sum(group.rounds for group in self._groups.values()),
            longest_us=max(longest_us, default=0),
            unfinished=sum(unfinished),
        )
        return {**values_of({Episodes: episodes}), **figures.values}

    # --- events ------------------------------------------------------------------------------------------------

    def _event(self, seen: Seen, fact: object) -> None:
        for group in self._groups.values():
            self._end_episode(group)
            if group.began_us < 0:
                group.began_us = seen.at_us
            group.balanced_us = -1
        self._look(seen, fact)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        if fact.how == Condition.CLOSED.value:
            for group in self._groups.values():
                if (
                    group.balanced_us < 0
                    and group.last_revocation is not None
                    and host_of(group.last_revocation[0]) == fact.host
                ):
                    _, group.balanced_us, ended_us = group.last_revocation
                    self._end_episode(group)
                    group.began_us = ended_us if group.began_us < 0 else group.began_us
        self._event(seen, fact)

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        group = self._groups.get(fact.group)
        balanced_us = -1 if group is None else group.balanced_us
        self._look(seen, fact)
        if group is not None and balanced_us >= 0 > group.balanced_us:
            group.last_revocation = (seen.actor, balanced_us, seen.at_us)

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        group = self._groups.get(fact.group)
        if group is not None and group.formed and fact.members and self._panel.is_current(seen):
            group.rounds += 1
        self._look(seen, fact)

    # --- judging -----------------------------------------------------------------------------------------------

    def _look(self, seen: Seen, fact: object) -> None:
        for name, group in self._groups.items():
            self._look_at(name, group, seen.at_us)

    def _look_at(self, name: str, group: _Group, at_us: int) -> None:
        holdings = self._panel.holdings
        running = self._panel.running_members(name)
        loads = [len(holdings[actor].owned) if actor in holdings else 0 for actor in running]
        group.served = group.served or any(loads)
        topics = group.topics
        if isinstance(topics, TopicPattern):
            topics = topics.among(self._panel.topics_there())
        wanted = sum(self._panel.topics.get(topic, 0) for topic in topics)
        watched = self._panel.groups.get(name)
        stable = watched is not None and watched.state == GroupState.STABLE.value
        balanced = stable and bool(loads) and sum(loads) == wanted and max(loads) - min(loads) <= 1
        if not balanced and running:
            group.balanced_us = -1
        elif group.balanced_us < 0:
            group.balanced_us, group.last_revocation = at_us, None

    def _end_episode(self, group: _Group) -> None:
        """End the episode at the start of the current balance. Without balance, the episode stays open."""
        if group.began_us < 0 or group.balanced_us < 0:
            return
        if group.formed:
            group.longest_us = max(group.longest_us, group.balanced_us - group.began_us)
        group.formed = group.formed or group.served
        group.began_us = -1


def parts_of(figures: Figures) -> dict[type, Any]:
    """The sources of a run's figures, by class; None for a part that the run lacks."""
    return {
        Figures: figures,
        DelayFigures: figures.delay,
        FreshnessFigures: figures.freshness,
        RecordFigures: figures.records,
        ReplicationFigures: figures.replication,
        ReassignmentFigures: figures.reassignment,
        Applications: Applications(tuple(figures.streams.values())) if figures.streams else None,
    }


def _last_first_stable_us(figures: Figures) -> int | None:
    stable = [group.first_stable_us for group in figures.groups.values()]
    known = [us for us in stable if us is not None]
    return max(known, default=None) if len(known) == len(stable) else None


_SECONDS, _PARTITION_SECONDS, _TASK_SECONDS = Unit.SECONDS, Unit.PARTITION_SECONDS, Unit.TASK_SECONDS

# fmt: off
# --- rebalances and balance ----------------------------------------------------------------------------------------
figure("rebalances", Unit.COUNT, "generations that began after the group had formed, follow-ups included",
       lambda episodes: episodes.generations, of=Episodes, column="")
figure("to_balance", _SECONDS, "longest time from an event to balance", lambda episodes: episodes.longest_us,
       of=Episodes, column="",
       how="A group is balanced when it is Stable, every partition is owned, and loads differ by at most 1. A Streams"
       " application is balanced when the loads of its instances are within their band.")
figure("unfinished", Unit.COUNT, "events without later balance", lambda episodes: episodes.unfinished,
       of=Episodes, column="")
figure("rebalances_in_all", Unit.COUNT, "rebalances, each counted once with its follow-ups",
       lambda figures: len(figures.rebalances), of=Figures, column="rebalances")
figure("first_stable", _SECONDS, "time until every group had been Stable", _last_first_stable_us, of=Figures)
figure("moved", Unit.COUNT, "partitions assigned to another member than before",
       lambda figures: sum(rebalance.moved for rebalance in figures.rebalances), of=Figures)
# --- service -------------------------------------------------------------------------------------------------------
figure("downtime_sum", _PARTITION_SECONDS, "time without service, summed over partitions",
       lambda figures: sum(figures.downtime_us.values()), of=Figures, column="downtime_us",
       how="A partition's downtime begins with the last record processed before an interruption, and ends with the"
       " first record processed after.")
figure("downtime_max", _SECONDS, "time without service of the worst partition",
       lambda figures: max(figures.downtime_us.values(), default=0), of=Figures)
figure("service_lost", _SECONDS, "share of partitions without service, integrated over time",
       lambda figures: sum(service.lost_us for service in figures.service.values()), of=Figures,
       how="All partitions of a group without service for one second are 1 s.")
figure("service_lost_max", Unit.PERCENT, "largest share of partitions without service at any moment",
       lambda figures: max((service.lost_max_percent for service in figures.service.values()), default=0.0),
       of=Figures, column="service_lost_max_percent")
figure("stopped", _SECONDS, "time in which no partition of a group had service",
       lambda figures: sum(service.stopped_us for service in figures.service.values()), of=Figures,
       column="stop_the_world_us")
# --- delay, lag, freshness, order ----------------------------------------------------------------------------------
figure("delay_p50", _SECONDS, "median time from append to processed, over all records", lambda delay: delay.p50_us,
       of=DelayFigures)
figure("delay_p99", _SECONDS, "99th percentile of the time from append to processed", lambda delay: delay.p99_us,
       of=DelayFigures)
figure("delay_max", _SECONDS, "longest time from append to processed", lambda delay: delay.max_us, of=DelayFigures,
       overall=Overall.MAX)
figure("lag_max", _SECONDS, "greatest age of the oldest waiting record, of any partition",
       lambda figures: max((row.max_lag_us for row in figures.lag), default=0), of=Figures, overall=Overall.MAX)
figure("max_lag", Unit.COUNT, "most records between the committed offset and the log end, of any partition",
       lambda figures: max((row.max_lag for row in figures.lag), default=0), of=Figures)
figure("newest_age", _SECONDS, "mean age of the newest processed record while a newer record waits",
       lambda fresh: fresh.newest_age_mean_us, of=FreshnessFigures, column="newest_age_mean_us")
figure("newest_age_max", _SECONDS, "greatest age of the newest processed record while newer records wait",
       lambda fresh: fresh.newest_age_max_us, of=FreshnessFigures)
figure("fresh_after", _SECONDS, "longest time from a member's arrival until a newer record was processed",
       lambda fresh: fresh.fresh_after_max_us, of=FreshnessFigures, column="fresh_after_max_us",
       how="A member's arrival counts if records wait on the partition when the member sets its position.")
figure("gap", _SECONDS, "longest time from a member's arrival until all waiting records were processed",
       lambda fresh: fresh.gap_max_us, of=FreshnessFigures, column="gap_max_us")
figure("reordered", Unit.COUNT, "records processed for the first time after a record with a higher offset",
       lambda fresh: fresh.reordered, of=FreshnessFigures)
figure("reorder_max", Unit.COUNT, "most offsets between a reordered record and the highest one processed before",
       lambda fresh: fresh.reorder_max, of=FreshnessFigures)
# --- records -------------------------------------------------------------------------------------------------------
figure("reprocessed", Unit.COUNT, "repeated processings of records", lambda figures: figures.reprocessed, of=Figures,
       how="A record that a group processes three times counts twice.")
figure("lost", Unit.COUNT, "records committed and never processed, or acknowledged and in no log",
       lambda figures: figures.lost, of=Figures, overall=Overall.SUM)
figure("acknowledged_lost", Unit.COUNT, "acknowledged records that are in no log",
       lambda figures: figures.acknowledged_lost, of=Figures)
figure("expected_losses", Unit.COUNT, "records lost as Kafka's rules allow (acks, unclean elections, flushes)",
       lambda figures: figures.expected_losses, of=Figures, overall=Overall.SUM)
figure("skipped", Unit.COUNT, "records that a seek, a reset or an operator's commit skipped",
       lambda figures: figures.skipped, of=Figures)
figure("zombie_records", Unit.COUNT, "records processed by a member that had lost the partition",
       lambda figures: figures.zombie_records, of=Figures)
figure("appended", Unit.COUNT, "records appended to the logs of topics", lambda records: records.appended,
       of=RecordFigures, better=Better.NEITHER)
figure("acknowledged", Unit.COUNT, "records that brokers acknowledged", lambda records: records.acknowledged,
       of=RecordFigures, better=Better.HIGHER)
figure("failed_records", Unit.COUNT, "records that producers gave up", lambda records: records.failed,
       of=RecordFigures, overall=None, column="failed")
figure("processed", Unit.COUNT, "records that groups processed, repetitions included",
       lambda records: records.processed, of=RecordFigures, better=Better.NEITHER)
# --- replication ---------------------------------------------------------------------------------------------------
figure("leader_changes", Unit.COUNT, "changes of partition leaders", lambda replicas: replicas.leader_changes,
       of=ReplicationFigures)
figure("leaderless", _PARTITION_SECONDS, "time without a leader, summed over partitions",
       lambda replicas: sum(replicas.leaderless_us.values()), of=ReplicationFigures)
figure("under_replicated", _PARTITION_SECONDS, "time with fewer in-sync than assigned replicas, summed over partitions",
       lambda replicas: sum(replicas.under_replicated_us.values()), of=ReplicationFigures)
figure("under_min_isr", _PARTITION_SECONDS, "time with an ISR below min.insync.replicas, summed over partitions",
       lambda replicas: sum(replicas.under_min_isr_us.values()), of=ReplicationFigures)
# --- reassignments -------------------------------------------------------------------------------------------------
figure("reassigning", _SECONDS, "time from the start of the first reassignment to the end of the last",
       lambda moves: moves.took_us, of=ReassignmentFigures)
figure("reassignment_steps", Unit.COUNT, "steps of all reassignments", lambda moves: len(moves.steps),
       of=ReassignmentFigures)
figure("moved_bytes", Unit.MEGABYTES, "data copied by replicas that were being added, until they were in sync",
       lambda moves: moves.moved_bytes, of=ReassignmentFigures)
figure("peak_extra", Unit.MEGABYTES_PER_S, "reassignment traffic of the busiest broker in its worst second",
       lambda moves: max(moves.peak_extra_bytes_per_s.values(), default=0), of=ReassignmentFigures,
       column="peak_extra_bytes_per_s")
figure("most_replicas", Unit.COUNT, "most replicas of any partition during its reassignment",
       lambda moves: moves.most_replicas, of=ReassignmentFigures)
figure("isr_changes", Unit.COUNT, "changes of the ISRs of partitions during their reassignment",
       lambda moves: moves.isr_changes, of=ReassignmentFigures)
# --- Streams applications ------------------------------------------------------------------------------------------
figure("task_downtime", _TASK_SECONDS, "time in which no instance could process a task, summed over tasks",
       lambda apps: apps.total(lambda app: sum(app.downtime_us.values())), of=Applications,
       how="The sum of task_detect, task_barrier, task_restore and task_pause.")
figure("task_downtime_max", _SECONDS, "time in which no instance could process the worst task",
       lambda apps: max(app.downtime_max_us for app in apps.all), of=Applications)
figure("task_detect", _TASK_SECONDS, "part of task_downtime until the group prepared for a rebalance",
       lambda apps: apps.total(lambda app: app.detect_us), of=Applications)
figure("task_barrier", _TASK_SECONDS, "part of task_downtime from task_detect's end until the new owner's assignment",
       lambda apps: apps.total(lambda app: app.barrier_us), of=Applications)
figure("task_restore", _TASK_SECONDS, "part of task_downtime from the new owner's assignment until the task ran",
       lambda apps: apps.total(lambda app: app.restore_us), of=Applications)
figure("task_pause", _TASK_SECONDS, "part of task_downtime of tasks that returned to their owner after a rebalance",
       lambda apps: apps.total(lambda app: app.pause_us), of=Applications)
figure("task_learning", _TASK_SECONDS, "time in which learners and warm-ups restored a task beside its owner",
       lambda apps: apps.total(lambda app: app.learner_us), of=Applications)
figure("task_idle_ready", _TASK_SECONDS, "part of task_learning in which a learner was ready and waited for its task",
       lambda apps: apps.total(lambda app: app.idle_ready_us), of=Applications)
figure("task_imbalance", _TASK_SECONDS, "excess tasks of the most loaded instance, integrated over time",
       lambda apps: apps.total(lambda app: app.imbalance_us), of=Applications)
figure("join_wait", Unit.MEMBER_SECONDS, "time in which threads waited for other members to join, summed over threads",
       lambda apps: apps.total(lambda app: sum(app.join_waits_us.values())), of=Applications)
figure("join_wait_max", _SECONDS, "time in which the worst thread waited for other members to join",
       lambda apps: max((us for app in apps.all for us in app.join_waits_us.values()), default=0), of=Applications)
figure("tasks_moved", Unit.COUNT, "tasks that moved from one living instance to another",
       lambda apps: apps.total(lambda app: app.moved), of=Applications)
figure("tasks_least", Unit.COUNT, "fewest moves of tasks that make loads even",
       lambda apps: apps.total(lambda app: app.min_moves), of=Applications, better=Better.NEITHER)
figure("read_bytes", Unit.MEGABYTES, "data read from changelogs by owners, learners, warm-ups and standbys",
       lambda apps: apps.total(lambda app: sum(app.read_bytes.values())), of=Applications)
figure("read_in_vain", Unit.MEGABYTES, "part of read_bytes for copies that were never used, or that another copy had",
       lambda apps: apps.total(lambda app: app.wasted_bytes), of=Applications, column="read_in_vain_bytes")
figure("rebalances_joined", Unit.COUNT, "generations of Streams groups that began for a new member",
       lambda apps: apps.generations("joined"), of=Applications, better=Better.NEITHER)
figure("rebalances_gone", Unit.COUNT, "generations after a member left or its session expired",
       lambda apps: apps.generations("gone"), of=Applications, better=Better.NEITHER)
figure("rebalances_ready", Unit.COUNT, "generations after a learner had caught up",
       lambda apps: apps.generations("ready"), of=Applications, better=Better.NEITHER)
figure("rebalances_leaving", Unit.COUNT, "generations for an instance that leaves, stays or is over its timeout",
       lambda apps: apps.generations("leaving", "expired"), of=Applications, better=Better.NEITHER)
figure("rebalances_follow_up", Unit.COUNT, "generations after a member revoked partitions for other members",
       lambda apps: apps.generations("follow-up"), of=Applications, better=Better.NEITHER)
figure("rebalances_probing", Unit.COUNT, "generations for KIP-441's probing rebalances",
       lambda apps: apps.generations("probing"), of=Applications, better=Better.NEITHER)
figure("rebalances_other", Unit.COUNT, "generations of Streams groups for any other reason",
       lambda apps: apps.generations("other"), of=Applications, better=Better.NEITHER)
figure("rebalances_empty", Unit.COUNT, "generations of Streams groups that moved no task",
       lambda apps: apps.total(lambda app: app.empty_rebalances), of=Applications)
# fmt: on
