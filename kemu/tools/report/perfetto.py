"""A report of a run for Perfetto (ui.perfetto.dev): tracks of slices, instants, counters, and arrows for messages.

The file is a ``perfetto.protos.Trace``, written field by field. JSON has no tracks without processes and threads.
Numbers of fields are those of Perfetto v50 (protos/perfetto/trace: trace_packet.proto, track_event/track_event.proto,
track_event/track_descriptor.proto).
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from kemu.protocol.frozen import frozen
from kemu.protocol.names import host_of
from kemu.tools.files import written
from kemu.tools.report.collecting import RunReport
from kemu.tools.report.frames import FROM, UNTIL, Frame, Row

# Trace, TracePacket
PACKET, TIMESTAMP, SEQUENCE_ID, TRACK_EVENT, INTERNED_DATA, SEQUENCE_FLAGS, TRACK_DESCRIPTOR = 1, 8, 10, 11, 12, 13, 60
# TrackDescriptor
UUID, NAME, PARENT_UUID, COUNTER, CHILD_ORDERING, SIBLING_RANK = 1, 2, 5, 8, 11, 12
# TrackEvent
ANNOTATIONS, TYPE, NAME_IID, TRACK_UUID, COUNTER_VALUE, FLOW_IDS, LAST_FLOW_IDS = 4, 9, 10, 11, 30, 47, 48
# DebugAnnotation
ANNOTATION_NAME_IID, INT_VALUE, STRING_VALUE = 1, 4, 6
# InternedData, and its names
EVENT_NAMES, ANNOTATION_NAMES, IID, INTERNED_NAME = 2, 3, 1, 2
BEGIN, END, INSTANT, COUNTED = 1, 2, 3, 4
"""Types of events."""
EXPLICIT = 3
"""The order of child tracks: by rank."""
CLEARED, NEEDED = 1, 2
"""Flags: interned names begin here; this packet may use them."""
NS = 1_000


# --- protobuf --------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """An integer of protobuf; a negative one has ten bytes."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    """A field with an integer."""
    return varint(field << 3) + varint(value)


def fixed(field: int, value: int) -> bytes:
    """A field with an integer of eight bytes."""
    return varint(field << 3 | 1) + value.to_bytes(8, "little")


def nested(field: int, data: bytes | str) -> bytes:
    """A field with a text or a message."""
    told = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(told)) + told


# --- tracks ----------------------------------------------------------------------------------------------------------


@frozen
class Spans:
    """Rows of a frame as slices: the names of their track and of the slice, and the columns of start and end."""

    group: str
    frame: str
    track: Callable[[Row], str]
    name: Callable[[Row], str]
    start: str = FROM
    end: str = UNTIL


def _called(text: str) -> Callable[[Row], str]:
    return lambda row: text.format_map(row)


SPANS = (
    Spans("run", "faults", _called("faults"), _called("{text}")),
    Spans("run", "controllers", _called("controller"), _called("{broker}")),
    Spans("run", "rebalances", _called("rebalances of {group}"), _called("{generation}: {reason}"),
          "started_us", "ended_us"),
    Spans("hosts", "hosts", _called("{host}"), _called("{state} {how}")),
    Spans("groups", "groups", _called("{group}"), _called("{state}")),
    Spans("members", "members", _called("{member}"), _called("{state}")),
    Spans("without service", "down", _called("{group}/{partition}"), _called("{cause}")),
    Spans("Streams tasks", "tasks", _called("{task} at {instance}/{thread}"), _called("{role} {state}")),
    Spans("Streams tasks without service", "task_stops", _called("{task}"), _called("{cause}")),
    Spans("reassignments", "reassignments", _called("{partition}"), _called("{replicas} to {target}")),
    Spans("reassignment steps", "steps", _called("{partition}"), _called("{number}: {replicas}"),
          "started_us", "committed_us"),
    Spans("reassignment waits", "reassignment_waits", _called("{partition}"), _called("{why}")),
    Spans("ranges (KIP-333)", "ranges", _called("{group}/{partition}"), _called("{start} to {end}")),
    Spans("work on ranges (KIP-333)", "range_work", _called("{group}/{partition} {who}"), _called("{first} to {last}")),
    Spans("owners", "ownership", _called("{group}/{partition}"), _called("{owner}")),
    Spans("leaders", "leaders", _called("{partition}"), _called("{leader}")),
    Spans("leaderless", "leaderless", _called("{partition}"), _called("leaderless")),
    Spans("under-replicated", "under_replicated", _called("{partition}"), _called("under-replicated")),
    Spans("under min.insync.replicas", "under_min_isr", _called("{partition}"), _called("under min.insync.replicas")),
)  # fmt: skip
"""The frames that are slices, in the order of their tracks. Rows of one track that overlap get further tracks."""
ARRIVED = "sent"
"""The fate of a message that needs no word."""


class PerfettoWriter:
    """Writes packets of one sequence into a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._names: dict[tuple[int, str], int] = {}
        """(kind of interned name, name) -> its number."""
        self._tracks: dict[tuple[int, str, int], int] = {}
        """(parent, name, lane) -> uuid."""
        self._ends: dict[int, int] = {}
        """Track -> end of its last slice."""
        self._packet(number(SEQUENCE_FLAGS, CLEARED))

    def track(self, name: str, parent: int = 0, lane: int = 0, *, counts: bool = False) -> int:
        """The uuid of a track, which is described at its first use."""
        key = parent, name, lane
        uuid = self._tracks.get(key)
        if uuid is None:
            uuid = self._tracks[key] = len(self._tracks) + 1
            about = (
                number(UUID, uuid) + nested(NAME, name) + number(CHILD_ORDERING, EXPLICIT) + number(SIBLING_RANK, uuid)
            )
            about += (number(PARENT_UUID, parent) if parent else b"") + (nested(COUNTER, b"") if counts else b"")
            self._packet(nested(TRACK_DESCRIPTOR, about))
        return uuid

    def slice(self, parent: int, track: str, name: str, from_us: int, until_us: int, row: Row) -> None:
        """A slice in the first track of this name that is free."""
        lane = 0
        while self._ends.get(uuid := self.track(track, parent, lane), 0) > from_us:
            lane += 1
        self._ends[uuid] = until_us
        self._event(from_us, BEGIN, uuid, name, self._annotations(row))
        self._event(until_us, END, uuid)

    def instant(self, uuid: int, name: str, at_us: int, row: Row, flow: bytes = b"") -> None:
        """A moment; ``flow``: the arrow that begins or ends here."""
        self._event(at_us, INSTANT, uuid, name, flow + self._annotations(row))

    def count(self, uuid: int, at_us: int, value: int) -> None:
        """The value of a counter from now on."""
        self._event(at_us, COUNTED, uuid, "", number(COUNTER_VALUE, value))

    def _event(self, at_us: int, kind: int, uuid: int, name: str = "", more: bytes = b"") -> None:
        named = number(NAME_IID, self._interned(EVENT_NAMES, name)) if name else b""
        event = number(TYPE, kind) + number(TRACK_UUID, uuid) + named + more
        self._packet(number(TIMESTAMP, at_us * NS) + number(SEQUENCE_FLAGS, NEEDED) + nested(TRACK_EVENT, event))

    def _annotations(self, row: Row) -> bytes:
        return b"".join(
            nested(
                ANNOTATIONS,
                number(ANNOTATION_NAME_IID, self._interned(ANNOTATION_NAMES, name))
                + (nested(STRING_VALUE, value) if isinstance(value, str) else number(INT_VALUE, value)),
            )
            for name, value in row.items()
            if value != ""
        )

    def _interned(self, kind: int, name: str) -> int:
        iid = self._names.get((kind, name))
        if iid is None:
            iid = self._names[kind, name] = len(self._names) + 1
            entry = nested(kind, number(IID, iid) + nested(INTERNED_NAME, name))
            self._packet(number(SEQUENCE_FLAGS, NEEDED) + nested(INTERNED_DATA, entry))
        return iid

    def _packet(self, data: bytes) -> None:
        self._file.write(nested(PACKET, number(SEQUENCE_ID, 1) + data))


# --- the report ------------------------------------------------------------------------------------------------------


def write_perfetto(report: RunReport, path: Path) -> None:
    """Write a run for Perfetto.

    Raises:
        BadInput: the file cannot be written.
    """
    with written(path) as file:
        writer = PerfettoWriter(file)
        run = writer.track("run")
        _moments(writer, run, report)
        for spans in SPANS:
            for row in _rows(report.frames[spans.frame], spans.start):
                end_us = row[spans.end] if row[spans.end] >= 0 else report.result.virtual_us
                shown = {name: value for name, value in row.items() if name not in (spans.start, spans.end)}
                parent = writer.track(spans.group)
                writer.slice(parent, spans.track(row), spans.name(row), row[spans.start], end_us, shown)
        _counters(writer, run, report.frames)
        if "messages" in report.frames:
            _messages(writer, report.frames["messages"])


def _rows(frame: Frame, start: str) -> Sequence[Row]:
    """The rows by their start."""
    return sorted(frame.named(), key=itemgetter(start))


def _moments(writer: PerfettoWriter, run: int, report: RunReport) -> None:
    for each in report.result.violations:
        row = {"text": each.text, "kind": each.kind, "step": each.seq}
        writer.instant(writer.track("violations", run), each.checker, each.at_us, row)
    for line in _rows(report.frames["story"], "at_us"):
        writer.instant(writer.track("story", run), line["text"], line["at_us"], {"kind": line["kind"]})


def _counters(writer: PerfettoWriter, run: int, frames: Mapping[str, Frame]) -> None:
    waiting = writer.track("waiting records", run, counts=True)
    for at_us, records in frames["waiting"].rows():
        writer.count(waiting, at_us, records)
    for row in _rows(frames["lag"], "at_us"):
        lag = writer.track("lag")
        uuid = writer.track(f"{row['group']}/{row['partition']}", lag, counts=True)
        writer.count(uuid, row["at_us"], row["records"])


def _messages(writer: PerfettoWriter, frame: Frame) -> None:
    """An instant at the sender, and one at the receiver if the message arrives, with an arrow from one to the other."""
    for flow, row in enumerate(frame.named(), start=1):
        name = f"{row['api']} {'reply' if row['reply'] else 'request'}"
        about = {
            "error": row["error"],
            "verdict": "" if row["verdict"] == ARRIVED else row["verdict"],
            "bytes": row["size"],
        }
        parent = writer.track("messages")
        sender, to = (writer.track(host_of(row[side]), parent) for side in ("sender", "to"))
        writer.instant(sender, f"{name} to {row['to']}", row["at_us"], about, fixed(FLOW_IDS, flow))
        if row["took_us"] >= 0:
            at_us = row["at_us"] + row["took_us"]
            writer.instant(to, f"{name} from {row['sender']}", at_us, {}, fixed(LAST_FLOW_IDS, flow))
