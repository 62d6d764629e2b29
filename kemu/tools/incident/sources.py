"""Reads the input of ``kemu diagnose`` and ``kemu reproduce``: logs, traces of kemu, or both."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attrs import evolve

from kemu.emulator.trace.blocks import MAGIC, TraceError
from kemu.emulator.trace.traces import Trace, read_trace
from kemu.protocol.frozen import frozen
from kemu.tools.errors import BadInput
from kemu.tools.incident.from_trace import events_of_trace
from kemu.tools.kafka_files.input_files import STDIN
from kemu.tools.logs.clocks import clock_offsets
from kemu.tools.logs.events import Event
from kemu.tools.logs.folders import SkippedFile, log_files
from kemu.tools.logs.lines import open_log
from kemu.tools.logs.reading import names_of, read_events
from kemu.tools.logs.wordings.releases import parse
from kemu.tools.report.transcript import labels_of

Texts = Mapping[tuple[str, int], str]
"""(file, line) -> the text of a line of a log."""


@frozen
class IncidentFiles:
    """The events of several files."""

    names: Mapping[Path, str]
    """The logs with the names that events state."""
    events: tuple[Event, ...]
    skipped: tuple[SkippedFile, ...] = ()
    labels: Mapping[str, str] = {}
    """Host of a member in a trace -> the member's label."""
    broker_release: str = ""
    """The first release whose brokers write the words of these logs, such as "4.1"; "" if the words do not tell."""
    torn: tuple[str, ...] = ()
    """A line for each trace that ends early; the events are those of its complete records."""

    def refuse_torn(self) -> None:
        """End a command, after its output, with an error for each torn trace.

        Raises:
            BadInput: a trace is torn.
        """
        if self.torn:
            raise BadInput("\n".join(f"{line}; the output is about the records before" for line in self.torn))

    def texts_of(self, events: Iterable[Event]) -> Texts:
        """The lines of these events, read again from the logs; not for the standard input and for traces."""
        wanted: dict[str, set[int]] = {}
        for event in events:
            wanted.setdefault(event.file, set()).add(event.line)
        found: dict[tuple[str, int], str] = {}
        for path, name in self.names.items():
            lines = wanted.get(name)
            if lines and str(path) != STDIN:
                with open_log(path) as log:
                    found |= {(name, at): line.rstrip() for at, line in enumerate(log, 1) if at in lines}
        return found


def is_trace(path: str | Path) -> bool:
    """Whether a file begins like a trace of kemu; False for a file that cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_incident(sources: Sequence[str | Path]) -> IncidentFiles:
    """The events of logs and traces, and of those in folders, by the clock of one log.

    Of a trace with several runs, the first run counts.

    Raises:
        TraceError: a trace is damaged.
        BadInput: a file cannot be read.
    """
    paths, skipped = log_files([Path(source) for source in sources], also=is_trace)
    traces = [path for path in paths if is_trace(path)]
    logs = [path for path in paths if path not in traces]
    runs = [read_trace(path) for path in traces]
    events = [event for run in runs for event in events_of_trace(run)]
    read, summaries = read_events(logs)
    spans = [summary.releases["broker"].since for summary in summaries if "broker" in summary.releases]
    of_runs = [run.header.profile for run in runs if run.header.source != "log"]
    spans += [name.removeprefix("kafka-") for name in of_runs if name.startswith("kafka-")]
    release = max(filter(None, spans), key=parse, default="")
    ahead_us = {offset.file: offset.offset_us for offset in clock_offsets(read)}
    for event in read:
        late_us = ahead_us.get(event.file, 0)
        events.append(event if event.at_us is None or not late_us else evolve(event, at_us=event.at_us - late_us))
    labels = {host: label for run in runs for host, label in labels_of(run.header).items()}
    torn = tuple(filter(None, map(_torn, runs)))
    return IncidentFiles(names_of(logs), tuple(events), tuple(skipped), labels, release, torn)


def _torn(run: Trace) -> str:
    """The place at which a trace is torn; empty for a trace with a footer."""
    try:
        run.footer()
    except TraceError as error:
        return str(error)
    return ""
