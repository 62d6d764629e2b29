"""Which hosts and links a fault hits now, and since when those that it hit work undisturbed (a part of the panel).

A host that is down or paused is hit as a whole; so is each link of a host that stays away. Everything else is what
``FaultApplied.links`` says. A fault without duration (a connection that is reset) hits at its moment only. A fault of a
broker's session with the store that hits once is over when the broker is seen to use that session again. What a fault
kept from a link comes with TCP's next retransmission, whose pause doubles: as much later again as the fault lasted.
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
"""Faults after which what was sent before comes late on a connection that stands."""
Link = tuple[str, str]
"""Two hosts; "" stands for every host."""


class Disturbances:
    """Its handlers run before the panel takes the fact."""

    def __init__(self) -> None:
        self._lasting: dict[int, tuple[tuple[Link, ...], int]] = {}
        """Entry of the plan -> the links that it hits now, and since when."""
        self._struck: dict[int, tuple[str, str, int]] = {}
        """Entry of the plan that hits a session once -> (its command, whose session, when it hit)."""
        self._over_us: dict[Link, int] = {}
        """Link -> when the last fault on it was over."""
        self._idle: dict[str, None] = {}
        """Hosts that are down or paused, or never started."""
        self._away: frozenset[str] = frozenset()
        self._runs_since_us: dict[str, int] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            FaultApplied: self._applied,
            FaultEnded: self._ended,
            HostDown: self._stopped,
            HostPaused: self._stopped,
            HostStarted: self._runs,
            HostResumed: self._runs,
            CoreHealed: self._core_healed,
            StoreFaultHit: self._strikes,
            NodeWritten: self._written,
            BrokersChanged: self._told,
        }

    def undisturbed_since_us(self, hosts: Collection[str]) -> int | None:
        """Since when all these hosts run and nothing hits them or the links between them; None: something does now."""
        if any(host in self._idle or host in self._away or host not in self._runs_since_us for host in hosts):
            return None
        if self._is_hit(hosts):
            return None
        since_us = [self._runs_since_us[host] for host in hosts]
        return max([*since_us, *[at_us for link, at_us in self._over_us.items() if _hits(link, hosts)]])

    def runs_since_us(self, host: str) -> int | None:
        """Since when a host runs, and does not stand still; None: it does not."""
        return None if host in self._idle else self._runs_since_us.get(host)

    def links_free_since_us(self, hosts: Collection[str]) -> int | None:
        """Since when no fault hits these hosts or the links between them, whether they run or not; None: one does."""
        if self._is_hit(hosts):
            return None
        return max([at_us for link, at_us in self._over_us.items() if _hits(link, hosts)], default=0)

    def _is_hit(self, hosts: Collection[str]) -> bool:
        return any(_hits(link, hosts) for links, _ in self._lasting.values() for link in links)

    def _applied(self, seen: Seen, fact: FaultApplied) -> None:
        if fact.lasts and fact.links:
            self._lasting[fact.index] = (fact.links, seen.at_us)
        self._over_us.update(dict.fromkeys(fact.links, seen.at_us))

    def _ended(self, seen: Seen, fact: FaultEnded) -> None:
        _, since_us = self._lasting.get(fact.index, ((), seen.at_us))
        self._end(fact.index, 2 * seen.at_us - since_us if fact.kind in KEEPS_PACKETS else seen.at_us)

    def _end(self, index: int, at_us: int) -> None:
        self._struck.pop(index, None)
        for link in self._lasting.pop(index, ((), 0))[0]:
            self._over_us[link] = max(at_us, self._over_us.get(link, 0))

    def _strikes(self, seen: Seen, fact: StoreFaultHit) -> None:
        if fact.number in self._lasting:
            self._struck[fact.number] = (fact.fault, fact.client, seen.at_us)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        """A write after a lost answer, or a registration after an expiry: the broker has a session that works."""
        for index, (fault, client, at_us) in list(self._struck.items()):
            if client != fact.client or fact.what == "deleted" or seen.at_us <= at_us:
                continue
            registers = fact.what == "created" and fact.path.startswith(f"{BROKER_IDS}/")
            if fault == "LoseStoreAnswer" or (fault == "ExpireSession" and registers):
                self._end(index, seen.at_us)

    def _told(self, seen: Seen, fact: BrokersChanged) -> None:
        """A controller that learns of other brokers has its delayed watch."""
        for index, (fault, client, _) in list(self._struck.items()):
            if fault == "DelayWatches" and client == seen.actor:
                self._end(index, seen.at_us)

    def _stopped(self, seen: Seen, fact: HostDown | HostPaused) -> None:
        self._idle[fact.host] = None

    def _runs(self, seen: Seen, fact: HostStarted | HostResumed) -> None:
        self._idle.pop(fact.host, None)
        self._runs_since_us[fact.host] = seen.at_us

    def _core_healed(self, seen: Seen, fact: CoreHealed) -> None:
        """Hosts that are recalled work undisturbed from now on."""
        recalled = sorted(self._away - set(fact.away))
        self._over_us.update(dict.fromkeys(((host, "") for host in recalled), seen.at_us))
        self._away = frozenset(fact.away)


def _hits(link: Link, hosts: Collection[str]) -> bool:
    """Whether a fault on a link is a fault between these hosts; of a whole host: whether it is one of them."""
    first, second = link
    if not first or not second:
        return not (first or second) or (first or second) in hosts
    return first in hosts and second in hosts
