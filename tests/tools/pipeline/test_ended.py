"""``kemu campaign`` and ``kemu analyze`` on Spark, ended early in every way: rows of the table of interrupts.

One campaign is ended again and again, each time after it has finished more chunks, until a last command finishes it.
The same is done with an analysis of this campaign. The results must be those of an undisturbed campaign and analysis.
"""

import json
import os
import resource
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from attrs import frozen

from kemu.tools.pipeline.campaign import Campaign, begin, load
from kemu.tools.pipeline.cells import Spec, make_cells
from kemu.tools.pipeline.ingest import SCHEMAS
from kemu.tools.pipeline.parts import read_parts
from kemu.tools.pipeline.run import analyze
from kemu.tools.pipeline.shipping import fingerprint
from kemu.tools.pipeline.summaries import SUMMARIES
from kemu.tools.pipeline.worker import run_chunk
from tests.tools.pipeline.conftest import write_small
from tests.tools.pipeline.processes import (
    KEMU,
    SLOWEST_S,
    chunks_of,
    end_started,
    environment,
    in_session,
    started,
    wait_until,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DURATIONS = [f"{seconds}s" for seconds in range(60, 76)]
"""One cell for each, and so one chunk for each."""
TO_ALL = {signal.SIGINT, signal.SIGHUP, signal.SIGKILL}
"""Ctrl-C, a closed terminal and a power cut reach all processes; ``kill`` reaches one."""
CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "SIGKILL": -9, "full": 2}
SMALL_BYTES = 8_000
"""The limit of a file's size, which acts as a full disk does."""


@frozen
class Ended:
    """A command that was ended early."""

    code: int
    said: str
    kept: int
    """Finished chunks, or valid parts of the tables."""
    left: int
    """Processes that stayed."""


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_BYTES, SMALL_BYTES))


class Endings:
    """Runs one command again and again in a folder, and ends it in different ways."""

    def __init__(self, root: Path, words: list[str], kept: Callable[[], int]) -> None:
        self.root, self.words, self._kept = root, words, kept
        self.ended: dict[str, Ended] = {}

    def signal(self, number: signal.Signals, moment: Callable[[], bool], *more: str) -> None:
        """Send a signal at a moment."""
        log, before = self.root / f"{number.name}.log", self._kept()
        process = started(*KEMU, *self.words, *more, log=log, cwd=self.root)
        wait_until(lambda: process.poll() is not None or moment(), SLOWEST_S, number.name)
        assert process.poll() is None, f"{number.name}: {before} and {self._kept()} kept: {log.read_text()}"
        (os.killpg if number in TO_ALL else os.kill)(process.pid, number)
        code = process.wait(timeout=SLOWEST_S)
        self._note(number.name, code, log.read_text(), process.pid)

    def fill_disk(self, *more: str) -> None:
        """Limit the size of files."""
        log = self.root / "full.log"
        process = started(*KEMU, *self.words, *more, log=log, cwd=self.root, preexec_fn=limit)
        self._note("full", process.wait(timeout=SLOWEST_S), log.read_text(), process.pid)

    def _note(self, name: str, code: int, said: str, session: int) -> None:
        wait_until(lambda: not in_session(session), SLOWEST_S, "the end of all processes")
        self.ended[name] = Ended(code, said, self._kept(), len(in_session(session)))


# --- campaign --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """The campaign, made in this process."""
    root = tmp_path_factory.mktemp("undisturbed")
    with chdir(root):  # the name of the file is a part of the campaign
        cells = make_cells([write_small(root).name], [], [f"duration={','.join(DURATIONS)}"])
    made = begin(root / "out", Spec(cells, 1, 1, "all", fingerprint()), {}, 1)
    for chunk in made.chunks:
        run_chunk(str(made.out), made.id, chunk, cells[chunk.cell], "all", fingerprint())
    return made


@pytest.fixture(scope="module")
def disturbed(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endings]:
    """The same campaign, ended five times, and then finished with a full standard output.

    The session puts all tests of this file into the full set, and into one process.
    """
    root = tmp_path_factory.mktemp("disturbed")
    out = root / "out"
    words = ["campaign", write_small(root).name, "--grid", f"duration={','.join(DURATIONS)}", "--seeds", "1:1"]
    words += ["--keep-traces", "all", "--out", "out", "--master", "local[1]"]
    endings = Endings(root, words, lambda: len(chunks_of(out)))

    def after(chunks: int) -> Callable[[], bool]:
        before = len(chunks_of(out))
        return lambda: len(chunks_of(out)) >= before + chunks

    endings.signal(signal.SIGINT, after(2))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        endings.signal(number, after(1), "--resume")
    endings.fill_disk("--resume")
    with Path("/dev/full").open("wb") as full:
        last = subprocess.run(
            [*KEMU, *words, "--resume"], cwd=root, stdout=full, stderr=subprocess.PIPE, text=True, env=environment()
        )
    endings.ended["no output"] = Ended(last.returncode, last.stderr, len(chunks_of(out)), 0)
    yield endings
    end_started()


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGHUP", "full"])
def test_a_campaign_that_ends_early_keeps_its_chunks_and_names_the_command_that_continues(
    disturbed: Endings, how: str
) -> None:
    ended = disturbed.ended[how]
    whole = len(DURATIONS)

    assert ended.code == CODES[how], ended.said
    assert "Traceback" not in ended.said
    assert "Exception" not in ended.said
    done = f"{ended.kept} of {whole} runs are finished and kept; "
    assert ended.said.splitlines()[-1].endswith(f"{done}continue with: kemu {shlex.join(disturbed.words)} --resume"), (
        ended.said
    )
    assert 0 < ended.kept < whole
    assert ended.left == 0


def test_each_end_keeps_what_was_finished_before(disturbed: Endings) -> None:
    """SIGKILL, too."""
    assert disturbed.ended["SIGKILL"].code == CODES["SIGKILL"]
    kept = [ended.kept for ended in disturbed.ended.values()]
    assert kept == sorted(kept)
    assert kept[-1] == len(DURATIONS)


def test_a_full_disk_of_a_chunk_is_one_error_that_names_the_folder(disturbed: Endings) -> None:
    (error,) = [line for line in disturbed.ended["full"].said.splitlines() if line.startswith("error")]
    assert "cannot be written under " in error
    assert "File too large" in error


def test_a_campaign_whose_output_cannot_be_written_is_finished(disturbed: Endings) -> None:
    last = disturbed.ended["no output"]
    assert last.code == 74
    assert [line for line in last.said.splitlines() if line.startswith("error")] == [
        "error: the output cannot be written: No space left on device"
    ]


def test_the_files_of_a_campaign_that_was_ended_and_resumed_are_those_of_an_undisturbed_one(
    undisturbed: Campaign, disturbed: Endings
) -> None:
    out = disturbed.root / "out"
    assert [(line.cell, line.seed, line.verdict, line.digest) for line in load(out).lines()] == [
        (line.cell, line.seed, line.verdict, line.digest) for line in undisturbed.lines()
    ]
    for path in sorted(undisturbed.out.glob("chunks/0*/*")):
        other = out / path.relative_to(undisturbed.out)
        if path.suffix == ".parquet":
            assert plain(other) == plain(path), path.name
        elif path.name == "traces.kemu":
            assert other.read_bytes() == path.read_bytes()


def plain(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, without times of the real clock."""
    names = [name for name in pq.read_schema(path).names if name not in ("wall_s", "result_json")]
    found: list[dict[str, Any]] = pq.ParquetFile(path).read(names).to_pylist()
    return found


# --- analyze ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def analyzed(disturbed: Endings) -> Iterator[Endings]:
    """An analysis of the resumed campaign, ended five times, and then finished."""
    out = disturbed.root / "tables-and-summaries"
    words = ["analyze", "out", "--out", out.name, "--master", "local[2]", "--format", "json"]

    def parts() -> int:
        known = read_parts(out / "tables")
        return 0 if known is None else len(known.parts)

    endings = Endings(disturbed.root, words, parts)

    def times() -> set[int]:
        return {path.stat().st_mtime_ns for path in (out / "tables").glob("part=*")}

    def in_ingest() -> Callable[[], bool]:
        before = times()
        return lambda: before.isdisjoint(times()) and any((out / "tables").glob("part=*/table=*/campaign=*/*"))

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        endings.signal(number, in_ingest())
    endings.fill_disk()
    endings.signal(signal.SIGHUP, lambda: parts() == 1)
    last = subprocess.run([*KEMU, *words], cwd=disturbed.root, capture_output=True, text=True, env=environment())
    endings.ended["last"] = Ended(last.returncode, last.stdout + last.stderr, parts(), 0)
    yield endings


@pytest.mark.parametrize(("how", "kept"), [("SIGINT", 0), ("SIGTERM", 0), ("full", 0), ("SIGHUP", 1)])
def test_an_analysis_that_ends_early_names_the_command_to_repeat(analyzed: Endings, how: str, kept: int) -> None:
    """SIGHUP comes after the part of the tables is valid."""
    ended = analyzed.ended[how]

    assert ended.code == CODES[how], ended.said
    assert "Traceback" not in ended.said
    assert "Exception" not in ended.said
    assert ended.said.splitlines()[-1].endswith(
        f"finished tables are kept; repeat with: kemu {shlex.join(analyzed.words)}"
    ), ended.said
    assert ended.kept == kept
    assert ended.left == 0


def test_a_full_disk_of_a_table_is_one_error(analyzed: Endings) -> None:
    (error,) = [line for line in analyzed.ended["full"].said.splitlines() if line.startswith("error")]
    assert error.endswith("/part=0000 cannot be written: File too large")


def test_the_tables_after_kill_9_and_another_analysis_are_those_of_an_undisturbed_one(
    spark: "SparkSession", analyzed: Endings, undisturbed: Campaign, tmp_path: Path
) -> None:
    assert analyzed.ended["SIGKILL"].code == CODES["SIGKILL"]
    assert analyzed.ended["last"].code == 0, analyzed.ended["last"].said
    assert json.loads(analyzed.ended["last"].said)["broken_constraints"] == []
    analyze(spark.sparkContext, undisturbed.out, tmp_path, say=lambda text: None)

    out = analyzed.root / "tables-and-summaries"
    for name in SCHEMAS:
        assert rows_of(out, name) == rows_of(tmp_path, name), name
    for name in SUMMARIES:
        assert plain(out / "summaries" / f"{name}.parquet") == plain(tmp_path / "summaries" / f"{name}.parquet"), name


def rows_of(out: Path, table: str) -> list[str]:
    """The rows of a table, in the order of their texts."""
    known = read_parts(out / "tables")
    assert known is not None
    return sorted(repr(row) for path in known.files(table) for row in plain(path))
