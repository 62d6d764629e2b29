"""The page of a run: its bytes, its safety, and the equality of its pictures with the figures."""

import json
import re
from pathlib import Path

import click
import pytest
from attrs import evolve
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.consumer.modern_state import ModernState
from kemu.actors.consumer.state import MemberState
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.trace.traces import Header, TraceWriter, read_trace
from kemu.emulator.watching.waiting_at_end import StillWaiting
from kemu.tools.cli import kemu, main
from kemu.tools.report.collecting import Collector
from kemu.tools.report.frames import Frame
from kemu.tools.report.messages import Messages
from kemu.tools.report.page import asset, packed, page_of, steps_around
from kemu.tools.report.recorded import report_of
from kemu.tools.report.run_report import as_text
from tests.tools.report.presets import ONE_PROCESS, SIX, made, traced
from tests.tools.report.reading import read_frames, read_page

pytestmark = ONE_PROCESS

WHOLE = st.integers(-(2**62), 2**62)


def kemu_says(*arguments: str | Path) -> Result:
    """The outcome of a command."""
    return CliRunner().invoke(kemu, [str(each) for each in arguments])


@given(st.lists(st.tuples(WHOLE, st.integers(-5, 300), st.text(max_size=3))))
def test_columns_survive_their_encoding(rows: list[tuple[int, int, str]]) -> None:
    """Of any size and sign, rising or not, with any texts."""
    times = sorted(row[0] for row in rows)
    columns = {name: [row[place] for row in rows] for place, name in enumerate(("at_us", "n", "text"))}
    rising = {"from_us": times, "until_us": [each + 7 for each in times]}
    bytes_of = packed({"rows": Frame(columns), "spans": Frame(rising)})

    read, _ = read_frames(bytes_of.data, json.loads(json.dumps(bytes_of.directory)))

    assert read == {"rows": Frame(columns), "spans": Frame(rising)}


# --- the pictures are the figures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", SIX)
def test_the_drawn_spans_add_up_to_the_figures(preset: str) -> None:
    """Decoded from the file: downtime, leaderless and under-replicated partitions, task stops, to the microsecond."""
    report, _, page = made(preset)
    figures = report.result.figures

    assert page.spent_us("down", "group", "partition") == {name: us for name, us in figures.downtime_us.items() if us}
    kept = figures.replication
    for frame in ("leaderless", "under_min_isr", "under_replicated"):
        spent = {} if kept is None else getattr(kept, f"{frame}_us")
        assert page.spent_us(frame, "partition") == spent, frame
    stops = {
        f"{name}/{task}": us for name, each in figures.streams.items() for task, us in each.downtime_us.items() if us
    }
    assert page.spent_us("task_stops", "task") == stops


@pytest.mark.parametrize(
    ("preset", "frames"),
    [
        ("rolling-restart-dynamic", ("down", "down_waits", "ownership", "members", "rebalances", "lag", "messages")),
        ("broker-crash-and-return", ("leaderless", "under_replicated", "leaders", "controllers", "hosts")),
        ("streams-scale-down-by-half", ("tasks", "restored", "task_stops", "task_marks")),
        ("reassign-controller-dies", ("reassignments", "steps", "proposals", "received", "reassignment_waits")),
        ("catch-up-second-crash", ("ranges", "range_work", "log_ends", "second_consumers")),
    ],
)
def test_each_system_has_its_rows(preset: str, frames: tuple[str, ...]) -> None:
    """An empty frame would make its sums equal for nothing."""
    page = made(preset).read

    assert {name: len(page.frames[name]) > 0 for name in frames} == dict.fromkeys(frames, True)


def test_the_waits_of_a_downtime_add_up_to_it() -> None:
    """The causes of a wait share the whole wait among them."""
    frames = made("rolling-restart-dynamic").read.frames
    down, waits = frames["down"].columns, frames["down_waits"].columns
    spent = dict.fromkeys(range(len(frames["down"])), 0)
    for index, spent_us in zip(waits["down"], waits["spent_us"], strict=True):
        spent[index] += spent_us

    assert list(spent.values()) == [
        until_us - since_us for since_us, until_us in zip(down["from_us"], down["until_us"], strict=True)
    ]


def test_the_received_bytes_are_the_moved_bytes() -> None:
    """By broker and second."""
    report, _, page = made("reassign-controller-dies")
    moves = report.result.figures.reassignment

    assert moves is not None and moves.moved_bytes
    assert sum(page.frames["received"].columns["bytes"]) == moves.moved_bytes


def test_a_range_ends_when_the_second_commit_log_is_behind_it() -> None:
    """KIP-333's second example: [70, 120) and [140, 190); both are worked off before the run ends."""
    report, _, page = made("catch-up-second-crash")
    ranges = page.frames["ranges"].columns

    assert list(zip(ranges["start"], ranges["end"], strict=True)) == [(70, 120), (140, 190)]
    assert max(ranges["until_us"]) < report.result.virtual_us


def test_every_owner_of_the_text_is_in_the_page_with_its_generation() -> None:
    """One interval of ownership, one row; a restarted member revoked its partitions."""
    report, _, page = made("rolling-restart-dynamic")
    rows = page.frames["ownership"].columns
    intervals = [each for each in report.ownership.intervals["g"] if each.end_us > each.start_us]

    assert len(rows["owner"]) == len(intervals)
    assert set(rows["generation"]) == set(range(1, 14))
    assert set(rows["ended"]) == {"revoked", ""}


def test_each_state_of_a_member_has_a_colour_and_a_name() -> None:
    """Of both protocols; a state without a row in the script's table would look as if the member were absent."""
    table = re.search(r"const STATES = \{(.*?)\n\};", asset("lanes.js"), re.DOTALL)
    assert table is not None
    rows = dict(re.findall(r'^  (\w+): \["(\w+)", ".+"\],$', table[1], re.MULTILINE))
    assert set(rows) == {state.value for state in (*MemberState, *ModernState)}
    assert rows["RECONCILING"] == rows["ACKNOWLEDGING"] != rows["STABLE"]


def test_waiting_records_end_as_the_figures_say() -> None:
    """The last row is the lag at the end, counted once in the metrics."""
    report, _, page = made("rolling-restart-dynamic")
    figures = report.result.figures
    waiting, lag = page.frames["waiting"].columns, page.frames["lag"].columns
    most: dict[str, int] = {}
    for partition, records in zip(lag["partition"], lag["records"], strict=True):
        most[partition] = max(records, most.get(partition, 0))

    assert waiting["records"][-1] <= sum(row.lag for row in figures.lag)
    assert {f"{row.topic}-{row.partition}" for row in figures.lag} == most.keys()
    assert all(most[f"{row.topic}-{row.partition}"] <= row.max_lag for row in figures.lag)


# --- one run, one page -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["catch-up-second-crash", "broker-crash-and-return"])
def test_a_trace_gives_the_bytes_that_the_run_gave(preset: str) -> None:
    """Collected live or read once from the file, by either loop."""
    read = report_of(read_trace(traced(preset)), "kemu replay")

    assert read_page(page_of(read)).head["digest"] == made(preset).read.head["digest"]


def test_the_page_needs_nothing_else_and_runs_nothing_else() -> None:
    """CSP with the hashes of its own script and style, no address, no markup from data."""
    report = made("catch-up-second-crash").report
    evil = "</script><img src=x onerror=alert(1)>"
    page = page_of(evolve(report, command=f"kemu run {evil}", scenario=evolve(report.scenario, summary=evil)))

    assert "default-src 'none'; script-src 'sha256-" in page
    assert "unsafe" not in page.partition("</head>")[0]
    assert evil not in page and read_page(page).texts["summary"] == evil
    assert page.count("<script") == 3
    assert re.findall(r"""(?:src|href|action)=|url\(|https?:""", made("catch-up-second-crash").page) == []


def test_scripts_write_text_only_as_text() -> None:
    """No string of a trace becomes markup or code."""
    scripts = "".join(asset(f"{name}.js") for name in ("data", "view", "marks", "lanes", "systems", "run"))

    assert re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", scripts) == []


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_a_page_beside_the_trace(tmp_path: Path) -> None:
    """With the command that repeats the run."""
    trace = tmp_path / "run.kemu"
    trace.write_bytes(traced("catch-up-second-crash").read_bytes())

    said = kemu_says("report", trace)

    assert (said.exit_code, said.output) == (0, f"report: {tmp_path / 'run.html'}\n")
    page = read_page((tmp_path / "run.html").read_text(encoding="utf-8"))
    assert page.head["command"] == "kemu run catch-up-second-crash --seed 1 --loop bare"
    assert page.texts["verdict"] == "holds"


def test_of_a_file_with_many_runs_the_first_is_drawn_and_the_command_says_so(tmp_path: Path) -> None:
    """A part of a campaign holds many runs."""
    with (tmp_path / "part.kemu").open("wb") as file:
        for seed in (3, 4):
            scenario = evolve(load_scenario("catch-up-second-crash"), seed=seed)
            header = Header(scenario.to_dict(), [], seed, "kafka-3.4", "bare", "")
            TraceWriter(file, header, new_file=seed == 3).finish("holds", 1_000_000)

    said = kemu_says("report", tmp_path / "part.kemu")

    assert f"{tmp_path / 'part.kemu'} holds 2 runs: the report is about the first\n" in said.output
    assert read_page((tmp_path / "part.html").read_text(encoding="utf-8")).texts["seed"] == 3


def test_text_and_story_say_what_still_waits(tmp_path: Path) -> None:
    """In one line below the cost, and as the last event."""
    scenario, collector = load_scenario("catch-up-second-crash"), Collector()
    result = run(scenario, seed=1, loop="bare", readers=collector.readers)
    waits = StillWaiting("member c1 of g", 60_000_000, "joins: asked b0, whose process ended at 59 s")
    report = collector.finish(evolve(result, waiting=(waits,)), scenario, "kemu run")

    lines = list(map(click.unstyle, as_text(report)))

    assert "Still   member c1 of g for 20.0 s: joins: asked b0, whose process ended at 59 s" in lines
    last = report.frames["story"].columns["text"][-1]
    assert last == "at the end: member c1 of g for 20.0 s: joins: asked b0, whose process ended at 59 s"


def test_json_has_every_frame_by_column() -> None:
    """And the figures, as ``kemu run`` prints them."""
    said = kemu_says("report", traced("catch-up-second-crash"), "--format", "json")

    told = json.loads(said.output)
    assert told["verdict"] == "holds" and told["downtime"]
    assert len(told["frames"]["messages"]["at_us"]) == told["messages"]
    assert all(len({len(cells) for cells in frame.values()}) <= 1 for frame in told["frames"].values())


def test_a_run_writes_its_page_and_its_json_has_owners_and_story(tmp_path: Path) -> None:
    """``--report`` with any output; JSON always has ownership and story."""
    file = tmp_path / "it.html"

    said = kemu_says("run", "catch-up-second-crash", "--loop", "bare", "--report", file, "--format", "json")
    text = kemu_says("run", "catch-up-second-crash", "--loop", "bare", "--report", file)

    frames = json.loads(said.output)["frames"]
    assert frames["ownership"]["owner"] and frames["story"]["text"]
    assert f"report: {file}" in text.output
    assert (
        read_page(file.read_text(encoding="utf-8")).head["digest"] == made("catch-up-second-crash").read.head["digest"]
    )


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("all", 409, 409), ("control", 40, 80), ("errors", 1, 5), ("none", 0, 0)]
)
def test_messages_can_be_left_out(kind: str, least: int, most: int, tmp_path: Path) -> None:
    """control: without routine that succeeded; errors: refused or not arrived."""
    said = kemu_says("report", traced("catch-up-second-crash"), "--messages", kind, "-o", tmp_path / "it.html")
    frames = read_page((tmp_path / "it.html").read_text(encoding="utf-8")).frames

    assert said.exit_code == 0
    assert least <= len(frames.get("messages", ())) <= most


def test_too_many_messages_become_counts_by_sender() -> None:
    """Beyond the limit only control messages stay, and the number of all of them."""
    kept = Messages("all", most=3)
    for number in range(1, 6):
        kept.packet((number, number * 4_000, "c1", "b0", 1, "Fetch", 80, "sent", number * 4_000 + 500))
    frames = kept.frames(1_000_000)

    assert len(frames["messages"]) == 0
    assert list(frames["traffic"].rows()) == [(0, "c1", 2), (10_000, "c1", 2), (20_000, "c1", 1)]


def test_a_packet_has_its_last_fate() -> None:
    """A held packet is released later, a sent one may vanish at its arrival."""
    kept = Messages()
    kept.packet((1, 1_000, "c1", "b0", 1, "Fetch", 80, "held", -1))
    kept.packet((2, 2_000, "c1", "b0", 1, "Fetch", 80, "sent", 2_500))
    kept.packet((1, 1_000, "c1", "b0", 1, "Fetch", 80, "released", 9_000))
    kept.packet((2, 2_500, "c1", "b0", 1, "Fetch", 80, "vanished", -1))
    columns = kept.frames(1_000_000)["messages"].columns

    assert ([*columns["verdict"]], [*columns["took_us"]]) == (["released", "vanished"], [8_000, -1])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no-such.kemu",), "no-such.kemu: No such file"),
        (("{trace}", "-o", "{folder}/none/it.html"), "there is no folder"),
        (("{trace}", "-o", "{trace}"), "it is an input of this command"),
        (("{trace}", "--open", "--format", "json"), "--open needs --format html"),
        (("{text}",), "not a kemu trace"),
    ],
)
def test_bad_input_is_one_message(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """Exit code 2, no traceback."""
    (tmp_path / "text").write_text("no trace", encoding="utf-8")
    places = {"trace": traced("catch-up-second-crash"), "folder": tmp_path, "text": tmp_path / "text"}

    outcome = kemu_says("report", *(each.format(**places) for each in arguments))

    assert outcome.exit_code == 2
    assert said in outcome.output
    assert "Traceback" not in outcome.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--report", "{folder}/none/it.html"), "there is no folder"),
        (("--report", "{folder}/a", "--trace", "{folder}/a"), "--trace and --report are the same file"),
        (("--report", "{folder}/a", "--seeds", "1:2"), "--report needs one seed"),
        (("--report", "{folder}/it.toml"), "is the scenario itself"),
    ],
)
def test_a_run_refuses_a_report_that_it_cannot_write(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, no traceback; the scenario stays what it was."""
    scenario = tmp_path / "it.toml"
    scenario.write_text('duration = "2s"\n[topics.t]\npartitions = 1\n', encoding="utf-8")

    with pytest.raises(SystemExit) as outcome:
        main(["run", str(scenario), *(each.format(folder=tmp_path) for each in arguments)])

    assert (outcome.value.code, said in capsys.readouterr().err) == (2, True)
    assert scenario.read_text(encoding="utf-8").startswith("duration")


def test_a_torn_trace_has_the_report_of_its_whole_records(tmp_path: Path) -> None:
    """A killed run leaves no footer."""
    whole = traced("broker-crash-and-return").read_bytes()
    (tmp_path / "torn.kemu").write_bytes(whole[: len(whole) * 2 // 3])

    said = kemu_says("report", tmp_path / "torn.kemu")

    page = read_page((tmp_path / "torn.html").read_text(encoding="utf-8"))
    assert said.exit_code == 2
    assert "torn at byte" in said.stderr
    assert page.texts["torn"]
    assert 0 < page.texts["virtual_us"] < made("broker-crash-and-return").report.result.virtual_us


def test_a_violation_comes_with_the_steps_around_it() -> None:
    """The step itself is marked."""
    lines = steps_around(read_trace(traced("catch-up-second-crash")), [100])[100]

    assert [line for line in lines if line.startswith(">") and " 100 " in line[:30]]
    assert 20 <= sum(1 for line in lines if re.match(r"[ >]\d\d:\d\d\.\d{6}", line)) <= 60


def test_every_commit_is_in_the_page_with_the_end_of_the_log() -> None:
    """The last commit of a partition is at most the end of its log; offsets of one partition do not fall."""
    report, _, page = made("rolling-restart-dynamic")
    commits = page.frames["commits"].columns
    (group,) = report.result.figures.groups.values()
    last: dict[str, int] = {}
    for partition, offset, end in zip(commits["partition"], commits["offset"], commits["end"], strict=True):
        assert last.get(partition, 0) <= offset <= end
        last[partition] = offset

    assert len(commits["at_us"]) == group.commits > 0
    assert len(last) == 12
