"""``kemu reproduce`` makes a scenario that repeats the incident of logs or of a trace."""

import json
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from kemu.emulator.runner import run
from kemu.emulator.text.tables import printable
from kemu.tools.commands.log_report import write_trace_page
from kemu.tools.commands.run_options import report_option
from kemu.tools.diagnosis.repeated import RowDifference, run_reproduction
from kemu.tools.diagnosis.reproduce import reproduce
from kemu.tools.diagnosis.reproduction import Reproduction
from kemu.tools.errors import BadInput
from kemu.tools.estimate import ask_before
from kemu.tools.files import check_out, write_text
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.sources import read_incident
from kemu.tools.logs.folders import skipped_lines
from kemu.tools.report.layout import print_lines


@click.command("reproduce")
@click.argument("files", metavar="TRACE|LOG|FOLDER...", nargs=-1, required=True)
@click.option("--group", default="", help="The group to repeat (default: the group with the most lines).")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the scenario to this file.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@report_option("the picture of the scenario's run")
def reproduce_command(files: tuple[str, ...], group: str, out: Path | None, form: str, report: Path | None) -> None:
    """Make a scenario that repeats the incident of LOGs or of a TRACE, run the scenario, and list the differences.

    Each member, topic, setting and external event is read (a line states it), inferred or assumed.
    The command compares the generations of the run with those of the lines: reasons, members, counts, owners and
    durations. It compares the order of answers and errors of each member that has a log.
    A generation of the consumer protocol (KIP-848) is a group epoch.
    """
    for written in filter(None, (out, report)):
        check_out(written, files)
    read = read_incident(files)
    for line in skipped_lines(read.skipped):
        click.echo(printable(line), err=True)
    incident = Incident(read.events)
    try:
        found = reproduce(incident, group, read.broker_release)
    except BadInput as error:
        read.refuse_torn()
        raise BadInput(f"{', '.join(files)}: {error.message}") from None
    ask_before([(found.scenario, 1)], 1)
    if out is not None:
        write_text(out, found.toml, files)
    equal, differences = run_reproduction(found, incident)
    if report is not None:
        _write_page(found, report, files)
    if form == "json":
        click.echo(json.dumps(as_json(found, equal, differences), indent=2, default=str))
    else:
        print_lines(printable(line) for line in as_text(found, equal, differences))
        if out is not None:
            click.echo(f"scenario: {out}")
        if report is not None:
            click.echo(f"report: {report}")
    read.refuse_torn()


def _write_page(found: Reproduction, report: Path, files: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="kemu-report-") as folder:
        trace = Path(folder) / "run.kemu"
        run(found.scenario, seed=1, loop="bare", trace=trace)
        write_trace_page(trace, report, shlex.join(["kemu", "reproduce", *files, "--report", str(report)]))


def as_json(found: Reproduction, equal: int, differences: Sequence[RowDifference]) -> dict[str, object]:
    """The scenario and the comparison as data."""
    return {
        "group": found.group,
        "scenario": found.toml,
        "parts": [
            {
                "what": part.what,
                "value": part.value,
                "basis": part.basis,
                "evidence": [{"file": event.file, "line": event.line} for event in part.evidence],
                "note": part.note,
            }
            for part in found.parts
        ],
        "names": dict(found.names),
        "equal": equal,
        "differences": [
            {"generation": each.generation, "field": each.field, "log": each.log, "run": each.run, "why": each.why}
            for each in differences
        ],
        "not_repeated": list(found.unmatched),
    }


def as_text(found: Reproduction, equal: int, differences: Sequence[RowDifference]) -> Iterator[str]:
    """The lines of the text form."""
    yield f"group {found.group}: {len(set(dict(found.names).values()))} members"
    for part in found.parts:
        yield f"  {part.text}"
    for text in found.unmatched:
        yield f"  not repeated: {text}"
    yield ""
    yield f"The run repeats {equal} facts of the log's generations; {len(differences)} differ"
    for each in differences:
        yield f"  {each.text}"
