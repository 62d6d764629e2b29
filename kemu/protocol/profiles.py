"""Releases as (defaults, message versions, assignors): the behaviour and the settings of a cluster of that release.

A profile changes the values given to machines, never their code: decisions that differ between releases are values in
the profile. The designs of the KIPs' pages are also profiles.
"""

from collections.abc import Mapping, Sequence

from attrs import field

from kemu.protocol.assign.base import Assignor, RebalanceProtocol
from kemu.protocol.assign.cooperative import (
    COOPERATIVE_STICKY_2_4,
    COOPERATIVE_STICKY_2_6,
    COOPERATIVE_STICKY_2_8,
    COOPERATIVE_STICKY_3_0,
    COOPERATIVE_STICKY_3_4,
    COOPERATIVE_STICKY_3_7,
)
from kemu.protocol.assign.range import RANGE_BEFORE_3_5
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.assign.sticky import STICKY_2_4, STICKY_2_6, STICKY_2_8, STICKY_3_0, STICKY_3_4, STICKY_3_7
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ProducerConfig
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.messages.versions import (
    KAFKA_2_3,
    KAFKA_2_4,
    KAFKA_2_6,
    KAFKA_2_8,
    KAFKA_3_0,
    KAFKA_3_4,
    KAFKA_3_7,
    KAFKA_4_2,
    LATEST,
    SpokenVersions,
)
from kemu.protocol.metadata_rules import METADATA_2_3, METADATA_2_4, METADATA_2_8, METADATA_3_7, MetadataRules
from kemu.protocol.rebalancing.client_rules import (
    CLIENT_2_4,
    CLIENT_2_6,
    CLIENT_2_7,
    CLIENT_3_2,
    CLIENT_3_7,
    CLIENT_3_9,
    CLIENT_4_0,
    CLIENT_4_1,
    CLIENT_4_2,
)
from kemu.protocol.rebalancing.kip_429 import page_rules
from kemu.protocol.rebalancing.rules import MemberRules, RulesOf, by_assignors, of_client
from kemu.protocol.replication import IsrPath, ReassignmentAlgorithm, Truncation
from kemu.protocol.streams.releases import (
    STREAMS_2_3,
    STREAMS_2_4,
    STREAMS_2_6,
    STREAMS_2_8,
    STREAMS_3_0,
    STREAMS_3_4,
    STREAMS_OF_PAGE,
    StreamsRelease,
)


@frozen
class Profile:
    """The defaults, message versions, assignors and rules of one release or design."""

    name: str
    summary: str
    release: tuple[int, int]
    """Kafka's major and minor version, for comparisons between releases."""
    versions: SpokenVersions = LATEST
    """The message versions of the release's clients, and the newest versions that its brokers understand."""
    consumer: ConsumerConfig = field(factory=ConsumerConfig)
    broker: BrokerConfig = field(factory=BrokerConfig)
    producer: ProducerConfig = field(factory=ProducerConfig)
    assignors: Mapping[str, Assignor] = field(factory=lambda: ASSIGNORS)
    rules_of: RulesOf = by_assignors
    """The function that derives a member's rebalance rules from its configuration."""
    reassignment: ReassignmentAlgorithm = ReassignmentAlgorithm.KIP_435
    """The algorithm that moves partitions. KIP-435 never shipped; without limits it is equal to KIP-455,
    which shipped.
    """
    isr_path: IsrPath = IsrPath.CONTROLLER
    """The role that changes an ISR: the controller since inter.broker.protocol.version 2.7, the leader before 2.7.

    The agreed protocol version determines all messages between brokers, not the release of each broker.
    """
    truncation: Truncation = Truncation.ON_FETCH
    """The way in which a new follower finds the offset to truncate to.

    Since inter.broker.protocol.version 2.7 the answer to a Fetch contains the offset.
    """
    topic_ids: bool = True
    """Whether a broker recognizes a leftover log of a deleted and recreated topic: since 3.0 (KIP-516).

    Release 2.8 does not check logs that a broker finds at its start.
    """
    tells_topic_ids: bool = True
    """Whether brokers send the ids of topics to clients: since inter.broker.protocol.version 2.8 (KIP-516)."""
    waits_twice_for_lost_fetches: bool = False
    """Whether followers wait two back-offs after a fetch without an answer: up to 3.0 (KAFKA-8529)."""
    min_isr_holds_watermark: bool = True
    """Whether high watermarks stop while ISRs are smaller than ``min.insync.replicas``: since 3.7 (KAFKA-15583)."""
    checks_fetch_epoch: bool = True
    """Whether followers ignore answers to fetches of an earlier leader epoch: since 3.9.1 and 4.0.1 (KAFKA-18991)."""
    refuses_unassigned: bool = True
    """Whether leaders refuse fetches from brokers that are not replicas of the partition: since 3.3.0 (KAFKA-13837)."""
    balances_while_reassigning: bool = True
    """Whether leadership returns to preferred replicas while partitions are reassigned: since 3.4.0 (KAFKA-10149)."""
    metadata: MetadataRules = METADATA_3_7
    """The use of leader epochs by its clients."""
    streams: StreamsRelease = STREAMS_3_4
    """The behaviour of Kafka Streams instances."""


def _by_assignors_unprepared(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
    """The rules with KAFKA-12983: a member that is removed from the group while it joins keeps its partitions."""
    return evolve(by_assignors(config, assignors), prepare_after_reset=False)


DEFAULT_PROFILE = "kafka-3.4"

_FLAT = 0
"""``retry.backoff.max.ms`` before KIP-580 (3.7): no limit; every wait is ``retry.backoff.ms``."""
_BEFORE_3_0 = ConsumerConfig(
    session_timeout_ms=10_000, retry_backoff_max_ms=_FLAT, partition_assignment_strategy=("range",)
)
"""The defaults of ``ConsumerConfig`` 2.8: session timeout 10 s (45 s since KIP-735), ``range`` alone.

Release 3.0 added ``cooperative-sticky``.
"""


def _assignors(*own: Assignor) -> Mapping[str, Assignor]:
    return {**ASSIGNORS, **{assignor.name: assignor for assignor in own}}


_OF_3_7 = _assignors(STICKY_3_7, COOPERATIVE_STICKY_3_7)
"""The assignors of 3.7: a member keeps the partitions that it lists first in its claim (KAFKA-16277 sorts them)."""
_OF_3_4 = _assignors(RANGE_BEFORE_3_5, STICKY_3_4, COOPERATIVE_STICKY_3_4)
"""The assignors of 3.4, which also ignore racks (KIP-881, 3.5)."""
_OF_3_0 = _assignors(RANGE_BEFORE_3_5, STICKY_3_0, COOPERATIVE_STICKY_3_0)
"""The assignors of 3.0: only claims of the highest generation are valid (KAFKA-14639)."""
_OF_2_8 = _assignors(RANGE_BEFORE_3_5, STICKY_2_8, COOPERATIVE_STICKY_2_8)
"""The assignors of 2.8: members keep partitions up to the higher quota, unless other members need them (KAFKA-9987)."""
_OF_2_6 = _assignors(RANGE_BEFORE_3_5, STICKY_2_6, COOPERATIVE_STICKY_2_6)
_OF_2_4 = _assignors(RANGE_BEFORE_3_5, STICKY_2_4, COOPERATIVE_STICKY_2_4)
"""The assignors of 2.4: each partition is assigned and moved singly, even with equal subscriptions (KAFKA-9987)."""

_KIP_429_PAGE = Profile(
    "kip-429-v99",
    "KIP-429 as on its page before it shipped: rebalance.protocol, V0 and V1 subscriptions, Streams with "
    "learners, on Kafka 2.3",
    (2, 3),
    versions=KAFKA_2_3,
    consumer=_BEFORE_3_0,
    broker=BrokerConfig(coordinator_kind="scala-2.4"),
    producer=ProducerConfig(acks=1, enable_idempotence=False, retry_backoff_max_ms=_FLAT),
    rules_of=of_client(CLIENT_3_2, page_rules),
    isr_path=IsrPath.STORE,
    truncation=Truncation.MULTI_ROUND,
    topic_ids=False,
    tells_topic_ids=False,
    waits_twice_for_lost_fetches=True,
    min_isr_holds_watermark=False,
    checks_fetch_epoch=False,
    refuses_unassigned=False,
    balances_while_reassigning=False,
    reassignment=ReassignmentAlgorithm.ALL_AT_ONCE,
    metadata=METADATA_2_3,
    streams=STREAMS_OF_PAGE,
)

_EAGER_ASSIGNORS: Mapping[str, Assignor] = {
    name: assignor for name, assignor in _OF_2_4.items() if RebalanceProtocol.COOPERATIVE not in assignor.protocols
}

_KAFKA_2_3 = evolve(
    _KIP_429_PAGE,
    name="kafka-2.3",
    summary="Kafka 2.3: eager only, subscription v0; Streams with the sticky task assignor",
    assignors=_EAGER_ASSIGNORS,
    rules_of=of_client(CLIENT_2_4),
    streams=STREAMS_2_3,
)

_KAFKA_2_4 = Profile(
    "kafka-2.4",
    "Kafka 2.4: KIP-429 as it shipped; subscription v1, no generation anywhere; session.timeout.ms 10000; "
    "Streams with the sticky task assignor, cooperatively",
    (2, 4),
    versions=KAFKA_2_4,
    consumer=_BEFORE_3_0,
    broker=BrokerConfig(coordinator_kind="scala-2.4"),
    producer=ProducerConfig(acks=1, enable_idempotence=False, retry_backoff_max_ms=_FLAT),
    assignors=_OF_2_4,
    rules_of=of_client(CLIENT_2_4),
    isr_path=IsrPath.STORE,
    truncation=Truncation.MULTI_ROUND,
    topic_ids=False,
    tells_topic_ids=False,
    waits_twice_for_lost_fetches=True,
    min_isr_holds_watermark=False,
    checks_fetch_epoch=False,
    refuses_unassigned=False,
    balances_while_reassigning=False,
    metadata=METADATA_2_4,
    streams=STREAMS_2_4,
)

_KAFKA_3_4 = Profile(
    "kafka-3.4",
    "Kafka 3.4: with KIP-792 (subscription v3), the Scala coordinator",
    (3, 4),
    versions=KAFKA_3_4,
    consumer=ConsumerConfig(retry_backoff_max_ms=_FLAT),
    broker=BrokerConfig(coordinator_kind="scala"),
    producer=ProducerConfig(retry_backoff_max_ms=_FLAT),
    assignors=_OF_3_4,
    rules_of=of_client(CLIENT_3_2),
    min_isr_holds_watermark=False,
    checks_fetch_epoch=False,
    metadata=METADATA_2_8,
)

_KAFKA_4_0 = Profile(
    "kafka-4.0",
    "Kafka 4.0: the Java coordinator, newest messages; classic groups, and groups of the consumer protocol",
    (4, 0),
    rules_of=of_client(CLIENT_4_0),
)
_KAFKA_4_2 = evolve(
    _KAFKA_4_0,
    name="kafka-4.2",
    release=(4, 2),
    versions=KAFKA_4_2,
    summary="Kafka 4.2: fenced members of the consumer protocol rejoin at once; an ended subscription revokes at once; "
    "the coordinator appends without delay",
    broker=BrokerConfig(coordinator_kind="java-4.2", group_coordinator_append_linger_ms=-1),
    rules_of=of_client(CLIENT_4_2),
)

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        _KIP_429_PAGE,
        _KAFKA_2_3,
        _KAFKA_2_4,
        evolve(
            _KAFKA_2_4,
            name="kafka-2.4-unfixed",
            summary="kafka-2.4 with its bug KAFKA-12983: members removed while they join keep their partitions",
            rules_of=of_client(CLIENT_2_4, _by_assignors_unprepared),
        ),
        evolve(
            _KAFKA_2_4,
            name="kafka-2.6",
            release=(2, 6),
            summary="Kafka 2.6: as 2.4 with JoinGroup v7; Streams with KIP-441's high-availability task assignor",
            versions=KAFKA_2_6,
            assignors=_OF_2_6,
            broker=BrokerConfig(coordinator_kind="scala-2.6"),
            rules_of=of_client(CLIENT_2_6),
            streams=STREAMS_2_6,
        ),
        evolve(
            _KAFKA_2_4,
            name="kafka-2.8",
            release=(2, 8),
            summary="Kafka 2.8 (2.8.1 on): polls return records during joins; the coordinator waits for syncs with a "
            "timer; ISRs through the controller; cooperative-sticky sends the generation in its user data",
            versions=KAFKA_2_8,
            broker=BrokerConfig(coordinator_kind="scala-2.8"),
            assignors=_OF_2_8,
            rules_of=of_client(CLIENT_2_7),
            isr_path=IsrPath.CONTROLLER,
            truncation=Truncation.ON_FETCH,
            tells_topic_ids=True,
            metadata=METADATA_2_8,
            streams=STREAMS_2_8,
        ),
        Profile(
            "kafka-3.0",
            "Kafka 3.0: session.timeout.ms 45000, acks=all; subscription v1, the generation in user data",
            (3, 0),
            versions=KAFKA_3_0,
            consumer=ConsumerConfig(retry_backoff_max_ms=_FLAT),
            broker=BrokerConfig(coordinator_kind="scala-2.8"),
            producer=ProducerConfig(retry_backoff_max_ms=_FLAT),
            assignors=_OF_3_0,
            rules_of=of_client(CLIENT_2_7),
            waits_twice_for_lost_fetches=True,
            min_isr_holds_watermark=False,
            checks_fetch_epoch=False,
            refuses_unassigned=False,
            balances_while_reassigning=False,
            metadata=METADATA_2_8,
            streams=STREAMS_3_0,
        ),
        _KAFKA_3_4,
        evolve(
            _KAFKA_3_4,
            name="kafka-3.4-unfixed",
            summary="kafka-3.4 with the bug KAFKA-12983 of older clients: how KIP-792 treats stale claims",
            rules_of=of_client(CLIENT_3_2, _by_assignors_unprepared),
        ),
        evolve(
            _KAFKA_3_4,
            name="kip-333",
            summary="kafka-3.4 with the mode of KIP-333's page, which never shipped: enable.parallel.rebalance",
            consumer=evolve(_KAFKA_3_4.consumer, enable_parallel_rebalance=True),
        ),
        Profile(
            "kafka-3.7",
            "Kafka 3.7: as 3.4 with KIP-580's exponential back-off, and errors that name the new leader (KIP-951)",
            (3, 7),
            versions=KAFKA_3_7,
            broker=BrokerConfig(coordinator_kind="scala"),
            assignors=_OF_3_7,
            rules_of=of_client(CLIENT_3_7),
            checks_fetch_epoch=False,
        ),
        Profile(
            "kafka-3.9",
            "Kafka 3.9: sticky assignors sort the partitions a member keeps (KAFKA-16277); still the Scala coordinator",
            (3, 9),
            broker=BrokerConfig(coordinator_kind="scala"),
        ),
        _KAFKA_4_0,
        evolve(
            _KAFKA_4_0,
            name="kafka-4.1",
            release=(4, 1),
            summary="Kafka 4.1: coordinators match patterns again after an interval; consumers ask for topics by id",
            broker=BrokerConfig(coordinator_kind="java-4.1"),
            rules_of=of_client(CLIENT_4_1),
        ),
        _KAFKA_4_2,
        evolve(
            _KAFKA_4_2,
            name="kafka-4.3",
            release=(4, 3),
            summary="Kafka 4.3: at least a second between two targets of a group; commits with an older member epoch "
            "are accepted for partitions of that epoch",
            broker=evolve(_KAFKA_4_2.broker, coordinator_kind="java-4.3"),
            rules_of=of_client(CLIENT_3_9),
        ),
    )
}
"""All profiles by name. ``GroupRules`` lists the differences between the two coordinators."""
