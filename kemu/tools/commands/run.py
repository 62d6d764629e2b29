"""``kemu run`` runs a scenario with one or more seeds, and reports the results."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kemu.tools.commands.run_options import RunOptions, jobs_option, request_of, run_options
from kemu.tools.estimate import ask_before
from kemu.tools.exits import NONDETERMINISM, worst
from kemu.tools.files import check_out
from kemu.tools.interrupt import Interrupt
from kemu.tools.progress import is_quiet, progress, virtual_progress
from kemu.tools.request import Request

if TYPE_CHECKING:
    from kemu.emulator.runner import RunResult
    from kemu.emulator.scenario.scenario import Scenario

    Accept = Callable[[list[RunResult], Sequence[str]], None]
    """Receives results and story before a command prints the results; raises an exception to refuse the results."""


@click.command()
@click.argument("scenario")
@run_options
@click.option("--live", is_flag=True, help="Run in real time, and print events during the run.")
@click.option(
    "--control",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --live: accept orders on this Unix socket, such as those of kemu scale.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the pictures of the run to this HTML file (one seed). With --live, the page grows with the run.",
)
@click.option("--twice", is_flag=True, help="Run twice and compare the digests (exit code 3 if they differ).")
@jobs_option
def run(
    scenario: str,
    options: RunOptions,
    live: bool,
    control: Path | None,
    report: Path | None,
    twice: bool,
    jobs: int | None,
) -> None:
    """Run SCENARIO (a preset's name or a .toml file) and report the verdict, the cost and the events.

    A KEY of --set is a full key (groups.g.members, plan.0.for) or a short key. A short key is a key of every group or
    topic (members, session.timeout.ms, rate, partitions), a key of brokers, or duration.

    An ACTION of --do is a line of a plan, such as "rolling-restart every=20s down=8s" or "crash host=c2 at=40s".
    "kemu describe actions" and "kemu describe faults" list all actions.

    With --live --control PATH, "kemu scale --live PATH" scales the Streams instances during the run.
    """
    request = request_of(scenario, options, live, control, report)
    if control is not None and not live:
        raise click.UsageError("--control needs --live")
    if live and (options.loop != "trio" or len(request.seeds) > 1 or twice):
        raise click.UsageError("--live needs one seed and the trio loop, and excludes --twice")
    if report is not None and len(request.seeds) > 1:
        raise click.UsageError("--report needs one seed")
    if request.report is not None:
        check_out(request.report)
    if not live:
        ask_before([(request.scenario, len(request.seeds) * (2 if twice else 1))], jobs)
    results = run_all(request, options.form, options.verbose, jobs=jobs)
    differs = twice and not _same_twice(request, results, jobs)
    sys.exit(NONDETERMINISM if differs else worst(result.verdict for result in results))


def run_all(
    request: Request, form: str, verbose: bool = False, accept: "Accept | None" = None, jobs: int | None = 1
) -> "list[RunResult]":
    """Run a scenario with each of its seeds and print the results.

    The function calls ``accept`` with the results, and the story of a single run, before it prints the results.
    """
    if len(request.seeds) == 1:
        return run_one(request, form, verbose, accept)
    return run_many(request, form, accept, jobs)


def run_one(request: Request, form: str, verbose: bool = False, accept: "Accept | None" = None) -> "list[RunResult]":
    """Run a scenario with its first seed and print the report; return a list of this result."""
    from kemu.emulator.runner import run as run_scenario
    from kemu.emulator.watching.panel import Panel
    from kemu.tools.report.collecting import Collector
    from kemu.tools.report.layout import print_lines, terminal_width
    from kemu.tools.report.run_report import as_json, as_text
    from kemu.tools.report.story import Story

    seed, scenario, panel = request.seeds[0], request.scenario, Panel()
    draws = form == "text" and not request.live and is_terminal() and not is_quiet()
    writes_page = request.report is not None and not request.live
    collector = Collector(
        pictures=draws or writes_page,
        messages="all" if writes_page else "none",
        emit=(lambda line: print_lines([line])) if request.live and form == "text" else None,
    )
    with (
        virtual_progress(scenario.runs_us, lambda: panel.now.at_us if panel.now else 0, quiet=request.live),
        _kept_trace(request) as trace,
        _live_page(request, trace),
    ):
        result = run_scenario(
            scenario,
            seed=seed,
            profile=request.profile,
            loop=request.loop,
            trace=trace,
            live=request.live,
            panel=panel,
            readers=collector.readers,
            recorder=collector.recorder,
            control=request.control,
            story=None if request.control is None else Story.told,
        )
        if accept is not None:
            accept([result], [line.text() for line in collector.story.lines])
        report = collector.finish(result, scenario, request.command_for(seed), request.trace)
        if writes_page and request.report is not None and trace is not None:
            from kemu.emulator.trace.traces import read_trace
            from kemu.tools.report.page import write_page

            write_page(report, request.report, read_trace(trace))
    if form == "json":
        click.echo(as_json(report))
    else:
        print_lines(as_text(report, told=request.live, verbose=verbose))
        if draws:
            from kemu.tools.report.strip import BLOCKS, strip

            click.echo("\n".join(("", *strip(report, terminal_width(), plain=not can_print(BLOCKS)))))
        if request.report is not None:
            click.echo(f"  report: {request.report}")
    return [result]


def is_terminal() -> bool:
    """Return whether the standard output is a terminal."""
    return sys.stdout.isatty()


def can_print(text: str) -> bool:
    """Return whether the standard output has the characters of a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _kept_trace(request: Request) -> Iterator[Path | None]:
    """The file for the trace of a single run. A report without ``--trace`` reads the trace of a file of its own."""
    if request.trace is not None or request.report is None:
        yield request.trace
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="kemu-report-") as place:
        yield Path(place) / "run.kemu"


@contextmanager
def _live_page(request: Request, trace: Path | None) -> Iterator[None]:
    """Let another process write the page of a live run while the run continues."""
    if not request.live or request.report is None or trace is None:
        yield
        return
    from kemu.tools.report.following import followed

    with followed(trace, request.report, request.command_for(request.seeds[0])):
        yield


def run_seed(scenario: "Scenario", seed: int, profile: str, loop: str, trace: Path | None = None) -> "RunResult":
    """Run a scenario with one seed. Worker processes call this function."""
    from kemu.emulator.runner import run as run_scenario

    return run_scenario(scenario, seed=seed, profile=profile, loop=loop, trace=trace)


def name_of(scenario: "Scenario", seed: int, *rest: object) -> str:
    """The name of a call of ``run_seed``, for errors."""
    return f"the run of {scenario.name} with seed {seed}"


def run_many(request: Request, form: str, accept: "Accept | None" = None, jobs: int | None = 1) -> "list[RunResult]":
    """Run a scenario with each of its seeds, and print a table. Another process repeats a sample of the runs.

    After an interrupt, print the table of the first seeds that are finished.

    Raises:
        SystemExit: a repeated run had another digest (``tools.determinism``), or an interrupt.
    """
    import json

    from kemu.tools.determinism.sweep import watched_sweep
    from kemu.tools.determinism.watch import SweptRun
    from kemu.tools.jobs import in_order
    from kemu.tools.report.layout import print_lines
    from kemu.tools.report.run_report import as_dict, table_of_seeds

    seeds = request.seeds
    tasks = [(request.scenario, seed, request.profile, request.loop, request.trace_of(seed)) for seed in seeds]
    results: list[RunResult] = []
    interrupt = Interrupt()
    with watched_sweep() as watch:
        with (
            progress("runs", len(seeds)) as advance,
            interrupt,
            in_order(jobs, run_seed, tasks, name_of, lambda result: advance("", result.verdict != "holds")) as made,
        ):
            for result in made:
                with interrupt.deferred():
                    results.append(result)
                    command = request.command_for(result.seed)
                    watch.saw(SweptRun(request.scenario, result.seed, request.profile, command), result.digest)
        if interrupt.happened and not results:
            interrupt.exit_with_seeds(0, seeds, form)
        if accept is not None:
            accept(results, [])
        if form == "json":
            rows = [as_dict(result) for result in results]
            click.echo(json.dumps({"runs": rows, **interrupt.as_dict(len(rows), len(seeds))}, indent=2))
        else:
            print_lines(table_of_seeds(results, request.command_for))
        interrupt.exit_with_seeds(len(results), seeds, form)
    return results


def _same_twice(request: Request, results: "list[RunResult]", jobs: int | None) -> bool:
    """Run all seeds a second time, compare the digests, and report the first difference on standard error."""
    from kemu.tools.jobs import in_order

    tasks = [(request.scenario, result.seed, request.profile, request.loop) for result in results]
    interrupt, compared = Interrupt(), 0
    with interrupt, in_order(jobs, run_seed, tasks, name_of) as made:
        for first, second in zip(results, made, strict=True):
            if second.digest != first.digest:
                click.echo(f"nondeterminism: seed {first.seed} gave {first.digest}, then {second.digest}", err=True)
                click.echo(f"repeat with: {request.command_for(first.seed)} --twice", err=True)
                return False
            compared += 1
    interrupt.exit(compared, len(results), "second runs")
    click.echo(f"the same digest twice for {len(results)} seed(s)", err=True)
    return True
