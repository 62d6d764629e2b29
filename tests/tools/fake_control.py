"""A control socket with fixed answers, in a thread of the test's process."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

STATE: dict[str, Any] = {
    "at_us": 65_250_000,
    "scenario": "orders",
    "brokers": {"b0": {"state": "up", "life": 1}, "b1": {"state": "down", "life": 2}},
    "topics": {
        "orders": {
            "orders-0": {"leader": "b0", "epoch": 3, "isr": ["b0"], "replicas": ["b0", "b1"], "start": 0, "end": 12},
            "orders-1": {"leader": None, "epoch": 3, "isr": ["b1"], "replicas": ["b1"], "start": 0, "end": 4},
        }
    },
    "groups": {
        "payments": {
            "state": "Stable",
            "generation": 2,
            "coordinator": "b0",
            "members": {
                "app-1f": {
                    "client": "app",
                    "client_id": "app",
                    "instance_id": "i-1",
                    "generation": 2,
                    "assigned": ["orders-0"],
                    "owned": ["orders-0"],
                }
            },
            "lag": 5,
            "offsets": {"orders-0": {"committed": 7, "end": 12, "lag": 5}},
        }
    },
    "clients": {
        "app": {
            "host": "x-app",
            "state": "up",
            "life": 1,
            "connections": [{"connection": "4", "client_id": "app\x1b[2J", "broker": "b0"}],
        },
        "late": {"host": "x-late", "state": "down", "life": 0, "connections": []},
    },
    "hosts": {"b0": "up", "b1": "down", "x-app": "up"},
}
ANSWERS: dict[str, dict[str, Any]] = {
    "heal": {"done": "heal all faults", "at_us": 1, "hosts": ["b1"]},
    "wait lag payments 0 within 1s": {"error": "not within 1s: group payments lag<=0", "seen": "lag 5", "at_us": 2},
}


class FakeControl:
    """Answers each order; ``say`` sends a line of the story; ``end`` closes all connections, as the end of a run."""

    def __init__(self, path: Path) -> None:
        self.orders: list[str] = []
        self.paused = threading.Event()
        """Set by the order "pause", which gets no answer."""
        self._events: list[socket.socket] = []
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                line = b""
                while not line.endswith(b"\n") and (data := one.recv(65_536)):
                    line += data
                self._answer(one, line.decode().strip())

    def _answer(self, one: socket.socket, order: str) -> None:
        with self._lock:
            self.orders.append(order)
            self._open.append(one)
            row = ANSWERS.get(order, {"error": f'"{order.partition(" ")[0]}" is no verb and no action'})
            match order.split():
                case ["state"]:
                    row = STATE
                case ["events", *kinds] if "bad" not in kinds:
                    row = {"events": kinds, "at_us": 0}
                    self._events.append(one)
                case ["pause", *_]:
                    self.paused.set()
                    return  # never answered
                case _:
                    pass
            with suppress(OSError):
                one.sendall(json.dumps(row).encode() + b"\n")

    def say(self, text: str, **row: Any) -> None:
        """Send an event to all readers of events."""
        with self._lock:
            for one in self._events:
                with suppress(OSError):
                    one.sendall(json.dumps(row or {"at_us": 0, "story": text}).encode() + b"\n")

    def end(self) -> None:
        """End the run."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        self._listener.close()
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._open.clear()
            self._events.clear()


@contextmanager
def fake_control(path: Path) -> Iterator[FakeControl]:
    """A control socket at a path."""
    control = FakeControl(path)
    try:
        yield control
    finally:
        control.end()
