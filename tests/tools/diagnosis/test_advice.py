"""Advice: a change without effect is promised in fewer than 5 % of advices, and a real effect is found."""

import json
import random
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.tools.cli import kemu
from kemu.tools.commands.advise import run_changes
from kemu.tools.commands.compare import Variant, compared_run
from kemu.tools.diagnosis.advice import (
    FALSE_PROMISES,
    RANKED_BY,
    ProposedChange,
    Says,
    changes_for,
    confidence_for,
    effect_of,
    fitting,
    judge,
)
from kemu.tools.intervals import fewest, median_ranks, spread
from tests.tools.logs.excerpts import FOLDER

README = Path(__file__).parents[3] / "README.md"
SEEDS = 12
CHANGES = 12
SMALL = """
summary = "Two members, one of which is away for longer than its session"
duration = "40s"
[topics.orders]
partitions = 4
rate = "8/s"
[groups.g]
topics = ["orders"]
members = 2
start_spread = "1s"
[groups.g.config]
session.timeout.ms = 10000
[[plan]]
at = "15s"
do = "crash"
host = "c2"
for = "20s"
"""


def small() -> Scenario:
    return scenario_from_toml(SMALL)


def row(values: dict[str, list[float]]) -> dict[str, object]:
    return {"by_seed": values, "runs": SEEDS, "figures": {}, "verdicts": {"holds": SEEDS}, "did_not_work": ""}


def drawn(random_: random.Random, pairs: int) -> dict[str, list[float]]:
    """Values with long tails and ties, as downtime and duplicates have."""
    return {name: [float(int(random_.paretovariate(1.2))) for _ in range(pairs)] for name in RANKED_BY.values()}


def promised(base: dict[str, list[float]], changed: Sequence[dict[str, list[float]]]) -> bool:
    rows = [(ProposedChange(name=f"{number}", settings=()), row(values)) for number, values in enumerate(changed)]
    advice = judge(row(base), rows, "downtime_sum")
    return any(effect.says is Says.BETTER for each in advice.judged for effect in each.effects.values())


def test_drawn_changes_without_effect_are_promised_in_fewer_than_5_percent_of_advices() -> None:
    draws = random.Random("nulls")
    told = [promised(drawn(draws, SEEDS), [drawn(draws, SEEDS) for _ in range(CHANGES)]) for _ in range(400)]
    assert sum(told) / len(told) < FALSE_PROMISES


def test_runs_that_differ_only_in_their_seeds_are_promised_in_fewer_than_5_percent_of_advices() -> None:
    """100 seeds' worth of nulls: the change of each pair is another seed of the same scenario."""
    scenario, draws = small(), random.Random("pairs")
    bills = [compared_run(Variant("kafka-3.4"), scenario, seed, 0).bill for seed in range(1, 201)]
    told = []
    for _ in range(100):
        chosen = draws.sample(range(len(bills)), SEEDS * (CHANGES + 1))
        parts = [chosen[at : at + SEEDS] for at in range(0, len(chosen), SEEDS)]
        found = [{name: [bills[seed][name] for seed in part] for name in RANKED_BY.values()} for part in parts]
        told.append(promised(found[0], found[1:]))  # type: ignore[arg-type]
    assert sum(told) / len(told) < FALSE_PROMISES


def test_a_real_effect_is_promised_and_a_setting_that_does_nothing_is_said_to_do_nothing() -> None:
    """The crashed member's session decides its partitions' downtime; 500 or 100 records a poll change nothing here."""
    scenario = small()
    changes = (
        ProposedChange(name="session 30 s", settings=("session.timeout.ms=30000",)),
        ProposedChange(name="fewer records", settings=("max.poll.records=100",)),
        ProposedChange(name="session 6 s", settings=("session.timeout.ms=6000", "heartbeat.interval.ms=1000")),
    )
    fit, unfit = fitting(scenario, changes)
    rows = run_changes(scenario, "kafka-3.4", fit, range(1, 11), jobs=1)
    advice = judge(rows[0], [(change, row) for (change, _), row in zip(fit, rows[1:], strict=True)], "downtime_sum")
    assert not unfit
    assert [(each.change.name, each.says) for each in advice.judged] == [
        ("session 6 s", Says.BETTER),
        ("fewer records", Says.NOTHING),
        ("session 30 s", Says.WORSE),
    ]


def test_the_difference_is_that_of_the_runs_by_hand() -> None:
    scenario, settings = small(), ("session.timeout.ms=20000",)
    fit = [(ProposedChange(name="20 s", settings=settings), with_values(scenario, settings))]
    rows = run_changes(scenario, "kafka-3.4", fit, range(1, 2), jobs=1)
    by_hand = [compared_run(Variant("kafka-3.4"), with_values(scenario, settings), seed, 0).bill for seed in (1,)]
    assert rows[1]["by_seed"]["downtime_sum"] == [bill["downtime_sum"] for bill in by_hand]


@pytest.mark.parametrize(
    ("incident", "change", "says"),
    [
        ("d-sticky-kill", "session.timeout.ms=6000+heartbeat.interval.ms=2000", "better"),
        ("a-range-rolling", "static=true", "worse"),
        ("q-paused-in-rebalance", "assignors=cooperative-sticky", "better"),
        ("g-broker-restart", "session.timeout.ms=90000", "does nothing"),
    ],
)
def test_an_advice_is_that_of_the_runs_by_hand(incident: str, change: str, says: str, tmp_path: Path) -> None:
    """``kemu run --set`` over the same seeds gives the figures, for recordings of Kafka 3.4.1.

    With 8 seeds and one change, the interval is from the smallest to the largest difference.
    """
    source, scenario = str(tmp_path / "x.kemu"), str(tmp_path / "x.toml")
    logs = sorted((FOLDER.parent / "kafka-3.4.1" / "logs" / incident).glob("*.log.gz"))
    told("import-log", *map(str, logs), "--out", source)
    told("reproduce", source, "--out", scenario)
    jobs = ("--seeds", "1:8", "--jobs", "1", "--format", "json")
    (found,) = json.loads(told("advise", source, "--try", change, *jobs))["changes"]
    before, after = (by_hand(told("run", scenario, "--loop", "bare", *jobs, *more)) for more in ((), set_by(change)))

    assert found["says"] == says
    assert_equal_effects(found, before, after)


def test_the_advice_on_the_readmes_restart_is_that_of_the_runs_by_hand(tmp_path: Path) -> None:
    """The group and the rolling restart of README, and the two changes that README tries."""
    texts = dict(re.findall(r"```text file=(\S+)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL))
    files = [tmp_path / name for name in ("topics.txt", "members.txt", "consumer.properties")]
    for path in files:
        path.write_text(texts[path.name])
    scenario = str(tmp_path / "billing.toml")
    told("import", *map(str, files), "--out", scenario)
    changes = ("static=true", "assignors=cooperative-sticky")
    jobs = ("--seeds", f"1:{fewest(confidence_for(len(changes)))}", "--jobs", "1", "--format", "json")
    restart = ("--do", "rolling-restart every=20s down=8s")
    tried = [word for change in changes for word in ("--try", change)]
    found = json.loads(told("advise", scenario, *restart, *tried, *jobs))["changes"]
    before = by_hand(told("run", scenario, "--loop", "bare", *restart, *jobs))

    assert sorted(each["change"] for each in found) == sorted(changes)
    for each in found:
        after = by_hand(told("run", scenario, "--loop", "bare", *restart, *jobs, *set_by(each["change"])))
        assert_equal_effects(each, before, after)
        downtime = [new["downtime_sum"] - old["downtime_sum"] for new, old in zip(after, before, strict=True)]
        assert (each["says"] == "better") == (max(downtime) < 0)
        assert (each["says"] == "worse") == (min(downtime) > 0)


def set_by(change: str) -> list[str]:
    """The options of ``kemu run`` for a change of ``--try``."""
    return [word for setting in change.split("+") for word in ("--set", setting)]


def assert_equal_effects(
    found: dict[str, Any], before: Sequence[dict[str, float]], after: Sequence[dict[str, float]]
) -> None:
    """The interval of each figure is from the smallest to the largest difference, with the median in it."""
    for name, effect in found["effects"].items():
        pairs = [new[name] - old[name] for new, old in zip(after, before, strict=True)]
        assert (effect["low"], effect["high"]) == (min(pairs), max(pairs))
        assert effect["median"] == statistics.median(pairs)


def told(*words: str) -> str:
    result = CliRunner().invoke(kemu, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def by_hand(text: str) -> list[dict[str, float]]:
    """The figures of each run, from the parts of its report."""
    return [
        {
            "downtime_sum": sum(run["downtime_us"].values()),
            "service_lost": sum(group["lost_us"] for group in run["service"].values()),
            "delay_p99": run["delay"]["p99_us"],
            "reprocessed": run["reprocessed"],
        }
        for run in json.loads(text)["runs"]
    ]


def test_the_table_begins_at_the_values_of_the_scenario() -> None:
    scenario = load_scenario("gc-pause-zombie")
    changes = {change.name: change.settings for change in changes_for(scenario)}
    assert changes["session x2"] == ("session.timeout.ms=20000",)
    assert "static membership" in changes
    static = {change.name for change in changes_for(load_scenario("rolling-restart-static"))}
    assert "static membership" not in static
    assert not fitting(scenario, changes_for(scenario))[1]


def test_an_interval_of_more_confidence_is_wider_and_needs_more_seeds() -> None:
    assert median_ranks(20) == (6, 15)
    assert median_ranks(20, 0.999) == (3, 18)
    assert median_ranks(8, 0.999) is None
    assert fewest(confidence_for(CHANGES)) == 11
    assert spread(range(20), 0.999).low == 2


def test_a_figure_without_a_value_in_some_seed_is_judged_by_the_other_seeds() -> None:
    before: list[float | None] = [None, *[10.0] * 11]
    after: list[float | None] = [5.0, *[4.0] * 11]
    effect = effect_of("downtime_sum", before, after, 0.99)
    assert effect is not None
    assert (effect.says, effect.median) == (Says.BETTER, -6.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["steady-group", "--seeds", "1:5"], "need"),
        (["no-such-scenario"], "no-such-scenario"),
        (["steady-group", "--try", "no.key=1"], "no.key"),
    ],
)
def test_bad_input_is_one_message(words: list[str], said: str) -> None:
    result = CliRunner().invoke(kemu, ["advise", *words])
    assert result.exit_code
    assert said in f"{result.output}{result.exception}"
