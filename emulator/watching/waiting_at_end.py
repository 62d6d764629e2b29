"""What still waits at the end of a run, since when, and for what: groups, members, partitions, reassignments.

A run may hold and end with some of it: a bound was not over, or Kafka's own timeouts are longer than the run.
"""

from collections.abc import Callable, Iterator
from typing import Any

from attrs import frozen

from kemu.emulator.facts import Seen
from kemu.emulator.watching.memberships import ENDED, JOINING, MEMBER, SYNCING, MemberProgress
from kemu.emulator.watching.panel import Panel
from kemu.protocol.names import ActorName, GroupId, TopicPartition, broker_host, host_of
from kemu.protocol.nodes import ReplicaAssignment
from kemu.protocol.notes.replication import NodeWritten

_DOES = {JOINING: "joins", SYNCING: "waits for its assignment"}
_REBALANCING = ("PreparingRebalance", "CompletingRebalance")


@frozen
class StillWaiting:
    """``what`` ("member c1 of g", "orders-0") waits since ``since_us``; ``why``: for what, and what it does."""

    what: str
    since_us: int
    why: str


class WaitingAtEnd:
    """``panel``: one that takes each fact before."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._written_us: dict[TopicPartition, int] = {}
        self._moved_us: dict[TopicPartition, int] = {}
        self._on: dict[type, Callable[[Seen, Any], None]] = {NodeWritten: self._written}

    def handlers_of(self, kind: type) -> tuple[Callable[[Seen, Any], None], ...]:
        """What takes facts of a type (``facts.handlers_of``)."""
        return (self._on[kind],) if kind in self._on else ()

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        for handler in self.handlers_of(type(seen.fact)):
            handler(seen, seen.fact)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        panel = self._panel
        at, before = panel.written, panel.state_before
        if at is not None and (before is None or at not in panel.states or before.leader != panel.states[at].leader):
            self._written_us[at] = seen.at_us
        if panel.written_topic:
            for each, assigned in panel.assigned.items():
                if each[0] == panel.written_topic and _moves(assigned):
                    self._moved_us.setdefault(each, seen.at_us)
                elif each[0] == panel.written_topic:
                    self._moved_us.pop(each, None)

    def found(self) -> tuple[StillWaiting, ...]:
        """All that waits now."""
        groups = [each for name in self._panel.groups for each in self._of_group(name)]
        return (*groups, *self._leaderless(), *self._reassigned())

    # --- groups ------------------------------------------------------------------------------------------------

    def _of_group(self, name: GroupId) -> Iterator[StillWaiting]:
        panel = self._panel
        members = panel.running_members(name)
        group, watched = panel.memberships.groups.get(name), panel.groups[name]
        if group is not None and members and not watched.coordinator:
            yield StillWaiting(f"group {name}", group.since_us, f"no broker coordinates it; {len(members)} members run")
        elif group is not None and members and group.state in _REBALANCING:
            missing = [key for key, entry in group.entries.items() if not self._has_joined(entry.actor)]
            whom = f"for {', '.join(missing)} to join" if missing else "for the end of the join phase"
            if group.state == _REBALANCING[1]:
                whom = f"for the assignment of its leader {group.leader}"
            yield StillWaiting(f"group {name}", group.since_us, f"{group.state}: waits {whom}")
        for actor in members:
            progress = panel.memberships.members.get(actor)
            if progress is not None and progress.state != MEMBER and progress.state not in ENDED:
                what = f"member {actor} of {name}"
                yield StillWaiting(what, progress.since_us, self._why(name, actor, progress))

    def _has_joined(self, actor: ActorName) -> bool:
        progress = self._panel.memberships.members.get(actor)
        return progress is not None and progress.state == JOINING

    def _why(self, name: GroupId, actor: ActorName, progress: MemberProgress) -> str:
        """What a member does, and whom it asked: a coordinator that lost its power answers nobody."""
        does = _DOES.get(progress.state)
        if does is None:
            return f"is in no generation: {progress.why}"
        asked = host_of(self._panel.coordinators.asked_by(actor))
        down_us = self._panel.memberships.down_us.get(asked, -1)
        coordinator = host_of(self._panel.groups[name].coordinator)
        if down_us >= progress.since_us:
            return f"{does}: asked {asked}, whose process ended at {down_us / 1e6:g} s, and waits for the answer"
        if coordinator and asked != coordinator:
            return f"{does}: asked {asked or 'nobody yet'}; {coordinator} coordinates the group"
        return f"{does}: asked {asked or 'nobody yet'}"

    # --- partitions --------------------------------------------------------------------------------------------

    def _leaderless(self) -> Iterator[StillWaiting]:
        panel = self._panel
        for at, state in sorted(panel.states.items()):
            if at in panel.leaders:
                continue
            leader, since_us = broker_host(state.leader), self._written_us.get(at, 0)
            isr = ", ".join(broker_host(broker) for broker in state.isr)
            why = f"has no leader; its ISR is {isr}" if state.leader < 0 else f"{leader} is to lead, and does not"
            down_us = panel.memberships.down_us.get(leader, 0)
            if state.leader >= 0 and panel.is_down(leader):
                since_us, why = max(since_us, down_us), f"its leader {leader} is down; its ISR is {isr}"
            yield StillWaiting(f"{at[0]}-{at[1]}", since_us, why)

    def _reassigned(self) -> Iterator[StillWaiting]:
        for at, assigned in sorted(self._panel.assigned.items()):
            state = self._panel.states.get(at)
            if not _moves(assigned) or state is None:
                continue
            behind = [broker_host(broker) for broker in assigned.adding if broker not in state.isr]
            why = f"waits for {', '.join(behind)} to be in sync" if behind else "waits for the controller"
            yield StillWaiting(f"reassignment of {at[0]}-{at[1]}", self._moved_us.get(at, 0), why)


def _moves(assigned: ReplicaAssignment) -> bool:
    return bool(assigned.adding or assigned.removing or assigned.target_replicas)
