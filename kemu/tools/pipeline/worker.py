"""Run a chunk on an executor, and publish the complete results by a rename of their folder.

Spark may run a task twice (lost executor, speculation), on different machines. Each attempt writes into a temporary
folder and renames the folder to the chunk's name, which succeeds only once. A later attempt finds the name in use, and
deletes its own results. Both attempts have equal results, because scenario and seed decide a run.
"""

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.allowed_code import Code, code_allowed
from kemu.emulator.trace.blocks import first_block
from kemu.protocol.frozen import frozen
from kemu.tools.exits import OF_VERDICT
from kemu.tools.pipeline.cells import Cell, Chunk
from kemu.tools.pipeline.rows import (
    FaultTimes,
    NoteRows,
    downtime_rows,
    fault_row,
    measured_columns,
    reassignment_step_rows,
    rebalance_rows,
    restore_rows,
    run_row,
    task_downtime_rows,
    violation_row,
)
from kemu.tools.pipeline.shipping import fingerprint
from kemu.tools.pipeline.tables.columns import Schema
from kemu.tools.pipeline.tables.schemas import (
    COUNTED,
    DOWNTIME,
    FAULTS,
    NOTES,
    REASSIGNMENT_STEPS,
    REBALANCES,
    RESTORES,
    RUNS,
    TASK_DOWNTIME,
    VIOLATIONS,
)
from kemu.tools.report.run_report import as_dict

SUMMARY = "summary.json"
TRACES = "traces.kemu"


@frozen(kw_only=True)
class RunSummary:
    """The summary of a run that an executor returns to the driver."""

    seed: int
    verdict: str
    digest: str
    wall_s: float
    steps: int
    reason: str
    unfired: tuple[int, ...] = ()
    """Indexes of the plan's entries that never took effect."""


@frozen
class ChunkSummary:
    """The content of ``summary.json`` of a chunk: the number of the chunk, and its runs in the order of seeds."""

    chunk: int
    runs: tuple[RunSummary, ...]


class ChunkFailed(Exception):
    """A run could not start or end, or the results could not be written; the message states the reason."""


def run_id_of(campaign: str, cell: int, seed: int) -> str:
    """The id of a run, unique over all campaigns."""
    return f"{campaign}/{cell}/{seed}"


def run_chunk(out: str, campaign: str, chunk: Chunk, cell: Cell, keep_traces: str, wanted: str) -> int:
    """Run a chunk, unless the chunk is finished; return the number of runs.

    Args:
        out: The campaign's folder.
        campaign: The campaign's id.
        chunk: The chunk.
        cell: The cell of the chunk.
        keep_traces: "failing", "all" or "none".
        wanted: The ``fingerprint`` of the driver's code.

    Raises:
        ChunkFailed: the executor has other code, a run could not start or end, or results could not be written.
    """
    final = Path(out) / "chunks" / chunk.folder
    if (final / SUMMARY).exists():
        return chunk.runs
    if fingerprint() != wanted:
        raise ChunkFailed(
            f"this executor has another kemu ({fingerprint()}) than the driver ({wanted}): its runs could differ"
        )
    attempt = final.with_name(f".{chunk.folder}.{uuid.uuid4().hex}")
    try:
        attempt.mkdir(parents=True)
        with code_allowed(Code.INSTALLED):
            _run_into(attempt, campaign, chunk, cell, keep_traces)
        _publish(attempt, final)
    except OSError as error:
        raise ChunkFailed(f"chunk {chunk.number} cannot be written under {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
    return chunk.runs


def _publish(attempt: Path, final: Path) -> None:
    try:
        os.rename(attempt, final)
    except OSError:
        if not (final / SUMMARY).exists():
            raise


def _run_into(folder: Path, campaign: str, chunk: Chunk, cell: Cell, keep_traces: str) -> None:
    scenario = cell.build()
    rows = ChunkRows(campaign, chunk.cell, cell)
    told: list[RunSummary] = []
    with tempfile.TemporaryDirectory(prefix="kemu-") as scratch, (folder / TRACES).open("wb") as traces:
        for seed in range(chunk.first, chunk.last + 1):
            trace = None if keep_traces == "none" else Path(scratch) / "trace.kemu"
            result = rows.run(scenario, seed, trace, keep_traces)
            if trace is not None and (keep_traces == "all" or OF_VERDICT[result.verdict]):
                _append_trace(traces, trace)
            told.append(summary_of(result))
        sync(traces)
    if not (folder / TRACES).stat().st_size:
        (folder / TRACES).unlink()
    rows.write(folder)
    with (folder / SUMMARY).open("w", encoding="utf-8") as file:
        json.dump(attrs.asdict(ChunkSummary(chunk.number, tuple(told))), file)
        sync(file)


def summary_of(result: RunResult) -> RunSummary:
    """Return the summary of a run for the driver."""
    return RunSummary(
        seed=result.seed,
        verdict=result.verdict,
        digest=result.digest,
        wall_s=result.wall_s,
        steps=result.steps,
        reason=result.reason,
        unfired=tuple(fault.index for fault in result.faults if not fault.fired),
    )


class ChunkRows:
    """Collects the rows of a chunk's tables, run by run."""

    def __init__(self, campaign: str, number: int, cell: Cell) -> None:
        self._campaign = campaign
        self._number = number
        self._cell = cell
        self._scenario_json = json.dumps(cell.scenario)
        self._rows: dict[Schema, list[tuple[Any, ...]]] = {
            schema: [] for schema in (RUNS, NOTES, FAULTS, VIOLATIONS, *COUNTED)
        }

    def run(self, scenario: Scenario, seed: int, trace: Path | None, keep_traces: str) -> RunResult:
        """Run one seed with the bare event loop, and add the rows of the run."""
        run_id = run_id_of(self._campaign, self._number, seed)
        notes, times = NoteRows(run_id), FaultTimes()
        try:
            result = run(
                scenario, seed=seed, profile=self._cell.profile, loop="bare", trace=trace, observers=(notes, times)
            )
        except OSError:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ChunkFailed(
                f"{self._cell.name}, seed {seed}: {what}; repeat with: {self._cell.command(seed)}"
            ) from error
        traced = keep_traces == "all" or (keep_traces == "failing" and OF_VERDICT[result.verdict] != 0)
        self._rows[RUNS].append(
            run_row(
                run_id=run_id,
                cell=self._cell.name,
                scenario=result.scenario,
                profile=result.profile,
                seed=seed,
                scenario_json=self._scenario_json,
                end=result,
                broke=result.broke,
                traced=traced,
                settings=" ".join(self._cell.settings),
                actions=" + ".join(self._cell.actions),
                measured=measured_columns(result, json.dumps(as_dict(result)), self._cell.command(seed)),
            )
        )
        if not traced:  # a trace contains all notes
            self._rows[NOTES] += notes.rows()
        self._rows[FAULTS] += [
            fault_row(run_id, each.index, each.kind, each.text, each.fired, times) for each in result.faults
        ]
        self._rows[VIOLATIONS] += [violation_row(run_id, each) for each in result.violations]
        self._rows[REBALANCES] += rebalance_rows(run_id, result.figures)
        self._rows[DOWNTIME] += downtime_rows(run_id, result.figures)
        self._rows[REASSIGNMENT_STEPS] += reassignment_step_rows(run_id, result.figures)
        self._rows[TASK_DOWNTIME] += task_downtime_rows(run_id, result.figures)
        self._rows[RESTORES] += restore_rows(run_id, result.figures)
        return result

    def write(self, folder: Path) -> None:
        """Write one Parquet file per table."""
        for schema, rows in self._rows.items():
            write_parquet(folder / f"{schema.name}.parquet", schema, rows)


def write_parquet(path: Path, schema: Schema, rows: Iterable[tuple[Any, ...]]) -> None:
    """Write rows as a Parquet file, flushed to disk on return."""
    table = pa.Table.from_batches([schema.batch(list(rows))])
    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd")
        sync(file)


def sync(file: Any) -> None:
    """Flush written data to disk."""
    file.flush()
    os.fsync(file.fileno())


def _append_trace(traces: Any, trace: Path) -> None:
    """Append the blocks of a run's trace to the chunk's trace; write the head of the file before the first run."""
    content = trace.read_bytes()
    if traces.tell():
        content = content[first_block(trace) :]
    traces.write(content)
