"""``kemu compare``: the same faults for every variant, and figures that are what they are called."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kemu.emulator.metrics.costs import Costs, Episodes
from kemu.emulator.metrics.figures import DelayFigures, Figures, FreshnessFigures, RecordFigures
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.scenario.random_faults import random_faults
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.watching.panel import Panel
from kemu.tools.cli import kemu
from kemu.tools.commands.compare import DEFAULT_VARIANTS, variants_of
from kemu.tools.report.compare_report import as_text
from kemu.tools.report.comparison import summary_of, with_differences


def call(*arguments: str) -> Result:
    return CliRunner().invoke(kemu, ["compare", *arguments])


def compare_json(*arguments: str) -> dict[str, Any]:
    result = call(*arguments, "--format", "json")
    assert result.stdout, result
    data: dict[str, Any] = json.loads(result.stdout)
    return data


def test_every_variant_has_every_figure_over_the_seeds() -> None:
    """None is left out, and none is empty."""
    data = compare_json(
        "cooperative-scale-out-by-one", "--profiles", "kafka-2.4,kafka-3.4", "--assignors", "range,cooperative-sticky",
        "--seeds", "1:2",
    )  # fmt: skip

    assert [row["variant"] for row in data["variants"]] == [
        "kafka-2.4 range", "kafka-2.4 cooperative-sticky", "kafka-3.4 range", "kafka-3.4 cooperative-sticky",
    ]  # fmt: skip
    assert data["seeds"] == [1, 2]
    for row in data["variants"]:
        assert row["figures"].keys() == FIGURES.keys()
        for figure in row["figures"].values():
            assert figure.keys() == {"median", "low", "high", "p95", "max"}
            assert (figure["low"], figure["high"], figure["p95"]) == (None, None, None), "two seeds do not say"
        assert row["verdicts"] == {"holds": 2}


def test_a_profile_may_carry_settings() -> None:
    """The page's cooperative protocol is a setting of its consumers."""
    (variant,) = variants_of("kip-429-v99+rebalance.protocol=cooperative", "sticky")

    scenario = variant.of(load_scenario("steady-group"))

    assert variant.name == "kip-429-v99+rebalance.protocol=cooperative sticky"
    assert scenario.groups["g"].assignors == ("sticky",)
    assert dict(scenario.groups["g"].config)["rebalance_protocol"] == "cooperative"


def test_without_options_eager_the_page_and_what_shipped_are_compared() -> None:
    """What eager, the page's protocol and the shipped one each cost."""
    assert variants_of(None, None) == DEFAULT_VARIANTS
    assert [each.profile for each in variants_of(None, "range,sticky", "kafka-2.4")] == ["kafka-2.4", "kafka-2.4"]
    assert {variant.profile for variant in DEFAULT_VARIANTS} == {"kafka-2.4", "kip-429-v99", "kafka-3.4"}


def test_the_table_has_a_line_per_figure_that_is_not_zero_and_all_on_demand() -> None:
    """The help defines each figure."""
    arguments = ("cooperative-scale-in", "--profiles", "kafka-3.4", "--seeds", "1:1")
    text, everything = call(*arguments).stdout, call(*arguments, "--all").stdout
    said = call("--help").stdout

    assert "seeds 1 to 1" in text
    assert re.search(r"^  moved +4$", text, re.MULTILINE) and "lost" not in _figures_of(text)
    assert _figures_of(everything) == [name.replace("_", " ") for name, kind in FIGURES.items() if kind.of in OF_ALL]
    assert set(_figures_of(text)) < set(_figures_of(everything))
    for name, kind in FIGURES.items():
        assert " ".join(kind.meaning.split()) in " ".join(said.split())
        assert name in said


OF_ALL = (Episodes, Figures, DelayFigures, FreshnessFigures, RecordFigures)
"""The sources of figures that every run has."""


def _figures_of(text: str) -> list[str]:
    """The figures with a row."""
    names = [name.replace("_", " ") for name in FIGURES]
    starts = [re.split(r" {2,}", line.strip())[0] for line in text.splitlines() if line.startswith("  ")]
    return [start for start in starts if start in names]


def row_of(name: str, **figures: Sequence[float | None]) -> dict[str, Any]:
    """A variant's row with these figures by seed, and nothing else."""
    by_seed: dict[str, Sequence[float | None]] = {
        figure: figures.get(figure, [0.0] * len(next(iter(figures.values())))) for figure in FIGURES
    }
    told = {figure: summary_of(values) for figure, values in by_seed.items()}
    return {"variant": name, "runs": 1, "verdicts": {"holds": 8}, "figures": told, "by_seed": by_seed,
            "did_not_work": "", "never_fired": []}  # fmt: skip


def test_variants_are_called_better_worse_or_not_shown_to_differ_by_paired_differences() -> None:
    """The medians of b overlap those of a; seed by seed b is always better by one."""
    seeds = [float(1_000_000 * seed) for seed in range(1, 9)]
    rows = [
        row_of("a", downtime_sum=seeds, moved=[1.0] * 8, stopped=seeds, rebalances=[3.0] * 8),
        row_of("b", downtime_sum=[value - 900_000 for value in seeds], moved=[2.0] * 8, stopped=seeds[::-1],
               rebalances=[3.0] * 8),
    ]  # fmt: skip
    with_differences(rows)
    text = "\n".join(as_text("s: title", range(1, 9), rows))

    assert {name: told["says"] for name, told in rows[1]["differences"].items() if told["says"] != "equal"} == {
        "downtime_sum": "better", "moved": "worse", "stopped": "no difference shown",
    }  # fmt: skip
    assert rows[0]["differences"] == {}
    assert "Against a, paired by seed" in text
    assert "    better  downtime sum -0.90 partition-s [-0.90, -0.90]" in text
    assert "    worse  moved +1 [1, 1]" in text
    assert "    no difference shown  stopped" in text
    assert "rebalances" not in text, "it does not differ"


def test_few_figures_have_a_row_per_variant_and_too_few_seeds_no_interval() -> None:
    """The heading does not claim an interval that is not printed."""
    rows = [row_of("a", moved=[1.0, 2.0]), row_of("b", moved=[3.0, 4.0])]
    with_differences(rows)
    lines = list(as_text("s: title", (1, 2), rows))

    assert "Against a: no difference shown; 2 seeds are too few, 6 are needed" in lines
    assert "  a          1.5" in lines and "  b          3.5" in lines
    assert "interval" not in "\n".join(lines)


def test_actions_are_added_to_the_plan_of_every_variant() -> None:
    """``--do`` as "kemu run" has it: which setting makes this cheaper is one command."""
    told = [
        compare_json("steady-group", "--profiles", "kafka-3.4", "--seeds", "1:1", *more)
        for more in ((), ("--do", "crash host=c1 at=20s for=20s"))
    ]

    without, crashed = (data["variants"][0]["figures"] for data in told)
    assert without["downtime_sum"]["median"] == 0
    assert crashed["downtime_sum"]["median"] > 20_000_000
    assert crashed["lag_max"]["median"] >= crashed["delay_max"]["median"] > without["delay_max"]["median"]


def test_from_six_seeds_on_there_is_an_interval_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of medians and of paired differences."""
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    arguments = ("steady-group", "--profiles", "kafka-2.4,kafka-3.4", "--seeds", "1:6", "--set", "duration=10s")
    first, second = compare_json(*arguments)["variants"]

    known = {name: figure for name, figure in first["figures"].items() if figure["median"] is not None}
    assert all(figure["low"] <= figure["median"] <= figure["high"] for figure in known.values())
    assert all(len(first["by_seed"][name]) == 6 for name in known)
    assert all(told["low"] <= told["median"] <= told["high"] for told in second["differences"].values())


def test_a_profile_that_does_not_exist_is_one_clear_error() -> None:
    """With the nearest name."""
    result = call("steady-group", "--profiles", "kafka-26")

    assert result.exit_code == 2
    assert 'did you mean "kafka-2.6"' in result.output


def test_the_same_seed_draws_the_same_faults_whatever_runs_under_them() -> None:
    """Otherwise the variants would not be compared under the same faults."""
    scenario = load_scenario("cooperative-scale-in")
    others = [variant.of(scenario) for variant in DEFAULT_VARIANTS]

    drawn = random_faults(scenario, 7, 5)

    assert len(drawn) == 5
    assert all(random_faults(other, 7, 5) == drawn for other in others)
    assert random_faults(scenario, 8, 5) != drawn


def test_the_figures_of_a_growing_eager_group() -> None:
    """Everything stops at each join, in one rebalance; the formation of the group is not counted."""
    bill = bill_of("cooperative-scale-out-by-one", "assignors=sticky", "draws=calm")

    assert bill.rebalances == 1
    assert bill.moved == 2
    assert bill.stopped > 0
    assert bill.unfinished == 0
    assert abs(bill.service_lost - bill.downtime_sum / 12) <= 12, "twelve partitions weigh the same"
    assert bill.service_lost_max == 100.0
    assert bill.downtime_max <= bill.downtime_sum <= 12 * bill.downtime_max
    assert bill.delay_p50 is not None and bill.delay_max is not None
    assert bill.delay_p50 < 3_000 < bill.delay_max <= bill.lag_max
    assert 0 < bill.to_balance < 4_000_000


def test_a_group_that_never_balances_is_unfinished_until_the_end_of_the_run() -> None:
    """KIP-429's page with one member left behind; "If never reached ... report, do not drop"."""
    bill = bill_of("one-eager-member-left-behind")

    assert bill.unfinished == 1
    assert bill.to_balance > 100_000_000
    assert bill.stopped > 100_000_000


MOVED_AND_LIMPING = """
duration = "30s"
draws = "calm"
[brokers]
count = 4
[brokers.replication]
factor = 2
session = "3s"
[brokers.config]
"offsets.topic.num.partitions" = 3
[topics.t]
partitions = 2
rate = "10/s"
initial_records = 2000
assignment = ["0 1", "1 0"]
[[plan]]
at = "8s"
do = "crash"
host = "b1"
for = "12s"
[[plan]]
at = "22s"
do = "reassign-partitions"
topic = "t"
to = ["2", "3"]
"""


def test_what_a_reassignment_cost_is_in_the_bill_of_runs_that_reassign_alone(tmp_path: Path) -> None:
    """b1 is missed from 11 to 20 s, and back in both ISRs before they move: that time counts for each partition."""
    scenario = tmp_path / "moved.toml"
    scenario.write_text(MOVED_AND_LIMPING)
    bill, of_others = bill_of(str(scenario)), bill_of("replicated-steady", "duration=10s")
    replication = run(load_scenario(str(scenario)), seed=1, loop="bare").figures.replication

    assert replication is not None
    limping = replication.under_replicated_us
    assert all(8_000_000 < limping[name] < 11_000_000 for name in ("t-0", "t-1"))
    assert bill.under_replicated == sum(limping.values())
    assert bill.reassigning is not None and 0 < bill.reassigning < 8_000_000
    assert (of_others.reassigning, of_others.moved_bytes) == (None, None)


def bill_of(preset: str, *settings: str) -> SimpleNamespace:
    scenario = with_values(load_scenario(preset), settings)
    panel = Panel()
    costs = Costs(panel, {name: group.topics for name, group in scenario.groups.items()})
    result = run(scenario, seed=1, loop="bare", observers=(costs,), panel=panel)
    costs.finish(result.virtual_us)
    return SimpleNamespace(**costs.bill(result.figures))


@pytest.mark.parametrize(("preset", "least_s", "most_s"), [("static", 8, 12), ("dynamic", 1, 6)])
def test_balance_that_lasts_until_a_member_closes_ends_the_episode_before(
    preset: str, least_s: int, most_s: int
) -> None:
    """One member every 20 s is down for about 10: static members wait for it, dynamic ones rebalance at once."""
    assert least_s * 1_000_000 < bill_of(f"rolling-restart-{preset}").to_balance < most_s * 1_000_000


def test_a_variant_that_did_not_work_has_no_figures(tmp_path: Path) -> None:
    """Its members are refused at once: no rebalance, no downtime, no duplicates, and no work."""
    scenario = tmp_path / "strict.toml"
    scenario.write_text(
        'duration = "20s"\n[brokers.config]\ngroup.min.session.timeout.ms = 11000\n[topics.orders]\npartitions = 3\n'
        '[groups.g]\ntopics = ["orders"]\nmembers = 2\n'
    )
    arguments = [str(scenario), "--profiles", "kafka-2.4,kafka-3.4", "--seeds", "1:2"]

    text = call(*arguments)
    (dead, alive) = compare_json(*arguments)["variants"]

    assert text.exit_code == 8
    assert "kafka-2.4 did not work in 2 of 2 runs; seed 1: c1 of group g failed for good" in text.stdout
    assert dead["figures"] == {} and "INVALID_SESSION_TIMEOUT" in dead["did_not_work"]
    assert alive["figures"].keys() == FIGURES.keys() and alive["did_not_work"] == ""


def test_a_scenario_without_groups_has_no_variants_of_assignors(tmp_path: Path) -> None:
    """The user gave no --set."""
    path = tmp_path / "empty.toml"
    path.write_text("[topics.t]\npartitions = 1\n", encoding="utf-8")

    done = CliRunner().invoke(kemu, ["compare", str(path), "--seeds", "1:2"])

    assert done.exit_code == 2
    assert done.stderr == f"error: {path} has no group, and the variants have assignors: give --profiles alone\n"


# --- protocols -------------------------------------------------------------------------------------------------------

SWITCHED = (
    'duration = "20s"\n[topics.orders]\npartitions = 4\nrate = "8/s"\n'
    '[groups.g]\ntopics = ["orders"]\nmembers = 2\nassignors = ["sticky"]\nconfig."session.timeout.ms" = 9000\n'
)


def test_protocols_are_compared_in_a_release_that_has_both(tmp_path: Path) -> None:
    """One line names each setting that a variant lacks; only the consumer protocol has the broker's interval."""
    path = tmp_path / "mine.toml"
    path.write_text(SWITCHED, encoding="utf-8")

    data = compare_json(str(path), "--protocols", "classic,consumer+range", "--seeds", "1:1")
    classic, consumer = data["variants"]

    assert [row["variant"] for row in data["variants"]] == ["kafka-4.0 classic", "kafka-4.0 consumer range"]
    assert classic["figures"].keys() == consumer["figures"].keys() == FIGURES.keys()
    assert [row["verdicts"] for row in data["variants"]] == [{"holds": 1}] * 2
    assert classic["by_seed"] != consumer["by_seed"]
    assert data["left_out"] == [
        "groups.g: assignors = sticky is left out: the coordinator assigns the partitions (group.remote.assignor)",
        "groups.g: session.timeout.ms = 9000 is left out: the brokers have group.consumer.session.timeout.ms",
    ]


def test_the_scenario_of_a_protocol_is_that_of_kemu_run() -> None:
    """The command that repeats a run has the same settings."""
    scenario = load_scenario("rolling-restart-static")
    (classic, consumer) = variants_of(None, None, "", "classic+cooperative-sticky,consumer+range")

    assert dict(consumer.of(scenario).groups["g"].config) == {
        "group_protocol": "consumer", "group_remote_assignor": "range",
    }  # fmt: skip
    assert classic.of(scenario).groups["g"].assignors == ("cooperative-sticky",)
    assert consumer.of(scenario) == with_values(scenario, consumer.all_settings)
    assert classic.of(consumer.of(scenario)) == classic.of(scenario)
    assert variants_of("kafka-4.0,kafka-4.0+max.poll.records=9", None, "", "classic,consumer")[3].name == (
        "kafka-4.0+max.poll.records=9 consumer"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["steady-group", "--protocols", "modern"], '--protocols: "modern" is no protocol'),
        (["steady-group", "--protocols", "consumer", "--assignors", "range"], "write --protocols PROTOCOL+ASSIGNOR"),
        (["steady-group", "--protocols", "consumer+sticky"], 'group.remote.assignor: "sticky" is not allowed'),
        (["steady-group", "--protocols", "consumer", "--profiles", "kafka-3.9"], "kafka-4.0 or later"),
        (["streams-scale-up", "--protocols", "consumer"], "streams: is not emulated with group.protocol = consumer"),
    ],
)
def test_a_scenario_that_a_protocol_cannot_have_is_refused_before_the_first_run(
    arguments: Sequence[str], said: str
) -> None:
    done = call(*arguments, "--seeds", "1:1")

    assert said in f"{done.stderr}{done.exception}"
    assert done.exit_code == 2 or isinstance(done.exception, ScenarioError)
    assert not done.stdout
