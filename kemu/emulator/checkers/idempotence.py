"""An idempotent producer's batch is in a log once (KIP-98).

A batch carries the producer's id, its epoch and the sequence number of its
first record. A leader that finds the batch among the producer's last five
does not append it again. So no leader appends a batch that its log
contains: records of the same term at the same offsets.

Kind: appended-twice. Source: KIP-98; Kafka's ``ProducerStateManager``.
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import Seen
from kemu.emulator.watching.epoch_log import Run, lacking
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import RecordsAppended
from kemu.protocol.notes.replication import NodeWritten

KEPT = 64
"""Number of batches kept for a producer; no client has more batches in flight."""


class Idempotence(Checker):
    """Judges whether leaders append a batch of an idempotent producer twice."""

    name = "idempotence"
    kinds = ("appended-twice",)

    def __init__(self) -> None:
        super().__init__()
        self._batches: dict[tuple[TopicPartition, int, int], dict[int, Run]] = {}
        """(partition, producer id, epoch) -> sequence number of the first record -> batch."""
        self.on = {RecordsAppended: self._appended, NodeWritten: self._written}

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        if fact.producer_id < 0 or not self.panel.logs.appended_to_log:
            return  # The leader does not know that it is deposed, or that the topic is deleted.
        at, log, end = (fact.topic, fact.partition), self.panel.logs.appended_to.records, fact.base_offset + fact.count
        producer = (at, fact.producer_id, fact.producer_epoch)
        batches = self._batches.get(producer)
        if batches is None:
            batches = self._batches[producer] = {}
        before = batches.pop(fact.sequence, None)
        if before is not None and before[0] != fact.base_offset and not lacking([before], log):
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} appended a batch of producer {fact.producer_id} (sequence {fact.sequence}) to {name} at "
                f"{fact.base_offset}; the log has it at {before[0]} already"
            )
            self.violation(seen, "appended-twice", (name, seen.actor), text)
        batches[fact.sequence] = (fact.base_offset, end, log.term_at(fact.base_offset))
        if len(batches) > KEPT:
            del batches[next(iter(batches))]

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        if fact.what == "deleted" and self.panel.written is not None:
            for producer in [each for each in self._batches if each[0] == self.panel.written]:
                del self._batches[producer]
