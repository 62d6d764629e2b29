"""Limited bandwidth of network cards.

A card has a bandwidth in each direction. The packets with records (appends, fetched batches) of one link and direction
form a flow, one packet after the other. All flows through a card share its bandwidth evenly. Bandwidth that a flow
cannot use, because the card at its other end is slower, goes to the other flows (max-min fairness, which TCP
approximates). Packets without records are small and pass between the flows, but never overtake on their connection.

A network without limits has no such object, and packets take their latency alone. All arithmetic is in integers: the
rest of a packet is counted in millionths of a byte.

Source of the sharing: Bertsekas and Gallager, "Data Networks", 6.5.2 (progressive filling).
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeAlias, TypeVar

from kemu.emulator.chance import Entry
from kemu.emulator.engine.agenda import Agenda

MILLION = 1_000_000

Way: TypeAlias = tuple[int, int]
"""(number of a link, direction)."""


class Freight(Protocol):
    """A packet."""

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether its connection is open and its sender runs."""
        ...


P = TypeVar("P", bound=Freight)


class Flow(Generic[P]):
    """Packets of a link in one direction, in order; the first is being transmitted."""

    __slots__ = ("hosts", "left", "queue", "rate")

    def __init__(self, hosts: tuple[str, str]) -> None:
        self.hosts = hosts
        """Sender and receiver."""
        self.queue: deque[tuple[P, int]] = deque()
        self.left = 0
        """Rest of the first packet, in millionths of a byte."""
        self.rate = 0
        """Present rate in bytes per second."""


class Bandwidth(Generic[P]):
    """Flows through limited cards; ``depart`` is called with each packet that is through or dead, and its delay."""

    def __init__(self, agenda: Agenda, depart: Callable[[P, int], None]) -> None:
        self._agenda = agenda
        self._depart = depart
        self._limits: dict[str, int] = {}
        """Host -> bytes per second in each direction."""
        self._flows: dict[Way, Flow[P]] = {}
        self._since_us = 0
        """Time up to which the progress of flows is counted."""
        self._due = 0
        """Number of the current entry of the agenda; earlier entries are stale."""

    def limit(self, host: str, bytes_per_s: int, now_us: int) -> None:
        """Set the bandwidth of a host's card in bytes per second; 0 removes the limit."""
        self._progress(now_us)
        if bytes_per_s:
            self._limits[host] = bytes_per_s
        else:
            self._limits.pop(host, None)
        self._share(now_us)

    def limit_of(self, host: str) -> int:
        """Return the bandwidth of a host's card in bytes per second; 0 means no limit."""
        return self._limits.get(host, 0)

    def takes(self, packet: P, way: Way, hosts: tuple[str, str], extra_us: int, now_us: int, *, bulk: bool) -> bool:
        """Queue a packet if it must wait for bandwidth, and return whether it must.

        Args:
            hosts: sender and receiver.
            bulk: whether the packet carries records.
        """
        flow = self._flows.get(way)
        if flow is not None:
            flow.queue.append((packet, extra_us))
            return True
        if not bulk or not any(host in self._limits for host in hosts):
            return False
        self._progress(now_us)
        flow = self._flows[way] = Flow(hosts)
        flow.left = packet.bytes * MILLION
        flow.queue.append((packet, extra_us))
        self._share(now_us)
        return True

    # --- time --------------------------------------------------------------------------------------------------

    def _progress(self, now_us: int) -> None:
        """Count the bytes transmitted since the last change of rates."""
        passed_us = now_us - self._since_us
        self._since_us = now_us
        if passed_us:
            for flow in self._flows.values():
                flow.left -= flow.rate * passed_us

    def _some_through(self, entry: Entry) -> None:
        if entry[2] != self._due:
            return
        now_us = entry[0]
        self._progress(now_us)
        through: list[tuple[P, int]] = []
        for way, flow in list(self._flows.items()):
            if flow.left <= 0 or not flow.rate:
                through.append(flow.queue.popleft())
                if flow.queue:
                    flow.left = flow.queue[0][0].bytes * MILLION
                else:
                    del self._flows[way]
        for packet, extra_us in through:
            self._depart(packet, extra_us)
        self._share(now_us)

    def drop_dead(self, now_us: int) -> None:
        """Remove the packets of broken connections, and share their bandwidth."""
        dead = [way for way, flow in self._flows.items() if not all(packet.is_alive for packet, _ in flow.queue)]
        if not dead:
            return
        self._progress(now_us)
        gone: list[tuple[P, int]] = []
        for way in dead:
            flow = self._flows[way]
            first = flow.queue[0][0]
            gone += [each for each in flow.queue if not each[0].is_alive]
            flow.queue = deque(each for each in flow.queue if each[0].is_alive)
            if not flow.queue:
                del self._flows[way]
            elif flow.queue[0][0] is not first:
                flow.left = flow.queue[0][0].bytes * MILLION
        for packet, extra_us in gone:
            self._depart(packet, extra_us)
        self._share(now_us)

    # --- sharing -----------------------------------------------------------------------------------------------

    def _share(self, now_us: int) -> None:
        """Set the rate of every flow, beginning with the card that has the least bandwidth per flow."""
        left: dict[tuple[int, str], int] = {}
        users: dict[tuple[int, str], list[Flow[P]]] = {}
        for flow in self._flows.values():
            flow.rate = 0
            for side, host in enumerate(flow.hosts):
                if host in self._limits:
                    left[side, host] = self._limits[host]
                    users.setdefault((side, host), []).append(flow)
        while users:
            card = min(users, key=lambda each: left[each] // len(users[each]))
            rate = max(1, left[card] // len(users[card]))
            for flow in users.pop(card):
                flow.rate = rate
                for side, host in enumerate(flow.hosts):
                    other = users.get((side, host))
                    if other is not None:
                        other.remove(flow)
                        left[side, host] -= rate
                        if not other:
                            del users[side, host]
        if self._flows:
            wait_us = min(-(-max(flow.left, 0) // flow.rate) if flow.rate else 0 for flow in self._flows.values())
            self._due = self._agenda.push_in_order(now_us + wait_us, self._some_through, None)
        else:
            self._due = 0
