"""Rebalances as reported by the coordinators: time, reason, members and moved partitions (a part of the metrics).

A rebalance lasts from the moment a calm group (Stable or Empty) prepares for one until the group is calm again. A group
of the consumer protocol prepares when its epoch rises; each computed target is a round. A
rebalance may take several join phases (``rounds``). If the coordinator fails during a rebalance, the rebalance
continues at the next coordinator. A group that is loaded as Stable and stays Stable was calm from the time of the load.

A partition *moved* if this rebalance assigned the partition to another client (actor) than the previous rebalance. A
first assignment moves nothing. The partitions of a client that restarts and receives the same partitions did not move.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kemu.actors.coordinator.state import GroupState
from kemu.emulator.facts import Seen
from kemu.emulator.metrics.figures import RebalanceFigures
from kemu.emulator.watching.panel import Panel
from kemu.protocol.config import GROUP_PROTOCOLS
from kemu.protocol.consumer_group.states import ConsumerGroupState
from kemu.protocol.names import GroupId, TopicPartition
from kemu.protocol.notes.consumer_groups import GroupConverted
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    GroupBecame,
    GroupLoaded,
    GroupRecordWritten,
    IncompatibleRebalance,
    JoinPhaseCompleted,
)

STABLE = GroupState.STABLE.value
BEGINS = (GroupState.PREPARING.value, ConsumerGroupState.ASSIGNING.value)
"""The states in which a rebalance begins. A static member that is away for a while makes its group Reconciling, and
begins no rebalance.
"""
CALM = (STABLE, GroupState.EMPTY.value)
"""Dead is not calm: during a rebalance Dead means that the coordinator unloaded the group."""
CLASSIC, CONSUMER = GROUP_PROTOCOLS
PROTOCOL_OF_STATE: Mapping[str, str] = {
    GroupState.PREPARING.value: CLASSIC,
    GroupState.COMPLETING.value: CLASSIC,
    ConsumerGroupState.ASSIGNING.value: CONSUMER,
    ConsumerGroupState.RECONCILING.value: CONSUMER,
}
"""State of a group -> the only protocol with this state."""


class Rebalance:
    """One rebalance of a group. ``ended_us`` is None until the rebalance ends."""

    __slots__ = (
        *("ended_us", "generation", "group", "members", "moved", "protocol", "reason", "rounds", "started_us"),
        "stopped_us",
    )

    def __init__(self, group: str, generation: int, reason: str, started_us: int, protocol: str) -> None:
        self.protocol = protocol
        self.group = group
        self.generation = generation
        self.reason = reason
        self.started_us = started_us
        self.ended_us: int | None = None
        self.members = 0
        self.rounds = 0
        self.moved = 0
        self.stopped_us = 0

    def figures(self) -> RebalanceFigures:
        """The figures of this rebalance."""
        return RebalanceFigures(
            group=self.group,
            generation=self.generation,
            reason=self.reason,
            started_us=self.started_us,
            ended_us=self.ended_us,
            members=self.members,
            rounds=self.rounds,
            moved=self.moved,
            stop_the_world_us=self.stopped_us,
            protocol=self.protocol,
        )


class _Group:
    __slots__ = (
        *("by_generation", "first_stable_us", "last", "loaded_us", "margin", "owners", "protocols", "size"),
        "too_large",
    )

    def __init__(self) -> None:
        self.protocols: list[tuple[int, str]] = []
        """The protocols of the group, each with the time from which it is known."""
        self.last: Rebalance | None = None
        self.by_generation: dict[int, Rebalance] = {}
        self.first_stable_us: int | None = None
        self.loaded_us: int | None = None
        """Time at which the group was loaded as calm during a rebalance; None after the next change of the group's
        state."""
        self.owners: dict[TopicPartition, tuple[int, str]] = {}
        """Partition -> (generation, client) that last received the partition."""
        self.size: int | None = None
        """Bytes of the group's largest record; None before the first record."""
        self.margin: int | None = None
        """Fewest bytes between a record of the group and ``message.max.bytes``; None before the first record."""
        self.too_large = 0


class Rebalances:
    """The rebalances of all groups, in the order in which they began."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self.all: list[Rebalance] = []
        self.incompatible: dict[str, int] = {}
        """Client -> ``num.incompatible.rebalance`` (KIP-429's page): generations with members of both protocol versions
        V0 and V1."""
        self._groups: dict[str, _Group] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            GroupBecame: self._became,
            GroupConverted: self._converted,
            JoinPhaseCompleted: self._completed,
            GroupLoaded: self._loaded,
            AssignmentReceived: self._received,
            GroupRecordWritten: self._written,
            IncompatibleRebalance: self._incompatible,
        }

    def stopped(self, group: str, since_us: int, until_us: int) -> None:
        """Add an interval without any service to the rebalances. A rebalance gets the part between its start and the
        start of the next rebalance.
        """
        mine = [row for row in self.all if row.group == group and row.started_us < until_us]
        for row in reversed(mine):
            if until_us <= since_us:
                break
            row.stopped_us += max(0, until_us - max(since_us, row.started_us))
            until_us = min(until_us, row.started_us)

    def finish(self) -> None:
        """End the rebalances of groups that were loaded as calm."""
        for group in self._groups.values():
            if group.last is not None and group.last.ended_us is None:
                group.last.ended_us = group.loaded_us

    def first_stable_us(self) -> dict[str, int | None]:
        """Group -> time at which the group was first Stable; None if never."""
        return {name: group.first_stable_us for name, group in sorted(self._groups.items())}

    def record_of(self, name: str) -> tuple[int | None, int | None, int]:
        """(largest record in bytes, smallest margin to ``message.max.bytes``, number of refused records) of a group."""
        group = self._groups.get(name)
        return (None, None, 0) if group is None else (group.size, group.margin, group.too_large)

    def protocol_at(self, name: GroupId, at_us: int) -> str | None:
        """The protocol of a group at this time; None if no state told the protocol before."""
        group = self._groups.get(name)
        known = [protocol for since_us, protocol in group.protocols if since_us <= at_us] if group is not None else ()
        return known[-1] if known else None

    # --- facts -------------------------------------------------------------------------------------------------

    def _group(self, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
        return group

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        if not self._panel.is_current(seen):
            return
        group = self._group(fact.group)
        group.loaded_us = None
        self._speaks(group, seen, PROTOCOL_OF_STATE.get(fact.new))
        if fact.new == STABLE and group.first_stable_us is None:
            group.first_stable_us = seen.at_us
        last = group.last
        if last is None or last.ended_us is not None:
            if fact.new in BEGINS:
                protocol = PROTOCOL_OF_STATE[fact.new]
                group.last = Rebalance(fact.group, fact.generation, fact.why, seen.at_us, protocol)
                self.all.append(group.last)
            return
        last.generation = max(last.generation, fact.generation)
        if fact.new in CALM:
            last.ended_us = seen.at_us
            if fact.new != STABLE:
                last.members = 0

    def _converted(self, seen: Seen, fact: GroupConverted) -> None:
        if self._panel.is_current(seen):
            self._speaks(self._group(fact.group), seen, fact.protocol)

    def _speaks(self, group: _Group, seen: Seen, protocol: str | None) -> None:
        if protocol is not None and (not group.protocols or group.protocols[-1][1] != protocol):
            group.protocols.append((seen.at_us, protocol))

    def _written(self, seen: Seen, fact: GroupRecordWritten) -> None:
        group, margin = self._group(fact.group), fact.most - fact.size
        group.size = max(group.size or 0, fact.size)
        group.margin = margin if group.margin is None else min(group.margin, margin)
        group.too_large += margin < 0

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        if not self._panel.is_current(seen):
            return
        group = self._group(fact.group)
        last = group.last
        if last is not None:
            last.generation = fact.generation
            last.members = len(fact.members)
            last.rounds += 1
            group.by_generation[fact.generation] = last

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        if fact.state in CALM:
            self._group(fact.group).loaded_us = seen.at_us

    def _incompatible(self, seen: Seen, fact: IncompatibleRebalance) -> None:
        self.incompatible[seen.actor] = self.incompatible.get(seen.actor, 0) + 1

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group = self._group(fact.group)
        rebalance = group.by_generation.get(fact.generation)
        for partition in fact.partitions:
            generation, owner = group.owners.get(partition, (-1, seen.actor))
            if generation > fact.generation:
                continue
            if owner != seen.actor and rebalance is not None:
                rebalance.moved += 1
            group.owners[partition] = (fact.generation, seen.actor)
