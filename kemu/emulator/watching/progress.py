"""The progress of each group on each partition: records processed, skipped and committed (part of the panel).

A record is identified by its offset and its term. A record that replaces a lost record at the same offset is a
different record.

- Processed (``done``): the application finished the record.
- Skipped: a position or an operator's commit omitted the record, and no rule forbids the omission. An application may
  seek; an operator may commit any offset. A reset is right if no offset was committed, or if the log lost the member's
  position.
- Unprocessed: the record is in the log below the committed offset, was in the log at the commit, and is neither
  processed nor skipped.

A member learns of lost records only from a leader whose log ends, in the member's leader epoch, before the member's
position (KIP-320). A record is *read past* if its epoch is not later than the epoch of the lost record that the group
processed at that offset. A record below an offset committed without a leader epoch is also *read past*; Streams commits
without an epoch up to 3.9 (``StreamTask.committableOffsetsAndMetadata``). Such records are expected losses.

Source: Kafka 3.4 ``LeaderEpochFileCache.endOffsetFor``, ``SubscriptionState.maybeCompleteValidation``.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kemu.actors.machine import Received
from kemu.emulator.facts import Seen, each_of, only_news, received
from kemu.emulator.watching.epoch_log import NO_TERM, EpochLog, Run, Term
from kemu.emulator.watching.group_commits import NOTHING, GroupCommits
from kemu.emulator.watching.logs import WatchedLogs, reader_of
from kemu.emulator.watching.ranges import Ranges
from kemu.emulator.watching.ranges_of_groups import WatchedRanges
from kemu.emulator.watching.topic_names import TopicNames
from kemu.protocol.messages.group import OffsetFetchReply
from kemu.protocol.names import NO_GENERATION, ActorName, GroupId, TopicPartition
from kemu.protocol.notes.groups import (
    COMMITTED,
    JUMPED,
    SEEK,
    TRUNCATED,
    OffsetCommitted,
    PartitionHosted,
    PartitionsAssigned,
    PositionSet,
    Processed,
    RecordsAcknowledged,
)
from kemu.protocol.notes.ranges import RangeProcessed, RangeTrimmed
from kemu.protocol.notes.replication import BecameLeader

ANY = NO_TERM
"""The term of records whose term is unknown. Such records match every term."""

NEVER_US = -2
KEPT = 100
"""Numbers that a list of reports keeps; the next report is news."""
SOUGHT, RESET, OPERATOR = "seek", "reset policy", "offsets set by an operator"
BEGAN, TRIMMED, RECREATED = "began there", "deleted records", "topic created again"
"""Names of the reasons for skipped records."""


class Records:
    """A set of records, by term."""

    __slots__ = ("by_term",)

    def __init__(self) -> None:
        self.by_term: dict[Term, Ranges] = {}

    def add(self, first: int, last: int, term: Term) -> int:
        """Add records ``first .. last - 1``; return the number of records that were in the set already."""
        if first >= last:
            return 0
        return self.of_term(term).add(first, last)

    def of_term(self, term: Term) -> Ranges:
        """The records of a term, as a set that may grow."""
        ranges = self.by_term.get(term)
        if ranges is None:
            ranges = self.by_term[term] = Ranges()
        return ranges

    def of(self, term: Term) -> Iterator[tuple[int, int]]:
        """The ranges of the set with this term."""
        return (piece for writer, ranges in self.by_term.items() if writer in (term, ANY) for piece in ranges)

    def lacking(self, pieces: list[Run]) -> list[Run]:
        """The parts of these runs that are not in the set."""
        for term, ranges in self.by_term.items():
            if pieces:
                pieces = [
                    (*gap, piece[2])
                    for piece in pieces
                    for gap in (ranges.gaps(*piece[:2]) if term in (piece[2], ANY) else (piece[:2],))
                ]
        return pieces

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return max([last for ranges in self.by_term.values() for _, last in list(ranges)[-1:]], default=0)

    def end_in(self, log: EpochLog) -> int:
        """The offset after the last record that a log contains."""
        end = 0
        for term, ranges in self.by_term.items():
            first, end_offset = (0, log.end) if term == ANY else log.span_of(term)
            last = ranges.end_below(end_offset)
            if end < last > first:
                end = last
        return end

    def lost(self, log: EpochLog, since: int) -> Iterator[Run]:
        """The records from an offset on that a log does not contain."""
        for term, ranges in self.by_term.items():
            if term != ANY:
                start, end = log.span_of(term)
                for first, last in ranges.within(max(since, log.start), sys.maxsize):
                    for piece in ((first, min(last, start), term), (max(first, end), last, term)):
                        if piece[0] < piece[1]:
                            yield piece


_NO_LOG, _NO_RECORDS = EpochLog(), Ranges()


class PartitionReader:
    """The account of one life of a member on one partition: its position and its work."""

    __slots__ = (
        *("_before_us", "_highest", "_highest_since", "_is_jump", "_is_set", "_set_us", "done", "done_before_us"),
        *("done_us", "life", "log", "offset", "progress", "readable", "reports", "term", "uncommitted_from"),
        *("uncommitted_us", "worked"),
    )

    def __init__(self, life: int, progress: "GroupProgress", at_us: int) -> None:
        self.life = life
        self.progress = progress
        self.log = _NO_LOG
        """The log whose records the next ``Processed`` may continue; an empty log if the next ``Processed`` is news."""
        self.done = _NO_RECORDS
        """The group's processed records of the term that the member reads."""
        self.reports: list[int] = []
        """The reports of processed records that only continue the reader's work and are not settled: two numbers each,
        the end of the records and the time in us."""
        self.offset = NOTHING
        """The offset of the position; ``NOTHING`` for a new owner without a position."""
        self.term: Term | None = None
        """The term of the record before the position; None if no record was read since the position was set."""
        self.readable = 0
        """The end of the log for readers when the member became owner; 0 if several brokers led the partition, because
        a deposed leader may report less."""
        self.worked = False
        """Whether the member processed records since its position was set. A jump sets no position."""
        self.done_us = self.done_before_us = -1
        """Times at which the member last finished records, and finished records before; -1 without such a time."""
        self.uncommitted_us = self.uncommitted_from = -1
        """Time of the first uncommitted work, and its end; -1 without uncommitted work."""
        self._set_us = self._before_us = at_us
        self._is_set = True
        self._is_jump = False
        self._highest = self._highest_since = NOTHING

    @property
    def since_us(self) -> int:
        """Time of this position, in us."""
        return self._set_us if self._is_set else self.finished_us

    @property
    def finished_us(self) -> int:
        """Time at which the member last finished records, in us; -1 without such a time."""
        return self.reports[-1] if self.reports else self.done_us

    @property
    def uncommitted_work(self) -> tuple[int, int]:
        """The time of the first uncommitted work, in us, and its end; negative without uncommitted work."""
        if self.uncommitted_us < 0 and self.reports:
            return self.reports[1], self.reports[0]
        return self.uncommitted_us, self.uncommitted_from

    @property
    def before_us(self) -> int:
        """Time of the previous position, in us."""
        self.settle()
        return self._before_us if self._is_set else max(self.done_before_us, self._set_us)

    @property
    def reached(self) -> int:
        """The highest offset that the member processed, or was positioned at; -1 without such an offset."""
        return max(self._highest, self.offset)

    @property
    def reached_before(self) -> int:
        """The highest offset before the last report or position that was news."""
        return self._highest

    @property
    def reached_since(self) -> int:
        """The highest offset since the last position was set."""
        return self._highest_since if self._is_jump else max(self._highest_since, self.offset)

    def settle(self) -> None:
        """Note the processed records of ``reports``, and pass the reports on."""
        reports = self.reports
        if not reports:
            return
        lasts, finished = self.done.lasts, self.progress.finished
        self.done_before_us = reports[-3] if len(reports) > 2 else self.done_us
        self.done_us = reports[-1]
        if self.uncommitted_us < 0:
            self.uncommitted_from, self.uncommitted_us = reports[:2]
        self.progress.count += self.offset - lasts[-1]
        lasts[-1] = self.offset
        finished += reports
        reports.clear()
        if len(finished) > KEPT:
            self.log = _NO_LOG

    def owns(self, at_us: int, readable: int) -> None:
        """Note that the member became owner of the partition."""
        self._set(NOTHING, at_us, at_us, self.reached_since)
        self.readable = readable

    def positioned(self, offset: int, at_us: int, before_us: int) -> None:
        """Note that the member set its position."""
        self._set(offset, at_us, before_us, offset)
        self.worked = False

    def jumped(self, offset: int, at_us: int, before_us: int) -> None:
        """Note that the member jumped to the end of a range, which a second consumer processes (KIP-333)."""
        self._set(offset, at_us, before_us, self.reached_since)
        self._is_jump = True

    def _set(self, offset: int, at_us: int, before_us: int, highest_since: int) -> None:
        self._highest, self._highest_since = self.reached, highest_since
        self.offset, self.term, self.readable, self.uncommitted_us = offset, None, 0, -1
        self._set_us, self._before_us, self._is_set, self._is_jump = at_us, before_us, True, False

    def processed(self, offset: int, term: Term | None, at_us: int) -> None:
        """Note that the member processed records up to an offset."""
        self._highest, self._highest_since = self.reached, self.reached_since
        self.offset, self.term, self.worked, self._is_set, self._is_jump = offset, term, True, False, False
        self.done_before_us, self.done_us = self.done_us, at_us
        if self.uncommitted_us < 0:
            self.uncommitted_us, self.uncommitted_from = at_us, offset

    def committed(self, offset: int, at_us: int) -> None:
        """Note that an offset of the member's work was committed."""
        self.settle()
        if self.uncommitted_us < 0:
            return
        if offset >= self.offset:
            self.uncommitted_us = -1
        elif offset >= self.uncommitted_from:
            self.uncommitted_us, self.uncommitted_from = at_us, self.offset

    def uncommitted(self) -> None:
        """Note that the committed offset was removed."""
        self.settle()
        self.uncommitted_us = -1


class Acknowledgements:
    """Acknowledgements of one producer on a partition, without a gap since the last that was news."""

    __slots__ = ("_records", "end", "line", "log", "ranges")

    def __init__(self, end: int, records: Records, log: EpochLog) -> None:
        self.end = end
        """The offset after the records that were acknowledged last."""
        self.log = log
        self._records = records
        self.ranges: Ranges | None = None
        """The acknowledged records of the term of these acknowledgements; None if the next acknowledgement is news."""
        self.line: dict[TopicPartition, Acknowledgements] = {}
        """The accounts among which this one is, unless the next acknowledgement is news
        (``WatchedProgress.acknowledged_by``)."""

    @property
    def records(self) -> Records:
        """All acknowledged records of the partition."""
        if self.ranges is not None:
            self.ranges.lasts[-1] = self.end
        return self._records


class GroupProgress:
    """The progress of one group on one partition."""

    __slots__ = (
        *(
            "_commit",
            "_done",
            "_ranges",
            "began",
            "truncated_at",
            "held",
            "highest",
            "key",
            "last_commit",
            "count",
            "reader",
            "skipped",
            "start",
            "undetected",
        ),
        *("_left_at", "finished", "was_truncated"),
    )

    def __init__(self, group: GroupId, at: TopicPartition, commits: GroupCommits, ranges: WatchedRanges) -> None:
        self.key = group, at
        self._commit = commits.account(group, at)
        self._ranges = ranges
        self._done = Records()
        self.skipped: dict[str, Records] = {}
        """Skipped records, by reason."""
        self.undetected = Records()
        """Processed records that the log had lost when a member continued after them from an offset committed without
        a leader epoch. No leader can report such a loss to the member (KIP-320)."""
        self.truncated_at: int | None = None
        """The lowest end of the log below the last committed offset; None if the log always contained the offset."""
        self.was_truncated = False
        """Whether the log has lost records since the group began."""
        self.start: int | None = None
        """The group's first position in this run."""
        self.began = False
        self.highest: int | None = None
        """The highest offset committed in this run."""
        self.last_commit: Seen | None = None
        self.held: dict[ActorName, PartitionReader] = {}
        """The last life of each member that ever read the partition."""
        self.reader: PartitionReader | None = None
        """The last reader that set its position or processed records, until it becomes owner again."""
        self._left_at = (NOTHING, 0)
        self.count = 0
        """Number of processed records, also repeatedly, without the reader's reports."""
        self.finished: list[int] = []
        """The settled reports since the last that was news (``PartitionReader.reports``)."""

    @property
    def done(self) -> Records:
        """The processed records."""
        self.settle()
        return self._done

    @property
    def processed(self) -> int:
        """Number of processed records, also repeatedly."""
        self.settle()
        return self.count

    def reports(self) -> list[int]:
        """The reports since the last that was news, for a caller that counts them and clears the list."""
        self.settle()
        return self.finished

    def settle(self) -> None:
        """Note the reports of the last reader. Earlier readers have no unsettled reports."""
        if self.reader is not None:
            self.reader.settle()

    @property
    def position(self) -> int:
        """The position of the last reader; -1 without a position."""
        return self._left_at[0] if self.reader is None else self.reader.offset

    @property
    def worked_us(self) -> int:
        """Time of the last progress of the last reader, in us."""
        return self._left_at[1] if self.reader is None else self.reader.since_us

    def read_by(self, reader: PartitionReader) -> None:
        """Note the last reader of the partition. An earlier reader's next records are news."""
        if self.reader is not None and self.reader is not reader:
            self.reader.settle()
            self.reader.log = _NO_LOG
        self.reader = reader

    def given_to(self, reader: PartitionReader) -> None:
        """Note that a reader becomes owner, without a position yet."""
        if self.reader is reader:
            self._left_at, self.reader = (reader.offset, reader.since_us), None

    @property
    def committed(self) -> int | None:
        """The committed offset; for a group with two commit logs (KIP-333), the answer of ``committed()``."""
        if self.key[0] in self._ranges.groups:
            return self._ranges.of(*self.key).committed
        committed = self._commit.offset
        return None if committed == NOTHING else committed

    @property
    def committed_in_log(self) -> int:
        """The end of the committed records that are in the log. A reset skips records from this offset on."""
        committed = self.committed or 0
        return committed if self.truncated_at is None else min(committed, self.truncated_at)

    def forget(self) -> None:
        """Forget the records of a deleted log."""
        self.settle()
        self._done, self.skipped, self.undetected, self.truncated_at = Records(), {}, Records(), None

    def skip(self, first: int, last: int, why: str, log: EpochLog) -> None:
        """Mark records as skipped. Deleted and future records are marked in every term."""
        if first >= last:
            return
        records = self.skipped.setdefault(why, Records())
        if first < log.start:
            records.add(first, min(last, log.start), ANY)
        for piece in pieces_of(log, first, last):
            records.add(*piece)
        records.add(max(first, log.end), last, ANY)

    def left(self, pieces: list[Run]) -> list[Run]:
        """The parts of these runs that are neither processed nor skipped."""
        left = self.done.lacking(pieces)
        for records in self.skipped.values():
            left = records.lacking(left)
        return left

    def read_past(self, piece: Run, log: EpochLog) -> list[tuple[int, int]]:
        """The ranges of this run that no leader reported as lost. The group processed other records at these offsets,
        and the log lost those records later.
        """
        found = Ranges()
        latest: list[tuple[int, int, int]] = []
        """Ranges of lost records that the group processed without a gap, each with its last leader epoch."""
        for first, last, term in sorted(self.done.lost(log, piece[0]), key=_first):
            epoch = term[0]
            if latest and first <= latest[-1][1]:
                start, end_offset, known = latest[-1]
                latest[-1] = (start, max(end_offset, last), max(known, epoch))
            else:
                latest.append((first, last, epoch))
        for first, last, epoch in latest:
            if epoch >= piece[2][0]:
                found.add(first, last)
        # A position from a seek or a reset has no leader epoch.
        for records in (self.undetected, *self.skipped.values()):
            for first, last, _ in records.lost(log, piece[0]):
                found.add(first, last)
        return found.within(*piece[:2])

    def skipped_of(self, log: EpochLog) -> int:
        """Number of records, in the log or deleted from the log, that were skipped and not processed."""
        pieces = self.done.lacking(pieces_of(log, 0, log.end))
        left = pieces
        for records in self.skipped.values():
            left = records.lacking(left)
        deleted = Ranges()
        for records in self.skipped.values():
            for ranges in records.by_term.values():
                for first, last in ranges.within(0, log.start):
                    deleted.add(first, last)
        gaps = [(first, last, ANY) for first, last in deleted]
        for ranges in self.done.by_term.values():
            gaps = [(*gap, ANY) for first, last, _ in gaps for gap in ranges.gaps(first, last)]
        return count(pieces) - count(left) + count(gaps)

    def done_behind(self, offset: int) -> int:
        """Number of processed records from this offset on."""
        return sum(max(0, last - max(first, offset)) for each in self.done.by_term.values() for first, last in each)


def pieces_of(log: EpochLog, first: int, last: int) -> list[Run]:
    """The records ``first .. last - 1`` of a log, by term."""
    return [(begin, min(end, last), term) for begin, end, term in log.runs_from(first) if begin < last]


def _first(piece: Run) -> int:
    return piece[0]


def count(pieces: Iterable[Run]) -> int:
    """Number of records in these runs."""
    return sum(last - first for first, last, _ in pieces)


class WatchedProgress:
    """The progress of all groups. The handlers of this class run after the handlers of the logs and the commits."""

    def __init__(
        self, logs: WatchedLogs, commits: GroupCommits, ranges: WatchedRanges, topic_names: TopicNames
    ) -> None:
        self.all: dict[TopicPartition, dict[GroupId, GroupProgress]] = {}
        self.continuing: dict[ActorName, dict[TopicPartition, PartitionReader]] = {}
        """Member -> partition -> the account that the next ``Processed`` may continue. A fact that may change what
        observers judge of a reader's next records removes all entries."""
        self.acknowledged_by: dict[ActorName, dict[TopicPartition, Acknowledgements]] = {}
        """Producer -> partition -> the account that the next ``RecordsAcknowledged`` may continue. A fact that may
        change what observers judge of the next acknowledgements removes all entries."""
        self.position_before: int | None = None
        """The position of the member before the last ``Processed``; None without a position."""
        self._working: dict[ActorName, dict[TopicPartition, PartitionReader]] = {}
        """Member -> partition -> the last life that reported ``Processed``."""
        self.reprocessed = 0
        """Number of records in the last ``Processed`` or ``RangeProcessed`` that were processed before."""
        self.in_log: list[tuple[int, int]] = []
        """The ranges of the last ``Processed`` or ``RangeProcessed`` that are in the log."""
        self.kept_in_log = ""
        """Explanation why the member of the last ``PositionSet`` had no reason for another position; "" if it had a
        reason."""
        self.not_the_end = ""
        """Explanation why the last ``PositionSet`` cannot be the end of the log; "" if it can be."""
        self.committed_on: list[GroupProgress] = []
        """The progress of each partition of the last commit (``GroupCommits.last``)."""
        self._logs = logs
        self._commits = commits
        self._ranges = ranges
        self._topic_names = topic_names
        self.acknowledged = 0
        """Number of acknowledged records."""
        self.acknowledging = Acknowledgements(0, Records(), EpochLog())
        """The account that the last ``RecordsAcknowledged`` began."""
        self._acknowledged: dict[TopicPartition, Acknowledgements] = {}
        self._led_by: dict[TopicPartition, tuple[ActorName, int]] = {}
        """Partition -> (only leader so far, end of the log for readers at its start); the leader is "" after several
        leaders."""
        self._epochs: dict[tuple[ActorName, TopicPartition], int] = {}
        """(member, partition) -> leader epoch of the member's committed offset; -1 without an epoch."""
        self._truncated_us: dict[TopicPartition, int] = {}
        """Time at which the log last lost records, in us."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            Processed: self._processed,
            RangeProcessed: self._processed,
            RangeTrimmed: self._trimmed,
            received(OffsetFetchReply): self._committed_answered,
            PositionSet: self._positioned,
            PartitionsAssigned: self._owns,
            OffsetCommitted: each_of(self._commits_offsets),
            RecordsAcknowledged: self._acknowledges,
            PartitionHosted: self._leader_changed,
            BecameLeader: self._leader_changed,
        }

    def of(self, group: GroupId, at: TopicPartition) -> GroupProgress:
        """The progress of a group on a partition, with the settled work of its last reader."""
        groups = self.all.get(at)
        progress = None if groups is None else groups.get(group)
        if progress is None:
            progress = self.all.setdefault(at, {})[group] = GroupProgress(group, at, self._commits, self._ranges)
        progress.settle()
        return progress

    def __iter__(self) -> Iterator[tuple[GroupId, TopicPartition, GroupProgress]]:
        """All entries, in the order in which they began."""
        return ((group, at, progress) for at, groups in self.all.items() for group, progress in groups.items())

    def known(self, group: GroupId, at: TopicPartition) -> GroupProgress | None:
        """The progress of a group on a partition, which may be unsettled; None before its begin."""
        return self.all.get(at, {}).get(group)

    def position(self, group: GroupId, at: TopicPartition) -> int:
        """The position of a partition's last reader; -1 without a position."""
        progress = self.known(group, at)
        return NOTHING if progress is None else progress.position

    def unprocessed(self, progress: GroupProgress, at: TopicPartition) -> list[Run]:
        """Records below the last commit that are neither processed nor skipped."""
        return self._left_below(progress.committed_in_log, progress, at)

    def to_be_passed(self, progress: GroupProgress, at: TopicPartition) -> list[Run]:
        """The unprocessed records, and records below the committed offset that entered the log after the commit."""
        return self._left_below(progress.committed or 0, progress, at)

    def _left_below(self, offset: int, progress: GroupProgress, at: TopicPartition) -> list[Run]:
        end, log = progress.committed, self._logs.of(at)
        if not end:
            return []
        pieces = pieces_of(log.records, 0, offset)
        if not log.leader and not progress.was_truncated and log.records.end < end:
            pieces.append((log.records.end, end, ANY))
        return progress.left(pieces)

    def read_past(self, progress: GroupProgress, at: TopicPartition, piece: Run) -> list[tuple[int, int]]:
        """The ranges of this run that no leader reported as lost (``GroupProgress.read_past``)."""
        return progress.read_past(piece, self._logs.of(at).records)

    def acknowledged_lost(self) -> int:
        """Number of records that were acknowledged to producers and are in no log."""
        lost = 0
        for at, acks in self._acknowledged.items():
            log = self._logs.of(at).records
            for term, ranges in acks.records.by_term.items():
                start, end = (0, log.end) if term == ANY else log.span_of(term)
                for first, last in ranges:
                    first = max(first, log.start)
                    lost += max(0, last - first) - max(0, min(last, end) - max(first, start))
        return lost

    def deleted(self, at: TopicPartition) -> None:
        """Note the deletion of a partition. A later topic with the same name has a new log.

        A member may continue at its old position, because Kafka's consumers do not compare topic ids (KIP-516).
        """
        self._acknowledged.pop(at, None)
        for progress in self.all.get(at, {}).values():
            progress.forget()
            progress.skip(0, max([held.offset for held in progress.held.values()], default=0), RECREATED, EpochLog())

    # --- work --------------------------------------------------------------------------------------------------

    @only_news
    def _processed(self, seen: Seen, fact: Processed | RangeProcessed) -> None:
        at = (fact.topic, fact.partition)
        first, last, logs = fact.first, fact.last, self._logs
        log, progress = logs.of(at).records, self.of(fact.group, at)
        is_whole = type(fact) is Processed
        progress.count += last - first
        term = logs.reads.term(seen.actor if is_whole else reader_of(seen), at, first)
        if term != NO_TERM and log.term_of(first, last) == term:  # the usual case
            done = progress.done.of_term(term)
            self.reprocessed, self.in_log = done.add(first, last), [(first, last)]
            if is_whole:
                reader = self._works(progress, seen, last, term, at)
                if not self.reprocessed and done.lasts[-1] == last and fact.group not in self._ranges.groups:
                    reader.done, reader.log = done, log
                    self.continuing.setdefault(seen.actor, {})[at] = reader
            return
        pieces = self._identified(seen, fact, at, log)
        self.reprocessed, self.in_log = 0, []
        for first, last, term in pieces:
            self.reprocessed += progress.done.add(first, last, term)
            start, end = (first, last) if term == ANY else log.span_of(term)
            if last <= log.start:
                start, end = first, last  # deleted records were in the log
            if max(first, start) < min(last, end):
                self.in_log.append((max(first, start), min(last, end)))
        if type(fact) is Processed:
            self._works(progress, seen, fact.last, pieces[-1][2] if pieces else None, at)

    def _identified(self, seen: Seen, fact: Processed | RangeProcessed, at: TopicPartition, log: EpochLog) -> list[Run]:
        """The processed records by term. An unknown term of the reader is replaced by the term in the log."""
        pieces: list[Run] = self._logs.reads.pieces(reader_of(seen), at, fact.first, fact.last)
        if len(pieces) == 1 and pieces[0][:2] == (fact.first, fact.last):
            return pieces
        found, upto = [], fact.first
        for first, last, term in [*pieces, (fact.last, fact.last, ANY)]:
            if upto < first:
                found += pieces_of(log, upto, first)
                found += [(max(upto, log.end), first, ANY)] if log.end < first else []
            found += [(first, last, term)] if first < last else []
            upto = last
        return found

    def continues(self, at_us: int, actor: ActorName, facts: Sequence[Processed]) -> Sequence[Processed]:
        """Take the first of a reader's facts that only continue its work, and return the others.

        Since the reader's last records, which all observers took, no fact changed anything that they judge.
        """
        readers = self.continuing.get(actor)
        if readers is None:
            return facts
        for number, fact in enumerate(facts):
            reader = readers.get((fact.topic, fact.partition))
            if reader is None:
                return facts[number:]
            last, reports = fact.last, reader.reports
            if not reader.offset == fact.first < last <= reader.log.end or len(reports) > KEPT:
                return facts[number:]
            reader.offset = last
            reports += (last, at_us)
        return ()

    def have_news(self, group: GroupId, partitions: Iterable[TopicPartition]) -> None:
        """Let all observers take the next processed records of these partitions. Only the last readers can continue."""
        for at in partitions:
            progress = self.known(group, at)
            if progress is not None and progress.reader is not None:
                progress.reader.log = _NO_LOG

    def judge_again(self, seen: Seen, fact: Processed) -> None:
        """Let all observers take the next records of a reader, too."""
        self._working[seen.actor][fact.topic, fact.partition].log = _NO_LOG

    def readers(self, actor: ActorName, life: int) -> dict[TopicPartition, PartitionReader]:
        """The accounts of the partitions on which a life of a member processed records; they may be unsettled."""
        return {at: reader for at, reader in self._working.get(actor, {}).items() if reader.life == life}

    def reader(self, seen: Seen, at: TopicPartition) -> PartitionReader:
        """The account of the life that reported this fact."""
        return self._reader(self.of(seen.fact.group, at), seen)

    @staticmethod
    def _reader(progress: GroupProgress, seen: Seen) -> PartitionReader:
        held = progress.held.get(seen.actor)
        if held is None or held.life != seen.life:
            held = progress.held[seen.actor] = PartitionReader(seen.life, progress, seen.at_us)
        return held

    def _works(
        self, progress: GroupProgress, seen: Seen, last: int, term: Term | None, at: TopicPartition
    ) -> PartitionReader:
        reader = self._reader(progress, seen)
        self.position_before = None if reader.offset == NOTHING else reader.offset
        reader.processed(last, term, seen.at_us)
        reader.log = _NO_LOG
        progress.read_by(reader)
        self._working.setdefault(seen.actor, {})[at] = reader
        return reader

    def _trimmed(self, seen: Seen, fact: RangeTrimmed) -> None:
        """Note that retention deleted records of a range before the second consumer read the records."""
        at = (fact.topic, fact.partition)
        self.of(fact.group, at).skipped.setdefault(TRIMMED, Records()).add(fact.first, fact.last, ANY)

    # --- positions ---------------------------------------------------------------------------------------------

    def _owns(self, seen: Seen, fact: PartitionsAssigned) -> None:
        for at in fact.added:
            progress = self.of(fact.group, at)
            held = self._reader(progress, seen)
            progress.given_to(held)
            held.owns(seen.at_us, self._readable(at))

    def _readable(self, at: TopicPartition) -> int:
        """The end of the log for readers, as far as it is known; 0 if several brokers led the partition."""
        led_by, readable = self._led_by.get(at, ("", 0))
        if not led_by:
            return 0
        log = self._logs.of(at)
        ends = [progress.done.end_in(log.records) for progress in self.all[at].values()]
        if not log.leader and at in self._acknowledged:  # without replication
            ends.append(self._acknowledged[at].records.end_in(log.records))
        return max(readable, *ends)

    def _committed_answered(self, seen: Seen, fact: Received) -> None:
        for row in fact.message.offsets:
            self._epochs[seen.actor, self._topic_names.partition_of(row)] = row.leader_epoch

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        at = (fact.topic, fact.partition)
        progress, log = self.of(fact.group, at), self._logs.of(at).records
        self.kept_in_log, self.not_the_end = "", ""
        if fact.why == COMMITTED and self._epochs.get((seen.actor, at), 0) < 0:
            for first, last, term in progress.done.lost(log, 0):
                progress.undetected.add(first, min(last, fact.offset), term)
        if fact.why in (COMMITTED, JUMPED):
            tokens = self._ranges.of(fact.group, at).tokens if fact.why == JUMPED else ()
            if not progress.began and (tokens or progress.highest is None):  # a commit from before this run
                progress.skip(0, tokens[-1].start if tokens else fact.offset, BEGAN, log)
        elif fact.why == SEEK:
            progress.skip(progress.committed_in_log, fact.offset, SOUGHT, log)
        else:
            self.kept_in_log = self._kept_in_log(progress, seen, at)
            self.not_the_end = self._not_the_end(progress, seen, at, fact.offset)
            if fact.why != TRUNCATED and not self.kept_in_log:
                progress.skip(progress.committed_in_log, fact.offset, RESET, log)
        progress.began = progress.began or fact.why != TRUNCATED  # a jump may follow a truncation (KIP-333)
        if progress.start is None:
            progress.start = fact.offset
        before_us = seen.at_us
        if fact.offset > log.end:
            before_us = NEVER_US
        elif fact.why in (COMMITTED, JUMPED):  # the offset was read earlier, and may be about lost records
            before_us = NEVER_US + 1
        reader = self._reader(progress, seen)
        jumps = fact.why == JUMPED and self._ranges.of(fact.group, at).last_end == fact.offset
        (reader.jumped if jumps else reader.positioned)(fact.offset, seen.at_us, before_us)
        progress.read_by(reader)

    def _not_the_end(self, progress: GroupProgress, seen: Seen, at: TopicPartition, offset: int) -> str:
        """Explanation why a member without a position cannot have received this offset as the end of the log; "" if it
        can.
        """
        held, log = progress.held.get(seen.actor), self._logs.of(at).records
        if held is None or held.life != seen.life or held.offset != NOTHING:
            return ""
        if self._truncated_us.get(at, NEVER_US) >= held.since_us:
            return ""
        if offset > log.end:
            return f"the log ends at {log.end}"
        if offset < held.readable:
            return f"records up to {held.readable - 1} could be read before"
        return ""

    def _kept_in_log(self, progress: GroupProgress, seen: Seen, at: TopicPartition) -> str:
        """Explanation why the log has always contained a member's position since the position was set; "" for other
        positions.
        """
        held = progress.held.get(seen.actor)
        if held is None or held.life != seen.life or held.offset == NOTHING:
            return ""
        log = self._logs.of(at).records
        if not log.start <= held.offset <= log.end or self._truncated_us.get(at, NEVER_US) >= held.before_us:
            return ""
        if held.term not in (None, ANY) and log.start < held.offset and log.term_at(held.offset - 1) != held.term:
            return ""
        return f"its position, {held.offset}, is in the log"

    # --- commits and logs --------------------------------------------------------------------------------------

    def _commits_offsets(self, seen: Seen, facts: Sequence[OffsetCommitted]) -> None:
        self.committed_on = []
        group = seen.fact.group
        for fact, account, committed_before, _ in self._commits.last:
            at, offset = account.at, fact.offset
            progress, log = self.of(group, at), self._logs.of(at).records
            self.committed_on.append(progress)
            if fact.generation == NO_GENERATION:
                before = max(committed_before, 0)
                first = before if progress.truncated_at is None else min(before, progress.truncated_at)
                if self._ranges.uses(group):  # the commit ends the rest of ranges
                    first = min(first, self._ranges.before_commit(group, at, committed_before))
                progress.skip(first, offset, OPERATOR, log)
            progress.last_commit = seen
            if progress.highest is None or offset > progress.highest:
                progress.highest = offset
            progress.truncated_at = log.end if offset > log.end else None

    def continues_acknowledging(
        self, at_us: int, actor: ActorName, facts: Sequence[RecordsAcknowledged]
    ) -> Sequence[RecordsAcknowledged]:
        """Take the first acknowledgements that only continue the last one, and return the others."""
        line = self.acknowledged_by.get(actor)
        if line is None:
            return facts
        number, records = 0, 0
        for fact in facts:
            acks, base, count = line.get((fact.topic, fact.partition)), fact.base_offset, fact.count
            if acks is None or acks.end != base or (end := base + count) > acks.log.end:
                break
            acks.end = end
            records += count
            number += 1
        self.acknowledged += records
        return facts[number:]

    @only_news
    def _acknowledges(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        at, last, logs = (fact.topic, fact.partition), fact.base_offset + fact.count, self._logs
        before, log = self._acknowledged.get(at), logs.of(at).records
        if before is None:
            records = Records()
        else:
            records = before.records
            before.line.pop(at, None)
        acks = self._acknowledged[at] = Acknowledgements(last, records, log)
        self.acknowledging, self.acknowledged = acks, self.acknowledged + fact.count
        term = log.term_of(fact.base_offset, last)
        if term != NO_TERM:  # the usual case
            ranges = records.of_term(term)
            ranges.add(fact.base_offset, last)
            if ranges.lasts[-1] == last:
                acks.ranges = ranges
                acks.line = self.acknowledged_by.setdefault(seen.actor, {})
                acks.line[at] = acks
            return
        for piece in pieces_of(log, fact.base_offset, last):
            records.add(*piece)
        records.add(max(fact.base_offset, log.end), last, ANY)

    def _leader_changed(self, seen: Seen, fact: BecameLeader | PartitionHosted) -> None:
        end, at = self._logs.truncated_at, (fact.topic, fact.partition)
        readable = fact.high_watermark if isinstance(fact, BecameLeader) else fact.end_offset
        before = self._led_by.get(at, (seen.actor, 0))[0]
        self._led_by[at] = (seen.actor if before == seen.actor else "", readable)
        if end is None:
            return
        self._truncated_us[at] = seen.at_us
        for progress in self.all.get(at, {}).values():
            progress.was_truncated = True
            progress.truncated_at = end if progress.truncated_at is None else min(progress.truncated_at, end)
