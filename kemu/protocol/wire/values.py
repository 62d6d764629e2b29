"""Typed values that are recorded but never sent: notes (reports of machines) and commands (orders to machines).

Such values use the messages' declarations and compiled rows; a class name instead of an api key identifies them. The
values have no versions: a row has all fields, and optional fields have plain defaults.
"""

from typing import Any, TypeVar, dataclass_transform

from kemu.protocol.wire.codec import Malformed, decode_struct
from kemu.protocol.wire.compile import Encoder, compile_encoder, shown
from kemu.protocol.wire.schema import STRUCTS, WHOLE, struct

T = TypeVar("T")

VALUES: dict[str, type] = {}


class _Encoders(dict[type, Encoder]):
    """Class -> the function that makes the row of a value; made at first use."""

    def __missing__(self, cls: type) -> Encoder:
        encode = self[cls] = compile_encoder(cls, STRUCTS[cls], WHOLE, name=cls.__name__)
        return encode


ROW_OF = _Encoders()


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Declare a note or a command. No other note or command may have the same name."""
    made = struct(cls)
    assert made.__name__ not in VALUES, f"{made.__name__} is declared twice"
    versioned = any(getattr(each, "metadata", None) for each in vars(cls).values())
    assert not versioned, f"{made.__name__}: a value cannot have versions"
    VALUES[made.__name__] = made
    return made


def to_row(item: object) -> tuple[Any, ...]:
    """A packable row ``(name, fields...)`` of a value."""
    return ROW_OF[type(item)](item)


def from_row(row: Any) -> Any:
    """The value of a row.

    Raises:
        Malformed: an unknown name, or wrong fields.
    """
    if type(row) not in (tuple, list) or not row or type(row[0]) is not str:
        raise Malformed(f"not a row of a value (name, fields...): {shown(row)}")
    cls = VALUES.get(row[0])
    if cls is None:
        raise Malformed(f"unknown value {shown(row[0])}")
    return decode_struct(cls, tuple(row[1:]))
