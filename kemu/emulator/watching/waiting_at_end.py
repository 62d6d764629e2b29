"""Groups, members, partitions and reassignments that still wait at the end of a run, with the start and the reason of
each wait.

A run without violations may end with waiting entities, because a bound was not over, or because Kafka's timeouts are
longer than the run.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kemu.emulator.facts import Seen
from kemu.emulator.watching.interruptions import STABLE, WELL, Stage
from kemu.emulator.watching.memberships import ENDED, JOINING, MEMBER, SYNCING, MemberProgress
from kemu.emulator.watching.panel import Panel
from kemu.protocol.frozen import frozen
from kemu.protocol.names import ActorName, GroupId, TopicPartition, broker_host, host_of
from kemu.protocol.nodes import ReplicaAssignment
from kemu.protocol.notes.replication import NodeWritten

_DOES = {JOINING: "joins", SYNCING: "waits for its assignment"}


@frozen
class StillWaiting:
    """A waiting entity: name ("member c1 of g", "orders-0"), start of the wait, and awaited step."""

    what: str
    since_us: int
    why: str


class WaitingAtEnd:
    """Finds all waiting entities at the end of a run.

    Args:
        panel: the panel, which takes each fact first.
    """

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._moved_us: dict[TopicPartition, int] = {}
        self._on: dict[type, Callable[[Seen, Any], None]] = {NodeWritten: self._written}

    def handlers_of(self, kind: type) -> tuple[Callable[[Seen, Any], None], ...]:
        """The handlers of facts of a type (``facts.handlers_of``)."""
        return (self._on[kind],) if kind in self._on else ()

    def see(self, seen: Seen) -> None:
        """Note the start of a reassignment."""
        for handler in self.handlers_of(type(seen.fact)):
            handler(seen, seen.fact)

    def _written(self, seen: Seen, fact: NodeWritten) -> None:
        topic = self._panel.written_topic
        for at in [at for at in self._panel.assigned if at[0] == topic]:
            if _moves(self._panel.assigned[at]):
                self._moved_us.setdefault(at, seen.at_us)
            else:
                self._moved_us.pop(at, None)

    def found(self) -> tuple[StillWaiting, ...]:
        """The entities that wait now."""
        groups = [each for name in self._panel.groups for each in self._of_group(name)]
        return (*groups, *self._leaderless(), *self._reassigned())

    # --- groups ------------------------------------------------------------------------------------------------

    def _of_group(self, name: GroupId) -> Iterator[StillWaiting]:
        panel = self._panel
        members, history = panel.running_members(name), panel.interruptions.groups.get(name)
        if members and history is not None and history.last is not None:
            yield from _waits_for(f"group {name}", history.since_us, history.last)
        for actor in members:
            progress = panel.memberships.members.get(actor)
            if progress is not None and progress.state != MEMBER and progress.state not in ENDED:
                what = f"member {actor} of {name}"
                yield StillWaiting(what, progress.since_us, self._why(name, actor, progress))

    def _why(self, name: GroupId, actor: ActorName, progress: MemberProgress) -> str:
        """A text with the step of a member and the asked broker. A broker that lost its power answers no request."""
        does = _DOES.get(progress.state)
        if does is None:
            return f"is in no generation: {progress.why}"
        asked = host_of(self._panel.coordinators.asked_by(actor))
        down_us = self._panel.memberships.down_us.get(asked, -1)
        coordinator = host_of(self._panel.groups[name].coordinator)
        if down_us >= progress.since_us:
            return f"{does}: asked {asked}, whose process ended at {down_us / 1e6:g} s, and waits for the answer"
        if coordinator and asked != coordinator:
            return f"{does}: asked {asked or 'no broker yet'}; {coordinator} coordinates the group"
        return f"{does}: asked {asked or 'no broker yet'}"

    # --- partitions --------------------------------------------------------------------------------------------

    def _leaderless(self) -> Iterator[StillWaiting]:
        panel = self._panel
        for at, state in sorted(panel.states.items()):
            history = panel.interruptions.leaders.get(at)
            isr = "; its ISR is " + ", ".join(broker_host(broker) for broker in state.isr)
            if at not in panel.leaders and history is not None and history.last is not None:
                yield from _waits_for(f"{at[0]}-{at[1]}", history.since_us, history.last, isr)
            elif at not in panel.leaders:
                yield StillWaiting(f"{at[0]}-{at[1]}", 0, f"no leader elected yet{isr}")

    def _reassigned(self) -> Iterator[StillWaiting]:
        for at, assigned in sorted(self._panel.assigned.items()):
            state = self._panel.states.get(at)
            if not _moves(assigned) or state is None:
                continue
            behind = [broker_host(broker) for broker in assigned.adding if broker not in state.isr]
            why = f"waits for {', '.join(behind)} to be in sync" if behind else "waits for the controller"
            yield StillWaiting(f"reassignment of {at[0]}-{at[1]}", self._moved_us.get(at, 0), why)


def _waits_for(what: str, since_us: int, stage: Stage, more: str = "") -> Iterator[StillWaiting]:
    cause, actor = stage
    if cause not in (WELL, STABLE):
        yield StillWaiting(what, since_us, f"waits for {cause}{f' ({actor})' if actor else ''}{more}")


def _moves(assigned: ReplicaAssignment) -> bool:
    return bool(assigned.adding or assigned.removing or assigned.target_replicas)
