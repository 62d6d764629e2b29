"""What each member owns by its own account, and who coordinates each group: bookkeeping that several checkers share."""

from collections.abc import Callable
from typing import Any

from kemu.emulator.facts import HostDown, Seen
from kemu.protocol.names import TopicPartition, host_of
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    GroupLoaded,
    GroupUnloaded,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)

Handlers = dict[type, Callable[[Seen, Any], None]]


class Holding:
    """One life of one member: its assignments and what it owns."""

    __slots__ = ("actor", "assignment", "generation", "group", "life", "member_id", "owned", "received")

    def __init__(self, actor: str, life: int, group: str) -> None:
        self.actor = actor
        self.life = life
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.received: frozenset[TopicPartition] | None = None
        """The last assignment that came; None before the first of this life."""
        self.assignment: frozenset[TopicPartition] | None = None
        """The last one that was taken over (one with topics that are not subscribed any more is not)."""
        self.owned: set[TopicPartition] = set()


class Holdings:
    """Every member's ``Holding``; feed it after the checker has looked at the state before the fact."""

    def __init__(self) -> None:
        self.by_actor: dict[str, Holding] = {}
        self._on: Handlers = {
            AssignmentReceived: self._received,
            PartitionsAssigned: self._assigned,
            PartitionsRevoked: self._revoked,
            PartitionsLost: self._lost,
            HostDown: self._down,
        }

    def see(self, seen: Seen) -> None:
        """Take one fact; those that do not matter cost one look-up."""
        handler = self._on.get(type(seen.fact))
        if handler is not None:
            handler(seen, seen.fact)

    def of(self, seen: Seen) -> Holding:
        """The holding of the member whose fact this is; a new life begins with nothing."""
        holding = self.by_actor.get(seen.actor)
        if holding is None or holding.life != seen.life:
            holding = self.by_actor[seen.actor] = Holding(seen.actor, seen.life, seen.fact.group)
        return holding

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        holding = self.of(seen)
        holding.member_id = fact.member_id
        holding.generation = fact.generation
        holding.received = frozenset(fact.partitions)

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        holding = self.of(seen)
        holding.assignment = holding.received
        holding.owned.update(fact.added)

    def _revoked(self, seen: Seen, fact: PartitionsRevoked) -> None:
        self.of(seen).owned.difference_update(fact.revoked)

    def _lost(self, seen: Seen, fact: PartitionsLost) -> None:
        self.of(seen).owned.clear()

    def _down(self, seen: Seen, fact: HostDown) -> None:
        for actor in [actor for actor in self.by_actor if host_of(actor) == fact.host]:
            del self.by_actor[actor]


class Coordinators:
    """Who coordinates a group now.

    A broker that stood still while its partition moved on may act on old mail before it learns so. Such a zombie's
    facts are about a group that nobody can reach any more; rules on the group's truth do not apply to them.
    """

    def __init__(self) -> None:
        self._current: dict[str, str] = {}

    def is_current(self, seen: Seen) -> bool:
        """Whether this fact comes from the group's coordinator; the first to speak for a group becomes it."""
        return self._current.setdefault(seen.fact.group, seen.actor) == seen.actor

    def loaded(self, seen: Seen, fact: GroupLoaded) -> None:
        """A coordinator took the group over."""
        self._current[fact.group] = seen.actor

    def unloaded(self, seen: Seen, fact: GroupUnloaded) -> None:
        """A coordinator gave the group up."""
        if self._current.get(fact.group) == seen.actor:
            del self._current[fact.group]

    def down(self, seen: Seen, fact: HostDown) -> None:
        """A coordinator's host is gone."""
        for group in [group for group, actor in self._current.items() if host_of(actor) == fact.host]:
            del self._current[group]
