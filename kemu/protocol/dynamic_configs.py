"""Settings that change while a cluster runs: their keys, allowed values and defaults.

A topic's own setting overrides the setting of all brokers, which overrides a broker's start configuration. Kafka's
read-only keys (``leader.imbalance.*``, ``auto.leader.rebalance.enable``) are not in the tables. Source: Kafka 2.8
``LogConfig``, ``DynamicBrokerConfig``; KIP-226, KIP-339. The limits of reassignments are KIP-435's. Settings of groups
are those of Kafka 4.0 to 4.3 for the consumer protocol (``GroupConfig``, KIP-848).
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType

from kemu.protocol.config import BrokerConfig

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_ELECTION_ENABLE = "unclean.leader.election.enable"
LOG_FLUSH_INTERVAL_MESSAGES = "log.flush.interval.messages"
LOG_FLUSH_INTERVAL_MS = "log.flush.interval.ms"
RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"
SEGMENT_MS, SEGMENT_BYTES = "segment.ms", "segment.bytes"
LOG_RETENTION_MS, LOG_RETENTION_BYTES = "log.retention.ms", "log.retention.bytes"
LOG_ROLL_MS, LOG_SEGMENT_BYTES = "log.roll.ms", "log.segment.bytes"
LEADER_THROTTLED_RATE = "leader.replication.throttled.rate"
FOLLOWER_THROTTLED_RATE = "follower.replication.throttled.rate"
LEADER_THROTTLED_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS = "follower.replication.throttled.replicas"
MOVEMENT_LIMITS = tuple(f"reassignment.max.concurrent.{what}.movements" for what in ("replica", "partition", "leader"))
"""The keys of KIP-435's limits: whole numbers of at least 1; without a value there is no limit."""
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "reassignment.parallel.replica.count": MOVEMENT_LIMITS[0],
        "reassignment.max.parallel.replica.count": MOVEMENT_LIMITS[0],
        "reassignment.parallel.partition.count": MOVEMENT_LIMITS[1],
        "reassignment.parallel.leader.movements": MOVEMENT_LIMITS[2],
    }
)
"""Names of the limits in KIP-435's text -> their names in its table of settings."""

CONSUMER_SESSION_TIMEOUT = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
CONSUMER_ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"

BROKER_KEYS: Mapping[str, str] = MappingProxyType(
    {
        MIN_INSYNC_REPLICAS: MIN_INSYNC_REPLICAS,
        UNCLEAN_ELECTION_ENABLE: UNCLEAN_ELECTION_ENABLE,
        RETENTION_MS: LOG_RETENTION_MS,
        RETENTION_BYTES: LOG_RETENTION_BYTES,
        SEGMENT_MS: LOG_ROLL_MS,
        SEGMENT_BYTES: LOG_SEGMENT_BYTES,
        "max.message.bytes": "message.max.bytes",
    }
)
"""A topic's setting -> the broker's setting that is the topic's default. Source: ``LogConfig`` (3.4)."""
GROUP_KEYS: Mapping[str, str] = MappingProxyType(
    {
        key: f"group.{key}"
        for key in (CONSUMER_SESSION_TIMEOUT, CONSUMER_HEARTBEAT_INTERVAL, CONSUMER_ASSIGNMENT_INTERVAL)
    }
)
"""A group's setting -> the broker's setting that is the default of all groups. Source: ``GroupConfig`` (4.0, 4.3)."""
WITHOUT_EFFECT = frozenset(
    {
        "cleanup.policy",
        *("compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
        *("delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms", "index.interval.bytes"),
        *("local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "max.message.bytes"),
        *("message.downconversion.enable", "message.format.version", "message.timestamp.after.max.ms"),
        *("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms", "message.timestamp.type"),
        *("min.cleanable.dirty.ratio", "min.compaction.lag.ms", "preallocate", "remote.log.copy.disable"),
        *("remote.log.delete.on.disable", "remote.storage.enable", "segment.index.bytes", "segment.jitter.ms"),
    }
)
"""Settings of topics that Kafka 3.9 has (``TopicConfig``) and kemu does not emulate. A topic keeps their values."""

_MOST = {"int": (1 << 31) - 1, "long": (1 << 63) - 1}


class ConfigResource(IntEnum):
    """The kind of a setting's owner. Source: Kafka's ``ConfigResource.Type``."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


ALL_BROKERS = ""
"""The name of the resource BROKER for settings of all brokers."""

_Check = Callable[[str], str]
"""Value -> the broken requirement; "" for a valid value."""


def _whole(least: int, kind: str) -> _Check:
    most = _MOST[kind]

    def check(text: str) -> str:
        digits = text.removeprefix("-")
        fits = digits.isascii() and digits.isdigit() and len(digits) < 20 and least <= int(text) <= most
        return "" if fits else f"must be a whole number of at least {least}"

    return check


def _replica_list(text: str) -> str:
    pairs = [pair.split(":") for pair in text.split(",")]
    listed = all(len(pair) == 2 and all(part.isascii() and part.isdigit() for part in pair) for pair in pairs)
    return "" if text == "*" or listed else 'must be "*" or pairs "partition:broker,partition:broker"'


def _boolean(text: str) -> str:
    return "" if text in ("true", "false") else "must be true or false"


SETTINGS: Mapping[ConfigResource, Mapping[str, _Check]] = MappingProxyType(
    {
        ConfigResource.TOPIC: {
            MIN_INSYNC_REPLICAS: _whole(1, "int"),
            UNCLEAN_ELECTION_ENABLE: _boolean,
            RETENTION_MS: _whole(-1, "long"),
            RETENTION_BYTES: _whole(-1, "long"),
            SEGMENT_MS: _whole(1, "long"),
            SEGMENT_BYTES: _whole(14, "int"),
            LEADER_THROTTLED_REPLICAS: _replica_list,
            FOLLOWER_THROTTLED_REPLICAS: _replica_list,
        },
        ConfigResource.BROKER: {
            MIN_INSYNC_REPLICAS: _whole(1, "int"),
            UNCLEAN_ELECTION_ENABLE: _boolean,
            LOG_FLUSH_INTERVAL_MESSAGES: _whole(1, "long"),
            LOG_FLUSH_INTERVAL_MS: _whole(0, "long"),
            LOG_RETENTION_MS: _whole(-1, "long"),
            LOG_RETENTION_BYTES: _whole(-1, "long"),
            LOG_ROLL_MS: _whole(1, "long"),
            LOG_SEGMENT_BYTES: _whole(14, "int"),
            **dict.fromkeys(MOVEMENT_LIMITS, _whole(1, "int")),
        },
        ConfigResource.GROUP: {
            CONSUMER_SESSION_TIMEOUT: _whole(1, "int"),
            CONSUMER_HEARTBEAT_INTERVAL: _whole(1, "int"),
            CONSUMER_ASSIGNMENT_INTERVAL: _whole(0, "int"),
        },
    }
)


OF_ONE_BROKER: Mapping[str, _Check] = MappingProxyType(
    {LEADER_THROTTLED_RATE: _whole(0, "long"), FOLLOWER_THROTTLED_RATE: _whole(0, "long")}
)
"""Settings of one broker by its id. Source: ``DynamicConfig.Broker`` of Kafka 2.8, which has no such setting of all
brokers.
"""


def settings_of(resource: ConfigResource, *, one: bool = False) -> Mapping[str, _Check]:
    """The changeable settings of a topic, of all brokers, or (``one``) of a broker by its id."""
    return OF_ONE_BROKER if one else SETTINGS[resource]


def bad_setting(resource: ConfigResource, name: str, value: str | None, *, one: bool = False) -> str:
    """The reason why a setting of a topic, all brokers or one broker is invalid; "" if the setting is valid.

    ``value`` None: the request removes the setting.
    """
    check = settings_of(resource, one=one).get(name)
    if check is None:
        whose = "one broker" if one else f"{resource.name.lower()}s"
        return f"{name} is not a setting of {whose} that can be changed here"
    must = check(value) if value is not None else ""
    return f"{name} {must}, not {value!r}" if must else ""


def bounds_of_groups(config: BrokerConfig) -> Mapping[str, tuple[int, int]]:
    """A setting of a group -> its least and greatest value with these settings of the brokers."""
    return {
        CONSUMER_HEARTBEAT_INTERVAL: (
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        CONSUMER_SESSION_TIMEOUT: (
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        CONSUMER_ASSIGNMENT_INTERVAL: (
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        ),
    }


def bad_group_settings(settings: Mapping[str, str], config: BrokerConfig, *, spaces_targets: bool) -> str:
    """The reason why these settings of a group are invalid together with the brokers' settings; "" if they are valid.

    ``spaces_targets``: whether the release has ``consumer.assignment.interval.ms`` (since 4.3).

    Source: ``GroupConfig.validateValues`` 4.1, 4.3.
    """
    if CONSUMER_ASSIGNMENT_INTERVAL in settings and not spaces_targets:
        return f"Unknown group config name: {CONSUMER_ASSIGNMENT_INTERVAL}"
    for name, (least, most) in bounds_of_groups(config).items():
        value = int(settings.get(name, least))
        if value < least:
            return f"{name} must be greater than or equal to group.{name.replace('consumer.', 'consumer.min.')}"
        if value > most:
            return f"{name} must be less than or equal to group.{name.replace('consumer.', 'consumer.max.')}"
    session_ms = int(settings.get(CONSUMER_SESSION_TIMEOUT, config.group_consumer_session_timeout_ms))
    if session_ms <= int(settings.get(CONSUMER_HEARTBEAT_INTERVAL, config.group_consumer_heartbeat_interval_ms)):
        return f"{CONSUMER_SESSION_TIMEOUT} must be greater than {CONSUMER_HEARTBEAT_INTERVAL}"
    return ""
