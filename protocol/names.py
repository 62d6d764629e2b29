"""The nouns of the language: what things are called, and the order they are sorted in.

Values are plain strings, ints and tuples so that they cross codecs and sort without help; aliases say what is meant.
"""

from typing import NewType, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""(topic, partition number). A plain tuple: sorts by topic, then number, as Kafka's comparators do."""

MemberId: TypeAlias = str
GroupId: TypeAlias = str
ActorName: TypeAlias = str
"""``c1`` (a client), ``b0`` (a broker), ``b0/coordinator`` (a part of a host with a mailbox of its own)."""

HostName = NewType("HostName", str)

UNKNOWN_MEMBER: MemberId = ""
"""What a member sends when it has no id yet (JoinGroup), and what errors that took the id away answer with."""

NO_GENERATION = -1
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50


def host_of(actor: ActorName) -> HostName:
    """The host an actor lives on: the part of its name before the slash."""
    return HostName(actor.partition("/")[0])


def java_string_hash(text: str) -> int:
    """``String.hashCode`` of the UTF-16 form, as a signed 32-bit integer."""
    code = 0
    encoded = text.encode("utf-16-be")
    for index in range(0, len(encoded), 2):
        code = (31 * code + (encoded[index] << 8 | encoded[index + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code


def offsets_partition_of(group: GroupId, partitions: int = OFFSETS_PARTITIONS) -> int:
    """The partition of ``__consumer_offsets`` that holds a group, whose leader is the group's coordinator.

    Source: Kafka's ``Utils.abs``: the absolute value, with that of the smallest int taken as 0.
    """
    code = java_string_hash(group)
    return (0 if code == -(1 << 31) else abs(code)) % partitions
