"""Durations and rates: exact both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.emulator.text.units import duration_text, duration_us, per_second


@given(st.integers(0, 10**14))
def test_a_duration_survives_being_written(us: int) -> None:
    """The plain form of a scenario loses nothing."""
    assert duration_us(duration_text(us)) == us


@pytest.mark.parametrize(
    ("text", "us"),
    [("0", 0), ("1us", 1), ("250ms", 250_000), ("1.5s", 1_500_000), ("1m30s", 90_000_000), (" 2h ", 7_200_000_000)],
)
def test_durations_as_people_write_them(text: str, us: int) -> None:
    """Units add up."""
    assert duration_us(text) == us


@pytest.mark.parametrize("text", ["", "5", "-1s", "1 day", "s", "1s garbage", "0.5us", "1,5s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A bare number has no unit; nothing is finer than a microsecond."""
    with pytest.raises(ValueError, match=r"duration|finer"):
        duration_us(text)


def test_the_shortest_exact_way_to_write_a_duration() -> None:
    """What reports print."""
    written = [duration_text(us) for us in (0, 1_500, 250_000, 20_000_000, 90_000_000, 120_000_000, 3_600_000_000)]

    assert written == ["0s", "1500us", "250ms", "20s", "1m30s", "2m", "1h"]


def test_rates() -> None:
    """Whole records per second."""
    assert [per_second(text) for text in ("100/s", "100", "600/m", "0/s")] == [100, 100, 10, 0]
    for text in ("", "x/s", "100/h", "-1/s", "61/m"):
        with pytest.raises(ValueError, match=r"rate|whole"):
            per_second(text)
