"""Who is in sync, handing over, idempotence, watermarks at a restart: what holds is not reported, each break is."""

from typing import Any

import pytest

from kemu.emulator.checkers.base import Checker
from kemu.emulator.checkers.idempotence import Idempotence
from kemu.emulator.checkers.isr import Isr
from kemu.emulator.checkers.replication_duties import ReplicationDuties
from kemu.emulator.facts import TopicReplicated
from kemu.emulator.judging import judge
from kemu.protocol.errors import ErrorCode
from kemu.protocol.nodes import ReplicaAssignment, topic_data, topic_path
from kemu.protocol.notes.groups import PartitionHosted, RecordsAppended
from kemu.protocol.notes.replication import ControlledShutdownAnswered, ReplicaRestored, ReplicaStopped
from tests.emulator.checkers.cluster_story import BROKERS, TOPIC, ClusterStory

SECOND = 1_000_000


def begun(min_isr: int = 2) -> ClusterStory:
    """b0 leads in epoch 0, all are in sync, ten records are committed."""
    story = ClusterStory()
    story.world(TopicReplicated(topic=TOPIC, replicas=(BROKERS,), min_isr=min_isr, unclean=False))
    story.produce(acks=-1)
    story.elect(0, (0, 1, 2))
    story.commit(0, 10, 1, 2)
    story.acknowledge(0, 10)
    return story


def found(story: ClusterStory, *checkers: Checker) -> list[str]:
    """The kinds of violations, in order."""
    given = checkers or (Isr(), Idempotence())
    return [each.kind for each in judge(story.facts, ended_us=story.at_us, checkers=given).violations]


# --- min.insync.replicas -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("acks", "kinds"), [(-1, ["acknowledged-by-too-few"]), (1, [])])
def test_an_acknowledgement_of_what_was_appended_with_too_few_in_sync_is_caught(acks: int, kinds: list[str]) -> None:
    """NOT_ENOUGH_REPLICAS is for acks=all only."""
    story = begun()
    story.produce(acks=acks)
    story.write_state(0, (0,), epoch=0, client="b0")
    story.take_isr(0, (0,))
    story.append(0, 10, 1)
    story.acknowledge(10, 1)

    assert found(story) == kinds


def test_what_was_appended_before_the_isr_shrank_may_be_acknowledged_later() -> None:
    """The producer asked again once there were enough."""
    story = begun()
    story.append(0, 10, 1)
    story.write_state(0, (0,), epoch=0, client="b0")
    story.take_isr(0, (0,))
    story.acknowledge(10, 1)

    assert found(story) == []


# --- who closes ----------------------------------------------------------------------------------------------------


def closes(story: ClusterStory, broker: int, remaining: int = 0) -> None:
    story.by(story.controller, ControlledShutdownAnswered(broker_id=broker, error=ErrorCode.NONE, remaining=remaining))


@pytest.mark.parametrize(("starts", "kinds"), [(False, ["joined-while-closing"]), (True, [])])
def test_a_broker_that_closes_does_not_join_an_isr_before_it_starts_again(starts: bool, kinds: list[str]) -> None:
    """ReplicaManager.makeFollowers: no fetcher is added while shutdown is under way."""
    story = begun()
    story.elect(1, (1, 2), end=10, watermark=10)
    story.follow(0, 10)
    closes(story, 0)
    if starts:
        story.down("b0", "closed")
        story.start("b0")
    story.propose(1, (1, 2, 0), counted=(1, 2, 0))

    assert found(story) == kinds


def test_a_follower_that_closes_may_join_with_a_fetch_from_before_it_stops_its_replica() -> None:
    """The controller's answer and its StopReplica are two messages (KafkaController.doControlledShutdown)."""
    story = begun()
    story.write_state(0, (0, 1))
    story.lead(0, 10, 10)
    closes(story, 2)
    story.propose(0, (0, 1, 2), counted=(0, 1, 2))
    story.stop(2, 1)

    assert found(story) == []


@pytest.mark.parametrize(
    ("moved", "isr", "kinds"), [(False, (0, 1), ["leadership-kept"]), (True, (0, 1), []), (False, (0,), [])]
)
def test_a_broker_does_not_close_as_a_leader_if_somebody_else_could_lead(
    moved: bool, isr: tuple[int, ...], kinds: list[str]
) -> None:
    """KafkaController.doControlledShutdown; alone in the ISR it has nobody to hand over to."""
    story = begun()
    story.write_state(0, isr)
    closes(story, 0, remaining=1)
    story.wait(5)
    if moved:
        story.elect(1, (1,), end=10)
    closes(story, 0, remaining=int(not moved))
    story.down("b0", "closed")

    assert found(story) == kinds


# --- shrunk without need -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("end", "kinds"), [(None, ["shrunk-in-sync"]), (10, ["shrunk-in-sync"]), (4, [])])
def test_a_member_that_has_everything_stays_in_the_isr(end: int | None, kinds: list[str]) -> None:
    """KAFKA-7152: the high watermark is at the log's end, so the leader knows. A follower may lose its log since."""
    story = begun()
    if end is not None:
        story.follow(2, end)
    story.propose(0, (0, 1), counted=(0, 1, 2))

    assert found(story) == kinds


def test_a_member_that_may_lack_a_record_leaves_and_one_joins_as_ever() -> None:
    story = begun()
    story.append(0, 10, 1)
    story.propose(0, (0, 1), counted=(0, 1, 2))
    story.propose(0, (0, 1, 2), counted=(0, 1, 2))

    assert found(story) == []


# --- idempotence ---------------------------------------------------------------------------------------------------


def batch(base: int, sequence: int, **other: Any) -> RecordsAppended:
    given = {"producer_id": 7, "producer_epoch": 0, "sequence": sequence, **other}
    return RecordsAppended(topic=TOPIC, partition=0, base_offset=base, count=2, **given)


def test_a_batch_that_is_in_the_log_is_not_appended_again() -> None:
    """KIP-98."""
    story = begun()
    story.by("b0", batch(10, 0), batch(12, 2), batch(14, 0))

    assert found(story) == ["appended-twice"]


@pytest.mark.parametrize(
    "again", [{"sequence": 4}, {"producer_epoch": 1}, {"producer_id": 8}, {"producer_id": -1, "sequence": -1}]
)
def test_another_batch_is_another_batch(again: dict[str, int]) -> None:
    """By sequence, epoch, producer; one without idempotence has no identity."""
    story = begun()
    story.by("b0", batch(10, 0), batch(12, **{"sequence": 0, **again}))

    assert found(story) == []


def test_what_was_lost_with_a_leader_is_appended_again() -> None:
    """The next leader's log ended before it; one that ended behind it has it."""
    for end, kinds in ((10, []), (12, ["appended-twice"])):
        story = begun()
        story.by("b0", batch(10, 0))
        if end > 10:
            story.copy(1, 10, 2)
        story.elect(1, (1, 2), end=end)
        story.by("b1", batch(end, 0))
        assert found(story) == kinds


@pytest.mark.parametrize(
    ("broker", "sequence", "kinds"),
    [(1, 4, []), (1, 6, []), (1, 8, ["appended-twice"]), (0, 4, ["appended-twice"])],
)
def test_a_follower_that_kept_what_its_leader_lost_has_not_what_came_in_its_place(
    broker: int, sequence: int, kinds: list[str]
) -> None:
    """b0 lost two batches and leads on in its epoch; b1, which leads next, has those, and of the others the last."""
    story = begun()
    story.by("b0", batch(10, 0), batch(12, 2))
    story.copy(1, 10, 4)
    story.lose_unflushed(0, 4, 10)
    story.restore(0, 10)
    story.lead(0, 10)
    story.by("b0", batch(10, 4), batch(12, 6), batch(14, 8))
    story.copy(1, 14, 2)
    if broker:
        story.elect(1, (1, 2), end=16)
    story.by(f"b{broker}", batch(16, sequence))

    assert found(story) == kinds


def test_a_partition_of_one_broker_is_cut_where_its_disk_was() -> None:
    """A power cut took the batch; the producer's retry brings it back."""
    story = ClusterStory()
    story.by("b0", batch(0, 0))
    story.by("b0", PartitionHosted(topic=TOPIC, partition=0, end_offset=0))
    story.by("b0", batch(0, 0))

    assert found(story) == []


# --- restarts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("watermark", "kinds"), [(10, []), (12, ["watermark-at-start"])])
def test_a_restarted_broker_takes_no_more_for_committed_than_was(watermark: int, kinds: list[str]) -> None:
    """The checkpoint of high watermarks may be behind and is never ahead."""
    story = begun()
    story.append(0, 10, 2)
    story.down("b0", "process")
    story.start("b0")
    story.by(
        "b0",
        ReplicaRestored(topic=TOPIC, partition=0, end_offset=12, high_watermark=watermark, epochs=((0, 0),)),
    )

    assert found(story, Isr()) == kinds


@pytest.mark.parametrize(
    ("ends", "is_stray"),
    [
        (("power",), False),
        (("process",), True),
        (("closed",), True),
        (("power", "power"), True),
        (("process", "power"), True),
        (("process", "tail"), False),
        (("tail", "process"), True),
    ],
)
def test_a_log_that_was_deleted_comes_back_only_from_a_disk_that_may_have_forgotten(
    ends: tuple[str, ...], is_stray: bool
) -> None:
    """A deletion is on its way to the disk until power is cut in that life; afterwards only its journal's end goes."""
    story = begun()
    story.node(topic_path(TOPIC), topic_data({0: ReplicaAssignment((0, 1))}), what="set")
    story.elect(0, (0, 1), 10, 10)
    story.by("b2", ReplicaStopped(topic=TOPIC, partition=0, leader_epoch=1, deleted=True))
    for number, end in enumerate(ends):
        if number:
            story.start("b2")
        if end == "tail":
            story.lose_tail(2, 1, 10)
        else:
            story.down("b2", end)
    story.restore(2, 10, (0, 0))
    story.heal()
    story.wait(60)

    assert ("replica-kept" in found(story, ReplicationDuties())) is is_stray
