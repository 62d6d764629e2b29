"""Members that differ from their group: in the scenario from the start, or made so by a rolling upgrade."""

from typing import Any

import pytest

from kemu.emulator.facts import MemberReconfigured, Seen
from kemu.emulator.plan.actions import AddMembers, Crash, RollingUpgrade
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import scenario_from_toml, with_values
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.members import MemberSpec
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.kafka_keys import settings_of, texts_of
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.notes.groups import JoinPhaseCompleted
from kemu.protocol.profiles import PROFILES

S = 1_000_000
TEXT = """
name = "mixed"
profile = "kafka-2.4"
duration = "20s"
[topics.t]
partitions = 4
rate = "2/s"
[groups.g]
topics = ["t"]
members = 3
assignors = ["cooperative-sticky", "range"]
[groups.g.overrides.c2]
profile = "kafka-3.4"
assignors = ["cooperative-sticky"]
config.session.timeout.ms = 20000
[[plan]]
at = "10s"
do = "rolling-upgrade"
group = "g"
every = "2s"
down = "1s"
hosts = ["c1"]
profile = "kafka-3.4"
settings = ["max.poll.records=5"]
"""


class Voted:
    """Keeps the protocol of each generation."""

    def __init__(self) -> None:
        self.protocols: list[str | None] = []

    def wants(self, kind: type) -> bool:
        return kind is JoinPhaseCompleted

    def see(self, seen: Seen) -> None:
        if isinstance(seen.fact, JoinPhaseCompleted):
            self.protocols.append(seen.fact.protocol)


class Reconfigured:
    """Keeps what members were made into."""

    def __init__(self) -> None:
        self.facts: list[MemberReconfigured] = []

    def wants(self, kind: type) -> bool:
        return kind is MemberReconfigured

    def see(self, seen: Seen) -> None:
        if isinstance(seen.fact, MemberReconfigured):
            self.facts.append(seen.fact)


def test_a_member_has_its_own_release_assignors_and_settings() -> None:
    """What it does not say is as the group has it."""
    scenario = scenario_from_toml(TEXT)

    member = scenario.groups["g"].overrides["c2"]
    config = scenario.groups["g"].consumer("g", "c2", 1, member=member)

    assert scenario.profile == "kafka-2.4"
    assert member == MemberSpec(
        profile="kafka-3.4", assignors=("cooperative-sticky",), config={"session.timeout.ms": 20_000}
    )
    assert config.session_timeout_ms == 20_000
    assert config.partition_assignment_strategy == ("cooperative-sticky",)
    assert scenario_from_dict(scenario.to_dict()) == scenario


@pytest.mark.parametrize(
    ("release", "assignors"),
    [("kafka-2.8", ("range",)), ("kafka-3.0", ("range", "cooperative-sticky"))],
)
def test_a_group_that_names_no_assignor_has_those_of_its_release(release: str, assignors: tuple[str, ...]) -> None:
    """Cooperative-sticky beside range since 3.0 (``ConsumerConfig``, KAFKA-13023)."""
    group = GroupSpec(topics=("t",))

    assert group.consumer("g", "c1", 0, PROFILES[release].consumer).partition_assignment_strategy == assignors


@pytest.mark.parametrize(("older", "voted"), [("kafka-3.0", {"cooperative-sticky"}), ("kafka-2.8", set[str]())])
def test_each_member_names_the_assignors_of_its_own_release(older: str, voted: set[str]) -> None:
    """c2 has cooperative-sticky alone: a c1 of 3.0 shares it by default, one of 2.8 keeps c2 out (or is kept out)."""
    watch = Voted()
    overrides = {"c1": MemberSpec(profile=older), "c2": MemberSpec(assignors=("cooperative-sticky",))}
    scenario = Scenario(
        name="mixed",
        duration_us=20 * S,
        topics={"t": TopicSpec(partitions=4, records_per_s=1)},
        groups={"g": GroupSpec(topics=("t",), members=2, overrides=overrides)},
        profile="kafka-3.9",
    )

    result = run(scenario, seed=1, loop="bare", observers=(watch,))

    assert (result.verdict == "holds") == bool(voted)
    assert voted == set(watch.protocols) or (not voted and len(set(watch.protocols)) == 1)


def test_the_scenario_s_profile_is_used_unless_another_is_asked_for() -> None:
    """A preset about a release names it."""
    scenario = scenario_from_toml(TEXT)

    assert run(scenario, seed=1, loop="bare").profile == "kafka-2.4"
    assert run(scenario, seed=1, loop="bare", profile="kafka-3.4").profile == "kafka-3.4"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("overrides.c2", "overrides.c9", '"c9" is no member of g'),
        ('profile = "kafka-2.4"', 'profile = "kafka-26"', 'did you mean "kafka-2.6"'),
        ('"max.poll.records=5"', '"max.poll.record=5"', "max.poll.record is no key of ConsumerConfig"),
        ('"max.poll.records=5"', '"max.poll.records"', "must be KEY=VALUE"),
        ('profile = "kafka-3.4"\nsettings = ["max.poll.records=5"]', "", "must say what changes"),
        ("config.session.timeout.ms = 20000", "config.session.timeout.ms = 20", "must be less than"),
        ('hosts = ["c1"]', 'hosts = ["b0"]', '"b0" is no member'),
        ('assignors = ["cooperative-sticky"]', 'assignors = ["cooperative"]', '"cooperative" is no assignor'),
    ],
)
def test_mistakes_are_named(old: str, new: str, said: str) -> None:
    """One clear message each."""
    assert TEXT.count(old) == 1

    with pytest.raises(ScenarioError, match=said.replace(".", r"\.")):
        scenario_from_toml(TEXT.replace(old, new))


def test_an_override_can_be_set_on_the_command_line() -> None:
    """With its full key."""
    scenario = with_values(scenario_from_toml(TEXT), ["groups.g.overrides.c3.config.max.poll.records=7"])

    assert scenario.groups["g"].overrides["c3"] == MemberSpec(config={"max.poll.records": 7})
    assert "c2" in scenario.groups["g"].overrides


def test_settings_survive_their_texts() -> None:
    """As a trace holds them."""
    settings = settings_of(("rebalance.protocol=cooperative", "enable.auto.commit=false", "max.poll.interval.ms=20s"))

    assert dict(settings) == {
        "rebalance_protocol": "cooperative", "enable_auto_commit": False, "max_poll_interval_ms": 20_000,
    }  # fmt: skip
    assert settings_of(texts_of(settings)) == settings


def test_what_comes_later_stands_on_what_was_before() -> None:
    """A second bounce changes one thing and leaves the first one's."""
    first = MemberSpec(profile="kafka-3.4", config={"max.poll.records": 5, "rebalance.protocol": "eager"})

    then = first.then(MemberSpec(assignors=("range",), config={"rebalance.protocol": "cooperative"}))

    assert then == MemberSpec(
        profile="kafka-3.4",
        assignors=("range",),
        config={"max.poll.records": 5, "rebalance.protocol": "cooperative"},
    )


def upgraded(*more: At, hosts: tuple[str, ...] = (), every_us: int = 10 * S, down_us: int = 4 * S) -> Reconfigured:
    upgrade = RollingUpgrade(
        group="g",
        every_us=every_us,
        down_us=down_us,
        hosts=hosts,
        assignors=("sticky",),
        settings=("max.poll.records=5",),
    )
    scenario = Scenario(
        name="upgrade",
        duration_us=90 * S,
        topics={"t": TopicSpec(partitions=4, records_per_s=1)},
        groups={"g": GroupSpec(topics=("t",), members=3, assignors=("sticky", "range"))},
        plan=(At(20 * S, upgrade), *more),
    )
    watch = Reconfigured()
    result = run(scenario, seed=1, loop="bare", observers=(watch,))
    assert result.verdict == "holds"
    return watch


def test_members_are_upgraded_one_after_the_other_and_later_ones_are_like_them() -> None:
    """A whole group's upgrade is what new members are started with."""
    watch = upgraded(At(70 * S, AddMembers(group="g")))

    assert [fact.host for fact in watch.facts] == ["c1", "c2", "c3", "c4"]
    assert {(fact.assignors, fact.settings) for fact in watch.facts} == {(("sticky",), ("max.poll.records=5",))}


def test_only_the_named_hosts_are_upgraded_in_their_order() -> None:
    """And what is added later is as the group was."""
    watch = upgraded(At(70 * S, AddMembers(group="g")), hosts=("c3", "c1"))

    assert [fact.host for fact in watch.facts] == ["c3", "c1"]


def test_a_member_that_is_down_when_its_turn_comes_comes_back_upgraded() -> None:
    """Whoever starts it."""
    watch = upgraded(At(25 * S, Crash(host="c2", for_us=20 * S)))

    assert [fact.host for fact in watch.facts] == ["c1", "c2", "c3"]


def test_what_a_consumer_would_refuse_is_an_error_of_the_scenario() -> None:
    """Not of the program, and not in the midst of the run."""
    page = TEXT.replace('profile = "kafka-3.4"\nsettings', 'profile = "kip-429-v99"\nsettings')
    wrong = page.replace('"max.poll.records=5"', '"emulated.bytecode=old", "rebalance.protocol=cooperative"')

    with pytest.raises(ScenarioError, match=r"groups\.g: c1 .*not supported with emulated.bytecode old"):
        run(scenario_from_toml(wrong), seed=1, loop="bare")


def test_an_upgrade_in_words_says_who_becomes_what() -> None:
    """Exact enough to tell it from any other."""
    action: Any = RollingUpgrade(
        group="g",
        every_us=20 * S,
        down_us=5 * S,
        hosts=("c1",),
        profile="kafka-3.4",
        assignors=("sticky", "range"),
        settings=("max.poll.records=5",),
    )

    assert action.words() == (
        "rolling upgrade of c1 of g (close) to kafka-3.4; assignors sticky, range; max.poll.records=5; "
        "one every 20s, each down for 5s"
    )
