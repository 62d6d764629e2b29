"""The optimal assignor: balance provably minimal in KIP-54's own score and, among all such assignments, fewest moves.

KIP-54 calls the sum of size differences of all pairs of members the balance score, and says of its own algorithm that
it finds "an optimum (and not necessarily the best)" assignment. This one finds the best, for mixed subscriptions too.

1. *Claims.* Each partition has at most one previous owner: the claim of the highest generation; two claims at the same
   generation cancel each other. Owners that left or unsubscribed, and partitions that do not exist, are forgotten.
2. *Balance.* ``levels`` finds, without computing any one assignment, which sizes and which topics each member may have
   in the assignments of minimal score: all of them, and no others. Its head has the proof.
3. *Moves.* Inside a level, ``Dealing`` solves a minimum-cost flow in which keeping a partition costs nothing and
   handing one out costs 1. So no assignment of minimal score keeps more. Its head has the proof.

A *move* is a partition whose previous owner is still a subscriber and does not keep it. One without a previous owner
is no move, wherever it goes.

Partitions of a topic differ only in their previous owner, so the flow works with counts per topic and member; which
ones of several are kept is free: the lowest numbers. Racks are ignored: a rack preference would be a third goal, and
a different flow. Members are taken by id, topics by name, so the order of the input does not matter.
"""

from collections.abc import Mapping, Sequence

from attrs import frozen

from protocol.assign.base import Assignment, Memory, RebalanceProtocol, Subscriber, Topics
from protocol.assign.flow import Dealing, bits
from protocol.assign.levels import levels
from protocol.assign.order import known_topics
from protocol.names import MemberId, TopicPartition


def optimal_moves_bound(topics: Topics, members: Mapping[MemberId, Subscriber]) -> int:
    """The fewest moves of any assignment whose balance score is minimal.

    A lower bound for assignors that reach the minimal score; one that stays less balanced may move less.
    """
    return _plan(topics, members, _owners(topics, members)).moves


@frozen
class OptimalAssignor:
    """Everything at once, for members that gave up all they had before they joined."""

    name: str = "optimal"
    version: int = 0
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def user_data(self, memory: Memory | None) -> bytes | None:
        return None

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """Minimal balance score, then fewest moves; each list sorted."""
        return _plan(topics, members, _owners(topics, members)).assignment()


OPTIMAL = OptimalAssignor()


@frozen
class _Plan:
    """How many partitions of which topic each member keeps and is given, and from which numbers to choose.

    ``owned``: per topic, member -> numbers it owns, ascending. ``kept``, ``given``: per topic, member -> count.
    """

    names: tuple[str, ...]
    amounts: tuple[int, ...]
    members: tuple[MemberId, ...]
    owned: tuple[Mapping[int, Sequence[int]], ...]
    kept: tuple[Mapping[int, int], ...]
    given: tuple[Mapping[int, int], ...]

    @property
    def moves(self) -> int:
        before = sum(len(numbers) for owners in self.owned for numbers in owners.values())
        return before - sum(sum(owners.values()) for owners in self.kept)

    def assignment(self) -> Assignment:
        """Choose the numbers: the lowest of what a member owns stay, the others are dealt in order of member id."""
        result: list[list[TopicPartition]] = [[] for _ in self.members]
        for topic, name in enumerate(self.names):
            holders: dict[int, list[int]] = {}
            free = [True] * self.amounts[topic]
            for member, count in self.kept[topic].items():
                holders[member] = list(self.owned[topic][member][:count])
                for number in holders[member]:
                    free[number] = False
            rest = [number for number, is_free in enumerate(free) if is_free]
            start = 0
            for member, count in sorted(self.given[topic].items()):
                holders.setdefault(member, []).extend(rest[start : start + count])
                start += count
            assert start == len(rest), f"{name}: {len(rest)} partitions to hand out, {start} handed out"
            for member, numbers in holders.items():
                result[member] += [(name, number) for number in sorted(numbers)]
        return dict(zip(self.members, result, strict=True))


def _plan(topics: Topics, members: Mapping[MemberId, Subscriber], owners: Mapping[TopicPartition, MemberId]) -> _Plan:
    order = tuple(sorted(members))
    names = tuple(known_topics(topics, (topic for member in order for topic in members[member].topics)))
    amounts = tuple(topics.partitions[name] for name in names)
    alike, subscribers = _subscriptions(order, members, names)
    owned = _owned(owners, order, names, subscribers)
    kept: list[dict[int, int]] = [{} for _ in names]
    given: list[dict[int, int]] = [{} for _ in names]
    for level in levels(amounts, subscribers, alike):
        total = sum(amounts[topic] for topic in level.topics)
        extras = total - level.floor * level.members.bit_count()
        dealing = Dealing(
            len(order),
            level.members,
            [amounts[topic] for topic in level.topics],
            [subscribers[topic] & level.members for topic in level.topics],
            [
                {member: len(numbers) for member, numbers in owned[topic].items() if level.members >> member & 1}
                for topic in level.topics
            ],
            [level.floor] * len(order),
            extras,
        )
        dealing.settle()
        for member in bits(level.members):
            for place, count in dealing.kept[member].items():
                kept[level.topics[place]][member] = count
            for place, count in dealing.given[member].items():
                given[level.topics[place]][member] = count
    return _Plan(names, amounts, order, tuple(owned), tuple(kept), tuple(given))


def _subscriptions(
    order: Sequence[MemberId], members: Mapping[MemberId, Subscriber], names: Sequence[str]
) -> tuple[dict[int, int], list[int]]:
    """Members with the same subscription (by the first of them), and the subscribers of each topic, as bit sets."""
    places = {name: place for place, name in enumerate(names)}
    first_of: dict[frozenset[str], int] = {}
    alike: dict[int, int] = {}
    for place, member in enumerate(order):
        first = first_of.setdefault(frozenset(members[member].topics), place)
        alike[first] = alike.get(first, 0) | 1 << place
    subscribers = [0] * len(names)
    for first, mask in alike.items():
        for topic in members[order[first]].topics:
            if topic in places:
                subscribers[places[topic]] |= mask
    return alike, subscribers


def _owned(
    owners: Mapping[TopicPartition, MemberId],
    order: Sequence[MemberId],
    names: Sequence[str],
    subscribers: Sequence[int],
) -> list[dict[int, list[int]]]:
    """Per topic, member -> the numbers it owns and may keep, ascending."""
    member_places = {member: place for place, member in enumerate(order)}
    topic_places = {name: place for place, name in enumerate(names)}
    owned: list[dict[int, list[int]]] = [{} for _ in names]
    for (topic, number), owner in sorted(owners.items()):
        place, member = topic_places.get(topic, -1), member_places[owner]
        if place >= 0 and subscribers[place] >> member & 1:
            owned[place].setdefault(member, []).append(number)
    return owned


def _owners(topics: Topics, members: Mapping[MemberId, Subscriber]) -> dict[TopicPartition, MemberId]:
    owners: dict[TopicPartition, MemberId] = {}
    best: dict[TopicPartition, int] = {}
    for member in sorted(members):
        one = members[member]
        for partition in dict.fromkeys(one.owned):
            topic, number = partition
            if not 0 <= number < topics.partitions.get(topic, 0):
                continue
            generation = best.get(partition, -2)
            if one.generation > generation:
                owners[partition], best[partition] = member, one.generation
            elif one.generation == generation:
                owners.pop(partition, None)
    return owners
