"""The bytes of records that real clients produce. No machine and no trace has these bytes.

A machine has the place of a record: topic, partition, leader epoch, life of the leader's process, and offset. This
place identifies a record for ever, also after truncations and failovers. So the store keeps the bytes of a batch by its
place. Its broker's note ``RecordsAppended`` has the place, and the batch's producer id, epoch and sequence. A batch of
a producer that is not idempotent gets a number in the unused field ``sequence`` of the emulated batch.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve

from kemu.emulator.facts import Handler, Seen, kind_of
from kemu.protocol.frozen import frozen
from kemu.protocol.kafka_wire.batches import emulated_batch, patch_base_offset
from kemu.protocol.messages.data import FetchedPartition, Produce, ProduceBatch, RecordBatch
from kemu.protocol.names import TopicPartition, host_of
from kemu.protocol.notes.groups import RecordsAppended
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, LogStartMoved, ReplicaStopped, TopicDeleted

MOST_BYTES = 256 * 1024 * 1024
"""Largest sum of the sizes of all kept batches. Batches above the limit are refused."""
MOST_UNDECIDED = 10_000
"""Largest number of batches that no broker has appended or refused yet; the oldest is forgotten."""
_NUMBERS = 1 << 31
_ANY_EPOCH = -2
"""The leader epoch of records of brokers without replication, whose logs lose no record."""
REFUSED_COUNT = 0
"""A batch with this number of records is refused by its broker (INVALID_REQUEST)."""

Key = tuple[str, int, int, int, int]
"""(Topic, partition, producer id, producer epoch, sequence)."""


@frozen
class KeptBatch:
    """A batch in a log: offsets ``base .. end - 1``."""

    base: int
    end: int
    leader_epoch: int
    life: int
    data: bytes


class Payloads:
    """The batches of real clients, as an observer of the run.

    Args:
        most_bytes: the largest sum of sizes.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.size = 0
        """Sum of the sizes of all batches."""
        self._undecided: dict[Key, bytes] = {}
        self._kept: dict[TopicPartition, list[KeptBatch]] = {}
        """In the order of base offsets; batches of several leader epochs may have the same offsets."""
        self._epochs: dict[tuple[str, TopicPartition], int] = {}
        """(Broker, partition) -> the leader epoch in which the broker last became leader."""
        self._starts: dict[TopicPartition, dict[str, int]] = {}
        """Partition -> broker with a replica -> start of the replica's log."""
        self._last_number = -1
        self._on: Mapping[type, Handler] = {
            RecordsAppended: self._appended,
            BecameLeader: self._led,
            BecameFollower: self._follows,
            ReplicaStopped: self._stopped,
            LogStartMoved: self._start_moved,
            TopicDeleted: self._deleted,
        }

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        """The handlers of facts of a kind (``facts.handlers_of``)."""
        return (self._on[kind],) if kind in self._on else ()

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        for handler in self.handlers_of(kind_of(seen.fact)):
            handler(seen, seen.fact)

    # --- produced batches ------------------------------------------------------------------------------------------

    def take(self, request: Produce, records: Mapping[TopicPartition, bytes]) -> tuple[Produce, bool]:
        """Keep the bytes of a request's batches; return the request for the broker, and whether all batches fit.

        If the store is full, the returned request has batches that the broker refuses.
        """
        needed = sum(map(len, records.values()))
        if self.size + needed > self.most_bytes:
            return with_values(
                request, batches=tuple(with_values(each, count=REFUSED_COUNT) for each in request.batches)
            ), False
        batches = tuple(map(self._numbered, request.batches))
        for batch in batches:
            key = _key_of(batch)
            self.size -= len(self._undecided.pop(key, b""))
            self._undecided[key] = data = records[batch.topic, batch.partition]
            self.size += len(data)
        while len(self._undecided) > MOST_UNDECIDED:
            self._forget(next(iter(self._undecided)))
        return with_values(request, batches=batches), True

    def _numbered(self, batch: ProduceBatch) -> ProduceBatch:
        if batch.producer_id >= 0:
            return batch
        self._last_number = (self._last_number + 1) % _NUMBERS
        numbered: ProduceBatch = with_values(batch, sequence=self._last_number)
        return numbered

    def decided(self, request: Produce) -> None:
        """Forget the bytes of a request's batches that no broker has appended, after the request was answered."""
        for batch in request.batches:
            self._forget(_key_of(batch))

    def _forget(self, key: Key) -> None:
        self.size -= len(self._undecided.pop(key, b""))

    # --- logs ------------------------------------------------------------------------------------------------------

    def _appended(self, seen: Seen, fact: RecordsAppended) -> None:
        key = (fact.topic, fact.partition, fact.producer_id, fact.producer_epoch, fact.sequence)
        data = self._undecided.pop(key, None)
        if data is None:
            return
        at = (fact.topic, fact.partition)
        epoch = self._epochs.get((host_of(seen.actor), at), _ANY_EPOCH)
        kept = KeptBatch(fact.base_offset, fact.base_offset + fact.count, epoch, seen.life, data)
        rows = self._kept.setdefault(at, [])
        rows.insert(bisect_right(rows, kept.base, key=_base), kept)

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        self._epochs[host_of(seen.actor), (fact.topic, fact.partition)] = fact.leader_epoch
        self._follows(seen, fact)

    def _follows(self, seen: Seen, fact: BecameFollower | BecameLeader) -> None:
        self._starts.setdefault((fact.topic, fact.partition), {}).setdefault(host_of(seen.actor), 0)

    def _stopped(self, seen: Seen, fact: ReplicaStopped) -> None:
        at = (fact.topic, fact.partition)
        if fact.deleted and self._starts.get(at, {}).pop(host_of(seen.actor), None) is not None:
            self._free(at)

    def _start_moved(self, seen: Seen, fact: LogStartMoved) -> None:
        at = (fact.topic, fact.partition)
        self._starts.setdefault(at, {})[host_of(seen.actor)] = fact.start_offset
        self._free(at)

    def _free(self, at: TopicPartition) -> None:
        """Free the batches below the start of every replica's log."""
        rows, start = self._kept.get(at, []), min(self._starts[at].values(), default=0)
        gone = [each for each in rows if each.end <= start]
        if gone:
            self.size -= sum(len(each.data) for each in gone)
            self._kept[at] = [each for each in rows if each.end > start]

    def _deleted(self, seen: Seen, fact: TopicDeleted) -> None:
        for at in [at for at in self._kept if at[0] == fact.topic]:
            self.size -= sum(len(each.data) for each in self._kept.pop(at))
            self._starts.pop(at, None)

    # --- fetched records -------------------------------------------------------------------------------------------

    def batches_of(self, row: FetchedPartition) -> list[bytes] | None:
        """The record batches of a fetched partition in order; None if no record has bytes.

        The first batch may begin below the fetch offset, as in Kafka. Records without bytes get emulated batches.
        """
        at = (row.topic, row.partition)
        rows = self._kept.get(at)
        if not rows:
            return None
        found = [piece for fetched in row.batches for piece in self._pieces(at, rows, fetched)]
        return [data for data, is_real in found] if any(is_real for _, is_real in found) else None

    def _pieces(self, at: TopicPartition, rows: list[KeptBatch], fetched: RecordBatch) -> Iterator[tuple[bytes, bool]]:
        """(Bytes, whether a client produced them) of the records of one range."""
        offset, end = fetched.base_offset, fetched.base_offset + fetched.count
        first = max(bisect_right(rows, offset, key=_base) - 1, 0)
        while first > 0 and rows[first - 1].end > offset:
            first -= 1
        for kept in rows[first : bisect_left(rows, end, key=_base)]:
            same = kept.life == fetched.life and kept.leader_epoch in (fetched.leader_epoch, _ANY_EPOCH)
            if not same or kept.end <= offset:
                continue
            if kept.base > offset:
                yield _emulated(at, offset, kept.base, fetched), False
            yield patch_base_offset(kept.data, kept.base, fetched.leader_epoch), True
            offset = kept.end
        if offset < end:
            yield _emulated(at, offset, end, fetched), False


def limited(
    rows: Iterable[tuple[TopicPartition, list[bytes]]], most: int, of: Mapping[TopicPartition, int]
) -> dict[TopicPartition, bytes]:
    """The records of a reply, at most ``most`` bytes, and of a partition at most its bytes; at least one batch.

    Source: KIP-74.
    """
    left = most
    records: dict[TopicPartition, bytes] = {}
    for at, batches in rows:
        room = min(left, of.get(at, most))
        taken: list[bytes] = []
        for batch in batches:
            if len(batch) > room and (taken or left != most):
                break
            taken.append(batch)
            room -= len(batch)
        records[at] = b"".join(taken)
        left = max(left - len(records[at]), 0)
    return records


def with_values(message: Any, **changes: Any) -> Any:
    """A message with other values; mypy does not know that messages are attrs classes."""
    return evolve(message, **changes)


def _emulated(at: TopicPartition, offset: int, end: int, like: RecordBatch) -> bytes:
    return emulated_batch(*at, offset, end - offset, like.append_time_ms, like.leader_epoch)


def _key_of(batch: ProduceBatch) -> Key:
    return batch.topic, batch.partition, batch.producer_id, batch.producer_epoch, batch.sequence


def _base(kept: KeptBatch) -> int:
    return kept.base
