"""What releases of Kafka Streams do by themselves, in whole clusters: each is a profile."""

from collections.abc import Mapping
from typing import Any

import pytest

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.runner import Run, run
from kemu.emulator.scenario.files import scenario_from_dict, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.recorder import MemoryRecorder
from kemu.protocol.assign.base import RebalanceProtocol
from kemu.protocol.config import StreamsConfig
from kemu.protocol.notes.streams import TaskBecame, TasksDecided
from kemu.protocol.profiles import PROFILES
from kemu.protocol.streams.modes import Layout

CHANGELOG = "app-store-changelog"
RELEASES = ("kafka-2.3", "kafka-2.4", "kafka-2.6", "kafka-3.0", "kafka-3.4", "kafka-4.0")


def scaled(*plan: Mapping[str, Any], members: int = 2, seconds: int = 60, **settings: object) -> Scenario:
    """Five tasks with state on two instances; a third one joins at 20 s."""
    data: dict[str, Any] = {
        "name": "scaled",
        "duration": f"{seconds}s",
        "draws": "calm",
        "topics": {"in": {"partitions": 5, "rate": "100/s"}, CHANGELOG: {"partitions": 5, "rate": "0/s"}},
        "groups": {
            "app": {
                "members": members,
                "config": {"session.timeout.ms": 10_000},
                "streams": {
                    "subtopologies": [f"in -> {CHANGELOG}"],
                    "config": {key.replace("_", "."): value for key, value in settings.items()},
                },
            }
        },
        "plan": [{"at": "20s", "do": "add-members", "group": "app"}, *plan],
    }
    return with_values(scenario_from_dict(data), ["emulated.batch.interval.ms=500"])


def facts(scenario: Scenario, profile: str) -> list[tuple[int, Any]]:
    """Everything that was noted, with its time; the run holds."""
    recorder = MemoryRecorder()
    one = Run(scenario, seed=1, profile=profile, recorder=recorder)
    assert one.run_with(run_plain) == ""
    return [(seen.at_us, seen.fact) for seen in recorder.facts()]


def decisions(found: list[tuple[int, Any]], since_s: int, until_s: int = 1_000) -> list[TasksDecided]:
    between = range(since_s * 1_000_000, until_s * 1_000_000)
    return [fact for at_us, fact in found if type(fact) is TasksDecided and at_us in between]


def test_defaults_are_those_of_the_releases() -> None:
    """``StreamsConfig`` of each: KIP-441's keys came with 2.6 and have not changed up to 3.4."""
    defaults = {name: profile.streams for name, profile in PROFILES.items()}

    assert [defaults[name].config.emulated_task_assignor for name in RELEASES] == ["sticky", "sticky", *["ha"] * 4]
    assert defaults["kip-429-v99"].config == StreamsConfig()
    assert defaults["kip-429-v99"].config.emulated_task_assignor == "learner"
    for name in RELEASES:
        config = defaults[name].config
        assert config.num_standby_replicas == 0 and config.commit_interval_ms == 30_000
        assert (config.acceptable_recovery_lag, config.max_warmup_replicas) == (10_000, 2)
        assert config.probing_rebalance_interval_ms == 600_000
    assert defaults["kafka-2.3"].protocols == (RebalanceProtocol.EAGER,)
    assert [defaults[name].process_id_on_disk for name in RELEASES] == [False, False, True, True, True, True]
    dies = [defaults[name].config.emulated_uncaught_exception for name in ("kafka-2.6", "kafka-2.8", "kafka-3.0")]
    assert dies == ["thread-dies", "shutdown-client", "shutdown-client"], "KIP-671"
    assert defaults["kafka-2.6"].layout_of("sticky") is Layout.HIGH_AVAILABILITY
    assert defaults["kafka-2.4"].layout_of("sticky") is Layout.STICKY
    assert defaults["kafka-3.4"].layout_of("learner") is Layout.LEARNER


def test_2_3_stops_every_task_in_a_rebalance_and_2_4_the_one_that_moves() -> None:
    """Eager: all are revoked before JoinGroup. Cooperative (KIP-429 as it shipped): one is, two rebalances."""
    stopped, rebalances = {}, {}
    for profile in ("kafka-2.3", "kafka-2.4"):
        found = facts(scaled(seconds=40), profile)
        stopped[profile] = {
            fact.task
            for at_us, fact in found
            if type(fact) is TaskBecame and at_us > 20_000_000 and fact.role == "active" and fact.state == "SUSPENDED"
        }
        rebalances[profile] = len(decisions(found, 20))

    assert len(stopped["kafka-2.3"]) == 5 and rebalances["kafka-2.3"] == 1
    assert len(stopped["kafka-2.4"]) == 1 and rebalances["kafka-2.4"] == 2


@pytest.mark.parametrize("profile", ["kafka-2.3", "kafka-2.4"])
def test_tasks_stay_where_they_were_when_an_instance_joins_eagerly_or_not(profile: str) -> None:
    """``StickyTaskAssignor``: what was given up to join counts as a previous task; one of five moves."""
    found = facts(scaled(seconds=40), profile)
    before = [fact for fact in decisions(found, 0) if fact not in decisions(found, 20)][-1]
    owners = [
        {task: row.process for row in fact.given for task in row.assigned}
        for fact in (before, decisions(found, 20)[-1])
    ]

    assert sum(owners[0][task] != owner for task, owner in owners[1].items()) == 1


def test_who_comes_back_is_another_process_before_2_6() -> None:
    """KAFKA-10716; the state on its disk counts as standbys, so it gets some of its tasks again."""
    plan = ({"at": "30s", "do": "crash", "host": "c1", "for": "15s"},)
    processes = {}
    for profile in ("kafka-2.4", "kafka-2.6"):
        last = decisions(facts(scaled(*plan, seconds=70), profile), 46)[-1]
        processes[profile] = sorted(int(row.process, 16) for row in last.given if row.assigned)

    assert processes["kafka-2.6"] == [1, 2, 3]
    assert processes["kafka-2.4"] == [2, 3, (1 << 64) + 1]


def test_before_2_6_nothing_is_warmed_up() -> None:
    """The new instance restores while it owns; since KIP-441 it is a standby until it is within the acceptable lag."""
    limits = {"acceptable_recovery_lag": 100, "emulated_restore_us_per_record": 2_000}
    first = {
        profile: decisions(facts(scaled(seconds=45, **limits), profile), 20, 45)
        for profile in ("kafka-2.3", "kafka-3.4")
    }

    assert [len(row.assigned) for row in first["kafka-2.3"][0].given] == [2, 2, 1]
    assert [len(row.assigned) for row in first["kafka-3.4"][-1].given] == [3, 2, 0]
    assert [len(row.standby) for row in first["kafka-3.4"][0].given][2] == 1


@pytest.mark.parametrize("profile", ["kafka-2.3", "kafka-2.6"])
def test_a_scenario_names_its_release(profile: str) -> None:
    """As any profile; what the scenario says of Streams goes first."""
    result = run(scaled(seconds=30, num_standby_replicas=1), seed=2, profile=profile, loop="bare")

    assert (result.profile, result.verdict) == (profile, "holds")
