"""A classic consumer group: what it answers to each request, state by state. Joining: ``joining``.

Order of the checks everywhere: state DEAD, instance (82) before member id (25), generation (22), protocol (23), state.
What must be in the log before it is said is said in ``*_written``; the group may have moved on by then, so each of
those first asks whether what it was about still holds.

Source: Kafka's ClassicGroup and the classic half of GroupMetadataManager; KIP-211 (expiry), KIP-496 (OffsetDelete),
KIP-559 (protocol in SyncGroup).
"""

from collections.abc import Callable

from kemu.actors.coordinator.desk import CoordinatorBase, OffsetsPartition, SyncWrite
from kemu.actors.coordinator.joining import JoiningGroup
from kemu.actors.coordinator.members import Member, session_key
from kemu.actors.coordinator.offsets import MS_PER_MINUTE, GroupOffsets
from kemu.actors.coordinator.rebalance import CONSUMER
from kemu.actors.coordinator.replies import leave_reply, leaving
from kemu.actors.coordinator.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from kemu.actors.machine import Received, caller_of
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
from kemu.protocol.messages.records import GroupMetadata, StoredOffset, group_record
from kemu.protocol.names import UNKNOWN_MEMBER, GroupId, MemberId, TopicPartition
from kemu.protocol.notes.groups import GroupLoaded, GroupUnloaded

_NONE = ErrorCode.NONE
_ALIVE = HeartbeatReply(error=_NONE)


class Group(JoiningGroup):
    """One group at its coordinator."""

    # --- sync --------------------------------------------------------------------------------------------------

    def sync(self, event: Received, request: SyncGroup) -> None:
        """Give a member its assignment, or take everybody's from the leader."""
        caller = caller_of(event)
        error = self._why_no_sync(request)
        if error is not _NONE:
            self.refuse_sync(caller, error, request.member_id)
            return
        member = self.members.by_id[request.member_id]
        if self.pending_sync.pop(member.member_id, True) is None and not self.pending_sync:
            self.desk.stop_timer(self._sync_key)
        if self.state is STABLE:
            self.answer_sync(caller, member)
            if self.desk.rules.sync_rearms_session:
                self.start_session(member)
            return
        member.sync = caller
        if member.member_id == self.members.leader:
            given = {entry.member_id: entry.assignment for entry in request.assignments}
            assignments = {member_id: given.get(member_id, b"") for member_id in self.members.by_id}
            record = group_record(self.metadata(assignments))
            self.desk.write(self.partition, (record,), SyncWrite(self, self.generation, assignments))

    def _why_no_sync(self, request: SyncGroup) -> ErrorCode:
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.members.why_not(request.member_id, request.instance_id)
        if error is not _NONE:
            return error
        if request.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if _differs(request.protocol_type, self.protocol_type) or _differs(request.protocol_name, self.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert self.state is not EMPTY, f"{self.name}: {request.member_id} is a member of an empty group"
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is PREPARING else _NONE

    def sync_written(self, write: SyncWrite, error: ErrorCode) -> None:
        """The assignment is in the log: everybody may know it. Or it is not: the group tries again."""
        if self.state is not COMPLETING or self.generation != write.generation:
            return
        if error is not _NONE:
            error = self.desk.rules.group_append_errors.get(error, error)
            self.reset_assignments(error)
            self.prepare(f"the assignment could not be written: {error.name}")
            return
        for member in self.members:
            member.assignment = write.assignments[member.member_id]
            caller, member.sync = member.sync, None
            if caller is not None:
                self.answer_sync(caller, member)
                self.start_session(member)
        self.become(STABLE, "the leader's assignment is in the log")

    # --- heartbeat ---------------------------------------------------------------------------------------------

    def heartbeat(self, event: Received, request: Heartbeat) -> None:
        """Note that a member lives, and tell it whether to rejoin."""
        error = self._why_no_heartbeat(request)
        if error is _NONE or error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.start_session(self.members.by_id[request.member_id])
        if error is _NONE:
            self.desk.reply(event, _ALIVE)
            return
        self.desk.refuse(
            event,
            HeartbeatReply(error=error),
            group=self.name,
            api="Heartbeat",
            member_id=request.member_id,
            error=error,
        )

    def _why_no_heartbeat(self, request: Heartbeat) -> ErrorCode:
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.members.why_not(request.member_id, request.instance_id)
        if error is not _NONE:
            return error
        if request.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        assert self.state is not EMPTY, f"{self.name}: {request.member_id} is a member of an empty group"
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is PREPARING else _NONE

    # --- leave -------------------------------------------------------------------------------------------------

    def leave(self, event: Received, request: LeaveGroup) -> None:
        """Remove members: themselves, or by an admin who knows their instance id."""
        caller = caller_of(event)
        if self.state is DEAD:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self.refuse_leave(caller, LeaveGroupReply(error=error), request.member_id, error)
            return
        per_member = self.desk.rules.leave_acts_per_member
        outcomes: list[LeftMember] = []
        left: list[str] = []
        only_pending = True
        for entry in leaving(event.version, request):
            error, was_pending = self._leave_one(entry)
            outcomes.append(LeftMember(member_id=entry.member_id, instance_id=entry.instance_id, error=error))
            if error is not _NONE:
                continue
            left.append(entry.member_id or entry.instance_id or "")
            only_pending = only_pending and was_pending
            if per_member:
                self._after_leave(left[-1:], only_pending=was_pending)
        reply = leave_reply(event.version, tuple(outcomes))
        if per_member or not left:
            self.answer_leave(caller, reply)
            return
        self._leave = (caller, reply)
        self._after_leave(left, only_pending=only_pending)
        if self._leave is not None:
            self._leave = None
            self.answer_leave(caller, reply)

    def _leave_one(self, entry: LeavingMember) -> tuple[ErrorCode, bool]:
        """The outcome for one entry, and whether the id had only been handed out."""
        member_id: MemberId | None = entry.member_id
        if member_id in self.members.pending:
            self.members.remove(entry.member_id)
            self.desk.stop_timer(session_key(self.name, entry.member_id))
            return _NONE, True
        if member_id == UNKNOWN_MEMBER:
            member_id = None if entry.instance_id is None else self.members.static.get(entry.instance_id)
            error = ErrorCode.UNKNOWN_MEMBER_ID if member_id is None else _NONE
        else:
            error = self.members.why_not(entry.member_id, entry.instance_id)
        if error is not _NONE or member_id is None:
            return error, False
        self.remove_member(self.members.by_id[member_id], "left")
        return _NONE, False

    def _after_leave(self, left: list[str], *, only_pending: bool) -> None:
        if self.state is PREPARING:
            self.complete_if_all_joined()
        elif self.state in (COMPLETING, STABLE) and (not only_pending or self.desk.rules.pending_leave_rebalances):
            self.prepare(f"left: {', '.join(left)}")

    # --- offsets -----------------------------------------------------------------------------------------------

    def why_no_commit(self, generation: int, member_id: MemberId, instance_id: str | None) -> ErrorCode:
        """NONE, or why these may not commit. Without ids (a tool) only while the group is Empty."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is EMPTY:
            return _NONE
        if generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            error = self.members.why_not(member_id, instance_id)
            if error is not _NONE:
                return error
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        else:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is COMPLETING else _NONE

    def committed_by(self, member_id: MemberId) -> None:
        """A commit was accepted: a sign of life."""
        member = self.members.by_id.get(member_id)
        if member is not None and self.state in (STABLE, PREPARING):
            self.start_session(member)

    def why_no_offset_delete(self) -> ErrorCode:
        """NONE, or why no offset of this group may be deleted by hand."""
        if self.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.state is EMPTY or self.protocol_type == CONSUMER:
            return _NONE
        return ErrorCode.NON_EMPTY_GROUP

    def why_no_delete(self) -> ErrorCode:
        """NONE, or why the group may not be deleted."""
        if self.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return _NONE if self.state is EMPTY else ErrorCode.NON_EMPTY_GROUP

    def consumes(self, topic: str) -> bool:
        """Whether a member subscribes to the topic; a group whose subscriptions are unknown might."""
        if self.state is EMPTY:
            return False
        topics = self.subscribed_topics()
        return topics is None or topic in topics

    def expired_offsets(self) -> tuple[TopicPartition, ...]:
        """The offsets to drop now; since when they wait depends on what the group is (KIP-211)."""
        base = self._expiry_base()
        if base is None:
            return ()
        retention_ms = self.desk.config.offsets_retention_minutes * MS_PER_MINUTE
        return self.offsets.expired(self.desk.now_ms, retention_ms, base)

    def _expiry_base(self) -> Callable[[TopicPartition, StoredOffset], int | None] | None:
        if self.state is DEAD:
            return None
        if self.protocol_type is None:
            return lambda _, value: value.commit_timestamp_ms
        if self.state is EMPTY:
            since_ms = self.since_ms
            return lambda _, value: value.commit_timestamp_ms if since_ms is None else since_ms
        topics = self.subscribed_topics() if self.state is STABLE else None
        if topics is None:
            return None
        return lambda partition, value: None if partition[0] in topics else value.commit_timestamp_ms

    # --- what tools see ----------------------------------------------------------------------------------------

    def described(self) -> DescribedGroup:
        """Protocol, subscriptions and assignments are shown only while the group is Stable."""
        stable = self.state is STABLE
        members = [
            DescribedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(self.protocol) if stable else b"",
                assignment=member.assignment if stable else b"",
            )
            for member in self.members
        ]
        return DescribedGroup(
            error=_NONE,
            group=self.name,
            state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol=(self.protocol or "") if stable else "",
            members=tuple(members),
        )

    # --- coming and going with the partition -------------------------------------------------------------------

    @classmethod
    def from_log(
        cls,
        desk: CoordinatorBase,
        partition: OffsetsPartition,
        name: GroupId,
        metadata: GroupMetadata | None,
        offsets: GroupOffsets,
    ) -> "Group":
        """A group as a replay found it: Stable with members, else Empty; no metadata: a simple group of offsets."""
        group = cls(desk, partition, name)
        group.offsets = offsets
        if metadata is None:
            return group
        group.protocol_type = metadata.protocol_type or None
        group.protocol = metadata.protocol
        group.generation = metadata.generation
        group.since_ms = None if metadata.state_timestamp_ms < 0 else metadata.state_timestamp_ms
        for stored in metadata.members:
            timeout_ms = stored.session_timeout_ms if stored.rebalance_timeout_ms < 0 else stored.rebalance_timeout_ms
            member = Member(
                name,
                stored.member_id,
                instance_id=stored.instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=timeout_ms,
                session_timeout_ms=stored.session_timeout_ms,
                protocols=(JoinProtocol(name=metadata.protocol or "", metadata=stored.subscription),),
                assignment=stored.assignment,
            )
            group.members.add(member)
        if metadata.leader in group.members.by_id:
            group.members.leader = metadata.leader
        group.know_subscriptions(tuple([stored.subscription for stored in metadata.members]))
        if group.members:
            group.state = STABLE
        return group

    def loaded(self) -> None:
        """The partition is active: sessions begin afresh, and a group that is too large must shrink."""
        self.desk.note(
            GroupLoaded(
                group=self.name,
                state=self.state.value,
                generation=self.generation,
                members=tuple(self.members.by_id),
            )
        )
        for member in self.members:
            self.start_session(member)
        if len(self.members) > self.desk.config.group_max_size:
            self.prepare("more members than group.max.size after loading")

    def die(self, why: str) -> None:
        """Nothing of the group remains here but its name."""
        self.become(DEAD, why)
        self.desk.stop_timer(self._join_key)
        self.desk.stop_timer(self._sync_key)
        for member in self.members:
            self.desk.stop_timer(member.timer)
        for member_id in self.members.pending:
            self.desk.stop_timer(session_key(self.name, member_id))
        self.members.pending.clear()

    def unload(self) -> None:
        """Another broker coordinates the group now: whoever waits here must look for it."""
        self.die("unloaded")
        for member in self.members:
            join = self.members.unpark_join(member)
            if join is not None:
                self.refuse_join(join, ErrorCode.NOT_COORDINATOR, member.member_id)
            sync, member.sync = member.sync, None
            if sync is not None:
                self.refuse_sync(sync, ErrorCode.NOT_COORDINATOR, member.member_id)
        self.desk.note(GroupUnloaded(group=self.name))

    def revived(self) -> "Group":
        """The group as it was before a deletion that did not get into the log. Only empty groups are deleted."""
        assert self.state is DEAD and not self.members
        group = Group(self.desk, self.partition, self.name)
        group.offsets = self.offsets
        group.protocol_type, group.generation, group.since_ms = self.protocol_type, self.generation, self.since_ms
        return group


def _differs(claimed: str | None, actual: str | None) -> bool:
    """A protocol type or name that is not given is not compared."""
    return claimed is not None and actual is not None and claimed != actual
