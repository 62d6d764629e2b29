"""A member's decisions during a rebalance: revoke, keep or rejoin; EAGER and COOPERATIVE are values.

A consumer never checks the protocol, but only reads its rules. For a different way to rebalance (a KIP's draft,
a past bug), define a different ``MemberRules``. ``protocol.rebalancing.kip_429`` has the rules of KIP-429's page.

Source: Kafka's ``ConsumerCoordinator`` (``onJoinPrepare``, ``onJoinComplete``, ``validateCooperativeAssignment``),
KIP-429.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from kemu.protocol.assign.base import Assignment, Assignor, RebalanceProtocol, Subscriber
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.messages import member
from kemu.protocol.messages.member import Subscription
from kemu.protocol.names import CONSUMER, MemberId, TopicPartition
from kemu.protocol.rebalancing.client_rules import CLIENT_3_9, ClientRules

Partitions: TypeAlias = tuple[TopicPartition, ...]


@frozen
class Given:
    """The assignment of one member, decoded.

    ``revoked``: partitions revoked from the member, None if the layout has no such field. ``error``: 0, or an error
    number of the layout. ``user_data``: the bytes of the leader's assignor for the member, if any.
    """

    assigned: Partitions
    revoked: Partitions | None = None
    error: int = 0
    user_data: bytes | None = None


@frozen
class Changes:
    """The effect of a new assignment on a member: first revoke ``revoked``, then own exactly ``assigned``.

    ``rejoin``: join again, so that other members can get the revoked partitions.
    ``incompatible``: the leader found members in the group that cannot rebalance together.
    ``violation``: a requirement of every assignment that this assignment breaks; fatal unless "".
    ``failed``: the reason why the member cannot adopt a well-formed assignment; fatal unless "".
    """

    revoked: Partitions
    added: Partitions
    rejoin: bool
    incompatible: bool = False
    violation: str = ""
    failed: str = ""


@frozen
class MemberSubscription:
    """One member's subscription as the leader read it, and the version of the subscription's layout."""

    version: int
    subscription: Subscription


Known: TypeAlias = tuple[MemberId, ...]
"""The members of a generation that this member knows: all members for the leader, none for a follower."""


@frozen
class LeaderRules:
    """The leader's work before and after the call of its assignor.

    ``read(data)``: a member's subscription; raises ``CodecError`` if this leader cannot read the bytes.
    ``segment(assignment, members)``: the assignment of each member, from the assignor's result and the subscriptions.
    ``write(given, member_version, own_version)``: an assignment as bytes.
    """

    read: Callable[[bytes], MemberSubscription]
    segment: Callable[[Assignment, Mapping[MemberId, MemberSubscription]], Mapping[MemberId, Given]]
    write: Callable[[Given, int, int], bytes]


def read_shipped(data: bytes) -> MemberSubscription:
    """A subscription of any version; fields of newer versions are ignored."""
    return MemberSubscription(member.version_of(data), member.decode_subscription(data))


def as_assigned(assignment: Assignment, members: Mapping[MemberId, MemberSubscription]) -> Mapping[MemberId, Given]:
    """The assignor's result: in the shipped protocol the assignor itself withholds partitions in transfer."""
    return {one: Given(tuple(partitions)) for one, partitions in assignment.items()}


def write_shipped(given: Given, member_version: int, own_version: int) -> bytes:
    """The bytes of an assignment. Every leader writes its own version; all versions have the same body."""
    return member.encode_assignment(member.Assignment(given.assigned, given.user_data), own_version)


def read_shipped_assignment(data: bytes) -> Given:
    """An assignment without a list of revoked partitions: the shipped layout has no list, and members derive it."""
    said = member.decode_assignment(data)
    return Given(said.partitions, user_data=said.user_data)


SHIPPED_LEADER = LeaderRules(read_shipped, as_assigned, write_shipped)


def no_incompatible_members(before: Known | None, now: Known) -> bool:
    """Raise an error: the shipped protocol has no incompatible members."""
    raise AssertionError("only assignments of KIP-429's page report incompatible members")


@frozen
class MemberRules:
    """The decisions of a member about its own partitions, and of the leader about the result.

    ``serve_while_joining``: whether poll() still returns records during the commit before a join.
    ``give_up_before_join(owned, topics)``: the partitions to revoke before JoinGroup; None = do not call the listener.
    ``after_sync(owned, given)``: the changes by an assignment. ``moved_too_early(assignor, members, assignment)``: the
    partitions assigned before their owner revoked them; if there are any, the leader fails.
    ``write_subscription(subscription, version)``: the metadata in JoinGroup, in the version of the release.
    ``read_assignment(data)``: the assignment in SyncGroup's answer; raises ``CodecError``. ``leading``: the rules of a
    leader. ``rejoin_when_incompatible(before, now)``: whether to rejoin after an assignment that reports incompatible
    members. ``before``: the members of the previous generation, if its assignment also reported incompatible members;
    else None. ``waits_when_incompatible``: whether this rejoin waits for ``retry.backoff.ms``. ``prepare_after_reset``:
    whether a member that lost its membership revokes its partitions before it joins again, even during a join.
    ``heeds_resets_while_joining``: whether to ignore an assignment that arrived before the heartbeat thread reset the
    membership (KAFKA-8104). ``protocol_type``: the type that all members of a group must share, whatever assignor they
    vote for. ``client``: the other decisions of the release's consumers.
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
    """All owned partitions: a member revokes them before joining, and always calls the listener."""
    return owned


def take_all(owned: Partitions, given: Given) -> Changes:
    """The changes of an eager member: it owns no partitions, unless an earlier attempt to adopt the
    assignment failed.
    """
    return Changes((), minus(given.assigned, owned), rejoin=False)


def never_too_early(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """No partitions: every member revoked all its partitions, so any assignment is safe."""
    return ()


EAGER = MemberRules(RebalanceProtocol.EAGER, False, everything, take_all, never_too_early)


# --- cooperative: only what moves ------------------------------------------------------------------------------------


def unsubscribed(owned: Partitions, topics: Sequence[str]) -> Partitions | None:
    """The owned partitions of unsubscribed topics; a member keeps all other partitions while it joins."""
    wanted = frozenset(topics)
    return tuple(one for one in owned if one[0] not in wanted) or None


def take_difference(owned: Partitions, given: Given) -> Changes:
    """The changes of a cooperative member: it revokes the partitions that are not in the assignment.

    If the member revokes partitions, it rejoins so that other members can get them.
    """
    assigned = given.assigned
    revoked = minus(owned, assigned)
    return Changes(revoked, minus(assigned, owned), rejoin=bool(revoked))


def given_while_owned(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """The partitions assigned to one member and claimed by another member; stale claims are included.

    Kafka exempts its own ``cooperative-sticky``, which recognizes stale claims.
    """
    if assignor == "cooperative-sticky":
        return ()
    return given_while_claimed(assignor, members, assignment)


def given_while_claimed(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """The partitions of ``given_while_owned`` for every assignor: a past bug if claims may be stale (KAFKA-13406)."""
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
"""A function that derives a member's rules from its configuration; raises ``ValueError`` without valid rules."""


def by_assignors(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
    """The rules of the highest protocol that all configured assignors have in common, as shipped."""
    return MEMBER_RULES[common_protocol(assignors)]


def of_client(client: ClientRules, rules_of: RulesOf = by_assignors) -> RulesOf:
    """A function that derives the same rules, with the client decisions of another release."""

    def chosen(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
        return _with_client(rules_of(config, assignors), client)

    return chosen


@lru_cache(maxsize=64)
def _with_client(rules: MemberRules, client: ClientRules) -> MemberRules:
    return evolve(rules, client=client)


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The highest protocol that all configured assignors support: EAGER for cooperative-sticky and range.

    Raises:
        ValueError: the assignors have no protocol in common (a configuration error in Kafka, too), or there is no
            assignor.
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
