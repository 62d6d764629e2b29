"""A wait of a partition without service is bounded by the settings in force; nothing is asked of whom a fault hits."""

from kemu.emulator.checkers.interruptions import BoundedWaits, Timeouts
from kemu.emulator.facts import FaultApplied, FaultEnded, HostDown, HostStarted
from kemu.emulator.judging import Judging
from kemu.protocol.notes.groups import (
    MemberAdded,
    MemberBecame,
    PartitionHosted,
    PositionSet,
    Processed,
    RecordsAppended,
)
from tests.emulator.checkers.cluster_story import STORE, ClusterStory
from tests.emulator.metrics.test_metrics import MS, T0, T1, Told

TIMEOUTS = Timeouts(session_us=6_000 * MS, poll_us=10_000 * MS, request_us=5_000 * MS, replica_lag_us=5_000 * MS)
SLACK_MS = 15_000


class Group(Told):
    """b0 coordinates and leads; c1 owns t-0 and t-1 from second 2 on; c2 runs, too."""

    def __init__(self) -> None:
        super().__init__()
        self.checker = BoundedWaits(TIMEOUTS)
        self.judging = Judging((self.checker,))
        for host in ("b0", "c1", "c2"):
            self.at(0, "", HostStarted(host=host, life=1, kept_disk=True))
        for partition in (0, 1):
            self.at(0, "b0", PartitionHosted(topic="t", partition=partition, end_offset=0))
        self.joins(900, "c1")
        self.rebalanced(1_000, 1_500, 1, "c1")
        self.becomes(1_900, "c1", "PREPARING_REBALANCE", "STABLE")
        self.assigned(2_000, "c1", 1, T0, T1)
        self.positioned(2_100, "c1", 0)
        self.positioned(2_100, "c1", 1)

    def positioned(self, at_ms: int, actor: str, partition: int) -> None:
        fact = PositionSet(group="g", member_id=actor, topic="t", partition=partition, offset=0, why="committed")
        self.at(at_ms, actor, fact)

    def joins(self, at_ms: int, actor: str) -> None:
        """It sends JoinGroup under its own name as its id."""
        self.becomes(at_ms, actor, "UNJOINED", "PREPARING_REBALANCE")

    def becomes(self, at_ms: int, actor: str, old: str, new: str) -> None:
        self.at(at_ms, actor, MemberBecame(group="g", member_id=actor, old=old, new=new, generation=0, why=""))

    def append(self, at_ms: int, partition: int, base_offset: int, count: int = 1) -> None:
        fact = RecordsAppended(topic="t", partition=partition, base_offset=base_offset, count=count)
        self.at(at_ms, "b0", fact)

    def work(self, at_ms: int, partition: int, first: int, last: int, began_ms: int | None = None) -> None:
        fact = Processed(
            group="g", member_id="c1", generation=1, topic="t", partition=partition,
            first=first, last=last, started_us=(at_ms if began_ms is None else began_ms) * MS,
        )  # fmt: skip
        self.at(at_ms, "c1", fact)

    def found(self, at_ms: int) -> list[str]:
        self.judging.finish(at_ms * MS)
        return [violation.text for violation in self.checker.violations]


# --- the join phase ----------------------------------------------------------------------------------------------


def joined_by_all() -> Group:
    told = Group()
    told.joins(10_000, "c2")
    told.became(10_010, "Stable", "PreparingRebalance", 1)
    told.at(10_010, "b0/c", MemberAdded(group="g", member_id="c2", client_id="c2", instance_id=None))
    told.joins(11_000, "c1")
    return told


def test_a_join_phase_that_all_have_joined_and_that_goes_on_is_unexplained() -> None:
    told = joined_by_all()

    (text,) = told.found(11_000 + 3_000 + SLACK_MS + 1_000)

    assert text.startswith("group g waits for the join phase to complete since 11 s")


def test_a_join_phase_that_waits_for_a_member_that_is_busy_is_none() -> None:
    """c1 works on records for less than max.poll.interval.ms."""
    told = Group()
    told.joins(10_000, "c2")
    told.became(10_010, "Stable", "PreparingRebalance", 1)
    told.at(10_010, "b0/c", MemberAdded(group="g", member_id="c2", client_id="c2", instance_id=None))

    assert told.found(10_000 + 10_000 + SLACK_MS) == []


def test_a_join_phase_is_not_asked_to_complete_while_a_fault_hits_a_member() -> None:
    told = joined_by_all()
    told.at(11_500, "", FaultApplied(index=0, kind="isolate", text="c1 is cut off", links=(("c1", ""),), lasts=True))
    told.append(50_000, 0, 0)
    told.at(51_000, "", FaultEnded(index=0, kind="isolate"))

    assert told.found(51_000 + SLACK_MS) == []


# --- sessions ----------------------------------------------------------------------------------------------------


def test_a_member_that_is_down_and_keeps_its_partitions_beyond_its_session_is_unexplained() -> None:
    told = Group()
    told.at(10_000, "", HostDown(host="c1", life=1, how="power"))

    texts = told.found(10_000 + 6_000 + SLACK_MS + 1_000)

    assert [text.partition(" since")[0] for text in texts] == [
        f"t-{number} in g waits for the session of a member that is down to end (c1)" for number in (0, 1)
    ]


def test_a_session_that_lasts_no_longer_than_its_timeout_is_none() -> None:
    told = Group()
    told.at(10_000, "", HostDown(host="c1", life=1, how="power"))

    assert told.found(10_000 + 6_000 + SLACK_MS) == []


# --- records -----------------------------------------------------------------------------------------------------


def test_records_that_wait_for_an_owner_that_is_idle_are_unexplained() -> None:
    """t-1 is read on and on, t-0 never."""
    told = Group()
    told.append(3_000, 0, 0)
    for second in range(3, 40):
        told.append(second * 1_000 + 100, 1, second - 3)
        told.work(second * 1_000 + 200, 1, second - 3, second - 2)

    (text,) = told.found(40_000)

    assert text.startswith("t-0 in g waits for the first records (c1)")


def test_records_that_wait_while_their_owner_works_off_another_partition_are_none() -> None:
    """All the records of t-1 came before, and c1 is at them still."""
    told = Group()
    told.append(3_000, 0, 0)
    told.append(3_000, 1, 0, 1_000)
    for second in range(3, 40):
        told.work(second * 1_000 + 200, 1, second - 3, second - 2)
        told.append(second * 1_000 + 500, 1, 1_000 + second)

    assert told.found(40_000) == []


def test_records_that_wait_while_their_owner_works_for_long_between_two_polls_are_none() -> None:
    """Each poll's work is shorter than max.poll.interval.ms, and c1 has caught up with t-1 after each."""
    told = Group()
    told.append(3_000, 0, 0)
    for number in range(6):
        began_ms = 3_100 + number * 9_000
        told.append(began_ms, 1, number)
        told.work(began_ms + 8_500, 1, number, number + 1, began_ms=began_ms)

    assert told.found(57_000) == []


# --- min ISR -----------------------------------------------------------------------------------------------------


def below_min_isr() -> ClusterStory:
    """b1 leads t-0 alone, though b0 and b2 run and min.insync.replicas is 2."""
    story = ClusterStory(min_isr=2)
    story.start(STORE)
    story.write_state(1, (0, 1, 2))
    story.lead(1)
    story.wait(60)
    story.write_state(1, (1,), client="b1")
    return story


def found(story: ClusterStory) -> list[str]:
    checker = BoundedWaits(TIMEOUTS)
    story.judged(checker)
    return [violation.kind for violation in checker.violations]


def test_a_partition_that_stays_below_min_isr_though_all_its_replicas_run_is_unexplained() -> None:
    story = below_min_isr()
    story.wait(60)
    story.heal()

    assert found(story) == ["unexplained"]


def test_a_partition_below_min_isr_whose_follower_copies_records_is_none() -> None:
    story = below_min_isr()
    for second in range(12):
        story.wait(5)
        story.copy(0, second, 1)
    story.heal()

    assert found(story) == []
