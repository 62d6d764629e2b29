"""One owner per partition and generation.

Theory. The leader cuts the partitions into disjoint parts, the coordinator makes them durable and hands each member its
part. So within one generation two members never take the same partition (rule 1). In a cooperative rebalance members
keep what they own while they join; a partition that changes hands must be withheld for one generation, so nobody takes
a partition in the generation in which its owner, who joined with it, loses it (rule 2). In an eager one members own
nothing when they join, which satisfies rule 2; a member that forgot to revoke breaks it.

What the protocol allows, and this checker therefore too:

* Generation numbers come again after a failover in mid-rebalance (spec trap 4). Incarnations of a number are told apart
  by ``JoinPhaseCompleted``. An assignment is only handed out when it is in the log, so nobody may take one of a
  generation which the log that was loaded does not know (rule 3), unless the log lost its tail.
* A static member that restarts takes the same partitions in the same generation under a new id; the old id has been
  removed by then, whether or not its process lives. So has one that the log which a coordinator loads does not have any
  more, or never had (KAFKA-10284): its instance goes by another id there, and that one is replaced.
* A coordinator that has a successor already, and did not hear of it, begins generations of its own with those members
  that still ask it. Each has a record of its own, under the same rules.
* A zombie owns what others own, in an older generation. If it joins again with a claim that is out of date (somebody
  else was given the partition since), its claim protects nothing.
"""

from typing import TypeAlias

from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, Seen
from kemu.emulator.watching.panel import Holding
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, TopicPartition
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    GroupLoaded,
    JoinPhaseCompleted,
    MemberAdded,
    MemberRemoved,
)

KEPT_GENERATIONS = 16
"""Generations a group's record goes back; a reply that is older than that is not judged."""

Life: TypeAlias = tuple[str, int]
"""(actor, life)."""


class _Generation:
    def __init__(self) -> None:
        self.taken: dict[TopicPartition, tuple[str, str]] = {}
        """Partition -> (actor, member id) that took it."""
        self.kept: dict[TopicPartition, tuple[str, str]] = {}
        """Partition -> who owned it when it joined and loses it in this generation."""
        self.owner_before: dict[TopicPartition, Life | None] = {}
        """Of each partition taken: the life that had taken it last, in an older generation."""
        self.abandoned = False
        """A coordinator loaded a log that does not know this generation."""
        self.judged = True


class _Group:
    def __init__(self) -> None:
        self.generations: dict[int, _Generation] = {}
        self.of_deposed: dict[tuple[ActorName, int], _Generation] = {}
        """(coordinator that has a successor, generation) -> what it began after that."""
        self.removed: set[str] = set()
        self.instances: dict[str, str] = {}
        """The instance of each id that a static member ever got."""
        self.owner: dict[TopicPartition, Life] = {}
        """Who took each partition last."""


class OneOwner(Checker):
    """Within a generation no two members take one partition, and none changes hands at once."""

    name = "one-owner"

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[str, _Group] = {}
        self._tail_lost = False
        self.on = {
            JoinPhaseCompleted: self._completed,
            GroupLoaded: self._loaded,
            MemberAdded: self._added,
            MemberRemoved: self._removed,
            AssignmentReceived: self._received,
            DiskTailLost: self._lost_tail,
        }

    def _group(self, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
        return group

    def _completed(self, seen: Seen, fact: JoinPhaseCompleted) -> None:
        group = self._group(fact.group)
        if not self.panel.is_current(seen):
            group.of_deposed[seen.actor, fact.generation] = _Generation()
            return
        before = group.generations.pop(fact.generation, None)
        generation = group.generations[fact.generation] = _Generation()
        generation.judged = before is None or not (self._may_be_lost(fact.group, fact.generation) and before.taken)
        if len(group.generations) > KEPT_GENERATIONS:
            del group.generations[next(iter(group.generations))]

    def _loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        group = self._group(fact.group)
        group.generations.setdefault(fact.generation, _Generation())
        for number, generation in group.generations.items():
            if number > fact.generation:
                generation.abandoned = True
        there = {group.instances.get(member_id) for member_id in fact.members} - {None}
        group.removed.update([member_id for member_id, instance in group.instances.items() if instance in there])
        group.removed.difference_update(fact.members)

    def _added(self, seen: Seen, fact: MemberAdded) -> None:
        group = self._group(fact.group)
        group.removed.discard(fact.member_id)
        if fact.instance_id is not None:
            group.instances[fact.member_id] = fact.instance_id

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        self._group(fact.group).removed.add(fact.member_id)

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group = self._group(fact.group)
        holding = self.panel.holding(seen)
        generation = group.generations.get(fact.generation)
        of_deposed = group.of_deposed.get((self.panel.coordinators.asked_by(seen.actor), fact.generation))
        if of_deposed is not None and self.panel.asks_deposed(seen):
            self._take(seen, fact, group, of_deposed, holding)
        elif generation is None:
            if not group.generations or fact.generation > max(group.generations):
                text = f"{fact.member_id} took an assignment of generation {fact.generation}, which never began"
                self.violation(seen, "unknown-generation", (fact.group, seen.actor), text)
        elif generation.abandoned:
            self._took_abandoned(seen, fact)
        elif generation.judged:
            self._take(seen, fact, group, generation, holding)
        life = (seen.actor, seen.life)
        for partition in fact.partitions:
            group.owner[partition] = life

    def _may_be_lost(self, group: str, generation: int) -> bool:
        """Whether the group's log lost what it knew of a generation that was Stable."""
        return self._tail_lost or generation in self.panel.groups[group].forgotten

    def _took_abandoned(self, seen: Seen, fact: AssignmentReceived) -> None:
        if not self._may_be_lost(fact.group, fact.generation):
            text = f"{fact.member_id} took an assignment of generation {fact.generation}, which is in no log"
            self.violation(seen, "unknown-generation", (fact.group, seen.actor), text)

    def _take(
        self, seen: Seen, fact: AssignmentReceived, group: _Group, generation: _Generation, holding: Holding
    ) -> None:
        me = (seen.actor, fact.member_id)
        life = (seen.actor, seen.life)
        taken, kept = generation.taken, generation.kept
        for partition in fact.partitions:
            self._compare(seen, fact, group, partition, taken.get(partition), "took it too")
            self._compare(seen, fact, group, partition, kept.get(partition), "joined with it and had yet to revoke it")
            taken[partition] = me
            generation.owner_before.setdefault(partition, group.owner.get(partition))
        assigned = set(fact.partitions)
        for partition in sorted(holding.owned):
            owner = generation.owner_before.get(partition, group.owner.get(partition))
            if partition not in assigned and owner == life:
                text = "took it while this member had yet to revoke it"
                self._compare(seen, fact, group, partition, taken.get(partition), text)
                kept[partition] = me

    def _compare(
        self,
        seen: Seen,
        fact: AssignmentReceived,
        group: _Group,
        partition: TopicPartition,
        other: tuple[str, str] | None,
        text: str,
    ) -> None:
        if other is None or other == (seen.actor, fact.member_id) or other[1] in group.removed:
            return
        topic, number = partition
        self.violation(
            seen,
            "two-owners",
            (fact.group, f"{topic}-{number}", seen.actor, other[0]),
            f"{topic}-{number} in generation {fact.generation}: {fact.member_id} of {seen.actor} takes its assignment, "
            f"{other[1]} of {other[0]} {text}",
        )

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        self._tail_lost = self._tail_lost or fact.log.startswith(OFFSETS_TOPIC)
