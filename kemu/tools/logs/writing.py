"""Events become lines of logs, in the wording of a release: the tables of the dialects, used the other way round.

Only events are written for which the release has a wording, and of which all values of the wording are known.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import attrs

from kemu.protocol.names import OFFSETS_TOPIC, broker_host, offsets_partition_of
from kemu.tools.logs.dialects import DIALECTS
from kemu.tools.logs.events import Event
from kemu.tools.logs.wordings.releases import parse
from kemu.tools.logs.wordings.wordings import TOKEN, Wording

_JAVA_COORDINATOR = (4, 0)
"""The first release whose brokers have the Java group coordinator by default."""
_REQUESTS_JOIN = (3, 0)
"""The first release whose clients log a REBALANCE_IN_PROGRESS as the request to rejoin."""
_REBALANCING = "REBALANCE_IN_PROGRESS"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REWORDED: Sequence[tuple[tuple[int, ...], str, str]] = (
    ((3, 2), r"; client reason: .*", ""),
    ((3, 0), r"^(Removing|Leader)\b", "lower"),
    ((2, 5), r"with group instance id ", "with group instanceid "),
    ((2, 3), r" with group instanceid \S+", ""),
)
"""Release since which coordinators write reasons as kemu does; pattern and text of the releases before.

Source: ``GroupCoordinator.scala`` 2.2.2, 2.3.1, 2.8.2, 3.1.2; KIP-800.
"""
_OTHERS: Mapping[str, str] = {
    "in state ": "<state>",
    "protocol=": "'<assignor>'",
    "clientHost=": "/127.0.0.1",
    "isDisconnected: ": "false",
}
"""Text before a value that the wording gives to no field -> the value."""


def log_lines(events: Iterable[Event], release: str) -> Iterator[str]:
    """The lines that brokers and Java clients of a release log for events of a trace, in the layout of Kafka's log4j.

    Args:
        events: events of ``events_of_trace``.
        release: a release of Kafka, such as "3.4".
    """
    number = parse(release)
    coordinator = "broker-java-classic" if number >= _JAVA_COORDINATOR else "broker-scala"
    for event in events:
        if event.kind == "heartbeat-refused" and event.error == _REBALANCING and number >= _REQUESTS_JOIN:
            event = attrs.evolve(event, kind="rejoin-requested", reason="group is already rebalancing")
        stated = _stated(event, number)
        for row in DIALECTS[coordinator if event.broker is not None else "java-consumer"].rows:
            if row.kind == event.kind and _holds(row, number) and _agrees(row, stated):
                text = _text(row, stated)
                if text is not None:
                    yield _line(event, text, coordinator)
                    break


def logging_host(event: Event) -> str:
    """The host that logs an event of a trace: a broker, or the host of a member."""
    return event.client or "" if event.broker is None else broker_host(event.broker)


def _holds(row: Wording, release: tuple[int, ...]) -> bool:
    since, _, until = row.releases.partition("..")
    return (not since or parse(since) <= release) and (not until or parse(until) >= release)


def _agrees(row: Wording, stated: Mapping[str, str]) -> bool:
    """Whether the row's constants are those of the event."""
    constants = {key: value for key, value in row.fields.items() if key in ("error", "state", "reason")}
    return all(stated.get(key) == value for key, value in constants.items())


def _stated(event: Event, release: tuple[int, ...]) -> dict[str, str]:
    """The values of an event as logs write them."""
    values = {name: _written(value) for name, value in attrs.asdict(event, recurse=False).items() if value is not None}
    group = event.group or ""
    values["offsets_partition"] = f"{OFFSETS_TOPIC}-{offsets_partition_of(group)}"
    if event.broker is None:
        values.setdefault("instance", "Optional.empty")
        values["assignor"] = event.assignor or "range"
        number = (event.node or "").removeprefix("b")
        if number.isdigit():
            values["node"] = f"{event.node}:9092 (id: {2**31 - 1 - int(number)} rack: null)"
    elif event.kind == "member-leaves":
        values.setdefault("reason", "not provided")
        if release < _JAVA_COORDINATOR:
            values["instance"] = f"Some({event.instance})" if event.instance else "None"
    if event.kind == "rebalance-begins":
        values["state"] = "PreparingRebalance"
        values["reason"] = _reworded(values.get("reason", ""), release)
        if not values["reason"]:
            del values["reason"]
    return values


def _reworded(reason: str, release: tuple[int, ...]) -> str:
    for since, pattern, text in _REWORDED:
        if release < since:
            reason = re.sub(pattern, (lambda match: match[0].lower()) if text == "lower" else text, reason)
    return reason


def _written(value: object) -> str:
    if isinstance(value, Mapping):
        parts = [f"{member}=Assignment(partitions=[{_written(names)}])" for member, names in value.items()]
        return f"{{{', '.join(parts)}}}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _text(row: Wording, stated: Mapping[str, str]) -> str | None:
    """The wording with its values; None if a value is unknown."""
    tokens = TOKEN.findall(row.text.replace("…", ""))
    text, at = _sequence(tokens, 0, stated, "")
    assert at == len(tokens)
    return text


def _sequence(
    tokens: Sequence[tuple[str, ...]], at: int, stated: Mapping[str, str], before: str
) -> tuple[str | None, int]:
    """The text up to the next ``|`` or ``}`` of this level, or None, and the place of this sign."""
    text: str | None = ""
    while at < len(tokens) and tokens[at][3] not in ("|", "}"):
        escaped, field, kind, sign, space, literal = tokens[at]
        at += 1
        if sign == "{":
            chosen, at = _alternatives(tokens, at, stated, before + (text or ""))
            text = None if text is None or chosen is None else text + chosen
        elif text is None:
            continue
        elif field:
            value = _value(field, stated, before + text)
            gap = " " if value and r"\n" in kind and text[-1:] not in " [" else ""
            text = None if value is None else text + gap + value
        else:
            text += "\n" if "⏎" in space else " " if space else escaped or literal
    return text, at


def _alternatives(
    tokens: Sequence[tuple[str, ...]], at: int, stated: Mapping[str, str], before: str
) -> tuple[str | None, int]:
    """The first alternative whose values are known; nothing if an optional part has unknown values."""
    options: list[str | None] = []
    while True:
        option, at = _sequence(tokens, at, stated, before)
        options.append(option)
        at += 1
        if tokens[at - 1][3] == "}":
            break
    if len(options) == 1:
        options.append("")
    if [option.casefold() for option in options if option] in (["m", "m"], ["d", "d"]):
        options.sort(reverse=before.endswith(" "), key=str)
    if options[0] == "Static " and "instance" not in stated:
        del options[0]
    return next((option for option in options if option is not None), None), at


def _value(field: str, stated: Mapping[str, str], before: str) -> str | None:
    if field != "_":
        return stated.get(field)
    value = next((value for begin, value in _OTHERS.items() if before.endswith(begin)), None)
    if value is None:
        return None
    name = re.search(r"<(\w+)>", value)
    return value if name is None else value.replace(name[0], stated[name[1]]) if name[1] in stated else None


def _line(event: Event, text: str, coordinator: str) -> str:
    time = _EPOCH + timedelta(microseconds=event.at_us or 0)
    stamp = f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03}"
    if event.broker is None:
        static = f"instanceId={event.instance}, " if event.instance else ""
        who = f"[Consumer {static}clientId={event.client}, groupId={event.group}]"
        logger = "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator"
    elif coordinator == "broker-scala":
        who, logger = f"[GroupCoordinator {event.broker or 0}]:", "kafka.coordinator.group.GroupCoordinator"
    else:
        partition = f"topic={OFFSETS_TOPIC} partition={offsets_partition_of(event.group or '')}"
        who = f"[GroupCoordinator id={event.broker or 0} {partition}]"
        logger = "org.apache.kafka.coordinator.group.GroupMetadataManager"
    return f"[{stamp}] INFO {who} {text} ({logger})"
