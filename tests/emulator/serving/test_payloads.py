"""The bytes of produced records follow the logs: truncations, failovers, retention and limits."""

from typing import Any

import pytest

from kemu.emulator.facts import Seen
from kemu.emulator.serving.payloads import REFUSED_COUNT, Payloads, limited
from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.batches import batch_summary, make_batch, records_of, split_batches
from kemu.protocol.messages.data import FetchedPartition, Produce, ProduceBatch, RecordBatch
from kemu.protocol.notes.groups import RecordsAppended
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, LogStartMoved, ReplicaStopped

AT = ("orders", 0)
_ROLE: dict[str, Any] = {"topic": "orders", "partition": 0, "leader_epoch": 0, "end_offset": 0, "high_watermark": 0}


def _see(payloads: Payloads, fact: Any, actor: str = "b0", life: int = 1) -> None:
    for handler in payloads.handlers_of(type(fact)):
        handler(Seen(1, 0, actor, life, fact), fact)


def _batch(*values: bytes) -> bytes:
    return make_batch([(None, value) for value in values], base_offset=0, timestamp_ms=5)


def _produce(payloads: Payloads, data: bytes, count: int, **producer: int) -> ProduceBatch:
    request = Produce(
        acks=1, timeout_ms=1, batches=(ProduceBatch(topic=AT[0], partition=AT[1], count=count, **producer),)
    )
    return payloads.take(request, {AT: data})[0].batches[0]


def _append(payloads: Payloads, batch: ProduceBatch, base: int, actor: str = "b0", life: int = 1) -> None:
    producer = {name: getattr(batch, name) for name in ("producer_id", "producer_epoch", "sequence")}
    fact = RecordsAppended(topic=AT[0], partition=AT[1], base_offset=base, count=batch.count, **producer)
    _see(payloads, fact, actor, life)


def _lead(payloads: Payloads, actor: str, epoch: int) -> None:
    fact = BecameLeader(
        topic=AT[0], partition=AT[1], leader_epoch=epoch, isr=(0,), end_offset=0, high_watermark=0, epochs=()
    )
    _see(payloads, fact, actor)


def _fetched(base: int, count: int, epoch: int = 0, life: int = 1) -> FetchedPartition:
    ranges = (RecordBatch(base_offset=base, count=count, append_time_ms=5, leader_epoch=epoch, life=life),)
    return FetchedPartition(topic=AT[0], partition=AT[1], error=ErrorCode.NONE, batches=ranges)


def _values(payloads: Payloads, row: FetchedPartition) -> list[tuple[int, bytes | None]]:
    """(Offset, value) of the records of a fetched partition."""
    found = []
    for data in payloads.batches_of(row) or []:
        base = batch_summary(data).base_offset
        found += [(base + index, value) for index, (_, value) in enumerate(records_of(data))]
    return found


def test_a_fetch_in_the_middle_of_a_batch_gets_the_whole_batch_at_its_place() -> None:
    """Clients skip the records below their offset, as with Kafka's brokers."""
    payloads = Payloads()
    _append(payloads, _produce(payloads, _batch(b"a", b"b"), 2), 10)
    assert _values(payloads, _fetched(11, 1)) == [(10, b"a"), (11, b"b")]
    assert batch_summary((payloads.batches_of(_fetched(10, 2, epoch=3)) or [b""])[0]).leader_epoch == 3


def test_emulated_records_between_produced_batches_get_batches_of_their_own() -> None:
    """A range may have records of emulated and of real producers."""
    payloads = Payloads()
    _append(payloads, _produce(payloads, _batch(b"a"), 1), 2)
    _append(payloads, _produce(payloads, _batch(b"b"), 1), 5)
    values = _values(payloads, _fetched(1, 6))
    assert values == [
        (1, b"orders-0@1"),
        (2, b"a"),
        (3, b"orders-0@3"),
        (4, b"orders-0@4"),
        (5, b"b"),
        (6, b"orders-0@6"),
    ]
    assert payloads.batches_of(_fetched(3, 2)) is None


def test_records_at_one_offset_are_told_apart_by_leader_epoch_and_life() -> None:
    """After a truncation another leader appends other records at the same offsets."""
    payloads = Payloads()
    _lead(payloads, "b0", 0)
    _lead(payloads, "b1", 1)
    _append(payloads, _produce(payloads, _batch(b"old"), 1), 4)
    _append(payloads, _produce(payloads, _batch(b"new"), 1), 4, actor="b1", life=2)
    assert _values(payloads, _fetched(4, 1, epoch=0)) == [(4, b"old")]
    assert _values(payloads, _fetched(4, 1, epoch=1, life=2)) == [(4, b"new")]


def test_a_batch_of_an_idempotent_producer_keeps_its_sequence_and_others_get_a_number() -> None:
    """The machine must see the sequences of idempotent producers."""
    payloads = Payloads()
    named = _produce(payloads, _batch(b"a"), 1, producer_id=9, producer_epoch=1, sequence=4)
    assert (named.producer_id, named.producer_epoch, named.sequence) == (9, 1, 4)
    first, second = (_produce(payloads, _batch(value), 1) for value in (b"b", b"c"))
    assert first.sequence != second.sequence
    for base, batch in enumerate((second, named, first)):
        _append(payloads, batch, base)
    assert _values(payloads, _fetched(0, 3)) == [(0, b"c"), (1, b"a"), (2, b"b")]


def test_bytes_are_freed_with_the_log_and_after_a_refusal() -> None:
    """A batch is kept as long as a log has its records."""
    payloads = Payloads()
    data = _batch(b"a", b"b")
    _append(payloads, _produce(payloads, data, 2), 0)
    refused = _produce(payloads, data, 2)
    assert payloads.size == 2 * len(data)
    payloads.decided(Produce(acks=1, timeout_ms=1, batches=(refused,)))
    assert payloads.size == len(data)
    moved: dict[str, Any] = {"topic": AT[0], "partition": AT[1], "end_offset": 2, "why": "retention"}
    _see(payloads, LogStartMoved(**moved, start_offset=1))
    assert payloads.size == len(data)
    _see(payloads, LogStartMoved(**moved, start_offset=2))
    assert payloads.size == 0


def test_bytes_stay_until_the_log_of_every_replica_begins_behind_them() -> None:
    """A replica that was down while retention deleted records may lead again, and then serves its own log."""
    payloads, data = Payloads(), _batch(b"a", b"b")
    _lead(payloads, "b0", 0)
    for follower in ("b1", "b2"):
        _see(payloads, BecameFollower(**_ROLE, leader=0), actor=follower)
    _append(payloads, _produce(payloads, data, 2), 0)
    moved: dict[str, Any] = {"topic": AT[0], "partition": AT[1], "start_offset": 2, "end_offset": 2, "why": "retention"}
    _see(payloads, LogStartMoved(**moved))
    _see(payloads, LogStartMoved(**moved), actor="b1")
    assert payloads.size == len(data), "b2 has the records"
    stopped: dict[str, Any] = {"topic": AT[0], "partition": AT[1], "leader_epoch": 0}
    _see(payloads, ReplicaStopped(**stopped, deleted=False), actor="b2")
    assert payloads.size == len(data), "the log is on the disk of b2"
    _see(payloads, ReplicaStopped(**stopped, deleted=True), actor="b2")
    assert payloads.size == 0


def test_a_full_store_makes_the_broker_refuse_the_batch() -> None:
    """The client gets an error; no record without its bytes enters a log."""
    payloads = Payloads(most_bytes=100)
    request = Produce(acks=1, timeout_ms=1, batches=(ProduceBatch(topic=AT[0], partition=AT[1], count=1),))
    sent, fits = payloads.take(request, {AT: _batch(b"x" * 100)})
    assert not fits
    assert sent.batches[0].count == REFUSED_COUNT
    assert payloads.size == 0


@pytest.mark.parametrize(
    ("most", "of", "counts"),
    [
        (10_000, {}, [3, 2]),
        (250, {}, [2, 0]),
        (10_000, {AT: 150}, [1, 2]),
        (10, {}, [1, 0]),
    ],
)
def test_a_reply_has_at_most_its_bytes_and_at_least_one_batch(most: int, of: Any, counts: list[int]) -> None:
    """KIP-74: the first batch is returned even if it is too large."""
    data = _batch(b"x" * (100 - len(_batch(b""))))
    assert len(data) == 100
    other = ("orders", 1)
    records = limited([(AT, [data] * 3), (other, [data] * 2)], most, of)
    assert [len(split_batches(records[at])) for at in (AT, other)] == counts
