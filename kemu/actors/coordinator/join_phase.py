"""The transition of a classic group to its next generation: the join phase, its timers, and removals of members.

A rebalance begins with ``prepare``: parked syncs get REBALANCE_IN_PROGRESS. The join phase ends when all members have
joined or its timer fires. ``_complete`` then starts the next generation, and the leader gets the list of members.
After the join phase the members send SyncGroup (``actors.coordinator.syncing``).

Source: Kafka's ClassicGroup and the classic half of GroupMetadataManager; KIP-134 (initial delay), KIP-345 (static
members stay), KIP-394 (pending ids).
"""

from kemu.actors.coordinator.log import Write
from kemu.actors.coordinator.members import Member, NoCommonProtocol
from kemu.actors.coordinator.shared_state import GroupMachine, SharedState
from kemu.actors.coordinator.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupChange
from kemu.actors.coordinator.syncing import Syncing
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import US_PER_MS, Caller, TimerKey
from kemu.actors.parking import Parking
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinedMember, JoinGroup, JoinGroupReply
from kemu.protocol.messages.records import group_record
from kemu.protocol.messages.refusals import join_error
from kemu.protocol.names import MemberId
from kemu.protocol.notes.groups import JoinPhaseCompleted, Removal

NOBODY = Caller("", 0, 0, 0)
"""The placeholder for a parked join that was answered with an error while its member remains in the join phase."""

_NOTHING_WAITS = Write(lambda _error, _base_offset: None)


class JoinPhase:
    """The members that wait for the next generation, and the limit of their wait."""

    def __init__(self, machine: GroupMachine, shared: SharedState, syncing: Syncing) -> None:
        self._machine = machine
        self._shared = shared
        self._syncing = syncing
        self.parked: Parking[MemberId, Caller] = Parking()
        """Parked joins, answered when the phase ends."""
        self.after_empty: Write | None = None
        """The continuation of the write of the empty group's record, if this step writes the record."""
        self._new_member_added = False
        """Whether a member joined during the initial delay, which is then extended."""
        self._delay_ms = 0
        self._delay_left_ms: int | None = None
        """The limit of the initial delay's further extension; None outside the initial delay."""
        self._is_over = False
        """Whether the phase ended with an error, so that no later event can end the phase."""
        self._timer: TimerKey = (GroupTimer.JOIN, shared.name)

    @property
    def all_joined(self) -> bool:
        """Whether all members have joined, and no pending id remains."""
        members = self._shared.members
        return len(self.parked) == len(members) and not members.pending

    def may_extend(self) -> None:
        """Extend the initial delay, if it runs, after a member was added (KIP-134)."""
        shared = self._shared
        if shared.state is not PREPARING:
            return
        if self._machine.rules.delay_extends_at_generation_zero_only:
            extends = shared.generation == 0
        else:
            extends = shared.previous is EMPTY
        self._new_member_added = self._new_member_added or extends

    def rebalance_or_complete(self, why: str) -> None:
        """Begin a join phase, or end the running join phase if all members have joined."""
        if self._shared.state is PREPARING:
            self.complete_if_all_joined()
        else:
            self.prepare(why)

    def prepare(self, why: str) -> None:
        """Begin a join phase."""
        shared = self._shared
        if shared.state is COMPLETING:
            self._syncing.reset(ErrorCode.REBALANCE_IN_PROGRESS)
        self._syncing.expect_nobody()
        initial = shared.state is EMPTY
        shared.change(GroupChange.JOIN_PHASE, why)
        if initial:
            self._delay_ms = self._machine.config.group_initial_rebalance_delay_ms
            self._delay_left_ms = max(shared.members.rebalance_timeout_ms() - self._delay_ms, 0)
            self._start_timer(self._delay_ms)
        elif self.all_joined:
            self._complete()
        else:
            self._start_timer(shared.members.rebalance_timeout_ms())

    def complete_if_all_joined(self, *, initial_too: bool = False) -> None:
        """End the join phase if all members have joined. Only an expired session can shorten the initial delay."""
        shared = self._shared
        initial = shared.previous is EMPTY and not initial_too
        if shared.state is PREPARING and self.all_joined and not initial and not self._is_over:
            self._complete()

    def timer_fired(self) -> None:
        """End the join phase at its timeout, or extend the initial delay if members have joined (KIP-134).

        The timer may be of a former group, which was converted. An empty group then gets its next generation, and
        nothing else (``GroupMetadataManager.completeClassicGroupJoin`` 4.0 to 4.3 fails afterwards). The case of a
        group with members is not emulated.
        """
        if self._shared.state is EMPTY:
            self._shared.generation += 1
        if self._shared.state is not PREPARING:
            return
        left = self._delay_left_ms
        if left and self._new_member_added:
            self._new_member_added = False
            previous = self._delay_ms
            self._delay_ms = min(self._machine.config.group_initial_rebalance_delay_ms, left)
            self._delay_left_ms = max(left - previous, 0)
            self._start_timer(self._delay_ms)
        else:
            self._complete()

    def restart(self) -> None:
        """Restart the timer of a join phase whose parked joins were answered with an error."""
        self._start_timer(self._shared.members.rebalance_timeout_ms())

    def stop(self) -> None:
        """Stop the timer of a group that ends."""
        self._machine.stop_timer(self._timer)

    def _start_timer(self, after_ms: int) -> None:
        late_us = self._machine.draws.us(DrawName.GROUP_TIMER, 0)
        self._machine.start_timer(self._timer, after_ms * US_PER_MS + late_us)

    # --- the next generation -----------------------------------------------------------------------------------

    def _complete(self) -> None:
        """Start the next generation. Without a joined member the phase continues if static members remain.

        Raises:
            NoCommonProtocol: the generation number has increased, and the phase continues without a timer.
        """
        shared, members = self._shared, self._shared.members
        assert shared.state is PREPARING, f"{shared.name}: join phase completed in {shared.state}"
        self.stop()
        self._delay_left_ms = None
        if len(self.parked) < len(members):
            for member in [m for m in members if m.instance_id is None and m.member_id not in self.parked]:
                self.drop(member.member_id, Removal.NOT_REJOINED)
        if members and not self._elect_joined_leader():
            self._start_timer(members.rebalance_timeout_ms())
            return
        shared.generation += 1
        if members:
            try:
                shared.protocol = members.vote()
                shared.know_subscriptions(tuple([m.metadata(shared.protocol) for m in members]))
            except NoCommonProtocol:
                self._is_over = self._machine.rules.failed_phase_is_over
                raise
            shared.change(GroupChange.GENERATION, "join phase completed")
            self._note_generation()
            self._answer_all()
        else:
            shared.protocol = None
            shared.know_subscriptions(())
            shared.change(GroupChange.NO_MEMBERS, "join phase completed without members")
            self._note_generation()
            after, self.after_empty = self.after_empty or _NOTHING_WAITS, None
            self._machine.writes.begin(shared.partition, (group_record(shared.metadata()),), after)

    def _elect_joined_leader(self) -> bool:
        """Elect another leader if the leader has not joined. False: no member has joined."""
        members = self._shared.members
        assert members.leader is not None, f"{self._shared.name}: members without a leader"
        if members.leader in self.parked:
            return True
        for member_id in members.hashed():
            if member_id in self.parked:
                members.leader = member_id
                self._shared.note_leader()
                return True
        return False

    def _answer_all(self) -> None:
        """Answer all joins, restart all sessions, and wait for the syncs.

        The sessions restart in the order of the map of members: sessions of equal length end in this order (raw
        requests of 4.0.2, seed 73084).
        """
        shared, leader = self._shared, self._shared.members.leader
        listed = shared.members.listed(shared.protocol)
        for member in shared.members:
            caller = self.parked.release(member.member_id)
            if caller is not None:
                self.answer(caller, member, listed if member.member_id == leader else ())
        for member in map(shared.members.by_id.__getitem__, shared.members.hashed()):
            shared.start_session(member)
            member.is_new = False
        self._syncing.expect()

    def _note_generation(self) -> None:
        shared = self._shared
        self._machine.note(
            JoinPhaseCompleted(
                group=shared.name,
                generation=shared.generation,
                protocol=shared.protocol,
                leader=shared.members.leader or "",
                members=tuple(shared.members.by_id),
            )
        )

    # --- members -----------------------------------------------------------------------------------------------

    def update_and_park(self, caller: Caller, request: JoinGroup, member: Member) -> None:
        """Update a member from its join, and park the join. An already parked join of the member is never answered."""
        self._shared.members.update(
            member, request.protocols, rebalance_timeout_of(request), request.session_timeout_ms
        )
        self.parked.hold(member.member_id, caller)

    def session_timer_fired(self, member_id: MemberId) -> None:
        """React to the expired session of a member, of a new member, or of a pending id."""
        shared = self._shared
        ends_delay = self._machine.rules.expiry_ends_initial_delay
        if member_id in shared.members.pending:
            shared.members.remove(member_id)
            self.complete_if_all_joined(initial_too=ends_delay)
            return
        member = shared.members.by_id.get(member_id)
        if member is None or shared.state is DEAD:
            return
        if not member.is_new and (member_id in self.parked or member_id in self._syncing.parked):
            if shared.state is STABLE:  # a replacement is being written, and its answer restarts no session
                shared.start_session(member)
            return
        why = Removal.JOIN_TOO_LONG if member.is_new else Removal.SESSION_EXPIRED
        self.remove_member(member, why)
        if shared.state is PREPARING:
            self.complete_if_all_joined(initial_too=ends_delay)
        else:
            self.prepare(shared.reasons.session_over(member_id))

    def remove_member(self, member: Member, why: str) -> None:
        """Remove a member and answer its parked join. A parked sync gets no answer, as in Kafka."""
        self.refuse_parked(member.member_id, ErrorCode.UNKNOWN_MEMBER_ID, "")
        self.drop(member.member_id, why)

    def drop(self, member_id: MemberId, why: str) -> None:
        """Remove an id and its timer from the group."""
        shared = self._shared
        leader = shared.members.leader
        member = shared.members.remove(member_id)
        self.parked.release(member_id)
        self._syncing.forget(member_id)
        if member is None:
            return
        self._machine.stop_timer(member.timer)
        shared.note_removed(member, why)
        if shared.members.leader != leader and shared.members.leader is not None:
            shared.note_leader()

    # --- answers -----------------------------------------------------------------------------------------------

    def answer(
        self,
        caller: Caller,
        member: Member,
        listed: tuple[JoinedMember, ...],
        *,
        leader: MemberId | None = None,
        skip: bool = False,
    ) -> None:
        """Answer a join with this generation; ``listed`` is for the leader only."""
        if caller is NOBODY:
            return
        shared = self._shared
        self._machine.reply(
            caller,
            JoinGroupReply(
                error=ErrorCode.NONE,
                generation=shared.generation,
                protocol_type=shared.protocol_type,
                protocol_name=shared.protocol,
                leader=(shared.members.leader or "") if leader is None else leader,
                skip_assignment=skip,
                member_id=member.member_id,
                members=listed,
            ),
        )

    def refuse(self, caller: Caller, error: ErrorCode, member_id: MemberId, *, of: MemberId | None = None) -> None:
        """Answer a join with an error.

        ``member_id`` is the id in the reply, ``of`` the id of the member that sent the join.
        """
        if caller is NOBODY:
            return
        self._machine.refuse(
            caller,
            join_error(caller.version, error, member_id),
            group=self._shared.name,
            api="JoinGroup",
            member_id=member_id if of is None else of,
            error=error,
        )

    def refuse_parked(self, member_id: MemberId, error: ErrorCode, reply_id: MemberId) -> None:
        """Answer the parked join of this id, if present, with an error and ``reply_id``."""
        caller = self.parked.release(member_id)
        if caller is not None:
            self.refuse(caller, error, reply_id, of=member_id)


def rebalance_timeout_of(request: JoinGroup) -> int:
    """The rebalance timeout in ms; JoinGroup v0 has only the session timeout."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
