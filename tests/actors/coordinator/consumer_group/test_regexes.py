"""The regular expressions of a group: when they are resolved, what the outcome changes, and what differs by release."""

from typing import Any

import pytest
from attrs import evolve

from kemu.actors.coordinator.consumer_group.heartbeats import (
    ConsumerGroupConfig,
    Heard,
    HeartbeatAnswers,
    HeartbeatRefused,
    removed,
)
from kemu.actors.coordinator.consumer_group.regexes import LEAST_INTERVAL_MS, resolved
from kemu.actors.coordinator.consumer_group.state import ConsumerGroup, GroupEpochRecord, RegexRecord
from kemu.protocol.consumer_group.rules import RULES_4_0, RULES_4_0_1, RULES_4_1, RULES_4_3, ConsumerGroupRules
from kemu.protocol.consumer_group.states import Topic
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat

TOPICS = {"t": Topic("t", "T", 4), "u": Topic("u", "U", 2)}
NEW = {**TOPICS, "t2": Topic("t2", "T2", 3)}


class Desk:
    """A coordinator of one group, which resolves expressions when ``resolve`` is called."""

    def __init__(self, rules: ConsumerGroupRules = RULES_4_1) -> None:
        self.answers = HeartbeatAnswers(TOPICS, ConsumerGroupConfig(assignment_interval_ms=0), rules)
        self.group = ConsumerGroup("g")
        self.now_ms = 1_000_000
        self.has_new_topics = False

    def join(self, name: str, regex: str | None = "t.*", **more: Any) -> Heard:
        return self.beat(name, 0, topics=(), regex=regex, rebalance_timeout_ms=300_000, owned=(), **more)

    def beat(self, name: str, epoch: int | None = None, **more: Any) -> Heard:
        epoch = self.group.current_of(name).epoch if epoch is None else epoch
        request = ConsumerGroupHeartbeat(group="g", member_id=name, member_epoch=epoch, **more)
        return self.answers.heartbeat(
            self.group, request, is_stale=False, has_new_topics=self.has_new_topics, now_ms=self.now_ms
        )

    def resolve(self, heard: Heard) -> tuple[object, ...]:
        assert heard.resolve
        return resolved(
            self.group, heard.resolve, self.answers.topics, self.answers.rules, now_ms=self.now_ms, version=0
        )[0]

    def join_resolved(self, name: str, regex: str = "t.*") -> None:
        self.resolve(self.join(name, regex))
        self.now_ms += LEAST_INTERVAL_MS + 1

    def topics_of(self, name: str) -> set[str]:
        return {topic for topic, _ in self.group.current_of(name).assigned}


def test_a_member_gets_its_first_partitions_at_the_heartbeat_after_the_resolution() -> None:
    """The join raises the epoch of a new group only; the outcome raises it again, and computes no target."""
    desk = Desk()
    joined = desk.join("m1")
    assert (joined.reply.member_epoch, joined.reply.assignment) == (1, ())
    assert joined.resolve == ("t.*",)

    desk.resolve(joined)

    assert (desk.group.epoch, desk.group.target_epoch) == (2, 1)
    assert desk.group.regexes == {"t.*": RegexRecord("t.*", ("t",), desk.now_ms)}
    second = desk.beat("m1")
    assert second.resolve == ()
    assert second.reply.member_epoch == desk.group.target_epoch == 2
    assert desk.topics_of("m1") == {"T"}


def test_the_subscription_is_the_union_of_names_and_the_expression() -> None:
    desk = Desk()
    desk.resolve(desk.beat("m1", 0, topics=("u",), regex="t", rebalance_timeout_ms=1, owned=()))

    desk.beat("m1")

    assert desk.topics_of("m1") == {"T", "U"}


def test_the_outcome_of_a_member_with_a_known_expression_needs_no_resolution() -> None:
    """The epoch rises in its own join. Source: REGEX_UPDATED_AND_RESOLVED."""
    desk = Desk()
    desk.join_resolved("m1")
    before = desk.group.epoch

    second = desk.join("m2")

    assert second.resolve == ()
    assert desk.group.epoch == desk.group.target_epoch == before + 1


def test_an_expression_that_matches_no_topic_raises_no_epoch() -> None:
    desk = Desk()

    records = desk.resolve(desk.join("m1", "none"))

    assert records == (RegexRecord("none", (), desk.now_ms),)
    assert desk.beat("m1").resolve == ()


def test_10_seconds_separate_two_resolutions_of_a_group() -> None:
    """REGEX_BATCH_REFRESH_MIN_INTERVAL_MS: also a new expression waits, until a heartbeat after that time."""
    desk = Desk()
    desk.resolve(desk.join("m1"))

    assert desk.join("m2", "u").resolve == ()
    desk.now_ms += LEAST_INTERVAL_MS
    assert desk.beat("m2").resolve == ()
    desk.now_ms += 1
    assert desk.beat("m1").resolve == ("t.*", "u")


def test_all_expressions_of_a_group_raise_the_epoch_once() -> None:
    desk = Desk()
    desk.join("m1", "t")
    records = desk.resolve(desk.join("m2", "u"))

    assert [type(record) for record in records].count(GroupEpochRecord) == 1
    assert set(desk.group.regexes) == {"t", "u"}


def test_created_topics_are_a_reason_to_resolve_and_deleted_topics_are_not() -> None:
    """GroupMetadataManager.onNewMetadataImage: the names of deleted topics remain until the next resolution."""
    desk = Desk()
    desk.join_resolved("m1")
    before = desk.group.epoch

    desk.answers = evolve(desk.answers, topics={"u": TOPICS["u"]})
    assert desk.beat("m1").resolve == ()
    desk.answers, desk.has_new_topics = evolve(desk.answers, topics=NEW), True
    heard = desk.beat("m1")
    assert desk.group.regexes["t.*"].topics == ("t",)
    desk.resolve(heard)

    assert desk.group.regexes["t.*"].topics == ("t", "t2")
    assert desk.group.epoch > before


@pytest.mark.parametrize(("rules", "refreshes"), [(RULES_4_0, False), (RULES_4_1, True), (RULES_4_3, True)])
def test_since_4_1_the_outcome_is_stale_after_10_minutes(rules: ConsumerGroupRules, refreshes: bool) -> None:
    """group.consumer.regex.refresh.interval.ms is an internal key of 4.1; 4.0 resolves for a reason only."""
    desk = Desk(rules)
    desk.resolve(desk.join("m1"))

    desk.now_ms += 600_000
    assert desk.beat("m1").resolve == ()
    desk.now_ms += 1
    assert bool(desk.beat("m1").resolve) is refreshes


@pytest.mark.parametrize("leaves", [True, False])
def test_an_expression_without_members_is_forgotten(leaves: bool) -> None:
    """Its record gets a tombstone in the write of the member that leaves, or that subscribes to another topic."""
    desk = Desk()
    desk.join("m2", "u")
    desk.join_resolved("m1")

    records = removed(desk.group, None, desk.answers.rules, "m1")[0] if leaves else desk.beat("m1", regex="").records

    assert RegexRecord("t.*", None) in records
    assert set(desk.group.regexes) == set(desk.group.regex_users) == {"u"}


def test_a_resolution_that_ends_late_ignores_expressions_without_members() -> None:
    desk = Desk()
    desk.join("m2", "u")
    heard = desk.join("m1")
    removed(desk.group, None, desk.answers.rules, "m1")

    desk.resolve(heard)

    assert set(desk.group.regexes) == {"u"}


def test_undone_records_leave_the_group_as_it_was() -> None:
    """After a failed write the group is resolved again: its outcome has the former time."""
    desk = Desk()
    desk.join_resolved("m1")
    desk.answers = evolve(desk.answers, topics=NEW)
    before, epoch = dict(desk.group.regexes), desk.group.epoch

    _, undo = resolved(desk.group, ("t.*",), NEW, desk.answers.rules, now_ms=desk.now_ms, version=1)
    for record in undo:
        desk.group.apply(record)

    assert desk.group.regexes == before
    assert desk.group.epoch == epoch


def test_an_invalid_expression_is_refused_with_kafkas_words_and_changes_nothing() -> None:
    """Utils.throwIfRegularExpressionIsInvalid, with the description of RE2/J."""
    desk = Desk()
    with pytest.raises(HeartbeatRefused) as refused:
        desk.join("m1", "t(")

    assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.text == "SubscribedTopicRegex `t(` is not a valid regular expression: missing closing )."
    assert not desk.group.members


def test_an_expression_that_kemu_does_not_know_is_refused_as_such() -> None:
    with pytest.raises(HeartbeatRefused) as refused:
        Desk().join("m1", r"\p{Greek}")

    assert refused.value.error is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("rules", "is_valid"), [(RULES_4_0, False), (RULES_4_1, True)])
def test_since_4_1_groups_of_an_expression_may_have_names(rules: ConsumerGroupRules, is_valid: bool) -> None:
    """Kafka 4.0 has RE2/J 1.7, Kafka 4.1 has RE2/J 1.8."""
    if is_valid:
        assert Desk(rules).join("m1", "(?<name>t.*)").resolve
        return
    with pytest.raises(HeartbeatRefused):
        Desk(rules).join("m1", "(?<name>t.*)")


@pytest.mark.parametrize(("rules", "rises"), [(RULES_4_0_1, False), (RULES_4_0, True)])
def test_a_member_without_its_former_expression_raises_the_epoch_since_4_0_2(
    rules: ConsumerGroupRules, rises: bool
) -> None:
    desk = Desk(rules)
    desk.join_resolved("m1")
    before = desk.group.epoch

    desk.beat("m1", regex="")

    assert (desk.group.epoch > before) is rises


def test_the_number_of_users_follows_static_members_that_are_replaced() -> None:
    desk = Desk()
    desk.join("m1", instance_id="i")
    leave = ConsumerGroupHeartbeat(group="g", member_id="m1", member_epoch=-2, instance_id="i")
    desk.answers.leave(desk.group, leave)
    desk.join("m2", instance_id="i")

    assert desk.group.regex_users == {"t.*": 1}
