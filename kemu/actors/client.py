"""Requests in flight, timeouts, broken connections and backoff: one implementation for all machines.

Requests are frequent (heartbeats, fetches), so a request costs a dictionary entry and no timer. One timer watches the
earliest deadline. A request without an answer in time closes its connection. A broken connection fails all requests in
flight on it. Source: Kafka's ``NetworkClient``.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from kemu.actors.machine import US_PER_MS, Chance, Machine, Received, TimerKey
from kemu.actors.negotiating import Negotiation
from kemu.protocol.messages.negotiation import NEGOTIATION_VERSION, ApiVersions
from kemu.protocol.names import ActorName

DEADLINE: TimerKey = ("deadline",)
"""The timer of the earliest deadline of a request in flight. The timer may fire before the deadline."""

_MAX_EXPONENT = 20

TIMED_OUT = "request timed out"
"""Reason of a failed request: the connection was closed because a request on it timed out."""
DISCONNECTED = "disconnected"
"""Reason of a failed request: its connection broke."""
NO_VERSION = "the broker supports no version of the request"
"""Reason of a failed request: the broker's release supports no equivalent version of the request."""


class Backoff(NamedTuple):
    """Exponential waits with a jitter of 20 percent. Source: Kafka's ``ExponentialBackoff``, KIP-580.

    ``most_us`` 0: every wait is ``first_us``, as in releases before 3.7, which implemented KIP-580.
    """

    first_us: int
    most_us: int

    def after(self, failures: int, chance: Chance | None) -> int:
        """The wait in us after this number of consecutive failures, at least 1. Without ``chance`` the wait has no
        jitter.
        """
        if not self.most_us:
            return self.first_us
        wait_us = min(self.first_us << min(failures - 1, _MAX_EXPONENT), self.most_us)
        return wait_us if chance is None else wait_us * (80 + chance.below(41)) // 100


@lru_cache(maxsize=64)
def backoff_ms(first_ms: int, most_ms: int) -> Backoff:
    """The back-off between these times in ms; all clients with these times share it."""
    return Backoff(first_ms * US_PER_MS, most_ms * US_PER_MS)


_new = tuple.__new__


class InFlight(NamedTuple):
    """A request that waits for its answer: its callbacks, and the callbacks' context."""

    peer: ActorName
    deadline_us: int
    answered: Callable[[Any, Any], None]
    failed: Callable[[str, Any], None]
    context: Any


class Client:
    """The client that sends the requests of a machine. A machine has one client for all its parts, or several clients.

    Usage::

        self.client = Client(self, request_timeout_us=..., reconnect=Backoff(...), chance=chance)
        ...
        case Received():                 # a reply (requests of others are matched before it)
            self.client.reply_arrived(event)
        case TimerFired(key=key) if key == DEADLINE:
            self.client.deadline_passed()
        case LinkDown(peer=peer):
            self.client.connection_broke(peer, DISCONNECTED)

    The machine and its parts then call ``client.call(to, message, version, answered, failed, context)``. Exactly one of
    ``answered(reply, context)`` and ``failed(why, context)`` is called in a later step, unless the machine makes the
    client forget the request. Retries are the caller's task: ``available_at(peer)`` is the earliest time of a retry.

    Args:
        machine: the machine that steps; requests, hang-ups and the timer are its effects.
        request_timeout_us: the timeout of calls without a timeout of their own.
        reconnect: the wait before a new connection to a peer whose connection broke; the wait grows until the peer
            answers.
        chance: the machine's random stream, for the jitter of ``reconnect``; None where Kafka waits a fixed time.
        link_lost: called as ``link_lost(peer, why)`` before the requests in flight to a lost peer fail.
        deadline: the key of the client's timer; several clients of one machine need different keys. The clients share
            the machine's request ids, so the machine may pass every reply to each client: ``reply_arrived`` reports a
            match.
        negotiates: whether peers are of several releases, so that each connection begins with ApiVersions.
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
        negotiates: bool = False,
    ) -> None:
        self._machine = machine
        self._chance = chance
        self._request_timeout_us = request_timeout_us
        self._reconnect = reconnect
        self._link_lost = link_lost
        self._deadline = deadline
        self.in_flight: dict[int, InFlight] = {}
        self._watching_until_us = 0
        self._broken: dict[ActorName, tuple[int, int]] = {}
        """Peer -> (consecutive failures, earliest time of a new connection)."""
        self._never_sent: tuple[int, ...] = ()
        """Requests without a version that the peer supports, until they fail."""
        self._negotiation = Negotiation(machine, self._ask_versions, self._refused) if negotiates else None
        self._requests = self._negotiation or machine

    # --- requests ----------------------------------------------------------------------------------------------

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
        """Send a request. Exactly one of ``answered(reply, context)`` and ``failed(why, context)`` is called."""
        machine = self._machine
        deadline_us = machine.now_us + (timeout_us or self._request_timeout_us)
        flight = _new(InFlight, (to, deadline_us, answered, failed, context))
        self.in_flight[self._requests.request(to, message, version)] = flight
        if deadline_us < self._watching_until_us or not self._watching_until_us:
            self._watch(deadline_us)

    def tell(self, to: ActorName, message: object, version: int) -> None:
        """Send a request that has no answer (acks=0)."""
        self._requests.request(to, message, version)

    def version_for(self, to: ActorName, message: type[object], version: int) -> int:
        """The highest version, not above ``version``, that this peer supports."""
        return version if self._negotiation is None else self._negotiation.usable(to, message, version)

    def reply_arrived(self, event: Received) -> bool:
        """Deliver a reply. False: no request waits for the reply, which is dropped."""
        flight = self.in_flight.pop(event.request_id, None)
        if flight is None:
            return False
        if self._broken:
            self._broken.pop(flight.peer, None)
        flight.answered(event.message, flight.context)
        return True

    def awaits(self, peer: ActorName) -> bool:
        """Whether a request to this peer is in flight."""
        return any(flight.peer == peer for flight in self.in_flight.values())

    def postpone(self, peer: ActorName, deadline_us: int) -> None:
        """Set the deadline of all requests in flight to ``peer``, for connections that end after a period of silence.

        Source: ZooKeeper's ``ClientCnxn``, whose read timeout begins with the last answer, whatever the age of a
        request.
        """
        for request_id, flight in self.in_flight.items():
            if flight.peer == peer:
                self.in_flight[request_id] = flight._replace(deadline_us=deadline_us)

    def deadline_passed(self) -> None:
        """Close the connections with overdue requests, then watch the next deadline (the client's timer fired)."""
        self._watching_until_us = 0
        if self._never_sent:
            self._fail_never_sent()
        now_us = self._machine.now_us
        overdue = [flight.peer for flight in self.in_flight.values() if flight.deadline_us <= now_us]
        for peer in dict.fromkeys(overdue):
            self._machine.hang_up(peer)
            self.connection_broke(peer, TIMED_OUT)
        if self.in_flight:
            self._watch(min(flight.deadline_us for flight in self.in_flight.values()))

    def _watch(self, deadline_us: int) -> None:
        self._watching_until_us = deadline_us
        self._machine.start_timer(self._deadline, deadline_us - self._machine.now_us)

    # --- connections -------------------------------------------------------------------------------------------

    def connection_broke(self, peer: ActorName, why: str) -> None:
        """Fail the requests in flight to ``peer``, and delay the next connection to it."""
        self._delay_next(peer)
        if self._link_lost is not None:
            self._link_lost(peer, why)
        self.fail_requests(peer, why)

    def drop_connection(self, peer: ActorName, why: str) -> None:
        """Close a working connection: its requests in flight fail, and the next connection waits as after a break.

        Source: ``NetworkClient.disconnect`` calls ``ClusterConnectionStates.disconnected`` (3.4.1, 3.9.1).
        """
        self._machine.hang_up(peer)
        self._delay_next(peer)
        self.fail_requests(peer, why)

    def _delay_next(self, peer: ActorName) -> None:
        failures = self._broken.get(peer, (0, 0))[0] + 1
        self._broken[peer] = failures, self._machine.now_us + self._reconnect.after(failures, self._chance)

    def fail_requests(self, peer: ActorName, why: str) -> None:
        """Fail all requests in flight to ``peer``."""
        if self._negotiation is not None:
            self._negotiation.forget(peer)
        for request_id in [number for number, flight in self.in_flight.items() if flight.peer == peer]:
            flight = self.in_flight.pop(request_id, None)
            if flight is not None:
                flight.failed(why, flight.context)

    def forget(self, peer: ActorName) -> None:
        """Close a working connection without callbacks; a new connection is allowed at once."""
        self._machine.hang_up(peer)
        self._broken.pop(peer, None)
        self.forget_requests(peer)

    def forget_requests(self, peer: ActorName) -> None:
        """Drop the requests in flight to ``peer`` without callbacks; the connection remains."""
        if self._negotiation is not None:
            self._negotiation.forget(peer)
        for request_id in [number for number, flight in self.in_flight.items() if flight.peer == peer]:
            del self.in_flight[request_id]

    def available_at(self, peer: ActorName) -> int:
        """The earliest time of a connection to ``peer``, in us."""
        return self._broken[peer][1] if peer in self._broken else 0

    def close(self) -> None:
        """Close all connections with requests in flight, without callbacks. The machine itself stops its timers."""
        for peer in dict.fromkeys(flight.peer for flight in self.in_flight.values()):
            self._machine.hang_up(peer)
        self.in_flight.clear()
        if self._negotiation is not None:
            self._negotiation.close()

    # --- brokers of several releases ---------------------------------------------------------------------------

    def _ask_versions(self, peer: ActorName) -> None:
        assert self._negotiation is not None
        answered = self._negotiation.versions_answered
        self.call(peer, ApiVersions(), NEGOTIATION_VERSION, answered, _versions_unanswered, peer)

    def _refused(self, request_id: int) -> None:
        """Fail the request in the next step, as ``NetworkClient.doSend`` does in its next poll."""
        self._never_sent += (request_id,)
        self._watch(max(self._machine.now_us, 1))

    def _fail_never_sent(self) -> None:
        never_sent, self._never_sent = self._never_sent, ()
        for request_id in never_sent:
            flight = self.in_flight.pop(request_id, None)
            if flight is not None:
                flight.failed(NO_VERSION, flight.context)


def _versions_unanswered(why: str, peer: ActorName) -> None:
    """Do nothing: the connection failed, and the held requests fail with it."""
