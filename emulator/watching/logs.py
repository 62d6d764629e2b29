"""The logs of partitions as their leaders tell, and what members read of them (a part of the panel).

Where brokers replicate, the log that counts is what the latest leader has. Another leader may have less, or other
records at the same offsets; a disk may have lost its end. Whoever counts records asks here what of them is still there.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import Seen
from kemu.emulator.watching.epoch_log import EpochLog
from kemu.emulator.watching.former_lives import FormerLives
from kemu.emulator.watching.read_epochs import ReadEpochs
from kemu.protocol.names import ActorName, TopicPartition, part_on
from kemu.protocol.notes.groups import EpochRead, PartitionHosted, PositionSet, Processed, RecordsAppended
from kemu.protocol.notes.ranges import RangeEpochRead, RangePositionSet, RangeProcessed
from kemu.protocol.notes.replication import BecameLeader, LogStartMoved

SECOND = "catch-up"
"""What a member's second consumer (KIP-333) reads is its own: its positions are others."""


def reader_of(seen: Seen) -> ActorName:
    """Who read what a fact says was processed."""
    return part_on(seen.actor, SECOND) if type(seen.fact) is RangeProcessed else seen.actor


Run = tuple[int, int, int]
"""Records of one leader epoch: (first, last + 1, epoch)."""


class WatchedLog:
    """The log of a partition that counts: what its latest leader has."""

    __slots__ = ("epoch", "gone", "leader", "records", "twice")

    def __init__(self) -> None:
        self.records = EpochLog()
        self.gone: list[Run] = []
        """What it has lost: a replica that was not asked for them may lead later, and has them still."""
        self.leader: ActorName = ""
        """Who leads it, where that can change; "" where it cannot."""
        self.epoch = -1
        """The leader's."""
        self.twice: tuple[int, int] | None = None
        """Offsets (first, last + 1) of which there are two records of one epoch: a leader lost them with its disk, led
        on in its epoch, and wrote others there. No fetch and no epoch tells the two apart."""

    def is_led_by(self, actor: ActorName) -> bool:
        """Whether what this broker does with it counts."""
        return self.leader == actor or not self.leader

    def still_has(self, first: int, last: int, epoch: int) -> int:
        """Up to where records ``first .. last - 1`` of an epoch are there, or may still come.

        What it lacks of an older epoch it lacks for ever.
        """
        if epoch >= self.epoch:
            return last
        records = self.records
        first = max(first, records.start)  # what is deleted was there
        if first >= last:
            return last
        return min(last, records.end_of(epoch)) if records.epoch_at(first) == epoch else first


def _sifted(runs: list[Run], log: EpochLog) -> tuple[list[Run], list[Run]]:
    """What of these is in a log, and what is not."""
    there: list[Run] = []
    missing: list[Run] = []
    for first, last, epoch in runs:
        start, end = log.span_of(epoch)
        start, end = min(max(first, start), last), min(max(first, end), last)
        there += [(start, end, epoch)] if start < end else []
        for begin, behind in ((first, start), (end, last)) if start < end else ((first, last),):
            missing += [(begin, behind, epoch)] if begin < behind else []
    return there, missing


class WatchedLogs:
    """See the module. ``former``: who is about a log that is deleted."""

    def __init__(self, former: FormerLives | None = None) -> None:
        self._former = FormerLives({}) if former is None else former
        self.reads = ReadEpochs()
        """What members read, by the epochs that wrote it."""
        self.cut: int | None = None
        """From where on the log that the last fact was about lost its records; None: it did not."""
        self.lost: list[Run] = []
        """What it lost so."""
        self.back: list[Run] = []
        """What that log had lost before, and has again."""
        self.unsure: tuple[int, int] | None = None
        """Where it may have either of two records, as another leads now than wrote there ``twice``."""
        self.appended_to = WatchedLog()
        """The log that the last append was about, and ..."""
        self.counts = False
        """... whether it counts: a deposed leader appends to a log of its own, one of a deleted topic to that's."""
        self._logs: dict[TopicPartition, WatchedLog] = {}
        self._last: tuple[Seen | None, list[tuple[int, int]]] = (None, [])
        """What ``still_there`` said of the fact in hand: several ask."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            BecameLeader: self._led,
            PartitionHosted: self._hosted,
            RecordsAppended: self._appended,
            LogStartMoved: self._start_moved,
            PositionSet: self._positioned,
            EpochRead: self._read_epoch,
            RangePositionSet: self._positioned_in_range,
            RangeEpochRead: self._read_epoch_in_range,
        }

    def of(self, at: TopicPartition) -> WatchedLog:
        """The log of a partition that counts; empty while nothing was heard of it."""
        log = self._logs.get(at)
        if log is None:
            log = self._logs[at] = WatchedLog()
        return log

    def deleted(self, at: TopicPartition) -> None:
        """The partition is deleted: if it comes again it is another one."""
        self._logs.pop(at, None)

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        log = self.of(at)
        self.cut, self.lost, self.back, self.unsure = None, [], [], None
        if fact.leader_epoch >= log.epoch and not self._former.has(seen.actor, at):
            before, leads_on = log.leader, (log.leader, log.epoch) == (seen.actor, fact.leader_epoch)
            end = log.records.end
            log.leader, log.epoch = seen.actor, fact.leader_epoch
            self._replaced(log, fact.end_offset, fact.epochs)
            if leads_on and fact.end_offset < end:
                first, last = log.twice or (end, end)
                log.twice = min(first, fact.end_offset), max(last, end)
            elif self.cut is not None and log.twice is not None:
                first, last = log.twice
                log.twice = (first, min(last, self.cut)) if first < self.cut else None
            if before != seen.actor:
                self.unsure = log.twice

    def _hosted(self, seen: Seen, fact: PartitionHosted) -> None:
        log = self.of((fact.topic, fact.partition))
        log.epoch = fact.leader_epoch
        self._replaced(log, fact.end_offset, fact.epochs)

    def _replaced(self, log: WatchedLog, end: int, epochs: tuple[tuple[int, int], ...]) -> None:
        """The log that counts is another's: it ends here, and these epochs wrote it (none: nobody says which)."""
        before, before_end = log.records, log.records.end
        self.lost, self.back, self.unsure = [], [], None
        if epochs:
            log.records = EpochLog()
            log.records.restore(end, epochs)
            same = before.same_until(log.records)
            self.lost = before.runs_from(same)
        else:
            same = min(before_end, end)
            self.lost = before.runs_from(end)
            before = before.copy()
            log.records.end_at(end, max(log.epoch, 0))
        self.cut = same if same < before_end else None
        if log.gone:
            # what was written there since, by a leader that led in its old epoch again, is of the same epoch
            log.gone = _sifted(log.gone, before)[1]
        log.gone += self.lost
        if epochs and log.gone:
            # not only of what was lost before: a replica that was not told of that has the same records behind others
            self.back, log.gone = _sifted(log.gone, log.records)

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        log = self.appended_to = self.of((fact.topic, fact.partition))
        counts = log.leader in ("", seen.actor) and not self._former.has(seen.actor, (fact.topic, fact.partition))
        self.counts = counts
        if counts:
            epoch = max(log.epoch, 0)
            if fact.base_offset != log.records.end:  # no-lost-record says so
                log.records.end_at(fact.base_offset, epoch)
            log.records.append(fact.base_offset, fact.count, epoch)

    def _start_moved(self, seen: Seen, fact: LogStartMoved) -> None:
        log = self.of((fact.topic, fact.partition))
        if log.is_led_by(seen.actor) and not self._former.has(seen.actor, (fact.topic, fact.partition)):
            log.records.start_at(fact.start_offset)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        self.reads.positioned(seen.actor, (fact.topic, fact.partition), fact.offset)

    def _read_epoch(self, seen: Seen, fact: EpochRead) -> None:
        self.reads.told(seen.actor, (fact.topic, fact.partition), fact.offset, fact.leader_epoch)

    def _positioned_in_range(self, seen: Seen, fact: RangePositionSet) -> None:
        self.reads.positioned(seen.actor, (fact.topic, fact.partition), fact.offset)

    def _read_epoch_in_range(self, seen: Seen, fact: RangeEpochRead) -> None:
        at = (fact.topic, fact.partition)
        self.reads.told(seen.actor, at, fact.offset, fact.leader_epoch)

    @property
    def changed(self) -> bool:
        """Whether the log that the last fact was about may have other records than before."""
        return self.cut is not None or bool(self.back) or self.unsure is not None

    def still_there(self, seen: Seen, fact: Processed | RangeProcessed) -> list[tuple[int, int]]:
        """What a member processed, (first, last + 1), without what the log has lost meanwhile."""
        if self._last[0] is not seen:
            self._last = seen, self._still_there(seen, fact)
        return self._last[1]

    def _still_there(self, seen: Seen, fact: Processed | RangeProcessed) -> list[tuple[int, int]]:
        at = (fact.topic, fact.partition)
        log = self._logs.get(at)
        if log is None or (not log.leader and log.epoch <= 0):  # nobody led it before
            return [(fact.first, fact.last)]
        found = []
        begin = fact.first
        for first, last, epoch in self.reads.pieces(reader_of(seen), at, fact.first, fact.last):
            upto = log.still_has(first, last, epoch)
            if upto < last:
                if begin < upto:
                    found.append((begin, upto))
                begin = last
        if begin < fact.last:
            found.append((begin, fact.last))
        return found
