"""Withheld partitions for which no member will request a rebalance (part of the panel).

A cooperative leader withholds a partition that moves. The partition's old owner revokes the partition and asks for the
next rebalance, which assigns the partition. A static member may rejoin before the end of the next rebalance, because
its process restarted. In Kafka 2.6.1 to 2.6.3, a member also rejoins after a failed JoinGroup, because it forgot its
member id. The member gets the assignment of the present generation, has nothing to revoke, and asks for no rebalance.
If the next rebalance ended with its coordinator, or never began, the withheld partitions have no owner until another
event makes the group rebalance.

A leader also asks for the next rebalance when it learns of new partitions (a broker that just started knows no
topics). A static leader that rejoins before the rebalance compares later metadata with the metadata after its rejoin.

A static member may also change its subscription and rejoin without its member id, for example after
``max.poll.interval.ms``. The coordinator of a stable group replaces the member without a rebalance, so that nobody
assigns the partitions of topics to which only this member subscribes.

A static member of the classic protocol that replaces the last member of the consumer protocol converts the group to a
classic group, without a rebalance. Members of the classic protocol that still waited for partitions get no
REBALANCE_IN_PROGRESS from the classic group, and so do not ask for the partitions. In the other direction, a static
member of the consumer protocol may replace a member of a rebalancing classic group. The group is converted and its
epoch stays: the members keep what they had, perhaps nothing.

Source: Kafka 3.4.1 ``ConsumerCoordinator.onJoinComplete`` (only a member that revokes partitions rejoins),
``onLeaderElected`` (a static leader that rejoins assigns nothing, KIP-814; before, it believed to be a follower),
``GroupCoordinator.updateStaticMemberAndRebalance``; 2.6.3 ``AbstractCoordinator.joinGroupIfNeeded``; 4.0 to 4.3
``GroupMetadataManager.convertToClassicGroup`` (a rebalance only without a joining member, since 4.0.2 and 4.1.1 also
after a new subscription), ``convertToConsumerGroup`` and ``consumerGroupHeartbeat`` (a new epoch only for a new
subscription or new metadata).
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from kemu.actors.machine import Received, Send
from kemu.emulator.facts import Seen, received, sent
from kemu.protocol.messages.data import MetadataReply
from kemu.protocol.messages.group import JoinGroup, SyncGroup
from kemu.protocol.messages.member import subscribed_topics
from kemu.protocol.names import CLASSIC, CONSUMER, ActorName, GroupId, MemberId, TopicPartition, is_real_client
from kemu.protocol.notes.consumer_groups import GroupConverted, MemberReconciled
from kemu.protocol.notes.groups import AssignmentReceived, GroupBecame


class _Owner(Protocol):
    """The fields of the panel's holdings that this module reads."""

    life: int
    owned: dict[TopicPartition, None]


class _SentAssignment(NamedTuple):
    """An assignment by a leader, and the leader's known number of partitions of each topic."""

    generation: int
    leader: ActorName
    leader_id: MemberId
    known: Mapping[str, int]


class _Taken(NamedTuple):
    """The last assignment of a member in a generation."""

    member_id: MemberId
    revokes: tuple[TopicPartition, ...] = ()
    """Partitions that the member had to revoke for this assignment."""
    topics: tuple[str, ...] = ()
    """The topics of the member's last JoinGroup."""


class _Generation:
    """The newest generation of a group in which a member received an assignment."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.taken: dict[ActorName, _Taken] = {}
        self.forgotten: dict[TopicPartition, ActorName] = {}
        """Partition -> member that rejoined under another id. Before, the member had to revoke the partition, led this
        generation without knowing the partition, or did not subscribe to its topic."""


class ForgottenRebalances:
    """The withheld partitions of all groups. The handlers of this class run before the panel takes the fact.

    Args:
        holdings: the panel's holdings.
    """

    def __init__(self, holdings: Mapping[ActorName, _Owner]) -> None:
        self._holdings = holdings
        self._groups: dict[GroupId, _Generation] = {}
        self._metadata: dict[ActorName, dict[str, int]] = {}
        """Member -> topic -> number of partitions in the member's last Metadata answer."""
        self._asked: dict[ActorName, tuple[str, ...]] = {}
        """Member -> the topics of its last JoinGroup."""
        self._sent: dict[GroupId, _SentAssignment] = {}
        self._held: dict[tuple[GroupId, MemberId], tuple[TopicPartition, ...]] = {}
        """Member of the consumer protocol's coordinator -> its partitions."""
        self._states: dict[GroupId, str] = {}
        self._conversions: dict[GroupId, tuple[int, dict[TopicPartition, None]]] = {}
        """Group that a static member converted without a rebalance -> (generation, partitions that the remaining
        members held then, or that a member has received since)."""
        self.on: dict[type, Callable[[Seen, Any], None]] = {
            AssignmentReceived: self._received,
            GroupBecame: self._became,
            GroupConverted: self._converted,
            MemberReconciled: self._reconciled,
            received(MetadataReply): self._metadata_answered,
            sent(JoinGroup): self._join_sent,
            sent(SyncGroup): self._assignment_sent,
        }

    def of(self, group: GroupId, generation: int) -> Mapping[TopicPartition, ActorName]:
        """Partition that no rebalance will assign in this generation -> member that does not request a rebalance."""
        known = self._groups.get(group)
        return {} if known is None or known.number != generation else known.forgotten

    def given_since_conversion(self, group: GroupId, generation: int) -> Mapping[TopicPartition, None] | None:
        """The partitions that members hold or have received, if a conversion without a rebalance changed the group's
        protocol in this generation; None without such a conversion. No member will ask for other partitions.
        """
        converted, given = self._conversions.get(group, (-1, {}))
        return given if converted == generation else None

    def _became(self, seen: Seen, fact: GroupBecame) -> None:
        self._states[fact.group] = fact.new

    def _reconciled(self, seen: Seen, fact: MemberReconciled) -> None:
        self._held[fact.group, fact.member_id] = fact.assigned
        if fact.group in self._conversions:
            self._conversions[fact.group][1].update(dict.fromkeys(fact.assigned))

    def _converted(self, seen: Seen, fact: GroupConverted) -> None:
        self._conversions.pop(fact.group, None)
        rebalances = self._states.get(fact.group) in ("PreparingRebalance", "CompletingRebalance")
        if fact.protocol != CLASSIC and rebalances:
            self._conversions[fact.group] = fact.generation, {}
        elif fact.protocol == CLASSIC and fact.state == "Stable":
            held = [at for member_id in fact.members for at in self._held.get((fact.group, member_id), ())]
            self._conversions[fact.group] = fact.generation, dict.fromkeys(held)

    def _metadata_answered(self, seen: Seen, fact: Received) -> None:
        # A real client is a connection, which does not live as long as the member. Clients ignore a response without
        # brokers (``NetworkClient.DefaultMetadataUpdater``).
        if is_real_client(seen.actor) or not fact.message.brokers:
            return
        metadata = self._metadata.setdefault(seen.actor, {})
        metadata.update({topic.topic: len(topic.partitions) for topic in fact.message.topics})

    def _join_sent(self, seen: Seen, fact: Send) -> None:
        if is_real_client(seen.actor):
            return
        first = fact.message.protocols[:1]
        is_consumer = fact.message.protocol_type == CONSUMER
        self._asked[seen.actor] = subscribed_topics(first[0].metadata) if first and is_consumer else ()

    def _assignment_sent(self, seen: Seen, fact: Send) -> None:
        request = fact.message
        if request.assignments:
            known = dict(self._metadata.get(seen.actor, {}))
            self._sent[request.group] = _SentAssignment(request.generation, seen.actor, request.member_id, known)

    def _unknown_then(self, seen: Seen, fact: AssignmentReceived) -> list[TopicPartition]:
        """Partitions that the leader did not know at the assignment, and knows after its rejoin."""
        sent_assignment = self._sent.get(fact.group)
        if sent_assignment is None or (sent_assignment.generation, sent_assignment.leader) != (
            fact.generation,
            seen.actor,
        ):
            return []
        if fact.member_id == sent_assignment.leader_id:  # the leader asks for a rebalance
            return []
        metadata = self._metadata.get(seen.actor, {}).items()
        return [
            (topic, number) for topic, count in metadata for number in range(sent_assignment.known.get(topic, 0), count)
        ]

    def _not_subscribed_then(self, actor: ActorName, group: _Generation) -> list[TopicPartition]:
        """Partitions of the topics to which only this member is subscribed, and only since its rejoin."""
        before = {topic for each in group.taken.values() for topic in each.topics}
        counts = self._metadata.get(actor, {})
        added = [topic for topic in self._asked.get(actor, ()) if topic not in before]
        return [(topic, number) for topic in added for number in range(counts.get(topic, 0))]

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        group = self._groups.get(fact.group)
        if group is None or group.number != fact.generation:
            group = self._groups[fact.group] = _Generation(fact.generation)
        before = group.taken.get(seen.actor, _Taken(fact.member_id))
        holding = self._holdings.get(seen.actor)
        owned = holding.owned if holding is not None and holding.life == seen.life else {}
        received = set(fact.partitions)
        revokes = [at for at in owned if at not in received]
        if before.member_id == fact.member_id:
            revokes += before.revokes
        else:
            forgotten = (*before.revokes, *self._not_subscribed_then(seen.actor, group))
            group.forgotten.update(dict.fromkeys(forgotten, seen.actor))
        group.forgotten.update(dict.fromkeys(self._unknown_then(seen, fact), seen.actor))
        for at in fact.partitions:
            group.forgotten.pop(at, None)
        topics = self._asked.get(seen.actor, ())
        group.taken[seen.actor] = _Taken(fact.member_id, tuple(dict.fromkeys(revokes)), topics)
        if self.given_since_conversion(fact.group, fact.generation) is not None:
            self._conversions[fact.group][1].update(dict.fromkeys(fact.partitions))
