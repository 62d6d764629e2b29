"""Brokers that join a running cluster: they register, everybody learns of them, and they get what is moved to them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import pytest

from kemu.emulator.facts import BrokerHostAdded, HostStarted, Seen
from kemu.emulator.plan.actions import AddBroker, Crash, CreateTopic, PartitionsReassignment
from kemu.emulator.plan.entries import At, Entry
from kemu.emulator.replay import replay
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml
from kemu.emulator.scenario.random_faults import random_faults
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import AdminAnswered, Processed, RecordsAppended
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, BrokersChanged
from tests.emulator.engine.toys import Watcher

S = 1_000_000
TOML = """
name = "joins"
duration = "40s"
[brokers]
count = 3
[brokers.overrides.b4]
bandwidth = "50MB/s"
[brokers.config]
"offsets.topic.num.partitions" = 3
[brokers.replication]
min_isr = 2
[topics.t]
partitions = 3
rate = "30/s"
[groups.g]
topics = ["t"]
members = 1
[[plan]]
at = "12s"
do = "add-broker"
count = 2
"""


def joins(*plan: Entry) -> Scenario:
    """Two brokers join after 12 s; then these."""
    made = scenario_from_toml(TOML)
    return attrs.evolve(made, plan=(*made.plan, *plan))


MOVE = PartitionsReassignment(topic="t", to=("3", "4", "0"))
PLAN = (
    At(12 * S + 100_000, MOVE),
    At(20 * S, MOVE),
    At(27 * S, CreateTopic(topic="u", partitions=2, replication_factor=5)),
    At(33 * S, Crash(host="b3")),
)


class Joined(NamedTuple):
    """A run that holds, its facts, and its trace."""

    result: RunResult
    facts: list[Seen]
    trace: Path

    def of(self, kind: type, actor: str = "") -> list[Seen]:
        """Facts of a kind."""
        return [seen for seen in self.facts if type(seen.fact) is kind and actor in ("", seen.actor)]


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Joined:
    """Partitions are moved to the new brokers, too early and in time; a topic is created; one of them crashes."""
    watcher, path = Watcher(), tmp_path_factory.mktemp("joins") / "joins.kemu"
    result = run(joins(*PLAN), seed=1, loop="trio", observers=(watcher,), trace=path)
    assert result.verdict == "holds", (result.reason, result.violations[:3])
    return Joined(result, watcher.facts, path)


def test_a_new_broker_is_registered_and_has_nothing_until_something_is_moved_to_it(joined: Joined) -> None:
    """``KafkaController.onBrokerStartup``: no replica is assigned to a broker because it is there."""
    assert [seen.fact.host for seen in joined.of(BrokerHostAdded)] == ["b3", "b4"]
    seen_us = {node: seen.at_us for seen in reversed(joined.of(BrokersChanged)) for node in seen.fact.new}
    assert all(12 * S < seen_us[node] < 20 * S for node in (3, 4))
    early = [seen for kind in (BecameLeader, BecameFollower) for seen in joined.of(kind) if seen.at_us < 20 * S]
    assert early
    assert {"b3", "b4"}.isdisjoint(seen.actor for seen in early)


def test_partitions_cannot_be_moved_to_a_broker_before_it_is_registered(joined: Joined) -> None:
    """KIP-455: an added broker that is not live is INVALID_REPLICA_ASSIGNMENT; its process takes seconds to start."""
    answers = [seen.fact.error for seen in joined.of(AdminAnswered) if seen.fact.api == "AlterPartitionReassignments"]

    assert answers == [ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NONE]


def test_what_is_moved_to_new_brokers_is_led_written_and_read_there(joined: Joined) -> None:
    """Clients learn of them by a refresh of their metadata; nobody has them among their bootstrap servers."""
    led = {seen.fact.partition for seen in joined.of(BecameLeader, "b4") if seen.fact.topic == "t"}
    assert led == {1}
    appended = [seen.fact for seen in joined.of(RecordsAppended, "b4") if seen.fact.topic == "t"]
    assert len(appended) > 10
    read = [seen.fact.last for seen in joined.of(Processed) if seen.fact.partition == 1]
    assert max(read) > appended[-10].base_offset
    assert joined.result.figures.reassignment is not None
    assert joined.result.figures.reassignment.unfinished == 0


def test_topics_created_later_lie_on_new_brokers_too(joined: Joined) -> None:
    """``AdminUtils.assignReplicasToBrokers`` takes the brokers that live when a topic is created."""
    hosts = {
        seen.actor for kind in (BecameLeader, BecameFollower) for seen in joined.of(kind) if seen.fact.topic == "u"
    }

    assert hosts == {"b0", "b1", "b2", "b3", "b4"}


def test_a_new_broker_that_crashes_is_started_again_like_any_other(joined: Joined) -> None:
    """When all is healed the cluster is whole, with the brokers that joined."""
    assert [seen.fact.life for seen in joined.of(HostStarted) if seen.fact.host == "b3"] == [1, 2]


def test_both_loops_agree_and_the_trace_replays(joined: Joined) -> None:
    """The host of a broker that joins is made again where the trace says so."""
    assert run(joins(*PLAN), seed=1, loop="bare").digest == joined.result.digest
    assert replay(read_trace(joined.trace)).difference is None


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("count = 2", "count = 0", r"plan\[0\].count"),
        ("count = 2", "count = 2000", "makes more than 1000 brokers"),
        ("count = 2", "count = 1", '"b4" is no broker; known: b0, b1, b2, b3'),
        ("[brokers.replication]\nmin_isr = 2", "", "needs brokers that replicate"),
    ],
)
def test_what_is_wrong_with_new_brokers_is_told_with_its_key(old: str, new: str, why: str) -> None:
    """Names of brokers that join are known once the plan adds them, and not before."""
    with pytest.raises(ScenarioError, match=why):
        scenario_from_toml(TOML.replace(old, new), source="test.toml")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"topic": "t", "to": ["3", "5"]}, "5 is no broker; there are 0 to 4"),
        ({"topic": "__consumer_offset", "to": ["3"]}, "is no topic"),
        ({"topic": "__consumer_offsets", "assignment": ["7: 0 1"]}, "has no partition 7, it has 3"),
    ],
)
def test_a_move_to_new_brokers_is_checked_against_what_the_plan_adds(entry: Mapping[str, Any], why: str) -> None:
    """Also one of the groups' own topic."""
    row = {"at": "20s", "do": "reassign-partitions", **entry}
    with pytest.raises(ScenarioError, match=why):
        joins(row)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["decommission-under-load", "drain-a-broker"])
def test_a_broker_that_is_drained_holds_nothing_in_the_end(name: str) -> None:
    """Its replicas of ``__consumer_offsets`` go, too, as whoever takes a broker away must see to."""
    result = run(load_scenario(name), seed=1, loop="bare")

    assert result.verdict == "holds"
    assert result.figures.reassignment is not None
    assert result.figures.reassignment.emptied == {"b3": 0}


def test_random_plans_add_brokers_where_brokers_replicate() -> None:
    """And only there: elsewhere who leads what is arranged once."""
    made = joins()
    drawn = [entry.action for seed in range(60) for entry in random_faults(made, seed, 4)]

    assert AddBroker() in drawn
    plain = [entry.action for seed in range(60) for entry in random_faults(load_scenario("steady-group"), seed, 4)]
    assert AddBroker() not in plain
