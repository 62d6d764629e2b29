"""Kafka's embedded consumer protocol, byte for byte: a member's subscription and its assignment by the leader.

The coordinator treats both as opaque bytes (JoinGroup metadata, SyncGroup assignment). Integers are big-endian. Every
version begins with its own number as int16; a later version only adds fields at the end.

The layouts are::

    Subscription  topics: array<string>  user_data: nullable bytes     v1+ owned: array<(topic, array<int32>)>
                  v2+ generation: int32  v3+ rack: nullable string
    Assignment    partitions: array<(topic, array<int32>)>  user_data: nullable bytes          (the same in v0-v3)

Source: ConsumerProtocolSubscription and ConsumerProtocolAssignment, v0 to v3 (KIP-429, KIP-792, KIP-881).
"""

from functools import lru_cache

from kemu.protocol.frozen import frozen
from kemu.protocol.names import NO_GENERATION, TopicPartition
from kemu.protocol.wire.binary import Reader, Writer
from kemu.protocol.wire.codec import Malformed, UnsupportedVersion

HIGHEST_VERSION = 3
"""The version that Kafka's writer uses since 3.4. Newer versions are read as this version."""

_OWNED_SINCE, _GENERATION_SINCE, _RACK_SINCE = 1, 2, 3


@frozen
class Subscription:
    """A member's topics, and its partitions at the time of the join.

    ``owned`` and ``generation``: its partitions, and the generation of their assignment (-1: no assignment yet).
    ``user_data`` contains the bytes of the assignor; ``rack`` is None when unknown.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None


@frozen
class Assignment:
    """The partitions that the leader assigns to one member."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def version_of(data: bytes) -> int:
    """The version in the bytes of a subscription or assignment; it may be above ``HIGHEST_VERSION``.

    Raises:
        Malformed: fewer than two bytes, or a negative version.
    """
    return _read_version(Reader(data, "ConsumerProtocol"))


def encode_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    """The bytes of a subscription; topics and owned partitions are written sorted, as Kafka's writer does.

    Fields that the version lacks are omitted (all later fields are ignorable in Kafka's schema).

    Raises:
        UnsupportedVersion: the version is outside v0 to v3.
        CodecError: a topic or number that cannot be encoded.
    """
    out = _begin("ConsumerProtocolSubscription", version)
    out.count(len(subscription.topics))
    for topic in sorted(subscription.topics):
        out.string(topic)
    out.blob(subscription.user_data)
    if version >= _OWNED_SINCE:
        out.topic_partitions(sorted(subscription.owned))
    if version >= _GENERATION_SINCE:
        out.int32(subscription.generation)
    if version >= _RACK_SINCE:
        out.string(subscription.rack)
    return out.data()


@lru_cache(maxsize=4_096)  # members with the same topics send the same bytes, and a leader and the checkers read them
def decode_subscription(data: bytes, *, at_most: int = HIGHEST_VERSION) -> Subscription:
    """Read a subscription of any version, without fields newer than version ``at_most``.

    A version above 3 is read as version 3, and the bytes that follow are ignored. A negative generation is read as -1,
    an empty rack as None, as in Kafka. ``version_of`` returns the version in the bytes.

    Raises:
        Malformed: a negative version, bytes that end inside a field (the error names it), or a null where none is
            allowed.
    """
    source = Reader(data, "ConsumerProtocolSubscription")
    version = min(_read_version(source), at_most)
    topics = tuple([source.string("topics") for _ in range(source.count("topics"))])
    user_data = source.nullable_blob("user_data")
    owned = source.topic_partitions("owned") if version >= _OWNED_SINCE else ()
    generation = source.int32("generation") if version >= _GENERATION_SINCE else NO_GENERATION
    rack = source.nullable_string("rack") if version >= _RACK_SINCE else None
    return Subscription(topics, user_data, owned, max(generation, NO_GENERATION), rack or None)


def subscribed_topics(data: bytes) -> tuple[str, ...]:
    """The topics of a subscription, for the coordinator. Any version is read as version 0.

    Raises:
        Malformed: the bytes are no subscription of version 0 (``decode_subscription``).
    """
    return decode_subscription(data, at_most=0).topics


def encode_assignment(assignment: Assignment, version: int = HIGHEST_VERSION) -> bytes:
    """The bytes of an assignment; topics are in order of first appearance, partitions in the given order.

    Raises:
        UnsupportedVersion: the version is outside v0 to v3.
        CodecError: a topic or number that cannot be encoded.
    """
    out = _begin("ConsumerProtocolAssignment", version)
    out.topic_partitions(assignment.partitions)
    out.blob(assignment.user_data)
    return out.data()


@lru_cache(maxsize=256)
def decode_assignment(data: bytes) -> Assignment:
    """Read an assignment of any version; partitions are in the order of the bytes.

    Empty bytes are a missing assignment (an assignment without partitions has ten bytes). Bytes after the known fields
    are ignored.

    Raises:
        Malformed: a negative version, or bytes that end inside a field (the error names it).
    """
    source = Reader(data, "ConsumerProtocolAssignment")
    _read_version(source)
    partitions = source.topic_partitions("partitions")
    return Assignment(partitions, source.nullable_blob("user_data"))


def _begin(schema: str, version: int) -> Writer:
    if not 0 <= version <= HIGHEST_VERSION:
        raise UnsupportedVersion(f"{schema} v{version}: supported are v0 to v{HIGHEST_VERSION}")
    out = Writer(f"{schema} v{version}")
    out.int16(version)
    return out


def _read_version(source: Reader) -> int:
    version = source.int16("version")
    if version < 0:
        raise Malformed(f"{source.what}.version: negative, {version}")
    return version
