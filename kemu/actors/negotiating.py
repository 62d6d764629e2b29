"""Asking brokers of several releases: what each speaks is asked first, on every connection.

Source: ``NetworkClient.handleConnections``, ``handleInitiateApiVersionRequests``, ``handleApiVersionsResponse``: until
the broker has said what it speaks nothing else is sent to it, and with the connection that knowledge goes.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kemu.actors.machine import Machine
from kemu.protocol.messages.negotiation import ApiVersions, ApiVersionsReply, built_for, highest_of
from kemu.protocol.names import ActorName
from kemu.protocol.wire.schema import SPECS


class _Held(NamedTuple):
    request_id: int
    message: object
    version: int


class Negotiation:
    """Where a client's requests wait until the broker said which versions it speaks; then they go in none higher.

    Those that wait are in flight for the client as all are: they time out, and fail with the connection.

    Args:
        machine: requests are its effects.
        ask: called as ``ask(peer)`` to send ``ApiVersions``; the answer is for ``versions_answered``.
        refused: called as ``refused(request_id)`` for what the broker has no version of: it is never sent.
    """

    def __init__(self, machine: Machine, ask: Callable[[ActorName], None], refused: Callable[[int], None]) -> None:
        self._machine = machine
        self._ask = ask
        self._refused = refused
        self._spoken: dict[ActorName, Mapping[int, int]] = {}
        """Broker -> what it said, while the connection lasts."""
        self._held: dict[ActorName, list[_Held]] = {}
        """Broker that was asked -> what waits for its answer, in order."""

    def request(self, to: ActorName, message: object, version: int) -> int:
        """Send a request, or hold it back; its id."""
        if isinstance(message, ApiVersions):
            return self._machine.request(to, message, version)
        held = _Held(self._machine.new_request_id(), message, version)
        if to in self._spoken:
            self._send(to, held)
        elif to in self._held:
            self._held[to].append(held)
        else:
            self._held[to] = [held]
            self._ask(to)
        return held.request_id

    def versions_answered(self, reply: ApiVersionsReply, peer: ActorName) -> None:
        """What a broker speaks."""
        self._spoken[peer] = highest_of(reply)
        for held in self._held.pop(peer, ()):
            self._send(peer, held)

    def usable(self, peer: ActorName, message: type[object], version: int) -> int:
        """The highest version of these messages that both have. Source: ``NodeApiVersions.latestUsableVersion``."""
        return min(version, self._spoken.get(peer, {}).get(SPECS[message].api_key, version))

    def forget(self, peer: ActorName) -> None:
        """The connection is gone, or nobody waits for what the broker says any more; nothing held is ever sent."""
        self._spoken.pop(peer, None)
        self._held.pop(peer, None)

    def close(self) -> None:
        """Nothing that is held back is ever sent."""
        self._held.clear()

    def _send(self, to: ActorName, held: _Held) -> None:
        version = self.usable(to, type(held.message), held.version)
        built = built_for(held.message, version)
        if built is None:
            self._refused(held.request_id)
        else:
            self._machine.request_as(held.request_id, to, built, version)
