"""Typed values that are recorded but never sent: notes (what a machine reports) and commands (what it is told).

They use the messages' declarations and compiled rows, named by their class instead of an api key.
"""

from typing import Any, TypeVar, dataclass_transform

from kemu.protocol.wire.codec import Malformed, decode_struct, encode_struct
from kemu.protocol.wire.compile import said
from kemu.protocol.wire.schema import since, struct

T = TypeVar("T")

VALUES: dict[str, type] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(since,))
def value(cls: type[T]) -> type[T]:
    """Declare a note or command; its name must be unique among both."""
    made = struct(cls)
    assert made.__name__ not in VALUES, f"{made.__name__} is declared twice"
    VALUES[made.__name__] = made
    return made


def to_row(item: object) -> tuple[Any, ...]:
    """``(name, fields...)``: packable as it is."""
    return (type(item).__name__, *encode_struct(item))


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
