"""One owner per partition and generation.

The leader divides the partitions into disjoint sets, and the coordinator sends each member its set. ``membership``
judges whether the coordinator sends another set; ``cooperative`` judges whether another member still owns a partition.

Allowed:

- Two generations may have the same number: a coordinator that becomes leader during a rebalance does not know the
  generation that its predecessor began.
- A static member that restarts takes the same partitions in the same
  generation under another member id. The coordinator removed its former id,
  or loaded a log without it (KAFKA-10284).
- A deposed coordinator that does not know its successor begins generations with members that do not know the successor,
  either. Such generations are judged separately.

Source: Kafka's ``GroupCoordinator``, ``GroupMetadataManager``.
"""

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, Seen
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, MemberId, TopicPartition
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    GroupLoaded,
    JoinPhaseCompleted,
    MemberAdded,
    MemberRemoved,
)

KEPT_GENERATIONS = 16
"""Number of generations kept for a group; answers of older generations are not judged."""


class _Group:
    def __init__(self) -> None:
        self.taken: dict[tuple[ActorName, int], dict[TopicPartition, tuple[ActorName, MemberId]]] = {}
        """("" or a deposed coordinator, generation) -> partition -> (actor, member id) of the owner."""
        self.perhaps_lost: dict[int, None] = {}
        """Generations that a disk may have lost with the groups' log, until a new generation has the same number."""
        self.removed: dict[MemberId, None] = {}
        self.instances: dict[MemberId, str] = {}
        """Member id of a static member -> instance id."""


class OneOwner(Checker):
    """Judges whether two members receive the same partition in one generation."""

    name = "one-owner"
    kinds = ("two-owners",)

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[str, _Group] = {}
        self.on = {
            JoinPhaseCompleted: self._completed,
            GroupLoaded: self._loaded,
            MemberAdded: self._added,
            MemberRemoved: self._removed,
            AssignmentReceived: self._received,
            DiskTailLost: self._lost_tail,
        }

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        taken, generation = self._group(fact.group).taken, fact.generation
        by = "" if self.panel.is_current(seen) else seen.actor
        before = taken.pop((by, generation), None)
        lost = generation in self._group(fact.group).perhaps_lost
        lost = lost or generation in self.panel.groups[fact.group].forgotten
        self._group(fact.group).perhaps_lost.pop(generation, None)
        # A late answer of the first generation must not be compared with the second.
        if not (before and lost and not by):
            taken[by, generation] = {}
        taken.pop((by, generation - KEPT_GENERATIONS), None)

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        group = self._group(fact.group)
        group.taken.setdefault(("", fact.generation), {})
        for key in [key for key in group.taken if not key[0] and key[1] > fact.generation]:
            del group.taken[key]
        instances = {group.instances.get(member_id) for member_id in fact.members} - {None}
        for member_id, instance in group.instances.items():
            if instance in instances:
                group.removed[member_id] = None
        for member_id in fact.members:
            group.removed.pop(member_id, None)

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        group = self._group(fact.group)
        group.removed.pop(fact.member_id, None)
        if fact.instance_id is not None:
            group.instances[fact.member_id] = fact.instance_id

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        self._group(fact.group).removed[fact.member_id] = None

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group = self._group(fact.group)
        deposed = self.panel.coordinators.asked_by(seen.actor) if self.panel.asks_deposed(seen) else ""
        taken = group.taken.get((deposed, fact.generation))
        if taken is None:
            taken = group.taken.get(("", fact.generation), {})
        for at in fact.partitions:
            actor, member_id = taken.get(at, ("", ""))
            if actor and (actor, member_id) != (seen.actor, fact.member_id) and member_id not in group.removed:
                name = f"{at[0]}-{at[1]}"
                text = f"{name} in generation {fact.generation}: {fact.member_id} of {seen.actor} takes it"
                entities = (fact.group, name, seen.actor, actor)
                self.violation(seen, "two-owners", entities, f"{text}, and so does {member_id} of {actor}")
            taken[at] = seen.actor, fact.member_id

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        """Note that the numbers of generations from before the loss may be used again."""
        if fact.log.startswith(OFFSETS_TOPIC):
            for group in self._groups.values():
                group.perhaps_lost.update(dict.fromkeys(generation for by, generation in group.taken if not by))
