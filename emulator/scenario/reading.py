"""Scenarios from their plain form, such as a TOML file has: all is checked, all mistakes are reported at once."""

from collections.abc import Mapping
from typing import Any

from kemu.emulator.plan.known import Known
from kemu.emulator.scenario.members import read_member
from kemu.emulator.scenario.plan_reading import plan_from_tables, topics_created
from kemu.emulator.scenario.replication import read_replication
from kemu.emulator.scenario.scenario import (
    BrokersSpec,
    ChecksSpec,
    GroupSpec,
    LinkSpec,
    NetworkSpec,
    Scenario,
    TopicSpec,
)
from kemu.emulator.text.kafka_keys import Settings, check_assignors, read_settings
from kemu.emulator.text.tables import REQUIRED, Problem, ScenarioError, Table
from kemu.protocol.config import BrokerConfig, ConsumerConfig, ProducerConfig
from kemu.protocol.profiles import PROFILES


def scenario_from_dict(data: Mapping[str, Any], *, name: str = "") -> Scenario:
    """The scenario a plain dict describes; ``name`` where it gives none.

    Raises:
        ScenarioError: everything that is wrong with it, at once.
    """
    problems: list[Problem] = []
    scenario = read_scenario(data, problems, name)
    if problems:
        raise ScenarioError(problems)
    return scenario


def read_scenario(data: Mapping[str, Any], problems: list[Problem], name: str = "") -> Scenario:
    """As ``scenario_from_dict``, but the problems are added to a list; with any, the result is of no use."""
    top = Table(data, (), problems)
    topics = {key: _read_topic(table) for key, table in _named(top.table("topics", required=True))}
    entries = top.tables("plan")
    subscribable = [*topics, *topics_created(entries)]
    groups = {key: _read_group(table, subscribable) for key, table in _named(top.table("groups"))}
    scenario = Scenario(
        name=top.text("name", name or "scenario"),
        summary=top.text("summary", ""),
        profile=top.one_of("profile", PROFILES, "profile", ""),
        duration_us=top.duration("duration", 60_000_000, least_us=1),
        seed=top.count("seed", 1),
        expect=top.words("expect"),
        brokers=_read_brokers(top.table("brokers")),
        topics=topics,
        groups=groups,
        producers=_read_producers(top.table("producers")),
        checks=_read_checks(top.table("checks")),
    )
    known = known_names(scenario)
    _check_replication(top, scenario.brokers, topics)
    for host, group in ((host, group) for group, spec in groups.items() for host in spec.overrides):
        names = [each for each, of, _ in scenario.member_names() if of == group]
        top.table("groups").table(group).table("overrides").known(host, host, names, f"member of {group}")
    network = _read_network(top.table("network"), known)
    plan = plan_from_tables(entries, known)
    top.finish()
    if not topics and isinstance(top.data.get("topics"), Mapping):
        top.problem("topics", "needs at least one topic")
    return Scenario(
        name=scenario.name,
        summary=scenario.summary,
        profile=scenario.profile,
        duration_us=scenario.duration_us,
        seed=scenario.seed,
        expect=scenario.expect,
        brokers=scenario.brokers,
        topics=topics,
        groups=groups,
        producers=scenario.producers,
        network=network,
        checks=scenario.checks,
        plan=plan,
    )


def known_names(scenario: Scenario) -> Known:
    """What a plan may speak of in this scenario."""
    return Known(
        brokers=scenario.broker_names(),
        members=tuple(host for host, _, _ in scenario.member_names()),
        producers=tuple(host for host, _ in scenario.producer_names()),
        groups=tuple(scenario.groups),
        topics=tuple((name, topic.partitions) for name, topic in scenario.topics.items()),
        replicated=scenario.brokers.replication is not None,
        subscribed=tuple(topic for group in scenario.groups.values() for topic in group.topics),
    )


def _named(table: Table) -> list[tuple[str, Table]]:
    return [(key, table.table(key)) for key in table.data]


def _read_topic(table: Table) -> TopicSpec:
    topic = TopicSpec(
        partitions=table.count("partitions", REQUIRED, least=1),
        records_per_s=table.rate("rate", 10),
        record_bytes=table.count("record_bytes", 1_000, least=1),
        replication_factor=table.count("replication_factor", 1, least=1) if table.has("replication_factor") else None,
        min_isr=table.count("min_isr", 1, least=1) if table.has("min_isr") else None,
        unclean=table.flag("unclean", False) if table.has("unclean") else None,
    )
    table.finish()
    return topic


def _check_replication(top: Table, brokers: BrokersSpec, topics: Mapping[str, TopicSpec]) -> None:
    """What topics say about replicas needs brokers that replicate, and enough of them."""
    for name, topic in topics.items():
        given = [
            key
            for key, value in (
                ("replication_factor", topic.replication_factor),
                ("min_isr", topic.min_isr),
                ("unclean", topic.unclean),
            )
            if value is not None
        ]
        if given and brokers.replication is None:
            top.problem("topics", f"{name}: {given[0]} needs [brokers.replication]")
        elif brokers.replication is not None:
            factor = topic.replication_factor or brokers.replication.factor
            if factor > brokers.count:
                top.problem("topics", f"{name}: more replicas than brokers ({brokers.count})")
            if (topic.min_isr or 1) > factor:
                top.problem("topics", f"{name}: min_isr is more than the replication factor ({factor})")


def _read_group(table: Table, topics: list[str]) -> GroupSpec:
    subscribed = table.words("topics", REQUIRED)
    for topic in subscribed:
        table.known("topics", topic, topics, "topic")
    if table.has("topics") and not subscribed:
        table.problem("topics", "needs at least one topic")
    config = table.table("config")
    settings = dict(read_settings(config, ConsumerConfig))
    strategy: Any = settings.pop("partition_assignment_strategy", None)
    assignors = table.words("assignors", strategy or ("range",))
    if table.has("assignors"):
        assignors = check_assignors(table, "assignors", assignors)
        if strategy:
            table.problem("assignors", "and partition.assignment.strategy are the same thing: give one of them")
    group = GroupSpec(
        topics=subscribed,
        members=table.count("members", 3),
        assignors=assignors,
        static=table.flag("static", False),
        racks=table.words("racks"),
        start_us=table.duration("start", 0),
        start_spread_us=table.duration("start_spread", 0),
        config=tuple(sorted(settings.items())),
        overrides={host: read_member(row) for host, row in _named(table.table("overrides"))},
    )
    table.finish()
    return group


def _read_brokers(table: Table) -> BrokersSpec:
    count = table.count("count", 3, least=1)
    replicated = table.has("replication")
    brokers = BrokersSpec(
        count=count,
        racks=table.words("racks"),
        replication=read_replication(table.table("replication"), count) if replicated else None,
        config=read_settings(table.table("config"), BrokerConfig),
    )
    table.finish()
    return brokers


def _read_producers(table: Table) -> Settings:
    config = table.table("config")
    settings = read_settings(config, ProducerConfig)
    table.finish()
    if any(name == "emulated_records_per_s" for name, _ in settings):
        config.problem("emulated.records.per.s", "is set per topic, as its rate")
    return settings


def _read_latency(table: Table, default: tuple[int, int]) -> tuple[int, int]:
    """``latency = "1ms"`` or ``latency = ["500us", "2ms"]``."""
    words = table.words("latency", [])
    found = [us for word in words if (us := table.as_duration("latency", word)) is not None]
    if not words:
        return default
    if len(found) != len(words) or len(words) > 2:
        if len(words) > 2:
            table.problem("latency", "is one duration, or the least and the most")
        return default
    if found[0] > found[-1]:
        table.problem("latency", "must give the least first, then the most")
    return found[0], found[-1]


def _read_network(table: Table, known: Known) -> NetworkSpec:
    least, most = _read_latency(table, (500, 2_000))
    links = []
    for row in table.tables("links"):
        a = row.one_of("a", known.hosts(), "host", REQUIRED)
        b = row.one_of("b", known.hosts(), "host", REQUIRED)
        if not row.has("latency"):
            row.problem("latency", "is missing; a duration is required")
        low, high = _read_latency(row, (least, most))
        links.append(LinkSpec(a=a, b=b, latency_min_us=low, latency_max_us=high))
        row.finish()
    table.finish()
    return NetworkSpec(latency_min_us=least, latency_max_us=most, links=tuple(links))


def _read_checks(table: Table) -> ChecksSpec:
    checks = ChecksSpec(
        heal_after_us=table.duration("heal_after") if table.has("heal_after") else None,
        stable_within_us=table.duration("stable_within", least_us=1) if table.has("stable_within") else None,
    )
    table.finish()
    return checks
