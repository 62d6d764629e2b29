"""One group with the consumer protocol at its coordinator: state, writes in progress, and timers (KIP-848).

A heartbeat changes the working state at once. The answer waits for the write of the heartbeat's records. Descriptions
and fetches of offsets see the committed state, whose records are in the log. A failed append undoes the change, and the
later changes that are still being written. A write that only lasts too long undoes nothing, since its records may reach
the log.

Source: Kafka 4.0 ``GroupMetadataManager``, ``CoordinatorRuntime``, ``ConsumerGroup.validateOffsetCommit``,
``validateOffsetFetch``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial

from kemu.actors.coordinator.consumer_group.heartbeats import ClassicJoined, Heard, removed
from kemu.actors.coordinator.consumer_group.regexes import RESOLUTION_US
from kemu.actors.coordinator.consumer_group.state import (
    ConsumerGroup,
    ConsumerMember,
    CurrentRecord,
    GroupEpochRecord,
    GroupRecord,
    MemberRecord,
    RegexRecord,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
    share_of,
)
from kemu.actors.coordinator.consumer_group.stored import encoded
from kemu.actors.coordinator.group import Group
from kemu.actors.coordinator.log import OffsetsPartition, Write
from kemu.actors.coordinator.members import NoCommonProtocol
from kemu.actors.coordinator.migration import downgraded, may_downgrade
from kemu.actors.coordinator.offsets import MS_PER_MINUTE, GroupOffsets
from kemu.actors.coordinator.second_log import SecondLogs
from kemu.actors.coordinator.shared_state import GroupMachine
from kemu.actors.coordinator.state import GroupState
from kemu.actors.coordinator.timers import GroupTimer, session_key
from kemu.actors.machine import US_PER_MS, Record, TimerKey
from kemu.protocol.config import GROUP_PROTOCOLS
from kemu.protocol.consumer_group.reconciling import CurrentAssignment
from kemu.protocol.consumer_group.shares import Share
from kemu.protocol.consumer_group.states import ConsumerGroupState, Partition, ReconcilingState
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import DescribedConsumer, DescribedConsumerGroup, NamedTopicNumbers
from kemu.protocol.messages.group import DescribedGroup
from kemu.protocol.messages.records import group_record
from kemu.protocol.messages.refusals import described_dead
from kemu.protocol.names import CONSUMER, ActorName, GroupId, MemberId, TopicPartition
from kemu.protocol.notes.consumer_groups import GroupConverted, GroupEpochsChanged, MemberReconciled
from kemu.protocol.notes.groups import (
    GroupBecame,
    GroupLoaded,
    GroupUnloaded,
    JoinPhaseCompleted,
    MemberAdded,
    MemberRemoved,
    Removal,
)

CLASSIC_PROTOCOL, CONSUMER_PROTOCOL = GROUP_PROTOCOLS
_NONE = ErrorCode.NONE
_DEAD = "Dead"
_EPOCH_SINCE = 9
"""The first version of OffsetCommit and OffsetFetch with a member epoch."""
_TIMER_RETRY_US = 500_000
"""Source: ``CoordinatorRuntime.EventBasedCoordinatorTimer``: the backoff after a failed write of a timer."""
_REASONS: Mapping[GroupTimer, Removal] = {
    GroupTimer.REVOCATION: Removal.NOT_REVOKED,
    GroupTimer.MEMBER_JOIN: Removal.NOT_REJOINED,
    GroupTimer.MEMBER_SYNC: Removal.NOT_SYNCED,
}
"""Timer of ``GroupMachine.member_timers`` -> why its member is removed."""
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1
"""``MemberType`` of a member of each protocol."""


class _Change:
    """A change of the working state whose records are being written."""

    __slots__ = ("records", "reverted", "undo")

    def __init__(self, records: tuple[GroupRecord, ...], undo: tuple[GroupRecord, ...]) -> None:
        self.records = records
        self.undo = undo
        self.reverted = False


class ModernGroup:
    """One group with the consumer protocol at its coordinator. ``keep`` makes another group the group of this name."""

    def __init__(
        self,
        machine: GroupMachine,
        partition: OffsetsPartition,
        name: GroupId,
        keep: "Callable[[Group | ModernGroup], None]",
    ) -> None:
        self._machine = machine
        self._keep = keep
        self.name = name
        self.partition = partition
        holds_returned = machine.rules.holds_returned_partitions
        self.working = ConsumerGroup(name, holds_returned=holds_returned)
        """The state with all changes."""
        self.committed = ConsumerGroup(name, holds_returned=holds_returned)
        """The state with the changes that are in the log."""
        self.offsets = GroupOffsets()
        self.second = SecondLogs()
        self.is_stale = True
        """Whether subscribed topics may have changed since a heartbeat compared them with the cluster's."""
        self._compared_epoch = 0
        """The group's epoch at the end of the last comparison, also if the epoch could not be written."""
        self.has_new_topics = True
        """Whether topics may have been created since the group's regular expressions were resolved."""
        self.resolving: tuple[str, ...] = ()
        """The regular expressions that are being resolved."""
        self._told = ConsumerGroupState.EMPTY.value
        """The last reported state."""
        self._is_dead = False
        self._writing: list[_Change] = []
        """The changes that are being written, in order."""

    @property
    def state(self) -> ConsumerGroupState:
        """The group's state."""
        return self.working.state

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.working.members

    @property
    def must_compare_topics(self) -> bool:
        """Whether the next heartbeat compares the subscribed topics with the cluster's.

        Source: ``ModernGroup.hasMetadataExpired``: also after the write of an epoch failed.
        """
        return self.is_stale or self.working.epoch < self._compared_epoch

    def compared_topics(self, records: tuple[GroupRecord, ...]) -> None:
        """React to a heartbeat with these records, which compared topics if it had to or if it raised the epoch."""
        if self.must_compare_topics or any(isinstance(record, GroupEpochRecord) for record in records):
            self.is_stale, self._compared_epoch = False, self.working.epoch

    @property
    def protocol_type(self) -> str:
        """The protocol type in ListGroups."""
        return CONSUMER

    @property
    def is_written(self) -> bool:
        """Whether the log has the group."""
        return bool(self.committed.epoch or self.committed.members)

    @property
    def seen_state(self) -> str:
        """The state that admins see, which is that of the log."""
        return self.committed.state.value

    # --- changes -----------------------------------------------------------------------------------------------

    def write(
        self,
        records: tuple[GroupRecord, ...],
        undo: tuple[GroupRecord, ...],
        answer: Callable[[ErrorCode], None],
        first: Iterable[Record] = (),
        failed: Callable[[], None] | None = None,
    ) -> None:
        """Write a change that the working state has already; ``answer`` gets the outcome.

        Without records the answer waits for the earlier writes. ``first``: records of another kind of group, which the
        batch begins with. ``failed``: called instead of undoing the change after a failed append.
        """
        if not records:
            self._machine.writes.behind(self.partition, answer)
            return
        change = _Change(records, undo)
        self._writing.append(change)
        epochs = self._machine.rules.consumer_groups.keeps_partition_epochs
        data = (*first, *(encoded(self.name, record, epochs=epochs) for record in records))
        write = Write(
            partial(self._written, change, answer, failed),
            partial(answer, ErrorCode.NOT_COORDINATOR),
            partial(self._written_late, change, answer),
        )
        self._machine.writes.begin(self.partition, data, write)

    def _written(
        self,
        change: _Change,
        answer: Callable[[ErrorCode], None],
        failed: Callable[[], None] | None,
        error: ErrorCode,
        _base_offset: int,
    ) -> None:
        if error is _NONE:
            self._commit(change)
        elif failed is None:
            self._revert(change)
        else:
            failed()
        answer(error)

    def _written_late(
        self, change: _Change, answer: Callable[[ErrorCode], None], error: ErrorCode, _base_offset: int
    ) -> None:
        """Answer at the timeout; afterwards only the committed state learns that the records are in the log."""
        if error is _NONE:
            self._commit(change)
        else:
            answer(error)

    def _commit(self, change: _Change) -> None:
        if change in self._writing:
            self._writing.remove(change)
        for record in change.records:
            self.committed.apply(record)
            if change.reverted:
                self.working.apply(record)

    def _revert(self, change: _Change) -> None:
        """Undo a change and all later changes that are still being written: newest first."""
        if change.reverted:
            return
        place = self._writing.index(change)
        for later in reversed(self._writing[place:]):
            later.reverted = True
            for record in later.undo:
                self.working.apply(record)
        del self._writing[place:]
        self._become("a record could not be written")

    def heard(self, heard: Heard, session_ms: int) -> None:
        """React to a heartbeat that changed the working state: timers, and notes."""
        member_id = heard.member_id
        if heard.reply.member_epoch >= 0:
            self._machine.start_timer(session_key(self.name, member_id), session_ms * US_PER_MS)
        if heard.revokes:
            self._start(GroupTimer.REVOCATION, member_id)
        elif heard.revokes is False:
            self._stop(GroupTimer.REVOCATION, member_id)
        self._resolve_soon(heard.resolve)
        if heard.records:
            self._note(heard.records, heard.undo, self._why_heard(heard), Removal.LEFT, heard.assignor)

    def _why_heard(self, heard: Heard) -> str:
        """The reason of a heartbeat's changes: the member joined, changed its subscription, or only sent a heartbeat.

        A heartbeat that raises the epoch for none of these reasons found other topics.
        """
        who, now = self._member(heard.member_id), self.working.members[heard.member_id]
        formers = [each for each in heard.undo if isinstance(each, MemberRecord) and each.member_id == heard.member_id]
        if MemberRecord(heard.member_id, None) in formers:
            return f"{who} joined"
        if any((each.member.topics, each.member.regex) != (now.topics, now.regex) for each in formers if each.member):
            return f"{who} changed its subscription"
        if any(isinstance(record, GroupEpochRecord) for record in heard.records):
            return "topics of the subscription changed"
        return f"{who} sent a heartbeat"

    def _resolve_soon(self, regexes: tuple[str, ...]) -> None:
        """Resolve regular expressions outside of the heartbeat, unless some are being resolved."""
        if regexes and not self.resolving:
            self.resolving = regexes
            self._machine.start_timer((GroupTimer.REGEX, self.name), RESOLUTION_US)

    def resolved(self, records: tuple[GroupRecord, ...], undo: tuple[GroupRecord, ...]) -> None:
        """React to resolved regular expressions, whose records the working state has already."""
        self.has_new_topics = False
        if any(isinstance(record, GroupEpochRecord) for record in records):
            self.compared_topics(records)
        self._note(records, undo, "regular expressions were resolved", Removal.LEFT)

        def written(error: ErrorCode) -> None:
            self.has_new_topics = self.has_new_topics or error is not _NONE

        self.write(records, undo, written)

    def session_timer_fired(self, member_id: MemberId) -> None:
        """Remove a member whose session has expired."""
        self._expel(member_id, Removal.SESSION_EXPIRED, session_key(self.name, member_id))

    def member_timer_fired(self, timer: GroupTimer, member_id: MemberId, epoch: int) -> None:
        """Remove a classic member that did not join or sync in time. Or remove a member that did not give up its
        partitions in time, if its epoch is still that of the timer's start.
        """
        if timer is not GroupTimer.REVOCATION or self.working.current_of(member_id).epoch == epoch:
            self._expel(member_id, _REASONS[timer], (timer, self.name, member_id), epoch)

    def _expel(self, member_id: MemberId, why: Removal, timer: TimerKey, epoch: int | None = None) -> None:
        if member_id not in self.working.members:
            return

        def written(error: ErrorCode) -> None:
            if error is not _NONE and not self._is_dead and member_id in self.working.members:
                if epoch is not None:
                    self._machine.member_timers[timer] = epoch
                self._machine.start_timer(timer, _TIMER_RETRY_US)

        self.remove((member_id,), why, f": {why}", written)

    def remove(
        self, member_ids: tuple[MemberId, ...], why: Removal, text: str, answer: Callable[[ErrorCode], None]
    ) -> None:
        """Remove members; if only classic members remain, the group becomes a classic group.

        ``text``: follows the names of the members in the reason.
        """
        rest = len(self.working.members) - len(member_ids)
        if may_downgrade(self.working, member_ids, rest, self._machine.config):
            self._downgrade(member_ids, why, answer)
            return
        who = ", ".join(map(self._member, member_ids))
        machine = self._machine
        records, undo = removed(self.working, machine.topics, machine.rules.consumer_groups, *member_ids)
        self._note(records, undo, f"{who}{text}", why)
        for member_id in member_ids:
            self._stop_timers(member_id)
        self.write(records, undo, answer)

    def _start(self, timer: GroupTimer, member_id: MemberId) -> None:
        """Start a timer of the rebalance timeout of a member."""
        key = (timer, self.name, member_id)
        self._machine.member_timers[key] = self.working.current_of(member_id).epoch
        self._machine.start_timer(key, self.working.members[member_id].rebalance_timeout_ms * US_PER_MS)

    def _stop(self, timer: GroupTimer, member_id: MemberId) -> None:
        key = (timer, self.name, member_id)
        if self._machine.member_timers.pop(key, None) is not None:
            self._machine.stop_timer(key)

    def _stop_timers(self, member_id: MemberId) -> None:
        self._machine.stop_timer(session_key(self.name, member_id))
        for timer in _REASONS:
            self._stop(timer, member_id)

    # --- classic members ---------------------------------------------------------------------------------------

    def joined(self, joined: ClassicJoined, answer: Callable[[ErrorCode], None]) -> None:
        """React to the JoinGroup of a classic member; the member's timers start when its records are written."""
        member_id = joined.member.member_id
        if joined.downgrades:
            for record in joined.undo:
                self.working.apply(record)
            self._downgrade((), Removal.REPLACED, answer, joined)
            return

        def written(error: ErrorCode) -> None:
            if error is _NONE and not self._is_dead and member_id in self.working.members:
                self._stop(GroupTimer.MEMBER_JOIN, member_id)
                self.start_session(member_id)
                self._start(GroupTimer.MEMBER_SYNC, member_id)
            answer(error)

        self._resolve_soon(joined.resolve)
        why = f"{self._member(member_id)} joined with the classic protocol"
        self._note(joined.records, joined.undo, why, Removal.LEFT, joined.assignor)
        self.write(joined.records, joined.undo, written)

    def synced(self, member_id: MemberId) -> None:
        """React to the answered SyncGroup of a classic member."""
        if not self._is_dead and member_id in self.working.members:
            self._stop(GroupTimer.MEMBER_SYNC, member_id)
            self.start_session(member_id)

    def start_session(self, member_id: MemberId) -> None:
        """Restart the session of a classic member."""
        classic = self.working.members[member_id].classic
        if classic is not None:
            self._machine.start_timer(session_key(self.name, member_id), classic.session_timeout_ms * US_PER_MS)

    def must_join(self, member_id: MemberId) -> None:
        """Start the time to join of a classic member that was told to rejoin, unless the time runs already."""
        if (GroupTimer.MEMBER_JOIN, self.name, member_id) not in self._machine.member_timers:
            self._start(GroupTimer.MEMBER_JOIN, member_id)

    # --- conversion --------------------------------------------------------------------------------------------

    def begin_with(self, records: tuple[GroupRecord, ...]) -> None:
        """Apply the records of a classic group's conversion."""
        self.working.is_converted = True
        for record in records:
            self.working.apply(record)

    def take_over(self, group: Group, records: tuple[GroupRecord, ...]) -> None:
        """Replace a classic group, by the records of its conversion, which are applied already."""
        self.offsets, self.second = group.offsets, group.second
        self._told = group.state.value
        epoch, members = group.shared.generation, tuple(group.members.by_id)
        group.converted()
        self._note_converted(CONSUMER_PROTOCOL, ConsumerGroupState.STABLE.value, epoch, members)
        self._machine.note(GroupEpochsChanged(group=self.name, epoch=epoch, target_epoch=epoch))
        for record in records:
            if isinstance(record, CurrentRecord) and record.current is not None:
                self._note_reconciled(record.member_id, record.current)
        for member_id in self.working.members:
            self.start_session(member_id)

    def give_back(self, group: Group) -> None:
        """End after the failed write of the conversion of a classic group, which continues."""
        self._end()
        group.not_converted()
        self._keep(group)
        self._tell(group.state.value, group.shared.generation, "the conversion could not be written")
        self._note_classic(group)

    def may_downgrade_by(self, instance_id: str | None) -> bool:
        """Whether a classic member with this instance id makes the group a classic group."""
        working = self.working
        holder = None if instance_id is None else working.static.get(instance_id)
        if holder is None or working.members[holder].classic is not None:
            return False
        return may_downgrade(working, (holder,), len(working.members), self._machine.config)

    def _fill(self, group: Group, members: Collection[tuple[ConsumerMember, MemberId]]) -> str | None:
        """Add members to a classic group, as ``downgraded`` does. Returns: the assignor that they vote for.

        None: the downgrade fails. Either a member has no target, because it joined without topics. Or the members have
        no protocol in common: Kafka counts a protocol that a member names twice as two (``selectProtocol`` 4.0.2).
        """
        working = self.working
        needs_targets = self._machine.rules.consumer_groups.downgrade_needs_targets
        if needs_targets and not all(heir_of in working.targets for _, heir_of in members):
            return None
        with suppress(NoCommonProtocol):
            return downgraded(working, members, self.in_order, group.members)
        return None

    def _downgrade(
        self,
        leaving: tuple[MemberId, ...],
        why: Removal,
        answer: Callable[[ErrorCode], None],
        joined: ClassicJoined | None = None,
    ) -> None:
        """Become a classic group: without the members that leave, or with the classic member that replaces the last
        member of the consumer protocol.

        Source: ``GroupMetadataManager.convertToClassicGroup`` 4.0, which rebalances only after a leave.
        """
        machine, working = self._machine, self.working
        rest = [(working.members[each], each) for each in working.listed() if each not in leaving]
        heir = None if joined is None else joined.member
        holder: MemberId | None = None
        if heir is not None:
            assert heir.instance_id is not None
            holder = working.static[heir.instance_id]
            rest = [each for each in rest if each[1] != holder]
            rest.append((heir, holder))
        group = Group(machine, self.partition, self.name)
        protocol = self._fill(group, rest)
        if protocol is None:
            answer(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        group.opened_after = self.partition.last_write
        group.offsets, group.second = self.offsets, self.second
        records: list[Record] = []
        if joined is not None:
            epochs = machine.rules.consumer_groups.keeps_partition_epochs
            records += [encoded(self.name, record, epochs=epochs) for record in joined.records]
            for record in joined.records:
                working.apply(record)
        records += self.tombstones()
        if joined is not None:
            for record in joined.undo:
                working.apply(record)
        if holder is not None and heir is not None and holder != heir.member_id:
            self._note_removed(working.members[holder], f"{Removal.REPLACED} {heir.member_id}")
        for member_id in leaving:
            self._note_removed(working.members[member_id], why)
        self._tell(ConsumerGroupState.STABLE.value, working.epoch, "converted to a classic group")
        self._end()
        group.take_over(working.epoch, protocol)
        self._note_classic(group)
        if heir is not None and heir.member_id not in working.members:
            self._note_added(heir)
        group.shared.note_leader()
        self._keep(group)
        records.append(group_record(group.shared.metadata()))
        if joined is None or joined.rebalances:
            group.phase.prepare(group.shared.reasons.downgraded(self.name, left=joined is None))

        def written(error: ErrorCode, _base_offset: int) -> None:
            if error is not _NONE and group.state is not GroupState.DEAD:
                group.refuse_all_parked()
                self._told = group.state.value
                group.converted()
                self._continue(group)
            answer(error)

        def late(error: ErrorCode, _base_offset: int) -> None:
            if error is not _NONE:
                answer(error)

        abandoned = partial(answer, ErrorCode.NOT_COORDINATOR)
        machine.writes.begin(self.partition, tuple(records), Write(written, abandoned, late))

    def _continue(self, group: Group) -> None:
        """Continue as a group of the consumer protocol: the conversion could not be written."""
        self._is_dead = False
        self._keep(self)
        self._note_converted(CONSUMER_PROTOCOL, self.state.value, self.working.epoch, tuple(self.working.members))
        for member in self.working.members.values():
            if member.member_id not in group.members.by_id:
                self._note_added(member)
        self._become("the conversion could not be written")
        self._start_timers()

    def _end(self) -> None:
        """End without a change of state: another group takes over the members. As in Kafka, no timer of
        ``GroupMachine.member_timers`` stops, not even of the members that leave (``consumerGroupFenceMembers`` 4.0 to
        4.3). Such a timer finds its member if the group is converted back in time.
        """
        self._is_dead = True
        self._stop_resolving()
        for member_id in self.working.members:
            self._machine.stop_timer(session_key(self.name, member_id))

    def ended_for_classic(self) -> tuple[Record, ...]:
        """End an empty group that a classic group replaces; return its tombstones.

        Source: ``GroupMetadataManager.maybeDeleteEmptyConsumerGroup`` 4.0.
        """
        tombstones = tuple(self.tombstones())
        self.die("replaced by a classic group")
        return tombstones

    def _note_classic(self, group: Group) -> None:
        members = tuple(each for each in group.members.by_id if each in self.working.members)
        self._note_converted(CLASSIC_PROTOCOL, group.state.value, group.shared.generation, members)

    def _note_converted(self, protocol: str, state: str, generation: int, members: tuple[MemberId, ...]) -> None:
        self._machine.note(
            GroupConverted(group=self.name, protocol=protocol, state=state, generation=generation, members=members)
        )

    # --- notes -------------------------------------------------------------------------------------------------

    def _note(
        self,
        records: tuple[GroupRecord, ...],
        undo: tuple[GroupRecord, ...],
        why: str,
        removal: Removal,
        assignor: str = "",
    ) -> None:
        """Report the changes by these records, which the working state has already."""
        machine, working = self._machine, self.working
        before = {each.member_id: each.member for each in undo if isinstance(each, MemberRecord)}
        added = [each.member for each in records if isinstance(each, MemberRecord) and each.member is not None]
        epoch, target_epoch = _epochs_before(working, undo)
        for record in records:
            match record:
                case MemberRecord(member_id=member_id, member=None):
                    former = before.get(member_id)
                    if former is not None and all(each.member_id != member_id for each in added):  # else it joins anew
                        heir = [each.member_id for each in added if each.instance_id == former.instance_id]
                        replaced = f"{Removal.REPLACED} {heir[0]}" if heir and former.instance_id else removal
                        self._note_removed(former, replaced)
                case MemberRecord(member_id=member_id, member=member) if before.get(member_id) is None:
                    assert member is not None
                    self._note_added(member)
                case GroupEpochRecord(epoch=new):
                    epoch = new
                    machine.note(GroupEpochsChanged(group=self.name, epoch=epoch, target_epoch=target_epoch))
                    if working.members:
                        self._tell(ConsumerGroupState.ASSIGNING.value, epoch, why)
                case TargetEpochRecord(epoch=new):
                    target_epoch = new
                    machine.note(GroupEpochsChanged(group=self.name, epoch=epoch, target_epoch=target_epoch))
                    machine.note(
                        JoinPhaseCompleted(
                            group=self.name,
                            generation=new,
                            protocol=assignor,
                            leader="",
                            members=tuple(working.members),
                        )
                    )
                case CurrentRecord(member_id=member_id, current=current) if current is not None:
                    self._note_reconciled(member_id, current)
        self._become(why)

    def _member(self, member_id: MemberId) -> str:
        """The member in a reason, by its client id and its own id."""
        return f"{self.working.members[member_id].client_id} with member id {member_id}"

    def _note_added(self, member: ConsumerMember) -> None:
        self._machine.note(
            MemberAdded(
                group=self.name,
                member_id=member.member_id,
                client_id=_actor_of(member),
                instance_id=member.instance_id,
            )
        )

    def _note_removed(self, member: ConsumerMember, why: str) -> None:
        self._machine.note(
            MemberRemoved(group=self.name, member_id=member.member_id, client_id=_actor_of(member), why=why)
        )

    def _note_reconciled(self, member_id: MemberId, current: CurrentAssignment) -> None:
        self._machine.note(
            MemberReconciled(
                group=self.name,
                member_id=member_id,
                epoch=current.epoch,
                state=current.state.name,
                assigned=self.named(current.assigned),
                revoking=self.named(current.revoking),
            )
        )

    def named(self, partitions: Iterable[Partition]) -> tuple[TopicPartition, ...]:
        """Partitions with the names of their topics, sorted."""
        names = self._machine.topic_names
        return tuple(sorted([(names.get(topic, topic), number) for topic, number in partitions]))

    def in_order(self, partitions: Iterable[Partition]) -> tuple[TopicPartition, ...]:
        """Partitions of existing topics with the names of the topics, in this order.

        Source: ``Utils.toConsumerProtocolAssignment`` 4.0 to 4.3.
        """
        names = self._machine.existing_names
        return tuple((names[topic], number) for topic, number in partitions if topic in names)

    def _become(self, why: str) -> None:
        self._tell(self.working.state.value, self.working.epoch, why)

    def _tell(self, state: str, epoch: int, why: str) -> None:
        if state != self._told:
            self._machine.note(GroupBecame(group=self.name, old=self._told, new=state, generation=epoch, why=why))
            self._told = state

    # --- offsets -----------------------------------------------------------------------------------------------

    def why_no_commit(
        self,
        epoch: int,
        member_id: MemberId,
        instance_id: str | None,
        version: int = _EPOCH_SINCE,
        partitions: Iterable[TopicPartition] = (),
    ) -> ErrorCode:
        """NONE, or the reason to refuse a commit of these partitions. The instance id is not checked."""
        if self._is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and not self.working.members:
            return _NONE
        member = self.working.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and version < _EPOCH_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        current = self.working.current_of(member_id)
        if epoch == current.epoch:
            return _NONE
        wrong = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        if epoch > current.epoch or not self._machine.rules.consumer_groups.keeps_partition_epochs:
            return wrong
        held = {**current.revoking, **current.assigned}
        got = self.in_order([partition for partition, since in held.items() if since <= epoch])
        return _NONE if all(partition in got for partition in partitions) else wrong

    def why_no_fetch(self, member_id: MemberId | None, epoch: int) -> ErrorCode:
        """NONE, or the reason to refuse a fetch of offsets. Tools give neither an id nor an epoch."""
        if member_id is None:  # Kafka looks up the id None, which fails (TimelineHashMap.get)
            return _NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
        member = self.committed.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == self.committed.current_of(member.member_id).epoch:
            return _NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    def committed_by(self, member_id: MemberId) -> None:
        """Do nothing: only heartbeats restart a session."""

    def why_no_offset_delete(self) -> ErrorCode:
        """NONE, or the reason why an admin may not delete offsets of this group."""
        return ErrorCode.GROUP_ID_NOT_FOUND if self._is_dead else _NONE

    def why_no_delete(self) -> ErrorCode:
        """NONE, or the reason why an admin may not delete the group."""
        if self._is_dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return _NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def consumes(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by a regular expression."""
        working = self.working
        by_regex = any(topic in record.topics for record in working.regexes.values() if record.topics)
        return by_regex or any(topic in member.topics for member in working.members.values())

    def expired_offsets(self) -> tuple[TopicPartition, ...]:
        """Partitions whose offsets expire now: without a subscriber, after the retention from their commit."""
        if self._is_dead:
            return ()
        retention_ms = self._machine.config.offsets_retention_minutes * MS_PER_MINUTE
        return self.offsets.expired(
            self._machine.now_ms,
            retention_ms,
            lambda at, value: None if self.consumes(at[0]) else value.commit_timestamp_ms,
        )

    def tombstones(self) -> list[Record]:
        """The tombstones of all the group's records. Source: ``ConsumerGroup.createGroupTombstoneRecords``."""
        state = self.working
        records: list[GroupRecord] = [CurrentRecord(each, None) for each in state.current]
        records += [TargetRecord(each, None) for each in state.targets]
        records.append(TargetEpochRecord(0))
        records += [MemberRecord(each, None) for each in state.members]
        records += [RegexRecord(each, None) for each in state.regexes]
        records += [TopicsRecord(()), GroupEpochRecord(0)]
        return [encoded(self.name, record) for record in records] if state.epoch else []

    # --- answers to tools --------------------------------------------------------------------------------------

    def described(self, version: int) -> DescribedGroup:
        """The group for DescribeGroups, which does not find groups of the consumer protocol."""
        return described_dead(self.name, version, "is not a classic group")

    def described_as_consumers(self, assignor: str, version: int) -> DescribedConsumerGroup:
        """The committed group for ConsumerGroupDescribe."""
        state = self.committed
        members = [
            DescribedConsumer(
                member_id=each.member_id,
                instance_id=each.instance_id,
                rack=each.rack,
                member_epoch=state.current_of(each.member_id).epoch,
                client_id=each.client_id,
                client_host=each.client_host,
                topics=each.topics,
                regex=each.regex,
                assigned=self._rows(share_of(sorted(self._described(state.current_of(each.member_id))))),
                target=self._rows(state.target_of(each.member_id)),
                member_type=-1 if not version else _CONSUMER_MEMBER if each.classic is None else _CLASSIC_MEMBER,
            )
            for each in map(state.members.__getitem__, state.listed())
        ]
        return DescribedConsumerGroup(
            error=_NONE,
            group=self.name,
            state=state.state.value,
            epoch=state.epoch,
            target_epoch=state.target_epoch,
            assignor=assignor,
            members=tuple(members),
        )

    def _described(self, current: CurrentAssignment) -> Iterable[Partition]:
        if not self._machine.rules.consumer_groups.describes_revoking:
            return current.assigned
        return (*current.assigned, *current.revoking)

    def _rows(self, share: Share) -> tuple[NamedTopicNumbers, ...]:
        names = self._machine.existing_names
        return tuple(
            NamedTopicNumbers(topic_id=topic, topic=names[topic], partitions=numbers)
            for topic, numbers in share.items()
            if topic in names
        )

    # --- load and unload ---------------------------------------------------------------------------------------

    def take(self, states: tuple[ConsumerGroup, ConsumerGroup], offsets: GroupOffsets, second: SecondLogs) -> None:
        """Take the states from a replay."""
        self.working, self.committed = states
        self.offsets, self.second = offsets, second
        self._told = self.working.state.value

    def loaded(self) -> None:
        """Restart all timers after the partition became active."""
        working = self.working
        epochs = GroupEpochsChanged(group=self.name, epoch=working.epoch, target_epoch=working.target_epoch)
        self._machine.note(epochs)
        self._machine.note(
            GroupLoaded(
                group=self.name,
                state=working.state.value,
                generation=working.epoch,
                members=tuple(working.members),
            )
        )
        self._start_timers()

    def _start_timers(self) -> None:
        """Start the timers of all members, as after a load: also classic members get the group's session timeout."""
        working = self.working
        session_us = self._machine.consumer_session_ms(self.name) * US_PER_MS
        for member_id in working.members:
            self._machine.start_timer(session_key(self.name, member_id), session_us)
            if working.current_of(member_id).state is ReconcilingState.UNREVOKED_PARTITIONS:
                self._start(GroupTimer.REVOCATION, member_id)

    def die(self, why: str) -> None:
        """End the group, and stop all timers."""
        self._tell(_DEAD, self.working.epoch, why)
        self._is_dead = True
        self._stop_resolving()
        for member_id in self.working.members:
            self._stop_timers(member_id)

    def _stop_resolving(self) -> None:
        if self.resolving:
            self.resolving = ()
            self._machine.stop_timer((GroupTimer.REGEX, self.name))

    def unload(self) -> None:
        """End the group, because another broker coordinates it now."""
        self.die("unloaded")
        self._machine.note(GroupUnloaded(group=self.name))

    def revived(self) -> "ModernGroup":
        """A copy of the group from before its deletion, whose write failed. Only empty groups are deleted."""
        assert self._is_dead and self.is_empty
        group = ModernGroup(self._machine, self.partition, self.name, self._keep)
        group.working, group.committed = self.working, self.committed
        group.offsets, group.second = self.offsets, self.second
        return group


def _actor_of(member: ConsumerMember) -> ActorName:
    """The actor of a member, which is its client id unless the member is a real client's."""
    return member.client_host.removeprefix("/")


def _epochs_before(group: ConsumerGroup, undo: Iterable[GroupRecord]) -> tuple[int, int]:
    """The epochs of the group and of its target before a change that the group has already."""
    epoch, target_epoch = group.epoch, group.target_epoch
    for record in undo:
        match record:
            case GroupEpochRecord(epoch=former):
                epoch = former
            case TargetEpochRecord(epoch=former):
                target_epoch = former
    return epoch, target_epoch
