"""The swarm: a cluster, a load and a plan of faults drawn from a seed, with about half of the fault families disabled.

A fault that is present in every run may hide failures that only another fault shows (Groce et al., "Swarm testing",
2012). So each seed first enables some kinds of faults, and draws only faults of these kinds. All draws use named random
streams of the seed. The functions take a ``Stream``, so ``kemu.strategies`` can draw the same values with Hypothesis.

Half of the seeds also change the order of messages (``drawn_orders``): the family "orders", in the last plan lines.

After the faults, the whole cluster is healed, or only a core of the cluster while the other hosts stay away
(``drawn_core``).

A swarm needs many seeds, so runs must be cheap. Loads are small, and a run ends as soon as all hosts and groups have
recovered. Most producers collect records for longer than ``linger.ms``'s default, because each batch costs an append,
its replication and an answer.
"""

from collections.abc import Container, Sequence
from typing import Any, TypeVar

import attrs

from kemu.emulator.chance import Seeded, Stream
from kemu.emulator.exploring.client_operations import drawn_client_operations, with_group_limit, with_streams
from kemu.emulator.exploring.operations import (
    drawn_long_changes,
    drawn_moments,
    drawn_operations,
    drawn_settings,
    drawn_silence,
    forgets_offsets,
    in_bursts,
    no_longer_than_needed,
    settings_text,
)
from kemu.emulator.exploring.protocols import migrations_text, with_consumer_protocol, with_migrations, with_patterns
from kemu.emulator.plan.action import ANYONE, ActionKind, Drawn
from kemu.emulator.plan.actions import ACTIONS, LateMessage, LinkPriorities, TieOrder
from kemu.emulator.plan.draw import SECOND, Draw
from kemu.emulator.plan.entries import At, Plan
from kemu.emulator.plan.words import describe_entry
from kemu.emulator.scenario.away import WAYS, AwaySpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.expectations import of_kafkas_own
from kemu.emulator.scenario.random_faults import fault_times_us
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.kafka_keys import settings_dict
from kemu.emulator.text.units import duration_text
from kemu.protocol.config import ConsumerConfig, ProducerConfig
from kemu.protocol.frozen import frozen
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES

T = TypeVar("T")

MOST_FAULTS = 6
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
SESSIONS_MS = (6_000, 10_000, 30_000, 45_000)
POLL_INTERVALS_MS = (20_000, 60_000, 300_000)
BATCHES_MS = (100, 250, 500, 1_000)
ORDERS = "orders"
"""The family of changed message orders, besides the kinds of faults."""
GRAINS_US = (1_000, 10_000, 100_000)
WITHIN_US = (10_000, 100_000, 1_000_000)
SPANS_US = (200_000, 1_000_000, 5_000_000, 12_000_000)
MOST_LATE = 3
RARE, FREQUENT = 4, 60
"""Highest ``nth`` of a delayed message, for a rare and for a frequent API."""
OF_MEMBERS = (
    ("JoinGroup", RARE),
    ("SyncGroup", RARE),
    ("LeaveGroup", 1),
    ("OffsetFetch", RARE),
    ("Heartbeat", FREQUENT),
    ("OffsetCommit", FREQUENT),
    ("Fetch", FREQUENT),
)
OF_BROKERS = (
    ("LeaderAndIsr", RARE),
    ("UpdateMetadata", RARE),
    ("StopReplica", 1),
    ("OffsetForLeaderEpoch", RARE),
    ("AlterIsr", RARE),
    ("Fetch", FREQUENT),
)


@frozen(kw_only=True)
class SwarmCase:
    """The case that a seed draws. ``on``, ``off``: families of faults, by the kinds of their actions, and ``ORDERS``.

    ``orders``: the last plan lines, which change the seed's order; () for the seed's own order. ``moments_us``: the
    times around which operations and faults occur in an operated cluster (``emulator.exploring.operations``); () for
    other clusters.
    ``operations``: the enabled families of operations.
    """

    seed: int
    scenario: Scenario
    on: tuple[str, ...]
    off: tuple[str, ...]
    orders: Plan = ()
    moments_us: tuple[int, ...] = ()
    operations: tuple[str, ...] = ()

    def drawn(self) -> tuple[tuple[str, str], ...]:
        """Every draw of the case, as texts (name, value) for a report."""
        scenario = self.scenario
        replication = scenario.brokers.replication
        rows = [
            ("profile", scenario.profile or DEFAULT_PROFILE),
            ("duration", duration_text(scenario.duration_us)),
            ("draws", scenario.draws.name),
            ("brokers", str(scenario.brokers.count)),
            (
                "replication",
                "none" if replication is None else f"factor {replication.factor}, min {replication.min_isr}",
            ),
        ]
        rows += [
            (f"topic {name}", f"{topic.partitions} partitions, {topic.records_per_s}/s")
            for name, topic in scenario.topics.items()
        ]
        producing = ", ".join(
            f"{key}={item}" for key, item in settings_dict(ProducerConfig, scenario.producers).items()
        )
        rows += [("producers", producing)] if producing else []
        for name, group in scenario.groups.items():
            config = "".join(f", {key}={value}" for key, value in settings_dict(ConsumerConfig, group.config).items())
            static = ", static" if group.static else ""
            assignors = ", ".join(group.assignors) or "its release's assignors"
            assignors = "the coordinator assigns" if group.uses_consumer_protocol else assignors
            pattern = group.subscription_pattern or group.pattern
            pattern = f", subscribed to {pattern}" + ", which brokers match" * bool(group.subscription_pattern)
            pattern *= not group.topics
            rows.append((f"group {name}", f"{group.members} members, {assignors}{static}{pattern}{config}"))
        rows.append(("migrations", migrations_text(scenario)))
        away = scenario.checks.away
        if away is None:
            rows.append(("healed", "everything"))
        else:
            hosts = (*scenario.broker_names(), *(host for host, _, _ in scenario.member_names()))
            core = ", ".join(host for host in hosts if host not in away.hosts)
            recalled = "recalled if needed" if away.recalled else "not recalled"
            rows.append(("healed", f"the core {core}; {', '.join(away.hosts)} {away.how}, {recalled}"))
        rows.append(("recovers within", duration_text(scenario.stable_within_us)))
        if self.moments_us:
            rows.append(("settings", settings_text(scenario)))
            rows.append(("moments", ", ".join(map(duration_text, self.moments_us))))
        rows.append(("operations on", ", ".join(self.operations) or "none"))
        rows.append(("order", "; ".join(describe_entry(entry) for entry in self.orders) or "the seed's own"))
        return (*rows, ("faults on", ", ".join(self.on) or "none"), ("faults off", ", ".join(self.off) or "none"))


def swarm_case(
    seed: int,
    scenario: Scenario | None = None,
    *,
    profile: str | None = None,
    replicated: bool | None = None,
    cores: bool = True,
    orders: bool = True,
    operated: bool = False,
) -> SwarmCase:
    """The case that a seed draws.

    The case's scenario expects conditions that Kafka itself does not leave (``STAYS_BLOCKED``).

    Args:
        seed: the seed of all draws and of the run.
        scenario: the cluster and the load; None to draw both.
        profile: the release of a drawn scenario; None for the default release.
        replicated: whether a drawn cluster replicates; None to draw the answer.
        cores: whether to heal only a core in half of the seeds (``drawn_core``), unless the scenario sets hosts that
        stay away.
        orders: whether half of the seeds get a changed order of messages (``drawn_orders``).
        operated: whether a drawn cluster gets unusual settings and operations (``emulator.exploring.operations``).
    """
    seeded = Seeded(seed)
    of_operations = seeded.stream("swarm/operations") if operated and scenario is None else None
    is_drawn = scenario is None
    if scenario is None:
        scenario = drawn_scenario(
            seeded.stream("swarm/scenario"), profile=profile, replicated=replicated, name=f"swarm-{seed}"
        )
    if of_operations is not None:
        scenario = drawn_settings(scenario, of_operations)
    on, off = families_of(scenario, seeded.stream("swarm/families"))
    plan = drawn_plan(scenario, seeded.stream("swarm/plan"), on, at_most=MOST_FAULTS)
    moments_us: tuple[int, ...] = ()
    operations: tuple[str, ...] = ()
    if of_operations is not None:
        moments_us = drawn_moments(scenario, of_operations)
        scenario = no_longer_than_needed(scenario, moments_us)
        operations, done = drawn_operations(scenario, of_operations, moments_us)
        plan = (*in_bursts(scenario, plan, of_operations, moments_us), *done)
        if forgets_offsets(scenario):
            scenario, silence = drawn_silence(scenario, seeded.stream("swarm/silence"), moments_us[0])
            plan = (*plan, *silence)
    checks = scenario.checks
    if cores and checks.away is None and not scenario.expect:
        checks = drawn_core(scenario, seeded.stream("swarm/core"))
    lines = drawn_orders(scenario, seeded.stream("swarm/orders")) if orders else ()
    scenario = attrs.evolve(scenario, checks=checks)
    if of_operations is not None:
        of_clients = seeded.stream("swarm/clients")
        scenario = with_group_limit(scenario, of_clients)
        families, done = drawn_client_operations(scenario, of_clients, moments_us)
        operations, plan = (*operations, *families), (*plan, *done)
        scenario, done = with_streams(scenario, seeded.stream("swarm/streams"), moments_us)
        plan = (*plan, *done)
        assignors = PROFILES[scenario.profile or DEFAULT_PROFILE].assignors
        changes, done = drawn_long_changes(scenario, seeded.stream("swarm/changes"), moments_us, assignors)
        operations, plan = (*operations, *changes), (*plan, *done)
    expect = (*scenario.expect, *(each for each in of_kafkas_own() if each not in scenario.expect))
    scenario = attrs.evolve(scenario, seed=seed, plan=(*scenario.plan, *plan, *lines), expect=expect)
    if is_drawn:
        scenario = with_consumer_protocol(scenario, seeded.stream("swarm/protocol"))
        scenario = with_migrations(scenario, seeded.stream("swarm/migrations"))
        scenario = with_patterns(scenario, seeded.stream("swarm/patterns"))
    on, off = ((*on, ORDERS), off) if lines else (on, (*off, ORDERS))
    return SwarmCase(
        seed=seed, scenario=scenario, on=on, off=off, orders=lines, moments_us=moments_us, operations=operations
    )


# --- faults ----------------------------------------------------------------------------------------------------------


def _forms(row: ActionKind, replicated: bool) -> tuple[Drawn, ...]:
    if row.replicated not in (None, replicated):
        return ()
    return (*row.drawn, *row.drawn_replicated) if replicated else row.drawn


def fault_families(scenario: Scenario) -> tuple[str, ...]:
    """The kinds of faults that can be drawn for a scenario."""
    replicated = scenario.brokers.replication is not None
    return tuple(kind for kind, row in ACTIONS.items() if _forms(row, replicated))


def families_of(scenario: Scenario, chance: Stream) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(enabled families, disabled families); a family is enabled with probability one half."""
    families = fault_families(scenario)
    on = tuple(kind for kind in families if chance.below(2))
    return on, tuple(kind for kind in families if kind not in on)


def drawn_plan(scenario: Scenario, chance: Stream, families: Sequence[str], *, at_most: int) -> Plan:
    """At most ``at_most`` faults of these families during the load, in order of time."""
    if not families or not scenario.member_names():
        return ()
    draw = Draw(
        chance,
        members=tuple(host for host, _, _ in scenario.member_names()),
        brokers=scenario.broker_names(),
        groups=tuple(scenario.groups),
    )
    replicated = scenario.brokers.replication is not None
    earliest_us, latest_us = fault_times_us(scenario)
    entries = []
    for _ in range(chance.between(0, at_most)):
        at_ms = chance.between(earliest_us // 1_000, latest_us // 1_000)
        forms = _forms(ACTIONS[families[chance.below(len(families))]], replicated)
        entries.append(At(at_us=at_ms * 1_000, action=forms[chance.below(len(forms))](draw)))
    return tuple(sorted(entries, key=lambda entry: entry.at_us))


# --- orders ----------------------------------------------------------------------------------------------------------


def drawn_orders(scenario: Scenario, chance: Stream) -> Plan:
    """Return, in half of the seeds, a plan line that changes the order of messages until the faults end (``kemu
    explore``).

    The line reorders events at one instant, or sets priorities of links or hosts with change points (PCT), or
    delays a few single messages.
    """
    if not chance.below(2):
        return ()
    order = chance.between(1, 1_000_000)
    match chance.below(3):
        case 0:
            return (At(at_us=0, action=TieOrder(order=order, grain_us=_one_of(chance, GRAINS_US))),)
        case 1:
            of, within_us, changes = _one_of(chance, ("links", "hosts")), _one_of(chance, WITHIN_US), chance.below(4)
            messages = chance.between(500, 8_000)
            line = LinkPriorities(order=order, of=of, within_us=within_us, changes=changes, messages=messages)
            return (At(at_us=0, action=line),)
        case _:
            late = [_drawn_late(scenario, chance) for _ in range(chance.between(1, MOST_LATE))]
            return tuple(At(at_us=0, action=each) for each in dict.fromkeys(late))


def _drawn_late(scenario: Scenario, chance: Stream) -> LateMessage:
    """A message, or its answer, of a member or between replicated brokers."""
    members, brokers = tuple(host for host, _, _ in scenario.member_names()), scenario.broker_names()
    between_brokers = scenario.brokers.replication is not None and (not members or chance.below(2) == 1)
    api, most = _one_of(chance, OF_BROKERS if between_brokers else OF_MEMBERS)
    host = _one_of(chance, brokers if between_brokers else members or brokers)
    answer = chance.below(2) == 1
    sends = chance.below(2) == 1 if between_brokers else not answer
    return LateMessage(
        api=f"{api}Reply" if answer else api,
        sender=host if sends else ANYONE,
        receiver=ANYONE if sends else host,
        nth=chance.between(1, most),
        by_us=_one_of(chance, SPANS_US),
    )


# --- the healing -----------------------------------------------------------------------------------------------------


def drawn_core(scenario: Scenario, chance: Stream) -> ChecksSpec:
    """The scenario's checks: after the faults everything is healed, or only a core, which gets its own deadline.

    Each group keeps at least one member. Each partition keeps ``min.insync.replicas`` replicas under any assignment.
    The ISR is unknown before the faults end, so in three of four cases brokers that stay away may be recalled. A core
    has a longer deadline than the whole cluster, because the core detects missing hosts only by timeouts.
    """
    checks = scenario.checks
    if not chance.below(2):
        return checks
    away: list[str] = []
    brokers = list(scenario.broker_names())
    spare = _spare_brokers(scenario)
    for _ in range(chance.between(1, spare) if spare and chance.below(4) else 0):
        away.append(brokers.pop(chance.below(len(brokers))))
    for name, group in scenario.groups.items():
        members = [host for host, of, _ in scenario.member_names() if of == name]
        for _ in range(chance.between(0, max(0, len(members) - 1)) if group.streams is None else 0):
            away.append(members.pop(chance.below(len(members))))
    how, recalled = _one_of(chance, WAYS), bool(chance.below(4))
    within_us = (scenario.timeouts_us // SECOND + chance.between(30, 120)) * SECOND
    if not away:
        return checks
    if checks.stable_within_us is not None:
        within_us = checks.stable_within_us
    hosts = (*scenario.broker_names(), *(host for host, _, _ in scenario.member_names()))
    spec = AwaySpec(hosts=tuple(host for host in hosts if host in away), how=how, recalled=recalled)
    return attrs.evolve(checks, away=spec, stable_within_us=within_us)


def _spare_brokers(scenario: Scenario) -> int:
    """Number of brokers that can stay away under any assignment of replicas."""
    replication = scenario.brokers.replication
    if replication is None:
        return 0
    spare = [replication.factor - replication.min_isr]
    for topic in scenario.topics.values():
        factor = len(topic.placed()[0]) if topic.assignment else topic.replication_factor or replication.factor
        spare.append(factor - (replication.min_isr if topic.min_isr is None else topic.min_isr))
    return max(0, min(*spare, scenario.brokers.count - 1))


# --- clusters and loads ----------------------------------------------------------------------------------------------


def drawn_scenario(
    chance: Stream, *, profile: str | None = None, replicated: bool | None = None, name: str = "swarm"
) -> Scenario:
    """A small cluster with its load, without faults."""
    with_replicas = bool(chance.below(2)) if replicated is None else replicated
    brokers: dict[str, Any] = {"count": chance.between(3, 4) if with_replicas else chance.between(1, 3)}
    if with_replicas:
        factor = chance.between(2, 3)
        brokers["replication"] = {
            "factor": factor,
            "min_isr": chance.between(1, factor - 1),
            "session": duration_text(chance.between(4, 12) * SECOND),
            "lag": duration_text(chance.between(6, 20) * SECOND),
        }
        brokers["config"] = {"offsets.topic.num.partitions": chance.between(1, 5)}
    names = [f"t{number}" for number in range(1, 1 + chance.between(1, 2))]
    topics = {each: {"partitions": chance.between(1, 6), "rate": f"{chance.between(1, 12)}/s"} for each in names}
    assignors = PROFILES[profile or DEFAULT_PROFILE].assignors
    groups = {f"g{number}": _drawn_group(chance, names, assignors) for number in range(1, 1 + chance.between(1, 2))}
    data: dict[str, Any] = {
        "name": name,
        "profile": profile or "",
        "duration": duration_text(chance.between(30, 70) * SECOND),
        "draws": "life" if chance.below(4) else "calm",
        "brokers": brokers,
        "topics": topics,
        "groups": groups,
        "producers": {"config": {"emulated.batch.interval.ms": _one_of(chance, BATCHES_MS)}},
    }
    return scenario_from_dict(data)


def _drawn_group(chance: Stream, topics: Sequence[str], assignors: Container[str]) -> dict[str, Any]:
    """A drawn group. ``assignors``: the assignors of the release; any other drawn assignor is replaced by "sticky"."""
    config = drawn_config(chance)
    return {
        "topics": [topic for number, topic in enumerate(topics) if number == 0 or chance.below(2)],
        "members": chance.between(1, 4),
        "assignors": [assignor if (assignor := _one_of(chance, ASSIGNORS)) in assignors else "sticky"],
        "static": chance.below(4) == 3,
        "start_spread": duration_text(chance.between(0, 5) * SECOND),
        "config": config,
    }


def drawn_config(chance: Stream) -> dict[str, Any]:
    """Consistent settings of a consumer, by Kafka's keys."""
    session_ms = _one_of(chance, SESSIONS_MS)
    return {
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": session_ms // chance.between(3, 6),
        "max.poll.interval.ms": _one_of(chance, POLL_INTERVALS_MS),
        "max.poll.records": _one_of(chance, (5, 50, 500)),
        "auto.commit.interval.ms": _one_of(chance, (1_000, 5_000)),
    }


def _one_of(chance: Stream, items: Sequence[T]) -> T:
    return items[chance.below(len(items))]
