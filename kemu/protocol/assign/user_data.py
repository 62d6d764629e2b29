"""User data of the sticky assignors in a subscription, in Kafka's byte layout.

All numbers are big-endian. A string is its length (int16) and its UTF-8 bytes. An array is its length (int32) and its
items.

- sticky V1: array of (topic, array of partition int32), then the generation int32 (KIP-341, since 2.3).
- sticky V0: the array alone (KIP-54). The layout has no version field, so readers try V1 and then V0.
- cooperative-sticky V0: the generation int32 alone; the subscription itself has the partitions.
"""

import struct
from collections.abc import Iterable

from kemu.protocol.assign.search.order import hash_map_order
from kemu.protocol.frozen import frozen
from kemu.protocol.names import NO_GENERATION, TopicPartition

_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")


@frozen
class StickyData:
    """Decoded user data. ``generation`` is None if the bytes contain no generation (absent data, or V0)."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int | None = None


def encode_sticky(partitions: Iterable[TopicPartition], generation: int | None) -> bytes:
    """The bytes of V1, or of V0 if ``generation`` is None. Partitions keep the given order; topics are in hash map
    order.

    Source: Kafka 3.4.1, ``StickyAssignor.serializeTopicPartitionAssignment``. Before 3.8 the leader keeps the first
    partitions of a member's list, so the order matters.
    """
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    parts = [_INT32.pack(len(by_topic))]
    for topic in hash_map_order(by_topic, computed=True):
        name, numbers = topic.encode(), by_topic[topic]
        parts += (_INT16.pack(len(name)), name, struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    if generation is not None:
        parts.append(_INT32.pack(generation))
    return b"".join(parts)


def decode_sticky(data: bytes | None) -> StickyData:
    """The content of V1 or V0; bytes in neither layout are no partitions at generation -1, as in Kafka."""
    if not data:
        return StickyData()
    try:
        partitions, end = _read_partitions(data)
    except (struct.error, UnicodeDecodeError):
        return StickyData((), NO_GENERATION)
    if len(data) - end < _INT32.size:
        return StickyData(partitions, None)
    return StickyData(partitions, _INT32.unpack_from(data, end)[0])


def encode_cooperative(generation: int) -> bytes:
    """The generation of the last assignment, -1 before the first."""
    return _INT32.pack(generation)


def decode_cooperative(data: bytes | None) -> int | None:
    """The generation; None without user data; -1 for unreadable bytes."""
    if data is None:
        return None
    return int(_INT32.unpack_from(data)[0]) if len(data) >= _INT32.size else NO_GENERATION


def _read_partitions(data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """The partitions of V0 or V1, and the offset of the following bytes.

    Raises ``struct.error`` if the bytes are too short or a length is negative.
    """
    int16, int32 = _INT16.unpack_from, _INT32.unpack_from
    (topics,) = int32(data)
    at = 4
    found: list[TopicPartition] = []
    for _ in range(_length(topics)):
        (size,) = int16(data, at)
        start = at + 2
        at = start + _length(size)
        topic = data[start:at].decode()
        (count,) = int32(data, at)
        at += 4
        if count == 1:
            found.append((topic, int32(data, at)[0]))
            at += 4
        else:
            if _length(count) * 4 > len(data) - at:
                raise struct.error("an array longer than its bytes")
            found += [(topic, number) for number in struct.unpack_from(f">{count}i", data, at)]
            at += 4 * count
    return tuple(found), at


def _length(value: int) -> int:
    if value < 0:
        raise struct.error("a negative length")
    return value
