"""A log as those who watch know it: which leader appended which offsets.

A record is known by its offset and its term: the leader epoch it was appended in, and the life of the process that led.
One epoch has one leader, and no process loses the end of its log while it lives: so a term gives each offset once. A
log is a short list of runs of equal term, and comparing two logs is cheap however long they are.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import TypeAlias

Term: TypeAlias = tuple[int, int]
"""(leader epoch, which start of the leader's process). Terms of one partition rise along each of its logs."""
NO_TERM: Term = (-1, 0)
FIRST_TERM: Term = (0, 0)
"""Of what was there before anybody led."""
Run: TypeAlias = tuple[int, int, Term]
"""Records of one term: (first, last + 1, term)."""


class EpochLog:
    """Offsets ``start .. end - 1``, each with the term that appended it, as runs (term, start).

    What was below ``start`` is deleted: whatever is asked about it, nothing speaks against it.
    """

    __slots__ = ("end", "start", "starts", "terms")

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.terms: list[Term] = []
        self.starts: list[int] = []

    def append(self, base: int, count: int, term: Term) -> bool:
        """Records behind the end; False (and nothing done) when they do not follow it."""
        if base != self.end:
            return False
        if not self.terms or self.terms[-1] != term:
            self.terms.append(term)
            self.starts.append(base)
        self.end = base + count
        return True

    def start_at(self, start: int) -> None:
        """What is below is deleted, and if that is all, it goes on from here."""
        if start > self.start:
            self.start = start
            if start > self.end:
                self.end = start
                self.terms, self.starts = [], []

    def begin_at(self, start: int) -> None:
        """All of it is deleted; it goes on from here."""
        self.start = self.end = start
        self.terms, self.starts = [], []

    def cut(self, end: int) -> None:
        """Forget everything from here on."""
        if end < self.end:
            self.end = end
            self.start = min(self.start, end)
            while self.starts and self.starts[-1] >= end:
                self.starts.pop()
                self.terms.pop()

    def end_at(self, end: int, term: Term) -> None:
        """It ends here, whatever was known: what is missing was appended in this term."""
        self.cut(end)
        if end > self.end:
            self.append(self.end, end - self.end, term)

    def term_at(self, offset: int) -> Term:
        """The term of a record; ``NO_TERM`` where there is none."""
        if not self.start <= offset < self.end:
            return NO_TERM
        return self.terms[bisect_right(self.starts, offset) - 1]

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of a record; -1 where there is none."""
        return self.term_at(offset)[0]

    def restore(self, start: int, end: int, runs: Iterable[tuple[int, Term]]) -> None:
        """The log as it lies on a disk: (first offset, term) of each run, ascending."""
        self.start, self.end = start, end
        rows = list(runs)
        self.starts, self.terms = [first for first, _ in rows], [term for _, term in rows]

    def holds(self, first: int, last: int, term: Term) -> bool:
        """Whether records ``first .. last - 1`` are there and of this term."""
        first = max(first, self.start)
        return first >= last or (last <= self.end and self.term_at(first) == term == self.term_at(last - 1))

    def end_of(self, term: Term) -> int:
        """Behind the last record of a term; 0 when there is none."""
        return self.span_of(term)[1]

    def span_of(self, term: Term) -> tuple[int, int]:
        """The records of a term: (first, last + 1); (0, 0) when there are none."""
        if term not in self.terms:
            return 0, 0
        index = self.terms.index(term)
        first = max(self.starts[index], self.start)
        return first, self.starts[index + 1] if index + 1 < len(self.starts) else self.end

    def run_end(self, offset: int) -> int:
        """Behind the last record from here on that one term appended."""
        index = bisect_right(self.starts, offset)
        return self.starts[index] if index < len(self.starts) else self.end

    def runs_from(self, offset: int) -> list[Run]:
        """What there is from an offset on, by terms."""
        behind = [*self.starts[1:], self.end]
        rows, since = zip(self.starts, behind, self.terms, strict=False), max(offset, self.start)
        return [(max(first, since), last, term) for first, last, term in rows if last > since]

    def without(self, other: "EpochLog") -> list[Run]:
        """What another log has not; what is deleted there was there."""
        same = self.same_until(other)
        return lacking(self.runs_from(same), other) if same < self.end else []

    def copy(self) -> "EpochLog":
        """One of its own."""
        other = EpochLog()
        other.start, other.end = self.start, self.end
        other.terms, other.starts = list(self.terms), list(self.starts)
        return other

    def grow_from(self, other: "EpochLog", end: int) -> None:
        """Take over what another log has behind our end, up to here. What we know of before stays."""
        if not self.starts or other.start > self.end:
            self.start_at(other.start)
        if other.starts and other.starts[-1] <= self.end < end <= other.end:  # of one term: nearly always
            self.append(self.end, end - self.end, other.terms[-1])
            return
        for index in range(max(0, bisect_right(other.starts, self.end) - 1), len(other.starts)):
            behind = other.starts[index + 1] if index + 1 < len(other.starts) else other.end
            first, last = max(other.starts[index], self.end), min(behind, end)
            if first < last:
                self.append(first, last - first, other.terms[index])

    def same_until(self, other: "EpochLog", since: int = 0) -> int:
        """The first offset (from one on) at which two logs differ, or one of them ends. What is deleted is the same."""
        at, end = max(self.start, other.start, since), min(self.end, other.end)
        if at >= end:
            return end
        mine, theirs = bisect_right(self.starts, at) - 1, bisect_right(other.starts, at) - 1
        while self.terms[mine] == other.terms[theirs]:
            ours_behind = self.starts[mine + 1] if mine + 1 < len(self.starts) else self.end
            theirs_behind = other.starts[theirs + 1] if theirs + 1 < len(other.starts) else other.end
            at = min(ours_behind, theirs_behind)
            if at >= end:
                return end
            mine += at == ours_behind
            theirs += at == theirs_behind
        return at


def lacking(runs: Iterable[Run], log: EpochLog) -> list[Run]:
    """What of these a log has not; what is deleted there was there."""
    missing: list[Run] = []
    for first, last, term in runs:
        begin = max(first, log.start)
        start, end = log.span_of(term)
        start, end = max(begin, start), min(last, end)
        if start >= end:
            missing += [(begin, last, term)] if begin < last else []
            continue
        missing += [(begin, start, term)] if begin < start else []
        missing += [(end, last, term)] if end < last else []
    return missing


def minus(runs: Iterable[Run], others: Iterable[Run]) -> list[Run]:
    """What of these runs is in none of the others."""
    left = list(runs)
    for begin, behind, term in others:
        rest: list[Run] = []
        for first, last, of in left:
            if of != term or behind <= first or last <= begin:
                rest.append((first, last, of))
                continue
            rest += [(first, begin, of)] if first < begin else []
            rest += [(behind, last, of)] if behind < last else []
        left = rest
    return left
