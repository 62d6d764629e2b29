"""Each command, interrupted at each moment: the table in docs/reference/exit-codes.md (``kemu.tools.endings``).

A command runs in this process. A profiler counts the calls of functions. So a row interrupts the command at the same
place in every test run: after a share of the calls, or at the first output.
"""

import gc
import io
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.trace.blocks import MAGIC
from kemu.tools import exits, interrupt, output
from kemu.tools.cli import COMMANDS, main
from kemu.tools.determinism.watch import SweepWatch
from kemu.tools.endings import KEPT, KeptResult
from tests.terminal import terminal_signals
from tests.tools.fake_control import fake_control
from tests.tools.pipeline.small_analysis import write_analysis
from tests.tools.test_scriptify import record_client

TINY = 'duration = "1s"\n[topics.orders]\npartitions = 1\n[groups.g]\nmembers = 1\ntopics = ["orders"]\n'
STREAMS = """\
duration = "2s"
[topics.orders]
partitions = 1
[topics.changelog]
partitions = 1
rate = "0/s"
[groups.app]
topics = ["orders"]
members = 1
[groups.app.streams]
subtopologies = ["orders -> changelog"]
"""
ASSIGNMENT = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [%s]}]}'
GROUP = '{"partitions_per_topic": {"t": 3}, "members": {"m1": {"topics": ["t"]}, "m2": {"topics": ["t"]}}}\n'
TASKS = '{"id": "c1", "assignor": "ha", "tasks": ["0_0"], "stateful": [], "clients": {"P1": {"capacity": 1}}}\n'
OFFSETS = (
    "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
    "g     orders 0        10             15             5   c-1-aaaa    /h   c-1\n"
)
LOG = (
    "[2023-02-01 12:00:00,100] INFO [GroupCoordinator 1]: Preparing to rebalance group g in state PreparingRebalance "
    "with old generation 12 (__consumer_offsets-22) (reason: Adding new member c-1-aaaa with group instance id None) "
    "(kafka.coordinator.group.GroupCoordinator)\n"
    "[2023-02-01 12:00:03,100] INFO [GroupCoordinator 1]: Stabilized group g generation 13 (__consumer_offsets-22) "
    "with 1 members (kafka.coordinator.group.GroupCoordinator)\n"
)
LINES: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "tiny.toml", "--trace", "made.kemu", "--report", "made.html"),
    "run --seeds": ("run", "tiny.toml", "--seeds", "1:3", "--jobs", "1"),
    "run --live": ("run", "tiny.toml", "--live", "--trace", "made.kemu"),
    "compare": (
        "compare",
        "tiny.toml",
        "--profiles",
        "kafka-3.4,kafka-4.0",
        "--seeds",
        "1:2",
        "--jobs",
        "1",
    ),
    "scale": ("scale", "app.toml", "--add", "1", "--at", "1s", "--trace", "made.kemu"),
    "serve": ("serve", "tiny.toml", "--for", "1s", "--trace", "made.kemu"),
    "console": ("console", "control"),
    "advise": (
        "advise",
        "tiny.toml",
        "--try",
        "groups.g.config.session.timeout.ms=20000",
        "--seeds",
        "1:11",
        "--jobs",
        "1",
    ),
    "import-log": ("import-log", "broker.log", "--out", "made.kemu"),
    "diagnose": ("diagnose", "small.kemu"),
    "reproduce": ("reproduce", "broker.log", "--out", "made.toml"),
    "scriptify": ("scriptify", "live.kemu", "--out", "made.toml"),
    "import": ("import", "offsets.txt", "--out", "made.toml"),
    "scenarios": ("scenarios",),
    "swarm": ("swarm", "tiny.toml", "--seeds", "1:2", "--jobs", "1"),
    "swarm --seed": ("swarm", "tiny.toml", "--seed", "2", "--out", "made.toml"),
    "explore": ("explore", "tiny.toml", "--runs", "4", "--jobs", "1"),
    "shrink": ("shrink", "KAFKA-15170", "--runs", "6", "--out", "made"),
    "bugs": ("bugs",),
    "bugs ID": ("bugs", "KAFKA-15170", "--trace", "made.kemu"),
    "bugs --find": ("bugs", "KAFKA-15170", "--find", "--seeds", "1:5", "--jobs", "1"),
    "report": ("report", "small.kemu", "--out", "made.html"),
    "explain": ("explain", "small.kemu"),
    "replay": ("replay", "small.kemu", "--rerun"),
    "history": ("history", "tiny.toml"),
    "coverage": ("coverage", "tiny.toml", "--seeds", "1:2", "--jobs", "1"),
    "assign": ("assign", "--assignor", "range", "group.json"),
    "compare-assignors": ("compare-assignors", "group.json"),
    "assign-tasks": ("assign-tasks", "tasks.json"),
    "plan-reassignment": (
        *("plan-reassignment", "--current", "a.json", "--target", "b.json"),
        *("--format", "kafka", "--out", "made"),
    ),
    "query": ("query", "runs", "select seed from runs order by seed"),
    "help": ("help", "generation"),
    "describe": ("describe", "exits"),
    "schema": ("schema", "--out", "made.json"),
}
"""Row of the table -> a short command line. Spark's commands are in tests/tools/pipeline/test_soak.py."""
ON_SPARK = {"campaign", "analyze"}
WHEN = (
    *((signal.SIGINT, moment) for moment in ("start", "middle", "end", "output")),
    (signal.SIGTERM, "middle"),
    (signal.SIGHUP, "middle"),
)
SHARE = {"start": 0.02, "middle": 0.5, "end": 0.97}


def test_the_table_names_every_command() -> None:
    assert {name.partition(" ")[0] for name in KEPT} == set(COMMANDS)
    assert set(KEPT) == {*LINES, *ON_SPARK}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The trace of a short run."""
    path = tmp_path_factory.mktemp("small") / "small.kemu"
    run(scenario_from_toml(TINY, name="tiny"), seed=1, loop="bare", trace=path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_analysis(tmp_path_factory.mktemp("analysis") / "analysis")


@pytest.fixture
def place(tmp_path: Path, small: bytes, analysis: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with inputs; signals act as in a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interrupt, "_last_signal", signal.SIGINT)
    monkeypatch.setattr(SweepWatch, "saw", lambda watch, asked, digest: None)  # without another process
    inputs = {
        "small.kemu": small,
        "tiny.toml": TINY.encode(),
        "app.toml": STREAMS.encode(),
        "offsets.txt": OFFSETS.encode(),
        "broker.log": LOG.encode(),
        "group.json": GROUP.encode(),
        "tasks.json": TASKS.encode(),
        "a.json": (ASSIGNMENT % "1").encode(),
        "b.json": (ASSIGNMENT % "2").encode(),
    }
    for name, content in inputs.items():
        (tmp_path / name).write_bytes(content)
    record_client(tmp_path)
    shutil.copytree(analysis, tmp_path / "runs" / "analysis")
    with terminal_signals(), fake_control(tmp_path / "control"):
        yield tmp_path


# --- signals ---------------------------------------------------------------------------------------------------------


def ended(words: tuple[str, ...], seen: Callable[[int], None] | None = None) -> int:
    """Run a command, and return its exit code; ``seen`` is called at each call of a function."""
    with pytest.raises(SystemExit) as ending, nullcontext() if seen is None else calls(seen):
        main(list(words))
    assert isinstance(ending.value.code, int)
    return ending.value.code


@contextmanager
def calls(seen: Callable[[int], None]) -> Iterator[None]:
    """Call a function at each call of a Python function, with the number of the call."""
    count = 0

    def profiled(frame: object, event: str, argument: object) -> None:
        nonlocal count
        if event == "call":
            count += 1
            seen(count)

    sys.setprofile(profiled)
    try:
        yield
    finally:
        sys.setprofile(None)


def calls_of(words: tuple[str, ...]) -> int:
    """The number of calls of an uninterrupted command, without imports of modules."""
    last = [0]

    def seen(number: int) -> None:
        last[0] = number

    assert ended(words) in RESULTS
    clear()
    ended(words, seen)
    clear()
    return last[0]


def clear() -> None:
    """Remove the files that a command made."""
    for path in Path().glob("**/*"):
        if path.is_file() and path.name.startswith(("made", "test_made", "batch")):
            path.unlink()
    if Path("made").is_dir():
        Path("made").rmdir()


RESULTS = {exits.HOLDS, exits.LIVENESS, exits.CORRECTNESS}
"""Exit codes of a command that does its work."""
_CALLS: dict[str, int] = {}


def send_at(row: str, moment: str, number: signal.Signals) -> tuple[int, bool]:
    """Run a row's command, and send a signal at a moment; return the exit code, and whether the signal was sent."""
    sent: list[signal.Signals] = []

    def send() -> None:
        if not sent:
            sent.append(number)
            os.kill(os.getpid(), number)

    class Sending(io.StringIO):
        def write(self, text: str) -> int:
            written = super().write(text)
            send()
            return written

    if moment == "output":
        before, sys.stdout = sys.stdout, Sending()
        try:
            code = ended(LINES[row])
            before.write(sys.stdout.getvalue())
        finally:
            sys.stdout = before
        return code, bool(sent)
    at = max(50, int(_CALLS[row] * SHARE[moment]))
    code = ended(LINES[row], lambda count: send() if count == at else None)
    return code, bool(sent)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a signal inside of open() leaves the file to the collector
@pytest.mark.parametrize(("number", "moment"), WHEN, ids=lambda each: getattr(each, "name", each))
@pytest.mark.parametrize("row", LINES)
def test_a_signal_ends_a_command_as_the_table_says(
    row: str, number: signal.Signals, moment: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if row not in _CALLS:
        _CALLS[row] = calls_of(LINES[row])
        capsys.readouterr()
    (place / "made.kemu").write_bytes(MAGIC)
    code, sent = send_at(row, moment, number)
    gc.collect()

    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out
    if code != 128 + number:  # the work was done
        assert not sent or moment in ("end", "output"), (code, said.err)
        assert code in RESULTS
        assert "made.kemu" not in LINES[row] or whole_trace(place / "made.kemu")
        return
    last = [text.splitlines()[-1] for text in (said.err, said.out) if text]
    assert moment == "start" or any(f"kemu {LINES[row][0]}" in line for line in last), said.err
    assert not [path.name for path in place.iterdir() if path.name.startswith(".")]
    check_kept(KEPT[row], place, said.out + said.err)


WITH_TRACES = (KeptResult.PART, KeptResult.FILE, KeptResult.SERVED)


def check_kept(kept: KeptResult, place: Path, said: str) -> None:
    """The files of the folder, and the printed lines, are what the table says."""
    for made in place.glob("made*"):
        if made.suffix == ".part":
            assert kept in (KeptResult.PART, KeptResult.SERVED)
            assert f"the trace so far is in {made.name}" in said
        elif made.suffix == ".kemu":
            content = made.read_bytes()
            assert content == MAGIC or (kept in WITH_TRACES and whole_trace(made))
        elif made.is_file():
            assert made.read_text(encoding="utf-8").endswith(("\n", "}", "</html>"))
    if kept is KeptResult.RUNS and "interrupted: " in said:
        assert " finished; " in said
    if kept is KeptResult.SMALLEST:
        assert {path.name for path in place.glob("*made*")} in (
            {"made.kemu"},
            {"made.kemu", "made.toml", "test_made.py"},
        )


def whole_trace(path: Path) -> bool:
    from kemu.emulator.trace.traces import read_trace

    return read_trace(path).footer() is not None


# --- closed pipes and full disks -------------------------------------------------------------------------------------


@contextmanager
def stdout_is(
    descriptor: int, monkeypatch: pytest.MonkeyPatch, then: Callable[[], object] | None = None
) -> Iterator[None]:
    """Standard output is a file descriptor; ``then`` is called after the first output."""
    waiting = [] if then is None else [then]
    write = output._Stream.write

    def written(stream: output._Stream, data: bytes) -> int:
        count = write(stream, data)
        if data and waiting:
            waiting.pop()()
        return count

    monkeypatch.setattr(output._Stream, "write", written)
    before = sys.stdout
    sys.stdout = os.fdopen(descriptor, "w", encoding="utf-8", closefd=False)
    try:
        yield
    finally:
        sys.stdout = before
        os.close(descriptor)


@pytest.mark.parametrize("moment", ["start", "output"])
@pytest.mark.parametrize("row", LINES)
def test_a_closed_pipe_is_no_error(
    row: str, moment: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is that of the results. The reader leaves before the command starts, or after the first output."""
    whole = ended(LINES[row])
    assert whole in RESULTS
    clear()
    capsys.readouterr()
    reader, writer = os.pipe()
    if moment == "start":
        os.close(reader)

    with stdout_is(writer, monkeypatch, None if moment == "start" else lambda: os.close(reader)):
        code = ended(LINES[row])

    assert code == whole
    assert "rror" not in capsys.readouterr().err


@pytest.mark.parametrize("row", LINES)
def test_a_full_disk_of_standard_output_is_one_line(
    row: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stdout_is(os.open("/dev/full", os.O_WRONLY), monkeypatch):
        code = ended(LINES[row])

    if row in WITHOUT_OUTPUT:
        assert (code, errors_of(capsys)) == (exits.HOLDS, [])
    else:
        assert (code, errors_of(capsys)) == (exits.NO_OUTPUT, [FULL])


@pytest.mark.parametrize("row", LINES)
def test_a_disk_that_becomes_full_during_the_output_is_one_line(
    row: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command with a single write has printed everything."""
    full = os.open("/dev/full", os.O_WRONLY)
    descriptor = os.open(place / "printed", os.O_WRONLY | os.O_CREAT)
    with stdout_is(descriptor, monkeypatch, lambda: os.dup2(full, descriptor)):
        code = ended(LINES[row])
    os.close(full)

    assert (code, errors_of(capsys)) in [(exits.NO_OUTPUT, [FULL]), *((each, []) for each in RESULTS)]


def errors_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]


FULL = "error: the output cannot be written: No space left on device"
WITHOUT_OUTPUT = {"import", "schema", "scriptify"}
"""Rows that print nothing on standard output."""
WRITING = [row for row in LINES if "made" in " ".join(LINES[row])]


@pytest.mark.parametrize("share", [0, 0.5], ids=["start", "middle"])
@pytest.mark.parametrize("row", WRITING)
def test_a_full_disk_of_a_file_is_one_line_and_the_earlier_file_stays(
    row: str, share: float, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The limit of a file's size acts as a full disk does: nothing can be written, or half of the largest file."""
    largest = 0
    if share:
        ended(LINES[row])
        made = [*place.glob("*made*"), *place.glob("made/*")]
        largest = max(path.stat().st_size for path in made if path.is_file())
        clear()
        capsys.readouterr()
    (place / "made.kemu").write_bytes(MAGIC)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(share * largest), limits[1]))
    try:
        code = ended(LINES[row])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    (error,) = errors_of(capsys)
    assert code == exits.BAD_INPUT
    assert "cannot be written: File too large" in error
    assert "made" in error
    trace = place / "made.kemu"
    assert trace.read_bytes() == MAGIC or (row == "run" and share and whole_trace(trace))  # its report is larger
    assert {path.name for path in place.glob("*made*")} <= {"made.kemu", "made"}
