"""The two commands that look for past bugs: what they compare is alike, and nothing is counted that was not run."""

from pathlib import Path

import pytest

from kemu.emulator.exploring.schedules import STRATEGIES
from kemu.emulator.museum.bug import PastBug
from kemu.emulator.museum.registry import PAST_BUGS
from kemu.emulator.plan.actions import Hold
from kemu.emulator.scenario.files import load_scenario
from tests.evaluate_exploring import RUNS, Trial, order_bugs, read, table, trials, whole_stretches, without_its_order
from tests.find_by_swarm import together


def test_an_order_bug_is_left_without_the_lines_that_hold_messages_back() -> None:
    """Those that hold fetches back make a follower slow: no matter of order, and its line stays."""
    assert {"KAFKA-8104", "KAFKA-9801", "KAFKA-7786"} <= set(order_bugs())
    assert not {"KAFKA-7152", "KAFKA-7128", "KAFKA-1211"} & set(order_bugs())
    for issue in order_bugs():
        scenario = load_scenario(issue)
        bare = without_its_order(scenario)
        assert len(scenario.plan) - len(bare.plan) > 0
        assert not [entry for entry in bare.plan if isinstance(entry.action, Hold)]
        assert bare.bugs == scenario.bugs


def test_every_strategy_has_the_same_number_of_runs_and_stretches_share_no_seed() -> None:
    """Plain runs have a seed each."""
    seeds = {(trial.strategy, trial.stretch): trial.seeds for trial in trials()}

    assert {strategy for strategy, _ in seeds} == set(STRATEGIES)
    assert all(len(found) == RUNS for (strategy, _), found in seeds.items() if strategy == "plain")
    plain = [seed for (strategy, _), found in seeds.items() if strategy == "plain" for seed in found]
    assert len(set(plain)) == len(plain)
    assert all(set(found) <= set(seeds["plain", stretch]) for (_, stretch), found in seeds.items())


def test_only_whole_stretches_are_told(tmp_path: Path) -> None:
    """What was not run is neither found nor missed."""
    known: dict[Trial, int | None] = {trial: None for trial in trials() if trial.stretch < 2}
    known[Trial("KAFKA-8104", "pct", 0)] = 6
    known[Trial("KAFKA-8104", "pct", 2)] = 1

    lines = list(table(known))

    assert whole_stretches(known) == (0, 1)
    assert "| KAFKA-8104 | > 10 (-, -) | > 10 (-, -) | > 10 (6, -) | > 10 (-, -) |" in lines
    assert lines[-1] == f"| found, of {2 * len(order_bugs())} | 0 | 0 | 1 | 0 |"
    assert read(tmp_path / "none.jsonl") == {}


def test_a_trial_runs_until_the_checker_of_the_museum_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-7152 shows itself whatever comes when: its own order finds it."""
    monkeypatch.setattr("tests.evaluate_exploring.without_its_order", lambda scenario: scenario)

    assert Trial("KAFKA-7152", "plain", 0).found_by() == 1


def test_bugs_that_decide_the_same_thing_otherwise_are_not_looked_for_in_one_run() -> None:
    """Two assignors of one name; nor are those that the swarm's scenarios cannot have."""

    def fields(bug: PastBug) -> set[str]:
        past = bug.past
        return {*past.replica, *past.controller, *past.coordinator, *past.consumer, *past.assignors}

    for replicated in (False, True):
        chosen = together(list(PAST_BUGS.values()), replicated)
        named = [name for bug in chosen for name in fields(bug)]
        assert len(set(named)) == len(named)
        assert not {"KAFKA-15170", "KAFKA-8187"} & {bug.issue for bug in chosen}
        assert any(bug.past.needs_replication for bug in chosen) is replicated
