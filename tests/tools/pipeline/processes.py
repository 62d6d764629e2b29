"""Processes of the command line for tests of signals, kills and full disks."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from kemu.tools.pipeline.session import java_home
from tests.terminal import terminal_signals

ROOT = Path(__file__).resolve().parents[3]
KEMU = [sys.executable, "-m", "kemu"]


def environment(**more: str) -> dict[str, str]:
    """Ours, with the Java that kemu would take."""
    return {**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, **more}


SLOWEST_S = 900
"""Time for each step of a test; a busy machine needs minutes to start Spark."""
_STARTED: list[subprocess.Popen[bytes]] = []


def end_started() -> None:
    """End the processes of a failed test."""
    while _STARTED:
        process = _STARTED.pop()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def started(*arguments: str, log: Path, **more: Any) -> subprocess.Popen[bytes]:
    """A process of its own group, its output in a file."""
    with log.open("wb") as file, terminal_signals():
        process = subprocess.Popen(
            arguments, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, env=environment(), **more
        )
    _STARTED.append(process)
    return process


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """As a power cut would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(true: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll; an error says what did not happen."""
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, f"{what} did not happen within {seconds} s"
        time.sleep(0.05)


def chunks_of(out: Path) -> list[Path]:
    """Finished chunks."""
    return sorted((out / "chunks").glob("[0-9]*")) if (out / "chunks").is_dir() else []


def in_session(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(folder.name))
    return found
