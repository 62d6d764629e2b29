"""A consumer: an application that polls, processes and commits, and the Kafka client inside it, as one machine.

Kafka's consumer has two threads. The heartbeat thread never waits for the application; what the machine does for it
happens whenever an event says so. The polling thread is the application's: inside ``poll()`` it joins, calls the
listener, commits and returns records, and while the application is busy with them (or the listener with a callback)
nothing of that happens. ``Doing`` says where the polling thread is. An event that matters to it wakes it (``wake``);
if it is inside ``poll()`` it looks at once, else at its next poll. So nothing polls in vain.

Its parts: membership (join, sync, heartbeat, leave), rebalancing (before and after a join), positions and fetching,
commits, discovery (coordinator and metadata). They speak through the machine and know each other through it.

Source: Kafka 3.9 ``ClassicKafkaConsumer`` and its coordinator.
"""

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from kemu.actors.client import DEADLINE, Backoff, Client
from kemu.actors.clients.discovery import FIND, METADATA, Discovery
from kemu.actors.consumer.commits import COMMIT, Commits
from kemu.actors.consumer.heartbeats import BEAT
from kemu.actors.consumer.listener import Listener, Outcome, Raised, TimedListener
from kemu.actors.consumer.membership import Membership
from kemu.actors.consumer.partition import Returned
from kemu.actors.consumer.positions import Positions
from kemu.actors.consumer.rebalancing import Rebalancing
from kemu.actors.consumer.state import MemberState
from kemu.actors.machine import Chance, Event, LinkDown, Machine, Received, TimerFired, TimerKey, Told
from kemu.protocol.assign.base import Assignor
from kemu.protocol.commands import Close, Start, Subscribe, Unsubscribe
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.versions import LATEST, ApiVersions
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.notes.groups import ListenerFailed, MemberFailed, Processed
from kemu.protocol.rebalancing.rules import RulesOf, by_assignors

WAKE: TimerKey = ("wake",)
"""The polling thread has to look again (a backoff or an interval is over)."""
WORK: TimerKey = ("work",)
"""The application, or a callback of its listener, is done."""
POLL_TIMEOUT = ("poll",)
"""max.poll.interval may be over. Armed lazily: it may fire early, never late."""

Callback = Callable[[tuple[TopicPartition, ...], bool], None]
"""What follows a callback of the listener: (its partitions, whether it raised)."""


class Doing(Enum):
    """Where the polling thread is."""

    POLLING = "inside poll()"
    PROCESSING = "processes records"
    COMMITTING = "inside commitSync()"
    IN_CALLBACK = "inside the rebalance listener"
    PAUSING = "caught an exception of poll() and polls again soon"
    CLOSING = "inside close()"
    ENDED = "closed, or failed"


class Running(NamedTuple):
    """A callback of the listener under way."""

    name: str
    partitions: tuple[TopicPartition, ...]
    outcome: Outcome
    then: Callback
    before: Doing


class Consumer(Machine):
    """One member of a group, and its application.

    Args:
        name: the actor's name; also the client id of a config that has none.
        topics: what it subscribes to when it starts.
        bootstrap: brokers to ask first.
        assignors: all there are, by name; the config says which are used.
        chance: this life's own stream: the first broker asked, and the jitter of backoffs.
        listener: the application's rebalance listener; by default one that takes as long as the config says.
        versions: the API versions to speak.
        rules_of: how to rebalance; as shipped, the highest protocol that the configured assignors have in common.

    Raises:
        ValueError: an assignor nobody knows, assignors without a common protocol, an unknown reset policy.
    """

    def __init__(
        self,
        name: ActorName,
        config: ConsumerConfig,
        topics: tuple[str, ...],
        *,
        bootstrap: tuple[ActorName, ...],
        assignors: Mapping[str, Assignor],
        chance: Chance,
        listener: Listener | None = None,
        versions: ApiVersions = LATEST,
        rules_of: RulesOf = by_assignors,
    ) -> None:
        super().__init__(name)
        assert bootstrap, f"{name}: no broker to ask"
        if config.heartbeat_interval_ms >= config.session_timeout_ms:
            raise ValueError(
                f"heartbeat.interval.ms ({config.heartbeat_interval_ms}) must be lower than "
                f"session.timeout.ms ({config.session_timeout_ms})"
            )
        self.config = config
        self.versions = versions
        self.topics = _sorted(topics)
        self.chance = chance
        self.awake = False
        """Something happened that the polling thread should look at."""
        self._wake_us = 0
        self.client = Client(
            self,
            request_timeout_us=config.request_timeout_ms * 1000,
            reconnect=Backoff(config.reconnect_backoff_ms * 1000, config.reconnect_backoff_max_ms * 1000),
            chance=chance,
            link_lost=self._link_lost,
        )
        used = _configured(config, assignors)
        self.discovery = Discovery(self, self.client, self, config, bootstrap, versions, chance)
        self.membership = Membership(self)
        self.positions = Positions(self)
        self.commits = Commits(self)
        self.rebalancing = Rebalancing(self, used, rules_of(config, used))
        self.doing = Doing.POLLING
        self._started = False
        self._listener: Listener = listener or TimedListener(config)
        self._commands: deque[Any] = deque()
        """Told and not done yet: calls of the application, which the polling thread makes between two polls."""
        self._callback: Running | None = None
        self._records: deque[Returned] = deque()
        """What the last poll returned and is not processed yet."""
        self._part_started_us = 0
        self._fatal: tuple[ErrorCode, str] | None = None
        """To be raised by the next poll."""
        self._poll_by_us = 0
        """When the application must have polled again, while it does not poll."""
        self._poll_timer_runs = False
        self._closing = False
        self._waits_for_leave = False
        self._max_poll_us = config.max_poll_interval_ms * 1000

    # --- events ------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Answers, timers, broken connections, commands; then the polling thread, if it is free."""
        if self.doing is Doing.ENDED:
            # A consumer that failed is of no use, but its process runs until somebody ends it.
            self.finished = self.finished or (isinstance(event, Told) and isinstance(event.command, Close))
            return
        match event:
            case Received():
                self.client.reply_arrived(event)
            case TimerFired(key=key):
                self._timer_fired(key)
            case LinkDown(peer=peer):
                self.client.connection_broke(peer, "disconnected")
            case Told(command=command):
                self._told(command)
            case _:
                raise AssertionError(f"{self.name}: {event}")
        if self.awake and self.doing is Doing.POLLING:
            self._poll()

    def _timer_fired(self, key: tuple[str, ...]) -> None:
        if key == BEAT:
            self.membership.heartbeats.beat()
        elif key == WORK:
            self._work_done()
        elif key == WAKE:
            self._wake_us = 0
            self.awake = True
        elif key == DEADLINE:
            self.client.deadline_passed()
        elif key == COMMIT:
            self.commits.sync_timer_fired()
        elif key == POLL_TIMEOUT:
            self._check_poll_timeout()
        elif key == FIND:
            self.discovery.find_timer_fired()
        else:
            assert key == METADATA, f"{self.name}: unknown timer {key}"
            self.discovery.metadata_timer_fired()

    def _told(self, command: object) -> None:
        match command:
            case Start():
                assert not self._started, f"{self.name}: started twice"
                self._started = True
                self.discovery.want(self.topics)
            case Close() | Subscribe() | Unsubscribe():
                assert self._started, f"{self.name}: {command} before Start"
                self._commands.append(command)
            case _:
                raise AssertionError(f"{self.name}: {command}")
        self.wake()

    def _link_lost(self, peer: ActorName, why: str) -> None:
        """A connection broke: if it led to the coordinator there is none now, else leaders may have moved."""
        if peer == self.discovery.coordinator:
            self.discovery.lose_coordinator(why, connected=False)
        else:
            self.discovery.refresh()
        self.wake()

    # --- what the parts tell each other ------------------------------------------------------------------------

    @property
    def polling(self) -> bool:
        """Whether the polling thread is inside poll(), free to go on."""
        return self.doing is Doing.POLLING

    def coordinator_found(self) -> None:
        """Discovery found the coordinator."""
        self.membership.heartbeats.coordinator_found()

    def coordinator_lost(self) -> None:
        """Discovery lost the coordinator."""
        self.membership.heartbeats.coordinator_lost()

    def metadata_refreshed(self, changed: bool) -> None:
        """Discovery has an answer about topics."""
        self.positions.locate()
        self.rebalancing.metadata_refreshed(changed)
        self.wake()

    def fail_later(self, error: ErrorCode, why: str) -> None:
        """Let the next poll raise a fatal error."""
        self._fatal = self._fatal or (error, why)
        self.wake()

    def fail(self, error: ErrorCode, why: str) -> None:
        """Raise a fatal error to the application: this consumer is of no use any more."""
        group, member_id = self.config.group_id, self.membership.generation.member_id
        self.note(MemberFailed(group=group, member_id=member_id, error=error, why=why))
        self._end(MemberState.FAILED, why)

    # --- the polling thread ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the polling thread look again in this step, as soon as it is free."""
        self.awake = True

    def wake_at(self, at_us: int) -> None:
        """Let it look again at this time. One timer serves all: the earliest wins, later ones are asked for again."""
        if at_us < self._wake_us or not self._wake_us:
            self._wake_us = at_us
            self.start_timer(WAKE, at_us - self.now_us)

    def _poll(self) -> None:
        """poll() after poll(), until the application is busy or everything waits for events."""
        while self.awake and self.doing is Doing.POLLING:
            self.awake = False
            if self._commands:
                self._obey(self._commands.popleft())
                self.awake = True
            elif self._fatal is not None:
                self.fail(*self._fatal)
            elif self.topics:
                self._poll_once()

    def _poll_once(self) -> None:
        if self.membership.poll():
            self.commits.poll()
            self.positions.poll()
        if self.doing is not Doing.POLLING or self.rebalancing.is_leading:
            return
        fetching = self.positions.fetching
        records = fetching.drain(self.config.max_poll_records)
        fetching.send()
        if records:
            self._records.extend(records)
            self._occupy(Doing.PROCESSING)
            self._process()

    def _occupy(self, doing: Doing) -> None:
        """The polling thread leaves poll(), or goes on outside of it: from its last poll on the clock ticks."""
        if self.doing is Doing.POLLING:
            self._poll_by_us = self.now_us + self._max_poll_us
            if not self._poll_timer_runs:
                self._poll_timer_runs = True
                self.start_timer(POLL_TIMEOUT, self._max_poll_us)
        self.doing = doing

    def _poll_again(self) -> None:
        self.doing = Doing.POLLING
        self.awake = True

    def _check_poll_timeout(self) -> None:
        self._poll_timer_runs = False
        if self.doing is Doing.POLLING or self._closing:
            return
        if self.now_us >= self._poll_by_us:
            self.membership.poll_timed_out()
        else:
            self._poll_timer_runs = True
            self.start_timer(POLL_TIMEOUT, self._poll_by_us - self.now_us)

    def _work_done(self) -> None:
        match self.doing:
            case Doing.PROCESSING:
                self._part_done()
                self._process()
            case Doing.IN_CALLBACK:
                self._callback_over()
            case Doing.PAUSING:
                self._poll_again()
            case _:
                raise AssertionError(f"{self.name}: {self.doing} has no work")

    # --- processing --------------------------------------------------------------------------------------------

    def _process(self) -> None:
        """Work through what was returned, partition after partition."""
        while self._records:
            part = self._records[0]
            self._part_started_us = self.now_us
            us = (part.last - part.first) * self.config.emulated_process_us_per_record
            if us > 0:
                self.start_timer(WORK, us)
                return
            self._part_done()
        if self.config.emulated_commit_after_poll:
            self.doing = Doing.COMMITTING
            self.commits.run_sync(self.config.default_api_timeout_ms * 1000, self._poll_again)
        else:
            self._poll_again()

    def _part_done(self) -> None:
        (topic, partition), first, last = self._records.popleft()
        self.note(
            Processed(
                group=self.config.group_id,
                member_id=self.positions.member_id,
                generation=self.positions.generation,
                topic=topic,
                partition=partition,
                first=first,
                last=last,
                started_us=self._part_started_us,
            )
        )

    # --- the listener ------------------------------------------------------------------------------------------

    def call_listener(self, name: str, partitions: tuple[TopicPartition, ...], then: Callback) -> None:
        """Call back; the polling thread is occupied until the listener is done, ``then`` goes on."""
        listener = self._listener
        match name:
            case "onPartitionsRevoked":
                outcome = listener.on_revoked(partitions)
            case "onPartitionsLost":
                outcome = listener.on_lost(partitions)
            case _:
                assert name == "onPartitionsAssigned", name
                outcome = listener.on_assigned(partitions)
        self._callback = Running(name, partitions, outcome, then, self.doing)
        if outcome.us > 0:
            self._occupy(Doing.IN_CALLBACK)
            self.start_timer(WORK, outcome.us)
        else:
            self._callback_over()

    def _callback_over(self) -> None:
        assert self._callback is not None
        name, partitions, outcome, then, before = self._callback
        self._callback = None
        self.doing = before
        self.awake = True
        raised = isinstance(outcome, Raised)
        if isinstance(outcome, Raised):
            group, member_id = self.config.group_id, self.positions.member_id
            self.note(ListenerFailed(group=group, member_id=member_id, callback=name, why=outcome.why))
        then(partitions, raised)

    def pause_after_exception(self) -> None:
        """poll() raised what is not fatal: the application logs it and polls again after its usual poll timeout."""
        self._occupy(Doing.PAUSING)
        self.start_timer(WORK, self.config.emulated_poll_timeout_ms * 1000)

    # --- commands ----------------------------------------------------------------------------------------------

    def _obey(self, command: object) -> None:
        match command:
            case Subscribe(topics=topics):
                self.topics = _sorted(topics)
                self.discovery.want(self.topics)
            case Unsubscribe():
                if self.topics:
                    self.positions.stop_serving()
                    self.rebalancing.give_up_everything(self._unsubscribed)
            case _:
                assert isinstance(command, Close)
                self._close()

    def _unsubscribed(self) -> None:
        self.membership.leave("the consumer unsubscribed from all topics")
        self.topics = ()
        self.discovery.want(())

    def _close(self) -> None:
        """Commit, call back, leave; then be silent. Source: ``ConsumerCoordinator.close``."""
        self.doing = Doing.CLOSING
        self._closing = True
        if self.config.enable_auto_commit:
            self.commits.run_sync(self.config.default_api_timeout_ms * 1000, self._committed_on_close)
        else:
            self._committed_on_close()

    def _committed_on_close(self) -> None:
        self.membership.heartbeats.stop()
        self.positions.stop_serving()
        self.rebalancing.give_up_everything(self._leave_on_close)

    def _leave_on_close(self) -> None:
        self._waits_for_leave = self.membership.leave("the consumer is being closed")
        if not self._waits_for_leave:
            self._end(MemberState.CLOSED, "closed")

    def leave_answered(self) -> None:
        """LeaveGroup was answered, or never will be."""
        if self._waits_for_leave:
            self._end(MemberState.CLOSED, "closed")

    def _end(self, state: MemberState, why: str) -> None:
        """CLOSED or FAILED: close all connections, stop all timers, never say anything again."""
        self.doing = Doing.ENDED
        self.membership.end(state, why)
        self.client.close()
        for key in (BEAT, WORK, WAKE, DEADLINE, COMMIT, POLL_TIMEOUT, FIND, METADATA):
            self.stop_timer(key)
        self.finished = state is MemberState.CLOSED


def _sorted(topics: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(topics)))


def _configured(config: ConsumerConfig, assignors: Mapping[str, Assignor]) -> tuple[Assignor, ...]:
    for name in config.partition_assignment_strategy:
        if name not in assignors:
            raise ValueError(f"partition.assignment.strategy: no assignor is called {name!r}")
    return tuple(assignors[name] for name in dict.fromkeys(config.partition_assignment_strategy))
