"""The explorer: runs of one scenario under many schedules, until one of them breaks a rule.

Seeds take turns. A run's coverage (``exploring.coverage``) is what guides: strategies are told how much of it no run
before came to. What is found is a scenario with the schedule at the end of its plan.
"""

from collections.abc import Callable, Sequence

import attrs
from attrs import frozen

from kemu.emulator.exploring.coverage import Coverage
from kemu.emulator.exploring.schedules import STRATEGIES, OrderStrategy, Ran, SentMessages, StrategyOptions
from kemu.emulator.exploring.trial import Signature, Trials, Tried
from kemu.emulator.findings import STAYS_BLOCKED, Violation
from kemu.emulator.plan.entries import Plan
from kemu.emulator.scenario.scenario import Scenario, known_names
from kemu.emulator.text.tables import Problem, ScenarioError, nearest

DEFAULT_EXPLORATION = 100
"""Runs."""


@frozen(kw_only=True)
class ExploredRun:
    """One run: which it was, with which seed, under which schedule, how much of its coverage was new, what it broke."""

    number: int
    seed: int
    schedule: Plan
    new: int
    digest: str
    scenario: Scenario
    """With the schedule at the end of its plan."""
    found: Signature | None
    """The violation that was looked for; None: it holds, as far as that goes."""
    violation: Violation | None


@frozen(kw_only=True)
class Explored:
    """What exploring came to. ``found``: the first run that breaks a rule; None: none did.

    ``exhausted``: the strategy had no more schedules. ``reached``: how many (role, state, message, outcome),
    transitions and probes the runs came to; ``by_plain`` of them under the seeds' own orders.
    """

    runs: int
    found: ExploredRun | None
    exhausted: bool
    reached: int
    by_plain: int
    kept: int
    """Runs that came to something new, but for plain ones."""


class Explorer:
    """Explores one scenario.

    Args:
        scenario: what is run.
        strategy: a name of ``STRATEGIES``.
        seeds: each has a strategy of its own; they take turns.
        trials: runs it.
        keep: "CHECKER" or "CHECKER:KIND", what is looked for; "": what makes a verdict, but not what stands still as it
            would in Kafka (``STAYS_BLOCKED``).
        tell: told each run.

    Raises:
        ScenarioError: there is no such strategy.
    """

    def __init__(
        self,
        scenario: Scenario,
        strategy: str,
        seeds: Sequence[int],
        trials: Trials,
        *,
        options: StrategyOptions | None = None,
        keep: str = "",
        tell: Callable[[ExploredRun], None] | None = None,
    ) -> None:
        if strategy not in STRATEGIES:
            text = f'"{strategy}" is no strategy{nearest(strategy, STRATEGIES)}: {", ".join(STRATEGIES)}'
            raise ScenarioError([Problem((), text)])
        options = attrs.evolve(options or StrategyOptions(), hosts=known_names(scenario).hosts())
        self._scenario = scenario
        self._strategies: list[tuple[int, OrderStrategy]] = [(seed, STRATEGIES[strategy](options)) for seed in seeds]
        self._trials = trials
        self._keep = keep
        self._tell = tell
        self._reached: set[object] = set()
        self._by_plain = self._kept = self._runs = 0

    def explore(self, runs: int = DEFAULT_EXPLORATION) -> Explored:
        """At most so many runs, until one breaks a rule."""
        waiting = list(self._strategies)
        while waiting and self._runs < runs:
            seed, strategy = waiting.pop(0)
            schedule = strategy.next()
            if schedule is None:
                continue
            waiting.append((seed, strategy))
            ran = self._run(seed, schedule, strategy)
            if self._tell is not None:
                self._tell(ran)
            if ran.found is not None:
                return self._explored(ran, exhausted=False)
        return self._explored(None, exhausted=not waiting)

    def _explored(self, found: ExploredRun | None, *, exhausted: bool) -> Explored:
        return Explored(
            runs=self._runs,
            found=found,
            exhausted=exhausted,
            reached=len(self._reached),
            by_plain=self._by_plain,
            kept=self._kept,
        )

    def _run(self, seed: int, schedule: Plan, strategy: OrderStrategy) -> ExploredRun:
        self._runs += 1
        scenario = attrs.evolve(self._scenario, seed=seed, plan=(*self._scenario.plan, *schedule))
        coverage, sent = Coverage(), SentMessages()
        listening = coverage.of_run()
        tried = self._trials.run(scenario, seed, recorder=listening, sent=sent)
        listening.finish()
        came_to = {*coverage.points, *coverage.moves, *coverage.probes}
        new = len(came_to - self._reached)
        self._reached |= came_to
        if schedule:
            self._kept += new > 0
        else:
            self._by_plain = len(self._reached)
        strategy.learn(Ran(schedule=schedule, sent=sent.seen, new=new))
        found = self._wanted(tried)
        return ExploredRun(
            number=self._runs,
            seed=seed,
            schedule=schedule,
            new=new,
            digest=tried.digest,
            scenario=scenario,
            found=found,
            violation=tried.found[found] if found is not None else None,
        )

    def _wanted(self, tried: Tried) -> Signature | None:
        if not self._keep:
            found = {each: told for each, told in tried.found.items() if (each.checker, each.kind) not in STAYS_BLOCKED}
            return attrs.evolve(tried, found=found).worst()
        checker, _, kind = self._keep.partition(":")
        return next((each for each in tried.found if each.checker == checker and kind in ("", each.kind)), None)
