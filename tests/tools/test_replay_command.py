"""``kemu replay`` as people use it: exit codes, states, differences, bad files."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.tools.cli import kemu


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "steady.kemu"
    run(load_scenario("steady-group"), seed=1, loop="bare", trace=path)
    return path


def replay(*arguments: object) -> Result:
    return CliRunner().invoke(kemu, ["replay", *map(str, arguments)])


def test_a_trace_that_replays_exits_with_0_and_says_how_many_steps(trace: Path) -> None:
    result = replay(trace)

    assert result.exit_code == 0
    assert "steps replayed, no difference" in result.output


def test_another_profile_gives_a_difference_with_its_context_and_exit_code_1(trace: Path) -> None:
    result = replay(trace, "--profile", "kafka-2.4")

    assert result.exit_code == 1
    assert "recorded" in result.output
    assert "now" in result.output


def test_the_difference_as_json_names_the_step(trace: Path) -> None:
    result = replay(trace, "--profile", "kafka-2.4", "--format", "json")

    data = json.loads(result.output)
    assert data["same"] is False
    assert {"seq", "at_us", "actor", "why", "event", "recorded", "now"} <= set(data["difference"])


def test_until_prints_the_state_of_an_actor(trace: Path) -> None:
    result = replay(trace, "--actor", "b0/coordinator", "--until", "20s")

    assert result.exit_code == 0
    assert '"groups"' in result.output


def test_until_reads_no_block_after_its_time(trace: Path, tmp_path: Path) -> None:
    """Damage after that time is found only by a replay of the whole trace."""
    content = bytearray(trace.read_bytes())
    content[len(content) * 3 // 4] ^= 1
    damaged = tmp_path / "damaged.kemu"
    damaged.write_bytes(content)

    part, sound = replay(damaged, "--until", "5s"), replay(trace, "--until", "5s")

    assert part.exit_code == 0, part.output
    assert part.output == sound.output
    assert replay(damaged).exit_code == 2


def test_rerun_compares_digests_across_loops(trace: Path) -> None:
    result = replay(trace, "--rerun", "--loop", "trio")

    assert result.exit_code == 0
    assert "the same digest" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{trace}", "--actor", "c99"], "no step of 'c99'"),
        (["{trace}", "--until", "soon"], "'--until': 'soon' is no duration"),
        (["{missing}"], "No such file"),
        (["{foreign}"], "not a kemu trace"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(trace: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    foreign = tmp_path / "foreign.kemu"
    foreign.write_bytes(b"something else")
    names = {"{trace}": str(trace), "{missing}": str(tmp_path / "none.kemu"), "{foreign}": str(foreign)}

    result = replay(*[names.get(argument, argument) for argument in arguments])

    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_torn_trace_replays_what_is_there_and_says_where_it_ends(trace: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.kemu"
    torn.write_bytes(trace.read_bytes()[:-500])

    result = replay(torn)

    assert result.exit_code == 2
    assert "steps replayed, no difference\n" in result.output
    assert "torn at byte" in result.output
