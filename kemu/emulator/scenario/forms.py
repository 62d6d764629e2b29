"""Conversion between scenarios and their plain forms with cattrs, from the declarations of keys.

Reading refuses unknown keys and finds all mistakes of a file. A wrong value is removed, or replaced by a valid value if
its key is required. Reading is repeated until all keys are checked. So a misspelt group does not hide a missing topic.
"""

import copy
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TypeVar, cast

from cattrs import Converter
from cattrs.errors import BaseValidationError, ClassValidationError, ForbiddenExtraKeysError, IterableValidationError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from kemu.emulator.scenario.keys import Declared, declared, is_declared
from kemu.emulator.scenario.kinds import NamedKey, TableKey, TablesKey
from kemu.emulator.text.tables import Path, Problem, ScenarioError, nearest, said_of

T = TypeVar("T")

_converter = Converter(detailed_validation=True, forbid_extra_keys=True)


_FILLED: dict[type, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}


def fill_in(cls: type, filled: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """Register a function that adds defaults, which depend on other keys, to the tables of a class before a read."""
    _FILLED[cls] = filled


@_converter.register_structure_hook_factory(is_declared)
def _structure(cls: Any, converter: Converter) -> Callable[..., Any]:
    overrides: dict[str, Any] = {
        each.field.name: override(rename=each.name, struct_hook=_taker(each)) for each in declared(cls)
    }
    made = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True, **overrides)
    filled = _FILLED.get(cls)

    def structured(given: object, to: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError(f"must be a table, not {said_of(given)}")
        return made(given if filled is None else filled(given), to)

    return structured


@_converter.register_unstructure_hook_factory(is_declared)
def _unstructure(cls: Any, converter: Converter) -> Callable[..., Any]:
    overrides: dict[str, Any] = {
        each.field.name: override(rename=each.name, omit_if_default=not each.key.always, unstruct_hook=_giver(each))
        for each in declared(cls)
    }
    return make_dict_unstructure_fn(cls, converter, _cattrs_omit_if_default=True, **overrides)


def _taker(each: Declared) -> Callable[[object, Any], Any]:
    kind = each.kind
    if isinstance(kind, NamedKey):
        return lambda given, _: _converter.structure(kind.take(given), dict[str, kind.cls])  # type: ignore[name-defined]
    if isinstance(kind, TablesKey):
        return lambda given, _: _converter.structure(kind.take(given), tuple[kind.cls, ...])  # type: ignore[name-defined]
    if isinstance(kind, TableKey):
        return lambda given, _: _converter.structure(kind.take(given), kind.cls)
    return lambda given, _: kind.take(given)


def _giver(each: Declared) -> Callable[[Any], Any]:
    kind = each.kind
    if isinstance(kind, NamedKey):
        return lambda given: {name: _converter.unstructure(item) for name, item in given.items()}
    if isinstance(kind, TablesKey):
        return lambda given: [_converter.unstructure(item) for item in given]
    return _converter.unstructure if isinstance(kind, TableKey) else kind.plain


def plain_form(spec: Any) -> dict[str, Any]:
    """Return the plain form as in a TOML file: keys in order of declaration, without defaults."""
    return cast(dict[str, Any], _converter.unstructure(spec))


def read(data: Mapping[str, Any], cls: type[T]) -> T:
    """Return the value of class ``cls`` that a plain form describes.

    Raises:
        ScenarioError: lists every mistake.
    """
    found: list[Problem] = []
    rest = _copied(data)
    while True:
        try:
            made = _converter.structure(rest, cls)
        except BaseValidationError as error:
            problems = list(_problems(error, ()))
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


def _problems(error: BaseException, path: Path) -> list[Problem]:
    """Convert errors of cattrs to problems with paths."""
    if isinstance(error, ClassValidationError):
        names = {each.field.name: each for each in declared(error.cl)} if is_declared(error.cl) else {}
        noted, others = error.group_exceptions()
        found = []
        for inner, note in noted:
            each = names[note.name]
            if isinstance(inner, KeyError):
                found.append(Problem((*path, each.name), f"is missing; {each.kind.wanted} is required"))
            else:
                found += _problems(inner, (*path, each.name))
        return found + [problem for inner in others for problem in _problems(inner, path)]
    if isinstance(error, IterableValidationError):
        noted_items, others = error.group_exceptions()
        return [problem for inner, note in noted_items for problem in _problems(inner, (*path, note.index))] + [
            problem for inner in others for problem in _problems(inner, path)
        ]
    if isinstance(error, ForbiddenExtraKeysError):
        known = [each.name for each in declared(error.cl)]
        return [Problem((*path, name), f"is no key here{nearest(name, known)}") for name in sorted(error.extra_fields)]
    if isinstance(error, ScenarioError):
        return [Problem((*path, *problem.path), problem.text, problem.instead) for problem in error.problems]
    if isinstance(error, ValueError):
        return [Problem(path, str(error))]
    raise error


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
