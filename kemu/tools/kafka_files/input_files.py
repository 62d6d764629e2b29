"""Read files of other programs within bounds: sizes of files, lines and numbers."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from kemu.tools.errors import BadInput

STDIN = "-"
LARGEST_FILE = 64 * 1024 * 1024
"""Maximum size of a file in bytes. The output of ``--describe`` has about 100 bytes for each partition."""
LONGEST_LINE = 32 * 1024 * 1024
"""Maximum number of characters of a line."""
MOST_VALUES = 6_000_000
"""Maximum number of values of a JSON text, at about 60 bytes each."""
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


def numbered_lines(file: IO[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, without blank lines.

    Raises:
        BadInput: a line is too long.
    """
    number = 0
    while text := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(text) > LONGEST_LINE:
            raise BadInput(f"{file.name}: line {number} has more than {LONGEST_LINE >> 20} Mi characters")
        if text.strip():
            yield number, text


def json_of(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        BadFile: the text is no JSON, or has too many values.
    """
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise BadFile(f"has more than {MOST_VALUES:,} values")
    try:
        return json.loads(text)
    except RecursionError:
        raise BadFile("is no JSON that can be read: nested too deep") from None
    except ValueError as error:
        raise BadFile(f"is no JSON: {str(error)[:200]}") from None


def whole_number(text: str, most: int) -> int | None:
    """Return the number of a text with the digits 0 to 9 only; None for other texts, and for numbers above ``most``."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
        return None
    number = int(text)
    return number if number <= most else None


def is_topic(name: str) -> bool:
    """Return whether Kafka allows this name of a topic. Source: ``org.apache.kafka.common.internals.Topic`` (3.9)."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")
