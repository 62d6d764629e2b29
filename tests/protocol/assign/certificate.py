"""Judges of an assignment that share no code with the assignors: by trying everything, and by a certificate.

Written for clarity, not speed: plain dictionaries, one node per member and topic, Bellman-Ford.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import combinations, product
from random import Random

from attrs import frozen

from kemu.protocol.assign.base import Assignment, Subscriber, Topics
from kemu.protocol.names import MemberId, TopicPartition

SINK = ("sink", "")


@frozen
class Flaw:
    """A way to do better: by ``score`` in the sum of squares, by ``moves`` at the same score; negative is better."""

    squares: int
    moves: int


def pairwise_score(assignment: Assignment) -> int:
    """KIP-54's balance score, as its sentence says it: over all pairs."""
    sizes = [len(held) for held in assignment.values()]
    return sum(abs(a - b) for a, b in combinations(sizes, 2))


def previous_owners(topics: Topics, members: Mapping[MemberId, Subscriber]) -> dict[TopicPartition, MemberId]:
    """The valid owners: one claimant of the highest generation, still a subscriber, of an existing partition."""
    claims: dict[TopicPartition, list[tuple[int, MemberId]]] = defaultdict(list)
    for member, subscriber in members.items():
        for partition in set(subscriber.owned):
            claims[partition].append((subscriber.generation, member))
    owners = {}
    for (topic, number), claimants in claims.items():
        generation = max(claimants)[0]
        latest = [member for claimed, member in claimants if claimed == generation]
        exists = 0 <= number < topics.partitions.get(topic, 0)
        if exists and len(latest) == 1 and topic in members[latest[0]].topics:
            owners[topic, number] = latest[0]
    return owners


def moves(topics: Topics, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> int:
    """Partitions whose previous owner does not keep them."""
    holder = {partition: member for member, held in assignment.items() for partition in held}
    return sum(holder[partition] != owner for partition, owner in previous_owners(topics, members).items())


def assert_valid(topics: Topics, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> None:
    """Every partition with a subscriber has one holder, which subscribes to it; every member has a list."""
    assert set(assignment) == set(members)
    for member, held in assignment.items():
        assert {topic for topic, _ in held} <= set(members[member].topics), f"{member} holds an unsubscribed topic"
    subscribed = {topic for subscriber in members.values() for topic in subscriber.topics}
    wanted = {(topic, n) for topic in subscribed for n in range(topics.partitions.get(topic, 0))}
    times_held = Counter(partition for held in assignment.values() for partition in held)
    assert times_held == Counter(wanted)


def best_by_exhaustion(topics: Topics, members: Mapping[MemberId, Subscriber]) -> tuple[int, int]:
    """(least score, fewest moves at that score), found by trying every assignment."""
    owners = previous_owners(topics, members)
    takers = {
        (topic, number): [member for member, one in members.items() if topic in one.topics]
        for topic, count in topics.partitions.items()
        for number in range(count)
    }
    takers = {partition: able for partition, able in takers.items() if able}
    best = None
    for choice in product(*takers.values()):
        sizes = Counter(choice)
        score = sum(abs(sizes[a] - sizes[b]) for a, b in combinations(members, 2))
        moved = sum(owners.get(partition, member) != member for partition, member in zip(takers, choice, strict=True))
        best = min(best or (score, moved), (score, moved))
    assert best is not None
    return best


def certify(topics: Topics, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Flaw | None:
    """None if no assignment has a smaller sum of squares, or as small a one and fewer moves; else a flaw.

    The assignment is a flow from topics to members to a sink, whose arc from a member of size x costs x * x. It is
    optimal in (squares, moves), compared in this order, if and only if the residual network has no cycle of negative
    cost. Each arc below says what changes when one partition more flows along it. Squares and KIP-54's score have
    the same minimizers: both are strictly Schur-convex, and the reachable size vectors have a least majorized one.
    """
    owned = Counter((owner, topic) for (topic, _), owner in previous_owners(topics, members).items())
    held = Counter((member, topic) for member, partitions in assignment.items() for topic, _ in partitions)
    size = {member: len(partitions) for member, partitions in assignment.items()}
    arcs: dict[tuple[tuple[str, str], tuple[str, str]], tuple[int, int]] = {}
    for member, subscriber in members.items():
        here = ("member", member)
        arcs[here, SINK] = (2 * size[member] + 1, 0)
        if size[member]:
            arcs[SINK, here] = (1 - 2 * size[member], 0)
        for topic in subscriber.topics:
            has, had = held[member, topic], owned[member, topic]
            arcs[("topic", topic), here] = (0, -1 if has < had else 0)
            if has:
                arcs[here, ("topic", topic)] = (0, 1 if has <= had else 0)
    return _negative_cycle(arcs)


def _negative_cycle(arcs: dict[tuple[tuple[str, str], tuple[str, str]], tuple[int, int]]) -> Flaw | None:
    """Bellman-Ford from everywhere at once; the costs of a negative cycle if there is one."""
    nodes = {node for arc in arcs for node in arc}
    distance = dict.fromkeys(nodes, (0, 0))
    came_from: dict[tuple[str, str], tuple[str, str]] = {}
    changed = None
    for _ in range(len(nodes) + 1):
        changed = None
        for (start, end), (squares, moved) in arcs.items():
            through = (distance[start][0] + squares, distance[start][1] + moved)
            if through < distance[end]:
                distance[end], came_from[end], changed = through, start, end
        if changed is None:
            return None
    assert changed is not None
    for _ in nodes:
        changed = came_from[changed]
    cycle = [changed]
    while came_from[cycle[-1]] != changed:
        cycle.append(came_from[cycle[-1]])
    costs = [arcs[came_from[node], node] for node in cycle]
    return Flaw(sum(squares for squares, _ in costs), sum(moved for _, moved in costs))


def random_group(
    random: Random, topics: int, partitions: int, members: int, *, subscribed: float, claimed: float
) -> tuple[Topics, dict[MemberId, Subscriber]]:
    """A group with mixed subscriptions, stale generations, double claims, and claims of what is not there.

    ``topics``, ``partitions`` (per topic), ``members``: upper bounds. ``subscribed``, ``claimed``: probabilities.
    """
    names = [f"t{n}" for n in range(random.randint(1, topics))]
    counts = {name: random.randint(0, partitions) for name in names}
    ids = [f"m{n}" for n in range(random.randint(1, members))]
    owned: dict[MemberId, list[TopicPartition]] = {member: [] for member in ids}
    for name in [*names, "gone"]:
        for number in range(counts.get(name, 1) + 1):
            while random.random() < claimed:
                owned[random.choice(ids)].append((name, number))
                if random.random() < 0.8:
                    break
    return Topics(counts), {
        member: Subscriber(
            topics=tuple(name for name in names if random.random() < subscribed),
            owned=tuple(dict.fromkeys(owned[member])),
            generation=random.choice([-1, 4, 5, 5, 5]),
        )
        for member in ids
    }
