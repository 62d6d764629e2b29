"""A cooperative rebalance moves a partition in two steps, and comes to an end.

Theory (KIP-429). A member joins with what it owns. In that generation nobody else is given any of it; the member
revokes what is missing and joins again, and the follow-up gives that to its new owner.

====================  ==================================================================================================
kind                  rule
====================  ==================================================================================================
handed-over-too-soon  what a member owns when a join phase with it completes is given to nobody else in that generation,
                      unless it was assigned to somebody else since
revocation-late       a member revokes what an assignment took from it before it takes the rest
no-rejoin             while nothing happens from outside, at most ``MOST_REVOKING`` generations take anything from
                      anybody. A copy of a Streams task that was restored further is an event from outside
assignment-refused    no member refuses its assignment (KIP-429's page: its superset check fails)
====================  ==================================================================================================

An eager member owns nothing when it joins. A static one that did not return stays in the group with what it claimed
long ago: it is exempt from the first rule. That owners are disjoint is ``one-owner`` and ``lifecycle: owned``.
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import (
    FaultApplied,
    FaultEnded,
    Healed,
    HostDown,
    HostPaused,
    HostResumed,
    HostStarted,
    Seen,
    TopicGrown,
)
from kemu.protocol.names import TopicPartition, host_of
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    AssignmentRefused,
    GroupLoaded,
    JoinPhaseCompleted,
    MemberAdded,
    MemberBecame,
    MemberFailed,
    MemberRemoved,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from kemu.protocol.notes.streams import TaskRestored

MOST_REVOKING = 5
"""A rebalance and four follow-ups: what Kafka's own tests allow ``cooperative-sticky``."""
PREPARING = "PREPARING_REBALANCE"


class _Member:
    """One life of a member."""

    __slots__ = ("joining", "life", "member_id", "unsettled")

    def __init__(self, life: int) -> None:
        self.life = life
        self.member_id = ""
        self.joining = False
        """Between its JoinGroup and the answer."""
        self.unsettled: frozenset[TopicPartition] = frozenset()
        """What its assignment took from it and it has yet to revoke."""


class _Group:
    def __init__(self) -> None:
        self.generation = -1
        self.claims: dict[TopicPartition, tuple[str, int]] = {}
        """Rightful claims of this generation: partition -> (actor, life)."""
        self.owner: dict[TopicPartition, tuple[str, int]] = {}
        """Partition -> the life it was assigned to last."""
        self.static: set[str] = set()
        self.revoking: set[int] = set()
        """Generations that took something from somebody since the last event from outside."""


class Cooperative(Checker):
    """Partitions move in two steps, revoked before they are assigned, and rebalances come to an end."""

    name = "cooperative"

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[str, _Group] = {}
        self._members: dict[str, _Member] = {}
        self.on = {
            AssignmentRefused: self._refused,
            JoinPhaseCompleted: self._completed,
            MemberAdded: self._added,
            MemberRemoved: self._removed,
            MemberBecame: self._became,
            MemberFailed: self._outside,
            AssignmentReceived: self._received,
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._revoked,
            PartitionsLost: self._lost,
            GroupLoaded: self._loaded,
            HostDown: self._down,
            HostStarted: self._outside,
            HostPaused: self._outside,
            HostResumed: self._outside,
            TopicGrown: self._outside,
            FaultApplied: self._outside,
            FaultEnded: self._outside,
            Healed: self._outside,
            TaskRestored: self._restored,
        }

    def _group(self, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
        return group

    def _member(self, seen: Seen) -> _Member:
        member = self._members.get(seen.actor)
        if member is None or member.life != seen.life:
            member = self._members[seen.actor] = _Member(seen.life)
        return member

    # --- the group ---------------------------------------------------------------------------------------------

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        if not self.panel.is_current(seen):
            return
        group = self._group(fact.group)
        group.generation, group.claims = fact.generation, {}
        ids = frozenset(fact.members) - group.static
        for actor, holding in self.panel.holdings.items():
            member = self._members.get(actor)
            if holding.group != fact.group or member is None or not member.joining or member.member_id not in ids:
                continue
            life = (actor, holding.life)
            group.claims.update((at, life) for at in holding.owned if group.owner.get(at) == life)

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        group = self._group(fact.group)
        group.revoking.clear()
        if fact.instance_id is not None:
            group.static.add(fact.member_id)

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        self._group(fact.group).revoking.clear()

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        group = self._group(fact.group)
        group.generation = -1  # until the next join phase: numbers may come again
        group.claims = {}
        group.revoking.clear()

    def _outside(self, seen: Seen, fact: object) -> None:
        for group in self._groups.values():
            group.revoking.clear()

    def _restored(self, seen: Seen, fact: TaskRestored) -> None:
        self._group(fact.application).revoking.clear()

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for actor in [actor for actor in self._members if host_of(actor) == fact.host]:
            del self._members[actor]
        self._outside(seen, fact)

    # --- members -----------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: MemberBecame) -> None:
        member = self._member(seen)
        member.member_id = fact.member_id
        member.joining = fact.new == PREPARING
        if fact.new in (PREPARING, "UNJOINED", "CLOSED", "FAILED"):
            member.unsettled = frozenset()
        if fact.new == "UNJOINED":
            self._group(fact.group).revoking.clear()

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group, member, life = self._group(fact.group), self._member(seen), (seen.actor, seen.life)
        if fact.generation == group.generation:
            for at in fact.partitions:
                owner = group.claims.get(at)
                if owner is not None and owner != life and owner[0] in self._members:
                    text = f"was given to {seen.actor} in generation {fact.generation}, which {owner[0]} joined with it"
                    self._say(seen, "handed-over-too-soon", f"{at[0]}-{at[1]} {text}", f"{at[0]}-{at[1]}", owner[0])
        for at in fact.partitions:
            group.owner[at] = life
        owned = self.panel.holding(seen).owned
        member.unsettled = frozenset(owned.keys() - set(fact.partitions))

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        member = self._member(seen)
        if member.unsettled and member.unsettled.issuperset(fact.revoked):
            member.unsettled -= frozenset(fact.revoked)
            revoking = self._group(fact.group).revoking
            revoking.add(fact.generation)
            if len(revoking) > MOST_REVOKING:
                text = f"group {fact.group} moves partitions in {len(revoking)} rebalances, and nothing has happened"
                self._say(seen, "no-rejoin", text, liveness=True)
                revoking.clear()

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        member = self._member(seen)
        if member.unsettled:
            names = ", ".join(f"{topic}-{number}" for topic, number in sorted(member.unsettled))
            self._say(seen, "revocation-late", f"{seen.actor} takes its assignment before it revoked {names}")
            member.unsettled = frozenset()

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        self._member(seen).unsettled = frozenset()

    def _refused(self, seen: Seen, fact: AssignmentRefused) -> None:
        self._say(seen, "assignment-refused", f"{seen.actor} refuses its assignment: {fact.why}")

    def _say(self, seen: Seen, kind: str, text: str, *entities: str, liveness: bool = False) -> None:
        self.violation(seen, kind, (seen.fact.group, seen.actor, *entities), text, liveness=liveness)
