"""The polling thread of a consumer: poll(), the calls of the application, and the callbacks of its listener.

The thread belongs to the application. ``Doing`` is the present activity of the thread. Commands to the application wait
until the thread is between two polls.

Source: Kafka 3.9 ``ClassicKafkaConsumer``.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kemu.actors.consumer.application import Answers, Application, IllegalState
from kemu.actors.consumer.closing import CloseCall
from kemu.actors.consumer.commits import Commits, CommitSplit, to_commit
from kemu.actors.consumer.listener import Busy, Listener, Outcome, Raised
from kemu.actors.consumer.machine import (
    Callback,
    ConsumerMachine,
    ConsumerTimer,
    PolledMembership,
    PolledRebalancing,
)
from kemu.actors.consumer.partition import Partition, Returned, ReturnedOfRange
from kemu.actors.consumer.positions import Positions
from kemu.actors.consumer.questions import Questions
from kemu.actors.consumer.reasons import UNSUBSCRIBED
from kemu.actors.consumer.subscription import sorted_topics
from kemu.protocol.commands import (
    ENFORCED,
    AssignNow,
    Close,
    EnforceRebalance,
    GoOn,
    PausePartitions,
    PollReturns,
    RaiseInListener,
    ReadPartitions,
    ResumePartitions,
    Seek,
    StopPolling,
    Subscribe,
    Unsubscribe,
)
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER, TopicPartition
from kemu.protocol.notes.groups import CallbackReturned, ListenerFailed, Processed
from kemu.protocol.notes.ranges import RangeProcessed
from kemu.protocol.wire.compile import maker

if TYPE_CHECKING:
    from kemu.actors.consumer.catch_up import CatchUp
    from kemu.actors.consumer.passes import Passes


class Doing(Enum):
    """The present activity of the polling thread."""

    POLLING = "inside poll()"
    DECIDING = "the application has not made its next call yet"
    WORKING = "the application processes records"
    WAITING = "the application waits for something other than this consumer"
    COMMITTING = "inside commitSync()"
    ASKING = "inside committed(), beginningOffsets(), endOffsets() or offsetsForTimes()"
    IN_CALLBACK = "inside the rebalance listener"
    UNSUBSCRIBING = "inside unsubscribe()"
    CLOSING = "inside close()"
    ENDED = "closed, or failed"


class Running(NamedTuple):
    """A running callback of the listener."""

    name: str
    partitions: tuple[TopicPartition, ...]
    outcome: Outcome
    then: Callback
    before: Doing
    started_us: int


POLLING, _DECIDING, CLOSING, ENDED = Doing.POLLING, Doing.DECIDING, Doing.CLOSING, Doing.ENDED
UNSUBSCRIBING, _IN_CALLBACK, _WORKING = Doing.UNSUBSCRIBING, Doing.IN_CALLBACK, Doing.WORKING
"""Aliases for members that every step compares: a lookup in the enum class is slow in CPython 3.11."""

_AFTER_POLL = (Subscribe, Unsubscribe, StopPolling)
"""Commands that the application executes after the poll() in which it is. Members of 3.4.1, 3.9.1 and 4.1.1 that were
told to stop began their stop up to 15 ms later, when their Fetch had returned."""

_processed = maker(Processed)


class PolledMachine(ConsumerMachine, Protocol):
    """The interface of the consumer's machine for its polling thread."""

    awake: bool
    fatal: tuple[ErrorCode, str] | None


class PollingThread:
    """The polling thread of one consumer, which implements ``Calls`` for the application.

    Args:
        machine: the consumer, with all of its parts.
        application: the program that polls and processes records.
        listener: the application's rebalance listener.
        closing: the call of close().
    """

    closes_at_us = 0
    """The time at which the thread notices an order to close; 0 without such an order."""
    _resumes_us = 0
    """The time at which the thread runs again after a pause of the process."""
    _lookup_until_us = 0
    """The end of the last poll() that waited for a coordinator; 0: no poll() has waited."""
    poll_until_us = 0
    """The time at which this poll() returns without records; 0: poll() returns only with records."""

    def __init__(
        self,
        machine: PolledMachine,
        membership: PolledMembership,
        positions: Positions,
        commits: Commits,
        rebalancing: PolledRebalancing,
        catch_up: "CatchUp | None",
        closing: CloseCall,
        application: Application,
        listener: Listener,
        passes: "Passes | None" = None,
    ) -> None:
        self.doing = _DECIDING
        self.commands: list[Any] = []
        """Commands that the thread has not executed yet; it executes commands between two polls."""
        self._raise_next: dict[str, str] = {}
        """Name of a callback -> message of the exception that the next call of the callback raises."""
        self.questions = Questions(machine, positions)
        self._machine = machine
        self._config = machine.config
        self._membership = membership
        self._positions = positions
        self._commits = commits
        self._rebalancing = rebalancing
        self._catch_up = catch_up
        self._closing = closing
        self._subscription = machine.subscription
        self._application = application
        self._listener = listener
        self._passes = passes
        """The passes of the loop in poll(), in the consumer protocol."""
        self._callback: Running | None = None
        self._started = self._constructing = False
        self._stalled = False
        """Whether the application does not poll, because of ``StopPolling``."""
        self._awaited: Callable[[], None] | None = None
        """The continuation of ``wait``: the next step of the application, or of a callback of its listener."""
        self._polls_since_us = self._turn_us = self._left_by_us = 0
        self._poll_by_us = 0
        """The deadline of the application's next poll, while the thread is outside poll()."""
        self._poll_timer_runs = False
        self._max_poll_us = self._config.max_poll_interval_ms * 1000

    @property
    def now_us(self) -> int:
        return self._machine.now_us

    def start(self, subscribe_after_us: int = 0) -> None:
        """Start the application, which subscribes after this time."""
        assert not self._started, f"{self._machine.name}: started twice"
        self._started = True
        if subscribe_after_us:
            self._constructing = True
            self.work(subscribe_after_us)
        else:
            self._subscribe()

    def _subscribe(self) -> None:
        self._constructing = False
        self._subscription.want_metadata()
        self._application.started(self)
        self._assert_decided()

    def accept(self, command: object) -> None:
        """Execute a command to the application, at once or between two polls."""
        match command:
            case RaiseInListener(callback=callback, why=why):
                self._raise_next[callback] = why
            case GoOn():
                self._resume_application()
            case Close() if notice_us := self._machine.draws.us(DrawName.CLOSE_NOTICE, 0):
                self.closes_at_us = self.now_us + notice_us
            case _:
                assert self._started, f"{self._machine.name}: {command} before Start"
                self.commands.append(command)

    # --- polls ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Repeat poll() until the application is busy or all parts wait for events."""
        if self.now_us < self._resumes_us:
            self._machine.wake_at(self._resumes_us)
            return
        while self._machine.awake and self.doing is POLLING:
            self._machine.awake = False
            if self._commits.asynchronous:
                self._commits.call_completed()
            if self.closes_at_us:
                self._notice_close()
            if self.commands and not self._commands_wait():
                self._obey(self.commands.pop(0))
                self._machine.wake()
            elif self._machine.fatal is not None:
                self._machine.fail(*self._machine.fatal)
            elif self._subscription.is_subscribed or self._subscription.by_hand:
                self._poll_once()

    def _notice_close(self) -> None:
        """Close if the application has noticed the order to close; it checks between two polls."""
        if self.now_us < self.closes_at_us:
            self._machine.wake_at(self.closes_at_us)
        else:
            self.closes_at_us = 0
            self.commands.append(Close())

    def _commands_wait(self) -> bool:
        """Whether all commands wait for the end of this poll(), because the application is inside it.

        Source: ``ClassicKafkaConsumer.subscribe`` needs the lock that poll() holds (2.4 to 4.3).
        """
        if not (self._subscription.is_subscribed or self._subscription.by_hand):
            return False  # poll() raises an exception
        if not all(isinstance(command, _AFTER_POLL) for command in self.commands):
            return False  # an order that ends poll()
        began_us, ends_us = self.poll_span_us
        if self.poll_until_us:
            began_us, ends_us = self._polls_since_us, self.poll_until_us
        if began_us == self.now_us:
            return False
        self._machine.wake_at(ends_us)
        return True

    def _poll_once(self) -> None:
        passes = self._passes if self._subscription.is_subscribed else None
        if passes is not None:
            passes.run()
            may_read = self._machine.polling
        else:
            if 0 < self._lookup_until_us <= self.now_us and self._lookup_timed_out():
                return
            may_read = self._may_read()
            if may_read:
                self._lookup_until_us = 0
                self._commits.poll()
                self._positions.poll()
        if self.doing is not POLLING or self._rebalancing.is_leading:
            return
        if not may_read and (self._waits_for_lookup() or self._rebalancing.holds_poll):
            return
        records = self._take_records(fetches=passes is None)
        if records:
            self._return(records)

    def _take_records(self, *, fetches: bool) -> list[Returned]:
        """Take the records of one poll() from the buffer. ``fetches``: send the next requests even without records."""
        fetching, most = self._positions.fetching, self._config.max_poll_records
        records = fetching.drain(most) if self._catch_up is None else self._catch_up.poll(most)
        if fetches or records:
            fetching.send()
        return records

    @property
    def awaits_coordinator(self) -> bool:
        """Whether poll() of a classic member with partitions waits for a coordinator. Until its timeout this poll()
        neither fetches nor returns records.

        Source: ``AbstractCoordinator.ensureCoordinatorReady`` (2.4 to 4.3): poll() waits for each lookup, and for
        ``retry.backoff.ms`` after a lookup that failed or found an unavailable coordinator.
        """
        return (
            self._machine.discovery.coordinator is None
            and self._passes is None
            and self._subscription.is_subscribed
            and bool(self._positions.partitions)
            and self._timeout_us > 0
        )

    def _waits_for_lookup(self) -> bool:
        """Whether this poll() waits for a coordinator; if so, the polling thread wakes at the timeout of poll()."""
        waits = self.awaits_coordinator
        self._lookup_until_us = self.poll_span_us[1] if waits else 0
        if waits:
            self._machine.wake_at(self._lookup_until_us)
        return waits

    def _lookup_timed_out(self) -> bool:
        """End a poll() that may have waited for a coordinator. Returns whether poll() returned records."""
        self._lookup_until_us = 0
        if not self.awaits_coordinator or self._rebalancing.holds_poll:
            return False
        records = self._take_records(fetches=True)
        if records:
            self._return(records)
        return bool(records)

    def _may_read(self) -> bool:
        """Whether to read records: as a member, or with partitions assigned by ``assign()``.

        A consumer that uses ``assign()`` needs a coordinator only to commit.
        """
        if self._subscription.is_subscribed:
            return self._membership.poll()
        return self._subscription.by_hand and (not self._config.group_id or self._machine.discovery.ready())

    def _return(self, records: list[Returned]) -> None:
        """Return these records from poll()."""
        if self.poll_until_us:
            self.poll_until_us = 0
            self._machine.stop_timer((ConsumerTimer.POLL_RETURNS,))
        self._leave_poll(_DECIDING)
        self._application.polled(records)
        self._assert_decided()

    def poll_returns_nothing(self) -> None:
        """Return from poll() if its timeout has passed. During a callback the return waits for the callback's end.

        A poll() that has waited for a coordinator until its timeout returns buffered records.
        """
        if self.poll_until_us and self.now_us >= self.poll_until_us and self.doing is POLLING:
            late = self.awaits_coordinator and not self._rebalancing.holds_poll
            self._return(self._take_records(fetches=True) if late else [])

    def _assert_decided(self) -> None:
        assert self.doing is not _DECIDING, f"{self._machine.name}: its application made no next call"

    def _leave_poll(self, doing: Doing) -> None:
        """Leave poll(), or continue outside of poll(). ``max.poll.interval.ms`` is measured from the last poll."""
        if self.doing is POLLING:
            self._poll_by_us = self.now_us + self._max_poll_us
            if not self._poll_timer_runs:
                self._poll_timer_runs = True
                self._machine.start_timer((ConsumerTimer.POLL_TIMEOUT,), self._max_poll_us)
        self.doing = doing

    @property
    def polls_too_late(self) -> bool:
        away = self.doing is not POLLING and not self._closing.began
        return away and 0 < self._poll_by_us <= self.now_us

    def check_poll_timeout(self) -> None:
        """Check whether ``max.poll.interval.ms`` has passed when the heartbeat thread runs (the timer POLL_TIMEOUT
        fired).
        """
        self._poll_timer_runs = False
        if self.doing is POLLING or self._closing.began:
            return
        at_us = self._membership.heartbeats.runs_at_us(self._poll_by_us)
        if self.now_us >= at_us:
            self._membership.poll_timed_out()
        else:
            self._poll_timer_runs = True
            self._machine.start_timer((ConsumerTimer.POLL_TIMEOUT,), at_us - self.now_us)

    def work_done(self) -> None:
        """Continue after the application or its callback has finished (the timer WORK fired)."""
        if self.doing is _IN_CALLBACK:
            self._late_callback_over()
        elif self._stalled:
            self._stalled = False
            self._begin_poll()
            self.poll_returns_nothing()
        else:
            assert self.doing is _WORKING, f"{self._machine.name}: {self.doing} has no work"
            self.doing = _DECIDING
            if self._constructing:
                self._subscribe()
                return
            self._application.worked()
            self._assert_decided()

    def _sync_done(self) -> None:
        self._commits.call_completed()
        self.doing = _DECIDING
        self._application.committed()
        self._assert_decided()

    @property
    def poll_span_us(self) -> tuple[int, int]:
        return (0, 0) if self.doing is not POLLING else self._span_at(self.now_us)

    def _span_at(self, at_us: int) -> tuple[int, int]:
        timeout_us = self._timeout_us or 1
        began_us = at_us - (at_us - self._polls_since_us) % timeout_us
        return began_us, began_us + timeout_us

    @property
    def _timeout_us(self) -> int:
        """The timeout of poll()."""
        if self.poll_until_us and self._passes is None:
            return self.poll_until_us - self._polls_since_us
        return self._config.emulated_poll_timeout_ms * 1000 + self._turn_us

    # --- ``Calls`` -----------------------------------------------------------------------------------------------

    def poll(self, timeout_us: int = 0) -> None:
        if self._catch_up is not None:
            self._catch_up.application_returned()
        self._begin_poll()
        if self._passes is not None:
            self._turn_us = self._machine.draws.us(DrawName.POLL_TURN, 0)
        if timeout_us:
            self.poll_until_us = self.now_us + timeout_us
            self._machine.start_timer((ConsumerTimer.POLL_RETURNS,), timeout_us)

    def _begin_poll(self) -> None:
        self.doing = POLLING
        self._polls_since_us = self.now_us
        self._lookup_until_us = 0
        self._machine.discovery.poll_begins()
        self._machine.wake()

    def process_resumed(self, since_us: int) -> None:
        """Delay the polling thread. Then begin the next poll(), if the timeout of poll() passed in the pause."""
        self._resumes_us = self.now_us + self._machine.draws.us(DrawName.THREAD_WAKE, 0)
        if self.doing is POLLING and self._span_at(since_us)[1] <= self.now_us:
            self._polls_since_us = self._resumes_us

    def work(self, us: int) -> None:
        self.doing = _WORKING
        self._machine.start_timer((ConsumerTimer.WORK,), us)

    def commit_sync(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        self._application_returned()
        self._commits.call_completed()
        split = self._split(offsets)
        self.doing = Doing.COMMITTING
        self._commits.run_sync(self._config.default_api_timeout_ms * 1000, self._sync_done, split)

    def commit_async(
        self, offsets: Mapping[TopicPartition, int] | None = None, then: Callable[[bool], None] | None = None
    ) -> None:
        self._application_returned()
        self._commits.call_completed()
        self._commits.send_async(self._split(offsets), then)

    def _split(self, offsets: Mapping[TopicPartition, int] | None) -> CommitSplit | None:
        """The given offsets, by the consumer that commits them; None: both consumers commit all of their positions."""
        if offsets is None:
            return None
        wanted = {self._assigned(at).at: offset for at, offset in offsets.items()}
        if self._catch_up is not None and not self._subscription.by_hand:
            return self._catch_up.split(wanted)
        return CommitSplit(tuple(to_commit(at, offset) for at, offset in wanted.items()), ())

    @property
    def last_commit_went_through(self) -> bool:
        return self._commits.sync_went_through

    def wait(self, then: Callable[[], None]) -> None:
        self._awaited = then
        if self.doing is not Doing.IN_CALLBACK:
            self._application_returned()
            self.doing = Doing.WAITING

    def _resume_application(self) -> None:
        then, self._awaited = self._awaited, None
        if then is None:
            return
        if self.doing is Doing.WAITING:
            self.doing = _DECIDING
        then()
        self._assert_decided()

    def committed(self, partitions: tuple[TopicPartition, ...], then: Answers) -> None:
        self._ask()
        self.questions.committed(partitions, partial(self._answer_application, then))

    def beginning_offsets(self, partitions: tuple[TopicPartition, ...], then: Answers) -> None:
        self._log_offsets(partitions, EARLIEST_TIMESTAMP, then)

    def end_offsets(self, partitions: tuple[TopicPartition, ...], then: Answers) -> None:
        self._log_offsets(partitions, LATEST_TIMESTAMP, then)

    def _log_offsets(self, partitions: tuple[TopicPartition, ...], special_ms: int, then: Answers) -> None:
        found = None
        if self._catch_up is not None and not self._subscription.by_hand:
            found = self._catch_up.returned_offsets(partitions, end=special_ms == LATEST_TIMESTAMP)
        if found is None:
            self.offsets_for_times(dict.fromkeys(partitions, special_ms), then)
        else:
            self._ask()
            self._answer_application(then, found)

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int], then: Answers) -> None:
        self._ask()
        self.questions.offsets(dict(times_ms), partial(self._answer_application, then))

    def _ask(self) -> None:
        self._application_returned()
        self.doing = Doing.ASKING

    def _answer_application(self, then: Answers, answers: Mapping[TopicPartition, int | None]) -> None:
        self.doing = Doing.DECIDING
        then(answers)
        self._assert_decided()

    def processed(self, part: Returned, started_us: int) -> None:
        (topic, partition), first, last = part
        fact = RangeProcessed if type(part) is ReturnedOfRange else _processed
        self._machine.note(
            fact(
                group=self._config.group_id,
                member_id=self._positions.member_id,
                generation=self._positions.generation,
                topic=topic,
                partition=partition,
                first=first,
                last=last,
                started_us=started_us,
            )
        )

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self._subscription.subscribe(topics)

    def subscribe_to_pattern(self, pattern: str, *, of_broker: bool = False) -> None:
        self._subscription.subscribe((), *(("", pattern) if of_broker else (pattern,)))

    def unsubscribe(self) -> None:
        self.commands.append(Unsubscribe())

    def assign(self, partitions: tuple[TopicPartition, ...]) -> None:
        if self._subscription.is_subscribed:
            raise IllegalState("assign() after subscribe(): subscription to topics and partitions exclude each other")
        self._subscription.by_hand = bool(partitions)
        self._positions.assign(tuple(dict.fromkeys(partitions)), NO_GENERATION, UNKNOWN_MEMBER)
        self._machine.metadata.want(sorted_topics(tuple(topic for topic, _ in partitions)))

    def _read(self, partitions: tuple[tuple[str, int, int], ...]) -> None:
        """Assign exactly these partitions, and seek to each offset that is beyond the present position."""
        before = {at: one.position for at, one in self._positions.partitions.items()}
        self.assign(tuple((topic, number) for topic, number, _ in partitions))
        for topic, number, offset in partitions:
            if before.get((topic, number), -1) < offset:
                self.seek((topic, number), offset)
        self._return([])

    def assignment(self) -> tuple[TopicPartition, ...]:
        return self._positions.owned()

    def pause(self, partitions: tuple[TopicPartition, ...]) -> None:
        for one in [self._assigned(at) for at in partitions]:
            self._positions.fetching.pause(one)
            if self._catch_up is not None:
                self._catch_up.pause(one.at, True)

    def resume(self, partitions: tuple[TopicPartition, ...]) -> None:
        for one in [self._assigned(at) for at in partitions]:
            self._positions.fetching.resume(one)
            if self._catch_up is not None:
                self._catch_up.pause(one.at, False)

    def paused(self) -> tuple[TopicPartition, ...]:
        return tuple(at for at, one in self._positions.partitions.items() if one.paused)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions.seek(self._assigned(partition), offset)

    def position(self, partition: TopicPartition) -> int | None:
        position = self._assigned(partition).position
        return position if position >= 0 else None

    def child_consumer_is_alive(self) -> bool:
        return self._catch_up is not None and self._catch_up.child_is_alive

    def _application_returned(self) -> None:
        """Mark all records of former polls as processed, because the application makes its next call."""
        if self._catch_up is not None:
            self._catch_up.application_returned()

    def current_lag(self, partition: TopicPartition) -> int | None:
        one = self._assigned(partition)
        return max(one.end - one.position, 0) if one.end >= 0 and one.position >= 0 else None

    def enforce_rebalance(self, reason: str = ENFORCED) -> None:
        if not self._subscription.is_subscribed:
            raise IllegalState("enforceRebalance() without a subscription")
        self._membership.request_rejoin(reason)

    def _assigned(self, at: TopicPartition) -> Partition:
        one = self._positions.partitions.get(at)
        if one is None:
            raise IllegalState(f"{at[0]}-{at[1]} is not assigned to {self._machine.name}")
        return one

    def close(self) -> None:
        self._application_returned()
        self.doing = CLOSING
        self._closing.begin()

    # --- the listener --------------------------------------------------------------------------------------------

    def call_listener(self, name: str, partitions: tuple[TopicPartition, ...], then: Callback) -> None:
        listener = self._listener
        match name:
            case "onPartitionsRevoked":
                outcome = listener.on_revoked(partitions)
            case "onPartitionsLost":
                outcome = listener.on_lost(partitions)
            case _:
                assert name == "onPartitionsAssigned", name
                outcome = listener.on_assigned(partitions)
        if name in self._raise_next and not isinstance(outcome, Busy):
            outcome = Raised(outcome.us, self._raise_next.pop(name))
        self._callback = Running(name, partitions, outcome, then, self.doing, self.now_us)
        if isinstance(outcome, Busy):
            self._leave_poll(Doing.IN_CALLBACK)
            outcome.begin()
        elif outcome.us > 0:
            self._leave_poll(Doing.IN_CALLBACK)
            self._machine.start_timer((ConsumerTimer.WORK,), outcome.us)
        else:
            self._callback_over()

    def commit_in_callback(self, offsets: Mapping[TopicPartition, int], then: Callable[[], None]) -> None:
        assert self.doing is Doing.IN_CALLBACK, f"{self._machine.name}: {self.doing} is outside a callback"
        self._commits.run_sync(self._config.default_api_timeout_ms * 1000, then, self._split(offsets))

    def callback_returns(self) -> None:
        assert self.doing is Doing.IN_CALLBACK, f"{self._machine.name}: {self.doing} is outside a callback"
        self._late_callback_over()

    def _late_callback_over(self) -> None:
        """Return from a callback that took time."""
        self._machine.wake()
        self._callback_over()
        self.poll_returns_nothing()

    def _callback_over(self) -> None:
        assert self._callback is not None
        name, partitions, outcome, then, before, started_us = self._callback
        self._callback = None
        self.doing = before
        if name in self._raise_next:
            outcome = Raised(0, self._raise_next.pop(name))
        if self.now_us > started_us:
            self._report_callback(name, self.now_us - started_us)
        raised = isinstance(outcome, Raised)
        if isinstance(outcome, Raised):
            group, member_id = self._config.group_id, self._positions.member_id
            self._machine.note(ListenerFailed(group=group, member_id=member_id, callback=name, why=outcome.why))
        then(partitions, raised)

    def _report_callback(self, name: str, took_us: int) -> None:
        group, member_id = self._config.group_id, self._positions.member_id
        self._machine.note(CallbackReturned(group=group, member_id=member_id, callback=name, took_us=took_us))

    def raise_to_application(self, why: str) -> None:
        self._leave_poll(_DECIDING)
        self._application.poll_raised(why)
        self._assert_decided()

    # --- commands ------------------------------------------------------------------------------------------------

    def _obey(self, command: object) -> None:
        match command:
            case Subscribe(pattern=pattern) if pattern:
                self.subscribe_to_pattern(pattern)
            case Subscribe(regex=regex) if regex:
                self.subscribe_to_pattern(regex, of_broker=True)
            case Subscribe(topics=topics):
                self.subscribe(topics)
            case Unsubscribe():
                if self._subscription.is_subscribed:
                    self._rebalancing.give_up_everything(self._unsubscribed)
                elif self._subscription.by_hand:
                    self.assign(())
            case PausePartitions(partitions=partitions):
                self.pause(self._only_assigned(partitions))
            case ResumePartitions(partitions=partitions):
                self.resume(self._only_assigned(partitions))
            case Seek(topic=topic, partition=partition, offset=offset):
                for at in self._only_assigned(((topic, partition),)):
                    self.seek(at, offset)
            case EnforceRebalance(reason=reason):
                if self._subscription.is_subscribed:
                    self.enforce_rebalance(reason)
            case AssignNow():
                self._rebalancing.resume_leading()
            case ReadPartitions(partitions=partitions):
                self._read(partitions)
            case StopPolling(for_us=for_us):
                self._stop_polling(for_us)
            case PollReturns():
                self._return([])
            case _:
                assert isinstance(command, Close), f"{self._machine.name}: {command}"
                self.close()

    def _stop_polling(self, for_us: int) -> None:
        """Keep the polling thread outside poll() for this time, without a call of the application."""
        self._leave_poll(Doing.WORKING)
        self._stalled = True
        self._machine.start_timer((ConsumerTimer.WORK,), for_us)

    def _only_assigned(self, partitions: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        """The assigned partitions of the given partitions: an application that gets an order checks its assignment
        first.
        """
        return tuple(at for at in partitions if at in self._positions.partitions)

    def _unsubscribed(self) -> None:
        self._membership.leave(UNSUBSCRIBED)
        self._subscription.unsubscribe()
        if self._membership.is_leaving:
            self.doing = UNSUBSCRIBING
            self._left_by_us = self.now_us + self._config.default_api_timeout_ms * 1000
            self._machine.wake_at(self._left_by_us)

    def return_if_left(self) -> None:
        """Return from unsubscribe() after the answer of the coordinator, or after ``default.api.timeout.ms``.

        Source: ``AsyncKafkaConsumer.unsubscribe`` (4.0 to 4.3).
        """
        if not self._membership.is_leaving or self.now_us >= self._left_by_us:
            self._begin_poll()
