"""Fences of a broker: epochs of controllers, brokers and leaders in LeaderAndIsr, StopReplica and UpdateMetadata.

Mirrors Kafka's BrokerEpochIntegrationTest, LeaderElectionTest and the StopReplica tests of ReplicaManagerTest.
"""

import pytest
from attrs import evolve

from kemu.actors.broker.replica import Role
from kemu.actors.broker.rules import TODAY, StopEpoch
from kemu.actors.machine import Appended
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    LeaderAndIsr,
    LeaderAndIsrReply,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataReply,
)
from kemu.protocol.notes.replication import LogOfAnotherTopic
from tests.actors.broker.replica_world import AT, BROKER_EPOCH, Bench

S = 1_000_000


def led() -> Bench:
    """b0 leads, all replicas are in sync, the log is empty."""
    bench = Bench()
    bench.elect(0, (0, 1, 2))
    bench.settle(S)
    return bench


def test_equal_and_older_leader_epochs_are_ignored():
    """ReplicaManager.becomeLeaderOrFollower: STALE_CONTROLLER_EPOCH for the partition, without effect."""
    bench = led()
    bench.elect(0, (0, 1, 2))

    for epoch in (bench.epoch, bench.epoch - 1):
        reply = bench.tell_state("b0", leader=1, leader_epoch=epoch)
        assert [row.error_code for row in reply.partition_errors] == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert bench.replica("b0").role is Role.LEADER


class SlowLeaders:
    """Draws of 50 ms for each partition that a broker begins to lead."""

    def us(self, name: DrawName, calm_us: int, of_us: int = 0, at_us: int = -1) -> int:
        return 50_000 if name is DrawName.LEADER_CHANGE else calm_us


def test_a_new_leader_leads_and_answers_after_its_time_and_later_requests_wait():
    """ReplicaManager.becomeLeaderOrFollower holds replicaStateChangeLock, while other brokers tell of the leader."""
    bench = led()
    bench.brokers["b1"]._control._draws = SlowLeaders()
    bench.elect(1, (0, 1, 2), to=(0, 2))

    assert bench.tell_state("b1") is None
    bench.tell_brokers()
    bench.pass_time(49_999)
    assert bench.replica("b1").role is Role.FOLLOWER
    before = len(bench.replies)
    bench.pass_time(1)
    assert bench.replica("b1").role is Role.LEADER
    assert [(to, type(reply)) for to, reply in bench.replies[before:]] == [
        ("b1", LeaderAndIsrReply),
        ("b1", UpdateMetadataReply),
    ]

    bench.elect(0, (0, 1, 2), to=())
    assert bench.tell_state("b1") is not None, "a follower takes no such time"


def test_a_broker_that_is_no_replica_does_nothing():
    """ReplicaManager.becomeLeaderOrFollower: UNKNOWN_TOPIC_OR_PARTITION."""
    bench = Bench(2)
    reply = bench.tell_state("b1", leader=0, leader_epoch=3, replicas=(0, 2))

    assert [row.error_code for row in reply.partition_errors] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert AT not in bench.brokers["b1"].manager.replicas


def test_a_follower_of_a_leader_it_does_not_see_alive_keeps_its_role():
    """KAFKA-4443: the metadata must come first."""
    bench = led()
    bench.crash("b2")
    bench.tell_brokers()
    bench.elect(2, (0, 1, 2), to=(1,))

    assert bench.replica("b1").leader == 0
    assert bench.replica("b1").leader_epoch == bench.epoch - 1


def test_a_log_of_another_topic_of_that_name_keeps_its_broker_out():
    """KIP-516: INCONSISTENT_TOPIC_ID; the log keeps its topic id over a restart, until it is deleted."""
    bench = Bench()
    bench.elect(0, (0, 1, 2), to=())
    first = bench.tell_state("b0", topic_id="7")
    again = bench.tell_state("b0", topic_id="8", leader_epoch=9)
    bench.settle(S)
    bench.crash("b0")
    bench.start("b0")
    after = bench.tell_state("b0", topic_id="8", leader_epoch=9)
    notes = [note for name, note in bench.notes if name == "b0" and isinstance(note, LogOfAnotherTopic)]

    errors = [row.error_code for reply in (first, again, after) for row in reply.partition_errors]
    assert errors == [ErrorCode.NONE, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID]
    assert notes == [LogOfAnotherTopic(topic="t", partition=0, topic_id="8", topic_id_of_log="7")] * 2
    assert bench.replica("b0").role is Role.IDLE


@pytest.mark.parametrize("topic_ids", [("", "8"), ("7", "")], ids=["of no topic yet", "a controller that knows none"])
def test_without_topic_ids_on_both_sides_a_log_left_over_is_taken_for_the_new_topics(topic_ids):
    """Before inter.broker.protocol.version 2.8 LeaderAndIsr has no topic ids."""
    bench = Bench()
    bench.elect(0, (0, 1, 2), to=())
    replies = [bench.tell_state("b0", topic_id=each, leader_epoch=epoch) for epoch, each in enumerate(topic_ids)]

    assert [row.error_code for reply in replies for row in reply.partition_errors] == [ErrorCode.NONE] * 2
    assert bench.replica("b0").log.topic_id == max(topic_ids)


CONTROL = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")


@pytest.mark.parametrize("api", CONTROL)
@pytest.mark.parametrize(
    ("broker_epoch", "error"),
    [
        pytest.param(BROKER_EPOCH, ErrorCode.STALE_BROKER_EPOCH, id="stale"),
        pytest.param(BROKER_EPOCH + 1, ErrorCode.NONE, id="correct"),
        pytest.param(BROKER_EPOCH + 2, ErrorCode.NONE, id="newer"),
        pytest.param(-1, ErrorCode.NONE, id="none"),
    ],
)
def test_control_requests_for_an_earlier_life_are_refused(api, broker_epoch, error):
    """BrokerEpochIntegrationTest: testControlRequestWith{Correct,Stale,Newer}BrokerEpoch; KIP-380."""
    bench = led()

    assert _command(bench, api, broker_epoch=broker_epoch) is error
    assert _obeyed(bench, api) is (error is ErrorCode.NONE)


@pytest.mark.parametrize("api", CONTROL)
def test_requests_of_an_older_controller_are_refused_and_those_of_an_equal_one_are_not(api):
    """LeaderElectionTest.testLeaderElectionWithStaleControllerEpoch."""
    bench = led()
    bench.tell_brokers(controller_epoch=3)

    assert _command(bench, api, controller_epoch=2) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert not _obeyed(bench, api)
    assert _command(bench, api, controller_epoch=3) is ErrorCode.NONE
    assert _obeyed(bench, api)


def _command(bench: Bench, api: str, *, controller_epoch: int = 1, broker_epoch: int = -1) -> ErrorCode:
    """Tell b0 to follow b1, to stop, or that only b0 is live."""
    epochs = {"controller_id": 9, "controller_epoch": controller_epoch, "broker_epoch": broker_epoch}
    match api:
        case "LeaderAndIsr":
            state = bench.state(leader=1, leader_epoch=9)
            request, version = LeaderAndIsr(partition_states=(state,), live_leaders=(), **epochs), 5
        case "StopReplica":
            row = StopReplicaPartition(topic_name="t", partition_index=0, leader_epoch=9)
            request, version = StopReplica(partition_states=(row,), **epochs), 3
        case _:
            live = (UpdateMetadataBroker(id=0, host="b0"),)
            request, version = UpdateMetadata(partition_states=(), live_brokers=live, **epochs), 7
    return bench.ask("b0", request, version).error_code


def _obeyed(bench: Bench, api: str) -> bool:
    role = {"LeaderAndIsr": Role.FOLLOWER, "StopReplica": Role.IDLE}.get(api, Role.LEADER)
    sees_one = sorted(bench.brokers["b0"].manager.live_brokers) == [0]
    return bench.replica("b0").role is role and sees_one is (api == "UpdateMetadata")


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
    assert (AT in bench.brokers["b1"].manager.replicas) is not (stopped and delete)
    assert bench.copies("b1") is not stopped


@pytest.mark.parametrize("delete", [False, True])
def test_stop_replica_of_what_is_not_there_of_an_older_controller_and_of_the_past(delete: bool):
    """ReplicaManagerTest.testStopReplicaWithInexistentPartition, ...WithStaleControllerEpoch; KAFKA-13972 off."""
    (row,) = Bench().stop("b1", 3, delete=delete).partition_errors
    assert row.error_code is ErrorCode.NONE

    stale = led()
    stale.tell_brokers(controller_epoch=5)
    assert stale.stop("b1", 3, delete=delete, controller_epoch=4).error_code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert stale.copies("b1")

    strict = Bench(rules=evolve(TODAY, stop_epoch=StopEpoch.HIGHER))
    strict.elect(0, (0, 1, 2))
    (row,) = strict.stop("b1", strict.epoch, delete=delete).partition_errors
    assert row.error_code is ErrorCode.FENCED_LEADER_EPOCH


def test_a_deletion_that_fails_on_the_disk_is_answered_with_a_storage_error():
    """ReplicaManager.stopReplicas: a KafkaStorageException while deleting is that partition's error."""
    bench = led()
    row = StopReplicaPartition(topic_name="t", partition_index=0, leader_epoch=bench.epoch, delete_partition=True)
    request = StopReplica(controller_id=9, controller_epoch=1, partition_states=(row,))
    assert bench.ask("b1", request, 3) is None, "the log is still there"

    before = len(bench.replies)
    name, _, _, token = bench.writes.pop()
    bench.step(name, Appended(token, ErrorCode.KAFKA_STORAGE_ERROR, -1))

    (outcome,) = bench.replies[before][1].partition_errors
    assert outcome.error_code is ErrorCode.KAFKA_STORAGE_ERROR
