"""Wrappers around messages: layouts of loggers, of collectors and of people who quote logs.

A wrapper strips something from a line and keeps the parts it knows. Wrappers compose: ``opened`` strips as long as one
applies. A message keeps anything that no wrapper knows, so dialects search their wordings within a message.
"""

import csv
import html
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import attrs

from kemu.tools.kafka_files.input_files import LARGEST_ID
from kemu.tools.logs.wrappers.times import TIME, Time, ZoneOffset, of_epoch, read_time, utc

_LEVELS = (
    r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|FATAL|CRITICAL|SEVERE"
    r"|trce|dbug|info|warn|fail|crit|debug|error)"
)


_NO_FIELDS: Mapping[str, object] = {}
_WIDEST = 2_000
"""Characters of all wrappers at the begin, and of one at the end."""


class Opened(NamedTuple):
    """A line without its wrappers.

    ``closed`` tells how the line ends: True if a closing part of the layout is there, False if that part is torn, None
    if nothing is known. ``wrappers`` names the wrappers that were there, in order.
    """

    text: str
    time: Time | None = None
    level: str | None = None
    logger: str | None = None
    thread: str | None = None
    process: int | None = None
    fields: Mapping[str, object] = _NO_FIELDS
    closed: bool | None = None
    wrappers: tuple[str, ...] = ()

    @property
    def starts_record(self) -> bool:
        """Whether the line states a time, a level or fields, as only the first line of a record does."""
        return self.time is not None or self.level is not None or bool(self.fields)


@attrs.frozen
class Wrapper:
    """A part of a layout, at the begin of a line (``head``) or at the end: its name and its pattern."""

    name: str
    pattern: re.Pattern[str]
    head: bool = True

    def __call__(self, opened: Opened, zone: ZoneOffset) -> Opened | None:
        """The line without this part; None if the part is not there."""
        text = opened.text
        match = (
            self.pattern.match(text, 0, _WIDEST)
            if self.head
            else self.pattern.search(text, max(0, len(text) - _WIDEST))
        )
        if match is None:
            return None
        parts = match.groupdict()
        changes: dict[str, Any] = {"text": text[match.end() :] if self.head else text[: match.start()]}
        stated = parts.get("time")
        if stated:
            time = read_time(stated, zone)
            if time is None:
                return None
            changes["time"] = time
        for key in ("level", "logger", "thread"):
            if parts.get(key):
                changes[key] = parts[key]
        if parts.get("process"):
            changes["process"] = int(parts["process"])
        if self.name == "logger-last":
            changes["closed"] = parts.get("torn") is None
        names = opened.wrappers if self.name in opened.wrappers[-1:] else (*opened.wrappers, self.name)
        return opened._replace(wrappers=names, **changes)


def _wrapper(name: str, pattern: str) -> Wrapper:
    return Wrapper(name, re.compile(pattern, re.DOTALL))


def _last(name: str, pattern: str) -> Wrapper:
    return Wrapper(name, re.compile(pattern + r"\s*$"), head=False)


_TIME = rf"(?P<time>{TIME})"
_DOTTED = r"\w+(?:[.$]+\w+)+\$?"
_DATE_SPACE = r"\d{2,4}[-/]\d\d[-/]\d\d "
"""The begin of a time that syslog does not write: two words and a colon after such a time are the message."""
_AFTER_GREP = r"(?=[\[\s(>{%#*]|[A-Z]|\d{4}-\d\d-|\d\d:\d\d:)"

_BEFORE = (
    _wrapper("box", r"\s*[│┃]\s?"),
    _wrapper("markdown", r"\s*(?:>\s?|\*\*(?=\S)|`{1,3}(?=\S)|-\s+(?=[\[\d]))+"),
    _wrapper("comment", r"\s*(?:///?|#+|/\*+|\*|<!--|--|;;?|rem)\s+(?=[\[\d{%(A-Z])"),
    _wrapper(
        "grep", rf"\s*(?:[\w./-]+\.(?:log|txt|out)[\w.-]*[:-])?\d{{1,7}}(?:[:-]|\t|\s{{2,}}(?=[\[{{])){_AFTER_GREP}"
    ),
    _wrapper("grep", r"[\w./-]+\.(?:log|txt|out)[\w.-]*:\s?"),
    _wrapper("kubernetes", rf"{_TIME}\s(?:stdout|stderr)\s[FP]\s"),
    _wrapper("kubernetes", r"\[(?:pod/)?[\w.-]+/[\w./-]+\]\s"),
    _wrapper("compose", r"[A-Za-z][\w./-]*\s*\|\s(?!\s*thrd)"),
    _wrapper("stern", r"[a-z0-9][a-z0-9-]*\s[a-z0-9][a-z0-9-]*\s(?=\[?\d{4}-\d\d-\d\d[ T])"),
    _wrapper("stern", r"[a-z0-9]+(?:-[a-z0-9]+)+\s[a-z0-9][a-z0-9-]*\s(?=\{\")"),
    _wrapper("syslog", rf"<\d{{1,3}}>1\s{_TIME}\s\S+\s\S+\s\S+\s\S+\s(?:-|\[.*?\])\s?"),
    _wrapper(
        "syslog",
        rf"(?:<\d{{1,3}}>)?(?!{_DATE_SPACE}){_TIME}\s[\w.-]+\s[\w./@-]+(?:\[(?P<process>\d{{1,10}})\])?:\s",
    ),
    _wrapper(
        "glog", r"(?P<level>[IWEF])\d{4}\s(?P<time>\d\d:\d\d:\d\d\.\d{1,9})\s+(?P<process>\d{1,10})\s[\w.]+:\d+\]\s"
    ),
    _wrapper("librdkafka", rf"(?:%?\d|{TIME})\|{_TIME}\|(?P<logger>[A-Z_0-9]+)\|\s?(?P<thread>[^|]*)\|\s"),
    _wrapper("librdkafka", rf"%?\d\|{_TIME}\|(?P<thread>[^|]*)\|(?P<logger>[A-Z_0-9]+)\|\s"),
    _wrapper("librdkafka", rf"{_TIME}\sRDKAFKA-\d-(?P<logger>[A-Z_0-9]+):\s(?P<thread>[^:]*):\s"),
    _wrapper("librdkafka", r"LOG-\d-(?P<logger>[A-Z_0-9]+):\s(?=\[thrd:)"),
    _wrapper("librdkafka", r"(?P<logger>[A-Z_0-9]{3,})\s\[(?P<thread>[^\]]*)\]\s(?=\[thrd:)"),
    _wrapper("librdkafka-thread", r"\[thrd:[^\]]*\]:\s"),
    _wrapper("time", rf"\s*[\[(]?{_TIME}[\])]?[,:;|]?(?:\s+|$|(?=\[{_LEVELS}\]))(?:[-|:]\s+)?"),
    _wrapper(
        "time",
        rf"\[(?P<time>{_DATE_SPACE}\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?):\s(?P<level>{_LEVELS})"
        r"(?:/(?P<thread>[^\]]*))?\]:?\s",
    ),
    _wrapper("ruby", rf"[DIWEF],\s\[{_TIME}\s#(?P<process>\d{{1,10}})\]\s+(?P<level>{_LEVELS})\s--\s[^:]*:\s"),
    _wrapper(
        "spring",
        rf"(?P<level>{_LEVELS})\s+(?P<process>\d{{1,10}})\s+---\s+(?:\[[^\]]*\]\s+)?\[(?P<thread>[^\]]*)\]"
        r"\s+(?P<logger>\S+)\s*:\s",
    ),
    _wrapper("spring", r"(?P<process>\d{1,10})\s+---\s+\[(?P<thread>[^\]]*)\]\s+(?P<logger>\S+)\s*:\s"),
    _wrapper("python", rf"(?P<level>{_LEVELS}):(?P<logger>[\w.]+):(?=\S)"),
    _wrapper("python", rf"(?P<logger>{_DOTTED})\s+(?:-\s)?(?P<level>{_LEVELS})\s+(?:[-|:]\s+)?"),
    _wrapper("python", rf"(?P<logger>[A-Za-z_][\w.-]*)\s-\s(?P<level>{_LEVELS})\s-\s"),
    _wrapper("python", r"(?P<logger>[\w.]+):\w+\.py:\d+\s+"),
    _wrapper("python", r"(?P<logger>(?:aio)?kafka(?:\.[a-z_]+)+)\s+(?=\S)"),
    _wrapper("level", rf"(?:-{{2,}}\s)?[\[<(|]?(?P<level>{_LEVELS})[\]>)|]?(?:\s*[:|-]+\s|\s+|$)"),
    _wrapper("name", r"\[[A-Za-z][\w .-]*\]:?\s+(?=\d{4}[/-]\d\d[/-]\d\d)"),
    _wrapper("name", r"[\w.-]+(?:\[\d{1,10}\])?:\s(?=\{\s?\")"),
    _wrapper("process", r"\[(?P<process>\d{1,7})\]\s+(?=\[)"),
    _wrapper(
        "thread",
        rf"[\[(](?P<thread>[^\]=\[]*)[\])]\s+(?=(?:-\s+)?\[?{_LEVELS}\b|\S+\s[-:]\s|\S+\s\([\w$]+\.java|[\w.]+\.\w+:)",
    ),
    _wrapper(
        "logger", rf"(?P<logger>{_DOTTED}|[A-Z]\w+(?::\d+))(?:\s\([\w$]+\.\w+:\d+\))?(?:\s+[-:|]\s+|:\s+|\[\d+\]\s*)"
    ),
    _wrapper("logger", r"(?P<logger>[\w./@-]+\.go:\d+):?\s+"),
    _wrapper("logger", r"(?P<logger>[\w$.]+)\s\([\w$]+\.java:\d+\)\s-\s"),
    _wrapper("connect-task", r"\[(?P<thread>[\w.-]+\|(?:task-\d+|worker)[\w|-]*)\]\s"),
)

_AFTER = (
    _last("box", r"\s*[│┃]"),
    _last("suffix-fields", r"(?<=\)) - \w+=.*"),
    _last("markdown", r"(?:\*\*|`{1,3})"),
    _last("logger-thread", r"(?<=\w\))\s\[(?P<thread>[^\]]*)\]"),
    _last("logger-last", r"\s+\((?P<logger>(?:kafka|org|io|state|com|unclean)\.[\w.$-]+(?::\d+)?)\)"),
    _last("logger-last", r"\s+\((?P<logger>(?P<torn>)(?:kafka|org|io|state|com)\.[\w.$-]*)"),
    _last("json-comma", r"(?<=\}),"),
)

_BEGIN = re.compile(
    "|".join(f"(?P<w{i}>{re.sub(r'[(][?]P<[a-z]+>', '(?:', w.pattern.pattern)})" for i, w in enumerate(_BEFORE)),
    re.DOTALL,
)
"""The group ``w<index>`` names the wrapper at the begin of a text."""
_PLACES = {f"w{place}": place for place in range(len(_BEFORE))}

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\(B|\r$")
_ORDINARY_ENDS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789."
_ANSI_WITHOUT_ESCAPE = re.compile(r"\[(?:\d{1,3};)*\d{1,3}m")

_USUAL = re.compile(
    rf"\[(?P<second>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{{3}})\] (?P<level>{_LEVELS}) +"
    r"(?P<text>\[[A-Z][a-z]\w* [^\]\[:]*\]:? (?:[A-Z][a-z]+ [a-z]|\[Group)[^\n]*)"
    r" \((?P<logger>(?:kafka|org|io|state|com)\.[\w.$-]+(?::\d+)?)\)"
)
"""A record in the default layout of Kafka, which most lines have. No wrapper can begin its message: a name in capitals
and small letters in brackets, with a space, and two words."""

_INSIDE = re.compile(
    rf".{{1,80}}?(?P<rest>(?:%\d\|1\d{{9}}\.\d|\[?\d{{4}}-\d\d-\d\d[ T]\d\d:\d\d:\d\S*\s+\S*?{_LEVELS}\b).*)", re.DOTALL
)
_MESSAGE_KEYS = (
    "message",
    "msg",
    "log",
    "@message",
    "short_message",
    "textPayload",
    "text",
    "body",
    "MESSAGE",
    "event",
    "content",
    "line",
)
_TIME_KEYS = ("@timestamp", "timestamp", "ts", "time", "timeMillis", "datetime", "date", "asctime", "t", "@t")
_LEVEL_KEYS = ("level", "log.level", "levelname", "severity", "log_level", "lvl", "@l", "loglevel")
_LOGGER_KEYS = (
    "logger",
    "logger_name",
    "loggerName",
    "log.logger",
    "name",
    "class",
    "fac",
    "category",
    "caller",
    "SourceContext",
)
_THREAD_KEYS = ("thread", "thread_name", "threadName", "process.thread.name")
_DEEPEST = 8
"""Number of messages within a message that are read."""
_DECODER = json.JSONDecoder()
_AFTER_JSON = re.compile(r"[\s\]}).,;*`']+")
_HEADLESS_JSON = re.compile(r'"(?:level|timestamp|@timestamp|time|ts|severity)":')
"""The begin of a JSON record whose brace was not copied."""
_TAIL = re.compile(r"(?<=\s)\{\s?\".*\}$", re.DOTALL)
"""Fields behind a message, as of zap's console and of custom loggers of KafkaJS."""
_HTML = re.compile(
    r"</?(?:span|p|br|blockquote|pre|code|div|li|tt|b|em|strong)\b[^<>]{0,200}>|&(?:#\d{1,4}|lt|gt|amp|quot);"
)
"""Tags and characters of a web page's text; member ids of Erlang have other names in angle brackets."""
_SPACES = str.maketrans("\xa0\u2007\u202f", "   ", "\u200b\ufeff")
"""Spaces that a web page adds: JSON allows none of them between its values."""
_TORN_MESSAGE = re.compile(r'"(?:message|msg|log|MESSAGE)"\s*:\s*"((?:[^"\\]|\\.)*)("?)')
_PAIR = re.compile(r'"([@\w.]+)"\s*:\s*"((?:[^"\\]|\\.)*)"')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NESTED_KEYS = ("_source", "jsonPayload", "result", "fields", "log")


def opened(line: str, zone: ZoneOffset = utc, depth: int = 0) -> Opened:
    """A line without its wrappers. A time further inside wins over a time further outside.

    ``depth``: number of messages around this one.
    """
    text = line if line.isascii() else line.translate(_SPACES)
    names: tuple[str, ...] = ()
    if "\x1b" in text or "\r" in text:
        text = _ANSI.sub("", text)
    plain = _ANSI_WITHOUT_ESCAPE.sub("", text)
    if plain != text or "\x1b" in line:
        names, text = ("ansi",), plain
    usual = _usual(text, names, zone)
    if usual is not None:
        return usual
    if "&" in text or "</" in text or "<br" in text:
        page = _HTML.sub(lambda found: html.unescape(found[0]) if found[0][0] == "&" else "", text)
        names, text = ((*names, "html"), page) if page != text else (names, text)
    result = Opened(text, wrappers=names)
    if text.rstrip()[-1:] not in _ORDINARY_ENDS or " (" in text:
        for wrapper in _AFTER:
            result = wrapper(result, zone) or result
    for _ in range(12):
        stripped = result.text.lstrip()
        if stripped[:1] == '"' and _HEADLESS_JSON.match(stripped):
            stripped = "{" + stripped
        if stripped[:1] == "{":
            inner = _open_json(result._replace(text=stripped), zone, depth)
            if inner is not None:
                return inner
        if stripped[:1] == '"' and '","' in stripped:
            inner = _open_csv(result._replace(text=stripped), zone, depth)
            if inner is not None:
                return inner
        begin = _BEGIN.match(result.text, 0, _WIDEST)
        if begin is None:
            break
        assert begin.lastgroup is not None
        for wrapper in _BEFORE[_PLACES[begin.lastgroup] :]:
            inner = wrapper(result, zone)
            if inner is not None and inner.text != result.text:
                result = inner
                break
        else:
            break
    if result.text.startswith(("level=", "time=", "ts=", "msg=")) or " msg=" in result.text[:200]:
        inner = _open_logfmt(result, zone, depth)
        if inner is not None:
            return inner
    if '":' in result.text and not result.fields and result.logger is None:
        inner = _open_torn_json(result, zone, depth)
        if inner is not None:
            return inner
    if result.text.endswith("}") and (tail := _TAIL.search(result.text)) and not result.fields:
        result = result._replace(fields=json_object(tail[0]) or _NO_FIELDS)
    if not result.starts_record and depth < _DEEPEST and (inside := _INSIDE.match(result.text)):
        result = opened(inside["rest"], zone, depth + 1)
        return result._replace(wrappers=("glued", *result.wrappers))
    return result


def _usual(text: str, names: tuple[str, ...], zone: ZoneOffset) -> Opened | None:
    """The result of the wrappers of the default layout, in less time; None for a record of another layout."""
    found = _USUAL.fullmatch(text)
    second = found and read_time(found["second"], zone)
    if not found or not second or " msg=" in found["text"][:200]:
        return None
    ms = found["ms"]
    time = Time(f"{second.text}.{ms}", second.at_us + 1_000 * int(ms), second.zoned, second.dated)
    wrappers = (*names, "logger-last", "time", "level")
    return Opened(found["text"], time, found["level"], found["logger"], None, None, _NO_FIELDS, True, wrappers)


def json_object(text: str) -> dict[str, object] | None:
    """The object of a JSON text, with "?" for half of a surrogate pair; None for another text."""
    try:
        row = json.loads(text)
        if _SURROGATE.search(text):
            row = json.loads(json.dumps(row, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _open_csv(outer: Opened, zone: ZoneOffset, depth: int) -> Opened | None:
    """A row of a table that a web console exported: its longest cell with a space is the record."""
    if not outer.text.rstrip().endswith('"'):
        return None
    try:
        cells = next(csv.reader([outer.text.strip()]))
    except csv.Error:
        return None
    times = {cell: time for cell in cells if (time := read_time(cell, zone)) is not None}
    message = max((cell for cell in cells if cell not in times), key=lambda cell: (" " in cell, len(cell)), default="")
    return _open_row(outer, {"message": message, "time": next(iter(times.values()), None)}, "csv", zone, depth)


def _open_json(outer: Opened, zone: ZoneOffset, depth: int) -> Opened | None:
    row = json_object(outer.text) or json_object(_object_at_begin(outer.text))
    return _open_torn_json(outer, zone, depth) if row is None else _open_row(outer, row, "json", zone, depth)


def _object_at_begin(text: str) -> str:
    """The JSON object at the begin of a text that somebody copied with a part of its surroundings; "" without one."""
    try:
        end = _DECODER.raw_decode(text)[1]
    except (ValueError, RecursionError):
        return ""
    return text[:end] if _AFTER_JSON.fullmatch(text, end) else ""


def _open_torn_json(outer: Opened, zone: ZoneOffset, depth: int) -> Opened | None:
    """A part of a JSON record with its message, or with the begin of the message."""
    message = _TORN_MESSAGE.search(outer.text)
    if message is None:
        return None
    row: dict[str, object] = {key: _unescaped(value) for key, value in _PAIR.findall(outer.text)}
    row["message"] = _unescaped(message[1])
    inner = _open_row(outer, row, "torn-json", zone, depth)
    return inner._replace(closed=inner.closed if message[2] else False) if inner else None


def _unescaped(text: str) -> str:
    value = json_object(f'{{"a": "{text}"}}')
    return str(value["a"]) if value else text


def _open_row(outer: Opened, row: Mapping[str, object], name: str, zone: ZoneOffset, depth: int) -> Opened | None:
    if depth == _DEEPEST:
        return None
    for key in _NESTED_KEYS:
        inner = row.get(key)
        if isinstance(inner, dict) and not isinstance(row.get("message"), str):
            row = {**row, **inner}
    message = _first(row, _MESSAGE_KEYS)
    if not isinstance(message, str):
        return None
    time = outer.time
    for key in _TIME_KEYS:
        value = row.get(key)
        stated = (
            of_epoch(value)
            if isinstance(value, int | float)
            else read_time(value, zone)
            if isinstance(value, str)
            else value
            if isinstance(value, Time)
            else None
        )
        if stated is not None:
            time = stated
            break
    inner_line = (
        opened(message.rstrip("\n"), zone, depth + 1)
        if "\n" not in message.rstrip("\n")
        else Opened(message.rstrip("\n"))
    )
    pid = row.get("pid")
    return inner_line._replace(
        time=inner_line.time or time,
        level=inner_line.level or _text(_first(row, _LEVEL_KEYS)) or outer.level,
        logger=inner_line.logger or _text(_first(row, _LOGGER_KEYS)) or outer.logger,
        thread=inner_line.thread or _text(_first(row, _THREAD_KEYS)) or outer.thread,
        process=inner_line.process or (pid if type(pid) is int and 0 <= pid <= LARGEST_ID else outer.process),
        fields={**row, **inner_line.fields},
        closed=True,
        wrappers=(*outer.wrappers, name, *inner_line.wrappers),
    )


_LOGFMT = re.compile(
    r'(?<![\w.@-])([\w.@-]+)=("(?:[^"\\]|\\.)*"|\{[^}]{0,10000}\}|\[[^\]]{0,10000}\]|map\[[^\]]{0,10000}\]|\S*)'
)


def _open_logfmt(outer: Opened, zone: ZoneOffset, depth: int) -> Opened | None:
    row = {key: _unquoted(value) for key, value in _LOGFMT.findall(outer.text)}
    return _open_row(outer, row, "logfmt", zone, depth) if "msg" in row or "message" in row else None


def _unquoted(value: str) -> str:
    if value[:1] == '"' and value[-1:] == '"' and len(value) > 1:
        return value[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t")
    return value


def _first(row: Mapping[str, object], keys: tuple[str, ...]) -> object:
    return next((row[key] for key in keys if isinstance(row.get(key), str | int)), None)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


Opener = Callable[[str], Opened]
