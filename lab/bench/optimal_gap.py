"""Distance of ``sticky-balanced`` from the best possible assignment, over random groups with mixed subscriptions.

Both assignors get the same members, with the same user data. Balance is compared in KIP-54's score. Moves are compared
only for equal scores, because a less balanced assignment can need fewer moves.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypedDict

from attrs import frozen

from kemu.protocol.assign.base import Assignment, Memory, Subscriber, Topics
from kemu.protocol.assign.claims import rightful_owners
from kemu.protocol.assign.optimal import OPTIMAL, optimal_moves_bound
from kemu.protocol.assign.search.score import balance_score
from kemu.protocol.assign.sticky import STICKY_BALANCED
from kemu.protocol.names import MemberId, TopicPartition


class Excess(TypedDict):
    """Number of cases in which a figure was above the optimum, with the mean and largest excess in those cases."""

    worse_cases: int
    mean_excess: float
    max_excess: int


class OptimalGap(TypedDict):
    """``compared_moves``: number of cases with the minimal score, in which moves can be compared."""

    cases: int
    seed: int
    score: Excess
    compared_moves: int
    moves: Excess


@frozen
class RandomGroup:
    """A random group. ``members`` report their partitions both in user data and in the subscription."""

    topics: Topics
    members: Mapping[MemberId, Subscriber]


def optimal_gap(cases: int = 1000, seed: int = 0) -> OptimalGap:
    """Compare ``sticky-balanced`` with ``optimal`` in ``cases`` random groups; the same seed gives the same figures."""
    random = Random(seed)
    scores: list[int] = []
    moves: list[int] = []
    for _ in range(cases):
        group = random_group(random)
        found = STICKY_BALANCED.assign(group.topics, group.members)
        best = OPTIMAL.assign(group.topics, group.members)
        scores.append(_score(found) - _score(best))
        assert scores[-1] >= 0, f"not optimal: {group}"
        if scores[-1] == 0:
            moves.append(_moves(group, found) - optimal_moves_bound(group.topics, group.members))
            assert moves[-1] >= 0, f"not the fewest moves: {group}"
    return OptimalGap(cases=cases, seed=seed, score=_excess(scores), compared_moves=len(moves), moves=_excess(moves))


def random_group(random: Random) -> RandomGroup:
    """A running group of 2 to 12 members and 2 to 10 topics of 1 to 8 partitions.

    Each member subscribes to about half of the topics. Most partitions have a previous owner, which may have
    unsubscribed. Some partitions are claimed twice. Some members missed the last generation.
    """
    names = [f"t{n}" for n in range(random.randint(2, 10))]
    ids = [f"m{n:02}" for n in range(random.randint(2, 12))]
    topics = Topics({name: random.randint(1, 8) for name in names})
    subscribed = {member: tuple(name for name in names if random.random() < 0.5) for member in ids}
    owned: dict[MemberId, list[TopicPartition]] = {member: [] for member in ids}
    for name, count in topics.partitions.items():
        subscribers = [member for member in ids if name in subscribed[member]]
        for number in range(count):
            if random.random() < 0.85:
                owner = random.choice(subscribers if subscribers and random.random() < 0.95 else ids)
                owned[owner].append((name, number))
            if random.random() < 0.03:
                claimant = random.choice(ids)
                if (name, number) not in owned[claimant]:
                    owned[claimant].append((name, number))
    members = {}
    for member in ids:
        generation = 5 if random.random() < 0.9 else random.randint(-1, 4)
        memory = Memory(tuple(owned[member]), generation)
        members[member] = Subscriber(
            subscribed[member], memory.partitions, generation, user_data=STICKY_BALANCED.user_data(memory)
        )
    return RandomGroup(topics, members)


def _score(assignment: Assignment) -> int:
    return balance_score(len(held) for held in assignment.values())


def _moves(group: RandomGroup, assignment: Assignment) -> int:
    """Number of partitions that leave a valid owner with a matching subscription; ``optimal`` minimizes this number.

    Duplicate and stale claims are invalid, so an assignment of such partitions is no move (``score.moved`` counts raw
    claims).
    """
    holder = {partition: member for member, held in assignment.items() for partition in held}
    owners = rightful_owners(group.members).items()
    return sum(held[0] in group.members[owner].topics and holder[held] != owner for held, owner in owners)


def _excess(gaps: Sequence[int]) -> Excess:
    worse = [gap for gap in gaps if gap > 0]
    mean = round(sum(worse) / len(worse), 3) if worse else 0.0
    return Excess(worse_cases=len(worse), mean_excess=mean, max_excess=max(worse, default=0))
