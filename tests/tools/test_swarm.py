"""``kemu swarm``: a line for each seed, all draws of one, the scenario as a file."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kemu.emulator.exploring.swarm import swarm_case
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.text.toml_text import toml_text
from kemu.tools.cli import kemu
from tests.emulator.exploring.failing import failing


def swarm(*arguments: str) -> Result:
    """What the command says."""
    return CliRunner().invoke(kemu, ["swarm", *arguments])


def test_one_seed_tells_what_it_drew_and_what_came_of_it(tmp_path: Path) -> None:
    """And writes the scenario, which is run again as any other."""
    out = tmp_path / "three.toml"
    result = swarm("--seed", "3", "--out", str(out))

    assert result.exit_code == 0, result.output
    assert "  faults off     pause, isolate" in result.stdout
    assert "What happened" in result.stdout and "holds" in result.stdout
    assert load_scenario(out) == swarm_case(3).scenario


def test_many_seeds_are_a_line_each(tmp_path: Path) -> None:
    """With the draws of what failed, and the command that repeats it."""
    source = tmp_path / "late.toml"
    source.write_text(toml_text(failing().to_dict()))

    result = swarm(str(source), "--seeds", "4:5")

    lines = result.stdout.splitlines()
    assert result.exit_code == 128, result.output
    assert lines[-1] == "0 of 2 hold"
    assert f"  repeat with: kemu swarm {source} --seed 4" in lines
    assert any(line.startswith("  faults on ") for line in lines)
    assert any("liveness: group g did not come to rest" in line for line in lines)


def test_json_has_draws_and_results() -> None:
    """For programs."""
    result = swarm("steady-group", "--seeds", "1:1", "--format", "json")

    (run,) = json.loads(result.stdout)["runs"]
    assert run["verdict"] == "holds"
    assert set(run["drawn"]) == {"seed", "on", "off", "scenario"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--seeds", "5:1"), "must be A:B"),
        (("--profile", "kafka-9.9"), "is no profile"),
        (("steady-group", "--replicated"), "leave SCENARIO or it out"),
        (("--out", "x.toml"), "--out goes with --seed"),
    ],
)
def test_bad_options_are_one_clear_error(arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2."""
    result = swarm(*arguments)

    assert result.exit_code == 2
    assert said in result.stderr


def test_an_unknown_scenario_is_told() -> None:
    """As everywhere."""
    with pytest.raises(ScenarioError, match="is no preset"):
        CliRunner().invoke(kemu, ["swarm", "steady-grop"], catch_exceptions=False)
