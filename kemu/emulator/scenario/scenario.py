"""A scenario: what the cluster is, what disturbs it, and what must hold. The same in Python and in a TOML file.

A ``Scenario`` is a frozen value; ``to_dict`` gives the plain form that files are written in and traces record, and
``emulator.scenario.reading`` reads it back to an equal value. Each key is declared once, with its field
(``emulator.scenario.keys``); whatever is built, from a file or in Python, is checked when it is made.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from attrs import field, frozen
from attrs.converters import optional

from kemu.emulator.draws import DrawSet
from kemu.emulator.findings import KINDS
from kemu.emulator.past_bugs import applying
from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.emulator.plan.actions import (
    AddBroker,
    AddMembers,
    BrokersUpgrade,
    CreateTopic,
    RollingRestart,
    RollingUpgrade,
)
from kemu.emulator.plan.entries import At, Entry, Plan, When, entry_to_dict
from kemu.emulator.plan.known import MOST_BROKERS, Known
from kemu.emulator.scenario.away import AwaySpec
from kemu.emulator.scenario.expectations import Expectation, expectations
from kemu.emulator.scenario.forms import fill_in, plain_form
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.scenario.kinds import DrawsKey
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, consumer_settings, name_assignors_once
from kemu.emulator.scenario.plan_reading import plan_from_tables
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.streams import StreamsSpec, topics_of_streams, wrong_settings
from kemu.emulator.text.kafka_keys import Settings, assignor_names, configured, lenient_settings
from kemu.emulator.text.tables import Problem, ScenarioError, Table, nearest, said_of
from kemu.emulator.text.units import duration_text, microseconds, rate_per_s, throughput, words
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ProducerConfig, StreamsConfig
from kemu.protocol.draws import DrawName
from kemu.protocol.dynamic_configs import RETENTION_BYTES, RETENTION_MS, SEGMENT_BYTES, SEGMENT_MS
from kemu.protocol.names import OFFSETS_TOPIC, broker_host, consumer_host, producer_host
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES
from kemu.protocol.reassign.requests import list_error
from kemu.protocol.topic_pattern import TopicPattern, wrong_pattern

EARLIEST = ConsumerConfig(auto_offset_reset="earliest")
"""The defaults of members. Only ``auto.offset.reset`` differs from Kafka's ("latest"): under "latest" a member that
starts after the producers passes over what they appended before its first commit, and no checker could tell these
records from lost ones. A scenario about that very trap sets ``auto.offset.reset = "latest"``."""

MOST_MEMBERS = 10_000
MOST_PARTITIONS = 100_000
"""More, as of ``MOST_BROKERS``, would not end in any reasonable time; a slip of the keyboard is told, not run."""
JOIN_US = 10_000_000
"""How long after the last restart of a plan a run lasts at least: until that member has joined, as a rule."""
MINUTE_US = 60_000_000
TAKES_TIME = (
    DrawName.MEMBER_START,
    DrawName.BROKER_START,
    DrawName.POLL_WORK,
    DrawName.CALLBACK_REVOKED,
    DrawName.CALLBACK_LOST,
    DrawName.CALLBACK_ASSIGNED,
)
"""Draws that keep a group waiting, each once in a rebalance."""
STARTS_OF_A_CONTROLLER = (DrawName.CONTROLLER_START, DrawName.CONTROLLER_START)
"""Where brokers replicate, a controller's failover comes first."""
LONGEST_US = 7 * 24 * 3_600_000_000
LARGEST_SEED = 2**63 - 1


@frozen(kw_only=True)
class TopicSpec:
    """A topic, and the load its producer puts on it (over all partitions; 0 = no producer).

    ``replication_factor``, ``min_isr``, ``unclean``: where brokers replicate; None = as they do (``ReplicationSpec``).
    ``initial_records``: what is in each of its partitions' logs, and committed, before anybody starts.
    ``retention_us``, ``retention_bytes``, ``segment_us``, ``segment_bytes``: what of it brokers delete, and in which
    pieces; None = as they have it (``log.retention.ms`` and so on of ``brokers.config``).
    ``assignment``: there, too: one text per partition, its brokers' ids, the preferred leader first; () = they are
    placed as Kafka places them.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    partitions: int = field(metadata=key("how many", at_least=1, at_most=MOST_PARTITIONS, always=True, short=True))
    records_per_s: int = field(
        default=10,
        converter=rate_per_s,
        metadata=key("records per second over all partitions", at_least=0, at_most=10_000_000, always=True, short=True),
    )
    record_bytes: int = field(
        default=1_000, metadata=key("size of a record", at_least=1, at_most=1_000_000_000, short=True)
    )
    replication_factor: int | None = field(
        default=None,
        metadata=key("its replicas, where brokers replicate", at_least=1, at_most=MOST_BROKERS, shown="theirs"),
    )
    min_isr: int | None = field(
        default=None,
        metadata=key(
            "its own min.insync.replicas, where brokers replicate", at_least=1, at_most=MOST_BROKERS, shown="theirs"
        ),
    )
    unclean: bool | None = field(
        default=None,
        metadata=key("its own unclean.leader.election.enable, where brokers replicate", shown="theirs"),
    )
    initial_records: int = field(
        default=0,
        metadata=key("records in each partition's log before the run", at_least=0, at_most=(1 << 31) - 1, short=True),
    )
    retention_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key("its own retention.ms: how long its records are kept", at_least=1_000, shown="a week"),
    )
    retention_bytes: int | None = field(
        default=None,
        metadata=key("its own retention.bytes, of each partition", at_least=0, shown="without a limit"),
    )
    segment_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key(
            "its own segment.ms: after how long a log goes on in another segment", at_least=1_000, shown="a week"
        ),
    )
    segment_bytes: int | None = field(
        default=None,
        metadata=key("its own segment.bytes", at_least=14, at_most=(1 << 31) - 1, shown="1 GiB"),
    )
    assignment: tuple[str, ...] = field(
        default=(),
        converter=words,
        metadata=key('the brokers of each partition, where brokers replicate: ["0 1 2", "1 2 3"]', shown="placed"),
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
        if self.assignment:
            refuse(self._misplaced())

    def _misplaced(self) -> list[Problem]:
        """What is wrong with the assignment by itself."""
        rows = self.assignment
        if not all(part.isdecimal() for row in rows for part in row.split()):
            return [Problem(("assignment",), 'must be the broker ids of each partition, as in ["0 1 2", "1 2 3"]')]
        if len(rows) != self.partitions:
            return [Problem(("assignment",), f"has {len(rows)} rows for {self.partitions} partitions")]
        for number, brokers in enumerate(self.placed()):
            if wrong := list_error(brokers):
                return [Problem(("assignment",), f"of partition {number}: {wrong}")]
            if len(brokers) != (self.replication_factor or len(self.placed()[0])):
                return [Problem(("assignment",), f"gives partition {number} another number of replicas")]
        return []

    def settings(self) -> tuple[tuple[str, str], ...]:
        """What it has of its own that every broker heeds, by Kafka's keys."""
        given = (
            (RETENTION_MS, None if self.retention_us is None else self.retention_us // 1_000),
            (RETENTION_BYTES, self.retention_bytes),
            (SEGMENT_MS, None if self.segment_us is None else self.segment_us // 1_000),
            (SEGMENT_BYTES, self.segment_bytes),
        )
        return tuple((name, str(value)) for name, value in given if value is not None)

    def placed(self) -> tuple[tuple[int, ...], ...]:
        """The brokers of each partition as the scenario says; () if it does not."""
        return tuple(tuple(int(broker) for broker in row.split()) for row in self.assignment)


def _broker_settings(given: Mapping[str, Any] | Settings) -> Settings:
    return lenient_settings(BrokerConfig, given)


def _producer_settings(given: Mapping[str, Any] | Settings) -> Settings:
    return lenient_settings(ProducerConfig, given)


def _latency(given: int | str | Iterable[int | str]) -> tuple[int, int]:
    """A latency as a field takes it: one duration, or the least and the most."""
    bounds = [given] if isinstance(given, int | str) else list(given)
    found = tuple(microseconds(bound) for bound in bounds)
    return (found[0], found[0]) if len(found) == 1 else cast(tuple[int, int], found)


@frozen(kw_only=True)
class GroupSpec:
    """A consumer group: its members are configured alike.

    ``static``: members have ``group.instance.id`` = their host's name. ``one_process``: what a new process draws
    (``first.join``) those members draw that start with it, not who joins or comes back later. ``racks``: members take
    turns. The first member starts at ``start_us``, the last one ``start_spread_us`` later, the others evenly between.
    ``config`` is written with Kafka's keys. ``overrides``: host -> what that member has otherwise.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    topics: tuple[str, ...] = field(
        default=(),
        converter=words,
        metadata=key("what its members subscribe to", what="topic", shown="those that match its pattern"),
    )
    pattern: str = field(
        default="", metadata=key("instead of topics: what the names of topics match, whole, as in subscribe(Pattern)")
    )
    members: int = field(
        default=3,
        metadata=key("c1, c2, ... over all groups in order", at_least=0, at_most=MOST_MEMBERS, always=True, short=True),
    )
    assignors: tuple[str, ...] = field(
        default=(),
        converter=assignor_names,
        metadata=key("best first", what="assignor", shown="its members' releases have them", short=True),
    )
    static: bool = field(default=False, metadata=key("whether members have a group.instance.id", short=True))
    one_process: bool = field(
        default=False, metadata=key("whether members are threads of one process: later ones have no first.join")
    )
    racks: tuple[str, ...] = field(default=(), converter=words, metadata=key("members take turns"))
    start_us: int = field(
        default=0,
        converter=microseconds,
        metadata=key("when the first member starts", at_least=0, at_most=LONGEST_US, short=True),
    )
    start_spread_us: int = field(
        default=0,
        converter=microseconds,
        metadata=key("how much later the last one starts", at_least=0, at_most=LONGEST_US, short=True),
    )
    config: Settings = field(
        default=(), converter=consumer_settings, metadata=key("Kafka's keys of a consumer", config=ConsumerConfig)
    )
    overrides: Mapping[str, MemberSpec] = field(
        factory=dict,
        metadata=key("tables by member (overrides.c2): its own profile, assignors, config", shown="none"),
    )
    streams: StreamsSpec | None = field(
        default=None, metadata=key("its members are instances of a Kafka Streams application")
    )

    def __attrs_post_init__(self) -> None:
        name_assignors_once(self)
        refuse([*self._wrong_subscription(), *problems_of(self)])

    def _wrong_subscription(self) -> Iterator[Problem]:
        if not self.topics and not self.pattern:
            wanted = 'needs at least one topic, or "pattern" says what its members subscribe to'
            yield Problem(("topics",), wanted, instead="pattern")
        elif self.topics and self.pattern:
            yield Problem(("pattern",), 'and "topics" exclude each other: give one of them')
        elif isinstance(self.pattern, str) and (wrong := wrong_pattern(self.pattern)):
            yield Problem(("pattern",), wrong)

    @property
    def subscription(self) -> tuple[str, ...] | TopicPattern:
        """The topics by name, or what tells which they are."""
        if not self.pattern:
            return self.topics
        excludes = configured(EARLIEST, self.config).exclude_internal_topics
        return TopicPattern(self.pattern, internal=not excludes)

    def subscribed_to(self, topics: Iterable[str]) -> tuple[str, ...]:
        """What its members read while there are these topics."""
        subscription = self.subscription
        return subscription.among(topics) if isinstance(subscription, TopicPattern) else subscription

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
        named: dict[str, Any] = {"group_id": group, "client_id": host}
        if assignors := member.assignors or self.assignors:
            named["partition_assignment_strategy"] = assignors
        if self.static or member.instance:
            named["group_instance_id"] = member.instance or host
        if self.racks:
            named["client_rack"] = self.racks[number % len(self.racks)]
        return configured(defaults, (*self.config, *member.config, *named.items()))


fill_in(GroupSpec, topics_of_streams)


@frozen(kw_only=True)
class BrokerSpec:
    """What one broker has other than the others; what is None is as they have it.

    ``bandwidth_bytes_per_s``, ``disk_bytes_per_s``, ``log_dirs``: as ``BrokersSpec`` says. ``profile``: its release, a
    name of ``PROFILES``. What brokers say to each other is as the lowest of their releases has it, until the plan
    raises it ("upgrade-brokers"): Kafka's ``inter.broker.protocol.version``.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    bandwidth_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("bytes a second through its network card, each way", at_least=1, shown="as all have it"),
    )
    disk_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("bytes a second onto its disk", at_least=1, shown="as all have it"),
    )
    log_dirs: int | None = field(
        default=None, metadata=key("how many log directories it has", at_least=1, at_most=100, shown="as all have it")
    )
    profile: str = field(
        default="",
        metadata=key("another release", choices=lambda: ("", *PROFILES), what="profile", shown="the scenario's"),
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))


@frozen(kw_only=True)
class BrokersSpec:
    """The brokers b0, b1, ...; ``racks``: they take turns. ``replication``: None = a partition lives on one broker.

    ``bandwidth_bytes_per_s``: what carries records (appends and fetched batches, at the size that topics give their
    records) takes its time through each broker's network card, in and out, and shares it with what goes there at the
    time. ``disk_bytes_per_s``: so does what is written. None: both take no time but latency. ``log_dirs``: how many
    directories of ``log.dirs`` each has, each on a disk that can fail (where brokers replicate). ``overrides``: broker
    -> what it has otherwise.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    count: int = field(default=3, metadata=key("b0, b1, ...", at_least=1, at_most=MOST_BROKERS, always=True))
    racks: tuple[str, ...] = field(default=(), converter=words, metadata=key("brokers take turns"))
    replication: ReplicationSpec | None = field(
        default=None, metadata=key("brokers replicate, with a controller and a metadata store")
    )
    bandwidth_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("bytes a second through each broker's network card, each way", at_least=1, shown="no limit"),
    )
    disk_bytes_per_s: int | None = field(
        default=None,
        converter=optional(throughput),
        metadata=key("bytes a second onto each broker's disk", at_least=1, shown="no limit"),
    )
    log_dirs: int = field(
        default=1, metadata=key("how many log directories each broker has; they can fail", at_least=1, at_most=100)
    )
    overrides: Mapping[str, BrokerSpec] = field(
        factory=dict,
        metadata=key("tables by broker (overrides.b2): its own profile, bandwidth, disk, log_dirs", shown="none"),
    )
    config: Settings = field(
        default=(), converter=_broker_settings, metadata=key("Kafka's keys of a broker", config=BrokerConfig)
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))
        if self.replication is not None and self.replication.factor > self.count:
            text = f"must not be more than there are brokers ({self.count})"
            raise ScenarioError([Problem(("replication", "factor"), text)])
        if self.replication is not None and not self.replication.new_cluster:
            copies = self.replication.replica_config().offsets_topic_replication_factor
            if copies > self.count:
                text = f"must not be more than there are brokers ({self.count}), but in a new_cluster"
                raise ScenarioError([Problem(("replication", "config", "offsets.topic.replication.factor"), text)])
        several = [name for name, own in self.overrides.items() if (own.log_dirs or 1) > 1]
        if self.replication is None and (self.log_dirs > 1 or several):
            path = ("log_dirs",) if self.log_dirs > 1 else ("overrides", several[0], "log_dirs")
            raise ScenarioError([Problem(path, "needs brokers that replicate: add [brokers.replication]")])

    def log_dirs_of(self, host: str) -> int:
        """How many log directories a broker has."""
        own = self.overrides.get(host)
        return (own.log_dirs if own is not None else None) or self.log_dirs

    def bandwidth_of(self, host: str) -> int:
        """Bytes a second through a broker's network card; 0: no limit."""
        own = self.overrides.get(host)
        return (own.bandwidth_bytes_per_s if own is not None else None) or self.bandwidth_bytes_per_s or 0

    def disk_of(self, host: str) -> int:
        """Bytes a second onto a broker's disk; 0: no limit."""
        own = self.overrides.get(host)
        return (own.disk_bytes_per_s if own is not None else None) or self.disk_bytes_per_s or 0

    def profile_of(self, host: str) -> str:
        """The release of a broker; "" is the scenario's."""
        own = self.overrides.get(host)
        return own.profile if own is not None else ""

    def rack_of(self, number: int) -> str:
        """The rack of a broker, "" without racks."""
        return self.racks[number % len(self.racks)] if self.racks else ""


def _with_factor(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a replication factor there are as many replicas as brokers, up to the default."""
    replication, count = given.get("replication"), given.get("count", BrokersSpec().count)
    if not isinstance(replication, Mapping) or "factor" in replication or type(count) is not int or count < 1:
        return given
    return {**given, "replication": {"factor": min(ReplicationSpec().factor, count), **replication}}


fill_in(BrokersSpec, _with_factor)


@frozen(kw_only=True)
class LinkSpec:
    """Latency between two hosts, both ways, where it differs from the network's.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    a: str = field(metadata=key("a host"))
    b: str = field(metadata=key("another host"))
    latency_us: tuple[int, int] = field(converter=_latency, metadata=key("one way, the least and the most"))

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))


@frozen(kw_only=True)
class NetworkSpec:
    """How long a packet takes one way: drawn for each between these bounds; None = as ``network.latency`` is drawn.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    latency_us: tuple[int, int] | None = field(
        default=None,
        converter=optional(_latency),
        metadata=key("one way, the least and the most", at_most=LONGEST_US, shown="drawn: network.latency"),
    )
    links: tuple[LinkSpec, ...] = field(
        default=(),
        converter=tuple,
        metadata=key("a list of tables with a, b, latency: two hosts for which it differs"),
    )

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))


@frozen(kw_only=True)
class ChecksSpec:
    """When everything is healed, and how soon after that all must be well again.

    ``heal_after_us``: time of the world; None = at the scenario's ``duration_us``. From then on every group must get
    Stable (or Empty without members) with every partition owned within ``stable_within_us``; None = the longest that
    Kafka's own timeouts may keep a group waiting (see ``Scenario.stable_within_us``). ``away``: who is not healed, nor
    waited for.

    Raises:
        ScenarioError: everything that is wrong with it.
    """

    heal_after_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key("when everything is healed", at_least=0, at_most=LONGEST_US, shown="at the end of duration"),
    )
    stable_within_us: int | None = field(
        default=None,
        converter=optional(microseconds),
        metadata=key(
            "how soon after that all must be well",
            at_least=1,
            at_most=LONGEST_US,
            shown="what the members' timeouts may take",
        ),
    )
    away: AwaySpec | None = field(default=None, metadata=key("who stays away then; all others must get well"))

    def __attrs_post_init__(self) -> None:
        refuse(problems_of(self))


DEFAULT_DRAWS = "life"


def draws_of(given: DrawSet | str | Mapping[str, Any]) -> DrawSet:
    """What a scenario says of its draws as a field takes it; what is none of these is left as it is."""
    return cast(DrawSet, DrawsKey().take(given)) if isinstance(given, str | Mapping) else given


def _entries(given: Iterable[Entry | Mapping[str, Any]]) -> Plan:
    """A plan as a field takes it: entries, or rows as a file has them."""
    return cast(Plan, tuple(given))


@frozen(kw_only=True)
class Scenario:
    """One experiment. Members are hosts c1, c2, ... over all groups in order; brokers b0, b1, ...

    ``duration_us``: how long the plan and the load run. ``expect``: violations that it is to bring about (a scenario
    that shows a known weakness); the verdict of every other violation stands. ``profile``: the release it is about, a
    name of ``PROFILES``; "" = whatever is asked for.
    ``bugs``: issues of ``PAST_BUGS``; machines and assignors decide as they did before these were fixed. ``mended``: of
    those that a release has by itself, which ones it has not here.
    ``draws``: "life" or "calm", or a table of single draws, perhaps with its ``set``.

    Raises:
        ScenarioError: everything that is wrong with it, entries of the plan and names of hosts, groups and topics too.
    """

    name: str = field(metadata=key("what reports call it", shown="the file's name", always=True))
    summary: str = field(default="", metadata=key("one line for lists"))
    profile: str = field(
        default="",
        metadata=key(
            "which release everybody is",
            choices=lambda: ("", *PROFILES),
            what="profile",
            shown=DEFAULT_PROFILE,
            short=True,
        ),
    )
    duration_us: int = field(
        default=60_000_000,
        converter=microseconds,
        metadata=key("how long the plan and the load run", at_least=1, at_most=LONGEST_US, always=True, short=True),
    )
    seed: int = field(
        default=1, metadata=key("the seed when none is given", at_least=0, at_most=LARGEST_SEED, short=True)
    )
    bugs: tuple[str, ...] = field(
        default=(),
        converter=words,
        metadata=key(
            'bugs of Kafka\'s past that everybody has here ("kemu bugs" lists them)',
            choices=lambda: PAST_BUGS,
            what="past bug",
            short=True,
        ),
    )
    mended: tuple[str, ...] = field(
        default=(),
        converter=words,
        metadata=key(
            "past bugs of its release that nobody has here",
            choices=applying.bugs_of_releases,
            what="bug that a release has by itself",
            short=True,
        ),
    )
    expect: tuple[Expectation, ...] = field(
        default=(),
        converter=expectations,
        metadata=key(
            "violations that must come: tables of checker, kind, subject, may", choices=lambda: KINDS, short=True
        ),
    )
    brokers: BrokersSpec = field(default=BrokersSpec(), metadata=key("the brokers", always=True))
    draws: DrawSet = field(
        default=DrawSet(DEFAULT_DRAWS),
        converter=draws_of,
        metadata=key(
            'what is left to chance: "life", "calm" (an exact rhythm), or a table of draws ("kemu describe draws")',
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
    network: NetworkSpec = field(default=NetworkSpec(), metadata=key("the network"))
    checks: ChecksSpec = field(default=ChecksSpec(), metadata=key("what must hold, and when"))
    plan: Plan = field(
        default=(),
        converter=_entries,
        metadata=key('a list of tables with at or when, do, and what "kemu describe ACTION" shows'),
    )

    def __attrs_post_init__(self) -> None:
        problems = list(problems_of(self))
        if not {"brokers", "topics", "groups", "network", "bugs"} & {problem.path[0] for problem in problems}:
            problems += _contradictions(self)
            known = known_names(self)
            rows = [_row(entry, index, problems) for index, entry in enumerate(self.plan)]
            plan = plan_from_tables([Table(row, ("plan", at), problems) for at, row in enumerate(rows) if row], known)
            object.__setattr__(self, "plan", plan)
            problems += self._after_the_end() if not problems else []
        refuse(problems)

    def _after_the_end(self) -> Iterator[Problem]:
        """Entries of the plan that would never happen, because the run is over before."""
        for index, entry in enumerate(self.plan):
            if isinstance(entry, At) and entry.at_us > self.runs_us:
                ends = duration_text(self.runs_us)
                text = f"{duration_text(entry.at_us)} is after the end of the run ({ends})"
                yield Problem(("plan", index, "at"), f"{text}: choose an earlier time, or a longer duration")

    @property
    def heal_at_us(self) -> int:
        """When every fault that still lasts is ended."""
        return self.runs_us if self.checks.heal_after_us is None else self.checks.heal_after_us

    @property
    def runs_us(self) -> int:
        """How long the plan and the load run: ``duration_us``, or longer if a part of the plan is due later.

        A rolling restart takes as long as it has members; of a group that grows, those that the plan adds count too.
        """
        ends_us = [self._ends_us(entry) for entry in self.plan if isinstance(entry, At)]
        return max([self.duration_us, *ends_us])

    def _ends_us(self, entry: At) -> int:
        """When the last member of a rolling restart is up and has had time to join; 0 for anything else."""
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
        """How long Kafka's own timeouts may keep a group from its work, whatever happened.

        The longest session a dead member can hold on to, plus the longest ``max.poll.interval.ms`` a rebalance then
        waits for members that do not come back, plus a minute for everything else; more, if starts, work and callbacks
        may take longer than that.
        """
        configs = self._member_configs()
        waits_ms = max(config.session_timeout_ms for config in configs)
        waits_ms += max(config.max_poll_interval_ms for config in configs)
        names = (*TAKES_TIME, *STARTS_OF_A_CONTROLLER) if self.brokers.replication is not None else TAKES_TIME
        drawn = [how.most for name in names if (how := self.draws.of(name)) is not None]
        callbacks_ms = max(
            config.emulated_on_revoked_ms + config.emulated_on_lost_ms + config.emulated_on_assigned_ms
            for config in configs
        )
        return waits_ms * 1_000 + max(MINUTE_US, sum(drawn) + callbacks_ms * 1_000)

    @property
    def metadata_max_age_us(self) -> int:
        """When a member hears at the latest what no error makes it ask for: the longest ``metadata.max.age.ms``."""
        return max(config.metadata_max_age_ms for config in self._member_configs()) * 1_000

    def _member_configs(self) -> list[ConsumerConfig]:
        given = [(group.config, member.config) for group in self.groups.values() for member in _members_of(group)]
        return [configured(EARLIEST, (*config, *own)) for config, own in given] or [EARLIEST]

    @property
    def stable_within_us(self) -> int:
        """How long groups may take to get well after the healing: ``timeouts_us``, unless set."""
        within_us = self.checks.stable_within_us
        return self.timeouts_us if within_us is None else within_us

    @property
    def ends_us(self) -> int:
        """When the run is over at the latest: the load has run, and the time to get well again has passed."""
        return max(self.runs_us, self.heal_at_us + self.stable_within_us)

    def broker_names(self) -> tuple[str, ...]:
        """b0, b1, ... (the number is the node id): those that are there at the start."""
        return tuple(broker_host(number) for number in range(self.brokers.count))

    def added_broker_names(self) -> tuple[str, ...]:
        """Brokers that the plan adds."""
        actions = (entry.action for entry in self.plan if isinstance(entry, At | When))
        count = sum(action.count for action in actions if isinstance(action, AddBroker))
        return tuple(broker_host(self.brokers.count + number) for number in range(count))

    @property
    def mixes_releases(self) -> bool:
        """Whether brokers are of several releases, or become it."""
        return any(self.other_broker_profiles())

    def other_broker_profiles(self) -> tuple[str, ...]:
        """The releases that single brokers are of, or brokers become by the plan."""
        actions = (entry.action for entry in self.plan if isinstance(entry, At | When))
        named = [own.profile for own in self.brokers.overrides.values()]
        named += [action.profile for action in actions if isinstance(action, BrokersUpgrade)]
        return tuple(dict.fromkeys(name for name in named if name))

    def member_names(self) -> tuple[tuple[str, str, int], ...]:
        """(host, group, number within the group) of every member there is at the start; c1 is the first."""
        numbered = [(group, number) for group, spec in self.groups.items() for number in range(spec.members)]
        return tuple((consumer_host(index), group, number) for index, (group, number) in enumerate(numbered, start=1))

    def created_topics(self) -> dict[str, TopicSpec]:
        """Topics that are not there at the start: the plan creates them."""
        created: dict[str, TopicSpec] = {}
        for action in (entry.action for entry in self.plan if isinstance(entry, At | When)):
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
        return plain_form(self)


def _members_of(group: GroupSpec) -> Iterable[MemberSpec]:
    """A member as all are, and those that are otherwise."""
    return (AS_ITS_GROUP, *group.overrides.values())


def known_names(scenario: Scenario) -> Known:
    """What a plan may speak of in this scenario."""
    profile = PROFILES.get(scenario.profile, PROFILES[DEFAULT_PROFILE])
    offsets = configured(profile.broker, scenario.brokers.config).offsets_topic_num_partitions
    return Known(
        brokers=scenario.broker_names(),
        members=tuple(host for host, _, _ in scenario.member_names()),
        producers=tuple(producer_host(number) for number in range(1, len(scenario.topics) + 1)),
        groups=tuple(scenario.groups),
        topics=tuple((name, topic.partitions) for name, topic in scenario.topics.items()),
        internal=((OFFSETS_TOPIC, offsets),) if scenario.brokers.replication is not None else (),
        replicated=scenario.brokers.replication is not None,
        streams=tuple(name for name, group in scenario.groups.items() if group.streams is not None),
        in_groups=tuple((host, group) for host, group, _ in scenario.member_names()),
        log_dirs=tuple((host, scenario.brokers.log_dirs_of(host)) for host in scenario.broker_names()),
        subscribed=tuple(topic for group in scenario.groups.values() for topic in group.topics),
    )


def _row(entry: object, index: int, problems: list[Problem]) -> Mapping[str, Any]:
    """An entry as a file has it; one way in for both, so that both are checked alike."""
    if isinstance(entry, At | When):
        return entry_to_dict(entry)
    if not isinstance(entry, Mapping):
        problems.append(Problem(("plan", index), f"must be At(...), When(...) or a table, not {said_of(entry)}"))
        return {}
    return entry


def _contradictions(scenario: Scenario) -> Iterator[Problem]:
    """What no single part of a scenario shows: names that nobody has, more replicas than brokers."""
    if not scenario.topics:
        yield Problem(("topics",), "needs at least one topic")
    rows = [entry for entry in scenario.plan if isinstance(entry, Mapping)]
    created = list(scenario.created_topics())
    created += [str(row.get("topic", "")) for row in rows if row.get("do") == "create-topic"]
    topics = [*scenario.topics, *created]
    for name, group in scenario.groups.items():
        for topic in group.topics:
            path = ("groups", name, "topics") if group.streams is None else ("groups", name, "streams", "subtopologies")
            yield from _unknown(path, topic, topics, "topic")
        yield from _of_streams(("groups", name), group, scenario.topics)
        hosts = [host for host, of, _ in scenario.member_names() if of == name]
        for host in group.overrides:
            yield from _unknown(("groups", name, "overrides", host), host, hosts, f"member of {name}")
    counts = [row.get("count", 1) for row in rows if row.get("do") == "add-broker"]
    more = sum(count for count in counts if type(count) is int and 0 < count <= MOST_BROKERS)
    added = (*scenario.added_broker_names(), *(broker_host(scenario.brokers.count + at) for at in range(more)))
    for host in scenario.brokers.overrides:
        yield from _unknown(("brokers", "overrides", host), host, (*scenario.broker_names(), *added), "broker")
    known = known_names(scenario)
    for index, link in enumerate(scenario.network.links):
        for side, host in (("a", link.a), ("b", link.b)):
            yield from _unknown(("network", "links", index, side), host, known.hosts(), "host")
    yield from _refused_sessions(scenario)
    yield from _of_those_away(scenario)
    for index, bug in enumerate(scenario.bugs):
        if scenario.brokers.replication is None and PAST_BUGS[bug].past.needs_replication:
            yield Problem(("bugs", index), f"{bug} is of brokers that replicate: add [brokers.replication]")
    for name, spec in scenario.topics.items():
        yield from _of_replicas(("topics", name), spec, scenario.brokers)


def _of_those_away(scenario: Scenario) -> Iterator[Problem]:
    """Who stays away is there at the start; brokers can only where others have their replicas, and not all of them."""
    if scenario.checks.away is None:
        return
    path = ("checks", "away", "hosts")
    hosts, brokers = scenario.checks.away.hosts, scenario.broker_names()
    for host in hosts:
        yield from _unknown(
            path, host, (*brokers, *(name for name, _, _ in scenario.member_names())), "broker or member"
        )
    away = [host for host in brokers if host in hosts]
    if away and scenario.brokers.replication is None:
        yield Problem(path, f"{away[0]} is a broker, and nobody else has its partitions: add [brokers.replication]")
    elif len(away) == len(brokers):
        yield Problem(path, "must leave a broker")


def _refused_sessions(scenario: Scenario) -> Iterator[Problem]:
    """A coordinator answers a JoinGroup with INVALID_SESSION_TIMEOUT outside of its bounds: the member would fail."""
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


def _unknown(path: tuple[str | int, ...], name: str, known: Iterable[str], what: str) -> Iterator[Problem]:
    names = list(known)
    if name not in names:
        yield Problem(path, f'"{name}" is no {what}{nearest(name, names)}')


def _of_streams(path: tuple[str | int, ...], group: GroupSpec, topics: Mapping[str, TopicSpec]) -> Iterator[Problem]:
    """A topology's topics are the group's, each changelog has a partition for each task, instances can run."""
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
        yield Problem((*path, "topics"), f"must be those of the topology, {', '.join(topology.topics)}; leave it out")
    for index, each in enumerate(topology.subtopologies):
        needed = max((topics[topic].partitions for topic in each.topics if topic in topics), default=0)
        if each.changelog and each.changelog not in topics:
            yield Problem(
                (*where, index), f'the changelog "{each.changelog}" is no topic: add [topics.{each.changelog}]'
            )
        elif each.changelog and topics[each.changelog].partitions != needed:
            has = topics[each.changelog].partitions
            yield Problem(
                (*where, index), f"the changelog {each.changelog} has {has} partitions, its tasks are {needed}"
            )


def _of_replicas(path: tuple[str | int, ...], topic: TopicSpec, brokers: BrokersSpec) -> Iterator[Problem]:
    """What a topic says about replicas needs brokers that replicate, and enough of them."""
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
        yield Problem((*path, "replication_factor"), f"must not be more than there are brokers ({brokers.count})")
    if (topic.min_isr or 1) > factor:
        yield Problem((*path, "min_isr"), f"must not be more than the replication factor ({factor})")
