"""Rebalances that were to give out what a generation withheld, and that nobody asks for any more (a part of the panel).

A cooperative leader withholds what changes hands; who gives it up asks for the next rebalance, in which it is given
out. A static member that comes back before that one is over (it was started again; or, in Kafka 2.6.1 to 2.6.3, its
JoinGroup failed, and it forgot its member id) is answered the assignment of the generation that stands, of which it
owns nothing too much: it asks for nothing. If that other rebalance ended with its coordinator, or was never begun,
what was withheld is nobody's until something else makes the group rebalance.

Source: Kafka 3.4.1 ``ConsumerCoordinator.onJoinComplete`` (asks again for what it had to revoke alone) and
``onLeaderElected`` (a static leader that returns assigns nothing, KIP-814; before, it took itself for a follower),
``GroupCoordinator.updateStaticMemberAndRebalance``; 2.6.3 ``AbstractCoordinator.joinGroupIfNeeded``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kemu.emulator.facts import Seen
from kemu.protocol.names import ActorName, GroupId, MemberId, TopicPartition
from kemu.protocol.notes.groups import AssignmentReceived


class _Owner(Protocol):
    """What the panel knows of a member's present life."""

    life: int
    owned: dict[TopicPartition, None]


class _Generation:
    """The newest generation of a group that a member took an assignment of."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.taken: dict[ActorName, tuple[MemberId, list[TopicPartition]]] = {}
        """The assignment that a member took last: under which id, and what it had to give up for it."""
        self.forgotten: dict[TopicPartition, ActorName] = {}
        """What a member had to give up that has come back as another since."""


class ForgottenRebalances:
    """``holdings``: the panel's; its handlers run before the panel takes the fact."""

    def __init__(self, holdings: Mapping[ActorName, _Owner]) -> None:
        self._holdings = holdings
        self._groups: dict[GroupId, _Generation] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {AssignmentReceived: self._received}

    def of(self, group: GroupId, generation: int) -> Mapping[TopicPartition, ActorName]:
        """What nobody gives out any more in this generation, and who does not ask for it."""
        known = self._groups.get(group)
        return {} if known is None or known.number != generation else known.forgotten

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group = self._groups.get(fact.group)
        if group is None or group.number != fact.generation:
            group = self._groups[fact.group] = _Generation(fact.generation)
        before_id, gave_up = group.taken.get(seen.actor, (fact.member_id, []))
        holding = self._holdings.get(seen.actor)
        owned = holding.owned if holding is not None and holding.life == seen.life else {}
        given = set(fact.partitions)
        gives_up = [at for at in owned if at not in given]
        if before_id == fact.member_id:
            gives_up += gave_up
        else:
            group.forgotten.update(dict.fromkeys(gave_up, seen.actor))
        for at in fact.partitions:
            group.forgotten.pop(at, None)
        group.taken[seen.actor] = fact.member_id, list(dict.fromkeys(gives_up))
