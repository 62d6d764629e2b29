"""A scenario: what the cluster is, what disturbs it, and what must hold. The same in Python and in a TOML file.

A ``Scenario`` is a frozen value; ``to_dict`` gives the plain form that files are written in and traces record, and
``emulator.scenario.reading`` reads it back to an equal value.
"""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from kemu.emulator.plan.actions import CreateTopic
from kemu.emulator.plan.entries import Plan, plan_to_dicts
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, member_dict
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.text.kafka_keys import Settings, as_settings, assignor_names, configured, settings_dict
from kemu.emulator.text.units import duration_text
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ProducerConfig
from kemu.protocol.names import broker_host, consumer_host, producer_host

EARLIEST = ConsumerConfig(auto_offset_reset="earliest")
"""The defaults of members. Only ``auto.offset.reset`` differs from Kafka's ("latest"): under "latest" a member that
starts after the producers passes over what they appended before its first commit, and no checker could tell these
records from lost ones. A scenario about that very trap sets ``auto.offset.reset = "latest"``."""


@frozen(kw_only=True)
class TopicSpec:
    """A topic, and the load its producer puts on it (over all partitions; 0 = no producer).

    ``replication_factor``, ``min_isr``, ``unclean``: where brokers replicate; None = as they do (``ReplicationSpec``).
    """

    partitions: int
    records_per_s: int = 10
    record_bytes: int = 1_000
    replication_factor: int | None = None
    min_isr: int | None = None
    unclean: bool | None = None


def _consumer_settings(given: Any) -> Settings:
    return as_settings(ConsumerConfig, given)


def _broker_settings(given: Any) -> Settings:
    return as_settings(BrokerConfig, given)


def _producer_settings(given: Any) -> Settings:
    return as_settings(ProducerConfig, given)


@frozen(kw_only=True)
class GroupSpec:
    """A consumer group: its members are configured alike.

    ``static``: members have ``group.instance.id`` = their host's name. ``racks``: members take turns. The first member
    starts at ``start_us``, the last one ``start_spread_us`` later, the others evenly between. ``config`` is written
    with Kafka's keys. ``overrides``: host -> what that member has otherwise.
    """

    topics: tuple[str, ...]
    members: int = 3
    assignors: tuple[str, ...] = field(default=("range",), converter=assignor_names)
    static: bool = False
    racks: tuple[str, ...] = ()
    start_us: int = 0
    start_spread_us: int = 0
    config: Settings = field(default=(), converter=_consumer_settings)
    overrides: Mapping[str, MemberSpec] = field(factory=dict)

    def start_of(self, number: int) -> int:
        """When the member with this number (0 = first) starts, in microseconds of the world."""
        return self.start_us + (self.start_spread_us * number // (self.members - 1) if self.members > 1 else 0)

    def consumer(
        self,
        group: str,
        host: str,
        number: int,
        defaults: ConsumerConfig = EARLIEST,
        member: MemberSpec = AS_ITS_GROUP,
    ) -> ConsumerConfig:
        """The configuration of one member (number 0 = first); ``defaults`` are a release's, ``member`` its own."""
        assignors = member.assignors or self.assignors
        named: dict[str, Any] = {"group_id": group, "client_id": host, "partition_assignment_strategy": assignors}
        if self.static:
            named["group_instance_id"] = host
        if self.racks:
            named["client_rack"] = self.racks[number % len(self.racks)]
        return configured(defaults, (*self.config, *member.config, *named.items()))


@frozen(kw_only=True)
class BrokersSpec:
    """The brokers b0, b1, ...; ``racks``: they take turns. ``replication``: None = a partition lives on one broker."""

    count: int = 3
    racks: tuple[str, ...] = ()
    replication: ReplicationSpec | None = None
    config: Settings = field(default=(), converter=_broker_settings)

    def rack_of(self, number: int) -> str:
        """The rack of a broker, "" without racks."""
        return self.racks[number % len(self.racks)] if self.racks else ""


@frozen(kw_only=True)
class LinkSpec:
    """Latency between two hosts, both ways, where it differs from the network's."""

    a: str
    b: str
    latency_min_us: int
    latency_max_us: int


@frozen(kw_only=True)
class NetworkSpec:
    """How long a packet takes one way: drawn for each between these bounds."""

    latency_min_us: int = 500
    latency_max_us: int = 2_000
    links: tuple[LinkSpec, ...] = ()


@frozen(kw_only=True)
class ChecksSpec:
    """When everything is healed, and how soon after that all must be well again.

    ``heal_after_us``: time of the world; None = at the scenario's ``duration_us``. From then on every group must get
    Stable (or Empty without members) with every partition owned within ``stable_within_us``; None = the longest that
    Kafka's own timeouts may keep a group waiting (see ``Scenario.stable_within_us``).
    """

    heal_after_us: int | None = None
    stable_within_us: int | None = None


@frozen(kw_only=True)
class Scenario:
    """One experiment. Members are hosts c1, c2, ... over all groups in order; brokers b0, b1, ...

    ``duration_us``: how long the plan and the load run. ``expect``: names of checkers that are to be violated (a
    scenario that shows a known weakness); the verdict of every other violation stands.
    """

    name: str
    summary: str = ""
    profile: str = ""
    """The release it is about, a name of ``PROFILES``; "" = whatever is asked for."""
    duration_us: int = 60_000_000
    seed: int = 1
    brokers: BrokersSpec = BrokersSpec()
    topics: Mapping[str, TopicSpec] = field(factory=dict)
    groups: Mapping[str, GroupSpec] = field(factory=dict)
    producers: Settings = field(default=(), converter=_producer_settings)
    network: NetworkSpec = NetworkSpec()
    checks: ChecksSpec = ChecksSpec()
    plan: Plan = ()
    expect: tuple[str, ...] = ()

    @property
    def heal_at_us(self) -> int:
        """When every fault that still lasts is ended."""
        return self.duration_us if self.checks.heal_after_us is None else self.checks.heal_after_us

    @property
    def stable_within_us(self) -> int:
        """How long groups may take to get well after the healing.

        Unless set, the longest session a dead member can hold on to, plus the longest ``max.poll.interval.ms`` a
        rebalance then waits for members that do not come back, plus a minute for everything else.
        """
        if self.checks.stable_within_us is not None:
            return self.checks.stable_within_us
        configs = [configured(EARLIEST, group.config) for group in self.groups.values()] or [EARLIEST]
        waits_ms = max(config.session_timeout_ms for config in configs)
        waits_ms += max(config.max_poll_interval_ms for config in configs)
        return waits_ms * 1_000 + 60_000_000

    @property
    def ends_us(self) -> int:
        """When the run is over at the latest: the load has run, and the time to get well again has passed."""
        return max(self.duration_us, self.heal_at_us + self.stable_within_us)

    def broker_names(self) -> tuple[str, ...]:
        """b0, b1, ... (the number is the node id)."""
        return tuple(broker_host(number) for number in range(self.brokers.count))

    def member_names(self) -> tuple[tuple[str, str, int], ...]:
        """(host, group, number within the group) of every member there is at the start; c1 is the first."""
        numbered = [(group, number) for group, spec in self.groups.items() for number in range(spec.members)]
        return tuple((consumer_host(index), group, number) for index, (group, number) in enumerate(numbered, start=1))

    def created_topics(self) -> dict[str, TopicSpec]:
        """Topics that are not there at the start: the plan creates them."""
        created: dict[str, TopicSpec] = {}
        for entry in self.plan:
            action = entry.action
            if isinstance(action, CreateTopic) and action.topic not in self.topics:
                spec = TopicSpec(partitions=action.partitions, records_per_s=action.records_per_s)
                created.setdefault(action.topic, spec)
        return created

    def producer_names(self) -> tuple[tuple[str, str], ...]:
        """(host, topic) of every producer: p1, p2, ... by topic, those that the plan creates behind the others."""
        topics = (*self.topics, *self.created_topics())
        return tuple((producer_host(index), topic) for index, topic in enumerate(topics, start=1))

    def producer_config(self, topic: str, defaults: ProducerConfig | None = None) -> ProducerConfig:
        """The configuration of a topic's producer, at its rate."""
        spec = self.topics.get(topic) or self.created_topics()[topic]
        rate = ("emulated_records_per_s", spec.records_per_s)
        return configured(defaults or ProducerConfig(), (*self.producers, rate))

    def to_dict(self) -> dict[str, Any]:
        """The plain form: what a TOML file would say, defaults left out; keys in a fixed order."""
        given: dict[str, Any] = {"name": self.name}
        _put(given, "summary", self.summary, "")
        _put(given, "profile", self.profile, "")
        given["duration"] = duration_text(self.duration_us)
        _put(given, "seed", self.seed, 1)
        _put(given, "expect", list(self.expect), [])
        given["brokers"] = _brokers_dict(self.brokers)
        given["topics"] = {name: _topic_dict(topic) for name, topic in self.topics.items()}
        given["groups"] = {name: _group_dict(group) for name, group in self.groups.items()}
        _put(given, "producers", {"config": settings_dict(ProducerConfig, self.producers)}, {"config": {}})
        _put(given, "network", _network_dict(self.network), {})
        _put(given, "checks", _checks_dict(self.checks), {})
        _put(given, "plan", plan_to_dicts(self.plan), [])
        return given


def _put(given: dict[str, Any], key: str, item: Any, default: Any) -> None:
    if item != default:
        given[key] = item


def _topic_dict(topic: TopicSpec) -> dict[str, Any]:
    given: dict[str, Any] = {"partitions": topic.partitions, "rate": f"{topic.records_per_s}/s"}
    _put(given, "record_bytes", topic.record_bytes, 1_000)
    _put(given, "replication_factor", topic.replication_factor, None)
    _put(given, "min_isr", topic.min_isr, None)
    _put(given, "unclean", topic.unclean, None)
    return given


def _group_dict(group: GroupSpec) -> dict[str, Any]:
    given: dict[str, Any] = {"topics": list(group.topics), "members": group.members, "assignors": list(group.assignors)}
    _put(given, "static", group.static, False)
    _put(given, "racks", list(group.racks), [])
    _put(given, "start", duration_text(group.start_us), "0s")
    _put(given, "start_spread", duration_text(group.start_spread_us), "0s")
    _put(given, "config", settings_dict(ConsumerConfig, group.config), {})
    _put(given, "overrides", {host: member_dict(member) for host, member in group.overrides.items()}, {})
    return given


def _brokers_dict(brokers: BrokersSpec) -> dict[str, Any]:
    given: dict[str, Any] = {"count": brokers.count}
    _put(given, "racks", list(brokers.racks), [])
    if brokers.replication is not None:
        given["replication"] = brokers.replication.to_dict()
    _put(given, "config", settings_dict(BrokerConfig, brokers.config), {})
    return given


def _latency(least_us: int, most_us: int) -> list[str]:
    return [duration_text(least_us), duration_text(most_us)]


def _network_dict(network: NetworkSpec) -> dict[str, Any]:
    given: dict[str, Any] = {}
    _put(given, "latency", _latency(network.latency_min_us, network.latency_max_us), ["500us", "2ms"])
    links = [
        {"a": link.a, "b": link.b, "latency": _latency(link.latency_min_us, link.latency_max_us)}
        for link in network.links
    ]
    _put(given, "links", links, [])
    return given


def _checks_dict(checks: ChecksSpec) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if checks.heal_after_us is not None:
        given["heal_after"] = duration_text(checks.heal_after_us)
    if checks.stable_within_us is not None:
        given["stable_within"] = duration_text(checks.stable_within_us)
    return given
