"""Reads a plan from its plain form, and checks every key."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import kemu.emulator.facts
import kemu.protocol.messages.control  # triggers name messages, which the import declares
import kemu.protocol.messages.data
import kemu.protocol.messages.group
import kemu.protocol.messages.store
import kemu.protocol.notes.groups
import kemu.protocol.notes.replication
import kemu.protocol.notes.streams
from kemu.emulator.plan.action import Action, ActionKind, Bounds, HostNames, Key, NameOf, OneOf, keys_of
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.plan.entries import At, Entry, FieldValue, Noted, Plan, Receives, Sends, Trigger, When
from kemu.emulator.plan.known import ROLES, Known, role_of
from kemu.emulator.text.tables import REQUIRED, Table, nearest
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve
from kemu.protocol.profiles import PROFILES
from kemu.protocol.wire.schema import MESSAGES, STRUCTS, Kind
from kemu.protocol.wire.values import VALUES


def plan_from_tables(tables: Sequence[Table], known: Known) -> Plan:
    """Return the plan of these tables without wrong entries. The mistakes are added to the tables' list of problems.

    Later entries may name members and topics that the plan itself adds.
    """
    known = evolve(known, declared=tuple(topic for topic, _ in known.topics))
    for table in tables:
        row = _row_of(table)
        known = row.brings(known, table.data) if row is not None else known
    entries = [_read_entry(table, known) for table in tables]
    return tuple(entry for entry in entries if entry is not None)


def _row_of(table: Table) -> ActionKind | None:
    kind = table.data.get("do")
    return ACTIONS.get(kind) if isinstance(kind, str) else None


def _read_entry(table: Table, known: Known) -> Entry | None:
    before = len(table.problems)
    timed, triggered = table.has("at"), table.has("when")
    if timed == triggered:
        table.problem(None, 'needs either "at" (a time) or "when" (a trigger)')
    at_us = table.duration("at", 0)
    trigger = _read_trigger(table.table("when"), known) if triggered else None
    after_us = table.duration("after", 0)
    if timed and table.has("after"):
        table.problem("after", 'goes with "when" only')
    kind = table.one_of("do", ACTIONS, "action", REQUIRED)
    row = ACTIONS.get(kind)
    if row is None:
        return None
    # for "slow", the key "jitter" belongs to the link, so the time of the entry is exact
    has_own_jitter = any(key.key == "jitter" for key in keys_of(row.cls))
    jitter_us = 0 if has_own_jitter else table.duration("jitter", 0)
    if row.replicated is True and not known.replicated:
        table.problem("do", f'"{kind}" needs brokers that replicate: add [brokers.replication]')
    elif row.replicated is False and known.replicated:
        table.problem("do", f'"{kind}" does not go with [brokers.replication]; write {row.instead}')
    action = _read_action(table, row, known)
    table.finish()
    if len(table.problems) > before or action is None:
        return None
    if trigger:
        return When(trigger, action, after_us=after_us, jitter_us=jitter_us)
    return At(at_us=at_us, action=action, jitter_us=jitter_us)


def _read_trigger(table: Table, known: Known) -> Trigger | None:
    kinds = [kind for kind in ("sends", "receives", "noted") if table.has(kind)]
    if len(kinds) != 1:
        table.problem(None, 'needs one of "sends", "receives" (an API) or "noted" (a note)')
        return None
    nth = table.count("nth", 1, least=1)
    if kinds == ["noted"]:
        return _read_noted(table, nth, known)
    api = table.one_of(kinds[0], message_names(), "message", REQUIRED)
    other = "to" if kinds == ["sends"] else "from"
    by, to = (_read_host(table, key, table.text(key, ""), "any", known) for key in ("by", other))
    generation = table.count("generation", least=-1) if table.has("generation") else None
    table.finish()
    made = Sends if kinds == ["sends"] else Receives
    return made(api=api, by=by, to=to, nth=nth, generation=generation)


def _read_noted(table: Table, nth: int, known: Known) -> Trigger | None:
    names = note_names()
    note = table.one_of("noted", names, "note", REQUIRED)
    if note not in names:
        return None
    declared = note_fields(note)
    fields: list[FieldValue] = []
    for key, given in table.data.items():
        if key in ("noted", "nth"):
            continue
        if key not in declared:
            table.problem(key, f"is no field of {note}{nearest(key, declared)}")
        elif declared[key] is ErrorCode and isinstance(given, str):
            fields.append((key, _read_error(table, key).name))
        elif not isinstance(given, str | int | bool):
            table.problem(key, "must be a string, a number, true or false")
        else:
            if key == "group":
                table.known(key, str(given), known.groups, "group")
            fields.append((key, given))
    return Noted(note=note, nth=nth, fields=tuple(fields))


def message_names() -> list[str]:
    """Return the names of messages for triggers and faults: "SyncGroup" for a request, "SyncGroupReply" for a reply."""
    return [spec.cls.__name__ for spec in MESSAGES.values()]


def request_names() -> list[str]:
    """Return Kafka's names of the APIs."""
    return [spec.name for spec in MESSAGES.values() if spec.kind is Kind.REQUEST]


def note_names() -> list[str]:
    """Return the names of notes and facts that a trigger can wait for."""
    places = (
        kemu.protocol.notes.groups.__name__,
        kemu.protocol.notes.replication.__name__,
        kemu.protocol.notes.streams.__name__,
        kemu.emulator.facts.__name__,
    )
    return [name for name, cls in VALUES.items() if cls.__module__ in places]


def note_fields(note: str) -> dict[str, Any]:
    """Return name -> type of the fields of a note."""
    return {spec.name: spec.annotation for spec in STRUCTS[VALUES[note]]}


def _read_action(table: Table, row: ActionKind, known: Known) -> Action | None:
    before = len(table.problems)
    values = {key.name: _read_key(table, key, known) for key in keys_of(row.cls)}
    if len(table.problems) > before:
        return None
    make: Callable[..., Action] = row.cls
    action = make(**values)
    action.check(table, known)
    return action


def _read_key(table: Table, spec: Key, known: Known) -> Any:
    """Return the value of a field, read according to the field's type and the unit in its name."""
    key, default = spec.key, REQUIRED if spec.required else spec.default
    if isinstance(spec.accepts, HostNames):
        kind = spec.accepts.kind
        if spec.annotation is str:
            return _read_host(table, key, table.text(key, default), kind, known)
        return tuple(_read_host(table, key, name, kind, known) for name in table.words(key, default))
    if isinstance(spec.accepts, OneOf):
        return table.one_of(key, spec.accepts.words, f'value of "{key}"', default)
    if isinstance(spec.accepts, NameOf):
        return table.one_of(key, _names(spec.accepts, known), spec.accepts.what, default)
    if spec.duration:
        return table.duration(key, default, least_us=1 if spec.required else 0)
    if spec.rate:
        return table.rate(key, default)
    if spec.annotation is int:
        bounds = spec.accepts or Bounds()
        return table.count(key, default, least=bounds.least, most=bounds.most)
    if spec.annotation is bool:
        return table.flag(key, bool(default))
    if spec.annotation is ErrorCode:
        return _read_error(table, key)
    if spec.annotation == tuple[str, ...]:
        return table.words(key, default)
    assert spec.annotation is str, f"no way to read {spec}"
    return table.text(key, default)


def _names(accepts: NameOf, known: Known) -> Iterable[str]:
    """Return the known names of a kind."""
    what = accepts.what
    if what in NAMES_OF_ALL:
        return NAMES_OF_ALL[what]()
    topics = (*known.topics, *known.internal) if accepts.internal else known.topics
    return {"group": known.groups, "topic": tuple(name for name, _ in topics)}[what]


NAMES_OF_ALL: Mapping[str, Callable[[], Sequence[str]]] = {
    "profile": lambda: tuple(PROFILES),
    "API": request_names,
    "message": message_names,
}
"""Kinds of names that are the same in every scenario."""


def _read_error(table: Table, key: str) -> ErrorCode:
    names = [code.name for code in ErrorCode if code is not ErrorCode.NONE]
    given = table.one_of(key, names, "error code", REQUIRED)
    return ErrorCode[given] if given in names else ErrorCode.NONE


def _read_host(table: Table, key: str, given: str, kind: str, known: Known) -> str:
    if not given:
        if key in ("host", "a", "b") and key in table.data:
            table.problem(key, "must name a host")
        return given
    role = role_of(given)
    if role is not None:
        is_member = role[0] == "leader"
        if kind != "any" and is_member is not (kind == "member"):
            table.problem(key, f'must be a {kind}; "{given}" is a {"member" if is_member else "broker"}')
        if role[0] == "partition leader":
            names = [f"{topic}-{number}" for topic, partitions in known.topics for number in range(partitions)]
            table.known(key, role[1], names if known.replicated else (), "replicated partition")
        else:
            table.known(key, role[1], known.groups, "group")
        return given
    roles = [f"{role} of {group}" for role in ROLES for group in known.groups]
    table.known(key, given, (*known.hosts(kind), *roles), "host" if kind == "any" else kind)
    return given
