"""``kemu import-log`` as a user calls it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kemu
from kemu.tools.cli import kemu as program
from kemu.tools.commands.import_log import import_log
from tests.tools.logs.excerpts import FOLDER


def _call(*arguments: str) -> Result:
    return CliRunner().invoke(import_log, arguments)


def test_text_is_a_table_of_generations_and_an_account() -> None:
    """A generation with its cause and duration, the releases, and the share that was understood."""
    out = _call(str(FOLDER / "broker-2.2-expiry-markdown.log")).stdout

    assert "        14  2019-06-03T11:49:05.759  expire           9.796 s" in out
    assert "broker-2.2-expiry-markdown.log: 6 of 6 records understood (100 %)" in out
    assert "broker 2.1 to 2.2 by its words" in out


def test_messages_that_are_not_understood_are_listed_by_shape(tmp_path: Path) -> None:
    """Equal messages with other numbers are one shape, with the first line."""
    log = tmp_path / "a.log"
    log.write_text(
        "[2024-01-01 00:00:00,000] INFO [GroupCoordinator 1]: Stabilized group g generation 1 (__consumer_offsets-1)"
        " (kafka.coordinator.group.GroupCoordinator)\n"
        "[2024-01-01 00:00:01,000] INFO Group 5 does something new at 7 (kafka.coordinator.group.GroupCoordinator)\n"
        "[2024-01-01 00:00:02,000] INFO Group 6 does something new at 8 (kafka.coordinator.group.GroupCoordinator)\n"
    )
    out = _call(str(log)).stdout

    assert "a.log: 1 of 3 records understood (33 %)" in out
    assert "not understood: 2 records, of which 2 may be about groups" in out
    assert "2 x Group # does something new at #  (line 2)" in out


def test_events_are_json_lines_and_the_account_is_on_standard_error() -> None:
    """Standard output has only the objects."""
    result = _call(str(FOLDER / "kafkajs-2-two-members.log"), "--format", "events")

    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3, 4, 5, 6, 9, 10]
    assert rows[1]["partitions"] == ["Users-0", "Users-1"]
    assert "records understood" in result.stderr


def test_a_zone_of_one_file_and_the_offset_of_its_clock(tmp_path: Path) -> None:
    """Without the zone, the clock of the client differs by an hour; with the zone, the clocks agree."""
    server, client = tmp_path / "server.log", tmp_path / "client.log"
    server.write_text(
        "[2024-01-01 12:00:00,000] INFO [GroupCoordinator 1]: Stabilized group g generation 4 (__consumer_offsets-1)"
        " with 1 members (kafka.coordinator.group.GroupCoordinator)\n"
        "[2024-01-01 12:00:00,020] INFO [GroupCoordinator 1]: Assignment received from leader m for group g for"
        " generation 4. The group has 1 members, 0 of which are static. (kafka.coordinator.group.GroupCoordinator)\n"
    )
    prefix = "INFO [Consumer clientId=c, groupId=g]"
    client.write_text(
        f"[2024-01-01 13:00:00,005] {prefix} Finished assignment for group at generation 4: "
        "{m=Assignment(partitions=[t-0])} (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)\n"
        f"[2024-01-01 13:00:00,030] {prefix} Successfully synced group in generation Generation{{generationId=4,"
        " memberId='m', protocol='range'} (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)\n"
    )

    assert (
        "client.log: the clock differs from server.log; +3599985.0 ms to +3600005.0 ms ahead"
        in _call(str(server), str(client)).stdout
    )
    zoned = _call(str(server), str(client), "--zone", "client.log=+01:00").stdout
    assert "client.log: the clock may agree with server.log; -15.0 ms to +5.0 ms ahead" in zoned


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.log"], "no.log: no such file or folder"),
        ([str(FOLDER / "README.md")], "no record is of a known wording"),
        ([str(FOLDER / "README.md"), "--zone", "Mars"], "no time zone 'Mars'"),
        ([str(FOLDER / "README.md"), "--zone", "b.log=UTC"], "no file b.log"),
    ],
)
def test_bad_input_is_one_message(arguments: list[str], message: str) -> None:
    """The message names the file or the option; the exit code is 2."""
    result = _call(*arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_a_log_of_a_year_is_written_as_a_trace(tmp_path: Path) -> None:
    """The time of a log may be longer than the longest run of a scenario."""
    out = tmp_path / "x.kemu"
    result = _call(str(FOLDER / "sarama-1.30-debug.log"), "--out", str(out))
    assert (result.exit_code, out.is_file()) == (0, True)


def test_a_folder_is_read_and_other_files_are_listed(tmp_path: Path) -> None:
    """Logs of a folder and its subfolders are read; files without times and binary files are skipped."""
    (tmp_path / "a").mkdir()
    log = FOLDER / "broker-2.2-expiry-markdown.log"
    (tmp_path / "a" / "server.log").write_bytes(log.read_bytes())
    (tmp_path / "describe.txt").write_text("GROUP TOPIC\n")
    (tmp_path / "image.bin").write_bytes(b"\0\1" * 9)
    result = _call(str(tmp_path))

    assert "server.log: 6 of 6 records understood (100 %)" in result.stdout
    flat = " ".join(result.stdout.split())
    assert f"skipped in {tmp_path}, no line with a time or a level: describe.txt" in flat
    assert f"skipped in {tmp_path}, no text: image.bin" in flat
    empty = _call(str(tmp_path), "--kind", "sarama")
    assert (empty.exit_code, "no record is of a known wording" in empty.output) == (2, True)


def test_a_folder_without_a_log_is_one_message(tmp_path: Path) -> None:
    """The message names the folder."""
    result = _call(str(tmp_path))
    assert result.exit_code == 2
    assert f"{tmp_path}: no file of this folder is a log" in result.output


def test_json_has_the_generations_and_the_account() -> None:
    """The data of the text; the same from Python."""
    log = FOLDER / "broker-2.2-expiry-markdown.log"
    data = json.loads(_call(str(log), "--format", "json").stdout)

    assert (14, "expire") in [(row["generation"], row.get("cause")) for row in data["generations"]]
    assert (data["files"][0]["understood"], data["files"][0]["records"], data["clocks"]) == (6, 6, [])
    assert kemu.import_log(log).as_json() == data


@pytest.mark.parametrize("command", ["import-log", "diagnose", "reproduce"])
def test_the_picture_of_an_incident_is_one_page(command: str, tmp_path: Path) -> None:
    """``--report`` draws the facts of the logs, or the run of the scenario; the log is never replaced."""
    log, page = tmp_path / "a.log", tmp_path / "page.html"
    log.write_bytes((FOLDER / "broker-3x-strimzi-session-expiry.log").read_bytes())
    result = CliRunner().invoke(program, [command, str(log), "--report", str(page)])

    assert result.exit_code == 0, result.output
    assert f"report: {page}" in result.stdout
    assert page.read_text().startswith("<!doctype html>")
    wrong = CliRunner().invoke(program, [command, str(log), "--report", str(log)])
    assert wrong.exit_code == 2


def test_a_traces_picture_is_the_page_of_its_run(tmp_path: Path) -> None:
    """``kemu diagnose TRACE --report``; a trace beside logs has no common picture."""
    log, trace, page = FOLDER / "broker-3x-strimzi-session-expiry.log", tmp_path / "x.kemu", tmp_path / "page.html"
    _call(str(log), "--out", str(trace))
    assert CliRunner().invoke(program, ["diagnose", str(trace), "--report", str(page)]).exit_code == 0
    both = CliRunner().invoke(program, ["diagnose", str(trace), str(log), "--report", str(page)])
    assert (both.exit_code, "give logs only, or one trace" in both.output) == (2, True)
