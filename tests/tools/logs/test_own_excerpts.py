"""Records of all dialects in many layouts, damaged in many ways: nothing raises, and no fact is invented."""

import functools
import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kemu.tools.diagnosis.diagnose import diagnose
from kemu.tools.logs.facts import facts_of_events
from kemu.tools.logs.reading import LogLayout, LogReader

_START = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
_NEVER_COMPARED = (
    *("file", "line", "lines", "time", "dialect", "same_event_as", "inferred", "truncated", "part_of_line", "process"),
    *("also", "class"),
)
_FREE = ("reason", "error", "node")
"""Fields of free text, which may be shorter in a torn record."""


class Record(NamedTuple):
    """A record without a layout."""

    at: datetime
    level: str
    logger: str
    message: str


def _excerpts() -> Mapping[str, tuple[Record, ...]]:
    found: dict[str, list[Record]] = {}
    for line in Path(__file__).with_name("own_excerpts.txt").read_text(encoding="utf-8").splitlines()[1:]:
        if line.startswith("= "):
            records = found[line[2:]] = []
            continue
        head, _, message = line.partition(" | ")
        seconds, level, logger = head.split()
        records.append(Record(_START + timedelta(seconds=float(seconds)), level, logger, message))
    return {name: tuple(records) for name, records in found.items()}


EXCERPTS = _excerpts()


def _ms(at: datetime, comma: str = ",") -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}{comma}{at.microsecond // 1000:03}"


def _kafka(record: Record) -> str:
    return f"[{_ms(record.at)}] {record.level} {record.message} ({_dotted(record)})"


def _dotted(record: Record) -> str:
    return record.logger if record.logger.startswith(("kafka.", "org.")) else f"org.{record.logger}"


def _short(record: Record) -> str:
    _, point, name = record.logger.rpartition(".")
    return f"{name}: " if point else ""


def _logback(record: Record) -> str:
    return f"{_ms(record.at)} {record.level:<5} [main] {_dotted(record)} - {record.message}"


def _json(record: Record) -> str:
    keys = {"message": record.message, "level": record.level, "logger_name": record.logger}
    return json.dumps({"@timestamp": f"{_ms(record.at, '.').replace(' ', 'T')}Z", **keys})


WRAPPERS: Mapping[str, Callable[[Record], str]] = {
    "message": lambda record: record.message,
    "kafka": _kafka,
    "kafka with a method": lambda record: _kafka(record)[:-1] + ":611)",
    "logback": _logback,
    "spring boot": lambda r: f"{_ms(r.at, '.')}  {r.level} 41 --- [main] {_dotted(r)}  : {r.message}",
    "spark": lambda r: f"{r.at:%y/%m/%d %H:%M:%S} {r.level} " + _short(r) + r.message,
    "python": lambda r: f"{_ms(r.at)} - {r.logger} - {r.level} - {r.message}",
    "celery": lambda r: f"[{_ms(r.at)}: {r.level}/MainProcess] {r.message}",
    "go": lambda r: f"{r.at:%Y/%m/%d %H:%M:%S} {r.message}",
    "librdkafka": lambda r: f"%7|{r.at.timestamp():.3f}|{r.logger.upper().replace('.', '_')}|rdk#1| {r.message}",
    "ruby": lambda r: f"I, [{r.at:%Y-%m-%dT%H:%M:%S.%f} #41]  INFO -- : {r.message}",
    "json": _json,
    "json with no-break spaces": lambda record: _json(record).replace('", "', '",\xa0"'),
    "docker's json": lambda record: json.dumps({"log": _kafka(record) + "\n", "stream": "stdout"}),
    "logfmt": lambda r: f"time={r.at:%Y-%m-%dT%H:%M:%SZ} level={r.level.lower()} msg={json.dumps(r.message)}",
    "compose": lambda record: f"kafka-1  | {_kafka(record)}",
    "kubernetes": lambda record: f"2024-05-06T09:08:10.123456789Z stdout F {_kafka(record)}",
    "syslog": lambda record: f"May  6 07:08:09 host-1 kafka[123]: {_kafka(record)}",
    "grep": lambda record: f"server.log:17:{_kafka(record)}",
    "a quotation": lambda record: f"> {_kafka(record)}",
    "bold": lambda record: f"**{_kafka(record)}**",
    "a comment": lambda record: f"   * {_kafka(record)}",
    "ANSI": lambda record: f"\x1b[36m{_kafka(record)}\x1b[0m",
    "a web page": lambda r: _kafka(r).replace("[", '<span class="error">&#91;', 1).replace("]", "&#93;</span>", 1),
}
_CLOSED = ("kafka", "compose", "kubernetes", "syslog", "grep", "a quotation", "json")
"""Layouts in which the end of a record is known, so that a torn record is seen."""

Lines = list[str]
_STACK = ["java.lang.IllegalStateException: x", "\tat org.example.A.b(A.java:1)", "Caused by: x.Y: z"]


def _cut(text: Lines, chance: random.Random, begin: int, end: int) -> Lines:
    place = chance.randrange(len(text))
    at = chance.randrange(1, len(text[place]))
    return [line[at * begin : at if end else None] if i == place else line for i, line in enumerate(text)]


DAMAGES: Mapping[str, Callable[[Lines, random.Random], Lines]] = {
    "none": lambda text, chance: text,
    "shuffled": lambda text, chance: chance.sample(text, len(text)),
    "newest first": lambda text, chance: text[::-1],
    "doubled": lambda text, chance: [line for line in text for _ in range(2)],
    "repeated": lambda text, chance: text * 2,
    "dropped": lambda text, chance: [line for line in text if chance.random() < 0.5],
    "torn at the end": lambda text, chance: _cut(text, chance, 0, 1),
    "without its begin": lambda text, chance: _cut(text, chance, 1, 0),
    "empty lines between": lambda text, chance: [part for line in text for part in (line, "", "  ")],
    "carriage returns": lambda text, chance: [line + "\r" for line in text],
    "white space at both ends": lambda text, chance: [f"   {line} \t" for line in text],
    "no-break spaces": lambda text, chance: [line.replace(" ", "\xa0") for line in text],
    "elided": lambda text, chance: [part for line in text for part in (line, "...", "[...]")],
    "traces between": lambda text, chance: [part for line in text for part in (line, *_STACK)],
    "other records between": lambda text, chance: [part for line in text for part in (line, "12:00:00 INFO ready")],
    "a byte order mark": lambda text, chance: ["\ufeff" + line for line in text],
    "line numbers": lambda text, chance: [f"{number:>6}\t{line}" for number, line in enumerate(text, 1)],
    "in a box": lambda text, chance: [f"│ {line} │" for line in text],
    "wrapped": lambda text, chance: [line[at : at + 97] for line in text for at in range(0, len(line), 97)],
}
_TEARS = ("torn at the end", "without its begin", "wrapped")


def _events(text: Sequence[str], layout: LogLayout | None = None) -> list[Any]:
    return list(LogReader("x", layout=layout).events(text))


def _facts(event: Any) -> dict[str, Any]:
    row: dict[str, Any] = event.as_json()
    return {key: row[key] for key in row if key not in (*_NEVER_COMPARED, *(row.get("inferred") or ()))}


@functools.cache
def _known(name: str) -> tuple[dict[str, Any], ...]:
    """Facts of the records without a layout, and in layouts that state the logger."""
    plain = (wrapper for wrapper in ("message", "kafka", "logback", "json", "librdkafka", "python"))
    return tuple(_facts(event) for w in plain for event in _events([WRAPPERS[w](record) for record in EXCERPTS[name]]))


def _is_of(fact: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether each value is a value of the record; free text may be shorter."""
    return all(
        value == known.get(key) or (key in _FREE and str(known.get(key, "")).startswith(str(value)))
        for key, value in fact.items()
    )


def _assert_nothing_is_invented(name: str, wrapper: str, damage: str, seed: int) -> None:
    if damage in _TEARS and wrapper not in _CLOSED:
        return
    text = [WRAPPERS[wrapper](record) for record in EXCERPTS[name]]
    damaged = DAMAGES[damage](text, random.Random(seed))
    events = _events(damaged, LogLayout.of(text) if damage in _TEARS else None)
    facts_of_events(events)
    diagnose(events)
    for event in events:
        fact = _facts(event)
        assert event.category == "group-detail" or any(_is_of(fact, known) for known in _known(name)), (fact, damaged)
        assert 1 <= event.line <= len(damaged)
    if damage == "none":
        assert len(events) >= len(_events([record.message for record in EXCERPTS[name]])), (wrapper, damaged)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(EXCERPTS)),
    st.sampled_from(sorted(WRAPPERS)),
    st.sampled_from(sorted(DAMAGES)),
    st.integers(),
)
def test_wrapped_and_damaged_records_invent_nothing(name: str, wrapper: str, damage: str, seed: int) -> None:
    """A layout around the records and one damage: every fact is one of the records, nothing raises."""
    _assert_nothing_is_invented(name, wrapper, damage, seed)


@pytest.mark.parametrize("name", sorted(EXCERPTS))
def test_an_excerpt_in_all_layouts_with_all_damages_invents_nothing(name: str) -> None:
    """All layouts and all damages, once each."""
    for wrapper, damage in itertools.product(WRAPPERS, DAMAGES):
        _assert_nothing_is_invented(name, wrapper, damage, 1)
