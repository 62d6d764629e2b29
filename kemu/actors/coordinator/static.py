"""A static instance that restarts: a new id takes the old one's place, and the old one is fenced.

Source: KIP-345 (static members), KIP-814 (skip assignment); Kafka's ``updateStaticMemberThenRebalanceOrCompleteJoin``.
"""

from functools import partial

from attrs import frozen

from kemu.actors.coordinator.books import GroupBooks, GroupMachine
from kemu.actors.coordinator.join_phase import JoinPhase
from kemu.actors.coordinator.log import Write
from kemu.actors.coordinator.members import Member
from kemu.actors.coordinator.state import COMPLETING, PREPARING, STABLE
from kemu.actors.coordinator.syncing import Syncing
from kemu.actors.machine import Caller
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinGroup, JoinGroupReply, JoinProtocol
from kemu.protocol.messages.records import group_record
from kemu.protocol.names import MemberId
from kemu.protocol.notes.groups import Removal

_SKIP_ASSIGNMENT_SINCE = 9


@frozen
class _Before:
    """A static member as it was under its old id, and the group's leader then."""

    member_id: MemberId
    leader: MemberId
    protocols: tuple[JoinProtocol, ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int


class StaticInstances:
    """The replacements of one group's static members."""

    def __init__(self, machine: GroupMachine, books: GroupBooks, phase: JoinPhase, syncing: Syncing) -> None:
        self._machine = machine
        self._books = books
        self._phase = phase
        self._syncing = syncing

    def replace(self, caller: Caller, request: JoinGroup, member_id: MemberId) -> None:
        """An instance that is known joins without an id: it gets a new one and keeps its place."""
        books, rules = self._books, self._machine.rules
        assert request.instance_id is not None
        assert books.state in (PREPARING, COMPLETING, STABLE), f"{books.name}: a static member in {books.state}"
        member = books.members.by_id[books.members.static[request.instance_id]]
        before = _Before(
            member.member_id,
            books.members.leader or "",
            member.protocols,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
        )
        self._rename(member, member_id, f"{Removal.REPLACED} {member_id}")
        self._phase.update_and_park(caller, request, member)
        if books.state is PREPARING:
            self._phase.complete_if_all_joined()
        elif books.state is COMPLETING and not rules.replacement_rebalances_completing:
            self._written(caller, member, before, ErrorCode.NONE, 0)
        elif books.state is COMPLETING:
            why = books.reasons.replaced_while_completing(member_id, request.instance_id, request.reason)
            self._phase.prepare(why)
        elif not rules.writes_replacements:
            self._written(caller, member, before, ErrorCode.NONE, 0)
        elif books.members.vote() != books.protocol:
            why = books.reasons.replacement_changes_vote(member_id, request.instance_id, request.reason)
            self._phase.prepare(why)
        else:
            write = Write(partial(self._written, caller, member, before))
            self._machine.writes.begin(books.partition, (group_record(books.metadata()),), write)

    def _rename(self, member: Member, member_id: MemberId, why: str) -> None:
        """Fence the old id of a static member and start the session of the new one."""
        books, old = self._books, member.member_id
        led = books.members.leader == old
        self._phase.send_away(old, ErrorCode.FENCED_INSTANCE_ID, old)
        self._syncing.send_away(old, ErrorCode.FENCED_INSTANCE_ID)
        self._machine.stop_timer(member.timer)
        books.note_removed(member, why)
        books.members.rename(member, member_id, books.name)
        member.is_new = member.is_new and self._machine.rules.replacement_stays_new
        books.note_added(member)
        if led:
            books.note_leader()
        books.start_session(member)

    def _written(self, caller: Caller, member: Member, before: _Before, error: ErrorCode, _base_offset: int) -> None:
        """The record with the new id is in the log, or the old id comes back."""
        books, phase, member_id = self._books, self._phase, member.member_id
        if phase.parked.get(member_id) != caller or books.members.by_id.get(member_id) is not member:
            return  # answered, fenced or removed meanwhile
        if error is not ErrorCode.NONE:
            self._revert(caller, member, before, error)
            return
        if caller.version < _SKIP_ASSIGNMENT_SINCE:
            # The old leader's id, so that a leader that restarted does not think that it has to assign.
            phase.parked.release(member_id)
            phase.answer(caller, member, (), leader=before.leader)
        elif member_id != books.members.leader:
            phase.parked.release(member_id)
            phase.answer(caller, member, ())
        elif books.state is STABLE:  # else there is no list to give: the join phase that runs will answer
            phase.parked.release(member_id)
            phase.answer(caller, member, books.members.listed(books.protocol), skip=True)

    def _revert(self, caller: Caller, member: Member, before: _Before, error: ErrorCode) -> None:
        books, rules = self._books, self._machine.rules
        self._phase.parked.release(member.member_id)
        restores = rules.revert_restores_protocols and books.state is STABLE
        books.members.update(
            member,
            before.protocols if restores else member.protocols,  # others may have joined on the new ones
            before.rebalance_timeout_ms,
            before.session_timeout_ms,
        )
        self._rename(member, before.member_id, Removal.NOT_REPLACED)
        error = rules.group_append_errors.get(error, error)
        reply = JoinGroupReply(
            error=error,
            generation=books.generation,
            protocol_type=books.protocol_type,
            protocol_name=books.protocol,
            leader=before.leader,
        )
        self._machine.refuse(caller, reply, group=books.name, api="JoinGroup", member_id=before.member_id, error=error)
