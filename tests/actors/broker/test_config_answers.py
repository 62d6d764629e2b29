"""DescribeConfigs and DescribeCluster at brokers with and without replication. Source: ``ConfigHelper`` (3.4)."""

from typing import Any

import pytest

from kemu.actors.broker.config_answers import ConfigSource
from kemu.actors.machine import Told
from kemu.protocol.commands import AnswerNext, ConfigureGroup, ConfigureTopic
from kemu.protocol.dynamic_configs import GROUP_KEYS
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    ConfigsToDescribe,
    DescribeCluster,
    DescribeClusterReply,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribedBroker,
)
from kemu.protocol.messages.local import BrokerConfigs, GroupConfigs, OwnConfigs
from tests.actors.broker import replica_world, test_broker

TOPIC, BROKER, GROUP = 2, 4, 32
SESSION, BEAT, SPACING = GROUP_KEYS
SETTING = "min.insync.replicas"


def _asked(kind: int, name: str, *keys: str) -> DescribeConfigs:
    return DescribeConfigs(resources=(ConfigsToDescribe(resource_type=kind, resource_name=name, names=keys or None),))


def _values(reply: DescribeConfigsReply) -> dict[str, tuple[str | None, ConfigSource]]:
    (row,) = reply.results
    assert row.error_code is ErrorCode.NONE
    return {each.name: (each.value, ConfigSource(each.source)) for each in row.configs}


def _replicated() -> replica_world.Bench:
    """Brokers with replication that know topic t."""
    bench = replica_world.Bench()
    bench.elect(0, (0, 1, 2))
    return bench


def test_a_setting_is_the_topics_own_or_else_all_brokers_or_else_the_start_configurations() -> None:
    world = _replicated()
    question = _asked(TOPIC, "t", SETTING)

    assert _values(world.ask("b0", question, 4)) == {SETTING: ("1", ConfigSource.DEFAULT)}
    world.ask("b0", BrokerConfigs(topic="", settings=((SETTING, "2"),)), 0)
    assert _values(world.ask("b0", question, 4)) == {SETTING: ("2", ConfigSource.ALL_BROKERS)}
    world.ask("b0", BrokerConfigs(topic="t", settings=((SETTING, "3"),)), 0)
    assert _values(world.ask("b0", question, 4)) == {SETTING: ("3", ConfigSource.TOPIC)}


def test_a_broker_tells_its_own_settings_and_those_of_all_brokers() -> None:
    world = _replicated()
    world.ask("b0", OwnConfigs(settings=(("leader.replication.throttled.rate", "5"),)), 0)
    world.ask("b0", BrokerConfigs(topic="", settings=((SETTING, "2"),)), 0)
    found = _values(world.ask("b0", _asked(BROKER, "0"), 4))

    assert found["leader.replication.throttled.rate"] == ("5", ConfigSource.ONE_BROKER)
    assert found[SETTING] == ("2", ConfigSource.ALL_BROKERS)
    assert found["log.flush.interval.messages"] == ("1", ConfigSource.START)
    assert found["unclean.leader.election.enable"] == ("false", ConfigSource.DEFAULT)
    assert not [key for key in found if key.startswith("emulated")]
    assert _values(world.ask("b0", _asked(BROKER, ""), 4)) == {SETTING: ("2", ConfigSource.ALL_BROKERS)}


def test_a_broker_without_replication_tells_the_settings_of_its_topics() -> None:
    bench = test_broker.Bench()
    bench.step(Told(ConfigureTopic(topic="t", settings=(("retention.ms", "60000"),))))
    found = _values(bench.answer(_asked(TOPIC, "t"), version=1))

    assert found["retention.ms"] == ("60000", ConfigSource.TOPIC)
    assert found["retention.bytes"] == ("-1", ConfigSource.DEFAULT)
    assert SETTING not in found


@pytest.mark.parametrize("group", ["g", "unknown"])
def test_a_broker_tells_the_settings_of_groups_and_the_brokers_values_as_their_defaults(group: str) -> None:
    """``ConfigHelper.createGroupConfigEntry`` 4.0: each group has settings, also an unknown group."""
    bench = test_broker.Bench(group_keys=(SESSION, BEAT))
    bench.step(Told(ConfigureGroup(group="g", settings=((BEAT, "6000"),))))
    beat = ("6000", ConfigSource.GROUP) if group == "g" else ("5000", ConfigSource.DEFAULT)

    found = _values(bench.answer(_asked(GROUP, group), version=1))
    assert found == {SESSION: ("45000", ConfigSource.DEFAULT), BEAT: beat}


def test_settings_of_groups_with_replication_come_from_the_store() -> None:
    """``ConfigHelper.createGroupConfigEntry`` 4.3: a setting of the broker at its start is the broker's."""
    world = replica_world.Bench(group_keys=(SESSION, BEAT, SPACING))
    world.ask("b0", GroupConfigs(group="g", settings=((SESSION, "50000"),)), 0)

    found = _values(world.ask("b0", _asked(GROUP, "g", SESSION, SPACING), 4))
    assert found == {SESSION: ("50000", ConfigSource.GROUP), SPACING: ("1000", ConfigSource.DEFAULT)}


def test_a_group_without_a_name_has_no_settings() -> None:
    (row,) = test_broker.Bench(group_keys=(SESSION,)).answer(_asked(GROUP, ""), version=1).results

    assert (row.error_code, row.error_message) == (ErrorCode.INVALID_REQUEST, "Group name must not be empty")


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
        (8, "0", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_resource_that_the_broker_does_not_know_has_an_error(kind: int, name: str, error: ErrorCode) -> None:
    (row,) = test_broker.Bench().answer(_asked(kind, name), version=1).results

    assert (row.error_code, row.configs) == (error, ())


def test_the_cluster_is_what_the_metadata_says() -> None:
    reply = test_broker.Bench().answer(DescribeCluster(), version=0)

    assert reply == DescribeClusterReply(
        error_code=ErrorCode.NONE,
        brokers=(DescribedBroker(broker_id=0, host="b0", rack="rack-a"), DescribedBroker(broker_id=1, host="b1")),
    )


@pytest.mark.parametrize("message", [DescribeCluster(), _asked(TOPIC, "t")])
def test_descriptions_take_injected_errors(message: Any) -> None:
    bench = test_broker.Bench()
    api = type(message).__name__
    bench.step(Told(AnswerNext(api=api, sender="c1", nth=1, error=ErrorCode.REQUEST_TIMED_OUT)))
    reply = bench.answer(message, version=1 if api == "DescribeConfigs" else 0)

    row = reply.results[0] if api == "DescribeConfigs" else reply
    assert row.error_code is ErrorCode.REQUEST_TIMED_OUT
