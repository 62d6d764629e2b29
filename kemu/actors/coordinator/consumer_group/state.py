"""The state of a group with the consumer protocol, changed only by records (KIP-848).

The coordinator replays the records of a request at once and writes them later. ``apply`` returns the record that undoes
a record, for a write that fails.

Source: Kafka 4.1 ``ConsumerGroup``, ``ModernGroup``, ``GroupMetadataManager.replay``.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias, TypeVar

from kemu.protocol.consumer_group.reconciling import CurrentAssignment
from kemu.protocol.consumer_group.shares import NOTHING, Share, TimelineTable, replayed
from kemu.protocol.consumer_group.states import ConsumerGroupState, Partition, ReconcilingState, Topic, TopicId
from kemu.protocol.frozen import frozen
from kemu.protocol.messages.group import JoinProtocol
from kemu.protocol.names import CONSUMER, GroupId, MemberId

V = TypeVar("V")


@frozen
class ClassicMetadata:
    """The part of a member that speaks the classic protocol: its last JoinGroup, the preferred protocol first."""

    session_timeout_ms: int
    protocols: tuple[JoinProtocol, ...]


@frozen
class ConsumerMember:
    """The subscription and identity of a member.

    ``topics``: the names, sorted. ``regex``: "" without a pattern. ``classic``: None for a member that speaks the
    consumer protocol.
    """

    member_id: MemberId
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] = ()
    regex: str = ""
    assignor: str = ""
    classic: ClassicMetadata | None = None


# --- records -------------------------------------------------------------------------------------------------------


@frozen
class GroupEpochRecord:
    """The group's epoch; 0 removes the record. ``metadata_hash``: of the subscribed topics; 0 up to 4.0."""

    epoch: int
    metadata_hash: int = 0


@frozen
class TopicsRecord:
    """The subscribed topics at the last change of the group's epoch; no topic removes the record. Up to 4.0."""

    topics: tuple[Topic, ...]


@frozen
class MemberRecord:
    """A member; None removes the record."""

    member_id: MemberId
    member: ConsumerMember | None


@frozen
class TargetEpochRecord:
    """The epoch of the targets; 0 removes the record. ``at_ms``: the time of the targets; 0 up to 4.2."""

    epoch: int
    at_ms: int = 0


@frozen
class TargetRecord:
    """A member's target; None removes the record."""

    member_id: MemberId
    share: Share | None


@frozen
class CurrentRecord:
    """A member's current assignment; None removes the record."""

    member_id: MemberId
    current: CurrentAssignment | None


@frozen
class RegexRecord:
    """The topics that match a pattern, sorted; None removes the record.

    ``at_ms``: the time of the match. ``version``: in Kafka an offset of the metadata log; kemu counts the changes of
    the cluster's topics that this coordinator knows.
    """

    regex: str
    topics: tuple[str, ...] | None
    at_ms: int = 0
    version: int = 0


GroupRecord: TypeAlias = (
    GroupEpochRecord | TopicsRecord | MemberRecord | TargetEpochRecord | TargetRecord | CurrentRecord | RegexRecord
)


# --- state ---------------------------------------------------------------------------------------------------------


class ConsumerGroup:
    """The members, targets and current assignments of one group.

    ``holds_returned``: a rule of the coordinator (``GroupRules.holds_returned_partitions``).
    """

    def __init__(self, name: GroupId, *, holds_returned: bool = True) -> None:
        self.name = name
        self._holds_returned = holds_returned
        self.epoch = 0
        self.is_converted = False
        """Whether the group began with the generation of a classic group, which is 0 before a first generation."""
        self.target_epoch = 0
        self.target_at_ms = 0
        """The time of the targets; 0 if the log does not tell the time."""
        self.topics: tuple[Topic, ...] = ()
        """The subscribed topics, as the coordinator knew them at the last change of the group's epoch. Up to 4.0."""
        self.metadata_hash = 0
        """The hash of these topics, since 4.1."""
        self.members: dict[MemberId, ConsumerMember] = {}
        self.static: dict[str, MemberId] = {}
        """Instance id -> member."""
        self.targets: dict[MemberId, Share] = {}
        self.current: dict[MemberId, CurrentAssignment] = {}
        self.regexes: dict[str, RegexRecord] = {}
        """The resolved patterns."""
        self.regex_users: dict[str, int] = {}
        """Pattern -> number of members that subscribe to the pattern."""
        self._holders: dict[Partition, MemberId] = {}
        self._table = TimelineTable()

    @property
    def state(self) -> ConsumerGroupState:
        """The group's state. Source: ``ConsumerGroup.maybeUpdateGroupState``."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self._is_stable(member_id) for member_id in self.members):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def listed(self) -> list[MemberId]:
        """The members in the order in which the coordinator visits them."""
        return self._table.ordered(self.members)

    def insert_again(self, order: Iterable[MemberId]) -> None:
        """Change the order in which members were inserted: first those members of ``order`` that are left."""
        self.members = {**{each: self.members[each] for each in order if each in self.members}, **self.members}

    def is_free(self, partition: Partition) -> bool:
        """Whether no member holds this partition."""
        return partition not in self._holders

    def free_now(self) -> Callable[[Partition], bool]:
        """``is_free`` as it is now, whatever changes later."""
        holders = dict(self._holders)
        return lambda partition: partition not in holders

    def current_of(self, member_id: MemberId) -> CurrentAssignment:
        """A member's current assignment; a new member has none."""
        return self.current.get(member_id) or CurrentAssignment()

    def target_of(self, member_id: MemberId) -> Share:
        """A member's target."""
        return self.targets.get(member_id, NOTHING)

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether every classic member supports one of these protocols. A protocol that a member names twice counts
        twice.

        Source: ``ConsumerGroup.supportsClassicProtocols``, ``maybeUpdateClassicProtocolMembersSupportedProtocols``.
        """
        classic = [member.classic for member in self.members.values() if member.classic is not None]
        named = [each.name for one in classic for each in one.protocols]
        return protocol_type == CONSUMER and any(named.count(name) == len(classic) for name in names)

    def is_classic_without(self, leaving: Collection[MemberId]) -> bool:
        """Whether all other members speak the classic protocol."""
        rest = [member for member_id, member in self.members.items() if member_id not in leaving]
        return all(member.classic is not None for member in rest)

    def _is_stable(self, member_id: MemberId) -> bool:
        current = self.current_of(member_id)
        return current.state is ReconcilingState.STABLE and current.epoch == self.target_epoch

    def apply(self, record: GroupRecord) -> GroupRecord:
        """Change the state; return the record that undoes the change."""
        match record:
            case GroupEpochRecord(epoch=epoch, metadata_hash=metadata_hash):
                undo: GroupRecord = GroupEpochRecord(self.epoch, self.metadata_hash)
                self.epoch, self.metadata_hash = epoch, metadata_hash
            case TopicsRecord(topics=topics):
                undo = TopicsRecord(self.topics)
                self.topics = topics
            case TargetEpochRecord(epoch=epoch, at_ms=at_ms):
                undo = TargetEpochRecord(self.target_epoch, self.target_at_ms)
                self.target_epoch, self.target_at_ms = epoch, at_ms
            case MemberRecord(member_id=member_id, member=member):
                undo = MemberRecord(member_id, self.members.get(member_id))
                self._set_member(member_id, member)
            case TargetRecord(member_id=member_id, share=share):
                undo = TargetRecord(member_id, self.targets.get(member_id))
                _set(self.targets, member_id, None if share is None else replayed(share))
            case CurrentRecord(member_id=member_id, current=current):
                undo = CurrentRecord(member_id, self.current.get(member_id))
                self._set_current(member_id, current)
            case RegexRecord(regex=regex, topics=names):
                undo = self.regexes.get(regex) or RegexRecord(regex, None)
                _set(self.regexes, regex, None if names is None else record)
        return undo

    def _set_member(self, member_id: MemberId, member: ConsumerMember | None) -> None:
        before = self.members.get(member_id)
        if before is not None and before.instance_id is not None and self.static.get(before.instance_id) == member_id:
            del self.static[before.instance_id]
        if before is None and member is not None:
            self._table.put(len(self.members))
        _set(self.members, member_id, member)
        for who, step in ((before, -1), (member, 1)):
            if who is not None and who.regex:
                count = self.regex_users.get(who.regex, 0) + step
                _set(self.regex_users, who.regex, count or None)
        if member is not None and member.instance_id is not None:
            self.static[member.instance_id] = member_id

    def _set_current(self, member_id: MemberId, current: CurrentAssignment | None) -> None:
        before = self.current.get(member_id)
        for partition in () if before is None else (*before.assigned, *before.revoking):
            if self._holders.get(partition) == member_id:
                del self._holders[partition]
        _set(self.current, member_id, current)
        if current is not None:
            self._holders.update(dict.fromkeys((*current.assigned, *current.revoking), member_id))
            if before is not None and not self._holds_returned:
                for partition in before.revoking:
                    if partition in current.assigned:
                        del self._holders[partition]


class RecordedChange:
    """Records that are applied to a group one by one."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[GroupRecord] = []
        self.undo: list[GroupRecord] = []

    def add(self, record: GroupRecord) -> None:
        """Apply a record."""
        self.undo.insert(0, self.group.apply(record))
        self.records.append(record)

    def revert(self) -> None:
        """Undo all records."""
        for record in self.undo:
            self.group.apply(record)


def _set(where: dict[str, V], key: str, value: V | None) -> None:
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value


def share_of(partitions: Iterable[Partition]) -> Share:
    """Partitions by topic, in the order given."""
    found: dict[TopicId, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return {topic: tuple(numbers) for topic, numbers in found.items()}
