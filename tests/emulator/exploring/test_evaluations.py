"""The two commands that look for past bugs: what they compare is alike, and nothing is counted that was not run."""

from pathlib import Path

import attrs
import pytest

from kemu.emulator.exploring.schedules import STRATEGIES
from kemu.emulator.past_bugs.bug import Where
from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.emulator.plan.actions import Hold
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.tools.finding import swarm_without
from tests.asked_rules import BY_WHAT_THEY_DECIDE, asking
from tests.evaluate_exploring import RUNS, Trial, order_bugs, read, table, trials, whole_stretches, without_its_order
from tests.find_by_swarm import LOOKED_FOR, by_release, first_found, looked_for


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


def test_a_trial_runs_until_the_checker_of_the_past_bug_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-7152 shows itself whatever comes when: its own order finds it."""
    monkeypatch.setattr("tests.evaluate_exploring.without_its_order", lambda scenario: scenario)

    assert Trial("KAFKA-7152", "plain", 0).found_by() == 1


def test_bugs_are_looked_for_by_release_and_all_but_those_the_swarm_draws_nothing_for() -> None:
    """One run without bugs serves all of a release."""
    groups = by_release(LOOKED_FOR)
    drawn = {bug.issue for bugs in groups.values() for bug in bugs}

    assert drawn == {each.issue for each in PAST_BUGS.values() if each.where is not Where.STREAMS} - {"KAFKA-12257"}
    assert all(bug.past.needs_replication is replicated for (_, replicated), bugs in groups.items() for bug in bugs)


@pytest.mark.parametrize(
    "issue",
    ["KAFKA-10284", "KAFKA-8104", "KAFKA-15170", "KAFKA-13406", "KAFKA-7152", "KAFKA-1211", "KAFKA-6361", "KAFKA-7235"],
)
def test_where_a_bug_shows_its_rules_are_asked(issue: str) -> None:
    """In the run without it, which is the same up to that decision."""
    exhibit = load_scenario(issue)
    with asking([PAST_BUGS[each] for each in exhibit.bugs]) as asked:
        run(attrs.evolve(exhibit, bugs=()), seed=exhibit.seed, loop="bare")

    assert exhibit.bugs
    assert any(asked.could_matter(PAST_BUGS[each], exhibit) for each in exhibit.bugs)


@pytest.mark.parametrize("replicated", [False, True])
def test_a_seed_in_which_a_bugs_rules_are_not_asked_is_the_same_run_with_it(replicated: bool) -> None:
    """That is why it need not be run; and to ask changes nothing."""
    seed = 1
    for (release, kind), bugs in by_release(LOOKED_FOR).items():
        if kind is not replicated or release not in ("kafka-3.4", "kafka-2.6"):
            continue
        scenario = swarm_without(release, replicated, seed)
        plain = run(scenario, seed=seed, profile=release, loop="bare")
        with asking(bugs) as asked:
            assert run(scenario, seed=seed, profile=release, loop="bare").digest == plain.digest
        passed_over = [bug for bug in bugs if not asked.could_matter(bug, scenario)]
        assert len(passed_over) > len(bugs) // 2
        for bug in [each for each in passed_over if each.issue not in BY_WHAT_THEY_DECIDE][:5]:
            result = run(attrs.evolve(scenario, bugs=(bug.issue,)), seed=seed, profile=release, loop="bare")
            assert (result.steps, result.virtual_us, result.figures) == (plain.steps, plain.virtual_us, plain.figures)


def test_what_a_seed_shows_without_the_bug_too_is_not_found_by_it() -> None:
    """Found is what the bug alone brings about; the first seed counts."""
    rows = [{"seed": 9, "found": ["KAFKA-1367"]}, {"seed": 4, "found": ["KAFKA-1367", "KAFKA-7152"]}]

    assert first_found(rows) == {"KAFKA-1367": 4, "KAFKA-7152": 4}
    (row,) = looked_for(2, ["KAFKA-1367"])
    assert (row["found"], row["alone"], row["without"]) == (["KAFKA-1367"], ["KAFKA-1367"], "holds")
