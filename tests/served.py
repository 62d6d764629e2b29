"""A cluster of ``kemu serve`` in a process of its own, for tests with real clients."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from attrs import define, field

READY_WITHIN_S = 60.0
"""Longest wait for READY, on a computer with other work."""
ENDS_WITHIN_S = 60.0


@define
class Served:
    """A served cluster. ``servers``: ``bootstrap.servers`` by client; "" for guests."""

    process: "subprocess.Popen[str]"
    trace: Path
    servers: dict[str, str] = field(factory=dict)
    ending: list[str] = field(factory=list)
    """The lines that the process printed at its end."""
    code: int | None = None

    @property
    def guests(self) -> str:
        """``bootstrap.servers`` of clients without a name."""
        return self.servers[""]

    @property
    def verdict(self) -> str:
        """The verdict, which the process printed at its end."""
        (line,) = [line for line in self.ending if line.startswith("verdict: ")]
        return line.removeprefix("verdict: ")

    def end(self, number: int = signal.SIGTERM) -> None:
        """End the process by a signal."""
        if self.code is None:
            self.process.send_signal(number)
            out, errors = self.process.communicate(timeout=ENDS_WITHIN_S)
            self.code, self.ending = self.process.returncode, [*out.splitlines(), *errors.splitlines()]


@contextmanager
def served(scenario: str, place: Path, options: Sequence[str] = ()) -> Iterator[Served]:
    """Serve a scenario (text of a TOML file) until the end of the block."""
    file, trace = place / "scenario.toml", place / "run.kemu"
    file.write_text(scenario, encoding="utf-8")
    command = [sys.executable, "-m", "kemu", "serve", str(file), "--trace", str(trace), *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, encoding="utf-8"
    )
    late = Timer(READY_WITHIN_S, process.kill)
    late.start()
    found = Served(process, trace)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said = re.fullmatch(r"(?:(.*) )?bootstrap.servers=(.*)\n", line)
            assert said, line
            found.servers["" if said[1] == "READY" else said[1]] = said[2]
            if said[1] == "READY":
                break
        late.cancel()
        assert "" in found.servers, process.communicate()[1]
        yield found
    finally:
        late.cancel()
        found.end()
