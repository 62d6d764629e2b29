"""What an executor does, called directly; no Spark."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kemu.emulator.runner import run
from kemu.emulator.trace.traces import Footer, read_runs
from kemu.tools.pipeline import worker
from kemu.tools.pipeline.cells import Cell, Chunk, make_cells
from kemu.tools.pipeline.shipping import build_archive, fingerprint
from kemu.tools.pipeline.worker import ChunkFailed, run_chunk
from kemu.tools.report.run_report import as_dict
from tests.tools.pipeline.conftest import write_small

CHUNK = Chunk(0, 0, 3, 5)


def cell_of(folder: Path) -> Cell:
    """The small scenario as a cell."""
    (cell,) = make_cells([str(write_small(folder))], ["kafka-3.4"], [])
    return cell


def content_of(folder: Path) -> dict[str, object]:
    """A chunk's tables but for the wall clock, and its traces."""
    tables: dict[str, object] = {}
    for path in sorted(folder.glob("*.parquet")):
        rows = pq.read_table(path).to_pylist()
        for row in rows:
            row.pop("wall_s", None)
            if row.get("result_json"):
                row["result_json"] = {**json.loads(row["result_json"]), "wall_s": 0}
        tables[path.name] = rows
    tables["traces"] = (folder / "traces.kemu").read_bytes()
    return tables


def test_a_chunk_holds_the_runs_that_kemu_run_would_make(tmp_path: Path) -> None:
    """Same results as ``kemu run`` for any cell."""
    cell = cell_of(tmp_path)

    run_chunk(str(tmp_path), "c", CHUNK, cell, "all", fingerprint())

    folder = tmp_path / "chunks" / "000000"
    rows = pq.read_table(folder / "runs.parquet").to_pylist()
    traces = list(read_runs(folder / "traces.kemu"))
    for seed, row, trace in zip((3, 4, 5), rows, traces, strict=True):
        alone = as_dict(run(cell.build(), seed=seed, profile="kafka-3.4", loop="trio"))
        told = json.loads(row["result_json"])
        for own in ("wall_s", "loop"):
            del alone[own], told[own]
        assert told == json.loads(json.dumps(alone))
        footer = list(trace.records())[-1]
        assert isinstance(footer, Footer)
        assert footer.digest == row["digest"] == alone["digest"]


def test_a_task_that_runs_twice_leaves_one_chunk(tmp_path: Path) -> None:
    """Speculation: the attempt that comes second finds the name taken and throws its own away."""
    cell = cell_of(tmp_path)
    run_chunk(str(tmp_path), "c", CHUNK, cell, "all", fingerprint())
    folder = tmp_path / "chunks" / "000000"
    first = content_of(folder)
    attempt = tmp_path / "chunks" / ".attempt"
    attempt.mkdir()
    worker._run_into(attempt, "c", CHUNK, cell, "all")
    second = content_of(attempt)

    worker._publish(attempt, folder)

    assert first == second == content_of(folder)


def test_an_attempt_that_ends_in_the_middle_leaves_nothing_under_the_chunks_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk is there whole or not at all."""
    cell = cell_of(tmp_path)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(worker.ChunkRows, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        run_chunk(str(tmp_path), "c", CHUNK, cell, "all", fingerprint())

    assert list((tmp_path / "chunks").iterdir()) == []


def test_an_executor_with_another_kemu_refuses(tmp_path: Path) -> None:
    """Its digests could differ and nobody would know why."""
    with pytest.raises(ChunkFailed, match="another kemu"):
        run_chunk(str(tmp_path), "c", CHUNK, cell_of(tmp_path), "none", "0123")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writing more than this into one file fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more_is_a_clear_error_and_leaves_no_chunk(tmp_path: Path) -> None:
    """Disk full on output: never silently less."""
    cell = cell_of(tmp_path)

    with largest_file(20_000), pytest.raises(ChunkFailed, match=r"cannot be written under .*: File too large"):
        run_chunk(str(tmp_path), "c", CHUNK, cell, "all", fingerprint())

    assert list((tmp_path / "chunks").iterdir()) == []


@pytest.mark.parametrize(("keep", "traced"), [("all", 3), ("failing", 0), ("none", 0)])
def test_traces_are_kept_as_asked(tmp_path: Path, keep: str, traced: int) -> None:
    """--keep-traces; runs that hold are not failing. Facts are complete where the trace is, and there only."""
    run_chunk(str(tmp_path), "c", CHUNK, cell_of(tmp_path), keep, fingerprint())

    folder = tmp_path / "chunks" / "000000"
    kept = len(list(read_runs(folder / "traces.kemu"))) if (folder / "traces.kemu").exists() else 0
    rows = pq.read_table(folder / "runs.parquet").to_pylist()
    notes = pq.read_table(folder / "notes.parquet")
    assert kept == traced == sum(row["traced"] for row in rows)
    assert (notes.num_rows == 0) == (keep == "all")


def test_a_run_that_cannot_be_made_names_the_command_that_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake of ours on some executor must be easy to look at here."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(worker, "run", fail)
    with pytest.raises(ChunkFailed, match=r"seed 3: ValueError: no such thing; repeat with: kemu run .* --seed 3$"):
        run_chunk(str(tmp_path), "c", CHUNK, cell_of(tmp_path), "all", fingerprint())


def test_failing_runs_keep_their_traces(mixed: Path, tmp_path: Path) -> None:
    """The default: what fails can be explained."""
    (cell,) = make_cells([str(mixed)], ["kafka-3.4"], [])

    run_chunk(str(tmp_path), "c", Chunk(0, 0, 1, 8), cell, "failing", fingerprint())

    rows = pq.read_table(tmp_path / "chunks" / "000000" / "runs.parquet").to_pylist()
    failing = [row["seed"] for row in rows if row["verdict"] != "holds"]
    traces = tmp_path / "chunks" / "000000" / "traces.kemu"
    assert [trace.header.seed for trace in read_runs(traces)] == failing
    assert 0 < len(failing) < 8


def test_the_archive_for_executors_works_alone_and_is_the_same_code(tmp_path: Path) -> None:
    """The package is shipped as one artefact: presets and all, importable from the archive, same fingerprint."""
    archive = build_archive(tmp_path)
    code = (
        "from kemu.tools.pipeline.shipping import fingerprint; from kemu.emulator.scenario.presets import presets; "
        "import kemu; print(fingerprint(), len(presets()) > 10, '.zip' in kemu.__file__)"
    )

    said = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); {code}"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    assert said.split() == [fingerprint(), "True", "True"]
