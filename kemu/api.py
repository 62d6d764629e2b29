"""The public names of the package, read as ``kemu.NAME``: scenarios, plans, running, replaying, checking.

A scenario is built from values (``Scenario``, ``TopicSpec``, ``GroupSpec``, ...) or loaded from a file or by a preset's
name (``load``); it is checked when it is made. Durations are texts ("20s", "250ms") or whole microseconds, hosts are
c1, c2, ... (members), b0, b1, ... (brokers), or roles ("leader of g", "coordinator of g").
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from kemu.actors.consumer.application import Application, ApplicationFactory, Calls, IllegalState, PollLoop
from kemu.actors.consumer.listener import Listener, Raised, Took
from kemu.actors.consumer.partition import Returned
from kemu.emulator.exploring.explorer import DEFAULT_EXPLORATION, Explored, ExploredRun, Explorer
from kemu.emulator.exploring.python_text import python_text
from kemu.emulator.exploring.schedules import StrategyOptions
from kemu.emulator.exploring.shrinking import DEFAULT_RUNS, NothingToShrink, ScenarioSize, Shrinker, Shrunk
from kemu.emulator.exploring.trial import Signature, Trials
from kemu.emulator.findings import Loss, Violation
from kemu.emulator.metrics.figures import (
    ControllerTerm,
    Figures,
    GroupFigures,
    LagFigures,
    RebalanceFigures,
    RecordFigures,
    ReplicationFigures,
)
from kemu.emulator.plan.actions import *  # noqa: F403
from kemu.emulator.plan.actions import ACTIONS, AddMembers
from kemu.emulator.plan.entries import At, Noted, Receives, Sends, When
from kemu.emulator.replay import Difference, Replayed
from kemu.emulator.replay import replay as _replay
from kemu.emulator.runner import FaultFired, unfired_in_all
from kemu.emulator.runner import RunResult as Outcome
from kemu.emulator.runner import run as _run
from kemu.emulator.scenario.away import AwaySpec
from kemu.emulator.scenario.brokers import BrokerSpec, BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.expectations import Expectation
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.files import presets as _presets
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.members import MemberSpec
from kemu.emulator.scenario.network import LinkSpec, NetworkSpec
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.streams import StreamsSpec
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.emulator.text.toml_text import toml_text
from kemu.emulator.text.units import duration_us
from kemu.emulator.trace.blocks import TraceError
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.assign.base import Assignment, Assignor, Memory, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.assign.claims import Overlap, rightful_owners, validate_subscriptions
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.tools.testkit.cluster import (
    EmulatedCluster,
    EmulatedGroup,
    HeldMessage,
    HeldMessages,
    NoEffect,
    NotInTime,
    RuleInForce,
    Violated,
    empty,
    rebalancing,
    stable,
)

__all__ = [
    "Application",
    "ApplicationFactory",
    "Assignment",
    "Assignor",
    "At",
    "AwaySpec",
    "BrokerSpec",
    "BrokersSpec",
    "Calls",
    "ChecksSpec",
    "ConsumerConfig",
    "ControllerTerm",
    "Difference",
    "EmulatedCluster",
    "EmulatedGroup",
    "ErrorCode",
    "Expectation",
    "Explored",
    "ExploredRun",
    "FaultFired",
    "Figures",
    "GroupFigures",
    "GroupSpec",
    "HeldMessage",
    "HeldMessages",
    "IllegalState",
    "LagFigures",
    "LinkSpec",
    "Listener",
    "Loss",
    "MemberSpec",
    "Memory",
    "NetworkSpec",
    "NeverFired",
    "NoEffect",
    "NotHeld",
    "NotInTime",
    "Noted",
    "NothingToShrink",
    "Outcome",
    "Overlap",
    "PollLoop",
    "Problem",
    "Raised",
    "RebalanceFigures",
    "RebalanceProtocol",
    "Receives",
    "RecordFigures",
    "Replayed",
    "ReplicationFigures",
    "ReplicationSpec",
    "Returned",
    "RuleInForce",
    "Scenario",
    "ScenarioError",
    "ScenarioSize",
    "Sends",
    "Shrunk",
    "Signature",
    "StrategyOptions",
    "StreamsSpec",
    "Subscriber",
    "Took",
    "TopicSpec",
    "Topics",
    "TraceError",
    "Violated",
    "Violation",
    "When",
    "check",
    "duration_us",
    "empty",
    "explore",
    "load",
    "presets",
    "python_of",
    "rebalancing",
    "replay",
    "rightful_owners",
    "run",
    "shrink",
    "stable",
    "toml_of",
    "validate_subscriptions",
]
__all__ += [row.cls.__name__ for row in ACTIONS.values()]


class NotHeld(AssertionError):
    """A run did not hold: what was violated, and the call that repeats it. ``outcome``: the run."""

    def __init__(self, outcome: Outcome) -> None:
        found = [f"  {each.at_us / 1e6:.3f} s  {each.checker}: {each.text}" for each in outcome.violations[:10]]
        more = [f"  and {len(outcome.violations) - 10} more"] if len(outcome.violations) > 10 else []
        plan = [f"  fault {each.index}: {each.text} (took effect {each.fired} times)" for each in outcome.faults]
        again = f'  again: kemu.run(scenario, seed={outcome.seed}, profile={outcome.profile!r}, trace="run.kemu")'
        head = f"{outcome.scenario}, seed {outcome.seed}, {outcome.profile}: {outcome.verdict}"
        broke = [f"  {outcome.broke}"] if outcome.broke else []
        super().__init__("\n".join([head, *broke, *found, *more, *plan, again]))
        self.outcome = outcome


class NeverFired(AssertionError):
    """All runs held, but entries of the plan took effect in none of them. ``faults``: those entries."""

    def __init__(self, scenario: str, faults: Iterable[FaultFired]) -> None:
        self.faults = tuple(faults)
        found = [f"  fault {each.index} never fired: {each.text}" for each in self.faults]
        fix = "  change its time or its target, or pass allow_unfired=True"
        super().__init__("\n".join([f"{scenario}: every run holds, but not all of the plan was tested", *found, fix]))


def presets() -> tuple[str, ...]:
    """The names of the scenarios that come with the package."""
    return tuple(preset.name for preset in _presets())


def load(name: str | Path) -> Scenario:
    """The scenario of a TOML file (a path, or anything that ends with ".toml"), or the preset of this name.

    Raises:
        ScenarioError: no such file or preset, or everything that is wrong with it.
    """
    return load_scenario(name)


def run(
    scenario: Scenario,
    *,
    seed: int | None = None,
    profile: str | None = None,
    trace: str | Path | None = None,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
) -> Outcome:
    """Run a scenario once.

    Args:
        scenario: what to run.
        seed: decides everything the scenario leaves open; None is the scenario's own.
        profile: which release everybody is; None is the scenario's own, else the default.
        trace: where to write the trace, if anywhere.
        listeners: rebalance listeners by host ("c1"), instead of the configured ones.
        applications: by host, what makes the application of each of its lives: your own loop of polls, work, commits,
            pauses and seeks, instead of the usual one (``PollLoop``).

    Raises:
        ScenarioError: an unknown profile or host.
    """
    hosts = [host for host, _, _ in scenario.member_names()]
    grows = any(isinstance(entry.action, AddMembers) for entry in scenario.plan)
    given = [("listeners", host) for host in listeners or {}] + [("applications", host) for host in applications or {}]
    unknown = [] if grows else [(what, host) for what, host in given if host not in hosts]
    if unknown:
        raise ScenarioError(
            [Problem((what, host), f'"{host}" is no member{nearest(host, hosts)}') for what, host in unknown]
        )
    return _run(
        scenario,
        seed=scenario.seed if seed is None else seed,
        profile=profile,
        loop="bare",
        trace=None if trace is None else Path(trace),
        listeners=listeners,
        applications=applications,
    )


def check(
    scenario: Scenario,
    *,
    seeds: Iterable[int] = range(1, 6),
    profile: str | None = None,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
    allow_unfired: bool = False,
) -> tuple[Outcome, ...]:
    """Run a scenario with each of these seeds; all must hold. For tests: the failure says how to repeat it.

    Args:
        scenario: what is run.
        seeds: at least one.
        profile: which release everybody is; None is the scenario's own.
        listeners: rebalance listeners by host; applications: likewise.
        allow_unfired: entries of the plan may take effect in none of the runs.

    Raises:
        NotHeld: the first run that does not hold.
        NeverFired: all hold, and an entry of the plan took effect in none of the runs.
        ScenarioError: an unknown profile or host.
        ValueError: there are no seeds.
    """
    outcomes: list[Outcome] = []
    for seed in seeds:
        outcome = run(scenario, seed=seed, profile=profile, listeners=listeners, applications=applications)
        if outcome.verdict != "holds":
            raise NotHeld(outcome)
        outcomes.append(outcome)
    if not outcomes:
        raise ValueError("seeds is empty: nothing was run, so nothing was checked; give at least one seed")
    unfired = unfired_in_all([outcome.faults for outcome in outcomes])
    if unfired and not allow_unfired:
        raise NeverFired(scenario.name, unfired)
    return tuple(outcomes)


def shrink(
    scenario: Scenario,
    *,
    seed: int | None = None,
    profile: str | None = None,
    keep: str = "",
    runs: int = DEFAULT_RUNS,
    tries: int = 1,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
) -> Shrunk:
    """Make a scenario that does not hold as small as it goes, while the same rule is broken.

    Args:
        scenario: what fails.
        seed: with which seed; None is the scenario's own.
        profile: which release everybody is; None is the scenario's own.
        keep: "CHECKER" or "CHECKER:KIND", the violation to keep; "" is the one that makes the verdict.
        runs: how many attempts may be made.
        tries: with how many seeds each attempt is made before it counts as one that holds.
        listeners: those the run was given; applications: likewise.

    Raises:
        NothingToShrink: it holds, or does not show that violation.
        ScenarioError: an unknown profile, or settings that a machine refuses.
    """
    trials = Trials(profile=profile, listeners=listeners, applications=applications)
    return Shrinker(
        scenario, scenario.seed if seed is None else seed, trials, keep=keep, runs=runs, tries=tries
    ).shrink()


def explore(
    scenario: Scenario,
    *,
    strategy: str = "delays",
    seeds: Iterable[int] = (),
    runs: int = DEFAULT_EXPLORATION,
    profile: str | None = None,
    keep: str = "",
    options: StrategyOptions | None = None,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
) -> Explored:
    """Run a scenario in many orders of what happens, until one of them breaks a rule.

    Args:
        scenario: what is run.
        strategy: "ties", "pct", "delays" or "plain" (``kemu explore --help``).
        seeds: whose orders are changed, in turns; none: the scenario's own.
        runs: at most so many.
        profile: which release everybody is; None is the scenario's own.
        keep: "CHECKER" or "CHECKER:KIND", what is looked for; "": what makes a verdict.
        options: what the strategy takes.
        listeners: those the run is given; applications: likewise.

    Returns:
        What it came to; ``found.scenario`` has the order as the last lines of its plan, and the seed.

    Raises:
        ScenarioError: no such strategy or profile, or settings that a machine refuses.
    """
    trials = Trials(profile=profile, listeners=listeners, applications=applications)
    chosen = tuple(seeds) or (scenario.seed,)
    return Explorer(scenario, strategy, chosen, trials, options=options, keep=keep).explore(runs)


def toml_of(scenario: Scenario) -> str:
    """A scenario as a TOML file that ``load`` reads back to an equal one."""
    return toml_text(scenario.to_dict())


def python_of(scenario: Scenario) -> str:
    """A scenario as the expression that builds it: ``kemu.Scenario(...)``."""
    return python_text(scenario)


def replay(
    trace: str | Path,
    *,
    profile: str | None = None,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
) -> Replayed:
    """Feed what a trace recorded to today's machines, up to the first difference.

    Args:
        trace: a file that ``run`` wrote.
        profile: replay under another release than the recorded one.
        listeners: those the run was given: code is not in a trace.
        applications: those the run was given.

    Raises:
        TraceError: the file is damaged, of a scenario that cannot be read, or of a run with listeners or applications
            that are not given here.
        OSError: the file cannot be read.
    """
    return _replay(read_trace(trace), profile=profile, listeners=listeners, applications=applications)
