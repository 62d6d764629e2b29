"""What a member gives up, keeps and asks again while its group rebalances: EAGER and COOPERATIVE as values.

A consumer never asks which protocol it runs; it asks its rules. Another way to rebalance (a KIP's draft, a past bug)
is another ``MemberRules``; what the page of KIP-429 had instead is ``protocol.rebalancing.kip_429``.

Source: Kafka's ``ConsumerCoordinator`` (``onJoinPrepare``, ``onJoinComplete``, ``validateCooperativeAssignment``),
KIP-429.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from attrs import evolve, frozen

from kemu.protocol.assign.base import Assignment, Assignor, RebalanceProtocol, Subscriber
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.messages import member
from kemu.protocol.messages.member import Subscription
from kemu.protocol.names import CONSUMER, MemberId, TopicPartition
from kemu.protocol.rebalancing.client_rules import CLIENT_3_9, ClientRules

Partitions: TypeAlias = tuple[TopicPartition, ...]


@frozen
class Given:
    """What an assignment says to one member.

    ``revoked``: what is taken from it, None when the layout has no such field. ``error``: 0, or a number of the layout.
    ``user_data``: the leader's assignor's bytes for it, if any.
    """

    assigned: Partitions
    revoked: Partitions | None = None
    error: int = 0
    user_data: bytes | None = None


@frozen
class Changes:
    """What a new assignment means for a member: first give up ``revoked``, then own exactly ``assigned``.

    ``rejoin``: ask for another rebalance, in which the revoked partitions are free.
    ``incompatible``: the leader found members in the group that cannot rebalance together.
    ``violation``: what this assignment breaks of what every assignment must hold; fatal unless "".
    ``failed``: why the member cannot take it although it breaks nothing; fatal unless "".
    """

    revoked: Partitions
    added: Partitions
    rejoin: bool
    incompatible: bool = False
    violation: str = ""
    failed: str = ""


@frozen
class ToldByMember:
    """What one member's subscription says to the leader, and the version of the layout it is written in."""

    version: int
    subscription: Subscription


Known: TypeAlias = tuple[MemberId, ...]
"""The members of a generation as far as this one knows them: all for the leader, nobody for a follower."""


@frozen
class LeaderRules:
    """What a leader does around its assignor.

    ``read(data)``: a member's subscription; raises ``CodecError`` when this leader cannot read it.
    ``segment(assignment, told)``: who is told what, given what the assignor wants and what everybody said.
    ``write(given, told_version, own_version)``: an assignment as bytes.
    """

    read: Callable[[bytes], ToldByMember]
    segment: Callable[[Assignment, Mapping[MemberId, ToldByMember]], Mapping[MemberId, Given]]
    write: Callable[[Given, int, int], bytes]


def read_shipped(data: bytes) -> ToldByMember:
    """Any version, leniently upward."""
    return ToldByMember(member.version_of(data), member.decode_subscription(data))


def hand_out(assignment: Assignment, told: Mapping[MemberId, ToldByMember]) -> Mapping[MemberId, Given]:
    """As the assignor has it: it is the assignor that withholds what is in transfer."""
    return {one: Given(tuple(partitions)) for one, partitions in assignment.items()}


def write_shipped(given: Given, told_version: int, own_version: int) -> bytes:
    """Every leader writes its own version; all have the same body."""
    return member.encode_assignment(member.Assignment(given.assigned, given.user_data), own_version)


def read_shipped_assignment(data: bytes) -> Given:
    """What shipped says nothing of what is revoked: members find out."""
    said = member.decode_assignment(data)
    return Given(said.partitions, user_data=said.user_data)


SHIPPED_LEADER = LeaderRules(read_shipped, hand_out, write_shipped)


def nobody_asks(before: Known | None, now: Known) -> bool:
    """What shipped knows no incompatible members."""
    raise AssertionError("only KIP-429's page has an assignment say that members are incompatible")


@frozen
class MemberRules:
    """The decisions of a member about its own partitions, and of the leader about the result.

    ``serve_while_joining``: records are still returned while the commit before a join runs.
    ``give_up_before_join(owned, topics)``: what to revoke before JoinGroup; None = do not even call the listener.
    ``after_sync(owned, given)``: what an assignment changes.
    ``moved_too_early(assignor, members, assignment)``: what the leader must not give away yet (then it gives up).
    ``write_subscription(subscription, version)``: what JoinGroup carries; ``version`` is the release's.
    ``read_assignment(data)``: what SyncGroup brought; raises ``CodecError``.
    ``leading``: what it does when it is the leader.
    ``rejoin_when_incompatible(before, now)``: after an assignment that says "incompatible", whether to ask for another
    rebalance; ``before`` are the members of the last such generation if it came right before this one, else None.
    ``waits_when_incompatible``: it does so after ``retry.backoff.ms``, not at once.
    ``prepare_after_reset``: a member that is none any more gives up what it owned before it joins again, also when
    that happens in the midst of a join.
    ``heeds_resets_while_joining``: an assignment that came before the heartbeat thread reset the membership is not
    taken (KAFKA-8104).
    ``protocol_type``: what members of a group must have in common, whatever they vote for.
    ``client``: what the release's consumers do around it.
    """

    protocol: RebalanceProtocol
    serve_while_joining: bool
    give_up_before_join: Callable[[Partitions, Sequence[str]], Partitions | None]
    after_sync: Callable[[Partitions, Given], Changes]
    moved_too_early: Callable[[str, Mapping[MemberId, Subscriber], Assignment], Partitions]
    write_subscription: Callable[[Subscription, int], bytes] = member.encode_subscription
    read_assignment: Callable[[bytes], Given] = read_shipped_assignment
    leading: LeaderRules = SHIPPED_LEADER
    rejoin_when_incompatible: Callable[[Known | None, Known], bool] = nobody_asks
    waits_when_incompatible: bool = True
    prepare_after_reset: bool = True
    heeds_resets_while_joining: bool = True
    protocol_type: str = CONSUMER
    client: ClientRules = CLIENT_3_9


# --- eager: all of it, every time ------------------------------------------------------------------------------------


def everything(owned: Partitions, topics: Sequence[str]) -> Partitions:
    """Give up all before joining; the listener hears of it even when there is nothing."""
    return owned


def take_all(owned: Partitions, given: Given) -> Changes:
    """Nothing is owned by now, except when an earlier attempt to take this very assignment raised."""
    return Changes((), minus(given.assigned, owned), rejoin=False)


def never_too_early(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """Everybody gave up everything: any assignment is fine."""
    return ()


EAGER = MemberRules(RebalanceProtocol.EAGER, False, everything, take_all, never_too_early)


# --- cooperative: only what moves ------------------------------------------------------------------------------------


def unsubscribed(owned: Partitions, topics: Sequence[str]) -> Partitions | None:
    """Give up only partitions of topics that are not wanted any more."""
    wanted = frozenset(topics)
    return tuple(one for one in owned if one[0] not in wanted) or None


def take_difference(owned: Partitions, given: Given) -> Changes:
    """Give up what was taken away, and if that is anything, come back so that others can have it."""
    assigned = given.assigned
    revoked = minus(owned, assigned)
    return Changes(revoked, minus(assigned, owned), rejoin=bool(revoked))


def given_while_owned(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """Partitions given to one member while another still owned them, by the claims as they came, stale ones included.

    Kafka does not check its own ``cooperative-sticky``, which knows stale claims from good ones.
    """
    if assignor == "cooperative-sticky":
        return ()
    return given_while_claimed(assignor, members, assignment)


def given_while_claimed(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """The same of every assignor: a past bug where claims may be stale (KAFKA-13406)."""
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
"""How a release picks a member's rules from its configuration. Raises ``ValueError``: it cannot."""


def by_assignors(config: ConsumerConfig, assignors: Sequence[Assignor]) -> MemberRules:
    """What shipped: the highest protocol that all configured assignors have in common."""
    return MEMBER_RULES[common_protocol(assignors)]


def of_client(client: ClientRules, rules_of: RulesOf = by_assignors) -> RulesOf:
    """The same rules in the hands of another release's consumers."""

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
