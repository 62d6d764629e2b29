"""A consumer group of a scenario."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from kemu.emulator.scenario.forms import fill_in
from kemu.emulator.scenario.keys import key, problems_of, refuse
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, consumer_settings, name_assignors_once
from kemu.emulator.scenario.streams import StreamsSpec, topics_of_streams
from kemu.emulator.text.kafka_keys import Settings, assignor_names, configured
from kemu.emulator.text.tables import Problem
from kemu.emulator.text.units import LONGEST_US, microseconds, words
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.topic_pattern import TopicPattern, wrong_pattern

EARLIEST = ConsumerConfig(auto_offset_reset="earliest")
"""The defaults of members. Only ``auto.offset.reset`` differs from Kafka's ("latest"): under "latest" a member that
starts after the producers passes over what they appended before its first commit, and no checker could tell these
records from lost ones. A scenario about that very trap sets ``auto.offset.reset = "latest"``."""

MOST_MEMBERS = 10_000


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
