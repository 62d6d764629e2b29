"""Runs a case of Kafka's tests of a member of the consumer protocol: a consumer against a scripted coordinator."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from attrs import evolve

from kemu.actors.machine import Told
from kemu.protocol.commands import Close, RaiseInListener, Start, StopPolling, Subscribe, Unsubscribe
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import (
    JOINS,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    TopicNumbers,
)
from kemu.protocol.messages.data import Fetch, Metadata, TopicMetadata
from kemu.protocol.messages.group import OffsetCommit
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.groups import (
    ListenerFailed,
    MemberBecame,
    MemberFailed,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    Processed,
)
from kemu.protocol.rebalancing.client_rules import CLIENT_3_9, CLIENT_4_0, CLIENT_4_1, CLIENT_4_2, ClientRules
from tests.actors.consumer.consumer_harness import Harness, Pending
from tests.kafka_tests.cases import Case, held, share, topic_id

CLIENTS: Mapping[str, ClientRules] = {"4.0": CLIENT_4_0, "4.1": CLIENT_4_1, "4.2": CLIENT_4_2, "4.3": CLIENT_3_9}
"""The rules of the clients of each release."""
API = "ConsumerGroupHeartbeat"
APIS = {"heartbeats": API, "commits": "OffsetCommit"}
"""The names of requests that a step holds or releases."""
COUNTED = {"commits": OffsetCommit, "metadata": Metadata}
"""The requests that a step counts."""
INTERVAL_MS = 5_000
KEYS_OF_CASES = " method name since until config topics subscribed first steps "
KEYS_OF_STEPS = (
    " answers commit_errors run_ms hold release disconnect do append no_coordinator topics"
    " sent states callbacks fails begins state fetched processed commits metadata "
)
_US = 1_000


class ScriptedCoordinator(Harness):
    """A consumer whose coordinator answers heartbeats: a join gets epoch 1 and the first assignment."""

    first = "t 0-1"

    def _serve(self, pending: Pending) -> Any:
        request = pending.message
        if isinstance(request, ConsumerGroupHeartbeat):
            joins = request.member_epoch == JOINS
            return reply_to({"epoch": 1, "assignment": self.first} if joins else {}, request)
        if isinstance(request, Metadata) and request.topic_ids:
            named = [name for name in self.cluster.topics if topic_id(name) in request.topic_ids]
            return self._metadata([*(request.topics or ()), *named])
        return super()._serve(pending)

    def _topic(self, name: str) -> TopicMetadata:
        topic: Any = super()._topic(name)
        found: TopicMetadata = topic if topic.error else evolve(topic, topic_id=topic_id(name))
        return found


def reply_to(answer: Any, request: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatReply:
    """An error, or an answer with the epoch and the assignment that a case names."""
    if isinstance(answer, str):
        return ConsumerGroupHeartbeatReply(error=ErrorCode[answer])
    assignment = None
    if "assignment" in answer:
        shares = share(answer["assignment"])
        assignment = tuple(TopicNumbers(topic_id=topic, partitions=numbers) for topic, numbers in shares.items())
    return ConsumerGroupHeartbeatReply(
        error=ErrorCode.NONE,
        member_id=request.member_id,
        member_epoch=answer.get("epoch", request.member_epoch),
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=assignment,
    )


class ClientRunner:
    """A consumer that subscribes to topics, and makes the steps of a case."""

    def __init__(self, case: Case, release: str) -> None:
        for keys, known in ((case, KEYS_OF_CASES), *((step, KEYS_OF_STEPS) for step in case["steps"])):
            assert all(f" {key} " in known for key in keys), f"an unknown key in {keys}"
        self._steps = case["steps"]
        config = {"group_protocol": "consumer", "enable_auto_commit": False, **case.get("config", {})}
        topics = dict(case.get("topics", {"t": 4}))
        subscribed = tuple(case.get("subscribed", "t").split())
        self._harness = ScriptedCoordinator(
            topics, subscribe=subscribed, client=CLIENTS[release], start=False, **config
        )
        self._harness.first = case.get("first", "t 0-1")
        self._started = False

    def run(self) -> None:
        """Make the steps of the case, and compare their outcomes."""
        for number, step in enumerate(self._steps, 1):
            self._step(step, f"step {number}: {step}")

    def _step(self, step: Mapping[str, Any], why: str) -> None:
        harness = self._harness
        harness.forget()
        began_us = harness.now_us
        harness.answer_next(API, *[partial(reply_to, answer) for answer in step.get("answers", ())])
        harness.answer_next("OffsetCommit", *[ErrorCode[error] for error in step.get("commit_errors", ())])
        if "hold" in step:
            harness.hold(APIS[step["hold"]])
        if "no_coordinator" in step:
            harness.answer_next("FindCoordinator", *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * step["no_coordinator"])
        harness.cluster.topics.update(step.get("topics", {}))
        if not self._started:
            harness.step(Told(Start()))
            self._started = True
        if "release" in step:
            harness.release(APIS[step["release"]])
        if step.get("disconnect", False):
            harness.disconnect()
        for command in step.get("do", ()):
            harness.tell(command_of(*command.split()))
        for at in share_of(step.get("append", "")):
            harness.append(at, 1)
        harness.run(step["run_ms"] * _US)
        self._compare(step, began_us, why)

    def _compare(self, step: Mapping[str, Any], began_us: int, why: str) -> None:
        harness = self._harness
        sent = [(at, message) for at, _, message in harness.sent if isinstance(message, ConsumerGroupHeartbeat)]
        states = [fact.new for fact in harness.facts(MemberBecame)]
        if step.get("begins", False):  # the case tells only the beginning
            sent, states = sent[: len(step.get("sent", ()))], states[: len(step.get("states", "").split())]
        if "sent" in step:
            assert len(sent) == len(step["sent"]), f"{why}\n{sent}"
            for (at, request), wanted in zip(sent, step["sent"], strict=True):
                found = told(request, (at - began_us) // _US)
                assert {name: found[name] for name in wanted} == wanted, f"{why}\n{found}"
        if "states" in step:
            assert " ".join(states) == step["states"], f"{why}\n{states}"
        if "state" in step:
            assert harness.story().rpartition("->")[2].startswith(f"{step['state']}:"), f"{why}\n{harness.story()}"
        if "callbacks" in step:
            assert list(callbacks(harness.notes)) == step["callbacks"], f"{why}\n{harness.notes}"
        if "fetched" in step:
            fetches = [message for _, _, message in harness.sent if isinstance(message, Fetch)]
            fetched = sorted({f"{row.topic}-{row.partition}" for fetch in fetches for row in fetch.partitions})
            assert " ".join(fetched) == step["fetched"], f"{why}\n{fetched}"
        if "processed" in step:
            processed = [f"{fact.topic}-{fact.partition}" for fact in harness.facts(Processed)]
            assert " ".join(processed) == step["processed"], f"{why}\n{processed}"
        for name, kind in COUNTED.items():
            if name in step:
                count = sum(isinstance(message, kind) for _, _, message in harness.sent)
                assert count == step[name], f"{why}\n{count} {name}"
        if "fails" in step:
            assert [fact.error.name for fact in harness.facts(MemberFailed)] == [step["fails"]], why


def share_of(text: str) -> Iterable[TopicPartition]:
    """Partitions of a text by the names of their topics."""
    return [(topic.removesuffix("-id"), number) for topic, number in held(text)]


def command_of(name: str, *values: str) -> Any:
    """A command to the application as a case names it: ``subscribe t u``."""
    match name:
        case "subscribe":
            return Subscribe(topics=values)
        case "subscribe-regex":
            return Subscribe(topics=(), regex=values[0])
        case "unsubscribe":
            return Unsubscribe()
        case "busy":  # for so many ms outside poll()
            return StopPolling(for_us=int(values[0]) * _US)
        case "raise":  # in the next call of this callback
            return RaiseInListener(callback=values[0], why="of the case")
        case _:
            assert name == "close", f"unknown command {name}"
            return Close()


def told(request: ConsumerGroupHeartbeat, after_ms: int) -> Mapping[str, Any]:
    """A heartbeat as a case names it; a field that the heartbeat does not tell is "no"."""
    fields = {
        "topics": None if request.topics is None else " ".join(request.topics),
        "regex": request.regex,
        "assignor": request.assignor,
        "rack": request.rack,
        "instance": request.instance_id,
        "owned": None if request.owned is None else numbers(row for row in request.owned),
        "timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
    }
    shown = {name: "no" if value is None else value for name, value in fields.items()}
    return {"after_ms": after_ms, "epoch": request.member_epoch, "id": bool(request.member_id), **shown}


def numbers(owned: Iterable[TopicNumbers]) -> str:
    """Partitions as text: ``t 0 1``."""
    return ", ".join(" ".join([row.topic_id.removesuffix("-id"), *map(str, row.partitions)]) for row in owned)


def callbacks(notes: Iterable[Any]) -> Iterable[str]:
    """The callbacks of the application: ``assigned t-0 t-1``."""
    for fact in notes:
        match fact:
            case PartitionsAssigned():
                yield _callback("assigned", fact.added)
            case PartitionsRevoked():
                yield _callback("revoked", fact.revoked)
            case PartitionsLost():
                yield _callback("lost", fact.lost)
            case ListenerFailed():
                yield f"raised {fact.callback}"


def _callback(name: str, partitions: Iterable[TopicPartition]) -> str:
    return " ".join([name, *(f"{topic}-{number}" for topic, number in partitions)])
