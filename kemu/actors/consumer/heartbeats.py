"""A member's heartbeat thread. The thread is a part of the membership.

The heartbeat thread runs in COMPLETING_REBALANCE (since Kafka 2.6) and STABLE. The thread sends heartbeats, and forgets
a coordinator that has been silent for the session timeout. After that, the heartbeat thread looks for a coordinator
every ``retry.backoff.ms``, as the polling thread does. The application learns of a reset at its next poll.

An idle member needs one timer, one request and one answer per interval.
"""

from kemu.actors.client import backoff_ms
from kemu.actors.clients.discovery import Discovery
from kemu.actors.consumer.machine import ConsumerMachine, ConsumerTimer, MembershipView
from kemu.actors.consumer.reasons import ALREADY_REBALANCING, encountered
from kemu.actors.consumer.state import Generation, MemberState
from kemu.actors.machine import at_least_1_ms
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import Heartbeat, HeartbeatReply


class Heartbeats:
    """The heartbeat thread of one member."""

    def __init__(self, machine: ConsumerMachine, membership: MembershipView) -> None:
        config = machine.config
        self._machine = machine
        self._membership = membership
        assert isinstance(machine.discovery, Discovery), "a classic member"
        self._discovery = machine.discovery
        self._draws = machine.draws
        self._retry_us = at_least_1_ms(config.retry_backoff_ms)
        self._retry = backoff_ms(max(1, config.retry_backoff_ms), config.retry_backoff_max_ms)
        self._failures = 0
        """The number of consecutive failed heartbeats."""
        self._session_us = config.session_timeout_ms * 1000
        self._interval_us = at_least_1_ms(config.heartbeat_interval_ms)
        self._version = machine.versions["Heartbeat"]
        self._session_until_us = 0
        """The end of the session timeout; at this time the member forgets a silent coordinator."""
        self._next_us = 0
        """The time of the next heartbeat."""
        self._runs_us = 0
        """The time at which the thread runs next."""
        self._waits_since_us = 0
        """The time of the last heartbeat, or of the start of the thread."""
        self._alone_until_us = 0
        """While a heartbeat is due and no poll() has woken the thread: the end of the thread's own waits."""
        self._is_woken = False
        """Whether poll() has woken the thread for a due heartbeat."""
        self._message: Heartbeat | None = None
        """The heartbeat of this generation, which is made once."""
        self.running = False
        """Whether the thread runs: from ``start`` until ``stop``."""

    def start(self, since_us: int | None = None) -> None:
        """Send heartbeats for the new generation; all timers restart, at this time or earlier at ``since_us``."""
        self.running = True
        generation = self._membership.generation
        self._waits_since_us = self._machine.now_us if since_us is None else since_us
        self._session_until_us = self._waits_since_us + self._session_us
        self._next_us = self._waits_since_us + self._after_us()
        self._alone_until_us = 0
        self._message = Heartbeat(
            group=self._machine.config.group_id,
            generation=generation.id,
            member_id=generation.member_id,
            instance_id=self._machine.config.group_instance_id,
        )
        self._arm()

    def _after_us(self) -> int:
        """The time until the next heartbeat, in us."""
        return self._interval_us + self._draws.us(DrawName.HEARTBEAT_WAIT, 0, at_us=self._machine.now_us)

    def advance_idle_timers(self) -> None:
        """Send a heartbeat now, so that no session expires; the next heartbeat is due at a random time of
        the interval.
        """
        if not self.running or self._discovery.coordinator is None:
            return
        self._next_us = now_us = self._machine.now_us
        self.beat()
        self._next_us = now_us + self._draws.us(DrawName.HEARTBEAT_PHASE, self._interval_us, self._interval_us)
        self._arm()

    def stop(self) -> None:
        """Stop the thread until the next ``start``."""
        self.running = False
        self._machine.stop_timer((ConsumerTimer.BEAT,))

    def coordinator_found(self) -> None:
        """Wait the full session timeout for answers of the new coordinator."""
        machine = self._machine
        now_us = machine.now_us
        self._session_until_us = now_us + self._session_us
        if not self.running:
            return
        if machine.polls_too_late:
            self._run_after(self._retry_us)
        elif now_us < self._next_us or machine.poll_span_us == (0, 0):
            self._arm()
        else:
            # poll() woke the thread (``pollHeartbeat``), which then waited for the monitor of the lookup.
            self._is_woken = True
            late_us = self._draws.us(DrawName.HEARTBEAT_FOUND, 0)
            if late_us:
                self._run_after(late_us)
            else:
                self.beat()

    def coordinator_lost(self) -> None:
        """Look for a coordinator on the heartbeat thread, even while the application is busy."""
        if self.running:
            self._run_after(self._retry_us)

    def _run_after(self, us: int) -> None:
        self._runs_us = self._machine.now_us + us
        self._machine.start_timer((ConsumerTimer.BEAT,), us)

    def _arm(self) -> None:
        self._run_after(max(min(self._next_us, self._session_until_us) - self._machine.now_us, 0))

    def runs_at_us(self, due_us: int) -> int:
        """The time at which the thread next runs, at ``due_us`` or later. Between two heartbeats the thread waits for
        ``retry.backoff.ms`` at a time.

        Source: ``AbstractCoordinator.HeartbeatThread.run`` (3.4.1, 3.9.1).
        """
        return due_us + (self._waits_since_us - due_us) % self._retry_us

    def beat(self) -> None:
        """Run the thread once: send a heartbeat, or react to a missing answer or coordinator."""
        if not self.running:
            return
        machine, discovery = self._machine, self._discovery
        now_us = machine.now_us
        if now_us > self._runs_us:
            machine.process_resumed(self._runs_us)
        coordinator = discovery.coordinator
        if coordinator is None:
            discovery.find_in_background()
            late_us = self._draws.us(DrawName.HEARTBEAT_WAIT, 0, at_us=now_us)
            wait_us = self._retry_us + late_us * self._retry_us // self._interval_us  # one of the interval's waits
            self._run_after(wait_us)
        elif now_us >= self._session_until_us:
            discovery.lose_coordinator("no heartbeat was answered within the session timeout")
            discovery.find_in_background()
        elif machine.polls_too_late:
            self._membership.poll_timed_out()
        else:
            if now_us >= self._next_us and not self._waits_alone():
                self._waits_since_us = now_us
                self._next_us = now_us + self._after_us()
                sent = self._membership.generation
                machine.client.call(coordinator, self._message, self._version, self._answered, self._broke, sent)
            self._arm()

    def _waits_alone(self) -> bool:
        """Whether a due heartbeat waits longer, because the application is outside of poll().

        Source: ``AbstractCoordinator.pollHeartbeat`` (3.4.1, 3.9.1) wakes the thread for a due heartbeat.
        """
        machine = self._machine
        is_woken, self._is_woken = self._is_woken, False
        if not self._alone_until_us and not is_woken and machine.poll_span_us == (0, 0):
            self._alone_until_us = machine.now_us + self._draws.us(DrawName.HEARTBEAT_ALONE, 0)
        if machine.now_us < self._alone_until_us:
            self._next_us = self._alone_until_us
            return True
        self._alone_until_us = 0
        return False

    def polled(self) -> None:
        """Send the heartbeat that was due before this poll()."""
        if self._alone_until_us and self.running:
            self._next_us = self._alone_until_us = self._machine.now_us
            self.beat()

    def _answered(self, reply: HeartbeatReply, sent: Generation) -> None:
        error = reply.error
        if error is ErrorCode.NONE:
            self._session_until_us = self._machine.now_us + self._session_us
            self._failures = 0
            return
        membership = self._membership
        why = f"Heartbeat: {error.name}"
        match error:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._session_until_us = self._machine.now_us + self._session_us
                self._failures = 0
                if membership.state is MemberState.STABLE:
                    late_us = self._draws.us(DrawName.REJOIN_NOTICE, 0, at_us=self._machine.now_us)
                    membership.request_rejoin(ALREADY_REBALANCING, late_us)
            case ErrorCode.ILLEGAL_GENERATION | ErrorCode.UNKNOWN_MEMBER_ID:
                membership.refused(error, encountered("Heartbeat", error), sent)
            case ErrorCode.FENCED_INSTANCE_ID:
                if membership.refused(error, encountered("Heartbeat", error), sent):
                    self._machine.fail_later(error, why)
            case ErrorCode.COORDINATOR_NOT_AVAILABLE | ErrorCode.NOT_COORDINATOR:
                self._discovery.lose_coordinator(why)
                self._failed(sent)
            case _:
                self._failed(sent)

    def _broke(self, why: str, sent: Generation) -> None:
        self._failed(sent)

    def _failed(self, sent: Generation) -> None:
        """Send the next heartbeat after the backoff. Without a coordinator the thread looks for a coordinator first."""
        if self.running and sent == self._membership.generation:
            self._failures += 1
            self._next_us = self._machine.now_us + self._retry.after(self._failures, self._machine.chance)
            self._arm()
