"""The coordinator of a consumer of the consumer protocol (KIP-848): the network thread looks it up.

The thread sends one lookup at a time, whether the application is inside poll() or not. A failed lookup is repeated
after an exponential backoff, without a request for metadata. After an answer that found a coordinator, the next lookup
waits for ``retry.backoff.ms``. The connection to a coordinator that has moved stays.

A found coordinator whose host is in its reconnect backoff counts as known at the end of that backoff. Until then the
lookup is repeated: in Kafka, each request to the host fails and makes the coordinator unknown again.

Source: Kafka 4.0 to 4.3 ``CoordinatorRequestManager``, ``RequestState``, ``NetworkClientDelegate.checkDisconnects``.
"""

from kemu.actors.client import Client, backoff_ms
from kemu.actors.clients.discovery import FIND, CoordinatorLookups, CoordinatorWatcher
from kemu.actors.machine import Chance, Machine
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import ActorName
from kemu.protocol.notes.groups import CoordinatorKnown


class ModernDiscovery:
    """The lookup of a member's coordinator on the network thread. ``Discovery`` is the lookup of a classic consumer."""

    def __init__(
        self,
        machine: Machine,
        client: Client,
        lookups: CoordinatorLookups,
        watcher: CoordinatorWatcher,
        config: ConsumerConfig,
        chance: Chance,
    ) -> None:
        self.coordinator: ActorName | None = None
        self._machine = machine
        self._client = client
        self._lookups = lookups
        self._watcher = watcher
        self._group = config.group_id
        self._chance = chance
        self._retry = backoff_ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._in_flight = False
        self._failures = 0
        """The number of failed lookups since the last coordinator was found."""
        self._next_us = 0
        """The earliest time of the next lookup."""
        self._unavailable: ActorName | None = None
        """The host of the last answer, if it was in its reconnect backoff."""

    def ready(self) -> bool:
        """Whether the coordinator is known; if not, a lookup is in progress."""
        self.find()
        return self.coordinator is not None

    def find(self) -> None:
        """Look up the coordinator, unless it is known or a lookup is in flight; during a backoff, look it up later."""
        if self.coordinator is not None or self._in_flight:
            return
        now_us, host = self._machine.now_us, self._unavailable
        due_us = self._next_us if host is None else min(self._next_us, self._client.available_at(host))
        if now_us < due_us:
            self._machine.start_timer(FIND, due_us - now_us)
        elif host is not None and self._client.available_at(host) <= now_us:
            self._learned(host)
        else:
            self._look_up()

    def _look_up(self) -> None:
        self._in_flight, self._unavailable = True, None
        self._lookups.look_up(self._group, self._found, self._not_found, self._refused)

    timer_fired = find

    def poll_begins(self) -> None:
        """Do nothing: the network thread works on."""

    def metadata_refreshed(self) -> None:
        """Do nothing: no lookup waits for metadata."""

    def lose_coordinator(self, why: str, *, connected: bool = True) -> None:
        """Forget the coordinator; a working connection (``connected``) stays."""
        if self.coordinator is None:
            return
        self.coordinator = None
        self._machine.note(CoordinatorKnown(group=self._group, host="", why=why))
        self._watcher.coordinator_lost()
        self._watcher.wake()

    def _found(self, host: ActorName, context: None) -> None:
        self._in_flight, self._failures = False, 0
        self._next_us = self._machine.now_us + self._retry.first_us
        if self._client.available_at(host) > self._machine.now_us:
            self._unavailable = host
            self._look_up_later()
        else:
            self._learned(host)

    def _learned(self, host: ActorName) -> None:
        self.coordinator, self._unavailable = host, None
        self._machine.note(CoordinatorKnown(group=self._group, host=host, why="found"))
        self._watcher.coordinator_found()
        self._watcher.wake()

    def _not_found(self, context: None) -> None:
        self._in_flight = False
        self._failures += 1
        self._next_us = self._machine.now_us + self._retry.after(self._failures, self._chance)
        self._look_up_later()

    def _look_up_later(self) -> None:
        self.find()
        self._watcher.coordinator_not_found()

    def _refused(self, error: ErrorCode, context: None) -> None:
        self._watcher.fail_later(error, "FindCoordinator")
        self._not_found(context)
