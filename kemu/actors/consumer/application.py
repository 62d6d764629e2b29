"""The application around a consumer: it calls poll(), processes records, commits and closes.

The polling thread belongs to the application. Inside ``poll()`` the client works (``actors.consumer.consumer``).
Outside ``poll()`` the application works, and the client's tasks on the polling thread wait.

The consumer informs an application when a call ends. The application reacts with its next call: exactly one of
``poll``, ``work``, ``commit_sync`` and ``close``, as its last statement. An application uses no clock and draws no
random number. So the same inputs lead to the same calls.

Source: Kafka's ``Consumer`` interface (``Calls``). ``Application`` is the interface of any program that uses a
consumer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from kemu.actors.consumer.partition import Returned
from kemu.actors.machine import Draws
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.names import TopicPartition

_POLL_WORK, _RECORD_WORK = DrawName.POLL_WORK, DrawName.RECORD_WORK

Answers: TypeAlias = Callable[[Mapping[TopicPartition, int | None]], None]
"""The continuation of a question about partitions; its argument is the answer of each partition."""


class IllegalState(Exception):
    """Kafka's ``IllegalStateException``: an unassigned partition, or a call that does not fit the mode."""


class Calls(Protocol):
    """The calls of an application: Kafka's ``Consumer``, and ``work`` for processing time (us)."""

    @property
    def now_us(self) -> int:
        """The time of this host's clock."""
        ...

    # --- next call of the polling thread -------------------------------------------------------------------------

    def poll(self, timeout_us: int = 0) -> None:
        """Call poll(); ``polled`` follows: with records, or without any after ``timeout_us`` (0: only with records)."""
        ...

    def work(self, us: int) -> None:
        """Be busy for this time; ``worked`` follows."""
        ...

    def commit_sync(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit all positions, or these offsets; ``committed`` follows.

        Raises:
            IllegalState: a partition is not assigned, or (in KIP-333's mode) polls have not reached an offset yet.
        """
        ...

    def committed(self, partitions: tuple[TopicPartition, ...], then: "Answers") -> None:
        """Ask for the group's committed offsets; ``then(answers)`` makes the next call.

        None: no committed offset, or no answer in time.
        """
        ...

    def beginning_offsets(self, partitions: tuple[TopicPartition, ...], then: "Answers") -> None:
        """Ask for the first offset of each log; ``then(answers)`` makes the next call."""
        ...

    def end_offsets(self, partitions: tuple[TopicPartition, ...], then: "Answers") -> None:
        """Ask for the high watermark of each log; ``then(answers)`` makes the next call."""
        ...

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int], then: "Answers") -> None:
        """Ask for the first offset appended at or after each time; ``then(answers)`` makes the next call.

        None: no such offset, or no answer in time.
        """
        ...

    def wait(self, then: Callable[[], None]) -> None:
        """Wait for an event outside the consumer, until ``GoOn`` arrives; ``then()`` makes the next call."""
        ...

    def close(self) -> None:
        """Commit if auto-commit is on, call the listener, leave the group. The application makes no further call."""
        ...

    # --- inside a callback of the listener, after its first step (``Busy``) ----------------------------------------

    def commit_in_callback(self, offsets: Mapping[TopicPartition, int], then: Callable[[], None]) -> None:
        """Call ``commitSync()`` inside a callback; ``then()`` follows, whatever the outcome."""
        ...

    def callback_returns(self) -> None:
        """Return from the callback."""
        ...

    # --- any time outside poll() -----------------------------------------------------------------------------------

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        then: Callable[[bool], None] | None = None,
    ) -> None:
        """Commit all positions, or these offsets, in one attempt. A later poll or commit calls ``then(committed)``.

        ``committed`` is False after any failure, even if the coordinator was not found or not reached. ``then`` must
        make no call. Without a coordinator the commit waits for the lookup in progress. With a second consumer
        (KIP-333) ``then`` is called once, after both commits. The method raises the errors of ``commit_sync``.
        """
        ...

    def processed(self, part: Returned, started_us: int) -> None:
        """Report these records as processed since ``started_us``, for checkers and metrics."""
        ...

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to these topics instead of the former topics, from the next poll on."""
        ...

    def subscribe_to_pattern(self, pattern: str, *, of_broker: bool = False) -> None:
        """Subscribe to all present and future topics that match this expression, from the next poll on.

        ``of_broker``: the brokers match the expression (``SubscriptionPattern``), which a classic member cannot have
        (``IllegalState``).
        """
        ...

    def unsubscribe(self) -> None:
        """Revoke all partitions and leave the group when the next poll begins."""
        ...

    def assign(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Read exactly these partitions without group membership. Raises ``IllegalState`` while subscribed."""
        ...

    def assignment(self) -> tuple[TopicPartition, ...]:
        """The assigned partitions."""
        ...

    def pause(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Return no records of these partitions until ``resume``. Raises ``IllegalState`` for an unassigned
        partition.
        """
        ...

    def resume(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Return records of these partitions again. Raises ``IllegalState`` for an unassigned partition."""
        ...

    def paused(self) -> tuple[TopicPartition, ...]:
        """The paused partitions."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from this offset. Raises ``IllegalState`` for an unassigned partition."""
        ...

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to return; None while the position is unknown.

        Raises ``IllegalState`` for an unassigned partition.
        """
        ...

    @property
    def last_commit_went_through(self) -> bool:
        """Whether the last ``commit_sync`` succeeded. Kafka's ``commitSync`` raises an exception after a failure."""
        ...

    def child_consumer_is_alive(self) -> bool:
        """Whether a second consumer exists, active or on standby (KIP-333); False outside KIP-333's mode."""
        ...

    def current_lag(self, partition: TopicPartition) -> int | None:
        """The number of records between the position and the last fetched high watermark (KIP-695).

        None before the first fetch.
        """
        ...

    def enforce_rebalance(self) -> None:
        """Rejoin the group at the next poll. Raises ``IllegalState`` without a subscription."""
        ...


class Application(Protocol):
    """A program that uses a consumer. Each method runs outside poll(), and its last statement is the next call."""

    def started(self, calls: Calls) -> None:
        """Make the first call of the process. The consumer is subscribed to the topics of its constructor, if any."""
        ...

    def polled(self, records: Sequence[Returned]) -> None:
        """Use the records that poll() returned, partition by partition; none if the timeout of poll() has passed."""
        ...

    def worked(self) -> None:
        """Continue after the processing time that ``work`` requested."""
        ...

    def committed(self) -> None:
        """Continue after commitSync() has returned or has given up."""
        ...

    def poll_raised(self, why: str) -> None:
        """Continue after poll() raised a non-fatal exception: a callback of the rebalance listener raised an error."""
        ...


ApplicationFactory: TypeAlias = Callable[[ConsumerConfig], Application]
"""The function that makes the application of one process of a member, from the member's configuration."""


class PollLoop:
    """The usual application: poll, process the records, commit if so configured, poll again.

    The configuration sets the processing time (``emulated.process.us.per.record`` and similar keys). Drawn times
    replace the configured time: one draw for each poll, added to the first partition, and one draw for each partition's
    time per record.
    """

    def __init__(self, config: ConsumerConfig, draws: Draws = CALM) -> None:
        self._draws = draws
        self._poll_us = 0
        """The fixed cost of the last poll (us) that is not part of a ``work`` call yet."""
        self._us_per_record = config.emulated_process_us_per_record
        self._commits = config.emulated_commit_after_poll
        self._poll_timeout_us = config.emulated_poll_timeout_ms * 1000
        self._records: list[Returned] = []
        """The records of the last poll that are not processed yet."""
        self._part_started_us = 0
        self._calls: Calls

    def started(self, calls: Calls) -> None:
        """Call poll() for the first time."""
        self._calls = calls
        calls.poll()

    def polled(self, records: Sequence[Returned]) -> None:
        """Process the records of the poll."""
        self._records.extend(records)
        if records:
            self._poll_us = self._draws.us(_POLL_WORK, 0)
        self._process()

    def _process(self) -> None:
        """Process one partition after the other."""
        calls = self._calls
        while self._records:
            part = self._records[0]
            self._part_started_us = calls.now_us
            _, first, last = part
            us = self._poll_us + (last - first) * self._draws.us(_RECORD_WORK, self._us_per_record)
            self._poll_us = 0
            if us > 0:
                calls.work(us)
                return
            self._part_done()
        if self._commits:
            calls.commit_sync()
        else:
            calls.poll()

    def _part_done(self) -> None:
        self._calls.processed(self._records.pop(0), self._part_started_us)

    def worked(self) -> None:
        """Continue after the records of one partition are processed, or after the pause that follows an exception."""
        if self._records:
            self._part_done()
            self._process()
        else:
            self._calls.poll()

    def committed(self) -> None:
        """Call poll() again, whatever the outcome of the commit."""
        self._calls.poll()

    def poll_raised(self, why: str) -> None:
        """Log the exception, and call poll() again after the usual poll timeout."""
        self._calls.work(self._poll_timeout_us)
