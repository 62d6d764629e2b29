"""A log as those who watch know it: which leader epoch wrote which offsets.

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

    def end_at(self, end: int, epoch: int) -> None:
        """It ends here, whatever was known: what is missing was written in this epoch."""
        self.cut(end)
        if end > self.end:
            self.append(self.end, end - self.end, epoch)

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
