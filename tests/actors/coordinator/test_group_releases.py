"""Decisions of earlier releases' coordinators (``actors.coordinator.rules``), at the named tags."""

import pytest
from attrs import evolve

from kemu.actors.coordinator.rules import GROUP_RULES
from kemu.actors.coordinator.state import COMPLETING, EMPTY, PREPARING, STABLE
from kemu.emulator.text.kafka_keys import CHOICES
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.group import LeavingMember, SyncGroup
from kemu.protocol.messages.records import GroupRecord, decode_record
from kemu.protocol.profiles import PROFILES
from tests.actors.coordinator.coordinator_harness import NEW_MEMBER_MS, REBALANCE_MS, SESSION_MS, Bench
from tests.actors.coordinator.test_group_static import completing
from tests.actors.coordinator.test_group_sync import ids_of, joined


@pytest.mark.parametrize(("kind", "error"), [("scala-2.4", E.REBALANCE_IN_PROGRESS), ("scala-2.6", E.NONE)])
def test_before_2_6_a_heartbeat_between_join_and_sync_is_refused_and_no_sign_of_life(kind: str, error: E) -> None:
    """GroupCoordinator.handleHeartbeat, CompletingRebalance: 2.5.1 answers 27 alone, 2.6.3 renews the session."""
    bench = Bench(coordinator_kind=kind)
    ids = ids_of(joined(bench, "c1", "c2"))

    bench.advance(SESSION_MS // 2)
    assert bench.heartbeat("c2", ids["c2"], 1) is error
    bench.advance(SESSION_MS // 2 + 1)

    assert (ids["c2"] in bench.group.members.by_id) is (error is E.NONE)


def test_before_2_6_a_member_that_is_told_to_join_again_beats_on_in_a_join_phase() -> None:
    """PreparingRebalance answers 27 in every release, and renews the session."""
    bench = Bench(coordinator_kind="scala-2.4")
    formed = bench.stable_group("c1", "c2")
    bench.join("c1", formed.ids["c1"])
    assert bench.group.state is PREPARING

    bench.advance(SESSION_MS // 2)
    assert bench.heartbeat("c2", formed.ids["c2"], 1) is E.REBALANCE_IN_PROGRESS
    bench.advance(SESSION_MS // 2 + 1)

    assert formed.ids["c2"] in bench.group.members.by_id


@pytest.mark.parametrize(("kind", "waits"), [("scala-2.6", True), ("scala", False)])
def test_before_2_8_1_a_leader_that_beats_and_never_syncs_holds_its_group_up(kind: str, waits: bool) -> None:
    """KAFKA-12890: GroupCoordinator.schedulePendingSync, in 3.0.0 and 2.8.1."""
    bench = Bench(coordinator_kind=kind)
    ids = ids_of(joined(bench, "c1", "c2"))
    follower = bench.sync("c2", ids["c2"], 1)

    for _ in range(REBALANCE_MS // (SESSION_MS // 2) + 1):
        for client, member_id in ids.items():
            bench.heartbeat(client, member_id, 1)
        bench.advance(SESSION_MS // 2)

    assert (follower.reply is None) is waits
    assert (bench.group.state is COMPLETING) is waits
    assert (ids["c1"] in bench.group.members.by_id) is waits


@pytest.mark.parametrize(("kind", "written"), [("scala-2.4", False), ("scala-2.6", True)])
def test_before_2_6_the_new_id_of_a_static_member_is_not_in_the_log(kind: str, written: bool) -> None:
    """GroupCoordinator.doUnknownJoinGroup 2.4.1 (Stable); 2.6.3 updateStaticMemberAndRebalance: storeGroup."""
    bench = Bench(coordinator_kind=kind)
    bench.stable_group("c1", "c2", static=True)

    again = bench.join("c2", instance="i-c2")

    assert (again.error, bench.group.state) == (E.NONE, STABLE)
    record = decode_record(*bench.log()[-1])
    assert isinstance(record, GroupRecord) and record.metadata is not None
    assert (again.reply.member_id in {member.member_id for member in record.metadata.members}) is written


@pytest.mark.parametrize(("kind", "state"), [("scala-2.4", COMPLETING), ("scala-2.6", PREPARING)])
def test_before_2_6_a_static_member_that_returns_amid_an_assignment_gets_an_empty_one(kind: str, state: object) -> None:
    """KAFKA-9801: the leader assigns to the old id; since then its return in CompletingRebalance begins anew."""
    bench = Bench(coordinator_kind=kind)
    joins = completing(bench, "c1", "c2")
    leader = joins["c1"].reply.leader
    other = next(client for client, join in joins.items() if join.reply.member_id != leader)
    lead = next(client for client in joins if client != other)

    again = bench.join(other, instance=f"i-{other}")
    assert bench.group.state is state
    if state is PREPARING:
        return
    assert again.error is E.NONE
    sync = bench.sync(other, again.reply.member_id, 1, instance=f"i-{other}")
    old = joins[other].reply.member_id
    bench.sync(lead, leader, 1, instance=f"i-{lead}", assignments={leader: b"\0\1", old: b"\0\1"})
    bench.release()

    assert (sync.error, sync.reply.assignment) == (E.NONE, b"")


def test_every_kind_can_be_chosen_and_every_profile_has_one() -> None:
    assert set(CHOICES["coordinator.kind"]) == set(GROUP_RULES)
    assert {profile.broker.coordinator_kind for profile in PROFILES.values()} == set(GROUP_RULES)


@pytest.mark.parametrize(("kind", "removed"), [("scala", True), ("java", False)])
def test_before_4_0_a_static_member_replaced_before_its_first_generation_goes_with_its_session(
    kind: str, removed: bool
) -> None:
    """GroupMetadata.replaceStaticMember (3.4.1) keeps the member object and its isNew.

    So its parked join is no sign of life, and the replaced member's session runs on. ClassicGroup.replaceStaticMember
    (4.0) makes a member that is not new. Seen on a real 3.4.1.
    """
    bench = Bench(coordinator_kind=kind)
    short_ms = 6_000
    bench.stable_group("c2", session_ms=REBALANCE_MS)  # it does not rejoin, which keeps the join phase open
    first = bench.join("c1", instance="i1", session_ms=short_ms)
    second = bench.join("c1", instance="i1", session_ms=SESSION_MS)
    assert first.error is E.FENCED_INSTANCE_ID

    bench.advance(short_ms + 1)

    assert second.error is (E.UNKNOWN_MEMBER_ID if removed else None)
    assert ("i1" in bench.group.members.static) is not removed


@pytest.mark.parametrize("kind", sorted(GROUP_RULES))
def test_a_first_member_that_names_a_protocol_twice_waits_for_ever(kind: str) -> None:
    """GroupMetadata.incSupportedProtocols counts the name twice, so no protocol counts as supported by all.

    MemberMetadata.vote throws on the timer's thread (3.4.1), after the generation was counted;
    ClassicGroup.selectProtocol (4.0) likewise. Seen on a real 3.4.1.
    """
    bench = Bench(coordinator_kind=kind)
    first = bench.join_twice("c1", names=("range", "range"))
    bench.advance(REBALANCE_MS)

    assert (first.reply, bench.group.state, bench.group.shared.generation) == (None, PREPARING, 1)
    assert bench.join("c2").error is E.INCONSISTENT_GROUP_PROTOCOL
    assert bench.heartbeat("c1", first.request.member_id, 1) is E.REBALANCE_IN_PROGRESS

    bench.resign()
    assert first.error is E.NOT_COORDINATOR
    bench.lead("g")
    assert bench.stable_group("c2").generation == 1


@pytest.mark.parametrize(("kind", "over"), [("scala-2.4", True), ("scala", True), ("java", False)])
def test_a_member_that_comes_back_with_a_protocol_twice_wedges_its_group_in_4_0_until_it_leaves(
    kind: str, over: bool
) -> None:
    """The join that ends the phase gets the exception, UNKNOWN_SERVER_ERROR. To 3.9 the DelayedJoin is completed by
    then and no other begins (DelayedOperation.forceComplete, GroupCoordinator.prepareRebalance 3.4.1); in 4.0 each
    join and leave tries again (GroupMetadataManager.maybeCompleteJoinPhase).
    """
    bench = Bench(coordinator_kind=kind)
    leader = bench.stable_group("c1").ids["c1"]

    failed = bench.join("c1", leader, names=("range", "range"))
    assert (failed.error, failed.reply.member_id) == (E.UNKNOWN_SERVER_ERROR, ""), "the answer names nobody"
    assert (bench.group.state, bench.group.shared.generation) == (PREPARING, 2)
    assert bench.join("c1", leader).error is E.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join("c2").error is E.INCONSISTENT_GROUP_PROTOCOL
    bench.leave("c1", LeavingMember(member_id=leader))

    assert bench.group.state is (PREPARING if over else EMPTY)
    later = bench.join_twice("c2")
    bench.advance(NEW_MEMBER_MS - 1)
    assert later.error is (None if over else E.NONE)


def test_a_protocol_that_one_names_twice_and_another_never_counts_as_everybodys() -> None:
    """GroupMetadata.candidateProtocols (3.4.1) counts names, not members: two of one member are as good as two members.
    It wins the tied vote by its hash, and computeSubscribedTopics throws at the member that does not know it.
    """
    bench = Bench(coordinator_kind="scala")
    first = bench.join_twice("c1", names=("range", "range", "sticky"))
    second = bench.join_twice("c2", names=("sticky",))
    bench.advance(2 * REBALANCE_MS)

    assert (first.reply, second.reply, bench.group.state) == (None, None, PREPARING)


@pytest.mark.parametrize("kind", sorted(GROUP_RULES))
def test_a_sync_that_names_a_protocol_before_any_vote_is_inconsistent_to_3_9(kind: str) -> None:
    """GroupCoordinator.validateSyncGroup (3.4.1): no name contains another; 4.0 compares two names only
    (GroupMetadataManager.isProtocolInconsistent). Seen on a real 3.4.1.
    """
    bench = Bench(coordinator_kind=kind)
    first = bench.join_twice("c1")
    sync = SyncGroup(
        group="g",
        generation=0,
        member_id=first.request.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(),
    )

    error = bench.ask("c1", sync, 5).error
    assert error is (E.REBALANCE_IN_PROGRESS if kind.startswith("java") else E.INCONSISTENT_GROUP_PROTOCOL)
    assert bench.ask("c1", evolve(sync, protocol_name=None), 4).error is E.REBALANCE_IN_PROGRESS
