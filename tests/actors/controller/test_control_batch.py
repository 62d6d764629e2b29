"""Collecting and sending requests. Source: Kafka's ControllerChannelManagerTest."""

import pytest
from attrs import evolve

from kemu.actors.controller.batch import BatchNotEmpty
from kemu.actors.controller.channels import ControllerChannels
from kemu.actors.controller.rules import RULES
from kemu.actors.machine import Event, Hangup, LinkDown, Machine, Received, Send, StartTimer, StopTimer, TimerFired
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import LeaderAndIsr, StopReplica, UpdateMetadata, UpdateMetadataReply
from tests.actors.controller.controller_bench import ControllerBench

T0, T1 = ("t", 0), ("t", 1)


def _bench(rules=None) -> ControllerBench:
    bench = ControllerBench(1, 2, 3) if rules is None else ControllerBench(1, 2, 3, rules=rules)
    bench.topic("t", (1, 2, 3), (2, 3, 1))
    bench.led(T0, 1, (1, 2))
    bench.led(T1, 2, (2, 3))
    return bench


def _tell(bench: ControllerBench, *brokers: int, at=T0, is_new: bool = False) -> None:
    bench.controller.batch.add_leader_and_isr(brokers, at, bench.context.leadership[at], is_new=is_new)


def test_leader_and_isr_carries_all_that_kafka_sends():
    """testLeaderAndIsrRequestSent: epochs, leaders' addresses, and metadata for every live broker."""
    bench = _bench()

    _tell(bench, 1, 2)
    _tell(bench, 1, at=T1)
    bench.controller.batch.send()

    requests = {broker: request for broker, request in bench.sent if isinstance(request, LeaderAndIsr)}
    assert sorted(requests) == [1, 2]
    one = requests[1]
    assert (one.controller_id, one.controller_epoch, one.broker_epoch) == (0, 50, 101)
    assert [(row.topic_name, row.partition_index, row.leader, row.isr) for row in one.partition_states] == [
        ("t", 0, 1, (1, 2)),
        ("t", 1, 2, (2, 3)),
    ]
    assert [(leader.broker_id, leader.host_name) for leader in one.live_leaders] == [(1, "b1"), (2, "b2")]
    assert sorted(bench.metadata()) == [1, 2, 3]


def test_is_new_sticks_in_a_batch():
    """testLeaderAndIsrRequestIsNew."""
    bench = _bench()

    _tell(bench, 2, is_new=True)
    _tell(bench, 2, is_new=False)
    bench.controller.batch.send()

    assert bench.leader_and_isr()[2][T0].is_new


def test_only_live_brokers_and_those_that_shut_down_are_sent_anything():
    """testLeaderAndIsrRequestSentToLiveOrShuttingDownBrokers, and so for the others."""
    bench = _bench()
    bench.context.shutting_down[1] = None
    bench.context.remove_brokers([2])

    _tell(bench, 1, 2, 3)
    bench.controller.batch.add_stop_replica((1, 2, 3), T1, delete=True)
    bench.controller.batch.send()

    assert sorted(bench.leader_and_isr()) == sorted(bench.stops()) == sorted(bench.metadata()) == [1, 3]


def test_the_order_per_broker_is_leadership_then_metadata_then_stops():
    """ControllerBrokerRequestBatch.sendRequestsToBrokers."""
    bench = _bench()

    bench.controller.batch.add_stop_replica((2,), T1, delete=False)
    _tell(bench, 2)
    bench.controller.batch.send()

    assert [type(request) for broker, request in bench.sent if broker == 2] == [
        LeaderAndIsr,
        UpdateMetadata,
        StopReplica,
    ]


def test_one_stop_replica_may_delete_some_and_only_stop_others():
    """testMixedDeleteAndNotDeleteStopReplicaRequests, v3 (KIP-570)."""
    bench = _bench()

    bench.controller.batch.add_stop_replica((2,), T0, delete=True)
    bench.controller.batch.add_stop_replica((2,), T1, delete=False)
    bench.controller.batch.add_stop_replica((2,), T0, delete=False)
    bench.controller.batch.send()

    (request,) = [request for _, request in bench.sent]
    assert [(row.partition_index, row.delete_partition, row.leader_epoch) for row in request.partition_states] == [
        (0, True, 5),
        (1, False, 5),
    ]


def test_before_kip_570_deletions_and_stops_are_two_requests():
    """StopReplica v0 - v2: the flag is the request's."""
    bench = _bench(evolve(RULES, stop_replica_version=2))

    bench.controller.batch.add_stop_replica((2,), T0, delete=True)
    bench.controller.batch.add_stop_replica((2,), T1, delete=False)
    bench.controller.batch.send()

    assert [(r.delete_partitions, len(r.partition_states)) for _, r in bench.sent] == [(True, 1), (False, 1)]


def test_metadata_of_a_topic_being_deleted_says_leader_minus_two():
    """testUpdateMetadataRequestDuringTopicDeletion."""
    bench = _bench()
    bench.context.queue_for_deletion("t")

    bench.controller.batch.send_metadata((1,), [T0, T1])

    assert [row.leader for row in bench.metadata()[1].values()] == [-2, -2]


def test_metadata_names_offline_replicas_and_leaves_out_what_has_no_leadership():
    """testUpdateMetadataIncludesLiveBrokersWithoutPartitions...; metadataPropagationForOfflineReplicas."""
    bench = _bench()
    bench.context.remove_brokers([3])
    del bench.context.leadership[T1]

    bench.controller.batch.send_metadata((1,), [T0, T1])

    ((_, request),) = bench.sent
    (row,) = request.partition_states
    assert row.offline_replicas == (3,)
    assert [broker.id for broker in request.live_brokers] == [1, 2]


def test_a_batch_must_be_empty_when_it_begins():
    """ControllerBrokerRequestBatch.newBatch: IllegalStateException."""
    bench = _bench()
    _tell(bench, 1)

    with pytest.raises(BatchNotEmpty):
        bench.controller.batch.begin()


# --- channels ------------------------------------------------------------------------------------------------------


class _Sender(Machine):
    """A machine with channels to two brokers."""

    def __init__(self) -> None:
        super().__init__("b0/controller")
        self.heard: list[tuple[int, object]] = []
        self.channels = ControllerChannels(
            self,
            lambda broker, request, reply: self.heard.append((broker, reply)),
            timeout_us=30_000_000,
            backoff_us=100_000,
        )
        self.channels.add(1, "b1")
        self.channels.add(2, "b2")

    def handle(self, event: Event) -> None:
        assert self.channels.handle(event)


def _metadata(epoch: int) -> UpdateMetadata:
    return UpdateMetadata(controller_id=0, controller_epoch=epoch, partition_states=(), live_brokers=())


def _sent(effects) -> list[tuple[str, int, int]]:
    return [(e.to, e.request_id, e.message.controller_epoch) for e in effects if isinstance(e, Send)]


OK = UpdateMetadataReply(error_code=ErrorCode.NONE)


def test_a_channel_has_one_request_in_flight_and_keeps_the_order():
    """RequestSendThread: FIFO, one request in flight."""
    sender = _Sender()
    for epoch in (1, 2):
        sender.channels.send(1, _metadata(epoch), 7)
    sender.channels.send(2, _metadata(3), 7)

    assert _sent(sender._effects) == [("b1", 1, 1), ("b2", 2, 3)]
    effects = sender.step(1, Received("b1", 0, 1, 7, OK))

    assert _sent(effects) == [("b1", 3, 2)]
    assert sender.heard == [(1, OK)]


@pytest.mark.parametrize("how", ["link", "timeout"])
def test_a_request_is_tried_until_it_is_answered(how: str):
    """RequestSendThread: back off 100 ms, send the same again."""
    sender = _Sender()
    sender.channels.send(1, _metadata(1), 7)

    assert StartTimer(("channel-timeout",), 30_000_000) in sender._effects
    effects = sender.step(30_000_000, LinkDown("b1") if how == "link" else TimerFired(("channel-timeout",)))
    again = sender.step(30_100_000, TimerFired(("channel-retry", "1")))

    assert (Hangup("b1") in effects) == (how == "timeout")
    assert StartTimer(("channel-retry", "1"), 100_000) in effects
    assert _sent(again) == [("b1", 2, 1)]
    assert sender.heard == []


def test_a_broker_that_is_silent_does_not_delay_the_others():
    """One RequestSendThread per broker: a time-out closes that broker's connection alone."""
    sender = _Sender()
    sender.channels.send(1, _metadata(1), 7)
    sender.now_us = 10_000_000
    sender.channels.send(2, _metadata(2), 7)
    effects = sender.step(30_000_000, TimerFired(("channel-timeout",)))

    assert [effect for effect in effects if isinstance(effect, Hangup)] == [Hangup("b1")]
    assert StartTimer(("channel-timeout",), 10_000_000) in effects, "the other's is watched next"


def test_removing_a_broker_forgets_what_was_queued_for_it():
    """A restarted broker gets a new channel, and nothing of the old one."""
    sender = _Sender()
    sender.channels.send(1, _metadata(1), 7)
    sender.channels.send(1, _metadata(2), 7)

    sender.channels.remove(1)
    sender.channels.add(1, "b1")
    sender.channels.send(1, _metadata(3), 7)

    assert StopTimer(("channel-retry", "1")) in sender._effects
    assert [epoch for _, _, epoch in _sent(sender._effects)] == [1, 3]
    assert not sender.channels.handle(Received("b1", 0, 1, 7, OK)), "an answer to the old channel's request"
