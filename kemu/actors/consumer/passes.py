"""The passes of the loop in poll() of a member of the consumer protocol, and the work of its two threads in a pass.

The application's thread begins a pass with an event for the network thread: reconcile, commit if the interval is over,
find positions, send fetches. Then it runs the callback that the network thread has requested, and waits for records.
The network thread sends commits and OffsetFetch before a heartbeat, because it asks its managers in this order.

| | until 4.1 | since 4.2 |
|---|---|---|
| the application's thread | waits for the event, and for positions | does not wait for the event |
| OffsetFetch of new partitions | after onPartitionsAssigned, also in 4.3 | with the first event after the target |
| the wait for records ends early | with records | with any answer to a fetch, or after an event without a fetch |

Records of a partition that is being revoked end the wait, too, although no poll() returns them. A wait for records also
ends at the next commit or heartbeat, as the network thread saw it one round earlier. If such a
request is due already, passes follow each other without a wait. While the position of a partition is to be validated, a
wait lasts for at most ``retry.backoff.ms``, so that the next pass asks the leader again.

Since 4.2, the thread does not wait for its event, and begins no other event before it has noticed the end of this one.
A poll() notices the end of its predecessor's event. Within a poll(), the first pass after a wait notices the end. So
this pass has no event, and a commit that ended the wait is sent in a later pass.

While the thread runs a callback or the application, the network thread continues the event: ListOffsets follows the
answer to OffsetFetch. Since 4.2 Fetch follows. Until 4.1 the thread waits for the event until the end of poll().

Source: ``AsyncKafkaConsumer.poll``, ``checkInflightPoll``, ``pollForFetches``, ``ConsumerNetworkThread.runOnce``,
``RequestManagers``, ``ApplicationEventProcessor`` (``PollEvent`` 4.0.1 and 4.1.1, ``AsyncPollEvent`` 4.2.1 and 4.3.0),
``FetchRequestManager.pollInternal`` (4.2.1), ``OffsetsRequestManager.updatePositionsWithOffsets`` (4.2.0).
"""

from kemu.actors.consumer.commits import Commits
from kemu.actors.consumer.machine import ConsumerMachine
from kemu.actors.consumer.modern_membership import ModernMembership
from kemu.actors.consumer.modern_state import TURNS
from kemu.actors.consumer.positions import Positions
from kemu.actors.consumer.reconciler import Reconciler
from kemu.actors.machine import US_PER_MS

LEFT = 8
"""An event without a new fetch wakes the application's thread before the event is marked as complete. In seven of eight
waits the thread has noticed only the wake-up, so that the event is left to the next pass. In the in-sample runs of
4.2.1, 83 of 383 interval commits were at most 5 ms late; seven of eight gives this share, three of four gave 138. At
TRACE, which slows the threads, 1,497 of 1,977 waits left the event.
"""
RACE_US = US_PER_MS
"""A heartbeat and a commit that are due within a millisecond, the resolution of Kafka's timers, leave in any order. The
heartbeat was first in 225 of 406 such pairs of 4.0.2 and 4.1.1. If it raises the epoch, the commit's epoch is stale.
"""


class Passes:
    """The passes of one consumer."""

    def __init__(
        self,
        machine: ConsumerMachine,
        membership: ModernMembership,
        reconciler: Reconciler,
        positions: Positions,
        commits: Commits,
    ) -> None:
        self._machine = machine
        self._membership = membership
        self._reconciler = reconciler
        self._positions = positions
        self._commits = commits
        self._retry_us = machine.config.retry_backoff_ms * 1000
        self._in_background = reconciler.client.polls_in_the_background
        positions.fetching.tells_empty_answers = self._in_background
        positions.fetching.tells_dropped_records = True
        self._event = False
        """Whether an event is in progress, because partitions have no position yet."""
        self._owned = positions.owned()
        """The owned partitions at the begin of the last event."""
        self._left = False
        """Whether an event has ended, and the application's thread has not noticed its end."""
        self._poll_us = -1
        """The begin of the poll() of the last pass."""
        self._until_us = 0
        """The end of the present wait for records. In a time without waits, each step of the machine begins a pass."""
        self._spins = False
        """Whether passes follow each other without a wait."""
        self._has_work = True
        """Whether the thread has work in the next pass. A pass without work is no step of the machine."""
        self._round_us = self._seen_us = 0
        """The last two times at which the network thread worked; the second may be now."""
        self._alone = False
        """Whether only the application's thread works now, because its wait has ended."""

    def run(self) -> None:
        """Do the work of both threads in this step."""
        machine = self._machine
        now_us = machine.now_us
        self._alone = now_us in (self._until_us, self._commits.due_us)
        if not self._alone:
            self._work_on_network()
        self._membership.poll()
        began_us, ends_us = machine.poll_span_us
        due_us = self._commits.due_us
        answered = self._positions.fetching.take_empty_answer()
        begins = began_us != self._poll_us and began_us == now_us
        if began_us != self._poll_us:
            self._event = self._left = False
            self._poll_us = began_us
            if not self._has_work and not begins:  # the passes at the begin of this poll() had no work
                self._left = self._in_background and machine.chance.below(LEFT) > 0
                self._wait_until(due_us if due_us > began_us else ends_us, ends_us)
        self._has_work = self._has_work or 0 < due_us <= now_us
        passed, paused = True, 0 < due_us < began_us  # the process missed the pass with the commit
        if answered or paused or begins or (self._has_work and now_us >= self._until_us):
            self._pass(not self._spins or begins or machine.chance.below(TURNS) > 0)
        elif 0 < self._reconciler.loads_until_us == now_us or (self._event and self._positions_found()):
            self._pass(False)
        else:
            passed = False
            if self._event:
                self._positions.poll()
        if passed and machine.polling:
            self._begin_wait(ends_us)
        if machine.polling:
            self._wake_for_next_pass(ends_us)

    def run_without_application(self) -> None:
        """Let the network thread continue an event while the application's thread runs a callback or the application.

        Partitions that were assigned after the begin of the event wait for the next event. Until 4.1 the event does not
        fetch.
        """
        positions = self._positions
        if self._event and positions.owned() is self._owned:
            positions.poll()
            if self._in_background and not positions.are_requested:
                self._event = False
                positions.fetching.send()

    def _pass(self, submits: bool) -> None:
        """Run a pass, and the passes that follow at once.

        ``submits``: whether the pass begins with an event, if no event is in progress.
        """
        woken = True
        submits, self._left = submits and (self._spins or not self._left), False
        while woken:
            woken, fresh, calls = False, submits and not self._event, True
            if fresh:
                queued = self._reconciler.has_callback
                woken = self._submit()
                calls = queued or not self._in_background or self._machine.chance.below(TURNS) > 0
            elif self._event and self._in_background:
                if self._positions.owned() is not self._owned:  # a new assignment begins the search anew
                    self._positions.poll()
                woken = self._positions_found()
            self._reconciler.timer_seen_us = self._machine.now_us if fresh else self._known_us
            submits = calls and self._reconciler.call_listener()
            if not self._machine.polling:
                self._until_us, self._has_work = 0, True
                return
            if self._event and not self._in_background and not self._positions_found():
                self._positions.poll()

    def _work_on_network(self) -> None:
        """Note that the network thread works now."""
        self._alone = False
        if self._machine.now_us > self._seen_us:
            self._round_us, self._seen_us = self._seen_us, self._machine.now_us

    @property
    def _known_us(self) -> int:
        """The time of the last round that the application's thread knows of. Until 4.1 the thread waits for its events,
        so that it knows the present round.
        """
        return self._seen_us if self._alone or not self._in_background else self._round_us

    def _submit(self) -> bool:
        """Let the network thread work on an event. Returns whether this wakes the application's thread."""
        self._work_on_network()
        self._event = True
        self._membership.poll_event()
        self._owned = self._positions.owned()
        if not self._reconciler.commits:
            due_us = self._commits.due_us
            self._commits.poll()
            if self._commits.due_us != due_us:  # the event has the time in milliseconds
                self._commits.restart_interval(self._machine.now_us // US_PER_MS * US_PER_MS)
        if not self._in_background:
            return False
        self._positions.poll()
        return self._positions_found()

    def _positions_found(self) -> bool:
        """End the event if it waits for no position. Returns whether this wakes the application's thread."""
        if self._positions.are_missing:
            return False
        self._event = False
        fetches = self._positions.fetching.send()
        self._left = self._in_background and (fetches or self._machine.chance.below(LEFT) > 0)
        if not fetches:
            self._round_us = self._machine.now_us  # several rounds follow at once
        return not fetches and self._in_background

    def _begin_wait(self, ends_us: int) -> None:
        """Wait for records until the end of poll(), or until a request is due."""
        machine, now_us = self._machine, self._machine.now_us
        if self._due_us(ends_us) <= self._known_us < now_us:
            self._round_us = now_us
            self._pass(True)
        if machine.polling:
            wait_us = self._due_us(ends_us) - self._known_us
            if self._positions.await_validation:
                wait_us = min(wait_us, self._retry_us)
            self._wait_until(now_us + max(wait_us, 0), ends_us)
            self._has_work = self._spins = wait_us <= 0

    def _wait_until(self, at_us: int, ends_us: int) -> None:
        """Let the wait for records end at this time, or at the end of poll()."""
        self._until_us = min(ends_us, at_us)
        beat_us = self._membership.heartbeats.due_us
        if 0 <= beat_us - self._until_us < RACE_US and self._machine.chance.below(2):
            self._until_us = beat_us + 1

    def _due_us(self, ends_us: int) -> int:
        return min(self._commits.due_us or ends_us, self._membership.heartbeats.due_us)

    def _wake_for_next_pass(self, ends_us: int) -> None:
        """Wake the thread for the next pass if the pass has work, and when the next commit is due."""
        machine, positions = self._machine, self._positions
        due_us = self._commits.due_us
        waits = 0 < due_us <= machine.now_us or self._membership.waits_for_pass or positions.fetching.has_more
        if waits or ((positions.are_missing or positions.await_validation) and not self._event):
            self._has_work = True
            machine.wake_at(self._until_us if self._until_us > machine.now_us else ends_us)
        for at_us in (due_us, self._reconciler.loads_until_us):  # an earlier event of the process ends the timer
            if at_us > machine.now_us:
                machine.wake_at(at_us)
