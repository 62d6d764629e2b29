"""The keys of a scenario. Each key is declared once, at its field, with meaning and bounds.

A class of a scenario is an attrs class whose fields carry a ``key``::

    members: int = field(default=3, metadata=key("number of members", at_least=0, at_most=10_000))

From these declarations follow the reading of files (``emulator.scenario.reading``), the plain form and the checks.
``kemu describe scenario`` and ``kemu schema`` use the same declarations.

A key's name in a file follows from the field's name: ``start`` for ``start_us``, ``rate`` for ``records_per_s``. The
key's values follow from the field's type (``emulator.scenario.kinds``).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import attrs
from attrs import field

from kemu.emulator.scenario.kinds import ValueBounds, ValueKind, kind_of
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.wrong_arguments import file_key
from kemu.protocol.frozen import FrozenField, frozen, frozen_fields, is_frozen

_KEY = "kemu.scenario.key"


@frozen(kw_only=True)
class Declaration:
    """Declaration of a key, in addition to the field's name, type and default.

    ``shown`` describes the default, if the value alone is unclear. ``always`` keeps the key in the plain form even with
    its default. ``short`` keys can be set without their table (``--set members=5``). ``kafkas`` has Kafka's name of the
    key and the unit of Kafka's values ("ms").
    """

    doc: str
    limits: ValueBounds = field(factory=ValueBounds)
    shown: str = ""
    always: bool = False
    short: bool = False
    kafkas: tuple[str, str] = ("", "")


def key(
    doc: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    choices: Callable[[], Iterable[str]] | None = None,
    what: str = "",
    config: type | None = None,
    shown: str = "",
    always: bool = False,
    short: bool = False,
    kafkas: tuple[str, str] = ("", ""),
) -> dict[str, Any]:
    """Return the metadata of a scenario's field.

    Args:
        doc: meaning of the key in one line.
        at_least, at_most: bounds of a number or duration (in the field's unit), or of the length of a list.
        choices: returns the allowed names; ``what`` is the noun for such a name ("profile").
        config: config class, if the key is a table of Kafka's keys.
        shown, always, short, kafkas: see ``Declaration``.
    """
    limits = ValueBounds(at_least=at_least, at_most=at_most, choices=choices, what=what, config=config)
    return {_KEY: Declaration(doc=doc, limits=limits, shown=shown, always=always, short=short, kafkas=kafkas)}


@frozen
class Declared:
    """A key of a class: field, declaration and kind of value."""

    name: str
    """Name of the key in a file."""
    field: FrozenField
    key: Declaration
    kind: ValueKind

    @property
    def required(self) -> bool:
        """Whether the key has no default."""
        return self.field.default is attrs.NOTHING

    @property
    def default(self) -> Any:
        """Return the default; a required key has none."""
        given: Any = self.field.default
        assert given is not attrs.NOTHING, f"{self.name} is required"
        if isinstance(given, attrs.Factory):  # type: ignore[arg-type]
            return given.factory()
        return given


@cache
def declared(cls: type) -> tuple[Declared, ...]:
    """Return the keys of a scenario's class, in order of declaration."""
    found = []
    for each in frozen_fields(cls):
        said: Declaration = each.metadata[_KEY]
        found.append(Declared(file_key(each.name), each, said, kind_of(each.name, each.type, said.limits)))
    return tuple(found)


def is_declared(cls: Any) -> bool:
    """Whether a class has declared keys."""
    return is_frozen(cls) and all(_KEY in each.metadata for each in frozen_fields(cls))


def problems_of(spec: object) -> Iterator[Problem]:
    """Yield the mistakes in the single values of a scenario's part; paths begin at the part."""
    cls: Any = type(spec)
    for each in declared(cls):
        value = getattr(spec, each.field.name)
        if not each.required and value is each.default:
            continue
        for path, text in each.kind.wrong(value, each.key.limits):
            yield Problem((each.name, *path), text)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise an error unless ``problems`` is empty.

    Raises:
        ScenarioError: lists the problems.
    """
    found = list(problems)
    if found:
        raise ScenarioError(found)


def walk(cls: type, before: str = "") -> Iterator[tuple[str, Declared]]:
    """Yield every key of a class and of its tables, with its full name (``groups.NAME.members``), in order."""
    for each in declared(cls):
        name = f"{before}{each.name}"
        below = each.kind.below()
        if below is None or each.kind.closed:
            yield f"{name}{each.kind.suffix}", each
        else:
            yield from walk(below, f"{name}{each.kind.suffix}.")
