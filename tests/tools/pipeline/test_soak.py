"""Faults of the pipeline itself, and its size: ``pytest -m soak tests/tools/pipeline`` (some minutes)."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from kemu.emulator.runner import run
from kemu.tools.pipeline.campaign import load
from kemu.tools.report.run_report import as_dict
from tests.tools.pipeline.processes import (
    KEMU,
    ROOT,
    SLOWEST_S,
    chunks_of,
    end_started,
    in_session,
    kill_group,
    started,
    wait_until,
)

pytestmark = pytest.mark.soak

PRESET = "cooperative-scale-in"
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    """End the processes of a failed test."""
    yield
    end_started()


@pytest.fixture
def cluster(tmp_path: Path) -> "Iterator[tuple[str, list[subprocess.Popen[bytes]]]]":
    """A standalone master and two workers of one core each, from the pip-installed PySpark: (master, workers)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    place = ("--host", "127.0.0.1", "--webui-port", "0")
    log = tmp_path / "master.log"
    processes = [
        started(
            str(SPARK_CLASS), "org.apache.spark.deploy.master.Master", "--port", str(port), *place,
            log=log, cwd=tmp_path,
        )
    ]  # fmt: skip
    wait_until(lambda: b"New state: ALIVE" in log.read_bytes(), 120, "a master")
    for name in ("w1", "w2"):
        work = tmp_path / name
        work.mkdir()
        processes.append(
            started(
                str(SPARK_CLASS), "org.apache.spark.deploy.worker.Worker", master, "--cores", "1", "--memory", "700m",
                "--work-dir", str(work), *place, log=tmp_path / f"{name}.log", cwd=work,
            )
        )  # fmt: skip
    logs = [tmp_path / "w1.log", tmp_path / "w2.log"]
    wait_until(lambda: all(b"Successfully registered" in each.read_bytes() for each in logs), 120, "two workers")
    yield master, processes[1:]
    for process in processes:
        if process.poll() is None:
            kill_group(process)


def test_a_worker_killed_in_the_middle_costs_nothing_but_time(
    cluster: "tuple[str, list[subprocess.Popen[bytes]]]", tmp_path: Path
) -> None:
    """Executors of a real cluster run our shipped archive; one is killed: nothing lost, nothing counted twice."""
    master, workers = cluster
    out = tmp_path / "out"
    arguments = ["campaign", PRESET, "--seeds", "1:200", "--out", str(out), "--master", master]
    arguments += ["--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1"]
    campaign = started(*KEMU, *arguments, log=tmp_path / "campaign.log", cwd=ROOT)
    wait_until(lambda: len(chunks_of(out)) >= 3, SLOWEST_S, "three chunks")
    before = {chunk.name: (chunk / "summary.json").stat().st_mtime_ns for chunk in chunks_of(out)}
    running = (tmp_path / "w1").glob("app-*/*/stderr")
    assert any(True for _ in running), "the first worker runs an executor"

    kill_group(workers[0])
    code = campaign.wait(timeout=900)

    assert code == 0, (tmp_path / "campaign.log").read_text()
    done = load(out)
    lines = done.lines()
    assert [line.seed for line in lines] == list(range(1, 201))
    for name, stamp in before.items():
        assert (out / "chunks" / name / "summary.json").stat().st_mtime_ns == stamp
    assert sorted(os.listdir(out / "chunks")) == [chunk.folder for chunk in done.chunks]
    for line in lines[::20]:
        cell = done.spec.cells[0]
        assert run(cell.build(), seed=line.seed, profile=cell.profile, loop="bare").digest == line.digest
    shipped = list((tmp_path / "w2").glob("app-*/*/kemu-*.zip"))
    assert shipped, "the archive reached the executor"


def test_a_driver_killed_in_the_middle_is_resumed_and_the_numbers_are_those_of_kemu_run(tmp_path: Path) -> None:
    """SIGKILL to driver and Java; --resume finishes; Spark's numbers equal ``kemu run --format json`` on 200 runs."""
    out = tmp_path / "out"
    arguments = ["campaign", PRESET, "cooperative-zombie", "--profiles", "kafka-2.4,kafka-3.4", "--seeds", "1:50"]
    arguments += ["--out", str(out), "--master", "local[2]"]
    campaign = started(*KEMU, *arguments, log=tmp_path / "first.log", cwd=ROOT)
    wait_until(lambda: len(chunks_of(out)) >= 2, SLOWEST_S, "two chunks")
    kill_group(campaign)
    before = {chunk.name: (chunk / "summary.json").stat().st_mtime_ns for chunk in chunks_of(out)}
    assert len(before) < len(load(out).chunks)

    again = subprocess.run([*KEMU, *arguments, "--resume"], cwd=ROOT, capture_output=True, text=True)
    told = subprocess.run(
        [*KEMU, "analyze", str(out), "--master", "local[2]", "--format", "json"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    asked = subprocess.run(
        [*KEMU, "query", str(out), "select *, result_json from runs", "--limit", "0", "--format", "json"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert again.returncode == 0, again.stderr
    for name, stamp in before.items():
        assert (out / "chunks" / name / "summary.json").stat().st_mtime_ns == stamp
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["broken_constraints"] == []
    rows = json.loads(asked.stdout)
    assert len(rows) == 200
    campaign_spec = load(out).spec
    for row in rows:
        cell = campaign_spec.cells[int(row["run_id"].split("/")[1])]
        result = as_dict(run(cell.build(), seed=row["seed"], profile=cell.profile, loop="bare"))
        assert {**json.loads(row["result_json"]), "wall_s": 0} == json.loads(json.dumps({**result, "wall_s": 0}))
        assert row["downtime_us"] == sum(result["downtime_us"].values())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("after_s", [1.5, 4.0, 8.0])
def test_an_interrupted_analysis_is_one_line_and_can_be_repeated(
    tmp_path: Path, number: int, code: int, after_s: float
) -> None:
    """While Spark starts, and later; no process stays."""
    make = [*KEMU, "run", PRESET, "--trace", str(tmp_path / "1.kemu")]
    subprocess.run(make, cwd=ROOT, capture_output=True, check=True)
    analyze = [*KEMU, "analyze", str(tmp_path), "--master", "local[2]"]
    running = started(*analyze, log=tmp_path / "first.log", cwd=ROOT)
    time.sleep(after_s)

    (os.killpg if number == signal.SIGINT else os.kill)(running.pid, number)

    assert running.wait(timeout=SLOWEST_S) == code
    said = (tmp_path / "first.log").read_text()
    assert "Traceback" not in said and "Exception" not in said
    wait_until(lambda: not in_session(running.pid), 30, "the end of all processes")
    if after_s == 8.0:
        again = subprocess.run([*analyze, "--format", "json"], cwd=ROOT, check=True, capture_output=True, text=True)
        assert json.loads(again.stdout)["broken_constraints"] == []
