"""A partition moves in two steps, and a series of rebalances ends (KIP-429).

A member joins with its owned partitions. No other member gets these partitions in the same generation. The member
revokes the partitions that its assignment lacks, and rejoins. The follow-up rebalance assigns the revoked partitions to
new owners.

- handed-over-too-soon: no member of a classic group gets a partition that
  another member owned when the join phase completed, unless the partition was
  assigned elsewhere since. A static member that did not return is exempt.
- revoked-too-much: before onPartitionsAssigned a member revokes nothing of
  its new assignment.
- no-rejoin: without events from outside, at most five generations of a classic group revoke partitions. Progress of a
  restoring Streams task is an event from outside, too.
- assignment-refused: no member refuses its assignment (the superset check
  on KIP-429's page).

``lifecycle`` (owned) judges whether a member revokes before it adds
partitions.

Source: KIP-429; Kafka's ``ConsumerCoordinator``,
``CooperativeStickyAssignor``.
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
"""Number of generations: a rebalance and four follow-ups, as Kafka's own tests allow for ``cooperative-sticky``."""
OUTSIDE = (
    *(FaultApplied, FaultEnded, Healed, HostDown, HostStarted, HostPaused, HostResumed, TopicGrown, MemberFailed),
)
"""Types of events from outside that concern every group."""
Life = tuple[ActorName, int]


class _Group:
    def __init__(self) -> None:
        self.generation = -1
        self.claims: dict[TopicPartition, Life] = {}
        """Partition -> life that claimed the partition at the join and keeps the partition until the follow-up."""
        self.owner: dict[TopicPartition, Life] = {}
        """Partition -> life that last received the partition."""
        self.static: dict[MemberId, None] = {}
        self.revoking: dict[int, None] = {}
        """Generations with revoked partitions since the last event from outside."""


class Cooperative(Checker):
    """Judges the cooperative protocol (KIP-429)."""

    name = "cooperative"
    kinds = ("assignment-refused", "handed-over-too-soon", "no-rejoin", "revoked-too-much")

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[str, _Group] = {}
        self._joining: dict[Life, MemberId] = {}
        """Members between their JoinGroup and its answer."""
        self._adopting: dict[Life, list[TopicPartition]] = {}
        """Member that has not adopted its assignment yet -> assigned partitions that the member has revoked since."""
        self.on = {
            AssignmentRefused: self._refused,
            JoinPhaseCompleted: self._completed,
            GroupLoaded: self._loaded,
            MemberAdded: self._added,
            MemberRemoved: self._removed,
            TaskRestored: self._restored,
            MemberBecame: self._became,
            AssignmentReceived: self._received,
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._revoked,
            **dict.fromkeys(OUTSIDE, self._event_from_outside),
        }

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    # --- events from outside -----------------------------------------------------------------------------------

    def _event_from_outside(self, seen: Seen, fact: object) -> None:
        for group in self._groups.values():
            group.revoking.clear()

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        self._group(fact.group).revoking.clear()

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        group = self._group(fact.group)
        group.revoking.clear()
        if fact.instance_id is not None:
            group.static[fact.member_id] = None

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        group = self._group(fact.group)
        group.generation = -1  # generation numbers may repeat until the next join phase
        group.revoking.clear()

    def _restored(self, seen: Seen, fact: TaskRestored) -> None:
        self._group(fact.application).revoking.clear()

    # --- claims of joining members ---------------------------------------------------------------------------------

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
        if not fact.leader:  # of the consumer protocol: within an epoch, members revoke, and others get the partitions
            return
        ids = frozenset(fact.members) - group.static.keys()
        for actor, holding in self.panel.holdings.items():
            life = (actor, holding.life)
            if holding.group == fact.group and self._joining.get(life) in ids:
                group.claims.update((at, life) for at in holding.owned if group.owner.get(at) == life)

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group, life = self._group(fact.group), (seen.actor, seen.life)
        self._adopting[life] = []
        claims = group.claims if fact.generation == group.generation else {}
        for at in fact.partitions:
            claimant = claims.get(at, life)
            holding = self.panel.holdings.get(claimant[0])
            if claimant != life and holding is not None and holding.life == claimant[1]:
                name, actor = f"{at[0]}-{at[1]}", claimant[0]
                text = f"was assigned to {seen.actor} in generation {fact.generation}, but {actor} joined with it"
                self._say(seen, "handed-over-too-soon", f"{name} {text}", name, actor)
            group.owner[at] = life

    # --- revocations -----------------------------------------------------------------------------------------------

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        received, revoking = self.panel.holding(seen).received, self._group(fact.group).revoking
        if (seen.actor, seen.life) in self._adopting and received is not None:
            self._adopting[seen.actor, seen.life] += sorted(received.intersection(fact.revoked))
        if fact.group in self.consumer_protocol_groups:
            return  # a member gives up partitions at its own heartbeats, epochs after the last event
        if received is not None and fact.revoked and received.isdisjoint(fact.revoked):
            revoking[fact.generation] = None
            if len(revoking) > MOST_REVOKING:
                text = (
                    f"group {fact.group} moved partitions in {len(revoking)} rebalances without an event from outside"
                )
                self._say(seen, "no-rejoin", text, liveness=True)
                revoking.clear()

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        names = ", ".join(f"{topic}-{number}" for topic, number in self._adopting.pop((seen.actor, seen.life), []))
        if names:
            self._say(seen, "revoked-too-much", f"{seen.actor} revoked {names}, which its new assignment contains")

    def _refused(self, seen: Seen, fact: AssignmentRefused) -> None:
        self._say(seen, "assignment-refused", f"{seen.actor} refuses its assignment: {fact.why}")

    def _say(self, seen: Seen, kind: str, text: str, *entities: str, liveness: bool = False) -> None:
        self.violation(seen, kind, (seen.fact.group, seen.actor, *entities), text, liveness=liveness)
