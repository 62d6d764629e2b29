"""Presets on calm draws do step by step what they did when their digests were kept (``tests.calm_digests``)."""

import pytest

from tests.calm_digests import differing, kept
from tests.preset_runs import LARGE, PRESETS

REWRITE = "a change that is meant: name these presets in the commit, and run python -m tests.calm_digests --rewrite"
_QUICK = [name for name in PRESETS if name not in LARGE]
SAMPLE = _QUICK[::9]
"""The short set checks these presets. The full set also checks the large presets, and ``-m soak`` checks all."""


def test_every_preset_has_a_digest_that_is_kept() -> None:
    """A new preset gets one, one that is gone leaves."""
    assert sorted(kept()) == sorted(PRESETS), REWRITE


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SAMPLE else pytest.mark.soak) for name in _QUICK]
)
def test_a_preset_on_calm_draws_does_what_it_did(name: str) -> None:
    """Seed 1, bare loop."""
    assert differing([name], kept()) == {}, REWRITE


@pytest.mark.parametrize("name", LARGE)
def test_a_large_preset_on_calm_draws_does_what_it_did(name: str) -> None:
    """Seed 1, bare loop."""
    assert differing([name], kept()) == {}, REWRITE
