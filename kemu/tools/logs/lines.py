"""The lines of a log within bounds: of a long line the begin, of a file packed with gzip no bomb."""

import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from kemu.tools.errors import BadInput
from kemu.tools.kafka_files.input_files import STDIN

LONGEST_LINE = 1 << 18
"""Bytes of a line that are read, and characters of a record of several lines."""
SAMPLE, SAMPLE_CHARACTERS = 2_000, 1 << 22
"""Lines and characters at the begin of a file that tell its layout and its dialects."""
MOST_PACKED = 180
"""Bytes of text that a byte of gzip may hold: 139 for lines of 10 kB that differ in their times, 228 for one byte."""
_CHECKED_BYTES = 1 << 17
"""Bytes of text after which the ratio is checked."""
_GZIP = 31
"""The format of gzip, in the words of zlib."""

Readline = Callable[[int], bytes]
"""Returns the next line of a file, or this many bytes of the line; empty at the end."""


def is_packed(path: Path) -> bool:
    """Return whether a file is packed with gzip, by its first bytes."""
    with path.open("rb") as raw:
        return raw.read(2) == b"\x1f\x8b"


@contextmanager
def open_log(path: Path) -> Iterator[Iterator[str]]:
    """Open the lines of a log, which end with a line feed; gzip is recognised; ``-`` is the standard input.

    Raises:
        BadInput: the file cannot be read, also while its lines are read.
    """
    try:
        if str(path) == STDIN:
            yield _texts(sys.stdin.buffer.readline)
            return
        with path.open("rb") as raw:
            if not is_packed(path):
                yield _texts(raw.readline)
                return
            yield _texts(io.BufferedReader(_Unpacked(path, raw)).readline)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def bounded_lines(readline: Readline) -> Iterator[tuple[bytes, int]]:
    """Return the lines of a file, each cut to ``LONGEST_LINE``, with their whole lengths in bytes."""
    while line := readline(LONGEST_LINE):
        length, rest = len(line), line
        while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
            rest = readline(LONGEST_LINE)
            length += len(rest)
        yield line, length


def _texts(readline: Readline) -> Iterator[str]:
    return (line.decode("utf-8", "replace") for line, _ in bounded_lines(readline))


class _Unpacked(io.RawIOBase):
    """The text of a file packed with gzip.

    Raises:
        BadInput: a byte of the file holds too much text.
    """

    def __init__(self, path: Path, packed: IO[bytes]) -> None:
        self._path = path
        self._packed = packed
        self._zip = zlib.decompressobj(_GZIP)
        self._text_bytes = self._packed_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        text = b""
        while not text:
            data = self._zip.unused_data.lstrip(b"\0") if self._zip.eof else self._zip.unconsumed_tail
            data = data or self._packed.read(1 << 16)
            if not data:
                if self._zip.eof:
                    return 0
                raise EOFError("the packed text ends early")
            if self._zip.eof:
                self._zip = zlib.decompressobj(_GZIP)
            text = self._zip.decompress(data, len(buffer))
            self._check(len(text), len(data) - len(self._zip.unconsumed_tail) - len(self._zip.unused_data))
        buffer[: len(text)] = text
        return len(text)

    def _check(self, text_bytes: int, packed_bytes: int) -> None:
        self._text_bytes += text_bytes
        self._packed_bytes += packed_bytes
        if self._text_bytes >= _CHECKED_BYTES:
            if self._text_bytes > MOST_PACKED * self._packed_bytes:
                raise BadInput(f"{self._path}: is no log: a byte of gzip holds more than {MOST_PACKED} bytes of text")
            self._text_bytes = self._packed_bytes = 0


def sample_of(lines: Iterable[str]) -> list[str]:
    """Take the lines from the begin of a log that tell its layout."""
    taken: list[str] = []
    characters = 0
    for line in lines:
        taken.append(line)
        characters += len(line)
        if len(taken) == SAMPLE or characters >= SAMPLE_CHARACTERS:
            break
    return taken
