"""Each number that an option takes has an upper bound, and a larger number is one line of error."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from kemu.tools.cli import COMMANDS, kemu, main
from kemu.tools.commands.durations import Duration

TEXTS = {
    *("--actor", "--address", "--assignor", "--assignors", "--client", "--conf", "--do", "--grid", "--group"),
    *("--keep", "--leave", "--master", "--message", "--name", "--out", "--profile", "--profiles", "--role", "--set"),
    *("--try", "--zone", "--current", "--target", "--grep", "--protocols"),
}
"""Options without numbers, or with numbers that the scenario library checks."""
NINES = "9" * 5000
"""More digits than Python converts to a number."""
BEYOND: Mapping[str, tuple[str, ...]] = {
    "--seeds": ("1:1000001", f"1:{NINES}"),
    "--down-to": ("101%", f"{NINES}%"),
    "--online": (NINES,),
    "--memory": (NINES + "g",),
    "--control": ("65536", NINES),
}
"""Options with numbers in a text -> values that are too large."""
WORDS: Mapping[str, tuple[str, ...]] = {
    "scale": ("streams-scale-out",),
    "bugs": ("KAFKA-15170", "--find"),
    "campaign": ("steady-group", "--seeds", "1:1", "--out", "made"),
    "import-log": ("a.log", "--master", "local[1]", "--out", "made.kemu"),
    "analyze": ("folder",),
    "query": ("folder", "select 1", "--master", "local[1]"),
    "plan-reassignment": ("--current", "a.json", "--target", "a.json"),
}
"""Command -> arguments with which the command reads its option; else one preset."""


def options() -> Iterator[tuple[str, click.Parameter]]:
    """Each option and argument of each command."""
    context = click.Context(kemu)
    for name in COMMANDS:
        command = kemu.get_command(context, name)
        assert command is not None
        for parameter in command.params:
            yield name, parameter


def test_each_option_with_a_number_has_an_upper_bound() -> None:
    """An option of a new type fails here, until the test knows its bounds."""
    seen = set()
    for command, option in options():
        name, kind = option.opts[0], option.type
        if isinstance(kind, click.IntRange | click.FloatRange):
            assert kind.min is not None and kind.max is not None, f"kemu {command} {name}"
        elif isinstance(kind, Duration):
            assert kind.most_us < 1 << 63
        elif isinstance(kind, click.types.StringParamType) and isinstance(option, click.Option):
            assert name in TEXTS or name in BEYOND, f"kemu {command} {name}: does it take a number?"
        else:
            known = (click.Path, click.File, click.Choice, click.types.BoolParamType)
            assert isinstance(kind, (*known, click.types.StringParamType)) or kind.name == "regex", f"{command} {name}"
        seen.add(name)
    assert TEXTS | set(BEYOND) <= seen, "an option is gone"


NUMBERS = [
    pytest.param(command, option.opts[0], value, id=f"{command} {option.opts[0]} {value[:12]}")
    for command, option in options()
    if isinstance(option.type, click.types.StringParamType)
    for value in BEYOND.get(option.opts[0], ())
]


@pytest.mark.parametrize(("command", "option", "value"), NUMBERS)
def test_a_number_in_a_text_that_is_too_large_is_one_line(
    command: str,
    option: str,
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("a.json").write_text('{"version": 1, "partitions": []}')
    Path("a.log").write_text("x\n")

    with pytest.raises(SystemExit) as ended:
        main([command, *WORDS.get(command, ("steady-group",)), option, value])

    said = capsys.readouterr()
    assert ended.value.code == 2, said.err[:500]
    assert len([line for line in said.err.splitlines() if line.startswith("error")]) == 1


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("serve", "steady-group"), "--for"),
        (("explore", "steady-group"), "--by"),
        (("scale", "streams-scale-out", "--add", "1"), "--at"),
        (("import", "x.txt"), "--apart"),
        (("replay", "x.kemu"), "--until"),
    ],
)
@pytest.mark.parametrize("text", [f"{10**20}h", f"{NINES}h", "-1s", "²s"])
def test_a_duration_has_bounds(
    words: tuple[str, ...], option: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, option, text])

    said = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert [line.partition(":")[0] for line in said if "'" + option + "'" in line] == ["error"]
