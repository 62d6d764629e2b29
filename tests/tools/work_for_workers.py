"""Work that tests give to worker processes: user code must be importable there."""

import os
import signal
import time

from kemu.emulator.text.tables import Problem, ScenarioError


def slow_first(number: int) -> int:
    """Take longer for a lower number; return its square."""
    time.sleep(0.3 if number == 0 else 0.0)
    return number * number


def refuses(number: int) -> int:
    """Refuse number 2."""
    if number == 2:
        raise ScenarioError([Problem(("groups", "g"), "is refused")], "a.toml", lambda path: 7)
    return number


def dies(number: int) -> int:
    """End the process at number 1, as the kernel does if memory is short."""
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def not_sendable(number: int) -> object:
    """Return a value that no other process can get."""
    return lambda: number


def name_of(number: int) -> str:
    """The name of a task."""
    return f"task {number}"
