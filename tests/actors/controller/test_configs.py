"""Settings that change while the cluster runs: written by any broker, heeded by all. KIP-226, KIP-339."""

import pytest

from kemu.protocol.dynamic_configs import MOVEMENT_LIMITS, SETTINGS, ConfigResource, bad_setting
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import ConfigChange, IncrementalAlterConfigs
from kemu.protocol.nodes import BROKER_DEFAULTS, CONFIG_CHANGES, read_config, topic_config_path
from tests.actors.controller.control_world import ControlWorld

UNCLEAN = "unclean.leader.election.enable"
SESSION_MS = 6_000


def _change(name: str, value: str | None, *, topic: str = "") -> IncrementalAlterConfigs:
    kind = ConfigResource.TOPIC if topic else ConfigResource.BROKER
    return IncrementalAlterConfigs(
        changes=(ConfigChange(resource_type=kind, resource_name=topic, name=name, value=value),)
    )


def _error(reply) -> ErrorCode:
    (row,) = reply.responses
    return row.error_code


def _told(world: ControlWorld, broker: int) -> list[tuple[str, dict[str, str]]]:
    return [(told.topic, dict(told.settings)) for told in world.broker(broker).configs]


def test_a_broker_that_does_not_control_writes_the_setting_and_all_are_told():
    """KafkaApis 2.8: any broker handles IncrementalAlterConfigs; DynamicConfigManager: each broker is notified."""
    world = ControlWorld(3, {"t": ((0, 1),)})
    assert world.active.broker_id == 0

    assert _error(world.ask(_change("min.insync.replicas", "2"), 1, to=2)) is ErrorCode.NONE
    world.run(200)

    assert read_config(world.node(BROKER_DEFAULTS) or b"") == {"min.insync.replicas": "2"}
    assert [_told(world, broker)[-1] for broker in range(3)] == [("", {"min.insync.replicas": "2"})] * 3
    (note,) = [path for path in world.zk.tree.nodes if path.startswith(f"{CONFIG_CHANGES}/")]
    assert world.node(note) == b'{"version":2,"entity_path":"brokers/<default>"}'


def test_a_setting_is_taken_away_again():
    """AlterConfigOp.OpType.DELETE: the one the broker started with counts."""
    world = ControlWorld(1, {"t": ((0,),)})
    for value in ("2", None):
        world.ask(_change("min.insync.replicas", value, topic="t"), 1)
        world.run(200)

    assert _told(world, 0) == [("t", {"min.insync.replicas": "2"}), ("t", {})]


def test_a_broker_that_starts_reads_all_settings():
    """DynamicConfigManager.startup."""
    world = ControlWorld(2, {"t": ((0, 1),)})
    world.ask(_change("min.insync.replicas", "2"), 1)
    world.ask(_change(UNCLEAN, "true", topic="t"), 1)
    world.kill(1)
    world.run(SESSION_MS + 1_000)
    world.revive(1)
    world.run(1_000)

    assert _told(world, 1) == [("", {"min.insync.replicas": "2"}), ("t", {UNCLEAN: "true"})]


def test_a_missed_notification_is_made_up_for_under_the_next_session():
    """ZkNodeChangeNotificationListener: what happened while the session was lost is read when there is a new one."""
    world = ControlWorld(2, {"t": ((0, 1),)})
    world.kill(1)
    world.ask(_change("min.insync.replicas", "2"), 1)
    world.revive(1)
    world.run(SESSION_MS + 1_000)

    assert ("", {"min.insync.replicas": "2"}) in _told(world, 1)


def test_unclean_elections_allowed_for_all_elect_at_once_what_has_no_leader():
    """DynamicLogConfig: enableDefaultUncleanLeaderElection."""
    world = ControlWorld(3, {"t": ((1, 2),), "own": ((1, 2),)}, settings={"own": {UNCLEAN: "false"}})
    for broker in (2, 1):
        world.kill(broker)
        world.run(SESSION_MS + 1_000)
    world.revive(2)
    world.run(1_000)
    assert world.state("t").leader == -1

    world.ask(_change(UNCLEAN, "true"), 1, to=2)
    world.run(300)

    assert (world.state("t").leader, world.state("t").isr) == (2, (2,))
    assert world.state("own").leader == -1, "a topic's own setting goes first"
    assert world.active.context.unclean_elections == 1


@pytest.mark.parametrize(
    ("name", "value", "topic"),
    [
        ("min.insync.replicas", "0", ""),
        ("min.insync.replicas", "two", "t"),
        (UNCLEAN, "yes", ""),
        ("log.flush.interval.ms", "-1", ""),
        (MOVEMENT_LIMITS[0], "0", ""),
        ("no.such.key", "1", ""),
        ("no.such.key", "1", "t"),
        (MOVEMENT_LIMITS[0], "5", "t"),
        ("leader.imbalance.per.broker.percentage", "20", ""),
    ],
)
def test_what_is_no_setting_is_refused_and_nothing_is_written(name: str, value: str, topic: str):
    """INVALID_CONFIG (Kafka 3.4 on); leader.imbalance.* is read-only in every release."""
    world = ControlWorld(1, {"t": ((0,),)})

    assert _error(world.ask(_change(name, value, topic=topic), 1)) is ErrorCode.INVALID_CONFIG
    world.run(100)

    assert world.node(BROKER_DEFAULTS) is None
    assert world.node(topic_config_path("t")) is None
    assert _told(world, 0) == []


def test_a_key_named_twice_and_the_settings_of_one_broker_are_refused():
    """ZkAdminManager: duplicate config keys. Of one broker alone only its throttles can be changed here."""
    world = ControlWorld(1)
    twice = IncrementalAlterConfigs(changes=_change(UNCLEAN, "true").changes + _change(UNCLEAN, "false").changes)
    one = ConfigChange(resource_type=ConfigResource.BROKER, resource_name="0", name=UNCLEAN, value="true")

    assert _error(world.ask(twice, 1)) is ErrorCode.INVALID_REQUEST
    assert _error(world.ask(IncrementalAlterConfigs(changes=(one,)), 1)) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("limit", MOVEMENT_LIMITS)
def test_the_limits_of_reassignments_can_be_read_by_every_controller_part(limit: str):
    """KIP-435: reassignment.max.concurrent.{replica,partition,leader}.movements, cluster-wide."""
    world = ControlWorld(2)

    assert _error(world.ask(_change(limit, "5"), 1)) is ErrorCode.NONE
    world.run(200)

    assert [world.part(broker).configs.of_brokers for broker in (0, 1)] == [{limit: "5"}] * 2


def test_values_that_are_all_right():
    """Each key takes its least value; None takes it away."""
    least = {"log.flush.interval.ms": "0", UNCLEAN: "false", "segment.bytes": "14", "log.segment.bytes": "14"}
    least |= {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}
    for resource, keys in SETTINGS.items():
        for key in keys:
            assert bad_setting(resource, key, least.get(key, "1")) == ""
            assert bad_setting(resource, key, None) == ""
