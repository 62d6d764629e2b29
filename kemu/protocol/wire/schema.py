"""Declarations of messages, each field with the versions that contain it.

A declaration is an ordinary class body under ``@message`` (a complete message) or ``@struct`` (a part of one). The
declaration yields the frozen value class, the registry row, and the codec's functions. The row of a message at version
v is exactly the fields with ``since <= v <= until``, in declaration order.

Source of the idea: Kafka's message schemas (``versions``, ``nullableVersions``, ``ignorable``).
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, dataclass_transform

import attrs

from kemu.protocol.frozen import evolve, frozen, frozen_fields

T = TypeVar("T")

_VERSIONS = "kemu.versions"
LAST = 1 << 15
WHOLE = LAST
"""A special version: outside a message, a struct is encoded with all its fields."""


class Kind(Enum):
    """The direction of a message."""

    REQUEST = 0
    REPLY = 1


@frozen
class Field:
    """One field of a message: its name, annotation, default and the versions that contain the field.

    ``ignorable``: a version without the field drops a value other than the default; otherwise encoding such a value is
    refused (``UnsupportedVersion``), as in Kafka.
    """

    name: str
    annotation: Any
    since: int
    until: int
    ignorable: bool
    default: Any


@frozen
class MessageSpec:
    """The registry row of a message class."""

    cls: type
    name: str
    """Kafka's name of the API, without Request/Response."""
    api_key: int
    kind: Kind
    versions: range

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of all versions, in order of declaration."""
        return fields_of(self.cls)


class _Structs(Mapping[type, tuple[Field, ...]]):
    """Class -> fields, in order of declaration. The fields of a class are read at the first use."""

    def __init__(self) -> None:
        self._classes: dict[type, None] = {}

    def declare(self, cls: type) -> None:
        self._classes[cls] = None

    def __getitem__(self, cls: type) -> tuple[Field, ...]:
        if cls not in self._classes:
            raise KeyError(cls)
        return fields_of(cls)

    def __iter__(self) -> Iterator[type]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


MESSAGES: dict[tuple[int, Kind], MessageSpec] = {}
"""(api key, kind) -> spec, in order of declaration."""
SPECS: dict[type, MessageSpec] = {}
STRUCTS = _Structs()


def since(version: int, *, default: Any, until: int = LAST, ignorable: bool = False) -> Any:
    """A field of versions ``version..until``; in other versions its value is ``default``."""
    return attrs.field(default=default, metadata={_VERSIONS: (version, until, ignorable)})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(since,))
def struct(cls: type[T]) -> type[T]:
    """Declare a part of messages; it has the version of its message."""
    made = frozen(kw_only=True)(cls)
    STRUCTS.declare(made)
    return made


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(since,))
def message(*, api_key: int, kind: Kind, versions: range) -> Callable[[type[T]], type[T]]:
    """Declare a request or a reply of the API with this key (Kafka's number) and these supported versions.

    A field of a later version adds that version to the API, to its request and to its reply.
    """

    def declare(cls: type[T]) -> type[T]:
        made = frozen(kw_only=True)(cls)
        name = made.__name__.removesuffix("Reply")
        assert (api_key, kind) not in MESSAGES, f"api key {api_key} {kind} is declared twice"
        other = MESSAGES.get((api_key, Kind.REPLY if kind is Kind.REQUEST else Kind.REQUEST))
        sinces = [_versions(value.metadata)[0] for value in vars(cls).values() if hasattr(value, "metadata")]
        stop = max(versions.stop, *[since + 1 for since in sinces], 0 if other is None else other.versions.stop)
        specs = [MessageSpec(made, name, api_key, kind, range(versions.start, stop))]
        if other is not None and other.versions.stop < stop:
            specs.append(evolve(other, versions=range(other.versions.start, stop)))
        for spec in specs:
            MESSAGES[api_key, spec.kind] = SPECS[spec.cls] = spec
        return made

    return declare


def _versions(metadata: Mapping[str, Any]) -> tuple[int, int, bool]:
    """``since``, ``until`` and ``ignorable`` of a field with this metadata."""
    found: tuple[int, int, bool] = metadata.get(_VERSIONS, (0, LAST, False))
    return found


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a message or a struct, in order of declaration."""
    return tuple(
        Field(each.name, _without_extras(each.type), *_versions(each.metadata), each.default)
        for each in frozen_fields(cls)
    )


def _without_extras(annotation: Any) -> Any:
    """The type in an ``Annotated``; other annotations unchanged."""
    return annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation


REQUEST, REPLY = Kind.REQUEST, Kind.REPLY
