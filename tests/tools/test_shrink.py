"""``kemu shrink``: from a trace or a scenario to two files."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kemu
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.text.toml_text import toml_text
from kemu.tools.cli import kemu as command
from tests.emulator.exploring.failing import failing


def shrink(*arguments: str | Path) -> Result:
    """What the command says; its own errors are raised."""
    return CliRunner().invoke(command, ["shrink", *map(str, arguments)])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_trace_becomes_a_scenario_and_a_test(place: Path) -> None:
    """Both are written beside each other, with sizes, the short story and the command that repeats it."""
    kemu.run(failing(), trace="failed.kemu")

    result = shrink("failed.kemu", "--runs", "12")

    assert result.exit_code == 0, result.output
    assert "shows: liveness not-at-rest" in result.stdout
    assert re.search(r"lines of the plan +4 +1", result.stdout)
    assert "c1 went down" in result.stdout or "crash" in result.stdout
    assert "repeat with: kemu run dies-too-late-shrunk.toml" in result.stdout
    assert " 1 lines, 2 members" in result.stderr, "progress"
    assert kemu.run(load_scenario(place / "dies-too-late-shrunk.toml")).verdict == "liveness"
    assert "kemu.check(SCENARIO, seeds=[4])" in Path("test_dies_too_late_shrunk.py").read_text()


def test_a_scenario_with_a_seed_is_shrunk_too(place: Path) -> None:
    """As ``kemu run`` takes it, with settings and lines on top."""
    Path("mine.toml").write_text(toml_text(failing().to_dict()))

    result = shrink(
        "mine.toml", "--seed", "2", "--do", "heal at=6s", "--runs", "8", "--out", "small", "--format", "json"
    )

    assert result.exit_code == 0, result.output
    assert '"complete": false' in result.stdout
    assert load_scenario(place / "small.toml").seed == 2
    assert (place / "test_small.py").exists()


def test_several_processes_find_the_same_scenario_in_the_same_number_of_runs(place: Path) -> None:
    """Workers make the probable next runs ahead; refused scenarios are no runs of theirs."""
    Path("mine.toml").write_text(toml_text(failing().to_dict()))
    done = [
        shrink("mine.toml", "--runs", "30", "--jobs", jobs, "--out", "small", "--format", "json") for jobs in ("1", "2")
    ]

    assert [each.exit_code for each in done] == [0, 0], done[1].output
    assert done[0].stdout == done[1].stdout
    assert done[0].stderr == done[1].stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("steady-group", "--set", "duration=5s"), "this run has no violation"),
        (("none.kemu",), "no such file"),
        (("mine.toml", "--keep", "one-owner"), "this run does not violate one-owner; it found: liveness:not-at-rest"),
    ],
)
def test_what_cannot_be_shrunk_is_told(place: Path, arguments: tuple[str, ...], said: str) -> None:
    """One clear error (exit code 2 comes of it in ``main``)."""
    Path("mine.toml").write_text(toml_text(failing().to_dict()))

    result = shrink(*arguments)

    assert isinstance(result.exception, ScenarioError)
    assert said in str(result.exception)
    assert list(place.glob("*shrunk*")) == []


@pytest.mark.parametrize("folder", [".", "small"])
def test_a_folder_is_no_name_of_a_new_scenario(place: Path, folder: str) -> None:
    Path("mine.toml").write_text(toml_text(failing().to_dict()))
    Path("small").mkdir()

    result = shrink("mine.toml", "--out", folder)

    assert result.exit_code == 2
    assert f'--out "{folder}" is a folder; it needs the name of the new scenario' in result.stderr


def test_a_trace_that_cannot_be_run_again_is_refused(place: Path) -> None:
    """Code of the caller's is not in it; a file that is no trace is none."""
    kemu.run(failing(), trace="own.kemu", applications={"c1": kemu.PollLoop})
    Path("text.kemu").write_text("no trace")

    assert "recorded with applications" in shrink("own.kemu").stderr
    assert "not a kemu trace" in shrink("text.kemu").stderr
    assert shrink("own.kemu", "--seed", "3").exit_code == 2
    assert shrink("steady-group", "--out", "no/where").exit_code == 2


def test_the_scenario_itself_is_not_written_over(place: Path) -> None:
    """--out may not name the input."""
    Path("mine.toml").write_text(toml_text(failing().to_dict()))

    result = shrink("mine.toml", "--out", "mine")

    assert result.exit_code == 2
    assert "mine.toml: it is an input of this command" in result.stderr
