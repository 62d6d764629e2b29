"""Seal and open: the one place where messages become bytes and bytes messages.

Both loops go through here, so nothing is shared between actors: what arrives is a fresh object made of bytes.
"""

from typing import Any

from kemu.protocol import messages as _messages  # noqa: F401 - importing registers every message
from kemu.protocol.wire.codec import CodecError, seal, unseal


class Unreadable(Exception):
    """Bytes that a server answers by closing the connection (Kafka: InvalidRequestException)."""


seal_mail = seal
"""(message, version) -> the bytes of an outgoing message."""


def open_mail(data: bytes) -> Any:
    """A fresh message.

    Raises:
        Unreadable: malformed, unknown, of an unsupported version or too large.
    """
    try:
        return unseal(data)[0]
    except CodecError as error:
        raise Unreadable(str(error)) from error
