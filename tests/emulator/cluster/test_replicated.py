"""Whole clusters with replication: what each preset is about happens, and nothing else."""

import attrs
import pytest

from kemu.emulator.checkers import checkers_for
from kemu.emulator.checkers.replicas import Replicas
from kemu.emulator.facts import Seen
from kemu.emulator.judging import Judging
from kemu.emulator.plan.actions import Crash
from kemu.emulator.plan.entries import At
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.traces import facts_of, read_trace
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import OFFSETS_TOPIC, host_of
from kemu.protocol.nodes import TOPICS
from kemu.protocol.notes.groups import GroupLoaded, ProducerStarted, RecordsAcknowledged
from kemu.protocol.notes.replication import (
    BecameController,
    BecameLeader,
    ControlledShutdownAnswered,
    ControllerReady,
    ControllerResigned,
    IsrChanged,
    LeaderElectedForPartition,
    NodeWritten,
    Truncated,
)

S = 1_000_000


class Kept:
    """An observer that keeps facts of some types."""

    def __init__(self, *kinds: type) -> None:
        self.kinds = kinds
        self.seen: list[Seen] = []

    def wants(self, kind: type) -> bool:
        return kind in self.kinds

    def see(self, seen: Seen) -> None:
        self.seen.append(seen)

    def of(self, kind: type) -> list[Seen]:
        return [seen for seen in self.seen if type(seen.fact) is kind]


def went(name: str, *kinds: type, seed: int = 3) -> Kept:
    """A preset's run, which holds; the facts of these types."""
    kept = Kept(*kinds)
    result = run(load_scenario(name), seed=seed, loop="bare", observers=(kept,))
    assert result.verdict == "holds", (result.broke, result.violations[:3])
    return kept


def test_a_rolling_restart_with_controlled_shutdown_elects_nobody_offline():
    """Leaders move before the broker stops, so no client finds a partition without a leader."""
    kept = went("rolling-broker-restart", ControlledShutdownAnswered, LeaderElectedForPartition)

    answers = [seen.fact for seen in kept.of(ControlledShutdownAnswered)]
    done = [each for each in answers if each.error is ErrorCode.NONE and not each.remaining]
    assert {answer.broker_id for answer in done} == {0, 1, 2}
    strategies = {seen.fact.strategy for seen in kept.of(LeaderElectedForPartition)}
    assert "controlled-shutdown" in strategies
    assert "offline" not in strategies


def test_when_the_controller_dies_the_next_one_has_the_next_epoch():
    """ControllerIntegrationTest.testControllerMoveIncrementsControllerEpoch."""
    kept = went("controller-crash", BecameController, ControllerReady)

    first, second = (seen.fact for seen in kept.of(BecameController))
    assert (first.controller_epoch, second.controller_epoch) == (1, 2)
    assert first.broker_id != second.broker_id
    assert [seen.fact.partitions for seen in kept.of(ControllerReady)][-1] == 11


def test_a_zombie_controller_learns_that_it_was_replaced_and_writes_nothing():
    """KAFKA-6082: the store's fence. After the next one's election it writes neither topics nor partitions' states."""
    kept = went("zombie-controller", BecameController, ControllerResigned, NodeWritten)

    first, second, *_ = kept.of(BecameController)
    writes = [seen for seen in kept.of(NodeWritten) if seen.fact.path.startswith(f"{TOPICS}/")]
    zombie = [seen for seen in writes if seen.fact.client == first.actor]
    assert [seen for seen in zombie if seen.at_us < second.at_us], "it wrote while it was in office"
    assert not [seen for seen in zombie if seen.at_us >= second.at_us]
    assert [seen for seen in writes if seen.fact.client == second.actor]
    assert kept.of(ControllerResigned)[0].actor == first.actor


def test_a_slow_follower_leaves_the_isr_and_comes_back():
    """IsrExpirationTest, in the large."""
    kept = went("slow-follower", IsrChanged)

    shrinks = [seen for seen in kept.seen if seen.fact.why == "shrink" and 2 not in seen.fact.isr]
    expands = [seen for seen in kept.seen if seen.fact.why == "expand" and 2 in seen.fact.isr]
    assert shrinks and expands
    assert 30 * S + 10 * S <= shrinks[0].at_us <= 30 * S + 15 * S + S, "between 1 and 1.5 times the lag"
    assert expands[-1].at_us > 55 * S


def test_with_one_replica_of_two_required_nothing_is_acknowledged():
    """NOT_ENOUGH_REPLICAS while the ISR is below min.insync.replicas."""
    kept = went("two-of-three-lost", RecordsAcknowledged)

    times = [seen.at_us for seen in kept.seen]
    assert not [at for at in times if 46 * S < at < 60 * S]
    assert [at for at in times if at > 75 * S]


def test_the_next_coordinator_knows_the_group():
    """Item 4: the group's state is in the replicated log; another broker loads it and goes on."""
    kept = went("coordinator-crash-replicated", GroupLoaded, BecameLeader)

    leaders = {seen.actor for seen in kept.of(BecameLeader) if seen.fact.topic == OFFSETS_TOPIC}
    loaded = [seen for seen in kept.of(GroupLoaded) if seen.at_us > 30 * S]
    assert loaded and host_of(loaded[0].actor) in leaders
    assert len(loaded[0].fact.members) >= 3


def run_with(scenario: Scenario, seed: int) -> tuple[RunResult, Replicas]:
    """A run, and the checker of its logs."""
    checkers = checkers_for(scenario)
    result = run(scenario, seed=seed, loop="bare", checkers=checkers)
    (replicas,) = [checker for checker in checkers if isinstance(checker, Replicas)]
    return result, replicas


def test_what_an_unclean_election_loses_is_named_and_is_no_violation():
    """UncleanLeaderElectionTest.uncleanLeaderElectionEnabled."""
    result, replicas = run_with(load_scenario("unclean-election"), 3)

    assert "replicas" not in [violation.checker for violation in result.violations]
    assert replicas.losses
    assert {loss.why for loss in replicas.losses} == {"unclean-election"}
    assert all(loss.partition.startswith("orders-") for loss in replicas.losses)
    assert result.losses == tuple(replicas.losses)


def test_without_unclean_elections_the_partition_waits_for_its_last_in_sync_replica():
    """UncleanLeaderElectionTest.uncleanLeaderElectionDisabled; ControllerIntegrationTest.entireIsrOffline..."""
    scenario = load_scenario("unclean-election")
    orders = attrs.evolve(scenario.topics["orders"], unclean=False)
    scenario = attrs.evolve(scenario, topics={"orders": orders})

    result, replicas = run_with(scenario, 3)

    assert result.verdict == "holds"
    assert not replicas.losses


def test_scenarios_without_replication_have_no_replicas():
    """[brokers.replication] is asked for, or nothing of it is there."""
    kept = Kept(BecameLeader, IsrChanged, Truncated)
    run(load_scenario("steady-group"), seed=1, loop="bare", observers=(kept,))

    assert not kept.seen


@pytest.mark.parametrize("loop", ["bare", "trio"])
def test_a_replicated_run_can_be_repeated(loop: str):
    """Same scenario and seed, same trace."""
    scenario = load_scenario("broker-crash-and-return")
    scenario = attrs.evolve(scenario, duration_us=45 * S)

    assert run(scenario, seed=9, loop=loop).digest == run(scenario, seed=9, loop="bare").digest


CRASHES = (At(15 * S, Crash(host="partition leader of orders-0", mode="power", for_us=10 * S)),)


@pytest.mark.parametrize("profile", ["kafka-2.4", "kafka-3.4"])
def test_producers_are_held_to_what_their_release_promises(profile: str):
    """KIP-679: acks=all since 3.0, acks=1 before. What only the leader had may go with it."""
    scenario = attrs.evolve(load_scenario("replicated-steady"), duration_us=40 * S, plan=CRASHES)
    kept = Kept(ProducerStarted, RecordsAcknowledged)

    result = run(scenario, seed=2, profile=profile, loop="bare", observers=(kept,))

    assert result.faults[0].fired == 1
    assert result.verdict == "holds", result.violations[:3]
    assert {seen.fact.acks for seen in kept.of(ProducerStarted)} == {1 if profile == "kafka-2.4" else -1}
    assert kept.of(RecordsAcknowledged)
    assert {loss.why for loss in result.losses} <= {"acks"}
    assert profile == "kafka-2.4" or not result.losses


def test_checkers_say_the_same_of_a_recorded_run(tmp_path):
    """Live and over a trace: losses, violations, and whether all is well."""
    scenario = load_scenario("unclean-election")
    result = run(scenario, seed=3, profile="kafka-2.4", loop="bare", trace=tmp_path / "run.kemu")
    checkers = checkers_for(scenario)
    judging = Judging(checkers)
    for seen in facts_of(read_trace(tmp_path / "run.kemu")):
        judging.see(seen)
    satisfied = {checker.name: checker.satisfied for checker in checkers}
    judgement = judging.finish(result.virtual_us)

    assert result.losses
    assert judgement.losses == result.losses
    assert judgement.violations == ()
    assert satisfied["duties"]


@pytest.mark.parametrize("seed", [1, 9])
def test_who_was_deposed_uncleanly_and_falls_again_has_the_log_it_had(seed: int):
    """Epochs without records that a follower forgets are forgotten on its disk, too."""
    scenario = load_scenario("unclean-election")
    again = At(95 * S, Crash(host="b1", mode="power", for_us=16 * S))
    scenario = attrs.evolve(scenario, plan=(*scenario.plan, again))

    result = run(scenario, seed=seed, loop="bare")

    assert result.faults[-1].fired == 1
    assert result.verdict == "holds", result.violations[:3]
