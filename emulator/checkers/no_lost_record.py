"""No record is lost: what is committed was processed, what was acknowledged is in the log.

Theory. Kafka promises at least once. A committed offset says that everything before it needs no more work; so at the
end every record below it was processed by some member of the group, or was skipped in the open: before the group's
first position (a group that starts at the end of the log), or by a reset of the position. Nobody processes a record
that is not in the log. A record a producer got acknowledged stays in the log; only a disk that lost its end or came
back empty may take it, which is an expected loss and not a violation. What comes at those offsets again is other
records. A broker that was alone leads in its old epoch again (and one with replicas, if no controller saw it go: the
next one finds it alive and leading, ``PartitionStateMachine.initializePartitionState`` 3.4.1), so that no leader epoch
tells a group that had read further: it goes on behind them, and what it had worked off there is an expected loss, too.
Wherever the epoch is another, it is told (KIP-320), and where a controller must have seen the broker go (``Absences``),
it is to be another. But the next leader, elected uncleanly, may know nothing of the epoch that the group read, and have
more records of an epoch before: it answers where that one ends, and who is not past it takes its position for valid
(``LeaderEpochFileCache.endOffsetFor``, ``SubscriptionState.maybeCompleteValidation`` 3.4.1). What such a leader has
there and nobody read is an expected loss, too.

Where brokers replicate, a log is what its latest leader has (``Panel.logs``): what an election may lose, and what not,
is the business of ``replicas``. A deposed leader that does not know it yet appends to a log of its own. What the log
loses nobody has processed: the records that come at these offsets are others, and a member that goes on behind them has
skipped them, unless its application chose that position (``seek``: such a position has no leader epoch that could tell;
KIP-320).

A member is told when it asks the next leader. Until then it commits where it was: a run in which members run that are
still to learn what a log lost is not over yet (a request to a leader that is paused takes request.timeout.ms to fail).
Where a core cannot get well it may never learn it: without a coordinator a poll looks after no positions
(``KafkaConsumer.updateAssignmentMetadataIfNeeded`` 3.4.1), so that what it has committed by then is not judged.

What a group's log loses is committed no more (``Panel.commits``).

A group with two commit logs (KIP-333) has committed what both make of it: the end of a range that nobody worked off yet
is no such commit.

Work cut off by a crash is not reported as processed, and is not committed either; so no exception is needed for it.
"""

from kemu.actors.broker.replica_log import JOURNALS
from kemu.emulator.checkers.absences import Absences
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, HostStarted, Seen, UnflushedLost
from kemu.emulator.findings import EMPTY_DISK, LOST_TAIL, READ_OTHERS, READ_PAST, UNFLUSHED, Loss
from kemu.emulator.watching.done import RecordsDone
from kemu.emulator.watching.group_commits import NOTHING
from kemu.emulator.watching.ranges import Ranges
from kemu.protocol.names import NO_GENERATION, TopicPartition, host_of
from kemu.protocol.notes.groups import (
    COMMITTED,
    JUMPED,
    SEEK,
    TRUNCATED,
    OffsetCommitted,
    OffsetRemoved,
    PartitionHosted,
    PositionSet,
    Processed,
    RecordsAcknowledged,
    RecordsAppended,
)
from kemu.protocol.notes.ranges import RangeProcessed, RangeTrimmed
from kemu.protocol.notes.replication import BecameLeader, NodeWritten


class _Progress:
    """One group on one partition."""

    def __init__(self) -> None:
        self.done = RecordsDone()
        """Processed, or skipped in the open."""
        self.committed: int | None = None
        self.cut: int | None = None
        """Where the log ended if it was shorter than the last commit says, then or since; None: it never was."""
        self.was_cut = False
        """The log lost records at some time."""
        self.last_commit: Seen | None = None
        self.began = False
        """A position was set in this run."""
        self.sought: dict[str, int] = {}
        """Members whose application chose this position, while they have processed nothing from there."""
        self.reached: dict[str, int] = {}
        """Where each member that ever read it would go on."""
        self.again = {why: Ranges() for why in (READ_PAST, READ_OTHERS)}
        """Where records were done that the log lost, and nobody is told that others stand there."""

    def is_to_be_done(self, end: int) -> bool:
        """Whether something up to here is not done, and somebody is told of it."""
        done = Ranges()
        for ranges in (self.done, *self.again.values()):
            for first, last in ranges:
                done.add(first, last)
        return bool(done.gaps(0, end))

    @property
    def rests_on(self) -> int:
        """Up to where the last commit is about records that are there: a reset skips from here on."""
        committed = self.committed or 0
        return committed if self.cut is None else min(committed, self.cut)


class _Log:
    """One partition's records, as its leader reports them."""

    def __init__(self) -> None:
        self.end = 0
        self.longest = 0
        """The highest end it ever had."""
        self.acknowledged = 0
        """Behind the last record a producer got acknowledged."""
        self.shrank = False
        """It was once longer than when it was hosted again."""
        self.epoch = -1
        """In which it was last hosted."""


def _told_end(fact: BecameLeader, epoch: int) -> int:
    """What this leader answers who asks for the end of an epoch: that of the last one up to it that it knows."""
    return next((start for known, start in fact.epochs if known > epoch), fact.end_offset)


class NoLostRecord(Checker):
    """What is committed was processed; what was acknowledged is in the log.

    Args:
        absences: who must have noticed that a broker was gone.
    """

    name = "no-lost-record"

    def __init__(self, absences: Absences | None = None) -> None:
        super().__init__()
        self._absences = absences or Absences()
        self._progress: dict[tuple[str, TopicPartition], _Progress] = {}
        self._logs: dict[TopicPartition, _Log] = {}
        self._less: dict[tuple[str, str], tuple[int, str]] = {}
        """(host, log) -> (what its disk has left of it, why), until its broker has it again."""
        self.on = {
            Processed: self._processed,
            RangeProcessed: self._range_processed,
            RangeTrimmed: self._trimmed,
            PositionSet: self._positioned,
            OffsetCommitted: self._committed,
            OffsetRemoved: self._removed,
            RecordsAppended: self._appended,
            RecordsAcknowledged: self._acknowledged,
            PartitionHosted: self._hosted,
            BecameLeader: self._led,
            NodeWritten: self._written,
            HostStarted: self._started,
            DiskTailLost: self._lost_tail,
            UnflushedLost: self._lost_unflushed,
        }
        self.shown_to(self._absences.on)

    # --- groups ------------------------------------------------------------------------------------------------

    def _of(self, group: str, topic: str, partition: int) -> _Progress:
        key = (group, (topic, partition))
        progress = self._progress.get(key)
        if progress is None:
            progress = self._progress[key] = _Progress()
        return progress

    def _processed(self, seen: Seen, fact: Processed) -> None:
        progress = self._of(fact.group, fact.topic, fact.partition)
        for first, last in self.panel.logs.still_there(seen, fact):
            progress.done.add(first, last)
        progress.sought.pop(seen.actor, None)
        progress.reached[seen.actor] = fact.last
        log = self._logs.get((fact.topic, fact.partition))
        if log is not None and fact.last > log.longest:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} processed records to {fact.last - 1} of {name}, whose log ended at {log.longest}"
            self.violation(seen, "processed-unwritten", (fact.group, name, seen.actor), text)

    def _range_processed(self, seen: Seen, fact: RangeProcessed) -> None:
        progress = self._of(fact.group, fact.topic, fact.partition)
        for first, last in self.panel.logs.still_there(seen, fact):
            progress.done.add(first, last)

    def _trimmed(self, seen: Seen, fact: RangeTrimmed) -> None:
        """Retention took them before they were read: said in the open, and the log does not have them."""
        self._of(fact.group, fact.topic, fact.partition).done.add(fact.first, fact.last)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        progress = self._of(fact.group, fact.topic, fact.partition)
        progress.sought.pop(seen.actor, None)
        progress.reached[seen.actor] = fact.offset
        if fact.why == SEEK:
            progress.sought[seen.actor] = fact.offset
        if fact.why in (TRUNCATED, JUMPED):
            pass  # what it had read is not there any more; or the second consumer works off what lies between
        elif fact.why != COMMITTED:
            progress.done.add(progress.rests_on, fact.offset)
        elif progress.committed is None and not progress.began:  # committed before this run began
            progress.done.add(0, fact.offset)
        progress.began = True

    def _committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        progress = self._of(fact.group, fact.topic, fact.partition)
        if fact.generation == NO_GENERATION:  # an operator's: what it skips is skipped in the open
            first, ranges = progress.rests_on, self.panel.ranges
            if ranges.uses(fact.group):  # also what was left of ranges, which end with it
                first = min(first, ranges.before(fact.group, (fact.topic, fact.partition)).committed or 0)
            progress.done.add(first, fact.offset)
        log = self._logs.get((fact.topic, fact.partition))
        progress.committed, progress.last_commit = fact.offset, seen
        progress.cut = log.end if log is not None and fact.offset > log.end else None

    def _removed(self, seen: Seen, fact: OffsetRemoved) -> None:
        self._of(fact.group, fact.topic, fact.partition).committed = None

    # --- logs --------------------------------------------------------------------------------------------------

    def _log(self, topic: str, partition: int) -> _Log:
        log = self._logs.get((topic, partition))
        if log is None:
            log = self._logs[topic, partition] = _Log()
        return log

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        log, end = self._log(fact.topic, fact.partition), fact.base_offset + fact.count
        if end > log.longest:
            log.longest = end
        if not self.panel.logs.counts:
            return
        if fact.base_offset != log.end:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} appended to {name} at offset {fact.base_offset}; its log ended at {log.end}"
            self.violation(seen, "append-gap", (name, seen.actor), text)
        log.end = end

    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        log = self._log(fact.topic, fact.partition)
        end = fact.base_offset + fact.count
        if end > log.longest:
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} has records to {end - 1} of {name} acknowledged; its log never went past {log.longest}"
            )
            self.violation(seen, "acknowledged-unwritten", (name, seen.actor), text)
        log.acknowledged = max(log.acknowledged, end)

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        less = self._less.pop((seen.actor, f"{fact.topic}-{fact.partition}"), None)
        for (group, where), left in self.panel.commits.changed:
            self._of(group, *where).committed = left if left != NOTHING else None
        if self.panel.logs.of(at).leader != seen.actor:
            return  # it is deposed already
        log = self._log(*at)
        why, again, longer = READ_PAST, log.end, log.end
        if fact.leader_epoch > log.epoch:
            ends = [min(last, _told_end(fact, epoch)) for _, last, epoch in self.panel.logs.lost]
            why, again, longer = READ_OTHERS, self.panel.logs.cut or 0, max(ends, default=0)
        elif less is not None and not self._absences.was_noticed(seen.actor, seen.at_us):
            again = max(fact.end_offset, less[0])
        self._another_log(at, why, again, longer)
        log.end, log.epoch = fact.end_offset, fact.leader_epoch
        log.longest = max(log.longest, log.end)

    def _another_log(self, at: TopicPartition, why: str, again: int, longer: int) -> None:
        """What the log has lost was not done with what comes there next, but for what an application left out.

        Of offsets ``again .. longer - 1`` nobody is told that other records come there; ``why``: of the atlas.
        """
        end = self.panel.logs.cut
        if end is None and not self.panel.logs.back:
            return
        for progress in [one for (_, where), one in self._progress.items() if where == at]:
            done = progress.done.within(again, longer)
            progress.done.follow(self.panel.logs)
            if end is None:
                continue
            for untold in progress.again.values():
                untold.cut(end)
            for first, last in done:
                progress.again[why].add(first, last)
            progress.was_cut = True
            progress.cut = end if progress.cut is None else min(progress.cut, end)
            for offset in progress.sought.values():
                progress.done.add(end, offset)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        """A partition is deleted; if its topic is created again its log begins anew.

        Whoever had a position there may go on with it, as Kafka's clients do that know no topic ids (KIP-516).
        """
        at = self.panel.written
        if at is None or at in self.panel.states:
            return
        self._logs.pop(at, None)
        for progress in [one for (_, where), one in self._progress.items() if where == at]:
            progress.done = RecordsDone()
            for untold in progress.again.values():
                untold.cut(0)
            progress.done.add(0, max(progress.reached.values(), default=0))

    def _hosted(self, seen: Seen, fact: PartitionHosted) -> None:
        log = self._log(fact.topic, fact.partition)
        less = self._less.pop((host_of(seen.actor), f"{fact.topic}-{fact.partition}"), None)
        if fact.end_offset < log.end:
            log.shrank = True
            again = max(fact.end_offset, less[0]) if less is not None and fact.leader_epoch == log.epoch else log.end
            self._another_log((fact.topic, fact.partition), READ_PAST, again, log.end)
        log.end, log.epoch = fact.end_offset, fact.leader_epoch
        log.longest = max(log.longest, log.end)
        if fact.end_offset < log.acknowledged:
            name = f"{fact.topic}-{fact.partition}"
            if less is not None:
                self.losses.append(Loss(seen.at_us, name, fact.end_offset, log.acknowledged - 1, less[1]))
            else:
                lost = f"records {fact.end_offset} to {log.acknowledged - 1} of {name}"
                self.violation(
                    seen,
                    "acknowledged-lost",
                    (name, seen.actor),
                    f"{lost} were acknowledged and are not in the log any more",
                )
            log.acknowledged = fact.end_offset

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        if not fact.kept_disk:
            for topic, partition in self._logs:
                self._less[fact.host, f"{topic}-{partition}"] = (0, EMPTY_DISK)

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        self._lost(fact.host, fact.log.removeprefix(JOURNALS), fact.end_offset, LOST_TAIL)

    def _lost_unflushed(self, seen: Seen, fact: UnflushedLost) -> None:
        for log, _, end_offset in fact.logs:
            if log.startswith(JOURNALS):  # others are acknowledged when they are on the disk
                self._lost(fact.host, log.removeprefix(JOURNALS), end_offset, UNFLUSHED)

    def _lost(self, host: str, log: str, left: int, why: str) -> None:
        before, _ = self._less.get((host, log), (left, why))
        self._less[host, log] = (min(before, left), why)

    # --- the end -----------------------------------------------------------------------------------------------

    @property
    def satisfied(self) -> bool:
        """Whether members know of what logs lost: who waits for the answer of a leader that is away commits on.

        Of what came again in one epoch nobody is told.
        """
        return not any(
            progress.was_cut
            and progress.is_to_be_done(self._done_to(group, at, progress))
            and self.panel.running_members(group)
            for (group, at), progress in self._progress.items()
        )

    def finish(self, at_us: int) -> None:
        """Every committed offset must stand on work that was done."""
        for (group, (topic, partition)), progress in self._progress.items():
            end = self._done_to(group, (topic, partition), progress)
            name = f"{topic}-{partition}"
            if progress.last_commit is not None:
                for why, untold in progress.again.items():
                    for first, last in [gap for one in untold for gap in progress.done.gaps(one[0], min(one[1], end))]:
                        self.losses.append(Loss(progress.last_commit.at_us, name, first, last - 1, why))
                        progress.done.add(first, last)
            if self._still_to_learn(group, progress):
                continue
            for first, last in progress.done.gaps(0, end):
                text = (
                    f"group {group} committed {self._committed_of(group, (topic, partition), progress)} of {name}, "
                    f"but nobody processed records {first} to {last - 1}"
                )
                assert progress.last_commit is not None
                self.violation(progress.last_commit, "committed-unprocessed", (group, name), text)

    def _still_to_learn(self, group: str, progress: _Progress) -> bool:
        """Whether nobody may ever tell its members what the log lost."""
        return bool(self.panel.unrecoverable and progress.was_cut and self.panel.running_members(group))

    def _done_to(self, group: str, at: TopicPartition, progress: _Progress) -> int:
        """Up to where work must have been done: what is committed, as far as there is something."""
        end, log = self._committed_of(group, at, progress), self._logs.get(at)
        if log is not None and (log.shrank or self.panel.logs.of(at).leader):
            return min(end, log.end)  # behind it there is nothing yet
        return end

    def _committed_of(self, group: str, at: TopicPartition, progress: _Progress) -> int:
        """Up to where the group says that all is done: with two commit logs, what ``committed()`` makes of them."""
        if self.panel.ranges.uses(group):
            return self.panel.ranges.of(group, at).committed or 0
        return progress.committed or 0
