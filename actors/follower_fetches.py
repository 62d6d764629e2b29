"""Followers' fetches at their leader (a part of the replicated broker): copies of batches, and news of who has what.

A follower's fetch offset says what it has; that moves the high watermark and the ISR. A fetch that is refused says
nothing (KAFKA-8400). As consumers' fetches they are held back until there is something; but a follower reads to the
log's end. Source: Kafka 2.8's ``ReplicaManager.fetchMessages``, ``Partition.updateFollowerFetchState``.
"""

from actors.hosted_partition import ParkedFetch, Waiter
from actors.isr_store import IsrStore
from actors.machine import Received, caller_of
from actors.replica import Replica
from actors.replica_base import US_PER_MS, ReplicaDesk
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchedPartition, FetchPartition, FetchReply, ReplicaBatch

TIMER = "follower-fetch"


class FollowerFetches:
    """See the module."""

    def __init__(self, desk: ReplicaDesk, isr_store: IsrStore) -> None:
        self._desk = desk
        self._isr_store = isr_store
        self._parked: dict[int, tuple[ParkedFetch, int]] = {}
        """Number -> (fetch, follower)."""
        self._last_number = 0

    def asked(self, event: Received) -> None:
        """Take note of what the follower has; answer, or park until there is more."""
        request: Fetch = event.message
        broker = request.replica_id
        self._last_number = number = self._last_number + 1
        fetch = ParkedFetch(number, caller_of(event), request.max_bytes, request.partitions)
        watermarks: dict[int, int] = {}
        served: list[tuple[Replica, FetchPartition]] = []
        failed = False
        available = 0
        for index, row in enumerate(request.partitions):
            replica, error = self._replica_for(row, broker)
            if replica is None or error is not ErrorCode.NONE:
                failed = True
                fetch.available[index] = 0
                if replica is not None and self._desk.rules.failed_fetches_count and broker in replica.followers:
                    served.append((replica, row))
                continue
            watermarks[index] = replica.log.high_watermark
            there = replica.bytes_to_copy(row)
            if there > 0:
                fetch.available[index] = there
                available += there
            served.append((replica, row))
        ready = failed or available >= request.min_bytes or request.max_wait_ms <= 0 or not request.partitions
        if ready:
            # What was read before the positions count, high watermarks included, as Kafka does.
            self._answer(fetch, broker, watermarks)
        else:
            fetch.missing = request.min_bytes - available
            self._park(fetch, broker, request.max_wait_ms)
        for replica, row in served:
            self._has(replica, broker, row.fetch_offset)

    def grown(self, replica: Replica) -> None:
        """Records were appended: answer the followers that have enough now."""
        ready: list[ParkedFetch] = []
        for fetch, index in replica.follower_waiters.values():
            there = replica.bytes_to_copy(fetch.rows[index])
            fetch.missing -= there - fetch.available.get(index, 0)
            fetch.available[index] = there
            if fetch.missing <= 0:
                ready.append(fetch)
        for fetch in ready:
            self._answer_parked(fetch)

    def time_is_over(self, number: int) -> None:
        """Answer with what there is."""
        self._answer_parked(self._parked[number][0])

    def unpark_all(self, replica: Replica) -> list[tuple[ParkedFetch, int]]:
        """Whoever waits for this partition waits no more, and is to be answered (``answer_now``)."""
        ended = [self._parked[number] for number in replica.follower_waiters]
        for fetch, _ in ended:
            self._unpark(fetch)
        return ended

    def answer_now(self, fetch: ParkedFetch, broker: int) -> None:
        """Answer a fetch whose partition went away: every row as it is now."""
        self._answer(fetch, broker, {})

    # --- parts -------------------------------------------------------------------------------------------------

    def _has(self, replica: Replica, broker: int, offset: int) -> None:
        """A follower has everything below ``offset``: it may join the ISR, the high watermark may rise."""
        desk = self._desk
        replica.followers[broker].fetched(offset, replica.log.end_offset, replica.leader_epoch, desk.now_us)
        isr = replica.expanded(broker, broker in desk.live_brokers, desk.rules)
        if isr is not None:
            self._isr_store.propose(replica, isr, "expand")
        desk.advance(replica)

    def _park(self, fetch: ParkedFetch, broker: int, max_wait_ms: int) -> None:
        self._parked[fetch.number] = (fetch, broker)
        for index, row in enumerate(fetch.rows):
            replica = self._desk.partitions[row.topic, row.partition]
            replica.follower_waiters[fetch.number] = Waiter(fetch, index)
        self._desk.start_timer((TIMER, str(fetch.number)), max_wait_ms * US_PER_MS)

    def _unpark(self, fetch: ParkedFetch) -> None:
        del self._parked[fetch.number]
        self._desk.stop_timer((TIMER, str(fetch.number)))
        for row in fetch.rows:
            self._desk.partitions[row.topic, row.partition].follower_waiters.pop(fetch.number, None)

    def _answer_parked(self, fetch: ParkedFetch) -> None:
        broker = self._parked[fetch.number][1]
        self._unpark(fetch)
        self._answer(fetch, broker, {})

    def _answer(self, fetch: ParkedFetch, broker: int, watermarks: dict[int, int]) -> None:
        """Reply about the partitions with news: records, an error, or another high watermark than last told."""
        left = fetch.max_bytes
        rows: list[FetchedPartition] = []
        for index, row in enumerate(fetch.rows):
            replica, error = self._replica_for(row, broker)
            if replica is None or error is not ErrorCode.NONE:
                rows.append(_refused(row, error))
                continue
            follower = replica.followers[broker]
            watermark = watermarks.get(index, replica.log.high_watermark)
            batches: tuple[ReplicaBatch, ...] = ()
            if left > 0 and row.fetch_offset < replica.log.end_offset:
                batches = replica.log.copy_from(row.fetch_offset, min(row.max_bytes, left), replica.record_bytes)
                left -= replica.record_bytes * sum([batch.count for batch in batches])
            if not batches and watermark == follower.told_watermark:
                continue
            follower.told_watermark = watermark
            rows.append(
                FetchedPartition(
                    topic=row.topic,
                    partition=row.partition,
                    error=ErrorCode.NONE,
                    high_watermark=watermark,
                    log_start_offset=replica.log.start_offset,
                    replica_batches=batches,
                )
            )
        self._desk.reply(fetch.caller, FetchReply(partitions=tuple(rows)))

    def _replica_for(self, row: FetchPartition, broker: int) -> tuple[Replica | None, ErrorCode]:
        replica = self._desk.partitions.get((row.topic, row.partition))
        if replica is None:
            return None, self._desk.absent(row.topic, row.partition)
        if self._desk.rules.fences_fetches:
            error = replica.epoch_error(row.current_leader_epoch)
            if error is not ErrorCode.NONE:
                return replica, error
        if broker not in replica.followers:
            # Not assigned, as far as we know: the LeaderAndIsr that adds it may still be on its way to us.
            return replica, ErrorCode.UNKNOWN_LEADER_EPOCH
        if not replica.log.start_offset <= row.fetch_offset <= replica.log.end_offset:
            return replica, ErrorCode.OFFSET_OUT_OF_RANGE
        return replica, ErrorCode.NONE


def _refused(row: FetchPartition, error: ErrorCode) -> FetchedPartition:
    return FetchedPartition(topic=row.topic, partition=row.partition, error=error)
