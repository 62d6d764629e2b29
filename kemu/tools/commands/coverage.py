"""``kemu coverage`` prints the states, messages, transitions and rare events that runs reached."""

import json
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.protocol.frozen import frozen
from kemu.tools.commands.run_options import MOST_FAULTS, jobs_option, refuse_unknown_profile, seed_range
from kemu.tools.determinism.sweep import watched_sweep
from kemu.tools.determinism.watch import SweptRun
from kemu.tools.estimate import ask_before
from kemu.tools.exits import worst
from kemu.tools.interrupt import Interrupt, code_words
from kemu.tools.progress import progress

if TYPE_CHECKING:
    from kemu.emulator.exploring.coverage import Coverage
    from kemu.emulator.scenario.scenario import Scenario


@click.command()
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO...")
@click.option("--seeds", metavar="A:B", default="1:10", show_default=True, help="Run the seeds A to B, both included.")
@click.option("--profile", metavar="P", help="Emulate this profile (kemu describe profiles; default: each scenario's).")
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a key of the scenarios; repeatable."
)
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to their plans; repeatable.")
@click.option("--faults", type=click.IntRange(0, MOST_FAULTS), default=0, help="Number of random faults in each run.")
@jobs_option
@click.option(
    "--role", metavar="R", help="Print only the table of this role: member, coordinator, broker, controller, ..."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def coverage(
    scenarios: tuple[str, ...],
    seeds: str,
    profile: str | None,
    settings: tuple[str, ...],
    actions: tuple[str, ...],
    faults: int,
    jobs: int | None,
    role: str | None,
    form: str,
) -> None:
    """Run each SCENARIO with each seed; show which states, messages and events the runs reached or missed.

    The command prints a table for each role, with received messages, outcomes, and the role's state at the receipt. A
    darker cell is more frequent. The next lists have the transitions of groups, members, partitions and
    replicas that no run took, and the counts of probes (rare events). A run tests only the events that it reaches.
    """
    from kemu.emulator.exploring.coverage import ROLES, Coverage
    from kemu.emulator.scenario.random_faults import with_random_faults
    from kemu.emulator.text.tables import nearest
    from kemu.protocol.profiles import DEFAULT_PROFILE
    from kemu.tools.jobs import in_order
    from kemu.tools.report.coverage_report import as_dict, as_text
    from kemu.tools.report.layout import print_lines

    refuse_unknown_profile(profile)
    if role is not None and role not in ROLES:
        raise click.UsageError(f'--role: "{role}" is no role{nearest(role, ROLES)}')
    loaded = [with_values(load_scenario(name), settings) for name in scenarios]
    if actions:
        loaded = [with_actions(scenario, actions) for scenario in loaded]
    chosen = seed_range(seeds)
    covered, verdicts, first, repeat = Coverage(), [], "", ""
    tasks = [
        (name, with_random_faults(scenario, seed, faults) if faults else scenario, seed, profile)
        for name, scenario in zip(scenarios, loaded, strict=True)
        for seed in chosen
    ]
    ask_before([(scenario, len(chosen)) for scenario in loaded], jobs)
    interrupt = Interrupt()
    with watched_sweep() as watch:
        with (
            progress("runs", len(tasks)) as advance,
            interrupt,
            in_order(
                jobs, covered_run, tasks, _name_of, lambda run: advance(run.source, run.verdict != "holds")
            ) as made,
        ):
            for (name, drawn, seed, _), run in zip(tasks, made, strict=True):
                with interrupt.deferred():
                    covered.add(run.coverage)
                    verdicts.append(run.verdict)
                    said = _command(name, seed, profile, settings, actions, faults)
                    watch.saw(SweptRun(drawn, seed, profile or drawn.profile or DEFAULT_PROFILE, said), run.digest)
                    if run.verdict != "holds" and not first:
                        first, repeat = f"{name}, seed {seed}: {run.verdict}: {run.reason}", said
        if interrupt.happened and not verdicts:
            interrupt.exit(0, len(tasks), "runs", form)
        head: dict[str, Any] = {"scenarios": list(scenarios), "seeds": list(chosen), "random_faults": faults}
        if form == "json":
            click.echo(
                json.dumps({**head, **as_dict(covered, role), **interrupt.as_dict(len(verdicts), len(tasks))}, indent=2)
            )
        else:
            print_lines(as_text(covered, role))
            if first:
                print_lines([f"not every run holds: {first}", f"  repeat with: {repeat}"])
        interrupt.exit(len(verdicts), len(tasks), "runs", form)
    sys.exit(worst(verdicts))


def _command(
    name: str, seed: int, profile: str | None, settings: Sequence[str], actions: Sequence[str], faults: int
) -> str:
    """The command that repeats one run."""
    words = ["kemu", "coverage", name, "--seeds", f"{seed}:{seed}", *(["--profile", profile] if profile else [])]
    words += [word for setting in settings for word in ("--set", setting)]
    words += [word for action in actions for word in ("--do", action)]
    return shlex.join([*words, *(["--faults", str(faults)] if faults else []), *code_words()])


@frozen
class CoveredRun:
    """The coverage of one run, and the parts of the run's result that the command needs."""

    source: str
    coverage: "Coverage"
    digest: str
    verdict: str
    reason: str


def covered_run(source: str, scenario: "Scenario", seed: int, profile: str | None) -> CoveredRun:
    """Run a scenario with one seed, and observe the coverage. Worker processes call this function."""
    from kemu.emulator.exploring.coverage import Coverage
    from kemu.emulator.runner import run

    coverage = Coverage()
    listening = coverage.of_run()
    result = run(scenario, seed=seed, profile=profile, loop="bare", recorder=listening)
    listening.finish()
    return CoveredRun(source, coverage, result.digest, result.verdict, result.reason)


def _name_of(source: str, scenario: "Scenario", seed: int, profile: str | None) -> str:
    return f"the run of {source} with seed {seed}"
