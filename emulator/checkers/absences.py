"""Whether a controller must have noticed that a broker was gone: no leader that it could lead again in its old epoch.

Theory. A broker's registration ends with its session. Whoever controls then hears of it, by a watch or by reading who
is there when it takes office, and writes the broker off: with a new leader epoch for all that it led. Also if the
broker is registered again by the time the controller looks: its broker epoch is another (KIP-380). Only a controller
that takes office when the broker is there again finds it alive and leading, and has it go on in the leader epoch that
it had (``KafkaController.onControllerFailover``, ``PartitionStateMachine.initializePartitionState`` 3.4.1).

A controller cannot be held to it at once: it may be cut off from the store and not know, for as long as its session
lasts. One that nothing disturbs for two sessions and some seconds, and that still has its office, has heard.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from kemu.emulator.facts import FaultApplied, FaultEnded, HostDown, HostPaused, HostResumed, HostStarted, Seen
from kemu.protocol.config import ControllerConfig
from kemu.protocol.names import STORE, broker_host, host_of
from kemu.protocol.nodes import BROKER_IDS, CONTROLLER, CONTROLLER_EPOCH
from kemu.protocol.notes.replication import NodeWritten

DEFAULT_SESSION_US = ControllerConfig().zookeeper_session_timeout_ms * 1_000
SLACK_US = 2_000_000


class _Absence:
    """A broker's registration has ended."""

    __slots__ = ("at_us", "heard_us", "is_back", "may_be_heard_of", "office")

    def __init__(self, at_us: int, office: int) -> None:
        self.at_us = at_us
        self.office = office
        """Who controlled then."""
        self.is_back = False
        """It is registered again."""
        self.may_be_heard_of = True
        """Who controls must hear of it, sooner or later."""
        self.heard_us = 0
        """For how long nothing kept a controller from hearing of it."""


class Absences:
    """Registrations of brokers that ended, and controllers that were there to see it.

    Args:
        session_us: ``zookeeper.session.timeout.ms`` of the brokers.
        lasting: the entries of the plan that last until ``FaultEnded``; None: any may.
    """

    def __init__(self, session_us: int = DEFAULT_SESSION_US, lasting: Collection[int] | None = None) -> None:
        self._within_us = 2 * session_us + SLACK_US
        self._may_last = lasting
        self._absences: dict[str, _Absence] = {}
        self._office = 0
        self._controller = ""
        """Host of who controls; "": nobody does."""
        self._away: dict[str, None] = {}
        """Hosts that are down or stand still."""
        self._faults: dict[int, None] = {}
        """Those that last."""
        self._since_us: int | None = None
        """From when on nothing disturbs who controls; None: something does."""
        self.on: Mapping[type, Callable[[Seen, Any], None]] = MappingProxyType(
            {
                HostDown: self._down,
                HostStarted: self._there,
                HostPaused: self._stands_still,
                HostResumed: self._there,
                FaultApplied: self._applied,
                FaultEnded: self._ended,
                NodeWritten: self._written,
            }
        )

    def was_noticed(self, host: str, now_us: int) -> bool:
        """Whether a controller must have noticed that this broker was gone, the last time it was."""
        self._listen(now_us)
        absence = self._absences.get(host)
        return absence is not None and absence.heard_us > self._within_us

    # --- who controls, and what disturbs it --------------------------------------------------------------------

    def _listen(self, now_us: int) -> None:
        """Up to now nothing disturbed it, if nothing did."""
        if self._since_us is not None:
            for absence in self._absences.values():
                if absence.may_be_heard_of:
                    absence.heard_us = max(absence.heard_us, now_us - max(self._since_us, absence.at_us))

    def _disturbed(self, seen: Seen) -> None:
        """It has its whole time again, from when nothing lasts that may keep it from hearing."""
        hears = self._controller and not self._faults and not self._away.keys() & {self._controller, STORE}
        self._since_us = seen.at_us if hears else None

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._absences.pop(fact.host, None)
        self._away[fact.host] = None
        self._came_or_went(seen, fact.host)

    def _stands_still(self, seen: Seen, fact: HostPaused) -> None:
        self._away[fact.host] = None
        self._came_or_went(seen, fact.host)

    def _there(self, seen: Seen, fact: HostStarted | HostResumed) -> None:
        self._away.pop(fact.host, None)
        self._came_or_went(seen, fact.host)

    def _came_or_went(self, seen: Seen, host: str) -> None:
        if host in (self._controller, STORE):
            self._listen(seen.at_us)
            self._disturbed(seen)

    def _applied(self, seen: Seen, fact: FaultApplied) -> None:
        self._listen(seen.at_us)
        if self._may_last is None or fact.index in self._may_last:
            self._faults[fact.index] = None
        self._disturbed(seen)

    def _ended(self, seen: Seen, fact: FaultEnded) -> None:
        self._listen(seen.at_us)
        self._faults.pop(fact.index, None)
        self._disturbed(seen)

    # --- the store ---------------------------------------------------------------------------------------------

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        is_gone = fact.what == "deleted"
        if fact.path.startswith(f"{BROKER_IDS}/"):
            host = broker_host(int(fact.path.rpartition("/")[2]))
            if is_gone:
                self._absences[host] = _Absence(seen.at_us, self._office)
            elif host in self._absences:
                self._registered(seen, self._absences[host])
        elif fact.path == CONTROLLER and is_gone:
            self._takes_office(seen, "")
        elif fact.path == CONTROLLER_EPOCH and fact.client and not is_gone:
            self._takes_office(seen, host_of(fact.client))

    def _registered(self, seen: Seen, absence: _Absence) -> None:
        """Who took office meanwhile may find it alive, unless it had time enough to find it gone."""
        self._listen(seen.at_us)
        absence.is_back = True
        if absence.office != self._office and absence.heard_us <= self._within_us:
            absence.may_be_heard_of = False

    def _takes_office(self, seen: Seen, host: str) -> None:
        self._listen(seen.at_us)
        self._controller = host
        self._office += 1
        for absence in self._absences.values():
            if absence.is_back:
                absence.may_be_heard_of = False
        self._disturbed(seen)
