"""Adding a figure is one edit: a declaration, with its counter beside it if it counts facts of its own."""

import json
import subprocess
import sys

from click.testing import CliRunner

from kemu.emulator.metrics.metrics import FIGURES
from kemu.tools.cli import kemu

EDIT = '''
from typing import Any
from kemu.emulator.facts import Seen
from kemu.emulator.metrics.figure import Better, FactCounter, Unit, figure
from kemu.emulator.watching.panel import Panel
from kemu.protocol.notes.groups import OffsetCommitted

class Commits(FactCounter):
    """Durable commits of offsets."""

    def __init__(self, panel: Panel) -> None:
        super().__init__(panel)
        self.count = 0
        self.on = {OffsetCommitted: self._committed}

    def _committed(self, seen: Seen, fact: Any) -> None:
        self.count += 1

figure("durable_commits", Unit.COUNT, "offsets that coordinators wrote", lambda commits: commits.count,
       of=Commits, better=Better.NEITHER)
'''
ASK = """
import sys
from kemu.emulator.metrics.metrics import FIGURES
from click.testing import CliRunner
from kemu.tools.cli import kemu
for arguments in (
    ["run", "steady-group", "--set", "duration=14s", "--format", "json"],
    ["run", "steady-group", "--set", "duration=14s"],
    ["compare", "steady-group", "--profiles", "kafka-3.4", "--seeds", "1:1", "--set", "duration=14s"],
    ["describe", "durable_commits"],
):
    print(CliRunner().invoke(kemu, arguments, catch_exceptions=False).stdout)
    print("-----")
try:
    from kemu.tools.pipeline.tables.schemas import RUNS
    from kemu.tools.pipeline.summaries.comparison import COLUMNS
    print("durable_commits" in RUNS.names, "durable_commits" in COLUMNS)
except ModuleNotFoundError:
    print(True, True)
"""


def test_a_figure_declared_once_is_in_json_reports_comparisons_columns_and_help() -> None:
    """A process of its own: the declaration would stay in this one."""
    done = subprocess.run([sys.executable, "-c", EDIT + ASK], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    data, report, table, described, columns = done.stdout.split("-----\n")
    count = json.loads(data)["values"]["durable_commits"]
    assert count > 0
    assert f"  offsets that coordinators wrote: {count}" in report
    assert next(line.split() for line in table.splitlines() if "durable commits" in line)[2] == str(count)
    assert "offsets that coordinators wrote" in described and "better: neither" in described
    assert columns.split() == ["True", "True"]


def test_every_figure_is_described_by_its_name_its_column_and_the_beginning_of_its_name() -> None:
    """``kemu describe FIGURE``."""
    for name, each in FIGURES.items():
        for key in filter(None, (name, each.column)):
            assert each.meaning in " ".join(CliRunner().invoke(kemu, ["describe", key]).stdout.split())
    assert "downtime_max" in CliRunner().invoke(kemu, ["describe", "downtime"]).stdout


def test_columns_and_headlines_of_figures_are_theirs_alone() -> None:
    """Two figures cannot fill one column."""
    columns = [each.column for each in FIGURES.values() if each.column]
    headlines = [each.headline for each in FIGURES.values() if each.headline]

    assert len(columns) == len(set(columns)) and len(headlines) == len(set(headlines))
