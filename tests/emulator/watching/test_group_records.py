"""Records of a group's log, by position, as elections take them away and bring them back."""

from kemu.emulator.watching.epoch_log import EpochLog
from kemu.emulator.watching.group_records import GroupRecords


def log(*runs: tuple[int, int]) -> EpochLog:
    """A log of these runs: (end, life of the leader of epoch 1)."""
    made = EpochLog()
    for end, life in runs:
        made.append(made.end, end - made.end, (1, life))
    return made


def kept() -> GroupRecords[str]:
    """Records 3 and 7 of a log of nine."""
    records: GroupRecords[str] = GroupRecords()
    records.write(3, "a", log((9, 1)))
    records.write(7, "b", log((9, 1)))
    return records


def test_what_is_cut_counts_no_more_and_what_was_before_does() -> None:
    records = kept()

    assert records.follow(log((7, 1)))
    assert records.last("nothing") == "a"
    assert not records.follow(log((5, 1))), "nothing of it is lost any more"
    assert records.follow(log())
    assert records.last("nothing") == "nothing"


def test_what_another_replica_still_had_is_back_in_its_place() -> None:
    records = kept()
    records.follow(log((3, 1)))

    assert not records.follow(log((3, 1), (9, 2))), "other records, of another life of the leader, lie there"
    assert records.follow(log((9, 1)))
    assert records.last("nothing") == "b"


def test_a_record_in_the_place_of_a_lost_one_counts_where_the_log_has_it() -> None:
    """The leader lost what was behind 2, led on in its epoch and wrote others; another replica kept what was lost."""
    records = kept()
    records.follow(log((2, 1)))
    records.write(3, "c", log((2, 1), (5, 2)))

    assert records.follow(log((9, 1)))
    assert records.last("nothing") == "b"
    assert records.follow(log((2, 1), (5, 2), (9, 2)))
    assert records.last("nothing") == "c"


def test_records_whose_position_nobody_tells_are_not_kept() -> None:
    records: GroupRecords[str] = GroupRecords()
    records.write(-1, "a", log())

    assert records.last("nothing") == "nothing"
