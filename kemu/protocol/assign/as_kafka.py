"""The sticky algorithm as each release of Kafka has it: the same owners, in the same lists.

Up to 2.4 every group is shared out one partition at a time. Since 2.5 (KAFKA-9987) groups that all subscribe to the
same are dealt their shares at once: what was owned is kept up to the higher share, and taken back where somebody lacks
the lower one; since 3.0 (KAFKA-12464) only as many keep the higher share as there can be. Racks count
since 3.5 (KIP-881).

Where a release's class throws, never ends, gives a partition to two members or to one that did not ask for it, there is
nothing to be equal to, and ``KafkaFails`` is raised: the caller has an answer of its own.

Source: ``AbstractStickyAssignor`` and ``CooperativeStickyAssignor`` of 2.4.1, 2.6.3, 2.8.2, 3.0.2, 3.4.1, 3.7.0, 3.9.0.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, takewhile
from typing import TypeAlias

from attrs import evolve, frozen

from kemu.protocol.assign.base import Subscriber, Topics
from kemu.protocol.assign.search import constrained
from kemu.protocol.assign.search.failure import KafkaFails
from kemu.protocol.assign.search.hash_maps import partitions_in_hash_order
from kemu.protocol.assign.search.numbering import Numbering, number_partitions
from kemu.protocol.assign.search.one_by_one import ToShareOut, share_out
from kemu.protocol.assign.search.order import hash_map_order, hash_order, subscriptions
from kemu.protocol.assign.search.racks import Racks, RackSet, partition_racks, use_racks
from kemu.protocol.assign.sharing import Belongings, Sharing
from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition

Claimed: TypeAlias = tuple[Sequence[int], int]
"""Numbers and since which generation."""


@frozen
class GroupClaims:
    """What the leader reads of a group. Members are known by their place in the order of ids.

    ``claims``: per member the numbers it says it owns, and since when. ``fields``: per member the generation in the
    subscription itself. ``silent``: who says no generation at all. ``gone``: per member what it says it owns and nobody
    subscribes to any more. ``walk``: the members as the leader's hash map lists them.
    """

    numbering: Numbering
    claims: Sequence[Claimed]
    fields: Sequence[int]
    silent: frozenset[int]
    gone: Sequence[frozenset[TopicPartition]]
    walk: Sequence[int]


@frozen
class Held:
    """Per member what it owns by right; what several claim for the same generation, so that it is withheld."""

    numbers: Sequence[list[int]]
    disputed: frozenset[int] = frozenset()


Owners: TypeAlias = Callable[[GroupClaims], Held]
Shares: TypeAlias = Callable[[GroupClaims, Held, Racks | None], tuple[list[list[int]], dict[int, int]]]
"""How members that all subscribe to the same share: their numbers; what moves and has an owner -> its new one."""


@frozen
class StickyRelease:
    """What a release's classes do.

    ``owners``: whose claims count where all subscribe to the same. ``shares``: how they share then; None: one by one,
    as all others. ``general``: whose count otherwise; ``previous``: who owned a partition before its owner.
    ``in_circle``: where all subscribe to the same and own nothing, partitions go round by id. ``in_turn``: where all
    subscribe to the same, whoever has most partitions left is looked at next. ``margin``: see ``one_by_one``.
    ``read_again``: what the second look at a claim finds, at those that were looked at before the first member that
    subscribes to something else: user data that was read is at its end.
    """

    owners: Owners
    shares: Shares | None
    general: Owners
    previous: Callable[[GroupClaims], dict[int, int]]
    in_circle: bool = False
    in_turn: bool = False
    margin: int = 0
    racks: bool = False
    read_again: Callable[[Claimed], Claimed] | None = None


def share(
    topics: Topics,
    members: Mapping[MemberId, Subscriber],
    claimed: Mapping[MemberId, Belongings],
    release: StickyRelease,
    force_racks: bool = False,
) -> Sharing:
    """Who gets what, and what has to be given up before; arguments as of ``sticky.share`` and ``StickyRules``.

    Raises:
        KafkaFails: the release's class gives nothing that could be used.
    """
    order = sorted(members)
    subscribed = subscriptions(members, order)
    numbering = number_partitions(topics, chain.from_iterable(dict.fromkeys(subscribed)))
    told = _told(members, order, claimed, numbering)
    racks = _racks(topics, members, order, numbering, force_racks) if release.racks else None
    alike = len(dict.fromkeys(subscribed)) == 1
    if alike and release.in_circle and racks is None and not any(numbers for numbers, _ in told.claims):
        # Nothing to preserve and nobody to prefer: dealing in a circle is slicing.
        return Sharing({member: numbering.partitions[at :: len(order)] for at, member in enumerate(order)}, {})
    if alike and release.shares is not None:
        results, moving = release.shares(told, release.owners(told), racks)
    else:
        results = _one_by_one(told, subscribed, release, racks, members, order)
        moving = _moving(told, results)
    partition = numbering.partitions.__getitem__
    return Sharing(
        {member: list(map(partition, numbers)) for member, numbers in zip(order, results, strict=True)},
        {partition(number): order[member] for number, member in moving.items()},
    )


def _told(
    members: Mapping[MemberId, Subscriber],
    order: Sequence[MemberId],
    claimed: Mapping[MemberId, Belongings],
    numbering: Numbering,
) -> GroupClaims:
    place = {member: place for place, member in enumerate(order)}
    claims, gone = [], []
    for member in order:
        partitions, generation = claimed.get(member, ((), NO_GENERATION))
        numbers = numbering.numbers(partitions)
        claims.append((numbers, max(generation, NO_GENERATION)))
        known = (numbering.partitions[number] for number in numbers)
        gone.append(frozenset(partitions).difference(known) if len(numbers) < len(partitions) else frozenset())
    fields = [members[member].generation for member in order]
    silent = frozenset(member for member, (_, generation) in enumerate(claims) if generation == NO_GENERATION)
    return GroupClaims(numbering, claims, fields, silent, gone, [place[member] for member in hash_order(order)])


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
    told: GroupClaims,
    subscribed: Sequence[tuple[str, ...]],
    release: StickyRelease,
    racks: Racks | None,
    members: Mapping[MemberId, Subscriber],
    order: Sequence[MemberId],
) -> list[list[int]]:
    seen = told if release.read_again is None else _read_again(told, subscribed, release.read_again)
    held, previous = release.general(seen).numbers, release.previous(seen)
    known = {tuple(topic for topic in topics if topic in told.numbering.sizes) for topics in subscribed}
    turns = None
    if release.in_turn and len(known) == 1 and (any(held) or any(seen.gone)):
        topics = hash_map_order(hash_map_order(topic for at in told.walk for topic in members[order[at]].topics))
        turns = _turns(told.numbering, [topic for topic in topics if topic in told.numbering.sizes], held, previous)
    return share_out(ToShareOut(subscribed, held, previous, told.numbering, release.margin, racks, turns))


def _read_again(
    told: GroupClaims, subscribed: Sequence[tuple[str, ...]], again: Callable[[Claimed], Claimed]
) -> GroupClaims:
    first = subscribed[told.walk[0]]
    before = frozenset(takewhile(lambda member: subscribed[member] == first, told.walk))
    claims = [again(claim) if member in before else claim for member, claim in enumerate(told.claims)]
    gone = [frozenset() if member in before and again is nothing else left for member, left in enumerate(told.gone)]
    return evolve(told, claims=claims, gone=gone)


def nothing(claim: Claimed) -> Claimed:
    """Of ``sticky``: all of the claim was in the user data."""
    return (), NO_GENERATION


def without_generation(claim: Claimed) -> Claimed:
    """Of ``cooperative-sticky``: partitions are in the subscription itself; the generation counts as -1."""
    return claim[0], NO_GENERATION


def _moving(told: GroupClaims, results: Sequence[Sequence[int]]) -> dict[int, int]:
    """What a member gets that it does not claim, while one that claims it does not get it.

    Source: ``CooperativeStickyAssignor.computePartitionsTransferringOwnership``.
    """
    added: dict[int, int] = {}
    revoked: set[int] = set()
    for member, ((claimed, _), result) in enumerate(zip(told.claims, results, strict=True)):
        before, now = frozenset(claimed), frozenset(result)
        added.update((number, member) for number in result if number not in before)
        revoked.update(number for number in claimed if number not in now)
    return {number: member for number, member in added.items() if number in revoked}


# --- whose claims count --------------------------------------------------------------------------------------------


def _all_held(told: GroupClaims) -> Held | None:
    """Everybody holds what it claims; None: something is claimed twice."""
    claims = [numbers for numbers, _ in told.claims]
    once = len(frozenset(chain.from_iterable(claims))) == sum(map(len, claims))
    return Held([list(numbers) for numbers in claims]) if once else None


def newer_claim(told: GroupClaims) -> Held:
    """The higher generation's claim, partition by partition; equal ones are disputed, and nobody's (KAFKA-14639).

    A claim is compared with the generation that the other member's subscription says, whatever its user data does.
    """
    return _all_held(told) or _newer(told, last_is_other=False)


def newer_claim_up_to_3_4(told: GroupClaims) -> Held:
    """The same, but the next claim is compared with the one that was looked at last, also if that one did not count."""
    return _all_held(told) or _newer(told, last_is_other=True)


def _newer(told: GroupClaims, last_is_other: bool) -> Held:
    holder: dict[int, int] = {}
    held: list[dict[int, None]] = [{} for _ in told.claims]
    disputed = set()
    for member in told.walk:
        numbers, generation = told.claims[member]
        for number in numbers:
            other = holder.get(number)
            if other is None:
                held[member][number] = None
                holder[number] = member
                continue
            if generation == told.fields[other]:
                disputed.add(number)
                held[other].pop(number, None)
                holder[number] = member
            elif generation > told.fields[other]:
                held[other].pop(number, None)
                held[member][number] = None
                holder[number] = member
            elif last_is_other:
                holder[number] = member
    return _unless_twice(Held([list(numbers) for numbers in held], frozenset(disputed)))


def newest_generation(told: GroupClaims) -> Held:
    """Claims of the highest generation alone; what two of its members claim is disputed.

    Source: 2.8.2, 3.0.2, ``AbstractStickyAssignor.allSubscriptionsEqual``.
    """
    return _newest(told, disputes=True)


def newest_generation_up_to_2_7(told: GroupClaims) -> Held:
    """The same, but what two of its members claim both hold."""
    return _newest(told, disputes=False)


def _newest(told: GroupClaims, disputes: bool) -> Held:
    newest = max((generation for _, generation in told.claims), default=NO_GENERATION)
    held: list[dict[int, None]] = [{} for _ in told.claims]
    holder: dict[int, int] = {}
    disputed = set()
    for member in told.walk:
        numbers, generation = told.claims[member]
        for number in numbers if generation == newest else ():
            if disputes and number in holder:
                held[holder[number]].pop(number, None)
                disputed.add(number)
            else:
                holder[number] = member
                held[member][number] = None
    return _unless_twice(Held([list(numbers) for numbers in held], frozenset(disputed)))


def _unless_twice(held: Held) -> Held:
    if len(frozenset(chain.from_iterable(held.numbers))) < sum(map(len, held.numbers)):
        raise KafkaFails("two members keep the same partition")
    return held


def by_generation(told: GroupClaims) -> Held:
    """Each partition is its newest claim's; members list what they own as a hash map lists the partitions.

    Source: up to 2.8, ``AbstractStickyAssignor.prepopulateCurrentAssignments``.
    """
    held: list[list[int]] = [[] for _ in told.claims]
    for number, by in _generations(told):
        held[by[max(by)]].append(number)
    return Held(held)


def claim_before(told: GroupClaims) -> dict[int, int]:
    """Number -> whose claim is the second newest; from the same place."""
    return {number: by[sorted(by)[-2]] for number, by in _generations(told) if len(by) > 1}


def _generations(told: GroupClaims) -> list[tuple[int, dict[int, int]]]:
    """Numbers in hash order -> generation -> who claims it; of two the first, if they say no generation the last."""
    found: dict[int, dict[int, int]] = {}
    for member in told.walk:
        numbers, generation = told.claims[member]
        for number in numbers:
            by = found.setdefault(number, {})
            if member in told.silent or generation not in by:
                by[generation] = member
    partitions = told.numbering.partitions
    others = len(frozenset[TopicPartition]().union(*told.gone))
    number_of = {partitions[number]: number for number in found}
    return [(number_of[one], found[number_of[one]]) for one in partitions_in_hash_order(number_of, others)]


def stale_claims(told: GroupClaims) -> dict[int, int]:
    """Number -> whose claim is the newest of those older than the highest generation.

    Source: since 3.0, ``AbstractStickyAssignor.prepopulateCurrentAssignments``.
    """
    newest = max((generation for _, generation in told.claims), default=NO_GENERATION)
    before: dict[int, tuple[int, int]] = {}
    for member in told.walk:
        numbers, generation = told.claims[member]
        for number in numbers if generation < newest else ():
            if number not in before or generation > before[number][1]:
                before[number] = member, generation
    return {number: member for number, (member, _) in before.items()}


# --- how members share that subscribe to the same ------------------------------------------------------------------


def quotas(told: GroupClaims, held: Held, racks: Racks | None) -> tuple[list[list[int]], dict[int, int]]:
    """Keep up to the share, as many as can one more; deal the rest to those below.

    Everybody keeps its lowest partition numbers first (KAFKA-16277). What is not on its owner's rack is dealt anew, and
    its owner has to give it up first, as anything that moves (KAFKA-15170).

    Source: since 3.7.1.
    """
    return _quotas(told, held, racks, fixed=True)


def quotas_up_to_3_7(told: GroupClaims, held: Held, racks: Racks | None) -> tuple[list[list[int]], dict[int, int]]:
    """The same without both: members keep what they name first; another gets what left its owner's rack at once, so
    that for a while both have it; and with racks so many may get one above the share that others lack some.

    Source: 3.0 to 3.7.0.
    """
    return _quotas(told, held, racks, fixed=False)


def _quotas(told: GroupClaims, held: Held, racks: Racks | None, fixed: bool) -> tuple[list[list[int]], dict[int, int]]:
    numbering, owners = told.numbering, held.numbers
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
    shares = constrained.share_out(kept, numbering.total, told.walk, racks, bounded=fixed)
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


def taken_back(told: GroupClaims, held: Held, racks: Racks | None) -> tuple[list[list[int]], dict[int, int]]:
    """Everybody keeps up to the higher share; who then lacks the lower one is given the first ones of the others.

    Source: 2.5 to 2.8, ``AbstractStickyAssignor.constrainedAssign``.
    """
    total, count = told.numbering.total, len(held.numbers)
    low, high = total // count, -(-total // count)
    owned = [[number for number in numbers if number not in held.disputed] for numbers in held.numbers]
    results = [numbers[:high] for numbers in owned]
    withheld = held.disputed.union(*(numbers[high:] for numbers in owned))
    kept = frozenset(chain.from_iterable(results))
    left = deque(number for number in range(total) if number not in kept)
    under = sorted(member for member in told.walk if len(owned[member]) < low)
    at_low = deque(member for member in told.walk if len(owned[member]) >= low == len(results[member]))
    at_high = deque(member for member in told.walk if len(owned[member]) >= low and len(results[member]) == high)
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
                raise KafkaFails("members lack partitions, and nobody has one too many")
            number = results[at_high.popleft()].pop(0)
            results[member].append(number)
            moving[number] = member
        at_low.append(member)
    while left:
        if not at_low:
            raise KafkaFails("partitions are left, and nobody lacks one")
        give(at_low.popleft())
    return results, moving


def _turns(
    numbering: Numbering, topics: Iterable[str], held: Sequence[Sequence[int]], previous: Mapping[int, int]
) -> list[int]:
    """All numbers: one of whoever has most left, the ones with another owner before first; then what nobody owns.

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
_RELEASE_2_6 = StickyRelease(newest_generation_up_to_2_7, taken_back, by_generation, claim_before)
_RELEASE_2_8 = StickyRelease(newest_generation, taken_back, by_generation, claim_before)
STICKY_RELEASE_2_6 = evolve(_RELEASE_2_6, read_again=nothing)
STICKY_RELEASE_2_8 = evolve(_RELEASE_2_8, read_again=nothing)
COOPERATIVE_RELEASE_2_6 = _RELEASE_2_6
COOPERATIVE_RELEASE_2_8 = evolve(_RELEASE_2_8, read_again=without_generation)
RELEASE_3_0 = StickyRelease(newest_generation, quotas_up_to_3_7, newest_generation, stale_claims, in_circle=True)
RELEASE_3_4 = StickyRelease(
    newer_claim_up_to_3_4, quotas_up_to_3_7, newer_claim_up_to_3_4, stale_claims, in_circle=True
)
RELEASE_3_7 = StickyRelease(
    newer_claim, quotas_up_to_3_7, newer_claim, stale_claims, in_circle=True, margin=1, racks=True
)
RELEASE_3_9 = StickyRelease(newer_claim, quotas, newer_claim, stale_claims, in_circle=True, margin=1, racks=True)
