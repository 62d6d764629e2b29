"""Replay: feed the recorded events to new machines, and compare their effects up to the first difference.

The trace holds every event of every actor in order, and a machine is a function of its events. So a replay needs no
network, no clock and no Trio. A replay compares an earlier trace with today's code, and can repeat a live run.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from kemu.actors.consumer.application import ApplicationFactory
from kemu.actors.consumer.listener import Listener
from kemu.actors.machine import Effect, Event, Machine
from kemu.emulator.chance import Seeded
from kemu.emulator.cluster.kinds import cluster_class
from kemu.emulator.cluster.releases import BrokerRelease
from kemu.emulator.engine.raised import LIVELOCK
from kemu.emulator.engine.world import World
from kemu.emulator.facts import (
    BrokerHostAdded,
    BrokerReconfigured,
    MemberHostAdded,
    MemberReconfigured,
    RealClientsUnchecked,
)
from kemu.emulator.runner import RunResult, run
from kemu.emulator.scenario.members import upgraded_to
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.blocks import TraceError
from kemu.emulator.trace.index import Window
from kemu.emulator.trace.rows import Packets, effect_from_row, event_from_row, same_effects
from kemu.emulator.trace.traces import Broken, Footer, Header, PacketRecord, Step, Torn, Trace, TraceWriter, WorldFact
from kemu.protocol.frozen import frozen
from kemu.protocol.profiles import PROFILES

DEEPEST = 8
"""Number of levels of a machine's state in ``state_of``."""
CONTEXT = 10
"""Number of steps shown before a difference."""


@frozen
class Difference:
    """The first difference between a replay and its trace: the step, the recorded effects and today's effects."""

    step: Step
    event: Event | None
    recorded: tuple[str, ...]
    made: tuple[str, ...]
    before: tuple[Step, ...]
    """The last equal steps of all actors before the difference, oldest first."""
    why: str


@frozen
class Replayed:
    """The result of a replay. ``difference`` is None if all compared steps are equal."""

    steps: int
    """Number of compared steps."""
    difference: Difference | None
    torn: str = ""
    """The place at which an incomplete trace ends; "" for a complete trace."""
    state: dict[str, Any] | None = None
    """Fields of the requested actor at the requested time."""
    unchecked: tuple[RealClientsUnchecked, ...] = ()
    """Checkers that could not judge the real clients of the recorded run."""


def scenario_of(header: Header) -> Scenario:
    """Return the scenario of a trace.

    Raises:
        TraceError: this version cannot read the scenario.
    """
    try:
        return scenario_from_dict(header.scenario)
    except (ScenarioError, TypeError, AttributeError) as error:
        raise TraceError(f"the scenario in the trace cannot be read: {error}") from error


def replay(
    trace: Trace,
    *,
    profile: str | None = None,
    actor: str | None = None,
    until_us: int | None = None,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
) -> Replayed:
    """Feed the recorded events to new machines, and compare the effects.

    Args:
        trace: the recorded run.
        profile: another release than the recorded release.
        actor: compare only the steps of this actor.
        until_us: stop at this virtual time and, with ``actor``, report the actor's fields. A trace with an index is
        read, and checked, only up to this time.
        listeners: the listeners of the recorded run.
        applications: the applications of the recorded run.

    Raises:
        TraceError: the file is damaged, its scenario is unreadable, listeners or applications of the run are missing,
        or the caller made the random choices.
    """
    torn = ""
    unchecked: list[RealClientsUnchecked] = []
    with trace.interpreted():
        _same_code(trace, listeners, applications)
        player = _Player(trace.header, profile or trace.header.profile, actor, listeners, applications)
        for record in trace.records() if until_us is None else trace.within([Window(to_us=until_us)]):
            if isinstance(record, Torn):
                torn = record.words
                break
            if isinstance(record, Footer) or (until_us is not None and _time_of(record) > until_us):
                break
            if isinstance(record, WorldFact) and isinstance(record.fact, RealClientsUnchecked):
                unchecked.append(record.fact)
            player.take(record)
            if player.difference is not None:
                break
    state = state_of(player.machines[actor]) if actor in player.machines and until_us is not None else None
    return Replayed(player.steps, player.difference, torn, state, tuple(unchecked))


def _same_code(
    trace: Trace,
    listeners: Mapping[str, Listener] | None = None,
    applications: Mapping[str, ApplicationFactory] | None = None,
) -> None:
    """Refuse a trace whose listeners, applications or random choices are missing; a trace contains none of these."""
    header = trace.header
    if header.source == "log":
        raise TraceError(
            f"{trace.path}: these are facts of logs, not of machines; nothing can be repeated: kemu explain and "
            f"kemu report show them"
        )
    if header.steered:
        raise TraceError(
            f"{trace.path}: the choices of this run were its caller's, not the seed's, and are not in the trace: it "
            f"can be explained and judged; to repeat it, run it again with the same choices"
        )
    for what, needed, given in (
        ("listeners", header.listeners, listeners),
        ("applications", header.applications, applications),
    ):
        if needed != sorted(given or ()):
            recorded = ", ".join(needed) or "none"
            raise TraceError(
                f"{trace.path}: recorded with {what} of its caller's for these members: {recorded}. They are code, not "
                f"in the trace: repeat it in Python, kemu.replay(trace, {what}=...), with the same"
            )


def repeatable(trace: Trace) -> Scenario:
    """Return the scenario of a trace that can be run again from its seed.

    Raises:
        TraceError: a live run, a run on which a test acted, an unreadable scenario, or a run with the caller's
        listeners, applications or choices.
    """
    with trace.interpreted():
        _same_code(trace)
    if trace.header.live:
        raise TraceError(f"{trace.path}: a live run can be replayed, not run again: the wall clock ordered it")
    if trace.header.driven:
        raise TraceError(
            f"{trace.path}: what a test did to this run is not in its plan: replay it, or run the test again"
        )
    with trace.interpreted():
        return scenario_of(trace.header)


def rerun(trace: Trace, *, loop: str | None = None, to: Path | None = None) -> tuple[RunResult, str]:
    """Run the plan of a trace again; return the result and the recorded digest.

    Raises:
        TraceError: as for ``repeatable``; or the trace is torn or damaged.
    """
    scenario, header = repeatable(trace), trace.header
    recorded = trace.footer().digest
    result = run(scenario, seed=header.seed, profile=header.profile, loop=loop or header.loop, trace=to)
    return result, recorded


def state_of(machine: Machine) -> dict[str, Any]:
    """Return a machine's fields as plain data, without references to the machine itself."""
    shown: dict[str, Any] = _plain(machine, frozenset(), 0)
    return shown


class _Player:
    """Builds the machines at the starts of lives, and steps the machines with the recorded events."""

    def __init__(
        self,
        header: Header,
        profile: str,
        only: str | None,
        listeners: Mapping[str, Listener] | None,
        applications: Mapping[str, ApplicationFactory] | None,
    ) -> None:
        if profile not in PROFILES:
            raise TraceError(f"unknown profile {profile!r} (there are {', '.join(PROFILES)})")
        scenario = scenario_of(header)
        world = World(Seeded(header.seed), TraceWriter(None, header), latency_us=(0, 0))  # a replay sends no packets
        self._cluster = cluster_class(scenario)(
            world, scenario, PROFILES[profile], listeners=listeners, applications=applications
        )
        self._cluster.build()
        self._only = only
        self._packets = Packets()
        self._lives: dict[str, int] = {}
        self._before: deque[Step] = deque(maxlen=CONTEXT)
        self.machines: dict[str, Machine] = {}
        self.steps = 0
        self.difference: Difference | None = None

    def take(self, record: object) -> None:
        """Replay one record of the trace."""
        match record:
            case Step():
                self._step(record)
            case PacketRecord(packet_id=packet_id, connection=connection, verdict=verdict):
                if verdict in ("sent", "queued", "held", "released"):
                    self._packets.routed(packet_id, connection)
                else:
                    self._packets.lost(packet_id)
            case WorldFact(fact=MemberHostAdded(host=host, group=group)):
                self._cluster.members.add(host, group)
            case WorldFact(fact=BrokerHostAdded(host=host)):
                self._cluster.adopt_broker(host)
            case WorldFact(fact=MemberReconfigured(host=host, profile=profile, assignors=assignors, settings=settings)):
                self._cluster.members.set_spec(host, upgraded_to(profile, assignors, settings))
            case WorldFact(fact=BrokerReconfigured(host=host, profile=profile, protocol=protocol)):
                self._cluster.releases.set_broker(host, BrokerRelease(profile, protocol))
            case Broken():
                self._broken(record)

    def _machine(self, actor: str, life: int, local_us: int) -> Machine | None:
        if self._only is not None and actor != self._only:
            return None
        if self._lives.get(actor) != life:
            self._lives[actor] = life
            machine = self.machines[actor] = self._cluster.factory(actor)(life)
            machine.now_us = local_us
        return self.machines[actor]

    def _step(self, step: Step) -> None:
        machine = self._machine(step.actor, step.life, step.local_us)
        event = event_from_row(step.event, self._packets)
        self._packets.sent(step.actor, step.effects)
        if machine is None:
            return
        self.steps += 1
        try:
            effects = machine.step(step.local_us, event)
        except (Exception, SystemExit) as error:
            self._differs(step, event, (), f"{type(error).__name__}: {error}")
            return
        if not same_effects(effects, step.effects):
            self._differs(step, event, tuple(effects), "the effects differ")
        self._before.append(step)

    def _broken(self, record: Broken) -> None:
        """Check that the machine raises where the recorded machine raised."""
        machine = self._machine(record.actor, record.life, record.local_us)
        if machine is None:
            return
        if record.text.startswith(LIVELOCK):  # the recorded machine did not take this step
            return
        event = event_from_row(record.event, self._packets)
        step = Step(*record[:6], ())
        try:
            effects = machine.step(record.local_us, event)
        except KeyboardInterrupt:
            raise
        except BaseException:  # pytest's outcomes do not derive from Exception
            return
        self._differs(step, event, tuple(effects), f"the recorded machine broke here ({record.text}); this one did not")

    def _differs(self, step: Step, event: Event, made: tuple[Effect, ...], why: str) -> None:
        recorded = tuple(repr(effect_from_row(row)) for row in step.effects)
        self.difference = Difference(
            step, event, recorded, tuple(repr(effect) for effect in made), tuple(self._before), why
        )


def _time_of(record: object) -> int:
    return int(getattr(record, "at_us", 0))


def _plain(thing: Any, above: frozenset[int], depth: int) -> Any:
    """Return plain data. ``above`` has the ids of the surrounding objects, at whose references the conversion stops."""
    if isinstance(thing, Enum):
        return thing.name
    if thing is None or isinstance(thing, str | int | bool | bytes):
        return thing
    if id(thing) in above or depth > DEEPEST:
        return "..."
    inside = above | {id(thing)}
    if isinstance(thing, Mapping):
        return {_key(key): _plain(value, inside, depth + 1) for key, value in thing.items()}
    if isinstance(thing, set | frozenset):
        return sorted((_plain(item, inside, depth + 1) for item in thing), key=repr)
    if isinstance(thing, list | tuple | deque):
        return [_plain(item, inside, depth + 1) for item in thing]
    names = dict.fromkeys(vars(thing)) if hasattr(thing, "__dict__") else {}
    for cls in type(thing).__mro__:
        names |= dict.fromkeys(getattr(cls, "__slots__", ()))
    if not names or callable(thing):
        return getattr(thing, "__name__", type(thing).__name__)
    return {
        name: _plain(getattr(thing, name), inside, depth + 1)
        for name in sorted(names)
        if name != "_effects" and hasattr(thing, name)
    }


def _key(key: Any) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(getattr(key, "name", key))
