"""``kemu history``: a run or a trace in, a table of anomalies out; the exit code says whether one is unexplained."""

import json
import re

import pytest
from click.testing import CliRunner

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.emulator.text.tables import ScenarioError
from kemu.tools.cli import kemu

SHORT = ("duration=20s", "members=2", "partitions=2")


def told(*arguments):
    return CliRunner().invoke(kemu, ["history", *map(str, arguments)])


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A short run that holds."""
    path = tmp_path_factory.mktemp("history") / "run.trace"
    run(with_values(load_scenario("steady-group"), SHORT), seed=3, loop="bare", trace=path)
    return path


def test_a_run_without_an_unexplained_anomaly_is_a_table_and_exit_code_0():
    outcome = told("steady-group", "--seed", 3, *[word for each in SHORT for word in ("--set", each)])
    assert outcome.exit_code == 0, outcome.output
    lines = outcome.output.splitlines()
    assert lines[0].startswith("steady-group, seed 3, kafka-3.4: ")
    names = ["lost write", "unseen", "poll skip", "internal poll skip", "nonmonotonic poll"]
    names += ["internal nonmonotonic poll", "duplicate"]
    (absent,) = [line for line in lines if line.startswith("none of: ")]
    rows = [line.split("  ")[0] for line in lines[2:] if line.split("  ")[0] in names]
    assert sorted([*rows, *absent.removeprefix("none of: ").split(", ")]) == sorted(names)
    assert lines[-1] == "unexplained: 0"


def test_a_trace_tells_the_same_as_the_run_it_is_of(trace):
    of_trace = json.loads(told(trace, "--format", "json").output)["runs"][0]
    settings = [word for each in SHORT for word in ("--set", each)]
    of_run = json.loads(told("steady-group", "--seed", 3, *settings, "--format", "json").output)["runs"][0]
    assert of_trace.pop("source") == str(trace)
    assert of_run.pop("source") == "steady-group"
    assert of_trace == of_run


def test_what_nothing_explains_is_told_with_its_records_and_exits_with_129():
    """KAFKA-1211: what was acknowledged is in no log any more, and LOSS_REASONS has no reason for it."""
    outcome = told("KAFKA-1211")
    assert outcome.exit_code == 9, outcome.output
    assert re.search(r"^unseen +1 +2 +NOTHING$", outcome.output, re.MULTILINE)
    assert "records 72 to 73 of orders-0 (leader epoch 0) were acknowledged" in outcome.output
    found = json.loads(told("KAFKA-1211", "--format", "json").output)["runs"][0]["unexplained"]
    assert [(each["anomaly"], each["partition"], each["first"], each["last"]) for each in found] == [
        ("unseen", "orders-0", 72, 73)
    ]


def test_actions_are_added_to_the_plan():
    settings = [word for each in SHORT for word in ("--set", each)]
    outcome = told("steady-group", *settings, "--do", "crash host=c1 at=10s for=5s", "--format", "json")
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.output)["runs"][0]["verdict"] == "holds"


def test_options_of_a_run_do_not_go_with_a_trace(trace):
    outcome = told(trace, "--seed", 4)
    assert outcome.exit_code == 2
    assert f"--seed needs a scenario, but {trace} is a trace" in outcome.output


@pytest.mark.parametrize("content", [b"", b"no trace at all", b"\x00" * 64])
def test_a_file_that_is_no_trace_is_one_line_and_exit_code_2(tmp_path, content):
    file = tmp_path / "not.trace"
    file.write_bytes(content)
    outcome = told(file)
    assert outcome.exit_code == 2
    assert str(file) in outcome.output
    assert "Traceback" not in outcome.output


def test_a_torn_trace_is_refused(tmp_path, trace):
    """Whether a record was read later, only the end tells."""
    torn = tmp_path / "torn.trace"
    torn.write_bytes(trace.read_bytes()[:-40])
    outcome = told(torn)
    assert outcome.exit_code == 2
    assert "torn at byte" in outcome.output


def test_a_trace_that_is_not_there_is_said_to_be_missing():
    """It is no preset either, but its name is that of a file."""
    outcome = told("nofile.kemu")
    assert isinstance(outcome.exception, ScenarioError)
    assert str(outcome.exception) == "nofile.kemu: no such file"
