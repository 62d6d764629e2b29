"""Read files of other programs within bounds: sizes of files, and sizes of numbers."""

import re
import sys
from pathlib import Path

STDIN = "-"
LARGEST_FILE = 64 * 1024 * 1024
"""Maximum size of a file in bytes. The output of ``--describe`` has about 100 bytes for each partition."""
LARGEST_ID = 2**31 - 1
LARGEST_OFFSET = 2**63 - 1
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class BadFile(ValueError):
    """A file that cannot be used; the message has the reason, without the name of the file."""


def read_text(source: str, accepted: str = "") -> str:
    """Return the text of a file; ``-`` is the standard input.

    Args:
        source: path of the file.
        accepted: ending of a message about a file that is no text, such as the accepted kinds of files.

    Raises:
        BadFile: the file is unreadable, too large or not in UTF-8.
    """
    try:
        if source == STDIN:
            data = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise BadFile(f"cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_FILE:
        raise BadFile(f"is larger than {LARGEST_FILE >> 20} MiB")
    return text_of(data, accepted)


def text_of(data: bytes, accepted: str = "") -> str:
    """Return these bytes as text.

    Raises:
        BadFile: the bytes are not in UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile(f"is not UTF-8 text{accepted}") from None


def whole_number(text: str, most: int) -> int | None:
    """Return the number of a text with the digits 0 to 9 only; None for other texts, and for numbers above ``most``."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
        return None
    number = int(text)
    return number if number <= most else None


def is_topic(name: str) -> bool:
    """Return whether Kafka allows this name of a topic. Source: ``org.apache.kafka.common.internals.Topic`` (3.9)."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def printable(text: str) -> str:
    """Return the text with a space for each character that could control a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
