"""Partitions without a leader, because their controller lost the answer to the creation of their state."""

import pytest

from kemu.emulator.checkers.duty import ORDER_US
from kemu.emulator.checkers.liveness import DEFAULT_BOUND_US, Liveness
from kemu.emulator.checkers.reassignment import ReassignmentChecker
from kemu.emulator.checkers.replication_duties import ReplicationDuties
from kemu.emulator.facts import MemberHostAdded
from kemu.emulator.watching.control_plane import START_US
from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.nodes import (
    PartitionState,
    ReplicaAssignment,
    broker_path,
    state_data,
    state_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes.groups import GroupBecame
from kemu.protocol.notes.replication import (
    BecameController,
    HighWatermarkAdvanced,
    LeaderElectedForPartition,
    StateChangeRefused,
)
from tests.emulator.checkers.cluster_story import BROKERS, READER, SECOND, STORE, TOPIC, ClusterStory, time_passes

BOUND_S = (START_US + ORDER_US) / SECOND + 1


def created(topic: str = TOPIC) -> ClusterStory:
    """The controller b0 creates the partition's state: b0 leads."""
    story = ClusterStory(topic=topic)
    story.start(STORE)
    story.cache(*BROKERS, gone=True)
    story.epoch, story.leader, story.isr = 0, 0, BROKERS
    state = PartitionState(0, 0, BROKERS, story.controller_epoch)
    story.node(state_path(topic, 0), state_data(state))
    return story


def refuse(story: ClusterStory, *, actor: str = "", at: str = "", why: str = "NODE_EXISTS") -> None:
    text = f"its state could not be created: {why}"
    fact = StateChangeRefused(what=at or f"{story.topic}-0", old="NewPartition", new="OnlinePartition", why=text)
    story.by(actor or story.controller, fact)


def found(story: ClusterStory) -> list[str]:
    time_passes(story, BOUND_S)
    story.heal()
    time_passes(story, 1)
    checker = ReplicationDuties()
    story.judged(checker)
    return [each.kind for each in checker.violations]


def test_a_partition_whose_state_the_controller_lost_has_no_leader_until_another_controller() -> None:
    """PartitionStateMachine.initializeLeaderAndIsrForPartitions 3.9.0 (swarm, kip-333, seed 61477)."""
    story = created()
    refuse(story)
    assert found(story) == ["unheard-state"]

    story.new_controller(1)
    story.by("b1/controller", BecameController(broker_id=1, controller_epoch=2))
    story.lead(0)
    for broker in (1, 2):
        story.follow(broker)
    story.cache(*BROKERS, leader_epoch=0)
    assert "unheard-state" not in found(story)


@pytest.mark.parametrize(
    "how", ["not refused", "another partition", "another reason", "another controller wrote", "it learned", "replaced"]
)
def test_a_lost_state_excuses_no_other_partition_and_no_other_controller(how: str) -> None:
    story = created()
    if how == "it learned":
        elected = LeaderElectedForPartition(
            topic=TOPIC,
            partition=0,
            leader=0,
            leader_epoch=0,
            isr=BROKERS,
            controller_epoch=1,
            strategy="new",
            unclean=False,
        )
        story.by(story.controller, elected)
    if how == "another partition":
        refuse(story, at="t-1")
    elif how == "another reason":
        refuse(story, why="NO_NODE")
    elif how == "another controller wrote":
        refuse(story, actor="b1/controller")
    elif how != "not refused":
        refuse(story)
    if how == "replaced":
        story.new_controller(1)
        story.by("b1/controller", BecameController(broker_id=1, controller_epoch=2))

    kinds = found(story)
    assert "no-leader" in kinds
    assert "unheard-state" not in kinds


@pytest.mark.parametrize("refused", [True, False])
def test_the_controller_cannot_end_a_reassignment_of_such_a_partition(refused: bool) -> None:
    """KafkaController.moveReassignedPartitionLeaderIfRequired 3.9: it does not know the leader."""
    story = created()
    for broker in BROKERS:
        story.node(broker_path(broker))
    for replicas in (ReplicaAssignment(BROKERS), ReplicaAssignment(BROKERS, removing=(2,))):
        story.node(topic_path(TOPIC), topic_data({0: replicas}), what="set")
    if refused:
        refuse(story)
    story.heal()
    story.wait(1)

    kinds = [each.kind for each in story.judged(ReassignmentChecker())[0]]
    assert ("unfinished" in kinds) is not refused


@pytest.mark.parametrize(("refused", "kind"), [(True, "unheard-state"), (False, "not-at-rest")])
def test_a_group_whose_log_has_such_a_partition_stands_still(refused: bool, kind: str) -> None:
    story = created(OFFSETS_TOPIC)
    story.world(MemberHostAdded(host=READER, group="g"))
    story.by("b0/coordinator", GroupBecame(group="g", old="Stable", new="Empty", generation=0, why="told"))
    if refused:
        refuse(story)
    story.heal()
    story.wait(DEFAULT_BOUND_US / SECOND + 1)
    story.by("b0", HighWatermarkAdvanced(topic=OFFSETS_TOPIC, partition=0, leader_epoch=0, high_watermark=0))

    assert [each.kind for each in story.judged(Liveness())[0] if each.checker == "liveness"] == [kind]
