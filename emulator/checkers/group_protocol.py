"""The coordinator's side of the group protocol, followed from its own facts.

Theory (spec 1.2, 1.6, 1.7, 1.15). Each coordinator's copy of a group is a state, a generation and a set of members.

1. The state changes along the table only, from the state it was in.
2. The generation rises by exactly 1 at each completed join phase, and at no other time. A group that is loaded has the
   generation its log knows: not below the last one that became Stable (its record was durable before), not above the
   last that was completed. So a number may come again after a failover in mid-rebalance.
3. The members of a generation were added and not removed since; its leader is one of them; a generation without members
   makes the group Empty. Members are added once and removed once.

A copy ends with the state Dead, with ``GroupUnloaded`` and with its host. A log that lost its tail may forget
generations: where brokers replicate those whose records it lost, or that stand where it has two records of one epoch
(``WatchedLog.twice``), else any. A coordinator that stood still while its
partition moved on has a copy that is followed by rules 1 and 3, but says nothing about the group's history.
"""

from collections.abc import Mapping

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, HostDown, Seen
from kemu.protocol.names import OFFSETS_TOPIC, host_of
from kemu.protocol.notes.groups import (
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    JoinPhaseCompleted,
    LeaderElected,
    MemberAdded,
    MemberRemoved,
)
from kemu.protocol.notes.replication import BecameLeader

EMPTY, PREPARING, COMPLETING = "Empty", "PreparingRebalance", "CompletingRebalance"
STABLE, DEAD = "Stable", "Dead"

MAY_FOLLOW: Mapping[str, tuple[str, ...]] = {
    PREPARING: (EMPTY, COMPLETING, STABLE),
    COMPLETING: (PREPARING,),
    STABLE: (COMPLETING,),
    EMPTY: (PREPARING,),
    DEAD: (EMPTY, PREPARING, COMPLETING, STABLE, DEAD),
}
"""New state: the states it may follow. Source: spec 1.2; written again here so that it checks the machine's own."""


class _Copy:
    """One coordinator's copy of a group."""

    def __init__(self, state: str, generation: int, members: tuple[str, ...]) -> None:
        self.state = state
        self.generation = generation
        self.members = set(members)
        self.leader = ""
        self.begun = False
        """Its generation began, and its state has yet to say so."""


class GroupProtocol(Checker):
    """States, generations, members and leaders of a group follow the protocol, through failovers too."""

    name = "group-protocol"

    def __init__(self) -> None:
        super().__init__()
        self._copies: dict[tuple[str, str], _Copy] = {}
        """(coordinator, group) -> its copy."""
        self._durable: dict[str, int] = {}
        """Group -> the last generation that became Stable anywhere."""
        self._completed_last: dict[str, int] = {}
        self._tail_lost = False
        self.on = {
            GroupBecame: self._became,
            JoinPhaseCompleted: self._completed,
            GroupLoaded: self._loaded,
            GroupUnloaded: self._unloaded,
            MemberAdded: self._added,
            MemberRemoved: self._removed,
            LeaderElected: self._elected,
            HostDown: self._down,
            DiskTailLost: self._lost_tail,
            BecameLeader: self._led,
        }

    def _copy(self, seen: Seen) -> _Copy:
        key = (seen.actor, seen.fact.group)
        copy = self._copies.get(key)
        if copy is None:
            copy = self._copies[key] = _Copy(EMPTY, 0, ())
        return copy

    def _say(self, seen: Seen, kind: str, text: str) -> None:
        self.violation(seen, kind, (seen.fact.group, seen.actor), f"group {seen.fact.group} at {seen.actor}: {text}")

    # --- states ------------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        copy = self._copy(seen)
        if fact.old != copy.state:
            self._say(seen, "transition", f"it became {fact.new} from {fact.old}, but it was {copy.state}")
        if fact.old not in MAY_FOLLOW.get(fact.new, ()):
            self._say(
                seen, "transition", f"it became {fact.new} from {fact.old}, which is no legal transition ({fact.why})"
            )
        rises = fact.new in (COMPLETING, EMPTY) and not copy.begun
        copy.begun = False
        if fact.generation != copy.generation + rises:
            self._say(
                seen, "generation", f"it became {fact.new} in generation {fact.generation} after {copy.generation}"
            )
        if fact.new == EMPTY and copy.members:
            self._say(seen, "members", f"it became Empty with members {', '.join(sorted(copy.members))}")
        copy.state = fact.new
        if fact.new == STABLE and self.panel.is_current(seen):
            self._durable[fact.group] = fact.generation
        elif fact.new == DEAD:
            del self._copies[seen.actor, fact.group]
            if self.panel.is_current(seen):
                self._durable.pop(fact.group, None)
                self._completed_last.pop(fact.group, None)

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        copy = self._copy(seen)
        if fact.generation != copy.generation + 1:
            self._say(seen, "generation", f"generation {fact.generation} began after {copy.generation}")
        if copy.state not in (PREPARING, COMPLETING if fact.members else EMPTY):
            self._say(seen, "transition", f"a join phase was completed in {copy.state}")
        unknown = [member for member in fact.members if member not in copy.members]
        if unknown:
            self._say(
                seen,
                "members",
                f"generation {fact.generation} has members that are not in the group: {', '.join(unknown)}",
            )
        if fact.members and fact.leader not in fact.members:
            self._say(
                seen,
                "leader",
                f"the leader of generation {fact.generation} is {fact.leader or 'nobody'}, no member of it",
            )
        elif fact.members and copy.leader and fact.leader != copy.leader:
            self._say(
                seen,
                "leader",
                f"the leader of generation {fact.generation} is {fact.leader}; elected was {copy.leader}",
            )
        copy.generation = fact.generation
        copy.begun = copy.state == PREPARING
        if self.panel.is_current(seen):
            self._is_new(seen, fact)
            self._completed_last[fact.group] = fact.generation

    def _is_new(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        durable = self._durable.get(fact.group, 0)
        if fact.generation <= durable and not self._tail_lost:
            self._say(seen, "generation", f"generation {fact.generation} began although {durable} had been Stable")

    # --- members -----------------------------------------------------------------------------------------------

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        copy = self._copy(seen)
        if fact.member_id in copy.members:
            self._say(seen, "members", f"{fact.member_id} was added twice")
        copy.members.add(fact.member_id)

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        copy = self._copy(seen)
        if fact.member_id not in copy.members:
            self._say(seen, "members", f"{fact.member_id} was removed, but is no member ({fact.why})")
        copy.members.discard(fact.member_id)
        if copy.leader == fact.member_id:
            copy.leader = ""

    def _elected(self, seen: Seen, fact: LeaderElected) -> None:
        self._copy(seen).leader = fact.member_id

    # --- failover ----------------------------------------------------------------------------------------------

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        self._copies[seen.actor, fact.group] = _Copy(fact.state, fact.generation, fact.members)
        if fact.state not in (EMPTY, STABLE) or (fact.state == STABLE) != bool(fact.members):
            self._say(seen, "loaded", f"it was loaded as {fact.state} with {len(fact.members)} members")
        durable, completed = self._durable.get(fact.group, 0), self._completed_last.get(fact.group)
        if fact.generation < durable and not self._tail_lost:
            self._say(seen, "loaded", f"it was loaded with generation {fact.generation}; {durable} had been Stable")
        if completed is not None and fact.generation > completed:
            self._say(
                seen, "loaded", f"it was loaded with generation {fact.generation}; the last completed was {completed}"
            )
        self._durable[fact.group] = fact.generation

    def _unloaded(self, seen: Seen, fact: GroupUnloaded) -> None:
        self._copies.pop((seen.actor, fact.group), None)

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for key in [key for key in self._copies if host_of(key[0]) == fact.host]:
            del self._copies[key]

    def _led(self, seen: Seen, fact: BecameLeader) -> None:
        if fact.topic == OFFSETS_TOPIC and self.panel.logs.changed:
            for name, durable in self._durable.items():
                group = self.panel.groups[name]
                if durable in group.forgotten:
                    self._durable[name] = group.remembered[-1][0] if group.remembered else 0

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        self._tail_lost = self._tail_lost or fact.log.startswith(OFFSETS_TOPIC)
