"""``kemu explain`` on a terminal: pager, colours, and values that are cut."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kemu.emulator.findings import Violation
from kemu.emulator.trace.traces import Header, TraceWriter
from kemu.protocol.notes.groups import LeaderElected
from kemu.protocol.wire.values import to_row
from kemu.tools.cli import kemu
from kemu.tools.pager import paged, pager_command

LONG = "m" * 100


@pytest.fixture(scope="module", name="trace")
def written_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A step with a note that has a long value, and a violation."""
    path = tmp_path_factory.mktemp("pager") / "run.kemu"
    with path.open("wb") as sink:
        writer = TraceWriter(sink, Header({"name": "small"}, [], 1, "kafka-3.4", "bare", "0"))
        note = (5, to_row(LeaderElected(group="g", member_id=LONG)))
        writer.step((1, 10, "c1", 1, 10, (2, ("beat",)), (note, (3, ("beat",)))))
        writer.step((2, 20, "b0/coordinator", 1, 20, (1, "c1"), ()))
        writer.violation(Violation("one-owner", 10, 1, ("t-0",), "two owners"))
        writer.finish("violated", 20)
    return path


def lines(*arguments: object, **environment: str) -> list[str]:
    done = CliRunner(env={"COLUMNS": "200", **environment}).invoke(kemu, list(map(str, arguments)), color=True)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_lines_have_the_colours_of_their_kinds(trace: Path) -> None:
    """Event, effects, violation and verdict; the asked step is bold."""
    coloured = lines("--color", "explain", trace, "--step", 1)[8:]

    starts = [line.split("m")[0] for line in coloured]
    note, red, green, grey, yellow = (f"\x1b[{number}" for number in (36, 31, 32, 90, 33))
    assert starts == [grey, note, grey, red, yellow, red]
    assert coloured[0].startswith("\x1b[90m\x1b[1m") and not coloured[4].startswith("\x1b[33m\x1b[1m")
    assert green not in starts, "the verdict is violated"


@pytest.mark.parametrize(("options", "no_color"), [(("--no-color",), ""), ((), "1")])
def test_no_color_and_its_variable_leave_plain_text(trace: Path, options: tuple[str, ...], no_color: str) -> None:
    plain = lines(*options, "explain", trace, NO_COLOR=no_color)

    assert plain == [click.unstyle(line) for line in plain]
    assert lines("--color", "explain", trace, NO_COLOR="1") != plain, "the option has precedence"


def test_a_long_value_is_cut_and_verbose_prints_it_whole(trace: Path) -> None:
    (cut,) = [line for line in lines("--no-color", "explain", trace) if "LeaderElected" in line]
    (whole,) = [line for line in lines("--no-color", "explain", trace, "--verbose") if "LeaderElected" in line]

    assert cut.endswith(f"member_id={'m' * 59}…")
    assert whole.endswith(f"member_id={LONG}")
    assert whole in lines("--no-color", "explain", trace, "--grep", "m{80}"), "the match is visible"
    assert LONG in "".join(lines("explain", trace, "--format", "json"))


@pytest.mark.parametrize(
    ("asked", "there", "used"),
    [
        (None, ("less", "more"), "less"),
        (None, ("more",), "more"),
        (None, (), ""),
        ("most -s", ("most", "less"), "most -s"),
        ("", ("less",), ""),
        ("cat", ("cat", "less"), ""),
        ("gone", ("less",), ""),
    ],
)
def test_the_pager_is_that_of_the_user(
    asked: str | None, there: tuple[str, ...], used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PAGER", raising=False)
    if asked is not None:
        monkeypatch.setenv("PAGER", asked)
    monkeypatch.setattr("shutil.which", lambda name: name if name in there else None)

    assert pager_command() == used


def test_a_pager_that_ends_early_ends_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the key q of less."""
    monkeypatch.setenv("PAGER", f"head -n 1 > {tmp_path / 'seen'}")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    with paged() as printer:
        for _ in range(100_000):
            printer.line("x" * 100)
            if not printer.is_read:
                break
        else:
            pytest.fail("the pager still reads")

    assert (tmp_path / "seen").read_text() == "x" * 100 + "\n"


def test_the_pager_is_waited_for_after_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", f"sleep 0.2; cat > {tmp_path / 'seen'}")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    with pytest.raises(KeyboardInterrupt), paged() as printer:
        printer.line("before")
        raise KeyboardInterrupt

    assert (tmp_path / "seen").read_text() == "before\n"


def on_terminal(trace: Path, *options: str, pager: str) -> str:
    """The output of ``kemu explain`` on a terminal, without the pager's output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kemu", "explain", str(trace), *options]
    with subprocess.Popen(command, stdout=theirs, env={**os.environ, "PAGER": pager, "COLUMNS": "100"}) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 10_000)
            except OSError:  # Linux: the terminal has no writer any more
                break
            if not part:
                break
            seen += part
    os.close(ours)
    assert process.returncode == 0
    return seen.decode()


def test_a_terminal_gets_the_pager_and_colours_and_a_pipe_gets_neither(trace: Path, tmp_path: Path) -> None:
    paged_to = tmp_path / "paged"

    assert on_terminal(trace, pager=f"cat > {paged_to}") == ""
    assert "\x1b[36m" in paged_to.read_text() and "LeaderElected" in paged_to.read_text()
    paged_to.unlink()
    direct = on_terminal(trace, "--no-pager", pager=f"cat > {paged_to}")
    assert "LeaderElected" in direct and "\x1b[36m" in direct
    assert on_terminal(trace, "--format", "json", pager=f"cat > {paged_to}").startswith('{"kind": "header"')
    assert not paged_to.exists()
