"""A run's figures as typed values; ``plain`` is their one form as data. What each means is said where it is counted.

All times are microseconds of the world's clock.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attr
from attrs import field, frozen

from kemu.emulator.watching.interruptions import Piece


@frozen
class RebalanceFigures:
    """One rebalance of a group, follow-up join phases included (``emulator.metrics.rebalances``)."""

    group: str
    generation: int
    """The last one."""
    reason: str
    started_us: int
    ended_us: int | None
    """None: not over when the run was."""
    members: int
    rounds: int
    """Join phases."""
    moved: int
    """Partitions that went to another client."""
    stop_the_world_us: int
    """Since it began and before the next one did: without any partition served."""

    @property
    def took_us(self) -> int:
        """From its beginning to its end; 0 if it is not over."""
        return 0 if self.ended_us is None else self.ended_us - self.started_us


@frozen
class DowntimeFigures:
    """One interval in which a partition was without service (``emulator.metrics.serving``)."""

    group: str
    topic: str
    partition: int
    member: str
    """Who had served it last."""
    cause: str
    from_us: int
    until_us: int
    pieces: tuple[Piece, ...]
    """What it waited for, one after the other; they add up to it (``emulator.watching.interruptions``)."""


@frozen
class ServiceFigures:
    """What a group's users missed, all partitions weighing the same (``emulator.metrics.service``)."""

    partitions: int
    """Those that were ever served."""
    lost_us: int
    """Integral of the share without service: microseconds of the whole service."""
    lost_max_percent: float
    stopped_us: int
    """At 100 %."""
    series: tuple[tuple[int, float], ...]
    """(since when, per cent without service from then on)."""
    members_us: Mapping[str, int]
    """Member -> downtime of the partitions it had served last; they add up to the group's."""


@frozen
class DelayFigures:
    """From append to processed, each record once (``emulator.metrics.waiting``); None where there is no record."""

    records: int
    p50_us: int | None
    p99_us: int | None
    max_us: int | None


@frozen
class FreshnessFigures:
    """How old what is processed is, and in which order it comes (``emulator.metrics.freshness``)."""

    newest_age_mean_us: int
    """Age of the newest processed record while a newer one waits, over all the time."""
    newest_age_max_us: int
    fresh_after_max_us: int
    """From a member's coming until something newer than that was processed."""
    gap_max_us: int
    """From there until all that had waited was processed."""
    reordered: int
    """Records processed for the first time after one with a higher offset."""
    reorder_max: int
    """By how many offsets at the most."""


@frozen
class RecordFigures:
    """Counts of records; ``failed``: given up by their producers."""

    appended: int
    acknowledged: int
    failed: int
    processed: int


@frozen
class LagFigures:
    """One group on one partition that it ever read: in records, and as the age of the oldest record that waits.

    ``committed`` None: nothing is.
    """

    group: str
    topic: str
    partition: int
    end_offset: int
    committed: int | None
    lag: int
    max_lag: int
    lag_us: int
    max_lag_us: int


@frozen
class ControllerTerm:
    """One broker's time in office; ``ready_us`` None: its failover never ended."""

    broker: int
    controller_epoch: int
    from_us: int
    ready_us: int | None


@frozen
class ReplicationFigures:
    """What the control plane went through (``emulator.metrics.leading``); ``..._us`` by "topic-partition"."""

    controllers: tuple[ControllerTerm, ...]
    elections: Mapping[str, int]
    """How many by strategy."""
    leader_changes: int
    isr_shrinks: int
    isr_expands: int
    leaderless_us: Mapping[str, int]
    under_min_isr_us: Mapping[str, int]
    under_replicated_us: Mapping[str, int]


@frozen
class ReassignmentStepFigures:
    """One step of one partition (``emulator.metrics.reassigning``); ``committed_us`` None: given up, or still running.

    ``number``: of this partition, from 1. ``replicas``: what it is to have then.
    """

    topic: str
    partition: int
    number: int
    kind: str
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    started_us: int
    committed_us: int | None
    moved_records: int
    moved_bytes: int


@frozen
class ReassignmentFigures:
    """All reassignments of a run (``emulator.metrics.reassigning``)."""

    partitions: int
    """That were asked to go elsewhere, once for each time."""
    finished: int
    unfinished: int
    """Still on their way at the end."""
    waiting: Mapping[str, str]
    """Those, and what their controller said last that they wait for ("": nothing)."""
    blocked: int
    """How often one found no broker to go to."""
    began_us: int
    took_us: int | None
    """From the first one's begin to the last one's end; None: it never came."""
    moved_bytes: int
    peak_extra_bytes_per_s: Mapping[str, int]
    """By broker: what it received and sent of moved bytes in its worst second."""
    isr_changes: int
    most_replicas: int
    """The most that any partition had at a time, those being added included."""
    emptied: Mapping[str, int]
    """Brokers from which replicas were moved and that no partition is assigned to at the end: how many logs they have
    left on their disks, as one that was down when its replica went does."""
    steps: tuple[ReassignmentStepFigures, ...]


@frozen
class TaskDowntimeFigures:
    """One interval in which nobody could process a task (``emulator.metrics.task_downtime``); parts add up to it."""

    task: str
    instance: str
    """Who had processed it last."""
    taken_by: str
    """Who processes it since; "" where nobody does."""
    cause: str
    from_us: int
    until_us: int
    detect_us: int
    barrier_us: int
    restore_us: int
    pause_us: int


@frozen
class RestoreFigures:
    """What one copy of a task read of its changelog in one role (``emulator.metrics.restoring``)."""

    task: str
    instance: str
    role: str
    """active, learner, warm-up or standby."""
    from_us: int
    until_us: int
    """The last record."""
    ready_us: int | None
    """When a learner had caught up; None: it never did, or is none."""
    first: int
    last: int
    """Offsets of the changelog, the last one exclusive."""
    records: int
    read_bytes: int
    wasted_bytes: int
    avoidable_bytes: int
    """Of the wasted ones."""
    outcome: str
    """used, discarded, kept (as a standby), or unfinished."""


@frozen
class EpisodeFigures:
    """What an event from outside brought about in an application (``emulator.metrics.task_moves``)."""

    why: str
    began_us: int
    last_event_us: int
    balanced_us: int | None
    """None: it never was, for good."""
    rested_us: int | None
    """None: it did not come to rest before the run's end."""
    rebalances: Mapping[str, int]
    """Generations by reason."""
    empty: int
    """Of these, those that changed nobody's roles."""
    moved: int
    min_moves: int
    back_and_forth: int


@frozen
class StreamsFigures:
    """A Streams application: its tasks (``task_downtime``), what was restored (``restoring``), episodes
    (``task_moves``). The sums are over tasks, or over episodes.
    """

    downtime_us: Mapping[str, int]
    """By task, of those that ever ran."""
    downtime_max_us: int
    downtime_p99_us: int
    """Over the tasks, by nearest rank."""
    tasks_down: int
    """How many were down at all."""
    detect_us: int
    barrier_us: int
    restore_us: int
    pause_us: int
    learner_us: int
    """Tasks that were learned or warmed up, over time (``task_work``)."""
    idle_ready_us: int
    """Of these, learners that were ready."""
    imbalance_us: int
    """Tasks by which the worst instance was off its share, over time."""
    join_waits_us: Mapping[str, int]
    """By thread, how long it waited for the others to join."""
    moved: int
    min_moves: int
    back_and_forth: int
    read_bytes: Mapping[str, int]
    """By role."""
    wasted_bytes: int
    avoidable_bytes: int
    rebalances: Mapping[str, int]
    """Generations by reason, once the application had formed."""
    empty_rebalances: int
    to_balance_us: int
    """The longest; the rest of the run where balance never came."""
    unfinished: int
    """Episodes that never came to balance."""
    task_downtime: tuple[TaskDowntimeFigures, ...]
    restores: tuple[RestoreFigures, ...]
    episodes: tuple[EpisodeFigures, ...]


@frozen
class Applications:
    """All Streams applications of a run together."""

    all: tuple[StreamsFigures, ...]

    def total(self, of: Callable[[StreamsFigures], int]) -> int:
        """The sum of a figure over the applications."""
        return sum(map(of, self.all))

    def generations(self, *reasons: str) -> int:
        """Generations that began for one of these reasons (``task_moves.Reason``)."""
        return sum(each.rebalances.get(reason, 0) for each in self.all for reason in reasons)


@frozen
class GroupFigures:
    """The counts of one group; ``commits``: durable ones, per partition."""

    first_stable_us: int | None
    rebalances: int
    processed: int
    reprocessed: int
    lost: int
    skipped: int
    zombie_records: int
    commits: int
    commits_failed: int
    lag: int
    delay: DelayFigures
    freshness: FreshnessFigures
    metadata_max_bytes: int | None
    """The largest record of a generation: what all members said and were given. None: there was none."""
    margin_to_limit: int | None
    """How many bytes it lay under ``message.max.bytes``; below 0 the coordinator refused it."""
    generations_too_large: int
    """Generations that came to nothing because their record was refused."""


@frozen
class ClosingFigures:
    """A host that was closed cleanly (``emulator.metrics.closing``)."""

    host: str
    ended_us: int
    took_us: int
    """From the order to the end of the process."""
    still_led: int
    """Partitions a broker led when it ended: it could hand them on to nobody. 0 where brokers do not replicate."""
    uncommitted: int
    """Records a member processed and could not commit before it gave their partitions up."""


@frozen
class Figures:
    """All of a run."""

    rebalances: tuple[RebalanceFigures, ...]
    """In the order they began."""
    num_incompatible_rebalance: Mapping[str, int]
    """Client -> how often it was told that incompatible members met (KIP-429's page)."""
    downtime_us: Mapping[str, int]
    """ "group/topic-partition" -> without service, in all."""
    downtime: tuple[DowntimeFigures, ...]
    """Each interval of it."""
    service: Mapping[str, ServiceFigures]
    """By group."""
    delay: DelayFigures
    """Of the records of all groups."""
    freshness: FreshnessFigures
    """Of all groups: sums and worst cases; of ages the mean over the groups."""
    reprocessed: int
    """Records that a group processed once more, each time."""
    lost: int
    """Both kinds: committed and never processed, and acknowledged and in no log."""
    expected_losses: int
    """Records gone as Kafka's rules allows (``emulator.findings``), acknowledged or not."""
    acknowledged_lost: int
    """The second kind alone."""
    skipped: int
    zombie_records: int
    records: RecordFigures
    lag: tuple[LagFigures, ...]
    replication: ReplicationFigures | None
    """None where no broker replicates."""
    reassignment: ReassignmentFigures | None
    """None where nothing was reassigned."""
    closings: tuple[ClosingFigures, ...]
    """Hosts that were closed, in the order they ended; empty on ``calm``, where that takes no time of its own."""
    groups: Mapping[str, GroupFigures]
    streams: Mapping[str, StreamsFigures]
    """By application; empty where there is none."""
    values: Mapping[str, int | float | None] = field(factory=dict)
    """Every figure that ``emulator.metrics.figure`` declares for runs, by name; None where the run has none."""


def plain(figures: Figures) -> dict[str, Any]:
    """As JSON has them: objects and lists; {} for a replication or reassignment that is not there."""
    data: dict[str, Any] = attr.asdict(figures, retain_collection_types=False)
    data["replication"] = data["replication"] or {}
    data["reassignment"] = data["reassignment"] or {}
    return data
