"""A classic consumer group: the answer to each request in each state, and the parts of the group.

| part | content | file |
|---|---|---|
| shared | name, state, generation, members | ``shared_state``, ``members`` |
| joining | no state: checks joins and adds members | ``joining`` |
| static | no state: replaces the id of a static member | ``static`` |
| phase | parked joins, the initial delay, the join timer | ``join_phase`` |
| syncing | parked syncs, members without a sync, the sync timer | ``syncing`` |
| offsets | committed offsets | ``offsets`` |
| second | KIP-333's ranges, and the progress in them | ``second_log`` |

Order of the checks in all requests: state DEAD, instance (error 82) before member id (25), generation (22),
protocol (23), state.

An answer that depends on a record waits for the record's write. The group may change its state during the write, so
each continuation of a write checks its conditions again.

Source: Kafka's ClassicGroup and the classic half of GroupMetadataManager; KIP-211 (expiry), KIP-496 (OffsetDelete).
"""

from collections.abc import Callable, Iterable
from functools import partial

from kemu.actors.coordinator.join_phase import JoinPhase
from kemu.actors.coordinator.joining import Joining
from kemu.actors.coordinator.log import OffsetsPartition, Write
from kemu.actors.coordinator.members import Member, Members
from kemu.actors.coordinator.offsets import MS_PER_MINUTE, GroupOffsets
from kemu.actors.coordinator.replies import leave_reply, leaving
from kemu.actors.coordinator.second_log import SecondLogs
from kemu.actors.coordinator.shared_state import GroupMachine, SharedState
from kemu.actors.coordinator.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupChange, GroupState
from kemu.actors.coordinator.static import StaticInstances
from kemu.actors.coordinator.syncing import Syncing
from kemu.actors.coordinator.timers import session_key
from kemu.actors.machine import Caller, Received, Record, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import (
    DescribedGroup,
    DescribedMember,
    Heartbeat,
    HeartbeatReply,
    JoinProtocol,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
    SyncGroup,
)
from kemu.protocol.messages.records import GroupMetadata, StoredOffset, batch_bytes, group_record, group_tombstone
from kemu.protocol.names import CONSUMER, UNKNOWN_MEMBER, GroupId, MemberId, TopicPartition
from kemu.protocol.notes.groups import GroupLoaded, GroupRecordWritten, GroupUnloaded, Removal, RequestRefused
from kemu.protocol.notes.ranges import RangesLoaded

_NONE = ErrorCode.NONE
_ALIVE = HeartbeatReply(error=_NONE)


class Group:
    """One classic group at its coordinator."""

    def __init__(self, machine: GroupMachine, partition: OffsetsPartition, name: GroupId) -> None:
        self._machine = machine
        self.name = name
        self.partition = partition
        self.shared = shared = SharedState(machine, partition, name)
        self.members: Members = shared.members
        self.syncing = Syncing(machine, shared)
        self.phase = JoinPhase(machine, shared, self.syncing)
        self.joining = Joining(machine, shared, self.phase, StaticInstances(machine, shared, self.phase, self.syncing))
        self.offsets = GroupOffsets()
        self.second = SecondLogs()
        self.opened_after = -1
        """The newest write when the group was created; the log has the group after a later write. -1: at once."""
        self._converted_in: GroupState | None = None
        """The state in which the group was converted to a group of the consumer protocol."""

    @property
    def state(self) -> GroupState:
        """The group's state."""
        return self.shared.state

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, and no join is in progress."""
        return self.shared.state is EMPTY

    @property
    def protocol_type(self) -> str:
        """The protocol type in ListGroups."""
        return self.shared.protocol_type or ""

    @property
    def is_written(self) -> bool:
        """Whether the log has the group."""
        return self.partition.last_done > self.opened_after

    @property
    def seen_state(self) -> str:
        """The state that admins see: without a conversion or (since 4.0) a deletion that is being written."""
        state = self._converted_in or self.shared.state
        return EMPTY.value if state is DEAD and self._machine.rules.new_group_record else state.value

    def session_timer_fired(self, member_id: MemberId) -> None:
        """React to the end of a member's session."""
        self.phase.session_timer_fired(member_id)

    # --- sync --------------------------------------------------------------------------------------------------

    def sync(self, event: Received, request: SyncGroup) -> None:
        """Answer SyncGroup with the member's assignment, or store the leader's assignments."""
        assignments = self.syncing.serve(event, request)
        if assignments is not None:
            record = group_record(self.shared.metadata(assignments))
            size = batch_bytes((record,))
            write = Write(partial(self._sync_written, self.shared.generation, request.member_id, assignments, size))
            self._machine.writes.begin(self.partition, (record,), write)

    def _sync_written(
        self,
        generation: int,
        leader: MemberId,
        assignments: dict[MemberId, bytes],
        size: int,
        error: ErrorCode,
        _base_offset: int,
    ) -> None:
        """Answer the syncs after the write of the assignment. After a failed write the group rebalances."""
        most = self._machine.config.message_max_bytes
        self._machine.note(
            GroupRecordWritten(group=self.shared.name, generation=generation, size=size, most=most, error=error)
        )
        if self.shared.state is not COMPLETING or self.shared.generation != generation:
            return
        if error is not _NONE:
            error = self._machine.rules.group_append_errors.get(error, error)
            self.syncing.reset(error)
            self.phase.prepare(self.shared.reasons.not_stored(error, leader))
            return
        self.syncing.assign(assignments)

    def sync_timer_fired(self) -> None:
        """Remove the members that joined but did not sync (KAFKA-12890)."""
        late = self.syncing.late()
        for member_id in late:
            self.phase.drop(member_id, Removal.NOT_SYNCED)
        if late:
            self.phase.prepare(self.shared.reasons.did_not_sync(late))

    # --- heartbeat ---------------------------------------------------------------------------------------------

    def heartbeat(self, event: Received, request: Heartbeat) -> None:
        """Answer Heartbeat: restart the member's session, and say whether the member must rejoin."""
        error = self._why_no_heartbeat(request)
        if error is _NONE or (error is ErrorCode.REBALANCE_IN_PROGRESS and self.shared.state is PREPARING):
            self.shared.start_session(self.members.by_id[request.member_id])
            if self._machine.writes.must_wait(self.partition):
                answer = partial(self._answer_heartbeat, caller_of(event), request.member_id, error)
                self._machine.writes.behind(self.partition, answer)
                return
        if error is _NONE:
            self._machine.reply(event, _ALIVE)
        else:
            self._refuse_heartbeat(event, request.member_id, error)

    def _answer_heartbeat(self, caller: Caller, member_id: MemberId, found: ErrorCode, error: ErrorCode) -> None:
        """Answer a heartbeat after the earlier writes, which ended with ``error``."""
        error = self._machine.rules.group_append_errors.get(error, error) or found
        if error is _NONE:
            self._machine.reply(caller, _ALIVE)
        else:
            self._refuse_heartbeat(caller, member_id, error)

    def _refuse_heartbeat(self, caller: Caller | Received, member_id: MemberId, error: ErrorCode) -> None:
        reply = HeartbeatReply(error=error)
        self._machine.refuse(caller, reply, group=self.name, api="Heartbeat", member_id=member_id, error=error)

    def _why_no_heartbeat(self, request: Heartbeat) -> ErrorCode:
        if self.shared.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.members.why_not(request.member_id, request.instance_id)
        if error is not _NONE:
            return error
        if request.generation != self.shared.generation:
            return ErrorCode.ILLEGAL_GENERATION
        assert self.shared.state is not EMPTY, f"{self.name}: {request.member_id} is a member of an empty group"
        if self.shared.state is COMPLETING:
            return self._machine.rules.answer_while_completing
        return ErrorCode.REBALANCE_IN_PROGRESS if self.shared.state is PREPARING else _NONE

    # --- leave -------------------------------------------------------------------------------------------------

    def leave(self, event: Received, request: LeaveGroup) -> None:
        """Answer LeaveGroup, from the members themselves or from an admin with their instance ids."""
        caller = caller_of(event)
        if self.shared.state is DEAD:
            self._refuse_leave(caller, request.member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        per_member = self._machine.rules.leave_acts_per_member
        outcomes: list[LeftMember] = []
        left: list[str] = []
        only_pending = True
        for entry in leaving(event.version, request):
            who = entry.member_id or self.members.static.get(entry.instance_id or "") or ""
            error, was_pending = self._leave_one(entry)
            outcomes.append(LeftMember(member_id=entry.member_id, instance_id=entry.instance_id, error=error))
            if error is not _NONE:
                continue
            left.append(who)
            only_pending = only_pending and was_pending
            if per_member:
                self._after_leave(left[-1:], entry.reason, only_pending=was_pending)
        reply = leave_reply(event.version, tuple(outcomes))
        behind = partial(self._left, caller, reply)
        if per_member or not left:
            self._machine.writes.behind(self.partition, behind)
            return
        self.phase.after_empty = Write(
            lambda error, _base_offset: behind(error),
            partial(self._refuse_leave, caller, "", ErrorCode.NOT_COORDINATOR),
        )
        self._after_leave(left, None, only_pending=only_pending)
        if self.phase.after_empty is not None:
            self.phase.after_empty = None
            self._machine.writes.behind(self.partition, behind)

    def _left(self, caller: Caller, reply: LeaveGroupReply, error: ErrorCode) -> None:
        """Answer LeaveGroup after the write of the empty group's record.

        If the write failed, a failover would restore the last generation.
        """
        if error is _NONE:
            self._answer_leave(caller, reply)
        else:
            self._refuse_leave(caller, "", self._machine.rules.group_append_errors.get(error, error))

    def _answer_leave(self, caller: Caller, reply: LeaveGroupReply) -> None:
        for row in reply.members:
            if row.error is not _NONE:
                self._machine.note(
                    RequestRefused(group=self.name, api="LeaveGroup", member_id=row.member_id, error=row.error)
                )
        self._machine.reply(caller, reply)

    def _refuse_leave(self, caller: Caller, member_id: str, error: ErrorCode) -> None:
        reply = LeaveGroupReply(error=error)
        self._machine.refuse(caller, reply, group=self.name, api="LeaveGroup", member_id=member_id, error=error)

    def _leave_one(self, entry: LeavingMember) -> tuple[ErrorCode, bool]:
        """Remove one entry of LeaveGroup. Returns its outcome, and whether its id was only pending."""
        member_id: MemberId | None = entry.member_id
        if member_id in self.members.pending:
            self.members.remove(entry.member_id)
            self._machine.stop_timer(session_key(self.name, entry.member_id))
            return _NONE, True
        if member_id == UNKNOWN_MEMBER:
            member_id = None if entry.instance_id is None else self.members.static.get(entry.instance_id)
            error = ErrorCode.UNKNOWN_MEMBER_ID if member_id is None else _NONE
        else:
            error = self.members.why_not(entry.member_id, entry.instance_id)
        if error is not _NONE or member_id is None:
            return error, False
        self.phase.remove_member(self.members.by_id[member_id], Removal.LEFT)
        return _NONE, False

    def _after_leave(self, left: list[str], client_reason: str | None, *, only_pending: bool) -> None:
        rebalances = not only_pending or self._machine.rules.pending_leave_rebalances
        if self.state is PREPARING:
            self.phase.complete_if_all_joined()
        elif self.state in (COMPLETING, STABLE) and rebalances:
            self.phase.prepare(self.shared.reasons.left(left, client_reason))

    # --- offsets -----------------------------------------------------------------------------------------------

    def why_no_commit(
        self,
        generation: int,
        member_id: MemberId,
        instance_id: str | None,
        _version: int = 0,
        _partitions: Iterable[TopicPartition] = (),
    ) -> ErrorCode:
        """NONE, or the reason to refuse a commit. A tool's commit, which has no ids, needs an Empty group."""
        if self.shared.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.shared.state is EMPTY:
            return _NONE
        if generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            error = self.members.why_not(member_id, instance_id)
            if error is not _NONE:
                return error
            if generation != self.shared.generation:
                return ErrorCode.ILLEGAL_GENERATION
        else:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.REBALANCE_IN_PROGRESS if self.shared.state is COMPLETING else _NONE

    def why_no_fetch(self, _member_id: MemberId | None, _epoch: int) -> ErrorCode:
        """NONE: a classic group does not check who fetches offsets."""
        return _NONE

    def tombstones(self) -> list[Record]:
        """The tombstone of the group's record, if the group ever wrote one."""
        wanted = self.shared.generation > 0 or self._machine.rules.tombstone_at_generation_zero
        return [group_tombstone(self.name)] if wanted else []

    def committed_by(self, member_id: MemberId) -> None:
        """Restart the member's session after an accepted commit."""
        member = self.members.by_id.get(member_id)
        if member is not None and self.shared.state in (STABLE, PREPARING):
            self.shared.start_session(member)

    def why_no_offset_delete(self) -> ErrorCode:
        """NONE, or the reason why an admin may not delete offsets of this group."""
        if self.shared.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.shared.state is EMPTY or self.shared.protocol_type == CONSUMER:
            return _NONE
        return ErrorCode.NON_EMPTY_GROUP

    def why_no_delete(self) -> ErrorCode:
        """NONE, or the reason why an admin may not delete the group."""
        if self.shared.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return _NONE if self.shared.state is EMPTY else ErrorCode.NON_EMPTY_GROUP

    def consumes(self, topic: str) -> bool:
        """Whether a member subscribes to the topic; True if the subscriptions are unknown."""
        if self.shared.state is EMPTY:
            return False
        topics = self.shared.subscribed_topics()
        return topics is None or topic in topics

    def expired_offsets(self) -> tuple[TopicPartition, ...]:
        """Partitions whose offsets expire now. The kind of group determines the start of the retention (KIP-211)."""
        base = self._expiry_base()
        if base is None:
            return ()
        now_ms = self._machine.now_ms
        retention_ms = self._machine.config.offsets_retention_minutes * MS_PER_MINUTE
        expired = self.offsets.expired(now_ms, retention_ms, base)
        # Both commit logs of a partition expire together, when the newer commit has expired (KIP-333).
        second = self.second.by_partition
        return tuple([at for at in expired if at not in second or now_ms >= second[at].newest_ms + retention_ms])

    def _expiry_base(self) -> Callable[[TopicPartition, StoredOffset], int | None] | None:
        if self.shared.state is DEAD:
            return None
        rules = self._machine.rules
        if self.shared.protocol_type is None or not rules.keeps_offsets_of_members:
            return lambda _, value: value.commit_timestamp_ms
        if self.shared.state is EMPTY:
            since_ms = self.shared.since_ms
            return lambda _, value: value.commit_timestamp_ms if since_ms is None else since_ms
        known = self.shared.state is STABLE or not rules.keeps_offsets_while_rebalancing
        topics = self.shared.subscribed_topics() if known else None
        if topics is None:
            return None
        return lambda partition, value: None if partition[0] in topics else value.commit_timestamp_ms

    # --- answers to tools --------------------------------------------------------------------------------------

    def described(self, _version: int) -> DescribedGroup:
        """The group for DescribeGroups.

        Protocol, subscriptions and (by the rules) assignments are shown only in Stable.
        """
        stable = self.shared.state is STABLE
        assigned = stable or self._machine.rules.describes_assignments_always
        members = [
            DescribedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(self.shared.protocol) if stable else b"",
                assignment=member.assignment if assigned else b"",
            )
            for member in map(self.members.by_id.__getitem__, self.members.hashed())
        ]
        return DescribedGroup(
            error=_NONE,
            group=self.name,
            state=self.seen_state,
            protocol_type=self.shared.protocol_type or "",
            protocol=(self.shared.protocol or "") if stable else "",
            members=tuple(members),
        )

    # --- load and unload ---------------------------------------------------------------------------------------

    def take(self, metadata: GroupMetadata | None, offsets: GroupOffsets, second: SecondLogs) -> None:
        """Take the state from a replay: Stable with members, else Empty.

        A group without metadata has only offsets.
        """
        self.offsets = offsets
        self.second = second
        if metadata is None:
            return
        shared = self.shared
        shared.protocol_type = metadata.protocol_type or None
        shared.protocol = metadata.protocol
        shared.generation = metadata.generation
        shared.since_ms = None if metadata.state_timestamp_ms < 0 else metadata.state_timestamp_ms
        for stored in metadata.members:
            timeout_ms = stored.session_timeout_ms if stored.rebalance_timeout_ms < 0 else stored.rebalance_timeout_ms
            member = Member(
                self.name,
                stored.member_id,
                instance_id=stored.instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=timeout_ms,
                session_timeout_ms=stored.session_timeout_ms,
                protocols=(JoinProtocol(name=metadata.protocol or "", metadata=stored.subscription),),
                assignment=stored.assignment,
            )
            self.members.add(member)
        if metadata.leader in self.members.by_id:
            self.members.leader = metadata.leader
        shared.know_subscriptions(tuple([stored.subscription for stored in metadata.members]))
        if self.members:
            shared.state = STABLE

    def loaded(self) -> None:
        """Restart all sessions after the partition became active, and rebalance a group that exceeds
        ``group.max.size``.
        """
        self._machine.note(
            GroupLoaded(
                group=self.name,
                state=self.shared.state.value,
                generation=self.shared.generation,
                members=tuple(self.members.by_id),
            )
        )
        for (topic, partition), log in self.second.by_partition.items():
            self._machine.note(
                RangesLoaded(
                    group=self.name,
                    topic=topic,
                    partition=partition,
                    tokens=log.spans,
                    second_offset=log.progress,
                    position=log.last_position,
                )
            )
        for member in self.members:
            self.shared.start_session(member)
        most = self._machine.config.group_max_size
        if len(self.members) > most:
            self.phase.prepare(self.shared.reasons.over_capacity(self.name, len(self.members), most))

    def die(self, why: str) -> None:
        """Enter DEAD and stop all timers."""
        self.shared.change(GroupChange.END, why)
        self.phase.stop()
        self._stop_timers()
        self.members.pending.clear()

    def _stop_timers(self) -> None:
        self.syncing.stop()
        for member in self.members:
            self._machine.stop_timer(member.timer)
        for member_id in self.members.pending:
            self._machine.stop_timer(session_key(self.name, member_id))

    # --- conversion (KIP-848) ----------------------------------------------------------------------------------

    def refuse_all_parked(self) -> None:
        """Answer all parked joins and syncs with REBALANCE_IN_PROGRESS.

        Source: ``ClassicGroup.completeAllJoinFutures``, ``completeAllSyncFutures`` 4.0.
        """
        for member_id in self.members.by_id:
            self.phase.refuse_parked(member_id, ErrorCode.REBALANCE_IN_PROGRESS, member_id)
            self.syncing.refuse_parked(member_id, ErrorCode.REBALANCE_IN_PROGRESS)

    def converted(self) -> None:
        """Stop the timers of members: a group of the consumer protocol replaces this group, unless its write fails.

        The timer of a join phase runs on, as in Kafka, and may find another classic group of this name.
        """
        assert self._converted_in is None and self.state is not DEAD
        if self.state is not PREPARING:
            self.phase.stop()
        self._stop_timers()
        self.members.pending.clear()
        self._converted_in, self.shared.state = self.shared.state, DEAD

    def not_converted(self) -> None:
        """Continue after the failed write of the conversion, with new timers."""
        assert self._converted_in is not None
        self.shared.state, self._converted_in = self._converted_in, None
        for member in self.members:
            self.shared.start_session(member)
        if self.state is PREPARING:
            self.phase.restart()
        elif self.state is COMPLETING:
            self.syncing.expect()

    def take_over(self, generation: int, protocol: str) -> None:
        """Begin as Stable with the members of a group of the consumer protocol, which are added already."""
        shared = self.shared
        shared.protocol_type, shared.protocol, shared.generation = CONSUMER, protocol, generation
        shared.know_subscriptions(tuple([member.metadata(protocol) for member in self.members]))
        shared.state = STABLE
        for member in self.members:
            shared.start_session(member)

    def unload(self) -> None:
        """Answer all parked requests with NOT_COORDINATOR: another broker coordinates the group now."""
        self.die("unloaded")
        for member_id in self.members.by_id:
            self.phase.refuse_parked(member_id, ErrorCode.NOT_COORDINATOR, member_id)
            self.syncing.refuse_parked(member_id, ErrorCode.NOT_COORDINATOR)
        self._machine.note(GroupUnloaded(group=self.name))

    def revived(self) -> "Group":
        """A copy of the group from before its deletion, whose write failed. Only empty groups are deleted."""
        assert self.state is DEAD and not self.members
        group = Group(self._machine, self.partition, self.name)
        group.offsets = self.offsets
        group.second = self.second
        old, new = self.shared, group.shared
        new.protocol_type, new.generation, new.since_ms = old.protocol_type, old.generation, old.since_ms
        return group
