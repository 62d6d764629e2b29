"""Seeds until a past bug is caught: stretches, medians, and the sources of plans."""

import pytest

from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.emulator.scenario.files import load_scenario
from kemu.tools.finding import SOURCES, SeedsToFind, catches, first_find, own_plan, random_plan, stretches, swarm

IDLE = PAST_BUGS["KAFKA-7152"]


def test_seeds_are_cut_into_equal_stretches() -> None:
    """One behind the other; what is left over is left out."""
    assert stretches(range(1, 13)) == [range(1, 3), range(3, 5), range(5, 7), range(7, 9), range(9, 11)]


@pytest.mark.parametrize(
    ("seeds", "median"), [((1, 2, 3, 4, 5), 3), ((9, None, 1, None, 2), 9), ((None, None, 1, None, 2), None)]
)
def test_a_stretch_without_a_find_counts_as_longer_than_any(seeds: tuple[int | None, ...], median: int | None) -> None:
    """So the median is told only if most stretches found it."""
    assert SeedsToFind(IDLE, 10, seeds).median == median


def test_the_plan_of_an_exhibit_finds_it_in_every_stretch() -> None:
    """KAFKA-7152 depends on its plan alone."""
    assert [first_find(IDLE.issue, "own", part) for part in stretches(range(1, 6))] == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("issue", ["KAFKA-1211", "KAFKA-7026"])
def test_a_random_plan_is_drawn_by_its_seed_for_the_exhibits_cluster(issue: str) -> None:
    """The bug stays on, the plan is another; brokers that are alone get members, whom faults can hit."""
    bug, exhibit = PAST_BUGS[issue], load_scenario(issue)
    made = random_plan(bug, 7)

    assert made == random_plan(bug, 7) != random_plan(bug, 8)
    assert made.bugs == exhibit.bugs and made.brokers == exhibit.brokers and made.groups
    assert len(made.plan) <= 6


@pytest.mark.parametrize("issue", ["KAFKA-1211", "KAFKA-7026"])
def test_the_swarm_draws_all_but_the_bugs(issue: str) -> None:
    """Brokers replicate where the bug is one of replicas."""
    bug = PAST_BUGS[issue]
    made = swarm(bug, 3)

    assert made.bugs == load_scenario(issue).bugs and made.brokers != load_scenario(issue).brokers
    assert (made.brokers.replication is not None) is bug.past.needs_replication


def test_a_find_is_the_checker_and_the_kind_that_must_be() -> None:
    """Anything else that a plan breaks is no find."""
    assert set(SOURCES) == {"own", "random", "swarm"}
    assert catches(IDLE, own_plan, 1)
    assert not catches(PAST_BUGS["KAFKA-1188"], own_plan, 1)
