"""Appends that continue each other at the end of a partition's log (part of the panel)."""

from kemu.emulator.watching.epoch_log import NO_TERM, EpochLog, Run, Term
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import RecordsAppended


class Appends:
    """Appends to a log of one leader and one producer, without a gap of offsets or sequence numbers.

    The first append is news, which all observers take. Further appends change only this account, until a fact may
    change what an observer judges.
    """

    __slots__ = ("base", "end", "first_sequence", "lead", "line", "log", "term", "times")

    def __init__(self, fact: RecordsAppended, log: EpochLog) -> None:
        self.log = log
        self.term: Term = log.terms[-1] if log.terms else NO_TERM
        self.base = fact.base_offset
        self.end = fact.base_offset + fact.count
        self.first_sequence = fact.sequence
        """The first sequence number; -1 without sequence numbers."""
        self.lead = self.base - self.first_sequence
        """The offset of a record minus its sequence number."""
        self.line: dict[TopicPartition, Appends] = {}
        """The accounts among which this one is, unless the next append is news (``WatchedLogs.lines``)."""
        self.times: list[int] | None = None
        """The further appends that nobody has taken from this list: two numbers each, the end and the time in us. None
        if nobody takes them."""

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
