"""A log as those who watch know it: which leader epoch wrote which offsets.

A record's identity is (leader epoch, offset): one epoch has one leader, and a leader gives each offset once. So a log
is a short list of runs of equal epoch, and comparing two logs is cheap however long they are.
"""

from bisect import bisect_right


class EpochLog:
    """Offsets ``start .. end - 1``, each with the epoch that wrote it, as runs (epoch, start).

    What was below ``start`` is deleted: whatever is asked about it, nothing speaks against it.
    """

    __slots__ = ("end", "epochs", "start", "starts")

    def __init__(self) -> None:
        self.start = 0
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

    def start_at(self, start: int) -> None:
        """What is below is deleted, and if that is all, it goes on from here."""
        if start > self.start:
            self.start = start
            if start > self.end:
                self.end = start
                self.epochs, self.starts = [], []

    def begin_at(self, start: int) -> None:
        """All of it is gone; it goes on from here."""
        self.start = self.end = start
        self.epochs, self.starts = [], []

    def cut(self, end: int) -> None:
        """Forget everything from here on."""
        if end < self.end:
            self.end = end
            self.start = min(self.start, end)
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
        if not self.start <= offset < self.end:
            return -1
        return self.epochs[bisect_right(self.starts, offset) - 1]

    def restore(self, end: int, epochs: tuple[tuple[int, int], ...]) -> None:
        """The log as a broker found it on its disk; epochs without records do not count.

        The first one begins where the log does: a log of which no epoch is known is empty.
        """
        self.end = end
        self.start = epochs[0][1] if epochs else end
        behind = [*(start for _, start in epochs[1:]), end]
        kept = [(epoch, start) for (epoch, start), upto in zip(epochs, behind, strict=False) if start < upto]
        self.epochs = [epoch for epoch, _ in kept]
        self.starts = [start for _, start in kept]

    def holds(self, first: int, last: int, epoch: int) -> bool:
        """Whether records ``first .. last - 1`` are there and of this epoch; epochs never fall along a log."""
        first = max(first, self.start)
        return first >= last or (last <= self.end and self.epoch_at(first) == epoch == self.epoch_at(last - 1))

    def end_of(self, epoch: int) -> int:
        """Behind the last record of an epoch; 0 when there is none."""
        return self.span_of(epoch)[1]

    def span_of(self, epoch: int) -> tuple[int, int]:
        """The records of an epoch: (first, last + 1); (0, 0) when there are none."""
        if epoch not in self.epochs:
            return 0, 0
        index = self.epochs.index(epoch)
        first = max(self.starts[index], self.start)
        return first, self.starts[index + 1] if index + 1 < len(self.starts) else self.end

    def run_end(self, offset: int) -> int:
        """Behind the last record from here on that one epoch wrote."""
        index = bisect_right(self.starts, offset)
        return self.starts[index] if index < len(self.starts) else self.end

    def runs_from(self, offset: int) -> list[tuple[int, int, int]]:
        """What there is from an offset on, by epochs: (first, last + 1, epoch)."""
        behind = [*self.starts[1:], self.end]
        rows = zip(self.starts, behind, self.epochs, strict=False)
        return [(max(first, offset, self.start), last, epoch) for first, last, epoch in rows if last > offset]

    def copy(self) -> "EpochLog":
        """One of its own."""
        other = EpochLog()
        other.start, other.end = self.start, self.end
        other.epochs, other.starts = list(self.epochs), list(self.starts)
        return other

    def grow_from(self, other: "EpochLog", end: int) -> None:
        """Take over what another log has behind our end, up to here. What we know of before stays."""
        if not self.starts or other.start > self.end:
            self.start_at(other.start)
        if other.starts and other.starts[-1] <= self.end < end <= other.end:  # of one epoch: nearly always
            self.append(self.end, end - self.end, other.epochs[-1])
            return
        for index in range(max(0, bisect_right(other.starts, self.end) - 1), len(other.starts)):
            behind = other.starts[index + 1] if index + 1 < len(other.starts) else other.end
            first, last = max(other.starts[index], self.end), min(behind, end)
            if first < last:
                self.append(first, last - first, other.epochs[index])

    def same_until(self, other: "EpochLog", since: int = 0) -> int:
        """The first offset (from one on) at which two logs differ, or one of them ends. What is deleted is the same."""
        at, end = max(self.start, other.start, since), min(self.end, other.end)
        if at >= end:
            return end
        mine, theirs = bisect_right(self.starts, at) - 1, bisect_right(other.starts, at) - 1
        while self.epochs[mine] == other.epochs[theirs]:
            ours_behind = self.starts[mine + 1] if mine + 1 < len(self.starts) else self.end
            theirs_behind = other.starts[theirs + 1] if theirs + 1 < len(other.starts) else other.end
            at = min(ours_behind, theirs_behind)
            if at >= end:
                return end
            mine += at == ours_behind
            theirs += at == theirs_behind
        return at
