"""A consumer's membership of a group with the consumer protocol (KIP-848): heartbeats, epochs and states.

As in Kafka, two threads use the membership. The network thread sends heartbeats while the application works. The
application's thread, inside poll(), joins and reconciles (``actors.consumer.reconciler``). The member makes its own
id, and keeps the id until its process ends.

A heartbeat has only the fields that changed since the last one. After an error or a missing answer it has all fields,
so that the coordinator answers with the assignment.

The machine runs both threads as one: a step of the network thread takes no time.

Source: Kafka 4.0 to 4.3 ``AbstractMembershipManager``, ``ConsumerMembershipManager``,
``AbstractHeartbeatRequestManager``, ``ConsumerHeartbeatRequestManager``.
"""

from typing import Protocol

from kemu.actors.client import backoff_ms
from kemu.actors.consumer.machine import ConsumerMachine, ConsumerTimer
from kemu.actors.consumer.modern_state import (
    AT_ONCE,
    LEAVING_STATES,
    SILENT,
    TAKES_ASSIGNMENTS,
    LocalAssignment,
    ModernState,
)
from kemu.actors.consumer.state import Generation, MemberState
from kemu.actors.machine import at_least_1_ms
from kemu.protocol.config import CLOSE_DEFAULT, CLOSE_LEAVES, CLOSE_REMAINS
from kemu.protocol.consumer_group.states import Partition
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import (
    HEARTBEAT_VERSION,
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    TopicNumbers,
)
from kemu.protocol.names import NO_GENERATION, MemberId
from kemu.protocol.notes.groups import MemberBecame
from kemu.protocol.rebalancing.client_rules import ClientRules

_FINDS_COORDINATOR = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_FENCES = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_S = ModernState


class ModernHeartbeats:
    """The heartbeats of one member, on the network thread."""

    def __init__(self, machine: ConsumerMachine, membership: "ModernMembership", client: ClientRules) -> None:
        config = machine.config
        self._client = client
        self._machine = machine
        self._membership = membership
        self._retry_us = at_least_1_ms(config.retry_backoff_ms)
        self._retry = backoff_ms(max(1, config.retry_backoff_ms), config.retry_backoff_max_ms)
        self._interval_us = 0
        """The interval of the last answer; 0 before the first answer."""
        self._next_us = 0
        """The time of the next heartbeat, in a state that waits."""
        self._first_us = -1
        """The earliest time of the first heartbeat; -1 before a coordinator was known."""
        self._in_flight = False
        self._failures = 0
        self._sent: tuple[object, ...] = ()
        """The rebalance timeout, topics, regular expression, assignor and assignment of the last heartbeat; () after a
        failure.
        """

    def run(self) -> None:
        """Send the heartbeat that is due, or wait for the next heartbeat."""
        machine, membership = self._machine, self._membership
        state = membership.modern
        if state in SILENT:
            return
        coordinator = machine.discovery.coordinator
        if coordinator is None:
            if state is _S.LEAVING:  # ``AbstractMembershipManager.onHeartbeatRequestSkipped``
                membership.leave_unheard()
                return
            machine.discovery.find()
            machine.start_timer((ConsumerTimer.BEAT,), self._retry_us)
            return
        if machine.polls_too_late and state not in LEAVING_STATES:
            membership.poll_timed_out()
            return
        if self._first_us < 0:
            self._first_us = machine.now_us + machine.draws.us(DrawName.FIRST_BEAT, 0)
        if state is _S.JOINING and machine.now_us < self._first_us:
            machine.start_timer((ConsumerTimer.BEAT,), self._first_us - machine.now_us)
            return
        at_once = (state is _S.LEAVING and not membership.remains) or (state in AT_ONCE and not self._in_flight)
        due = not self._in_flight and machine.now_us >= self._next_us
        if at_once or due:
            self._send(coordinator)
        elif not self._in_flight:
            machine.start_timer((ConsumerTimer.BEAT,), self._next_us - machine.now_us)

    def beat(self) -> None:
        """React to the timer of the next heartbeat."""
        self.run()

    def _send(self, coordinator: str) -> None:
        machine, membership = self._machine, self._membership
        config = machine.config
        current = membership.current
        ignored = membership.modern is _S.LEAVING and membership.poll_is_late
        topics, regex = machine.subscription.topics, machine.subscription.regex
        if membership.modern is _S.LEAVING and not ignored:
            topics, regex = (), ""  # unsubscribed: ``AbstractMembershipManager.clearAssignmentAndLeaveGroup``
        fields = (config.max_poll_interval_ms, topics, regex, config.group_remote_assignor, current)
        before = () if membership.modern is _S.JOINING else self._sent
        tells_timeout, tells_topics, tells_regex, tells_assignor, tells_owned = (
            not before or value != before[place] for place, value in enumerate(fields)
        )
        request = ConsumerGroupHeartbeat(
            group=config.group_id,
            member_id=membership.member_id,
            member_epoch=membership.epoch,
            instance_id=config.group_instance_id,
            rack=(config.client_rack or None) if membership.modern is _S.JOINING else None,
            rebalance_timeout_ms=config.max_poll_interval_ms if tells_timeout else -1,
            topics=topics if tells_topics else None,
            regex=regex if tells_regex and (regex or before) else None,
            assignor=(config.group_remote_assignor or None) if tells_assignor else None,
            owned=_rows(() if current is None else current.partitions) if tells_owned else None,
        )
        self._sent = fields
        machine.client.call(
            coordinator, request, HEARTBEAT_VERSION, self._answered, self._broke, (membership.epoch, ignored)
        )
        self._in_flight = not ignored
        self._next_us = machine.now_us + self._interval_us
        membership.heartbeat_built()

    def _answered(self, reply: ConsumerGroupHeartbeatReply, sent: tuple[int, bool]) -> None:
        if sent[1]:
            return
        self._in_flight = False
        if reply.error is ErrorCode.NONE:
            if reply.heartbeat_interval_ms * 1000 != self._interval_us:
                self._interval_us = reply.heartbeat_interval_ms * 1000
                self._next_us = self._machine.now_us + self._interval_us
            self._failures = 0
            self._wait_after_late_answer()
            self._membership.accepted(reply)
        else:
            self._refused(reply.error, reply.error_message)
            self._membership.is_leaving = False
        self.run()

    def _refused(self, error: ErrorCode, message: str | None) -> None:
        machine, why = self._machine, f"ConsumerGroupHeartbeat: {error.name}{f': {message}' if message else ''}"
        self._fail()
        if error in _FINDS_COORDINATOR:
            self._failures, self._next_us = 0, machine.now_us
            machine.discovery.lose_coordinator(why)
        elif error in _FENCES:
            self._failures, self._next_us = 0, machine.now_us
            self._membership.fence(why)
        elif error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and not self._left_missing_group(error):
            self._membership.fail(error, why)

    def _left_missing_group(self, error: ErrorCode) -> bool:
        """Whether the member has left a group that does not exist any more."""
        is_missing = error is ErrorCode.GROUP_ID_NOT_FOUND and self._client.leaves_missing_groups
        return is_missing and self._membership.modern is _S.UNSUBSCRIBED

    def _broke(self, why: str, sent: tuple[int, bool]) -> None:
        if not sent[1]:
            self._in_flight = False
            self._fail()
            self._membership.is_leaving = False
            self.run()

    def _fail(self) -> None:
        """Send the next heartbeat with all fields, after a backoff."""
        self._sent = ()
        self._failures += 1
        self._next_us = self._machine.now_us + self._backoff_us(self._failures)

    def _backoff_us(self, failures: int) -> int:
        wait_us = self._retry.after(failures, self._machine.chance)
        if self._client.beats_after_no_or_the_longest_backoff:
            wait_us = self._retry.most_us * self._machine.chance.below(2)
        return wait_us

    def _wait_after_late_answer(self) -> None:
        """Wait for the first backoff also after an answer that came when the next heartbeat was almost due.

        Source: ``RequestState.onSuccessfulAttempt``.
        """
        now_us, most_us = self._machine.now_us, self._retry_us * 6 // 5
        if self._client.beats_after_no_or_the_longest_backoff:
            most_us = self._retry.most_us
        if self._next_us < now_us + most_us:
            self._next_us = max(self._next_us, now_us + self._backoff_us(1))

    @property
    def due_us(self) -> int:
        """The time of the next heartbeat. A request that is due at once, and not sent, is due at 0."""
        at_once = not self._interval_us or (self._membership.modern in AT_ONCE and not self._in_flight)
        return 0 if at_once else self._next_us

    def coordinator_found(self) -> None:
        """Send the heartbeat that is due to the new coordinator."""
        self.run()

    def coordinator_lost(self) -> None:
        """Look for a coordinator, even while the application is busy."""
        self.run()

    def advance_idle_timers(self) -> None:
        """Send a heartbeat now; the next heartbeat is due at a random time of the interval."""
        machine = self._machine
        if self._membership.modern is not _S.STABLE or machine.discovery.coordinator is None or self._in_flight:
            return
        self._next_us = machine.now_us
        self.run()
        self._next_us = machine.now_us + machine.draws.us(
            DrawName.HEARTBEAT_PHASE, self._interval_us, self._interval_us
        )

    def runs_at_us(self, due_us: int) -> int:
        """The time at which the network thread notices that ``max.poll.interval.ms`` is over."""
        return due_us

    def stop(self) -> None:
        """Stop the timer; a heartbeat that leaves the group may follow."""
        self._machine.stop_timer((ConsumerTimer.BEAT,))


class Reconciles(Protocol):
    """The way of a member to its target, and the end of its membership."""

    def begin(self, *, can_commit: bool) -> None:
        """Begin the way to a new target."""
        ...

    def advance(self) -> None:
        """Continue the way to a new target without the application's thread."""
        ...

    def epoch_changed(self, epoch: int) -> None:
        """React to a new member epoch."""
        ...

    def lost(self) -> None:
        """React to the end of the membership."""
        ...


class ModernMembership:
    """The membership of one consumer in a group with the consumer protocol.

    ``reconciler`` is set when the reconciler is made, which needs the membership.
    """

    reconciler: Reconciles

    def __init__(self, machine: ConsumerMachine, member_id: MemberId, client: ClientRules) -> None:
        config = machine.config
        self.modern = ModernState.UNSUBSCRIBED
        """The member's state."""
        self.member_id = member_id
        self.epoch = JOINS
        self.target: LocalAssignment | None = None
        """The newest assignment from the coordinator."""
        self.current: LocalAssignment | None = None
        """The adopted assignment."""
        self.rejoin_needed = False
        self.is_leaving = False
        """Whether the member has told the coordinator that it leaves, and waits for the answer."""
        self.poll_is_late = False
        """Whether the member leaves because ``max.poll.interval.ms`` has passed."""
        self.remains = False
        """Whether close() of a dynamic member was told to remain. In 4.1 to 4.3 the heartbeat that leaves is sent
        nevertheless, but not while another heartbeat is in flight (``AbstractHeartbeatRequestManager.poll``:
        ``shouldHeartbeatNow``). Real clients of 4.1.0 and 4.3.0 left.
        """
        self.heartbeats = ModernHeartbeats(machine, self, client)
        self._machine = machine
        self._group = config.group_id
        self._leave_epoch = LEAVES if config.group_instance_id is None else LEAVES_FOR_A_WHILE
        self._last_number = -1

    # --- views of other parts ----------------------------------------------------------------------------------

    @property
    def state(self) -> MemberState:
        """Whether the member may commit, in the words of the classic protocol."""
        return MemberState.STABLE if self.epoch > JOINS else MemberState.UNJOINED

    @property
    def generation(self) -> Generation:
        """The member's epoch and id."""
        return Generation(self.epoch if self.epoch > JOINS else NO_GENERATION, self.member_id, None)

    @property
    def fetches_offsets_as(self) -> tuple[MemberId | None, int]:
        """The member id and epoch of OffsetFetch."""
        return (self.member_id, self.epoch) if self.epoch > JOINS else (None, NO_GENERATION)

    @property
    def has_failed(self) -> bool:
        """Whether a heartbeat got a fatal error."""
        return self.modern is _S.FATAL

    def request_rejoin(self, why: str, after_us: int = 0) -> None:
        """Do nothing: ``enforceRebalance()`` has no effect in the consumer protocol."""

    def refused(self, error: ErrorCode, why: str, sent: Generation) -> bool:
        """Do nothing: only errors of heartbeats end a membership."""
        return False

    def reset_after(self, error: ErrorCode, why: str) -> None:
        """Do nothing: only errors of heartbeats end a membership."""

    # --- the application's thread ------------------------------------------------------------------------------

    def poll(self) -> bool:
        """Continue a reconciliation without the application's thread. Returns whether poll() may read records."""
        machine = self._machine
        machine.discovery.ready()
        if self.modern is _S.RECONCILING:
            self.reconciler.advance()
        return machine.polling

    def poll_event(self) -> None:
        """Join, or begin a reconciliation, when a pass of the loop in poll() begins."""
        if self.modern is _S.UNSUBSCRIBED:
            self.join("subscribed")
        elif self.modern is _S.RECONCILING:
            self.reconciler.begin(can_commit=True)

    @property
    def waits_for_pass(self) -> bool:
        """Whether the member continues in the next pass of the loop in poll()."""
        return self.modern in (_S.UNSUBSCRIBED, _S.FENCED, _S.STALE, _S.RECONCILING)

    def join(self, why: str) -> None:
        """Send heartbeats with epoch 0 from now on."""
        self.target = self.current = None
        self._set_epoch(JOINS)
        self._become(_S.JOINING, why)
        self.heartbeats.run()

    def adopted(self, target: LocalAssignment) -> None:
        """Acknowledge a target that the member has adopted."""
        self.current = target
        self._become(_S.ACKNOWLEDGING, "assignment adopted")
        self.heartbeats.run()

    # --- answers -----------------------------------------------------------------------------------------------

    def heartbeat_built(self) -> None:
        """Change the state after a heartbeat was sent."""
        if self.modern is _S.ACKNOWLEDGING:
            if self.current == self.target:
                self._become(_S.STABLE, "assignment acknowledged")
            else:
                self._become(_S.RECONCILING, "another assignment has arrived")
                self._machine.wake()
        elif self.modern is _S.LEAVING:
            if self.poll_is_late:
                self._become(_S.STALE, "left")
                self.reconciler.lost()
            else:
                self._become(_S.UNSUBSCRIBED, "left")
            self.is_leaving, self.poll_is_late = not self.poll_is_late, False

    def accepted(self, reply: ConsumerGroupHeartbeatReply) -> None:
        """Take the epoch and the assignment of an answer."""
        if reply.member_epoch < JOINS:
            self.is_leaving = False
            return
        if self.modern in SILENT or self.modern is _S.LEAVING:
            return
        self._set_epoch(reply.member_epoch)
        if reply.assignment is None or self.modern not in TAKES_ASSIGNMENTS:
            return
        partitions = frozenset((row.topic_id, number) for row in reply.assignment for number in row.partitions)
        if self.target is None or self.target.partitions != partitions:
            self._last_number += 1
            self.target = LocalAssignment(self._last_number, partitions)
            self._machine.subscription.assigned(topic for topic, _ in partitions)
        if self.target != self.current:
            if self.modern is not _S.RECONCILING:
                self._become(_S.RECONCILING, "an assignment has arrived")
            self._machine.wake()
        elif self.modern in (_S.JOINING, _S.RECONCILING):
            self._become(_S.STABLE, "the assignment is adopted already")

    def fence(self, why: str) -> None:
        """Give up all partitions as lost in the next poll(), then rejoin with the same id."""
        if self.modern in LEAVING_STATES:
            self._become(_S.UNSUBSCRIBED, why)
        elif self.modern not in SILENT:
            self._set_epoch(JOINS)
            self._become(_S.FENCED, why)
            self.reconciler.lost()
            self._machine.wake()

    def fail(self, error: ErrorCode, why: str) -> None:
        """Raise an error that no retry can resolve."""
        if self.modern not in SILENT or self.is_leaving:
            if self.modern not in (_S.UNSUBSCRIBED, *LEAVING_STATES):
                self.reconciler.lost()
            self._become(_S.FATAL, why)
            self._machine.fail_later(error, why)

    def _set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.reconciler.epoch_changed(epoch)

    # --- leaving -----------------------------------------------------------------------------------------------

    def prepare_leaving(self, why: str) -> None:
        """Take no more assignments; the partitions are given up before ``leave``."""
        if self.modern not in (*SILENT, *LEAVING_STATES):
            self._become(_S.PREPARE_LEAVING, why)

    def poll_timed_out(self) -> None:
        """Leave the group because the application did not poll in time, if a coordinator is known."""
        if self.modern in (*SILENT, *LEAVING_STATES) or self._machine.discovery.coordinator is None:
            return
        self.poll_is_late = True
        self._send_leave("max.poll.interval.ms has passed without a poll")

    def leave(self, why: str, operation: str = CLOSE_DEFAULT) -> None:
        """Leave the group: a static member for a while, unless ``operation`` is ``leave``."""
        self.remains = operation == CLOSE_REMAINS and self._leave_epoch == LEAVES
        if operation == CLOSE_LEAVES:
            self._leave_epoch = LEAVES
        if self.modern is _S.FENCED:
            self._become(_S.UNSUBSCRIBED, why)
        elif self.modern not in SILENT:
            self._send_leave(why)
        if self.modern is not _S.LEAVING:  # the heartbeat that leaves is sent
            self._set_epoch(JOINS)
        self.target = self.current = None

    def leave_unheard(self) -> None:
        """Be out of the group without a coordinator to tell."""
        self._become(_S.UNSUBSCRIBED, "no coordinator to tell")

    def _send_leave(self, why: str) -> None:
        if self.modern is not _S.PREPARE_LEAVING:
            self._become(_S.PREPARE_LEAVING, why)
        self.epoch = self._leave_epoch
        self._become(_S.LEAVING, why)
        self.current = None
        self.heartbeats.run()

    # --- state -------------------------------------------------------------------------------------------------

    def end(self, state: MemberState, why: str) -> None:
        """Enter the state CLOSED or FAILED."""
        self._note(self.modern.value, state.value, why)

    def _become(self, state: ModernState, why: str) -> None:
        old, self.modern = self.modern, state
        self._note(old.value, state.value, why)

    def _note(self, old: str, new: str, why: str) -> None:
        fact = MemberBecame(
            group=self._group, member_id=self.member_id, old=old, new=new, generation=self.epoch, why=why
        )
        self._machine.note(fact)


def _rows(partitions: frozenset[Partition] | tuple[Partition, ...]) -> tuple[TopicNumbers, ...]:
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    return tuple(TopicNumbers(topic_id=topic, partitions=tuple(which)) for topic, which in numbers.items())
