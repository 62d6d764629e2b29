"""Limited bandwidth of network cards.

A card has a bandwidth in each direction. The packets with records (appends, fetched batches) of one link and direction
form a flow, one packet after the other. All flows through a card share its bandwidth evenly. If the card at the other
end of a flow is slower, the other flows share the unused bandwidth (max-min fairness, which TCP approximates). Packets
without records are small and do not wait for bandwidth, but never overtake packets of the same connection.

A network without limits has no ``Bandwidth`` object, and its packets only take their latency. All arithmetic is in
integers: the rest of a packet is counted in millionths of a byte.

Source of the algorithm: Bertsekas and Gallager, "Data Networks", 6.5.2 (progressive filling).
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
    """A packet as ``Bandwidth`` sees it."""

    @property
    def bytes(self) -> int:
        """Size of the packet on the wire, in bytes."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether the packet's connection is open and the sender runs."""
        ...


P = TypeVar("P", bound=Freight)


class Flow(Generic[P]):
    """The waiting packets of a link in one direction, in order. The network card transmits the first packet."""

    __slots__ = ("hosts", "left", "queue", "rate")

    def __init__(self, hosts: tuple[str, str]) -> None:
        self.hosts = hosts
        """Sender and receiver."""
        self.queue: deque[tuple[P, int]] = deque()
        self.left = 0
        """The untransmitted part of the first packet, in millionths of a byte."""
        self.rate = 0
        """Present rate of the flow in bytes per second."""


class Bandwidth(Generic[P]):
    """The flows through network cards with limited bandwidth. ``depart`` is called with each transmitted or dead
    packet, and the packet's delay.
    """

    def __init__(self, agenda: Agenda, depart: Callable[[P, int], None]) -> None:
        self._agenda = agenda
        self._depart = depart
        self._limits: dict[str, int] = {}
        """Host -> bytes per second in each direction."""
        self._flows: dict[Way, Flow[P]] = {}
        self._since_us = 0
        """Time up to which ``left`` of all flows is up to date."""
        self._due = 0
        """Number of the agenda's entry for the next transmitted packet; earlier entries are stale."""

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
        """Queue a packet that must wait for bandwidth; return whether the packet must wait.

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
        """Subtract the bytes that were transmitted since the last change of rates."""
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
        """Remove the packets of broken connections, and share the freed bandwidth."""
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
