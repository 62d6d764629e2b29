"""``kemu import-log`` over a large synthetic log of a broker, in one process and on Spark with two cores.

The log has the lines of a run of kemu about groups, and between them lines of other parts of a broker. Each command
runs in a process of its own. Memory is the greatest sum over the process and its children.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.trace.traces import read_trace
from kemu.tools.incident.from_trace import events_of_trace
from kemu.tools.logs.writing import log_lines

PRESET = "rolling-restart-dynamic"
RELEASE = "3.4"
OTHERS = 4
"""Lines of other parts of a broker for each line about a group."""
_OTHER_LINES = (
    "INFO [LocalLog partition=orders-{n}, dir=/var/lib/kafka] Rolled new log segment at offset {n}0431 in 4 ms."
    " (kafka.log.LocalLog)",
    "INFO [ProducerStateManager partition=orders-{n}] Wrote producer snapshot at offset {n}0431 with 0 producer ids"
    " in 1 ms. (kafka.log.ProducerStateManager)",
    "INFO [SocketServer listenerType=ZK_BROKER, nodeId=0] Failed authentication with /10.0.0.{n}"
    " (SSL handshake failed) (org.apache.kafka.common.network.Selector)",
    "INFO [UnifiedLog partition=orders-{n}, dir=/var/lib/kafka] Incremented log start offset to {n}0000 due to segment"
    " deletion (kafka.log.UnifiedLog)",
)
_START = datetime(2026, 1, 1, tzinfo=UTC)
_POLL_S = 0.2


def measure(say: Callable[[str], None], *, quick: bool = False, size: str = "1GB") -> dict[str, Any]:
    """CPU seconds, rate and memory of ``kemu import-log --format events``, locally and on ``local[2]``."""
    wanted = 8 << 20 if quick else bytes_of(size)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="kemu-bench-") as folder:
        log = Path(folder) / "server.log"
        say(f"write {wanted >> 20} MB")
        lines = write_log(log, wanted)
        result |= {"bytes": log.stat().st_size, "lines": lines}
        for name, more in (("local", ()), ("local[2]", ("--master", "local[2]"))):
            say(name)
            result |= {f"{name} {key}": value for key, value in _command(log, more).items()}
    result["same events"] = result["local events digest"] == result["local[2] events digest"]
    return result


def bytes_of(text: str) -> int:
    """The number of bytes of a text such as 1GB or 64MB."""
    return int(text[:-2]) << {"MB": 20, "GB": 30}[text[-2:].upper()]


def write_log(path: Path, size: int) -> int:
    """Write a log of a broker with at least this many bytes; return the number of lines."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for line in _lines():
            file.write(line)
            count += 1
            if not count % 1000 and file.tell() >= size:
                return count
    raise AssertionError("the lines do not end")


def _lines() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "run.kemu"
        run(load_scenario(PRESET), seed=1, loop="bare", trace=trace)
        events = [event for event in events_of_trace(read_trace(trace)) if event.broker is not None]
    about_groups = [line.partition("] ")[2] for line in log_lines(events, RELEASE)]
    number = 0
    while True:
        for text in about_groups:
            for other in range(OTHERS):
                yield _stamped(number, _OTHER_LINES[other].format(n=number % 251))
                number += 1
            yield _stamped(number, text.rstrip("\n"))
            number += 1


def _stamped(number: int, text: str) -> str:
    at = _START + timedelta(milliseconds=7 * number)
    return f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}] {text}\n"


def _command(log: Path, more: tuple[str, ...]) -> dict[str, Any]:
    command = [sys.executable, "-m", "kemu", "import-log", str(log), "--format", "events", *more]
    began_s = time.perf_counter()
    digest, count, most = hashlib.blake2b(digest_size=8), 0, 0
    used_s: dict[int, float] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        next_s = 0.0
        os.set_blocking(process.stdout.fileno(), False)
        while process.poll() is None or count == 0:
            while chunk := process.stdout.read(1 << 20):
                digest.update(chunk)
                count += chunk.count(b"\n")
            if time.perf_counter() >= next_s:
                most, next_s = max(most, _look(process.pid, used_s)), time.perf_counter() + _POLL_S
            time.sleep(0.01)
        while chunk := process.stdout.read(1 << 20):
            digest.update(chunk)
            count += chunk.count(b"\n")
    wall_s, cpu_s = time.perf_counter() - began_s, sum(used_s.values())
    size_mb = log.stat().st_size / 1e6
    return {
        "exit": process.returncode,
        "events": count,
        "events digest": digest.hexdigest(),
        "cpu_s": round(cpu_s, 1),
        "wall_s": round(wall_s, 1),
        "mb_per_cpu_s": round(size_mb / cpu_s, 2),
        "mb_per_s": round(size_mb / wall_s, 2),
        "memory_mb": most >> 20,
    }


def _look(root: int, used_s: dict[int, float]) -> int:
    """The resident memory of a process and its children, without pages that they share with other processes.

    Puts the CPU seconds of each process into ``used_s``: Java does not add those of Spark's Python workers to its own.
    """
    parents: dict[int, list[int]] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
            seconds[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    total, left = 0, [root]
    while left:
        one = left.pop()
        left += parents.get(one, [])
        used_s[one] = seconds.get(one, used_s.get(one, 0.0))
        try:
            resident, shared = map(int, Path(f"/proc/{one}/statm").read_text().split()[1:3])
        except (OSError, ValueError):
            continue
        total += (resident - shared) * os.sysconf("SC_PAGE_SIZE")
    return total
