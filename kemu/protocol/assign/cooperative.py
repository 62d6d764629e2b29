"""The cooperative sticky assignor: the sticky algorithm, with two rebalances for each move (KIP-429).

Members keep their partitions while they join, so the old owner of a moving partition must revoke it before the new
owner may start. The first assignment withholds the partition: its old owner revokes it and joins again. In that
follow-up rebalance no member claims it any more. Partitions that several members of one generation claim are withheld
likewise.
"""

from collections.abc import Mapping

from attrs import evolve

from kemu.protocol.assign.as_kafka import (
    COOPERATIVE_RELEASE_2_6,
    COOPERATIVE_RELEASE_2_8,
    RELEASE_2_4,
    RELEASE_3_0,
    RELEASE_3_4,
    RELEASE_3_7,
    RELEASE_3_9,
    newer_claim,
)
from kemu.protocol.assign.base import Assignment, Assignor, Memory, RebalanceProtocol, Subscriber, Topics
from kemu.protocol.assign.claims import first_claim_wins, last_claim_wins, only_newest_generation
from kemu.protocol.assign.sharing import Belongings, Sharing
from kemu.protocol.assign.sticky import BALANCED, StickyRules, share
from kemu.protocol.assign.user_data import decode_cooperative, encode_cooperative
from kemu.protocol.frozen import frozen
from kemu.protocol.names import NO_GENERATION, MemberId


@frozen
class CooperativeStickyAssignor:
    """A release's ``cooperative-sticky``, ``cooperative-sticky-balanced``, or another variant by its rules."""

    name: str = "cooperative-sticky"
    version: int = 0
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    rules: StickyRules = BALANCED
    tells_generation: bool = True
    """Whether members write the generation into user data and leaders read it: Kafka 2.8.1's way before KIP-792."""

    def user_data(self, memory: Memory | None) -> bytes | None:
        """The generation of the last assignment, for leaders that do not know subscription v2 (KIP-792)."""
        if not self.tells_generation:
            return None
        return encode_cooperative(NO_GENERATION if memory is None else memory.generation)

    def assign(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Assignment:
        """The sticky assignment without the partitions in transfer."""
        sharing = self.share(topics, members)
        if not sharing.transferring:
            return sharing.assignment
        return {
            member: [partition for partition in partitions if partition not in sharing.transferring]
            for member, partitions in sharing.assignment.items()
        }

    def share(self, topics: Topics, members: Mapping[MemberId, Subscriber]) -> Sharing:
        """The sticky algorithm on the members' subscriptions; nothing is withheld yet."""
        claims = {member: belongings(one) for member, one in members.items()}
        if not self.tells_generation:
            claims = {member: (owned, NO_GENERATION) for member, (owned, _) in claims.items()}
        return share(topics, members, claims, self.rules)


COOPERATIVE_STICKY = CooperativeStickyAssignor(rules=StickyRules(release=RELEASE_3_9))
"""Since 3.8."""
COOPERATIVE_STICKY_3_7 = CooperativeStickyAssignor(rules=StickyRules(release=RELEASE_3_7))
COOPERATIVE_STICKY_3_4 = CooperativeStickyAssignor(rules=StickyRules(release=RELEASE_3_4))
COOPERATIVE_STICKY_3_0 = CooperativeStickyAssignor(rules=StickyRules(release=RELEASE_3_0))
COOPERATIVE_STICKY_2_8 = CooperativeStickyAssignor(rules=StickyRules(release=COOPERATIVE_RELEASE_2_8))
COOPERATIVE_STICKY_2_8_MENDED = CooperativeStickyAssignor(
    rules=StickyRules(release=evolve(COOPERATIVE_RELEASE_2_8, owners=newer_claim))
)
"""Without KAFKA-14639: a claim of an older generation counts if no newer claim exists."""
COOPERATIVE_STICKY_2_6 = CooperativeStickyAssignor(
    rules=StickyRules(release=COOPERATIVE_RELEASE_2_6), tells_generation=False
)
COOPERATIVE_STICKY_2_4 = CooperativeStickyAssignor(rules=StickyRules(release=RELEASE_2_4), tells_generation=False)
COOPERATIVE_STICKY_BALANCED = CooperativeStickyAssignor(name="cooperative-sticky-balanced")

COOPERATIVE_STICKY_WITHOUT_GENERATION = CooperativeStickyAssignor(
    rules=StickyRules(owners=first_claim_wins), tells_generation=False
)
"""A past bug: claims have no generation, so of two claims the first one read counts."""

COOPERATIVE_STICKY_OF_NEWEST_ALONE = CooperativeStickyAssignor(
    rules=StickyRules(owners=only_newest_generation, heeds_stale_claims=False)
)
"""A past bug: the partitions of a member that missed a generation count as free (KAFKA-14639)."""

COOPERATIVE_STICKY_BELIEVING_STALE_CLAIMS = CooperativeStickyAssignor(rules=StickyRules(owners=last_claim_wins))
"""A past bug: claims of a past generation by a member that resumes after a long pause are trusted (KAFKA-12984)."""


def belongings(subscriber: Subscriber) -> Belongings:
    """A member's claim according to ``cooperative-sticky``.

    Partitions always come from the subscription. So does the generation if present (v2 and later); older members put it
    into the user data. Source: KIP-792, "For V1 case ...".
    """
    if subscriber.generation >= 0:
        return subscriber.owned, subscriber.generation
    generation = decode_cooperative(subscriber.user_data)
    return subscriber.owned, NO_GENERATION if generation is None else generation


MOST_ROUNDS = 10
"""Kafka's own tests allow 4. With racks one group in 60,000 (random chains of rebalances) needs 5; none needed more."""


class NeverSettles(Exception):
    """A cooperative assignor still takes partitions away after so many follow-up rebalances."""


@frozen
class Settled:
    """The result of a cooperative rebalance with its follow-ups.

    ``first_pass``: the first assignment. ``assignment``: the last one. ``rounds``: number of follow-ups.
    """

    assignment: Assignment
    first_pass: Assignment
    rounds: int


def settle(
    assignor: Assignor, topics: Topics, members: Mapping[MemberId, Subscriber], most_rounds: int = MOST_ROUNDS
) -> Settled:
    """Rebalance until no member has to revoke anything, as members do that revoke and join again.

    Args:
        assignor: any; an eager one settles at once, because its members own nothing during a rebalance.
        topics: the cluster, which does not change meanwhile.
        members: the group at the first rebalance.
        most_rounds: the most follow-ups to allow.

    Raises:
        NeverSettles: members would still revoke after ``most_rounds`` follow-ups.
    """
    assignment = first_pass = assignor.assign(topics, members)
    if RebalanceProtocol.COOPERATIVE not in assignor.protocols:
        return Settled(assignment, first_pass, 0)
    generation = max((one.generation for one in members.values()), default=NO_GENERATION)
    rounds = 0
    while any(not frozenset(members[member].owned) <= frozenset(got) for member, got in assignment.items()):
        if rounds == most_rounds:
            raise NeverSettles(f"{assignor.name} still moves partitions after {most_rounds} follow-up rebalances")
        rounds += 1
        generation += 1
        members = {
            member: evolve(
                one,
                owned=tuple(assignment[member]),
                generation=generation,
                user_data=assignor.user_data(Memory(tuple(assignment[member]), generation)),
            )
            for member, one in members.items()
        }
        assignment = assignor.assign(topics, members)
    return Settled(assignment, first_pass, rounds)
