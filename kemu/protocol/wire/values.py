"""Typed values that are recorded but never sent: notes (what a machine reports) and commands (what it is told).

They use the messages' declarations and compiled rows, named by their class instead of an api key. They have no
versions: a row has all fields, and a field that may be left out when a value is made has a plain default.
"""

from typing import Any, TypeVar, cast, dataclass_transform

import attrs

from kemu.protocol.wire.codec import Malformed, decode_struct
from kemu.protocol.wire.compile import Encoder, compile_encoder, said
from kemu.protocol.wire.schema import STRUCTS, WHOLE, struct

T = TypeVar("T")

VALUES: dict[str, type] = {}

_TO_ROW: dict[type, Encoder] = {}
"""Filled as values of a class are written."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Declare a note or command; its name must be unique among both."""
    made = struct(cls)
    assert made.__name__ not in VALUES, f"{made.__name__} is declared twice"
    versioned = any(field.metadata for field in attrs.fields(cast(Any, made)))
    assert not versioned, f"{made.__name__}: a value has no versions"
    VALUES[made.__name__] = made
    return made


def to_row(item: object) -> tuple[Any, ...]:
    """``(name, fields...)``: packable as it is."""
    cls = type(item)
    encode = _TO_ROW.get(cls)
    if encode is None:
        encode = _TO_ROW[cls] = compile_encoder(cls, STRUCTS[cls], WHOLE, name=cls.__name__)
    return encode(item)


def from_row(row: Any) -> Any:
    """The value of a row.

    Raises:
        Malformed: no such value, or not its fields.
    """
    if type(row) not in (tuple, list) or not row or type(row[0]) is not str:
        raise Malformed(f"not a row of a value (name, fields...): {said(row)}")
    cls = VALUES.get(row[0])
    if cls is None:
        raise Malformed(f"unknown value {said(row[0])}")
    return decode_struct(cls, tuple(row[1:]))
