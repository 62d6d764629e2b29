"""The logs of partitions as their leaders report them, and the records that members read (part of the panel).

The log of a partition is the copy of its latest leader (``Copies``). The next leader may have fewer records, or other
records at the same offsets. A disk may have lost the end of its log.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kemu.emulator.facts import Seen, only_news
from kemu.emulator.watching.appends import Appends
from kemu.emulator.watching.copies import Copies
from kemu.emulator.watching.epoch_log import EpochLog, Run, Term, lacking
from kemu.emulator.watching.former_lives import FormerLives
from kemu.emulator.watching.read_epochs import ReadEpochs
from kemu.protocol.names import ActorName, TopicPartition, host_of, part_on
from kemu.protocol.notes.groups import EpochRead, PartitionHosted, PositionSet, RecordsAppended
from kemu.protocol.notes.ranges import RangeEpochRead, RangePositionSet, RangeProcessed
from kemu.protocol.notes.replication import BecameLeader

SECOND = "catch-up"
"""Part name of a member's second consumer (KIP-333), which has separate positions."""


def reader_of(seen: Seen) -> ActorName:
    """The reader of the records in a fact of type ``Processed`` or ``RangeProcessed``."""
    return part_on(seen.actor, SECOND) if type(seen.fact) is RangeProcessed else seen.actor


class WatchedLog:
    """The log of a partition: the copy of its latest leader."""

    __slots__ = ("epoch", "leader", "life", "records")

    def __init__(self) -> None:
        self.records = EpochLog()
        self.leader: ActorName = ""
        """The latest leader; "" if brokers do not replicate."""
        self.epoch = -1
        self.life = 0
        """The life of the leader's process."""

    def is_led_by(self, actor: ActorName) -> bool:
        """Whether appends by this broker change this log."""
        return self.leader == actor or not self.leader

    def still_has(self, first: int, last: int, term: Term) -> int:
        """The end of the records among ``first .. last - 1`` of a term that are in the log or may still arrive.

        Records of an older term that the log lacks never arrive.
        """
        missing = lacking([(first, last, term)], self.records) if term < (self.epoch, self.life) else []
        return missing[0][0] if missing else last


class WatchedLogs:
    """The logs of all partitions.

    Args:
        copies: each broker's copies.
        former: the brokers that still host deleted logs.
    """

    def __init__(self, copies: Copies, former: FormerLives | None = None) -> None:
        self._copies = copies
        self._former = FormerLives({}) if former is None else former
        self.reads = ReadEpochs()
        """The records that members read, with their terms."""
        self.lost: list[Run] = []
        """Records that the log of the last fact lost, because another copy replaced the log."""
        self.returned: list[Run] = []
        """Records that the log of the last fact newly contains, because another copy replaced the log. The log may have
        lost these records before."""
        self.appended_to = WatchedLog()
        """The log of the last append."""
        self.appended_to_log = False
        """Whether the last append changed ``appended_to``. Appends of a deposed leader, or to a deleted topic, do not
        change the log.
        """
        self.appends: Appends | None = None
        """The account that the last append began; None if the append did not change the log."""
        self.lines: dict[tuple[ActorName, int], dict[TopicPartition, Appends]] = {}
        """(leader, producer id) -> the accounts that its next appends may continue. A fact that may change what
        observers judge of the next records removes all of them."""
        self.appended = 0
        """Number of appended records."""
        self._appends: dict[TopicPartition, Appends] = {}
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
        """The log of a partition; an empty log for an unknown partition."""
        if at is None:
            return WatchedLog()
        log = self._logs.get(at)
        if log is None:
            log = self._logs[at] = WatchedLog()
        return log

    def copies_of(self, at: TopicPartition) -> list[EpochLog]:
        """The copies of a partition on all brokers."""
        return self._copies.of(at)

    @property
    def truncated_at(self) -> int | None:
        """The first offset that the log of the last fact lost; None without a loss."""
        return self.lost[0][0] if self.lost else None

    @property
    def changed(self) -> bool:
        """Whether the last fact may have changed records of a log."""
        return bool(self.lost or self.returned)

    def deleted(self, at: TopicPartition) -> None:
        """Forget the log of a deleted partition. A later partition with this name has another log."""
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
        """Make this broker's copy the log of the partition."""
        before, now = log.records, self._copies.on_host(host_of(seen.actor), at).log
        log.epoch, log.life, log.records = epoch, seen.life, now
        self.lost, self.returned = before.without(now), now.without(before)

    def continues(self, at_us: int, actor: ActorName, facts: Sequence[RecordsAppended]) -> Sequence[RecordsAppended]:
        """Take the first appends that only continue the appends before them, and return the other appends.

        Since the first of the appends before them, no fact changed anything that observers judge.
        """
        line = self.lines.get((actor, facts[0].producer_id)) if facts else None
        if line is None:
            return facts
        number, records, producer_id = 0, 0, facts[0].producer_id
        for fact in facts:
            appends, base = line.get((fact.topic, fact.partition)), fact.base_offset
            if (
                appends is None
                or appends.end != base
                or (base - fact.sequence != appends.lead and not fact.sequence == appends.first_sequence == -1)
                or fact.producer_id != producer_id
            ):
                break
            count = fact.count
            appends.end = appends.log.end = end = base + count
            if (times := appends.times) is not None:
                times += (end, at_us)
            records += count
            number += 1
        if number:
            last = facts[number - 1]
            self.appended += records
            self.appended_to, self.appended_to_log = self._logs[last.topic, last.partition], True
        return facts[number:]

    @only_news
    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        at = (fact.topic, fact.partition)
        self.appended += fact.count
        log = self.appended_to = self.of(at)
        self.appended_to_log = log.leader in ("", seen.actor) and not self._former.has(seen.actor, at)
        self.appends = None
        if self.appended_to_log:
            copy = self._copies.appended_to
            log.records = copy.log
            if (before := self._appends.get(at)) is not None:
                before.line.pop(at, None)
            self.appends = self._appends[at] = Appends(fact, log.records)
            if copy.gap is None and not copy.lost:
                self.appends.line = self.lines.setdefault((seen.actor, fact.producer_id), {})
                self.appends.line[at] = self.appends

    def _positioned(self, seen: Seen, fact: PositionSet | RangePositionSet) -> None:
        self.reads.positioned(seen.actor, (fact.topic, fact.partition), fact.offset)

    def _read_epoch(self, seen: Seen, fact: EpochRead | RangeEpochRead) -> None:
        self.reads.read_from(seen.actor, (fact.topic, fact.partition), fact.offset, (fact.leader_epoch, fact.life))
