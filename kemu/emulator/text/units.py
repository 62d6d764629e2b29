"""Durations, rates and throughputs as texts ("250ms", "1m30s", "100/s", "50MB/s") and as integers."""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import cast

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h)")
_THROUGHPUT = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|KB|MB|GB)?(?:\s*/\s*s)?")
_BYTES = {"B": 1, "kB": 1_000, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_RATE = re.compile(r"(\d+)\s*(?:/\s*(s|m))?")

LONGEST_US = 7 * 24 * 3_600_000_000
"""Longest duration in a scenario, in us: a week."""

LONGEST_TEXT = 100
"""Maximum length of the text of a duration, in characters."""

DURATION = r"^\s*(0|(\d+(\.\d+)?\s*(us|ms|s|m|h))+)\s*$"
RATE = r"^\s*\d+\s*(/\s*[sm])?\s*$"
THROUGHPUT = r"^\s*\d+(\.\d+)?\s*(B|kB|KB|MB|GB)?(\s*/\s*s)?\s*$"
"""Patterns of the texts that ``duration_us``, ``per_second`` and ``bytes_per_second`` read, for the JSON Schema."""


def duration_us(text: str) -> int:
    """Return the microseconds of a text such as "20s", "250ms", "1m30s", "1.5s" or "0".

    Raises:
        ValueError: the text is no duration, or no whole number of microseconds.
    """
    compact = text.strip()
    if compact == "0":
        return 0
    if len(compact) > LONGEST_TEXT:
        raise ValueError("is no duration; write it like 250ms, 20s, 1m30s")
    total, position = Decimal(0), 0
    for part in _PART.finditer(compact):
        if part.start() != position:
            break
        total += Decimal(part[1]) * _UNITS[part[2]]
        position = part.end()
    if position != len(compact) or not compact:
        raise ValueError(f"{text!r} is no duration; write it like 250ms, 20s, 1m30s")
    if total != int(total):
        raise ValueError(f"{text!r} is finer than a microsecond")
    return int(total)


def microseconds(given: int | str) -> int:
    """Convert a text such as "20s" to us. Integers and wrong texts are returned unchanged, for a later check of the
    field.
    """
    try:
        return duration_us(given) if isinstance(given, str) else given
    except ValueError:
        return cast(int, given)


def rate_per_s(given: int | str) -> int:
    """Convert a text such as "100/s" to records per second. Numbers and wrong texts are returned unchanged."""
    try:
        return per_second(given) if isinstance(given, str) else given
    except ValueError:
        return cast(int, given)


def words(given: str | Iterable[str]) -> tuple[str, ...]:
    """Convert a text with commas, or a list, to a tuple of names. Other values are returned unchanged."""
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    return tuple(given) if isinstance(given, Iterable) else cast(tuple[str, ...], given)


def counts(given: Iterable[int]) -> tuple[int, ...]:
    """Convert a list to a tuple of numbers. Other values are returned unchanged, for a later check of the field."""
    return tuple(given) if isinstance(given, list | tuple) else cast(tuple[int, ...], given)


def duration_text(us: int) -> str:
    """Return the shortest exact text of a duration: "20s" for 20_000_000, "1500us" for 1_500, "0s" for 0."""
    assert us >= 0, us
    if us % 1_000_000 == 0:
        seconds = us // 1_000_000
        minutes, rest = divmod(seconds, 60)
        if minutes and seconds % 3600 == 0:
            return f"{seconds // 3600}h"
        return f"{minutes}m" + (f"{rest}s" if rest else "") if minutes else f"{seconds}s"
    return f"{us // 1_000}ms" if us % 1_000 == 0 else f"{us}us"


def per_second(text: str) -> int:
    """Return the records per second of a text such as "100/s", "6000/m" or "100".

    Raises:
        ValueError: the text is no rate, or no whole number of records per second.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no rate; write it like 100/s")
    count = int(match[1])
    if match[2] == "m" and count % 60:
        raise ValueError(f"{text!r} is no whole number of records per second")
    return count // 60 if match[2] == "m" else count


def bytes_per_second(text: str) -> int:
    """Return the bytes per second of a text such as "100MB/s", "1.5 GB/s" or "5000".

    Raises:
        ValueError: the text is no throughput, or no whole number of bytes.
    """
    match = _THROUGHPUT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no throughput; write it like 50MB/s")
    total = Decimal(match[1]) * _BYTES[match[2] or "B"]
    if total != int(total):
        raise ValueError(f"{text!r} is no whole number of bytes per second")
    return int(total)


def throughput(given: int | str) -> int:
    """Convert a text such as "50MB/s" to bytes per second. Numbers and wrong texts are returned unchanged."""
    try:
        return bytes_per_second(given) if isinstance(given, str) else given
    except ValueError:
        return cast(int, given)


def throughput_text(bytes_per_s: int) -> str:
    """Return the shortest exact text of a throughput: "50MB/s" for 50_000_000."""
    for unit in ("GB", "MB", "kB"):
        if bytes_per_s and bytes_per_s % _BYTES[unit] == 0:
            return f"{bytes_per_s // _BYTES[unit]}{unit}/s"
    return f"{bytes_per_s}B/s"


def percentage(text: str) -> int | None:
    """The number of a percentage: 80 for "80%"; None for any other text."""
    number = text.strip().removesuffix("%").strip()
    if not text.strip().endswith("%") or not re.fullmatch("[0-9]{1,9}", number) or not 1 <= int(number) <= 100:
        return None
    return int(number)
