"""Damaged logs: nothing raises, and no fact is invented."""

import functools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kemu.tools.logs.facts import facts_of_events
from kemu.tools.logs.reading import LogLayout, LogReader
from tests.tools.logs.excerpts import NAMES, lines, truth

CLOSED = tuple(name for name in NAMES if name.startswith("broker") and "spring" not in name and "strimzi" not in name)
"""Excerpts of the default layout of a broker, in which the logger ends a record: a torn record is seen."""

_PLACE = ("file", "line", "lines", "same_event_as", "inferred", "dialect", "truncated", "also")
_FREE = ("reason", "error", "node")
_INFERRED = ("group", "partitions")


def _events(text: Sequence[str]) -> list[dict[str, Any]]:
    return [event.as_json() for event in LogReader("x").events(text)]


def _facts(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in (*_PLACE, *(event.get("inferred") or ()))}


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(NAMES), st.data())
def test_dropped_and_shuffled_lines_invent_nothing(name: str, data: st.DataObject) -> None:
    """Every fact of a log without some lines, in any order, is a fact of the whole log. Records of one line only."""
    whole = lines(name)
    several = {line for event in truth(name)["events"] for line in event.get("lines", ())}
    singles = [text for number, text in enumerate(whole, 1) if number not in several]
    known = [_facts(event) for event in _events(singles)]
    kept = data.draw(st.lists(st.sampled_from(singles), unique=False, max_size=30))

    for event in _events(kept):
        fact = _facts(event)
        assert any(fact.items() <= other.items() or _same(fact, other) for other in known), fact


def _same(fact: dict[str, Any], other: dict[str, Any]) -> bool:
    """Facts that differ only in fields that a log infers from other lines."""
    return {k: v for k, v in fact.items() if k not in _INFERRED} == {
        k: v for k, v in other.items() if k not in _INFERRED
    }


@pytest.mark.parametrize("name", CLOSED)
def test_torn_lines_invent_nothing(name: str) -> None:
    """A record torn at any place states no other value than the whole record; its free text may be shorter."""
    for place, event in _known(name).items():
        _assert_torn_invents_nothing(name, place, event)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("broker-3.9-kip848-migration", 4),
        ("broker-2.7-store-assignment-error", 1),
        ("broker-2.3.0-join-loop", 4),
        ("broker-4x-java-scale-up", 3),
        ("broker-4x-java-scale-up", 4),
    ],
)
def test_torn_lines_that_once_invented_values(name: str, line: int) -> None:
    """Maps of partitions, a partition at the end, a static id within a reason, a wording of two dialects."""
    _assert_torn_invents_nothing(name, line - 1, _known(name)[line - 1])


_STABLE = "Stabilized group g generation {n} (__consumer_offsets-3) with 2 members"
_CLOSE = "(kafka.coordinator.group.GroupCoordinator)"


@pytest.mark.parametrize("intact", [1, 2])
def test_a_generation_is_not_read_from_a_log_that_is_mostly_torn(intact: int) -> None:
    """The begin "generation 1" of "generation 12 .." is the whole wording of Kafka 0.9 to 0.10.2, not of this log.

    With two intact records of 40 the logger tells the layout; with one, its wording tells the release.
    """
    texts = [
        f"[2024-05-06 07:{n:02}:09,123] INFO [GroupCoordinator 1]: {_STABLE.format(n=n)} {_CLOSE}"
        for n in range(10, 50)
    ]
    torn = [text if at < intact else text[: text.index("generation") + 12] for at, text in enumerate(texts)]
    events = _events(torn)

    assert [event.get("generation") for event in events] == [10, 11][:intact] + [None] * (40 - intact)
    assert all(event["truncated"] for event in events[intact:])


@functools.cache
def _known(name: str) -> dict[int, dict[str, Any]]:
    """The event of each line, by place."""
    return {event["line"] - 1: event for event in _events(lines(name))}


def _assert_torn_invents_nothing(name: str, place: int, whole: dict[str, Any]) -> None:
    """Read the line with its neighbours, in the layout of the whole log. The begin of a member's id is a member."""
    text = [line.rstrip("\n") for line in lines(name)]
    first = max(0, place - 2)
    layout = LogLayout.of(text)
    for cut in range(len(text[place])):
        torn = text[place][:cut]
        around = [*text[first:place], torn, *text[place + 1 : place + 3]]
        for event in (event.as_json() for event in LogReader("x", layout=layout).events(around)):
            if int(str(event["line"])) + first != place + 1:
                continue
            for key, value in _facts(event).items():
                if key in _FREE or (key == "member" and "reason" in event):
                    assert str(whole.get(key)).startswith(str(value)), (key, torn)
                else:
                    assert whole.get(key) == value, (key, torn)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=200) | st.sampled_from([line for name in NAMES for line in lines(name)]), max_size=20))
def test_any_text_is_read(text: list[str]) -> None:
    """Any text is read without an error, and every line of an event is a line of the text."""
    for event in _events(text):
        assert 1 <= event["line"] <= len(text)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(NAMES), st.integers(80, 200))
@example("broker-0.10.1-spring-embedded", 190)
def test_wrapped_lines_are_joined_or_left(name: str, width: int) -> None:
    """Lines wrapped at the width of a terminal give facts of the whole lines, or fewer."""
    whole = lines(name)
    known = {_key(event) for event in _events(whole)}
    pieces = [line[at : at + width] for line in whole for at in range(0, max(len(line), 1), width)]

    assert {_key(event) for event in _events(pieces)} <= known


def _key(event: dict[str, Any]) -> tuple[str, int | None]:
    return event["kind"], event.get("generation")


@pytest.mark.parametrize("name", ["broker-2.3.0-join-loop", "broker-4x-java-scale-up"])
def test_newest_first_and_doubled_lines_give_the_same_facts(name: str) -> None:
    """A log in the order of a web console, and a log with every line twice, tell the same story."""
    straight = _story(lines(name))

    assert _story(list(reversed(lines(name)))) == straight
    assert _story([line for line in lines(name) for _ in range(2)]) == straight


def _story(text: Sequence[str]) -> list[tuple[int, str, tuple[Any, ...]]]:
    facts = facts_of_events(list(LogReader("x").events(text)))
    return [(step.at_us, step.actor, step.notes) for step in facts.steps]
