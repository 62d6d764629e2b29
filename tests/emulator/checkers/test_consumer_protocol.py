"""Members of the consumer protocol take partitions one after the other, unless an answer was late (KIP-848)."""

import pytest

from kemu.actors.machine import Received, Send
from kemu.emulator.checkers.consumer_protocol import ConsumerProtocol
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat
from kemu.protocol.notes.consumer_groups import MemberReconciled
from kemu.protocol.notes.groups import AssignmentReceived, MemberBecame
from tests.emulator.checkers.story import GROUP, Story, partitions


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
        ("acknowledge get take", []),
        ("adopt get acknowledge take", []),
        ("adopt get reconcile acknowledge take", []),
        ("adopt settle get acknowledge take", []),
        ("get acknowledge take", ["assigned-too-soon"]),
        ("get adopt acknowledge take", ["assigned-too-soon"]),
        ("get adopt get acknowledge take", ["assigned-too-soon"]),
        ("get take acknowledge", ["assigned-too-soon"]),
        ("adopt get acknowledge again take", ["assigned-too-soon"]),
        ("adopt get acknowledge next take", []),
        ("get adopt acknowledge next take", ["assigned-too-soon"]),
        ("adopt get acknowledge again next take", ["assigned-too-soon"]),
    ],
)
def test_a_member_takes_what_an_older_acknowledgement_freed_only_if_it_got_the_partition_later(
    order: str, kinds: list[str]
) -> None:
    """AbstractMembershipManager.maybeReconcile, CurrentAssignmentBuilder.computeNextAssignment 4.1 (seed 1346; its
    cluster with seed 5 adopts, and acknowledges only when the coordinator is back). With another heartbeat in flight
    the acknowledgement follows the next assignment (ConsumerHeartbeatRequestManager.buildRequestData 4.2). The member
    may take the partition after its next owner, too.
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
    states = {"adopt": "ACKNOWLEDGING", "settle": "STABLE", "reconcile": "RECONCILING"}
    story.by(story.coordinator, reconciled)
    for what in order.split():
        if what == "acknowledge":
            story.by("c1", Send(story.coordinator, 0, 7, 1, beat))
            story.by(story.coordinator, Received("c1", 1, 7, 1, beat), freed)
        elif what == "again":
            story.by(story.coordinator, reconciled)
        elif what == "get":
            given = AssignmentReceived(group=GROUP, member_id=story.ids["c1"], generation=1, partitions=partitions("0"))
            story.by("c1", given)
        elif what in states:
            became = MemberBecame(
                group=GROUP, member_id=story.ids["c1"], old="RECONCILING", new=states[what], generation=1, why=""
            )
            story.by("c1", became)
        elif what == "next":
            story.take("c2", 2, "0")
        else:
            story.take("c1", 1, "0")
    if "next" not in order:
        story.take("c2", 2, "0")

    assert found(story) == kinds
