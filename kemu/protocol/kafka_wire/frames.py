"""Frames of Kafka's protocol: bytes of a connection to kemu's messages, and back.

A frame on a connection begins with its length (int32). Functions that write return the frame with this length, ready to
send. Functions that read take the frame without the length: the reader of the connection knows the length, and can
refuse a frame that is too long before it has arrived.

Source: Kafka's protocol guide; headers from RequestHeader.json and ResponseHeader.json, Kafka 3.9.
"""

import struct
from collections.abc import Container, Mapping
from functools import cache
from typing import Any

from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.kafka_wire.apis import APIS, SPOKEN, Api, api_versions
from kemu.protocol.kafka_wire.compile import Read, Write, compile_reader, compile_writer, tags_at
from kemu.protocol.kafka_wire.errors import UnsupportedWireVersion, WireError
from kemu.protocol.messages.data import TOPIC_IDS_SINCE, Metadata
from kemu.protocol.messages.negotiation import ApiVersions, ApiVersionsReply
from kemu.protocol.names import TopicPartition
from kemu.protocol.wire.codec import CodecError, seal, unseal

__all__ = [
    "UnsupportedWireVersion",
    "WireError",
    "WireReply",
    "WireRequest",
    "read_back",
    "read_reply",
    "read_request",
    "unsupported_reply",
    "write_reply",
    "write_request",
]

_HEAD = struct.Struct(">hhi")
_CORRELATION = struct.Struct(">i")
_CLIENT_LENGTH = struct.Struct(">h")
_LENGTH = struct.Struct(">i")
_API_VERSIONS = 18
"""The reply to ApiVersions never has a flexible header, so that every client can read the reply (KIP-511)."""
_STATED_SINCE = 3
"""The highest ApiVersions of the first release that states its versions in an error."""
_NOTHING: Mapping[Any, Any] = {}


@frozen
class WireRequest:
    """A request of a real client."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Any
    """kemu's message, valid in ``codec_version``."""
    beside: Mapping[str, Any] = {}
    """The fields of the request that kemu's message lacks, by Kafka's name in snake case: ``transactional_id``
    (Produce), ``isolation_level`` (Fetch, ListOffsets), ``rack_id`` (Fetch),
    ``client_software_name`` and ``client_software_version`` (ApiVersions), ``include_..._authorized_operations``.
    """
    records: Mapping[TopicPartition, bytes] = {}
    """Produce: the record batch of each partition, untouched."""
    further: tuple[Any, ...] = ()
    """OffsetFetch since v8: the messages about further groups."""

    @property
    def messages(self) -> tuple[Any, ...]:
        """All messages of the request."""
        return self.message, *self.further

    @property
    def codec_version(self) -> int:
        """The version of kemu's codec that has all fields of the message."""
        by_id = isinstance(self.message, Metadata) and self.message.topic_ids
        return max(self.version, TOPIC_IDS_SINCE) if by_id else self.version


@frozen
class WireReply:
    """A reply to a real client; the fields as in ``WireRequest``. OffsetFetch since v8: ``beside`` names the groups."""

    correlation_id: int
    message: Any
    beside: Mapping[str, Any] = {}
    records: Mapping[TopicPartition, bytes] = {}
    further: tuple[Any, ...] = ()


def read_request(frame: bytes) -> WireRequest:
    """The request in a frame without its length.

    Strings are UTF-8, numbers fit their types, errors have known codes; each partition of a Produce has exactly one
    batch with a right checksum. Other rules of Kafka are the broker's. Bytes after the request are ignored, as in Kafka
    (``AbstractRequest.parseRequest``, 3.4): librdkafka 2.16 sends such bytes when it asks for all topics.

    Raises:
        UnsupportedWireVersion: the API or the version is not spoken. ``unsupported_reply`` answers ApiVersions.
        WireError: anything else that is no request; the text names the field.
    """
    try:
        api_key, version, correlation_id = _HEAD.unpack_from(frame)
        client_id, at = _client_id(frame, _HEAD.size)
    except struct.error:
        raise WireError(f"request header: the frame of {len(frame)} bytes ends early") from None
    api = APIS.get(api_key)
    if api is None or not api.lowest <= version <= api.highest:
        text = f"API {api_key} is not spoken" if api is None else _not_spoken(api, version)
        raise UnsupportedWireVersion(text, api_key, version, correlation_id, client_id)
    if version >= api.flexible_since:
        at = _after_tags(frame, at)
    message, beside, records = _reader(api_key, version, is_reply=False)(frame, at)
    message, *further = message if type(message) is tuple else (message,)
    return WireRequest(api_key, version, correlation_id, client_id, message, beside, records, tuple(further))


def read_back(request: WireRequest) -> WireRequest:
    """The request as kemu's own codec decodes its message, so that no machine gets a value that the codec refuses.

    Raises:
        WireError: kemu's codec refuses the message.
    """
    try:
        message, *further = [unseal(seal(each, request.codec_version))[0] for each in request.messages]
    except CodecError as error:
        raise WireError(f"{error}") from None
    return evolve(request, message=message, further=tuple(further))


def write_reply(
    request: WireRequest,
    message: Any,
    *,
    beside: Mapping[str, Any] = _NOTHING,
    records: Mapping[TopicPartition, bytes] = _NOTHING,
    further: tuple[Any, ...] = (),
) -> bytes:
    """The reply to a request as a frame with its length.

    Args:
        request: the request; its version is the version of the reply.
        message: kemu's reply. Addresses of brokers (``host``) must be HOST:PORT.
        beside: fields that kemu's message lacks: ``cluster_id`` (Metadata), ``throttle_time_ms``, ``group``
            (OffsetFetch since v8: the names of the groups).
        records: Fetch: the record batches of partitions. Other partitions get batches that are made for their records
            without payloads (``emulated_batch``).
        further: OffsetFetch since v8: the replies about further groups.

    Raises:
        WireError: a value does not fit its type, or is null and may not be null in this version.
    """
    api = APIS[request.api_key]
    assert type(message) is api.reply.cls, f"{type(message).__name__} is no reply of {api.name}"
    out = bytearray(4)
    out += _CORRELATION.pack(request.correlation_id)
    if request.version >= api.flexible_since and request.api_key != _API_VERSIONS:
        out.append(0)
    written = (message, *further) if further else message
    _writer(request.api_key, request.version, is_reply=True)(written, out, beside, records)
    return _framed(out)


def unsupported_reply(
    error: UnsupportedWireVersion, answer: ApiVersionsReply, offered: Container[int] = SPOKEN
) -> bytes | None:
    """The frame that answers a request of a version that is not spoken; None if the connection must be closed.

    The answer to ApiVersions has version 0, the error UNSUPPORTED_VERSION and the versions of ApiVersions. Brokers
    before 2.4 state no versions. Source: KIP-511, ``ApiVersionsRequest.getErrorResponse`` (3.9).

    Args:
        error: the exception of ``read_request``.
        answer: the broker's answer to ApiVersions.
        offered: the API keys that the brokers can answer.
    """
    if error.api_key != _API_VERSIONS:
        return None
    request = WireRequest(_API_VERSIONS, 0, error.correlation_id, error.client_id, ApiVersions())
    rows = tuple([row for row in api_versions(answer, offered).api_keys if row.api_key == _API_VERSIONS])
    known = rows if rows and rows[0].max_version >= _STATED_SINCE else ()
    return write_reply(request, ApiVersionsReply(error=ErrorCode.UNSUPPORTED_VERSION, api_keys=known))


def write_request(request: WireRequest) -> bytes:
    """A request as a frame with its length.

    Raises:
        WireError: as in ``write_reply``; a partition of Produce has no batch in ``records``.
    """
    api = APIS[request.api_key]
    if not api.lowest <= request.version <= api.highest:
        raise WireError(_not_spoken(api, request.version))
    out = bytearray(4)
    out += _HEAD.pack(request.api_key, request.version, request.correlation_id)
    client = None if request.client_id is None else request.client_id.encode()
    out += _CLIENT_LENGTH.pack(-1 if client is None else len(client)) + (client or b"")
    if request.version >= api.flexible_since:
        out.append(0)
    written = request.messages if request.further else request.message
    _writer(request.api_key, request.version, is_reply=False)(written, out, request.beside, request.records)
    return _framed(out)


def read_reply(frame: bytes, api_key: int, version: int) -> WireReply:
    """The reply in a frame without its length, to a request of this API and version.

    Raises:
        WireError: the frame is no such reply; the text names the field.
    """
    api = APIS[api_key]
    if len(frame) < _CORRELATION.size:
        raise WireError(f"reply header: the frame of {len(frame)} bytes ends early")
    (correlation_id,) = _CORRELATION.unpack_from(frame)
    at = _CORRELATION.size
    if version >= api.flexible_since and api_key != _API_VERSIONS:
        at = _after_tags(frame, at)
    message, beside, records = _reader(api_key, version, is_reply=True)(frame, at)
    message, *further = message if type(message) is tuple else (message,)
    return WireReply(correlation_id, message, beside, records, tuple(further))


def _client_id(frame: bytes, at: int) -> tuple[str | None, int]:
    """The client id, and the place behind it. The id has an int16 length, also in flexible headers."""
    (size,) = _CLIENT_LENGTH.unpack_from(frame, at)
    at += _CLIENT_LENGTH.size
    if size == -1:
        return None, at
    if size < 0 or size > len(frame) - at:
        raise WireError(f"request header: a client id of {size} bytes, {len(frame) - at} are left")
    try:
        return frame[at : at + size].decode(), at + size
    except UnicodeDecodeError as error:
        raise WireError(f"request header: the client id is not UTF-8: {error.reason}") from None


def _after_tags(frame: bytes, at: int) -> int:
    if frame[at : at + 1] == b"\0":
        return at + 1
    try:
        return tags_at(frame, at)[0]
    except (IndexError, WireError) as error:
        raise WireError(f"header: tagged fields: {error}") from None


def _not_spoken(api: Api, version: int) -> str:
    return f"{api.name} v{version} is not spoken, only v{api.lowest} to v{api.highest}"


def _framed(out: bytearray) -> bytes:
    _LENGTH.pack_into(out, 0, len(out) - _LENGTH.size)
    return bytes(out)


@cache
def _reader(api_key: int, version: int, *, is_reply: bool) -> Read:
    api = APIS[api_key]
    return compile_reader(api.reply if is_reply else api.request, version, ends_the_frame=is_reply)


@cache
def _writer(api_key: int, version: int, *, is_reply: bool) -> Write:
    api = APIS[api_key]
    return compile_writer(api.reply if is_reply else api.request, version)
