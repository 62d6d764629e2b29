"""Fixtures for tests of command lines."""

import pytest


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences stand on one line, so that tests can look for them; ``test_width`` has narrow terminals."""
    monkeypatch.setenv("COLUMNS", "600")


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs stay in the process of the test, unless it asks for ``--jobs``."""
    monkeypatch.setenv("KEMU_JOBS", "1")
