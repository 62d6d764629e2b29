"""The keys of a scenario, each declared once: where its field stands, with what it means and what it may be.

A class of a scenario is an attrs class whose fields carry a ``key``::

    members: int = field(default=3, metadata=key("how many", at_least=0, at_most=10_000))

From these declarations come the reading of files (``emulator.scenario.reading``), the plain form, the checks (the same
for a file and for a scenario built in Python), ``kemu describe scenario`` and the JSON Schema of ``kemu schema``.

What a key is called in a file follows from the field's name (``start_us`` is ``start``, ``records_per_s`` ``rate``),
what it may hold from the field's type: see ``emulator.scenario.kinds``.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import attrs
from attrs import field, frozen

from kemu.emulator.scenario.kinds import ValueBounds, ValueKind, kind_of
from kemu.emulator.text.tables import Problem, ScenarioError
from kemu.emulator.text.wrong_arguments import file_key

_KEY = "kemu.scenario.key"


@frozen(kw_only=True)
class Declaration:
    """What a declaration says beside the field's name, type and default.

    ``shown``: the default in words, where its value does not say it. ``always``: written in the plain form even with
    its default. ``short``: may be set without the table it stands in (``--set members=5``). ``kafkas``: Kafka's own key
    for the same thing, and the unit its values have there ("ms").
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
    """The metadata of a scenario's field.

    Args:
        doc: what it means, in a line.
        at_least, at_most: of a number or a duration (in the field's unit); of a list, how many there are to be.
        choices: the names it may hold (asked when needed), and ``what`` they name ("profile").
        config: the config class whose Kafka keys this table holds.
        shown, always, short, kafkas: see ``Declaration``.
    """
    limits = ValueBounds(at_least=at_least, at_most=at_most, choices=choices, what=what, config=config)
    return {_KEY: Declaration(doc=doc, limits=limits, shown=shown, always=always, short=short, kafkas=kafkas)}


@frozen
class Declared:
    """One key of a class: its field, its declaration, and what kind of value it has."""

    name: str
    """As a file has it."""
    field: "attrs.Attribute[Any]"
    key: Declaration
    kind: ValueKind

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.field.default is attrs.NOTHING

    @property
    def default(self) -> Any:
        """The value that stands where nothing is written; a required key has none."""
        given: Any = self.field.default
        assert given is not attrs.NOTHING, f"{self.name} is required"
        if isinstance(given, attrs.Factory):  # type: ignore[arg-type]
            return given.factory()
        return given


@cache
def declared(cls: type) -> tuple[Declared, ...]:
    """The keys of a class of a scenario, in order of declaration."""
    found = []
    for each in attrs.fields(cls):
        said: Declaration = each.metadata[_KEY]
        found.append(Declared(file_key(each.name), each, said, kind_of(each.name, each.type, said.limits)))
    return tuple(found)


def is_declared(cls: Any) -> bool:
    """Whether it is a class of a scenario."""
    return attrs.has(cls) and all(_KEY in each.metadata for each in attrs.fields(cls))


def problems_of(spec: object) -> Iterator[Problem]:
    """What is wrong with the values of a scenario's part, each taken alone; paths begin at the part."""
    cls: Any = type(spec)
    for each in declared(cls):
        value = getattr(spec, each.field.name)
        if not each.required and value is each.default:
            continue
        for path, text in each.kind.wrong(value, each.key.limits):
            yield Problem((each.name, *path), text)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise if there are any.

    Raises:
        ScenarioError: these problems.
    """
    found = list(problems)
    if found:
        raise ScenarioError(found)


def walk(cls: type, before: str = "") -> Iterator[tuple[str, Declared]]:
    """Every key below a class with its whole name (``groups.NAME.members``), tables opened, in order."""
    for each in declared(cls):
        name = f"{before}{each.name}"
        below = each.kind.below()
        if below is None or each.kind.closed:
            yield f"{name}{each.kind.suffix}", each
        else:
            yield from walk(below, f"{name}{each.kind.suffix}.")
