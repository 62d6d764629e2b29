"""The bench of planning: it plans what it says, and its figures are about that."""

from lab.bench.reassign import CASES, QUICK_SIZES, lists, measure


def test_the_bench_has_a_time_and_a_growth_for_every_size_and_limit() -> None:
    """Nothing is asserted about the machine's speed; a plan that does not arrive fails in the bench itself."""
    told: list[str] = []
    result = measure(told.append, quick=True)

    assert len(told) == len(CASES) * len(QUICK_SIZES)
    for name in CASES:
        assert result[f"{name}.{QUICK_SIZES[0]}_per_partition"] == 1.0
        assert result[f"{name}.of_limit"] >= 0
        assert all(result[f"{name}.{size}_s"] >= 0 for size in QUICK_SIZES)


def test_every_replica_moves() -> None:
    """Otherwise the plan would be shorter than what is measured."""
    before, after = lists(50, 0), lists(50, 20)
    assert all(not set(before[at]) & set(after[at]) and len(set(after[at])) == 4 for at in before)
