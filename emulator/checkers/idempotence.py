"""An idempotent producer's batch is in a log once, however often it was sent.

Theory (KIP-98). A batch carries the producer's id, its epoch and the sequence number of its first record. A leader that
finds it among the producer's last five batches does not append it again. So a leader never appends a batch that its log
holds already. What a log holds is what its leaders appended, up to where the latest one has another record, or none:
the rest was lost with the leader before. After an unclean election nothing is known.
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import Seen
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import PartitionHosted, RecordsAppended
from kemu.protocol.notes.replication import BecameLeader, NodeWritten

NO_OFFSET = 1 << 62
"""Behind every record."""
KEPT = 64
"""Batches per producer that are remembered; more than any client has in flight."""


class _Log:
    """What the leaders of a partition appended for idempotent producers."""

    __slots__ = ("batches",)

    def __init__(self) -> None:
        self.batches: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
        """(producer id, epoch) -> sequence of the first record -> (first offset, last + 1)."""

    def forget(self, first: int, end: int) -> None:
        """The batches that reach into these offsets may not be there."""
        for sequences in self.batches.values():
            for sequence in [sequence for sequence, (begin, last) in sequences.items() if last > first and begin < end]:
                del sequences[sequence]


class Idempotence(Checker):
    """No batch of an idempotent producer is appended twice."""

    name = "idempotence"

    def __init__(self) -> None:
        super().__init__()
        self._logs: dict[TopicPartition, _Log] = {}
        self.on = {
            RecordsAppended: self._appended,
            PartitionHosted: self._hosted,
            BecameLeader: self._led,
            NodeWritten: self._written,
        }

    def _log(self, at: TopicPartition) -> _Log:
        log = self._logs.get(at)
        if log is None:
            log = self._logs[at] = _Log()
        return log

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        if fact.producer_id < 0:
            return
        log = self._log((fact.topic, fact.partition))
        if not self.panel.logs.counts:
            return  # it is deposed and does not know it, or its topic is deleted
        producer = (fact.producer_id, fact.producer_epoch)
        sequences = log.batches.get(producer)
        if sequences is None:
            sequences = log.batches[producer] = {}
        before = sequences.get(fact.sequence)
        if before is not None:
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} appended a batch of producer {fact.producer_id} (sequence {fact.sequence}) to {name} at "
                f"{fact.base_offset}, which is there at {before[0]} already"
            )
            self.violation(seen, "appended-twice", (name, seen.actor), text)
        sequences[fact.sequence] = (fact.base_offset, fact.base_offset + fact.count)
        if len(sequences) > KEPT:
            del sequences[next(iter(sequences))]

    def _hosted(self, seen: Seen, fact: PartitionHosted) -> None:
        self._log((fact.topic, fact.partition)).forget(fact.end_offset, NO_OFFSET)

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        log, logs = self._log((fact.topic, fact.partition)), self.panel.logs
        for first, last, _ in logs.lost:
            log.forget(first, last)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        at, before = self.panel.written, self.panel.state_before
        if at is None or before is None:
            return
        if fact.what == "deleted":
            self._logs.pop(at, None)
        elif self.panel.was_elected and not set(self.panel.states[at].isr) <= set(before.isr):
            self._log(at).batches.clear()
