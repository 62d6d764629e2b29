"""Partitions as Java's hash maps list them: where an order decides that nobody chose.

Source: ``TopicPartition.hashCode``; ``java.util.HashMap`` spreads a hash, grows when three quarters are taken, never
shrinks, and lists a bucket's keys as they came.
"""

from collections.abc import Iterable

from kemu.protocol.names import TopicPartition, java_string_hash

_SMALLEST_TABLE = 16


def partition_hash(partition: TopicPartition) -> int:
    """``TopicPartition.hashCode``, spread as a hash map does, without sign."""
    topic, number = partition
    code = 31 * (31 + number) + java_string_hash(topic) & 0xFFFFFFFF
    return code ^ code >> 16


def grown(buckets: int, keys: int) -> int:
    """How many buckets a table of so many has when it holds so many keys."""
    while keys * 4 > buckets * 3:
        buckets *= 2
    return buckets


def partitions_in_hash_order(inserted: Iterable[TopicPartition], others: int = 0) -> list[TopicPartition]:
    """What a hash map lists whose keys were put in like this, with so many others that nobody asks for."""
    keys = list(dict.fromkeys(inserted))
    mask = grown(_SMALLEST_TABLE, len(keys) + others) - 1
    return sorted(keys, key=lambda partition: partition_hash(partition) & mask)


class PartitionSet:
    """A ``java.util.HashSet`` of partitions, known by number."""

    def __init__(self) -> None:
        self._hashes: dict[int, int] = {}
        self._buckets = _SMALLEST_TABLE

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def add(self, number: int, partition: TopicPartition) -> None:
        """Put it in; it is none of them yet."""
        self._hashes[number] = partition_hash(partition)
        self._buckets = grown(self._buckets, len(self._hashes))

    def remove(self, number: int) -> None:
        """Take it out; it is one of them."""
        del self._hashes[number]

    def first(self) -> int:
        """What it lists first; it is not empty."""
        mask = self._buckets - 1
        return min(self._hashes, key=lambda number: self._hashes[number] & mask)
