"""Kafka's primitive types as bytes, for the layouts of member metadata and of log records.

Integers are big-endian and signed. Each length has two forms, chosen by ``flexible`` (KIP-482):

=========  ==============================  ====================================
type       plain                           flexible ("compact")
=========  ==============================  ====================================
string     int16 length, UTF-8             unsigned varint length + 1, UTF-8
bytes      int32 length, data              unsigned varint length + 1, data
array      int32 count, items              unsigned varint count + 1, items
null       length -1 (read: any below 0)   varint 0
struct     its fields                      its fields, then its tagged fields
=========  ==============================  ====================================

A reader gets the name of each field, for the error about bytes that end too early.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from kemu.protocol.names import TopicPartition, shared
from kemu.protocol.wire.codec import Malformed, TooLarge

MAX_STRING_BYTES = 32_767
"""The plain length of a string is an int16; the flexible form has the same limit, as in Kafka."""

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_VARINT_BYTES = 5


class Reader:
    """A reader of one value after the other; every method takes the name of the field, for the error.

    Raises:
        Malformed: (every method) the bytes end inside the field, or do not fit its type.
    """

    __slots__ = ("at", "data", "flexible", "what")

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what
        """The schema, for errors ("GroupMetadataValue v3")."""
        self.at = 0
        self.flexible = False

    def int8(self, field: str) -> int:
        """Read a byte. Source (for all types): Kafka's protocol guide, "protocol types"."""
        return self._number(_INT8, field)

    def int16(self, field: str) -> int:
        """Read two bytes."""
        return self._number(_INT16, field)

    def int32(self, field: str) -> int:
        """Read four bytes."""
        return self._number(_INT32, field)

    def int64(self, field: str) -> int:
        """Read eight bytes."""
        return self._number(_INT64, field)

    def unsigned_varint(self, field: str) -> int:
        """Read seven bits a byte, lowest first; at most five bytes and 32 bits."""
        value = 0
        for index in range(_VARINT_BYTES):
            if self.at >= len(self.data):
                self._ends(field, 1)
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value > 0xFFFF_FFFF:
                    break
                return value
        raise Malformed(f"{self.what}.{field}: a varint of more than 32 bits")

    def string(self, field: str) -> str:
        """Read a string; null is refused."""
        value = self.nullable_string(field)
        if value is None:
            self._null(field)
        return value

    def nullable_string(self, field: str) -> str | None:
        """Read a string, or None."""
        size = self.unsigned_varint(field) - 1 if self.flexible else self._number(_INT16, field)
        data = self._take(size, field, MAX_STRING_BYTES)
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Malformed(f"{self.what}.{field}: not UTF-8: {data!r:.80}") from None

    def blob(self, field: str) -> bytes:
        """Read bytes; null is refused."""
        value = self.nullable_blob(field)
        if value is None:
            self._null(field)
        return value

    def nullable_blob(self, field: str) -> bytes | None:
        """Read bytes, or None."""
        size = self.unsigned_varint(field) - 1 if self.flexible else self._number(_INT32, field)
        return self._take(size, field, len(self.data))

    def count(self, field: str) -> int:
        """Read the length of an array. Every item has at least one byte, so a count above the remaining bytes is
        refused.
        """
        count = self.unsigned_varint(field) - 1 if self.flexible else self._number(_INT32, field)
        if count < 0:
            self._null(field)
        if count > len(self.data) - self.at:
            self._ends(field, count)
        return count

    def raw(self, size: int, field: str) -> bytes:
        """Read this number of bytes, without a length before them."""
        data = self._take(size, field, size)
        assert data is not None
        return data

    def int32_array(self, field: str) -> tuple[int, ...]:
        """Read an array of four-byte integers."""
        count = self.count(field)
        end = self.at + 4 * count
        if end > len(self.data):
            self._ends(field, 4 * count)
        values = struct.unpack_from(f">{count}i", self.data, self.at)
        self.at = end
        return values

    def topic_partitions(self, field: str) -> tuple[TopicPartition, ...]:
        """Read an array of (topic, array of numbers) as a flat tuple, in the order of the bytes."""
        found: list[TopicPartition] = []
        for _ in range(self.count(field)):
            topic = self.string(f"{field}.topic")
            found += [shared((topic, number)) for number in self.int32_array(f"{field}.partitions")]
            self.end_struct(field)
        return tuple(found)

    def end_struct(self, field: str) -> "dict[int, Reader]":
        """Read the tagged fields that end a struct in a flexible schema: tag -> reader of the field."""
        found: dict[int, Reader] = {}
        for _ in range(self.unsigned_varint(f"{field} tags") if self.flexible else 0):
            tag = self.unsigned_varint(f"{field} tag")
            size = self.unsigned_varint(f"{field} tag size")
            found[tag] = reader = Reader(self._take(size, f"{field} tag", len(self.data)) or b"", self.what)
            reader.flexible = True
        return found

    def _number(self, form: struct.Struct, field: str) -> int:
        end = self.at + form.size
        if end > len(self.data):
            self._ends(field, form.size)
        value: int = form.unpack_from(self.data, self.at)[0]
        self.at = end
        return value

    def _take(self, size: int, field: str, limit: int) -> bytes | None:
        if size < 0:
            return None
        end = self.at + size
        if end > len(self.data):
            self._ends(field, size)
        if size > limit:
            raise Malformed(f"{self.what}.{field}: {size} bytes long, the limit is {limit}")
        data = self.data[self.at : end]
        self.at = end
        return data

    def _ends(self, field: str, wanted: int) -> NoReturn:
        left = len(self.data) - self.at
        raise Malformed(f"{self.what}.{field}: at least {wanted} bytes needed, {left} left")

    def _null(self, field: str) -> NoReturn:
        raise Malformed(f"{self.what}.{field}: may not be null")


class Writer:
    """A writer of one value after the other; ``data()`` returns the bytes.

    Raises:
        TooLarge: a string of more than 32767 bytes.
        Malformed: a string with a lone surrogate, or a number that does not fit its width.
    """

    __slots__ = ("_out", "_what", "flexible")

    def __init__(self, what: str) -> None:
        self._out = bytearray()
        self._what = what
        self.flexible = False

    def data(self) -> bytes:
        """The bytes of all values that were written."""
        return bytes(self._out)

    def int8(self, value: int) -> None:
        """Write a byte."""
        self._number(_INT8, value)

    def int16(self, value: int) -> None:
        """Write two bytes."""
        self._number(_INT16, value)

    def int32(self, value: int) -> None:
        """Write four bytes."""
        self._number(_INT32, value)

    def int64(self, value: int) -> None:
        """Write eight bytes."""
        self._number(_INT64, value)

    def unsigned_varint(self, value: int) -> None:
        """Write seven bits a byte, lowest first."""
        assert 0 <= value <= 0xFFFF_FFFF, f"{value} is not an unsigned 32-bit number"
        while value > 0x7F:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)

    def string(self, value: str | None) -> None:
        """Write a string, or null."""
        if value is None:
            self._length(_INT16, -1)
            return
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise Malformed(f"{self._what}: {value!r:.80} cannot be written as UTF-8") from None
        if len(data) > MAX_STRING_BYTES:
            raise TooLarge(f"{self._what}: a string of {len(data)} bytes, the limit is {MAX_STRING_BYTES}")
        self._length(_INT16, len(data))
        self._out += data

    def blob(self, value: bytes | None) -> None:
        """Write bytes, or null."""
        if value is None:
            self._length(_INT32, -1)
            return
        self._length(_INT32, len(value))
        self._out += value

    def raw(self, value: bytes) -> None:
        """Write raw bytes, without a length before them."""
        self._out += value

    def count(self, value: int) -> None:
        """Write the number of items that follow."""
        self._length(_INT32, value)

    def int32_array(self, values: Sequence[int]) -> None:
        """Write an array of four-byte integers."""
        self._length(_INT32, len(values))
        try:
            self._out += struct.pack(f">{len(values)}i", *values)
        except struct.error:
            raise Malformed(f"{self._what}: {values!r:.80} do not all fit into int32") from None

    def topic_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Write an array of (topic, array of numbers): topics in order of first appearance, numbers in the
        given order.
        """
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
        self.count(len(by_topic))
        for topic, numbers in by_topic.items():
            self.string(topic)
            self.int32_array(numbers)
            self.end_struct()

    def end_struct(self, tagged: "Mapping[int, Writer]" = MappingProxyType({})) -> None:
        """Write the end of a struct in a flexible schema. ``tagged``: the tagged fields by tag, ascending."""
        if not self.flexible:
            return
        self.unsigned_varint(len(tagged))
        for tag, field in tagged.items():
            self.unsigned_varint(tag)
            self.unsigned_varint(len(field.data()))
            self.raw(field.data())

    def _length(self, form: struct.Struct, value: int) -> None:
        if self.flexible:
            self.unsigned_varint(value + 1)
        else:
            self._out += form.pack(value)

    def _number(self, form: struct.Struct, value: int) -> None:
        try:
            self._out += form.pack(value)
        except struct.error:
            raise Malformed(f"{self._what}: {value!r} does not fit into int{8 * form.size}") from None
