"""One replica on its broker: its role under the leader epoch it knows, its log, and as leader its followers.

Holds no timers and says nothing: methods change the state and return what came of it; the broker's parts do the rest.
Delayed fetches (``waiters``) see it as they see ``HostedPartition``. Source: Kafka 2.8's ``Partition``.
"""

from bisect import insort
from enum import Enum
from typing import NamedTuple

from kemu.actors.broker.delayed_fetches import Waiters, look_again
from kemu.actors.broker.isr import NEVER_US, Follower, InSync, fallen_behind, may_join, watermark_for
from kemu.actors.broker.leader_epochs import UNDEFINED_EPOCH, EpochEndOffset, leader_epoch_error
from kemu.actors.broker.partition_log import log_name
from kemu.actors.broker.produce_calls import ProduceCall, produced
from kemu.actors.broker.replica_log import JOURNALS, ReplicaLog
from kemu.actors.broker.rules import ReplicaRules
from kemu.actors.machine import Record
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import LeaderAndIsrPartition
from kemu.protocol.messages.data import FetchPartition, ProduceBatch, ProducedBatch, ReplicaBatch
from kemu.protocol.names import TopicPartition
from kemu.protocol.wire.compile import maker

_replica_batch = maker(ReplicaBatch)


class Role(Enum):
    """What a replica is, as far as it knows."""

    IDLE = "idle"
    """It has a log and no leader epoch (a control request is still to come), or was stopped."""
    FOLLOWER = "follower"
    LEADER = "leader"
    OFFLINE = "offline"
    """Its disk failed: KAFKA_STORAGE_ERROR to everything."""


_LEADER = Role.LEADER


class Ack(NamedTuple):
    """A batch whose producer waits until everything below ``offset`` counts. ``order`` keeps equal ones apart."""

    offset: int
    order: int
    call: ProduceCall
    row: int
    batch: ProduceBatch
    base_offset: int
    append_time_ms: int

    def outcome(self, error: ErrorCode) -> ProducedBatch:
        """The answer's row when the wait ends so."""
        if error is not ErrorCode.NONE:
            return produced(self.batch, error)
        return produced(self.batch, error, self.base_offset, self.append_time_ms)


class Replica:
    """See the module."""

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
        """Which start of this process it is: told with each append, and decides nothing."""
        self.role = Role.IDLE
        self.leader = -1
        self.leader_epoch = -1
        self.controller_epoch = -1
        """Of the decision that made the leader (not the newest one known)."""
        self.replicas: tuple[int, ...] = ()
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        # As leader:
        self.in_sync = InSync()
        self.epoch_start = -1
        """The log's end when we took the epoch."""
        self.followers: dict[int, Follower] = {}
        self.acks: list[Ack] = []
        """Appended with acks=all, by the offset that the high watermark must reach."""
        self.durable_acks: list[Ack] = []
        """Appended with acks=1, by the offset that must count as stored here."""
        self.waiters: Waiters = {}
        """Consumers' fetches that are held back."""
        self.follower_waiters: Waiters = {}
        self.led_since = -1
        """The leader epoch since which we lead without a break."""
        self.writes: dict[int, int] = {}
        """Token of a journal write under way -> the log's end once it is done."""
        self.flushed_us = 0
        """When the log was flushed last, or taken up."""

    @property
    def at(self) -> TopicPartition:
        """Which partition this is."""
        return self.topic, self.number

    # --- control -----------------------------------------------------------------------------------------------

    def take_epoch(self, state: LeaderAndIsrPartition) -> None:
        """What a LeaderAndIsr says, whatever our part in it."""
        look_again(self.waiters)
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.replicas = state.replicas
        self.adding = state.adding_replicas
        self.removing = state.removing_replicas

    def lead(self, state: LeaderAndIsrPartition, own_id: int, now_us: int, rules: ReplicaRules) -> bool:
        """Become the leader, or stay it under a new epoch; whether the log's epochs have a new entry.

        A leader that stays knows its followers' positions still, a new one knows nothing of them.
        """
        was_leader = self.role is Role.LEADER
        self.take_epoch(state)
        self.role = Role.LEADER
        if not was_leader:
            self.led_since = state.leader_epoch
        self.in_sync.settle(state.isr, state.zk_version)
        self.epoch_start = self.log.end_offset
        # The ISR may hold replicas that are not assigned any more (KAFKA-9672).
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
        """Become a follower; whether the leader is the one we followed already."""
        same = self.role is Role.FOLLOWER and self.leader == state.leader
        self.take_epoch(state)
        self._stop_leading(Role.FOLLOWER)
        self.in_sync.settle((), state.zk_version)
        return same

    def stop(self, role: Role = Role.IDLE) -> None:
        """Neither lead nor follow. The leader epoch stays known."""
        self._stop_leading(role)

    def _stop_leading(self, role: Role) -> None:
        assert not self.waiters and not self.follower_waiters and not self.acks and not self.durable_acks
        self.role = role
        self.epoch_start = -1
        self.followers = {}

    # --- fences ------------------------------------------------------------------------------------------------

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """What is wrong with the leader epoch that somebody believes in (-1 = does not say). Source: KIP-320."""
        return leader_epoch_error(current_leader_epoch, self.leader_epoch)

    @property
    def may_be_behind(self) -> bool:
        """Whether the high watermark is still that of the follower we were: what was committed before our epoch is
        below the epoch's start, and perhaps above the high watermark (KIP-207).
        """
        return self.log.high_watermark < self.epoch_start

    def available_bytes(self, row: FetchPartition) -> int:
        """How many bytes there are for a consumer's fetch of this partition."""
        return max(0, min((self.log.high_watermark - row.fetch_offset) * self.record_bytes, row.max_bytes))

    def bytes_to_copy(self, row: FetchPartition) -> int:
        """How many bytes there are for a follower's fetch of this partition."""
        return min((self.log.end_offset - row.fetch_offset) * self.record_bytes, row.max_bytes)

    def is_copied_whole(self, row: FetchPartition, broker: int) -> bool:
        """Whether a follower's fetch is in order and there is nothing for it to copy. (False may also mean neither.)"""
        return (
            row.fetch_offset == self.log.end_offset
            and row.current_leader_epoch == self.leader_epoch
            and broker in self.followers
            and self.divergence(row) is None
        )

    def divergence(self, row: FetchPartition) -> EpochEndOffset | None:
        """Where the log of a follower that fetches so has parted ways with ours; None: it has not, or does not ask."""
        last, log = row.last_fetched_epoch, self.log
        if last == UNDEFINED_EPOCH or (last == log.epochs.latest and row.fetch_offset <= log.end_offset):
            return None
        return log.epochs.divergence(last, row.fetch_offset, log.end_offset)

    def has_no_news(self, row: FetchPartition, broker: int) -> bool:
        """Whether, besides, the follower knows our high watermark: there is nothing to tell it."""
        follower, log = self.followers.get(broker), self.log
        return (
            follower is not None
            and row.fetch_offset == log.end_offset
            and row.current_leader_epoch == self.leader_epoch
            and follower.told_watermark == log.high_watermark
        )

    # --- the disk ----------------------------------------------------------------------------------------------

    def cut(self, end_offset: int) -> bool:
        """Forget the log from here on; whether there was anything. Writes under way lead to this end at most."""
        if not self.log.cut(end_offset):
            return False
        self.writes = {token: min(end, end_offset) for token, end in self.writes.items()}
        return True

    def empty(self, start_offset: int) -> None:
        """Forget the whole log, which goes on here. Writes under way lead nowhere else."""
        self.log.begin_at(start_offset)
        self.writes = dict.fromkeys(self.writes, start_offset)

    def written(self, token: int, *, flushed: bool) -> None:
        """A journal write is done, or (``flushed``) durable."""
        log, end = self.log, self.writes.pop(token)
        log.stored_end = max(log.stored_end, end)
        if flushed:
            log.flushed_end = max(log.flushed_end, end)

    # --- leading -----------------------------------------------------------------------------------------------

    def append(
        self, count: int, now_ms: int, batch: ProduceBatch | None = None, records: tuple[Record, ...] = ()
    ) -> ReplicaBatch:
        """Append as leader; the batch as it is in the log."""
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
        """Tell this producer when the high watermark is at ``ack.offset``."""
        insort(self.acks, ack)

    def acks_reached(self) -> tuple[Ack, ...]:
        """Those whose records all replicas that count have now; they wait no more."""
        return _take_up_to(self.acks, self.log.high_watermark)

    def acks_durable(self) -> tuple[Ack, ...]:
        """Those whose records are on our disk now; they wait no more."""
        return _take_up_to(self.durable_acks, self.log.stored_end)

    def acks_given_up(self) -> tuple[Ack, ...]:
        """All that wait; they wait no more."""
        given_up = (*self.acks, *self.durable_acks)
        self.acks, self.durable_acks = [], []
        return given_up

    def raise_watermark(self, own_end: int, now_us: int, lag_us: int, rules: ReplicaRules) -> bool:
        """Move the high watermark up to what all that count have; whether it moved. A leader never lowers it."""
        offset = watermark_for(own_end, self.followers.values(), self.in_sync, now_us, lag_us, rules)
        if offset <= self.log.high_watermark:
            return False
        self.log.high_watermark = offset
        return True

    def shrunk(self, now_us: int, lag_us: int, rules: ReplicaRules) -> tuple[int, ...] | None:
        """The ISR without those who fell behind; None when it stays, or a change is under way."""
        if self.role is not Role.LEADER or self.in_sync.proposed is not None:
            return None
        followers = self.followers.values()
        behind = fallen_behind(followers, self.in_sync, self.log.end_offset, now_us, lag_us, rules)
        return tuple(broker for broker in self.in_sync.members if broker not in behind) if behind else None

    def expanded(self, broker: int, alive: bool, rules: ReplicaRules) -> tuple[int, ...] | None:
        """The ISR with this follower, which just fetched; None when it stays, or a change is under way."""
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
