"""One fixed message per declared class and version, and the bytes it had when we last looked.

A declaration that changes by accident changes bytes, and ``test_golden.py`` fails. When the change is meant::

    python -m tests.protocol.golden --rewrite
"""

import json
import sys
from enum import IntEnum
from itertools import count
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from kemu.protocol.wire.codec import seal
from kemu.protocol.wire.schema import MESSAGES, STRUCTS, Field, MessageSpec
from tests.strategies import carried, every_version

FILE = Path(__file__).parent / "wire" / "golden.json"


def name_of(spec: MessageSpec, version: int) -> str:
    """``JoinGroup request v9``."""
    return f"{spec.name} {spec.kind.name.lower()} v{version}"


def sample(spec: MessageSpec, version: int) -> Any:
    """A message in which no two values of a type are equal, and every tuple has two items."""
    return _instance(spec.cls, spec.fields, version, count(1))


def golden() -> dict[str, str]:
    """Name -> sealed bytes in hex, for every message and version."""
    return {name_of(spec, version): seal(sample(spec, version), version).hex() for spec, version in every_version()}


def _instance(cls: type, fields: tuple[Field, ...], version: int, numbers: "count[int]") -> Any:
    return cls(**{field.name: _value(field.annotation, version, numbers) for field in carried(fields, version)})


def _value(annotation: Any, version: int, numbers: "count[int]") -> Any:
    if get_origin(annotation) in (Union, UnionType):
        return _value(get_args(annotation)[0], version, numbers)
    if isinstance(annotation, type) and annotation in STRUCTS:
        return _instance(annotation, STRUCTS[annotation], version, numbers)
    number = next(numbers)
    if isinstance(annotation, type) and issubclass(annotation, IntEnum):
        return list(annotation)[number % len(annotation)]
    if annotation is bool:
        return True
    if annotation in (int, str, bytes):
        return {int: number * 100, str: f"text-{number}", bytes: b"bytes-%d" % number}[annotation]
    assert get_origin(annotation) is tuple, annotation
    parts = get_args(annotation)
    if parts[-1] is Ellipsis:
        return tuple(_value(parts[0], version, numbers) for _ in range(2))
    return tuple(_value(part, version, numbers) for part in parts)


if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        sys.exit(__doc__)
    FILE.write_text(json.dumps(golden(), indent=0) + "\n")
    print(f"{len(golden())} messages of {len(MESSAGES)} classes written to {FILE}")
