"""KIP-333's second consumer: it processes the ranges that the first consumer skipped, oldest first.

The second consumer is a machine inside the member's machine; peers know its address ``c1/catch-up``. The second
consumer has its own connections and metadata, and looks up the coordinator itself. The second consumer is not a member
of the group. The second consumer's commits contain the generation of its member, so the coordinator fences both
together. Without a range to process, the second consumer waits: it neither reads nor commits.

Fetched records wait until a poll of the member takes them. Records are processed when the application makes its next
call after that poll.

Source: KIP-333, "Design" and "Effects on Current API"; ``protocol.catch_up`` has the rules that the KIP leaves open.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kemu.actors.client import DEADLINE, DISCONNECTED, Client, backoff_ms
from kemu.actors.clients.brokers import BrokersToAsk
from kemu.actors.clients.discovery import FIND, CoordinatorLookups, Discovery
from kemu.actors.clients.metadata import METADATA, MetadataRefresh
from kemu.actors.consumer.fetching import Fetching
from kemu.actors.consumer.partition import Partition, ReturnedOfRange, Seeking
from kemu.actors.consumer.state import NEVER_JOINED, Generation, Result
from kemu.actors.machine import Chance, Event, LinkDown, Machine, Received, TimerFired, Told, at_least_1_ms
from kemu.protocol.catch_up import OffsetRange
from kemu.protocol.config import ConsumerConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.messages.data import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsets,
    ListOffsetsReply,
    OffsetQuestion,
)
from kemu.protocol.messages.ranges import RANGES_VERSION, RangeCommit, RangeCommitReply, RangeProgress
from kemu.protocol.messages.versions import SpokenVersions
from kemu.protocol.metadata_rules import MetadataRules
from kemu.protocol.names import ActorName, TopicPartition
from kemu.protocol.notes.groups import CommitAnswered, EpochRead
from kemu.protocol.notes.ranges import RangeEpochRead, RangePositionSet, RangeTrimmed

_WAKE = "wake"
_COMMIT = "commit"


@frozen
class WorkOff:
    """The order to process these open ranges of a partition. The first range starts at the partition's commit."""

    at: TopicPartition
    ranges: tuple[OffsetRange, ...]


@frozen
class Leave:
    """The order to stop reading and committing these partitions: the member lost them, or returns no more records."""

    partitions: tuple[TopicPartition, ...]


@frozen
class Serve:
    """The order to commit under this generation, and to resume these partitions."""

    generation: Generation
    partitions: tuple[TopicPartition, ...] = ()


@frozen
class Take:
    """The order to take at most this many records for a poll (``ChildConsumer.taken``)."""

    most: int


@frozen
class Worked:
    """The notice that the application has processed all records of former polls."""


@frozen
class CommitNow:
    """The order to commit these offsets, or all progress, under this generation. The result is in
    ``ChildConsumer.outcome``.
    """

    generation: Generation
    only: Mapping[TopicPartition, int] | None = None


@frozen
class PauseChild:
    """The order to pause or resume the return of records of these partitions."""

    partitions: tuple[TopicPartition, ...]
    paused: bool


@frozen
class Clip:
    """The notice that the log of a partition was truncated to ``end``: ranges beyond ``end`` are void."""

    at: TopicPartition
    end: int


class _Work:
    """A partition with ranges, present or past, and the second consumer's progress in the partition."""

    __slots__ = ("done", "one", "processed", "progress", "ranges")

    def __init__(self, one: Partition) -> None:
        self.one = one
        self.ranges: list[OffsetRange] = []
        """The open ranges, without their processed parts."""
        self.done = -1
        """The offset after the last record that a poll took."""
        self.processed = -1
        """The offset after the last record that the application has processed."""
        self.progress = -1
        """The committed offset, or the start of the first open range."""


class ChildConsumer(Machine):
    """KIP-333's second consumer.

    Args:
        name: ``part_on(member, "catch-up")``.
        config: the member's configuration.
        bootstrap: the brokers to ask first.
        chance: the random stream of the member's process.
        versions: the API versions of the consumer's requests.
        metadata_rules: the leader epochs in metadata that the release trusts.
    """

    polling = True
    """Always True: the second consumer fetches without the member's poll, which only takes the records."""
    poll_span_us = (0, 0)
    """(0, 0): no poll() of the member limits the waits of the second consumer."""

    def __init__(
        self,
        name: ActorName,
        config: ConsumerConfig,
        *,
        bootstrap: tuple[ActorName, ...],
        chance: Chance,
        versions: SpokenVersions,
        metadata_rules: MetadataRules,
    ) -> None:
        super().__init__(name)
        self.config = config
        self.versions = versions
        self.awake = False
        self.taken: list[ReturnedOfRange] = []
        """The records for the last ``Take``."""
        self.has_records = False
        """Whether a poll would get records."""
        self.unfinished = False
        """Whether the application is still processing records of a poll."""
        self.outcome: Result | None = None
        """The result of the last ``CommitNow``; None while its commit is in progress."""
        self.committed: list[tuple[TopicPartition, int]] = []
        """Commits acknowledged since the member last read this list."""
        self.fatal: tuple[ErrorCode, str] | None = None
        self._chance = chance
        self._generation = NEVER_JOINED
        self._work: dict[TopicPartition, _Work] = {}
        self._retry = backoff_ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._wake_us = 0
        self._asking: dict[TopicPartition, None] = {}
        """Partitions whose position is out of range, while their log's first or end offset is being asked for."""
        self._ask_at_us = 0
        self._asked_now = False
        self.client = Client(
            self,
            request_timeout_us=config.request_timeout_ms * 1000,
            reconnect=backoff_ms(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
            chance=chance,
            negotiates=versions.negotiates,
            link_lost=self._link_lost,
        )
        brokers = BrokersToAsk(self, self.client, bootstrap, chance.below(len(bootstrap)))
        self.metadata = MetadataRefresh.of_consumer(
            self, self.client, brokers, self, config, version=versions["Metadata"], chance=chance, rules=metadata_rules
        )
        lookups = CoordinatorLookups(self.client, brokers, versions["FindCoordinator"])
        self.discovery = Discovery(self, self.client, lookups, self.metadata, self, config, chance)
        self.fetching = Fetching(self, self._out_of_range, lambda moved: self._locate())
        self._interval_us = at_least_1_ms(config.auto_commit_interval_ms)
        self._interval_runs = False
        self._committing = False
        self._commit_next: Callable[[], None] | None = None
        """The requested commit that waits for the end of the commit in progress; None without such a commit."""
        self._timers: Mapping[str, Callable[[], None]] = {
            DEADLINE[0]: self.client.deadline_passed,
            FIND[0]: self.discovery.timer_fired,
            METADATA[0]: self.metadata.timer_fired,
            _WAKE: self._wake_fired,
            _COMMIT: self._interval_over,
        }

    def handle(self, event: Event) -> None:
        """React to an answer, timer, broken connection or command of the member; then send the due requests."""
        match event:
            case Received():
                self.client.reply_arrived(event)
            case TimerFired(key=key):
                self._timers[key[0]]()
            case LinkDown(peer=peer):
                self.client.connection_broke(peer, DISCONNECTED)
            case Told(command=command):
                self._accept(command)
            case _:
                raise AssertionError(f"{self.name}: {event}")
        while self.awake:
            self.awake = False
            self._ask_ranges()
            self.fetching.send()
        ready = [self._trim_buffer(work) for work in self._work.values() if work.one.buffer]
        self.has_records = True in ready

    def note(self, fact: object) -> None:
        """Report a fact. An epoch that this consumer reads is reported as ``RangeEpochRead``."""
        if isinstance(fact, EpochRead):
            fact = RangeEpochRead(
                topic=fact.topic,
                partition=fact.partition,
                offset=fact.offset,
                leader_epoch=fact.leader_epoch,
                life=fact.life,
            )
        super().note(fact)

    def _accept(self, command: Any) -> None:
        match command:
            case WorkOff(at=at, ranges=ranges):
                self._begin(at, ranges)
            case Leave(partitions=partitions):
                self._leave(partitions)
            case Serve(generation=generation, partitions=partitions):
                self._serve(generation, partitions)
            case Take(most=most):
                self._take(most)
            case Worked():
                self.unfinished = False
                for work in self._work.values():
                    work.processed = work.done
            case CommitNow(generation=generation, only=only):
                self._generation = generation
                self.outcome = None
                if self._committing:
                    self._commit_next = partial(self._commit, self._settled, only)
                else:
                    self._commit(self._settled, only)
            case PauseChild(partitions=partitions, paused=paused):
                self._pause(partitions, paused)
            case Clip(at=at, end=end):
                self._clip(at, end)
            case _:
                raise AssertionError(f"{self.name}: {command}")

    # --- ports of its parts ------------------------------------------------------------------------------------

    def wake(self) -> None:
        self.awake = True

    def wake_at(self, at_us: int) -> None:
        if at_us < self._wake_us or not self._wake_us:
            self._wake_us = at_us
            self.start_timer((_WAKE,), at_us - self.now_us)

    def _wake_fired(self) -> None:
        self._wake_us = 0
        self.awake = True

    def coordinator_found(self) -> None:
        """Do nothing: the interval commit retries by its own timer."""

    def coordinator_not_found(self) -> None:
        """Do nothing: no request waits for this lookup."""

    def coordinator_lost(self) -> None:
        """Do nothing: the next commit looks up the coordinator."""

    def metadata_refreshed(self, changed: bool) -> None:
        self._locate()
        self.wake()

    def fail_later(self, error: ErrorCode, why: str) -> None:
        self.fatal = self.fatal or (error, why)

    def _link_lost(self, peer: ActorName, why: str) -> None:
        if peer == self.discovery.coordinator:
            self.discovery.lose_coordinator(why, connected=False)
        else:
            self.metadata.refresh()
        self.wake()

    # --- partitions --------------------------------------------------------------------------------------------

    def _begin(self, at: TopicPartition, ranges: tuple[OffsetRange, ...]) -> None:
        """Resume a partition at this process's former progress, but never below the commit."""
        work = self._work.get(at)
        if work is None:
            work = self._work[at] = _Work(Partition(at))
        one = work.one
        work.ranges = list(ranges)
        work.progress = ranges[0].start if ranges else work.progress
        one.paused = False
        one.seeking = Seeking.FETCHING
        one.buffer = []
        one.position = max(work.done, work.progress)
        one.epoch_read = one.life_read = -1
        self._asking.pop(at, None)
        self._next_range(work)
        if work.ranges:
            self.note(
                RangePositionSet(group=self.config.group_id, topic=one.topic, partition=one.number, offset=one.position)
            )
        self.metadata.want(tuple(sorted({topic for topic, _ in self._work})))
        self._locate()
        self.discovery.find()
        self._run_interval()
        self.wake()

    def _leave(self, partitions: tuple[TopicPartition, ...]) -> None:
        for at in partitions:
            work = self._work.get(at)
            if work is not None:
                work.one.serving = False
                work.one.buffer = []
                work.one.row = None
                if at in self._asking:  # the request is repeated if the partition returns
                    del self._asking[at]
                    work.one.seeking = Seeking.FETCHING
        self._redistribute()

    def _serve(self, generation: Generation, partitions: tuple[TopicPartition, ...]) -> None:
        self._generation = generation
        for at in partitions:
            work = self._work.get(at)
            if work is not None:
                self._next_range(work)
        self._redistribute()
        self._run_interval()
        self.wake()

    def _pause(self, partitions: tuple[TopicPartition, ...], paused: bool) -> None:
        for at in partitions:
            work = self._work.get(at)
            if work is not None:
                (self.fetching.pause if paused else self.fetching.resume)(work.one)

    def _clip(self, at: TopicPartition, end: int) -> None:
        work = self._work.get(at)
        if work is None:
            return
        clipped = [OffsetRange(each.start, min(each.end, end)) for each in work.ranges if each.start < end]
        work.ranges = clipped
        one = work.one
        work.done, work.processed, work.progress = (
            min(offset, end) for offset in (work.done, work.processed, work.progress)
        )
        if one.position > end or one.buffer:
            one.position, one.buffer, one.row = min(one.position, end), [], None
        if one.serving:
            self._next_range(work)
            self._redistribute()

    def _next_range(self, work: _Work) -> None:
        """Move the position into the first open range; without an open range, stop fetching."""
        one = work.one
        while work.ranges and one.position >= work.ranges[0].end:
            del work.ranges[0]
        if work.ranges and one.position < work.ranges[0].start:
            one.position = work.ranges[0].start
            one.buffer = []
        if not work.ranges:
            one.buffer = []
        one.row = None
        one.serving = bool(work.ranges)
        self.fetching.changed(one)

    def _locate(self) -> None:
        missing = False
        for work in self._work.values():
            one = work.one
            leader, epoch = self.metadata.current_leader(one.topic, one.number)
            one.waits_for_metadata = False
            missing = missing or leader is None
            if leader != one.leader or epoch != one.leader_epoch:
                one.leader, one.leader_epoch, one.row = leader, epoch, None
        if missing and self._work:
            self.metadata.refresh()
        self._redistribute()

    def _redistribute(self) -> None:
        self.fetching.redistribute({at: work.one for at, work in self._work.items() if work.one.serving})

    # --- polls -------------------------------------------------------------------------------------------------

    def _trim_buffer(self, work: _Work) -> bool:
        """Drop records beyond the range. Returns whether a poll would get records of the partition."""
        one, end = work.one, work.ranges[0].end
        buffer = one.buffer
        beyond = False
        while buffer and buffer[-1][0] >= end:
            buffer.pop()
            beyond = True
        if buffer and buffer[-1][1] > end:
            buffer[-1] = (buffer[-1][0], end, buffer[-1][2])
        if not buffer and beyond:  # the log has no more records in the range
            one.position = work.done = end
            work.processed = work.processed if self.unfinished else end
            self._next_range(work)
            self.fetching.send()
        return bool(buffer) and not one.paused

    def _take(self, most: int) -> None:
        self.taken = [ReturnedOfRange(*each) for each in self.fetching.drain(most)]
        for at, _, last in self.taken:
            work = self._work[at]
            work.done = last
            self._next_range(work)
            self.unfinished = True
        self.wake()

    # --- positions out of range --------------------------------------------------------------------------------

    def _out_of_range(self, one: Partition, why: str) -> None:
        self._asking[one.at] = None
        one.seeking = Seeking.RESET
        self.fetching.changed(one)
        self.wake()

    def _ask_ranges(self) -> None:
        """Ask for the first offset of each log whose position is out of range."""
        if not self._asking or self._asked_now:
            return
        if self.now_us < self._ask_at_us:
            self.wake_at(self._ask_at_us)
            return
        for at in self._asking:
            one = self._work[at].one
            if one.leader is not None and self.client.available_at(one.leader) <= self.now_us:
                self._ask(one, EARLIEST_TIMESTAMP)
                return
        self._ask_later()

    def _ask(self, one: Partition, timestamp_ms: int) -> None:
        assert one.leader is not None
        self._asked_now = True
        question = OffsetQuestion(
            topic=one.topic,
            partition=one.number,
            current_leader_epoch=one.leader_epoch,
            timestamp_ms=timestamp_ms,
        )
        request, version = ListOffsets(questions=(question,)), self.versions["ListOffsets"]
        self.client.call(one.leader, request, version, self._range_answered, self._unanswered, timestamp_ms)

    def _unanswered(self, why: str, timestamp_ms: int) -> None:
        self._asked_now = False
        self._ask_later()

    def _ask_later(self) -> None:
        self._ask_at_us = self.now_us + self._retry.first_us
        self.metadata.refresh()
        self.wake_at(self._ask_at_us)

    def _range_answered(self, reply: ListOffsetsReply, timestamp_ms: int) -> None:
        self._asked_now = False
        (row,) = reply.answers
        at = (row.topic, row.partition)
        if at not in self._asking:
            self.wake()
            return
        if row.error is not ErrorCode.NONE or row.offset < 0:
            self._ask_later()
            return
        work = self._work[at]
        one = work.one
        if timestamp_ms == EARLIEST_TIMESTAMP and row.offset <= one.position:
            self._ask(one, LATEST_TIMESTAMP)  # the position is beyond the log's end
            return
        if timestamp_ms == LATEST_TIMESTAMP and work.ranges and row.offset < work.ranges[0].start:
            self._ask_later()  # the log ends before the range, which remains until the member learns of the truncation
            return
        del self._asking[at]
        one.seeking = Seeking.FETCHING
        if timestamp_ms == EARLIEST_TIMESTAMP:
            self._trim(work, row.offset)
        else:  # the ranges remain until the member learns of the truncation
            one.position = min(one.position, row.offset)
        self._next_range(work)
        self._redistribute()
        self.wake()

    def _trim(self, work: _Work, start: int) -> None:
        """Mark the records below ``start`` as processed, and report them as lost: retention deleted them."""
        one = work.one
        for each in work.ranges:
            first, last = max(each.start, one.position), min(each.end, start)
            if first < last:
                self.note(
                    RangeTrimmed(
                        group=self.config.group_id, topic=one.topic, partition=one.number, first=first, last=last
                    )
                )
                work.done = last
        if not self.unfinished:
            work.processed = work.done
        one.position, one.buffer = start, []

    # --- commits -----------------------------------------------------------------------------------------------

    def _run_interval(self) -> None:
        if self.config.enable_auto_commit and not self._interval_runs:
            self._interval_runs = True
            self.start_timer((_COMMIT,), self._interval_us)

    def _interval_over(self) -> None:
        self._interval_runs = False
        if not self._committing:
            self._commit(self._interval_settled)
        if any(work.one.serving or work.done > work.progress for work in self._work.values()):
            self._run_interval()

    def _interval_settled(self, result: Result) -> None:
        if result is Result.RETRIABLE:
            self._interval_runs = True
            self.start_timer((_COMMIT,), self._retry.first_us)

    def _settled(self, result: Result) -> None:
        self.outcome = result

    def position(self, at: TopicPartition) -> int:
        """The offset after the last record that polls took of a partition; -1 without such a record."""
        work = self._work.get(at)
        return -1 if work is None else work.done

    def to_commit(self, only: Mapping[TopicPartition, int] | None = None) -> tuple[RangeProgress, ...]:
        """The progress beyond the commit: processed records, or the given offsets."""
        offsets = {at: work.processed for at, work in self._work.items()} if only is None else only
        return tuple(
            RangeProgress(topic=at[0], partition=at[1], offset=offset)
            for at, offset in offsets.items()
            if offset > self._work[at].progress
        )

    def _commit(self, settled: Callable[[Result], None], only: Mapping[TopicPartition, int] | None = None) -> None:
        offsets = self.to_commit(only)
        coordinator = self.discovery.coordinator
        if not offsets:
            settled(Result.DONE)
        elif coordinator is None:
            self.discovery.find()
            settled(Result.RETRIABLE)
        else:
            self._committing = True
            request = RangeCommit(
                group=self.config.group_id,
                generation=self._generation.id,
                member_id=self._generation.member_id,
                instance_id=self.config.group_instance_id,
                offsets=offsets,
            )
            self.client.call(coordinator, request, RANGES_VERSION, self._answered, self._broke, (request, settled))

    def _broke(self, why: str, context: tuple[RangeCommit, Callable[[Result], None]]) -> None:
        self._commit_over(Result.RETRIABLE, context[1])

    def _answered(self, reply: RangeCommitReply, context: tuple[RangeCommit, Callable[[Result], None]]) -> None:
        request, settled = context
        error = next((row.error for row in reply.outcomes if row.error is not ErrorCode.NONE), ErrorCode.NONE)
        if error is not ErrorCode.NONE:
            self.note(
                CommitAnswered(
                    group=request.group, member_id=request.member_id, generation=request.generation, error=error
                )
            )
        if error is ErrorCode.NONE:
            for row in request.offsets:
                at = (row.topic, row.partition)
                work = self._work[at]
                work.progress = max(work.progress, row.offset)
                self.committed.append((at, row.offset))
        self._commit_over(self._result(error), settled)

    def _commit_over(self, result: Result, settled: Callable[[Result], None]) -> None:
        self._committing = False
        settled(result)
        then, self._commit_next = self._commit_next, None
        if then is not None:
            then()

    def _result(self, error: ErrorCode) -> Result:
        """The result of a commit, after this error.

        A stale generation only fails the commit: the member learns of the new generation by its own requests.
        """
        match error:
            case ErrorCode.NONE:
                return Result.DONE
            case ErrorCode.COORDINATOR_NOT_AVAILABLE | ErrorCode.NOT_COORDINATOR | ErrorCode.REQUEST_TIMED_OUT:
                self.discovery.lose_coordinator(f"RangeCommit: {error.name}")
                return Result.RETRIABLE
            case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return Result.RETRIABLE
            case ErrorCode.REBALANCE_IN_PROGRESS:
                return Result.REBALANCING
            case _:
                return Result.FAILED
