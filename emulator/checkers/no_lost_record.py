"""No record is lost: what is committed was processed, what was acknowledged is in the log.

Theory. Kafka promises at least once. A committed offset says that everything before it needs no more work; so at the
end every record below it was processed by some member of the group, or was skipped in the open: before the group's
first position (a group that starts at the end of the log), or by a reset of the position. Nobody processes a record
that is not in the log. A record a producer got acknowledged stays in the log; only a disk that lost its tail may take
it (``DiskTailLost``), which is reported as a fault and not as a violation.

Where brokers replicate, a log is what its latest leader has (``BecameLeader``): what an election may lose, and what
not, is the business of ``replicas``. A deposed leader that does not know it yet appends to a log of its own.

Work cut off by a crash is not reported as processed, and is not committed either; so no exception is needed for it.
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, Seen
from kemu.emulator.watching.ranges import Ranges
from kemu.protocol.names import NO_GENERATION, TopicPartition, host_of
from kemu.protocol.notes.groups import (
    COMMITTED,
    OffsetCommitted,
    OffsetRemoved,
    PartitionHosted,
    PositionSet,
    Processed,
    RecordsAcknowledged,
    RecordsAppended,
)
from kemu.protocol.notes.replication import BecameLeader


class _Progress:
    """One group on one partition."""

    def __init__(self) -> None:
        self.done = Ranges()
        """Processed, or skipped in the open."""
        self.committed: int | None = None
        self.last_commit: Seen | None = None
        self.began = False
        """A position was set in this run."""


class _Log:
    """One partition's records, as its leader reports them."""

    def __init__(self) -> None:
        self.end = 0
        self.longest = 0
        """The highest end it ever had."""
        self.leader = ""
        """Who leads it, where that can change; "" where it cannot."""
        self.acknowledged = 0
        """Behind the last record a producer got acknowledged."""


class NoLostRecord(Checker):
    """What is committed was processed; what was acknowledged is in the log."""

    name = "no-lost-record"

    def __init__(self) -> None:
        super().__init__()
        self._progress: dict[tuple[str, TopicPartition], _Progress] = {}
        self._logs: dict[TopicPartition, _Log] = {}
        self._tail_lost: set[str] = set()
        """Hosts whose logs of topics may be shorter than promised."""
        self.on = {
            Processed: self._processed,
            PositionSet: self._positioned,
            OffsetCommitted: self._committed,
            OffsetRemoved: self._removed,
            RecordsAppended: self._appended,
            RecordsAcknowledged: self._acknowledged,
            PartitionHosted: self._hosted,
            BecameLeader: self._led,
            DiskTailLost: self._lost_tail,
        }

    # --- groups ------------------------------------------------------------------------------------------------

    def _of(self, group: str, topic: str, partition: int) -> _Progress:
        key = (group, (topic, partition))
        progress = self._progress.get(key)
        if progress is None:
            progress = self._progress[key] = _Progress()
        return progress

    def _processed(self, seen: Seen, fact: Processed) -> None:
        self._of(fact.group, fact.topic, fact.partition).done.add(fact.first, fact.last)
        log = self._logs.get((fact.topic, fact.partition))
        if log is not None and fact.last > log.longest:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} processed records to {fact.last - 1} of {name}, whose log ended at {log.longest}"
            self.violation(seen, "processed-unwritten", (fact.group, name, seen.actor), text)

    def _positioned(self, seen: Seen, fact: PositionSet) -> None:
        progress = self._of(fact.group, fact.topic, fact.partition)
        if fact.why != COMMITTED:
            progress.done.add(progress.committed or 0, fact.offset)
        elif progress.committed is None and not progress.began:  # committed before this run began
            progress.done.add(0, fact.offset)
        progress.began = True

    def _committed(self, seen: Seen, fact: OffsetCommitted) -> None:
        progress = self._of(fact.group, fact.topic, fact.partition)
        if fact.generation == NO_GENERATION:  # an operator's: what it skips is skipped in the open
            progress.done.add(progress.committed or 0, fact.offset)
        progress.committed, progress.last_commit = fact.offset, seen

    def _removed(self, seen: Seen, fact: OffsetRemoved) -> None:
        self._of(fact.group, fact.topic, fact.partition).committed = None

    # --- logs --------------------------------------------------------------------------------------------------

    def _log(self, topic: str, partition: int) -> _Log:
        log = self._logs.get((topic, partition))
        if log is None:
            log = self._logs[topic, partition] = _Log()
        return log

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        log = self._log(fact.topic, fact.partition)
        if log.leader not in ("", seen.actor):
            log.longest = max(log.longest, fact.base_offset + fact.count)
            return
        if fact.base_offset != log.end:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} appended to {name} at offset {fact.base_offset}; its log ended at {log.end}"
            self.violation(seen, "append-gap", (name, seen.actor), text)
        log.end = fact.base_offset + fact.count
        log.longest = max(log.longest, log.end)

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
        log = self._log(fact.topic, fact.partition)
        log.leader = seen.actor
        log.end = fact.end_offset
        log.longest = max(log.longest, log.end)

    def _hosted(self, seen: Seen, fact: PartitionHosted) -> None:
        log = self._log(fact.topic, fact.partition)
        log.end = fact.end_offset
        log.longest = max(log.longest, log.end)
        if fact.end_offset < log.acknowledged:
            if host_of(seen.actor) not in self._tail_lost:
                name = f"{fact.topic}-{fact.partition}"
                lost = f"records {fact.end_offset} to {log.acknowledged - 1} of {name}"
                self.violation(
                    seen,
                    "acknowledged-lost",
                    (name, seen.actor),
                    f"{lost} were acknowledged and are not in the log any more",
                )
            log.acknowledged = fact.end_offset

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        self._tail_lost.add(fact.host)

    # --- the end -----------------------------------------------------------------------------------------------

    def finish(self, at_us: int) -> None:
        """Every committed offset must stand on work that was done."""
        for (group, (topic, partition)), progress in self._progress.items():
            for first, last in progress.done.gaps(0, progress.committed or 0):
                name = f"{topic}-{partition}"
                text = (
                    f"group {group} committed {progress.committed} of {name}, "
                    f"but nobody processed records {first} to {last - 1}"
                )
                assert progress.last_commit is not None
                self.violation(progress.last_commit, "committed-unprocessed", (group, name), text)
