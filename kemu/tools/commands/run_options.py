"""The command-line options of commands that run scenarios, and the request for runs that the options make."""

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from kemu.emulator.chance import LARGEST_SEED
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.protocol.frozen import defaults_of, frozen
from kemu.tools.request import Request

MOST_SEEDS = 1_000_000
"""Maximum number of seeds of one ``--seeds``, which catches typing errors."""
MOST_FAULTS = 10_000
"""Maximum number of random faults in one run."""
MOST_RUNS = 1_000_000
"""Maximum number of runs of one ``--runs``."""
MOST_STEPS = 2**63 - 1
"""The largest number of a step in a trace."""
SEED = click.IntRange(0, LARGEST_SEED)
"""The type of ``--seed``."""
RUNS = click.IntRange(1, MOST_RUNS)
"""The type of ``--runs``."""
_OPTIONS = (
    click.option("--seed", type=SEED, help="The seed of the run (default: the scenario's)."),
    click.option("--seeds", metavar="A:B", help="Run the seeds A to B, both included."),
    click.option(
        "--profile", metavar="P", help="Emulate this profile (kemu describe profiles; default: the scenario's)."
    ),
    click.option(
        "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a key of the scenario; repeatable."
    ),
    click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to the plan; repeatable."),
    click.option("--loop", type=click.Choice(["trio", "bare"]), default="trio", show_default=True),
    click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), help="Write the trace to this file."),
    click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True),
    click.option("--verbose", is_flag=True, help="Print every event, with Kafka's reasons in full."),
)


@frozen(kw_only=True)
class RunOptions:
    """The values of the options of a run."""

    seed: int | None = None
    seeds: str | None = None
    profile: str | None = None
    settings: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    loop: str = "trio"
    trace: Path | None = None
    form: str = "text"
    verbose: bool = False


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the options of a run, which the command receives as one argument ``options``."""

    @wraps(command)
    def with_options(**given: Any) -> None:
        options = RunOptions(**{name: given.pop(name) for name in defaults_of(RunOptions)})
        command(options=options, **given)

    decorated: Callable[..., None] = with_options
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def jobs_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the option ``--jobs``; the value None means that the user gave no number."""
    return click.option(
        "--jobs",
        type=click.IntRange(1, 1024),
        metavar="N",
        envvar="KEMU_JOBS",
        help="Run on N processes; the results are the same (default: $KEMU_JOBS, or all cores).",
    )(command)


def report_option(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the option ``--report`` to a command. ``about``: the content of the page."""
    return click.option(
        "--report", type=click.Path(path_type=Path, dir_okay=False), help=f"Write {about} to this HTML file."
    )


def request_of(
    source: str, options: RunOptions, live: bool = False, control: Path | None = None, report: Path | None = None
) -> Request:
    """The request for runs that the options of a command describe.

    Raises:
        UsageError: the options contradict each other.
        ScenarioError: lists all errors of the scenario.
    """
    from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
    from kemu.protocol.profiles import DEFAULT_PROFILE

    seed, seeds, profile, trace = options.seed, options.seeds, options.profile, options.trace
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds exclude each other: give one")
    refuse_unknown_profile(profile)
    for option, file in (("--trace", trace), ("--report", report)):
        if file is not None and Path(source).is_file() and file.exists() and file.samefile(source):
            raise click.UsageError(f"{option} {file} is the scenario itself: name another file")
    if trace is not None and trace == report:
        raise click.UsageError(f"--trace and --report are the same file, {trace}: name another file")
    left_out: list[str] = []
    loaded = with_values(load_scenario(source), options.settings, left_out=left_out)
    for sentence in left_out:
        click.echo(f"note: {sentence}", err=True)
    if options.actions:
        loaded = with_actions(loaded, options.actions)
    chosen = seed_range(seeds) if seeds is not None else (loaded.seed if seed is None else seed,)
    profile = profile or loaded.profile or DEFAULT_PROFILE
    return Request(
        source=source,
        scenario=loaded,
        seeds=tuple(chosen),
        profile=profile,
        settings=options.settings,
        actions=options.actions,
        loop=options.loop,
        trace=trace,
        live=live,
        control=control,
        report=report,
    )


def refuse_unknown_profile(profile: str | None, option: str = "--profile") -> None:
    """Refuse a value of an option that is no profile."""
    from kemu.protocol.profiles import PROFILES

    if profile is not None and profile not in PROFILES:
        raise click.UsageError(f'{option}: "{profile}" is no profile{nearest(profile, PROFILES)}')


def refuse_missing_trace(source: str) -> None:
    """Refuse a source that looks like the name of a trace file, if no such file exists.

    Raises:
        ScenarioError: the file does not exist.
    """
    path = Path(source)
    if path.suffix not in ("", ".toml") and not path.exists():
        raise ScenarioError([Problem((), "no such file")], source)


def seed_range(text: str) -> range:
    """Read "1:50" as a range that includes both ends."""
    first, _, last = text.partition(":")
    if not re.fullmatch("[0-9]{1,30}:[0-9]{1,30}", text) or int(last) < int(first):
        raise click.UsageError(f'--seeds "{text}" must be A:B with A not above B, such as 1:50')
    if int(last) - int(first) >= MOST_SEEDS or int(last) > LARGEST_SEED:
        raise click.UsageError(f'--seeds "{text}" is too large: at most {MOST_SEEDS} seeds, none above {LARGEST_SEED}')
    return range(int(first), int(last) + 1)
