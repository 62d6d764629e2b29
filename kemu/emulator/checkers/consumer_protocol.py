"""Groups with the consumer protocol (KIP-848): epochs, owners and fencing.

In a group that is converted from or to the classic protocol, a classic member's epoch is its generation. Facts of the
time as a classic group count for the members only.

- epoch-fell: at one coordinator the epochs of a group and of its target rise, and the target is not ahead of the group.
  The epoch of a member rises until the member rejoins, leaves, or restarts.
- held-twice: the coordinator lets one member at a time hold a partition: assigned, or not given up yet.
- assigned-too-soon: a member takes a partition only after its former owner gave up the partition, or after the
  coordinator removed the former owner. A removed member may take partitions by an answer that was late. A heartbeat
  may state an assignment that is older than the member's newest one: adopted before the member knew a topic, or sent
  late because another heartbeat was in flight. If the target has changed, the coordinator takes a partition that the
  heartbeat does not list for revoked. The member takes the partition by its newest assignment all the same.
- assigned-unsubscribed: the coordinator gives a member only partitions of topics that the member subscribes to, or did
  before: by name, or by a regular expression that matches the topic. The target may be older than a new subscription,
  and a static member takes over the target of its former process.
- stale-commit: a commit is accepted if it has the member's epoch. Since 4.3 a commit with an older epoch is also
  accepted, if the member got all its partitions at that epoch or before. Other commits are refused.

A disk that loses records of the groups' log may lose epochs and members, too; such runs are not judged further.

Source: Kafka 4.0 to 4.3 ``ConsumerGroup``, ``CurrentAssignmentBuilder``, ``GroupMetadataManager``.
"""

from itertools import count
from typing import Self

from kemu.actors.coordinator.rules import rules_of_kind
from kemu.actors.machine import Received, Send
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import DiskTailLost, Seen, received, sent
from kemu.emulator.watching.settings import Settings
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat
from kemu.protocol.messages.group import JoinGroup, OffsetCommit
from kemu.protocol.messages.member import subscribed_topics
from kemu.protocol.names import OFFSETS_TOPIC, ActorName, GroupId, MemberId, TopicPartition, is_real_client
from kemu.protocol.notes.consumer_groups import GroupConverted, GroupEpochsChanged, MemberReconciled
from kemu.protocol.notes.groups import (
    AssignmentReceived,
    GroupBecame,
    GroupLoaded,
    GroupRequestAnswered,
    GroupRequestRead,
    MemberBecame,
    MemberRemoved,
    PartitionsAssigned,
)
from kemu.protocol.topic_pattern import TopicPattern, wrong_pattern

_E = ErrorCode
_ACKNOWLEDGING = "ACKNOWLEDGING"
"""State of a member that adopted an assignment, and whose acknowledgement is not sent yet."""
RESTS = ("JOINING", "LEAVING", "UNSUBSCRIBED", "FENCED", "STALE", "UNJOINED", "PREPARING_REBALANCE")
"""States of a member in which its next epoch may be lower, in both protocols."""
_ENDED = ("CLOSED", "FAILED")
"""States of an ended member, which has no epoch."""
_NOT_CURRENT = (_E.STALE_MEMBER_EPOCH, _E.ILLEGAL_GENERATION)
"""The errors of a commit with another epoch than the member's, in each protocol."""
Speaker = tuple[ActorName, int, GroupId]
Request = tuple[ActorName, int, int]


class _Group:
    """A group as one life of a coordinator reported it."""

    def __init__(self) -> None:
        self.epochs = (0, 0)
        self.held: dict[MemberId, tuple[TopicPartition, ...]] = {}
        self.holder: dict[TopicPartition, MemberId] = {}
        self.member_epoch: dict[MemberId, int] = {}
        self.since: dict[MemberId, dict[TopicPartition, int]] = {}
        """Member -> the epoch at which the member got each of its partitions."""
        self.is_loaded = False
        """Whether the coordinator loaded the group, so that such epochs are unknown."""

    def hold(self, member_id: MemberId, partitions: tuple[TopicPartition, ...], epoch: int = 0) -> None:
        before = self.since.get(member_id, {}) if epoch > 0 else {}
        self.since[member_id] = {at: before.get(at, max(epoch, 0)) for at in partitions}
        for at in self.held.pop(member_id, ()):
            if self.holder.get(at) == member_id:
                del self.holder[at]
        self.held[member_id] = partitions
        self.holder.update(dict.fromkeys(partitions, member_id))


class _Told:
    """The names and the regular expressions that a member has subscribed to since its join."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.patterns: dict[str, TopicPattern] = {}

    def has(self, topic: str) -> bool:
        return topic in self.names or any(pattern.matches(topic) for pattern in self.patterns.values())


class ConsumerProtocol(Checker):
    """Judges groups with the consumer protocol."""

    name = "consumer-protocol"
    kinds = ("assigned-too-soon", "assigned-unsubscribed", "epoch-fell", "held-twice", "stale-commit")

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._settings = settings
        self._groups: dict[Speaker, _Group] = {}
        self._reached: dict[tuple[ActorName, int], int] = {}
        """Member's life -> its highest epoch since the last rejoin."""
        self._told: dict[tuple[GroupId, MemberId], _Told] = {}
        """The subscriptions of each member of the consumer protocol."""
        self._told_by_instance: dict[tuple[GroupId, str], _Told] = {}
        """(group, instance id) -> the subscriptions of all members with this instance id."""
        self._arrived: dict[tuple[ActorName, Request], tuple[TopicPartition, ...]] = {}
        """(coordinator, request) of a commit that the coordinator has not read yet -> its partitions."""
        self._commits: dict[tuple[ActorName, Request], tuple[GroupId, MemberId, bool]] = {}
        """(coordinator, request) of an unanswered commit -> (group, member, whether it must be accepted)."""
        self._facts = count(1)
        """Numbers of the facts about assignments of members, in order; some are at the same time."""
        self._given: dict[tuple[ActorName, int], dict[TopicPartition, int]] = {}
        """Member's life -> partition -> the fact by which the partition last became a part of its assignment."""
        self._newest: dict[tuple[ActorName, int], tuple[TopicPartition, ...]] = {}
        """Member's life -> the partitions of its newest assignment."""
        self._adopted: dict[tuple[ActorName, int], int] = {}
        """Member's life -> the fact that it adopted its present assignment."""
        self._sent: dict[tuple[ActorName, int], int] = {}
        """(member, request) of an acknowledgement that no coordinator has read -> the fact of its assignment."""
        self._reads: tuple[int, int] = (-1, 0)
        """The last step in which a coordinator read an acknowledgement, and the fact of its assignment."""
        self._freed: dict[tuple[GroupId, MemberId], dict[TopicPartition, int]] = {}
        """Member -> partition that an acknowledgement freed -> the fact of its assignment."""
        self._took: dict[tuple[ActorName, int], dict[TopicPartition, int]] = {}
        """Member's life -> partition -> the fact that the member last took the partition."""
        self.on = {
            sent(ConsumerGroupHeartbeat): self._acknowledges,
            received(OffsetCommit): self._commit_arrived,
            received(ConsumerGroupHeartbeat): self._subscribes,
            received(JoinGroup): self._joins,
            GroupEpochsChanged: self._epochs_changed,
            GroupLoaded: self._begins,
            GroupConverted: self._begins,
            GroupBecame: self._group_became,
            MemberReconciled: self._reconciled,
            MemberRemoved: self._removed,
            MemberBecame: self._became,
            AssignmentReceived: self._received,
            PartitionsAssigned: self._assigned,
            GroupRequestRead: self._read,
            GroupRequestAnswered: self._answered,
            DiskTailLost: self._lost_tail,
        }

    @classmethod
    def for_run(cls, settings: Settings) -> Self:
        """Create the checker of a run with these settings."""
        return cls(settings)

    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:
        if fact.log.startswith(OFFSETS_TOPIC):
            self.at_rest()

    def _group(self, seen: Seen, name: GroupId) -> _Group:
        key = seen.actor, seen.life, name
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group()
        return group

    def _is_judged(self, name: GroupId) -> bool:
        return name in self.consumer_protocol_groups

    # --- the coordinator ---------------------------------------------------------------------------------------

    def _begins(self, seen: Seen, fact: GroupLoaded | GroupConverted | GroupBecame) -> None:
        if self._is_judged(fact.group):
            group = self._groups[seen.actor, seen.life, fact.group] = _Group()
            group.is_loaded = True

    def _group_became(self, seen: Seen, fact: GroupBecame) -> None:
        if fact.new == "Dead":
            self._begins(seen, fact)

    def _epochs_changed(self, seen: Seen, fact: GroupEpochsChanged) -> None:
        group, now = self._group(seen, fact.group), (fact.epoch, fact.target_epoch)
        if fact.epoch < group.epochs[0] or fact.target_epoch < group.epochs[1] or fact.target_epoch > fact.epoch:
            text = f"the epochs of group and target went from {group.epochs} to {now}"
            self._say(seen, "epoch-fell", fact.group, text)
        group.epochs = now

    def _reconciled(self, seen: Seen, fact: MemberReconciled) -> None:
        group = self._group(seen, fact.group)
        for at in (*fact.assigned, *fact.revoking):
            other = group.holder.get(at, fact.member_id)
            if other != fact.member_id:
                text = f"{at[0]}-{at[1]} is held by {fact.member_id} and by {other}"
                self._say(seen, "held-twice", fact.group, text, f"{at[0]}-{at[1]}")
        self._judge_subscription(seen, fact, group.held.get(fact.member_id, ()))
        self._note_freed(seen, fact, group.held.get(fact.member_id, ()))
        group.hold(fact.member_id, (*fact.assigned, *fact.revoking), fact.epoch)
        group.member_epoch[fact.member_id] = fact.epoch

    def _note_freed(self, seen: Seen, fact: MemberReconciled, held: tuple[TopicPartition, ...]) -> None:
        freed = self._freed.setdefault((fact.group, fact.member_id), {})
        for at in (*fact.assigned, *fact.revoking):
            freed.pop(at, None)
        seq, adopted = self._reads
        if seq == seen.seq:
            freed.update({at: adopted for at in held if at not in fact.assigned and at not in fact.revoking})

    def _removed(self, seen: Seen, fact: MemberRemoved) -> None:
        if self._is_judged(fact.group):
            group = self._group(seen, fact.group)
            group.hold(fact.member_id, ())
            group.member_epoch.pop(fact.member_id, None)
            group.since.pop(fact.member_id, None)

    # --- subscriptions -------------------------------------------------------------------------------------------

    def _subscribes(self, seen: Seen, fact: Received) -> None:
        request: ConsumerGroupHeartbeat = fact.message
        if request.owned is not None:
            self._reads = seen.seq, self._sent.pop((fact.peer, fact.request_id), 0)
        if not request.member_id or (request.topics is None and request.regex is None):
            return
        if request.instance_id is not None:
            told = self._told_by_instance.setdefault((request.group, request.instance_id), _Told())
            self._told[request.group, request.member_id] = told
        else:
            told = self._told.setdefault((request.group, request.member_id), _Told())
        told.names.update(dict.fromkeys(request.topics or ()))
        if request.regex and not wrong_pattern(request.regex, of_broker=True):
            told.patterns[request.regex] = TopicPattern(request.regex, of_broker=True)

    def _joins(self, seen: Seen, fact: Received) -> None:
        request: JoinGroup = fact.message
        if request.instance_id is not None and self._is_judged(request.group):
            told = self._told_by_instance.setdefault((request.group, request.instance_id), _Told())
            for protocol in request.protocols:
                told.names.update(dict.fromkeys(subscribed_topics(protocol.metadata)))

    def _judge_subscription(self, seen: Seen, fact: MemberReconciled, held: tuple[TopicPartition, ...]) -> None:
        told = self._told.get((fact.group, fact.member_id))
        new = [at for at in fact.assigned if at not in held] if told is not None else []
        for topic in dict.fromkeys(topic for topic, _ in new):
            if told is not None and not told.has(topic):
                text = f"{fact.member_id} gets partitions of {topic}, which it does not subscribe to"
                self._say(seen, "assigned-unsubscribed", fact.group, text, topic)

    # --- commits -----------------------------------------------------------------------------------------------

    def _commit_arrived(self, seen: Seen, fact: Received) -> None:
        if self._is_judged(fact.message.group):
            request = seen.actor, (fact.peer, fact.connection, fact.request_id)
            self._arrived[request] = tuple(map(self.panel.topic_names.partition_of, fact.message.offsets))

    def _read(self, seen: Seen, fact: GroupRequestRead) -> None:
        if fact.api != "OffsetCommit" or not self._is_judged(fact.group):
            return
        member_id, _ = fact.ids[0]
        request = seen.actor, (fact.client, fact.connection, fact.request_id)
        partitions = self._arrived.pop(request, ())
        group = self._group(seen, fact.group)
        epoch = group.member_epoch.get(member_id)
        if epoch is None:
            return
        is_valid = epoch == fact.generation
        if 0 <= fact.generation < epoch and self._keeps_partition_epochs(seen.actor):
            if group.is_loaded:
                return
            since = group.since[member_id]
            is_valid = all(at in since and since[at] <= fact.generation for at in partitions)
        self._commits[request] = fact.group, member_id, is_valid

    def _keeps_partition_epochs(self, coordinator: ActorName) -> bool:
        if self._settings is None:
            return False
        kind = dict(self._settings.scenario.brokers.config).get("coordinator_kind")
        kind = kind or self._settings.broker_profile(coordinator).broker.coordinator_kind
        return rules_of_kind(str(kind)).consumer_groups.keeps_partition_epochs

    def _answered(self, seen: Seen, fact: GroupRequestAnswered) -> None:
        if not self._commits:
            return
        request = seen.actor, (fact.client, fact.connection, fact.request_id)
        group, member_id, is_valid = self._commits.pop(request, ("", "", False))
        if group and fact.error in (_E.NONE, *_NOT_CURRENT) and is_valid is not (fact.error is _E.NONE):
            which = "a valid epoch" if is_valid else "an epoch that is not valid"
            text = f"a commit of {member_id} with {which} is answered with {fact.error.name}"
            self._say(seen, "stale-commit", group, text)

    # --- members -----------------------------------------------------------------------------------------------

    def _became(self, seen: Seen, fact: MemberBecame) -> None:
        if self._is_judged(fact.group):
            rests = fact.new in (*RESTS, *_ENDED) or fact.generation < 0
            if fact.new == _ACKNOWLEDGING:
                self._adopted[seen.actor, seen.life] = next(self._facts)
            elif rests:
                self._adopted.pop((seen.actor, seen.life), None)
                self._newest.pop((seen.actor, seen.life), None)
            self._reach(seen, fact.group, 0 if rests else fact.generation, rests=rests)

    def _received(self, seen: Seen, fact: AssignmentReceived) -> None:
        if self._is_judged(fact.group):
            self._reach(seen, fact.group, fact.generation)
            life = seen.actor, seen.life
            before = self._newest.get(life, ())
            number = next(self._facts)
            self._given.setdefault(life, {}).update({at: number for at in fact.partitions if at not in before})
            self._newest[life] = fact.partitions

    def _reach(self, seen: Seen, group: GroupId, epoch: int, *, rests: bool = False) -> None:
        if is_real_client(seen.actor):  # it reports neither its states nor its rejoins
            return
        life = seen.actor, seen.life
        before = self._reached.get(life, 0)
        if epoch < before and not rests:
            self._say(seen, "epoch-fell", group, f"the epoch of {seen.actor} went from {before} to {epoch}")
        self._reached[life] = epoch

    def _acknowledges(self, seen: Seen, fact: Send) -> None:
        if fact.message.owned is not None:
            adopted = self._adopted.get((seen.actor, seen.life))
            self._sent[seen.actor, fact.request_id] = next(self._facts) if adopted is None else adopted

    def _is_freed_by_older(
        self, life: tuple[ActorName, int], member: tuple[GroupId, MemberId], at: TopicPartition
    ) -> bool:
        """Whether the coordinator freed the partition by a heartbeat that states an assignment which the member adopted
        before it got this partition, and the member took the partition later. It may take the partition after its next
        owner, too.

        Source: Kafka 4.0 to 4.3 ``AbstractMembershipManager.maybeReconcile``, ``ConsumerHeartbeatRequestManager.
        buildRequestData``, ``CurrentAssignmentBuilder.computeNextAssignment``.
        """
        freed, given = self._freed.get(member, {}).get(at), self._given.get(life, {}).get(at)
        if freed is None or given is None:
            return False
        return freed < given < self._took.get(life, {}).get(at, -1)

    def _assigned(self, seen: Seen, fact: PartitionsAssigned) -> None:
        if not self.consumer_protocol_groups:
            return
        taker, taker_member = (seen.actor, seen.life), (fact.group, fact.member_id)
        self._took.setdefault(taker, {}).update(dict.fromkeys(self.panel.gained, next(self._facts)))
        if not self._is_judged(fact.group) or self.panel.asks_deposed(seen):
            return
        known = self.panel.memberships.groups.get(fact.group)
        if known is not None and fact.member_id not in known.entries:
            return  # the answer was late: the coordinator fences the member at its next heartbeat
        added = frozenset(self.panel.gained)
        for actor, holding in self.panel.holdings.items():
            if actor == seen.actor or holding.group != fact.group or holding.has_left:
                continue
            if known is not None and holding.member_id not in known.entries:
                continue
            for at in holding.owned:
                life, member = (actor, holding.life), (fact.group, holding.member_id)
                is_freed = self._is_freed_by_older(life, member, at) or self._is_freed_by_older(taker, taker_member, at)
                if at in added and not is_freed:
                    name = f"{at[0]}-{at[1]}"
                    text = f"{seen.actor} takes {name} before {actor}, which is still a member, gave it up"
                    self._say(seen, "assigned-too-soon", fact.group, text, name, actor)

    def _say(self, seen: Seen, kind: str, group: GroupId, text: str, *entities: str) -> None:
        self.violation(seen, kind, (group, seen.actor, *entities), f"group {group}: {text}")
