"""What Kafka's assignors promise of an assignment, where all members subscribe to the same topics.

===========  ===================================================================================  ===================
kind         promise                                                                              assignors
===========  ===================================================================================  ===================
not-divided  no partition is given twice, or to a member that does not subscribe to its topic     all of these
unbalanced   members' counts differ by at most one: per topic (range), or over all topics         all of these
not-sticky   a member keeps as many of its partitions as it alone claims, up to its share         sticky, cooperative
===========  ===================================================================================  ===================

A cooperative leader withholds what changes hands: then only the upper bound of a share holds. Other assignors, custom
ones among them, promise nothing here. Racks may cost stickiness (KIP-881). Source: KIP-54, KIP-429; ``RangeAssignor``,
``RoundRobinAssignor``, ``AbstractStickyAssignor.constrainedAssign``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from kemu.protocol.assign.user_data import decode_sticky
from kemu.protocol.messages.member import Subscription, decode_assignment, decode_subscription
from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition
from kemu.protocol.wire.codec import CodecError

COOPERATIVE = ("cooperative-sticky", "cooperative-sticky-balanced")
STICKY = ("sticky", "sticky-balanced", *COOPERATIVE)
BALANCED = ("roundrobin", *STICKY)
PROMISING = ("range", *BALANCED)

Given = Mapping[MemberId, tuple[TopicPartition, ...]]


def broken_promises(
    assignor: str,
    subscriptions: Mapping[MemberId, bytes],
    assignments: Mapping[MemberId, bytes],
    topics: dict[str, int],
) -> Iterator[tuple[str, str]]:
    """What an assignment breaks: the kind and a text for each.

    Args:
        assignor: the protocol that the group chose.
        subscriptions: by member, as its JoinGroup had it.
        assignments: by member, as the leader's SyncGroup had it.
        topics: partitions by topic, as they are now.
    """
    if assignor not in PROMISING:
        return
    try:
        wanted = {member: decode_subscription(data) for member, data in subscriptions.items()}
        given = {member: _given(assignments.get(member, b"")) for member in wanted}
    except CodecError:
        return
    yield from _not_divided(wanted, given)
    if len({tuple(sorted(each.topics)) for each in wanted.values()}) == 1:
        claims = {member: _claims(assignor, each, topics) for member, each in wanted.items()}
        yield from _unbalanced(assignor, claims, given)
        if assignor in STICKY and not any(each.rack for each in wanted.values()):
            yield from _not_sticky(claims, given)


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


def _claims(assignor: str, wanted: Subscription, topics: dict[str, int]) -> _Claims:
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


def _unbalanced(assignor: str, claims: Mapping[MemberId, _Claims], given: Given) -> Iterator[tuple[str, str]]:
    everything = {at for partitions in given.values() for at in partitions}
    withheld = set[TopicPartition]()
    if assignor in COOPERATIVE:
        withheld = {at for each in claims.values() for at in each.partitions} - everything
    topics = sorted({topic for topic, _ in everything}) if assignor == "range" else [""]
    for only in topics:
        total = len([at for at in everything | withheld if only in ("", at[0])])
        counts = {member: len([at for at in own if only in ("", at[0])]) for member, own in given.items()}
        least, most = total // len(counts), -(-total // len(counts))
        wrong = [count for count in counts.values() if count > most or (count < least and not withheld)]
        if wrong:
            of = f" of {only}" if only else ""
            told = ", ".join(f"{member}: {count}" for member, count in sorted(counts.items()))
            yield "unbalanced", f"{assignor} divides {total} partitions{of} so: {told}"


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
