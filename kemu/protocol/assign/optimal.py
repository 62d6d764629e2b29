"""The optimal assignor: the least possible balance score of KIP-54 and, among all such assignments, the fewest moves.

KIP-54 calls the sum of size differences of all pairs of members the balance score. The algorithm of KIP-54 finds "an
optimum (and not necessarily the best)" assignment. This module's algorithm finds the best assignment, also for
different subscriptions.

1. *Claims.* Each partition has at most one previous owner: the member whose claim has the highest generation. Two
claims at the same generation are invalid. Owners that left or unsubscribed, and partitions that do not exist, are
dropped.
2. *Balance.* ``levels`` finds the sizes and topics that each member may have in assignments of minimal score. This step
computes no assignment. The docstring of ``levels`` has the proof.
3. *Moves.* Inside a level, ``Dealing`` solves a minimum-cost flow. A kept partition costs 0, any other assignment of a
partition costs 1. So no assignment of minimal score keeps more partitions. The docstring of ``flow`` has the proof.

A *move* is a partition whose previous owner still subscribes to the topic, and loses the partition. A partition without
a previous owner is never a move.

``optimal`` keeps its memory in user data, as ``sticky`` does, because an eager member owns no partition when it joins.
``optimal-cooperative`` reads the members' owned partitions, and withholds each partition that another member must
revoke first. In the follow-up rebalance a withheld partition has no owner, so the follow-up completes the plan without
a move. One follow-up is enough, at the same score and the same number of moves.

Partitions of a topic differ only in their previous owner, so the flow uses counts per topic and member. Members keep
their lowest numbers. Racks are ignored: a rack preference would be a third goal, and would need another flow. Members
are ordered by id and topics by name, so the order of the input does not matter.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from kemu.protocol.assign import cooperative, sticky
from kemu.protocol.assign.base import Assignment, Memory, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.assign.claims import Claim, highest_generation_wins
from kemu.protocol.assign.search.numbering import Numbering, number_partitions
from kemu.protocol.assign.sharing import Belongings
from kemu.protocol.assign.user_data import encode_cooperative, encode_sticky
from kemu.protocol.frozen import frozen
from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition

if TYPE_CHECKING:
    from kemu.protocol.assign.search.flow import Dealing
    from kemu.protocol.assign.search.levels import Level


@frozen
class OptimalAssignor:
    """The assignment of least balance score, then of fewest moves, for members that revoked all partitions before
    joining.

    The user data names the previous owners (the layout of ``sticky``, V1 or V0). The fields ``owned`` and
    ``generation`` replace missing user data.
    """

    name: str = "optimal"
    version: int = 0
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def user_data(self, memory: Memory | None) -> bytes | None:
        """The member's last assignment and its generation, as ``sticky`` writes them."""
        return None if memory is None else encode_sticky(memory.partitions, memory.generation)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """The complete assignment; each member's list is sorted."""
        plan = _plan(topics, members, _remembered(members))
        return {member: sorted(kept + given) for member, kept, given in plan.holdings()}


@frozen
class CooperativeOptimalAssignor:
    """The plan of ``OptimalAssignor`` for members that keep their partitions while they join; it needs two rebalances.

    ``owned`` names the previous owners. The generation is in the subscription, or (before KIP-792) in the user data. In
    a group that uses the eager protocol no member owns partitions.
    """

    name: str = "optimal-cooperative"
    version: int = 0
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def user_data(self, memory: Memory | None) -> bytes | None:
        """The generation of the member's last assignment, as ``cooperative-sticky`` writes it."""
        return encode_cooperative(NO_GENERATION if memory is None else memory.generation)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """The plan, without each partition that is new to its member and claimed by another member; each list is
        sorted.

        Claims of all generations are relevant here: a member must revoke a partition even if its claim is wrong.
        """
        claimant: dict[TopicPartition, MemberId] = {}
        disputed: dict[TopicPartition, None] = {}
        for member in sorted(members):
            for partition in members[member].owned:
                if claimant.setdefault(partition, member) != member:
                    disputed[partition] = None
        result: Assignment = {}
        for member, kept, given in _plan(topics, members, _still_owned(members)).holdings():
            ready = [one for one in given if one not in disputed and claimant.get(one, member) == member]
            result[member] = sorted(kept + ready)
        return result


OPTIMAL = OptimalAssignor()
OPTIMAL_COOPERATIVE = CooperativeOptimalAssignor()


def optimal_moves_bound(topics: Topics, members: Mapping[MemberId, Subscriber]) -> int:
    """The fewest moves of any assignment with the least balance score, for the claims that ``optimal`` reads.

    The figure is a lower bound for assignments of the least score; a less balanced assignment may need fewer moves.
    """
    return _plan(topics, members, _remembered(members)).moves


def _remembered(members: Mapping[MemberId, Subscriber]) -> list[Belongings]:
    """The members' partitions before the members joined, by id."""
    by_id = [members[member] for member in sorted(members)]
    return [sticky.belongings(one) if one.user_data is not None else (one.owned, one.generation) for one in by_id]


def _still_owned(members: Mapping[MemberId, Subscriber]) -> list[Belongings]:
    """The members' partitions while the members join, by id."""
    return [cooperative.belongings(members[member]) for member in sorted(members)]


@frozen
class _Plan:
    """Per topic and member the number of partitions to keep and to add, and the numbers to choose from.

    ``owned``: per topic, member -> its owned numbers, ascending. ``kept``, ``given``: per topic, member -> count.
    """

    names: tuple[str, ...]
    amounts: tuple[int, ...]
    members: tuple[MemberId, ...]
    owned: tuple[Mapping[int, Sequence[int]], ...]
    kept: tuple[Mapping[int, int], ...]
    given: tuple[Mapping[int, int], ...]

    @property
    def moves(self) -> int:
        """The number of partitions that their previous owner loses."""
        before = sum(len(numbers) for owners in self.owned for numbers in owners.values())
        return before - sum(sum(counts.values()) for counts in self.kept)

    def holdings(self) -> Iterator[tuple[MemberId, list[TopicPartition], list[TopicPartition]]]:
        """Per member its kept partitions and its new partitions.

        Members keep their lowest numbers; the other numbers are assigned in order of member ids.
        """
        kept: list[list[TopicPartition]] = [[] for _ in self.members]
        given: list[list[TopicPartition]] = [[] for _ in self.members]
        for topic, name in enumerate(self.names):
            is_free = [True] * self.amounts[topic]
            for member, count in self.kept[topic].items():
                for number in self.owned[topic][member][:count]:
                    is_free[number] = False
                    kept[member].append((name, number))
            rest = [(name, number) for number, free in enumerate(is_free) if free]
            start = 0
            for member, count in sorted(self.given[topic].items()):
                given[member] += rest[start : start + count]
                start += count
            assert start == len(rest), f"{name}: {len(rest)} partitions to assign, {start} assigned"
        return zip(self.members, kept, given, strict=True)


def _plan(topics: Topics, members: Mapping[MemberId, Subscriber], claims: Sequence[Belongings]) -> _Plan:
    from kemu.protocol.assign.search.flow import bits  # late: most runs do not need it
    from kemu.protocol.assign.search.levels import levels

    order = tuple(sorted(members))
    alike = _alike(order, members)
    numbering = number_partitions(topics, (topic for first in alike for topic in members[order[first]].topics))
    names = tuple(numbering.topics)
    amounts = tuple(numbering.sizes[name] for name in names)
    subscribers = _subscribers(order, members, alike, names)
    owned = _owned(claims, numbering, subscribers)
    kept: list[dict[int, int]] = [{} for _ in names]
    given: list[dict[int, int]] = [{} for _ in names]
    for level in levels(amounts, subscribers, alike):
        dealing = _dealing(level, amounts, subscribers, owned, len(order))
        dealing.settle()
        for member in bits(level.members):
            for place, count in dealing.kept[member].items():
                kept[level.topics[place]][member] = count
            for place, count in dealing.given[member].items():
                given[level.topics[place]][member] = count
    return _Plan(names, amounts, order, tuple(owned), tuple(kept), tuple(given))


def _dealing(
    level: "Level",
    amounts: Sequence[int],
    subscribers: Sequence[int],
    owned: Sequence[Mapping[int, Sequence[int]]],
    width: int,
) -> "Dealing":
    """The flow of one level. A claim of a member outside the level is a move in every assignment of minimal score."""
    from kemu.protocol.assign.search.flow import Dealing  # late: most runs do not need it

    members = level.members
    total = sum(amounts[topic] for topic in level.topics)
    return Dealing(
        width,
        members,
        [amounts[topic] for topic in level.topics],
        [subscribers[topic] & members for topic in level.topics],
        [
            {member: len(numbers) for member, numbers in owned[topic].items() if members >> member & 1}
            for topic in level.topics
        ],
        [level.floor] * width,
        extras=total - level.floor * members.bit_count(),
    )


def _alike(order: Sequence[MemberId], members: Mapping[MemberId, Subscriber]) -> dict[int, int]:
    """The first member of each subscription -> the bit set of all members with the same subscription."""
    first_of: dict[frozenset[str], int] = {}
    alike: dict[int, int] = {}
    for place, member in enumerate(order):
        first = first_of.setdefault(frozenset(members[member].topics), place)
        alike[first] = alike.get(first, 0) | 1 << place
    return alike


def _subscribers(
    order: Sequence[MemberId],
    members: Mapping[MemberId, Subscriber],
    alike: Mapping[int, int],
    names: Sequence[str],
) -> list[int]:
    """Per topic the bit set of its subscribers."""
    places = {name: place for place, name in enumerate(names)}
    subscribers = [0] * len(names)
    for first, mask in alike.items():
        for topic in members[order[first]].topics:
            if topic in places:
                subscribers[places[topic]] |= mask
    return subscribers


def _owned(
    claims: Sequence[Belongings], numbering: Numbering, subscribers: Sequence[int]
) -> list[dict[int, list[int]]]:
    """Per topic, member -> the topic's partitions that the member owns and may keep, ascending.

    The claim of the highest generation is valid even if its member has unsubscribed since; then the partition has no
    owner.
    """
    claimed = [Claim(numbering.numbers(partitions), max(since, NO_GENERATION)) for partitions, since in claims]
    places = {name: place for place, name in enumerate(numbering.topics)}
    owned: list[dict[int, list[int]]] = [{} for _ in numbering.topics]
    for member, numbers in enumerate(highest_generation_wins(claimed, numbering.total).held):
        held = sorted(numbering.partitions[number] for number in numbers)
        for name, run in groupby(held, key=itemgetter(0)):
            place = places[name]
            if subscribers[place] >> member & 1:
                owned[place][member] = [number for _, number in run]
    return owned
