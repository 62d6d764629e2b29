"""Damaged logs of brokers and clients for the fuzzer: records with damage in bytes, words, lines and gzip."""

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from kemu.emulator.text.tables import printable
from lab.from_schema import ODD

DATA = Path(__file__).parent.parent / "tests" / "data"
REQUESTS = (
    "[2019-01-01 00:00:00,000] DEBUG Completed request:RequestHeader(apiKey=HEARTBEAT, apiVersion=2, clientId=c,"
    " correlationId=7) -- {group_id=g,generation_id=3,member_id=m-1},response:{throttle_time_ms=0,error_code=27} from"
    " connection 10.0.0.1:9092-10.0.0.2:5000-1;totalTime:0.5,requestQueueTime:0.1 (kafka.request.logger)",
    "[2019-01-01 00:00:01,000] DEBUG Completed request:RequestHeader(api_key=11, api_version=4, client_id=c,"
    " correlation_id=8) -- {group_id=g,session_timeout=10000,member_id=,protocol_type=consumer},response:{error_code=0,"
    "generation_id=4,group_protocol=range,leader_id=m-1,member_id=m-1,members=[]} from connection x;totalTime:3001.5,"
    "requestQueueTime:0.1 (kafka.request.logger)",
)  # fmt: skip
"""Requests in the text form of releases before 2.8 (``kafka.network.RequestChannel``)."""
MOST_LINES = 40
MOST_BYTES = 2_000_000
"""Size of a log without the text of a bomb: reading takes time in proportion to the size."""
BOMBS = (1 << 20, 5 << 20, 20 << 20)
"""Numbers of texts that a bomb repeats."""
HEADS = ("", "[2024-05-06 07:08:09,123] INFO ", "x 2024-99-99 00:00:00 INFO ", "msg=", '{"message":')
UNITS = (
    "a", "0", " ", "\0", "(", "[", "{", '"', "\\", "=", "<", "-", ",", "\x1b[31m", "msg=", "│ ", "> ", "1:",
    "{'a':", '{"log":', '{"a":[', "2024-99-99 00:00:00 INFO ", "[2024-05-06 07:08:09,123] INFO ", "g-1, ",
    "m=Assignment(partitions=[t-1]), ", "(org.apache.", "x-0..9 ", 'msg="', "Member c-1 ", "Group g ", "t-1 ", "│{1",
)  # fmt: skip
"""Texts that a long line repeats."""
NUMBERS = (
    "9" * 19, "9" * 400, "9" * 5000, "-1", "²", "٣", "1e999", "NaN", "0", "2147483648", "1" * 16, "9999999999999999999",
    "0-999999999", "0..999999999",
)  # fmt: skip
TIMES = (
    "0000-00-00 00:00:00,000", "9999-12-31 23:59:60,999", "0001-01-01 00:00:00,000", "2024-13-45 99:99:99,999",
    "99999-01-01 00:00:00,000", "1970-01-01T00:00:00+99:99", "1999999999999", "1999999999.999999999",
)  # fmt: skip
ODD_TEXTS = ("\ud800", "\u202e", "\x9b31m", "\x1b]0;x\x07", "ﬀ", "\u2028", "\x85", "\x1c", "a" * 300, "", "\n", "\x00")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]?\d*")


@cache
def _sources() -> tuple[tuple[str, ...], ...]:
    """The lines of each log."""
    excerpts = [path.read_text(encoding="utf-8") for path in sorted((DATA / "logs").glob("*.log"))]
    recorded = [
        gzip.decompress(path.read_bytes()).decode()
        for path in sorted((DATA / "kafka-3.4.1" / "logs").glob("*/*.log.gz"))
    ]
    return (*(tuple(text.splitlines()) for text in (*excerpts, *recorded)), REQUESTS)


def drawn_lines(draws: Random) -> list[str]:
    """Draw a part of a log, or parts of two logs."""
    lines: list[str] = []
    for _ in range(draws.choice((1, 1, 1, 2))):
        source = draws.choice(_sources())
        first = draws.randrange(len(source))
        lines += source[first : first + draws.randrange(1, MOST_LINES)]
    return lines


def damaged_log(draws: Random) -> bytes:
    """Draw a log with damage; a share of the logs is packed with gzip, or is whole."""
    lines = drawn_lines(draws)
    if draws.random() < 0.95:
        for _ in range(draws.choice((1, 1, 2, 5))):
            draws.choice(_CHANGES)(lines, draws)
    ending = draws.choice(("\n", "\n", "\n", "\r\n", "\r"))
    encoding = draws.choice(("utf-8",) * 12 + ("utf-16", "latin-1", "utf-8-sig"))
    content = ending.join(lines).encode(encoding, "surrogatepass" if encoding == "utf-8" else "replace")
    if draws.random() < 0.2:
        content = _flipped(content, draws)
    content = content[:MOST_BYTES]
    return _packed(content, draws) if draws.random() < 0.15 else content


def _flipped(content: bytes, draws: Random) -> bytes:
    data = bytearray(content)
    for _ in range(draws.choice((1, 3, 30))):
        at = draws.randrange(len(data) + 1)
        data[at : at + draws.choice((0, 1, 1, 4))] = draws.randbytes(draws.choice((0, 1, 1, 4)))
    return bytes(data)


def _packed(content: bytes, draws: Random) -> bytes:
    if draws.random() < 0.02:
        return gzip.compress(content + draws.choice((b"\n", b"a", b"\0", b"a\n")) * draws.choice(BOMBS))
    data = gzip.compress(content)
    return data if draws.random() < 0.2 else data[:2] + _flipped(data[2 : draws.randrange(3, len(data) + 1)], draws)


# --- changes of lines ------------------------------------------------------------------------------------------------


def _without(lines: list[str], draws: Random) -> None:
    """Remove lines."""
    lines[:] = [line for line in lines if draws.random() < 0.8]


def _order(lines: list[str], draws: Random) -> None:
    """Reverse, shuffle or double the lines."""
    kind = draws.randrange(3)
    if kind == 0:
        lines.reverse()
    elif kind == 1:
        draws.shuffle(lines)
    else:
        lines[:] = [line for line in lines for _ in range(draws.choice((1, 2, 3)))]


def _wrapped(lines: list[str], draws: Random) -> None:
    """Wrap lines at the width of a terminal."""
    width = draws.randrange(20, 200)
    lines[:] = [line[at : at + width] for line in lines for at in range(0, max(1, len(line)), width)]


def _torn(lines: list[str], draws: Random) -> None:
    """Cut lines at any place."""
    share = draws.choice((0.1, 1.0))
    lines[:] = [line[: draws.randrange(len(line) + 1)] if draws.random() < share else line for line in lines]


def _long(lines: list[str], draws: Random) -> None:
    """Insert a long line."""
    unit, count = draws.choice(UNITS), draws.choice((100, 3_000, 3_000, 100_000))
    line = draws.choice((*HEADS, draws.choice(lines or [""])))
    at = draws.randrange(len(line) + 1)
    lines.insert(draws.randrange(len(lines) + 1), line[:at] + unit * count + line[at:])


def _many(lines: list[str], draws: Random) -> None:
    """Repeat a line, or an odd one, without a time."""
    line = draws.choice((*UNITS, *lines, draws.choice(lines or [""])[24:]))
    at = draws.randrange(len(lines) + 1)
    lines[at:at] = [line] * draws.choice((10, 100, 300))


def _numbers(lines: list[str], draws: Random) -> None:
    """Replace numbers."""
    fresh = draws.choice(NUMBERS)

    def changed(found: re.Match[str]) -> str:
        return fresh if draws.random() < 0.1 else found[0]

    _change_lines(lines, draws, lambda line: re.sub(r"(?<=[\W_])\d+(?=\W)", changed, line))


def _times(lines: list[str], draws: Random) -> None:
    """Replace times."""
    _change_lines(lines, draws, lambda line: _TIME.sub(draws.choice(TIMES), line))


def _words(lines: list[str], draws: Random) -> None:
    """Replace, double or insert words."""
    words = draws.choice(lines or [""]).split(" ")

    def changed(line: str) -> str:
        own = line.split(" ")
        at = draws.randrange(len(own) + 1)
        own[at : at + draws.choice((0, 1, 1, 3))] = draws.choice(
            (words[-3:], [draws.choice(ODD_TEXTS)], [draws.choice(words)], [])
        )
        return " ".join(own)

    _change_lines(lines, draws, changed)


def _json(lines: list[str], draws: Random) -> None:
    """Change values of JSON objects, nest them, or write lines as JSON."""

    def changed(line: str) -> str:
        head, brace, rest = line.partition("{")
        body, end, tail = rest.rpartition("}")
        try:
            row = json.loads(brace + body + end)
        except (ValueError, RecursionError):
            row, head, tail = {draws.choice(("message", "log", "msg")): line, "@timestamp": draws.choice(TIMES)}, "", ""
        fresh: Any = changed_json(row, draws) if draws.random() < 0.8 else row
        text = json.dumps(fresh, ensure_ascii=draws.random() < 0.5)
        if draws.random() < 0.05:
            deep = draws.choice((100, 5_000, 100_000))
            text = text[:1] + '"a":' + "[" * deep + "]" * draws.choice((0, deep)) + "," + text[1:]
        return head + text + tail

    _change_lines(lines, draws, changed)


def _change_lines(lines: list[str], draws: Random, changed: Any) -> None:
    """Change a share of the lines."""
    share = draws.choice((0.1, 0.5, 1.0))
    lines[:] = [changed(line) if draws.random() < share else line for line in lines]


def changed_json(value: Any, draws: Random) -> Any:
    """Replace, remove or repeat a value somewhere inside a value."""
    if isinstance(value, Mapping) and value and draws.random() < 0.9:
        name = draws.choice(list(value))
        if draws.random() < 0.1:
            return {key: each for key, each in value.items() if key != name}
        return {**value, name: changed_json(value[name], draws)}
    if isinstance(value, list) and value and draws.random() < 0.85:
        at = draws.randrange(len(value))
        if draws.random() < 0.1:
            return [*value, value[at]]
        return [*value[:at], changed_json(value[at], draws), *value[at + 1 :]]
    return draws.choice((*ODD, *ODD_TEXTS))


_CHANGES: Sequence[Any] = (
    _without,
    _order,
    _wrapped,
    _torn,
    _long,
    _many,
    _numbers,
    _times,
    _words,
    _words,
    _json,
    _json,
)


# --- invented facts --------------------------------------------------------------------------------------------------

_STATED = ("group", "member", "instance", "client", "generation", "old_generation", "partition")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[[0-9;]*m|\x1b\(B|\ufeff|\r")
_GAPS = re.compile(r"\\[nrt]|[\s\\'\"`*│┃>|/]+")


def invented(content: str, event: Mapping[str, Any]) -> str:
    """Return a name or number that an event states and its log does not contain; "" if there is none."""
    for key in _STATED:
        value = event.get(key)
        stated = value is not None and key not in event.get("inferred", ()) and value != -1
        if stated and squeezed(str(value)) not in content:
            return f"{key} {value!r}"
    return ""


def squeezed(text: str) -> str:
    """Return a text without white space, quotes, escapes and the borders of tables, which readers remove."""
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), _ANSI.sub("", text))
    return _GAPS.sub("", printable(text))
