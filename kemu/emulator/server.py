"""Serve a scenario's cluster to real clients, in real time."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from kemu.emulator.checkers.base import Checker
from kemu.emulator.control.controls import Controls
from kemu.emulator.engine.gateway import Gateway, serve_until_signal
from kemu.emulator.engine.loop import run_plain, run_trio
from kemu.emulator.engine.trio_loop import Outside
from kemu.emulator.engine.world import World
from kemu.emulator.runner import Run, RunResult, StoryMaker, control_socket, controls_of, profile_of, result_of
from kemu.emulator.scenario.brokers import BrokersSpec
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.serving.payloads import MOST_BYTES, Payloads
from kemu.emulator.serving.translation import OFFERED, OFFERED_WITHOUT_CONTROLLER
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.trace.files import written_beside
from kemu.protocol.draws import UUIDS, DrawName
from kemu.protocol.frozen import frozen
from kemu.protocol.names import client_of

if TYPE_CHECKING:
    from kemu.emulator.engine.control_http import ControlPort

FAR_US = 1 << 61
"""End of a run without an end, in us of virtual time."""
GUESTS = 64
"""Number of guests, if the scenario does not set the number."""
FOR_SERVING = (("group_initial_rebalance_delay_ms", 0), ("offsets_topic_segment_bytes", 1_048_576))
"""Settings of a served cluster's brokers: the first member of a group need not wait for further members, and the log
cleaner keeps the logs of groups short."""
LONGEST_START_US = 60_000_000
"""Longest virtual time before READY that is not asked for, in us; a plan may keep brokers down."""
START_STEP_US = 100_000
SETTLE_US = 1_000_000
"""Virtual time from the election of all leaders to READY, in us: every broker gets the metadata."""
GARBAGE = (50_000, 20, 100)
"""Thresholds of Python's garbage collection in a served cluster."""


@frozen
class Doors:
    """``bootstrap.servers`` of guests ("" without guests), and of each named client.

    ``control_port``: the port for control over HTTP; 0 without this port.
    """

    guests: str
    clients: Mapping[str, str]
    control_port: int = 0


@frozen(kw_only=True)
class ServeOptions:
    """The options of a served cluster.

    ``base``: the first port; 0: any free ports. ``for_us``: end of the run after READY; None: no end. ``warm_us``:
    virtual time before READY, which passes at once; None: until the cluster is up, at most ``LONGEST_START_US``.
    """

    address: str = "127.0.0.1"
    base: int = 0
    for_us: int | None = None
    warm_us: int | None = None
    trace: Path | None = None
    control: Path | None = None
    """Path of the control socket."""
    control_port: int | None = None
    """Port for control over HTTP; 0: any free port."""
    payload_bytes: int = MOST_BYTES
    signals: tuple[int, ...] = ()


def for_serving(scenario: Scenario, clients: Sequence[str] = ()) -> Scenario:
    """Return the scenario with more named clients, with guests, and without the initial delay of rebalances.

    Settings of the scenario stay, but ids are UUIDs: the ids of topics are 16 bytes in Kafka's protocol.

    Raises:
        ScenarioError: a client's name is not allowed, or the scenario has scripted clients.
    """
    spec = scenario.clients
    if spec.script:
        raise ScenarioError([Problem(("clients", "script"), "is not for kemu serve: kemu run repeats a script")])
    names = (*spec.names, *(name for name in dict.fromkeys(clients) if name not in spec.names))
    config = dict(scenario.brokers.config)
    added = tuple((key, value) for key, value in FOR_SERVING if key not in config)
    brokers: BrokersSpec = evolve(scenario.brokers, config=(*scenario.brokers.config, *added))
    draws = scenario.draws
    if not draws.identities:
        draws = evolve(draws, settings=(*draws.settings, (DrawName.IDENTITY.value, UUIDS)))
    spec = evolve(spec, names=names, guests=spec.guests or GUESTS)
    return evolve(scenario, clients=spec, brokers=brokers, draws=draws)


def serve(
    scenario: Scenario,
    options: ServeOptions,
    *,
    seed: int,
    profile: str | None = None,
    ready: Callable[[Doors], object],
    say: Callable[[str], object],
    checkers: Sequence[Checker] | None = None,
    story: StoryMaker | None = None,
) -> tuple[RunResult, str]:
    """Serve a cluster until a signal, or for ``for_us``; return the result, and the reason of the end.

    Args:
        scenario: a scenario of ``for_serving``.
        ready: called once when the ports are open.
        say: gets lines about refused frames and limits.
        checkers: checkers in place of all checkers that apply.
        story: makes the observer that tells the lines of the story for the events of control.

    Raises:
        OSError: a port is in use, or a file cannot be written. The error names the port or the file.
    """
    profile, began_s = profile_of(scenario, profile), time.perf_counter()
    with ExitStack() as open_things:
        sink = open_things.enter_context(nullcontext() if options.trace is None else written_beside(options.trace))
        run = Run(scenario, seed=seed, profile=profile, sink=sink, live=True, driven=True, checkers=checkers)
        payloads = Payloads(options.payload_bytes)
        gateway = Gateway(
            run.world,
            run.cluster.start,
            brokers=scenario.broker_names(),
            clients=scenario.clients.named_hosts(),
            guests=scenario.clients.guest_hosts(),
            offered=OFFERED if scenario.brokers.replication is not None else OFFERED_WITHOUT_CONTROLLER,
            address=options.address,
            base=options.base,
            payloads=payloads,
            say=say,
        )
        open_things.callback(gateway.close)
        run.watch_also(payloads)
        run.watch_also(gateway)
        beside, control_port = [], 0
        if options.control is not None or options.control_port is not None:
            controls = controls_of(run, story, lambda: {"doors": gateway.ports()})
            if options.control is not None:
                door = control_socket(options.control, controls)
                open_things.callback(door.close)
                beside.append(door.serve)
            if options.control_port is not None:
                port = _control_port(options.control_port, controls)
                open_things.callback(port.close)
                beside.append(port.serve)
                control_port = port.port

        def opened() -> None:
            gc.freeze()
            ready(_doors(gateway, control_port))

        async def task(outside: Outside) -> None:
            await serve_until_signal(gateway, run.world, outside, ready=opened, signals=options.signals, beside=beside)

        def take_turns(world: World, until_us: int) -> None:
            warm_us = _warm(run, options.warm_us)
            ends_us = until_us if options.for_us is None else warm_us + options.for_us
            run_trio(world, ends_us, live=True, beside=task)

        thresholds = gc.get_threshold()
        gc.set_threshold(*GARBAGE)
        try:
            run.begin()
            broke = run.run_until(take_turns, FAR_US, collects=True)
        finally:
            gc.unfreeze()
            gc.set_threshold(*thresholds)
        return result_of(run, seed, profile, "trio", broke, began_s), run.world.stopped


def _warm(run: Run, asked_us: int | None) -> int:
    """Let the time before READY pass; return the time of READY."""
    if asked_us is not None:
        run_plain(run.world, asked_us)
        return asked_us
    now_us = 0
    while not run.cluster.is_up and now_us < LONGEST_START_US:
        now_us += START_STEP_US
        run_plain(run.world, now_us)
    now_us += SETTLE_US
    run_plain(run.world, now_us)
    return now_us


def _control_port(port: int, controls: Controls) -> "ControlPort":
    from kemu.emulator.engine.control_http import ControlPort  # late: h11 costs 10 ms, and few runs need it

    try:
        return ControlPort(port, controls.take)
    except OSError as error:
        raise OSError(error.errno or 0, f"cannot listen: {error.strerror or error}", f"127.0.0.1:{port}") from error


def _doors(gateway: Gateway, control_port: int) -> Doors:
    found = {door.client: door.bootstrap(gateway.address) for door in gateway.doors}
    guests = found.pop("", "")
    return Doors(guests, {client_of(client): servers for client, servers in found.items()}, control_port)
