"""Clients of brokers of several releases: ApiVersions is the first request on every connection.

Source: ``NetworkClient.handleConnections``, ``handleInitiateApiVersionRequests``, ``handleApiVersionsResponse``. No
other request is sent before the broker's answer, and the answer is valid only for its connection.
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
    """The client's requests to brokers whose versions are unknown, and the known versions of brokers.

    The client's requests wait until the broker has listed its versions. Each request is sent in the highest common
    version. A waiting request is in flight for the client: it times out, and fails with the connection.

    Args:
        machine: the machine that sends the requests.
        ask: called as ``ask(peer)`` to send ``ApiVersions``; pass the answer to ``versions_answered``.
        refused: called as ``refused(request_id)`` for a request without a common version; it is never sent.
    """

    def __init__(self, machine: Machine, ask: Callable[[ActorName], None], refused: Callable[[int], None]) -> None:
        self._machine = machine
        self._ask = ask
        self._refused = refused
        self._spoken: dict[ActorName, Mapping[int, int]] = {}
        """Broker -> the broker's versions, while the connection lasts."""
        self._held: dict[ActorName, list[_Held]] = {}
        """Broker with ApiVersions in flight -> the requests that wait for the versions, in order."""

    def request(self, to: ActorName, message: object, version: int) -> int:
        """Send a request, or hold it until the versions are known. Returns the request's id."""
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
        """Send the held requests after a broker listed its versions."""
        self._spoken[peer] = highest_of(reply)
        for held in self._held.pop(peer, ()):
            self._send(peer, held)

    def usable(self, peer: ActorName, message: type[object], version: int) -> int:
        """The highest common version of this message, at most ``version``.

        Source: ``NodeApiVersions.latestUsableVersion``.
        """
        return min(version, self._spoken.get(peer, {}).get(SPECS[message].api_key, version))

    def forget(self, peer: ActorName) -> None:
        """Forget a broker's versions and drop its held requests, after its connection ended."""
        self._spoken.pop(peer, None)
        self._held.pop(peer, None)

    def close(self) -> None:
        """Drop all held requests."""
        self._held.clear()

    def _send(self, to: ActorName, held: _Held) -> None:
        version = self.usable(to, type(held.message), held.version)
        built = built_for(held.message, version)
        if built is None:
            self._refused(held.request_id)
        else:
            self._machine.request_as(held.request_id, to, built, version)
