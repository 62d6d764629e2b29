"""A core alone is healed: who must be in it, who stays away, and what is demanded of whom."""

from pathlib import Path

import attrs
import pytest

import kemu
from kemu.actors.controller.brokers import BrokerChanges
from kemu.actors.coordinator.join_phase import JoinPhase
from kemu.emulator import facts
from kemu.emulator.facts import Seen
from kemu.emulator.injection.core import PartitionStanding, decided
from kemu.emulator.replay import replay, rerun
from kemu.emulator.runner import run
from kemu.emulator.scenario.away import WAYS
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.traces import read_trace

T = ("t", 0)


def test_a_core_with_an_in_sync_replica_of_everything_goes_on() -> None:
    """Nobody is recalled, nothing is missing; members have no part in it."""
    found = decided([PartitionStanding(T, (0, 1, 2), (1, 2), min_isr=2)], ["b0", "c3"], recalled=True)

    assert (found.away, found.recalled, found.unrecoverable) == (("b0", "c3"), (), ())


def test_without_an_in_sync_replica_the_core_can_have_no_leader() -> None:
    """KIP-966's last replica standing: its disk or log directory is not there, and nobody else may lead."""
    found = decided([PartitionStanding(T, (0, 1), (1,))], ["b1"], recalled=False)

    assert found.away == ("b1",)
    assert found.unrecoverable == ("t-0 can have no leader: its ISR [1] stay away",)


def test_an_unclean_election_needs_any_replica() -> None:
    """unclean.leader.election.enable: who was not in sync may lead; without any replica nobody does."""
    assert decided([PartitionStanding(T, (0, 1), (1,), unclean=True)], ["b1"], recalled=False).unrecoverable == ()
    found = decided([PartitionStanding(T, (0, 1), (1,), unclean=True)], ["b0", "b1"], recalled=False)
    assert found.unrecoverable == ("t-0 can have no leader: its replicas [0, 1] stay away",)


def test_too_few_replicas_for_acks_all_are_not_enough() -> None:
    """min.insync.replicas: nothing with acks=all is taken, a group's log not either."""
    found = decided([PartitionStanding(T, (0, 1, 2), (0, 1, 2), min_isr=2)], ["b0", "b2"], recalled=False)

    assert found.unrecoverable == ("t-0 has replicas [1] in the core, min.insync.replicas asks for 2",)


def test_more_than_there_are_replicas_is_not_asked_for() -> None:
    """A reassignment to one replica, with min.insync.replicas of 2, is no fault of those that stay away."""
    assert decided([PartitionStanding(T, (1,), (1,), min_isr=2)], ["b0"], recalled=False).unrecoverable == ()


def test_who_is_needed_is_recalled_and_nobody_else() -> None:
    """The lowest id first; each partition in its turn."""
    standings = [PartitionStanding(T, (0, 1, 2), (2, 1)), PartitionStanding(("t", 1), (3, 2), (3, 2))]

    found = decided(standings, ["b1", "b2", "b3", "c1"], recalled=True)

    assert (found.away, found.recalled, found.unrecoverable) == (("b3", "c1"), ("b1", "b2"), ())


def core_scenario(how: str = "crashed", hosts: tuple[str, ...] = ("b1", "c2"), recalled: bool = True) -> kemu.Scenario:
    """Three brokers with all replicas, two members, one of each stays away."""
    return kemu.Scenario(
        name="a core",
        duration_us="20s",
        brokers=kemu.BrokersSpec(
            count=3,
            replication=kemu.ReplicationSpec(factor=3, min_isr=2, session_us="4s", lag_us="5s"),
            config={"offsets.topic.num.partitions": 1},
        ),
        topics={"orders": kemu.TopicSpec(partitions=3, records_per_s=20)},
        groups={"g": kemu.GroupSpec(topics=("orders",), members=2, config={"session.timeout.ms": 6_000})},
        draws="calm",
        checks=kemu.ChecksSpec(stable_within_us="90s", away=kemu.AwaySpec(hosts=hosts, how=how, recalled=recalled)),
    )


@pytest.mark.parametrize("how", WAYS)
def test_the_core_gets_well_while_the_others_stay_away(how: str) -> None:
    """However they are away; duties waits for no ISR with b1, liveness for no partition with c2."""
    ends: dict[str, int] = {}
    after: list[str] = []

    class Watch:
        def see(self, seen: Seen) -> None:
            if isinstance(seen.fact, facts.CoreHealed | facts.RunEnded):
                ends[type(seen.fact).__name__] = seen.at_us
            if isinstance(seen.fact, facts.HostStarted | facts.HostResumed) and "CoreHealed" in ends:
                after.append(seen.fact.host)

    result = run(core_scenario(how), seed=3, loop="bare", observers=[Watch()])

    assert result.verdict == "holds", result.reason
    assert result.core == facts.CoreHealed(
        core=("b0", "b2", "c1"), away=("b1", "c2"), how=how, recalled=(), unrecoverable=()
    )
    assert ends["CoreHealed"] == 20_000_000 < ends["RunEnded"], "what b1 led and c2 owned took its time to change hands"
    assert after == [], "nobody comes back"


def test_a_host_whose_fault_would_have_ended_stays_away_too() -> None:
    """A crash, a pause and a start that the plan has for later do not bring it back."""
    plan = (
        kemu.At("15s", kemu.Crash(host="b1", for_us=kemu.duration_us("8s"))),
        kemu.At("16s", kemu.Pause(host="c2", for_us=kemu.duration_us("30s"))),
        kemu.At("12s", kemu.Split(side=("b1",), for_us=kemu.duration_us("60s"))),
    )
    result = run(attrs.evolve(core_scenario("paused"), plan=plan), seed=1, loop="bare")

    assert result.verdict == "holds", result.reason
    assert result.core is not None and result.core.away == ("b1", "c2")


def failed_before(recalled: bool) -> kemu.Scenario:
    """The others fell out of the ISRs and did not come back before b1, which alone is in sync, stays away."""
    plan = (
        kemu.At("10s", kemu.Crash(host="b0", mode="power")),
        kemu.At("12s", kemu.Crash(host="b2", mode="power")),
    )
    return attrs.evolve(core_scenario("crashed", ("b1",), recalled), plan=plan)


def test_who_alone_is_in_sync_is_recalled_and_all_gets_well() -> None:
    """Told as a fact, and in the result."""
    result = run(failed_before(recalled=True), seed=1, loop="bare")

    assert result.verdict == "holds", result.reason
    assert result.core is not None
    assert (result.core.away, result.core.recalled, result.core.unrecoverable) == ((), ("b1",), ())


def test_a_core_that_cannot_get_well_is_held_to_safety_alone() -> None:
    """Nobody leads anything, and that is no violation: it is said why, and the run goes on to the end of its bound."""
    result = run(failed_before(recalled=False), seed=1, loop="bare")

    assert result.verdict == "holds", result.reason
    assert result.core is not None
    assert "__consumer_offsets-0 can have no leader: its ISR [1] stay away" in result.core.unrecoverable
    assert result.virtual_us == 110_000_000
    assert result.violations == ()


def last_in_sync_later(how: str, recalled: bool) -> kemu.Scenario:
    """b0 is in the ISRs at the healing, but its process died a moment before: the controller takes it out then."""
    scenario = core_scenario(how, ("b1",), recalled)
    replication = kemu.ReplicationSpec(factor=2, min_isr=1, session_us="4s", lag_us="5s")
    topics = {"orders": kemu.TopicSpec(partitions=1, records_per_s=20, assignment=("1 0",))}
    return attrs.evolve(
        scenario,
        brokers=attrs.evolve(scenario.brokers, replication=replication),
        topics=topics,
        plan=(kemu.At("19500ms", kemu.Crash(host="b0", mode="power")),),
    )


@pytest.mark.parametrize("how", ["paused", "cut off", "crashed"])
def test_who_alone_is_left_in_sync_after_the_healing_is_recalled_then(how: str) -> None:
    """Decided once more when sessions and lags from before the healing are over; all gets well after that."""
    result = run(last_in_sync_later(how, recalled=True), seed=1, loop="bare")

    assert result.verdict == "holds", result.reason
    assert result.core is not None
    assert (result.core.away, result.core.recalled) == ((), ("b1",))
    assert result.virtual_us > 39_000_000


def test_who_alone_is_left_in_sync_and_is_not_recalled_leaves_safety_alone() -> None:
    """Said then, and nothing is demanded of the core."""
    result = run(last_in_sync_later("paused", recalled=False), seed=1, loop="bare")

    assert result.verdict == "holds", result.reason
    assert result.core is not None
    assert "orders-0 can have no leader: its ISR [1] stay away" in result.core.unrecoverable


def test_a_coordinator_that_never_ends_a_session_is_caught_because_members_do_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When all is healed the member goes on where it stood still, and nobody sees that its partitions were stuck."""
    monkeypatch.setattr(JoinPhase, "session_timer_fired", lambda self, member_id: None)
    plan = (kemu.At("19s", kemu.Pause(host="c2", for_us=kemu.duration_us("60s"))),)
    scenario = attrs.evolve(core_scenario("paused", ("c2",)), plan=plan)

    whole = run(attrs.evolve(scenario, checks=kemu.ChecksSpec(stable_within_us="90s")), seed=1, loop="bare")
    core = run(scenario, seed=1, loop="bare")

    assert whole.verdict == "holds", whole.reason
    assert core.verdict == "liveness"
    assert [(each.checker, each.kind, each.entities) for each in core.violations] == [
        ("liveness", "not-at-rest", ("g",))
    ]


def test_a_leader_that_stays_away_is_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a controller that heeds no broker's end: b1 is cut off, and acts as the store says all the same."""
    monkeypatch.setattr(BrokerChanges, "died", lambda self, brokers: iter(()))

    core = run(core_scenario("cut off", ("b1",)), seed=1, loop="bare")

    assert core.verdict == "liveness"
    assert "no-leader" in {each.kind for each in core.violations if each.checker == "duties"}


def test_a_run_with_a_core_is_repeated_byte_for_byte(tmp_path: Path) -> None:
    """From its trace, by its scenario read from the plain form, and by the other loop."""
    scenario, path = failed_before(recalled=True), tmp_path / "run.kemu"
    first = run(scenario, seed=1, loop="bare", trace=path)

    assert replay(read_trace(path)).difference is None
    assert rerun(read_trace(path))[0].digest == first.digest
    assert run(scenario_from_dict(scenario.to_dict()), seed=1, loop="trio").digest == first.digest


@pytest.mark.parametrize(
    ("hosts", "replicated", "said"),
    [
        (("b7",), True, '"b7" is no broker or member'),
        (("b0", "b1", "b2"), True, "must leave out at least one broker"),
        (("b0",), False, "add [brokers.replication]"),
    ],
)
def test_what_cannot_be_is_refused(hosts: tuple[str, ...], replicated: bool, said: str) -> None:
    """With the key, and what to do."""
    scenario = core_scenario()
    brokers = scenario.brokers if replicated else kemu.BrokersSpec(count=3)
    with pytest.raises(ScenarioError, match=r"checks\.away\.hosts") as raised:
        attrs.evolve(scenario, brokers=brokers, checks=kemu.ChecksSpec(away=kemu.AwaySpec(hosts=hosts)))

    assert said in str(raised.value)


def test_a_way_that_is_none_is_refused() -> None:
    """It names those there are."""
    with pytest.raises(ScenarioError, match='"asleep" is no way to stay away'):
        kemu.AwaySpec(hosts=("b0",), how="asleep")
