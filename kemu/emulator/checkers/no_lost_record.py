"""Members processed the committed records, and the log has the acknowledged records.

- committed-unprocessed: each record below a committed offset was processed
  or rightly skipped.
- processed-unwritten: members process only records of the log.
- acknowledged-unwritten: producers get acknowledgements only for records of
  the log.
- acknowledged-lost: a log without replication keeps acknowledged records,
  unless a disk lost them.
- append-gap: an append follows the end of the log.

``watching.progress`` tells processed, skipped and read-past records apart.
Read-past records and records lost with a disk are expected losses. Where
brokers replicate, ``replicas`` judges the logs. A run continues while
members may still learn of lost records. If the core cannot recover, members
may never learn of lost records, and such members are not judged.

Source: Kafka 3.4.1 ``KafkaConsumer.updateAssignmentMetadataIfNeeded``.
"""

from kemu.actors.broker.partition_log import JOURNALS
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, HostStarted, Seen, UnflushedLost, only_news
from kemu.emulator.findings import EMPTY_DISK, LOST_TAIL, READ_PAST, UNFLUSHED, Loss
from kemu.emulator.watching.appends import Appends
from kemu.emulator.watching.epoch_log import Run
from kemu.emulator.watching.progress import Acknowledgements, GroupProgress
from kemu.emulator.watching.ranges import Ranges
from kemu.protocol.names import GroupId, TopicPartition, host_of, shared
from kemu.protocol.notes.groups import PartitionHosted, Processed, RecordsAcknowledged, RecordsAppended
from kemu.protocol.notes.replication import BecameLeader, NodeWritten


class _Log:
    """The log of one partition, as reported by the leader."""

    __slots__ = ("_acknowledged", "_acks", "_appends", "_end", "_longest")

    def __init__(self) -> None:
        self._end = self._longest = self._acknowledged = 0
        self._appends: Appends | None = None
        """The last appends, if nothing else changed the log since."""
        self._acks: Acknowledgements | None = None

    @property
    def end(self) -> int:
        """The end of the log."""
        return self._end if self._appends is None else self._appends.end

    @property
    def longest(self) -> int:
        """The highest end that the log ever had."""
        return max(self._longest, self.end)

    @property
    def acknowledged(self) -> int:
        """The offset after the last acknowledged record."""
        return self._acknowledged if self._acks is None else max(self._acknowledged, self._acks.end)

    def ends_at(self, end: int, appends: Appends | None = None) -> None:
        """Set the end of the log, which further appends may move."""
        self._longest, self._end, self._appends = max(self.longest, end), end, appends

    def reached(self, end: int) -> None:
        """Note that another log of the partition had this end."""
        self._longest = max(self.longest, end)

    def acknowledge(self, acks: Acknowledgements) -> None:
        """Note acknowledgements, which further acknowledgements may continue."""
        self._acknowledged, self._acks = max(self.acknowledged, acks.end), acks

    def lose(self, end: int) -> None:
        """Forget the acknowledgements of records from this offset on."""
        self._acknowledged, self._acks = end, None


class NoLostRecord(Checker):
    """Judges commits, acknowledgements and logs."""

    name = "no-lost-record"
    kinds = (
        "acknowledged-lost",
        "acknowledged-unwritten",
        "append-gap",
        "committed-unprocessed",
        "processed-unwritten",
    )

    def __init__(self) -> None:
        super().__init__()
        self._logs: dict[TopicPartition, _Log] = {}
        self._left_on_disk: dict[tuple[str, str], tuple[int, str]] = {}
        """(host, log) -> (end of the log on the disk after a loss, reason), until the broker has the log again."""
        self._unexplained: dict[TopicPartition, Ranges] = {}
        """Partition -> records that the log lost without a disk's fault."""
        self.on = {
            Processed: self._processed,
            RecordsAppended: self._appended,
            RecordsAcknowledged: self._acknowledged,
            PartitionHosted: self._hosted,
            BecameLeader: self._led,
            NodeWritten: self._written,
            HostStarted: self._started,
            DiskTailLost: self._lost_tail,
            UnflushedLost: self._lost_unflushed,
        }

    def _log(self, topic: str, partition: int) -> _Log:
        log = self._logs.get((topic, partition))
        if log is None:
            log = self._logs[shared((topic, partition))] = _Log()
        return log

    @only_news
    def _processed(self, seen: Seen, fact: Processed) -> None:
        log = self._logs.get((fact.topic, fact.partition))
        if log is not None and fact.last > log.longest:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} processed records to {fact.last - 1} of {name}, whose log ended at {log.longest}"
            self.violation(seen, "processed-unwritten", (fact.group, name, seen.actor), text)

    @only_news
    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        log, end = self._log(fact.topic, fact.partition), fact.base_offset + fact.count
        log.reached(end)
        if not self.panel.logs.appended_to_log:
            return
        if fact.base_offset != log.end:
            name = f"{fact.topic}-{fact.partition}"
            text = f"{seen.actor} appended to {name} at offset {fact.base_offset}; its log ended at {log.end}"
            self.violation(seen, "append-gap", (name, seen.actor), text)
        log.ends_at(end, self.panel.logs.appends)

    @only_news
    def _acknowledged(self, seen: Seen, fact: RecordsAcknowledged) -> None:
        log = self._log(fact.topic, fact.partition)
        end = fact.base_offset + fact.count
        if end > log.longest:
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} got records to {end - 1} of {name} acknowledged; its log never went past {log.longest}"
            )
            self.violation(seen, "acknowledged-unwritten", (name, seen.actor), text)
        log.acknowledge(self.panel.progress.acknowledging)

    # --- logs that lose records --------------------------------------------------------------------------------

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        at = (fact.topic, fact.partition)
        if self.panel.logs.of(at).leader == seen.actor:  # otherwise the leader is deposed already
            self._log(*at).ends_at(fact.end_offset)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        """Forget the log of a deleted partition; a later topic with the same name has a new log."""
        at = self.panel.written
        if at is not None and at not in self.panel.states:
            self._logs.pop(at, None)

    def _hosted(self, seen: Seen, fact: PartitionHosted) -> None:
        log = self._log(fact.topic, fact.partition)
        left_on_disk = self._left_on_disk.pop((host_of(seen.actor), f"{fact.topic}-{fact.partition}"), None)
        if fact.end_offset < log.end:
            at, left = (fact.topic, fact.partition), log.end if left_on_disk is None else left_on_disk[0]
            self._unexplained.setdefault(at, Ranges()).add(fact.end_offset, min(left, log.end))
        log.ends_at(fact.end_offset)
        if fact.end_offset < log.acknowledged:
            name = f"{fact.topic}-{fact.partition}"
            if left_on_disk is not None:
                self.losses.append(Loss(seen.at_us, name, fact.end_offset, log.acknowledged - 1, left_on_disk[1]))
            else:
                lost = f"records {fact.end_offset} to {log.acknowledged - 1} of {name}"
                text = f"{lost} were acknowledged and are no longer in the log"
                self.violation(seen, "acknowledged-lost", (name, seen.actor), text)
            log.lose(fact.end_offset)

    def _started(self, seen: Seen, fact: HostStarted) -> None:
        if not fact.kept_disk:
            for topic, partition in self._logs:
                self._left_on_disk[fact.host, f"{topic}-{partition}"] = (0, EMPTY_DISK)

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        self._lost(fact.host, fact.log.removeprefix(JOURNALS), fact.end_offset, LOST_TAIL)

    def _lost_unflushed(self, seen: Seen, fact: UnflushedLost) -> None:
        for log, _, end_offset in fact.logs:
            if log.startswith(JOURNALS):  # other logs acknowledge records only when the records are on the disk
                self._lost(fact.host, log.removeprefix(JOURNALS), end_offset, UNFLUSHED)

    def _lost(self, host: str, log: str, left: int, why: str) -> None:
        before, _ = self._left_on_disk.get((host, log), (left, why))
        self._left_on_disk[host, log] = (min(before, left), why)

    # --- end of the run --------------------------------------------------------------------------------------------

    @property
    def satisfied(self) -> bool:
        """Whether members have learned of all lost records. A member that waits for a stopped leader continues to
        commit.
        """
        return not any(
            progress.was_truncated and self.panel.running_members(group) and self._known_unprocessed(at, progress).total
            for group, at, progress in self.panel.progress
        )

    def _known_unprocessed(self, at: TopicPartition, progress: GroupProgress) -> Ranges:
        """Unprocessed records of whose loss the group has learned, or may still learn."""
        left = Ranges()
        for piece in self.panel.progress.unprocessed(progress, at):
            left.add(*piece[:2])
            for part in self._read_past(at, progress, piece):
                left.remove(*part)
        return left

    def _read_past(self, at: TopicPartition, progress: GroupProgress, piece: Run) -> list[tuple[int, int]]:
        """The ranges of this run that no leader reported as lost and that a disk's fault explains."""
        found = Ranges()
        for part in self.panel.progress.read_past(progress, at, piece):
            found.add(*part)
        for part in self._unexplained.get(at, ()):
            found.remove(*part)
        return list(found)

    def finish(self, at_us: int) -> None:
        """Judge whether all records below committed offsets were processed."""
        for group, at, progress in self.panel.progress:
            seen, name = progress.last_commit or self.panel.now, f"{at[0]}-{at[1]}"
            assert seen is not None, "nothing happened"
            for piece in self.panel.progress.to_be_passed(progress, at):
                for first, last in self._read_past(at, progress, piece):
                    self.losses.append(Loss(seen.at_us, name, first, last - 1, READ_PAST))
            if self._may_never_learn(group, progress):
                continue
            for first, last in self._known_unprocessed(at, progress):
                text = f"group {group} committed {progress.committed} of {name} without processing records"
                self.violation(seen, "committed-unprocessed", (group, name), f"{text} {first} to {last - 1}")

    def _may_never_learn(self, group: GroupId, progress: GroupProgress) -> bool:
        """Whether the group's members may never learn which records the log lost."""
        return bool(self.panel.unrecoverable and progress.was_truncated and self.panel.running_members(group))
