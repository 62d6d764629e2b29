"""What the control plane cost, from facts written by hand, and over whole runs.

``tests/tools/pipeline/test_replication.py`` holds the same figures against Spark's tables, counted another way.
"""

from typing import Any

import pytest

from kemu.emulator.facts import HostDown, HostPaused, HostResumed, Seen, TopicReplicated
from kemu.emulator.metrics.figures import ControllerTerm, ReplicationFigures
from kemu.emulator.metrics.leading import Leaders
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.watching.panel import Panel
from kemu.protocol.nodes import PartitionState, ReplicaAssignment, state_data, state_path, topic_data, topic_path
from kemu.protocol.notes.replication import (
    BecameController,
    BecameFollower,
    BecameLeader,
    ControllerReady,
    LeaderElectedForPartition,
    NodeWritten,
    ReplicaStopped,
)

MS = 1_000
REPLICAS = (0, 1, 2)


def told(ends_ms: int, *rows: tuple[int, str, Any]) -> ReplicationFigures:
    """The figures of (millisecond, actor, fact)."""
    panel = Panel()
    leading = Leaders(panel)
    for seq, (at_ms, actor, fact) in enumerate(((0, "", TOPIC), (0, "zk", assigned(*REPLICAS)), *rows)):
        seen = Seen(seq, at_ms * MS, actor, 1, fact)
        panel.see(seen)
        leading.on[type(fact)](seen, fact)
    leading.finish(ends_ms * MS)
    figures = leading.figures()
    assert figures is not None
    return figures


TOPIC = TopicReplicated(topic="t", replicas=(REPLICAS,), min_isr=2, unclean=False)


def assigned(*replicas: int, adding: tuple[int, ...] = ()) -> NodeWritten:
    data = topic_data({0: ReplicaAssignment(replicas, adding)})
    return NodeWritten(what="set", path=topic_path("t"), data=data, version=0, zxid=1, client="")


def state(leader: int, epoch: int, *isr: int, what: str = "set") -> NodeWritten:
    data = b"" if what == "deleted" else state_data(PartitionState(leader, epoch, isr, 1))
    return NodeWritten(what=what, path=state_path("t", 0), data=data, version=0, zxid=1, client="b9")


def leads(epoch: int) -> BecameLeader:
    return BecameLeader(topic="t", partition=0, leader_epoch=epoch, isr=(), end_offset=0, high_watermark=0)


BEGIN = ((10, "zk", state(0, 0, *REPLICAS, what="created")), (12, "b0", leads(0)))


def test_a_partition_is_leaderless_from_its_leaders_death_until_the_next_one_takes_office() -> None:
    """Neither the store's word alone nor the time before the first leader counts."""
    figures = told(
        10_000,
        *BEGIN,
        (4_000, "", HostDown(host="b0", life=1, how="power")),
        (6_000, "zk", state(-1, 1, 0)),
        (7_000, "zk", state(1, 2, 1, 2)),
        (7_500, "b1", leads(2)),
    )

    assert figures.leaderless_us == {"t-0": 3_500 * MS}
    assert figures.leader_changes == 2


def test_a_leader_that_stands_still_leads_nobody() -> None:
    """Producers and consumers wait just as for a dead one."""
    figures = told(9_000, *BEGIN, (2_000, "", HostPaused(host="b0")), (3_000, "", HostResumed(host="b0")))

    assert figures.leaderless_us == {"t-0": 1_000 * MS}


def test_a_leader_is_deposed_by_the_store_and_not_when_it_hears_of_it() -> None:
    """What a zombie goes on doing is not service; one that learns late of an office it has lost leads nobody."""
    figures = told(
        9_000,
        *BEGIN,
        (2_000, "zk", state(1, 1, 1, 2)),
        (2_400, "zk", state(2, 2, 1, 2)),
        (2_500, "b1", leads(1)),
        (2_600, "b2", leads(2)),
        (3_000, "b0", BecameFollower(topic="t", partition=0, leader_epoch=1, leader=1, end_offset=0, high_watermark=0)),
    )

    assert figures.leaderless_us == {"t-0": 600 * MS}


def test_a_replica_that_is_stopped_leads_no_more() -> None:
    """StopReplica may come before the store's word is known."""
    stopped = ReplicaStopped(topic="t", partition=0, leader_epoch=0, deleted=False)
    figures = told(5_000, *BEGIN, (2_000, "b0", stopped))

    assert figures.leaderless_us == {"t-0": 3_000 * MS}


def test_the_isr_is_held_against_the_replicas_and_against_what_was_promised() -> None:
    """Three replicas, min.insync.replicas 2; what goes on at the end counts until the end."""
    figures = told(5_000, *BEGIN, (1_000, "zk", state(0, 0, 0, 1)), (2_000, "zk", state(0, 0, 0)))

    assert figures.under_replicated_us == {"t-0": 4_000 * MS}
    assert figures.under_min_isr_us == {"t-0": 3_000 * MS}
    assert (figures.isr_shrinks, figures.isr_expands) == (2, 0)


def test_replicas_that_a_reassignment_is_adding_do_not_count_yet() -> None:
    """KIP-455: during a reassignment the origin is what under-replication is measured against."""
    moved = assigned(0, 1, 2, 3, adding=(3,))
    figures = told(5_000, *BEGIN, (1_000, "zk", moved), (2_000, "zk", state(0, 1, *REPLICAS)))

    assert figures.under_replicated_us == {}


def test_a_topic_that_is_deleted_lacks_nothing_any_more() -> None:
    """And one of the same name begins anew: it is not leaderless before its first leader."""
    figures = told(
        9_000,
        *BEGIN,
        (1_000, "zk", state(0, 0, 0)),
        (2_000, "zk", state(-1, 0, what="deleted")),
        (5_000, "zk", state(1, 0, *REPLICAS, what="created")),
        (5_500, "b1", leads(0)),
    )

    assert figures.under_replicated_us == {"t-0": 1_000 * MS}
    assert figures.leaderless_us == {}
    assert figures.leader_changes == 0


def test_controllers_and_elections_are_listed() -> None:
    """A controller that never was ready has no time for that."""
    election = LeaderElectedForPartition(
        topic="t", partition=0, leader=1, leader_epoch=1, isr=(1,), controller_epoch=2, strategy="offline", unclean=True
    )
    figures = told(
        9_000,
        (5, "b2/controller", BecameController(broker_id=2, controller_epoch=1)),
        (8, "b2/controller", ControllerReady(broker_id=2, controller_epoch=1, brokers=(2,), topics=1, partitions=1)),
        (4_000, "b1/controller", BecameController(broker_id=1, controller_epoch=2)),
        (4_100, "b1/controller", election),
    )

    assert figures.controllers == (
        ControllerTerm(broker=2, controller_epoch=1, from_us=5 * MS, ready_us=8 * MS),
        ControllerTerm(broker=1, controller_epoch=2, from_us=4_000 * MS, ready_us=None),
    )
    assert figures.elections == {"offline, unclean": 1}


def test_where_no_broker_replicates_there_is_nothing_to_tell() -> None:
    """The key is there, empty."""
    result = run(load_scenario("steady-group"), seed=1, loop="bare")

    assert result.figures.replication is None


@pytest.mark.parametrize("seed", [1, 2])
def test_a_crash_costs_its_partitions_the_session_timeout_and_nobody_else_anything(seed: int) -> None:
    """Until the store ends the session (6 s, less the time since its last word) nobody leads what the broker led."""
    result = run(with_values(load_scenario("broker-crash-and-return"), ["draws=calm"]), seed=seed, loop="bare")
    figures = result.figures.replication
    assert figures is not None

    assert len(figures.controllers) == 1
    assert figures.elections["offline"] == len(figures.leaderless_us)
    assert all(4_000 * MS <= spent <= 6_500 * MS for spent in figures.leaderless_us.values())
    assert figures.under_min_isr_us == {}
    assert set(figures.leaderless_us) < set(figures.under_replicated_us)
