"""A partition moves in two steps, and rebalances come to an end.

Theory (KIP-429). A member joins with what it owns. In that generation nobody else is given any of it; the member
revokes what is missing and joins again, and the follow-up gives that to its new owner. An eager member owns nothing
when it joins; one that forgot to revoke breaks the first rule. That the member revokes before it takes the rest is
``lifecycle: owned``.

====================  ==================================================================================================
kind                  rule
====================  ==================================================================================================
handed-over-too-soon  what a member owns when a join phase with it completes is given to nobody else in that generation,
                      unless it was assigned to somebody else since. A static member that did not return is exempt
revoked-too-much      a member revokes nothing of an assignment between its arrival and onPartitionsAssigned
no-rejoin             while nothing happens from outside, at most ``MOST_REVOKING`` generations take anything from
                      anybody. A copy of a Streams task that was restored further is an event from outside
assignment-refused    no member refuses its assignment (KIP-429's page: its superset check fails)
====================  ==================================================================================================
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
from kemu.emulator.watching.memberships import JOINING, UNJOINED
from kemu.protocol.names import ActorName, MemberId, TopicPartition
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
    PartitionsRevoked,
)
from kemu.protocol.notes.streams import TaskRestored

MOST_REVOKING = 5
"""A rebalance and four follow-ups: what Kafka's own tests allow ``cooperative-sticky``."""
OUTSIDE = (
    *(FaultApplied, FaultEnded, Healed, HostDown, HostStarted, HostPaused, HostResumed, TopicGrown, MemberFailed),
)
"""Events from outside, for every group."""
Life = tuple[ActorName, int]


class _Group:
    def __init__(self) -> None:
        self.generation = -1
        self.claims: dict[TopicPartition, Life] = {}
        """Partitions that members claimed when they joined, and keep until the follow-up of this generation."""
        self.owner: dict[TopicPartition, Life] = {}
        """The life that each partition was assigned to last."""
        self.static: dict[MemberId, None] = {}
        self.revoking: dict[int, None] = {}
        """Generations that took something from somebody since the last event from outside."""


class Cooperative(Checker):
    """See the module."""

    name = "cooperative"

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[str, _Group] = {}
        self._joining: dict[Life, MemberId] = {}
        """Members between their JoinGroup and its answer."""
        self._taking: dict[Life, list[TopicPartition]] = {}
        """Members that have yet to take over an assignment, and what of it they revoked since it came."""
        self.on = {
            AssignmentRefused: self._refused,
            JoinPhaseCompleted: self._completed,
            GroupLoaded: self._loaded,
            MemberAdded: self._added,
            MemberRemoved: self._happens,
            TaskRestored: self._restored,
            MemberBecame: self._became,
            AssignmentReceived: self._received,
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._revoked,
            **dict.fromkeys(OUTSIDE, self._outside),
        }

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    # --- events from outside -----------------------------------------------------------------------------------

    def _outside(self, seen: Seen, fact: object) -> None:
        for group in self._groups.values():
            group.revoking.clear()

    def _happens(self, seen: Seen, fact: MemberRemoved) -> None:
        self._group(fact.group).revoking.clear()

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        group = self._group(fact.group)
        group.revoking.clear()
        if fact.instance_id is not None:
            group.static[fact.member_id] = None

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        group = self._group(fact.group)
        group.generation = -1  # until the next join phase: numbers may come again
        group.revoking.clear()

    def _restored(self, seen: Seen, fact: TaskRestored) -> None:
        self._group(fact.application).revoking.clear()

    # --- who joins with what -----------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: MemberBecame) -> None:
        self._joining.pop((seen.actor, seen.life), None)
        if fact.new == JOINING:
            self._joining[seen.actor, seen.life] = fact.member_id
        elif fact.new == UNJOINED:
            self._group(fact.group).revoking.clear()

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        if not self.panel.is_current(seen):
            return
        group = self._group(fact.group)
        group.generation, group.claims = fact.generation, {}
        ids = frozenset(fact.members) - group.static.keys()
        for actor, holding in self.panel.holdings.items():
            life = (actor, holding.life)
            if holding.group == fact.group and self._joining.get(life) in ids:
                group.claims.update((at, life) for at in holding.owned if group.owner.get(at) == life)

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group, life = self._group(fact.group), (seen.actor, seen.life)
        self._taking[life] = []
        claims = group.claims if fact.generation == group.generation else {}
        for at in fact.partitions:
            claimant = claims.get(at, life)
            holding = self.panel.holdings.get(claimant[0])
            if claimant != life and holding is not None and holding.life == claimant[1]:
                name, actor = f"{at[0]}-{at[1]}", claimant[0]
                text = f"was given to {seen.actor} in generation {fact.generation}, which {actor} joined with it"
                self._say(seen, "handed-over-too-soon", f"{name} {text}", name, actor)
            group.owner[at] = life

    # --- what comes of it --------------------------------------------------------------------------------------

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        received, revoking = self.panel.holding(seen).received, self._group(fact.group).revoking
        if (seen.actor, seen.life) in self._taking and received is not None:
            self._taking[seen.actor, seen.life] += sorted(received.intersection(fact.revoked))
        if received is not None and fact.revoked and received.isdisjoint(fact.revoked):
            revoking[fact.generation] = None
            if len(revoking) > MOST_REVOKING:
                text = f"group {fact.group} moves partitions in {len(revoking)} rebalances, and nothing has happened"
                self._say(seen, "no-rejoin", text, liveness=True)
                revoking.clear()

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        names = ", ".join(f"{topic}-{number}" for topic, number in self._taking.pop((seen.actor, seen.life), []))
        if names:
            self._say(seen, "revoked-too-much", f"{seen.actor} revoked {names}, which its assignment leaves with it")

    def _refused(self, seen: Seen, fact: AssignmentRefused) -> None:
        self._say(seen, "assignment-refused", f"{seen.actor} refuses its assignment: {fact.why}")

    def _say(self, seen: Seen, kind: str, text: str, *entities: str, liveness: bool = False) -> None:
        self.violation(seen, kind, (seen.fact.group, seen.actor, *entities), text, liveness=liveness)
