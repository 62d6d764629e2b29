"""The second half of a rebalance: missing syncs, parked syncs, and the answers to them.

Source: Kafka's ClassicGroup (``pendingSyncMembers``) and the classic half of GroupMetadataManager; KIP-559 (protocol in
SyncGroup), KAFKA-12890 (sync timer).
"""

from kemu.actors.coordinator.members import Member
from kemu.actors.coordinator.shared_state import GroupMachine, SharedState
from kemu.actors.coordinator.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupChange
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import US_PER_MS, Caller, Received, TimerKey, caller_of
from kemu.actors.parking import Parking
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import SyncGroup, SyncGroupReply
from kemu.protocol.names import MemberId

_NONE = ErrorCode.NONE


class Syncing:
    """The syncs of one generation."""

    def __init__(self, machine: GroupMachine, shared: SharedState) -> None:
        self._machine = machine
        self._shared = shared
        self.parked: Parking[MemberId, Caller] = Parking()
        self._missing: dict[MemberId, None] = {}
        """Members of this generation that have not sent SyncGroup."""
        self._timer: TimerKey = (GroupTimer.SYNC, shared.name)

    def expect(self) -> None:
        """Expect every member's sync of a new generation; since KAFKA-12890 within the rebalance timeout."""
        members = self._shared.members
        self._missing = dict.fromkeys(members.by_id)
        if self._machine.rules.sync_timer:
            self._machine.start_timer(self._timer, members.rebalance_timeout_ms() * US_PER_MS)

    def expect_nobody(self) -> None:
        """Expect no sync any more, because a join phase begins."""
        self._missing.clear()
        self._machine.stop_timer(self._timer)

    def forget(self, member_id: MemberId) -> None:
        """Remove a member. The member's parked sync is never answered, as in Kafka."""
        self._missing.pop(member_id, None)
        self.parked.release(member_id)

    def late(self) -> tuple[MemberId, ...]:
        """The members that joined but did not sync before the timer fired, despite any heartbeats (KAFKA-12890)."""
        return tuple(self._missing) if self._shared.state in (COMPLETING, STABLE) else ()

    # --- requests ----------------------------------------------------------------------------------------------

    def serve(self, event: Received, request: SyncGroup) -> dict[MemberId, bytes] | None:
        """Answer or park a SyncGroup request.

        Returns the leader's assignments, which must be written first; None for all other syncs.
        """
        caller = caller_of(event)
        error = self._why_not(request)
        if error is not _NONE:
            self.refuse(caller, error, request.member_id)
            return None
        shared, member_id = self._shared, request.member_id
        member = shared.members.by_id[member_id]
        if self._missing.pop(member_id, True) is None and not self._missing:
            self._machine.stop_timer(self._timer)
        if shared.state is STABLE:
            self._answer(caller, member)
            if self._machine.rules.sync_rearms_session:
                shared.start_session(member)
            return None
        self.parked.hold(member_id, caller)
        if member_id != shared.members.leader:
            return None
        given = {entry.member_id: entry.assignment for entry in request.assignments}
        return {each: given.get(each, b"") for each in shared.members.by_id}

    def _why_not(self, request: SyncGroup) -> ErrorCode:
        shared = self._shared
        if shared.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = shared.members.why_not(request.member_id, request.instance_id)
        if error is not _NONE:
            return error
        if request.generation != shared.generation:
            return ErrorCode.ILLEGAL_GENERATION
        named = (request.protocol_type, shared.protocol_type), (request.protocol_name, shared.protocol)
        if any(self._differs(claimed, actual) for claimed, actual in named):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert shared.state is not EMPTY, f"{shared.name}: {request.member_id} is a member of an empty group"
        return ErrorCode.REBALANCE_IN_PROGRESS if shared.state is PREPARING else _NONE

    def _differs(self, claimed: str | None, actual: str | None) -> bool:
        """Whether a protocol type or name in the request is wrong; an absent type or name is not compared."""
        if claimed is None or (actual is None and not self._machine.rules.sync_needs_vote):
            return False
        return claimed != actual

    # --- answers -----------------------------------------------------------------------------------------------

    def assign(self, assignments: dict[MemberId, bytes]) -> None:
        """Answer all parked syncs with the assignment, which is in the log."""
        for member in self._shared.members:
            member.assignment = assignments[member.member_id]
            caller = self.parked.release(member.member_id)
            if caller is not None:
                self._answer(caller, member)
                self._shared.start_session(member)
        self._shared.change(GroupChange.ASSIGNMENT, "the leader's assignment is in the log")

    def reset(self, error: ErrorCode) -> None:
        """Clear all assignments, and answer all parked syncs with an error."""
        for member in self._shared.members:
            member.assignment = b""
            caller = self.parked.release(member.member_id)
            if caller is not None:
                self.refuse(caller, error, member.member_id)
                self._shared.start_session(member)

    def refuse_parked(self, member_id: MemberId, error: ErrorCode) -> None:
        """Answer the parked sync of this id, if present, with an error."""
        caller = self.parked.release(member_id)
        if caller is not None:
            self.refuse(caller, error, member_id)

    def _answer(self, caller: Caller, member: Member) -> None:
        shared = self._shared
        self._machine.reply(
            caller,
            SyncGroupReply(
                error=_NONE,
                protocol_type=shared.protocol_type,
                protocol_name=shared.protocol,
                assignment=member.assignment,
            ),
        )

    def refuse(self, caller: Caller, error: ErrorCode, member_id: MemberId) -> None:
        """Answer a sync with an error."""
        reply = SyncGroupReply(error=error)
        self._machine.refuse(caller, reply, group=self._shared.name, api="SyncGroup", member_id=member_id, error=error)

    def stop(self) -> None:
        """Stop the timer of a group that ends."""
        self._machine.stop_timer(self._timer)
