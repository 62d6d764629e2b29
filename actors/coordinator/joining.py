"""How a member gets into a group: the capacity gate, new members, those that come back, static replacements.

Source: Kafka's classic half of GroupMetadataManager; KIP-345 (static members), KIP-389 (maximum size), KIP-394
(MEMBER_ID_REQUIRED), KIP-814 (skip assignment).
"""

from kemu.actors.coordinator.desk import US_PER_MS, ReplaceWrite
from kemu.actors.coordinator.members import NOBODY, Member, session_key
from kemu.actors.coordinator.rebalance import RebalancingGroup
from kemu.actors.coordinator.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from kemu.actors.machine import Caller, Received, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinGroup, JoinGroupReply
from kemu.protocol.messages.records import group_record
from kemu.protocol.names import UNKNOWN_MEMBER, MemberId

_NONE = ErrorCode.NONE
_MEMBER_ID_REQUIRED_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9


class JoiningGroup(RebalancingGroup):
    """A group that answers JoinGroup."""

    # --- join --------------------------------------------------------------------------------------------------

    def join(self, event: Received, request: JoinGroup) -> None:
        """Let a member in, back in, or not."""
        caller = caller_of(event)
        if not self._has_room(request.member_id):
            self._turn_away(caller, request)
        elif self.state is DEAD:
            self.refuse_join(caller, ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        elif not self._supports(request):
            self.refuse_join(caller, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        elif request.member_id == UNKNOWN_MEMBER:
            self._join_new(caller, request)
        else:
            self._join_known(caller, request)

    def _has_room(self, member_id: MemberId) -> bool:
        """The capacity gate (KIP-389): who waits in a join phase counts, ids that were only handed out do not."""
        most = self.desk.config.group_max_size
        if self.state is PREPARING:
            member = self.members.by_id.get(member_id)
            return (member is not None and member.join is not None) or self.members.awaiting_join < most
        if self.state in (COMPLETING, STABLE):
            return member_id in self.members.by_id or len(self.members) < most
        return True

    def _turn_away(self, caller: Caller, request: JoinGroup) -> None:
        self.drop(request.member_id, "the group is full")
        self.desk.stop_timer(session_key(self.name, request.member_id))
        self.refuse_join(caller, ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER, of=request.member_id)
        if self.desk.rules.refusal_completes_join:
            self.complete_if_all_joined()

    def _supports(self, request: JoinGroup) -> bool:
        names = [protocol.name for protocol in request.protocols]
        if len(dict.fromkeys(names)) != len(names):
            return False
        if self.state is EMPTY:
            return bool(request.protocol_type) and bool(names)
        return request.protocol_type == self.protocol_type and self.members.supported_by_all(request.protocols)

    def _join_new(self, caller: Caller, request: JoinGroup) -> None:
        instance_id = request.instance_id
        if instance_id is not None:
            member_id = self.desk.new_member_id(instance_id, self.partition)
            if instance_id in self.members.static:
                self._replace(caller, request, member_id)
            else:
                self._add(caller, request, member_id)
            return
        member_id = self.desk.new_member_id(caller.actor, self.partition)
        if caller.version < _MEMBER_ID_REQUIRED_SINCE:
            self._add(caller, request, member_id)
            return
        self.members.pending[member_id] = None
        self.desk.start_timer(session_key(self.name, member_id), request.session_timeout_ms * US_PER_MS)
        self.refuse_join(caller, ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _join_known(self, caller: Caller, request: JoinGroup) -> None:
        member_id, instance_id = request.member_id, request.instance_id
        if member_id in self.members.pending:
            if instance_id is None:
                self._add(caller, request, member_id)
            else:  # ids are handed out to dynamic members only
                self.refuse_join(caller, ErrorCode.UNKNOWN_SERVER_ERROR, member_id)
            return
        error = self.members.why_not(member_id, instance_id)
        if error is not _NONE:
            self.refuse_join(caller, error, member_id)
        else:
            self._rejoin(caller, request, self.members.by_id[member_id])

    def _rejoin(self, caller: Caller, request: JoinGroup, member: Member) -> None:
        """A member comes back: with news, or asking again for what it was told."""
        unchanged = member.protocols == request.protocols
        leads = member.member_id == self.members.leader
        if self.state is PREPARING:
            self._update_and_park(caller, request, member)
            self.complete_if_all_joined()
        elif self.state is COMPLETING and unchanged:
            self.answer_join(caller, member, self.members.listed(self.protocol) if leads else ())
        elif self.state is STABLE and unchanged and not leads:
            self.answer_join(caller, member, ())
        else:
            assert self.state in (COMPLETING, STABLE), f"{self.name}: {member.member_id} is a member in {self.state}"
            self._update_and_park(caller, request, member)
            why = "changed its metadata" if not unchanged else "leads and rejoined"
            self.prepare(f"{member.member_id} {why}{_because(request)}")

    def _add(self, caller: Caller, request: JoinGroup, member_id: MemberId) -> None:
        if self.state is PREPARING and self._extends_delay():
            self.new_member_added = True
        if not self.members:
            self.protocol_type = request.protocol_type
        member = Member(
            self.name,
            member_id,
            instance_id=request.instance_id,
            client_id=caller.actor,
            client_host=f"/{caller.actor}",
            rebalance_timeout_ms=_rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            is_new=True,
        )
        self.members.add(member)
        self.members.park_join(member, caller)
        self.note_added(member)
        if self.members.leader == member_id:
            self.note_leader()
        self.desk.start_timer(member.timer, self.desk.config.emulated_new_member_timeout_ms * US_PER_MS)
        self.rebalance_or_complete(f"{member_id} joined{_because(request)}")

    def _extends_delay(self) -> bool:
        if self.desk.rules.delay_extends_at_generation_zero_only:
            return self.generation == 0
        return self.previous is EMPTY

    def _update_and_park(self, caller: Caller, request: JoinGroup, member: Member) -> None:
        self.members.update(member, request.protocols, _rebalance_timeout_ms(request), request.session_timeout_ms)
        self.members.park_join(member, caller)

    # --- static replacement ------------------------------------------------------------------------------------

    def _replace(self, caller: Caller, request: JoinGroup, member_id: MemberId) -> None:
        """A static instance restarted: it gets a new id, keeps its place, and the old id is fenced (KIP-345)."""
        assert request.instance_id is not None
        assert self.state in (PREPARING, COMPLETING, STABLE), f"{self.name}: a static member in {self.state}"
        member = self.members.by_id[self.members.static[request.instance_id]]
        write = ReplaceWrite(
            self,
            member,
            caller,
            old_id=member.member_id,
            old_leader=self.members.leader or "",
            old_protocols=member.protocols,
            old_rebalance_timeout_ms=member.rebalance_timeout_ms,
            old_session_timeout_ms=member.session_timeout_ms,
        )
        self._rename(member, member_id, f"replaced by {member_id}")
        self._update_and_park(caller, request, member)
        if self.state is PREPARING:
            self.complete_if_all_joined()
        elif self.state is COMPLETING:
            self.prepare(f"static member {request.instance_id} was replaced while its assignment was made")
        elif self.members.vote() != self.protocol:
            self.prepare(f"static member {request.instance_id} came back and changed the vote")
        else:
            self.desk.write(self.partition, (group_record(self.metadata()),), write)

    def _rename(self, member: Member, member_id: MemberId, why: str) -> None:
        """Fence the old id of a static member and start the session of the new one."""
        old, led = member.member_id, self.members.leader == member.member_id
        join = self.members.unpark_join(member)
        if join is not None:
            self.refuse_join(join, ErrorCode.FENCED_INSTANCE_ID, old)
        sync, member.sync = member.sync, None
        if sync is not None:
            self.refuse_sync(sync, ErrorCode.FENCED_INSTANCE_ID, old)
        self.desk.stop_timer(member.timer)
        self.note_removed(member, why)
        self.members.rename(member, member_id, session_key(self.name, member_id))
        member.is_new = False
        self.note_added(member)
        if led:
            self.note_leader()
        self.start_session(member)

    def replace_written(self, write: ReplaceWrite, error: ErrorCode) -> None:
        """The record with the new id is in the log, or the old id comes back."""
        member, caller = write.member, write.caller
        if member.join != caller or self.members.by_id.get(member.member_id) is not member:
            return  # answered, fenced or removed meanwhile
        if error is not _NONE:
            self._revert(write, error)
            return
        leads = member.member_id == self.members.leader
        if caller.version < _SKIP_ASSIGNMENT_SINCE:
            # The old leader's id, so that a leader that restarted does not think that it has to assign.
            self.members.unpark_join(member)
            self.answer_join(caller, member, (), leader=write.old_leader)
        elif not leads:
            self.members.unpark_join(member)
            self.answer_join(caller, member, ())
        elif self.state is STABLE:  # else there is no list to give: the join phase that runs will answer
            self.members.unpark_join(member)
            self.answer_join(caller, member, self.members.listed(self.protocol), skip=True)

    def _revert(self, write: ReplaceWrite, error: ErrorCode) -> None:
        member = write.member
        self.members.unpark_join(member)
        restores = self.desk.rules.revert_restores_protocols and self.state is STABLE
        self.members.update(
            member,
            write.old_protocols if restores else member.protocols,  # others may have joined on the new ones
            write.old_rebalance_timeout_ms,
            write.old_session_timeout_ms,
        )
        self._rename(member, write.old_id, "its replacement could not be written")
        error = self.desk.rules.group_append_errors.get(error, error)
        reply = JoinGroupReply(
            error=error,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=write.old_leader,
        )
        self.desk.refuse(write.caller, reply, group=self.name, api="JoinGroup", member_id=write.old_id, error=error)

    def new_group_written(self, caller: Caller, error: ErrorCode) -> None:
        """The record of a group that a join created; when it failed and the join is still parked, it is told so."""
        if error is _NONE or self.state is DEAD:
            return
        for member in self.members:
            if member.join == caller:
                error = self.desk.rules.group_append_errors.get(error, error)
                self.refuse_join(caller, error, UNKNOWN_MEMBER, of=member.member_id)
                member.join = NOBODY
                return


def _rebalance_timeout_ms(request: JoinGroup) -> int:
    """JoinGroup v0 has none: the session timeout stands in for it."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def _because(request: JoinGroup) -> str:
    return f" ({request.reason})" if request.reason else ""
