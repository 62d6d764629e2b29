"""The fetches a broker holds back until there is enough to answer (a part of the broker).

A fetch is answered at once when it brings ``min_bytes``, when a partition has an error to report, or when it does not
want to wait. Otherwise it is parked, and each of its partitions knows it: an append touches only those who wait for
that partition. Source: Kafka's ``DelayedFetch``, whose purgatory watches the same keys.
"""

from collections.abc import Mapping
from typing import Protocol

from kemu.actors.broker.log import PartitionLog
from kemu.actors.broker.partition import ParkedFetch, Waiter
from kemu.actors.machine import Caller, Received, TimerKey, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import Fetch, FetchedPartition, FetchPartition, FetchReply, RecordBatch
from kemu.protocol.names import TopicPartition

FETCH_SESSIONS_SINCE = 7


class Readable(Protocol):
    """A partition that is led here: ``HostedPartition``, or a leading ``Replica``."""

    waiters: dict[int, Waiter]
    record_bytes: int
    leader_epoch: int

    @property
    def log(self) -> PartitionLog:
        """Its records."""
        ...

    @property
    def may_be_behind(self) -> bool:
        """Whether more is committed than the high watermark says: the leader is new (KIP-207)."""
        ...

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """What is wrong with the leader epoch a client believes in."""
        ...

    def available_bytes(self, row: FetchPartition) -> int:
        """How many bytes there are for a fetch."""
        ...


class FetchDesk(Protocol):
    """The broker, as its parked fetches see it."""

    @property
    def partitions(self) -> Mapping[TopicPartition, Readable]:
        """What is led here."""
        ...

    def absent(self, topic: str, partition: int) -> ErrorCode:
        """Why a partition is not among them."""
        ...

    def reply(self, caller: Caller | Received, message: object) -> None:
        """Answer a request."""
        ...

    def start_timer(self, key: TimerKey, after_us: int) -> None:
        """(Re)start a timer."""
        ...

    def stop_timer(self, key: TimerKey) -> None:
        """Forget a timer."""
        ...


class Fetches:
    """Answers fetches of the broker's partitions, now or later."""

    def __init__(self, broker: FetchDesk) -> None:
        self._broker = broker
        self._parked: dict[int, ParkedFetch] = {}
        self._last_number = 0

    def asked(self, event: Received) -> None:
        """Answer, or park until ``min_bytes`` are there or ``max_wait_ms`` are over."""
        request: Fetch = event.message
        self._last_number = number = self._last_number + 1
        fetch = ParkedFetch(number, caller_of(event), request.max_bytes, request.partitions)
        available = 0
        failed = False
        for index, row in enumerate(request.partitions):
            hosted, error = self._partition_for(row)
            if hosted is None or error is not ErrorCode.NONE:
                failed = True
                fetch.available[index] = 0  # it has something to say: its error
                continue
            there = hosted.available_bytes(row)
            if there > 0:
                fetch.available[index] = there
                available += there
        if failed or available >= request.min_bytes or request.max_wait_ms <= 0 or not request.partitions:
            self._answer(fetch, tuple(fetch.available))
            return
        fetch.missing = request.min_bytes - available
        self._park(fetch, request.max_wait_ms)

    def refuse(self, event: Received, error: ErrorCode) -> None:
        """Answer every partition with this error."""
        request: Fetch = event.message
        rows = tuple(_row(row, error) for row in request.partitions)
        self._broker.reply(event, FetchReply(partitions=rows))

    def grown(self, hosted: Readable) -> None:
        """Records were appended: answer the fetches that have enough now."""
        ready: list[ParkedFetch] = []
        for fetch, index in hosted.waiters.values():
            there = hosted.available_bytes(fetch.rows[index])
            fetch.missing -= there - fetch.available.get(index, 0)
            fetch.available[index] = there
            if fetch.missing <= 0:
                ready.append(fetch)
        for fetch in ready:
            self._unpark(fetch)
            self._broker.stop_timer(("fetch", str(fetch.number)))
            self._answer(fetch, tuple(sorted(fetch.available)))

    def time_is_over(self, number: int) -> None:
        """Answer a parked fetch with what there is.

        Since v7 with nothing about partitions of which there is no news, as in a fetch session (KIP-227).
        """
        fetch = self._parked[number]
        self._unpark(fetch)
        in_session = fetch.caller.version >= FETCH_SESSIONS_SINCE
        self._answer(fetch, tuple(sorted(fetch.available) if in_session else range(len(fetch.rows))))

    def unpark_all(self, hosted: Readable) -> list[ParkedFetch]:
        """Whoever waits for this partition waits no more, and is to be answered (``answer_now``)."""
        ended = [waiter.fetch for waiter in hosted.waiters.values()]
        for fetch in ended:
            self._unpark(fetch)
            self._broker.stop_timer(("fetch", str(fetch.number)))
        return ended

    def answer_now(self, fetch: ParkedFetch) -> None:
        """Answer a fetch whose partition went away: every row as it is now."""
        self._answer(fetch, tuple(range(len(fetch.rows))))

    # --- parts -------------------------------------------------------------------------------------------------

    def _park(self, fetch: ParkedFetch, max_wait_ms: int) -> None:
        self._parked[fetch.number] = fetch
        for index, row in enumerate(fetch.rows):
            hosted = self._broker.partitions[row.topic, row.partition]
            hosted.waiters[fetch.number] = Waiter(fetch, index)
        self._broker.start_timer(("fetch", str(fetch.number)), max_wait_ms * 1000)

    def _unpark(self, fetch: ParkedFetch) -> None:
        del self._parked[fetch.number]
        for row in fetch.rows:
            self._broker.partitions[row.topic, row.partition].waiters.pop(fetch.number, None)

    def _answer(self, fetch: ParkedFetch, indexes: tuple[int, ...]) -> None:
        """Reply with the rows at these indexes. ``max_bytes`` bounds the whole, but the first records always come.

        Source: KIP-74.
        """
        left = fetch.max_bytes
        rows: list[FetchedPartition] = []
        for index in indexes:
            row = fetch.rows[index]
            hosted, error = self._partition_for(row)
            if hosted is None or error is not ErrorCode.NONE:
                rows.append(_row(row, error, hosted))
                continue
            batches: tuple[RecordBatch, ...] = ()
            if left >= hosted.record_bytes or left == fetch.max_bytes:
                batches = hosted.log.read(row.fetch_offset, min(row.max_bytes, left), hosted.record_bytes)
                left -= hosted.record_bytes * sum([batch.count for batch in batches])
            rows.append(
                FetchedPartition(
                    topic=row.topic,
                    partition=row.partition,
                    error=ErrorCode.NONE,
                    high_watermark=hosted.log.high_watermark,
                    log_start_offset=hosted.log.start_offset,
                    batches=batches,
                )
            )
        self._broker.reply(fetch.caller, FetchReply(partitions=tuple(rows)))

    def _partition_for(self, row: FetchPartition) -> tuple[Readable | None, ErrorCode]:
        hosted = self._broker.partitions.get((row.topic, row.partition))
        if hosted is None:
            return None, self._broker.absent(row.topic, row.partition)
        if row.current_leader_epoch >= 0:
            error = hosted.epoch_error(row.current_leader_epoch)
            if error is not ErrorCode.NONE:
                return hosted, error
        if not hosted.log.start_offset <= row.fetch_offset <= hosted.log.end_offset:
            return hosted, ErrorCode.OFFSET_OUT_OF_RANGE
        return hosted, ErrorCode.NONE


def _row(row: FetchPartition, error: ErrorCode, hosted: Readable | None = None) -> FetchedPartition:
    log = hosted.log if hosted is not None and error is ErrorCode.OFFSET_OUT_OF_RANGE else None
    return FetchedPartition(
        topic=row.topic,
        partition=row.partition,
        error=error,
        high_watermark=log.high_watermark if log else -1,
        log_start_offset=log.start_offset if log else -1,
    )
