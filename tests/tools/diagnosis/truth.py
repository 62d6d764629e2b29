"""The excerpts of logs in ``tests/data/logs`` with the events, timelines and causes that people read in them."""

import datetime
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from kemu.protocol.frozen import frozen
from kemu.tools.logs.events import FIELDS, Event, event_from_json

FOLDER = Path(__file__).parents[2] / "data" / "logs"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
_TIME = re.compile(r"(?:(\d{4}-\d\d-\d\d)T)?(\d\d):(\d\d):(\d\d)(?:\.(\d+))?")
_CLIENTS = ("kafka-python", "aiokafka", "librdkafka")


@frozen
class Truth:
    """One excerpt."""

    name: str
    events: tuple[Event, ...]
    timeline: tuple[Mapping[str, Any], ...]
    causes: tuple[str, ...]


@cache
def truth(name: str) -> Truth:
    """The truth of an excerpt. The dialect of its events is the excerpt's client, if there is one."""
    row = json.loads((FOLDER / f"{name}.json").read_text())
    dialect = next((each for each in row["dialects"] if each in _CLIENTS), "")
    events = tuple(_event(name, each, dialect) for each in row["events"])
    return Truth(name, events, tuple(row["timeline"]), tuple(row["diagnosis"]["causes"]))


def _event(name: str, row: Mapping[str, Any], dialect: str) -> Event:
    fields = {key: value for key, value in row.items() if key in FIELDS}
    event = event_from_json({**fields, "file": f"{name}.log"})
    return attrs.evolve(event, at_us=_at_us(row.get("time")), dialect=dialect)


def _at_us(text: str | None) -> int | None:
    """Microseconds since 1970, or since midnight without a date."""
    found = _TIME.match(text or "")
    if found is None:
        return None
    date, hours, minutes, seconds, fraction = found.groups()
    days = (datetime.date.fromisoformat(date) - datetime.date(1970, 1, 1)).days if date else 0
    whole = ((days * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * 1_000_000 + int(f"{fraction or ''}000000"[:6])
