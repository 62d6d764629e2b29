"""A cooperative rebalance moves a partition in two steps, and comes to an end.

Theory (KIP-429; the page and what shipped agree on it). A cooperative member joins with what it owns. In that
generation nobody else is given any of it; the member sees what is missing, revokes it and joins again, and only the
follow-up gives it to its new owner. Hence:

1. *No direct move.* What a member owns when the join phase it takes part in completes, nobody else is assigned in that
   generation, whether or not the owner ever receives its own assignment. Only rightful claims count: of a partition
   that was assigned to somebody else since, a claim says nothing.
2. *Revoke before assign.* A member that an assignment took something from has revoked it before it takes the rest.
3. *Only members that revoked rejoin for it*. (That those who did come back, is the business of ``liveness``.)
4. *Disjoint at rest.* When all members of a generation have taken their assignments, no partition has two owners.
5. *Convergence.* While nothing happens from outside (no member comes, goes or is thrown out, no topic grows, no fault
   begins or ends, no coordinator takes over), at most ``MOST_REVOKING`` generations take anything from anybody. Where
   task assignors of Streams look at how far copies of tasks are, a copy that was restored further is such an event.
6. *Obedience.* No member refuses its assignment (KIP-429's page: the superset check fails).

An eager member owns nothing when it joins, and satisfies all of this. Static members are followed by rules 2 to 6 only:
one that did not come back stays in the group with what it said long ago, and may own more than the leader can know.
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
    Rejoin,
)
from kemu.protocol.notes.streams import TaskRestored

MOST_REVOKING = 5
"""A rebalance and four follow-ups: what Kafka's own tests allow ``cooperative-sticky``."""
PREPARING = "PREPARING_REBALANCE"


class _Member:
    """One life of a member."""

    __slots__ = ("joining", "life", "member_id", "revoked", "unsettled")

    def __init__(self, life: int) -> None:
        self.life = life
        self.member_id = ""
        self.joining = False
        """Between its JoinGroup and the answer."""
        self.revoked = False
        """Its last assignment took something from it, and that is revoked."""
        self.unsettled: frozenset[TopicPartition] = frozenset()
        """What its assignment took from it and it has yet to revoke."""


class _Group:
    def __init__(self) -> None:
        self.generation = -1
        self.members: tuple[str, ...] = ()
        self.claims: dict[TopicPartition, tuple[str, int]] = {}
        """Rightful claims of this generation: partition -> (actor, life)."""
        self.owner: dict[TopicPartition, tuple[str, int]] = {}
        """Partition -> the life it was assigned to last."""
        self.taken: dict[str, str] = {}
        """Member id -> actor, of those that took their assignment of this generation."""
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
            JoinPhaseCompleted: self._completed,
            MemberAdded: self._added,
            MemberRemoved: self._removed,
            MemberBecame: self._became,
            AssignmentRefused: self._refused,
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
        group.generation, group.members, group.taken = fact.generation, fact.members, {}
        group.claims = {}
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
        group.claims, group.taken = {}, {}
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
        if fact.new == PREPARING and fact.why == Rejoin.REVOKED and not member.revoked:
            self._say(
                seen, "rejoin-without-reason", f"{seen.actor} joins again because it revoked something, but it did not"
            )
        if fact.new in (PREPARING, "UNJOINED", "CLOSED", "FAILED"):
            member.unsettled = frozenset()
        if fact.new == "UNJOINED":
            self._group(fact.group).revoking.clear()

    def _refused(self, seen: Seen, fact: AssignmentRefused) -> None:
        self._say(seen, "assignment-refused", f"{seen.actor} refuses its assignment: {fact.why}")

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
        member.revoked = False

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        member = self._member(seen)
        if member.unsettled and member.unsettled.issuperset(fact.revoked):
            member.unsettled -= frozenset(fact.revoked)
            member.revoked = True
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
        group = self._group(fact.group)
        if fact.generation == group.generation and fact.member_id in group.members:
            group.taken[fact.member_id] = seen.actor
            if len(group.taken) == len(group.members):
                self._look_at_rest(seen, group)

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        self._member(seen).unsettled = frozenset()

    def _look_at_rest(self, seen: Seen, group: _Group) -> None:
        owners: dict[TopicPartition, str] = {}
        for member_id, actor in group.taken.items():
            holding = self.panel.holdings.get(actor)
            if holding is None or holding.generation != group.generation or holding.member_id != member_id:
                continue
            for at in sorted(holding.owned):
                other = owners.setdefault(at, actor)
                if other != actor:
                    text = (
                        f"{at[0]}-{at[1]} is owned by {other} and {actor}, with generation {group.generation} at rest"
                    )
                    self._say(seen, "two-owners", text, f"{at[0]}-{at[1]}", other)

    def _say(self, seen: Seen, kind: str, text: str, *entities: str, liveness: bool = False) -> None:
        self.violation(seen, kind, (seen.fact.group, seen.actor, *entities), text, liveness=liveness)
