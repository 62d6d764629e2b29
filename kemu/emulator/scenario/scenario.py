"""A scenario: a cluster, its load, the faults, and the checks. A TOML file and Python code build the same value.

A ``Scenario`` is frozen. ``to_dict`` gives the plain form for files and traces, and ``emulator.scenario.reading`` reads
the plain form back to an equal value. Each key is declared once, with its field (``emulator.scenario.keys``). Every
scenario is checked when it is built.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

from attrs import field

from kemu.emulator.chance import LARGEST_SEED
from kemu.emulator.draws import DrawSet
from kemu.emulator.findings import kinds_by_checker
from kemu.emulator.past_bugs import applying
from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.emulator.plan.actions import (
    AddBroker,
    AddMembers,
    BrokersUpgrade,
    ConfigsAlteration,
    CreateTopic,
    RollingRestart,
    RollingUpgrade,
)
from kemu.emulator.plan.entries import At, Entry, Plan, When, entry_to_dict
from kemu.emulator.plan.known import MOST_BROKERS, Known
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.clients import ClientsSpec
from kemu.emulator.scenario.expectations import Expectation, expectations
from kemu.emulator.scenario.forms import plain_form
from kemu.emulator.scenario.groups import EARLIEST, GroupSpec
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.scenario.kinds import DrawsKey
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, upgraded_to
from kemu.emulator.scenario.network import NetworkSpec
from kemu.emulator.scenario.plan_reading import plan_from_tables
from kemu.emulator.scenario.streams import StreamsSpec, wrong_settings
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.kafka_keys import Settings, configured, lenient_settings
from kemu.emulator.text.tables import Problem, Table, nearest, said_of
from kemu.emulator.text.units import LONGEST_US, duration_text, microseconds, words
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ProducerConfig, StreamsConfig
from kemu.protocol.draws import DrawName
from kemu.protocol.dynamic_configs import CONSUMER_SESSION_TIMEOUT
from kemu.protocol.frozen import frozen
from kemu.protocol.names import OFFSETS_TOPIC, broker_host, consumer_host, producer_host
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES

JOIN_US = 10_000_000
"""Shortest time from the last restart of a plan to the end of the run, in us; a member usually joins within this
time."""
MINUTE_US = 60_000_000
TAKES_TIME = (
    DrawName.MEMBER_START,
    DrawName.BROKER_START,
    DrawName.POLL_WORK,
    DrawName.CALLBACK_REVOKED,
    DrawName.CALLBACK_LOST,
    DrawName.CALLBACK_ASSIGNED,
)
"""Draws that delay a rebalance; each draw delays a rebalance at most once."""
STARTS_OF_A_CONTROLLER = (DrawName.CONTROLLER_START, DrawName.CONTROLLER_START)
"""Further draws that delay a rebalance of replicated brokers, where a failover of the controller may precede the
rebalance."""
_NEEDED = {"brokers", "topics", "groups", "clients", "network", "bugs"}
"""Keys that must be right before the plan is checked."""


def _producer_settings(given: Mapping[str, Any] | Settings) -> Settings:
    return lenient_settings(ProducerConfig, given)


DEFAULT_DRAWS = "life"


def draws_of(given: DrawSet | str | Mapping[str, Any]) -> DrawSet:
    """Convert the name of a set of draws, or a table of draws. Return other values unchanged, for a later check."""
    return cast(DrawSet, DrawsKey().take(given)) if isinstance(given, str | Mapping) else given


def _entries(given: Iterable[Entry | Mapping[str, Any]]) -> Plan:
    """Convert a plan of entries, or of tables as in a file, to a tuple."""
    return cast(Plan, tuple(given))


@frozen(kw_only=True)
class Scenario:
    """A cluster with its load, plan and checks. Hosts of members are c1, c2, ... over all groups in order; hosts of
    brokers are b0, b1, ...

    ``duration_us`` is the length of the plan and of the load. ``expect`` has the violations that the scenario expects;
    any other violation fails the run. ``profile`` is the release, a name of ``PROFILES``; "" leaves the choice to the
    caller. ``bugs`` are issues of ``PAST_BUGS`` that machines and assignors have in this run. ``mended`` are past bugs
    of the release that are fixed in this run. ``draws`` is "life", "calm", or a table of single draws with an optional
    ``set``.

    Raises:
        ScenarioError: lists every mistake, in the plan and in names of hosts, groups and topics, too.
    """

    name: str = field(metadata=key("name of the scenario in reports", shown="the file's name", always=True))
    summary: str = field(default="", metadata=key("one line for lists of scenarios"))
    profile: str = field(
        default="",
        metadata=key(
            "release of brokers and clients",
            choices=lambda: ("", *PROFILES),
            what="profile",
            shown=DEFAULT_PROFILE,
            short=True,
        ),
    )
    duration_us: int = field(
        default=60_000_000,
        converter=microseconds,
        metadata=key("length of the plan and of the load", at_least=1, at_most=LONGEST_US, always=True, short=True),
    )
    seed: int = field(default=1, metadata=key("default seed", at_least=0, at_most=LARGEST_SEED, short=True))
    bugs: tuple[str, ...] = field(
        default=(),
        converter=words,
        metadata=key(
            'past bugs of Kafka that this run has ("kemu bugs" lists them)',
            choices=lambda: PAST_BUGS,
            what="past bug",
            short=True,
        ),
    )
    mended: tuple[str, ...] = field(
        default=(),
        converter=words,
        metadata=key(
            "past bugs of the release that are fixed in this run",
            choices=applying.bugs_of_releases,
            what="past bug of a release",
            short=True,
        ),
    )
    expect: tuple[Expectation, ...] = field(
        default=(),
        converter=expectations,
        metadata=key(
            "expected violations: tables of checker, kind, subject, may", choices=kinds_by_checker, short=True
        ),
    )
    brokers: BrokersSpec = field(default=BrokersSpec(), metadata=key("the brokers", always=True))
    draws: DrawSet = field(
        default=DrawSet(DEFAULT_DRAWS),
        converter=draws_of,
        metadata=key(
            'random times: "life", "calm" (exact intervals), or a table of draws ("kemu describe draws")',
            always=True,
            short=True,
            shown=DEFAULT_DRAWS,
        ),
    )
    topics: Mapping[str, TopicSpec] = field(factory=dict, metadata=key("the topics by name", always=True))
    groups: Mapping[str, GroupSpec] = field(factory=dict, metadata=key("the groups by name", always=True))
    producers: Settings = field(
        default=(), converter=_producer_settings, metadata=key("Kafka's keys of a producer", config=ProducerConfig)
    )
    clients: ClientsSpec = field(default=ClientsSpec(), metadata=key("real clients of kemu serve"))
    network: NetworkSpec = field(default=NetworkSpec(), metadata=key("the network"))
    checks: ChecksSpec = field(default=ChecksSpec(), metadata=key("end of the faults, and time for recovery"))
    plan: Plan = field(
        default=(),
        converter=_entries,
        metadata=key('actions: tables with at or when, do, and the keys that "kemu describe ACTION" shows'),
    )

    def __attrs_post_init__(self) -> None:
        problems = list(problems_of(self))
        if isinstance(self.profile, str) and not _NEEDED & {problem.path[0] for problem in problems}:
            problems += _contradictions(self)
            known = known_names(self)
            rows = [_row(entry, index, problems) for index, entry in enumerate(self.plan)]
            plan = plan_from_tables([Table(row, ("plan", at), problems) for at, row in enumerate(rows) if row], known)
            object.__setattr__(self, "plan", plan)
            problems += self._after_the_end() if not problems else []
        refuse(problems)

    def _after_the_end(self) -> Iterator[Problem]:
        """Yield a problem for each entry of the plan that is due after the end of the run."""
        for index, entry in enumerate(self.plan):
            if isinstance(entry, At) and entry.at_us > self.runs_us:
                ends = duration_text(self.runs_us)
                text = f"{duration_text(entry.at_us)} is after the end of the run ({ends})"
                yield Problem(("plan", index, "at"), f"{text}: choose an earlier time, or a longer duration")

    @property
    def heal_at_us(self) -> int:
        """Time at which all remaining faults end, in us."""
        return self.runs_us if self.checks.heal_after_us is None else self.checks.heal_after_us

    @property
    def runs_us(self) -> int:
        """Length of the plan and of the load in us: ``duration_us``, or more if a restart of the plan ends later.

        The length of a rolling restart depends on the number of members, including members that the plan adds.
        """
        ends_us = [self._ends_us(entry) for entry in self.plan if isinstance(entry, At)]
        return max([self.duration_us, *ends_us])

    def _ends_us(self, entry: At) -> int:
        """Return the time by which the last member of a rolling restart should have joined; 0 for other entries."""
        action = entry.action
        if isinstance(action, BrokersUpgrade):
            count = len(action.hosts) or self.brokers.count
            return entry.at_us + (count - 1) * action.every_us + action.down_us + JOIN_US
        if not isinstance(action, RollingRestart | RollingUpgrade):
            return 0
        hosts = len(action.hosts) if isinstance(action, RollingUpgrade) else 0
        if not hosts:
            added = [each.action for each in self.plan if isinstance(each, At | When)]
            hosts = self.groups[action.group].members
            hosts += sum([each.count for each in added if isinstance(each, AddMembers) and each.group == action.group])
        return entry.at_us + (hosts - 1) * action.every_us + action.down_us + JOIN_US

    @property
    def timeouts_us(self) -> int:
        """Longest time in us for which Kafka's own timeouts may stop a group.

        The time is the sum of the longest session timeout, the longest ``max.poll.interval.ms``, and a minute. A
        crashed member stays in the group for its session; a rebalance waits for slow members. If starts, work and
        callbacks together may take longer than a minute, their sum replaces the minute.
        """
        configs = self._member_configs()
        waits_ms = max([config.session_timeout_ms for config in configs])
        waits_ms = max([waits_ms, *map(self.longest_ms, self.consumer_protocol_groups)])
        waits_ms += max(config.max_poll_interval_ms for config in configs)
        names = (*TAKES_TIME, *STARTS_OF_A_CONTROLLER) if self.brokers.replication is not None else TAKES_TIME
        drawn = [how.most for name in names if (how := self.draws.of(name)) is not None]
        callbacks_ms = max(
            config.emulated_on_revoked_ms + config.emulated_on_lost_ms + config.emulated_on_assigned_ms
            for config in configs
        )
        return waits_ms * 1_000 + max(MINUTE_US, sum(drawn) + callbacks_ms * 1_000)

    def longest_ms(self, group: str, setting: str = CONSUMER_SESSION_TIMEOUT) -> int:
        """The longest time in ms that the run gives a setting of this group's members of the consumer protocol."""
        of_brokers = configured(BrokerConfig(), self.brokers.config)
        longest_ms: int = getattr(of_brokers, f"group_{setting}".replace(".", "_"))
        for entry in self.plan:
            match entry.action:
                case ConfigsAlteration(group=name, key=key, value=value) if value and (name, key) == (group, setting):
                    longest_ms = max(longest_ms, int(value))
        return longest_ms

    @property
    def metadata_max_age_us(self) -> int:
        """Longest ``metadata.max.age.ms`` of all members, in us; the longest interval between two refreshes."""
        return max(config.metadata_max_age_ms for config in self._member_configs()) * 1_000

    def _member_configs(self) -> list[ConsumerConfig]:
        given = [(group.config, member.config) for group in self.groups.values() for member in _members_of(group)]
        return [configured(EARLIEST, (*config, *own)) for config, own in given] or [EARLIEST]

    @property
    def stable_within_us(self) -> int:
        """Time for groups to recover after the end of the faults, in us: ``timeouts_us``, unless ``checks`` sets it."""
        within_us = self.checks.stable_within_us
        return self.timeouts_us if within_us is None else within_us

    @property
    def ends_us(self) -> int:
        """Latest end of the run in us: after the load, and after the time for recovery."""
        return max(self.runs_us, self.heal_at_us + self.stable_within_us)

    def broker_names(self) -> tuple[str, ...]:
        """Return the hosts of the initial brokers: b0, b1 and so on. The number in a name is the node id."""
        return tuple(broker_host(number) for number in range(self.brokers.count))

    def added_broker_names(self) -> tuple[str, ...]:
        """Return the hosts of brokers that the plan adds."""
        actions = (entry.action for entry in self.plan if isinstance(entry, At | When))
        count = sum(action.count for action in actions if isinstance(action, AddBroker))
        return tuple(broker_host(self.brokers.count + number) for number in range(count))

    @property
    def consumer_protocol_groups(self) -> tuple[str, ...]:
        """Return the groups in which some member uses the consumer protocol of KIP-848 at some time."""
        specs = {name: list(_members_of(group)) for name, group in self.groups.items()}
        for entry in self.plan:
            match entry.action:
                case RollingUpgrade(group=name) as upgrade if name in specs:
                    specs[name].append(upgraded_to(upgrade.profile, upgrade.assignors, upgrade.settings))
        groups = self.groups
        return tuple(name for name in groups if any(map(groups[name].member_uses_consumer_protocol, specs[name])))

    @property
    def mixes_releases(self) -> bool:
        """Whether brokers have several releases at some time."""
        return any(self.other_broker_profiles())

    def other_broker_profiles(self) -> tuple[str, ...]:
        """Return the releases of single brokers, and the releases to which the plan upgrades brokers."""
        actions = (entry.action for entry in self.plan if isinstance(entry, At | When))
        named = [own.profile for own in self.brokers.overrides.values()]
        named += [action.profile for action in actions if isinstance(action, BrokersUpgrade)]
        return tuple(dict.fromkeys(name for name in named if name))

    def member_names(self) -> tuple[tuple[str, str, int], ...]:
        """Return (host, group, number within the group) of every initial member."""
        numbered = [(group, number) for group, spec in self.groups.items() for number in range(spec.members)]
        return tuple((consumer_host(index), group, number) for index, (group, number) in enumerate(numbered, start=1))

    def hosts_of_groups(self) -> dict[str, list[str]]:
        """Return group -> the hosts of its initial members."""
        found: dict[str, list[str]] = {name: [] for name in self.groups}
        for host, group, _ in self.member_names():
            found[group].append(host)
        return found

    def labels(self) -> dict[str, str]:
        """Return host -> label of every initial member with a label."""
        named = ((host, self.groups[group].labels, number) for host, group, number in self.member_names())
        return {host: labels[number] for host, labels, number in named if number < len(labels)}

    def created_topics(self) -> dict[str, TopicSpec]:
        """Return the topics that the plan creates."""
        created: dict[str, TopicSpec] = {}
        for action in (entry.action for entry in self.plan if isinstance(entry, At | When)):
            if isinstance(action, CreateTopic) and action.topic not in self.topics:
                spec = TopicSpec(partitions=action.partitions, records_per_s=action.records_per_s)
                created.setdefault(action.topic, spec)
        return created

    def producer_names(self) -> tuple[tuple[str, str], ...]:
        """Return (host, topic) of every producer: p1, p2 and so on by topic. Topics that the plan creates are last."""
        topics = (*self.topics, *self.created_topics())
        return tuple((producer_host(index), topic) for index, topic in enumerate(topics, start=1))

    def producer_config(self, topic: str, defaults: ProducerConfig | None = None) -> ProducerConfig:
        """Return the configuration of a topic's producer, with the topic's rate."""
        spec = self.topics.get(topic) or self.created_topics()[topic]
        rate = ("emulated_records_per_s", spec.records_per_s)
        return configured(defaults or ProducerConfig(), (*self.producers, rate))

    def to_dict(self) -> dict[str, Any]:
        """Return the plain form, as in a TOML file: keys in a fixed order, without defaults."""
        return plain_form(self)


def _members_of(group: GroupSpec) -> Iterable[MemberSpec]:
    """Return the settings of a default member, and of each member with settings of its own."""
    return (AS_ITS_GROUP, *group.overrides.values())


def known_names(scenario: Scenario) -> Known:
    """Return the names that a plan of this scenario may use."""
    profile = PROFILES.get(scenario.profile, PROFILES[DEFAULT_PROFILE])
    offsets = configured(profile.broker, scenario.brokers.config).offsets_topic_num_partitions
    return Known(
        brokers=scenario.broker_names(),
        members=tuple(host for host, _, _ in scenario.member_names()),
        producers=tuple(producer_host(number) for number in range(1, len(scenario.topics) + 1)),
        clients=scenario.clients.hosts(),
        groups=tuple(scenario.groups),
        topics=tuple((name, topic.partitions) for name, topic in scenario.topics.items()),
        internal=((OFFSETS_TOPIC, offsets),) if scenario.brokers.replication is not None else (),
        replicated=scenario.brokers.replication is not None,
        streams=tuple(name for name, group in scenario.groups.items() if group.streams is not None),
        in_groups=tuple((host, group) for host, group, _ in scenario.member_names()),
        classic_members=_classic_members(scenario),
        log_dirs=tuple((host, scenario.brokers.log_dirs_of(host)) for host in scenario.broker_names()),
        subscribed=tuple(topic for group in scenario.groups.values() for topic in group.topics),
    )


def _classic_members(scenario: Scenario) -> tuple[str, ...]:
    groups = scenario.groups
    return tuple(
        host
        for host, group, _ in scenario.member_names()
        if not groups[group].member_uses_consumer_protocol(groups[group].overrides.get(host, AS_ITS_GROUP))
    )


def _row(entry: object, index: int, problems: list[Problem]) -> Mapping[str, Any]:
    """Return an entry as a table, so that entries from Python and from files get the same checks."""
    if isinstance(entry, At | When):
        return entry_to_dict(entry)
    if not isinstance(entry, Mapping):
        problems.append(Problem(("plan", index), f"must be At(...), When(...) or a table, not {said_of(entry)}"))
        return {}
    return entry


def _contradictions(scenario: Scenario) -> Iterator[Problem]:
    """Yield mistakes that concern several parts of a scenario, such as unknown names, or more replicas than brokers."""
    if not scenario.topics:
        yield Problem(("topics",), "needs at least one topic")
    rows = [entry for entry in scenario.plan if isinstance(entry, Mapping)]
    created = list(scenario.created_topics())
    created += [str(row.get("topic", "")) for row in rows if row.get("do") == "create-topic"]
    topics = dict.fromkeys((*scenario.topics, *created))
    hosts_of = scenario.hosts_of_groups()
    for name, group in scenario.groups.items():
        for topic in group.topics:
            path = ("groups", name, "topics") if group.streams is None else ("groups", name, "streams", "subtopologies")
            yield from _unknown(path, topic, topics, "topic")
        yield from _of_streams(("groups", name), group, scenario.topics)
        for host in group.overrides:
            yield from _unknown(("groups", name, "overrides", host), host, hosts_of[name], f"member of {name}")
    counts = [row.get("count", 1) for row in rows if row.get("do") == "add-broker"]
    more = sum(count for count in counts if type(count) is int and 0 < count <= MOST_BROKERS)
    added = (*scenario.added_broker_names(), *(broker_host(scenario.brokers.count + at) for at in range(more)))
    for host in scenario.brokers.overrides:
        yield from _unknown(("brokers", "overrides", host), host, (*scenario.broker_names(), *added), "broker")
    hosts = dict.fromkeys(known_names(scenario).hosts())
    for index, link in enumerate(scenario.network.links):
        for side, host in (("a", link.a), ("b", link.b)):
            yield from _unknown(("network", "links", index, side), host, hosts, "host")
    yield from _refused_sessions(scenario)
    yield from _of_those_away(scenario)
    for index, bug in enumerate(scenario.bugs):
        if scenario.brokers.replication is None and PAST_BUGS[bug].past.needs_replication:
            yield Problem(("bugs", index), f"{bug} is of brokers that replicate: add [brokers.replication]")
    for name, spec in scenario.topics.items():
        yield from _of_replicas(("topics", name), spec, scenario.brokers)
        if spec.shares and dict(scenario.producers).get("emulated_numbered_keys"):
            text = "and emulated.numbered.keys of [producers] exclude each other: keys choose the partitions"
            yield Problem(("topics", name, "shares"), text)


def _of_those_away(scenario: Scenario) -> Iterator[Problem]:
    """Yield mistakes in ``checks.away``: hosts must exist at the start, and one broker must stay healthy."""
    if scenario.checks.away is None:
        return
    path = ("checks", "away", "hosts")
    hosts, brokers = scenario.checks.away.hosts, scenario.broker_names()
    known = dict.fromkeys((*brokers, *(name for name, _, _ in scenario.member_names())))
    for host in hosts:
        yield from _unknown(path, host, known, "broker or member")
    away = [host for host in brokers if host in hosts]
    if away and scenario.brokers.replication is None:
        yield Problem(path, f"{away[0]} is a broker, and no other broker has its partitions: add [brokers.replication]")
    elif len(away) == len(brokers):
        yield Problem(path, "must leave out at least one broker")


def _refused_sessions(scenario: Scenario) -> Iterator[Problem]:
    """Yield session timeouts outside of the brokers' bounds: JoinGroup would fail with INVALID_SESSION_TIMEOUT."""
    profile = PROFILES.get(scenario.profile, PROFILES[DEFAULT_PROFILE])
    broker = configured(profile.broker, scenario.brokers.config)
    bounds = (
        ("group.min.session.timeout.ms", broker.group_min_session_timeout_ms, "below", int.__lt__),
        ("group.max.session.timeout.ms", broker.group_max_session_timeout_ms, "above", int.__gt__),
    )
    for name, group in scenario.groups.items():
        given: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [(("groups", name), dict(group.config))]
        given += [(("groups", name, "overrides", host), dict(each.config)) for host, each in group.overrides.items()]
        for path, config in given:
            session_ms = config.get("session_timeout_ms")
            for key_name, bound_ms, said, outside in bounds:
                if isinstance(session_ms, int) and outside(session_ms, bound_ms):
                    text = f"{session_ms} is {said} {key_name} {bound_ms} of the brokers"
                    yield Problem((*path, "config", "session.timeout.ms"), text)
        own_ms = profile.consumer.session_timeout_ms
        if "session_timeout_ms" not in dict(group.config) and group.members:
            for key_name, bound_ms, said, outside in bounds:
                if outside(own_ms, bound_ms):
                    text = f"session.timeout.ms {own_ms} of group {name} (the default) is {said} {bound_ms}"
                    yield Problem(("brokers", "config", key_name), text)


def _unknown(path: tuple[str | int, ...], name: str, known: Collection[str], what: str) -> Iterator[Problem]:
    if name not in known:
        yield Problem(path, f'"{name}" is no {what}{nearest(name, known)}')


def _of_streams(path: tuple[str | int, ...], group: GroupSpec, topics: Mapping[str, TopicSpec]) -> Iterator[Problem]:
    """Yield mistakes in a Streams group's topics, partitions of changelogs, or settings."""
    for host, member in group.overrides.items():
        if member.streams and group.streams is None:
            yield Problem((*path, "overrides", host, "streams"), "needs [groups.NAME.streams] of its group")
        elif member.streams and isinstance(group.streams, StreamsSpec):
            for name, text in wrong_settings(group.streams.settings_on(StreamsConfig(), member)):
                yield Problem((*path, "overrides", host, "streams", name), text)
    if group.streams is None:
        return
    where = (*path, "streams", "subtopologies")
    topology = group.streams.topology
    if set(topology.topics) != set(group.topics):
        yield Problem(
            (*path, "topics"), f"must be the topics of the topology, {', '.join(topology.topics)}; leave the key out"
        )
    for index, each in enumerate(topology.subtopologies):
        needed = max((topics[topic].partitions for topic in each.topics if topic in topics), default=0)
        if each.changelog and each.changelog not in topics:
            yield Problem(
                (*where, index), f'the changelog "{each.changelog}" is not a topic: add [topics.{each.changelog}]'
            )
        elif each.changelog and topics[each.changelog].partitions != needed:
            has = topics[each.changelog].partitions
            yield Problem(
                (*where, index), f"the changelog {each.changelog} has {has} partitions, its tasks are {needed}"
            )


def _of_replicas(path: tuple[str | int, ...], topic: TopicSpec, brokers: BrokersSpec) -> Iterator[Problem]:
    """Yield mistakes in a topic's replicas, which need replication and enough brokers."""
    said = {"replication_factor": topic.replication_factor, "min_isr": topic.min_isr, "unclean": topic.unclean}
    given = [name for name, value in said.items() if value is not None]
    given += ["assignment"] if topic.assignment else []
    if brokers.replication is None:
        if given:
            yield Problem((*path, given[0]), "needs [brokers.replication]")
        return
    factor = topic.replication_factor or brokers.replication.factor
    if topic.assignment:
        factor = len(topic.placed()[0])
        unknown = [broker for row in topic.placed() for broker in row if broker >= brokers.count]
        if unknown:
            yield Problem((*path, "assignment"), f"{unknown[0]} is no broker; there are 0 to {brokers.count - 1}")
            return
    if factor > brokers.count:
        yield Problem((*path, "replication_factor"), f"must not exceed the number of brokers ({brokers.count})")
    if (topic.min_isr or 1) > factor:
        yield Problem((*path, "min_isr"), f"must not exceed the replication factor ({factor})")
