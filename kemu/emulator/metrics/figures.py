"""A run's figures as typed values; ``plain`` gives these values as JSON data. The module that counts a figure also
defines the figure.

All times are microseconds of the world's clock.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attr
from attrs import field

from kemu.emulator.watching.interruptions import Piece
from kemu.protocol.frozen import frozen


@frozen
class RebalanceFigures:
    """One rebalance of a group, follow-up join phases included (``emulator.metrics.rebalances``)."""

    group: str
    generation: int
    """The last generation of the rebalance."""
    reason: str
    started_us: int
    ended_us: int | None
    """End of the rebalance; None if the run ended first."""
    members: int
    rounds: int
    """Number of join phases."""
    moved: int
    """Number of partitions that were assigned to another client than before."""
    stop_the_world_us: int
    """Time without any served partition, between the start of this rebalance and the start of the next."""
    protocol: str
    """The protocol of the group at the start: classic or consumer."""

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
    """The consecutive reasons for the wait (``emulator.watching.interruptions``). The durations of the pieces add up to
    the interval."""
    protocol: str | None = None
    """The protocol of the group at the start: classic or consumer. None: the group had no rebalance before."""


@frozen
class ServiceFigures:
    """The service that a group's users missed; all partitions weigh the same (``emulator.metrics.service``)."""

    partitions: int
    """Number of partitions that were ever served."""
    lost_us: int
    """Integral over time of the share of partitions without service, in microseconds."""
    lost_max_percent: float
    stopped_us: int
    """Time in which no partition had service, in microseconds."""
    series: tuple[tuple[int, float], ...]
    """Changes of the share without service: (time of the change, new share in percent)."""
    members_us: Mapping[str, int]
    """Member -> downtime of partitions that the member served last. The sum over all members is the group's
    downtime."""


@frozen
class DelayFigures:
    """Times from the append of a record to the end of its first processing (``emulator.metrics.waiting``); None without
    records.
    """

    records: int
    p50_us: int | None
    p99_us: int | None
    max_us: int | None


@frozen
class FreshnessFigures:
    """Age and order of processed records (``emulator.metrics.freshness``)."""

    newest_age_mean_us: int
    """Mean age of the newest processed record while a newer record waits."""
    newest_age_max_us: int
    fresh_after_max_us: int
    """Longest time from a member's arrival until a newer record was processed."""
    gap_max_us: int
    """Longest time from a member's arrival until all waiting records were processed."""
    reordered: int
    """Number of records processed for the first time after a record with a higher offset."""
    reorder_max: int
    """Most offsets between a reordered record and the highest record processed before."""


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
    """Figures of controllers, leaders and ISRs (``emulator.metrics.leading``). The keys of ``..._us`` are
    "topic-partition".
    """

    controllers: tuple[ControllerTerm, ...]
    elections: Mapping[str, int]
    """Strategy of an election -> number of elections."""
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

    ``number``: number of the step among the partition's steps, from 1. ``replicas``: the replicas after the step.
    ``committed_us`` is None if the step was cancelled, or had not ended at the end of the run.
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
    """Number of requested reassignments of partitions, including repeated requests."""
    finished: int
    unfinished: int
    """Number of reassignments that had not ended at the end of the run."""
    waiting: Mapping[str, str]
    """Partition of an unfinished reassignment -> the controller's last reason to wait; "" if the controller gave no
    reason."""
    blocked: int
    """Number of times that a partition found no broker to move to."""
    began_us: int
    took_us: int | None
    """Time from the start of the first reassignment to the end of the last; None if the last reassignment did not
    end."""
    moved_bytes: int
    peak_extra_bytes_per_s: Mapping[str, int]
    """Broker -> bytes of reassignment traffic that the broker received and sent in the second with the most traffic."""
    received: tuple[tuple[str, int, int], ...]
    """(broker, second of the run, bytes): ``moved_bytes`` by receiver and second."""
    isr_changes: int
    most_replicas: int
    """The most replicas of any partition at a time, adding replicas included."""
    emptied: Mapping[str, int]
    """Broker that lost all its replicas -> number of logs still on the broker's disk. A log stays on disk if the broker
    was down when its replica was removed."""
    steps: tuple[ReassignmentStepFigures, ...]


@frozen
class TaskDowntimeFigures:
    """One interval in which no instance could process a task (``emulator.metrics.task_downtime``). The durations of the
    parts add up to the length of the interval.
    """

    task: str
    instance: str
    """The instance that processed the task before the interval."""
    taken_by: str
    """The instance that processed the task after the interval; "" if no instance did."""
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
    """The role of the copy: active, learner, warm-up or standby."""
    from_us: int
    until_us: int
    """Time at which the copy read the last record."""
    ready_us: int | None
    """Time at which a learner had caught up; None for other roles, and for learners that never caught up."""
    first: int
    last: int
    """End of the offsets read from the changelog, exclusive; ``first`` is their start."""
    records: int
    read_bytes: int
    wasted_bytes: int
    avoidable_bytes: int
    """Part of ``wasted_bytes`` that a better choice of the new owner would have avoided."""
    outcome: str
    """The fate of the copy: used, discarded, kept (as a standby), or unfinished."""


@frozen
class EpisodeFigures:
    """The effects of an external event on an application (``emulator.metrics.task_moves``)."""

    why: str
    began_us: int
    last_event_us: int
    balanced_us: int | None
    """Start of lasting balance; None if the application did not reach lasting balance."""
    rested_us: int | None
    """Start of rest; None if the application did not come to rest before the end of the run."""
    rebalances: Mapping[str, int]
    """Reason -> number of generations."""
    empty: int
    """Number of generations that changed no role."""
    moved: int
    min_moves: int
    back_and_forth: int


@frozen
class StreamsFigures:
    """Figures of a Streams application, summed over tasks or over episodes (``task_downtime``, ``restoring``,
    ``task_moves``).
    """

    downtime_us: Mapping[str, int]
    """Task -> downtime in microseconds, for each task that ever ran."""
    downtime_max_us: int
    downtime_p99_us: int
    """99th percentile of the tasks' downtimes, by nearest rank."""
    tasks_down: int
    """Number of tasks with any downtime."""
    detect_us: int
    barrier_us: int
    restore_us: int
    pause_us: int
    learner_us: int
    """Time in which learners and warm-ups existed, summed over tasks (``task_work``)."""
    idle_ready_us: int
    """Part of ``learner_us`` in which a learner had caught up and was not yet the owner."""
    imbalance_us: int
    """Integral over time of the number of tasks by which the most overloaded instance exceeds its share."""
    join_waits_us: Mapping[str, int]
    """Thread -> time in which the thread waited for other members to join."""
    moved: int
    min_moves: int
    back_and_forth: int
    read_bytes: Mapping[str, int]
    """Role of a copy -> bytes read from changelogs."""
    wasted_bytes: int
    avoidable_bytes: int
    rebalances: Mapping[str, int]
    """Reason -> number of generations after the first formation of the application."""
    empty_rebalances: int
    to_balance_us: int
    """The longest time to balance; the rest of the run without later balance."""
    unfinished: int
    """Number of episodes without lasting balance."""
    task_downtime: tuple[TaskDowntimeFigures, ...]
    restores: tuple[RestoreFigures, ...]
    episodes: tuple[EpisodeFigures, ...]


@frozen
class Applications:
    """The figures of all Streams applications of a run, and sums over the applications."""

    all: tuple[StreamsFigures, ...]

    def total(self, of: Callable[[StreamsFigures], int]) -> int:
        """The sum of a figure over the applications."""
        return sum(map(of, self.all))

    def generations(self, *reasons: str) -> int:
        """Generations that began for one of these reasons (``task_moves.Reason``)."""
        return sum(each.rebalances.get(reason, 0) for each in self.all for reason in reasons)


@frozen
class GroupFigures:
    """The counts of one group. ``commits``: number of committed offsets that coordinators wrote."""

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
    """Bytes of the group's largest record with all members' metadata and assignments; None if no such record was
    written."""
    margin_to_limit: int | None
    """Bytes between the group's largest record and ``message.max.bytes``; negative if the coordinator refused a
    record."""
    generations_too_large: int
    """Number of generations that failed because the coordinator refused the group's record."""


@frozen
class ClosingFigures:
    """A host that was closed cleanly (``emulator.metrics.closing``)."""

    host: str
    ended_us: int
    took_us: int
    """Time from the request to close until the end of the process."""
    still_led: int
    """Number of partitions that a broker still led when its process ended; 0 where brokers do not replicate."""
    uncommitted: int
    """Number of records that a member processed and did not commit before the member revoked their partitions."""


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
    """The intervals without service that ``downtime_us`` sums."""
    service: Mapping[str, ServiceFigures]
    """Group -> the service that the group's users missed."""
    delay: DelayFigures
    """Delays over the records of all groups."""
    freshness: FreshnessFigures
    """Freshness of all groups together: sums, largest values, and mean ages."""
    reprocessed: int
    """Repeated processings of records by a group."""
    lost: int
    """Number of records committed and never processed, plus acknowledged records that no log has."""
    expected_losses: int
    """Number of lost records that Kafka's rules allow to lose (``emulator.findings``), acknowledged or not."""
    acknowledged_lost: int
    """Number of acknowledged records that no log has."""
    skipped: int
    zombie_records: int
    records: RecordFigures
    lag: tuple[LagFigures, ...]
    replication: ReplicationFigures | None
    """Figures of controllers, leaders and ISRs; None where no broker replicates."""
    reassignment: ReassignmentFigures | None
    """Figures of all reassignments; None for a run without reassignments."""
    closings: tuple[ClosingFigures, ...]
    """Closed hosts in the order in which they ended; empty with the draws ``calm``, where closing takes no time."""
    groups: Mapping[str, GroupFigures]
    streams: Mapping[str, StreamsFigures]
    """Application -> figures of the application; empty for a run without Streams."""
    values: Mapping[str, int | float | None] = field(factory=dict)
    """Every figure of ``metrics.FIGURES`` by name; None for a figure whose source the run lacks."""


def plain(figures: Figures) -> dict[str, Any]:
    """The figures as JSON data. ``replication`` and ``reassignment`` are {} for runs without them."""
    data: dict[str, Any] = attr.asdict(figures, retain_collection_types=False)
    data["replication"] = data["replication"] or {}
    data["reassignment"] = data["reassignment"] or {}
    return data
