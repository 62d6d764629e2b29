"""What Kafka's assignors promise of an assignment.

===========  =======================================================================  ===============================
kind         promise                                                                  assignors
===========  =======================================================================  ===============================
not-divided  no partition is given twice, or to a member that does not subscribe      all of these
left-out     each partition that the leader knows is given or, by a cooperative       all of these
             leader, withheld from its owner
unbalanced   counts differ by at most one: per topic (range), or over all topics      all of these; where all members
                                                                                      subscribe to the same
             nobody could take a partition of who has two more                        sticky, where they do not
not-ranged   a member's partitions of a topic follow one another; topics with equal   range without racks
             counts and the same subscribers are cut alike
not-sticky   a member keeps as many of its partitions as it alone claims, up to its   sticky, cooperative; where all
             share                                                                    subscribe to the same
off-rack     of two members with partitions off their racks none is on the rack of    range, sticky, cooperative
             what the other one got (KIP-881); where subscriptions differ, not both;
             then Kafka's own assignors alone promise it
===========  =======================================================================  ===============================

A cooperative leader withholds what changes hands: then only the upper bound of a share holds. Other assignors, custom
ones among them, promise nothing here. Racks may cost stickiness (KIP-881). Source: KIP-54, KIP-429, KIP-881;
``RangeAssignor``, ``RoundRobinAssignor``, ``AbstractStickyAssignor``.
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
"""Since this release assignors look at racks; members tell theirs since 3.4."""

Given = Mapping[MemberId, tuple[TopicPartition, ...]]


def broken_promises(
    assignor: str,
    subscriptions: Mapping[MemberId, bytes],
    assignments: Mapping[MemberId, bytes],
    topics: Mapping[str, int],
    leader_knows: MetadataReply | None = None,
    release: tuple[int, int] = (0, 0),
) -> Iterator[tuple[str, str]]:
    """What an assignment breaks: the kind and a text for each.

    Args:
        assignor: the protocol that the group chose.
        subscriptions: by member, as its JoinGroup had it.
        assignments: by member, as the leader's SyncGroup had it.
        topics: partitions by topic, as they are now.
        leader_knows: what the leader was told of them last; None: nobody saw it.
        release: the leader's.
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
            for topics_alike in _cut_alike(wanted, leader_knows):
                yield from _off_rack(topics_alike, wanted, given, racks)
        elif assignor in STICKY and (alike or not assignor.endswith("balanced")):
            moved = {member: tuple(set(own).difference(claims[member].partitions)) for member, own in given.items()}
            yield from _off_rack((), wanted, moved, racks, swaps=not alike)


def owned_unsubscribed(rows: tuple[tuple[str, bytes], ...]) -> Iterator[str]:
    """What a member claims in its JoinGroup of topics that it does not subscribe to.

    Source: ``ConsumerCoordinator.onJoinPrepare`` (3.4): a cooperative member revokes that before it joins.
    """
    for assignor, data in rows:
        if assignor in COOPERATIVE:
            try:
                wanted = decode_subscription(data)
            except CodecError:  # KIP-429's page has another layout
                continue
            for topic, number in wanted.owned:
                if topic not in wanted.topics:
                    yield f"owns {topic}-{number}, and does not subscribe to {topic}"


def _given(data: bytes) -> tuple[TopicPartition, ...]:
    return decode_assignment(data).partitions if data else ()


class _Claims:
    def __init__(self, partitions: tuple[TopicPartition, ...], generation: int) -> None:
        self.partitions = partitions
        self.generation = generation


def _claims(assignor: str, wanted: Subscription, topics: Mapping[str, int]) -> _Claims:
    """What a member says that it owns, of partitions that exist."""
    data = decode_sticky(wanted.user_data) if assignor in STICKY and assignor not in COOPERATIVE else None
    owned = wanted.owned if data is None else data.partitions
    generation = wanted.generation if data is None else data.generation
    if data is None and generation == NO_GENERATION and assignor in COOPERATIVE and wanted.user_data:
        generation = int.from_bytes(wanted.user_data[:4], "big", signed=True)  # as 2.8 to 3.1 tell it
    there = [(topic, number) for topic, number in owned if topic in wanted.topics and number < topics.get(topic, 0)]
    return _Claims(tuple(there), NO_GENERATION if generation is None else generation)


def _not_divided(wanted: Mapping[MemberId, Subscription], given: Given) -> Iterator[tuple[str, str]]:
    owner: dict[TopicPartition, MemberId] = {}
    for member, partitions in given.items():
        for topic, number in partitions:
            other = owner.setdefault((topic, number), member)
            if other != member:
                yield "not-divided", f"{topic}-{number} is given to {other} and to {member}"
            if topic not in wanted[member].topics:
                yield "not-divided", f"{topic}-{number} is given to {member}, which does not subscribe to {topic}"


def _unbalanced(
    assignor: str, claims: Mapping[MemberId, _Claims], given: Given, *, lacks: bool
) -> Iterator[tuple[str, str]]:
    """``lacks``: a member may have less than its share (KAFKA-15170: racks, up to 3.7)."""
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
            told = ", ".join(f"{member}: {count}" for member, count in sorted(counts.items()))
            yield "unbalanced", f"{assignor} divides {total} partitions{of} so: {told}"


def _left_out(
    wanted: Mapping[MemberId, Subscription],
    claims: Mapping[MemberId, _Claims],
    given: Given,
    leader_knows: MetadataReply,
) -> Iterator[tuple[str, str]]:
    topics = {topic for each in wanted.values() for topic in each.topics}
    there = {at for partitions in given.values() for at in partitions}
    withheld = {at for each in claims.values() for at in each.partitions}
    for row in leader_knows.topics:
        for number in range(len(row.partitions)) if row.topic in topics and row.error is ErrorCode.NONE else ():
            if (row.topic, number) not in there and (row.topic, number) not in withheld:
                yield "left-out", f"{row.topic}-{number} is given to nobody"


def _could_take(
    wanted: Mapping[MemberId, Subscription], claims: Mapping[MemberId, _Claims], given: Given
) -> Iterator[tuple[str, str]]:
    everything = {at for partitions in given.values() for at in partitions}
    if any(at not in everything for each in claims.values() for at in each.partitions):
        return  # withheld: nobody knows for whom
    for member, own in given.items():
        for other, theirs in given.items():
            shared = {topic for topic, _ in own}.intersection(wanted[other].topics)
            if shared and len(own) > len(theirs) + 1:
                topic = min(shared)
                yield "unbalanced", f"{member} has {len(own)} partitions, also of {topic}; {other} has {len(theirs)}"


def _not_ranged(wanted: Mapping[MemberId, Subscription], given: Given) -> Iterator[tuple[str, str]]:
    owners: dict[str, dict[int, MemberId]] = {}
    for member, partitions in given.items():
        for topic, number in partitions:
            owners.setdefault(topic, {})[number] = member
    cuts: dict[tuple[frozenset[MemberId], int], dict[int, MemberId]] = {}
    for topic, owner in sorted(owners.items()):
        for member in sorted(set(owner.values())):
            numbers = [number for number, other in owner.items() if other == member]
            if max(numbers) - min(numbers) >= len(numbers):
                yield "not-ranged", f"{member} has {sorted(numbers)} of {topic}"
        subscribers = frozenset(member for member, each in wanted.items() if topic in each.topics)
        if cuts.setdefault((subscribers, len(owner)), owner) != owner:
            yield "not-ranged", f"{topic} is cut otherwise than another topic with as many partitions"


def _racks(leader_knows: MetadataReply) -> Mapping[TopicPartition, frozenset[str]]:
    of = {row.node_id: row.rack for row in leader_knows.brokers}
    return {
        (topic.topic, row.partition): frozenset([rack for node in row.replicas if (rack := of.get(node))])
        for topic in leader_knows.topics
        for row in topic.partitions
    }


def _cut_alike(wanted: Mapping[MemberId, Subscription], leader_knows: MetadataReply) -> list[tuple[str, ...]]:
    """Topics with the same subscribers and as many partitions: ``range`` gives partition n of all of them together."""
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
    """``together``: topics of which partition n counts as one. ``swaps``: nobody is asked who would not gain, too."""

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
                text = f"{at[0]}-{at[1]} goes to {member}, off its rack; {other} is on it, and has"
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
