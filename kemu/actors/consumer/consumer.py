"""A consumer: the Kafka client and the application that uses it, as one machine.

Kafka's consumer has two threads. The heartbeat thread never waits for the application, so the machine does its work at
any event. The polling thread (``actors.consumer.polling``) belongs to the application. Inside ``poll()`` the polling
thread joins the group, calls the listener, commits and returns records. While the application processes records, or a
callback runs, all of these actions wait.

An event that concerns the polling thread wakes it (``wake``). Inside ``poll()`` the thread reacts at once, otherwise at
its next poll. So the machine needs no periodic polling.

The parts are: membership (join, sync, heartbeat, leave), rebalancing (before and after a join), positions and fetching,
commits, discovery of the coordinator, metadata. The parts communicate through the machine
(``actors.consumer.machine``).

Source: Kafka 3.9 ``ClassicKafkaConsumer`` and its coordinator.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kemu.actors.client import DISCONNECTED, Client, backoff_ms
from kemu.actors.clients.brokers import BrokersToAsk
from kemu.actors.clients.discovery import CoordinatorLookups, Discovery
from kemu.actors.clients.metadata import MetadataRefresh
from kemu.actors.consumer.application import Application, PollLoop
from kemu.actors.consumer.closing import CloseCall
from kemu.actors.consumer.commits import Commits
from kemu.actors.consumer.listener import Listener, TimedListener
from kemu.actors.consumer.machine import Callback, ConsumerTimer, PolledMembership, PolledRebalancing
from kemu.actors.consumer.membership import Membership
from kemu.actors.consumer.polling import CLOSING, ENDED, POLLING, UNSUBSCRIBING, PollingThread
from kemu.actors.consumer.positions import Positions
from kemu.actors.consumer.rebalancing import Rebalancing, assignors_of
from kemu.actors.consumer.state import Generation, MemberState
from kemu.actors.consumer.subscription import TopicSubscription
from kemu.actors.hosting import HostingMachine
from kemu.actors.machine import EARLY_THREAD, Chance, Draws, Event, LinkDown, Received, TimerFired, Told
from kemu.protocol.assign.base import Assignor
from kemu.protocol.commands import Close, FailChild, HoursPass, Start
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.draws import CALM, DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.versions import LATEST, SpokenVersions
from kemu.protocol.metadata_rules import METADATA_3_7, MetadataRules
from kemu.protocol.names import ActorName, MemberId, TopicPartition, is_coordinator
from kemu.protocol.notes.groups import MemberFailed
from kemu.protocol.notes.ranges import ParallelRebalance
from kemu.protocol.rebalancing.client_rules import ClientRules
from kemu.protocol.rebalancing.rules import RulesOf, by_assignors

if TYPE_CHECKING:
    from kemu.actors.consumer.catch_up import CatchUp
    from kemu.actors.consumer.modern_discovery import ModernDiscovery
    from kemu.actors.consumer.passes import Passes


class Consumer(HostingMachine):
    """One member of a group, with its application.

    Args:
        name: the actor's name; also the client id if the configuration has none.
        topics: the topics to subscribe to at start; empty: the application subscribes or assigns partitions.
        pattern: the pattern to subscribe to at start, instead of ``topics``; the member matches the pattern.
        regex: the pattern to subscribe to at start, instead of ``topics``; the brokers match the pattern (KIP-848).
        bootstrap: the brokers to ask first.
        assignors: all known assignors, by name; the configuration selects some of them.
        chance: the random stream of this process: the first broker to ask, and the jitter of backoffs.
        draws: the durations that differ between members and over time.
        listener: the application's rebalance listener; by default a ``TimedListener``.
        application: the program that polls and processes; by default a ``PollLoop``.
        versions: the API versions of the consumer's requests.
        rules_of: the rebalance rules; by default the highest protocol that all configured assignors support.
        metadata_rules: the leader epochs in metadata that the release trusts.
        life: the number of the start of the process, for the member id in the consumer protocol.
        tasks_first: whether to revoke the partitions before the consumer closes (``CloseCall``).

    Raises:
        ValueError: an unknown assignor, assignors without a common protocol, or an unknown reset policy.
    """

    membership: PolledMembership
    rebalancing: PolledRebalancing
    _failure: MemberFailed | None = None
    """The fatal error raised to the application, while the consumer closes."""
    _passes: "Passes | None" = None
    """The passes of the loop in poll(), in the consumer protocol."""

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
        metadata_rules: MetadataRules = METADATA_3_7,
        pattern: str = "",
        regex: str = "",
        tasks_first: bool = False,
        life: int = 1,
    ) -> None:
        super().__init__(name)
        assert bootstrap, f"{name}: no broker to ask"
        if config.heartbeat_interval_ms >= config.session_timeout_ms:
            beat_ms, session_ms = config.heartbeat_interval_ms, config.session_timeout_ms
            raise ValueError(f"heartbeat.interval.ms ({beat_ms}) must be lower than session.timeout.ms ({session_ms})")
        self.config = config
        self.versions = versions
        self.bootstrap = bootstrap
        self.chance = chance
        self.draws = draws
        self.awake = False
        """Whether the polling thread has an event to react to."""
        self.fatal: tuple[ErrorCode, str] | None = None
        """The fatal error that the next poll raises."""
        self._wake_us = 0
        self.client = Client(
            self,
            request_timeout_us=config.request_timeout_ms * 1000,
            reconnect=backoff_ms(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
            chance=chance,
            negotiates=versions.negotiates,
            link_lost=self._link_lost,
        )
        used = assignors_of(config, assignors)
        brokers = BrokersToAsk(self, self.client, bootstrap, chance.below(len(bootstrap)))
        self.metadata = MetadataRefresh.of_consumer(
            self, self.client, brokers, self, config, version=versions["Metadata"], chance=chance, rules=metadata_rules
        )
        rules = rules_of(config, used)
        self.subscription = TopicSubscription(config, self.metadata, topics, pattern, regex, rules.client)
        lookups = CoordinatorLookups(self.client, brokers, versions["FindCoordinator"])
        self.discovery = self._discovery(lookups, chance)
        self.positions = Positions(self)
        self.catch_up = self._second_consumer() if config.enable_parallel_rebalance else None
        """KIP-333's mode; None if the mode is off."""
        self.commits: Commits = Commits(self, self.positions)
        if config.uses_consumer_protocol:
            self._passes = self._begin_modern(draws.identity(f"{name}.{life}"), rules.client)
        else:
            classic = self.membership = Membership(self)
            self.rebalancing = classic.around_join = Rebalancing(
                self, classic, self.positions, self.commits, used, rules
            )
        self._closing = CloseCall(self, self.commits, self.membership, self.rebalancing, self._closed, tasks_first)
        self.thread: PollingThread = PollingThread(
            self,
            self.membership,
            self.positions,
            self.commits,
            self.rebalancing,
            self.catch_up,
            self._closing,
            application or PollLoop(config, draws),
            listener or TimedListener(config, draws),
            self._passes,
        )
        self._close_requested = False

    # --- events ------------------------------------------------------------------------------------------------

    def _discovery(self, lookups: CoordinatorLookups, chance: Chance) -> "Discovery | ModernDiscovery":
        if self.config.uses_consumer_protocol:
            from kemu.actors.consumer.modern_discovery import ModernDiscovery  # late: many runs do not need it

            return ModernDiscovery(self, self.client, lookups, self, self.config, chance)
        return Discovery(self, self.client, lookups, self.metadata, self, self.config, chance)

    def _begin_modern(self, member_id: MemberId, rules: ClientRules) -> "Passes":
        """Make the parts of a member of the consumer protocol."""
        from kemu.actors.consumer.modern_membership import ModernMembership  # late: many runs do not need it
        from kemu.actors.consumer.passes import Passes
        from kemu.actors.consumer.reconciler import Reconciler

        modern = self.membership = ModernMembership(self, member_id, rules)
        steps = modern.reconciler = Reconciler(self, modern, self.positions, self.commits, rules)
        self.rebalancing = steps
        return Passes(self, modern, steps, self.positions, self.commits)

    def _second_consumer(self) -> "CatchUp":
        from kemu.actors.consumer.catch_up import CatchUp  # late: few runs need it

        return CatchUp(self, self.positions)

    def handle(self, event: Event) -> None:
        """React to an answer, timer, broken connection or command; then run the polling thread, if it is free."""
        thread = self.thread
        if thread.doing is ENDED:
            # After a fatal error the process still runs, until a command closes it.
            self.finished = self.finished or (isinstance(event, Told) and isinstance(event.command, Close))
            return
        if self.catch_up is not None and self.passed_on(event):
            self.catch_up.child_stepped()
        elif type(event) is TimerFired:
            _FIRED[event[0][0]](self)
        else:
            match event:
                case Received():
                    self.client.reply_arrived(event)
                case LinkDown(peer=peer):
                    self.client.connection_broke(peer, DISCONNECTED)
                case Told(command=command):
                    self._accept(command)
                case _:
                    raise AssertionError(f"{self.name}: {event}")
        if thread.doing is UNSUBSCRIBING:
            thread.return_if_left()
        if thread.doing is POLLING:
            if self.awake:
                thread.run()
        elif thread.doing is CLOSING:
            self._closing.advance()
        elif self.awake and self._passes is not None and thread.doing is not ENDED:
            self._passes.run_without_application()

    def _accept(self, command: object) -> None:
        match command:
            case Start():
                if self.catch_up is not None:
                    self.note(ParallelRebalance(group=self.config.group_id))
                wait_us = self._subscribe_wait_us()
                if wait_us:
                    self.metadata.ask_for_brokers()
                    self.discovery.find()
                self.thread.start(wait_us)
            case HoursPass():
                self.membership.heartbeats.advance_idle_timers()
                self.commits.advance_idle_timers()
            case FailChild(for_us=for_us):
                if self.catch_up is not None:
                    self.catch_up.fail_child(for_us)
            case Close() if self._failure is not None:
                self._close_requested = True
            case _:
                self.thread.accept(command)
        self.wake()

    def _subscribe_wait_us(self) -> int:
        """The time for which the network thread works before the application subscribes."""
        if not self.config.uses_consumer_protocol or self.catch_up is not None:
            return 0
        return self.draws.us(DrawName.SUBSCRIBE_WAIT, 0, at_us=self.now_us)

    def _link_lost(self, peer: ActorName, why: str) -> None:
        """Forget the coordinator if this connection led to it; otherwise refresh metadata, as leaders may
        have moved.
        """
        if peer == self.discovery.coordinator:
            self.discovery.lose_coordinator(why, connected=False)
        else:
            self.metadata.refresh()
        self.wake()

    def thread_of(self, what: str) -> str:
        """The heartbeat thread has timers of its own. Before it looks at them, it reads the coordinator's answers.
        Records wait for the polling thread.

        The heartbeat thread of a classic consumer is early. After a pause the polling thread first ends its poll(),
        because select() returned nothing (EINTR). The next poll() then needs the monitor. Ten of ten resumed processes
        of 3.4.1, 3.9.1 and 4.1.1 sent no OffsetCommit before the heartbeat thread had run.
        Source: ``AbstractCoordinator.HeartbeatThread.run``, which begins with ``client.pollNoWakeup`` (3.4.1).
        """
        if what in _OF_HEARTBEAT_THREAD or (what not in _FIRED and is_coordinator(what)):
            return HEARTBEAT_THREAD if self.config.uses_consumer_protocol else EARLY_THREAD
        return POLLING_THREAD

    # --- ports: ``ConsumerMachine``, ``CoordinatorWatcher``, ``MetadataWatcher`` ---------------------------------

    @property
    def polling(self) -> bool:
        return self.thread.doing is POLLING and not self.thread.awaits_coordinator

    @property
    def poll_span_us(self) -> tuple[int, int]:
        return self.thread.poll_span_us

    def process_resumed(self, since_us: int) -> None:
        self.thread.process_resumed(since_us)

    @property
    def client_rules(self) -> ClientRules:
        return self.rebalancing.client

    @property
    def polls_too_late(self) -> bool:
        return self.thread.polls_too_late

    def call_listener(self, name: str, partitions: tuple[TopicPartition, ...], then: Callback) -> None:
        self.thread.call_listener(name, partitions, then)

    def raise_to_application(self, why: str) -> None:
        self.thread.raise_to_application(why)

    def commit_refused(self, api: str, error: ErrorCode, sent: Generation) -> None:
        self.commits.react(api, error, sent)

    def coordinator_found(self) -> None:
        self.commits.coordinator_found()
        self.membership.heartbeats.coordinator_found()
        self.rebalancing.coordinator_found()

    def coordinator_not_found(self) -> None:
        self.commits.coordinator_not_found()
        if self.fatal is not None:  # the lookup was refused
            self.commits.give_up_waiting()
            self.thread.questions.fail()

    def coordinator_lost(self) -> None:
        self.membership.heartbeats.coordinator_lost()
        self.rebalancing.coordinator_lost()

    def metadata_refreshed(self, changed: bool) -> None:
        self.discovery.metadata_refreshed()
        self.positions.locate()
        if changed and self.subscription.pattern is not None:
            self.subscription.match(self.metadata.cluster.topics, keeps_others=self.rebalancing.is_leader)
        self.rebalancing.metadata_refreshed(changed)
        self.wake()

    def fail_later(self, error: ErrorCode, why: str) -> None:
        self.fatal = self.fatal or (error, why)
        self.wake()

    def fail(self, error: ErrorCode, why: str) -> None:
        """Raise a fatal error to the application. The application then closes its consumer, as usual programs do.

        Without ``internal.leave.group.on.close`` this close calls no listener and sends no LeaveGroup.
        Source: ``AbstractCoordinator.close`` (3.4.1).
        """
        group, member_id = self.config.group_id, self.membership.generation.member_id
        self._failure = MemberFailed(group=group, member_id=member_id, error=error, why=why)
        if self.config.internal_leave_group_on_close:
            self.thread.close()
        else:
            self._closed()

    def wake(self) -> None:
        self.awake = True

    def wake_at(self, at_us: int) -> None:
        """Wake the polling thread at this time.

        One timer serves all callers: it runs until the earliest requested time, and callers with later times call
        again.
        """
        if at_us < self._wake_us or not self._wake_us:
            self._wake_us = at_us
            self.start_timer((ConsumerTimer.WAKE,), at_us - self.now_us)

    def _wake_fired(self) -> None:
        self._wake_us = 0
        self.awake = True

    # --- the end -----------------------------------------------------------------------------------------------

    def _closed(self) -> None:
        """Finish close()."""
        if self._failure is None:
            self._end(MemberState.CLOSED, "closed")
            return
        queued = any(isinstance(command, Close) for command in self.thread.commands)
        self._close_requested = self._close_requested or queued or bool(self.thread.closes_at_us)
        self.note(self._failure)
        self._end(MemberState.FAILED, self._failure.why)

    def _end(self, state: MemberState, why: str) -> None:
        """Enter CLOSED or FAILED: close all connections, stop all timers, send nothing from now on."""
        self.thread.doing = ENDED
        self.membership.end(state, why)
        self.client.close()
        idle = {
            ConsumerTimer.POLL_RETURNS: not self.thread.poll_until_us,
            ConsumerTimer.CHILD: self.catch_up is None,
            ConsumerTimer.QUESTION: not self.thread.questions.asked_ever,
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


POLLING_THREAD, HEARTBEAT_THREAD = "poll", "heartbeat"
_OF_HEARTBEAT_THREAD = (ConsumerTimer.BEAT, ConsumerTimer.POLL_TIMEOUT)
_FIRED: dict[str, Callable[[Consumer], None]] = {
    ConsumerTimer.BEAT: lambda consumer: consumer.membership.heartbeats.beat(),
    ConsumerTimer.WORK: lambda consumer: consumer.thread.work_done(),
    ConsumerTimer.WAKE: Consumer._wake_fired,
    ConsumerTimer.DEADLINE: lambda consumer: consumer.client.deadline_passed(),
    ConsumerTimer.COMMIT: lambda consumer: consumer.commits.sync_timer_fired(),
    ConsumerTimer.POLL_TIMEOUT: lambda consumer: consumer.thread.check_poll_timeout(),
    ConsumerTimer.FIND: lambda consumer: consumer.discovery.timer_fired(),
    ConsumerTimer.METADATA: lambda consumer: consumer.metadata.timer_fired(),
    ConsumerTimer.POLL_RETURNS: lambda consumer: consumer.thread.poll_returns_nothing(),
    ConsumerTimer.QUESTION: lambda consumer: consumer.thread.questions.timer_fired(),
    ConsumerTimer.CHILD: _restart_child,
    ConsumerTimer.CLOSE: lambda consumer: None,  # ``CloseCall`` checks its deadline at every event
}
"""The function for each timer. Thousands of consumers in one process share this table."""
