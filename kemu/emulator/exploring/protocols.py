"""Groups of the consumer protocol (KIP-848), drawn by the swarm in releases that have the protocol.

About half of the groups have the consumer protocol, about half of all groups migrate or have members of both protocols,
and about a third subscribe to a pattern. These draws use separate random streams, after all other draws of the seed,
which do not change. A group keeps the classic protocol if its plan or its members need the classic protocol.
"""

import attrs

from kemu.actors.coordinator.rules import GROUP_RULES
from kemu.emulator.chance import Stream
from kemu.emulator.exploring.operations import in_order, one_of
from kemu.emulator.plan.actions import ChangeSubscription, CreateTopic, DeleteTopic, LateMessage, RollingUpgrade
from kemu.emulator.plan.draw import SECOND
from kemu.emulator.plan.entries import At, Entry
from kemu.emulator.plan.words import describe_entry
from kemu.emulator.scenario.groups import SETTINGS_OF_CLASSIC, GroupSpec
from kemu.emulator.scenario.members import MemberSpec
from kemu.emulator.scenario.protocols import CLASSIC, CONSUMER, KEY
from kemu.emulator.scenario.random_faults import fault_times_us
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.consumer_group.assignors import ASSIGNORS
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES

SESSIONS_MS = (6_000, 10_000, 20_000, 45_000)
INTERVALS_MS = (1_000, 2_000, 5_000)
KEY_NAME = KEY.replace(".", "_")
NEW_TOPIC = "t10"
"""The topic that appears while groups subscribe to a pattern. All drawn patterns match its name."""
_HEARTBEAT = "ConsumerGroupHeartbeat"
_REQUESTS_OF_CLASSIC = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup")


def with_consumer_protocol(scenario: Scenario, chance: Stream) -> Scenario:
    """The scenario; about half of its groups have the consumer protocol, if the release and the plan allow it."""
    session_ms, interval_ms = one_of(chance, SESSIONS_MS), one_of(chance, INTERVALS_MS)
    drawn = {name: (bool(chance.below(2)), one_of(chance, ("", *ASSIGNORS))) for name in scenario.groups}
    if not _has_consumer_protocol(scenario):
        return scenario
    hosts = scenario.hosts_of_groups()
    chosen = {
        name: assignor
        for name, (switches, assignor) in drawn.items()
        if switches and not _needs_classic(scenario, name)
    }
    if not chosen:
        return scenario
    of_brokers = dict(scenario.brokers.config)
    for key, value_ms in (("session_timeout_ms", session_ms), ("heartbeat_interval_ms", interval_ms)):
        of_brokers |= {f"group_consumer_{key}": value_ms, f"group_consumer_min_{key}": value_ms}
    members = frozenset(host for name in chosen for host in hosts[name])
    groups = {
        name: _switched(group, chosen[name]) if name in chosen else group for name, group in scenario.groups.items()
    }
    made = attrs.evolve(
        scenario,
        brokers=attrs.evolve(scenario.brokers, config=in_order(of_brokers)),
        groups=groups,
        plan=tuple(_of_heartbeats(entry, members) for entry in scenario.plan),
    )
    return _with_time_for_sessions(made)


def with_migrations(scenario: Scenario, chance: Stream) -> Scenario:
    """The scenario with migrations, if the release and the plan allow them.

    About a third of the groups change to the other protocol during the faults, and some of these change back. About a
    sixth have a member of the other protocol from the start.
    """
    ways = {name: chance.below(6) for name in scenario.groups}
    pace = {name: _drawn_pace(scenario, chance) for name in scenario.groups}
    if not _has_consumer_protocol(scenario):
        return scenario
    hosts = scenario.hosts_of_groups()
    groups, plan = dict(scenario.groups), list(scenario.plan)
    for name, group in scenario.groups.items():
        if ways[name] > 2 or _needs_classic(scenario, name):
            continue
        protocols = (CLASSIC, CONSUMER) if group.uses_consumer_protocol else (CONSUMER, CLASSIC)
        if ways[name] == 2:
            config = ((KEY_NAME, protocols[0]),)
            groups[name] = attrs.evolve(group, overrides={hosts[name][0]: MemberSpec(config=config)})
            continue
        at_us, every_us, down_us, apart_us = pace[name]
        for protocol in protocols[: 1 + ways[name]]:
            action = RollingUpgrade(group=name, every_us=every_us, down_us=down_us, settings=(f"{KEY}={protocol}",))
            plan.append(At(at_us=at_us, action=action))
            at_us += group.members * every_us + apart_us
    return _with_time_for_sessions(attrs.evolve(scenario, groups=groups, plan=tuple(plan)))


def with_patterns(scenario: Scenario, chance: Stream) -> Scenario:
    """The scenario with subscriptions to patterns, if the release has the consumer protocol.

    About a third of the groups subscribe to a pattern. Brokers match half of the patterns of groups whose members
    always use the consumer protocol. Half of the clusters with a controller create a topic that matches. Half of these
    clusters delete the topic later.
    """
    drawn = {name: (not chance.below(3), bool(chance.below(2))) for name in scenario.groups}
    created, deleted, (at_us, _, _, apart_us) = chance.below(2), chance.below(2), _drawn_pace(scenario, chance)
    partitions, rate = chance.between(1, 3), chance.between(0, 3)
    if not _has_consumer_protocol(scenario):
        return scenario
    hosts = scenario.hosts_of_groups()
    groups, plan = dict(scenario.groups), list(scenario.plan)
    for name, (has_pattern, of_brokers) in drawn.items():
        group = groups[name]
        always = group.uses_consumer_protocol and not group.overrides and not _upgrades(scenario, name)
        of_brokers = of_brokers and always
        if of_brokers:
            plan = [_matched_by_brokers(entry, hosts[name]) for entry in plan]
        if has_pattern and group.streams is None:
            pattern = "t.*" if len(group.topics) == len(scenario.topics) else f"{group.topics[0]}.*"
            by_members, by_brokers = ("", pattern) if of_brokers else (pattern, "")
            groups[name] = attrs.evolve(group, topics=(), pattern=by_members, subscription_pattern=by_brokers)
    if created and scenario.brokers.replication is not None and groups != scenario.groups:
        plan.append(At(at_us=at_us, action=CreateTopic(topic=NEW_TOPIC, partitions=partitions, records_per_s=rate)))
        if deleted:
            plan.append(At(at_us=at_us + apart_us, action=DeleteTopic(topic=NEW_TOPIC)))
    return attrs.evolve(scenario, groups=groups, plan=tuple(plan))


def migrations_text(scenario: Scenario) -> str:
    """The drawn migrations, and members of another protocol than their group, for a report; "none" without any."""
    parts = [describe_entry(entry) for name in scenario.groups for entry in _upgrades(scenario, name)]
    for name, group in scenario.groups.items():
        parts += [f"{host} of {name} has {KEY}={dict(own.config)[KEY_NAME]}" for host, own in group.overrides.items()]
    return "; ".join(parts) or "none"


def _upgrades(scenario: Scenario, name: str) -> list[Entry]:
    """The plan's changes of the protocol of a group."""
    actions = [(entry, entry.action) for entry in scenario.plan]
    return [
        entry
        for entry, action in actions
        if isinstance(action, RollingUpgrade) and action.group == name and any(KEY in each for each in action.settings)
    ]


def _matched_by_brokers(entry: Entry, hosts: list[str]) -> Entry:
    """A member's change to a pattern as a change to a pattern that brokers match; other entries are unchanged."""
    action = entry.action
    if not isinstance(entry, At) or not isinstance(action, ChangeSubscription) or action.host not in hosts:
        return entry
    change = ChangeSubscription(host=action.host, topics=action.topics, subscription_pattern=action.pattern)
    return At(at_us=entry.at_us, action=change)


def _drawn_pace(scenario: Scenario, chance: Stream) -> tuple[int, int, int, int]:
    """(begin, interval, duration of a restart, time until the way back) of a migration, in us."""
    earliest_us, latest_us = fault_times_us(scenario)
    at_us = chance.between(earliest_us // 1_000, max(earliest_us, latest_us // 2) // 1_000) * 1_000
    every_us, down_us = chance.between(2_000, 5_000) * 1_000, chance.between(500, 2_000) * 1_000
    return at_us, every_us, down_us, chance.between(1, 10) * SECOND


def _has_consumer_protocol(scenario: Scenario) -> bool:
    kind = PROFILES[scenario.profile or DEFAULT_PROFILE].broker.coordinator_kind
    return GROUP_RULES[kind].consumer_protocol and not scenario.mixes_releases


def _with_time_for_sessions(scenario: Scenario) -> Scenario:
    """The scenario; sessions of the consumer protocol may be longer than the time for recovery."""
    within_us = scenario.checks.stable_within_us
    if within_us is None or within_us >= scenario.timeouts_us:
        return scenario
    return attrs.evolve(scenario, checks=attrs.evolve(scenario.checks, stable_within_us=scenario.timeouts_us))


def _needs_classic(scenario: Scenario, name: str) -> bool:
    """Whether the group or its plan has a use that kemu does not emulate with the consumer protocol."""
    group = scenario.groups[name]
    if group.streams is not None or group.overrides:
        return True
    return any(isinstance(entry.action, RollingUpgrade) and entry.action.group == name for entry in scenario.plan)


def _switched(group: GroupSpec, assignor: str) -> GroupSpec:
    classic = {key.replace(".", "_") for key in SETTINGS_OF_CLASSIC}
    config = {key: value for key, value in group.config if key not in classic}
    config[KEY_NAME] = CONSUMER
    if assignor:
        config["group_remote_assignor"] = assignor
    return attrs.evolve(group, assignors=(), config=in_order(config))


def _of_heartbeats(entry: Entry, members: frozenset[str]) -> Entry:
    """A delay of a classic request of these members as a delay of their heartbeat; other entries are unchanged."""
    action = entry.action
    if not isinstance(entry, At) or not isinstance(action, LateMessage):
        return entry
    name, of_reply = action.api.removesuffix("Reply"), "Reply" if action.api.endswith("Reply") else ""
    if name not in _REQUESTS_OF_CLASSIC or not members & {action.sender, action.receiver}:
        return entry
    late = LateMessage(
        api=f"{_HEARTBEAT}{of_reply}",
        sender=action.sender,
        receiver=action.receiver,
        nth=action.nth,
        by_us=action.by_us,
    )
    return At(at_us=entry.at_us, action=late)
