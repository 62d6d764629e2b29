"""``@frozen``: attrs' frozen classes with slots, completed by attrs at their first use.

A run uses few of the classes that it imports, and attrs compiles methods for each class. These methods took half of the
time to start. So a class begins with its slots and with methods that all classes share. The first instance of a class,
or the first request for its fields, makes attrs compile the other methods. Type checkers see ``attrs.frozen`` itself.

The ``__init__`` of a class with plain fields is the compiled one of another class with as many fields, under other
names. It does what attrs' own does.
"""

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import attrs
from attrs.exceptions import FrozenInstanceError

if TYPE_CHECKING:
    from attrs import evolve as evolve
    from attrs import frozen as frozen
else:

    def frozen(cls=None, /, **options):
        """A frozen class with slots; the options are those of ``attrs.frozen``. Instances support no weak
        references.
        """
        if cls is None:
            return lambda cls: frozen(cls, **options)
        inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
        names = [name for name, kind in vars(cls).get("__annotations__", {}).items() if not _of_the_class(kind)]
        body = {name: each for name, each in vars(cls).items() if name not in (*names, "__dict__", "__weakref__")}
        slots = tuple(name for name in names if name not in inherited)
        made = type(cls)(cls.__name__, cls.__bases__, _SHARED | body | {"__slots__": slots})
        for method in body.values():
            _move(method, cls, made)
        _WRITTEN[made] = _Written(cls, names, options)
        return made

    def evolve(instance, /, **changes):
        """``attrs.evolve``, which asks attrs only for a class that is not plain."""
        names = plain_fields(type(instance))
        if names is None:
            return attrs.evolve(instance, **changes)
        return type(instance)(**{name: getattr(instance, name) for name in names if name not in changes}, **changes)


class _Later:
    """An attribute that all frozen classes share until its first access, which makes the class's own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, cls: type) -> Any:
        name = self._name
        made: Any = next(base for base in cls.__mro__ if vars(base).get(name) is self)
        if name == "__init__" and plain_fields(made) is not None:
            made.__init__ = _init(made)
        else:
            _complete(made)
        return getattr(cls if instance is None else instance, name)


_LATER = {name: _Later(name) for name in ("__attrs_attrs__", "__attrs_init__", "__init__", "__match_args__")}


def _complete(made: type) -> None:
    """Let attrs make what the class still lacks."""
    written, _, options = _WRITTEN[made]
    whole = attrs.frozen(eq=False, repr=False, getstate_setstate=False, weakref_slot=False, **options)(written)
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


_WRITTEN: dict[type, _Written] = {}
"""Frozen class -> the class as it was written."""


def is_frozen(kind: object) -> bool:
    """Whether a type is a class made here. ``attrs.has`` would make attrs complete the class."""
    return kind in _WRITTEN


class PlainField(NamedTuple):
    """A field whose value is stored as given. ``default`` is ``attrs.NOTHING`` for a required field, or a factory."""

    default: Any
    metadata: Mapping[str, Any]


@cache
def plain_fields(cls: type) -> Mapping[str, PlainField] | None:
    """The fields of a frozen class by name.

    Returns:
        None for a class whose ``__init__`` does more than store the arguments, each under its own name.
    """
    if cls not in _WRITTEN or not _WRITTEN[cls].options.keys() <= {"kw_only"}:
        return None
    written, names, options = _WRITTEN[cls]
    if hasattr(written, "__attrs_post_init__") or any("__attrs_attrs__" in vars(base) for base in written.__mro__):
        return None
    fields: dict[str, PlainField] = {}
    for name in names:
        field = _plain_field(vars(written).get(name, attrs.NOTHING))
        if field is None or name.startswith("_"):
            return None
        fields[name] = field
    required = [field.default is attrs.NOTHING for field in fields.values()]
    return fields if options.get("kw_only", False) or required == sorted(required, reverse=True) else None


def _plain_field(declared: Any) -> PlainField | None:
    """The field of a value in a class body; None for a field that converts, validates or makes its value."""
    default, metadata = declared, {}
    if type(declared) is _DECLARED:
        if _options_of(declared) != _NO_OPTIONS:
            return None
        default, metadata = declared._default, declared.metadata
    return None if _makes(default) and default.takes_self else PlainField(default, metadata)


def _makes(default: Any) -> bool:
    return isinstance(default, attrs.Factory)  # type: ignore[arg-type]


_DECLARED: Any = type(attrs.field())
_IS_KNOWN = {"_default", "metadata"} <= set(getattr(_DECLARED, "__slots__", ()))
"""Whether this release of attrs keeps a declaration in these slots. If not, attrs makes classes with such fields."""
_options_of: Callable[[Any], Any] = (
    attrgetter(*(set(_DECLARED.__slots__) - {"_default", "counter", "metadata"})) if _IS_KNOWN else id
)
_NO_OPTIONS = _options_of(attrs.field()) if _IS_KNOWN else None
"""The options of a field that has only a default and metadata."""


def defaults_of(cls: type) -> Mapping[str, Any]:
    """The fields of a frozen class with their defaults, ``attrs.NOTHING`` without one."""
    found = plain_fields(cls)
    if found is None:
        return {each.name: each.default for each in attrs.fields(cls)}
    return {name: field.default for name, field in found.items()}


def _init(cls: type) -> FunctionType:
    """The ``__init__`` of a class with plain fields, as attrs makes it."""
    written, names, options = _WRITTEN[cls]
    every = defaults_of(cls)
    given = {f"field_{number}": name for number, name in enumerate(names)}
    template, count = _template(tuple(map(_makes, every.values()))), len(names)
    kw_only: bool = options.get("kw_only", False)
    code = template.replace(
        co_argcount=1 if kw_only else count + 1,
        co_kwonlyargcount=count if kw_only else 0,
        co_varnames=tuple(given.get(name, name) for name in template.co_varnames),
        co_consts=tuple(given.get(const, const) if type(const) is str else const for const in template.co_consts),
        co_qualname=f"{cls.__qualname__}.__init__",
    )
    known = {"_setter": object.__setattr__.__get__, "NOTHING": attrs.NOTHING}
    known |= {f"make_{number}": each.factory for number, each in enumerate(every.values()) if _makes(each)}
    defaults = {name: value for name, value in every.items() if value is not attrs.NOTHING}
    defaults = {name: attrs.NOTHING if _makes(value) else value for name, value in defaults.items()}
    made = FunctionType(code, known, "__init__")
    made.__kwdefaults__, made.__defaults__ = (defaults, None) if kw_only else (None, tuple(defaults.values()))
    made.__annotations__ = {**{name: written.__annotations__[name] for name in names}, "return": None}
    return made


@cache
def _template(factories: tuple[bool, ...]) -> CodeType:
    """The code of an ``__init__`` with this number of fields, some of which have factories of their defaults."""
    names = [f"field_{number}" for number in range(len(factories))]
    lines = [f"def __init__(self, {', '.join(names)}):", "    put = _setter(self)"]
    for number, (name, makes) in enumerate(zip(names, factories, strict=True)):
        value = f"make_{number}() if {name} is NOTHING else {name}" if makes else name
        lines.append(f"    put('{name}', {value})")
    defined: dict[str, FunctionType] = {}
    exec("\n".join(lines), defined)
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


_SHARED = {
    **_LATER,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
}
