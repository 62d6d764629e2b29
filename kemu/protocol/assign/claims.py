"""Conflicting claims: members send the partitions that they own, and may be wrong.

A member that missed a rebalance claims its former partitions, which may have another owner by now. Sticky assignors
must resolve such conflicts first. Each rule in this module is a whole function. So a past bug is another rule beside
the correct rule, not a branch in it.

Sources: KIP-341 (generation in the sticky user data), KIP-792 (generation in every subscription), KAFKA-14639 (a stale
member keeps a claim that no newer member makes).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kemu.protocol.assign.base import Subscriber
from kemu.protocol.frozen import frozen
from kemu.protocol.names import MemberId, TopicPartition

NO_OWNER = -1


@frozen
class Claim:
    """One member's claim: its partitions as numbers (protocol.assign.search.numbering), and its generation."""

    numbers: Sequence[int]
    generation: int


@frozen
class Owners:
    """Per claim, in the order of the claims, the numbers that the claiming member rightfully owns."""

    held: list[list[int]]
    disputed: frozenset[int] = frozenset()
    """Numbers without an owner, because several members of one generation claim them."""


ClaimRule: TypeAlias = Callable[[Sequence[Claim], int], Owners]
"""(claims, number of partitions) -> owners. The order of a claim's numbers must not change the result."""


def highest_generation_wins(claims: Sequence[Claim], partitions: int) -> Owners:
    """Of several claims to a partition, the claim of the highest generation is valid. Claims of equal generations are
    invalid, so the partition has no owner.

    Generations are compared per partition: a stale member keeps a partition that no other member claims (KAFKA-14639).
    Claims of equal generations can both be wrong: after a coordinator failover during a rebalance, a generation may be
    used a second time.
    """
    owner = [NO_OWNER] * partitions
    disputed: list[int] = []
    stale = 0
    newest_first = sorted(range(len(claims)), key=lambda one: -claims[one].generation)
    for one in newest_first:
        for number in claims[one].numbers:
            before = owner[number]
            if before == NO_OWNER:
                owner[number] = one
            elif before != one and claims[before].generation == claims[one].generation:
                disputed.append(number)
            else:
                stale += 1
    if not disputed and not stale:
        return Owners([list(claim.numbers) for claim in claims])
    for number in disputed:
        owner[number] = NO_OWNER
    held = [[number for number in _unique(claim.numbers) if owner[number] == one] for one, claim in enumerate(claims)]
    return Owners(held, frozenset(disputed))


def only_newest_generation(claims: Sequence[Claim], partitions: int) -> Owners:
    """A past bug: only members of the newest generation own partitions; all other claims are dropped.

    Source: KAFKA-14639. A member that missed a generation loses its partitions to other members at once, because the
    leader considers the partitions free. Claims of equal generations are invalid, as in fixed releases.
    """
    newest = max((claim.generation for claim in claims), default=NO_OWNER)
    current = [Claim(claim.numbers if claim.generation == newest else (), claim.generation) for claim in claims]
    return highest_generation_wins(current, partitions)


def last_claim_wins(claims: Sequence[Claim], partitions: int) -> Owners:
    """A past bug: of two claims to a partition, the later member's claim is valid, whatever its generation.

    Source: KAFKA-12984, KAFKA-13406: cooperative-sticky accepted owned partitions of a past generation.
    """
    owner = [NO_OWNER] * partitions
    for one, claim in enumerate(claims):
        for number in claim.numbers:
            owner[number] = one
    return Owners(
        [[number for number in _unique(claim.numbers) if owner[number] == one] for one, claim in enumerate(claims)]
    )


def first_claim_wins(claims: Sequence[Claim], partitions: int) -> Owners:
    """Of two claims to a partition, the earlier member's claim is valid: claims had no generation to compare.

    Source: Kafka 2.4's ``AbstractStickyAssignor``; the claims of ``cooperative-sticky`` have no generation there.
    """
    owner = [NO_OWNER] * partitions
    for one, claim in enumerate(claims):
        for number in claim.numbers:
            if owner[number] == NO_OWNER:
                owner[number] = one
    return Owners(
        [[number for number in _unique(claim.numbers) if owner[number] == one] for one, claim in enumerate(claims)]
    )


def every_claim_counts(claims: Sequence[Claim], partitions: int) -> Owners:
    """A past bug: every claim is valid, so a partition claimed by two members is assigned to both.

    Source: KAFKA-7026, fixed by KIP-341. Sticky user data in KIP-54's layout has no generation.
    """
    return Owners([list(_unique(claim.numbers)) for claim in claims])


@frozen
class Overlap:
    """A partition that more than one member claims to own."""

    partition: TopicPartition
    claims: tuple[tuple[MemberId, int], ...]
    """(member, generation), ordered by member."""
    owner: MemberId | None
    """The only member of the highest generation; None when several members share this generation."""


def validate_subscriptions(members: Mapping[MemberId, Subscriber]) -> tuple[Overlap, ...]:
    """The overlaps in the members' claims, ordered by partition; empty if no partition is claimed twice.

    Custom cooperative assignors call this function before they use ``Subscriber.owned``.

    Source: KIP-792, "validateSubscription function ... to check that ownedPartitions do not have overlaps".
    """
    return tuple(
        Overlap(partition, tuple(claims), _newest(claims))
        for partition, claims in sorted(_claims_by_partition(members).items())
        if len(claims) > 1
    )


def rightful_owners(members: Mapping[MemberId, Subscriber]) -> dict[TopicPartition, MemberId]:
    """Claimed partition -> the claiming member of the highest generation. Partitions without a rightful owner are
    absent.

    Source: KIP-792; the function ``highest_generation_wins`` is the rule.
    """
    newest = ((partition, _newest(claims)) for partition, claims in sorted(_claims_by_partition(members).items()))
    return {partition: owner for partition, owner in newest if owner is not None}


def _claims_by_partition(members: Mapping[MemberId, Subscriber]) -> dict[TopicPartition, list[tuple[MemberId, int]]]:
    claims: dict[TopicPartition, list[tuple[MemberId, int]]] = {}
    for member in sorted(members):
        for partition in dict.fromkeys(members[member].owned):
            claims.setdefault(partition, []).append((member, members[member].generation))
    return claims


def _newest(claims: Sequence[tuple[MemberId, int]]) -> MemberId | None:
    newest = max(generation for _, generation in claims)
    owners = [member for member, generation in claims if generation == newest]
    return owners[0] if len(owners) == 1 else None


def _unique(numbers: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
