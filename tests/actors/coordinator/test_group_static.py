"""Static members (KIP-345): fencing, replacement, and missed join phases."""

import pytest

from kemu.actors.coordinator.state import COMPLETING, EMPTY, PREPARING, STABLE
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.group import LeavingMember
from kemu.protocol.messages.records import GroupRecord, decode_record
from kemu.protocol.notes.groups import LeaderElected, MemberAdded, MemberRemoved
from tests.actors.coordinator.coordinator_harness import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, Ask, Bench, metadata
from tests.actors.coordinator.scenarios import scenario


def completing(bench: Bench, *clients: str, **how: object) -> dict[str, Ask]:
    """A group of static members in CompletingRebalance."""
    joins = {client: bench.join(client, instance=f"i-{client}", **how) for client in clients}
    bench.until_answered(*joins.values())
    return joins


@scenario("S060")
@pytest.mark.parametrize("version", [5, 9])
def test_a_static_first_member_is_never_sent_back_for_an_id(version: int) -> None:
    """S060 testStaticMemberJoinAsFirstMember."""
    bench = Bench()

    join = bench.join("c1", instance="i", version=version)

    assert join.reply is None
    bench.advance(DELAY_MS)
    assert join.error is E.NONE
    assert join.reply.member_id.startswith("i-")


@scenario("S061")
def test_a_known_instance_with_another_member_id_is_fenced() -> None:
    """S061 testStaticMemberRejoinWithExplicitUnknownMemberId."""
    bench = Bench()
    bench.stable_group("c1", static=True)

    assert bench.join("c1", "ghost", instance="i-c1").error is E.FENCED_INSTANCE_ID


@scenario("S062")
def test_an_unknown_instance_with_a_member_id_is_unknown() -> None:
    """S062 testStaticMemberJoinWithUnknownInstanceIdAndKnownMemberId."""
    bench = Bench()
    formed = bench.stable_group("c1", static=True)

    assert bench.join("c2", formed.ids["c1"], instance="i-other").error is E.UNKNOWN_MEMBER_ID


@scenario("S063")
def test_a_second_join_of_the_instance_fences_the_parked_first() -> None:
    """S063 testJoinGroupReplaceStaticMember."""
    bench = Bench()
    first = bench.join("c1", instance="i")
    (old,) = bench.group.members.by_id

    second = bench.join("c1", instance="i")

    assert (first.error, first.reply.member_id) == (E.FENCED_INSTANCE_ID, old)
    assert (first.reply.generation, first.reply.leader) == (-1, "")
    assert len(bench.group.members) == 1
    bench.advance(DELAY_MS)
    assert second.error is E.NONE
    assert second.reply.member_id != old


@scenario("S066")
def test_the_original_id_is_fenced_after_a_replacement() -> None:
    """S066 testStaticMemberFenceDuplicateRejoiningFollowerAfterMemberIdChanged."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True)
    bench.join("c2", instance="i-c2")

    again = bench.join("c2", formed.ids["c2"], instance="i-c2")

    assert (again.error, again.reply.member_id) == (E.FENCED_INSTANCE_ID, formed.ids["c2"])
    assert bench.heartbeat("c2", formed.ids["c2"], 1, instance="i-c2") is E.FENCED_INSTANCE_ID
    assert bench.heartbeat("c2", formed.ids["c2"], 1) is E.UNKNOWN_MEMBER_ID


@scenario("S067")
@pytest.mark.parametrize("version", [8, 9])
def test_a_leader_that_restarts_in_a_stable_group_causes_no_rebalance(version: int) -> None:
    """S067 testStaticMemberRejoinWithLeaderIdAndUnknownMemberId; KIP-814."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True)
    old = formed.leader

    reply = bench.join("c1", instance="i-c1", version=version).reply

    assert (reply.error, reply.generation, bench.group.state) == (E.NONE, 1, STABLE)
    assert reply.member_id != old
    if version >= 9:
        assert (reply.leader, reply.skip_assignment) == (reply.member_id, True)
        assert sorted(row.member_id for row in reply.members) == sorted([reply.member_id, formed.ids["c2"]])
    else:
        assert (reply.leader, reply.skip_assignment, reply.members) == (old, False, ())
    assert bench.group.members.leader == reply.member_id
    assert bench.join("c1", old, instance="i-c1").error is E.FENCED_INSTANCE_ID
    assert bench.sync("c1", old, 1).error is E.UNKNOWN_MEMBER_ID
    sync = bench.sync("c1", reply.member_id, 1, instance="i-c1")
    assert sync.reply.assignment == b"for-c1"


@scenario("S068")
def test_a_replacement_is_in_the_log_before_it_is_answered() -> None:
    """S068 testReplaceStaticMemberInStableStateNoError."""
    bench = Bench()
    bench.stable_group("c1", "c2", static=True)
    bench.hold_appends = True

    join = bench.join("c2", instance="i-c2", data=metadata("u"), session_ms=20_000, rebalance_ms=30_000)
    assert join.reply is None
    bench.release()

    found = decode_record(*bench.log()[-1])
    assert isinstance(found, GroupRecord) and found.metadata is not None
    stored = {member.instance_id: member for member in found.metadata.members}["i-c2"]
    assert (stored.member_id, stored.assignment) == (join.reply.member_id, b"for-c2")
    assert (stored.session_timeout_ms, stored.rebalance_timeout_ms) == (20_000, 30_000)
    assert stored.subscription == metadata("u")
    assert bench.group.state is STABLE


@scenario("S070")
def test_a_replacement_that_changes_the_vote_rebalances() -> None:
    """S070 testReplaceStaticMemberInStableStateWithUpdatedProtocolTriggersRebalance."""
    bench = Bench()
    bench.stable_group("c1", "c2", static=True, names=("range", "roundrobin"))

    join = bench.join("c2", instance="i-c2", names=("roundrobin",))

    assert (join.reply, bench.group.state) == (None, PREPARING)


@scenario("S071")
def test_a_replacement_while_the_assignment_is_awaited_rebalances() -> None:
    """S071 testReplaceStaticMemberInCompletingRebalanceStateTriggersRebalance."""
    bench = Bench()
    joins = completing(bench, "c1", "c2")
    old = joins["c2"].reply.member_id
    other = bench.sync("c2", old, 1, instance="i-c2")

    join = bench.join("c2", instance="i-c2")

    assert other.error is E.FENCED_INSTANCE_ID
    assert (join.reply, bench.group.state) == (None, PREPARING)
    bench.join("c1", joins["c1"].reply.member_id, instance="i-c1")
    assert join.reply.generation == 2


def test_a_replacement_during_a_join_phase_only_takes_the_place() -> None:
    """PreparingRebalance -> just try to complete the join phase."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True)
    leader = bench.join("c1", formed.leader, instance="i-c1")
    assert bench.group.state is PREPARING

    join = bench.join("c2", instance="i-c2")

    assert (leader.reply.generation, join.reply.generation) == (2, 2)


@scenario("S072")
def test_a_follower_that_restarts_keeps_its_assignment() -> None:
    """S072 testStaticMemberRejoinAsFollowerWithUnknownMemberId."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True)

    reply = bench.join("c2", instance="i-c2").reply

    assert (reply.error, reply.generation, reply.leader) == (E.NONE, 1, formed.leader)
    assert (reply.members, reply.skip_assignment) == ((), False)
    assert bench.sync("c2", reply.member_id, 1, instance="i-c2").reply.assignment == b"for-c2"
    assert bench.group.state is STABLE
    (removed,) = bench.noted(MemberRemoved)
    assert removed.member_id == formed.ids["c2"]
    assert bench.noted(MemberAdded)[-1].instance_id == "i-c2"


def test_only_the_selected_protocols_name_matters_on_a_static_restart() -> None:
    """A changed subscription alone does not rebalance on a static restart."""
    bench = Bench()
    bench.stable_group("c1", "c2", static=True)

    join = bench.join("c2", instance="i-c2", data=metadata("another"))

    assert (join.error, bench.group.state) == (E.NONE, STABLE)


@scenario("S074")
def test_fewer_protocols_without_a_change_of_the_vote_do_not_rebalance() -> None:
    """S074 testStaticMemberRejoinWithUnknownMemberIdAndChangeOfProtocolWhileSelectProtocolUnchanged."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True, names=("range", "roundrobin"))

    join = bench.join("c2", instance="i-c2", names=("range",))

    assert (join.error, bench.group.state) == (E.NONE, STABLE)
    old = formed.ids["c2"]
    assert bench.join("c2", old, instance="i-c2").error is E.FENCED_INSTANCE_ID
    assert bench.sync("c2", old, 1, instance="i-c2").error is E.FENCED_INSTANCE_ID


@scenario("S075")
def test_a_followers_instance_with_the_leaders_id_is_fenced() -> None:
    """S075 testStaticMemberRejoinAsFollowerWithMismatchedInstanceId."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True)

    assert bench.join("c2", formed.leader, instance="i-c2").error is E.FENCED_INSTANCE_ID


@scenario("S076")
def test_a_wrong_member_id_for_the_instance_is_fenced_in_sync_and_heartbeat() -> None:
    """S076 testStaticMemberSyncAsLeaderWithInvalidMemberId (and testStaticMemberHeartbeatLeaderWithInvalidMemberId)."""
    bench = Bench()
    formed = bench.stable_group("c1", static=True)

    assert bench.sync("c1", "ghost", 1, instance="i-c1").error is E.FENCED_INSTANCE_ID
    assert bench.heartbeat("c1", "ghost", 1, instance="i-c1") is E.FENCED_INSTANCE_ID
    assert bench.heartbeat("c1", formed.leader, 1, instance="i-c1") is E.NONE


@scenario("S077")
def test_a_silent_static_leader_stays_a_member_and_another_leads() -> None:
    """S077 testStaticMemberLeaderFailToRejoinBeforeRebalanceTimeout."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True, session_ms=600_000)
    follower = bench.join("c2", formed.ids["c2"], instance="i-c2", data=metadata("u"), session_ms=600_000)

    bench.advance(REBALANCE_MS)

    assert follower.reply.leader == formed.ids["c2"]
    assert {row.member_id: row.metadata for row in follower.reply.members} == {
        formed.ids["c1"]: metadata("t"),
        formed.ids["c2"]: metadata("u"),
    }
    assert bench.noted(LeaderElected)[-1].member_id == formed.ids["c2"]
    # One that missed the phase holds an old generation; a dynamic one would be unknown.
    assert bench.heartbeat("c1", formed.ids["c1"], 1, instance="i-c1") is E.ILLEGAL_GENERATION


def test_a_static_member_that_missed_the_phase_falls_to_the_sync_timer() -> None:
    """PendingSync holds all members at join completion, also static ones that did not rejoin."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True, session_ms=600_000)
    bench.join("c2", formed.ids["c2"], instance="i-c2", data=metadata("u"), session_ms=600_000)
    bench.advance(REBALANCE_MS)
    bench.sync("c2", formed.ids["c2"], 2, {formed.ids["c2"]: b"all"}, instance="i-c2")
    assert bench.group.state is STABLE

    bench.advance(REBALANCE_MS)

    assert formed.ids["c1"] not in bench.group.members.by_id
    assert bench.group.state is PREPARING


def test_silent_static_members_alone_hold_the_group_in_its_join_phase() -> None:
    """The join timer is re-armed until their sessions expire."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True, session_ms=200_000)
    dynamic = bench.join_twice("c3")
    bench.leave("c3", LeavingMember(member_id=next(m.member_id for m in bench.group.members if m.is_new)))
    assert dynamic.error is E.UNKNOWN_MEMBER_ID
    assert bench.group.state is PREPARING

    bench.advance(2 * REBALANCE_MS)
    assert (bench.group.state, bench.group.shared.generation, len(bench.group.members)) == (PREPARING, 1, 2)
    assert bench.left_ms("join", GROUP) == REBALANCE_MS
    bench.advance(200_000)

    assert (bench.group.state, bench.group.shared.generation) == (EMPTY, 2)
    assert formed.leader not in bench.group.members.by_id


def test_a_replaced_member_that_never_synced_still_triggers_the_sync_timer() -> None:
    """A static replacement in Stable does not take the old id out of pendingSync."""
    bench = Bench()
    joins = completing(bench, "c1", "c2", session_ms=600_000)
    leader = joins["c1"].reply.member_id
    bench.sync("c1", leader, 1, {leader: b"all"}, instance="i-c1")
    restarted = bench.join("c2", instance="i-c2", session_ms=600_000)
    bench.sync("c2", restarted.reply.member_id, 1, instance="i-c2")
    assert bench.group.state is STABLE

    bench.advance(REBALANCE_MS)

    assert bench.group.state is PREPARING
    assert len(bench.group.members) == 2


def test_a_replacement_that_cannot_be_written_is_taken_back() -> None:
    """Append failure: revert id, protocols, timeouts, session timer; answer the mapped error."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True, names=("range", "roundrobin"))
    bench.append_errors = [E.NOT_ENOUGH_REPLICAS]

    join = bench.join("c1", instance="i-c1", names=("range",), session_ms=20_000, rebalance_ms=1)

    assert (join.error, join.reply.member_id) == (E.COORDINATOR_NOT_AVAILABLE, "")
    assert (join.reply.generation, join.reply.leader) == (1, formed.leader)
    member = bench.group.members.by_id[formed.leader]
    assert [own.name for own in member.protocols] == ["range", "roundrobin"]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (SESSION_MS, REBALANCE_MS)
    assert bench.group.members.leader == formed.leader
    assert bench.left_ms("session", GROUP, formed.leader) == SESSION_MS
    assert bench.heartbeat("c1", formed.leader, 1, instance="i-c1") is E.NONE


def test_a_replacement_that_fails_after_others_joined_on_it_keeps_its_protocols() -> None:
    """Restoring the old list then could leave the group without a protocol that all support."""
    bench = Bench()
    formed = bench.stable_group("c1", static=True)
    slow = bench.join("c3", names=("range",)).reply.member_id
    bench.hold_appends = True
    bench.join("c1", instance="i-c1", names=("range", "roundrobin"))
    newcomer = bench.join("c2", instance="i-c2", names=("roundrobin",))
    assert bench.group.state is PREPARING

    bench.release(E.NOT_ENOUGH_REPLICAS)

    assert formed.leader in bench.group.members.by_id
    bench.join("c1", formed.leader, instance="i-c1", names=("range", "roundrobin"))
    bench.leave("c3", LeavingMember(member_id=slow))
    assert newcomer.reply.protocol_name == "roundrobin"


def test_a_replacement_of_a_replacement_fences_the_one_between() -> None:
    """While the first is being written, a parked join of the old id is answered 82."""
    bench = Bench()
    bench.stable_group("c1", "c2", static=True)
    bench.hold_appends = True
    second = bench.join("c2", instance="i-c2")
    third = bench.join("c2", instance="i-c2")
    assert second.error is E.FENCED_INSTANCE_ID

    bench.release()

    assert (third.error, third.reply.generation) == (E.NONE, 1)
    assert bench.group.members.static["i-c2"] == third.reply.member_id


def test_a_rebalance_during_the_write_of_a_replacement_answers_its_join_once() -> None:
    """KIP-814 leaders are left to the join phase, which has a list to give; followers hear the old generation."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", "c4", static=True)
    bench.hold_appends = True
    leader = bench.join("c1", instance="i-c1")
    follower = bench.join("c2", instance="i-c2")
    bench.join("c3", instance="i-c3")
    assert (bench.group.state, leader.reply, follower.reply) == (PREPARING, None, None)

    bench.release()

    assert (leader.reply, follower.reply.generation) == (None, formed.generation)
    bench.advance(REBALANCE_MS)
    assert leader.reply.generation == 2


def test_a_static_restart_does_not_lose_its_session_timer_to_a_slow_log() -> None:
    """A timer that fires while the replacement is written is ignored as for any parked join, and runs on."""
    bench = Bench()
    bench.stable_group("c1", "c2", static=True)
    bench.hold_appends = True
    join = bench.join("c2", instance="i-c2")
    (new_id,) = [m.member_id for m in bench.group.members if m.instance_id == "i-c2"]
    bench.beat("c1", bench.group.members.leader or "", 1, instance="i-c1")
    bench.advance(SESSION_MS - 1)
    bench.beat("c1", bench.group.members.leader or "", 1, instance="i-c1")
    bench.advance(1)
    bench.release()

    assert join.error is E.NONE
    assert bench.left_ms("session", GROUP, new_id) == SESSION_MS


def test_a_completing_group_keeps_static_ids_that_rejoin_unchanged() -> None:
    """A static member with a known id rejoins as a dynamic one does."""
    bench = Bench()
    joins = completing(bench, "c1", "c2")

    again = bench.join("c2", joins["c2"].reply.member_id, instance="i-c2")

    assert (again.error, again.reply.generation, bench.group.state) == (E.NONE, 1, COMPLETING)
