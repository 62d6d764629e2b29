"""The logs of partitions as their leaders tell, and what members read of them (a part of the panel).

The log that counts is the copy of the latest leader (``Copies``). The next leader may have less, or other records at
the same offsets; a disk may have lost its end.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import Seen
from kemu.emulator.watching.copies import Copies
from kemu.emulator.watching.epoch_log import EpochLog, Run, Term, lacking
from kemu.emulator.watching.former_lives import FormerLives
from kemu.emulator.watching.read_epochs import ReadEpochs
from kemu.protocol.names import ActorName, TopicPartition, host_of, part_on
from kemu.protocol.notes.groups import EpochRead, PartitionHosted, PositionSet, RecordsAppended
from kemu.protocol.notes.ranges import RangeEpochRead, RangePositionSet, RangeProcessed
from kemu.protocol.notes.replication import BecameLeader

SECOND = "catch-up"
"""What a member's second consumer (KIP-333) reads is its own: its positions are others."""


def reader_of(seen: Seen) -> ActorName:
    """Who read what a fact says was processed."""
    return part_on(seen.actor, SECOND) if type(seen.fact) is RangeProcessed else seen.actor


class WatchedLog:
    """The log of a partition that counts: the copy of its latest leader, as it was when that led last."""

    __slots__ = ("epoch", "leader", "life", "records")

    def __init__(self) -> None:
        self.records = EpochLog()
        self.leader: ActorName = ""
        """Who leads it, where that can change; "" where it cannot."""
        self.epoch = -1
        self.life = 0
        """The leader's: of its process."""

    def is_led_by(self, actor: ActorName) -> bool:
        """Whether what this broker does with it counts."""
        return self.leader == actor or not self.leader

    def still_has(self, first: int, last: int, term: Term) -> int:
        """Up to where records ``first .. last - 1`` of a term are there, or may still come.

        What it lacks of an older term it lacks for ever.
        """
        missing = lacking([(first, last, term)], self.records) if term < (self.epoch, self.life) else []
        return missing[0][0] if missing else last


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
        self.lost: list[Run] = []
        """What the log that the last fact was about lost, as another copy counts now."""
        self.returned: list[Run] = []
        """What it has now and had not just before: perhaps it had lost that earlier."""
        self.appended_to = WatchedLog()
        """The log that the last append was about, and ..."""
        self.counts = False
        """... whether it counts: a deposed leader appends to a log of its own, one of a deleted topic to that's."""
        self._logs: dict[TopicPartition, WatchedLog] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            BecameLeader: self._led,
            PartitionHosted: self._hosted,
            RecordsAppended: self._appended,
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

    @property
    def truncated_at(self) -> int | None:
        """From where on the log that the last fact was about lost its records; None: it did not."""
        return self.lost[0][0] if self.lost else None

    @property
    def changed(self) -> bool:
        """Whether the log that the last fact was about may have other records than before."""
        return bool(self.lost or self.returned)

    def deleted(self, at: TopicPartition) -> None:
        """The partition is deleted: if it comes again it is another one."""
        self._logs.pop(at, None)
        self._copies.deleted(at)

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        log = self.of(at)
        self.lost, self.returned = [], []
        if fact.leader_epoch >= log.epoch and not self._former.has(seen.actor, at):
            log.leader = seen.actor
            self._replaced(log, seen, at, fact.leader_epoch)

    def _hosted(self, seen: Seen, fact: PartitionHosted) -> None:
        at = (fact.topic, fact.partition)
        self._replaced(self.of(at), seen, at, fact.leader_epoch)

    def _replaced(self, log: WatchedLog, seen: Seen, at: TopicPartition, epoch: int) -> None:
        """The log that counts is this broker's copy now."""
        before, now = log.records, self._copies.on_host(host_of(seen.actor), at).log
        log.epoch, log.life, log.records = epoch, seen.life, now
        self.lost, self.returned = before.without(now), now.without(before)

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        at = (fact.topic, fact.partition)
        log = self.appended_to = self.of(at)
        self.counts = log.is_led_by(seen.actor) and not self._former.has(seen.actor, at)
        if self.counts:
            log.records = self._copies.on_host(host_of(seen.actor), at).log

    def _positioned(self, seen: Seen, fact: PositionSet | RangePositionSet) -> None:
        self.reads.positioned(seen.actor, (fact.topic, fact.partition), fact.offset)

    def _read_epoch(self, seen: Seen, fact: EpochRead | RangeEpochRead) -> None:
        self.reads.told(seen.actor, (fact.topic, fact.partition), fact.offset, (fact.leader_epoch, fact.life))
