"""A consumer: the Kafka client and the application that uses it, as one machine.

Kafka's consumer has two threads. The heartbeat thread never waits for the application, so the machine does its work at
any event. The polling thread belongs to the application. Inside ``poll()`` that thread joins the group, calls the
listener, commits and returns records. While the application processes records, or a callback runs, all of these wait.
``Doing`` says where the polling thread is.

An event that concerns the polling thread wakes it (``wake``). Inside ``poll()`` the thread reacts at once, otherwise at
its next poll. So the machine needs no periodic polling.

Parts: membership (join, sync, heartbeat, leave), rebalancing (before and after a join), positions and fetching,
commits, discovery of the coordinator, metadata. The parts communicate through the machine
(``actors.consumer.machine``).

Source: Kafka 3.9 ``ClassicKafkaConsumer`` and its coordinator.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from kemu.actors.client import DISCONNECTED, Backoff, Client
from kemu.actors.clients.brokers import BrokersToAsk
from kemu.actors.clients.discovery import CoordinatorLookups, Discovery
from kemu.actors.clients.metadata import MetadataRefresh
from kemu.actors.consumer.application import Answers, Application, IllegalState, PollLoop
from kemu.actors.consumer.catch_up import CatchUp
from kemu.actors.consumer.closing import CloseCall
from kemu.actors.consumer.commits import Commits, CommitSplit, to_commit
from kemu.actors.consumer.listener import Busy, Listener, Outcome, Raised, TimedListener
from kemu.actors.consumer.machine import Callback, ConsumerTimer
from kemu.actors.consumer.membership import Membership
from kemu.actors.consumer.partition import Partition, Returned, ReturnedOfRange
from kemu.actors.consumer.positions import Positions
from kemu.actors.consumer.questions import Questions
from kemu.actors.consumer.reasons import UNSUBSCRIBED
from kemu.actors.consumer.rebalancing import Rebalancing, assignors_of
from kemu.actors.consumer.state import Generation, MemberState
from kemu.actors.hosting import HostingMachine
from kemu.actors.machine import Chance, Draws, Event, LinkDown, Received, TimerFired, Told
from kemu.protocol.assign.base import Assignor
from kemu.protocol.commands import (
    ENFORCED,
    AssignNow,
    Close,
    EnforceRebalance,
    FailChild,
    GoOn,
    HoursPass,
    PausePartitions,
    PollReturns,
    RaiseInListener,
    ReadPartitions,
    ResumePartitions,
    Seek,
    Start,
    StopPolling,
    Subscribe,
    Unsubscribe,
)
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.metadata_rules import METADATA_2_8, MetadataRules
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER, ActorName, TopicPartition
from kemu.protocol.notes.groups import CallbackReturned, ListenerFailed, MemberFailed, Processed
from kemu.protocol.notes.ranges import ParallelRebalance, RangeProcessed
from kemu.protocol.rebalancing.rules import RulesOf, by_assignors
from kemu.protocol.topic_pattern import TopicPattern
from kemu.protocol.wire.compile import maker

APPLICATION_COMMANDS = (
    AssignNow,
    Close,
    EnforceRebalance,
    PausePartitions,
    PollReturns,
    ReadPartitions,
    ResumePartitions,
    Seek,
    StopPolling,
    Subscribe,
    Unsubscribe,
)
"""Commands that make the application call its consumer."""


class Doing(Enum):
    """Where the polling thread is."""

    POLLING = "inside poll()"
    DECIDING = "the application has not made its next call yet"
    WORKING = "the application processes records"
    WAITING = "the application waits for something other than this consumer"
    COMMITTING = "inside commitSync()"
    ASKING = "inside committed(), beginningOffsets(), endOffsets() or offsetsForTimes()"
    IN_CALLBACK = "inside the rebalance listener"
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


_POLLING, _DECIDING, _CLOSING, _ENDED = Doing.POLLING, Doing.DECIDING, Doing.CLOSING, Doing.ENDED
"""Aliases for members that every step compares: a lookup in the enum class is slow on CPython 3.11."""
_processed = maker(Processed)


class Consumer(HostingMachine):
    """One member of a group, with its application. It implements ``Calls`` for that application.

    Args:
        name: the actor's name; also the client id where the configuration has none.
        topics: topics to subscribe to at start; empty: the application subscribes or assigns partitions.
        pattern: subscribe to matching topics at start, instead of ``topics``.
        bootstrap: brokers to ask first.
        assignors: all known assignors, by name; the configuration selects among them.
        chance: random stream of this process: the first broker to ask, and the jitter of backoffs.
        draws: durations that differ between members and over time.
        listener: the application's rebalance listener; by default a ``TimedListener``.
        application: the program that polls and processes; by default a ``PollLoop``.
        versions: the API versions to speak.
        rules_of: the rebalance rules; by default the highest protocol that all configured assignors support.
        metadata_rules: the leader epochs in metadata that the release trusts.
        tasks_first: see ``CloseCall``.

    Raises:
        ValueError: an unknown assignor, assignors without a common protocol, or an unknown reset policy.
    """

    _closes_at_us = 0
    """Time at which the polling thread notices an order to close; 0: no such order."""
    _poll_until_us = 0
    """Time at which this poll() returns without records; 0: poll() returns only with records."""
    _failure: MemberFailed | None = None
    """The fatal error raised to the application, while the consumer closes."""

    def __init__(
        self,
        name: ActorName,
        config: ConsumerConfig,
        topics: tuple[str, ...],
        *,
        bootstrap: tuple[ActorName, ...],
        assignors: Mapping[str, Assignor],
        chance: Chance,
        draws: Draws = CALM,
        listener: Listener | None = None,
        application: Application | None = None,
        versions: SpokenVersions = LATEST,
        rules_of: RulesOf = by_assignors,
        metadata_rules: MetadataRules = METADATA_2_8,
        pattern: str = "",
        tasks_first: bool = False,
    ) -> None:
        super().__init__(name)
        assert bootstrap, f"{name}: no broker to ask"
        if config.heartbeat_interval_ms >= config.session_timeout_ms:
            beat_ms, session_ms = config.heartbeat_interval_ms, config.session_timeout_ms
            raise ValueError(f"heartbeat.interval.ms ({beat_ms}) must be lower than session.timeout.ms ({session_ms})")
        self.config = config
        self.versions = versions
        self.bootstrap = bootstrap
        self.topics = _sorted(topics)
        self.pattern = self._pattern_of(pattern) if pattern else None
        self.chance = chance
        self.draws = draws
        self.awake = False
        """Whether the polling thread has an event to react to."""
        self._wake_us = 0
        self.client = Client(
            self,
            request_timeout_us=config.request_timeout_ms * 1000,
            reconnect=Backoff(config.reconnect_backoff_ms * 1000, config.reconnect_backoff_max_ms * 1000),
            chance=chance,
            negotiates=versions.negotiates,
            link_lost=self._link_lost,
        )
        used = assignors_of(config, assignors)
        brokers = BrokersToAsk(self, self.client, bootstrap, chance.below(len(bootstrap)))
        self.metadata = MetadataRefresh.of_consumer(
            self, self.client, brokers, self, config, version=versions["Metadata"], chance=chance, rules=metadata_rules
        )
        lookups = CoordinatorLookups(self.client, brokers, versions["FindCoordinator"])
        self.discovery = Discovery(self, self.client, lookups, self.metadata, self, config, chance)
        self.membership: Membership = Membership(self)
        self.positions = Positions(self)
        self.catch_up = CatchUp(self, self.positions) if config.enable_parallel_rebalance else None
        """KIP-333's mode; None: off."""
        self.commits: Commits = Commits(self, self.positions)
        self.questions: Questions = Questions(self)
        rules = rules_of(config, used)
        self.rebalancing = Rebalancing(self, self.membership, self.positions, self.commits, used, rules)
        self._closing = CloseCall(self, self.commits, self.membership, self.rebalancing, self._closed, tasks_first)
        self.application: Application = application or PollLoop(config, draws)
        self.by_hand = False
        """Whether the application assigned partitions itself (``assign()``), so that there is no membership."""
        self.doing = _DECIDING
        self._started = False
        self._listener: Listener = listener or TimedListener(config, draws)
        self._commands: list[Any] = []
        """Commands that the polling thread has not executed yet; it executes them between two polls."""
        self._callback: Running | None = None
        self._stalled = False
        """Whether the application does not poll because of ``StopPolling``."""
        self._raise_next: dict[str, str] = {}
        """Name of a callback -> message of the exception that its next call raises."""
        self._awaited: Callable[[], None] | None = None
        """Continuation of ``wait``: the next step of the application, or of a callback of its listener."""
        self._polls_since_us = 0
        self._fatal: tuple[ErrorCode, str] | None = None
        """Fatal error that the next poll raises."""
        self._poll_by_us = 0
        """Deadline of the application's next poll, while it is outside poll()."""
        self._poll_timer_runs = False
        self._close_requested = False
        self._max_poll_us = config.max_poll_interval_ms * 1000

    # --- events ------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Handle an answer, timer, broken connection or command; then let the polling thread run, if it is free."""
        if self.doing is _ENDED:
            # After a fatal error the process still runs until a command closes it.
            self.finished = self.finished or (isinstance(event, Told) and isinstance(event.command, Close))
            return
        if self.catch_up is not None and self.passed_on(event):
            self.catch_up.child_stepped()
        else:
            match event:
                case Received():
                    self.client.reply_arrived(event)
                case TimerFired(key=key):
                    _FIRED[key[0]](self)
                case LinkDown(peer=peer):
                    self.client.connection_broke(peer, DISCONNECTED)
                case Told(command=command):
                    self._accept(command)
                case _:
                    raise AssertionError(f"{self.name}: {event}")
        if self.doing is _POLLING:
            if self.awake:
                self._poll()
        elif self.doing is _CLOSING:
            self._closing.advance()

    def _accept(self, command: object) -> None:
        match command:
            case Start():
                assert not self._started, f"{self.name}: started twice"
                self._started = True
                if self.catch_up is not None:
                    self.note(ParallelRebalance(group=self.config.group_id))
                self._want_metadata()
                self.application.started(self)
                self._assert_decided()
            case HoursPass():
                self.membership.heartbeats.advance_idle_timers()
                self.commits.advance_idle_timers()
            case RaiseInListener(callback=callback, why=why):
                self._raise_next[callback] = why
            case GoOn():
                self._resume_application()
            case FailChild(for_us=for_us):
                if self.catch_up is not None:
                    self.catch_up.fail_child(for_us)
            case Close() if self._failure is not None:
                self._close_requested = True
            case Close() if notice_us := self.draws.us(DrawName.CLOSE_NOTICE, 0):
                self._closes_at_us = self.now_us + notice_us
            case _ if isinstance(command, APPLICATION_COMMANDS):
                assert self._started, f"{self.name}: {command} before Start"
                self._commands.append(command)
            case _:
                raise AssertionError(f"{self.name}: {command}")
        self.wake()

    def _link_lost(self, peer: ActorName, why: str) -> None:
        """Forget the coordinator if this connection led to it; else refresh metadata, as leaders may have moved."""
        if peer == self.discovery.coordinator:
            self.discovery.lose_coordinator(why, connected=False)
        else:
            self.metadata.refresh()
        self.wake()

    # --- ports: ``ConsumerMachine``, ``CoordinatorWatcher``, ``MetadataWatcher`` ---------------------------------

    @property
    def polling(self) -> bool:
        return self.doing is _POLLING

    @property
    def poll_span_us(self) -> tuple[int, int]:
        timeout_us = self.config.emulated_poll_timeout_ms * 1000 or 1
        if self.doing is not _POLLING:
            return 0, 0
        began_us = self.now_us - (self.now_us - self._polls_since_us) % timeout_us
        return began_us, began_us + timeout_us

    def coordinator_found(self) -> None:
        self.membership.heartbeats.coordinator_found()
        self.commits.coordinator_found()
        self.rebalancing.coordinator_found()

    def coordinator_not_found(self) -> None:
        self.commits.coordinator_not_found()

    def coordinator_lost(self) -> None:
        self.membership.heartbeats.coordinator_lost()
        self.rebalancing.coordinator_lost()

    def metadata_refreshed(self, changed: bool) -> None:
        self.discovery.metadata_refreshed()
        self.positions.locate()
        if changed and self.pattern is not None:
            self.subscribe_from_pattern(self.metadata.cluster.topics)
        self.rebalancing.metadata_refreshed(changed)
        self.wake()

    def fail_later(self, error: ErrorCode, why: str) -> None:
        self._fatal = self._fatal or (error, why)
        self.wake()

    def fail(self, error: ErrorCode, why: str) -> None:
        """Raise a fatal error to the application. The application then closes its consumer, as usual programs do.

        Without ``internal.leave.group.on.close`` that close calls no listener and sends no LeaveGroup. Source:
        ``AbstractCoordinator.close`` (3.4.1).
        """
        group, member_id = self.config.group_id, self.membership.generation.member_id
        self._failure = MemberFailed(group=group, member_id=member_id, error=error, why=why)
        if self.config.internal_leave_group_on_close:
            self.close()
        else:
            self._closed()

    # --- the polling thread ------------------------------------------------------------------------------------

    def wake(self) -> None:
        self.awake = True

    def wake_at(self, at_us: int) -> None:
        """Wake the polling thread at this time.

        One timer serves all requests: the earliest wins, and later ones are requested again.
        """
        if at_us < self._wake_us or not self._wake_us:
            self._wake_us = at_us
            self.start_timer((ConsumerTimer.WAKE,), at_us - self.now_us)

    def _wake_fired(self) -> None:
        self._wake_us = 0
        self.awake = True

    def _poll(self) -> None:
        """Repeat poll() until the application is busy or all parts wait for events."""
        while self.awake and self.doing is _POLLING:
            self.awake = False
            if self.commits.asynchronous:
                self.commits.call_completed()
            if self._closes_at_us:
                self._notice_close()
            if self._commands:
                self._obey(self._commands.pop(0))
                self.awake = True
            elif self._fatal is not None:
                self.fail(*self._fatal)
            elif self.topics or self.by_hand or self.pattern is not None:
                self._poll_once()

    def _notice_close(self) -> None:
        """Close if the application has noticed the order to close; it checks between two polls."""
        if self.now_us < self._closes_at_us:
            self.wake_at(self._closes_at_us)
        else:
            self._closes_at_us = 0
            self._commands.append(Close())

    def _poll_once(self) -> None:
        may_read = self._may_read()
        if may_read:
            self.commits.poll()
            self.positions.poll()
        if self.doing is not _POLLING or self.rebalancing.is_leading:
            return
        if not may_read and self.rebalancing.holds_poll:
            return
        fetching, most = self.positions.fetching, self.config.max_poll_records
        records = fetching.drain(most) if self.catch_up is None else self.catch_up.poll(most)
        fetching.send()
        if records:
            self._return(records)

    def _may_read(self) -> bool:
        """Whether to read records: as a member, or with assigned partitions.

        The latter need a coordinator only to commit.
        """
        if self.is_subscribed:
            return self.membership.poll()
        return self.by_hand and (not self.config.group_id or self.discovery.ready())

    def _return(self, records: list[Returned]) -> None:
        """Return these records from poll()."""
        if self._poll_until_us:
            self._poll_until_us = 0
            self.stop_timer((ConsumerTimer.POLL_RETURNS,))
        self._leave_poll(_DECIDING)
        self.application.polled(records)
        self._assert_decided()

    def _poll_returns_nothing(self) -> None:
        """Return from poll() if its timeout is over. During a callback the return waits for the callback's end."""
        if self._poll_until_us and self.now_us >= self._poll_until_us and self.doing is _POLLING:
            self._return([])

    def _assert_decided(self) -> None:
        assert self.doing is not _DECIDING, f"{self.name}: its application made no next call"

    def _leave_poll(self, doing: Doing) -> None:
        """Leave poll(), or continue outside of it. ``max.poll.interval.ms`` counts from the last poll."""
        if self.doing is _POLLING:
            self._poll_by_us = self.now_us + self._max_poll_us
            if not self._poll_timer_runs:
                self._poll_timer_runs = True
                self.start_timer((ConsumerTimer.POLL_TIMEOUT,), self._max_poll_us)
        self.doing = doing

    @property
    def polls_too_late(self) -> bool:
        away = self.doing is not _POLLING and not self._closing.began
        return away and 0 < self._poll_by_us <= self.now_us

    def _check_poll_timeout(self) -> None:
        self._poll_timer_runs = False
        if self.doing is _POLLING or self._closing.began:
            return
        if self.now_us >= self._poll_by_us:
            self.membership.poll_timed_out()
        else:
            self._poll_timer_runs = True
            self.start_timer((ConsumerTimer.POLL_TIMEOUT,), self._poll_by_us - self.now_us)

    def _work_done(self) -> None:
        if self.doing is Doing.IN_CALLBACK:
            self._late_callback_over()
        elif self._stalled:
            self._stalled = False
            self.doing = _POLLING
            self._polls_since_us = self.now_us
            self.awake = True
            self._poll_returns_nothing()
        else:
            assert self.doing is Doing.WORKING, f"{self.name}: {self.doing} has no work"
            self.doing = _DECIDING
            self.application.worked()
            self._assert_decided()

    def _sync_done(self) -> None:
        self.commits.call_completed()
        self.doing = _DECIDING
        self.application.committed()
        self._assert_decided()

    # --- ``Calls`` -----------------------------------------------------------------------------------------------

    def poll(self, timeout_us: int = 0) -> None:
        if self.catch_up is not None:
            self.catch_up.application_returned()
        self.doing = _POLLING
        self._polls_since_us = self.now_us
        self.awake = True
        if timeout_us:
            self._poll_until_us = self.now_us + timeout_us
            self.start_timer((ConsumerTimer.POLL_RETURNS,), timeout_us)

    def work(self, us: int) -> None:
        self.doing = Doing.WORKING
        self.start_timer((ConsumerTimer.WORK,), us)

    def commit_sync(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        self._application_returned()
        self.commits.call_completed()
        split = self._split(offsets)
        self.doing = Doing.COMMITTING
        self.commits.run_sync(self.config.default_api_timeout_ms * 1000, self._sync_done, split)

    def commit_async(
        self, offsets: Mapping[TopicPartition, int] | None = None, then: Callable[[bool], None] | None = None
    ) -> None:
        self._application_returned()
        self.commits.call_completed()
        self.commits.send_async(self._split(offsets), then)

    def _split(self, offsets: Mapping[TopicPartition, int] | None) -> CommitSplit | None:
        """The given offsets, by the consumer that commits them; None: both consumers commit all of their positions."""
        if offsets is None:
            return None
        wanted = {self._assigned(at).at: offset for at, offset in offsets.items()}
        if self.catch_up is not None and not self.by_hand:
            return self.catch_up.split(wanted)
        return CommitSplit(tuple(to_commit(at, offset) for at, offset in wanted.items()), ())

    @property
    def last_commit_went_through(self) -> bool:
        return self.commits.sync_went_through

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
        self.offsets_for_times(dict.fromkeys(partitions, EARLIEST_TIMESTAMP), then)

    def end_offsets(self, partitions: tuple[TopicPartition, ...], then: Answers) -> None:
        self.offsets_for_times(dict.fromkeys(partitions, LATEST_TIMESTAMP), then)

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
        fact = RangeProcessed if isinstance(part, ReturnedOfRange) else _processed
        self.note(
            fact(
                group=self.config.group_id,
                member_id=self.positions.member_id,
                generation=self.positions.generation,
                topic=topic,
                partition=partition,
                first=first,
                last=last,
                started_us=started_us,
            )
        )

    def subscribe(self, topics: tuple[str, ...]) -> None:
        if self.by_hand:
            raise IllegalState("subscribe() after assign(): subscription to topics and partitions exclude each other")
        self.topics, self.pattern = _sorted(topics), None
        self._want_metadata()

    def subscribe_to_pattern(self, pattern: str) -> None:
        if self.by_hand:
            raise IllegalState("subscribe() after assign(): subscription to topics and partitions exclude each other")
        self.pattern = self._pattern_of(pattern)
        self.topics = self.pattern.among(self.metadata.cluster.topics)
        self._want_metadata()

    def _pattern_of(self, text: str) -> TopicPattern:
        return TopicPattern(text, internal=not self.config.exclude_internal_topics)

    def _want_metadata(self) -> None:
        self.metadata.want_all(None if self.pattern is None else self.pattern.matches)
        self.metadata.want(self.topics)

    def subscribe_from_pattern(self, topics: Iterable[str]) -> None:
        assert self.pattern is not None
        matched = self.pattern.among(topics)
        if matched == self.topics:
            return
        self.topics = matched
        others = self.metadata.interest if self.rebalancing.is_leader else ()
        self.metadata.want(_sorted((*matched, *others)))

    @property
    def is_subscribed(self) -> bool:
        """Whether the consumer is, or is to be, a member: subscribed to topics or to a pattern."""
        return bool(self.topics) or self.pattern is not None

    def unsubscribe(self) -> None:
        self._commands.append(Unsubscribe())

    def assign(self, partitions: tuple[TopicPartition, ...]) -> None:
        if self.is_subscribed:
            raise IllegalState("assign() after subscribe(): subscription to topics and partitions exclude each other")
        self.by_hand = bool(partitions)
        self.positions.assign(tuple(dict.fromkeys(partitions)), NO_GENERATION, UNKNOWN_MEMBER)
        self.metadata.want(_sorted(tuple(topic for topic, _ in partitions)))

    def _read(self, partitions: tuple[tuple[str, int, int], ...]) -> None:
        """Assign exactly these partitions; seek where the offset is beyond the present position."""
        before = {at: one.position for at, one in self.positions.partitions.items()}
        self.assign(tuple((topic, number) for topic, number, _ in partitions))
        for topic, number, offset in partitions:
            if before.get((topic, number), -1) < offset:
                self.seek((topic, number), offset)
        self._return([])

    def assignment(self) -> tuple[TopicPartition, ...]:
        return self.positions.owned()

    def pause(self, partitions: tuple[TopicPartition, ...]) -> None:
        for one in [self._assigned(at) for at in partitions]:
            self.positions.fetching.pause(one)
            if self.catch_up is not None:
                self.catch_up.pause(one.at, True)

    def resume(self, partitions: tuple[TopicPartition, ...]) -> None:
        for one in [self._assigned(at) for at in partitions]:
            self.positions.fetching.resume(one)
            if self.catch_up is not None:
                self.catch_up.pause(one.at, False)

    def paused(self) -> tuple[TopicPartition, ...]:
        return tuple(at for at, one in self.positions.partitions.items() if one.paused)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions.seek(self._assigned(partition), offset)

    def position(self, partition: TopicPartition) -> int | None:
        position = self._assigned(partition).position
        return position if position >= 0 else None

    def child_consumer_is_alive(self) -> bool:
        return self.catch_up is not None and self.catch_up.child_is_alive

    def _application_returned(self) -> None:
        """The application makes its next call, so it has processed all records of former polls."""
        if self.catch_up is not None:
            self.catch_up.application_returned()

    def current_lag(self, partition: TopicPartition) -> int | None:
        one = self._assigned(partition)
        return max(one.end - one.position, 0) if one.end >= 0 and one.position >= 0 else None

    def enforce_rebalance(self, reason: str = ENFORCED) -> None:
        if not self.is_subscribed:
            raise IllegalState("enforceRebalance() without a subscription")
        self.membership.request_rejoin(reason)

    def _assigned(self, at: TopicPartition) -> Partition:
        one = self.positions.partitions.get(at)
        if one is None:
            raise IllegalState(f"{at[0]}-{at[1]} is not assigned to {self.name}")
        return one

    # --- the listener ------------------------------------------------------------------------------------------

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
            self.start_timer((ConsumerTimer.WORK,), outcome.us)
        else:
            self._callback_over()

    def commit_in_callback(self, offsets: Mapping[TopicPartition, int], then: Callable[[], None]) -> None:
        assert self.doing is Doing.IN_CALLBACK, f"{self.name}: {self.doing} is outside a callback"
        self.commits.run_sync(self.config.default_api_timeout_ms * 1000, then, self._split(offsets))

    def callback_returns(self) -> None:
        assert self.doing is Doing.IN_CALLBACK, f"{self.name}: {self.doing} is outside a callback"
        self._late_callback_over()

    def _late_callback_over(self) -> None:
        """Let the polling thread return from a callback that took time."""
        self.awake = True
        self._callback_over()
        self._poll_returns_nothing()

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
            group, member_id = self.config.group_id, self.positions.member_id
            self.note(ListenerFailed(group=group, member_id=member_id, callback=name, why=outcome.why))
        then(partitions, raised)

    def _report_callback(self, name: str, took_us: int) -> None:
        group, member_id = self.config.group_id, self.positions.member_id
        self.note(CallbackReturned(group=group, member_id=member_id, callback=name, took_us=took_us))

    def raise_to_application(self, why: str) -> None:
        self._leave_poll(_DECIDING)
        self.application.poll_raised(why)
        self._assert_decided()

    # --- commands ----------------------------------------------------------------------------------------------

    def _obey(self, command: object) -> None:
        match command:
            case Subscribe(pattern=pattern) if pattern:
                self.subscribe_to_pattern(pattern)
            case Subscribe(topics=topics):
                self.subscribe(topics)
            case Unsubscribe():
                if self.is_subscribed:
                    self.rebalancing.give_up_everything(self._unsubscribed)
                elif self.by_hand:
                    self.assign(())
            case PausePartitions(partitions=partitions):
                self.pause(self._only_assigned(partitions))
            case ResumePartitions(partitions=partitions):
                self.resume(self._only_assigned(partitions))
            case Seek(topic=topic, partition=partition, offset=offset):
                for at in self._only_assigned(((topic, partition),)):
                    self.seek(at, offset)
            case EnforceRebalance(reason=reason):
                if self.is_subscribed:
                    self.enforce_rebalance(reason)
            case AssignNow():
                self.rebalancing.resume_leading()
            case ReadPartitions(partitions=partitions):
                self._read(partitions)
            case StopPolling(for_us=for_us):
                self._stop_polling(for_us)
            case PollReturns():
                self._return([])
            case _:
                assert isinstance(command, Close)
                self.close()

    def _stop_polling(self, for_us: int) -> None:
        """Keep the polling thread outside poll() for this long, without a call of the application."""
        self._leave_poll(Doing.WORKING)
        self._stalled = True
        self.start_timer((ConsumerTimer.WORK,), for_us)

    def _only_assigned(self, partitions: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        """Those of the partitions that are assigned: an application that gets an order checks its assignment first."""
        return tuple(at for at in partitions if at in self.positions.partitions)

    def _unsubscribed(self) -> None:
        self.membership.leave(UNSUBSCRIBED)
        self.topics, self.pattern = (), None
        self._want_metadata()

    def close(self) -> None:
        self._application_returned()
        self.doing = _CLOSING
        self._closing.begin()

    def commit_refused(self, api: str, error: ErrorCode, sent: Generation) -> None:
        self.commits.react(api, error, sent)

    def _closed(self) -> None:
        """Finish close()."""
        if self._failure is None:
            self._end(MemberState.CLOSED, "closed")
            return
        queued = any(isinstance(command, Close) for command in self._commands)
        self._close_requested = self._close_requested or queued or bool(self._closes_at_us)
        self.note(self._failure)
        self._end(MemberState.FAILED, self._failure.why)

    def _end(self, state: MemberState, why: str) -> None:
        """Enter CLOSED or FAILED: close all connections, stop all timers, send nothing from now on."""
        self.doing = _ENDED
        self.membership.end(state, why)
        self.client.close()
        idle = {
            ConsumerTimer.POLL_RETURNS: not self._poll_until_us,
            ConsumerTimer.CHILD: self.catch_up is None,
            ConsumerTimer.QUESTION: not self.questions.asked_ever,
            ConsumerTimer.CLOSE: not self._closing.waited,
        }
        for timer in ConsumerTimer:
            if not idle.get(timer, False):
                self.stop_timer((timer,))
        if self.catch_up is not None:
            self.catch_up.end()
        self.finished = state is MemberState.CLOSED or self._close_requested


def _restart_child(consumer: Consumer) -> None:
    assert consumer.catch_up is not None, f"{consumer.name}: no second consumer to restart"
    consumer.catch_up.restart_child()


_FIRED: dict[str, Callable[[Consumer], None]] = {
    ConsumerTimer.BEAT: lambda consumer: consumer.membership.heartbeats.beat(),
    ConsumerTimer.WORK: Consumer._work_done,
    ConsumerTimer.WAKE: Consumer._wake_fired,
    ConsumerTimer.DEADLINE: lambda consumer: consumer.client.deadline_passed(),
    ConsumerTimer.COMMIT: lambda consumer: consumer.commits.sync_timer_fired(),
    ConsumerTimer.POLL_TIMEOUT: Consumer._check_poll_timeout,
    ConsumerTimer.FIND: lambda consumer: consumer.discovery.timer_fired(),
    ConsumerTimer.METADATA: lambda consumer: consumer.metadata.timer_fired(),
    ConsumerTimer.POLL_RETURNS: Consumer._poll_returns_nothing,
    ConsumerTimer.QUESTION: lambda consumer: consumer.questions.timer_fired(),
    ConsumerTimer.CHILD: _restart_child,
    ConsumerTimer.CLOSE: lambda consumer: None,  # ``CloseCall`` checks its deadline at every event
}
"""Handler of each timer. Thousands of consumers in one process share this table."""


def _sorted(topics: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(topics)))
