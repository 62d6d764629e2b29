"""Fixtures for tests of command lines."""

import gc
import warnings
from collections.abc import Iterator

import pytest

from kemu.tools.determinism.watch import SweepWatch

SAW = SweepWatch.saw


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences stand on one line, so that tests can look for them; ``test_width`` has narrow terminals."""
    monkeypatch.setenv("COLUMNS", "600")


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs stay in the process of the test, unless it asks for ``--jobs``."""
    monkeypatch.setenv("KEMU_JOBS", "1")


@pytest.fixture(autouse=True, scope="module")
def runs_once() -> Iterator[None]:
    """No sample of a sweep is repeated in another process, which takes a second to start; see ``repeated``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SweepWatch, "saw", lambda self, asked, digest: None)
        yield


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps repeat a sample of their runs, as they do for users."""
    monkeypatch.setattr(SweepWatch, "saw", SAW)


@pytest.fixture(scope="module")
def sockets_of_kafka_python() -> Iterator[None]:
    """kafka-python 3.0 forgets a socket that cannot connect (``kafka.net.inet``); without this, another test fails."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
