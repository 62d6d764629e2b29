"""An idempotent producer's batch is in a log once (KIP-98).

A batch carries the producer's id, its epoch and the sequence number of its
first record. A leader that finds the batch among the producer's last five
does not append it again. So no leader appends a batch that its log
contains: records of the same term at the same offsets.

Kind: appended-twice. Source: KIP-98; Kafka's ``ProducerStateManager``.
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import Seen, only_news
from kemu.emulator.watching.appends import Appends
from kemu.emulator.watching.epoch_log import lacking
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import RecordsAppended
from kemu.protocol.notes.replication import NodeWritten

KEPT = 64
"""Number of runs of batches kept for a producer; no client has more batches in flight."""


class Idempotence(Checker):
    """Judges whether leaders append a batch of an idempotent producer twice."""

    name = "idempotence"
    kinds = ("appended-twice",)

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[tuple[TopicPartition, int, int], list[Appends]] = {}
        """(partition, producer id, epoch) -> the producer's batches, as runs without a gap."""
        self.on = {RecordsAppended: self._appended, NodeWritten: self._written}

    @only_news
    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        appends, log = self.panel.logs.appends, self.panel.logs.appended_to.records
        if fact.producer_id < 0 or appends is None:
            return  # The leader does not know that it is deposed, or that the topic is deleted.
        runs = self._runs.setdefault(((fact.topic, fact.partition), fact.producer_id, fact.producer_epoch), [])
        same = (run for run in reversed(runs) if run.first_sequence <= fact.sequence < run.sequence)
        before = next((run.batch(fact) for run in same), None)
        if before is not None and before[0] != fact.base_offset and not lacking([before], log):
            name = f"{fact.topic}-{fact.partition}"
            text = (
                f"{seen.actor} appended a batch of producer {fact.producer_id} (sequence {fact.sequence}) to {name} at "
                f"{fact.base_offset}; the log has it at {before[0]} already"
            )
            self.violation(seen, "appended-twice", (name, seen.actor), text)
        if runs and appends.begin_with(runs[-1]):
            runs.pop()
        runs.append(appends)
        if len(runs) > KEPT:
            del runs[0]

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        if fact.what == "deleted" and self.panel.written is not None:
            for producer in [each for each in self._runs if each[0] == self.panel.written]:
                del self._runs[producer]
