"""Followers' fetches at their leader (a part of the replicated broker): copies of batches, and followers' positions.

A follower's fetch offset confirms that the follower has all records below the offset. This confirmation moves the high
watermark and the ISR. A refused fetch confirms nothing (KAFKA-8400). A fetch of a follower whose log diverges confirms
nothing either: the follower learns the offset and truncates (KIP-595, KAFKA-13141). Like consumers' fetches, followers'
fetches are delayed until data is available. But a follower reads up to the log's end.

Followers are served regardless of the metadata cache. Kafka refuses fetches of partitions that are not in the cache,
for followers as for clients. The difference is visible for a topic whose deletion waits for its reassignment: in Kafka
its followers get UNKNOWN_TOPIC_OR_PARTITION from the next UpdateMetadata on.

Source: Kafka 2.8's ``ReplicaManager.fetchMessages``, ``Partition.updateFollowerFetchState``, ``readRecords``.
"""

from collections.abc import Callable
from typing import cast

from kemu.actors.broker.delayed_fetches import DelayedFetch, DelayedFetches, unwatch
from kemu.actors.broker.fetch_sessions import FetchContext, FetchSessions
from kemu.actors.broker.high_watermarks import HighWatermarks
from kemu.actors.broker.isr_changes import IsrChanges
from kemu.actors.broker.leader_epochs import UNDEFINED
from kemu.actors.broker.record_deletions import RecordDeletions
from kemu.actors.broker.replica import Replica
from kemu.actors.broker.replica_manager import ReplicaManager
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.machine import Caller, Machine, Received, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import (
    DivergingEpoch,
    Fetch,
    FetchedPartition,
    FetchPartition,
    FetchReply,
    ReplicaBatch,
)
from kemu.protocol.wire.compile import maker

_NONE = ErrorCode.NONE
_fetched_partition = maker(FetchedPartition)


class FollowerFetch(DelayedFetch):
    """A follower's delayed fetch.

    ``replicas``: per row the replica, or None if this broker no longer leads it. ``waited``: whether the fetch was
    delayed.
    """

    __slots__ = ("broker", "replicas", "waited")

    def __init__(self, number: int, caller: Caller, max_bytes: int, context: FetchContext, broker: int) -> None:
        super().__init__(number, caller, max_bytes, context)
        self.broker = broker
        self.replicas: list[Replica | None] = []
        self.waited = False


class FollowerFetches:
    """The answers to followers' fetches. In an idle cluster most rows have no new information, and a faster function
    checks them.
    """

    def __init__(
        self,
        machine: Machine,
        manager: ReplicaManager,
        watermarks: HighWatermarks,
        isr_changes: IsrChanges,
        deletions: RecordDeletions,
        absent: Callable[[str, int], ErrorCode],
        sessions: FetchSessions,
    ) -> None:
        self._machine = machine
        self._sessions = sessions
        self._manager = manager
        self._watermarks = watermarks
        self._isr_changes = isr_changes
        self._deletions = deletions
        self._absent = absent
        self._delayed: DelayedFetches[FollowerFetch] = DelayedFetches(machine, BrokerTimer.FOLLOWER_FETCH, self._answer)

    def asked(self, event: Received) -> None:
        """Record the follower's positions; answer, or delay the fetch until more data is available."""
        request: Fetch = event.message
        context = self._sessions.opened(request)
        if isinstance(context, ErrorCode):
            self._machine.reply(event, FetchReply(error=context, partitions=()))
            return
        broker, led = request.replica_id, self._manager.led
        for at in context.added:
            self._sent(led.get(at), broker, -1)
        fetch = FollowerFetch(self._delayed.next_number(), caller_of(event), request.max_bytes, context, broker)
        served: list[tuple[Replica, FetchPartition]] = []
        at_once = False
        available = 0
        for index, row in enumerate(context.rows):
            replica = led.get((row.topic, row.partition))
            if replica is not None and replica.is_fully_copied(row, broker):
                fetch.replicas.append(replica)
                served.append((replica, row))
                continue
            error = self._error(replica, row, broker)
            if replica is None or error is not _NONE or replica.divergence(row) is not None:
                at_once = True
                fetch.replicas.append(None)
                fetch.available[index] = 0
                if replica is not None and broker in replica.followers and self._manager.rules.failed_fetches_count:
                    served.append((replica, row))
                continue
            if broker not in replica.followers:  # not a follower: do not wait for its rows
                fetch.replicas.append(None)
                fetch.available[index] = 0
                continue
            there = replica.bytes_to_copy(row)
            if there > 0 and not self._held_back(replica, broker):
                fetch.available[index] = there
                available += there
            fetch.replicas.append(replica)
            served.append((replica, row))
        if at_once or available >= request.min_bytes or request.max_wait_ms <= 0 or not context.rows:
            # Kafka, too, reads (high watermarks included) before it records the positions.
            self._answer(fetch)
        else:
            fetch.waited = True
            fetch.missing = request.min_bytes - available
            watched = [replica.follower_waiters for replica, _ in served]
            self._delayed.hold(fetch, watched, request.max_wait_ms)
        self._take_positions(served, broker)

    def grown(self, replica: Replica) -> None:
        """Answer the followers that have enough data now, after records were appended."""
        waiters = replica.follower_waiters
        if self._manager.leader_quota.rate is not None:
            waiters = {
                fetch: index
                for fetch, index in waiters.items()
                if not self._held_back(replica, cast(FollowerFetch, fetch).broker)
            }
        self._delayed.grown(waiters, replica.bytes_to_copy)

    def _held_back(self, replica: Replica, broker: int) -> bool:
        """Whether the throttled rate withholds a partition from a follower that is not in sync."""
        quota = self._manager.leader_quota
        if quota.rate is None or broker in replica.in_sync.members:
            return False
        return quota.holds_back(replica.at, self._machine.now_us)

    def time_is_over(self, number: int) -> None:
        """Answer a fetch that timed out with the available records."""
        fetch = self._delayed.time_is_over(number)
        unwatch(fetch)
        self._answer(fetch)

    def give_up(self, replica: Replica) -> list[FollowerFetch]:
        """Stop the wait of all fetches of this partition; the caller must answer them (``answer_all``)."""
        return self._delayed.give_up(replica.follower_waiters)

    def answer_all(self, fetch: FollowerFetch) -> None:
        """Answer every row of a fetch after this broker lost a partition of the fetch."""
        fetch.replicas = [None] * len(fetch.rows)
        self._answer(fetch)

    # --- parts -------------------------------------------------------------------------------------------------

    def _take_positions(self, served: list[tuple[Replica, FetchPartition]], broker: int) -> None:
        """Record positions: the follower has all records below its offsets.

        The follower may join ISRs, and high watermarks may rise.
        """
        manager, now_us = self._manager, self._machine.now_us
        for replica, row in served:
            end = replica.log.end_offset
            follower = replica.followers[broker]
            before = follower.end_offset
            follower.fetched(row.fetch_offset, end, replica.leader_epoch, now_us)
            if broker not in replica.in_sync.members:
                isr = replica.expanded(broker, broker in manager.live_brokers, manager.rules)
                if isr is not None:
                    self._isr_changes.propose(replica, isr, "expand")
            if follower.end_offset != before and replica.log.high_watermark < end:
                self._watermarks.advance(replica)
        if self._deletions:
            for replica, row in served:
                self._deletions.fetched(replica, broker, row.log_start_offset)

    def _answer(self, fetch: FollowerFetch) -> None:
        """Reply with all partitions, or in a session with those that have news: records, an error, or another high
        watermark or log start than last sent.
        """
        broker, is_full = fetch.broker, fetch.context.session is None
        left = fetch.max_bytes
        rows: list[FetchedPartition] = []
        for row, replica in zip(fetch.rows, fetch.replicas, strict=True):
            if replica is not None and not is_full and replica.has_no_news(row, broker):
                continue
            replica = self._manager.led.get((row.topic, row.partition))
            error = self._error(replica, row, broker)
            if replica is None or error is not _NONE:
                rows.append(_refused(row, error))
                self._sent(replica, broker, -1)
                continue
            log, follower = replica.log, replica.followers.get(broker)
            if follower is None and not fetch.waited and not is_full:
                continue
            diverging = replica.divergence(row)
            if diverging is not None:
                rows.append(
                    FetchedPartition(
                        topic=row.topic,
                        partition=row.partition,
                        error=_NONE,
                        high_watermark=log.high_watermark,
                        log_start_offset=log.start_offset,
                        diverging=DivergingEpoch(epoch=diverging.epoch, end_offset=diverging.end_offset),
                    )
                )
                continue
            batches: tuple[ReplicaBatch, ...] = ()
            if left > 0 and row.fetch_offset < log.end_offset and not self._held_back(replica, broker):
                batches = log.copy_from(row.fetch_offset, min(row.max_bytes, left), replica.record_bytes)
                copied = replica.record_bytes * sum([batch.count for batch in batches])
                left -= copied
                if self._manager.leader_quota.rate is not None:
                    self._manager.leader_quota.record(replica.at, copied, self._machine.now_us)
            watermark = log.high_watermark
            if not batches and not is_full and (follower is None or watermark == follower.sent_watermark):
                continue
            self._sent(replica, broker, watermark)
            rows.append(
                _fetched_partition(
                    topic=row.topic,
                    partition=row.partition,
                    error=_NONE,
                    high_watermark=watermark,
                    log_start_offset=log.start_offset,
                    replica_batches=batches,
                )
            )
        self._machine.reply(fetch.caller, self._sessions.answer(fetch.context, tuple(rows)))

    def _sent(self, replica: Replica | None, broker: int, watermark: int) -> None:
        """Remember the high watermark that a follower knows in its session; -1: none."""
        follower = replica.followers.get(broker) if replica is not None else None
        if follower is not None:
            follower.sent_watermark = watermark

    def _error(self, replica: Replica | None, row: FetchPartition, broker: int) -> ErrorCode:
        if replica is None:
            return self._absent(row.topic, row.partition)
        if self._manager.rules.fences_fetches:
            error = replica.epoch_error(row.current_leader_epoch)
            if error is not _NONE:
                return error
        if broker not in replica.followers and self._manager.rules.refuses_unassigned:
            # Not assigned according to this leader: the LeaderAndIsr that adds the replica may not have arrived yet.
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        log = replica.log
        diverging = replica.divergence(row)
        if row.fetch_offset < log.start_offset or diverging == UNDEFINED:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return ErrorCode.OFFSET_OUT_OF_RANGE if diverging is None and row.fetch_offset > log.end_offset else _NONE


def _refused(row: FetchPartition, error: ErrorCode) -> FetchedPartition:
    return FetchedPartition(topic=row.topic, partition=row.partition, error=error)
