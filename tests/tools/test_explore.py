"""``kemu explore``: what came to something new, what was found, and the commands that repeat it and make it small."""

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.text.toml_text import toml_text
from kemu.tools.cli import kemu
from tests.emulator.exploring.test_explorer import leaves_in_time, small


def explore(*arguments: str) -> Result:
    """What the command says."""
    return CliRunner().invoke(kemu, ["explore", *arguments])


@pytest.fixture
def calm(tmp_path: Path) -> str:
    path = tmp_path / "calm.toml"
    path.write_text(toml_text(small().to_dict()))
    return str(path)


def test_what_is_found_is_repeated_by_the_command_that_is_printed(tmp_path: Path) -> None:
    """And written as a scenario that says its order itself."""
    source, out = tmp_path / "leaves.toml", tmp_path / "found.toml"
    source.write_text(toml_text(leaves_in_time().to_dict()))
    result = explore(
        *(
            str(source),
            "--by",
            "4s",
            "--bound",
            "1",
            "--runs",
            "60",
            "--message",
            "LeaveGroup",
            "--message",
            "FindCoordinator",
        ),
        *("--keep", "liveness", "--out", str(out), "--draws"),
    )

    lines = result.stdout.splitlines()
    assert result.exit_code == 8, result.output
    assert lines[0].startswith("  run    1  seed 1 ") and lines[0].endswith("its own order")
    told = [line.split()[1] for line in lines if line.startswith("  run ")]
    assert told == [str(number + 1) for number in range(len(told))], "all of them"
    assert any(line.startswith("found in run ") and "liveness" in line for line in lines)
    assert "  delay the 1. LeaveGroup c2 -> b0 by 4s" in lines
    (command,) = [line.removeprefix("repeat with: ") for line in lines if line.startswith("repeat with: ")]
    repeated = CliRunner().invoke(kemu, [*shlex.split(command)[1:], "--format", "json", "--loop", "bare"])
    assert repeated.exit_code == 8
    assert json.loads(repeated.stdout)["digest"] == run(load_scenario(out), seed=1, loop="bare").digest
    assert f"shrink the run with: {command.replace('kemu run', 'kemu shrink')}" in lines


def test_json_has_every_schedule(calm: str) -> None:
    """For programs."""
    result = explore(calm, "--runs", "3", "--message", "SyncGroup", "--seeds", "1:2", "--format", "json")

    data = json.loads(result.stdout)
    assert result.exit_code == 0, result.output
    assert data["found"] is None
    assert [(ran["run"], ran["seed"], len(ran["schedule"])) for ran in data["schedules"]] == [
        (1, 1, 0),
        (2, 2, 0),
        (3, 1, 1),
    ]
    assert data["schedules"][2]["schedule"][0]["do"] == "delay"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("steady-group", "--message", "SincGroup"), 'is no message; did you mean "SyncGroup"?'),
        (("steady-group", "--by", "0s"), "must be more than 0 and at most 168h"),
        (("steady-group", "--within", "soon"), "soon"),
        (("steady-group", "--strategy", "delay"), "is not one of"),
        (("steady-group", "--keep", "one-owners"), 'is no checker; did you mean "one-owner"?'),
        (("steady-group", "--keep", "one-owner:two"), "is no kind of one-owner"),
        (("steady-group", "--seed", "1", "--seeds", "1:2"), "give one"),
        (("steady-group", "--seeds", "2:1"), "must be A:B"),
        (("steady-group", "--out", "nowhere/found.toml"), "there is no folder nowhere"),
    ],
)
def test_bad_input_is_one_clear_error(arguments: tuple[str, ...], said: str) -> None:
    result = explore(*arguments)

    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output
