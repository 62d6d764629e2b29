"""The generator of encoders and decoders: it writes their source from declarations, and compiles the source to
functions.

The functions are compiled for speed: a generic walk over the declarations takes ten times as long. Only kemu's own
declarations determine the source; received data is never part of the source.

Encoding trusts its caller's types, which mypy has checked. Decoding checks every value.
"""

import types
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NoReturn, ParamSpec, TypeVar, Union, get_args, get_origin

import attrs

from kemu.protocol.frozen import defaults_of
from kemu.protocol.wire.schema import STRUCTS, WHOLE, Field


class CodecError(ValueError):
    """The error for bytes that are no message, or for a message that the requested version cannot express."""


class Malformed(CodecError):
    """The error for bytes that are truncated, too long, of a wrong type, or have an unknown key."""


class UnsupportedVersion(CodecError):
    """The error for an unknown version of a known message, or for a version that cannot contain a value that is set."""


class TooLarge(CodecError):
    """The error for bytes over the size limit."""


P = ParamSpec("P")
T = TypeVar("T")

Encoder = Callable[[Any], tuple[Any, ...]]
Decoder = Callable[[Any], Any]

_DECODERS: dict[tuple[type, int], Decoder] = {}
_INT64_MAX = (1 << 63) - 1
"""The highest int64. msgpack has no int below the int64 range, but some ints above."""


def compile_encoder(
    cls: type, fields: tuple[Field, ...], version: int, *, envelope: tuple[int, ...] | None = None, name: str = ""
) -> Encoder:
    """A function from a value to its row, to ``(*envelope, row)``, or to ``(name, *row)``.

    Raises:
        UnsupportedVersion: (the function) a field that the version lacks is set and not ignorable.
    """
    scope: dict[str, Any] = {"UnsupportedVersion": UnsupportedVersion}
    lines = ["def encode(m):"]
    for index, field in enumerate(_refused(fields, version)):
        scope[f"d{index}"] = field.default
        shown = f"{cls.__name__} v{version} cannot carry {field.name}"
        lines.append(f"    if m.{field.name} != d{index}: raise UnsupportedVersion({shown!r})")
    row = _row_expression("m", fields, version, scope)
    if name:
        row = f"({name!r}, {row[1:]}"
    head = "" if envelope is None else "".join(f"{number}, " for number in envelope)
    lines.append(f"    return {row}" if envelope is None else f"    return ({head}{row})")
    encoder: Encoder = _compile(lines, scope, "encode")
    return encoder


def compile_decoder(cls: type, fields: tuple[Field, ...], version: int) -> Decoder:
    """A function from a row to the value.

    Raises:
        Malformed: (the function) the row does not have exactly the fields of this version, or a field has a wrong type.
    """
    known = _DECODERS.get((cls, version))
    if known is not None:
        return known
    carried = _carried(fields, version)
    scope: dict[str, Any] = {"cls": cls, "blank": blank_of(cls), "bad": _bad, "bad_row": _bad_row}
    lines = [
        "def decode(row):",
        f"    if type(row) is not tuple or len(row) != {len(carried)}: bad_row(cls, {version}, {len(carried)}, row)",
    ]
    names = {field.name: f"v{index}" for index, field in enumerate(carried)}
    if names:
        lines.append(f"    {', '.join(names.values())}, = row")
    for field in carried:
        bad = f"bad(cls, {field.name!r}, {names[field.name]})"
        lines += _indented(_check(names[field.name], field.annotation, bad, version, scope))
    lines.append("    made = blank()")
    for index, field in enumerate(fields):
        scope[f"d{index}"] = field.default
        lines.append(f"    made.{field.name} = {names.get(field.name, f'd{index}')}")
    lines += ["    made.__class__ = cls", "    return made"]
    decoder: Decoder = _compile(lines, scope, "decode")
    _DECODERS[cls, version] = decoder
    return decoder


def compile_loss(fields: tuple[Field, ...], version: int) -> Callable[[Any], bool] | None:
    """A function that returns whether this version drops a set field of a value without an error; None if the version
    drops no field. Decoding then returns another value than was encoded.
    """
    scope: dict[str, Any] = {}
    loses = _loss_expression("m", fields, version, scope)
    return _compile(["def loses(m):", f"    return {loses}"], scope, "loses") if loses else None


def maker(cls: Callable[P, T]) -> Callable[P, T]:
    """A function that creates values of a declared class, with the class's own signature.

    The function is for values created with every batch of records. A call of the class takes three times as long. The
    call packs its keywords into a dictionary, and a frozen class sets each field through ``object.__setattr__``.
    """
    made_of: Any = cls
    scope: dict[str, Any] = {"cls": cls, "blank": blank_of(made_of)}
    parameters, lines = [], ["    made = blank()"]
    for name, default in defaults_of(made_of).items():
        if default is attrs.NOTHING:
            parameters.append(name)
        else:
            scope[f"default_{name}"] = default
            parameters.append(f"{name}=default_{name}")
        lines.append(f"    made.{name} = {name}")
    head = f"def make({'*, ' if parameters else ''}{', '.join(parameters)}):"
    made: Callable[P, T] = _compile([head, *lines, "    made.__class__ = cls", "    return made"], scope, "make")
    return made


def blank_of(cls: type) -> type:
    """A class with the slots of ``cls`` that can be set; an instance then becomes an instance of ``cls``.

    A frozen class sets each field through ``object.__setattr__``, which is three times as slow. The ``__init__`` of a
    value class only sets fields.
    """
    names = tuple(defaults_of(cls))
    assert cls.__slots__ == names, f"{cls.__name__} must have exactly the slots of its fields"  # type: ignore[attr-defined]
    assert not hasattr(cls, "__attrs_post_init__"), f"{cls.__name__} must not have __attrs_post_init__"
    return type(f"Blank{cls.__name__}", (), {"__slots__": names})


def _row_expression(value: str, fields: tuple[Field, ...], version: int, scope: dict[str, Any]) -> str:
    places = [
        _encode_expression(f"{value}.{field.name}", field.annotation, version, scope)
        for field in _carried(fields, version)
    ]
    return f"({''.join(place + ', ' for place in places)})"


def _encode_expression(value: str, annotation: Any, version: int, scope: dict[str, Any]) -> str:
    """The Python source for the packable form of ``value``; plain values and tuples of plain values need no
    conversion.
    """
    inner, nullable = _without_none(annotation)
    if not _holds(inner, _is_struct):
        return value
    if _is_struct(inner):
        fields = STRUCTS[inner]
        if _refused(fields, version) or nullable or "." in value:
            name = f"e{len(scope)}"
            scope[name] = compile_encoder(inner, fields, version)
            made = f"{name}({value})"
        else:
            made = _row_expression(value, fields, version, scope)  # one call fewer per item
    else:
        item = f"x{value.count('x')}" if value.startswith("x") else "x"
        made = f"[{_encode_expression(item, get_args(inner)[0], version, scope)} for {item} in {value}]"
    return f"({made} if {value} is not None else None)" if nullable else made


def _loss_expression(value: str, fields: tuple[Field, ...], version: int, scope: dict[str, Any]) -> str:
    """The Python source of ``compile_loss`` for the struct ``value``; "" if the version drops no field."""
    found = []
    for field in fields:
        name = f"{value}.{field.name}"
        if _is_carried(field, version):
            found.append(_part_loss_expression(name, field.annotation, version, scope))
        elif field.ignorable:
            default = f"d{len(scope)}"
            scope[default] = field.default
            found.append(f"{name} != {default}")
    return " or ".join(filter(None, found))


def _part_loss_expression(value: str, annotation: Any, version: int, scope: dict[str, Any]) -> str:
    inner, nullable = _without_none(annotation)
    if not _holds(inner, _is_struct):
        return ""
    if _is_struct(inner):
        loses = _loss_expression(value, STRUCTS[inner], version, scope)
        loses = loses and f"({loses})"
    else:
        item = f"x{value.count('x')}" if value.startswith("x") else "x"
        loses = _part_loss_expression(item, get_args(inner)[0], version, scope)
        loses = loses and f"True in [{loses} for {item} in {value}]"
    return f"({value} is not None and {loses})" if nullable and loses else loses


def _check(name: str, annotation: Any, bad: str, version: int, scope: dict[str, Any]) -> list[str]:
    """The source lines that check the value called ``name`` and bind the name to the value's final form."""
    inner, nullable = _without_none(annotation)
    if nullable:
        return [f"if {name} is not None:", *_indented(_check(name, inner, bad, version, scope))]
    if inner is int:
        return [f"if type({name}) is not int or {name} > {_INT64_MAX}: {bad}"]
    if inner in (str, bytes, bool):
        return [f"if type({name}) is not {inner.__name__}: {bad}"]
    if _is_struct(inner):
        made = f"s{len(scope)}"
        scope[made] = compile_decoder(inner, STRUCTS[inner], version)
        return [f"{name} = {made}({name})"]
    if _is_enum(inner):
        known = f"k{len(scope)}"
        scope[known] = inner._value2member_map_
        lines = [f"made = {known}.get({name}) if type({name}) is int else None", f"if made is None: {bad}"]
        return [*lines, f"{name} = made"]
    assert get_origin(inner) is tuple, f"{inner} has no codec"
    arguments = get_args(inner)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return _check_each(name, arguments[0], bad, version, scope)
    assert not _holds(inner, _becomes_another), f"{inner}: structs and enums in a fixed tuple have no codec"
    parts = [f"{name}_{index}" for index in range(len(arguments))]
    lines = [
        f"if type({name}) is not tuple or len({name}) != {len(parts)}: {bad}",
        f"{', '.join(parts)}, = {name}",
    ]
    for part, argument in zip(parts, arguments, strict=True):
        lines += _check(part, argument, bad, version, scope)
    return lines


def _check_each(name: str, item: Any, bad: str, version: int, scope: dict[str, Any]) -> list[str]:
    """The source lines of ``_check`` for a tuple of any length."""
    lines = [f"if type({name}) is not tuple: {bad}"]
    if _is_struct(item):
        made = f"s{len(scope)}"
        scope[made] = compile_decoder(item, STRUCTS[item], version)
        return [*lines, f"{name} = tuple([{made}(each) for each in {name}])"]
    if not _holds(item, _becomes_another):
        each = f"{name}_each"
        return [*lines, f"for {each} in {name}:", *_indented(_check(each, item, bad, version, scope))]
    listed, each = f"{name}_list", f"{name}_each"
    loop = [*_check(each, item, bad, version, scope), f"{listed}.append({each})"]
    return [*lines, f"{listed} = []", f"for {each} in {name}:", *_indented(loop), f"{name} = tuple({listed})"]


def _is_carried(field: Field, version: int) -> bool:
    return version == WHOLE or field.since <= version <= field.until


def _carried(fields: tuple[Field, ...], version: int) -> list[Field]:
    return [field for field in fields if _is_carried(field, version)]


def _refused(fields: tuple[Field, ...], version: int) -> list[Field]:
    """Fields that must have their default for the value to be encoded in this version."""
    return [field for field in fields if not (_is_carried(field, version) or field.ignorable)]


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and annotation in STRUCTS


def _is_enum(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, IntEnum)


def _becomes_another(annotation: Any) -> bool:
    return _is_struct(annotation) or _is_enum(annotation)


def _holds(annotation: Any, what: Callable[[Any], bool]) -> bool:
    """Whether ``what`` is true of the annotation or of a part of it."""
    inner, _ = _without_none(annotation)
    return what(inner) or (get_origin(inner) is tuple and any(_holds(part, what) for part in get_args(inner)))


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [argument for argument in get_args(annotation) if argument is not type(None)]
        assert len(rest) == 1, f"{annotation}: only X | None has a codec"
        return rest[0], True
    return annotation, False


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def shown(value: object) -> str:
    """A received value in the form for an error message: short, however long or deep the value is."""
    if isinstance(value, str | bytes):
        return repr(value[:40]) + ("..." if len(value) > 40 else "")
    if isinstance(value, tuple | list):
        return f"an array of {len(value)}"
    return repr(value) if value is None or isinstance(value, bool | int | float) else f"a {type(value).__name__}"


def _bad(cls: type, field: str, value: object) -> NoReturn:
    raise Malformed(f"{cls.__name__}.{field} cannot be {shown(value)}")


def _bad_row(cls: type, version: int, wanted: int, row: object) -> NoReturn:
    got = len(row) if type(row) is tuple else shown(row)
    said_in = "" if version == WHOLE else f" v{version}"
    raise Malformed(f"{cls.__name__}{said_in} has {wanted} fields, got {got}")


def _compile(lines: list[str], scope: dict[str, Any], name: str) -> Any:
    exec("\n".join(lines), scope)
    return scope[name]
