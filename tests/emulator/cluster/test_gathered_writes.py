"""Clusters of 4.0, whose coordinators gather writes: what is lost with a broker, and who may set how long.

Source: ``CoordinatorRuntime.CoordinatorContext`` 4.0.0; the coordinator by itself is in ``test_group_linger.py``.
"""

from itertools import pairwise

import pytest

from kemu.emulator.runner import profile_of, run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.notes.groups import OffsetCommitted
from tests.emulator.cluster.test_group_plans import Played

KEY = "group.coordinator.append.linger.ms"
LINGER_S = 2
CRASH_S, DOWN_S = 20, 4
UPGRADE = "plan = [{ at = '5s', do = 'upgrade-brokers', every = '5s', down = '1s', profile = 'kafka-4.0' }]"


def commits(linger_ms: int, *more: str) -> Scenario:
    """Two members that commit each second, on brokers that gather for so long."""
    lines = [
        "duration = '45s'",
        "topics.orders = { partitions = 4, rate = '20/s' }",
        "groups.g = { topics = ['orders'], members = 2, config.'auto.commit.interval.ms' = 1000 }",
        f"brokers.config.'{KEY}' = {linger_ms}",
        *more,
    ]
    return scenario_from_toml("\n".join(lines), source="commits.toml")


@pytest.mark.parametrize("brokers", ["", "brokers.replication = { factor = 3 }"])
def test_a_batch_that_dies_with_its_broker_was_told_to_nobody_and_its_records_come_again(brokers: str) -> None:
    """currentBatch is in memory alone: its commits are neither answered nor committed, so nothing is lost by them."""
    hosts = ("coordinator of g", "c1", "c2")
    crashes = [f"{{ at = '{CRASH_S}s', do = 'crash', host = '{host}', for = '{DOWN_S}s' }}" for host in hosts]
    plan = f"plan = [{', '.join(crashes)}]"
    gathered = Played(commits(LINGER_S * 1_000, brokers, plan), profile="kafka-4.0").held()
    at_once = Played(commits(0, brokers, plan), profile="kafka-4.0").held()

    assert last_before_crash_s(at_once) > CRASH_S - 1 > last_before_crash_s(gathered)
    assert 0 < at_once.result.figures.reprocessed < gathered.result.figures.reprocessed


def last_before_crash_s(played: Played) -> float:
    """When offsets were committed last before the crash."""
    return max(at_s for at_s in played.times_s(OffsetCommitted) if at_s < CRASH_S)


def test_commits_that_are_gathered_come_together_once_in_each_linger() -> None:
    """maybeAllocateNewBatch: the first record starts the time of its batch."""
    times_s = Played(commits(LINGER_S * 1_000), profile="kafka-4.0").held().times_s(OffsetCommitted)

    together = sorted(set(times_s))
    assert len(together) < len(times_s) / 2
    assert min(after - before for before, after in pairwise(together)) >= LINGER_S


@pytest.mark.parametrize(
    ("profile", "more", "refused"),
    [
        (None, "", "kafka-3.4"),
        ("kafka-3.9", "", "kafka-3.9"),
        ("kafka-3.7", "brokers.overrides.b1.profile = 'kafka-3.9'", "kafka-3.7, kafka-3.9"),
        ("kafka-4.0", "brokers.config.'coordinator.kind' = 'scala'", "kafka-4.0"),
        ("kafka-4.0", "", None),
        ("kafka-3.9", "brokers.config.'coordinator.kind' = 'java'", None),
        ("kafka-3.9", UPGRADE, None),
        ("kafka-3.9", "brokers.overrides.b1.profile = 'kafka-4.0'", None),
    ],
)
def test_the_key_is_refused_where_no_broker_gathers(profile: str | None, more: str, refused: str | None) -> None:
    """GroupCoordinatorConfig of 3.8 and 3.9 has it for a coordinator that is not the default; before, none has."""
    scenario = commits(20, more)
    if refused is None:
        assert run(scenario, seed=1, profile=profile, loop="bare").verdict == "holds"
        return
    with pytest.raises(ScenarioError, match=f"brokers.config.{KEY}: is not known to brokers of {refused}:"):
        run(scenario, seed=1, profile=profile, loop="bare")


@pytest.mark.parametrize(
    ("key", "value", "since"),
    [
        ("group.consumer.regex.refresh.interval.ms", 60_000, "4.1"),
        ("group.consumer.assignment.interval.ms", 2_000, "4.3"),
        ("group.consumer.min.assignment.interval.ms", 500, "4.3"),
        ("group.consumer.max.assignment.interval.ms", 2_000, "4.3"),
    ],
)
def test_a_key_of_a_later_release_is_refused(key: str, value: int, since: str) -> None:
    """GroupCoordinatorConfig 4.0.2 to 4.3.0. A cluster that is upgraded may have the key from the start."""
    scenario = commits(20, f"brokers.config.'{key}' = {value}")
    for release in ("4.0", "4.1", "4.2", "4.3"):
        profile = f"kafka-{release}"
        if release >= since:
            assert profile_of(scenario, profile) == profile
        else:
            text = f"{key}: is not known to brokers of {profile}: kafka-{since} and later have it"
            with pytest.raises(ScenarioError, match=text):
                profile_of(scenario, profile)
