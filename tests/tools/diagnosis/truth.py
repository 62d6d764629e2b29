"""The excerpts of logs in ``tests/data/logs``, with the timelines and causes that people read in them."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from kemu.protocol.frozen import frozen
from kemu.tools.logs.events import Event
from kemu.tools.logs.reading import LogReader
from tests.tools.logs import excerpts

NAMES = excerpts.NAMES


@frozen
class Truth:
    """One excerpt. ``events`` are those of its log; ``tests/tools/logs`` compares them with the events by hand."""

    name: str
    events: tuple[Event, ...]
    timeline: tuple[Mapping[str, Any], ...]
    causes: tuple[str, ...]


@cache
def truth(name: str) -> Truth:
    """The truth of an excerpt."""
    row = excerpts.truth(name)
    events = tuple(LogReader(f"{name}.log").events(excerpts.lines(name)))
    return Truth(name, events, tuple(row["timeline"]), tuple(row["diagnosis"]["causes"]))
