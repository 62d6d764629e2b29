"""``kemu swarm``: from each seed a cluster, a load and faults, run to see whether all that must hold does."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kemu.emulator.exploring.swarm import SwarmCase, swarm_case
from kemu.emulator.scenario.expectations import stood_still
from kemu.emulator.scenario.files import load_scenario
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.emulator.text.toml_text import toml_text
from kemu.tools.commands.run_options import seed_range
from kemu.tools.determinism.sweep import watched_sweep
from kemu.tools.determinism.watch import SweptRun
from kemu.tools.exits import worst
from kemu.tools.progress import progress

if TYPE_CHECKING:
    from kemu.emulator.runner import RunResult


@click.command()
@click.argument("scenario", required=False)
@click.option("--seed", type=click.IntRange(min=0), help="One seed: what it draws, what happens, what came of it.")
@click.option("--seeds", metavar="A:B", default="1:10", show_default=True, help="The seeds A to B, both included.")
@click.option("--profile", metavar="P", help="A release or KIP page (default: the scenario's).")
@click.option("--replicated/--not-replicated", default=None, help="Whether drawn brokers replicate (default: some do).")
@click.option("--draws", "tell_draws", is_flag=True, help="Print what every seed draws.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="With --seed: write the scenario (TOML).")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def swarm(
    scenario: str | None,
    seed: int | None,
    seeds: str,
    profile: str | None,
    replicated: bool | None,
    tell_draws: bool,
    out: Path | None,
    form: str,
) -> None:
    """Draw a cluster, a load and faults from each seed, and run them; with SCENARIO, faults alone are drawn.

    About half of the families of faults are off in each seed, so that what others would hide can show. First the load
    and the faults run, and nothing bad may happen; then all is healed, and everything must get well in time. What a
    seed that failed drew is printed. "kemu swarm --seed N --out n.toml" writes it, "kemu shrink n.toml" makes it small.

    Exit codes: those of "kemu run".
    """
    from kemu.protocol.profiles import PROFILES

    if profile is not None and profile not in PROFILES:
        raise click.UsageError(f'"{profile}" is no profile{nearest(profile, PROFILES)}')
    if scenario is not None and replicated is not None:
        raise click.UsageError("--replicated is drawn with the cluster: leave SCENARIO or it out")
    if out is not None and seed is None:
        raise click.UsageError("--out goes with --seed")
    given = load_scenario(scenario) if scenario is not None else None
    again = [*([scenario] if scenario else []), *(["--profile", profile] if profile else [])]
    again += [] if replicated is None else ["--replicated" if replicated else "--not-replicated"]
    if seed is not None:
        case = _case(seed, given, profile, replicated)
        if out is not None:
            _write(out, case)
        result = _run_one(case, profile, _command(again, seed), form)
        sys.exit(worst([result.verdict]))
    results = _run_many(given, seed_range(seeds), profile, replicated, again, tell_draws, form)
    sys.exit(worst(result.verdict for result in results))


def _case(seed: int, given: Scenario | None, profile: str | None, replicated: bool | None) -> SwarmCase:
    return swarm_case(seed, given, profile=profile, replicated=replicated)


def _command(again: Iterable[str], seed: int) -> str:
    return " ".join(["kemu swarm", *again, "--seed", str(seed)])


def _write(out: Path, case: SwarmCase) -> None:
    try:
        out.write_text(toml_text(case.scenario.to_dict()), encoding="utf-8")
    except OSError as error:
        raise ScenarioError([Problem((), f"--out: cannot be written: {error.strerror}")], str(out)) from None


def _run_one(case: SwarmCase, profile: str | None, command: str, form: str) -> "RunResult":
    """One seed, with its draws and the report of a run."""
    from kemu.emulator.runner import run
    from kemu.emulator.watching.panel import Panel
    from kemu.tools.report.ownership import Ownership
    from kemu.tools.report.run_report import as_dict, as_text
    from kemu.tools.report.story import Story

    story, panel = Story(), Panel()
    ownership = Ownership(panel)
    watching = (story, ownership)
    result = run(case.scenario, seed=case.seed, profile=profile, drive="bare", observers=watching, panel=panel)
    if form == "json":
        click.echo(json.dumps({"drawn": _drawn(case), **as_dict(result)}, indent=2))
        return result
    ownership.finish()
    click.echo("\n".join(draws_text(case)))
    for line in as_text(result, case.scenario, story, ownership, command, None):
        click.echo(line)
    return result


def _run_many(
    given: Scenario | None,
    seeds: range,
    profile: str | None,
    replicated: bool | None,
    again: list[str],
    tell_draws: bool,
    form: str,
) -> "list[RunResult]":
    """Each seed, a line for each; what failed with its draws and the command that repeats it."""
    from kemu.emulator.runner import run
    from kemu.tools.report.run_report import as_dict

    results, cases = [], []
    with watched_sweep() as watch:
        with progress("runs", len(seeds)) as advance:
            for seed in seeds:
                case = _case(seed, given, profile, replicated)
                result = run(case.scenario, seed=seed, profile=profile, drive="bare")
                results.append(result)
                cases.append(case)
                watch.saw(SweptRun(case.scenario, seed, result.profile, _command(again, seed)), result.digest)
                advance("", result.verdict != "holds")
                if form == "text":
                    click.echo(_line(case, result))
                    for each in stood_still(result.violations):
                        click.echo(f"  stands still as it would in Kafka: {each.checker} ({each.kind}): {each.text}")
                    if tell_draws or result.verdict != "holds":
                        click.echo("\n".join(draws_text(case)))
                    if result.verdict != "holds":
                        click.echo(f"  {result.reason or result.broke.splitlines()[0]}")
                        click.echo(f"  repeat with: {_command(again, seed)}")
        held = sum(result.verdict == "holds" for result in results)
        if form == "json":
            pairs = zip(cases, results, strict=True)
            click.echo(
                json.dumps({"runs": [{"drawn": _drawn(case), **as_dict(each)} for case, each in pairs]}, indent=2)
            )
        else:
            click.echo(f"{held} of {len(results)} hold")
            still = [each.kind for result in results for each in stood_still(result.violations)]
            if still:
                runs = sum(1 for result in results if stood_still(result.violations))
                reasons = ", ".join(f"{still.count(kind)} {kind}" for kind in dict.fromkeys(still))
                click.echo(f"something stands still as it would in Kafka, in {runs} of {len(results)} runs: {reasons}")
    return results


def _line(case: SwarmCase, result: "RunResult") -> str:
    scenario = case.scenario
    members = sum(group.members for group in scenario.groups.values())
    replication = scenario.brokers.replication
    brokers = f"{scenario.brokers.count} brokers" + (f" (factor {replication.factor})" if replication else "")
    faults = ", ".join(fault.kind for fault in result.faults) or "no faults"
    return f"{case.seed:>8}  {result.verdict:<9}  {brokers}, {members} members: {faults}  {result.digest[:16]}"


def draws_text(case: SwarmCase) -> list[str]:
    """What a seed drew, a line each."""
    return [f"  {what:<14} {which}" for what, which in case.drawn()]


def _drawn(case: SwarmCase) -> dict[str, Any]:
    return {"seed": case.seed, "on": list(case.on), "off": list(case.off), "scenario": case.scenario.to_dict()}
