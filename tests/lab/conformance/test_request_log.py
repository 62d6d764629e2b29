"""Request logs of real brokers: the machine gives the responses of the real coordinator, up to the first difference."""

import gzip
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kemu.protocol.profiles import PROFILES
from lab.conformance.raw.request_log import compared, main

FOLDER = Path(__file__).parents[2] / "data" / "kafka-3.4.1" / "logs"
REQUESTS = FOLDER.parent / "requests"
CONFIG = PROFILES["kafka-3.4"].broker


@pytest.mark.parametrize(("plan", "responses"), [("b-static-rolling", 95), ("d-sticky-kill", 99)])
def test_the_machine_answers_the_requests_of_a_log_as_kafka_did(plan: str, responses: int) -> None:
    """Every field of every response, and the time of each response; joins wait as long as in Kafka."""
    done, unchecked = compared([FOLDER / plan / "request.log.gz"], CONFIG)

    assert (done.differences, unchecked) == ((), {})
    assert len(done.talk.answers) == len(done.ours.answers) == responses
    waits_ms = [done.ours.answers[step].at_ms - done.talk.steps[step].at_ms for step in done.ours.answers]
    assert max(waits_ms) > 1_000


def log_with_a_heartbeat_error(folder: Path, code: int) -> str:
    """A request log in which the coordinator answers the fourth Heartbeat with this error."""
    text = gzip.decompress((FOLDER / "d-sticky-kill" / "request.log.gz").read_bytes()).decode()
    lines = text.splitlines(keepends=True)
    place = [number for number, line in enumerate(lines) if '"HEARTBEAT"' in line][3]
    lines[place] = lines[place].replace('"errorCode":0', f'"errorCode":{code}')
    log = folder / "request.log"
    log.write_text("".join(lines))
    return str(log)


def test_the_first_other_response_is_named(tmp_path: Path) -> None:
    """The log of a coordinator that refused a heartbeat: exit code 1 and the request."""
    result = CliRunner().invoke(main, [log_with_a_heartbeat_error(tmp_path, 25)])

    assert result.exit_code == 1
    assert "responses are equal, then error differs:" in result.output
    assert "Kafka <ErrorCode.UNKNOWN_MEMBER_ID: 25>, emulator <ErrorCode.NONE: 0>" in result.output
    assert "Heartbeat v4" in result.output


@pytest.mark.parametrize(("api", "place"), [("HEARTBEAT", 5), ("SYNC_GROUP", 4), ("JOIN_GROUP", 8)])
def test_a_response_that_is_200_ms_late_differs(tmp_path: Path, api: str, place: int) -> None:
    """The broker of d was idle: 200 ms more of waiting, without handling, are a difference."""
    text = gzip.decompress((FOLDER / "d-sticky-kill" / "request.log.gz").read_bytes()).decode()
    lines = text.splitlines(keepends=True)
    number = [number for number, line in enumerate(lines) if f'"{api}"' in line][place]
    for name in ("totalTimeMs", "remoteTimeMs"):
        lines[number] = re.sub(rf'("{name}":)([\d.]+)', lambda it: f"{it[1]}{float(it[2]) + 200}", lines[number])
    log = tmp_path / "request.log"
    log.write_text("".join(lines))
    result = CliRunner().invoke(main, [str(log)])

    assert result.exit_code == 1
    assert "differs:" in result.output


def test_a_log_without_requests_is_one_message(tmp_path: Path) -> None:
    """A broker's log is no request log; a group that the log does not have is named."""
    log = tmp_path / "server.log"
    log.write_text("[2024-01-01 00:00:00,000] INFO started (kafka.server.KafkaServer)\n")
    assert "is about a group" in CliRunner().invoke(main, [str(log)]).output
    result = CliRunner().invoke(main, [str(FOLDER / "d-sticky-kill" / "request.log.gz"), "--group", "other"])
    assert (result.exit_code, "is about the group other" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("logs", "responses", "loads", "unchecked"),
    [
        (["g"], 134, 3, {"COORDINATOR_LOAD_IN_PROGRESS": 11, "NOT_COORDINATOR": 8}),
        (["n-broker0", "n-broker1"], 236, 5, {"COORDINATOR_LOAD_IN_PROGRESS": 10, "NOT_COORDINATOR": 2}),
    ],
)
def test_the_comparison_continues_after_the_coordinator_moved(
    logs: list[str], responses: int, loads: int, unchecked: dict[str, int]
) -> None:
    """In g, the broker restarts twice; in n, the group moves between two of three brokers, whose logs are one story."""
    done, counted = compared([REQUESTS / f"{name}.log.gz" for name in logs], CONFIG)

    assert done.differences == ()
    assert (len(done.talk.answers), len(done.talk.moves), counted) == (responses, loads, unchecked)


def test_a_broker_alone_that_loads_groups_of_another_differs() -> None:
    """The log of n's second broker does not have the members that the first broker stored: the first response tells."""
    result = CliRunner().invoke(main, [str(REQUESTS / "n-broker1.log.gz")])

    assert result.exit_code == 1
    assert "0 of" in result.output


def test_responses_of_a_moving_coordinator_are_counted(tmp_path: Path) -> None:
    """A request log does not state when a broker resigns or loads, so these responses are not compared."""
    result = CliRunner().invoke(main, [log_with_a_heartbeat_error(tmp_path, 16)])

    assert result.exit_code == 0
    assert "not compared, because the coordinator moves or loads: 1 NOT_COORDINATOR" in result.output
    assert "all 98 responses are equal; 1 times a coordinator loads the group" in result.output
