"""Every preset of cooperative rebalancing under every profile and random faults. The whole of it has a command of its
own: ``python -m tests.soak_rebalancing``.
"""

import pytest

from tests.soak_rebalancing import MOST_FAULTS, PRESETS, PROFILES, drawn, is_as_it_should, run_one


def hold(preset: str, profile: str, seeds: range) -> None:
    for seed in seeds:
        result = run_one(preset, profile, seed)
        assert is_as_it_should(preset, profile, result), f"seed {seed}: {result.broke or result.violations[:2]}"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_holds_under_random_faults(preset: str, profile: str) -> None:
    """No checker violation, every group converges."""
    hold(preset, profile, range(1, 4))


@pytest.mark.soak
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_holds_under_random_faults_for_five_hundred_seeds(preset: str, profile: str) -> None:
    hold(preset, profile, range(1, 501))


def test_the_random_faults_take_effect() -> None:
    """Otherwise nothing would be shown by them."""
    kinds: set[str] = set()
    counts = set()
    for seed in range(1, 31):
        own = len(drawn("cooperative-scale-in", seed).plan) - 2
        counts.add(own)
        faults = run_one("cooperative-scale-in", "kafka-3.4", seed).faults
        kinds.update(fault.kind for fault in faults[2:] if fault.fired)

    assert counts == set(range(1, MOST_FAULTS + 1))
    assert kinds >= {
        "crash",
        "pause",
        "isolate",
        "slow",
        "lossy",
        "hold",
        "disconnect",
        "kill-coordinator",
        "error-reply",
    }
