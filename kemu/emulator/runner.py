"""One run: from a scenario and a seed to a verdict. The command line, tests and sweeps use the same function.

A run has two phases. In the safety phase the plan and the load run until the scenario's ``heal_at_us``, when all faults
end. In the liveness phase every group must recover within a bound. Hosts in ``[checks.away]`` stay faulty, and recovery
does not wait for these hosts.
"""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from attrs import field

from kemu.actors.consumer.application import ApplicationFactory
from kemu.actors.consumer.listener import Listener
from kemu.actors.coordinator.rules import GROUP_RULES, GroupRules
from kemu.actors.machine import US_PER_MS
from kemu.emulator import facts
from kemu.emulator.chance import Choices, Seeded
from kemu.emulator.checkers import checkers_for
from kemu.emulator.checkers.base import Checker
from kemu.emulator.cluster.kinds import cluster_class
from kemu.emulator.draws import Drawn
from kemu.emulator.engine.hosts import PageCache
from kemu.emulator.engine.loop import run_plain, run_trio
from kemu.emulator.engine.raised import outcome_of_test
from kemu.emulator.engine.step_watch import StepWatch
from kemu.emulator.engine.world import MachineBroke, Observer, World
from kemu.emulator.findings import Loss, Unmended, Violation
from kemu.emulator.injection.core import CoreDecision, decided, standings
from kemu.emulator.injection.injector import Injector
from kemu.emulator.judging import Judging
from kemu.emulator.metrics.figures import Figures
from kemu.emulator.plan.action import kind_of
from kemu.emulator.plan.entries import plan_to_dicts
from kemu.emulator.plan.words import describe_entry
from kemu.emulator.scenario.away import AwaySpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.kafka_keys import configured
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.emulator.trace.files import written_beside
from kemu.emulator.trace.recorder import LiveWriter, Recorder, RecorderOfAll
from kemu.emulator.trace.traces import Header, TraceWriter
from kemu.emulator.watching.panel import Panel
from kemu.emulator.watching.waiting_at_end import StillWaiting
from kemu.protocol.assign.base import Assignor
from kemu.protocol.draws import DrawName
from kemu.protocol.frozen import frozen
from kemu.protocol.names import host_of
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES

if TYPE_CHECKING:
    from kemu.emulator.control.controls import Controls
    from kemu.emulator.engine.control import ControlSocket

Readers: TypeAlias = Callable[[Judging], Sequence[Observer]]
"""Makes observers that read the panel and the metrics of a run."""
StoryMaker: TypeAlias = Callable[[Callable[[str], None]], Observer]
"""Makes an observer that calls its argument with each line of the story of a run."""
LOOPS = ("trio", "bare")
CALM_LATENCY_US = (500, 2_000)
"""Least and most latency of packets in us, if neither the scenario nor a draw sets a latency."""
SLICE_US = 1_000_000
"""Interval of the checks for recovery in the liveness phase, in us."""
SETTLED_US = 10_000_000
"""Time after a broker's session timeout and a replica's lag timeout in which ISRs settle, in us."""
TIME_IS_OVER = "time is over"
LONGER_US = 3_600_000_000
"""Longest extension of a run whose groups are disturbed repeatedly, in us."""


@frozen
class FaultFired:
    """An entry of the plan: index, kind ("crash"), description, and the number of effects.

    ``parts`` is the number of parts of an action (a rolling restart has one part per member); ``done`` parts took
    effect.
    """

    index: int
    kind: str
    text: str
    fired: int
    done: int = 0
    parts: int = 0


def unfired_in_all(runs: Sequence[Sequence[FaultFired]]) -> list[FaultFired]:
    """Return the entries of one plan that took effect in none of these runs."""
    return [each[0] for each in zip(*runs, strict=True) if not any(fault.fired for fault in each)]


@frozen
class RunResult:
    """The result of a run.

    ``verdict`` is "holds", "violated", "liveness", "livelock" or "broken" (``emulator.judging.Judgement``). ``faults``
    has one entry per entry of the plan. ``losses`` are records that Kafka's own rules allow to be lost
    (``emulator.findings``). ``unmended`` are groups and partitions that did not recover for a reason of Kafka's own.
    Neither losses nor ``unmended`` are violations.
    """

    scenario: str
    seed: int
    profile: str
    loop: str
    digest: str
    steps: int
    messages: int
    virtual_us: int
    wall_s: float
    verdict: str
    violations: tuple[Violation, ...]
    faults: tuple[FaultFired, ...]
    figures: Figures
    losses: tuple[Loss, ...] = ()
    unmended: tuple[Unmended, ...] = ()
    broke: str = ""
    """The error, if the verdict is "broken"."""
    reason: str = ""
    """Reason of the verdict in one line; "" if the run holds."""
    did_not_work: str = ""
    """The reason why the figures are meaningless (``emulator.judging``); "" for meaningful figures."""
    core: facts.CoreHealed | None = None
    """The healed core of ``[checks.away]``, with reasons if the core cannot recover; None if all hosts were healed."""
    waiting: tuple[StillWaiting, ...] = ()
    """Groups and partitions that still wait at the end, with time and reason."""
    unchecked: tuple[facts.RealClientsUnchecked, ...] = ()
    """Checkers that could not judge the run's real clients (``kemu serve``)."""
    labels: Mapping[str, str] = field(factory=dict)
    """Host of a member -> the member's label in the scenario."""


@cache
def package_version() -> str:
    """Return the version of this package, for traces."""
    from importlib.metadata import PackageNotFoundError, version  # late: 15 modules, needed for traces only

    try:
        return version("kemu")
    except PackageNotFoundError:
        return "unknown"


def profile_of(scenario: Scenario, profile: str | None) -> str:
    """Return the release of a run: ``profile``, or the scenario's release, or the default.

    Raises:
        ScenarioError: the release is unknown, or brokers of the release do not know a key of the scenario.
    """
    found = profile or scenario.profile or DEFAULT_PROFILE
    if found not in PROFILES:
        raise ScenarioError([Problem(("profile",), f'"{found}" is no profile{nearest(found, PROFILES)}')])
    _check_known(scenario, found)
    return found


_SINCE: Mapping[str, tuple[str, Callable[[GroupRules], bool]]] = {
    "group_coordinator_append_linger_ms": ("kafka-4.0", lambda rules: rules.gathers_writes),
    "group_consumer_regex_refresh_interval_ms": ("kafka-4.1", lambda rules: rules.consumer_groups.refreshes_regexes),
    **{
        f"group_consumer_{bound}assignment_interval_ms": (
            "kafka-4.3",
            lambda rules: rules.consumer_groups.spaces_targets,
        )
        for bound in ("", "min_", "max_")
    },
}
"""Key of brokers -> the first release with the key, and whether a coordinator uses the key."""


def _check_known(scenario: Scenario, profile: str) -> None:
    """Refuse a key of ``_SINCE`` that no broker, now or after an upgrade, would use."""
    given = [name for name, _ in scenario.brokers.config if name in _SINCE]
    names = tuple(dict.fromkeys((profile, *scenario.other_broker_profiles()))) if given else ()
    kinds = [configured(PROFILES[name].broker, scenario.brokers.config).coordinator_kind for name in names]
    for name in given:
        since, is_used = _SINCE[name]
        if not any(is_used(GROUP_RULES[kind]) for kind in kinds):
            text = f"is not known to brokers of {', '.join(names)}: {since} and later have it; leave it out"
            raise ScenarioError([Problem(("brokers", "config", name.replace("_", ".")), text)])


class Run:
    """A prepared run: the world, its cluster and all observers."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        seed: int,
        profile: str | None = None,
        loop: str = "trio",
        sink: BinaryIO | None = None,
        live: bool = False,
        observers: Sequence[Observer] = (),
        listeners: Mapping[str, Listener] | None = None,
        applications: Mapping[str, ApplicationFactory] | None = None,
        assignors: Mapping[str, Assignor] | None = None,
        checkers: Sequence[Checker] | None = None,
        panel: Panel | None = None,
        choices: Choices | None = None,
        recorder: Recorder | None = None,
        driven: bool = False,
        readers: Readers | None = None,
    ) -> None:
        """Prepare a run. The other arguments are those of ``run``; ``recorder`` gets all records of the trace.

        Args:
            choices: random choices in place of draws from the seed. A trace with such choices cannot be replayed.
            driven: whether code outside of the plan will act on the run. The trace of such a run cannot be run again.
        """
        self.profile = profile = profile_of(scenario, profile)
        header = Header(  # without a file nothing reads it
            scenario={} if sink is None else scenario.to_dict(),
            plan=[] if sink is None else plan_to_dicts(scenario.plan),
            seed=seed,
            profile=profile,
            loop=loop,
            package="" if sink is None else package_version(),
            live=live,
            listeners=sorted(listeners or ()),
            applications=sorted(applications or ()),
            steered=choices is not None,
            driven=driven,
        )
        self.scenario = scenario
        self.writer = TraceWriter(sink, header)
        written: Recorder = LiveWriter(self.writer) if live else self.writer
        network, draws = scenario.network, scenario.draws
        choices = Seeded(seed) if choices is None else choices
        resends, of_network = draws.of(DrawName.NETWORK_RETRANSMIT) is not None, Drawn(choices, draws, "network")
        wakes = draws.of(DrawName.THREAD_WAKE) is not None
        self.world = World(
            choices,
            written if recorder is None else RecorderOfAll(written, recorder),
            latency_us=network.latency_us or CALM_LATENCY_US,
            links_us={(link.a, link.b): link.latency_us for link in network.links},
            drawn=draws.of(DrawName.NETWORK_LATENCY) if network.latency_us is None else None,
            retransmit=(lambda: of_network.us(DrawName.NETWORK_RETRANSMIT, 0)) if resends else None,
            wake_us=(lambda: of_network.us(DrawName.THREAD_WAKE, 0)) if wakes else None,
        )
        self.cluster = cluster_class(scenario)(
            self.world,
            scenario,
            PROFILES[profile],
            listeners=listeners,
            applications=applications,
            assignors=assignors,
        )
        broker = self.cluster.broker_config
        self.world.append_us = broker.emulated_append_us
        self.world.page_cache = PageCache(
            broker.emulated_dirty_expire_ms * US_PER_MS, broker.emulated_dirty_writeback_ms * US_PER_MS
        )
        self.world.append_of = self.cluster.append_of()
        self.cluster.build()
        self.injector = Injector(self.world, self.cluster, scenario.plan, draws)
        self.judging = Judging(
            checkers_for(scenario, profile) if checkers is None else checkers, expect=scenario.expect, panel=panel
        )
        self.core: facts.CoreHealed | None = None
        """The healed core of ``[checks.away]``; None if all hosts were healed."""
        own: tuple[Observer, ...] = (self.cluster, self.injector, self.judging)
        self._observers = (*own, *(readers(self.judging) if readers is not None else ()), *observers)
        self.world.watch(self._observers)

    def watch_also(self, observer: Observer) -> None:
        """Add an observer, which sees each fact after the other observers."""
        self._observers = (*self._observers, observer)
        self.world.watch(self._observers)

    def begin(self) -> None:
        """Schedule the first starts and the plan."""
        self.cluster.begin()
        self.injector.arm()

    def settle(self, at_us: int) -> None:
        """Schedule the end of all faults, after which every group must recover."""
        self.world.at(at_us, self._heal)

    def run_with(self, take_turns: Callable[[World, int], None]) -> str:
        """Run both phases; return the error, or "" without an error."""
        self.begin()
        self.settle(self.scenario.heal_at_us)
        return self.run_until(take_turns, self.scenario.ends_us + LONGER_US)

    def run_until(self, take_turns: Callable[[World, int], None], until_us: int, *, collects: bool = False) -> str:
        """Run until the end, at the latest until ``until_us``; return the error, or "" without an error.

        ``collects``: whether Python collects garbage, as a run without an end needs.
        """
        world = self.world
        collecting = gc.isenabled()
        if not collects:
            # A full garbage collection visits every member, so the cost of a step would grow with the cluster.
            gc.disable()
        try:
            with StepWatch(world, World.take_turn.__code__):
                take_turns(world, until_us)
        except MachineBroke as broke:
            outcome = outcome_of_test(broke)
            if outcome is not None:
                raise outcome from None
            return str(broke)
        except (Exception, SystemExit) as error:
            return self.judging.raised(error, world.now_us)
        finally:
            if collecting:
                gc.enable()
        for unchecked in self.judging.unchecked():
            world.report(unchecked)
        world.report(facts.RunEnded(reason=world.stopped or TIME_IS_OVER))
        return ""

    def _heal(self) -> None:
        away = self.scenario.checks.away
        if away is None:
            self.injector.heal()
        else:
            self._heal_core(away)
        self.world.report(facts.Healed())
        self._look()

    def _heal_core(self, away: AwaySpec) -> None:
        """Heal all hosts except hosts that stay faulty. With ``recalled``, also heal brokers that the core needs."""
        world, now = self.world, standings(self.scenario, self.judging.panel)
        decision = decided(now, away.hosts, recalled=away.recalled)
        self.injector.heal_core(decision.away, away.how)
        self._tell_core(away.how, decision, ())
        replication = self.scenario.brokers.replication
        if replication is not None:
            again_us = world.now_us + replication.session_us + replication.lag_us + SETTLED_US
            world.at(again_us, lambda: self._decide_again(away))

    def _decide_again(self, away: AwaySpec) -> None:
        """Repeat the decision about the core, because earlier faults may have left a faulty broker alone in an ISR."""
        core = self.core
        assert core is not None
        if core.unrecoverable:
            return
        now = standings(self.scenario, self.judging.panel)
        decision = decided(now, core.away, recalled=away.recalled)
        if decision.recalled or decision.unrecoverable:
            self.injector.recall(decision.recalled, decision.away)
            self._tell_core(away.how, decision, core.recalled)

    def _tell_core(self, how: str, decision: CoreDecision, recalled: tuple[str, ...]) -> None:
        members = tuple(member for group in self.judging.panel.groups.values() for member in group.members)
        hosts = dict.fromkeys((*self.cluster.brokers, *map(host_of, members)))
        self.core = facts.CoreHealed(
            core=tuple(host for host in hosts if host not in decision.away),
            away=decision.away,
            how=how,
            recalled=(*recalled, *decision.recalled),
            unrecoverable=decision.unrecoverable,
        )
        self.world.report(self.core)

    def _look(self) -> None:
        """End the run if the load has run and all groups have recovered, or if the time for recovery is over.

        The scenario gives the time for recovery. The time restarts when a host starts after the end of the faults.
        """
        now_us = self.world.now_us
        if now_us >= self.scenario.runs_us and self.well:
            self.world.stopped = "well again"
        elif now_us >= (over_us := max(self.scenario.ends_us, self.judging.judges_at_us)) and not self.cluster.starting:
            self.world.stopped = TIME_IS_OVER
        else:
            self.world.at(min(now_us + SLICE_US, over_us) if over_us > now_us else now_us + SLICE_US, self._look)

    @property
    def well(self) -> bool:
        """Whether no checker waits for recovery, no host is starting, and all scripts of clients have ended."""
        return self.judging.recovered and not self.cluster.starting and not self.cluster.talking


def run(
    scenario: Scenario,
    *,
    seed: int,
    profile: str | None = None,
    loop: str = "trio",
    trace: Path | None = None,
    live: bool = False,
    observers: Sequence[Observer] = (),
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
    assignors: Mapping[str, Assignor] | None = None,
    checkers: Sequence[Checker] | None = None,
    panel: Panel | None = None,
    recorder: Recorder | None = None,
    control: Path | None = None,
    story: StoryMaker | None = None,
    readers: Readers | None = None,
) -> RunResult:
    """Run a scenario once.

    Args:
        scenario: the scenario to run.
        seed: seed of all random draws; the same seed gives the same trace, byte for byte.
        profile: a name of ``PROFILES``; None for the scenario's release, or the default.
        loop: "trio" (every actor is a Trio task) or "bare" (a Python loop); the traces are equal.
        trace: file for the trace. Only a complete trace replaces an earlier file.
        live: whether the run follows the wall clock (Trio loop only).
        observers: further observers of facts.
        listeners: rebalance listeners by host, in place of the configured listeners.
        applications: factories of applications by host, called at each start of the host, in place of the usual poll
        loop.
        assignors: assignors in place of the profile's assignors.
        checkers: checkers in place of all checkers that apply.
        panel: a panel that observers read, too; the panel sees each fact before the observers. None for a new panel.
        recorder: gets all records of the trace.
        control: path of the control socket of a live run (``emulator.control``).
        story: makes the observer that tells the lines of the story for the events of control.
        readers: makes further observers, which see each fact after the run's panel, checkers and metrics.

    Raises:
        OSError: the trace cannot be written, or no socket can be created at ``control``. The error names the file.
        ScenarioError: the profile is unknown, or a machine refuses its configuration.
    """
    assert loop in LOOPS, loop
    profile = profile_of(scenario, profile)
    began_s = time.perf_counter()
    with nullcontext() if trace is None else written_beside(trace) as sink:
        one = Run(
            scenario,
            seed=seed,
            profile=profile,
            loop=loop,
            sink=sink,
            live=live,
            observers=observers,
            listeners=listeners,
            applications=applications,
            assignors=assignors,
            checkers=checkers,
            panel=panel,
            recorder=recorder,
            readers=readers,
        )
        try:
            if loop == "bare":
                broke = one.run_with(run_plain)
            elif control is not None:
                broke = _run_with_orders(one, control, story, live)
            else:
                broke = one.run_with(lambda world, until_us: run_trio(world, until_us, live=live))
        except KeyboardInterrupt:
            one.writer.flush()  # the trace holds all records so far, and no footer
            raise
        except Exception as error:
            error.add_note(f"in the run of {scenario.name} with seed {seed} under {profile}")
            raise
        return result_of(one, seed, profile, loop, broke, began_s)


def _run_with_orders(one: Run, path: Path, story: StoryMaker | None, live: bool) -> str:
    """Run with a control socket."""
    door = control_socket(path, controls_of(one, story))
    try:
        return one.run_with(lambda world, until_us: run_trio(world, until_us, live=live, beside=door.serve))
    finally:
        door.close()


def controls_of(one: Run, story: StoryMaker | None, more: Callable[[], Mapping[str, Any]] = dict) -> "Controls":
    """Return the verbs of control for a run that has not begun (``emulator.control.controls``).

    Args:
        story: makes the observer that tells the lines of the story.
        more: adds further keys to the whole state.
    """
    from kemu.emulator.control.controls import Controls
    from kemu.emulator.control.orders import Orders
    from kemu.emulator.control.state import LiveState

    orders = Orders(one.scenario, one.injector)
    state = LiveState(one.scenario, one.world, one.judging.panel, one.cluster)
    controls = Controls(orders, state, more)
    for each in (orders, state, *(() if story is None else (story(controls.tell_story),)), controls):
        one.watch_also(each)
    return controls


def control_socket(path: Path, controls: "Controls") -> "ControlSocket":
    """Return a listening control socket.

    Raises:
        OSError: no socket can be created. The error names the path.
    """
    from kemu.emulator.engine.control import ControlSocket

    try:
        return ControlSocket(path, controls.take)
    except OSError as error:
        raise OSError(error.errno or 0, f"cannot listen: {error.strerror or error}", str(path)) from error


def result_of(one: Run, seed: int, profile: str, loop: str, broke: str, began_s: float) -> RunResult:
    """Return the result of a finished run; ``began_s`` is its start by ``time.perf_counter``."""
    world = one.world
    judgement = one.judging.finish(world.now_us, broke)
    for violation in judgement.violations:
        one.writer.violation(violation)
    counts = tuple(one.injector.counts())
    digest = one.writer.finish(judgement.verdict, world.now_us, counts)
    return RunResult(
        scenario=one.scenario.name,
        seed=seed,
        profile=profile,
        loop=loop,
        digest=digest,
        steps=world.steps,
        messages=world.network.packets,
        virtual_us=world.now_us,
        wall_s=time.perf_counter() - began_s,
        verdict=judgement.verdict,
        violations=judgement.violations,
        faults=tuple(
            FaultFired(index, kind_of(entry.action), describe_entry(entry), counts[index], *one.injector.parts(index))
            for index, entry in enumerate(one.injector.plan)
        ),
        figures=judgement.figures,
        losses=judgement.losses,
        unmended=judgement.unmended,
        broke=judgement.broke,
        reason=judgement.reason,
        did_not_work=judgement.did_not_work,
        core=one.core,
        waiting=judgement.waiting,
        unchecked=judgement.unchecked,
        labels=one.scenario.labels(),
    )
