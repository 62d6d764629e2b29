"""The scenario's keys of replication: read, written, refused."""

import pytest

from emulator.reading import ScenarioError
from emulator.replay import replay
from emulator.replication import ReplicationSpec
from emulator.runner import run
from emulator.scenario import BrokersSpec, Scenario, TopicSpec, scenario_from_dict
from emulator.swarm import with_random_faults
from emulator.traces import read_trace

CRASH = {"at": "8s", "do": "crash", "host": "controller", "for": "5s"}


def given(**replication: object) -> dict[str, object]:
    """A plain scenario with this replication."""
    return {"topics": {"t": {"partitions": 1}}, "brokers": {"count": 3, "replication": dict(replication)}}


def test_what_is_written_is_read_back():
    """Scenario.to_dict: the same in Python and in TOML."""
    spec = ReplicationSpec(
        factor=2,
        min_isr=2,
        unclean=True,
        session_us=6_000_000,
        lag_us=10_000_000,
        bugs=("KAFKA-1211",),
        config={"replica.fetch.wait.max.ms": 100},
        controller={"leader.imbalance.check.interval.seconds": 30},
    )
    scenario = Scenario(
        name="s",
        brokers=BrokersSpec(racks=("a", "b"), replication=spec),
        topics={"t": TopicSpec(partitions=2, replication_factor=3, min_isr=1, unclean=False)},
    )

    assert scenario_from_dict(scenario.to_dict()) == scenario


def test_an_empty_table_asks_for_replication_with_defaults():
    """``[brokers.replication]`` alone: three replicas, or as many as there are brokers."""
    assert scenario_from_dict(given()).brokers.replication == ReplicationSpec()
    assert scenario_from_dict({"topics": {"t": {"partitions": 1}}}).brokers.replication is None


@pytest.mark.parametrize(
    ("replication", "text"),
    [
        ({"factor": 4}, "must not be more than there are brokers"),
        ({"factor": 2, "min_isr": 3}, "must not be more than the replication factor"),
        ({"bugs": ["KAFKA-0"]}, "KAFKA-0"),
        ({"config": {"replica.lag": 1}}, "is no key of ReplicaConfig"),
        ({"lagg": "1s"}, "lagg"),
    ],
)
def test_mistakes_are_named(replication, text):
    """All problems at once, each with its key."""
    with pytest.raises(ScenarioError, match=text):
        scenario_from_dict(given(**replication))


def test_topics_need_brokers_that_replicate():
    """A topic cannot have replicas where nobody replicates."""
    with pytest.raises(ScenarioError, match=r"needs \[brokers.replication\]"):
        scenario_from_dict({"topics": {"t": {"partitions": 1, "min_isr": 2}}})


def test_random_faults_hit_brokers_only_where_they_replicate():
    """Plans of scenarios without replication are what they were."""
    plain = scenario_from_dict({"topics": {"t": {"partitions": 1}}, "groups": {"g": {"topics": ["t"]}}})
    replicated = scenario_from_dict({**given(), "groups": {"g": {"topics": ["t"]}}})
    kinds = {type(entry.action).__name__ for entry in with_random_faults(replicated, 1, 60).plan}

    assert "Split" in kinds
    assert "Split" not in {type(entry.action).__name__ for entry in with_random_faults(plain, 1, 60).plan}


def test_a_replicated_run_replays_without_a_difference(tmp_path):
    """Every actor of it, the store and the controllers too, from what its trace holds."""
    scenario = scenario_from_dict({**given(session="6s"), "duration": "20s", "plan": [CRASH]})
    path = tmp_path / "run.kemu"
    assert run(scenario, seed=2, drive="bare", trace=path).verdict == "holds"

    outcome = replay(read_trace(path))

    assert outcome.difference is None
    assert outcome.steps > 1_000
