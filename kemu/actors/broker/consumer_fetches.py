"""Consumers' fetches on a broker, with or without replication (a part of the broker).

A fetch is answered at once when ``min_bytes`` are available, when a partition has an error, or when its wait is 0.
Any other fetch is delayed. Source: Kafka's ``ReplicaManager.fetchMessages``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kemu.actors.broker.delayed_fetches import DelayedFetch, DelayedFetches, Waiters, unwatch
from kemu.actors.broker.fetch_sessions import FetchContext, FetchSessions
from kemu.actors.broker.new_leaders import NewLeaders
from kemu.actors.broker.partition_log import PartitionLog
from kemu.actors.broker.timers import BrokerTimer
from kemu.actors.connections import Connections
from kemu.actors.machine import Caller, Machine, Received, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import (
    FETCH_NAMES_LEADERS_SINCE,
    Fetch,
    FetchedPartition,
    FetchPartition,
    FetchReply,
    RecordBatch,
)
from kemu.protocol.names import ActorName, TopicPartition, is_real_client
from kemu.protocol.wire.compile import maker

_NONE = ErrorCode.NONE
_fetched_partition = maker(FetchedPartition)


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
    """A consumer's delayed fetch."""

    __slots__ = ()


class ConsumerFetches:
    """The answers to fetches from the partitions that this broker leads, at once or delayed.

    Args:
        absent: the error for a partition that this broker does not lead.
        connections: the connections, each muted while one of its fetches is delayed.
        new_leaders: the leaders that errors name.
    """

    def __init__(
        self,
        machine: Machine,
        partitions: Mapping[TopicPartition, Readable],
        absent: Callable[[str, int], ErrorCode],
        connections: Connections,
        sessions: FetchSessions,
        new_leaders: NewLeaders,
    ) -> None:
        self._machine = machine
        self._sessions = sessions
        self._new_leaders = new_leaders
        self._partitions = partitions
        self._absent = absent
        self._delayed: DelayedFetches[ConsumerFetch] = DelayedFetches(machine, BrokerTimer.FETCH, self._answer)
        self._reusable: dict[ActorName, ConsumerFetch] = {}
        """Client -> its last fetch in a session, if that was answered without news. An idle client's next fetch has the
        same rows. They need not be examined until something changes (``invalidate``).
        """
        self._connections = connections

    def asked(self, event: Received) -> None:
        """Answer a fetch, or delay it until ``min_bytes`` are available or ``max_wait_ms`` have passed."""
        request: Fetch = event.message
        context = self._sessions.opened(request)
        previous = self._reusable.pop(event.peer, None)
        if isinstance(context, ErrorCode):
            if previous is not None:
                unwatch(previous)
            self._machine.reply(event, FetchReply(error=context, partitions=()))
            return
        if previous is not None and previous.watched:
            if previous.rows is context.rows:
                previous.context = context
                previous.number, previous.caller = self._delayed.next_number(), caller_of(event)
                self._delayed.hold_reused(previous, request.max_wait_ms)
                self._connections.mute(event)
                return
            unwatch(previous)
        fetch = ConsumerFetch(self._delayed.next_number(), caller_of(event), request.max_bytes, context)
        available = 0
        failed = False
        watched: list[Waiters] = []
        partitions = self._partitions
        for index, row in enumerate(context.rows):
            known = partitions.get((row.topic, row.partition))
            if (
                known is not None
                and row.fetch_offset == known.log.end_offset
                and row.current_leader_epoch == known.leader_epoch
            ):
                watched.append(known.waiters)  # a valid row without new records
                continue
            if known is None or self._error(known, row) is not _NONE:
                failed = True
                fetch.available[index] = 0  # the row's answer is an error
                continue
            watched.append(known.waiters)
            there = known.available_bytes(row)
            if there > 0:
                fetch.available[index] = there
                available += there
        if failed or available >= request.min_bytes or request.max_wait_ms <= 0 or not context.rows:
            self._answer(fetch)
            return
        fetch.missing = request.min_bytes - available
        self._delayed.hold(fetch, watched, request.max_wait_ms)
        self._connections.mute(event)

    def refuse(self, event: Received, error: ErrorCode) -> None:
        """Answer every partition with this error."""
        context = self._sessions.opened(event.message)
        if isinstance(context, ErrorCode):
            self._machine.reply(event, FetchReply(error=context, partitions=()))
        else:
            rows = tuple([_row(row, error) for row in context.rows])
            self._reply_with_errors(caller_of(event), context, rows)

    def grown(self, partition: Readable) -> None:
        """Answer the fetches that have enough bytes, after records were appended or became readable."""
        self._delayed.grown(partition.waiters, partition.available_bytes)

    def time_is_over(self, number: int) -> None:
        """Answer a fetch with the available records."""
        fetch = self._delayed.time_is_over(number)
        session = fetch.context.session
        if session is None or fetch.available or not fetch.is_reusable or len(session.known) < len(fetch.rows):
            unwatch(fetch)
            self._answer(fetch)
            return
        caller = fetch.caller
        is_gone = self._connections.is_gone(caller.actor)
        self._machine.reply(caller, self._sessions.answer(fetch.context, ()))
        self._connections.answered(caller)
        if is_gone:
            unwatch(fetch)
            return
        before = self._reusable.get(caller.actor)
        if before is not None:
            unwatch(before)
        self._reusable[caller.actor] = fetch

    def link_down(self, client: ActorName) -> None:
        """Forget the answered fetch of a client that is gone, which only the client's next fetch would use."""
        fetch = self._reusable.pop(client, None) if is_real_client(client) else None
        if fetch is not None:
            unwatch(fetch)

    def give_up(self, partition: Readable) -> list[ConsumerFetch]:
        """Stop the wait of all fetches of this partition; the caller must answer them (``answer_all``)."""
        return self._delayed.give_up(partition.waiters)

    def answer_all(self, fetch: ConsumerFetch) -> None:
        """Answer a fetch that lost a partition: every row in its current state."""
        fetch.is_reusable = False
        self._answer(fetch)

    # --- parts -------------------------------------------------------------------------------------------------

    def _answer(self, fetch: ConsumerFetch) -> None:
        """Reply with the partitions of a fetch, in a session those with news. ``max_bytes`` limits the total, but the
        first records are always included.

        Source: KIP-74, KIP-227.
        """
        left = fetch.max_bytes
        known = fetch.context.session.known if fetch.context.session is not None else None
        rows: list[FetchedPartition] = []
        failed = False
        for index in self._with_news(fetch):
            row = fetch.rows[index]
            at = (row.topic, row.partition)
            partition = self._partitions.get(at)
            error = self._error(partition, row)
            if partition is None or error is not _NONE:
                rows.append(_row(row, error, partition))
                failed = True
                continue
            log, size = partition.log, partition.record_bytes
            batches: tuple[RecordBatch, ...] = ()
            if left >= size or left == fetch.max_bytes:
                batches = log.read(row.fetch_offset, row.max_bytes if row.max_bytes < left else left, size)
                for batch in batches:
                    left -= size * batch.count
            watermark, start = log.high_watermark, log.start_offset
            if known is None or batches or known.get(at) != (watermark, start):
                rows.append(
                    _fetched_partition(
                        topic=row.topic,
                        partition=row.partition,
                        error=_NONE,
                        high_watermark=watermark,
                        log_start_offset=start,
                        batches=batches,
                    )
                )
        if failed:
            self._reply_with_errors(fetch.caller, fetch.context, tuple(rows))
        else:
            self._machine.reply(fetch.caller, self._sessions.answer(fetch.context, tuple(rows)))
        self._connections.answered(fetch.caller)

    def _reply_with_errors(self, caller: Caller, context: FetchContext, rows: tuple[FetchedPartition, ...]) -> None:
        reply = self._sessions.answer(context, rows)
        named = self._new_leaders.of(reply.partitions) if caller.version >= FETCH_NAMES_LEADERS_SINCE else ()
        if named:
            reply = FetchReply(session_id=reply.session_id, partitions=reply.partitions, new_leaders=named)
        self._machine.reply(caller, reply)

    def _with_news(self, fetch: ConsumerFetch) -> Iterable[int]:
        """The indexes of the rows that may have news for the reader, in order."""
        session, rows, available = fetch.context.session, fetch.rows, fetch.available
        if session is None or not fetch.is_reusable:
            return range(len(rows))
        known = session.known
        if len(known) == len(rows):
            return sorted(available)
        return [
            index for index, row in enumerate(rows) if index in available or (row.topic, row.partition) not in known
        ]

    def _error(self, partition: Readable | None, row: FetchPartition) -> ErrorCode:
        if partition is None:
            return self._absent(row.topic, row.partition)
        if row.current_leader_epoch != partition.leader_epoch:
            error = partition.epoch_error(row.current_leader_epoch)
            if error is not _NONE:
                return error
        log = partition.log
        return _NONE if log.start_offset <= row.fetch_offset <= log.end_offset else ErrorCode.OFFSET_OUT_OF_RANGE


def _row(row: FetchPartition, error: ErrorCode, partition: Readable | None = None) -> FetchedPartition:
    log = partition.log if partition is not None and error is ErrorCode.OFFSET_OUT_OF_RANGE else None
    return FetchedPartition(
        topic=row.topic,
        partition=row.partition,
        error=error,
        high_watermark=log.high_watermark if log else -1,
        log_start_offset=log.start_offset if log else -1,
    )
