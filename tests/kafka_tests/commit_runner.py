"""Runs a case of Kafka's CommitRequestManagerTest: a program that commits and asks for commits, and a coordinator."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from kemu.actors.consumer.application import Calls
from kemu.actors.consumer.partition import Returned
from kemu.actors.machine import Told
from kemu.protocol.commands import Start
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import (
    FetchedOffset,
    FindCoordinator,
    OffsetCommit,
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetOutcome,
)
from kemu.protocol.messages.versions import KAFKA_4_2, LATEST
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import MemberFailed, PartitionsRevoked
from tests.actors.consumer.consumer_harness import Pending
from tests.kafka_tests.cases import Case
from tests.kafka_tests.client_runner import CLIENTS, ScriptedCoordinator, reply_to

KEYS_OF_CASES = " method name since until config first by_hand committed tells_ids steps "
KEYS_OF_STEPS = (
    " run_ms calls refuse lookups answers hold unhold release disconnect topics sent results fails looks_up revoked "
)
BEGIN_MS = 100
"""A case begins when the consumer has its partitions and their committed offsets."""
API = {"commit": "OffsetCommit", "fetch": "OffsetFetch"}
_US = 1_000


class Program:
    """An application that polls, and makes the calls of a case between two polls."""

    def __init__(self, by_hand: tuple[TopicPartition, ...]) -> None:
        self.calls: Calls
        self.results: list[str] = []
        """The ended calls of the step, in order: name and outcome."""
        self._by_hand = by_hand
        self._next: list[Callable[[], bool]] = []
        """The calls to make. A call returns whether it ends the poll."""

    def started(self, calls: Calls) -> None:
        self.calls = calls
        if self._by_hand:
            calls.assign(self._by_hand)
        calls.poll(timeout_us=_US)

    def polled(self, records: Sequence[Returned]) -> None:
        self._go_on()

    def worked(self) -> None:
        self._go_on()

    def committed(self) -> None:
        self.results.append("sync done" if self.calls.last_commit_went_through else "sync failed")
        self._go_on()

    def poll_raised(self, why: str) -> None:
        self._go_on()

    def make(self, call: str) -> None:
        """Make a call: ``sync``, ``async`` or ``committed``, with offsets or partitions as text."""
        name, _, text = call.partition(" ")
        self._next.append(partial(getattr(self, f"_{name}"), text))

    def _go_on(self) -> None:
        while self._next:
            if self._next.pop(0)():
                return
        self.calls.poll(timeout_us=_US)

    def _sync(self, text: str) -> bool:
        self.calls.commit_sync(_offsets(text))
        return True

    def _async(self, text: str) -> bool:
        def told(committed: bool) -> None:
            self.results.append("async done" if committed else "async failed")

        self.calls.commit_async(_offsets(text), told)
        return False

    def _close(self, text: str) -> bool:
        self.calls.close()
        return True

    def _committed(self, text: str) -> bool:
        def told(answers: Mapping[TopicPartition, int | None]) -> None:
            found = " ".join(f"{topic}-{number}={offset}" for (topic, number), offset in answers.items())
            self.results.append(f"committed {found}")
            self._go_on()

        self.calls.committed(_partitions(text), told)
        return True


def _offsets(text: str) -> dict[TopicPartition, int]:
    """Partition -> offset: ``t-0=5 t-1=7``."""
    pairs = [each.split("=") for each in text.split()]
    return {_partition(name): int(offset) for name, offset in pairs}


def _partitions(text: str) -> tuple[TopicPartition, ...]:
    return tuple(_partition(name) for name in text.split())


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


class CommitCoordinator(ScriptedCoordinator):
    """A coordinator that names topics by id if the request does, and can be unaware of ids."""

    tells_ids = True

    def _topic(self, name: str) -> Any:
        topic = super()._topic(name)
        return topic if self.tells_ids else evolve(topic, topic_id="")

    def _serve(self, pending: Pending) -> Any:
        request = pending.message
        if isinstance(request, OffsetCommit):
            self.cluster.committed.update({_at(row): row.offset for row in request.offsets})
            return commit_answer("NONE", request)
        if isinstance(request, OffsetFetch):
            return fetch_answer("", self.cluster.committed, request)
        return super()._serve(pending)


def _at(row: Any) -> TopicPartition:
    return row.topic or row.topic_id.removesuffix("-id"), row.partition


def commit_answer(refused: str, request: OffsetCommit) -> OffsetCommitReply:
    """An error for all partitions (``NAME``), or for these (``NAME t-0 t-1``)."""
    rows = [
        OffsetOutcome(topic=row.topic, topic_id=row.topic_id, partition=row.partition, error=_error(refused, _at(row)))
        for row in request.offsets
    ]
    return OffsetCommitReply(outcomes=tuple(rows))


def fetch_answer(refused: str, committed: Mapping[TopicPartition, int], request: OffsetFetch) -> OffsetFetchReply:
    """The committed offsets; an error of the group (``NAME``), or of partitions (``NAME t-0 t-1``)."""
    if refused and " " not in refused:
        return OffsetFetchReply(offsets=(), error=ErrorCode[refused])
    rows = []
    for topic in request.topics or ():
        for number in topic.partitions:
            row = FetchedOffset(topic=topic.topic, topic_id=topic.topic_id, partition=number, error=ErrorCode.NONE)
            error = _error(refused, _at(row))
            offset = -1 if error is not ErrorCode.NONE else committed.get(_at(row), -1)
            rows.append(evolve(row, offset=offset, error=error))  # type: ignore[misc]
    return OffsetFetchReply(offsets=tuple(rows))


def _error(refused: str, at: TopicPartition) -> ErrorCode:
    name, *partitions = refused.split() or ["NONE"]
    return ErrorCode[name] if not partitions or at in _partitions(" ".join(partitions)) else ErrorCode.NONE


class CommitRunner:
    """A consumer with a program, and the steps of a case."""

    def __init__(self, case: Case, release: str) -> None:
        for keys, known in ((case, KEYS_OF_CASES), *((step, KEYS_OF_STEPS) for step in case["steps"])):
            assert all(f" {key} " in known for key in keys), f"an unknown key in {keys}"
        self._steps = case["steps"]
        self._program = Program(_partitions(case.get("by_hand", "")))
        config = {"group_protocol": "consumer", "enable_auto_commit": False, **case.get("config", {})}
        self._harness = CommitCoordinator(
            {"t": 4},
            subscribe=() if "by_hand" in case else ("t",),
            client=CLIENTS[release],
            versions=KAFKA_4_2 if release >= "4.2" else LATEST,
            application=self._program,
            start=False,
            **config,
        )
        self._harness.first = case.get("first", "t 0")
        self._harness.tells_ids = case.get("tells_ids", True)
        self._harness.cluster.committed = _offsets(case.get("committed", "t-0=5"))
        self._harness.cluster.ends = dict(self._harness.cluster.committed)
        self._harness.step(Told(Start()))
        self._harness.run(BEGIN_MS * _US)

    def run(self) -> None:
        """Make the steps of the case, and compare their outcomes."""
        for number, step in enumerate(self._steps, 1):
            self._step(step, f"step {number}: {step}")

    def _step(self, step: Mapping[str, Any], why: str) -> None:
        harness, program = self._harness, self._program
        harness.forget()
        program.results.clear()
        began_us = harness.now_us
        for name, errors in step.get("refuse", {}).items():
            for error in errors:
                answer = partial(commit_answer, error)
                if name == "fetch":
                    answer = partial(fetch_answer, error, harness.cluster.committed)
                harness.answer_next(API[name], answer)
        harness.answer_next("FindCoordinator", *[ErrorCode[name] for name in step.get("lookups", ())])
        answers = [partial(reply_to, answer) for answer in step.get("answers", ())]
        harness.answer_next("ConsumerGroupHeartbeat", *answers)
        if "hold" in step:
            harness.hold(API[step["hold"]])
        if "release" in step:
            harness.release(API[step["release"]])
        if "unhold" in step:
            harness.unhold(API[step["unhold"]])
        if "topics" in step:
            harness.cluster.topics = dict(step["topics"])
            harness.consumer.metadata.refresh()
        if step.get("disconnect", False):
            harness.disconnect()
        for call in step.get("calls", ()):
            program.make(call)
        harness.run(step["run_ms"] * _US)
        self._compare(step, began_us, why)

    def _compare(self, step: Mapping[str, Any], began_us: int, why: str) -> None:
        sent = [
            told(message, (at - began_us) // _US)
            for at, _, message in self._harness.sent
            if isinstance(message, OffsetCommit | OffsetFetch)
        ]
        if "sent" in step:
            found = [{key: one.get(key) for key in wanted} for one, wanted in zip(sent, step["sent"], strict=False)]
            assert (len(sent), found) == (len(step["sent"]), step["sent"]), f"{why}\n{sent}"
        if "results" in step:
            assert self._program.results == step["results"], f"{why}\n{self._program.results}"
        failed = [fact.error.name for fact in self._harness.facts(MemberFailed)]
        assert failed == [step["fails"]] if "fails" in step else not failed, f"{why}\n{failed}"
        if "looks_up" in step:
            looked_up = any(isinstance(message, FindCoordinator) for _, _, message in self._harness.sent)
            assert looked_up is step["looks_up"], why
        if "revoked" in step:
            revoked = [f"{at[0]}-{at[1]}" for fact in self._harness.facts(PartitionsRevoked) for at in fact.revoked]
            assert " ".join(revoked) == step["revoked"], why


def told(request: OffsetCommit | OffsetFetch, after_ms: int) -> Mapping[str, Any]:
    """A request as a case names it."""
    about: dict[str, Any] = {"after_ms": after_ms}
    if isinstance(request, OffsetCommit):
        about["commit"] = " ".join(f"{_at(row)[0]}-{row.partition}={row.offset}" for row in request.offsets)
        about["epoch"] = request.generation
        return about | {"by": "id" if any(row.topic_id for row in request.offsets) else "name"}
    rows = request.topics or ()
    about["fetch"] = " ".join(
        f"{row.topic or row.topic_id.removesuffix('-id')}-{number}" for row in rows for number in row.partitions
    )
    about["epoch"] = request.member_epoch
    return about | {"by": "id" if any(row.topic_id for row in rows) else "name"}
