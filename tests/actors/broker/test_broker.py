"""The broker alone: one step at a time."""

from collections.abc import Sequence
from typing import Any

import pytest

from kemu.actors.broker.arranged import Broker
from kemu.actors.broker.partition_log import LoggedBatch, from_record, to_record
from kemu.actors.machine import (
    Append,
    Appended,
    Effect,
    LinkDown,
    Loaded,
    Note,
    Received,
    Send,
    StartTimer,
    StopTimer,
    TimerFired,
    Told,
)
from kemu.protocol.commands import AnswerNext, ClusterView, HostPartition, KnowTopics, Start
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import EpochQuestion, OffsetForLeaderEpoch
from kemu.protocol.messages.data import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Fetch,
    FetchPartition,
    FetchReply,
    ListOffsets,
    Metadata,
    OffsetQuestion,
    Produce,
    ProduceBatch,
)
from kemu.protocol.messages.group import FindCoordinator
from kemu.protocol.names import offsets_partition_of
from kemu.protocol.notes.groups import AnswerInjected, PartitionHosted, RecordsAppended

RECORD_BYTES = 100
LEADER_EPOCH = 5
NONE = ErrorCode.NONE

VIEW = ClusterView(
    brokers=((0, "rack-a"), (1, "")),
    topics=(("t", (0, 0, 1, -1), (LEADER_EPOCH,) * 4), ("u", (1,), (0,))),
    offsets_leaders=(0, 1, -1),
)


class Bench:
    """A started broker b0 that leads t-0 and t-1; b1 leads t-2, and t-3 has no leader."""

    def __init__(self, *loaded: Loaded, group_keys: tuple[str, ...] = ()) -> None:
        self.broker = Broker("b0", 0, BrokerConfig(), group_keys=group_keys)
        self.now_us = 1_000_000
        self.requests = 0
        for event in loaded:
            self.step(event)
        self.step(Told(Start()))
        self.step(Told(VIEW))
        self.hosted = [self.host(0), self.host(1)]

    def step(self, event: Any, *, after_us: int = 0) -> Sequence[Effect]:
        self.now_us += after_us
        return self.broker.step(self.now_us, event)

    def host(self, partition: int) -> Sequence[Effect]:
        command = HostPartition(topic="t", partition=partition, leader_epoch=LEADER_EPOCH, record_bytes=RECORD_BYTES)
        return self.step(Told(command))

    def ask(self, message: object, *, sender: str = "c1", version: int = 12) -> Sequence[Effect]:
        """Send a request; returns the effects."""
        self.requests += 1
        return self.step(Received(sender, 77, self.requests, version, message))

    def answer(self, message: object, *, sender: str = "c1", version: int = 12) -> Any:
        """Send a request that is answered at once; returns the answer."""
        effects = self.ask(message, sender=sender, version=version)
        (send,) = [effect for effect in effects if isinstance(effect, Send)]
        assert (send.to, send.connection, send.request_id, send.version) == (sender, 77, self.requests, version)
        return send.message

    def append(self, partition: int, count: int) -> Sequence[Effect]:
        """Append records of a producer without idempotence, durable at once; returns the effects."""
        (write,) = _kind(self.ask(_produce(_batch(partition, count)), sender="p1", version=11), Append)
        return self.step(Appended(write.token, NONE, 0))


def _kind(effects: Sequence[Effect], kind: type) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def _batch(partition: int, count: int, sequence: int = -1, topic: str = "t") -> ProduceBatch:
    if sequence < 0:
        return ProduceBatch(topic=topic, partition=partition, count=count)
    return ProduceBatch(
        topic=topic, partition=partition, count=count, producer_id=9, producer_epoch=0, sequence=sequence
    )


def _produce(*batches: ProduceBatch, acks: int = -1) -> Produce:
    return Produce(acks=acks, timeout_ms=30_000, batches=batches)


def _fetch(
    *rows: FetchPartition, min_bytes: int = 1, max_bytes: int = 1_000_000, max_wait_ms: int = 500, **session: int
) -> Fetch:
    return Fetch(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, partitions=rows, **session)


def _from(offset: int, partition: int = 0, *, max_bytes: int = 1_000_000, epoch: int = -1) -> FetchPartition:
    return FetchPartition(
        topic="t", partition=partition, current_leader_epoch=epoch, fetch_offset=offset, max_bytes=max_bytes
    )


def _offsets(reply: Any) -> list[tuple[int, ErrorCode, list[tuple[int, int]]]]:
    """Per row of a fetch answer: partition, error, (base offset, count) of its batches."""
    return [
        (row.partition, row.error, [(batch.base_offset, batch.count) for batch in row.batches])
        for row in reply.partitions
    ]


# --- the cluster ---------------------------------------------------------------------------------------------------


def test_metadata_tells_leaders_of_all_the_named_or_no_topics():
    """MetadataRequest: null asks for all topics, an empty list for none; a missing one answers 3."""
    bench = Bench()

    everything = bench.answer(Metadata(topics=None))
    named = bench.answer(Metadata(topics=("u", "nowhere")))
    nothing = bench.answer(Metadata(topics=()))

    assert [(broker.node_id, broker.host, broker.rack) for broker in everything.brokers] == [
        (0, "b0", "rack-a"),
        (1, "b1", None),
    ]
    assert [(row.partition, row.leader, row.error) for row in everything.topics[0].partitions] == [
        (0, 0, NONE),
        (1, 0, NONE),
        (2, 1, NONE),
        (3, -1, ErrorCode.LEADER_NOT_AVAILABLE),
    ]
    assert [(topic.topic, topic.error) for topic in named.topics] == [
        ("u", NONE),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert nothing.topics == ()


def test_metadata_tells_topics_by_id():
    """MetadataRequest v12: an id that no topic has is answered with UNKNOWN_TOPIC_ID and without a name."""
    bench = Bench()
    bench.step(Told(KnowTopics(topics=(("t", "t-id", 4), ("u", "u-id", 1)))))
    bench.step(Told(VIEW))

    found = bench.answer(Metadata(topics=(), topic_ids=("u-id", "no-id")), version=13)

    assert [(topic.topic, topic.topic_id, topic.error) for topic in found.topics] == [
        ("u", "u-id", NONE),
        ("", "no-id", ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_a_groups_coordinator_lives_with_the_leader_of_its_offsets_partition():
    """FindCoordinator: 15 while the partition has no leader."""
    bench = Bench()

    for group in ("g", "h", "i", "j", "k", "l"):
        leader = (0, 1, -1)[offsets_partition_of(group, 3)]
        reply = bench.answer(FindCoordinator(key=group), version=3)
        expected = (
            (NONE, leader, f"b{leader}/coordinator") if leader >= 0 else (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "")
        )
        assert (reply.error, reply.node_id, reply.host) == expected


def test_there_is_no_coordinator_before_the_cluster_is_known_and_transactions_are_refused():
    """KafkaApis: a missing offsets topic answers COORDINATOR_NOT_AVAILABLE; refused transactions end a producer."""
    broker = Broker("b0", 0, BrokerConfig())
    (send,) = broker.step(0, Received("c1", 1, 1, 3, FindCoordinator(key="g")))

    assert send.message.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    reply = Bench().answer(FindCoordinator(key="transaction", key_type=1), version=3)
    assert reply.error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# --- produce -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [1, -1])
def test_a_produce_is_answered_when_all_its_batches_are_durable(acks):
    """ProducedBatch: base offset and append time; rows in the order of the request."""
    bench = Bench()
    effects = bench.ask(_produce(_batch(1, 4), _batch(0, 3), acks=acks), sender="p1", version=11)
    first, second = _kind(effects, Append)
    assert not _kind(effects, Send)
    assert [first.log, second.log] == ["t-1", "t-0"]
    assert from_record(second.records[0]) == LoggedBatch(0, 3, 1_000, LEADER_EPOCH)

    assert first.token == second.token, "one Appended follows all appends of a request"
    effects = bench.step(Appended(first.token, NONE, 0), after_us=1_000)

    assert [effect.fact for effect in _kind(effects, Note)] == [
        RecordsAppended(topic="t", partition=1, base_offset=0, count=4),
        RecordsAppended(topic="t", partition=0, base_offset=0, count=3),
    ]
    (send,) = _kind(effects, Send)
    assert [(row.partition, row.error, row.base_offset, row.append_time_ms) for row in send.message.batches] == [
        (1, NONE, 0, 1_000),
        (0, NONE, 0, 1_000),
    ]


def test_acks_zero_is_written_and_never_answered():
    """ProducerConfig.acks: "the producer will not wait for any acknowledgment"."""
    bench = Bench()
    (write,) = bench.ask(_produce(_batch(0, 3), acks=0), sender="p1", version=11)

    assert bench.step(Appended(write.token, NONE, 0)) == [
        Note(RecordsAppended(topic="t", partition=0, base_offset=0, count=3))
    ]


def test_batches_that_cannot_be_taken_are_refused_without_holding_up_the_others():
    """ReplicaManager: 6 for a partition of another leader, 3 for an unknown one; 42 for invalid requests; 21 for
    acks.
    """
    bench = Bench()
    effects = bench.ask(
        _produce(_batch(2, 1), _batch(9, 1), _batch(0, 0), _batch(0, 2), _batch(0, 1, topic="nowhere")), version=11
    )
    (write,) = _kind(effects, Append)
    (send,) = _kind(bench.step(Appended(write.token, NONE, 0)), Send)

    assert [row.error for row in send.message.batches] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    reply = bench.answer(_produce(_batch(0, 1), acks=2), version=11)
    assert [row.error for row in reply.batches] == [ErrorCode.INVALID_REQUIRED_ACKS]


def test_a_batch_that_comes_again_is_answered_with_its_first_offset_and_not_written():
    """KIP-98: duplicates by producer id, epoch and sequence; also while the first is being written to the disk."""
    bench = Bench()
    bench.append(0, 2)
    (write,) = _kind(bench.ask(_produce(_batch(0, 3, sequence=0)), sender="p1", version=11), Append)
    assert bench.ask(_produce(_batch(0, 3, sequence=0)), sender="p1", version=11) == []

    effects = bench.step(Appended(write.token, NONE, 1))
    later = bench.answer(_produce(_batch(0, 3, sequence=0)), sender="p1", version=11)

    assert not _kind(effects, Append)
    assert [send.message.batches[0].base_offset for send in _kind(effects, Send)] == [2, 2]
    assert (later.batches[0].error, later.batches[0].base_offset) == (NONE, 2)


def test_a_gap_in_the_sequence_is_refused():
    """ProducerAppendInfo: OUT_OF_ORDER_SEQUENCE_NUMBER."""
    bench = Bench()
    (write,) = _kind(bench.ask(_produce(_batch(0, 3, sequence=0)), version=11), Append)
    bench.step(Appended(write.token, NONE, 0))

    reply = bench.answer(_produce(_batch(0, 3, sequence=4)), version=11)

    assert reply.batches[0].error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_failed_append_leaves_no_gap_and_what_queued_behind_it_goes_next():
    """Offsets are assigned when the batch goes to the disk; one append per partition is in progress."""
    bench = Bench()
    (first,) = _kind(bench.ask(_produce(_batch(0, 3)), sender="p1", version=11), Append)
    assert bench.ask(_produce(_batch(0, 2)), sender="p2", version=11) == []
    assert bench.ask(_produce(_batch(0, 1)), sender="p3", version=11) == []

    effects = bench.step(Appended(first.token, ErrorCode.KAFKA_STORAGE_ERROR, -1))
    (failed,) = _kind(effects, Send)
    (second,) = _kind(effects, Append)
    answers = _kind(bench.step(Appended(second.token, NONE, 0)), Send)

    assert (failed.to, failed.message.batches[0].error) == ("p1", ErrorCode.KAFKA_STORAGE_ERROR)
    assert [from_record(record).base_offset for record in second.records] == [0, 2]
    assert [(send.to, send.message.batches[0].base_offset) for send in answers] == [("p2", 0), ("p3", 2)]


def test_a_restarted_broker_has_the_records_and_producers_its_disk_kept():
    """Loaded comes before Start; the partition is served when it is hosted again."""
    batches = (LoggedBatch(0, 3, 900, 4, 9, 0, 0), LoggedBatch(3, 2, 950, 4, 9, 0, 3))
    bench = Bench(Loaded("t-0", tuple(to_record(batch) for batch in batches)))

    duplicate = bench.answer(_produce(_batch(0, 2, sequence=3)), version=11)
    (write,) = _kind(bench.ask(_produce(_batch(0, 1, sequence=5)), version=11), Append)

    epochs = ((4, 0), (LEADER_EPOCH, 5))
    assert [effect.fact for effect in [*bench.hosted[0], *bench.hosted[1]]] == [
        PartitionHosted(topic="t", partition=0, end_offset=5, leader_epoch=LEADER_EPOCH, epochs=epochs),
        PartitionHosted(topic="t", partition=1, end_offset=0, leader_epoch=LEADER_EPOCH, epochs=((LEADER_EPOCH, 0),)),
    ]
    assert duplicate.batches[0].base_offset == 3
    assert from_record(write.records[0]) == LoggedBatch(5, 1, 1_000, LEADER_EPOCH, 9, 0, 5)


# --- fetch ---------------------------------------------------------------------------------------------------------


def test_a_fetch_with_enough_records_is_answered_at_once_with_all_partitions():
    """FetchReply: outside of a fetch session, one row per partition."""
    bench = Bench()
    bench.append(0, 5)

    reply = bench.answer(_fetch(_from(2), _from(0, 1)))

    assert _offsets(reply) == [(0, NONE, [(2, 3)]), (1, NONE, [])]
    assert (reply.partitions[0].high_watermark, reply.partitions[0].log_start_offset) == (5, 0)


def test_a_fetch_waits_for_its_records_and_an_append_wakes_only_those_who_want_them():
    """fetch.min.bytes, fetch.max.wait.ms; a delayed fetch is found through its partitions."""
    bench = Bench()
    (timer,) = bench.ask(_fetch(_from(0, 0), _from(0, 1), min_bytes=4 * RECORD_BYTES), sender="c1")
    (other,) = bench.ask(_fetch(_from(0, 1)), sender="c2")
    assert isinstance(timer, StartTimer) and timer.after_us == 500_000

    not_yet = bench.append(0, 3)
    woken = bench.append(1, 1)

    assert [send.to for send in _kind(not_yet, Send)] == ["p1"]
    answers = {send.to: send.message for send in _kind(woken, Send)}
    assert _offsets(answers["c1"]) == [(0, NONE, [(0, 3)]), (1, NONE, [(0, 1)])]
    assert _offsets(answers["c2"]) == [(1, NONE, [(0, 1)])]
    assert {stop.key for stop in _kind(woken, StopTimer)} == {timer.key, other.key}
    assert [send.to for send in _kind(bench.append(0, 9), Send)] == ["p1"]


def test_a_connection_is_muted_while_its_fetch_is_held_back():
    """SocketServer mutes a channel until its request is answered: a Metadata waits behind a delayed fetch."""
    bench = Bench()
    bench.ask(_fetch(_from(0, 0)), sender="c1")

    assert bench.ask(Metadata(topics=("t",)), sender="c1") == []
    assert bench.ask(_fetch(_from(1, 0), min_bytes=1_000), sender="c1") == []
    assert bench.ask(Metadata(topics=("u",)), sender="c1") == []
    assert _kind(bench.ask(Metadata(topics=("t",)), sender="c2"), Send), "another connection is another matter"
    woken = bench.append(0, 1)

    kinds = [type(send.message).__name__ for send in _kind(woken, Send) if send.to == "c1"]
    assert kinds == ["FetchReply", "MetadataReply"], "in their order, up to the next fetch that is held back"
    last = _kind(bench.append(0, 20), Send)
    assert [type(send.message).__name__ for send in last if send.to == "c1"] == ["FetchReply", "MetadataReply"]
    assert _kind(bench.ask(Metadata(topics=("t",)), sender="c1"), Send)


@pytest.mark.parametrize("session", [False, True])
def test_a_fetch_whose_time_is_over_is_answered_with_what_there_is(session):
    """KIP-227: in a session the answer omits a partition without news; otherwise the partition has an empty row."""
    bench = Bench()
    rows, keys = (_from(0, 0), _from(0, 1)), {"min_bytes": 1_000}
    if session:
        began = bench.answer(_fetch(*rows, session_epoch=0, max_wait_ms=0))
        rows, keys = (), keys | {"session_id": began.session_id, "session_epoch": 1}
    (timer,) = bench.ask(_fetch(*rows, **keys))
    bench.append(1, 1)

    (send,) = bench.step(TimerFired(timer.key), after_us=500_000)

    assert _offsets(send.message) == [*([] if session else [(0, NONE, [])]), (1, NONE, [(0, 1)])]
    assert [send.to for send in _kind(bench.append(0, 20), Send)] == ["p1"]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (_from(6), ErrorCode.OFFSET_OUT_OF_RANGE),
        (_from(39, 1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (_from(0, 2), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (_from(0, 3), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (_from(0, 4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (_from(0, epoch=LEADER_EPOCH - 1), ErrorCode.FENCED_LEADER_EPOCH),
        (_from(0, epoch=LEADER_EPOCH + 1), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_partition_with_an_error_is_reported_at_once(row, error):
    """KafkaApis / KIP-320: an error never waits; t-1's log starts at 40."""
    bench = Bench(Loaded("t-1", (to_record(LoggedBatch(40, 1, 900, 4)),)))
    bench.append(0, 5)

    reply = bench.answer(_fetch(row, min_bytes=1_000_000))

    assert [(answer.partition, answer.error) for answer in reply.partitions] == [(row.partition, error)]


def test_limits_bound_each_partition_and_the_whole_but_one_record_always_comes():
    """fetch.max.bytes, max.partition.fetch.bytes; KIP-74."""
    bench = Bench()
    bench.append(0, 10)
    bench.append(1, 10)

    bounded = bench.answer(_fetch(_from(0, 0, max_bytes=3 * RECORD_BYTES), _from(0, 1), max_bytes=5 * RECORD_BYTES))
    tiny = bench.answer(_fetch(_from(4, 0), _from(0, 1), max_bytes=1))

    assert _offsets(bounded) == [(0, NONE, [(0, 3)]), (1, NONE, [(0, 2)])]
    assert _offsets(tiny) == [(0, NONE, [(4, 1)]), (1, NONE, [])]


def test_a_fetch_that_does_not_want_to_wait_is_answered_empty():
    """max_wait_ms 0, or no partitions."""
    bench = Bench()

    assert _offsets(bench.answer(_fetch(_from(0), max_wait_ms=0))) == [(0, NONE, [])]
    assert _offsets(bench.answer(_fetch())) == []


# --- leader epochs ---------------------------------------------------------------------------------------------------


def test_a_leader_tells_where_an_epoch_ended_in_its_log():
    """KIP-320, OffsetForLeaderEpoch: epoch 4 wrote 40 to 42, the current one the rest; the log starts at 40."""
    bench = Bench(Loaded("t-0", tuple(to_record(LoggedBatch(40 + n, 1, 900, 4)) for n in range(3))))
    bench.append(0, 2)
    rows = [(0, 4, -1), (0, LEADER_EPOCH, LEADER_EPOCH), (0, 3, -1), (0, LEADER_EPOCH + 1, -1), (0, 4, 4), (2, 4, -1)]

    reply = bench.answer(
        OffsetForLeaderEpoch(
            replica_id=-1,
            questions=tuple(
                EpochQuestion(topic="t", partition=number, current_leader_epoch=current, leader_epoch=epoch)
                for number, epoch, current in rows
            ),
        ),
        version=3,
    )

    assert [(answer.error_code, answer.leader_epoch, answer.end_offset) for answer in reply.answers] == [
        (NONE, 4, 43),
        (NONE, LEADER_EPOCH, 45),
        (NONE, 3, 40),
        (NONE, -1, -1),
        (ErrorCode.FENCED_LEADER_EPOCH, -1, -1),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1),
    ]


# --- offsets, faults -----------------------------------------------------------------------------------------------


def test_offsets_by_end_start_and_time():
    """ListOffsets: -1 end, -2 start, a time: the first record at or after it, -1 when there is none."""
    bench = Bench(Loaded("t-0", tuple(to_record(LoggedBatch(40 + n, 1, 900 + 10 * n, 4)) for n in range(3))))
    times = (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, 0, 905, 920, 921, -5)

    reply = bench.answer(
        ListOffsets(
            questions=(
                *(OffsetQuestion(topic="t", partition=0, timestamp_ms=time_ms) for time_ms in times),
                OffsetQuestion(topic="t", partition=2, timestamp_ms=LATEST_TIMESTAMP),
                OffsetQuestion(topic="t", partition=0, timestamp_ms=LATEST_TIMESTAMP, current_leader_epoch=4),
            )
        ),
        version=8,
    )

    assert [(answer.error, answer.timestamp_ms, answer.offset) for answer in reply.answers] == [
        (NONE, -1, 43),
        (NONE, -1, 40),
        (NONE, 900, 40),
        (NONE, 910, 41),
        (NONE, 920, 42),
        (NONE, -1, -1),
        (ErrorCode.UNSUPPORTED_VERSION, -1, -1),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1),
        (ErrorCode.FENCED_LEADER_EPOCH, -1, -1),
    ]


@pytest.mark.parametrize(
    ("message", "errors"),
    [
        (Metadata(topics=("t", "u")), lambda reply: [topic.error for topic in reply.topics]),
        (FindCoordinator(key="g"), lambda reply: [reply.error] * 2),
        (_produce(_batch(0, 1), _batch(1, 1)), lambda reply: [row.error for row in reply.batches]),
        (_fetch(_from(0), _from(0, 1)), lambda reply: [row.error for row in reply.partitions]),
        (
            ListOffsets(questions=(OffsetQuestion(topic="t", partition=0, timestamp_ms=-1),) * 2),
            lambda reply: [answer.error for answer in reply.answers],
        ),
    ],
)
def test_an_injected_error_answers_every_row_and_executes_nothing(message, errors):
    """``AnswerNext``: the request is not executed."""
    bench = Bench()
    api = type(message).__name__
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.step(Told(AnswerNext(api=api, sender="c1", nth=1, error=error)))

    effects = bench.ask(message, sender="c1", version=3 if api == "FindCoordinator" else 8)

    assert len(effects) == 2
    assert effects[0] == Note(AnswerInjected(api=api, sender="c1", error=error))
    assert errors(effects[1].message) == [error, error]


def test_a_client_that_goes_away_is_no_business_of_the_broker():
    """Its delayed fetch times out by itself."""
    bench = Bench()
    (timer,) = bench.ask(_fetch(_from(0)))

    assert bench.step(LinkDown("c1")) == []
    assert len(_kind(bench.step(TimerFired(timer.key)), Send)) == 1


def test_a_fetch_that_comes_again_is_looked_at_anew_when_the_leader_epoch_changed_while_it_was_held() -> None:
    """A Fetch of an idle session is reused without new checks. KIP-320: one with an older leader epoch is fenced.

    The epoch changes while the first one is delayed, so the fetch must not be reused after its timeout.
    """
    broker = Broker("b1", 1, BrokerConfig())
    row = FetchPartition(topic="t", partition=0, current_leader_epoch=0, fetch_offset=0, max_bytes=1_000)
    now_us = 0

    def step(event: Any) -> list[Any]:
        nonlocal now_us
        now_us += 1_000
        return list(broker.step(now_us, event))

    def asked(number: int) -> list[Any]:
        rows = () if session_id else (row,)
        return step(Received("c1", 7, number, 12, _fetch(*rows, session_id=session_id, session_epoch=number)))

    session_id = 0
    step(Told(HostPartition(topic="t", partition=0, leader_epoch=0, record_bytes=100)))
    assert asked(0) == [StartTimer(("fetch", "1"), 500_000)]
    (sent,) = step(TimerFired(("fetch", "1")))
    session_id = sent.message.session_id
    for number in (1, 2):  # the same rows are held back again and again, each time under a number of its own
        assert asked(number) == [StartTimer(("fetch", str(number + 1)), 500_000)]
        (sent,) = step(TimerFired(("fetch", str(number + 1))))
        assert (sent.request_id, sent.message) == (number, FetchReply(session_id=session_id, partitions=()))
    asked(3)

    step(Told(HostPartition(topic="t", partition=0, leader_epoch=1, record_bytes=100)))
    step(TimerFired(("fetch", "4")))

    (sent,) = asked(4)
    assert [row.error for row in sent.message.partitions] == [ErrorCode.FENCED_LEADER_EPOCH]
