"""A cluster of ``kemu serve`` for tests of a user's service: the fixtures ``kemu_serve`` and ``kemu_serve_async``."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any, TypeAlias

from kemu.emulator.engine.threads import in_thread
from kemu.emulator.text.units import duration_us

READY_WITHIN_S = 180.0
"""Longest wait for READY. A quiet computer needs a second; with 35 other processes on two cores, a minute passes."""
ANSWER_WITHIN_S = 60.0
WITHIN = "60s"
"""Longest wait for a condition, if the test does not say another time."""
_SERVERS = re.compile(r"(?:(.*) )?bootstrap.servers=(.*)")
_READY = "READY"


class NotServed(AssertionError):
    """A cluster did not start, refused an order, or broke a rule; the message has its output."""


class Order:
    """An order on a connection of its own to the control socket of a live run.

    Raises:
        NotServed: nobody listens at the path.
    """

    def __init__(self, path: Path, row: Mapping[str, Any]) -> None:
        self._row = row
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
            self._socket.sendall(json.dumps(row).encode() + b"\n")
        except OSError as error:
            self._socket.close()
            raise self._failed(f"the cluster does not answer: {error}") from None
        self._lines = self._socket.makefile("rb")

    def next(self, within_s: float | None) -> dict[str, Any]:
        """The next line of the answer; {} at the end of the cluster. ``within_s``: longest wait; None: no limit.

        Raises:
            NotServed: the order is refused, or the cluster does not answer in time.
        """
        self._socket.settimeout(within_s)
        try:
            line = self._lines.readline()
        except OSError as error:
            raise self._failed(f"the cluster does not answer: {error}") from None
        row: dict[str, Any] = json.loads(line or b"{}")
        if "error" in row:
            raise self._failed("; ".join((row["error"], *([row["seen"]] if "seen" in row else ()))))
        return row

    def answer(self, within_s: float) -> dict[str, Any]:
        """The answer of one line. ``within_s``: the time of the order itself.

        Raises:
            NotServed: as ``next``; the cluster has ended.
        """
        row = self.next(within_s + ANSWER_WITHIN_S)
        if not row:
            raise self._failed("the cluster ended before it answered")
        return row

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the further lines of the answer, and close the connection."""
        with closing(self):
            while row := self.next(None):
                yield row

    def close(self) -> None:
        """Close the connection; a waiting reader in another thread fails."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._lines.close()
        self._socket.close()

    def _failed(self, text: str) -> NotServed:
        return NotServed(f"{' '.join(str(value) for value in self._row.values())}: {text}")


def _action(action: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    return {"do": action, **{name.rstrip("_"): value for name, value in keys.items()}}


def _wait(condition: str, within: str) -> dict[str, Any]:
    return {"wait": condition, "within": within}


def _seconds(within: str) -> float:
    try:
        return duration_us(within) / 1e6
    except ValueError as error:
        raise NotServed(f"within: {error}") from None


class ServedCluster:
    """A cluster in a process of its own, with open ports. Calls wait, so async tests use ``AsyncServedCluster``."""

    def __init__(
        self, process: "subprocess.Popen[str]", servers: Mapping[str, str], trace: Path, control: Path
    ) -> None:
        self._process = process
        self.control = control
        """Path of the control socket."""
        self.bootstrap_servers = servers[_READY]
        """``bootstrap.servers`` for clients without a name."""
        self.clients = {name: text for name, text in servers.items() if name != _READY}
        """Name of a client -> its ``bootstrap.servers``."""
        self.trace = trace
        """The trace, complete after ``close``."""
        self.output: list[str] = []
        """The lines that the process printed at its end."""
        self.exit_code: int | None = None

    def do(self, action: str, **keys: Any) -> str:
        """Carry out an action of a plan now: ``do("kill-coordinator", group="payments", for_="5s")``.

        Returns:
            The description of the action.

        Raises:
            NotServed: the action is refused, or has no effect; the message has the reason.
        """
        return str(self._ask(_action(action, keys))["done"])

    def wait(self, condition: str, *, within: str = WITHIN) -> str:
        """Wait for a condition: "group payments Stable members=2", "lag payments 0", "leader orders-0 b1".

        A trigger of a plan is a condition, too: "noted GroupBecame group=payments new=Stable".

        Returns:
            The state of the group, partition or host; "" for a trigger.

        Raises:
            NotServed: the condition is wrong, or is not true in time; the message has the state at the end.
        """
        return str(self._ask(_wait(condition, within), _seconds(within)).get("seen", ""))

    def leader(self, partition: str) -> str:
        """The leader of a partition such as "orders-0": "b1"; "" without a leader.

        Raises:
            NotServed: there is no such partition.
        """
        return self._ask({"leader": partition})["leader"] or ""

    def state(self) -> dict[str, Any]:
        """Groups, topics, brokers and clients, as values for JSON."""
        return dict(self._ask({"state": True}))

    def events(self, *kinds: str) -> Iterator[dict[str, Any]]:
        """Return the facts of these kinds from now on (without kinds: all facts), until the end of the cluster.

        Raises:
            NotServed: there is no such kind.
        """
        order = Order(self.control, {"events": kinds})
        try:
            order.answer(0)
        except NotServed:
            order.close()
            raise
        return order.rows()

    def _ask(self, row: Mapping[str, Any], within_s: float = 0) -> dict[str, Any]:
        with closing(Order(self.control, row)) as order:
            return order.answer(within_s)

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
    late, began_s, before = Timer(READY_WITHIN_S, process.kill), time.monotonic(), os.times()
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
    is_late, errors, after = time.monotonic() - began_s >= READY_WITHIN_S, process.communicate()[1], os.times()
    cpu_s = sum(after[2:4]) - sum(before[2:4])  # of ended child processes
    why = (
        f"was not ready within {READY_WITHIN_S:g} s, and had {cpu_s:.1f} s of CPU time" if is_late else "did not start"
    )
    raise NotServed(f"the cluster {why}:\n{errors}")


class AsyncServedCluster:
    """A cluster for async tests, in asyncio (pytest-asyncio, anyio) or Trio. The methods are those of
    ``ServedCluster``; while they wait, other tasks of the event loop run.
    """

    def __init__(self, served: ServedCluster) -> None:
        self.served = served
        self.bootstrap_servers = served.bootstrap_servers
        """``bootstrap.servers`` for clients without a name."""
        self.clients = served.clients
        """Name of a client -> its ``bootstrap.servers``."""

    async def do(self, action: str, **keys: Any) -> str:
        """Carry out an action of a plan now (``ServedCluster.do``)."""
        return str((await self._ask(_action(action, keys)))["done"])

    async def wait(self, condition: str, *, within: str = WITHIN) -> str:
        """Wait for a condition (``ServedCluster.wait``)."""
        return str((await self._ask(_wait(condition, within), _seconds(within))).get("seen", ""))

    async def leader(self, partition: str) -> str:
        """The leader of a partition (``ServedCluster.leader``)."""
        return (await self._ask({"leader": partition}))["leader"] or ""

    async def state(self) -> dict[str, Any]:
        """The whole state (``ServedCluster.state``)."""
        return await self._ask({"state": True})

    async def _ask(self, row: Mapping[str, Any], within_s: float = 0) -> dict[str, Any]:
        with closing(Order(self.served.control, row)) as order:
            return await in_thread(lambda: order.answer(within_s), order.close)


Serve: TypeAlias = Callable[..., ServedCluster]
"""The fixture ``kemu_serve``: ``kemu_serve(scenario, *options) -> ServedCluster``."""
AsyncServe: TypeAlias = Callable[..., Awaitable[AsyncServedCluster]]
"""The fixture ``kemu_serve_async``: ``await kemu_serve_async(scenario, *options) -> AsyncServedCluster``."""


def check(cluster: ServedCluster) -> None:
    """Close a cluster, and raise an error unless every rule holds.

    Raises:
        NotServed: a rule is broken; the message has the output and the trace.
    """
    if cluster.close() != "holds":
        raise NotServed("\n".join((*cluster.output, f"kemu explain {cluster.trace}")))


@contextmanager
def serving_several(place: Path) -> Iterator[Serve]:
    """A function that serves scenarios until the end of the block, and checks each cluster at the end.

    Raises:
        NotServed: a rule is broken.
    """
    with ExitStack() as open_clusters:
        clusters: list[ServedCluster] = []
        numbers = count(1)

        def serve(scenario: str | Path, *options: str) -> ServedCluster:
            own = place / f"served-{next(numbers)}"
            own.mkdir()
            clusters.append(open_clusters.enter_context(serving(scenario, own, options)))
            return clusters[-1]

        yield serve
        for cluster in clusters:
            check(cluster)
