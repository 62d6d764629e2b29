"""The page of an incident: the option ``--report`` of the commands that read logs."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from kemu.emulator.runner import package_version
from kemu.emulator.text.allowed_code import Code, code_allowed
from kemu.emulator.trace.traces import read_trace
from kemu.tools.errors import BadInput
from kemu.tools.logs.events import Event
from kemu.tools.logs.facts import LogFacts, facts_of_events
from kemu.tools.logs.reading import LogSummary
from kemu.tools.logs.recorded import write_log_trace


def write_trace_page(trace: Path, page: Path, command: str) -> None:
    """Write the page of a trace; ``command``: the command line that makes the page again."""
    from kemu.tools.report.page import write_page
    from kemu.tools.report.recorded import report_of

    recorded = read_trace(trace)
    with recorded.interpreted(), code_allowed(Code.NONE):
        write_page(report_of(recorded, command), page, recorded)


def write_log_page(facts: LogFacts, summaries: Sequence[LogSummary], page: Path, command: str) -> None:
    """Write the page of the facts of logs."""
    with tempfile.TemporaryDirectory(prefix="kemu-report-") as folder:
        trace = Path(folder) / f"{page.stem}.kemu"
        write_log_trace(trace, facts, summaries, package_version())
        write_trace_page(trace, page, command)


def write_incident_page(sources: Sequence[str], events: Sequence[Event], page: Path, command: str) -> None:
    """Write the page of one trace, or of the events of logs.

    Raises:
        BadInput: the sources are traces and further files, of which there is no common picture.
    """
    from kemu.tools.incident.sources import is_trace

    traces = [source for source in sources if is_trace(source)]
    if not traces:
        write_log_page(facts_of_events(events), (), page, command)
    elif len(sources) == 1:
        write_trace_page(Path(traces[0]), page, command)
    else:
        raise BadInput(f"--report {page}: give logs only, or one trace; {traces[0]} is one of {len(sources)} files")
