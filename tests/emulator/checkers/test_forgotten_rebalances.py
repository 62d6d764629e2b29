"""Groups that do not come to rest as a static member came back before what it gave up was given out, and others."""

import pytest

from kemu.emulator.checkers.liveness import Liveness
from kemu.emulator.judging import Judging
from tests.emulator.checkers.story import Story


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
        ("forgotten-rebalance", "c1 gave them up for generation 2, and came back to it before the next one")
    ]


@pytest.mark.parametrize("how", ["another", "nobody"])
def test_a_group_that_lacks_more_or_whose_owner_must_ask_has_no_excuse(how: str) -> None:
    """c1 lets go of one of its own, too; or c2 is the one that came back, and c1 never asks."""
    story = withheld(owner="c1" if how == "another" else "c2")
    if how == "another":
        story.revoke("c1", "1")

    assert judged(ends(story)) == [("not-at-rest", "")]
