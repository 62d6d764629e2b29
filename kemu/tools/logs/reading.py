"""Reading of logs: lines become records, records become events, in one pass and with flat memory."""

import collections
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from kemu.emulator.text.tables import printable
from kemu.tools.kafka_files.input_files import LARGEST_ID, LARGEST_OFFSET, whole_number
from kemu.tools.logs.dialects import DIALECTS
from kemu.tools.logs.events import KINDS, Event
from kemu.tools.logs.lines import LONGEST_LINE, open_log, sample_of
from kemu.tools.logs.wordings.releases import ReleaseSpan, parse
from kemu.tools.logs.wordings.wordings import Dialect, Fields, Wording, fields_of, match_of, torn_fields_of
from kemu.tools.logs.wrappers.times import ZoneOffset, utc
from kemu.tools.logs.wrappers.wrappers import Opened, opened

_MOST_LINES = 60
"""Lines of a record at most; further lines without a time are records."""

_WRAPPED = 3
"""Different lines of the greatest width in a file that was wrapped at this width."""

FEWEST_CLOSED, CLOSED_SHARE = 2, 20
"""Records with a logger at the end that tell the layout: at least 2, and one of 20."""

_AT_END = ("logger-last", "logger-thread", "suffix-fields", "json-comma")
"""Wrappers at the end of a record."""

_HELD = 20
"""Records after which the second half of an event is no longer expected."""

_NAMES = frozenset(field.name for field in attrs.fields(Event))
_INTEGERS = frozenset(field.name for field in attrs.fields(Event) if field.type == int | None)
_TEXTS = frozenset(field.name for field in attrs.fields(Event) if field.type == str | None)
_IDS = frozenset({"group", "member", "client", "instance"})
_NONE = re.compile(r"^(?:None|null|none|Optional\.empty|)$")
_SOME = re.compile(r"^(?:Some\(|Optional\[)(.*)[)\]]$")
_GROUP = re.compile("group(?!ing)")
_ABOUT_GROUPS = (
    *("coordinator", "rebalanc", "heartbeat", "generation", "member", "joining"),
    *("partition assigned", "partition revoked", "partition lost"),
    *("partitions assigned", "partitions revoked", "partitions lost"),
)


def _is_about_groups(text: str) -> bool:
    """Whether a message has a word of groups."""
    text = text.lower()
    if "group" in text and _GROUP.search(text):
        return True
    for word in _ABOUT_GROUPS:  # noqa: SIM110 (a generator costs more than the search)
        if word in text:
            return True
    return False


@attrs.define
class LogSummary:
    """The account of a file: how much of it was understood, and what was not."""

    file: str
    records: int = 0
    understood: int = 0
    unknown_about_groups: int = 0
    shapes: collections.Counter[str] = attrs.field(factory=collections.Counter)
    first_line: dict[str, int] = attrs.field(factory=dict)
    dialects: collections.Counter[str] = attrs.field(factory=collections.Counter)
    wrappers: collections.Counter[str] = attrs.field(factory=collections.Counter)
    releases: dict[str, ReleaseSpan] = attrs.field(factory=dict)
    versions: collections.Counter[str] = attrs.field(factory=collections.Counter)
    """Versions that the log states, as clients and brokers do at their start."""

    def add(self, part: "LogSummary", after: int) -> None:
        """Add the account of the next part of the file; ``after``: lines of the file before the part."""
        self.records += part.records
        self.understood += part.understood
        self.unknown_about_groups += part.unknown_about_groups
        for name, count in part.shapes.items():
            self.shapes[name] += count
            self.first_line.setdefault(name, part.first_line[name] + after)
        self.dialects.update(part.dialects)
        self.wrappers.update(part.wrappers)
        self.versions.update(part.versions)
        for product, span in part.releases.items():
            self.releases.setdefault(product, ReleaseSpan()).add(f"{span.since}..{span.until}")

    def add_unknown(self, record: Opened, line: int) -> None:
        """Count a record that no row knows."""
        text = _PREFIX.sub("", record.text.split("\n", 1)[0])
        self.unknown_about_groups += _is_about_groups(text)
        name = shape(text)
        if name in self.shapes or len(self.shapes) < 10_000:
            self.shapes[name] += 1
            self.first_line.setdefault(name, line)


_PREFIX = re.compile(r"^\s*\[(?:Consumer|Producer|AdminClient|Worker)[^\]]*\]\s*")
_TRACE = re.compile(r"\s*(?:at |Caused by|\.\.\. \d+ more|(?:[a-z]\w*\.){2,}\w+|Traceback|  File )")
_HEAD = re.compile(r"(?:\w+\.)+[A-Z][\w$]*(?: [\w<>$]+)?")
_VERSION = re.compile(r"Kafka version\s*:\s*(\d[\w.-]*)")
_SHAPE = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|\"[^\"]*\"|'[^']*'|\b[\w.-]*\d[\w.:-]*"
)


def shape(text: str) -> str:
    """A message with its ids, quoted texts and words with digits replaced, cut at 100 characters."""
    text = text[:2_000].strip()
    if "'" in text or '"' in text:
        return _SHAPE.sub("#", text)[:100]
    return " ".join(map(_shape_of_word, text.split(" ")))[:100]


@functools.lru_cache(maxsize=4096)
def _shape_of_word(word: str) -> str:
    return _SHAPE.sub("#", word)


Row = tuple[str, Wording]
"""A dialect's name and a row of it."""


def _rows_by_word() -> dict[str, list[tuple[frozenset[str], Row]]]:
    """Rows by the rarest word that each of them needs; rows without such a word below ""."""
    rows = [(words, (name, row)) for name, dialect in DIALECTS.items() for row in dialect.rows for words in row.words]
    count = collections.Counter(word for words, _ in rows for word in words)
    result: dict[str, list[tuple[frozenset[str], Row]]] = {"": []}
    for words, row in rows:
        rarest = min(words, key=lambda word: (count[word], word), default="")
        result.setdefault(rarest, []).append((words, row))
    return result


_ROWS = _rows_by_word()
_VOCABULARY = frozenset(word for rows in _ROWS.values() for words, _ in rows for word in words)
_WORD = re.compile(r"[A-Za-z]{2,}")


@attrs.frozen
class _Candidates:
    """Rows that may know a record, by dialect and place, and those of them that know a torn record."""

    rows: tuple[Row, ...]
    torn: tuple[Row, ...]


def _candidates(text: str, logger: str | None, order: Sequence[str]) -> _Candidates:
    return _candidates_of(_VOCABULARY.intersection(_WORD.findall(text)), logger, tuple(order))


@functools.lru_cache(maxsize=20_000)
def _candidates_of(words: frozenset[str], logger: str | None, order: tuple[str, ...]) -> _Candidates:
    """Rows of the dialects ``order`` whose words are all there, and whose logger is that of the record (None: any)."""
    found = {
        (order.index(name), row.number): (name, row)
        for word in ("", *words)
        for needed, (name, row) in _ROWS.get(word, ())
        if needed <= words and name in order and (logger is None or not row.logger or row.logger_pattern.search(logger))
    }
    rows = tuple(found[place] for place in sorted(found))
    return _Candidates(rows, tuple((name, row) for name, row in rows if row.torn_patterns))


@attrs.frozen
class Recognised:
    """A row that knows a record, its fields, and the part of the text that it knows."""

    dialect: Dialect
    row: Wording
    fields: Fields
    start: int
    end: int


def recognised(record: Opened, text: str, order: Sequence[str]) -> Recognised | None:
    """The first row of the dialects ``order`` that knows a record; dialects with a mark in the record are first."""
    candidates = _candidates(text, record.logger or "", order)
    found = [(name, row, match) for name, row in candidates.rows if (match := match_of(row, text))]
    if not found and not candidates.torn:
        return None
    mark = f"{record.logger} {record.thread} {text[:80]}"
    limit = 0
    best: tuple[str, Wording, re.Match[str]] | None = None
    for each in found:
        if best is None or (each[0] != best[0] and _rank(DIALECTS[each[0]], mark) < limit):
            best, limit = each, _rank(DIALECTS[each[0]], mark)
    if best is None or limit > 0:
        ranks = {name: _rank(DIALECTS[name], mark) for name in {name for name, _ in candidates.torn}}
        rows = [(name, row) for name, row in candidates.torn if best is None or ranks[name] < limit]
        for name, row in sorted(rows, key=lambda each: ranks[each[0]]):
            torn = torn_fields_of(row, record, text)
            if torn is not None:
                return Recognised(DIALECTS[name], row, *torn)
        if best is None:
            return None
    name, row, match = best
    return Recognised(DIALECTS[name], row, fields_of(row, match, record, text), match.start(), match.end())


def _rank(dialect: Dialect, mark: str) -> int:
    return 1 if dialect.marks is None else 0 if dialect.marks.search(mark) else 2


@attrs.frozen
class LogLayout:
    """The layout of a log, learned from its first lines.

    ``closes``: wrappers of records that the logger ends; a record of these wrappers without a logger is torn.
    ``width``: lines were wrapped at this width, 0 if not. ``dialects``: names of the dialects, the most frequent first.
    ``since``: product -> the first release that has the newest wording of the lines.
    """

    closes: frozenset[tuple[str, ...]] = frozenset()
    width: int = 0
    dialects: tuple[str, ...] = tuple(DIALECTS)
    since: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def of(cls, sample: Sequence[str], kinds: Sequence[str] = (), zone: ZoneOffset = utc) -> "LogLayout":
        """The layout of a log that begins with ``sample``, read with the dialects ``kinds`` (empty: all)."""
        kinds = tuple(kinds) or tuple(DIALECTS)
        started: collections.Counter[tuple[str, ...]] = collections.Counter()
        closed: collections.Counter[tuple[str, ...]] = collections.Counter()
        votes: collections.Counter[str] = collections.Counter()
        since: dict[str, ReleaseSpan] = {}
        sample = [line.rstrip("\r\n") for line in sample]
        widths = collections.Counter(map(len, set(sample)))
        widest = max(widths, default=0)
        width = widest if widths[widest] >= _WRAPPED else 0
        for line in sample:
            record = opened(line, zone)
            started[_begin_of(record)] += record.starts_record
            closed[_begin_of(record)] += record.closed is True and "logger-last" in record.wrappers
            if _is_about_groups(record.text):
                known = _candidates(record.text, record.logger or "", kinds).rows
                rows = [(name, row) for name, row in known if match_of(row, record.text)]
                if len({name for name, _ in rows}) == 1:
                    name, row = rows[0]
                    votes[name] += 1
                    if not width or len(line) < width:  # the begin of a wrapped line may be another release's wording
                        span = since.setdefault(DIALECTS[name].product, ReleaseSpan())
                        span.add(row.releases.partition("..")[0] + "..")
        return cls(
            frozenset(begin for begin, count in closed.items() if _is_closed(count, started[begin])),
            width,
            tuple(sorted(kinds, key=lambda name: (-votes[name], kinds.index(name)))),
            {product: span.since for product, span in since.items() if span.since},
        )

    def tears(self, record: Opened) -> bool:
        """Whether the end of a record is missing."""
        return record.closed is None and record.starts_record and _begin_of(record) in self.closes

    def is_older(self, found: "Recognised", text: str) -> bool:
        """Whether a record ends with an old wording, which is then the begin of a wording of the log's release."""
        until = found.row.releases.partition("..")[2]
        since = self.since.get(found.dialect.product, "")
        return bool(until and since) and parse(until) < parse(since) and found.end >= len(text.rstrip())


def _begin_of(record: Opened) -> tuple[str, ...]:
    """The wrappers at the begin of a record."""
    return tuple(dict.fromkeys(name for name in record.wrappers if name not in _AT_END))


def _is_closed(closed: int, started: int) -> bool:
    """Whether the layout ends a record with the logger, though many records may be torn."""
    return closed * 2 > started or (closed >= FEWEST_CLOSED and closed * CLOSED_SHARE >= started)


@attrs.define
class _Record:
    line: int
    opened: Opened
    raw: list[str]
    continued: list[str] = attrs.field(factory=list)
    characters: int = 0
    """Length of the lines after the first."""
    heads: int = 0
    """Lines before the message that state the time and the method, as of ``java.util.logging``."""

    @property
    def is_head(self) -> bool:
        """Whether the line has a time and a class with a method, and the next line has the level and the message."""
        now = self.opened
        return now.time is not None and now.level is None and _HEAD.fullmatch(now.text.strip()) is not None

    @property
    def is_full(self) -> bool:
        """Whether the next line is another record."""
        return len(self.continued) >= _MOST_LINES or self.characters >= LONGEST_LINE

    @property
    def is_open_json(self) -> bool:
        """Whether the first line is a JSON object that does not end there."""
        now = self.opened
        return "torn-json" in now.wrappers or (now.text.lstrip()[:1] == "{" and not now.fields)


class LogReader:
    """Reads one log.

    Args:
        file: the name that events state.
        kinds: dialects to look for; empty for all.
        zone: the zone of times without a zone.
        layout: the layout, if the lines are a part of a log; None to learn the layout from the first lines.
    """

    def __init__(
        self, file: str, kinds: Sequence[str] = (), zone: ZoneOffset = utc, layout: LogLayout | None = None
    ) -> None:
        self.summary = LogSummary(file)
        self._kinds = tuple(kinds)
        self._zone = zone
        self._given = layout
        self._layout = layout or LogLayout()
        self._memory: dict[str, Fields] = {}
        self._held: list[Event] = []
        self._held_records = 0
        self._outside = LogSummary(file)
        self._wanted: Callable[[int], bool] = _every_line

    def events(
        self, lines: Iterable[str], first: int = 1, wanted: Callable[[int], bool] | None = None
    ) -> Iterator[Event]:
        """Events of the lines of the log, in the order of lines.

        Args:
            lines: the lines.
            first: the number of the first line.
            wanted: tells whether a record that begins at a line counts; None: all records.
        """
        self._wanted = wanted or _every_line
        for event in self._all_events(lines, first):
            if self._wanted(event.line):
                yield event

    def _all_events(self, lines: Iterable[str], first: int) -> Iterator[Event]:
        iterator = iter(lines)
        sample = sample_of(iterator)
        self._layout = self._given or LogLayout.of(sample, self._kinds, self._zone)
        record: _Record | None = None
        for number, line in enumerate(itertools.chain(sample, iterator), first):
            text = line.rstrip("\r\n")
            if not text or text.isspace():
                if record is not None and record.continued and not record.is_full:
                    record.continued.append("")
                    record.raw.append("")
                continue
            now = opened(text, self._zone)
            if record is not None:
                if now.time is None and self._continues(record, now):
                    record.continued.append(text)
                    record.raw.append(text)
                    record.characters += len(text)
                    continue
                if now.time is None and now.level is not None and record.is_head:
                    logger = record.opened.text.partition(" ")[0]
                    now = now._replace(time=record.opened.time, logger=logger, wrappers=("jul", *now.wrappers))
                    record = _Record(record.line, now, [text], heads=1)
                    continue
                yield from self._finish(record)
            record = _Record(number, now, [text])
        if record is not None:
            yield from self._finish(record)
        yield from self._release()

    def _continues(self, record: _Record, line: Opened) -> bool:
        if line.starts_record or record.is_full:
            return False
        if self._layout.width and len(record.raw[-1]) == self._layout.width:
            return True
        if record.is_open_json:
            return record.raw[-1].strip() not in ("}", "},")
        if not line.text[:1].isspace() and not record.opened.starts_record:
            return False
        found = recognised(line, line.text, self._layout.dialects)
        return found is None or found.row.kind is None

    def _finish(self, record: _Record) -> Iterable[Event]:
        summary = self.summary if self._wanted(record.line) else self._outside
        summary.records += 1
        for name in dict.fromkeys(record.opened.wrappers):
            summary.wrappers[name] += 1
        if "Kafka version" in record.opened.text and (stated := _VERSION.search(record.opened.text)):
            summary.versions[stated[1]] += 1
        found, now, used = self._found(record)
        if found is None:
            summary.add_unknown(record.opened, record.line)
            self._held_records += 1
            return ()
        summary.understood += 1
        summary.dialects[found.dialect.name] += 1
        if now.closed is not False and not found.fields.get("truncated"):
            for releases in (found.row.releases, found.fields.get("_releases")):
                if releases:
                    summary.releases.setdefault(found.dialect.product, ReleaseSpan()).add(str(releases))
        event = self._event(record, now, found, used)
        return () if event is None else self._in_halves(event, found.row)

    def _found(self, record: _Record) -> tuple[Recognised | None, Opened, int]:
        now = record.opened
        if now.closed and not record.continued:
            return recognised(now, now.text, self._layout.dialects), now, 1
        open_end = self._layout.tears(now)
        if record.continued and (open_end or record.is_open_json or len(record.raw[0]) == self._layout.width):
            for joined in ("".join(record.raw), " ".join(record.raw)):
                whole = opened(joined, self._zone)
                found = (
                    recognised(whole, whole.text, self._layout.dialects)
                    if whole.closed or not self._layout.closes
                    else None
                )
                if found is not None:
                    return found, whole, len(record.raw)
        if open_end:
            now = now._replace(closed=False)
        if not record.continued or now.closed is False:
            found = recognised(now, now.text, self._layout.dialects)
            if found is not None and now.closed is None and self._layout.is_older(found, now.text):
                now = now._replace(closed=False)
                found = recognised(now, now.text, self._layout.dialects)
            return found, now, 1
        text = "\n".join((now.text, *record.continued))
        found = recognised(now, text, self._layout.dialects)
        if found is not None and found.start <= len(now.text):
            return found, now, 1 + text.count("\n", 0, found.end)
        if self._layout.closes or _TRACE.match(record.continued[0]):
            return None, now, 1
        for joined in ("".join((now.text, *record.continued)), " ".join((now.text, *record.continued))):
            found = recognised(now, joined, self._layout.dialects)
            if found is not None:
                return found, now, len(record.raw)
        return None, now, 1

    def _event(self, record: _Record, now: Opened, found: Recognised, used: int) -> Event | None:
        fields = dict(found.fields)
        for prefix in found.dialect.prefixes:
            match = prefix.search(now.text)
            for name, value in match.groupdict().items() if match else ():
                if value is not None and fields.get(name) is None:
                    fields[name] = whole_number(value, LARGEST_ID) if name == "broker" else value.strip()
        kind = fields.pop("kind", found.row.kind)
        if kind is None:
            return None
        assert isinstance(kind, str) and kind in KINDS
        memory = self._memory.setdefault(found.dialect.name, {})
        inferred = [name for name in found.row.inferred if fields.get(name) is None and memory.get(name) is not None]
        fields.update({name: memory[name] for name in inferred})
        numbers = fields.pop("_numbers", None)
        if isinstance(numbers, tuple) and memory.get("_topic"):
            fields["partitions"] = tuple(f"{memory['_topic']}-{number}" for number in numbers)
            inferred.append("partitions")
        memory.update({name: fields[name] for name in ("group", "_topic") if fields.get(name)})
        rest = now.text[found.end :].partition("\n")[0]
        if now.closed is False or rest.count("(") > rest.count(")"):
            fields["truncated"] = True
        used += record.heads
        lines = tuple(range(record.line, record.line + used)) if used > 1 else ()
        return Event(
            file=self.summary.file,
            line=record.line,
            kind=kind,
            lines=lines,
            time=now.time.text if now.time else None,
            at_us=now.time.at_us if now.time else None,
            dialect=found.dialect.name,
            process=now.process,
            inferred=tuple(inferred) or None,
            **_cleaned(fields, kind),  # type: ignore[arg-type]
        )

    def _in_halves(self, event: Event, row: Wording) -> Sequence[Event]:
        """Hold the first half of an event until its second half tells its line."""
        released: Sequence[Event] = ()
        if self._held:
            first = self._held[0]
            if event.kind == first.kind and event.group == first.group and not row.halves:
                self._held[0] = attrs.evolve(first, same_event_as=event.line)
                released = self._release()
            elif self._held_records > _HELD or row.halves:
                released = self._release()
        if row.halves or self._held:
            self._held.append(event)
            self._held_records += 1
            return released
        return (*released, event)

    def _release(self) -> Sequence[Event]:
        released, self._held, self._held_records = self._held, [], 0
        return released


def _cleaned(fields: Fields, kind: str) -> Fields:
    """Fields of an event: absent values and values of another type left out, options of Scala and Java opened.

    Control characters of a text are escapes.
    """
    result: Fields = {}
    for name, value in fields.items():
        if name not in _NAMES or value is None:
            continue
        if name in _INTEGERS and not (type(value) is int and abs(value) <= LARGEST_OFFSET):
            continue
        if name in _TEXTS and not isinstance(value, str):
            continue
        if isinstance(value, str):
            if name == "instance":
                some = _SOME.match(value)
                value = some[1] if some else value
                if _NONE.match(value):
                    continue
            if value == "" and not (name == "member" and kind == "member-id-changed"):
                continue
            if name in _IDS and ("\r" in value or "\n" in value):
                continue  # the id of one line with the text of the next
            value = printable(value)
        result[name] = value
    return result


def _every_line(line: int) -> bool:
    return True


def names_of(paths: Sequence[Path]) -> dict[Path, str]:
    """The name that events state for each file: the last part of the path, or the path where two files share a name."""
    count = collections.Counter(path.name for path in paths)
    return {path: path.name if count[path.name] == 1 else str(path) for path in paths}


def read_events(
    paths: Sequence[Path], kinds: Sequence[str] = (), zones: Mapping[str, ZoneOffset] | None = None
) -> tuple[list[Event], list[LogSummary]]:
    """Events of several logs, file by file, and the account of each file; ``zones``: zone of times by name of file.

    Raises:
        BadInput: a file cannot be read.
    """
    events: list[Event] = []
    summaries = []
    for path, name in names_of(paths).items():
        reader = LogReader(name, kinds, (zones or {}).get(path.name, utc))
        with open_log(path) as lines:
            events += reader.events(lines)
        summaries.append(reader.summary)
    return events, summaries
