"""What checkers of replication know: each replica's log by leader epochs, and what was committed of a partition.

A record's identity is (leader epoch, offset): one epoch has one leader, and a leader gives each offset once. So a log
is a short list of runs of equal epoch, and comparing two logs is cheap however long they are.
"""

from bisect import bisect_right


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
        """Its broker started again, and has not said what it found on its disk."""
        self.lost = ""
        """How its disk lost something it was asked to keep: "" while it did not."""


class PartitionTruth:
    """One partition: its copies by host, and what was ever below a high watermark."""

    __slots__ = ("committed", "committed_epoch", "copies", "unclean", "unclean_before")

    def __init__(self) -> None:
        self.copies: dict[str, Copy] = {}
        self.committed = EpochLog()
        self.committed_epoch = -1
        """The newest leader epoch in which a high watermark was reported."""
        self.unclean = False
        """The election whose leader has not spoken yet was unclean."""
        self.unclean_before = False
        """Some election was."""

    def copy_on(self, host: str) -> Copy:
        """The replica on a broker."""
        copy = self.copies.get(host)
        if copy is None:
            copy = self.copies[host] = Copy()
        return copy
