"""Messages to bytes and back: msgpack rows, by functions compiled once per class and version.

A sealed message is one msgpack array ``[api key, kind, version, row]``. Decoding checks the type of every value, the
length of every row and that nothing follows; it either gives a whole message or raises, never a part of one.
Why compiled: a heartbeat costs about 1 us either way; a generic walk over the declarations costs ten times that.
"""

import types
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Union, get_args, get_origin

import msgpack

from protocol.schema import MESSAGES, SPECS, STRUCTS, Field, Kind, MessageSpec

MAX_MESSAGE_BYTES = 104_857_600
"""Source: broker config ``socket.request.max.bytes``."""

_pack = msgpack.Packer(use_bin_type=True).pack


class CodecError(ValueError):
    """Bytes that are no message, or a message that cannot be said in the version asked for."""


class Malformed(CodecError):
    """Truncated, too long, wrong type, unknown key."""


class UnsupportedVersion(CodecError):
    """The message exists, this version of it does not, or cannot carry a value that is set."""


class TooLarge(CodecError):
    """Over the size limit."""


Encoder = Callable[[Any], tuple[Any, ...]]
Decoder = Callable[[Any], Any]

_ENCODERS: dict[tuple[type, int], Encoder] = {}
_DECODERS: dict[tuple[type, int], Decoder] = {}


def seal(message: object, version: int, *, max_bytes: int = MAX_MESSAGE_BYTES) -> bytes:
    """A message as bytes.

    Raises:
        UnsupportedVersion: the version is not declared, or lacks a field that is set and not ignorable.
        TooLarge: the result is longer than ``max_bytes``.
    """
    encode = _ENCODERS.get((type(message), version)) or _encoder_of_message(type(message), version)
    spec = SPECS[type(message)]
    data: bytes = _pack((spec.api_key, spec.kind.value, version, encode(message)))
    if len(data) > max_bytes:
        raise TooLarge(f"{spec.name} v{version} is {len(data)} bytes long, the limit is {max_bytes}")
    return data


def unseal(data: bytes, *, max_bytes: int = MAX_MESSAGE_BYTES) -> tuple[Any, int]:
    """The message and its version.

    Raises:
        Malformed: truncated, trailing bytes, wrong types, an api key nobody declared.
        UnsupportedVersion: a version outside the declared range.
        TooLarge: longer than ``max_bytes``; nothing of it is read.
    """
    if len(data) > max_bytes:
        raise TooLarge(f"message of {len(data)} bytes, the limit is {max_bytes}")
    try:
        envelope = msgpack.unpackb(data, use_list=False, strict_map_key=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise Malformed(f"not a whole msgpack value: {error or type(error).__name__}") from None
    if type(envelope) is not tuple or len(envelope) != 4:
        raise Malformed("not a message: expected [api key, kind, version, row]")
    api_key, kind, version, row = envelope
    if type(api_key) is not int or type(version) is not int or (type(kind) is not int or kind not in (0, 1)):
        raise Malformed(f"not a message: api key {api_key!r}, kind {kind!r}, version {version!r}")
    spec = MESSAGES.get((api_key, Kind(kind)))
    if spec is None:
        raise Malformed(f"unknown api key {api_key}")
    decode = _DECODERS.get((spec.cls, version)) or _decoder_of_message(spec, version)
    return decode(row), version


def encode_struct(item: object) -> tuple[Any, ...]:
    """The row of a struct outside any message (version 0)."""
    cls = type(item)
    return (_ENCODERS.get((cls, 0)) or _encoder(cls, STRUCTS[cls], 0))(item)


def decode_struct(cls: type, row: Any) -> Any:
    """The struct of a row; raises Malformed."""
    return (_DECODERS.get((cls, 0)) or _decoder(cls, STRUCTS[cls], 0))(row)


def _require(spec: MessageSpec, version: int) -> None:
    if version not in spec.versions:
        first, last = spec.versions[0], spec.versions[-1]
        raise UnsupportedVersion(f"{spec.name} v{version}: supported are v{first} to v{last}")


def _encoder_of_message(cls: type, version: int) -> Encoder:
    spec = SPECS.get(cls)
    if spec is None:
        raise Malformed(f"{cls.__name__} is not declared as a message")
    _require(spec, version)
    return _encoder(cls, spec.fields, version)


def _decoder_of_message(spec: MessageSpec, version: int) -> Decoder:
    _require(spec, version)
    return _decoder(spec.cls, spec.fields, version)


def _carried(fields: tuple[Field, ...], version: int) -> list[Field]:
    return [field for field in fields if field.since <= version <= field.until]


def _encoder(cls: type, fields: tuple[Field, ...], version: int) -> Encoder:
    known = _ENCODERS.get((cls, version))
    if known is not None:
        return known
    scope: dict[str, Any] = {"UnsupportedVersion": UnsupportedVersion}
    lines = ["def encode(m):"]
    for index, field in enumerate(fields):
        if not field.since <= version <= field.until and not field.ignorable:
            scope[f"d{index}"] = field.default
            said = f"{cls.__name__} v{version} cannot carry {field.name}"
            lines.append(f"    if m.{field.name} != d{index}: raise UnsupportedVersion({said!r})")
    values = []
    for index, field in enumerate(_carried(fields, version)):
        values.append(_encode_expression(f"m.{field.name}", field.annotation, version, scope, f"f{index}"))
    lines.append(f"    return ({''.join(value + ', ' for value in values)})")
    encoder: Encoder = _compile(lines, scope, "encode")
    _ENCODERS[cls, version] = encoder
    return encoder


def _encode_expression(value: str, annotation: Any, version: int, scope: dict[str, Any], name: str) -> str:
    """Python source for the packable form of ``value``; plain values and tuples of them are packed as they are."""
    inner, nullable = _without_none(annotation)
    if isinstance(inner, type) and inner in STRUCTS:
        scope[name] = _encoder(inner, STRUCTS[inner], version)
        return f"({name}({value}) if {value} is not None else None)" if nullable else f"{name}({value})"
    if get_origin(inner) is tuple and _holds_struct(inner):
        item = _encode_expression("x", get_args(inner)[0], version, scope, name)
        listed = f"[{item} for x in {value}]"
        return f"({listed} if {value} is not None else None)" if nullable else listed
    return value


def _holds_struct(annotation: Any) -> bool:
    inner, _ = _without_none(annotation)
    if isinstance(inner, type) and inner in STRUCTS:
        return True
    return get_origin(inner) is tuple and any(_holds_struct(arg) for arg in get_args(inner) if arg is not Ellipsis)


def _decoder(cls: type, fields: tuple[Field, ...], version: int) -> Decoder:
    known = _DECODERS.get((cls, version))
    if known is not None:
        return known
    carried = _carried(fields, version)
    scope: dict[str, Any] = {"cls": cls, "bad": _bad, "bad_row": _bad_row}
    names = [f"v{index}" for index in range(len(carried))]
    lines = [
        "def decode(row):",
        f"    if type(row) is not tuple or len(row) != {len(carried)}: bad_row(cls, {version}, {len(carried)}, row)",
    ]
    if names:
        lines.append(f"    {', '.join(names)}, = row")
    arguments = []
    for index, (name, field) in enumerate(zip(names, carried, strict=True)):
        lines += _check_lines(cls, field, name, version, scope, f"f{index}")
        arguments.append(f"{field.name}={name}")
    lines.append(f"    return cls({', '.join(arguments)})")
    decoder: Decoder = _compile(lines, scope, "decode")
    _DECODERS[cls, version] = decoder
    return decoder


def _check_lines(cls: type, field: Field, name: str, version: int, scope: dict[str, Any], tag: str) -> list[str]:
    """Source lines that check ``name`` against the field's annotation and turn it into its final form."""
    inner, nullable = _without_none(field.annotation)
    bad = f"bad(cls, {field.name!r}, {name})"
    guard = f"{name} is not None and " if nullable else ""
    if isinstance(inner, type) and inner in STRUCTS:
        scope[tag] = _decoder(inner, STRUCTS[inner], version)
        made = f"{tag}({name})"
        return [f"    {name} = {made} if {name} is not None else None" if nullable else f"    {name} = {made}"]
    if isinstance(inner, type) and issubclass(inner, IntEnum):
        scope[tag] = inner._value2member_map_
        return [
            f"    known = {tag}.get({name}) if type({name}) is int else None",
            f"    if known is None: {bad}",
            f"    {name} = known",
        ]
    if inner in (str, int, bytes, bool):
        return [f"    if {guard}type({name}) is not {inner.__name__}: {bad}"]
    assert get_origin(inner) is tuple, f"{cls.__name__}.{field.name}: {inner} has no codec"
    lines = [f"    if {guard}type({name}) is not tuple: {bad}"]
    scope[tag] = checker = _item_checker(cls, field.name, inner, version)
    if checker is not None:
        lines.append(
            f"    {name} = {tag}({name}) if {name} is not None else None" if nullable else f"    {name} = {tag}({name})"
        )
    return lines


def _item_checker(cls: type, field: str, annotation: Any, version: int) -> Callable[[Any], Any]:
    """A function from a decoded tuple to the checked one (structs rebuilt)."""
    arguments = get_args(annotation)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item, item_nullable = _without_none(arguments[0])
        if isinstance(item, type) and item in STRUCTS:
            decode = _decoder(item, STRUCTS[item], version)
            return lambda values: tuple([decode(value) for value in values])
        if get_origin(item) is tuple:
            check = _item_checker(cls, field, item, version)

            def each_tuple(values: Any) -> Any:
                for value in values:
                    if type(value) is not tuple:
                        _bad(cls, field, value)
                return tuple([check(value) for value in values])

            return each_tuple
        assert not item_nullable, f"{cls.__name__}.{field}: nullable items have no codec"

        def each_plain(values: Any) -> Any:
            for value in values:
                if type(value) is not item:
                    _bad(cls, field, value)
            return values

        return each_plain
    parts = [_part_check(cls, field, argument, version) for argument in arguments]

    def fixed(value: Any) -> Any:
        if len(value) != len(parts):
            _bad(cls, field, value)
        for part, (kind, nullable, check) in zip(value, parts, strict=True):
            if type(part) is not kind:
                if not (nullable and part is None):
                    _bad(cls, field, value)
            elif check is not None:
                check(part)
        return value

    return fixed


def _part_check(cls: type, field: str, annotation: Any, version: int) -> tuple[Any, bool, Callable[[Any], Any] | None]:
    """(type, nullable, check of its items) for one place of a fixed tuple; structs do not stand there."""
    kind, nullable = _without_none(annotation)
    if get_origin(kind) is tuple:
        return tuple, nullable, _item_checker(cls, field, kind, version)
    return kind, nullable, None


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [argument for argument in get_args(annotation) if argument is not type(None)]
        assert len(rest) == 1, f"{annotation}: only X | None has a codec"
        return rest[0], True
    return annotation, False


def _bad(cls: type, field: str, value: object) -> None:
    raise Malformed(f"{cls.__name__}.{field} cannot be {value!r:.80}")


def _bad_row(cls: type, version: int, wanted: int, row: object) -> None:
    got = len(row) if type(row) is tuple else repr(row)[:80]
    raise Malformed(f"{cls.__name__} v{version} has {wanted} fields, got {got}")


def _compile(lines: list[str], scope: dict[str, Any], name: str) -> Any:
    exec("\n".join(lines), scope)  # the source is made of our own declarations only
    return scope[name]
