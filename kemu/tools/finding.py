"""How many seeds it takes to find a past bug: with the plan of its exhibit, with random ones, with all of it drawn.

A source of plans makes a scenario with the bug on out of a seed. Whatever draws better plans than these is another
source (``SOURCES``).
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median_high
from typing import TypeAlias

from attrs import evolve, frozen

from kemu.emulator.exploring.swarm import swarm_case
from kemu.emulator.past_bugs.applying import bugs_of
from kemu.emulator.past_bugs.bug import PastBug
from kemu.emulator.runner import run
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES

Source: TypeAlias = Callable[[PastBug, int], Scenario]
STRETCHES = 5
OLD_REPLICATION, OTHER_WAYS_SINCE = "kafka-2.6", (2, 7)


def own_plan(bug: PastBug, seed: int) -> Scenario:
    """The exhibit as it is: its plan at its moments, all else by the seed."""
    return load_scenario(bug.issue)


def random_plan(bug: PastBug, seed: int) -> Scenario:
    """The exhibit's cluster and load under what the swarm draws for it, instead of its plan.

    Faults that hit members need some: brokers that were alone get a group of two.
    """
    exhibit = load_scenario(bug.issue)
    groups = dict(exhibit.groups) or {"g": GroupSpec(topics=tuple(exhibit.topics)[:1], members=2)}
    bare = evolve(exhibit, plan=(), groups=groups, checks=ChecksSpec())
    return swarm_case(seed, bare, cores=False).scenario


def swarm_without(release: str, replicated: bool, seed: int) -> Scenario:
    """Cluster, load and plan as the swarm draws them for a release, without the past bugs that it has by itself."""
    scenario = swarm_case(seed, profile=release, replicated=replicated, cores=False, operated=True).scenario
    return evolve(scenario, mended=bugs_of(PROFILES[release]))


def swarm(bug: PastBug, seed: int) -> Scenario:
    """The same for a bug's release, and the bugs of its exhibit."""
    scenario = swarm_without(release_of(bug), bug.past.needs_replication, seed)
    bugs = load_scenario(bug.issue).bugs
    return evolve(scenario, bugs=bugs, mended=tuple(each for each in scenario.mended if each not in bugs))


def release_of(bug: PastBug) -> str:
    """Whose ways a bug goes with: its exhibit's release, or the default.

    A bug of replication that was gone before 2.7 goes with the last release in which leaders wrote ISRs and followers
    asked for the ends of epochs, as all did when it was there.
    """
    exhibit = load_scenario(bug.issue)
    fixed = tuple(map(int, bug.fixed_in.split(".")))
    old = bug.past.needs_replication and fixed < OTHER_WAYS_SINCE
    return exhibit.profile or (OLD_REPLICATION if old else DEFAULT_PROFILE)


SOURCES: Mapping[str, Source] = {"own": own_plan, "random": random_plan, "swarm": swarm}
"""By the name that ``kemu bugs --plans`` knows."""


def catches(bug: PastBug, source: Source, seed: int) -> bool:
    """Whether the checker that must catch it does, in the way in which it must, in one run."""
    result = run(source(bug, seed), seed=seed, loop="bare")
    return any((each.checker, each.kind) == (bug.caught_by, bug.kind) for each in result.violations)


@frozen
class SeedsToFind:
    """Seeds to find a bug in each stretch of seeds, counted from the stretch's first as 1; None: not within it."""

    bug: PastBug
    stretch: int
    """How many seeds each stretch has."""
    seeds: tuple[int | None, ...]

    @property
    def median(self) -> int | None:
        """Of all stretches; a stretch without a find counts as longer than any other. None: it is such a one."""
        middle = median_high(self.stretch + 1 if each is None else each for each in self.seeds)
        return None if middle > self.stretch else middle


def stretches(seeds: range, count: int = STRETCHES) -> Sequence[range]:
    """The seeds in so many equal stretches, one behind the other; what is left over is left out."""
    each = len(seeds) // count
    return [seeds[number * each : (number + 1) * each] for number in range(count)]


def find(bug: PastBug, source: Source, seeds: range) -> SeedsToFind:
    """Look for a bug in five stretches of these seeds, in each until it is found."""
    parts = stretches(seeds)
    found = (next((seed - part[0] + 1 for seed in part if catches(bug, source, seed)), None) for part in parts)
    return SeedsToFind(bug, len(parts[0]), tuple(found))
