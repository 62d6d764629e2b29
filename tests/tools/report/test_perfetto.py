"""The file for Perfetto, parsed back field by field; by Perfetto's own classes where they are installed."""

from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kemu.tools.cli import kemu
from kemu.tools.report import perfetto
from kemu.tools.report.perfetto import PerfettoWriter, varint, write_perfetto
from tests.tools.report.presets import ONE_PROCESS, made, traced

pytestmark = ONE_PROCESS

Fields = dict[int, list[int | bytes]]


def fields_of(data: bytes) -> Fields:
    """Number of a field -> its values; integers signed as int64."""
    found: Fields = {}
    at = 0

    def integer() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << 64) if value >> 63 else value

    while at < len(data):
        key = integer()
        if key & 7 == 2:
            size = integer()
            value: int | bytes = data[at : at + size]
            at += size
        elif key & 7 == 1:
            value = int.from_bytes(data[at : at + 8], "little")
            at += 8
        else:
            assert key & 7 == 0, f"wire type {key & 7}"
            value = integer()
        found.setdefault(key >> 3, []).append(value)
    return found


def one(fields: Fields, number: int, default: Any = None) -> Any:
    """The only value of a field."""
    values = fields.get(number, [default])
    assert len(values) == 1
    return values[0]


class Read:
    """The content of a file: names of tracks, and events with the names that they refer to."""

    def __init__(self, data: bytes) -> None:
        self.tracks: dict[int, tuple[str, int]] = {}
        self.events: list[tuple[int, int, int, str, Fields]] = []
        names: dict[int, dict[int, str]] = {perfetto.EVENT_NAMES: {}, perfetto.ANNOTATION_NAMES: {}}
        for packet in map(fields_of, fields_of(data)[perfetto.PACKET]):  # type: ignore[arg-type]
            assert one(packet, perfetto.SEQUENCE_ID) == 1
            if perfetto.TRACK_DESCRIPTOR in packet:
                about = fields_of(one(packet, perfetto.TRACK_DESCRIPTOR))
                uuid = one(about, perfetto.UUID)
                assert uuid not in self.tracks
                parent = one(about, perfetto.PARENT_UUID, 0)
                assert not parent or parent in self.tracks, "a parent comes first"
                self.tracks[uuid] = one(about, perfetto.NAME).decode(), parent
            if perfetto.INTERNED_DATA in packet:
                for kind, entries in fields_of(one(packet, perfetto.INTERNED_DATA)).items():
                    for entry in map(fields_of, entries):  # type: ignore[arg-type]
                        names[kind][one(entry, perfetto.IID)] = one(entry, perfetto.INTERNED_NAME).decode()
            if perfetto.TRACK_EVENT in packet:
                event = fields_of(one(packet, perfetto.TRACK_EVENT))
                iid = one(event, perfetto.NAME_IID)
                name = "" if iid is None else names[perfetto.EVENT_NAMES][iid]
                at_ns, uuid = one(packet, perfetto.TIMESTAMP), one(event, perfetto.TRACK_UUID)
                assert uuid in self.tracks
                self.events.append((at_ns, one(event, perfetto.TYPE), uuid, name, event))

    def path(self, uuid: int) -> str:
        """The names of a track and its parents."""
        name, parent = self.tracks[uuid]
        return f"{self.path(parent)}/{name}" if parent else name

    def slices(self) -> Iterator[tuple[str, str, int, int]]:
        """(track, name, start, end) of each slice, in us. Slices of one track neither overlap nor stay open."""
        begun: dict[int, tuple[str, int]] = {}
        for at_ns, kind, uuid, name, _ in self.events:
            if kind == perfetto.BEGIN:
                assert uuid not in begun
                begun[uuid] = name, at_ns
            elif kind == perfetto.END:
                called, from_ns = begun.pop(uuid)
                yield self.path(uuid), called, from_ns // 1_000, at_ns // 1_000
        assert not begun


@pytest.mark.parametrize("preset", ["broker-crash-and-return", "reassign-controller-dies", "catch-up-second-crash"])
def test_slices_arrows_and_counters_are_the_frames(preset: str, tmp_path: Path) -> None:
    """Every row of every frame with spans is a slice with its times; every message that arrives is one arrow."""
    report = made(preset).report
    write_perfetto(report, tmp_path / "it.pftrace")
    read = Read((tmp_path / "it.pftrace").read_bytes())
    found = Counter((start, end, name) for _, name, start, end in read.slices())
    wanted: Counter[tuple[int, int, str]] = Counter()
    for spans in perfetto.SPANS:
        frame = report.frames[spans.frame]
        for cells in frame.rows():
            row = dict(zip(frame.columns, cells, strict=True))
            end = row[spans.end] if row[spans.end] >= 0 else report.result.virtual_us
            wanted[row[spans.start], end, spans.name(row)] += 1
    messages = report.frames["messages"]
    begins = [one(event, perfetto.FLOW_IDS) for *_, event in read.events if perfetto.FLOW_IDS in event]
    ends = [one(event, perfetto.LAST_FLOW_IDS) for *_, event in read.events if perfetto.LAST_FLOW_IDS in event]
    counted = [one(event, perfetto.COUNTER_VALUE) for _, kind, _, _, event in read.events if kind == perfetto.COUNTED]

    assert found == wanted and len(wanted) > 10
    assert begins == list(range(1, len(messages) + 1))
    assert ends == [flow for flow, took_us in enumerate(messages.columns["took_us"], start=1) if took_us >= 0]
    assert counted == [*report.frames["waiting"].columns["records"], *_lags(report.frames["lag"].columns)]


def _lags(columns: Any) -> list[int]:
    return [
        records
        for _, records in sorted(zip(columns["at_us"], columns["records"], strict=True), key=lambda each: each[0])
    ]


def test_rows_that_overlap_get_tracks_of_their_own() -> None:
    """Two owners of one partition: slices of one track must not cross."""
    file = BytesIO()
    writer = PerfettoWriter(file)
    for name, start, end in (("c1", 0, 10), ("c2", 5, 15), ("c3", 10, 20)):
        writer.slice(writer.track("owners"), "g/orders-0", name, start, end, {"generation": -1})
    read = Read(file.getvalue())

    assert sorted(read.slices()) == [
        ("owners/g/orders-0", "c1", 0, 10),
        ("owners/g/orders-0", "c2", 5, 15),
        ("owners/g/orders-0", "c3", 10, 20),
    ]
    assert [name for name, _ in read.tracks.values()].count("g/orders-0") == 2


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_survive(value: int) -> None:
    """As int64 of protobuf."""
    assert fields_of(varint(1 << 3) + varint(value)) == {1: [value]}


def test_perfettos_own_classes_know_every_field(tmp_path: Path) -> None:
    """Skipped without the package perfetto; no field is unknown to its schema."""
    pytest.importorskip("google.protobuf", reason="no package protobuf")
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="no package perfetto")
    write_perfetto(made("broker-crash-and-return").report, tmp_path / "it.pftrace")
    trace = schema.Trace.FromString((tmp_path / "it.pftrace").read_bytes())
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]

    assert len(events) == len(Read((tmp_path / "it.pftrace").read_bytes()).events)
    trace.DiscardUnknownFields()
    assert len(trace.SerializeToString()) == (tmp_path / "it.pftrace").stat().st_size


def test_the_command_writes_beside_the_trace(tmp_path: Path) -> None:
    """And over an earlier one, but over no other file. A folder is refused."""
    trace = tmp_path / "run.kemu"
    trace.write_bytes(traced("catch-up-second-crash").read_bytes())
    said = CliRunner().invoke(kemu, ["report", str(trace), "--format", "perfetto"])
    again = CliRunner().invoke(kemu, ["report", str(trace), "--format", "perfetto"])
    (tmp_path / "foreign.pftrace").write_bytes(b"another trace")
    foreign = CliRunner().invoke(
        kemu, ["report", str(trace), "--format", "perfetto", "-o", str(tmp_path / "foreign.pftrace")]
    )
    refused = CliRunner().invoke(kemu, ["report", str(tmp_path), "--format", "perfetto"])

    assert (said.exit_code, said.output) == (0, f"report: {tmp_path / 'run.pftrace'}\n")
    assert again.exit_code == 0 and foreign.exit_code == 2
    assert (tmp_path / "foreign.pftrace").read_bytes() == b"another trace"
    assert refused.exit_code == 2 and "needs a trace" in refused.output
