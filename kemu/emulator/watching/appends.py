"""Appends that continue each other at the end of a partition's log (part of the panel)."""

from bisect import bisect_left

from kemu.emulator.watching.epoch_log import NO_TERM, EpochLog, Run, Term
from kemu.protocol.names import ActorName
from kemu.protocol.notes.groups import RecordsAppended


class AppendTimes:
    """A partition's batches: first offset, end (exclusive) and append time in us."""

    __slots__ = ("appends", "end", "ends", "firsts", "times")

    def __init__(self) -> None:
        self.appends: Appends | None = None
        """The appends that may continue the batches."""
        self.end = 0
        """The end of the log."""
        self.firsts: list[int] = []
        self.ends: list[int] = []
        self.times: list[int] = []

    def settle(self) -> None:
        """Add the batches that continued the last append."""
        further = None if self.appends is None else self.appends.times
        if further:
            ends = further[::2]
            self.firsts += [self.end, *ends[:-1]]
            self.ends += ends
            self.times += further[1::2]
            self.end = ends[-1]
            further.clear()

    def append(self, first: int, end: int, at_us: int, appends: "Appends") -> None:
        """Add a batch at the end, which further appends may continue."""
        self.appends, appends.times = appends, []
        self.end = end
        self.firsts.append(first)
        self.ends.append(end)
        self.times.append(at_us)

    def cut(self, end: int) -> None:
        """Truncate the log to this end offset."""
        keep = bisect_left(self.firsts, end)
        del self.firsts[keep:], self.ends[keep:], self.times[keep:]
        if keep and self.ends[-1] > end:
            self.ends[-1] = end


class Appends:
    """Appends to a log of one leader and one producer, without a gap of offsets or sequence numbers.

    The first append is news, which all observers take. Further appends change only this account, until a fact may
    change what an observer judges.
    """

    __slots__ = (*("actor", "base", "end", "first_sequence", "judged", "lead", "log", "producer_id", "term", "times"),)

    def __init__(self, actor: ActorName, fact: RecordsAppended, log: EpochLog) -> None:
        self.actor = actor
        self.log = log
        self.term: Term = log.terms[-1] if log.terms else NO_TERM
        self.base = fact.base_offset
        self.end = fact.base_offset + fact.count
        self.producer_id = fact.producer_id
        self.first_sequence = fact.sequence
        """The first sequence number; -1 without sequence numbers."""
        self.lead = self.base - self.first_sequence
        """The offset of a record minus its sequence number."""
        self.judged = -1
        """The number of news (``WatchedLogs.news``) at the first append; -1 if the next append is news."""
        self.times: list[int] | None = None
        """The further appends that ``AppendTimes`` lacks: two numbers each, the end and the time in us. None if no
        ``AppendTimes`` need them."""

    @property
    def sequence(self) -> int:
        """The next sequence number; -1 without sequence numbers."""
        return self.first_sequence if self.first_sequence < 0 else self.end - self.lead

    def batch(self, fact: RecordsAppended) -> Run:
        """The records that were appended with the sequence numbers of a batch."""
        first = fact.sequence + self.lead
        return first, first + fact.count, self.term

    def begin_with(self, before: "Appends") -> bool:
        """Let the account begin with earlier appends, if it continues these appends; return whether it does."""
        same = (before.end, before.sequence, before.term) == (self.base, self.first_sequence, self.term)
        if same and before.sequence >= 0:
            self.base, self.first_sequence = before.base, before.first_sequence
        return same and before.sequence >= 0
