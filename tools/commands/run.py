"""``kemu run``: one scenario, one seed or many, and what came of it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.emulator.scenario.scenario import LARGEST_SEED
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.tools.exits import NONDETERMINISM, worst
from kemu.tools.progress import progress
from kemu.tools.request import Request

if TYPE_CHECKING:
    from kemu.emulator.runner import RunResult


MOST_SEEDS = 1_000_000
"""Of one ``--seeds``: a slip of the keyboard is told, not run."""


@click.command()
@click.argument("scenario")
@click.option("--seed", type=click.IntRange(min=0), help="The seed of the run (default: the scenario's).")
@click.option("--seeds", metavar="A:B", help="Run the seeds A to B, both included.")
@click.option("--profile", metavar="P", help="A release or KIP page (default: the scenario's).")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change the scenario; repeatable.")
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to the plan; repeatable.")
@click.option("--drive", type=click.Choice(["trio", "bare"]), default="trio", show_default=True)
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), help="Write the trace to this file.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--live", is_flag=True, help="Run under the wall clock and print as it happens.")
@click.option(
    "--control", type=click.Path(path_type=Path, dir_okay=False), help="With --live: take orders at this socket."
)
@click.option("--twice", is_flag=True, help="Run again and compare the digests (exit code 3 if they differ).")
def run(
    scenario: str,
    seed: int | None,
    seeds: str | None,
    profile: str | None,
    settings: tuple[str, ...],
    actions: tuple[str, ...],
    drive: str,
    trace: Path | None,
    form: str,
    live: bool,
    control: Path | None,
    twice: bool,
) -> None:
    """Run SCENARIO (a preset's name or a .toml file) and say what happened, what it cost and what was violated.

    A KEY of --set is a full one (groups.g.members, plan.0.for) or a short one that means every group or topic
    (members, session.timeout.ms, rate, partitions), a broker's key, or duration.

    An ACTION of --do is a line of a plan, such as "rolling-restart every=20s down=8s" or "crash host=c2 at=40s";
    see "kemu describe actions" and "kemu describe faults".

    With --live --control PATH, "kemu scale --live PATH" scales the run's Streams instances while it goes on.

    Exit codes: 0 all held, 2 bad input, 3 nondeterminism, 127 the program broke, 128 liveness, 129 correctness.
    """
    request = request_of(scenario, seed, seeds, profile, settings, actions, drive, trace, live, control)
    if control is not None and not live:
        raise click.UsageError("--control goes with --live")
    if live and (drive != "trio" or len(request.seeds) > 1 or twice):
        raise click.UsageError("--live goes with one seed, the trio drive, and without --twice")
    with writable(request.trace), _listening(control):
        results = run_one(request, form) if len(request.seeds) == 1 else run_many(request, form)
        differs = twice and not _same_again(request, results)
    sys.exit(NONDETERMINISM if differs else worst(result.verdict for result in results))


def request_of(
    source: str,
    seed: int | None,
    seeds: str | None,
    profile: str | None,
    settings: tuple[str, ...],
    actions: tuple[str, ...],
    drive: str,
    trace: Path | None,
    live: bool = False,
    control: Path | None = None,
) -> Request:
    """What the options of a command that runs scenarios ask for.

    Raises:
        UsageError: they contradict each other.
        ScenarioError: everything that is wrong with the scenario.
    """
    from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES

    if seed is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds are two ways to say it: give one")
    if profile is not None and profile not in PROFILES:
        raise click.UsageError(f'"{profile}" is no profile{nearest(profile, PROFILES)}')
    if trace is not None and Path(source).is_file() and trace.exists() and trace.samefile(source):
        raise click.UsageError(f"--trace {trace} is the scenario itself: name another file")
    loaded = with_values(load_scenario(source), settings)
    if actions:
        loaded = with_actions(loaded, actions)
    chosen = seed_range(seeds) if seeds is not None else (loaded.seed if seed is None else seed,)
    profile = profile or loaded.profile or DEFAULT_PROFILE
    return Request(source, loaded, tuple(chosen), profile, settings, actions, drive, trace, live, control)


def seed_range(text: str) -> range:
    """Read "1:50" as a range that holds both ends."""
    first, colon, last = text.partition(":")
    if not (colon and first.isdigit() and last.isdigit()) or int(last) < int(first):
        raise click.UsageError(f'--seeds "{text}" must be A:B with A not above B, such as 1:50')
    if int(last) - int(first) >= MOST_SEEDS or int(last) > LARGEST_SEED:
        raise click.UsageError(f'--seeds "{text}" is too much: at most {MOST_SEEDS} seeds, none above {LARGEST_SEED}')
    return range(int(first), int(last) + 1)


@contextmanager
def _listening(control: Path | None) -> Iterator[None]:
    """A socket that cannot be there is the user's mistake, not ours."""
    try:
        yield
    except OSError as error:
        if control is None or error.filename != str(control):
            raise
        raise ScenarioError([Problem((), f"--control: cannot listen: {error.strerror}")], str(control)) from None


@contextmanager
def writable(trace: Path | None) -> Iterator[None]:
    """A trace that cannot be written is the user's mistake, not ours."""
    try:
        yield
    except OSError as error:
        if trace is None or error.filename is None or Path(error.filename).parent != trace.parent:
            raise
        raise ScenarioError([Problem((), f"--trace: cannot be written: {error.strerror}")], str(trace)) from None


def run_one(request: Request, form: str) -> "list[RunResult]":
    """Run it with its first seed and print the report; the result, alone in a list."""
    from kemu.emulator.runner import run as run_scenario
    from kemu.emulator.watching.panel import Panel
    from kemu.tools.report.ownership import Ownership
    from kemu.tools.report.run_report import as_json, as_text
    from kemu.tools.report.story import Story

    seed = request.seeds[0]
    story = Story(click.echo if request.live and form == "text" else None)
    panel = Panel()
    ownership = Ownership(panel)
    result = run_scenario(
        request.scenario,
        seed=seed,
        profile=request.profile,
        drive=request.drive,
        trace=request.trace,
        live=request.live,
        observers=(story, ownership) if form == "text" else (),
        panel=panel,
        control=request.control,
    )
    if form == "json":
        click.echo(as_json(result))
    else:
        ownership.finish()
        command = request.command_for(seed)
        for line in as_text(result, request.scenario, story, ownership, command, request.trace, told=request.live):
            click.echo(line)
    return [result]


def run_many(request: Request, form: str) -> "list[RunResult]":
    """Run it with each of its seeds and print a table; a sample is made again in another process meanwhile.

    Raises:
        SystemExit: runs there were other ones (``tools.determinism``).
    """
    import json

    from kemu.emulator.runner import run as run_scenario
    from kemu.tools.determinism.sweep import watched_sweep
    from kemu.tools.determinism.watch import SweptRun
    from kemu.tools.report.run_report import as_dict, table_of_seeds

    results = []
    with watched_sweep() as watch:
        with progress("runs", len(request.seeds)) as advance:
            for seed in request.seeds:
                result = run_scenario(
                    request.scenario,
                    seed=seed,
                    profile=request.profile,
                    drive=request.drive,
                    trace=request.trace_of(seed),
                )
                results.append(result)
                watch.saw(SweptRun(request.scenario, seed, request.profile, request.command_for(seed)), result.digest)
                advance("", result.verdict != "holds")
        if form == "json":
            click.echo(json.dumps({"runs": [as_dict(result) for result in results]}, indent=2))
        else:
            for line in table_of_seeds(results, request.command_for):
                click.echo(line)
    return results


def _same_again(request: Request, results: "list[RunResult]") -> bool:
    """Run everything once more and compare the digests; what differs is said on stderr."""
    from kemu.emulator.runner import run as run_scenario

    for first in results:
        again = run_scenario(request.scenario, seed=first.seed, profile=request.profile, drive=request.drive)
        if again.digest != first.digest:
            click.echo(f"nondeterminism: seed {first.seed} gave {first.digest}, then {again.digest}", err=True)
            click.echo(f"repeat with: {request.command_for(first.seed)} --twice", err=True)
            return False
    click.echo(f"the same digest again for {len(results)} seed(s)", err=True)
    return True
