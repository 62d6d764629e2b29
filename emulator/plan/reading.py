"""A plan out of its plain form: every key checked, every mistake told at once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

import kemu.emulator.facts
import kemu.protocol.messages.control  # importing the messages declares them: triggers name them
import kemu.protocol.messages.data
import kemu.protocol.messages.group
import kemu.protocol.messages.store
import kemu.protocol.notes.groups
import kemu.protocol.notes.replication
from kemu.actors.controller.topics import is_legal_name
from kemu.emulator.plan.actions import (
    ACTIONS,
    CHOICES,
    ROLES,
    Action,
    AddMembers,
    ClockDrift,
    CloseHost,
    Crash,
    Disconnect,
    GrowTopic,
    Lossy,
    Restart,
    RollingUpgrade,
    Split,
    StartHost,
    role_of,
)
from kemu.emulator.plan.entries import At, Entry, FieldValue, Known, Noted, Plan, Receives, Sends, Trigger, When, key_of
from kemu.emulator.plan.store_actions import CreateTopic, DeleteTopic, ElectPreferredLeaders
from kemu.emulator.scenario.members import settings_of
from kemu.emulator.text.kafka_keys import check_assignors
from kemu.emulator.text.tables import REQUIRED, Problem, ScenarioError, Table, nearest
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import OFFSETS_TOPIC, STORE, consumer_host, producer_host
from kemu.protocol.profiles import PROFILES
from kemu.protocol.wire.schema import MESSAGES, STRUCTS, Kind
from kemu.protocol.wire.schema import Field as SchemaField
from kemu.protocol.wire.values import VALUES


def plan_from_dicts(rows: Sequence[Mapping[str, Any]], known: Known) -> Plan:
    """The plan of its plain form.

    Raises:
        ScenarioError: everything that is wrong with it.
    """
    problems: list[Problem] = []
    plan = plan_from_tables([Table(row, ("plan", index), problems) for index, row in enumerate(rows)], known)
    if problems:
        raise ScenarioError(problems)
    return plan


def plan_from_tables(tables: Sequence[Table], known: Known) -> Plan:
    """The plan of these tables; what is wrong goes to the tables' list of problems, and such entries are left out.

    Members that the plan itself adds, and topics that it creates with their producers, count as known.
    """
    known = _with_created_topics(tables, _with_added_members(tables, known))
    entries = [_read_entry(table, known) for table in tables]
    return tuple(entry for entry in entries if entry is not None)


def _with_added_members(tables: Sequence[Table], known: Known) -> Known:
    counts = [table.data.get("count", 1) for table in tables if table.data.get("do") == "add-members"]
    added = sum(count for count in counts if type(count) is int and 0 < count <= 100_000)
    there = len(known.members)
    return attrs.evolve(
        known, members=(*known.members, *(consumer_host(there + number) for number in range(1, added + 1)))
    )


def topics_created(tables: Sequence[Table]) -> tuple[str, ...]:
    """The topics that a plan creates, once for each time."""
    return _topics_of(tables, "create-topic")


def _topics_of(tables: Sequence[Table], kind: str) -> tuple[str, ...]:
    return tuple(str(table.data.get("topic", "")) for table in tables if table.data.get("do") == kind)


def _with_created_topics(tables: Sequence[Table], known: Known) -> Known:
    created, deleted = topics_created(tables), _topics_of(tables, "delete-topic")
    partitions = dict(known.topics)
    new = [topic for topic in dict.fromkeys(created) if topic not in partitions]
    for table in tables:
        count = table.data.get("partitions", 1)
        if table.data.get("do") == "create-topic" and type(count) is int:
            topic = str(table.data.get("topic", ""))
            partitions[topic] = max(partitions.get(topic, 0), count)
    producers = (producer_host(len(known.topics) + number) for number in range(1, len(new) + 1))
    return attrs.evolve(
        known,
        topics=tuple(partitions.items()),
        producers=(*known.producers, *producers),
        created=created,
        deleted=deleted,
        declared=tuple(topic for topic, _ in known.topics),
    )


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
    if kind not in ACTIONS:
        return None
    if ACTIONS[kind].replicated is True and not known.replicated:
        table.problem("do", f'"{kind}" needs brokers that replicate: add [brokers.replication]')
    elif ACTIONS[kind].replicated is False and known.replicated:
        table.problem("do", f'"{kind}" does not go with [brokers.replication]; write {ACTIONS[kind].instead}')
    action = _read_action(table, kind, known)
    table.finish()
    if len(table.problems) > before or action is None:
        return None
    return When(trigger, action, after_us=after_us) if trigger else At(at_us, action)


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
    declared = {spec.name: spec.annotation for spec in STRUCTS[VALUES[note]]}
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
    """What triggers and faults call messages: "SyncGroup" a request, "SyncGroupReply" its answer."""
    return [spec.cls.__name__ for spec in MESSAGES.values()]


def request_names() -> list[str]:
    """The APIs by Kafka's names."""
    return [spec.name for spec in MESSAGES.values() if spec.kind is Kind.REQUEST]


def note_names() -> list[str]:
    """What a trigger can wait for: the machines' notes and the world's facts."""
    places = (
        kemu.protocol.notes.groups.__name__,
        kemu.protocol.notes.replication.__name__,
        kemu.emulator.facts.__name__,
    )
    return [name for name, cls in VALUES.items() if cls.__module__ in places]


def _read_action(table: Table, kind: str, known: Known) -> Action | None:
    cls = ACTIONS[kind].cls
    hosts = dict(ACTIONS[kind].hosts)
    values: dict[str, Any] = {}
    before = len(table.problems)
    for spec in STRUCTS[cls]:
        values[spec.name] = _read_field(table, cls, spec, hosts.get(spec.name), known)
    if len(table.problems) > before:
        return None
    action: Action = cls(**values)
    _check_action(table, action, known)
    return action


def _read_field(table: Table, cls: type, spec: SchemaField, host: str | None, known: Known) -> Any:
    key = key_of(spec)
    default = REQUIRED if spec.default is attrs.NOTHING else spec.default
    if host is not None and spec.annotation is str:
        return _read_host(table, key, table.text(key, default), host, known)
    if host is not None:
        return tuple(_read_host(table, key, name, host, known) for name in table.words(key, default))
    if spec.annotation == tuple[str, ...]:
        return table.words(key, default)
    if spec.annotation is ErrorCode:
        return _read_error(table, key)
    if spec.name.endswith("_us"):
        return table.duration(key, default, least_us=1 if default is REQUIRED else 0)
    if spec.name == "records_per_s":
        return table.rate(key, default)
    if spec.annotation is bool:
        return table.flag(key, bool(default))
    if spec.annotation is int:
        least = -1_000_000 if cls is ClockDrift else 0 if cls is Lossy else 1
        return table.count(key, default, least=least, most=1_000 if cls is Lossy else None)
    return _read_word(table, cls, spec, key, default, known)


def _read_word(table: Table, cls: type, spec: SchemaField, key: str, default: Any, known: Known) -> str:
    choices: Iterable[str]
    if (cls, spec.name) in CHOICES:
        choices, what = CHOICES[cls, spec.name], f'value of "{key}"'
    elif spec.name == "group":
        choices, what = known.groups, "group"
    elif spec.name == "topic" and cls is not CreateTopic:
        choices, what = (name for name, _ in known.topics), "topic"
    elif spec.name == "profile":
        choices, what = PROFILES, "profile"
    elif spec.name == "api":
        choices, what = request_names(), "API"
    else:
        return table.text(key, default)
    return table.one_of(key, choices, what, default)


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
        if kind == "broker" and role[0] == "leader":
            table.problem(key, f'must be a broker; "{given}" is a member')
        if role[0] == "partition leader":
            names = [f"{topic}-{number}" for topic, partitions in known.topics for number in range(partitions)]
            table.known(key, role[1], names if known.replicated else (), "replicated partition")
        else:
            table.known(key, role[1], known.groups, "group")
        return given
    roles = [f"{role} of {group}" for role in ROLES for group in known.groups]
    table.known(key, given, (*known.hosts(kind), *roles), "host" if kind == "any" else kind)
    return given


def _check_action(table: Table, action: Action, known: Known) -> None:
    """What no single field shows."""
    match action:
        case Split(side=()):
            table.problem("side", "must name at least one host")
        case Split(side=side, other=other) if set(side) & set(other):
            table.problem("other", f"has hosts of the other side too: {', '.join(sorted(set(side) & set(other)))}")
        case Disconnect(a=a, b=b) if a == b:
            table.problem("b", "must be another host")
        case GrowTopic(topic=topic, partitions=partitions) if partitions <= dict(known.topics).get(topic, 0):
            table.problem("partitions", f"must be more than {topic} has ({dict(known.topics)[topic]})")
        case RollingUpgrade():
            _check_upgrade(table, action)
        case Crash(host=host) | Restart(host=host) | StartHost(host=host) | CloseHost(host=host) if host == STORE:
            table.problem("host", f'"{STORE}" is never down; "pause" and "isolate" make it silent')
        case CreateTopic():
            _check_creation(table, action, known)
        case DeleteTopic(topic=topic) if topic in known.subscribed:
            table.problem("topic", f'"{topic}" has groups that subscribe to it; delete one that no group reads')
        case ElectPreferredLeaders(topics=topics):
            for topic in topics:
                table.known("topics", topic, (*(name for name, _ in known.topics), OFFSETS_TOPIC), "topic")
        case AddMembers(count=count) if count > 100_000:
            table.problem("count", "must be at most 100000")
        case _:
            pass


def _check_creation(table: Table, action: CreateTopic, known: Known) -> None:
    topic = action.topic
    if not is_legal_name(topic):
        table.problem("topic", "must be 1 to 249 letters, digits, dots, underscores or hyphens")
    elif topic == OFFSETS_TOPIC:
        table.problem("topic", "is there from the start")
    elif (topic in known.declared or known.created.count(topic) > 1) and topic not in known.deleted:
        table.problem("topic", f'"{topic}" is there already; "delete-topic" must come first')
    if action.replication_factor > len(known.brokers):
        table.problem("replication_factor", f"must not be more than there are brokers ({len(known.brokers)})")


def _check_upgrade(table: Table, action: RollingUpgrade) -> None:
    if not (action.profile or action.assignors or action.settings):
        table.problem("settings", 'is missing; it, "profile" or "assignors" must say what changes')
    if action.assignors:
        check_assignors(table, "assignors", action.assignors)
    try:
        settings_of(action.settings)
    except ScenarioError as error:
        for problem in error.problems:
            key = ".".join(str(part) for part in problem.path)
            table.problem("settings", f"{key} {problem.text}".strip())
