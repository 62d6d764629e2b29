"""Groups that subscribe by pattern: ``pattern`` of a group, and of a member that changes its subscription."""

import attrs
import pytest

from kemu.emulator.facts import FaultApplied
from kemu.emulator.plan.actions import ChangeSubscription, DeleteTopic
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.notes.groups import GroupBecame, PartitionsAssigned, Processed
from tests.emulator.engine.toys import Watcher

S = 1_000_000
TOML = """
name = "patterns"
duration = "75s"
draws = "calm"
[brokers]
count = 3
[brokers.config]
"offsets.topic.num.partitions" = 3
[brokers.replication]
[topics.orders-eu]
partitions = 2
rate = "4/s"
[topics.orders-old]
partitions = 1
rate = 0
[topics.other]
partitions = 2
rate = "2/s"
[groups.g]
pattern = "orders-.*"
members = 2
config.metadata.max.age.ms = 15000
[[plan]]
at = "20s"
do = "create-topic"
topic = "orders-us"
partitions = 2
rate = "4/s"
"""


def patterns(*plan: At) -> Scenario:
    made = scenario_from_toml(TOML)
    return attrs.evolve(made, plan=(*made.plan, *plan))


def test_a_group_reads_what_is_created_later_and_forgets_what_is_deleted() -> None:
    """Whoever hears of it first, at the next refresh of its metadata, makes the group rebalance.

    A commit of the deleted topic fails (UNKNOWN_TOPIC_OR_PARTITION), and a member repeats it before its join until
    ``max.poll.interval.ms`` (``ConsumerCoordinator.onJoinPrepare`` 3.4, KAFKA-13310).
    """
    watcher = Watcher()
    result = run(patterns(At(45 * S, DeleteTopic(topic="orders-old"))), seed=1, loop="bare", observers=(watcher,))

    assert result.verdict == "holds", (result.reason, result.violations[:3])
    read = {seen.fact.topic for seen in watcher.facts if type(seen.fact) is Processed}
    assert read == {"orders-eu", "orders-us"}
    became = [seen for seen in watcher.facts if type(seen.fact) is GroupBecame and seen.fact.new == "Stable"]
    created, deleted = [seen.at_us for seen in became if seen.at_us > 20 * S][:2]
    assert 20 * S < created <= 36 * S
    assert 45 * S < deleted - 300 * S <= 61 * S
    last = {seen.actor: seen.fact for seen in watcher.facts if type(seen.fact) is PartitionsAssigned}
    owned = sorted(at for fact in last.values() for at in fact.owned)
    assert owned == [("orders-eu", 0), ("orders-eu", 1), ("orders-us", 0), ("orders-us", 1)]


def test_a_member_changes_to_a_pattern() -> None:
    """subscribe(Pattern) in the midst of a run; the others keep theirs."""
    watcher = Watcher()
    change = At(10 * S, ChangeSubscription(host="c2", pattern="oth.r"))
    scenario = attrs.evolve(patterns(change), duration_us=18 * S, plan=(change,))
    run(scenario, seed=1, loop="bare", observers=(watcher,))

    assert any(
        "c2 subscribes to all that matches oth.r" in seen.fact.text
        for seen in watcher.facts
        if type(seen.fact) is FaultApplied
    )
    owned = {seen.actor: seen.fact.owned for seen in watcher.facts if type(seen.fact) is PartitionsAssigned}
    assert {topic for topic, _ in owned["c2"]} == {"other"}
    assert {topic for topic, _ in owned["c1"]} == {"orders-eu", "orders-old"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('pattern = "a("', "groups.g.pattern: 'a(' is not a regular expression"),
        ("pattern = 5", "groups.g.pattern: must be a string, not a number (5)"),
        ('subscription_pattern = "a("', "groups.g.subscription_pattern: 'a(' is not a regular expression"),
        ('subscription_pattern = "a"', "groups.g.subscription_pattern: needs group.protocol = consumer"),
        ('topics = ["t"]\npattern = "t"', 'groups.g.pattern: and "topics" exclude each other'),
        ("members = 2", 'groups.g.topics: needs at least one topic, or a "pattern"'),
        ('pattern = "t"\nstreams = { subtopologies = ["t"] }', 'groups.g.pattern: and "topics" exclude each other'),
    ],
)
def test_a_mistake_in_a_subscription_is_named(wrong: str, said: str) -> None:
    """The key and what is wrong with it."""
    with pytest.raises(ScenarioError) as caught:
        scenario_from_toml(f"[topics.t]\npartitions = 1\n[groups.g]\n{wrong}\n")
    assert said in str(caught.value)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('pattern = "a("', "plan[0].pattern: 'a(' is not a regular expression"),
        ('topics = ["t"]\npattern = "t"', 'plan[0].pattern: and "topics" exclude each other'),
    ],
)
def test_a_mistake_in_a_change_of_subscription_is_named(wrong: str, said: str) -> None:
    """The key and what is wrong with it."""
    text = (
        '[topics.t]\npartitions = 1\n[groups.g]\ntopics = ["t"]\n[[plan]]\nat = "1s"\ndo = "subscribe"\nhost = "c1"\n'
    )
    with pytest.raises(ScenarioError) as caught:
        scenario_from_toml(f"{text}{wrong}\n")
    assert said in str(caught.value)


def test_brokers_own_topics_match_only_if_a_consumer_says_so() -> None:
    """exclude.internal.topics, of the group's members."""
    names = ("__consumer_offsets", "b", "a")

    assert GroupSpec(pattern=".*").subscribed_to(names) == ("a", "b")
    assert GroupSpec(pattern=".*", config={"exclude.internal.topics": False}).subscribed_to(names) == (
        "__consumer_offsets",
        "a",
        "b",
    )
