"""The sticky assignors, which differ in their goals: balance first, stickiness first, or balance alone.

``sticky`` (KIP-54) keeps its memory in user data: the member's last assignment and its generation (KIP-341). ``sticky``
returns exactly the lists of a Kafka release's class. Kafka's class fails on some inputs: it throws, never ends, assigns
a partition twice, or assigns to a member without a subscription. On these inputs ``sticky`` returns the assignment of
``sticky-balanced``.

``sticky-balanced`` reaches KIP-54's goals better if subscriptions differ: the best possible balance, and with rare
exceptions the fewest moves for this balance.

``sticky-first`` and ``fair`` are KIP-54's "alternatives yet to be considered". ``sticky-first`` preserves every
previous assignment that is still valid, and assigns only the other partitions, as fairly as possible. ``fair`` starts
from an empty previous assignment each time.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from kemu.protocol.assign.as_kafka import (
    RELEASE_2_4,
    RELEASE_3_0,
    RELEASE_3_4,
    RELEASE_3_7,
    RELEASE_3_9,
    STICKY_RELEASE_2_6,
    STICKY_RELEASE_2_8,
    StickyRelease,
)
from kemu.protocol.assign.as_kafka import share as share_as_kafka
from kemu.protocol.assign.base import Assignment, Memory, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.assign.claims import Claim, ClaimRule, every_claim_counts, highest_generation_wins
from kemu.protocol.assign.search.failure import KafkaFails
from kemu.protocol.assign.search.numbering import Numbering, number_partitions
from kemu.protocol.assign.search.order import hash_order, subscriptions
from kemu.protocol.assign.search.racks import Racks, RackSet, partition_racks, use_racks
from kemu.protocol.assign.search.score import balance_score
from kemu.protocol.assign.sharing import Belongings, Sharing
from kemu.protocol.assign.user_data import decode_sticky, encode_sticky
from kemu.protocol.frozen import frozen
from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition


@frozen
class StickyRules:
    """The decisions of the sticky algorithm.

    ``owners``: the rule for conflicting claims. ``keep_owned``: prefer stickiness to balance. ``force_racks``: use
    racks even if every partition has a replica on every rack. ``heeds_stale_claims``: a member that claims a partition
    without owning it must revoke the partition first.

    ``release``: the Kafka release whose algorithm is used. On inputs where the release's class fails, and for None,
    kemu's own algorithm is used, which balances better and moves fewer partitions.
    """

    owners: ClaimRule = highest_generation_wins
    keep_owned: bool = False
    force_racks: bool = False
    heeds_stale_claims: bool = True
    release: StickyRelease | None = None


BALANCED = StickyRules()
"""Kemu's own algorithm: the best possible balance and, with rare exceptions, the fewest moves for this balance."""


@frozen
class StickyAssignor:
    """The sticky algorithm with its rules: a release's ``sticky``, ``sticky-balanced``, or another variant.

    ``writes_generation``: False writes the user data of KIP-54, without the generation that KIP-341 added.
    """

    name: str = "sticky"
    version: int = 1
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)
    rules: StickyRules = BALANCED
    writes_generation: bool = True

    def user_data(self, memory: Memory | None) -> bytes | None:
        """The last assignment and its generation; None before the first assignment."""
        if memory is None:
            return None
        return encode_sticky(memory.partitions, memory.generation if self.writes_generation else None)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """The result of ``share``; moving partitions are assigned at once, as all members have revoked their
        partitions.
        """
        return self.share(topics, members).assignment

    def share(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Sharing:
        """The result of the sticky algorithm for the members' user data."""
        return share(topics, members, {member: belongings(one) for member, one in members.items()}, self.rules)


@frozen
class FairAssignor:
    """Balance alone: ``sticky`` with an empty previous assignment (KIP-54, alternatives; the "fair" of KIP-49)."""

    name: str = "fair"
    version: int = 0
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def user_data(self, memory: Memory | None) -> bytes | None:
        """None: ``fair`` needs no memory."""
        return None

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """An assignment that ignores all previous assignments."""
        return share(topics, members, {}, BALANCED).assignment


STICKY = StickyAssignor(rules=StickyRules(release=RELEASE_3_9))
"""``sticky`` since Kafka 3.8."""
STICKY_3_7 = StickyAssignor(rules=StickyRules(release=RELEASE_3_7))
STICKY_3_4 = StickyAssignor(rules=StickyRules(release=RELEASE_3_4))
STICKY_3_0 = StickyAssignor(rules=StickyRules(release=RELEASE_3_0))
STICKY_2_8 = StickyAssignor(rules=StickyRules(release=STICKY_RELEASE_2_8))
STICKY_2_6 = StickyAssignor(rules=StickyRules(release=STICKY_RELEASE_2_6))
STICKY_2_4 = StickyAssignor(rules=StickyRules(release=RELEASE_2_4))
STICKY_BALANCED = StickyAssignor(name="sticky-balanced")
STICKY_FIRST = StickyAssignor(name="sticky-first", rules=StickyRules(keep_owned=True))
FAIR = FairAssignor()

STICKY_WITHOUT_GENERATION = StickyAssignor(
    version=0, rules=StickyRules(owners=every_claim_counts), writes_generation=False
)
"""A past bug: ``sticky`` of KIP-54. A member that missed a rebalance claims partitions that have other owners by now,
and both members get these partitions (KAFKA-7026, fixed by KIP-341).
"""


def belongings(subscriber: Subscriber) -> Belongings:
    """A member's claim for ``sticky``: the user data, never the fields of the subscription."""
    data = decode_sticky(subscriber.user_data)
    return data.partitions, NO_GENERATION if data.generation is None else data.generation


def share(
    topics: Topics,
    members: Mapping[MemberId, Subscriber],
    claimed: Mapping[MemberId, Belongings],
    rules: StickyRules,
) -> Sharing:
    """Assign the partitions, and list the partitions that their owners must revoke first.

    Args:
        topics: the cluster's topics.
        members: the group's members.
        claimed: the members' claims; a member without an entry claims no partition.
        rules: the decisions of the algorithm.
    """
    if rules.release is not None:
        try:
            return share_as_kafka(topics, members, claimed, rules.release, rules.force_racks)
        except KafkaFails:
            pass
    order = sorted(members)
    subscribed = subscriptions(members, order)
    numbering = number_partitions(topics, chain.from_iterable(dict.fromkeys(subscribed)))
    claims = [_claim(numbering, *claimed.get(member, ((), NO_GENERATION))) for member in order]
    alike = len(dict.fromkeys(subscribed)) == 1 and not rules.keep_owned and rules.owners is not every_claim_counts
    heeds_racks = rules.release is None or rules.release.racks
    at_racks = [members[member].rack or None for member in order] if heeds_racks else []
    racks = _racks(topics, at_racks, numbering, rules.force_racks)
    if alike and racks is None and not any(claim.numbers for claim in claims):
        # Without claims and racks, the circle of members is a slice per member.
        return Sharing({member: numbering.partitions[at :: len(order)] for at, member in enumerate(order)}, {})
    owners = rules.owners(claims, numbering.total)

    def shared(held: Sequence[list[int]]) -> list[list[int]]:
        if alike:
            return _share_equally(order, held, numbering, racks)
        from kemu.protocol.assign.search.general import share_out  # late: most runs do not need it

        return share_out(subscribed, held, numbering, racks, rules.keep_owned)

    results = shared(owners.held) if racks is None or rules.keep_owned else _nearest(shared, owners.held, racks)
    if rules.owners is every_claim_counts:
        results = [list(dict.fromkeys(result)) for result in results]
    partition = numbering.partitions.__getitem__
    assignment: Assignment = {
        member: list(map(partition, result)) for member, result in zip(order, results, strict=True)
    }
    if not rules.heeds_stale_claims:
        claims = [Claim(held, claim.generation) for held, claim in zip(owners.held, claims, strict=True)]
    transferring = _transferring(claims, owners.held, results)
    return Sharing(assignment, {partition(number): order[member] for number, member in transferring.items()})


def _claim(numbering: Numbering, partitions: Sequence[TopicPartition], generation: int) -> Claim:
    return Claim(numbering.numbers(partitions), max(generation, NO_GENERATION))


def _racks(topics: Topics, members: Sequence[str | None], numbering: Numbering, forced: bool) -> Racks | None:
    if not topics.replica_racks or not any(members):
        return None
    partitions: list[RackSet] = []
    for topic in numbering.topics:
        partitions += partition_racks(topics, topic)
    named = [rack for rack in members if rack]
    return Racks(members, partitions) if use_racks(named, partitions, forced) else None


def _nearest(
    shared: Callable[[Sequence[list[int]]], list[list[int]]], held: Sequence[list[int]], racks: Racks
) -> list[list[int]]:
    """Racks before stickiness: owners keep only partitions with a replica on their rack, if the result is better.

    Kafka always drops the other claims, and so can move the same partitions again in each follow-up rebalance. Here the
    claims remain if the result has equal balance and as many partitions on their members' racks. So the follow-up
    rebalances end.
    """
    near = [[number for number in numbers if racks.near(member, number)] for member, numbers in enumerate(held)]
    if all(len(some) == len(numbers) for some, numbers in zip(near, held, strict=True)):
        return shared(held)
    moving, staying = shared(near), shared(held)
    return min(staying, moving, key=lambda results: (balance_score(map(len, results)), racks.misses(results)))


def _share_equally(
    members: Sequence[MemberId], held: Sequence[list[int]], numbering: Numbering, racks: Racks | None
) -> list[list[int]]:
    from kemu.protocol.assign.search.constrained import share_out  # late: most runs do not need it

    place = {member: place for place, member in enumerate(members)}
    order = [place[member] for member in hash_order(members)]
    kept = []
    for numbers in held:
        mine = list(numbers)
        # Two stable sorts: by topic, then by partition number. So kept partitions are spread over the topics.
        mine.sort()
        mine.sort(key=lambda number: numbering.partitions[number][1])
        kept.append(mine)
    shares = share_out(kept, numbering.total, order, racks)
    return [mine + given for mine, given in zip(shares.kept, shares.given, strict=True)]


def _transferring(
    claims: Sequence[Claim], held: Sequence[Sequence[int]], results: Sequence[Sequence[int]]
) -> dict[int, int]:
    """Number -> new member, if the new member was not the rightful owner and another member claims the number.

    Stale claims are included: a member that claims a partition may be processing its records.
    """
    if not any(claim.numbers for claim in claims):
        return {}
    new: dict[int, int] = {}
    for member, result in enumerate(results):
        before = frozenset(held[member])
        new.update((number, member) for number in result if number not in before)
    transferring: dict[int, int] = {}
    for member, claim in enumerate(claims):
        for number in claim.numbers:
            if new.get(number, member) != member:
                transferring[number] = new[number]
    return transferring
