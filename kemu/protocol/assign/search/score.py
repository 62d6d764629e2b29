"""Quality of an assignment: KIP-54's balance score, its definition of balanced, and the number of moved partitions."""

from collections.abc import Iterable, Mapping, Sequence

from kemu.protocol.assign.base import Subscriber
from kemu.protocol.names import MemberId, TopicPartition

Given = Mapping[MemberId, Sequence[TopicPartition]]
"""Member -> its partitions: an assignment, or the partitions owned before."""


def balance_score(sizes: Iterable[int]) -> int:
    """The sum of the differences in size over all pairs of members; 0 when all sizes are equal.

    Source: KIP-54, "overall balance score".
    """
    ordered = sorted(sizes)
    return sum(size * (2 * place - len(ordered) + 1) for place, size in enumerate(ordered))


def spread(assignment: Given) -> int:
    """The largest size minus the smallest."""
    sizes = [len(partitions) for partitions in assignment.values()]
    return max(sizes) - min(sizes) if sizes else 0


def is_balanced(members: Mapping[MemberId, Subscriber], assignment: Given) -> bool:
    """Whether sizes differ by at most one, or no move of a partition to another subscriber lowers the balance score.

    Source: KIP-54, "We call a consumer partition assignment balanced when". A move lowers the score exactly when the
    giver has at least two partitions more than the taker.
    """
    if spread(assignment) <= 1:
        return True
    lightest: dict[str, int] = {}
    for member, subscriber in members.items():
        for topic in subscriber.topics:
            size = len(assignment[member])
            lightest[topic] = min(size, lightest.get(topic, size))
    return all(
        len(partitions) <= lightest.get(topic, len(partitions)) + 1
        for partitions in assignment.values()
        for topic in dict.fromkeys(topic for topic, _ in partitions)
    )


def moved(owned: Given, assignment: Given) -> int:
    """The number of partitions whose new member did not own them, while another member of the group did.

    ``owned``: member -> its claims before the rebalance, rightful or not. A member need not restart a partition that it
    claimed before. New partitions and partitions of departed members are not counted.
    """
    claimed = frozenset(
        partition for member, partitions in owned.items() if member in assignment for partition in partitions
    )
    count = 0
    for member, partitions in assignment.items():
        before = frozenset(owned.get(member, ()))
        count += sum(1 for partition in partitions if partition in claimed and partition not in before)
    return count
