"""Conflicting claims: members send the partitions that they own, and may be wrong.

A member that missed a rebalance claims its former partitions, which may have another owner by now. Sticky assignors
must resolve such conflicts before they preserve anything. Each rule here is a whole function, so that a past bug is
another rule beside the right one, not a branch in it.

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
    """One member's claim: partitions as numbers (protocol.assign.search.numbering), and the generation they are
    from.
    """

    numbers: Sequence[int]
    generation: int


@frozen
class Owners:
    """Per claim, in the order of the claims, the numbers that the member rightfully owns."""

    held: list[list[int]]
    disputed: frozenset[int] = frozenset()
    """Numbers that several members of one generation claim: they have no owner."""


ClaimRule: TypeAlias = Callable[[Sequence[Claim], int], Owners]
"""(claims, number of partitions) -> owners. The result must not depend on the order of the claims' numbers."""


def highest_generation_wins(claims: Sequence[Claim], partitions: int) -> Owners:
    """The claim of the highest generation counts; equal ones cancel each other, so the partition has no owner.

    Generations are compared per partition: a stale member keeps a partition that only it claims (KAFKA-14639). Equal
    generations prove nothing: after a coordinator failed over during a rebalance, a generation may be used a second
    time.
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
    """A past bug: only members of the newest generation own anything; all other claims are dropped.

    Source: KAFKA-14639: the partitions of a member that missed a generation are assigned to others at once, as the
    leader considers them free. Claims of equal generation cancel each other, as today.
    """
    newest = max((claim.generation for claim in claims), default=NO_OWNER)
    current = [Claim(claim.numbers if claim.generation == newest else (), claim.generation) for claim in claims]
    return highest_generation_wins(current, partitions)


def last_claim_wins(claims: Sequence[Claim], partitions: int) -> Owners:
    """A past bug: generations are ignored, and of two claims the later member's counts.

    Source: KAFKA-12984, KAFKA-13406: cooperative-sticky trusted owned partitions of a past generation.
    """
    owner = [NO_OWNER] * partitions
    for one, claim in enumerate(claims):
        for number in claim.numbers:
            owner[number] = one
    return Owners(
        [[number for number in _unique(claim.numbers) if owner[number] == one] for one, claim in enumerate(claims)]
    )


def first_claim_wins(claims: Sequence[Claim], partitions: int) -> Owners:
    """Of two claims the earlier member's counts: the only possible rule while claims had no generation.

    Source: Kafka 2.4's ``AbstractStickyAssignor``, in which every claim of ``cooperative-sticky`` has no generation.
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
    """A past bug: every claim is preserved, so a partition claimed by two members is assigned to both.

    Source: KAFKA-7026, fixed by KIP-341: sticky user data in KIP-54's layout has no generation.
    """
    return Owners([list(_unique(claim.numbers)) for claim in claims])


@frozen
class Overlap:
    """A partition that more than one member claims to own."""

    partition: TopicPartition
    claims: tuple[tuple[MemberId, int], ...]
    """(member, generation), by member."""
    owner: MemberId | None
    """The one member of the highest generation; None when several share it."""


def validate_subscriptions(members: Mapping[MemberId, Subscriber]) -> tuple[Overlap, ...]:
    """The overlaps in the members' claims, by partition; empty when there are none.

    For custom cooperative assignors to call before they trust ``Subscriber.owned``.

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

    Source: KIP-792; the rule is ``highest_generation_wins``.
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
