"""Messages to bytes and back: msgpack rows, by functions compiled once per class and version.

A sealed message is one msgpack array ``[api key, kind, version, row]``. Decoding checks the type of every value, the
length of every row and the absence of further bytes. Decoding returns a complete message or raises.

``protocol.wire.compile`` generates the functions.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgpack

from kemu.protocol.wire.compile import (
    CodecError,
    Malformed,
    TooLarge,
    UnsupportedVersion,
    compile_decoder,
    compile_encoder,
)
from kemu.protocol.wire.schema import MESSAGES, SPECS, STRUCTS, WHOLE, Kind, MessageSpec

__all__ = [
    "HEADER_BYTES",
    "MAX_MESSAGE_BYTES",
    "CodecError",
    "Malformed",
    "TooLarge",
    "UnsupportedVersion",
    "decode_struct",
    "seal",
    "unseal",
]

MAX_MESSAGE_BYTES = 104_857_600
"""The longest accepted message. Source: broker config ``socket.request.max.bytes``."""

HEADER_BYTES = 4
"""Number of leading bytes of a sealed message that determine its class and version."""
_UINT64 = 0xCF
_OVER_INT64 = re.compile(rb"\xcf[\x80-\xff]").search
"""The first bytes of an int above int64 in msgpack: a uint64 with its highest bit. Both may occur inside a string."""

_pack = msgpack.Packer(use_bin_type=True).pack
_unpack: Callable[[bytes], Any] = partial(
    # Messages contain no maps and no extension types. The decoder refuses maps and extension types, which could
    # decode to unhashable keys or to timestamp objects.
    msgpack.unpackb,
    use_list=False,
    max_map_len=0,
    max_ext_len=0,
)

_SEALERS: dict[tuple[type, int], Callable[[Any], tuple[Any, ...]]] = {}
"""(class, version) -> the encoder of a message with its envelope."""
_OPENERS: dict[bytes, tuple[Callable[[Any], Any], int]] = {}
"""First four bytes, as ``seal`` writes them -> (decoder of the row, version). Exact bytes determine exact types."""


def seal(message: object, version: int, *, max_bytes: int = MAX_MESSAGE_BYTES) -> bytes:
    """The bytes of a message.

    Raises:
        UnsupportedVersion: the version is not declared, or lacks a field that is set and not ignorable.
        TooLarge: the result is longer than ``max_bytes``.
        Malformed: the argument is no message, or a value cannot be encoded (an int above int64, a string with a lone
            surrogate).
    """
    sealer = _SEALERS.get((type(message), version)) or _sealer(type(message), version)
    envelope = sealer(message)
    try:
        data: bytes = _pack(envelope)
    except (ValueError, TypeError, OverflowError) as error:
        raise Malformed(f"{type(message).__name__} v{version} cannot be encoded: {error}") from None
    if len(data) > max_bytes:
        raise TooLarge(f"{type(message).__name__} v{version} is {len(data)} bytes long, the limit is {max_bytes}")
    if _UINT64 in data and _OVER_INT64(data):
        unseal(data, max_bytes=max_bytes)  # rare; raises an error that names the field
    return data


def unseal(data: bytes, *, max_bytes: int = MAX_MESSAGE_BYTES) -> tuple[Any, int]:
    """Decode a message; returns the message and its version.

    Raises:
        Malformed: the bytes are truncated or followed by further bytes, a type is wrong, or the api key is undeclared.
        UnsupportedVersion: the version is outside the declared range.
        TooLarge: the bytes are longer than ``max_bytes``; no byte is read.
    """
    if len(data) > max_bytes:
        raise TooLarge(f"message of {len(data)} bytes, the limit is {max_bytes}")
    try:
        envelope = _unpack(data)
    except (ValueError, msgpack.UnpackException) as error:
        raise Malformed(f"not a whole msgpack value: {error or type(error).__name__}") from None
    opener = _OPENERS.get(data[:HEADER_BYTES])
    if opener is not None:
        return opener[0](envelope[3]), opener[1]
    spec, version, row = _read_envelope(envelope)
    decode = compile_decoder(spec.cls, spec.fields, version)
    _OPENERS[_pack((spec.api_key, spec.kind.value, version, None))[:HEADER_BYTES]] = (decode, version)
    return decode(row), version


def decode_struct(cls: type, row: Any) -> Any:
    """The struct of a row; raises Malformed."""
    return compile_decoder(cls, STRUCTS[cls], WHOLE)(row)


def _sealer(cls: type, version: int) -> Callable[[Any], tuple[Any, ...]]:
    spec = SPECS.get(cls)
    if spec is None:
        raise Malformed(f"{cls.__name__} is not declared as a message")
    _require(spec, version)
    sealer = compile_encoder(cls, spec.fields, version, envelope=(spec.api_key, spec.kind.value, version))
    _SEALERS[cls, version] = sealer
    return sealer


def _read_envelope(envelope: Any) -> tuple[MessageSpec, int, Any]:
    if type(envelope) is not tuple or len(envelope) != 4:
        raise Malformed("not a message: expected [api key, kind, version, row]")
    api_key, kind, version, row = envelope
    if type(api_key) is not int or type(version) is not int or type(kind) is not int or kind not in (0, 1):
        said = ", ".join(type(value).__name__ for value in envelope[:3])
        raise Malformed(f"not a message: api key, kind (0 or 1) and version expected, not {said}")
    spec = MESSAGES.get((api_key, Kind(kind)))
    if spec is None:
        raise Malformed(f"unknown api key {api_key} ({Kind(kind).name.lower()})")
    _require(spec, version)
    return spec, version, row


def _require(spec: MessageSpec, version: int) -> None:
    if type(version) is not int or version not in spec.versions:
        first, last = spec.versions[0], spec.versions[-1]
        raise UnsupportedVersion(f"{spec.name} v{version}: supported are v{first} to v{last}")
