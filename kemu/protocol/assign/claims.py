"""Whose claim counts: members say what they own, and may be wrong.

A member that missed a rebalance claims what it owned before it; by now somebody else may own that too. Sticky
assignors must settle this before they preserve anything. The rules here are whole functions, so that a past mistake
is another rule beside the right one, not a branch in it.

Sources: KIP-341 (generation in the sticky user data), KIP-792 (generation in every subscription), KAFKA-14639 (what
a stale member claims and nobody newer does, it keeps).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from kemu.protocol.assign.base import Subscriber
from kemu.protocol.names import MemberId, TopicPartition

NOBODY = -1


@frozen
class Claim:
    """What one member says it owns: partitions as numbers (protocol.assign.numbering), and since which generation."""

    numbers: Sequence[int]
    generation: int


@frozen
class Owners:
    """Per claim, in the order of the claims, the numbers that member rightfully owns."""

    held: list[list[int]]
    disputed: frozenset[int] = frozenset()
    """Numbers that several members of one generation claim: nobody owns them."""


ClaimRule: TypeAlias = Callable[[Sequence[Claim], int], Owners]
"""(claims, number of partitions) -> owners. The result must not depend on the order of the claims' numbers."""


def highest_generation_wins(claims: Sequence[Claim], partitions: int) -> Owners:
    """The claim of the highest generation counts; equal ones cancel each other, so the partition is nobody's.

    Generations are compared per partition: what only a stale member claims stays with it (KAFKA-14639). Equal
    generations prove nothing, because a generation can be used twice after a coordinator failed over in mid-
    rebalance.
    """
    owner = [NOBODY] * partitions
    disputed: list[int] = []
    stale = 0
    newest_first = sorted(range(len(claims)), key=lambda one: -claims[one].generation)
    for one in newest_first:
        for number in claims[one].numbers:
            before = owner[number]
            if before == NOBODY:
                owner[number] = one
            elif before != one and claims[before].generation == claims[one].generation:
                disputed.append(number)
            else:
                stale += 1
    if not disputed and not stale:
        return Owners([list(claim.numbers) for claim in claims])
    for number in disputed:
        owner[number] = NOBODY
    held = [[number for number in _once(claim.numbers) if owner[number] == one] for one, claim in enumerate(claims)]
    return Owners(held, frozenset(disputed))


def only_newest_generation(claims: Sequence[Claim], partitions: int) -> Owners:
    """A past bug: only members of the newest generation own anything; what others claim is nobody's.

    Source: KAFKA-14639: what a member that missed a generation still holds is given to another at once, because the
    leader takes it for free. Claims of equal generation cancel each other, as today.
    """
    newest = max((claim.generation for claim in claims), default=NOBODY)
    current = [Claim(claim.numbers if claim.generation == newest else (), claim.generation) for claim in claims]
    return highest_generation_wins(current, partitions)


def last_claim_wins(claims: Sequence[Claim], partitions: int) -> Owners:
    """A past bug: generations are not looked at, and of two claims the later member's counts.

    Source: KAFKA-12984, KAFKA-13406: cooperative-sticky believed owned partitions of a past generation.
    """
    owner = [NOBODY] * partitions
    for one, claim in enumerate(claims):
        for number in claim.numbers:
            owner[number] = one
    return Owners(
        [[number for number in _once(claim.numbers) if owner[number] == one] for one, claim in enumerate(claims)]
    )


def first_claim_wins(claims: Sequence[Claim], partitions: int) -> Owners:
    """Of two claims the earlier member's counts: all that could be done while claims did not say when they were true.

    Source: Kafka 2.4's ``AbstractStickyAssignor``, in which every claim of ``cooperative-sticky`` has no generation.
    """
    owner = [NOBODY] * partitions
    for one, claim in enumerate(claims):
        for number in claim.numbers:
            if owner[number] == NOBODY:
                owner[number] = one
    return Owners(
        [[number for number in _once(claim.numbers) if owner[number] == one] for one, claim in enumerate(claims)]
    )


def every_claim_counts(claims: Sequence[Claim], partitions: int) -> Owners:
    """A past bug: every claim is preserved, so a partition claimed twice is assigned twice.

    Source: KAFKA-7026, fixed by KIP-341: sticky user data as KIP-54 has it says nothing of when it was true.
    """
    return Owners([list(_once(claim.numbers)) for claim in claims])


@frozen
class Overlap:
    """A partition that more than one member claims to own."""

    partition: TopicPartition
    claims: tuple[tuple[MemberId, int], ...]
    """(member, generation), by member."""
    owner: MemberId | None
    """The one member of the highest generation; None when several share it."""


def validate_subscriptions(members: Mapping[MemberId, Subscriber]) -> tuple[Overlap, ...]:
    """The overlaps in what members claim to own, by partition; empty when there are none.

    For custom cooperative assignors to call before they trust ``Subscriber.owned``.

    Source: KIP-792, "validateSubscription function ... to check that ownedPartitions do not have overlaps".
    """
    return tuple(
        Overlap(partition, tuple(claims), _newest(claims))
        for partition, claims in sorted(_claims_by_partition(members).items())
        if len(claims) > 1
    )


def rightful_owners(members: Mapping[MemberId, Subscriber]) -> dict[TopicPartition, MemberId]:
    """Claimed partition -> the member of the highest generation that claims it; without those nobody rightfully owns.

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


def _once(numbers: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
