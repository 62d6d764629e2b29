"""The committed records of a partition, and the lost committed records."""

from collections.abc import Iterable

from kemu.emulator.watching.epoch_log import EpochLog, Run, lacking, minus

NO_OFFSET = 1 << 62
"""An offset after every record."""


class ReplicaRole:
    """One broker's role in a partition; ``Copies`` has the broker's log."""

    __slots__ = ("epoch", "settled", "watermark")

    def __init__(self) -> None:
        self.epoch = -1
        """The last leader epoch in which the broker took a role."""
        self.watermark = -1
        """The last high watermark that the broker reported as leader of this epoch."""
        self.settled: list[Run] = []
        """Records that the broker's disk lost before the broker joined an ISR with every committed record. Such a loss
        excuses nothing any more.
        """


class PartitionTruth:
    """One partition of one topic: records that were ever below a high watermark, and records acknowledged by a leader
    alone.

    Args:
        former: the committed records of a deleted topic of the same name.
    """

    def __init__(self, former: EpochLog | None = None) -> None:
        self.former = EpochLog() if former is None else former
        self.members: dict[str, ReplicaRole] = {}
        """Host -> role of the broker."""
        self.committed = EpochLog()
        self.deleted_below = 0
        """Offset below which leaders deleted all records. A copy may lack these records, or may have them after a
        power cut.
        """
        self.committed_epoch = -1
        """The newest leader epoch with a reported high watermark."""
        self.unclean_epoch = -1
        """Leader epoch of an unclean election whose leader has not reported yet; -1 without such an election."""
        self.unclean_lacks: list[Run] = []
        """Committed records that the elected replica lacked at the unclean election."""
        self.lost: list[Run] = []
        """Committed or acknowledged records that the present log lacks, for a reason in LOSS_REASONS."""
        self._lossy: list[tuple[int, int]] = []
        """Elections with allowed losses: (first lost offset, leader epoch)."""
        self.by_leader_only: list[Run] = []
        """Uncommitted records that only a leader acknowledged, in ascending order."""

    def member(self, host: str) -> ReplicaRole:
        """The role of a broker; a new role for an unknown broker."""
        member = self.members.get(host)
        if member is None:
            member = self.members[host] = ReplicaRole()
        return member

    def not_deleted(self, runs: Iterable[Run]) -> list[Run]:
        """The records of these runs that no leader deleted."""
        least = self.deleted_below
        return [(max(first, least), last, term) for first, last, term in runs if last > least]

    def lose(self, runs: Iterable[Run]) -> None:
        """Note records that were lost for a reason."""
        self.lost += minus(runs, self.lost)

    def led_with_losses(self, offset: int, epoch: int) -> None:
        """Note that the leader of this epoch lacks records from this offset on, for a reason."""
        self._lossy.append((offset, epoch))

    def deposed_from(self, epoch: int) -> int:
        """First offset from which records of this epoch's leader are ignored, because later leaders lack them."""
        return min([offset for offset, later in self._lossy if epoch < later], default=NO_OFFSET)

    def unknown(self, run: Run) -> list[Run]:
        """The part of a run of records that was never committed."""
        rest = lacking([run], self.committed)
        return lacking(minus(rest, self.lost), self.former) if rest else rest

    def may_be_acknowledged(self, first: int, end: int) -> bool:
        """Whether a producer may have an acknowledgement for these offsets, because the records are or were
        committed.
        """
        at = max(first, self.committed.end, min(self.former.end, end))
        for begin, last, _ in sorted(self.lost):
            at = last if begin <= at < last else at
        return at >= end

    def continue_with(self, log: EpochLog, missing: list[Run]) -> None:
        """Continue with the log of a leader that lacks these committed records. Up to the last common record, the
        leader's other records are committed.
        """
        kept = minus(self.committed.runs_from(0), missing)
        end = max([last for _, last, _ in kept], default=0)
        self.committed.truncate(missing[0][0])
        self.committed.grow_from(log, min(end, log.end))

    def acknowledge_by_leader(self, first: int, last: int, logs: Iterable[EpochLog]) -> None:
        """Note that only a leader acknowledged the records ``first .. last - 1`` of one of these logs."""
        while self.by_leader_only and self.by_leader_only[0][1] <= self.committed.end:
            del self.by_leader_only[0]
        term = max([log.term_at(first) for log in logs], default=(-1, 0))
        if self.by_leader_only and self.by_leader_only[-1][1:] == (first, term):
            first = self.by_leader_only.pop()[0]
        self.by_leader_only.append((first, last, term))

    def lost_by_leader_only(self, log: EpochLog) -> list[Run]:
        """Remove and return the records of ``by_leader_only`` that are neither committed nor in this log."""
        open_ones = [(max(first, self.committed.end), last, term) for first, last, term in self.by_leader_only]
        open_ones = [run for run in open_ones if run[0] < run[1]]
        broken = lacking(open_ones, log)
        self.by_leader_only = minus(open_ones, broken)
        return broken
