"""Say in words why a run stopped before its end: whose code raised, or which events repeat without end."""

import os
import traceback
from collections.abc import Sequence
from types import TracebackType

from kemu.actors.machine import Event, Received, TimerFired, Told

LIVELOCK = "livelock: "
"""How the text begins that says which events repeat while virtual time stands still."""
USER_CODE = (("listener", "on_revoked"), ("application", "polled"), ("assignor", "assign"))
"""Code that a user may supply to a machine, by a method that no other class of the same role lacks."""


def clock_text(at_us: int) -> str:
    """A virtual time in microseconds as "00:12.345"."""
    minutes, rest_ms = divmod(at_us // 1_000, 60_000)
    return f"{minutes:02}:{rest_ms // 1_000:02}.{rest_ms % 1_000:03}"


def raised_text(whose: str, error: BaseException, at_us: int) -> str:
    """One line that says whose code raised, what and when; the traceback follows.

    Args:
        whose: the code's owner, such as "the listener of c1".
        error: what was raised.
        at_us: the virtual time.
    """
    said = f"{whose} raised {type(error).__name__}({error}) at {clock_text(at_us)}".replace("\n", " ")
    return "\n".join([said, *traceback.format_exception(error)]).rstrip()


def user_code_of(error: BaseException) -> str:
    """The role of the user's code that raised: "listener", "application" or "assignor"; "" if the machine raised."""
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
    """Of these objects, the first whose method was being called when this was raised; None: none of them."""
    found: TracebackType | None = error.__traceback__
    while found is not None:
        owner = found.tb_frame.f_locals.get("self")
        if any(owner is each for each in owners):
            return owner
        found = found.tb_next
    return None


def outcome_of_test(broke: BaseException) -> BaseException | None:
    """Return the exception of ``pytest.fail`` or ``pytest.skip`` that stopped a machine in a test of pytest; else None.

    Pytest must receive that exception itself: a skipped test is not a failed one.
    """
    cause = broke.__cause__
    outcome = any(base.__module__ == "_pytest.outcomes" for base in type(cause).__mro__)
    return cause if outcome and "PYTEST_CURRENT_TEST" in os.environ else None


def event_words(event: Event) -> str:
    """Name the event that an actor takes next: "timer heartbeat", "Fetch received"."""
    match event:
        case TimerFired(key=key):
            return f"timer {' '.join(key)}"
        case Received(message=message):
            return f"{type(message).__name__} received"
        case Told(command=command):
            return f"told {type(command).__name__}"
    return type(event).__name__


def loop_words(events: Sequence[str]) -> str:
    """The shortest run of events that repeats at the end of these, as "a -> b -> a"; else the last ten."""
    for length in range(1, len(events) // 3 + 1):
        cycle = events[-length:]
        if events[-2 * length : -length] == cycle and events[-3 * length : -2 * length] == cycle:
            return " -> ".join([*cycle, cycle[0]])
    return " -> ".join(events[-10:])
