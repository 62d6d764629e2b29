"""Reads the input of ``kemu diagnose`` and ``kemu reproduce``: logs, traces of kemu, or both."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kemu.emulator.trace.blocks import MAGIC
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.frozen import frozen
from kemu.tools.errors import BadInput
from kemu.tools.incident.from_trace import events_of_trace
from kemu.tools.kafka_files.input_files import STDIN
from kemu.tools.logs.events import Event
from kemu.tools.logs.reading import open_log, read_events

Texts = Mapping[tuple[str, int], str]
"""(file, line) -> the text of a line of a log."""


@frozen
class IncidentFiles:
    """The events of several files."""

    paths: tuple[Path, ...]
    events: tuple[Event, ...]

    def texts_of(self, events: Iterable[Event]) -> Texts:
        """The lines of these events, read again from the logs; not for the standard input and for traces."""
        wanted: dict[str, set[int]] = {}
        for event in events:
            wanted.setdefault(event.file, set()).add(event.line)
        found: dict[tuple[str, int], str] = {}
        for path in self.paths:
            lines = wanted.get(path.name)
            if lines and str(path) != STDIN and not is_trace(path):
                with open_log(path) as log:
                    found |= {(path.name, at): line.rstrip() for at, line in enumerate(log, 1) if at in lines}
        return found


def is_trace(path: str | Path) -> bool:
    """Whether a file begins like a trace of kemu; False for a file that cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_incident(sources: Sequence[str | Path]) -> IncidentFiles:
    """The events of logs and traces. Of a trace with several runs, the first run counts.

    Raises:
        TraceError: a trace is damaged.
        BadInput: a file cannot be read.
    """
    paths = tuple(Path(source) for source in sources)
    events: list[Event] = []
    logs: list[Path] = []
    for path in paths:
        if is_trace(path):
            events += events_of_trace(read_trace(path))
        else:
            logs.append(path)
    for path in logs:
        try:
            events += read_events([path])[0]
        except OSError as error:
            raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    return IncidentFiles(paths, tuple(events))
