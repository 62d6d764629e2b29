"""State of Streams tasks: an active task runs only with its whole changelog applied, told by hand."""

import pytest

from kemu.emulator.facts import HostDown, HostStarted
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import PartitionsLost, ProduceFailed, RecordsAcknowledged, RecordsAppended
from kemu.protocol.notes.replication import BecameFollower, BecameLeader, HighWatermarkAdvanced, LogStartMoved
from tests.emulator.streams_story import APP, S, StreamsStory, formed, kinds


def leads(leader_epoch: int, end: int, *epochs: tuple[int, int], watermark: int = 0) -> BecameLeader:
    """A leader of the changelog begins with a log that ends at ``end``."""
    return BecameLeader(
        topic="log",
        partition=0,
        leader_epoch=leader_epoch,
        isr=(0,),
        end_offset=end,
        high_watermark=watermark,
        epochs=epochs,
    )


def advanced(watermark: int, leader_epoch: int = 1) -> HighWatermarkAdvanced:
    """The high watermark of the changelog."""
    return HighWatermarkAdvanced(topic="log", partition=0, leader_epoch=leader_epoch, high_watermark=watermark)


def appended(count: int, base: int = 0) -> RecordsAppended:
    """The changelog gets records."""
    return RecordsAppended(topic="log", partition=0, base_offset=base, count=count)


def acknowledged(count: int, base: int = 0) -> RecordsAcknowledged:
    """A producer is told so."""
    return RecordsAcknowledged(topic="log", partition=0, base_offset=base, count=count)


def starts_at(offset: int) -> LogStartMoved:
    """The changelog lost its start to retention."""
    return LogStartMoved(topic="log", partition=0, start_offset=offset, end_offset=100, why="retention")


def written(count: int, **settings: int) -> StreamsStory:
    """a writes to the changelog of 0_0, whose leader b0 has committed it."""
    told = formed(**settings)
    told.say(5, "b0", leads(1, 0))
    told.say(10, "b0", appended(count), advanced(count))
    told.say(11, "a/t1-producer", acknowledged(count))
    return told


@pytest.mark.parametrize(
    ("ranges", "cut", "found"),
    [
        ([(0, 60), (60, 100)], 100, []),
        ([(0, 60)], 100, ["runs-without-state"]),
        ([(0, 60), (70, 100)], 100, ["runs-without-state"]),  # a gap
        ([], 100, ["runs-without-state"]),
        ([(0, 60)], 60, []),  # the changelog lost the rest
        ([(0, 50)], 60, ["runs-without-state"]),  # beside that
    ],
)
def test_an_active_task_runs_only_with_what_its_changelog_had_when_its_restore_began(
    ranges: list[tuple[int, int]], cut: int, found: list[str]
) -> None:
    """Ranges that the copy applied, and what the next leader of the changelog still has."""
    told = written(100)
    told.copy(30, "a", "0", "active", "SUSPENDED", "CLOSED", position=100)
    told.copy(31, "b", "0", "active", "CREATED", "RESTORING")
    for first, last in ranges:
        told.read(32, "b", "0", "active", first, last)
    if cut < 100:
        told.say(33, "b1", leads(2, cut, (1, 0), watermark=cut))
    told.copy(34, "b", "0", "active", "RUNNING", position=100)

    assert kinds(told) == found


@pytest.mark.parametrize(("reads", "found"), [(True, []), (False, ["runs-without-state"])])
def test_a_task_that_comes_back_needs_what_its_other_owner_wrote(reads: bool, found: list[str]) -> None:
    """streams-100-instances, seed 1: suspended at 43, resumed 30 s later with 63 records in its changelog."""
    told = written(43)
    told.copy(30, "a", "0", "active", "SUSPENDED", position=43)
    told.say(40, "b0", appended(20, 43), advanced(63))
    told.copy(50, "a", "0", "active", "RESTORING", position=43)
    if reads:
        told.read(51, "a", "0", "active", 43, 63)
    told.copy(52, "a", "0", "active", "RUNNING", position=43)

    assert kinds(told) == found


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ([], ["runs-without-state"]),
        ([starts_at(100)], []),  # deleted meanwhile
        ([starts_at(40)], ["runs-without-state"]),
    ],
)
def test_records_that_the_changelog_deleted_are_not_asked_for(facts: list[object], found: list[str]) -> None:
    """Retention of a changelog."""
    told = written(100)
    told.copy(30, "a", "0", "active", "SUSPENDED", "CLOSED", position=100)
    told.copy(31, "b", "0", "active", "CREATED", "RESTORING")
    told.say(33, "b0", *facts)
    told.copy(34, "b", "0", "active", "RUNNING", position=100)

    assert kinds(told) == found


@pytest.mark.parametrize(("deposed", "found"), [(False, []), (True, ["runs-without-state"])])
def test_a_leader_that_does_not_know_of_its_successor_may_tell_an_older_end(deposed: bool, found: list[str]) -> None:
    """b0 leads on with 40 records; b1 is the leader, and has 100."""
    told = written(40)
    told.say(12, "b1", leads(2, 40, (1, 0), watermark=40))
    told.say(13, "b1", appended(60, 40), advanced(100, 2))
    if deposed:
        follows = BecameFollower(topic="log", partition=0, leader_epoch=2, leader=1, end_offset=40, high_watermark=40)
        told.say(14, "b0", follows)
    told.copy(30, "a", "0", "active", "SUSPENDED", "CLOSED", position=40)
    told.copy(31, "b", "0", "active", "CREATED", "RESTORING")
    told.read(32, "b", "0", "active", 0, 40)
    told.copy(34, "b", "0", "active", "RUNNING", position=40)

    assert kinds(told) == found


@pytest.mark.parametrize(("failed", "found"), [(True, []), (False, ["runs-without-state"])])
def test_a_task_has_what_it_wrote_itself_although_nobody_acknowledged_it(failed: bool, found: list[str]) -> None:
    """Its producer gave up on a batch that is in the changelog; or somebody else wrote that."""
    told = written(40)
    told.say(20, "b0", appended(10, 40))
    if failed:
        error = ErrorCode.REQUEST_TIMED_OUT
        told.say(21, "a/t1-producer", ProduceFailed(topic="log", partition=0, count=10, error=error, definite=False))
    told.copy(22, "a", "0", "active", "SUSPENDED", position=40)
    told.say(24, "b0", advanced(50))
    told.copy(30, "a", "0", "active", "RESTORING", "RUNNING", position=40)

    assert kinds(told) == found


@pytest.mark.parametrize(("suspended", "found"), [(50, []), (20, ["runs-without-state"])])
def test_a_task_goes_on_without_what_a_former_owner_wrote_while_it_ran(suspended: int, found: list[str]) -> None:
    """AssignedTasks.maybeResumeSuspendedTask 2.3, StreamTask.resume 3.4: nothing is read if nothing is new since."""
    told = written(40)
    told.copy(suspended, "a", "0", "active", "SUSPENDED", position=40)
    told.say(30, "b0", appended(10, 40), advanced(50))
    told.copy(60, "a", "0", "active", "RESTORING", "RUNNING", position=40)

    assert kinds(told) == found


@pytest.mark.parametrize(
    ("kept", "position", "found"),
    [
        (True, 40, []),
        (True, 41, ["checkpoint-without-state"]),
        (False, 0, []),
        (False, 1, ["checkpoint-without-state"]),
    ],
)
def test_a_copy_begins_no_further_than_one_was_on_its_disk(kept: bool, position: int, found: list[str]) -> None:
    """A checkpoint lies on the disk that has the state."""
    told = written(40)
    told.say(31, "", HostDown(host="a", life=1, how="power"), HostStarted(host="a", life=2, kept_disk=kept))
    told.start_over("a", "0")
    told.copy(32, "a", "0", "active", "CREATED")
    told.copy(33, "a", "0", "active", "RESTORING", position=position)

    assert kinds(told) == found


@pytest.mark.parametrize(
    ("kept", "lost", "position", "found"),
    [
        (True, False, 40, []),
        (True, False, 39, ["checkpoint-lost"]),
        (False, False, 0, []),  # another disk
        (True, True, 0, []),  # closed as it was
    ],
)
def test_a_copy_begins_where_the_last_one_was_closed(kept: bool, lost: bool, position: int, found: list[str]) -> None:
    """``ProcessorStateManager.checkpoint``: what is closed cleanly is not restored again."""
    told = written(40)
    for task in "01":
        told.copy(30, "a", task, "active", "SUSPENDED", "CLOSED", position=40 if task == "0" else 0)
    if lost:
        told.say(30, "a/t1", PartitionsLost(group=APP, member_id="a-id", lost=(("in", 0),)))
    told.say(31, "", HostDown(host="a", life=1, how="closed"), HostStarted(host="a", life=2, kept_disk=kept))
    told.copy(32, "a", "0", "active", "CREATED")
    told.copy(33, "a", "0", "active", "RESTORING", position=position)

    assert kinds(told) == found


@pytest.mark.parametrize(
    ("how", "position", "found"),
    [("process", 60, []), ("process", 40, []), ("power", 39, ["checkpoint-lost"]), ("closed", 39, [])],
)
def test_an_instance_that_went_down_left_the_checkpoints_of_its_commits(
    how: str, position: int, found: list[str]
) -> None:
    """``commit.interval.ms`` is 10 s here; what it had before its last interval is in a checkpoint."""
    told = formed()
    told.say(11, "", RecordsAppended(topic="log", partition=3, base_offset=0, count=100))
    told.copy(12, "b", "3", "standby", "CREATED", "RESTORING", "RUNNING")
    for at_s, first, last in ((13, 0, 30), (20, 30, 40), (29, 40, 60), (39, 60, 80)):
        told.read(at_s, "b", "3", "standby", first, last)
    told.say(40, "", HostDown(host="b", life=1, how=how), HostStarted(host="b", life=2, kept_disk=True))
    told.start_over("b", "3")
    told.copy(41, "b", "3", "standby", "CREATED", "RESTORING", position=position)

    assert kinds(told, 45, commit_us={APP: 10 * S}) == found
