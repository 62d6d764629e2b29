"""The application's questions: committed(), beginningOffsets(), endOffsets() and offsetsForTimes(). A part of the
consumer.

Only the polling thread asks questions, so at most one question is in progress. Requests are retried until
``default.api.timeout.ms`` has passed. A partition without an answer at this timeout gets None, where Kafka raises a
TimeoutException. An error that no retry can resolve ends the question at once, and the next poll raises the error.

With two commit logs (KIP-333) ``committed()`` is the progress in the first open range. Without an open range,
``committed()`` is the first log's commit. One of the two logs covers every record below this offset.

Source: Kafka's ``ConsumerCoordinator.fetchCommittedOffsets``, ``OffsetFetcher.fetchOffsetsByTimes``.
"""

from collections.abc import Callable, Mapping
from functools import partial

from kemu.actors.client import backoff_ms
from kemu.actors.consumer.application import Answers
from kemu.actors.consumer.machine import ConsumerMachine, ConsumerTimer
from kemu.actors.consumer.offset_topics import is_retried, is_retried_by_group, offset_fetch
from kemu.actors.consumer.positions import Positions, SharedFetch
from kemu.protocol.catch_up import CommitLogs, OffsetRange
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.data import ListOffsets, ListOffsetsReply, OffsetQuestion
from kemu.protocol.messages.group import OffsetFetchReply
from kemu.protocol.messages.ranges import RANGES_VERSION, FetchedLogs, RangeFetch, RangeFetchReply
from kemu.protocol.names import ActorName, TopicPartition


class _Question:
    """A question in progress, and the answers so far."""

    __slots__ = ("answers", "ask", "asked", "asks_coordinator", "failures", "missing", "then", "until_us", "waits")

    def __init__(self, partitions: tuple[TopicPartition, ...], until_us: int, then: Answers) -> None:
        self.answers: dict[TopicPartition, int | None] = dict.fromkeys(partitions)
        self.missing = dict.fromkeys(partitions)
        self.until_us = until_us
        self.then = then
        self.ask: Callable[[], None] = lambda: None
        self.asked: Mapping[TopicPartition, TopicPartition] = {}
        """(topic or its id, number) in an answer to OffsetFetch -> partition."""
        self.asks_coordinator = False
        self.waits = 0
        """The number of requests in flight."""
        self.failures = 0


class Questions:
    """The application's questions to the cluster."""

    def __init__(self, machine: ConsumerMachine, positions: Positions) -> None:
        config = machine.config
        self._positions = positions
        self.asked_ever = False
        self._machine = machine
        self._group = config.group_id
        self._timeout_us = config.default_api_timeout_ms * 1000
        self._retry = backoff_ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._question: _Question | None = None

    def committed(self, partitions: tuple[TopicPartition, ...], then: Answers) -> None:
        """Request the group's committed offsets."""
        question = self._begin(partitions, then)
        question.ask, question.asks_coordinator = self._ask_coordinator, True
        self._ask(question)

    def offsets(self, times_ms: dict[TopicPartition, int], then: Answers) -> None:
        """Request offsets by time; the special times of ``ListOffsets`` mean a log's start and end."""
        question = self._begin(tuple(times_ms), then)
        self._machine.metadata.want_for_now(tuple(dict.fromkeys(topic for topic, _ in times_ms)))
        question.ask = lambda: self._ask_leaders(times_ms)
        self._ask(question)

    def timer_fired(self) -> None:
        """Send requests again, or end the question at its timeout (the timer QUESTION fired)."""
        if self._question is not None:
            self._ask(self._question)

    def fail(self) -> None:
        """End the question, because the coordinator cannot be looked up; the next poll raises the error."""
        if self._question is not None and self._question.asks_coordinator:
            self._machine.stop_timer((ConsumerTimer.QUESTION,))
            self._question.missing.clear()
            self._ask(self._question)

    def _begin(self, partitions: tuple[TopicPartition, ...], then: Answers) -> _Question:
        assert self._question is None, "the polling thread asks one thing at a time"
        self.asked_ever = True
        self._question = _Question(partitions, self._machine.now_us + self._timeout_us, then)
        return self._question

    def _ask(self, question: _Question) -> None:
        if not question.missing or self._machine.now_us >= question.until_us:
            self._question = None
            self._machine.metadata.want_for_now(())
            question.then(question.answers)
            return
        question.ask()
        if not question.waits:
            self._ask_later(question)

    def _ask_later(self, question: _Question) -> None:
        question.failures += 1
        wait_us = self._retry.after(question.failures, self._machine.chance)
        left_us = question.until_us - self._machine.now_us
        self._machine.start_timer((ConsumerTimer.QUESTION,), min(wait_us, left_us))

    def _answered(self, question: _Question) -> None:
        """End the question if a request ended, with or without an answer, and was the last request."""
        if question is not self._question:
            return
        question.waits -= 1
        if question.waits:
            return
        if question.missing:
            self._ask_later(question)
        else:
            self._ask(question)

    def _known(self, question: _Question, at: TopicPartition, offset: int | None) -> None:
        if at in question.missing:
            del question.missing[at]
            question.answers[at] = offset

    # --- committed() -------------------------------------------------------------------------------------------

    def _ask_coordinator(self) -> None:
        machine, question = self._machine, self._question
        assert question is not None
        if not machine.discovery.ready():
            return
        coordinator = machine.discovery.coordinator
        assert coordinator is not None
        request, version, question.asked = offset_fetch(machine, question.missing)
        question.waits += 1
        if machine.catch_up is not None and not machine.subscription.by_hand:
            logs = RangeFetch(group=self._group, topics=request.topics or ())
            machine.client.call(coordinator, logs, RANGES_VERSION, self._logs_answered, self._unanswered, question)
        elif not (
            machine.config.uses_consumer_protocol
            and self._positions.share_fetch(
                question.missing,
                SharedFetch(
                    partial(self._offsets_answered, question=question), partial(self._unanswered, question=question)
                ),
            )
        ):
            machine.client.call(coordinator, request, version, self._offsets_answered, self._unanswered, question)

    def _unanswered(self, why: str, question: _Question) -> None:
        self._answered(question)

    def _refused(self, api: str, error: ErrorCode, question: _Question) -> None:
        """React to an error: look up the coordinator, or make the next poll raise an error that no retry
        can resolve.
        """
        machine = self._machine
        if error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            machine.discovery.lose_coordinator(f"{api}: {error.name}")
        if error is not ErrorCode.NONE and not is_retried_by_group(machine, error):
            self._raise(api, error, question)

    def _raise(self, about: str, error: ErrorCode, question: _Question) -> None:
        self._machine.fail_later(error, about)
        question.missing.clear()

    def _offsets_answered(self, reply: OffsetFetchReply, question: _Question) -> None:
        self._refused("OffsetFetch", reply.error, question)
        for row in reply.offsets:
            at = question.asked[row.topic or row.topic_id, row.partition]
            if row.error is ErrorCode.NONE:
                self._known(question, at, row.offset if row.offset >= 0 else None)
            elif not is_retried(self._machine, row.error):
                self._raise(f"OffsetFetch: {at[0]}-{at[1]}", row.error, question)
        self._answered(question)

    def _logs_answered(self, reply: RangeFetchReply, question: _Question) -> None:
        self._refused("RangeFetch", reply.error, question)
        for row in reply.logs:
            self._known(question, (row.topic, row.partition), logs_of(row).committed)
        self._answered(question)

    # --- offsets by time ---------------------------------------------------------------------------------------

    def _ask_leaders(self, times_ms: dict[TopicPartition, int]) -> None:
        machine, question = self._machine, self._question
        assert question is not None
        by_leader: dict[ActorName, list[OffsetQuestion]] = {}
        for topic, number in question.missing:
            leader, epoch = machine.metadata.current_leader(topic, number)
            if leader is None:
                machine.metadata.refresh()
            elif machine.client.available_at(leader) <= machine.now_us:
                row = OffsetQuestion(
                    topic=topic,
                    partition=number,
                    current_leader_epoch=epoch,
                    timestamp_ms=times_ms[topic, number],
                )
                by_leader.setdefault(leader, []).append(row)
        for leader, rows in by_leader.items():
            question.waits += 1
            request, version = ListOffsets(questions=tuple(rows)), machine.versions["ListOffsets"]
            machine.client.call(leader, request, version, self._listed, self._unanswered, question)

    def _listed(self, reply: ListOffsetsReply, question: _Question) -> None:
        for row in reply.answers:
            if row.error is ErrorCode.NONE:
                self._known(question, (row.topic, row.partition), row.offset if row.offset >= 0 else None)
            elif row.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._raise("ListOffsets", row.error, question)
            else:
                self._machine.metadata.refresh()
        self._answered(question)


def logs_of(row: FetchedLogs) -> CommitLogs:
    """Both commit logs of a partition, from a coordinator's answer."""
    return CommitLogs(
        primary=row.offset if row.offset >= 0 else None,
        tokens=tuple(OffsetRange(start, end) for start, end in row.tokens),
        secondary=row.second_offset if row.second_offset >= 0 else None,
    )
