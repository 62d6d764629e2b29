"""Logs that once raised, took minutes or invented names: each is read, or refused in one message with its name."""

import gzip
import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kemu.tools.commands.diagnose import diagnose_command
from kemu.tools.commands.import_log import import_log
from kemu.tools.logs import lines as reader
from kemu.tools.logs.events import Event
from kemu.tools.logs.parts import ReadLogs, parts_of
from kemu.tools.logs.reading import LogLayout, LogReader, read_events
from tests.tools.logs.excerpts import FOLDER

TIME = "[2024-05-06 07:08:09,123] INFO"
STABLE = f"{TIME} [GroupCoordinator 1]: Stabilized group g generation 14 (__consumer_offsets-3) with 2 members"
CLOSE = "(kafka.coordinator.group.GroupCoordinator)"
GOOD = f"{STABLE} {CLOSE}"
REQUEST = {
    "requestHeader": {"requestApiKeyName": "HEARTBEAT", "clientId": "c"},
    "request": {"groupId": "g", "memberId": "m-1", "generationId": 3},
    "response": {"errorCode": 0},
    "totalTimeMs": 0.5,
}
"""A request as ``kafka.request.logger`` writes it."""


def _events(*texts: str) -> list[Event]:
    return list(LogReader("x").events([f"{text}\n" for text in texts]))


def _request(**parts: object) -> str:
    row = json.dumps({**REQUEST, **parts})
    return f"{TIME} Completed request:{row} (kafka.request.logger)".replace("INFO", "DEBUG")


def _import(*arguments: str | Path) -> Result:
    return CliRunner().invoke(import_log, [*map(str, arguments)])


def _log(folder: Path, content: bytes) -> Path:
    path = folder / "a.log"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "line",
    [
        '{"a":' * 100_000,
        '{"message":"x","a":' + "[" * 100_000 + "]" * 100_000 + "}",
        "msg=" * 3_000,
        "x 2024-99-99 00:00:00 INFO " * 3_000,
        "$" * 5_000 + " ",
        "2024-05-06T07:08:09 host app[" + "9" * 5_000 + "]: text",
        " " * 200_000 + "x",
        "a=[ " * 60_000,
        "Setting newly assigned partitions " + "a" * 200_000,
        "Finished assignment for group at generation 3: {" + "a," * 20_000 + "}",
        "Revoking previously assigned partitions " + "]" * 200_000 + "x",
    ],
    ids=[
        *("objects", "lists", "logfmt", "dates", "classes", "process"),
        *("spaces", "pairs", "name", "members", "ends"),
    ],
)
def test_a_long_line_costs_no_other_line(line: str) -> None:
    """The records before and after the line are read."""
    assert [(event.line, event.generation) for event in _events(GOOD, line, GOOD) if event.group == "g"] == [
        (1, 14),
        (3, 14),
    ]


def test_the_layout_of_a_log_is_learned_from_the_begin_of_a_long_line() -> None:
    """A fuzzer found this line: the time of a pattern grew with the square of its length."""
    began_s = time.process_time()
    LogLayout.of([f"{TIME} [GroupCoordinator 1]: the consumer group is left by {'Member c-1 ' * 60_000}"])

    assert time.process_time() - began_s < 5


@pytest.mark.parametrize(
    ("parts", "stated"),
    [
        ({}, {"group": "g", "generation": 3, "ms": 0}),
        ({"totalTimeMs": float("inf")}, {"group": "g", "ms": None}),
        ({"totalTimeMs": float("nan")}, {"group": "g", "ms": None}),
        ({"request": {"groupId": ["g"], "memberId": {"m": 1}}}, {"group": None, "member": None}),
        ({"request": {"groupId": "g\ud800", "memberId": "m"}}, {"group": "g?", "member": "m"}),
        ({"request": {"groupId": "g", "generationId": 1 << 70}}, {"group": "g", "generation": None}),
    ],
    ids=["good", "infinite", "no-number", "wrong-types", "half-a-character", "large"],
)
def test_a_request_states_values_of_the_right_type_only(parts: dict[str, object], stated: dict[str, object]) -> None:
    (event,) = _events(_request(**parts))

    assert {name: getattr(event, name) for name in stated} == stated


@pytest.mark.parametrize("damage", ["torn", "flipped", "bomb", "line"])
def test_a_damaged_packed_log_is_named(damage: str, tmp_path: Path) -> None:
    """Both commands exit with 2, and name the file."""
    text = b"".join(path.read_bytes() for path in sorted(FOLDER.glob("broker*.log")))
    packed = gzip.compress(text)
    content = {
        "torn": packed[: len(packed) // 2],
        "flipped": packed[:100] + b"\xff\xff\xff\xff" + packed[104:],
        "bomb": gzip.compress(text + (b"a" * 200 + b"\n") * 20_000),
        "line": gzip.compress(text + b"\0" * 10_000_000, 1),
    }[damage]
    path = _log(tmp_path, content)

    for done in (_import(path), CliRunner().invoke(diagnose_command, [str(path)])):
        assert done.exit_code == 2, done.output
        assert f"{path}: " in done.output
        assert "Traceback" not in done.output


def test_a_log_packed_in_parts_is_one_log(tmp_path: Path) -> None:
    """As ``gzip --stdout >> file`` and some collectors write it."""
    path = _log(tmp_path, gzip.compress(f"{GOOD}\n".encode()) + gzip.compress(f"{GOOD}\n".encode()))

    assert [event.line for event in read_events([path])[0]] == [1, 2]


def test_of_a_long_line_the_begin_is_read(tmp_path: Path) -> None:
    """The next lines keep their numbers, in one part and in several parts."""
    path = _log(tmp_path, f"{GOOD}\n{GOOD}{'x' * (reader.LONGEST_LINE + 5)}\n{GOOD}\n".encode())

    whole = [(event.line, event.generation) for event in read_events([path])[0]]
    parts = [event.line for event in ReadLogs(parts_of([path], (), {}, part_bytes=100_000)).events()]

    assert whole == [(1, 14), (2, 14), (3, 14)]
    assert parts == [1, 2, 3]


def test_a_log_of_a_broker_with_a_high_id_becomes_a_trace(tmp_path: Path) -> None:
    """Kafka gives ids from 1001 (reserved.broker.max.id); scenarios have at most 1,000 brokers."""
    path = _log(tmp_path, f"{GOOD}\n".replace("Coordinator 1]", "Coordinator 1001]").encode())

    done = _import(path, "--out", tmp_path / "a.kemu")

    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("partition", ["t-99999999999", "t-999999999", "a b-0", "t-0..999999999"])
def test_partitions_that_kafka_does_not_allow_are_no_facts(partition: str, tmp_path: Path) -> None:
    text = f"{TIME} [Consumer clientId=c, groupId=g] Setting newly assigned partitions [{partition}, t-1]"
    path = _log(tmp_path, text.encode())

    done = _import(path, "--out", tmp_path / "a.kemu")

    assert done.exit_code == 0, done.output


def test_events_have_no_control_characters(tmp_path: Path) -> None:
    """A terminal obeys some of them, also above 127."""
    path = _log(tmp_path, f"{STABLE.replace('group g', 'group g' + chr(0x9B) + '31m')} {CLOSE}\n".encode())

    done = _import(path, "--format", "events")

    assert "g\\\\x9b31m" in done.stdout
    assert chr(0x9B) not in done.stdout


def test_a_log_without_known_messages_is_named(tmp_path: Path) -> None:
    done = _import(_log(tmp_path, os.urandom(10_000)))

    assert done.exit_code == 2
    assert f"{tmp_path / 'a.log'}: no record is of a known wording" in done.output
