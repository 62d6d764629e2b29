"""Rebalances that were to give out what a generation withheld, and that nobody asks for any more (a part of the panel).

A cooperative leader withholds what changes hands; who gives it up asks for the next rebalance, in which it is given
out. A static member that comes back before that one is over (it was started again; or, in Kafka 2.6.1 to 2.6.3, its
JoinGroup failed, and it forgot its member id) is answered the assignment of the generation that stands, of which it
owns nothing too much: it asks for nothing. If that other rebalance ended with its coordinator, or was never begun,
what was withheld is nobody's until something else makes the group rebalance.

A leader asks for the next rebalance, too, when it hears of partitions that it did not know of (a broker that has just
started knows no topics). A static leader that comes back first takes what it hears now for what it assigned from.

Source: Kafka 3.4.1 ``ConsumerCoordinator.onJoinComplete`` (asks again for what it had to revoke alone) and
``onLeaderElected`` (a static leader that returns assigns nothing, KIP-814; before, it took itself for a follower),
``GroupCoordinator.updateStaticMemberAndRebalance``; 2.6.3 ``AbstractCoordinator.joinGroupIfNeeded``.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from kemu.actors.machine import Received, Send
from kemu.emulator.facts import Seen, received, sent
from kemu.protocol.messages.data import MetadataReply
from kemu.protocol.messages.group import SyncGroup
from kemu.protocol.names import ActorName, GroupId, MemberId, TopicPartition
from kemu.protocol.notes.groups import AssignmentReceived


class _Owner(Protocol):
    """What the panel knows of a member's present life."""

    life: int
    owned: dict[TopicPartition, None]


class _Dealt(NamedTuple):
    """An assignment: its leader, and how many partitions of each topic the leader knew."""

    generation: int
    leader: ActorName
    leader_id: MemberId
    known: Mapping[str, int]


class _Generation:
    """The newest generation of a group that a member took an assignment of."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.taken: dict[ActorName, tuple[MemberId, list[TopicPartition]]] = {}
        """The assignment that a member took last: under which id, and what it had to give up for it."""
        self.forgotten: dict[TopicPartition, ActorName] = {}
        """Partition -> the member that came back under another id. It had to give the partition up before, or it led
        this generation and did not know of the partition."""


class ForgottenRebalances:
    """``holdings``: the panel's; its handlers run before the panel takes the fact."""

    def __init__(self, holdings: Mapping[ActorName, _Owner]) -> None:
        self._holdings = holdings
        self._groups: dict[GroupId, _Generation] = {}
        self._heard: dict[ActorName, dict[str, int]] = {}
        """Member -> topic -> number of partitions in its last Metadata answer."""
        self._dealt: dict[GroupId, _Dealt] = {}
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            AssignmentReceived: self._received,
            received(MetadataReply): self._told,
            sent(SyncGroup): self._deals,
        }

    def of(self, group: GroupId, generation: int) -> Mapping[TopicPartition, ActorName]:
        """What nobody gives out any more in this generation, and who does not ask for it."""
        known = self._groups.get(group)
        return {} if known is None or known.number != generation else known.forgotten

    def _told(self, seen: Seen, fact: Received) -> None:
        heard = self._heard.setdefault(seen.actor, {})
        heard.update({topic.topic: len(topic.partitions) for topic in fact.message.topics})

    def _deals(self, seen: Seen, fact: Send) -> None:
        request = fact.message
        if request.assignments:
            known = dict(self._heard.get(seen.actor, {}))
            self._dealt[request.group] = _Dealt(request.generation, seen.actor, request.member_id, known)

    def _unknown_then(self, seen: Seen, fact: AssignmentReceived) -> list[TopicPartition]:
        """What the leader of this generation did not know of when it assigned it, and knows now that it came back."""
        dealt = self._dealt.get(fact.group)
        if dealt is None or (dealt.generation, dealt.leader) != (fact.generation, seen.actor):
            return []
        if fact.member_id == dealt.leader_id:  # it must ask again
            return []
        heard = self._heard.get(seen.actor, {}).items()
        return [(topic, number) for topic, count in heard for number in range(dealt.known.get(topic, 0), count)]

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
        group.forgotten.update(dict.fromkeys(self._unknown_then(seen, fact), seen.actor))
        for at in fact.partitions:
            group.forgotten.pop(at, None)
        group.taken[seen.actor] = fact.member_id, list(dict.fromkeys(gives_up))
