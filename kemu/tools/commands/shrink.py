"""``kemu shrink`` reduces a failing run to a small scenario with the same failure, as TOML and as a Python test."""

import json
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from kemu.emulator.exploring.pasteable import as_test, as_toml, identifier
from kemu.emulator.exploring.schedules import SentMessages
from kemu.emulator.exploring.shrinking import (
    DEFAULT_RUNS,
    NothingToShrink,
    ScenarioSize,
    Shrinker,
    ShrinkProgress,
    Shrunk,
    size_of,
)
from kemu.emulator.exploring.trial import Signature, Trials, Tried
from kemu.emulator.replay import check, repeatable
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.units import duration_text
from kemu.emulator.trace.recorder import Recorder
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.frozen import evolve
from kemu.tools.commands.run_options import (
    RUNS,
    SEED,
    RunOptions,
    jobs_option,
    refuse_missing_trace,
    report_option,
    request_of,
)
from kemu.tools.estimate import ask_before
from kemu.tools.files import check_out, write_text
from kemu.tools.interrupt import Interrupt
from kemu.tools.progress import progress
from kemu.tools.report.drawn_run import draw_run
from kemu.tools.report.layout import print_lines
from kemu.tools.report.shrunk_report import shrunk_text

if TYPE_CHECKING:
    from kemu.tools.jobs import PoolJob, Workers

WORTH_S = 0.2
"""CPU time of a run from which the start of worker processes pays, without ``--jobs``."""
SMALLER = 4
"""The cost of the given scenario, divided by the mean cost of the scenarios that shrinking runs."""


@click.command()
@click.argument("source", metavar="TRACE|SCENARIO")
@click.option("--seed", type=SEED, help="With SCENARIO: the failing seed (default: the scenario's).")
@click.option("--profile", metavar="P", help="With SCENARIO: emulate this profile (kemu describe profiles).")
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="First change a key of the scenario; repeatable."
)
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="First add a line to the plan; repeatable.")
@click.option(
    "--keep",
    metavar="CHECKER[:KIND]",
    default="",
    help="Keep this violation (default: the violation that decides the verdict).",
)
@click.option("--runs", type=RUNS, default=DEFAULT_RUNS, show_default=True, help="Maximum number of runs.")
@click.option(
    "--tries",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Number of seeds to run for each smaller scenario.",
)
@jobs_option
@click.option("--out", metavar="NAME", help="Write NAME.toml and test_NAME.py (default: SCENARIO-shrunk).")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@report_option("the pictures of the smallest run")
def shrink(
    source: str,
    seed: int | None,
    profile: str | None,
    settings: tuple[str, ...],
    actions: tuple[str, ...],
    keep: str,
    runs: int,
    tries: int,
    jobs: int | None,
    out: str | None,
    form: str,
    report: Path | None,
) -> None:
    """Reduce a failing run: TRACE is a file of "kemu run --trace", SCENARIO a preset or a .toml file.

    The command removes lines of the plan, groups, members, topics, partitions, records, brokers, settings and time,
    and rounds numbers, as long as the violation stays. A violation stays if its checker, kind and group (or topic, or
    broker) stay. The command writes two files: a scenario (kemu run NAME.toml shows the violation), and a test that
    fails until the bug is fixed.

    The same input gives the same result. Ctrl-C ends the search, and the command writes the smallest scenario so far.
    """
    scenario, seed, profile = _source_of(source, seed, profile, settings, actions)
    path = Path(out if out is not None else f"{identifier(scenario.name).replace('_', '-')}-shrunk")
    if out is not None and (not path.name or path.is_dir()):
        raise click.UsageError(
            f'--out "{out}" is a folder; it needs the name of the new scenario, as in {path / "small"}'
        )
    toml, test = path.with_name(f"{path.name}.toml"), path.with_name(f"test_{identifier(path.name)}.py")
    for each in (toml, test, *((report,) if report is not None else ())):
        check_out(each, [source])
    ask_before([(scenario, 1 + runs * tries // SMALLER)], jobs, upper=True)
    interrupt = Interrupt()
    try:
        shrunk = _shrink(scenario, seed, profile, keep, runs, tries, jobs, interrupt)
    except NothingToShrink as error:
        raise ScenarioError([Problem((), str(error))], source) from None
    write_text(toml, as_toml(shrunk))
    write_text(test, as_test(shrunk))
    if report is not None:
        draw_run(shrunk.scenario, report, f"kemu run {shlex.quote(str(toml))}")
    if form == "json":
        click.echo(json.dumps({**_as_dict(shrunk, toml, test), **interrupt.as_dict(shrunk.runs, runs)}, indent=2))
        interrupt.exit(shrunk.runs, runs, "runs", form)
        return
    written = [f"written: {toml}", f"written: {test}", *([f"report: {report}"] if report is not None else [])]
    print_lines([*shrunk_text(shrunk), "", *written, f"repeat with: kemu run {toml}"])
    interrupt.exit(shrunk.runs, runs, "runs", form)


def _source_of(
    source: str, seed: int | None, profile: str | None, settings: tuple[str, ...], actions: tuple[str, ...]
) -> tuple[Scenario, int, str]:
    """The scenario, seed and profile of a trace, or of the options."""
    refuse_missing_trace(source)
    if source.endswith(".toml") or not Path(source).is_file():
        request = request_of(source, RunOptions(seed=seed, profile=profile, settings=settings, actions=actions))
        return request.scenario, request.seeds[0], request.profile
    if seed is not None or profile is not None or settings or actions:
        raise click.UsageError("a trace has its own seed, profile, settings and plan: give none, or a scenario")
    trace = read_trace(source)
    check(trace)
    scenario = repeatable(trace)
    return scenario, trace.header.seed, trace.header.profile


def _shrink(
    scenario: Scenario,
    seed: int,
    profile: str,
    keep: str,
    runs: int,
    tries: int,
    jobs: int | None,
    interrupt: Interrupt,
) -> Shrunk:
    """Shrink a failing run; after an interrupt, return the smallest scenario so far."""
    from kemu.tools.jobs import Workers, jobs_for

    with progress("runs", runs) as advance, Workers(jobs_for(jobs, runs)) as workers:
        reporter = _Reporter(size_of(scenario), advance)
        shrinker = Shrinker(
            evolve(scenario, profile=profile),
            seed,
            Trials(profile=profile) if workers.jobs == 1 else _TrialsAhead(workers, profile, at_once=jobs is not None),
            keep=keep,
            runs=runs,
            tries=tries,
            tell=reporter.tell,
        )
        print_lines([f"keeping {shrinker.signature.words()}"], err=True)
        with interrupt:
            return shrinker.shrink()
        return shrinker.shrunk()


def tried_in_worker(profile: str, scenario: Scenario, seed: int, until: Signature) -> Tried:
    """Run a scenario once. Worker processes call this function."""
    return Trials(profile=profile).run(scenario, seed, until)


class _TrialsAhead(Trials):
    """Makes runs in worker processes, and starts the probable next runs at the same time.

    A run depends only on scenario, seed and release, so the number of workers does not change the result.

    Args:
        workers: the processes.
        profile: the release.
        at_once: whether to use the processes if the failing run is short, too.
    """

    def __init__(self, workers: "Workers", profile: str, *, at_once: bool) -> None:
        super().__init__(profile=profile)
        self.ahead = workers.jobs if at_once else 0
        self._workers = workers
        self._release = profile
        self._jobs: dict[tuple[str, int], PoolJob[Tried]] = {}

    def expect(self, scenarios: Sequence[Scenario], seed: int, until: Signature) -> None:
        """Start runs, and drop earlier announcements that are not in this list."""
        wanted = {_key(scenario, seed): scenario for scenario in scenarios}
        for key, job in [*self._jobs.items()]:
            if key not in wanted and (job.done or self._workers.drop(job)):
                del self._jobs[key]
        for key, scenario in wanted.items():
            if key not in self._jobs:
                name = f"a run with seed {seed}"
                arguments = self._release, scenario, seed, until
                self._jobs[key] = self._workers.start(name, tried_in_worker, *arguments)

    def run(
        self,
        scenario: Scenario,
        seed: int,
        until: Signature | None = None,
        *,
        recorder: Recorder | None = None,
        sent: SentMessages | None = None,
    ) -> Tried:
        """Run once; see ``Trials.run``."""
        if until is None or recorder is not None or sent is not None or not self.ahead:
            began_s = time.process_time()
            tried = super().run(scenario, seed, until, recorder=recorder, sent=sent)
            if time.process_time() - began_s > WORTH_S:
                self.ahead = self._workers.jobs
            return tried
        self.runs += 1
        key = _key(scenario, seed)
        if key not in self._jobs:
            self.expect((scenario,), seed, until)
        job = self._jobs.pop(key)
        while not job.done:
            self._workers.wait()
        return job.take()


def _key(scenario: Scenario, seed: int) -> tuple[str, int]:
    return json.dumps(scenario.to_dict()), seed


class _Reporter:
    """Prints the progress of shrinking: a bar on a terminal, and a line for each smaller scenario."""

    def __init__(self, size: ScenarioSize, advance: Callable[[str, bool], None]) -> None:
        self._size = size
        self._advance = advance

    def tell(self, now: ShrinkProgress) -> None:
        """Show the state after one more attempt."""
        size = now.size
        self._advance(f"{now.step}: {_in_short(size)}", False)
        if size != self._size:
            self._size = size
            click.echo(f"  run {now.runs:>4}  {_in_short(size)}", err=True)


def _in_short(size: ScenarioSize) -> str:
    return (
        f"{size.plan} lines, {size.members} members, {size.partitions} partitions, {size.brokers} brokers, "
        f"{duration_text(size.duration_us)}, {size.settings} settings"
    )


def _as_dict(shrunk: Shrunk, toml: Path, test: Path) -> dict[str, object]:
    return {
        "scenario": shrunk.scenario.to_dict(),
        "seed": shrunk.scenario.seed,
        "violation": attrs.asdict(shrunk.violation),
        "before": attrs.asdict(shrunk.before),
        "after": attrs.asdict(shrunk.after),
        "runs": shrunk.runs,
        "complete": shrunk.complete,
        "toml": str(toml),
        "test": str(test),
    }
