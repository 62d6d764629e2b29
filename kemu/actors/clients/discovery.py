"""The coordinator of a group: FindCoordinator for all clients, and the coordinator in a member's view.

Source: Kafka's ``AbstractCoordinator.lookupCoordinator``; ``CoordinatorStrategy`` of its admin client.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kemu.actors.client import Client, backoff_ms
from kemu.actors.clients.brokers import BrokersToAsk
from kemu.actors.clients.metadata import MetadataRefresh
from kemu.actors.machine import Chance, Machine
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import FindCoordinator, FindCoordinatorReply
from kemu.protocol.names import ActorName, GroupId
from kemu.protocol.notes.groups import CoordinatorKnown

FIND = ("find",)
"""The timer of the next allowed lookup of the coordinator."""


class _Lookup(NamedTuple):
    asked: ActorName
    found: Callable[[ActorName, Any], None]
    retry: Callable[[Any], None]
    refused: Callable[[ErrorCode, Any], None]
    context: Any


class CoordinatorLookups:
    """The lookups of coordinators: FindCoordinator requests to any broker. The caller decides on retries."""

    def __init__(self, client: Client, brokers: BrokersToAsk, version: int) -> None:
        self._client = client
        self._brokers = brokers
        self._version = version

    def look_up(
        self,
        group: GroupId,
        found: Callable[[ActorName, Any], None],
        retry: Callable[[Any], None],
        refused: Callable[[ErrorCode, Any], None],
        context: Any = None,
    ) -> None:
        """Look up a group's coordinator.

        Exactly one of ``found(host, context)``, ``retry(context)`` and ``refused(error, context)`` is called. ``retry``
        means a retriable error or a missing answer; the next lookup asks another broker.
        """
        host = self._brokers.pick()
        lookup = _Lookup(host, found, retry, refused, context)
        self._client.call(host, FindCoordinator(key=group), self._version, self._answered, self._failed, lookup)

    def _answered(self, reply: FindCoordinatorReply, lookup: _Lookup) -> None:
        if reply.error is ErrorCode.NONE:
            lookup.found(reply.host, lookup.context)
        elif reply.error.retriable:
            self._failed(reply.error.name, lookup)
        else:
            lookup.refused(reply.error, lookup.context)

    def _failed(self, why: str, lookup: _Lookup) -> None:
        self._brokers.pass_over(lookup.asked)
        lookup.retry(lookup.context)


class CoordinatorWatcher(Protocol):
    """The receiver of discovery's results."""

    @property
    def poll_span_us(self) -> tuple[int, int]:
        """The begin of the present poll() and the end of its timeout; (0, 0) outside poll()."""
        ...

    def coordinator_found(self) -> None:
        """React to a found coordinator."""
        ...

    def coordinator_lost(self) -> None:
        """React to the loss of the coordinator."""
        ...

    def coordinator_not_found(self) -> None:
        """React to a failed lookup; another lookup follows after the backoff, unless the lookup was refused."""
        ...

    def wake(self) -> None:
        """Make the polling thread react, because the coordinator was found or lost."""
        ...

    def fail_later(self, error: ErrorCode, why: str) -> None:
        """Make the next poll raise a fatal error."""
        ...


class Discovery:
    """The lookup of the coordinator of a classic member; ``ModernDiscovery`` is that of the consumer protocol.

    Both threads of a member look for the coordinator: the polling thread, and the heartbeat thread in the background
    (KIP-62). The polling thread takes over a lookup of the heartbeat thread. While the polling thread backs off, it
    holds the monitor, so the heartbeat thread waits. While a lookup is unanswered, the heartbeat thread forgets the
    lookup every ``retry.backoff.ms``, so that the next poll() sends another (KAFKA-10793).
    Source: ``AbstractCoordinator.ensureCoordinatorReady``, ``lookupCoordinator`` and ``HeartbeatThread`` (3.4.1). A
    member of 3.9.1 sent four lookups at intervals of 100 ms over a connection with a waiting Fetch.

    A found coordinator is unavailable during the reconnect backoff of its host. The next lookup may find another
    coordinator before that backoff ends. Source: ``checkAndGetCoordinator``.

    After a failed lookup the member also requests metadata, and the next lookup follows the answer
    (``awaitMetadataUpdate``). From 3.7 on the member first waits for at least ``retry.backoff.ms`` (KIP-580). Both
    waits end with the poll() that waits. The next poll() begins with a lookup, and its number of attempts starts at
    zero.
    """

    def __init__(
        self,
        machine: Machine,
        client: Client,
        lookups: CoordinatorLookups,
        metadata: MetadataRefresh,
        watcher: CoordinatorWatcher,
        config: ConsumerConfig,
        chance: Chance,
    ) -> None:
        self.coordinator: ActorName | None = None
        self._machine = machine
        self._client = client
        self._lookups = lookups
        self._metadata = metadata
        self._chance = chance
        self._watcher = watcher
        self._group: GroupId = config.group_id
        self._retry = backoff_ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._finding = False
        self._asked_us = 0
        """The time since which the polling thread waits for the answer to a lookup; 0: does not wait."""
        self._finding_in_background = False
        """Whether the heartbeat thread's lookup is in flight."""
        self._sleeps = config.retry_backoff_max_ms > 0
        """Whether the member waits after a failed lookup before it requests metadata: since KIP-580."""
        self._asleep = self._awaits_metadata = False
        self._of_poll = False
        """Whether poll() asked last for the lookup."""
        self._backs_off = False
        """Whether the next lookup waits for a backoff or for metadata."""
        self._poll_ends_us = 0
        """The end of the poll() whose lookup failed; 0: outside poll()."""
        self._failures = self._failed_us = 0
        """The number of consecutive failures within one poll(), and the time of the last failure."""

    def ready(self) -> bool:
        """Whether the coordinator is known; if not, a lookup is in progress."""
        if self.coordinator is None:
            self.find()
        return self.coordinator is not None

    def find(self) -> None:
        """Look up the coordinator, unless it is known, a lookup is in flight, or the backoff has not passed."""
        if self.coordinator is not None:
            return
        self._of_poll = self._watcher.poll_span_us != (0, 0)
        if self._finding:
            return
        self._finding = True
        self._asked_us = self._machine.now_us
        if not self._finding_in_background:
            self._lookups.look_up(self._group, self._found, self._not_found, self._refused)

    def find_in_background(self) -> None:
        """Look up the coordinator for the heartbeat thread, unless the polling thread backs off.

        The thread repeats a failed lookup.
        """
        if self.coordinator is not None:
            return
        if 0 < self._asked_us < self._watcher.poll_span_us[0]:
            self._lookups.look_up(self._group, self._found_again, self._not_found_again, self._refused)
        if self._finding or self._finding_in_background:
            return
        self._finding_in_background = True
        self._lookups.look_up(self._group, self._found_in_background, self._not_found_in_background, self._refused)

    def poll_begins(self) -> None:
        """End the waits of earlier calls: this poll() looks up the coordinator at once."""
        if self._backs_off:
            self._machine.stop_timer(FIND)
            self._finding = self._asleep = self._awaits_metadata = self._backs_off = False

    def timer_fired(self) -> None:
        """Look up the coordinator again after the backoff, or after the end of the waiting poll() (the timer FIND
        fired).
        """
        asleep, self._asleep = self._asleep, False
        if not (asleep and self._await_metadata()):
            self._retry_lookup()

    def metadata_refreshed(self) -> None:
        """Look up the coordinator again after metadata about topics arrived, if a lookup waits for metadata."""
        if self._awaits_metadata:
            self._machine.stop_timer(FIND)
            self._retry_lookup()

    def _retry_lookup(self) -> None:
        self._finding = self._awaits_metadata = self._backs_off = False
        if self._of_poll:
            self._watcher.wake()  # the next poll() looks up the coordinator
        elif self._metadata.is_wanted:
            self.find()

    def lose_coordinator(self, why: str, *, connected: bool = True) -> None:
        """Forget the coordinator. A working connection (``connected``) is closed, so the requests in flight
        on it fail.
        """
        lost = self.coordinator
        if lost is None:
            return
        self.coordinator = None
        self._machine.note(CoordinatorKnown(group=self._group, host="", why=why))
        if connected:
            self._client.drop_connection(lost, why)
        self._watcher.coordinator_lost()
        self._watcher.wake()

    def _found(self, host: ActorName, context: None) -> None:
        self._asked_us = 0
        if self.coordinator is None and self._is_unavailable(host):
            self._find_later(context)
            return
        self._finding = False
        self._learned(host)

    def _is_unavailable(self, host: ActorName) -> bool:
        """Whether the reconnect backoff of the host has not passed. Source: ``ConsumerNetworkClient.isUnavailable``."""
        return self._client.available_at(host) > self._machine.now_us

    def _learned(self, host: ActorName) -> None:
        if self.coordinator is not None:
            return  # the other thread's lookup was faster
        self._failures = 0
        self.coordinator = host
        self._machine.note(CoordinatorKnown(group=self._group, host=host, why="found"))
        self._watcher.coordinator_found()
        self._watcher.wake()

    def _found_in_background(self, host: ActorName, context: None) -> None:
        self._finding_in_background = False
        if self._finding:
            self._found(host, context)
        elif not self._is_unavailable(host):
            self._learned(host)

    def _not_found_in_background(self, context: None) -> None:
        self._finding_in_background = False
        if self._finding:
            self._not_found(context)

    def _found_again(self, host: ActorName, context: None) -> None:
        if not self._is_unavailable(host):
            self._learned(host)

    def _not_found_again(self, context: None) -> None:
        """Do nothing: the polling thread waits for a later lookup."""

    def _not_found(self, context: None) -> None:
        self._asked_us = 0
        self._poll_ends_us = self._watcher.poll_span_us[1]
        self._asleep = self._sleeps
        if self._sleeps or not self._await_metadata():
            self._find_later(context)
        else:
            self._watcher.coordinator_not_found()

    def _await_metadata(self) -> bool:
        """Request metadata. Returns whether a poll() waits for the answer."""
        left_us = self._poll_ends_us - self._machine.now_us
        self._awaits_metadata = left_us > 0
        if self._awaits_metadata:
            self._backs_off = True
            self._machine.start_timer(FIND, left_us)
        self._metadata.refresh()
        return self._awaits_metadata

    def _find_later(self, context: None) -> None:
        now_us = self._machine.now_us
        began_us, ends_us = self._watcher.poll_span_us
        if began_us > self._failed_us:
            self._failures = 0
        self._failures += 1
        self._failed_us = now_us
        self._backs_off = True
        wait_us = self._retry.after(self._failures, self._chance)
        self._machine.start_timer(FIND, min(wait_us, ends_us - now_us) if ends_us > now_us else wait_us)
        self._watcher.coordinator_not_found()

    def _refused(self, error: ErrorCode, context: None) -> None:
        self._finding = self._finding_in_background = False
        self._asked_us = 0
        self._watcher.fail_later(error, "FindCoordinator")
        self._watcher.coordinator_not_found()
