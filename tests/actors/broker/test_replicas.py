"""Leaders and followers one step at a time; the test acts as controller and store.

Mirrors tests of Kafka's PartitionTest, ReplicaManagerTest and EpochDrivenReplicationProtocolAcceptanceTest. Control
requests are tested in ``test_replica_control``, replication in ``test_fetcher``.
"""

import attrs
import pytest

from kemu.actors.broker.replica import Role
from kemu.actors.broker.rules import TODAY, ReplicaRules
from kemu.actors.machine import Received
from kemu.protocol.config import BrokerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import LEADER_DURING_DELETE
from kemu.protocol.messages.data import (
    DeleteRecords,
    Fetch,
    FetchPartition,
    FetchReply,
    ListOffsets,
    OffsetQuestion,
    Produce,
    ProduceBatch,
    ProduceReply,
    RecordsToDelete,
)
from kemu.protocol.messages.local import BrokerConfigs
from kemu.protocol.messages.offsets_log import AppendGroups, AppendGroupsReply
from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.notes.replication import BecameLeader, IsrChanged, IsrChangeFailed, Truncated
from tests.actors.broker.replica_world import TOPIC, Bench

S = 1_000_000
BEFORE_3_7 = attrs.evolve(TODAY, min_isr_holds_watermark=False)


def led(count: int = 3, **how: object) -> Bench:
    """b0 leads, all replicas are in sync, the log is empty."""
    bench = Bench(count, **how)  # type: ignore[arg-type]
    bench.elect(0, tuple(range(count)))
    bench.settle(S)
    return bench


def errors(bench: Bench) -> list[ErrorCode]:
    """The errors in answers to producers."""
    return [row.error for _, reply in bench.replies if isinstance(reply, ProduceReply) for row in reply.batches]


def ends(bench: Bench) -> list[tuple[int, int]]:
    """(log end, high watermark) by broker."""
    return [
        (bench.replica(name).log.end_offset, bench.replica(name).log.high_watermark) for name in sorted(bench.brokers)
    ]


def test_followers_copy_the_leader_and_the_watermark_follows():
    """Partition.updateFollowerFetchState, Partition.maybeIncrementLeaderHW."""
    bench = led()

    bench.produce("b0", 5)
    assert errors(bench) == [], "acks=all waits for the followers"
    bench.settle(2 * S)

    assert errors(bench) == [ErrorCode.NONE]
    assert ends(bench) == [(5, 5)] * 3


def test_acks_1_waits_for_the_own_disk_and_acks_0_for_nothing():
    """acks=1 waits for the leader's own disk only if ``log.flush.interval.messages`` is 1."""
    bench = led()

    bench.produce("b0", acks=0)
    bench.produce("b0", acks=1)
    assert errors(bench) == []
    bench.write_all("b0")

    assert errors(bench) == [ErrorCode.NONE]


def test_a_batch_is_not_read_before_the_one_ahead_of_it_on_its_connection_is_replicated():
    """``SocketServer`` mutes the channel: a producer's requests in flight are appended one after the other."""
    bench = led(2)
    for number in (1, 2):
        batch = ProduceBatch(topic=TOPIC, partition=0, count=number)
        request = Produce(acks=-1, timeout_ms=60_000, batches=(batch,))
        bench.step("b0", Received("p1", 7_000, 90_000 + number, 9, request))
    assert bench.replica("b0").log.end_offset == 1
    bench.produce("b0", 5, acks=1)
    assert bench.replica("b0").log.end_offset == 6, "another connection is another matter"

    bench.settle(2 * S)

    assert errors(bench) == [ErrorCode.NONE] * 3
    assert ends(bench) == [(8, 8)] * 2


def test_a_batch_without_acks_holds_nothing_up():
    """acks=0: there is no answer to wait for (``SocketServer``: a ``NoOpResponse`` unmutes at once)."""
    bench = led(2)
    for number, acks in enumerate((0, 0, -1)):
        request = Produce(acks=acks, timeout_ms=60_000, batches=(ProduceBatch(topic=TOPIC, partition=0, count=1),))
        bench.step("b0", Received("p1", 7_000, 90_000 + number, 9, request))

    assert bench.replica("b0").log.end_offset == 3


def test_too_few_in_sync_replicas_refuse_acks_all_only():
    """NOT_ENOUGH_REPLICAS, nothing is appended; acks 1 ignores min.insync.replicas."""
    bench = led(min_in_sync=2)
    bench.elect(0, (0,))

    bench.produce("b0", acks=-1)
    bench.produce("b0", acks=1)
    bench.write_all()

    assert errors(bench) == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE]
    assert bench.replica("b0").log.end_offset == 1


def test_min_insync_replicas_is_the_one_that_was_told_last():
    """KIP-226: a topic's own setting, else that of all brokers, else that of the start configuration."""
    bench = led(2, min_in_sync=1, rules=BEFORE_3_7)

    def outcome(*told: BrokerConfigs) -> list[ErrorCode]:
        bench.replies.clear()
        for settings in told:
            bench.ask("b0", settings, 0)
        bench.produce("b0", acks=-1)
        bench.settle()
        return errors(bench)

    key = "min.insync.replicas"
    assert outcome(BrokerConfigs(topic="", settings=((key, "3"),))) == [ErrorCode.NONE], "the topic has its own"
    assert outcome(BrokerConfigs(topic="t", settings=((key, "3"),))) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert outcome(BrokerConfigs(topic="t", settings=((key, "2"),))) == [ErrorCode.NONE]
    assert outcome(BrokerConfigs(topic="t", settings=())) == [ErrorCode.NOT_ENOUGH_REPLICAS], "all brokers' counts"
    assert outcome(BrokerConfigs(topic="", settings=())) == [ErrorCode.NONE], "the one it started with"


def flushing(**given: int) -> BrokerConfig:
    """Kafka's defaults, except for these."""
    return BrokerConfig(**{f"log_flush_{key}": value for key, value in given.items()})  # type: ignore[arg-type]


def test_as_kafka_comes_what_is_written_counts_and_nothing_is_ever_flushed():
    """Kafka 2.8: log.flush.interval.messages and log.flush.scheduler.interval.ms are Long.MaxValue."""
    bench = led(flushes=BrokerConfig())
    bench.produce("b0", acks=1)
    assert errors(bench) == [ErrorCode.NONE]
    bench.produce("b0", 5, acks=-1)
    for _ in range(3):
        bench.settle(40 * S)

    assert errors(bench) == [ErrorCode.NONE] * 2
    assert ends(bench) == [(6, 6)] * 3
    assert not [log for _, log, _, _ in bench.writes if log != "high-watermarks"]
    assert bench.flushed == []


def test_the_append_with_which_enough_records_stand_unflushed_waits_for_its_flush():
    """Log.append: ``if (unflushedMessages >= config.flushInterval) flush()``, before it returns."""
    bench = led(1, flushes=flushing(interval_messages=4))
    bench.produce("b0", 3, acks=1)
    assert errors(bench) == [ErrorCode.NONE]

    bench.produce("b0", 1, acks=1)
    bench.produce("b0", 1, acks=1)
    assert errors(bench) == [ErrorCode.NONE], "what comes after it waits, too"
    bench.write_all()
    bench.produce("b0", 3, acks=1)

    assert errors(bench) == [ErrorCode.NONE] * 4


def test_the_flush_scheduler_flushes_logs_that_were_not_flushed_for_the_interval():
    """LogManager: InitialTaskDelayMs 30 s, then each log.flush.scheduler.interval.ms; LogManager.flushDirtyLogs."""
    bench = led(1, flushes=flushing(interval_ms=12_000, scheduler_interval_ms=5_000))
    began_us = bench.now_us - S
    for _ in range(10):
        bench.produce("b0", acks=1)
        bench.settle(5 * S)

    assert [(at - began_us) // S for _, _, at in bench.flushed] == [30, 45]


def test_without_a_scheduler_log_flush_interval_ms_counts_at_one_look():
    """log.flush.scheduler.interval.ms is Long.MaxValue by default: one check, 30 s after the start."""
    bench = led(1, flushes=flushing(interval_ms=5_000))
    began_us = bench.now_us - S
    for _ in range(12):
        bench.produce("b0", acks=1)
        bench.settle(10 * S)

    assert [(at - began_us) // S for _, _, at in bench.flushed] == [30]


def test_log_flush_interval_messages_can_be_changed_while_a_broker_runs():
    """KIP-226: from then on an append is flushed before it counts, or is not."""
    bench = led(1, flushes=BrokerConfig())
    bench.produce("b0", acks=1)
    assert errors(bench) == [ErrorCode.NONE]

    bench.ask("b0", BrokerConfigs(topic="", settings=(("log.flush.interval.messages", "1"),)), 0)
    bench.produce("b0", acks=1)
    assert errors(bench) == [ErrorCode.NONE]
    bench.write_all()
    assert errors(bench) == [ErrorCode.NONE] * 2
    bench.ask("b0", BrokerConfigs(topic="", settings=()), 0)
    bench.produce("b0", acks=1)

    assert errors(bench) == [ErrorCode.NONE] * 3


def test_an_isr_that_shrinks_below_the_minimum_after_the_append_says_so():
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND: the record stays, and may be committed later."""
    bench = led(min_in_sync=2, rules=BEFORE_3_7)
    bench.produce("b0")
    bench.write_all("b0")
    bench.elect(0, (0,), to=(0,))
    bench.pass_time(11 * S)  # those who were in sync a moment ago still hold the watermark back

    assert errors(bench) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert bench.replica("b0").log.end_offset == 1


@pytest.mark.parametrize(("rules", "watermark"), [(BEFORE_3_7, 1), (TODAY, 0)])
def test_since_3_7_the_watermark_stands_while_the_isr_is_too_small(rules: ReplicaRules, watermark: int) -> None:
    """KAFKA-15583, Partition.maybeIncrementLeaderHW: not increasing while under min ISR, whatever the acks."""
    bench = led(min_in_sync=2, rules=rules)
    bench.elect(0, (0,), to=(0,))
    bench.produce("b0", acks=1)
    bench.write_all("b0")
    bench.pass_time(11 * S)

    assert errors(bench) == [ErrorCode.NONE]
    assert ends(bench)[0] == (1, watermark)

    bench.elect(0, (0, 1, 2))
    bench.settle(2 * S)
    assert ends(bench) == [(1, 1)] * 3


def test_no_more_replicas_are_asked_for_than_there_are() -> None:
    """KAFKA-15583, Partition.effectiveMinIsr: at most as many as replicas; before, such a topic took no acks=all."""
    bench, before = led(2, min_in_sync=3), led(2, min_in_sync=3, rules=BEFORE_3_7)
    for each in (bench, before):
        each.produce("b0")
        each.settle(2 * S)

    assert errors(bench) == [ErrorCode.NONE]
    assert errors(before) == [ErrorCode.NOT_ENOUGH_REPLICAS]


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_coordinator_that_waits_itself_is_asked_for_no_minimum_and_never_timed(acks: int) -> None:
    """CoordinatorPartitionWriter.append (acks=1) and HighWatermarkListener, unlike storeGroup's acks=-1."""
    bench = led(min_in_sync=2, topic=OFFSETS_TOPIC)
    bench.elect(0, (0,), to=(0,))
    request = AppendGroups(partition=0, leader_epoch=bench.epoch, records=((b"k", b"v"),), required_acks=acks)
    told: list[AppendGroupsReply] = []

    def asked(seconds: int) -> list[ErrorCode]:
        bench.pass_time(seconds * S)
        told.extend(reply for _, reply in bench.replies if isinstance(reply, AppendGroupsReply))
        bench.replies.clear()
        return [reply.error for reply in told]

    bench.ask("b0", request, 1, sender="b0/coordinator")
    bench.write_all("b0")
    assert asked(11) == ([ErrorCode.NOT_ENOUGH_REPLICAS] if acks == -1 else [])
    assert bench.replica("b0").log.end_offset == (0 if acks == -1 else 1)

    bench.elect(0, (0, 1, 2))
    bench.settle(2 * S)
    assert asked(0)[-1] is (ErrorCode.NOT_ENOUGH_REPLICAS if acks == -1 else ErrorCode.NONE)


def test_a_deposed_leader_fails_what_waits_and_refuses_more():
    """ReplicaManagerTest.testClearPurgatoryOnBecomingFollower."""
    bench = led()
    bench.produce("b0")
    bench.elect(1, (0, 1, 2))
    bench.produce("b0")

    assert errors(bench) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert bench.replica("b0").role is Role.FOLLOWER


@pytest.mark.parametrize("version", [15, 16])
def test_an_error_of_a_fetch_names_the_leader_since_3_7(version: int):
    """KafkaApis.getCurrentLeader (3.7): what the replica knows. KIP-951."""
    bench = led()
    bench.elect(1, (0, 1, 2))
    row = FetchPartition(topic="t", partition=0, fetch_offset=0, current_leader_epoch=0)
    named = []
    for broker in ("b0", "b1"):
        reply = bench.ask(broker, Fetch(max_wait_ms=0, min_bytes=1, partitions=(row,)), version, sender="c1")
        (answer,) = reply.partitions
        named += [(answer.error, leader.leader_id, leader.leader_epoch) for leader in reply.new_leaders]

    errors = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    assert named == ([] if version < 16 else [(error, 1, bench.epoch) for error in errors])


def test_a_leader_that_becomes_a_follower_names_the_new_leader_to_a_fetch_that_waits():
    """ReplicaManager.makeFollowers: waiting requests are answered after Partition.makeFollower."""
    bench = led()
    row = FetchPartition(topic="t", partition=0, fetch_offset=0)
    assert bench.ask("b0", Fetch(max_wait_ms=30_000, min_bytes=1, partitions=(row,)), 16, sender="c1") is None
    bench.elect(1, (0, 1, 2))

    (reply,) = [reply for _, reply in bench.replies if isinstance(reply, FetchReply)]
    assert [(leader.leader_id, leader.leader_epoch) for leader in reply.new_leaders] == [(1, bench.epoch)]


@pytest.mark.parametrize("version", [9, 10])
def test_an_error_of_a_produce_names_the_leader_since_3_7(version: int):
    bench = led()
    bench.elect(1, (0, 1, 2))
    batch = ProduceBatch(topic="t", partition=0, count=1)
    bench.ask("b0", Produce(acks=1, timeout_ms=1_000, batches=(batch,)), version)
    (reply,) = [reply for _, reply in bench.replies if isinstance(reply, ProduceReply)]

    assert [row.error for row in reply.batches] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    named = [(leader.leader_id, leader.leader_epoch) for leader in reply.new_leaders]
    assert named == ([] if version < 10 else [(1, bench.epoch)])


@pytest.mark.parametrize("delete", [False, True])
def test_a_stopped_leader_answers_everybody_who_waits(delete: bool):
    """ReplicaManagerTest.testClearProducePurgatoryOnStopReplica, testClearFetchPurgatoryOnStopReplica."""
    bench = led()
    bench.produce("b0")
    row = FetchPartition(topic="t", partition=0, fetch_offset=0)
    parked = bench.ask("b0", Fetch(max_wait_ms=30_000, min_bytes=1, partitions=(row,)), 11, sender="c1")
    assert errors(bench) == [] and parked is None

    bench.stop("b0", bench.epoch + 1, delete=delete)

    assert errors(bench) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    (fetched,) = [reply for _, reply in bench.replies if isinstance(reply, FetchReply)]
    assert [one.error for one in fetched.partitions] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_stuck_follower_leaves_the_isr_and_joins_again():
    """IsrExpirationTest; PartitionTest.testIsrExpansion; the store's version rises with each change."""
    bench = led()
    bench.crash("b2")
    bench.produce("b0")
    bench.settle(16 * S)
    assert bench.isr == (0, 1)
    assert errors(bench) == [ErrorCode.NONE]

    bench.start("b2")
    bench.tell_state("b2")
    bench.settle(2 * S)

    assert bench.isr == (0, 1, 2)
    assert [fact.why for _, fact in bench.notes if isinstance(fact, IsrChanged)] == ["shrink", "expand"]
    assert ends(bench) == [(1, 1)] * 3


def test_a_replica_joins_only_when_the_store_says_so():
    """PartitionTest.testIsrNotExpandedIfUpdateFails: another writer changed the state; its LeaderAndIsr will come."""
    bench = led()
    bench.elect(0, (0, 1))
    bench.version += 1
    bench.settle(2 * S)

    assert bench.replica("b0").in_sync.members == (0, 1)
    assert any(isinstance(fact, IsrChangeFailed) and fact.isr == (0, 1, 2) for _, fact in bench.notes)

    bench.tell_state("b0", leader_epoch=bench.epoch + 1)
    bench.tell_state("b2", leader_epoch=bench.epoch + 1)
    bench.settle(2 * S)
    assert bench.replica("b0").in_sync.members == bench.isr == (0, 1, 2)


def test_a_broker_that_shuts_down_does_not_come_back_into_the_isr():
    """ControllerIntegrationTest.testShutdownBrokerNotAddedToIsr: the replica is stopped, and its last fetch is
    fenced.
    """
    bench = led()
    bench.produce("b0", 1)
    for _ in range(5):  # b2's next fetch, from the log's end, is on its way
        bench.deliver("b0", "b2")
        bench.write_all()
    assert bench.mail["b2", "b0"]
    bench.stop("b2", bench.epoch)
    bench.elect(0, (0, 1), to=(0, 1))
    bench.settle(3 * S)

    assert bench.isr == bench.replica("b0").in_sync.members == (0, 1)
    assert ends(bench)[:2] == [(1, 1)] * 2, "nobody waits for it"


def test_an_isr_write_that_the_store_refuses_changes_nothing():
    """PartitionTest.testIsrNotShrunkIfUpdateFails."""
    bench = led()
    bench.crash("b2")
    bench.produce("b0")
    bench.version += 1
    bench.settle(16 * S)

    assert bench.replica("b0").in_sync.members == (0, 1, 2)
    assert any(isinstance(fact, IsrChangeFailed) for _, fact in bench.notes)
    assert errors(bench) == []


def test_one_isr_change_is_under_way_at_a_time_and_both_outcomes_are_safe():
    """PartitionTest.testSingleInFlightAlterIsr; the maximal ISR."""
    bench = led()
    bench.auto_store = False
    bench.crash("b2")
    bench.produce("b0")
    bench.settle(18 * S)

    assert len(bench.held) == 1
    assert bench.replica("b0").in_sync.proposed == (0, 1)
    assert errors(bench) == [], "b2 may still be in the ISR"
    bench.carry_out(*bench.held.pop())
    assert errors(bench) == [ErrorCode.NONE]


def test_consumers_are_answered_below_the_watermark_by_the_leader_only():
    """An offset between watermark and end is valid, and returns no records."""
    bench = led()
    bench.produce("b0", 3)
    bench.write_all()

    def fetch(name: str, offset: int) -> ErrorCode:
        row = FetchPartition(topic="t", partition=0, fetch_offset=offset)
        reply = bench.ask(name, Fetch(max_wait_ms=0, min_bytes=1, partitions=(row,)), 11, sender="c1")
        assert all(not one.batches for one in reply.partitions)
        return reply.partitions[0].error if reply.partitions else ErrorCode.NONE

    assert fetch("b0", 2) is ErrorCode.NONE
    assert fetch("b0", 4) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch("b1", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    question = OffsetQuestion(topic="t", partition=0, timestamp_ms=-1)
    assert bench.ask("b0", ListOffsets(questions=(question,)), 5, sender="c1").answers[0].offset == 0


def test_a_leader_serves_clients_while_its_metadata_cache_has_the_partition():
    """``metadataCache.contains`` in ``KafkaApis.handleProduceRequest``, ``handleFetchRequest``,
    ``handleDeleteRecordsRequest``.

    A leader without a StopReplica refuses them once its topic is being deleted.
    """
    bench = led()
    bench.produce("b0", 3)
    bench.settle()
    row = FetchPartition(topic="t", partition=0, fetch_offset=0)
    fetch = Fetch(max_wait_ms=0, min_bytes=1, partitions=(row,))
    delete = DeleteRecords(partitions=(RecordsToDelete(topic="t", partition=0, offset=1),), timeout_ms=1)

    bench.tell_brokers(leader=LEADER_DURING_DELETE)
    bench.produce("b0", 3)
    said = [errors(bench)[-1]]
    said += [one.error for one in bench.ask("b0", fetch, 11, sender="c1").partitions]
    said += [one.error for one in bench.ask("b0", delete, 2, sender="admin").partitions]
    assert (said, bench.replica("b0").role) == ([ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3, Role.LEADER)
    question = OffsetQuestion(topic="t", partition=0, timestamp_ms=-1)
    assert bench.ask("b0", ListOffsets(questions=(question,)), 5, sender="c1").answers[0].offset == 3

    bench.tell_brokers()
    bench.produce("b0", 3)
    bench.settle()
    assert bench.replica("b0").log.high_watermark == 6
    assert [one.error for one in bench.ask("b0", fetch, 11, sender="c1").partitions] == [ErrorCode.NONE]


def test_a_returning_leader_cuts_what_nobody_else_has():
    """EpochDrivenReplicationProtocolAcceptanceTest.shouldFollowLeaderEpochBasicWorkflow; KIP-101."""
    bench = led()
    bench.produce("b0", 2)
    bench.settle(2 * S)
    bench.produce("b0", 3, acks=1)
    bench.crash("b0")
    bench.tell_brokers()
    bench.elect(1, (1, 2))
    bench.produce("b1", 1)
    bench.settle(2 * S)

    bench.start("b0")
    bench.tell_state("b0")
    bench.settle(3 * S)

    assert ends(bench) == [(3, 3)] * 3
    (cut,) = [fact for name, fact in bench.notes if isinstance(fact, Truncated) and name == "b0"]
    assert (cut.old_end_offset, cut.end_offset, cut.why) == (5, 2, "leader-epoch")


def test_offsets_do_not_go_backwards_when_a_follower_bounces_and_then_leads():
    """EpochDriven...AcceptanceTest.offsetsShouldNotGoBackwards; KAFKA-1211 is that bug with truncation by watermark."""
    bench = led()
    bench.produce("b0", 4)
    for _ in range(6):  # b1 and b2 have the records, and do not know yet that all have them
        for pair in list(bench.mail):
            bench.deliver(*pair)
        bench.write_all()
    bench.crash("b1")
    bench.start("b1")
    bench.crash("b0")
    bench.tell_brokers()
    bench.elect(1, (1, 2))
    bench.settle(2 * S)

    assert bench.replica("b1").log.end_offset == 4
    assert ends(bench) == [(4, 4)] * 2


def test_a_restart_finds_its_log_and_its_checkpoint():
    """The watermark is the checkpoint's, at most 5 s old."""
    bench = led()
    bench.produce("b0", 4)
    bench.settle(6 * S)
    bench.produce("b0", 2)
    bench.settle(S)
    bench.crash("b2")
    bench.start("b2")

    log = bench.replica("b2").log
    assert (log.end_offset, log.high_watermark) == (6, 4)
    assert bench.replica("b2").role is Role.IDLE


def test_a_restart_does_not_find_an_epoch_that_was_forgotten():
    """A follower that truncates removes its epochs without records, from the disk, too (``truncateFromEnd`` flushes).

    Otherwise the older record that it copies next would replace all older epochs when the disk is read. Found by the
    preset unclean-election, seed 9, with 6 random faults.
    """
    bench = led(2)
    bench.produce("b0", 4)
    bench.settle(S)
    bench.produce("b0", acks=1)
    bench.elect(1, (0, 1), to=(1,))
    assert bench.replica("b1").log.epochs.entries == ((0, 0), (1, 4))
    bench.elect(0, (0, 1))
    bench.settle(2 * S)
    bench.produce("b0")
    bench.settle(2 * S)
    assert bench.replica("b1").log.epochs.entries == ((0, 0), (2, 5))

    bench.crash("b1")
    bench.start("b1")

    assert bench.replica("b1").log.epochs.entries == ((0, 0), (2, 5))
    assert bench.replica("b1").log.end_offset == 6


@pytest.mark.parametrize(
    ("version", "error"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_a_new_leader_tells_no_latest_offset_below_what_its_predecessor_told(version: int, error: ErrorCode):
    """PartitionTest.testMonotonicOffsetsAfterLeaderChange; KIP-207: until its watermark passes its epoch's start."""

    def latest(name: str, timestamp_ms: int = -1, replica_id: int = -1) -> tuple[ErrorCode, int]:
        question = OffsetQuestion(topic="t", partition=0, timestamp_ms=timestamp_ms)
        request = ListOffsets(replica_id=replica_id, questions=(question,))
        (answer,) = bench.ask(name, request, version, sender="c1").answers
        return answer.error, answer.offset

    bench = led()
    bench.produce("b0", 4)
    while bench.replica("b0").log.high_watermark < 4:  # the followers have it all, and know nothing of that yet
        for name in ("b1", "b2"):
            if bench.replica(name).log.end_offset < 4 or bench.mail.get((name, "b0")):
                bench.deliver("b0", name) if bench.replica(name).log.end_offset < 4 else None
                bench.deliver(name, "b0")
        bench.write_all()
    assert latest("b0") == (ErrorCode.NONE, 4)
    time_ms = bench.now_us // 1_000

    bench.elect(1, (0, 1, 2))
    assert bench.replica("b1").log.high_watermark == 0
    assert latest("b1") == (error, -1)
    assert latest("b1", timestamp_ms=time_ms - 10) == (error, -1), "there is one, above the watermark"
    assert latest("b1", timestamp_ms=-2) == (ErrorCode.NONE, 0), "the earliest is what it is"
    assert latest("b1", replica_id=2) == (ErrorCode.NONE, 4), "followers ask for the log's end"

    bench.settle(2 * S)
    assert latest("b1") == (ErrorCode.NONE, 4)
    assert latest("b1", timestamp_ms=time_ms + 60_000) == (ErrorCode.NONE, -1)


def test_a_new_leader_begins_with_its_own_watermark_and_never_lowers_it():
    """PartitionTest.testMonotonicOffsetsAfterLeaderChange, second half."""
    bench = led()
    bench.produce("b0", 4)
    bench.settle(2 * S)
    bench.elect(1, (0, 1, 2))
    noted = [fact for name, fact in bench.notes if isinstance(fact, BecameLeader) and name == "b1"]
    assert noted[-1].high_watermark == 4

    bench.settle(2 * S)
    assert ends(bench) == [(4, 4)] * 3


def test_a_producer_is_told_when_not_enough_replicas_had_its_records_in_time():
    """DelayedProduce.onExpiration: REQUEST_TIMED_OUT; the records stay in the log and may be committed later."""
    bench = Bench(lag_ms=200_000)
    bench.elect(0, (0, 1, 2))
    bench.settle(S)
    bench.crash("b2")
    bench.produce("b0", 3)
    bench.settle(59 * S)
    assert errors(bench) == []
    bench.settle(2 * S)

    assert errors(bench) == [ErrorCode.REQUEST_TIMED_OUT]
    assert bench.replica("b0").log.end_offset == 3
    assert bench.replica("b0").acks == []


def test_a_high_watermark_that_waited_for_a_replica_rises_with_the_next_append_and_not_with_time():
    """Partition.maybeIncrementLeaderHW: called on a new leadership, when a log grows, when an ISR has changed.

    It is not called by maybeShrinkIsr's check while no replica leaves the ISR (3.4.1).
    """
    bench = led()
    bench.crash("b2")
    bench.elect(0, (0, 1))
    waits_for = bench.replica("b0").followers[2]
    waits_for.end_offset, waits_for.caught_up_us = 0, bench.now_us  # it was in sync a moment ago, and is in no ISR
    bench.produce("b0")
    bench.settle(30 * S)
    assert ends(bench)[0] == (1, 0)
    assert errors(bench) == []

    bench.produce("b0")
    bench.settle(S)
    assert ends(bench)[0] == (2, 2)
    assert errors(bench) == [ErrorCode.NONE, ErrorCode.NONE]
