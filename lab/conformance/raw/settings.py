"""Settings of a real broker, with which raw sequences take only seconds, and the same settings for the machine."""

from collections.abc import Mapping

from attrs import evolve

from kemu.protocol.config import BrokerConfig
from lab.conformance.maven import RealKafkaError
from lab.conformance.raw.drawing import DELAY_MS, MIN_SESSION_MS, Versions
from lab.conformance.real_broker import release_of

FIRST = (2, 4)
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
    (4, 0): Versions(join=(2, 9), commit=(2, 9)),
}
"""First release -> versions that brokers support from this release on. Source: the message schemas of the releases'
tags. KIP-800 added JoinGroup v8 and LeaveGroup v5, KIP-814 added JoinGroup v9 (both 3.2), KIP-848 added OffsetCommit v9
(3.6), and KIP-896 removed JoinGroup v0 and v1."""


def broker_config(base: BrokerConfig) -> BrokerConfig:
    """Configuration of the machine, equal to ``SETTINGS``."""
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
