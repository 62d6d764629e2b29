"""``kemu report``: the pictures of a recorded run or of a campaign, in one HTML file."""

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kemu.emulator.text.allowed_code import Code, code_allowed
from kemu.tools.errors import BadInput
from kemu.tools.files import check_out, write_text
from kemu.tools.report.messages import KINDS

if TYPE_CHECKING:
    from kemu.emulator.scenario.scenario import Scenario
    from kemu.emulator.trace.traces import Header
    from kemu.tools.report.comparison import ComparisonReport


SUFFIXES = {"html": ".html", "json": ".json", "perfetto": ".pftrace", "svg": ".svg"}
"""Format of a report -> the ending of its file."""
MOST_PAGES = 12
"""Maximum number of failed runs of a campaign that get a page."""


@click.command()
@click.argument("trace", type=click.Path(path_type=Path), metavar="TRACE|CAMPAIGN")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write (default: beside TRACE, or in CAMPAIGN).",
)  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@click.option("--follow", is_flag=True, help="Write the page again and again, until the run of TRACE ends.")
@click.option(
    "--messages", type=click.Choice(KINDS), default="all", show_default=True,
    help="control: without Fetch, Produce, Heartbeat and Metadata that succeeded.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(tuple(SUFFIXES)), default="html", show_default=True)
def report(trace: Path, out: Path | None, opens: bool, follow: bool, messages: str, form: str) -> None:
    """Draw TRACE: one HTML file that explains the run and opens anywhere, without a network.

    The page has the verdict, the cost, and pictures of members, partitions, leaders, tasks and messages over time. JSON
    has the same data by column; without --out it goes to the standard output. A file for Perfetto opens in
    ui.perfetto.dev and in its trace processor, with tracks, counters and arrows for messages. SVG is a small picture
    for a document.

    CAMPAIGN is the folder of "kemu campaign" after "kemu analyze"; Spark is not needed. The page has the figures of all
    cells, and links to pages of failed runs, which the command makes from their traces.

    Of a torn trace, the page has the complete records. With --follow, TRACE may be the trace of a run that has not
    ended. The open page reloads itself every few seconds, and keeps its window.
    """
    for option in [name for name, given in (("--open", opens), ("--follow", follow)) if given]:
        if form != "html":
            raise click.UsageError(f"{option} needs --format html")
    file, torn = out, ""
    if follow:
        file = trace.with_suffix(SUFFIXES[form]) if out is None else out
        torn = _follow(trace, file, opens, messages)
        opens = False
    elif trace.is_dir():
        file = _campaign(trace, out, messages, form)
    else:
        file, torn = _run(trace, out, messages, form)
    if file is not None:
        click.echo(f"report: {file}")
    if file is not None and opens:
        webbrowser.open(file.resolve().as_uri())
    if torn:
        raise BadInput(f"{trace}: {torn}; the report has the records before")


def _run(trace: Path, out: Path | None, messages: str, form: str) -> tuple[Path | None, str]:
    """Write the report of a trace; return the file, None for the standard output, and the place of a torn trace."""
    from kemu.emulator.trace.traces import read_runs, read_trace
    from kemu.tools.report.page import write_page
    from kemu.tools.report.perfetto import write_perfetto
    from kemu.tools.report.recorded import report_of
    from kemu.tools.report.run_report import as_json
    from kemu.tools.report.svg import svg_of

    file = trace.with_suffix(SUFFIXES[form]) if out is None and form != "json" else out
    if file is not None:
        check_out(file, [trace])
    recorded = read_trace(trace)
    runs = sum(1 for _ in read_runs(trace))
    if runs > 1:
        click.echo(f"{trace} holds {runs} runs: the report is about the first", err=True)
    with recorded.interpreted(), code_allowed(Code.NONE):
        made = report_of(recorded, command_of(recorded.header, trace), messages)
    if file is None:
        click.echo(as_json(made))
    elif form == "json":
        write_text(file, as_json(made))
    elif form == "perfetto":
        write_perfetto(made, file)
    elif form == "svg":
        write_text(file, svg_of(made))
    else:
        write_page(made, file, recorded)
    return file, made.torn


def _follow(trace: Path, file: Path, opens: bool, messages: str) -> str:
    """Write the page of a growing trace until its run ends; return the place of a torn trace."""
    import time

    from kemu.emulator.trace.files import growing_file
    from kemu.tools.report.following import follow

    growing, _ = growing_file(trace)
    if not growing.is_file():
        raise click.UsageError(f"--follow needs a trace, and {trace} is {'a folder' if trace.is_dir() else 'no file'}")
    check_out(file, [trace, growing])
    is_told = False

    def written() -> None:
        nonlocal is_told
        if not is_told:
            is_told = True
            click.echo(f"report: {file}, again every few seconds until the run ends")
            if opens:
                webbrowser.open(file.resolve().as_uri())

    def rest(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    return follow(trace, file, lambda header: command_of(header, trace), messages=messages, rest=rest, written=written)


def _campaign(folder: Path, out: Path | None, messages: str, form: str) -> Path | None:
    """Write the report of a campaign and the pages of failed runs; None if it went to the standard output."""
    import json

    from kemu.tools.commands.pipeline_errors import clear_errors
    from kemu.tools.progress import busy

    if form not in ("html", "json"):
        raise click.UsageError(f"--format {form} needs a trace, and {folder} is a folder")
    file = folder / "report.html" if out is None and form == "html" else out
    with clear_errors("query"), busy("report"):
        from kemu.tools.pipeline.drawing import campaign_report
        from kemu.tools.report.comparison import write_comparison

        made = campaign_report(folder)
        if form == "json":
            text = json.dumps({"campaign": made.title, "command": made.command, "cells": list(made.rows)}, indent=1)
        if file is None:
            click.echo(text)
            return None
        if form == "json":
            write_text(file, text)
        else:
            check_out(file)
            _pages_of_failures(folder, made, file, messages)
            write_comparison(made, file)
    return file


def _pages_of_failures(folder: Path, made: "ComparisonReport", file: Path, messages: str) -> None:
    """Write pages of failed runs into a folder beside the campaign's page, and tell their rows the address."""
    from kemu.emulator.trace.blocks import TraceError
    from kemu.protocol.wire.codec import CodecError
    from kemu.tools.pipeline.drawing import failed_runs, relative
    from kemu.tools.report.page import write_page
    from kemu.tools.report.recorded import report_of

    place = file.with_name(f"{file.stem}-runs")
    for number, (failing, run) in enumerate(failed_runs(folder, made, MOST_PAGES), start=1):
        try:
            recorded = run.read()
            if recorded is None:
                continue
            place.mkdir(exist_ok=True)
            page = place / f"{number:02}-seed-{run.seed}.html"
            with recorded.interpreted(), code_allowed(Code.NONE):
                write_page(report_of(recorded, run.command, messages), page, recorded)
        except (TraceError, CodecError) as error:
            click.echo(f"no page of {run.cell}, seed {run.seed}: {error}", err=True)
            continue
        failing["page"] = relative(page, file)


def command_of(header: "Header", trace: Path) -> str:
    """The command that repeats a recorded run: by the name of its preset, or else from its trace."""
    import shlex

    from kemu.emulator.replay import scenario_of
    from kemu.protocol.profiles import DEFAULT_PROFILE

    scenario = scenario_of(header)
    if header.live or header.driven or header.steered or header.listeners or header.applications:
        return shlex.join(["kemu", "replay", str(trace)])
    if not _is_preset(scenario):
        return shlex.join(["kemu", "replay", str(trace), "--rerun"])
    words = ["kemu", "run", scenario.name, "--seed", str(header.seed)]
    if header.profile != (scenario.profile or DEFAULT_PROFILE):
        words += ["--profile", header.profile]
    return shlex.join([*words, *(["--loop", header.loop] if header.loop != "trio" else [])])


def _is_preset(scenario: "Scenario") -> bool:
    from kemu.emulator.scenario.files import load_scenario
    from kemu.emulator.scenario.presets import presets

    names = [each.name for each in presets()]
    return scenario.name in names and load_scenario(scenario.name).to_dict() == scenario.to_dict()
