"""One replica on its broker: its role and leader epoch, its log and, on the leader, its followers.

The replica has no timers and sends no message: its methods change the state and return the result, and the broker's
parts react. Delayed fetches (``waiters``) use a replica like a ``HostedPartition``. Source: Kafka 2.8's ``Partition``.
"""

from bisect import insort
from enum import Enum
from typing import NamedTuple

from kemu.actors.broker.delayed_fetches import Waiters, invalidate
from kemu.actors.broker.isr import NEVER_US, Follower, InSync, fallen_behind, may_join, watermark_for
from kemu.actors.broker.leader_epochs import UNDEFINED_EPOCH, EpochEndOffset, leader_epoch_error
from kemu.actors.broker.log_cleaner import Segments
from kemu.actors.broker.partition_log import JOURNALS, log_name
from kemu.actors.broker.produce_calls import ProduceCall, produced
from kemu.actors.broker.replica_log import ReplicaLog
from kemu.actors.broker.rules import ReplicaRules
from kemu.actors.machine import Record
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import LeaderAndIsrPartition
from kemu.protocol.messages.data import FetchPartition, ProduceBatch, ProducedBatch, ReplicaBatch
from kemu.protocol.names import TopicPartition
from kemu.protocol.wire.compile import maker

_replica_batch = maker(ReplicaBatch)


class Role(Enum):
    """A replica's role, as far as the replica knows."""

    IDLE = "idle"
    """The replica has a log but no leader epoch (no control request has arrived), or was stopped."""
    FOLLOWER = "follower"
    LEADER = "leader"
    OFFLINE = "offline"
    """The replica's disk failed: every request gets KAFKA_STORAGE_ERROR."""


_LEADER = Role.LEADER


class Ack(NamedTuple):
    """A batch whose producer waits until all records below ``offset`` are committed or stored.

    ``order``: the sort key among equal offsets.
    """

    offset: int
    order: int
    call: ProduceCall
    row: int
    batch: ProduceBatch
    base_offset: int
    append_time_ms: int

    def outcome(self, error: ErrorCode) -> ProducedBatch:
        """The answer's row for this result of the wait."""
        if error is not ErrorCode.NONE:
            return produced(self.batch, error)
        return produced(self.batch, error, self.base_offset, self.append_time_ms)


class Replica:
    """The state of one replica on its broker."""

    __slots__ = (
        "acks",
        "adding",
        "controller_epoch",
        "durable_acks",
        "epoch_start",
        "flushed_us",
        "follower_waiters",
        "followers",
        "in_sync",
        "journal",
        "leader",
        "leader_epoch",
        "led_since",
        "life",
        "log",
        "log_name",
        "min_in_sync",
        "number",
        "record_bytes",
        "removing",
        "replicas",
        "role",
        "segments",
        "topic",
        "waiters",
        "writes",
    )

    def __init__(
        self, topic: str, number: int, log: ReplicaLog, *, record_bytes: int, min_in_sync: int, life: int = 0
    ) -> None:
        self.topic = topic
        self.number = number
        self.log = log
        self.log_name = log_name(topic, number)
        self.journal = JOURNALS + self.log_name
        self.record_bytes = record_bytes
        self.min_in_sync = min_in_sync
        self.life = life
        """The number of the start of this process; added to each append, without effect on decisions."""
        self.role = Role.IDLE
        self.leader = -1
        self.leader_epoch = -1
        self.controller_epoch = -1
        """The epoch of the controller that elected the leader (not the newest known controller epoch)."""
        self.replicas: tuple[int, ...] = ()
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        # State of the leader:
        self.in_sync = InSync()
        self.epoch_start = -1
        """The log's end at the start of the leader epoch."""
        self.followers: dict[int, Follower] = {}
        self.acks: list[Ack] = []
        """Appends with acks=all, ordered by the offset that the high watermark must reach."""
        self.durable_acks: list[Ack] = []
        """Appends with acks=1, ordered by the offset that must be stored on this broker."""
        self.waiters: Waiters = {}
        """Consumers' delayed fetches."""
        self.follower_waiters: Waiters = {}
        self.led_since = -1
        """The leader epoch since which this replica leads without interruption."""
        self.writes: dict[int, int] = {}
        """Token of a journal write in progress -> the log's end after the write."""
        self.segments = Segments()
        """The segments of a compacted log."""
        self.flushed_us = 0
        """The time of the last flush of the log, or of its loading."""

    @property
    def at(self) -> TopicPartition:
        """The partition of this replica."""
        return self.topic, self.number

    # --- control -----------------------------------------------------------------------------------------------

    def take_epoch(self, state: LeaderAndIsrPartition) -> None:
        """Adopt the epochs and replicas of a LeaderAndIsr, for any role."""
        invalidate(self.waiters)
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.replicas = state.replicas
        self.adding = state.adding_replicas
        self.removing = state.removing_replicas

    def lead(self, state: LeaderAndIsrPartition, own_id: int, now_us: int, rules: ReplicaRules) -> bool:
        """Become the leader, or remain the leader in a new epoch; returns whether the log's epochs have a new entry.

        A leader that remains the leader keeps its followers' positions; a new leader does not know these positions.
        """
        was_leader = self.role is Role.LEADER
        self.take_epoch(state)
        self.role = Role.LEADER
        if not was_leader:
            self.led_since = state.leader_epoch
        self.in_sync.settle(state.isr, state.zk_version)
        self.epoch_start = self.log.end_offset
        # The ISR may contain replicas that are no longer assigned (KAFKA-9672).
        others = [broker for broker in dict.fromkeys((*state.replicas, *state.isr)) if broker != own_id]
        self.followers = {broker: self.followers.get(broker) or Follower(broker) for broker in others}
        for follower in self.followers.values():
            caught_up_us = now_us if follower.broker in state.isr else NEVER_US
            if was_leader:
                follower.caught_up_us = caught_up_us
            else:
                follower.reset(caught_up_us)
        return rules.leader_writes_epoch and self.log.epochs.assign(state.leader_epoch, self.log.end_offset)

    def follow(self, state: LeaderAndIsrPartition) -> bool:
        """Become a follower; returns whether the leader is the same as before."""
        same = self.role is Role.FOLLOWER and self.leader == state.leader
        self.take_epoch(state)
        self._stop_leading(Role.FOLLOWER)
        self.in_sync.settle((), state.zk_version)
        return same

    def stop(self, role: Role = Role.IDLE) -> None:
        """Neither lead nor follow any more; the leader epoch is kept."""
        self._stop_leading(role)

    def _stop_leading(self, role: Role) -> None:
        assert not self.waiters and not self.follower_waiters and not self.acks and not self.durable_acks
        self.role = role
        self.epoch_start = -1
        self.followers = {}

    # --- fences ------------------------------------------------------------------------------------------------

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """The error for a leader epoch in a request (-1 = unknown to the sender). Source: KIP-320."""
        return leader_epoch_error(current_leader_epoch, self.leader_epoch)

    @property
    def may_be_behind(self) -> bool:
        """Whether the high watermark may be too low, because this leader was a follower when it learned the high
        watermark.

        Records committed before this epoch are below the epoch's start, but perhaps above the high watermark (KIP-207).
        """
        return self.log.high_watermark < self.epoch_start

    def available_bytes(self, row: FetchPartition) -> int:
        """The number of bytes available for a consumer's fetch of this partition."""
        return max(0, min((self.log.high_watermark - row.fetch_offset) * self.record_bytes, row.max_bytes))

    def bytes_to_copy(self, row: FetchPartition) -> int:
        """The number of bytes available for a follower's fetch of this partition."""
        return min((self.log.end_offset - row.fetch_offset) * self.record_bytes, row.max_bytes)

    def is_fully_copied(self, row: FetchPartition, broker: int) -> bool:
        """Whether a follower's fetch is valid and has no records to copy. (False may also mean that the
        answer is unknown.)
        """
        return (
            row.fetch_offset == self.log.end_offset
            and row.current_leader_epoch == self.leader_epoch
            and broker in self.followers
            and self.divergence(row) is None
        )

    def divergence(self, row: FetchPartition) -> EpochEndOffset | None:
        """The offset at which the log of a fetching follower diverges from this log.

        None if the log does not diverge, or the fetch has no epoch.
        """
        last, log = row.last_fetched_epoch, self.log
        if last == UNDEFINED_EPOCH or (last == log.epochs.latest and row.fetch_offset <= log.end_offset):
            return None
        return log.epochs.divergence(last, row.fetch_offset, log.end_offset)

    def has_no_news(self, row: FetchPartition, broker: int) -> bool:
        """Whether the follower also knows the current high watermark, so that the answer contains no new
        information.
        """
        follower, log = self.followers.get(broker), self.log
        return (
            follower is not None
            and row.fetch_offset == log.end_offset
            and row.current_leader_epoch == self.leader_epoch
            and follower.sent_watermark == log.high_watermark
        )

    # --- the disk ----------------------------------------------------------------------------------------------

    def truncate_to(self, end_offset: int) -> bool:
        """Truncate the log; returns whether records were removed. Writes in progress end at this offset at most."""
        if not self.log.truncate_to(end_offset):
            return False
        self.writes = {token: min(end, end_offset) for token, end in self.writes.items()}
        return True

    def empty(self, start_offset: int) -> None:
        """Remove the whole log, which continues at this offset. Writes in progress end at this offset, too."""
        self.log.begin_at(start_offset)
        self.writes = dict.fromkeys(self.writes, start_offset)

    def written(self, token: int, *, flushed: bool) -> None:
        """Record that a journal write is done, or (``flushed``) durable."""
        log, end = self.log, self.writes.pop(token)
        log.stored_end = max(log.stored_end, end)
        if flushed:
            log.flushed_end = max(log.flushed_end, end)

    # --- leading -----------------------------------------------------------------------------------------------

    def append(
        self, count: int, now_ms: int, batch: ProduceBatch | None = None, records: tuple[Record, ...] = ()
    ) -> ReplicaBatch:
        """Append records on the leader; returns the batch as it is in the log."""
        assert self.role is _LEADER
        written = _replica_batch(
            base_offset=self.log.end_offset,
            count=count,
            append_time_ms=now_ms,
            leader_epoch=self.leader_epoch,
            producer_id=batch.producer_id if batch is not None else -1,
            producer_epoch=batch.producer_epoch if batch is not None else -1,
            sequence=batch.sequence if batch is not None else -1,
            records=records,
            life=self.life,
        )
        self.log.take(written)
        return written

    def wait_for_all(self, ack: Ack) -> None:
        """Keep this acknowledgement until the high watermark reaches ``ack.offset``."""
        insort(self.acks, ack)

    def acks_reached(self) -> tuple[Ack, ...]:
        """Remove and return the acknowledgements whose offset the high watermark has reached."""
        return _take_up_to(self.acks, self.log.high_watermark)

    def acks_durable(self) -> tuple[Ack, ...]:
        """Remove and return the acknowledgements whose records are stored on this broker."""
        return _take_up_to(self.durable_acks, self.log.stored_end)

    def acks_given_up(self) -> tuple[Ack, ...]:
        """Remove and return all acknowledgements."""
        given_up = (*self.acks, *self.durable_acks)
        self.acks, self.durable_acks = [], []
        return given_up

    def raise_watermark(self, own_end: int, now_us: int, lag_us: int, rules: ReplicaRules) -> bool:
        """Raise the high watermark to the offset that all relevant replicas have; returns whether it rose.

        A leader never lowers its high watermark.
        """
        offset = watermark_for(own_end, self.followers.values(), self.in_sync, now_us, lag_us, rules)
        if offset <= self.log.high_watermark:
            return False
        self.log.high_watermark = offset
        return True

    def shrunk(self, now_us: int, lag_us: int, rules: ReplicaRules) -> tuple[int, ...] | None:
        """The ISR without lagging replicas; None if the ISR is unchanged, or a change is pending."""
        if self.role is not Role.LEADER or self.in_sync.proposed is not None:
            return None
        followers = self.followers.values()
        behind = fallen_behind(followers, self.in_sync, self.log.end_offset, now_us, lag_us, rules)
        return tuple(broker for broker in self.in_sync.members if broker not in behind) if behind else None

    def expanded(self, broker: int, alive: bool, rules: ReplicaRules) -> tuple[int, ...] | None:
        """The ISR with this follower, which just fetched; None if the ISR is unchanged, or a change is pending."""
        if self.in_sync.proposed is not None or broker in self.in_sync.members or broker not in self.replicas:
            return None
        follower = self.followers[broker]
        if not may_join(follower, self.log.high_watermark, self.epoch_start, self.leader_epoch, alive, rules):
            return None
        return (*self.in_sync.members, broker)


def _take_up_to(waiting: list[Ack], offset: int) -> tuple[Ack, ...]:
    reached = 0
    while reached < len(waiting) and waiting[reached].offset <= offset:
        reached += 1
    found = tuple(waiting[:reached])
    del waiting[:reached]
    return found
