"""Reads a scenario from its plain form, as in a TOML file, and checks the whole scenario."""

from collections.abc import Iterator, Mapping
from typing import Any

from kemu.emulator.scenario.forms import read
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import Path, Problem, ScenarioError, printable
from kemu.protocol.names import OFFSETS_TOPIC

DEEPEST = 16
"""Tables and lists inside each other."""
LARGEST = (1 << 63) - 1
MOST_OF_A_KIND = 10_000
"""Groups, topics and entries of a plan."""


def scenario_from_dict(data: Mapping[str, Any], *, name: str = "") -> Scenario:
    """Return the scenario of a plain dict; ``name`` is the default of the scenario's name.

    Raises:
        ScenarioError: lists every mistake.
    """
    problems = [*_unfit(data, ()), *_too_many(data)]
    if problems:
        raise ScenarioError(problems)
    return read({"name": name or "scenario", **data}, Scenario)


def _unfit(item: Any, path: Path) -> Iterator[Problem]:
    """Yield a problem for each value that no key takes: control characters, huge numbers, deep nesting."""
    if isinstance(item, str):
        if printable(item) != item:
            yield Problem(path, f"has control characters: {item!a:.60}")
    elif isinstance(item, int | float):
        if not -LARGEST <= item <= LARGEST:
            yield Problem(path, "must be a number of at most 19 digits")
    elif len(path) > DEEPEST:
        yield Problem(path, f"has more than {DEEPEST} tables and lists inside each other")
    elif isinstance(item, Mapping):
        for name, value in item.items():
            yield from _unfit(name, (*path, "key"))
            yield from _unfit(value, (*path, str(name)))
    elif isinstance(item, list | tuple):
        for index, value in enumerate(item):
            yield from _unfit(value, (*path, index))


def _too_many(data: Mapping[str, Any]) -> Iterator[Problem]:
    for kind in ("groups", "topics", "plan"):
        given = data.get(kind, ())
        if isinstance(given, Mapping | list | tuple) and len(given) > MOST_OF_A_KIND:
            yield Problem((kind,), f"has {len(given):,} entries; the maximum is {MOST_OF_A_KIND:,}")
    topics = data.get("topics")
    if isinstance(topics, Mapping) and OFFSETS_TOPIC in topics:
        yield Problem(("topics", OFFSETS_TOPIC), "is Kafka's internal topic, which the coordinators create")
