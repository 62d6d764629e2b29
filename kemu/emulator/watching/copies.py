"""Each broker's copy of each partition, by the identities of its records (part of the panel).

The records of a copy follow from facts alone: appended, replicated, truncated and deleted records, and the logs on the
broker's disk at the start (``DiskFound``). The end that a broker reports (``BecameLeader.end_offset``) is compared with
the end of the computed copy.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kemu.actors.broker.partition_log import JOURNALS
from kemu.emulator.facts import DiskFound, DiskTailLost, HostDown, HostStarted, Seen, UnflushedLost, only_news
from kemu.emulator.findings import EMPTY_DISK, LOST_TAIL, UNFLUSHED
from kemu.emulator.watching.epoch_log import FIRST_TERM, EpochLog, Run, Term, lacking, minus
from kemu.protocol.names import TopicPartition, broker_host, host_of, shared
from kemu.protocol.notes.groups import PartitionHosted, RecordsAppended
from kemu.protocol.notes.replication import (
    BecameFollower,
    BecameLeader,
    LogStartMoved,
    RecordsReplicated,
    ReplicaRestored,
    ReplicaStopped,
    Truncated,
)


class Copy:
    """One broker's copy of a partition, and its role."""

    __slots__ = ("epoch", "following", "gap", "leads", "led", "log", "lost", "start_us", "truncated")

    def __init__(self) -> None:
        self.log = EpochLog()
        """The log of the copy. When the broker stops leading or reports another end, a new ``EpochLog`` replaces the
        object. So the log of the leadership stays known."""
        self.start_us = 0
        """Time at which the log start last moved, in us."""
        self.truncated: Sequence[Run] = ()
        """The records that the broker truncated last."""
        self.epoch = -1
        """The last leader epoch in which the broker took a role."""
        self.leads = False
        self.led = -1
        """The last leader epoch in which the broker led."""
        self.following = ""
        """Host of the leader that the broker followed last."""
        self.lost: Sequence[tuple[Run, str]] = ()
        """Records that the broker's disk lost and the broker has not replicated again, with the reason in
        LOSS_REASONS."""
        self.gap: int | None = None
        """The computed end of the log, if the broker reported another end or appended at another offset; None without a
        difference.
        """

    def stop_leading(self) -> None:
        """End the leadership. The log of the leadership stays unchanged, for later comparison."""
        if self.leads:
            self.leads, self.log = False, self.log.copy()

    def append(self, base: int, count: int, term: Term) -> None:
        """Append records. If the records do not follow the end, note the gap."""
        if self.log.append(base, count, term):
            self.gap = None
        else:
            self.report_end(base, term)
            self.log.append(base, count, term)
        if self.lost:
            appended = [(base, base + count, term)]
            self.lost = [(left, why) for run, why in self.lost for left in minus([run], appended)]

    def report_end(self, end: int, term: Term = FIRST_TERM) -> None:
        """Note the end of the log that the broker reported."""
        self.gap = None if self.log.end == end else self.log.end
        if self.gap is not None:
            self.log = self.log.copy()
            self.log.end_at(end, term)


class Taken:
    """Records that a fault removed from a disk: host, run, reason, and the epoch in which the host led at the fault."""

    __slots__ = ("host", "led", "run", "why")

    def __init__(self, host: str, run: Run, why: str, led: int) -> None:
        self.host, self.run, self.why, self.led = host, run, why, led

    def parts(self, at: int, one: Term, other: Term) -> bool:
        """Whether this fault explains different terms at an offset; see ``Copies.may_differ``."""
        first, last, term = self.run
        return first <= at < last and ((one == term and other[0] == self.led) or (other == term and one[0] == self.led))


class Copies:
    """The copies of all partitions on all brokers."""

    def __init__(self) -> None:
        self.taken: dict[TopicPartition, list[Taken]] = {}
        """Records that faults removed from disks, as found at the next start."""
        self.appended_to = Copy()
        """The copy of the last append."""
        self._copies: dict[TopicPartition, dict[str, Copy]] = {}
        self._faults: dict[tuple[str, TopicPartition], str] = {}
        """(host, partition) -> fault that hit the log since the host went down."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            BecameLeader: self._led,
            BecameFollower: self._followed,
            PartitionHosted: self._led,
            RecordsAppended: self._appended,
            RecordsReplicated: self._replicated,
            Truncated: self._truncated,
            LogStartMoved: self._start_moved,
            ReplicaRestored: self._restored,
            ReplicaStopped: self._stopped,
            HostDown: self._down,
            HostStarted: self._started,
            DiskFound: self._disk_found,
            DiskTailLost: self._tail_lost,
            UnflushedLost: self._unflushed,
        }

    def on_host(self, host: str, at: TopicPartition) -> Copy:
        """A broker's copy of a partition; empty if unknown."""
        copies = self._copies.get(at)
        if copies is None:
            copies = self._copies[shared(at)] = {}
        copy = copies.get(host)
        if copy is None:
            copy = copies[host] = Copy()
        return copy

    def of(self, at: TopicPartition) -> list[EpochLog]:
        """The copies of a partition on all brokers, also on brokers that are down."""
        return [copy.log for copy in self._copies.get(at, {}).values()]

    def deleted(self, at: TopicPartition) -> None:
        """Forget the lost records of a deleted partition, because a later topic of the same name has other records."""
        self.taken.pop(at, None)

    def may_differ(self, at: TopicPartition, offset: int, one: Term, other: Term) -> bool:
        """Whether two logs may have records of these terms at an offset, and no broker can detect the difference.

        A leader whose disk lost the end of its log, and that still leads in the same epoch, writes other records at the
        lost offsets. KIP-101, KIP-320 and KIP-595 compare only epochs. The epochs are equal in the leader's log and in
        the log of a follower that kept the records.
        """
        return any(taken.parts(offset, one, other) for taken in self.taken.get(at, ()))

    # --- what brokers do ---------------------------------------------------------------------------------------

    def _copy(self, seen: Seen, fact: Any) -> Copy:
        at = (fact.topic, fact.partition)
        copies = self._copies.get(at)
        known = None if copies is None else copies.get(seen.actor)  # the name of a broker is the name of its host
        return self.on_host(host_of(seen.actor), at) if known is None else known

    def _led(self, seen: Seen, fact: BecameLeader | PartitionHosted) -> None:
        copy = self._copy(seen, fact)
        copy.leads, copy.led, copy.epoch = True, fact.leader_epoch, fact.leader_epoch
        copy.report_end(fact.end_offset)

    def _followed(self, seen: Seen, fact: BecameFollower) -> None:
        copy = self._copy(seen, fact)
        copy.stop_leading()
        copy.epoch, copy.following = fact.leader_epoch, broker_host(fact.leader)

    @only_news
    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        copy = self.appended_to = self._copy(seen, fact)
        copy.append(fact.base_offset, fact.count, (max(copy.epoch, 0), seen.life))

    def _replicated(self, seen: Seen, fact: RecordsReplicated) -> None:
        self._copy(seen, fact).append(fact.base_offset, fact.count, (fact.leader_epoch, fact.life))

    def _truncated(self, seen: Seen, fact: Truncated) -> None:
        copy = self._copy(seen, fact)
        copy.truncated = copy.log.runs_from(fact.end_offset)
        copy.log.truncate(fact.end_offset)

    def _start_moved(self, seen: Seen, fact: LogStartMoved) -> None:
        copy = self._copy(seen, fact)
        copy.start_us, log = seen.at_us, copy.log
        if fact.start_offset == fact.end_offset != log.end:
            log.restore(fact.start_offset, fact.end_offset, ())  # the leader's log start is beyond the end of the copy
        else:
            log.start_at(fact.start_offset)

    def _restored(self, seen: Seen, fact: ReplicaRestored) -> None:
        self._copy(seen, fact).report_end(fact.end_offset)

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        copies = self._copies.get((fact.topic, fact.partition), {})
        if fact.deleted:
            copies.pop(host_of(seen.actor), None)
        elif (copy := copies.get(host_of(seen.actor))) is not None:
            copy.stop_leading()

    # --- hosts and their disks ---------------------------------------------------------------------------------

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for copies in self._copies.values():
            if (copy := copies.get(fact.host)) is not None:
                copy.stop_leading()

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        if not fact.kept_disk:
            for at in self._copies:
                self._faults[fact.host, at] = EMPTY_DISK
            self._found(fact.host, {})

    def _tail_lost(self, seen: Seen, fact: DiskTailLost) -> None:
        self._faults[fact.host, _partition_of(fact.log)] = LOST_TAIL

    def _unflushed(self, seen: Seen, fact: UnflushedLost) -> None:
        for log, _, _ in fact.logs:
            self._faults[fact.host, _partition_of(log)] = UNFLUSHED

    def _disk_found(self, seen: Seen, fact: DiskFound) -> None:
        found: dict[TopicPartition, EpochLog] = {}
        for name, start, end, runs in fact.logs:
            log = found[_partition_of(name)] = EpochLog()
            log.restore(start, end, [(first, (epoch, life)) for first, epoch, life in runs])
        self._found(fact.host, found)

    def _found(self, host: str, found: dict[TopicPartition, EpochLog]) -> None:
        """Set the logs of a disk to exactly these logs."""
        for at in [at for at, copies in self._copies.items() if host in copies and at not in found]:
            found[at] = EpochLog()
        for at, log in found.items():
            copy = self.on_host(host, at)
            why = self._faults.pop((host, at), "")
            missing = copy.log.without(log)
            led = copy.led if copy.led == copy.epoch else -1
            copy.log = log
            if why and missing:
                copy.lost = [*copy.lost, *[(run, why) for run in missing]]
                self.taken.setdefault(at, []).extend(Taken(host, run, why, led) for run in missing)
            if copy.lost:
                copy.lost = [(left, reason) for run, reason in copy.lost for left in lacking([run], log)]


def _partition_of(log: str) -> TopicPartition:
    topic, _, number = log.removeprefix(JOURNALS).rpartition("-")
    return topic, int(number) if number.isdecimal() else -1
