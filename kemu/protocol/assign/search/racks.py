"""Racks: whether an assignor should use racks, and whether a member and a partition share a rack (KIP-881)."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from kemu.protocol.assign.base import Subscriber, Topics
from kemu.protocol.frozen import frozen
from kemu.protocol.names import MemberId

RackSet = frozenset[str]
"""The racks that hold a replica of one partition; empty when unknown."""

NO_RACKS: RackSet = frozenset()


@frozen
class Racks:
    """The racks of a group. ``members``: per member its rack. ``partitions``: per number the racks of its replicas."""

    members: Sequence[str | None]
    partitions: Sequence[RackSet]

    def near(self, member: int, number: int) -> bool:
        """Whether the member has no rack, or its rack has a replica of the partition."""
        rack = self.members[member]
        return rack is None or rack in self.partitions[number]

    def misses(self, results: Sequence[Sequence[int]]) -> int:
        """The number of partitions assigned to a member on another rack."""
        return sum(not self.near(member, number) for member, numbers in enumerate(results) for number in numbers)


def member_racks(members: Mapping[MemberId, Subscriber]) -> dict[MemberId, str]:
    """Member -> its rack; members without a rack (absent or empty) are omitted."""
    return {member: subscriber.rack for member, subscriber in members.items() if subscriber.rack}


def partition_racks(topics: Topics, topic: str) -> tuple[RackSet, ...]:
    """Per partition of ``topic`` the racks of its replicas; the empty set for a partition without metadata."""
    known = (topics.replica_racks or {}).get(topic, ())
    count = topics.partitions.get(topic, 0)
    named = tuple(frozenset(rack for rack in racks if rack) for racks in known[:count])
    return named + (NO_RACKS,) * (count - len(named))


def use_racks(members: Iterable[str], partitions: Collection[RackSet], forced: bool = False) -> bool:
    """Whether racks can change the assignment.

    Args:
        members: the racks of the members that have a rack.
        partitions: the racks of each partition.
        forced: use racks even if every partition has a replica on every rack (as Kafka's tests do).

    Source: Kafka's AbstractPartitionAssignor. Racks are used if some member shares a rack with some partition, and not
    every partition has a replica on every rack.
    """
    everywhere: RackSet = NO_RACKS.union(*partitions)
    if everywhere.isdisjoint(members):
        return False
    return forced or any(racks != everywhere for racks in partitions)
