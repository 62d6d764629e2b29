"""Compose a scenario in TOML from the facts in files; each assumption becomes a comment.

The output of one ``--describe`` has the lag, but no rate. A rate needs two outputs for the same partitions, and the
time between them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd
from typing import Any

from attrs import Factory

from kemu.emulator.scenario.groups import LONGEST_LABEL, SETTINGS_OF_CLASSIC
from kemu.emulator.scenario.protocols import CLASSIC, CONSUMER, CONSUMER_PROFILE, KEY
from kemu.emulator.text.kafka_keys import Settings, settings_dict
from kemu.emulator.text.toml_text import toml_key, toml_value
from kemu.emulator.text.units import duration_text
from kemu.protocol.assign.registry import ASSIGNORS
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ProducerConfig
from kemu.protocol.consumer_group.assignors import ASSIGNORS as REMOTE_ASSIGNORS
from kemu.protocol.dynamic_configs import (
    MIN_INSYNC_REPLICAS,
    RETENTION_BYTES,
    RETENTION_MS,
    SEGMENT_BYTES,
    SEGMENT_MS,
    UNCLEAN_ELECTION_ENABLE,
    ConfigResource,
    bad_setting,
)
from kemu.protocol.frozen import define, frozen
from kemu.protocol.names import broker_host, consumer_host
from kemu.protocol.reassign.requests import list_error
from kemu.tools.kafka_files.kafka_output import Found, GroupFacts, TopicFacts
from kemu.tools.kafka_files.kafka_properties import Properties

ASSUMED_RATE = 10
ASSUMED_MEMBERS = 3
ASSUMED_PARTITIONS = 6
ASSUMED_BROKERS = 3
_CLASSIC_START_S = 10
"""Start of a classic member in a group of the consumer protocol: a member of that protocol must be the first."""
LEAST_S, MARGIN_S, RESTART_S = 120, 60, 20
"""Minimum duration of an imported scenario, margin around a rolling restart, and duration of a restart, in seconds."""
UNNAMED_GROUP = "group"
_OFFSETS_TOPIC = "__consumer_offsets"
_LONGEST_NUMBER, _LONGEST_RACK = 20, 30
_NUMBER = re.compile(rf"-?[0-9]{{1,{_LONGEST_NUMBER}}}")
_NO_LIMIT = "8760h"
"""Retention of a topic without a limit of time: a year, which is longer than any run."""
_AS_EMULATED = ("cleanup.policy=delete",)
"""Settings of topics with the behaviour that every topic of a scenario has."""
_ASSUMED_SETTINGS = {
    "emulated.commit.after.poll": "assumed: without auto-commit the application commits what it processed",
}
_READS_BACKLOG = {
    "auto.offset.reset": "assumed: in the scenario a group reads its lag from the start, because it has no commit yet"
}
LARGEST_SHARE = 1_000_000_000
LARGEST_BACKLOG = 2**31 - 1


def _milliseconds(text: str) -> str:
    return _NO_LIMIT if text == "-1" else duration_text(int(text) * 1_000)


_TOPIC_KEYS: Mapping[str, tuple[str, Callable[[str], int | bool | str]]] = {
    MIN_INSYNC_REPLICAS: ("min_isr", int),
    UNCLEAN_ELECTION_ENABLE: ("unclean", lambda text: text == "true"),
    RETENTION_MS: ("retention", _milliseconds),
    RETENTION_BYTES: ("retention_bytes", int),
    SEGMENT_MS: ("segment", _milliseconds),
    SEGMENT_BYTES: ("segment_bytes", int),
}
"""Kafka's key of a topic -> the key of a scenario, and the conversion of the value."""


@frozen
class Imported:
    """The result of an import: the scenario as TOML, a summary in one line, and remarks for the user."""

    toml: str
    summary: str
    remarks: tuple[str, ...]


@define
class _Group:
    """A group of the scenario, with a comment for each assumed value."""

    name: str
    topics: tuple[str, ...]
    topics_comment: str = ""
    members: int = ASSUMED_MEMBERS
    members_comment: str = ""
    assignors: tuple[str, ...] = ()
    assignors_comment: str = ""
    static: bool = False
    static_comment: str = ""
    settings: Settings = ()
    lags: dict[tuple[str, int], int] = Factory(dict)
    """(topic, partition) -> records that the group has not read."""
    labels: tuple[str, ...] = ()
    consumer_protocol: bool = False
    classic: tuple[int, ...] = ()
    """Numbers, from 0, of the members with the classic protocol in a group of the consumer protocol."""
    reads_backlog: bool = False
    """Whether ``auto.offset.reset`` was changed to "earliest", so that the group reads its lag."""


@define
class _Composer:
    """Chooses the values of the scenario; ``remarks`` collects sentences for the user."""

    found: Found
    properties: Sequence[Properties]
    apart_s: float | None
    remarks: list[str] = Factory(list)

    def of_kind(self, kind: str) -> list[Properties]:
        return [one for one in self.properties if one.kind == kind]

    def topics(self) -> list[TopicFacts]:
        """Return the topics of users by name; add a remark about omitted internal topics."""
        own = sorted(name for name in self.found.topics if name.startswith("__"))
        if own:
            self.remarks.append(f"left out, Kafka's own: {', '.join(own)}")
        listed = [self.found.topics[name] for name in sorted(self.found.topics) if name not in own]
        if not listed:
            self.remarks.append(f'assumed a topic "topic" with {ASSUMED_PARTITIONS} partitions: no topic in the input')
            listed = [TopicFacts("topic", ASSUMED_PARTITIONS)]
        return listed

    def groups(self, topics: Sequence[TopicFacts]) -> list[_Group]:
        """Return the groups in the output of ``--describe``, and groups that only a properties file names."""
        known = {topic.name for topic in topics}
        consumers = self.of_kind("consumer")
        named = [one.group for one in consumers if one.group is not None]
        facts = {name: group for name, group in self.found.groups.items() if name}
        if "" in self.found.groups:
            free = [name for name in dict.fromkeys(named) if name not in facts]
            name = free[0] if free else UNNAMED_GROUP
            self.remarks.append(f'assumed: the --describe without a GROUP column is about group "{name}"')
            facts[name] = self.found.groups[""]
        for name in named:
            facts.setdefault(name, GroupFacts(name))
        if consumers and not facts:
            facts[UNNAMED_GROUP] = GroupFacts(UNNAMED_GROUP)
            named.append(UNNAMED_GROUP)
            self.remarks.append(f'assumed a group "{UNNAMED_GROUP}": there are consumer settings and no group')
        if not facts:
            self.remarks.append("no group in the input: add kafka-consumer-groups --describe --group G --members")
        return [self._group(name, one, known) for name, one in sorted(facts.items()) if self._is_used(name, one, named)]

    def _is_used(self, name: str, facts: GroupFacts, named: Iterable[str]) -> bool:
        there = facts.state != "Dead" and bool(facts.offsets or facts.members or facts.member_count or name in named)
        if not there:
            self.remarks.append(f'group "{name}" is left out: it has no members and no offsets')
        return there

    def _group(self, name: str, facts: GroupFacts, known: set[str]) -> _Group:
        group = _Group(name, ())
        self._choose_topics(group, facts, known)
        files = [one for one in self.of_kind("consumer") if one.group in (None, name)]
        merged: dict[str, Any] = {}
        for one in sorted(files, key=lambda one: one.group is not None):
            merged.update(dict(one.settings))
        strategy = merged.pop("partition_assignment_strategy", None)
        if merged.get("enable_auto_commit") is False:
            merged.setdefault("emulated_commit_after_poll", True)
        group.settings = tuple(sorted(merged.items()))
        self._choose_members(group, facts)
        if sign := self._consumer_protocol_sign(name, facts, files):
            self.remarks.append(f'group "{name}" uses the consumer protocol of KIP-848 ({sign})')
            merged = self._choose_consumer_protocol(group, facts, merged, strategy)
            group.settings = tuple(sorted(merged.items()))
        else:
            self._choose_assignors(group, facts, strategy)
        if any(one.instance for one in files):
            group.static, group.static_comment = True, "group.instance.id is set"
        lags = {at: row.lag for at, row in facts.offsets.items() if row.lag is not None and at[0] in group.topics}
        group.lags = {at: max(0, lag) for at, lag in lags.items()}
        if any(group.lags.values()) and merged.get("auto_offset_reset", "earliest") != "earliest":
            group.reads_backlog = True
            group.settings = tuple(sorted({**merged, "auto_offset_reset": "earliest"}.items()))
        return group

    def _choose_topics(self, group: _Group, facts: GroupFacts, known: set[str]) -> None:
        active = {row.topic: None for row in facts.offsets.values() if row.consumer is not None}
        for member in (facts.members or {}).values():
            active.update({topic: None for topic, _ in member.assigned})
        committed = {row.topic: None for row in facts.offsets.values()}
        chosen = sorted(topic for topic in (active or committed) if topic in known)
        stale = sorted(topic for topic in committed if topic in known and topic not in chosen)
        if stale:
            group.topics_comment = f"without {', '.join(stale)}: committed, but not consumed"
        if not chosen:
            chosen = sorted(known)
            group.topics_comment = "assumed: the input names no topics of the group"
        group.topics = tuple(chosen)

    def _choose_members(self, group: _Group, facts: GroupFacts) -> None:
        rows = facts.clients
        labels = [member.client for member in (facts.members or {}).values()] or list(rows.values())
        rack = dict(group.settings).get("client_rack")
        where = _one_line(f", rack {rack}")[:_LONGEST_RACK] if rack else ""
        group.labels = tuple(f"{_one_line(label)[: LONGEST_LABEL - len(where)]}{where}" for label in labels)
        if facts.members:
            group.members = len(facts.members)
            instances = sum(member.instance is not None for member in facts.members.values())
            group.static = instances > 0
            if 0 < instances < group.members:
                group.static_comment = f"{instances} of {group.members} members are static; in the scenario all"
        elif facts.member_count:
            group.members = facts.member_count
        elif rows:
            group.members = len(rows)
            group.members_comment = "number of consumers in the offsets table"
        elif facts.state == "Empty" or facts.offsets or facts.member_count == 0:
            group.members = 1
            group.members_comment = "assumed: the group had no active member when described"
        else:
            group.members_comment = "assumed: the input has no number of members"

    def _choose_assignors(self, group: _Group, facts: GroupFacts, strategy: tuple[str, ...] | None) -> None:
        if strategy:
            group.assignors = strategy
        elif facts.strategy is not None and facts.strategy in ASSIGNORS:
            group.assignors = (facts.strategy,)
        elif facts.strategy is not None:
            group.assignors = ("range",)
            group.assignors_comment = f"assumed: the group's assignor, {facts.strategy}, is not emulated"
            self.remarks.append(f'group "{group.name}" uses {facts.strategy}, which is not emulated; range replaces it')
        else:
            group.assignors_comment = "assignors: the release's default; --state shows the strategy"

    def rate(self, topic: str, consumed: bool) -> tuple[int, str]:
        """Return the records per second of a topic, and the origin of the number."""
        grown = self._growth(topic)
        if grown and self.apart_s:
            records = sum(grown.values())
            return max(
                round(records / self.apart_s), min(records, 1)
            ), f"measured: {records} records in {self.apart_s:g} s"
        if consumed:
            return ASSUMED_RATE, "assumed: one describe contains no rate (see --apart)"
        return 0, "no group of the input consumes the topic"

    def shares(self, topic: str, partitions: int) -> list[int]:
        """Return the relative load of each partition, from the growth of the logs; [] for an equal load."""
        grown = self._growth(topic) if self.apart_s else {}
        shares = [grown.get(number, 0) for number in range(partitions)]
        if len(set(shares)) == 1:
            return []
        unit = max(gcd(*shares), -(-max(shares) // LARGEST_SHARE))
        return [-(-share // unit) for share in shares]

    def backlog(self, topic: str, partitions: int, groups: Sequence[_Group]) -> list[int]:
        """Return the records in each partition before the run: the largest lag of a group; [] without a lag."""
        readers = [group for group in groups if topic in group.topics]
        lags = {group.name: [group.lags.get((topic, at), 0) for at in range(partitions)] for group in readers}
        backlog = [min(max(each), LARGEST_BACKLOG) for each in zip(*lags.values(), strict=True)] if lags else []
        for name, own in lags.items():
            if more := sum(backlog) - sum(own):
                self.remarks.append(
                    f"{topic}: the backlog of each partition is the largest lag of a group; so group "
                    f'"{name}" reads {more} records more than its lag of {sum(own)}'
                )
        return backlog if any(backlog) else []

    def _growth(self, topic: str) -> dict[int, int]:
        """Return partition -> number of records appended between the first and the last output for the partition."""
        grown: dict[int, int] = {}
        for group in self.found.groups.values():
            if group.offset_tables < 2:
                continue
            for (name, partition), row in group.offsets.items():
                if name == topic and row.end is not None:
                    records = row.end - group.first_end[name, partition]
                    grown[partition] = max(records, grown.get(partition, 0))
        return grown

    def _consumer_protocol_sign(self, name: str, facts: GroupFacts, files: Sequence[Properties]) -> str:
        """Return the text that only a group of the consumer protocol has; "" for a classic group."""
        if facts.consumer_protocol_sign:
            return facts.consumer_protocol_sign
        if self.found.types.get(name) == "Consumer":
            return "TYPE Consumer"
        return next((f"group.protocol=consumer in {one.source}" for one in files if one.kip_848), "")

    def _choose_consumer_protocol(
        self, group: _Group, facts: GroupFacts, settings: dict[str, Any], strategy: tuple[str, ...] | None
    ) -> dict[str, Any]:
        """Make the group one of the consumer protocol; return its settings, without those that its members lack."""
        group.consumer_protocol = True
        group.assignors_comment = "the coordinator assigns the partitions: group.remote.assignor"
        left_out = ["partition.assignment.strategy"] if strategy else []
        for name in SETTINGS_OF_CLASSIC:
            if settings.pop(name.replace(".", "_"), None) is not None:
                left_out.append(name)
        if left_out:
            self.remarks.append(
                f'group "{group.name}": left out, as members of the consumer protocol lack them: {", ".join(left_out)}'
            )
        if facts.strategy in REMOTE_ASSIGNORS:
            settings.setdefault("group_remote_assignor", facts.strategy)
        elif facts.strategy is not None:
            self.remarks.append(
                f'group "{group.name}" uses the assignor {facts.strategy}, which is not emulated; the brokers choose'
            )
        members = (facts.members or {}).values()
        group.classic = tuple(number for number, member in enumerate(members) if member.classic)
        return {**settings, "group_protocol": CONSUMER}

    def factor(self, topics: Sequence[TopicFacts]) -> int | None:
        """Return the replication factor of the scenario; None if the input has no replication factor.

        The factor of ``__consumer_offsets`` comes first, as the scenario's factor applies to this topic, too.
        """
        own = self.found.topics.get(_OFFSETS_TOPIC)
        if own is not None and own.factor:
            return own.factor
        return max((topic.factor for topic in topics if topic.factor), default=None)

    def brokers(self, topics: Sequence[TopicFacts]) -> tuple[int, str]:
        """Return the number of brokers, and the origin of the number."""
        ids = sorted(self.found.brokers)
        least = max((topic.factor or 0 for topic in (*topics, *self.found.topics.values())), default=0)
        if len(ids) >= max(least, 1):
            return len(ids), f"seen: {', '.join(map(str, ids))}"
        if ids:
            return least, f"seen: {', '.join(map(str, ids))}; a topic has {least} replicas"
        return max(least, ASSUMED_BROKERS), "assumed: the input names no broker"

    def broker_ids(self) -> str:
        """Return the brokers of the input for the hosts of the scenario: "b0 = broker 1, b1 = broker 4"."""
        ids = sorted(self.found.brokers)
        return ", ".join(f"{broker_host(at)} = broker {broker}" for at, broker in enumerate(ids)) if ids else ""

    def replication(self, factor: int) -> dict[str, Any]:
        """Return the keys of [brokers.replication]."""
        given: dict[str, Any] = {"factor": factor}
        for one in self.of_kind("broker"):
            given.update(one.replication)
        if given.get("min_isr", 1) > factor:
            self.remarks.append(f"left out: min.insync.replicas={given.pop('min_isr')} is above the factor {factor}")
        return given

    def topic_settings(self, topic: TopicFacts, factor: int | None) -> tuple[dict[str, Any], list[str]]:
        """Return the keys of a topic for its settings of Kafka, and the settings that are not emulated."""
        given: dict[str, Any] = {}
        others: list[str] = []
        if topic.factor and topic.factor != factor:
            given["replication_factor"] = topic.factor
        for setting in topic.configs:
            name, _, text = setting.partition("=")
            if _NUMBER.fullmatch(text):
                text = str(int(text))
                setting = f"{name}={text}"
            if setting == f"{RETENTION_MS}=0":
                others.append(f"{setting} (the least value is 1 ms)")
                continue
            if setting in _AS_EMULATED or (name == RETENTION_BYTES and text == "-1"):
                continue
            if name not in _TOPIC_KEYS or len(text) > _LONGEST_NUMBER or bad_setting(ConfigResource.TOPIC, name, text):
                others.append(setting)
            elif name in (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION_ENABLE) and not factor:
                others.append(f"{setting} (the input has no replication factor)")
            elif name == MIN_INSYNC_REPLICAS and int(text) > (topic.factor or factor or 0):
                others.append(f"{setting} (above the replication factor)")
            else:
                key, value = _TOPIC_KEYS[name]
                given[key] = value(text)
        return given, others

    def assignment(self, topic: TopicFacts) -> list[str]:
        """Return the replicas of each partition as numbers of the scenario's brokers; [] unless all are known."""
        count = topic.partitions or 0
        lists = [topic.replicas.get(number, ()) for number in range(count)]
        if not topic.factor or not any(lists):
            return []
        number_of = {broker: number for number, broker in enumerate(sorted(self.found.brokers))}
        if topic.highest >= count or any(list_error(one) or len(one) != topic.factor for one in lists):
            self.remarks.append(
                f"{topic.name}: kemu places the replicas, because the input does not have {topic.factor} replicas of "
                "each partition"
            )
            return []
        return [" ".join(str(number_of[broker]) for broker in one) for one in lists]

    def broker_settings(self) -> dict[str, Any]:
        """Return settings of brokers by Kafka's keys; a file overrides the output about the offsets topic."""
        given: dict[str, Any] = {}
        own = self.found.topics.get(_OFFSETS_TOPIC)
        if own is not None and own.partitions:
            given["offsets.topic.num.partitions"] = own.partitions
        for one in self.of_kind("broker"):
            given.update(settings_dict(BrokerConfig, one.settings))
        return given

    def producer_settings(self) -> dict[str, Any]:
        """Return settings of producers by Kafka's keys, without the rate, which is a key of the topic."""
        given: dict[str, Any] = {}
        for one in self.of_kind("producer"):
            given.update(settings_dict(ProducerConfig, one.settings))
        return given


def compose(
    found: Found, properties: Sequence[Properties], sources: Sequence[str], name: str | None, apart_s: float | None
) -> Imported:
    """Return the scenario of all facts; ``apart_s``: seconds between the first and the last ``--describe``."""
    composer = _Composer(found, properties, apart_s)
    topics = composer.topics()
    groups = composer.groups(topics)
    consumer_protocol = any(group.consumer_protocol for group in groups)
    name = name or (groups[0].name if groups else topics[0].name)
    counts = [_counted(len(topics), "topic"), _counted(len(groups), "group")]
    counts.append(_counted(sum(group.members for group in groups), "member"))
    out = _Writer()
    out.comment(f"Made by: kemu import {' '.join(sources)}")
    out.comment('A comment that begins with "assumed" marks a value that is not in the input.')
    out.pair("name", name)
    if consumer_protocol:
        out.pair("profile", CONSUMER_PROFILE, "assumed: the output is the same in Kafka 4.0 to 4.3")
    out.pair("summary", f"Imported: {', '.join(counts)}")
    members = max([group.members for group in groups], default=0)
    out.pair("duration", f"{max(LEAST_S, MARGIN_S + members * RESTART_S)}s", "enough to restart every member in turn")
    count, known_by = composer.brokers(topics)
    factor = composer.factor(topics)
    out.table("brokers")
    out.pair("count", count, known_by)
    if composer.found.brokers:
        out.comment(composer.broker_ids())
    if factor:
        out.settings(("brokers", "replication"), composer.replication(factor))
    out.settings(("brokers", "config"), composer.broker_settings())
    consumed = {topic for group in groups for topic in group.topics}
    for topic in topics:
        _write_topic(out, composer, topic, factor, groups, topic.name in consumed)
    first, plan = 1, []
    for group in groups:
        _write_group(out, group)
        for number in group.classic:
            host = consumer_host(first + number)
            plan.append(host)
            out.table("groups", group.name, "overrides", host)
            out.pair("start_later", True, "classic: a member of the consumer protocol must be the first")
            out.settings(("groups", group.name, "overrides", host, "config"), {KEY: CLASSIC})
        first += group.members
    out.settings(("producers", "config"), composer.producer_settings())
    for host in plan:
        out.action({"at": f"{_CLASSIC_START_S}s", "do": "start-host", "host": host})
    remarks = tuple(dict.fromkeys([*found.remarks, *composer.remarks]))
    summary = f"{_counted(count, 'broker')}, {', '.join(counts)}"
    return Imported(out.text(), summary, remarks)


def _write_topic(
    out: "_Writer",
    composer: _Composer,
    topic: TopicFacts,
    factor: int | None,
    groups: Sequence[_Group],
    consumed: bool,
) -> None:
    settings, others = composer.topic_settings(topic, factor)
    out.table("topics", topic.name)
    if others:
        out.comment(f"not emulated: {', '.join(others)}")
    partitions = max(topic.partitions or 0, topic.highest + 1)
    seen = "at least: the highest partition seen; kafka-topics --describe shows the number"
    out.pair("partitions", partitions, seen if topic.partitions is None else "")
    rate, comment = composer.rate(topic.name, consumed)
    out.pair("rate", f"{rate}/s", comment)
    if shares := composer.shares(topic.name, partitions):
        out.pair("shares", shares, "measured: records by partition")
    if backlog := composer.backlog(topic.name, partitions, groups):
        same = len(set(backlog)) == 1
        out.pair(
            "initial_records" if same else "initial_records_each",
            backlog[0] if same else backlog,
            "the lag when described",
        )
    for key, value in settings.items():
        out.pair(key, value)
    if assignment := composer.assignment(topic):
        out.pair("assignment", assignment)


def _write_group(out: "_Writer", group: _Group) -> None:
    out.table("groups", group.name)
    if group.lags:
        lag = _counted(sum(group.lags.values()), "record")
        out.comment(f"lag when described: {lag} over {_counted(len(group.lags), 'partition')}")
    out.pair("topics", list(group.topics), group.topics_comment)
    out.pair("members", group.members, group.members_comment)
    if len(group.labels) == group.members:
        out.pair("labels", list(group.labels))
    if group.assignors:
        out.pair("assignors", list(group.assignors), group.assignors_comment)
    else:
        out.comment(group.assignors_comment)
    if group.static:
        out.pair("static", True, group.static_comment)
    comments = {**_ASSUMED_SETTINGS, **(_READS_BACKLOG if group.reads_backlog else {})}
    out.settings(("groups", group.name, "config"), settings_dict(ConsumerConfig, group.settings), comments)


class _Writer:
    """Writes lines of TOML."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def text(self) -> str:
        """Return the text of the file."""
        return "\n".join(self._lines) + "\n"

    def comment(self, text: str) -> None:
        """Add a comment on a line of its own."""
        self._lines.append(f"# {_one_line(text)}")

    def table(self, *path: str) -> None:
        """Add the header of a table after a blank line."""
        self._lines += ["", f"[{'.'.join(toml_key(part) for part in path)}]"]

    def action(self, entry: Mapping[str, str]) -> None:
        """Add a line of the plan."""
        self._lines += ["", "[[plan]]"]
        for key, value in entry.items():
            self.pair(key, value)

    def pair(self, key: str, value: Any, comment: str = "") -> None:
        """Add a key and its value."""
        self._lines.append(f"{toml_key(key)} = {toml_value(value)}" + (f"  # {_one_line(comment)}" if comment else ""))

    def settings(self, path: tuple[str, ...], given: dict[str, Any], comments: Mapping[str, str] = {}) -> None:
        """Add a table of Kafka's keys with the comments of some keys, unless ``given`` is empty."""
        if given:
            self.table(*path)
            for key, value in given.items():
                self.pair(key, value, comments.get(key, ""))


def _one_line(text: str) -> str:
    """Return the text with a space for each character that ends a line or cannot be printed."""
    return "".join(char if char.isprintable() else " " for char in text)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
