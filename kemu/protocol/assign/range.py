"""The range assignor: each topic's partitions are split into contiguous blocks, one per subscriber.

Topics with equally many partitions and the same subscribers are split alike (co-partitioning): the same member gets
partition n of each topic. With racks (KIP-881) block sizes stay the same, but blocks need not be contiguous. First
every member takes partitions with a replica on its rack; co-partitioned topics are assigned together. Then the
remaining partitions are split into blocks.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from kemu.protocol.assign.base import Assignment, Memory, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.assign.search.order import hash_map_order, hash_order, static_first, subscribers_by_topic
from kemu.protocol.assign.search.racks import RackSet, member_racks, partition_racks, use_racks
from kemu.protocol.frozen import frozen
from kemu.protocol.names import MemberId


@frozen
class RangeAssignor:
    """Kafka's ``range``. Each member's list is ordered by topic, in the order of a hash map.

    ``force_racks``: use racks even if every partition has a replica on every rack. ``heeds_racks``: False before 3.5.
    """

    force_racks: bool = False
    heeds_racks: bool = True
    name: str = "range"
    version: int = 0
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def user_data(self, memory: Memory | None) -> bytes | None:
        """None: the range assignor needs no memory."""
        return None

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """Contiguous blocks of each topic, with static members first; see the module docstring."""
        assignment: Assignment = {member: [] for member in sorted(members)}
        subscribers = subscribers_by_topic(topics, members, static_first(members))
        named = chain.from_iterable(members[member].topics for member in hash_order(members))
        listed = hash_map_order(named, computed=not self.heeds_racks)
        cuts = [self._cut(topics, topic, members, subscribers[topic]) for topic in listed if topic in subscribers]
        by_racks = any(cut.look_at_racks for cut in cuts)
        if by_racks:
            for together in _co_partitioned(cuts):
                if len(together) > 1:
                    _take_together(together, assignment)
                elif together[0].look_at_racks:
                    together[0].take_matching(assignment)
        for cut in cuts:
            cut.take_rest(assignment)
        if by_racks:
            for partitions in assignment.values():
                partitions.sort()
        return assignment

    def _cut(
        self, topics: Topics, topic: str, members: Mapping[MemberId, Subscriber], order: tuple[MemberId, ...]
    ) -> "_Cut":
        count = topics.partitions[topic]
        racks = member_racks({member: members[member] for member in order})
        replicas = partition_racks(topics, topic) if racks and topics.replica_racks and self.heeds_racks else ()
        look = bool(replicas) and use_racks(racks.values(), replicas, self.force_racks)
        return _Cut(topic, count, order, racks, replicas, look)


RANGE_BEFORE_3_5 = RangeAssignor(heeds_racks=False)
"""The range assignor before racks (KIP-881: ``RangeAssignor.assignPartitions`` in 3.5)."""


class _Cut:
    """One topic's unfinished assignment: the partitions left, and each subscriber's remaining share."""

    def __init__(
        self,
        topic: str,
        count: int,
        subscribers: tuple[MemberId, ...],
        racks: Mapping[MemberId, str],
        replicas: Sequence[RackSet],
        look_at_racks: bool,
    ) -> None:
        self.topic = topic
        self.count = count
        self.subscribers = subscribers
        self.racks = racks
        self.replicas = replicas
        self.look_at_racks = look_at_racks
        self.left = list(range(count))
        self.taken = dict.fromkeys(subscribers, 0)
        self.extras = count % len(subscribers)

    def room(self, member: MemberId) -> int:
        """The number of further partitions that the member may take: the common share, plus one while extras remain."""
        share = self.count // len(self.subscribers) + (1 if self.extras else 0)
        return max(0, share - self.taken[member])

    def matches(self, member: MemberId, partition: int) -> bool:
        """Whether the member's rack has a replica of the partition. A member without a rack matches every partition."""
        rack = self.racks.get(member)
        return rack is None or (bool(self.replicas) and rack in self.replicas[partition])

    def take(self, member: MemberId, partitions: Sequence[int], assignment: Assignment) -> None:
        assignment[member].extend((self.topic, partition) for partition in partitions)
        self.taken[member] += len(partitions)
        if self.taken[member] > self.count // len(self.subscribers):
            self.extras -= 1

    def take_matching(self, assignment: Assignment) -> None:
        for member in self.subscribers:
            wanted = [partition for partition in self.left if self.matches(member, partition)][: self.room(member)]
            if wanted:
                self.take(member, wanted, assignment)
                assigned = frozenset(wanted)
                self.left = [partition for partition in self.left if partition not in assigned]

    def take_rest(self, assignment: Assignment) -> None:
        start = 0
        for member in self.subscribers:
            end = min(start + self.room(member), len(self.left))
            if end > start:
                self.take(member, self.left[start:end], assignment)
            start = end
        assert start == len(self.left), f"{self.topic}: the shares do not add up"


def _co_partitioned(cuts: Sequence[_Cut]) -> list[list[_Cut]]:
    """Groups of topics that are split alike: the same subscribers in the same order, and equally many partitions."""
    groups: dict[tuple[tuple[MemberId, ...], int], list[_Cut]] = {}
    for cut in cuts:
        groups.setdefault((cut.subscribers, cut.count), []).append(cut)
    return list(groups.values())


def _take_together(cuts: Sequence[_Cut], assignment: Assignment) -> None:
    """Assign partition n of all the topics to the first suitable member.

    A suitable member has room, and its rack has a replica of each of these partitions.
    """
    waiting = list(cuts[0].subscribers)
    given: list[int] = []
    for partition in range(cuts[0].count):
        for member in waiting:
            if cuts[0].room(member) and all(cut.matches(member, partition) for cut in cuts):
                break
        else:
            continue
        given.append(partition)
        for cut in cuts:
            cut.take(member, [partition], assignment)
        if not cuts[0].room(member):
            waiting.remove(member)
    assigned = frozenset(given)
    for cut in cuts:
        cut.left = [partition for partition in cut.left if partition not in assigned]
