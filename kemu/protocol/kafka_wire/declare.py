"""Declarations of Kafka's binary messages: one text per message and direction, resolved against kemu's own messages.

A text lists the fields in the order of the bytes. A field of kemu's message takes its type, its versions and its
nullability from the message's class. The text adds only properties that the class lacks:

====================  ==================================================================================
``name``              a field of kemu's message
``name:int32``        the width of a number, or one of the ``SPECIAL`` types
``~name:int32``       a field that kemu's message lacks; see ``WireField.is_ours``
``name[...]``         an array of structs
``name(topic)[...]``  an array of topics with an array of structs each; kemu has one flat array of rows.
                      Versions whose rows have ``topic_id`` in place of ``topic`` name topics by id
``name?7``            may be null since version 7 (``?``: since the first version of the field)
``name@5``            a field since version 5 (``@5-7``: until version 7)
``name=-1``           the value that is written for a field that kemu lacks, or the name of a field to copy
``name#0``            a tagged field (KIP-482) with the tag 0
``each[...]``         an array of kemu's messages; the fields outside of the array belong to each of them
====================  ==================================================================================
"""

import re
from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin

from kemu.protocol.frozen import frozen
from kemu.protocol.wire.schema import LAST, SPECS, STRUCTS, Field

NUMBERS: Mapping[str, str] = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "bool": "?", "error": "h"}
"""Type -> its character in the formats of ``struct``."""

SPECIAL: Mapping[str, str] = {
    "address": "string and int32: a host and a port; kemu's value is HOST:PORT, or an empty text",
    "names": "an array of structs with one string; before the field may be null, an empty array stands for null",
    "names_or_ids": "an array of structs with a topic id or a string; kemu's values are this field and ``topic_ids``",
    "optional": "a string that may be null; kemu's value is an empty text in place of null",
    "boxed": "an array in a struct of its own, which may be null",
    "uuid": "16 bytes; kemu's value is the UUID as text, and an empty text for 16 zero bytes",
    "topic_partitions": "an array of topics with an array of int32 each; kemu's value is pairs",
    "replicas": "an array of structs of a partition and an array of int32; kemu's value is ordered by partition",
    "batch": "record batches: exactly one; kemu's row has the batch's count and producer",
    "records": "record batches: any number; kemu's row has the base offset, the count and the time of each batch",
    "internal": "bool: whether the topic is one of Kafka's internal topics",
}
"""Type -> its form in bytes and in kemu."""

EACH = "each"
"""The name of an array of kemu's messages: their fields are inside and outside of the array."""

_TOKEN = re.compile(
    r"(?P<extra>~)?(?P<name>\w+)(?:\((?P<by>\w+)\))?(?::(?P<type>\w+))?(?P<null>\?\d*)?"
    r"(?:@(?P<since>\d+)(?:-(?P<until>\d+))?)?(?:=(?P<default>-?\w+))?(?:#(?P<tag>\d+))?(?P<open>\[)?|(?P<close>\])"
)
_OF_PYTHON: Mapping[type, str] = {str: "string", bytes: "bytes", bool: "bool"}


@frozen
class WireField:
    """One field in the order of the bytes.

    ``is_ours``: whether kemu's message has the field. Another field of the whole message is passed beside the message
    by its name. Another field of a row is ignored when read, and written with ``default``.
    """

    name: str
    type: str
    is_ours: bool
    is_array: bool
    since: int
    until: int
    null_since: int
    """The first version in which the value may be null."""
    tag: int | None
    default: str
    cls: Any
    """The class of a struct; None for a struct that kemu lacks."""
    by: str
    """The field that groups flat rows; "" for other fields."""
    by_until: int
    """The last version in which rows have this field; later versions group by the id (``topic_id``)."""
    parts: tuple["WireField", ...]

    def is_in(self, version: int) -> bool:
        """Whether the bytes of this version contain the field."""
        return self.since <= version <= self.until

    def by_in(self, version: int) -> str:
        """The field that groups flat rows in this version."""
        return self.by if version <= self.by_until else f"{self.by}_id"

    def may_be_null(self, version: int) -> bool:
        """Whether null is a value of the field in this version."""
        return version >= self.null_since


@frozen
class WireMessage:
    """One message and direction: kemu's class, its fields, and the first flexible version (KIP-482)."""

    cls: type
    title: str
    """The message's name in errors: ``JoinGroup``, ``JoinGroup reply``."""
    flexible_since: int
    fields: tuple[WireField, ...]


def declared(cls: type, title: str, flexible_since: int, text: str) -> WireMessage:
    """Resolve a text against kemu's message class."""
    tokens = _tokens(text)
    fields = tuple(_fields(tokens, {field.name: field for field in SPECS[cls].fields}))
    assert next(tokens, None) is None, f"{title}: a bracket too many"
    return WireMessage(cls, title, flexible_since, fields)


def _tokens(text: str) -> Iterator[Mapping[str, str | None]]:
    at = 0
    for found in _TOKEN.finditer(text):
        assert not text[at : found.start()].strip(), f"not a field: {text[at : found.start()]!r}"
        at = found.end()
        yield found.groupdict()
    assert not text[at:].strip(), f"not a field: {text[at:]!r}"


def _fields(tokens: Iterator[Mapping[str, str | None]], ours: Mapping[str, Field]) -> Iterator[WireField]:
    for token in tokens:
        if token["close"]:
            return
        name = token["name"]
        assert name is not None
        if name == EACH:
            yield _each(token, tuple(_fields(tokens, ours)))
            continue
        is_ours = not token["extra"]
        field = ours[name] if is_ours and token["type"] != "batch" else None
        inner, is_nullable, is_array = _shape(field.annotation) if field is not None else (None, False, False)
        cls = inner if inner in STRUCTS else None
        given, since, by = token["type"], int(token["since"] or 0), token["by"] or ""
        null = token["null"]
        yield WireField(
            name=name,
            type=given or ("struct" if token["open"] else _type_of(name, inner)),
            is_ours=is_ours,
            is_array=(is_array or (not is_ours and bool(token["open"]))) and given not in SPECIAL,
            since=max(since, field.since if field is not None else 0),
            until=min(int(token["until"] or LAST), field.until if field is not None else LAST),
            null_since=int(null[1:] or 0) if null is not None else 0 if is_nullable else LAST,
            tag=int(token["tag"]) if token["tag"] is not None else None,
            default=token["default"] or "",
            cls=cls,
            by=by,
            by_until=_known(cls)[by].until if by else LAST,
            parts=tuple(_fields(tokens, _known(cls))) if token["open"] else (),
        )


def _each(token: Mapping[str, str | None], parts: tuple[WireField, ...]) -> WireField:
    return WireField(EACH, EACH, True, False, int(token["since"] or 0), LAST, LAST, None, "", None, "", LAST, parts)


def _known(cls: Any) -> Mapping[str, Field]:
    return {} if cls is None else {field.name: field for field in STRUCTS[cls]}


def _type_of(name: str, inner: Any) -> str:
    if isinstance(inner, type) and issubclass(inner, IntEnum):
        return "error"
    assert inner in _OF_PYTHON, f"{name}: the text must name the type"
    return _OF_PYTHON[inner]


def _shape(annotation: Any) -> tuple[Any, bool, bool]:
    """The type of a field or of its items, whether the field may be None, whether it is an array of one type."""
    is_nullable = get_origin(annotation) in (Union, UnionType)
    if is_nullable:
        (annotation,) = [part for part in get_args(annotation) if part is not type(None)]
    parts = get_args(annotation)
    is_array = get_origin(annotation) is tuple and parts[1:] == (Ellipsis,)
    return (parts[0] if is_array else annotation), is_nullable, is_array
