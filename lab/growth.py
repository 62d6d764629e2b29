"""``python -m lab.growth``: the memory of ``kemu serve`` while clients come and go, and over days of virtual time.

``sockets``: TCP connections to a served cluster, one after the other, with requests; every tenth is a member that
joins its group, commits and leaves. The client ids change, so guests are replaced. ``days``: the same cluster idles in
virtual time, with an emulated member and a producer. Each command prints the resident memory in equal parts, and the
growth in the second half. The growth of the first half has caches that fill once.
"""

import gc
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.runner import Run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.server import for_serving
from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.frames import WireRequest, read_reply, write_request
from kemu.protocol.messages.data import Metadata
from kemu.protocol.messages.group import (
    FindCoordinator,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    OffsetCommit,
    OffsetToCommit,
    SyncGroup,
)
from kemu.protocol.messages.negotiation import ApiVersions
from kemu.protocol.wire.schema import SPECS

SCENARIO = """\
duration = "10m"
[brokers]
count = 3
[topics.orders]
partitions = 2
rate = %d
retention = "10m"
[groups.emulated]
topics = ["orders"]
members = %d
"""
PARTS = 8
CLIENT_IDS = 100
MEMBER_EVERY = 10
DAY_US = 86_400_000_000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"


def resident_mb(process: str = "self") -> float:
    """Resident memory of a process, in megabytes."""
    return int(Path(f"/proc/{process}/statm").read_text(encoding="utf-8").split()[1]) * _PAGE_BYTES / 1e6


class _Client:
    """One TCP connection."""

    def __init__(self, address: str, client_id: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._client_id = client_id

    def ask(self, message: Any, version: int) -> Any:
        """Send a request; return the answer."""
        key = SPECS[type(message)].api_key
        self._socket.sendall(write_request(WireRequest(key, version, 1, self._client_id, message)))
        (size,) = struct.unpack(">i", self._bytes(4))
        return read_reply(self._bytes(size), key, version).message

    def _bytes(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the server closed the connection")
            data += more
        return data

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _visit(address: str, number: int) -> None:
    """One client comes, asks, and goes."""
    client = _Client(address, f"client-{number % CLIENT_IDS}")
    client.ask(ApiVersions(), 0)
    client.ask(Metadata(topics=("orders",)), 5)
    found = client.ask(FindCoordinator(key=f"group-{number % 3}"), 2)
    client.close()
    if number % MEMBER_EVERY == 0:
        _be_member(found.host, f"group-{number % 3}", f"client-{number % CLIENT_IDS}")


def _be_member(coordinator: str, group: str, client_id: str) -> None:
    client = _Client(coordinator, client_id)
    protocols = (JoinProtocol(name="range", metadata=_SUBSCRIPTION),)
    join = JoinGroup(group=group, session_timeout_ms=6_000, protocol_type="consumer", protocols=protocols)
    asked = client.ask(join, 4)
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED, asked
    member_id = asked.member_id
    joined = client.ask(
        JoinGroup(
            group=group,
            session_timeout_ms=6_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=protocols,
        ),
        4,
    )
    assert joined.error is ErrorCode.NONE, joined
    about: dict[str, Any] = {"group": group, "generation": joined.generation, "member_id": member_id}
    assert client.ask(SyncGroup(**about, assignments=()), 2).error is ErrorCode.NONE
    client.ask(OffsetCommit(**about, offsets=(OffsetToCommit(topic="orders", partition=0, offset=0),)), 3)
    client.ask(LeaveGroup(group=group, member_id=member_id), 2)
    client.close()


@contextmanager
def _served(options: Sequence[str]) -> Iterator[tuple[int, str]]:
    """A served cluster: (process id, address of its first broker)."""
    with tempfile.TemporaryDirectory(prefix="kemu-growth-") as folder:
        scenario = Path(folder) / "growth.toml"
        scenario.write_text(SCENARIO % (0, 0), encoding="utf-8")
        command = [sys.executable, "-m", "kemu", "serve", str(scenario), *options]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            line = next(line for line in server.stdout if line.startswith("READY "))
            yield server.pid, line.split()[1].removeprefix("bootstrap.servers=").partition(",")[0]
        finally:
            server.terminate()
            server.communicate()


def _say(done: str, mb: float) -> float:
    click.echo(f"{done}: {mb:.1f} MB")
    return mb


@click.group()
def main() -> None:
    """Measure memory over time."""


@main.command()
@click.option("--count", default=10_000, show_default=True, help="Number of connections.")
@click.option("--no-checks", is_flag=True, help="Serve without checkers.")
def sockets(count: int, no_checks: bool) -> None:
    """Open and close connections to a served cluster."""
    with _served(["--no-checks"] if no_checks else []) as (pid, address):
        sizes, number = [_say("0 connections", resident_mb(str(pid)))], 0
        for part in range(1, PARTS + 1):
            while number < count * part // PARTS:
                _visit(address, number)
                number += 1
            sizes.append(_say(f"{number} connections", resident_mb(str(pid))))
    grown = (sizes[-1] - sizes[PARTS // 2]) * 1e6 / (count - count // 2)
    click.echo(f"second half: {grown:.0f} bytes per connection")


@main.command()
@click.option("--count", default=7.0, show_default=True, help="Number of days.")
@click.option("--rate", default=0, show_default=True, help="Records per second of an emulated producer.")
def days(count: float, rate: int) -> None:
    """Let days of virtual time pass in a cluster without checkers."""
    scenario = for_serving(scenario_from_toml(SCENARIO % (rate, 1), name="growth"))
    run, began_s = Run(scenario, seed=1, driven=True, checkers=()), time.process_time()
    run.begin()
    run_plain(run.world, 60_000_000)
    gc.collect()
    sizes = [_say("0 days", resident_mb())]
    for part in range(1, PARTS + 1):
        run_plain(run.world, round(count * DAY_US * part / PARTS))
        gc.collect()
        sizes.append(_say(f"{count * part / PARTS:.2f} days", resident_mb()))
    grown = (sizes[-1] - sizes[PARTS // 2]) * 1e3 / (count / 2)
    click.echo(f"second half: {grown:.0f} kB a day; {time.process_time() - began_s:.0f} s of CPU time")


if __name__ == "__main__":
    main()
