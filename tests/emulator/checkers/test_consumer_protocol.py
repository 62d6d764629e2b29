"""Members of the consumer protocol take partitions one after the other, unless an answer was late (KIP-848)."""

import pytest

from kemu.emulator.checkers.consumer_protocol import ConsumerProtocol
from tests.emulator.checkers.story import GROUP, Story


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
