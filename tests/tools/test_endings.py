"""How commands end: one table of exit codes, no traceback, and the finished results are kept."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from kemu.emulator import runner
from kemu.emulator.trace.blocks import MAGIC
from kemu.tools import exits
from kemu.tools.cli import COMMANDS, kemu, main
from kemu.tools.commands import run as run_command

KEMU = f"'{sys.executable}' -m kemu"
EARLIER = MAGIC + b"an earlier trace"
SWEEP = ("steady-group", "--seeds", "1:4", "--set", "duration=10s", "--jobs", "1")


def ended(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert isinstance(error.value.code, int)
    return error.value.code


# --- exit codes ------------------------------------------------------------------------------------------------------


def test_codes_are_below_126_or_those_of_a_signal() -> None:
    """A shell uses 126 and 127 itself, and 128 and more for signals."""
    signals = {128 + signal.SIGHUP, 128 + signal.SIGINT, 128 + signal.SIGTERM}

    assert {code for code in exits.MEANING if code >= 126} == signals


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_lists_its_codes_from_the_table(command: str) -> None:
    said = " ".join(CliRunner().invoke(kemu, [command, "--help"]).stdout.split())

    for code in exits.exits_of(command):
        assert f"{code} {exits.MEANING[code]}" in said
    assert said.count("Exit codes:") == 1


def test_every_special_exit_code_belongs_to_a_command() -> None:
    assert {code for command in COMMANDS for code in exits.exits_of(command)} == {
        code for code in exits.MEANING if code < exits.BUG
    }


# --- unexpected errors -----------------------------------------------------------------------------------------------


def test_an_unexpected_error_is_one_line_and_a_file_with_the_details(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(runner.Run, "begin", lambda self: {}["a key"])

    assert ended(["run", "steady-group", "--seed", "7"]) == exits.BUG

    (file,) = tmp_path.glob("kemu-bug-*.txt")
    assert capsys.readouterr().err == (
        "error: this is a bug in kemu: KeyError: 'a key' (in the run of steady-group with seed 7 under kafka-3.4); "
        f"please report it with the details in {file}\n"
    )
    details = file.read_text(encoding="utf-8")
    assert "command: kemu run steady-group --seed 7\n" in details
    assert re.search(r"versions: kemu \S+, attrs \d", details)
    assert "Traceback (most recent call last)" in details


def test_an_unexpected_error_in_a_sweep_keeps_the_results_of_the_other_seeds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_seed = run_command.run_seed

    def fails(scenario: object, seed: int, *rest: object) -> object:
        return run_seed(scenario, seed, *rest) if seed != 3 else {}["a key"]  # type: ignore[arg-type]

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(run_command, "run_seed", fails)

    assert ended(["run", *SWEEP]) == exits.BUG

    said = capsys.readouterr()
    assert "2 of 2 hold" in said.out
    assert "stopped by an error: 2 of 4 runs finished; continue with: kemu run steady-group --seeds 3:4" in said.out
    assert "this is a bug in kemu: KeyError: 'a key'" in said.err


# --- the output ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("describe exits > /dev/full", exits.NO_OUTPUT, "the output cannot be written: No space left on device"),
        ("describe exits >&-", exits.NO_OUTPUT, "the output cannot be written: standard output is closed"),
        ("describe exits > /dev/null 2> /dev/full", exits.HOLDS, ""),
        ("run KAFKA-1211 | true", exits.CORRECTNESS, ""),
        ("swarm steady-group --seeds 1:100000 --yes --jobs 1 | head -1 > /dev/null", exits.HOLDS, ""),
    ],
)
def test_an_output_that_cannot_be_written_is_one_line(command: str, code: int, said: str) -> None:
    """A reader that stops reading is no error: the verdict decides, of the runs that are finished."""
    done = subprocess.run(
        ["bash", "-c", f"{KEMU} {command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=False
    )

    assert done.returncode == code, done.stderr
    assert [line for line in done.stderr.splitlines() if "repeated in another process" not in line] == (
        [f"error: {said}"] if said else []
    )


# --- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_a_terminal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", ["run", "swarm"])
def test_a_signal_prints_the_finished_results_and_ends_with_its_code(
    command: str, number: signal.Signals, tmp_path: Path
) -> None:
    """``run`` prints its table at the end, ``swarm`` a line after each run."""
    words = [command, "steady-group", "--seeds", "1:100000", "--jobs", "1", "--yes"]
    words += ["--set", "duration=10s", "--trace", str(tmp_path / "t.kemu")] if command == "run" else []
    sweep = subprocess.Popen(
        [sys.executable, "-m", "kemu", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with sweep:
        if command == "swarm":
            assert sweep.stdout is not None
            sweep.stdout.readline()
        else:
            while not (tmp_path / "t-2.kemu").exists() and sweep.poll() is None:
                time.sleep(0.05)
        os.kill(sweep.pid, number)
        out, errors = sweep.communicate(timeout=30)

    assert sweep.returncode == 128 + number, errors
    assert errors == ""
    assert re.search(r"interrupted: \d+ of 100000 runs finished; continue with: kemu (run|swarm) steady-group", out)


def test_a_background_job_ignores_ctrl_c_and_keeps_its_results_at_sigterm() -> None:
    """A shell without job control starts background jobs with SIGINT ignored."""
    sweep = subprocess.Popen(
        [sys.executable, "-m", "kemu", "swarm", "steady-group", "--seeds", "1:100000", "--jobs", "1", "--yes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN),
    )
    with sweep:
        assert sweep.stdout is not None
        sweep.stdout.readline()
        sweep.send_signal(signal.SIGINT)
        assert sweep.stdout.readline() != ""
        sweep.send_signal(signal.SIGTERM)
        out, errors = sweep.communicate(timeout=60)

    assert sweep.returncode == exits.TERMINATED, errors
    assert "runs finished; continue with:" in out


@pytest.mark.parametrize("delay_s", [0.06, 0.1, 0.14, 0.18, 0.22, 0.3, 0.5])
def test_ctrl_c_while_kemu_starts_is_one_line(delay_s: float) -> None:
    """Also during the imports, where Python would print a traceback."""
    started = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.signal(2, signal.default_int_handler);"
         "import kemu.__main__ as command; print(flush=True); command.main()", "run", "steady-group"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    with started:
        assert started.stdout is not None
        started.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            started.wait(delay_s)
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=30)

    assert started.returncode == exits.INTERRUPTED, errors
    assert errors in ("interrupted\n", "interrupted; repeat with: kemu run steady-group\n")


@pytest.mark.usefixtures("in_a_terminal")
@pytest.mark.parametrize("loop", ["trio", "bare"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_its_trace_and_the_earlier_one(
    loop: str, number: signal.Signals, tmp_path: Path
) -> None:
    """The part is named, and ``explain`` reads it."""
    path, part = tmp_path / "long.kemu", tmp_path / "long.kemu.part"
    path.write_bytes(EARLIER)
    words = ["run", "steady-group", "--set", "duration=100h", "--loop", loop, "--yes", "--trace", str(path)]
    run = subprocess.Popen(
        [sys.executable, "-m", "kemu", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with run:
        while (not part.exists() or part.stat().st_size < 200_000) and run.poll() is None:
            time.sleep(0.05)
        run.send_signal(number)
        _, errors = run.communicate(timeout=60)

    said = f"interrupted; the trace so far is in {part}; repeat with: kemu {shlex.join(words)}\n"
    assert (run.returncode, errors) == (128 + number, said)
    assert path.read_bytes() == EARLIER
    explained = CliRunner().invoke(kemu, ["explain", str(part), "--to", "1s"])
    assert explained.exit_code == exits.BAD_INPUT
    assert "torn at byte" in explained.stderr
