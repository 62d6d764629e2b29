"""The cooperative checker: what it catches, and what it must let pass."""

import pytest

from kemu.emulator.checkers.cooperative import MOST_REVOKING, Cooperative
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes.groups import Rejoin
from tests.emulator.checkers.story import GROUP, Story, partitions


def joins(story: Story, *members: str, why: str = "the group is rebalancing") -> None:
    """Members send JoinGroup with what they own."""
    for member in members:
        story.by(
            member,
            notes.MemberBecame(
                group=GROUP,
                member_id=story.ids[member],
                old="STABLE",
                new="PREPARING_REBALANCE",
                generation=story.generation,
                why=why,
            ),
        )


def take(story: Story, member: str, generation: int, names: str, added: str = "", revoked: str = "") -> None:
    """A member takes an assignment cooperatively."""
    became(story, member)
    story.receive(member, generation, names)
    if revoked:
        story.revoke(member, revoked)
    story.assigned(member, generation, added)


def became(story: Story, member: str) -> None:
    story.by(
        member,
        notes.MemberBecame(
            group=GROUP,
            member_id=story.ids[member],
            old="COMPLETING_REBALANCE",
            new="STABLE",
            generation=story.generation,
            why="synced",
        ),
    )


@pytest.fixture(name="story")
def grown() -> Story:
    """c1 owns both partitions and c2 comes: everybody has joined for generation 2."""
    story = Story("c1", "c2")
    story.form(c1="0 1")
    story.become("PreparingRebalance")
    story.add("c2")
    joins(story, "c1", "c2")
    story.complete(2, "c1", "c2")
    story.become("Stable")
    return story


def said(story: Story) -> list[str]:
    return story.judged().get("cooperative", [])


def test_a_move_in_two_steps_is_what_the_protocol_wants(story: Story) -> None:
    """KIP-429: withheld, revoked, and given in the follow-up."""
    take(story, "c1", 2, "0", revoked="1")
    take(story, "c2", 2, "")
    story.become("PreparingRebalance")
    joins(story, "c1", why=Rejoin.REVOKED)
    joins(story, "c2")
    story.complete(3, "c1", "c2")
    story.become("Stable")
    take(story, "c1", 3, "0")
    take(story, "c2", 3, "1", added="1")

    assert said(story) == []


@pytest.mark.parametrize("hears", [False, True])
def test_a_direct_move_is_caught_whether_or_not_the_owner_hears_of_it_first(story: Story, hears: bool) -> None:
    """The page: "no partitions should be migrated directly before being revoked first"."""
    if hears:
        take(story, "c1", 2, "0", revoked="1")
    take(story, "c2", 2, "1", added="1")

    assert said(story) == ["t-1 was assigned to c2 in generation 2, but c1 joined with it"]


def test_a_claim_in_a_group_of_the_consumer_protocol_ends_when_its_classic_member_revokes() -> None:
    """Found by a migration beside Kafka 4.2.1: c1 joined before the epoch, rejoined, revoked, and c2 got the partition.

    Nobody leads these groups. Two owners at once are caught all the same.
    """
    story = Story("c1", "c2")
    story.form(c1="0 1")
    story.add("c2")
    joins(story, "c1", "c2")
    story.complete(2, "c1", "c2", leader="")
    take(story, "c1", 2, "0", revoked="1")
    take(story, "c2", 2, "1", added="1")

    assert said(story) == []

    take(story, "c2", 2, "0 1", added="0")
    assert story.judged()


def test_a_claim_to_what_somebody_else_was_given_since_protects_nothing() -> None:
    """KIP-792: a stale claim. c1 slept through generation 2 and joins generation 3 with what it had in 1."""
    story = Story("c1", "c2")
    story.form(c1="0 1")
    story.become("PreparingRebalance")
    story.add("c2")
    story.remove("c1-1")
    joins(story, "c2")
    story.complete(2, "c2")
    story.become("Stable")
    take(story, "c2", 2, "0 1", added="0 1")
    story.become("PreparingRebalance")
    story.add("c1")
    joins(story, "c1", "c2")
    story.complete(3, "c1", "c2")
    story.become("Stable")
    take(story, "c1", 3, "", revoked="0 1")
    take(story, "c2", 3, "0 1")

    assert said(story) == []


def test_an_assignment_is_not_taken_before_what_it_takes_away_is_revoked(story: Story) -> None:
    """KIP-429: revoke first."""
    take(story, "c1", 2, "0")

    text = "c1 its owned partitions after the rebalance differ from its assignment in t-1"
    assert story.judged()["lifecycle"] == [text]


@pytest.mark.parametrize(("revoked", "kinds"), [("1", []), ("0 1", ["revoked-too-much"])])
def test_a_member_revokes_only_what_its_assignment_took_from_it(story: Story, revoked: str, kinds: list[str]) -> None:
    """KIP-429: what stays is worked on all the time."""
    about = {"group": GROUP, "member_id": story.ids["c1"], "generation": 2}
    left = tuple(sorted(set(partitions("0 1")) - set(partitions(revoked))))
    story.receive("c1", 2, "0")
    story.by("c1", notes.PartitionsRevoked(**about, revoked=partitions(revoked), owned=left))
    story.by("c1", notes.PartitionsAssigned(**about, added=(), owned=left))

    assert story.kinds(Cooperative()) == kinds


def test_a_rebalance_that_comes_to_no_end_is_caught(story: Story) -> None:
    """A partition that goes back and forth while nothing happens."""
    generation, owner, other = 2, "c1", "c2"
    for _ in range(MOST_REVOKING + 1):
        take(story, owner, generation, "0" if owner == "c1" else "", revoked="1")
        take(story, other, generation, "0" if other == "c1" else "")
        generation = next_generation(story, owner, other)
        take(story, owner, generation, "0" if owner == "c1" else "")
        take(story, other, generation, "0 1" if other == "c1" else "1", added="1")
        generation = next_generation(story, other, owner, why="the group is rebalancing")
        owner, other = other, owner

    assert said(story) == [f"group g moved partitions in {MOST_REVOKING + 1} rebalances without an event from outside"]


def next_generation(story: Story, first: str, second: str, why: str = Rejoin.REVOKED) -> int:
    story.become("PreparingRebalance")
    joins(story, first, why=why)
    joins(story, second)
    story.complete(story.generation + 1, "c1", "c2")
    story.become("Stable")
    return story.generation


def test_a_member_that_refuses_its_assignment_is_the_run_s_failure(story: Story) -> None:
    """The page's superset check."""
    story.by("c1", notes.AssignmentRefused(group=GROUP, member_id="c1-1", generation=1, why="PROTOCOL_VIOLATION: t-1"))

    assert said(story) == ["c1 refuses its assignment: PROTOCOL_VIOLATION: t-1"]
