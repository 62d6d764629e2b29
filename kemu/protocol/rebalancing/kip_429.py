"""Cooperative rebalancing by page version 99 of KIP-429, before the KIP was redesigned and shipped in Kafka 2.4.

The differences from the shipped protocol (``protocol.rebalancing.rules``):

* A member's ``rebalance.protocol`` is eager or cooperative; assignors do not declare it. Eager members write V0,
  cooperative members write V1 (``protocol.messages.member_kip429``).
* The leader splits the assignor's result into kept partitions, free partitions and partitions to revoke first.
  Therefore any assignor can be used cooperatively, sticky or not.
* The assignment lists revoked partitions; the member checks the list and rejoins at once if the list is not empty.
* When V0 and V1 members meet, the leader lets V1 members keep their partitions, with an error, and assigns no
  partitions to V0 members. ``segment_filling`` is kemu's own variant: V0 members get the partitions without an owner.

The module decides cases where KIP-429's page is silent:

* The listener is called for revoked partitions first, as in the shipped protocol. A failed superset check is fatal.
* A partition claimed by two members is revoked from both members.
* An owned partition that the assignor no longer knows is revoked; its topic was deleted.
* After INCOMPATIBLE_MEMBERS a member waits ``retry.backoff.ms`` and rejoins once for the same members. Read literally,
  the page makes the member rejoin forever (``at-once``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from kemu.protocol.assign.base import Assignment, Assignor
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.frozen import evolve
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
    MemberSubscription,
    Partitions,
    minus,
    never_too_early,
)

PROTOCOLS = ("eager", "cooperative")
"""The values of ``rebalance.protocol``; the first value is the default."""
MIXED_POLICIES = ("page", "safe_fill")
"""The ways in which a leader treats V0 and V1 members in one group."""
BYTECODES = ("new", "old")
"""Whether a consumer's code supports the KIP."""
INCOMPATIBLE_REJOINS = ("once", "at-once")
"""The reactions to INCOMPATIBLE_MEMBERS: once for the same members after a backoff, or literally as on
KIP-429's page.
"""

PROTOCOL_VIOLATION = "PROTOCOL_VIOLATION"


# --- the leader ------------------------------------------------------------------------------------------------------


Segment: TypeAlias = Callable[[Assignment, Mapping[MemberId, MemberSubscription]], Mapping[MemberId, Given]]


def segment(assignment: Assignment, members: Mapping[MemberId, MemberSubscription]) -> Mapping[MemberId, Given]:
    """The assignment of each member, by the versions of all the members' subscriptions.

    Args:
        assignment: the assignor's result.
        members: every member's subscription; the keys are the keys of ``assignment``.

    Source: KIP-429 page, "Consumer Coordinator Algorithm", 3, and "Compatibility and Upgrade Path", 1 to 3.
    """
    return _segment(assignment, members, starve_old_members)


def segment_filling(assignment: Assignment, members: Mapping[MemberId, MemberSubscription]) -> Mapping[MemberId, Given]:
    """The result of ``segment``, but a mixed group also assigns the partitions that no V1 member owns
    (``safe_fill``).
    """
    return _segment(assignment, members, fill)


def _segment(
    assignment: Assignment, members: Mapping[MemberId, MemberSubscription], mixed: Segment
) -> Mapping[MemberId, Given]:
    assert assignment.keys() == members.keys(), "every member needs an entry, if only an empty one"
    versions = {one.version for one in members.values()}
    if versions == {V1}:
        return segment_cooperatively(assignment, members)
    if versions == {V0}:
        return {one: Given(tuple(partitions)) for one, partitions in assignment.items()}
    return mixed(assignment, members)


def segment_cooperatively(
    assignment: Assignment, members: Mapping[MemberId, MemberSubscription]
) -> Mapping[MemberId, Given]:
    """The assignments if all members are on V1. A moving partition is revoked from its owner, and assigned to no member
    in this rebalance.

    Source: KIP-429 page: "For prev-assigned-partitions, check if the owner has changed, if yes, encode it to the old
    owner in revoked-partitions but NOT encode to the assigned-partitions to the new owner."
    """
    claims = _claims(members)
    owner = {partition: _rightful(who, members) for partition, who in claims.items()}
    wanted_by = {partition: one for one, partitions in assignment.items() for partition in partitions}
    given = {}
    for one, partitions in assignment.items():
        owned = members[one].subscription.owned
        given[one] = Given(
            tuple(at for at in partitions if at not in claims or owner[at] == one),
            tuple(at for at in owned if owner[at] != one or wanted_by.get(at) != one),
        )
    return given


def starve_old_members(
    assignment: Assignment, members: Mapping[MemberId, MemberSubscription]
) -> Mapping[MemberId, Given]:
    """The assignments without consensus: V1 members get "their existing assigned-partitions", V0 members "an empty
    assigned-partitions".

    Source: KIP-429 page, "If there's no consensus, it means we are in a second rebalance".
    """
    return {
        one: Given(())
        if members[one].version == V0
        else Given(members[one].subscription.owned, (), AssignmentErrorCode.INCOMPATIBLE_MEMBERS)
        for one in assignment
    }


def fill(assignment: Assignment, members: Mapping[MemberId, MemberSubscription]) -> Mapping[MemberId, Given]:
    """The assignments without consensus: V1 members keep their partitions, and all other partitions are also assigned.

    This rule is kemu's alternative to KIP-429's page. Every member has joined. V0 members revoked all partitions
    before, and V1 members listed their partitions. Therefore the other partitions are as free as in an eager rebalance.
    """
    owned = frozenset(_claims(members))
    given = {}
    for one, partitions in assignment.items():
        free = minus(partitions, owned)
        if members[one].version == V0:
            given[one] = Given(free)
        else:
            kept = members[one].subscription.owned
            given[one] = Given((*kept, *free), (), AssignmentErrorCode.INCOMPATIBLE_MEMBERS)
    return given


def _claims(members: Mapping[MemberId, MemberSubscription]) -> dict[TopicPartition, list[MemberId]]:
    claims: dict[TopicPartition, list[MemberId]] = {}
    for one, said in members.items():
        for partition in dict.fromkeys(said.subscription.owned):
            claims.setdefault(partition, []).append(one)
    return claims


def _rightful(claimants: Sequence[MemberId], members: Mapping[MemberId, MemberSubscription]) -> MemberId | None:
    """The only claimant, or the claimant of the highest generation. None if claims have no generation, as
    on the page.
    """
    newest = max(members[one].subscription.generation for one in claimants)
    owners = [one for one in claimants if members[one].subscription.generation == newest]
    return owners[0] if len(owners) == 1 else None


def _read(data: bytes) -> MemberSubscription:
    return MemberSubscription(*decode_page_subscription(data))


def _read_v0_only(data: bytes) -> MemberSubscription:
    return MemberSubscription(*decode_page_subscription(data, at_most=V0))


def _write(given: Given, member_version: int, own_version: int) -> bytes:
    """The bytes in the version of the member that receives the assignment."""
    return encode_page_assignment(
        PageAssignment(given.assigned, given.revoked, given.error, given.user_data), member_version
    )


PAGE_LEADER = LeaderRules(_read, segment, _write)
FILLING_LEADER = LeaderRules(_read, segment_filling, _write)
OLD_LEADER = LeaderRules(_read_v0_only, segment, _write)
"""The leader of a consumer without the KIP, which cannot read a subscription of V1."""


# --- the member ------------------------------------------------------------------------------------------------------


def take_page(owned: Partitions, given: Given) -> Changes:
    """The changes by a V1 assignment: check the assignment, then the error code, then revoke and rejoin.

    A cooperative member may receive a V0 assignment from a leader without the KIP. A V0 assignment has no list of
    revoked partitions, so any owned partition that is missing in the assignment fails the check.

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
    """Whether to rejoin: not if the last such error was about the same members, as far as this member knows them."""
    return before != now


def always(before: Known | None, now: Known) -> bool:
    """True, by the page: "trigger a rebalance immediately (for incompatible members, ...)"."""
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
    """The page's rules for one consumer, by its ``rebalance.protocol`` and kemu's options.

    Raises:
        ValueError: an invalid value, or a cooperative consumer of a release before the KIP.
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
            raise ValueError("rebalance.protocol: not supported with emulated.bytecode old")
        return OLD_BYTECODE
    rules = PAGE_COOPERATIVE if config.rebalance_protocol == "cooperative" else PAGE_EAGER
    if config.emulated_mixed_policy == "safe_fill":
        rules = evolve(rules, leading=FILLING_LEADER)
    if config.emulated_incompatible_rejoin == "at-once":
        rules = evolve(rules, rejoin_when_incompatible=always, waits_when_incompatible=False)
    return rules


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions)
