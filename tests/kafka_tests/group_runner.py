"""Runs a case of Kafka's tests of a whole group: a log with the given state, requests, answers, records and timers."""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import pytest

from kemu.actors.coordinator.consumer_group.state import (
    ClassicMetadata,
    ConsumerMember,
    CurrentRecord,
    GroupEpochRecord,
    GroupRecord,
    MemberRecord,
    RegexRecord,
    TargetEpochRecord,
    TargetRecord,
    Topic,
    TopicsRecord,
)
from kemu.actors.coordinator.consumer_group.stored import decoded, encoded
from kemu.actors.coordinator.modern_group import ModernGroup
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import Told
from kemu.protocol.commands import KnowTopics
from kemu.protocol.consumer_group.assignors import ASSIGNORS
from kemu.protocol.consumer_group.reconciling import CurrentAssignment, ReconcilingState
from kemu.protocol.consumer_group.shares import TargetMember, Targets, TopicId
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import JOINS, ConsumerGroupHeartbeat, TopicNumbers
from kemu.protocol.messages.group import JoinProtocol
from kemu.protocol.messages.member import Subscription, encode_subscription
from kemu.protocol.names import MemberId
from tests.actors.coordinator.coordinator_harness import GROUP, Bench
from tests.kafka_tests.cases import KINDS, Case, held, share, topic_id

BEGIN_US = 1_000_000_000
"""Far from zero, as in Kafka's tests."""
CLIENT = "client"
"""The client of all requests, as in Kafka's tests."""
STATES = {
    "STABLE": ReconcilingState.STABLE,
    "UNREVOKED": ReconcilingState.UNREVOKED_PARTITIONS,
    "UNRELEASED": ReconcilingState.UNRELEASED_PARTITIONS,
    "UNKNOWN": ReconcilingState.UNKNOWN,
}
NAMES = {state: name for name, state in STATES.items()}
TIMERS = {
    "session": GroupTimer.SESSION,
    "revocation": GroupTimer.REVOCATION,
    "join": GroupTimer.MEMBER_JOIN,
    "sync": GroupTimer.MEMBER_SYNC,
}
Shown = tuple[Any, ...]


class Prepared:
    """An assignor that gives the targets that a case names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.targets: Targets = {}
        self.seen: Mapping[MemberId, TargetMember] = {}
        for name in ASSIGNORS:
            monkeypatch.setitem(ASSIGNORS, name, self.assign)  # type: ignore[arg-type]

    def assign(
        self, members: Mapping[MemberId, TargetMember], partitions: Mapping[TopicId, int], alike: bool
    ) -> Targets:
        self.seen = members
        return self.targets


class GroupRunner:
    """A coordinator with the given group, which makes the steps of a case."""

    def __init__(self, case: Case, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
        case = resolved(case, release)
        self._steps = case["steps"]
        self.prepared = Prepared(monkeypatch)
        config = {f"group_consumer_{key}": value for key, value in case.get("config", {}).items()}
        self.bench = Bench(lead=False, coordinator_kind=KINDS[release], **config)
        self.bench.now_us = BEGIN_US
        self.topics = {name: Topic(name, topic_id(name), count) for name, count in case.get("topics", {}).items()}
        self._know_topics()
        self.bench.lead(GROUP, records=tuple(encoded(GROUP, record, epochs=True) for record in self._given(case)))
        if not case.get("timers_run", False):  # Kafka's tests replay records without the end of a load
            self.bench.timers.clear()
        self.replies: dict[str, Any] = {}

    def run(self) -> None:
        """Make the steps of the case, and compare their outcomes."""
        for number, step in enumerate(self._steps, 1):
            self._step(step, f"step {number}: {step}")

    # --- the given state ---------------------------------------------------------------------------------------

    def _know_topics(self) -> None:
        rows = tuple((each.name, each.topic_id, each.partitions) for each in self.topics.values())
        self.bench.feed(Told(KnowTopics(topics=rows)))

    def _given(self, case: Case) -> Iterator[GroupRecord]:
        epoch = case.get("epoch", 0)
        if not epoch:
            return
        members = case.get("members", {})
        regexes = case.get("regexes", {})
        names = {topic for each in members.values() for topic in words(each.get("topics", ""))}
        names.update(topic for topics in regexes.values() for topic in words(topics))
        names = set(words(case["stored_topics"])) if "stored_topics" in case else names
        for name, row in members.items():
            yield MemberRecord(name, self._member(name, row))
        for regex, topics in regexes.items():
            yield RegexRecord(regex, tuple(sorted(words(topics))), BEGIN_US // 1_000 - case.get("resolved_ago_ms", 0))
        yield TopicsRecord(tuple(self.topics[name] for name in sorted(names & self.topics.keys())))
        yield GroupEpochRecord(epoch)
        for name, row in members.items():
            yield TargetRecord(name, share(row.get("target", "")))
        yield TargetEpochRecord(case.get("target_epoch", epoch))
        for name, row in members.items():
            if "current" in row:
                yield CurrentRecord(name, current(row["current"]))

    def _member(self, name: str, row: Mapping[str, Any]) -> ConsumerMember:
        classic = None
        if "classic" in row:
            classic = ClassicMetadata(row["classic"].get("session_ms", 5_000), self._protocols(row["classic"]))
        return ConsumerMember(
            name,
            instance_id=row.get("instance"),
            rack=row.get("rack"),
            client_id=CLIENT,
            client_host=f"/{CLIENT}",
            rebalance_timeout_ms=row.get("timeout_ms", -1),
            topics=tuple(sorted(words(row.get("topics", "")))),
            regex=row.get("regex", ""),
            assignor=row.get("assignor", ""),
            classic=classic,
        )

    def _protocols(self, row: Mapping[str, Any]) -> tuple[JoinProtocol, ...]:
        owned = tuple((topic.removesuffix("-id"), number) for topic, number in held(row.get("owned", "")))
        data = encode_subscription(Subscription(tuple(words(row["topics"])), None, owned, row.get("generation", -1)))
        return tuple(JoinProtocol(name=name, metadata=data) for name in words(row.get("protocols", "range")))

    # --- steps -------------------------------------------------------------------------------------------------

    def _step(self, step: Mapping[str, Any], why: str) -> None:
        before = len(self.bench.log())
        if "topics" in step:
            self.topics = {name: Topic(name, topic_id(name), count) for name, count in step["topics"].items()}
            self._know_topics()
        if "prepared" in step:
            self.prepared.targets = {name: share(text) for name, text in step["prepared"].items()}
        if "settings" in step:
            self.bench.coordinator.know_group_settings(GROUP, step["settings"])
        self.bench.append_errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER] if step.get("append_fails") else []
        if "after_ms" in step:
            self.bench.advance(step["after_ms"])
        for kind in ("heartbeat",):
            if kind in step:
                self._heartbeat(step[kind], step.get("answer", {}), why)
        if "records" in step:
            wanted = in_any_order_of_targets([expected_record(text) for text in step["records"]])
            found = in_any_order_of_targets(list(filter(None, map(self._shown, self.bench.log()[before:]))))
            assert len(found) == len(wanted), f"{why}\n{found}"
            for one, other in zip(found, wanted, strict=True):
                assert agrees(one, other), f"{why}\n{one}\n{other}"
        for key, left_ms in step.get("timers", {}).items():
            name, _, member = key.partition(" ")
            found_ms = self.bench.left_ms(TIMERS[name], GROUP, member)
            assert found_ms == (None if left_ms == "none" else left_ms), f"{why}: {key} {found_ms}"
        if "state" in step:
            assert self._group().state.value == step["state"], why
        for name, text in step.get("current", {}).items():
            record = CurrentRecord(name, self._group().current_of(name))
            assert agrees(shown(record), expected_record(f"current {name} {text}")), f"{why}\n{record}"
        for name, topics in step.get("seen", {}).items():
            assert set(self.prepared.seen[name].topics) == {topic_id(topic) for topic in words(topics)}, why
        if "members" in step:
            assert sorted(self._group().members) == sorted(words(step["members"])), why

    def _group(self) -> Any:
        group = self.bench.coordinator.groups[GROUP]
        assert isinstance(group, ModernGroup)
        return group.working

    def _shown(self, record: tuple[bytes, bytes | None]) -> Shown | None:
        found = decoded(*record)
        assert found is not None
        return None if isinstance(found[1], TopicsRecord) else shown(found[1])

    def _heartbeat(self, row: Mapping[str, Any], answer: Any, why: str) -> None:
        epoch = row["epoch"]
        owned = row.get("owned", "" if epoch == JOINS else None)
        request = ConsumerGroupHeartbeat(
            group=row.get("group", GROUP),
            member_id=row["member"],
            member_epoch=epoch,
            instance_id=row.get("instance"),
            rack=row.get("rack"),
            rebalance_timeout_ms=row.get("timeout_ms", 5_000 if epoch == JOINS else -1),
            topics=tuple(words(row["topics"])) if "topics" in row else None,
            regex=row.get("regex"),
            assignor=row.get("assignor"),
            owned=None if owned is None else rows(owned),
        )
        ask = self.bench.ask(CLIENT, request, row.get("version", 1))
        reply = ask.reply
        assert reply is not None, why
        error = answer if isinstance(answer, str) else "NONE"
        assert ErrorCode(reply.error).name == error, f"{why}: {reply}"
        if error != "NONE":
            return
        assert reply.member_id == row["member"] or (not row["member"] and reply.member_id), why
        assert reply.member_epoch == answer.get("epoch", epoch), f"{why}: {reply}"
        if epoch >= JOINS:
            assert reply.heartbeat_interval_ms == answer.get("interval_ms", 5_000), f"{why}: {reply}"
        got = None if reply.assignment is None else {(t.topic_id, n) for t in reply.assignment for n in t.partitions}
        wanted = None if "assignment" not in answer else set(held(answer["assignment"]))
        assert got == wanted, f"{why}: {reply}"


def resolved(value: Any, release: str) -> Any:
    """A part of a case in which ``E1`` is the epoch of a group after its first join: 1, and 2 since 4.3."""
    if isinstance(value, Mapping):
        return {key: resolved(each, release) for key, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, release) for each in value]
    if not isinstance(value, str):
        return value
    if release < "4.3":  # the coordinator keeps no epochs of partitions
        value = re.sub(r"@\d+", "", value)
    text = re.sub(r"\bE(\d)\b", lambda found: str(int(found[1]) + (release >= "4.3")), value)
    return int(text) if text != value and text.isdigit() else text


def words(text: str) -> list[str]:
    return text.split()


def rows(text: str) -> tuple[TopicNumbers, ...]:
    return tuple(TopicNumbers(topic_id=topic, partitions=numbers) for topic, numbers in share(text).items())


def current(text: str) -> CurrentAssignment:
    """``STABLE 10/9 foo 0-2 revoking foo 3``: the state, the epoch and the previous epoch, the partitions."""
    state, epochs, *rest = text.split(maxsplit=2)
    epoch, previous = map(int, epochs.split("/"))
    assigned, _, revoking = "".join(rest).partition("revoking")
    filled = [
        {at: epoch if since is None else since for at, since in held(part).items()} for part in (assigned, revoking)
    ]
    return CurrentAssignment(STATES[state], epoch, previous, *filled)


# --- records as they are compared ----------------------------------------------------------------------------------


def shown(record: GroupRecord) -> Shown:
    """A record as text and values."""
    match record:
        case GroupEpochRecord(epoch=epoch):
            return "epoch", epoch or "removed"
        case TargetEpochRecord(epoch=epoch):
            return "target epoch", epoch or "removed"
        case MemberRecord(member_id=name, member=None) | TargetRecord(member_id=name, share=None):
            return "member" if isinstance(record, MemberRecord) else "target", name, "removed"
        case CurrentRecord(member_id=name, current=None):
            return "current", name, "removed"
        case RegexRecord(regex=regex, topics=topics):
            return "regex", regex, "removed" if topics is None else set(topics)
        case MemberRecord(member_id=name, member=member):
            assert member is not None
            return (
                "member",
                name,
                set(member.topics),
                {
                    "instance": member.instance_id or "",
                    "regex": member.regex,
                    "assignor": member.assignor,
                    "rack": member.rack or "",
                    "timeout": str(member.rebalance_timeout_ms),
                    "classic": "" if member.classic is None else "yes",
                },
            )
        case TargetRecord(member_id=name, share=share):
            assert share is not None
            return "target", name, {(topic, n) for topic, numbers in share.items() for n in numbers}
        case CurrentRecord(member_id=name, current=now):
            assert now is not None
            return "current", name, NAMES[now.state], (now.epoch, now.previous_epoch), now.assigned, now.revoking
    raise AssertionError(record)


def expected_record(text: str) -> Shown:
    """A record as a case names it."""
    kind, _, rest = text.partition(" ")
    if text.startswith("target epoch") or kind == "epoch":
        value = text.split()[-1]
        return text.rpartition(" ")[0], value if value == "removed" else int(value)
    name, _, rest = rest.partition(" ")
    if rest == "removed":
        return kind, name, rest
    match kind:
        case "member":
            topics = {each for each in rest.split() if "=" not in each}
            return kind, name, topics, dict(each.split("=", 1) for each in rest.split() if "=" in each)
        case "target":
            return kind, name, set(held(rest))
        case "regex":
            return kind, name, set(rest.removeprefix("=").split())
        case "current":
            now = current(rest)
            assigned, _, revoking = (
                rest.split(maxsplit=2)[2:][0].partition("revoking") if len(rest.split()) > 2 else ("",) * 3
            )
            return kind, name, NAMES[now.state], (now.epoch, now.previous_epoch), held(assigned), held(revoking)
    raise AssertionError(text)


def agrees(found: Shown, wanted: Shown) -> bool:
    """Whether a record is the expected one, in what the case tells about it."""
    return len(found) == len(wanted) and all(map(_agrees, found, wanted))


def _agrees(found: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return bool(found == wanted)
    if not isinstance(found, Mapping):
        return False
    if any(isinstance(key, tuple) for key in (*found, *wanted)):
        return found.keys() == wanted.keys() and all(since in (None, found[at]) for at, since in wanted.items())
    return all(found.get(key) == value for key, value in wanted.items())


def _member_of(record: Shown) -> str:
    return str(record[1])


def in_any_order_of_targets(records: list[Shown]) -> list[Shown]:
    """The records; targets that follow each other, whose order is that of a hash map, are sorted by member."""
    found: list[Shown] = []
    for is_target, batch in groupby(records, lambda record: record[0] == "target"):
        some = list(batch)
        found += sorted(some, key=_member_of) if is_target else some
    return found
