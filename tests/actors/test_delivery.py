"""Producer and brokers together: effects of lost replies and restarts on records."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kemu.actors.broker.arranged import Broker
from kemu.actors.broker.partition_log import from_record
from kemu.actors.clients.producer import Producer
from kemu.protocol.commands import Close, ClusterView, HostPartition, SetRate
from kemu.protocol.config import BrokerConfig, ProducerConfig
from kemu.protocol.messages.data import MetadataReply, ProduceReply
from kemu.protocol.messages.versions import KAFKA_2_4, KAFKA_3_4, LATEST, SpokenVersions
from kemu.protocol.notes.groups import ProduceFailed, RecordsAcknowledged
from tests.actors.broker.data_world import DataWorld, Lot
from tests.examples import examples

INTERVAL_US = 100_000
PARTITIONS = 3


def _cluster(versions: SpokenVersions = LATEST, **config: Any) -> DataWorld:
    """Brokers b0 and b1, topic t with three partitions over them, a producer p1."""
    world = DataWorld()
    view = ClusterView(brokers=((0, ""), (1, "")), topics=(("t", (0, 1, 0), (0, 0, 0)),), offsets_leaders=())
    for node in (0, 1):
        world.add(f"b{node}", lambda life, node=node: Broker(f"b{node}", node, BrokerConfig()))
        for command in (view, *_hosting(node, 1)):
            world.tell(f"b{node}", command)
    settings = ProducerConfig(**{"emulated_records_per_s": 60, **config})
    world.add(
        "p1",
        lambda life: Producer(
            "p1", ("t",), settings, bootstrap=("b0", "b1"), chance=Lot(1000 * life), versions=versions
        ),
    )
    return world


def _hosting(node: int, leader_epoch: int) -> list[HostPartition]:
    return [
        HostPartition(topic="t", partition=number, leader_epoch=leader_epoch)
        for number, leader in enumerate((0, 1, 0))
        if leader == node
    ]


def _restart(world: DataWorld, node: int) -> None:
    world.crash(f"b{node}")
    world.run(50)
    view = ClusterView(brokers=((0, ""), (1, "")), topics=(("t", (0, 1, 0), (0, 0, 0)),), offsets_leaders=())
    world.start(f"b{node}", view, *_hosting(node, world.lives[f"b{node}"] + 1))


def _in_logs(world: DataWorld) -> int:
    """Records in all logs."""
    return sum(
        from_record(record).records for disk in world.disks.values() for records in disk.values() for record in records
    )


def _acknowledged(world: DataWorld) -> int:
    return sum(fact.count for fact in world.facts(RecordsAcknowledged))


def _finish(world: DataWorld) -> None:
    world.reply_is_lost = lambda client, message: False
    world.tell("p1", Close())
    world.run(200_000)
    assert world.machines["p1"].finished


def test_records_reach_the_log_once_when_nothing_goes_wrong_in_few_steps():
    """Per interval: one tick, and per broker a request, its appends, an answer."""
    world = _cluster()
    world.run(2_000)
    before = world.steps
    world.run(10_000)

    assert world.steps - before == 100 * (1 + 2 + PARTITIONS + 2)
    _finish(world)
    assert _in_logs(world) == _acknowledged(world) > 700


@pytest.mark.parametrize("versions", [LATEST, KAFKA_3_4, KAFKA_2_4], ids=["3.9", "3.4", "2.4"])
def test_brokers_understand_the_versions_of_every_release(versions):
    """A profile picks what clients send; the answer comes in the same version."""
    world = _cluster(versions)
    world.run(1_000)
    _finish(world)

    asked = {type(send.message).__name__: send.version for name, send in world.sent if name == "p1"}
    answered = {type(send.message).__name__: send.version for name, send in world.sent if name != "p1"}
    assert asked == {api: versions[api] for api in ("Metadata", "Produce")}
    assert answered == {f"{api}Reply": version for api, version in asked.items()}
    assert _in_logs(world) == _acknowledged(world) > 0


@pytest.mark.parametrize(("idempotent", "duplicates"), [(True, 0), (False, 6)])
def test_a_lost_reply_duplicates_records_only_without_idempotence(idempotent, duplicates):
    """KIP-98's motivation. One interval's batches of both brokers are written, their answers lost, and sent again."""
    world = _cluster(enable_idempotence=idempotent)
    lost: list[str] = []

    def lose_one_per_broker(client: str, message: object) -> bool:
        if not isinstance(message, ProduceReply) or len(lost) == 2:
            return False
        lost.append(client)
        return True

    world.run(1_050)
    world.reply_is_lost = lose_one_per_broker
    world.run(1_000)
    assert len(lost) == 2
    _finish(world)

    assert _in_logs(world) - _acknowledged(world) == duplicates
    assert world.facts(ProduceFailed) == []


class Delivery(RuleBasedStateMachine):
    """Idempotent, acks=all: whatever is lost or restarted, each record is in the log once.

    Batches are given up only after two minutes, which the rules never let pass before the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.world = _cluster()
        self.lose_replies = 0
        self.world.reply_is_lost = self._lose

    def _lose(self, client: str, message: object) -> bool:
        if self.lose_replies > 0 and isinstance(message, ProduceReply | MetadataReply):
            self.lose_replies -= 1
            return True
        return False

    @rule(for_ms=st.integers(1, 700))
    def time_passes(self, for_ms):
        self.world.run(for_ms)

    @rule(number=st.integers(1, 4))
    def replies_get_lost(self, number):
        self.lose_replies += number

    @rule(node=st.integers(0, 1))
    def the_connection_breaks(self, node):
        self.world.break_link("p1", f"b{node}")

    @rule(node=st.integers(0, 1), into_us=st.integers(0, 3_000))
    def a_broker_restarts(self, node, into_us):
        tick_us = -(-self.world.now_us // INTERVAL_US) * INTERVAL_US
        self.world.run((tick_us - self.world.now_us + into_us) // 1_000)
        _restart(self.world, node)

    @rule(rate=st.sampled_from([0, 1, 60, 500]))
    def the_rate_changes(self, rate):
        self.world.tell("p1", SetRate(records_per_s=rate))

    @invariant()
    def acknowledged_records_are_in_the_log_and_acknowledged_once(self):
        ends = {
            log: sum(from_record(record).records for record in records)
            for disk in self.world.disks.values()
            for log, records in disk.items()
        }
        seen: dict[int, int] = {}
        for fact in self.world.facts(RecordsAcknowledged):
            assert fact.base_offset >= seen.get(fact.partition, 0)
            seen[fact.partition] = fact.base_offset + fact.count
            assert seen[fact.partition] <= ends[f"t-{fact.partition}"]

    def teardown(self):
        self.lose_replies = 0
        _finish(self.world)
        assert self.world.facts(ProduceFailed) == []
        assert _in_logs(self.world) == _acknowledged(self.world)


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(
    max_examples=examples(150), stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
