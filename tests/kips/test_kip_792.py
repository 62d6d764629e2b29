"""KIP-792 (generation in the subscription): whose claim counts, across versions of members."""

from kemu.protocol.assign.base import Assignment, Memory, Subscriber, Topics
from kemu.protocol.assign.claims import Overlap, rightful_owners, validate_subscriptions
from kemu.protocol.assign.cooperative import (
    COOPERATIVE_STICKY,
    COOPERATIVE_STICKY_2_4,
    COOPERATIVE_STICKY_BALANCED,
    COOPERATIVE_STICKY_BELIEVING_STALE_CLAIMS,
    COOPERATIVE_STICKY_OF_NEWEST_ALONE,
    settle,
)
from kemu.protocol.assign.examples import StickyByClaims
from kemu.protocol.assign.sticky import STICKY
from kemu.protocol.names import NO_GENERATION, TopicPartition

T0: TopicPartition = ("t", 0)
T1: TopicPartition = ("t", 1)
T2: TopicPartition = ("t", 2)
T3: TopicPartition = ("t", 3)
FOUR = Topics({"t": 4})


def _v2(*owned: TopicPartition, generation: int) -> Subscriber:
    return Subscriber(("t",), owned, generation)


def _v1(*owned: TopicPartition, generation: int) -> Subscriber:
    """Before KIP-792: owned partitions in the subscription, their generation in the user data."""
    return Subscriber(("t",), owned, user_data=COOPERATIVE_STICKY.user_data(Memory(owned, generation)))


def _sets(assignment: Assignment) -> dict[str, set[TopicPartition]]:
    return {member: set(partitions) for member, partitions in assignment.items()}


def test_the_claim_of_the_highest_generation_counts() -> None:
    """KIP-792: "ignore ... the old generation ownedPartitions, and continue the assignment"; KAFKA-12984."""
    members = {
        "paused": _v2(T0, T1, T2, T3, generation=1),
        "present": _v2(T0, T1, generation=3),
    }

    settled = settle(COOPERATIVE_STICKY, FOUR, members)

    assert _sets(settled.first_pass) == {"paused": {T2, T3}, "present": {T0, T1}}
    assert settled.rounds == 1  # the paused member revokes what it no longer has, and joins again
    assert _sets(settled.assignment) == _sets(settled.first_pass)


def test_without_the_generation_a_member_back_from_a_pause_is_believed() -> None:
    """KAFKA-12984, KAFKA-13406: the past bug takes partitions from the member that works on them."""
    members = {
        "apresent": _v2(T0, T1, generation=3),
        "paused": _v2(T0, T1, generation=1),
    }

    assert _sets(COOPERATIVE_STICKY.assign(FOUR, members))["apresent"] == {T0, T1}
    assert _sets(COOPERATIVE_STICKY_BELIEVING_STALE_CLAIMS.assign(FOUR, members))["apresent"].isdisjoint({T0, T1})


def test_what_only_a_stale_member_claims_stays_with_it_and_was_free_once() -> None:
    """KAFKA-14639: the past bug assigns to others the partitions of a member that missed a generation."""
    members = {"late": _v2(T0, T1, T2, T3, generation=2), "new": _v2(generation=3)}

    assert _sets(COOPERATIVE_STICKY.assign(FOUR, members)) == {"late": {T0, T1}, "new": set()}
    assert len(_sets(COOPERATIVE_STICKY_OF_NEWEST_ALONE.assign(FOUR, members))["new"]) == 2


def test_members_of_before_and_after_the_kip_are_compared_by_the_same_generation() -> None:
    """KIP-792: "For V1 case, we'll get the ownedPartitions data, and then decode the generation info in the ...
    userData". So the page; of the other claimant Kafka's class (3.9) asks the subscription's own field alone
    (``AbstractStickyAssignor.allSubscriptionsEqual``), and believes the older claim of two when the newer is a V1's.
    """
    for newer, older in ((_v1, _v2), (_v2, _v1)):
        members = {"new": newer(T0, T1, generation=5), "old": older(T0, T1, T2, T3, generation=4)}

        assert _sets(COOPERATIVE_STICKY_BALANCED.assign(FOUR, members)) == {"new": {T0, T1}, "old": {T2, T3}}
        kafkas = {"new": {T0, T1}, "old": {T2, T3}} if newer is _v2 else {"new": set(), "old": {T0, T1}}
        assert _sets(COOPERATIVE_STICKY.assign(FOUR, members)) == kafkas


def test_v0_members_own_nothing_and_unknown_generations_are_the_oldest() -> None:
    """KIP-792: "For V0 case ... we'll just ignore the info since they are empty"; -1 stands for an unknown
    generation.
    """
    members = {"new": _v2(T0, generation=0), "unknown": _v2(T0, T1, generation=NO_GENERATION), "v0": Subscriber(("t",))}

    first = _sets(COOPERATIVE_STICKY.assign(FOUR, members))

    assert T0 in first["new"]
    assert first["unknown"] == {T1}
    assert len(first["v0"]) == 1


def test_the_subscriptions_own_generation_beats_the_user_data() -> None:
    """KIP-792, the built-in cooperative assignor: the field of subscription v2 is read first."""
    stale_data = COOPERATIVE_STICKY.user_data(Memory((), 9))
    members = {
        "a": Subscriber(("t",), (T0, T1), 2, user_data=stale_data),
        "b": _v2(T0, T1, generation=3),
    }

    assert _sets(COOPERATIVE_STICKY.assign(FOUR, members))["b"] == {T0, T1}


def test_sticky_reads_its_user_data_whatever_the_subscription_says() -> None:
    """KIP-792: "we'll directly use the ownedPartition and generation info in the subscription userData bytes"."""
    members = {
        "a": Subscriber(("t",), (T2, T3), 9, user_data=STICKY.user_data(Memory((T0, T1), 1))),
        "b": Subscriber(("t",), (T0, T1), 1, user_data=STICKY.user_data(Memory((T2, T3), 1))),
    }

    assert _sets(STICKY.assign(FOUR, members)) == {"a": {T0, T1}, "b": {T2, T3}}


def test_what_several_members_of_one_generation_claim_is_nobodys_for_one_round() -> None:
    """Generations can be used twice after a coordinator failover, so equal ones prove nothing."""
    members = {"a": _v2(T0, T1, generation=4), "b": _v2(T0, T2, generation=4)}

    settled = settle(COOPERATIVE_STICKY, FOUR, members)

    assert _sets(settled.first_pass) == {"a": {T1}, "b": {T2, T3}}
    assert _sets(settled.assignment) == {"a": {T0, T1}, "b": {T2, T3}}
    assert settled.rounds == 1


def test_custom_assignors_can_ask_for_the_overlaps_and_for_the_rightful_owners() -> None:
    """KIP-792: "validateSubscription ... to check that ownedPartitions do not have overlaps"."""
    members = {
        "a": _v2(T0, T1, T3, generation=4),
        "b": _v2(T0, T2, generation=5),
        "c": _v2(T2, T3, generation=5),
    }

    assert validate_subscriptions(members) == (
        Overlap(T0, (("a", 4), ("b", 5)), "b"),
        Overlap(T2, (("b", 5), ("c", 5)), None),
        Overlap(T3, (("a", 4), ("c", 5)), "c"),
    )
    assert rightful_owners(members) == {T0: "b", T1: "a", T3: "c"}
    assert validate_subscriptions({"a": _v2(T0, generation=1), "b": _v2(T1, generation=1)}) == ()


def test_before_the_workaround_nothing_says_when_a_claim_was_true() -> None:
    """Kafka 2.4's cooperative-sticky writes no user data, so the first claim read is believed, stale or not.

    Read in the order of a hash map: of these two names, "present" first, whichever of them was paused.
    """
    members = {
        "apaused": Subscriber(("t",), (T0, T1), user_data=COOPERATIVE_STICKY_2_4.user_data(Memory((T0, T1), 1))),
        "present": Subscriber(("t",), (T0, T1), user_data=COOPERATIVE_STICKY_2_4.user_data(Memory((T0, T1), 3))),
    }
    workaround = {"apaused": _v1(T0, T1, generation=1), "present": _v1(T0, T1, generation=3)}

    assert all(one.user_data is None for one in members.values())
    assert _sets(COOPERATIVE_STICKY_2_4.assign(FOUR, members))["present"] >= {T0, T1}
    renamed = {"present": members["apaused"], "apaused": members["present"]}
    assert _sets(COOPERATIVE_STICKY_2_4.assign(FOUR, renamed))["present"] >= {T0, T1}
    assert _sets(COOPERATIVE_STICKY.assign(FOUR, workaround))["present"] >= {T0, T1}


def test_a_custom_assignor_can_tell_stale_claims_since_the_kip_and_not_before() -> None:
    """KIP-792: "if users have their own custom cooperative assignor, they also need to workaround it manually"."""
    stale_last = {"apresent": (T0, T1), "paused": (T0, T1)}
    before = {member: Subscriber(("t",), owned) for member, owned in stale_last.items()}
    since = {"apresent": _v2(T0, T1, generation=3), "paused": _v2(T0, T1, generation=1)}

    assert _sets(StickyByClaims().assign(FOUR, before))["paused"] == {T0, T1}
    assert _sets(StickyByClaims().assign(FOUR, since))["apresent"] == {T0, T1}
