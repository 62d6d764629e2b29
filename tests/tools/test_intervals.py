"""Intervals of medians: exact, of the coverage they claim, and none where there are too few values."""

import numpy as np
import pytest

from kemu.tools.intervals import CONFIDENCE, differs, median_ranks, p95_rank, spread


@pytest.mark.parametrize("count", [6, 7, 20, 40, 41, 100, 1_000])
def test_the_ranks_are_those_of_scipy_s_own_quantile_test(count: int) -> None:
    """An implementation of its own: ``scipy.stats.quantile_test`` inverts the test on the values."""
    from scipy.stats import quantile_test

    values = np.random.default_rng(count).lognormal(size=count)
    told, exact = spread(list(values)), quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)

    assert (told.low, told.high) == (exact.low, exact.high)


def test_below_six_values_no_interval_is_claimed_and_below_59_no_95th_percentile() -> None:
    """The smallest and the largest of five enclose the median in 15 of 16 cases only."""
    assert [median_ranks(count) for count in range(7)] == [None] * 6 + [(1, 6)]
    assert p95_rank(58) is None and p95_rank(59) == 57
    assert spread([3.0, 1.0, 2.0]) == spread([1.0, 2.0, 3.0])
    told = spread([1.0, 2.0, 4.0])
    assert (told.median, told.low, told.high, told.p95, told.largest) == (2.0, None, None, None, 4.0)
    assert differs([5.0] * 5) is None


@pytest.mark.parametrize("count", [6, 20, 40, 67])
def test_the_interval_holds_the_true_median_in_about_95_of_100_samples(count: int) -> None:
    """Of a skewed distribution (a lognormal one, median 1); an order statistic's coverage is never less than claimed.

    4,000 samples: the standard deviation of the share is 0.35 %.
    """
    samples = np.random.default_rng(11).lognormal(sigma=1.5, size=(4_000, count))
    held = sum(told.low <= 1.0 <= told.high for told in map(spread, samples.tolist()))  # type: ignore[operator]

    assert 0.94 <= held / 4_000 <= 0.985


@pytest.mark.parametrize("count", [20, 40])
def test_cells_that_are_the_same_differ_in_about_one_of_twenty_comparisons(count: int) -> None:
    """Paired differences of the same skewed distribution, as ``differences`` takes them."""
    random = np.random.default_rng(5)
    a, b = (random.lognormal(sigma=1.5, size=(4_000, count)) for _ in range(2))
    fired = sum(bool(differs(row)) for row in (b - a).tolist())

    assert 0.02 <= fired / 4_000 <= 0.06


def test_cells_that_are_not_the_same_differ() -> None:
    """A shift of one standard deviation, over 40 seeds."""
    random = np.random.default_rng(5)
    fired = sum(bool(differs(row)) for row in random.normal(loc=1.0, size=(400, 40)).tolist())

    assert fired / 400 > 0.99


def test_the_ranks_are_those_of_scipy_s_binomial_distribution() -> None:
    """Up to sizes that nobody runs."""
    from scipy.stats import binom

    counts = [*range(6, 400), 1_000, 10_000, 54_321]

    assert [median_ranks(count) for count in counts] == [
        (int(binom.ppf(0.025, count, 0.5)), count + 1 - int(binom.ppf(0.025, count, 0.5))) for count in counts
    ]
