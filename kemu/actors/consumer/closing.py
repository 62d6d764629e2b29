"""close(): commit, call the listener, leave, and wait for the coordinator's answers. A part of the consumer.

close() waits twice. Before the consumer revokes its partitions, close() waits for commits without a coordinator. At its
end, close() waits for the answers to all requests in flight. Both waits share the timeout of ``close()``, which is
``request.timeout.ms`` if less. The listener's callback is not interrupted, but its time counts. A close() without time
sends its commit and its leave once, and awaits no answer.
Source: ``ConsumerCoordinator.close``, ``AbstractCoordinator.close``, ``StreamThread.completeShutdown`` (3.4.1);
``ClassicKafkaConsumer.close``, ``AsyncKafkaConsumer.close`` (4.0 to 4.3).
"""

from collections.abc import Callable
from enum import Enum, auto

from kemu.actors.consumer.commits import Commits
from kemu.actors.consumer.machine import ConsumerMachine, ConsumerTimer, PolledMembership, PolledRebalancing
from kemu.actors.consumer.reasons import CLOSED


class _Phase(Enum):
    OPEN = auto()
    COMMITTING = auto()
    """commitSync() runs, if there are offsets to commit."""
    LOOKING_UP = auto()
    """Commits wait for the lookup of a coordinator."""
    CALLING_BACK = auto()
    """The listener's callback for the owned partitions runs."""
    AWAITING = auto()
    """The member has left and waits for the coordinator's answers."""


class CloseCall:
    """One call of close().

    Args:
        over: the function to call when ``close()`` ends.
        tasks_first: revoke the partitions before the consumer closes, as a Streams thread does; heartbeats continue
            until then. In the consumer protocol they always do (``AsyncKafkaConsumer.close``, 4.0 to 4.3).
    """

    __slots__ = (
        "_beats_on",
        "_by_us",
        "_commits",
        "_machine",
        "_membership",
        "_over",
        "_phase",
        "_positions",
        "_rebalancing",
        "waited",
    )

    def __init__(
        self,
        machine: ConsumerMachine,
        commits: Commits,
        membership: PolledMembership,
        rebalancing: PolledRebalancing,
        over: Callable[[], None],
        tasks_first: bool,
    ) -> None:
        self._machine = machine
        self._commits = commits
        self._membership = membership
        self._rebalancing = rebalancing
        self._over = over
        self._beats_on = tasks_first or machine.config.uses_consumer_protocol
        self._phase = _Phase.OPEN
        self._by_us = 0
        """The latest time at which close() ends."""
        self.waited = False
        """Whether close() has waited, so that ``ConsumerTimer.CLOSE`` was started."""

    @property
    def began(self) -> bool:
        """Whether close() has begun, or is over."""
        return self._phase is not _Phase.OPEN

    def begin(self) -> None:
        """Begin close()."""
        config = self._machine.config
        wait_us = min(config.emulated_close_timeout_ms, config.request_timeout_ms) * 1000
        self._by_us = self._machine.now_us + wait_us
        self._phase = _Phase.COMMITTING
        if config.enable_auto_commit and not self._membership.has_failed:
            self._commits.run_sync(wait_us, self._committed, raises=False)
        else:
            self._committed()

    def advance(self) -> None:
        """Continue if an event ended the present wait."""
        if self._phase is _Phase.LOOKING_UP:
            self._give_up_if_ready()
        elif self._phase is _Phase.AWAITING:
            self._end_if_answered()

    def _committed(self) -> None:
        self._phase = _Phase.LOOKING_UP
        self._give_up_if_ready()

    def _give_up_if_ready(self) -> None:
        """Revoke the partitions when no commit waits. Source: ``ConsumerCoordinator.close``:
        ``pendingAsyncCommits``.
        """
        machine = self._machine
        if machine.config.uses_consumer_protocol and machine.client_rules.closes_without_coordinator:
            self._commits.give_up_waiting()
        if self._commits.wait_for_coordinator and machine.now_us < self._by_us:
            self._wait()
            return
        self._phase = _Phase.CALLING_BACK
        self._commits.call_completed()
        if not self._beats_on:
            self._membership.heartbeats.stop()
        if machine.subscription.by_hand:
            self._leave()
        else:
            self._rebalancing.give_up_everything(self._leave)

    def _leave(self) -> None:
        if self._beats_on:
            self._membership.heartbeats.stop()
        self._membership.leave(CLOSED, self._machine.config.emulated_close_membership)
        self._phase = _Phase.AWAITING
        self._end_if_answered()

    def _end_if_answered(self) -> None:
        """End close() when the known coordinator has answered all requests.

        Source: ``AbstractCoordinator.close``: ``awaitPendingRequests``.
        """
        machine = self._machine
        coordinator = machine.discovery.coordinator
        owes = coordinator is not None and machine.client.awaits(coordinator)
        if owes and machine.now_us < self._by_us:
            self._wait()
        else:
            self._over()

    def _wait(self) -> None:
        if not self.waited:
            self.waited = True
            self._machine.start_timer((ConsumerTimer.CLOSE,), self._by_us - self._machine.now_us)
