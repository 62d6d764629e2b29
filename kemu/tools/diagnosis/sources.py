"""Reads the input of ``kemu diagnose`` and ``kemu reproduce``: logs, traces of kemu, or both."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kemu.emulator.trace.blocks import MAGIC
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.frozen import frozen
from kemu.tools.diagnosis.from_trace import events_of_trace
from kemu.tools.logs.events import Event


@frozen
class Incident:
    """The events of several files. ``texts``: (file, line) -> the text of a line of a log."""

    events: tuple[Event, ...]
    texts: Mapping[tuple[str, int], str]


def is_trace(path: str | Path) -> bool:
    """Whether a file begins like a trace of kemu; False for a file that cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_incident(paths: Sequence[str | Path]) -> Incident:
    """The events of logs and traces. Several runs in one trace: the first one.

    Raises:
        TraceError: a trace is damaged.
        BadInput: a log cannot be read.
    """
    events: list[Event] = []
    texts: dict[tuple[str, int], str] = {}
    logs = [path for path in paths if not is_trace(path)]
    for path in paths:
        if is_trace(path):
            events += events_of_trace(read_trace(path))
    if logs:
        for event, text in _of_logs(logs):
            events.append(event)
            texts[event.file, event.line] = text
    return Incident(tuple(events), texts)


def _of_logs(paths: Iterable[str | Path]) -> Iterable[tuple[Event, str]]:
    from kemu.tools.errors import BadInput

    raise BadInput("logs cannot be read yet")
