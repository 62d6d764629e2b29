"""The checks that are run by name alone: what can be known without running them."""

import json
from pathlib import Path

import pytest

from lab import check
from lab.check_dependencies import lower_bounds
from lab.check_packaging import ROOT, WANTED, wrong_with
from lab.check_reach import ReachWatch, functions
from lab.reach_marks import functions_of, index_text, marked


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

    assert named == {"packaging", "lower-bounds", "newest", "reach"}
    assert not named & {name for name, _ in check.steps()}
    assert check.main(["packagin"]) == 2
    assert "lower-bounds" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["kemu/lab/mutants.py", "kemu/tools/cli.py", "kemu/tests/test_a.py", WANTED[0]])
def test_a_wheel_has_neither_tests_nor_measurements_and_nothing_beside_kemu(name: str) -> None:
    """The last: a file twice."""
    assert wrong_with(WANTED) == ""
    assert wrong_with([*WANTED, name]).startswith("the wheel has ")
    assert wrong_with(WANTED[1:]) == f"the wheel lacks {WANTED[0]}"


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

    def never(self) -> None:
        """Of others."""
        raise NotImplementedError


def alone() -> None:
    Part()


Part().ran()
'''


def test_a_function_counts_as_reached_when_it_was_entered(tmp_path: Path) -> None:
    """One that only says something can be reached by nobody; one inside another is a function of its own."""
    path = tmp_path / "part.py"
    path.write_text(SOURCE)
    watched = list(functions_of(path))
    numbers = json.loads(index_text(watched))[str(path)]
    marks = bytearray(len(watched))

    exec(marked(SOURCE.encode(), str(path), numbers), {"__reach__": marks, "__name__": "part"})

    found = [f"{function.line}: {function.name}" for function, mark in zip(watched, marks, strict=True) if not mark]
    assert found == ["6: Part.ran.inside", "22: alone"]


def test_every_interpreter_marks_what_it_enters(tmp_path: Path) -> None:
    """Also one that a test starts, and however it ends."""
    watch = ReachWatch(tmp_path, functions())
    before = {function.name for function in watch.unreached()}

    ended_well = watch.run(["-c", "import os, kemu.protocol.names as n; n.broker_of('b0'); os._exit(1)"])

    assert not ended_well
    assert before - {function.name for function in watch.unreached()} == {"broker_of"}
