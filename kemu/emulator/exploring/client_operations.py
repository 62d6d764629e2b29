"""Operations of applications and admin clients, and a Kafka Streams group, drawn by an operated swarm.

Applications seek, pause, change subscriptions and enforce rebalances. Admin clients reset, delete and describe offsets,
groups and records, remove members and elect leaders. The groups have members at these operations, or the members have
just closed. Brokers may limit the size of groups. A Streams group reads the first topic; its instances lose their
network and stop.

These draws use separate random streams, so the other draws of a seed do not change.
"""

from collections.abc import Callable, Sequence

import attrs

from kemu.emulator.chance import Stream
from kemu.emulator.exploring.operations import Later, Site, in_order, near, one_of
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions import (
    AddMembers,
    ChangeSubscription,
    CloseHost,
    ConfigsAlteration,
    Crash,
    GroupDeletion,
    GroupDescription,
    GroupsListing,
    Isolate,
    LeadersElection,
    MembersExpulsion,
    OffsetsDeletion,
    OffsetsReset,
    PartitionsPause,
    Pause,
    PositionChange,
    RebalanceRequest,
    RecordsDeletion,
    RemoveMembers,
    Slow,
    StartHost,
    Unsubscription,
)
from kemu.emulator.plan.draw import SECOND
from kemu.emulator.plan.entries import At, Plan
from kemu.emulator.scenario.expectations import Expectation
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.streams import StreamsSpec
from kemu.emulator.scenario.topics import TopicSpec

MOST_CLIENT_OPERATIONS = 4
SMALLEST_GROUPS = (2, 4)
"""Range of the drawn ``group.max.size``."""
STREAMS_GROUP, CHANGELOG = "app", "app-changelog"
RESTORE_US = (100, 2_000, 20_000)
"""Times that an instance needs to apply one changelog record, in us."""

# --- groups and their offsets ----------------------------------------------------------------------------------------


def _members_of(site: Site, group: str) -> list[str]:
    return [host for host, of, _ in site.scenario.member_names() if of == group]


def _topic_of(site: Site, group: str) -> str:
    return one_of(site.chance, site.scenario.groups[group].topics)


def _while_empty(site: Site, group: str, action: Action) -> list[Later]:
    """The action; in half of the cases the group's members close before the action and start after the action, or at
    the same moment.
    """
    members = _members_of(site, group)
    if not site.chance.below(2):
        return [(0, action)]
    restart_us = site.span(-SECOND // 5, SECOND // 10) if site.chance.below(2) else site.span(SECOND, 8 * SECOND)
    at_us = site.span(2 * SECOND, 6 * SECOND)
    closed: list[Later] = [(0, CloseHost(host=host)) for host in members]
    if site.scenario.groups[group].static:
        closed.append((SECOND, MembersExpulsion(group=group)))
    return [*closed, (at_us, action), *((at_us + restart_us, StartHost(host=host)) for host in members)]


def _reset(site: Site) -> list[Later]:
    group = site.group()
    to = one_of(site.chance, ("earliest", "latest", "offset", "shift"))
    offset = {"offset": site.chance.between(1, 60), "shift": one_of(site.chance, (-40, -5, 15))}.get(to, 0)
    return _while_empty(site, group, OffsetsReset(group=group, topic=_topic_of(site, group), to=to, offset=offset))


def _offsets_deleted(site: Site) -> list[Later]:
    group = site.group()
    return _while_empty(site, group, OffsetsDeletion(group=group, topic=site.topic()))


def _group_deleted(site: Site) -> list[Later]:
    group = site.group()
    return _while_empty(site, group, GroupDeletion(group=group))


def _expelled(site: Site) -> list[Later]:
    group = site.group()
    one = site.scenario.groups[group].static and site.chance.below(2)
    return [(0, MembersExpulsion(group=group, instance=site.member_of(group) if one else ""))]


def _described(site: Site) -> list[Later]:
    return [(0, GroupDescription(group=site.group()) if site.chance.below(2) else GroupsListing())]


# --- consumers -------------------------------------------------------------------------------------------------------


def _subscribed(site: Site) -> list[Later]:
    """Subscribe a member to other topics, by name or pattern, or to no topic. Revert half of the changes later."""
    group, topics = site.group(), tuple(site.scenario.topics)
    host = site.member_of(group)
    match site.chance.below(3):
        case 0:
            action: Action = Unsubscription(host=host)
        case 1:
            action = ChangeSubscription(host=host, pattern=one_of(site.chance, ("t.*", "t1", "t[2-9]")))
        case _:
            action = ChangeSubscription(host=host, topics=(one_of(site.chance, topics),))
    revert = ChangeSubscription(host=host, topics=site.scenario.groups[group].topics)
    later_us = site.span(2 * SECOND, 10 * SECOND)
    return [(0, action), *([(later_us, revert)] if site.chance.below(2) else [])]


def _partition_read_by(site: Site, group: str) -> tuple[str, int]:
    topic = _topic_of(site, group)
    return topic, site.chance.below(site.scenario.topics[topic].partitions)


def _sought(site: Site) -> list[Later]:
    group = site.group()
    topic, number = _partition_read_by(site, group)
    offset = site.chance.between(0, 80)
    return [
        (0, PositionChange(host=host, topic=topic, partition=number, offset=offset))
        for host in _members_of(site, group)
    ]


def _paused(site: Site) -> list[Later]:
    group = site.group()
    topic, number = _partition_read_by(site, group)
    for_us = site.span(2 * SECOND, 15 * SECOND)
    return [
        (0, PartitionsPause(host=host, partitions=(f"{topic}-{number}",), for_us=for_us))
        for host in _members_of(site, group)
    ]


def _enforced(site: Site) -> list[Later]:
    return [(0, RebalanceRequest(host=site.member()))]


# --- brokers that replicate ------------------------------------------------------------------------------------------


def _records_deleted(site: Site) -> list[Later]:
    topic = site.topic()
    number = site.chance.between(-1, site.scenario.topics[topic].partitions - 1)
    return [(0, RecordsDeletion(topic=topic, partition=number, before=-1 if site.chance.below(2) else 20))]


def _elected(site: Site) -> list[Later]:
    return [(0, LeadersElection(topic=site.topic(), unclean=bool(site.chance.below(2))))]


def _configured(site: Site) -> list[Later]:
    """Change a topic's min.insync.replicas, or allow unclean elections. Revert half of the changes later."""
    topic = site.topic()
    key, value = one_of(site.chance, (("min.insync.replicas", "1"), ("unclean.leader.election.enable", "true")))
    later_us = site.span(3 * SECOND, 12 * SECOND)
    unset: list[Later] = [(later_us, ConfigsAlteration(topic=topic, key=key))]
    return [(0, ConfigsAlteration(topic=topic, key=key, value=value)), *(unset if site.chance.below(2) else [])]


CLIENT_OPERATIONS: dict[str, Callable[[Site], list[Later]]] = {
    "reset-offsets": _reset,
    "delete-offsets": _offsets_deleted,
    "delete-group": _group_deleted,
    "expel": _expelled,
    "describe": _described,
    "subscribe": _subscribed,
    "seek": _sought,
    "pause": _paused,
    "enforce": _enforced,
    "delete-records": _records_deleted,
    "elect": _elected,
    "configure": _configured,
}
"""Name of a family of operations, as in the report of a seed -> the function that draws an operation."""
OF_REPLICATED_BROKERS = ("delete-records", "elect", "configure")


def client_families(scenario: Scenario) -> tuple[str, ...]:
    """The families of client operations that can be drawn for a scenario."""
    replicated = scenario.brokers.replication is not None
    return tuple(name for name in CLIENT_OPERATIONS if replicated or name not in OF_REPLICATED_BROKERS)


def drawn_client_operations(
    scenario: Scenario, chance: Stream, moments_us: Sequence[int]
) -> tuple[tuple[str, ...], Plan]:
    """The enabled families, and their plan lines around the moments; no families in about half of the seeds."""
    if not chance.below(2) or not scenario.member_names():
        return (), ()
    families = tuple(name for name in client_families(scenario) if chance.below(2))
    if not families:
        return (), ()
    site = Site(scenario, chance)
    found: list[tuple[int, Action]] = []
    for _ in range(chance.between(1, MOST_CLIENT_OPERATIONS)):
        at_us = near(chance, moments_us, scenario)
        found += [
            (at_us + later_us, action) for later_us, action in CLIENT_OPERATIONS[one_of(site.chance, families)](site)
        ]
    return families, _within(scenario, found)


def _within(scenario: Scenario, found: Sequence[tuple[int, Action]]) -> Plan:
    latest_us = scenario.heal_at_us - SECOND
    lines = [At(at_us=max(SECOND, min(at_us, latest_us)), action=action) for at_us, action in found]
    return tuple(sorted(lines, key=lambda line: line.at_us))


def with_group_limit(scenario: Scenario, chance: Stream) -> Scenario:
    """The scenario; in one of eight seeds with a ``group.max.size`` that some groups reach.

    In such a seed members may fail permanently: GROUP_MAX_SIZE_REACHED is fatal (``JoinGroupResponseHandler``).
    """
    if chance.below(8):
        return scenario
    config = {**dict(scenario.brokers.config), "group_max_size": chance.between(*SMALLEST_GROUPS)}
    expect = (*scenario.expect, Expectation(checker="liveness", kind="member-failed", may=True))
    return attrs.evolve(scenario, brokers=attrs.evolve(scenario.brokers, config=in_order(config)), expect=expect)


# --- Kafka Streams ---------------------------------------------------------------------------------------------------


def with_streams(scenario: Scenario, chance: Stream, moments_us: Sequence[int]) -> tuple[Scenario, Plan]:
    """The scenario; in one of four seeds with a Streams group, and with plan lines for its instances.

    The Streams group is the last group, and all its instances are healed. So names and draws of other groups do not
    change.
    """
    if chance.below(4) or "group_max_size" in dict(scenario.brokers.config):
        return scenario, ()
    source, topic = next(iter(scenario.topics.items()))
    group = GroupSpec(
        topics=(source,),
        members=chance.between(2, 3),
        start_spread_us=chance.between(0, 5) * SECOND,
        config=in_order({"session_timeout_ms": one_of(chance, (6_000, 10_000)), "heartbeat_interval_ms": 2_000}),
        streams=StreamsSpec(
            subtopologies=(f"{source} -> {CHANGELOG}",),
            config=in_order(
                {
                    "emulated_restore_us_per_record": one_of(chance, RESTORE_US),
                    "num_standby_replicas": chance.below(2),
                    "num_stream_threads": chance.between(1, 2),
                    "commit_interval_ms": one_of(chance, (1_000, 10_000)),
                    "acceptable_recovery_lag": one_of(chance, (10, 10_000)),
                    "probing_rebalance_interval_ms": 60_000,
                }
            ),
        ),
    )
    topics = {**scenario.topics, CHANGELOG: TopicSpec(partitions=topic.partitions, records_per_s=0)}
    checks = scenario.checks
    scenario = attrs.evolve(scenario, topics=topics, groups={**scenario.groups, STREAMS_GROUP: group})
    if checks.stable_within_us is not None:
        within_us = max(checks.stable_within_us, scenario.timeouts_us)
        scenario = attrs.evolve(scenario, checks=attrs.evolve(checks, stable_within_us=within_us))
    site = Site(scenario, chance)
    found: list[tuple[int, Action]] = []
    for _ in range(chance.between(1, MOST_CLIENT_OPERATIONS)):
        at_us = near(chance, moments_us, scenario)
        found += [(at_us + later_us, action) for later_us, action in _of_instances(site)]
    if not chance.below(4):  # instances join, and the host of a role crashes while the instances restore
        at_us, role = near(chance, moments_us, scenario), one_of(chance, ("coordinator", "leader"))
        crash = Crash(host=f"{role} of {STREAMS_GROUP}", mode="process", for_us=site.span(SECOND, 12 * SECOND))
        found += [(at_us, AddMembers(group=STREAMS_GROUP)), (at_us + site.span(0, 8 * SECOND), crash)]
    return scenario, _within(scenario, found)


def _of_instances(site: Site) -> list[Later]:
    """An instance is isolated for less or more than its session timeout, or an instance's host stops, or the group's
    size changes.
    """
    host, chance = site.member_of(STREAMS_GROUP), site.chance
    match chance.below(7):
        case 0 | 1:
            return [(0, Isolate(host=host, for_us=site.span(2 * SECOND, 20 * SECOND)))]
        case 2:
            return [
                (
                    0,
                    Slow(
                        sender=host,
                        add_us=site.span(SECOND // 5, 3 * SECOND),
                        for_us=site.span(5 * SECOND, 15 * SECOND),
                    ),
                )
            ]
        case 3:
            return [(0, Crash(host=host, mode="process", for_us=site.span(SECOND // 2, 12 * SECOND)))]
        case 4:
            return [(0, Pause(host=host, for_us=site.span(2 * SECOND, 15 * SECOND)))]
        case 5:
            return [(0, CloseHost(host=host)), (site.span(SECOND, 10 * SECOND), StartHost(host=host))]
        case _:
            more = chance.below(2)
            return [(0, AddMembers(group=STREAMS_GROUP) if more else RemoveMembers(group=STREAMS_GROUP))]
