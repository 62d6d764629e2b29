"""The account of each group's progress: which records are done, skipped, unprocessed and read past."""

import pytest

from kemu.emulator.watching.copies import Copies
from kemu.emulator.watching.epoch_log import EpochLog, Term
from kemu.emulator.watching.group_commits import GroupCommits
from kemu.emulator.watching.logs import WatchedLogs
from kemu.emulator.watching.progress import ANY, GroupProgress, Records, count, pieces_of
from kemu.emulator.watching.ranges_of_groups import WatchedRanges
from kemu.emulator.watching.topic_names import TopicNames

FIRST, SECOND, THIRD = (0, 1), (2, 1), (3, 1)


def log_of(*runs: tuple[Term, int], end: int) -> EpochLog:
    """A log of (term, first offset)."""
    log = EpochLog()
    log.restore(0, end, [(first, term) for term, first in runs])
    return log


def group(committed: int, *done: tuple[int, int, Term]) -> GroupProgress:
    logs = WatchedLogs(Copies())
    commits = GroupCommits(logs, lambda seen: True, lambda name: None, TopicNames())
    commits.account("g", ("t", 0)).offset = committed
    progress = GroupProgress("g", ("t", 0), commits, WatchedRanges(logs, commits, lambda seen: True, lambda name: None))
    for piece in done:
        progress.done.add(*piece)
    return progress


def left(progress: GroupProgress, log: EpochLog) -> list[tuple[int, int]]:
    return [piece[:2] for piece in progress.left(pieces_of(log, 0, progress.committed or 0))]


def test_a_record_is_done_only_with_its_own_term():
    log = log_of((FIRST, 0), (SECOND, 6), end=14)

    assert left(group(14, (0, 10, FIRST), (10, 14, SECOND)), log) == [(6, 10)]
    assert left(group(14, (0, 6, FIRST), (6, 14, SECOND)), log) == []


@pytest.mark.parametrize(("lives", "untold"), [(((1, 1), (1, 2)), True), (((1, 1), (2, 2)), False)], ids=str)
def test_only_a_later_leader_epoch_tells_a_group_that_its_log_lost_records(lives, untold):
    """A term is (leader epoch, life): the log lost records 6 to 9 and has others there."""
    before, after = lives
    log = log_of((before, 0), (after, 6), end=14)
    progress = group(14, (0, 10, before), (10, 14, after))
    (piece,) = progress.left(pieces_of(log, 0, 14))

    assert piece == (6, 10, after)
    assert progress.read_past(piece, log) == ([(6, 10)] if untold else [])


def test_what_a_group_never_passed_is_not_read_past():
    log = log_of(((1, 1), 0), ((1, 2), 6), end=14)
    progress = group(14, (0, 8, (1, 1)), (12, 14, (1, 2)))
    (piece,) = progress.left(pieces_of(log, 0, 14))

    assert piece == (6, 12, (1, 2))
    assert progress.read_past(piece, log) == [(6, 8)]


def test_the_last_epoch_that_was_read_decides_what_a_leader_tells():
    """The group read epoch 0 to 9 and epoch 1 to 11; the next leader has records of epoch 1 from 8 on."""
    log = log_of((FIRST, 0), ((1, 2), 8), end=14)
    progress = group(14, (0, 10, FIRST), (10, 12, (1, 1)), (12, 14, (1, 2)))
    (piece,) = progress.left(pieces_of(log, 0, 14))

    assert progress.read_past(piece, log) == [(8, 12)]


def test_a_skip_beyond_the_end_is_of_whatever_comes_there():
    progress = group(12)
    progress.skip(0, 12, "operator", log_of((FIRST, 0), end=4))

    assert left(progress, log_of((FIRST, 0), (THIRD, 4), end=12)) == []
    assert left(progress, log_of((THIRD, 0), end=12)) == [(0, 4)]
    assert progress.skipped_of(log_of((FIRST, 0), (THIRD, 4), end=10)) == 10


def test_records_of_an_unknown_writer_count_as_every_writers():
    records = Records()
    records.add(0, 4, ANY)
    records.add(4, 6, 1)

    assert records.lacking([(0, 8, 1), (2, 5, 2)]) == [(6, 8, 1), (4, 5, 2)]
    assert (records.end, count([(0, 8, 1)])) == (6, 8)
