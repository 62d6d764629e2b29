"""Replication in a scenario: factor, ISR, session of the metadata store, lag."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field

from kemu.actors.broker.rules import ReplicaRules
from kemu.actors.controller.rules import ControllerRules
from kemu.emulator.past_bugs import applying
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.text.kafka_keys import Settings, configured, lenient_settings
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import microseconds
from kemu.protocol.config import ControllerConfig, ReplicaConfig
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.profiles import Profile
from kemu.protocol.reassign.moves import Limits
from kemu.protocol.replication import IsrPath, ReassignmentAlgorithm

DEFAULTS = ReplicaConfig()
CONTROL = ControllerConfig()


def _replica_settings(given: Mapping[str, Any] | Settings) -> Settings:
    return lenient_settings(ReplicaConfig, given)


def _controller_settings(given: Mapping[str, Any] | Settings) -> Settings:
    return lenient_settings(ControllerConfig, given)


@frozen(kw_only=True)
class ReplicationSpec:
    """Replicated brokers, with a metadata store ``zk`` and a controller part in each broker.

    ``min_isr`` and ``unclean`` apply to topics without settings of their own. The store expires a broker's session
    after ``session_us`` without a message. A leader removes a follower from the ISR after ``lag_us``. For ``isr_path``
    and ``reassignment`` see ``IsrPath`` and ``ReassignmentAlgorithm``. In a ``new_cluster`` the first FindCoordinator
    creates ``__consumer_offsets``.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    factor: int = field(
        default=3,
        metadata=key(
            "number of replicas of each partition",
            at_least=1,
            at_most=1_000,
            shown="3, or the number of brokers if less",
            always=True,
            short=True,
        ),
    )
    min_isr: int = field(
        default=1,
        metadata=key(
            "min.insync.replicas of every topic",
            at_least=1,
            at_most=1_000,
            short=True,
            kafkas=("min.insync.replicas", ""),
        ),
    )
    unclean: bool = field(
        default=False,
        metadata=key(
            "unclean.leader.election.enable of every topic", short=True, kafkas=("unclean.leader.election.enable", "")
        ),
    )
    session_us: int = field(
        default=CONTROL.zookeeper_session_timeout_ms * 1_000,
        converter=microseconds,
        metadata=key(
            "zookeeper.session.timeout.ms", at_least=1, short=True, kafkas=("zookeeper.session.timeout.ms", "ms")
        ),
    )
    lag_us: int = field(
        default=DEFAULTS.replica_lag_time_max_ms * 1_000,
        converter=microseconds,
        metadata=key("replica.lag.time.max.ms", at_least=1, short=True, kafkas=("replica.lag.time.max.ms", "ms")),
    )
    isr_path: str = field(
        default="",
        metadata=key(
            'writer of ISR changes: "store" (the leader writes, to 2.6) or "controller" (AlterIsr, 2.7, KIP-497)',
            choices=lambda: ("", *IsrPath),
            what="way to change an ISR",
            shown="that of the release",
            short=True,
        ),
    )
    reassignment: str = field(
        default="",
        metadata=key(
            'algorithm of reassignments: "all-at-once" (to 2.3), "kip-455" (2.4), "kip-435" (in batches, if limited)',
            choices=lambda: ("", *ReassignmentAlgorithm),
            what="way to reassign",
            shown="that of the release",
            short=True,
        ),
    )
    new_cluster: bool = field(
        default=False, metadata=key("whether the first FindCoordinator creates __consumer_offsets", short=True)
    )
    config: Settings = field(
        default=(), converter=_replica_settings, metadata=key("Kafka's keys of replicas", config=ReplicaConfig)
    )
    controller: Settings = field(
        default=(), converter=_controller_settings, metadata=key("Kafka's keys of controllers", config=ControllerConfig)
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
        if self.min_isr > self.factor:
            text = f"must not exceed the replication factor ({self.factor})"
            raise ScenarioError([Problem(("min_isr",), text)])

    def replica_config(self) -> ReplicaConfig:
        """Return the configuration of each broker's replicas."""
        named = {
            "min_insync_replicas": self.min_isr,
            "replica_lag_time_max_ms": self.lag_us // 1_000,
            "offsets_topic_replication_factor": self.factor,
        }
        return configured(DEFAULTS, (*named.items(), *self.config))

    def controller_config(self) -> ControllerConfig:
        """Return the configuration of each broker's controller part."""
        named = {
            "zookeeper_session_timeout_ms": self.session_us // 1_000,
            "unclean_leader_election_enable": self.unclean,
            "default_replication_factor": self.factor,
        }
        return configured(CONTROL, (*named.items(), *self.controller))

    def replica_rules(
        self, release: Profile, protocol: Profile, bugs: Sequence[str] = (), mended: Sequence[str] = ()
    ) -> ReplicaRules:
        """Return the rules of a release under this inter-broker protocol, with these settings and past bugs."""
        rules = applying.replica_rules_of(release, protocol)
        if self.isr_path:
            rules = evolve(rules, isr_path=IsrPath(self.isr_path))
        return applying.replica_rules(rules, bugs, mended)

    def controller_rules(
        self, release: Profile, protocol: Profile, bugs: Sequence[str] = (), mended: Sequence[str] = ()
    ) -> ControllerRules:
        """Return the rules of a release under this inter-broker protocol, with these settings and past bugs."""
        rules = applying.controller_rules_of(release, protocol)
        return applying.controller_rules(evolve(rules, reassignment=self.reassigns(release)), bugs, mended)

    def limits(self) -> Limits | None:
        """Return the initial limits of reassignments; None if the algorithm has no limits."""
        if self.reassignment == ReassignmentAlgorithm.KIP_455:
            return None
        config = self.controller_config()
        return Limits(
            config.reassignment_max_concurrent_replica_movements,
            config.reassignment_max_concurrent_partition_movements,
            config.reassignment_max_concurrent_leader_movements,
        )

    def reassigns(self, profile: Profile) -> ReassignmentAlgorithm:
        """Return the algorithm by which controllers reassign partitions."""
        return ReassignmentAlgorithm(self.reassignment) if self.reassignment else profile.reassignment
