"""Every action of a plan does to a running cluster what its docstring says, and is reported when it cannot."""

from functools import cache
from typing import Any

import attrs
import pytest

from kemu.emulator import facts
from kemu.emulator.engine.hosts import Condition
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.plan import actions as faults
from kemu.emulator.plan.action import Action
from kemu.emulator.plan.entries import At, Entry, Noted, Receives, Sends, When
from kemu.emulator.runner import Run, run
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import GroupBecame, JoinPhaseCompleted, MemberRemoved, PartitionsLost, RequestRefused
from tests.emulator.engine.toys import Watcher
from tests.emulator.test_streams import streams

SECOND = 1_000_000
SETTLED = 15 * SECOND
"""By then the first rebalance is over."""


def scenario(
    *plan: Entry, brokers: int = 2, members: int = 2, static: bool = False, seconds: int = 60, **config: Any
) -> Scenario:
    config = {"session.timeout.ms": 10_000, **config}
    return Scenario(
        draws="calm",
        name="test",
        duration_us=seconds * SECOND,
        brokers=BrokersSpec(count=brokers),
        topics={"t": TopicSpec(partitions=4, records_per_s=20)},
        groups={"g": GroupSpec(topics=("t",), members=members, static=static, config=config)},
        checks=ChecksSpec(stable_within_us=120 * SECOND),
        plan=plan,
    )


class Watched:
    """A run driven to its end, with every fact."""

    def __init__(self, *plan: Entry, seed: int = 1, until_us: int | None = None, **given: Any) -> None:
        self.watcher = Watcher()
        self.run = Run(scenario(*plan, **given), seed=seed, observers=[self.watcher])
        self.broke = self.run.run_with(lambda world, end_us: run_plain(world, until_us or end_us))
        assert not self.broke
        self.fired = self.run.injector.counts()

    def of(self, kind: type) -> list[Any]:
        return [seen.fact for seen in self.watcher.facts if type(seen.fact) is kind]

    def times(self, kind: type) -> list[int]:
        return [seen.at_us for seen in self.watcher.facts if type(seen.fact) is kind]

    def applied(self) -> list[str]:
        return [fact.text for fact in self.of(facts.FaultApplied)]

    def condition(self, host: str) -> Condition:
        return self.run.world.hosts[host].condition


def test_a_crash_without_an_end_stays_down_even_after_the_heal() -> None:
    watched = Watched(At(SETTLED, faults.Crash(host="c1")))

    assert watched.condition("c1") is Condition.SILENT
    assert watched.fired == [1]


def test_a_crash_ends_with_a_restart() -> None:
    watched = Watched(At(SETTLED, faults.Crash(host="c1", mode="process", for_us=5 * SECOND)))

    assert [(down.host, down.how) for down in watched.of(facts.HostDown)] == [("c1", "process")]
    assert watched.run.world.hosts["c1"].life == 2
    assert [ended.kind for ended in watched.of(facts.FaultEnded)] == ["crash"]


def test_a_crash_of_a_host_that_is_down_is_reported_as_not_fired() -> None:
    watched = Watched(At(SETTLED, faults.Crash(host="c1")), At(SETTLED + 1, faults.Crash(host="c1")))

    assert watched.fired == [1, 0]
    assert "no effect, c1 is down already" in watched.applied()[1]


def test_a_restart_without_disk_forgets_the_logs() -> None:
    watched = Watched(At(SETTLED, faults.Restart(host="b1", keep_disk=False)), until_us=SETTLED)

    assert [start.kept_disk for start in watched.of(facts.HostStarted) if start.host == "b1"] == [True, False]


def test_a_paused_member_longer_than_its_session_is_removed_and_learns_it_lost_everything() -> None:
    watched = Watched(At(SETTLED, faults.Pause(host="c1", for_us=20 * SECOND)))

    assert [fact.client_id for fact in watched.of(MemberRemoved)] == ["c1"]
    assert len(watched.of(PartitionsLost)) == 1
    assert watched.of(facts.HostPaused) == [facts.HostPaused(host="c1")]
    assert watched.of(facts.HostResumed) == [facts.HostResumed(host="c1")]


def test_a_fast_clock_is_corrected_when_the_drift_ends() -> None:
    watched = Watched(At(0, faults.ClockDrift(host="c1", ppm=100_000, for_us=10 * SECOND)))

    host = watched.run.world.hosts["c1"]
    assert host.ppm == 0
    assert host.local_us(20 * SECOND) == 21 * SECOND


def test_a_lost_disk_tail_is_reported_with_its_logs() -> None:
    watched = Watched(At(30 * SECOND, faults.LoseDiskTail(host="b0", records=2, for_us=SECOND)))

    lost = watched.of(facts.DiskTailLost)
    assert lost
    assert all(fact.host == "b0" and 1 <= fact.records <= 2 for fact in lost)


def test_an_isolated_member_is_expired_and_comes_back_when_it_heals() -> None:
    watched = Watched(At(SETTLED, faults.Isolate(host="c1", for_us=30 * SECOND)), seconds=90)

    assert [fact.client_id for fact in watched.of(MemberRemoved)][:1] == ["c1"]
    assert watched.fired[0] > 0
    assert watched.run.well


def test_a_split_by_role_cuts_the_coordinator_off() -> None:
    action = faults.Split(side=("c1", "c2"), other=("coordinator of g",), for_us=30 * SECOND)
    watched = Watched(At(SETTLED, action), brokers=2)

    assert watched.fired[0] > 0
    assert watched.run.well


@pytest.mark.parametrize(
    "action",
    [
        faults.Slow(sender="c1", add_us=50_000, jitter_us=10_000, for_us=10 * SECOND),
        faults.Lossy(per_mille=100, for_us=10 * SECOND),
        faults.Hold(sender="c1", receiver="coordinator of g", api="Heartbeat", for_us=5 * SECOND),
        faults.Hold(sender="c1", for_us=5 * SECOND),
        faults.Disconnect(a="c1", b="b0"),
        faults.Duplicate(api="OffsetCommit", sender="c1"),
        faults.ErrorReply(api="Heartbeat", sender="c1", nth=2, error=ErrorCode.REBALANCE_IN_PROGRESS),
    ],
    ids=lambda action: type(action).__name__,
)
def test_a_network_or_protocol_fault_fires_and_the_group_gets_well(action: Action) -> None:
    watched = Watched(At(SETTLED, action))

    assert watched.fired[0] > 0
    assert watched.run.well


def test_an_error_reply_is_given_to_the_request_that_was_meant() -> None:
    watched = Watched(
        At(SETTLED, faults.ErrorReply(api="Heartbeat", sender="c2", nth=1, error=ErrorCode.UNKNOWN_MEMBER_ID))
    )

    refusals = [fact for fact in watched.of(RequestRefused) if fact.error is ErrorCode.UNKNOWN_MEMBER_ID]
    assert [(fact.api, fact.member_id.split("-")[0]) for fact in refusals] == [("Heartbeat", "c2")]


def test_heal_ends_what_lasts() -> None:
    watched = Watched(
        At(SETTLED, faults.Isolate(host="c1")),
        At(SETTLED + 5 * SECOND, faults.Heal()),
        until_us=SETTLED + 5 * SECOND,
    )

    assert [fact.kind for fact in watched.of(facts.FaultEnded)] == ["isolate"]
    assert watched.run.world.network.rules == []


def test_close_start_add_and_remove_move_the_group_through_generations() -> None:
    watched = Watched(
        At(SETTLED, faults.CloseHost(host="c1")),
        At(SETTLED + 10 * SECOND, faults.StartHost(host="c1")),
        At(SETTLED + 20 * SECOND, faults.AddMembers(group="g", count=2)),
        At(SETTLED + 30 * SECOND, faults.RemoveMembers(group="g", count=1)),
    )

    sizes = [len(fact.members) for fact in watched.of(JoinPhaseCompleted)]
    assert sizes[:3] == [2, 1, 2]
    assert max(sizes) == 4
    assert sizes[-1] == 3
    assert watched.fired == [1, 1, 1, 1]


def test_a_rolling_restart_takes_each_member_down_once() -> None:
    action = faults.RollingRestart(group="g", every_us=10 * SECOND, down_us=2 * SECOND)
    watched = Watched(At(SETTLED, action), members=3)

    downs = [fact.host for fact in watched.of(facts.HostDown)]
    assert downs == ["c1", "c2", "c3"]
    assert all(watched.run.world.hosts[name].running for name in downs)


def test_a_topic_grows_and_the_new_partitions_are_served() -> None:
    watched = Watched(At(SETTLED, faults.GrowTopic(topic="t", partitions=6)), **{"metadata.max.age.ms": 20_000})

    assert watched.of(facts.TopicGrown) == [facts.TopicGrown(topic="t", partitions=6)]
    assert watched.run.well


def test_a_topic_cannot_shrink() -> None:
    """Each is more than the topic has at the start; the second is less than it has by then."""
    watched = Watched(
        At(SETTLED, faults.GrowTopic(topic="t", partitions=8)),
        At(SETTLED + SECOND, faults.GrowTopic(topic="t", partitions=6)),
        until_us=SETTLED + SECOND,
    )

    assert watched.fired == [1, 0]
    assert "t has 8 partitions already" in watched.applied()[1]


def test_the_coordinator_moves_without_a_crash_and_the_group_keeps_its_generation() -> None:
    watched = Watched(At(SETTLED, faults.MoveCoordinator(group="g")))

    assert watched.fired == [1]
    assert watched.run.cluster.coordinator_of("g") == "b0", "b1 was it"
    assert len(watched.of(JoinPhaseCompleted)) == 1, "the members find the new coordinator before their session ends"


def test_a_killed_coordinators_group_is_taken_over_when_its_death_is_noticed() -> None:
    watched = Watched(At(SETTLED, faults.KillCoordinator(group="g")))

    assert watched.fired == [1]
    assert watched.run.well


def test_without_another_broker_the_coordinator_cannot_move() -> None:
    watched = Watched(At(SETTLED, faults.MoveCoordinator(group="g")), brokers=1)

    assert watched.fired == [0]


def test_a_rate_of_zero_stops_the_producer() -> None:
    watched = Watched(At(SETTLED, faults.SetRateOf(topic="t", records_per_s=0)))

    appended = watched.run.judging.metrics.figures().records
    assert watched.fired == [1]
    assert appended.appended <= 20 * (SETTLED // SECOND) + 20


def test_a_trigger_on_a_sent_message_fires_after_its_step() -> None:
    watched = Watched(When(Sends(api="JoinGroup", by="c1", nth=2), faults.Crash(host="c1", for_us=3 * SECOND)))

    assert watched.fired == [1]
    assert watched.times(facts.HostDown)[0] < SECOND


def test_a_trigger_on_an_arrival_counts_generations() -> None:
    watched = Watched(When(Receives(api="Heartbeat", generation=1, nth=3), faults.Disconnect(a="c1", b="c2")))

    assert watched.fired == [0], "the two never talk"
    assert "they have no connection" in watched.applied()[0]


def test_a_trigger_on_a_note_fires_later_by_its_delay() -> None:
    trigger = Noted(note="GroupBecame", fields=(("new", "Stable"),))
    watched = Watched(When(trigger, faults.Crash(host="leader of g", for_us=SECOND), after_us=2 * SECOND))

    stable_us = next(
        seen.at_us for seen in watched.watcher.facts if type(seen.fact) is GroupBecame and seen.fact.new == "Stable"
    )
    assert watched.times(facts.HostDown)[0] == stable_us + 2 * SECOND


def test_a_trigger_that_never_comes_is_a_fault_that_never_fired() -> None:
    result = run(scenario(When(Sends(api="LeaveGroup", nth=99), faults.Crash(host="c1"))), seed=1, loop="bare")

    assert [fault.fired for fault in result.faults] == [0]
    assert result.verdict == "holds"


IN_PARTS = {
    "error-reply": faults.ErrorReply(api="Heartbeat", sender="c1", error=ErrorCode.REBALANCE_IN_PROGRESS),
    "duplicate": faults.Duplicate(api="Heartbeat", sender="c1"),
    "slow": faults.Slow(sender="c1", receiver="b0", add_us=SECOND, for_us=SECOND),
    "lossy": faults.Lossy(receiver="c1", per_mille=1_000, for_us=5 * SECOND),
    "hold": faults.Hold(sender="c1", api="Heartbeat", for_us=4 * SECOND),
    "isolate": faults.Isolate(host="c1", for_us=SECOND),
    "split": faults.Split(side=("c1",), for_us=SECOND),
    "disconnect": faults.Disconnect(a="c1", b="b0"),
}
IN_PARTS_TRIGGERS = {
    "sends": Sends(api="Heartbeat", by="c1"),
    "sends to": Sends(api="HeartbeatReply", to="c1"),
    "receives": Receives(api="HeartbeatReply", by="c1"),
    "receives from": Receives(api="Heartbeat", to="c1"),
    "by role": Sends(api="Heartbeat", by="leader of app"),
}


@cache
def in_parts() -> dict[str, int]:
    """How often each fault and trigger fires where every member is a thread of its host, such as ``c1/t1``."""
    plan = {name: When(trigger, faults.Heal()) for name, trigger in IN_PARTS_TRIGGERS.items()}
    for number, (name, action) in enumerate(IN_PARTS.items()):
        plan[name] = At(SETTLED + 6 * number * SECOND, action)
    given = attrs.evolve(streams(members=1, seconds=70), plan=tuple(plan.values()))
    fired = [fault.fired for fault in run(given, seed=1, loop="bare").faults]
    return dict(zip(plan, fired, strict=True))


@pytest.mark.parametrize("kind", IN_PARTS)
def test_a_fault_of_a_host_is_one_of_its_parts(kind: str) -> None:
    """Who names ``c1`` means the machine, whatever it is made of."""
    assert in_parts()[kind] >= 1


@pytest.mark.parametrize("kind", IN_PARTS_TRIGGERS)
def test_a_trigger_of_a_host_is_one_of_its_parts(kind: str) -> None:
    """As above, for what is waited for."""
    assert in_parts()[kind] == 1
