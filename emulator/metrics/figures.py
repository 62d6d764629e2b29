"""A run's figures as typed values; ``plain`` is their one form as data. What each means is said where it is counted.

All times are microseconds of the world's clock.
"""

from collections.abc import Mapping
from typing import Any

import attr
from attrs import frozen


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

    @property
    def took_us(self) -> int:
        """From its beginning to its end; 0 if it is not over."""
        return 0 if self.ended_us is None else self.ended_us - self.started_us


@frozen
class RecordFigures:
    """Counts of records; ``failed``: given up by their producers."""

    appended: int
    acknowledged: int
    failed: int
    processed: int


@frozen
class LagFigures:
    """One group on one partition that it ever read, in records; ``committed`` None: nothing is."""

    group: str
    topic: str
    partition: int
    end_offset: int
    committed: int | None
    lag: int
    max_lag: int


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
class GroupFigures:
    """The counts of one group; ``commits``: durable ones, per partition."""

    first_stable_us: int | None
    rebalances: int
    processed: int
    duplicates: int
    lost: int
    skipped: int
    zombie_records: int
    commits: int
    commits_failed: int
    lag: int


@frozen
class Figures:
    """All of a run."""

    rebalances: tuple[RebalanceFigures, ...]
    """In the order they began."""
    num_incompatible_rebalance: Mapping[str, int]
    """Client -> how often it was told that incompatible members met (KIP-429's page)."""
    downtime_us: Mapping[str, int]
    """ "group/topic-partition" -> without anybody who serves it."""
    duplicates: int
    lost: int
    """Both kinds: committed and never processed, and acknowledged and in no log."""
    acknowledged_lost: int
    """The second kind alone."""
    skipped: int
    zombie_records: int
    records: RecordFigures
    lag: tuple[LagFigures, ...]
    replication: ReplicationFigures | None
    """None where no broker replicates."""
    groups: Mapping[str, GroupFigures]


def plain(figures: Figures) -> dict[str, Any]:
    """As JSON has them: objects and lists; {} for a replication that is not there."""
    data: dict[str, Any] = attr.asdict(figures, retain_collection_types=False)
    data["replication"] = data["replication"] or {}
    return data
