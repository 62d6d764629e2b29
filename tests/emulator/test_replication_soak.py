"""Every preset of replication and control under random faults, in both loops. The whole of it has a command of its
own: ``python -m tests.soak_replication``.
"""

import pytest

from tests.soak_replication import LOOPS, MOST_FAULTS, PRESETS, drawn, one_seed, run_one


@pytest.mark.parametrize(
    ("preset", "loops"), [(preset, LOOPS if not index % 3 else LOOPS[:1]) for index, preset in enumerate(PRESETS)]
)
def test_a_preset_holds_under_random_faults(preset: str, loops: tuple[str, ...]) -> None:
    """One seed each, every third preset in both loops; three hundred in both loops are a sweep."""
    verdict, wrong = one_seed(preset, loops, 1)
    assert (verdict, wrong) == ("holds", "")


@pytest.mark.soak
@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_holds_under_random_faults_for_three_hundred_seeds(preset: str) -> None:
    for seed in range(1, 301):
        verdict, wrong = one_seed(preset, LOOPS, seed)
        assert (verdict, wrong) == ("holds", ""), f"seed {seed}"


def test_the_random_faults_take_effect() -> None:
    """Otherwise nothing would be shown by them: brokers, controller and store are hit as well as members."""
    counts = {len(drawn("replicated-steady", seed).plan) for seed in range(1, 31)}
    fired = set()
    for seed in range(1, 31):
        plan = drawn("replicated-steady", seed).plan
        faults = run_one("replicated-steady", seed, "bare").faults
        for entry, fault in zip(plan, faults, strict=True):
            host = getattr(entry.action, "host", getattr(entry.action, "sender", ""))
            if fault.fired:
                fired.add((fault.kind, host[:1]))

    assert counts == set(range(1, MOST_FAULTS + 1))
    assert fired >= {("crash", "b"), ("crash", "c"), ("pause", "b")}
