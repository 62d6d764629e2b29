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

``optimal`` remembers through its user data, as ``sticky`` does, because an eager member owns nothing when it joins.
``optimal-cooperative`` reads what members still own, and withholds what another one must give up first. What is
withheld is owned by nobody in the follow-up, where the plan can then be completed without a move: one follow-up settles
it, at the same score and the same number of moves.

Partitions of a topic differ only in their previous owner, so the flow works with counts per topic and member; which
ones of several are kept is free: the lowest numbers. Racks are ignored: a rack preference would be a third goal, and
a different flow. Members are taken by id, topics by name, so the order of the input does not matter.
"""

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from protocol.assign.base import Assignment, Memory, RebalanceProtocol, Subscriber, Topics
from protocol.assign.flow import Dealing, bits
from protocol.assign.levels import Level, levels
from protocol.assign.order import known_topics
from protocol.assign.user_data import decode_cooperative, decode_sticky, encode_cooperative, encode_sticky
from protocol.names import NO_GENERATION, MemberId, TopicPartition


@frozen
class OptimalAssignor:
    """Minimal balance score, then fewest moves, for members that gave up all they had before they joined.

    Previous owners come from the user data (the layout of ``sticky``, V1 or V0); a subscriber without user data counts
    with its ``owned`` and ``generation``.
    """

    name: str = "optimal"
    version: int = 0
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def user_data(self, memory: Memory | None) -> bytes | None:
        """What the member was last assigned, and in which generation."""
        return None if memory is None else encode_sticky(memory.partitions, memory.generation)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """Everything at once; each list sorted."""
        plan = _plan(topics, members, _remembered(members))
        return {member: sorted(kept + given) for member, kept, given in plan.holdings()}


@frozen
class CooperativeOptimalAssignor:
    """The same plan for members that keep what they own while they join; reached in two rebalances.

    Previous owners come from ``owned``; the generation from the subscription, or from the user data for members whose
    subscription has none (before KIP-792). In a group that falls back to the eager protocol nobody owns anything.
    """

    name: str = "optimal-cooperative"
    version: int = 0
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def user_data(self, memory: Memory | None) -> bytes | None:
        """The generation of the member's last assignment, as ``cooperative-sticky`` writes it."""
        return encode_cooperative(NO_GENERATION if memory is None else memory.generation)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """The plan without the partitions that a member does not own yet and another one claims; each list sorted.

        Claims of any generation count here: whoever believes it owns a partition has to give it up first.
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
    """The fewest moves of any assignment whose balance score is minimal; claims are read as ``optimal`` reads them.

    A lower bound for an assignment of minimal score; one that is less balanced may move less.
    """
    return _plan(topics, members, _remembered(members)).moves


_Claims = list[tuple[Sequence[TopicPartition], int]]
"""Per member by id: the partitions it claims and the generation it claims them in."""


def _remembered(members: Mapping[MemberId, Subscriber]) -> _Claims:
    claims: _Claims = []
    for member in sorted(members):
        one = members[member]
        if one.user_data is None:
            claims.append((one.owned, one.generation))
        else:
            data = decode_sticky(one.user_data)
            claims.append((data.partitions, NO_GENERATION if data.generation is None else data.generation))
    return claims


def _still_owned(members: Mapping[MemberId, Subscriber]) -> _Claims:
    claims: _Claims = []
    for member in sorted(members):
        one = members[member]
        generation: int | None = one.generation
        if one.generation < 0:
            generation = decode_cooperative(one.user_data)
        claims.append((one.owned, NO_GENERATION if generation is None else generation))
    return claims


@frozen
class _Plan:
    """How many partitions of which topic each member keeps and is given, and the numbers to choose from.

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
        """Partitions that had an owner who does not keep them."""
        before = sum(len(numbers) for owners in self.owned for numbers in owners.values())
        return before - sum(sum(counts.values()) for counts in self.kept)

    def holdings(self) -> Iterator[tuple[MemberId, list[TopicPartition], list[TopicPartition]]]:
        """Per member: what it keeps, what it is given. The lowest numbers stay, the others are dealt in order of id."""
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
            assert start == len(rest), f"{name}: {len(rest)} partitions to hand out, {start} handed out"
        return zip(self.members, kept, given, strict=True)


def _plan(topics: Topics, members: Mapping[MemberId, Subscriber], claims: _Claims) -> _Plan:
    order = tuple(sorted(members))
    names = tuple(known_topics(topics, (topic for member in order for topic in members[member].topics)))
    amounts = tuple(topics.partitions[name] for name in names)
    alike, subscribers = _subscriptions(order, members, names)
    owned = _owned(claims, names, amounts, subscribers)
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
    level: Level,
    amounts: Sequence[int],
    subscribers: Sequence[int],
    owned: Sequence[Mapping[int, Sequence[int]]],
    width: int,
) -> Dealing:
    """The flow of one level. Claims of members outside it are moves in every assignment of minimal score."""
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
    claims: _Claims, names: Sequence[str], amounts: Sequence[int], subscribers: Sequence[int]
) -> list[dict[int, list[int]]]:
    """Per topic, member -> the numbers it owns and may keep, ascending.

    The highest generation wins even if its claimant has unsubscribed since: then nobody owns the partition.
    """
    places = {name: place for place, name in enumerate(names)}
    owners = [[-1] * amount for amount in amounts]
    latest = [[NO_GENERATION - 1] * amount for amount in amounts]
    for member, (partitions, stated) in enumerate(claims):
        generation = max(stated, NO_GENERATION)
        for topic, number in partitions:
            place = places.get(topic, -1)
            if place < 0 or not 0 <= number < amounts[place]:
                continue
            if generation > latest[place][number]:
                latest[place][number] = generation
                owners[place][number] = member
            elif generation == latest[place][number] and owners[place][number] != member:
                owners[place][number] = -1
    owned: list[dict[int, list[int]]] = [{} for _ in names]
    for place, numbers in enumerate(owners):
        for number, member in enumerate(numbers):
            if member >= 0 and subscribers[place] >> member & 1:
                owned[place].setdefault(member, []).append(number)
    return owned
