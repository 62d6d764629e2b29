"""Downtime, service lost, delays and lag: from facts written by hand, and in whole runs with slow callbacks."""

from random import Random

import attrs
import pytest

from kemu.emulator.facts import HostDown, HostPaused, HostResumed, HostStarted, TopicReplicated
from kemu.emulator.metrics.figures import DowntimeFigures, Figures
from kemu.emulator.metrics.freshness import Freshness
from kemu.emulator.metrics.service import service_lost
from kemu.emulator.metrics.spread import WeightedSpread
from kemu.emulator.plan.actions import AddMembers
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import run
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.watching.interruptions import Cause, waited_us
from kemu.protocol.nodes import (
    PartitionState,
    ReplicaAssignment,
    broker_path,
    state_data,
    state_path,
    topic_data,
    topic_path,
)
from kemu.protocol.notes.groups import CallbackReturned, PartitionHosted, PartitionsRevoked, Processed
from kemu.protocol.notes.replication import NodeWritten
from tests.emulator.metrics.test_metrics import MS, T0, T1, Told

SECOND = 1_000_000


class Group(Told):
    """c1 owns t-0 and has its position from second 1 on; ten records come at 1.5 s and are processed by 1.6 s."""

    def __init__(self) -> None:
        super().__init__()
        self.rebalanced(0, 900, 1, "c1")
        self.assigned(1_000, "c1", 1, T0)
        self.position(1_000, "c1", 0, "committed")
        self.appended(1_500, 0, 10)
        self.worked(1_600, "c1", 0, 10)

    def worked(self, at_ms: int, actor: str, first: int, last: int, began_ms: int | None = None) -> None:
        """Work from ``began_ms`` (50 ms before) to ``at_ms``."""
        began_us = (at_ms - 50 if began_ms is None else began_ms) * MS
        fact = Processed(
            group="g", member_id=actor, generation=1, topic="t", partition=0,
            first=first, last=last, started_us=began_us,
        )  # fmt: skip
        self.at(at_ms, actor, fact)

    def called_back(self, at_ms: int, actor: str, callback: str, took_ms: int) -> None:
        self.at(at_ms, actor, CallbackReturned(group="g", member_id=actor, callback=callback, took_us=took_ms * MS))


def spans(figures: Figures) -> list[tuple[str, int, int]]:
    """(cause, from, until) in milliseconds."""
    return [(row.cause, row.from_us // MS, row.until_us // MS) for row in figures.downtime]


def waits(row: DowntimeFigures) -> list[tuple[Cause, str, int]]:
    """What it waited for, about whom, and for how many milliseconds; the pieces make up the interval."""
    assert [piece.from_us for piece in row.pieces] == [row.from_us, *(piece.until_us for piece in row.pieces[:-1])]
    assert row.pieces[-1].until_us == row.until_us
    return [(piece.cause, piece.actor, (piece.until_us - piece.from_us) // MS) for piece in row.pieces]


def written(path: str, data: bytes = b"", what: str = "set") -> NodeWritten:
    return NodeWritten(what=what, path=path, data=data, version=0, zxid=1, client="")


# --- downtime --------------------------------------------------------------------------------------------------------


def test_where_records_wait_downtime_lasts_from_the_last_processed_to_the_first_processed() -> None:
    """Not from revoked to assigned: neither fact is felt by anybody."""
    told = Group()
    told.appended(1_650, 10, 10)
    told.appended(1_800, 20, 5)
    told.worked(1_700, "c1", 10, 15)
    told.revoked(2_000, "c1", 1, T0)
    told.assigned(2_500, "c2", 2, T0)
    told.position(2_510, "c2", 15, "committed")
    told.worked(2_900, "c2", 15, 25, began_ms=2_600)

    report = told.report(5_000)

    assert spans(report) == [("revoked", 1_700, 2_600)]
    assert report.downtime_us == {"g/t-0": 900 * MS}


def test_a_record_that_comes_while_its_owner_is_in_a_callback_has_waited_for_all_of_it() -> None:
    """The interruption began with the callback, though the owner gave the partition up at its end only."""
    told = Group()
    told.appended(3_000, 10, 1)
    told.called_back(4_000, "c1", "onPartitionsRevoked", 2_000)
    told.revoked(4_000, "c1", 1, T0)
    told.assigned(4_100, "c2", 2, T0)
    told.called_back(9_100, "c2", "onPartitionsAssigned", 5_000)
    told.position(9_110, "c2", 10, "committed")
    told.worked(9_200, "c2", 10, 11, began_ms=9_120)

    (row,) = told.report(12_000).downtime

    assert (row.from_us, row.until_us, row.member) == (2_000 * MS, 9_120 * MS, "c1")
    assert waits(row) == [
        (Cause.CALLBACK, "c1", 2_000),
        (Cause.ASSIGNMENT, "c1", 100),
        (Cause.CALLBACK, "c2", 5_000),
        (Cause.POSITION, "c2", 10),
        (Cause.FETCH, "c2", 10),
    ]


def test_with_nothing_to_do_a_partition_is_down_while_it_is_unowned_until_its_position_is_regained() -> None:
    """Not while the old owner is in its callback: it owns it still, and no record waits."""
    told = Group()
    told.called_back(4_000, "c1", "onPartitionsRevoked", 2_000)
    told.revoked(4_000, "c1", 1, T0)
    told.assigned(4_100, "c2", 2, T0)
    told.called_back(9_100, "c2", "onPartitionsAssigned", 5_000)
    told.position(9_110, "c2", 10, "committed")
    told.appended(10_000, 10, 5)
    told.worked(10_500, "c2", 10, 15)

    assert spans(told.report(12_000)) == [("revoked", 4_000, 9_110)]


def test_a_slow_application_is_no_downtime() -> None:
    """Nothing interrupts its ownership: delay and lag show it."""
    told = Group()
    told.appended(2_000, 10, 5)
    told.worked(30_000, "c1", 10, 15)
    report = told.report(40_000)

    assert report.downtime == ()
    assert (report.delay.max_us, report.lag[0].max_lag_us, report.lag[0].lag_us) == (28_000 * MS, 28_000 * MS, 0)


def test_what_a_member_keeps_is_interrupted_by_callbacks_about_others_if_a_record_waits_meanwhile() -> None:
    """A cooperative member's one polling thread; a record that comes after the callback waits for nothing."""
    told = Group()
    told.appended(3_000, 10, 1)
    told.called_back(4_000, "c1", "onPartitionsRevoked", 2_000)
    told.at(4_000, "c1", PartitionsRevoked(group="g", member_id="c1", generation=1, revoked=(T1,), owned=(T0,)))
    told.worked(4_020, "c1", 10, 11, began_ms=4_010)
    told.called_back(6_000, "c1", "onPartitionsAssigned", 500)
    told.appended(7_000, 11, 1)
    told.worked(7_020, "c1", 11, 12, began_ms=7_010)
    report = told.report(9_000)

    assert spans(report) == [("callbacks", 2_000, 4_010)]
    assert waits(report.downtime[0]) == [(Cause.CALLBACK, "c1", 2_000), (Cause.FETCH, "c1", 10)]


def test_a_zombie_that_does_nothing_serves_nothing() -> None:
    """It believes that it owns the partition; whoever takes it over finds what waited since its last work."""
    told = Group()
    told.appended(2_000, 10, 5)
    told.assigned(12_000, "c2", 2, T0)
    told.position(12_100, "c2", 10, "committed")
    told.worked(12_400, "c2", 10, 15, began_ms=12_200)

    assert spans(told.report(20_000)) == [("taken over", 2_000, 12_200)]


def test_a_zombie_that_goes_on_serves_until_it_stops() -> None:
    """One who processes suffices."""
    told = Group()
    told.appended(2_000, 10, 5)
    told.assigned(3_000, "c2", 2, T0)
    told.worked(3_500, "c1", 10, 15)
    told.position(4_000, "c2", 15, "committed")

    assert told.report(20_000).downtime == ()


def test_a_pause_ends_with_the_first_work_or_at_once_if_nothing_waits() -> None:
    """The member goes on where it was: it has its position."""
    told = Group()
    told.at(2_000, "", HostPaused(host="c1"))
    told.at(3_000, "", HostResumed(host="c1"))
    told.at(4_000, "", HostPaused(host="c1"))
    told.appended(4_500, 10, 5)
    told.at(6_000, "", HostResumed(host="c1"))
    told.worked(6_300, "c1", 10, 15, began_ms=3_900)
    report = told.report(9_000)

    assert spans(report) == [("paused", 2_000, 3_000), ("paused", 4_000, 6_000)]
    assert waits(report.downtime[0]) == [(Cause.PAUSED, "c1", 1_000)]


def test_each_moment_without_service_has_a_cause_and_who_it_is_about() -> None:
    """A crash at 2 s, noticed at 12 s; generation 2 at 13 s, received at 13.1 s, a callback of 5 s, position."""
    told = Group()
    told.at(1_700, "", HostStarted(host="c2", life=1, kept_disk=True))
    told.at(2_000, "", HostDown(host="c1", life=1, how="power"))
    told.rebalanced(12_000, 13_000, 2, "c2")
    told.assigned(13_100, "c2", 2, T0)
    told.called_back(18_100, "c2", "onPartitionsAssigned", 5_000)
    told.position(18_150, "c2", 10, "committed")
    (row,) = told.report(20_000).downtime

    assert (row.cause, row.member) == ("down", "c1")
    assert waits(row) == [
        (Cause.SESSION, "c1", 11_100),
        (Cause.CALLBACK, "c2", 5_000),
        (Cause.POSITION, "c2", 50),
    ]


def test_time_between_two_join_phases_is_no_wait_for_the_others() -> None:
    """c2 gets the partition in generation 2 and has its position at 20 s; a join phase in the midst changes nothing."""
    told = Group()
    told.at(1_700, "", HostStarted(host="c2", life=1, kept_disk=True))
    told.at(2_000, "", HostDown(host="c1", life=1, how="power"))
    told.rebalanced(12_000, 13_000, 2, "c2")
    told.assigned(13_000, "c2", 2, T0)
    told.rebalanced(17_000, 18_000, 3, "c2", "c3")
    told.position(20_000, "c2", 10, "committed")
    (row,) = told.report(25_000).downtime

    assert waits(row) == [(Cause.SESSION, "c1", 11_000), (Cause.POSITION, "c2", 7_000)]


def test_a_partition_without_a_leader_is_without_service_and_says_what_the_leader_waits_for() -> None:
    """b0 dies at 2 s; its session ends at 8 s, b1 leads from 8.1 s on. Records wait meanwhile or do not."""
    told = Group()
    for broker in ("b0", "b1"):
        told.at(1_700, "", HostStarted(host=broker, life=1, kept_disk=True))
        told.at(1_700, "zk", written(broker_path(int(broker[1:]))))
    replicas = topic_data({0: ReplicaAssignment((0, 1))})
    told.at(1_705, "", TopicReplicated(topic="t", replicas=((0, 1),), min_isr=1, unclean=False))
    told.at(1_705, "zk", written(topic_path("t"), replicas))
    told.at(1_710, "zk", written(state_path("t", 0), state_data(PartitionState(0, 0, (0, 1), 1))))
    told.leads(1_720, "b0", 0, 10)
    told.at(2_000, "", HostDown(host="b0", life=1, how="power"))
    told.at(8_000, "zk", written(broker_path(0), what="deleted"))
    told.at(8_050, "zk", written(state_path("t", 0), state_data(PartitionState(1, 1, (1,), 1))))
    told.leads(8_100, "b1", 1, 10)
    report = told.report(9_000)

    assert spans(report) == [("leaderless", 2_000, 8_100)]
    assert waits(report.downtime[0]) == [(Cause.BROKER_DOWN, "b0", 6_000), (Cause.ELECTION, "", 100)]
    assert report.service["g"].lost_us == 6_100 * MS


class OfTopic(Group):
    """The group and its topic, which has a node."""

    def __init__(self) -> None:
        super().__init__()
        self.at(1_705, "", TopicReplicated(topic="t", replicas=((0,),), min_isr=1, unclean=False))
        self.at(1_705, "zk", written(topic_path("t"), topic_data({0: ReplicaAssignment((0,))})))
        self.exists(1_710)
        self.appended(1_800, 10, 2)

    def exists(self, at_ms: int) -> None:
        self.at(at_ms, "zk", written(state_path("t", 0), state_data(PartitionState(0, 0, (0,), 1))))

    def deleted(self, at_ms: int) -> None:
        self.at(at_ms, "zk", written(state_path("t", 0), what="deleted"))


def test_downtime_ends_when_the_topic_is_deleted() -> None:
    told = OfTopic()
    told.revoked(3_000, "c1", 1, T0)
    told.deleted(5_000)

    assert spans(told.report(9_000)) == [("revoked", 1_800, 5_000)]


def test_a_deleted_topic_has_no_downtime_until_a_topic_of_its_name_is_served() -> None:
    """The owner may process fetched records, and own the partition, for some time."""
    told = OfTopic()
    told.deleted(5_000)
    told.worked(5_500, "c1", 10, 12)
    told.revoked(6_000, "c1", 1, T0)
    told.exists(10_000)
    told.assigned(11_000, "c2", 2, T0)
    told.position(11_000, "c2", 0, "reset")
    told.revoked(13_000, "c2", 2, T0)

    assert spans(told.report(14_000)) == [("revoked", 13_000, 14_000)]


def test_downtime_before_a_deletion_counts_when_a_topic_of_the_name_is_served_later() -> None:
    """The partition was first served before its deletion."""
    told = OfTopic()
    told.revoked(3_000, "c1", 1, T0)
    told.deleted(5_000)
    told.exists(10_000)
    told.assigned(11_000, "c2", 2, T0)
    told.position(11_000, "c2", 0, "reset")

    report = told.report(14_000)

    assert spans(report) == [("revoked", 1_800, 5_000)]
    assert report.service["g"].lost_us == 3_200 * MS


def test_a_group_that_never_came_back_is_down_until_the_end() -> None:
    """One interval, whoever tries in between."""
    told = Group()
    told.at(2_000, "", HostDown(host="c1", life=1, how="power"))
    told.assigned(3_000, "c2", 2, T0)
    told.revoked(4_000, "c2", 2, T0)

    assert spans(told.report(9_000)) == [("down", 2_000, 9_000)]


# --- service lost ----------------------------------------------------------------------------------------------------


def outage(from_s: float, until_s: float, member: str = "c1") -> DowntimeFigures:
    return DowntimeFigures(
        group="g", topic="t", partition=0, member=member, cause="revoked", from_us=int(from_s * SECOND),
        until_us=int(until_s * SECOND), pieces=(),
    )  # fmt: skip


def test_service_lost_is_the_share_of_partitions_that_are_down_over_time() -> None:
    """Half from 10 s, all from 12 to 13 s, then none; a third partition is served from 20 s on."""
    lost = service_lost([outage(10, 13), outage(12, 13, "c2"), outage(30, 33)], [0, 0, 20 * SECOND], 40 * SECOND)

    assert lost.figures.series == (
        (10 * SECOND, 50.0), (12 * SECOND, 100.0), (13 * SECOND, 0.0), (30 * SECOND, 33.33), (33 * SECOND, 0.0)
    )  # fmt: skip
    assert lost.figures.lost_us == 1 * SECOND + 1 * SECOND + 1 * SECOND
    assert (lost.figures.lost_max_percent, lost.figures.partitions) == (100.0, 3)
    assert lost.figures.stopped_us == 1 * SECOND
    assert lost.figures.members_us == {"c1": 6 * SECOND, "c2": 1 * SECOND}


def test_only_everything_at_once_is_a_stop_and_changes_within_it_do_not_end_it() -> None:
    """One partition after the other is back, and a new one begins in between."""
    lost = service_lost([outage(1, 3), outage(2, 5), outage(3, 4)], [0, 0], 9 * SECOND)

    assert lost.stops == ((2 * SECOND, 4 * SECOND),)


# --- delays ----------------------------------------------------------------------------------------------------------


def test_a_record_s_delay_is_from_its_append_to_its_first_processing() -> None:
    """Weighted by records; what is processed again counts no more, nor what came before the group did."""
    told = Told()
    told.appended(0, 0, 1_000)
    told.position(1_000, "c1", 0, "reset")
    told.appended(1_100, 1_000, 98)
    told.appended(1_200, 1_098, 2)
    told.processed(1_300, "c1", 1, 0, 1_099)
    told.processed(1_500, "c2", 1, 1_050, 1_099)
    told.processed(2_000, "c2", 1, 1_099, 1_100)
    report = told.report(3_000)

    assert report.delay.records == 100
    assert report.delay.p50_us == pytest.approx(200 * MS, rel=1e-3)
    assert report.delay.p99_us == pytest.approx(200 * MS, rel=1e-3)
    assert report.delay.max_us == 800 * MS
    assert report.reprocessed == 49
    assert (report.lag[0].max_lag_us, report.lag[0].lag_us) == (800 * MS, 0)


def test_records_left_out_have_no_delay_but_had_an_age() -> None:
    """A reset of the position leaves them to nobody."""
    told = Told()
    told.position(0, "c1", 0, "reset")
    told.appended(100, 0, 10)
    told.position(5_100, "c1", 10, "reset")
    told.appended(6_000, 10, 1)
    report = told.report(6_500)

    assert (report.delay.records, report.delay.max_us) == (0, None)
    assert (report.lag[0].max_lag_us, report.lag[0].lag_us) == (5_000 * MS, 500 * MS)


@pytest.mark.parametrize("shorter", ["the broker's log", "another leader's"])
def test_what_a_shorter_log_takes_in_again_is_new(shorter: str) -> None:
    """Its offsets are the old ones: PartitionHosted with an earlier end, or an append before the end."""
    told = Told()
    told.position(0, "c1", 0, "reset")
    told.appended(100, 0, 10)
    told.processed(200, "c1", 1, 0, 10)
    if shorter == "the broker's log":
        told.at(300, "b0", PartitionHosted(topic="t", partition=0, end_offset=6))
    told.appended(400, 6, 4)
    told.processed(900, "c1", 1, 6, 10)
    report = told.report(1_000)

    assert (report.delay.records, report.delay.max_us) == (14, 500 * MS)


def test_quantiles_are_those_of_all_values_to_a_thousandth() -> None:
    """Against sorting them, over five orders of magnitude; the largest is exact."""
    random = Random(7)
    spread, values = WeightedSpread(), []
    for _ in range(3_000):
        value, times = int(10 ** random.uniform(1, 7)), random.randrange(1, 5)
        spread.add(value, times)
        values += [value] * times
    values.sort()

    for percent in (1, 50, 90, 99):
        exact = values[-(-percent * len(values) // 100) - 1]
        told = spread.percentile(percent)
        assert told is not None
        assert exact * (1 - 1 / 1024) <= told <= exact
    assert spread.percentile(100) == values[-1]
    assert WeightedSpread().percentile(50) is None


def test_values_and_reports_together_count_as_one_after_the_other() -> None:
    random = Random(3)
    spreads, ages = (WeightedSpread(), WeightedSpread()), (Freshness(), Freshness())
    now_us = 0
    for _ in range(50):
        values, times = [], []
        appended_us: list[int] = []
        done_us: list[int] = []
        for _ in range(random.randrange(1, 6)):
            appended_us.append(now_us := now_us + random.choice((0, 7, 40_000)))
            done_us.append(now_us := now_us + random.choice((0, 3, 900, 5_000_000)))
            values.append(done_us[-1] - appended_us[-1])
            times.append(random.randrange(1, 4))
            spreads[0].add(values[-1], times[-1])
            ages[0].advanced(done_us[-1], appended_us[-1], appended_us[-1], now_us)
        spreads[1].add_each(values, times)
        ages[1].advanced_each(done_us, appended_us, now_us)

    told = [[each.total, each.largest, *map(each.percentile, range(1, 101))] for each in spreads]
    assert told[0] == told[1]
    fields = [[getattr(each, name) for name in Freshness.__slots__] for each in ages]
    assert fields[0] == fields[1]
    assert ages[0].aged_us2 > 0 < spreads[0].total


def test_a_log_that_grows_for_long_is_forgotten_from_behind() -> None:
    """Two groups; what both have processed needs no memory, and delays stay right."""
    told = Told()
    told.position(0, "c1", 0, "reset")
    waiting = told.judging.metrics.waiting
    for at in range(1, 10_001):
        told.appended(at, at - 1, 1)
        told.processed(at + 1, "c1", 1, at - 1, at)

    assert told.report(10_001).delay.max_us == 1 * MS
    assert len(waiting._logs[T0].times) < 5_000


# --- whole runs ------------------------------------------------------------------------------------------------------


def joined(assignor: str, **config: object) -> Figures:
    """Two members with six partitions, eight records a second in each; a third member joins."""
    scenario = Scenario(
        draws="calm",
        name="joined",
        duration_us=60 * SECOND,
        topics={"t": TopicSpec(partitions=6, records_per_s=48)},
        groups={"g": GroupSpec(topics=("t",), members=2, assignors=(assignor,), config=config)},
        plan=(At(30 * SECOND, AddMembers(group="g")),),
    )
    result = run(scenario, seed=5, profile="kafka-3.4", loop="bare")
    assert result.verdict == "holds", result.violations
    for row in result.figures.downtime:
        waits(row)
    sums = [sum(us for name, us in result.figures.downtime_us.items() if name.endswith(f"-{n}")) for n in range(6)]
    own = [sum(r.until_us - r.from_us for r in result.figures.downtime if r.partition == n) for n in range(6)]
    assert sums == own
    service = result.figures.service["g"]
    assert service.lost_us == pytest.approx(sum(sums) / 6, abs=10)
    assert sum(service.members_us.values()) == sum(sums)
    return result.figures


SLOW = {"emulated.on.revoked.ms": 2_000, "emulated.on.assigned.ms": 5_000}


def test_an_eager_group_is_down_for_its_callbacks_too() -> None:
    """onPartitionsRevoked takes 2 s and onPartitionsAssigned 5 s: every partition is down for 7 s at least."""
    quick, slow = joined("range"), joined("range", **SLOW)

    assert max(quick.downtime_us.values()) < 2 * SECOND
    assert min(slow.downtime_us.values()) >= 7 * SECOND
    assert all(waited_us(row.pieces, Cause.CALLBACK) >= 7 * SECOND for row in slow.downtime)
    assert slow.service["g"].stopped_us >= 6 * SECOND
    assert slow.service["g"].lost_max_percent == 100.0
    assert slow.delay.max_us is not None
    assert slow.delay.max_us >= 7 * SECOND - SECOND // 8, "eight records come in a second"
    assert max(row.max_lag_us for row in slow.lag) == slow.delay.max_us


def test_what_a_cooperative_group_keeps_is_down_while_its_owner_is_in_callbacks() -> None:
    """Two partitions move; the four others are kept, by members that spend 2 s revoking and 5 s on a callback."""
    quick, slow = joined("cooperative-sticky"), joined("cooperative-sticky", **SLOW)
    kept = [row for row in slow.downtime if row.cause == "callbacks"]

    assert sum(us > 0 for us in quick.downtime_us.values()) == 2
    assert {row.cause for row in quick.downtime} == {"revoked"}
    assert {(row.partition) for row in kept} >= set(range(6)) - {
        row.partition for row in slow.downtime if row.cause == "revoked"
    }
    assert all(waited_us(row.pieces, Cause.CALLBACK) >= 5 * SECOND for row in kept)


def test_callbacks_that_take_no_time_are_not_reported() -> None:
    """And so traces of groups without them are as they were."""
    seen: list[object] = []

    class Watch:
        def wants(self, kind: type) -> bool:
            return kind is CallbackReturned

        def see(self, one: object) -> None:
            seen.append(one)

    scenario = Scenario(
        draws="calm", name="quick", duration_us=10 * SECOND, topics={"t": TopicSpec(partitions=2)},
        groups={"g": GroupSpec(topics=("t",), members=2)},
    )  # fmt: skip
    run(scenario, seed=1, loop="bare", observers=(Watch(),))
    assert seen == []

    slow = attrs.evolve(scenario, groups={"g": GroupSpec(topics=("t",), members=2, config=SLOW)})
    run(slow, seed=1, loop="bare", observers=(Watch(),))
    assert {(one.fact.callback, one.fact.took_us) for one in seen} >= {  # type: ignore[attr-defined]
        ("onPartitionsAssigned", 5 * SECOND)
    }
