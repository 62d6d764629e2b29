"""Joins of a group: the size limit, new members and known members.

Source: Kafka's classic half of GroupMetadataManager; KIP-389 (maximum size), KIP-394 (MEMBER_ID_REQUIRED).
"""

from collections.abc import Callable
from functools import partial

from kemu.actors.coordinator.join_phase import NOBODY, JoinPhase, rebalance_timeout_of
from kemu.actors.coordinator.log import Write
from kemu.actors.coordinator.members import Member
from kemu.actors.coordinator.shared_state import GroupMachine, SharedState
from kemu.actors.coordinator.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from kemu.actors.coordinator.static import StaticInstances
from kemu.actors.coordinator.timers import session_key
from kemu.actors.machine import US_PER_MS, Caller, Received, Record, caller_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinGroup
from kemu.protocol.messages.records import GroupMetadata, group_record
from kemu.protocol.names import UNKNOWN_MEMBER, MemberId
from kemu.protocol.notes.groups import Removal

_NONE = ErrorCode.NONE
_MEMBER_ID_REQUIRED_SINCE = 4


class Joining:
    """The joins of one group."""

    def __init__(self, machine: GroupMachine, shared: SharedState, phase: JoinPhase, static: StaticInstances) -> None:
        self._machine = machine
        self._shared = shared
        self._phase = phase
        self._static = static

    def serve(self, event: Received, request: JoinGroup) -> None:
        """Accept or refuse a JoinGroup request."""
        caller = caller_of(event)
        if not self._has_room(request.member_id):
            self._turn_away(caller, request)
        elif self._shared.state is DEAD:
            self._phase.refuse(caller, ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        elif not self._supports(request):
            self._phase.refuse(caller, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        elif request.member_id == UNKNOWN_MEMBER:
            self._join_new(caller, request)
        else:
            self._join_known(caller, request)

    def write_new_group(
        self, event: Received, tombstones: tuple[Record, ...] = (), undo: Callable[[], None] | None = None
    ) -> None:
        """Write the empty record of the group that this join creates. If the write fails, the join gets the error.

        ``tombstones``: of the group that the new group replaces. ``undo``: called after a failed append.
        """
        shared = self._shared
        record = group_record(
            GroupMetadata(
                group=shared.name,
                protocol_type="",
                generation=shared.generation,
                protocol=None,
                leader=None,
                state_timestamp_ms=self._machine.now_ms,
                members=(),
            )
        )
        caller = caller_of(event)
        late = partial(self._new_group_written, caller, None)  # the records may reach the log later
        write = Write(partial(self._new_group_written, caller, undo), late=late)
        self._machine.writes.begin(shared.partition, (*tombstones, record), write)

    def _new_group_written(
        self, caller: Caller, undo: Callable[[], None] | None, error: ErrorCode, _base_offset: int
    ) -> None:
        if error is _NONE or self._shared.state is DEAD:
            return
        parked = self._phase.parked
        member_id = next((each for each in parked if parked[each] == caller), None)
        if member_id is not None:
            error = self._machine.rules.group_append_errors.get(error, error)
            self._phase.refuse(caller, error, UNKNOWN_MEMBER, of=member_id)
            parked.hold(member_id, NOBODY)
        if undo is not None:
            undo()

    def failed(self, caller: Caller) -> None:
        """Keep a member in the join phase after its join was answered with an internal error."""
        parked = self._phase.parked
        for member_id in [each for each in parked if parked[each] == caller]:
            parked.hold(member_id, NOBODY)

    # --- checks ------------------------------------------------------------------------------------------------

    def _has_room(self, member_id: MemberId) -> bool:
        """Whether the group has room (KIP-389). Members in a join phase are counted, pending ids are not."""
        most = self._machine.config.group_max_size
        state = self._shared.state
        if state is PREPARING:
            return member_id in self._phase.parked or len(self._phase.parked) < most
        if state in (COMPLETING, STABLE):
            members = self._shared.members
            return member_id in members.by_id or len(members) < most
        return True

    def _turn_away(self, caller: Caller, request: JoinGroup) -> None:
        self._phase.drop(request.member_id, Removal.FULL)
        self._machine.stop_timer(session_key(self._shared.name, request.member_id))
        self._phase.refuse(caller, ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER, of=request.member_id)
        if self._machine.rules.refusal_completes_join:
            self._phase.complete_if_all_joined()

    def _supports(self, request: JoinGroup) -> bool:
        shared = self._shared
        names = [protocol.name for protocol in request.protocols]
        if shared.state is EMPTY:
            return bool(request.protocol_type) and bool(names)
        return request.protocol_type == shared.protocol_type and shared.members.supported_by_all(request.protocols)

    # --- new and known members ---------------------------------------------------------------------------------

    def _join_new(self, caller: Caller, request: JoinGroup) -> None:
        shared, machine = self._shared, self._machine
        instance_id = request.instance_id
        if instance_id is not None:
            member_id = machine.new_member_id(instance_id, shared.partition)
            if instance_id in shared.members.static:
                self._static.replace(caller, request, member_id)
            else:
                self._add(caller, request, member_id)
            return
        member_id = machine.new_member_id(caller.actor, shared.partition)
        if caller.version < _MEMBER_ID_REQUIRED_SINCE:
            self._add(caller, request, member_id)
            return
        shared.members.pending[member_id] = None
        machine.start_timer(session_key(shared.name, member_id), request.session_timeout_ms * US_PER_MS)
        self._phase.refuse(caller, ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _join_known(self, caller: Caller, request: JoinGroup) -> None:
        members = self._shared.members
        member_id, instance_id = request.member_id, request.instance_id
        if member_id in members.pending:
            if instance_id is None:
                self._add(caller, request, member_id)
            else:  # only dynamic members get pending ids; Kafka throws here, and its answer has no member id
                self._phase.refuse(caller, ErrorCode.UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER, of=member_id)
            return
        error = members.why_not(member_id, instance_id)
        if error is not _NONE:
            self._phase.refuse(caller, error, member_id)
        else:
            self._rejoin(caller, request, members.by_id[member_id])

    def _rejoin(self, caller: Caller, request: JoinGroup, member: Member) -> None:
        """Accept the join of a member: a changed join, or a repeated join."""
        shared, phase = self._shared, self._phase
        unchanged = member.protocols == request.protocols
        leads = member.member_id == shared.members.leader
        if shared.state is PREPARING:
            phase.update_and_park(caller, request, member)
            phase.complete_if_all_joined()
        elif shared.state is COMPLETING and unchanged:
            phase.answer(caller, member, shared.members.listed(shared.protocol) if leads else ())
        elif shared.state is STABLE and unchanged and not leads:
            phase.answer(caller, member, ())
        else:
            assert shared.state in (COMPLETING, STABLE), f"{member.member_id} is a member in {shared.state}"
            phase.update_and_park(caller, request, member)
            word = shared.reasons.leader_rejoins if leads and shared.state is STABLE else shared.reasons.new_metadata
            phase.prepare(word(member.member_id, shared.state, request.reason))

    def _add(self, caller: Caller, request: JoinGroup, member_id: MemberId) -> None:
        shared = self._shared
        self._phase.may_extend()
        if not shared.members:
            shared.protocol_type = request.protocol_type
        member = Member(
            shared.name,
            member_id,
            instance_id=request.instance_id,
            client_id=caller.actor,
            client_host=f"/{caller.actor}",
            rebalance_timeout_ms=rebalance_timeout_of(request),
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            is_new=True,
        )
        shared.members.add(member)
        self._phase.parked.hold(member_id, caller)
        shared.note_added(member)
        if shared.members.leader == member_id:
            shared.note_leader()
        self._machine.start_timer(member.timer, self._machine.config.emulated_new_member_timeout_ms * US_PER_MS)
        self._phase.rebalance_or_complete(shared.reasons.new_member(member_id, request.instance_id, request.reason))
