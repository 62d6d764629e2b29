"""The records that wait for a group, and their waiting times (a part of the metrics).

A queue keeps the append times of a partition's records, and the *frontier* of each group: the offset up to which the
group has advanced. Records from the frontier on wait. Records that a jump left behind for a second consumer (KIP-333)
wait, too. Any other position beyond the frontier skips the records in between (``progress`` counts these records as
skipped or lost). A position below the frontier changes nothing: a reprocessed record has no second delay.

*Delay* of a record: from its append until the application first reports the record as processed.

*Lag in seconds* of a partition: the age of the oldest waiting record. Both kinds of lag exclude records from before the
group's first position on the partition. Where brokers replicate, the log is the log of the latest leader
(``Panel.logs``).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from operator import sub
from typing import Any

from kemu.emulator.facts import Seen, only_news
from kemu.emulator.metrics.figures import FreshnessFigures
from kemu.emulator.metrics.freshness import Freshness, freshness_of
from kemu.emulator.metrics.spread import WeightedSpread
from kemu.emulator.watching.appends import Appends
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.progress import GroupProgress
from kemu.emulator.watching.ranges import Ranges
from kemu.protocol.names import OFFSETS_TOPIC, GroupId, TopicPartition, shared
from kemu.protocol.notes.groups import JUMPED, PartitionHosted, PositionSet, Processed, RecordsAppended
from kemu.protocol.notes.ranges import RangeProcessed, RangeTrimmed
from kemu.protocol.notes.replication import BecameLeader, NodeWritten

_FORGET = 128
"""Batches that no group needs any more are dropped when their number reaches this value."""


class _Log:
    """A partition's batches (first offset, end, append time in us), and the queues of the groups that read the
    partition.
    """

    __slots__ = ("appends", "end", "ends", "firsts", "kept", "queues", "times")

    def __init__(self) -> None:
        self.appends: Appends | None = None
        """The appends that may continue the batches."""
        self.end = 0
        """The end of the log."""
        self.firsts: list[int] = []
        self.ends: list[int] = []
        self.times: list[int] = []
        self.kept = 0
        """The number of batches below the highest frontier that ``forget`` kept for other groups."""
        self.queues: list[Queue] = []

    def settle(self) -> None:
        """Add the batches that continued the last append."""
        further = None if self.appends is None else self.appends.times
        if further:
            ends = further[::2]
            self.firsts += [self.end, *ends[:-1]]
            self.ends += ends
            self.times += further[1::2]
            self.end = ends[-1]
            further.clear()

    def append(self, first: int, at_us: int, appends: Appends) -> None:
        """Add a batch at the end, which further appends may continue."""
        self.appends, appends.times, self.end = appends, [], appends.end
        self.firsts.append(first)
        self.ends.append(self.end)
        self.times.append(at_us)

    def cut(self, end: int) -> None:
        """Truncate the log to this end offset."""
        keep = bisect_left(self.firsts, end)
        del self.firsts[keep:], self.ends[keep:], self.times[keep:]
        if keep and self.ends[-1] > end:
            self.ends[-1] = end
        for queue in self.queues:
            queue.frontier = min(queue.frontier, end)
            queue.index = bisect_left(self.ends, queue.frontier + 1)
            if queue.behind is not None:
                queue.behind.truncate(end)

    def forget(self) -> None:
        """Drop the batches that no group needs any more."""
        behind = min(queue.first_index() for queue in self.queues)
        del self.firsts[:behind], self.ends[:behind], self.times[:behind]
        for queue in self.queues:
            queue.index -= behind
        self.kept = max(queue.index for queue in self.queues)


class Queue:
    """The waiting records of one group on one partition."""

    __slots__ = (
        "behind",
        "delays",
        "fresh",
        "frontier",
        "group",
        "index",
        "largest_us",
        "last_us",
        "log",
        "progress",
        "since_us",
    )

    def __init__(self, group: GroupId, log: _Log, delays: WeightedSpread) -> None:
        self.group = group
        self.log = log
        self.delays = delays
        """The delays of the group on all partitions."""
        self.frontier = 0
        self.index = 0
        """Batches before this index end below the frontier."""
        self.since_us = -1
        """Time of the group's first position on the partition; -1 without a position."""
        self.last_us = -1
        """Time of the last report of processed records; -1 without a report."""
        self.largest_us = 0
        """The largest lag in seconds so far, in us."""
        self.behind: Ranges | None = None
        """Unprocessed ranges below the frontier that jumps left behind; None if the group never jumped on the
        partition."""
        self.fresh = Freshness()
        self.progress: GroupProgress | None = None
        """The group's progress from the first processed records on."""

    @property
    def count(self) -> int:
        """Number of waiting records, left behind or not."""
        return max(0, self.log.end - self.frontier) + (0 if self.behind is None else self.behind.total)

    def first_index(self) -> int:
        """Index of the first batch that waits, or whose time the freshness needs after a skip."""
        first = next(iter(self.behind or ()), None)
        needed = self.frontier if first is None else first[0]
        if self.fresh.highest < needed:
            needed = self.fresh.highest
        return self.index if needed == self.frontier else bisect_left(self.log.ends, needed + 1)

    def time_of(self, offset: int) -> int | None:
        """Append time of the record at this offset, or of the first known record after the offset; None without such a
        record.
        """
        index = bisect_left(self.log.ends, offset + 1)
        return self.log.times[index] if index < len(self.log.ends) else None

    def oldest_behind_us(self) -> int | None:
        """Append time of the oldest waiting record that a jump left behind; None without such a record."""
        first = next(iter(self.behind or ()), None)
        return None if first is None else self.time_of(first[0])

    def oldest_of_all_us(self) -> int | None:
        """Append time of the oldest waiting record, left behind or not; None if no record waits."""
        behind, oldest = self.oldest_behind_us(), self.oldest_us()
        return oldest if behind is None else behind if oldest is None else min(behind, oldest)

    def oldest_us(self, offset: int = 0) -> int | None:
        """Append time of the oldest record that waits at or above this offset; None without such a record."""
        ends, index, frontier = self.log.ends, self.index, self.frontier
        known = len(ends)
        while index < known and ends[index] <= frontier:
            index += 1
        self.index = index
        while index < known and ends[index] <= offset:
            index += 1
        return self.log.times[index] if index < known else None


class Waiting:
    """Counts delays and lag of all groups. The parts that ask about waiting records must get each fact first."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.delays: dict[GroupId, WeightedSpread] = {}
        """Delays by group, in microseconds, one value per record."""
        self._logs: dict[TopicPartition, _Log] = {}
        self._queues: dict[tuple[GroupId, TopicPartition], Queue] = {}
        self.on: Mapping[type, Callable[[Seen, Any], None]] = {
            RecordsAppended: self._appended,
            PartitionHosted: self._another_log,
            BecameLeader: self._another_log,
            NodeWritten: self._written,
            PositionSet: self._positioned,
            Processed: self._processed,
            RangeProcessed: self._range_processed,
            RangeTrimmed: self._trimmed,
        }

    def queue(self, group: GroupId, partition: TopicPartition) -> Queue:
        """The waiting records of a group on a partition."""
        queue = self._queues.get((group, partition))
        if queue is None:
            log = self._log(partition)
            delays = self.delays.setdefault(group, WeightedSpread())
            queue = self._queues[shared((group, shared(partition)))] = Queue(group, log, delays)
            log.queues.append(queue)
        self._settle(queue)
        return queue

    def queues_on(self, partition: TopicPartition) -> "list[Queue]":
        """The queues of all groups on a partition."""
        log = self._logs.get(partition)
        if log is None:
            return []
        for queue in log.queues:
            self._settle(queue)
        return log.queues

    def _cut(self, log: _Log, end: int) -> None:
        """Truncate a log to this end offset."""
        log.settle()
        for queue in log.queues:
            self._settle(queue)
        log.cut(end)

    def freshness(self, at_us: int) -> dict[GroupId, FreshnessFigures]:
        """Freshness by group, until this time."""
        parts: dict[GroupId, list[tuple[Freshness, int]]] = {}
        for (group, _), queue in sorted(self._queues.items(), key=lambda item: item[0]):
            self._settle(queue)
            if queue.since_us >= 0:
                queue.fresh.finish(at_us, queue.time_of(queue.fresh.highest))
                parts.setdefault(group, []).append((queue.fresh, at_us - queue.since_us))
        return {group: freshness_of(found) for group, found in parts.items()}

    def lag_us(self, group: GroupId, partition: TopicPartition, at_us: int) -> tuple[int, int]:
        """(current lag, largest lag) in us. For a group without any position, records wait from their append."""
        queue = self.queue(group, partition)
        oldest = queue.oldest_of_all_us()
        now_us = 0 if oldest is None else at_us - oldest
        return now_us, max(queue.largest_us, now_us)

    def _log(self, partition: TopicPartition) -> _Log:
        log = self._logs.get(partition)
        if log is None:
            log = self._logs[shared(partition)] = _Log()
        log.settle()
        return log

    @only_news
    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        appends = self._panel.logs.appends
        if appends is None or fact.topic == OFFSETS_TOPIC:
            return
        log, first = self._log((fact.topic, fact.partition)), fact.base_offset
        if first < log.end:
            self._cut(log, first)
        log.append(first, seen.at_us, appends)

    def _another_log(self, seen: Seen, fact: PartitionHosted | BecameLeader) -> None:
        """Truncate the queue to the new leader's log. The append times of the new leader's own records are unknown."""
        at = (fact.topic, fact.partition)
        log, logs = self._log(at), self._panel.logs
        if logs.truncated_at is not None:
            self._cut(log, logs.truncated_at)
        log.end = logs.of(at).records.end

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        """Forget the queue of a deleted partition."""
        at = self._panel.written
        if at is not None and at not in self._panel.states and at in self._logs:
            log = self._logs[at]
            self._cut(log, 0)
            log.end = 0

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        queue = self.queue(fact.group, (fact.topic, fact.partition))
        if queue.since_us < 0:
            queue.since_us = seen.at_us
        elif queue.oldest_us() is not None:
            queue.fresh.arrived(seen.at_us, queue.log.end)
        if fact.offset > queue.frontier:
            if fact.why == JUMPED:
                behind = queue.behind = queue.behind or Ranges()
                behind.add(queue.frontier, fact.offset)
            else:
                self._aged(queue, seen.at_us)
            queue.frontier = fact.offset
            self._freshened(queue, seen.at_us)

    @staticmethod
    def _freshened(queue: Queue, at_us: int) -> None:
        """Update freshness after records were processed or skipped."""
        if queue.fresh.waits:
            queue.fresh.reached(at_us, queue.frontier, queue.log.end, next(iter(queue.behind or ()), None))

    def _aged(self, queue: Queue, at_us: int) -> None:
        """Update the largest lag before the group skips the oldest waiting record."""
        oldest = queue.oldest_us()
        if oldest is not None and 0 <= queue.since_us <= oldest:
            queue.largest_us = max(queue.largest_us, at_us - oldest)

    @only_news
    def _processed(self, seen: Seen, fact: Processed) -> None:
        queue, now_us = self.queue(fact.group, (fact.topic, fact.partition)), seen.at_us
        queue.last_us = now_us
        if queue.since_us < 0:
            queue.since_us = now_us
        for first, last in self._panel.progress.in_log:
            self._first_processed(queue, first, ((last, now_us),))
        if queue.progress is None:
            queue.progress = self._panel.progress.of(fact.group, (fact.topic, fact.partition))
        if queue.fresh.waits:
            self._panel.progress.judge_again(seen, fact)

    def _settle(self, queue: Queue) -> None:
        """Count the records that were appended and processed since the last news, one report after the other."""
        queue.log.settle()
        progress = queue.progress
        if progress is not None and (finished := progress.reports()):
            ends, done_us = finished[::2], finished[1::2]
            if not self._each_processed(queue, ends, done_us):
                self._first_processed(queue, 0, zip(ends, done_us, strict=True))
            queue.last_us = finished[-1]
            finished.clear()

    @staticmethod
    def _each_processed(queue: Queue, ends: list[int], done_us: list[int]) -> bool:
        """Do as ``_first_processed`` with less work if each report is about one append; return whether it was done."""
        log, fresh, index = queue.log, queue.fresh, queue.index
        behind = index + len(ends)
        firsts, appended_us = log.firsts[index:behind], log.times[index:behind]
        if log.ends[index:behind] != ends or firsts != [queue.frontier, *ends[:-1]]:
            return False
        if fresh.waits or fresh.highest != queue.frontier or min(appended_us) < queue.since_us:
            return False
        delays_us = list(map(sub, done_us, appended_us))
        queue.delays.add_each(delays_us, list(map(sub, ends, firsts)))
        queue.largest_us = max(queue.largest_us, *delays_us)
        fresh.advanced_each(done_us, appended_us, ends[-1])
        queue.index, queue.frontier = behind, ends[-1]
        if behind > log.kept + _FORGET:
            log.forget()
        return True

    def _first_processed(self, queue: Queue, first: int, reports: Iterable[tuple[int, int]]) -> None:
        """Count the delays of the records that are processed for the first time, from ``first`` on. ``reports``: the
        end of processed records and the time, in us, of one report after the other.
        """
        log, fresh, since_us = queue.log, queue.fresh, queue.since_us
        firsts, ends, times, waits = log.firsts, log.ends, log.times, fresh.waits
        known, delayed = len(ends), queue.delays.add
        for last, now_us in reports:
            index, frontier, newest_us = queue.index, queue.frontier, -1
            if last <= frontier:
                continue
            if first < frontier:
                first = frontier
            if fresh.highest < frontier:
                next_us = queue.time_of(fresh.highest)
            elif index < known and ends[index] > first:
                next_us = times[index]
            else:
                next_us = queue.oldest_us(first)
            while index < known and (begin := firsts[index]) < last:
                end, appended_us = ends[index], times[index]
                count = (end if end < last else last) - (begin if begin > first else first)
                if count > 0:
                    newest_us = appended_us
                    if appended_us >= since_us:
                        delay_us = now_us - appended_us
                        delayed(delay_us, count)
                        if delay_us > queue.largest_us:
                            queue.largest_us = delay_us
                if end > last:
                    break
                index += 1
            queue.index, queue.frontier = index, last
            fresh.advanced(now_us, newest_us, next_us, last)
            if waits:
                self._freshened(queue, now_us)
        if queue.index > log.kept + _FORGET:
            log.forget()

    def _range_processed(self, seen: Seen, fact: RangeProcessed) -> None:
        """Count the processed records that a jump left behind, without reprocessed records."""
        queue = self.queue(fact.group, (fact.topic, fact.partition))
        behind = queue.behind
        if behind is None:
            return
        highest = queue.fresh.highest
        for first, last in self._panel.progress.in_log:
            for piece in behind.remove(first, last):
                self._delayed(queue, *piece, seen.at_us)
                if piece[0] < highest:
                    queue.fresh.reordered(highest - 1 - piece[0], piece[1] - piece[0])
                else:
                    newest_us = queue.time_of(piece[1] - 1)
                    queue.fresh.advanced(
                        seen.at_us, -1 if newest_us is None else newest_us, queue.time_of(piece[0]), piece[1]
                    )
        self._freshened(queue, seen.at_us)

    def _trimmed(self, seen: Seen, fact: RangeTrimmed) -> None:
        queue = self.queue(fact.group, (fact.topic, fact.partition))
        if queue.behind is not None:
            queue.behind.remove(fact.first, fact.last)
            self._freshened(queue, seen.at_us)

    @staticmethod
    def _delayed(queue: Queue, first: int, last: int, now_us: int) -> None:
        """Count the delay of records that a jump had left behind."""
        log = queue.log
        index = bisect_left(log.ends, first + 1)
        while index < len(log.ends) and log.firsts[index] < last:
            count = min(log.ends[index], last) - max(log.firsts[index], first)
            if count > 0 and log.times[index] >= queue.since_us:
                delay_us = now_us - log.times[index]
                queue.delays.add(delay_us, count)
                queue.largest_us = max(queue.largest_us, delay_us)
            index += 1
