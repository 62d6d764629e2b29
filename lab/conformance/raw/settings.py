"""Settings of a real broker, with which raw sequences take only seconds, and the same settings for the machine."""

from collections.abc import Mapping

from attrs import evolve

from kemu.protocol.config import GROUP_PROTOCOLS, MIGRATION_POLICIES, BrokerConfig
from lab.conformance.maven import RealKafkaError
from lab.conformance.raw.drawing import DELAY_MS, MIN_SESSION_MS, Versions
from lab.conformance.real_broker import release_of

FIRST = (2, 4)
FIRST_WITH_CONSUMERS = (4, 0)
ASSIGNMENT_INTERVAL_SINCE = (4, 3)
CONSUMER_SESSION_MS, CONSUMER_INTERVAL_MS, ASSIGNMENT_INTERVAL_MS, MOST_CONSUMERS = 2_000, 400, 300, 4
CLASSIC = GROUP_PROTOCOLS[0]
MIXED = "mixed"
"""Members of both protocols in one group."""
PROTOCOLS = (*GROUP_PROTOCOLS, MIXED)
SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": str(DELAY_MS),
    "group.min.session.timeout.ms": str(MIN_SESSION_MS),
    "offsets.topic.num.partitions": "1",
}
_VERSIONS: Mapping[tuple[int, ...], Versions] = {
    (2, 4): Versions(join=(0, 6), sync=(0, 4), leave=(0, 4), fetch=(1, 6)),
    (2, 5): Versions(join=(0, 7), leave=(0, 4)),
    (3, 2): Versions(),
    (3, 6): Versions(commit=(2, 9)),
    (4, 0): Versions(join=(2, 9), commit=(2, 9), fetch=(1, 9), describe=(0, 6), list_groups=(0, 5)),
    (4, 1): Versions(join=(2, 9), commit=(2, 10), fetch=(1, 10), describe=(0, 6), list_groups=(0, 5)),
}
"""First release -> versions that brokers support from this release on. Source: the message schemas of the releases'
tags. KIP-800 added JoinGroup v8 and LeaveGroup v5, KIP-814 added JoinGroup v9 (both 3.2), KIP-848 added OffsetCommit v9
(3.6), KIP-1043 DescribeGroups v6 (4.0), and KIP-896 removed JoinGroup v0 and v1. OffsetCommit and OffsetFetch v10 have
topic ids (4.1)."""


CONSUMER_SETTINGS: Mapping[str, str] = {
    **SETTINGS,
    "group.coordinator.append.linger.ms": "0",
    "group.consumer.session.timeout.ms": str(CONSUMER_SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": str(CONSUMER_INTERVAL_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.max.size": str(MOST_CONSUMERS),
}
"""The settings for sequences of the consumer protocol."""


def broker_settings(release: str, protocol: str, policy: str = MIGRATION_POLICIES[0]) -> Mapping[str, str]:
    """The settings of a real broker. ``policy``: ``group.consumer.migration.policy``.

    Raises:
        RealKafkaError: the release is too old for the protocol.
    """
    if protocol == CLASSIC:
        return SETTINGS
    number = release_of(release)
    if number < FIRST_WITH_CONSUMERS:
        raise RealKafkaError(f"Kafka {release} has no consumer protocol by default: 4.0 is the first that has it")
    settings = {**CONSUMER_SETTINGS, "group.consumer.migration.policy": policy}
    if number < ASSIGNMENT_INTERVAL_SINCE:
        return settings
    return {**settings, "group.consumer.assignment.interval.ms": str(ASSIGNMENT_INTERVAL_MS)}


def broker_config(base: BrokerConfig, protocol: str = CLASSIC, policy: str = MIGRATION_POLICIES[0]) -> BrokerConfig:
    """Configuration of the machine, equal to ``broker_settings``."""
    if protocol != CLASSIC:
        base = evolve(
            base,
            group_coordinator_append_linger_ms=0,
            group_consumer_session_timeout_ms=CONSUMER_SESSION_MS,
            group_consumer_heartbeat_interval_ms=CONSUMER_INTERVAL_MS,
            group_consumer_assignment_interval_ms=ASSIGNMENT_INTERVAL_MS,
            group_consumer_max_size=MOST_CONSUMERS,
            group_consumer_migration_policy=policy,
        )
    return evolve(
        base,
        group_initial_rebalance_delay_ms=DELAY_MS,
        group_min_session_timeout_ms=MIN_SESSION_MS,
        offsets_topic_num_partitions=1,
    )


def versions_of(release: str) -> Versions:
    """Versions of the requests to a release.

    Raises:
        RealKafkaError: the release is too old.
    """
    number = release_of(release)
    if number < FIRST:
        raise RealKafkaError(f"Kafka {release} cannot be asked: 2.4 is the first that can")
    return _VERSIONS[max(since for since in _VERSIONS if since <= number)]
