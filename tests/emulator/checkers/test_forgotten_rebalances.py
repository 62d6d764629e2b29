"""Groups that do not come to rest as a static member came back before what it gave up was given out, and others."""

import pytest

from kemu.actors.machine import Received, Send
from kemu.emulator.checkers.liveness import Liveness
from kemu.emulator.judging import Judging
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import BrokerMetadata, MetadataReply, PartitionMetadata, TopicMetadata
from kemu.protocol.messages.group import MemberAssignment, SyncGroup
from kemu.protocol.notes.consumer_groups import GroupConverted, MemberReconciled
from tests.emulator.checkers.story import GROUP, Story, partitions


def withheld(*, owner: str = "c1") -> Story:
    """c1 owns three partitions and gives one up for c2; then one of them is another member, in the same generation."""
    story = Story("c1", "c2", count=3)
    story.form(c1="0 1 2")
    story.become("PreparingRebalance")
    story.add("c2")
    story.complete(2, "c1", "c2")
    story.become("Stable")
    story.receive("c1", 2, "0 1")
    story.revoke("c1", "2")
    story.assigned("c1", 2, "0 1")
    story.receive("c2", 2, "")
    story.assigned("c2", 2, "")
    names = "0 1" if owner == "c1" else ""
    if names:
        story.lose(owner)
    story.ids[owner] = f"{owner}-2"
    story.receive(owner, 2, names)
    story.assigned(owner, 2, names)
    return story


def kinds_after_recovery(story: Story) -> list[str]:
    """The kinds of violations when c1 has processed partition 0, and the faults ended a minute ago."""
    story.heal()
    story.process("c1", 0, 0, 10)
    story.wait(60)
    story.append(0, 10, 1)
    return [each for each, _ in judged(story)]


def judged(story: Story) -> list[tuple[str, str]]:
    liveness = Liveness(bound_us=30_000_000)
    judging = Judging([liveness])
    for seen in story.facts:
        judging.see(seen)
    return [(each.kind, each.text.partition("; ")[2]) for each in liveness.violations]


def ends(story: Story) -> Story:
    """It is healed, works on what it has, and has a minute."""
    story.heal()
    for number in (0, 1):
        story.position("c1", number, 0)
        story.process("c1", number, 0, 10)
    story.wait(60)
    story.append(0, 10, 1)
    return story


def test_what_its_former_owner_does_not_ask_for_is_named_as_kafkas_own() -> None:
    assert judged(ends(withheld())) == [
        (
            "forgotten-rebalance",
            "c1 revoked, did not know or had not subscribed to them in generation 2, and rejoined before the next one",
        )
    ]


@pytest.mark.parametrize("how", ["another", "nobody"])
def test_a_group_that_lacks_more_or_whose_owner_must_ask_has_no_excuse(how: str) -> None:
    """c1 lets go of one of its own, too; or c2 is the one that came back, and c1 never asks."""
    story = withheld(owner="c1" if how == "another" else "c2")
    if how == "another":
        story.revoke("c1", "1")

    assert judged(ends(story)) == [("not-at-rest", "")]


def hears(story: Story, member: str, count: int) -> None:
    """A broker tells it of so many partitions; none: it does not know the topic."""
    rows = [
        PartitionMetadata(error=ErrorCode.NONE, partition=at, leader=0, replicas=(0,), isr=(0,)) for at in range(count)
    ]
    error = ErrorCode.NONE if count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = TopicMetadata(error=error, topic="t", partitions=tuple(rows))
    story.by(
        member, Received("b1", 1, 1, 0, MetadataReply(brokers=(BrokerMetadata(node_id=1, host="b1"),), topics=(topic,)))
    )


def dealt_without_some(*, known: int, comes_back: bool) -> Story:
    """c1 leads, and assigns t-0 alone; it hears of both partitions, perhaps as a static member that came back."""
    story = Story("c1", "c2")
    story.form(c1="0 1", c2="")
    story.become("PreparingRebalance")
    hears(story, "c1", known)
    story.complete(2, "c1", "c2")
    everybody = tuple(MemberAssignment(member_id=story.ids[each], assignment=b"") for each in ("c1", "c2"))
    request = SyncGroup(group="g", generation=2, member_id=story.ids["c1"], assignments=everybody)
    story.by("c1", Send("b0/coordinator", 0, 2, 5, request))
    story.become("Stable")
    story.revoke("c1", "0 1")
    story.take("c1", 2, "0")
    story.take("c2", 2, "")
    hears(story, "c1", 2)
    if comes_back:
        story.lose("c1")
        story.ids["c1"] = "c1-2"
        story.take("c1", 2, "0")
    return story


@pytest.mark.parametrize(
    ("known", "comes_back", "kind"),
    [(1, True, "forgotten-rebalance"), (2, True, "not-at-rest"), (1, False, "not-at-rest")],
)
def test_what_a_static_leader_did_not_know_of_when_it_assigned_is_nobodys_once_it_came_back(
    known: int, comes_back: bool, kind: str
) -> None:
    """ConsumerCoordinator.onLeaderElected 3.4.1; a leader that knew of it, or stays the same, has no excuse."""
    story = dealt_without_some(known=known, comes_back=comes_back)

    assert kinds_after_recovery(story) == [kind]


@pytest.mark.parametrize(
    ("held", "state", "kind"),
    [
        ("0", "Stable", "forgotten-rebalance"),
        ("0 1", "Stable", "not-at-rest"),
        ("0", "PreparingRebalance", "not-at-rest"),
    ],
)
def test_what_a_classic_member_waited_for_when_a_static_member_converted_its_group_is_nobodys(
    held: str, state: str, kind: str
) -> None:
    """GroupMetadataManager.convertToClassicGroup 4.2: no rebalance (kafka-4.2 operated, seed 102). A partition that c1
    held already, or a conversion that begins a rebalance, has no excuse.
    """
    story = Story("c1", "c2")
    story.form(c1="0", c2="")
    names = partitions(held)
    reconciled = MemberReconciled(
        group=GROUP, member_id=story.ids["c1"], epoch=1, state="UNRELEASED_PARTITIONS", assigned=names, revoking=()
    )
    members = (story.ids["c1"],)
    converted = GroupConverted(group=GROUP, protocol="classic", state=state, generation=1, members=members)
    story.by(story.coordinator, reconciled, converted)
    story.receive("c2", 1, "")

    assert kinds_after_recovery(story) == [kind]


@pytest.mark.parametrize(
    ("held", "state", "kind"),
    [
        ("0", "CompletingRebalance", "forgotten-rebalance"),
        ("0 1", "CompletingRebalance", "not-at-rest"),
        ("0", "Stable", "not-at-rest"),
    ],
)
def test_a_rebalancing_group_that_a_static_member_converts_keeps_what_it_had(held: str, state: str, kind: str) -> None:
    """GroupMetadataManager.convertToConsumerGroup, consumerGroupHeartbeat 4.2 (kafka-4.2 seed 314): no new epoch."""
    story = Story("c1", "c2")
    story.form(c1="0", c2="")
    story.become(state)
    members = (story.ids["c1"], story.ids["c2"])
    converted = GroupConverted(group=GROUP, protocol="consumer", state="Stable", generation=1, members=members)
    reconciled = MemberReconciled(
        group=GROUP, member_id=story.ids["c1"], epoch=1, state="STABLE", assigned=partitions(held), revoking=()
    )
    story.by(story.coordinator, converted, reconciled)
    story.become("Stable")

    assert kinds_after_recovery(story) == [kind]
