"""Encoding and decoding of messages. Actors share no objects: a receiver gets a new message made of the bytes."""

from typing import Any

from kemu.protocol import messages as _messages  # noqa: F401 - importing registers every message
from kemu.protocol.wire.codec import CodecError, seal, unseal


class Unreadable(Exception):
    """Bytes that make a server close the connection (Kafka: InvalidRequestException)."""


seal_mail = seal
"""(message, version) -> bytes."""


def open_mail(data: bytes) -> Any:
    """Decode bytes to a new message.

    Raises:
        Unreadable: the bytes are malformed, unknown, too large or of an unsupported version.
    """
    try:
        return unseal(data)[0]
    except CodecError as error:
        raise Unreadable(str(error)) from error
