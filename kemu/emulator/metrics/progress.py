"""Counts of records: appended, processed, reprocessed, skipped, lost, waiting (a part of the metrics).

``Panel.progress`` records the work of groups; this module counts it.

* *Reprocessed*: repeated processings of a record by a group.
* *Lost*: records below the group's final committed offset that are neither processed nor skipped; and acknowledged
  records that the log no longer has.
* *Skipped*: unprocessed records of the log that a seek, a legitimate reset or an operator's commit skipped. Skipped
  records include records from before the group's start.
* *Zombie records*: records that a member processed after another member had received the partition in a later
  generation.
* *Lag* of a partition: the log end offset minus the group's committed offset, or minus the group's first position while
  the group has no committed offset. A group with two commit logs (KIP-333) has the committed offset that
  ``committed()`` computes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kemu.emulator.facts import DiskTailLost, Seen, each_of, only_news
from kemu.emulator.metrics.figures import LagFigures
from kemu.emulator.metrics.waiting import Waiting
from kemu.emulator.watching.appends import Appends
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.progress import GroupProgress, count
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import NO_GENERATION, TopicPartition, shared
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    CommitAnswered,
    OffsetCommitted,
    OffsetRemoved,
    PartitionHosted,
    PositionSet,
    Processed,
    ProduceFailed,
    RecordsAppended,
)
from kemu.protocol.notes.ranges import RangeCommitted, RangeOpened, RangeProcessed, RangesRemoved
from kemu.protocol.notes.replication import BecameLeader, NodeWritten


class _GroupOnPartition:
    """Counts the work of one group on one partition."""

    __slots__ = ("_end", "_reached", "log", "max_lag", "newest", "progress")

    def __init__(self, log: "_Log", progress: GroupProgress) -> None:
        self.log = log
        self.progress = progress
        self._reached: int | None = None
        """The committed offset, or the first position, at the last look."""
        self._end = log.end
        """The end of the log at the last look."""
        self.max_lag = 0
        self.newest: tuple[int, str] = (NO_GENERATION, "")
        """The latest generation in which a member received the partition, and the member."""

    @property
    def lag(self) -> int:
        """The lag in records; 0 for a group without a position."""
        reached = self._now()
        return 0 if reached is None else max(0, self.log.end - reached)

    def _now(self) -> int | None:
        committed = self.progress.committed
        return self.progress.start if committed is None else committed

    def grew(self) -> None:
        """Update the largest lag after the log grew, before or after a change of the committed offset."""
        end, reached = self.log.end, self._reached
        if end > self._end and reached is not None and end - reached > self.max_lag:
            self.max_lag = end - reached
        self._reached, self._end = self._now(), end

    def look(self) -> None:
        """Update the largest lag after a change of the committed offset."""
        end, before, reached = self.log.end, self._reached, self._now()
        if before is not None and end > self._end and end - before > self.max_lag:
            self.max_lag = end - before
        if reached is not None and end - reached > self.max_lag:
            self.max_lag = end - reached
        self._reached, self._end = reached, end


class _Log:
    """The records of one partition, as reported by the partition's leader."""

    __slots__ = ("_appends", "_end", "readings")

    def __init__(self) -> None:
        self._end = 0
        self._appends: Appends | None = None
        """The last appends, if nothing else changed the log since."""
        self.readings: list[_GroupOnPartition] = []

    @property
    def end(self) -> int:
        """The end of the log."""
        return self._end if self._appends is None else self._appends.end

    def ends_at(self, end: int, appends: Appends | None = None) -> None:
        """Set the end of the log, which further appends may move."""
        if end < self.end:
            for reading in self.readings:
                reading.grew()
            self._end, self._appends = end, None
            for reading in self.readings:
                reading.grew()
        self._end, self._appends = end, appends


class Progress:
    """Counts the records of a run, by group and by partition."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.produce_failed = 0
        self.reprocessed: dict[str, int] = {}
        self.zombies: dict[str, int] = {}
        self.commits: dict[str, int] = {}
        self.commits_failed: dict[str, int] = {}
        self.acknowledged_lost = 0
        self._logs: dict[TopicPartition, _Log] = {}
        self._readings: dict[GroupProgress, _GroupOnPartition] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            RecordsAppended: self._appended,
            ProduceFailed: self._failed,
            PartitionHosted: self._another_log,
            BecameLeader: self._another_log,
            NodeWritten: self._written,
            PositionSet: self._positioned,
            Processed: self._processed,
            RangeProcessed: self._processed,
            RangeOpened: self._range_written,
            RangeCommitted: self._range_written,
            RangesRemoved: self._range_written,
            OffsetCommitted: each_of(self._committed),
            OffsetRemoved: self._removed,
            DiskTailLost: self._lost_tail,
            CommitAnswered: self._answered,
            AssignmentReceived: self._received,
        }

    def finish(self) -> None:
        """Count the acknowledged records that no log has."""
        self.acknowledged_lost = self._panel.progress.acknowledged_lost()

    def lags(self, waiting: Waiting, at_us: int) -> tuple[LagFigures, ...]:
        """One row per group and partition: log end, committed offset, final lag and largest lag."""
        self._grew()
        readings = self._sorted()
        ages = {key: waiting.lag_us(*key, at_us) for key, _ in readings}
        return tuple(
            LagFigures(
                group=group,
                topic=topic,
                partition=number,
                end_offset=reading.log.end,
                committed=reading.progress.committed,
                lag=reading.lag,
                max_lag=reading.max_lag,
                lag_us=ages[group, (topic, number)][0],
                max_lag_us=ages[group, (topic, number)][1],
            )
            for (group, (topic, number)), reading in readings
        )

    def _sorted(self) -> list[tuple[tuple[str, TopicPartition], _GroupOnPartition]]:
        """((group, partition), account), sorted."""
        return sorted(((progress.key, each) for progress, each in self._readings.items()), key=lambda row: row[0])

    def _sums(self, measure: Callable[[_GroupOnPartition, TopicPartition], int]) -> dict[str, int]:
        """Group -> the sum of a measure over the group's partitions."""
        sums: dict[str, int] = {}
        for (group, partition), reading in self._sorted():
            sums[group] = sums.get(group, 0) + measure(reading, partition)
        return sums

    def uncommitted(self, group: str, at: TopicPartition) -> int:
        """Number of records that the group processed beyond its last commit."""
        progress = self._panel.progress.of(group, at)
        return progress.done_behind(progress.committed or 0)

    def lost(self) -> dict[str, int]:
        """Group -> number of committed records that were neither processed nor skipped."""
        progress = self._panel.progress
        return self._sums(lambda reading, at: count(progress.to_be_passed(reading.progress, at)))

    def skipped(self) -> dict[str, int]:
        """Group -> number of skipped records."""
        return self._sums(lambda reading, at: reading.progress.skipped_of(self._panel.logs.of(at).records))

    def processed(self) -> dict[str, int]:
        """Group -> number of processed records, also repeatedly."""
        return self._sums(lambda reading, _: reading.progress.processed)

    def lag(self) -> dict[str, int]:
        """Group -> current lag, summed over the group's partitions."""
        return self._sums(lambda reading, _: reading.lag)

    # --- logs --------------------------------------------------------------------------------------------------

    def _log(self, partition: TopicPartition) -> _Log:
        log = self._logs.get(partition)
        if log is None:
            log = self._logs[shared(partition)] = _Log()
        return log

    @only_news
    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        logs = self._panel.logs
        self._log((fact.topic, fact.partition)).ends_at(logs.appended_to.records.end, logs.appends)

    def _failed(self, seen: Seen, fact: ProduceFailed) -> None:
        self.produce_failed += fact.count

    def _another_log(self, seen: Seen, fact: PartitionHosted | BecameLeader) -> None:
        """Truncate the counts to the new leader's log. Later records at truncated offsets are new records."""
        at = (fact.topic, fact.partition)
        if type(fact) is BecameLeader:
            for group, partition in [key for key, _ in self._panel.commits.changed]:
                self._reading(group, partition).look()
        self._log(at).ends_at(self._panel.logs.of(at).records.end)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        """Forget a deleted partition: a partition with the same name that is created later starts empty."""
        at = self._panel.written
        if at is not None and at not in self._panel.states and at in self._logs:
            self._logs[at].ends_at(0)

    # --- groups ------------------------------------------------------------------------------------------------

    def _reading(self, group: str, partition: TopicPartition) -> _GroupOnPartition:
        return self._of(self._panel.progress.of(group, partition))

    def _of(self, progress: GroupProgress) -> _GroupOnPartition:
        reading = self._readings.get(progress)
        if reading is None:
            log = self._log(progress.key[1])
            reading = self._readings[progress] = _GroupOnPartition(log, progress)
            log.readings.append(reading)
        return reading

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        for partition in fact.partitions:
            reading = self._reading(fact.group, partition)
            if fact.generation >= reading.newest[0]:
                reading.newest = (fact.generation, seen.actor)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        self._reading(fact.group, (fact.topic, fact.partition)).look()

    def _range_written(self, seen: Seen, fact: RangeOpened | RangeCommitted | RangesRemoved) -> None:
        self._reading(fact.group, (fact.topic, fact.partition)).look()

    @only_news
    def _processed(self, seen: Seen, fact: Processed | RangeProcessed) -> None:
        group, count = fact.group, fact.last - fact.first
        reading = self._reading(group, (fact.topic, fact.partition))
        again = self._panel.progress.reprocessed
        if again:
            self.reprocessed[group] = self.reprocessed.get(group, 0) + again
        generation, owner = reading.newest
        if generation > fact.generation and owner != seen.actor:
            self.zombies[group] = self.zombies.get(group, 0) + count
            if type(fact) is Processed:
                self._panel.progress.judge_again(seen, fact)

    def _committed(self, seen: Seen, facts: Sequence[OffsetCommitted]) -> None:
        group = seen.fact.group
        for progress in self._panel.progress.committed_on:
            self._of(progress).look()
        self.commits[group] = self.commits.get(group, 0) + len(facts)

    def _removed(self, seen: Seen, fact: OffsetRemoved) -> None:
        progress = self._panel.progress.known(fact.group, (fact.topic, fact.partition))
        reading = None if progress is None else self._readings.get(progress)
        if reading is not None:
            reading.grew()

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        self._grew()  # the log of groups may have lost commits

    def _grew(self) -> None:
        for reading in self._readings.values():
            reading.grew()

    def _answered(self, seen: Seen, fact: CommitAnswered) -> None:
        if fact.error is not ErrorCode.NONE:
            self.commits_failed[fact.group] = self.commits_failed.get(fact.group, 0) + 1
