"""Trace files as rows; no Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostDown, Seen
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.trace.blocks import blocks_of, first_block
from kemu.emulator.trace.traces import HEADER, Footer, PacketRecord, Step, TraceWriter, facts_of, read_trace
from kemu.protocol.profiles import DEFAULT_PROFILE
from kemu.protocol.wire.values import to_row
from kemu.tools.pipeline.cells import Cell
from kemu.tools.pipeline.decode import Decoder, Span
from kemu.tools.pipeline.rows import (
    DATA_PATH_NAMES,
    FaultTimes,
    NoteRows,
    fault_row,
    measured_columns,
    run_row,
    violation_row,
)
from kemu.tools.pipeline.source import _whole, spans_of, trace_files
from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.schemas import FAULTS, NOTES, OF_TRACES, RUNS
from tests.tools.pipeline.conftest import write_small

ALL = frozenset(schema.name for schema in OF_TRACES)
END = 1 << 62


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Path]:
    folder = tmp_path_factory.mktemp("trace")
    result = run(load_scenario(write_small(folder)), seed=1, loop="bare", trace=folder / "t.kemu")
    return result, folder / "t.kemu"


@pytest.fixture(scope="module")
def trace(made: tuple[RunResult, Path]) -> Path:
    return made[1]


def rows_of(*spans: Span) -> dict[str, list[tuple[Any, ...]]]:
    """Every table's rows."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in ALL}
    decoder = Decoder(lambda table, row: rows[table].append(row), ALL)
    for span in spans:
        for _ in decoder.decode(span):
            pass
    return rows


def whole(path: Path) -> Span:
    """A file."""
    return Span(str(path), 0, END)


def test_the_tables_hold_every_record_of_the_trace(trace: Path) -> None:
    """One row per step, packet record and fact, in order."""
    rows = rows_of(whole(trace))
    records = list(read_trace(trace).records())
    footer = records[-1]
    assert isinstance(footer, Footer)

    assert [row[1] for row in rows["steps"]] == [record.seq for record in records if isinstance(record, Step)]
    assert [row[1:] for row in rows["packets"]] == [tuple(r) for r in records if isinstance(r, PacketRecord)]
    facts = list(facts_of(read_trace(trace)))
    named = [dict(zip(NOTES.names, row, strict=True)) for row in rows["notes"]]
    assert [(row["at_us"], row["actor"], row["fact"]) for row in named] == [
        (seen.at_us, seen.actor, type(seen.fact).__name__) for seen in facts
    ]
    assert [row["n"] for row in named] == sorted({row["n"] for row in named})
    (told,) = rows["runs"]
    assert dict(zip(RUNS.names, told, strict=True))["digest"] == footer.digest
    assert rows["bad_records"] == []


def test_a_lone_trace_tells_how_often_its_faults_took_effect(made: tuple[RunResult, Path], tmp_path: Path) -> None:
    """As the run itself did; a trace whose end does not say has null there, not 0."""
    result, trace = made
    silent = tmp_path / "silent.kemu"
    with silent.open("wb") as sink:
        TraceWriter(sink, read_trace(trace).header).finish("holds", 0)

    told = [dict(zip(FAULTS.names, row, strict=True)) for row in rows_of(whole(trace))["faults"]]
    unknown = [dict(zip(FAULTS.names, row, strict=True)) for row in rows_of(whole(silent))["faults"]]

    assert [row["fired"] for row in told] == [fault.fired for fault in result.faults] == [1]
    assert [(row["kind"], row["fired"]) for row in unknown] == [("crash", None)]


def test_a_fact_is_recorded_without_loss(trace: Path) -> None:
    """``row`` is what folds read."""
    import msgpack

    facts = list(facts_of(read_trace(trace)))
    rows = rows_of(whole(trace))["notes"]

    for seen, row in zip(facts, rows, strict=True):
        assert row[-1] == msgpack.packb(to_row(seen.fact))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1))
def test_a_file_cut_off_anywhere_is_a_bad_record_and_keeps_what_is_whole(
    trace: Path, tmp_path: Path, share: float
) -> None:
    """A torn file is a row in bad_records, not a failure, and never silently less."""
    content = trace.read_bytes()
    torn = tmp_path / "torn.kemu"
    torn.write_bytes(content[: int((len(content) - 1) * share)])

    rows = rows_of(whole(torn))

    assert len(rows["bad_records"]) == 1
    assert all(row[RUNS.names.index("verdict")] is None for row in rows["runs"])
    complete = rows_of(whole(trace))
    for table in ("steps", "packets", "notes"):
        assert [row[1:] for row in rows[table]] == [row[1:] for row in complete[table][: len(rows[table])]]


def test_foreign_and_damaged_files_are_bad_records(trace: Path, tmp_path: Path) -> None:
    """Whatever lies in the folder."""
    foreign, empty, damaged = tmp_path / "foreign.kemu", tmp_path / "empty.kemu", tmp_path / "damaged.kemu"
    foreign.write_bytes(b"\x7fELF" * 100)
    empty.write_bytes(b"")
    content = bytearray(trace.read_bytes())
    middle = list(blocks_of(trace, first_block(trace)))[2][0]
    content[middle + 40] ^= 0xFF
    damaged.write_bytes(bytes(content))

    why = {path.stem: rows_of(whole(path))["bad_records"] for path in (foreign, empty, damaged)}

    assert [len(rows) for rows in why.values()] == [1, 1, 1]
    assert "not a kemu trace" in why["foreign"][0][3]
    assert "damaged block" in why["damaged"][0][3]
    assert why["damaged"][0][2] == len(content) - middle


def joined(trace: Path, folder: Path, times: int) -> Path:
    """A file of several runs."""
    content = trace.read_bytes()
    head = first_block(trace)
    path = folder / "many.kemu"
    path.write_bytes(content[:head] + content[head:] * times)
    return path


@pytest.mark.parametrize(("split_bytes", "parts"), [(1, 3), (250_000, 2), (1 << 40, 1)])
def test_the_cut_into_spans_changes_nothing(trace: Path, tmp_path: Path, split_bytes: int, parts: int) -> None:
    """One partition per file or split."""
    path = joined(trace, tmp_path, 3)
    spans = spans_of(path, split_bytes)

    assert 125_000 < trace.stat().st_size < 250_000, "the sizes above are made for this"
    assert len(spans) == parts
    assert rows_of(*spans) == rows_of(whole(path))
    assert len(rows_of(whole(path))["runs"]) == 3


def test_spans_are_found_from_the_ends_of_the_runs(trace: Path, tmp_path: Path) -> None:
    """The index gives the place of each run, so no other block is read: not even a damaged block."""
    path = joined(trace, tmp_path, 3)
    sound = spans_of(path, 1)
    content = bytearray(path.read_bytes())
    content[len(content) // 6] ^= 1
    path.write_bytes(content)

    assert spans_of(path, 1) == sound
    assert len(sound) == 3


def test_a_growing_file_gives_the_same_rows_however_often_it_is_looked_at(trace: Path, tmp_path: Path) -> None:
    """As a stream: nothing twice, nothing left out, and an unfinished block is not yet there."""
    content = joined(trace, tmp_path, 2).read_bytes()
    growing = tmp_path / "growing.kemu"
    got: dict[str, list[tuple[Any, ...]]] = {name: [] for name in ALL}
    known: list[int] | None = None
    for size in [*range(0, len(content), 37_001), len(content)]:
        growing.write_bytes(content[:size])
        before = known or [0, -1]
        known = _whole(growing, known)
        if known[0] > before[0]:
            more = rows_of(Span(str(growing), before[0], known[0], before[1], growing=True))
            for table, rows in more.items():
                got[table] += rows

    assert got == rows_of(whole(growing))
    assert content[first_block(growing) + 13] == HEADER


def test_attempts_of_a_running_campaign_are_nobodys_traces(tmp_path: Path) -> None:
    """They begin with a dot."""
    for name in ("a.kemu", "sub/b.kemu", ".000001.x/traces.kemu", "sub/.c.kemu", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    assert [path.relative_to(tmp_path).as_posix() for path in trace_files(tmp_path)] == ["a.kemu", "sub/b.kemu"]


class Speaks(Checker):
    """Finds something at every death."""

    name = "speaks"

    def __init__(self) -> None:
        super().__init__()
        self.on = {HostDown: self._down}

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self.violation(seen, "death", (fact.host, "t-0"), f"{fact.host} is gone", liveness=fact.how == "closed")


def test_a_live_run_and_its_trace_make_equal_rows(tmp_path: Path) -> None:
    """Two ways to the tables, one door: facts, faults, violations and what both know of the run itself."""
    scenario, path = load_scenario("rolling-restart-static"), tmp_path / "t.kemu"
    cell = Cell(scenario.name, DEFAULT_PROFILE, (), scenario.to_dict())
    run_id = f"{path}@16"  # of a lone trace: where its header lies
    notes, times = NoteRows(run_id), FaultTimes()
    result = run(scenario, seed=3, loop="bare", trace=path, observers=(notes, times), checkers=(Speaks(),))
    live_run = run_row(
        run_id=run_id,
        cell=cell.name,
        scenario=result.scenario,
        profile=result.profile,
        seed=result.seed,
        scenario_json=json.dumps(cell.scenario),
        end=result,
        broke=result.broke,
        traced=True,
        measured=measured_columns(result, result_json="{}", command="kemu run"),
    )

    rows = rows_of(whole(path))

    told = [row for row in rows["notes"] if row[NOTES.names.index("fact")] not in DATA_PATH_NAMES]
    assert len(told) > 100
    assert [without(row, NOTES, "n") for row in told] == [without(row, NOTES, "n") for row in notes.rows()]
    assert rows["faults"] == [
        fault_row(run_id, each.index, each.kind, each.text, each.fired, times) for each in result.faults
    ]
    assert rows["violations"] == [violation_row(run_id, each) for each in result.violations] != []
    (of_trace,) = rows["runs"]
    by_column = zip(RUNS.names, of_trace, live_run, strict=True)
    known = {name: (told, live) for name, told, live in by_column if told is not None}
    assert {"digest", "verdict", "steps", "scenario_json"} <= known.keys()
    assert [name for name, (told, live) in known.items() if told != live] == []


def without(row: tuple[Any, ...], schema: Schema, name: str) -> tuple[Any, ...]:
    """A row but for one column."""
    index = schema.names.index(name)
    return (*row[:index], *row[index + 1 :])
