"""A run's figures as typed values; ``plain`` gives them as JSON data. The modules that count these figures define them.

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
    """The last generation of the rebalance."""
    reason: str
    started_us: int
    ended_us: int | None
    """None: the rebalance had not ended at the end of the run."""
    members: int
    rounds: int
    """Join phases."""
    moved: int
    """Partitions assigned to another client than before."""
    stop_the_world_us: int
    """Time without any served partition, between the start of this rebalance and the start of the next."""

    @property
    def took_us(self) -> int:
        """The duration in us; 0 if the rebalance has not ended."""
        return 0 if self.ended_us is None else self.ended_us - self.started_us


@frozen
class DowntimeFigures:
    """One interval in which a partition was without service (``emulator.metrics.serving``)."""

    group: str
    topic: str
    partition: int
    member: str
    """The member that served the partition before."""
    cause: str
    from_us: int
    until_us: int
    pieces: tuple[Piece, ...]
    """The consecutive reasons for the wait; their durations add up to the interval
    (``emulator.watching.interruptions``)."""


@frozen
class ServiceFigures:
    """The service that a group's users missed; all partitions weigh the same (``emulator.metrics.service``)."""

    partitions: int
    """Number of partitions that were ever served."""
    lost_us: int
    """Integral of the share without service, in us of the whole service."""
    lost_max_percent: float
    stopped_us: int
    """Time with a share of 100 %, in us."""
    series: tuple[tuple[int, float], ...]
    """(time, share without service in percent from then on)."""
    members_us: Mapping[str, int]
    """Member -> downtime of the partitions that it served last; the sum is the group's downtime."""


@frozen
class DelayFigures:
    """Time from append to processed, each record once (``emulator.metrics.waiting``); None without records."""

    records: int
    p50_us: int | None
    p99_us: int | None
    max_us: int | None


@frozen
class FreshnessFigures:
    """Age and order of processed records (``emulator.metrics.freshness``)."""

    newest_age_mean_us: int
    """Mean age of the newest processed record while a newer one waits."""
    newest_age_max_us: int
    fresh_after_max_us: int
    """Longest time from a member's arrival until a newer record was processed."""
    gap_max_us: int
    """Longest time from a member's arrival until all waiting records were processed."""
    reordered: int
    """Records processed for the first time after a record with a higher offset."""
    reorder_max: int
    """The largest difference between the offsets of two such records."""


@frozen
class RecordFigures:
    """Counts of records; ``failed``: records that producers gave up."""

    appended: int
    acknowledged: int
    failed: int
    processed: int


@frozen
class LagFigures:
    """The lag of one group on one partition: in records, and as the age of the oldest waiting record.

    ``committed`` is None without a committed offset.
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
    """The term of one controller; ``ready_us`` is None if its failover never completed."""

    broker: int
    controller_epoch: int
    from_us: int
    ready_us: int | None


@frozen
class PartitionSpan:
    """One interval of a condition of a partition."""

    topic: str
    partition: int
    from_us: int
    until_us: int


@frozen
class ReplicationFigures:
    """Figures of controllers, leaders and ISRs (``emulator.metrics.leading``); ``..._us`` by "topic-partition"."""

    controllers: tuple[ControllerTerm, ...]
    elections: Mapping[str, int]
    """Number of elections by strategy."""
    leader_changes: int
    isr_shrinks: int
    isr_expands: int
    leaderless_us: Mapping[str, int]
    under_min_isr_us: Mapping[str, int]
    under_replicated_us: Mapping[str, int]
    leaderless: tuple[PartitionSpan, ...]
    """The intervals of ``leaderless_us``, by their ends; likewise the two that follow."""
    under_min_isr: tuple[PartitionSpan, ...]
    under_replicated: tuple[PartitionSpan, ...]


@frozen
class ReassignmentStepFigures:
    """One step of one partition (``emulator.metrics.reassigning``).

    ``number``: of this partition, from 1. ``replicas``: the replicas after the step. ``committed_us`` is None if the
    step was cancelled, or had not ended at the end of the run.
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
    """Number of requested reassignments of partitions, repeated ones included."""
    finished: int
    unfinished: int
    """Reassignments that had not ended at the end of the run."""
    waiting: Mapping[str, str]
    """Partition of an unfinished reassignment -> its controller's last reason to wait; "": none."""
    blocked: int
    """Number of times that a partition found no broker to move to."""
    began_us: int
    took_us: int | None
    """From the start of the first reassignment to the end of the last; None: the last one did not end."""
    moved_bytes: int
    peak_extra_bytes_per_s: Mapping[str, int]
    """Broker -> reassignment traffic received and sent in its worst second."""
    received: tuple[tuple[str, int, int], ...]
    """(broker, second of the run, bytes): ``moved_bytes`` by receiver and second."""
    isr_changes: int
    most_replicas: int
    """The most replicas of any partition at a time, adding replicas included."""
    emptied: Mapping[str, int]
    """Broker without assigned partitions, from which replicas were moved -> number of logs still on its disk. A log
    stays if the broker was down when its replica was removed."""
    steps: tuple[ReassignmentStepFigures, ...]


@frozen
class TaskDowntimeFigures:
    """One interval in which no instance could process a task (``emulator.metrics.task_downtime``). The parts of the
    interval add up to its length.
    """

    task: str
    instance: str
    """The instance that processed the task before."""
    taken_by: str
    """The instance that processed the task after; "": none."""
    cause: str
    from_us: int
    until_us: int
    detect_us: int
    barrier_us: int
    restore_us: int
    pause_us: int


@frozen
class RestoreFigures:
    """The changelog records that one copy of a task read in one role (``emulator.metrics.restoring``)."""

    task: str
    instance: str
    role: str
    """active, learner, warm-up or standby."""
    from_us: int
    until_us: int
    """Time of the last record."""
    ready_us: int | None
    """Time at which a learner had caught up; None: never, or no learner."""
    first: int
    last: int
    """Offsets of the changelog, the last one exclusive."""
    records: int
    read_bytes: int
    wasted_bytes: int
    avoidable_bytes: int
    """Part of ``wasted_bytes``."""
    outcome: str
    """used, discarded, kept (as a standby), or unfinished."""


@frozen
class EpisodeFigures:
    """The effects of an external event on an application (``emulator.metrics.task_moves``)."""

    why: str
    began_us: int
    last_event_us: int
    balanced_us: int | None
    """None: the application never came to lasting balance."""
    rested_us: int | None
    """None: the application did not come to rest before the end of the run."""
    rebalances: Mapping[str, int]
    """Generations by reason."""
    empty: int
    """Number of generations that changed no role."""
    moved: int
    min_moves: int
    back_and_forth: int


@frozen
class StreamsFigures:
    """Figures of a Streams application (``task_downtime``, ``restoring``, ``task_moves``). Sums are over tasks or over
    episodes.
    """

    downtime_us: Mapping[str, int]
    """By task, of tasks that ever ran."""
    downtime_max_us: int
    downtime_p99_us: int
    """99th percentile over the tasks, by nearest rank."""
    tasks_down: int
    """Number of tasks with any downtime."""
    detect_us: int
    barrier_us: int
    restore_us: int
    pause_us: int
    learner_us: int
    """Time of learners and warm-ups, summed (``task_work``)."""
    idle_ready_us: int
    """Part of ``learner_us`` in which the learner was ready."""
    imbalance_us: int
    """Integral over time of the distance between the load of the worst instance and its share, in tasks."""
    join_waits_us: Mapping[str, int]
    """Thread -> time in which it waited for other members to join."""
    moved: int
    min_moves: int
    back_and_forth: int
    read_bytes: Mapping[str, int]
    """By role."""
    wasted_bytes: int
    avoidable_bytes: int
    rebalances: Mapping[str, int]
    """Generations by reason, after the application had formed."""
    empty_rebalances: int
    to_balance_us: int
    """The longest time to balance; the rest of the run if balance never came."""
    unfinished: int
    """Episodes without lasting balance."""
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
    """The counts of one group; ``commits``: offsets of partitions that coordinators wrote."""

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
    """The largest record of a generation, with all members' metadata and assignments; None: there was none."""
    margin_to_limit: int | None
    """Bytes between that record and ``message.max.bytes``; negative if the coordinator refused a record."""
    generations_too_large: int
    """Generations that failed because their record was refused."""


@frozen
class ClosingFigures:
    """A host that was closed cleanly (``emulator.metrics.closing``)."""

    host: str
    ended_us: int
    took_us: int
    """From the request to close until the end of the process."""
    still_led: int
    """Partitions that a broker still led at its end, without another replica to lead them. 0 where brokers do not
    replicate."""
    uncommitted: int
    """Records that a member processed and could not commit before it revoked their partitions."""


@frozen
class Figures:
    """All figures of a run."""

    rebalances: tuple[RebalanceFigures, ...]
    """Rebalances in the order of their starts."""
    num_incompatible_rebalance: Mapping[str, int]
    """Client -> number of generations that the client saw with incompatible members (KIP-429's page)."""
    downtime_us: Mapping[str, int]
    """ "group/topic-partition" -> total time without service."""
    downtime: tuple[DowntimeFigures, ...]
    """The intervals of ``downtime_us``."""
    service: Mapping[str, ServiceFigures]
    """By group."""
    delay: DelayFigures
    """Delays over the records of all groups."""
    freshness: FreshnessFigures
    """Freshness over all groups: sums, largest values, and mean ages."""
    reprocessed: int
    """Repeated processings of records by a group."""
    lost: int
    """Records committed and never processed, and acknowledged records in no log."""
    expected_losses: int
    """Records lost as Kafka's rules allow (``emulator.findings``), acknowledged or not."""
    acknowledged_lost: int
    """Acknowledged records in no log."""
    skipped: int
    zombie_records: int
    records: RecordFigures
    lag: tuple[LagFigures, ...]
    replication: ReplicationFigures | None
    """None where no broker replicates."""
    reassignment: ReassignmentFigures | None
    """None without reassignments."""
    closings: tuple[ClosingFigures, ...]
    """Closed hosts in the order in which they ended; empty with the draws ``calm``, where closing takes no time."""
    groups: Mapping[str, GroupFigures]
    streams: Mapping[str, StreamsFigures]
    """By application; empty without Streams."""
    values: Mapping[str, int | float | None] = field(factory=dict)
    """Every figure that ``emulator.metrics.figure`` declares for runs, by name; None: the run has no such figure."""


def plain(figures: Figures) -> dict[str, Any]:
    """The figures as JSON data; {} for a missing replication or reassignment."""
    data: dict[str, Any] = attr.asdict(figures, retain_collection_types=False)
    data["replication"] = data["replication"] or {}
    data["reassignment"] = data["reassignment"] or {}
    return data
