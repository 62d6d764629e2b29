"""The picture of who owned what."""

from kemu.emulator import facts
from kemu.emulator.facts import Seen
from kemu.emulator.watching.panel import Panel
from kemu.protocol.notes.groups import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from kemu.tools.report.ownership import NO_OWNER, Interval, Ownership, picture

SECOND = 1_000_000


def told(*rows: tuple[int, str, object]) -> Ownership:
    """An ownership that saw (second, actor, fact) and then the end at second 10."""
    panel = Panel()
    ownership = Ownership(panel)
    started = facts.RunStarted(groups=("g",), members=(), brokers=("b0",), topics=(("t", 2),))
    for number, (second, actor, fact) in enumerate([(0, "", started), *rows, (10, "", facts.RunEnded(reason="over"))]):
        seen = Seen(number, second * SECOND, actor, 1, fact)
        panel.see(seen)
        ownership.see(seen)
    ownership.finish()
    return ownership


def assigned(*owned: int) -> PartitionsAssigned:
    """onPartitionsAssigned of partitions of t."""
    partitions = tuple(("t", number) for number in owned)
    return PartitionsAssigned(group="g", member_id="m", generation=1, added=partitions, owned=partitions)


def test_a_column_shows_the_owner_at_its_start() -> None:
    """Ten seconds in ten columns."""
    revoked = PartitionsRevoked(group="g", member_id="m", generation=1, revoked=(("t", 1),), owned=(("t", 0),))
    lines = picture(told((2, "c1", assigned(0, 1)), (5, "c1", revoked), (7, "c2", assigned(1))), "g", width=10)

    assert lines[1:3] == ["t-0 ..11111111", "t-1 ..111..222"]
    assert lines[3] == "1 c1   2 c2"


def test_two_owners_at_once_are_marked() -> None:
    """A zombie owns what another was given: c1 learns of it at second 6 only."""
    lost = PartitionsLost(group="g", member_id="m", lost=(("t", 0),))
    lines = picture(told((0, "c1", assigned(0)), (4, "c2", assigned(0)), (6, "c1", lost)), "g", width=10)

    assert lines[1] == "t-0 1111!!2222"


def test_a_member_that_dies_owns_nothing() -> None:
    """Power cuts say no goodbye."""
    down = facts.HostDown(host="c1", life=1, how="power")
    ownership = told((1, "c1", assigned(0)), (3, "", down))

    assert ownership.intervals["g"] == [Interval(("t", 0), "c1", 1 * SECOND, 3 * SECOND, -1, "down")]


def test_of_many_partitions_those_that_moved_most_are_drawn() -> None:
    """A picture of a thousand straight lines says nothing."""
    revoked = PartitionsRevoked(group="g", member_id="m", generation=1, revoked=(("t", 1),), owned=(("t", 0),))
    lines = picture(told((0, "c1", assigned(0, 1)), (4, "c1", revoked), (5, "c1", assigned(1))), "g", rows=1)

    assert lines[1].startswith("t-1 ")
    assert lines[2].startswith("... and 1 more partitions")


def test_members_beyond_the_marks_share_one() -> None:
    """Letters and digits are for 61."""
    rows = [(0, f"c{number}", assigned(number % 2)) for number in range(1, 65)]
    lines = picture(told(*rows), "g", width=10)

    assert any("# 3 more members" in line for line in lines)
    assert NO_OWNER not in lines[1].removeprefix("t-0 ")
