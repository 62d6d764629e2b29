"""Partitions as small integers, so that big groups can be assigned by counting and slicing.

Numbers are in the order of (topic, partition): comparing numbers compares partitions. Only this package uses these
numbers.
"""

from collections.abc import Iterable
from itertools import repeat

from kemu.protocol.assign.base import Topics
from kemu.protocol.assign.search.order import known_topics
from kemu.protocol.frozen import frozen
from kemu.protocol.names import TopicPartition


@frozen
class Numbering:
    """The partitions of some topics, numbered from 0.

    ``first``: topic -> the number of its partition 0. ``sizes``: topic -> its number of partitions. ``partitions``:
    number -> partition.
    """

    topics: list[str]
    first: dict[str, int]
    sizes: dict[str, int]
    partitions: list[TopicPartition]

    @property
    def total(self) -> int:
        """The number of partitions."""
        return len(self.partitions)

    def numbers(self, partitions: Iterable[TopicPartition]) -> list[int]:
        """The numbers of the partitions that exist, in the given order.

        Topics without metadata are omitted. So are partitions beyond the end of a topic that was recreated with fewer
        partitions. (Kafka checks only the topic, so Kafka fails or assigns a partition that does not exist.)
        """
        first, sizes = self.first, self.sizes
        return [
            first[topic] + partition
            for topic, partition in partitions
            if topic in first and 0 <= partition < sizes[topic]
        ]

    def of_topic(self, topic: str) -> range:
        """The numbers of one topic's partitions."""
        first = self.first[topic]
        return range(first, first + self.sizes[topic])


def number_partitions(topics: Topics, subscribed: Iterable[str]) -> Numbering:
    """Number the partitions of the subscribed topics that exist."""
    names = known_topics(topics, subscribed)
    sizes = {topic: topics.partitions[topic] for topic in names}
    first: dict[str, int] = {}
    partitions: list[TopicPartition] = []
    for topic in names:
        first[topic] = len(partitions)
        partitions.extend(zip(repeat(topic), range(sizes[topic])))
    return Numbering(names, first, sizes, partitions)
