"""The promises of Kafka's assignors about an assignment.

- not-divided (all): no partition has two owners, or an owner that is not subscribed to the topic.
- left-out (all): each known partition has an owner or, in the cooperative
  protocol, is withheld from its old owner.
- unbalanced: members' counts differ by at most one: per topic (range) or
  over all topics (others), if all members subscribe to the same topics.
  Sticky, if members subscribe to different topics: no member could take a partition of a member with two more.
- not-ranged (range without racks): a member's partitions of a topic are
  consecutive. Topics with equal counts and the same subscribers have the same division.
- not-sticky (sticky, cooperative; equal subscriptions): a member keeps the partitions that no other member claims, up
  to its share.
- off-rack (range, sticky, cooperative; KIP-881): no two members hold
  partitions that match each other's rack instead of their own.

A cooperative leader withholds partitions that move; in such a generation only the upper bound of a share
is judged. Other assignors have no promises in this list.

Source: KIP-54, KIP-429, KIP-881; ``RangeAssignor``, ``RoundRobinAssignor``,
``AbstractStickyAssignor``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from kemu.protocol.assign.user_data import decode_sticky
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import MetadataReply
from kemu.protocol.messages.member import Subscription, decode_assignment, decode_subscription
from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition
from kemu.protocol.wire.codec import CodecError

COOPERATIVE = ("cooperative-sticky", "cooperative-sticky-balanced")
STICKY = ("sticky", "sticky-balanced", *COOPERATIVE)
BALANCED = ("roundrobin", *STICKY)
PROMISING = ("range", *BALANCED)
RACKS_COUNT = (3, 5)
"""First release whose assignors use racks; members send their racks since 3.4."""

Given = Mapping[MemberId, tuple[TopicPartition, ...]]


def broken_promises(
    assignor: str,
    subscriptions: Mapping[MemberId, bytes],
    assignments: Mapping[MemberId, bytes],
    topics: Mapping[str, int],
    leader_knows: MetadataReply | None = None,
    release: tuple[int, int] = (0, 0),
) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of each promise that an assignment breaks.

    Args:
        assignor: the protocol of the group.
        subscriptions: subscriptions in the members' JoinGroup.
        assignments: assignments in the leader's SyncGroup.
        topics: topic -> number of partitions.
        leader_knows: the leader's metadata; None if unknown.
        release: release of the leader.
    """
    if assignor not in PROMISING:
        return
    try:
        wanted = {member: decode_subscription(data) for member, data in subscriptions.items()}
        given = {member: _given(assignments.get(member, b"")) for member in wanted}
    except CodecError:
        return
    claims = {member: _claims(assignor, each, topics) for member, each in wanted.items()}
    alike = len({frozenset(each.topics) for each in wanted.values()}) == 1
    with_racks = any(each.rack for each in wanted.values())
    yield from _not_divided(wanted, given)
    if leader_knows is not None:
        yield from _left_out(wanted, claims, given, leader_knows)
    if alike:
        yield from _unbalanced(assignor, claims, given, lacks=with_racks and assignor in STICKY)
    elif assignor in STICKY and not with_racks:
        yield from _could_take(wanted, claims, given)
    if assignor == "range" and not with_racks:
        yield from _not_ranged(wanted, given)
    if alike and assignor in STICKY and not with_racks:
        yield from _not_sticky(claims, given)
    if leader_knows is not None and release >= RACKS_COUNT and all(each.rack for each in wanted.values()):
        racks = _racks(leader_knows)
        if assignor == "range":
            for topics_alike in _divided_alike(wanted, leader_knows):
                yield from _off_rack(topics_alike, wanted, given, racks)
        elif assignor in STICKY and (alike or not assignor.endswith("balanced")):
            moved = {member: tuple(set(own).difference(claims[member].partitions)) for member, own in given.items()}
            yield from _off_rack((), wanted, moved, racks, swaps=not alike)


def owned_unsubscribed(rows: tuple[tuple[str, bytes], ...]) -> Iterator[str]:
    """Partitions in a member's JoinGroup whose topic the member does not subscribe to.

    Source: ``ConsumerCoordinator.onJoinPrepare`` (3.4): a cooperative member revokes these partitions before it joins.
    """
    for assignor, data in rows:
        if assignor in COOPERATIVE:
            try:
                wanted = decode_subscription(data)
            except CodecError:  # the data has the layout of KIP-429's page
                continue
            for topic, number in wanted.owned:
                if topic not in wanted.topics:
                    yield f"claims {topic}-{number} without a subscription to {topic}"


def _given(data: bytes) -> tuple[TopicPartition, ...]:
    return decode_assignment(data).partitions if data else ()


class _Claims:
    def __init__(self, partitions: tuple[TopicPartition, ...], generation: int) -> None:
        self.partitions = partitions
        self.generation = generation


def _claims(assignor: str, wanted: Subscription, topics: Mapping[str, int]) -> _Claims:
    """The existing partitions that a member claims."""
    data = decode_sticky(wanted.user_data) if assignor in STICKY and assignor not in COOPERATIVE else None
    owned = wanted.owned if data is None else data.partitions
    generation = wanted.generation if data is None else data.generation
    if data is None and generation == NO_GENERATION and assignor in COOPERATIVE and wanted.user_data:
        generation = int.from_bytes(wanted.user_data[:4], "big", signed=True)  # the format of 2.8 to 3.1
    assigned = [(topic, number) for topic, number in owned if topic in wanted.topics and number < topics.get(topic, 0)]
    return _Claims(tuple(assigned), NO_GENERATION if generation is None else generation)


def _not_divided(wanted: Mapping[MemberId, Subscription], given: Given) -> Iterator[tuple[str, str]]:
    owner: dict[TopicPartition, MemberId] = {}
    for member, partitions in given.items():
        for topic, number in partitions:
            other = owner.setdefault((topic, number), member)
            if other != member:
                yield "not-divided", f"{topic}-{number} is assigned to both {other} and {member}"
            if topic not in wanted[member].topics:
                yield "not-divided", f"{topic}-{number} is assigned to {member}, which is not subscribed to {topic}"


def _unbalanced(
    assignor: str, claims: Mapping[MemberId, _Claims], given: Given, *, lacks: bool
) -> Iterator[tuple[str, str]]:
    """Judge the balance. ``lacks``: a member may have less than its share (KAFKA-15170: racks, up to 3.7)."""
    everything = {at for partitions in given.values() for at in partitions}
    withheld = set[TopicPartition]()
    if assignor in COOPERATIVE:
        withheld = {at for each in claims.values() for at in each.partitions} - everything
    topics = sorted({topic for topic, _ in everything}) if assignor == "range" else [""]
    for only in topics:
        total = len([at for at in everything | withheld if only in ("", at[0])])
        counts = {member: len([at for at in own if only in ("", at[0])]) for member, own in given.items()}
        least, most = total // len(counts), -(-total // len(counts))
        wrong = [count for count in counts.values() if count > most or (count < least and not withheld and not lacks)]
        if wrong:
            of = f" of {only}" if only else ""
            shares = ", ".join(f"{member}: {count}" for member, count in sorted(counts.items()))
            yield "unbalanced", f"{assignor} divides {total} partitions{of} unevenly: {shares}"


def _left_out(
    wanted: Mapping[MemberId, Subscription],
    claims: Mapping[MemberId, _Claims],
    given: Given,
    leader_knows: MetadataReply,
) -> Iterator[tuple[str, str]]:
    topics = {topic for each in wanted.values() for topic in each.topics}
    assigned = {at for partitions in given.values() for at in partitions}
    withheld = {at for each in claims.values() for at in each.partitions}
    for row in leader_knows.topics:
        for number in range(len(row.partitions)) if row.topic in topics and row.error is ErrorCode.NONE else ():
            if (row.topic, number) not in assigned and (row.topic, number) not in withheld:
                yield "left-out", f"{row.topic}-{number} is assigned to no member"


def _could_take(
    wanted: Mapping[MemberId, Subscription], claims: Mapping[MemberId, _Claims], given: Given
) -> Iterator[tuple[str, str]]:
    everything = {at for partitions in given.values() for at in partitions}
    if any(at not in everything for each in claims.values() for at in each.partitions):
        return  # withheld partitions have no known new owner
    for member, own in given.items():
        for other, theirs in given.items():
            shared = {topic for topic, _ in own}.intersection(wanted[other].topics)
            if shared and len(own) > len(theirs) + 1:
                topic = min(shared)
                yield "unbalanced", f"{member} has {len(own)} partitions, some of {topic}; {other} has {len(theirs)}"


def _not_ranged(wanted: Mapping[MemberId, Subscription], given: Given) -> Iterator[tuple[str, str]]:
    owners: dict[str, dict[int, MemberId]] = {}
    for member, partitions in given.items():
        for topic, number in partitions:
            owners.setdefault(topic, {})[number] = member
    divisions: dict[tuple[frozenset[MemberId], int], dict[int, MemberId]] = {}
    for topic, owner in sorted(owners.items()):
        of_member: dict[MemberId, list[int]] = {}
        for number, member in owner.items():
            of_member.setdefault(member, []).append(number)
        for member, numbers in sorted(of_member.items()):
            if max(numbers) - min(numbers) >= len(numbers):
                yield "not-ranged", f"{member} has {sorted(numbers)} of {topic}"
        subscribers = frozenset(member for member, each in wanted.items() if topic in each.topics)
        if divisions.setdefault((subscribers, len(owner)), owner) != owner:
            yield "not-ranged", f"{topic} is divided unlike another topic with as many partitions"


def _racks(leader_knows: MetadataReply) -> Mapping[TopicPartition, frozenset[str]]:
    of = {row.node_id: row.rack for row in leader_knows.brokers}
    return {
        (topic.topic, row.partition): frozenset([rack for node in row.replicas if (rack := of.get(node))])
        for topic in leader_knows.topics
        for row in topic.partitions
    }


def _divided_alike(wanted: Mapping[MemberId, Subscription], leader_knows: MetadataReply) -> list[tuple[str, ...]]:
    """Topics with the same subscribers and number of partitions. ``range`` assigns partition n of all these topics
    together.
    """
    found: dict[tuple[frozenset[MemberId], int], tuple[str, ...]] = {}
    for row in leader_knows.topics:
        key = frozenset(member for member, each in wanted.items() if row.topic in each.topics), len(row.partitions)
        found[key] = (*found.get(key, ()), row.topic)
    return list(found.values())


def _off_rack(
    together: tuple[str, ...],
    wanted: Mapping[MemberId, Subscription],
    given: Given,
    racks: Mapping[TopicPartition, frozenset[str]],
    *,
    swaps: bool = False,
) -> Iterator[tuple[str, str]]:
    """Find swaps that would bring partitions onto their racks.

    ``together``: topics whose partitions n have the same owner. ``swaps``: report only swaps from which both members
    gain.
    """

    def is_near(member: MemberId, at: TopicPartition) -> bool:
        topics = together or (at[0],)
        return at[0] in wanted[member].topics and all(
            wanted[member].rack in racks.get((topic, at[1]), ()) for topic in topics
        )

    off = [
        (at, member)
        for member, partitions in given.items()
        for at in sorted(partitions)
        if (not together or at[0] in together) and not is_near(member, at)
    ]
    for at, member in off:
        for other_at, other in off:
            if other != member and is_near(other, at) and (not swaps or is_near(member, other_at)):
                text = f"{at[0]}-{at[1]} goes to {member}, off its rack; {other} is on that rack, and has"
                yield "off-rack", f"{text} {other_at[0]}-{other_at[1]} off its own"


def _not_sticky(claims: Mapping[MemberId, _Claims], given: Given) -> Iterator[tuple[str, str]]:
    newest = max(each.generation for each in claims.values())
    claimed = Counter(at for each in claims.values() for at in set(each.partitions))
    everything = {at for partitions in given.values() for at in partitions} | set(claimed)
    share = len(everything) // len(given)
    for member, each in claims.items():
        own = {at for at in each.partitions if claimed[at] == 1} if each.generation == newest else set()
        kept = len(set(each.partitions) & set(given[member]))
        if kept < min(len(own), share):
            yield "not-sticky", f"{member} keeps {kept} of its {len(own)} partitions; its share is {share}"
