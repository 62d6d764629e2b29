"""Figures of reassignments: from facts, and of whole runs on limited machines."""

from kemu.emulator.facts import RecordSizes, Seen, TopicReplicated
from kemu.emulator.metrics.figures import ReassignmentFigures
from kemu.emulator.metrics.metrics import Metrics
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_values
from kemu.emulator.watching.panel import Panel
from kemu.protocol.nodes import PartitionState, ReplicaAssignment, state_data, state_path, topic_data, topic_path
from kemu.protocol.notes.replication import (
    NodeWritten,
    ReassignmentFinished,
    ReassignmentStarted,
    ReassignmentStepCommitted,
    ReassignmentStepStarted,
    RecordsReplicated,
)

S = 1_000_000
FREE = """
name = "free"
duration = "30s"
draws = "calm"
[brokers]
count = 4
[brokers.replication]
factor = 2
[topics.t]
partitions = 2
rate = "50/s"
initial_records = 20000
assignment = ["0 1", "1 0"]
[groups.g]
topics = ["t"]
members = 1
[[plan]]
at = "10s"
do = "reassign-partitions"
topic = "t"
to = ["2", "3"]
"""


def figures_of(*facts: tuple[int, str, object]) -> ReassignmentFigures | None:
    """What the metrics make of facts: (at, who, what)."""
    panel = Panel()
    metrics = Metrics(panel)
    topic = TopicReplicated(topic="t", replicas=((0, 1),), min_isr=1, unclean=False)
    for number, (at_us, actor, fact) in enumerate(((0, "", topic), *facts)):
        seen = Seen(number, at_us, actor, 1, fact)
        panel.see(seen)
        metrics.see(seen)
    metrics.finish(100 * S)
    return metrics.figures().reassignment


def assigned(at_us: int, replicas: tuple[int, ...], adding: tuple[int, ...] = ()) -> tuple[int, str, object]:
    """The store has t-0 on these."""
    data = topic_data({0: ReplicaAssignment(replicas, adding)})
    return (
        at_us,
        "zk",
        NodeWritten(what="set", path=topic_path("t"), data=data, version=1, zxid=1, client="b0/controller"),
    )


def in_sync(at_us: int, isr: tuple[int, ...]) -> tuple[int, str, object]:
    """The store has this ISR of t-0, led by 0."""
    data = state_data(PartitionState(leader=0, leader_epoch=1, controller_epoch=1, isr=isr))
    return at_us, "zk", NodeWritten(what="set", path=state_path("t", 0), data=data, version=1, zxid=1, client="b0")


def step(at_us: int, waits_for: str = "2 is not in sync") -> tuple[int, str, object]:
    """The step 0,1 -> 0,2 is told."""
    fact = ReassignmentStepStarted(
        topic="t", partition=0, kind="last", replicas=(0, 2), adding=(2,), removing=(1,), waits_for=waits_for
    )
    return at_us, "b0/controller", fact


def copied(at_us: int, broker: str, base: int, count: int) -> tuple[int, str, object]:
    """A broker copied records."""
    fact = RecordsReplicated(topic="t", partition=0, base_offset=base, count=count, leader_epoch=1)
    return at_us, broker, fact


def test_bytes_are_moved_until_the_replica_is_in_sync_and_belong_to_their_step():
    """What b1 copies, and b2 once it is in sync, is ordinary replication; a step told again is the same step."""
    started = ReassignmentStarted(topic="t", partition=0, replicas=(0, 1), target=(0, 2), resumed=False)
    again = ReassignmentStarted(topic="t", partition=0, replicas=(0, 1), target=(0, 2), resumed=True)
    committed = ReassignmentStepCommitted(topic="t", partition=0, replicas=(0, 2), leader=0, leader_epoch=3, isr=(0, 2))
    found = figures_of(
        (0, "", RecordSizes(topics=(("t", 100),))),
        assigned(0, (0, 1)),
        in_sync(0, (0, 1)),
        copied(S, "b2", 0, 5),
        (2 * S, "b0/controller", started),
        assigned(2 * S, (0, 2, 1), adding=(2,)),
        step(2 * S),
        copied(3 * S, "b2", 0, 10),
        copied(3 * S + 1, "b2", 10, 10),
        copied(3 * S + 2, "b1", 0, 10),
        (4 * S, "b3/controller", again),
        step(4 * S),
        copied(5 * S, "b2", 20, 5),
        in_sync(6 * S, (0, 1, 2)),
        copied(6 * S, "b2", 25, 50),
        in_sync(7 * S, (0, 2)),
        (7 * S, "b3/controller", committed),
        (7 * S, "b3/controller", ReassignmentFinished(topic="t", partition=0, replicas=(0, 2))),
    )

    assert found is not None
    assert (found.partitions, found.finished, found.unfinished, found.took_us) == (1, 1, 0, 5 * S)
    assert (found.moved_bytes, found.isr_changes, found.most_replicas) == (2_500, 2, 3)
    assert found.peak_extra_bytes_per_s == {"b0": 2_000, "b2": 2_000}
    (row,) = found.steps
    assert (row.number, row.started_us, row.committed_us, row.moved_records) == (1, 2 * S, 7 * S, 25)


def test_a_step_that_is_given_up_has_no_end():
    """Cancelled: the next step is another one, and the first one's bytes stay its own."""
    back = ReassignmentStepStarted(
        topic="t", partition=0, kind="last", replicas=(0, 1), adding=(), removing=(), waits_for=""
    )
    started = ReassignmentStarted(topic="t", partition=0, replicas=(0, 1), target=(0, 2), resumed=False)
    found = figures_of(
        assigned(0, (0, 1)),
        in_sync(0, (0, 1)),
        (S, "b0/controller", started),
        step(S),
        copied(2 * S, "b2", 0, 3),
        (3 * S, "b0/controller", back),
    )

    assert found is not None
    assert [(row.number, row.committed_us, row.moved_bytes) for row in found.steps] == [(1, None, 3_000), (2, None, 0)]
    assert (found.took_us, found.unfinished) == (None, 1)


def went(name: str, *settings: str) -> RunResult:
    """A preset's run, which holds."""
    result = run(with_values(load_scenario(name), settings), seed=3, loop="bare")
    assert result.verdict == "holds", result.reason
    return result


def test_what_is_moved_is_what_the_new_replicas_have_and_takes_its_time_through_the_card():
    """Twelve replicas of 15 MB each, and what was appended meanwhile; three cards of 10 MB/s take them in."""
    moves = went("reassign-limits-lowered").figures.reassignment

    assert moves is not None and moves.took_us is not None
    assert (moves.partitions, moves.unfinished) == (4, 0)
    assert 180_000_000 <= moves.moved_bytes <= 200_000_000 * 1.1
    assert moves.took_us >= moves.moved_bytes / 3 / 10_000_000 * S, "no faster than the cards of those that get it"
    assert sum(row.moved_bytes for row in moves.steps) == moves.moved_bytes
    assert all(row.committed_us is not None for row in moves.steps)


def test_after_the_limit_of_partitions_is_lowered_one_step_begins_at_a_time():
    """KIP-435: the limit affects the next calculation of steps; running steps continue."""
    moves = went("reassign-limits-lowered").figures.reassignment

    assert moves is not None
    lowered_us = 24 * S
    later = [row for row in moves.steps if row.started_us > lowered_us]
    assert len({row.partition for row in later}) == 4, "all partitions have steps left"
    for row in later:
        others = [
            each
            for each in moves.steps
            if each is not row and each.started_us <= row.started_us < (each.committed_us or 0)
        ]
        assert not others, f"{row} begins while {others} run"


def test_without_limited_machines_nothing_waits_for_bytes():
    """The same reassignment on machines without limits is over in a second or two."""
    plain = scenario_from_toml(FREE)
    result = run(plain, seed=3, loop="bare")
    assert result.verdict == "holds", result.reason
    moves = result.figures.reassignment
    assert moves is not None and moves.took_us is not None and moves.took_us < 2 * S
    assert moves.moved_bytes >= 4 * 20_000 * 1_000
    assert result.figures.records.processed >= 2 * 20_000, "what was there before the run is read, too"
