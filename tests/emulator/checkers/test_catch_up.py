"""``catch-up``: each promise of KIP-333's mode, broken by hand, and what it lets pass."""

import pytest

from kemu.emulator.checkers.catch_up import CatchUpChecker
from kemu.emulator.checkers.commits import CommitsChecker
from kemu.emulator.facts import DiskTailLost, FaultApplied
from kemu.emulator.findings import Violation, kinds_by_checker
from kemu.emulator.judging import judge
from kemu.protocol.names import OFFSETS_TOPIC
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes import ranges as range_notes
from tests.emulator.checkers.story import BROKER, COORDINATOR, GROUP, SECOND, TOPIC, Story

BOUND_US = 60 * SECOND


class Told(Story):
    """A member with the mode on, one partition, and both commit logs."""

    def __init__(self) -> None:
        super().__init__("c1", count=1)
        self.log_end = 0
        self.by("c1", range_notes.ParallelRebalance(group=GROUP))
        self.late: notes.LateCommit | None = None
        """A fact that precedes the next commits."""
        self.by(BROKER, notes.RecordsAppended(topic=TOPIC, partition=0, base_offset=0, count=120))
        self.rejoin("c1")
        self.own("c1")

    def rejoin(self, member: str) -> None:
        self.generation += 1
        self.by(
            COORDINATOR,
            notes.JoinPhaseCompleted(
                group=GROUP, generation=self.generation, protocol="range", leader=self.ids[member],
                members=(self.ids[member],),
            ),
        )  # fmt: skip

    def own(self, member: str) -> None:
        at = ((TOPIC, 0),)
        by = self.ids[member]
        self.by(
            member,
            notes.AssignmentReceived(group=GROUP, member_id=by, generation=self.generation, partitions=at),
        )
        self.by(
            member,
            notes.PartitionsAssigned(group=GROUP, member_id=by, generation=self.generation, added=at, owned=at),
        )

    def _record(self) -> int:
        self.log_end += 1
        return self.log_end

    def starts(self, offset: int, why: str) -> None:
        fact = notes.PositionSet(
            group=GROUP, member_id=self.ids["c1"], topic=TOPIC, partition=0, offset=offset, why=why
        )
        self.by("c1", fact)

    def did(self, kind: type, first: int, last: int) -> None:
        self.by(
            "c1",
            kind(
                group=GROUP, member_id=self.ids["c1"], generation=self.generation, topic=TOPIC, partition=0,
                first=first, last=last, started_us=self.at_us,
            ),
        )  # fmt: skip

    def commits(self, offset: int) -> None:
        self._written(notes.OffsetCommitted, offset=offset)

    def second_commits(self, offset: int) -> None:
        self._written(range_notes.RangeCommitted, offset=offset)

    def opens(self, start: int, end: int) -> None:
        self._written(range_notes.RangeOpened, start=start, end=end)

    def loads(self, *tokens: tuple[int, int], position: int, second_offset: int = -1) -> None:
        self.log_end = position
        self.by(
            COORDINATOR,
            range_notes.RangesLoaded(
                group=GROUP, topic=TOPIC, partition=0, tokens=tokens, second_offset=second_offset, position=position
            ),
        )  # fmt: skip

    def _written(self, kind: type, **what: int) -> None:
        common = {"group": GROUP, "topic": TOPIC, "partition": 0, "generation": self.generation}
        written = kind(**common, member_id=self.ids["c1"], position=self._record(), **what)
        self.by(COORDINATOR, *([] if self.late is None else [self.late]), written)

    def recovered(self) -> "Told":
        """0 to 100 done, 70 committed; then the page's recovery: 70 to 120 is open, the first consumer at 120."""
        self.starts(0, "reset")
        self.did(notes.Processed, 0, 100)
        self.commits(70)
        self.down("c1")
        self.start("c1")
        self.by("c1", range_notes.ParallelRebalance(group=GROUP))
        self.rejoin("c1")
        self.own("c1")
        self.opens(70, 120)
        self.commits(120)
        self.starts(120, notes.JUMPED)
        self.by(BROKER, notes.RecordsAppended(topic=TOPIC, partition=0, base_offset=120, count=80))
        return self

    def found(self) -> list[Violation]:
        checker = CatchUpChecker(BOUND_US, {GROUP: 5 * SECOND})
        judged = judge(self.facts, ended_us=self.at_us, checkers=(checker,))
        return list(judged.violations)


def kinds(story: Told) -> list[str]:
    return [violation.kind for violation in story.found()]


def test_the_timeline_of_the_page_breaks_nothing() -> None:
    story = Told().recovered()
    story.did(range_notes.RangeProcessed, 70, 120)
    story.did(notes.Processed, 120, 130)
    story.second_commits(90)
    story.second_commits(120)
    story.commits(130)
    story.heal()
    story.wait(100)
    story.world()

    assert kinds(story) == []


def test_ranges_that_overlap_or_hold_nothing() -> None:
    overlapping, empty = Told().recovered(), Told().recovered()
    overlapping.opens(110, 150)
    empty.opens(130, 130)

    assert kinds(overlapping) == kinds(empty) == ["range-misplaced"]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(120, 200, []), (121, 200, ["range-misplaced"]), (120, 201, ["range-misplaced"]), (119, 200, ["range-misplaced"])],
)
def test_a_range_begins_where_both_commit_logs_end_and_ends_within_the_partition(
    start: int, end: int, found: list[str]
) -> None:
    """The first log says 120, and the last range ends there."""
    story = Told().recovered()
    story.opens(start, end)

    assert kinds(story) == found


def test_a_range_that_is_opened_again() -> None:
    """By the same member under the same generation that is a request that was repeated; by the next owner it is not."""
    again, by_the_next = Told().recovered(), Told().recovered()
    again.opens(70, 120)
    by_the_next.rejoin("c1")
    by_the_next.opens(70, 120)

    assert kinds(again) == []
    assert kinds(by_the_next) == ["range-misplaced"]


def test_a_range_that_its_coordinator_could_not_tell_of_is_told_by_the_next_one() -> None:
    """It stands in the log: committed() is where it begins, and the second consumer works on it."""
    told, never_told = Told(), Told()
    for story in (told, never_told):
        story.recovered()
        story.rejoin("c1")
        story.own("c1")
    told.loads((70, 120), (120, 200), position=told.log_end + 1)
    for story in (told, never_told):
        story.commits(200)
        story.starts(200, notes.JUMPED)
        story.did(range_notes.RangeProcessed, 70, 120)
        story.did(range_notes.RangeProcessed, 120, 200)
        story.second_commits(200)

    assert kinds(told) == []
    assert kinds(never_told) == ["outside-range"]


def test_a_range_that_only_the_log_tells_of_is_processed_too() -> None:
    """The coordinator reported the range only when it loaded the log. Without the report there is no range."""
    told, never_told = Told().recovered(), Told().recovered()
    told.loads((70, 120), (120, 200), position=told.log_end + 1)
    for story in (told, never_told):
        story.did(range_notes.RangeProcessed, 70, 120)
        story.second_commits(120)
        story.heal()
        story.wait(61)
        story.world()

    assert kinds(told) == ["range-left-open"]
    assert kinds(never_told) == []


def test_commits_that_do_not_rise() -> None:
    """J2; the same offset once more by the same member is a request that was repeated."""
    story = Told().recovered()
    story.did(range_notes.RangeProcessed, 70, 120)
    story.second_commits(90)
    story.second_commits(90)
    story.second_commits(80)

    assert kinds(story)[0] == "commit-not-rising"
    assert len([kind for kind in kinds(story) if kind == "commit-not-rising"]) == 1


def test_a_commit_of_what_nobody_processed() -> None:
    story = Told().recovered()
    story.did(range_notes.RangeProcessed, 70, 80)
    story.second_commits(105)

    (violation,) = story.found()
    assert violation.kind == "committed-unprocessed" and "100 to 104" in violation.text, "0 to 99 were done before"


def test_a_record_that_both_consumers_return() -> None:
    story = Told().recovered()
    story.did(range_notes.RangeProcessed, 70, 120)
    story.starts(120, notes.JUMPED)
    story.did(notes.Processed, 119, 125)

    assert kinds(story) == ["delivered-twice"]


def test_an_application_that_seeks_into_a_range_may_see_records_twice() -> None:
    story = Told().recovered()
    story.did(range_notes.RangeProcessed, 70, 120)
    story.starts(100, notes.SEEK)
    story.did(notes.Processed, 100, 125)

    assert kinds(story) == []


def test_work_outside_of_ranges_and_without_ownership() -> None:
    outside, foreign = Told().recovered(), Told().recovered()
    outside.did(range_notes.RangeProcessed, 115, 125)
    foreign.by("c1", notes.PartitionsLost(group=GROUP, member_id=foreign.ids["c1"], lost=((TOPIC, 0),)))
    foreign.did(range_notes.RangeProcessed, 70, 80)

    assert kinds(outside) == kinds(foreign) == ["outside-range"]


@pytest.mark.parametrize(
    ("opens", "commits", "starts", "why", "found"),
    [
        ((120, 200), 200, 200, notes.JUMPED, []),
        (None, None, 120, notes.COMMITTED, ["not-jumped"]),
        ((120, 199), 199, 199, notes.JUMPED, ["not-jumped"]),
        ((120, 200), None, 200, notes.JUMPED, ["not-jumped"]),  # its end is not committed
        (None, None, 0, "reset", []),
    ],
)
def test_who_owns_a_partition_anew_begins_at_the_end_that_the_log_had(
    opens: tuple[int, int] | None, commits: int | None, starts: int, why: str, found: list[str]
) -> None:
    """KIP-333: what lies between the commit and the end is a range, and the end is committed."""
    story = Told().recovered()
    story.rejoin("c1")
    story.own("c1")
    if opens is not None:
        story.opens(*opens)
    if commits is not None:
        story.commits(commits)
    story.starts(starts, why)

    assert kinds(story) == found


@pytest.mark.parametrize(
    ("commits_s", "error", "found"), [(None, False, ["second-uncommitted"]), (9, False, []), (None, True, [])]
)
def test_the_second_consumer_commits_within_its_interval(commits_s: int | None, error: bool, found: list[str]) -> None:
    """``auto.commit.interval.ms`` is 5 s here; a fault that hits the member stops the clock."""
    story = Told().recovered()
    story.become("Stable")
    story.did(range_notes.RangeProcessed, 70, 100)
    if error:
        story.world(FaultApplied(index=0, kind="isolate", text="", links=(("c1", ""),), lasts=True))
    if commits_s is not None:
        story.wait(commits_s)
        story.second_commits(100)
        story.wait(16 - commits_s)
    else:
        story.wait(16)
    story.did(range_notes.RangeProcessed, 100, 110)

    assert kinds(story) == found


def test_a_reset_within_an_ownership_returns_records_again() -> None:
    """The partition lost its end, so the position was out of range; one that begins an ownership excuses nothing."""
    story = Told().recovered()
    story.did(range_notes.RangeProcessed, 70, 120)
    story.starts(0, "reset")
    story.did(notes.Processed, 0, 120)
    assert kinds(story) == []

    story = Told().recovered()
    story.rejoin("c1")
    story.own("c1")
    story.starts(0, "reset")
    story.did(range_notes.RangeProcessed, 70, 120)
    story.did(notes.Processed, 0, 120)
    assert kinds(story) == ["delivered-twice"]


def test_a_range_that_nobody_works_off() -> None:
    """J4, within the bound from when all is well; retention counts as work, and closes what it took."""
    owned, unowned = Told().recovered(), Told().recovered()
    unowned.lose("c1")
    for story in (owned, unowned):
        story.heal()
        story.wait(61)
        story.world()

    assert kinds(owned) == ["range-left-open"]
    assert kinds(unowned) == []  # ``liveness`` requires an owner


def test_a_range_that_was_worked_off_and_whose_commit_the_log_lost() -> None:
    """The range's owner reports nothing more about the range. The next owner must process the range again."""
    worked, only_read, by_the_next = Told(), Told(), Told()
    for story in (worked, only_read, by_the_next):
        story.recovered()
        story.did(range_notes.RangeProcessed, 70, 120)
        if story is not only_read:
            story.second_commits(120)
        story.world(DiskTailLost(host=BROKER, log=f"{OFFSETS_TOPIC}-0", records=2, end_offset=4))
        story.loads((70, 120), position=3)
        if story is by_the_next:
            story.down("c1")
            story.start("c1")
            story.by("c1", range_notes.ParallelRebalance(group=GROUP))
            story.rejoin("c1")
            story.own("c1")
        story.heal()
        story.wait(61)
        story.world()

    assert kinds(worked) == []
    assert kinds(only_read) == kinds(by_the_next) == ["range-left-open"]


LOST_TAIL = DiskTailLost(host=BROKER, log=f"{OFFSETS_TOPIC}-0", records=1, end_offset=-1)


def test_a_commit_that_the_log_may_have_lost_is_made_again_by_the_next_owner() -> None:
    """The log still has the commit, but its writer may be any member, as seed 56703 of the swarm showed."""
    lost, kept = Told().recovered(), Told().recovered()
    for story in (lost, kept):
        story.did(range_notes.RangeProcessed, 70, 120)
        story.second_commits(120)
    lost.world(LOST_TAIL)
    lost.loads((70, 120), position=lost.log_end, second_offset=120)
    for story in (lost, kept):
        story.rejoin("c1")
        story.own("c1")
        story.second_commits(120)

    assert kinds(lost) == []
    assert kinds(kept) == ["commit-not-rising"]


def test_the_second_consumer_works_on_while_it_has_yet_to_hear_that_the_log_lost_its_range() -> None:
    """The groups' log is lost; the owner continues, and works only on the range."""
    on, beside = Told().recovered(), Told().recovered()
    for story in (on, beside):
        story.world(LOST_TAIL)
    on.did(range_notes.RangeProcessed, 70, 90)
    beside.did(range_notes.RangeProcessed, 115, 125)

    assert kinds(on) == []
    assert kinds(beside) == ["outside-range"]


def test_a_commit_goes_back_to_where_its_partition_was_cut() -> None:
    """The member that recovers says first that the log ends there now."""
    cut, not_told = Told().recovered(), Told().recovered()
    for story in (cut, not_told):
        story.down("c1")
        story.start("c1")
        story.by("c1", range_notes.ParallelRebalance(group=GROUP))
        story.rejoin("c1")
        story.own("c1")
    cut.by(BROKER, notes.PartitionHosted(topic=TOPIC, partition=0, end_offset=40))
    cut.starts(40, notes.TRUNCATED)
    for story in (cut, not_told):
        story.opens(40, 60)
        story.commits(60)
        story.starts(60, notes.JUMPED)

    def of_commits(story: Told) -> list[str]:
        judged = judge(story.facts, ended_us=story.at_us, checkers=(CommitsChecker(),))
        return [violation.kind for violation in judged.violations]

    assert of_commits(cut) == []
    assert of_commits(not_told) == ["went-back"]


def test_what_retention_took_counts_as_done() -> None:
    story = Told().recovered()
    story.by("c1", range_notes.RangeTrimmed(group=GROUP, topic=TOPIC, partition=0, first=70, last=120))
    story.second_commits(120)

    assert kinds(story) == []


def test_every_kind_is_shown_here() -> None:
    assert len(kinds_by_checker()["catch-up"]) == 8
