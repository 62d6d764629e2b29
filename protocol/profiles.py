"""Releases as (defaults, message versions, assignors): what a cluster of that release says and how it is set.

A profile changes what machines are given, never what they are: decisions that differ between releases are values in
it. The KIP pages' own designs are profiles beside the releases.
"""

from collections.abc import Mapping

from attrs import field, frozen

from protocol.assign.base import Assignor
from protocol.assign.registry import ASSIGNORS
from protocol.config import BrokerConfig, ConsumerConfig, ProducerConfig
from protocol.versions import KAFKA_2_4, KAFKA_3_4, LATEST, ApiVersions


@frozen
class Profile:
    """One row of ``PROFILES``."""

    name: str
    summary: str
    versions: ApiVersions = LATEST
    consumer: ConsumerConfig = ConsumerConfig()
    broker: BrokerConfig = BrokerConfig()
    producer: ProducerConfig = ProducerConfig()
    assignors: Mapping[str, Assignor] = field(factory=lambda: ASSIGNORS)


DEFAULT_PROFILE = "kafka-3.4"

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "kafka-2.4",
            "Kafka 2.4: KIP-429 as it shipped; subscription v1, no generation in it; session.timeout.ms 10000",
            versions=KAFKA_2_4,
            consumer=ConsumerConfig(session_timeout_ms=10_000),
            broker=BrokerConfig(coordinator_kind="scala"),
            producer=ProducerConfig(acks=1, enable_idempotence=False),
        ),
        Profile(
            "kafka-3.4",
            "Kafka 3.4: with KIP-792 (subscription v3), the Scala coordinator",
            versions=KAFKA_3_4,
            broker=BrokerConfig(coordinator_kind="scala"),
        ),
        Profile("kafka-4.0", "Kafka 4.0's classic groups on the Java coordinator, newest messages"),
    )
}
"""By name. The differences of the two coordinators are listed with ``GroupRules``."""
