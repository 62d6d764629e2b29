"""The consumer protocol on page version 99 of KIP-429, whose layout differs from the shipped layout.

The page puts its new fields in the middle, so that the assignor's bytes stay at the end.

Integers are big-endian, and every version begins with its own number as int16. The layouts are::

    Subscription V0  topics: array<string>  info: nullable bytes
                 V1  topics: array<string>  assigned: nullable array<(topic, array<int32>)>  info: nullable bytes
    Assignment   V0  assigned: array<(topic, array<int32>)>  info: nullable bytes
                 V1  assigned  revoked: nullable array<(topic, array<int32>)>  error: int16  info: nullable bytes

V0 is Kafka's layout before the KIP; a reader of V0 cannot read V1. The shipped layout instead appends ``owned`` after
the info bytes, where every old reader ignores it (``protocol.messages.member``).

Source: KIP-429 page version 99, "Consumer Protocol". The page's grammar of Assignment omits ErrorCode, but the page's
list of fields has it; this module includes the field. The page does not number its errors; ``AssignmentErrorCode``
does.
"""

from enum import IntEnum

from kemu.protocol.frozen import frozen
from kemu.protocol.messages.member import Subscription, encode_subscription
from kemu.protocol.names import TopicPartition
from kemu.protocol.wire.binary import Reader, Writer
from kemu.protocol.wire.codec import Malformed, UnsupportedVersion

V0, V1 = 0, 1


class AssignmentErrorCode(IntEnum):
    """Errors that a leader may report to a V1 member with its partitions. Any other number is fatal to the member."""

    NONE = 0
    INCOMPATIBLE_MEMBERS = 1
    """Members of V0 and V1 are in the group: all members keep their partitions."""


@frozen
class PageAssignment:
    """The partitions that a leader assigns to one member and revokes from it. V0 has no ``revoked`` and no
    ``error``.
    """

    assigned: tuple[TopicPartition, ...] = ()
    revoked: tuple[TopicPartition, ...] | None = None
    error: int = AssignmentErrorCode.NONE
    info: bytes | None = None


def encode_page_subscription(subscription: Subscription, version: int) -> bytes:
    """The bytes of a subscription on KIP-429's page; topics and partitions are sorted. V0 omits ``owned``.

    Raises:
        UnsupportedVersion: the version is neither V0 nor V1.
        CodecError: a topic or number that cannot be encoded.
    """
    if version == V0:
        return encode_subscription(subscription, V0)
    out = _begin("Subscription (KIP-429 v99)", version)
    out.count(len(subscription.topics))
    for topic in sorted(subscription.topics):
        out.string(topic)
    out.topic_partitions(sorted(subscription.owned))
    out.blob(subscription.user_data)
    return out.data()


def decode_page_subscription(data: bytes, *, at_most: int = V1) -> tuple[int, Subscription]:
    """Read a subscription: (version, subscription).

    Args:
        data: the bytes.
        at_most: the highest version that this reader knows; V0: a consumer before the KIP ("old byte-code").

    Raises:
        UnsupportedVersion: this reader does not know the version. The page: "an old-versioned consumer would not be
            able to deserialize a newer-versioned protocol data at all".
        Malformed: bytes that end inside a field.
    """
    source = Reader(data, "Subscription (KIP-429 v99)")
    version = _version(source, at_most)
    topics = tuple([source.string("topics") for _ in range(source.count("topics"))])
    owned = _nullable_partitions(source, "assigned") or () if version >= V1 else ()
    return version, Subscription(topics, source.nullable_blob("info"), owned)


def encode_page_assignment(assignment: PageAssignment, version: int) -> bytes:
    """The bytes of an assignment on KIP-429's page; topics are in order of first appearance.

    V0 omits the new fields.

    Raises:
        UnsupportedVersion: the version is neither V0 nor V1.
        CodecError: a topic or number that cannot be encoded.
    """
    out = _begin("Assignment (KIP-429 v99)", version)
    out.topic_partitions(assignment.assigned)
    if version >= V1:
        if assignment.revoked is None:
            out.int32(-1)
        else:
            out.topic_partitions(assignment.revoked)
        out.int16(assignment.error)
    out.blob(assignment.info)
    return out.data()


def decode_page_assignment(data: bytes, *, at_most: int = V1) -> PageAssignment:
    """Read an assignment of either version.

    Raises:
        UnsupportedVersion: this reader does not know the version.
        Malformed: bytes that end inside a field.
    """
    source = Reader(data, "Assignment (KIP-429 v99)")
    version = _version(source, at_most)
    assigned = source.topic_partitions("assigned")
    if version == V0:
        return PageAssignment(assigned, info=source.nullable_blob("info"))
    revoked = _nullable_partitions(source, "revoked")
    error = source.int16("error")
    return PageAssignment(assigned, revoked, error, source.nullable_blob("info"))


def _begin(schema: str, version: int) -> Writer:
    if version not in (V0, V1):
        raise UnsupportedVersion(f"{schema} V{version}: the page has V0 and V1")
    out = Writer(f"{schema} V{version}")
    out.int16(version)
    return out


def _version(source: Reader, at_most: int) -> int:
    version = source.int16("version")
    if version < 0:
        raise Malformed(f"{source.what}.version: negative, {version}")
    if version > at_most:
        raise UnsupportedVersion(f"SCHEMA_ERROR: {source.what} V{version}, but this reader knows V{at_most} only")
    return version


def _nullable_partitions(source: Reader, field: str) -> tuple[TopicPartition, ...] | None:
    """An array, or None for a null array; ``Reader.topic_partitions`` refuses nulls."""
    if source.data[source.at : source.at + 4] == b"\xff\xff\xff\xff":
        source.at += 4
        return None
    return source.topic_partitions(field)
