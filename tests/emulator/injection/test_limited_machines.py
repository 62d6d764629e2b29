"""Slow disks and narrow network cards: what they do to those who append, that it ends, and how several go together."""

from functools import cache, partial

import attrs
import pytest

from kemu.actors.broker.partition_log import LoggedBatch, start_entry, to_record
from kemu.actors.broker.replica_log import batch_entry, truncation_entry
from kemu.emulator import facts
from kemu.emulator.cluster.weights import Weights
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.actions import BandwidthLimit, ClockDrift, Heal, SlowDisk, TieOrder
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import Run
from kemu.emulator.scenario.brokers import BrokerSpec, BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.messages.data import ReplicaBatch
from kemu.protocol.notes.groups import RecordsAcknowledged
from tests.emulator.engine.toys import Watcher

S = 1_000_000
RECORD_BYTES = 10_000
FAST = 100
"""Records that each partition gets in ten seconds, twice what a limit of 50 KB/s lets through."""
Limit = type[SlowDisk] | type[BandwidthLimit]
LIMITS = (SlowDisk, BandwidthLimit)
KIND = {SlowDisk: "slow-disk", BandwidthLimit: "limit-bandwidth"}


class WholeRun:
    """A run that holds: two partitions, led by b0 and b1; with replication b2 has no replica of either."""

    def __init__(
        self, *plan: At, replicated: bool = False, disk_of_b0: str | None = None, records_per_s: int = 20
    ) -> None:
        made = Scenario(
            name="limited",
            draws="calm",
            duration_us=60 * S,
            brokers=BrokersSpec(
                count=3,
                replication=ReplicationSpec(factor=2, session_us=6 * S, lag_us=20 * S) if replicated else None,
                overrides={"b0": BrokerSpec(disk_bytes_per_s=disk_of_b0)} if disk_of_b0 else {},
            ),
            topics={"t": TopicSpec(partitions=2, records_per_s=records_per_s, record_bytes=RECORD_BYTES)},
            groups={"g": GroupSpec(topics=("t",), members=2)},
            checks=ChecksSpec(stable_within_us=200 * S),
            plan=plan,
        )
        self.watcher = Watcher()
        self.run = Run(made, seed=1, observers=(self.watcher,))
        assert not self.run.run_with(run_plain)
        result = self.run.judging.finish(self.run.world.now_us, "")
        assert result.verdict == "holds", result.violations[:3]
        assert self.run.injector.counts() == [1] * len(plan)

    def acknowledged(self, partition: int, from_s: float = 0, to_s: float = 1_000) -> int:
        """Records that the producer knows to be in the log, by when it was told."""
        return sum(
            seen.fact.count
            for seen in self.watcher.facts
            if type(seen.fact) is RecordsAcknowledged
            and seen.fact.partition == partition
            and from_s * S <= seen.at_us < to_s * S
        )

    def late_ms(self, from_s: float, to_s: float) -> set[int]:
        """How much later than in a calm run records of t-0 are acknowledged that are acknowledged then there."""
        times = [[seen.at_us for seen in each.watcher.facts if is_first(seen.fact)] for each in (seldom(), self)]
        assert len(times[0]) == len(times[1])
        pairs = zip(*times, strict=True)
        return {round((late_us - at_us) / 1_000) for at_us, late_us in pairs if from_s * S <= at_us < to_s * S}

    def ended(self) -> list[tuple[int, str]]:
        """When which kind of fault ended, in seconds."""
        return [(seen.at_us // S, seen.fact.kind) for seen in self.watcher.facts if type(seen.fact) is facts.FaultEnded]


def is_first(fact: object) -> bool:
    return type(fact) is RecordsAcknowledged and fact.partition == 0


def near(found_ms: set[int], wanted_ms: int) -> bool:
    """There are some, and all are this but for the network's draws."""
    return bool(found_ms) and all(abs(each - wanted_ms) <= 2 for each in found_ms)


@cache
def seldom() -> WholeRun:
    """Each partition gets one record a second: none waits for another."""
    return WholeRun(records_per_s=2)


@cache
def calm(replicated: bool) -> WholeRun:
    """Nothing is limited."""
    return WholeRun(replicated=replicated)


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limited_broker_takes_no_more_records_than_their_size_allows_until_that_ends(
    limit: Limit,
) -> None:
    """50 KB/s are five records of 10 KB a second; the partition of another broker gets its ten as ever."""
    driven = WholeRun(At(20 * S, limit(host="b0", speed="50KB/s", for_us=20 * S)))

    limited = driven.acknowledged(0, 20, 40)
    assert 50 <= limited <= 100, "of 200: whole batches alone are acknowledged, each twice the one before"
    assert driven.acknowledged(1, 20, 40) == calm(False).acknowledged(1, 20, 40) == 2 * FAST
    assert driven.acknowledged(0, 40, 45) == 250 - limited, "what waited is there five seconds after the end"
    assert driven.acknowledged(0, 45, 60) == calm(False).acknowledged(0, 45, 60)
    assert driven.acknowledged(0) == calm(False).acknowledged(0)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(("host", "slow"), [("b0", 0), ("b2", 1)])
def test_a_limited_replica_keeps_back_its_partition_whoever_leads_it(limit: Limit, host: str, slow: int) -> None:
    """acks=all: t-0 is on b0 and b1, t-1 on b1 and b2; a follower that is slow and in sync is waited for."""
    free, driven = calm(True), WholeRun(At(20 * S, limit(host=host, speed="50KB/s", for_us=15 * S)), replicated=True)
    other = 1 - slow

    limited = driven.acknowledged(slow, 20, 35)
    assert 0 < limited <= 75, "five records a second"
    assert driven.acknowledged(slow, 35, 45) == 250 - limited
    assert driven.acknowledged(slow, 45, 60) == free.acknowledged(slow, 45, 60)
    assert driven.acknowledged(slow) == free.acknowledged(slow), "nothing is lost"
    assert driven.acknowledged(other, 20, 35) == free.acknowledged(other, 20, 35) == 150
    assert driven.acknowledged(other) == free.acknowledged(other)


@pytest.mark.parametrize("limit", LIMITS)
def test_of_two_limits_the_later_holds_and_when_both_are_over_none_does(limit: Limit) -> None:
    """10 KB at 20 and at 80 KB/s; the first ends in the midst of the second, which lasts as long as it says."""
    driven = WholeRun(
        At(20 * S, limit(host="b0", speed="20KB/s", for_us=10 * S)),
        At(25 * S, limit(host="b0", speed="80KB/s", for_us=15 * S)),
        records_per_s=2,
    )

    assert driven.ended() == [(30, KIND[limit]), (40, KIND[limit])]
    assert near(driven.late_ms(20, 24), 500)
    assert near(driven.late_ms(26, 39), 125)
    assert near(driven.late_ms(40, 60), 0)


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_inside_another_gives_way_to_it_when_it_ends(limit: Limit) -> None:
    """The second is over before the first, which holds again; healing ends it."""
    driven = WholeRun(
        At(20 * S, limit(host="b0", speed="80KB/s")),
        At(25 * S, limit(host="b0", speed="20KB/s", for_us=5 * S)),
        At(45 * S, Heal()),
        records_per_s=2,
    )

    assert driven.ended() == [(30, KIND[limit]), (45, KIND[limit])]
    assert near(driven.late_ms(20, 24), 125)
    assert near(driven.late_ms(25, 29), 500)
    assert near(driven.late_ms(31, 44), 125)
    assert near(driven.late_ms(45, 60), 0)


def test_a_fault_ends_with_the_speed_that_the_scenario_gives_a_disk() -> None:
    """``overrides.b0.disk``: 10 KB at 100 KB/s, for a time at 20 KB/s."""
    driven = WholeRun(
        At(20 * S, SlowDisk(host="b0", speed="20KB/s", for_us=10 * S)), disk_of_b0="100KB/s", records_per_s=2
    )

    assert near(driven.late_ms(0, 19), 100)
    assert near(driven.late_ms(20, 29), 500)
    assert near(driven.late_ms(30, 60), 100)


def test_clocks_and_orders_of_ties_have_one_setting_too_and_end_one_by_one() -> None:
    """What ends first takes nothing from what still lasts, and nothing stays of either when both are over."""
    settings = {}

    def look(driven: Run, at_s: int) -> None:
        settings[at_s] = driven.world.hosts["c1"].ppm, driven.world.network.grain_us

    made = attrs.evolve(
        calm(False).run.scenario,
        plan=(
            At(20 * S, ClockDrift(host="c1", ppm=1_000, for_us=10 * S)),
            At(20 * S, TieOrder(order=1, grain_us=2_000, for_us=10 * S)),
            At(25 * S, ClockDrift(host="c1", ppm=-500, for_us=10 * S)),
            At(25 * S, TieOrder(order=2, grain_us=5_000, for_us=10 * S)),
        ),
    )
    one = Run(made, seed=1)
    drawn_by_the_seed = one.world.agenda.ties
    for at_s in (24, 28, 32, 36):
        one.world.at(at_s * S, partial(look, one, at_s))
    assert not one.run_with(run_plain)

    assert settings == {24: (1_000, 2_000), 28: (-500, 5_000), 32: (-500, 5_000), 36: (0, 0)}
    assert one.world.agenda.ties is drawn_by_the_seed


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (SlowDisk(host="b0", speed="5MB/s"), "disk of b0 writes 5MB/s until healed"),
        (SlowDisk(host="controller", speed="1KB/s", for_us=20 * S), "disk of controller writes 1KB/s for 20s"),
        (BandwidthLimit(host="c1", speed="5MB/s", for_us=2 * S), "network card of c1 passes 5MB/s for 2s"),
        (BandwidthLimit(host="b0", speed="1B/s"), "network card of b0 passes 1B/s until healed"),
    ],
)
def test_a_limit_is_told_in_words(action: Action, words: str) -> None:
    """What reports and transcripts print."""
    assert action.words() == words


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(("given", "why"), [("0B/s", "must be at least 1B/s"), ("fast", "fast")])
def test_a_speed_that_is_none_is_refused(limit: Limit, given: str, why: str) -> None:
    """A plan made in Python meets the checks of a file."""
    with pytest.raises(ScenarioError, match=why) as caught:
        WholeRun(At(20 * S, limit(host="b0", speed=given)))
    assert [problem.path for problem in caught.value.problems] == [("plan", 0, "speed")]


def test_a_write_to_a_journal_weighs_what_its_followers_fetch() -> None:
    """Records of ``__consumer_offsets`` have contents; they are weighed once, at the size of the topic's records."""
    weights, batch = Weights({"t": 1_000}), ReplicaBatch(base_offset=0, count=2, append_time_ms=0, leader_epoch=0)
    of_offsets = attrs.evolve(batch, records=((b"key", b"value"), (b"other", None)))

    assert weights.of_write("replica/t-0", batch_entry(batch)) == 2_000
    assert weights.of_write("replica/__consumer_offsets-0", batch_entry(of_offsets)) == 200
    assert weights.of_write("t-0", (to_record(LoggedBatch(0, 2, 0, 0)), start_entry(1))) == 2_000 + 9
    assert weights.of_write("replica/t-0", (truncation_entry(1),)) == 9
    assert weights.of_write("__consumer_offsets-0", ((b"key", b"value"), (b"other", None))) == 13
