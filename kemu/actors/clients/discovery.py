"""Target coordinates a group: one FindCoordinator for all clients, and the coordinator that a member of a group knows.

Source: Kafka's ``AbstractCoordinator.lookupCoordinator``; ``CoordinatorStrategy`` of its admin client.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kemu.actors.client import Backoff, Client
from kemu.actors.clients.brokers import BrokersToAsk
from kemu.actors.clients.metadata import MetadataRefresh
from kemu.actors.machine import Chance, Machine
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import FindCoordinator, FindCoordinatorReply
from kemu.protocol.names import ActorName, GroupId
from kemu.protocol.notes.groups import CoordinatorKnown

FIND = ("find",)
"""Fires when the coordinator may be looked up again."""


class _Lookup(NamedTuple):
    asked: ActorName
    found: Callable[[ActorName, Any], None]
    retry: Callable[[Any], None]
    refused: Callable[[ErrorCode, Any], None]
    context: Any


class CoordinatorLookups:
    """Asks any broker who coordinates a group; what to do if nobody knows yet is up to who asks."""

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
        """``found(host, context)``, ``again(context)`` (not now, or no answer) or ``refused(error, context)`` follows.

        After ``retry`` the next lookup goes to another broker.
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
    """Target wants to know what discovery found."""

    @property
    def poll_span_us(self) -> tuple[int, int]:
        """When the poll() that goes on began, and when it will return with nothing; (0, 0): none goes on."""
        ...

    def coordinator_found(self) -> None:
        """There is a coordinator."""
        ...

    def coordinator_lost(self) -> None:
        """There is none any more."""
        ...

    def coordinator_not_found(self) -> None:
        """A lookup ended without one; unless it was refused, another follows after the backoff."""
        ...

    def wake(self) -> None:
        """Something was learned or lost."""
        ...

    def fail_later(self, error: ErrorCode, why: str) -> None:
        """A fatal error, to be raised by the next poll."""
        ...


class Discovery:
    """The coordinator of a member's group.

    Both threads of a member look for it: the polling one, and the heartbeat thread beside it (KIP-62), each by its own
    clock and whatever the other has under way. Source: ``AbstractCoordinator.ensureCoordinatorReady`` and its
    ``HeartbeatThread``, which does not wait for the other's answer (KAFKA-10793). Recorded with 3.4.1: members whose
    heartbeat threads run look it up 19 to 47 times a second while nobody coordinates, a new member 7 to 20 times; the
    less, the more the machine had to do.

    A coordinator that is found where a connection broke so shortly before that none may be opened yet is none: it is
    looked up again, so that another is found long before the back-off is over. Source: ``checkAndGetCoordinator``.

    A lookup that fails asks for metadata, too, and is followed by another when there is an answer
    (``awaitMetadataUpdate``), from 3.7 on after ``retry.backoff.ms`` and more (KIP-580). Neither wait outlasts the
    poll() that waits: the next one begins with a lookup, and counts its attempts anew.
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
        self._retry = Backoff(config.retry_backoff_ms * 1000, config.retry_backoff_max_ms * 1000)
        self._finding = False
        self._finding_in_background = False
        """The heartbeat thread's lookup is under way."""
        self._sleeps = config.retry_backoff_max_ms > 0
        """Before it asks for metadata: since KIP-580."""
        self._asleep = self._awaits_metadata = False
        self._poll_ends_us = 0
        """Of the poll() whose lookup failed; 0: none went on."""
        self._failures = self._failed_us = 0
        """In a row within one poll(), and when the last was."""

    def ready(self) -> bool:
        """Whether the coordinator can be asked now; if not, what is needed for it is under way."""
        if self.coordinator is None:
            self.find()
        return self.coordinator is not None

    def find(self) -> None:
        """Look the coordinator up, unless it is known, asked for already, or the last try is too recent."""
        if self.coordinator is not None or self._finding:
            return
        self._finding = True
        self._lookups.look_up(self._group, self._found, self._not_found, self._refused)

    def find_in_background(self) -> None:
        """The heartbeat thread looks the coordinator up, unless it has asked already; what fails, it asks again."""
        if self.coordinator is not None or self._finding_in_background:
            return
        self._finding_in_background = True
        self._lookups.look_up(self._group, self._found_in_background, self._not_found_in_background, self._refused)

    def timer_fired(self) -> None:
        """FIND fired: a wait, or the poll() that waited, is over."""
        asleep, self._asleep = self._asleep, False
        if not (asleep and self._await_metadata()):
            self._retry_lookup()

    def metadata_refreshed(self) -> None:
        """There is an answer about topics."""
        if self._awaits_metadata:
            self._machine.stop_timer(FIND)
            self._retry_lookup()

    def _retry_lookup(self) -> None:
        self._finding = self._awaits_metadata = False
        if self._metadata.is_wanted:
            self.find()

    def lose_coordinator(self, why: str, *, connected: bool = True) -> None:
        """Forget the coordinator. Unless the connection is gone anyway it is closed: nothing stays in flight."""
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
        if self.coordinator is None and self._is_unavailable(host):
            self._find_later(context)
            return
        self._finding = False
        self._learned(host)

    def _is_unavailable(self, host: ActorName) -> bool:
        """Source: ``ConsumerNetworkClient.isUnavailable``."""
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
        if not self._is_unavailable(host):
            self._learned(host)

    def _not_found_in_background(self, context: None) -> None:
        self._finding_in_background = False

    def _not_found(self, context: None) -> None:
        self._poll_ends_us = self._watcher.poll_span_us[1]
        self._asleep = self._sleeps
        if self._sleeps or not self._await_metadata():
            self._find_later(context)
        else:
            self._watcher.coordinator_not_found()

    def _await_metadata(self) -> bool:
        """Ask for metadata; whether there is a poll() that waits for it."""
        left_us = self._poll_ends_us - self._machine.now_us
        self._awaits_metadata = left_us > 0
        if self._awaits_metadata:
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
        wait_us = self._retry.after(self._failures, self._chance)
        self._machine.start_timer(FIND, min(wait_us, ends_us - now_us) if ends_us > now_us else wait_us)
        self._watcher.coordinator_not_found()

    def _refused(self, error: ErrorCode, context: None) -> None:
        self._finding = self._finding_in_background = False
        self._watcher.fail_later(error, "FindCoordinator")
        self._watcher.coordinator_not_found()
