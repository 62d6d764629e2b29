"""``kemu import-log`` reads logs of brokers and clients: events, a timeline of generations, or a trace."""

import json
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from kemu.emulator.runner import package_version
from kemu.emulator.text.tables import printable
from kemu.tools.commands.log_report import write_log_page
from kemu.tools.commands.pipeline_errors import clear_errors
from kemu.tools.commands.run_options import report_option
from kemu.tools.errors import BadInput
from kemu.tools.files import check_out
from kemu.tools.incident.imported import ImportedLogs
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.timeline import timeline_lines
from kemu.tools.logs.account import account_lines
from kemu.tools.logs.clocks import Clocks
from kemu.tools.logs.dialects import DIALECTS
from kemu.tools.logs.events import Event
from kemu.tools.logs.facts import UNCERTAIN_US, LogFacts, facts_of_events
from kemu.tools.logs.folders import log_files, skipped_lines
from kemu.tools.logs.parts import ReadLogs, parts_of
from kemu.tools.logs.reading import LogSummary
from kemu.tools.logs.recorded import write_log_trace
from kemu.tools.logs.wrappers.times import zone_offset

_PRINTED_AT_ONCE = 200
"""Events that are printed with one call."""


@click.command("import-log")
@click.argument("files", metavar="FILE|FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(["auto", *DIALECTS]), default=("auto",), show_default=True,
    help="Look only for the wordings of this program; repeatable.",
)  # fmt: skip
@click.option(
    "--zone", "zones", multiple=True, metavar="[FILE=]ZONE",
    help="Time zone of times without one: +02:00 or Europe/Berlin; with FILE= of this file only (default: UTC).",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the facts as a trace, for kemu explain and kemu report.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json", "events"]), default="text", show_default=True)
@click.option("--master", help="Read the parts of large logs on Spark, on this master, such as local[*].")
@click.option("--memory", default="1g", show_default=True, help="Heap of the driver's JVM, with --master.")
@report_option("the picture of the facts")
def import_log(
    files: tuple[Path, ...],
    kinds: tuple[str, ...],
    zones: tuple[str, ...],
    out: Path | None,
    form: str,
    master: str | None,
    memory: str,
    report: Path | None,
) -> None:
    """Read logs of brokers and clients of Kafka; FILE may be - (standard input) or packed with gzip.

    Of a FOLDER, the command reads each file with lines that have a time or a level, and lists the other files.

    \b
    kemu import-log server.log consumer-1.log consumer-2.log
    kemu import-log server.log --format events > events.jsonl
    kemu import-log *.log --out incident.kemu && kemu report incident.kemu

    The text is a table of the generations of each group, and an account of each file. The account states the programs
    that wrote the file, the releases that its words allow, and the messages that kemu did not understand.

    JSON has the generations, the account and the offsets of clocks.

    With ``--format events``, the account is on standard error. Standard output has one JSON object for each understood
    record, and memory does not grow with the logs. ``--master`` reads parts of 16 MB side by side, with equal results.
    """  # noqa: D301 (click's own mark)
    chosen = tuple(kind for kind in kinds if kind != "auto")
    paths, skipped = log_files(files)
    for written in filter(None, (out, report)):
        check_out(written, paths)
    logs = ReadLogs(parts_of(paths, chosen, _zones(zones, paths)))
    clocks = Clocks()
    kept: list[Event] = []
    understood = False
    with _read(logs, master, memory) as events:
        for event in _printed(events) if form == "events" else events:
            understood = True
            clocks.take(event)
            if form != "events" or out is not None or report is not None:
                kept.append(event)
    offsets = clocks.offsets()
    if form == "text":
        for line in timeline_lines(Incident(kept).generations):
            click.echo(printable(line))
    elif form == "json":
        click.echo(json.dumps(ImportedLogs(tuple(kept), tuple(logs.summaries), tuple(offsets)).as_json(), indent=2))
    for line in [*_account(logs.summaries, [offset.text for offset in offsets]), *skipped_lines(skipped)]:
        click.echo(printable(line), err=form != "text")
    if kept and (out is not None or report is not None):
        facts = facts_of_events(kept, offsets)
        if out is not None:
            _write(out, facts, logs.summaries, form)
        if report is not None:
            words = ["kemu", "import-log", *map(str, files), "--report", str(report)]
            write_log_page(facts, logs.summaries, report, shlex.join(words))
            click.echo(f"report: {report}", err=form != "text")
    if not understood:
        names = ", ".join(map(str, files))
        raise BadInput(f"{names}: no record is of a known wording; --format text lists the shapes of the messages")


def _printed(events: Iterable[Event]) -> Iterator[Event]:
    """The events; each is printed as a JSON object, to a terminal at once, else in batches."""
    encode = json.JSONEncoder().encode
    most = 1 if sys.stdout.isatty() else _PRINTED_AT_ONCE
    lines: list[str] = []
    try:
        for event in events:
            lines.append(encode(event.as_json()))
            yield event
            if len(lines) >= most:
                text = "\n".join(lines)
                lines.clear()
                click.echo(text)
    finally:
        if lines:
            click.echo("\n".join(lines))


@contextmanager
def _read(logs: ReadLogs, master: str | None, memory: str) -> Iterator[Iterator[Event]]:
    """The events of the logs, read in this process or on Spark."""
    if master is None:
        yield logs.events()
        return
    with clear_errors("spark"):
        from kemu.tools.pipeline.log_parts import events_on_spark
        from kemu.tools.pipeline.session import LEAN, spark_context

        with spark_context("kemu import-log", master=master, memory=memory, java_options=LEAN) as context:
            yield events_on_spark(context, logs)


def _write(out: Path, facts: LogFacts, summaries: Sequence[LogSummary], form: str) -> None:
    recorded = write_log_trace(out, facts, summaries, package_version())
    lines = [f"{host} is {client}" for host, client in facts.clients.items()]
    judged = f"{', '.join(recorded.judged)} ({recorded.judgement.verdict})" if recorded.judged else "nothing"
    lines.append(f"judged: {judged}")
    if facts.uncertain_calls:
        lines.append(
            f"{facts.uncertain_calls} of {len(facts.calls_within_us)} calls of rebalance listeners may be more than"
            f" {UNCERTAIN_US // 1000} ms after their records, before the client's next record"
        )
    lines.append("unjudged, because logs do not state their facts:")
    lines += textwrap.wrap(", ".join(recorded.unjudged), 100, initial_indent="  ", subsequent_indent="  ")
    lines.append(f"trace: {out}")
    for line in lines:
        click.echo(printable(line), err=form != "text")


def _account(summaries: Sequence[LogSummary], clocks: Sequence[str]) -> Iterator[str]:
    for summary in summaries:
        yield from account_lines(summary)
    if clocks:
        yield "clocks:"
        yield from (f"  {text}" for text in clocks)


def _zones(texts: Sequence[str], files: Sequence[Path]) -> dict[str, str]:
    """Zone of each file by its name."""
    zones = {path.name: "UTC" for path in files}
    for text in texts:
        name, sign, zone = text.rpartition("=")
        if sign and name not in zones and (name := Path(name).name) not in zones:
            raise BadInput(f"--zone {text}: no file {name}; files are {', '.join(zones)}")
        try:
            zone_offset(zone)
        except ValueError as error:
            raise BadInput(f"--zone {text}: {error}") from None
        zones.update({name: zone} if sign else dict.fromkeys(zones, zone))
    return zones
