"""The records that wait for groups, and the committed offsets, over time.

Waiting records have a series in all, and series of the partitions where most waited. These partitions also have their
commits, each with the end of the log at that time. The metrics know the waiting records
(``emulator.metrics.waiting``); this lane writes down each change. Changes within ``GRAIN_US`` become one row with the
largest number and one with the last.
"""

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any

from kemu.emulator.facts import Seen
from kemu.emulator.metrics.waiting import Queue, Waiting
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import GroupId, TopicPartition
from kemu.protocol.notes import groups, ranges, replication
from kemu.tools.report.frames import Coded, Frame, frame_of, name_of
from kemu.tools.report.lanes import Handlers

GRAIN_US = 5_000
MOST_ROWS = 40_000
"""Rows of one series; the grain of a longer run is larger."""
WORST = 100
"""Partitions with a series of their own."""


class _Series:
    """A number over time, first 0."""

    __slots__ = ("last", "times", "values")

    def __init__(self) -> None:
        self.times = array("q", (-1,))
        self.values = array("q", (0,))
        self.last = 0

    def put(self, at_us: int, value: int) -> None:
        """Set another number from now on."""
        self.last = value
        if self.times[-1] == at_us:
            self.values[-1] = value
        else:
            self.times.append(at_us)
            self.values.append(value)

    @property
    def most(self) -> int:
        """The largest number."""
        return max(self.values)

    def rows(self, grain_us: int) -> list[tuple[int, int]]:
        """The changes, at most two in each grain: the largest number, then the last one."""
        rows: list[tuple[int, int]] = []
        start, most, peak_us, last, last_us = -1, -1, 0, 0, 0
        for at_us, value in zip(self.times[1:], self.values[1:], strict=True):
            if start >= 0 and at_us >= start + grain_us:
                rows += _thinned(most, peak_us, last, last_us)
                start = -1
            if start < 0:
                start, most = at_us - at_us % grain_us, -1
            if value > most:
                most, peak_us = value, at_us
            last, last_us = value, at_us
        return rows + _thinned(most, peak_us, last, last_us) if start >= 0 else rows


def _thinned(most: int, peak_us: int, last: int, last_us: int) -> list[tuple[int, int]]:
    return [(peak_us, most)] if last_us == peak_us else [(peak_us, most), (last_us, last)]


class LagLane:
    """Waiting records. Sees each fact after the metrics."""

    def __init__(self, panel: Panel, waiting: Waiting) -> None:
        self._panel = panel
        self._waiting = waiting
        self._series: dict[Queue, tuple[TopicPartition, _Series]] = {}
        self._all = _Series()
        self._commits: dict[tuple[GroupId, TopicPartition], array[int]] = {}
        """Time, offset and end of the log of each commit, one after the other."""
        self.on: Handlers = {
            groups.RecordsAppended: self._of_partition,
            groups.PartitionHosted: self._of_partition,
            replication.BecameLeader: self._of_partition,
            replication.NodeWritten: self._written,
            groups.OffsetCommitted: self._committed,
            groups.PositionSet: self._of_group,
            groups.Processed: self._of_group,
            ranges.RangeProcessed: self._of_group,
            ranges.RangeTrimmed: self._of_group,
        }

    def _of_partition(self, seen: Seen, fact: Any) -> None:
        at = fact.topic, fact.partition
        for queue in self._waiting.queues_on(at):
            self._put(seen.at_us, queue, at)

    def _written(self, seen: Seen, fact: replication.NodeWritten) -> None:
        at = self._panel.written
        if at is not None:
            for queue in self._waiting.queues_on(at):
                self._put(seen.at_us, queue, at)

    def _of_group(self, seen: Seen, fact: Any) -> None:
        at = fact.topic, fact.partition
        self._put(seen.at_us, self._waiting.queue(fact.group, at), at)

    def _committed(self, seen: Seen, fact: groups.OffsetCommitted) -> None:
        at = fact.topic, fact.partition
        commits = self._commits.setdefault((fact.group, at), array("q"))
        commits.extend((seen.at_us, fact.offset, self._panel.logs.of(at).records.end))

    def _put(self, at_us: int, queue: Queue, at: TopicPartition) -> None:
        if queue.since_us < 0:
            return
        known = self._series.get(queue)
        if known is None:
            known = self._series[queue] = at, _Series()
        series = known[1]
        count, before = queue.count, series.last
        if count != before:
            series.put(at_us, count)
            self._all.put(at_us, self._all.last + count - before)

    def frames(self, at_us: int) -> dict[str, Frame]:
        """``waiting`` in all; ``lag`` and ``commits`` of the partitions where most records waited at any time."""
        grain_us = max(GRAIN_US, 2 * at_us // MOST_ROWS)
        series = {(queue.group, at): own for queue, (at, own) in self._series.items()}
        most = {key: own.most for key, own in series.items()}
        worst = sorted(series, key=lambda key: (-most[key], key))[:WORST]
        own_us = grain_us * max(1, len(worst) // 10)
        places = sorted(worst)
        lag = [series[place].rows(own_us) if most[place] else [] for place in places]
        commits = []
        for place in places:
            flat = iter(self._commits.get(place, ()))
            commits.append([*zip(flat, flat, flat, strict=True)])
        return {
            "waiting": frame_of(("at_us", "records"), self._all.rows(grain_us)),
            "lag": _of_places(places, lag, ("at_us", "records")),
            "commits": _of_places(places, commits, ("at_us", "offset", "end")),
        }


def _of_places(
    places: Sequence[tuple[GroupId, TopicPartition]], rows: Sequence[Sequence[tuple[int, ...]]], names: Sequence[str]
) -> Frame:
    """The rows of each place as one frame."""
    codes = [code for code, own in enumerate(rows) for _ in own]
    columns = {
        "group": Coded([group for group, _ in places], codes),
        "partition": Coded([name_of(at) for _, at in places], codes),
    }
    return Frame({**columns, **frame_of(names, chain.from_iterable(rows)).columns})
