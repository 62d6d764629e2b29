"""The public names of the package, used as ``kemu.NAME``: scenarios, plans, runs, checks and replays.

A scenario is built from values (``Scenario``, ``TopicSpec``, ``GroupSpec``, ...) or loaded from a file or a preset
(``load``). The constructor checks the scenario. Durations are texts ("20s", "250ms") or whole microseconds. Hosts are
c1, c2, ...
(members), b0, b1, ... (brokers), or roles ("leader of g", "coordinator of g").
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
from kemu.emulator.runner import LOOPS, FaultFired, unfired_in_all
from kemu.emulator.runner import RunResult as Outcome
from kemu.emulator.runner import run as _run
from kemu.emulator.scenario.away import AwaySpec
from kemu.emulator.scenario.brokers import BrokerSpec, BrokersSpec
from kemu.emulator.scenario.checks import ChecksSpec
from kemu.emulator.scenario.clients import ClientsSpec
from kemu.emulator.scenario.expectations import Expectation
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.groups import GroupSpec
from kemu.emulator.scenario.members import MemberSpec
from kemu.emulator.scenario.network import LinkSpec, NetworkSpec
from kemu.emulator.scenario.presets import presets as _presets
from kemu.emulator.scenario.replication import ReplicationSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.streams import StreamsSpec
from kemu.emulator.scenario.topics import TopicSpec
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.emulator.text.toml_text import toml_text
from kemu.emulator.text.units import duration_us
from kemu.emulator.text.wrong_arguments import names_arguments
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

if TYPE_CHECKING:
    from kemu.tools.diagnosis.advice import Advice
    from kemu.tools.diagnosis.diagnose import Diagnosis
    from kemu.tools.diagnosis.reproduction import Reproduction
    from kemu.tools.incident.imported import ImportedLogs

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
    "ClientsSpec",
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
    "advise",
    "check",
    "diagnose",
    "duration_us",
    "empty",
    "explore",
    "import_log",
    "load",
    "presets",
    "python_of",
    "rebalancing",
    "replay",
    "reproduce",
    "rightful_owners",
    "run",
    "shrink",
    "stable",
    "toml_of",
    "validate_subscriptions",
]
__all__ += [row.cls.__name__ for row in ACTIONS.values()]


for _class in (
    AwaySpec, BrokerSpec, BrokersSpec, ChecksSpec, ClientsSpec, GroupSpec, LinkSpec, MemberSpec, NetworkSpec,
    ReplicationSpec, Scenario, StreamsSpec, TopicSpec, *(row.cls for row in ACTIONS.values()),
):  # fmt: skip
    names_arguments(_class)


class NotHeld(AssertionError):
    """A run broke a rule. The message has the violations and the call that repeats the run.

    ``outcome``: the result of the run.
    """

    def __init__(self, outcome: Outcome) -> None:
        found = [f"  {each.at_us / 1e6:.3f} s  {each.checker}: {each.text}" for each in outcome.violations[:10]]
        more = [f"  and {len(outcome.violations) - 10} more"] if len(outcome.violations) > 10 else []
        plan = [f"  fault {each.index}: {each.text} (took effect {each.fired} times)" for each in outcome.faults]
        repeat = f'  repeat: kemu.run(scenario, seed={outcome.seed}, profile={outcome.profile!r}, trace="run.kemu")'
        head = f"{outcome.scenario}, seed {outcome.seed}, {outcome.profile}: {outcome.verdict}"
        broke = [f"  {outcome.broke}"] if outcome.broke else []
        super().__init__("\n".join([head, *broke, *found, *more, *plan, repeat]))
        self.outcome = outcome


class NeverFired(AssertionError):
    """All rules held in all runs, but some entries of the plan never took effect. ``faults``: these entries."""

    def __init__(self, scenario: str, faults: Iterable[FaultFired]) -> None:
        self.faults = tuple(faults)
        found = [f"  fault {each.index} never fired: {each.text}" for each in self.faults]
        fix = "  change its time or its target, or pass allow_unfired=True"
        super().__init__(
            "\n".join([f"{scenario}: every run holds, but a part of the plan was not tested", *found, fix])
        )


def presets() -> tuple[str, ...]:
    """Return the names of the scenarios that the package contains."""
    return tuple(preset.name for preset in _presets())


def load(name: str | Path) -> Scenario:
    """Return the scenario of a TOML file (a path, or a text that ends with ".toml"), or the preset of this name.

    Raises:
        ScenarioError: The file or preset does not exist, or the file has mistakes; the error lists all mistakes.
    """
    return load_scenario(name)


def _loaded(scenario: Scenario | str | Path) -> Scenario:
    return scenario if isinstance(scenario, Scenario) else load(scenario)


def run(
    scenario: Scenario | str | Path,
    *,
    seed: int | None = None,
    profile: str | None = None,
    loop: Literal["bare", "trio"] = "bare",
    trace: str | Path | None = None,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
) -> Outcome:
    """Run a scenario once.

    Args:
        scenario: A scenario, a preset's name or a file.
        seed: The seed of all draws; None for the scenario's seed.
        profile: The release of brokers and clients; None for the scenario's release, or the default.
        loop: "trio" makes every actor a Trio task; "bare" is a faster loop. Both loops give the same run and trace.
        trace: The file for the trace; None for no trace.
        listeners: Rebalance listeners by host ("c1"), in place of the configured listeners.
        applications: Factories by host, called at each start of the host. An application is your own loop of polls,
        work, commits, pauses and seeks, in place of ``PollLoop``.

    Raises:
        ScenarioError: An unknown preset, profile or host.
        ValueError: An unknown loop.
    """
    if loop not in LOOPS:
        raise ValueError(f'loop is "{loop}"; it must be {" or ".join(LOOPS)}')
    scenario = _loaded(scenario)
    hosts = [host for host, _, _ in scenario.member_names()]
    grows = any(isinstance(entry.action, AddMembers) for entry in scenario.plan)
    given = [("listeners", host) for host in listeners or {}] + [("applications", host) for host in applications or {}]
    unknown = [] if grows else [(kind, host) for kind, host in given if host not in hosts]
    if unknown:
        raise ScenarioError(
            [Problem((kind, host), f'"{host}" is no member{nearest(host, hosts)}') for kind, host in unknown]
        )
    return _run(
        scenario,
        seed=scenario.seed if seed is None else seed,
        profile=profile,
        loop=loop,
        trace=None if trace is None else Path(trace),
        listeners=listeners,
        applications=applications,
    )


def check(
    scenario: Scenario | str | Path,
    *,
    seeds: Iterable[int] = range(1, 6),
    profile: str | None = None,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
    allow_unfired: bool = False,
) -> tuple[Outcome, ...]:
    """Run a scenario with each seed, and require that all rules hold. The message of a failure has a call that repeats
    the run.

    Args:
        scenario: A scenario, a preset's name or a file.
        seeds: The seeds of the runs, at least one.
        profile: The release of brokers and clients; None: the scenario's own.
        listeners: As for ``run``.
        applications: As for ``run``.
        allow_unfired: Whether to accept entries of the plan that have no effect in any run.

    Raises:
        NotHeld: A run broke a rule.
        NeverFired: All rules held, but an entry of the plan had no effect in any run.
        ScenarioError: An unknown preset, profile or host.
        ValueError: ``seeds`` is empty.
    """
    scenario, chosen = _loaded(scenario), tuple(seeds)
    if not chosen:
        raise ValueError("seeds is empty: nothing would be run, so nothing would be checked; give at least one seed")
    outcomes: list[Outcome] = []
    for seed in chosen:
        outcome = run(scenario, seed=seed, profile=profile, listeners=listeners, applications=applications)
        if outcome.verdict != "holds":
            raise NotHeld(outcome)
        outcomes.append(outcome)
    unfired = unfired_in_all([outcome.faults for outcome in outcomes])
    if unfired and not allow_unfired:
        raise NeverFired(scenario.name, unfired)
    return tuple(outcomes)


def shrink(
    scenario: Scenario | str | Path,
    *,
    seed: int | None = None,
    profile: str | None = None,
    keep: str = "",
    runs: int = DEFAULT_RUNS,
    tries: int = 1,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
) -> Shrunk:
    """Reduce a failing scenario as long as it shows the same violation.

    Args:
        scenario: The failing scenario, a preset's name or a file.
        seed: The seed of the failing run; None for the scenario's seed.
        profile: The release of brokers and clients; None: the scenario's own.
        keep: The violation to keep, as "CHECKER" or "CHECKER:KIND"; "" for the violation that decides the verdict.
        runs: The largest number of attempts.
        tries: Number of seeds of each attempt. An attempt passes if the runs of all seeds pass.
        listeners: The listeners of the failing run.
        applications: The applications of the failing run.

    Raises:
        NothingToShrink: The scenario does not show the violation.
        ScenarioError: An unknown profile, or settings that a machine refuses.
    """
    scenario = _loaded(scenario)
    trials = Trials(profile=profile, listeners=listeners, applications=applications)
    return Shrinker(
        scenario, scenario.seed if seed is None else seed, trials, keep=keep, runs=runs, tries=tries
    ).shrink()


def explore(
    scenario: Scenario | str | Path,
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
    """Run a scenario with many orders of its events, until one order breaks a rule.

    Args:
        scenario: A scenario, a preset's name or a file.
        strategy: "ties", "pct", "delays" or "plain" (``kemu explore --help``).
        seeds: Seeds whose orders are changed, in turn; () for the scenario's seed.
        runs: The largest number of runs.
        profile: The release of brokers and clients; None: the scenario's own.
        keep: The violation to search for, as "CHECKER" or "CHECKER:KIND"; "" for any violation that decides a verdict.
        options: Options of the strategy.
        listeners: As for ``run``.
        applications: As for ``run``.

    Returns:
        The result of the exploration. ``found.scenario`` has the seed, and the order as the last entries of its plan.

    Raises:
        ScenarioError: An unknown strategy or profile, or settings that a machine refuses.
    """
    scenario = _loaded(scenario)
    trials = Trials(profile=profile, listeners=listeners, applications=applications)
    chosen = tuple(seeds) or (scenario.seed,)
    return Explorer(scenario, strategy, chosen, trials, options=options, keep=keep).explore(runs)


def toml_of(scenario: Scenario) -> str:
    """Return a scenario as the text of a TOML file; ``load`` reads an equal scenario from this file."""
    return toml_text(scenario.to_dict())


def python_of(scenario: Scenario) -> str:
    """Return a scenario as the Python expression that builds it: ``kemu.Scenario(...)``."""
    return python_text(scenario)


def replay(
    trace: str | Path,
    *,
    profile: str | None = None,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
) -> Replayed:
    """Feed the recorded events of a trace to today's machines, up to the first difference.

    Args:
        trace: A file that ``run`` wrote.
        profile: The release of the replay; None for the recorded release.
        listeners: The listeners of the recorded run; a trace contains no code.
        applications: The applications of the recorded run.

    Raises:
        TraceError: The file is damaged, its scenario cannot be read, or listeners or applications are missing.
        OSError: The file cannot be read.
    """
    return _replay(read_trace(trace), profile=profile, listeners=listeners, applications=applications)


def import_log(*files: str | Path, kinds: Iterable[str] = (), zone: str = "UTC") -> "ImportedLogs":
    """Return the events, the generations and the accounts of logs.

    Args:
        files: Logs of brokers and clients, or folders of logs.
        kinds: Dialects to look for; () for all.
        zone: Time zone of times without one.

    Raises:
        BadInput: A log cannot be read.
        ValueError: No such time zone.
    """
    from kemu.tools.incident.imported import ImportedLogs
    from kemu.tools.logs.clocks import clock_offsets
    from kemu.tools.logs.folders import log_files
    from kemu.tools.logs.reading import read_events
    from kemu.tools.logs.wrappers.times import zone_offset

    paths, _ = log_files([Path(file) for file in files])
    events, summaries = read_events(
        paths, tuple(kinds), dict.fromkeys((path.name for path in paths), zone_offset(zone))
    )
    return ImportedLogs(tuple(events), tuple(summaries), tuple(clock_offsets(events)))


def diagnose(*files: str | Path) -> "Diagnosis":
    """Return the ranked causes of an incident.

    Args:
        files: Logs of brokers and clients, and traces of kemu, all of one incident.

    Raises:
        TraceError: A trace is damaged.
        BadInput: A log cannot be read.
    """
    from kemu.tools.diagnosis.diagnose import diagnose as diagnosed
    from kemu.tools.incident.sources import read_incident

    return diagnosed(read_incident(files).events)


def reproduce(*files: str | Path, group: str = "") -> "Reproduction":
    """Return a scenario that repeats an incident, with the basis of each part.

    Args:
        files: Logs of brokers and clients, and traces of kemu, all of one incident.
        group: The group to repeat; "" for the group with the most lines.

    Raises:
        TraceError: A trace is damaged.
        BadInput: A log cannot be read, or no line names the group, a member and a time.
    """
    from kemu.tools.diagnosis.reproduce import reproduce as reproduced
    from kemu.tools.incident.incident import Incident
    from kemu.tools.incident.sources import read_incident

    read = read_incident(files)
    return reproduced(Incident(read.events), group, read.broker_release)


def advise(
    scenario: Scenario | str | Path,
    *,
    by: str = "downtime",
    changes: Iterable[str] = (),
    seeds: Iterable[int] = range(1, 13),
    profile: str | None = None,
    jobs: int | None = None,
) -> "Advice":
    """Return the changes that would have helped in a scenario, ranked.

    Args:
        scenario: A scenario, a preset's name or a file.
        by: "downtime", "service-lost", "delay" or "duplicates".
        changes: Settings joined with "+", as of ``kemu advise --try``; () for kemu's own table of changes.
        seeds: The seeds of the runs.
        profile: The release of brokers and clients; None: the scenario's own.
        jobs: Number of processes; None for all cores.

    Raises:
        ScenarioError: An unknown preset, or a change that the scenario does not allow.
        ValueError: An unknown ``by``, or fewer seeds than a difference needs.
    """
    from kemu.protocol.profiles import DEFAULT_PROFILE
    from kemu.tools.commands.advise import run_changes, tried_changes
    from kemu.tools.diagnosis.advice import RANKED_BY, confidence_for, judge
    from kemu.tools.intervals import fewest

    scenario, chosen = _loaded(scenario), tuple(seeds)
    if by not in RANKED_BY:
        raise ValueError(f'by is "{by}"; it must be one of {", ".join(RANKED_BY)}')
    release = profile or scenario.profile or DEFAULT_PROFILE
    fit, _ = tried_changes(scenario, release, tuple(changes))
    least = fewest(confidence_for(len(fit)))
    if len(chosen) < least:
        raise ValueError(f"{len(chosen)} seeds are too few: {len(fit)} changes need {least}")
    rows = run_changes(scenario, release, fit, chosen, jobs)
    return judge(rows[0], list(zip([change for change, _ in fit], rows[1:], strict=True)), RANKED_BY[by])
