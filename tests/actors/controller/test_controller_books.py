"""Metadata of offline replicas, and the controller's state compared with the store.

Source: Kafka's ControllerIntegrationTest, BrokerEpochIntegrationTest, ControllerContextTest.
"""

from kemu.protocol.commands import ExpireSession
from kemu.protocol.nodes import broker_path
from tests.actors.controller.control_world import CONFIG, ControlWorld
from tests.actors.controller.controller_bench import ControllerBench

SESSION_MS = CONFIG.zookeeper_session_timeout_ms


def _told(world: ControlWorld, broker: int) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """Leader, epoch, ISR and offline replicas of t-0, in a broker's last metadata."""
    row = world.broker(broker).metadata["t", 0]
    return row.leader, row.leader_epoch, row.isr, row.offline_replicas


def test_everybody_learns_that_a_partitions_only_replica_is_offline_and_newcomers_do():
    """testMetadataPropagationForOfflineReplicas: after its failure, another's restart, and a controller's end."""
    world = ControlWorld(3, {"t": ((2,),)})
    dead = (-1, 1, (2,), (2,))

    world.kill(2)
    world.run(SESSION_MS + 1_000)
    assert [_told(world, broker) for broker in (0, 1)] == [dead, dead]

    world.kill(1)
    world.run(SESSION_MS + 1_000)
    world.revive(1)
    world.run(1_000)
    assert _told(world, 1) == dead, "it knew nothing and was told all"

    world.kill(0)
    world.run(SESSION_MS + 1_000)
    world.revive(0)
    world.run(1_000)
    assert world.active.broker_id == 1
    still_dead = (-1, 2, (2,), (2,))  # every new controller takes a dead leader out once more: an epoch each
    assert [_told(world, broker) for broker in (0, 1)] == [still_dead, still_dead]

    world.revive(2)
    world.run(1_000)
    assert [_told(world, broker) for broker in world.ids] == [(2, 3, (2,), ())] * 3


def test_the_controllers_broker_epochs_are_those_of_the_registrations():
    """testControllerBrokerEpochCacheMatchesWithZk, testReplicaManagerBrokerEpochMatchesWithZk: also after restarts."""
    world = ControlWorld(3, {"t": ((0, 1, 2),)})

    def all_agree() -> bool:
        stored = {broker: world.zk.tree.nodes[broker_path(broker)].czxid for broker in world.ids}
        cached = {broker: each.epoch for broker, each in world.active.context.live.items()}
        return stored == cached == {broker: world.broker(broker).broker_epoch for broker in world.ids}

    assert all_agree()
    first = world.broker(2).broker_epoch
    world.kill(2)
    world.run(SESSION_MS + 1_000)
    world.revive(2)
    world.run(1_000)
    assert all_agree() and world.broker(2).broker_epoch > first
    world.tell("zk", ExpireSession(client="b0/controller"))
    world.run(9_000)
    assert all_agree() and world.active.broker_id != 0


def test_the_imbalance_counts_partitions_led_by_others_than_their_first_replica():
    """ControllerContextTest.testPreferredReplicaImbalanceMetric: topics being deleted, and deleted ones, do not
    count.
    """
    bench = ControllerBench(1, 2, 3)
    bench.topic("t", (1, 2), (2, 3), (3, 1))
    bench.topic("u", (1, 2))
    imbalance = bench.controller.topics.imbalance
    assert imbalance() == 0, "without a leader nothing is out of balance"

    bench.led(("t", 0), 2, (1, 2))
    bench.led(("t", 1), 2, (2, 3))
    bench.led(("t", 2), -1, (3, 1))
    bench.led(("u", 0), 2, (2,))
    assert imbalance() == 3

    bench.context.queue_for_deletion("u")
    assert imbalance() == 2
    bench.led(("t", 0), 1, (1, 2))
    assert imbalance() == 1
    bench.context.drop_topic("t")
    assert imbalance() == 0
