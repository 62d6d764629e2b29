"""Logs in parts: large files are read in ranges of bytes, one after the other or side by side, in one pass.

The events of all parts are the events of the whole file. The reader of a part begins some records before the part,
because a record may take a value from records before it. A value from a record further before may be missing.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from kemu.tools.errors import BadInput
from kemu.tools.kafka_files.input_files import STDIN
from kemu.tools.logs.events import Event
from kemu.tools.logs.lines import bounded_lines, is_packed, open_log, sample_of
from kemu.tools.logs.reading import LogLayout, LogReader, LogSummary, names_of
from kemu.tools.logs.wrappers.times import zone_offset

PART_BYTES = 16 << 20
BESIDE_BYTES = 1 << 18
"""Bytes that a part reads before its first byte and after its last one."""


@attrs.frozen
class LogPart:
    """A range of bytes of a log; ``end`` 0: the whole log, which cannot be divided."""

    path: str
    name: str
    start: int
    end: int
    kinds: tuple[str, ...]
    zone: str
    layout: LogLayout | None = None


def parts_of(
    paths: Sequence[Path], kinds: Sequence[str], zones: Mapping[str, str], part_bytes: int = PART_BYTES
) -> list[LogPart]:
    """The parts of several logs, file by file; ``zones``: name of a file -> zone of times without a zone.

    Raises:
        BadInput: a file cannot be read.
    """
    found: list[LogPart] = []
    for path, name in names_of(paths).items():
        zone = zones.get(path.name, "UTC")
        whole = LogPart(str(path), name, 0, 0, tuple(kinds), zone)
        try:
            size = 0 if str(path) == STDIN or is_packed(path) else path.stat().st_size
            if size <= part_bytes:
                found.append(whole)
                continue
            with open_log(path) as lines:
                layout = LogLayout.of(sample_of(lines), kinds, zone_offset(zone))
        except OSError as error:
            raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from None
        found += [
            attrs.evolve(whole, start=at, end=min(at + part_bytes, size), layout=layout)
            for at in range(0, size, part_bytes)
        ]
    return found


@attrs.define
class PartReader:
    """Reads one part. ``lines`` is the number of lines of the part after ``events`` is exhausted.

    ``after``: lines of the file before the part, if they are known; lines of events count from there.
    """

    part: LogPart
    after: int = 0
    summary: LogSummary = attrs.field(init=False)
    lines: int = 0

    def __attrs_post_init__(self) -> None:
        self.summary = LogSummary(self.part.name)

    def events(self) -> Iterator[Event]:
        """The events of the part; lines count from ``after``.

        Raises:
            BadInput: the file cannot be read.
        """
        part = self.part
        reader = LogReader(part.name, part.kinds, zone_offset(part.zone), part.layout)
        self.summary = reader.summary
        try:
            if part.end == 0:
                with open_log(Path(part.path)) as lines:
                    yield from reader.events(lines)
                return
            before, own = self._lines()
            yield from reader.events(
                itertools.chain(before, own), first=self.after + 1 - len(before), wanted=self._is_own
            )
        except OSError as error:
            raise BadInput(f"{part.path}: cannot be read: {error.strerror or error}") from None

    def _is_own(self, line: int) -> bool:
        return 0 < line - self.after <= self.lines

    def _lines(self) -> tuple[list[str], Iterator[str]]:
        """The lines before the part, and the lines from its first line on. A line belongs to the part of its begin."""
        part = self.part
        raw = Path(part.path).open("rb")  # noqa: SIM115 (the iterator closes the file)
        at = max(0, part.start - BESIDE_BYTES)
        raw.seek(max(0, at - 1))
        lines = bounded_lines(raw.readline)
        if at:
            at += next(lines, (b"", 1))[1] - 1
        before: list[str] = []
        while at < part.start and (found := next(lines, None)):
            at += found[1]
            before.append(found[0].decode("utf-8", "replace"))

        def own(at: int) -> Iterator[str]:
            with raw:
                for line, length in lines:
                    if at >= part.end + BESIDE_BYTES:
                        return
                    self.lines += at < part.end
                    at += length
                    yield line.decode("utf-8", "replace")

        return before, own(at)


def with_line(event: Event, after: int) -> Event:
    """The event of a part, with the lines of the whole file; ``after``: lines of the file before the part."""
    if after == 0:
        return event
    return attrs.evolve(
        event,
        line=event.line + after,
        lines=tuple(line + after for line in event.lines),
        same_event_as=None if event.same_event_as is None else event.same_event_as + after,
    )


@attrs.define
class ReadLogs:
    """Reads the parts of several logs, and keeps the account of each file."""

    parts: Sequence[LogPart]
    summaries: list[LogSummary] = attrs.field(factory=list)

    def events(self) -> Iterator[Event]:
        """The events of all files, file by file, in one pass."""
        after = 0
        for part in self.parts:
            after = self._begin(part, after)
            reader = PartReader(part, after)
            yield from reader.events()
            self.summaries[-1].add(reader.summary, 0)
            after += reader.lines

    def joined(self, read: Iterable[tuple[LogPart, Iterable[Event], PartReader]]) -> Iterator[Event]:
        """The events of parts that were read apart, in order; their lines become lines of the files."""
        after = 0
        for part, events, reader in read:
            after = self._begin(part, after)
            for event in events:
                yield with_line(event, after)
            self.summaries[-1].add(reader.summary, after)
            after += reader.lines

    def _begin(self, part: LogPart, after: int) -> int:
        """Begin the account of a file with its first part. Returns the number of lines before the part."""
        if part.start > 0:
            return after
        self.summaries.append(LogSummary(part.name))
        return 0
