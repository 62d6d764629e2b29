"""The answers to heartbeats that differ between Kafka 4.0, 4.1, 4.2 and 4.3."""

from typing import Any

import pytest

from kemu.actors.coordinator.consumer_group.heartbeats import (
    ConsumerGroupConfig,
    Heard,
    HeartbeatAnswers,
    HeartbeatRefused,
    removed,
)
from kemu.actors.coordinator.consumer_group.state import ConsumerGroup, RegexRecord
from kemu.protocol.consumer_group.rules import RULES_4_0, RULES_4_0_1, RULES_4_1, RULES_4_2, RULES_4_3
from kemu.protocol.consumer_group.states import Topic
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.consumer_group import ConsumerGroupHeartbeat, TopicNumbers
from tests.actors.coordinator.coordinator_harness import Bench

RELEASES = {"4.0.1": RULES_4_0_1, "4.0": RULES_4_0, "4.1": RULES_4_1, "4.2": RULES_4_2, "4.3": RULES_4_3}
TOPICS = {"t": Topic("t", "T", 4), "u": Topic("u", "U", 2)}
BEGIN_MS = 10_000


class Desk:
    """A group with the rules of a release. ``now_ms`` is far from zero, as in Kafka."""

    def __init__(self, release: str) -> None:
        self.answers = HeartbeatAnswers(TOPICS, ConsumerGroupConfig(), RELEASES[release])
        self.group = ConsumerGroup("g")
        self.now_ms = BEGIN_MS
        self.is_stale = True

    def join(self, name: str, topics: tuple[str, ...] | None = ("t",), **more: Any) -> Heard:
        return self.beat(name, 0, topics=topics, rebalance_timeout_ms=300_000, owned=(), **more)

    def beat(self, name: str, epoch: int, **more: Any) -> Heard:
        request = ConsumerGroupHeartbeat(group="g", member_id=name, member_epoch=epoch, **more)
        heard = self.answers.heartbeat(self.group, request, is_stale=self.is_stale, now_ms=self.now_ms)
        self.is_stale = False
        return heard

    def owns(self, name: str) -> tuple[TopicNumbers, ...]:
        held = self.group.current_of(name).assigned
        return (TopicNumbers(topic_id="T", partitions=tuple(number for _, number in held)),) if held else ()


@pytest.mark.parametrize(("release", "fenced"), [("4.0", True), ("4.1", True), ("4.2", False), ("4.3", False)])
def test_up_to_4_1_a_fenced_member_is_fenced_again_when_it_rejoins(release: str, fenced: bool) -> None:
    """GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid 4.1.1, 4.2.1: epoch 0 is always accepted."""
    desk = Desk(release)
    first = desk.join("m1").reply.member_epoch
    desk.now_ms += 2_000
    desk.join("m2")
    desk.beat("m1", first)
    second = desk.beat("m1", first, owned=desk.owns("m1")).reply.member_epoch
    assert second == first + 1

    if fenced:
        with pytest.raises(HeartbeatRefused) as refused:
            desk.join("m1")
        assert refused.value.error is ErrorCode.FENCED_MEMBER_EPOCH
    else:
        again = desk.join("m1").reply
        assert again.member_epoch == second
        assert again.assignment == desk.owns("m1")


@pytest.mark.parametrize(("kind", "error"), [("java", "NOT_COORDINATOR"), ("java-4.1", "INVALID_REQUEST")])
def test_since_4_1_a_broker_checks_a_heartbeat_before_it_looks_for_the_group(kind: str, error: str) -> None:
    """throwIfConsumerGroupHeartbeatRequestIsInvalid: in GroupMetadataManager 4.0.2, GroupCoordinatorService 4.1.1."""
    bench = Bench(lead=False, coordinator_kind=kind)

    ask = bench.ask("c1", ConsumerGroupHeartbeat(group="g", member_id=" ", member_epoch=1), 1)

    assert ask.error is ErrorCode[error]


@pytest.mark.parametrize(("release", "epoch"), [("4.0", 1), ("4.2", 1), ("4.3", 2)])
def test_the_first_epoch_of_a_group_is_2_since_4_3(release: str, epoch: int) -> None:
    """ModernGroup 4.3.0 begins at epoch 1, and the subscription raises the epoch."""
    desk = Desk(release)

    assert desk.join("m1").reply.member_epoch == epoch
    assert desk.group.epoch == desk.group.target_epoch == epoch


@pytest.mark.parametrize("release", ["4.2", "4.3"])
def test_a_join_without_topics_does_not_raise_the_first_epoch_of_4_3(release: str) -> None:
    """GroupMetadataManager.consumerGroupHeartbeat 4.3.0 does not raise the epoch of a new group by itself."""
    desk = Desk(release)

    assert desk.join("m1", topics=()).reply.member_epoch == 1
    assert desk.group.epoch == desk.group.target_epoch == 1
    assert desk.join("m2", topics=("t",)).reply.member_epoch == 2  # the first target has no time, so no time passes
    assert desk.group.epoch == desk.group.target_epoch == 2


@pytest.mark.parametrize("release", ["4.2", "4.3"])
def test_since_4_3_a_second_separates_two_targets(release: str) -> None:
    """GroupMetadataManager.canComputeNextTargetAssignment 4.3.0; group.consumer.assignment.interval.ms is 1000."""
    desk = Desk(release)
    first = desk.join("m1").reply.member_epoch
    desk.now_ms += 999
    early = desk.join("m2").reply

    if release == "4.2":
        assert early.member_epoch == first + 1
        return
    assert (early.member_epoch, early.assignment) == (first, ())
    assert (desk.group.epoch, desk.group.target_epoch) == (first + 1, first)
    desk.now_ms += 1
    assert desk.beat("m2", first).reply.member_epoch == first + 1
    assert desk.group.target_at_ms == BEGIN_MS + 1_000


@pytest.mark.parametrize("release", ["4.0.1", "4.0", "4.2"])
def test_since_4_0_2_the_end_of_a_pattern_raises_the_epoch(release: str) -> None:
    """GroupMetadataManager.maybeUpdateRegularExpressions 4.0.1, 4.0.2, 4.2.1."""
    desk = Desk(release)
    desk.join("m1", regex="t.*")
    desk.group.apply(RegexRecord("t.*", ("t",)))
    before = desk.group.epoch

    desk.beat("m1", before, regex="")

    assert desk.group.epoch == before + (release != "4.0.1")


@pytest.mark.parametrize(("release", "revokes"), [("4.1", False), ("4.2", True)])
def test_since_4_2_a_member_revokes_an_unsubscribed_topic_in_the_same_heartbeat(release: str, revokes: bool) -> None:
    """Another member's target is not needed for it: the target of an unsubscribed topic counts as empty.

    Source: ``CurrentAssignmentBuilder`` 4.2.1.
    """
    desk = Desk(release)
    epoch = desk.join("m1", topics=("t",), regex="u").reply.member_epoch
    desk.group.apply(RegexRecord("u", ("u",)))
    desk.is_stale = True
    epoch = desk.beat("m1", epoch).reply.member_epoch
    assert ("U", 0) in desk.group.current_of("m1").assigned

    heard = desk.beat("m1", epoch, regex="x")

    assert bool(heard.revokes) is revokes
    assert (("U", 0) in desk.group.current_of("m1").revoking) is revokes


def test_a_static_member_that_leaves_for_a_while_loses_the_epochs_of_its_partitions() -> None:
    """ConsumerGroupMember.resetAssignedPartitionsEpochsToZero 4.3.0: commits with the old id are refused."""
    desk = Desk("4.3")
    epoch = desk.join("m1", instance_id="i1").reply.member_epoch
    assert set(desk.group.current_of("m1").assigned.values()) == {epoch}

    leave = ConsumerGroupHeartbeat(group="g", member_id="m1", member_epoch=-2, instance_id="i1")
    desk.answers.leave(desk.group, leave)

    assert set(desk.group.current_of("m1").assigned.values()) == {0}


def test_a_target_without_a_new_epoch_uses_the_subscriptions_from_before_the_heartbeat() -> None:
    """A member without topics joins and raises no epoch, so that the subscriptions still count as equal.

    Seen on a real 4.3.0. Source: ``GroupMetadataManager.consumerGroupHeartbeat``: ``group.subscriptionType()``.
    """
    desk = Desk("4.2")
    desk.join("m0")
    desk.join("m9", topics=("t",))
    removed(desk.group, None, desk.answers.rules, "m0")

    desk.join("m1", topics=())

    assert desk.group.target_epoch == desk.group.epoch
    assert not desk.group.target_of("m9")
