"""The settings in force: those of a scenario, its release and its upgrades, for members, producers and brokers."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from kemu.actors.coordinator.rules import rules_of_kind
from kemu.emulator.facts import BrokerReconfigured, HostStarted, MemberHostAdded, MemberReconfigured, RunStarted, Seen
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, upgraded_to
from kemu.emulator.text.kafka_keys import configured
from kemu.emulator.watching.group_times import GroupTimes, times_of
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ControllerConfig, ReplicaConfig, StreamsConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName, GroupId, host_of, role_of
from kemu.protocol.profiles import PROFILES, Profile
from kemu.protocol.streams.releases import consumer_of_streams

if TYPE_CHECKING:
    from kemu.emulator.scenario.scenario import Scenario

T = TypeVar("T")


class Settings:
    """The settings of a scenario in a release. A checker that reads these settings shows its facts to the handlers
    ``on``.
    """

    def __init__(self, scenario: "Scenario", profile: str) -> None:
        self.scenario = scenario
        self.release = PROFILES[profile]
        """The release, or KIP page, of every member and broker without a release of its own."""
        self._profile = profile
        self._group_of = {host: group for host, group, _ in scenario.member_names()}
        hosts_of = scenario.hosts_of_groups()
        self._members = {
            host: group.overrides.get(host, AS_ITS_GROUP)
            for name, group in scenario.groups.items()
            for host in (*group.overrides, *hosts_of[name])
        }
        self._consumers: dict[str, ConsumerConfig] = {}
        self._brokers: dict[str, str] = {}
        """Upgraded broker -> release."""
        self._next_members: dict[str, MemberSpec] = {}
        self._next_brokers: dict[str, str] = {}
        """Settings of a host's next life. Until its end, a process that closes has its former settings."""
        self.broker = configured(BrokerConfig(), scenario.brokers.config)
        self.producer = configured(PROFILES[profile].producer, scenario.producers)
        replication = scenario.brokers.replication
        self.replicated = replication is not None
        """Whether brokers replicate partitions."""
        self.replicas = ReplicaConfig() if replication is None else replication.replica_config()
        self.controller = ControllerConfig() if replication is None else replication.controller_config()
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            RunStarted: self._started,
            MemberHostAdded: self._added,
            MemberReconfigured: self._reconfigured,
            BrokerReconfigured: self._broker_reconfigured,
            HostStarted: self._host_started,
        }

    @cached_property
    def times(self) -> dict[GroupId, GroupTimes]:
        """Group -> longest times that the group's settings allow."""
        rules = rules_of_kind(self.release.broker.coordinator_kind)
        return times_of(self.scenario, spaces_targets=rules.consumer_groups.spaces_targets)

    def classic_members_follow_target(self, coordinator: ActorName) -> bool:
        """``ConsumerGroupRules.classic_members_follow_target`` of a coordinator's release."""
        rules = rules_of_kind(self.broker_profile(coordinator).broker.coordinator_kind)
        return rules.consumer_groups.classic_members_follow_target

    def refuses_syncs_while_loading(self, coordinator: ActorName) -> bool:
        """Whether a coordinator's release answers SyncGroup with COORDINATOR_LOAD_IN_PROGRESS while its log loads."""
        rules = rules_of_kind(self.broker_profile(coordinator).broker.coordinator_kind)
        return rules.sync_while_loading is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    @property
    def streams(self) -> dict[GroupId, StreamsConfig]:
        """The settings of the Streams applications."""
        groups = self.scenario.groups.items()
        return {name: group.streams.settings for name, group in groups if group.streams is not None}

    def by_member(self, setting: Callable[[ConsumerConfig], T]) -> dict[str, T]:
        """A setting at the start by group, and by host for members with a different setting.

        The result omits Streams applications, because Streams configures its consumers itself.
        """
        found: dict[str, T] = {}
        for name, group in self.scenario.groups.items():
            if group.streams is None:
                found[name] = setting(group.consumer(name, "", 0))
                for host, own in group.overrides.items():
                    found[host] = setting(group.consumer(name, host, 0, member=own))
        return found

    def _started(self, seen: Seen, fact: RunStarted) -> None:
        self._group_of.update(fact.members)

    def _added(self, seen: Seen, fact: MemberHostAdded) -> None:
        self._group_of[fact.host] = fact.group

    def _reconfigured(self, seen: Seen, fact: MemberReconfigured) -> None:
        own = self._next_members.get(fact.host) or self._members.get(fact.host, AS_ITS_GROUP)
        self._next_members[fact.host] = own.then(upgraded_to(fact.profile, fact.assignors, fact.settings))

    def _broker_reconfigured(self, seen: Seen, fact: BrokerReconfigured) -> None:
        self._next_brokers[fact.host] = fact.profile

    def _host_started(self, seen: Seen, fact: HostStarted) -> None:
        if fact.host in self._next_members:
            self._members[fact.host] = self._next_members.pop(fact.host)
            self._consumers.pop(fact.host, None)
        if fact.host in self._next_brokers:
            self._brokers[fact.host] = self._next_brokers.pop(fact.host)

    def group_of(self, actor: ActorName) -> str:
        """The group of a member; "" for other actors."""
        return self._group_of.get(host_of(actor), "")

    def is_streams(self, actor: ActorName) -> bool:
        """Whether a member is a thread of a Streams application."""
        group = self.scenario.groups.get(self.group_of(actor))
        return group is not None and group.streams is not None

    def streams_commit_us(self, actor: ActorName) -> int:
        """``commit.interval.ms`` of the member's Streams application, in us; 0 for a member outside of Streams."""
        group = self.scenario.groups.get(self.group_of(actor))
        return 0 if group is None or group.streams is None else group.streams.settings.commit_interval_ms * 1_000

    def consumer(self, actor: ActorName) -> ConsumerConfig | None:
        """A member's configuration; None for other actors. A change applies from the member's next life on."""
        host = host_of(actor)
        found = self._consumers.get(host)
        if found is None:
            name = self._group_of.get(host, "")
            group = self.scenario.groups.get(name)
            if group is None:
                return None
            member: MemberSpec = self._members.get(host, AS_ITS_GROUP)
            defaults = self.profile(actor).consumer
            if group.streams is not None:
                defaults = consumer_of_streams(defaults)
            found = self._consumers[host] = group.consumer(name, host, 0, defaults, member)
        return found

    def first_record_us(self, topic: str) -> int:
        """Time in us until the topic's producer has a whole record for some partition; 0 without a producer.

        The plan may change the rate.
        """
        spec = self.scenario.topics.get(topic)
        if spec is None or not spec.records_per_s:
            return 0
        part, whole = spec.share_of_busiest()
        return max(1, 1_000_000 * whole // (spec.records_per_s * part))

    def profile(self, actor: ActorName) -> Profile:
        """The release, or KIP page, of a member."""
        member: MemberSpec = self._members.get(host_of(actor), AS_ITS_GROUP)
        return PROFILES[member.profile or self._profile]

    def broker_profile(self, actor: ActorName) -> Profile:
        """The release of a broker."""
        host = host_of(actor)
        return PROFILES[self._brokers.get(host) or self.scenario.brokers.profile_of(host) or self._profile]

    def request_us(self, actor: ActorName) -> int:
        """The request timeout of a client, in us."""
        match role_of(actor):
            case "member":
                config = self.consumer(actor)
                return 60_000_000 if config is None else config.request_timeout_ms * 1_000
            case "producer":
                return self.producer.request_timeout_ms * 1_000
            case "controller":
                return self.controller.controller_socket_timeout_ms * 1_000
            case "broker":
                return self.replicas.replica_socket_timeout_ms * 1_000
            case _:
                return 60_000_000
