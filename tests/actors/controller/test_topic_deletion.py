"""Topic deletion, step by step against a bare store. Source: Kafka's TopicDeletionManagerTest."""

from kemu.actors.controller.phases import PartitionPhase, ReplicaPhase
from kemu.protocol.nodes import delete_path, topic_path
from kemu.protocol.notes.replication import TopicDeleted, TopicDeletionHalted, TopicDeletionQueued
from tests.actors.controller.controller_bench import ControllerBench

STARTED, SUCCESSFUL, INELIGIBLE, OFFLINE = (
    ReplicaPhase.DELETION_STARTED,
    ReplicaPhase.DELETION_SUCCESSFUL,
    ReplicaPhase.DELETION_INELIGIBLE,
    ReplicaPhase.OFFLINE,
)
ON = {broker: [("t", 0, broker), ("t", 1, broker)] for broker in (1, 2, 3)}
"""The replicas of each broker."""


def queued(*live: int) -> ControllerBench:
    """t has two partitions on brokers 1, 2, 3, of which these are live; its deletion was requested and has begun."""
    bench = ControllerBench(1, 2, 3)
    bench.topic("t", (1, 2, 3), (2, 3, 1))
    bench.led(("t", 0), 1, (1, 2, 3))
    bench.led(("t", 1), 2, (2, 3, 1))
    bench.tree.make(delete_path("t"), b"")
    for broker in (1, 2, 3):
        if broker not in live:
            bench.context.remove_brokers([broker])
            bench.do(bench.controller.replicas.move(ON[broker], OFFLINE))
    bench.sent.clear()
    bench.do(bench.controller.deletion.enqueue(["t"]))
    return bench


def phases(bench: ControllerBench) -> dict[int, set[ReplicaPhase]]:
    """Broker -> the states of its replicas."""
    return {broker: {bench.context.replica_phase(each) for each in theirs} for broker, theirs in ON.items()}


def deletes(bench: ControllerBench) -> dict[int, int]:
    """Broker -> number of requests to delete a replica."""
    counts = {broker: sum(row.delete_partition for row in rows.values()) for broker, rows in bench.stops().items()}
    return {broker: count for broker, count in counts.items() if count}


def test_a_topic_goes_when_all_brokers_have_deleted_its_replicas():
    """testBasicDeletion."""
    bench = queued(1, 2, 3)

    assert phases(bench) == {broker: {STARTED} for broker in (1, 2, 3)}
    assert {bench.context.phase(at) for at in bench.context.partitions()} == {PartitionPhase.NON_EXISTENT}
    assert deletes(bench) == {1: 2, 2: 2, 3: 2}
    assert {row.leader for rows in bench.metadata().values() for row in rows.values()} == {-2}

    for broker in (1, 2):
        bench.do(bench.controller.deletion.done(ON[broker]))
    assert topic_path("t") in bench.tree.nodes and list(bench.context.to_be_deleted) == ["t"]
    bench.do(bench.controller.deletion.done(ON[3]))

    assert topic_path("t") not in bench.tree.nodes and delete_path("t") not in bench.tree.nodes
    assert (bench.context.topics, bench.context.to_be_deleted, bench.context.ineligible) == ({}, {}, {})
    assert [note.topic for note in bench.notes(TopicDeleted)] == ["t"]


def test_a_dead_brokers_replicas_are_ineligible_and_are_deleted_when_it_is_back():
    """testDeletionWithBrokerOffline: the others are deleted meanwhile, once."""
    bench = queued(1, 3)

    assert phases(bench) == {1: {STARTED}, 2: {INELIGIBLE}, 3: {STARTED}}
    assert list(bench.context.ineligible) == ["t"]
    assert sorted(deletes(bench)) == [1, 3]

    for broker in (1, 3):
        bench.do(bench.controller.deletion.done(ON[broker]))
    assert phases(bench) == {1: {SUCCESSFUL}, 2: {OFFLINE}, 3: {SUCCESSFUL}}, "ready to be tried again"
    assert topic_path("t") in bench.tree.nodes

    bench.sent.clear()
    bench.context.add_brokers(ControllerBench(2).context.live)
    bench.do(bench.controller.brokers.started([2]))
    assert phases(bench) == {1: {SUCCESSFUL}, 2: {STARTED}, 3: {SUCCESSFUL}}
    assert deletes(bench) == {2: 2}
    bench.do(bench.controller.deletion.done(ON[2]))
    assert topic_path("t") not in bench.tree.nodes


def test_a_broker_that_dies_after_the_deletion_started_holds_it_up():
    """testBrokerFailureAfterDeletionStarted: only its own replicas fail; the topic waits for it."""
    bench = queued(1, 2, 3)

    bench.context.remove_brokers([2])
    bench.do(bench.controller.brokers.died([2]))
    assert phases(bench) == {1: {STARTED}, 2: {INELIGIBLE}, 3: {STARTED}}
    assert list(bench.context.ineligible) == ["t"]

    for broker in (1, 3):
        bench.do(bench.controller.deletion.done(ON[broker]))
    assert topic_path("t") in bench.tree.nodes
    assert phases(bench)[2] == {OFFLINE}

    bench.context.add_brokers(ControllerBench(2).context.live)
    bench.do(bench.controller.brokers.started([2]))
    bench.do(bench.controller.deletion.done(ON[2]))
    assert topic_path("t") not in bench.tree.nodes


def test_a_broker_that_cannot_delete_is_asked_again_when_something_stands_against_it_no_more():
    """onReplicaDeletionFailed: an answer with an error; the topic is ineligible until its broker starts again."""
    bench = queued(1, 2, 3)

    bench.do(bench.controller.deletion.failed(ON[2]))
    for broker in (1, 3):
        bench.do(bench.controller.deletion.done(ON[broker]))
    assert list(bench.context.ineligible) == ["t"]
    assert phases(bench)[2] == {OFFLINE}

    bench.sent.clear()
    bench.do(bench.controller.deletion.resume_for(["t"]))
    assert deletes(bench) == {2: 2}
    bench.do(bench.controller.deletion.done(ON[2]))
    assert topic_path("t") not in bench.tree.nodes


def test_what_a_deletion_waits_for_is_told_once_for_each_reason():
    """Like the log message "Halted deletion of topics": first one failed broker, then another; none if unchanged."""
    bench = queued(1, 3)
    assert [note.topic for note in bench.notes(TopicDeletionQueued)] == ["t"]

    bench.do(bench.controller.deletion.enqueue(["t"]))
    bench.context.remove_brokers([3])
    bench.do(bench.controller.brokers.died([3]))

    assert [note.why for note in bench.notes(TopicDeletionHalted)] == [
        "replicas on b2 cannot be deleted",
        "replicas on b3 cannot be deleted",
    ]
    assert len(bench.notes(TopicDeletionQueued)) == 1


def test_a_reassignment_holds_a_deletion_up_until_its_last_partition_has_arrived():
    """``processTopicDeletion`` as intended: no replica is touched, and the end of the reassignment resumes the
    deletion.
    """
    bench = ControllerBench(1, 2, 3)
    bench.topic("t", (1, 2, 3), (2, 3, 1))
    bench.led(("t", 0), 1, (1, 2, 3))
    bench.led(("t", 1), 2, (2, 3, 1))
    bench.tree.make(delete_path("t"), b"")
    bench.context.reassigning[("t", 0)] = bench.context.reassigning[("t", 1)] = None
    bench.sent.clear()

    bench.do(bench.controller.deletion.enqueue(["t"]))
    del bench.context.reassigning[("t", 0)]
    bench.do(bench.controller.deletion.resume_for(["t"]))
    bench.do(bench.controller.deletion.resume())

    assert [note.why for note in bench.notes(TopicDeletionHalted)] == ["it is being reassigned"]
    assert deletes(bench) == {}
    del bench.context.reassigning[("t", 1)]
    bench.do(bench.controller.deletion.resume_for(["t"]))
    assert deletes(bench) == {1: 2, 2: 2, 3: 2}


def test_a_new_controller_finds_deletions_and_what_they_wait_for():
    """``fetchTopicDeletionsInProgress``: only the request is in the store; offline replicas and moves are read."""
    bench = ControllerBench(1, 3)
    for topic in ("dead", "moves", "free"):
        bench.topic(topic, (1, 2) if topic == "dead" else (1, 3))
        bench.led((topic, 0), 1, bench.context.replicas((topic, 0)))
    bench.context.reassigning[("moves", 0)] = None

    bench.do(bench.controller.deletion.begin(("dead", "moves", "free"), [("dead", 0, 2), ("other", 0, 2)]))

    assert bench.context.ineligible == {
        "dead": "replicas on b2 cannot be deleted",
        "moves": "it is being reassigned",
    }
    assert [note.topic for note in bench.notes(TopicDeletionQueued)] == ["dead", "moves", "free"]
    bench.sent.clear()
    bench.do(bench.controller.replicas.startup())
    bench.do(bench.controller.deletion.resume())
    assert set(bench.context.deletion_started) == {"free"}
