"""SyncGroup, Heartbeat and LeaveGroup, and the timers behind them."""

from collections.abc import Callable
from itertools import combinations

import pytest

from kemu.actors.coordinator.state import COMPLETING, EMPTY, PREPARING, STABLE
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.group import LeaveGroup, LeavingMember
from kemu.protocol.messages.records import GroupRecord, decode_record
from kemu.protocol.names import NO_GENERATION
from kemu.protocol.notes.groups import JoinPhaseCompleted, LeaderElected, MemberRemoved
from tests.actors.coordinator.coordinator_harness import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, Ask, Bench, metadata
from tests.actors.coordinator.scenarios import scenario


def joined(bench: Bench, *clients: str, **how: object) -> dict[str, Ask]:
    """A group in CompletingRebalance: everybody has joined, nobody has synced."""
    joins = {client: bench.join_twice(client, **how) for client in clients}
    bench.until_answered(*joins.values())
    assert bench.group.state is COMPLETING
    return joins


def ids_of(joins: dict[str, Ask]) -> dict[str, str]:
    """Client -> member id."""
    return {client: join.reply.member_id for client, join in joins.items()}


# --- sync ----------------------------------------------------------------------------------------------------------


@scenario("S041")
def test_an_unknown_member_gets_no_assignment() -> None:
    """S041 testSyncGroupFromUnknownMember."""
    bench = Bench()
    formed = bench.stable_group("c1")

    sync = bench.sync("c2", "ghost", formed.generation)

    assert (sync.error, sync.reply.assignment) == (E.UNKNOWN_MEMBER_ID, b"")


@scenario("S042")
@pytest.mark.parametrize("off_by", [-1, 1])
def test_a_sync_of_another_generation_is_refused(off_by: int) -> None:
    """S042 testSyncGroupFromIllegalGeneration."""
    bench = Bench()
    formed = bench.stable_group("c1")

    assert bench.sync("c1", formed.leader, formed.generation + off_by).error is E.ILLEGAL_GENERATION


@scenario("S043")
@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({"protocol_type": "connect", "protocol": "range"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol": "sticky"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol": "range"}, E.NONE),
        ({"protocol_type": None, "protocol": None, "version": 4}, E.NONE),
    ],
)
def test_a_protocol_that_is_named_must_be_the_groups(named: dict, error: E) -> None:
    """S043 testSyncGroupReturnsAnErrorWhenProtocolTypeIsInconsistent."""
    bench = Bench()
    formed = bench.stable_group("c1")

    assert bench.sync("c1", formed.leader, formed.generation, **named).error is error


@pytest.mark.parametrize("named", [{"protocol_type": None}, {"protocol": None}])
def test_from_v5_a_sync_must_name_its_protocol(named: dict) -> None:
    """SyncGroup v5+ with null protocolType or protocolName -> 23, before anything else."""
    bench = Bench()

    assert bench.sync("c1", "ghost", 1, group="nope", **named).error is E.INCONSISTENT_GROUP_PROTOCOL


@scenario("S044")
def test_after_the_leader_a_follower_is_answered_at_once() -> None:
    """S044 testSyncGroupFollowerAfterLeader."""
    bench = Bench()
    joins = joined(bench, "c1", "c2")
    ids = ids_of(joins)
    leader = bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"one", ids["c2"]: b"two"})
    assert (leader.reply.assignment, bench.group.state) == (b"one", STABLE)

    follower = bench.sync("c2", ids["c2"], 1)

    assert (follower.error, follower.reply.assignment) == (E.NONE, b"two")
    assert (follower.reply.protocol_type, follower.reply.protocol_name) == ("consumer", "range")


@scenario("S045")
def test_before_the_leader_a_follower_waits_until_the_assignment_is_in_the_log() -> None:
    """S045 testSyncGroupLeaderAfterFollower."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2"))
    bench.hold_appends = True

    follower = bench.sync("c2", ids["c2"], 1)
    leader = bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"one", ids["c2"]: b"two"})
    assert (follower.reply, leader.reply, bench.group.state) == (None, None, COMPLETING)
    bench.release()

    assert (follower.reply.assignment, leader.reply.assignment) == (b"two", b"one")
    assert bench.group.state is STABLE


def test_what_a_follower_assigns_is_ignored() -> None:
    """Follower assignments in a non-leader's request are ignored."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2"))

    bench.sync("c2", ids["c2"], 1, {ids["c1"]: b"x", ids["c2"]: b"x"})

    assert bench.group.state is COMPLETING
    assert bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"one"}).reply.assignment == b"one"


def test_who_is_left_out_gets_empty_bytes_and_strangers_are_ignored() -> None:
    """Assignments of unknown member ids are dropped."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2"))
    follower = bench.sync("c2", ids["c2"], 1)

    bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"one", "stranger": b"x"})

    assert (follower.error, follower.reply.assignment) == (E.NONE, b"")
    found = decode_record(*bench.log()[-1])
    assert isinstance(found, GroupRecord) and found.metadata is not None
    assert [(m.member_id, m.assignment) for m in found.metadata.members] == [(ids["c1"], b"one"), (ids["c2"], b"")]


@scenario("S047")
def test_a_failed_append_of_the_assignment_is_told_and_the_group_tries_again() -> None:
    """S047 testSyncGroupAsLeaderAppendFailureTransformsError."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2"))
    bench.append_errors = [E.NOT_LEADER_OR_FOLLOWER]
    follower = bench.sync("c2", ids["c2"], 1)

    leader = bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"one", ids["c2"]: b"two"})

    assert (follower.error, leader.error) == (E.NOT_COORDINATOR, E.NOT_COORDINATOR)
    assert bench.group.state is PREPARING
    assert all(member.assignment == b"" for member in bench.group.members)


def test_a_rebalance_meanwhile_makes_a_written_assignment_void() -> None:
    """If state/generation changed meanwhile: do nothing."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2"))
    bench.hold_appends = True
    leader = bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"one", ids["c2"]: b"two"})
    again = bench.join("c2", ids["c2"], data=metadata("u"))
    assert (leader.error, bench.group.state) == (E.REBALANCE_IN_PROGRESS, PREPARING)

    bench.release()

    assert (again.reply, bench.group.state) == (None, PREPARING)
    assert all(member.assignment == b"" for member in bench.group.members)


def test_two_syncs_of_the_leader_make_the_group_stable_once() -> None:
    """The retry supersedes; the second append finds the group Stable and does nothing."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1"))
    bench.hold_appends = True
    first = bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"one"})
    second = bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"two"})

    bench.release()

    assert (first.reply, second.reply.assignment, bench.group.state) == (None, b"one", STABLE)


@scenario("S048")
def test_a_leader_that_dies_before_its_sync_sends_the_followers_back_to_join() -> None:
    """S048 testLeaderFailureInSyncGroup."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2"))
    follower = bench.sync("c2", ids["c2"], 1)

    bench.advance(SESSION_MS)

    assert follower.error is E.REBALANCE_IN_PROGRESS
    assert bench.group.state is PREPARING
    assert ids["c1"] not in bench.group.members.by_id
    assert bench.noted(LeaderElected)[-1].member_id == ids["c2"]


@scenario("S049")
def test_members_that_never_sync_are_removed_although_they_heartbeat() -> None:
    """S049 testRebalanceTimesOutWhenSyncRequestIsNotReceived."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2"))
    for _ in range(REBALANCE_MS // 5_000 - 1):
        bench.advance(5_000)
        assert {bench.heartbeat(client, ids[client], 1) for client in ids} == {E.NONE}

    bench.advance(5_000)

    assert (bench.group.state, bench.group.shared.generation) == (EMPTY, 2)
    found = decode_record(*bench.log()[-1])
    assert isinstance(found, GroupRecord) and found.metadata is not None
    assert (found.metadata.generation, found.metadata.members) == (2, ())
    assert {bench.heartbeat(client, ids[client], 1) for client in ids} == {E.UNKNOWN_MEMBER_ID}


def test_the_sync_timer_fires_in_stable_too() -> None:
    """A follower that joins but never syncs is thrown out."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2"))
    bench.sync("c1", ids["c1"], 1, {ids["c1"]: b"one"})
    assert bench.group.state is STABLE
    for _ in range(REBALANCE_MS // 5_000):
        bench.heartbeat("c1", ids["c1"], 1)
        bench.heartbeat("c2", ids["c2"], 1)
        bench.advance(5_000)

    assert bench.group.state is PREPARING
    assert [note.member_id for note in bench.noted(MemberRemoved)] == [ids["c2"]]


@scenario("S052")
def test_when_all_have_synced_the_sync_timer_is_off() -> None:
    """S052 testRebalanceDoesNotTimeOutWhenAllSyncAreReceived."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    assert bench.left_ms("sync", GROUP) is None

    for _ in range(30):
        bench.advance(5_000)
        assert {bench.heartbeat(c, m, formed.generation) for c, m in formed.ids.items()} == {E.NONE}


def test_a_sync_during_the_join_phase_is_sent_back() -> None:
    """PreparingRebalance -> 27."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    bench.join_twice("c3")

    assert bench.sync("c1", formed.ids["c1"], 1).error is E.REBALANCE_IN_PROGRESS


# --- heartbeat / session -------------------------------------------------------------------------------------------


@scenario("S053")
def test_heartbeats_to_unknown_dead_and_empty_groups() -> None:
    """S053 testHeartbeatUnknownGroup (and testHeartbeatDeadGroup, testHeartbeatEmptyGroup)."""
    bench = Bench()
    assert bench.heartbeat("c1", "m", 1) is E.UNKNOWN_MEMBER_ID

    bench.join("c1")
    assert bench.group.state is EMPTY
    assert bench.heartbeat("c1", "m", NO_GENERATION) is E.UNKNOWN_MEMBER_ID
    bench.group.die("test")
    assert bench.heartbeat("c1", "m", 1) is E.COORDINATOR_NOT_AVAILABLE


@scenario("S054")
def test_heartbeats_by_state() -> None:
    """S054 testHeartbeatDuringPreparingRebalance: 0 in CompletingRebalance, 27 in PreparingRebalance."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2"))
    assert bench.heartbeat("c1", ids["c1"], 1) is E.NONE
    bench.sync("c1", ids["c1"], 1, {})
    bench.sync("c2", ids["c2"], 1)
    assert bench.heartbeat("c1", ids["c1"], 1) is E.NONE
    assert bench.heartbeat("c1", ids["c1"], 2) is E.ILLEGAL_GENERATION

    bench.join("c1", ids["c1"])

    assert bench.heartbeat("c2", ids["c2"], 1) is E.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("state", [COMPLETING, STABLE, PREPARING])
def test_every_answered_heartbeat_rearms_the_session(state: object) -> None:
    """27 re-arms too; exactly at the deadline the member expires."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2"))
    if state is not COMPLETING:
        bench.sync("c1", ids["c1"], 1, {})
        bench.sync("c2", ids["c2"], 1)
    if state is PREPARING:
        bench.join("c2", ids["c2"], data=metadata("u"))
    assert bench.group.state is state
    bench.advance(SESSION_MS - 1)

    bench.heartbeat("c1", ids["c1"], 1)

    assert bench.left_ms("session", GROUP, ids["c1"]) == SESSION_MS
    bench.advance(SESSION_MS - 1)
    assert ids["c1"] in bench.group.members.by_id
    bench.advance(1)
    assert ids["c1"] not in bench.group.members.by_id


def test_a_refused_heartbeat_is_no_sign_of_life() -> None:
    """The session timer is armed by heartbeats answered 0 and 27 only."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.advance(SESSION_MS - 1)

    bench.heartbeat("c1", formed.leader, formed.generation + 1)

    assert bench.left_ms("session", GROUP, formed.leader) == 1


@scenario("S057")
def test_a_member_that_stops_heartbeating_expires_in_the_middle_of_a_rebalance() -> None:
    """S057 testClassicGroupMemberSessionTimeoutDuringRebalance."""
    bench = Bench()
    formed = bench.stable_group("c1")
    newcomer = bench.join_twice("c2")
    for _ in range(2):
        bench.advance(SESSION_MS - 1)
        assert bench.heartbeat("c1", formed.leader, 1) is E.REBALANCE_IN_PROGRESS
    assert newcomer.reply is None

    bench.advance(SESSION_MS)

    assert bench.heartbeat("c1", formed.leader, 1) is E.UNKNOWN_MEMBER_ID
    assert newcomer.reply.generation == 2
    assert newcomer.reply.leader == newcomer.reply.member_id


@scenario("S059")
def test_a_newcomer_makes_the_others_heartbeats_say_rejoin() -> None:
    """S059 testHeartbeatDuringRebalanceCausesRebalanceInProgress."""
    bench = Bench()
    formed = bench.stable_group("c1")

    bench.join_twice("c2")

    assert bench.heartbeat("c1", formed.leader, 1) is E.REBALANCE_IN_PROGRESS


def test_an_expired_session_in_stable_rebalances_the_rest() -> None:
    """The member is removed as by LeaveGroup."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    bench.advance(SESSION_MS - 1)
    bench.heartbeat("c2", formed.ids["c2"], 1)

    bench.advance(1)

    assert bench.group.state is PREPARING
    assert bench.join("c2", formed.ids["c2"]).reply.generation == 2


# --- leave ---------------------------------------------------------------------------------------------------------


def leaving(member_id: str = "", instance: str | None = None) -> LeavingMember:
    """One entry of a batch."""
    return LeavingMember(member_id=member_id, instance_id=instance)


@scenario("S018")
def test_the_leave_of_a_pending_id_completes_a_join_phase_that_waited_for_it() -> None:
    """S018 testPendingMembersLeaveGroup."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    pending = bench.join("c3").reply.member_id
    joins = [bench.join(client, formed.ids[client]) for client in ("c1", "c2")]
    assert [join.reply for join in joins] == [None, None]

    leave = bench.leave("c3", leaving(pending))

    assert (leave.error, leave.reply.members[0].error) == (E.NONE, E.NONE)
    assert [join.reply.generation for join in joins] == [2, 2]
    assert bench.left_ms("session", GROUP, pending) is None


@scenario("S020")
def test_a_batch_leave_answers_each_in_the_order_of_the_request() -> None:
    """S020 testJoinedMemberPendingMemberBatchLeaveGroupWithUnknownMember."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    pending = bench.join("c3").reply.member_id

    leave = bench.leave(
        "admin", leaving(formed.ids["c1"]), leaving(formed.ids["c2"]), leaving(pending), leaving("ghost")
    )

    assert leave.error is E.NONE
    assert [row.error for row in leave.reply.members] == [E.NONE, E.NONE, E.NONE, E.UNKNOWN_MEMBER_ID]
    assert [row.member_id for row in leave.reply.members] == [*formed.ids.values(), pending, "ghost"]
    assert bench.group.state is EMPTY


@scenario("S080")
def test_the_last_member_to_leave_empties_the_group() -> None:
    """S080 testValidLeaveGroup; the answer waits for the record (java)."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.hold_appends = True

    leave = bench.leave("c1", leaving(formed.leader))
    assert (leave.reply, bench.group.state) == (None, EMPTY)
    bench.release()

    assert (leave.error, leave.reply.members[0].error) == (E.NONE, E.NONE)
    assert bench.group.shared.generation == formed.generation + 1
    assert bench.noted(JoinPhaseCompleted)[-1].members == ()
    assert bench.timers.keys() == {("expire",)}


def test_a_leave_whose_record_fails_is_told_so() -> None:
    """The failure of an empty group's record is only logged; the LeaveGroup that waited hears of it."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.append_errors = [E.NOT_ENOUGH_REPLICAS]

    leave = bench.leave("c1", leaving(formed.leader))

    assert leave.error is E.COORDINATOR_NOT_AVAILABLE
    assert bench.group.state is EMPTY


@scenario("S081")
def test_an_unknown_member_cannot_leave() -> None:
    """S081 testLeaveGroupUnknownMemberIdExistingGroup."""
    bench = Bench()
    bench.stable_group("c1")

    leave = bench.leave("c1", leaving("ghost"), leaving("", "ghost"), leaving("", None))

    assert leave.error is E.NONE
    assert [row.error for row in leave.reply.members] == [E.UNKNOWN_MEMBER_ID] * 3
    assert bench.group.state is STABLE


def test_leaving_an_unknown_group_is_an_error_of_each_member() -> None:
    """Top-level 0 with 25 for every member."""
    bench = Bench()

    leave = bench.leave("c1", leaving("a"), leaving("b", "i"))

    assert leave.error is E.NONE
    assert [(row.member_id, row.error) for row in leave.reply.members] == [
        ("a", E.UNKNOWN_MEMBER_ID),
        ("b", E.UNKNOWN_MEMBER_ID),
    ]


@scenario("S082")
def test_leaving_a_dead_group_lists_no_members() -> None:
    """S082 testLeaveDeadGroup."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.group.die("test")

    leave = bench.leave("c1", leaving(formed.leader))

    assert (leave.error, leave.reply.members) == (E.COORDINATOR_NOT_AVAILABLE, ())


@scenario("S083")
def test_an_instance_with_another_member_id_cannot_leave() -> None:
    """S083 testLeaveGroupWithFencedInstanceId."""
    bench = Bench()
    bench.stable_group("c1", static=True)

    (row,) = bench.leave("c1", leaving("ghost", "i-c1")).reply.members

    assert row.error is E.FENCED_INSTANCE_ID


@scenario("S084")
def test_an_admin_removes_a_static_member_by_its_instance_id_alone() -> None:
    """S084 testLeaveGroupStaticMemberWithUnknownMemberId."""
    bench = Bench()
    bench.stable_group("c1", static=True)

    leave = bench.leave("admin", leaving("", "i-c1"))

    assert [row.error for row in leave.reply.members] == [E.NONE]
    assert bench.group.state is EMPTY


@scenario("S085")
def test_two_instances_leave_in_one_request() -> None:
    """S085 testStaticMembersValidBatchLeaveGroup."""
    bench = Bench()
    bench.stable_group("c1", "c2", static=True)

    leave = bench.leave("admin", leaving("", "i-c1"), leaving("", "i-c2"))

    assert [(row.instance_id, row.error) for row in leave.reply.members] == [("i-c1", E.NONE), ("i-c2", E.NONE)]
    assert (bench.group.state, bench.group.shared.generation) == (EMPTY, 2)


@pytest.mark.parametrize("version", [0, 2])
def test_before_v3_the_members_error_is_the_requests(version: int) -> None:
    """V0-2 carry a single member id; the member error is then the top-level error."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")

    assert bench.ask("c1", LeaveGroup(group=GROUP, member_id="ghost"), version).error is E.UNKNOWN_MEMBER_ID
    assert bench.ask("c1", LeaveGroup(group=GROUP, member_id=formed.ids["c1"]), version).error is E.NONE
    assert bench.group.state is PREPARING


def test_a_leave_answers_the_parked_join_of_the_member_and_starts_a_rebalance() -> None:
    """Parked join answered with 25 (empty member id); the map's first member leads."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", "c3")
    parked = bench.join("c1", formed.ids["c1"])
    first = next(each for each in bench.group.members.hashed() if each != formed.ids["c1"])

    bench.leave("c1", leaving(formed.ids["c1"]))

    assert (parked.error, parked.reply.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert bench.noted(LeaderElected)[-1].member_id == first
    joins = [bench.join(client, formed.ids[client]) for client in ("c2", "c3")]
    assert [join.reply.generation for join in joins] == [2, 2]


def test_a_leave_while_the_assignment_is_awaited_sends_all_back_to_join() -> None:
    """CompletingRebalance -> start a rebalance, parked syncs answered 27."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2", "c3"))
    follower = bench.sync("c2", ids["c2"], 1)

    bench.leave("c3", leaving(ids["c3"]))

    assert follower.error is E.REBALANCE_IN_PROGRESS
    assert bench.group.state is PREPARING


def test_a_parked_sync_of_a_removed_member_is_never_answered() -> None:
    """As in ClassicGroup.remove: only the parked join of a removed member is answered."""
    bench = Bench()
    ids = ids_of(joined(bench, "c1", "c2", "c3"))
    sync = bench.sync("c3", ids["c3"], 1)

    bench.leave("admin", leaving(ids["c3"]))
    bench.advance(2 * REBALANCE_MS)

    assert sync.reply is None


@pytest.mark.parametrize(
    ("check", "error"),
    [
        (lambda b, f: b.heartbeat("c1", f.ids["c2"], 9, instance="i-c1"), E.FENCED_INSTANCE_ID),
        (lambda b, f: b.heartbeat("c1", "ghost", 9, instance="ghost"), E.UNKNOWN_MEMBER_ID),
        (lambda b, f: b.heartbeat("c1", "ghost", 9, instance="i-c1"), E.FENCED_INSTANCE_ID),
        (lambda b, f: b.heartbeat("c1", "ghost", 9), E.UNKNOWN_MEMBER_ID),
        (lambda b, f: b.sync("c1", "ghost", 9, instance="i-c1", protocol="x").error, E.FENCED_INSTANCE_ID),
        (lambda b, f: b.sync("c1", "ghost", 9, protocol="x").error, E.UNKNOWN_MEMBER_ID),
        (lambda b, f: b.sync("c1", f.ids["c1"], 9, protocol="x").error, E.ILLEGAL_GENERATION),
        (lambda b, f: b.sync("c1", f.ids["c1"], 1, protocol="x").error, E.INCONSISTENT_GROUP_PROTOCOL),
        (lambda b, f: b.commit_error("c1", member_id="ghost", generation=9, instance="i-c1"), E.FENCED_INSTANCE_ID),
        (lambda b, f: b.commit_error("c1", member_id=f.ids["c1"], generation=9), E.ILLEGAL_GENERATION),
    ],
)
def test_instance_is_checked_before_member_before_generation_before_protocol(
    check: Callable[[Bench, object], E], error: E
) -> None:
    """KIP-345: the instance id comes first."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", static=True)

    assert check(bench, formed) is error


# --- election / vote -----------------------------------------------------------------------------------------------


@scenario("S107")
def test_the_protocol_most_members_prefer_among_those_all_support_wins() -> None:
    """S107 testSelectProtocol."""
    bench = Bench()
    bench.join("c1", names=("range", "roundrobin", "sticky"), version=3)
    bench.join("c2", names=("sticky", "range", "roundrobin"), version=3)
    bench.join("c3", names=("sticky", "roundrobin"), version=3)
    assert bench.group.members.vote() == "sticky"

    bench.join("c4", names=("roundrobin",), version=3)

    assert bench.group.members.vote() == "roundrobin"


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("scala", ("cooperative-sticky", "roundrobin", "range", "sticky")),
        ("java", ("sticky", "range", "roundrobin", "cooperative-sticky")),
    ],
)
def test_a_tied_vote_goes_by_the_hashes_of_the_names(kind: str, order: tuple[str, ...]) -> None:
    """GroupMetadata.selectProtocol (3.4.1: groupBy, maxBy), ClassicGroup.selectProtocol (4.0: HashMap, max)."""
    for better, worse in combinations(order, 2):
        bench = Bench(coordinator_kind=kind)
        bench.join("c1", names=(worse, better), version=3)
        bench.join("c2", names=(better, worse), version=3)

        assert bench.group.members.vote() == better


@scenario("S109")
@pytest.mark.parametrize("rejoins", [True, False])
def test_the_leader_of_a_generation_is_one_who_joined_it(rejoins: bool) -> None:
    """S109 testElectNewJoinedLeader (and testMaybeElectNewJoinedLeaderChooseExisting)."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", session_ms=600_000)
    if rejoins:
        bench.join("c1", formed.ids["c1"], data=metadata("u"))
    follower = bench.join("c2", formed.ids["c2"], data=metadata("u"))

    bench.advance(REBALANCE_MS)

    assert follower.reply.leader == formed.ids["c1" if rejoins else "c2"]


def test_the_generation_rises_with_every_completed_join_phase_and_with_nothing_else() -> None:
    """An empty group counts its generation, too."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    bench.join("c2", formed.ids["c2"])
    bench.sync("c2", formed.ids["c2"], 1)
    bench.heartbeat("c2", formed.ids["c2"], 1)
    assert bench.group.shared.generation == 1

    bench.leave("admin", *[leaving(member_id) for member_id in formed.ids.values()])

    assert bench.group.shared.generation == 2
    rejoin = bench.join_twice("c1")
    bench.advance(DELAY_MS)
    assert rejoin.reply.generation == 3
