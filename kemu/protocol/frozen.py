"""``@frozen`` and ``@define``: classes of attrs with slots, completed at their first use.

A run uses few of the classes that it imports, and attrs compiles methods for each class. These methods took half of the
time to start. So a class begins with its slots and with methods that all classes share. The first instance of a class,
or the first request for its fields, makes attrs compile the other methods. Type checkers see attrs' own decorators.

The ``__init__`` of a class is the compiled one of another class with as many fields, under other names. It does what
attrs' own does. attrs makes it only for classes with rarer options.
"""

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import attrs
from attrs.exceptions import FrozenInstanceError

if TYPE_CHECKING:
    from attrs import define as define
    from attrs import evolve as evolve
    from attrs import frozen as frozen
else:

    def frozen(cls=None, /, **options):
        """A frozen class with slots; the options are those of ``attrs.frozen``. Instances support no weak
        references.
        """
        if cls is None:
            return lambda cls: _made(cls, options, _SHARED)
        return _made(cls, options, _SHARED)

    def define(cls):
        """A mutable class with slots. No field has a converter or a validator: attrs would call them at each change."""
        return _made(cls, {}, _SHARED_BY_MUTABLE)

    def _made(cls, options, shared):
        body = vars(cls).copy()
        kinds = body.get("__annotations__", {}).items()
        names = [name for name, kind in kinds if type(kind) is type or not _of_the_class(kind)]
        for name in (*names, "__dict__", "__weakref__"):
            body.pop(name, None)
        slots = tuple(names)
        if cls.__base__ is not object:
            inherited = {name for base in cls.__mro__[1:-1] for name in getattr(base, "__slots__", ())}
            slots = tuple([name for name in names if name not in inherited])
        made = type(cls)(cls.__name__, cls.__bases__, {**shared, **body, "__slots__": slots})
        for each in body.values():
            if type(each) not in _WITHOUT_CLOSURE and (type(each) is not FunctionType or each.__closure__):
                _move(each, cls, made)
        _WRITTEN[made] = _Written(cls, names, options, shared is _SHARED)
        return made

    def evolve(instance, /, **changes):
        """``attrs.evolve``, which asks attrs only for a class with rare options."""
        fields = _own_fields(type(instance))
        if fields is None:
            return attrs.evolve(instance, **changes)
        kept = {each.name: getattr(instance, each.name) for each in fields if each.name not in changes}
        return type(instance)(**kept, **changes)


_WITHOUT_CLOSURE = {str, dict}
"""Types of values of a class body that refer to no class."""


class _Later:
    """An attribute that all frozen classes share until its first access, which makes the class's own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, cls: type) -> Any:
        name = self._name
        made: Any = next(base for base in cls.__mro__ if vars(base).get(name) is self)
        written, _, options, _ = _WRITTEN[made]
        init = "__init__" if options.get("init", "__init__" not in vars(written)) else "__attrs_init__"
        if name == init and (fields := _own_fields(made)) is not None:
            setattr(made, name, _init(made, name, fields))
        else:
            _complete(made)
        return getattr(cls if instance is None else instance, name)


_LATER = {name: _Later(name) for name in ("__attrs_attrs__", "__attrs_init__", "__init__", "__match_args__")}


def _complete(made: type) -> None:
    """Let attrs make what the class still lacks."""
    written, _, options, is_frozen = _WRITTEN[made]
    decorator = attrs.frozen if is_frozen else attrs.define
    whole = decorator(eq=False, repr=False, getstate_setstate=False, weakref_slot=False, **options)(written)
    for name, later in _LATER.items():
        if vars(made).get(name) is later:
            if name in vars(whole):
                setattr(made, name, vars(whole)[name])
            else:
                delattr(made, name)


def _of_the_class(annotation: Any) -> bool:
    """Whether an annotation is a ``ClassVar``. The text of a type, which attrs reads, takes a microsecond to make."""
    if isinstance(annotation, str):
        return annotation.startswith(("typing.ClassVar", "ClassVar"))
    return annotation is ClassVar or getattr(annotation, "__origin__", None) is ClassVar


def _move(method: Any, cls: type, made: type) -> None:
    """Make ``super()`` in a method refer to the new class."""
    function = getattr(method, "__func__", getattr(method, "fget", method))
    for cell in (function.__closure__ or ()) if isinstance(function, FunctionType) else ():
        if cell.cell_contents is cls:
            cell.cell_contents = made


class _Written(NamedTuple):
    """A class as it was written, the names of its fields, and the options of ``attrs.frozen``."""

    cls: type
    names: list[str]
    options: Mapping[str, Any]
    is_frozen: bool


_WRITTEN: dict[type, _Written] = {}
"""Class made here -> the class as it was written."""


def is_frozen(kind: object) -> bool:
    """Whether a type is a frozen class. ``attrs.has`` would make attrs complete the class."""
    return kind in _WRITTEN and _WRITTEN[kind].is_frozen


class FrozenField(NamedTuple):
    """A field of a frozen class, under the names of ``attrs.Attribute``.

    ``default`` is ``attrs.NOTHING`` for a required field, or a factory.
    """

    name: str
    type: Any
    default: Any
    metadata: Mapping[str, Any]
    converter: Callable[[Any], Any] | None
    kw_only: bool


def frozen_fields(cls: type) -> tuple[FrozenField, ...]:
    """The fields of a frozen class in order of declaration. Only a class with rare options asks attrs."""
    own = _own_fields(cls)
    if own is not None:
        return own
    return tuple(
        FrozenField(each.name, each.type, each.default, each.metadata, each.converter, each.kw_only)
        for each in attrs.fields(cls)
    )


@cache
def _own_fields(cls: type) -> tuple[FrozenField, ...] | None:
    """The fields of a class if ``_init`` knows all its options, each stored under its own name; else None."""
    if cls not in _WRITTEN or not _WRITTEN[cls].options.keys() <= {"init", "kw_only"}:
        return None
    written, names, options, _ = _WRITTEN[cls]
    if any("__attrs_attrs__" in vars(base) for base in written.__mro__):
        return None
    fields: list[FrozenField] = []
    for name in names:
        found = _own_options(vars(written).get(name, attrs.NOTHING))
        if found is None or name.startswith("_"):
            return None
        default, metadata, converter, kw_only = found
        kind = written.__annotations__[name]
        fields.append(FrozenField(name, kind, default, metadata, converter, kw_only or options.get("kw_only", False)))
    required = [each.default is attrs.NOTHING for each in fields if not each.kw_only]
    return tuple(fields) if required == sorted(required, reverse=True) else None


def _own_options(declared: Any) -> tuple[Any, Mapping[str, Any], Callable[[Any], Any] | None, bool] | None:
    """Default, metadata, converter and ``kw_only`` of a value in a class body; None with further options."""
    if type(declared) is not _DECLARED:
        return None if _makes(declared) and declared.takes_self else (declared, {}, None, False)
    default, converter = declared._default, declared.converter
    if _options_of(declared) != _NO_OPTIONS or (_makes(default) and default.takes_self):
        return None
    if isinstance(converter, attrs.Converter):
        return None
    return default, declared.metadata, converter, bool(declared.kw_only)


def _makes(default: Any) -> bool:
    return isinstance(default, attrs.Factory)  # type: ignore[arg-type]


_DECLARED: Any = type(attrs.field())
_READ = {"_default", "metadata", "converter", "kw_only"}
_IS_KNOWN = set(getattr(_DECLARED, "__slots__", ())) >= _READ
"""Whether this release of attrs keeps a declaration in these slots. If not, attrs makes classes with such fields."""
_options_of: Callable[[Any], Any] = attrgetter(*(set(_DECLARED.__slots__) - {*_READ, "counter"})) if _IS_KNOWN else id
_NO_OPTIONS = _options_of(attrs.field()) if _IS_KNOWN else None
"""The further options of a field without any."""


def defaults_of(cls: type) -> Mapping[str, Any]:
    """The fields of a frozen class with their defaults, ``attrs.NOTHING`` without one."""
    return {each.name: each.default for each in frozen_fields(cls)}


def _init(cls: type, called: str, fields: tuple[FrozenField, ...]) -> FunctionType:
    """The ``__init__`` or ``__attrs_init__`` of a class, as attrs makes it."""
    given = {f"field_{number}": each.name for number, each in enumerate(fields)}
    checks = hasattr(cls, "__attrs_post_init__")
    by_name = [each.kw_only for each in fields]
    mixes = 0 < sum(by_name) < len(fields)  # else the arguments of the template are in the order of the fields
    shapes = tuple((_makes(each.default), each.converter is not None, each.kw_only and mixes) for each in fields)
    template = _template(shapes, checks, is_frozen(cls))
    code = template.replace(
        co_argcount=1 + by_name.count(False),
        co_kwonlyargcount=by_name.count(True),
        co_name=called,
        co_varnames=tuple(given.get(name, name) for name in template.co_varnames),
        co_names=tuple(given.get(name, name) for name in template.co_names),
        co_consts=tuple(given.get(const, const) if type(const) is str else const for const in template.co_consts),
        co_qualname=f"{cls.__qualname__}.{called}",
    )
    known: dict[str, Any] = {"_setter": object.__setattr__.__get__, "NOTHING": attrs.NOTHING}
    if len(fields) > MOST_STATEMENTS:
        known["_fill"] = _fill_of(tuple(each.name for each in fields))
    defaults: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    kinds: dict[str, Any] = {}
    for number, (name, kind, default, _, converter, kw_only) in enumerate(fields):
        if _makes(default):
            known[f"make_{number}"], default = default.factory, attrs.NOTHING
            defaults[kw_only][name] = default
        elif default is not attrs.NOTHING:
            defaults[kw_only][name] = default
        if converter is None:
            kinds[name] = kind
        else:
            known[f"convert_{number}"] = converter
            if (taken := _taken_by(converter)) is not None:
                kinds[name] = taken
    made = FunctionType(code, known, called, tuple(defaults[0].values()) or None)
    made.__kwdefaults__ = defaults[1] or None
    made.__annotations__ = {**kinds, "return": None}
    return made


def _taken_by(converter: Any) -> Any:
    """The annotation of a converter's argument; None without one."""
    if isinstance(converter, FunctionType):
        return converter.__annotations__.get(converter.__code__.co_varnames[0])
    return None


def _fill_of(names: tuple[str, ...]) -> Callable[[object, tuple[Any, ...]], None]:
    """A function that sets the fields of a new instance."""

    def fill(self: object, values: tuple[Any, ...], put: Callable[..., None] = object.__setattr__) -> None:
        for name, value in zip(names, values, strict=True):
            put(self, name, value)

    return fill


MOST_STATEMENTS = 14
"""The most fields that an ``__init__`` sets one by one. For more fields, the compilation takes longer than a loop."""


@cache
def _template(shapes: tuple[tuple[bool, bool, bool], ...], checks: bool, is_frozen: bool) -> CodeType:
    """The code of an ``__init__``.

    Args:
        shapes: of each field, whether it has a factory, has a converter, and is only a keyword.
        checks: whether a method of the class checks the instance.
        is_frozen: whether the class is frozen.
    """
    names = [f"field_{number}" for number in range(len(shapes))]
    by_place = [name for name, (_, _, kw_only) in zip(names, shapes, strict=True) if not kw_only]
    by_name = [name for name, (_, _, kw_only) in zip(names, shapes, strict=True) if kw_only]
    arguments = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    values: list[str] = []
    for number, (name, (makes, converts, _)) in enumerate(zip(names, shapes, strict=True)):
        value = f"make_{number}() if {name} is NOTHING else {name}" if makes else name
        values.append(f"convert_{number}({value})" if converts else value)
    if len(shapes) > MOST_STATEMENTS:
        lines = [f"    _fill(self, ({', '.join(values)}))"]
    elif is_frozen:
        lines = [
            "    put = _setter(self)",
            *[f"    put('{name}', {value})" for name, value in zip(names, values, strict=True)],
        ]
    else:
        lines = [f"    self.{name} = {value}" for name, value in zip(names, values, strict=True)]
    lines += ["    self.__attrs_post_init__()"] if checks else ["    pass"]
    defined: dict[str, FunctionType] = {}
    exec("\n".join([f"def __init__({arguments}):", *lines]), defined)
    return defined["__init__"].__code__


class _Values(dict[type, Callable[[Any], Any]]):
    """Class -> the function that returns the values of the class's fields; made at first use."""

    def __missing__(self, cls: type) -> Callable[[Any], Any]:
        names = tuple(defaults_of(cls))
        values = self[cls] = attrgetter(*names) if names else lambda _: ()
        return values


_VALUES = _Values()


def _equal(self: Any, other: object) -> bool:
    cls = self.__class__
    return _VALUES[cls](self) == _VALUES[cls](other) if other.__class__ is cls else NotImplemented


def _hash(self: Any) -> int:
    return hash(_VALUES[self.__class__](self))


def _repr(self: Any) -> str:
    cls = self.__class__
    shown = (f"{name}={getattr(self, name)!r}" for name in defaults_of(cls))
    return f"{cls.__qualname__.rpartition('>.')[2]}({', '.join(shown)})"


def _get_state(self: Any) -> dict[str, Any]:
    return {name: getattr(self, name) for name in defaults_of(self.__class__)}


def _set_state(self: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        object.__setattr__(self, name, value)


def _refuse(self: Any, name: str, value: Any = None) -> None:
    raise FrozenInstanceError


_SHARED_BY_MUTABLE = {
    **_LATER,
    "__eq__": _equal,
    "__hash__": None,
    "__repr__": _repr,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
}
_SHARED = {**_SHARED_BY_MUTABLE, "__hash__": _hash, "__setattr__": _refuse, "__delattr__": _refuse}
