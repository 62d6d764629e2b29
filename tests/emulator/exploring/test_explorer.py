"""Exploring: what it finds is the same run again from its scenario, and can be shrunk; it finds what seeds do not."""

import attrs
import pytest

import kemu
from kemu.emulator.exploring.explorer import ExploredRun, Explorer
from kemu.emulator.exploring.schedules import StrategyOptions
from kemu.emulator.exploring.trial import Trials
from kemu.emulator.plan.action import kind_of
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from tests.emulator.exploring.failing import failing

S = 1_000_000


def small(**given: object) -> kemu.Scenario:
    return kemu.Scenario(
        name="small",
        duration_us="12s",
        draws="calm",
        brokers=kemu.BrokersSpec(count=1),
        topics={"t": kemu.TopicSpec(partitions=2, records_per_s=2)},
        groups={"g": kemu.GroupSpec(topics=("t",), members=2)},
        **given,  # type: ignore[arg-type]
    )


def explored(strategy: str, scenario: kemu.Scenario, runs: int, **given: object) -> list[ExploredRun]:
    told: list[ExploredRun] = []
    seeds = given.pop("seeds", (1,))
    options = StrategyOptions(**given)  # type: ignore[arg-type]
    Explorer(scenario, strategy, seeds, Trials(), options=options, tell=told.append).explore(runs)  # type: ignore[arg-type]
    return told


@pytest.mark.parametrize("strategy", ["plain", "ties", "pct", "delays"])
def test_an_explored_run_is_the_run_of_its_scenario_byte_for_byte(strategy: str) -> None:
    """Watching changes nothing, and the lines of the plan say it all."""
    for ran in explored(strategy, small(), 4, seeds=(1, 2))[-2:]:
        again = run(ran.scenario, seed=ran.seed, loop="bare")
        assert again.digest == ran.digest
        assert all(fault.fired > 0 for fault in again.faults), "each line took effect"


@pytest.mark.parametrize("strategy", ["ties", "pct", "delays"])
def test_exploring_is_the_same_again_and_schedules_differ(strategy: str) -> None:
    """No chance of its own; other orders are other runs."""
    first, again = explored(strategy, small(), 5), explored(strategy, small(), 5)

    assert [(ran.schedule, ran.digest, ran.new) for ran in first] == [
        (ran.schedule, ran.digest, ran.new) for ran in again
    ]
    assert len({ran.digest for ran in first}) == 5


def test_a_schedule_leaves_the_scenarios_own_plan_as_it_is() -> None:
    """It stands behind it, so that what other lines draw stays."""
    plan = (kemu.At("6s", kemu.Slow(sender="c1", add_us=1_000, jitter_us=9_000)),)
    for ran in explored("delays", small(plan=plan), 3):
        assert ran.scenario.plan == (*plan, *ran.schedule)
        assert ran.scenario.seed == ran.seed == 1


def test_it_stops_at_the_first_run_that_breaks_a_rule() -> None:
    """Also if that needs no other order."""
    result = kemu.explore(failing(), runs=5)

    assert (result.runs, result.exhausted) == (1, False)
    assert result.found is not None
    assert result.found.schedule == ()
    assert result.found.violation is not None
    assert result.found.violation.checker == "liveness"
    assert kemu.explore(failing(), runs=2, keep="one-owner").found is None


def test_when_every_schedule_was_tried_it_says_so() -> None:
    options = StrategyOptions(messages=("SyncGroup",), bound=1, spans_us=(S,))
    result = kemu.explore(small(), runs=50, options=options)

    assert result.exhausted
    assert result.found is None
    assert result.runs == 1 + 2 + 2 * result.kept, "each first one, and each that was new with two other spans"
    assert result.reached >= result.by_plain > 20


def test_an_unknown_strategy_is_told() -> None:
    with pytest.raises(kemu.ScenarioError, match='unknown strategy "delay"; did you mean "delays"'):
        kemu.explore(small(), strategy="delay")


def leaves_in_time() -> kemu.Scenario:
    """c2 says goodbye a second before all is to be well; if that comes late, its session outlasts the bound."""
    return attrs.evolve(
        small(plan=(kemu.At("11s", kemu.CloseHost(host="c2")),)), checks=kemu.ChecksSpec(stable_within_us="2s")
    )


def test_what_no_seed_shows_is_found_in_another_order_and_shrunk() -> None:
    """A message of which everything hangs that it is not late."""
    plain = kemu.explore(leaves_in_time(), strategy="plain", seeds=range(1, 21), runs=20)
    options = StrategyOptions(bound=1, spans_us=(4 * S,), messages=("FindCoordinator", "LeaveGroup"))
    result = kemu.explore(leaves_in_time(), strategy="delays", seeds=range(1, 3), runs=60, options=options)

    assert (plain.found, plain.runs) == (None, 20)
    assert result.found is not None
    (line,) = result.found.schedule
    assert isinstance(line.action, kemu.LateMessage)
    assert line.action.api == "LeaveGroup"
    shrunk = kemu.shrink(result.found.scenario, runs=40)
    assert "delay" in [kind_of(entry.action) for entry in shrunk.scenario.plan]
    assert run(shrunk.scenario, seed=shrunk.scenario.seed, loop="bare").verdict == "liveness"


def test_a_past_bug_of_order_is_found_where_the_same_seeds_do_not_show_it() -> None:
    """KAFKA-8104 without the line that holds the leader's assignment back: the explorer finds a late assignment."""
    keep, exhibit = "liveness:member-failed", load_scenario("KAFKA-8104")
    planted = attrs.evolve(exhibit, plan=tuple(entry for entry in exhibit.plan if kind_of(entry.action) != "hold"))
    plain = kemu.explore(planted, strategy="plain", seeds=(2, 3), runs=2, keep=keep)
    options = StrategyOptions(messages=("SyncGroup",), spans_us=(10 * S,), bound=1)
    result = kemu.explore(planted, strategy="delays", seeds=(2,), runs=40, keep=keep, options=options)

    assert (plain.found, plain.runs) == (None, 2)
    assert result.found is not None
    assert len(result.found.schedule) == 1
    again = run(result.found.scenario, seed=result.found.seed, loop="bare")
    assert again.digest == result.found.digest
    assert {(each.checker, each.kind) for each in again.violations} >= {("liveness", "member-failed")}
