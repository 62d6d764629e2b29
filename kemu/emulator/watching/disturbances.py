"""The hosts and links that a fault hits now, and the time for which other hosts and links have worked undisturbed (part
of the panel).

- A fault hits a host that is down or paused, and each link of a host that stays away.
- ``FaultApplied.links`` names all other hosts and links. A fault without duration (a connection reset) hits only at one
  time.
- A fault that hits a broker's session with the store once is over when the broker uses the session again.
- Packets that a fault held arrive with TCP's next retransmission, whose interval doubles. So the disturbance lasts
  twice as long as the fault.
"""

from collections.abc import Callable, Collection
from typing import Any

from kemu.emulator.facts import (
    CoreHealed,
    FaultApplied,
    FaultEnded,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    Seen,
)
from kemu.protocol.nodes import BROKER_IDS
from kemu.protocol.notes.replication import BrokersChanged, NodeWritten, StoreFaultHit

KEEPS_PACKETS = ("hold", "isolate", "lossy", "split")
"""Faults after which earlier packets arrive late on the same connection."""
Link = tuple[str, str]
"""Two hosts; "" stands for every host."""


class Disturbances:
    """All disturbances. The handlers of this class run before the panel takes the fact."""

    def __init__(self) -> None:
        self._lasting: dict[int, tuple[tuple[Link, ...], int]] = {}
        """Plan entry -> (links that the entry hits now, start in us)."""
        self._session_faults: dict[int, tuple[str, str, int]] = {}
        """Plan entry that hits a session once -> (fault, the session's client, time of the hit in us)."""
        self._over_us: dict[Link, int] = {}
        """Link -> end of the last fault on it, in us."""
        self._idle: dict[str, int] = {}
        """Host that is down or paused -> time at which it stopped, in us."""
        self._away: frozenset[str] = frozenset()
        self._away_us = 0
        """Time since which the hosts in ``_away`` stay faulty, in us."""
        self._runs_since_us: dict[str, int] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            FaultApplied: self._applied,
            FaultEnded: self._ended,
            HostDown: self._stopped,
            HostPaused: self._stopped,
            HostStarted: self._started,
            HostResumed: self._started,
            CoreHealed: self._core_healed,
            StoreFaultHit: self._session_hit,
            NodeWritten: self._written,
            BrokersChanged: self._watch_delivered,
        }

    def undisturbed_since_us(self, hosts: Collection[str]) -> int | None:
        """Time since which all these hosts run, and no fault hits these hosts or the links between these hosts, in us;
        None during a fault.
        """
        since_us = 0
        for host in hosts:
            runs_us = self._runs_since_us.get(host)
            if runs_us is None or host in self._idle or host in self._away:
                return None
            since_us = max(since_us, runs_us)
        links_us = self.links_free_since_us(hosts)
        return None if links_us is None else max(since_us, links_us)

    def hit_since_us(self, hosts: Collection[str]) -> int | None:
        """Start of the oldest fault that hits these hosts or the links between these hosts now, in us; None without a
        fault.
        """
        starts_us = [self._idle[host] for host in hosts if host in self._idle]
        starts_us += [self._away_us for host in hosts if host in self._away]
        starts_us += [us for links, us in self._lasting.values() if any(_hits(link, hosts) for link in links)]
        return min(starts_us, default=None)

    def runs_since_us(self, host: str) -> int | None:
        """Time since which a host runs and is not paused, in us; None for a host that is down or paused."""
        return None if host in self._idle else self._runs_since_us.get(host)

    def links_free_since_us(self, hosts: Collection[str]) -> int | None:
        """Time since which no fault hits these hosts or the links between these hosts, running or not, in us; None
        during a fault.
        """
        for links, _ in self._lasting.values():
            if any(_hits(link, hosts) for link in links):
                return None
        return max([at_us for link, at_us in self._over_us.items() if _hits(link, hosts)], default=0)

    def _applied(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.lasts and fact.links:
            self._lasting[fact.index] = (fact.links, seen.at_us)
        self._over_us.update(dict.fromkeys(fact.links, seen.at_us))

    def _ended(self, seen: Seen, fact: FaultEnded) -> None:
        _, since_us = self._lasting.get(fact.index, ((), seen.at_us))
        self._end(fact.index, 2 * seen.at_us - since_us if fact.kind in KEEPS_PACKETS else seen.at_us)

    def _end(self, index: int, at_us: int) -> None:
        self._session_faults.pop(index, None)
        for link in self._lasting.pop(index, ((), 0))[0]:
            self._over_us[link] = max(at_us, self._over_us.get(link, 0))

    def _session_hit(self, seen: Seen, fact: StoreFaultHit) -> None:
        if fact.number in self._lasting:
            self._session_faults[fact.number] = (fact.fault, fact.client, seen.at_us)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        """End a session fault at a write after a lost answer, or at a registration after an expiry."""
        for index, (fault, client, at_us) in list(self._session_faults.items()):
            if client != fact.client or fact.what == "deleted" or seen.at_us <= at_us:
                continue
            registers = fact.what == "created" and fact.path.startswith(f"{BROKER_IDS}/")
            if fault == "LoseStoreAnswer" or (fault == "ExpireSession" and registers):
                self._end(index, seen.at_us)

    def _watch_delivered(self, seen: Seen, fact: BrokersChanged) -> None:
        """End a delayed watch: the controller learns of changed brokers."""
        for index, (fault, client, _) in list(self._session_faults.items()):
            if fault == "DelayWatches" and client == seen.actor:
                self._end(index, seen.at_us)

    def _stopped(self, seen: Seen, fact: HostDown | HostPaused) -> None:
        self._idle.setdefault(fact.host, seen.at_us)

    def _started(self, seen: Seen, fact: HostStarted | HostResumed) -> None:
        self._idle.pop(fact.host, None)
        self._runs_since_us[fact.host] = seen.at_us

    def _core_healed(self, seen: Seen, fact: CoreHealed) -> None:
        """Note that recalled hosts work undisturbed from now on."""
        recalled = sorted(self._away - set(fact.away))
        self._over_us.update(dict.fromkeys(((host, "") for host in recalled), seen.at_us))
        self._away, self._away_us = frozenset(fact.away), seen.at_us


def _hits(link: Link, hosts: Collection[str]) -> bool:
    """Whether a fault on a link hits a link between these hosts. A fault of one host hits if the host is among these
    hosts.
    """
    first, second = link
    if not first or not second:
        return not (first or second) or (first or second) in hosts
    return first in hosts and second in hosts
