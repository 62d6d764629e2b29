"""Leader epochs where brokers do not replicate: those that Kafka's controller would give.

Sources: ``KafkaController.onBrokerFailure`` (a dead leader is written off: an epoch), ``onBrokerStartup`` (it is
elected again: another), ``PartitionStateMachine.initializePartitionState`` (a controller that finds itself as leader in
the store goes on as that); since 4.0 ``ReplicationControlManager.handleBrokerShutdown``, ``handleBrokerUnfenced``;
KIP-320 (clients are told of epochs, and ask where theirs ends).
"""

from typing import Any

import pytest

from kemu.emulator.findings import LOST_TAIL, READ_PAST
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.notes.groups import TRUNCATED, GroupLoaded, PartitionHosted, PositionSet
from tests.emulator.engine.toys import Watcher

BROKERS = """
duration = "60s"
draws = "calm"
brokers.count = {count}

[topics.orders]
partitions = {count}
rate = "4/s"
"""
B0_FAILS = '[[plan]]\nat = "20s"\ndo = "crash"\nhost = "b0"\nfor = "{}"\n'
B1_FAILS = '[[plan]]\nat = "20s"\ndo = "crash"\nhost = "b1"\nfor = "{}"\n'
B0_IS_CLOSED = (
    '[[plan]]\nat = "20s"\ndo = "close-host"\nhost = "b0"\n[[plan]]\nat = "25s"\ndo = "start-host"\nhost = "b0"\n'
)


def _facts(scenario: Scenario, kind: type, seed: int = 1) -> tuple[RunResult, list[Any]]:
    watcher = Watcher()
    result = run(scenario, seed=seed, loop="bare", observers=(watcher,))
    return result, [seen.fact for seen in watcher.facts if type(seen.fact) is kind]


@pytest.mark.parametrize(
    ("count", "plan", "epochs"),
    [
        pytest.param(1, B0_FAILS.format("15s"), {0: [0, 0]}, id="alone: nobody wrote it off"),
        pytest.param(1, B0_IS_CLOSED, {0: [0, 0]}, id="alone and closed"),
        pytest.param(2, B0_FAILS.format("15s"), {0: [0, 2], 1: [0]}, id="missed by another, then elected"),
        pytest.param(
            2, B0_FAILS.format("2s"), {0: [0, 2], 1: [0]}, id="back before it was missed: another broker epoch"
        ),
        pytest.param(2, B0_IS_CLOSED, {0: [0, 2], 1: [0]}, id="closed"),
        pytest.param(
            2,
            B0_FAILS.format("20s") + B1_FAILS.format("15s"),
            {0: [0, 2], 1: [0, 0]},
            id="both at once: the first one back controls, and writes off the other",
        ),
        pytest.param(
            2,
            B0_FAILS.format("20s") + B1_FAILS.format("15s").replace("20s", "30s"),
            {0: [0, 2], 1: [0, 2]},
            id="the other dies once it has written it off: that stays written, and the first one back writes it off",
        ),
    ],
)
def test_an_epoch_ends_when_a_living_broker_writes_the_leader_off_and_another_begins_when_it_is_elected(
    count, plan, epochs
):
    """A broker that was alone is the controller: it finds in the store that it leads."""
    _, hosted = _facts(scenario_from_toml(BROKERS.format(count=count) + plan), PartitionHosted)
    found: dict[int, list[int]] = {}
    for fact in hosted:
        found.setdefault(fact.partition, []).append(fact.leader_epoch)

    assert found == epochs


@pytest.mark.parametrize("plan", [B0_FAILS.format("15s"), B0_FAILS.format("2s"), B0_IS_CLOSED])
def test_since_4_0_the_controller_writes_a_lone_broker_off_and_elects_it_again(plan):
    """The controller is another process, or replays that the broker led in its former incarnation."""
    _, hosted = _facts(scenario_from_toml('profile = "kafka-4.0"' + BROKERS.format(count=1) + plan), PartitionHosted)

    assert [fact.leader_epoch for fact in hosted] == [0, 2]


@pytest.mark.parametrize(
    ("profile", "count", "told"), [("kafka-3.4", 1, False), ("kafka-3.4", 3, True), ("kafka-4.0", 1, True)]
)
def test_members_learn_that_a_log_lost_its_end_wherever_its_leader_has_another_epoch(profile, count, told):
    """KIP-320. A lone broker before 4.0 leads in its old epoch again: members go on behind records that came after the
    cut.
    """
    lost: set[str] = set()
    truncated = 0
    for seed in (1, 3, 8, 10):
        values = (f"brokers.count={count}", "draws=life", "duration=70s", "topics.orders.rate=30/s")
        scenario = with_values(load_scenario("disk-tail-lost"), (f"profile={profile}", *values))
        result, positions = _facts(scenario, PositionSet, seed)
        assert result.verdict == "holds", seed
        lost |= {loss.why for loss in result.losses}
        truncated += sum(fact.why == TRUNCATED for fact in positions)

    assert LOST_TAIL in lost
    assert (READ_PAST in lost) != told
    assert truncated > 0 or not told


def test_what_was_moved_before_its_leaders_death_was_noticed_is_taken_over_once_when_the_next_one_dies() -> None:
    """Each death elects one leader (onBrokerFailure): no broker is told to resign what it takes up just then."""
    plan = [
        ("20s", "kill-coordinator", 'for = "15s"'),
        ("22s", "move-coordinator", ""),
        ("36s", "kill-coordinator", 'for = "30s"'),
    ]
    lines = [f'[[plan]]\nat = "{at}"\ndo = "{do}"\ngroup = "g"\n{rest}\n' for at, do, rest in plan]
    group = '[groups.g]\nmembers = 2\ntopics = ["orders"]\n'
    scenario = scenario_from_toml(BROKERS.format(count=2) + group + "".join(lines))

    result, loaded = _facts(scenario, GroupLoaded)

    assert result.verdict == "holds"
    assert [fact.group for fact in loaded] == ["g", "g"], "by who it is moved to, and by who takes it over"
