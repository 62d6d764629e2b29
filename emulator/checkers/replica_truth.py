"""What checkers of replication know: each replica's log by leader epochs, and what was committed of a partition.

A record's identity is (leader epoch, offset): one epoch has one leader, and a leader gives each offset once. So a log
is a short list of runs of equal epoch, and comparing two logs is cheap however long they are.
"""

from bisect import bisect_right

NO_OFFSET = 1 << 62
"""Behind every record."""


class EpochLog:
    """Offsets ``0 .. end - 1``, each with the epoch that wrote it, as runs (epoch, start)."""

    __slots__ = ("end", "epochs", "starts")

    def __init__(self) -> None:
        self.end = 0
        self.epochs: list[int] = []
        self.starts: list[int] = []

    def append(self, base: int, count: int, epoch: int) -> bool:
        """Records behind the end; False (and nothing done) when they do not follow it."""
        if base != self.end:
            return False
        if not self.epochs or self.epochs[-1] != epoch:
            self.epochs.append(epoch)
            self.starts.append(base)
        self.end = base + count
        return True

    def cut(self, end: int) -> None:
        """Forget everything from here on."""
        if end < self.end:
            self.end = end
            while self.starts and self.starts[-1] >= end:
                self.starts.pop()
                self.epochs.pop()

    def epoch_at(self, offset: int) -> int:
        """The epoch of a record; -1 where there is none."""
        if not 0 <= offset < self.end:
            return -1
        return self.epochs[bisect_right(self.starts, offset) - 1]

    def restore(self, end: int, epochs: tuple[tuple[int, int], ...]) -> None:
        """The log as a broker found it on its disk; epochs without records do not count."""
        self.end = end
        runs = list(epochs) or [(0, 0)]
        kept = [
            (epoch, start)
            for (epoch, start), (_, behind) in zip(runs, [*runs[1:], (0, end)], strict=True)
            if start < behind
        ]
        self.epochs = [epoch for epoch, _ in kept]
        self.starts = [start for _, start in kept]

    def holds(self, first: int, last: int, epoch: int) -> bool:
        """Whether records ``first .. last - 1`` are there and of this epoch; epochs never fall along a log."""
        return last <= self.end and self.epoch_at(first) == epoch == self.epoch_at(last - 1)

    def end_of(self, epoch: int) -> int:
        """Behind the last record of an epoch; 0 when there is none."""
        if epoch not in self.epochs:
            return 0
        index = self.epochs.index(epoch)
        return self.starts[index + 1] if index + 1 < len(self.starts) else self.end

    def copy(self) -> "EpochLog":
        """One of its own."""
        other = EpochLog()
        other.end, other.epochs, other.starts = self.end, list(self.epochs), list(self.starts)
        return other

    def same_until(self, other: "EpochLog") -> int:
        """The first offset at which two logs differ, or one of them ends."""
        shortest = min(self.end, other.end)
        for index in range(min(len(self.epochs), len(other.epochs))):
            if self.epochs[index] != other.epochs[index] or self.starts[index] != other.starts[index]:
                return min(shortest, self.starts[index], other.starts[index])
        ends = [
            log.starts[len(shorter.starts)]
            for log, shorter in ((self, other), (other, self))
            if len(log.starts) > len(shorter.starts)
        ]
        return min([shortest, *ends])


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
