"""Encoding and decoding of messages.

Every message becomes bytes, for its size and for the trace. A receiver gets the sent object itself if decoding would
make an equal message: messages are frozen, and the version loses no set field. ``Decoding.always`` decodes all
messages.
"""

from collections.abc import Callable
from typing import Any

from kemu.protocol import messages as _messages  # noqa: F401 - importing registers every message
from kemu.protocol.wire.codec import CodecError, seal, unseal
from kemu.protocol.wire.compile import compile_loss
from kemu.protocol.wire.schema import SPECS


class Unreadable(Exception):
    """Bytes that make a server close the connection (Kafka: InvalidRequestException)."""


seal_mail = seal
"""Function of (message, version) that returns the encoded bytes."""


class Decoding:
    """A switch with which tests decode every message."""

    always = False
    """Whether networks that are built from now on decode each message for the receiver."""


def loss_of(cls: type, version: int) -> Callable[[Any], bool] | None:
    """A function that returns whether decoding the bytes of a message of this class makes another message; None if
    decoding always makes an equal message.
    """
    return compile_loss(SPECS[cls].fields, version)


LARGE_BYTES = 2048
"""A reply of at least this size in bytes is encoded and decoded once for all its receivers."""
LARGE_KEPT = 16
"""Number of the most recent large replies that stay in memory."""


def open_mail(data: bytes) -> Any:
    """Decode bytes to a new message.

    Raises:
        Unreadable: the bytes are malformed, unknown, too large or of an unsupported version.
    """
    try:
        return unseal(data)[0]
    except CodecError as error:
        raise Unreadable(str(error)) from error


class LargeReplies:
    """The last large replies, such as the Metadata of many partitions: encoded once and decoded once for all receivers.

    The same object always has the same bytes, because messages are frozen.
    """

    def __init__(self) -> None:
        self._sealed: dict[int, tuple[Any, int, bytes]] = {}
        """``id`` of a message -> (message, version, bytes). The reference to the message prevents a reuse of the
        ``id``."""
        self._opened: dict[bytes, Any] = {}

    def seal(self, message: Any, version: int) -> bytes:
        """Encode a reply like ``seal_mail``."""
        known = self._sealed.get(id(message))
        if known is not None and known[1] == version:
            return known[2]
        data = seal_mail(message, version)
        if len(data) >= LARGE_BYTES:
            _keep(self._sealed, id(message), (message, version, data))
        return data

    def open(self, data: bytes) -> Any:
        """Decode a message like ``open_mail``."""
        if len(data) < LARGE_BYTES:
            return open_mail(data)
        message = self._opened.get(data)
        if message is None:
            message = open_mail(data)
            _keep(self._opened, data, message)
        return message


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    if len(kept) >= LARGE_KEPT:
        del kept[next(iter(kept))]
    kept[key] = value
