"""The partitions of a member by topic id, in the orders of Java's hash maps and hash sets.

Kafka's coordinator keeps a share as ``Map<Uuid, Set<Integer>>``. The uniform assignor visits members, topics and
partitions in the order of such collections, so the order decides who gets which partition. A ``Share`` lists topics
and partitions in this order.

Source: Kafka 4.1 ``Assignment.fromRecord``, ``Uuid.hashCode``, ``Uuid.compareTo``; OpenJDK's ``HashMap``, ``HashSet``.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from kemu.protocol.consumer_group.states import TopicId
from kemu.protocol.frozen import frozen
from kemu.protocol.names import MemberId, java_string_hash

K = TypeVar("K")

"""The UUID of a topic as text, or a readable id where ids are not drawn."""
Share: TypeAlias = Mapping[TopicId, tuple[int, ...]]
"""Topic id -> partitions. No topic has no partitions."""

NOTHING: Share = {}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LEAST_TABLE = 16
_FULL_BIN = 8
_TREES_FROM = 64


def table_for(capacity: int) -> int:
    """The size of the table of ``new HashMap(capacity)``."""
    table = 1
    while table < capacity:
        table *= 2
    return table


def table_of_copy(count: int) -> int:
    """The size of the table of ``new HashSet(collection)`` with this number of elements."""
    return table_for(max(count * 4 // 3 + 1, _LEAST_TABLE))


def hash_order(keys: Collection[K], hash_of: Callable[[K], int], table: int = _LEAST_TABLE) -> list[K]:
    """The iteration order of a hash map whose keys were inserted in this order, each once.

    A bin of more than eight keys in a table of at least 64 bins does not become a tree, unlike in Java.

    Args:
        keys: the keys, without duplicates.
        hash_of: ``hashCode`` of a key, as a number of at least 32 bits.
        table: the size of the table before the first insertion, a power of two.
    """
    spread = {key: _spread(hash_of(key)) for key in keys}
    counts: dict[int, int] = {}
    for number, key in enumerate(spread, 1):
        bin_of_key = spread[key] & table - 1
        counts[bin_of_key] = counts.get(bin_of_key, 0) + 1
        overfull = counts[bin_of_key] > _FULL_BIN and table < _TREES_FROM
        for grows in (overfull, number * 4 > table * 3):
            if grows:
                table *= 2
                counts = {}
                for known in list(spread)[:number]:
                    counts[spread[known] & table - 1] = counts.get(spread[known] & table - 1, 0) + 1
    return sorted(spread, key=lambda key: spread[key] & table - 1)


def _spread(code: int) -> int:
    code &= 0xFFFFFFFF
    return code ^ code >> 16


def int_order(numbers: Sequence[int], table: int = _LEAST_TABLE) -> tuple[int, ...]:
    """The iteration order of a ``HashSet<Integer>`` whose numbers, not negative, were inserted in this order."""
    while len(numbers) * 4 > table * 3:
        table *= 2
    return tuple(sorted(numbers, key=lambda number: _spread(number) & table - 1))


def topic_hash(topic: TopicId) -> int:
    """``Uuid.hashCode``; for a readable id ``String.hashCode``."""
    if not _UUID.fullmatch(topic):
        return java_string_hash(topic)
    whole = int(topic.replace("-", ""), 16)
    both = whole >> 64 ^ whole & (1 << 64) - 1
    return both >> 32 ^ both


def topic_order(topic: TopicId) -> tuple[int, int, str]:
    """A key that sorts topic ids as ``Uuid.compareTo``; readable ids are sorted by their text."""
    if not _UUID.fullmatch(topic):
        return 0, 0, topic
    whole = int(topic.replace("-", ""), 16)
    return _signed(whole >> 64), _signed(whole & (1 << 64) - 1), ""


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


class TimelineTable:
    """The order of the members in the coordinator's ``TimelineHashMap``.

    Source: ``BaseHashTable``, ``SnapshottableHashTable.CurrentIterator`` of Kafka 4.0: multiplicative hashing, a table
    that never shrinks. The iterator visits a slot from its newest key to its oldest.
    """

    def __init__(self) -> None:
        self._bits = 1

    def put(self, others: int) -> None:
        """Add a member to a table with this number of other members."""
        while (others + 1) * 3 > 4 << self._bits:
            self._bits += 1

    def ordered(self, members: Iterable[MemberId]) -> list[MemberId]:
        """The members, which are given in order of insertion, in the order of the table."""
        newest_first = [*members][::-1]
        return sorted(newest_first, key=self._slot)

    def _slot(self, member_id: MemberId) -> int:
        code = java_string_hash(member_id)
        return (code * -7046029254386353131 & (1 << 64) - 1) >> 64 - self._bits


def member_order(members: Collection[MemberId]) -> list[MemberId]:
    """The order of a ``HashMap`` by member id whose keys were inserted in this order."""
    return hash_order(members, java_string_hash)


def replayed(share: Share) -> Share:
    """A share as the coordinator reads it from a record that lists topics and partitions in this order."""
    return {topic: int_order(share[topic], table_of_copy(len(share[topic]))) for topic in hash_order(share, topic_hash)}


def same(one: Share, other: Share) -> bool:
    """Whether two shares have the same partitions, in any order."""
    return one.keys() == other.keys() and all(set(one[topic]) == set(other[topic]) for topic in one)


class ChangedShare:
    """A copy of a share that an assignor changes.

    Source: ``AssignorHelpers.deepCopyAssignment``; ``HashMap.computeIfAbsent``, which grows a full table before it
    inserts a key, and puts the key in front of its bin.
    """

    def __init__(self, share: Share) -> None:
        self._table = table_for(len(share))
        if len(share) * 4 > self._table * 3:
            self._table *= 2
        self._tables = {topic: table_of_copy(len(numbers)) for topic, numbers in share.items()}
        self._kept = {topic: list(numbers) for topic, numbers in share.items()}
        self._added: list[TopicId] = []

    def remove(self, topic: TopicId, number: int) -> None:
        """Remove a partition that the share has."""
        numbers = self._kept[topic]
        numbers.remove(number)
        if not numbers:
            self.remove_topic(topic)

    def remove_topic(self, topic: TopicId) -> None:
        """Remove all partitions of a topic."""
        del self._kept[topic], self._tables[topic]
        if topic in self._added:
            self._added.remove(topic)

    def add(self, topic: TopicId, number: int, table: int = _LEAST_TABLE) -> None:
        """Add a partition. ``table``: the size of the table of a set for a new topic."""
        if topic not in self._kept:
            if len(self._kept) > self._table * 3 // 4:
                self._table *= 2
            self._kept[topic], self._tables[topic] = [], table
            self._added.append(topic)
        numbers = self._kept[topic]
        numbers.append(number)
        while len(numbers) * 4 > self._tables[topic] * 3:
            self._tables[topic] *= 2

    def share(self) -> Share:
        """The changed share, in the order of its collections."""
        topics = computed_order(self._kept, self._added, self._table)
        return {topic: int_order(self._kept[topic], self._tables[topic]) for topic in topics}


def computed_order(topics: Iterable[TopicId], computed: Sequence[TopicId], table: int = _LEAST_TABLE) -> list[TopicId]:
    """The order of a ``HashMap`` into which ``computeIfAbsent`` inserted some of the topics after the others: each in
    front of its bin. The others were inserted in this order.
    """
    inserted = [*reversed(computed), *(topic for topic in topics if topic not in computed)]
    while len(inserted) * 4 > table * 3:
        table *= 2
    return sorted(inserted, key=lambda topic: _spread(topic_hash(topic)) & table - 1)


def partitions_of(share: Share) -> Iterable[tuple[TopicId, int]]:
    """All partitions of a share, in its order."""
    return ((topic, number) for topic, numbers in share.items() for number in numbers)


@frozen
class TargetMember:
    """A member as an assignor sees it.

    ``topics``: the ids of its subscribed topics that exist, in the order of its set of names. ``names``: the number of
    its subscribed names. ``target``: its former target.
    """

    topics: tuple[TopicId, ...]
    names: int
    target: Share = NOTHING
    instance_id: str | None = None


Targets: TypeAlias = dict[MemberId, Share]
"""The target of each member. A member without an entry has no partitions."""
