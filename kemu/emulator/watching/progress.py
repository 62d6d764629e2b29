"""How far each group is on each partition: the one account of done, skipped and committed records (part of the panel).

A record is known by its offset and its term, so a record that replaces a lost one at its offset is another record.

*Done*: the application finished it. *Skipped*: a position or an operator's commit left it out, and the watcher itself
finds that right: an application may seek, an operator may commit any offset, and a reset is right if no offset was
committed, or if the log does not have the position that the member held. *Unprocessed*: the log has it below the
committed offset, had it when that was committed, and it is neither done nor skipped.

A member is told that its log lost records only if the next leader's log ends before the member's position in the
leader epoch that the member read (KIP-320). A record of the same or an earlier epoch than the one that the group passed
at that offset is *read past*: an expected loss. So is any record below a committed offset without a leader epoch, such
as Streams commits up to 3.9 (``StreamTask.committableOffsetsAndMetadata``), where a member goes on.
Source: Kafka 3.4 ``LeaderEpochFileCache.endOffsetFor``, ``SubscriptionState.maybeCompleteValidation``.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kemu.actors.machine import Received
from kemu.emulator.facts import Seen, received
from kemu.emulator.watching.epoch_log import NO_TERM, EpochLog, Run, Term
from kemu.emulator.watching.group_commits import NOTHING, GroupCommits
from kemu.emulator.watching.logs import WatchedLogs, reader_of
from kemu.emulator.watching.ranges import Ranges
from kemu.emulator.watching.ranges_of_groups import WatchedRanges
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
"""The term of records whose term nobody tells: they count as of every term."""

NEVER_US = -2
SOUGHT, RESET, OPERATOR = "seek", "reset policy", "offsets set by an operator"
BEGAN, TRIMMED, RECREATED = "began there", "deleted records", "topic created again"
"""Why records were skipped."""


class Records:
    """Records by term."""

    __slots__ = ("by_term",)

    def __init__(self) -> None:
        self.by_term: dict[Term, Ranges] = {}

    def add(self, first: int, last: int, term: Term) -> int:
        """Put these in; returns how many of them were in already."""
        ranges = self.by_term.get(term)
        if ranges is None:
            ranges = self.by_term[term] = Ranges()
        return ranges.add(first, last)

    def of(self, term: Term) -> Iterator[tuple[int, int]]:
        """What is in of a term."""
        return (piece for writer, ranges in self.by_term.items() if writer in (term, ANY) for piece in ranges)

    def lacking(self, pieces: list[Run]) -> list[Run]:
        """What of these is not in."""
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
        """Behind the last of them."""
        return max([last for ranges in self.by_term.values() for _, last in list(ranges)[-1:]], default=0)

    def end_in(self, log: EpochLog) -> int:
        """Behind the last of them that a log has."""
        end = 0
        for term, ranges in self.by_term.items():
            first, behind = (0, log.end) if term == ANY else log.span_of(term)
            end = max([end, *[min(last, behind) for begin, last in ranges if begin < behind and last > first]])
        return end

    def lost(self, log: EpochLog, since: int) -> Iterator[Run]:
        """What is in and not in a log, from an offset on."""
        for term, ranges in self.by_term.items():
            if term != ANY:
                start, end = log.span_of(term)
                for first, last in ranges.within(max(since, log.start), sys.maxsize):
                    for piece in ((first, min(last, start), term), (max(first, end), last, term)):
                        if piece[0] < piece[1]:
                            yield piece


class HeldPosition:
    """The position of one life of a member on one partition."""

    __slots__ = ("before_us", "life", "offset", "readable", "since_us", "term")

    def __init__(self, life: int, offset: int, at_us: int) -> None:
        self.life = life
        self.offset = offset
        """NOTHING: it owns the partition newly and has no position yet."""
        self.term: Term | None = None
        """Who wrote the record before it; None: the member has read none since the position was set."""
        self.since_us = self.before_us = at_us
        """When it came to this position, and to the one before."""
        self.readable = 0
        """Where the log ended at least for its readers when the member came to own the partition; 0 if several brokers
        led it, because one of them may not know that it is deposed."""


class GroupProgress:
    """One group on one partition."""

    __slots__ = (
        *(
            "_committed",
            "began",
            "truncated_at",
            "done",
            "held",
            "highest",
            "last_commit",
            "skipped",
            "start",
            "undetected",
        ),
        "was_truncated",
    )

    def __init__(self, committed: Callable[[], int | None]) -> None:
        self._committed = committed
        self.done = Records()
        self.skipped: dict[str, Records] = {}
        """By reason."""
        self.undetected = Records()
        """Of what was done: what the log had lost already as a member went on behind it at an offset that was committed
        without a leader epoch. No leader can tell that member (KIP-320)."""
        self.truncated_at: int | None = None
        """Where the log ended if it was shorter than the last commit says, then or since; None: it never was."""
        self.was_truncated = False
        """The log lost records at some time since the group began."""
        self.start: int | None = None
        """The group's first position in this run."""
        self.began = False
        self.highest: int | None = None
        """The highest offset that was ever committed in this run."""
        self.last_commit: Seen | None = None
        self.held: dict[ActorName, HeldPosition] = {}
        """Where each member that ever read it would go on."""

    @property
    def committed(self) -> int | None:
        """What the coordinator has; of a group with two commit logs (KIP-333) what ``committed()`` makes of them."""
        return self._committed()

    @property
    def committed_in_log(self) -> int:
        """Up to where the last commit is about records that are there: a reset skips from here on."""
        committed = self.committed or 0
        return committed if self.truncated_at is None else min(committed, self.truncated_at)

    def skip(self, first: int, last: int, why: str, log: EpochLog) -> None:
        """Leave records out; what the log has deleted, or does not have yet, is left out whoever wrote or writes it."""
        if first >= last:
            return
        records = self.skipped.setdefault(why, Records())
        if first < log.start:
            records.add(first, min(last, log.start), ANY)
        for piece in pieces_of(log, first, last):
            records.add(*piece)
        records.add(max(first, log.end), last, ANY)

    def left(self, pieces: list[Run]) -> list[Run]:
        """What of these is neither done nor skipped."""
        left = self.done.lacking(pieces)
        for records in self.skipped.values():
            left = records.lacking(left)
        return left

    def read_past(self, piece: Run, log: EpochLog) -> list[tuple[int, int]]:
        """Which of these nobody told the group of: it had passed others there, and the log has lost those since."""
        found = Ranges()
        latest: list[tuple[int, int, int]] = []
        """Stretches of lost records that the group passed in one go, each with its last leader epoch."""
        for first, last, term in sorted(self.done.lost(log, piece[0]), key=_first):
            epoch = term[0]
            if latest and first <= latest[-1][1]:
                start, behind, known = latest[-1]
                latest[-1] = (start, max(behind, last), max(known, epoch))
            else:
                latest.append((first, last, epoch))
        for first, last, epoch in latest:
            if epoch >= piece[2][0]:
                found.add(first, last)
        for records in (
            self.undetected,
            *self.skipped.values(),
        ):  # a position that was chosen or reset has no leader epoch
            for first, last, _ in records.lost(log, piece[0]):
                found.add(first, last)
        return found.within(*piece[:2])

    def skipped_of(self, log: EpochLog) -> int:
        """How many records that the log has or has deleted were skipped, and done by nobody."""
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
        """How many records from this offset on were done."""
        return sum(max(0, last - max(first, offset)) for each in self.done.by_term.values() for first, last in each)


def pieces_of(log: EpochLog, first: int, last: int) -> list[Run]:
    """What a log has of ``first .. last - 1``."""
    return [(begin, min(end, last), term) for begin, end, term in log.runs_from(first) if begin < last]


def _first(piece: Run) -> int:
    return piece[0]


def count(pieces: Iterable[Run]) -> int:
    """How many records these are."""
    return sum(last - first for first, last, _ in pieces)


class WatchedProgress:
    """See the module. Its handlers run after those of the logs and the commits."""

    def __init__(self, logs: WatchedLogs, commits: GroupCommits, ranges: WatchedRanges) -> None:
        self.all: dict[TopicPartition, dict[GroupId, GroupProgress]] = {}
        self.reprocessed = 0
        """How many records of the last ``Processed`` or ``RangeProcessed`` had been done before, and ..."""
        self.in_log: list[tuple[int, int]] = []
        """... which of its records the log has."""
        self.kept_in_log = ""
        """Why the member whose ``PositionSet`` was the last fact had no reason to leave its position; "": it had one,
        or asked for none."""
        self.not_the_end = ""
        """Why that position is not the end of the log; "": it may be."""
        self._logs = logs
        self._commits = commits
        self._ranges = ranges
        self._acknowledged: dict[TopicPartition, Records] = {}
        self._led_by: dict[TopicPartition, tuple[ActorName, int]] = {}
        """The only broker that ever led, and what could be read when it began; "": there were several."""
        self._epochs: dict[tuple[ActorName, TopicPartition], int] = {}
        """The leader epoch that came with a member's committed offset; -1: none did."""
        self._truncated_us: dict[TopicPartition, int] = {}
        """When the log lost its end, for the last time."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            Processed: self._processed,
            RangeProcessed: self._processed,
            RangeTrimmed: self._trimmed,
            received(OffsetFetchReply): self._told_committed,
            PositionSet: self._positioned,
            PartitionsAssigned: self._owns,
            OffsetCommitted: self._commits_offset,
            RecordsAcknowledged: self._acknowledges,
            PartitionHosted: self._another_log,
            BecameLeader: self._another_log,
        }

    def of(self, group: GroupId, at: TopicPartition) -> GroupProgress:
        """How far a group is on a partition."""
        groups = self.all.setdefault(at, {})
        progress = groups.get(group)
        if progress is None:
            progress = groups[group] = GroupProgress(lambda: self._committed(group, at))
        return progress

    def __iter__(self) -> Iterator[tuple[GroupId, TopicPartition, GroupProgress]]:
        """All of them, in the order in which they began."""
        return ((group, at, progress) for at, groups in self.all.items() for group, progress in groups.items())

    def unprocessed(self, progress: GroupProgress, at: TopicPartition) -> list[Run]:
        """Records that the last commit is about and that are neither done nor skipped."""
        return self._left_below(progress.committed_in_log, progress, at)

    def to_be_passed(self, progress: GroupProgress, at: TopicPartition) -> list[Run]:
        """Those, and records that came into the log below the committed offset since that was committed."""
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
        """Which of these nobody told the group of: it had passed others there, and the log has lost those since."""
        return progress.read_past(piece, self._logs.of(at).records)

    def acknowledged_lost(self) -> int:
        """How many records producers have an acknowledgement of, and no log has."""
        lost = 0
        for at, records in self._acknowledged.items():
            log = self._logs.of(at).records
            for term, ranges in records.by_term.items():
                start, end = (0, log.end) if term == ANY else log.span_of(term)
                for first, last in ranges:
                    first = max(first, log.start)
                    lost += max(0, last - first) - max(0, min(last, end) - max(first, start))
        return lost

    def deleted(self, at: TopicPartition) -> None:
        """The partition is deleted; if its topic is created again, its log begins anew.

        Whoever had a position there may go on with it, as Kafka's clients do that know no topic ids (KIP-516).
        """
        self._acknowledged.pop(at, None)
        for progress in self.all.get(at, {}).values():
            progress.done, progress.skipped, progress.undetected, progress.truncated_at = Records(), {}, Records(), None
            progress.skip(0, max([held.offset for held in progress.held.values()], default=0), RECREATED, EpochLog())

    def _committed(self, group: GroupId, at: TopicPartition) -> int | None:
        if self._ranges.uses(group):
            return self._ranges.of(group, at).committed
        committed = self._commits.of(group, at)
        return None if committed == NOTHING else committed

    # --- work --------------------------------------------------------------------------------------------------

    def _processed(self, seen: Seen, fact: Processed | RangeProcessed) -> None:
        at = (fact.topic, fact.partition)
        log = self._logs.of(at).records
        pieces = self._identified(seen, fact, at, log)
        progress = self.of(fact.group, at)
        self.reprocessed, self.in_log = 0, []
        for first, last, term in pieces:
            self.reprocessed += progress.done.add(first, last, term)
            start, end = (first, last) if term == ANY else log.span_of(term)
            if last <= log.start:
                start, end = first, last  # what is deleted was there
            if max(first, start) < min(last, end):
                self.in_log.append((max(first, start), min(last, end)))
        if type(fact) is Processed:
            self._holds(progress, seen, fact.last, pieces[-1][2] if pieces else None)

    def _identified(self, seen: Seen, fact: Processed | RangeProcessed, at: TopicPartition, log: EpochLog) -> list[Run]:
        """What was processed, by term; what the reader does not tell is what the log has there now."""
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

    @staticmethod
    def _holds(progress: GroupProgress, seen: Seen, offset: int, term: Term | None) -> None:
        held = progress.held.get(seen.actor)
        if held is None or held.life != seen.life:
            held = progress.held[seen.actor] = HeldPosition(seen.life, offset, seen.at_us)
        held.offset, held.term = offset, term
        held.before_us, held.since_us = held.since_us, seen.at_us

    def _trimmed(self, seen: Seen, fact: RangeTrimmed) -> None:
        """Retention took records of a range before the second consumer read them."""
        at = (fact.topic, fact.partition)
        self.of(fact.group, at).skipped.setdefault(TRIMMED, Records()).add(fact.first, fact.last, ANY)

    # --- positions ---------------------------------------------------------------------------------------------

    def _owns(self, seen: Seen, fact: PartitionsAssigned) -> None:
        for at in fact.added:
            held = HeldPosition(seen.life, NOTHING, seen.at_us)
            records = [progress.done for progress in self.all.get(at, {}).values()]
            if not self._logs.of(at).leader and at in self._acknowledged:  # one copy: what is written can be read
                records.append(self._acknowledged[at])
            led_by, offset = self._led_by.get(at, ("", 0))
            if led_by:
                held.readable = max([offset, *[each.end_in(self._logs.of(at).records) for each in records]])
            self.of(fact.group, at).held[seen.actor] = held

    def _told_committed(self, seen: Seen, fact: Received) -> None:
        for row in fact.message.offsets:
            self._epochs[seen.actor, (row.topic, row.partition)] = row.leader_epoch

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        at = (fact.topic, fact.partition)
        progress, log = self.of(fact.group, at), self._logs.of(at).records
        self.kept_in_log, self.not_the_end = "", ""
        if fact.why == COMMITTED and self._epochs.get((seen.actor, at), 0) < 0:
            for first, last, term in progress.done.lost(log, 0):
                progress.undetected.add(first, min(last, fact.offset), term)
        if fact.why in (COMMITTED, JUMPED):
            tokens = self._ranges.of(fact.group, at).tokens if fact.why == JUMPED else ()
            if not progress.began and (tokens or progress.highest is None):  # committed before this run began
                progress.skip(0, tokens[-1].start if tokens else fact.offset, BEGAN, log)
        elif fact.why == SEEK:
            progress.skip(progress.committed_in_log, fact.offset, SOUGHT, log)
        else:
            self.kept_in_log = self._kept_in_log(progress, seen, at)
            self.not_the_end = self._not_the_end(progress, seen, at, fact.offset)
            if fact.why != TRUNCATED and not self.kept_in_log:
                progress.skip(progress.committed_in_log, fact.offset, RESET, log)
        progress.began = progress.began or fact.why != TRUNCATED  # then a jump may follow (KIP-333)
        if progress.start is None:
            progress.start = fact.offset
        held = progress.held[seen.actor] = HeldPosition(seen.life, fact.offset, seen.at_us)
        if fact.offset > log.end:
            held.before_us = NEVER_US
        elif fact.why == COMMITTED:  # it may be about records that were lost before
            held.before_us = NEVER_US + 1

    def _not_the_end(self, progress: GroupProgress, seen: Seen, at: TopicPartition, offset: int) -> str:
        """Why a member that had no position cannot have been told this offset as the end of the log; "": it can."""
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
        """Why the position that a member holds is one that the log has and had since; "" if it is not."""
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

    def _commits_offset(self, seen: Seen, fact: OffsetCommitted) -> None:
        at = (fact.topic, fact.partition)
        progress, log = self.of(fact.group, at), self._logs.of(at).records
        if fact.generation == NO_GENERATION:
            before = max(self._commits.before, 0)
            first = before if progress.truncated_at is None else min(before, progress.truncated_at)
            if self._ranges.uses(fact.group):  # what was left of ranges ends with it
                first = min(first, self._ranges.before_commit(fact.group, at))
            progress.skip(first, fact.offset, OPERATOR, log)
        progress.last_commit = seen
        progress.highest = max(progress.highest or 0, fact.offset)
        progress.truncated_at = log.end if fact.offset > log.end else None

    def _acknowledges(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        at, last = (fact.topic, fact.partition), fact.base_offset + fact.count
        records, log = self._acknowledged.setdefault(at, Records()), self._logs.of(at).records
        for piece in pieces_of(log, fact.base_offset, last):
            records.add(*piece)
        records.add(max(fact.base_offset, log.end), last, ANY)

    def _another_log(self, seen: Seen, fact: BecameLeader | PartitionHosted) -> None:
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
