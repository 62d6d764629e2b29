"""The runs that test mutants: presets, ``lab/scenarios``, the scenarios of past bugs, and swarm cases."""

import re
from collections.abc import Sequence
from pathlib import Path

import attrs
from attrs import frozen

from kemu.emulator.exploring.swarm import swarm_case
from kemu.emulator.past_bugs.registry import PAST_BUGS, scenario_text
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.expectations import UNMET, split
from kemu.emulator.scenario.files import load_scenario, scenario_from_toml
from kemu.emulator.scenario.presets import presets
from kemu.emulator.scenario.scenario import Scenario
from lab.applications import APPLICATIONS

SCENARIOS = Path(__file__).parent / "scenarios"
"""Folder of scenarios for lines that no preset, past bug or swarm case reaches."""
TOO_LARGE = ("consumer-protocol-1000-members", "streams-100-instances", "thundering-herd-100")
"""Presets that take longer than the time limit of a mutant."""
SWARM: tuple[tuple[str, bool, bool], ...] = (
    ("kafka-2.4", False, False),
    ("kafka-2.4", True, True),
    ("kafka-3.4", False, True),
    ("kafka-3.4", True, False),
    ("kafka-4.0", True, True),
    ("kafka-4.0", False, False),
)
"""Swarm cases: (profile, whether brokers replicate, whether operators act on the cluster)."""
SWARM_SEEDS = range(1, 9)


@frozen
class Item:
    """One run of the budget.

    ``kind``: "preset", "lab" (of ``lab/scenarios``), "bug" (a past bug's scenario with today's rules) or "swarm".
    """

    kind: str
    source: str
    seed: int = 1
    profile: str = ""
    replicated: bool = False
    operated: bool = False

    @property
    def name(self) -> str:
        """A name that is unique in the budget."""
        if self.kind == "swarm":
            kinds = f"{'replicated' if self.replicated else 'arranged'}{' operated' if self.operated else ''}"
            return f"swarm {self.profile} {kinds} {self.seed}"
        return f"{self.kind} {self.source} {self.seed}"

    def scenario(self) -> Scenario:
        """The scenario of this run."""
        if self.kind == "preset":
            return load_scenario(self.source)
        if self.kind == "lab":
            return load_scenario(SCENARIOS / f"{self.source}.toml")
        if self.kind == "bug":
            text = re.sub(r"(?m)^bugs = \[[^\]]*\]$", "", scenario_text(self.source))
            return attrs.evolve(scenario_from_toml(text, source=self.source, name=self.source), expect=())
        case = swarm_case(self.seed, profile=self.profile, replicated=self.replicated, operated=self.operated)
        return case.scenario


def budget() -> list[Item]:
    """All runs of the budget, in a fixed order."""
    items = [Item("preset", each.name) for each in presets() if each.name not in TOO_LARGE]
    items += [Item("lab", path.stem, seed) for path in sorted(SCENARIOS.glob("*.toml")) for seed in (1, 2)]
    items += [Item("bug", issue) for issue in PAST_BUGS]
    items += [
        Item("swarm", "", seed, profile, replicated, operated)
        for seed in SWARM_SEEDS
        for profile, replicated, operated in SWARM
    ]
    return items


class OutOfTime(Exception):
    """Raised inside a run that takes too long; violations that were found before remain known."""


@frozen
class RunOutcome:
    """The outcome of one run: the trace's digest, the violations as "checker/kind", and the error of a machine.

    ``steps`` and ``messages``: numbers of steps and messages. A mutant that changes only the digest had little effect.
    """

    digest: str
    spoke: tuple[str, ...]
    broke: str = ""
    steps: int = 0
    messages: int = 0


def outcome_of(item: Item) -> RunOutcome:
    """Run an item once. The outcome omits violations that the scenario expects."""
    scenario = item.scenario()
    applications = APPLICATIONS.get(item.source) if item.kind == "lab" else None
    return judged(run(scenario, seed=item.seed, loop="bare", applications=applications), scenario)


def judged(result: RunResult, scenario: Scenario) -> RunOutcome:
    """The outcome of a run. For an aborted run, the outcome omits violations that concern the end of the run."""
    cut_short = OutOfTime.__name__ in result.broke
    spoke = [
        f"{each.checker}/{each.kind}"
        for each in split(result.violations, scenario.expect)[0]
        if not cut_short or not (each.liveness or each.checker == UNMET)
    ]
    return RunOutcome(result.digest, tuple(sorted(set(spoke))), result.broke, result.steps, result.messages)


def interleaved(items: Sequence[Item]) -> list[Item]:
    """The same items, alternating between kinds of items and clusters, so that a short budget includes each kind."""
    queues: dict[tuple[str, bool], list[Item]] = {}
    for item in items:
        queues.setdefault((item.kind, item.replicated), []).append(item)
    longest = max(map(len, queues.values()), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues.values() if turn < len(queue)]
