"""No line that a command prints is wider than the terminal."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.presets import presets
from kemu.tools.cli import kemu
from kemu.tools.commands.query import as_table
from kemu.tools.report import layout
from kemu.tools.report.collecting import Collector
from kemu.tools.report.layout import TableColumn, fold, table, without_zeros
from kemu.tools.report.run_report import as_text, table_of_seeds

WIDTHS = (80, 100, 120)
QUICK = ("--set", "duration=20s")
CURRENT = {
    "version": 1,
    "partitions": [{"topic": "orders", "partition": number, "replicas": [0, 1, 2]} for number in range(3)],
}
GROUP = {
    "partitions_per_topic": {"orders": 40, "payments-of-a-long-name": 30},
    "members": {f"consumer-{number}": {"topics": ["orders", "payments-of-a-long-name"]} for number in range(3)},
}


@pytest.fixture(scope="module", name="files")
def made_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace, a plan of a reassignment, and a group to assign."""
    folder = tmp_path_factory.mktemp("width")
    trace = ["run", "gc-pause-zombie", "--set", "duration=60s", "--loop", "bare", "--trace", str(folder / "run.kemu")]
    assert CliRunner().invoke(kemu, trace).exit_code == 0
    target = {"version": 1, "partitions": [{**row, "replicas": [3, 4, 5]} for row in CURRENT["partitions"]]}  # type: ignore[dict-item]
    (folder / "current.json").write_text(json.dumps(CURRENT), encoding="utf-8")
    (folder / "target.json").write_text(json.dumps(target), encoding="utf-8")
    (folder / "group.jsonl").write_text(json.dumps(GROUP) + "\n", encoding="utf-8")
    return folder


def too_wide(width: int, monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> list[str]:
    """The lines of a command that are wider than ``width``; the command prints something."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(kemu, list(arguments))
    assert result.exit_code in (0, 1, 7, 8, 9), result.output
    assert len(result.output.splitlines()) > 1, arguments
    return [line for line in result.output.splitlines() if len(line) > width]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "line",
    [
        "run steady-group --set duration=20s",
        "run controller-crash --loop bare",
        "run one-eager-member-left-behind --loop bare --verbose",
        "run steady-group --seeds 1:2 --set duration=10s --loop bare",
        "compare steady-group --seeds 1:1 --set duration=15s",
        "compare steady-group --profiles kafka-2.4,kafka-3.4 --seeds 1:6 --set duration=10s --all",
        "explain run.kemu",
        "explain run.kemu --from 30s --to 31s --actor c2",
        "explain run.kemu --step 300 --verbose",
        "explain run.kemu --actor",
        "coverage steady-group --seeds 1:1 --set duration=10s",
        "scenarios",
        "describe",
        "describe rolling-restart",
        "describe one-owner",
        "describe session.timeout.ms",
        "bugs",
        "bugs KAFKA-12984",
        "history run.kemu",
        "swarm --seeds 2:2 --draws",
        "swarm --seed 1",
        "explore steady-group --runs 2 --set duration=5s --draws",
        "scale streams-few-tasks --add 1 --loop bare",
        "assign --assignor range --format text group.jsonl",
        "compare-assignors steady-group",
        "compare-assignors group.jsonl",
        "plan-reassignment --current current.json --target target.json --replica-limit 1",
    ],
)
def test_no_line_of_a_command_is_wider_than_the_terminal(
    line: str, width: int, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short set has 80 columns, which are the most difficult."""
    assert too_wide(width, monkeypatch, files, *line.split()) == []


def test_the_report_of_a_streams_application_and_its_table_of_seeds_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have the most columns; one run serves all widths."""
    scenario, collector = load_scenario("streams-scale-down"), Collector()
    result = run(scenario, seed=1, loop="bare", readers=collector.readers)
    command = "kemu run streams-scale-down --seed 1"
    told = collector.finish(result, scenario, command)
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        report = [*as_text(told, verbose=width > 80)]
        report += table_of_seeds([result, result], lambda seed: command)
        lines = [click.unstyle(part) for line in report for part in fold(line, width)]

        assert [line for line in lines if len(line) > width] == []
        assert any("barrier" in line for line in lines) and any("restore" in line for line in lines)


def test_a_shrunk_scenario_is_reported_within_the_terminal(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands and sizes too."""
    assert too_wide(80, monkeypatch, tmp_path, "shrink", "KAFKA-12984", "--runs", "3", "--out", "small") == []


def test_a_wrapped_command_is_one_command_for_a_shell() -> None:
    """A backslash ends each line but the last; a long quoted word is closed and opened again."""
    command = "kemu run steady-group --do 'rolling-restart every=20s down=8s' --set 'bugs=[\"KAFKA-12984\"]' --seed 3"
    lines = fold(f"  repeat with: {command}", 50)
    long_word = fold(f"repeat with: kemu run steady-group --set '{'x' * 90}'", 50)

    assert all(len(line) <= 50 for line in (*lines, *long_word))
    assert all(line.endswith(" \\") for line in lines[:-1])
    joined = " ".join(line.removesuffix(" \\").strip() for line in lines)
    assert joined == f"repeat with: {command}"
    assert "".join(line.removesuffix("\\") for line in long_word).replace("''", "").endswith("x" * 90 + "'")


def test_columns_that_do_not_fit_stand_in_a_further_table_with_the_first_column() -> None:
    """No figure is lost."""
    columns = [TableColumn("seed"), *(TableColumn(f"figure {number}", right=True) for number in range(9))]
    lines = table(columns, [[str(number) for number in range(10)]], width=50)

    assert all(len(click.unstyle(line)) <= 50 for line in lines)
    assert sum("seed" in line for line in lines) == 3
    assert all(any(f"figure {number}" in line for line in lines) for number in range(9))


def test_columns_of_zeros_go() -> None:
    """But never the first ones."""
    columns = [TableColumn("seed"), TableColumn("lost"), TableColumn("down"), TableColumn("delay")]
    kept, rows = without_zeros(columns, [["0", "0", "0.00", "1.5"], ["0", "0", "-", "0.0"]])

    assert [column.head for column in kept] == ["seed", "delay"]
    assert rows == [["0", "1.5"], ["0", "0.0"]]


def test_every_preset_is_listed_within_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its whole summary."""
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(kemu, ["scenarios"]).output

    words = " ".join(text.split())
    assert all(preset.name in words for preset in presets())
    assert all(len(line) <= 80 for line in text.splitlines())


def test_long_cells_of_a_query_are_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of a cell may have 96 characters."""
    monkeypatch.setenv("COLUMNS", "80")
    rows = [{"cell": "x" * 96, "figure": "downtime_us", "runs": 12_000, "differs": True, "low": 1.25}]
    lines = [click.unstyle(line) for line in as_table(list(rows[0]), [list(row.values()) for row in rows])]

    assert all(len(line) <= 80 for line in lines[:-1])
    assert any(f"{'x' * 43}…" in line for line in lines)
    assert any("12,000" in line for line in lines)
    assert lines[-1].startswith("cells longer than 44 characters are cut")


@pytest.mark.parametrize("headed", [True, False])
def test_a_table_that_fits_looks_as_one_drawn_by_rich(headed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short run's report does not wait for the import of rich."""
    heads = ("member", "lag", "", "a long head") if headed else ("",) * 4
    columns = [TableColumn(head, right=at == 1, wraps=at == 3) for at, head in enumerate(heads)]
    rows = [["c1", "12,000", "", "-"], ["c10", "0", "", "a cell that is longer than its head"]]
    drawn: list[str] = []
    by_rich = layout._drawn

    def draw(*about: Any) -> list[str]:
        drawn.append("by rich")
        return by_rich(*about)

    monkeypatch.setattr(layout, "_drawn", draw)
    ours = table(columns, rows, width=80)
    assert drawn == []
    monkeypatch.setattr(layout, "_is_plain", lambda cell: False)

    assert [click.unstyle(line) for line in table(columns, rows, width=80)] == [click.unstyle(line) for line in ours]
    assert drawn == ["by rich"]
    assert len(ours) == len(rows) + headed
