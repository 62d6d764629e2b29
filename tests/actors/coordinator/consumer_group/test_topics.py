"""Topics that are created, grown and deleted beside a group of the consumer protocol, and requests with topic ids.

Each behaviour was seen on real brokers 4.0.2, 4.2.1 and 4.3.0 (``python -m lab.conformance.raw --protocol mixed``).
"""

from typing import Any

import pytest

from kemu.actors.coordinator.consumer_group.state import GroupEpochRecord, TopicsRecord
from kemu.actors.coordinator.consumer_group.stored import decoded
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import Told
from kemu.protocol.commands import KnowTopics
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.consumer_group import ConsumerGroupDescribe
from kemu.protocol.messages.group import (
    DescribeGroups,
    FetchedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    TopicPartitions,
)
from kemu.protocol.messages.offsets_log import KnownTopic
from kemu.protocol.names import NO_GENERATION
from kemu.protocol.notes.groups import MemberRemoved, OffsetRemoved, Removal
from tests.actors.coordinator.consumer_group.test_migration import (
    COUNT,
    STEP_MS,
    assigned_to,
    beat,
    bench_with_topics,
    mixed,
    modern,
    owned_by,
    subscription,
)
from tests.actors.coordinator.coordinator_harness import GROUP, Bench

BY_ID = 10
"""The first version of OffsetCommit and OffsetFetch with topic ids."""


def know(bench: Bench, *topics: tuple[str, str, int]) -> None:
    bench.feed(Told(KnowTopics(topics=topics)))


def commit(bench: Bench, *rows: tuple[str, int], version: int = BY_ID, **who: Any) -> list[E]:
    """The outcome of each row (topic id or name, partition) of an OffsetCommit."""
    field = "topic_id" if version >= BY_ID else "topic"
    offsets = [OffsetToCommit(**{field: topic}, partition=number, offset=7) for topic, number in rows]  # type: ignore[arg-type]
    reply = bench.ask("m1", OffsetCommit(group=GROUP, offsets=tuple(offsets), **who), version).reply
    assert [(getattr(row, field), row.partition) for row in reply.outcomes] == list(rows)
    return [row.error for row in reply.outcomes]


def fetch(bench: Bench, *topic_ids: str) -> list[FetchedOffset]:
    """The rows of partition 0 of these topics; without topics, all rows."""
    topics = tuple(TopicPartitions(topic_id=each, partitions=(0,)) for each in topic_ids) or None
    return list(bench.ask("m1", OffsetFetch(group=GROUP, topics=topics), BY_ID).reply.offsets)


# --- offsets ---------------------------------------------------------------------------------------------------------


def test_a_commit_refuses_unknown_partitions_before_the_group_sees_the_others() -> None:
    """``KafkaApis.handleOffsetCommitRequest``; the group's error is an answer, not an exception."""
    bench = bench_with_topics()
    beat(bench, "m1")
    unknown, row = E.UNKNOWN_TOPIC_OR_PARTITION, {"member_id": "m1", "generation": 1}

    assert commit(bench, ("t", 0), ("t", COUNT), ("missing", 0), version=9, **row) == [E.NONE, unknown, unknown]
    assert commit(bench, ("T", 0), ("T", COUNT), ("?", 0), **row) == [E.NONE, unknown, E.UNKNOWN_TOPIC_ID]
    assert commit(bench, ("T", 0), ("?", 0)) == [E.UNKNOWN_MEMBER_ID, E.UNKNOWN_TOPIC_ID]
    assert commit(bench, ("?", 0)) == [E.UNKNOWN_TOPIC_ID]


def test_offsets_are_fetched_by_topic_id() -> None:
    bench = bench_with_topics()
    beat(bench, "m1")
    commit(bench, ("T", 0), member_id="m1", generation=1)

    rows = [(row.topic_id, row.partition, row.offset, row.error) for row in fetch(bench, "?", "T")]

    assert rows == [("T", 0, 7, E.NONE), ("?", 0, -1, E.UNKNOWN_TOPIC_ID)]
    assert [(row.topic_id, row.offset) for row in fetch(bench)] == [("T", 7)]


def test_offsets_of_a_deleted_topic_are_removed_and_its_successor_begins_without() -> None:
    """``OffsetMetadataManager.onPartitionsDeleted`` 4.0, ``onTopicsDeleted`` 4.3."""
    bench = bench_with_topics()
    assert commit(bench, ("T", 0), generation=NO_GENERATION) == [E.NONE]

    know(bench, ("t", "T2", COUNT))

    assert [note.topic for note in bench.noted(OffsetRemoved)] == ["t"]
    assert fetch(bench) == []
    assert bench.committed("t", 0) == -1
    bench.crash_and_restart()
    know(bench, ("t", "T2", COUNT))
    assert fetch(bench) == []


def test_offsets_stay_when_their_topic_grows() -> None:
    bench = bench_with_topics()
    commit(bench, ("T", 0), generation=NO_GENERATION)

    know(bench, ("t", "T", COUNT + 1), ("u", "U", 1))

    assert [row.offset for row in fetch(bench)] == [7]


# --- groups ----------------------------------------------------------------------------------------------------------


def test_the_removal_of_a_member_adapts_its_group_to_the_present_topics() -> None:
    """So the next heartbeat finds nothing new. Source: ``GroupMetadataManager.consumerGroupFenceMembers``."""
    bench = bench_with_topics()
    beat(bench, "m1")
    beat(bench, "m2")
    know(bench, ("t", "T", COUNT + 1))

    beat(bench, "m2", -1)
    heard = beat(bench, "m1", 1, owned=tuple(range(COUNT)))

    assert heard.reply.member_epoch == modern(bench).working.epoch == 3
    assert owned_by(heard) == set(range(COUNT + 1))


@pytest.mark.parametrize(("kind", "rises"), [("java", False), ("java-4.1", True), ("java-4.3", True)])
def test_since_4_1_a_group_compares_the_racks_of_replicas(kind: str, rises: bool) -> None:
    """``Utils.computeTopicHash`` 4.1.0: also the number of replicas of a rack. Leaders make no difference."""
    bench = Bench(coordinator_kind=kind, group_consumer_assignment_interval_ms=0)

    def know_racks(*racks: str) -> None:
        bench.coordinator.know_topics((KnownTopic(name="t", topic_id="T", partitions=1, racks=(racks,)),))

    know_racks("a", "b")
    epoch = beat(bench, "m1").reply.member_epoch
    for racks in (("a", "b"), ("a", "c"), ("a", "a", "c")):
        know_racks(*racks)
        heard = beat(bench, "m1", epoch)
        differs = racks != ("a", "b")
        assert heard.reply.member_epoch == epoch + (rises and differs), racks
        epoch = heard.reply.member_epoch


def test_since_4_1_the_log_has_the_hash_of_the_topics_instead_of_the_topics() -> None:
    """``ConsumerGroupMetadataValue.MetadataHash`` 4.1; a load keeps the hash, and the next heartbeat finds it equal."""
    bench = bench_with_topics(coordinator_kind="java-4.1")
    beat(bench, "m1")
    records = [found[1] for record in bench.log() if (found := decoded(*record)) is not None]
    (told,) = [each for each in records if isinstance(each, GroupEpochRecord)]
    assert told.metadata_hash == modern(bench).working.metadata_hash != 0
    assert not [each for each in records if isinstance(each, TopicsRecord)]

    bench.crash_and_restart()
    know(bench, ("t", "T", COUNT))
    assert modern(bench).working.metadata_hash == told.metadata_hash
    assert beat(bench, "m1", 1).reply.member_epoch == 1

    beat(bench, "m1", -1)
    assert modern(bench).working.metadata_hash == 0  # an empty group subscribes to nothing


def test_a_coordinator_of_4_1_replaces_the_topics_in_the_log_of_4_0() -> None:
    """``GroupMetadataManager.updateSubscriptionMetadata`` 4.1.1: the epoch rises once, since the log has no hash."""
    old = bench_with_topics()
    beat(old, "m1")
    bench = Bench(coordinator_kind="java-4.1", lead=False)
    know(bench, ("t", "T", COUNT))
    bench.lead(GROUP, records=tuple(old.log()))

    first = beat(bench, "m1", 1)
    later = beat(bench, "m1", 2)

    assert [first.reply.member_epoch, later.reply.member_epoch] == [2, 2]
    added = [found[1] for record in bench.log() if (found := decoded(*record)) is not None]
    assert added.count(TopicsRecord(())) == 1
    assert modern(bench).working.topics == ()


def test_descriptions_lack_deleted_topics() -> None:
    """``ConsumerGroupMember.topicPartitionsFromMap`` 4.0."""
    bench = bench_with_topics()
    beat(bench, "m1")

    know(bench, ("u", "U", 1))

    (group,) = bench.ask("admin", ConsumerGroupDescribe(groups=(GROUP,)), 1).reply.groups
    assert [(each.assigned, each.target, each.topics) for each in group.members] == [((), (), ("t",))]


def test_a_partition_that_a_smaller_topic_lacks_fails_the_uniform_assignor_until_its_member_leaves() -> None:
    """The leader of a classic group assigned the partition, before another topic took the name of the topic."""
    bench = bench_with_topics()
    join = bench.join_twice("c1", data=subscription())
    bench.until_answered(join)
    member_id = join.reply.member_id
    bench.sync("c1", member_id, 1, {member_id: assigned_to(COUNT - 1)})
    know(bench, ("t", "T2", 1), ("u", "U", 1))

    refused = beat(bench, "m1", topics=("t", "u"))

    assert refused.error is E.UNKNOWN_SERVER_ERROR
    assert bench.heartbeat("c1", member_id, 1) is E.NONE  # the group is still classic


def test_the_time_to_sync_outlasts_a_conversion_to_a_classic_group_and_back() -> None:
    """``consumerGroupFenceMembers`` cancels no timer when it converts the group."""
    bench = bench_with_topics()
    beat(bench, "m1")
    join = bench.join_twice("c2", data=subscription(), rebalance_ms=2 * STEP_MS)
    member_id = join.reply.member_id
    beat(bench, "m1", -1)
    bench.advance(STEP_MS)

    beat(bench, "m3")
    assert bench.left_ms(GroupTimer.MEMBER_SYNC, GROUP, member_id) == STEP_MS
    bench.advance(STEP_MS)

    assert [note.why for note in bench.noted(MemberRemoved)][-1] == Removal.NOT_SYNCED
    assert list(modern(bench).working.members) == ["m3"]


def test_timers_of_members_end_when_another_broker_coordinates_the_group() -> None:
    """Also those of a group that is classic at this moment."""
    bench = bench_with_topics()
    _, member_id, _ = mixed(bench)
    bench.join("c2", member_id, data=subscription())
    beat(bench, "m1", -1)
    assert bench.left_ms(GroupTimer.MEMBER_SYNC, GROUP, member_id) is not None

    bench.resign()

    assert bench.coordinator.member_timers == {}
    assert bench.left_ms(GroupTimer.MEMBER_SYNC, GROUP, member_id) is None


def test_describe_groups_finds_only_classic_groups_since_version_6() -> None:
    """KIP-1043."""
    bench = bench_with_topics()

    def described(version: int) -> tuple[E, str, str | None]:
        (row,) = bench.ask("admin", DescribeGroups(groups=(GROUP,)), version).reply.groups
        return row.error, row.state, row.error_message

    assert described(5) == (E.NONE, "Dead", None)
    assert described(6) == (E.GROUP_ID_NOT_FOUND, "Dead", f"Group {GROUP} not found.")
    beat(bench, "m1")
    assert described(5) == (E.NONE, "Dead", None)
    assert described(6) == (E.GROUP_ID_NOT_FOUND, "Dead", f"Group {GROUP} is not a classic group.")
