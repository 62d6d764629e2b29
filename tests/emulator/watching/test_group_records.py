"""Records of a group's log, by position, as elections take them away and bring them back."""

from types import SimpleNamespace
from typing import Any

from kemu.emulator.watching.group_records import GroupRecords


def logs(cut: int | None = None, lost: Any = (), back: Any = (), unsure: Any = None) -> Any:
    """What the panel's logs say of the last leader's log."""
    return SimpleNamespace(cut=cut, lost=lost, back=back, unsure=unsure)


def test_what_is_cut_counts_no_more_and_what_was_before_does() -> None:
    kept: GroupRecords[str] = GroupRecords()
    kept.write(3, "a")
    kept.write(7, "b")

    assert kept.follow(logs(cut=7, lost=[(7, 9, 1)]))
    assert kept.last("nothing") == "a"
    assert not kept.follow(logs(cut=9)), "nothing of it is there any more"
    assert kept.follow(logs(cut=0))
    assert kept.last("nothing") == "nothing"


def test_what_another_replica_still_had_is_back_in_its_place() -> None:
    kept: GroupRecords[str] = GroupRecords()
    kept.write(3, "a")
    kept.write(7, "b")
    kept.follow(logs(cut=3, lost=[(3, 9, 1)]))

    assert not kept.follow(logs(back=[(3, 9, 2)])), "other records, of another leader epoch, lie there"
    assert kept.follow(logs(back=[(5, 9, 1)]))
    assert kept.last("nothing") == "b"
    assert not kept.follow(logs(back=[(0, 5, 1)])), "what is back lies before the last"
    assert kept.follow(logs(cut=5))
    assert kept.last("nothing") == "a"


def test_a_record_that_may_be_another_of_its_epoch_counts_no_more_and_those_around_it_do() -> None:
    """Its leader lost what was there, led on in its epoch and wrote this; who leads now may have kept what was lost."""
    kept: GroupRecords[str] = GroupRecords()
    for position, value in ((2, "a"), (4, "b"), (6, "c")):
        kept.write(position, value)

    assert not kept.follow(logs(unsure=(3, 6))), "what lies behind is as it was"
    assert kept.follow(logs(cut=6, lost=[(6, 7, 1)]))
    assert kept.last("nothing") == "a"
    assert not kept.follow(logs(unsure=(3, 6)))


def test_records_whose_position_nobody_tells_are_not_kept() -> None:
    kept: GroupRecords[str] = GroupRecords()
    kept.write(-1, "a")

    assert kept.last("nothing") == "nothing"
