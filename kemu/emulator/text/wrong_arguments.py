"""Constructors whose errors name the right argument if a caller uses a key of a scenario file, or misspells an
argument.
"""

from collections.abc import Mapping
from functools import wraps
from typing import Any, TypeVar

from kemu.emulator.text.tables import nearest
from kemu.protocol.frozen import FrozenField, frozen_fields

AnyClass = TypeVar("AnyClass", bound=type[Any])


def file_key(field_name: str) -> str:
    """Return the key of a scenario file for a field: "duration" for ``duration_us``, "rate" for ``records_per_s``."""
    return "rate" if field_name == "records_per_s" else field_name.removesuffix("_us").removesuffix("_bytes_per_s")


def names_arguments(cls: AnyClass) -> AnyClass:
    """Make the constructor of an attrs class refuse an unknown argument and name the right argument.

    ``Scenario(duration="60s")`` raises a ``TypeError`` that says ``duration_us="60s"``.
    """
    init, fields = cls.__init__, {each.name: each for each in frozen_fields(cls)}

    @wraps(init)
    def checked(self: Any, *values: Any, **named: Any) -> None:
        for name, given in named.items():
            if name not in fields and name not in init.__annotations__:
                raise TypeError(f'{cls.__name__} has no argument "{name}"{_hint(name, given, fields)}')
        init(self, *values, **named)

    cls.__init__ = checked
    return cls


def _hint(name: str, given: object, fields: Mapping[str, FrozenField]) -> str:
    meant = next((field for field in fields.values() if file_key(field.name) == name.rstrip("_")), None)
    if meant is None and name in ("duration", "seconds"):
        meant = fields.get("for_us")
    if meant is None:
        return nearest(name, fields)
    if not meant.name.endswith("_us"):
        return f"; write {meant.name}={100 if meant.name == 'records_per_s' else '...'}"
    text = given if isinstance(given, str) else "20s"
    return f'; write {meant.name}="{text}"' if meant.converter else f'; write {meant.name}=kemu.duration_us("{text}")'
