"""What a run says it lost is what its checkers found: whole clusters."""

import pytest

from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario
from kemu.protocol.names import OFFSETS_TOPIC


@pytest.mark.parametrize(
    ("preset", "loses"), [("unclean-election", True), ("two-of-three-lost", False), ("disk-tail-lost", True)]
)
def test_the_figures_and_the_checkers_agree_on_what_was_lost(preset, loses):
    """Everything committed is acknowledged here (acks=all), so the atlas and the figures count the same records."""
    result = run(load_scenario(preset), seed=4, drive="bare")
    expected = sum(loss.records for loss in result.losses if not loss.partition.startswith(OFFSETS_TOPIC))

    assert result.verdict == "holds"
    assert (result.figures.acknowledged_lost, result.figures.lost) == (expected, expected)
    assert (expected > 0) is loses
