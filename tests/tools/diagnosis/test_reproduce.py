"""A scenario from a log repeats the log's generations; what is assumed is said to be assumed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kemu
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml
from kemu.tools.cli import kemu as command
from kemu.tools.diagnosis.repeated import RowDifference, run_reproduction
from kemu.tools.diagnosis.reproduce import reproduce
from kemu.tools.errors import BadInput
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.sources import read_incident
from tests.tools.diagnosis.test_commands import PAUSED, ROLLING, SLOW
from tests.tools.logs.excerpts import FOLDER

CRASH = """
summary = "A member crashes and comes back after its session"
duration = "1m"
[topics.orders]
partitions = 4
rate = "2/s"
[groups.g]
topics = ["orders"]
members = 3
assignors = ["sticky"]
start_spread = "2s"
[groups.g.config]
session.timeout.ms = 10000
[[plan]]
at = "20s"
do = "crash"
host = "c2"
mode = "process"
for = "20s"
"""


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["reproduce", *map(str, arguments)])


@pytest.mark.parametrize("text", [PAUSED, SLOW, ROLLING, CRASH])
def test_a_run_of_kemu_is_repeated_from_its_events_alone(text: str, tmp_path: Path) -> None:
    """Round trip: reasons, members and counts of generations are equal; durations vary with heartbeats."""
    trace = tmp_path / "run.kemu"
    run(scenario_from_toml(f'draws = "calm"\n{text}'), seed=3, loop="bare", trace=trace)
    incident = Incident(read_incident([trace]).events)
    equal, differences = run_reproduction(reproduce(incident), incident)
    assert [each.text for each in differences if not each.field.startswith("seconds")] == []
    assert equal >= 10


@pytest.mark.parametrize(
    ("name", "least"),
    [("broker-2.2-expiry-markdown", 6), ("broker-3x-strimzi-session-expiry", 8)],
)
def test_a_public_log_is_repeated(name: str, least: int) -> None:
    incident = Incident(read_incident([FOLDER / f"{name}.log"]).events)
    equal, differences = run_reproduction(reproduce(incident), incident)
    assert [each.text for each in differences if not each.field.startswith("seconds")] == []
    assert equal >= least


def test_what_the_log_states_is_read_and_the_rest_is_assumed() -> None:
    found = kemu.reproduce(FOLDER / "broker-3x-strimzi-session-expiry.log")
    basis = {part.what: (part.basis, part.value) for part in found.parts}
    assert basis["session.timeout.ms"] == ("inferred", "10000")
    assert basis["group.initial.rebalance.delay.ms"] == ("inferred", "3000")
    assert basis["assignors"][0] == "assumed"
    assert all(part.evidence for part in found.parts if part.basis == "read" and part.what != "brokers")


def test_members_of_processes_without_ids_are_found_by_their_partitions() -> None:
    """Java 2.5 writes no member id of a process; the leader's assignment has ids and partitions."""
    found = kemu.reproduce(FOLDER / "java-2.5-poll-timeout-three-members.log")
    assert len(found.names) == 3


def test_differences_are_listed_and_the_scenario_is_written(tmp_path: Path) -> None:
    out = tmp_path / "incident.toml"
    result = call(FOLDER / "broker-2.2-expiry-markdown.log", "--out", out)
    assert result.exit_code == 0
    assert "read: start of c2 (source)" in result.stdout
    assert "seconds from begin to completion" in result.stdout
    assert load_scenario(str(out)).groups["waiter"].members == 2
    assert "# assumed: assignors range" in out.read_text()


def test_json_has_the_basis_of_each_part() -> None:
    data = json.loads(call(FOLDER / "broker-3x-strimzi-session-expiry.log", "--format", "json").stdout)
    assert data["differences"] == []
    assert {part["basis"] for part in data["parts"]} == {"read", "inferred", "assumed"}


@pytest.mark.parametrize("name", ["state-change-2.6-leader-and-isr", "kafka-go-first-join"])
def test_a_log_without_a_group_or_without_times_is_one_message(name: str) -> None:
    result = call(FOLDER / f"{name}.log")
    assert result.exit_code == 2
    assert f"error: {FOLDER / name}.log: no line" in result.output


def test_an_unknown_group_is_named() -> None:
    incident = Incident(read_incident([FOLDER / "broker-2.2-expiry-markdown.log"]).events)
    with pytest.raises(BadInput, match="waiter"):
        reproduce(incident, "other")


def test_the_python_api_diagnoses_and_advises() -> None:
    assert kemu.diagnose(FOLDER / "broker-2.2-expiry-markdown.log").causes == ("session-expired",)
    with pytest.raises(ValueError, match="too few"):
        kemu.advise("steady-group", seeds=range(1, 4))
    with pytest.raises(ValueError, match="downtime"):
        kemu.advise("steady-group", by="speed")


def test_two_restarts_of_the_broker_are_repeated_from_its_log_alone() -> None:
    """Kafka 3.4.1: the leader rejoins for new metadata; a member that joins before the second stop has two ids."""
    recorded = FOLDER.parent / "kafka-3.4.1" / "logs" / "g-broker-restart" / "server.log.gz"
    incident = Incident(read_incident([recorded]).events)
    found = reproduce(incident)

    assert [host for _, host in found.names] == ["c1", "c2", "c3", "c4", "c4"]
    assert "rejoin of" in [part.what for part in found.parts]
    equal, differences = run_reproduction(found, incident)
    assert (equal, [each.text for each in differences]) == (19, [])


def test_a_difference_within_a_heartbeat_has_its_reason() -> None:
    """The lines do not tell when the heartbeats of members are due."""
    found = kemu.reproduce(FOLDER / "broker-2.2-expiry-markdown.log")
    incident = Incident(read_incident([FOLDER / "broker-2.2-expiry-markdown.log"]).events)
    _, differences = run_reproduction(found, incident)
    assert differences
    assert all("members learn of a rebalance by a heartbeat" in each.text for each in differences if each.why)


@pytest.mark.parametrize(
    ("plan", "equal"),
    [
        ("a-range-rolling", 129),
        ("b-static-rolling", 30),
        ("c-coop-scale", 84),
        ("d-sticky-kill", 58),
        ("f-topic-grows", 41),
        ("g-broker-restart", 67),
        ("h-twenty-at-once", 91),
        ("i-static-duplicate", 23),
        ("j-assignor-upgrade", 263),
        ("n-three-brokers", 23),
        ("p-coop-several-topics", 112),
    ],
)
def test_a_recording_is_repeated_from_its_logs(plan: str, equal: int) -> None:
    """Generations, owners, and the order of answers and errors of each member are those of Kafka 3.4.1.

    Durations differ by less than a heartbeat interval. Members of j change from range to cooperative-sticky.
    """
    found, differences = repeated(plan)

    assert {each.field for each in differences if not each.why} == set()
    assert {each.field for each in differences} <= {"seconds from begin to completion"}
    assert found == equal


def test_a_generation_that_a_chance_heartbeat_made_is_named_with_its_reason() -> None:
    """In q, c4 sends a heartbeat in the 137 ms between the LeaveGroups of the other members."""
    equal, differences = repeated("q-paused-in-rebalance")

    assert equal == 47
    assert "its join phase took 0.137 s, less than a heartbeat interval" in differences[0].why
    assert all(each.why for each in differences)


def repeated(plan: str) -> tuple[int, list[RowDifference]]:
    folder = FOLDER.parent / "kafka-3.4.1" / "logs" / plan
    logs = sorted(path for path in folder.glob("*.log.gz") if "request" not in path.name)
    incident = Incident(read_incident(logs).events)
    return run_reproduction(reproduce(incident), incident)
