"""Operations on a cluster, and unusual settings, drawn by an operated swarm.

Faults alone test a cluster without operators and with usual settings. An operated swarm also lets members join and
leave, shuts brokers down, moves partitions, silences topics, and delays single requests of a rebalance. Clusters have
racks, short retention and unclean elections. Operations occur around a few moments, so that operations overlap.

These draws use a separate random stream, so the other draws of a seed do not change.
"""

from collections.abc import Callable, Container, Sequence
from typing import Any, TypeVar

import attrs

from kemu.emulator.chance import Stream
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions import (
    AddMembers,
    CloseHost,
    ConfigsAlteration,
    Crash,
    Disconnect,
    Hold,
    PartitionsReassignment,
    PollingStop,
    ReassignmentCancellation,
    RemoveMembers,
    RollingRestart,
    RollingUpgrade,
    SetRateOf,
    StartHost,
)
from kemu.emulator.plan.draw import SECOND
from kemu.emulator.plan.entries import At, Plan
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.kafka_keys import Settings, settings_dict
from kemu.emulator.text.units import duration_text
from kemu.protocol.config import BrokerConfig, ReplicaConfig
from kemu.protocol.frozen import frozen

T = TypeVar("T")

MOST_OPERATIONS = 6
SETTLES_US = 20 * SECOND
"""Time for which producers send after the last moment, in us."""
BEFORE_US, BEHIND_US = 2 * SECOND, 12 * SECOND
"""Operations occur at most this long before and after a moment, in us."""
RACKS = (("north", "south"), ("north", "south", "east"))
OF_REBALANCES = ("JoinGroup", "JoinGroup", "SyncGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch")
BETWEEN_BROKERS = ("Fetch", "Fetch", "OffsetForLeaderEpoch")
BY_CONTROLLER = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")
CHECKS_MS = (1_000, 5_000)
KEPT_US = 60 * SECOND
BY_HAND = {"enable_auto_commit": False, "emulated_commit_after_poll": True}
SHORT_POLL_INTERVAL_MS = 15_000
SHORT_SESSIONS_MS = (6_000, 10_000)
LIMITED = ("replica", "partition", "leader")
COOPERATIVE = "cooperative-sticky"

# --- settings --------------------------------------------------------------------------------------------------------


def drawn_settings(scenario: Scenario, chance: Stream) -> Scenario:
    """The scenario with some unusual settings."""
    brokers = scenario.brokers
    of_brokers = dict(brokers.config)
    groups = dict(scenario.groups)
    duration_us = scenario.duration_us
    if not chance.below(3):
        racks = one_of(chance, RACKS)
        brokers = attrs.evolve(brokers, racks=racks)
        groups = {name: attrs.evolve(group, racks=racks) for name, group in groups.items()}
    groups = {name: _drawn_member_settings(group, chance) for name, group in groups.items()}
    if not chance.below(6) and brokers.replication is None:
        of_brokers["offsets_retention_minutes"] = 1
        of_brokers["offsets_retention_check_interval_ms"] = one_of(chance, CHECKS_MS)
        duration_us += chance.between(60, 90) * SECOND
    if brokers.replication is not None:
        replication, of_replicas = brokers.replication, dict(brokers.replication.config)
        if not chance.below(3):
            replication = attrs.evolve(replication, unclean=True)
        if chance.below(2):
            session_us = chance.between(2, 6) * SECOND
            replication = attrs.evolve(replication, session_us=session_us, lag_us=session_us + 2 * SECOND)
        if chance.below(2):
            of_replicas["replica_fetch_backoff_ms"] = 200
            of_replicas["replica_high_watermark_checkpoint_interval_ms"] = 1_000
        if not chance.below(4):
            of_replicas["replica_fetch_max_bytes"] = 2_000
        count, factor, min_isr = brokers.count, replication.factor, replication.min_isr
        if not chance.below(4):
            count = chance.between(2, 4)
            factor = chance.between(2, count)
            min_isr = chance.between(1, factor - 1)
        config = in_order(of_replicas)
        replication = attrs.evolve(replication, factor=factor, min_isr=min_isr, config=config)
        brokers = attrs.evolve(brokers, count=count, replication=replication)
    brokers = attrs.evolve(brokers, config=in_order(of_brokers))
    return attrs.evolve(scenario, brokers=brokers, groups=groups, duration_us=duration_us)


def _drawn_member_settings(group: GroupSpec, chance: Stream) -> GroupSpec:
    config = dict(group.config)
    if not chance.below(3):
        config |= BY_HAND
    if not chance.below(3):
        config["max_poll_interval_ms"] = SHORT_POLL_INTERVAL_MS
    if chance.below(2):
        config |= {"session_timeout_ms": one_of(chance, SHORT_SESSIONS_MS), "heartbeat_interval_ms": 2_000}
    static = group.static or not chance.below(4)
    return attrs.evolve(group, config=in_order(config), static=static)


def in_order(settings: dict[str, Any]) -> Settings:
    """Settings in the order in which a file has them."""
    return tuple(sorted(settings.items()))


# --- operations ------------------------------------------------------------------------------------------------------


@frozen
class Site:
    """A scenario and a random stream, from which operations are drawn."""

    scenario: Scenario
    chance: Stream

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(host for host, _, _ in self.scenario.member_names())

    def group(self) -> str:
        return one_of(self.chance, tuple(self.scenario.groups))

    def member(self) -> str:
        return one_of(self.chance, self.members)

    def member_of(self, group: str) -> str:
        return one_of(self.chance, tuple(host for host, of, _ in self.scenario.member_names() if of == group))

    def broker(self) -> str:
        return one_of(self.chance, self.scenario.broker_names())

    def topic(self) -> str:
        return one_of(self.chance, tuple(self.scenario.topics))

    def span(self, least_us: int, most_us: int) -> int:
        return self.chance.between(least_us // 1_000, most_us // 1_000) * 1_000


Later = tuple[int, Action]
"""(delay of the action after a moment in us, action)."""


def _resized(site: Site) -> list[Later]:
    group = site.group()
    return [(0, AddMembers(group=group) if site.chance.below(3) else RemoveMembers(group=group))]


def _bounced(site: Site) -> list[Later]:
    """Close a member or a replicated broker, and start the closed host again."""
    replicated = site.scenario.brokers.replication is not None
    host = site.broker() if replicated and site.chance.below(2) else site.member()
    return [(0, CloseHost(host=host)), (site.span(SECOND, 10 * SECOND), StartHost(host=host))]


def _quick_restart(site: Site) -> list[Later]:
    """Crash the process of a member or a replicated broker, and restart the process within 3 seconds."""
    replicated = site.scenario.brokers.replication is not None
    host = site.broker() if replicated and site.chance.below(2) else site.member()
    return [(0, Crash(host=host, mode="process", for_us=site.span(SECOND // 10, 3 * SECOND)))]


def _restarted_one_by_one(site: Site) -> list[Later]:
    every_us, how = site.span(2 * SECOND, 8 * SECOND), one_of(site.chance, ("close", "crash"))
    down_us = site.span(SECOND, 5 * SECOND)
    return [(0, RollingRestart(group=site.group(), every_us=every_us, down_us=down_us, how=how))]


def _silent(site: Site) -> list[Later]:
    """Stop the producers of a topic for some seconds, or until the end of the load."""
    topic = site.topic()
    found: list[Later] = [(0, SetRateOf(topic=topic, records_per_s=0))]
    if site.chance.below(2):
        found.append(
            (site.span(5 * SECOND, 20 * SECOND), SetRateOf(topic=topic, records_per_s=site.chance.between(1, 12)))
        )
    return found


def _hangs(site: Site) -> list[Later]:
    """Hold the messages of a member, a broker or the controller for some seconds, from one request on."""
    chance, for_us = site.chance, site.span(3 * SECOND, 20 * SECOND)
    replicated = site.scenario.brokers.replication is not None
    if replicated and chance.below(2):
        if chance.below(2):
            return [(0, Hold(sender=site.broker(), api=one_of(chance, BETWEEN_BROKERS), for_us=for_us))]
        receiver = site.broker() if chance.below(2) else ""
        return [(0, Hold(sender="controller", receiver=receiver, api=one_of(chance, BY_CONTROLLER), for_us=for_us))]
    group = site.group()
    host = f"leader of {group}" if chance.below(2) else site.member_of(group)
    coordinator = f"coordinator of {group}"
    if not chance.below(4):
        found: list[Later] = [(0, Hold(sender=coordinator, receiver=host, for_us=for_us))]
        if chance.below(2):
            found.append((site.span(SECOND, for_us), Disconnect(a=coordinator, b=host)))
    else:
        found = [(0, Hold(sender=host, api=one_of(chance, OF_REBALANCES), for_us=for_us))]
    return found + _meanwhile(site, group, for_us)


def _meanwhile(site: Site, group: str, for_us: int) -> list[Later]:
    """Start a rebalance while a request hangs (in most cases), and disturb another member."""
    chance, other = site.chance, site.member_of(group)
    found: list[Later] = []
    if chance.below(4):
        action = AddMembers(group=group) if chance.below(2) else CloseHost(host=other)
        found.append((site.span(0, 2 * SECOND), action))
    if not chance.below(3):
        late_us, host = site.span(2 * SECOND, max(3 * SECOND, for_us)), site.member_of(group)
        if chance.below(2):
            found.append((late_us, Crash(host=host, mode="process", for_us=site.span(SECOND // 2, 2 * SECOND))))
        else:
            found.append((late_us, PollingStop(host=host, for_us=site.span(10 * SECOND, 30 * SECOND))))
    return found


def _busy(site: Site) -> list[Later]:
    return [(0, PollingStop(host=site.member(), for_us=site.span(5 * SECOND, 30 * SECOND)))]


def _moved(site: Site) -> list[Later]:
    """Move some partitions of a topic to other brokers; cancel half of these moves before or after their end."""
    chance, scenario, topic = site.chance, site.scenario, site.topic()
    replication = scenario.brokers.replication
    assert replication is not None
    lines = []
    for number in range(scenario.topics[topic].partitions):
        if number and chance.below(2):
            continue
        left = list(range(scenario.brokers.count))
        chosen = [left.pop(chance.below(len(left))) for _ in range(min(replication.factor, scenario.brokers.count))]
        lines.append(f"{number}: {' '.join(map(str, chosen))}")
    found: list[Later] = [(0, PartitionsReassignment(topic=topic, assignment=tuple(lines)))]
    if chance.below(2):
        found.append((-SECOND // 2, Hold(sender=site.broker(), api="Fetch", for_us=site.span(4 * SECOND, 12 * SECOND))))
    if chance.below(2):
        found.append((site.span(SECOND // 10, 6 * SECOND), ReassignmentCancellation(topic=topic)))
    return found


def _in_turns(site: Site) -> list[Later]:
    """Crash two brokers in turns, each around the restart of the other."""
    chance, names = site.chance, list(site.scenario.broker_names())
    pair = [names.pop(chance.below(len(names))) for _ in range(2)]
    mode, at_us = one_of(chance, ("process", "process", "power")), 0
    found: list[Later] = []
    for number in range(chance.between(2, 3)):
        for_us = site.span(2 * SECOND, 8 * SECOND)
        found.append((at_us, Crash(host=pair[number % 2], mode=mode, for_us=for_us)))
        at_us += for_us + site.span(-2 * SECOND, 2 * SECOND)
    return found


OPERATIONS: dict[str, Callable[[Site], list[Later]]] = {
    "resize": _resized,
    "bounce": _bounced,
    "quick-restart": _quick_restart,
    "rolling-restart": _restarted_one_by_one,
    "silence": _silent,
    "hang": _hangs,
    "busy": _busy,
    "move": _moved,
    "turns": _in_turns,
}
"""Name of a family of operations, as in the report of a seed -> the function that draws an operation."""
OF_REPLICATION = ("move", "turns")


def operation_families(scenario: Scenario) -> tuple[str, ...]:
    """The families of operations that can be drawn for a scenario."""
    replicated = scenario.brokers.replication is not None
    return tuple(name for name in OPERATIONS if replicated or name not in OF_REPLICATION)


def drawn_operations(scenario: Scenario, chance: Stream, moments_us: Sequence[int]) -> tuple[tuple[str, ...], Plan]:
    """The enabled families (about half of all), and their plan lines around the moments."""
    families = tuple(name for name in operation_families(scenario) if chance.below(2))
    if not families or not scenario.member_names():
        return (), ()
    site = Site(scenario, chance)
    entries: list[At] = []
    for _ in range(chance.between(1, MOST_OPERATIONS)):
        at_us = near(chance, moments_us, scenario)
        for later_us, action in OPERATIONS[one_of(chance, families)](site):
            entries.append(At(at_us=max(SECOND, min(at_us + later_us, scenario.heal_at_us - SECOND)), action=action))
    return families, tuple(sorted(entries, key=lambda entry: entry.at_us))


# --- long changes of operators ---------------------------------------------------------------------------------------


def _limits_lowered(site: Site) -> list[Later]:
    """Limit a reassignment of all partitions of a topic (KIP-435), and lower the limit while the partitions move."""
    chance = site.chance
    key = f"reassignment.max.concurrent.{one_of(chance, LIMITED)}.movements"
    first, then = chance.between(2, 4), chance.between(1, 2)
    later_us = site.span(SECOND // 10, 4 * SECOND)
    return [
        (-SECOND, ConfigsAlteration(key=key, value=str(first))),
        *_moved(site)[:1],
        (later_us, ConfigsAlteration(key=key, value=str(min(then, first - 1)))),
    ]


def _two_bounces(site: Site) -> list[Later]:
    """Upgrade a group to the cooperative protocol in two bounces, as the page of KIP-429 describes."""
    spec_of = site.scenario.groups
    eager = [name for name, spec in spec_of.items() if spec.streams is None and COOPERATIVE not in spec.assignors]
    if not eager:
        return []
    name = one_of(site.chance, eager)
    every_us, down_us = site.span(2 * SECOND, 5 * SECOND), site.span(SECOND // 2, 2 * SECOND)
    apart_us = spec_of[name].members * every_us + site.span(3 * SECOND, 8 * SECOND)
    old = spec_of[name].assignors
    return [
        (at_us, RollingUpgrade(group=name, every_us=every_us, down_us=down_us, assignors=assignors))
        for at_us, assignors in ((0, (COOPERATIVE, *old)), (apart_us, (COOPERATIVE,)))
    ]


LONG_CHANGES: dict[str, Callable[[Site], list[Later]]] = {
    "lower-limits": _limits_lowered,
    "two-bounces": _two_bounces,
}
"""Name of a long change, as in the report of a seed -> the function that draws the change."""


def drawn_long_changes(
    scenario: Scenario, chance: Stream, moments_us: Sequence[int], assignors: Container[str]
) -> tuple[tuple[str, ...], Plan]:
    """The long changes of a seed, each in about a quarter of the seeds that can have it, and their plan lines.

    ``assignors``: the assignors of the members' release.
    """
    possible = {"lower-limits": scenario.brokers.replication is not None, "two-bounces": COOPERATIVE in assignors}
    names, entries, site = [], [], Site(scenario, chance)
    for name, draw in LONG_CHANGES.items():
        if not chance.below(4) and possible[name] and (found := draw(site)):
            at_us = near(chance, moments_us, scenario)
            names.append(name)
            entries += [At(at_us=max(SECOND, at_us + later_us), action=action) for later_us, action in found]
    return tuple(names), tuple(sorted(entries, key=lambda entry: entry.at_us))


def forgets_offsets(scenario: Scenario) -> bool:
    """Whether the brokers keep offsets for only one minute."""
    return "offsets_retention_minutes" in dict(scenario.brokers.config)


def drawn_silence(scenario: Scenario, chance: Stream, from_us: int) -> tuple[Scenario, Plan]:
    """Silence most topics of a scenario that keeps offsets for only one minute. More groups commit manually
    (auto-commit also commits unchanged offsets), and some groups close for some seconds.
    """
    groups = {
        name: attrs.evolve(group, config=in_order({**dict(group.config), **BY_HAND})) if chance.below(2) else group
        for name, group in scenario.groups.items()
    }
    lines = [
        At(at_us=from_us, action=SetRateOf(topic=topic, records_per_s=0))
        for topic in scenario.topics
        if chance.below(4)
    ]
    for name in scenario.groups:
        if chance.below(2):
            continue
        closed_us = from_us + (KEPT_US + chance.between(2, 12) * SECOND)
        started_us = closed_us + chance.between(1_000, 3_000) * 1_000
        members = [host for host, of, _ in scenario.member_names() if of == name]
        lines += [At(at_us=closed_us, action=CloseHost(host=host)) for host in members]
        lines += [At(at_us=started_us, action=StartHost(host=host)) for host in members]
    within = [line for line in lines if line.at_us < scenario.heal_at_us]
    return attrs.evolve(scenario, groups=groups), tuple(sorted(within, key=lambda entry: entry.at_us))


def drawn_moments(scenario: Scenario, chance: Stream) -> tuple[int, ...]:
    """One or two times around which all operations and faults occur, after the groups have started to process."""
    latest_ms = max(15_000, min(30_000, scenario.heal_at_us // 1_000 - 15_000))
    return tuple(sorted(chance.between(8_000, latest_ms) * 1_000 for _ in range(chance.between(1, 2))))


def no_longer_than_needed(scenario: Scenario, moments_us: Sequence[int]) -> Scenario:
    """The scenario, whose load ends soon after the last moment unless a long silence needs more time."""
    if forgets_offsets(scenario):
        return scenario
    return attrs.evolve(scenario, duration_us=min(scenario.duration_us, max(moments_us) + SETTLES_US))


def near(chance: Stream, moments_us: Sequence[int], scenario: Scenario) -> int:
    """A drawn time around one of the moments, in us."""
    at_us = one_of(chance, moments_us) + chance.between(-BEFORE_US // 1_000, BEHIND_US // 1_000) * 1_000
    return max(SECOND, min(at_us, scenario.heal_at_us - SECOND))


def in_bursts(scenario: Scenario, plan: Plan, chance: Stream, moments_us: Sequence[int]) -> Plan:
    """The faults of the plan, moved around the moments and sorted by time."""
    moved = [
        At(at_us=near(chance, moments_us, scenario), action=entry.action) for entry in plan if isinstance(entry, At)
    ]
    return tuple(sorted(moved, key=lambda entry: entry.at_us))


def settings_text(scenario: Scenario) -> str:
    """The brokers' settings of ``drawn_settings`` in one line. ``SwarmCase.drawn`` lists members' settings with the
    groups.
    """
    brokers, replication = scenario.brokers, scenario.brokers.replication
    parts = [f"racks {' '.join(brokers.racks)}"] if brokers.racks else []
    settings = settings_dict(BrokerConfig, brokers.config)
    if replication is not None:
        parts += ["unclean elections"] if replication.unclean else []
        parts += [f"session {duration_text(replication.session_us)}", f"lag {duration_text(replication.lag_us)}"]
        settings |= settings_dict(ReplicaConfig, replication.config)
    return ", ".join([*parts, *(f"{key}={item}" for key, item in settings.items())]) or "nothing"


def one_of(chance: Stream, items: Sequence[T]) -> T:
    return items[chance.below(len(items))]
