"""Hosts that were closed cleanly: the duration, and the work left undone (``HostClosed``).

A broker transfers its leaderships before it ends (controlled shutdown). Partitions that the broker still leads at its
end have no leader until the controller notices. A member commits its processed records before it revokes their
partitions; the next owner reprocesses uncommitted records. With the draws ``calm``, closing takes no time and no
``HostClosed`` is reported.
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
    """Counts the work that closed hosts left undone. ``Progress`` must get each fact first."""

    def __init__(self, panel: Panel, progress: Progress) -> None:
        self._panel = panel
        self._progress = progress
        self._revoked: dict[str, dict[tuple[GroupId, TopicPartition], int]] = {}
        """Host -> the partitions that members on the host revoked, and the times of the revocations."""
        self._still_led: dict[str, int] = {}
        """Host of a broker -> number of partitions that the broker led when its process ended."""
        self.all: list[ClosingFigures] = []
        """One row per host that was closed, in the order in which the hosts ended."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            PartitionsRevoked: self._partitions_revoked,
            HostDown: self._down,
            HostClosed: self._closed,
        }

    def _partitions_revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        revoked = self._revoked.setdefault(host_of(seen.actor), {})
        revoked.update({(fact.group, at): seen.at_us for at in fact.revoked})

    def _down(self, seen: Seen, fact: HostDown) -> None:
        if fact.how == Condition.CLOSED.value:
            led = [at for at, state in self._panel.states.items() if broker_host(state.leader) == fact.host]
            self._still_led[fact.host] = len(led)

    def _closed(self, seen: Seen, fact: HostClosed) -> None:
        asked_us = seen.at_us - fact.took_us
        revoked = self._revoked.pop(fact.host, {})
        self.all.append(
            ClosingFigures(
                host=fact.host,
                ended_us=seen.at_us,
                took_us=fact.took_us,
                still_led=self._still_led.pop(fact.host, 0),
                uncommitted=sum(self._progress.uncommitted(*of) for of, at_us in revoked.items() if at_us >= asked_us),
            )
        )
