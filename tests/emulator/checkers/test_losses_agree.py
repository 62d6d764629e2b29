"""What a run says it lost is what its checkers found: whole clusters."""

import attrs
import pytest

from kemu.emulator.findings import READ_PAST
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import load_scenario, with_values
from kemu.protocol.names import OFFSETS_TOPIC


@pytest.mark.parametrize(
    ("preset", "loses", "passed"),
    [("unclean-election", True, 0), ("two-of-three-lost", False, 0), ("disk-tail-lost", True, 6)],
)
def test_the_figures_and_the_checkers_agree_on_what_was_lost(preset, loses, passed):
    """Everything committed is acknowledged here (acks=all), so LOSS_REASONS and the figures count the same records.

    ``passed``: they came where the log had been cut, after a member had read further.
    """
    result = run(load_scenario(preset), seed=3, loop="bare")
    losses = [loss for loss in result.losses if not loss.partition.startswith(OFFSETS_TOPIC)]
    gone = sum(loss.records for loss in losses if loss.why != READ_PAST)

    assert result.verdict == "holds"
    assert (gone > 0, sum(loss.records for loss in losses) - gone) == (loses, passed)
    assert (result.figures.acknowledged_lost, result.figures.lost) == (gone, gone + passed)


@pytest.mark.parametrize(
    ("flushes", "lost"),
    [
        ({}, 119),
        ({"log_flush_interval_messages": 1}, 0),
        ({"log_flush_interval_ms": 1_000, "log_flush_scheduler_interval_ms": 1_000}, 12),
        ({"log_flush_interval_ms": 5_000}, 120),
    ],
    ids=["as Kafka comes", "each append", "each second", "no scheduler"],
)
def test_all_brokers_lose_power_and_with_it_what_nothing_has_put_on_the_disk(flushes, lost):
    """Twelve records a second, 40 s after the start: the system wrote back at 30 s, as the one look of Kafka does."""
    scenario = with_values(load_scenario("all-brokers-lose-power"), ("draws=calm",))
    config = tuple(sorted({**dict(scenario.brokers.config), **flushes}.items()))
    result = run(attrs.evolve(scenario, brokers=attrs.evolve(scenario.brokers, config=config)), seed=1, loop="bare")
    named = sum(loss.records for loss in result.losses if not loss.partition.startswith(OFFSETS_TOPIC))

    assert (result.verdict, named, result.figures.acknowledged_lost) == ("holds", lost, lost)


def test_commits_that_the_groups_log_lost_in_a_power_cut_are_expected_losses_too():
    """Every broker loses what it has not flushed: who starts at the last commit that is left does right."""
    result = run(load_scenario("all-brokers-lose-power"), seed=4, loop="bare")
    expected = sum(loss.records for loss in result.losses if not loss.partition.startswith(OFFSETS_TOPIC))

    assert (result.verdict, result.violations) == ("holds", ())
    assert {loss.why for loss in result.losses} == {"unflushed"}
    assert result.figures.acknowledged_lost == expected > 0
