"""The explorer: run a scenario under many schedules until a run breaks a rule.

The explorer uses its seeds in turn. Strategies learn how much new coverage a run brought, and choose the next schedule
by that amount. The result is a scenario with the schedule at the end of its plan.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from kemu.emulator.exploring.coverage import Coverage
from kemu.emulator.exploring.schedules import STRATEGIES, OrderStrategy, Ran, SentMessage, SentMessages, StrategyOptions
from kemu.emulator.exploring.trial import Signature, Trials, Tried
from kemu.emulator.findings import STAYS_BLOCKED, Violation
from kemu.emulator.plan.entries import Plan
from kemu.emulator.scenario.scenario import Scenario, known_names
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.protocol.frozen import frozen

DEFAULT_EXPLORATION = 100
"""Most runs of an exploration, by default."""


@frozen(kw_only=True)
class ExploredRun:
    """One run: number, seed, schedule, amount of new coverage, and the violation."""

    number: int
    seed: int
    schedule: Plan
    new: int
    digest: str
    scenario: Scenario
    """The explored scenario with the schedule at the end of its plan."""
    found: Signature | None
    """The signature of the wanted violation; None if the run did not show the wanted violation."""
    violation: Violation | None


@frozen(kw_only=True)
class Explored:
    """The result of an exploration. ``found``: the first run that breaks a rule; None if no run breaks a rule.

    ``exhausted``: the strategy had no more schedules. ``reached``: number of points (role, state, message, outcome),
    transitions and probes that the runs covered. ``by_plain``: part of ``reached`` that runs in the seeds' own orders
    covered.
    """

    runs: int
    found: ExploredRun | None
    exhausted: bool
    reached: int
    by_plain: int
    kept: int
    """Number of runs with new coverage, without runs in the seeds' own orders."""


@frozen
class Scheduled:
    """A run to make: seed, schedule, and the scenario with the schedule at the end of its plan."""

    seed: int
    schedule: Plan
    scenario: Scenario


@frozen
class TriedSchedule:
    """The result of a run under a schedule: violations, coverage (points, transitions, probes), and messages."""

    tried: Tried
    covered: frozenset[object]
    sent: tuple[SentMessage, ...]


class ScheduleRuns(Protocol):
    """Makes the runs of an exploration, perhaps in other processes."""

    def run(self, one: Scheduled, ahead: Callable[[int], list[Scheduled]]) -> TriedSchedule:
        """Make a run. ``ahead(n)`` returns at most n runs that probably follow."""
        ...


def try_schedule(trials: Trials, one: Scheduled) -> TriedSchedule:
    """Make a run in this process."""
    coverage, sent = Coverage(), SentMessages()
    listening = coverage.of_run()
    tried = trials.run(one.scenario, one.seed, recorder=listening, sent=sent)
    listening.finish()
    return TriedSchedule(tried, frozenset({*coverage.points, *coverage.moves, *coverage.probes}), tuple(sent.seen))


class Explorer:
    """Explores one scenario.

    Args:
        scenario: the scenario.
        strategy: a name of ``STRATEGIES``.
        seeds: the seeds, used in turns.
        trials: runs the scenario.
        keep: the wanted "CHECKER" or "CHECKER:KIND"; "" for any violation except ``STAYS_BLOCKED``.
        tell: called after each run.
        schedule_runs: makes the runs instead of ``trials``; the runs and their order are the same.

    Raises:
        ScenarioError: the strategy does not exist.
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
        schedule_runs: ScheduleRuns | None = None,
    ) -> None:
        if strategy not in STRATEGIES:
            text = f'unknown strategy "{strategy}"{nearest(strategy, STRATEGIES)}: {", ".join(STRATEGIES)}'
            raise ScenarioError([Problem((), text)])
        options = attrs.evolve(options or StrategyOptions(), hosts=known_names(scenario).hosts())
        self._scenario = scenario
        self._strategies: list[tuple[int, OrderStrategy]] = [(seed, STRATEGIES[strategy](options)) for seed in seeds]
        self._trials = trials
        self._keep = keep
        self._tell = tell
        self._schedule_runs = schedule_runs
        self._reached: set[object] = set()
        self._by_plain = self._kept = self._runs = 0

    def explore(self, runs: int = DEFAULT_EXPLORATION) -> Explored:
        """Run at most this many times, until a run breaks a rule."""
        waiting = deque(self._strategies)
        while waiting and self._runs < runs:
            seed, strategy = waiting.popleft()
            schedule = strategy.next()
            if schedule is None:
                continue
            one = self._scheduled(seed, schedule)
            following = [*waiting, (seed, strategy)] if schedule else [*waiting]  # a plain run shapes later schedules
            tried = self._try(one, lambda most: self._ahead(following, min(most, runs - self._runs - 1)))  # noqa: B023
            waiting.append((seed, strategy))
            ran = self._took(one, strategy, tried)
            if self._tell is not None:
                self._tell(ran)
            if ran.found is not None:
                return self._explored(ran, exhausted=False)
        return self._explored(None, exhausted=not waiting)

    def explored_so_far(self) -> Explored:
        """The result of an exploration that was interrupted."""
        return self._explored(None, exhausted=False)

    def _explored(self, found: ExploredRun | None, *, exhausted: bool) -> Explored:
        return Explored(
            runs=self._runs,
            found=found,
            exhausted=exhausted,
            reached=len(self._reached),
            by_plain=self._by_plain,
            kept=self._kept,
        )

    def _scheduled(self, seed: int, schedule: Plan) -> Scheduled:
        return Scheduled(
            seed, schedule, attrs.evolve(self._scenario, seed=seed, plan=(*self._scenario.plan, *schedule))
        )

    def _try(self, one: Scheduled, ahead: Callable[[int], list[Scheduled]]) -> TriedSchedule:
        if self._schedule_runs is None:
            return try_schedule(self._trials, one)
        return self._schedule_runs.run(one, ahead)

    def _ahead(self, following: list[tuple[int, OrderStrategy]], most: int) -> list[Scheduled]:
        """The next runs, provided that the present run and these next runs bring no new coverage."""
        copies = deque((seed, strategy.copy()) for seed, strategy in following)
        found: list[Scheduled] = []
        while copies and len(found) < most:
            seed, strategy = copies.popleft()
            schedule = strategy.next()
            if schedule is None:
                continue
            found.append(self._scheduled(seed, schedule))
            if schedule:
                copies.append((seed, strategy))
        return found

    def _took(self, one: Scheduled, strategy: OrderStrategy, made: TriedSchedule) -> ExploredRun:
        """Count the result of a run and report the run to the strategy."""
        self._runs += 1
        seed, schedule, scenario, tried = one.seed, one.schedule, one.scenario, made.tried
        new = len(made.covered - self._reached)
        self._reached |= made.covered
        if schedule:
            self._kept += new > 0
        else:
            self._by_plain = len(self._reached)
        strategy.learn(Ran(schedule=schedule, sent=made.sent, new=new))
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
            found = {
                each: violation
                for each, violation in tried.found.items()
                if (each.checker, each.kind) not in STAYS_BLOCKED
            }
            return attrs.evolve(tried, found=found).worst()
        checker, _, kind = self._keep.partition(":")
        return next((each for each in tried.found if each.checker == checker and kind in ("", each.kind)), None)
