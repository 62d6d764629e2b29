"""Notes of brokers and members for the checkers of replication, and the cases without a note."""

import attrs
import msgpack
import pytest

from kemu.actors.broker.rules import TODAY, ReplicaRules
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    LEADER_DURING_DELETE,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataPartition,
)
from kemu.protocol.messages.data import FetchedPartition, FetchReply, RecordBatch
from kemu.protocol.notes.groups import EpochRead, Processed
from kemu.protocol.notes.replication import ControlRequestTaken, IsrChanged, IsrProposed, MetadataCached
from kemu.protocol.wire.values import from_row, to_row
from tests.actors.broker.replica_world import TOPIC, Bench
from tests.actors.consumer.consumer_harness import Harness

S = 1_000_000


def noted(bench: Bench, kind: type, name: str) -> list:
    return [fact for actor, fact in bench.notes if isinstance(fact, kind) and actor == name]


# --- whom a leader counts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rules", "counted"), [(TODAY, (0, 1, 2)), (attrs.evolve(TODAY, maximal_isr=False), (0, 1))])
def test_a_leader_says_whom_it_counts_while_a_change_is_undecided(rules: ReplicaRules, counted: tuple[int, ...]):
    """KAFKA-8836: replicas that the pending change adds count, too."""
    bench = Bench(rules=rules)
    bench.elect(0, (0, 1))
    bench.auto_store = False
    bench.settle(2 * S)

    (proposed,) = noted(bench, IsrProposed, "b0")
    assert (proposed.leader_epoch, proposed.isr, proposed.counted) == (0, (0, 1, 2), counted)
    assert noted(bench, IsrChanged, "b0") == []


# --- control requests --------------------------------------------------------------------------------------------


def test_a_broker_says_when_the_epochs_it_obeys_change():
    """Many requests of one controller lead to one note."""
    bench = Bench()
    bench.notes.clear()
    bench.elect(0, (0, 1, 2))
    bench.tell_brokers()
    bench.elect(1, (0, 1, 2))
    assert noted(bench, ControlRequestTaken, "b2") == []

    bench.tell_brokers(controller_epoch=2)
    bench.tell_brokers(controller_epoch=2)
    bench.tell_brokers(controller_epoch=1)  # refused

    assert noted(bench, ControlRequestTaken, "b2") == [
        ControlRequestTaken(api="UpdateMetadata", controller_epoch=2, broker_epoch=-1)
    ]


def test_a_broker_that_obeys_a_deposed_controller_says_so():
    """KAFKA-1188."""
    bench = Bench(rules=attrs.evolve(TODAY, checks_controller_epoch=False))
    bench.tell_brokers(controller_epoch=2)
    bench.notes.clear()
    bench.tell_brokers(controller_epoch=1)

    assert [fact.controller_epoch for fact in noted(bench, ControlRequestTaken, "b2")] == [1]


# --- metadata caches ---------------------------------------------------------------------------------------------


def row(number: int, leader: int = 0, epoch: int = 4) -> UpdateMetadataPartition:
    return UpdateMetadataPartition(
        topic_name=TOPIC,
        partition_index=number,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=(0, 1),
        zk_version=7,
        replicas=(0, 1, 2),
        offline_replicas=(),
    )


def test_a_broker_says_what_its_cache_has_of_the_partitions_it_was_told_of():
    """Of no other partition; a deleted partition is in ``gone``."""
    bench = Bench()

    def told(*rows: UpdateMetadataPartition) -> MetadataCached:
        live = tuple(UpdateMetadataBroker(id=number, host=f"b{number}") for number in (0, 1))
        request = UpdateMetadata(controller_id=9, controller_epoch=1, partition_states=rows, live_brokers=live)
        bench.ask("b2", request, 7)
        fact: MetadataCached = noted(bench, MetadataCached, "b2")[-1]
        return fact

    def cached(fact: MetadataCached) -> list[tuple]:
        return [
            (topic.topic, each.partition, each.leader, each.leader_epoch, each.isr, each.replicas)
            for topic in fact.topics
            for each in topic.partitions
        ]

    first = told(row(0), row(1, leader=1))
    assert first.live_brokers == (0, 1)
    assert cached(first) == [(TOPIC, 0, 0, 4, (0, 1), (0, 1, 2)), (TOPIC, 1, 1, 4, (0, 1), (0, 1, 2))]
    assert cached(told(row(1, leader=-1, epoch=5))) == [(TOPIC, 1, -1, 5, (0, 1), (0, 1, 2))]
    deleted = told(row(0, leader=LEADER_DURING_DELETE))
    assert (cached(deleted), deleted.gone) == ([], ((TOPIC, 0),))
    assert cached(told()) == []
    recorded = msgpack.unpackb(msgpack.packb(to_row(first)), use_list=False)
    assert from_row(recorded) == first, "a trace tells what the run told"


# --- readers -----------------------------------------------------------------------------------------------------


def epochs_read(*answers: tuple[tuple[int, int, int], ...]) -> list[tuple[int, int]]:
    """A member's notes for these batches (base, count, epoch), one answer after the other."""
    harness = Harness({"t": 1}).stable()
    harness.hold("Fetch")
    harness.run(S)  # the Fetch that waits at the broker is answered; the next one is held

    def answer(batches: tuple[tuple[int, int, int], ...]) -> FetchReply:
        rows = tuple(
            RecordBatch(base_offset=base, count=count, append_time_ms=0, leader_epoch=epoch)
            for base, count, epoch in batches
        )
        row = FetchedPartition(topic="t", partition=0, error=ErrorCode.NONE, batches=rows)
        return FetchReply(partitions=(row,))

    base, count, _ = answers[-1][-1]
    harness.cluster.ends["t", 0] = base + count
    harness.answer_next("Fetch", *[lambda request, batches=batches: answer(batches) for batches in answers])
    harness.release("Fetch")
    harness.run(3 * S)
    assert [fact.last for fact in harness.facts(Processed)][-1] == base + count
    return [(fact.offset, fact.leader_epoch) for fact in harness.facts(EpochRead)]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([((0, 5, 0), (5, 5, 0)), ((10, 5, 0),)], [(0, 0)]),
        ([((0, 5, 3), (5, 5, 3)), ((10, 5, 3),)], [(0, 3)]),
        ([((0, 5, 0), (5, 5, 2)), ((10, 5, 2),)], [(0, 0), (5, 2)]),
        ([((0, 5, 0), (5, 5, 2), (10, 1, 4)), ((11, 5, 5),)], [(0, 0), (5, 2), (10, 4), (11, 5)]),
        ([((0, 5, -1), (5, 5, -1))], [(0, -1)]),  # Fetch before version 12
    ],
)
def test_a_member_says_where_the_epoch_of_what_it_reads_changes(answers, said):
    assert epochs_read(*answers) == said


def test_a_batch_that_begins_before_the_position_counts_from_there():
    assert epochs_read(((0, 5, 0),), ((3, 4, 1), (7, 1, 1))) == [(0, 0), (5, 1)]
