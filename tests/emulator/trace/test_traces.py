"""The trace file: what is written is read, a torn tail is told from damage, and the digest sees every record."""

import io
from pathlib import Path

import attrs
import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kemu.actors.machine import Note, Send, StartTimer, TimerFired
from kemu.emulator.facts import HostStarted, RunEnded, Seen
from kemu.emulator.findings import Violation
from kemu.emulator.trace import traces
from kemu.emulator.trace.blocks import MAGIC, TraceError, write_block, write_magic
from kemu.emulator.trace.rows import effect_row, event_row
from kemu.emulator.trace.traces import (
    BLOCK_BYTES,
    Broken,
    Footer,
    Header,
    PacketRecord,
    Step,
    Torn,
    TraceWriter,
    WorldFact,
    facts_of,
    read_runs,
    read_trace,
)
from kemu.protocol.messages.group import Heartbeat
from kemu.protocol.notes.groups import LeaderElected
from tests.examples import examples

HEADER = Header(
    scenario={"name": "steady", "members": ["c1", "c2"], "nested": {"a": [1, 2]}},
    plan=[{"kind": "crash", "host": "c1", "at_us": 5}],
    seed=7,
    profile="kafka-3.9",
    loop="bare",
    package="0.1.0",
    vocabulary=traces.vocabulary(),
)
EVENT = event_row(TimerFired(("beat",)))
ELECTED = LeaderElected(group="g", member_id="c1-1")
EFFECTS = [
    effect_row(Send("b0", 0, 5, 3, Heartbeat(group="g", generation=3, member_id="c1-1")), 1),
    effect_row(Note(ELECTED)),
    effect_row(StartTimer(("beat",), 3_000_000)),
]
VIOLATION = Violation("one-owner", 20, 2, ("g", "t-0"), "two owners")


def write_run(sink, header=HEADER, steps=3, new_file=True):
    writer = TraceWriter(sink, header, new_file=new_file)
    writer.fact(0, 0, HostStarted(host="c1", life=1, kept_disk=True))
    for seq in range(1, steps + 1):
        writer.step((seq, seq * 10, "c1", 1, seq * 10 + 1, EVENT, EFFECTS))
        writer.packet((seq, seq * 10, "c1", "b0", 4, "Heartbeat", 30, "sent", seq * 10 + 900))
    writer.violation(VIOLATION)
    writer.broken((steps + 1, 99, "c1", 1, 98, EVENT, "AssertionError: no"))
    writer.fact(steps + 1, 99, RunEnded(reason="broken"))
    return writer.finish("broken", 99)


def write_file(path: Path, **kwargs) -> str:
    with path.open("wb") as file:
        return write_run(file, **kwargs)


def test_a_run_is_read_back_as_it_was_written(tmp_path):
    digest = write_file(tmp_path / "a.trace", steps=1)

    trace = read_trace(tmp_path / "a.trace")

    assert trace.header == HEADER
    assert list(trace.records()) == [
        WorldFact(0, 0, HostStarted(host="c1", life=1, kept_disk=True)),
        Step(1, 10, "c1", 1, 11, EVENT, tuple(EFFECTS)),
        PacketRecord(1, 10, "c1", "b0", 4, "Heartbeat", 30, "sent", 910),
        VIOLATION,
        Broken(2, 99, "c1", 1, 98, EVENT, "AssertionError: no"),
        WorldFact(2, 99, RunEnded(reason="broken")),
        Footer("broken", 1, 1, 99, digest),
    ]


def test_how_often_faults_took_effect_is_told_at_the_end_and_is_no_part_of_the_digest(tmp_path):
    digests = []
    for fired in (None, (3, 0)):
        with (tmp_path / "a.trace").open("wb") as sink:
            digests.append(TraceWriter(sink, HEADER).finish("holds", 5, fired))
        (end,) = read_trace(tmp_path / "a.trace").records()
        assert end == Footer("holds", 0, 0, 5, digests[0], fired)

    assert digests[0] == digests[1]


def test_facts_come_out_as_checkers_saw_them_live(tmp_path):
    write_file(tmp_path / "a.trace", steps=2)

    assert list(facts_of(read_trace(tmp_path / "a.trace"))) == [
        Seen(0, 0, "", 0, HostStarted(host="c1", life=1, kept_disk=True)),
        Seen(1, 10, "c1", 1, ELECTED),
        Seen(2, 20, "c1", 1, ELECTED),
        Seen(3, 99, "", 0, RunEnded(reason="broken")),
    ]


def test_a_long_run_is_cut_into_blocks_and_a_message_larger_than_a_block_fits(tmp_path):
    path = tmp_path / "a.trace"
    with path.open("wb") as file:
        writer = TraceWriter(file, HEADER)
        for seq in range(5_000):
            writer.step((seq, seq, "c1", 1, seq, EVENT, EFFECTS))
        writer.step((5_000, 5_000, "c1", 1, 5_000, EVENT, [(0, 1, "b0", 0, 1, b"x" * 3 * BLOCK_BYTES)]))
        writer.finish("holds", 5_000)

    records = list(read_trace(path).records())

    assert [record.seq for record in records[:-1]] == list(range(5_001))
    assert len(records[-2].effects[0][5]) == 3 * BLOCK_BYTES


def test_a_file_may_hold_many_runs(tmp_path):
    path = tmp_path / "shard.trace"
    headers = [Header({}, [], seed, "kafka-3.9", "bare", "0.1.0") for seed in range(3)]
    with path.open("wb") as file:
        digests = [write_run(file, header, steps=seed, new_file=seed == 0) for seed, header in enumerate(headers)]

    traces = list(read_runs(path))

    assert [trace.header.seed for trace in traces] == [0, 1, 2]
    assert [list(trace.records())[-1].digest for trace in traces] == digests


def test_the_digest_depends_on_every_record_and_on_nothing_else():
    def digest(*, loop="bare", sink=None, flushes=(), **change):
        writer = TraceWriter(sink, Header({}, [], 1, "p", loop, "0"))
        for seq in range(300):
            writer.step((seq, seq, "c1", 1, seq + change.get("drift", 0), EVENT, EFFECTS[: change.get("effects", 3)]))
            if seq in flushes:
                writer.flush()
        writer.packet((1, 9, "c1", "b0", 4, "Heartbeat", 30, change.get("verdict", "sent"), 900))
        writer.fact(300, 300, RunEnded(reason=change.get("reason", "done")))
        return writer.finish("holds", 300)

    base = digest()

    assert len(base) == 32
    assert {digest(loop="trio"), digest(sink=io.BytesIO()), digest(sink=io.BytesIO(), flushes=(3, 170))} == {base}
    changed = [digest(drift=1), digest(effects=2), digest(verdict="lost"), digest(reason="broken")]
    assert len({base, *changed}) == 5


def test_messages_counts_packets_not_verdicts():
    writer = TraceWriter(None, HEADER)
    writer.packet((1, 0, "c1", "b0", 4, "Heartbeat", 30, "held", -1))
    writer.packet((2, 0, "c1", "b0", 4, "Heartbeat", 30, "sent", 5))
    writer.packet((1, 9, "c1", "b0", 4, "Heartbeat", 30, "released", -1))

    assert writer.messages == 2


# --- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A file of several small blocks, its bytes and its records."""
    path = tmp_path_factory.mktemp("traces") / "whole.trace"
    with path.open("wb") as file:
        writer = TraceWriter(file, HEADER)
        for seq in range(6):
            writer.step((seq, seq, "c1", 1, seq, EVENT, EFFECTS))
            writer.flush()
        writer.finish("holds", 6)
    return path.read_bytes(), list(read_trace(path).records())


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_cut_anywhere_gives_a_prefix_and_says_what_is_missing(whole, tmp_path, data):
    content, records = whole
    length = data.draw(st.integers(0, len(content) - 1))
    path = tmp_path / "cut.trace"
    path.write_bytes(content[:length])

    try:
        *read, torn = read_trace(path).records()
    except TraceError as error:
        assert str(path) in str(error)
        assert length < content.index(b"scenario") + 500
        return

    assert isinstance(torn, Torn)
    assert torn.offset + torn.unread_bytes == length
    assert read == records[: len(read)]
    assert len(read) < len(records)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_byte_never_gives_a_wrong_record(whole, tmp_path, data):
    content, records = whole
    place = data.draw(st.integers(0, len(content) - 1))
    flipped = bytes([content[place] ^ data.draw(st.integers(1, 255))])
    path = tmp_path / "flipped.trace"
    path.write_bytes(content[:place] + flipped + content[place + 1 :])

    read = []
    with pytest.raises(TraceError, match=r"byte \d+") if place < last_block(content) else torn_tail(read):
        for record in read_trace(path).records():
            read.append(record)

    kept = [record for record in read if not isinstance(record, Torn)]
    assert kept == records[: len(kept)]


@pytest.mark.parametrize("version", [0, 1, 2, 4])
def test_another_format_version_is_noticed(whole, tmp_path, version):
    """No checksum covers the number: the index of a run must be of the version."""
    content, _ = whole
    path = tmp_path / "version.trace"
    path.write_bytes(MAGIC + version.to_bytes(2, "big") + content[len(MAGIC) + 2 :])

    with pytest.raises(TraceError, match=r"byte \d+: .*(version|index)"):
        list(read_trace(path).records())


def last_block(content):
    """Where the last block (the footer) begins."""
    offset, starts = len(MAGIC) + 2, []
    while offset < len(content):
        starts.append(offset)
        offset += 12 + int.from_bytes(content[offset : offset + 4], "big")
    return starts[-1]


class torn_tail:  # noqa: N801 - reads as a sentence beside pytest.raises
    """Expects that what was read ends in ``Torn``."""

    def __init__(self, read):
        self.read = read

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is None:
            assert isinstance(self.read[-1], Torn)


def test_damage_in_the_middle_is_an_error_that_names_file_and_offset(whole, tmp_path):
    content, _ = whole
    path = tmp_path / "middle.trace"
    place = content.index(b"beat", len(content) // 2)
    path.write_bytes(content[:place] + b"BEAT" + content[place + 4 :])

    with pytest.raises(TraceError, match=rf"{path}: damaged block at byte \d+ .*checksum.*a whole one follows at \d+"):
        list(read_trace(path).records())


def test_a_run_without_footer_before_another_run_is_reported_as_unfinished(tmp_path):
    path = tmp_path / "shard.trace"
    with path.open("wb") as file:
        TraceWriter(file, HEADER).flush()
        write_run(file, new_file=False)

    first, second = read_runs(path)

    assert [type(record) for record in first.records()] == [Torn]
    assert isinstance(list(second.records())[-1], Footer)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "byte 0: not a kemu trace"),
        (b"PK\x03\x04 something else entirely", "byte 0: not a kemu trace"),
        (MAGIC, "the file ends before its format version"),
        (MAGIC + b"\x00\x63", "format version 99"),
        (MAGIC + b"\x00\x01", "holds no run"),
        (MAGIC + b"\x00\x01" + b"\x01\x02\x03", "before the first run's header"),
    ],
)
def test_a_foreign_or_empty_file_gives_one_clear_error(tmp_path, content, said):
    path = tmp_path / "foreign.trace"
    path.write_bytes(content)

    with pytest.raises(TraceError, match=said):
        read_trace(path)


def test_a_header_with_the_former_name_of_a_field_is_read(tmp_path):
    """Traces written before ``drive`` became ``loop``."""
    path = tmp_path / "earlier.trace"
    fields = attrs.asdict(HEADER)
    fields["drive"] = fields.pop("loop")
    with path.open("wb") as file:
        write_magic(file)
        write_block(file, msgpack.packb((traces.HEADER, fields)))

    assert read_trace(path).header == HEADER
