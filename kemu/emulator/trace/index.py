"""The index of a run in a trace file: where steps, times, actors, packets and violations are, to read a part alone.

The blocks of a run form *extents*. Each extent but the first begins with a step, so it can be read without the records
before. Only the message of an arriving packet may be in an earlier extent; the index finds this extent by the packet's
number. The index has the checksum of each extent. The footer, which follows the index, ends with a ``Tail``: the place,
the size and the digest of the index. All offsets count from the run's header, so runs may be joined in one file.
"""

import hashlib
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgpack

from kemu.emulator.trace.blocks import FIRST_WITH_INDEX, FIRST_WITH_NAMES
from kemu.emulator.trace.rows import Row
from kemu.protocol.frozen import frozen
from kemu.protocol.names import host_of

INDEX = 7
"""Kind of the record; the kinds of other records are in ``emulator.trace.traces``."""
LAST = 1 << 63
"""A step or a time after all others."""
_ROW = struct.Struct(">QQQQI")
_TAIL = struct.Struct(">IQQI16s")
TAIL_BYTES = _TAIL.size


class Extent(NamedTuple):
    """A part of a run. Number and time of the first step are 0 for the first extent."""

    offset: int
    step: int
    at_us: int
    packet: int
    """The last packet that was sent before the extent."""
    crc: int


class Tail(NamedTuple):
    """The last bytes of a footer: sizes of the payloads of footer and index, their offsets, and the index's digest."""

    footer_bytes: int
    footer_at: int
    index_at: int
    index_bytes: int
    digest: bytes

    def packed(self) -> bytes:
        """Return the bytes."""
        return _TAIL.pack(*self)


def tail_of(data: bytes) -> Tail:
    """Return the tail in ``TAIL_BYTES`` bytes."""
    return Tail(*_TAIL.unpack(data))


def digest_of(index: bytes) -> bytes:
    """Return the digest of an index for the footer."""
    return hashlib.blake2b(index, digest_size=16).digest()


@frozen
class Window:
    """The records of a run in a range of steps and of virtual times, both ends included.

    A record that is no step belongs to the last step before.
    """

    first_step: int = 0
    last_step: int = LAST
    from_us: int = 0
    to_us: int = LAST

    def holds(self, step: int, at_us: int) -> bool:
        """Whether a record at this step and time is in the window."""
        return self.first_step <= step <= self.last_step and self.from_us <= at_us <= self.to_us


def windows_around(steps: Iterable[int], context: int) -> list[Window]:
    """Return the windows with these steps and ``context`` steps on each side, disjoint and in order."""
    windows: list[Window] = []
    for step in sorted(steps):
        first = max(0, step - context)
        if windows and first <= windows[-1].last_step + 1:
            first = windows.pop().first_step
        windows.append(Window(first, step + context))
    return windows


def is_about(name: str, actors: Collection[str]) -> bool:
    """Whether a record that names an actor or a host is about these actors or hosts; "" concerns all actors."""
    return not name or name in actors or host_of(name) in actors


def rows_about(rows: Iterable[Row], actors: Collection[str], last_packet: int) -> Iterator[Row]:
    """Yield the rows of an extent without the steps of other actors, and without the packets that these steps sent.

    Args:
        rows: the rows, which are unchecked.
        actors: the wanted actors or hosts.
        last_packet: the last packet that was sent before the extent.
    """
    is_wanted = cache(lambda name: is_about(name, actors))
    is_of_wanted = True
    for row in rows:
        match row:
            case (1, _, _, name, *_):  # a step
                is_of_wanted = is_wanted(name)
                if not is_of_wanted:
                    continue
            case (2, packet, *_) if packet > last_packet:  # the first record of a packet follows its step
                last_packet = packet
                if not is_of_wanted:
                    continue
        yield row


class IndexBuilder:
    """Makes the index of a run, while the run is written or read."""

    def __init__(self, offset: int) -> None:
        """Begin with the extent at ``offset``, which follows the header."""
        self._rows = bytearray()
        self._open = (offset, 0, 0, 0)
        self._crc = 0
        self._extents = 1
        self.acted: defaultdict[str, int] = defaultdict(int)
        """Actor -> number of its steps in the open extent, which the caller counts."""
        self._steps_of: dict[str, int] = {}
        """Actor -> number of its steps in the extents before; a host of a fact has at least 0 steps."""
        self._findings: list[int] = []
        self._also: dict[str, None] = {}
        """Names in records of the open extent that are no steps."""
        self._extents_of: dict[str, bytearray] = {}
        """Name -> a bit for each extent with records about the name."""

    def begin(self, offset: int, step: int, at_us: int, packet: int) -> None:
        """Begin an extent with a step. The fields are those of ``Extent``; a damaged file may have any numbers."""
        self._rows += _ROW.pack(*self._open, self._crc)
        self._end_extent()
        step, at_us, packet = (max(0, min(number, LAST)) for number in (step, at_us, packet))
        self._open, self._crc = (offset, step, at_us, packet), 0
        self._extents += 1

    def add(self, payload: bytes) -> None:
        """Add a block to the open extent."""
        self._crc = zlib.crc32(payload, self._crc)

    def fact(self, fact: object) -> None:
        """Add the host that a fact names."""
        host = getattr(fact, "host", "")
        if host:
            self.acted[host] += 0
        self.about(host)

    def about(self, *names: str) -> None:
        """Note that the open extent has a record that is no step and names these actors or hosts; "" for all."""
        self._also |= dict.fromkeys(names)

    def finding(self) -> None:
        """Note that the open extent has a violation, or a step that raised."""
        if self._findings[-1:] != [self._extents - 1]:
            self._findings.append(self._extents - 1)

    def _end_extent(self) -> None:
        """Set the open extent's bits of the actors with new steps, and of the other names."""
        byte, bit = divmod(self._extents - 1, 8)
        acted, steps_of = self.acted, self._steps_of
        for name, steps in acted.items():
            steps_of[name] = steps_of.get(name, 0) + steps
        for name in (*(name for name, steps in acted.items() if steps), *self._also):
            bits = self._extents_of.setdefault(name, bytearray())
            bits.extend(bytes(max(0, byte + 1 - len(bits))))
            bits[byte] |= 1 << bit
        acted.clear()
        self._also = {}

    def steps_of(self) -> dict[str, int]:
        """End the open extent, and return the number of steps of each actor."""
        self._end_extent()
        return self._steps_of

    def payload(self, version: int) -> bytes:
        """Return the index as the payload of a block in a trace of this format version; b"" without an index."""
        self._end_extent()
        rows = bytes(self._rows) + _ROW.pack(*self._open, self._crc)
        names = (self._extents_of,) if version >= FIRST_WITH_NAMES else ()
        data: bytes = msgpack.packb((INDEX, rows, self._steps_of, self._findings, *names))
        return data if version >= FIRST_WITH_INDEX else b""


class Index:
    """The index of a run, for searches."""

    def __init__(
        self,
        rows: bytes,
        steps_of: Mapping[str, int],
        findings: Sequence[int],
        extents_of: Mapping[str, bytes] | None,
        end: int,
    ) -> None:
        self._rows = rows
        self._extents_of = extents_of
        self.steps_of = steps_of
        """Actor -> number of its steps."""
        self.findings = findings
        """Extents with violations, or with a step that raised."""
        self._end = end

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    def extent(self, number: int) -> Extent:
        """Return an extent. The number of all extents is the offset at which the last one ends."""
        if number == len(self):
            return Extent(self._end, LAST, LAST, LAST, 0)
        return Extent(*_ROW.unpack_from(self._rows, number * _ROW.size))

    def extents(self, window: Window) -> range:
        """Return the extents that may have records of a window."""
        numbers = range(len(self))
        first = max(
            bisect_right(numbers, window.first_step, key=self._step) - 1,
            bisect_left(numbers, window.from_us, key=self._at_us) - 1,
            0,
        )
        last = min(
            bisect_right(numbers, window.last_step, key=self._step),
            bisect_right(numbers, window.to_us, key=self._at_us),
        )
        return range(first, max(first, last))

    def extents_about(self, actors: Collection[str]) -> list[int]:
        """Return the extents with records about these actors or hosts; all extents in format version 2."""
        if self._extents_of is None:
            return [*range(len(self))]
        found = 0
        for name, bits in self._extents_of.items():
            if is_about(name, actors):
                found |= int.from_bytes(bits, "little")
        return [number for number in range(len(self)) if found >> number & 1]

    def extent_of_packet(self, packet: int) -> int:
        """Return the extent whose steps may have sent a packet."""
        return max(bisect_left(range(len(self)), packet, key=lambda number: self.extent(number).packet) - 1, 0)

    def _step(self, number: int) -> int:
        return self.extent(number).step

    def _at_us(self, number: int) -> int:
        return self.extent(number).at_us


def index_of(payload: bytes, end: int) -> Index | None:
    """Return the index in a payload; None if the payload is no index. ``end``: the offset of the index."""
    try:
        row: Any = msgpack.unpackb(payload, use_list=False)
    except (ValueError, msgpack.UnpackException):
        return None
    extents_of: dict[Any, Any] | None = None
    match row:
        case (7, bytes(rows), dict(steps_of), tuple(findings)):
            pass
        case (7, bytes(rows), dict(steps_of), tuple(findings), dict(extents_of)):
            pass
        case _:
            return None
    if not rows or len(rows) % _ROW.size:
        return None
    index = Index(rows, steps_of, findings, extents_of, end)
    good = (
        all(type(actor) is str and type(steps) is int for actor, steps in steps_of.items())
        and all(type(number) is int and 0 <= number < len(index) for number in findings)
        and all(type(name) is str and type(bits) is bytes for name, bits in (extents_of or {}).items())
    )
    return index if good else None
