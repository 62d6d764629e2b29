"""What a run cost, from facts written by hand."""

import json
from typing import Any

import pytest

from kemu.emulator.facts import HostDown, HostPaused, HostResumed, Seen
from kemu.emulator.judging import Judging
from kemu.emulator.metrics import waiting
from kemu.emulator.metrics.figures import Figures, LagFigures, RebalanceFigures, RecordFigures, plain
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.consumer_groups import GroupConverted
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    CommitAnswered,
    EpochRead,
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    JoinPhaseCompleted,
    MemberFailed,
    OffsetCommitted,
    PartitionHosted,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    PositionSet,
    Processed,
    ProduceFailed,
    RecordsAcknowledged,
    RecordsAppended,
)
from kemu.protocol.notes.replication import BecameLeader, RecordsReplicated

MS = 1_000
T0, T1 = ("t", 0), ("t", 1)


class Told:
    """Facts told one by one, at times in milliseconds."""

    def __init__(self) -> None:
        self.judging = Judging(())
        self.seq = 0
        self.lives: dict[str, int] = {}

    def at(self, at_ms: int, actor: str, *facts: Any) -> "Told":
        for fact in facts:
            self.seq += 1
            self.judging.see(Seen(self.seq, at_ms * MS, actor, self.lives.get(actor, 1), fact))
        return self

    def report(self, at_ms: int) -> Figures:
        figures = self.judging.finish(at_ms * MS).figures
        as_data = plain(figures)
        assert json.loads(json.dumps(as_data)) == as_data
        return figures

    # --- what coordinators and members say ---------------------------------------------------------------------

    def became(self, at_ms: int, old: str, new: str, generation: int, why: str = "", actor: str = "b0/c") -> None:
        self.at(at_ms, actor, GroupBecame(group="g", old=old, new=new, generation=generation, why=why))

    def joined(self, at_ms: int, generation: int, *members: str, actor: str = "b0/c") -> None:
        self.at(
            at_ms,
            actor,
            JoinPhaseCompleted(group="g", generation=generation, protocol="range", leader=members[0], members=members),
        )

    def rebalanced(self, from_ms: int, until_ms: int, generation: int, *members: str, why: str = "") -> None:
        """One round: Preparing at the first moment, complete and Stable at the second."""
        self.became(from_ms, "Stable" if generation > 1 else "Empty", "PreparingRebalance", generation - 1, why)
        self.joined(until_ms, generation, *members)
        self.became(until_ms, "PreparingRebalance", "CompletingRebalance", generation)
        self.became(until_ms, "CompletingRebalance", "Stable", generation)

    def assigned(self, at_ms: int, actor: str, generation: int, *partitions: TopicPartition) -> None:
        """It received these and starts to serve them."""
        self.received(at_ms, actor, generation, *partitions)
        fact = PartitionsAssigned(group="g", member_id=actor, generation=generation, added=partitions, owned=partitions)
        self.at(at_ms, actor, fact)

    def received(self, at_ms: int, actor: str, generation: int, *partitions: TopicPartition) -> None:
        fact = AssignmentReceived(group="g", member_id=actor, generation=generation, partitions=partitions)
        self.at(at_ms, actor, fact)

    def revoked(self, at_ms: int, actor: str, generation: int, *partitions: TopicPartition) -> None:
        fact = PartitionsRevoked(group="g", member_id=actor, generation=generation, revoked=partitions, owned=())
        self.at(at_ms, actor, fact)

    def processed(self, at_ms: int, actor: str, generation: int, first: int, last: int) -> None:
        fact = Processed(
            group="g",
            member_id=actor,
            generation=generation,
            topic="t",
            partition=0,
            first=first,
            last=last,
            started_us=at_ms * MS,
        )
        self.at(at_ms, actor, fact)

    def appended(self, at_ms: int, base_offset: int, count: int) -> None:
        self.at(at_ms, "b0", RecordsAppended(topic="t", partition=0, base_offset=base_offset, count=count))

    def copied(self, at_ms: int, actor: str, count: int) -> None:
        """A follower has the first records of epoch 0."""
        self.at(
            at_ms,
            actor,
            RecordsReplicated(topic="t", partition=0, base_offset=0, count=count, leader_epoch=0, life=1),
        )

    def leads(self, at_ms: int, actor: str, epoch: int, end: int, *epochs: tuple[int, int]) -> None:
        fact = BecameLeader(
            topic="t", partition=0, leader_epoch=epoch, isr=(), end_offset=end, high_watermark=0, epochs=epochs
        )
        self.at(at_ms, actor, fact)

    def acknowledged(self, at_ms: int, base_offset: int, count: int) -> None:
        self.at(at_ms, "p1", RecordsAcknowledged(topic="t", partition=0, base_offset=base_offset, count=count))

    def committed(self, at_ms: int, offset: int, generation: int = 1) -> None:
        fact = OffsetCommitted(group="g", topic="t", partition=0, offset=offset, generation=generation, member_id="c1")
        self.at(at_ms, "b0/c", fact)

    def position(self, at_ms: int, actor: str, offset: int, why: str) -> None:
        fact = PositionSet(group="g", member_id=actor, topic="t", partition=0, offset=offset, why=why)
        self.at(at_ms, actor, fact)


# --- rebalances ----------------------------------------------------------------------------------------------------


def test_a_rebalance_lasts_from_calm_to_calm_whatever_happens_in_between():
    """One row per time the group was not Stable or Empty; its generation is the last, its reason the first."""
    told = Told()
    told.became(100, "Empty", "PreparingRebalance", 0, "c1 joined")
    told.joined(3_100, 1, "c1")
    told.became(3_100, "PreparingRebalance", "CompletingRebalance", 1)
    told.became(3_150, "CompletingRebalance", "PreparingRebalance", 1, "c2 joined")
    told.joined(3_300, 2, "c1", "c2")
    told.became(3_300, "PreparingRebalance", "CompletingRebalance", 2)
    told.became(3_350, "CompletingRebalance", "Stable", 2)
    told.became(9_000, "Stable", "PreparingRebalance", 2, "c2 left")
    report = told.report(9_500)

    assert report.rebalances == (
        RebalanceFigures(
            group="g",
            generation=2,
            reason="c1 joined",
            started_us=100 * MS,
            ended_us=3_350 * MS,
            members=2,
            rounds=2,
            moved=0,
            stop_the_world_us=0,
            protocol="classic",
        ),
        RebalanceFigures(
            group="g",
            generation=2,
            reason="c2 left",
            started_us=9_000 * MS,
            ended_us=None,
            members=0,
            rounds=0,
            moved=0,
            stop_the_world_us=0,
            protocol="classic",
        ),
    )
    assert report.groups["g"].first_stable_us == 3_350 * MS
    assert report.groups["g"].rebalances == 2


def test_rebalances_and_downtime_name_the_protocol_at_their_start() -> None:
    """A conversion changes the protocol of what begins later; downtime before the first rebalance has none."""
    told = Told()
    told.assigned(0, "c1", 1, T0)
    told.revoked(100, "c1", 1, T0)
    told.assigned(200, "c1", 1, T0)
    told.rebalanced(1_000, 1_100, 1, "c1")
    told.revoked(2_000, "c1", 1, T0)
    told.at(2_500, "b0/c", GroupConverted(group="g", protocol="consumer", state="Stable", generation=1, members=()))
    told.assigned(3_000, "c1", 1, T0)
    told.became(4_000, "Stable", "Assigning", 2)
    told.revoked(4_000, "c1", 2, T0)
    report = told.report(5_000)

    assert [row.protocol for row in report.rebalances] == ["classic", "consumer"]
    assert [(row.from_us // MS, row.protocol) for row in report.downtime] == [
        (100, None),
        (2_000, "classic"),
        (4_000, "consumer"),
    ]


def test_a_partition_moved_when_another_client_received_it():
    """First assignments, kept partitions and a client that came back with a new id move nothing."""
    told = Told()
    told.rebalanced(0, 10, 1, "c1-1")
    told.assigned(11, "c1", 1, T0, T1)
    told.rebalanced(100, 110, 2, "c1-1", "c2-1")
    told.received(111, "c1", 2, T0)
    told.received(111, "c2", 2, T1)
    told.at(200, "", HostDown(host="c1", life=1, how="power"))
    told.lives["c1"] = 2
    told.rebalanced(300, 310, 3, "c1-2", "c2-1")
    told.received(311, "c1", 3, T0)
    told.received(311, "c2", 3, T1)
    told.received(312, "c9", 2, T0)  # the late news of an old generation

    assert [row.moved for row in told.report(400).rebalances] == [0, 1, 0]


def test_a_group_that_everybody_left_ends_its_rebalance_empty():
    """PreparingRebalance -> Empty."""
    told = Told()
    told.rebalanced(0, 10, 1, "c1")
    told.became(100, "Stable", "PreparingRebalance", 1, "c1 left")
    told.became(101, "PreparingRebalance", "Empty", 2)
    (_, row) = told.report(200).rebalances

    assert (row.ended_us, row.members, row.generation) == (101 * MS, 0, 2)


def test_a_rebalance_goes_on_at_the_next_coordinator():
    """The old one's facts count no more once another one loaded the group."""
    told = Told()
    told.rebalanced(0, 10, 1, "c1")
    told.became(100, "Stable", "PreparingRebalance", 1, "c2 joined")
    told.at(150, "", HostDown(host="b0", life=1, how="power"))
    told.at(200, "b1/c", GroupLoaded(group="g", state="Stable", generation=1, members=("c1",)))
    told.became(205, "PreparingRebalance", "CompletingRebalance", 9, actor="b0/c")  # a zombie's
    told.became(210, "Stable", "PreparingRebalance", 1, "c1 rejoined", actor="b1/c")
    told.joined(220, 2, "c1", "c2", actor="b1/c")
    told.became(230, "CompletingRebalance", "Stable", 2, actor="b1/c")
    rows = told.report(300).rebalances

    assert [(row.reason, row.started_us, row.ended_us) for row in rows[1:]] == [("c2 joined", 100 * MS, 230 * MS)]
    assert rows[1].generation == 2


def test_a_group_that_came_back_calm_and_stayed_so_was_calm_from_its_load_on():
    """Nobody rejoined at the new coordinator."""
    told = Told()
    told.rebalanced(0, 10, 1, "c1")
    told.became(100, "Stable", "PreparingRebalance", 1, "c2 joined")
    told.became(150, "PreparingRebalance", "Dead", 1, "unloaded")
    told.at(150, "b0/c", GroupUnloaded(group="g"))
    told.at(200, "b1/c", GroupLoaded(group="g", state="Stable", generation=1, members=("c1",)))

    assert told.report(300).rebalances[1].ended_us == 200 * MS


# --- downtime ------------------------------------------------------------------------------------------------------


def test_downtime_is_the_time_without_anybody_who_serves_after_the_first_assignment():
    """From revoked to assigned; a partition that nobody served yet has no row."""
    told = Told()
    told.assigned(1_000, "c1", 1, T0, T1)
    told.revoked(2_000, "c1", 1, T0)
    told.assigned(2_300, "c2", 2, T0)
    told.revoked(5_000, "c2", 2, T0)

    assert told.report(6_000).downtime_us == {"g/t-0": (300 + 1_000) * MS, "g/t-1": 0}


def test_two_owners_are_one_too_many_but_no_downtime():
    """A zombie keeps what another member was given; the partition is down when the last of them is gone."""
    told = Told()
    told.assigned(1_000, "c1", 1, T0)
    told.assigned(2_000, "c2", 2, T0)
    told.at(3_000, "c1", PartitionsLost(group="g", member_id="c1", lost=(T0,)))
    told.at(4_000, "", HostDown(host="c2", life=1, how="process"))

    assert told.report(4_500).downtime_us == {"g/t-0": 500 * MS}


def test_a_host_that_is_down_or_stands_still_and_a_member_that_failed_serve_nothing():
    """HostDown, HostPaused until HostResumed, MemberFailed."""
    told = Told()
    told.assigned(0, "c1", 1, T0)
    told.assigned(0, "c2", 1, T1)
    told.at(1_000, "", HostPaused(host="c1"))
    told.at(1_500, "", HostResumed(host="c1"))
    told.at(2_000, "", HostDown(host="c1", life=1, how="power"))
    told.lives["c1"] = 2
    told.assigned(2_250, "c1", 2, T0)
    failed = MemberFailed(group="g", member_id="c2", error=ErrorCode.FENCED_INSTANCE_ID, why="fenced")
    told.at(2_600, "c2", failed)

    assert told.report(3_000).downtime_us == {"g/t-0": 750 * MS, "g/t-1": 400 * MS}


def test_what_a_paused_member_gives_up_late_is_not_ended_twice():
    """It is paused, another one takes over, it resumes and learns that it lost."""
    told = Told()
    told.assigned(0, "c1", 1, T0)
    told.at(1_000, "", HostPaused(host="c1"))
    told.assigned(1_400, "c2", 2, T0)
    told.at(2_000, "", HostResumed(host="c1"))
    told.at(2_000, "c1", PartitionsLost(group="g", member_id="c1", lost=(T0,)))

    assert told.report(3_000).downtime_us == {"g/t-0": 400 * MS}


def test_the_world_stops_when_nobody_serves_anything_and_the_rebalance_bears_it():
    """An eager rebalance: everything is revoked, then assigned; only the part since the rebalance began counts."""
    told = Told()
    told.rebalanced(0, 10, 1, "c1", "c2")
    told.assigned(20, "c1", 1, T0)
    told.assigned(20, "c2", 1, T1)
    told.revoked(90, "c1", 1, T0)
    told.became(100, "Stable", "PreparingRebalance", 1, "c3 joined")
    told.revoked(130, "c2", 1, T1)
    told.joined(150, 2, "c1", "c2", "c3")
    told.became(160, "CompletingRebalance", "Stable", 2)
    told.assigned(165, "c2", 2, T1)
    told.assigned(170, "c1", 2, T0)
    (first, second) = told.report(1_000).rebalances

    assert first.stop_the_world_us == 0
    assert second.stop_the_world_us == 35 * MS


# --- records -------------------------------------------------------------------------------------------------------


def test_records_processed_again_are_reprocessed_each_time():
    """Counted per processing beyond the first."""
    told = Told()
    told.appended(0, 0, 100)
    told.processed(10, "c1", 1, 0, 50)
    told.processed(20, "c2", 2, 30, 80)
    told.processed(30, "c3", 3, 40, 60)
    report = told.report(40)

    assert report.reprocessed == 20 + 20
    assert report.records.processed == 120
    assert report.groups["g"].reprocessed == 40


def test_records_committed_and_processed_by_nobody_are_lost():
    """Below the committed offset, above the group's start, in the log."""
    told = Told()
    told.appended(0, 0, 100)
    told.position(1, "c1", 10, "reset")
    told.processed(10, "c1", 1, 10, 40)
    told.committed(20, 60)
    report = told.report(40)

    assert (report.lost, report.acknowledged_lost, report.skipped) == (20, 0, 10)


def left_out(why: str) -> tuple[int, int]:
    told = Told()
    told.appended(0, 0, 100)
    told.position(1, "c1", 5, "reset")
    told.processed(10, "c1", 1, 5, 20)
    told.committed(11, 20)
    told.position(12, "c1", 30, why)
    told.processed(13, "c1", 1, 30, 50)
    told.committed(14, 50)
    told.committed(15, 75, generation=-1)
    report = told.report(40)
    return report.lost, report.skipped


def test_records_left_out_by_the_first_position_a_seek_or_an_operator_are_skipped_and_not_lost():
    assert left_out("seek") == (0, 5 + 10 + 25)


def test_records_left_out_by_a_reset_of_a_position_that_the_log_has_are_lost():
    assert left_out("reset") == (10, 5 + 25)


def test_acknowledged_records_that_a_log_lost_are_lost_and_their_offsets_are_new():
    """The disk's tail is gone at the restart: PartitionHosted with an earlier end."""
    told = Told()
    told.appended(0, 0, 100)
    told.at(1, "p1", RecordsAcknowledged(topic="t", partition=0, base_offset=0, count=100))
    told.processed(2, "c1", 1, 0, 100)
    told.lives["b0"] = 2
    told.at(3, "b0", PartitionHosted(topic="t", partition=0, end_offset=70))
    told.appended(4, 70, 10)
    told.at(5, "p1", RecordsAcknowledged(topic="t", partition=0, base_offset=70, count=10))
    told.processed(6, "c1", 1, 70, 80)
    told.at(7, "p1", ProduceFailed(topic="t", partition=0, count=3, error=ErrorCode.REQUEST_TIMED_OUT, definite=False))
    report = told.report(10)

    assert (report.acknowledged_lost, report.lost, report.reprocessed) == (30, 30, 0)
    assert report.records == RecordFigures(appended=110, acknowledged=110, failed=3, processed=110)


def test_what_a_new_leader_does_not_have_is_lost_and_nobody_has_processed_it():
    """An unclean election: other records come at these offsets, and to process them is no duplicate."""
    told = Told()
    told.leads(0, "b0", 0, 0, (0, 0))
    told.appended(1, 0, 100)
    told.acknowledged(2, 0, 100)
    told.position(2, "c1", 0, "reset")
    told.processed(3, "c1", 1, 0, 100)
    told.committed(4, 100)
    told.copied(5, "b1", 60)
    told.leads(5, "b1", 2, 60, (0, 0), (2, 60))
    told.at(6, "b1", RecordsAppended(topic="t", partition=0, base_offset=60, count=30))
    told.acknowledged(6, 60, 30)
    told.position(7, "c1", 60, "truncated")
    told.at(7, "c1", EpochRead(topic="t", partition=0, offset=60, leader_epoch=2, life=1))
    told.processed(8, "c1", 1, 60, 90)
    told.committed(9, 90)
    report = told.report(10)

    assert (report.acknowledged_lost, report.lost, report.reprocessed) == (40, 40, 0)
    assert (report.delay.records, report.delay.max_us) == (30, 2 * MS), (
        "those from before the position are nobody's delay"
    )
    lag = LagFigures("g", "t", 0, end_offset=90, committed=90, lag=0, max_lag=100, lag_us=0, max_lag_us=2 * MS)
    assert report.lag == (lag,)


def test_a_log_of_equal_length_with_other_records_is_another_log():
    """What parts two logs is the epoch that wrote a record, not how many there are."""
    told = Told()
    told.leads(0, "b0", 1, 50, (0, 0), (1, 50))
    told.appended(1, 50, 30)
    told.acknowledged(2, 50, 30)
    told.leads(3, "b1", 4, 80, (0, 0), (3, 40), (4, 80))

    assert told.report(4).acknowledged_lost == 30


def test_work_on_records_that_are_lost_meanwhile_does_not_make_the_new_ones_duplicates():
    """A member reports what it had fetched before the election after it."""
    told = Told()
    told.leads(0, "b0", 0, 0, (0, 0))
    told.appended(1, 0, 100)
    told.position(2, "c1", 0, "reset")
    told.leads(3, "b1", 2, 60, (0, 0), (2, 60))
    told.processed(4, "c1", 1, 0, 100)
    told.at(5, "b1", RecordsAppended(topic="t", partition=0, base_offset=60, count=30))
    told.position(6, "c1", 60, "truncated")
    told.at(7, "c1", EpochRead(topic="t", partition=0, offset=60, leader_epoch=2))
    told.processed(8, "c1", 1, 60, 90)
    report = told.report(10)

    assert (report.reprocessed, report.records.processed) == (0, 130)


def test_what_a_deposed_leader_appends_is_in_no_log_that_counts():
    """It does not know yet; the log's end and the lag are its successor's."""
    told = Told()
    told.leads(0, "b0", 0, 0, (0, 0))
    told.appended(1, 0, 10)
    told.position(2, "c1", 0, "reset")
    told.leads(3, "b1", 1, 10, (0, 0), (1, 10))
    told.appended(4, 10, 500)
    told.acknowledged(5, 10, 500)
    report = told.report(6)

    assert (report.lag[0].end_offset, report.lag[0].max_lag, report.acknowledged_lost) == (10, 10, 500)


def test_a_zombie_processes_what_another_member_received_in_a_later_generation():
    """Its own earlier generation, somebody else's later one; a member that kept its partition is none."""
    told = Told()
    told.received(0, "c1", 1, T0)
    told.processed(1, "c1", 1, 0, 10)
    told.received(2, "c2", 2, T0)
    told.processed(3, "c1", 1, 10, 15)
    told.processed(4, "c2", 2, 10, 20)
    told.received(5, "c2", 3, T0)
    told.processed(6, "c2", 2, 20, 30)

    assert told.report(10).zombie_records == 5


def test_lag_is_the_end_minus_what_is_committed_or_the_start():
    """At its worst and at the end; a group without a position has none."""
    told = Told()
    told.appended(0, 0, 40)
    told.received(1, "c1", 1, T0)
    told.appended(2, 40, 10)
    told.position(3, "c1", 30, "reset")
    told.appended(4, 50, 25)
    told.committed(5, 60)
    told.appended(6, 75, 5)
    report = told.report(10)

    assert report.lag == (
        LagFigures(
            group="g",
            topic="t",
            partition=0,
            end_offset=80,
            committed=60,
            lag=20,
            max_lag=45,
            lag_us=10 * MS,
            max_lag_us=10 * MS,
        ),
    )
    assert report.groups["g"].lag == 20


def test_commits_are_counted_when_durable_and_when_refused():
    """OffsetCommitted per partition; CommitAnswered with an error."""
    told = Told()
    told.committed(0, 5)
    told.committed(1, 6)
    for error in (ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION):
        told.at(2, "c1", CommitAnswered(group="g", member_id="c1", generation=1, error=error))
    group = told.report(10).groups["g"]

    assert (group.commits, group.commits_failed) == (2, 1)


@pytest.mark.parametrize("preset", ["catch-up-timeline", "slow-consumer"])
def test_figures_do_not_depend_on_the_time_at_which_batches_are_forgotten(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jumps and skips need append times below the frontier."""
    figures = []
    for batches in (0, 1_000_000):
        monkeypatch.setattr(waiting, "_FORGET", batches)
        figures.append(run(load_scenario(preset), seed=1, loop="bare").figures)

    assert figures[0] == figures[1]
