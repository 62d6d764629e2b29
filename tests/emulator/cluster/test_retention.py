"""Whole clusters whose logs begin above 0: readers and followers that come too late, restarts."""

from typing import Any

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.protocol.notes.groups import PositionSet
from kemu.protocol.notes.replication import LogStartMoved, ReplicaRestored
from tests.emulator.cluster.test_replicated import Kept

SCENARIO = """
name = "retention"
duration = "75s"
draws = "calm"
[topics.t]
partitions = 1
rate = "40/s"
retention = "8s"
segment_bytes = 20000
[groups.g]
topics = ["t"]
members = 1
config = { "auto.offset.reset" = "RESET", "session.timeout.ms" = 10000 }
[brokers]
count = 3
config = { "log.retention.check.interval.ms" = 3000 }
[brokers.replication]
factor = 3
session = "6s"
lag = "6s"
[[plan]]
at = "10s"
do = "pause"
host = "c1"
for = "40s"
[[plan]]
at = "8s"
do = "crash"
host = "b2"
for = "35s"
"""


def went(text: str, *kinds: type) -> Kept:
    """A run that holds; the facts of these types."""
    kept = Kept(*kinds)
    result = run(scenario_from_toml(text), seed=3, loop="bare", observers=(kept,))
    assert result.verdict == "holds", (result.broke, result.violations[:3])
    assert result.figures.lost == 0
    return kept


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("replicated", [True, False])
def test_a_reader_that_comes_too_late_resets_and_no_record_counts_as_lost(reset: str, replicated: bool):
    """Fetch answers OFFSET_OUT_OF_RANGE below the log's start; auto.offset.reset says where the member goes on."""
    text = SCENARIO.replace("RESET", reset)
    if not replicated:
        text = text[: text.index("[brokers.replication]")] + text[text.index("[[plan]]") :]
    kept = went(text, PositionSet, LogStartMoved)

    resets = [seen for seen in kept.of(PositionSet) if seen.fact.why == "reset"]
    moved = [seen for seen in kept.of(LogStartMoved) if seen.at_us <= resets[-1].at_us]
    assert len(resets) >= 2, "at the start of the group, and after the pause"
    starts = max(seen.fact.start_offset for seen in moved)
    assert starts > 0
    assert resets[-1].fact.offset == starts if reset == "earliest" else resets[-1].fact.offset > starts


def test_a_broker_that_was_away_too_long_begins_its_log_where_the_leader_does():
    """truncateFullyAndStartAt: the follower's whole log is older than what the leader still has; a restart keeps it."""
    text = (
        SCENARIO.replace("RESET", "earliest")
        + '[[plan]]\nat = "60s"\ndo = "crash"\nmode = "process"\nhost = "b2"\nfor = "5s"\n'
    )
    kept = went(text, LogStartMoved, ReplicaRestored)

    emptied = [seen for seen in kept.of(LogStartMoved) if seen.fact.start_offset == seen.fact.end_offset]
    assert [(seen.actor, seen.fact.why) for seen in emptied] == [("b2", "leader")]
    restored: list[Any] = [seen.fact for seen in kept.of(ReplicaRestored) if seen.fact.topic == "t"]
    assert restored[-1].epochs[0][1] >= emptied[0].fact.start_offset
