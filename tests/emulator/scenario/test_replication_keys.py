"""The scenario's keys of replication: read, written, refused."""

import pytest

from kemu.emulator.replay import replay
from kemu.emulator.runner import run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.random_faults import with_random_faults
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.profiles import PROFILES

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
        ({"factor": 4}, "must not exceed the number of brokers"),
        ({"factor": 2, "min_isr": 3}, "must not exceed the replication factor"),
        ({"config": {"replica.lag": 1}}, "is no key of ReplicaConfig"),
        ({"lagg": "1s"}, "lagg"),
        ({"controller": {"reassignment.max.concurrent.leader.movements": 0}}, "must be at least 1, not 0"),
    ],
)
def test_mistakes_are_named(replication, text):
    """All problems at once, each with its key."""
    with pytest.raises(ScenarioError, match=text):
        scenario_from_dict(given(**replication))


def test_limits_may_have_the_names_of_kip_435s_text():
    """``reassignment.parallel.*``; together with the table's name the key is set twice."""
    table = {"reassignment.max.concurrent.partition.movements": 2}
    text = {"reassignment.parallel.partition.count": 2}

    assert scenario_from_dict(given(controller=text)) == scenario_from_dict(given(controller=table))
    with pytest.raises(ScenarioError, match="is set twice"):
        scenario_from_dict(given(controller={**table, **text}))
    with pytest.raises(ScenarioError, match="must be at least 1, not 0"):
        scenario_from_dict(given(controller={"reassignment.parallel.leader.movements": 0}))


def test_topics_need_brokers_that_replicate():
    """A topic cannot have replicas where nobody replicates."""
    with pytest.raises(ScenarioError, match=r"needs \[brokers.replication\]"):
        scenario_from_dict({"topics": {"t": {"partitions": 1, "min_isr": 2}}})


def test_random_faults_hit_brokers_only_where_they_replicate():
    """Plans of scenarios without replication are what they were."""
    plain = scenario_from_dict({"topics": {"t": {"partitions": 1}}, "groups": {"g": {"topics": ["t"]}}})
    replicated = scenario_from_dict({**given(), "groups": {"g": {"topics": ["t"]}}})
    kinds = {type(entry.action).__name__ for entry in with_random_faults(replicated, 1, 200).plan}

    assert "Split" in kinds
    assert "Split" not in {type(entry.action).__name__ for entry in with_random_faults(plain, 1, 60).plan}


def test_a_replicated_run_replays_without_a_difference(tmp_path):
    """Every actor of it, the store and the controllers too, from what its trace holds."""
    scenario = scenario_from_dict({**given(session="6s"), "duration": "20s", "plan": [CRASH]})
    path = tmp_path / "run.kemu"
    assert run(scenario, seed=2, loop="bare", trace=path).verdict == "holds"

    outcome = replay(read_trace(path))

    assert outcome.difference is None
    assert outcome.steps > 1_000


def set_on(scenario, *settings):
    """A scenario with settings as the command line gives them."""
    return with_values(scenario, settings)


def test_short_keys_set_replication_for_all_brokers_and_the_topics_that_differ():
    """``kemu run --set``, and the grid of campaigns."""
    spec = set_on(load_scenario("zombie-controller"), "session=3s", "lag=5s", "min_isr=2").brokers.replication
    assert (spec.session_us, spec.lag_us, spec.min_isr) == (3_000_000, 5_000_000, 2)

    by_kafkas_name = ("zookeeper.session.timeout.ms=3000", "replica.lag.time.max.ms=5000", "min.insync.replicas=2")
    assert set_on(load_scenario("zombie-controller"), *by_kafkas_name).brokers.replication == spec

    clean = set_on(load_scenario("unclean-election"), "unclean=false")
    assert not clean.brokers.replication.unclean
    assert clean.topics["orders"].unclean is False


def test_kafkas_keys_of_replicas_and_controllers_are_set_where_they_belong():
    """A key that both have is set for both."""
    spec = set_on(
        load_scenario("replicated-steady"),
        "replica.fetch.max.bytes=2000",
        "auto.leader.rebalance.enable=false",
        "controlled.shutdown.max.retries=1",
    ).brokers.replication
    assert spec.replica_config().replica_fetch_max_bytes == 2_000
    assert not spec.controller_config().auto_leader_rebalance_enable
    assert spec.replica_config().controlled_shutdown_max_retries == 1
    assert spec.controller_config().controlled_shutdown_max_retries == 1


def test_a_full_key_makes_brokers_replicate_and_a_short_one_does_not():
    """What is a preset of groups alone can be run on real brokers."""
    steady = load_scenario("steady-group")
    scenario = set_on(steady, "brokers.replication.factor=3", "brokers.replication.config.replica.fetch.max.bytes=2000")
    assert scenario.brokers.replication.factor == 3
    assert scenario.brokers.replication.replica_config().replica_fetch_max_bytes == 2_000

    with pytest.raises(ScenarioError, match=r"brokers.replication.factor=3 makes them"):
        set_on(steady, "session=3s")


@pytest.mark.parametrize(
    ("table", "key", "instead"),
    [
        ("config", "min.insync.replicas", "min_isr"),
        ("config", "replica.lag.time.max.ms", "lag"),
        ("controller", "zookeeper.session.timeout.ms", "session"),
        ("controller", "unclean.leader.election.enable", "unclean"),
    ],
)
def test_what_has_a_place_of_its_own_is_not_set_elsewhere(table, key, instead):
    """Checkers and reports read it there: two places could contradict each other."""
    with pytest.raises(ScenarioError, match=rf"write {instead} in \[brokers.replication\]"):
        scenario_from_dict(given(**{table: {key: 1}}))


def test_which_releases_balance_leaders_while_partitions_are_reassigned():
    """KAFKA-10149: since 3.4.0."""
    waits = [
        name
        for name, each in PROFILES.items()
        if not ReplicationSpec().controller_rules(each, each).balances_while_reassigning
    ]

    assert waits == [
        "kip-429-v99",
        "kafka-2.3",
        "kafka-2.4",
        "kafka-2.4-unfixed",
        "kafka-2.6",
        "kafka-2.8",
        "kafka-3.0",
    ]


def test_since_3_7_watermarks_stand_while_isrs_are_too_small() -> None:
    """KAFKA-15583: Partition.maybeIncrementLeaderHW 3.7.0, not 3.6.0."""
    newest = PROFILES["kafka-4.3"]
    stands = [
        name for name, each in PROFILES.items() if ReplicationSpec().replica_rules(each, newest).min_isr_holds_watermark
    ]

    assert stands == ["kafka-3.7", "kafka-3.9", "kafka-4.0", "kafka-4.1", "kafka-4.2", "kafka-4.3"]


def test_followers_of_old_releases_wait_twice_for_lost_fetches() -> None:
    """AbstractFetcherThread 3.0.2 and 3.1.2; what a broker does by itself is its release's, not the protocol's."""
    newest = PROFILES["kafka-3.4"]
    twice = [
        name
        for name, each in PROFILES.items()
        if ReplicationSpec().replica_rules(each, newest).waits_twice_for_lost_fetches
    ]

    assert [name for name in twice if name.count(".") and "unfixed" not in name] == [
        "kafka-2.3",
        "kafka-2.4",
        "kafka-2.6",
        "kafka-2.8",
        "kafka-3.0",
    ]


def test_leaders_refuse_unassigned_replicas_since_3_3_and_followers_pass_over_late_answers_since_3_9() -> None:
    """KAFKA-13837 (3.3.0) and KAFKA-18991 (3.9.1, not 4.0.0: read in their class files)."""
    releases = {name: each for name, each in PROFILES.items() if name.startswith("kafka-") and "unfixed" not in name}
    rules = {name: ReplicationSpec().replica_rules(each, each) for name, each in releases.items()}

    assert [name for name in rules if not rules[name].refuses_unassigned] == [
        "kafka-2.3",
        "kafka-2.4",
        "kafka-2.6",
        "kafka-2.8",
        "kafka-3.0",
    ]
    ignores = [name for name in rules if rules[name].checks_fetch_epoch]
    assert ignores == ["kafka-3.9", "kafka-4.0", "kafka-4.1", "kafka-4.2", "kafka-4.3"]
