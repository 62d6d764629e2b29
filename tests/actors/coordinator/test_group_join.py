"""JoinGroup: new members, pending ids, the initial delay, rejoins, the size limit."""

import pytest

from kemu.actors.coordinator.state import COMPLETING, EMPTY, PREPARING, STABLE
from kemu.protocol.errors import ErrorCode as E
from kemu.protocol.messages.group import Heartbeat, LeavingMember
from kemu.protocol.messages.records import GroupRecord, decode_record
from kemu.protocol.notes.groups import LeaderElected, MemberRemoved, RequestRefused
from tests.actors.coordinator.coordinator_harness import (
    DELAY_MS,
    GROUP,
    NEW_MEMBER_MS,
    REBALANCE_MS,
    SESSION_MS,
    Bench,
    metadata,
    protocols,
)
from tests.actors.coordinator.scenarios import scenario

# --- join/basic ----------------------------------------------------------------------------------------------------


@scenario("S001")
@pytest.mark.parametrize("instance", [None, "i"])
def test_a_known_id_does_not_create_a_group(instance: str | None) -> None:
    """S001 testJoinGroupUnknownMemberNewGroup."""
    bench = Bench()

    join = bench.join("c1", "ghost", instance=instance)

    assert join.error is E.UNKNOWN_MEMBER_ID
    assert join.reply.member_id == "ghost"
    assert GROUP not in bench.coordinator.groups
    assert bench.log() == []


@scenario("S002")
def test_another_protocol_type_is_refused() -> None:
    """S002 testClassicGroupJoinInconsistentProtocolType."""
    bench = Bench()
    bench.join_twice("c1")

    assert bench.join("c2", protocol_type="connect").error is E.INCONSISTENT_GROUP_PROTOCOL


@scenario("S003")
@pytest.mark.parametrize("instance", [None, "i"])
@pytest.mark.parametrize("how", [{"protocol_type": ""}, {"names": ()}])
def test_an_empty_group_wants_a_protocol_type_and_a_protocol(how: dict, instance: str | None) -> None:
    """S003 testJoinGroupWithEmptyProtocolType."""
    bench = Bench()

    join = bench.join("c1", instance=instance, **how)

    assert join.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert join.reply.member_id == ""
    assert bench.group.state is EMPTY


@scenario("S004")
def test_a_newcomer_must_support_what_all_support() -> None:
    """S004 testJoinGroupInconsistentGroupProtocol."""
    bench = Bench()
    formed = bench.stable_group("c1", names=("range", "roundrobin"))

    refused = bench.join("c2", names=("sticky",))

    assert refused.error is E.INCONSISTENT_GROUP_PROTOCOL
    assert bench.heartbeat("c1", formed.ids["c1"], formed.generation) is E.NONE
    assert bench.group.state is STABLE


def test_one_protocol_in_common_with_all_is_enough() -> None:
    """The protocol type must match, and one protocol must be supported by all members."""
    bench = Bench()
    bench.join_twice("c1", names=("range", "roundrobin"))
    bench.join_twice("c2", names=("roundrobin", "sticky"))

    assert bench.join("c3", names=("range", "sticky")).error is E.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join("c3", names=("range", "roundrobin")).error is E.MEMBER_ID_REQUIRED


@scenario("S006")
def test_an_unknown_id_is_refused_by_a_live_group() -> None:
    """S006 testJoinGroupUnknownConsumerExistingGroup."""
    bench = Bench()
    bench.stable_group("c1")

    join = bench.join("c2", "ghost")

    assert join.error is E.UNKNOWN_MEMBER_ID
    assert bench.group.state is STABLE


@scenario("S007")
def test_a_dead_group_sends_everybody_to_look_for_a_coordinator() -> None:
    """S007 testJoinGroupUnknownConsumerNewDeadGroup (and testExistingMemberJoinDeadGroup)."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.group.die("test")

    assert bench.join("c2").error is E.COORDINATOR_NOT_AVAILABLE
    known = bench.join("c1", formed.ids["c1"])
    assert known.error is E.COORDINATOR_NOT_AVAILABLE
    assert known.reply.member_id == formed.ids["c1"]


@scenario("S008")
def test_a_refused_join_names_no_protocol_generation_or_leader() -> None:
    """S008 testJoinGroupProtocolTypeIsNotProvidedWhenAnErrorOccurs; before v7 the protocol is an empty string."""
    bench = Bench()
    bench.stable_group("c1")

    reply = bench.join("c2", "ghost", version=9).reply
    older = bench.join("c2", "ghost", version=6).reply

    assert (reply.generation, reply.protocol_type, reply.protocol_name) == (-1, None, None)
    assert (reply.leader, reply.members) == ("", ())
    assert older.protocol_name == ""
    (refused, _) = [note for note in bench.noted(RequestRefused) if note.error is E.UNKNOWN_MEMBER_ID]
    assert (refused.group, refused.api, refused.member_id) == (GROUP, "JoinGroup", "ghost")


@scenario("S009")
@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_outside_the_limits_touches_nothing(session_ms: int) -> None:
    """S009 testJoinGroupSessionTimeoutTooSmall."""
    bench = Bench()

    assert bench.join("c1", session_ms=session_ms).error is E.INVALID_SESSION_TIMEOUT
    assert GROUP not in bench.coordinator.groups
    assert bench.timers.keys() == {("expire",)}


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_the_limits_of_the_session_timeout_are_allowed(session_ms: int) -> None:
    """A session timeout outside [min, max] gets INVALID_SESSION_TIMEOUT."""
    assert Bench().join("c1", session_ms=session_ms).error is E.MEMBER_ID_REQUIRED


@scenario("S011")
def test_the_first_join_writes_an_empty_record_and_hands_out_an_id() -> None:
    """S011 testGenerateRecordsOnNewClassicGroup."""
    bench = Bench()
    bench.hold_appends = True

    join = bench.join("c1")

    assert join.error is E.MEMBER_ID_REQUIRED
    assert join.reply.member_id.startswith("c1-")
    (held,) = bench.held
    (record,) = held.append.records
    found = decode_record(*record)
    assert isinstance(found, GroupRecord) and found.metadata is not None
    assert (found.metadata.protocol_type, found.metadata.generation, found.metadata.members) == ("", 0, ())
    assert (found.metadata.protocol, found.metadata.leader) == (None, None)


def test_before_v4_a_newcomer_is_a_member_at_once() -> None:
    """API < v4 adds the member at once (KIP-394 came with v4)."""
    bench = Bench()

    join = bench.join("c1", version=3)

    assert join.reply is None
    assert len(bench.group.members) == 1
    bench.advance(DELAY_MS)
    assert join.reply.generation == 1


def test_v0_has_the_session_timeout_for_a_rebalance_timeout() -> None:
    """Join v0 has no rebalance timeout: session timeout is used."""
    bench = Bench()
    bench.join("c1", version=0, session_ms=7_000)

    (member,) = bench.group.members
    assert member.rebalance_timeout_ms == 7_000


def test_ids_are_readable_and_never_repeat_across_lives() -> None:
    """Kafka appends a random UUID; here broker, leader epoch and a count."""
    bench = Bench(node_id=4)
    first = bench.join("c1").reply.member_id
    second = bench.join("c1").reply.member_id
    bench.crash_and_restart()
    third = bench.join("c1").reply.member_id

    assert first == "c1-b4.2-1"
    assert len({first, second, third}) == 3


def test_a_failed_record_of_a_new_group_is_told_to_a_parked_join() -> None:
    """The empty record of the group that the join created; the member stays in the join phase."""
    bench = Bench()
    bench.append_errors = [E.NOT_ENOUGH_REPLICAS]

    join = bench.join("c1", version=3)

    assert join.error is E.COORDINATOR_NOT_AVAILABLE
    bench.advance(DELAY_MS)
    assert bench.group.shared.generation == 1
    assert bench.group.state is COMPLETING


# --- pending members / KIP-394 -------------------------------------------------------------------------------------


@scenario("S013")
def test_an_id_that_is_never_used_is_dropped_after_the_session_timeout() -> None:
    """S013 testHeartbeatExpirationShouldRemovePendingMember; exactly at the deadline counts as expired."""
    bench = Bench()
    member_id = bench.join("c1").reply.member_id

    bench.advance(SESSION_MS - 1)
    assert member_id in bench.group.members.pending
    bench.advance(1)

    assert not bench.group.members.pending
    assert bench.join("c1", member_id).error is E.UNKNOWN_MEMBER_ID


@scenario("S015")
def test_an_unused_id_leaves_a_stable_group_alone() -> None:
    """S015 testSecondMemberPartiallyJoinAndTimeout."""
    bench = Bench()
    formed = bench.stable_group("c1")
    bench.join("c2")

    for _ in range(3):
        bench.advance(SESSION_MS // 2)
        assert bench.heartbeat("c1", formed.ids["c1"], formed.generation) is E.NONE

    assert not bench.group.members.pending
    assert (bench.group.state, bench.group.shared.generation) == (STABLE, formed.generation)


@scenario("S016")
def test_a_rebalance_waits_for_the_ids_that_were_handed_out() -> None:
    """S016 testJoinGroupCompletionWhenPendingMemberJoins."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    pending = bench.join("c3").reply.member_id
    first = bench.join("c1", formed.ids["c1"])
    second = bench.join("c2", formed.ids["c2"])
    assert (first.reply, second.reply) == (None, None)

    third = bench.join("c3", pending)

    assert [ask.reply.generation for ask in (first, second, third)] == [2, 2, 2]
    assert len(first.reply.members) == 3


@pytest.mark.parametrize("how", ["sync", "heartbeat", "commit"])
def test_a_pending_id_is_a_member_nowhere_else(how: str) -> None:
    """Sync, heartbeat and commit with a pending id -> 25."""
    bench = Bench()
    bench.stable_group("c1")
    pending = bench.join("c2").reply.member_id

    answers = {
        "sync": lambda: bench.sync("c2", pending, 1).error,
        "heartbeat": lambda: bench.heartbeat("c2", pending, 1),
        "commit": lambda: bench.commit_error("c2", member_id=pending, generation=1),
    }
    assert answers[how]() is E.UNKNOWN_MEMBER_ID


def test_a_pending_id_with_an_instance_id_is_an_internal_error() -> None:
    """Only dynamic members get pending ids."""
    bench = Bench()
    pending = bench.join("c1").reply.member_id

    assert bench.join("c1", pending, instance="i").error is E.UNKNOWN_SERVER_ERROR
    assert bench.join("c1", pending).reply is None


@scenario("S022")
def test_the_join_limit_of_a_new_member_ends_with_the_join_phase() -> None:
    """S022 testNewMemberTimeoutCompletion."""
    bench = Bench()
    join = bench.join("c1", version=3, session_ms=6_000, rebalance_ms=400_000)
    key = ("session", GROUP, next(iter(bench.group.members.by_id)))
    assert bench.left_ms(*key) == NEW_MEMBER_MS

    bench.advance(DELAY_MS)
    assert bench.left_ms(*key) == 6_000
    formed = bench.form({"c1": join})
    bench.advance(6_000)

    assert (bench.group.state, bench.group.shared.generation) == (EMPTY, formed.generation + 1)
    found = decode_record(*bench.log()[-1])
    assert isinstance(found, GroupRecord) and found.metadata is not None
    assert (found.metadata.generation, found.metadata.protocol, found.metadata.members) == (2, None, ())
    assert found.metadata.protocol_type == "consumer"


def test_a_new_member_is_given_up_after_five_minutes_of_waiting() -> None:
    """New member: parked join answered 25, member removed (also while it awaits)."""
    bench = Bench()
    formed = bench.stable_group("c1", session_ms=400_000, rebalance_ms=1_000_000)
    newcomer = bench.join_twice("c2", session_ms=400_000, rebalance_ms=1_000_000)
    assert bench.group.state is PREPARING

    bench.advance(NEW_MEMBER_MS - 1)
    assert newcomer.reply is None
    bench.heartbeat("c1", formed.ids["c1"], 1)
    bench.advance(1)

    assert newcomer.error is E.UNKNOWN_MEMBER_ID
    assert newcomer.reply.member_id == ""
    assert len(bench.group.members) == 1


# --- initial rebalance delay / KIP-134 -----------------------------------------------------------------------------


@scenario("S024")
def test_the_first_join_is_parked_for_exactly_the_initial_delay() -> None:
    """S024 testDelayInitialRebalanceByGroupInitialRebalanceDelayOnEmptyGroup."""
    bench = Bench()
    join = bench.join_twice("c1")

    bench.advance(DELAY_MS - 1)
    assert join.reply is None
    bench.advance(1)

    assert join.error is E.NONE
    assert (bench.group.state, join.reply.generation) == (COMPLETING, 1)


@scenario("S025")
def test_a_member_that_comes_during_the_initial_delay_extends_it() -> None:
    """S025 testResetRebalanceDelayWhenNewMemberJoinsGroupDuringInitialRebalance."""
    bench = Bench()
    first = bench.join_twice("c1")
    bench.advance(DELAY_MS - 1)
    second = bench.join_twice("c2")

    bench.advance(1)
    assert (first.reply, second.reply) == (None, None)
    bench.advance(DELAY_MS - 1)
    assert (first.reply, second.reply) == (None, None)
    bench.advance(1)

    assert (first.reply.generation, second.reply.generation) == (1, 1)


def test_the_initial_delay_is_capped_by_the_first_members_rebalance_timeout() -> None:
    """Total never exceeds max(D, R) with R of the first member."""
    bench = Bench()
    first = bench.join_twice("c0", rebalance_ms=7_000)
    for index in range(1, 10):
        bench.advance(999)
        bench.join_twice(f"c{index}", rebalance_ms=60_000)
        if first.reply is not None:
            break

    bench.until_answered(first)
    assert first.answered_us == 7_000_000


def test_everybody_having_joined_does_not_cut_the_initial_delay_short() -> None:
    """More members may join until its end (KIP-134)."""
    bench = Bench()
    first = bench.join_twice("c1")
    again = bench.join("c1", next(iter(bench.group.members.by_id)))

    assert bench.group.phase.all_joined
    assert (first.reply, again.reply) == (None, None)
    bench.advance(DELAY_MS)
    assert again.reply.generation == 1


@scenario("S027")
def test_the_initial_delay_of_a_dead_group_ends_in_nothing() -> None:
    """S027 testCompleteJoinPhaseInEmptyStateSkipsRebalance."""
    bench = Bench()
    bench.join_twice("c1")
    bench.group.die("test")

    bench.group.phase.timer_fired()

    assert bench.group.shared.generation == 0


# --- rejoin matrix -------------------------------------------------------------------------------------------------


@scenario("S028")
def test_completing_with_changed_metadata_rebalances() -> None:
    """S028 testJoinGroupExistingMemberUpdatedMetadataTriggersRebalance."""
    bench = Bench()
    join = bench.join_twice("c1")
    bench.advance(DELAY_MS)
    member_id = join.reply.member_id
    assert bench.group.state is COMPLETING

    again = bench.join("c1", member_id, names=("range", "roundrobin"))

    assert again.reply.generation == 2
    assert bench.group.state is COMPLETING


@scenario("S029")
def test_completing_with_identical_metadata_answers_the_current_generation() -> None:
    """S029 testStaticMemberRejoinWithKnownMemberId."""
    bench = Bench()
    join = bench.join("c1", instance="i")
    bench.advance(DELAY_MS)

    again = bench.join("c1", join.reply.member_id, instance="i")

    assert again.reply == join.reply
    assert len(again.reply.members) == 1
    assert bench.group.state is COMPLETING


def test_completing_with_identical_metadata_gives_a_follower_no_list() -> None:
    """Full member list iff leader."""
    bench = Bench()
    first, second = bench.join_twice("c1"), bench.join_twice("c2")
    bench.until_answered(first, second)

    again = bench.join("c2", second.reply.member_id)

    assert (again.reply.generation, again.reply.members) == (1, ())


@scenario("S030")
def test_a_stable_leader_that_rejoins_unchanged_rebalances() -> None:
    """S030 testJoinGroupAsExistingLeaderTriggersRebalanceInStableState."""
    bench = Bench()
    formed = bench.stable_group("c1")

    again = bench.join("c1", formed.leader)

    assert again.reply.generation == formed.generation + 1
    assert bench.group.state is COMPLETING


@scenario("S031")
def test_a_stable_follower_with_changed_metadata_rebalances() -> None:
    """S031 testJoinGroupAsExistingMemberWithUpdatedMetadataTriggersRebalanceInStableState."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    assert formed.leader == formed.ids["c1"]

    changed = bench.join("c2", formed.ids["c2"], data=metadata("t", "u"))

    assert changed.reply is None
    assert bench.group.state is PREPARING
    leader = bench.join("c1", formed.ids["c1"])
    assert (changed.reply.generation, leader.reply.generation) == (2, 2)
    assert [row.metadata for row in leader.reply.members] == [metadata("t"), metadata("t", "u")]


@scenario("S032")
def test_a_stable_follower_that_rejoins_unchanged_gets_the_current_generation() -> None:
    """S032 testJoinGroupExistingMemberDoesNotTriggerRebalanceInStableState."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")

    again = bench.join("c2", formed.ids["c2"])

    assert (again.reply.generation, again.reply.leader, again.reply.members) == (1, formed.leader, ())
    assert bench.group.state is STABLE


@pytest.mark.parametrize(
    "changed",
    [
        protocols("roundrobin", "range"),
        protocols("range"),
        protocols("range", "roundrobin", data=metadata("u")),
    ],
    ids=["order", "fewer", "bytes"],
)
def test_metadata_is_identical_only_name_by_name_and_byte_by_byte(changed: tuple) -> None:
    """Same protocol names in the same order with byte-equal metadata."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", names=("range", "roundrobin"))

    bench.join("c2", formed.ids["c2"], given=changed)

    assert bench.group.state is PREPARING


def test_timeouts_are_neither_compared_nor_taken_over_when_metadata_is_identical() -> None:
    """Only protocols decide whether a rejoin changes something."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")

    again = bench.join("c2", formed.ids["c2"], session_ms=20_000, rebalance_ms=1)

    assert again.error is E.NONE
    member = bench.group.members.by_id[formed.ids["c2"]]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (SESSION_MS, REBALANCE_MS)


@scenario("S034")
def test_the_rebalance_timeout_drops_a_silent_dynamic_leader() -> None:
    """S034 testCompleteJoinRemoveNotYetRejoinedDynamicMembers."""
    bench = Bench()
    formed = bench.stable_group("c1", session_ms=600_000)
    newcomer = bench.join_twice("c2", session_ms=600_000)

    bench.advance(REBALANCE_MS - 1)
    assert newcomer.reply is None
    bench.advance(1)

    assert newcomer.reply.generation == 2
    assert newcomer.reply.leader == newcomer.reply.member_id
    assert [row.member_id for row in newcomer.reply.members] == [newcomer.reply.member_id]
    (removed,) = bench.noted(MemberRemoved)
    assert removed.member_id == formed.ids["c1"]
    assert bench.noted(LeaderElected)[-1].member_id == newcomer.reply.member_id
    assert bench.left_ms("session", GROUP, formed.ids["c1"]) is None


def test_a_parked_join_replaced_by_a_retry_is_never_answered() -> None:
    """Awaiting members are counted by member, not by request."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", "c3")
    lost = bench.join("c1", formed.ids["c1"])
    retry = bench.join("c1", formed.ids["c1"])
    assert len(bench.group.phase.parked) == 1
    bench.join("c2", formed.ids["c2"])

    bench.join("c3", formed.ids["c3"])

    assert retry.reply.generation == 2
    assert lost.reply is None


def test_a_join_does_not_rearm_the_session_and_a_parked_member_does_not_expire() -> None:
    """The old timer may fire while parked and is then ignored."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2")
    bench.advance(SESSION_MS - 1_000)
    bench.heartbeat("c2", formed.ids["c2"], 1)
    parked = bench.join("c1", formed.ids["c1"])
    assert bench.left_ms("session", GROUP, formed.ids["c1"]) == 1_000

    bench.advance(1_000)
    assert formed.ids["c1"] in bench.group.members.by_id
    bench.join("c2", formed.ids["c2"])

    assert parked.reply.generation == 2
    assert bench.left_ms("session", GROUP, formed.ids["c1"]) == SESSION_MS


def test_the_join_timer_completes_regardless_of_ids_that_were_handed_out() -> None:
    """The join timer leaves pending ids pending."""
    bench = Bench()
    formed = bench.stable_group("c1", session_ms=100_000)
    pending = bench.join("c2", session_ms=100_000).reply.member_id
    again = bench.join("c1", formed.ids["c1"], session_ms=100_000)
    assert again.reply is None

    bench.advance(REBALANCE_MS)

    assert again.reply.generation == 2
    assert pending in bench.group.members.pending
    assert bench.join("c2", pending).reply is None


def test_the_rebalance_timeout_of_a_group_is_the_longest_of_its_members() -> None:
    """Max over its members at the moment a timer is armed."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", rebalance_ms=20_000)
    bench.join("c1", formed.ids["c1"], data=metadata("u"), rebalance_ms=50_000)

    assert bench.left_ms("join", GROUP) == 50_000


# --- group.max.size / KIP-389 --------------------------------------------------------------------------------------


@scenario("S036")
def test_one_more_than_group_max_size_is_refused() -> None:
    """S036 testJoinGroupShouldReceiveErrorIfGroupOverMaxSize."""
    bench = Bench(group_max_size=10)
    for index in range(10):
        assert bench.join(f"c{index}", version=3).reply is None

    eleventh = bench.join("c10", version=3)

    assert eleventh.error is E.GROUP_MAX_SIZE_REACHED
    assert eleventh.reply.member_id == ""


@scenario("S037")
def test_ids_are_handed_out_freely_and_only_so_many_may_use_them() -> None:
    """S037 testDynamicMembersJoinGroupWithMaxSizeAndRequiredKnownMember."""
    bench = Bench(group_max_size=10)
    ids = [bench.join(f"c{index}").reply.member_id for index in range(11)]
    assert len(bench.group.members.pending) == 11

    second = [bench.join(f"c{index}", ids[index]) for index in range(11)]
    assert [ask.error for ask in second] == [None] * 10 + [E.GROUP_MAX_SIZE_REACHED]
    assert not bench.group.members.pending
    bench.until_answered(*second[:10])
    assert bench.group.state is COMPLETING
    third = [bench.join(f"c{index}", ids[index]) for index in range(11)]

    assert [ask.error for ask in third] == [E.NONE] * 10 + [E.GROUP_MAX_SIZE_REACHED]


def test_a_full_group_refuses_a_static_restart() -> None:
    """A static restart has an empty id, which the size limit does not recognize."""
    bench = Bench(group_max_size=2)
    bench.stable_group("c1", "c2", static=True)

    assert bench.join("c1", instance="i-c1").error is E.GROUP_MAX_SIZE_REACHED


def test_a_group_that_is_too_large_after_loading_is_trimmed() -> None:
    """At load, #members > M starts a rebalance, whose last rejoiners get 81."""
    bench = Bench()
    formed = bench.stable_group("c1", "c2", "c3")
    smaller = Bench(group_max_size=2, lead=False)
    smaller.lead(GROUP, records=tuple(bench.log()))
    assert smaller.group.state is PREPARING

    asks = [smaller.join(client, formed.ids[client]) for client in ("c1", "c2", "c3")]

    assert asks[2].error is E.GROUP_MAX_SIZE_REACHED
    assert formed.ids["c3"] not in smaller.group.members.by_id
    smaller.advance(REBALANCE_MS)
    assert [ask.reply.generation for ask in asks[:2]] == [2, 2]


def test_a_request_that_is_no_request_of_a_coordinator_is_our_own_mistake() -> None:
    """An unknown event is an assertion, a wrong request an error code."""
    bench = Bench()
    bench.leave("c1", LeavingMember(member_id="x"))

    with pytest.raises(AssertionError):
        bench.coordinator.handle(None)  # type: ignore[arg-type]
    assert bench.ask("c1", Heartbeat(group="nope", generation=1, member_id="x")).error is not None
