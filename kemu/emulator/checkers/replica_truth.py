"""What the checker of replicas knows of a partition: what was committed, and what was lost of that."""

from collections.abc import Iterable

from kemu.emulator.watching.epoch_log import EpochLog, Run, lacking, minus

NO_OFFSET = 1 << 62
"""Behind every record."""


class ReplicaRole:
    """One broker's part in a partition, since it took part in it first. Its log is ``Copies``'s."""

    __slots__ = ("epoch", "settled", "watermark")

    def __init__(self) -> None:
        self.epoch = -1
        """The last leader epoch it took part in."""
        self.watermark = -1
        """As leader: the last high watermark it reported in this epoch."""
        self.settled: list[Run] = []
        """What its disk lost before it was taken into an ISR with all that was committed: no excuse since."""


class PartitionTruth:
    """One partition of one topic: what was ever below a high watermark, and what was promised besides.

    Args:
        former: what was committed in the former life of a topic that was created again.
    """

    def __init__(self, former: EpochLog | None = None) -> None:
        self.former = EpochLog() if former is None else former
        self.members: dict[str, ReplicaRole] = {}
        """By host."""
        self.committed = EpochLog()
        self.deleted_below = 0
        """Leaders have deleted records up to here; a copy may lack them, or have them again after a power cut."""
        self.committed_epoch = -1
        """The newest leader epoch in which a high watermark was reported."""
        self.unclean_epoch = -1
        """Leader epoch of an unclean election whose leader has not spoken yet; -1 for none."""
        self.unclean_lacks: list[Run] = []
        """What was committed and the elected replica had not when the store had its election."""
        self.lost: list[Run] = []
        """What readers and producers may know of and the log that counts has not: lost for a reason in LOSS_REASONS."""
        self._lossy: list[tuple[int, int]] = []
        """Elections with such losses: (first offset that was lost, leader epoch)."""
        self.promised: list[Run] = []
        """Acknowledged by a leader alone, ascending. Once committed it does not matter."""

    def member(self, host: str) -> ReplicaRole:
        """A broker's part."""
        member = self.members.get(host)
        if member is None:
            member = self.members[host] = ReplicaRole()
        return member

    def not_deleted(self, runs: Iterable[Run]) -> list[Run]:
        """Of records that a log lacks, those that no leader deleted."""
        least = self.deleted_below
        return [(max(first, least), last, term) for first, last, term in runs if last > least]

    def lose(self, runs: Iterable[Run]) -> None:
        """These are lost for a reason."""
        self.lost += minus(runs, self.lost)

    def led_with_losses(self, offset: int, epoch: int) -> None:
        """The leader of this epoch lacks records from this offset on, for a reason."""
        self._lossy.append((offset, epoch))

    def deposed_from(self, epoch: int) -> int:
        """From where on what the leader of an epoch has does not count, as later leaders lack records there."""
        return min([offset for offset, later in self._lossy if epoch < later], default=NO_OFFSET)

    def unknown(self, run: Run) -> list[Run]:
        """What of a run neither is committed nor was."""
        rest = lacking([run], self.committed)
        return lacking(minus(rest, self.lost), self.former) if rest else rest

    def may_have_been_told(self, first: int, end: int) -> bool:
        """Whether a producer may know of records at these offsets: they are committed, or were and are lost."""
        at = max(first, self.committed.end, min(self.former.end, end))
        for begin, last, _ in sorted(self.lost):
            at = last if begin <= at < last else at
        return at >= end

    def goes_on_with(self, log: EpochLog, missing: list[Run]) -> None:
        """A leader has all that is committed but for these: the rest is, and what stands in its log before that."""
        there = minus(self.committed.runs_from(0), missing)
        end = max([last for _, last, _ in there], default=0)
        self.committed.truncate(missing[0][0])
        self.committed.grow_from(log, min(end, log.end))

    def promise(self, first: int, last: int, logs: Iterable[EpochLog]) -> None:
        """A leader alone acknowledged records ``first .. last - 1``, which are in one of these logs."""
        while self.promised and self.promised[0][1] <= self.committed.end:
            del self.promised[0]
        term = max([log.term_at(first) for log in logs], default=(-1, 0))
        if self.promised and self.promised[-1][1:] == (first, term):
            first = self.promised.pop()[0]
        self.promised.append((first, last, term))

    def broken_promises(self, log: EpochLog) -> list[Run]:
        """What was promised and neither is committed nor in this log. It is forgotten by that."""
        open_ones = [(max(first, self.committed.end), last, term) for first, last, term in self.promised]
        open_ones = [run for run in open_ones if run[0] < run[1]]
        broken = lacking(open_ones, log)
        self.promised = minus(open_ones, broken)
        return broken
