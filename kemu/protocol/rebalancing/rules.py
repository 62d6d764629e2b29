"""A member's decisions during a rebalance: revoke, keep or rejoin; EAGER and COOPERATIVE as values.

A consumer never checks the protocol; it asks its rules. Another way to rebalance (a KIP's draft, a past bug) is another
``MemberRules``; ``protocol.rebalancing.kip_429`` has the rules of KIP-429's page.

Source: Kafka's ``ConsumerCoordinator`` (``onJoinPrepare``, ``onJoinComplete``, ``validateCooperativeAssignment``),
KIP-429.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from attrs import evolve

from kemu.protocol.assign.base import Assignment, Assignor, RebalanceProtocol, Subscriber
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.frozen import frozen
from kemu.protocol.messages import member
from kemu.protocol.messages.member import Subscription
from kemu.protocol.names import CONSUMER, MemberId, TopicPartition
from kemu.protocol.rebalancing.client_rules import CLIENT_3_9, ClientRules

Partitions: TypeAlias = tuple[TopicPartition, ...]


@frozen
class Given:
    """The assignment of one member, decoded.

    ``revoked``: partitions revoked from it, None when the layout has no such field. ``error``: 0, or a number of the
    layout.
    ``user_data``: the bytes of the leader's assignor for it, if any.
    """

    assigned: Partitions
    revoked: Partitions | None = None
    error: int = 0
    user_data: bytes | None = None


@frozen
class Changes:
    """The effect of a new assignment on a member: first revoke ``revoked``, then own exactly ``assigned``.

    ``rejoin``: join again, so that the revoked partitions can be assigned.
    ``incompatible``: the leader found members in the group that cannot rebalance together.
    ``violation``: the requirement of every assignment that this one breaks; fatal unless "".
    ``failed``: why the member cannot take a well-formed assignment; fatal unless "".
    """

    revoked: Partitions
    added: Partitions
    rejoin: bool
    incompatible: bool = False
    violation: str = ""
    failed: str = ""


@frozen
class MemberSubscription:
    """One member's subscription as the leader read it, and the version of its layout."""

    version: int
    subscription: Subscription


Known: TypeAlias = tuple[MemberId, ...]
"""The members of a generation that this member knows: all for the leader, none for a follower."""


@frozen
class LeaderRules:
    """The leader's work before and after its assignor.

    ``read(data)``: a member's subscription; raises ``CodecError`` when this leader cannot read it.
    ``segment(assignment, members)``: the assignment of each member, from the assignor's result and the subscriptions.
    ``write(given, member_version, own_version)``: an assignment as bytes.
    """

    read: Callable[[bytes], MemberSubscription]
    segment: Callable[[Assignment, Mapping[MemberId, MemberSubscription]], Mapping[MemberId, Given]]
    write: Callable[[Given, int, int], bytes]


def read_shipped(data: bytes) -> MemberSubscription:
    """Read any version; unknown newer fields are ignored."""
    return MemberSubscription(member.version_of(data), member.decode_subscription(data))


def as_assigned(assignment: Assignment, members: Mapping[MemberId, MemberSubscription]) -> Mapping[MemberId, Given]:
    """Return the assignor's result. In the shipped protocol the assignor withholds partitions in transfer."""
    return {one: Given(tuple(partitions)) for one, partitions in assignment.items()}


def write_shipped(given: Given, member_version: int, own_version: int) -> bytes:
    """Every leader writes its own version; all have the same body."""
    return member.encode_assignment(member.Assignment(given.assigned, given.user_data), own_version)


def read_shipped_assignment(data: bytes) -> Given:
    """The shipped layout does not list revoked partitions; members derive them."""
    said = member.decode_assignment(data)
    return Given(said.partitions, user_data=said.user_data)


SHIPPED_LEADER = LeaderRules(read_shipped, as_assigned, write_shipped)


def no_incompatible_members(before: Known | None, now: Known) -> bool:
    """The shipped protocol has no incompatible members."""
    raise AssertionError("only assignments of KIP-429's page report incompatible members")


@frozen
class MemberRules:
    """The decisions of a member about its own partitions, and of the leader about the result.

    ``serve_while_joining``: records are still returned while the commit before a join runs.
    ``give_up_before_join(owned, topics)``: the partitions to revoke before JoinGroup; None = do not call the listener.
    ``after_sync(owned, given)``: the changes by an assignment.
    ``moved_too_early(assignor, members, assignment)``: partitions assigned before their owner revoked them; the leader
    then
    fails.
    ``write_subscription(subscription, version)``: the metadata in JoinGroup; ``version`` is the release's.
    ``read_assignment(data)``: the assignment in SyncGroup's answer; raises ``CodecError``.
    ``leading``: the rules of a leader.
    ``rejoin_when_incompatible(before, now)``: whether to rejoin after an assignment that reports incompatible members;
    ``before``: the members of the generation right before, if it was incompatible, too; else None.
    ``waits_when_incompatible``: that rejoin waits for ``retry.backoff.ms``.
    ``prepare_after_reset``: a member that lost its membership gives up its partitions before it joins again, even if
    that
    happens during a join.
    ``heeds_resets_while_joining``: ignore an assignment that arrived before the heartbeat thread reset the membership
    (KAFKA-8104).
    ``protocol_type``: the type that all members of a group must share, whatever assignor they vote for.
    ``client``: the other decisions of the release's consumers.
    """

    protocol: RebalanceProtocol
    serve_while_joining: bool
    give_up_before_join: Callable[[Partitions, Sequence[str]], Partitions | None]
    after_sync: Callable[[Partitions, Given], Changes]
    moved_too_early: Callable[[str, Mapping[MemberId, Subscriber], Assignment], Partitions]
    write_subscription: Callable[[Subscription, int], bytes] = member.encode_subscription
    read_assignment: Callable[[bytes], Given] = read_shipped_assignment
    leading: LeaderRules = SHIPPED_LEADER
    rejoin_when_incompatible: Callable[[Known | None, Known], bool] = no_incompatible_members
    waits_when_incompatible: bool = True
    prepare_after_reset: bool = True
    heeds_resets_while_joining: bool = True
    protocol_type: str = CONSUMER
    client: ClientRules = CLIENT_3_9


# --- eager: all of it, every time ------------------------------------------------------------------------------------


def everything(owned: Partitions, topics: Sequence[str]) -> Partitions:
    """Give up all partitions before joining; the listener is called in any case."""
    return owned


def take_all(owned: Partitions, given: Given) -> Changes:
    """The member owns nothing by now, unless an earlier attempt to take this very assignment raised."""
    return Changes((), minus(given.assigned, owned), rejoin=False)


def never_too_early(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """Every member gave up everything: any assignment is safe."""
    return ()


EAGER = MemberRules(RebalanceProtocol.EAGER, False, everything, take_all, never_too_early)


# --- cooperative: only what moves ------------------------------------------------------------------------------------


def unsubscribed(owned: Partitions, topics: Sequence[str]) -> Partitions | None:
    """Give up only partitions of unsubscribed topics."""
    wanted = frozenset(topics)
    return tuple(one for one in owned if one[0] not in wanted) or None


def take_difference(owned: Partitions, given: Given) -> Changes:
    """Revoke the partitions that are not in the assignment; if there are any, rejoin so that others can have them."""
    assigned = given.assigned
    revoked = minus(owned, assigned)
    return Changes(revoked, minus(assigned, owned), rejoin=bool(revoked))


def given_while_owned(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """Partitions assigned to one member while another claimed them; stale claims count, too.

    Kafka exempts its own ``cooperative-sticky``, which recognizes stale claims.
    """
    if assignor == "cooperative-sticky":
        return ()
    return given_while_claimed(assignor, members, assignment)


def given_while_claimed(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """The same check for every assignor: a past bug where claims may be stale (KAFKA-13406)."""
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for one, subscriber in members.items():
        given = assignment[one]
        added.update(minus(given, subscriber.owned))
        revoked.update(minus(subscriber.owned, given))
    return tuple(sorted(added & revoked))


COOPERATIVE = MemberRules(RebalanceProtocol.COOPERATIVE, True, unsubscribed, take_difference, given_while_owned)

MEMBER_RULES: Mapping[RebalanceProtocol, MemberRules] = {
    RebalanceProtocol.EAGER: EAGER,
    RebalanceProtocol.COOPERATIVE: COOPERATIVE,
}

RulesOf: TypeAlias = Callable[[ConsumerConfig, Sequence[Assignor]], MemberRules]
"""Derive a member's rules from its configuration. Raises ``ValueError`` if there are none."""


def by_assignors(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
    """The shipped rule: the highest protocol that all configured assignors have in common."""
    return MEMBER_RULES[common_protocol(assignors)]


def of_client(client: ClientRules, rules_of: RulesOf = by_assignors) -> RulesOf:
    """The same rules with the client decisions of another release."""

    def chosen(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
        return evolve(rules_of(config, assignors), client=client)

    return chosen


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The highest protocol that all configured assignors support: cooperative-sticky next to range is EAGER.

    Raises:
        ValueError: they have none in common (a configuration error in Kafka, too), or there are none.
    """
    common = [protocol for protocol in RebalanceProtocol if all(protocol in one.protocols for one in assignors)]
    if not common or not assignors:
        names = ", ".join(one.name for one in assignors)
        raise ValueError(f"partition.assignment.strategy: [{names}] have no rebalance protocol in common")
    return max(common)


def minus(some: Iterable[TopicPartition], others: Iterable[TopicPartition]) -> Partitions:
    """``some`` without ``others``, in the order of ``some``."""
    without = frozenset(others)
    return tuple(one for one in some if one not in without)
