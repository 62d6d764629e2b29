"""What a member gives up, keeps and asks again while its group rebalances: EAGER and COOPERATIVE as values.

A consumer never asks which protocol it runs; it asks its rules. Another way to rebalance (a KIP's draft, a past bug)
is another ``MemberRules``.

Source: Kafka's ``ConsumerCoordinator`` (``onJoinPrepare``, ``onJoinComplete``, ``validateCooperativeAssignment``),
KIP-429.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from protocol.assign.base import Assignment, Assignor, RebalanceProtocol, Subscriber
from protocol.names import MemberId, TopicPartition

Partitions: TypeAlias = tuple[TopicPartition, ...]


@frozen
class Changes:
    """What a new assignment means for a member: first give up ``revoked``, then own exactly ``assigned``.

    ``rejoin``: ask for another rebalance, in which the revoked partitions are free.
    """

    revoked: Partitions
    added: Partitions
    rejoin: bool


@frozen
class MemberRules:
    """The decisions of a member about its own partitions, and of the leader about the result.

    ``serve_while_joining``: records are still returned while the commit before a join runs.
    ``give_up_before_join(owned, topics)``: what to revoke before JoinGroup; None = do not even call the listener.
    ``after_sync(owned, assigned)``: what an assignment changes.
    ``moved_too_early(assignor, members, assignment)``: what the leader must not give away yet (then it gives up).
    """

    protocol: RebalanceProtocol
    serve_while_joining: bool
    give_up_before_join: Callable[[Partitions, Sequence[str]], Partitions | None]
    after_sync: Callable[[Partitions, Partitions], Changes]
    moved_too_early: Callable[[str, Mapping[MemberId, Subscriber], Assignment], Partitions]


# --- eager: all of it, every time ------------------------------------------------------------------------------------


def everything(owned: Partitions, topics: Sequence[str]) -> Partitions:
    """Give up all before joining; the listener hears of it even when there is nothing."""
    return owned


def take_all(owned: Partitions, assigned: Partitions) -> Changes:
    """Nothing is owned by now, except when an earlier attempt to take this very assignment raised."""
    return Changes((), minus(assigned, owned), rejoin=False)


def never_too_early(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """Everybody gave up everything: any assignment is fine."""
    return ()


EAGER = MemberRules(RebalanceProtocol.EAGER, False, everything, take_all, never_too_early)


# --- cooperative: only what moves ------------------------------------------------------------------------------------


def unsubscribed(owned: Partitions, topics: Sequence[str]) -> Partitions | None:
    """Give up only partitions of topics that are not wanted any more."""
    wanted = frozenset(topics)
    return tuple(one for one in owned if one[0] not in wanted) or None


def take_difference(owned: Partitions, assigned: Partitions) -> Changes:
    """Give up what was taken away, and if that is anything, come back so that others can have it."""
    revoked = minus(owned, assigned)
    return Changes(revoked, minus(assigned, owned), rejoin=bool(revoked))


def given_while_owned(assignor: str, members: Mapping[MemberId, Subscriber], assignment: Assignment) -> Partitions:
    """Partitions given to one member while another still owned them, by the claims as they came, stale ones included.

    Kafka does not check its own ``cooperative-sticky``, which knows stale claims from good ones.
    """
    if assignor == "cooperative-sticky":
        return ()
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member, subscriber in members.items():
        given = assignment[member]
        added.update(minus(given, subscriber.owned))
        revoked.update(minus(subscriber.owned, given))
    return tuple(sorted(added & revoked))


COOPERATIVE = MemberRules(RebalanceProtocol.COOPERATIVE, True, unsubscribed, take_difference, given_while_owned)

MEMBER_RULES: Mapping[RebalanceProtocol, MemberRules] = {
    RebalanceProtocol.EAGER: EAGER,
    RebalanceProtocol.COOPERATIVE: COOPERATIVE,
}


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
