"""Whole clusters with short segments of ``__consumer_offsets``: later coordinators load cleaned logs."""

import attrs
import pytest

from kemu.emulator.facts import Seen
from kemu.emulator.plan.actions import Crash, KillCoordinator
from kemu.emulator.plan.entries import At, Entry
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.protocol.notes.groups import GroupLoaded, OffsetCommitted
from kemu.protocol.notes.replication import LogCleaned
from tests.emulator.engine.toys import Watcher

S = 1_000_000
TOML = """
name = "cleans"
duration = "80s"
draws = "calm"
[brokers]
count = 3
[brokers.config]
"offsets.topic.num.partitions" = 1
"offsets.topic.segment.bytes" = 2000
%s
[topics.t]
partitions = 2
rate = "40/s"
[groups.g]
topics = ["t"]
members = 2
config = {"auto.commit.interval.ms" = 200}
"""
REPLICATED = '[brokers.replication]\nsession = "6s"'


def watched(replication: str, *plan: Entry) -> tuple[RunResult, list[Seen]]:
    """A run that holds, and its facts."""
    watcher = Watcher()
    scenario = attrs.evolve(scenario_from_toml(TOML % replication), plan=plan)
    result = run(scenario, seed=1, loop="bare", observers=(watcher,))
    assert result.verdict == "holds", (result.reason, result.violations[:3])
    assert result.losses == ()
    assert all(fault.fired for fault in result.faults)
    return result, watcher.facts


def loaded(facts: list[Seen]) -> list[tuple[int, GroupLoaded, int]]:
    """(time, loaded group, number of commits before)."""
    found, commits = [], 0
    for seen in facts:
        commits += type(seen.fact) is OffsetCommitted
        if type(seen.fact) is GroupLoaded:
            found.append((seen.at_us, seen.fact, commits))
    return found


@pytest.mark.parametrize("replication", ["", REPLICATED])
def test_the_next_coordinator_loads_a_cleaned_log(replication: str) -> None:
    """No member starts below its committed offset (checkers ``commits``, ``fields``, ``no-lost-record``)."""
    plan = (At("30s", KillCoordinator(group="g", for_us=5 * S)), At("55s", KillCoordinator(group="g", for_us=5 * S)))
    _, facts = watched(replication, *plan)

    loads = loaded(facts)
    assert len(loads) >= 2, loads
    assert all(commits > 200 for _, _, commits in loads), "the log was cleaned before"
    cleaned = {seen.actor for seen in facts if type(seen.fact) is LogCleaned and seen.at_us < 30 * S}
    assert cleaned == ({"b0", "b1", "b2"} if replication else set()), "every broker cleans its own log"


def test_a_broker_restarts_with_its_cleaned_log() -> None:
    """The journal on the disk is short, and the broker leads the groups' log again later."""
    plan = (
        At("25s", Crash(host="b0", for_us=4 * S)),
        At("45s", KillCoordinator(group="g", for_us=10 * S)),
        At("60s", KillCoordinator(group="g", for_us=10 * S)),
    )
    _, facts = watched(REPLICATED, *plan)

    assert len({seen.actor for seen in facts if type(seen.fact) is GroupLoaded}) >= 2
    assert [seen for seen in facts if type(seen.fact) is LogCleaned and seen.at_us > 70 * S]
