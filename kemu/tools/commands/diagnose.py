"""``kemu diagnose`` names the causes that a trace or logs show, with their evidence."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from kemu.emulator.text.tables import printable
from kemu.tools.commands.log_report import write_incident_page
from kemu.tools.commands.run_options import report_option
from kemu.tools.diagnosis.diagnose import NONE, UNKNOWN, Diagnosis, RankedCause, diagnose
from kemu.tools.files import check_out
from kemu.tools.incident.sources import Texts, read_incident
from kemu.tools.logs.folders import skipped_lines
from kemu.tools.report.layout import print_lines, terminal_width

SHOWN = 6
"""Number of lines of evidence in the text; ``--verbose`` and ``--format json`` have all lines."""
ROWS = 3
"""Rows of the terminal for a line of evidence."""
INDENT = 12
"""Columns that a row loses at its begin, and at the break of a word."""
_LOGGER = re.compile(r" \((?:kafka|org)\.[\w.$]+\)$")


@click.command("diagnose")
@click.argument("files", metavar="TRACE|LOG|FOLDER...", nargs=-1, required=True)
@click.option("--verbose", is_flag=True, help="Print all lines of evidence, and long lines whole.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@report_option("the picture of the incident")
def diagnose_command(files: tuple[str, ...], verbose: bool, form: str, report: Path | None) -> None:
    """Name the causes of an incident: a ranked list with evidence, what speaks against, and what addresses each cause.

    LOG is a log of a broker or a client, TRACE a trace of "kemu run". Give all files of one incident. "none" means
    that nothing went wrong, "unknown" that these lines cannot tell. "kemu describe causes" lists all causes,
    "kemu import-log" prints the generations of the groups.
    """
    if report is not None:
        check_out(report, files)
    incident = read_incident(files)
    for line in skipped_lines(incident.skipped):
        click.echo(printable(line), err=True)
    found = diagnose(incident.events)
    texts = incident.texts_of(found.evidence)
    if report is not None:
        command = shlex.join(["kemu", "diagnose", *files, "--report", str(report)])
        write_incident_page(files, incident.events, report, command)
    if form == "json":
        labels = {"labels": dict(incident.labels)} if incident.labels else {}
        click.echo(json.dumps({**found.as_json(texts), **labels}, indent=2))
    else:
        print_lines(printable(line) for line in as_text(found, texts, verbose))
        print_lines(f"{host} = {label}" for host, label in incident.labels.items())
        if report is not None:
            click.echo(f"report: {report}")
    incident.refuse_torn()


def as_text(found: Diagnosis, texts: Texts, verbose: bool = False) -> Iterator[str]:
    """The lines of the text form. Without ``verbose``, a cause has few lines of evidence, of three rows at most."""
    for place, answer in enumerate(found.answers, start=1):
        yield from _answer(place, answer, texts, verbose)


def _answer(place: int, answer: RankedCause, texts: Texts, verbose: bool) -> Iterator[str]:
    finding = answer.finding
    sure = "" if answer.cause in (NONE, UNKNOWN) else f" ({100 * finding.confidence:.0f} %)"
    yield f"{place}. {answer.cause}{sure}: {finding.says}"
    shown = len(finding.evidence) if verbose else SHOWN
    for event in finding.evidence[:shown]:
        text = texts.get((event.file, event.line)) or " ".join(
            str(value) for value in (event.time, event.kind, event.group, event.member, event.reason) if value
        )
        line = f"     {event.file}:{event.line}: {text.strip()}"
        yield line if verbose else _cut(line)
    if len(finding.evidence) > shown:
        yield f"     and {len(finding.evidence) - shown} more lines"
    for text in finding.against:
        yield f"   against: {text}"
    for remedy in answer.addressed_by:
        yield f"   {remedy.kind}: {remedy.text} [{remedy.source}]"


def _cut(line: str) -> str:
    """The line without the logger at its end, cut at a word if the line fills more than three rows of the terminal."""
    line = _LOGGER.sub("", line)
    most = ROWS * (terminal_width() - INDENT)
    return line if len(line) <= most else f"{line[: most - 4].rpartition(' ')[0]} ..."
