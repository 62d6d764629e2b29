"""Every preset over some seeds with all checkers on: what must hold, holds; what must happen, happens."""

from collections import Counter

import pytest

from tests.soak_presets import PRESETS, SETS, never_fired, one_run, sweep_seeds

QUICK_SEEDS = range(1, 6)
SOAK_SEEDS = range(1, 201)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_holds_and_its_faults_fire(name: str) -> None:
    """On life, as it is run by default."""
    fired: Counter[tuple[str, int]] = Counter()
    for seed in QUICK_SEEDS:
        assert one_run(name, "life", seed, fired) == ""
    assert never_fired([name], fired) == []


@pytest.mark.soak
@pytest.mark.parametrize("draws", SETS)
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_holds_for_two_hundred_seeds(name: str, draws: str) -> None:
    """On both sets of draws; ``python -m tests.soak_presets`` goes on from any seed."""
    assert [line for line in sweep_seeds((name,), draws, SOAK_SEEDS) if "FAILED" in line] == []
