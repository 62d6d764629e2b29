"""``kemu compare``: one scenario and its faults under several protocols and assignors, and what each costs."""

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click
from attrs import frozen

from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import nearest
from kemu.tools.commands.run_options import seed_range
from kemu.tools.determinism.sweep import watched_sweep
from kemu.tools.determinism.watch import SweptRun
from kemu.tools.exits import worst
from kemu.tools.intervals import FEWEST, FEWEST_FOR_P95, ScipyMissing, Spread, spread
from kemu.tools.progress import progress

if TYPE_CHECKING:
    from kemu.emulator.metrics.figure import Value
    from kemu.emulator.runner import RunResult


@frozen
class Variant:
    """One row of the table: a release or page, assignors ("" = the scenario's), and settings on top."""

    profile: str
    assignors: str = ""
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As it is written on the command line."""
        return "+".join((self.profile, *self.settings)) + (f" {self.assignors}" if self.assignors else "")

    def of(self, scenario: Scenario) -> Scenario:
        """The scenario as this variant runs it."""
        settings = (*self.settings, f"assignors={self.assignors}") if self.assignors else self.settings
        return with_values(scenario, settings)


WIDEST = 60
"""A longer name of a variant is no head of a column."""
DEFAULT_VARIANTS = (
    Variant("kafka-2.4", "range"),
    Variant("kafka-2.4", "sticky"),
    Variant("kip-429-v99", "sticky", ("rebalance.protocol=cooperative",)),
    Variant("kafka-2.4", "cooperative-sticky"),
    Variant("kafka-3.4", "cooperative-sticky"),
)
"""Eager, the page's protocol, and what shipped."""

_FIRST = next(iter(FIGURES))
_DEFINITIONS = "\n".join(f"  {name:20} {kind.unit or 'count':11} {kind.meaning}" for name, kind in FIGURES.items())


@click.command(
    epilog='"kemu describe FIGURE" says how a figure is computed.',
    help=f"""Run SCENARIO under each variant with the same seeds and faults; print what it costs.

A variant is a profile of --profiles with each of --assignors (default: the scenario's own). A profile may carry
consumer settings: kip-429-v99+rebalance.protocol=cooperative. With neither option: range and sticky (eager), the page
of KIP-429, and cooperative-sticky as it shipped in 2.4 and 3.4.

\b
{_DEFINITIONS}

A variant of which a run did not work (a member failed for good, a group did nothing of what there was to do) has no
figures: what does not work costs nothing. It is shown as "did not work", with the reason.

Each cell is the median over the seeds; from {FEWEST} seeds on, and with the extra "stats" (scipy), the exact interval
that holds the distribution's median with 95 %; then the 95th percentile from {FEWEST_FOR_P95} seeds on, the largest
value below. A sum over partitions is in partition-seconds. The same seed gives every variant the same plan, drawn
from streams of its own.
""",
)
@click.argument("scenario")
@click.option("--profiles", metavar="P,P", help="Releases or KIP pages, each perhaps with +KEY=VALUE.")
@click.option("--assignors", metavar="A,A", help="Assignors to try with each profile.")
@click.option("--seeds", metavar="A:B", default="1:20", show_default=True, help="The seeds A to B, both included.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change the scenario; repeatable.")
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to the plan; repeatable.")
@click.option("--faults", "random_faults", type=click.IntRange(min=0), default=0, help="So many random faults a run.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def compare(
    scenario: str,
    profiles: str | None,
    assignors: str | None,
    seeds: str,
    settings: tuple[str, ...],
    actions: tuple[str, ...],
    random_faults: int,
    form: str,
) -> None:
    """See ``help`` above."""
    loaded = with_values(load_scenario(scenario), settings)
    if actions:
        loaded = with_actions(loaded, actions)
    variants = variants_of(profiles, assignors, loaded.profile)
    chosen = seed_range(seeds)
    with watched_sweep() as watch:
        with progress("runs", len(variants) * len(chosen)) as advance:

            def made(variant: Variant, drawn: Scenario, result: "RunResult") -> None:
                command = _command(scenario, variant, result.seed, settings, actions, random_faults)
                watch.saw(SweptRun(drawn, result.seed, variant.profile, command), result.digest)
                advance(variant.name, result.verdict != "holds")

            rows = [compared(loaded, variant, chosen, random_faults, made) for variant in variants]
        _told_to(form, loaded, chosen, rows, random_faults)
    sys.exit(worst(verdict for row in rows for verdict in row["verdicts"]))


def _command(
    source: str,
    variant: Variant,
    seed: int,
    settings: Sequence[str],
    actions: Sequence[str],
    random_faults: int,
) -> str:
    """The comparison of one variant with one seed."""
    words = ["kemu", "compare", source, "--profiles", "+".join((variant.profile, *variant.settings))]
    words += ["--assignors", variant.assignors] if variant.assignors else []
    words += ["--seeds", f"{seed}:{seed}"]
    words += [word for setting in settings for word in ("--set", setting)]
    words += [word for action in actions for word in ("--do", action)]
    words += ["--faults", str(random_faults)] if random_faults else []
    return shlex.join(words)


def _told_to(
    form: str, loaded: Scenario, chosen: Sequence[int], rows: Sequence[dict[str, Any]], random_faults: int
) -> None:
    if len(chosen) >= FEWEST and any(
        each["median"] is not None and each["low"] is None for row in rows for each in row["figures"].values()
    ):
        click.echo(str(ScipyMissing()), err=True)
    if form == "json":
        head = {"scenario": loaded.name, "seeds": list(chosen), "random_faults": random_faults}
        click.echo(json.dumps({**head, "variants": rows}, indent=2))
    else:
        for line in table(loaded, chosen, rows):
            click.echo(line)


def variants_of(profiles: str | None, assignors: str | None, own: str = "") -> tuple[Variant, ...]:
    """The variants of ``--profiles`` and ``--assignors``; ``own``: the scenario's profile, if it names one.

    Raises:
        click.UsageError: a profile nobody knows.
    """
    from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES

    if profiles is None and assignors is None:
        return DEFAULT_VARIANTS
    found = []
    for text in (profiles or own or DEFAULT_PROFILE).split(","):
        name, *settings = text.strip().split("+")
        if name not in PROFILES:
            raise click.UsageError(f'"{name}" is no profile{nearest(name, PROFILES)}')
        found += [
            Variant(name, assignor.strip(), tuple(settings))
            for assignor in (assignors.split(",") if assignors else [""])
        ]
    return tuple(found)


def compared(
    scenario: Scenario,
    variant: Variant,
    seeds: Sequence[int],
    random_faults: int = 0,
    made: Callable[[Variant, Scenario, "RunResult"], None] = lambda variant, drawn, result: None,
) -> dict[str, Any]:
    """What one variant costs: every figure over the seeds (``tools.intervals``), and its verdicts.

    ``made`` is told each run, with the scenario as it ran.
    ``figures`` is empty, and ``did_not_work`` says why, when any of its runs did not work (``emulator.judging``).

    Raises:
        ScenarioError: the variant's settings or assignors do not fit the scenario.
    """
    from kemu.emulator.metrics.costs import Costs
    from kemu.emulator.runner import FaultFired, run, unfired_in_all
    from kemu.emulator.scenario.random_faults import with_random_faults
    from kemu.emulator.watching.panel import Panel

    mine = variant.of(scenario)
    bills: list[dict[str, Value]] = []
    verdicts: dict[str, int] = {}
    idle: list[str] = []
    faults: list[tuple[FaultFired, ...]] = []
    for seed in seeds:
        panel = Panel()
        costs = Costs(panel, {name: group.subscription for name, group in mine.groups.items()})
        drawn = with_random_faults(mine, seed, random_faults) if random_faults else mine
        result = run(drawn, seed=seed, profile=variant.profile, loop="bare", observers=(costs,), panel=panel)
        costs.finish(result.virtual_us)
        bills.append(costs.bill(result.figures))
        verdicts[result.verdict] = verdicts.get(result.verdict, 0) + 1
        faults.append(result.faults[: len(mine.plan)])  # each run draws its own random ones
        if result.did_not_work:
            idle.append(f"seed {seed}: {result.did_not_work}")
        made(variant, drawn, result)
    figures = {} if idle else {name: _told([bill[name] for bill in bills]) for name in FIGURES}
    return {
        "variant": variant.name,
        **attrs.asdict(variant),
        "runs": len(bills),
        "verdicts": verdicts,
        "figures": figures,
        "did_not_work": f"in {len(idle)} of {len(bills)} runs; {idle[0]}" if idle else "",
        "never_fired": [fault.text for fault in unfired_in_all(faults)],
    }


def _told(values: Sequence[float | None]) -> dict[str, float | None]:
    """A figure over the seeds: median, low and high, p95, max; None where too few runs have a value to say."""
    known = [value for value in values if value is not None]
    if not known:
        return dict.fromkeys(("median", "low", "high", "p95", "max"))
    try:
        told = spread(known)
    except ScipyMissing:  # the rest of it needs none
        told = Spread.without_interval(known)
    return {"median": told.median, "low": told.low, "high": told.high, "p95": told.p95, "max": told.largest}


def table(scenario: Scenario, seeds: Sequence[int], rows: Sequence[dict[str, Any]]) -> Iterable[str]:
    """The comparison for people: one line per figure, one column per variant."""
    high = "p95" if len(seeds) >= FEWEST_FOR_P95 else "largest"
    interval = " [95 % interval of the median]" if len(seeds) >= FEWEST else ""
    yield f"{scenario.name}: {scenario.summary}"
    yield f"seeds {seeds[0]} to {seeds[-1]}; median{interval} / {high} over the runs"
    yield ""
    names = [row["variant"] for row in rows]
    if max(map(len, names)) > WIDEST:  # long ones stand above the table
        yield from (f"({number}) {name}" for number, name in enumerate(names, start=1))
        yield ""
        names = [f"({number})" for number in range(1, len(names) + 1)]
    lines = [["", "", *names]]
    lines += [[name.replace("_", " "), kind.unit.value, *(_cell(row, name) for row in rows)]
              for name, kind in FIGURES.items() if name == _FIRST or _is_known(rows, name)]  # fmt: skip
    lines.append(["verdicts", "", *(_verdicts(row) for row in rows)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = (f"{cell:>{width}}" for cell, width in zip(line[2:], widths[2:], strict=True))
        yield f"{line[0]:{widths[0]}}  {line[1]:{widths[1]}}  {'  '.join(cells)}".rstrip()
    for row in rows:
        if row["did_not_work"]:
            yield f"{row['variant']} did not work {row['did_not_work']}"
        yield from (f"{row['variant']}: a fault never fired in any run: {text}" for text in row["never_fired"])


def _is_known(rows: Sequence[dict[str, Any]], name: str) -> bool:
    return any(row["figures"] and row["figures"][name]["median"] is not None for row in rows)


def _cell(row: dict[str, Any], name: str) -> str:
    if not row["figures"]:
        return "did not work" if name == _FIRST else "-"
    told = row["figures"][name]
    if told["median"] is None:
        return "-"

    said = FIGURES[name].text
    interval = "" if told["low"] is None else f" [{said(told['low'])}, {said(told['high'])}]"
    return f"{said(told['median'])}{interval} / {said(told['max'] if told['p95'] is None else told['p95'])}"


def _verdicts(row: dict[str, Any]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in row["verdicts"].items())
