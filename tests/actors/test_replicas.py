"""Leaders and followers one step at a time, with the test as controller and store.

Mirrors tests of Kafka's PartitionTest, ReplicaManagerTest, AbstractFetcherThreadTest, BrokerEpochIntegrationTest and
EpochDrivenReplicationProtocolAcceptanceTest (spec section 5).
"""

import pytest
from attrs import evolve

from actors.replica import Role
from actors.replica_rules import TODAY, StopEpoch
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchPartition, ListOffsets, OffsetQuestion, ProduceReply
from protocol.notes import BecameLeader, IsrChanged, IsrChangeFailed, Truncated
from tests.actors.replica_world import AT, BROKER_EPOCH, Bench

S = 1_000_000


def led(count: int = 3, **how: object) -> Bench:
    """b0 leads, everybody is in sync, nothing is written."""
    bench = Bench(count, **how)  # type: ignore[arg-type]
    bench.elect(0, tuple(range(count)))
    bench.settle(S)
    return bench


def errors(bench: Bench) -> list[ErrorCode]:
    """What producers were answered."""
    return [row.error for _, reply in bench.replies if isinstance(reply, ProduceReply) for row in reply.batches]


def ends(bench: Bench) -> list[tuple[int, int]]:
    """(log end, high watermark) by broker."""
    return [
        (bench.replica(name).log.end_offset, bench.replica(name).log.high_watermark) for name in sorted(bench.brokers)
    ]


def test_followers_copy_the_leader_and_the_watermark_follows():
    """Spec 2.2, 2.3."""
    bench = led()

    bench.produce("b0", 5)
    assert errors(bench) == [], "acks=all waits for the followers"
    bench.settle(2 * S)

    assert errors(bench) == [ErrorCode.NONE]
    assert ends(bench) == [(5, 5)] * 3


def test_acks_1_waits_for_the_own_disk_and_acks_0_for_nothing():
    """Spec 2.2; ``log.flush.interval.ms`` 0."""
    bench = led()

    bench.produce("b0", acks=0)
    bench.produce("b0", acks=1)
    assert errors(bench) == []
    bench.write_all("b0")

    assert errors(bench) == [ErrorCode.NONE]


def test_too_few_in_sync_replicas_refuse_acks_all_only():
    """Spec 2.2: NOT_ENOUGH_REPLICAS, nothing appended; acks 1 ignores min.insync.replicas."""
    bench = led(min_in_sync=2)
    bench.elect(0, (0,))

    bench.produce("b0", acks=-1)
    bench.produce("b0", acks=1)
    bench.write_all()

    assert errors(bench) == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE]
    assert bench.replica("b0").log.end_offset == 1


def test_an_isr_that_shrinks_below_the_minimum_after_the_append_says_so():
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND: the record stays, and may count."""
    bench = led(min_in_sync=2)
    bench.produce("b0")
    bench.write_all("b0")
    bench.elect(0, (0,), to=(0,))
    bench.pass_time(11 * S)  # those who were in sync a moment ago still hold the watermark back

    assert errors(bench) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert bench.replica("b0").log.end_offset == 1


def test_a_deposed_leader_fails_what_waits_and_refuses_more():
    """ReplicaManagerTest.testClearProducePurgatoryOnStopReplica, ...OnBecomeFollower."""
    bench = led()
    bench.produce("b0")
    bench.elect(1, (0, 1, 2))
    bench.produce("b0")

    assert errors(bench) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert bench.replica("b0").role is Role.FOLLOWER


def test_equal_and_older_leader_epochs_are_ignored():
    """Spec 2.1: STALE_CONTROLLER_EPOCH for the partition, harmless."""
    bench = led()
    bench.elect(0, (0, 1, 2))

    for epoch in (bench.epoch, bench.epoch - 1):
        reply = bench.tell_state("b0", leader=1, leader_epoch=epoch)
        assert [row.error_code for row in reply.partition_errors] == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert bench.replica("b0").role is Role.LEADER


def test_a_broker_that_is_no_replica_does_nothing():
    """Spec 2.1."""
    bench = Bench(2)
    reply = bench.tell_state("b1", leader=0, leader_epoch=3, replicas=(0, 2))

    assert [row.error_code for row in reply.partition_errors] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert AT not in bench.brokers["b1"].replicas


def test_a_follower_of_a_leader_it_does_not_see_alive_keeps_its_role():
    """Spec 2.1; KAFKA-4443: the metadata must come first."""
    bench = led()
    bench.crash("b2")
    bench.tell_brokers()
    bench.elect(2, (0, 1, 2), to=(1,))

    assert bench.replica("b1").leader == 0
    assert bench.replica("b1").leader_epoch == bench.epoch - 1


@pytest.mark.parametrize(
    ("broker_epoch", "error"),
    [
        pytest.param(BROKER_EPOCH, ErrorCode.STALE_BROKER_EPOCH, id="stale"),
        pytest.param(BROKER_EPOCH + 1, ErrorCode.NONE, id="correct"),
        pytest.param(BROKER_EPOCH + 2, ErrorCode.NONE, id="newer"),
        pytest.param(-1, ErrorCode.NONE, id="none"),
    ],
)
def test_control_requests_for_an_earlier_life_are_refused(broker_epoch, error):
    """BrokerEpochIntegrationTest: testControlRequestWith{Correct,Stale,Newer}BrokerEpoch; KIP-380."""
    bench = led()

    reply = bench.tell_state("b0", leader=1, leader_epoch=9, broker_epoch=broker_epoch)

    assert reply.error_code is error
    assert (bench.replica("b0").leader_epoch == 9) is (error is ErrorCode.NONE)


def test_requests_of_an_older_controller_are_refused_and_those_of_an_equal_one_are_not():
    """LeaderElectionTest.testLeaderElectionWithStaleControllerEpoch."""
    bench = led()
    bench.tell_brokers(controller_epoch=3)

    assert bench.tell_state("b0", leader=1, leader_epoch=9, controller_epoch=2).error_code is (
        ErrorCode.STALE_CONTROLLER_EPOCH
    )
    assert bench.tell_state("b0", leader=1, leader_epoch=9, controller_epoch=3).error_code is ErrorCode.NONE


@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        pytest.param(6, ErrorCode.NONE, id="newer"),
        pytest.param(4, ErrorCode.FENCED_LEADER_EPOCH, id="older"),
        pytest.param(5, ErrorCode.NONE, id="equal"),
        pytest.param(-1, ErrorCode.NONE, id="without an epoch"),
        pytest.param(-2, ErrorCode.NONE, id="deletion"),
    ],
)
def test_stop_replica_by_leader_epoch(epoch, error, delete):
    """ReplicaManagerTest.testStopReplicaWith...: newer, older, equal (KAFKA-13972), -1, -2; with and without delete."""
    bench = Bench()
    bench.epoch = 4
    bench.elect(0, (0, 1, 2))
    bench.settle(S)

    (row,) = bench.stop("b1", epoch, delete=delete).partition_errors

    assert row.error_code is error
    stopped = error is ErrorCode.NONE
    assert (AT in bench.brokers["b1"].replicas) is not (stopped and delete)
    assert bench.brokers["b1"].fetchers.is_copied(AT) is not stopped


def test_stop_replica_of_the_past_and_of_what_is_not_there():
    """KIP-570, KAFKA-13972 off; ReplicaManagerTest.testStopReplicaWithInexistentPartition."""
    strict = Bench(rules=evolve(TODAY, stop_epoch=StopEpoch.HIGHER))
    strict.elect(0, (0, 1, 2))
    (row,) = strict.stop("b1", strict.epoch).partition_errors
    assert row.error_code is ErrorCode.FENCED_LEADER_EPOCH
    (row,) = Bench().stop("b1", 3, delete=True).partition_errors
    assert row.error_code is ErrorCode.NONE
    (stale,) = (Bench() for _ in range(1))
    stale.tell_brokers(controller_epoch=5)
    assert stale.stop("b1", 3, controller_epoch=4).error_code is ErrorCode.STALE_CONTROLLER_EPOCH


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


def test_an_isr_write_that_the_store_refuses_changes_nothing():
    """PartitionTest.testIsrNotExpandedIfUpdateFails: somebody else wrote; its LeaderAndIsr will come."""
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
    """Spec 2.2: an offset between watermark and end is no error, and brings nothing."""
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
    """EpochDriven...AcceptanceTest.offsetsShouldNotGoBackwards; KAFKA-1211: with truncation by watermark they do."""
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
    """Spec 2.2: the watermark is the checkpoint's, at most 5 s old."""
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


def test_a_new_leader_begins_with_its_own_watermark_and_never_lowers_it():
    """PartitionTest.testMonotonicOffsetsAfterLeaderChange."""
    bench = led()
    bench.produce("b0", 4)
    bench.settle(2 * S)
    bench.elect(1, (0, 1, 2))
    noted = [fact for name, fact in bench.notes if isinstance(fact, BecameLeader) and name == "b1"]
    assert noted[-1].high_watermark == 4

    bench.settle(2 * S)
    assert ends(bench) == [(4, 4)] * 3
