"""Every preset over many seeds with all checkers on: what must hold, holds; what must happen, happens."""

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, presets

PRESETS = sorted([each.name for each in presets()])
QUICK_SEEDS = range(1, 6)
SOAK_SEEDS = range(1, 201)


def hold(name: str, seeds: range) -> None:
    scenario = load_scenario(name)
    fired = [0] * len(scenario.plan)
    for seed in seeds:
        result = run(scenario, seed=seed, drive="bare")
        assert result.verdict == "holds", f"kemu run {name} --seed {seed} --drive bare: {result.reason}"
        fired = [before + fault.fired for before, fault in zip(fired, result.faults, strict=True)]
    assert all(fired), f"{name}: entries of the plan that never took effect in {seeds}: {fired}"


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_holds_and_its_faults_fire(name: str) -> None:
    hold(name, QUICK_SEEDS)


@pytest.mark.soak
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_holds_for_two_hundred_seeds(name: str) -> None:
    hold(name, SOAK_SEEDS)
