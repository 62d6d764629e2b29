"""Asking brokers of several releases: what each speaks is asked first, on every connection.

Source: ``NetworkClient.handleConnections``, ``handleInitiateApiVersionRequests``, ``handleApiVersionsResponse``: until
the broker has said what it speaks nothing else is sent to it, and with the connection that knowledge goes.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kemu.actors.client import DEADLINE, Backoff, Client, InFlight
from kemu.actors.machine import Chance, Machine, TimerKey
from kemu.protocol.messages.negotiation import NEGOTIATION_VERSION, ApiVersions, ApiVersionsReply, built_for, highest_of
from kemu.protocol.messages.versions import SpokenVersions
from kemu.protocol.names import ActorName
from kemu.protocol.wire.schema import SPECS


class _Unsent(NamedTuple):
    to: ActorName
    message: object
    version: int
    is_answered: bool


class NegotiatingClient(Client):
    """A ``Client`` whose requests wait until the broker said which versions it speaks, and then go in none higher.

    Those that wait are in flight as all are, under numbers below 0: they time out, and fail with the connection. So do
    those that the broker has no version for (Kafka's client fails them at once).
    """

    def __init__(
        self,
        machine: Machine,
        *,
        request_timeout_us: int,
        reconnect: Backoff,
        chance: Chance | None,
        link_lost: Callable[[ActorName, str], None] | None = None,
        deadline: TimerKey = DEADLINE,
    ) -> None:
        super().__init__(
            machine,
            request_timeout_us=request_timeout_us,
            reconnect=reconnect,
            chance=chance,
            link_lost=link_lost,
            deadline=deadline,
        )
        self._spoken: dict[ActorName, Mapping[int, int]] = {}
        """Broker -> what it said, while the connection lasts."""
        self._asked: dict[ActorName, None] = {}
        self._unsent: dict[int, _Unsent] = {}
        self._last_number = 0

    def call(
        self,
        to: ActorName,
        message: object,
        version: int,
        answered: Callable[[Any, Any], None],
        failed: Callable[[str, Any], None],
        context: Any = None,
        timeout_us: int = 0,
    ) -> None:
        """See ``Client``."""
        spoken = self._spoken.get(to)
        if spoken is None:
            self._ask(to)
        else:
            usable = _usable(message, version, spoken)
            built = built_for(message, usable)
            if built is not None:
                super().call(to, built, usable, answered, failed, context, timeout_us)
                return
        deadline_us = self._machine.now_us + (timeout_us or self._request_timeout_us)
        number = self._wait(_Unsent(to, message, version, is_answered=True))
        self.in_flight[number] = InFlight(to, deadline_us, answered, failed, context)
        if deadline_us < self._watching_until_us or not self._watching_until_us:
            self._watch(deadline_us)

    def tell(self, to: ActorName, message: object, version: int) -> None:
        """See ``Client``."""
        spoken = self._spoken.get(to)
        if spoken is not None:
            super().tell(to, message, _usable(message, version, spoken))
            return
        self._wait(_Unsent(to, message, version, is_answered=False))
        self._ask(to)

    def _wait(self, unsent: _Unsent) -> int:
        self._last_number -= 1
        self._unsent[self._last_number] = unsent
        return self._last_number

    def _ask(self, to: ActorName) -> None:
        if to not in self._asked:
            self._asked[to] = None
            super().call(to, ApiVersions(), NEGOTIATION_VERSION, self._told, self._not_told, to)

    def _told(self, reply: ApiVersionsReply, to: ActorName) -> None:
        self._asked.pop(to, None)
        spoken = self._spoken[to] = highest_of(reply)
        for number in [number for number, unsent in self._unsent.items() if unsent.to == to]:
            unsent = self._unsent.pop(number)
            flight = self.in_flight.pop(number, None)
            if flight is None and unsent.is_answered:
                continue  # whoever asked has given up
            version = _usable(unsent.message, unsent.version, spoken)
            built = built_for(unsent.message, version)
            if built is None:
                assert flight is not None
                self._unsent[number], self.in_flight[number] = unsent, flight
                continue
            request_id = self._machine.request(to, built, version)
            if flight is not None:
                self.in_flight[request_id] = flight

    def _not_told(self, why: str, to: ActorName) -> None:
        """The connection is gone; what waited for it fails with it."""

    def fail_requests(self, peer: ActorName, why: str) -> None:
        """See ``Client``."""
        self._forget_versions(peer)
        super().fail_requests(peer, why)

    def forget_requests(self, peer: ActorName) -> None:
        """See ``Client``. The connection stays, but nobody waits for what the broker says any more."""
        self._forget_versions(peer)
        super().forget_requests(peer)

    def close(self) -> None:
        """See ``Client``."""
        super().close()
        self._unsent.clear()

    def _forget_versions(self, peer: ActorName) -> None:
        self._spoken.pop(peer, None)
        self._asked.pop(peer, None)
        for number in [number for number, unsent in self._unsent.items() if unsent.to == peer]:
            del self._unsent[number]


def client_for(versions: SpokenVersions) -> type[Client]:
    """What a machine that speaks these asks through."""
    return NegotiatingClient if versions.negotiates else Client


def _usable(message: object, version: int, spoken: Mapping[int, int]) -> int:
    """The highest version that both have. Source: ``NodeApiVersions.latestUsableVersion``."""
    return min(version, spoken.get(SPECS[type(message)].api_key, version))
