"""Cooperative rebalancing as page version 99 of KIP-429 designed it, before it was redesigned and shipped in Kafka 2.4.

The differences to what shipped (``protocol.rebalancing.rules``):

* A member's ``rebalance.protocol`` says eager or cooperative; assignors know nothing of it. Eager members write V0,
  cooperative ones V1 (``protocol.messages.member_kip429``).
* The leader segments the assignor's result: what its owner keeps, what nobody owns, what must be revoked first. So any
  assignor can be used cooperatively, a sticky one or not.
* The assignment says what is revoked; the member checks it and comes back at once if that is anything.
* When V0 and V1 members meet, the leader lets V1 members keep what they have, with an error, and gives V0 members
  nothing. ``segment_filling`` is ours: it gives them what nobody owns.

Decided where the page is silent: listeners are called revoked first, as in what shipped; the superset check is fatal;
a partition claimed twice is revoked from both; an owned partition that the assignor does not know any more (its topic
is gone) is revoked; after INCOMPATIBLE_MEMBERS a member waits ``retry.backoff.ms`` and asks again once for the same
members, where the page's letter (``at-once``) makes it ask for ever.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from attrs import evolve

from kemu.protocol.assign.base import Assignment, Assignor
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.messages.member import Subscription
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
from kemu.protocol.names import MemberId, TopicPartition
from kemu.protocol.rebalancing.rules import (
    COOPERATIVE,
    EAGER,
    Changes,
    Given,
    Known,
    LeaderRules,
    MemberRules,
    Partitions,
    ToldByMember,
    minus,
    never_too_early,
)

PROTOCOLS = ("eager", "cooperative")
"""Values of ``rebalance.protocol``; the first is the default."""
MIXED_POLICIES = ("page", "safe_fill")
"""What a leader does with V0 and V1 members in one group."""
BYTECODES = ("new", "old")
"""Whether a consumer knows the KIP at all."""
INCOMPATIBLE_REJOINS = ("once", "at-once")
"""After INCOMPATIBLE_MEMBERS: with a backoff and once for the same members, or as the page's letter has it."""

PROTOCOL_VIOLATION = "PROTOCOL_VIOLATION"


# --- the leader ------------------------------------------------------------------------------------------------------


Segment: TypeAlias = Callable[[Assignment, Mapping[MemberId, ToldByMember]], Mapping[MemberId, Given]]


def segment(assignment: Assignment, told: Mapping[MemberId, ToldByMember]) -> Mapping[MemberId, Given]:
    """Who is told what, by the versions of all the members' subscriptions.

    Args:
        assignment: what the assignor wants.
        told: every member's subscription; the same members.

    Source: KIP-429 page, "Consumer Coordinator Algorithm", 3, and "Compatibility and Upgrade Path", 1 to 3.
    """
    return _segment(assignment, told, starve_old_members)


def segment_filling(assignment: Assignment, told: Mapping[MemberId, ToldByMember]) -> Mapping[MemberId, Given]:
    """As ``segment``, but in a mixed group what no V1 member owns is given out (``safe_fill``)."""
    return _segment(assignment, told, fill)


def _segment(assignment: Assignment, told: Mapping[MemberId, ToldByMember], mixed: Segment) -> Mapping[MemberId, Given]:
    assert assignment.keys() == told.keys(), "every member is assigned something, if only nothing"
    versions = {one.version for one in told.values()}
    if versions == {V1}:
        return segment_cooperatively(assignment, told)
    if versions == {V0}:
        return {one: Given(tuple(partitions)) for one, partitions in assignment.items()}
    return mixed(assignment, told)


def segment_cooperatively(assignment: Assignment, told: Mapping[MemberId, ToldByMember]) -> Mapping[MemberId, Given]:
    """All members are on V1: what changes hands is revoked from its owner and, this time, assigned to nobody.

    Source: KIP-429 page: "For prev-assigned-partitions, check if the owner has changed, if yes, encode it to the old
    owner in revoked-partitions but NOT encode to the assigned-partitions to the new owner."
    """
    claims = _claims(told)
    owner = {partition: _rightful(who, told) for partition, who in claims.items()}
    wanted_by = {partition: one for one, partitions in assignment.items() for partition in partitions}
    given = {}
    for one, partitions in assignment.items():
        owned = told[one].subscription.owned
        given[one] = Given(
            tuple(at for at in partitions if at not in claims or owner[at] == one),
            tuple(at for at in owned if owner[at] != one or wanted_by.get(at) != one),
        )
    return given


def starve_old_members(assignment: Assignment, told: Mapping[MemberId, ToldByMember]) -> Mapping[MemberId, Given]:
    """No consensus: V1 members get "their existing assigned-partitions", V0 members "an empty assigned-partitions".

    Source: KIP-429 page, "If there's no consensus, it means we are in a second rebalance".
    """
    return {
        one: Given(())
        if told[one].version == V0
        else Given(told[one].subscription.owned, (), AssignmentErrorCode.INCOMPATIBLE_MEMBERS)
        for one in assignment
    }


def fill(assignment: Assignment, told: Mapping[MemberId, ToldByMember]) -> Mapping[MemberId, Given]:
    """No consensus, but no need to starve anybody: what no V1 member says it owns is owned by nobody.

    Every member has joined. Those on V0 revoked everything before they did, those on V1 said what they hold; so the
    rest is as free as in an eager rebalance. What V1 members own stays theirs.
    """
    owned = frozenset(_claims(told))
    given = {}
    for one, partitions in assignment.items():
        free = minus(partitions, owned)
        if told[one].version == V0:
            given[one] = Given(free)
        else:
            kept = told[one].subscription.owned
            given[one] = Given((*kept, *free), (), AssignmentErrorCode.INCOMPATIBLE_MEMBERS)
    return given


def _claims(told: Mapping[MemberId, ToldByMember]) -> dict[TopicPartition, list[MemberId]]:
    claims: dict[TopicPartition, list[MemberId]] = {}
    for one, said in told.items():
        for partition in dict.fromkeys(said.subscription.owned):
            claims.setdefault(partition, []).append(one)
    return claims


def _rightful(claimants: Sequence[MemberId], told: Mapping[MemberId, ToldByMember]) -> MemberId | None:
    """The only claimant, or the one of the highest generation; the page's layout carries none, so then nobody."""
    newest = max(told[one].subscription.generation for one in claimants)
    owners = [one for one in claimants if told[one].subscription.generation == newest]
    return owners[0] if len(owners) == 1 else None


def _read(data: bytes) -> ToldByMember:
    return ToldByMember(*decode_page_subscription(data))


def _read_v0_only(data: bytes) -> ToldByMember:
    return ToldByMember(*decode_page_subscription(data, at_most=V0))


def _write(given: Given, told_version: int, own_version: int) -> bytes:
    """In the version of the member it is for."""
    return encode_page_assignment(
        PageAssignment(given.assigned, given.revoked, given.error, given.user_data), told_version
    )


PAGE_LEADER = LeaderRules(_read, segment, _write)
FILLING_LEADER = LeaderRules(_read, segment_filling, _write)
OLD_LEADER = LeaderRules(_read_v0_only, segment, _write)
"""Of before the KIP: a subscription of V1 is more than it can read."""


# --- the member ------------------------------------------------------------------------------------------------------


def take_page(owned: Partitions, given: Given) -> Changes:
    """What an assignment of V1 changes: check it, then the error code, then give up what is revoked and come back.

    A V0 assignment in the hands of a cooperative member (its leader does not know the KIP) has no list of what is
    revoked, so anything owned that it leaves out breaks the check.

    Source: KIP-429 page: "Check that the newly assigned-partitions is a superset of Minus(assigned-partitions,
    revoked-partitions)."
    """
    taken = frozenset(given.revoked or ())
    missing = minus(minus(owned, taken), given.assigned)
    if missing:
        return _violated(f"neither assigned nor revoked: {_names(missing)}")
    both = tuple(at for at in given.assigned if at in taken)
    if both:
        return _violated(f"both assigned and revoked: {_names(both)}")
    if given.error not in (AssignmentErrorCode.NONE, AssignmentErrorCode.INCOMPATIBLE_MEMBERS):
        return Changes((), (), rejoin=False, failed=f"the leader reports error {given.error}")
    revoked = tuple(at for at in owned if at in taken)
    incompatible = given.error == AssignmentErrorCode.INCOMPATIBLE_MEMBERS
    return Changes(revoked, minus(given.assigned, owned), bool(revoked), incompatible)


def _violated(how: str) -> Changes:
    return Changes((), (), rejoin=False, violation=f"{PROTOCOL_VIOLATION}: {how}")


def unless_the_same(before: Known | None, now: Known) -> bool:
    """Ask again, but not when the last error was about the same members, as far as this one knows them."""
    return before != now


def always(before: Known | None, now: Known) -> bool:
    """The page: "trigger a rebalance immediately (for incompatible members, ...)"."""
    return True


def _read_assignment(data: bytes) -> Given:
    page = decode_page_assignment(data)
    return Given(page.assigned, page.revoked, page.error, page.info)


def _read_assignment_v0_only(data: bytes) -> Given:
    page = decode_page_assignment(data, at_most=V0)
    return Given(page.assigned, user_data=page.info)


def _write_v0(subscription: Subscription, version: int) -> bytes:
    return encode_page_subscription(subscription, V0)


def _write_v1(subscription: Subscription, version: int) -> bytes:
    return encode_page_subscription(subscription, V1)


OLD_BYTECODE = evolve(EAGER, write_subscription=_write_v0, read_assignment=_read_assignment_v0_only, leading=OLD_LEADER)
PAGE_EAGER = evolve(EAGER, write_subscription=_write_v0, read_assignment=_read_assignment, leading=PAGE_LEADER)
PAGE_COOPERATIVE = evolve(
    COOPERATIVE,
    after_sync=take_page,
    moved_too_early=never_too_early,
    write_subscription=_write_v1,
    read_assignment=_read_assignment,
    leading=PAGE_LEADER,
    rejoin_when_incompatible=unless_the_same,
)


def page_rules(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
    """The page's rules for one consumer, by its ``rebalance.protocol`` and our options.

    Raises:
        ValueError: a value that none of them has, or a consumer of before the KIP that is to be cooperative.
    """
    for key, chosen, choices in (
        ("rebalance.protocol", config.rebalance_protocol, PROTOCOLS),
        ("emulated.mixed.policy", config.emulated_mixed_policy, MIXED_POLICIES),
        ("emulated.bytecode", config.emulated_bytecode, BYTECODES),
        ("emulated.incompatible.rejoin", config.emulated_incompatible_rejoin, INCOMPATIBLE_REJOINS),
    ):
        if chosen not in choices:
            raise ValueError(f"{key}: {chosen!r} is not {' or '.join(choices)}")
    if config.emulated_bytecode == "old":
        if config.rebalance_protocol != "eager":
            raise ValueError("rebalance.protocol: a consumer of emulated.bytecode old does not know it")
        return OLD_BYTECODE
    rules = PAGE_COOPERATIVE if config.rebalance_protocol == "cooperative" else PAGE_EAGER
    if config.emulated_mixed_policy == "safe_fill":
        rules = evolve(rules, leading=FILLING_LEADER)
    if config.emulated_incompatible_rejoin == "at-once":
        rules = evolve(rules, rejoin_when_incompatible=always, waits_when_incompatible=False)
    return rules


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions)
