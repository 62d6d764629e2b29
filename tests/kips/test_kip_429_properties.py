"""KIP-429's page, for any group and any assignor: what a leader of the page must never do."""

from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.assign.base import Assignment, Subscriber, Topics
from kemu.protocol.assign.examples import StickyByClaims, small_sticky
from kemu.protocol.messages.member import Subscription
from kemu.protocol.messages.member_kip429 import (
    V0,
    V1,
    PageAssignment,
    decode_page_assignment,
    decode_page_subscription,
    encode_page_assignment,
    encode_page_subscription,
)
from kemu.protocol.names import TopicPartition
from kemu.protocol.rebalancing.kip_429 import PAGE_COOPERATIVE, PAGE_EAGER, segment, segment_filling
from kemu.protocol.rebalancing.rules import Given, MemberSubscription

PARTITIONS = tuple(("t", number) for number in range(8))
MEMBERS = tuple("abcd")


@st.composite
def disjoint(draw: st.DrawFn, of: tuple[TopicPartition, ...] = PARTITIONS) -> dict[str, list[TopicPartition]]:
    """Partitions dealt to members, some to nobody."""
    dealt: dict[str, list[TopicPartition]] = {member: [] for member in MEMBERS}
    for partition in of:
        member = draw(st.sampled_from((*MEMBERS, "")))
        if member:
            dealt[member].append(partition)
    return dealt


def everything(draw: st.DrawFn) -> Assignment:
    dealt: Assignment = {member: [] for member in MEMBERS}
    for partition in PARTITIONS:
        dealt[draw(st.sampled_from(MEMBERS))].append(partition)
    return dealt


@st.composite
def groups(draw: st.DrawFn) -> tuple[Assignment, dict[str, MemberSubscription]]:
    """A group before a rebalance, and what some assignor wants; V0 members own nothing."""
    versions = {member: draw(st.sampled_from((V0, V1))) for member in MEMBERS}
    owned = draw(disjoint())
    told = {
        member: MemberSubscription(version, Subscription(("t",), None, tuple(owned[member]) if version == V1 else ()))
        for member, version in versions.items()
    }
    return everything(draw), told


def owners_after(told: dict[str, MemberSubscription], given: dict[str, Given]) -> dict[str, tuple[TopicPartition, ...]]:
    """The members' partitions after all have adopted their assignments; no member may refuse its own."""
    after = {}
    for member, one in given.items():
        rules = PAGE_COOPERATIVE if told[member].version == V1 else PAGE_EAGER
        changes = rules.after_sync(told[member].subscription.owned, one)
        assert changes.violation == ""
        assert set(changes.revoked) <= set(told[member].subscription.owned)
        after[member] = one.assigned
    return after


@given(groups())
def test_nobody_is_given_what_another_member_joined_with(
    group: tuple[Assignment, dict[str, MemberSubscription]],
) -> None:
    """The page: "no partitions should be migrated directly before being revoked first"."""
    assignment, told = group
    for leader in (segment, segment_filling):
        given_out = dict(leader(assignment, told))
        owned_by = {at: member for member, one in told.items() for at in one.subscription.owned}

        after = owners_after(told, given_out)

        held = [at for member in after for at in after[member]]
        assert len(held) == len(set(held))
        assert all(owned_by.get(at, member) == member for member in after for at in after[member])


@given(groups())
def test_safe_fill_leaves_unowned_only_what_the_assignor_wants_of_a_member_that_keeps_it(
    group: tuple[Assignment, dict[str, MemberSubscription]],
) -> None:
    """In a mixed group everything is owned afterwards: what V1 members own by them, the rest by the assignor's word."""
    assignment, told = group
    if len({one.version for one in told.values()}) == 1:
        return

    after = owners_after(told, dict(segment_filling(assignment, told)))

    assert sorted(at for mine in after.values() for at in mine) == list(PARTITIONS)


@given(st.data())
def test_a_cooperative_group_is_where_the_assignor_wants_it_after_one_follow_up(data: st.DataObject) -> None:
    """The page: "we use consecutive rebalances": one to take away, one to give."""
    owned = data.draw(disjoint())
    target = everything(data.draw)

    for _ in range(2):
        told = {
            member: MemberSubscription(V1, Subscription(("t",), None, tuple(mine))) for member, mine in owned.items()
        }
        owned = {member: list(mine) for member, mine in owners_after(told, dict(segment(target, told))).items()}

    assert {member: sorted(mine) for member, mine in owned.items()} == {
        member: sorted(mine) for member, mine in target.items()
    }


names = st.text(min_size=1, max_size=8)
numbers = st.integers(0, 2**31 - 1)
lists = st.lists(st.tuples(names, numbers), max_size=6, unique=True)


@given(st.lists(names, max_size=4, unique=True), lists, st.none() | st.binary(max_size=9))
def test_subscriptions_survive_bytes(topics: list[str], owned: list[TopicPartition], info: bytes | None) -> None:
    """Written sorted."""
    subscription = Subscription(tuple(sorted(topics)), info, tuple(sorted(owned)))

    assert decode_page_subscription(encode_page_subscription(subscription, V1)) == (V1, subscription)


@given(lists, st.none() | lists, st.integers(-(2**15), 2**15 - 1), st.none() | st.binary(max_size=9))
def test_assignments_survive_bytes(
    assigned: list[TopicPartition], revoked: list[TopicPartition] | None, error: int, info: bytes | None
) -> None:
    """Topics stand together, in the order in which they first appear."""

    def grouped(flat: list[TopicPartition]) -> tuple[TopicPartition, ...]:
        topics = list(dict.fromkeys(topic for topic, _ in flat))
        return tuple(sorted(flat, key=lambda at: topics.index(at[0])))

    page = PageAssignment(grouped(assigned), None if revoked is None else grouped(revoked), error, info)

    assert decode_page_assignment(encode_page_assignment(page, V1)) == page


@given(disjoint())
def test_the_example_assignor_is_balanced_keeps_what_it_can_and_withholds_what_moves(
    owned: dict[str, list[TopicPartition]],
) -> None:
    """The requirements of a cooperative assignor, in a small group."""
    members = {one: Subscriber(("t",), tuple(mine), 3) for one, mine in owned.items()}

    target = small_sticky(PARTITIONS, {one: tuple(mine) for one, mine in owned.items()})
    first = StickyByClaims().assign(Topics({"t": len(PARTITIONS)}), members)

    assert sorted(at for mine in target.values() for at in mine) == list(PARTITIONS)
    assert {len(mine) for mine in target.values()} == {2}
    assert all(len(set(target[one]) & set(owned[one])) == min(2, len(owned[one])) for one in MEMBERS)
    owned_by = {at: one for one, mine in owned.items() for at in mine}
    assert all(owned_by.get(at, one) == one for one, mine in first.items() for at in mine)
