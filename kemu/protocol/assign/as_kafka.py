"""The sticky algorithm of each Kafka release: the same owners, and the same order in each member's list.

Up to Kafka 2.4 the algorithm assigns one partition at a time. Since 2.5 (KAFKA-9987) a group with equal subscriptions
is assigned by quotas. Members keep partitions up to the higher quota. Members lose some of these partitions if other
members are below the lower quota. Since 3.0 (KAFKA-12464) only as many members as necessary keep the higher quota.
Since 3.5 (KIP-881) the algorithm prefers members on a rack with a replica of the partition.

``KafkaFails`` is raised where a release's class throws, never ends, assigns a partition twice, or assigns a partition
to a member without a subscription. The caller then uses kemu's own algorithm.

Source: ``AbstractStickyAssignor`` and ``CooperativeStickyAssignor`` of 2.4.1, 2.6.3, 2.8.2, 3.0.2, 3.4.1, 3.7.0, 3.9.0.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, takewhile
from typing import TypeAlias

from kemu.protocol.assign.base import Subscriber, Topics
from kemu.protocol.assign.search.failure import KafkaFails
from kemu.protocol.assign.search.hash_maps import partitions_in_hash_order
from kemu.protocol.assign.search.numbering import Numbering, number_partitions
from kemu.protocol.assign.search.order import hash_map_order, hash_order, subscriptions
from kemu.protocol.assign.search.racks import Racks, RackSet, partition_racks, use_racks
from kemu.protocol.assign.sharing import Belongings, Sharing
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition

Claimed: TypeAlias = tuple[Sequence[int], int]
"""Claimed partition numbers, and the generation of the claim."""


@frozen
class GroupClaims:
    """The claims of a group as the leader reads them. A member's index is its position in the sorted member ids.

    ``claims``: per member its claimed numbers and their generation. ``fields``: per member the generation field of the
    subscription. ``silent``: members without any generation. ``unsubscribed``: per member its claimed partitions of
    topics without a subscriber. ``walk``: the members in the order of the leader's hash map.
    """

    numbering: Numbering
    claims: Sequence[Claimed]
    fields: Sequence[int]
    silent: frozenset[int]
    unsubscribed: Sequence[frozenset[TopicPartition]]
    walk: Sequence[int]


@frozen
class Held:
    """Per member its rightful partitions, and the disputed partitions.

    A partition is disputed if several members claim it with the same generation.
    """

    numbers: Sequence[list[int]]
    disputed: frozenset[int] = frozenset()


Owners: TypeAlias = Callable[[GroupClaims], Held]
Shares: TypeAlias = Callable[[GroupClaims, Held, Racks | None], tuple[list[list[int]], dict[int, int]]]
"""The algorithm for equal subscriptions. Result: each member's numbers, and per moving number the new owner."""


@frozen
class StickyRelease:
    """The decisions of a release's classes.

    ``owners``: the rule for valid claims if all subscriptions are equal. ``shares``: the algorithm for equal
    subscriptions; None: partitions are assigned one by one.
    ``general``: the rule for valid claims if subscriptions differ.
    ``previous``: per partition the owner before the current owner.
    ``in_circle``: without any claims, equally subscribed members get partitions in a circle, ordered by member id.
    ``in_turn``: with equal subscriptions, partitions are ordered by taking one from the member with most partitions
    left.
    ``margin``: the field of ``one_by_one.ToShareOut``.
    ``second_read``: the claim that Kafka's class reads when it reads a member's user data a second time. Kafka's class
    reads all members before the first member with another subscription a second time.
    """

    owners: Owners
    shares: Shares | None
    general: Owners
    previous: Callable[[GroupClaims], dict[int, int]]
    in_circle: bool = False
    in_turn: bool = False
    margin: int = 0
    racks: bool = False
    second_read: Callable[[Claimed], Claimed] | None = None


def share(
    topics: Topics,
    members: Mapping[MemberId, Subscriber],
    claimed: Mapping[MemberId, Belongings],
    release: StickyRelease,
    force_racks: bool = False,
) -> Sharing:
    """Assign the partitions. ``sticky.share`` and ``StickyRules`` document the arguments.

    Raises:
        KafkaFails: the release's class returns no usable assignment.
    """
    order = sorted(members)
    subscribed = subscriptions(members, order)
    numbering = number_partitions(topics, chain.from_iterable(dict.fromkeys(subscribed)))
    group = _read_claims(members, order, claimed, numbering)
    racks = _racks(topics, members, order, numbering, force_racks) if release.racks else None
    alike = len(dict.fromkeys(subscribed)) == 1
    if alike and release.in_circle and racks is None and not any(numbers for numbers, _ in group.claims):
        # Without claims and racks, the circle of members is a slice per member.
        return Sharing({member: numbering.partitions[at :: len(order)] for at, member in enumerate(order)}, {})
    if alike and release.shares is not None:
        results, moving = release.shares(group, release.owners(group), racks)
    else:
        results = _one_by_one(group, subscribed, release, racks, members, order)
        moving = _moving(group, results)
    partition = numbering.partitions.__getitem__
    return Sharing(
        {member: list(map(partition, numbers)) for member, numbers in zip(order, results, strict=True)},
        {partition(number): order[member] for number, member in moving.items()},
    )


def _read_claims(
    members: Mapping[MemberId, Subscriber],
    order: Sequence[MemberId],
    claimed: Mapping[MemberId, Belongings],
    numbering: Numbering,
) -> GroupClaims:
    place = {member: place for place, member in enumerate(order)}
    claims, unsubscribed = [], []
    for member in order:
        partitions, generation = claimed.get(member, ((), NO_GENERATION))
        numbers = numbering.numbers(partitions)
        claims.append((numbers, max(generation, NO_GENERATION)))
        known = (numbering.partitions[number] for number in numbers)
        unsubscribed.append(frozenset(partitions).difference(known) if len(numbers) < len(partitions) else frozenset())
    fields = [members[member].generation for member in order]
    silent = frozenset(member for member, (_, generation) in enumerate(claims) if generation == NO_GENERATION)
    return GroupClaims(numbering, claims, fields, silent, unsubscribed, [place[member] for member in hash_order(order)])


def _racks(
    topics: Topics,
    members: Mapping[MemberId, Subscriber],
    order: Sequence[MemberId],
    numbering: Numbering,
    forced: bool,
) -> Racks | None:
    at_racks = [members[member].rack or None for member in order]
    if not topics.replica_racks or not any(at_racks):
        return None
    partitions: list[RackSet] = []
    for topic in numbering.topics:
        partitions += partition_racks(topics, topic)
    return Racks(at_racks, partitions) if use_racks([rack for rack in at_racks if rack], partitions, forced) else None


def _one_by_one(
    group: GroupClaims,
    subscribed: Sequence[tuple[str, ...]],
    release: StickyRelease,
    racks: Racks | None,
    members: Mapping[MemberId, Subscriber],
    order: Sequence[MemberId],
) -> list[list[int]]:
    from kemu.protocol.assign.search.one_by_one import ToShareOut, share_out  # late: most runs do not need it

    seen = group if release.second_read is None else _after_second_read(group, subscribed, release.second_read)
    held, previous = release.general(seen).numbers, release.previous(seen)
    known = {tuple(topic for topic in topics if topic in group.numbering.sizes) for topics in subscribed}
    turns = None
    if release.in_turn and len(known) == 1 and (any(held) or any(seen.unsubscribed)):
        topics = hash_map_order(hash_map_order(topic for at in group.walk for topic in members[order[at]].topics))
        turns = _turns(group.numbering, [topic for topic in topics if topic in group.numbering.sizes], held, previous)
    return share_out(ToShareOut(subscribed, held, previous, group.numbering, release.margin, racks, turns))


def _after_second_read(
    group: GroupClaims, subscribed: Sequence[tuple[str, ...]], second_read: Callable[[Claimed], Claimed]
) -> GroupClaims:
    first = subscribed[group.walk[0]]
    before = frozenset(takewhile(lambda member: subscribed[member] == first, group.walk))
    claims = [second_read(claim) if member in before else claim for member, claim in enumerate(group.claims)]
    unsubscribed = [
        frozenset() if member in before and second_read is empty_claim else left
        for member, left in enumerate(group.unsubscribed)
    ]
    return evolve(group, claims=claims, unsubscribed=unsubscribed)


def empty_claim(claim: Claimed) -> Claimed:
    """The claim that Kafka reads when it reads ``sticky``'s user data a second time: no partitions."""
    return (), NO_GENERATION


def without_generation(claim: Claimed) -> Claimed:
    """The claim that Kafka reads when it reads a member a second time for ``cooperative-sticky``: no generation."""
    return claim[0], NO_GENERATION


def _moving(group: GroupClaims, results: Sequence[Sequence[int]]) -> dict[int, int]:
    """Number -> new owner, for each claimed partition that moves to a member without a claim to the partition.

    Source: ``CooperativeStickyAssignor.computePartitionsTransferringOwnership``.
    """
    added: dict[int, int] = {}
    revoked: set[int] = set()
    for member, ((claimed, _), result) in enumerate(zip(group.claims, results, strict=True)):
        before, now = frozenset(claimed), frozenset(result)
        added.update((number, member) for number in result if number not in before)
        revoked.update(number for number in claimed if number not in now)
    return {number: member for number, member in added.items() if number in revoked}


# --- valid claims --------------------------------------------------------------------------------------------------


def _all_held(group: GroupClaims) -> Held | None:
    """All claims unchanged; None if two members claim the same partition."""
    claims = [numbers for numbers, _ in group.claims]
    unique = len(frozenset(chain.from_iterable(claims))) == sum(map(len, claims))
    return Held([list(numbers) for numbers in claims]) if unique else None


def newer_claim(group: GroupClaims) -> Held:
    """Per partition the claim with the higher generation; a partition claimed by equal generations has no owner.

    A claim is compared with the generation in the other member's subscription, not in its user data.
    Source: KAFKA-14639.
    """
    return _all_held(group) or _newer(group, last_is_other=False)


def newer_claim_up_to_3_4(group: GroupClaims) -> Held:
    """Like ``newer_claim``, but each claim is compared with the claim read before it, even with an invalid claim."""
    return _all_held(group) or _newer(group, last_is_other=True)


def _newer(group: GroupClaims, last_is_other: bool) -> Held:
    holder: dict[int, int] = {}
    held: list[dict[int, None]] = [{} for _ in group.claims]
    disputed = set()
    for member in group.walk:
        numbers, generation = group.claims[member]
        for number in numbers:
            other = holder.get(number)
            if other is None:
                held[member][number] = None
                holder[number] = member
                continue
            if generation == group.fields[other]:
                disputed.add(number)
                held[other].pop(number, None)
                holder[number] = member
            elif generation > group.fields[other]:
                held[other].pop(number, None)
                held[member][number] = None
                holder[number] = member
            elif last_is_other:
                holder[number] = member
    return _without_duplicates(Held([list(numbers) for numbers in held], frozenset(disputed)))


def newest_generation(group: GroupClaims) -> Held:
    """Only claims of the highest generation; a partition that two members of this generation claim is disputed.

    Source: 2.8.2, 3.0.2, ``AbstractStickyAssignor.allSubscriptionsEqual``.
    """
    return _newest(group, disputes=True)


def newest_generation_up_to_2_7(group: GroupClaims) -> Held:
    """Like ``newest_generation``, but two members that claim the same partition both keep it."""
    return _newest(group, disputes=False)


def _newest(group: GroupClaims, disputes: bool) -> Held:
    newest = max((generation for _, generation in group.claims), default=NO_GENERATION)
    held: list[dict[int, None]] = [{} for _ in group.claims]
    holder: dict[int, int] = {}
    disputed = set()
    for member in group.walk:
        numbers, generation = group.claims[member]
        for number in numbers if generation == newest else ():
            if disputes and number in holder:
                held[holder[number]].pop(number, None)
                disputed.add(number)
            else:
                holder[number] = member
                held[member][number] = None
    return _without_duplicates(Held([list(numbers) for numbers in held], frozenset(disputed)))


def _without_duplicates(held: Held) -> Held:
    if len(frozenset(chain.from_iterable(held.numbers))) < sum(map(len, held.numbers)):
        raise KafkaFails("two members keep the same partition")
    return held


def by_generation(group: GroupClaims) -> Held:
    """Each partition belongs to its newest claim; members list their partitions in the order of a hash map.

    Source: up to 2.8, ``AbstractStickyAssignor.prepopulateCurrentAssignments``.
    """
    held: list[list[int]] = [[] for _ in group.claims]
    for number, by in _generations(group):
        held[by[max(by)]].append(number)
    return Held(held)


def claim_before(group: GroupClaims) -> dict[int, int]:
    """Number -> the member with the second newest claim. Source: ``AbstractStickyAssignor`` up to 2.8."""
    return {number: by[sorted(by)[-2]] for number, by in _generations(group) if len(by) > 1}


def _generations(group: GroupClaims) -> list[tuple[int, dict[int, int]]]:
    """Numbers in hash order, each with its claims: generation -> claiming member.

    Of several claims with the same generation, the first one read is valid. Of claims without a generation, the last
    one read is valid.
    """
    found: dict[int, dict[int, int]] = {}
    for member in group.walk:
        numbers, generation = group.claims[member]
        for number in numbers:
            by = found.setdefault(number, {})
            if member in group.silent or generation not in by:
                by[generation] = member
    partitions = group.numbering.partitions
    others = len(frozenset[TopicPartition]().union(*group.unsubscribed))
    number_of = {partitions[number]: number for number in found}
    return [(number_of[one], found[number_of[one]]) for one in partitions_in_hash_order(number_of, others)]


def stale_claims(group: GroupClaims) -> dict[int, int]:
    """Number -> the member with the newest claim among all claims older than the highest generation.

    Source: since 3.0, ``AbstractStickyAssignor.prepopulateCurrentAssignments``.
    """
    newest = max((generation for _, generation in group.claims), default=NO_GENERATION)
    before: dict[int, tuple[int, int]] = {}
    for member in group.walk:
        numbers, generation = group.claims[member]
        for number in numbers if generation < newest else ():
            if number not in before or generation > before[number][1]:
                before[number] = member, generation
    return {number: member for number, (member, _) in before.items()}


# --- assignment for equal subscriptions ----------------------------------------------------------------------------


def quotas(group: GroupClaims, held: Held, racks: Racks | None) -> tuple[list[list[int]], dict[int, int]]:
    """Members keep partitions up to the quota, and as many members as possible keep one more. Members below the quota
    get the other partitions.

    Members keep their lowest partition numbers (KAFKA-16277). A partition moves if its owner's rack has no replica. The
    owner must revoke every moving partition first (KAFKA-15170).

    Source: since 3.7.1.
    """
    return _quotas(group, held, racks, fixed=True)


def quotas_up_to_3_7(group: GroupClaims, held: Held, racks: Racks | None) -> tuple[list[list[int]], dict[int, int]]:
    """Like ``quotas`` before KAFKA-16277 and KAFKA-15170: members keep the partitions that they list first. A partition
    without a replica on its owner's rack moves at once.

    Two members may therefore own such a partition for some time. With racks, too many members may exceed the quota, and
    other members remain below the quota.

    Source: 3.0 to 3.7.0.
    """
    return _quotas(group, held, racks, fixed=False)


def _quotas(group: GroupClaims, held: Held, racks: Racks | None, fixed: bool) -> tuple[list[list[int]], dict[int, int]]:
    from kemu.protocol.assign.search.constrained import share_out  # late: most runs do not need it

    numbering, owners = group.numbering, held.numbers
    kept = []
    owned: list[list[int]] = []
    for member, numbers in enumerate(owners):
        mine = [n for n in numbers if n not in held.disputed] if held.disputed else list(numbers)
        if racks is not None:
            mine = [number for number in mine if racks.near(member, number)]
        owned.append(numbers if fixed else mine[:])
        if fixed:
            # Two stable sorts: by topic, then by partition number.
            mine.sort()
            mine.sort(key=lambda number: numbering.partitions[number][1])
        kept.append(mine)
    shares = share_out(kept, numbering.total, group.walk, racks, bounded=fixed)
    owner: dict[int, int] = {}
    for member, numbers in enumerate(owned):
        if len(shares.kept[member]) < len(numbers):
            owner.update(dict.fromkeys(numbers, member))
    moving = {
        number: member
        for member, given in enumerate(shares.given)
        for number in given
        if number in held.disputed or owner.get(number, member) != member
    }
    return [mine + given for mine, given in zip(shares.kept, shares.given, strict=True)], moving


def quotas_up_to_2_8(group: GroupClaims, held: Held, racks: Racks | None) -> tuple[list[list[int]], dict[int, int]]:
    """Members keep partitions up to the higher quota; members below the lower quota take the first partitions of
    others.

    Source: 2.5 to 2.8, ``AbstractStickyAssignor.constrainedAssign``.
    """
    total, count = group.numbering.total, len(held.numbers)
    low, high = total // count, -(-total // count)
    owned = [[number for number in numbers if number not in held.disputed] for numbers in held.numbers]
    results = [numbers[:high] for numbers in owned]
    withheld = held.disputed.union(*(numbers[high:] for numbers in owned))
    kept = frozenset(chain.from_iterable(results))
    left = deque(number for number in range(total) if number not in kept)
    under = sorted(member for member in group.walk if len(owned[member]) < low)
    at_low = deque(member for member in group.walk if len(owned[member]) >= low == len(results[member]))
    at_high = deque(member for member in group.walk if len(owned[member]) >= low and len(results[member]) == high)
    moving: dict[int, int] = {}

    def give(member: int) -> None:
        number = left.popleft()
        results[member].append(number)
        if number in withheld:
            moving[number] = member

    while under and left:
        for member in under[: len(left)]:
            give(member)
            if len(results[member]) == low:
                at_low.append(member)
        under = [member for member in under if len(results[member]) < low]
    for member in under:
        while len(results[member]) < low:
            if not at_high:
                raise KafkaFails("members are below the quota, and no member is above it")
            number = results[at_high.popleft()].pop(0)
            results[member].append(number)
            moving[number] = member
        at_low.append(member)
    while left:
        if not at_low:
            raise KafkaFails("partitions are left, and no member is below the quota")
        give(at_low.popleft())
    return results, moving


def _turns(
    numbering: Numbering, topics: Iterable[str], held: Sequence[Sequence[int]], previous: Mapping[int, int]
) -> list[int]:
    """All numbers in the order of examination: repeatedly one number of the member with most numbers left.

    A member's numbers with a previous owner precede its other numbers. Numbers without an owner are last.

    Source: 2.4.1, ``AbstractStickyAssignor.sortPartitions``.
    """
    left = [list(numbers) for numbers in held]
    partitions = numbering.partitions
    had_another = {partitions[number]: number for number in previous}
    before = [had_another[one] for one in partitions_in_hash_order(had_another)]
    turns: list[int] = []
    while any(left):
        member = max(range(len(left)), key=lambda one: (len(left[one]), one))
        number = next((number for number in before if number in left[member]), left[member][0])
        left[member].remove(number)
        turns.append(number)
    seen = frozenset(turns)
    everything: list[TopicPartition] = [partitions[n] for topic in topics for n in numbering.of_topic(topic)]
    first = numbering.first
    others = (first[topic] + number for topic, number in partitions_in_hash_order(everything))
    return turns + [number for number in others if number not in seen]


# --- releases ------------------------------------------------------------------------------------------------------

RELEASE_2_4 = StickyRelease(by_generation, None, by_generation, claim_before, in_turn=True)
_RELEASE_2_6 = StickyRelease(newest_generation_up_to_2_7, quotas_up_to_2_8, by_generation, claim_before)
_RELEASE_2_8 = StickyRelease(newest_generation, quotas_up_to_2_8, by_generation, claim_before)
STICKY_RELEASE_2_6 = evolve(_RELEASE_2_6, second_read=empty_claim)
STICKY_RELEASE_2_8 = evolve(_RELEASE_2_8, second_read=empty_claim)
COOPERATIVE_RELEASE_2_6 = _RELEASE_2_6
COOPERATIVE_RELEASE_2_8 = evolve(_RELEASE_2_8, second_read=without_generation)
RELEASE_3_0 = StickyRelease(newest_generation, quotas_up_to_3_7, newest_generation, stale_claims, in_circle=True)
RELEASE_3_4 = StickyRelease(
    newer_claim_up_to_3_4, quotas_up_to_3_7, newer_claim_up_to_3_4, stale_claims, in_circle=True
)
RELEASE_3_7 = StickyRelease(
    newer_claim, quotas_up_to_3_7, newer_claim, stale_claims, in_circle=True, margin=1, racks=True
)
RELEASE_3_9 = StickyRelease(newer_claim, quotas, newer_claim, stale_claims, in_circle=True, margin=1, racks=True)
