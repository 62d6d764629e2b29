"""The cooperative sticky assignor: the sticky algorithm, with two rebalances for each move (KIP-429).

Members keep their partitions while they join. So the old owner of a moving partition must revoke the partition before
the new owner may start. The first assignment withholds the partition; the old owner revokes the partition and joins
again. In the follow-up rebalance no member claims the partition any more. Partitions that several members of one
generation claim are also withheld.
"""

from collections.abc import Mapping

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
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.names import NO_GENERATION, MemberId


@frozen
class CooperativeStickyAssignor:
    """The ``cooperative-sticky`` of a release, ``cooperative-sticky-balanced``, or another variant, chosen by the
    rules.
    """

    name: str = "cooperative-sticky"
    version: int = 0
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    rules: StickyRules = BALANCED
    tells_generation: bool = True
    """Whether members write the generation into user data and leaders read it, as Kafka 2.8.1 does before KIP-792."""

    def user_data(self, memory: Memory | None) -> bytes | None:
        """The generation of the last assignment, for leaders that cannot read subscription v2 (KIP-792)."""
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
        """The result of the sticky algorithm for the members' subscriptions, before any partition is withheld."""
        claims = {member: belongings(one) for member, one in members.items()}
        if not self.tells_generation:
            claims = {member: (owned, NO_GENERATION) for member, (owned, _) in claims.items()}
        return share(topics, members, claims, self.rules)


COOPERATIVE_STICKY = CooperativeStickyAssignor(rules=StickyRules(release=RELEASE_3_9))
"""``cooperative-sticky`` since Kafka 3.8."""
COOPERATIVE_STICKY_3_7 = CooperativeStickyAssignor(rules=StickyRules(release=RELEASE_3_7))
COOPERATIVE_STICKY_3_4 = CooperativeStickyAssignor(rules=StickyRules(release=RELEASE_3_4))
COOPERATIVE_STICKY_3_0 = CooperativeStickyAssignor(rules=StickyRules(release=RELEASE_3_0))
COOPERATIVE_STICKY_2_8 = CooperativeStickyAssignor(rules=StickyRules(release=COOPERATIVE_RELEASE_2_8))
COOPERATIVE_STICKY_2_8_MENDED = CooperativeStickyAssignor(
    rules=StickyRules(release=evolve(COOPERATIVE_RELEASE_2_8, owners=newer_claim))
)
"""``cooperative-sticky`` without KAFKA-14639: a claim of an older generation is valid if no newer claim exists."""
COOPERATIVE_STICKY_2_6 = CooperativeStickyAssignor(
    rules=StickyRules(release=COOPERATIVE_RELEASE_2_6), tells_generation=False
)
COOPERATIVE_STICKY_2_4 = CooperativeStickyAssignor(rules=StickyRules(release=RELEASE_2_4), tells_generation=False)
COOPERATIVE_STICKY_BALANCED = CooperativeStickyAssignor(name="cooperative-sticky-balanced")

COOPERATIVE_STICKY_WITHOUT_GENERATION = CooperativeStickyAssignor(
    rules=StickyRules(owners=first_claim_wins), tells_generation=False
)
"""A past bug: claims have no generation, so of two claims the first one read is valid."""

COOPERATIVE_STICKY_OF_NEWEST_ALONE = CooperativeStickyAssignor(
    rules=StickyRules(owners=only_newest_generation, heeds_stale_claims=False)
)
"""A past bug: the partitions of a member that missed a generation are considered free (KAFKA-14639)."""

COOPERATIVE_STICKY_BELIEVING_STALE_CLAIMS = CooperativeStickyAssignor(rules=StickyRules(owners=last_claim_wins))
"""A past bug: a member that resumes after a long pause sends claims of a past generation, which are valid
(KAFKA-12984).
"""


def belongings(subscriber: Subscriber) -> Belongings:
    """A member's claim for ``cooperative-sticky``.

    The partitions are always in the subscription. The generation is in the subscription of version 2 and later; older
    members put the generation into the user data. Source: KIP-792, "For V1 case ...".
    """
    if subscriber.generation >= 0:
        return subscriber.owned, subscriber.generation
    generation = decode_cooperative(subscriber.user_data)
    return subscriber.owned, NO_GENERATION if generation is None else generation


MOST_ROUNDS = 10
"""The default number of follow-ups. Kafka's own tests allow 4. With racks one group in 60,000 (random chains of
rebalances) needs 5 follow-ups, and no group needs more.
"""


class NeverSettles(Exception):
    """The error for a cooperative assignor that still moves partitions after the allowed number of rebalances."""


@frozen
class Settled:
    """The result of a cooperative rebalance with its follow-ups.

    ``first_pass``: the first assignment. ``assignment``: the last assignment. ``rounds``: the number of follow-ups.
    """

    assignment: Assignment
    first_pass: Assignment
    rounds: int


def settle(
    assignor: Assignor, topics: Topics, members: Mapping[MemberId, Subscriber], most_rounds: int = MOST_ROUNDS
) -> Settled:
    """Rebalance a group repeatedly until no member must revoke a partition. Members revoke, and then join again.

    Args:
        assignor: any assignor; an eager assignor needs no follow-up, as its members own no partition during a
            rebalance.
        topics: the cluster's topics, which do not change meanwhile.
        members: the group at the first rebalance.
        most_rounds: the largest allowed number of follow-ups.

    Raises:
        NeverSettles: members would still revoke partitions after ``most_rounds`` follow-ups.
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
