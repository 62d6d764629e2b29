"""``kemu scale``: KIP-429's scaling tool on the command line."""

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kemu.tools.cli import kemu, main

QUICK = ("--set=duration=30s", "--set=plan.0.at=29s", "--set=draws=calm", "--set=rate=20/s", "--loop=bare")


def scale(*arguments: str) -> Result:
    """Run the command in this process; a ScenarioError stays one."""
    return CliRunner().invoke(kemu, ["scale", *arguments])


def ended(*arguments: str) -> int | str | None:
    """The exit code of the whole command line."""
    with pytest.raises(SystemExit) as end:
        main(["scale", *arguments])
    return end.value.code


def test_a_scenario_is_run_with_the_tool_used_at_a_time() -> None:
    """The report is that of a run, and its command repeats it."""
    result = scale("streams-scale-down", "--down-to", "60%", "--at", "10s", *QUICK)

    assert result.exit_code == 0
    assert "00:10.000  c2 asked to transfer all tasks and leave" in result.stdout
    assert "1  at 10s: scale app down to 60%: fired once" in result.stdout


def test_names_may_follow_each_other_and_be_given_twice() -> None:
    result = scale("streams-scale-down", "--leave", "c2", "c3", "c2", "--at", "10s", "--format", "json", *QUICK)

    data = json.loads(result.stdout)
    assert data["faults"][1]["text"] == "at 10s: c2, c3, c2 of app leave" and data["faults"][1]["fired"] == 1


def test_a_group_grows() -> None:
    result = scale("streams-scale-down", "--add", "2", "--at", "10s", "--verbose", *QUICK)

    assert result.exit_code == 0 and "c4, c5 started" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("streams-scale-down", "--leave", "c2", "c8", "c9"), '"c8", "c9" are no instances of app; known: c1, c2, c3'),
        (("streams-scale-down", "--leave", "c8"), '"c8" is no instance of app; known: c1, c2, c3'),
        (("streams-scale-down", "--down-to", "80"), "must be a percentage from 1% to 100%"),
        (("streams-scale-down", "--down-to", "0%"), "must be a percentage from 1% to 100%"),
        (("streams-scale-down",), "give one of --down-to"),
        (("streams-scale-down", "--down-to", "60%", "--add", "1"), "give one of --down-to"),
        (("streams-scale-down", "c2", "--add", "1"), '"c2": names follow --leave'),
        (("streams-scale-down", "--add", "0"), "0 is not in the range"),
        (("streams-scale-down", "--add", "1", "--at", "soon"), "'--at': 'soon' is no duration"),
        (("streams-scale-down", "--add", "1", "--group", "ap"), 'did you mean "app"'),
        (("steady-group", "--add", "1"), "0 groups of Streams instances"),
        (("--add", "1"), "name a SCENARIO, or give --live PATH"),
        (("--live", "/nowhere/orders", "--add", "1"), "no run accepts orders there"),
    ],
)
def test_bad_input_is_one_error_and_exit_code_2(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(*arguments) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("rror: ") == 1


def test_a_tool_that_told_nobody_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """c2 is down at that time: c3 is not told either, and the exit code says that nothing was done."""
    crash = ("--do", "crash host=c2 at=9s for=10s")

    assert ended("streams-scale-down", "--leave", "c2", "c3", "--at", "10s", *crash, *QUICK) == 2
    captured = capsys.readouterr()
    assert captured.out == "", "the error says it once"
    words = "c2, c3 of app leave: no effect, c2 is no running instance of app: no instance was asked to leave"
    assert words in captured.err


def answering(path: Path, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """A run that answers one order with this; what it is asked."""
    asked: list[dict[str, Any]] = []
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(path))
    door.listen()

    def serve() -> None:
        with door, door.accept()[0] as caller:
            asked.append(json.loads(caller.recv(65_536)))
            caller.sendall(json.dumps(answer).encode() + b"\n")

    threading.Thread(target=serve, daemon=True).start()
    return asked


def test_a_live_run_is_asked_and_its_answer_told(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    asked = answering(path, {"done": "scale app down to 80%", "at_us": 12_500_000, "hosts": ["c2", "c5"]})

    result = scale("--live", str(path), "--down-to", "80%", "--group", "app")

    assert result.exit_code == 0 and result.stdout == "12.500 s  scale app down to 80%: c2, c5\n"
    assert asked == [{"do": "scale-down", "to": "80%", "group": "app"}]


def test_what_a_live_run_refuses_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "orders"
    answering(path, {"error": 'hosts: "c9" is no instance of app'})

    assert ended("--live", str(path), "--leave", "c1", "c9") == 2
    assert capsys.readouterr().err == f'error: {path}: refused: hosts: "c9" is no instance of app\n'
