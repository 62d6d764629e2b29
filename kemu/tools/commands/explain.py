"""``kemu explain`` prints a trace as text, or as one JSON object for each entry."""

import json
import re
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import click

from kemu.emulator.text.tables import printable
from kemu.emulator.trace.index import LAST, Window, windows_around
from kemu.emulator.trace.traces import Trace, read_runs, read_trace
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.names import host_of
from kemu.protocol.profiles import PROFILES
from kemu.tools.commands.durations import TRACE_TIME
from kemu.tools.commands.run_options import MOST_STEPS
from kemu.tools.errors import BadInput
from kemu.tools.incident.from_trace import events_of_trace
from kemu.tools.logs.writing import log_lines, logging_host
from kemu.tools.pager import Printer, paged
from kemu.tools.report.layout import TableColumn, fold, natural, print_lines, table, terminal_width
from kemu.tools.report.transcript import FRAME, LEGEND, SHORT, WHOLE, Entry, entries_of, labels_of

CONTEXT = 10
"""Default number of steps before and after a step or a violation."""
WHO = "?"
"""Value of ``--actor`` without a name."""
COLOURS = {
    "violation": "red", "broken": "red", "fact": "magenta", "packet": "yellow", "LinkDown": "yellow",
    "Hangup": "yellow", "Note": "cyan", "Received": "green", "Send": "green", "Told": "blue",
    "TimerFired": "bright_black", "StartTimer": "bright_black", "StopTimer": "bright_black",
}  # fmt: skip
"""Kind of a record, an event or an effect -> colour of its line on a terminal."""
HANG = 24
"""Indentation of continued lines."""


class _Pattern(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    name = "regex"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> "re.Pattern[str]":
        """Compile a regular expression."""
        try:
            return re.compile(str(value))
        except re.error as error:
            self.fail(f"{value!r} is no regular expression: {error}", param, ctx)


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--actor", "actors", multiple=True, is_flag=False, flag_value=WHO, metavar="[NAME]",
    help="Print only this actor or host (c1, b0/coordinator); repeatable. Without NAME: list the actors.",
)  # fmt: skip
@click.option("--from", "from_us", type=TRACE_TIME, help='Print only entries from this virtual time on ("12.5s").')
@click.option("--to", "to_us", type=TRACE_TIME, help="Print only entries up to this virtual time.")
@click.option("--grep", "pattern", type=_Pattern(), help="Print only entries that match this regular expression.")
@click.option(
    "--step",
    type=click.IntRange(0, MOST_STEPS),
    metavar="N",
    help="Print the step with this number and its neighbours.",
)
@click.option("--around", type=click.Choice(["violation"]), help="Print each violation after its step, and neighbours.")
@click.option(
    "--context", type=click.IntRange(0, MOST_STEPS), default=CONTEXT, show_default=True, metavar="N",
    help="With --step or --around: the number of steps on each side.",
)  # fmt: skip
@click.option("--verify", is_flag=True, help="Check the whole file, and print only the beginning and end of each run.")
@click.option("--verbose", is_flag=True, help="Print long values and messages whole.")
@click.option("--no-pager", is_flag=True, help="Use no pager on a terminal (default: PAGER, or less).")
@click.option("--format", "form", type=click.Choice(["text", "json", "log"]), default="text", show_default=True)
def explain(
    trace: Path,
    actors: tuple[str, ...],
    from_us: int | None,
    to_us: int | None,
    pattern: "re.Pattern[str] | None",
    step: int | None,
    around: str | None,
    context: int,
    verify: bool,
    verbose: bool,
    no_pager: bool,
    form: str,
) -> None:
    """Print TRACE as text: a line for each step, followed by the effects and notes of the step.

    With --format log, the command prints what brokers and Java clients of the run's release log about groups. "kemu
    import-log" reads these lines. Time 0 is 1970-01-01 UTC. --actor takes hosts.

    With --format json, each line is one JSON object. For a torn file, the command prints the complete records
    before the error. Long values are cut, but not with --verbose, --grep or JSON.

    With --actor, --step, --around, --from or --to, the command reads only the index of the trace and the blocks that it
    needs. The command checks the index, these blocks and the footer. Without these options, and with --verify, the
    command checks the whole file, as "kemu report" and "kemu replay" do. --grep alone, and --format log, read the whole
    file.
    """
    if from_us is not None and to_us is not None and from_us > to_us:
        raise click.UsageError("--from is later than --to: no time lies between them")
    if step is not None and around is not None:
        raise click.UsageError("--step and --around exclude each other: give one")
    is_part = bool(actors) or any(each is not None for each in (from_us, to_us, step, around))
    if verify and (is_part or pattern):
        raise click.UsageError("--verify checks the whole file: give no filter")
    if form == "log":
        if step is not None or around is not None or verify:
            raise click.UsageError("--format log has no steps: filter by --actor, --from, --to or --grep")
        if WHO not in actors:
            _print_log(trace, actors, range(from_us or 0, LAST if to_us is None else to_us + 1), pattern)
            return
    if is_part:
        _say_without_index(trace)
    if actors:
        who = _steps_of(trace)
        if WHO in actors:
            _print_actors(who, form, labels_of(read_trace(trace).header))
            return
        _check_actors(trace, actors, who)
    asked = _Asked(actors, from_us or 0, LAST if to_us is None else to_us, step, around, context)
    limits = WHOLE if verbose or pattern is not None else SHORT
    found, torn, legend = False, "", LEGEND if form == "text" and not verify else ""
    with paged(form == "text" and not verify and not no_pager) as printer:
        for run in read_runs(trace):
            windows = asked.windows(run) if is_part else None
            found |= windows != []
            for entry in entries_of(run, windows, actors, limits):
                kind = entry.data["kind"]
                if kind not in FRAME and (verify or not (pattern is None or any(map(pattern.search, entry.lines)))):
                    continue
                if legend:
                    printer.line(legend)
                    legend = ""
                if not printer.is_read:
                    return
                if kind == "torn":
                    torn = entry.lines[0]
                if form == "json":
                    printer.line(json.dumps(entry.data))
                elif kind != "torn":
                    _print(entry, printer, is_asked=step is not None and entry.data.get("seq") == step)
    if torn:
        raise BadInput(f"{trace}: {torn}")
    if not found:
        raise BadInput(f"{trace}: the trace has no {'violation' if step is None else f'step {step}'}")


def _print_log(trace: Path, actors: tuple[str, ...], times: range, pattern: "re.Pattern[str] | None") -> None:
    """Print the records that the hosts of the first run would log."""
    if actors:
        _check_actors(trace, actors, _steps_of(trace))
    hosts = {host_of(actor) for actor in actors}
    run = next(iter(read_runs(trace)))
    release = ".".join(map(str, PROFILES[run.header.profile].release))
    events = (
        event for event in events_of_trace(run) if event.at_us in times and (not hosts or logging_host(event) in hosts)
    )
    for line in log_lines(events, release):
        if pattern is None or pattern.search(line):
            click.echo(printable(line))
    run.footer()  # a torn trace is an error, after its output


@frozen
class _Asked:
    """The filters of a call."""

    actors: tuple[str, ...]
    from_us: int
    to_us: int
    step: int | None
    around: str | None
    context: int

    def windows(self, run: Trace) -> list[Window]:
        """Return the parts of a run to print; empty if the run has no such step or no violation."""
        times = Window(from_us=self.from_us, to_us=self.to_us)
        if self.step is None and self.around is None:
            return [times]
        with run.interpreted():
            steps = [each.seq for each in run.survey().findings] if self.step is None else [self.step]
            if self.step is not None and not run.has_step(self.step):
                return []
        near = windows_around(steps, self.context)
        return [evolve(window, from_us=self.from_us, to_us=self.to_us) for window in near]


def _say_without_index(trace: Path) -> None:
    """Say on standard error that the whole file must be read."""
    if any(run.index is None for run in read_runs(trace)):
        why = "an earlier kemu wrote the file, its run was interrupted, or the end of the file is damaged"
        click.echo(f"{trace} has no index, so the whole file is read ({why})", err=True)


def _steps_of(trace: Path) -> dict[str, int]:
    """The actors of all runs, and the numbers of their steps."""
    total: dict[str, int] = {}
    for run in read_runs(trace):
        with run.interpreted():
            for actor, steps in run.survey().steps_of.items():
                total[actor] = total.get(actor, 0) + steps
    return dict(sorted(total.items(), key=lambda row: natural(row[0])))


def _print_actors(steps_of: dict[str, int], form: str, labels: dict[str, str]) -> None:
    if form == "json":
        for actor, steps in steps_of.items():
            named = {"label": labels[actor]} if actor in labels else {}
            click.echo(json.dumps({"actor": actor, "steps": steps, **named}))
        return
    columns = [TableColumn("actor"), TableColumn("steps", right=True), *([TableColumn("label")] if labels else [])]
    rows = [[printable(actor), f"{steps:,}", labels.get(actor, "")] for actor, steps in steps_of.items()]
    print_lines(table(columns, [row[: len(columns)] for row in rows], indent=0))


def _check_actors(trace: Path, actors: tuple[str, ...], steps_of: dict[str, int]) -> None:
    """Refuse an actor that the trace does not have."""
    hosts = sorted({host_of(actor) for actor in steps_of}, key=natural)
    missing = [actor for actor in actors if actor not in steps_of and actor not in hosts]
    if missing:
        more = '; "--actor" without a name lists all actors'
        raise BadInput(f"{trace}: the trace has no actor {', '.join(missing)}; the hosts are {', '.join(hosts)}{more}")


def _print(entry: Entry, printer: Printer, *, is_asked: bool) -> None:
    """Print an entry; the asked step is bold."""
    width = terminal_width()
    for line, colour in zip(entry.lines, _colours(entry), strict=False):
        for part in fold(printable(line), width, HANG):
            printer.line(click.style(part, fg=colour, bold=is_asked or None) if colour or is_asked else part)


def _colours(entry: Entry) -> Iterator[str | None]:
    """The colours of the lines of an entry, by the kinds of the record, its event and its effects."""
    kind = entry.data["kind"]
    if kind == "step":
        yield COLOURS.get(entry.data["event"]["name"])
        for effect in entry.data["effects"]:
            yield COLOURS.get(effect["name"])
    elif kind == "footer":
        yield "green" if entry.data["verdict"] == "holds" else "red"
    else:
        yield from repeat(COLOURS.get(kind))
