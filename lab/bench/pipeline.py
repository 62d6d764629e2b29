"""The pipeline: campaigns compared with a loop in one process, the trace source with Parquet, and cost by size."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from kemu.emulator.runner import run
from kemu.tools.pipeline.campaign import begin, run_rest
from kemu.tools.pipeline.cells import Spec, make_cells
from kemu.tools.pipeline.run import analyze
from kemu.tools.pipeline.session import LEAN, start_context, start_spark
from kemu.tools.pipeline.shipping import fingerprint
from kemu.tools.pipeline.source import read_rates

PRESET = "cooperative-scale-in"
CORES = 2
MASTER = f"local[{CORES}]"
Say = Callable[[str], None]


def measure(say: Say, *, quick: bool) -> dict[str, Any]:
    """Runs per second, events per second and seconds per event; ``quick`` uses a twentieth of the size."""
    runs = 40 if quick else 600
    sizes = (20_000, 100_000) if quick else (100_000, 1_000_000, 10_000_000)
    figures: dict[str, Any] = {"load when it began": round(os.getloadavg()[0], 2)}
    with tempfile.TemporaryDirectory(prefix="kemu-bench-") as folder:
        place = Path(folder)
        figures |= _from_the_prompt(say, place)
        # A process has only one JVM, and campaigns and analyses start Java with different options, so each gets a
        # process.
        with _processes(1) as other:
            figures |= other.submit(_campaign, place, runs).result()
        say(f"campaign: {runs} runs in {figures['campaign (s)']} s")
        spark = start_spark("kemu bench", master=MASTER, memory="2g", log=place / "spark.log")
        try:
            trace = place / "one.kemu"
            made = run(make_cells([PRESET], ["kafka-3.4"], [])[0].build(), seed=1, loop="bare", trace=trace)
            say(f"one trace: {made.steps:,} steps, {trace.stat().st_size:,} bytes")
            figures |= _rates(say, spark, place, trace, 4 if quick else 40)
            for size in sizes:
                figures |= _analysis(say, spark, place, trace, size)
        finally:
            spark.stop()
    return figures


def _from_the_prompt(say: Say, place: Path) -> dict[str, Any]:
    """Seconds of a campaign of 12 runs and of its analysis as commands, with the starts of Python and Java."""
    out = str(place / "prompt")
    figures = {}
    for words in (["campaign", PRESET, "steady-group", "--seeds", "1:6", "--out", out], ["analyze", out]):
        began_s = time.perf_counter()
        subprocess.run([sys.executable, "-m", "kemu", *words, "--master", MASTER], check=True, capture_output=True)
        figures[f"12 runs from the prompt: {words[0]} (s)"] = round(time.perf_counter() - began_s, 1)
    say(str(figures))
    return figures


def _loop(spec: Spec, seeds: range) -> tuple[float, float]:
    """Wall seconds and CPU seconds per run of a loop in this process."""
    cell = spec.cells[0]
    scenario = cell.build()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    for seed in seeds:
        run(scenario, seed=seed, profile=cell.profile, loop="bare")
    return (time.perf_counter() - began_s) / len(seeds), (time.process_time() - began_cpu_s) / len(seeds)


def _loops_at_once(spec: Spec, seeds: range, count: int) -> float:
    """Wall seconds per run of each of several loops, which run at once in processes of their own."""
    with _processes(count) as processes:
        list(processes.map(_loop, [spec] * count, [seeds[:2]] * count))  # the first run imports modules
        return sum(wall_s for wall_s, _ in processes.map(_loop, [spec] * count, [seeds] * count)) / count


def _processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


def _campaign(place: Path, runs: int) -> dict[str, Any]:
    """Measure a campaign in a process of its own."""
    began_s = time.perf_counter()
    context = start_context("kemu bench", master=MASTER, log=place / "spark.log", java_options=LEAN)
    start_s = time.perf_counter() - began_s
    try:
        return {"session start (s)": round(start_s, 1), **_measured(context, place, runs)}
    finally:
        context.stop()


def _measured(context: Any, place: Path, runs: int) -> dict[str, Any]:
    spec = Spec(make_cells([PRESET], ["kafka-3.4"], []), 1, runs, "failing", fingerprint())
    some = range(1, max(10, runs // 10))
    before_at_once = _loops_at_once(spec, some, CORES)
    before, before_cpu = _loop(spec, some)
    campaign = begin(place / "campaign", spec, {0: before}, CORES)
    began_s, began_cpu_s = time.perf_counter(), _spent_s(os.getpid())
    run_rest(context, campaign, lambda lines, done: None)
    took_s, cpu_s = time.perf_counter() - began_s, _spent_s(os.getpid()) - began_cpu_s
    after, after_cpu = _loop(spec, some)
    # The machine may be shared, so the loops run before and after the campaign.
    at_once = (before_at_once + _loops_at_once(spec, some, CORES)) / 2
    alone, alone_cpu = (before + after) / 2, (before_cpu + after_cpu) / 2
    inside = sum(line.wall_s for line in campaign.lines()) / runs
    return {
        "loop (s per run)": round(alone, 4),
        "campaign (s)": round(took_s, 1),
        "campaign against loop": round(alone * runs / took_s, 2),
        f"{CORES} loops at once (s per run)": round(at_once, 4),
        f"cores of {CORES} that a campaign keeps busy": round(cpu_s / took_s, 2),
        f"cores of {CORES} that a campaign keeps busy with runs": round(at_once * runs / took_s, 2),
        "run inside a campaign (s)": round(inside, 4),
        "overhead per run (ms of a core)": round(1000 * (cpu_s / runs - alone_cpu), 1),
        "campaign against loop on idle cores, by processor time": round(CORES * alone_cpu * runs / cpu_s, 2),
    }


def _rates(say: Say, spark: Any, place: Path, trace: Path, copies: int) -> dict[str, Any]:
    folder = place / "rates"
    _copies(trace, folder, copies)
    source, parquet = read_rates(spark, folder, place / "parquet")
    say(f"source {source:,.0f} rows/s, Parquet {parquet:,.0f} rows/s")
    return {
        "source (rows/s)": round(source),
        "the same from Parquet (rows/s)": round(parquet),
        "Parquet against source": round(parquet / source, 1),
    }


def _analysis(say: Say, spark: Any, place: Path, trace: Path, events: int) -> dict[str, Any]:
    """Time to analyze separate traces with this total number of steps, packets and facts."""
    folder = place / f"analysis-{events}"
    one = make_cells([PRESET], ["kafka-3.4"], [])[0]
    counted = _events_of(one)
    _copies(trace, folder, max(1, round(events / counted)))
    before = _stages_by_job(spark)
    with _Memory() as memory:
        began_s = time.perf_counter()
        done = analyze(spark.sparkContext, folder, place / f"out-{events}", say=lambda text: None)
        took_s = time.perf_counter() - began_s
    stages = [count for job, count in _stages_by_job(spark).items() if job not in before]
    rows = sum(done.rows[name] for name in ("steps", "packets", "notes"))
    assert not done.broken, [broken.text() for broken in done.broken]
    say(f"{rows:,} events in {took_s:.1f} s, at most {memory.most_bytes / 2**30:.2f} GiB: {done.seconds}")
    shutil.rmtree(folder)
    shutil.rmtree(place / f"out-{events}")
    name = f"{events:,} events"
    return {
        f"{name}: events": rows,
        f"{name}: s": round(took_s, 1),
        f"{name}: us per event": round(1e6 * took_s / rows, 1),
        f"{name}: Spark jobs": len(stages),
        f"{name}: Spark stages": sum(stages),
        f"{name}: memory of all processes (GiB)": round(memory.most_bytes / 2**30, 2),
        f"{name}: s by table": done.seconds,
    }


def _stages_by_job(spark: Any) -> dict[int, int]:
    """Spark's jobs so far, each with its number of stages; Spark keeps the last 1,000 jobs."""
    tracker = spark.sparkContext.statusTracker()
    found = {job: tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup()}
    return {job: len(info.stageIds) for job, info in found.items() if info is not None}


class _Counter:
    def __init__(self) -> None:
        self.facts = 0

    def see(self, seen: object) -> None:
        self.facts += 1


def _events_of(cell: Any) -> int:
    """Approximate number of rows of a run's trace: steps, packets (some have two records) and facts."""
    counter = _Counter()
    result = run(cell.build(), seed=1, profile=cell.profile, loop="bare", observers=(counter,))
    return result.steps + result.messages + counter.facts


def _copies(trace: Path, folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        shutil.copy(trace, folder / f"{number}.kemu")


class _Memory:
    """Peak resident memory of this process and its descendants; a shared page is counted once for each process."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.most_bytes = max(self.most_bytes, _held_bytes(os.getpid()))


def _held_bytes(root: int) -> int:
    """Memory of a process and its descendants."""
    return sum(int(stat[21]) for stat in _below(root)) * os.sysconf("SC_PAGE_SIZE")


def _spent_s(root: int) -> float:
    """CPU time of a process and its descendants, including finished children."""
    return sum(int(ticks) for stat in _below(root) for ticks in stat[11:15]) / os.sysconf("SC_CLK_TCK")


def _below(root: int) -> list[list[str]]:
    """The fields of /proc/PID/stat after the name, for a process and each descendant; [] without /proc."""
    found: dict[int, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
    inside = []
    for process, stat in found.items():
        at = process
        while at not in (0, root):
            at = int(found[at][1]) if at in found else 0
        if at == root:
            inside.append(stat)
    return inside
