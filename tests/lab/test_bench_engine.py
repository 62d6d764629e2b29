"""The engine's bench runs and gives every figure it promises (how fast is not a test)."""

import pytest

from lab.bench import engine

pytestmark = pytest.mark.usefixtures("few_objects")

PROMISED = {
    "trio_steps_per_roundtrip",
    "bare_steps_per_roundtrip",
    "roundtrips_per_s",
    "heap_events_per_s",
    "herd",
}


def test_a_quick_run_has_every_figure() -> None:
    result = engine.measure(lambda text: None, quick=True)

    assert set(result) >= PROMISED
    assert result["cost_30_vs_10"] > 0
    assert result["herd"]["steps"] > 1000
