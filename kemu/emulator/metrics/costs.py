"""What the events of a run cost its groups, as figures that protocols and assignors can be compared by.

An observer beside the metrics. All times are microseconds of the world's clock; figures are sums over the groups where
``FIGURES`` says nothing else.

*Episode*: from an event from outside (a fault or an operator's action, a member's host that starts, goes down, pauses
or resumes, a topic that grows) to the first instant of *balance* that is not followed by another rebalance before the
next event. Events that come before that belong to the same episode. A group is balanced when it is Stable, every
partition of its topics is owned, and no running member owns two more than another; or no member runs. What a group
needs to form at first is no episode. A member that closes gives its partitions up before its host goes down: that event
begins when it gives them up, and balance that lasted until then ended the episode before. A Streams application has
its own: ``emulator.metrics.task_moves``.

All other figures are those of ``emulator.metrics.metrics``.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from attrs import frozen

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
from kemu.emulator.metrics.figures import (
    Figures,
    leaderless_us,
    longest_lag_us,
    peak_extra,
    streams_sums,
    under_replicated_us,
)
from kemu.emulator.watching.panel import Panel
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

STABLE = "Stable"
CLOSED = "closed"
"""``HostDown.how`` of a host that ended by itself."""


@frozen
class Bill:
    """The figures of one run, as ``FIGURES`` defines them; times in microseconds, None where there is none."""

    rebalances: int
    moved: int
    downtime_sum: int
    downtime_max: int
    service_lost: int
    service_lost_max: float
    stopped: int
    to_balance: int
    delay_p50: int | None
    delay_p99: int | None
    delay_max: int | None
    lag_max: int
    newest_age: int
    newest_age_max: int
    fresh_after: int
    gap: int
    reorder_max: int
    reprocessed: int
    lost: int
    expected_losses: int
    leaderless: int
    unfinished: int
    reassigning: int | None
    moved_bytes: int | None
    peak_extra: int | None
    most_replicas: int | None
    isr_changes: int | None
    under_replicated: int | None
    task_downtime: int | None
    task_downtime_max: int | None
    task_detect: int | None
    task_barrier: int | None
    task_restore: int | None
    task_pause: int | None
    task_learning: int | None
    task_idle_ready: int | None
    task_imbalance: int | None
    join_wait: int | None
    join_wait_max: int | None
    tasks_moved: int | None
    tasks_least: int | None
    read_bytes: int | None
    read_in_vain: int | None
    rebalances_joined: int | None
    rebalances_gone: int | None
    rebalances_ready: int | None
    rebalances_leaving: int | None
    rebalances_follow_up: int | None
    rebalances_probing: int | None
    rebalances_other: int | None
    rebalances_empty: int | None


class Unit(StrEnum):
    """What a figure counts."""

    SECONDS = "s"
    """Kept in microseconds."""
    PARTITION_SECONDS = "partition-s"
    """Seconds summed over partitions; kept in microseconds."""
    TASK_SECONDS = "task-s"
    """Seconds summed over tasks; kept in microseconds."""
    MEMBER_SECONDS = "member-s"
    """Seconds summed over members of a group; kept in microseconds."""
    PERCENT = "%"
    MEGABYTES = "MB"
    """Kept in bytes."""
    MEGABYTES_PER_S = "MB/s"
    """Kept in bytes per second."""
    COUNT = ""


@frozen
class FigureKind:
    """A figure of a ``Bill``: its unit, and what it is in a line."""

    unit: Unit
    meaning: str


FIGURES: Mapping[str, FigureKind] = {
    "rebalances": FigureKind(Unit.COUNT, "generations begun, follow-ups included, once the group had formed"),
    "moved": FigureKind(Unit.COUNT, "partitions whose assignment went to another member"),
    "downtime_sum": FigureKind(
        Unit.PARTITION_SECONDS, "partitions without service: last record processed before to first after, summed"
    ),
    "downtime_max": FigureKind(Unit.SECONDS, "the same, of the partition that was down longest"),
    "service_lost": FigureKind(
        Unit.SECONDS, "share of partitions without service, over time: 1 s is all of them for a second"
    ),
    "service_lost_max": FigureKind(Unit.PERCENT, "the largest such share at any moment"),
    "stopped": FigureKind(Unit.SECONDS, "time in which it was 100 %: no partition of the group had service"),
    "to_balance": FigureKind(
        Unit.SECONDS, "longest time from an event to Stable, everything owned, loads within 1 (Streams: in their band)"
    ),
    "delay_p50": FigureKind(Unit.SECONDS, "from append to processed, the median over all records"),
    "delay_p99": FigureKind(Unit.SECONDS, "the same, 99 % of the records took no longer"),
    "delay_max": FigureKind(Unit.SECONDS, "the same, of the record that took longest"),
    "lag_max": FigureKind(Unit.SECONDS, "age of the oldest record that waited, at its worst on any partition"),
    "newest_age": FigureKind(
        Unit.SECONDS, "age of the newest processed record while a newer one waits, mean over time"
    ),
    "newest_age_max": FigureKind(Unit.SECONDS, "the same, at its worst on any partition"),
    "fresh_after": FigureKind(
        Unit.SECONDS, "longest time from a member's coming where records wait until something newer is processed"
    ),
    "gap": FigureKind(Unit.SECONDS, "longest time from there until all that had waited was processed"),
    "reorder_max": FigureKind(Unit.COUNT, "most offsets by which a record came after a higher one, the first time"),
    "reprocessed": FigureKind(Unit.COUNT, "records processed once more, each time"),
    "lost": FigureKind(Unit.COUNT, "records committed and never processed, or acknowledged and in no log"),
    "expected_losses": FigureKind(
        Unit.COUNT, "records gone as Kafka's own rules allow (acks, unclean elections, flushes)"
    ),
    "leaderless": FigureKind(Unit.PARTITION_SECONDS, "partitions without a leader (clusters with replication), summed"),
    "unfinished": FigureKind(Unit.COUNT, "events after which balance never came"),
    "reassigning": FigureKind(Unit.SECONDS, "from the first reassignment's begin to the last one's end"),
    "moved_bytes": FigureKind(Unit.MEGABYTES, "copied by replicas that were being added, until they were in sync"),
    "peak_extra": FigureKind(
        Unit.MEGABYTES_PER_S, "of these bytes, what the busiest broker received and sent in its worst second"
    ),
    "most_replicas": FigureKind(Unit.COUNT, "the most replicas any partition had at a time while it moved"),
    "isr_changes": FigureKind(Unit.COUNT, "changes of the ISRs of partitions that were on their way"),
    "under_replicated": FigureKind(
        Unit.PARTITION_SECONDS, "partitions with fewer in-sync replicas than they are to have, summed"
    ),
    "task_downtime": FigureKind(Unit.TASK_SECONDS, "Streams tasks that nobody could process, summed; in four parts:"),
    "task_downtime_max": FigureKind(Unit.SECONDS, "the same, of the task that was down longest"),
    "task_detect": FigureKind(Unit.TASK_SECONDS, "until the group prepared for a rebalance"),
    "task_barrier": FigureKind(Unit.TASK_SECONDS, "from there until the new owner was told"),
    "task_restore": FigureKind(Unit.TASK_SECONDS, "from there until it ran"),
    "task_pause": FigureKind(Unit.TASK_SECONDS, "given up for a rebalance, and got back"),
    "task_learning": FigureKind(Unit.TASK_SECONDS, "tasks that learners and warm-ups restore beside their owners"),
    "task_idle_ready": FigureKind(Unit.TASK_SECONDS, "of that, learners that are ready and have not got their task"),
    "task_imbalance": FigureKind(Unit.TASK_SECONDS, "tasks by which the worst instance is off its share, over time"),
    "join_wait": FigureKind(Unit.MEMBER_SECONDS, "threads that wait for the others to join, summed"),
    "join_wait_max": FigureKind(Unit.SECONDS, "the same, of the thread that waited longest in all"),
    "tasks_moved": FigureKind(Unit.COUNT, "tasks that went from one living instance to another"),
    "tasks_least": FigureKind(Unit.COUNT, "how many had to, for loads that are even"),
    "read_bytes": FigureKind(Unit.MEGABYTES, "read of changelogs, by owners, learners, warm-ups and standbys"),
    "read_in_vain": FigureKind(Unit.MEGABYTES, "of it, by copies that were of no use, or though another copy had it"),
    "rebalances_joined": FigureKind(Unit.COUNT, "generations of Streams groups by reason: a new member"),
    "rebalances_gone": FigureKind(Unit.COUNT, "... a member left or its session expired"),
    "rebalances_ready": FigureKind(Unit.COUNT, "... a learner has caught up"),
    "rebalances_leaving": FigureKind(Unit.COUNT, "... an instance is to leave or stay, or its time is over"),
    "rebalances_follow_up": FigureKind(Unit.COUNT, "... a member gave up what others are to get"),
    "rebalances_probing": FigureKind(Unit.COUNT, "... a look at warm-ups"),
    "rebalances_other": FigureKind(Unit.COUNT, "... anything else"),
    "rebalances_empty": FigureKind(Unit.COUNT, "of all these, those that changed no task's place"),
}
"""Every figure of a ``Bill``, in the order of columns."""

OF_REASSIGNMENTS = ("reassigning", "moved_bytes", "peak_extra", "most_replicas", "isr_changes", "under_replicated")
"""Those that only a run with reassignments has; None without."""
OF_STREAMS = tuple(FIGURES)[tuple(FIGURES).index("task_downtime") :]
"""Those that only a run with Streams applications has; None without."""
OF_SOME = (*OF_REASSIGNMENTS, *OF_STREAMS)
"""Those that not every run has."""
_OF_TIME = (Unit.SECONDS, Unit.PARTITION_SECONDS, Unit.TASK_SECONDS, Unit.MEMBER_SECONDS)
TIMES = tuple(name for name, kind in FIGURES.items() if kind.unit in _OF_TIME)
"""Those that are kept in microseconds and shown in seconds."""


class _Group:
    def __init__(self, topics: Sequence[str] | TopicPattern) -> None:
        self.topics = topics
        self.formed = False
        self.rounds = 0
        """Join phases completed since it had formed."""
        self.began_us = -1
        """When the running episode began; -1 between two."""
        self.balanced_us = -1
        """Since when it has been balanced; -1 while it is not."""
        self.given_up: tuple[ActorName, int, int] | None = None
        """Whose revocation ended the last balance, since when that had lasted, and when it ended."""
        self.longest_us = 0
        self.unfinished = 0
        self.served = False


class Costs:
    """Feed it every fact in order, each after its panel, then ``finish``, then ask for the ``bill``.

    ``topics``: by group, the topics it is subscribed to, or their pattern.
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
        """Facts that some figure needs."""
        return kind in self._on

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        handler = self._on.get(type(seen.fact))
        if handler is not None:
            handler(seen, seen.fact)

    def finish(self, at_us: int) -> None:
        """The run is over at this time."""
        assert not self._finished, "a run ends once"
        self._finished = True
        for group in self._groups.values():
            self._end_episode(group)
            if group.began_us >= 0:
                group.unfinished += 1
                group.longest_us = max(group.longest_us, at_us - group.began_us)

    def bill(self, figures: Figures) -> Bill:
        """The figures of costs, with those of the run's metrics."""
        services, moves, streams = figures.service.values(), figures.reassignment, figures.streams.values()
        groups = [group for name, group in self._groups.items() if name not in figures.streams]
        return Bill(
            rebalances=sum(group.rounds for group in self._groups.values()),
            moved=sum(rebalance.moved for rebalance in figures.rebalances),
            downtime_sum=sum(figures.downtime_us.values()),
            downtime_max=max(figures.downtime_us.values(), default=0),
            service_lost=sum(service.lost_us for service in services),
            service_lost_max=max((service.lost_max_percent for service in services), default=0.0),
            stopped=sum(service.stopped_us for service in services),
            to_balance=max(
                (*(group.longest_us for group in groups), *(each.to_balance_us for each in streams)), default=0
            ),
            delay_p50=figures.delay.p50_us,
            delay_p99=figures.delay.p99_us,
            delay_max=figures.delay.max_us,
            lag_max=longest_lag_us(figures),
            newest_age=figures.freshness.newest_age_mean_us,
            newest_age_max=figures.freshness.newest_age_max_us,
            fresh_after=figures.freshness.fresh_after_max_us,
            gap=figures.freshness.gap_max_us,
            reorder_max=figures.freshness.reorder_max,
            reprocessed=figures.reprocessed,
            lost=figures.lost,
            expected_losses=figures.expected_losses,
            leaderless=leaderless_us(figures),
            unfinished=sum(group.unfinished for group in groups) + sum(each.unfinished for each in streams),
            reassigning=moves.took_us if moves is not None else None,
            moved_bytes=moves.moved_bytes if moves is not None else None,
            peak_extra=peak_extra(figures),
            most_replicas=moves.most_replicas if moves is not None else None,
            isr_changes=moves.isr_changes if moves is not None else None,
            under_replicated=under_replicated_us(figures) if moves is not None else None,
            **_streams_figures(figures),
        )

    # --- events ------------------------------------------------------------------------------------------------

    def _event(self, seen: Seen, fact: object) -> None:
        for group in self._groups.values():
            self._end_episode(group)
            if group.began_us < 0:
                group.began_us = seen.at_us
            group.balanced_us = -1
        self._look(seen, fact)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        if fact.how == CLOSED:
            for group in self._groups.values():
                if group.balanced_us < 0 and group.given_up is not None and host_of(group.given_up[0]) == fact.host:
                    _, group.balanced_us, ended_us = group.given_up
                    self._end_episode(group)
                    group.began_us = ended_us if group.began_us < 0 else group.began_us
        self._event(seen, fact)

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        group = self._groups.get(fact.group)
        balanced_us = -1 if group is None else group.balanced_us
        self._look(seen, fact)
        if group is not None and balanced_us >= 0 > group.balanced_us:
            group.given_up = (seen.actor, balanced_us, seen.at_us)

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
        stable = watched is not None and watched.state == STABLE
        balanced = stable and bool(loads) and sum(loads) == wanted and max(loads) - min(loads) <= 1
        if not balanced and running:
            group.balanced_us = -1
        elif group.balanced_us < 0:
            group.balanced_us, group.given_up = at_us, None

    def _end_episode(self, group: _Group) -> None:
        """The next event comes: if there was balance, the episode ended when that began."""
        if group.began_us < 0 or group.balanced_us < 0:
            return
        if group.formed:
            group.longest_us = max(group.longest_us, group.balanced_us - group.began_us)
        group.formed = group.formed or group.served
        group.began_us = -1


def _streams_figures(figures: Figures) -> dict[str, int | None]:
    """Those of ``OF_STREAMS``, over all applications."""
    told = streams_sums(figures)
    return dict.fromkeys(OF_STREAMS) if told is None else {name: told[name] for name in OF_STREAMS}
