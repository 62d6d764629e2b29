"""Who serves which partition, and how long nobody does (a part of the metrics).

A member *serves* a partition of its group from its ``PartitionsAssigned`` (among ``added``) until its
``PartitionsRevoked``, ``PartitionsLost`` or ``MemberFailed``, or until its host goes down, and not while its host is
paused (``emulator.watching.panel``). It may serve what another was given meanwhile: then two serve, and one suffices.

*Downtime* of a partition: the time, from the first moment it was served on, in which nobody served it; until the end of
the run if nobody does again. A slow ``onPartitionsRevoked`` counts as serving, since the fact comes when it is over.

*Stop of the world* of a group: the time in which none of its partitions was served, after some had been.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import HostDown, HostPaused, HostResumed, HostStarted, Seen
from kemu.emulator.watching.panel import Panel, Service
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    MemberBecame,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)

MOVERS = (
    *(AssignmentReceived, PartitionsAssigned, PartitionsRevoked, PartitionsLost, MemberBecame, MemberFailed),
    *(HostStarted, HostDown, HostPaused, HostResumed),
)
"""Facts by which a member may begin or cease to serve."""


class _Served:
    """One partition in one group."""

    __slots__ = ("down_since_us", "down_us", "servers")

    def __init__(self) -> None:
        self.servers = 0
        self.down_since_us = -1
        """-1 while somebody serves it."""
        self.down_us = 0


class _World:
    """A group as a whole."""

    __slots__ = ("served", "stopped_since_us")

    def __init__(self) -> None:
        self.served = 0
        """Partitions that somebody serves."""
        self.stopped_since_us = -1


class Serving:
    """Downtime per partition; ``on_stop`` hears of every stop of the world: (group, from, until)."""

    def __init__(self, panel: Panel, on_stop: Callable[[str, int, int], None]) -> None:
        self._panel = panel
        self._on_stop = on_stop
        self._partitions: dict[Service, _Served] = {}
        self._worlds: dict[str, _World] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = dict.fromkeys(MOVERS, self._moved)

    def finish(self, at_us: int) -> None:
        """Whatever nobody serves now has been down until now."""
        for served in self._partitions.values():
            if served.servers == 0:
                served.down_us += at_us - served.down_since_us
                served.down_since_us = at_us
        for group, world in self._worlds.items():
            if world.served == 0:
                self._on_stop(group, world.stopped_since_us, at_us)

    def downtime_us(self) -> dict[str, int]:
        """Microseconds by "group/topic-partition", a row for every partition that was ever served."""
        return {
            f"{group}/{topic}-{number}": self._partitions[group, (topic, number)].down_us
            for group, (topic, number) in sorted(self._partitions)
        }

    # --- facts -------------------------------------------------------------------------------------------------

    def _moved(self, seen: Seen, fact: object) -> None:
        panel = self._panel
        assert panel.now is seen, "the panel sees a fact before its readers do"
        for group, partition in panel.ceased:
            self._end(seen.at_us, group, partition)
        for group, partition in panel.began:
            self._begin(seen.at_us, group, partition)

    # --- counting ----------------------------------------------------------------------------------------------

    def _begin(self, at_us: int, group: str, partition: TopicPartition) -> None:
        key = (group, partition)
        served = self._partitions.get(key)
        if served is None:
            served = self._partitions[key] = _Served()
        served.servers += 1
        if served.servers > 1:
            return
        if served.down_since_us >= 0:
            served.down_us += at_us - served.down_since_us
            served.down_since_us = -1
        world = self._worlds.get(group)
        if world is None:
            world = self._worlds[group] = _World()
        world.served += 1
        if world.served == 1 and world.stopped_since_us >= 0:
            self._on_stop(group, world.stopped_since_us, at_us)
            world.stopped_since_us = -1

    def _end(self, at_us: int, group: str, partition: TopicPartition) -> None:
        served = self._partitions[group, partition]
        assert served.servers > 0, f"{group} {partition}: served by nobody"
        served.servers -= 1
        if served.servers > 0:
            return
        served.down_since_us = at_us
        world = self._worlds[group]
        world.served -= 1
        if world.served == 0:
            world.stopped_since_us = at_us
