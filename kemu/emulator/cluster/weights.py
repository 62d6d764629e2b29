"""Sizes of records. Emulated messages and logs hold only offsets; the scenario sets each topic's record size."""

from collections.abc import Mapping
from typing import Any

from kemu.actors.broker.partition_log import JOURNALS, START_KEY, from_record
from kemu.actors.machine import Record
from kemu.protocol.messages.data import FetchedPartition, FetchReply, Produce

DEFAULT_RECORD_BYTES = 100
"""Record size of topics that the scenario does not name, such as ``__consumer_offsets``."""


class Weights:
    """Computes sizes of messages and writes; ``sizes``: topic -> bytes of a record."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes

    def of_topic(self, topic: str) -> int:
        """Return the size of one record of a topic in bytes."""
        return self._sizes.get(topic, DEFAULT_RECORD_BYTES)

    def of_message(self, message: Any) -> int:
        """Return the size of a message's records in bytes."""
        if isinstance(message, Produce):
            return sum(batch.count * self.of_topic(batch.topic) for batch in message.batches)
        if isinstance(message, FetchReply):
            return sum(self.of_topic(row.topic) * _count(row) - _ghosts(row) for row in message.partitions)
        return 0

    def of_write(self, log: str, records: tuple[Record, ...]) -> int:
        """Return the size of a write to a broker's log in bytes: record sizes for batches, content sizes for other
        entries.
        """
        name = log.removeprefix(JOURNALS)
        topic, is_journal = name.rpartition("-")[0], name != log
        if is_journal:
            from kemu.actors.broker.replica_log import batch_of, is_content  # late: most runs have no replicas
        weight = 0
        for record in records:
            if is_journal:
                batch = batch_of(record)
            else:
                batch = from_record(record) if topic in self._sizes and record[0] != START_KEY else None
            if batch is not None:
                weight += batch.records * self.of_topic(topic)
            elif not (is_journal and is_content(record)):
                weight += len(record[0]) + len(record[1] or b"")
        return weight


def _count(row: FetchedPartition) -> int:
    return sum(batch.count for batch in row.batches) + sum(batch.count for batch in row.replica_batches)


def _ghosts(row: FetchedPartition) -> int:
    """Return the bytes of the field ``life``, which Kafka's batches lack: one byte per batch."""
    return len(row.batches) + len(row.replica_batches)
