"""What checkers of replication know: each replica's log by leader epochs, and what was committed of a partition."""

from kemu.emulator.watching.epoch_log import EpochLog

NO_OFFSET = 1 << 62
"""Behind every record."""


class Copy:
    """One broker's replica, as its notes tell."""

    __slots__ = ("epoch", "following", "leads", "log", "lost", "unread", "watermark")

    def __init__(self) -> None:
        self.log = EpochLog()
        self.epoch = -1
        """The last leader epoch it took part in."""
        self.leads = False
        self.following = ""
        """Host of the leader it follows."""
        self.watermark = -1
        """As leader: the last high watermark it reported in this epoch."""
        self.unread = False
        """Its broker went down, and has not said since what it found on its disk."""
        self.lost = ""
        """How its disk lost something it was asked to keep (a reason of the atlas); "" once it has all again."""


class PartitionTruth:
    """One partition: its copies by host, what was ever below a high watermark, and what was promised besides."""

    __slots__ = ("committed", "committed_epoch", "copies", "excused_from", "promised", "unclean_epoch")

    def __init__(self) -> None:
        self.copies: dict[str, Copy] = {}
        self.committed = EpochLog()
        self.committed_epoch = -1
        """The newest leader epoch in which a high watermark was reported."""
        self.unclean_epoch = -1
        """Leader epoch of an unclean election whose leader has not spoken yet; -1 for none."""
        self.excused_from = NO_OFFSET
        """The lowest offset that anything was ever lost at for a reason: from there on readers may see two records."""
        self.promised: list[tuple[int, int, int]] = []
        """Acknowledged by a leader alone: (first, last + 1, epoch), ascending. Once committed it does not matter."""

    def copy_on(self, host: str) -> Copy:
        """The replica on a broker."""
        copy = self.copies.get(host)
        if copy is None:
            copy = self.copies[host] = Copy()
        return copy

    def excuse(self, offset: int) -> None:
        """What readers find from this offset on may change."""
        self.excused_from = min(self.excused_from, offset)

    def promise(self, first: int, last: int) -> None:
        """A leader alone acknowledged records ``first .. last - 1``."""
        while self.promised and self.promised[0][1] <= self.committed.end:
            del self.promised[0]
        epoch = max([copy.log.epoch_at(first) for copy in self.copies.values()], default=-1)
        if self.promised and self.promised[-1][1:] == (first, epoch):
            first = self.promised.pop()[0]
        self.promised.append((first, last, epoch))

    def broken_promises(self, log: EpochLog) -> list[tuple[int, int]]:
        """What was promised and neither is committed nor in this log: (first, last + 1). It is forgotten by that."""
        broken: list[tuple[int, int]] = []
        kept: list[tuple[int, int, int]] = []
        for first, last, epoch in self.promised:
            first = max(first, self.committed.end)
            there = min(max(first, log.end_of(epoch)), last) if log.epoch_at(first) == epoch else first
            if first < there:
                kept.append((first, there, epoch))
            if there < last:
                broken.append((there, last))
        self.promised = kept
        return broken
