"""Figures of Streams tasks: in the report, in the table of seeds, and in comparisons of variants."""

import json
import re

from click.testing import CliRunner

from kemu.emulator.metrics.figures import Applications
from kemu.emulator.metrics.metrics import FIGURES
from kemu.tools.cli import kemu

SCALE_DOWN = "streams-scale-down"


def call(*arguments: str) -> str:
    """What a command prints."""
    result = CliRunner().invoke(kemu, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_report_tells_event_by_event_and_task_by_task_where_downtime_went() -> None:
    """What moved and why, each time a task was down with its parts, what was read."""
    lines = call("run", SCALE_DOWN, "--seed", "1").splitlines()
    begins = lines.index("  tasks of app: 5, 2 down for some time")
    told = lines[begins : begins + 15]

    assert re.fullmatch(r"    00:20\.000  c2 of app leave: balanced after 19\.\d s, settled after \d+\.\d s", told[1])
    assert told[2] == (
        "      tasks moved: 2, at least 2 had to; rebalances: 1 gone, 2 ready, 1 leaving (1 without a change)"
    )
    parts = r"restoring [\d.]+, waiting for the others to join [\d.]+, paused for rebalances [\d.]+ task-seconds"
    assert re.fullmatch(f"      of that: {parts}", told[4])
    rows = [re.split(r"  +", line.strip()) for line in told if line.startswith("      0_")]
    assert [(row[0], [cell for cell in row[3:6] if cell == "-"], row[-1]) for row in rows] == [
        ("0_1", ["-", "-"], "paused: c2 resumes"),
        ("0_4", ["-"], "given up: c2, then c3"),
        ("0_1", ["-"], "given up: c2, then c1"),
    ]
    assert re.fullmatch(r"    waiting for others to join: [\d.]+ member-seconds, at most [\d.]+ m?s of c\d/t1", told[9])
    ready = "of them by learners that were ready"
    assert re.fullmatch(rf"    learned or warmed up: [\d.]+ task-seconds, [\d.]+ {ready}", told[10])
    assert re.fullmatch(r"    the largest deviation of an instance from its share: [\d.]+ task-seconds", told[11])
    assert told[12] == "    read of changelogs (MB): active 0.0, learner 1.4; wasted: 0.0"


def test_many_seeds_have_columns_of_tasks_where_streams_run_and_nowhere_else() -> None:
    """The same figures as in the comparison, but for those that are zero."""
    (head,) = [line for line in call("run", SCALE_DOWN, "--seeds", "1:2").splitlines() if "verdict" in line]
    (plain,) = [line for line in call("run", "steady-group", "--seeds", "1:2").splitlines() if "verdict" in line]

    for name in (
        "task downtime",
        "barrier",
        "restore",
        "pause",
        "tasks moved",
        "least",
        "MB read",
    ):
        assert name in head and name not in plain
    assert "detect" not in head, "a column of zeros"


def test_figures_of_tasks_are_compared_and_are_the_run_s_own() -> None:
    """One door: what a variant costs is what its run says; null where nothing streams."""
    arguments = ("--profiles", "kip-429-v99", "--seeds", "1:1", "--format", "json")
    (row,) = json.loads(call("compare", SCALE_DOWN, *arguments))["variants"]
    run = json.loads(call("run", SCALE_DOWN, "--seed", "1", "--format", "json"))
    tasks, figures = run["streams"]["app"], row["figures"]

    assert figures["task_downtime"]["median"] == sum(tasks["downtime_us"].values()) > 1_000_000
    parts = ("task_detect", "task_barrier", "task_restore", "task_pause")
    assert sum(figures[name]["median"] for name in parts) == figures["task_downtime"]["median"]
    assert figures["tasks_moved"]["median"] == tasks["moved"] == 2
    assert figures["read_bytes"]["median"] == sum(tasks["read_bytes"].values())
    assert figures["to_balance"]["median"] == tasks["to_balance_us"]
    assert figures["rebalances"]["median"] == sum(tasks["rebalances"].values()) == 4
    (steady,) = json.loads(call("compare", "steady-group", *arguments))["variants"]
    assert all(steady["figures"][name]["median"] is None for name, each in FIGURES.items() if each.of is Applications)
