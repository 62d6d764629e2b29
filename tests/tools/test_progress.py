"""Progress goes to a terminal's standard error, and nowhere else."""

import io

import pytest

from kemu.tools import progress


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_run_longer_than_a_second_shows_its_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by a thread of its own, which ends with the run."""
    terminal = Terminal()
    monkeypatch.setattr(progress, "SHOWN_AFTER_S", 0.0)
    monkeypatch.setattr(progress, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("sys.stderr", terminal)
    asked: list[int] = []

    def now_us() -> int:
        asked.append(1)
        return 30_000_000

    with progress.virtual_progress(60_000_000, now_us):
        while len(asked) < 30:
            pass

    assert "virtual time 30 of 60 s" in terminal.getvalue()


def test_a_short_run_and_a_pipe_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run below a second needs no bar."""
    for stderr in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", stderr)
        with progress.virtual_progress(60_000_000, lambda: 0):
            pass
        assert stderr.getvalue() == ""


def test_work_of_unknown_length_shows_its_last_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of analyze and query."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.busy("analyze") as tell:
        tell("ingest: 3.0 s")

    assert "analyze, done: ingest: 3.0 s" in terminal.getvalue()
