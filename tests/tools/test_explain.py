"""``kemu explain``: a whole run as a transcript, filtered, as text and as JSON; bad files in one line."""

import json

import pytest
from click.testing import CliRunner

from kemu.emulator.checkers import checkers_for
from kemu.emulator.facts import Seen
from kemu.emulator.findings import Violation
from kemu.emulator.judging import judge
from kemu.emulator.replay import scenario_of
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.trace.traces import Step, TraceWriter, facts_of, read_trace
from kemu.tools.cli import kemu

SETTINGS = (
    "duration=25s",
    "plan.0.at=8s",
    "plan.0.for=8s",
    "members=2",
    "partitions=2",
    "rate=60/s",
    "session.timeout.ms=6000",
)


class Recorder:
    """Keeps all facts of a running run."""

    def __init__(self):
        self.seen: list[Seen] = []

    def see(self, seen):
        self.seen.append(seen)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A short run in which a member is paused: (trace file, result, facts seen live)."""
    path = tmp_path_factory.mktemp("explain") / "run.trace"
    recorder = Recorder()
    scenario = with_values(load_scenario("gc-pause-zombie"), SETTINGS)
    result = run(scenario, seed=3, loop="bare", trace=path, observers=(recorder,))
    return path, result, recorder.seen


def explained(path, *arguments):
    return CliRunner(env={"COLUMNS": "240"}).invoke(kemu, ["explain", str(path), *map(str, arguments)])


def objects(path, *arguments):
    outcome = explained(path, "--format", "json", *arguments)
    assert outcome.exit_code == 0, outcome.output
    return [json.loads(line) for line in outcome.output.splitlines()]


def test_the_facts_of_a_file_are_the_facts_of_the_run(recorded):
    path, _, seen = recorded

    assert list(facts_of(read_trace(path))) == seen


def test_checkers_find_over_a_file_what_they_found_online(recorded):
    """The same class, online and over a trace."""
    path, result, _ = recorded
    trace = read_trace(path)
    checkers = checkers_for(scenario_of(trace.header))
    judgement = judge(facts_of(trace), ended_us=result.virtual_us, checkers=checkers)

    assert judgement.violations == result.violations
    assert judgement.figures == result.figures


def test_text_has_a_legend_one_line_per_step_and_notes_below(recorded):
    path, result, _ = recorded
    steps = [record for record in read_trace(path).records() if isinstance(record, Step)]

    outcome = explained(path)

    assert outcome.exit_code == 0
    lines = outcome.output.splitlines()
    assert lines[0].startswith("time         step")
    assert lines[7].startswith("gc-pause-zombie, seed 3, ")
    assert lines[-1] == f"holds: {result.steps} steps, {result.messages} messages, digest {result.digest}"
    numbered = [line for line in lines if line[13:14].isdigit()]
    assert [int(line[13:20]) for line in numbered] == [step.seq for step in steps]
    assert {line[:12].count(":") for line in numbered} == {1}
    notes = sum(1 for step in steps for row in step.effects if row[0] == 5)
    assert sum(line.startswith(" " * 22 + "# ") for line in lines) == notes > 0
    assert any("% HostPaused host=c2" in line for line in lines)
    heartbeats = [line for line in lines if " Heartbeat " in line]
    assert any("<- c1 Heartbeat v4 generation=1 member_id=c1-" in line for line in heartbeats), heartbeats[:3]


def test_json_is_one_object_per_record_with_decoded_messages(recorded):
    path, result, _ = recorded
    rows = objects(path)

    assert (rows[0]["kind"], rows[0]["seed"]) == ("header", 3)
    assert (rows[-1]["kind"], rows[-1]["digest"]) == ("footer", result.digest)
    joins = [
        effect["message"]
        for row in rows
        if row["kind"] == "step"
        for effect in row["effects"]
        if effect["name"] == "Send" and effect["message"].get("api") == "JoinGroup"
    ]
    assert joins[0]["group"] == "g" and joins[0]["type"] == "JoinGroup"


@pytest.mark.parametrize(("actor", "shown"), [("c1", {"c1"}), ("b0", {"b0", "b0/coordinator"})])
def test_an_actor_is_shown_alone_with_all_parts_of_its_host(recorded, actor, shown):
    rows = objects(recorded[0], "--actor", actor)

    assert {row["actor"] for row in rows if row["kind"] == "step"} == shown
    assert all(actor in row["fact"].get("host", actor) for row in rows if row["kind"] == "fact")


def test_from_and_to_cut_a_window_of_time(recorded):
    rows = objects(recorded[0], "--from", "8s", "--to", "9500ms")

    times = [row["at_us"] for row in rows if row["kind"] in ("step", "fact", "packet")]
    assert times and min(times) >= 8_000_000 and max(times) <= 9_500_000


def test_a_step_is_shown_with_its_neighbours(recorded):
    """Context steps on each side with the facts and packets between them, and the frame of the run."""
    rows = objects(recorded[0], "--step", "100", "--context", "2")

    assert [rows[0]["kind"], rows[-1]["kind"]] == ["header", "footer"]
    assert [row["seq"] for row in rows if row["kind"] == "step"] == [98, 99, 100, 101, 102]
    alone = objects(recorded[0], "--step", "100", "--context", "90", "--actor", "c1")
    assert {row["actor"] for row in alone if row["kind"] == "step"} == {"c1"}


def violated(header, path, at):
    """A trace of 30 steps with violations at some of them."""
    with path.open("wb") as file:
        writer = TraceWriter(file, header)
        for number in range(1, 31):
            writer.step((number, 1_000 * number, "c1", 1, 1_000 * number, (2, ("beat",)), ()))
        for number in at:
            writer.violation(Violation("one-owner", 1_000 * number, number, ("g", "orders-0"), f"number {number}"))
        writer.finish("violated", 30_000)
    return path


def test_each_violation_is_shown_after_its_step(recorded, tmp_path):
    """With the steps around the step; other steps are left out. Windows that meet are one."""
    path = violated(read_trace(recorded[0]).header, tmp_path / "violations.trace", at=(10, 13, 25))
    rows = objects(path, "--around", "violation", "--context", "2")

    assert [row.get("seq", row["kind"]) for row in rows] == [
        *("header", 8, 9, 10, 10, 11, 12, 13, 13, 14, 15, 23, 24, 25, 25, 26, 27, "footer"),
    ]
    assert [row["text"] for row in rows if row["kind"] == "violation"] == ["number 10", "number 13", "number 25"]
    window = objects(path, "--from", "12500us", "--to", "14ms")
    assert [row["kind"] for row in window] == ["header", "step", "violation", "step", "footer"]


def test_a_violation_in_the_last_step_and_one_before_the_first_are_shown(recorded, tmp_path):
    path = violated(read_trace(recorded[0]).header, tmp_path / "violations.trace", at=(0, 30))
    rows = objects(path, "--around", "violation", "--context", "1")

    assert [row.get("seq", row["kind"]) for row in rows] == ["header", 0, 1, 29, 30, 30, "footer"]


def test_actor_without_a_name_lists_the_actors(recorded):
    listed = explained(recorded[0], "--actor").output.splitlines()
    counted = {row["actor"]: row["steps"] for row in objects(recorded[0], "--actor")}

    assert listed[0].split() == ["actor", "steps"]
    assert [line.split()[0] for line in listed[1:]] == list(counted)
    assert list(counted)[:3] == ["admin", "b0", "b0/coordinator"]
    steps = [record for record in read_trace(recorded[0]).records() if isinstance(record, Step)]
    assert counted["c1"] == sum(step.actor == "c1" for step in steps) > 0
    assert sum(counted.values()) == len(steps)


def test_verify_checks_the_whole_file_and_prints_its_frame(recorded, tmp_path):
    whole = explained(recorded[0], "--verify")
    content = bytearray(recorded[0].read_bytes())
    content[len(content) * 3 // 4] ^= 1
    damaged = tmp_path / "damaged.trace"
    damaged.write_bytes(content)

    assert whole.exit_code == 0
    assert [line.split()[0] for line in whole.output.splitlines()] == ["gc-pause-zombie,", "holds:"]
    assert explained(damaged, "--step", "3").exit_code == 0, "the damage is in another part"
    refused = explained(damaged, "--verify")
    assert refused.exit_code == 2
    assert "damaged block at byte" in refused.stderr
    assert "give no filter" in explained(recorded[0], "--verify", "--step", "3").stderr


def test_grep_keeps_the_whole_step_a_matching_line_belongs_to(recorded):
    outcome = explained(recorded[0], "--grep", "GroupBecame .*new=Stable")

    blocks = [line for line in outcome.output.splitlines()[8:-1] if not line.startswith(" ")]
    assert blocks and all("== append" in line for line in blocks)


def test_what_went_wrong_stands_out(recorded, tmp_path):
    """A violation, a packet's later fate, and the step in which a machine broke."""
    path = tmp_path / "broken.trace"
    with path.open("wb") as file:
        writer = TraceWriter(file, read_trace(recorded[0]).header)
        writer.packet((7, 1_500, "c1", "b0", 4, "Heartbeat", 30, "refused", -1))
        writer.violation(Violation("one-owner", 2_000, 3, ("g", "orders-0"), "two owners"))
        writer.broken((4, 61_002_500, "c1", 2, 2_400, (2, ("beat", "g")), "AssertionError: no"))
        writer.finish("broken", 61_002_500)

    lines = explained(path).output.splitlines()[8:]

    assert lines[:4] == [
        "00:00.001500         ~ Heartbeat c1 to b0: refused",
        "00:00.002000         ## one-owner: two owners",
        "01:01.002500 4       c1~2             ** beat g",
        "                      ## the machine broke: AssertionError: no",
    ]
    assert [row["kind"] for row in objects(path)] == ["header", "packet", "violation", "broken", "footer"]
    around = objects(path, "--around", "violation", "--context", "0")
    assert [row["kind"] for row in around] == ["header", "violation", "broken", "footer"]


def test_a_torn_file_is_printed_as_far_as_it_is_whole_and_said_to_be_torn(recorded, tmp_path):
    path = tmp_path / "torn.trace"
    path.write_bytes(recorded[0].read_bytes()[:-100])

    outcome = explained(path)

    assert outcome.exit_code == 2
    assert "RunStarted" in outcome.output
    assert outcome.output.splitlines()[-1].startswith(f"error: {path}: torn at byte ")


@pytest.mark.parametrize(
    ("content", "said"), [(b"not a trace", "byte 0: not a kemu trace"), (None, "No such file or directory")]
)
def test_a_file_that_is_no_trace_gives_one_line(tmp_path, content, said):
    path = tmp_path / "some.file"
    if content is not None:
        path.write_bytes(content)

    outcome = explained(path)

    assert outcome.exit_code == 2
    assert outcome.stderr == f"error: {path}: {said}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--grep", "("), "is no regular expression"),
        (("--from", "soon"), "is no duration"),
        (("--actor", "c9"), "the trace has no actor c9; the hosts are admin, b0, b1, b2, c1, c2, p1"),
        (("--from", "30s", "--to", "20s"), "--from is later than --to"),
        (("--step", "99999999"), "the trace has no step 99999999"),
        (("--around", "violation"), "the trace has no violation"),
    ],
)
def test_a_filter_that_makes_no_sense_is_bad_input(recorded, arguments, said):
    outcome = explained(recorded[0], *arguments)

    assert outcome.exit_code == 2
    assert said in outcome.output
