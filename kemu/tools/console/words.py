"""The state of a live run, its events and the answers to orders as lines for people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kemu.emulator.control.controls import STORY
from kemu.emulator.text.tables import printable
from kemu.tools.report.story import clock_text

Line: TypeAlias = tuple[tuple[str, str], ...]
"""Parts of a line: (style, text). The styles are "", "title", "good", "bad" and "weak"."""
BAD, GOOD, TITLE, WEAK = "bad", "good", "title", "weak"
_CALM = ("Stable", "Empty")
_GAP = "  "
LONGEST_NAME = 40
"""Longest shown name, in characters."""


def plain_text(line: Line) -> str:
    """A line without its styles."""
    return "".join(text for _, text in line).rstrip()


def event_line(row: Mapping[str, Any]) -> Line:
    """A line of the story, a fact, or the number of events that the reader missed."""
    if "missed" in row:
        return ((BAD, f"{row['missed']} events are missing: the terminal was too slow"),)
    if STORY in row:
        return (("", printable(row[STORY])),)
    fact = row.get("fact", {})
    said = " ".join(f"{key}={_short(value)}" for key, value in fact.items() if key != "type")
    return (
        (WEAK, f"{clock_text(row['at_us'])}{_GAP}"),
        ("", printable(f"{row['actor']} {fact.get('type', '')} {said}")),
    )


def answer_lines(row: Mapping[str, Any]) -> list[Line]:
    """The answer to an order."""
    match row:
        case {"error": error, "seen": seen}:
            return [((BAD, f"in vain: {printable(error)}"),), (("", _GAP + printable(seen)),)]
        case {"error": error}:
            return [((BAD, f"refused: {printable(error)}"),)]
        case {"done": done, "hosts": hosts}:
            return [((GOOD, f"done: {printable(done)}" + (f": {', '.join(hosts)}" if hosts else "")),)]
        case {"holds": holds}:
            return [((GOOD, f"holds: {printable(str(row.get('seen', holds)))}"),)]
        case {"partition": name, "leader": leader}:
            isr, replicas = " ".join(row["isr"]), " ".join(row["replicas"])
            said = f"epoch {row['epoch']}, ISR {isr}, replicas {replicas}, offsets {row['start']} to {row['end']}"
            return [(("", f"{name}: leader {leader or 'none'}, {said}"),)]
        case _:
            return [(("", printable(str(row))),)]


def state_lines(state: Mapping[str, Any]) -> list[Line]:
    """Brokers, groups with their members, partitions, and real clients."""
    return [
        _brokers(state["brokers"]),
        *[line for name, group in state["groups"].items() for line in _group(name, group)],
        *[line for name, topic in state["topics"].items() for line in _topic(name, topic, state["groups"])],
        *[_client(name, client) for name, client in state["clients"].items() if client["life"]],
    ]


def title_line(state: Mapping[str, Any], where: str) -> Line:
    """The name of the scenario, its time and the address."""
    return (
        (TITLE, printable(state["scenario"])),
        ("", f"{_GAP}{clock_text(state['at_us'])}{_GAP}"),
        (WEAK, printable(where)),
    )


def _brokers(brokers: Mapping[str, Any]) -> Line:
    parts = [(TITLE, "brokers")]
    for name, broker in brokers.items():
        state = broker["state"]
        starts = f" (start {broker['life']})" if broker["life"] > 1 else ""
        parts.append((GOOD if state == "up" else BAD, f"{_GAP}{name} {state}{starts}"))
    return tuple(parts)


def _group(name: str, group: Mapping[str, Any]) -> list[Line]:
    state, members = group["state"], group["members"]
    said = f"generation {group['generation']}, coordinator {group['coordinator'] or 'none'}, {len(members)} members"
    lines: list[Line] = [
        (
            (TITLE, f"group {_short(name)}"),
            (GOOD if state in _CALM else BAD, f"{_GAP}{state}"),
            ("", f"{_GAP}{said}, lag {group['lag']}"),
        )
    ]
    rows = [
        (
            _short(member_id),
            _short(member["client"] + (f" ({member['instance_id']})" if member["instance_id"] else "")),
            " ".join(member["assigned"]) or "-",
        )
        for member_id, member in members.items()
    ]
    return lines + _table(rows)


def _topic(name: str, topic: Mapping[str, Any], groups: Mapping[str, Any]) -> list[Line]:
    offline = sum(1 for each in topic.values() if each["leader"] is None)
    short = sum(1 for each in topic.values() if len(each["isr"]) < len(each["replicas"]))
    parts = [(TITLE, f"topic {_short(name)}"), ("", f"{_GAP}{len(topic)} partitions")]
    if offline:
        parts.append((BAD, f", {offline} without a leader"))
    if short:
        parts.append((BAD, f", {short} with replicas outside of the ISR"))
    rows = [_partition(at, each, groups) for at, each in topic.items()]
    bad = [BAD if each["leader"] is None or len(each["isr"]) < len(each["replicas"]) else "" for each in topic.values()]
    return [tuple(parts), *_table(rows, bad)]


def _partition(name: str, partition: Mapping[str, Any], groups: Mapping[str, Any]) -> Sequence[str]:
    lags = [
        f"{_short(group)} lag {each['offsets'][name]['lag']}"
        for group, each in groups.items()
        if name in each["offsets"]
    ]
    return (
        _short(name),
        f"leader {partition['leader'] or 'none'}",
        f"epoch {partition['epoch']}",
        f"ISR {' '.join(partition['isr']) or 'none'}",
        f"end {partition['end']}",
        ", ".join(lags),
    )


def _client(name: str, client: Mapping[str, Any]) -> Line:
    connections = client["connections"]
    to = " ".join(each["broker"] for each in connections if each["broker"])
    said = f"{_GAP}{len(connections)} connections" + (f": {to}" if to else "")
    state = client["state"]
    return ((TITLE, f"client {_short(name)}"), (GOOD if state == "up" else BAD, f"{_GAP}{state}"), ("", said))


def _table(rows: Sequence[Sequence[str]], styles: Iterable[str] = ()) -> list[Line]:
    """Rows with columns of equal width, indented."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    wanted = [*styles] or [""] * len(rows)
    return [
        ((style, _GAP + _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()),)
        for row, style in zip(rows, wanted, strict=True)
    ]


def _short(value: object) -> str:
    """A value without control characters, and not longer than ``LONGEST_NAME``."""
    text = printable(str(value)).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
