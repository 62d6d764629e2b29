"""A static instance that restarts: a new member id replaces the old id, which is fenced.

Source: KIP-345 (static members), KIP-814 (skip assignment); Kafka's ``updateStaticMemberThenRebalanceOrCompleteJoin``.
"""

from functools import partial

from kemu.actors.coordinator.join_phase import JoinPhase
from kemu.actors.coordinator.log import Write
from kemu.actors.coordinator.members import Member
from kemu.actors.coordinator.shared_state import GroupMachine, SharedState
from kemu.actors.coordinator.state import COMPLETING, PREPARING, STABLE
from kemu.actors.coordinator.syncing import Syncing
from kemu.actors.machine import Caller
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.messages.group import JoinGroup, JoinGroupReply, JoinProtocol
from kemu.protocol.messages.records import group_record
from kemu.protocol.names import MemberId
from kemu.protocol.notes.groups import Removal

_SKIP_ASSIGNMENT_SINCE = 9


@frozen
class _Before:
    """A static member before its replacement, and the group's leader at that time."""

    member_id: MemberId
    leader: MemberId
    protocols: tuple[JoinProtocol, ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int


class StaticInstances:
    """The replacements of one group's static members."""

    def __init__(self, machine: GroupMachine, shared: SharedState, phase: JoinPhase, syncing: Syncing) -> None:
        self._machine = machine
        self._shared = shared
        self._phase = phase
        self._syncing = syncing

    def replace(self, caller: Caller, request: JoinGroup, member_id: MemberId) -> None:
        """Assign a new id to a known instance that joins without a member id; the member's position does not change."""
        shared, rules = self._shared, self._machine.rules
        assert request.instance_id is not None
        assert shared.state in (PREPARING, COMPLETING, STABLE), f"{shared.name}: a static member in {shared.state}"
        member = shared.members.by_id[shared.members.static[request.instance_id]]
        before = _Before(
            member.member_id,
            shared.members.leader or "",
            member.protocols,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
        )
        self._rename(member, member_id, f"{Removal.REPLACED} {member_id}")
        self._phase.update_and_park(caller, request, member)
        if shared.state is PREPARING:
            self._phase.complete_if_all_joined()
        elif shared.state is COMPLETING and not rules.replacement_rebalances_completing:
            self._written(caller, member, before, ErrorCode.NONE, 0)
        elif shared.state is COMPLETING:
            why = shared.reasons.replaced_while_completing(member_id, request.instance_id, request.reason)
            self._phase.prepare(why)
        elif not rules.writes_replacements:
            self._written(caller, member, before, ErrorCode.NONE, 0)
        elif shared.members.vote() != shared.protocol:
            why = shared.reasons.replacement_changes_vote(member_id, request.instance_id, request.reason)
            self._phase.prepare(why)
        else:
            write = Write(partial(self._written, caller, member, before))
            self._machine.writes.begin(shared.partition, (group_record(shared.metadata()),), write)

    def _rename(self, member: Member, member_id: MemberId, why: str) -> None:
        """Fence the old id of a static member, and start the session of the new id."""
        shared, old = self._shared, member.member_id
        led = shared.members.leader == old
        self._phase.refuse_parked(old, ErrorCode.FENCED_INSTANCE_ID, old)
        self._syncing.refuse_parked(old, ErrorCode.FENCED_INSTANCE_ID)
        self._machine.stop_timer(member.timer)
        shared.note_removed(member, why)
        shared.members.rename(member, member_id, shared.name)
        member.is_new = member.is_new and self._machine.rules.replacement_stays_new
        shared.note_added(member)
        if led:
            shared.note_leader()
        shared.start_session(member)

    def _written(self, caller: Caller, member: Member, before: _Before, error: ErrorCode, _base_offset: int) -> None:
        """Answer the join after the write of the record with the new id; after a failure restore the old id."""
        shared, phase, member_id = self._shared, self._phase, member.member_id
        if phase.parked.get(member_id) != caller or shared.members.by_id.get(member_id) is not member:
            return  # already answered, fenced or removed
        if error is not ErrorCode.NONE:
            self._revert(caller, member, before, error)
            return
        if caller.version < _SKIP_ASSIGNMENT_SINCE:
            # The answer names the old leader's id, so that a restarted leader does not compute an assignment.
            phase.parked.release(member_id)
            phase.answer(caller, member, (), leader=before.leader)
        elif member_id != shared.members.leader:
            phase.parked.release(member_id)
            phase.answer(caller, member, ())
        elif shared.state is STABLE:  # otherwise the running join phase will answer
            phase.parked.release(member_id)
            phase.answer(caller, member, shared.members.listed(shared.protocol), skip=True)

    def _revert(self, caller: Caller, member: Member, before: _Before, error: ErrorCode) -> None:
        shared, rules = self._shared, self._machine.rules
        self._phase.parked.release(member.member_id)
        restores = rules.revert_restores_protocols and shared.state is STABLE
        shared.members.update(
            member,
            before.protocols if restores else member.protocols,  # other members may have joined with the new protocols
            before.rebalance_timeout_ms,
            before.session_timeout_ms,
        )
        self._rename(member, before.member_id, Removal.NOT_REPLACED)
        error = rules.group_append_errors.get(error, error)
        reply = JoinGroupReply(
            error=error,
            generation=shared.generation,
            protocol_type=shared.protocol_type,
            protocol_name=shared.protocol,
            leader=before.leader,
        )
        self._machine.refuse(caller, reply, group=shared.name, api="JoinGroup", member_id=before.member_id, error=error)
