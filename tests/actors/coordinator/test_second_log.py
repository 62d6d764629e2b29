"""KIP-333's second commit logs at the coordinator: fencing, reads, replay and expiry."""

import pytest
from hypothesis import given

from kemu.actors.coordinator.replay import replay
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.group import DeleteGroups, LeavingMember, OffsetDelete, TopicPartitions
from kemu.protocol.messages.ranges import (
    FetchedLogs,
    RangeCommit,
    RangeFetch,
    RangeProgress,
    RangeToOpen,
)
from kemu.protocol.messages.records import (
    RangeProgressRecord,
    RangeRecord,
    StoredOffset,
    StoredRange,
    decode_record,
    range_progress_record,
    range_progress_tombstone,
    range_record,
    range_tombstone,
)
from kemu.protocol.notes.ranges import RangeCommitted, RangeOpened, RangesLoaded, RangesRemoved
from tests.actors.coordinator.coordinator_harness import GROUP, Ask, Bench
from tests.strategies import INT32, INT64, TEXT

MINUTE_MS = 60_000
AT = ("t", 0)


class Logs(Bench):
    """A stable group of one member, ``c1``, which writes to its second logs."""

    def __init__(self, **config: object) -> None:
        super().__init__(**config)
        self.formed = self.stable_group("c1")

    def write(self, *tokens: tuple[int, int], offset: int = -1, generation: int | None = None) -> Ask:
        member_id = self.formed.ids["c1"]
        request = RangeCommit(
            group=GROUP,
            generation=self.formed.generation if generation is None else generation,
            member_id=member_id,
            tokens=tuple(RangeToOpen(topic="t", partition=0, start=start, end=end) for start, end in tokens),
            offsets=() if offset < 0 else (RangeProgress(topic="t", partition=0, offset=offset),),
        )
        return self.ask("c1/catch-up", request, 0)

    def leave_all(self) -> None:
        self.leave("c1", LeavingMember(member_id=self.formed.ids["c1"]))

    def first(self, offset: int) -> None:
        how = {"member_id": self.formed.ids["c1"], "generation": self.formed.generation}
        assert self.commit_error("c1", offset=offset, **how) is E.NONE

    def read(self) -> FetchedLogs:
        topics = (TopicPartitions(topic="t", partitions=(0,)),)
        (row,) = self.ask("c1", RangeFetch(group=GROUP, topics=topics), 0).reply.logs
        return row

    def said(self) -> tuple[int, tuple[tuple[int, int], ...], int]:
        row = self.read()
        return row.offset, row.tokens, row.second_offset


def outcome(ask: Ask) -> E:
    return ask.reply.outcomes[0].error


def test_both_logs_are_read_together() -> None:
    logs = Logs()
    assert logs.said() == (-1, (), -1)

    logs.first(70)
    assert outcome(logs.write((70, 120))) is E.NONE
    logs.first(120)
    assert outcome(logs.write(offset=90)) is E.NONE

    assert logs.said() == (120, ((70, 120),), 90)
    assert [(note.start, note.end) for note in logs.noted(RangeOpened)] == [(70, 120)]


@pytest.mark.parametrize("generation", [0, 7])
def test_another_generation_is_refused(generation: int) -> None:
    """The coordinator's own fence: what fences a member's offsets fences its ranges."""
    logs = Logs()

    assert outcome(logs.write((70, 120), generation=generation)) is E.ILLEGAL_GENERATION
    assert logs.said() == (-1, (), -1)


def test_a_group_that_is_not_known_has_no_ranges() -> None:
    bench = Bench()
    request = RangeCommit(group=GROUP, generation=1, member_id="m", tokens=(RangeToOpen(
        topic="t", partition=0, start=1, end=2),))  # fmt: skip

    assert outcome(bench.ask("c1", request, 0)) is E.ILLEGAL_GENERATION
    assert GROUP not in bench.coordinator.groups


def test_a_request_that_comes_twice_changes_nothing() -> None:
    """Its answer was lost with the connection."""
    logs = Logs()
    for _ in range(2):
        logs.write((70, 120))
    logs.first(120)
    for _ in range(2):
        assert outcome(logs.write(offset=90)) is E.NONE

    assert len(logs.noted(RangeOpened)) == len(logs.noted(RangeCommitted)) == 1


def test_a_range_that_is_worked_off_leaves_the_log() -> None:
    """Its tombstone is written with the commit that closes it; the commit stays."""
    logs = Logs()
    logs.write((70, 120))
    logs.first(120)
    logs.write((120, 150))
    logs.first(150)
    logs.write(offset=130)
    assert logs.said() == (150, ((120, 150),), 130)

    logs.write(offset=150)
    assert logs.said() == (150, (), 150)
    assert replay(logs.log()).second_of(GROUP).of(AT).tokens == {}


def test_a_token_whose_jump_is_not_committed_stays() -> None:
    """The next owner of the partition repairs it."""
    logs = Logs()
    logs.first(70)
    logs.write((70, 120))
    logs.write(offset=120)

    assert logs.said() == (70, ((70, 120),), 120)


def test_another_coordinator_knows_them() -> None:
    logs = Logs()
    logs.first(70)
    logs.write((70, 120))
    logs.first(120)
    logs.write(offset=90)
    before = logs.said()

    logs.crash_and_restart()
    assert logs.said() == before
    (loaded,) = logs.noted(RangesLoaded)
    assert (loaded.tokens, loaded.second_offset) == before[1:] and loaded.position >= 0


def test_nothing_is_shown_while_it_is_being_written() -> None:
    """An owner that read half of it would open another range."""
    logs = Logs()
    logs.hold_appends = True
    write = logs.write((70, 120))
    topics = (TopicPartitions(topic="t", partitions=(0,)),)

    assert logs.ask("c1", RangeFetch(group=GROUP, topics=topics), 0).reply.error is E.UNSTABLE_OFFSET_COMMIT
    logs.hold_appends = False
    logs.release()
    assert outcome(write) is E.NONE
    assert logs.said()[1] == ((70, 120),)


def test_the_word_of_an_operator_ends_all_ranges() -> None:
    """kafka-consumer-groups --reset-offsets: the group continues at the given offset, without the skipped ranges."""
    logs = Logs()
    logs.write((70, 120))
    logs.first(120)
    logs.leave_all()

    assert logs.commit_error("tool", offset=30) is E.NONE
    assert logs.said() == (30, (), -1)
    assert [note.why for note in logs.noted(RangesRemoved)] == ["an operator chose an offset"]


def test_they_are_deleted_with_their_offset_and_with_their_group() -> None:
    logs = Logs()
    logs.write((70, 120))
    logs.first(120)
    logs.write(offset=80)
    logs.leave_all()

    logs.ask("tool", OffsetDelete(group=GROUP, topics=(TopicPartitions(topic="t", partitions=(0,)),)))
    assert logs.said() == (-1, (), -1)
    assert replay(logs.log()).second_of(GROUP).by_partition == {}

    other = Logs()
    other.write((70, 120))
    other.first(120)
    other.leave_all()
    other.ask("tool", DeleteGroups(groups=(GROUP,)))
    assert replay(other.log()).groups() == ()
    assert replay(other.log()).second_of(GROUP).by_partition == {}


def test_they_expire_with_their_offset_and_not_before() -> None:
    """KIP-211: an empty group's offsets last from the moment it became empty; both logs expire together."""
    logs = Logs(offsets_retention_minutes=10, offsets_retention_check_interval_ms=MINUTE_MS)
    logs.first(70)
    logs.write((70, 120))
    logs.first(120)
    logs.leave_all()

    logs.advance(9 * MINUTE_MS)
    assert logs.said() == (120, ((70, 120),), -1)
    logs.advance(2 * MINUTE_MS)
    assert replay(logs.log()).second_of(GROUP).by_partition == {}
    assert [note.why for note in logs.noted(RangesRemoved)] == ["expired"]


# --- records -------------------------------------------------------------------------------------------------------


@given(TEXT, TEXT, INT32, INT64, INT64, INT64)
def test_records_are_read_as_they_were_written(
    group: str, topic: str, partition: int, start: int, end: int, at_ms: int
) -> None:
    token = StoredRange(end, at_ms)
    assert decode_record(*range_record(group, topic, partition, start, token)) == RangeRecord(
        group, topic, partition, start, token
    )
    assert decode_record(*range_tombstone(group, topic, partition, start)) == RangeRecord(
        group, topic, partition, start, None
    )
    progress = StoredOffset(end, -1, "", at_ms)
    assert decode_record(*range_progress_record(group, topic, partition, progress)) == RangeProgressRecord(
        group, topic, partition, progress
    )
    assert decode_record(*range_progress_tombstone(group, topic, partition)) == RangeProgressRecord(
        group, topic, partition, None
    )
