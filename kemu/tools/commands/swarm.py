"""``kemu swarm`` draws a cluster, a load and faults from each seed, makes the run, and checks the rules."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kemu.emulator.exploring.swarm import SwarmCase, swarm_case
from kemu.emulator.findings import MEMBER_FAILED
from kemu.emulator.past_bugs.registry import PAST_BUGS
from kemu.emulator.scenario.expectations import split, stood_still
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.text.toml_text import toml_text
from kemu.protocol.frozen import evolve, frozen
from kemu.tools.commands.run_options import SEED, jobs_option, refuse_unknown_profile, seed_range
from kemu.tools.determinism.sweep import watched_sweep
from kemu.tools.determinism.watch import SweptRun
from kemu.tools.estimate import ask_before
from kemu.tools.exits import worst
from kemu.tools.files import check_out, write_text
from kemu.tools.interrupt import Interrupt, code_words
from kemu.tools.progress import progress

if TYPE_CHECKING:
    from kemu.emulator.runner import Readers, RunResult
    from kemu.emulator.watching.panel import Panel
    from kemu.tools.report.history_report import RunHistory

DRAWN_FOR_ESTIMATE = 5
"""Number of seeds whose scenarios give the estimated cost of all seeds."""


@click.command()
@click.argument("scenario", required=False)
@click.option("--seed", type=SEED, help="Run one seed, and print its draws and the whole report.")
@click.option("--seeds", metavar="A:B", default="1:10", show_default=True, help="Run the seeds A to B, both included.")
@click.option("--profile", metavar="P", help="Emulate this profile (kemu describe profiles; default: the scenario's).")
@jobs_option
@click.option("--replicated/--not-replicated", default=None, help="Whether drawn brokers replicate (default: some do).")
@click.option("--operated", is_flag=True, help="Also draw actions of operators, and rare settings.")
@click.option("--draws", "tell_draws", is_flag=True, help="Print the draws of every seed.")
@click.option("--history", is_flag=True, help="Also search each run's history for anomalies, as kemu history does.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="With --seed: write the scenario (TOML).")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--verbose", is_flag=True, help="With --seed: print every event, with Kafka's reasons in full.")
def swarm(
    scenario: str | None,
    seed: int | None,
    seeds: str,
    profile: str | None,
    jobs: int | None,
    replicated: bool | None,
    operated: bool,
    tell_draws: bool,
    history: bool,
    out: Path | None,
    form: str,
    verbose: bool,
) -> None:
    """Run a random cluster, load and plan of faults for each seed; with SCENARIO, draw only the faults.

    Each seed disables about half of the families of faults, so that one family does not hide the effects of another.
    Checkers test safety during the faults. All faults then end, and the cluster must recover in time. In about half of
    the seeds, some brokers and members stay faulty, and only the others must recover. The command prints the draws of
    a failed seed. "kemu swarm --seed N --out n.toml" writes the scenario, and "kemu shrink n.toml" reduces the
    scenario. A seed that fails only because of past bugs of its release ("kemu bugs") has the verdict holds, and the
    command names the bugs.

    With --operated, clusters also have rare settings and a Streams group. Operators shut down brokers, add and remove
    members, and move partitions. Applications seek and subscribe, admin clients reset offsets and delete groups, and
    requests hang. Most actions occur at a few moments.

    With --history, an unexplained anomaly (lost write, poll skip, ...) is also a failure. "kemu history" of the
    written scenario prints the anomaly.
    """
    refuse_unknown_profile(profile)
    if scenario is not None and replicated is not None:
        raise click.UsageError(
            "--replicated and SCENARIO exclude each other: --replicated changes only a drawn cluster"
        )
    if scenario is not None and operated:
        raise click.UsageError("--operated and SCENARIO exclude each other: --operated changes only a drawn cluster")
    if out is not None and seed is None:
        raise click.UsageError("--out needs --seed")
    if out is not None:
        check_out(out, [scenario] if scenario else [])
    given = load_scenario(scenario) if scenario is not None else None
    options = [*([scenario] if scenario else []), *(["--profile", profile] if profile else [])]
    options += [] if replicated is None else ["--replicated" if replicated else "--not-replicated"]
    options += ["--operated"] if operated else []
    options += [*(["--history"] if history else []), *code_words()]
    draw = partial(swarm_case, scenario=given, profile=profile, replicated=replicated, operated=operated)
    if seed is not None:
        case = draw(seed)
        if out is not None:
            write_text(out, toml_text(case.scenario.to_dict()))
        swarmed = _run_one(case, profile, history, _command(options, seed), form, verbose)
        sys.exit(worst([swarmed.verdict]))
    runs = _run_many(draw, seed_range(seeds), profile, history, options, tell_draws, form, jobs)
    sys.exit(worst(run.verdict for run in runs))


@frozen
class SwarmRun:
    """One run of a swarm. ``history`` has the anomalies of the run, or is None without ``--history``.

    ``own_bugs``: past bugs of the run's release that explain the failure; the run holds without these bugs.
    """

    case: SwarmCase
    result: "RunResult"
    history: "RunHistory | None"
    own_bugs: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict of the run; "violated" for an unexplained anomaly in its history."""
        if self.own_bugs:
            return "holds"
        unexplained = self.result.verdict == "holds" and self.history is not None and self.history.unexplained
        return "violated" if unexplained else self.result.verdict

    @property
    def failures(self) -> frozenset[tuple[str, ...]]:
        """The failures as values that are equal for equal failures of two runs.

        A value has checker, kind and entities, and for a failed member also the error.
        """
        left, _ = split(self.result.violations, self.case.scenario.expect)
        found = {
            (
                each.checker,
                each.kind,
                *each.entities,
                each.text.partition(": ")[2] if each.kind == MEMBER_FAILED else "",
            )
            for each in left
        }
        found |= {("broken", self.result.broke.splitlines()[0])} if self.result.broke else set()
        if self.history is not None:
            found |= {("history", each.anomaly.value, each.partition) for each in self.history.unexplained}
        return frozenset(found)

    @property
    def reason(self) -> str:
        """The reason of the failure."""
        if self.result.verdict == "holds" and self.history is not None and self.history.unexplained:
            first = self.history.unexplained[0]
            return f"unexplained: {first.anomaly.value} at {first.at_us / 1e6:.3f} s: {first.text}"
        return self.result.reason or self.result.broke.splitlines()[0]


def _run(
    case: SwarmCase, profile: str | None, history: bool, panel: "Panel", readers: "Readers | None" = None
) -> SwarmRun:
    """Run a case; for a failed run, search the past bugs of the run's release for an explanation.

    A bug explains a failure that a run without the bug does not have. If bugs explain every failure, and a run without
    these bugs holds, the seed holds. A run without the bugs may have further failures, because the first failure ended
    the first run early. The search then explains the further failures by more bugs.
    """
    from kemu.emulator.past_bugs.applying import bugs_of
    from kemu.emulator.watching.panel import Panel
    from kemu.protocol.profiles import PROFILES

    one = _run_once(case, profile, history, panel, readers)
    own = bugs_of(PROFILES[one.result.profile]) if one.verdict != "holds" else ()

    def without(*mended: str) -> SwarmRun:
        changed = evolve(case, scenario=evolve(case.scenario, mended=mended))
        return _run_once(changed, profile, history, Panel())

    def explaining(failed: SwarmRun, known: tuple[str, ...]) -> tuple[str, ...]:
        """The bugs that together explain all failures of a run; empty if no bug explains one of the failures."""
        left, found = failed.failures, list[str]()
        for each in own:
            mended = without(*known, each) if left and each not in known else failed
            if left - mended.failures:
                left &= mended.failures
                found.append(each)
                if mended.verdict == "holds":
                    return (each,)
        return () if left else tuple(found)

    known: tuple[str, ...] = ()
    left = one
    if own and without(*own).verdict == "holds":
        while left.verdict != "holds" and (found := explaining(left, known)):
            known += found
            left = without(*known)
    return evolve(one, own_bugs=known) if left.verdict == "holds" else one


def run_drawn(draw: Callable[[int], SwarmCase], seed: int, profile: str | None, history: bool) -> SwarmRun:
    """Draw a case from a seed, and run the case. Worker processes call this function."""
    from kemu.emulator.watching.panel import Panel

    return _run(draw(seed), profile, history, Panel())


def _name_of(draw: Callable[[int], SwarmCase], seed: int, *rest: object) -> str:
    return f"the run of seed {seed}"


def _run_once(
    case: SwarmCase, profile: str | None, history: bool, panel: "Panel", readers: "Readers | None" = None
) -> SwarmRun:
    from kemu.emulator.exploring.history import History
    from kemu.emulator.runner import run
    from kemu.tools.report.history_report import RunHistory

    listening = History(panel) if history else None
    watching = () if listening is None else (listening,)
    result = run(
        case.scenario, seed=case.seed, profile=profile, loop="bare", observers=watching, panel=panel, readers=readers
    )
    if listening is None:
        return SwarmRun(case, result, None)
    found = listening.finish(result.virtual_us, result.losses)
    name = case.scenario.name
    judged = RunHistory(name, case.seed, result.profile, result.verdict, result.virtual_us, found, result.broke)
    return SwarmRun(case, result, judged)


def _command(options: Iterable[str], seed: int) -> str:
    return " ".join(["kemu swarm", *options, "--seed", str(seed)])


def _run_one(
    case: SwarmCase, profile: str | None, history: bool, command: str, form: str, verbose: bool = False
) -> SwarmRun:
    """Run one seed, and print the draws of the seed and the report of the run."""
    from kemu.emulator.watching.panel import Panel
    from kemu.tools.report import history_report
    from kemu.tools.report.collecting import Collector
    from kemu.tools.report.layout import print_lines
    from kemu.tools.report.run_report import as_dict, as_text

    collector, panel = Collector(), Panel()
    one = _run(case, profile, history, panel, collector.readers)
    if form == "json":
        click.echo(json.dumps({"drawn": _drawn(case), **as_dict(one.result), **_own(one), **_history(one)}, indent=2))
        return one
    print_lines(draws_text(case))
    print_lines(as_text(collector.finish(one.result, case.scenario, command), verbose=verbose))
    if one.own_bugs:
        print_lines([f"  {_of_release(one)}"])
    if one.history is not None:
        print_lines(["", "Its history", *(f"  {line}" for line in history_report.as_text(one.history, indent=2))])
    return one


def _run_many(
    draw: Callable[[int], SwarmCase],
    seeds: range,
    profile: str | None,
    history: bool,
    options: list[str],
    tell_draws: bool,
    form: str,
    jobs: int | None,
) -> list[SwarmRun]:
    """Run each seed and print a line; for a failed seed, also print the draws and the command that repeats the run."""
    from kemu.tools.jobs import in_order
    from kemu.tools.report.layout import print_lines
    from kemu.tools.report.run_report import as_dict

    tasks = [(draw, seed, profile, history) for seed in seeds]
    drawn = seeds[:DRAWN_FOR_ESTIMATE]
    ask_before([(draw(seed).scenario, -(-len(seeds) // len(drawn))) for seed in drawn], jobs)
    runs: list[SwarmRun] = []
    interrupt = Interrupt()
    with watched_sweep() as watch:
        with (
            progress("runs", len(seeds)) as advance,
            interrupt,
            in_order(jobs, run_drawn, tasks, _name_of, lambda one: advance("", one.verdict != "holds")) as made,
        ):
            for seed, one in zip(seeds, made, strict=True):
                with interrupt.deferred():
                    runs.append(one)
                    command = _command(options, seed)
                    watch.saw(SweptRun(one.case.scenario, seed, one.result.profile, command), one.result.digest)
                    if form == "text":
                        print_lines(lines_of(one, tell_draws, command))
        if form == "json":
            rows = [{"drawn": _drawn(one.case), **as_dict(one.result), **_own(one), **_history(one)} for one in runs]
            click.echo(json.dumps({"runs": rows, **interrupt.as_dict(len(rows), len(seeds))}, indent=2))
        else:
            print_lines(_summary(runs))
        interrupt.exit_with_seeds(len(runs), seeds, form)
    return runs


def _summary(runs: Sequence[SwarmRun]) -> Iterable[str]:
    """The lines with the numbers of runs that hold, and of runs whose cluster is blocked as in Kafka."""
    yield f"{sum(one.verdict == 'holds' for one in runs)} of {len(runs)} hold"
    cores = [one.result.core for one in runs if one.result.core is not None]
    if cores:
        unrecoverable = sum(1 for core in cores if core.unrecoverable)
        yield f"only a core was repaired in {len(cores)} of {len(runs)} runs; {unrecoverable} cores could not recover"
    stuck = [each.kind for one in runs for each in stood_still(one.result.violations)]
    if stuck:
        count = sum(1 for one in runs if stood_still(one.result.violations))
        reasons = ", ".join(f"{stuck.count(kind)} {kind}" for kind in dict.fromkeys(stuck))
        yield f"blocked as in Kafka, in {count} of {len(runs)} runs: {reasons}"


def lines_of(one: SwarmRun, tell_draws: bool, command: str) -> Iterable[str]:
    """The report lines of one run of a swarm."""
    from kemu.tools.report.story import core_text

    yield _line(one)
    if one.result.core is not None and one.result.core.unrecoverable:
        yield f"  {core_text(one.result.core)}"
    if one.own_bugs:
        yield f"  {one.reason}"
        yield f"  {_of_release(one)}"
    for each in stood_still(one.result.violations):
        yield f"  blocked as in Kafka: {each.checker} ({each.kind}): {each.text}"
    if tell_draws or one.verdict != "holds":
        yield from draws_text(one.case)
    if one.verdict != "holds":
        yield f"  {one.reason}"
        yield f"  repeat with: {command}"


def _of_release(one: SwarmRun) -> str:
    """The line that names the past bugs that explain a failure."""
    fixed = " and ".join(f"{issue} (fixed in {PAST_BUGS[issue].fixed_in})" for issue in one.own_bugs)
    mended = json.dumps(one.own_bugs)
    return f"the run holds without a past bug of {one.result.profile}, {fixed}: mended = {mended}"


def _own(one: SwarmRun) -> dict[str, Any]:
    return {"own_bugs": list(one.own_bugs)} if one.own_bugs else {}


def _history(one: SwarmRun) -> dict[str, Any]:
    from kemu.tools.report import history_report

    return {} if one.history is None else {"history": history_report.as_dict(one.history)}


def _line(one: SwarmRun) -> str:
    case, result, scenario = one.case, one.result, one.case.scenario
    members = sum(group.members for group in scenario.groups.values())
    replication = scenario.brokers.replication
    brokers = f"{scenario.brokers.count} brokers" + (f" (factor {replication.factor})" if replication else "")
    faults = ", ".join(fault.kind for fault in result.faults) or "no faults"
    return f"{case.seed:>8}  {one.verdict:<9}  {brokers}, {members} members: {faults}  {result.digest[:16]}"


def draws_text(case: SwarmCase) -> list[str]:
    """The draws of a seed, one line for each draw."""
    return [f"  {what:<14} {which}" for what, which in case.drawn()]


def _drawn(case: SwarmCase) -> dict[str, Any]:
    return {"seed": case.seed, "on": list(case.on), "off": list(case.off), "scenario": case.scenario.to_dict()}
