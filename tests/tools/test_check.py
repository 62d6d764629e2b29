"""The checks that are run by name alone: what can be known without running them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kemu.tools import check
from kemu.tools.check_lower_bounds import lower_bounds
from kemu.tools.check_packaging import ROOT
from kemu.tools.check_reach import SETTINGS, unreached


def test_every_dependency_of_the_core_declares_a_lower_bound() -> None:
    """``check lower-bounds`` pins each of them to it."""
    pinned = lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    assert {each.partition("==")[0] for each in pinned} == {"attrs", "cattrs", "click", "msgpack", "rich", "trio"}
    assert all(each.partition("==")[2] for each in pinned)


def test_a_dependency_without_a_lower_bound_is_refused() -> None:
    """Otherwise it would be tried in its newest version."""
    with pytest.raises(ValueError, match="declares no lower bound"):
        lower_bounds('[project]\ndependencies = ["attrs"]\n')


def test_checks_that_take_long_or_need_a_network_run_only_when_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The others are what every change must pass."""
    named = {name for name, _ in check.extra_steps()}

    assert named == {"packaging", "lower-bounds", "reach"}
    assert not named & {name for name, _ in check.steps()}
    assert check.main(["packagin"]) == 2
    assert "lower-bounds" in capsys.readouterr().out


SOURCE = '''
class Part:
    """With methods."""

    def ran(self) -> int:
        def inside() -> int:
            return 1
        return 2

    def said(self) -> int:
        """Of a protocol."""
        ...

    def empty(self) -> None:
        """Nothing to run."""


def alone() -> None:
    Part()


Part().ran()
'''


def test_a_function_counts_as_reached_when_any_of_its_statements_ran(tmp_path: Path) -> None:
    """Judged by what coverage.py says of a file; a function without statements can be reached by nobody."""
    (tmp_path / "actors").mkdir()
    (tmp_path / "actors" / "part.py").write_text(SOURCE)
    (tmp_path / "settings").write_text(SETTINGS)
    for command in (["run", "actors/part.py"], ["json", "-q"]):
        subprocess.run([sys.executable, "-m", "coverage", *command, "--rcfile=settings"], cwd=tmp_path, check=True)

    found = list(unreached(json.loads((tmp_path / "coverage.json").read_text())))

    assert found == ["actors/part.py:7: Part.ran.inside", "actors/part.py:19: alone"]
