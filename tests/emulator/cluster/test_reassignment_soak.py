"""A few seeds of ``tests.soak_reassignment``: controllers and brokers die in the midst of steps."""

import pytest

from tests.soak_reassignment import PRESETS, one_seed


@pytest.mark.parametrize("name", PRESETS)
def test_partitions_arrive_or_wait_for_a_named_reason_whoever_dies_mid_step(name: str) -> None:
    """No orphan replica, no committed record lost (all checkers), nothing forgotten on its way."""
    for seed in (1, 2):
        verdict, wrong = one_seed(name, seed)
        assert wrong == "", f"{name}, seed {seed}: {verdict}: {wrong}"


@pytest.mark.soak
@pytest.mark.parametrize("name", PRESETS)
def test_the_same_for_three_hundred_seeds(name: str) -> None:
    """``python -m tests.soak_reassignment`` goes on from any seed."""
    assert [seed for seed in range(1, 301) if one_seed(name, seed)[1]] == []
