"""The application around a consumer: who calls poll(), works on what it returns, commits and closes.

The polling thread is the application's. Inside ``poll()`` the client works (``actors.consumer.consumer``); outside it
the application does, and while it does nothing happens that the polling thread has to do. An application is told when
one of its calls is over and answers with the next one: exactly one of ``poll``, ``work``, ``commit_sync`` and
``close``, as the last thing it does. It has no clock and no chance of its own: same calls, same answers.

Source: Kafka's ``Consumer`` interface (``Calls``), and any program around it (``Application``).
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
"""What follows a question about partitions."""


class IllegalState(Exception):
    """Kafka's ``IllegalStateException``: a partition that is not assigned, or a call that does not fit the mode."""


class Calls(Protocol):
    """What an application may call: Kafka's ``Consumer``, and ``work`` for the time it needs itself (us)."""

    @property
    def now_us(self) -> int:
        """This host's clock."""
        ...

    # --- the next thing the polling thread does ------------------------------------------------------------------

    def poll(self, timeout_us: int = 0) -> None:
        """``polled`` follows: with records, or after this long with none. 0: only with records."""
        ...

    def work(self, us: int) -> None:
        """Be busy for so long; ``worked`` follows."""
        ...

    def commit_sync(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit all positions, or these offsets; ``committed`` follows.

        Raises ``IllegalState``: not assigned; with KIP-333's mode also an offset that was not reached yet.
        """
        ...

    def committed(self, partitions: tuple[TopicPartition, ...], then: "Answers") -> None:
        """The group's committed offsets (None: none, or not told in time); ``then(answers)`` makes the next call."""
        ...

    def beginning_offsets(self, partitions: tuple[TopicPartition, ...], then: "Answers") -> None:
        """Where the logs begin; ``then(answers)`` makes the next call."""
        ...

    def end_offsets(self, partitions: tuple[TopicPartition, ...], then: "Answers") -> None:
        """Where the logs end (high watermarks); ``then(answers)`` makes the next call."""
        ...

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int], then: "Answers") -> None:
        """The first offsets appended at or after these times; None: there is none. ``then`` makes the next call."""
        ...

    def wait(self, then: Callable[[], None]) -> None:
        """Wait for something else than the consumer, until ``GoOn``; ``then()`` makes the next call."""
        ...

    def close(self) -> None:
        """Commit (if it does so by itself), call back, leave; the application is not heard of again."""
        ...

    # --- inside a callback of the listener, after its first step (``Busy``) ----------------------------------------

    def commit_in_callback(self, offsets: Mapping[TopicPartition, int], then: Callable[[], None]) -> None:
        """``commitSync()``; ``then()`` follows however it ends."""
        ...

    def callback_returns(self) -> None:
        """The callback is over."""
        ...

    # --- at any time outside poll() --------------------------------------------------------------------------------

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        then: Callable[[bool], None] | None = None,
    ) -> None:
        """Commit all positions, or these offsets, once: a later poll or commit calls ``then``, which makes no call.

        ``then(committed)``: False also if the coordinator could not be found or reached; nothing is tried again. While
        nobody coordinates the commit waits for the lookup under way; what still waits when the consumer closes is
        dropped, where Kafka's waits for it. With two consumers (KIP-333) it is called once, when both are done. Raises
        as ``commit_sync``.
        """
        ...

    def processed(self, part: Returned, started_us: int) -> None:
        """Report that these records were worked through, since then: what checkers and metrics see as work."""
        ...

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """The subscription is now these topics; takes effect with the next poll."""
        ...

    def subscribe_to_pattern(self, pattern: str) -> None:
        """The subscription is all topics whose names match this expression, now and later; with the next poll."""
        ...

    def unsubscribe(self) -> None:
        """Give everything up and leave; done when the next poll begins."""
        ...

    def assign(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Read exactly these, without being a member of the group. Raises ``IllegalState`` while subscribed."""
        ...

    def assignment(self) -> tuple[TopicPartition, ...]:
        """What is assigned."""
        ...

    def pause(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Polls return nothing of these until they are resumed. Raises ``IllegalState``: not assigned."""
        ...

    def resume(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Polls return records of these again. Raises ``IllegalState``: not assigned."""
        ...

    def paused(self) -> tuple[TopicPartition, ...]:
        """What is paused."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from this offset. Raises ``IllegalState``: not assigned."""
        ...

    def position(self, partition: TopicPartition) -> int | None:
        """Offset of the next record a poll returns; None while it is being found. Raises ``IllegalState``."""
        ...

    @property
    def last_commit_went_through(self) -> bool:
        """Whether the last ``commit_sync`` did what it was asked for: Kafka's raises if it did not."""
        ...

    def child_consumer_is_alive(self) -> bool:
        """Whether there is a second consumer, at work or on standby (KIP-333); False without the mode."""
        ...

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end that came with the last records; None before any (KIP-695)."""
        ...

    def enforce_rebalance(self) -> None:
        """Join again at the next poll. Raises ``IllegalState`` without a subscription."""
        ...


class Application(Protocol):
    """What uses a consumer. Each of these is called outside poll() and ends with the next call (see the module)."""

    def started(self, calls: Calls) -> None:
        """The process starts; the consumer is subscribed to the topics it was made with, if any."""
        ...

    def polled(self, records: Sequence[Returned]) -> None:
        """poll() returned these, partition after partition; nothing if its time was over."""
        ...

    def worked(self) -> None:
        """The time of ``work`` is over."""
        ...

    def committed(self) -> None:
        """commitSync() returned, or gave up."""
        ...

    def poll_raised(self, why: str) -> None:
        """poll() raised what is not fatal: a callback of the rebalance listener raised."""
        ...


ApplicationFactory: TypeAlias = Callable[[ConsumerConfig], Application]
"""Makes the application of one life of a member, from that member's configuration; ``PollLoop`` is one."""


class PollLoop:
    """The usual loop: poll, work through what came, commit if so configured, poll again.

    How long it works, and what it does then, says the configuration (``emulated.process.us.per.record`` and its like),
    or it is drawn: for each poll (the first partition has it) and for each record.
    """

    def __init__(self, config: ConsumerConfig, draws: Draws = CALM) -> None:
        self._draws = draws
        self._poll_us = 0
        """What the last poll costs besides its records, and is not worked off yet."""
        self._us_per_record = config.emulated_process_us_per_record
        self._commits = config.emulated_commit_after_poll
        self._poll_timeout_us = config.emulated_poll_timeout_ms * 1000
        self._records: list[Returned] = []
        """What the last poll returned and is not processed yet."""
        self._part_started_us = 0
        self._calls: Calls

    def started(self, calls: Calls) -> None:
        """Poll."""
        self._calls = calls
        calls.poll()

    def polled(self, records: Sequence[Returned]) -> None:
        """Work through it."""
        self._records.extend(records)
        if records:
            self._poll_us = self._draws.us(_POLL_WORK, 0)
        self._process()

    def _process(self) -> None:
        """Partition after partition."""
        calls = self._calls
        while self._records:
            part = self._records[0]
            self._part_started_us = calls.now_us
            us_per_record = self._draws.us(_RECORD_WORK, self._us_per_record)
            us = self._poll_us + (part.last - part.first) * us_per_record
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
        """A partition's part is done, or the pause after an exception is over."""
        if self._records:
            self._part_done()
            self._process()
        else:
            self._calls.poll()

    def committed(self) -> None:
        """However that ended."""
        self._calls.poll()

    def poll_raised(self, why: str) -> None:
        """It logs what poll() raised, and polls again after its usual poll timeout."""
        self._calls.work(self._poll_timeout_us)
