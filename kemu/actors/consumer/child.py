"""KIP-333's second consumer: it works off ranges that the first one skipped, oldest first, then waits for more.

A machine inside the member's own, known to its peers as ``c1/catch-up``: with connections, metadata and a coordinator
that it looks up by itself. It is no member of the group. It commits under the generation that it was told last, so the
coordinator fences it with its member; while it is told of no partition it neither reads nor commits. What it read waits
until the member's poll takes it; what a poll took counts as worked through when the application is back from it.

Source: KIP-333, "Design" and "Effects on Current API"; where the page is silent, the rules of ``protocol.catch_up``.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attrs import frozen

from kemu.actors.client import DEADLINE, DISCONNECTED, Backoff, Client
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
    """The member owns a partition: these ranges are open, the first one from where it was committed."""

    at: TopicPartition
    ranges: tuple[OffsetRange, ...]


@frozen
class Leave:
    """The member does not own these any more, or stops serving them: read and commit nothing of them."""

    partitions: tuple[TopicPartition, ...]


@frozen
class Serve:
    """Commit under this generation; of what was left, these are served again."""

    generation: Generation
    partitions: tuple[TopicPartition, ...] = ()


@frozen
class Take:
    """A poll: hand over at most so many records (``ChildConsumer.taken``)."""

    most: int


@frozen
class Worked:
    """The application is back: it worked through all that polls took."""


@frozen
class CommitNow:
    """Commit these offsets, or all there is, under this generation; ``ChildConsumer.outcome`` says how it ended."""

    generation: Generation
    only: Mapping[TopicPartition, int] | None = None


@frozen
class PauseChild:
    """Return nothing of these (``paused``), or again."""

    partitions: tuple[TopicPartition, ...]
    paused: bool


@frozen
class Clip:
    """A partition's log was cut here: what ranges say of offsets from there on is void."""

    at: TopicPartition
    end: int


class _Work:
    """A partition with ranges, or one that had some: what a life of the second consumer remembers of it."""

    __slots__ = ("done", "one", "processed", "progress", "ranges")

    def __init__(self, one: Partition) -> None:
        self.one = one
        self.ranges: list[OffsetRange] = []
        """Open ones, from where they are to be worked off."""
        self.done = -1
        """Behind the last record that a poll took."""
        self.processed = -1
        """The same, of what the application has worked through."""
        self.progress = -1
        """What is committed, or where the first open range begins."""


class ChildConsumer(Machine):
    """See the module.

    Args:
        name: ``part_on(member, "catch-up")``.
        config: the member's.
        bootstrap: brokers to ask first.
        chance: the stream of the member's life.
        versions: the API versions to speak.
        metadata_rules: which leader epochs in metadata its release believes.
    """

    polling = True
    """It fetches whenever it has nothing; only handing over needs the member's poll."""
    poll_span_us = (0, 0)
    """No poll() of the member bounds what it waits for."""

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
        """What the last ``Take`` got."""
        self.has_records = False
        """Whether a poll would get some."""
        self.unfinished = False
        """A poll took records, and the application is not back."""
        self.outcome: Result | None = None
        """Of the last ``CommitNow``; None while it is under way."""
        self.committed: list[tuple[TopicPartition, int]] = []
        """Commits that are in the log since the member looked last."""
        self.fatal: tuple[ErrorCode, str] | None = None
        self._chance = chance
        self._generation = NEVER_JOINED
        self._work: dict[TopicPartition, _Work] = {}
        self._retry = Backoff(config.retry_backoff_ms * 1000, config.retry_backoff_max_ms * 1000)
        self._wake_us = 0
        self._asking: dict[TopicPartition, None] = {}
        """Positions that are out of their log's range: where it begins, and ends, is being asked."""
        self._ask_at_us = 0
        self._asked_now = False
        self.client = Client(
            self,
            request_timeout_us=config.request_timeout_ms * 1000,
            reconnect=Backoff(config.reconnect_backoff_ms * 1000, config.reconnect_backoff_max_ms * 1000),
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
        self.fetching = Fetching(self, self._out_of_range)
        self._interval_us = at_least_1_ms(config.auto_commit_interval_ms)
        self._interval_runs = False
        self._committing = False
        self._commit_next: Callable[[], None] | None = None
        """A commit that was asked for while another is under way."""
        self._timers: Mapping[str, Callable[[], None]] = {
            DEADLINE[0]: self.client.deadline_passed,
            FIND[0]: self.discovery.timer_fired,
            METADATA[0]: self.metadata.timer_fired,
            _WAKE: self._wake_fired,
            _COMMIT: self._interval_over,
        }

    def handle(self, event: Event) -> None:
        """Answers, timers, broken connections, what the member says; then whatever there is to ask."""
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
        """Report a fact; which epochs were read is told apart from what the member itself reads."""
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

    # --- what the parts need -----------------------------------------------------------------------------------

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
        """What waits for it is tried again by itself."""

    def coordinator_not_found(self) -> None:
        """Nothing waits for this lookup alone."""

    def coordinator_lost(self) -> None:
        """The next commit looks it up."""

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
        """Work on from where this life was, if it has been here, and never before what is committed."""
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
                if at in self._asking:  # should it come back, it finds out anew
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
        """Be where there is work: in a range, or on standby."""
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

    # --- what polls get ----------------------------------------------------------------------------------------

    def _trim_buffer(self, work: _Work) -> bool:
        """Keep what belongs to the range; whether a poll gets something of it."""
        one, end = work.one, work.ranges[0].end
        buffer = one.buffer
        beyond = False
        while buffer and buffer[-1][0] >= end:
            buffer.pop()
            beyond = True
        if buffer and buffer[-1][1] > end:
            buffer[-1] = (buffer[-1][0], end, buffer[-1][2])
        if not buffer and beyond:  # the log has nothing up to the range's end
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

    # --- what the log does not have ----------------------------------------------------------------------------

    def _out_of_range(self, one: Partition, why: str) -> None:
        self._asking[one.at] = None
        one.seeking = Seeking.RESET
        self.fetching.changed(one)
        self.wake()

    def _ask_ranges(self) -> None:
        """Where do the logs begin whose positions are out of range?"""
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
            self._ask(one, LATEST_TIMESTAMP)  # then it is the end that is too near
            return
        del self._asking[at]
        one.seeking = Seeking.FETCHING
        if timestamp_ms == EARLIEST_TIMESTAMP:
            self._trim(work, row.offset)
        else:  # what the ranges say of it holds until the member learns that its log was cut
            one.position = min(one.position, row.offset)
        self._next_range(work)
        self._redistribute()
        self.wake()

    def _trim(self, work: _Work, start: int) -> None:
        """Retention took what lies before ``start``: it counts as done, and is said to be lost."""
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
        """Behind what polls took of a partition; -1: nothing."""
        work = self._work.get(at)
        return -1 if work is None else work.done

    def to_commit(self, only: Mapping[TopicPartition, int] | None = None) -> tuple[RangeProgress, ...]:
        """What the application has worked through, or says that it has, and is not committed."""
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
        """What fences the member it learns by itself: a stale generation is no more than a commit that failed."""
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
