"""What became of records: appended, processed, processed again, left out, lost, waiting (a part of the metrics).

*Reprocessed*: records a group processed more often than once, counted once for each time too many.

*Lost*: records that count as done and were not: below the group's committed offset at the end, processed by nobody and
not skipped in the open; and records whose producer has an acknowledgement and which are in no log any more.

*Skipped* in the open: in the log, and left out by a reset of the position or an operator's commit (records from before
the group's start among them).

*Zombie records*: processed by a member after another one had received the partition in a later generation.

Where brokers replicate, a log is what its latest leader has (``Panel.logs``). What the log loses, because a leader
without it was elected or a disk lost its end, was never processed: what comes at these offsets again is other records.

Of a group with two commit logs (KIP-333) the committed offset is what ``committed()`` makes of them.

*Lag* of a partition: its log's end minus the group's committed offset, or minus where the group began to read while
nothing is committed.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import Seen
from kemu.emulator.metrics.figures import LagFigures
from kemu.emulator.metrics.waiting import Waiting
from kemu.emulator.watching.done import RecordsDone
from kemu.emulator.watching.group_commits import NOTHING
from kemu.emulator.watching.panel import Panel
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import NO_GENERATION, TopicPartition
from kemu.protocol.notes.groups import (
    COMMITTED,
    JUMPED,
    TRUNCATED,
    AssignmentReceived,
    CommitAnswered,
    OffsetCommitted,
    OffsetRemoved,
    PartitionHosted,
    PositionSet,
    Processed,
    ProduceFailed,
    RecordsAcknowledged,
    RecordsAppended,
)
from kemu.protocol.notes.ranges import RangeCommitted, RangeOpened, RangeProcessed, RangesRemoved, RangeTrimmed
from kemu.protocol.notes.replication import BecameLeader, NodeWritten


class _Reading:
    """One group on one partition."""

    __slots__ = ("committed", "cut", "log", "max_lag", "newest", "processed", "skipped", "start")

    def __init__(self, log: "_Log") -> None:
        self.log = log
        self.processed = RecordsDone()
        self.skipped = RecordsDone()
        self.committed: int | None = None
        self.cut: int | None = None
        """Where the log ended if it was shorter than the last commit says, then or since; None: it never was."""
        self.start: int | None = None
        """The group's first position."""
        self.max_lag = 0
        self.newest: tuple[int, str] = (NO_GENERATION, "")
        """The latest generation in which somebody received the partition, and who."""

    @property
    def rests_on(self) -> int:
        """Up to where the last commit is about records that are there: a reset skips from here on."""
        committed = self.committed or 0
        return committed if self.cut is None else min(committed, self.cut)

    @property
    def lag(self) -> int:
        """0 for a group that has no position yet."""
        reached = self.committed if self.committed is not None else self.start
        return 0 if reached is None else max(0, self.log.end - reached)

    def look(self) -> None:
        """Something changed: is the lag higher than ever?"""
        lag = self.lag
        if lag > self.max_lag:
            self.max_lag = lag

    def lost(self) -> int:
        """Records below the committed offset that nobody processed and nobody skipped in the open."""
        end = min(self.committed or 0, self.log.end)
        return sum(
            upto - at for first, last in self.processed.gaps(0, end) for at, upto in self.skipped.gaps(first, last)
        )

    def left_out(self) -> int:
        """Records of the log that were skipped in the open and never processed."""
        return sum(
            upto - at
            for first, last in self.skipped
            for at, upto in self.processed.gaps(first, min(last, self.log.end))
        )


class _Log:
    """One partition's records as its leader reports them."""

    __slots__ = ("acknowledged", "end", "readings")

    def __init__(self) -> None:
        self.end = 0
        self.acknowledged = RecordsDone()
        self.readings: list[_Reading] = []


class Progress:
    """Counts of the whole run, and per group and partition."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.appended = 0
        self.acknowledged = 0
        self.produce_failed = 0
        self.processed: dict[str, int] = {}
        self.reprocessed: dict[str, int] = {}
        self.zombies: dict[str, int] = {}
        self.commits: dict[str, int] = {}
        self.commits_failed: dict[str, int] = {}
        self.acknowledged_lost = 0
        self._logs: dict[TopicPartition, _Log] = {}
        self._readings: dict[tuple[str, TopicPartition], _Reading] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            RecordsAppended: self._appended,
            RecordsAcknowledged: self._acknowledged,
            ProduceFailed: self._failed,
            PartitionHosted: self._another_log,
            BecameLeader: self._another_log,
            NodeWritten: self._written,
            PositionSet: self._positioned,
            Processed: self._processed,
            RangeProcessed: self._processed,
            RangeTrimmed: self._trimmed,
            RangeOpened: self._range_written,
            RangeCommitted: self._range_written,
            RangesRemoved: self._range_written,
            OffsetCommitted: self._committed,
            OffsetRemoved: self._removed,
            CommitAnswered: self._answered,
            AssignmentReceived: self._received,
        }

    def finish(self) -> None:
        """Acknowledged records that lie behind the end of their log are lost."""
        for log in self._logs.values():
            self.acknowledged_lost += log.acknowledged.cut(log.end)

    def lags(self, waiting: Waiting, at_us: int) -> tuple[LagFigures, ...]:
        """One row per group and partition it ever read: end, committed offset, lag now and at its worst."""
        ages = {key: waiting.lag_us(*key, at_us) for key in self._readings}
        return tuple(
            LagFigures(
                group=group,
                topic=topic,
                partition=number,
                end_offset=reading.log.end,
                committed=reading.committed,
                lag=reading.lag,
                max_lag=reading.max_lag,
                lag_us=ages[group, (topic, number)][0],
                max_lag_us=ages[group, (topic, number)][1],
            )
            for (group, (topic, number)), reading in sorted(self._readings.items(), key=lambda item: item[0])
        )

    def sums(self, measure: Callable[[_Reading], int]) -> dict[str, int]:
        """Group -> the sum of a measure over its partitions."""
        sums: dict[str, int] = {}
        for group, partition in sorted(self._readings):
            sums[group] = sums.get(group, 0) + measure(self._readings[group, partition])
        return sums

    def uncommitted(self, group: str, at: TopicPartition) -> int:
        """Records behind the group's last commit that somebody processed."""
        reading = self._readings.get((group, at))
        if reading is None:
            return 0
        return sum(max(0, last - max(first, reading.committed or 0)) for first, last in reading.processed)

    def lost(self) -> dict[str, int]:
        """Group -> records that were committed and never processed."""
        return self.sums(_Reading.lost)

    def skipped(self) -> dict[str, int]:
        """Group -> records left out in the open."""
        return self.sums(_Reading.left_out)

    def lag(self) -> dict[str, int]:
        """Group -> the lag of all its partitions now."""
        return self.sums(lambda reading: reading.lag)

    # --- logs --------------------------------------------------------------------------------------------------

    def _log(self, partition: TopicPartition) -> _Log:
        log = self._logs.get(partition)
        if log is None:
            log = self._logs[partition] = _Log()
        return log

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        self.appended += fact.count
        log = self._log((fact.topic, fact.partition))
        log.end = self._panel.logs.appended_to.records.end
        for reading in log.readings:
            reading.look()

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        self.acknowledged += fact.count
        log = self._log((fact.topic, fact.partition))
        log.acknowledged.add(fact.base_offset, fact.base_offset + fact.count)

    def _failed(self, seen: Seen, fact: ProduceFailed) -> None:
        self.produce_failed += fact.count

    def _another_log(self, seen: Seen, fact: PartitionHosted | BecameLeader) -> None:
        """The log may be shorter than it was, or another: what comes at those offsets again is new."""
        at = (fact.topic, fact.partition)
        if type(fact) is BecameLeader:
            self._commits_changed()
        log = self._log(at)
        logs = self._panel.logs
        end = logs.cut
        self.acknowledged_lost += log.acknowledged.follow(logs)
        for reading in log.readings:
            reading.processed.follow(logs)
            reading.skipped.follow(logs)
            if end is not None:
                reading.cut = end if reading.cut is None else min(reading.cut, end)
        log.end = self._panel.logs.of(at).records.end

    def _commits_changed(self) -> None:
        """What a group's log has lost is committed no more."""
        for (group, at), left in self._panel.commits.changed:
            reading = self._reading(group, at)
            if not self._panel.ranges.uses(group):
                reading.committed = left if left != NOTHING else None
            reading.look()

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        """A partition that is deleted loses nothing; if it comes again it begins anew."""
        at = self._panel.written
        if at is not None and at not in self._panel.states and at in self._logs:
            log = self._logs[at]
            log.end = 0
            log.acknowledged = RecordsDone()
            for reading in log.readings:
                reading.processed, reading.skipped = RecordsDone(), RecordsDone()

    # --- groups ------------------------------------------------------------------------------------------------

    def _reading(self, group: str, partition: TopicPartition) -> _Reading:
        reading = self._readings.get((group, partition))
        if reading is None:
            log = self._log(partition)
            reading = self._readings[group, partition] = _Reading(log)
            log.readings.append(reading)
        return reading

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        for partition in fact.partitions:
            reading = self._reading(fact.group, partition)
            if fact.generation >= reading.newest[0]:
                reading.newest = (fact.generation, seen.actor)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        reading = self._reading(fact.group, (fact.topic, fact.partition))
        if fact.why in (TRUNCATED, JUMPED):
            pass  # what it had read is not there any more; or the second consumer works off what lies between
        elif fact.why != COMMITTED:
            reading.skipped.add(reading.rests_on, fact.offset)
        elif reading.committed is None:  # committed before this run began
            reading.skipped.add(0, fact.offset)
        if reading.start is None:
            reading.start = fact.offset
        reading.look()

    def _trimmed(self, seen: Seen, fact: RangeTrimmed) -> None:
        """Retention took them before the second consumer read them."""
        self._reading(fact.group, (fact.topic, fact.partition)).skipped.add(fact.first, fact.last)

    def _range_written(self, seen: Seen, fact: RangeOpened | RangeCommitted | RangesRemoved) -> None:
        at = (fact.topic, fact.partition)
        reading = self._reading(fact.group, at)
        reading.committed = self._panel.ranges.of(fact.group, at).committed
        reading.look()

    def _processed(self, seen: Seen, fact: Processed | RangeProcessed) -> None:
        group, count = fact.group, fact.last - fact.first
        reading = self._reading(group, (fact.topic, fact.partition))
        self.processed[group] = self.processed.get(group, 0) + count
        again = 0
        for first, last in self._panel.logs.still_there(seen, fact):
            again += reading.processed.add(first, last)
        if again:
            self.reprocessed[group] = self.reprocessed.get(group, 0) + again
        generation, owner = reading.newest
        if generation > fact.generation and owner != seen.actor:
            self.zombies[group] = self.zombies.get(group, 0) + count

    def _committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        reading = self._reading(fact.group, (fact.topic, fact.partition))
        if fact.generation == NO_GENERATION:  # an operator's: what it skips is skipped in the open
            reading.skipped.add(reading.rests_on, fact.offset)
        reading.committed = fact.offset
        reading.cut = reading.log.end if fact.offset > reading.log.end else None
        if self._panel.ranges.uses(fact.group):
            reading.committed = self._panel.ranges.of(fact.group, (fact.topic, fact.partition)).committed
        reading.look()
        self.commits[fact.group] = self.commits.get(fact.group, 0) + 1

    def _removed(self, seen: Seen, fact: OffsetRemoved) -> None:
        self._reading(fact.group, (fact.topic, fact.partition)).committed = None

    def _answered(self, seen: Seen, fact: CommitAnswered) -> None:
        if fact.error is not ErrorCode.NONE:
            self.commits_failed[fact.group] = self.commits_failed.get(fact.group, 0) + 1
