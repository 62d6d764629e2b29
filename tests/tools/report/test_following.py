"""Pages of runs that continue."""

import fcntl
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from kemu.emulator.trace.blocks import TraceError
from kemu.emulator.trace.files import PART
from kemu.emulator.trace.recorder import LiveWriter
from kemu.emulator.trace.traces import Footer, Header, PacketRecord, Step, TraceWriter, WorldFact, read_trace
from kemu.tools.report.following import follow
from tests.tools.report.presets import traced
from tests.tools.report.reading import ReadPage, read_page
from tests.tools.report.test_page import kemu_says

PRESET = "catch-up-second-crash"
"""A preset with a small trace."""


def command(header: Header) -> str:
    """A command that repeats the run."""
    return f"kemu run {PRESET} --seed {header.seed}"


def as_if_live(preset: str, until_us: int) -> bytes:
    """The trace of a preset as a live run writes it, up to a time; with a footer if it is complete."""
    recorded, sink = read_trace(traced(preset)), BytesIO()
    writer = TraceWriter(sink, recorded.header)
    live = LiveWriter(writer)
    for record in recorded.records():
        match record:
            case Footer():
                writer.finish(record.verdict, record.virtual_us, record.fired)
            case Step() | PacketRecord() | WorldFact() if record.at_us > until_us:
                writer.flush()
                break
            case Step():
                live.step(record)
            case PacketRecord():
                live.packet(record)
            case WorldFact():
                live.fact(*record)
    return sink.getvalue()


class Growing:
    """A trace that another process seems to write, step by step."""

    def __init__(self, place: Path) -> None:
        self.trace, self.page = place / "run.kemu", place / "run.html"
        self.whole = as_if_live(PRESET, 2**62)
        self.pages: list[ReadPage] = []
        self._part = self.trace.with_name(self.trace.name + PART).open("wb")
        fcntl.flock(self._part, fcntl.LOCK_EX)

    def write(self, until: int) -> None:
        """Let the file have the bytes up to this one."""
        self._part.write(self.whole[self._part.tell() : until])
        self._part.flush()

    def read(self) -> None:
        """Keep the page as it is now."""
        self.pages.append(read_page(self.page.read_text(encoding="utf-8")))

    def end(self, *, is_complete: bool) -> None:
        """End the writing process."""
        if is_complete:
            Path(self._part.name).replace(self.trace)
        self._part.close()

    def followed(self, rests: list[Callable[[], None]]) -> str:
        """Follow the trace; each pause does the next of ``rests``."""
        left = iter(rests)

        def rest(seconds: float) -> bool:
            next(left)()
            return False

        return follow(self.trace, self.page, command, rest=rest)


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    """A trace of which no byte is written."""
    return Growing(tmp_path)


def test_the_page_of_a_growing_trace_reloads_until_the_run_ends(growing: Growing) -> None:
    """Each page has the run so far. The last page is the page of the complete trace."""
    size = len(growing.whole)

    def grow(until: int) -> Callable[[], None]:
        return lambda: growing.write(until)

    def look_and_grow() -> None:
        growing.read()
        growing.write(size * 3 // 4)

    def look_and_end() -> None:
        growing.read()
        growing.write(size)
        growing.end(is_complete=True)

    torn = growing.followed([grow(9), grow(size // 2), look_and_grow, look_and_end])
    growing.read()

    assert torn == ""
    assert [each.head["reload_s"] > 0 for each in growing.pages] == [True, True, False]
    ends = [each.texts["virtual_us"] for each in growing.pages]
    assert 0 < ends[0] <= ends[1] < ends[2]
    assert kemu_says("report", traced(PRESET), "-o", growing.page.with_name("whole.html")).exit_code == 0
    whole = read_page(growing.page.with_name("whole.html").read_text(encoding="utf-8"))
    assert growing.pages[2].texts == whole.texts and growing.pages[2].frames == whole.frames


def test_a_run_that_stops_leaves_a_page_that_does_not_reload(growing: Growing) -> None:
    """The writing process was killed: its lock is free, and its file has no footer."""
    growing.write(len(growing.whole) // 2)

    torn = growing.followed([lambda: growing.end(is_complete=False)])
    growing.read()

    assert torn.startswith("torn at byte")
    assert growing.pages[0].head["reload_s"] == 0 and growing.pages[0].texts["torn"] == torn


def test_an_unfinished_run_has_no_verdict_on_its_end(tmp_path: Path) -> None:
    """Expected events may still happen: this scenario expects a violation, which comes after 30 s."""
    trace, page = tmp_path / "run.kemu", tmp_path / "run.html"
    trace.write_bytes(as_if_live("custom-assignor-without-generation", 10_000_000))

    said = kemu_says("report", trace, "-o", page)

    assert said.exit_code == 2 and "torn" in said.output
    read = read_page(page.read_text(encoding="utf-8"))
    assert read.texts["verdict"] == "holds" and read.texts["violations"] == []


def test_a_trace_that_nobody_writes_is_refused(tmp_path: Path) -> None:
    """A misspelled name must not wait for ever."""
    said = kemu_says("report", tmp_path / "rnu.kemu", "--follow")

    assert said.exit_code == 2 and "--follow needs a trace" in said.output
    assert kemu_says("report", traced(PRESET), "--follow", "--format", "json").exit_code == 2
    with pytest.raises(TraceError, match="no such file"):
        follow(tmp_path / "rnu.kemu", tmp_path / "rnu.html", command, rest=lambda seconds: True)


def test_a_live_run_writes_its_page_while_it_runs(tmp_path: Path) -> None:
    """``kemu run --live --report``: the last page is the page of the run, with the command of the run."""
    scenario = tmp_path / "short.toml"
    scenario.write_text(
        'duration = "3s"\n[topics.t]\npartitions = 2\nrate = "5/s"\n[groups.g]\ntopics = ["t"]\nmembers = 1\n',
        encoding="utf-8",
    )
    page = tmp_path / "short.html"

    said = kemu_says("run", scenario, "--live", "--report", page)

    assert said.exit_code == 0 and f"report: {page}" in said.output
    read = read_page(page.read_text(encoding="utf-8"))
    assert read.head["reload_s"] == 0 and read.head["command"] == f"kemu run {scenario} --seed 1"
    assert read.texts["verdict"] == "holds" and len(read.frames["messages"]) > 10
