"""A served cluster beside franz-go's kfake, in turns: time to READY, round trips, CPU time per request, idle cost.

Both serve three brokers and a topic of four partitions. The load is one request (Metadata v5) after the other on each
connection, by the same Go program. The default network of kemu delays each message by 0.5 ms to 2 ms. kfake has no
emulated network. The bench needs Go, and downloads kfake at its first run.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

SOURCE = Path(__file__).parent / "kfake"
SCENARIO = """\
[brokers]
count = 3
[topics.orders]
partitions = 4
rate = 0
"""
CONNECTIONS = (1, 20)
ROUNDS, LOAD_S, IDLE_S = 5, 3.0, 5.0
_TICKS = os.sysconf("SC_CLK_TCK")


@frozen
class Measured:
    """The figures of one start of a server."""

    ready_s: float
    ready_cpu_s: float
    idle_per_mille: float
    """CPU time without clients, in thousandths of a core."""
    rates: Mapping[int, float]
    """Number of connections -> round trips per second."""
    cpu_us: Mapping[int, float]
    """Number of connections -> CPU time of the server per request, in us."""


def measure(say: Callable[[str], object], quick: bool = False) -> dict[str, Any]:
    """The medians of several starts of both servers.

    Raises:
        RuntimeError: Go is not installed, or kfake cannot be built.
    """
    rounds, load_s, idle_s = (1, 1.0, 1.0) if quick else (ROUNDS, LOAD_S, IDLE_S)
    with tempfile.TemporaryDirectory(prefix="kemu-bench-") as name:
        place = Path(name)
        tool = built(place)
        scenario = place / "served.toml"
        scenario.write_text(SCENARIO, encoding="utf-8")
        servers = {"kemu": [sys.executable, "-m", "kemu", "serve", str(scenario)], "kfake": [str(tool), "serve"]}
        found: dict[str, list[Measured]] = {server: [] for server in servers}
        for number in range(rounds):
            order = [*servers] if number % 2 == 0 else [*reversed(servers)]
            for server in order:
                found[server].append(_measured(servers[server], tool, load_s, idle_s))
                say(f"{server}: {found[server][-1]}")
    return _medians(found)


def built(place: Path) -> Path:
    """The kfake peer, compiled into this folder.

    Raises:
        RuntimeError: Go is not installed, or kfake cannot be built.
    """
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise RuntimeError("this bench needs Go (https://go.dev/dl)")
    tool = place / "kfake-peer"
    done = subprocess.run([go, "build", "-o", str(tool), "."], cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"kfake cannot be built: {done.stderr}")
    return tool


def _measured(command: Sequence[str], tool: Path, load_s: float, idle_s: float) -> Measured:
    with _started(command) as (pid, address, ready_s):
        ready_cpu_s = _cpu_s(pid)
        time.sleep(idle_s)
        idle_cpu_s = _cpu_s(pid) - ready_cpu_s
        rates, cpu_us = {}, {}
        for connections in CONNECTIONS:
            before_s = _cpu_s(pid)
            words = [str(tool), "load", address, str(connections), str(load_s)]
            said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
            requests, took_s = int(said[0]), float(said[1])
            rates[connections] = requests / took_s
            cpu_us[connections] = (_cpu_s(pid) - before_s) * 1e6 / requests
    return Measured(ready_s, ready_cpu_s, idle_cpu_s / idle_s * 1_000, rates, cpu_us)


@contextmanager
def _started(command: Sequence[str]) -> Iterator[tuple[int, str, float]]:
    """A server: (process id, address of its first broker, seconds from the start to READY)."""
    began_s = time.perf_counter()
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = next(line for line in server.stdout if line.startswith("READY "))
        ready_s = time.perf_counter() - began_s
        yield server.pid, line.split()[1].removeprefix("bootstrap.servers=").partition(",")[0], ready_s
    finally:
        server.terminate()
        server.communicate()


def _cpu_s(pid: int) -> float:
    """CPU time of a process, in seconds. The kernel counts in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _medians(found: Mapping[str, Sequence[Measured]]) -> dict[str, Any]:
    figures: dict[str, Callable[[Measured], float]] = {
        "seconds to READY": lambda each: each.ready_s,
        "CPU seconds to READY": lambda each: each.ready_cpu_s,
        "idle, thousandths of a core": lambda each: each.idle_per_mille,
    }
    for connections in CONNECTIONS:
        of = f"{connections} connection{'s' if connections > 1 else ''}"
        figures[f"round trips/s, {of}"] = lambda each, n=connections: each.rates[n]  # type: ignore[misc]
        figures[f"CPU us per request, {of}"] = lambda each, n=connections: each.cpu_us[n]  # type: ignore[misc]
    return {
        name: {
            server: float(f"{statistics.median(figure(each) for each in measured):.3g}")
            for server, measured in found.items()
        }
        for name, figure in figures.items()
    }
