"""The blocks of a trace file, with checksums that distinguish a torn tail from other damage.

A file has a magic number, a format version and blocks. A block has ``length u32, crc32 of the payload u32, crc32 of
these eight bytes u32`` and the payload. A killed process leaves a file that ends within a block: a *torn tail* after
good blocks. A damaged block before good blocks is damage of another kind. Without the checksum of the head, a damaged
length would look like a torn tail.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

MAGIC = b"kemu trace\r\n\x1a\n"
"""The magic number contains line ends and control-Z, like PNG's, so that a transfer in text mode damages the magic
number."""
TRACE_VERSION = 3
"""The format version of written traces."""
FIRST_WITH_INDEX = 2
"""The first format version in which whole runs have an index (``emulator.trace.index``)."""
FIRST_WITH_NAMES = 3
"""The first format version in which the index has the extents of each actor."""
READABLE = range(1, TRACE_VERSION + 1)
SEARCH_BYTES = 1 << 20
"""Distance in bytes after a damaged block within which a good block is searched."""
MOST_BLOCK_BYTES = 64 << 20
"""Longest payload that is read; a writer ends a block far earlier."""

_HEAD = struct.Struct(">III")
HEAD_BYTES = _HEAD.size
_LENGTH_AND_CRC = struct.Struct(">II")
_VERSION = struct.Struct(">H")


class TraceError(ValueError):
    """A file that cannot be read as a trace; the message names file and byte offset."""


def write_magic(sink: BinaryIO) -> None:
    """Write the magic number and the format version."""
    sink.write(MAGIC + _VERSION.pack(TRACE_VERSION))


def write_block(sink: BinaryIO, payload: bytes) -> None:
    """Write one block with its checksums."""
    head = _LENGTH_AND_CRC.pack(len(payload), zlib.crc32(payload))
    sink.write(head + zlib.crc32(head).to_bytes(4, "big"))
    sink.write(payload)


def first_block(path: Path) -> int:
    """Return the offset of the first block.

    Raises:
        TraceError: as for ``version_of``.
    """
    version_of(path)
    return len(MAGIC) + _VERSION.size


def version_of(path: Path) -> int:
    """Return the format version of a trace.

    Raises:
        TraceError: the file is no trace, or has another format version.
    """
    with path.open("rb") as file:
        start = file.read(len(MAGIC) + _VERSION.size)
    if start[: len(MAGIC)] != MAGIC:
        raise TraceError(f"{path}: byte 0: not a kemu trace")
    if len(start) < len(MAGIC) + _VERSION.size:
        raise TraceError(f"{path}: byte {len(MAGIC)}: the file ends before its format version")
    version: int = _VERSION.unpack(start[len(MAGIC) :])[0]
    if version not in READABLE:
        raise TraceError(f"{path}: byte {len(MAGIC)}: format version {version}; this kemu reads up to {TRACE_VERSION}")
    return version


def block_at(file: BinaryIO, offset: int) -> bytes | str:
    """Return the payload of the block at an offset, or a text about its damage."""
    file.seek(offset)
    return _read_block(file)


def blocks_of(path: Path, offset: int, until: int | None = None) -> Iterator[tuple[int, int, bytes | str]]:
    """Yield (offset, offset of the end, payload) of each block. A torn tail is the last item, with a text about the
    damage as payload.

    Args:
        path: the file.
        offset: the offset of the first block.
        until: the offset at which to stop; None for the end of the file.

    Raises:
        TraceError: a good block follows a damaged block.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while offset < (size if until is None else until):
            payload = block_at(file, offset)
            if isinstance(payload, str):
                if (whole := _next_whole_block(file, offset, size)) is not None:
                    raise TraceError(
                        f"{path}: damaged block at byte {offset} ({payload}); a whole one follows at {whole}"
                    )
                yield offset, size, payload
                return
            after = offset + HEAD_BYTES + len(payload)
            yield offset, after, payload
            offset = after


def rows_of(path: Path, offset: int, payload: bytes) -> Iterator[tuple[Any, ...]]:
    """Yield the records in the payload of the block at an offset, as unchecked tuples.

    Raises:
        TraceError: the payload is no sequence of arrays of msgpack.
    """
    unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=len(payload))
    unpacker.feed(payload)
    try:
        for row in unpacker:
            if type(row) is not tuple or not row:
                raise TraceError(f"{path}: block at byte {offset}: {row!r:.40} is no record")
            yield row
    except (ValueError, msgpack.UnpackException) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{path}: block at byte {offset}: not msgpack: {error}") from None
    if unpacker.tell() != len(payload):
        raise TraceError(f"{path}: block at byte {offset}: it ends inside a record")


def _read_block(file: BinaryIO) -> bytes | str:
    """Return the payload of the next block, or a text about its damage."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return "the file ends inside a block's head"
    length, crc, head_crc = _HEAD.unpack(head)
    if zlib.crc32(head[: _LENGTH_AND_CRC.size]) != head_crc:
        return "the block's head is damaged"
    if length > MOST_BLOCK_BYTES:
        return f"the block claims {length:,} bytes, more than {MOST_BLOCK_BYTES:,}"
    payload = file.read(length)
    if len(payload) < length:
        return "the file ends inside a block"
    return payload if zlib.crc32(payload) == crc else "the block's checksum is wrong"


def _next_whole_block(file: BinaryIO, damaged: int, size: int) -> int | None:
    """Return the offset of the next good block within ``SEARCH_BYTES``; None without such a block."""
    claimed = file.tell()
    if claimed < size and isinstance(_read_block(file), bytes):
        return claimed
    start = damaged + 1
    file.seek(start)
    window = file.read(min(SEARCH_BYTES, size - start))
    highest = MOST_BLOCK_BYTES >> 24
    for index in range(len(window) - _HEAD.size + 1):
        if window[index] > highest:  # a longer block than any: most bytes are no head
            continue
        head = window[index : index + _LENGTH_AND_CRC.size]
        if zlib.crc32(head).to_bytes(4, "big") == window[index + _LENGTH_AND_CRC.size : index + _HEAD.size]:
            file.seek(start + index)
            if isinstance(_read_block(file), bytes):
                return start + index
    return None
