"""``kemu diagnose`` on logs and on traces of kemu."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.tools.cli import kemu
from tests.tools.logs.excerpts import FOLDER

PAUSED = """
summary = "A member stands still for longer than its session, and comes back"
duration = "1m"
[topics.orders]
partitions = 2
rate = "2/s"
[groups.g]
topics = ["orders"]
members = 2
[groups.g.config]
session.timeout.ms = 6000
heartbeat.interval.ms = 2000
[[plan]]
at = "15s"
do = "pause"
host = "c2"
for = "15s"
"""
SLOW = """
summary = "An application works longer on its records than max.poll.interval.ms"
duration = "1m"
[topics.orders]
partitions = 2
rate = "4/s"
[groups.g]
topics = ["orders"]
members = 2
[groups.g.config]
max.poll.interval.ms = 5000
[[plan]]
at = "15s"
do = "stop-polling"
host = "c2"
for = "10s"
"""
CALM = """
summary = "Two members without a fault"
duration = "30s"
[topics.orders]
partitions = 2
rate = "2/s"
[groups.g]
topics = ["orders"]
members = 2
"""
ROLLING = """
summary = "Two members are restarted in turn"
duration = "1m30s"
[topics.orders]
partitions = 2
rate = "2/s"
[groups.g]
topics = ["orders"]
members = 2
[[plan]]
at = "20s"
do = "rolling-restart"
group = "g"
every = "20s"
down = "5s"
"""


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(kemu, ["diagnose", *map(str, arguments)])


def answers(*arguments: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call(*arguments, "--format", "json").stdout)["causes"]
    return found


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PAUSED, "process-or-network-stalled"),
        (SLOW, "max-poll-interval-exceeded"),
        (CALM, "none"),
        (ROLLING, "rolling-restart"),
    ],
)
def test_a_trace_is_diagnosed_as_the_plan_says(text: str, cause: str, tmp_path: Path) -> None:
    trace = tmp_path / "run.kemu"
    run(scenario_from_toml(text), seed=1, loop="bare", trace=trace)
    assert [each["cause"] for each in answers(trace)] == [cause]


def test_evidence_is_a_line_of_the_log_with_its_text() -> None:
    (answer,) = answers(FOLDER / "broker-2.2-expiry-markdown.log")
    first = answer["evidence"][0]
    assert answer["cause"] == "session-expired"
    assert (first["file"], first["line"]) == ("broker-2.2-expiry-markdown.log", 4)
    assert "has failed, removing it from the group" in first["text"]
    assert {remedy["kind"] for remedy in answer["addressed_by"]} == {"action", "setting"}


def test_the_text_has_the_evidence_and_the_remedies() -> None:
    output = call(FOLDER / "broker-2.2-expiry-markdown.log").stdout
    assert "1. session-expired (90 %)" in output
    assert "against:" in output
    assert "[KIP-735]" in output


def test_two_logs_without_trouble_are_one_answer() -> None:
    logs = (FOLDER / "kafkajs-2-two-members.log", FOLDER / "broker-4x-java-scale-up.log")
    assert [each["cause"] for each in answers(*logs)] == ["none"]


def test_a_missing_file_is_one_message() -> None:
    result = call("no-such.log")
    assert result.exit_code == 2
    assert "no-such.log" in result.output


def test_every_cause_is_described() -> None:
    result = CliRunner().invoke(kemu, ["describe", "broker-bug-KAFKA-8653"])
    assert "Kafka 2.3.1" in result.stdout
    assert "session-expired" in CliRunner().invoke(kemu, ["describe", "causes"]).stdout


def test_evidence_fits_the_terminal_and_is_whole_with_verbose(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of a request log fills three rows at most; the logger at the end of a line is not shown."""
    monkeypatch.setenv("COLUMNS", "80")
    recorded = FOLDER.parent / "kafka-3.4.1" / "logs" / "d-sticky-kill"
    lines = call(recorded).stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    starts = [place for place, line in enumerate(lines) if line.startswith("     ") and ".log.gz:" in line]
    assert len(starts) == 3
    assert all(later - earlier <= 3 for earlier, later in itertools.pairwise(starts))
    assert "(kafka.coordinator" not in "".join(lines)

    whole = " ".join(call(recorded, "--verbose").stdout.split())
    assert "has failed, removing it from the group (kafka.coordinator.group.GroupCoordinator)" in whole


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of two members with the labels of ``kemu import``, of which one pauses."""
    labels = 'labels = ["billing-1 on /10.0.0.5, rack eu-1a", "billing-2 on /10.0.0.6, rack eu-1b"]\n'
    path = tmp_path_factory.mktemp("labelled") / "mine.kemu"
    scenario = scenario_from_toml(PAUSED.replace("members = 2\n", f"members = 2\n{labels}"))
    run(scenario, seed=1, loop="bare", trace=path)
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "--from", "15s", "--to", "15100ms"),
        ("explain", "--around", "violation"),
        ("explain", "--actor"),
        ("diagnose",),
    ],
    ids=["from", "around", "who", "diagnose"],
)
def test_the_client_ids_hosts_and_racks_of_an_import_are_shown(words: tuple[str, ...], labelled: Path) -> None:
    command, *options = words
    outcome = CliRunner().invoke(kemu, [command, str(labelled), *options])

    lines = [" ".join(line.split()) for line in outcome.stdout.splitlines()]
    for host, label in (("c1", "billing-1 on /10.0.0.5, rack eu-1a"), ("c2", "billing-2 on /10.0.0.6, rack eu-1b")):
        assert any(line.startswith(host) and line.endswith(label) for line in lines), outcome.stdout


@pytest.mark.parametrize("command", ["diagnose", "reproduce"])
@pytest.mark.parametrize("share", [0.5, 0.01], ids=["half", "begin"])
def test_a_torn_trace_is_named(command: str, share: float, labelled: Path, tmp_path: Path) -> None:
    """Also if the records before the end name no group."""
    content = labelled.read_bytes()
    torn = tmp_path / "torn.kemu"
    torn.write_bytes(content[: int(len(content) * share)])

    outcome = CliRunner().invoke(kemu, [command, str(torn)])

    assert outcome.exit_code == 2
    assert f"error: {torn}: " in outcome.stderr
    assert "torn" in outcome.stderr.replace(str(torn), "")
