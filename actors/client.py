"""What every client has: requests in flight, their time-outs, broken connections, and a moment to look again.

Requests are hot (a heartbeat or a fetch is one), so a request costs a dictionary entry and no timer: one timer watches
the earliest deadline. A request that is not answered in time closes its connection, and a connection that breaks fails
all requests in flight on it. Source: Kafka's ``NetworkClient``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from kemu.actors.machine import Chance, Machine, Received
from kemu.protocol.names import ActorName

DEADLINE = ("deadline",)
"""Fires at the earliest deadline of a request in flight, or before it."""
WAKE = ("wake",)
"""Fires when the polling thread has to look again (a backoff or an interval is over)."""

_MAX_EXPONENT = 20


class Backoff(NamedTuple):
    """Exponential waits with a jitter of 20 percent. Source: Kafka's ``ExponentialBackoff``, KIP-580."""

    first_us: int
    most_us: int

    def after(self, failures: int, chance: Chance) -> int:
        """How long to wait after this many failures in a row (1 = the first)."""
        wait_us = min(self.first_us << min(failures - 1, _MAX_EXPONENT), self.most_us)
        return wait_us * (80 + chance.below(41)) // 100


class InFlight(NamedTuple):
    """A request that waits for its answer: whom to tell, and what they want to be reminded of."""

    peer: ActorName
    deadline_us: int
    answered: Callable[[Any, Any], None]
    failed: Callable[[str, Any], None]
    context: Any


class Client(Machine):
    """Base of machines that send requests. Subclasses pass on replies, LinkDown, and the timers DEADLINE and WAKE."""

    def __init__(self, name: ActorName, *, request_timeout_us: int, reconnect: Backoff, chance: Chance) -> None:
        super().__init__(name)
        self.chance = chance
        self.awake = False
        """Something happened that the polling thread should look at."""
        self.in_flight: dict[int, InFlight] = {}
        self._request_timeout_us = request_timeout_us
        self._watching_until_us = 0
        self._wake_us = 0
        self._reconnect = reconnect
        self._broken: dict[ActorName, tuple[int, int]] = {}
        """Peer -> (failures in a row, no connection before)."""

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
        """Send a request: ``answered(reply, context)`` or ``failed(why, context)`` is called, exactly once."""
        deadline_us = self.now_us + (timeout_us or self._request_timeout_us)
        self.in_flight[self.request(to, message, version)] = InFlight(to, deadline_us, answered, failed, context)
        if deadline_us < self._watching_until_us or not self._watching_until_us:
            self._watch(deadline_us)

    def reply_arrived(self, event: Received) -> None:
        """Give a reply to whom it is for; one that nobody waits for any more is dropped."""
        flight = self.in_flight.pop(event.request_id, None)
        if flight is None:
            return
        if self._broken:
            self._broken.pop(flight.peer, None)
        flight.answered(event.message, flight.context)

    def deadline_passed(self) -> None:
        """Close the connections whose requests are overdue, then watch the next deadline."""
        self._watching_until_us = 0
        overdue = [flight.peer for flight in self.in_flight.values() if flight.deadline_us <= self.now_us]
        for peer in dict.fromkeys(overdue):
            self.hang_up(peer)
            self.connection_broke(peer, "request timed out")
        if self.in_flight:
            self._watch(min(flight.deadline_us for flight in self.in_flight.values()))

    def _watch(self, deadline_us: int) -> None:
        self._watching_until_us = deadline_us
        self.start_timer(DEADLINE, deadline_us - self.now_us)

    # --- connections -------------------------------------------------------------------------------------------

    def connection_broke(self, peer: ActorName, why: str) -> None:
        """Fail what was in flight to ``peer`` and stay away from it for a while."""
        failures = self._broken.get(peer, (0, 0))[0] + 1
        self._broken[peer] = failures, self.now_us + self._reconnect.after(failures, self.chance)
        self.link_lost(peer, why)
        self.fail_requests(peer, why)

    def drop_connection(self, peer: ActorName, why: str) -> None:
        """Hang up on purpose; what was in flight fails."""
        self.hang_up(peer)
        self.fail_requests(peer, why)

    def fail_requests(self, peer: ActorName, why: str) -> None:
        """None of the requests in flight to ``peer`` will be answered."""
        for request_id in [number for number, flight in self.in_flight.items() if flight.peer == peer]:
            flight = self.in_flight.pop(request_id, None)
            if flight is not None:
                flight.failed(why, flight.context)

    def available_at(self, peer: ActorName) -> int:
        """Since when, or from when on, a connection to ``peer`` may be opened (us)."""
        return self._broken[peer][1] if peer in self._broken else 0

    def link_lost(self, peer: ActorName, why: str) -> None:
        """Called before the requests to ``peer`` fail."""

    # --- the polling thread ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the polling thread look again in this step, as soon as it is free."""
        self.awake = True

    def wake_at(self, at_us: int) -> None:
        """Let it look again at this time. One timer serves all: the earliest wins, later ones are asked for again."""
        if at_us < self._wake_us or not self._wake_us:
            self._wake_us = at_us
            self.start_timer(WAKE, at_us - self.now_us)

    def wake_fired(self) -> None:
        """WAKE fired."""
        self._wake_us = 0
        self.awake = True
