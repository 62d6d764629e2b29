"""How much fits through the hosts' network cards: what carries records takes its time, and shares the way with others.

A card passes so many bytes a second each way. What carries records (appends, fetched batches) is a flow of its link and
direction, one packet after the other; all flows through a card share it evenly, and what one cannot use because its
other end is narrower goes to the rest (max-min fairness, as TCP approaches it). What carries none is small and passes
between them, but never overtakes on its own connection.

Where no card is limited this is not there, and packets take their latency alone. Whole numbers only: what is left of a
packet is counted in millionths of a byte.

Source of the sharing: Bertsekas and Gallager, "Data Networks", 6.5.2 (progressive filling).
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeAlias, TypeVar

from kemu.emulator.chance import Entry
from kemu.emulator.engine.agenda import Agenda

MILLION = 1_000_000

Way: TypeAlias = tuple[int, int]
"""The number of a link, and its direction."""


class Freight(Protocol):
    """A packet."""

    @property
    def bytes(self) -> int:
        """What it weighs."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether its connection, and its sender, are still there."""
        ...


P = TypeVar("P", bound=Freight)


class Flow(Generic[P]):
    """What goes over a link in one direction: its packets in order, the first of which is on its way."""

    __slots__ = ("hosts", "left", "queue", "rate")

    def __init__(self, hosts: tuple[str, str]) -> None:
        self.hosts = hosts
        """Sender and receiver."""
        self.queue: deque[tuple[P, int]] = deque()
        self.left = 0
        """Of the first packet, in millionths of a byte."""
        self.rate = 0
        """Bytes a second now."""


class Bandwidth(Generic[P]):
    """See the module. ``depart`` is told of each packet (and its extra delay) that is through, or dead."""

    def __init__(self, agenda: Agenda, depart: Callable[[P, int], None]) -> None:
        self._agenda = agenda
        self._depart = depart
        self._limits: dict[str, int] = {}
        """Host -> bytes a second, each way."""
        self._flows: dict[Way, Flow[P]] = {}
        self._since_us = 0
        """Up to when the flows' progress is counted."""
        self._due = 0
        """The number of the agenda's entry that matters; older ones are stale."""

    def limit(self, host: str, bytes_per_s: int, now_us: int) -> None:
        """From now on a card passes so many bytes a second; 0: all there is."""
        self._progress(now_us)
        if bytes_per_s:
            self._limits[host] = bytes_per_s
        else:
            self._limits.pop(host, None)
        self._share(now_us)

    def limit_of(self, host: str) -> int:
        """Bytes a second; 0: no limit."""
        return self._limits.get(host, 0)

    def takes(self, packet: P, way: Way, hosts: tuple[str, str], extra_us: int, now_us: int, *, bulk: bool) -> bool:
        """Whether a packet must wait for its turn (``depart`` will be told); else it leaves at once.

        ``hosts``: sender and receiver; ``bulk``: it carries records.
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
        """Count what went through since the rates were last changed."""
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
        """Connections broke: what waits on them never leaves, and makes place."""
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
        """Give every flow its rate: the card with the least for each of its flows first."""
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
