"""A broker's answers to DescribeConfigs (a part of every broker).

The answer has the settings that kemu emulates, and the settings that a topic was created with. Kafka's other settings
are absent, because a value would promise an effect.

Source: ``ConfigHelper`` (3.4; 4.0 to 4.3 for groups). In Kafka 3.4 with ZooKeeper, the broker reads a topic's settings
from the store. Here, the broker answers from the settings that it has applied, a few milliseconds after their change.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import TypeAlias

from kemu.actors.injection import Injections
from kemu.actors.machine import Machine, Received
from kemu.protocol.config import BrokerConfig, ControllerConfig, ReplicaConfig, key_of
from kemu.protocol.dynamic_configs import (
    ALL_BROKERS,
    BROKER_KEYS,
    CONSUMER_ASSIGNMENT_INTERVAL,
    FOLLOWER_THROTTLED_REPLICAS,
    GROUP_KEYS,
    LEADER_THROTTLED_REPLICAS,
    OF_ONE_BROKER,
    SETTINGS,
    ConfigResource,
)
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen_fields
from kemu.protocol.messages.control import (
    ConfigsToDescribe,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribedConfig,
    DescribedConfigs,
)
from kemu.protocol.names import is_legal_name

Refusal: TypeAlias = tuple[ErrorCode, str | None]
StartConfig: TypeAlias = BrokerConfig | ReplicaConfig | ControllerConfig
_NOT_KAFKAS = ("emulated.", "coordinator.kind")
"""Beginnings of keys that no release of Kafka has."""
_CHANGEABLE = frozenset({*SETTINGS[ConfigResource.BROKER], *OF_ONE_BROKER})
_FINE: Refusal = (ErrorCode.NONE, None)


class ConfigSource(IntEnum):
    """The origins of a setting's value. Source: ``DescribeConfigsResponse.ConfigSource`` (3.4, 4.0)."""

    TOPIC = 1
    ONE_BROKER = 2
    ALL_BROKERS = 3
    START = 4
    DEFAULT = 5
    GROUP = 8


class ConfigAnswers:
    """A broker's answers to DescribeConfigs.

    Args:
        start: the broker's start configuration.
        settings: the known settings of topics, and of all brokers (``ALL_BROKERS``); read at each use.
        own: the known settings of this broker alone; read at each use.
        groups: group -> its own settings; read at each use.
        group_keys: the settings of groups in the broker's release; none before 4.0.
        knows: whether the broker's metadata has a topic.
    """

    def __init__(
        self,
        machine: Machine,
        injections: Injections,
        node_id: int,
        *,
        start: Iterable[StartConfig],
        settings: Mapping[str, Mapping[str, str]],
        own: Mapping[str, str],
        groups: Mapping[str, Mapping[str, str]],
        group_keys: tuple[str, ...],
        knows: Callable[[str], bool],
    ) -> None:
        self._machine = machine
        self._injections = injections
        self._node_id = node_id
        self._start = {key: value for config in start for key, value in _at_start(config)}
        self._settings = settings
        self._own = own
        self._groups = groups
        self._group_keys = group_keys
        self._knows = knows

    def asked(self, event: Received) -> None:
        """Answer a request: one row for each resource."""
        request: DescribeConfigs = event.message
        error = self._injections.take("DescribeConfigs", event.peer)
        refused = None if error is None else (error, None)
        results = tuple(self._row(each, refused or self._refusal(each)) for each in request.resources)
        self._machine.reply(event, DescribeConfigsReply(results=results))

    def _row(self, asked: ConfigsToDescribe, refusal: Refusal) -> DescribedConfigs:
        configs = self._configs(asked) if refusal is _FINE else ()
        return DescribedConfigs(
            error_code=refusal[0],
            error_message=refusal[1],
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=tuple([each for each in configs if not asked.names or each.name in asked.names]),
        )

    def _refusal(self, asked: ConfigsToDescribe) -> Refusal:
        name, kind = asked.resource_name, asked.resource_type
        if kind == ConfigResource.TOPIC:
            if not is_legal_name(name):
                return ErrorCode.INVALID_TOPIC_EXCEPTION, f"not a legal topic name: {name!r}"
            return _FINE if self._knows(name) else (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        if kind == ConfigResource.GROUP and self._group_keys:  # also of a group that does not exist
            return _FINE if name else (ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        if kind != ConfigResource.BROKER:
            text = f"settings of topics, of brokers, and (since 4.0) of groups are described, not of type {kind}"
            return ErrorCode.INVALID_REQUEST, text
        if name not in (ALL_BROKERS, str(self._node_id)):
            return ErrorCode.INVALID_REQUEST, f"broker {self._node_id} does not know the settings of broker {name!r}"
        return _FINE

    def _configs(self, asked: ConfigsToDescribe) -> Iterable[DescribedConfig]:
        if asked.resource_type == ConfigResource.TOPIC:
            return self._of_topic(asked.resource_name)
        if asked.resource_type == ConfigResource.GROUP:
            return self._of_group(asked.resource_name)
        of_all = self._settings.get(ALL_BROKERS, {})
        if asked.resource_name == ALL_BROKERS:
            return [_described(key, value, ConfigSource.ALL_BROKERS) for key, value in of_all.items()]
        keys = dict.fromkeys((*self._start, *of_all, *self._own))
        return [_described(key, *self._of_broker(key), read_only=key not in _CHANGEABLE) for key in keys]

    def _of_topic(self, topic: str) -> Iterable[DescribedConfig]:
        own = self._settings.get(topic, {})
        for key in dict.fromkeys((*BROKER_KEYS, LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS, *own)):
            if key in own:
                yield _described(key, own[key], ConfigSource.TOPIC)
            elif key not in BROKER_KEYS:
                yield _described(key, "", ConfigSource.DEFAULT)
            elif self._of_broker(BROKER_KEYS[key])[0] is not None:
                yield _described(key, *self._of_broker(BROKER_KEYS[key]))

    def _of_group(self, group: str) -> Iterable[DescribedConfig]:
        """The settings of a group. Since 4.3 the source of a broker's value is the broker's."""
        own = self._groups.get(group, {})
        for key in self._group_keys:
            value, source = self._of_broker(GROUP_KEYS[key])
            if key in own:
                value, source = own[key], ConfigSource.GROUP
            elif CONSUMER_ASSIGNMENT_INTERVAL not in self._group_keys:
                source = ConfigSource.DEFAULT
            yield _described(key, value, source)

    def _of_broker(self, key: str) -> tuple[str | None, ConfigSource]:
        if key in self._own:
            return self._own[key], ConfigSource.ONE_BROKER
        of_all = self._settings.get(ALL_BROKERS, {})
        return (of_all[key], ConfigSource.ALL_BROKERS) if key in of_all else self._start.get(key, _UNSET)


_UNSET = (None, ConfigSource.DEFAULT)


def _described(key: str, value: str | None, source: ConfigSource, *, read_only: bool = False) -> DescribedConfig:
    return DescribedConfig(name=key, value=value, read_only=read_only, source=source)


def _at_start(config: StartConfig) -> Iterable[tuple[str, tuple[str | None, ConfigSource]]]:
    """(Kafka's key, (value, source)) of each value of a start configuration."""
    defaults = type(config)()
    for field in frozen_fields(type(config)):
        key, value = key_of(field), getattr(config, field.name)
        if not key.startswith(_NOT_KAFKAS):
            is_default = value == getattr(defaults, field.name)
            yield key, (_text(value), ConfigSource.DEFAULT if is_default else ConfigSource.START)


def _text(value: object) -> str | None:
    if isinstance(value, tuple):
        return ",".join(value)
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
