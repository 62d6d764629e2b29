"""``kemu advise`` tells which change of settings would have helped in a scenario, and its price."""

import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.replay import check, scenario_of
from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.profiles import DEFAULT_PROFILE
from kemu.tools.commands.compare import ComparedRun, Variant, compared_run, row_of
from kemu.tools.commands.run_options import jobs_option, report_option, seed_range
from kemu.tools.diagnosis.advice import (
    RANKED_BY,
    Advice,
    Judged,
    ProposedChange,
    Says,
    Unfit,
    changes_for,
    confidence_for,
    fitting,
    judge,
)
from kemu.tools.diagnosis.reproduce import reproduce
from kemu.tools.estimate import ask_before
from kemu.tools.exits import worst
from kemu.tools.files import check_out
from kemu.tools.incident.from_trace import events_of_trace
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.sources import is_trace
from kemu.tools.incident.words import plural
from kemu.tools.interrupt import Interrupt
from kemu.tools.intervals import fewest
from kemu.tools.progress import progress
from kemu.tools.report.comparison import ComparisonReport, with_differences, write_comparison
from kemu.tools.report.layout import print_lines

SEEDS = "1:12"
UNCHANGED = "unchanged"


@click.command(
    epilog='A change is KEY=VALUE of "kemu run --set"; "+" joins settings. "kemu compare" runs one change by hand.',
)
@click.argument("source", metavar="TRACE|SCENARIO")
@click.option("--by", type=click.Choice(list(RANKED_BY)), default="downtime", show_default=True,
              help="Rank the changes by this figure.")  # fmt: skip
@click.option("--try", "tried", metavar="CHANGE", multiple=True, help="Try only this change; repeatable.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a key of the scenario; repeatable.")
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to the plan; repeatable.")
@click.option("--seeds", metavar="A:B", default=SEEDS, show_default=True, help="Run the seeds A to B, both included.")
@jobs_option
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@report_option("tables and pictures of the changes")
def advise(
    source: str,
    by: str,
    tried: tuple[str, ...],
    settings: tuple[str, ...],
    actions: tuple[str, ...],
    seeds: str,
    jobs: int | None,
    form: str,
    report: Path | None,
) -> None:
    """Tell which change would have helped in the incident of TRACE or SCENARIO, ranked, and its price.

    Of a trace of "kemu import-log", the scenario is that of "kemu reproduce", which also lists what it assumes.
    The command runs the scenario with its plan under each change of a table, over the same seeds, and compares each
    change with the unchanged scenario, seed by seed. The table has static membership, cooperative-sticky, intervals,
    limits of polls, numbers of members, and settings of brokers. All intervals together call a change without effect
    "better" in fewer than 5 % of advices. A change that changes no figure is said to do nothing.
    """
    if report is not None:
        check_out(report, [source])
    scenario, profile = read_source(source)
    scenario = with_values(scenario, settings)
    if actions:
        scenario = with_actions(scenario, actions)
    fit, unfit = tried_changes(scenario, profile, tried)
    chosen = seed_range(seeds)
    if len(chosen) < fewest(confidence_for(len(fit))):
        least = fewest(confidence_for(len(fit)))
        raise click.UsageError(f"--seeds {seeds}: {len(fit)} changes need {least} seeds or more")
    ask_before([(each, len(chosen)) for each in (scenario, *(changed for _, changed in fit))], jobs)
    interrupt = Interrupt()
    rows = run_changes(scenario, profile, fit, chosen, jobs, interrupt)
    done = rows[0]["runs"] if rows else 0
    if interrupt.happened and not done:
        interrupt.exit(0, len(chosen), "seeds", form)
    advice = judge(rows[0], list(zip([change for change, _ in fit], rows[1:], strict=True)), RANKED_BY[by])
    if report is not None:
        words = ["kemu", "advise", source, "--by", by, "--seeds", seeds]
        words += [word for each in tried for word in ("--try", each)]
        words += [word for each in settings for word in ("--set", each)]
        words += [word for each in actions for word in ("--do", each)]
        with_differences(rows)
        note = f"seeds {chosen[0]} to {chosen[done - 1]}; a seed gives every change the same plan, load and faults"
        title, summary, command = scenario.name, scenario.summary, shlex.join(words)
        write_comparison(
            ComparisonReport(kind="compare", title=title, summary=summary, command=command, note=note, rows=rows),
            report,
        )
    if form == "json":
        click.echo(json.dumps({**as_json(scenario, advice, unfit), **interrupt.as_dict(done, len(chosen))}, indent=2))
    else:
        print_lines(as_text(scenario, advice, unfit))
        if report is not None:
            click.echo(f"report: {report}")
    interrupt.exit(done, len(chosen), "seeds", form)
    sys.exit(worst(rows[0]["verdicts"]))


def read_source(source: str) -> tuple[Scenario, str]:
    """The scenario and the release of a trace, a file or a preset.

    Raises:
        BadInput: a trace of logs has no group to repeat.
        TraceError: the trace is damaged.
        ScenarioError: the scenario has mistakes.
    """
    if is_trace(source):
        trace = read_trace(source)
        check(trace)
        with trace.interpreted():
            if trace.header.source == "log":
                repeated = reproduce(Incident(events_of_trace(trace))).scenario
                return repeated, repeated.profile or trace.header.profile
            return scenario_of(trace.header), trace.header.profile
    scenario = load_scenario(source)
    return scenario, scenario.profile or DEFAULT_PROFILE


def tried_changes(
    scenario: Scenario, profile: str, tried: Sequence[str]
) -> tuple[list[tuple[ProposedChange, Scenario]], list[Unfit]]:
    """The changes of ``--try`` (settings joined with "+"), or those of the table, and the changed scenarios.

    Raises:
        ScenarioError: the scenario does not allow a change of ``--try``.
    """
    if not tried:
        return fitting(scenario, changes_for(scenario, profile))
    changes = [ProposedChange(name=text, settings=tuple(text.split("+"))) for text in tried]
    return [(change, with_values(scenario, change.settings, "--try")) for change in changes], []


def run_changes(
    scenario: Scenario,
    profile: str,
    fit: Sequence[tuple[ProposedChange, Scenario]],
    seeds: Sequence[int],
    jobs: int | None = None,
    interrupt: Interrupt | None = None,
) -> list[dict[str, Any]]:
    """The rows of ``kemu compare`` for the unchanged scenario and each change, over the seeds that were completed."""
    from kemu.tools.jobs import in_order

    cells = [(Variant(profile), scenario)]
    cells += [(Variant(profile, settings=change.settings), changed) for change, changed in fit]
    tasks = [(variant, mine, seed, 0) for seed in seeds for variant, mine in cells]
    interrupt = interrupt or Interrupt()
    runs: list[ComparedRun] = []
    with (
        progress("runs", len(tasks)) as advance,
        interrupt,
        in_order(
            jobs, compared_run, tasks, _name_of, lambda run: advance(run.variant.name, run.verdict != "holds")
        ) as made,
    ):
        runs.extend(made)
    done = len(runs) // len(cells)
    names = [UNCHANGED, *(change.name for change, _ in fit)]
    return [
        {"scenario": scenario.name, **row_of(variant, runs[at : done * len(cells) : len(cells)]), "variant": names[at]}
        for at, (variant, _) in enumerate(cells)
        if done
    ]


def _name_of(variant: Variant, mine: Scenario, seed: int, random_faults: int) -> str:
    return f"the run of {variant.name} with seed {seed}"


def as_json(scenario: Scenario, advice: Advice, unfit: Iterable[Unfit]) -> dict[str, Any]:
    """The advice as data."""
    return {
        "scenario": scenario.name,
        "ranked_by": advice.by,
        "seeds": advice.seeds,
        "confidence": advice.confidence,
        "changes": [
            {
                "change": each.change.name,
                "settings": list(each.change.settings),
                "says": each.says.value,
                "effects": {name: attrs.asdict(effect) for name, effect in each.effects.items()},
                "costs": each.change.costs,
                "worse_in": each.elsewhere(advice.by, Says.WORSE),
                "verdicts": each.row["verdicts"],
                "did_not_work": each.row["did_not_work"],
            }
            for each in advice.judged
        ],
        "not_tried": [{"change": each.change.name, "why": each.why} for each in unfit],
    }


def as_text(scenario: Scenario, advice: Advice, unfit: Sequence[Unfit]) -> Iterator[str]:
    """The lines of the advice."""
    yield f"{click.style(scenario.name, bold=True)}: {scenario.summary}"
    before = advice.base["figures"].get(advice.by, {}).get("median")
    now = "" if before is None else f"; unchanged: {_number(advice.by, before)}"
    yield (
        f"{plural(len(advice.judged), 'change')} over {advice.seeds} seeds, paired by seed, "
        f"ranked by {_figure(advice.by)}{now}"
    )
    yield f"median difference [{100 * advice.confidence:.2f} % interval]"
    titles: Mapping[Says, str] = {
        Says.BETTER: "would have helped",
        Says.UNCLEAR: f"no difference shown in {_figure(advice.by)}",
        Says.NOTHING: "do nothing here: every figure of every seed is equal",
        Says.WORSE: "would have made it worse",
        Says.FAILED: "did not work",
    }
    for says, title in titles.items():
        found = advice.of(says)
        if not found:
            continue
        yield ""
        yield f"{title}:"
        if says is Says.NOTHING:
            yield f"  {', '.join(each.change.name for each in found)}"
            continue
        for each in found:
            yield from _change(each, advice.by)
    if not advice.of(Says.BETTER):
        yield ""
        yield "No change of this table would have helped."
    for missing in unfit:
        yield f"not tried: {missing.change.name}: {missing.why}"


def _change(each: Judged, by: str) -> Iterator[str]:
    effect = each.effects.get(by)
    settings = " ".join(f"--set {setting}" for setting in each.change.settings)
    if effect is None:
        yield f"  {each.change.name}: {each.row['did_not_work'] or 'no value'}"
        return
    yield f"  {each.change.name}: {_interval(by, effect.median, effect.low, effect.high)}  ({settings})"
    for says in (Says.BETTER, Says.WORSE):
        names = each.elsewhere(by, says)
        if names:
            parts = [f"{_figure(name)} {_signed(name, each.effects[name].median)}" for name in names]
            yield (
                f"    {says.value} also in {'; '.join(parts)}"
                if says is Says.BETTER
                else (f"    costs {'; '.join(parts)}")
            )
    if each.change.costs:
        yield f"    price: {each.change.costs}"
    failed = {name: count for name, count in each.row["verdicts"].items() if name != "holds"}
    if failed:
        yield f"    {', '.join(f'{count} runs: {name}' for name, count in failed.items())}"


def _figure(name: str) -> str:
    return name.replace("_", " ")


def _number(name: str, value: float) -> str:
    unit = FIGURES[name].unit.value
    return f"{FIGURES[name].text(value)}{f' {unit}' if unit else ''}"


def _signed(name: str, value: float) -> str:
    return f"{'+' if value > 0 else ''}{_number(name, value)}"


def _interval(name: str, median: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return _signed(name, median)
    text = FIGURES[name].text
    return f"{_signed(name, median)} [{text(low)}, {text(high)}]"
