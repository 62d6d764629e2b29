"""``kemu bugs`` lists past bugs of Kafka, and runs a bug's scenario with the past rule and with today's rule."""

import json
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kemu.emulator.past_bugs.bug import PastBug
from kemu.emulator.past_bugs.registry import PAST_BUGS, bug_named, names, scenario_data, scenario_text
from kemu.emulator.text.tables import nearest
from kemu.protocol.frozen import evolve, frozen
from kemu.tools.commands.run_options import SEED, jobs_option, report_option, seed_range
from kemu.tools.estimate import ask_before
from kemu.tools.exits import NOT_FOUND_AGAIN, OF_VERDICT
from kemu.tools.files import check_out
from kemu.tools.interrupt import Interrupt
from kemu.tools.progress import progress
from kemu.tools.report.layout import TableColumn, print_lines, table, terminal_width

if TYPE_CHECKING:
    from kemu.emulator.findings import Violation
    from kemu.emulator.runner import RunResult
    from kemu.emulator.scenario.scenario import Scenario
    from kemu.tools.report.story import StoryLine

WIDE = 110
"""Width in characters from which the list of bugs also has the columns of component and checker."""
MOST_LINES = 60
"""Maximum number of printed lines of the story with the past rule; the middle of a longer story is left out."""
MOST_VIOLATIONS = 6
TAIL_US = 2_000_000
"""Virtual time after the first violation at which the printed story ends, in us."""


@click.command()
@click.argument("bug", required=False, metavar="[ID]")
@click.option("--seed", type=SEED, help="Run another seed than the scenario's, which is known to show the bug.")
@click.option("--scenario", "show", is_flag=True, help="Print the scenario that shows the bug (TOML), and run nothing.")
@click.option(
    "--find", "finding", is_flag=True, help="Count the seeds until a checker catches the bug; without ID, for each bug."
)
@click.option("--seeds", metavar="A:B", help="With --find: search these seeds, in five ranges (default: 1:100).")
@click.option(
    "--plans",
    type=click.Choice(["own", "random", "swarm"]),
    help="With --find: run the scenario's plan (own, the default), random faults, or a random scenario (swarm).",
)
@jobs_option
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the trace of the run with the past rule to this file.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@report_option("the pictures of the run with the past rule")
def bugs(
    bug: str | None,
    seed: int | None,
    show: bool,
    finding: bool,
    seeds: str | None,
    plans: str | None,
    jobs: int | None,
    trace: Path | None,
    form: str,
    report: Path | None,
) -> None:
    """List the past bugs of Kafka that kemu can emulate; with ID, show the effect of one bug.

    ID is an issue (KAFKA-7152) or the past rule's name (shrink-idle). The command runs the bug's scenario twice. With
    the past rule, a checker must catch the bug. With today's rule, no checker may find a violation.

    With --find, count the seeds until the bug is caught in each of five ranges of --seeds, and print the median.

    Exit code 1 says that no checker caught the bug: another --seed may miss the bug. The codes of "kemu run" say that
    there is a violation with today's rule.
    """
    if finding:
        if seed is not None or show or trace is not None or report is not None:
            raise click.UsageError("--find accepts only an ID, --seeds, --plans, --jobs and --format")
        chosen = [_found(bug)] if bug is not None else list(PAST_BUGS.values())
        _find(chosen, seeds or "1:100", plans or "own", form, jobs)
        return
    if seeds is not None or plans is not None:
        raise click.UsageError("--seeds and --plans need --find")
    if bug is None:
        if seed is not None or show or trace is not None or report is not None:
            raise click.UsageError("--seed, --scenario, --trace and --report need the ID of a bug")
        _list(form)
        return
    found = _found(bug)
    if show:
        click.echo(scenario_text(found.issue), nl=False)
        return
    if report is not None:
        check_out(report)
    shown = show_bug(found, seed, trace)
    if report is not None:
        from kemu.tools.report.drawn_run import draw_run

        draw_run(shown.scenario, report, shown.command, seed=shown.past.seed)
    if form == "json":
        click.echo(json.dumps(_as_dict(shown), indent=2))
    else:
        print_lines(_as_text(shown, trace))
        if report is not None:
            click.echo(f"report: {report}")
    sys.exit(shown.exit_code)


def _found(name: str) -> PastBug:
    found = bug_named(name)
    if found is None:
        raise click.UsageError(f'"{name}" is no past bug{_hint(name)}')
    return found


def _hint(name: str) -> str:
    """A hint with the most similar name, or with the issue that has the most digits in common."""
    digits = name.upper().removeprefix("KAFKA-")
    if not digits.isdigit():
        return nearest(name.lower(), names()) or "; kemu bugs lists them"
    alike = {
        issue: sum(a == b for a, b in zip(issue.removeprefix("KAFKA-"), digits, strict=False)) for issue in PAST_BUGS
    }
    return f'; did you mean "{max(alike, key=alike.__getitem__)}"? kemu bugs lists them'


@frozen
class Shown:
    """Two runs of a bug's scenario: ``past`` has the past rule (with its story ``lines``), ``today`` today's rule."""

    bug: PastBug
    scenario: "Scenario"
    past: "RunResult"
    lines: "tuple[StoryLine, ...]"
    today: "RunResult"

    @property
    def caught(self) -> "tuple[Violation, ...]":
        """The violations of the kind that the bug must cause."""
        return tuple(
            each for each in self.past.violations if (each.checker, each.kind) == (self.bug.caught_by, self.bug.kind)
        )

    @property
    def exit_code(self) -> int:
        """The exit code of ``kemu bugs``."""
        if self.today.verdict != "holds":
            return OF_VERDICT[self.today.verdict]
        return 0 if self.caught else NOT_FOUND_AGAIN

    @property
    def command(self) -> str:
        """The command that repeats the run with the past rule."""
        return f"kemu run {self.bug.issue} --seed {self.past.seed}"


def show_bug(bug: PastBug, seed: int | None = None, trace: Path | None = None) -> Shown:
    """Run the scenario of a bug with the past rule and with today's rule, with the same seed."""
    from kemu.emulator.runner import run
    from kemu.emulator.scenario.files import load_scenario
    from kemu.tools.report.story import Story

    scenario = load_scenario(bug.issue)
    chosen = scenario.seed if seed is None else seed
    story = Story()
    past = run(scenario, seed=chosen, loop="bare", observers=(story,), trace=trace)
    today = run(without(scenario, bug.issue), seed=chosen, loop="bare")
    return Shown(bug, scenario, past, tuple(story.lines), today)


def without(scenario: "Scenario", issue: str) -> "Scenario":
    """The scenario without this bug, but with its other bugs."""
    return evolve(scenario, bugs=tuple(each for each in scenario.bugs if each != issue))


# --- the list ------------------------------------------------------------------------------------------------------


def _list(form: str) -> None:
    if form == "json":
        click.echo(json.dumps([_described(bug) for bug in PAST_BUGS.values()], indent=2))
        return
    rows = [
        (bug.issue, bug.where.value, bug.fixed_in, f"{bug.caught_by} ({bug.kind})", bug.summary)
        for bug in PAST_BUGS.values()
    ]
    heads = ("issue", "component", "fixed in", "caught by", "defect")
    if terminal_width() >= WIDE:
        columns = [TableColumn(head, wraps=head == heads[-1]) for head in heads]
        print_lines(table(columns, rows, indent=0))
    else:
        columns = [TableColumn(heads[0]), TableColumn(heads[2]), TableColumn(heads[-1], wraps=True)]
        print_lines(table(columns, [(row[0], row[2], row[-1]) for row in rows], indent=0))
    print_lines(["", f'{len(rows)} past bugs; "kemu bugs ID" shows the effect of one, and that today\'s rule holds'])


def _described(bug: PastBug) -> dict[str, Any]:
    return {
        "issue": bug.issue,
        "rule": bug.rule,
        "component": bug.where.value,
        "fixed_in": bug.fixed_in,
        "summary": bug.summary,
        "story": bug.story,
        "was": bug.was,
        "today": bug.today,
        "caught_by": bug.caught_by,
        "kind": bug.kind,
        "seed": scenario_data(bug.issue)["seed"],
        "scenario": bug.issue,
    }


# --- seeds to find ------------------------------------------------------------------------------------------------


def _find(chosen: Sequence[PastBug], seeds: str, plans: str, form: str, jobs: int | None) -> None:
    """Count the seeds until each bug is caught; print each bug's line at once, or JSON at the end."""
    from kemu.emulator.scenario.files import load_scenario
    from kemu.tools.finding import STRETCHES, SeedsToFind, first_find, stretches
    from kemu.tools.jobs import in_order

    given = seed_range(seeds)
    if len(given) < STRETCHES:
        raise click.UsageError(f'--seeds "{seeds}" must be at least {STRETCHES} seeds: one for each stretch')
    rows: list[dict[str, Any]] = []
    parts = stretches(given)
    tasks = [(bug.issue, plans, part) for bug in chosen for part in parts]
    ask_before([(load_scenario(bug.issue), len(given)) for bug in chosen], jobs, upper=True)
    interrupt = Interrupt()
    with (
        progress("stretches", len(tasks)) as advance,
        interrupt,
        in_order(jobs, first_find, tasks, _name_of, lambda first: advance("", first is None)) as made,
    ):
        for bug in chosen:
            firsts = tuple(next(made) for _ in parts)
            with interrupt.deferred():
                found = SeedsToFind(bug, len(parts[0]), firsts)
                rows.append({"issue": bug.issue, "plans": plans, "stretch": found.stretch, "seeds": list(found.seeds)})
                rows[-1]["median"] = found.median
                if form == "text":
                    each = ", ".join("-" if seed is None else str(seed) for seed in found.seeds)
                    middle = f"more than {found.stretch}" if found.median is None else str(found.median)
                    print_lines(
                        [f"{bug.issue:12} median {middle:14} of {each} (stretches of {found.stretch} seeds, {plans})"]
                    )
    if form == "json":
        click.echo(json.dumps(rows, indent=2))
    interrupt.exit(len(rows), len(chosen), "bugs", form)


def _name_of(issue: str, plans: str, part: range) -> str:
    return f"the search for {issue} in seeds {part[0]} to {part[-1]}"


# --- one bug -------------------------------------------------------------------------------------------------------


def _as_dict(shown: Shown) -> dict[str, Any]:
    from kemu.tools.report.run_report import as_dict

    return {
        **_described(shown.bug),
        "seed": shown.past.seed,
        "caught": bool(shown.caught),
        "command": shown.command,
        "past_run": as_dict(shown.past),
        "today_run": as_dict(shown.today),
    }


def _as_text(shown: Shown, trace: Path | None) -> Iterable[str]:
    bug, past = shown.bug, shown.past
    yield f"{click.style(bug.issue, bold=True)} ({bug.rule}), fixed in Kafka {bug.fixed_in}: {bug.summary}"
    yield ""
    yield from textwrap.wrap(bug.story, terminal_width())
    yield f"  was:   {bug.was}"
    yield f"  today: {bug.today}"
    yield ""
    yield click.style("With the past rule", bold=True) + f": {shown.scenario.summary}  (seed {past.seed})"
    yield from _marked_story(shown)
    yield ""
    if shown.caught:
        others = len(past.violations) - len(shown.caught)
        also = f"; violations in all: {len(past.violations)}" if others else ""
        yield f"  caught by {click.style(bug.caught_by, fg='red', bold=True)} as {bug.kind}{also}"
    else:
        yield click.style(f"  not caught by {bug.caught_by} as {bug.kind} under seed {past.seed}", fg="yellow")
    yield f"  repeat with: {shown.command}"
    if trace is not None:
        yield f"  trace: {trace}"
        yield f"  read the trace with: kemu explain {trace}{' --around violation' if shown.caught else ''}"
    yield ""
    yield f"{click.style('With the rule of today', bold=True)}, the same scenario and seed"
    if shown.today.verdict == "holds":
        yield f"  {click.style('holds', fg='green', bold=True)}"
    else:
        yield f"  {click.style(shown.today.verdict, fg='red', bold=True)}: {shown.today.reason}"
    still_on = json.dumps(without(shown.scenario, bug.issue).bugs)
    yield f"  repeat with: {shown.command} --set 'bugs={still_on}'"


def _marked_story(shown: Shown) -> Iterable[str]:
    """The story with its violations, until ``TAIL_US`` after the first violation that shows the bug."""
    from kemu.tools.report.story import clock_text

    violations = sorted(shown.past.violations, key=lambda each: (each.at_us, each.seq))
    first = [each for each in violations if each in shown.caught][:1]
    until_us = first[0].at_us + TAIL_US if first else shown.past.virtual_us
    marked = [(line.at_us, line.text(), False) for line in shown.lines if line.at_us <= until_us]
    others = [each for each in violations if each not in first and each.at_us <= until_us]
    for each in (*first, *others[: MOST_VIOLATIONS - 1]):
        marked.append((each.at_us, f"{each.checker} ({each.kind}): {each.text}", True))
    marked.sort(key=lambda row: row[0])
    half = MOST_LINES // 2
    for number, (at_us, text, wrong) in enumerate(marked):
        if len(marked) <= MOST_LINES or number < half or number >= len(marked) - half:
            yield f"  {clock_text(at_us)}  {click.style(text, fg='red') if wrong else text}"
        elif number == half:
            yield f"  ... {len(marked) - 2 * half} lines left out; {shown.command} prints all"
