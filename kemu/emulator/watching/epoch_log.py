"""A log as a list of runs: the leader that appended each offset.

A record is identified by its offset and its term. A term is the leader epoch and the life of the leader's process. One
epoch has one leader, and a running process never loses the end of its log. So a term appends each offset once. A log
is a short list of runs of equal term; comparing two logs is cheap, however long they are.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TypeAlias

Term: TypeAlias = tuple[int, int]
"""(leader epoch, life of the leader's process). Along each log of a partition, terms never decrease."""
NO_TERM: Term = (-1, 0)
FIRST_TERM: Term = (0, 0)
"""The term of records that were in the log before the first leader."""
Run: TypeAlias = tuple[int, int, Term]
"""Records of one term: (first, last + 1, term)."""


class EpochLog:
    """Offsets ``start .. end - 1`` with the term that appended each, as runs (term, start).

    Offsets below ``start`` are deleted. Queries treat a deleted record as present.
    """

    __slots__ = ("end", "start", "starts", "terms")

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.terms: tuple[Term, ...] = ()
        self.starts: tuple[int, ...] = ()

    def append(self, base: int, count: int, term: Term) -> bool:
        """Append records at the end. Return False without a change if the records do not follow the end."""
        if base != self.end:
            return False
        if not self.terms or self.terms[-1] != term:
            self.terms += (term,)
            self.starts += (base,)
        self.end = base + count
        return True

    def start_at(self, start: int) -> None:
        """Delete the records below this offset. An empty log continues at this offset."""
        if start > self.start:
            self.start = start
            if start > self.end:
                self.end = start
                self.terms, self.starts = (), ()

    def truncate(self, end: int) -> None:
        """Truncate the log to this end."""
        if end < self.end:
            self.end = end
            self.start = min(self.start, end)
            keep = bisect_left(self.starts, end)
            self.terms, self.starts = self.terms[:keep], self.starts[:keep]

    def end_at(self, end: int, term: Term) -> None:
        """Set the end. Missing records get this term."""
        self.truncate(end)
        if end > self.end:
            self.append(self.end, end - self.end, term)

    def term_of(self, first: int, last: int) -> Term:
        """The latest term, if it appended all of ``first .. last - 1`` and none is deleted; else ``NO_TERM``."""
        starts = self.starts
        if starts and starts[-1] <= first < last <= self.end and self.start <= first:
            return self.terms[-1]
        return NO_TERM

    def term_at(self, offset: int) -> Term:
        """The term of the record at this offset; ``NO_TERM`` if the log lacks the record."""
        if not self.start <= offset < self.end:
            return NO_TERM
        if self.starts[-1] <= offset:
            return self.terms[-1]
        return self.terms[bisect_right(self.starts, offset) - 1]

    def restore(self, start: int, end: int, runs: Iterable[tuple[int, Term]]) -> None:
        """Set the log to the content of a disk: (first offset, term) of each run, ascending."""
        self.start, self.end = start, end
        rows = list(runs)
        self.starts, self.terms = tuple([first for first, _ in rows]), tuple([term for _, term in rows])

    def span_of(self, term: Term) -> tuple[int, int]:
        """The records of a term: (first, last + 1); (0, 0) without such records."""
        terms = self.terms
        if terms and terms[-1] == term:
            return max(self.starts[-1], self.start), self.end
        if term not in terms:
            return 0, 0
        index = self.terms.index(term)
        first = max(self.starts[index], self.start)
        return first, self.starts[index + 1] if index + 1 < len(self.starts) else self.end

    def runs_from(self, offset: int) -> list[Run]:
        """The records from an offset on, by term."""
        since = max(offset, self.start)
        if since >= self.end:
            return []
        if self.starts[-1] <= since:
            return [(since, self.end, self.terms[-1])]
        index = bisect_right(self.starts, since) - 1
        later = self.starts[index + 1 :]
        return list(zip((since, *later), (*later, self.end), self.terms[index:], strict=True))

    def without(self, other: "EpochLog") -> list[Run]:
        """Records of this log that another log lacks. Records that the other log deleted are treated as present."""
        same = self.same_until(other)
        return lacking(self.runs_from(same), other) if same < self.end else []

    def copy(self) -> "EpochLog":
        """An independent copy."""
        other = EpochLog()
        other.start, other.end, other.starts, other.terms = self.start, self.end, self.starts, self.terms
        return other

    def grow_from(self, other: "EpochLog", end: int) -> None:
        """Append the records of another log after the end of this log, up to this offset."""
        if not self.starts or other.start > self.end:
            self.start_at(other.start)
        for first, last, term in other.runs_from(self.end):
            if first < end:
                self.append(first, min(last, end) - first, term)

    def same_until(self, other: "EpochLog") -> int:
        """The first offset at which two logs differ or one log ends. Deleted records are treated as equal."""
        at, end = max(self.start, other.start), min(self.end, other.end)
        while at < end:
            (behind, term), (theirs_behind, theirs) = self._run_at(at), other._run_at(at)
            if term != theirs:
                return at
            at = min(behind, theirs_behind)
        return end

    def _run_at(self, offset: int) -> tuple[int, Term]:
        """(last + 1, term) of the run that contains a record."""
        index = bisect_right(self.starts, offset)
        return self.starts[index] if index < len(self.starts) else self.end, self.terms[index - 1]


def lacking(runs: Iterable[Run], log: EpochLog) -> list[Run]:
    """The parts of these runs that a log lacks. Records that the log deleted are treated as present."""
    kept = [(max(first, log.start), last, term) for first, last, term in runs if last > log.start]
    return minus(kept, log.runs_from(0))


def minus(runs: Iterable[Run], others: Iterable[Run]) -> list[Run]:
    """The parts of these runs that no other run contains."""
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
