"""A scenario as Python code from the public names: ``kemu.Scenario(...)``, without defaults.

The value of the code equals the scenario, and type checkers accept the code. A duration is a text if the class converts
texts, and ``kemu.duration_us("20s")`` if the field is an integer in microseconds.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from kemu.emulator.draws import DrawSet
from kemu.emulator.plan.action import Action, keys_of
from kemu.emulator.plan.entries import At, Entry, Noted, Trigger
from kemu.emulator.scenario.keys import Declared, declared, is_declared
from kemu.emulator.scenario.kinds import DrawsKey, DurationKey, LatencyKey, PlanKey, RateKey, SettingsKey, ThroughputKey
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.kafka_keys import settings_dict
from kemu.emulator.text.units import duration_text
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen

WIDTH = 110
STEP = "    "


@frozen
class _Call:
    """A call, a dict or a tuple: an opening, items and a closing."""

    opening: str
    items: "tuple[tuple[str, _Node], ...]"
    """(text before the item, the item)."""
    closing: str


_Node: TypeAlias = str | _Call


def python_text(scenario: Scenario, *, before: str = "") -> str:
    """The scenario as an expression. ``before``: the text before the expression on the first line ("SCENARIO = ")."""
    return _laid_out(before, _spec(scenario), 0)


def entry_text(entry: Entry) -> str:
    """The plan entry as an expression on one line."""
    return _on_one_line(_entry(entry))


# --- layout ----------------------------------------------------------------------------------------------------------


def _on_one_line(node: _Node) -> str:
    if isinstance(node, str):
        return node
    inside = ", ".join(before + _on_one_line(item) for before, item in node.items)
    comma = "," if node.opening == "(" and len(node.items) == 1 else ""
    return f"{node.opening}{inside}{comma}{node.closing}"


def _laid_out(before: str, node: _Node, depth: int) -> str:
    """The lines of a node; the first line has no indentation."""
    line = before + _on_one_line(node)
    if isinstance(node, str) or len(line) + len(STEP) * depth < WIDTH:
        return line
    inner = STEP * (depth + 1)
    lines = [f"{inner}{_laid_out(text, item, depth + 1)}," for text, item in node.items]
    return "\n".join([before + node.opening, *lines, STEP * depth + node.closing])


def _called(name: str, items: Iterable[tuple[str, _Node]]) -> _Call:
    return _Call(f"kemu.{name}(", tuple(items), ")")


def _tuple(items: Iterable[_Node]) -> _Call:
    return _Call("(", tuple(("", item) for item in items), ")")


def _dict(items: Mapping[str, _Node]) -> _Call:
    return _Call("{", tuple((f"{_literal(key)}: ", item) for key, item in items.items()), "}")


def _literal(value: Any) -> str:
    """The value as a literal: strings in double quotes, large numbers with underscores."""
    if isinstance(value, str):
        text = repr(value)
        return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in value else text
    if isinstance(value, ErrorCode):
        return f"kemu.ErrorCode.{value.name}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    if isinstance(value, list | tuple):
        opening, closing = "[]" if isinstance(value, list) else "()"
        inside = ", ".join(_literal(item) for item in value)
        return f"{opening}{inside}{',' if isinstance(value, tuple) and len(value) == 1 else ''}{closing}"
    return repr(value)


# --- values ----------------------------------------------------------------------------------------------------------


def _spec(spec: Any) -> _Call:
    """An instance of a scenario's class."""
    given: list[tuple[str, _Node]] = []
    cls: Any = type(spec)
    for each in declared(cls):
        value = getattr(spec, each.field.name)
        if each.required or value != each.default:
            given.append((f"{each.field.name}=", _value(each, value)))
    return _called(cls.__name__, given)


def _value(each: Declared, value: Any) -> _Node:
    match each.kind:
        case DurationKey():
            return _literal(duration_text(value))
        case LatencyKey():
            return _literal(tuple(duration_text(bound) for bound in value))
        case RateKey() | ThroughputKey():
            return _literal(value)
        case SettingsKey(config=config):
            return _dict({key: _literal(item) for key, item in settings_dict(config, value).items()})
        case DrawsKey():
            return _draws(value)
        case PlanKey():
            return _tuple(_entry(entry) for entry in value)
    if isinstance(value, Mapping):
        return _dict({name: _spec(item) for name, item in value.items()})
    if isinstance(value, tuple) and value and is_declared(type(value[0])):
        return _tuple(_spec(item) for item in value)
    return _spec(value) if is_declared(type(value)) else _literal(value)


def _draws(value: DrawSet) -> _Node:
    if not value.settings:
        return _literal(value.name)
    return _dict({"set": _literal(value.name), **{name: _literal(text) for name, text in value.settings}})


def _entry(entry: Entry) -> _Call:
    if isinstance(entry, At):
        items: list[tuple[str, _Node]] = [("", _literal(duration_text(entry.at_us)))]
    else:
        items = [("", _trigger(entry.trigger))]
    items.append(("", _action(entry.action)))
    later = [("after_us", 0 if isinstance(entry, At) else entry.after_us), ("jitter_us", entry.jitter_us)]
    items += [(f"{name}=", _literal(duration_text(us))) for name, us in later if us]
    return _called(type(entry).__name__, items)


def _trigger(trigger: Trigger) -> _Call:
    given: list[tuple[str, _Node]] = []
    for spec in attrs.fields(type(trigger)):
        value = getattr(trigger, spec.name)
        if isinstance(trigger, Noted) and spec.name == "fields":
            value = tuple(value)
        if spec.default is attrs.NOTHING or value != spec.default:
            given.append((f"{spec.name}=", _literal(value)))
    return _called(type(trigger).__name__, given)


def _action(action: Action) -> _Call:
    given: list[tuple[str, _Node]] = []
    for key in keys_of(type(action)):
        value = getattr(action, key.name)
        if key.required or value != key.default:
            text = f"kemu.duration_us({_literal(duration_text(value))})" if key.duration else _literal(value)
            given.append((f"{key.name}=", text))
    return _called(type(action).__name__, given)
