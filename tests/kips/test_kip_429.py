"""KIP-429, page version 99, "Part I": layout, segmentation, member rules, upgrade; by its vectors and its sentences."""

from collections.abc import Mapping
from typing import Any

import pytest

from kemu.protocol.assign.examples import small_sticky
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.messages.member import Subscription, decode_subscription, encode_subscription
from kemu.protocol.messages.member_kip429 import (
    V0,
    V1,
    AssignmentErrorCode,
    PageAssignment,
    decode_page_assignment,
    decode_page_subscription,
    encode_page_assignment,
    encode_page_subscription,
)
from kemu.protocol.names import TopicPartition
from kemu.protocol.rebalancing.kip_429 import (
    FILLING_LEADER,
    OLD_BYTECODE,
    PAGE_COOPERATIVE,
    PAGE_EAGER,
    PAGE_LEADER,
    PROTOCOL_VIOLATION,
    page_rules,
    segment,
    segment_filling,
    take_page,
)
from kemu.protocol.rebalancing.rules import Given, LeaderRules, MemberRules, MemberSubscription
from kemu.protocol.wire.codec import CodecError
from tests.case_files import load

VECTORS: list[dict[str, Any]] = load("cooperative_protocol.json")["vectors"]
SINGLE = [vector for vector in VECTORS if vector["kind"] == "single_round"]
SEQUENCES = [vector for vector in VECTORS if vector["kind"] == "sequence"]
LEADERS: Mapping[str, LeaderRules] = {"page": PAGE_LEADER, "safe_fill": FILLING_LEADER}
MEMBERS: Mapping[int, MemberRules] = {V0: PAGE_EAGER, V1: PAGE_COOPERATIVE}
CONFIG = ConsumerConfig()


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return topic, int(number)


def partitions(texts: list[str] | None) -> tuple[TopicPartition, ...]:
    return tuple(partition(text) for text in texts or ())


def told(subscriptions: dict[str, Any]) -> dict[str, MemberSubscription]:
    """The members' subscriptions, encoded and decoded."""
    said = {}
    for member, row in subscriptions.items():
        subscription = Subscription(("t",), b"info", partitions(row["owned"]))
        said[member] = PAGE_LEADER.read(MEMBERS[row["version"]].write_subscription(subscription, 3))
        assert said[member].version == row["version"]
    return said


def given_by(leader: LeaderRules, newly: dict[str, list[str]], said: dict[str, MemberSubscription]) -> dict[str, Given]:
    """The decoded assignment of each member."""
    given = leader.segment({member: list(partitions(texts)) for member, texts in newly.items()}, said)
    return {
        member: MEMBERS[said[member].version].read_assignment(leader.write(one, said[member].version, 3))
        for member, one in given.items()
    }


def expected(row: dict[str, Any]) -> Given:
    error = AssignmentErrorCode[row["error"]] if row["error"] else AssignmentErrorCode.NONE
    revoked = None if row["revoked"] is None else partitions(row["revoked"])
    return Given(partitions(row["assigned"]), revoked, error)


# --- the leader ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", SINGLE, ids=lambda vector: vector["name"])
def test_the_leader_segments_a_round(vector: dict[str, Any]) -> None:
    """The page, 3: "Segment the total-partitions set ... into two exclusive sub-sets: Intersection(total-partitions,
    assigned-partitions), and Minus(total-partitions, assigned-partitions)".
    """
    leader = LEADERS[vector["options"].get("mixed", "page")]

    given = given_by(leader, vector["newly_assigned"], told(vector["subscriptions"]))

    assert given == {member: expected(row) for member, row in vector["expected_assignment"].items()}


@pytest.mark.parametrize("vector", SINGLE, ids=lambda vector: vector["name"])
def test_the_members_take_a_round(vector: dict[str, Any]) -> None:
    """The page, 2: check, look at the error, update; "If revoked partitions is not empty, remove those partitions by
    calling the rebalance-listener. And then immediately send another join group request".
    """
    for member, wanted in vector["expected_member"].items():
        said = vector["subscriptions"][member]
        rules = MEMBERS[said["version"]]
        given = expected(vector["expected_assignment"][member])

        changes = rules.after_sync(partitions(said["owned"]), given)

        assert changes.violation == ""
        assert changes.revoked == partitions(wanted["on_revoked"])
        assert changes.added == partitions(wanted["on_assigned"])
        assert given.assigned == partitions(wanted["owned_after"])
        asks = changes.rejoin or (changes.incompatible and rules.rejoin_when_incompatible(None, ()))
        assert asks is wanted["rejoin"]


@pytest.mark.parametrize("vector", SEQUENCES, ids=lambda vector: vector["name"])
def test_a_sequence_of_rounds_with_a_small_sticky_assignor(vector: dict[str, Any]) -> None:
    """The second bounce under the page's rule 3, and a group that grows and shrinks: every round as printed."""
    everything = tuple(("t", number) for number in range(6))
    for row in vector["rounds"]:
        said = told(row["subscriptions"])

        newly = small_sticky(everything, {member: one.subscription.owned for member, one in said.items()})
        given = given_by(PAGE_LEADER, row["newly_assigned"], said)

        assert newly == {member: list(partitions(texts)) for member, texts in row["newly_assigned"].items()}
        assert given == {member: expected(one) for member, one in row["assignment"].items()}
        owned = {at for one in given.values() for at in one.assigned}
        assert sorted(set(everything) - owned) == list(partitions(row["unassigned_after"]))


SECOND_BOUNCES = [vector for vector in SEQUENCES if vector["title"] == "second rolling bounce, literal page rule"]


@pytest.mark.parametrize("bounce", SECOND_BOUNCES)
def test_in_the_second_bounce_the_group_owns_nothing_until_the_last_old_member_stops(bounce: dict[str, Any]) -> None:
    """The page: "those members in V0 will have a small window where no partitions are assigned". It is the bounce."""
    starved = [row["event"] for row in bounce["rounds"] if len(row["unassigned_after"]) == 6]

    assert starved == ["A starts with cooperative", "B stops", "B starts with cooperative"]


def test_safe_fill_leaves_nothing_unowned_in_the_second_bounce() -> None:
    """Ours: what no V1 member says it owns is owned by nobody, since V0 members revoked before they joined.

    Only the last round, in which all are on V1, has the gap that any move has.
    """
    everything = tuple(("t", number) for number in range(6))
    versions = {"A": V0, "B": V0, "C": V0}
    owned: dict[str, tuple[TopicPartition, ...]] = {}
    unowned = []

    def rebalance() -> bool:
        said = {
            one: MemberSubscription(version, Subscription(("t",), None, owned.get(one, ()) if version == V1 else ()))
            for one, version in versions.items()
        }
        newly = small_sticky(everything, {member: one.subscription.owned for member, one in said.items()})
        given = segment_filling(newly, said)
        again = False
        for one in given:
            changes = MEMBERS[versions[one]].after_sync(said[one].subscription.owned, given[one])
            assert changes.violation == ""
            again = again or changes.rejoin
            owned[one] = given[one].assigned
        held = [at for one in given for at in owned[one]]
        assert len(held) == len(set(held))
        unowned.append(6 - len(held))
        return again

    rebalance()
    for member in "ABC":
        del versions[member], owned[member]
        rebalance()
        versions[member] = V1
        if rebalance():
            rebalance()

    assert unowned == [0, 0, 0, 0, 0, 0, 2, 0]
    assert sorted(len(mine) for mine in owned.values()) == [2, 2, 2]


def test_what_two_members_claim_is_revoked_from_both() -> None:
    """The page does not think of it. Without a generation in the subscription nobody can be believed."""
    said = {one: MemberSubscription(V1, Subscription(("t",), None, (("t", 0),))) for one in "AB"}

    given = segment({"A": [("t", 0)], "B": []}, said)

    assert given == {"A": Given((), (("t", 0),)), "B": Given((), (("t", 0),))}


def test_what_the_assignor_does_not_know_any_more_is_revoked_from_its_owner() -> None:
    """A topic was deleted: the page's two sub-sets miss what is owned and in neither; its own check would fail."""
    said = {"A": MemberSubscription(V1, Subscription(("t",), None, (("gone", 0), ("t", 0))))}

    given = segment({"A": [("t", 0)]}, said)

    assert given == {"A": Given((("t", 0),), (("gone", 0),))}
    assert not take_page((("gone", 0), ("t", 0)), given["A"]).violation


# --- the member ------------------------------------------------------------------------------------------------------


MEMBER_CHECKS = [vector for vector in VECTORS if vector["kind"] == "member_check"]


@pytest.mark.parametrize("vector", [vector for vector in MEMBER_CHECKS if "assignment" in vector])
def test_an_assignment_that_drops_a_partition_without_revoking_it_is_refused(vector: dict[str, Any]) -> None:
    """The page: "Check that the newly assigned-partitions is a superset of Minus(assigned-partitions,
    revoked-partitions). This is because under cooperative rebalance, no partitions should be migrated directly before
    being revoked first."
    """
    owned, given = partitions(vector["owned"]), expected(vector["assignment"])

    changes = take_page(owned, given)

    assert vector["expected"]["error"] == PROTOCOL_VIOLATION
    assert changes.violation.startswith(PROTOCOL_VIOLATION)
    dropped = [f"{topic}-{number}" for topic, number in owned if (topic, number) not in given.assigned]
    assert all(name in changes.violation for name in dropped)


def test_an_assignment_that_gives_and_takes_the_same_partition_is_refused() -> None:
    """It says two things about one partition, so none of it can be believed."""
    changes = take_page((), Given((("t", 0),), (("t", 0),)))

    assert changes.violation == f"{PROTOCOL_VIOLATION}: both assigned and revoked: t-0"


def test_an_error_code_that_nobody_knows_is_fatal() -> None:
    """The page: "Check the error code as well, and depending on it ... fail immediately if it is fatal"."""
    changes = take_page((), Given((), (), 7))

    assert (changes.violation, changes.failed) == ("", "the leader reports error 7")


def test_nothing_is_revoked_before_a_cooperative_join_and_everything_before_an_eager_one() -> None:
    """The page: "before sending the join-group request, do NOT revoke any partitions; instead just encode the current
    assigned partitions as part of the Subscription."
    """
    owned = (("t", 0), ("t", 1))

    assert PAGE_COOPERATIVE.give_up_before_join(owned, ("t",)) is None
    assert PAGE_EAGER.give_up_before_join(owned, ("t",)) == owned
    assert OLD_BYTECODE.give_up_before_join(owned, ("t",)) == owned


def test_after_an_error_a_member_asks_once_for_the_same_members() -> None:
    """The page rejoins "immediately", which repeats as long as the members stay the same."""
    literal = page_rules(ConsumerConfig(rebalance_protocol="cooperative", emulated_incompatible_rejoin="at-once"), ())

    assert PAGE_COOPERATIVE.rejoin_when_incompatible(None, ("a", "b"))
    assert not PAGE_COOPERATIVE.rejoin_when_incompatible(("a", "b"), ("a", "b"))
    assert PAGE_COOPERATIVE.rejoin_when_incompatible(("a", "b"), ("a", "b", "c"))
    assert PAGE_COOPERATIVE.waits_when_incompatible
    assert literal.rejoin_when_incompatible(("a", "b"), ("a", "b"))
    assert not literal.waits_when_incompatible


# --- configuration ---------------------------------------------------------------------------------------------------


def test_rebalance_protocol_picks_version_and_behaviour() -> None:
    """The page: 'When the config value is "eager", the consumer would still use V0 of the consumer protocol as well as
    the rebalance behavior'.

    The sentence continues: 'if the config value is "cooperative", the consumer will then use the new V1 protocol'.
    """
    subscription = Subscription(("t",), None, (("t", 0),))

    eager = page_rules(CONFIG, ())
    cooperative = page_rules(ConsumerConfig(rebalance_protocol="cooperative"), ())

    assert CONFIG.rebalance_protocol == "eager"
    assert eager is PAGE_EAGER
    assert cooperative is PAGE_COOPERATIVE
    assert decode_page_subscription(eager.write_subscription(subscription, 3)) == (V0, Subscription(("t",)))
    assert decode_page_subscription(cooperative.write_subscription(subscription, 3)) == (V1, subscription)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rebalance_protocol": "lazy"},
        {"emulated_mixed_policy": "fill"},
        {"emulated_bytecode": "older"},
        {"emulated_incompatible_rejoin": "never"},
        {"emulated_bytecode": "old", "rebalance_protocol": "cooperative"},
    ],
)
def test_a_value_that_does_not_exist_is_refused(wrong: dict[str, str]) -> None:
    """A mistyped rebalance.protocol is an error at once."""
    with pytest.raises(ValueError, match=next(iter(wrong)).replace("_", ".")[:8]):
        page_rules(ConsumerConfig(**wrong), ())


# --- the layout ------------------------------------------------------------------------------------------------------


def test_the_new_fields_stand_before_the_assignors_bytes() -> None:
    """The page: "it is compatible to inject additional fields before the assignor-specific SubscriptionInfo /
    AssignmentInfo bytes", and "we always keep the metadata bytes at the end".
    """
    subscription = Subscription(("t",), b"\xca\xfe", (("t", 1), ("t", 0)))
    assignment = PageAssignment((("t", 1),), (("t", 0),), AssignmentErrorCode.INCOMPATIBLE_MEMBERS, b"\xca\xfe")

    assert encode_page_subscription(subscription, V1).hex() == (
        "0001000000010001740000000100017400000002000000000000000100000002cafe"
    )
    assert encode_page_assignment(assignment, V1).hex() == (
        "0001000000010001740000000100000001000000010001740000000100000000000100000002cafe"
    )


@pytest.mark.parametrize("version", [V0, V1])
@pytest.mark.parametrize("info", [None, b"", b"\x00\x00"])
def test_both_versions_survive_the_way_through_bytes(version: int, info: bytes | None) -> None:
    """Fields of the version survive encoding and decoding."""
    owned = (("t", 0), ("u", 3)) if version == V1 else ()
    subscription = Subscription(("t", "u"), info, owned)
    revoked = (("u", 1),) if version == V1 else None
    assignment = PageAssignment((("u", 2), ("t", 0)), revoked, AssignmentErrorCode(version), info)

    assert decode_page_subscription(encode_page_subscription(subscription, version)) == (version, subscription)
    assert decode_page_assignment(encode_page_assignment(assignment, version)) == assignment


def test_the_lists_that_can_be_null_may_be() -> None:
    """The page: "AssignedPartitions => List<TopicPartition>   // can be null"."""
    data = bytes.fromhex("0001 00000001 000174 ffffffff ffffffff")

    assert decode_page_subscription(data) == (V1, Subscription(("t",)))
    assert decode_page_assignment(encode_page_assignment(PageAssignment((), None), V1)).revoked is None


@pytest.mark.parametrize("vector", [vector for vector in MEMBER_CHECKS if "assignment" not in vector])
def test_a_leader_of_before_the_kip_cannot_read_v1(vector: dict[str, Any]) -> None:
    """The page: "an old-versioned consumer would not be able to deserialize a newer-versioned protocol data at all"."""
    data = PAGE_COOPERATIVE.write_subscription(Subscription(("t",), b"info", (("t", 0),)), 3)

    with pytest.raises(CodecError, match=vector["expected"]["error"]):
        OLD_BYTECODE.leading.read(data)


def test_what_shipped_can_be_read_by_a_leader_of_before() -> None:
    """KIP-429 as it shipped puts ownedPartitions behind the user data; a V0 reader passes over them."""
    data = encode_subscription(Subscription(("t",), b"info", (("t", 0),)), 1)

    assert decode_subscription(data, at_most=0) == Subscription(("t",), b"info")


def test_a_lenient_reader_of_before_would_take_the_new_list_for_the_assignors_bytes() -> None:
    """Kafka 2.3's reader does not refuse a higher version. It takes the count of partitions for the length of the
    info bytes: the assignor gets bytes that were never its own, and no error is raised at all.
    """
    data = encode_page_subscription(Subscription(("t",), b"info", (("t", 0), ("u", 0))), V1)

    assert decode_subscription(data, at_most=0).user_data == b"\x00\x01"
