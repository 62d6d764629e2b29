"""The work of the driver in a campaign: description, finished chunks, remaining runs, and results.

    OUT/campaign.json         the specification, and the chunks
    OUT/chunks/000017/        the results of one chunk, complete or absent: summary.json, runs.parquet,
                              notes.parquet, faults, violations, rebalances; traces.kemu if traces are kept

These files determine all other files. A resumed campaign runs the absent chunks.
"""

import hashlib
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kemu.emulator.runner import run
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.frozen import frozen
from kemu.tools.determinism.watch import fails
from kemu.tools.exits import OF_VERDICT
from kemu.tools.pipeline.cells import KEEP, Cell, Chunk, Spec, make_chunks
from kemu.tools.pipeline.errors import CampaignError, RunFailed, Unfinished
from kemu.tools.pipeline.files import damaged, read_file, write_whole
from kemu.tools.pipeline.worker import SUMMARY, ChunkSummary, RunSummary, run_chunk

if TYPE_CHECKING:
    from pyspark import SparkContext

SPEC = "campaign.json"
SAMPLES = 8
"""Number of runs that the driver repeats, to estimate durations and to compare digests with the executors."""
LOOK_EVERY_S = 0.5
_ID = re.compile(r"[^/\0]{1,200}")
"""The id becomes a part of paths."""


@frozen(kw_only=True)
class RunLine(RunSummary):
    """The summary of a run that an executor returns to the driver, with the number of its cell."""

    cell: int

    @property
    def failed(self) -> bool:
        """Whether ``kemu run`` would report a failure."""
        return OF_VERDICT[self.verdict] != 0


@frozen
class Campaign:
    """The folder and the description of a campaign."""

    out: Path
    id: str
    spec: Spec
    chunks: tuple[Chunk, ...]

    def done(self) -> set[int]:
        """The numbers of the finished chunks."""
        folder = self.out / "chunks"
        names = set(os.listdir(folder)) if folder.is_dir() else set()
        return {
            chunk.number
            for chunk in self.chunks
            if chunk.folder in names and (folder / chunk.folder / SUMMARY).exists()
        }

    def lines_of(self, chunk: Chunk) -> list[RunLine]:
        """The runs of a finished chunk.

        Raises:
            CampaignError: the summary of the chunk cannot be read, or is damaged.
        """
        path = self.out / "chunks" / chunk.folder / SUMMARY
        told = read_file(path, ChunkSummary)
        if told.chunk != chunk.number or len(told.runs) != chunk.runs:
            raise damaged(path, f"it must have the {chunk.runs} runs of chunk {chunk.number}")
        for index, run_ in enumerate(told.runs):
            if run_.seed != chunk.first + index:
                raise damaged(path, f"runs[{index}].seed must be {chunk.first + index}")
            if run_.verdict not in OF_VERDICT:
                raise damaged(path, f"runs[{index}].verdict must be one of {', '.join(OF_VERDICT)}")
        return [RunLine(**attrs.asdict(run_), cell=chunk.cell) for run_ in told.runs]

    def lines(self) -> list[RunLine]:
        """All runs, ordered by cell and seed.

        Raises:
            CampaignError: runs are missing.
        """
        missing = [chunk for chunk in self.chunks if chunk.number not in self.done()]
        if missing:
            runs = sum(chunk.runs for chunk in missing)
            raise CampaignError(f"{self.out}: {runs} of {self.spec.runs} runs are missing; continue with --resume")
        found = [line for chunk in self.chunks for line in self.lines_of(chunk)]
        found.sort(key=lambda line: (line.cell, line.seed))
        if len({(line.cell, line.seed) for line in found}) != self.spec.runs:
            raise damaged(self.out / SPEC, "chunks must have every run exactly once")
        return found


def sample_runs(spec: Spec) -> dict[tuple[int, int], tuple[str, float]]:
    """Make some runs of different cells on the driver; return (cell, seed) -> (digest, seconds)."""
    step = max(1, len(spec.cells) // SAMPLES)
    made = {}
    for number in list(range(0, len(spec.cells), step))[:SAMPLES]:
        cell = spec.cells[number]
        result = run(cell.build(), seed=spec.first_seed, profile=cell.profile, loop="bare")
        made[number, spec.first_seed] = (result.digest, result.wall_s)
    return made


def refuse_existing(out: Path) -> None:
    """Raise ``CampaignError`` if the folder holds a campaign."""
    if (out / SPEC).exists():
        raise CampaignError(f"{out} holds a campaign already: --resume continues it, another --out begins a new one")


def begin(out: Path, spec: Spec, seconds: Mapping[int, float], cores: int) -> Campaign:
    """Write the description of a new campaign.

    Raises:
        CampaignError: the folder contains a campaign already, or cannot be written.
    """
    refuse_existing(out)
    digest = hashlib.blake2b(json.dumps(spec.to_dict(), sort_keys=True).encode(), digest_size=4).hexdigest()
    campaign = Campaign(out, f"{out.resolve().name}-{digest}", spec, make_chunks(spec, seconds, cores))
    chunks = [(chunk.number, chunk.cell, chunk.first, chunk.last) for chunk in campaign.chunks]
    try:
        (out / "chunks").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CampaignError(f"{out} cannot be written: {error.strerror}") from None
    write_whole(out / SPEC, json.dumps({"id": campaign.id, "spec": spec.to_dict(), "chunks": chunks}))
    return campaign


def load(out: Path) -> Campaign:
    """Read the campaign of a folder.

    Raises:
        CampaignError: the folder contains no campaign, or the description cannot be read.
    """
    path = out / SPEC
    if not path.exists():
        raise CampaignError(f"{out} holds no campaign (it has no {SPEC})")
    file = read_file(path, _CampaignFile)
    spec, chunks = file.spec, tuple(Chunk(*chunk) for chunk in file.chunks)
    if not _ID.fullmatch(file.id) or spec.keep_traces not in KEEP:
        raise damaged(path, "id must be a name, and spec.keep_traces one of " + ", ".join(KEEP))
    if not spec.cells or len({len(cell.settings) for cell in spec.cells}) > 1:
        raise damaged(path, "spec.cells must be one or more, with equally many settings")
    for index, chunk in enumerate(chunks):
        inside = spec.first_seed <= chunk.first <= chunk.last <= spec.last_seed
        if chunk.number != index or not inside or not 0 <= chunk.cell < len(spec.cells):
            raise damaged(path, f"chunks[{index}] must have this number, a cell and seeds of the campaign")
    if sum(chunk.runs for chunk in chunks) != spec.runs:
        raise damaged(path, f"chunks must have the {spec.runs} runs of the campaign")
    return Campaign(out, file.id, spec, chunks)


@frozen
class _CampaignFile:
    """The content of ``campaign.json``. A chunk is (number, cell, first seed, last seed)."""

    id: str
    spec: Spec
    chunks: tuple[tuple[int, int, int, int], ...]


def resume(out: Path, spec: Spec) -> Campaign:
    """Read the campaign of a folder, which must have the specification ``spec``.

    Raises:
        CampaignError: the folder has another campaign.
    """
    campaign = load(out)
    if campaign.spec.fingerprint != spec.fingerprint:
        raise CampaignError(f"{out} was begun by another version of kemu: its runs would not compare; begin anew")
    for field in ("cells", "first_seed", "last_seed", "keep_traces"):
        if getattr(campaign.spec, field) != getattr(spec, field):
            said = {"cells": "scenarios, profiles, --grid or --do", "keep_traces": "--keep-traces"}.get(
                field, "--seeds"
            )
            raise CampaignError(f"{out} holds a campaign with other {said}: give the same ones, or another --out")
    return campaign


def run_rest(context: "SparkContext", campaign: Campaign, tell: Callable[[list[RunLine], int], None]) -> None:
    """Run every chunk that is not finished.

    Args:
        context: Spark.
        campaign: The campaign.
        tell: Called at intervals with the newly finished runs, and with the number of all finished runs.

    Raises:
        RunFailed: in every attempt of Spark, a run raised an exception.
        Unfinished: a result could not be written, or Spark failed.
    """
    _remove_attempts(campaign.out)
    done = campaign.done()
    todo = [chunk for chunk in campaign.chunks if chunk.number not in done]
    if not todo:
        return
    watch = _Watch(campaign, done, tell)
    out, identity, keep = str(campaign.out.resolve()), campaign.id, campaign.spec.keep_traces
    wanted = campaign.spec.fingerprint
    cells = context.broadcast(campaign.spec.cells)

    def work(chunk: Chunk) -> int:
        return run_chunk(out, identity, chunk, cells.value[chunk.cell], keep, wanted)

    try:
        with watch:
            context.parallelize(todo, len(todo)).map(work).sum()
    except Exception as error:
        why = why_failed(error)
        raise (RunFailed if "repeat with:" in why else Unfinished)(why) from error
    _remove_attempts(campaign.out)


def _remove_attempts(out: Path) -> None:
    """Remove the remains of chunks that were not finished."""
    for left in (out / "chunks").glob(".*"):
        shutil.rmtree(left, ignore_errors=True)


def executors_see(context: "SparkContext", must_fail: Scenario) -> bool:
    """Whether an executor finds the violation of a canary run (``tools.determinism.watch.canary``)."""
    plain = must_fail.to_dict()

    def seen(_: int) -> bool:
        return fails(scenario_from_dict(plain))

    return bool(context.parallelize([0], 1).map(seen).first())


def why_failed(error: BaseException) -> str:
    """The reason of a failed Spark job, without the messages that Spark adds."""
    text = str(error)
    for line in text.splitlines():
        _, found, reason = line.partition("ChunkFailed: ")
        if found:
            return reason.strip()
    raised = [line for line in text.splitlines() if re.match(r"[\w.]*(Error|Exception): ", line)]
    if raised:
        return f"an executor failed: {raised[-1].strip()}"
    for line in text.splitlines():
        if "Job aborted" in line or "cancelled" in line or "Could not recover" in line:
            return line.strip()
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


class _Watch:
    """A thread that looks for finished chunks, while the main thread waits for Spark's job."""

    def __init__(self, campaign: Campaign, done: Iterable[int], tell: Callable[[list[RunLine], int], None]) -> None:
        self._campaign = campaign
        self._known = set(done)
        self._tell = tell
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._look()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        with suppress(CampaignError):  # a damaged chunk: ``__exit__`` looks again, and raises the error
            while not self._over.wait(LOOK_EVERY_S):
                self._look()

    def _look(self) -> None:
        by_number = {chunk.number: chunk for chunk in self._campaign.chunks}
        fresh = sorted(self._campaign.done() - self._known)
        lines = [line for number in fresh for line in self._campaign.lines_of(by_number[number])]
        self._known.update(fresh)
        self._tell(lines, sum(by_number[number].runs for number in self._known))


def differing(
    lines: Sequence[RunLine], samples: Mapping[tuple[int, int], tuple[str, float]]
) -> list[tuple[int, int, str, str]]:
    """Runs with different digests on the driver and on an executor: (cell, seed, driver's, executor's digest)."""
    found = {(line.cell, line.seed): line.digest for line in lines}
    return [(*key, digest, found[key]) for key, (digest, _) in sorted(samples.items()) if found[key] != digest]


def table_of_cells(cells: Sequence[Cell], lines: Sequence[RunLine]) -> list[dict[str, Any]]:
    """One row per cell: runs, runs that hold, failures by verdict, and the first failing seed."""
    rows = []
    for number, cell in enumerate(cells):
        mine = [line for line in lines if line.cell == number]
        failed = [line for line in mine if line.failed]
        counts = {verdict: sum(line.verdict == verdict for line in mine) for verdict in OF_VERDICT}
        rows.append(
            {
                "cell": cell.name,
                "runs": len(mine),
                "failed": len(failed),
                **{verdict: count for verdict, count in counts.items() if count},
                **({"never_fired": len(unfired)} if (unfired := _unfired_in_all(mine)) else {}),
                "first_failing_seed": min((line.seed for line in failed), default=None),
                "mean_wall_s": round(sum(line.wall_s for line in mine) / len(mine), 4),
            }
        )
    return rows


def _unfired_in_all(lines: Sequence[RunLine]) -> set[int]:
    """Indexes of the plan's entries that took effect in no run of a cell."""
    return set.intersection(*(set(line.unfired) for line in lines)) if lines else set()


class Rate:
    """The progress of a campaign as text: number of runs, speed, remaining time."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._began_s = time.monotonic()
        self._before: int | None = None
        self.failed = 0

    def text(self, lines: Sequence[RunLine], done: int) -> str:
        """The text after ``lines`` are finished; ``done``: the number of all finished runs."""
        self.failed += sum(line.failed for line in lines)
        if self._before is None:
            self._before = done  # runs of an earlier attempt do not count as speed
        spent_s = time.monotonic() - self._began_s
        rate = (done - self._before) / spent_s if spent_s > 0 else 0.0
        left = f", {_span((self._total - done) / rate)} left" if rate and done < self._total else ""
        return f"{done:,} of {self._total:,} runs, {rate:.1f}/s, {self.failed} failed{left}"


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
