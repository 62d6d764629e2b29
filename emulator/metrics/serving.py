"""Who serves which partition, and how long nobody does (a part of the metrics).

A member *serves* a partition of its group from its ``PartitionsAssigned`` (among ``added``) until its
``PartitionsRevoked``, ``PartitionsLost`` or ``MemberFailed``, or until its host goes down, and not while its host is
paused. It may serve what another member was given meanwhile: then two serve, and one suffices.

*Downtime* of a partition: the time, from the first moment it was served on, in which nobody served it; until the end of
the run if nobody does again. A slow ``onPartitionsRevoked`` counts as serving, since the fact comes when it is over.

*Stop of the world* of a group: the time in which none of its partitions was served, after some had been.
"""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import HostDown, HostPaused, HostResumed, Seen
from kemu.protocol.names import TopicPartition, host_of
from kemu.protocol.notes.groups import MemberFailed, PartitionsAssigned, PartitionsLost, PartitionsRevoked


class _Served:
    """One partition in one group."""

    __slots__ = ("down_since_us", "down_us", "servers")

    def __init__(self) -> None:
        self.servers = 0
        self.down_since_us = -1
        """-1 while somebody serves it."""
        self.down_us = 0


class _Member:
    """One life of a member: what it owns by its own account."""

    __slots__ = ("group", "life", "owned", "paused")

    def __init__(self, group: str, life: int) -> None:
        self.group = group
        self.life = life
        self.owned: dict[TopicPartition, None] = {}
        self.paused = False


class _World:
    """A group as a whole."""

    __slots__ = ("served", "stopped_since_us")

    def __init__(self) -> None:
        self.served = 0
        """Partitions that somebody serves."""
        self.stopped_since_us = -1


class Serving:
    """Downtime per partition; ``on_stop`` hears of every stop of the world: (group, from, until)."""

    def __init__(self, on_stop: Callable[[str, int, int], None]) -> None:
        self._on_stop = on_stop
        self._members: dict[str, _Member] = {}
        self._partitions: dict[tuple[str, TopicPartition], _Served] = {}
        self._worlds: dict[str, _World] = {}
        self._paused: set[str] = set()
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._revoked,
            PartitionsLost: self._lost,
            MemberFailed: self._failed,
            HostDown: self._down,
            HostPaused: self._host_paused,
            HostResumed: self._host_resumed,
        }

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

    def _member(self, seen: Seen) -> _Member:
        member = self._members.get(seen.actor)
        if member is None or member.life != seen.life:
            if member is not None:
                self._leave(seen.at_us, seen.actor)
            member = self._members[seen.actor] = _Member(seen.fact.group, seen.life)
            member.paused = host_of(seen.actor) in self._paused
        return member

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        member = self._member(seen)
        for partition in fact.added:
            if partition not in member.owned:
                member.owned[partition] = None
                if not member.paused:
                    self._begin(seen.at_us, fact.group, partition)

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        self._give_up(seen, fact.revoked)

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        self._give_up(seen, fact.lost)

    def _failed(self, seen: Seen, fact: MemberFailed) -> None:
        self._give_up(seen, tuple(self._member(seen).owned))

    def _give_up(self, seen: Seen, partitions: tuple[TopicPartition, ...]) -> None:
        member = self._member(seen)
        for partition in partitions:
            if partition in member.owned:
                del member.owned[partition]
                if not member.paused:
                    self._end(seen.at_us, member.group, partition)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        self._paused.discard(fact.host)
        for actor in [actor for actor in self._members if host_of(actor) == fact.host]:
            self._leave(seen.at_us, actor)

    def _leave(self, at_us: int, actor: str) -> None:
        member = self._members.pop(actor)
        if not member.paused:
            for partition in member.owned:
                self._end(at_us, member.group, partition)

    def _host_paused(self, seen: Seen, fact: HostPaused) -> None:
        self._paused.add(fact.host)
        for actor, member in self._members.items():
            if host_of(actor) == fact.host and not member.paused:
                member.paused = True
                for partition in member.owned:
                    self._end(seen.at_us, member.group, partition)

    def _host_resumed(self, seen: Seen, fact: HostResumed) -> None:
        self._paused.discard(fact.host)
        for actor, member in self._members.items():
            if host_of(actor) == fact.host and member.paused:
                member.paused = False
                for partition in member.owned:
                    self._begin(seen.at_us, member.group, partition)

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
