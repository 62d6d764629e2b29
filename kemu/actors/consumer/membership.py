"""A consumer's membership of its group: join, sync, leave. The membership's own part is the heartbeat thread.

As in Kafka, two threads use the membership. The polling thread (``poll``) starts joins and adopts their outcome. The
heartbeat thread (``actors.consumer.heartbeats``) runs in COMPLETING_REBALANCE and STABLE. Answers arrive through either
thread. An answer to JoinGroup waits for the polling thread, since the heartbeat thread is stopped during the request.
Answers to SyncGroup and Heartbeat take effect at once. The application notices a reset by the heartbeat thread only at
its next poll.

An error takes effect only if its request contained the present generation (``unchanged``).

Source: Kafka's ``AbstractCoordinator``.
"""

from typing import Protocol

from kemu.actors.consumer.heartbeats import Heartbeats
from kemu.actors.consumer.machine import ConsumerMachine
from kemu.actors.consumer.reasons import (
    LEAVING,
    POLL_TIMEOUT,
    SUBSCRIPTION_CHANGED,
    UNJOINED,
    encountered,
    exception_of,
    given_id,
    on_the_wire,
    overtaken_by_reset,
    rebalance_failed,
)
from kemu.actors.consumer.state import (
    BEATING,
    MAY_FOLLOW,
    NEVER_JOINED,
    Generation,
    Joined,
    MemberState,
    Outcome,
    Refused,
    Retry,
)
from kemu.actors.machine import at_least_1_ms
from kemu.protocol.config import CLOSE_DEFAULT, CLOSE_LEAVES
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import (
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    SyncGroup,
    SyncGroupReply,
)
from kemu.protocol.names import NO_GENERATION, UNKNOWN_MEMBER, MemberId
from kemu.protocol.notes.groups import AssignmentReceived, MemberBecame
from kemu.protocol.rebalancing.client_rules import ClientRules

JOIN_GRACE_US = 5_000_000
"""The time that a join may take beyond the rebalance timeout. Source: Kafka's ``JOIN_GROUP_TIMEOUT_LAPSE``."""


class AroundJoin(Protocol):
    """The steps before and after a join that Kafka's ``AbstractCoordinator`` leaves to its subclass."""

    @property
    def prepares_after_reset(self) -> bool:
        """Whether a reset member revokes its partitions before it rejoins, even in the middle of a join."""
        ...

    @property
    def heeds_resets(self) -> bool:
        """Whether a member ignores an assignment that arrived before its membership was reset."""
        ...

    @property
    def protocol_type(self) -> str:
        """The protocol type that all members of the group share: "consumer", or another framework's type."""
        ...

    def prepare(self) -> bool:
        """Run onJoinPrepare. False: poll again (a commit is in progress, or a callback runs or raised an error)."""
        ...

    def subscriptions(self) -> tuple[JoinProtocol, ...]:
        """The protocols of JoinGroup, each with its subscription."""
        ...

    def lead(self, reply: JoinGroupReply) -> None:
        """Run onLeaderElected: compute the assignment."""
        ...

    def complete(self, data: bytes) -> bool:
        """Run onJoinComplete; called again with the same bytes after a callback raised an error. False: poll again."""
        ...

    def membership_reset(self) -> None:
        """React to a reset of the membership."""
        ...


class Membership:
    """The membership of one consumer.

    ``around_join`` is set when the rebalancing is made, which needs the membership.
    """

    around_join: AroundJoin
    is_leaving = False
    """unsubscribe() does not wait for the answer to LeaveGroup."""
    has_failed = False
    """close() commits also after a fatal error (``ConsumerCoordinator.close``, 3.4.1)."""

    def __init__(self, machine: ConsumerMachine) -> None:
        config = machine.config
        self.state = MemberState.UNJOINED
        self.generation = NEVER_JOINED
        self.rejoin_needed = True
        self.needs_prepare = True
        """Whether the next attempt to join starts with onJoinPrepare."""
        self.joining = False
        """Whether JoinGroup or SyncGroup is in flight, or the leader waits for metadata."""
        self.outcome: Outcome | None = None
        """The outcome of the join, until the polling thread adopts it."""
        self.joined_topics: tuple[str, ...] | None = None
        """The subscription of the last JoinGroup."""
        self._fresh_after_answers: int | None = None
        """The number of metadata responses after which the pattern is matched anew for the next join; None: not
        requested.
        """
        self._machine = machine
        self._discovery = machine.discovery
        self._group = config.group_id
        self._instance_id = config.group_instance_id
        self._rejoin_reason = ""
        self._unread: tuple[JoinGroupReply, Generation] | None = None
        """The answer to JoinGroup that the polling thread has not read yet, with the generation of the request."""
        self._resume_at_us = 0
        """The time at which the polling thread continues with new input."""
        self._waits_us = 0
        """The drawn delay until ``_resume_at_us``."""
        self._assigned_before = False
        """Whether this process has had an assignment."""
        self._retry_at_us = 0
        self._retry_us = at_least_1_ms(config.retry_backoff_ms)
        """The wait between two joins; constant even since KIP-580. Source: ``joinGroupIfNeeded`` (3.4.1, 3.9)."""
        self.heartbeats = Heartbeats(machine, self)
        self._join_timeout_us = max(
            config.request_timeout_ms * 1000, config.max_poll_interval_ms * 1000 + JOIN_GRACE_US
        )

    @property
    def _client(self) -> ClientRules:
        return self._machine.client_rules

    @property
    def fetches_offsets_as(self) -> tuple[MemberId | None, int]:
        return None, NO_GENERATION

    # --- the polling thread ------------------------------------------------------------------------------------

    def request_rejoin(self, why: str, after_us: int = 0) -> None:
        self.rejoin_needed = True
        self._rejoin_reason = why
        if after_us:
            self._retry_at_us = self._machine.now_us + after_us
        self._machine.wake()

    def poll(self) -> bool:
        """Join until the member is stable.

        False: the join needs more than this poll (the coordinator, an answer, a callback).
        """
        machine = self._machine
        self.heartbeats.polled()
        while self._discovery.ready():
            if machine.now_us < self._resume_at_us:
                machine.wake_at(self._resume_at_us)
                return False
            if self._unread is not None:
                reply, sent = self._unread
                self._unread = None
                self._read_join_reply(reply, sent)
            elif self.outcome is not None:
                if not self._take(self.outcome):
                    return False
            elif self.joining:
                return False
            elif not self.rejoin_needed:
                if self.joined_topics == machine.subscription.topics:
                    return True
                self.request_rejoin(SUBSCRIPTION_CHANGED)
            elif machine.now_us < self._retry_at_us:
                machine.wake_at(self._retry_at_us)
                return False
            elif not self._is_fresh():
                return False
            elif self.needs_prepare:
                if not self.around_join.prepare():
                    return False
                self._schedule_resume()
            else:
                self._send_join()
        return False

    def _is_fresh(self) -> bool:
        """Whether the pattern was matched against new metadata.

        Metadata is refreshed once before each join, if the backoff allows a refresh.
        Source: ``ConsumerCoordinator.poll``, which refreshes at each poll() during the join.
        """
        machine = self._machine
        if machine.subscription.pattern is None:
            return True
        if self._fresh_after_answers is None:
            machine.metadata.refresh_if_allowed()
            self._fresh_after_answers = machine.metadata.answers + machine.metadata.stale
        return machine.metadata.answers >= self._fresh_after_answers

    def _take(self, outcome: Outcome) -> bool:
        """Adopt the outcome of the join. False: poll() must return now."""
        if isinstance(outcome, Joined):
            if self.state is MemberState.STABLE or not self.around_join.heeds_resets:
                return self.around_join.complete(outcome.assignment)
            # The heartbeat thread reset the membership between the answer and this poll.
            self.outcome = None
            self.reset(overtaken_by_reset(self.generation, self.state), forget_member_id=True)
            return True
        self.outcome = None
        self.rejoin_needed = True
        if outcome.error is ErrorCode.MEMBER_ID_REQUIRED and self._client.names_the_given_id:
            self._rejoin_reason = given_id(self.generation.member_id)
        else:
            self._rejoin_reason = rebalance_failed(outcome.exception or exception_of(outcome.error))
        if outcome.retry is Retry.NEVER:
            self._machine.fail(outcome.error, outcome.why)
            return False
        if outcome.retry is Retry.LATER:
            if self._client.forgets_when_a_join_fails:
                self.reset(outcome.why, forget_member_id=True)
            self._retry_at_us = self._machine.now_us + self._retry_us
        return True

    def _schedule_resume(self, drawn: DrawName = DrawName.HAND_OVER, *, cold: bool = False) -> None:
        """Delay the polling thread, which has new input, by the drawn time until it runs again."""
        draws, now_us = self._machine.draws, self._machine.now_us
        self._waits_us = draws.us(drawn, 0, at_us=now_us)
        if cold:
            self._waits_us = draws.us(DrawName.FIRST_JOIN, self._waits_us, at_us=now_us)
        self._resume_at_us = now_us + self._waits_us

    def assignment_taken(self) -> None:
        """End onJoinComplete without an exception."""
        self.outcome = None
        self._assigned_before = True
        self.needs_prepare = True

    # --- join --------------------------------------------------------------------------------------------------

    def _send_join(self) -> None:
        assert not self.joining, f"{self._machine.name}: two joins at once"
        machine, config = self._machine, self._machine.config
        coordinator = self._discovery.coordinator
        assert coordinator is not None
        self._become(MemberState.PREPARING, self._rejoin_reason or "join")
        self.joining = True
        self.joined_topics = machine.subscription.topics
        self._fresh_after_answers = None
        request = JoinGroup(
            group=self._group,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=self.generation.member_id,
            instance_id=self._instance_id,
            protocol_type=self.around_join.protocol_type,
            protocols=self.around_join.subscriptions(),
            reason=on_the_wire(self._rejoin_reason),
        )
        machine.client.call(
            coordinator,
            request,
            machine.versions["JoinGroup"],
            self._join_answered,
            self._join_broke,
            self.generation,
            self._join_timeout_us,
        )

    def _join_answered(self, reply: JoinGroupReply, sent: Generation) -> None:
        joined = reply.error is ErrorCode.NONE
        follows = joined and reply.leader != reply.member_id
        drawn = DrawName.FOLLOWER_SYNC if follows else DrawName.HAND_OVER
        self._schedule_resume(drawn, cold=joined and not self._assigned_before)
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            now_us = self._machine.now_us
            resume_us = self._resume_at_us - now_us
            self._resume_at_us = now_us + self._machine.draws.us(DrawName.FIRST_ID, resume_us, at_us=now_us)
        self._unread = reply, sent
        self._machine.wake()

    def _join_broke(self, why: str, sent: Generation) -> None:
        """Keep the member id and generation, and restart the join: JoinGroup or SyncGroup got no answer."""
        self._refuse(Retry.LATER, ErrorCode.NETWORK_EXCEPTION, why)

    def _refuse(self, retry: Retry, error: ErrorCode, why: str, exception: str = "") -> None:
        self.joining = False
        self.outcome = Refused(retry, error, why, exception)
        self._machine.wake()

    def _read_join_reply(self, reply: JoinGroupReply, sent: Generation) -> None:
        error = reply.error
        why = f"JoinGroup: {error.name}"
        match error:
            case ErrorCode.NONE:
                self._joined(reply)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.generation = Generation(NO_GENERATION, reply.member_id, None)
                self._refuse(Retry.NOW, error, why)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.refused(error, encountered("JoinGroup", error), sent)
                self._refuse(Retry.NOW, error, why)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._refuse(Retry.NOW, error, why)
            case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self._refuse(Retry.LATER, error, why)
            case ErrorCode.COORDINATOR_NOT_AVAILABLE | ErrorCode.NOT_COORDINATOR:
                self._discovery.lose_coordinator(why)
                self._refuse(Retry.LATER, error, why)
            case _:
                self._refuse(Retry.NEVER, error, why)

    def _joined(self, reply: JoinGroupReply) -> None:
        if reply.protocol_type not in (None, self.around_join.protocol_type):
            why = f"JoinGroup answered for protocol type {reply.protocol_type}"
            self._refuse(Retry.NEVER, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, why)
        elif self.state is not MemberState.PREPARING:
            # The member left or was reset before: Kafka's UnjoinedGroupException, which is retriable.
            self._refuse(Retry.LATER, ErrorCode.UNKNOWN_MEMBER_ID, "the group was left while joining", UNJOINED)
        else:
            self.generation = Generation(reply.generation, reply.member_id, reply.protocol_name)
            self._become(MemberState.COMPLETING, "joined")
            if self._client.beats_while_completing:
                # JoinGroupResponseHandler (2.6 to 4.1) enables the heartbeat thread before the member looks at the
                # response. Measured: after half of the delay (DrawName.HAND_OVER).
                self.heartbeats.start(self._machine.now_us - self._waits_us // 2)
            if reply.leader == reply.member_id:
                self.around_join.lead(reply)
            else:
                self.send_sync(())

    # --- sync --------------------------------------------------------------------------------------------------

    def send_sync(self, assignments: tuple[MemberAssignment, ...]) -> None:
        """Ask for the assignment; the leader sends the assignments of all members."""
        coordinator = self._discovery.coordinator
        if coordinator is None:
            self._refuse(Retry.LATER, ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator to sync with")
            return
        generation, machine = self.generation, self._machine
        request = SyncGroup(
            group=self._group,
            generation=generation.id,
            member_id=generation.member_id,
            instance_id=self._instance_id,
            protocol_type=self.around_join.protocol_type,
            protocol_name=generation.protocol,
            assignments=assignments,
        )
        version = machine.versions["SyncGroup"]
        machine.client.call(coordinator, request, version, self._sync_answered, self._join_broke, generation)

    def leading_failed(self, why: str) -> None:
        """Raise an error to the application: the leader could not compute an assignment."""
        self._refuse(Retry.NEVER, ErrorCode.UNKNOWN_SERVER_ERROR, why)

    def leading_ended(self) -> None:
        """Restart the join: the membership was reset while the leader waited for metadata."""
        self._refuse(Retry.NOW, ErrorCode.ILLEGAL_GENERATION, "reset while leading")

    def _sync_answered(self, reply: SyncGroupReply, sent: Generation) -> None:
        error = reply.error
        why = f"SyncGroup: {error.name}"
        match error:
            case ErrorCode.NONE:
                self._synced(reply)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._refuse(Retry.NOW, error, why)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                self.refused(error, encountered("SyncGroup", error), sent)
                self._refuse(Retry.NOW, error, why)
            case ErrorCode.COORDINATOR_NOT_AVAILABLE | ErrorCode.NOT_COORDINATOR:
                self._discovery.lose_coordinator(why)
                self._refuse(Retry.LATER, error, why)
            case _:
                self._refuse(Retry.NEVER, error, why)

    def _synced(self, reply: SyncGroupReply) -> None:
        inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if reply.protocol_type not in (None, self.around_join.protocol_type):
            self._refuse(Retry.NEVER, inconsistent, f"SyncGroup answered for protocol type {reply.protocol_type}")
        elif self.state is not MemberState.COMPLETING:
            self._refuse(Retry.NOW, ErrorCode.ILLEGAL_GENERATION, "the group was left while syncing")
        elif reply.protocol_name not in (None, self.generation.protocol):
            self._refuse(Retry.NEVER, inconsistent, f"SyncGroup answered for protocol {reply.protocol_name}")
        else:
            self.joining = False
            self.rejoin_needed = False
            self._rejoin_reason = ""
            self._become(MemberState.STABLE, "synced")
            if not self._client.beats_while_completing:
                self.heartbeats.start()
            self.outcome = Joined(reply.assignment)
            self._schedule_resume(cold=not self._assigned_before)
            self._machine.wake()

    def assignment_received(self, partitions: tuple[tuple[str, int], ...]) -> None:
        """Report the partitions of the assignment."""
        generation, member_id, _ = self.generation
        self._machine.note(
            AssignmentReceived(group=self._group, member_id=member_id, generation=generation, partitions=partitions)
        )

    # --- leaving -----------------------------------------------------------------------------------------------

    def poll_timed_out(self) -> None:
        """Leave the group because the application did not poll in time. The heartbeat thread sends LeaveGroup, and
        raises no error.

        Without a known coordinator the thread tries again when it next runs.
        """
        if self.heartbeats.running and self._discovery.coordinator is not None:
            self.leave(POLL_TIMEOUT)

    def leave(self, why: str, operation: str = CLOSE_DEFAULT) -> None:
        """Leave the group and reset the membership. The member ignores the answer to LeaveGroup.

        By default a static member sends no LeaveGroup. Source: ``AbstractCoordinator.shouldSendLeaveGroupRequest``
        (4.1 to 4.3).
        """
        coordinator, member_id = self._discovery.coordinator, self.generation.member_id
        sends = (
            (operation == CLOSE_LEAVES or (operation == CLOSE_DEFAULT and self._instance_id is None))
            and self._machine.config.internal_leave_group_on_close
            and coordinator is not None
            and self.state is not MemberState.UNJOINED
            and member_id != UNKNOWN_MEMBER
        )
        if sends:
            assert coordinator is not None
            version = self._machine.versions["LeaveGroup"]
            if version < 3:
                request = LeaveGroup(group=self._group, member_id=member_id)
            else:
                request = LeaveGroup(
                    group=self._group, members=(LeavingMember(member_id=member_id, reason=on_the_wire(why)),)
                )
            client = self._machine.client
            client.call(coordinator, request, version, _ignore, _ignore)
        self.reset(why, forget_member_id=True, rejoins=LEAVING)

    def refused(self, error: ErrorCode, why: str, sent: Generation) -> bool:
        if sent != self.generation and self._client.passes_over_late_errors:
            return False
        self.reset_after(error, why)
        return True

    def reset_after(self, error: ErrorCode, why: str) -> None:
        """Reset the membership after this error. Some releases keep the member id after ILLEGAL_GENERATION."""
        keeps = error is ErrorCode.ILLEGAL_GENERATION and self._client.keeps_member_id
        self.reset(why, forget_member_id=not keeps)

    def reset(self, why: str, *, forget_member_id: bool, rejoins: str = "") -> None:
        """Reset the membership.

        The next poll revokes all partitions as lost and rejoins; the reason is ``rejoins`` or, if empty, ``why``.
        """
        if self.state is not MemberState.UNJOINED:
            self._become(MemberState.UNJOINED, why)
        member_id = UNKNOWN_MEMBER if forget_member_id else self.generation.member_id
        self.generation = Generation(NO_GENERATION, member_id, None)
        if not self.needs_prepare and self.around_join.prepares_after_reset:
            self.needs_prepare = True
        self.around_join.membership_reset()
        self.request_rejoin(rejoins or why)

    # --- state -------------------------------------------------------------------------------------------------

    def end(self, state: MemberState, why: str) -> None:
        """Enter the state CLOSED or FAILED."""
        self._become(state, why)

    def _become(self, state: MemberState, why: str) -> None:
        """Change the state. The heartbeat thread is stopped outside COMPLETING_REBALANCE and STABLE."""
        old = self.state
        if state is old:
            assert state is MemberState.PREPARING, f"{self._machine.name}: {state} again ({why})"
            return
        assert old in MAY_FOLLOW[state], f"{self._machine.name}: {old} -> {state} ({why})"
        if old in BEATING and state not in BEATING:
            self.heartbeats.stop()
        self.state = state
        generation, member_id, _ = self.generation
        self._machine.note(
            MemberBecame(
                group=self._group,
                member_id=member_id,
                old=old.value,
                new=state.value,
                generation=generation,
                why=why,
            )
        )


def _ignore(answer: object, context: object) -> None:
    """Ignore the outcome of LeaveGroup, which is best effort."""
