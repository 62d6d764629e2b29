"""The producer alone: rate, routing, and its reaction to each error."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from kemu.actors.clients.producer import Producer
from kemu.actors.machine import Effect, Hangup, LinkDown, Note, Received, Send, StartTimer, TimerFired, Told
from kemu.protocol.commands import Close, ProduceRecords, SetRate, Start
from kemu.protocol.config import ProducerConfig
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import (
    BrokerMetadata,
    Metadata,
    MetadataReply,
    NewLeader,
    PartitionMetadata,
    Produce,
    ProducedBatch,
    ProduceReply,
    TopicMetadata,
)
from kemu.protocol.metadata_rules import METADATA_2_8, METADATA_3_7, MetadataRules
from kemu.protocol.notes.groups import ProduceFailed, ProducerStarted, RecordsAcknowledged
from kemu.protocol.partitioner import partition_of_key
from tests.actors.broker.data_world import Lot
from tests.actors.consumer.test_modern_member import Turns

NONE = ErrorCode.NONE
INTERVAL_US = 100_000


class Bench:
    """One producer of topic t, stepped by hand; its timers are kept here and fired by ``wait``."""

    def __init__(
        self,
        *leaders: int,
        shares: tuple[int, ...] = (),
        turn_us: int = 0,
        rules: MetadataRules = METADATA_3_7,
        **config: Any,
    ) -> None:
        self.producer = Producer(
            "p1",
            ("t",),
            ProducerConfig(**config),
            bootstrap=("b0", "b1"),
            chance=Lot(),
            draws=Turns(turn_us, of=DrawName.PRODUCER_TURN),
            shares=shares,
            metadata_rules=rules,
        )
        self.now_us = 0
        self.timers: dict[tuple[str, ...], int] = {}
        self.notes: list[Any] = []
        """All but the first, which says that it started."""
        self.hung_up: list[str] = []
        self.requests: list[Send] = []
        self.step(Told(Start()))
        assert self.notes == [ProducerStarted(topic="t", acks=self.producer.config.acks)]
        self.notes.clear()
        if leaders:
            self.metadata(*leaders)

    def step(self, event: Any) -> Sequence[Effect]:
        effects = self.producer.step(self.now_us, event)
        for effect in effects:
            match effect:
                case StartTimer(key=key, after_us=after_us):
                    self.timers[key] = self.now_us + after_us
                case Note(fact=fact):
                    self.notes.append(fact)
                case Send():
                    self.requests.append(effect)
                case Hangup(peer=peer):
                    self.hung_up.append(peer)
                case _:
                    self.timers.pop(effect.key, None)
        return effects

    def wait(self, for_us: int) -> None:
        """Let time pass and timers fire."""
        end_us = self.now_us + for_us
        while self.timers and min(self.timers.values()) <= end_us:
            key = min(self.timers, key=lambda key: (self.timers[key], key))
            self.now_us = self.timers.pop(key)
            self.step(TimerFired(key))
        self.now_us = end_us

    def take(self, kind: type) -> list[Send]:
        """The requests of this class since the last call."""
        taken = [send for send in self.requests if isinstance(send.message, kind)]
        self.requests = [send for send in self.requests if not isinstance(send.message, kind)]
        return taken

    def metadata(self, *leaders: int, error: ErrorCode = NONE, epoch: int = -1) -> None:
        """Answer the last Metadata: t has these leaders, all in this epoch; b0 and b1 live."""
        send = self.take(Metadata)[-1]
        rows = tuple(
            PartitionMetadata(
                error=NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                partition=number,
                leader=leader,
                leader_epoch=epoch,
                replicas=(),
                isr=(),
            )
            for number, leader in enumerate(leaders)
        )
        reply = MetadataReply(
            brokers=(BrokerMetadata(node_id=0, host="b0"), BrokerMetadata(node_id=1, host="b1")),
            topics=(TopicMetadata(error=error, topic="t", partitions=rows),),
        )
        self.step(Received(send.to, 0, send.request_id, send.version, reply))

    def answer(self, send: Send, *errors: ErrorCode, named: tuple[NewLeader, ...] = ()) -> None:
        """Answer a Produce, row by row (one error for all if only one is given); good batches got offset 70."""
        rows = send.message.batches
        all_errors = errors if len(errors) == len(rows) else errors * len(rows)
        reply = ProduceReply(
            batches=tuple(
                ProducedBatch(topic="t", partition=row.partition, error=error, base_offset=-1 if error else 70)
                for row, error in zip(rows, all_errors, strict=True)
            ),
            new_leaders=named,
        )
        self.step(Received(send.to, 0, send.request_id, send.version, reply))


def _counts(send: Send) -> list[tuple[int, int]]:
    """(partition, records) of a Produce."""
    return [(row.partition, row.count) for row in send.message.batches]


# --- rate and routing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "interval_ms"), [(7, 100), (1, 300), (999, 7), (12_345, 130)])
def test_the_long_run_rate_is_exact(rate, interval_ms):
    """ProducerConfig: ``emulated.records.per.s`` over all partitions, whatever the interval divides."""
    bench = Bench(0, 0, 1, emulated_records_per_s=rate, emulated_batch_interval_ms=interval_ms, acks=0)

    bench.wait(60_000_000)

    ticks_us = 60_000_000 // (interval_ms * 1000) * interval_ms * 1000
    sent = sum(count for send in bench.take(Produce) for _, count in _counts(send))
    assert sent == rate * ticks_us // 1_000_000


def test_each_broker_gets_one_request_per_interval_with_all_its_partitions():
    """Records are distributed round-robin, from the last partition on."""
    bench = Bench(0, 1, 0, emulated_records_per_s=50)

    bench.wait(INTERVAL_US)
    first, second = bench.take(Produce)
    bench.answer(first, NONE)
    bench.answer(second, NONE)
    bench.wait(INTERVAL_US)
    third, fourth = bench.take(Produce)

    assert [(first.to, _counts(first)), (second.to, _counts(second))] == [("b0", [(0, 2), (2, 1)]), ("b1", [(1, 2)])]
    assert [(third.to, _counts(third)), (fourth.to, _counts(fourth))] == [("b0", [(2, 2), (0, 2)]), ("b1", [(1, 1)])]


def test_numbered_keys_choose_the_partitions_of_records():
    """Keys 0 to 9 as decimal text: partition by Kafka's hash, in the order of the first record of each partition."""
    bench = Bench(*[0] * 12, emulated_records_per_s=50, emulated_numbered_keys=True, acks=0)

    bench.wait(2 * INTERVAL_US)

    chosen = [partition_of_key(key.encode(), 12) for key in "0123456789"]
    assert len(set(chosen[:5])) < 5, "two of the first records share a partition"
    assert [_counts(send) for send in bench.take(Produce)] == [
        list(Counter(chosen[:5]).items()),
        list(Counter(chosen[5:]).items()),
    ]


def test_the_turn_of_an_application_makes_its_intervals_longer_without_more_records():
    """100 records in a second, 25 ms of work in each interval of 100 ms: 80 in a second, ten at a time."""
    bench = Bench(0, turn_us=25_000, emulated_records_per_s=100, acks=0)

    bench.wait(10_000_000)

    assert [_counts(send) for send in bench.take(Produce)] == [[(0, 10)]] * 80


def test_a_new_rate_holds_from_now_on_and_fractions_are_not_lost():
    """SetRate: 0 stops; half a record earned before counts afterwards."""
    bench = Bench(0, emulated_records_per_s=15, acks=0)

    bench.wait(INTERVAL_US)
    bench.step(Told(SetRate(records_per_s=0)))
    bench.wait(10 * INTERVAL_US)
    bench.step(Told(SetRate(records_per_s=5)))
    bench.wait(INTERVAL_US)

    assert [_counts(send) for send in bench.take(Produce)] == [[(0, 1)], [(0, 1)]]


def test_one_request_per_broker_is_in_flight_and_what_waits_becomes_one_batch():
    """Batches never overtake each other; what comes meanwhile travels together."""
    bench = Bench(0, emulated_records_per_s=10)
    bench.wait(3 * INTERVAL_US)
    (first,) = bench.take(Produce)
    bench.answer(first, NONE)
    (second,) = bench.take(Produce)

    assert [_counts(first), _counts(second)] == [[(0, 1)], [(0, 2)]]
    assert [(row.producer_epoch, row.sequence) for send in (first, second) for row in send.message.batches] == [
        (0, 0),
        (0, 1),
    ]
    assert bench.notes == [RecordsAcknowledged(topic="t", partition=0, base_offset=70, count=1)]


def test_linger_holds_a_batch_back():
    """linger.ms."""
    bench = Bench(0, emulated_records_per_s=10, linger_ms=250)
    bench.wait(INTERVAL_US + 249_000)
    assert bench.take(Produce) == []

    bench.wait(1_000)

    (send,) = bench.take(Produce)
    assert _counts(send) == [(0, 3)]


def test_without_acks_all_there_is_no_idempotence():
    """KIP-679: idempotence needs acks=all."""
    bench = Bench(0, acks=1)
    bench.wait(INTERVAL_US)

    ((row,),) = [send.message.batches for send in bench.take(Produce)]
    assert (row.producer_id, row.producer_epoch, row.sequence) == (-1, -1, -1)


def test_the_producer_follows_a_growing_topic_and_a_moving_leader():
    """metadata.max.age.ms."""
    bench = Bench(0, emulated_records_per_s=20, acks=0, metadata_max_age_ms=1_000)
    bench.wait(999_999)
    bench.take(Produce)
    assert bench.take(Metadata) == []

    bench.wait(1)
    bench.metadata(1, 0)
    bench.take(Produce)
    bench.wait(INTERVAL_US)

    assert [(send.to, _counts(send)) for send in bench.take(Produce)] == [("b1", [(0, 1)]), ("b0", [(1, 1)])]


# --- metadata ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE])
def test_a_topic_that_is_not_there_yet_is_asked_for_again(error):
    """Kafka's send() waits for metadata; records come into being only then."""
    bench = Bench()
    bench.metadata(error=error)
    assert bench.take(Metadata) == []

    bench.wait(120_000)
    bench.metadata(0)
    bench.wait(INTERVAL_US)

    (send,) = bench.take(Produce)
    assert _counts(send) == [(0, 10)]


def test_records_of_a_partition_without_leader_wait_for_one():
    """LEADER_NOT_AVAILABLE: ask again, send when there is one."""
    bench = Bench(0, -1, emulated_records_per_s=20)
    bench.wait(INTERVAL_US)
    assert [_counts(send) for send in bench.take(Produce)] == [[(0, 1)]]

    bench.metadata(0, 1)

    assert [(send.to, _counts(send)) for send in bench.take(Produce)] == [("b1", [(1, 1)])]


@pytest.mark.parametrize("silent", [True, False])
def test_a_broker_that_does_not_answer_metadata_is_left_for_the_next_one(silent):
    """request.timeout.ms hangs up; a broken connection likewise."""
    bench = Bench()
    (first,) = bench.take(Metadata)
    if not silent:
        bench.step(LinkDown(first.to))
    bench.wait(30_000_000 if silent else 0)
    bench.wait(120_000)

    (second,) = bench.take(Metadata)
    assert {first.to, second.to} == {"b0", "b1"}
    assert bench.hung_up == ([first.to] if silent else [])


# --- errors --------------------------------------------------------------------------------------------------------

STALE = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
]


@pytest.mark.parametrize("error", STALE)
def test_after_a_stale_leader_the_batch_goes_to_the_new_one_unchanged(error):
    """InvalidMetadataException: refresh, back off, send the same batch with the same sequence."""
    bench = Bench(0, emulated_records_per_s=10)
    bench.wait(INTERVAL_US)
    (first,) = bench.take(Produce)
    bench.answer(first, error)
    bench.step(Told(SetRate(records_per_s=0)))
    assert bench.take(Produce) == []

    bench.wait(20_000)
    bench.metadata(1)
    bench.wait(120_000)

    (again,) = bench.take(Produce)
    assert again.to == "b1"
    assert again.message == first.message


def _led_in(epoch: int) -> tuple[NewLeader, ...]:
    return (NewLeader(topic="t", partition=0, leader_id=1, leader_epoch=epoch, broker=None),)


@pytest.mark.parametrize(
    ("rules", "epoch", "waits"),
    [(METADATA_3_7, 6, False), (METADATA_3_7, 5, True), (METADATA_2_8, 6, True)],
    ids=["a newer leader", "no newer leader", "a newer leader, before 3.7"],
)
def test_since_3_7_a_batch_goes_at_once_to_the_leader_that_its_error_names(rules, epoch, waits):
    """ProducerBatch.hasLeaderChangedForTheOngoingRetry, Sender.handleProduceResponse (3.7). Metadata is requested."""
    bench = Bench(rules=rules, emulated_records_per_s=10)
    bench.metadata(0, epoch=5)
    bench.wait(INTERVAL_US)
    (first,) = bench.take(Produce)
    bench.step(Told(SetRate(records_per_s=0)))
    bench.answer(first, ErrorCode.NOT_LEADER_OR_FOLLOWER, named=_led_in(epoch))
    at_once = bench.take(Produce)

    assert [send.to for send in at_once] == ([] if waits else ["b1"])
    bench.wait(130_000)
    assert bench.take(Metadata)
    (again,) = at_once or bench.take(Produce)
    assert again.message == first.message


def test_a_second_failure_at_the_new_leader_waits_for_the_backoff():
    bench = Bench(emulated_records_per_s=10)
    bench.metadata(0, epoch=5)
    bench.wait(INTERVAL_US)
    (first,) = bench.take(Produce)
    bench.step(Told(SetRate(records_per_s=0)))
    bench.answer(first, ErrorCode.NOT_LEADER_OR_FOLLOWER, named=_led_in(6))
    (second,) = bench.take(Produce)
    bench.answer(second, ErrorCode.NOT_ENOUGH_REPLICAS)

    assert not bench.take(Produce)
    bench.wait(250_000)
    assert [send.to for send in bench.take(Produce)] == ["b1"]


@pytest.mark.parametrize("error", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_other_retriable_errors_are_retried_after_a_growing_backoff(error):
    """retry.backoff.ms doubles to retry.backoff.max.ms, give or take a fifth (KIP-580)."""
    bench = Bench(0, emulated_records_per_s=10)
    bench.wait(INTERVAL_US)
    bench.step(Told(SetRate(records_per_s=0)))
    (send,) = bench.take(Produce)
    messages, pauses_us = [send.message], []
    for _ in range(6):
        bench.answer(send, error)
        answered_us = bench.now_us
        while not (taken := bench.take(Produce)):
            bench.wait(1_000)
        (send,) = taken
        messages.append(send.message)
        pauses_us.append(bench.now_us - answered_us)

    assert messages == [messages[0]] * 7
    for pause_us, backoff_us in zip(pauses_us, [100_000, 200_000, 400_000, 800_000, 1_000_000, 1_000_000], strict=True):
        assert backoff_us * 0.8 <= pause_us <= backoff_us * 1.2 + 1_000
    assert bench.take(Metadata) == []


def test_rows_are_decided_one_by_one():
    """One partition's error does not hold up the others of the request."""
    bench = Bench(0, 0, emulated_records_per_s=20)
    bench.wait(INTERVAL_US)
    bench.step(Told(SetRate(records_per_s=0)))
    (send,) = bench.take(Produce)
    bench.answer(send, ErrorCode.NOT_ENOUGH_REPLICAS, NONE)

    bench.wait(120_000)

    (again,) = bench.take(Produce)
    assert _counts(again) == [(0, 1)]
    assert [fact.partition for fact in bench.notes] == [1]


@pytest.mark.parametrize("silent", [True, False])
def test_a_lost_answer_leaves_the_batch_in_doubt_and_it_is_sent_again(silent):
    """request.timeout.ms hangs up (NetworkClient); the retry carries the same sequence."""
    bench = Bench(0, emulated_records_per_s=10)
    bench.wait(INTERVAL_US)
    bench.step(Told(SetRate(records_per_s=0)))
    (first,) = bench.take(Produce)
    if silent:
        bench.wait(30_000_000)
    else:
        bench.step(LinkDown("b0"))
    bench.wait(120_000)

    (again,) = bench.take(Produce)
    assert again.message == first.message
    assert bench.hung_up == (["b0"] if silent else [])
    bench.answer(first, NONE)  # the answer to a request it gave up on says nothing any more
    assert bench.notes == []


def test_a_broker_whose_connection_broke_is_left_alone_for_the_reconnect_backoff():
    """NetworkClient.ready: reconnect.backoff.ms on top of the batch's own retry.backoff.ms."""
    bench = Bench(0, emulated_records_per_s=10, reconnect_backoff_ms=500)
    bench.wait(INTERVAL_US)
    bench.step(Told(SetRate(records_per_s=0)))
    (first,) = bench.take(Produce)
    bench.step(LinkDown("b0"))

    bench.wait(399_000)
    assert bench.take(Produce) == []
    bench.wait(202_000)

    assert [again.message for again in bench.take(Produce)] == [first.message]


def test_a_topic_that_brokers_do_not_tell_of_any_more_is_led_by_nobody():
    """Metadata.update: a full answer replaces what was known; batches wait and the topic is asked for again."""
    bench = Bench(0, emulated_records_per_s=10)
    bench.wait(INTERVAL_US)
    bench.answer(bench.take(Produce)[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.wait(20_000)
    bench.metadata(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    bench.wait(3 * INTERVAL_US)
    assert bench.take(Produce) == []

    bench.metadata(1)
    bench.wait(INTERVAL_US)

    assert [send.to for send in bench.take(Produce)] == ["b1"]


@pytest.mark.parametrize(
    ("lost_first", "definite"), [(False, True), (True, False)], ids=["refused", "in doubt, then refused"]
)
def test_a_fatal_error_ends_the_batch_and_the_next_one_starts_a_new_epoch(lost_first, definite):
    """Sender.failBatch: an idempotent producer bumps its epoch (KIP-360); definite only if no attempt is in doubt."""
    bench = Bench(0, emulated_records_per_s=10)
    bench.wait(INTERVAL_US)
    (send,) = bench.take(Produce)
    if lost_first:
        bench.step(LinkDown("b0"))
        bench.wait(120_000)
        (send,) = bench.take(Produce)
    bench.answer(send, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    bench.wait(INTERVAL_US)

    assert bench.notes == [
        ProduceFailed(topic="t", partition=0, count=1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, definite=definite)
    ]
    following = bench.take(Produce)[0].message.batches[0]
    assert (following.producer_epoch, following.sequence) == (1, 0)


@pytest.mark.parametrize("error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_a_topic_that_may_not_be_used_is_asked_for_again_until_it_may(error):
    """KafkaProducer.waitOnMetadata: send() raises, and the application's next send() asks again."""
    bench = Bench()
    bench.step(Told(ProduceRecords(counts=((0, 3),), topic="t")))
    for _ in range(3):
        bench.metadata(error=error)
        assert bench.take(Metadata) == [], "not before the backoff is over"
        bench.wait(1_500_000)
    assert bench.take(Produce) == []

    bench.metadata(0)

    (send,) = bench.take(Produce)
    assert _counts(send) == [(0, 3)]
    assert bench.notes == []


def test_after_a_gap_in_the_log_the_same_records_go_in_a_new_epoch():
    """TransactionManager: OUT_OF_ORDER_SEQUENCE_NUMBER bumps the epoch of an idempotent producer and retries."""
    bench = Bench(0, emulated_records_per_s=10)
    bench.wait(INTERVAL_US)
    bench.answer(bench.take(Produce)[0], NONE)
    bench.wait(INTERVAL_US)
    bench.step(Told(SetRate(records_per_s=0)))
    (send,) = bench.take(Produce)
    bench.answer(send, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    bench.wait(120_000)

    before, after = send.message.batches[0], bench.take(Produce)[0].message.batches[0]
    assert (before.producer_epoch, before.sequence, before.count) == (0, 1, 1)
    assert (after.producer_epoch, after.sequence, after.count) == (1, 0, 1)
    assert after.producer_id == before.producer_id


def test_a_batch_the_log_has_already_is_done():
    """DUPLICATE_SEQUENCE_NUMBER counts as success; its offset is not known."""
    bench = Bench(0, emulated_records_per_s=10)
    bench.wait(INTERVAL_US)
    bench.answer(bench.take(Produce)[0], ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    bench.wait(INTERVAL_US)

    assert bench.notes == []
    assert bench.take(Produce)[0].message.batches[0].sequence == 1


def test_a_batch_that_is_too_large_is_cut_in_two():
    """Sender: MESSAGE_TOO_LARGE splits a batch of more than one record; a single one fails."""
    bench = Bench(0, emulated_records_per_s=30)
    bench.wait(INTERVAL_US)
    bench.step(Told(SetRate(records_per_s=0)))
    bench.answer(bench.take(Produce)[0], ErrorCode.MESSAGE_TOO_LARGE)
    (first,) = bench.take(Produce)
    bench.answer(first, ErrorCode.MESSAGE_TOO_LARGE)
    (second,) = bench.take(Produce)

    rows = [send.message.batches[0] for send in (first, second)]
    assert [(row.count, row.producer_epoch, row.sequence) for row in rows] == [(1, 0, 0), (2, 1, 0)]
    assert [fact.count for fact in bench.notes] == [1]


def test_a_batch_older_than_the_delivery_timeout_is_given_up():
    """delivery.timeout.ms: a batch in flight may be in the log, an unsent one is definitely not."""
    config = {"delivery_timeout_ms": 1_000, "request_timeout_ms": 900, "emulated_records_per_s": 20}
    bench = Bench(0, -1, **config)
    bench.wait(INTERVAL_US)
    bench.step(Told(SetRate(records_per_s=0)))
    bench.wait(2_000_000)

    assert bench.notes == [
        ProduceFailed(topic="t", partition=0, count=1, error=ErrorCode.REQUEST_TIMED_OUT, definite=False),
        ProduceFailed(topic="t", partition=1, count=1, error=ErrorCode.REQUEST_TIMED_OUT, definite=True),
    ]


def test_close_sends_what_is_in_batches_and_ends_when_all_is_decided():
    """KafkaProducer.close(): "blocks until all previously sent requests complete"."""
    bench = Bench(0, emulated_records_per_s=10, linger_ms=5_000)
    bench.wait(INTERVAL_US)
    assert bench.take(Produce) == []

    bench.step(Told(Close()))
    (send,) = bench.take(Produce)
    assert not bench.producer.finished
    bench.answer(send, NONE)

    assert bench.producer.finished and bench.timers == {}
