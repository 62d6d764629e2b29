"""Parts of a log, read one by one, give the events and the account of the whole log."""

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from kemu.tools.commands.import_log import import_log
from kemu.tools.logs import parts
from kemu.tools.logs.account import account_lines
from kemu.tools.logs.parts import ReadLogs, parts_of
from tests.tools.logs.test_recordings import FOLDER


def unpacked(folder: Path, *names: str) -> list[Path]:
    found = []
    for name in names:
        source = FOLDER / f"{name}.gz"
        found.append(folder / f"{source.parent.name}-{source.stem}")
        found[-1].write_bytes(gzip.decompress(source.read_bytes()))
    return found


@pytest.mark.parametrize("size", [1_000, 7_919])
def test_parts_of_any_size_give_the_events_of_the_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Lines, fields and account are equal. The parts begin to read some records before their first byte."""
    monkeypatch.setattr(parts, "BESIDE_BYTES", 20_000)
    paths = unpacked(tmp_path, "d-sticky-kill/server.log", "d-sticky-kill/consumers-c2.log")
    whole, divided = ReadLogs(parts_of(paths, (), {})), ReadLogs(parts_of(paths, (), {}, size))
    assert len(whole.parts) == 2
    assert len(divided.parts) > 2

    assert list(divided.events()) == list(whole.events())
    told = [[line for summary in logs.summaries for line in account_lines(summary, 99)] for logs in (divided, whole)]
    assert told[0] == told[1]


def test_events_are_printed_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--format events`` keeps no event, so its memory does not grow with the log."""
    (path,) = unpacked(tmp_path, "d-sticky-kill/server.log")
    monkeypatch.setattr("kemu.tools.commands.import_log.Incident", None)
    result = CliRunner().invoke(import_log, [str(path), "--format", "events"])
    assert result.exit_code == 0
    assert result.stdout.count("\n") > 50
