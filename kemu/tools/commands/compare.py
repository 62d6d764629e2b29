"""``kemu compare`` compares the costs of one scenario under several profiles, protocols, assignors and settings."""

import json
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from kemu.actors.coordinator.rules import GROUP_RULES
from kemu.emulator.metrics.metrics import FIGURES
from kemu.emulator.scenario.files import load_scenario, with_actions, with_values
from kemu.emulator.scenario.protocols import CONSUMER, CONSUMER_PROFILE
from kemu.emulator.scenario.protocols import KEY as GROUP_PROTOCOL
from kemu.emulator.scenario.random_faults import with_random_faults
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import nearest
from kemu.protocol.config import GROUP_PROTOCOLS
from kemu.protocol.frozen import frozen
from kemu.protocol.profiles import DEFAULT_PROFILE, PROFILES
from kemu.tools.commands.run_options import MOST_FAULTS, jobs_option, refuse_unknown_profile, report_option, seed_range
from kemu.tools.determinism.sweep import watched_sweep
from kemu.tools.determinism.watch import SweptRun
from kemu.tools.errors import BadInput
from kemu.tools.estimate import ask_before
from kemu.tools.exits import worst
from kemu.tools.files import check_out
from kemu.tools.interrupt import Interrupt, code_words
from kemu.tools.intervals import FEWEST, FEWEST_FOR_P95
from kemu.tools.progress import progress
from kemu.tools.report.compare_report import as_text
from kemu.tools.report.comparison import ComparisonReport, causes_of, summary_of, with_differences, write_comparison
from kemu.tools.report.layout import print_lines
from kemu.tools.request import Request

if TYPE_CHECKING:
    from kemu.emulator.metrics.figure import Value
    from kemu.emulator.runner import FaultFired


@frozen
class Variant:
    """A profile, a protocol and assignors ("" = the scenario's), and settings that change the scenario."""

    profile: str
    assignors: str = ""
    settings: tuple[str, ...] = ()
    protocol: str = ""

    @property
    def name(self) -> str:
        """The name as written on the command line."""
        return " ".join(filter(None, ("+".join((self.profile, *self.settings)), self.protocol, self.assignors)))

    @property
    def all_settings(self) -> tuple[str, ...]:
        """The settings with the protocol and the assignors, as ``kemu run --set`` takes them."""
        assigns = "group.remote.assignor" if self.protocol == CONSUMER else "assignors"
        return (
            *([f"{GROUP_PROTOCOL}={self.protocol}"] if self.protocol else []),
            *self.settings,
            *([f"{assigns}={self.assignors}"] if self.assignors else []),
        )

    def of(self, scenario: Scenario, left_out: list[str] | None = None) -> Scenario:
        """The scenario with the profile, protocol, assignors and settings of this variant.

        ``left_out`` receives the settings that the protocol lacks (``with_values``).
        """
        option = "--profiles" if self.settings else "--protocols" if self.protocol else "--assignors"
        return with_values(scenario, self.all_settings, option, left_out)


DEFAULT_VARIANTS = (
    Variant("kafka-2.4", "range"),
    Variant("kafka-2.4", "sticky"),
    Variant("kip-429-v99", "sticky", ("rebalance.protocol=cooperative",)),
    Variant("kafka-2.4", "cooperative-sticky"),
    Variant("kafka-3.4", "cooperative-sticky"),
)
"""The variants without ``--profiles`` and ``--assignors``: eager, the protocol of KIP-429's page, and as released."""

_DEFINITIONS = "\n".join(f"  {name:20} {kind.unit or 'count':11} {kind.meaning}" for name, kind in FIGURES.items())


@click.command(
    epilog='"kemu describe FIGURE" explains the computation of a figure.',
    help=f"""Run SCENARIO under each variant with the same seeds and faults, and compare the costs.

A variant is a profile of --profiles with an assignor of --assignors (default: the scenario's). A profile may have
consumer settings: kip-429-v99+rebalance.protocol=cooperative. Without both options, the variants are range and sticky
(eager), the protocol of KIP-429's page, and cooperative-sticky of 2.4 and of 3.4.

--protocols compares values of group.protocol (KIP-848), each optionally with an assignor:
classic+cooperative-sticky,consumer+uniform. The profile must have the consumer protocol; the default is the scenario's
profile or {CONSUMER_PROFILE}. A variant leaves out the settings that its protocol lacks, and names them.

The command compares each variant with the first one, seed by seed. A figure is better or worse if the exact 95 %
interval of the median of the paired differences excludes 0. An interval needs {FEWEST} seeds. The table shows the
median and its interval for each figure that differs. With --all, the table shows every figure, with its largest value
or, from {FEWEST_FOR_P95} seeds on, its 95th percentile.

\b
{_DEFINITIONS}

A sum over partitions is in partition-seconds. A variant has no figures if a member failed permanently, or a group
processed no record, in one of its runs. The same seed gives every variant the same plan, load and faults.
""",
)
@click.argument("scenario")
@click.option(
    "--profiles", metavar="P,P", help="Profiles to compare (kemu describe profiles), optionally with +KEY=VALUE."
)
@click.option("--assignors", metavar="A,A", help="Assignors to combine with each profile.")
@click.option(
    "--protocols",
    metavar="P,P",
    help="Values of group.protocol to combine with each profile; optional: +ASSIGNOR.",
)
@click.option("--seeds", metavar="A:B", default="1:20", show_default=True, help="Run the seeds A to B, both included.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a key of the scenario; repeatable.")
@click.option("--do", "actions", metavar="ACTION", multiple=True, help="Add a line to the plan; repeatable.")
@click.option(
    "--faults",
    "random_faults",
    type=click.IntRange(0, MOST_FAULTS),
    default=0,
    help="Number of random faults in each run.",
)
@jobs_option
@click.option("--all", "show_all", is_flag=True, help="Show every figure, and its largest value.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@report_option("tables and pictures of the comparison")
def compare(
    scenario: str,
    profiles: str | None,
    assignors: str | None,
    protocols: str | None,
    seeds: str,
    settings: tuple[str, ...],
    actions: tuple[str, ...],
    random_faults: int,
    jobs: int | None,
    show_all: bool,
    form: str,
    report: Path | None,
) -> None:
    """Run the comparison, as ``kemu compare --help`` says."""
    from kemu.tools.jobs import in_order

    if report is not None:
        check_out(report, [scenario])
    notes: list[str] = []
    loaded = with_values(load_scenario(scenario), settings, left_out=notes)
    loaded = with_actions(loaded, actions) if actions else loaded
    variants = variants_of(profiles, assignors, loaded.profile, protocols)
    chosen, changes = seed_range(seeds), (settings, actions, random_faults)
    scenarios = _scenarios_of(scenario, loaded, variants, notes)
    tasks = [
        (variant, mine, seed, random_faults)
        for seed in chosen  # an interrupt then leaves runs of every variant
        for variant, mine in zip(variants, scenarios, strict=True)
    ]
    ask_before([(mine, len(chosen)) for mine in scenarios], jobs)
    runs: list[ComparedRun] = []
    interrupt = Interrupt()
    with watched_sweep() as watch:
        with (
            progress("runs", len(tasks)) as advance,
            interrupt,
            in_order(
                jobs, compared_run, tasks, _name_of, lambda run: advance(run.variant.name, run.verdict != "holds")
            ) as made,
        ):
            for (variant, mine, seed, _), run in zip(tasks, made, strict=True):
                with interrupt.deferred():
                    runs.append(run)
                    drawn = with_random_faults(mine, seed, random_faults) if random_faults else mine
                    command = _command(scenario, variant, seed, *changes)
                    watch.saw(SweptRun(drawn, seed, variant.profile, command), run.digest)
        done = len(runs) // len(variants)
        if interrupt.happened and not done:
            interrupt.exit(0, len(chosen), "seeds", form)
        ran = chosen[:done]
        rows = [
            {"scenario": loaded.name, **row_of(variant, runs[at : done * len(variants) : len(variants)])}
            for at, variant in enumerate(variants)
        ]
        for variant, row in zip(variants, rows, strict=True):
            for each in row["failing"]:
                each["command"] = _command_of_run(scenario, loaded, variant, each["seed"], *changes)
        with_differences(rows)
        if report is not None:
            compared = ComparisonReport(
                kind="compare",
                title=loaded.name,
                summary=loaded.summary,
                command=shlex.join(_words(scenario, profiles, assignors, protocols, seeds, *changes)),
                note="; ".join((_note(ran, random_faults), *notes)),
                rows=rows,
            )
            write_comparison(compared, report)
        if form == "json":
            head = {"scenario": loaded.name, "seeds": list(ran), "random_faults": random_faults, "left_out": notes}
            click.echo(json.dumps({**head, "variants": rows, **interrupt.as_dict(done, len(chosen))}, indent=2))
        else:
            title = f"{click.style(loaded.name, bold=True)}: {loaded.summary}"
            print_lines(as_text(title, ran, rows, show_all, notes))
            if report is not None:
                click.echo(f"report: {report}")
        interrupt.exit(done, len(chosen), "seeds", form)
    sys.exit(worst(verdict for row in rows for verdict in row["verdicts"]))


def _scenarios_of(source: str, loaded: Scenario, variants: Sequence[Variant], notes: list[str]) -> list[Scenario]:
    """The scenarios of the variants of ``loaded``, which ``source`` names.

    ``notes`` receives a sentence for each setting that a variant leaves out.

    Raises:
        BadInput: the scenario has no group.
        ScenarioError: the protocol of a variant cannot have the scenario.
    """
    from kemu.emulator.runner import Run

    if not loaded.groups and any(variant.assignors or variant.protocol for variant in variants):
        raise BadInput(f"{source} has no group, and the variants have assignors: give --profiles alone")
    scenarios = []
    for variant in variants:
        left_out: list[str] = []
        scenarios.append(variant.of(loaded, left_out))
        notes += [each for each in left_out if each not in notes]
        if variant.protocol:  # a prepared run has passed the checks of the release, too
            Run(scenarios[-1], seed=loaded.seed, profile=variant.profile, loop="bare")
    return scenarios


def _words(
    source: str,
    profiles: str | None,
    assignors: str | None,
    protocols: str | None,
    seeds: str,
    settings: Sequence[str],
    actions: Sequence[str],
    random_faults: int,
) -> list[str]:
    """The words of a command that compares."""
    words = ["kemu", "compare", source, *(["--profiles", profiles] if profiles else [])]
    words += ["--assignors", assignors] if assignors else []
    words += ["--protocols", protocols] if protocols else []
    words += ["--seeds", seeds]
    words += [word for setting in settings for word in ("--set", setting)]
    words += [word for action in actions for word in ("--do", action)]
    return [*words, *(["--faults", str(random_faults)] if random_faults else []), *code_words()]


def _command(
    source: str,
    variant: Variant,
    seed: int,
    settings: Sequence[str],
    actions: Sequence[str],
    random_faults: int,
) -> str:
    """The command that runs one variant with one seed."""
    profile = "+".join((variant.profile, *variant.settings))
    protocol = "+".join(filter(None, (variant.protocol, variant.assignors))) if variant.protocol else None
    assignors = None if protocol else variant.assignors
    seeds = f"{seed}:{seed}"
    return shlex.join(_words(source, profile, assignors, protocol, seeds, settings, actions, random_faults))


def _command_of_run(
    source: str,
    scenario: Scenario,
    variant: Variant,
    seed: int,
    settings: Sequence[str],
    actions: Sequence[str],
    random_faults: int,
) -> str:
    """The command that shows one run: "kemu run", or "kemu compare" if the run has random faults."""
    if random_faults:
        return _command(source, variant, seed, settings, actions, random_faults)
    request = Request(
        source=source,
        scenario=scenario,
        seeds=(seed,),
        profile=variant.profile,
        settings=(*settings, *variant.all_settings),
        actions=tuple(actions),
        loop="trio",
        trace=None,
        live=False,
    )
    return request.command_for(seed)


def _note(seeds: Sequence[int], random_faults: int) -> str:
    faults = f", {random_faults} random faults in each run" if random_faults else ""
    return f"seeds {seeds[0]} to {seeds[-1]}{faults}; a seed gives every variant the same plan, load and faults"


def variants_of(
    profiles: str | None, assignors: str | None, own: str = "", protocols: str | None = None
) -> tuple[Variant, ...]:
    """The variants of ``--profiles``, ``--assignors`` and ``--protocols``; ``own``: the profile in the scenario.

    Raises:
        click.UsageError: an unknown profile or protocol, or options that exclude each other.
    """
    if profiles is None and assignors is None and protocols is None:
        return DEFAULT_VARIANTS
    if assignors and protocols:
        raise click.UsageError("--assignors and --protocols exclude each other: write --protocols PROTOCOL+ASSIGNOR")
    kinds = [each.strip().partition("+")[::2] for each in protocols.split(",")] if protocols else []
    for protocol, _ in kinds:
        if protocol not in GROUP_PROTOCOLS:
            raise click.UsageError(f'--protocols: "{protocol}" is no protocol{nearest(protocol, GROUP_PROTOCOLS)}')
    kinds = kinds or [("", each.strip()) for each in (assignors or "").split(",")]
    default = own or DEFAULT_PROFILE
    if protocols and not _has_consumer_protocol(default):
        default = CONSUMER_PROFILE
    found = []
    for text in (profiles or default).split(","):
        name, *settings = text.strip().split("+")
        refuse_unknown_profile(name, "--profiles")
        found += [Variant(name, assignor, tuple(settings), protocol) for protocol, assignor in kinds]
    return tuple(found)


def _has_consumer_protocol(profile: str) -> bool:
    """Whether groups of the consumer protocol exist in this release."""
    return GROUP_RULES[PROFILES[profile].broker.coordinator_kind].consumer_protocol


@frozen
class ComparedRun:
    """The figures of one run of a variant, and the parts of the run's result that the comparison needs."""

    variant: Variant
    seed: int
    digest: str
    verdict: str
    reason: str
    bill: "dict[str, Value]"
    """Figure -> value."""
    faults: "tuple[FaultFired, ...]"
    """The faults of the scenario's plan, without random faults, because each run draws other random faults."""
    did_not_work: str
    causes: dict[str, int]
    """Cause -> time in which partitions waited for it, in us (``comparison.causes_of``)."""


def compared_run(variant: Variant, mine: Scenario, seed: int, random_faults: int) -> ComparedRun:
    """Run ``mine``, the scenario of a variant, with one seed. Worker processes call this function."""
    from kemu.emulator.metrics.costs import Costs
    from kemu.emulator.runner import run
    from kemu.emulator.watching.panel import Panel

    panel = Panel()
    costs = Costs(panel, {name: group.subscription for name, group in mine.groups.items()})
    drawn = with_random_faults(mine, seed, random_faults) if random_faults else mine
    result = run(drawn, seed=seed, profile=variant.profile, loop="bare", observers=(costs,), panel=panel)
    costs.finish(result.virtual_us)
    faults = result.faults[: len(mine.plan)]
    bill = costs.bill(result.figures)
    return ComparedRun(
        variant=variant,
        seed=seed,
        digest=result.digest,
        verdict=result.verdict,
        reason=result.reason,
        bill=bill,
        faults=faults,
        did_not_work=result.did_not_work,
        causes=causes_of(result.figures),
    )


def _name_of(variant: Variant, mine: Scenario, seed: int, random_faults: int) -> str:
    return f"the run of {variant.name} with seed {seed}"


def row_of(variant: Variant, runs: Sequence[ComparedRun]) -> dict[str, Any]:
    """The costs of one variant as values for JSON: a summary of each figure over all runs, and the verdicts.

    If a run of the variant did not work (``emulator.judging``), ``figures`` is empty and ``did_not_work`` has a reason.
    """
    from kemu.emulator.runner import unfired_in_all

    bills, verdicts = [run.bill for run in runs], dict(Counter(run.verdict for run in runs))
    idle = [f"seed {run.seed}: {run.did_not_work}" for run in runs if run.did_not_work]
    by_seed = {} if idle else {name: [bill[name] for bill in bills] for name in FIGURES}
    return {
        "variant": variant.name,
        **attrs.asdict(variant),
        "seeds": [run.seed for run in runs],
        "runs": len(bills),
        "verdicts": verdicts,
        "figures": {name: summary_of(values) for name, values in by_seed.items()},
        "by_seed": by_seed,
        "causes": {} if idle else dict(sum((Counter(run.causes) for run in runs), Counter())),
        "failing": [
            {"seed": run.seed, "verdict": run.verdict, "reason": run.reason, "command": "", "page": ""}
            for run in runs
            if run.verdict != "holds"
        ],
        "did_not_work": f"in {len(idle)} of {len(bills)} runs; {idle[0]}" if idle else "",
        "never_fired": [fault.text for fault in unfired_in_all([run.faults for run in runs])],
    }
