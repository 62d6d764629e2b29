"""Times of log records: every usual form becomes ISO text and an instant in microseconds."""

import datetime
import functools
import re
from collections.abc import Callable
from typing import NamedTuple

_MONTHS = {
    name: index
    for index, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,:](?P<fraction>\d{1,9}))?"
_HALF_DAY = r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?\s(?P<half>[AP]M)(?!\w)"
"""A clock of twelve hours, as of ``java.util.logging``."""
_ZONE = r"(?:\s?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d))?(?![\w:])"
_MONTH = r"(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"

_FORMS = (
    r"(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)(?:T|\s+)" + _CLOCK + _ZONE,
    r"(?P<year>\d{4})[-/ ]" + _MONTH + r"[-/ ](?P<day>\d{1,2})[ :T]" + _CLOCK + _ZONE,
    r"(?P<century_year>\d\d)/(?P<month>\d\d)/(?P<day>\d\d) " + _CLOCK + r"(?![\w:/])",
    _MONTH + r"\s(?P<day>\d{1,2}),\s(?P<year>\d{4}),?\s" + _HALF_DAY,
    r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4}),?\s" + _HALF_DAY,
    r"(?P<day>\d{1,2})[-/ ]" + _MONTH + r"[-/ ](?P<year>\d{4})[ :T]" + _CLOCK + _ZONE,
    r"(?P<day>\d{1,2})[-/.](?P<month>\d\d)[-/.](?P<year>\d{4})[ T]" + _CLOCK + _ZONE,
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?\s)?"
    + _MONTH
    + r"\s+(?P<day>\d{1,2}),?\s(?P<year>\d{4})\s(?:@\s)?"
    + _CLOCK
    + _ZONE,
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\s)?" + _MONTH + r"\s+(?P<day>\d{1,2})\s+" + _CLOCK + _ZONE,
    _CLOCK + r"(?![\w:])",
    r"(?P<epoch>1\d{9})(?:[.,](?P<fraction>\d{1,9}))?(?!\d)",
    r"(?P<epoch_ms>1\d{12})(?!\d)",
)
TIME = "|".join(f"(?:{re.sub(r'[(][?]P<[a-z_]+>', '(?:', form)})" for form in _FORMS)
"""A regular expression of all forms, without groups."""

_COMPILED = tuple(re.compile(form, re.IGNORECASE) for form in _FORMS)
_US_OF_DAY = 86_400_000_000


class Time(NamedTuple):
    """``text``: ISO order, to the millisecond at most. ``at_us``: see ``Event``. ``zoned``: UTC is known."""

    text: str
    at_us: int
    zoned: bool = False
    dated: bool = True


ZoneOffset = Callable[[datetime.datetime], int]
"""Local time -> microseconds to subtract for UTC."""


def utc(_: datetime.datetime) -> int:
    """The offset of UTC."""
    return 0


def zone_offset(name: str) -> ZoneOffset:
    """The offset of ``+02:00``, ``UTC`` or a name of the time zone database, such as ``Europe/Berlin``.

    Raises:
        ValueError: no such zone.
    """
    fixed = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if fixed:
        offset_us = _offset_us(name)
        return lambda _: offset_us
    if name in ("UTC", "Z", "GMT"):
        return utc
    import zoneinfo

    try:
        zone = zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ValueError(
            f"no time zone {name!r}: use an offset such as +02:00, or a name such as Europe/Berlin"
        ) from None

    def offset(local: datetime.datetime) -> int:
        delta = zone.utcoffset(local)
        assert delta is not None
        return round(delta.total_seconds() * 1_000_000)

    return offset


@functools.lru_cache(maxsize=4096)
def read_time(text: str, zone: ZoneOffset = utc) -> Time | None:
    """The time that ``text`` is; None if it is none. ``zone`` is for times without a zone; no year means 1970."""
    for form in _COMPILED:
        match = form.fullmatch(text)
        if match:
            return _time(match.groupdict(), zone)
    return None


def of_epoch(seconds: float | int | str) -> Time | None:
    """The time of an epoch in seconds, milliseconds, microseconds or nanoseconds."""
    whole, _, fraction = str(seconds).partition(".")
    if not whole.isdecimal() or (not fraction.isdecimal() and fraction) or len(whole) not in (10, 13, 16, 19):
        return None
    micros = int(whole) * 10 ** (16 - len(whole)) if len(whole) < 19 else int(whole) // 1000
    if len(whole) == 10 and fraction:
        micros += int(fraction[:6].ljust(6, "0"))
    moment = datetime.datetime.fromtimestamp(micros // 1_000_000, datetime.UTC)
    return Time(f"{moment:%Y-%m-%dT%H:%M:%S}.{micros // 1000 % 1000:03d}Z", micros, zoned=True)


def _time(parts: dict[str, str | None], zone: ZoneOffset) -> Time | None:
    epoch = parts.get("epoch") or parts.get("epoch_ms")
    if epoch:
        return of_epoch(f"{epoch}.{parts.get('fraction')}" if parts.get("fraction") else epoch)
    hour, minute, second = (int(parts[key] or 0) for key in ("hour", "minute", "second"))
    fraction = parts.get("fraction") or ""
    if half := parts.get("half"):
        hour = hour % 12 + (12 if half.upper() == "PM" else 0)
    if hour > 23 or minute > 59 or second > 60:
        return None
    clock = f"{hour:02d}:{minute:02d}:{second:02d}" + (f".{fraction[:3]}" if fraction else "")
    of_day_us = (hour * 3600 + minute * 60 + second) * 1_000_000 + int(fraction[:6].ljust(6, "0"))
    if not parts.get("day"):
        return Time(clock, of_day_us, dated=False)
    if two_digits := parts.get("century_year"):
        parts["year"] = f"20{two_digits}"
    month = parts.get("month") or _MONTHS[(parts.get("name") or "").lower()[:3]]
    try:
        date = datetime.datetime(int(parts.get("year") or 1970), int(month), int(parts["day"] or 0), hour, minute)
    except ValueError:
        return None
    stated = parts.get("zone")
    offset_us = _offset_us(stated) if stated else zone(date)
    suffix = "" if not stated else "Z" if offset_us == 0 else f"{stated[:3]}:{stated[-2:]}"
    days = date.toordinal() - datetime.date(1970, 1, 1).toordinal()
    day = f"{date:%Y-%m-%d}" if parts.get("year") else f"{date:%m-%d}"
    return Time(f"{day}T{clock}{suffix}", days * _US_OF_DAY + of_day_us - offset_us, zoned=bool(stated))


def _offset_us(zone: str) -> int:
    if zone.upper() in ("Z", "UTC", "GMT"):
        return 0
    sign, hours, minutes = zone[0], zone[1:3], zone[-2:]
    return (-1 if sign == "-" else 1) * (int(hours) * 60 + int(minutes)) * 60_000_000
