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
_OF_CLASSIC_PROTOCOL = tuple(name.replace(".", "_") for name in SETTINGS_OF_CLASSIC)
_REMOTE_ASSIGNOR = "group_remote_assignor"
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
    subscription_pattern: str = field(
        default="",
        metadata=key("as pattern, but brokers match it, in the syntax of RE2/J; see subscribe(SubscriptionPattern)"),
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
        given = [name for name in ("topics", "pattern", "subscription_pattern") if getattr(self, name)]
        if not given:
            wanted = 'needs at least one topic, or a "pattern" for the names of topics'
            yield Problem(("topics",), wanted, instead=("pattern", "subscription_pattern"))
        for other in given[1:]:
            yield Problem((other,), f'and "{given[0]}" exclude each other: give one of them')
        for name in ("pattern", "subscription_pattern"):
            text, of_broker = getattr(self, name), name == "subscription_pattern"
            if isinstance(text, str) and given == [name] and (wrong := wrong_pattern(text, of_broker=of_broker)):
                yield Problem((name,), wrong)

    def _mislabelled(self) -> Iterator[Problem]:
        for index, label in enumerate(self.labels):
            if not label.isprintable() or len(label) > LONGEST_LABEL:
                yield Problem(("labels", index), f"must be at most {LONGEST_LABEL} printable characters")

    def _wrong_for_protocol(self) -> Iterator[Problem]:
        """Yield settings that do not fit ``group.protocol``, and uses of the consumer protocol that kemu lacks.

        Source: ``ConsumerConfig.checkUnsupportedConfigsPostProcess`` 4.0.
        """
        consumer = self.uses_consumer_protocol
        all_use_it = consumer and all(map(self.member_uses_consumer_protocol, self.overrides.values()))
        if self.subscription_pattern and not all_use_it:
            text = 'needs group.protocol = consumer for all members (KIP-848); classic members match a "pattern"'
            yield Problem(("subscription_pattern",), text)
        yield from _wrong_of_member((), self.assignors, self.config, consumer=consumer)
        for host, member in self.overrides.items():
            own = self.member_uses_consumer_protocol(member)
            yield from _wrong_of_member(("overrides", host), member.assignors, member.config, consumer=own)
            consumer = consumer or own
            if member.profile and consumer:
                yield Problem(("overrides", host, "profile"), "is not emulated with group.protocol = consumer")
        if consumer:
            yield from self.obstacles()

    def obstacles(self) -> Iterator[Problem]:
        """Yield the settings that kemu does not emulate in a group whose members use the consumer protocol at times."""
        text = "is not emulated with group.protocol = consumer"
        if self.streams:
            yield Problem(("streams",), text)
        if dict(self.config).get("enable_parallel_rebalance"):
            yield Problem(("config", "enable.parallel.rebalance"), text)

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members use the consumer protocol of KIP-848, unless ``overrides`` or the plan change it."""
        return self.member_uses_consumer_protocol(AS_ITS_GROUP)

    def member_uses_consumer_protocol(self, member: MemberSpec) -> bool:
        """Whether a member with these settings uses the consumer protocol of KIP-848."""
        given = [dict(each.config) for each in (self, member) if isinstance(each.config, tuple)]
        named = [each["group_protocol"] for each in given if "group_protocol" in each]
        return named[-1:] == [GROUP_PROTOCOLS[1]]

    @property
    def subscription(self) -> tuple[str, ...] | TopicPattern:
        """Return the subscribed topics, or the pattern of their names."""
        if self.subscription_pattern:
            return TopicPattern(self.subscription_pattern, of_broker=True)
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
            member: settings of the member that differ from the group's settings. A member with another
            ``group.protocol`` than its group leaves out the group's settings that its protocol refuses.
        """
        consumer = self.member_uses_consumer_protocol(member)
        settings = self.config
        if consumer is not self.uses_consumer_protocol:
            left_out = _OF_CLASSIC_PROTOCOL if consumer else (_REMOTE_ASSIGNOR,)
            settings = tuple(each for each in settings if each[0] not in left_out)
        named: dict[str, Any] = {"group_id": group}
        if (assignors := member.assignors or self.assignors) and not consumer:
            named["partition_assignment_strategy"] = assignors
        if self.static or member.instance:
            named["group_instance_id"] = member.instance or host
        if self.racks:
            named["client_rack"] = self.racks[number % len(self.racks)]
        return configured(defaults, (*settings, *member.config, *named.items()))


def _wrong_of_member(
    path: tuple[str, ...], assignors: tuple[str, ...], config: Settings, *, consumer: bool
) -> Iterator[Problem]:
    """Yield the settings of a group or a member that its ``group.protocol`` refuses."""
    given = {name for name, _ in config}
    if not consumer:
        if _REMOTE_ASSIGNOR in given:
            yield Problem((*path, "config", "group.remote.assignor"), "needs group.protocol = consumer")
        return
    text = "cannot be set with group.protocol = consumer"
    if assignors:
        yield Problem((*path, "assignors"), f"{text}: the coordinator assigns (group.remote.assignor)")
    for key_name, why in SETTINGS_OF_CLASSIC.items():
        if key_name.replace(".", "_") in given:
            yield Problem((*path, "config", key_name), f"{text}: {why}")


fill_in(GroupSpec, topics_of_streams)
