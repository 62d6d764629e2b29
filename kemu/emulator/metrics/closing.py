"""Hosts that were closed cleanly: how long that took, and what they could not finish (``HostClosed``).

A broker hands on what it leads before it ends (controlled shutdown); what it still leads then has no leader until
somebody notices. A member commits what it processed before it gives its partitions up; what it could not commit is
processed again by whoever gets them. On ``calm`` closings take no time of their own and are not told.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.engine.hosts import Condition
from kemu.emulator.facts import HostClosed, HostDown, Seen
from kemu.emulator.metrics.figures import ClosingFigures
from kemu.emulator.metrics.progress import Progress
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import GroupId, TopicPartition, broker_host, host_of
from kemu.protocol.notes.groups import PartitionsRevoked


class Closing:
    """Feed it every fact it wants, after ``Progress``."""

    def __init__(self, panel: Panel, progress: Progress) -> None:
        self._panel = panel
        self._progress = progress
        self._revoked: dict[str, dict[tuple[GroupId, TopicPartition], int]] = {}
        """Host -> what its members gave up, and when."""
        self._still_led: dict[str, int] = {}
        """Host -> partitions it led when its process ended."""
        self.all: list[ClosingFigures] = []
        """In the order they ended."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            PartitionsRevoked: self._gave_up,
            HostDown: self._down,
            HostClosed: self._closed,
        }

    def _gave_up(self, seen: Seen, fact: PartitionsRevoked) -> None:
        given = self._revoked.setdefault(host_of(seen.actor), {})
        given.update({(fact.group, at): seen.at_us for at in fact.revoked})

    def _down(self, seen: Seen, fact: HostDown) -> None:
        if fact.how == Condition.CLOSED.value:
            led = [at for at, state in self._panel.states.items() if broker_host(state.leader) == fact.host]
            self._still_led[fact.host] = len(led)

    def _closed(self, seen: Seen, fact: HostClosed) -> None:
        asked_us = seen.at_us - fact.took_us
        given = self._revoked.pop(fact.host, {})
        self.all.append(
            ClosingFigures(
                host=fact.host,
                ended_us=seen.at_us,
                took_us=fact.took_us,
                still_led=self._still_led.pop(fact.host, 0),
                uncommitted=sum(self._progress.uncommitted(*of) for of, at_us in given.items() if at_us >= asked_us),
            )
        )
