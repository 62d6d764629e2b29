"""A served cluster in virtual time, whose gateway gets the frames of one client without a socket."""

from collections.abc import Callable
from typing import Any

from kemu.emulator.engine.gateway import Door, Gateway, _Connection
from kemu.emulator.engine.loop import run_plain
from kemu.emulator.runner import Run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.server import for_serving
from kemu.emulator.serving.payloads import Payloads
from kemu.emulator.serving.translation import OFFERED

SCENARIO = """\
duration = "10m"
[brokers]
count = 3
[brokers.replication]
factor = 3
[topics.orders]
partitions = 2
rate = %d
[groups.payments]
topics = ["orders"]
members = 1
[clients]
names = ["app"]
"""
NAMES = ("orders", "payments", "app", "consumer", "range", "__consumer_offsets")
"""Texts that the cluster knows; drawn frames have them often."""
UP_US = 10_000_000
STEP_US = 20_000
PAYLOAD_BYTES = 65_536


class _AtOnce:
    """Carries out a call at once, because no loop runs between two frames."""

    def call(self, what: Callable[[], object]) -> None:
        what()


class _Scope:
    """The end of a connection, in place of Trio's cancel scope."""

    def __init__(self) -> None:
        self.cancel_called = False

    def cancel(self) -> None:
        self.cancel_called = True


class FuzzedCluster:
    """The cluster; ``close`` closes its ports.

    Args:
        is_checked: whether checkers see the run.
        rate: records per second of an emulated producer.
        profile: the release of the brokers.
    """

    def __init__(self, *, is_checked: bool = False, rate: int = 10, profile: str = "kafka-3.4") -> None:
        scenario = for_serving(scenario_from_toml(SCENARIO % rate, name="fuzzed"))
        self._run = Run(scenario, seed=1, profile=profile, driven=True, checkers=None if is_checked else ())
        self.said: list[str] = []
        """Lines for the user: refused frames and limits."""
        payloads = Payloads(PAYLOAD_BYTES)
        self._gateway = Gateway(
            self._run.world,
            self._run.cluster.start,
            brokers=scenario.broker_names(),
            clients=scenario.clients.named_hosts(),
            guests=(),
            offered=OFFERED,
            payloads=payloads,
            say=self.said.append,
        )
        self._gateway._outside = _AtOnce()  # type: ignore[assignment]
        self._run.watch_also(payloads)
        self._run.watch_also(self._gateway)
        self._run.begin()
        run_plain(self._run.world, UP_US)
        self._open: dict[str, _Connection] = {}
        self._count = 0

    def ask(self, broker: str, frame: bytes) -> bool:
        """Send a frame on the connection to a broker, and let time pass; return whether the connection is open.

        Raises:
            MachineBroke, Livelock: a machine broke.
        """
        connection = self._open.get(broker)
        if connection is None:
            self._count += 1
            door: Door = self._gateway.doors[0]
            stream: Any = None  # no task reads or writes
            connection = self._open[broker] = _Connection(f"{self._count}", broker, door, stream)
            connection.scope = _Scope()  # type: ignore[assignment]
        is_open = self._gateway._took(connection, frame)
        world = self._run.world
        run_plain(world, world.now_us + STEP_US)
        while connection.unsent.statistics().current_buffer_used:
            connection.unsent.receive_nowait()
        is_open = is_open and not connection.scope.cancel_called
        if not is_open:
            del self._open[broker]
            self._gateway._closed(connection)
        return is_open

    def disconnect(self, broker: str) -> None:
        """Close the connection to a broker."""
        self._gateway._closed(self._open.pop(broker))

    def close(self) -> None:
        """Close the ports."""
        self._gateway.close()
