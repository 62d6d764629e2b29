"""A few seeds of ``tests.soak_reassignment``: controllers and brokers die in the midst of steps."""

import pytest

from tests.soak_reassignment import PRESETS, one_seed

FOUND = (
    ("reassign-target-dies", 55, "a group whose log was lost resets on a partition that lost everything"),
    ("reassign-limits-lowered", 27, "an order to delete waits for a broker whose old registration ends"),
    ("reassign-limits-lowered", 48, "an old LeaderAndIsr arrives after the partition was moved away"),
    ("move-to-new-brokers", 31, "a broker is registered, and the controller has not heard of it when it drops it"),
    (
        "brokers-join-under-load",
        57,
        "a partition that is blocked leaves its place to one that begins before that is told",
    ),
    ("delete-while-reassigning", 15, "a log that was left over is taken for that of a topic created again"),
)
"""Seeds that were once not as they should be, and what was the matter: a checker did not know Kafka's rule."""


@pytest.mark.parametrize("name", PRESETS)
def test_partitions_arrive_or_wait_for_a_named_reason_whoever_dies_mid_step(name: str) -> None:
    """No orphan replica, no committed record lost (all checkers), nothing forgotten on its way."""
    verdict, wrong = one_seed(name, 1)
    assert wrong == "", f"{name}: {verdict}: {wrong}"


@pytest.mark.parametrize(("name", "seed"), [each[:2] for each in FOUND], ids=[why for *_, why in FOUND])
def test_what_a_sweep_has_found_stays_well(name: str, seed: int) -> None:
    """Once a run that was not as it should be, always a test."""
    verdict, wrong = one_seed(name, seed, as_it_is=True)
    assert wrong == "", f"{name}, seed {seed}: {verdict}: {wrong}"


@pytest.mark.soak
@pytest.mark.parametrize("name", PRESETS)
def test_the_same_for_three_hundred_seeds(name: str) -> None:
    """``python -m tests.soak_reassignment`` goes on from any seed."""
    assert [seed for seed in range(1, 301) if one_seed(name, seed)[1]] == []
