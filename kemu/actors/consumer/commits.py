"""Commits: by interval, before a join, by the application's ``commitSync()``, and on close. A part of the consumer.

A commit without explicit offsets commits the positions: the end of the records that polls returned. The polling thread
commits between two batches, so all returned records are processed. Source: Kafka's ``ConsumerCoordinator``.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kemu.actors.client import backoff_ms
from kemu.actors.consumer.machine import ConsumerMachine, ConsumerTimer
from kemu.actors.consumer.offset_topics import to_send
from kemu.actors.consumer.positions import Positions
from kemu.actors.consumer.reasons import COMMIT_WHILE_REBALANCING, encountered
from kemu.actors.consumer.state import Generation, MemberState, Result
from kemu.actors.machine import at_least_1_ms
from kemu.protocol.draws import DrawName
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import define
from kemu.protocol.messages.group import OffsetCommit, OffsetCommitReply, OffsetToCommit
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import CommitAnswered


class CommitSplit(NamedTuple):
    """Offsets to commit, by consumer. Without a second consumer (KIP-333) the first consumer commits all offsets."""

    first: tuple[OffsetToCommit, ...]
    second: tuple[tuple[TopicPartition, int], ...]


def to_commit(at: TopicPartition, offset: int) -> OffsetToCommit:
    """An offset that the application chose, without a leader epoch."""
    return OffsetToCommit(topic=at[0], partition=at[1], offset=offset)


_WORSE = (Result.DONE, Result.RETRIABLE, Result.REBALANCING, Result.FAILED)
"""Results, in order of severity: the more severe result of two consumers is the result of the whole commit."""


class Commit:
    """One OffsetCommit. ``result`` is None until the answer; ``settled``, if given, is called with the result.

    A commit of both consumers (KIP-333) ends when both parts have ended, and fails if either part failed.
    """

    __slots__ = ("error", "offsets", "parts", "raises", "result", "sent", "settled", "worst")

    def __init__(self, sent: Generation, settled: "Callable[[Commit], None] | None", raises: bool) -> None:
        self.raises = raises
        """Whether errors that no retry can resolve are raised.

        Only the application's commitSync() raises such errors; other commits log them.
        """
        self.sent = sent
        self.settled = settled
        self.result: Result | None = None
        self.error = ErrorCode.NONE
        """The first error in the answer."""
        self.offsets: tuple[OffsetToCommit, ...] = ()
        self.parts = 1
        self.worst = Result.DONE


@define
class AsyncCommit:
    """A commitAsync() and its callback. ``committed`` is None while the commit is in progress."""

    then: Callable[[bool], None] | None
    committed: bool | None = None


class Commits:
    """The commits of one consumer."""

    def __init__(self, machine: ConsumerMachine, positions: Positions) -> None:
        config = machine.config
        self._machine = machine
        self._positions = positions
        self._interval_us = at_least_1_ms(config.auto_commit_interval_ms)
        self._retry = backoff_ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._auto = config.enable_auto_commit
        self._is_modern = config.uses_consumer_protocol
        self._interval_commit: Commit | None = None
        """The last interval commit of a consumer of the consumer protocol."""
        self._next_us = 0
        """The time of the next interval commit; 0 before the first assignment."""
        self._request_timeout_us = config.request_timeout_ms * 1000
        self._sync_until_us = 0
        self._sync_then: Callable[[], None] | None = None
        """The continuation of the running commitSync(); None without a running commitSync()."""
        self._sync_failures = 0
        self._sync_commit: Commit | None = None
        self._sync_raises = True
        self._sync_only: CommitSplit | None = None
        """The offsets of the running commitSync(); None: all positions."""
        self.sync_went_through = True
        """Whether the last commitSync() succeeded."""
        self.asynchronous: list[AsyncCommit] = []
        """Calls of commitAsync(), in order. The application's next poll or commit calls the callbacks of
        ended commits.
        """
        self._waiting: tuple[tuple[CommitSplit, Callable[[Commit], None]], ...] = ()
        """Calls of commitAsync() that wait for a coordinator. After a successful lookup the consumer sends the
        commits; after a failed lookup the commits fail.
        """
        self._fenced = False
        """Whether FENCED_INSTANCE_ID was the answer to a commit other than commitSync().

        After such an answer no commitSync() is sent.
        """

    # --- by interval -------------------------------------------------------------------------------------------

    def restart_interval(self, from_us: int | None = None) -> None:
        """Restart the interval after a new assignment, now or from this time on."""
        self._next_us = (self._machine.now_us if from_us is None else from_us) + self._interval_us

    @property
    def due_us(self) -> int:
        """The time of the next interval commit; 0 without partitions or without interval commits."""
        return self._next_us if self._auto and self._positions.partitions else 0

    def advance_idle_timers(self) -> None:
        """Move the next interval commit to a random moment of the interval."""
        if self._auto and self._next_us:
            after_us = self._machine.draws.us(DrawName.COMMIT_PHASE, self._interval_us, self._interval_us)
            self._next_us = self._machine.now_us + after_us
            if self._positions.partitions:
                self._machine.wake_at(self._next_us)

    def poll(self) -> None:
        """Commit if the interval is over; wake the polling thread at the end of the next interval."""
        if not self._auto or not self._next_us:
            return
        machine = self._machine
        now_us = machine.now_us
        if now_us >= self._next_us:
            if self._interval_commit is not None and self._interval_commit.result is None:
                return  # the next commit follows the answer (``CommitRequestManager.AutoCommitState`` 4.0 to 4.3)
            self._next_us = now_us + self._interval_us
            if self._positions.partitions:
                commit = self.send(self._interval_settled, both=False)
                self._interval_commit = commit if self._is_modern else None
        if self._positions.partitions:
            machine.wake_at(self._next_us)

    def _interval_settled(self, commit: Commit) -> None:
        """Retry a commit of the classic protocol after the back-off.

        The next commit of the consumer protocol follows after the interval: only ``commitAsync`` wraps errors as the
        exception that ``CommitRequestManager.maybeResetTimerWithBackoff`` expects (4.0 to 4.3).
        """
        if commit.result is Result.RETRIABLE and not self._is_modern:
            self._next_us = self._machine.now_us + self._retry.first_us
            self._machine.wake()

    # --- commitAsync -------------------------------------------------------------------------------------------

    def call_completed(self) -> None:
        """Call the callbacks of ended commitAsync() calls.

        Source: ``ConsumerCoordinator.invokeCompletedOffsetCommitCallbacks``.
        """
        while self.asynchronous and self.asynchronous[0].committed is not None:
            one = self.asynchronous.pop(0)
            if one.then is not None:
                one.then(one.committed is True)

    def send_async(self, only: CommitSplit | None, then: Callable[[bool], None] | None) -> None:
        """Commit all present positions, or these offsets, in one attempt and in the order of the calls.

        Source: ``ConsumerCoordinator.commitOffsetsAsync``.
        """
        machine = self._machine
        one = AsyncCommit(then)
        self.asynchronous.append(one)

        def settled(commit: Commit) -> None:
            one.committed = commit.result is Result.DONE
            machine.wake()

        if only is None:
            second = () if machine.catch_up is None else machine.catch_up.second_offsets()
            only = CommitSplit(self._positions.consumed(), second)
        if machine.discovery.coordinator is None and (only.first or only.second):
            self._waiting += ((only, settled),)
            machine.discovery.find()
        else:
            self.send(settled, only=only)

    @property
    def wait_for_coordinator(self) -> bool:
        """Whether a commitAsync() waits for a coordinator."""
        return bool(self._waiting)

    def coordinator_found(self) -> None:
        """Send the waiting commits."""
        waiting, self._waiting = self._waiting, ()
        for only, settled in waiting:
            self.send(settled, only=only)

    def coordinator_not_found(self) -> None:
        """Fail the waiting commits; the application may retry them (``RetriableCommitFailedException``).

        In the consumer protocol the commits wait until a coordinator is known (``CommitRequestManager.poll``).
        """
        if not self._is_modern:
            self.give_up_waiting()

    def give_up_waiting(self) -> None:
        """Fail the waiting commits."""
        waiting, self._waiting = self._waiting, ()
        for _, settled in waiting:
            self._settle(Commit(self._machine.membership.generation, settled, raises=False), Result.RETRIABLE)

    # --- one commit --------------------------------------------------------------------------------------------

    def send(
        self,
        settled: Callable[[Commit], None] | None = None,
        *,
        both: bool = True,
        only: CommitSplit | None = None,
        raises: bool = False,
    ) -> Commit:
        """Commit all positions, or only these offsets.

        The commit ends at once, without a request, if an offset, a coordinator or a membership is missing.

        Args:
            both: let the second consumer commit, too (KIP-333); its interval commits have a separate interval.
        """
        machine = self._machine
        membership, coordinator = machine.membership, machine.discovery.coordinator
        commit = Commit(membership.generation, settled, raises)
        offsets = self._positions.consumed() if only is None else only.first
        catch_up = machine.catch_up
        if catch_up is not None and not machine.subscription.by_hand:
            offsets = catch_up.not_committed(offsets)
            if both and membership.state is MemberState.STABLE:
                commit.parts = 2
                second = None if only is None else only.second
                if not catch_up.commit_second(commit.sent, partial(self._second_over, commit), second):
                    commit.parts = 1
        commit.offsets = offsets
        if not offsets:
            self._settle(commit, Result.DONE)
        elif coordinator is None:
            machine.discovery.find()
            self._settle(commit, Result.RETRIABLE)
        elif membership.state is MemberState.UNJOINED and not machine.subscription.by_hand:
            self._settle(commit, Result.FAILED)
        elif membership.state is not MemberState.STABLE and not machine.subscription.by_hand:
            self._settle(commit, Result.REBALANCING)
        else:
            rows, version = to_send(machine, offsets)
            request = OffsetCommit(
                group=machine.config.group_id,
                generation=commit.sent.id,
                member_id=commit.sent.member_id,
                instance_id=machine.config.group_instance_id,
                offsets=rows,
            )
            machine.client.call(coordinator, request, version, self._answered, self._broke, commit)
        return commit

    def _second_over(self, commit: Commit, result: Result) -> None:
        self._machine.wake()  # a join may wait for both commits
        self._settle(commit, result)

    def _settle(self, commit: Commit, result: Result) -> None:
        """End one part of the commit. The last part ends the whole commit."""
        commit.worst = max(commit.worst, result, key=_WORSE.index)
        commit.parts -= 1
        if commit.parts:
            return
        commit.result = commit.worst
        if commit.settled is not None:
            commit.settled(commit)

    def _broke(self, why: str, commit: Commit) -> None:
        self._machine.wake()
        self._settle(commit, Result.RETRIABLE)

    def _answered(self, reply: OffsetCommitReply, commit: Commit) -> None:
        """End the commit with its result. As in Kafka, the first error with a consequence decides the whole commit."""
        machine = self._machine
        error = ErrorCode.NONE
        for outcome in reply.outcomes:
            if outcome.error is not ErrorCode.NONE:
                error = outcome.error
                break
        commit.error = error
        machine.note(
            CommitAnswered(
                group=machine.config.group_id,
                member_id=commit.sent.member_id,
                generation=commit.sent.id,
                error=error,
            )
        )
        if error is ErrorCode.NONE and machine.catch_up is not None:
            machine.catch_up.committed_first(commit.offsets)
        if error is ErrorCode.FENCED_INSTANCE_ID and commit is not self._sync_commit and self._is_raised(commit.sent):
            self._fenced = True
        result = (
            Result.DONE if error is ErrorCode.NONE else self.react("OffsetCommit", error, commit.sent, commit.raises)
        )
        machine.wake()
        self._settle(commit, result)

    def react(self, api: str, error: ErrorCode, sent: Generation, raises: bool = False) -> Result:
        """React to the error in the answer to a commit under this generation.

        Args:
            raises: whether to raise a missing authorization to the application (``commitOffsetsSync``), or to log
                it (``autoCommitOffsetsAsync``, ``maybeAutoCommitOffsetsSync``, 3.4.1).

        Returns:
            The result of the commit.
        """
        machine = self._machine
        membership = machine.membership
        why = f"{api}: {error.name}"
        unchanged = sent == membership.generation
        client = machine.client_rules
        overtaken = not unchanged and membership.state is MemberState.PREPARING and client.passes_over_late_errors
        match error:
            case (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                | ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                | ErrorCode.UNKNOWN_TOPIC_ID
            ):
                return Result.RETRIABLE
            case ErrorCode.COORDINATOR_NOT_AVAILABLE | ErrorCode.NOT_COORDINATOR | ErrorCode.REQUEST_TIMED_OUT:
                machine.discovery.lose_coordinator(why)
                return Result.RETRIABLE
            case ErrorCode.REBALANCE_IN_PROGRESS:
                membership.request_rejoin(COMMIT_WHILE_REBALANCING)
                return Result.REBALANCING
            case ErrorCode.ILLEGAL_GENERATION | ErrorCode.UNKNOWN_MEMBER_ID:
                if overtaken:
                    return Result.REBALANCING
                membership.reset_after(error, encountered(api, error))
                return Result.FAILED
            case ErrorCode.FENCED_INSTANCE_ID:
                if self._is_raised(sent):
                    machine.fail_later(error, why)
                return Result.REBALANCING if overtaken else Result.FAILED
            case ErrorCode.GROUP_AUTHORIZATION_FAILED | ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                if raises:
                    machine.fail_later(error, why)
                return Result.FAILED
            case _:
                # Too large metadata, an invalid offset or an unexpected error: the caller of the commit raises it. An
                # interval commit only logs the error.
                return Result.FAILED

    def _is_raised(self, sent: Generation) -> bool:
        """Whether to raise FENCED_INSTANCE_ID to the application.

        Releases that ignore late errors raise the error only for the present generation.
        """
        machine = self._machine
        return sent == machine.membership.generation or not machine.client_rules.passes_over_late_errors

    # --- commitSync --------------------------------------------------------------------------------------------

    def run_sync(
        self, timeout_us: int, then: Callable[[], None], only: CommitSplit | None = None, *, raises: bool = True
    ) -> None:
        """Commit all positions, or these offsets, with retries until the timeout; then call ``then``, whatever the
        outcome. The first attempt is sent also without time.

        Source: ``ConsumerCoordinator.commitOffsetsSync`` (3.4.1), which first checks ``asyncCommitFenced``.
        """
        if self._fenced:
            self.sync_went_through = False
            then()
            return
        self._sync_raises = raises
        self.sync_went_through = True
        if not (self._positions.consumed() if only is None else only.first or only.second):
            then()
            return
        self._sync_only = only
        self._sync_until_us = self._machine.now_us + timeout_us
        self._sync_then = then
        self._sync_failures = 0
        self._try_sync()

    def _try_sync(self) -> None:
        machine = self._machine
        if not machine.discovery.ready():
            self._try_sync_later()
        else:
            if machine.now_us < self._sync_until_us < machine.now_us + self._request_timeout_us:
                machine.start_timer((ConsumerTimer.COMMIT,), self._sync_until_us - machine.now_us)
            commit = self.send(self._sync_settled, only=self._sync_only, raises=self._sync_raises)
            if commit.result is None and machine.now_us >= self._sync_until_us:
                self._end_sync(Result.RETRIABLE)
            elif commit.result is None:
                self._sync_commit = commit
            else:
                self._sync_answered(commit.result)

    def _try_sync_later(self) -> None:
        machine = self._machine
        self._sync_failures += 1
        wait_us = self._retry.after(self._sync_failures, machine.chance)
        machine.start_timer((ConsumerTimer.COMMIT,), min(wait_us, self._sync_until_us - machine.now_us))

    def _sync_settled(self, commit: Commit) -> None:
        if commit is self._sync_commit:
            assert commit.result is not None
            self._sync_commit = None
            self._sync_answered(commit.result)

    def _sync_answered(self, result: Result) -> None:
        if result is Result.RETRIABLE:
            self._try_sync_later()
        else:
            self._end_sync(result)

    def sync_timer_fired(self) -> None:
        """Try the running commitSync() again, or end it at its timeout (the timer COMMIT fired)."""
        if self._sync_then is None:
            return
        is_over = self._machine.now_us >= self._sync_until_us
        if self._sync_commit is None or is_over:
            self._sync_commit = None
            if is_over:
                self._end_sync(Result.RETRIABLE)
            else:
                self._try_sync()

    def _end_sync(self, result: Result) -> None:
        self.sync_went_through = result is Result.DONE
        then, self._sync_then = self._sync_then, None
        assert then is not None
        then()
