"""Texts about runs that stopped early: the owner of the code that raised, or the events that repeat endlessly."""

import os
import traceback
from collections.abc import Sequence
from types import TracebackType

from kemu.actors.machine import Event, Received, TimerFired, Told

LIVELOCK = "livelock: "
"""Beginning of the text about a livelock."""
USER_CODE = (("listener", "on_revoked"), ("application", "polled"), ("assignor", "assign"))
"""(role of the user's code, method by which the role is recognised in a traceback)."""


def clock_text(at_us: int) -> str:
    """Return a virtual time in us as "00:12.345"."""
    minutes, rest_ms = divmod(at_us // 1_000, 60_000)
    return f"{minutes:02}:{rest_ms // 1_000:02}.{rest_ms % 1_000:03}"


def raised_text(whose: str, error: BaseException, at_us: int) -> str:
    """Return one line with the owner of the code, the exception and the time; the traceback follows.

    Args:
        whose: owner of the code, such as "the listener of c1".
        error: the exception.
        at_us: virtual time.
    """
    said = f"{whose} raised {type(error).__name__}({error}) at {clock_text(at_us)}".replace("\n", " ")
    return "\n".join([said, *traceback.format_exception(error)]).rstrip()


def user_code_of(error: BaseException) -> str:
    """Return the role of the user's code that raised: "listener", "application", "assignor"; "" for a machine."""
    found: TracebackType | None = error.__traceback__
    while found is not None:
        frame = found.tb_frame
        if not frame.f_globals.get("__name__", "").startswith("kemu."):
            owner = frame.f_locals.get("self")
            for role, method in USER_CODE:
                if hasattr(owner, method):
                    return role
        found = found.tb_next
    return ""


def owner_among(error: BaseException, owners: Sequence[object]) -> object | None:
    """Return the first of these objects whose method was running when ``error`` was raised; None without such an
    object.
    """
    found: TracebackType | None = error.__traceback__
    while found is not None:
        owner = found.tb_frame.f_locals.get("self")
        if any(owner is each for each in owners):
            return owner
        found = found.tb_next
    return None


def owner_in(error: BaseException, package: str) -> str:
    """Return the type of the object in this package whose method raised; "" if no method of the package did."""
    found, name = error.__traceback__, ""
    while found is not None:
        frame = found.tb_frame
        if frame.f_globals.get("__name__", "").startswith(f"{package}."):
            name = type(frame.f_locals.get("self")).__name__
        found = found.tb_next
    return name


def outcome_of_test(broke: BaseException) -> BaseException | None:
    """Return the exception of ``pytest.fail`` or ``pytest.skip`` that stopped a machine, or None.

    Pytest must receive the original exception: a skipped test is no failed test.
    """
    cause = broke.__cause__
    outcome = any(base.__module__ == "_pytest.outcomes" for base in type(cause).__mro__)
    return cause if outcome and "PYTEST_CURRENT_TEST" in os.environ else None


def event_words(event: Event) -> str:
    """Return a short description of an event, such as "timer heartbeat" or "Fetch received"."""
    match event:
        case TimerFired(key=key):
            return f"timer {' '.join(key)}"
        case Received(message=message):
            return f"{type(message).__name__} received"
        case Told(command=command):
            return f"told {type(command).__name__}"
    return type(event).__name__


def loop_words(events: Sequence[str]) -> str:
    """Return the shortest sequence that repeats at the end of ``events``, as "a -> b -> a"; else the last ten."""
    for length in range(1, len(events) // 3 + 1):
        cycle = events[-length:]
        if events[-2 * length : -length] == cycle and events[-3 * length : -2 * length] == cycle:
            return " -> ".join([*cycle, cycle[0]])
    return " -> ".join(events[-10:])
