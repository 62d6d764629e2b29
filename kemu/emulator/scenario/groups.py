"""A consumer group of a scenario."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import field

from kemu.emulator.scenario.forms import fill_in
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, consumer_settings, name_assignors_once
from kemu.emulator.scenario.streams import StreamsSpec, topics_of_streams
from kemu.emulator.text.kafka_keys import Settings, assignor_names, configured
from kemu.emulator.text.tables import Problem
from kemu.emulator.text.units import LONGEST_US, microseconds, words
from kemu.protocol.config import GROUP_PROTOCOLS, ConsumerConfig
from kemu.protocol.frozen import frozen
from kemu.protocol.topic_pattern import TopicPattern, wrong_pattern

EARLIEST = ConsumerConfig(auto_offset_reset="earliest")
"""The default configuration of members. Only ``auto.offset.reset`` differs from Kafka's default, "latest".

Under "latest", a member that starts after the producers skips records that were appended before the group's first
commit. No checker could distinguish skipped from lost records. A scenario about skipped records sets "latest"
itself."""

SETTINGS_OF_CLASSIC: Mapping[str, str] = {
    "session.timeout.ms": "the brokers have group.consumer.session.timeout.ms",
    "heartbeat.interval.ms": "the brokers have group.consumer.heartbeat.interval.ms",
    "enable.parallel.rebalance": "KIP-333 is about classic groups",
}
"""Consumer's key -> why a member of the consumer protocol lacks it."""
MOST_MEMBERS = 10_000
LONGEST_LABEL = 60
"""Maximum length of a member's label, in characters."""


@frozen(kw_only=True)
class GroupSpec:
    """A consumer group. The group's members share one configuration, except for ``overrides`` by host.

    ``labels`` has a text for each member in order, which reports print beside the member's host; further members have
    no label. ``static`` gives each member its host's name as ``group.instance.id``. With ``one_process`` the members
    are threads of one process: only members that start with the process draw ``first.join``. ``racks`` are assigned to
    members in turn. The first member starts at ``start_us``, the last member ``start_spread_us`` later, and other
    members evenly in between. ``config`` has Kafka's keys.

    Raises:
        ScenarioError: lists every mistake in the values.
    """

    topics: tuple[str, ...] = field(
        default=(),
        converter=words,
        metadata=key("subscribed topics", what="topic", shown="the topics that match the pattern"),
    )
    pattern: str = field(
        default="",
        metadata=key("regular expression for the whole topic name, instead of topics; see subscribe(Pattern)"),
    )
    members: int = field(
        default=3,
        metadata=key(
            "number of members; hosts are c1, c2, ... over all groups in order",
            at_least=0,
            at_most=MOST_MEMBERS,
            always=True,
            short=True,
        ),
    )
    assignors: tuple[str, ...] = field(
        default=(),
        converter=assignor_names,
        metadata=key("assignors in order of preference", what="assignor", shown="the release's", short=True),
    )
    labels: tuple[str, ...] = field(
        default=(),
        converter=words,
        metadata=key(
            'a text for each member in reports, such as its client id: ["billing-1 on /10.0.0.5"]', shown="none"
        ),
    )
    static: bool = field(default=False, metadata=key("whether members are static (group.instance.id)", short=True))
    one_process: bool = field(default=False, metadata=key("whether members are threads of one process"))
    racks: tuple[str, ...] = field(default=(), converter=words, metadata=key("racks, assigned to members in turn"))
    start_us: int = field(
        default=0,
        converter=microseconds,
        metadata=key("start of the first member", at_least=0, at_most=LONGEST_US, short=True),
    )
    start_spread_us: int = field(
        default=0,
        converter=microseconds,
        metadata=key(
            "time from the first member's start to the last member's", at_least=0, at_most=LONGEST_US, short=True
        ),
    )
    config: Settings = field(
        default=(), converter=consumer_settings, metadata=key("Kafka's keys of a consumer", config=ConsumerConfig)
    )
    overrides: Mapping[str, MemberSpec] = field(
        factory=dict,
        metadata=key("settings of single members, by host: [overrides.c2]", shown="none"),
    )
    streams: StreamsSpec | None = field(
        default=None, metadata=key("the Kafka Streams application of which members are instances")
    )

    def __attrs_post_init__(self) -> None:
        name_assignors_once(self)
        refuse([*self._wrong_subscription(), *problems_of(self)])
        refuse(self._mislabelled())
        refuse(self._wrong_for_protocol())

    def _wrong_subscription(self) -> Iterator[Problem]:
        if not self.topics and not self.pattern:
            wanted = 'needs at least one topic, or a "pattern" for the names of topics'
            yield Problem(("topics",), wanted, instead="pattern")
        elif self.topics and self.pattern:
            yield Problem(("pattern",), 'and "topics" exclude each other: give one of them')
        elif isinstance(self.pattern, str) and (wrong := wrong_pattern(self.pattern)):
            yield Problem(("pattern",), wrong)

    def _mislabelled(self) -> Iterator[Problem]:
        for index, label in enumerate(self.labels):
            if not label.isprintable() or len(label) > LONGEST_LABEL:
                yield Problem(("labels", index), f"must be at most {LONGEST_LABEL} printable characters")

    def _wrong_for_protocol(self) -> Iterator[Problem]:
        """Yield settings that do not fit ``group.protocol``, and uses of the consumer protocol that kemu lacks.

        Source: ``ConsumerConfig.checkUnsupportedConfigsPostProcess`` 4.0.
        """
        given = {name for name, _ in self.config}
        own = {host: {name for name, _ in member.config} for host, member in self.overrides.items()}
        for host, names in own.items():
            if "group_protocol" in names:
                text = "cannot be set for one member: members of both protocols in a group are not emulated"
                yield Problem(("overrides", host, "config", "group.protocol"), text)
        if not self.uses_consumer_protocol:
            if "group_remote_assignor" in given:
                yield Problem(("config", "group.remote.assignor"), "needs group.protocol = consumer")
            return
        text = "cannot be set with group.protocol = consumer"
        if self.assignors:
            yield Problem(("assignors",), f"{text}: the coordinator assigns (group.remote.assignor)")
        for key_name, why in SETTINGS_OF_CLASSIC.items():
            if key_name.replace(".", "_") in given:
                yield Problem(("config", key_name), f"{text}: {why}")
        for host, member in self.overrides.items():
            if member.assignors or own[host] & {each.replace(".", "_") for each in SETTINGS_OF_CLASSIC}:
                yield Problem(("overrides", host), f"has settings that {text.removeprefix('cannot ')}")
            if member.profile:
                yield Problem(("overrides", host, "profile"), "is not emulated with group.protocol = consumer")
        for name in ("pattern", "streams"):
            if getattr(self, name):
                yield Problem((name,), "is not emulated with group.protocol = consumer")

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members use the consumer protocol of KIP-848."""
        return isinstance(self.config, tuple) and dict(self.config).get("group_protocol") == GROUP_PROTOCOLS[1]

    @property
    def subscription(self) -> tuple[str, ...] | TopicPattern:
        """Return the subscribed topics, or the pattern of their names."""
        if not self.pattern:
            return self.topics
        excludes = configured(EARLIEST, self.config).exclude_internal_topics
        return TopicPattern(self.pattern, internal=not excludes)

    def subscribed_to(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return the topics among ``topics`` that members subscribe to."""
        subscription = self.subscription
        return subscription.among(topics) if isinstance(subscription, TopicPattern) else subscription

    def start_of(self, number: int) -> int:
        """Return the start of the member with this number (0 for the first), in us of virtual time."""
        return self.start_us + (self.start_spread_us * number // (self.members - 1) if self.members > 1 else 0)

    def consumer(
        self,
        group: str,
        host: str,
        number: int,
        defaults: ConsumerConfig = EARLIEST,
        member: MemberSpec = AS_ITS_GROUP,
    ) -> ConsumerConfig:
        """Return the configuration of one member.

        Args:
            group: name of the group.
            host: host of the member.
            number: number of the member within its group, from 0.
            defaults: the configuration of the member's release.
            member: settings of the member that differ from the group's settings.
        """
        named: dict[str, Any] = {"group_id": group, "client_id": host}
        if assignors := member.assignors or self.assignors:
            named["partition_assignment_strategy"] = assignors
        if self.static or member.instance:
            named["group_instance_id"] = member.instance or host
        if self.racks:
            named["client_rack"] = self.racks[number % len(self.racks)]
        return configured(defaults, (*self.config, *member.config, *named.items()))


fill_in(GroupSpec, topics_of_streams)
