"""``kemu explain`` prints a trace as text, or as one JSON object for each entry."""

import json
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import click

from kemu.emulator.text.tables import printable
from kemu.emulator.text.units import duration_us
from kemu.emulator.trace.traces import read_runs
from kemu.protocol.names import host_of
from kemu.tools.errors import BadInput
from kemu.tools.output import is_read
from kemu.tools.report.layout import fold, terminal_width
from kemu.tools.report.transcript import LEGEND, Entry, entries_of

FRAME = ("header", "footer", "torn")
"""Kinds of entries that every filter keeps."""
CONTEXT = 10
"""Default number of neighbours before and after a step or a violation."""
HANG = 24
"""Indentation of continued lines."""


class _Time(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert "12.5s" to microseconds."""
        if isinstance(value, int):
            return value
        try:
            return duration_us(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Pattern(click.ParamType):  # type: ignore[type-arg,unused-ignore]
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
    "--actor", "actors", multiple=True, help="Print only this actor or host (c1, b0/coordinator); repeatable."
)
@click.option("--from", "from_us", type=_Time(), help='Print only entries from this virtual time on ("12.5s").')
@click.option("--to", "to_us", type=_Time(), help="Print only entries up to this virtual time.")
@click.option("--grep", "pattern", type=_Pattern(), help="Print only entries that match this regular expression.")
@click.option(
    "--step", type=click.IntRange(min=0), metavar="N", help="Print the step with this number and its neighbours."
)
@click.option("--around", type=click.Choice(["violation"]), help="Print each violation and its neighbours.")
@click.option(
    "--context", type=click.IntRange(min=0), default=CONTEXT, show_default=True, metavar="N",
    help="With --step or --around: the number of neighbours on each side.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain(
    trace: Path,
    actors: tuple[str, ...],
    from_us: int | None,
    to_us: int | None,
    pattern: "re.Pattern[str] | None",
    step: int | None,
    around: str | None,
    context: int,
    form: str,
) -> None:
    """Print TRACE as text: a line for each step, followed by the effects and notes of the step.

    With --format json, each line is one JSON object. For a torn file, the command prints the complete records
    before the error.
    """
    if from_us is not None and to_us is not None and from_us > to_us:
        raise click.UsageError("--from is later than --to: no time lies between them")
    if step is not None and around is not None:
        raise click.UsageError("--step and --around exclude each other: give one")
    torn = ""
    known: set[str] = set()
    entries = explained(trace, actors, from_us, to_us, pattern, known)
    place = _Place(step, around) if step is not None or around is not None else None
    if place is not None:
        entries = place.near(entries, context)
    shown = False
    for entry in entries:
        if form == "text" and not shown:
            click.echo(LEGEND)
        shown = True
        if not is_read():
            return
        if entry.data["kind"] == "torn":
            torn = entry.lines[0]
        if form == "json":
            click.echo(json.dumps(entry.data))
        elif entry.data["kind"] != "torn":
            _print(entry)
    if torn:
        raise BadInput(f"{trace}: {torn}")
    missing = [actor for actor in actors if actor not in known]
    if missing:
        hosts = sorted({host_of(actor) for actor in known}, key=_by_number)
        raise BadInput(f"{trace}: the trace has no actor {', '.join(missing)}; the hosts are {', '.join(hosts)}")
    if place is not None and not place.found:
        raise BadInput(f"{trace}: {place.missing}")


def _print(entry: Entry) -> None:
    width = terminal_width()
    for line in entry.lines:
        for part in fold(printable(line), width, HANG):
            click.echo(part)


def _by_number(host: str) -> tuple[str, int]:
    """Sort key of hosts that puts c2 before c10."""
    letters = host.rstrip("0123456789")
    return letters, int(host[len(letters) :] or 0)


class _Place:
    """A filter for the neighbours of one step, or of all violations."""

    def __init__(self, step: int | None, around: str | None) -> None:
        self._step = step
        self.found = False
        self.missing = f"the trace has no step {step}" if around is None else "the trace has no violation"

    def near(self, entries: Iterator[Entry], context: int) -> Iterator[Entry]:
        """Yield the step or violations with ``context`` entries before and after, and all entries of ``FRAME``."""
        before: deque[Entry] = deque(maxlen=context)
        after = 0
        for entry in entries:
            if entry.data["kind"] in FRAME:
                before.clear()
                yield entry
            elif self._is_here(entry):
                self.found = True
                yield from before
                before.clear()
                after = context
                yield entry
            elif after:
                after -= 1
                yield entry
            else:
                before.append(entry)

    def _is_here(self, entry: Entry) -> bool:
        if self._step is None:
            return entry.data["kind"] in ("violation", "broken")
        return entry.data["kind"] in ("step", "broken") and entry.data["seq"] == self._step


def explained(
    path: Path,
    actors: tuple[str, ...] = (),
    from_us: int | None = None,
    to_us: int | None = None,
    pattern: "re.Pattern[str] | None" = None,
    known: set[str] | None = None,
) -> Iterator[Entry]:
    """Yield the entries of all runs of a file that match the filters, and all headers and footers.

    ``actors``: actors or hosts ("b0" includes "b0/coordinator"); empty for all. ``from_us`` and ``to_us`` are virtual
    times. ``pattern`` must match a line of the entry. The function adds the names of all actors and hosts to ``known``.

    Raises:
        TraceError: the file is no trace, or is damaged.
        OSError: the file cannot be read.
    """
    wanted = frozenset(actors)
    for run in read_runs(path):
        for entry in entries_of(run):
            if known is not None:
                for actor in entry.actors:
                    known |= {actor, host_of(actor)}
            if entry.data["kind"] in FRAME or _passes(entry, wanted, from_us, to_us, pattern):
                yield entry


def _passes(
    entry: Entry,
    actors: frozenset[str],
    from_us: int | None,
    to_us: int | None,
    pattern: "re.Pattern[str] | None",
) -> bool:
    if (from_us is not None and entry.at_us < from_us) or (to_us is not None and entry.at_us > to_us):
        return False
    if actors and entry.actors and not any(actor in actors or host_of(actor) in actors for actor in entry.actors):
        return False
    return pattern is None or any(pattern.search(line) for line in entry.lines)
