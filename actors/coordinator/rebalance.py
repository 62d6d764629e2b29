"""How a classic group moves from generation to generation: the join phase, its timers, removals.

A rebalance: ``prepare`` (whoever waits for an assignment is sent back to join), a join phase that ends when all have
joined or its timer fires, ``_complete_join`` (the next generation begins, the leader gets the list), and the leader's
sync, which is in ``actors.coordinator.group``.

Source: Kafka's ClassicGroup and the classic half of GroupMetadataManager; KIP-134 (initial delay), KIP-345 (static
members stay), KIP-394 (ids handed out), KAFKA-12890 (sync timer).
"""

from kemu.actors.coordinator.desk import US_PER_MS, CoordinatorBase, EmptyWrite, OffsetsPartition
from kemu.actors.coordinator.members import NOBODY, Member, Members
from kemu.actors.coordinator.offsets import GroupOffsets
from kemu.actors.coordinator.replies import join_error
from kemu.actors.coordinator.state import COMPLETING, DEAD, EMPTY, MAY_FOLLOW, PREPARING, STABLE, GroupState
from kemu.actors.machine import Caller, TimerKey
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinedMember, JoinGroupReply, LeaveGroupReply, SyncGroupReply
from kemu.protocol.messages.member import subscribed_topics
from kemu.protocol.messages.records import GroupMetadata, group_record
from kemu.protocol.names import GroupId, MemberId
from kemu.protocol.notes.groups import (
    GroupBecame,
    JoinPhaseCompleted,
    LeaderElected,
    MemberAdded,
    MemberRemoved,
    RequestRefused,
)
from kemu.protocol.wire.codec import CodecError

CONSUMER = "consumer"
"""The protocol type whose subscriptions the coordinator can read."""


class RebalancingGroup:
    """The books of a group and its way through the states. ``actors.coordinator.group.Group`` answers the requests."""

    def __init__(self, desk: CoordinatorBase, partition: OffsetsPartition, name: GroupId) -> None:
        self.desk = desk
        self.partition = partition
        self.name = name
        self.state = EMPTY
        self.previous = DEAD
        """The state before this one."""
        self.since_ms: int | None = desk.now_ms
        """When the state last changed; None when an old record did not say."""
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.members = Members()
        self.pending_sync: dict[MemberId, None] = {}
        """Members of this generation that have not sent SyncGroup."""
        self.offsets = GroupOffsets()
        self.new_member_added = False
        """A member came during the initial delay, which is to be extended."""
        self._delay_ms = 0
        self._delay_left_ms: int | None = None
        """During the initial delay: by how much it may still grow."""
        self._subscriptions: tuple[bytes, ...] | None = None
        self._topics: frozenset[str] | None = None
        self._leave: tuple[Caller, LeaveGroupReply] | None = None
        """A LeaveGroup whose answer waits for the record of the empty group, if this step writes one."""
        self._join_key: TimerKey = ("join", name)
        self._sync_key: TimerKey = ("sync", name)

    # --- states ------------------------------------------------------------------------------------------------

    def become(self, state: GroupState, why: str) -> None:
        """The only place where the state changes."""
        assert self.state in MAY_FOLLOW[state], f"{self.name}: {self.state} -> {state} ({why})"
        self.desk.note(
            GroupBecame(group=self.name, old=self.state.value, new=state.value, generation=self.generation, why=why)
        )
        self.previous = self.state
        self.state = state
        if state is not DEAD:
            self.since_ms = self.desk.now_ms

    def rebalance_or_complete(self, why: str) -> None:
        """Something changed that the next generation must know."""
        if self.state is PREPARING:
            self.complete_if_all_joined()
        else:
            self.prepare(why)

    def prepare(self, why: str) -> None:
        """Begin a join phase."""
        if self.state is COMPLETING:
            self.reset_assignments(ErrorCode.REBALANCE_IN_PROGRESS)
        self.pending_sync.clear()
        self.desk.stop_timer(self._sync_key)
        initial = self.state is EMPTY
        self.become(PREPARING, why)
        if initial:
            self._delay_ms = self.desk.config.group_initial_rebalance_delay_ms
            self._delay_left_ms = max(self.members.rebalance_timeout_ms() - self._delay_ms, 0)
            self._start_ms(self._join_key, self._delay_ms)
        elif self.members.all_joined:
            self._complete_join()
        else:
            self._start_ms(self._join_key, self.members.rebalance_timeout_ms())

    def complete_if_all_joined(self, *, initial_too: bool = False) -> None:
        """End the join phase if it waits for nobody; the initial delay is not cut short but by an expiry."""
        if self.state is PREPARING and self.members.all_joined and (initial_too or self.previous is not EMPTY):
            self._complete_join()

    def join_timer_fired(self) -> None:
        """The join phase has taken as long as it may; the initial delay grows while members arrive (KIP-134)."""
        if self.state is DEAD:
            return
        left = self._delay_left_ms
        if left and self.new_member_added:
            self.new_member_added = False
            previous = self._delay_ms
            self._delay_ms = min(self.desk.config.group_initial_rebalance_delay_ms, left)
            self._delay_left_ms = max(left - previous, 0)
            self._start_ms(self._join_key, self._delay_ms)
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        """The next generation begins, unless only silent static members are there."""
        assert self.state is PREPARING, f"{self.name}: join phase completed in {self.state}"
        self.desk.stop_timer(self._join_key)
        self._delay_left_ms = None
        members = self.members
        if members.awaiting_join < len(members):
            for member in [m for m in members if m.join is None and m.instance_id is None]:
                self.drop(member.member_id, "did not rejoin in time")
        if members and not self._elect_joined_leader():
            self._start_ms(self._join_key, members.rebalance_timeout_ms())
            return
        self.generation += 1
        self.pending_sync.clear()
        if members:
            self.protocol = members.vote()
            self.know_subscriptions(tuple([m.metadata(self.protocol) for m in members]))
            self.become(COMPLETING, "join phase completed")
            self._note_generation()
            self._answer_joins()
        else:
            self.protocol = None
            self.know_subscriptions(())
            self.become(EMPTY, "join phase completed without members")
            self._note_generation()
            leave, self._leave = self._leave, None
            self.desk.write(self.partition, (group_record(self.metadata()),), EmptyWrite(self, leave))

    def _elect_joined_leader(self) -> bool:
        before = self.members.leader
        if not self.members.elect_joined_leader():
            return False
        if self.members.leader != before:
            self.note_leader()
        return True

    def _answer_joins(self) -> None:
        """Tell every member its generation, start its session, and wait for its sync."""
        members, leader = self.members, self.members.leader
        listed = members.listed(self.protocol)
        for member in members:
            caller = members.unpark_join(member)
            if caller is not None:
                self.answer_join(caller, member, listed if member.member_id == leader else ())
            self.start_session(member)
            member.is_new = False
            self.pending_sync[member.member_id] = None
        self._start_ms(self._sync_key, members.rebalance_timeout_ms())

    def sync_timer_fired(self) -> None:
        """Members that joined but never synced are removed, however they heartbeat (KAFKA-12890)."""
        if self.state not in (COMPLETING, STABLE) or not self.pending_sync:
            return
        for member_id in tuple(self.pending_sync):
            self.drop(member_id, "did not sync in time")
        self.prepare("members did not sync in time")

    # --- members -----------------------------------------------------------------------------------------------

    def session_timer_fired(self, member_id: MemberId) -> None:
        """No sign of life for too long: of a member, of one that is new, or of an id that was handed out."""
        ends_delay = self.desk.rules.expiry_ends_initial_delay
        if member_id in self.members.pending:
            self.members.remove(member_id)
            self.complete_if_all_joined(initial_too=ends_delay)
            return
        member = self.members.by_id.get(member_id)
        if member is None or self.state is DEAD:
            return
        if not member.is_new and (member.join is not None or member.sync is not None):
            if self.state is STABLE:  # a replacement is being written; its answer starts no session
                self.start_session(member)
            return
        why = "new member's join took too long" if member.is_new else "session expired"
        self.remove_member(member, why)
        if self.state is PREPARING:
            self.complete_if_all_joined(initial_too=ends_delay)
        else:
            self.prepare(f"{member_id}: {why}")

    def remove_member(self, member: Member, why: str) -> None:
        """A member goes; its parked join is told so (its parked sync is not, as in Kafka)."""
        caller = self.members.unpark_join(member)
        if caller is not None:
            self.refuse_join(caller, ErrorCode.UNKNOWN_MEMBER_ID, "", of=member.member_id)
        self.drop(member.member_id, why)

    def drop(self, member_id: MemberId, why: str) -> None:
        """Strike an id from the books, its timer with it."""
        leader = self.members.leader
        member = self.members.remove(member_id)
        self.pending_sync.pop(member_id, None)
        if member is None:
            return
        self.desk.stop_timer(member.timer)
        self.note_removed(member, why)
        if self.members.leader != leader and self.members.leader is not None:
            self.note_leader()

    def start_session(self, member: Member) -> None:
        """A sign of life."""
        self.desk.start_timer(member.timer, member.session_timeout_ms * US_PER_MS)

    def _start_ms(self, key: TimerKey, after_ms: int) -> None:
        self.desk.start_timer(key, after_ms * US_PER_MS)

    # --- what is known of subscriptions ------------------------------------------------------------------------

    def know_subscriptions(self, subscriptions: tuple[bytes, ...]) -> None:
        """The subscriptions of this generation; they are read only when somebody asks."""
        self._subscriptions = subscriptions if self.protocol_type == CONSUMER else None
        self._topics = None

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics of the generation's subscriptions; None for other types and when one cannot be read."""
        if self._topics is None and self._subscriptions is not None:
            try:
                self._topics = frozenset([topic for data in self._subscriptions for topic in subscribed_topics(data)])
            except CodecError:
                self._subscriptions = None
        return self._topics

    # --- answers -----------------------------------------------------------------------------------------------

    def answer_join(
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
        self.desk.reply(
            caller,
            JoinGroupReply(
                error=ErrorCode.NONE,
                generation=self.generation,
                protocol_type=self.protocol_type,
                protocol_name=self.protocol,
                leader=(self.members.leader or "") if leader is None else leader,
                skip_assignment=skip,
                member_id=member.member_id,
                members=listed,
            ),
        )

    def refuse_join(self, caller: Caller, error: ErrorCode, member_id: MemberId, *, of: MemberId | None = None) -> None:
        """A join is answered with an error; ``member_id`` is what the reply carries, ``of`` whose join it was."""
        if caller is NOBODY:
            return
        self.desk.refuse(
            caller,
            join_error(caller.version, error, member_id),
            group=self.name,
            api="JoinGroup",
            member_id=member_id if of is None else of,
            error=error,
        )

    def answer_sync(self, caller: Caller, member: Member) -> None:
        """A member gets its assignment."""
        self.desk.reply(
            caller,
            SyncGroupReply(
                error=ErrorCode.NONE,
                protocol_type=self.protocol_type,
                protocol_name=self.protocol,
                assignment=member.assignment,
            ),
        )

    def refuse_sync(self, caller: Caller, error: ErrorCode, member_id: MemberId) -> None:
        """A sync is answered with an error."""
        self.desk.refuse(
            caller, SyncGroupReply(error=error), group=self.name, api="SyncGroup", member_id=member_id, error=error
        )

    def reset_assignments(self, error: ErrorCode) -> None:
        """Nobody has an assignment, and whoever waits for one is told why."""
        for member in self.members:
            member.assignment = b""
            caller, member.sync = member.sync, None
            if caller is not None:
                self.refuse_sync(caller, error, member.member_id)
                self.start_session(member)

    def answer_leave(self, caller: Caller, reply: LeaveGroupReply) -> None:
        """Who left and who could not."""
        for row in reply.members:
            if row.error is not ErrorCode.NONE:
                self.desk.note(
                    RequestRefused(group=self.name, api="LeaveGroup", member_id=row.member_id, error=row.error)
                )
        self.desk.reply(caller, reply)

    def empty_written(self, leave: tuple[Caller, LeaveGroupReply] | None, error: ErrorCode) -> None:
        """The record of the empty group is in the log; if not, the last generation would come back on a failover."""
        if leave is None:
            return
        caller, reply = leave
        if error is ErrorCode.NONE:
            self.answer_leave(caller, reply)
        else:
            error = self.desk.rules.group_append_errors.get(error, error)
            self.refuse_leave(caller, LeaveGroupReply(error=error), "", error)

    def refuse_leave(self, caller: Caller, reply: LeaveGroupReply, member_id: str, error: ErrorCode) -> None:
        """A whole LeaveGroup is answered with an error."""
        self.desk.refuse(caller, reply, group=self.name, api="LeaveGroup", member_id=member_id, error=error)

    # --- notes and records -------------------------------------------------------------------------------------

    def note_leader(self) -> None:
        """The group has another leader."""
        self.desk.note(LeaderElected(group=self.name, member_id=self.members.leader or ""))

    def note_added(self, member: Member) -> None:
        """A member came."""
        self.desk.note(
            MemberAdded(
                group=self.name,
                member_id=member.member_id,
                client_id=member.client_id,
                instance_id=member.instance_id,
            )
        )

    def note_removed(self, member: Member, why: str) -> None:
        """A member is gone, or goes on under another id."""
        self.desk.note(MemberRemoved(group=self.name, member_id=member.member_id, client_id=member.client_id, why=why))

    def _note_generation(self) -> None:
        self.desk.note(
            JoinPhaseCompleted(
                group=self.name,
                generation=self.generation,
                protocol=self.protocol,
                leader=self.members.leader or "",
                members=tuple(self.members.by_id),
            )
        )

    def metadata(self, assignments: dict[MemberId, bytes] | None = None) -> GroupMetadata:
        """The group as the log keeps it, with these assignments or those it has."""
        protocol = self.protocol
        stored = [member.stored(protocol, assignments) for member in self.members]
        return GroupMetadata(
            group=self.name,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=protocol,
            leader=self.members.leader,
            state_timestamp_ms=-1 if self.since_ms is None else self.since_ms,
            members=tuple(stored),
        )
