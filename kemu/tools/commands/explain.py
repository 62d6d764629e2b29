"""``kemu explain``: a trace as a transcript."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kemu.emulator.text.units import duration_us
from kemu.emulator.trace.blocks import TraceError
from kemu.emulator.trace.traces import read_runs
from kemu.protocol.names import host_of
from kemu.protocol.wire.codec import CodecError
from kemu.tools.exits import BAD_INPUT
from kemu.tools.report.transcript import LEGEND, Entry, entries_of

FRAME = ("header", "footer", "torn")
"""Kinds of entries that no filter takes away."""


class _BadTrace(click.ClickException):
    exit_code = BAD_INPUT


class _Time(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Microseconds of "12.5s"."""
        if isinstance(value, int):
            return value
        try:
            return duration_us(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Pattern(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "regex"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> "re.Pattern[str]":
        """A compiled regular expression."""
        try:
            return re.compile(str(value))
        except re.error as error:
            self.fail(f"{value!r} is no regular expression: {error}", param, ctx)


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--actor", "actors", multiple=True, help="Only this actor or host (c1, b0/coordinator); repeatable.")
@click.option("--from", "from_us", type=_Time(), help='Only from this time of the run on ("12.5s").')
@click.option("--to", "to_us", type=_Time(), help="Only up to this time of the run.")
@click.option("--grep", "pattern", type=_Pattern(), help="Only what matches this regular expression.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain(
    trace: Path,
    actors: tuple[str, ...],
    from_us: int | None,
    to_us: int | None,
    pattern: "re.Pattern[str] | None",
    form: str,
) -> None:
    """Print TRACE as a transcript: one line per step, its notes below it (json: one object per line).

    Exit code 2: the file is no trace, is damaged, or is torn (then all that is whole is printed first).
    """
    torn = ""
    known: set[str] = set()
    try:
        if form == "text":
            click.echo(LEGEND)
        for entry in explained(trace, actors, from_us, to_us, pattern, known):
            if entry.data["kind"] == "torn":
                torn = entry.lines[0]
            if form == "json":
                click.echo(json.dumps(entry.data))
            elif entry.data["kind"] != "torn":
                click.echo("\n".join(entry.lines))
    except (TraceError, CodecError) as error:
        raise _BadTrace(str(error) if str(trace) in str(error) else f"{trace}: {error}") from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise _BadTrace(f"{trace}: {error.strerror}") from None
    if torn:
        raise _BadTrace(f"{trace}: {torn}")
    missing = [actor for actor in actors if actor not in known]
    if missing:
        click.echo(f"{trace}: nothing in it of {', '.join(missing)}", err=True)
        sys.exit(BAD_INPUT)


def explained(
    path: Path,
    actors: tuple[str, ...] = (),
    from_us: int | None = None,
    to_us: int | None = None,
    pattern: "re.Pattern[str] | None" = None,
    known: set[str] | None = None,
) -> Iterator[Entry]:
    """The entries of all runs of a file that pass the filters; header and footer always do.

    Args:
        path: the trace file.
        actors: actors or hosts ("b0" is also its "b0/coordinator"); empty for all.
        from_us: earliest time of the world.
        to_us: latest.
        pattern: must be found in one of the entry's lines.
        known: filled with the names of the actors and hosts the file speaks of.

    Raises:
        TraceError: no trace, or damaged.
        CodecError: something in it cannot be read.
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
