"""Runs a case of Kafka's tests of a whole group: a log with the given state, requests, answers, records and timers."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kemu.actors.coordinator.consumer_group.heartbeats import alike, preferred, votes_of
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
    TopicsRecord,
)
from kemu.actors.coordinator.consumer_group.stored import encoded
from kemu.actors.coordinator.consumer_group.subscribed import topics_hash
from kemu.actors.coordinator.modern_group import ModernGroup
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import Record, Told
from kemu.protocol.commands import KnowTopics, Start
from kemu.protocol.consumer_group.assignors import ASSIGNORS
from kemu.protocol.consumer_group.shares import TargetMember, Targets
from kemu.protocol.consumer_group.states import Topic, TopicId
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import (
    JOINS,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    TopicNumbers,
)
from kemu.protocol.messages.group import (
    DeleteGroups,
    Heartbeat,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    SyncGroup,
    TopicPartitions,
)
from kemu.protocol.messages.member import (
    HIGHEST_VERSION,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from kemu.protocol.messages.offsets_log import KnownTopic
from kemu.protocol.messages.records import GroupMetadata, StoredMember, StoredOffset, group_record, offset_record
from kemu.protocol.names import MemberId
from tests.actors.coordinator.coordinator_harness import GROUP, Ask, Bench
from tests.kafka_tests.cases import KINDS, Case, held, share, topic_id
from tests.kafka_tests.classic import compare_classic, compare_fields, described, listed, shown_answer, wanted_answer
from tests.kafka_tests.shown import agrees, current, expected, in_any_order, recorded, shown, written

BEGIN_US = 1_000_000_000
"""Far from zero, as in Kafka's tests."""
CLIENT = "client"
"""The client of all requests, as in Kafka's tests."""
TIMERS = {
    "session": GroupTimer.SESSION,
    "revocation": GroupTimer.REVOCATION,
    "join": GroupTimer.MEMBER_JOIN,
    "sync": GroupTimer.MEMBER_SYNC,
    "phase": GroupTimer.JOIN,
    "regex": GroupTimer.REGEX,
}
KEYS_OF_CASES = (
    " method name since until config topics stored_topics old_topics epoch target_epoch members regexes classic loaded "
    "version versions offsets offset_records offsets_ago_ms append_ms target_ago_ms steps begins log old_records "
)
KEYS_OF_STEPS = (
    " topics prepared settings append_fails after_ms heartbeat join sync classic_heartbeat leave delete answer text as "
    "ask answered records first_records timers kind state current members held seen "
    "commit fetch delete_offsets users consumes alike assignor supports classic_without stale describe "
    "hold_appends release_appends generation size pending leader fields targets regexes known_topics target_at_ms "
    "describe_classic list group resign racks "
)
KEYS_OF_GROUPS = (
    " state current members held generation size pending leader fields targets regexes users consumes alike assignor "
    "supports classic_without stale known_topics target_at_ms "
)
"""What a step tells about the group."""
_PENDING = "pending"


class Prepared:
    """An assignor that gives the targets that a case names, otherwise the former targets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: Mapping[str, MemberId]) -> None:
        self.targets: Targets | None = None
        self.seen: Mapping[MemberId, TargetMember] = {}
        self._names = names
        for name in ASSIGNORS:
            monkeypatch.setitem(ASSIGNORS, name, self.assign)

    def assign(self, members: Mapping[MemberId, TargetMember], _: Mapping[TopicId, int], alike: bool) -> Targets:
        """The targets, whatever the members subscribe to."""
        self.seen = members
        if self.targets is None:
            return {name: member.target for name, member in members.items()}
        return {self._names.get(name, name): target for name, target in self.targets.items()}


class GroupRunner:
    """A coordinator with the given group, which makes the steps of a case."""

    def __init__(self, case: Case, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
        case = resolved(case, release)
        for keys, known in ((case, KEYS_OF_CASES), *((step, KEYS_OF_STEPS) for step in case["steps"])):
            assert all(f" {key} " in known for key in keys), f"an unknown key in {keys}"
        self._steps = case["steps"]
        self._version = case.get("version")
        """The version of OffsetCommit, or (up to 3) of the subscriptions of classic members."""
        self._names: dict[str, MemberId] = {}
        """The name of a member in the case -> the id that the coordinator gave."""
        self._asked: dict[str, Ask] = {}
        """The joins and syncs whose answers a later step compares."""
        self._unnamed: dict[str, str] = {}
        """A join that waits -> the name of the member in its answer."""
        self._prepared = Prepared(monkeypatch, self._names)
        self._topics: dict[str, Topic] = {}
        config = {"group_min_session_timeout_ms": 0, **case.get("config", {})}  # another class of Kafka checks the time
        self.bench = Bench(lead=False, started=False, coordinator_kind=KINDS[release], **config)
        self.bench.now_us = BEGIN_US
        self.bench.feed(Told(Start()))
        self._know_topics(case.get("topics", {}))
        given = [*self._given(case), *map(recorded, case.get("log", ()))]
        records = [encoded(GROUP, record, epochs="old_records" not in case) for record in given]
        records += self._given_offsets(case)
        if "classic" in case:
            records.append(group_record(_classic_group(case["classic"], self._version)))
        self.bench.lead(GROUP, records=tuple(records))
        self.bench.append_us = case.get("append_ms", 0) * 1_000
        if not case.get("loaded", "classic" in case):  # Kafka's tests replay records without the end of a load
            self.bench.timers.clear()

    def run(self) -> None:
        """Make the steps of the case, and compare their outcomes."""
        for number, step in enumerate(self._steps, 1):
            before = len(self.bench.log())
            self._act(step, f"step {number}: {step}")
            self._compare(step, before, f"step {number}: {step}")

    # --- the given state ---------------------------------------------------------------------------------------

    def _know_topics(self, counts: Mapping[str, int]) -> None:
        self._topics = {name: Topic(name, topic_id(name), count) for name, count in counts.items()}
        told = tuple((each.name, each.topic_id, each.partitions) for each in self._topics.values())
        self.bench.feed(Told(KnowTopics(topics=told)))

    def _given(self, case: Case) -> Iterator[GroupRecord]:
        epoch, members, regexes = case.get("epoch", 0), case.get("members", {}), case.get("regexes", {})
        if not epoch:
            return
        names = {topic for row in members.values() for topic in row.get("topics", "").split()}
        names.update(topic for topics in regexes.values() for topic in topics.split())
        stored = set(case["stored_topics"].split()) if "stored_topics" in case else names
        for name, row in members.items():
            yield MemberRecord(name, _member(name, row, self._version))
        for regex, topics in regexes.items():
            yield RegexRecord(regex, tuple(sorted(topics.split())), BEGIN_US // 1_000)
        topics = tuple([self._topics[name] for name in sorted(stored & self._topics.keys())])
        if self.bench.coordinator.rules.consumer_groups.hashes_topics and not case.get("old_topics", False):
            yield GroupEpochRecord(epoch, topics_hash(topics))
        else:
            yield TopicsRecord(topics)
            yield GroupEpochRecord(epoch)
        for name, row in members.items():
            if "target" in row:
                yield TargetRecord(name, share(row["target"]))
        at_ms = BEGIN_US // 1_000 - case["target_ago_ms"] if "target_ago_ms" in case else 0
        yield TargetEpochRecord(case.get("target_epoch", epoch), at_ms)
        for key in ("before", "current", "then"):  # former records, which the log may still have, come first
            for name, row in members.items():
                if key in row:
                    yield CurrentRecord(name, current(row[key]))

    def _given_offsets(self, case: Case) -> Iterator[Record]:
        at_ms = BEGIN_US // 1_000 - case.get("offsets_ago_ms", 0)
        offsets = case.get("offsets", {})
        for text in [*(f"offset {name} {offset}" for name, offset in offsets.items()), *case.get("offset_records", ())]:
            _, name, offset, fields = expected(text)
            topic, _, number = name.rpartition("-")
            expires = at_ms + int(fields["expires"]) if "expires" in fields else None
            epoch, topic_id = int(fields.get("epoch", -1)), fields.get("id", "")
            value = StoredOffset(offset, epoch, fields["metadata"], at_ms, expires, topic_id)
            yield offset_record(GROUP, topic, int(number), value)

    # --- steps -------------------------------------------------------------------------------------------------

    def _act(self, step: Mapping[str, Any], why: str) -> None:
        self.bench.append_errors = [ErrorCode[step["append_fails"]]] if "append_fails" in step else []
        if "topics" in step:
            self._know_topics(step["topics"])
        if "racks" in step:
            racks = (tuple(step["racks"].split()),)
            known = [
                KnownTopic(name=each.name, topic_id=each.topic_id, partitions=each.partitions, racks=racks)
                for each in self._topics.values()
            ]
            self.bench.coordinator.know_topics(tuple(known))
        if "prepared" in step:
            self._prepared.targets = {name: share(text) for name, text in step["prepared"].items()}
        if "settings" in step:
            self.bench.coordinator.know_group_settings(GROUP, step["settings"])
        self.bench.hold_appends = step.get("hold_appends", False)
        if step.get("release_appends", False):
            self.bench.release()
        if "after_ms" in step:
            self.bench.advance(step["after_ms"])
        if "resign" in step:
            self.bench.resign()
        answer = step.get("answer", {})
        if "heartbeat" in step:
            reply = self._heartbeat(step["heartbeat"], answer, why)
            if "text" in step:
                assert reply.error_message == step["text"], f"{why}: {reply}"
        if "join" in step:
            self._ask(step, self._join(step["join"]), why)
        if "sync" in step:
            self._ask(step, self._sync(step["sync"]), why)
        if "classic_heartbeat" in step:
            row = step["classic_heartbeat"]
            for member in row["member"].split():
                request = Heartbeat(
                    group=GROUP,
                    member_id=self._id(member),
                    generation=row["generation"],
                    instance_id=row.get("instance"),
                )
                assert _error(self.bench.ask(CLIENT, request)) == answer, f"{why}: {member}"
        if "describe" in step:
            self._describe(answer, why)
        if "commit" in step:
            self._commit(step["commit"], answer, why)
        if "fetch" in step:
            self._fetch(step["fetch"], answer, why)
        if "delete_offsets" in step:
            reply = self.bench.ask(CLIENT, OffsetDelete(group=GROUP, topics=_by_topic(step["delete_offsets"]))).reply
            assert [ErrorCode(each.error).name for each in reply.outcomes] == answer, f"{why}: {reply}"
        if "delete" in step:
            (outcome,) = self.bench.ask(CLIENT, DeleteGroups(groups=(GROUP,))).reply.outcomes
            assert ErrorCode(outcome.error).name == answer, why
        if "leave" in step:
            self._leave(step, answer, why)
        if "describe_classic" in step:
            described(self.bench, step["describe_classic"], answer, why)
        if "list" in step:
            assert listed(self.bench, step["list"]) == answer, why

    def _id(self, name: str) -> MemberId:
        return self._names.get(name, name)

    def _name(self, member_id: MemberId) -> str:
        return next((name for name, known in self._names.items() if known == member_id), member_id)

    def _heartbeat(self, row: Mapping[str, Any], answer: Any, why: str) -> ConsumerGroupHeartbeatReply:
        epoch = row["epoch"]
        owned = row.get("owned", "" if epoch == JOINS else None)
        if "group" in row:
            self.bench.lead(row["group"])
        request = ConsumerGroupHeartbeat(
            group=row.get("group", GROUP),
            member_id=self._id(row["member"]),
            member_epoch=epoch,
            instance_id=row.get("instance"),
            rack=row.get("rack"),
            rebalance_timeout_ms=row.get("timeout_ms", 5_000 if epoch == JOINS else -1),
            topics=tuple(row["topics"].split()) if "topics" in row else None,
            regex=row.get("regex"),
            assignor=row.get("assignor"),
            owned=None if owned in (None, "none") else rows(owned),
        )
        ask = self.bench.ask(CLIENT, request, row.get("version", 1))
        reply: ConsumerGroupHeartbeatReply = ask.reply
        error = answer if isinstance(answer, str) else "NONE"
        assert _error(ask) == error, f"{why}: {reply}"
        if error != "NONE":
            return reply
        assert reply.member_id == request.member_id or (not request.member_id and reply.member_id), why
        assert reply.member_epoch == answer.get("epoch", epoch), f"{why}: {reply}"
        if epoch >= JOINS:
            assert reply.heartbeat_interval_ms == answer.get("interval_ms", 5_000), f"{why}: {reply}"
        got = None if reply.assignment is None else {(t.topic_id, n) for t in reply.assignment for n in t.partitions}
        wanted = None if "assignment" not in answer else set(held(answer["assignment"]))
        assert got == wanted, f"{why}: {reply}"
        return reply

    def _describe(self, answer: Any, why: str) -> None:
        (row,) = self.bench.ask(CLIENT, ConsumerGroupDescribe(groups=(GROUP,)), 1).reply.groups
        if isinstance(answer, str):
            assert ErrorCode(row.error).name == answer, f"{why}: {row}"
            return
        told = {name: value for name, value in answer.items() if name != "members"}
        assert {name: getattr(row, name) for name in told} == told, f"{why}: {row}"
        members = answer.get("members", "")
        names = members.split() if isinstance(members, str) else list(members)
        assert [each.member_id for each in row.members] == names, f"{why}: {row}"
        if not isinstance(members, str):
            for each in row.members:
                compare_fields(each, members[each.member_id], f"{why}: {each}")

    def _commit(self, row: Mapping[str, Any], answer: Any, why: str) -> None:
        partitions = _named(row["partitions"])
        # Kafka's broker refuses unknown partitions before the class under test sees the request.
        self._know_topics(
            {name: 9 for name, _ in partitions} | {each.name: each.partitions for each in self._topics.values()}
        )
        metadata = row.get("metadata", [""] * len(partitions))
        version = row.get("version", self._version or 9)
        offsets = tuple(
            OffsetToCommit(
                topic=topic,
                topic_id=topic_id(topic),
                partition=number,
                offset=row.get("offset", 1),
                leader_epoch=row.get("leader_epoch", -1),
                metadata=text,
            )
            for (topic, number), text in zip(partitions, metadata, strict=True)
        )
        request = OffsetCommit(
            group=GROUP,
            member_id=self._id(row.get("member", "")),
            generation=row.get("epoch", -1),
            instance_id=row.get("instance"),
            retention_time_ms=row.get("retention_ms", -1),
            offsets=offsets,
        )
        ask = self.bench.ask(CLIENT, request, version)
        if answer == _PENDING:
            assert ask.reply is None, why
        else:
            assert [ErrorCode(each.error).name for each in ask.reply.outcomes] == answer, f"{why}: {ask.reply}"

    def _fetch(self, row: Mapping[str, Any], answer: Any, why: str) -> None:
        """Compare the offsets that OffsetFetch gives, and their leader epochs if the case tells them."""
        topics = _by_topic(row["partitions"]) if "partitions" in row else None
        epoch = row.get("epoch", -1)
        request = OffsetFetch(group=GROUP, member_id=row.get("member"), member_epoch=epoch, topics=topics)
        ask = self.bench.ask(CLIENT, request, row.get("version", 9))
        if isinstance(answer, str):
            assert _error(ask) == answer, f"{why}: {ask.reply}"
            return
        found = {
            f"{each.topic or each.topic_id.removesuffix('-id')}-{each.partition}": [each.offset, each.leader_epoch]
            for each in ask.reply.offsets
        }
        wanted = {
            name: value if isinstance(value, list) else [value, *found.get(name, [])[1:]]
            for name, value in answer.items()
        }
        assert (_error(ask), found) == ("NONE", wanted), f"{why}: {ask.reply}"

    def _leave(self, step: Mapping[str, Any], answer: Any, why: str) -> None:
        asked = [(self._id(each.get("member", "")), each.get("instance")) for each in step["leave"]]
        leaving = tuple(LeavingMember(member_id=member, instance_id=instance) for member, instance in asked)
        if "group" in step:
            self.bench.lead(step["group"])
        ask = self.bench.ask(CLIENT, LeaveGroup(group=step.get("group", GROUP), members=leaving))
        assert _error(ask) == "NONE", why
        assert [(each.member_id, each.instance_id) for each in ask.reply.members] == asked, f"{why}: {ask.reply}"
        assert [ErrorCode(each.error).name for each in ask.reply.members] == answer, f"{why}: {ask.reply}"

    def _join(self, row: Mapping[str, Any]) -> Ask:
        return self.bench.join(
            CLIENT,
            self._id(row["member"]),
            given=protocols(row, self._version),
            instance=row.get("instance"),
            session_ms=row.get("session_ms", 5_000),
            rebalance_ms=row.get("timeout_ms", 10_000),
            protocol_type=row.get("type", "consumer"),
            version=row.get("version", 9),
        )

    def _sync(self, row: Mapping[str, Any]) -> Ask:
        request = SyncGroup(
            group=GROUP,
            generation=row["generation"],
            member_id=self._id(row["member"]),
            instance_id=row.get("instance"),
            protocol_type=row.get("type"),
            protocol_name=row.get("protocol"),
            assignments=tuple(
                MemberAssignment(member_id=self._id(name), assignment=encode_assignment(Assignment(_named(share))))
                for name, share in row.get("assign", {}).items()
            ),
        )
        return self.bench.ask(CLIENT, request, row.get("version", 5 if {"type", "protocol"} & row.keys() else 4))

    def _ask(self, step: Mapping[str, Any], ask: Ask, why: str) -> None:
        name = step.get("ask", step.get("as"))
        if name is not None:
            self._asked[name] = ask
        if "as" in step:
            self._unnamed[name] = step["as"]
        self._know_names(why)
        if step.get("answer") == _PENDING:
            assert ask.reply is None, f"{why}: {ask.reply}"
        else:
            self._check_answer(ask, step["answer"], why)

    def _know_names(self, why: str) -> None:
        """Give the ids in new answers their names in the case."""
        for name in [each for each in self._unnamed if self._asked[each].reply is not None]:
            member, member_id = self._unnamed.pop(name), self._asked[name].reply.member_id
            assert member_id not in self._names.values(), f"{why}: the id of {member} is not new"
            if member_id:
                self._names[member] = member_id

    def _check_answer(self, ask: Ask, answer: Any, why: str) -> None:
        """Compare the answer of a join or a sync: its error, or the error and some of its fields."""
        reply = ask.reply
        assert reply is not None, why
        told = {"error": answer} if isinstance(answer, str) else {"error": "NONE", **answer}
        assert told.pop("error") == _error(ask), f"{why}: {reply}"
        for key, wanted in told.items():
            assert shown_answer(key, reply, self._name) == wanted_answer(key, wanted), f"{why}: {key}: {reply}"

    # --- outcomes ----------------------------------------------------------------------------------------------

    def _compare(self, step: Mapping[str, Any], before: int, why: str) -> None:
        self._know_names(why)
        for name, answer in step.get("answered", {}).items():
            if answer == _PENDING:
                assert self._asked[name].reply is None, f"{why}: {name}"
            else:
                self._check_answer(self._asked[name], answer, why)
        if "first_records" in step:
            wanted = list(map(expected, step["first_records"]))
            log = [written(record, self._name) for record in self.bench.log()[before:]]
            found = [record for record in log if record is not None][: len(wanted)]
            assert list(map(agrees, found, wanted)) == [True] * len(wanted), f"{why}\n{found}"
        if "records" in step:
            wanted = in_any_order(map(expected, step["records"]))
            log = [written(record, self._name) for record in self.bench.log()[before:]]
            found = in_any_order([record for record in log if record is not None])
            assert len(found) == len(wanted), f"{why}\n{found}"
            for one, other in zip(found, wanted, strict=True):
                assert agrees(one, other), f"{why}\n{one}\n{other}"
        for key, left_ms in step.get("timers", {}).items():
            kind, *member = key.split()
            found_ms = self.bench.left_ms(TIMERS[kind], GROUP, *map(self._id, member))
            assert found_ms == (None if left_ms == "none" else left_ms), f"{why}: {key} {found_ms}"
        group = self.bench.coordinator.groups.get(GROUP)
        if "kind" in step:
            kind = "none" if group is None else "consumer" if isinstance(group, ModernGroup) else "classic"
            assert kind == step["kind"], f"{why}: {kind}"
        assert group is not None or not any(f" {key} " in KEYS_OF_GROUPS for key in step), why
        if "state" in step:
            assert group is not None and group.state.value == step["state"], f"{why}: {group and group.state}"
        if isinstance(group, ModernGroup):
            for name, text in step.get("current", {}).items():
                record = CurrentRecord(self._id(name), group.working.current_of(self._id(name)))
                assert agrees(shown(record, self._name), expected(f"current {name} {text}")), f"{why}\n{record}"
            for text, is_held in step.get("held", {}).items():
                assert all(group.working.is_free(at) is not is_held for at in held(text)), f"{why}: {text}"
            self._compare_queries(step, group, why)
            if "members" in step:
                assert sorted(map(self._name, group.working.members)) == step["members"].split(), why
        elif group is not None:
            compare_classic(step, group, self._name, why)
        for name, topics in step.get("seen", {}).items():
            assert set(self._prepared.seen[self._id(name)].topics) == set(map(topic_id, topics.split())), why

    def _compare_queries(self, step: Mapping[str, Any], group: ModernGroup, why: str) -> None:
        working = group.working
        assert step.get("users", working.regex_users) == working.regex_users, why
        for name, text in step.get("targets", {}).items():
            assert {(t, n) for t, numbers in working.target_of(self._id(name)).items() for n in numbers} == set(
                held(text)
            ), f"{why}: {working.targets}"
        if "regexes" in step:
            found = {regex: " ".join(record.topics or ()) for regex, record in working.regexes.items()}
            assert found == step["regexes"], f"{why}: {found}"
        if "known_topics" in step:
            assert [each.name for each in working.topics] == step["known_topics"].split(), f"{why}: {working.topics}"
        assert working.target_at_ms == step.get("target_at_ms", working.target_at_ms), f"{why}: {working.target_at_ms}"
        for name, fields in step.get("fields", {}).items():
            compare_fields(working.members[self._id(name)], fields, f"{why}: {working.members}")
        for topic, wanted in step.get("consumes", {}).items():
            assert group.consumes(topic) is wanted, f"{why}: {topic}"
        if "stale" in step:
            assert group.must_compare_topics is step["stale"], why
        if "alike" in step:
            assert alike(working) is step["alike"], why
        if "assignor" in step:
            assert preferred(votes_of(working), "", "", ("uniform", "range")) == step["assignor"], why
        for names, wanted in step.get("supports", {}).items():
            assert working.supports_classic("consumer", names.split()) is wanted, f"{why}: {names}"
        for names, wanted in step.get("classic_without", {}).items():
            assert working.is_classic_without(names.split()) is wanted, f"{why}: {names}"


def _by_topic(text: str) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic=topic.removesuffix("-id"), topic_id=topic, partitions=numbers)
        for topic, numbers in share(text).items()
    )


def _error(ask: Ask) -> str:
    return "unanswered" if ask.reply is None else ErrorCode(ask.reply.error).name


def _member(name: MemberId, row: Mapping[str, Any], version: int | None) -> ConsumerMember:
    classic = row.get("classic")
    return ConsumerMember(
        name,
        instance_id=row.get("instance"),
        rack=row.get("rack"),
        client_id=CLIENT,
        client_host=f"/{CLIENT}",
        rebalance_timeout_ms=row.get("timeout_ms", -1),
        topics=tuple(sorted(row.get("topics", "").split())),
        regex=row.get("regex", ""),
        assignor=row.get("assignor", ""),
        classic=None
        if classic is None
        else ClassicMetadata(classic.get("session_ms", 5_000), protocols(classic, version)),
    )


def _classic_group(row: Mapping[str, Any], version: int | None) -> GroupMetadata:
    members = tuple(
        StoredMember(
            member_id=name,
            instance_id=each.get("instance"),
            client_id=CLIENT,
            client_host=f"/{CLIENT}",
            rebalance_timeout_ms=each.get("timeout_ms", 10_000),
            session_timeout_ms=each.get("session_ms", 5_000),
            subscription=protocols(each, version)[0].metadata,
            assignment=encode_assignment(
                Assignment(
                    _named(each.get("assigned", "")), each["user_data"].encode() if "user_data" in each else None
                )
            ),
        )
        for name, each in row.get("members", {}).items()
    )
    leader = row.get("leader")
    return GroupMetadata(
        GROUP, row.get("type", ""), row["generation"], row.get("protocol"), leader, BEGIN_US // 1_000, members
    )


def protocols(row: Mapping[str, Any], version: int | None) -> tuple[JoinProtocol, ...]:
    """The assignors of a classic member, each with its subscription."""
    subscription = Subscription(tuple(row.get("topics", "").split()), None, _named(row.get("owned", "")))
    known = version if version is not None and version <= HIGHEST_VERSION else HIGHEST_VERSION
    data = encode_subscription(subscription, known)
    return tuple(JoinProtocol(name=name, metadata=data) for name in row.get("protocols", "range").split())


def _named(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((topic.removesuffix("-id"), number) for topic, number in held(text))


def rows(text: str) -> tuple[TopicNumbers, ...]:
    """Partitions by topic id, as in a request."""
    return tuple(TopicNumbers(topic_id=topic, partitions=numbers) for topic, numbers in share(text).items())


def resolved(value: Any, release: str) -> Any:
    """A part of a case in which ``E1`` is the epoch of a group after its first join: 1, and 2 since 4.3.

    A value with the key ``since 4.3`` has its value for these releases, and else its other value.
    """
    if isinstance(value, Mapping):
        if value.keys() == {"before 4.3", "since 4.3"}:
            return resolved(value["since 4.3" if release >= "4.3" else "before 4.3"], release)
        return {key: resolved(each, release) for key, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, release) for each in value]
    if not isinstance(value, str):
        return value
    text = value if release >= "4.3" else re.sub(r"@\d+", "", value)  # before, nothing keeps epochs of partitions
    text = re.sub(r"\bE(\d)\b", lambda found: str(int(found[1]) + (release >= "4.3")), text)
    return int(text) if text != value and text.isdigit() else text
