"""Consumers' fetches on a broker, with or without replication (a part of the broker).

A fetch is answered at once when ``min_bytes`` are available, when a partition has an error, or when its wait is 0.
Any other fetch is delayed. Source: Kafka's ``ReplicaManager.fetchMessages``.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from kemu.actors.broker.delayed_fetches import DelayedFetch, DelayedFetches, Waiters, unwatch
from kemu.actors.broker.partition_log import PartitionLog
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.connections import Connections
from kemu.actors.machine import Caller, Machine, Received, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Fetch, FetchedPartition, FetchPartition, FetchReply, RecordBatch
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.wire.compile import maker

FETCH_SESSIONS_SINCE = 7

_NONE = ErrorCode.NONE
_NO_NEWS = FetchReply(partitions=())
_fetched_partition = maker(FetchedPartition)
_fetch_reply = maker(FetchReply)


class Readable(Protocol):
    """A partition that this broker leads: ``HostedPartition``, or a leading ``Replica``."""

    waiters: Waiters
    record_bytes: int
    leader_epoch: int

    @property
    def log(self) -> PartitionLog:
        """The partition's records."""
        ...

    @property
    def may_be_behind(self) -> bool:
        """Whether the true high watermark may be higher than the known high watermark, because the leader is new
        (KIP-207).
        """
        ...

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """The error for a client's leader epoch."""
        ...

    def available_bytes(self, row: FetchPartition) -> int:
        """The number of bytes available for a fetch."""
        ...


class ConsumerFetch(DelayedFetch):
    """A consumer's delayed fetch, with its request."""

    __slots__ = ("request",)

    def __init__(self, number: int, caller: Caller, request: Fetch) -> None:
        super().__init__(number, caller, request.max_bytes, request.partitions)
        self.request = request


class ConsumerFetches:
    """The answers to fetches from the partitions that this broker leads, at once or delayed.

    Args:
        absent: the error for a partition that this broker does not lead.
        connections: the connections, each muted while one of its fetches is delayed.
    """

    def __init__(
        self,
        machine: Machine,
        partitions: Mapping[TopicPartition, Readable],
        absent: Callable[[str, int], ErrorCode],
        connections: Connections,
    ) -> None:
        self._machine = machine
        self._partitions = partitions
        self._absent = absent
        self._delayed: DelayedFetches[ConsumerFetch] = DelayedFetches(machine, BrokerTimer.FETCH, self._answer_news)
        self._reusable: dict[ActorName, ConsumerFetch] = {}
        """Client -> its last fetch, if the answer had neither records nor an error. An idle client sends an equal
        request again; its rows need no new check until a partition changes (``invalidate``).
        """
        self._connections = connections

    def asked(self, event: Received) -> None:
        """Answer a fetch, or delay it until ``min_bytes`` are available or ``max_wait_ms`` have passed."""
        request: Fetch = event.message
        previous = self._reusable.pop(event.peer, None)
        if previous is not None and previous.watched:
            if previous.request is request:
                previous.number, previous.caller = self._delayed.next_number(), caller_of(event)
                self._delayed.hold_reused(previous, request.max_wait_ms)
                self._connections.mute(event)
                return
            unwatch(previous)
        fetch = ConsumerFetch(self._delayed.next_number(), caller_of(event), request)
        available = 0
        failed = False
        watched: list[Waiters] = []
        partitions = self._partitions
        for index, row in enumerate(request.partitions):
            known = partitions.get((row.topic, row.partition))
            if (
                known is not None
                and row.fetch_offset == known.log.end_offset
                and row.current_leader_epoch == known.leader_epoch
            ):
                watched.append(known.waiters)  # a valid row without new records
                continue
            partition, error = self._partition_for(row)
            if partition is None or error is not _NONE:
                failed = True
                fetch.available[index] = 0  # the row's answer is an error
                continue
            watched.append(partition.waiters)
            there = partition.available_bytes(row)
            if there > 0:
                fetch.available[index] = there
                available += there
        if failed or available >= request.min_bytes or request.max_wait_ms <= 0 or not request.partitions:
            self._answer(fetch, tuple(fetch.available))
            return
        fetch.missing = request.min_bytes - available
        self._delayed.hold(fetch, watched, request.max_wait_ms)
        self._connections.mute(event)

    def refuse(self, event: Received, error: ErrorCode) -> None:
        """Answer a fetch with this error for every partition."""
        request: Fetch = event.message
        rows = tuple(_row(row, error) for row in request.partitions)
        self._machine.reply(event, FetchReply(partitions=rows))

    def grown(self, partition: Readable) -> None:
        """Answer the fetches that have enough bytes, after records were appended or became readable."""
        self._delayed.grown(partition.waiters, partition.available_bytes)

    def time_is_over(self, number: int) -> None:
        """Answer a fetch that timed out with the available records.

        From v7 on, the answer omits partitions without new information, as a fetch session does (KIP-227).
        """
        fetch = self._delayed.time_is_over(number)
        in_session = fetch.caller.version >= FETCH_SESSIONS_SINCE
        if in_session and not fetch.available:
            caller = fetch.caller
            self._machine.reply(caller, _NO_NEWS)
            self._keep_for_reuse(fetch)
            self._connections.answered(caller)
            return
        unwatch(fetch)
        if in_session:
            self._answer_news(fetch)
        else:
            self.answer_all(fetch)

    def give_up(self, partition: Readable) -> list[ConsumerFetch]:
        """Stop the wait of all fetches of this partition; the caller must answer them (``answer_all``)."""
        return self._delayed.give_up(partition.waiters)

    def answer_all(self, fetch: ConsumerFetch) -> None:
        """Answer every row in its current state."""
        self._answer(fetch, tuple(range(len(fetch.rows))))

    # --- parts -------------------------------------------------------------------------------------------------

    def _keep_for_reuse(self, fetch: ConsumerFetch) -> None:
        if not fetch.is_reusable:
            unwatch(fetch)
            return
        before = self._reusable.get(fetch.caller.actor)
        if before is not None:
            unwatch(before)
        self._reusable[fetch.caller.actor] = fetch

    def _answer_news(self, fetch: ConsumerFetch) -> None:
        self._answer(fetch, tuple(sorted(fetch.available)))

    def _answer(self, fetch: ConsumerFetch, indexes: tuple[int, ...]) -> None:
        """Reply with the rows at these indexes. ``max_bytes`` limits the total, but the first records are always
        included.

        Source: KIP-74.
        """
        left = fetch.max_bytes
        rows: list[FetchedPartition] = []
        for index in indexes:
            row = fetch.rows[index]
            partition, error = self._partition_for(row)
            if partition is None or error is not _NONE:
                rows.append(_row(row, error, partition))
                continue
            batches: tuple[RecordBatch, ...] = ()
            if left >= partition.record_bytes or left == fetch.max_bytes:
                batches = partition.log.read(row.fetch_offset, min(row.max_bytes, left), partition.record_bytes)
                left -= partition.record_bytes * sum([batch.count for batch in batches])
            rows.append(
                _fetched_partition(
                    topic=row.topic,
                    partition=row.partition,
                    error=_NONE,
                    high_watermark=partition.log.high_watermark,
                    log_start_offset=partition.log.start_offset,
                    batches=batches,
                )
            )
        self._machine.reply(fetch.caller, _fetch_reply(partitions=tuple(rows)))
        self._connections.answered(fetch.caller)

    def _partition_for(self, row: FetchPartition) -> tuple[Readable | None, ErrorCode]:
        partition = self._partitions.get((row.topic, row.partition))
        if partition is None:
            return None, self._absent(row.topic, row.partition)
        if row.current_leader_epoch != partition.leader_epoch:
            error = partition.epoch_error(row.current_leader_epoch)
            if error is not _NONE:
                return partition, error
        log = partition.log
        if not log.start_offset <= row.fetch_offset <= log.end_offset:
            return partition, ErrorCode.OFFSET_OUT_OF_RANGE
        return partition, _NONE


def _row(row: FetchPartition, error: ErrorCode, partition: Readable | None = None) -> FetchedPartition:
    log = partition.log if partition is not None and error is ErrorCode.OFFSET_OUT_OF_RANGE else None
    return FetchedPartition(
        topic=row.topic,
        partition=row.partition,
        error=error,
        high_watermark=log.high_watermark if log else -1,
        log_start_offset=log.start_offset if log else -1,
    )
