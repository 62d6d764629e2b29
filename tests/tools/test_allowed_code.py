"""Files are data: a class that a file names is loaded only from an installed package, or as the user asks."""

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import kemu as api
from kemu.tools.cli import kemu
from kemu.tools.commands import compare, coverage
from kemu.tools.interrupt import ALLOWS_CODE

CODE = """
from pathlib import Path
Path("loaded").touch()
from kemu.protocol.assign.examples import StickyByClaims as Mine
"""
SCENARIO = """
duration = "2s"
[topics.t]
partitions = 2
[groups.g]
members = 1
topics = ["t"]
assignors = ["mine_of_data:Mine"]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine_of_data.py").write_text(CODE, encoding="utf-8")
    Path("mine.toml").write_text(SCENARIO, encoding="utf-8")
    yield tmp_path  # type: ignore[misc]
    sys.modules.pop("mine_of_data", None)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(kemu, list(arguments))


def text_of(done: Result) -> str:
    return f"{done.output}{done.exception}"


@pytest.mark.parametrize(
    "command", ["run", "swarm --seed 1", "shrink", "history", "explore --runs 1", "compare --seeds 1:1", "coverage"]
)
def test_a_scenario_loads_no_code(command: str, place: Path) -> None:
    name, *rest = command.split()

    done = call(name, "mine.toml", *rest)

    assert "mine_of_data:Mine: only an assignor of an installed package may be loaded here" in text_of(done)
    assert "--allow-code" in text_of(done)
    assert not Path("loaded").exists()


def test_the_user_allows_it_by_an_option_or_by_naming_the_class(place: Path) -> None:
    """And the import path stays as it was."""
    before = list(sys.path)

    allowed = call("run", "mine.toml", "--loop", "bare", "--allow-code")

    assert allowed.exit_code == 0, text_of(allowed)
    assert "repeat with: kemu run mine.toml --seed 1 --allow-code --loop bare" in " ".join(allowed.stdout.split())
    assert Path("loaded").exists()
    assert sys.path == before
    named = call(
        "run", "steady-group", "--loop", "bare", "--set", "duration=2s", "--set", "assignors=['mine_of_data:Mine']"
    )
    assert named.exit_code == 0, text_of(named)


@pytest.mark.parametrize(
    ("words", "repeat"),
    [
        (("swarm", "mine.toml", "--seed", "1"), "kemu swarm mine.toml --allow-code --seed 1"),
        (("run", "mine.toml", "--seed", "1"), "kemu run mine.toml --seed 1 --allow-code"),
    ],
    ids=["swarm", "run"],
)
def test_the_command_that_repeats_a_run_allows_the_code_too(words: tuple[str, ...], repeat: str, place: Path) -> None:
    done = call(*words, "--allow-code")

    assert repeat in " ".join(done.stdout.split()), text_of(done)


def test_the_commands_of_a_comparison_and_of_a_coverage_allow_the_code_too() -> None:
    with click.Context(kemu) as context:
        context.meta[ALLOWS_CODE] = True
        compared = compare._command("mine.toml", compare.Variant("kafka-3.4"), 7, (), (), 0)
        covered = coverage._command("mine.toml", 7, None, ("members=2",), ("heal at=1s",), 3)

    assert compared == "kemu compare mine.toml --profiles kafka-3.4 --seeds 7:7 --allow-code"
    assert covered == ("kemu coverage mine.toml --seeds 7:7 --set members=2 --do 'heal at=1s' --faults 3 --allow-code")


def test_a_trace_loads_no_code_and_is_still_read(place: Path) -> None:
    """Replay needs the code; history and report do not."""
    api.run("mine.toml", seed=1, trace="mine.kemu")
    sys.modules.pop("mine_of_data")
    Path("loaded").unlink()

    assert call("explain", "mine.kemu").exit_code == 0
    assert call("history", "mine.kemu").exit_code == 0
    assert call("report", "mine.kemu").exit_code == 0
    for words in (("replay", "mine.kemu"), ("replay", "mine.kemu", "--rerun"), ("shrink", "mine.kemu")):
        refused = call(*words)
        assert refused.exit_code == 2
        assert "--allow-code" in refused.stderr
    assert not Path("loaded").exists()

    assert call("replay", "mine.kemu", "--allow-code").exit_code == 0


def test_an_import_that_exits_is_an_error(place: Path) -> None:
    Path("mine_of_data.py").write_text("import sys; sys.exit(0)", encoding="utf-8")

    done = call("run", "mine.toml", "--allow-code")

    assert "cannot import mine_of_data: SystemExit: 0" in text_of(done)
