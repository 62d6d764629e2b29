"""Decode the blocks of a trace file into rows of all tables, in one pass over the msgpack data.

The records of a trace do not contain figures. If a caller wants figures, the panel, the checkers and the metrics
observe the facts of the trace, as in the run. At the end of the run, the decoder makes rows from the figures.

Unreadable data becomes rows of ``bad_records``: a foreign file, a torn tail, a damaged block, a run without a footer.
Unreadable data raises no exception.
"""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
from attrs import field, mutable

from kemu.emulator.checkers import checkers_for
from kemu.emulator.engine.raised import LIVELOCK
from kemu.emulator.facts import FaultApplied, FaultEnded, LogRecord, Seen
from kemu.emulator.findings import Violation
from kemu.emulator.judging import Judging
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.plan.action import kind_of
from kemu.emulator.plan.words import describe_entry
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.allowed_code import Code, code_allowed
from kemu.emulator.trace.blocks import TraceError, blocks_of, first_block
from kemu.emulator.trace.index import INDEX
from kemu.emulator.trace.rows import APPEND, EFFECT_NAMES, EVENT_NAMES, NOTE, RECEIVED, TOLD, WRITE_ONLY, noted_by
from kemu.emulator.trace.traces import BROKEN, FACT, FOOTER, HEADER, PACKET, STEP, VIOLATION, Footer, Header
from kemu.protocol.frozen import frozen
from kemu.protocol.wire.values import from_row
from kemu.tools.pipeline.rows import (
    FaultTimes,
    downtime_rows,
    fault_row,
    figure_columns,
    note_row,
    reassignment_step_rows,
    rebalance_rows,
    restore_rows,
    run_row,
    task_downtime_rows,
    violation_row,
)
from kemu.tools.pipeline.tables.schemas import COUNTED

BLOCK_BITS = 26
PLACE_BITS = 12
"""Number of bits for each position in ``n``. The ``n`` of a fact consists of the block's offset, the record's position
in the block, and the fact's position in the record. So ``n`` does not depend on the start of the span."""
_FAULT_FACTS = (FaultApplied.__name__, FaultEnded.__name__)

Row = tuple[Any, ...]
Emit = Callable[[str, Row], None]


@frozen
class Span:
    """The part of a file with the blocks that begin at or after ``start`` and before ``end``.

    ``header_at``: the position of the header of the run that continues at ``start``; -1: a header is at ``start``.
    """

    path: str
    start: int
    end: int
    header_at: int = -1
    growing: bool = False
    """Whether another process still writes the file, so that a torn tail is unfinished and not damaged."""
    prefix: str = ""
    """The beginning of run ids in a campaign's trace; the seed is the rest of the id. With "", the id of a run consists
    of the path and the offset of the header."""


@mutable
class _Run:
    """The state of a run between its records."""

    run_id: str
    header: Header
    offset: int
    times: FaultTimes = field(factory=FaultTimes)
    broke: str | None = None
    judging: Judging | None = None
    """Panel, checkers and metrics of the run; None if the caller wants no figures."""


class Decoder:
    """Decodes a span into rows.

    Args:
        emit: Receives the name of a table, and a row.
        tables: Names of the tables to decode. If ``tables`` includes one of ``COUNTED``, the rows of ``runs`` have
            figures, and each span must begin with a run.
    """

    def __init__(self, emit: Emit, tables: frozenset[str]) -> None:
        self._emit = emit
        self._steps = "steps" in tables
        self._packets = "packets" in tables
        self._notes = "notes" in tables
        self._runs = "runs" in tables
        self._faults = "faults" in tables
        self._violations = "violations" in tables
        self._counts = any(schema.name in tables for schema in COUNTED)
        self._run: _Run | None = None
        self._path = ""

    def decode(self, span: Span) -> Iterator[None]:
        """Emit the rows of a span; yield after each block, so that the caller can use the rows so far."""
        path = Path(span.path)
        self._path = span.path
        try:
            start = first_block(path)
            if span.header_at >= 0:
                self._catch_up(span, path)
        except (TraceError, OSError) as error:
            self._bad(0, _size(path), error)
            return
        reached = max(start, span.start)
        try:
            for offset, after, payload in blocks_of(path, reached):
                if offset >= span.end:
                    break
                if isinstance(payload, str):
                    if not span.growing:
                        self._cut_off(offset, _size(path) - offset, payload)
                    return
                self._block(span, offset, payload)
                reached = after
                yield
        except (TraceError, OSError, ValueError, TypeError, LookupError, msgpack.UnpackException) as error:
            self._cut_off(reached, _size(path) - reached, error)
            return
        if self._run is not None and not span.growing:
            self._cut_off(reached, 0, "the run has no footer")

    # --- blocks ------------------------------------------------------------------------------------------------

    def _catch_up(self, span: Span, path: Path) -> None:
        """Read the header of the run that continues at the start of the span, for the run's row in ``runs``."""
        assert not self._counts, "figures need every fact of a run"
        for offset, _, payload in blocks_of(path, span.header_at):
            if offset >= span.start:
                return
            assert isinstance(payload, bytes), "what was read once can be read again"
            if offset == span.header_at:
                self._begin(span, offset, payload)
                continue
            if not (self._runs or self._faults):
                return
            for row in msgpack.Unpacker(io.BytesIO(payload), use_list=False, strict_map_key=False):
                if row[0] == FACT and row[3][0] in _FAULT_FACTS and self._run is not None:
                    self._run.times.see(Seen(row[1], row[2], "", 0, from_row(row[3])))
                elif row[0] == FOOTER:
                    self._run = None

    def _begin(self, span: Span, offset: int, payload: bytes) -> None:
        _, fields = msgpack.unpackb(payload, strict_map_key=False)
        header = Header(**fields)
        run_id = f"{span.prefix}/{header.seed}" if span.prefix else f"{span.path}@{offset}"
        self._run = _Run(run_id, header, offset)
        if self._counts:
            scenario = _scenario_of(header)
            checkers = checkers_for(scenario, source=header.source)
            self._run.judging = Judging(checkers, expect=scenario.expect, source=header.source)

    def _block(self, span: Span, offset: int, payload: bytes) -> None:
        if payload[1:2] == bytes((HEADER,)):
            if self._run is not None:
                self._cut_off(offset, 0, "the run has no footer")
            self._begin(span, offset, payload)
            return
        run = self._run
        if run is None:
            raise TraceError(f"byte {offset}: records before any header")
        unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=len(payload))
        unpacker.feed(payload)
        base = offset << BLOCK_BITS
        for index, row in enumerate(unpacker):
            kind = row[0]
            if kind == STEP:
                if self._steps:
                    self._step(run, row, None)
                if self._notes or self._counts:
                    n = base + (index << PLACE_BITS)
                    for place, effect in enumerate(row[7]):
                        if effect[0] == NOTE:
                            who = noted_by(row[3], effect)
                            self._fact(run, n + place, row[1], row[2], who, row[4], effect[1])
            elif kind == PACKET:
                if self._packets:
                    self._emit("packets", (run.run_id, *row[1:]))
            elif kind == FACT:
                if self._notes or self._counts or row[3][0] in _FAULT_FACTS:
                    self._fact(run, base + (index << PLACE_BITS), row[1], row[2], "", 0, row[3])
            elif kind == VIOLATION:
                if self._violations:
                    self._emit("violations", violation_row(run.run_id, Violation(*row[1:])))
            elif kind == BROKEN:
                livelock = row[7].startswith(LIVELOCK)
                run.broke = row[7] if livelock else f"{row[3]} at {row[2]} us, step {row[1]}: {row[7]}"
                if self._steps:
                    self._step(run, (*row[:7], ()), row[7])
            elif kind == FOOTER:
                self._end(run, row[:7])
            elif kind != INDEX:
                raise TraceError(f"byte {offset}: unknown kind of record {kind!r}")
        if unpacker.tell() != len(payload):
            raise TraceError(f"byte {offset}: the block ends inside a record")

    # --- records -----------------------------------------------------------------------------------------------

    def _step(self, run: _Run, row: Row, broke: str | None) -> None:
        _, seq, at_us, actor, life, local_us, event, effects = row
        counts = [0] * len(EFFECT_NAMES)
        for effect in effects:
            counts[effect[0]] += 1
        code = event[0]
        about = event[1]
        if code == RECEIVED:
            said = str(about)
        elif code == TOLD:
            said = f"{about[1]}:{about[2]} {about[3]}" if about[0] == LogRecord.__name__ else about[0]
        else:
            said = "/".join(map(str, about)) if type(about) is tuple else str(about)
        counts[APPEND] += counts[
            WRITE_ONLY
        ]  # the column of appends includes appends in the page cache; no column has flushes
        del counts[WRITE_ONLY:]
        self._emit("steps", (run.run_id, seq, at_us, actor, life, local_us, EVENT_NAMES[code], said, *counts, broke))

    def _fact(self, run: _Run, n: int, seq: int, at_us: int, actor: str, life: int, row: Row) -> None:
        seen = Seen(seq, at_us, actor, life, from_row(row))
        if row[0] in _FAULT_FACTS:
            run.times.see(seen)
        if run.judging is not None:
            run.judging.see(seen)
        if self._notes:
            self._emit("notes", note_row(run.run_id, n, *seen))

    def _end(self, run: _Run, footer: Row | None) -> None:
        self._run = None
        end = None if footer is None else Footer(*footer[1:])
        figures = None
        if run.judging is not None and end is not None:
            figures = run.judging.finish(end.virtual_us, run.broke or "").figures
            self._counted(run.run_id, figures, run.header.source)
        if self._runs:
            self._emit("runs", run_from_trace(run.run_id, run.header, end, run.broke, figures))
        if self._faults and end is not None:
            times, fired = run.times, end.fired
            for index, entry in enumerate(_scenario_of(run.header).plan):
                took_effect = None if fired is None else fired[index]
                words = describe_entry(entry)
                self._emit("faults", fault_row(run.run_id, index, kind_of(entry.action), words, took_effect, times))

    def _counted(self, run_id: str, figures: Figures, source: str) -> None:
        for row in rebalance_rows(run_id, figures, source):
            self._emit("rebalances", row)
        for row in downtime_rows(run_id, figures):
            self._emit("downtime", row)
        for row in reassignment_step_rows(run_id, figures):
            self._emit("reassignment_steps", row)
        for row in task_downtime_rows(run_id, figures):
            self._emit("task_downtime", row)
        for row in restore_rows(run_id, figures):
            self._emit("restores", row)

    def _cut_off(self, offset: int, unread_bytes: int, why: object) -> None:
        """End the current run as torn, because the run has no footer."""
        self._bad(offset, unread_bytes, why)
        if self._run is not None:
            self._end(self._run, None)

    def _bad(self, offset: int, unread_bytes: int, why: object) -> None:
        text = str(why.strerror or why) if isinstance(why, OSError) else str(why)
        text = text.removeprefix(f"{self._path}: ").removeprefix(f"byte {offset}: ")
        self._emit("bad_records", (self._path, offset, unread_bytes, text))


def _scenario_of(header: Header) -> Scenario:
    """The scenario of a recorded run. The scenario is data of others, so no code that it names is loaded."""
    with code_allowed(Code.NONE):
        return scenario_from_dict(header.scenario)


def run_from_trace(run_id: str, header: Header, end: Footer | None, broke: str | None, figures: Figures | None) -> Row:
    """The row of ``RUNS`` from a trace; ``figures`` is None if the caller wants no figures, or the run has no end."""
    scenario = header.scenario
    return run_row(
        run_id=run_id,
        cell=f"{scenario['name']} {header.profile}",
        scenario=scenario["name"],
        profile=header.profile,
        seed=header.seed,
        scenario_json=json.dumps(scenario),
        end=end,
        broke=broke,
        traced=True,
        measured={} if figures is None else figure_columns(figures),
        source=header.source,
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
