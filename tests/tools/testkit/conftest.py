"""Fixtures for tests of the pytest plugin."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of its own, with the plugin and without the environment's settings."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("KEMU_SEED", "KEMU_SEEDS", "KEMU_SHRINK", "KEMU_TRACE_DIR"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = --strict-markers -p no:asyncio\n")
    pytester.makeconftest('pytest_plugins = ("kemu.tools.testkit.plugin",)')
    return pytester
