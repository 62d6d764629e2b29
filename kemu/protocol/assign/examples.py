"""Example assignors of users: small assignors for one kind of group, based on the members' claims.

``small_sticky`` is a sticky assignment in a dozen lines. ``StickyByClaims`` is a cooperative assignor that uses
``small_sticky``. Scenarios name the class ``protocol.assign.examples:StickyByClaims``. Of several claims to a
partition, the assignor uses the claim of the highest generation. Members send their generation since KIP-792. Older
members send none, so all their claims have the same generation, and the assignor uses the last of them.
"""

from collections.abc import Mapping
from typing import ClassVar

from kemu.protocol.assign.base import Assignment, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.names import MemberId, TopicPartition


def small_sticky(
    partitions: tuple[TopicPartition, ...], owned: Mapping[MemberId, tuple[TopicPartition, ...]]
) -> Assignment:
    """Members keep their lowest partitions up to the quota; the largest owners are first. The smallest members get the
    other partitions.

    Args:
        partitions: all partitions, in order.
        owned: member -> the partitions to keep if possible; no partition has two members.
    """
    share, extra = divmod(len(partitions), len(owned))
    assignment: Assignment = {}
    for member in sorted(owned, key=lambda member: (-len(owned[member]), member)):
        mine = sorted(at for at in owned[member] if at in partitions)
        more = extra > 0 and len(mine) > share
        extra -= more
        assignment[member] = mine[: share + more]
    kept = {partition for mine in assignment.values() for partition in mine}
    for partition in partitions:
        if partition not in kept:
            least = min(assignment, key=lambda member: (len(assignment[member]), member))
            assignment[least].append(partition)
    return {member: sorted(mine) for member, mine in assignment.items()}


class StickyByClaims:
    """A user's cooperative assignor; all members subscribe to the same topics.

    Of two claims to a partition, the claim of the higher generation is valid; with equal generations the later member's
    claim is valid. Moving partitions are withheld for one rebalance, as in every cooperative assignor.
    """

    name = "sticky-by-claims"
    version = 0
    protocols: ClassVar = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """The result of ``small_sticky``, without the partitions that another member must still revoke."""
        wanted = sorted({topic for one in members.values() for topic in one.topics})
        everything = tuple((topic, number) for topic in wanted for number in range(topics.partitions.get(topic, 0)))
        claims: dict[TopicPartition, tuple[int, MemberId]] = {}
        for member, one in sorted(members.items()):
            for partition in one.owned:
                claims[partition] = max(claims.get(partition, (one.generation, member)), (one.generation, member))
        owned = {member: tuple(at for at in one.owned if claims[at][1] == member) for member, one in members.items()}
        target = small_sticky(everything, owned)
        return {
            member: [at for at in mine if at not in claims or claims[at][1] == member]
            for member, mine in target.items()
        }
