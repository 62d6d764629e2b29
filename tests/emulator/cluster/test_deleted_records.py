"""Records that an admin deletes, in whole clusters: followers learn it, readers reset, and nothing of it is a loss."""

import attrs
import pytest

from kemu.emulator.facts import Seen
from kemu.emulator.plan.actions import Crash, PartitionsPause, PartitionsResumption, RecordsDeletion
from kemu.emulator.plan.entries import At, Entry
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import AdminAnswered, PositionSet
from kemu.protocol.notes.replication import LogStartMoved
from tests.emulator.engine.toys import Watcher

S = 1_000_000
TOML = """
name = "deletes"
duration = "35s"
draws = "calm"
[brokers]
count = 3
[brokers.config]
"offsets.topic.num.partitions" = 1
[brokers.replication]
session = "6s"
[topics.t]
partitions = 2
rate = "40/s"
[groups.g]
topics = ["t"]
members = 1
"""


def watched(*plan: Entry, reset: str = "earliest") -> tuple[RunResult, list[Seen]]:
    """A run that holds, and its facts."""
    made = scenario_from_toml(f'{TOML}[groups.g.config]\n"auto.offset.reset" = "{reset}"\n')
    watcher = Watcher()
    result = run(attrs.evolve(made, plan=plan), seed=1, loop="bare", observers=(watcher,))
    assert result.verdict == "holds", (result.reason, result.violations[:3])
    assert result.losses == ()
    assert all(fault.fired for fault in result.faults)
    return result, watcher.facts


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_reader_below_what_was_deleted_is_out_of_range_and_resets(reset: str) -> None:
    """At the log's start or its end, as ``auto.offset.reset`` says; what it passes over is no loss."""
    plan = (
        At(12 * S, PartitionsPause(host="c1", partitions=("t-0",))),
        At(20 * S, RecordsDeletion(topic="t", before=-1, partition=0)),
        At(25 * S, PartitionsResumption(host="c1", partitions=("t-0",))),
    )
    result, facts = watched(*plan, reset=reset)

    moved = [seen for seen in facts if type(seen.fact) is LogStartMoved]
    assert sorted((seen.actor, seen.fact.why == "delete-records") for seen in moved) == [
        ("b0", True),
        ("b1", False),
        ("b2", False),
    ]
    (start,) = {seen.fact.start_offset for seen in moved}
    found = [seen.fact for seen in facts if type(seen.fact) is PositionSet and seen.at_us > 20 * S]
    assert [(fact.partition, fact.why) for fact in found] == [(0, "reset")]
    assert found[0].offset == start if reset == "earliest" else found[0].offset > start + 50
    assert result.figures.skipped > 100


def test_an_admin_whose_leader_dies_asks_the_next_one() -> None:
    """``KafkaAdminClient`` looks up the leaders again when one does not answer."""
    plan = (
        At(20 * S, RecordsDeletion(topic="t", before=10)),
        At(20 * S, Crash(host="b0", mode="process", for_us=10 * S)),
    )
    _, facts = watched(*plan)

    (answer,) = [seen for seen in facts if type(seen.fact) is AdminAnswered]
    assert answer.fact.error is ErrorCode.NONE
    assert answer.fact.text == "t-0 starts at 10, t-1 starts at 10"
    assert answer.at_us > 24 * S, "nobody leads before the session of the dead one has ended"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('topic = "t"', r"plan\[0\].before: is missing"),
        ('topic = "t"\nbefore = -2', r"plan\[0\].before: must be at least -1"),
        ('topic = "t"\nbefore = 1\npartition = 2', "t has no partition 2, it has 2"),
        ('topic = "u"\nbefore = 1', '"u" is no topic'),
        ('topic = "__consumer_offsets"\nbefore = 1', "is no topic"),
    ],
)
def test_what_is_wrong_with_it_is_told_with_its_key(entry: str, why: str) -> None:
    """One clear error."""
    with pytest.raises(ScenarioError, match=why):
        scenario_from_toml(f'{TOML}[[plan]]\nat = "20s"\ndo = "delete-records"\n{entry}\n')
