"""Requests of classic members of a group with the consumer protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

A classic member joins and syncs at once, without other members: the coordinator assigns, and the generation is the
member's epoch. Heartbeats tell the member to rejoin: after each change of the group's epoch, to give up partitions, and
when a partition that the member waits for is free.

Source: Kafka 4.0 ``GroupMetadataManager.classicGroupJoinToConsumerGroup``, ``classicGroupSyncToConsumerGroup``,
``classicGroupHeartbeatToConsumerGroup``, ``classicGroupLeaveToConsumerGroup``.
"""

from functools import partial

from kemu.actors.coordinator.consumer_group.heartbeats import HeartbeatRefused, known_member
from kemu.actors.coordinator.consumer_group.state import ClassicMetadata, ConsumerMember, share_of
from kemu.actors.coordinator.consumer_requests import ConsumerGroupRequests
from kemu.actors.coordinator.migration import assignment_of
from kemu.actors.coordinator.modern_group import ModernGroup
from kemu.actors.coordinator.replies import leave_reply, leaving
from kemu.actors.coordinator.shared_state import GroupMachine
from kemu.actors.machine import Caller, Received, caller_of
from kemu.protocol.consumer_group.shares import (
    partitions_of,
    replayed,
)
from kemu.protocol.consumer_group.states import ReconcilingState
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
    SyncGroup,
    SyncGroupReply,
)
from kemu.protocol.messages.refusals import join_error
from kemu.protocol.names import CONSUMER, UNKNOWN_MEMBER, MemberId
from kemu.protocol.notes.groups import Removal, RequestRefused

_E = ErrorCode
_NONE = ErrorCode.NONE
_STATE = ReconcilingState


class ClassicMemberRequests:
    """The part of a coordinator that serves classic members of groups with the consumer protocol."""

    def __init__(self, machine: GroupMachine, consumers: ConsumerGroupRequests) -> None:
        self._machine = machine
        self._consumers = consumers

    # --- join --------------------------------------------------------------------------------------------------

    def join(self, event: Received, request: JoinGroup, group: ModernGroup) -> None:
        """Answer JoinGroup to a group with members."""
        caller, consumers = caller_of(event), self._consumers
        try:
            joined = consumers.answers_for(group.name).join(
                group.working,
                request,
                event.version,
                is_stale=group.must_compare_topics,
                has_new_topics=group.has_new_topics,
                now_ms=self._machine.now_ms,
                client=consumers.client_of(event),
                new_member_id=partial(
                    self._machine.new_member_id, request.instance_id or event.peer, group.partition, bare=True
                ),
                downgrades=group.may_downgrade_by(request.instance_id),
            )
        except HeartbeatRefused as refused:
            self._refuse_join(caller, request, refused.error, refused.member_id)
            return
        group.compared_topics(joined.records)
        group.joined(joined, partial(self._answer_join, caller, request, joined.reply))

    def _answer_join(self, caller: Caller, request: JoinGroup, reply: JoinGroupReply, error: ErrorCode) -> None:
        if error is _NONE:
            self._machine.reply(caller, reply)
        else:
            self._refuse_join(caller, request, self._as_answer(error), UNKNOWN_MEMBER)

    def _refuse_join(self, caller: Caller, request: JoinGroup, error: ErrorCode, member_id: MemberId) -> None:
        reply = join_error(caller.version, error, member_id)
        who = member_id or request.member_id
        self._machine.refuse(caller, reply, group=request.group, api="JoinGroup", member_id=who, error=error)

    # --- sync --------------------------------------------------------------------------------------------------

    def sync(self, event: Received, request: SyncGroup, group: ModernGroup) -> None:
        """Answer SyncGroup with the partitions that the member may own now."""
        caller = caller_of(event)
        try:
            member, classic = self._classic(group, request)
            if any(
                claimed not in (None, actual)
                for claimed, actual in (
                    (request.protocol_type, CONSUMER),
                    (request.protocol_name, classic.protocols[0].name),
                )
            ):
                raise HeartbeatRefused(_E.INCONSISTENT_GROUP_PROTOCOL)
            current = group.working.current_of(member.member_id)
            if self._epoch_of(group) > current.epoch and current.state is not _STATE.UNREVOKED_PARTITIONS:
                group.must_join(member.member_id)
                raise HeartbeatRefused(_E.REBALANCE_IN_PROGRESS)
        except HeartbeatRefused as refused:
            self._refuse_sync(caller, request, refused.error)
            return
        assigned = partitions_of(replayed(share_of(current.assigned)))
        reply = SyncGroupReply(
            error=_NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_of(group.in_order(assigned), classic.protocols[0].metadata),
        )
        self._machine.writes.behind(group.partition, partial(self._answer_sync, caller, request, group, reply))

    def _answer_sync(
        self, caller: Caller, request: SyncGroup, group: ModernGroup, reply: SyncGroupReply, error: ErrorCode
    ) -> None:
        if error is _NONE:
            group.synced(request.member_id)
            self._machine.reply(caller, reply)
        else:
            self._refuse_sync(caller, request, self._as_answer(error))

    def _refuse_sync(self, caller: Caller, request: SyncGroup, error: ErrorCode) -> None:
        reply = SyncGroupReply(error=error)
        self._machine.refuse(
            caller, reply, group=request.group, api="SyncGroup", member_id=request.member_id, error=error
        )

    # --- heartbeat ---------------------------------------------------------------------------------------------

    def heartbeat(self, event: Received, request: Heartbeat, group: ModernGroup) -> None:
        """Answer Heartbeat: restart the member's session, and say whether the member must rejoin."""
        caller = caller_of(event)
        try:
            member, _ = self._classic(group, request)
        except HeartbeatRefused as refused:
            self._answer_heartbeat(caller, request, refused.error, _NONE)
            return
        group.start_session(member.member_id)
        found = _NONE
        is_behind = self._epoch_of(group) > request.generation
        if is_behind or _waits(group, member.member_id):
            group.must_join(member.member_id)
            found = _E.REBALANCE_IN_PROGRESS
        self._machine.writes.behind(group.partition, partial(self._answer_heartbeat, caller, request, found))

    def _answer_heartbeat(self, caller: Caller, request: Heartbeat, found: ErrorCode, error: ErrorCode) -> None:
        error = self._as_answer(error) or found
        reply = HeartbeatReply(error=error)
        if error is _NONE:
            self._machine.reply(caller, reply)
        else:
            self._machine.refuse(
                caller, reply, group=request.group, api="Heartbeat", member_id=request.member_id, error=error
            )

    # --- leave -------------------------------------------------------------------------------------------------

    def leave(self, event: Received, request: LeaveGroup, group: ModernGroup) -> None:
        """Answer LeaveGroup, from the members themselves or from an admin; also members of the consumer protocol leave
        so.
        """
        caller, outcomes, left = caller_of(event), [], list[MemberId]()
        for entry in leaving(event.version, request):
            error = _NONE
            try:
                left.append(_leaver(group, entry).member_id)
            except HeartbeatRefused as refused:
                error = refused.error
            outcomes.append(LeftMember(member_id=entry.member_id, instance_id=entry.instance_id, error=error))
        answer = partial(self._answer_leave, caller, request, leave_reply(event.version, tuple(outcomes)))
        if left:
            unique = tuple(dict.fromkeys(left))
            group.remove(unique, Removal.LEFT, " left", answer)
        else:
            self._machine.writes.behind(group.partition, answer)

    def _answer_leave(self, caller: Caller, request: LeaveGroup, reply: LeaveGroupReply, error: ErrorCode) -> None:
        machine, error = self._machine, self._as_answer(error)
        if error is not _NONE:
            machine.refuse(
                caller, LeaveGroupReply(error=error), group=request.group, api="LeaveGroup", member_id="", error=error
            )
            return
        for row in reply.members:
            if row.error is not _NONE:
                machine.note(
                    RequestRefused(group=request.group, api="LeaveGroup", member_id=row.member_id, error=row.error)
                )
        machine.reply(caller, reply)

    # --- checks ------------------------------------------------------------------------------------------------

    def _classic(self, group: ModernGroup, request: SyncGroup | Heartbeat) -> tuple[ConsumerMember, ClassicMetadata]:
        """The classic member that sent the request with its epoch as generation.

        Raises:
            HeartbeatRefused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION.
        """
        member = known_member(group.working, request.member_id, request.instance_id)
        if member.classic is None:
            raise HeartbeatRefused(_E.UNKNOWN_MEMBER_ID)
        if request.generation != group.working.current_of(member.member_id).epoch:
            raise HeartbeatRefused(_E.ILLEGAL_GENERATION)
        return member, member.classic

    def _epoch_of(self, group: ModernGroup) -> int:
        """The epoch that a member must have reached, in the rules of the release."""
        state = group.working
        return state.target_epoch if self._machine.rules.consumer_groups.classic_members_follow_target else state.epoch

    def _as_answer(self, error: ErrorCode) -> ErrorCode:
        return self._machine.rules.group_append_errors.get(error, error)


def _waits(group: ModernGroup, member_id: MemberId) -> bool:
    """Whether a classic member must rejoin to give up partitions, or to get partitions that are free now.

    Source: ``classicGroupHeartbeatToConsumerGroup``, ``ConsumerGroup.waitingOnUnreleasedPartition``.
    """
    state = group.working
    current = state.current_of(member_id)
    if current.state is _STATE.UNREVOKED_PARTITIONS:
        return True
    missing = [each for each in partitions_of(state.target_of(member_id)) if each not in current.assigned]
    return current.state is _STATE.UNRELEASED_PARTITIONS and all(map(state.is_free, missing))


def _leaver(group: ModernGroup, entry: LeavingMember) -> ConsumerMember:
    """The member that an entry of LeaveGroup names; an admin names only the instance id."""
    member_id = entry.member_id
    if entry.instance_id is not None and member_id == UNKNOWN_MEMBER:
        member_id = group.working.static.get(entry.instance_id, "")
    return known_member(group.working, member_id, entry.instance_id)
