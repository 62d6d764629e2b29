"""What a run says it lost is what its checkers found: whole clusters."""

from pathlib import Path

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


def test_commits_that_the_groups_log_lost_in_a_power_cut_are_expected_losses_too():
    """Every broker loses what it has not flushed: who starts at the last commit that is left does right."""
    plan = Path(__file__).parents[2] / "mutations" / "all_lose_power.toml"
    result = run(load_scenario(str(plan)), seed=4, drive="bare")
    expected = sum(loss.records for loss in result.losses if not loss.partition.startswith(OFFSETS_TOPIC))

    assert (result.verdict, result.violations) == ("holds", ())
    assert {loss.why for loss in result.losses} == {"unflushed"}
    assert result.figures.acknowledged_lost == expected > 0
