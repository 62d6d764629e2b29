"""Distributions: what texts say, what draws of them are like, and the table of draws."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.draws import CALM, DRAWS, ONE, UUIDS, DrawName, distribution

MS = 1_000


def drawn(text: str, count: int = 20_000) -> list[int]:
    """Sorted draws of a fixed stream."""
    bits, how = Random("draws").getrandbits, distribution(text)
    return sorted(how.of(bits(32)) for _ in range(count))


def quantile(draws: list[int], percent: float) -> int:
    return draws[int(len(draws) * percent / 100)]


def test_every_draw_has_a_row_whose_distribution_can_be_read() -> None:
    """Name, default, calm meaning and source stand in one table."""
    assert list(DRAWS) == [name.value for name in DrawName]
    for row in DRAWS.values():
        assert row.calm and row.what and row.source
        if row.name is DrawName.IDENTITY:
            assert row.life == UUIDS
        else:
            assert distribution(row.life).most >= distribution(row.life).values[0] >= 0


def test_no_name_of_a_draw_is_the_table_of_another() -> None:
    """A file may write bare dotted keys, which TOML reads as tables."""
    assert not [name for name in DRAWS for other in DRAWS if other.startswith(f"{name}.")]


def test_a_lognormal_has_the_median_and_the_p99_it_names() -> None:
    """The default work of a poll: median 200 ms, p99 2 s."""
    draws = drawn("lognormal median=200ms p99=2s")
    assert quantile(draws, 50) == pytest.approx(200 * MS, rel=0.03)
    assert quantile(draws, 99) == pytest.approx(2_000 * MS, rel=0.12)
    assert distribution("lognormal median=200ms p99=2s").mean == pytest.approx(sum(draws) / len(draws), rel=0.03)


def test_quantiles_are_met_and_lines_are_straight_between_them() -> None:
    """The default network: 0.3 to 1 ms, p99.9 20 ms."""
    draws = drawn(DRAWS["network.latency"].life, 100_000)
    assert draws[0] >= 300 and draws[-1] <= 200 * MS
    assert quantile(draws, 49.5) == pytest.approx(650, rel=0.02)
    assert quantile(draws, 99) == pytest.approx(1 * MS, rel=0.3)
    assert quantile(draws, 99.9) == pytest.approx(20 * MS, rel=0.3)


def test_a_uniform_draw_is_even_and_a_constant_is_itself() -> None:
    """Also as shares, in millionths."""
    draws = drawn("uniform 200ms 2s")
    assert quantile(draws, 25) == pytest.approx(650 * MS, rel=0.03)
    assert {*drawn("40%", 10)} == {400_000}
    assert distribution("uniform 90% 110%").shares


@given(
    st.integers(0, ONE - 1), st.sampled_from([row.life for row in DRAWS.values() if row.name is not DrawName.IDENTITY])
)
def test_a_draw_is_within_its_distribution_and_grows_with_its_bits(bits: int, text: str) -> None:
    """So that a stream's bits are the only chance there is."""
    how = distribution(text)
    assert how.values[0] <= how.of(bits) <= how.most
    assert how.of(bits // 2) <= how.of(bits)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a distribution"),
        ("normal 1s 2s", "is not a distribution"),
        ("2", "is not a duration"),
        ("-2s", "neither a duration"),
        ("uniform 2s 1s", "decreases"),
        ("uniform 1s 20%", "mixes shares"),
        ("lognormal median=0s p99=2s", "median above 0"),
        ("quantiles 5=1s 100=2s", "0th to the 100th"),
        ("uniform 0s 48h", "exceeds a day"),
    ],
)
def test_what_is_no_distribution_is_told_so(text: str, why: str) -> None:
    """Bad input: one clear error."""
    with pytest.raises(ValueError, match=why):
        distribution(text)


def test_without_draws_everything_is_as_it_was() -> None:
    """The default of machines without draws."""
    assert CALM.us(DrawName.POLL_WORK, 17, 3) == 17
