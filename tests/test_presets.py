"""Every preset over some seeds with all checkers on: what must hold, holds; what must happen, happens."""

from collections import Counter

import pytest

from tests.preset_runs import PRESETS, by_preset, preset_run
from tests.soak_presets import SETS, never_fired, sweep_seeds

QUICK_SEEDS = 2
SEEDS_TO_FIRE_IN = 5
SOAK_SEEDS = range(1, 201)


@pytest.mark.parametrize("name", by_preset())
def test_a_preset_holds_and_its_faults_fire(name: str) -> None:
    """On life, as it is run by default; more than two seeds only if a line of its plan has not taken effect in them."""
    fired: Counter[tuple[str, int]] = Counter()
    for seed in range(1, SEEDS_TO_FIRE_IN + 1):
        if seed > QUICK_SEEDS and not never_fired([name], fired):
            break
        one = preset_run(name, seed)
        assert one.wrong == ""
        fired.update({(name, index): times for index, times in one.fired.items()})
    assert never_fired([name], fired) == []


@pytest.mark.soak
@pytest.mark.parametrize("draws", SETS)
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_holds_for_two_hundred_seeds(name: str, draws: str) -> None:
    """On both sets of draws; ``python -m tests.soak_presets`` goes on from any seed."""
    assert [line for line in sweep_seeds((name,), draws, SOAK_SEEDS) if "FAILED" in line] == []
