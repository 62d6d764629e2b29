"""``kemu report``: the pictures of a recorded run, in one HTML file."""

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kemu.tools.exits import BAD_INPUT
from kemu.tools.report.messages import KINDS

if TYPE_CHECKING:
    from kemu.emulator.scenario.scenario import Scenario
    from kemu.emulator.trace.traces import Header


class _BadTrace(click.ClickException):
    exit_code = BAD_INPUT


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to write (default: beside TRACE)."
)
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@click.option(
    "--messages", type=click.Choice(KINDS), default="all", show_default=True,
    help="control: without Fetch, Produce, Heartbeat and Metadata that succeeded.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(["html", "json"]), default="html", show_default=True)
def report(trace: Path, out: Path | None, opens: bool, messages: str, form: str) -> None:
    """Draw TRACE: one HTML file that explains the run and opens anywhere, without a network.

    The page has the verdict, the cost, and pictures of members, partitions, leaders, tasks and messages over time. JSON
    has the same data by column; without --out it goes to the standard output.

    Exit code 2: the file is no trace, or is damaged. Of a torn trace, the page has the whole records.
    """
    from kemu.emulator.trace.blocks import TraceError
    from kemu.emulator.trace.traces import read_trace
    from kemu.protocol.wire.codec import CodecError
    from kemu.tools.report.page import write_page
    from kemu.tools.report.recorded import report_of
    from kemu.tools.report.run_report import as_json

    if opens and form != "html":
        raise click.UsageError("--open goes with --format html")
    try:
        recorded = read_trace(trace)
        made = report_of(recorded, command_of(recorded.header, trace), messages)
        if form == "json" and out is None:
            click.echo(as_json(made))
            return
    except (TraceError, CodecError) as error:
        raise _BadTrace(str(error) if str(trace) in str(error) else f"{trace}: {error}") from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise _BadTrace(f"{trace}: {error.strerror}") from None
    file = trace.with_suffix(".html") if out is None else out
    if file.exists() and file.samefile(trace):
        raise click.UsageError(f"--out {file} is the trace itself: name another file")
    try:
        if form == "json":
            file.write_text(as_json(made), encoding="utf-8")
        else:
            write_page(made, file, recorded)
    except OSError as error:
        raise _BadTrace(f"--out {file}: cannot be written: {error.strerror}") from None
    click.echo(f"report: {file}")
    if opens:
        webbrowser.open(file.resolve().as_uri())


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
    from kemu.emulator.scenario.files import load_scenario, presets

    names = [each.name for each in presets()]
    return scenario.name in names and load_scenario(scenario.name).to_dict() == scenario.to_dict()
