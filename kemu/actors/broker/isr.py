"""The ISR on its leader: the state of the followers, and the rules for changes of the ISR and the high watermark.

The ISR is in the metadata store; the leader changes the ISR by compare-and-set. While such a write is in progress the
leader does not know its result, so both results must be safe. Replicas that the write would add, and replicas that the
write would remove, must all have a record before the high watermark passes this record (the *maximal* ISR).

Source: Kafka 2.8's ``Partition`` and ``Replica``.
"""

from collections.abc import Iterable

from kemu.actors.broker.rules import ReplicaRules

UNKNOWN_OFFSET = -1
NEVER_US = -(1 << 62)
"""A time before any allowed lag."""


class Follower:
    """A leader's state of one of its followers."""

    __slots__ = (
        "broker",
        "caught_up_us",
        "end_offset",
        "fetched_us",
        "leader_end_then",
        "seen_epoch",
        "sent_watermark",
    )

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.end_offset = UNKNOWN_OFFSET
        """The follower's log end according to its last fetch; -1 before the first fetch."""
        self.caught_up_us = NEVER_US
        """The time at which the follower last had all records of the leader."""
        self.fetched_us = NEVER_US
        self.leader_end_then = 0
        """The leader's log end at the follower's last fetch."""
        self.seen_epoch = -1
        """The leader epoch of the follower's last fetch."""
        self.sent_watermark = -1
        """The high watermark in the last answer to the follower."""

    def reset(self, caught_up_us: int) -> None:
        """Reset the state to unknown, because the leader is new."""
        self.end_offset = UNKNOWN_OFFSET
        self.caught_up_us = caught_up_us
        self.fetched_us = NEVER_US
        self.leader_end_then = 0
        self.seen_epoch = -1
        self.sent_watermark = -1

    def fetched(self, offset: int, leader_end: int, leader_epoch: int, now_us: int) -> None:
        """Record a fetch: the follower has all records below ``offset``.

        If ``offset`` is the leader's end, the follower is caught up now. If ``offset`` is the leader's end at the
        previous fetch, the follower was caught up at that fetch. So a follower that fetches steadily, always one batch
        behind, is in sync.
        """
        if offset >= leader_end:
            if now_us > self.caught_up_us:
                self.caught_up_us = now_us
        elif offset >= self.leader_end_then:
            self.caught_up_us = max(self.caught_up_us, self.fetched_us)
        self.end_offset = offset
        self.fetched_us = now_us
        self.leader_end_then = leader_end
        self.seen_epoch = leader_epoch


class InSync:
    """A partition's ISR on its leader: the ISR last confirmed by the store, and the pending change."""

    __slots__ = ("members", "proposed", "zk_version")

    def __init__(self) -> None:
        self.members: tuple[int, ...] = ()
        self.proposed: tuple[int, ...] | None = None
        self.zk_version = 0

    def settle(self, members: tuple[int, ...], zk_version: int) -> None:
        """Set the confirmed ISR and the version of its node."""
        self.members = members
        self.zk_version = zk_version
        self.proposed = None

    @property
    def maximal(self) -> tuple[int, ...]:
        """All replicas that may be in the ISR."""
        if self.proposed is None:
            return self.members
        return self.members + tuple(broker for broker in self.proposed if broker not in self.members)


def watermark_for(
    own_end: int, followers: Iterable[Follower], in_sync: InSync, now_us: int, lag_us: int, rules: ReplicaRules
) -> int:
    """The offset that all relevant replicas have reached: replicas in the ISR, and replicas that were recently caught
    up.

    The recently caught-up replicas prevent the high watermark from outrunning a replica that is about to join. The
    result is -1 while the position of a relevant replica is unknown.
    """
    counted = in_sync.maximal if rules.maximal_isr else in_sync.members
    least = own_end
    for follower in followers:
        if follower.end_offset < least and (follower.broker in counted or now_us - follower.caught_up_us <= lag_us):
            least = follower.end_offset
    return least


def fallen_behind(
    followers: Iterable[Follower], in_sync: InSync, own_end: int, now_us: int, lag_us: int, rules: ReplicaRules
) -> tuple[int, ...]:
    """ISR members that have not been caught up for longer than ``replica.lag.time.max.ms``, ascending.

    A member that has all records remains in the ISR, however long ago its last fetch was (KAFKA-7152).
    """
    return tuple(
        sorted(
            follower.broker
            for follower in followers
            if follower.broker in in_sync.members
            and now_us - follower.caught_up_us > lag_us
            and (follower.end_offset != own_end or rules.shrinks_idle)
        )
    )


def may_join(
    follower: Follower, high_watermark: int, epoch_start: int, leader_epoch: int, alive: bool, rules: ReplicaRules
) -> bool:
    """Whether a replica outside the ISR has all records that may be committed.

    The high watermark of a new leader may be lower than the true high watermark. But all records that can have been
    committed before the leader's epoch are below the epoch's start.
    """
    return (
        follower.end_offset >= high_watermark
        and (follower.end_offset >= epoch_start or not rules.joins_at_epoch_start)
        and (follower.seen_epoch == leader_epoch or not rules.joins_after_fetch_in_epoch)
        and (alive or not rules.joins_only_alive)
    )
