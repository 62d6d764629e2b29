"""Loads scenarios from TOML files or presets, and adds settings and actions of the command line."""

import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kemu.emulator.past_bugs.registry import PAST_BUGS, scenario_text
from kemu.emulator.plan.action import keys_of
from kemu.emulator.plan.actions import ACTIONS, Heal
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.keys import declared
from kemu.emulator.scenario.presets import preset_names, preset_text
from kemu.emulator.scenario.protocols import KEY as GROUP_PROTOCOL
from kemu.emulator.scenario.protocols import switched
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.kafka_keys import NOT_EMULATED, fields_of
from kemu.emulator.text.tables import Path as KeyPath
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.emulator.text.toml_lines import key_lines, line_of
from kemu.protocol.config import (
    GROUP_PROTOCOLS,
    BrokerConfig,
    ConsumerConfig,
    ControllerConfig,
    ProducerConfig,
    ReplicaConfig,
    StreamsConfig,
)
from kemu.protocol.wire.schema import STRUCTS


def load_scenario(name: str | Path) -> Scenario:
    """Load the scenario of a TOML file (a path, or a name with ".toml"), a preset, or a past bug by its issue.

    Raises:
        ScenarioError: the file or preset does not exist, or has mistakes; lists every mistake.
    """
    given = str(name)
    if isinstance(name, Path) or given.endswith(".toml") or "/" in given:
        path = Path(name)
        try:
            with path.open("rb") as file:
                text = file.read(MOST_TOML + 1).decode("utf-8-sig")
        except OSError as error:
            raise ScenarioError([Problem((), f"cannot be read: {error.strerror}")], given) from None
        except UnicodeDecodeError:
            raise ScenarioError([Problem((), "is not UTF-8 text")], given) from None
        return scenario_from_toml(text, source=given, name=path.stem)
    try:
        text = preset_text(given)
    except (OSError, ValueError):
        issue = given.upper()
        if issue in PAST_BUGS:
            return scenario_from_toml(scenario_text(issue), source=f"{issue}.toml", name=issue)
        names = preset_names()
        hint = nearest(given, names) or "; kemu scenarios lists them"
        raise ScenarioError([Problem((), f'"{given}" is no preset{hint} (a file needs its .toml)')]) from None
    return scenario_from_toml(text, source=f"{given}.toml", name=given)


def scenario_from_toml(text: str, *, source: str = "", name: str = "") -> Scenario:
    """Return the scenario of a TOML text; ``source`` and the line precede each message.

    Raises:
        ScenarioError: lists every mistake.
    """
    try:
        data = _toml(text)
    except ValueError as error:
        raise ScenarioError([Problem((), f"is not TOML: {error}")], source) from None
    try:
        return scenario_from_dict(data, name=name)
    except ScenarioError as error:
        lines = key_lines(text)
        raise ScenarioError(error.problems, source, lambda path: line_of(lines, path)) from None


# --- KEY=VALUE -----------------------------------------------------------------------------------------------------


def _short(cls: type) -> tuple[str, ...]:
    """Return the keys that ``--set`` accepts without the path of a table."""
    return tuple(each.name for each in declared(cls) if each.key.short)


_GROUP_KEYS = _short(GroupSpec)
_TOPIC_KEYS = _short(TopicSpec)
_TOP_KEYS = (*_short(Scenario), "summary", "name")
_REPLICATION_KEYS = _short(ReplicationSpec)
_REPLICATION_TABLES: Mapping[str, type] = {"config": ReplicaConfig, "controller": ControllerConfig}
_KAFKAS_NAME: Mapping[str, tuple[str, str]] = {
    each.key.kafkas[0]: (each.name, each.key.kafkas[1]) for each in declared(ReplicationSpec) if each.key.kafkas[0]
}
"""Kafka's key -> (key of a scenario, unit of Kafka's values)."""
_SECTIONS = tuple(each.name for each in declared(Scenario) if each.name not in _TOP_KEYS)


def with_values(
    scenario: Scenario, given: Iterable[str], option: str = "--set", left_out: list[str] | None = None
) -> Scenario:
    """Return the scenario with changed ``KEY=VALUE`` settings, checked like a file.

    A full key has a path (``groups.g.members``, ``brokers.config.group.max.size``, ``plan.0.for``). A short key is a
    Kafka key of a consumer, broker or producer, a key of every group (``members``, ``assignors``, ``static``) or topic
    (``partitions``, ``rate``), or ``duration``. With replication, keys of ``[brokers.replication]`` and its tables are
    short keys, too (``session``, ``lag``, ``min_isr``, and Kafka's names). ``brokers.replication.factor`` turns
    replication on. A value is TOML or a bare string. Messages name the ``option`` of the command line.

    The short key ``group.protocol`` switches all groups (``scenario.protocols``). ``left_out`` receives a sentence for
    each setting of the former protocol that the switch leaves out.

    Raises:
        ScenarioError: lists every mistake.
    """
    data = {"plan": [], **scenario.to_dict()}
    problems: list[Problem] = []
    changed = False
    if isinstance(data["draws"], str):
        data["draws"] = {"set": data["draws"]}
    for setting in given:
        key, equals, text = setting.partition("=")
        source = f'{option} "{setting}"'
        if not equals or not key.strip():
            problems.append(Problem((), f"{source} must be KEY=VALUE"))
            continue
        changed = True
        if key.strip() == GROUP_PROTOCOL and data["groups"] and (protocol := _value(text.strip())) in GROUP_PROTOCOLS:
            dropped = switched(data["groups"], protocol)
            if left_out is not None:
                left_out += dropped
            continue
        key, unit = _KAFKAS_NAME.get(key.strip(), (key.strip(), ""))
        text = text.strip() + unit
        paths = _paths(key, data)
        if ("brokers", "replication") in [path[:2] for path in paths] and _needs_replication(key, data):
            problems.append(Problem((), f"{source}: {_NO_REPLICATION}"))
            continue
        if not paths:
            why = NOT_EMULATED.get(key, "")
            nowhere = "group" if key in _GROUP_KEYS else "topic" if key in _TOPIC_KEYS else ""
            said = f"is a key of a {nowhere}, and the scenario has none" if nowhere else ""
            said = said or (f"cannot be set: {why}" if why else f"is no key{nearest(key, _all_keys())}")
            problems.append(Problem((), f'{source}: "{key}" {said}'))
        if key == "draws":
            paths = [("draws", "set")]
        for path in paths:
            _put(data, path, _value(text), problems, source)
    if problems:
        raise ScenarioError(problems, "")
    return _checked(data, option) if changed else scenario


def with_actions(scenario: Scenario, given: Iterable[str]) -> Scenario:
    """Return the scenario with more actions in its plan, each written in one line: ``"crash host=c2 for=20s at=40s"``.

    The keys of an action are the keys in a file. The default of ``at`` is 30s; the default of ``group`` is the only
    group.

    Raises:
        ScenarioError: lists every mistake.
    """
    data = {"plan": [], **scenario.to_dict()}
    problems: list[Problem] = []
    for text in given:
        try:
            entry = {"at": "30s", **entry_of_words(shlex.split(text))}
        except ValueError as error:
            problems.append(Problem((), f'--do "{text}": {error}'))
            continue
        set_only_group(entry, scenario)
        data["plan"].append(entry)
    if problems:
        raise ScenarioError(problems)
    return _checked(data, "--do")


def entry_of_words(words: Iterable[str]) -> dict[str, Any]:
    """Return the plain form of an action from its words: ``crash host=c2 for=20s``. A key for text keeps its word, also
    if the word is a number.

    Raises:
        ScenarioError: a word is not KEY=VALUE.
    """
    kind, *rest = [*words] or [""]
    if "=" in kind:
        raise ScenarioError([Problem((), 'must begin with an action, such as "crash host=c2 for=20s"')])
    entry: dict[str, Any] = {"do": kind}
    keys = keys_of(ACTIONS[kind].cls) if kind in ACTIONS else ()
    texts = [each.key for each in keys if each.annotation in (str, str | None)]
    for word in rest:
        key, equals, item = word.partition("=")
        if not equals:
            raise ScenarioError([Problem((), f'"{word}" must be KEY=VALUE')])
        given = _value(item)
        entry[key] = item if key in texts and not isinstance(given, str) else given
    return entry


def with_entries(scenario: Scenario, rows: Iterable[Mapping[str, Any]], source: str) -> Scenario:
    """Return the scenario with more entries in its plan, from their plain form; ``source`` precedes each message.

    Raises:
        ScenarioError: lists every mistake.
    """
    data = scenario.to_dict()
    return _checked({**data, "plan": [*data.get("plan", ()), *rows]}, source)


def set_only_group(entry: dict[str, Any], scenario: Scenario) -> None:
    """Set the missing group of an entry that needs a group, if the scenario has only one group."""
    kind = entry.get("do")
    declared = ACTIONS[kind].cls if isinstance(kind, str) and kind in ACTIONS else Heal
    if any(spec.name == "group" for spec in STRUCTS[declared]) and len(scenario.groups) == 1:
        entry.setdefault("group", next(iter(scenario.groups)))


def _checked(data: Mapping[str, Any], source: str) -> Scenario:
    try:
        return scenario_from_dict(data)
    except ScenarioError as error:
        raise ScenarioError(error.problems, source) from None


def _all_keys() -> list[str]:
    classes = (ConsumerConfig, StreamsConfig, BrokerConfig, ProducerConfig, *_REPLICATION_TABLES.values())
    kafka = [key for cls in classes for key in fields_of(cls)]
    return [*_TOP_KEYS, *_GROUP_KEYS, *_TOPIC_KEYS, *_REPLICATION_KEYS, *_KAFKAS_NAME, *kafka]


def _paths(key: str, data: Mapping[str, Any]) -> list[KeyPath]:
    """Return the paths in the plain form that a key stands for; [] for an unknown key."""
    head, _, rest = key.partition(".")
    if key in _TOP_KEYS:
        return [(key,)]
    if head == "draws" and rest:
        return [("draws", rest)]
    if head in _SECTIONS and rest:
        return [_full(head, rest, data)]
    if key in _GROUP_KEYS:
        return [("groups", group, key) for group in data["groups"]]
    if key in _TOPIC_KEYS:
        return [("topics", topic, key) for topic in data["topics"]]
    if key in fields_of(ConsumerConfig):
        if key == "partition.assignment.strategy":
            return [("groups", group, "assignors") for group in data["groups"]]
        return [("groups", group, "config", key) for group in data["groups"]]
    if key in fields_of(StreamsConfig):
        return [
            ("groups", name, "streams", "config", key) for name, group in data["groups"].items() if "streams" in group
        ]
    if key in fields_of(BrokerConfig):
        return [("brokers", "config", key)]
    if key in fields_of(ProducerConfig):
        return [("producers", "config", key)]
    return _of_replication(key, data)


_NO_REPLICATION = "needs brokers that replicate: --set brokers.replication.factor=3 makes them"


def _needs_replication(key: str, data: Mapping[str, Any]) -> bool:
    """Whether a short key needs replication that the scenario lacks; a full key may turn replication on."""
    return not key.startswith("brokers.") and "replication" not in data.get("brokers", {})


def _of_replication(key: str, data: Mapping[str, Any]) -> list[KeyPath]:
    """Return the paths of a short key of replication: for all brokers, and for topics with a value of their own."""
    paths: list[KeyPath] = []
    if key in _REPLICATION_KEYS:
        paths = [("brokers", "replication", key)]
        paths += [("topics", topic, key) for topic, given in data["topics"].items() if key in given]
    return paths + [
        ("brokers", "replication", table, key) for table, cls in _REPLICATION_TABLES.items() if key in fields_of(cls)
    ]


def _full(head: str, rest: str, data: Mapping[str, Any]) -> KeyPath:
    """Return the path of a full key; names of groups and topics, and Kafka's keys, may contain dots."""
    path: KeyPath = (head,)
    if head in ("groups", "topics"):
        names = sorted(data[head], key=len, reverse=True)
        name = next((name for name in names if rest.startswith(f"{name}.")), rest.partition(".")[0])
        path, rest = (*path, name), rest[len(name) + 1 :]
    if head == "groups" and rest.startswith("streams."):
        path, rest = (*path, "streams"), rest.removeprefix("streams.")
    if rest.startswith("overrides."):
        _, host, rest = (*rest.split(".", 2), "")[:3]
        path = (*path, "overrides", host)
    if head == "brokers" and rest.startswith("replication."):
        path, rest = (head, "replication"), rest.removeprefix("replication.")
    for table in ("config", "controller", *(("streams",) if "overrides" in path else ())):
        if rest.startswith(f"{table}."):
            return (*path, table, rest.removeprefix(f"{table}."))
    if head == "plan":
        return (*path, *(int(part) if re.fullmatch("[0-9]{1,9}", part) else part for part in rest.split(".")))
    return (*path, rest)


def _value(text: str) -> Any:
    """Return a TOML value (``5``, ``true``, ``["a", "b"]``), or the text itself (``20s``)."""
    try:
        return _toml(f"value = {text}")["value"]
    except ValueError:
        return text


MOST_TOML = 10_000_000
"""Longest TOML file, in bytes."""
MOST_DOTS = 1_000
"""Maximum number of dots in a line: the time that tomllib needs grows with the square of the parts of a key."""


def _toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text.

    Raises:
        ValueError: the text is no TOML, or takes too much time or memory to read.
    """
    if len(text) > MOST_TOML:
        raise ValueError(f"it has more than {MOST_TOML:,} characters")
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > MOST_DOTS:
            raise ValueError(f"line {number} has more than {MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it has too many tables and lists inside each other") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # of int()
        raise ValueError("a number has too many digits") from None


def _put(data: dict[str, Any], path: KeyPath, item: Any, problems: list[Problem], source: str) -> None:
    place: Any = data
    for part in path[:-1]:
        if isinstance(place, list):
            if not isinstance(part, int) or part >= len(place):
                problems.append(Problem((), f"{source}: the plan has {len(place)} entries, counted from 0"))
                return
            place = place[part]
        elif part in ("groups", "topics") or part not in place:
            if path[0] in ("groups", "topics") and part == path[1]:
                hint = nearest(str(part), data[str(path[0])])
                problems.append(Problem((), f'{source}: "{part}" is no {str(path[0])[:-1]} here{hint}'))
                return
            place = place.setdefault(part, {})
        else:
            place = place[part]
    if isinstance(place, list):
        problems.append(Problem((), f"{source}: say which key of the entry"))
        return
    place[path[-1]] = item
