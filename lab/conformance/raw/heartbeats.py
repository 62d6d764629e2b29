"""A group answers recorded sequences of heartbeats as Kafka 4.0.0 did.

The recordings are 150 sequences of 24 ConsumerGroupHeartbeat requests over one connection, good and deliberately wrong,
and one ConsumerGroupDescribe at the end.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kemu.actors.coordinator.consumer_group.heartbeats import (
    ConsumerGroupConfig,
    Heard,
    HeartbeatAnswers,
    HeartbeatRefused,
    check_request,
    removed,
)
from kemu.actors.coordinator.consumer_group.regexes import resolved
from kemu.actors.coordinator.consumer_group.state import ConsumerGroup
from kemu.protocol.consumer_group.assignors import ASSIGNORS_4_0_0
from kemu.protocol.consumer_group.rules import RULES_4_0_1
from kemu.protocol.consumer_group.states import Topic
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat, TopicNumbers

KEPT = Path(__file__).parents[3] / "tests" / "data" / "consumer-groups" / "kafka-4.0.0-raw.jsonl.gz"
_COUNTS = {"t": 4, "u": 2}
_CONFIG = ConsumerGroupConfig()


def read_sequences() -> list[Mapping[str, Any]]:
    """The recorded sequences, from ``KEPT``. Only a checkout or a source distribution has the file."""
    with gzip.open(KEPT, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def differing_heartbeats(sequence: Mapping[str, Any]) -> Iterator[str]:
    """The fields of the answers to a sequence that differ from Kafka's, as "request 3, epoch: 4 instead of 5"."""
    ids, topics = sequence["ids"], sequence["topics"]
    names = {topic_id: name for name, topic_id in topics.items()}
    coordinator = _Coordinator(topics)
    for row in sequence["log"]:
        if "epoch" not in row:
            continue
        kafka = row["answer"]
        coordinator.pass_time(row["t"])
        if kafka["member"] is not None:
            coordinator.new_ids = [ids.get(kafka["member"], kafka["member"])]
        error, reply = coordinator.answer(row["t"], _request_of(row, ids, topics), row["v"])
        found: dict[str, Any]
        wanted: dict[str, Any]
        found, wanted = {"error": error}, {"error": kafka["error"]}
        if reply is not None:
            found |= {"member": reply.member_id, "epoch": reply.member_epoch, "interval": reply.heartbeat_interval_ms}
            found["assignment"] = _sorted((names[each.topic_id], each.partitions) for each in reply.assignment or ())
            found["has an assignment"] = reply.assignment is not None
            member = ids.get(kafka["member"], kafka["member"])
            wanted |= {"member": member, "epoch": kafka["epoch"], "interval": kafka["heartbeat_ms"]}
            wanted["assignment"] = _sorted(kafka["assignment"] or ())
            wanted["has an assignment"] = kafka["assignment"] is not None
        for field, value in found.items():
            if value != wanted[field]:
                yield f"request {row['i']}, {field}: {value} instead of {wanted[field]}"


def _sorted(rows: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    return {topic: sorted(numbers) for topic, numbers in rows}


class _Coordinator:
    """A coordinator of one group, with its timers in ms."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        topics = {name: Topic(name, ids[name], _COUNTS[name]) for name in sorted(ids)}
        self.heartbeats = HeartbeatAnswers(topics, _CONFIG, RULES_4_0_1, ASSIGNORS_4_0_0)
        self.group: ConsumerGroup | None = None
        self.sessions: dict[str, float] = {}
        self.revocations: dict[str, tuple[float, int]] = {}
        self.is_stale = True
        self.new_ids: list[str] = []

    def pass_time(self, until: float) -> None:
        """Fire the timers up to this time, in order."""
        while self.group is not None:
            due = [(at, member) for member, at in self.sessions.items()]
            due += [(at, member) for member, (at, _) in self.revocations.items()]
            if not due or min(due)[0] > until:
                return
            at, member = min(due)
            epoch = self.group.current_of(member).epoch
            if self.revocations.get(member, (0.0, 0)) == (at, epoch) or self.sessions.get(member) == at:
                removed(self.group, self.heartbeats.topics, RULES_4_0_1, member)
                self.sessions.pop(member, None)
            self.revocations.pop(member, None)

    def answer(self, at: float, request: ConsumerGroupHeartbeat, version: int) -> Any:
        """The answer's error, and the answer without an error."""
        try:
            check_request(request, version, _CONFIG)
            if request.member_epoch < 0:
                if self.group is None:
                    raise HeartbeatRefused(ErrorCode.GROUP_ID_NOT_FOUND)
                heard = self.heartbeats.leave(self.group, request)
                if heard.removed is not None:
                    removed(self.group, self.heartbeats.topics, RULES_4_0_1, heard.removed)
            else:
                heard = self._heartbeat(at, request)
        except HeartbeatRefused as refused:
            return refused.error, None
        self._set_timers(at, heard)
        return ErrorCode.NONE, heard.reply

    def _heartbeat(self, at: float, request: ConsumerGroupHeartbeat) -> Heard:
        if self.group is None and request.member_epoch != 0:
            raise HeartbeatRefused(ErrorCode.GROUP_ID_NOT_FOUND)
        group = self.group or ConsumerGroup("g")
        heard = self.heartbeats.heartbeat(
            group,
            request,
            is_stale=self.is_stale,
            has_new_topics=not group.regexes,
            now_ms=int(at),
            new_member_id=lambda: self.new_ids.pop(0),
        )
        self.is_stale = False
        self.group = group
        if heard.resolve:
            resolved(group, heard.resolve, self.heartbeats.topics, RULES_4_0_1, now_ms=int(at), version=0)
        return heard

    def _set_timers(self, at: float, heard: Heard) -> None:
        assert self.group is not None
        name = heard.member_id
        if heard.removed:
            self.sessions.pop(name, None)
            self.revocations.pop(name, None)
        elif heard.reply.member_epoch >= 0:
            self.sessions = {each: when for each, when in self.sessions.items() if each in self.group.members}
            self.sessions[name] = at + _CONFIG.session_timeout_ms
        if heard.revokes:
            self.revocations[name] = at + heard.rebalance_timeout_ms, heard.reply.member_epoch
        elif heard.revokes is False:
            self.revocations.pop(name, None)


def _request_of(row: Mapping[str, Any], ids: Mapping[str, str], topics: Mapping[str, str]) -> ConsumerGroupHeartbeat:
    owned = row["owned"]
    return ConsumerGroupHeartbeat(
        group="g",
        member_id=ids.get(row["member"], row["member"]) or "",
        member_epoch=row["epoch"],
        instance_id=row["instance"],
        rebalance_timeout_ms=-1 if row["rebalance_ms"] is None else row["rebalance_ms"],
        topics=None if row["subscribed"] is None else tuple(row["subscribed"]),
        regex=row["regex"],
        assignor=row["assignor"],
        owned=None
        if owned is None
        else tuple(TopicNumbers(topic_id=topics.get(name, name), partitions=tuple(numbers)) for name, numbers in owned),
    )
