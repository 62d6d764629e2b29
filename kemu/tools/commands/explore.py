"""``kemu explore`` runs a scenario in many orders of its messages, until a checker finds a violation."""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kemu.emulator.exploring.explorer import (
    DEFAULT_EXPLORATION,
    Explored,
    ExploredRun,
    Explorer,
    Scheduled,
    TriedSchedule,
    try_schedule,
)
from kemu.emulator.exploring.pasteable import violation_line
from kemu.emulator.exploring.schedules import STRATEGIES, StrategyOptions, as_do
from kemu.emulator.exploring.trial import BROKEN, Trials
from kemu.emulator.plan.entries import Plan, plan_to_dicts
from kemu.emulator.scenario.plan_reading import message_names
from kemu.emulator.text.tables import nearest
from kemu.emulator.text.toml_text import toml_text
from kemu.tools.commands.durations import POSITIVE_DURATION
from kemu.tools.commands.run_options import RUNS, SEED, RunOptions, jobs_option, request_of, seed_range
from kemu.tools.determinism.sweep import watched_sweep
from kemu.tools.determinism.watch import SweptRun
from kemu.tools.estimate import ask_before
from kemu.tools.exits import OF_VERDICT
from kemu.tools.files import check_out, write_text
from kemu.tools.interrupt import Interrupt
from kemu.tools.progress import progress
from kemu.tools.report.layout import print_lines
from kemu.tools.request import Request

if TYPE_CHECKING:
    from kemu.tools.jobs import PoolJob, Workers

_PLAIN = StrategyOptions()
KEPT_AHEAD = 4
"""Maximum number of unused results in memory, for each worker process."""


@click.command()
@click.argument("scenario", metavar="SCENARIO")
@click.option(
    "--strategy",
    type=click.Choice(list(STRATEGIES)),
    default="delays",
    show_default=True,
    help="The way to choose orders.",
)
@click.option("--seed", type=SEED, help="Change the orders of this seed's run (default: the scenario's seed).")
@click.option("--seeds", metavar="A:B", help="Change the orders of these seeds' runs, in turns.")
@click.option("--runs", type=RUNS, default=DEFAULT_EXPLORATION, show_default=True, help="Maximum number of runs.")
@click.option(
    "--bound",
    type=click.IntRange(1, 10),
    default=_PLAIN.bound,
    show_default=True,
    help="delays: the maximum number of delayed messages in a run.",
)
@click.option(
    "--by",
    "spans",
    type=POSITIVE_DURATION,
    multiple=True,
    metavar="T",
    help="delays: the delay of a message; repeatable (default: 1s, 10s).",
)
@click.option(
    "--message", "messages", metavar="API", multiple=True, help="delays: delay only messages of this API; repeatable."
)
@click.option(
    "--depth",
    type=click.IntRange(1, 20),
    default=_PLAIN.depth,
    show_default=True,
    help="pct: the number of ordered events that the bug needs.",
)
@click.option(
    "--within",
    type=POSITIVE_DURATION,
    metavar="T",
    default="1s",
    show_default=True,
    help="pct: the maximum delay of a message.",
)
@click.option(
    "--grain",
    type=POSITIVE_DURATION,
    metavar="T",
    default="10ms",
    show_default=True,
    help="ties: round arrival times to multiples of this time.",
)
@click.option("--profile", metavar="P", help="Emulate this profile (kemu describe profiles; default: the scenario's).")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a key of the scenario; repeatable.")
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to the plan; repeatable.")
@click.option("--keep", metavar="CHECKER[:KIND]", default="", help="Look for this violation (default: any).")
@jobs_option
@click.option("--draws", "tell_draws", is_flag=True, help="Print every schedule, not only those with new coverage.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the violating run as a scenario (TOML)."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explore(
    scenario: str,
    strategy: str,
    seed: int | None,
    seeds: str | None,
    runs: int,
    bound: int,
    spans: tuple[int, ...],
    messages: tuple[str, ...],
    depth: int,
    within: int,
    grain: int,
    profile: str | None,
    settings: tuple[str, ...],
    actions: tuple[str, ...],
    keep: str,
    jobs: int | None,
    tell_draws: bool,
    out: Path | None,
    form: str,
) -> None:
    """Run SCENARIO under many orders of its messages, until a checker finds a violation.

    A seed decides the whole run, including the order of messages. A schedule changes only the order of messages, by
    lines at the end of the plan. For a violation, the command prints a "kemu run" command that repeats the run and a
    "kemu shrink" command that reduces the run.

    \b
    * ties: messages that arrive within one --grain arrive at one instant, in
      a random order.
    * pct: links have priorities, and a link with a low priority delays
      messages, at most by --within. The priorities change --depth minus 1
      times in a run.
    * delays: delay at most --bound messages by --by, rare messages first.
      Schedules with new coverage are varied first.
    * plain: run the unchanged orders of the seeds, for comparison.

    The messages of one connection keep their order, as with TCP. The command lists the runs with new coverage: a new
    combination of message, role, state and outcome, a new transition, or a new probe ("kemu coverage").
    """  # noqa: D301 (click's own mark)
    names = message_names()
    for name in messages:
        if name not in names:
            raise click.UsageError(f'--message "{name}" is no message{nearest(name, names)}')
    if out is not None:
        check_out(out, [scenario])
    options = RunOptions(seed=seed, seeds=seeds, profile=profile, settings=settings, actions=actions)
    request = request_of(scenario, options)
    _check_keep(keep)
    chosen = seed_range(seeds) if seeds is not None else request.seeds
    spans_us = spans or _PLAIN.spans_us
    given = StrategyOptions(
        grain_us=grain, within_us=within, depth=depth, bound=bound, spans_us=spans_us, messages=messages
    )
    printed = "none" if form == "json" else "all" if tell_draws else "news"
    interrupt = Interrupt()
    explored, explored_runs = _explore(request, strategy, chosen, given, runs, keep, printed, jobs, interrupt)
    if out is not None and explored.found is not None:
        write_text(out, toml_text(explored.found.scenario.to_dict()))
    if form == "json":
        partial = interrupt.as_dict(explored.runs, runs)
        click.echo(json.dumps({**_as_dict(request, strategy, explored, explored_runs), **partial}, indent=2))
    else:
        print_lines(_as_text(request, explored, out))
    interrupt.exit(explored.runs, runs, "runs", form)
    sys.exit(_exit_code(explored))


def _explore(
    request: Request,
    strategy: str,
    seeds: Sequence[int],
    options: StrategyOptions,
    runs: int,
    keep: str,
    printed: str,
    jobs: int | None,
    interrupt: Interrupt,
) -> tuple[Explored, list[ExploredRun]]:
    """Explore, and print each run as soon as the run ends.

    ``printed`` selects the printed runs: "all", "news" (runs with new coverage) or "none". An interrupt ends the
    exploration, and the function returns the result of the runs so far.
    """
    from kemu.tools.jobs import Workers, jobs_for

    ask_before([(request.scenario, runs)], jobs, upper=True)
    explored_runs: list[ExploredRun] = []
    with watched_sweep() as watch, progress("runs", runs) as advance:

        def tell(ran: ExploredRun) -> None:
            with interrupt.deferred():
                explored_runs.append(ran)
                command = command_of(request, ran)
                watch.saw(SweptRun(ran.scenario, ran.seed, request.profile, command), ran.digest)
                advance(strategy, ran.found is not None)
                if printed == "all" or (printed == "news" and (ran.new or ran.found)):
                    print_lines([_line(ran)])

        trials = Trials(profile=request.profile)
        with interrupt, Workers(jobs_for(jobs, runs)) as workers:
            explorer = Explorer(
                request.scenario,
                strategy,
                seeds,
                trials,
                options=options,
                keep=keep,
                tell=tell,
                schedule_runs=None if workers.jobs == 1 else _RunsAhead(workers, request.profile),
            )
            return explorer.explore(runs), explored_runs
        watch.abandon()
        return explorer.explored_so_far(), explored_runs


def try_in_worker(profile: str, one: Scheduled) -> TriedSchedule:
    """Run one schedule. Worker processes call this function."""
    return try_schedule(Trials(profile=profile), one)


class _RunsAhead:
    """Makes runs in worker processes, and starts the probable next runs at the same time.

    Only seed and schedule decide a run, so a result stays usable. The object keeps unused results, because most
    strategies soon choose the same schedule.
    """

    def __init__(self, workers: "Workers", profile: str) -> None:
        self._workers = workers
        self._profile = profile
        self._jobs: dict[tuple[int, Plan], PoolJob[TriedSchedule]] = {}

    def run(self, one: Scheduled, ahead: Callable[[int], list[Scheduled]]) -> TriedSchedule:
        """Return the result of a run; other processes start the runs that ``ahead`` returns."""
        wanted = {(each.seed, each.schedule): each for each in (one, *ahead(self._workers.jobs))}
        for key, job in [*self._jobs.items()]:
            if key not in wanted and self._workers.drop(job):
                del self._jobs[key]
        for key, each in wanted.items():
            if key not in self._jobs:
                name = f"a run with seed {each.seed}"
                self._jobs[key] = self._workers.start(name, try_in_worker, self._profile, each)
        job = self._jobs.pop((one.seed, one.schedule))
        while not job.done:
            self._workers.wait()
        self._forget()
        return job.take()

    def _forget(self) -> None:
        """Remove all but the newest unused results."""
        done = [key for key, job in self._jobs.items() if job.done]
        for key in done[: -KEPT_AHEAD * self._workers.jobs]:
            del self._jobs[key]


def command_of(request: Request, ran: ExploredRun, command: str = "run") -> str:
    """The command line that repeats a run, or that reduces the run (``command``: "shrink")."""
    words = shlex.split(request.command_for(ran.seed))
    words[1] = command
    for entry in ran.schedule:
        words += ["--do", as_do(entry)]
    return shlex.join(words)


def _check_keep(keep: str) -> None:
    from kemu.emulator.checkers import CHECKERS
    from kemu.emulator.findings import kinds_by_checker

    checker, _, kind = keep.partition(":")
    if keep and checker not in (*CHECKERS, BROKEN):
        raise click.UsageError(f'--keep "{keep}": "{checker}" is no checker{nearest(checker, CHECKERS)}')
    if kind and kind not in kinds_by_checker().get(checker, ()):
        known = kinds_by_checker().get(checker, ())
        raise click.UsageError(f'--keep "{keep}": "{kind}" is no kind of {checker}{nearest(kind, known)}')


def _line(ran: ExploredRun) -> str:
    schedule = "; ".join(entry.action.words() for entry in ran.schedule) or "its own order"
    new = f"+{ran.new}" if ran.new else ""
    return f"  run {ran.number:>4}  seed {ran.seed}  {new:>5}  {schedule}"


def _as_text(request: Request, explored: Explored, out: Path | None) -> list[str]:
    plain = f"{explored.by_plain} of them in the seeds' own order"
    lines = [
        f"runs: {explored.runs}; coverage: {explored.reached} (messages by role, state, outcome; transitions; probes), "
        f"{plain}; {explored.kept} schedules had new coverage"
    ]
    found = explored.found
    if found is None:
        lines.append("no violation" + (": every schedule ran" if explored.exhausted else ""))
        return lines
    assert found.violation is not None
    which = f" in run {found.number}: {violation_line(found.violation)}"
    lines.append(click.style("found", fg="red", bold=True) + which)
    lines += [f"  {entry.action.words()}" for entry in found.schedule] or ["  in the seed's own order"]
    if out is not None:
        lines.append(f"written: {out}")
    lines.append(f"repeat with: {command_of(request, found)}")
    lines.append(f"shrink the run with: {command_of(request, found, 'shrink')}")
    return lines


def _as_dict(request: Request, strategy: str, explored: Explored, explored_runs: list[ExploredRun]) -> dict[str, Any]:
    found = explored.found
    return {
        "scenario": request.source,
        "strategy": strategy,
        "runs": explored.runs,
        "exhausted": explored.exhausted,
        "reached": explored.reached,
        "by_plain": explored.by_plain,
        "schedules": [
            {
                "run": ran.number,
                "seed": ran.seed,
                "schedule": plan_to_dicts(ran.schedule),
                "new": ran.new,
                "digest": ran.digest,
            }
            for ran in explored_runs
        ],
        "found": None
        if found is None or found.violation is None
        else {
            "run": found.number,
            "seed": found.seed,
            "schedule": plan_to_dicts(found.schedule),
            "checker": found.violation.checker,
            "kind": found.violation.kind,
            "text": found.violation.text,
            "repeat": command_of(request, found),
            "shrink": command_of(request, found, "shrink"),
        },
    }


def _exit_code(explored: Explored) -> int:
    found = explored.found
    if found is None or found.violation is None:
        return 0
    if found.violation.checker == BROKEN:
        return OF_VERDICT["broken"]
    return OF_VERDICT["liveness" if found.violation.liveness else "violated"]
