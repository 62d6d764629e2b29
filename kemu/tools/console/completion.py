"""Completions of an order at the console's prompt, from the declared actions and the names of the run's state."""

from collections.abc import Mapping, Sequence
from typing import Any

from kemu.emulator.control.conditions import FIELDS, GROUP_STATES, NONE
from kemu.emulator.control.controls import STORY, TRIGGERS, VERBS
from kemu.emulator.plan.action import HostNames, Key, NameOf, OneOf, keys_of
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.scenario.plan_reading import NAMES_OF_ALL, note_names
from kemu.protocol.errors import ErrorCode
from kemu.tools.console.session import QUIT

DURATIONS = ("1s", "5s", "10s", "30s")
_OPERATORS = ("=", "!=", "<=", ">=", "<", ">")


def completions(text: str, state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The words that may continue the last word of a text: (word, word as shown).

    Args:
        text: the line up to the cursor.
        state: the last state of the run; empty without a state.
    """
    *before, last = text.split(" ")
    words = [word for word in before if word]
    verb = words[0] if words else ""
    if not words:
        found = [*(each for each in VERBS if each != "do"), *QUIT, *ACTIONS]
    elif verb == "help":
        found = [*ACTIONS]
    elif verb == "leader":
        found = partitions(state) if len(words) == 1 else []
    elif verb == "events":
        found = [STORY, *note_names()]
    elif verb == "wait":
        return _whole(_of_wait(words[1:], last, state), last)
    elif verb in ACTIONS:
        return _of_action(verb, words[1:], last, state)
    else:
        found = []
    return _whole(found, last)


def _whole(found: Sequence[str], last: str) -> list[tuple[str, str]]:
    return [(each, each) for each in dict.fromkeys(found) if each.startswith(last) and each != last]


def _of_action(action: str, words: Sequence[str], last: str, state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The keys of an action that are not given, or the values of a key."""
    keys = {each.key: each for each in keys_of(ACTIONS[action].cls)}
    name, sign, value = last.partition("=")
    if not sign:
        given = {word.partition("=")[0] for word in words}
        return [(f"{key}=", f"{key}=") for key in keys if key not in given and key.startswith(name)]
    if name not in keys:
        return []
    listed, comma, part = value.rpartition(",") if keys[name].annotation is not str else ("", "", value)
    found = values(keys[name], state)
    return [(f"{name}={listed}{comma}{each}", each) for each in found if each.startswith(part) and each != part]


def values(key: Key, state: Mapping[str, Any]) -> list[str]:
    """The known values of a key."""
    match key.accepts:
        case HostNames(kind=kind):
            return hosts(state, kind)
        case OneOf(words=words):
            return [word for word in words if word]
        case NameOf(what="group"):
            return [*state.get("groups", ())]
        case NameOf(what="topic"):
            return [*state.get("topics", ())]
        case NameOf(what=what):
            return [*NAMES_OF_ALL[what]()]
        case _ if key.annotation is ErrorCode:
            return [each.name for each in ErrorCode if each is not ErrorCode.NONE]
        case _ if key.annotation is bool:
            return ["true", "false"]
        case _:
            return [*DURATIONS] if key.duration else []


def hosts(state: Mapping[str, Any], kind: str) -> list[str]:
    """The hosts of a kind, and for other kinds than members the roles that stand for a broker."""
    brokers, groups = [*state.get("brokers", ())], [*state.get("groups", ())]
    others = [each for each in state.get("hosts", ()) if each not in brokers]
    of_groups = {"broker": ["coordinator of"], "member": ["leader of"]}.get(kind, ["coordinator of", "leader of"])
    roles = [f"'{role} {group}'" for role in of_groups for group in groups]
    return {"broker": brokers, "member": others}.get(kind, brokers + others) + roles


def partitions(state: Mapping[str, Any]) -> list[str]:
    """The names of all partitions."""
    return [name for topic in state.get("topics", {}).values() for name in topic]


def _of_wait(words: Sequence[str], last: str, state: Mapping[str, Any]) -> list[str]:
    if not words:
        return [*FIELDS, "lag", "leader", "isr", *TRIGGERS]
    if words[-1] == "within":
        return [*DURATIONS]
    if "within" in words:
        return []
    subject, *rest = words
    names = {
        "group": [*state.get("groups", ())],
        "lag": [*state.get("groups", ())],
        "partition": partitions(state),
        "leader": partitions(state),
        "isr": partitions(state),
        "broker": [*state.get("brokers", ())],
        "host": [*state.get("hosts", ())],
        "client": [*state.get("clients", ())],
        "noted": [*note_names()],
    }.get(subject, [*NAMES_OF_ALL["message"]()])
    if not rest:
        return names
    if subject == "leader" and len(rest) == 1:
        return [*state.get("brokers", ()), "within"]
    if subject not in FIELDS:
        return ["within"]
    states = {"group": GROUP_STATES, "partition": (), "client": ()}.get(subject, ("up", "paused", "down"))
    field, sign = next(((last[: last.index(each)], each) for each in _OPERATORS if each in last), ("", ""))
    if sign:
        known = {"leader": state.get("brokers", ()), "coordinator": state.get("brokers", ()), "state": states}
        return [f"{field}{sign}{each}" for each in (*known.get(field, ()), *([NONE] if field in known else []))]
    return [*states, *[f"{each}=" for each in FIELDS[subject]], "within"]
