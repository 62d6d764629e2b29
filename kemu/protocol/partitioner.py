"""The partition of a record by its key, as Kafka's producer chooses it. Source: ``BuiltInPartitioner.partitionForKey``
(3.3 on), and ``DefaultPartitioner`` before.
"""

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_BITS = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of bytes, without a sign, with the seed of Kafka's ``Utils.murmur2``."""
    whole = len(data) & ~3
    hashed = _SEED ^ len(data)
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _BITS
        word = (word ^ word >> 24) * _FACTOR & _BITS
        hashed = hashed * _FACTOR & _BITS ^ word
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _FACTOR & _BITS
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _BITS
    return hashed ^ hashed >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a record with this key in a topic of so many partitions."""
    return (murmur2(key) & _POSITIVE) % partitions
