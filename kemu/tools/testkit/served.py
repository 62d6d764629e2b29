"""A cluster of ``kemu serve`` for tests of a user's service: the fixture ``kemu_serve``."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any, TypeAlias

READY_WITHIN_S = 60.0
"""Longest wait for READY. A quiet computer needs a second."""
ANSWER_WITHIN_S = 60.0
_SERVERS = re.compile(r"(?:(.*) )?bootstrap.servers=(.*)")
_READY = "READY"


class NotServed(AssertionError):
    """A cluster did not start, refused an order, or broke a rule; the message has its output."""


class ServedCluster:
    """A cluster in a process of its own, with open ports.

    Its methods block for milliseconds, so async tests may call them, too.
    """

    def __init__(
        self, process: "subprocess.Popen[str]", servers: Mapping[str, str], trace: Path, control: Path
    ) -> None:
        self._process = process
        self._control = control
        self.bootstrap_servers = servers[_READY]
        """``bootstrap.servers`` for clients without a name."""
        self.clients = {name: text for name, text in servers.items() if name != _READY}
        """Name of a client -> its ``bootstrap.servers``."""
        self.trace = trace
        """The trace, complete after ``close``."""
        self.output: list[str] = []
        """The lines that the process printed at its end."""
        self.exit_code: int | None = None

    def order(self, do: str, **keys: Any) -> str:
        """Carry out an action of a plan now: ``order("kill-coordinator", group="payments", for_="5s")``.

        Returns:
            The description of the action.

        Raises:
            NotServed: the action is refused, or has no effect; the message has the reason.
        """
        row = {"do": do, **{name.rstrip("_"): value for name, value in keys.items()}}
        said = b""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
                door.settimeout(ANSWER_WITHIN_S)
                door.connect(str(self._control))
                door.sendall(json.dumps(row).encode() + b"\n")
                while not said.endswith(b"\n") and (data := door.recv(65_536)):
                    said += data
        except OSError as error:
            raise NotServed(f"{do}: the cluster does not answer: {error}") from None
        answer = json.loads(said or b'{"error": "the cluster ended before it answered"}')
        if "error" in answer:
            raise NotServed(f"{do}: {answer['error']}")
        return str(answer["done"])

    def close(self, number: int = signal.SIGTERM) -> str:
        """End the cluster by a signal; return its verdict, such as "holds"."""
        if self.exit_code is None:
            self._process.send_signal(number)
            out, errors = self._process.communicate()
            self.exit_code, self.output = self._process.returncode, [*out.splitlines(), *errors.splitlines()]
        return self.verdict

    @property
    def verdict(self) -> str:
        """The verdict of a closed cluster; "broken" without a verdict."""
        said = [line.removeprefix("verdict: ") for line in self.output if line.startswith("verdict: ")]
        return said[-1] if said else "broken"


@contextmanager
def serving(scenario: str | Path, place: Path, options: Sequence[str] = ()) -> Iterator[ServedCluster]:
    """Serve a scenario until the end of the block.

    Args:
        scenario: a file, the name of a preset, or the text of a TOML file, which has more than one line.
        place: folder for the trace and the text.
        options: further options of ``kemu serve``.

    Raises:
        NotServed: the cluster did not become ready; the message has its errors.
    """
    source, trace = str(scenario), place / "served.kemu"
    if "\n" in source:
        file = place / "served.toml"
        file.write_text(source, encoding="utf-8")
        source = str(file)
    with TemporaryDirectory(prefix="kemu-") as short:  # a socket's path has at most 107 characters
        control = Path(short) / "control"
        command = [sys.executable, "-m", "kemu", "serve", source, "--trace", str(trace), "--control", str(control)]
        process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            cluster = ServedCluster(process, _servers(process), trace, control)
            yield cluster
            cluster.close()
        finally:
            if process.poll() is None:
                process.terminate()
                process.communicate()


def _servers(process: "subprocess.Popen[str]") -> dict[str, str]:
    """``bootstrap.servers`` by client, once the cluster is ready."""
    late = Timer(READY_WITHIN_S, process.kill)
    late.start()
    servers: dict[str, str] = {}
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said = _SERVERS.fullmatch(line.rstrip("\n"))
            if said is not None:
                servers[said[1]] = said[2]
            if _READY in servers:
                return servers
    finally:
        late.cancel()
    raise NotServed(f"the cluster did not start:\n{process.communicate()[1]}")


Serve: TypeAlias = Callable[..., ServedCluster]
"""The fixture ``kemu_serve``: ``kemu_serve(scenario, *options) -> ServedCluster``."""


def check(cluster: ServedCluster) -> None:
    """Close a cluster, and raise an error unless every rule holds.

    Raises:
        NotServed: a rule is broken; the message has the output and the trace.
    """
    if cluster.close() != "holds":
        raise NotServed("\n".join((*cluster.output, f"kemu explain {cluster.trace}")))
