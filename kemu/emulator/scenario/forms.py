"""Conversion between scenarios and their plain forms, from the declarations of keys.

Reading refuses unknown keys and finds all mistakes of a file. A wrong value is removed, or replaced by a valid value if
its key is required. Reading is repeated until all keys are checked. So a misspelt group does not hide a missing topic.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeVar

from kemu.emulator.scenario.keys import declared, is_declared, refuse
from kemu.emulator.scenario.kinds import NamedKey, TableKey, TablesKey, ValueKind
from kemu.emulator.text.tables import Path, Problem, ScenarioError, nearest, said_of

T = TypeVar("T")

_FILLED: dict[type, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}


def fill_in(cls: type, filled: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """Register a function that adds defaults, which depend on other keys, to the tables of a class before a read."""
    _FILLED[cls] = filled


def _from_table(given: object, cls: Any) -> Any:
    """The value of a table.

    Raises:
        ValueError: the value is no table.
        ScenarioError: lists the mistakes in the table. If there are none, lists those that the class finds.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"must be a table, not {said_of(given)}")
    if cls in _FILLED:
        given = _FILLED[cls](given)
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    keys = {each.name: each for each in declared(cls)}
    for name, each in keys.items():
        if name in given:
            values[each.field.name] = _taken(name, given[name], _reader(each.kind), problems)
        elif each.required:
            problems.append(Problem((name,), f"is missing; {each.kind.wanted} is required"))
    problems += [Problem((name,), f"is no key here{nearest(name, keys)}") for name in sorted(given.keys() - keys)]
    refuse(problems)
    return cls(**values)


def _taken(part: str | int, given: object, read: Callable[[object], Any], problems: list[Problem]) -> Any:
    """Read a value below ``part``. Mistakes are added to ``problems``."""
    try:
        return read(given)
    except ScenarioError as error:
        problems += [Problem((part, *each.path), each.text, each.instead) for each in error.problems]
    except ValueError as error:
        problems.append(Problem((part,), str(error)))


def _reader(kind: ValueKind) -> Callable[[object], Any]:
    """The function from a key's value in a file to the value of the field."""
    if isinstance(kind, NamedKey):
        return lambda given: _all_of(kind.take(given).items(), kind.cls)
    if isinstance(kind, TablesKey):
        return lambda given: tuple(_all_of(enumerate(kind.take(given)), kind.cls).values())
    if isinstance(kind, TableKey):
        return lambda given: _from_table(kind.take(given), kind.cls)
    return kind.take


def _all_of(tables: Iterable[tuple[Any, object]], cls: type) -> dict[Any, Any]:
    problems: list[Problem] = []
    made = {part: _taken(part, given, lambda table: _from_table(table, cls), problems) for part, given in tables}
    refuse(problems)
    return made


def plain_form(spec: Any) -> dict[str, Any]:
    """Return the plain form as in a TOML file, without defaults. Keys that are always there are first; else the order
    is that of declaration.
    """
    cls: Any = type(spec)
    keys = declared(cls)
    always = [each for each in keys if each.required or each.key.always]
    form = {each.name: _plain(each.kind, getattr(spec, each.field.name)) for each in always}
    for each in keys:
        value = getattr(spec, each.field.name)
        if each.name not in form and value != each.default:
            form[each.name] = _plain(each.kind, value)
    return form


def _plain(kind: ValueKind, value: Any) -> Any:
    if isinstance(kind, NamedKey):
        return {name: plain_form(item) for name, item in value.items()}
    if isinstance(kind, TablesKey):
        return [plain_form(item) for item in value]
    return plain_form(value) if isinstance(kind, TableKey) else kind.plain(value)


def read(data: Mapping[str, Any], cls: type[T]) -> T:
    """Return the value of class ``cls`` that a plain form describes.

    Raises:
        ScenarioError: lists every mistake.
    """
    found: list[Problem] = []
    rest = _copied(data)
    while True:
        try:
            made: T = _from_table(rest, cls)
        except ScenarioError as error:
            problems = [*error.problems]
            known = {problem.path for problem in found}
            new = [problem for problem in problems if not _is_known(problem.path, known)]
            new = [each for each in new if not any((*each.path[:-1], other) in known for other in each.instead)]
            found += new
            before = copy.deepcopy(rest)
            for problem in problems:
                _repair(rest, problem.path, cls)
            if not new or rest == before:
                break
        else:
            if not found:
                return made
            break
    raise ScenarioError(found)


def _copied(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _copied(item) for key, item in data.items()}
    return [_copied(item) for item in data] if isinstance(data, list | tuple) else data


def _is_known(path: Path, known: set[Path]) -> bool:
    """Whether a mistake at this path, or at a path above, is known."""
    return any(path[:length] in known for length in range(1, len(path) + 1))


def _repair(data: MutableMapping[str, Any], path: Path, cls: type) -> None:
    """Remove the wrong value at a path; a required key gets a harmless value instead."""
    place: Any = data
    for depth, part in enumerate(path):
        keys = {each.name: each for each in declared(cls)} if is_declared(cls) else {}
        each = keys.get(str(part))
        last = depth == len(path) - 1
        if isinstance(place, str):
            return  # a short form of the value
        if each is not None and (last or each.kind.below() is None or each.name not in place):
            if each.required:
                place[part] = each.kind.harmless(each.key.limits)
            else:
                place.pop(part, None)
            return
        if each is not None:
            cls = each.kind.below() or cls
            place = place[part]
            continue
        there = part in place if isinstance(place, Mapping) else isinstance(part, int) and part < len(place)
        if last or not there:
            if isinstance(place, MutableMapping):
                place.pop(part, None)
            return
        place = place[part]
