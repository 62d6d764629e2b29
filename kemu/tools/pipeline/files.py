"""Reads and writes the JSON files of campaigns and analyses.

The files may come from others, so everything in them is checked.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import attrs

from kemu.tools.pipeline.errors import CampaignError, Unfinished

T = TypeVar("T")
ANALYSIS = "analysis"
"""Name of the folder of tables and summaries, inside the analyzed folder."""
MOST_BYTES = 256 << 20
"""The largest JSON file that is read: a campaign of a million runs has smaller ones."""
_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
"""The types of plain values -> their names in messages."""


class _Wrong(Exception):
    """A value of a file has another type; the arguments are the place and the wanted type."""


def read_file(path: Path, kind: type[T]) -> T:
    """Read a JSON file as a value of a type, in which every field has the declared type.

    Args:
        path: The file.
        kind: A class of attrs with the fields of the file.

    Raises:
        CampaignError: the file cannot be read, is too large, or has other content; names the file and the place.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise damaged(path, f"it has {size:,} bytes, more than {MOST_BYTES:,}")
        found: T = _taken(json.loads(path.read_text(encoding="utf-8")), kind, "")
        return found
    except OSError as error:
        raise CampaignError(f"{path} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise damaged(path, "its values are nested too deeply") from None
    except _Wrong as error:
        place, wanted = error.args
        raise damaged(path, f"{place or 'the content'} must be {wanted}") from None
    except ValueError as error:  # also text that is not UTF-8, and numbers of too many digits
        raise damaged(path, str(error)) from None


def write_whole(path: Path, text: str) -> None:
    """Write a file by a rename of a complete file.

    Raises:
        Unfinished: the file cannot be written; an earlier file stays as it was.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8", newline="")
        fresh.replace(path)
    except OSError as error:
        raise Unfinished(f"{path} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def damaged(path: Path, why: str) -> CampaignError:
    """Return the error about a file that has other content than kemu writes."""
    return CampaignError(f"{path} is damaged: {re.sub('[^ -~]', '?', why)[:300]}")


def _taken(value: Any, kind: Any, place: str) -> Any:
    """A value of JSON as a value of a type: plain, a list, a tuple, a mapping or a class of attrs."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (list, tuple):
        return origin(_items(value, origin, inner, place))
    if origin is not None or attrs.has(kind):
        if not isinstance(value, dict):
            raise _Wrong(place, "an object")
        if origin is not None:
            return {key: _taken(each, inner[1], _below(place, key)) for key, each in value.items()}
        return kind(**_fields(value, kind, place))
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise _Wrong(place, _NAMES[kind])
    return value


def _items(value: Any, origin: type, inner: tuple[Any, ...], place: str) -> Iterator[Any]:
    if not isinstance(value, list):
        raise _Wrong(place, "a list")
    if origin is tuple and inner[-1] is not Ellipsis:
        if len(value) != len(inner):
            raise _Wrong(place, f"a list of {len(inner)} values")
        kinds = list(inner)
    else:
        kinds = [inner[0]] * len(value)
    for index, (each, kind) in enumerate(zip(value, kinds, strict=True)):
        yield _taken(each, kind, f"{place}[{index}]")


def _fields(value: dict[str, Any], kind: type, place: str) -> dict[str, Any]:
    kinds = get_type_hints(kind)
    names = {each.name: each.default is attrs.NOTHING for each in attrs.fields(kind)}
    for name in value:
        if name not in names:
            raise _Wrong(_below(place, name), "absent: kemu writes no such field")
    for name, is_required in names.items():
        if is_required and name not in value:
            raise _Wrong(_below(place, name), "there")
    return {name: _taken(each, kinds[name], _below(place, name)) for name, each in value.items()}


def _below(place: str, key: str) -> str:
    return f"{place}.{key[:60]}" if place else key[:60]
