"""``kemu serve`` lets real Kafka clients join an emulated cluster over TCP."""

import ipaddress
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.tools.commands.durations import DURATION
from kemu.tools.commands.run_options import SEED, RunOptions, request_of
from kemu.tools.errors import BadInput
from kemu.tools.exits import worst
from kemu.tools.interrupt import same_command

if TYPE_CHECKING:
    from kemu.emulator.runner import RunResult
    from kemu.emulator.server import Doors

_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@click.command()
@click.argument("scenario")
@click.option("--client", "clients", metavar="NAME", multiple=True, help="A client with ports of its own; repeatable.")
@click.option(
    "--port",
    "base",
    type=click.IntRange(0, 65_535),
    metavar="BASE",
    default=0,
    help="The first port (default: free ports).",
)
@click.option(
    "--for", "for_us", type=DURATION, metavar="D", help='End after this time, such as "30s" (default: at Ctrl-C).'
)
@click.option(
    "--warm",
    "warm_us",
    type=DURATION,
    metavar="D",
    help="Let this time of the cluster pass before it is ready (default: until its partitions have leaders).",
)
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), help="Write the trace to this file.")
@click.option(
    "--control",
    "controls",
    metavar="PATH|PORT",
    multiple=True,
    help="Accept orders on this Unix socket, or over HTTP on this local port (0: a free port); repeatable.",
)
@click.option("--address", default="127.0.0.1", show_default=True, help="The local address of the ports.")
@click.option(
    "--open-to-network", is_flag=True, help="Allow an --address that other computers reach, without TLS and passwords."
)
@click.option("--no-checks", is_flag=True, help="Run without checkers, for a cluster that runs for days.")
@click.option("--seed", type=SEED, help="The seed of the run (default: the scenario's).")
@click.option("--profile", metavar="P", help="Emulate this profile (default: the scenario's).")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a key of the scenario; repeatable.")
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to the plan; repeatable.")
def serve(
    scenario: str,
    clients: tuple[str, ...],
    base: int,
    for_us: int | None,
    warm_us: int | None,
    trace: Path | None,
    controls: tuple[str, ...],
    address: str,
    open_to_network: bool,
    no_checks: bool,
    seed: int | None,
    profile: str | None,
    settings: tuple[str, ...],
    actions: tuple[str, ...],
) -> None:
    """Serve the cluster of SCENARIO to real Kafka clients, in real time.

    Each broker listens on a port of its own. The last line before the clients may come is "READY
    bootstrap.servers=...". A client named with --client has ports of its own, which a line before READY names. A plan
    can name its host: "app1" is the host x-app1. Other clients are guests.

    Record batches are delivered unchanged. Ctrl-C, SIGTERM and --for end the run, complete the trace and print the
    verdict. A group's first rebalance does not wait (group.initial.rebalance.delay.ms=0), unless the scenario sets the
    delay.
    """
    from kemu.emulator.scenario.files import with_actions
    from kemu.tools.report.story import Story

    control, control_port = _control(controls)
    try:
        from kemu.emulator.server import ServeOptions, for_serving
        from kemu.emulator.server import serve as serve_cluster

        if control_port is not None:
            import kemu.emulator.engine.control_http  # noqa: F401 - it needs h11
    except ModuleNotFoundError as error:
        from kemu.tools.extras import missing

        raise ScenarioError([Problem((), missing(str(error.name), "serve"))]) from None

    _check_address(address, open_to_network)
    request = request_of(
        scenario, RunOptions(seed=seed, profile=profile, settings=settings, trace=trace), True, control
    )
    try:
        loaded = for_serving(request.scenario, clients)
    except ScenarioError as error:
        wrong = [problem.text for problem in error.problems if problem.path == ("names",)]
        raise BadInput("\n".join(f"--client: {text}" for text in wrong)) if wrong else error from None
    result, why = serve_cluster(
        with_actions(loaded, actions) if actions else loaded,
        ServeOptions(
            address=address,
            base=base,
            for_us=for_us,
            warm_us=warm_us,
            trace=trace,
            control=control,
            control_port=control_port,
            signals=_ENDING,
        ),
        seed=request.seeds[0],
        profile=request.profile,
        ready=_say_ready,
        say=lambda line: click.echo(line, err=True),
        checkers=() if no_checks else None,
        story=Story.told,
    )
    _report(result, trace)
    if why in signal.Signals.__members__:
        click.echo(f"ended by {why}; repeat with: {same_command()}", err=True)
        sys.exit(128 + signal.Signals[why])
    sys.exit(worst([result.verdict]))


def _check_address(address: str, open_to_network: bool) -> None:
    try:
        is_local = ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise click.UsageError(f'--address "{address}" is no IP address, such as 127.0.0.1') from None
    if not is_local and not open_to_network:
        raise click.UsageError(
            f"--address {address} lets other computers use the cluster, without TLS and passwords: "
            "add --open-to-network to allow it"
        )


def _control(given: tuple[str, ...]) -> tuple[Path | None, int | None]:
    """(Path of the control socket, port for control over HTTP)."""
    ports = [text for text in given if text.isascii() and text.isdecimal()]
    paths = [text for text in given if text not in ports]
    if len(ports) > 1 or len(paths) > 1:
        raise click.UsageError("--control: give at most one PATH and one PORT")
    if ports and (len(ports[0]) > 5 or int(ports[0]) > 65_535):
        raise click.UsageError(f"--control {ports[0]:.20} is no port: use 0 to 65535")
    if paths and Path(paths[0]).is_dir():
        raise click.UsageError(f'--control "{paths[0]}" is a directory')
    return (Path(paths[0]) if paths else None), (int(ports[0]) if ports else None)


def _say_ready(doors: "Doors") -> None:
    for client, servers in doors.clients.items():
        click.echo(f"{client} bootstrap.servers={servers}")
    if doors.control_port:
        click.echo(f"control http://127.0.0.1:{doors.control_port}")
    click.echo(f"READY bootstrap.servers={doors.guests or next(iter(doors.clients.values()))}")
    sys.stdout.flush()


def _report(result: "RunResult", trace: Path | None) -> None:
    """Print the violations, what was not checked, the verdict, and the trace's name."""
    from kemu.tools.report.run_report import NOT_CHECKED, unchecked_lines

    for violation in result.violations:
        click.echo(f"{violation.at_us / 1e6:.3f} s  {violation.checker}: {violation.text}")
    for line in unchecked_lines(result.unchecked):
        click.echo(f"{NOT_CHECKED.lower()}: {line}")
    click.echo(f"verdict: {result.verdict}" + (f" ({result.reason})" if result.reason else ""))
    click.echo(f"{result.virtual_us / 1e6:.1f} s, {result.steps:,} steps, {result.messages:,} messages")
    if trace is not None:
        click.echo(f"trace: {trace}")
