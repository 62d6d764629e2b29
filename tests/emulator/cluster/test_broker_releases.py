"""Brokers of several releases in one cluster, and their upgrade while a group reads: each is as its release."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import pytest

from kemu.actors.broker.replicated import ReplicatedBroker
from kemu.actors.coordinator.coordinator import Coordinator
from kemu.actors.coordinator.rules import GROUP_RULES
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.engine.network import Packet
from kemu.emulator.facts import BrokerReconfigured, FaultApplied, HostStarted, Seen
from kemu.emulator.plan.actions import AddMembers, BrokersUpgrade
from kemu.emulator.plan.entries import At, Entry
from kemu.emulator.replay import replay
from kemu.emulator.runner import Run, run
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.messages.control import AlterIsr, LeaderAndIsr, OffsetForLeaderEpoch
from kemu.protocol.messages.data import Fetch
from kemu.protocol.messages.group import JoinGroup
from kemu.protocol.messages.negotiation import ApiVersions
from kemu.protocol.messages.versions import KAFKA_2_4, KAFKA_3_4
from kemu.protocol.names import coordinator_on, host_of
from kemu.protocol.notes.groups import GroupBecame, GroupLoaded, Processed
from kemu.protocol.notes.replication import Truncated
from kemu.protocol.profiles import PROFILES
from kemu.protocol.wire.schema import SPECS, Kind
from tests.emulator.engine.toys import Watcher

S = 1_000_000
TAIL = Path(__file__).parents[2] / "mutations" / "tail_of_its_own.toml"
TOML = """
name = "releases"
profile = "kafka-3.4"
duration = "80s"
draws = "calm"
[brokers]
count = 3
[brokers.overrides]
b0.profile = "kafka-2.4"
b1.profile = "kafka-2.4"
b2.profile = "kafka-2.4"
[brokers.config]
"offsets.topic.num.partitions" = 3
[brokers.replication]
min_isr = 2
[topics.t]
partitions = 3
rate = "6/s"
[groups.g]
topics = ["t"]
members = 2
"""
RELEASE = BrokersUpgrade(every_us=8 * S, down_us=3 * S, profile="kafka-3.4")
PROTOCOL = BrokersUpgrade(every_us=8 * S, down_us=3 * S, protocol="kafka-3.4")
PLAN = (At(10 * S, RELEASE), At(36 * S, AddMembers(group="g")), At(44 * S, PROTOCOL))


def mixed(*plan: Entry, text: str = TOML) -> Scenario:
    """Three old brokers, members of 3.4; then this."""
    return attrs.evolve(scenario_from_toml(text), plan=plan)


class Sent(NamedTuple):
    """A request on its way."""

    at_us: int
    sender: str
    to: str
    message: Any
    version: int


class Upgraded(NamedTuple):
    """What was sent, said and made in a run."""

    sent: list[Sent]
    facts: list[Seen]
    run: Run

    def of(self, kind: type) -> list[Seen]:
        """Facts of a kind."""
        return [seen for seen in self.facts if type(seen.fact) is kind]


def driven(scenario: Scenario) -> Upgraded:
    """Run it and watch."""
    watcher, sent = Watcher(), []
    made = Run(scenario, seed=1, observers=(watcher,))

    def watch(packet: Packet, message: Any) -> None:
        if SPECS[type(message)].kind is Kind.REQUEST:
            sent.append(Sent(made.world.now_us, packet.link.client, packet.link.server, message, packet.version))

    made.world.watch_sends = watch
    assert not made.run_with(run_plain)
    return Upgraded(sent, watcher.facts, made)


@pytest.fixture(scope="module")
def upgraded() -> Iterator[Upgraded]:
    """2.4 to 3.4 by two bounces, and a member that joins in between."""
    yield driven(mixed(*PLAN))


def started_us(upgraded: Upgraded, life: int) -> dict[str, int]:
    """Broker -> when its process began this life."""
    return {seen.fact.host: seen.at_us for seen in upgraded.of(HostStarted) if seen.fact.life == life}


def test_each_broker_comes_back_as_the_new_release_and_only_in_the_second_bounce_with_its_protocol(
    upgraded: Upgraded,
) -> None:
    """Kafka's upgrade notes: first the code, inter.broker.protocol.version as it was; then that, restart by restart."""
    became = [(seen.fact.host, seen.fact.profile, seen.fact.protocol) for seen in upgraded.of(BrokerReconfigured)]

    assert became == [
        *((host, "kafka-3.4", "kafka-2.4") for host in ("b0", "b1", "b2")),
        *((host, "kafka-3.4", "kafka-3.4") for host in ("b0", "b1", "b2")),
    ]


def test_clients_speak_to_each_broker_what_its_release_knows_and_ask_for_it_first(upgraded: Upgraded) -> None:
    """NodeApiVersions.latestUsableVersion, by node; ApiVersions is the first request of every connection."""
    clients = [each for each in upgraded.sent if each.sender[0] in "cp"]
    first: dict[tuple[str, str], Any] = {}
    for each in clients:
        first.setdefault((each.sender, each.to), each.message)
    assert {type(message) for message in first.values()} == {ApiVersions}

    new_us = started_us(upgraded, 2)
    spoken: dict[bool, set[int]] = {False: set(), True: set()}
    for each in clients:
        name = SPECS[type(each.message)].name
        is_new = each.at_us > new_us[host_of(each.to)]
        if name in KAFKA_2_4.requests and not is_new:
            assert each.version <= KAFKA_2_4[name], each
        if name == "Fetch":
            spoken[is_new].add(each.version)
    assert spoken == {False: {KAFKA_2_4["Fetch"]}, True: {KAFKA_3_4["Fetch"]}}


def test_a_new_broker_reads_the_group_and_offsets_that_an_old_one_wrote(upgraded: Upgraded) -> None:
    """Nobody rejoins while coordinators move from release to release, and nothing is read twice."""
    loads = [seen for seen in upgraded.of(GroupLoaded) if seen.fact.group == "g" and seen.at_us < 36 * S]
    moved_us = started_us(upgraded, 2)
    assert any(seen.at_us > moved_us[host_of(seen.actor)] for seen in loads)
    assert {(seen.fact.state, seen.fact.generation, len(seen.fact.members)) for seen in loads} == {("Stable", 1, 2)}
    assert {seen.fact.why for seen in upgraded.of(GroupBecame) if 10 * S < seen.at_us < 36 * S} == {"unloaded"}
    read: dict[int, int] = {}
    for seen in upgraded.of(Processed):
        if seen.at_us < 36 * S:
            assert seen.fact.first == read.get(seen.fact.partition, 0)
            read[seen.fact.partition] = seen.fact.last
    assert len(read) == 3


def test_a_coordinator_behaves_as_its_own_brokers_release(upgraded: Upgraded) -> None:
    """A member's reason is in JoinGroup since v8 and in the coordinator's log since 3.2 (KIP-800)."""
    reasons = {seen.at_us > 30 * S: seen.fact.why for seen in upgraded.of(GroupBecame) if "Adding" in seen.fact.why}

    assert "client reason" not in reasons[False]
    assert "client reason" in reasons[True]
    versions = {each.at_us > 30 * S: each.version for each in upgraded.sent if type(each.message) is JoinGroup}
    assert versions == {False: KAFKA_2_4["JoinGroup"], True: KAFKA_3_4["JoinGroup"]}


def test_what_brokers_say_to_each_other_waits_for_the_protocol(upgraded: Upgraded) -> None:
    """AlterIsr and topic ids in LeaderAndIsr are inter.broker.protocol.version 2.7 and 2.8 (ApiVersion.scala)."""
    protocol_us = started_us(upgraded, 3)
    asked = [each for each in upgraded.sent if type(each.message) is AlterIsr]
    assert asked
    assert all(each.at_us > protocol_us[host_of(each.sender)] for each in asked)
    told = [each for each in upgraded.sent if type(each.message) is LeaderAndIsr]
    assert {each.version >= 5 for each in told} == {False, True}
    assert all(each.at_us > protocol_us[host_of(each.sender)] for each in told if each.version >= 5)


def test_followers_ask_for_the_ends_of_epochs_until_their_protocol_has_truncation_on_fetch(upgraded: Upgraded) -> None:
    """ReplicaFetcherThread.isTruncationOnFetchSupported: inter.broker.protocol.version 2.7 (KIP-595)."""
    protocol_us = started_us(upgraded, 3)
    asked = [
        each for each in upgraded.sent if type(each.message) is OffsetForLeaderEpoch and each.sender in protocol_us
    ]
    assert {each.sender for each in asked} == {"b0", "b1", "b2"}
    assert all(each.at_us < protocol_us[each.sender] for each in asked)
    fetched = [each for each in upgraded.sent if type(each.message) is Fetch and each.sender in protocol_us]
    told = [each for each in fetched if any(row.last_fetched_epoch >= 0 for row in each.message.partitions)]
    assert {each.sender for each in told} == {"b0", "b1", "b2"}
    assert all(each.at_us > protocol_us[each.sender] for each in told)


@pytest.mark.parametrize(("profile", "asks"), [("kafka-2.6", True), ("kafka-3.4", False)])
def test_a_leader_that_comes_back_with_a_tail_of_its_own_cuts_it_in_every_release(profile: str, asks: bool) -> None:
    """Partition.readRecords' lastFetchedEpoch (2.7 on), OffsetsForLeaderEpoch before; the same logs in the end."""
    made = driven(attrs.evolve(load_scenario(TAIL), profile=profile))
    cut = [seen.fact for seen in made.of(Truncated) if seen.actor == "b0"]
    assert cut
    assert {fact.why for fact in cut} == {"leader-epoch"}
    asked = {each.sender for each in made.sent if type(each.message) is OffsetForLeaderEpoch and each.sender[0] == "b"}
    assert ("b0" in asked) is asks
    assert bool(asked) is asks

    for number in range(3):
        logs = []
        for host in ("b0", "b1", "b2"):
            broker = made.run.world.hosts[host].actors[host].machine
            assert isinstance(broker, ReplicatedBroker)
            log = broker.manager.replicas["orders", number].log
            logs.append((log.epochs.entries, [batch.leader_epoch for batch in log.copy_from(0, 1 << 30, 1)], log))
        seen = min(log.end_offset for *_, log in logs)
        assert seen > cut[0].end_offset
        assert logs[0][0] == logs[1][0] == logs[2][0]
        same = [log.copy_from(0, 100 * (seen - 50), 100) for *_, log in logs]
        assert same[0] == same[1] == same[2]


def test_an_upgrade_of_brokers_is_replayed(tmp_path: Path) -> None:
    """A machine of a later life is built as the release that its broker had by then."""
    scenario = attrs.evolve(mixed(At(5 * S, RELEASE)), duration_us=32 * S)
    result = run(scenario, seed=2, loop="bare", trace=tmp_path / "upgrade.kemu")

    assert result.verdict == "holds"
    assert replay(read_trace(tmp_path / "upgrade.kemu")).difference is None


def test_brokers_that_do_not_replicate_have_releases_too() -> None:
    """A coordinator is that of its broker, and is upgraded with it."""
    text = TOML.replace("[brokers.replication]\nmin_isr = 2\n", "").replace('b1.profile = "kafka-2.4"\n', "")
    made = driven(attrs.evolve(mixed(At(10 * S, attrs.evolve(RELEASE, hosts=("b2",))), text=text), duration_us=25 * S))
    kinds = {}
    for name in ("b0", "b1", "b2"):
        machine = made.run.world.hosts[name].actors[coordinator_on(name)].machine
        assert isinstance(machine, Coordinator)
        kinds[name] = machine.rules

    assert kinds == {"b0": GROUP_RULES["scala-2.4"], "b1": GROUP_RULES["scala"], "b2": GROUP_RULES["scala"]}


@pytest.mark.parametrize(
    ("upgrades", "why"),
    [
        ((attrs.evolve(RELEASE, protocol="kafka-3.4"),), "first all brokers get the release, then the protocol"),
        (
            (attrs.evolve(PROTOCOL, protocol="kafka-3.7"),),
            "does not know the protocol of kafka-3.7",
        ),
        (
            (attrs.evolve(RELEASE, profile="kafka-2.3"),),
            "b0 would be kafka-2.3, which does not know",
        ),
    ],
)
def test_brokers_that_would_not_understand_each_other_are_not_made(upgrades: tuple[Any, ...], why: str) -> None:
    """Kafka's would not start, or close each other's connections; a plan is told so instead."""
    watcher = Watcher()
    scenario = attrs.evolve(mixed(*(At(5 * S, each) for each in upgrades)), duration_us=8 * S)
    run(scenario, seed=1, loop="bare", observers=(watcher,))

    (applied,) = [seen.fact for seen in watcher.facts if type(seen.fact) is FaultApplied]
    assert why in applied.text
    assert not [seen for seen in watcher.facts if type(seen.fact) is BrokerReconfigured]


def test_a_member_that_is_newer_than_its_brokers_speaks_their_versions() -> None:
    """Where all brokers are of one release nobody asks: what they speak is known."""
    text = '[topics.t]\npartitions = 1\n[groups.g]\ntopics = ["t"]\nmembers = 1\noverrides.c1.profile = "kafka-3.9"\n'
    made = driven(attrs.evolve(scenario_from_toml(text), name="n", profile="kafka-2.4", duration_us=8 * S))
    spoken = {SPECS[type(each.message)].name: each.version for each in made.sent if each.sender == "c1"}

    assert spoken["JoinGroup"] == KAFKA_2_4["JoinGroup"]
    assert all(spoken[name] <= KAFKA_2_4[name] for name in spoken)
    assert "ApiVersions" not in spoken


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("", 'profile: is missing; it or "protocol" must say what changes'),
        ('profile = "kafka-3.5"', 'profile: "kafka-3.5" is no profile'),
        ('protocol = "kafka-3.4"', "protocol: is what brokers speak that replicate: add [brokers.replication]"),
        ('profile = "kafka-3.4"\nhosts = ["c1"]', 'hosts: "c1" is no broker'),
    ],
)
def test_a_mistake_in_an_upgrade_of_brokers_is_named(entry: str, said: str) -> None:
    """The key and what is wrong with it."""
    text = '[topics.t]\npartitions = 1\n[groups.g]\ntopics = ["t"]\n[[plan]]\nat = "1s"\n'
    with pytest.raises(ScenarioError) as caught:
        scenario_from_toml(f'{text}do = "upgrade-brokers"\nevery = "9s"\ndown = "1s"\n{entry}\n')
    assert said in str(caught.value)


def test_a_broker_of_no_release_is_named() -> None:
    """As a member is."""
    with pytest.raises(ScenarioError, match=r"brokers.*b1.*profile.*kafka-9"):
        scenario_from_toml('[brokers.overrides.b1]\nprofile = "kafka-9"\n[topics.t]\npartitions = 1\n')


def test_profiles_are_in_the_order_of_their_releases() -> None:
    """What is older than what is decided by Kafka's numbers, not by names."""
    named = {name: each.release for name, each in PROFILES.items() if name.startswith("kafka-")}

    assert all(name.startswith(f"kafka-{major}.{minor}") for name, (major, minor) in named.items())
