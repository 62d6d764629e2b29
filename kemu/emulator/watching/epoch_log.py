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

    def restore(self, start: int, end: int, runs: Iterable[tuple[int, Term]]) -> None:
        """The log as it lies on a disk: (first offset, term) of each run, ascending."""
        self.start, self.end = start, end
        rows = list(runs)
        self.starts, self.terms = [first for first, _ in rows], [term for _, term in rows]

    def span_of(self, term: Term) -> tuple[int, int]:
        """The records of a term: (first, last + 1); (0, 0) when there are none."""
        if term not in self.terms:
            return 0, 0
        index = self.terms.index(term)
        first = max(self.starts[index], self.start)
        return first, self.starts[index + 1] if index + 1 < len(self.starts) else self.end

    def runs_from(self, offset: int) -> list[Run]:
        """What there is from an offset on, by terms."""
        since = max(offset, self.start)
        if since >= self.end:
            return []
        index = bisect_right(self.starts, since) - 1
        starts, terms = self.starts[index:], self.terms[index:]
        starts[0] = since
        return list(zip(starts, [*starts[1:], self.end], terms, strict=True))

    def without(self, other: "EpochLog") -> list[Run]:
        """What another log has not; what is deleted there was there."""
        same = self.same_until(other)
        return lacking(self.runs_from(same), other) if same < self.end else []

    def copy(self) -> "EpochLog":
        """One of its own."""
        other = EpochLog()
        other.restore(self.start, self.end, zip(self.starts, self.terms, strict=True))
        return other

    def grow_from(self, other: "EpochLog", end: int) -> None:
        """Take over what another log has behind our end, up to here. What we know of before stays."""
        if not self.starts or other.start > self.end:
            self.start_at(other.start)
        for first, last, term in other.runs_from(self.end):
            if first < end:
                self.append(first, min(last, end) - first, term)

    def same_until(self, other: "EpochLog") -> int:
        """The first offset at which two logs differ, or one of them ends. What is deleted is the same."""
        at, end = max(self.start, other.start), min(self.end, other.end)
        while at < end:
            (behind, term), (theirs_behind, theirs) = self._run_at(at), other._run_at(at)
            if term != theirs:
                return at
            at = min(behind, theirs_behind)
        return end

    def _run_at(self, offset: int) -> tuple[int, Term]:
        """Of the run that a record is in: (last + 1, term)."""
        index = bisect_right(self.starts, offset)
        return self.starts[index] if index < len(self.starts) else self.end, self.terms[index - 1]


def lacking(runs: Iterable[Run], log: EpochLog) -> list[Run]:
    """What of these a log has not; what is deleted there was there."""
    kept = [(max(first, log.start), last, term) for first, last, term in runs if last > log.start]
    return minus(kept, log.runs_from(0))


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
