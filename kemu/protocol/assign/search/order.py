"""Orders in which assignors visit members and partitions."""

from collections.abc import Iterable, Mapping

from kemu.protocol.assign.base import Subscriber, Topics
from kemu.protocol.names import MemberId, TopicPartition, java_string_hash

_SMALLEST_TABLE = 16


def static_first(members: Mapping[MemberId, Subscriber]) -> list[MemberId]:
    """Static members by instance id, then dynamic members by member id (KIP-345).

    A static member has a new member id after each restart; with this order its share does not change.
    """
    static = sorted((one.instance_id, member) for member, one in members.items() if one.instance_id is not None)
    dynamic = sorted(member for member, one in members.items() if one.instance_id is None)
    return [member for _, member in static] + dynamic


def hash_order(members: Iterable[MemberId]) -> list[MemberId]:
    """The order in which a ``java.util.HashMap`` lists its keys; keys of one bucket are ordered by id.

    Kafka's sticky assignors read the members' claims in this order, and earlier members may keep one more partition.
    Ids are mostly random, so the order is arbitrary. But the same members keep the same number of partitions as in
    Kafka.
    """
    members = list(members)
    buckets = _buckets(len(members))
    return sorted(members, key=lambda member: (_bucket(member, buckets), member))


def _buckets(keys: int) -> int:
    buckets = _SMALLEST_TABLE
    while keys * 4 > buckets * 3:
        buckets *= 2
    return buckets


def _bucket(key: str, buckets: int) -> int:
    code = java_string_hash(key) & 0xFFFFFFFF
    return (code ^ code >> 16) & buckets - 1


def hash_map_order(inserted: Iterable[str], *, computed: bool = False) -> list[str]:
    """Like ``hash_order``, but the keys of one bucket are in order of insertion.

    ``computed``: ``computeIfAbsent`` inserts the keys; it puts a new key in front of its bucket.
    """
    known = list(dict.fromkeys(inserted))
    place = {key: -number if computed else number for number, key in enumerate(known)}
    buckets = _buckets(len(known))
    return sorted(known, key=lambda key: (_bucket(key, buckets), place[key]))


def subscriptions(members: Mapping[MemberId, Subscriber], order: Iterable[MemberId]) -> list[tuple[str, ...]]:
    """Per member, in the given order, its topics by name, without duplicates; equal subscriptions are equal tuples."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    found = []
    for member in order:
        told = members[member].topics
        if told not in known:
            known[told] = tuple(sorted(dict.fromkeys(told)))
        found.append(known[told])
    return found


def known_topics(topics: Topics, subscribed: Iterable[str]) -> list[str]:
    """The subscribed topics that have partitions, by name, without duplicates."""
    return sorted(topic for topic in dict.fromkeys(subscribed) if topics.partitions.get(topic, 0) > 0)


def partitions_of(topics: Topics, names: Iterable[str]) -> list[TopicPartition]:
    """All partitions of the named topics: topics in the given order, and the partitions of each topic by number."""
    return [(topic, number) for topic in names for number in range(topics.partitions[topic])]


def subscribers_by_topic(
    topics: Topics, members: Mapping[MemberId, Subscriber], order: Iterable[MemberId]
) -> dict[str, tuple[MemberId, ...]]:
    """Known topic, by name -> its subscribers in the given order."""
    found: dict[str, list[MemberId]] = {}
    for member in order:
        for topic in dict.fromkeys(members[member].topics):
            found.setdefault(topic, []).append(member)
    return {topic: tuple(found[topic]) for topic in known_topics(topics, found)}
