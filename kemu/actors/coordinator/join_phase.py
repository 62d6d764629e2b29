"""How a classic group gets from one generation to the next: the join phase, its timers, and members that go.

A rebalance: ``prepare`` (whoever waits for an assignment is sent back to join), a join phase that ends when all have
joined or its timer fires, ``_complete`` (the next generation begins, the leader gets the list), and then the syncs
(``actors.coordinator.syncing``).

Source: Kafka's ClassicGroup and the classic half of GroupMetadataManager; KIP-134 (initial delay), KIP-345 (static
members stay), KIP-394 (ids handed out).
"""

from kemu.actors.coordinator.log import Write
from kemu.actors.coordinator.members import Member, NoCommonProtocol
from kemu.actors.coordinator.shared_state import GroupMachine, SharedState
from kemu.actors.coordinator.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupChange
from kemu.actors.coordinator.syncing import Syncing
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import US_PER_MS, Caller, TimerKey
from kemu.actors.parking import Parking
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinedMember, JoinGroup, JoinGroupReply
from kemu.protocol.messages.records import group_record
from kemu.protocol.messages.refusals import join_error
from kemu.protocol.names import MemberId
from kemu.protocol.notes.groups import JoinPhaseCompleted, Removal

NOBODY = Caller("", 0, 0, 0)
"""Stands for a parked join whose request was answered with an error while the member stays in the join phase."""

_NOTHING_WAITS = Write(lambda _error, _base_offset: None)


class JoinPhase:
    """Who waits for the next generation, and how long they may."""

    def __init__(self, machine: GroupMachine, shared: SharedState, syncing: Syncing) -> None:
        self._machine = machine
        self._shared = shared
        self._syncing = syncing
        self.parked: Parking[MemberId, Caller] = Parking()
        """The joins of members that are answered when the phase ends."""
        self.after_empty: Write | None = None
        """What waits for the record of the empty group, if this step writes one."""
        self._new_member_added = False
        """A member came during the initial delay, which is to be extended."""
        self._delay_ms = 0
        self._delay_left_ms: int | None = None
        """During the initial delay: by how much it may still grow."""
        self._is_over = False
        """It ended in an error, and nothing ends it again."""
        self._timer: TimerKey = (GroupTimer.JOIN, shared.name)

    @property
    def all_joined(self) -> bool:
        """Whether the phase waits for nobody: neither for a member nor for an id that was handed out."""
        members = self._shared.members
        return len(self.parked) == len(members) and not members.pending

    def may_extend(self) -> None:
        """A member was added: the initial delay, if it runs, is to be extended (KIP-134)."""
        shared = self._shared
        if shared.state is not PREPARING:
            return
        if self._machine.rules.delay_extends_at_generation_zero_only:
            extends = shared.generation == 0
        else:
            extends = shared.previous is EMPTY
        self._new_member_added = self._new_member_added or extends

    def rebalance_or_complete(self, why: str) -> None:
        """Something changed that the next generation must know."""
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
        """End the join phase if it waits for nobody; the initial delay is not cut short but by an expiry."""
        shared = self._shared
        initial = shared.previous is EMPTY and not initial_too
        if shared.state is PREPARING and self.all_joined and not initial and not self._is_over:
            self._complete()

    def timer_fired(self) -> None:
        """The join phase has taken as long as it may; the initial delay grows while members arrive (KIP-134)."""
        if self._shared.state is DEAD:
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

    def stop(self) -> None:
        """The group is gone."""
        self._machine.stop_timer(self._timer)

    def _start_timer(self, after_ms: int) -> None:
        self._machine.start_timer(self._timer, after_ms * US_PER_MS)

    # --- the next generation -----------------------------------------------------------------------------------

    def _complete(self) -> None:
        """The next generation begins, unless only silent static members are there.

        Raises ``NoCommonProtocol``: the generation is counted, the phase goes on without a timer.
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
        """Make sure that the leader is one who joined; False when nobody did."""
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
        """Tell every member its generation, start its session, and wait for its sync."""
        shared, leader = self._shared, self._shared.members.leader
        listed = shared.members.listed(shared.protocol)
        for member in shared.members:
            caller = self.parked.release(member.member_id)
            if caller is not None:
                self.answer(caller, member, listed if member.member_id == leader else ())
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
        """Take what a join tells anew about a member, and keep the join; one that is parked is never answered then."""
        self._shared.members.update(
            member, request.protocols, rebalance_timeout_of(request), request.session_timeout_ms
        )
        self.parked.hold(member.member_id, caller)

    def session_timer_fired(self, member_id: MemberId) -> None:
        """No sign of life for too long: of a member, of one that is new, or of an id that was handed out."""
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
            if shared.state is STABLE:  # a replacement is being written; its answer starts no session
                shared.start_session(member)
            return
        why = Removal.JOIN_TOO_LONG if member.is_new else Removal.SESSION_EXPIRED
        self.remove_member(member, why)
        if shared.state is PREPARING:
            self.complete_if_all_joined(initial_too=ends_delay)
        else:
            self.prepare(shared.reasons.session_over(member_id))

    def remove_member(self, member: Member, why: str) -> None:
        """A member goes; its parked join is told so (its parked sync is not, as in Kafka)."""
        self.refuse_parked(member.member_id, ErrorCode.UNKNOWN_MEMBER_ID, "")
        self.drop(member.member_id, why)

    def drop(self, member_id: MemberId, why: str) -> None:
        """Strike an id from the shared, its timer with it."""
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
        """A member is in this generation; ``listed`` is for the leader only."""
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
        """A join is answered with an error; ``member_id`` is what the reply carries, ``of`` whose join it was."""
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
        """The parked join of this id, if there is one, is answered with an error that carries ``reply_id``."""
        caller = self.parked.release(member_id)
        if caller is not None:
            self.refuse(caller, error, reply_id, of=member_id)


def rebalance_timeout_of(request: JoinGroup) -> int:
    """In ms; JoinGroup v0 has none: the session timeout stands in for it."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
