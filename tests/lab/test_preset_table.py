"""A controller that does not see to brokers that die is noticed in presets in which a broker dies."""

import pytest

from lab.preset_table import BREAKS, row_of

SAMPLE = ("broker-crash-and-return", "reassign-target-dies", "log-dir-fails", "frozen-session")


@pytest.mark.soak
@pytest.mark.parametrize("name", list(BREAKS))
@pytest.mark.parametrize("preset", SAMPLE)
def test_a_broken_controller_is_noticed_within_a_minute(preset: str, name: str) -> None:
    row = row_of(preset, name, range(1, 7))

    assert row is not None
    assert row.seed == 0 or row.is_caught, row


@pytest.mark.soak
def test_a_preset_in_which_no_broker_dies_has_no_row() -> None:
    assert row_of("replicated-steady", "ignores-the-dead", (1,)) is None
