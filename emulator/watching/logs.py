"""The logs of partitions as their leaders tell, and what members read of them (a part of the panel).

Where brokers replicate, the log that counts is the copy of the latest leader (``Copies``). Another leader may have
less, or other records at the same offsets; a disk may have lost its end. Whoever counts records asks here what of them
is still there.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import Seen
from kemu.emulator.watching.copies import Copies
from kemu.emulator.watching.epoch_log import EpochLog, Run, Term, lacking
from kemu.emulator.watching.former_lives import FormerLives
from kemu.emulator.watching.read_epochs import ReadEpochs
from kemu.protocol.names import ActorName, TopicPartition, host_of, part_on
from kemu.protocol.notes.groups import EpochRead, PartitionHosted, PositionSet, Processed, RecordsAppended
from kemu.protocol.notes.ranges import RangeEpochRead, RangePositionSet, RangeProcessed
from kemu.protocol.notes.replication import BecameLeader, LogStartMoved

SECOND = "catch-up"
"""What a member's second consumer (KIP-333) reads is its own: its positions are others."""


def reader_of(seen: Seen) -> ActorName:
    """Who read what a fact says was processed."""
    return part_on(seen.actor, SECOND) if type(seen.fact) is RangeProcessed else seen.actor


class WatchedLog:
    """The log of a partition that counts: what its latest leader has."""

    __slots__ = ("epoch", "leader", "life", "records")

    def __init__(self) -> None:
        self.records = EpochLog()
        self.leader: ActorName = ""
        """Who leads it, where that can change; "" where it cannot."""
        self.epoch = -1
        self.life = 0
        """The leader's: of its process."""

    @property
    def term(self) -> Term:
        """In which the leader appends."""
        return max(self.epoch, 0), self.life

    def is_led_by(self, actor: ActorName) -> bool:
        """Whether what this broker does with it counts."""
        return self.leader == actor or not self.leader

    def still_has(self, first: int, last: int, term: Term) -> int:
        """Up to where records ``first .. last - 1`` of a term are there, or may still come.

        What it lacks of an older term it lacks for ever.
        """
        if term >= (self.epoch, self.life):
            return last
        records = self.records
        first = max(first, records.start)  # what is deleted was there
        if first >= last:
            return last
        return min(last, records.end_of(term)) if records.term_at(first) == term else first


class WatchedLogs:
    """See the module.

    Args:
        copies: what each broker has.
        former: who is about a log that is deleted.
    """

    def __init__(self, copies: Copies, former: FormerLives | None = None) -> None:
        self._copies = copies
        self._former = FormerLives({}) if former is None else former
        self.reads = ReadEpochs()
        """What members read, by the terms that appended it."""
        self.cut: int | None = None
        """From where on the log that the last fact was about lost its records; None: it did not."""
        self.lost: list[Run] = []
        """What it lost so."""
        self.back: list[Run] = []
        """What it has now and had not just before: perhaps it had lost that earlier."""
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
            RangePositionSet: self._positioned,
            RangeEpochRead: self._read_epoch,
        }

    def of(self, at: TopicPartition | None) -> WatchedLog:
        """The log of a partition that counts; empty while nothing was heard of it."""
        if at is None:
            return WatchedLog()
        log = self._logs.get(at)
        if log is None:
            log = self._logs[at] = WatchedLog()
        return log

    def deleted(self, at: TopicPartition) -> None:
        """The partition is deleted: if it comes again it is another one."""
        self._logs.pop(at, None)
        self._copies.deleted(at)

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        log = self.of(at)
        self.cut, self.lost, self.back = None, [], []
        if fact.leader_epoch >= log.epoch and not self._former.has(seen.actor, at):
            log.leader = seen.actor
            self._replaced(log, seen, at, fact.leader_epoch)

    def _hosted(self, seen: Seen, fact: PartitionHosted) -> None:
        at = (fact.topic, fact.partition)
        self._replaced(self.of(at), seen, at, fact.leader_epoch)

    def _replaced(self, log: WatchedLog, seen: Seen, at: TopicPartition, epoch: int) -> None:
        """The log that counts is this broker's copy now."""
        before, now = log.records, self._copies.on_host(host_of(seen.actor), at).log
        log.epoch, log.life = epoch, seen.life
        same = before.same_until(now)
        self.lost, self.back = lacking(before.runs_from(same), now), lacking(now.runs_from(same), before)
        self.cut = same if same < before.end else None
        log.records = now.copy()

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        log = self.appended_to = self.of((fact.topic, fact.partition))
        counts = log.leader in ("", seen.actor) and not self._former.has(seen.actor, (fact.topic, fact.partition))
        self.counts = counts
        if counts:
            term = (max(log.epoch, 0), seen.life)
            if fact.base_offset != log.records.end:  # no-lost-record says so
                log.records.end_at(fact.base_offset, term)
            log.records.append(fact.base_offset, fact.count, term)

    def _start_moved(self, seen: Seen, fact: LogStartMoved) -> None:
        log = self.of((fact.topic, fact.partition))
        if log.is_led_by(seen.actor) and not self._former.has(seen.actor, (fact.topic, fact.partition)):
            log.records.start_at(fact.start_offset)

    def _positioned(self, seen: Seen, fact: PositionSet | RangePositionSet) -> None:
        self.reads.positioned(seen.actor, (fact.topic, fact.partition), fact.offset)

    def _read_epoch(self, seen: Seen, fact: EpochRead | RangeEpochRead) -> None:
        self.reads.told(seen.actor, (fact.topic, fact.partition), fact.offset, (fact.leader_epoch, fact.life))

    @property
    def changed(self) -> bool:
        """Whether the log that the last fact was about may have other records than before."""
        return self.cut is not None or bool(self.back)

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
        for first, last, term in self.reads.pieces(reader_of(seen), at, fact.first, fact.last):
            upto = log.still_has(first, last, term)
            if upto < last:
                if begin < upto:
                    found.append((begin, upto))
                begin = last
        if begin < fact.last:
            found.append((begin, fact.last))
        return found
