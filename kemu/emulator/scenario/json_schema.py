"""The JSON Schema (draft 2020-12) of a scenario file, from the declarations of its keys and of the plan's actions.

Editors complete and check keys with the schema. Only the reader of scenarios checks combinations of keys (such as
conflicting settings), the length of durations, and names of users' assignors.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from kemu.emulator.plan.action import Bounds, Key, NameOf, OneOf, keys_of
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.scenario.keys import Declared, declared
from kemu.emulator.scenario.kinds import Schema, SettingsKey
from kemu.emulator.scenario.plan_reading import NAMES_OF_ALL, message_names, note_fields, note_names
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.units import DURATION, RATE
from kemu.protocol.errors import ErrorCode

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_TIME: Schema = {"type": "string", "pattern": DURATION}
_WORDS: Schema = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def scenario_schema() -> Schema:
    """Return the schema of a scenario file."""
    whole = _table(Scenario)
    whole["required"] = ["topics"]  # the default name is the file's name; a scenario needs at least one topic
    whole["properties"]["topics"]["minProperties"] = 1
    below = {cls.__name__: _table(cls) for cls in dict.fromkeys(_below(Scenario))}
    return {"$schema": DIALECT, "title": "A scenario of kemu", **whole, "$defs": {**below, **_plan()}}


def _below(cls: type) -> Iterator[type]:
    for each in declared(cls):
        inner = each.kind.below()
        if inner is not None:
            yield inner
            yield from _below(inner)


def _table(cls: type) -> Schema:
    """Return the schema of an object with exactly the keys of a class."""
    keys = declared(cls)
    return {
        "type": "object",
        "properties": {each.name: _property(each) for each in keys},
        "required": [each.name for each in keys if each.required],
        "additionalProperties": False,
    }


def _property(each: Declared) -> Schema:
    said: Schema = {**each.kind.schema(each.key.limits), "description": each.key.doc}
    if each.required or each.key.shown or each.kind.below() is not None or isinstance(each.kind, SettingsKey):
        return said
    return {**said, "default": each.kind.plain(each.default)}


def _plan() -> dict[str, Schema]:
    when: Schema = {
        "anyOf": [_message("sends", "to"), _message("receives", "from"), _noted()],
        "description": "the step that triggers the action",
    }
    of_all: dict[str, Schema] = {
        "do": {"enum": list(ACTIONS), "description": "what is done"},
        "at": {**_TIME, "description": "virtual time of the action"},
        "when": when,
        "jitter": {**_TIME, "description": "largest random delay of the action"},
        "after": {**_TIME, "description": "delay after the trigger"},
    }
    actions = {f"do-{kind}": _action(kind, of_all) for kind in ACTIONS}
    entry: Schema = {
        "type": "object",
        "properties": of_all,
        "required": ["do"],
        "oneOf": [{"required": ["at"]}, {"required": ["when"]}],
        "dependentRequired": {"after": ["when"]},
        "allOf": [
            {
                "if": {"properties": {"do": {"const": kind}}, "required": ["do"]},
                "then": {"$ref": f"#/$defs/do-{kind}"},
            }
            for kind in ACTIONS
        ],
    }
    return {"Entry": entry, **actions}


def _action(kind: str, of_all: Iterable[str]) -> Schema:
    row = ACTIONS[kind]
    keys = keys_of(row.cls)
    return {
        "description": row.summary,
        "properties": {
            **dict.fromkeys(of_all, True),
            **{key.key: _field(key) for key in keys},
        },
        # Only --do adds a missing group to an action; a file must name the group.
        "required": [key.key for key in keys if key.required],
        "additionalProperties": False,
    }


def _field(key: Key) -> Schema:
    default: dict[str, Any] = {}
    if not key.required and isinstance(key.default, str | int) and not key.duration and not key.rate:
        default = {"default": key.default}
    if key.duration:
        return _TIME
    if key.rate:
        return {"anyOf": [{"type": "string", "pattern": RATE}, {"type": "integer", "minimum": 0}]}
    if key.annotation is ErrorCode:
        return {"enum": [code.name for code in ErrorCode if code is not ErrorCode.NONE]}
    if isinstance(key.accepts, OneOf):
        return {"enum": list(key.accepts.words), **default}
    if isinstance(key.accepts, NameOf) and key.accepts.what in NAMES_OF_ALL:
        return {"enum": [*NAMES_OF_ALL[key.accepts.what]()], **default}
    if key.annotation is bool:
        return {"type": "boolean", **default}
    if key.annotation is int:
        bounds = key.accepts if isinstance(key.accepts, Bounds) else Bounds()
        most = {} if bounds.most is None else {"maximum": bounds.most}
        return {"type": "integer", "minimum": bounds.least, **most, **default}
    return _WORDS if key.annotation == tuple[str, ...] else {"type": "string", **default}


def _message(kind: str, other: str) -> Schema:
    text: Schema = {"type": "string"}
    return {
        "type": "object",
        "properties": {
            kind: {"enum": message_names()},
            "by": text,
            other: text,
            "nth": {"type": "integer", "minimum": 1},
            "generation": {"type": "integer", "minimum": -1},
        },
        "required": [kind],
        "additionalProperties": False,
    }


def _noted() -> Schema:
    """Return the schema of a note with any of its fields."""
    its_own: list[Schema] = [
        {
            "if": {"properties": {"noted": {"const": name}}, "required": ["noted"]},
            "then": {"propertyNames": {"enum": ["noted", "nth", *note_fields(name)]}},
        }
        for name in note_names()
    ]
    return {
        "type": "object",
        "properties": {"noted": {"enum": note_names()}, "nth": {"type": "integer", "minimum": 1}},
        "required": ["noted"],
        "additionalProperties": {"type": ["string", "integer", "boolean"]},
        "allOf": its_own,
    }
