"""Members of the consumer protocol take partitions one after the other, unless an answer was late (KIP-848)."""

import pytest

from kemu.actors.machine import Received, Send
from kemu.emulator.checkers.consumer_protocol import ConsumerProtocol
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat
from kemu.protocol.messages.data import MetadataReply, TopicMetadata
from kemu.protocol.notes.consumer_groups import MemberReconciled
from kemu.protocol.notes.groups import MemberBecame
from tests.emulator.checkers.story import GROUP, TOPIC, Story, partitions


def found(story: Story) -> list[str]:
    checker = ConsumerProtocol()
    checker.consumer_protocol_groups = {GROUP}
    return story.kinds(checker)


@pytest.fixture
def story() -> Story:
    """c1 owns partition 0, and c2 owns nothing."""
    told = Story("c1", "c2")
    told.add("c1", "c2")
    told.take("c1", 1, "0")
    told.take("c2", 1, "")
    return told


def test_a_member_takes_a_partition_that_its_owner_gave_up(story: Story) -> None:
    story.revoke("c1", "0")
    story.take("c2", 2, "0")

    assert found(story) == []


def test_a_member_that_takes_a_partition_before_its_owner_gave_it_up_is_a_violation(story: Story) -> None:
    story.take("c2", 2, "0")

    assert found(story) == ["assigned-too-soon"]


def test_a_removed_member_may_take_partitions_by_a_late_answer(story: Story) -> None:
    """Its next heartbeat gets UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH (kafka-4.0 seed 304)."""
    story.remove(story.ids["c2"])
    story.take("c2", 2, "0")

    assert found(story) == []


def test_a_member_that_the_coordinator_added_again_waits_for_the_owner(story: Story) -> None:
    story.remove(story.ids["c2"])
    story.add("c2")
    story.take("c2", 3, "0")

    assert found(story) == ["assigned-too-soon"]


@pytest.mark.parametrize(
    ("order", "kinds"),
    [
        ("acknowledge learn take", []),
        ("adopt learn acknowledge take", []),
        ("learn acknowledge take", ["assigned-too-soon"]),
        ("learn adopt acknowledge take", ["assigned-too-soon"]),
        ("adopt learn settle acknowledge take", ["assigned-too-soon"]),
        ("learn take acknowledge", ["assigned-too-soon"]),
        ("acknowledge take learn", ["assigned-too-soon"]),
    ],
)
def test_a_member_takes_what_it_acknowledged_as_empty_only_once_it_learns_of_the_topic(
    order: str, kinds: list[str]
) -> None:
    """AbstractMembershipManager.maybeReconcile, CurrentAssignmentBuilder.computeNextAssignment 4.1 (seed 1346; its
    cluster with seed 5 adopts, and acknowledges only when the coordinator is back).
    """
    story = Story("c1", "c2")
    story.add("c1", "c2")
    story.take("c2", 1, "")
    reconciled = MemberReconciled(
        group=GROUP, member_id=story.ids["c1"], epoch=1, state="STABLE", assigned=partitions("0"), revoking=()
    )
    freed = MemberReconciled(
        group=GROUP, member_id=story.ids["c1"], epoch=2, state="STABLE", assigned=partitions("1"), revoking=()
    )
    beat = ConsumerGroupHeartbeat(group=GROUP, member_id=story.ids["c1"], member_epoch=1, owned=())
    topic = TopicMetadata(error=ErrorCode.NONE, topic=TOPIC, partitions=())
    story.by(story.coordinator, reconciled)
    for what in order.split():
        if what == "acknowledge":
            story.by("c1", Send(story.coordinator, 0, 7, 1, beat))
            story.by(story.coordinator, Received("c1", 1, 7, 1, beat), freed)
        elif what == "learn":
            story.by("c1", Received("b1", 1, 8, 12, MetadataReply(brokers=(), topics=(topic,))))
        elif what in ("adopt", "settle"):
            new = "ACKNOWLEDGING" if what == "adopt" else "STABLE"
            story.by(
                "c1",
                MemberBecame(group=GROUP, member_id=story.ids["c1"], old="RECONCILING", new=new, generation=1, why=""),
            )
        else:
            story.take("c1", 1, "0")
    story.take("c2", 2, "0")

    assert found(story) == kinds
