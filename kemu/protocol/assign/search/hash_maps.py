"""The iteration order of Java's hash maps whose keys are partitions. Some of Kafka's results depend on this order.

Source: ``TopicPartition.hashCode``; ``java.util.HashMap`` spreads a hash, grows when three quarters are full, never
shrinks, and lists a bucket's keys in order of insertion.
"""

from collections.abc import Iterable

from kemu.protocol.names import TopicPartition, java_string_hash

_SMALLEST_TABLE = 16


def partition_hash(partition: TopicPartition) -> int:
    """``TopicPartition.hashCode``, spread as in a ``HashMap``, without a sign."""
    topic, number = partition
    code = 31 * (31 + number) + java_string_hash(topic) & 0xFFFFFFFF
    return code ^ code >> 16


def grown(buckets: int, keys: int) -> int:
    """The number of buckets of a table with at least ``buckets`` buckets and so many keys."""
    while keys * 4 > buckets * 3:
        buckets *= 2
    return buckets


def partitions_in_hash_order(inserted: Iterable[TopicPartition], others: int = 0) -> list[TopicPartition]:
    """The iteration order of a hash map after these insertions. ``others``: the number of other keys, not in the
    result.
    """
    keys = list(dict.fromkeys(inserted))
    mask = grown(_SMALLEST_TABLE, len(keys) + others) - 1
    return sorted(keys, key=lambda partition: partition_hash(partition) & mask)


class PartitionSet:
    """A ``java.util.HashSet`` of partitions, identified by number."""

    def __init__(self) -> None:
        self._hashes: dict[int, int] = {}
        self._buckets = _SMALLEST_TABLE

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def add(self, number: int, partition: TopicPartition) -> None:
        """Add a partition, which must not be in the set."""
        self._hashes[number] = partition_hash(partition)
        self._buckets = grown(self._buckets, len(self._hashes))

    def remove(self, number: int) -> None:
        """Remove a partition, which must be in the set."""
        del self._hashes[number]

    def first(self) -> int:
        """The first element in iteration order; the set must not be empty."""
        mask = self._buckets - 1
        return min(self._hashes, key=lambda number: self._hashes[number] & mask)
