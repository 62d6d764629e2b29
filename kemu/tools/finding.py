"""Count the runs, one for each seed, until a checker catches a past bug.

``SOURCES`` lists the ways to make the scenario of a run: the bug's own plan, random faults, or a random cluster.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median_high
from typing import TypeAlias

from attrs import evolve

from kemu.emulator.exploring.swarm import swarm_case
from kemu.emulator.past_bugs.applying import bugs_of
from kemu.emulator.past_bugs.bug import PastBug
from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.emulator.runner import run
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.frozen import frozen
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES

Source: TypeAlias = Callable[[PastBug, int], Scenario]
STRETCHES = 5
OLD_REPLICATION, CHANGED_SINCE = "kafka-2.6", (2, 7)


def own_plan(bug: PastBug, seed: int) -> Scenario:
    """Return the scenario that shows the bug, without a change."""
    return load_scenario(bug.issue)


def random_plan(bug: PastBug, seed: int) -> Scenario:
    """Return the cluster and the load of the bug's scenario, with a plan of random faults.

    A scenario without groups gets a group of two members, so that faults can hit members.
    """
    exhibit = load_scenario(bug.issue)
    groups = dict(exhibit.groups) or {"g": GroupSpec(topics=tuple(exhibit.topics)[:1], members=2)}
    bare = evolve(exhibit, plan=(), groups=groups, checks=ChecksSpec())
    return swarm_case(seed, bare, cores=False).scenario


def swarm_without(release: str, replicated: bool, seed: int) -> Scenario:
    """Return a random scenario for a release, without the past bugs of the release."""
    scenario = swarm_case(seed, profile=release, replicated=replicated, cores=False, operated=True).scenario
    return evolve(scenario, mended=bugs_of(PROFILES[release]))


def swarm(bug: PastBug, seed: int) -> Scenario:
    """Return a random scenario for the bug's release, with the past bugs that the bug's scenario names."""
    scenario = swarm_without(release_of(bug), bug.past.needs_replication, seed)
    bugs = load_scenario(bug.issue).bugs
    return evolve(scenario, bugs=bugs, mended=tuple(each for each in scenario.mended if each not in bugs))


def release_of(bug: PastBug) -> str:
    """Return the release that a search for a bug emulates: the release of the bug's scenario, or the default release.

    A replication bug that was fixed before 2.7 is searched in 2.6. In 2.6, leaders write ISRs to ZooKeeper, and
    followers ask leaders for the end offsets of epochs.
    """
    exhibit = load_scenario(bug.issue)
    fixed = tuple(map(int, bug.fixed_in.split(".")))
    old = bug.past.needs_replication and fixed < CHANGED_SINCE
    return exhibit.profile or (OLD_REPLICATION if old else DEFAULT_PROFILE)


SOURCES: Mapping[str, Source] = {"own": own_plan, "random": random_plan, "swarm": swarm}
"""Name for ``kemu bugs --plans`` -> source."""


def catches(bug: PastBug, source: Source, seed: int) -> bool:
    """Return whether the bug's checker finds the bug's kind of violation in one run."""
    result = run(source(bug, seed), seed=seed, loop="bare")
    return any((each.checker, each.kind) == (bug.caught_by, bug.kind) for each in result.violations)


@frozen
class SeedsToFind:
    """For each range of seeds, the number of runs until a checker caught the bug; None if no run caught the bug."""

    bug: PastBug
    stretch: int
    """Number of seeds in each range."""
    seeds: tuple[int | None, ...]

    @property
    def median(self) -> int | None:
        """The median number of runs over the ranges; None if no run caught the bug in the median range."""
        middle = median_high(self.stretch + 1 if each is None else each for each in self.seeds)
        return None if middle > self.stretch else middle


def stretches(seeds: range, count: int = STRETCHES) -> Sequence[range]:
    """Split seeds into ``count`` consecutive ranges of equal length; leave out the remaining seeds."""
    each = len(seeds) // count
    return [seeds[number * each : (number + 1) * each] for number in range(count)]


def first_find(issue: str, plans: str, part: range) -> int | None:
    """Return the number of runs, one for each seed of a range, until a checker catches a bug; None: no catch.

    Args:
        issue: the bug's JIRA issue. plans: a name of ``SOURCES``. part: the range of seeds.
    """
    bug, source = PAST_BUGS[issue], SOURCES[plans]
    return next((seed - part[0] + 1 for seed in part if catches(bug, source, seed)), None)
