"""The records of a trace, as lines of text and as values for JSON.

Each record becomes an entry with lines, actors and values. The first line of a step has the event; a line for each
effect and note follows. Filters select whole entries, so the lines of a step stay together.
"""

import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from kemu.emulator.findings import Violation
from kemu.emulator.text.plain import plain
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.text.units import duration_text
from kemu.emulator.trace import rows
from kemu.emulator.trace.index import LAST, Window, is_about
from kemu.emulator.trace.rows import Packets, Row
from kemu.emulator.trace.traces import Broken, Footer, Header, PacketRecord, Record, Step, Torn, Trace, WorldFact
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.names import partitions_text
from kemu.protocol.wire.codec import CodecError, Malformed, unseal
from kemu.protocol.wire.schema import SPECS, Kind
from kemu.protocol.wire.values import from_row

LEGEND = """\
time         step    actor            event; below it the effects and notes
  <- received       !! link broke       ** timer fired       == append done
  ^^ log loaded     :: order            -> sent, (+ms until arrival)
  xx hung up        *+ timer started    *- timer stopped     => append begun
  #  note           %  world fact       ~  later fate of a packet
  ## violation or failure              …  cut; whole with --verbose
"""
BELOW = " " * 22
"""Indentation of the effects and notes of a step, which aligns them with the actor of the step."""
FRAME = ("header", "footer", "torn")
"""Kinds of entries that every filter keeps."""
STEPS = ("step", "broken")
"""Kinds of entries that are steps."""
SENT = "sent"
FIRST = ("error", "generation", "member_id", "instance_id", "leader")
"""Fields of a message that are printed before the other fields."""


class TextLimits(NamedTuple):
    """The longest values that are printed whole."""

    items: int
    """Items of a list; a longer list ends with the number of items."""
    value: int
    """Characters of a field of a note, fact or command."""
    message: int
    """Characters of a message with its fields."""


SHORT = TextLimits(items=8, value=60, message=72)
WHOLE = TextLimits(sys.maxsize, sys.maxsize, sys.maxsize)


@frozen
class Entry:
    """One record of a run, as lines and as values for JSON."""

    at_us: int
    actors: tuple[str, ...]
    """Actors that the record names; empty: the record concerns all actors."""
    lines: tuple[str, ...]
    data: dict[str, Any]


def entries_of(
    trace: Trace, windows: Sequence[Window] | None = None, actors: Collection[str] = (), limits: TextLimits = SHORT
) -> Iterator[Entry]:
    """Yield entries of a run in order, with its header and its end.

    Args:
        trace: the run.
        windows: disjoint parts of the run, in order; a violation then follows its step. With None, the entries are all
            records in the order of the file.
        actors: actors or hosts whose entries are wanted ("b0" includes "b0/coordinator"); empty for all.
        limits: longer values are cut in the lines; the values for JSON are whole.

    Raises:
        TraceError: the file is damaged. With windows, damage outside of the parts is not found.
    """
    with trace.interpreted():
        yield _header(trace.header)
        yield from _Reading(trace, windows, actors, limits).entries()


class _Reading:
    """Makes the wanted entries of a run from its records."""

    def __init__(
        self, trace: Trace, windows: Sequence[Window] | None, actors: Collection[str], limits: TextLimits
    ) -> None:
        self._limits = limits
        self._actors = frozenset(actors)
        self._windows = None if windows is None else deque(windows)
        # The steps of other actors are needed to find the end of a window of steps.
        is_by_step = any(each.first_step > 0 or each.last_step < LAST for each in windows or ())
        only = frozenset() if is_by_step else self._actors
        self._records = trace.records() if windows is None else trace.within(windows, only)
        self._packets = Packets(None if windows is None or trace.index is None else trace.sent)
        self._is_sparse = bool(only) and trace.index is not None
        """Whether the records leave out the arrivals at other actors, so that sent packets must be forgotten."""
        found = () if windows is None else trace.survey().findings
        self._violations = deque(
            sorted(
                (each for each in found if isinstance(each, Violation) and self._is_near(each, windows or ())),
                key=lambda each: each.seq,
            )
        )
        """Violations in the windows that were not yet yielded."""
        self._place = 0
        """Number of the last step."""

    @staticmethod
    def _is_near(violation: Violation, windows: Sequence[Window]) -> bool:
        at = bisect_right(windows, violation.seq, key=lambda window: window.first_step) - 1
        return at >= 0 and windows[at].holds(violation.seq, violation.at_us)

    def entries(self) -> Iterator[Entry]:
        step: Step | None = None
        fates: dict[int, PacketRecord] = {}
        for record in self._records:
            if step is not None:
                if isinstance(record, PacketRecord) and record.packet_id in fates:
                    fates[record.packet_id] = record
                    continue
                if self._wants(step.at_us, (step.actor,)):
                    yield _step(step, fates, self._packets, self._limits)
                    if self._is_sparse:
                        self._packets.clear()
                else:
                    _pass_over(step, fates, self._packets)
                step = None
            if isinstance(record, Step):
                yield from self._violations_until(record.seq)
                self._place = record.seq
                step = record
                fates = {row[1]: _NO_FATE for row in record.effects if row[0] == rows.SEND}
            elif isinstance(record, Footer | Torn):
                yield from self._violations_until(LAST)
                yield _other(record, self._packets, self._limits)
            elif not isinstance(record, Violation) or self._windows is None:
                if isinstance(record, Broken):
                    yield from self._violations_until(record.seq)
                    self._place = record.seq
                entry = _other(record, self._packets, self._limits)
                if self._wants(entry.at_us, entry.actors):
                    yield entry
        assert step is None, "a trace ends with a footer or its lack"

    def _violations_until(self, step: int) -> Iterator[Entry]:
        """Yield the violations before a step."""
        while self._violations and self._violations[0].seq < step:
            yield _other(self._violations.popleft(), self._packets, self._limits)

    def _wants(self, at_us: int, actors: Sequence[str]) -> bool:
        if self._actors and actors and not any(is_about(each, self._actors) for each in actors):
            return False
        if self._windows is None:
            return True
        while len(self._windows) > 1 and self._windows[0].last_step < self._place:
            self._windows.popleft()
        return bool(self._windows) and self._windows[0].holds(self._place, at_us)


_NO_FATE = PacketRecord(0, 0, "", "", 0, "", 0, "", -1)


# --- steps ---------------------------------------------------------------------------------------------------------


def _step(step: Step, fates: dict[int, PacketRecord], packets: Packets, limits: TextLimits) -> Entry:
    event_text, event_data = _event(step.event, packets, limits)
    packets.sent(step.actor, step.effects)
    effects = [_effect(row, fates, step.at_us, limits) for row in step.effects]
    _lose(fates, packets)
    data = {
        "kind": "step",
        "seq": step.seq,
        "at_us": step.at_us,
        "actor": step.actor,
        "life": step.life,
        "local_us": step.local_us,
        "event": event_data,
        "effects": [effect for _, effect in effects],
    }
    lines = (f"{_place(step)} {event_text}", *[f"{BELOW}{effect}" for effect, _ in effects])
    return Entry(step.at_us, (step.actor,), lines, data)


def _pass_over(step: Step, fates: Mapping[int, PacketRecord], packets: Packets) -> None:
    """Keep track of the packets of a step that is not printed."""
    if step.event[0] == rows.RECEIVED:
        packets.lost(step.event[1])
    packets.sent(step.actor, step.effects)
    _lose(fates, packets)


def _lose(fates: Mapping[int, PacketRecord], packets: Packets) -> None:
    """Remove the packets of a step that do not arrive."""
    for fate in fates.values():
        if fate.verdict not in (SENT, "queued", "held", ""):
            packets.lost(fate.packet_id)


def _place(step: Step | Broken) -> str:
    life = f"~{step.life}" if step.life > 1 else ""
    return f"{clock(step.at_us)} {step.seq:<7} {step.actor + life:16}"


def _event(row: Row, packets: Packets, limits: TextLimits) -> tuple[str, dict[str, Any]]:
    data: dict[str, Any] = {"name": rows.EVENT_NAMES[row[0]]}
    match row:
        case (rows.RECEIVED, packet_id):
            packet = packets.take(packet_id)
            text, message = _message(packet.sealed, limits)
            data |= {"packet": packet_id, "from": packet.sender, "request_id": packet.request_id, "message": message}
            return f"<- {packet.sender} {text}", data
        case (rows.LINK_DOWN, peer):
            return f"!! link to {peer}", data | {"peer": peer}
        case (rows.TIMER_FIRED, key):
            return f"** {' '.join(key)}", data | {"key": list(key)}
        case (rows.APPENDED, token, number, base_offset):
            error = ErrorCode(number)
            said = f"durable at {base_offset}" if error is ErrorCode.NONE else error.name
            return f"== append {token} {said}", data | {"token": token, "error": error.name, "base_offset": base_offset}
        case (rows.LOADED, log, records):
            return f"^^ {log}, {len(records)} records", data | {"log": log, "records": len(records)}
        case (rows.TOLD, command):
            value = from_row(command)
            return f":: {brief(value, limits)}", data | {"command": plain(value)}
        case _:
            raise Malformed(f"{row!r:.80} is no row of an event")


def _effect(row: Row, fates: dict[int, PacketRecord], at_us: int, limits: TextLimits) -> tuple[str, dict[str, Any]]:
    data: dict[str, Any] = {"name": rows.EFFECT_NAMES[row[0]]}
    match row:
        case (rows.SEND, packet_id, *_):
            return _sent(row, fates.get(packet_id, _NO_FATE), at_us, limits)
        case (rows.NOTE, fact, *part):
            value = from_row(fact)
            by = f"{part[0]}: " if part else ""
            return f"# {by}{brief(value, limits)}", data | {"fact": plain(value)} | ({"part": part[0]} if part else {})
        case (rows.START_TIMER, key, after_us):
            return f"*+ {' '.join(key)} {duration_text(after_us)}", data | {"key": list(key), "after_us": after_us}
        case (rows.STOP_TIMER, key):
            return f"*- {' '.join(key)}", data | {"key": list(key)}
        case (rows.APPEND, log, records, token):
            text = f"=> {log} {len(records)} records as {token}"
            return text, data | {"log": log, "records": len(records), "token": token}
        case (rows.WRITE_ONLY, log, records, token):
            text = f"=> {log} {len(records)} records as {token}, not flushed"
            return text, data | {"log": log, "records": len(records), "token": token}
        case (rows.FLUSH, log):
            return f"=> {log} flushed", data | {"log": log}
        case (rows.HANGUP, peer):
            return f"xx {peer}", data | {"peer": peer}
        case _:
            raise Malformed(f"{row!r:.80} is no row of an effect")


def effect_data(row: Row) -> dict[str, Any]:
    """The row of an effect as values for JSON, with the fields of messages and notes by name.

    Raises:
        Malformed: the row is invalid.
    """
    return _effect(row, {}, 0, SHORT)[1]


def _sent(row: Row, fate: PacketRecord, at_us: int, limits: TextLimits) -> tuple[str, dict[str, Any]]:
    _, packet_id, to, _, request_id, sealed = row
    text, message = _message(sealed, limits)
    said = f"(+{(fate.due_us - at_us) / 1000:.3f})" if fate.due_us >= 0 else f"({fate.verdict or 'no verdict'})"
    data = {"packet": packet_id, "to": to, "request_id": request_id, "verdict": fate.verdict, "due_us": fate.due_us}
    return f"-> {to} {text} {said}", {"name": "Send", **data, "bytes": len(sealed), "message": message}


# --- other records -------------------------------------------------------------------------------------------------


def _other(record: Record, packets: Packets, limits: TextLimits) -> Entry:
    match record:
        case PacketRecord():
            if record.verdict not in (SENT, "queued", "held", "released"):
                packets.lost(record.packet_id)
            text = f"{record.api} {record.sender} to {record.to}: {record.verdict}"
            data = {"kind": "packet", **record._asdict()}
            return _line(record.at_us, "~", text, data, (record.sender, record.to))
        case WorldFact():
            data = {"kind": "fact", "seq": record.seq, "at_us": record.at_us, "fact": plain(record.fact)}
            host = getattr(record.fact, "host", "")
            return _line(record.at_us, "%", brief(record.fact, limits), data, (host,) if host else ())
        case Violation():
            text = f"{record.checker}: {record.text}"
            return _line(
                record.at_us, "##", text, {**attrs.asdict(record), "broken": record.kind, "kind": "violation"}, ()
            )
        case Broken():
            event, event_data = _event(record.event, packets, limits)
            lines = (f"{_place(record)} {event}", f"{BELOW}## the machine broke: {record.text}")
            data = {"kind": "broken", **record._asdict(), "event": event_data}
            return Entry(record.at_us, (record.actor,), lines, data)
        case Footer():
            end = (f"{record.verdict}: {record.steps} steps, {record.messages} messages, digest {record.digest}",)
            return Entry(record.virtual_us, (), end, {"kind": "footer", **record._asdict()})
        case Torn():
            return Entry(-1, (), (record.words,), {"kind": "torn", **record._asdict()})
        case _:
            raise AssertionError(f"{record!r:.80} has no line")


def _line(at_us: int, glyph: str, text: str, data: dict[str, Any], actors: tuple[str, ...]) -> Entry:
    return Entry(at_us, actors, (f"{clock(at_us)} {'':8}{glyph} {text}",), data)


def _header(header: Header) -> Entry:
    name = header.scenario.get("name", "unnamed")
    live = ", live" if header.live else ""
    text = f"{name}, seed {header.seed}, profile {header.profile}, loop {header.loop}{live}, kemu {header.package}"
    labels = (f"{BELOW}{host} = {label}" for host, label in labels_of(header).items())
    return Entry(0, (), (text, *labels), {"kind": "header", **attrs.asdict(header)})


def labels_of(header: Header) -> dict[str, str]:
    """The labels of members, by host; empty if this kemu cannot read the scenario of the header."""
    groups = header.scenario.get("groups")
    if not isinstance(groups, Mapping) or not any("labels" in each for each in groups.values()):
        return {}
    from kemu.emulator.scenario.reading import scenario_from_dict

    try:
        return scenario_from_dict(header.scenario).labels()
    except (ScenarioError, TypeError, AttributeError):
        return {}


# --- values --------------------------------------------------------------------------------------------------------


def clock(at_us: int) -> str:
    """A virtual time as minutes, seconds and microseconds: "01:05.250000"."""
    minutes, rest = divmod(at_us, 60_000_000)
    return f"{minutes:02}:{rest // 1_000_000:02}.{rest % 1_000_000:06}"


def _message(sealed: bytes, limits: TextLimits) -> tuple[str, dict[str, Any]]:
    try:
        message, version = unseal(sealed)
    except CodecError as error:
        return f"unreadable ({error})", {"unreadable": str(error)}
    spec = SPECS[type(message)]
    reply = " reply" if spec.kind is Kind.REPLY else ""
    text = f"{spec.name} v{version}{reply}{_fields(message, limits, FIRST)}"
    return _cut(text, limits.message), {"api": spec.name, "reply": bool(reply), "version": version, **plain(message)}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def brief(value: object, limits: TextLimits = SHORT) -> str:
    """One line with the name of a note, fact or command, and the fields that differ from their defaults."""
    return f"{type(value).__name__}{_fields(value, limits)}"


def _fields(value: Any, limits: TextLimits, first: tuple[str, ...] = ()) -> str:
    shown = []
    for field in sorted(attrs.fields(type(value)), key=lambda field: field.name not in first):
        item = getattr(value, field.name)
        if item != field.default and item is not None and item != ():
            shown.append(f"{field.name}={_cut(_short(item, limits), limits.value)}")
    return " " + " ".join(shown) if shown else ""


def _short(item: Any, limits: TextLimits) -> str:
    if isinstance(item, ErrorCode):
        return item.name
    if isinstance(item, bytes):
        return item.hex() if limits is WHOLE else f"<{len(item)} B>"
    if isinstance(item, str):
        return f'"{item}"' if " " in item or not item else item
    if isinstance(item, tuple):
        if all(map(_is_partition, item)):
            return partitions_text(item)
        more = f" … {len(item)} in all" if len(item) > limits.items else ""
        return f"[{' '.join([_short(part, limits) for part in item[: limits.items]])}{more}]"
    if attrs.has(type(item)):
        return f"({_fields(item, limits).strip()})"
    return str(item)


def _is_partition(item: Any) -> bool:
    return type(item) is tuple and len(item) == 2 and type(item[0]) is str and type(item[1]) is int
