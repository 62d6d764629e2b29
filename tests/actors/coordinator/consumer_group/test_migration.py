"""Classic groups become groups of the consumer protocol and back, and both kinds of members are in one group (KIP-848).

Sources: Kafka 4.0 ``GroupMetadataManager`` and the cases of its ``GroupMetadataManagerTest``.
"""

from typing import Any

import pytest

from kemu.actors.coordinator.group import Group
from kemu.actors.coordinator.modern_group import ModernGroup
from kemu.actors.coordinator.state import EMPTY, PREPARING, STABLE, GroupState
from kemu.actors.coordinator.timers import GroupTimer
from kemu.actors.machine import Told
from kemu.protocol.commands import KnowTopics
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.consumer_group import ConsumerGroupDescribe, ConsumerGroupHeartbeat, TopicNumbers
from kemu.protocol.messages.group import LeavingMember
from kemu.protocol.messages.member import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kemu.protocol.names import TopicPartition
from kemu.protocol.notes.consumer_groups import GroupConverted
from kemu.protocol.notes.groups import GroupBecame, MemberRemoved, Removal
from tests.actors.coordinator.coordinator_harness import GROUP, REBALANCE_MS, SESSION_MS, Ask, Bench

COUNT = 6
STEP_MS = 5_000
Owned = tuple[int, ...]


def bench_with_topics(**config: Any) -> Bench:
    """A coordinator of a cluster with the topic t of six partitions."""
    bench = Bench(**config)
    bench.feed(Told(KnowTopics(topics=(("t", "T", COUNT),))))
    return bench


def subscription(*owned: int, topic: str = "t", generation: int = -1) -> bytes:
    return encode_subscription(Subscription((topic,), None, tuple((topic, n) for n in owned), generation))


def assigned_to(*numbers: int, user_data: bytes | None = None) -> bytes:
    return encode_assignment(Assignment(tuple(("t", n) for n in numbers), user_data))


def form(
    bench: Bench, shares: dict[str, Owned], *, static: bool = False, user_data: bytes | None = None
) -> dict[str, str]:
    """A Stable classic group with these shares; the members' ids."""
    how: dict[str, Any] = {"data": subscription()}
    joins = {
        client: bench.join(client, instance=f"i-{client}", **how) if static else bench.join_twice(client, **how)
        for client in shares
    }
    bench.until_answered(*joins.values())
    ids = {client: join.reply.member_id for client, join in joins.items()}
    generation = next(iter(joins.values())).reply.generation
    given = {ids[client]: assigned_to(*share, user_data=user_data) for client, share in shares.items()}
    for client, join in joins.items():
        leads = join.reply.leader == ids[client]
        instance = f"i-{client}" if static else None
        bench.sync(client, ids[client], generation, given if leads else None, instance=instance)
    assert bench.group.state is STABLE
    return ids


def beat(
    bench: Bench,
    client: str,
    epoch: int = 0,
    *,
    owned: Owned | None = None,
    instance: str | None = None,
    member_id: str = "",
    assignor: str | None = None,
    topics: tuple[str, ...] = ("t",),
) -> Ask:
    """A ConsumerGroupHeartbeat; a join tells everything."""
    joins = epoch == 0
    if joins:
        owned = ()
    request = ConsumerGroupHeartbeat(
        group=GROUP,
        member_id=member_id or client,
        member_epoch=epoch,
        instance_id=instance,
        rebalance_timeout_ms=REBALANCE_MS if joins else -1,
        topics=topics if joins else None,
        owned=None if owned is None else (TopicNumbers(topic_id="T", partitions=owned),) if owned else (),
        assignor=assignor,
    )
    return bench.ask(client, request, 1)


def owned_by(ask: Ask) -> set[int] | None:
    """The partitions in the answer of a ConsumerGroupHeartbeat."""
    rows = ask.reply.assignment
    return None if rows is None else {n for row in rows for n in row.partitions}


def synced(ask: Ask) -> set[TopicPartition]:
    return set(decode_assignment(ask.reply.assignment).partitions)


def modern(bench: Bench) -> ModernGroup:
    group = bench.coordinator.groups[GROUP]
    assert isinstance(group, ModernGroup)
    return group


def current(bench: Bench, member_id: str) -> set[int]:
    return {n for _, n in modern(bench).working.current_of(member_id).assigned}


def rejoin(bench: Bench, client: str, member_id: str, *owned: int, **how: Any) -> Ask:
    """A join of a classic member with these partitions, and its sync; the answered sync."""
    join = bench.join(client, member_id, data=subscription(*owned), **how)
    assert join.error is E.NONE
    return bench.sync(client, join.reply.member_id, join.reply.generation, instance=how.get("instance"))


# --- an empty group --------------------------------------------------------------------------------------------------


def test_an_empty_group_stays_a_group_of_the_consumer_protocol_if_its_conversion_cannot_be_written() -> None:
    """GroupMetadataManager.classicGroupJoinToClassicGroup: a failed write reverts the deletion of the empty group."""
    bench = bench_with_topics()
    epoch = beat(bench, "m1").reply.member_epoch
    beat(bench, "m1", -1)
    bench.commit("admin", 7)
    before = len(bench.log())
    bench.append_errors = [E.NOT_LEADER_OR_FOLLOWER]

    assert bench.join("c1").error is E.MEMBER_ID_REQUIRED

    assert len(bench.log()) == before
    assert modern(bench).working.epoch == epoch + 1
    assert bench.committed() == 7
    assert bench.join("c1").error is E.MEMBER_ID_REQUIRED
    assert isinstance(bench.group, Group)


# --- upgrade ---------------------------------------------------------------------------------------------------------


def test_the_log_of_an_upgraded_group_gives_its_members_the_same_order() -> None:
    """``ConsumerGroup.createConsumerGroupRecords`` writes the members in the order of the first of two maps."""
    bench = bench_with_topics()
    form(bench, {f"c{number}": (number,) for number in range(COUNT)})
    beat(bench, "m3")
    order = modern(bench).working.listed()

    bench.crash_and_restart()

    assert modern(bench).working.listed() == order


def test_a_heartbeat_to_a_stable_classic_group_converts_the_group() -> None:
    """testConsumerGroupHeartbeatWithStableClassicGroup: members keep ids, assignments and generation."""
    bench = bench_with_topics()
    ids = form(bench, {"c1": (0, 1, 2), "c2": (3, 4, 5)})
    generation = bench.group.shared.generation

    joined = beat(bench, "m3")

    group = modern(bench).working
    assert (joined.error, joined.reply.member_epoch) == (E.NONE, generation + 1)
    assert owned_by(joined) == set()  # nothing is free yet
    assert (group.epoch, group.target_epoch) == (generation + 1, generation + 1)
    assert current(bench, ids["c1"]) == {0, 1, 2}
    assert group.current_of(ids["c1"]).epoch == generation
    assert [note.protocol for note in bench.noted(GroupConverted)] == ["consumer"]
    assert [note.old for note in bench.noted(GroupBecame)][-2:] == ["Stable", "Assigning"]


def test_a_converted_group_names_topics_that_nobody_subscribes_to() -> None:
    """``ConsumerGroupMember.asConsumerGroupDescribeMember`` asks the metadata image."""
    bench = Bench()
    bench.feed(Told(KnowTopics(topics=(("t", "T", 1), ("u", "U", 1)))))
    join = bench.join_twice("c1", data=subscription())
    bench.until_answered(join)
    given = encode_assignment(Assignment((("u", 0),)))
    bench.sync("c1", join.reply.member_id, join.reply.generation, {join.reply.member_id: given})
    beat(bench, "m2")

    described = bench.ask("tool", ConsumerGroupDescribe(groups=(GROUP,)), 0).reply.groups[0]

    assert {row.topic for member in described.members for row in member.assigned} == {"u"}


def test_the_first_heartbeat_after_a_conversion_looks_at_all_subscriptions() -> None:
    """``ConsumerGroup.subscriptionType`` is computed again: the time of the last look is lost with the first object.

    The leave raises the epoch; the member that joins without topics gets nothing, which it would as one of the alike.
    """
    bench = bench_with_topics()
    ids = form(bench, {"c1": (0, 1, 2, 3, 4, 5)})
    beat(bench, "m1")
    bench.leave("c1", LeavingMember(member_id=ids["c1"]))
    without_topics = ConsumerGroupHeartbeat(
        group=GROUP, member_id="m2", member_epoch=0, rebalance_timeout_ms=REBALANCE_MS, topics=(), owned=()
    )

    assert owned_by(bench.ask("m2", without_topics, 1)) == set()


def test_classic_members_give_up_partitions_in_two_joins() -> None:
    """testConsumerGroupJoinWithNewDynamicMember, testReconciliationInJoiningConsumerGroupWithCooperativeProtocol."""
    bench = bench_with_topics()
    ids = form(bench, {"c1": (0, 1, 2), "c2": (3, 4, 5)})
    generation = bench.group.shared.generation
    joiner = beat(bench, "m3")

    assert bench.heartbeat("c1", ids["c1"], generation) is E.REBALANCE_IN_PROGRESS
    told = rejoin(bench, "c1", ids["c1"], 0, 1, 2)
    kept = {n for _, n in synced(told)}
    assert len(kept) == 2
    assert current(bench, ids["c1"]) == kept
    assert bench.heartbeat("c1", ids["c1"], generation) is E.REBALANCE_IN_PROGRESS  # the revocation is not reported
    told = rejoin(bench, "c1", ids["c1"], *kept)
    assert {n for _, n in synced(told)} == kept
    assert bench.heartbeat("c1", ids["c1"], generation + 1) is E.NONE
    freed = beat(bench, "m3", joiner.reply.member_epoch)
    assert owned_by(freed) == {0, 1, 2} - kept


def test_an_eager_member_gets_its_target_in_one_join() -> None:
    """A member that revoked everything before its join owns nothing, so it has nothing to revoke."""
    bench = bench_with_topics()
    ids = form(bench, {"c1": (0, 1, 2), "c2": (3, 4, 5)})
    beat(bench, "m3")

    told = rejoin(bench, "c1", ids["c1"])

    assert len(synced(told)) == 2
    assert modern(bench).working.current_of(ids["c1"]).epoch == modern(bench).working.epoch


def test_a_member_that_waits_is_told_to_rejoin_when_its_partitions_are_free() -> None:
    """testClassicGroupHeartbeatToConsumerGroupMaintainsSession and ...RebalanceInProgress: UNRELEASED_PARTITIONS."""
    bench = bench_with_topics()
    first = beat(bench, "m1")
    assert owned_by(first) == set(range(COUNT))
    second = bench.join_twice("c2", data=subscription())
    member_id, epoch = second.reply.member_id, second.reply.generation
    told = bench.sync("c2", member_id, epoch)
    assert synced(told) == set()

    assert bench.heartbeat("c2", member_id, epoch) is E.NONE  # m1 holds everything
    revokes = beat(bench, "m1", first.reply.member_epoch, owned=tuple(range(COUNT)))
    kept = owned_by(revokes)
    assert kept is not None
    beat(bench, "m1", first.reply.member_epoch, owned=tuple(sorted(kept)))
    assert bench.heartbeat("c2", member_id, epoch) is E.REBALANCE_IN_PROGRESS
    assert synced(rejoin(bench, "c2", member_id)) == {("t", n) for n in range(COUNT) if n not in kept}


def test_joins_and_syncs_that_wait_are_told_to_rejoin() -> None:
    """testConsumerGroupHeartbeatToClassicGroupInPreparingRebalance: REBALANCE_IN_PROGRESS."""
    bench = bench_with_topics()
    ids = form(bench, {"c1": (0, 1, 2), "c2": (3, 4, 5)})
    parked = bench.join("c1", ids["c1"], data=subscription(0, 1, 2, generation=1))
    assert bench.group.state is PREPARING
    assert parked.reply is None

    assert beat(bench, "m3").error is E.NONE

    answer: Any = parked.reply
    assert (answer.error, answer.member_id) == (E.REBALANCE_IN_PROGRESS, ids["c1"])
    bench.advance(2 * REBALANCE_MS)  # no timer of the classic group is left


def test_a_parked_sync_is_told_to_rejoin_and_the_written_assignment_changes_nothing() -> None:
    """testConsumerGroupHeartbeatToClassicGroupInCompletingRebalance."""
    bench = bench_with_topics()
    join = bench.join_twice("c1", data=subscription())
    bench.until_answered(join)
    member_id = join.reply.member_id
    bench.hold_appends = True
    sync = bench.sync("c1", member_id, 1, {member_id: assigned_to(0)})
    upgrade = beat(bench, "m2")
    assert sync.error is E.REBALANCE_IN_PROGRESS

    bench.release()

    assert upgrade.error is E.NONE
    assert current(bench, member_id) == set()


def test_a_group_before_its_first_generation_is_not_converted() -> None:
    """``ConsumerGroup.fromClassicGroup`` reads the protocol, which is not chosen yet."""
    bench = bench_with_topics()
    parked = bench.join_twice("c1", data=subscription())

    assert beat(bench, "m2").error is E.UNKNOWN_SERVER_ERROR
    assert parked.error is E.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("kind", ["java", "java-4.3"])
def test_a_group_whose_members_left_before_its_first_generation_is_converted(kind: str) -> None:
    """``ConsumerGroup.fromClassicGroup`` reads the protocol only for members, and the epoch is the generation 0."""
    bench = bench_with_topics(coordinator_kind=kind)
    parked = bench.join_twice("c1", data=subscription())
    bench.leave("c1", LeavingMember(member_id=next(iter(bench.group.members.by_id))))

    assert parked.error is E.UNKNOWN_MEMBER_ID
    assert beat(bench, "m2").reply.member_epoch == 1


@pytest.mark.parametrize("policy", ["downgrade", "disabled"])
def test_the_policy_may_refuse_an_upgrade(policy: str) -> None:
    """testConsumerGroupHeartbeatToClassicGroup with ``group.consumer.migration.policy``."""
    bench = bench_with_topics(group_consumer_migration_policy=policy)
    form(bench, {"c1": (0,)})

    assert beat(bench, "m2").error is E.GROUP_ID_NOT_FOUND
    assert bench.group.state is STABLE


def test_a_group_that_exceeds_the_size_of_consumer_groups_is_not_converted() -> None:
    bench = bench_with_topics(group_consumer_max_size=1)
    form(bench, {"c1": (0,), "c2": (1,)})

    assert beat(bench, "m2").error is E.GROUP_ID_NOT_FOUND


def test_user_data_of_a_custom_assignor_refuses_the_upgrade() -> None:
    """testConsumerGroupHeartbeatWithCustomAssignorClassicGroup."""
    bench = bench_with_topics()
    form(bench, {"c1": (0,)}, user_data=b"x")

    assert beat(bench, "m2").error is E.GROUP_ID_NOT_FOUND
    assert bench.group.state is STABLE


def test_a_partition_that_the_leader_gave_twice_refuses_the_upgrade() -> None:
    """``ConsumerGroup.addPartitionEpochs`` throws."""
    bench = bench_with_topics()
    form(bench, {"c1": (0, 1), "c2": (1, 2)})

    assert beat(bench, "m2").error is E.UNKNOWN_SERVER_ERROR
    assert bench.group.state is STABLE


def test_a_partition_that_the_leader_gave_a_member_twice_counts_once() -> None:
    bench = bench_with_topics()
    form(bench, {"c1": (0, 0, 1)})

    assert beat(bench, "m2").error is E.NONE
    targets = modern(bench).working.targets.values()
    assert sorted(number for share in targets for number in share["T"]) == list(range(COUNT))


def test_an_upgrade_that_cannot_be_written_leaves_the_classic_group() -> None:
    bench = bench_with_topics()
    ids = form(bench, {"c1": (0, 1, 2), "c2": (3, 4, 5)})
    bench.append_errors = [E.MESSAGE_TOO_LARGE]

    assert beat(bench, "m3").error is E.UNKNOWN_SERVER_ERROR

    assert isinstance(bench.group, Group)
    assert bench.heartbeat("c1", ids["c1"], bench.group.shared.generation) is E.NONE
    assert [note.protocol for note in bench.noted(GroupConverted)] == ["consumer", "classic"]
    bench.advance(2 * SESSION_MS)
    assert bench.group.state is EMPTY


def test_a_member_of_a_mixed_group_survives_a_failover() -> None:
    """The log has the classic members' timeouts and protocols."""
    bench = bench_with_topics()
    ids = form(bench, {"c1": (0, 1, 2), "c2": (3, 4, 5)})
    joined = beat(bench, "m3")
    rejoin(bench, "c1", ids["c1"], 0, 1, 2)
    before = modern(bench).working

    bench.crash_and_restart()
    bench.feed(Told(KnowTopics(topics=(("t", "T", COUNT),))))

    after = modern(bench).working
    assert after.members == before.members
    assert (after.epoch, after.target_epoch, after.targets) == (before.epoch, before.target_epoch, before.targets)
    assert after.current == before.current
    assert beat(bench, "m3", joined.reply.member_epoch).error is E.NONE
    epoch = after.current_of(ids["c2"]).epoch
    assert bench.heartbeat("c2", ids["c2"], epoch) is E.REBALANCE_IN_PROGRESS
    bench.advance(SESSION_MS + 1)  # Kafka 4.0 gives loaded members the group's session timeout
    assert list(modern(bench).working.members) == [ids["c1"], "m3"]


# --- classic members in a consumer group -----------------------------------------------------------------------------


def mixed(bench: Bench, **how: Any) -> tuple[Ask, str, int]:
    """A group of the consumer member m1 and the classic member c2, which joined and synced."""
    first = beat(bench, "m1")
    join = bench.join_twice("c2", data=subscription(), **how)
    bench.sync("c2", join.reply.member_id, join.reply.generation)
    return first, join.reply.member_id, join.reply.generation


def test_a_join_is_answered_at_once_without_a_leader() -> None:
    bench = bench_with_topics()
    beat(bench, "m1")

    join = bench.join_twice("c2", names=("cooperative-sticky", "range"), data=subscription())

    reply = join.reply
    assert (reply.error, reply.generation, reply.leader, reply.members) == (E.NONE, 2, "", ())
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "cooperative-sticky")


def test_an_unknown_id_joins_as_a_new_member() -> None:
    """``getOrMaybeSubscribeDynamicConsumerGroupMember`` creates members of any id: no id is pending."""
    bench = bench_with_topics()
    beat(bench, "m1")

    join = bench.join("c2", "made-up", data=subscription())

    assert (join.error, join.reply.member_id) == (E.NONE, "made-up")


def test_protocols_must_be_shared_by_all_classic_members() -> None:
    """testConsumerGroupJoinThrowsExceptionIfProtocolIsNotSupported."""
    bench = bench_with_topics()
    mixed(bench)

    assert bench.join("c3", names=("sticky",), data=subscription()).error is E.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join("c3", protocol_type="connect").error is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_protocol_that_a_classic_member_names_twice_is_not_shared() -> None:
    """``ConsumerGroup.maybeUpdateClassicProtocolMembersSupportedProtocols`` counts names, not members."""
    bench = bench_with_topics()
    beat(bench, "m1")
    twice = bench.join_twice("c1", names=("range", "range"), data=subscription())

    assert twice.error is E.NONE
    assert bench.join("c2", data=subscription()).error is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_turns_classic_members_away() -> None:
    """testConsumerGroupJoinThrowsExceptionIfGroupOverMaxSize."""
    bench = bench_with_topics(group_consumer_max_size=1)
    beat(bench, "m1")

    assert bench.join("c2", data=subscription()).error is E.GROUP_MAX_SIZE_REACHED


def test_a_member_that_does_not_sync_is_removed() -> None:
    """testClassicGroupSyncToConsumerGroup: the sync timer is the rebalance timeout; heartbeats do not help."""
    bench = bench_with_topics()
    beat(bench, "m1")
    join = bench.join_twice("c2", data=subscription(), rebalance_ms=4 * STEP_MS)
    member_id, epoch = join.reply.member_id, join.reply.generation
    assert bench.left_ms(GroupTimer.MEMBER_SYNC, GROUP, member_id) == 4 * STEP_MS
    assert bench.left_ms(GroupTimer.SESSION, GROUP, member_id) == SESSION_MS

    for _ in range(4):
        assert bench.heartbeat("c2", member_id, epoch) is E.NONE
        bench.advance(STEP_MS)

    assert [note.why for note in bench.noted(MemberRemoved)] == [Removal.NOT_SYNCED]


def test_a_member_that_does_not_rejoin_is_removed() -> None:
    """testClassicGroupHeartbeatToConsumerGroupRebalanceInProgress: later heartbeats do not restart the timer."""
    bench = bench_with_topics()
    _, member_id, epoch = mixed(bench, rebalance_ms=4 * STEP_MS)
    beat(bench, "m3")

    for step in range(4):
        assert bench.heartbeat("c2", member_id, epoch) is E.REBALANCE_IN_PROGRESS
        assert bench.left_ms(GroupTimer.MEMBER_JOIN, GROUP, member_id) == (4 - step) * STEP_MS
        bench.advance(STEP_MS)

    assert [note.why for note in bench.noted(MemberRemoved)] == [Removal.NOT_REJOINED]


def test_a_rejoin_stops_the_time_to_join() -> None:
    bench = bench_with_topics()
    _, member_id, epoch = mixed(bench)
    beat(bench, "m3")
    bench.heartbeat("c2", member_id, epoch)

    rejoin(bench, "c2", member_id)

    assert bench.left_ms(GroupTimer.MEMBER_JOIN, GROUP, member_id) is None
    assert bench.left_ms(GroupTimer.MEMBER_SYNC, GROUP, member_id) is None


def test_a_silent_classic_member_is_removed_at_the_end_of_its_own_session() -> None:
    bench = bench_with_topics()
    mixed(bench)

    bench.advance(SESSION_MS)

    assert [note.why for note in bench.noted(MemberRemoved)] == [Removal.SESSION_EXPIRED]


def test_requests_with_wrong_ids_or_generations_are_refused() -> None:
    """``validateConsumerGroupMember``, ``throwIfGenerationIdUnmatched``, ``throwIfClassicProtocolUnmatched``."""
    bench = bench_with_topics()
    _, member_id, epoch = mixed(bench)
    static = bench.join("c4", instance="i4", data=subscription())

    assert bench.heartbeat("c2", "ghost", epoch) is E.UNKNOWN_MEMBER_ID
    assert bench.heartbeat("c2", "m1", epoch) is E.UNKNOWN_MEMBER_ID  # it speaks the consumer protocol
    assert bench.heartbeat("c2", member_id, epoch + 7) is E.ILLEGAL_GENERATION
    assert bench.heartbeat("c2", member_id, epoch, instance="i9") is E.UNKNOWN_MEMBER_ID
    assert bench.heartbeat("c2", member_id, epoch, instance="i4") is E.FENCED_INSTANCE_ID
    assert bench.sync("c2", "ghost", epoch).error is E.UNKNOWN_MEMBER_ID
    assert bench.sync("c2", member_id, epoch + 7).error is E.ILLEGAL_GENERATION
    generation = static.reply.generation
    wrong = bench.sync("c4", static.reply.member_id, generation, protocol="sticky", instance="i4")
    assert wrong.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert bench.sync("c2", member_id, epoch).error is E.REBALANCE_IN_PROGRESS  # c4 raised the epoch
    assert bench.commit_error("c2", member_id=member_id, generation=epoch + 7) is E.ILLEGAL_GENERATION
    assert bench.commit_error("c2", member_id=member_id, generation=epoch, version=8) is E.NONE
    assert bench.commit_error("m1", member_id="m1", generation=7) is E.STALE_MEMBER_EPOCH


def test_a_description_tells_the_protocol_of_each_member() -> None:
    bench = bench_with_topics()
    _, member_id, _ = mixed(bench)

    (row,) = bench.ask("admin", ConsumerGroupDescribe(groups=(GROUP,)), 1).reply.groups

    assert {each.member_id: each.member_type for each in row.members} == {"m1": 1, member_id: 0}


# --- static members --------------------------------------------------------------------------------------------------


def test_a_static_classic_member_returns_as_a_consumer_member_and_keeps_its_partitions() -> None:
    """testConsumerGroupHeartbeatWithStaticMember...: a classic holder is no UNRELEASED_INSTANCE_ID."""
    bench = bench_with_topics()
    ids = form(bench, {"c1": (0, 1, 2), "c2": (3, 4, 5)}, static=True)
    generation = bench.group.shared.generation

    joined = beat(bench, "m1", instance="i-c1")

    assert (joined.error, joined.reply.member_epoch) == (E.NONE, generation)
    assert owned_by(joined) == {0, 1, 2}
    assert ids["c1"] not in modern(bench).working.members
    assert bench.heartbeat("c1", ids["c1"], generation, instance="i-c1") is E.FENCED_INSTANCE_ID


@pytest.mark.parametrize("member_id", ["m1", "m2"])
def test_a_static_consumer_member_that_returns_is_removed_only_if_its_id_changes(member_id: str) -> None:
    """``maybeSubscribeStaticConsumerMember`` 4.0: tombstones and new records. A process that polls late keeps its
    id.
    """
    bench = bench_with_topics()
    assert beat(bench, "m1", instance="i-c1").error is E.NONE
    assert beat(bench, "m1", epoch=-2, instance="i-c1").error is E.NONE

    back = beat(bench, "m1", member_id=member_id, instance="i-c1")

    assert (back.error, owned_by(back)) == (E.NONE, {0, 1, 2, 3, 4, 5})
    removed = [(note.member_id, note.why) for note in bench.noted(MemberRemoved)]
    assert removed == ([] if member_id == "m1" else [("m1", "replaced by m2")])


def test_the_last_static_consumer_member_returns_as_a_classic_member() -> None:
    """testDowngradeByReplacingStaticMember...: the group is Stable at once, with the targets."""
    bench = bench_with_topics()
    ids = form(bench, {"c1": (0, 1, 2), "c2": (3, 4, 5)}, static=True)
    generation = bench.group.shared.generation
    beat(bench, "m1", instance="i-c1")

    back = bench.join("c1", instance="i-c1", data=subscription())

    assert (back.error, back.reply.generation) == (E.NONE, generation)
    assert bench.group.state is STABLE
    assert [note.protocol for note in bench.noted(GroupConverted)] == ["consumer", "classic"]
    told = bench.sync("c1", back.reply.member_id, generation, instance="i-c1")
    assert {n for _, n in synced(told)} == {0, 1, 2}
    assert bench.heartbeat("c2", ids["c2"], generation, instance="i-c2") is E.NONE


def test_a_single_static_consumer_member_returns_as_a_classic_member_with_either_id() -> None:
    """``validateOnlineDowngradeWithReplacedMember`` counts no other members, and looks only at the instance id."""
    for member_id in ("", "m1"):
        bench = bench_with_topics()
        epoch = beat(bench, "m1", instance="i-c1").reply.member_epoch

        back = bench.join("c1", member_id=member_id, instance="i-c1", data=subscription())

        assert (back.error, back.reply.generation) == (E.NONE, epoch)
        assert bench.group.state is STABLE
        assert list(bench.group.members.by_id) == [back.reply.member_id]


def test_topics_in_the_assignment_of_a_classic_member_have_the_order_of_the_map() -> None:
    """``Utils.toConsumerProtocolAssignment`` of a ``Map<Uuid, Set<Integer>>``."""
    bench = Bench()
    first, second = "00000000-0000-0000-0000-000000000002", "00000000-0000-0000-0000-000000000001"
    bench.feed(Told(KnowTopics(topics=(("t", first, 1), ("u", second, 2)))))
    data = encode_subscription(Subscription(("t", "u")))
    other = ConsumerGroupHeartbeat(
        group=GROUP, member_id="m1", member_epoch=0, rebalance_timeout_ms=REBALANCE_MS, topics=("other",), owned=()
    )
    bench.ask("m1", other, 1)
    join = bench.join_twice("c2", data=data)

    told = bench.sync("c2", join.reply.member_id, join.reply.generation)

    assert decode_assignment(told.reply.assignment).partitions == (("u", 0), ("u", 1), ("t", 0))


def test_partitions_of_a_member_whose_id_a_static_member_takes_are_free_only_later() -> None:
    """The coordinator replays the records of a heartbeat after it has answered: ``group::currentPartitionEpoch``."""
    bench = bench_with_topics()
    beat(bench, "m1")
    beat(bench, "s1", instance="i")
    beat(bench, "m1", 2, owned=())
    beat(bench, "s1", 2, owned=(), instance="i")
    held = current(bench, "m1")
    beat(bench, "s1", -2, instance="i")

    taken = beat(bench, "s2", instance="i", member_id="m1")

    assert held
    assert taken.error is E.NONE
    assert owned_by(taken) is not None
    assert not held & (owned_by(taken) or set())


def test_a_member_that_gets_an_instance_id_loses_its_partitions_until_the_next_target() -> None:
    """``ConsumerGroup.targetAssignment`` looks the target up by the instance, which no member has yet (raw requests of
    4.2.1 with the policy downgrade, seed 85051).
    """
    bench = bench_with_topics()
    beat(bench, "m1")
    join = bench.join_twice("c2", data=subscription())
    beat(bench, "m1", owned=(0, 1, 2))
    member_id = join.reply.member_id

    assert owned_by(beat(bench, "c2", member_id=member_id, instance="i-c2")) == set()
    assert owned_by(beat(bench, "c2", join.reply.generation, member_id=member_id, instance="i-c2")) is None

    beat(bench, "m3")
    beat(bench, "c2", join.reply.generation, member_id=member_id, instance="i-c2", owned=())
    assert modern(bench).working.current_of(member_id).assigned


def test_the_session_of_a_replaced_static_member_ends_without_effect() -> None:
    """``replaceMember`` cancels no timer; here another coordinator has the group at that time."""
    bench = bench_with_topics()
    beat(bench, "m1", instance="i")
    beat(bench, "m1", -2, instance="i")
    beat(bench, "m2", instance="i")
    bench.resign()

    bench.advance(60_000)

    assert not bench.noted(MemberRemoved)[1:]


# --- downgrade -------------------------------------------------------------------------------------------------------


def test_the_group_becomes_classic_when_its_last_consumer_member_leaves() -> None:
    """testLastConsumerProtocolMemberLeavingConsumerGroup: a rebalance of a classic group with the targets."""
    bench = bench_with_topics()
    first, member_id, epoch = mixed(bench)

    left = beat(bench, "m1", -1)

    assert (left.error, first.error) == (E.NONE, E.NONE)
    assert bench.group.state is PREPARING
    assert bench.group.shared.generation == epoch
    assert bench.heartbeat("c2", member_id, epoch) is E.REBALANCE_IN_PROGRESS
    again = bench.join("c2", member_id, data=subscription())
    assert (again.error, again.reply.generation, again.reply.leader) == (E.NONE, epoch + 1, member_id)


def test_the_classic_group_is_in_the_log() -> None:
    bench = bench_with_topics()
    _, member_id, epoch = mixed(bench)
    beat(bench, "m1", -1)

    bench.crash_and_restart()

    assert bench.group.state is STABLE
    assert list(bench.group.members.by_id) == [member_id]
    assert bench.group.shared.generation == epoch
    assert bench.group.members.by_id[member_id].assignment


@pytest.mark.parametrize("how", ["session", "admin"])
def test_the_group_becomes_classic_when_its_last_consumer_member_is_removed(how: str) -> None:
    """testLastConsumerProtocolMemberSessionTimeoutInConsumerGroup; LeaveGroup removes members of both protocols."""
    bench = bench_with_topics()
    _, member_id, epoch = mixed(bench)

    if how == "admin":
        assert bench.leave("admin", LeavingMember(member_id="m1")).error is E.NONE
    else:
        for _ in range(10):
            bench.heartbeat("c2", member_id, epoch)
            bench.advance(STEP_MS)

    assert isinstance(bench.coordinator.groups[GROUP], Group)
    assert bench.noted(GroupConverted)[-1].protocol == "classic"


@pytest.mark.parametrize("config", [{"group_consumer_migration_policy": "upgrade"}, {"group_max_size": 1}])
def test_the_policy_or_the_size_may_keep_the_consumer_group(config: dict[str, Any]) -> None:
    bench = bench_with_topics(**config)
    mixed(bench)
    bench.join_twice("c3", data=subscription())

    beat(bench, "m1", -1)

    assert all(member.classic for member in modern(bench).working.members.values())


def test_a_downgrade_that_cannot_be_written_leaves_the_consumer_group() -> None:
    bench = bench_with_topics()
    _, member_id, epoch = mixed(bench)
    bench.append_errors = [E.MESSAGE_TOO_LARGE]

    assert beat(bench, "m1", -1).error is E.UNKNOWN_SERVER_ERROR

    assert list(modern(bench).working.members) == ["m1", member_id]
    assert bench.heartbeat("c2", member_id, epoch) is E.NONE
    assert beat(bench, "m1", 1).error is E.NONE


def test_an_empty_consumer_group_becomes_classic_at_the_first_join() -> None:
    """testMaybeDeleteEmptyConsumerGroup: whatever the policy."""
    bench = bench_with_topics(group_consumer_migration_policy="disabled")
    beat(bench, "m1")
    bench.commit("m1", 7, member_id="m1", generation=1)
    beat(bench, "m1", -1)

    join = bench.join_twice("c1", data=subscription())
    bench.until_answered(join)

    assert (join.error, join.reply.generation) == (E.NONE, 1)
    assert bench.committed() == 7
    bench.crash_and_restart()
    assert isinstance(bench.coordinator.groups[GROUP], Group)
    assert bench.committed() == 7


def test_a_join_with_an_id_makes_the_coordinator_forget_an_empty_consumer_group() -> None:
    """Kafka deletes the group before it looks for the member, and writes no record: the log still has the group."""
    bench = bench_with_topics()
    for epoch in (0, -1):
        beat(bench, "m1", epoch)
    beat(bench, "m1")
    bench.commit("m1", 7, member_id="m1", generation=3)
    beat(bench, "m1", -1)

    assert bench.join("c1", member_id="c1", data=subscription()).error is E.UNKNOWN_MEMBER_ID

    described = bench.ask("tool", ConsumerGroupDescribe(groups=(GROUP,)), 0).reply.groups[0]
    assert described.error is E.GROUP_ID_NOT_FOUND
    assert bench.committed() == -1
    assert beat(bench, "m2").reply.member_epoch == 1
    assert bench.committed() == 7


def test_a_forgotten_consumer_group_is_loaded_again() -> None:
    bench = bench_with_topics()
    for epoch in (0, -1):
        beat(bench, "m1", epoch)
    bench.join("c1", member_id="c1", data=subscription())
    bench.crash_and_restart()
    bench.feed(Told(KnowTopics(topics=(("t", "T", COUNT),))))

    assert beat(bench, "m2").reply.member_epoch == 3


def test_the_join_timer_of_a_converted_group_raises_the_generation_of_the_next_classic_group() -> None:
    """``completeClassicGroupJoin`` of a group that is Empty: the generation rises, then the transition fails."""
    bench = bench_with_topics()
    bench.join_twice("c1", data=subscription())
    bench.leave("c1", LeavingMember(member_id=next(iter(bench.group.members.by_id))))
    beat(bench, "m1")
    beat(bench, "m1", -1)
    required = bench.join("c2", data=subscription())
    assert bench.group.state is EMPTY
    bench.advance(bench.coordinator.config.group_initial_rebalance_delay_ms)

    join = bench.join("c2", required.reply.member_id, data=subscription())
    bench.until_answered(join)

    assert join.reply.generation == 2


def test_a_leave_names_each_unknown_member() -> None:
    """testClassicGroupLeaveToConsumerGroup."""
    bench = bench_with_topics()
    _, member_id, _ = mixed(bench)
    beat(bench, "m3")

    left = bench.leave("c2", LeavingMember(member_id="ghost"), LeavingMember(member_id=member_id))

    assert [row.error for row in left.reply.members] == [E.UNKNOWN_MEMBER_ID, E.NONE]
    assert list(modern(bench).working.members) == ["m1", "m3"]


# --- releases --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["java", "java-4.1", "java-4.3"])
def test_a_replacement_with_another_subscription_rebalances(kind: str) -> None:
    """``GroupMetadataManager.classicGroupJoinToConsumerGroup`` 4.0.2, 4.1.1: the member is not reconciled."""
    bench = bench_with_topics(coordinator_kind=kind)
    form(bench, {"c1": (0, 1, 2), "c2": (3, 4, 5)}, static=True)
    beat(bench, "m1", instance="i-c1")

    back = bench.join("c1", instance="i-c1", data=subscription(topic="u"))

    assert bench.group.state is PREPARING
    assert back.reply.generation == 0


@pytest.mark.parametrize(("kind", "state", "epochs"), [("java-4.2", STABLE, 1), ("java-4.3", PREPARING, 0)])
def test_a_replacement_in_a_group_with_an_old_target_rebalances_since_4_3(
    kind: str, state: GroupState, epochs: int
) -> None:
    """``classicGroupJoinToConsumerGroup`` 4.2.1, 4.3.0; the leave of m3 raises the epoch and computes no target."""
    bench = bench_with_topics(coordinator_kind=kind, group_consumer_assignment_interval_ms=0)
    form(bench, {"c1": (0, 1, 2), "c2": (3, 4, 5)}, static=True)
    beat(bench, "m1", instance="i-c1")
    beat(bench, "m3")
    target_epoch = modern(bench).working.target_epoch
    beat(bench, "m3", -1)

    back = bench.join("c1", instance="i-c1", data=subscription())

    assert bench.group.state is state
    assert back.reply.generation == epochs * target_epoch


@pytest.mark.parametrize(("kind", "answer"), [("java-4.2", E.UNKNOWN_SERVER_ERROR), ("java-4.3", E.NONE)])
def test_a_member_without_a_target_keeps_a_group_from_becoming_classic_up_to_4_2(kind: str, answer: E) -> None:
    """``ClassicGroup.fromConsumerGroup`` 4.2.1, 4.3.0: a classic member that joins without topics has no target."""
    bench = bench_with_topics(coordinator_kind=kind)
    beat(bench, "m1")
    bench.advance(STEP_MS)
    bench.join_twice("c2", data=encode_subscription(Subscription(())))

    assert beat(bench, "m1", -1).error is answer
    assert isinstance(bench.coordinator.groups[GROUP], ModernGroup) is (answer is not E.NONE)


def test_a_protocol_named_twice_keeps_a_group_from_becoming_classic() -> None:
    """``ClassicGroup.selectProtocol``: it counts as two, so no protocol has the count of the members. A leave gets an
    error, and the end of a session is tried again after 500 ms, until the classic member is gone, too.
    Seed 71433 of the raw requests, Kafka 4.3.0.
    """
    bench = bench_with_topics(group_consumer_session_timeout_ms=2_000)
    beat(bench, "m1")
    join = bench.join_twice("c2", names=("sticky", "sticky"), data=subscription(), session_ms=6_000)
    bench.sync("c2", join.reply.member_id, join.reply.generation)

    assert beat(bench, "m1", -1).error is E.UNKNOWN_SERVER_ERROR
    bench.advance(5_900)
    assert set(modern(bench).working.members) == {"m1", join.reply.member_id}
    bench.advance(600)
    assert not modern(bench).working.members


@pytest.mark.parametrize("kind", ["java", "java-4.2", "java-4.3"])
def test_a_downgrade_has_kafkas_reason(kind: str) -> None:
    """``GroupMetadataManager.convertToClassicGroup`` 4.0.2; 4.2.1 in the plan 7-migration-down."""
    bench = bench_with_topics(coordinator_kind=kind)
    mixed(bench)

    beat(bench, "m1", -1)

    reasons = [note.why for note in bench.noted(GroupBecame) if note.new == PREPARING.value]
    assert reasons[-1] == f"Downgrade group {GROUP} from consumer to classic for member leaving."


@pytest.mark.parametrize(("kind", "answer"), [("java-4.2", E.REBALANCE_IN_PROGRESS), ("java-4.3", E.NONE)])
def test_a_heartbeat_compares_with_the_target_since_4_3(kind: str, answer: E) -> None:
    """``classicGroupHeartbeatToConsumerGroup`` 4.2.1, 4.3.0; a leave computes no target."""
    bench = bench_with_topics(coordinator_kind=kind)
    beat(bench, "m1")
    beat(bench, "m3")
    bench.advance(STEP_MS)
    join = bench.join_twice("c2", data=subscription())

    beat(bench, "m3", -1)

    assert bench.heartbeat("c2", join.reply.member_id, join.reply.generation) is answer
